//! How far a site's worker is, told to programs in the kernel that hand it frames of the LAN and packets of peers.
//!
//! What was handed over before a turn began is gone when that turn, or a later one, finds nothing: all leaves in the turn that receives it.
//!
//! A packet that programs have opened comes by the data port as others do, and so behind those before it:
//!
//! ```text
//!  token 6 | peer 2 | header 8, in the clear | body
//! ```
//!
//! The token is a random number that no identifier of the programs' has, and they drop packets of the network that have it.
//!
//! Programs give each kind of strangers' packets a part of the worker's time. So the worker tells what a packet costs it: on another box, and
//! in another mode, it is another time.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use netdev::shared::SharedWords;
use tunnel::PeerId;
use wire::tunnel::{RID_OCTETS, SHORT_HEADER_OCTETS};

/// Memory that the programs read: how many turns have begun, the last one that found no frame of the LAN, the last one that found no packet
/// at the data port, that of plain mode, and the nanoseconds that a packet costs.
#[derive(Debug)]
pub struct Turns {
    words: SharedWords,
    begun: u64,
    token: [u8; RID_OCTETS],
    /// Time that packets took, and their number, since a cost was told last.
    took: Duration,
    packets: u32,
}

/// Packets over which the cost is a mean: some bursts, so that a worker that has to wait for its CPU once does not count for much.
const MEASURED: u32 = 1024;
/// Limits of a cost. A worker that stood still for seconds is to hear strangers still, among whom a peer may be that calls.
const COSTS: [u64; 2] = [1, 100_000];
/// Offset of the cost.
const COST: usize = 4;

/// Where a turn looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Lan = 1,
    DataPort = 2,
    PlainPort = 3,
}

impl Turns {
    /// Words of the memory.
    pub const WORDS: usize = 5;

    /// Goes on where a worker before was, of which nobody knows what it had still.
    pub fn new(words: SharedWords, token: [u8; RID_OCTETS]) -> Self {
        let mut begun = 0;
        if let [turns, found_none @ ..] = words.words() {
            begun = turns.load(Ordering::Relaxed);
            found_none.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        Self { words, begun, token, took: Duration::ZERO, packets: 0 }
    }

    /// A turn begins: nothing was looked for yet.
    pub(super) fn begin(&mut self) {
        self.begun += 1;
        if let Some(begun) = self.words.words().first() {
            begun.store(self.begun, Ordering::Relaxed);
        }
        // A program that hands something over after this turn has looked for it sees that the turn has begun.
        fence(Ordering::SeqCst);
    }

    /// The turn found nothing there.
    pub(super) fn find_none(&self, place: Place) {
        if let Some(word) = self.words.words().get(place as usize) {
            word.store(self.begun, Ordering::Release);
        }
    }

    /// Packets took this time.
    pub(super) fn spend(&mut self, took: Duration, packets: usize) {
        self.took += took;
        self.packets += packets as u32;
        if self.packets < MEASURED {
            return;
        }
        let [least, most] = COSTS;
        let cost = (self.took.as_nanos() / u128::from(self.packets)) as u64;
        if let Some(word) = self.words.words().get(COST) {
            word.store(cost.clamp(least, most), Ordering::Relaxed);
        }
        (self.took, self.packets) = (Duration::ZERO, 0);
    }

    /// The peer whose packet it is, if programs have opened it.
    pub(super) fn opened(&self, packet: &[u8]) -> Option<PeerId> {
        let [token @ .., high, low] = *packet.first_chunk::<{ RID_OCTETS + 2 }>()?;
        (token == self.token && packet.len() >= SHORT_HEADER_OCTETS)
            .then(|| PeerId(u16::from_be_bytes([high, low])))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    const TOKEN: [u8; RID_OCTETS] = [0x3c, 1, 2, 3, 4, 5];

    /// A file in place of a map: both are pages that somebody else has too.
    fn memory() -> File {
        let path = std::env::temp_dir().join(format!(
            "turns-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.set_len(4096).unwrap();
        file
    }

    fn shared(file: &File) -> SharedWords {
        SharedWords::map(file.as_fd(), Turns::WORDS).unwrap()
    }

    #[test]
    fn programs_see_that_a_turn_has_begun_and_where_it_found_nothing() {
        let file = memory();
        let words = shared(&file);
        words.words()[1].store(u64::MAX, Ordering::Relaxed);
        let mut turns = Turns::new(shared(&file), TOKEN);
        let seen = || [0, 1, 2, 3].map(|word: usize| words.words()[word].load(Ordering::SeqCst));
        assert_eq!(seen(), [0; 4], "nobody knows whether all is done");
        turns.begin();
        assert_eq!(seen(), [1, 0, 0, 0]);
        turns.find_none(Place::Lan);
        assert_eq!(seen(), [1, 1, 0, 0]);
        turns.begin();
        turns.find_none(Place::DataPort);
        turns.find_none(Place::PlainPort);
        assert_eq!(seen(), [2, 1, 2, 2]);
        let mut next = Turns::new(shared(&file), TOKEN);
        assert_eq!(seen(), [2, 0, 0, 0]);
        next.begin();
        assert_eq!(seen(), [3, 0, 0, 0], "no number comes twice");
    }

    #[test]
    fn programs_see_what_a_packet_costs_as_a_mean() {
        let file = memory();
        let words = shared(&file);
        let cost = || words.words()[COST].load(Ordering::SeqCst);
        words.words()[COST].store(7, Ordering::SeqCst);
        let mut turns = Turns::new(shared(&file), TOKEN);
        assert_eq!(cost(), 0, "not that of a worker before");
        let burst = Duration::from_micros(64);
        for number in 1..16 {
            turns.spend(burst, 64);
            assert_eq!(cost(), 0, "{number} bursts are few");
        }
        turns.spend(17 * burst, 64);
        assert_eq!(cost(), 2000, "sixteen bursts in the time of 32");
        (0..16).for_each(|_| turns.spend(burst, 64));
        assert_eq!(cost(), 1000, "the one that took long is forgotten");
        (0..16).for_each(|_| turns.spend(Duration::ZERO, 64));
        assert_eq!(cost(), 1, "not unknown");
        (0..16).for_each(|_| turns.spend(Duration::from_secs(1), 64));
        assert_eq!(cost(), 100_000);
    }

    #[test]
    fn a_packet_with_the_token_was_opened() {
        let turns = Turns::new(shared(&memory()), TOKEN);
        let packet = [&TOKEN[..], &[1, 2], &[7; 8]].concat();
        assert_eq!(turns.opened(&packet), Some(PeerId(0x102)));
        assert_eq!(turns.opened(&packet[..15]), None);
        for octet in 0..RID_OCTETS {
            let mut other = packet.clone();
            other[octet] ^= 1;
            assert_eq!(turns.opened(&other), None, "{octet}");
        }
    }
}
