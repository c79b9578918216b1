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
//! The token is a MAC of peer, header and period, under a key that programs and worker have. The programs drop packets of the network that have
//! one. They open only what the socket receives, so that nobody else sees a token. If one leaks all the same, it opens its own header, until
//! the next period ends: the worker begins one every four seconds.
//!
//! Programs give each kind of strangers' packets a part of the worker's time. So the worker tells what a packet costs it: on another box, and
//! in another mode, it is another time.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use netdev::shared::SharedWords;
use suite::tunnel::TokenKey;
use tunnel::PeerId;
use wire::Instant;
use wire::tunnel::SHORT_HEADER_OCTETS;

/// Memory that the programs read: how many turns have begun, the last one that found no frame of the LAN, the last one that found no packet
/// at the data port, that of plain mode, the nanoseconds that a packet costs, and the period of tokens.
#[derive(Debug)]
pub struct Turns {
    words: SharedWords,
    begun: u64,
    token_key: TokenKey,
    /// Peers have numbers below this.
    peers: u16,
    period: u64,
    /// Begin of the period, once a turn has told the time.
    period_began: Option<Instant>,
    /// Time that packets took, and their number, since a cost was told last.
    took: Duration,
    packets: u32,
}

/// Packets over which the cost is a mean: some bursts, so that a worker that has to wait for its CPU once does not count for much.
const MEASURED: u32 = 1024;
/// Limits of a cost. A worker that stood still for seconds is to hear strangers still, among whom a peer may be that calls.
const COSTS: [u64; 2] = [1, 100_000];
/// Offset of the cost, and of the period.
const COST: usize = 4;
const PERIOD: usize = 5;
/// Length of a period. Packets wait at the socket for less.
const PERIOD_LENGTH: Duration = Duration::from_secs(4);

/// Where a turn looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Lan = 1,
    DataPort = 2,
    PlainPort = 3,
}

impl Turns {
    /// Words of the memory.
    pub const WORDS: usize = 6;

    /// Goes on where a worker before was, of which nobody knows what it had still. The key is that of the programs, whose peers have numbers
    /// below `peers`.
    pub fn new(words: SharedWords, token_key: TokenKey, peers: u16) -> Self {
        let (mut begun, mut period) = (0, 0);
        if let [turns, found_none @ .., of_tokens] = words.words() {
            begun = turns.load(Ordering::Relaxed);
            found_none.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            period = of_tokens.load(Ordering::Relaxed);
        }
        let (took, packets, period_began) = (Duration::ZERO, 0, None);
        Self { words, begun, token_key, peers, period, period_began, took, packets }
    }

    /// A turn begins: nothing was looked for yet.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.period_began.is_none_or(|began| now.since(began) >= PERIOD_LENGTH) {
            (self.period, self.period_began) = (self.period + 1, Some(now));
            if let Some(word) = self.words.words().get(PERIOD) {
                word.store(self.period, Ordering::Relaxed);
            }
        }
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

    /// The peer whose packet it is, if programs have opened it in this period or the one before.
    pub(super) fn opened(&self, packet: &[u8]) -> Option<PeerId> {
        let [token @ .., high, low, h0, h1, h2, h3, h4, h5, h6, h7] =
            *packet.first_chunk::<SHORT_HEADER_OCTETS>()?;
        let peer = u16::from_be_bytes([high, low]);
        // Most other packets show by their peer, or by their header's form, that they were not opened, and cost no MAC.
        if peer >= self.peers || h6 >> 4 != 0 {
            return None;
        }
        let header = [h0, h1, h2, h3, h4, h5, h6, h7];
        let is_of = |period| self.token_key.token(header, peer, period).octets() == token;
        (is_of(self.period) || is_of(self.period.wrapping_sub(1))).then_some(PeerId(peer))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    const NOW: Instant = Instant::START;

    fn key() -> TokenKey {
        TokenKey::new(&[9; 16])
    }

    fn turns(file: &File) -> Turns {
        Turns::new(shared(file), key(), 0x103)
    }

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
        let mut turns = turns(&file);
        let seen = || [0, 1, 2, 3].map(|word: usize| words.words()[word].load(Ordering::SeqCst));
        assert_eq!(seen(), [0; 4], "nobody knows whether all is done");
        turns.begin(NOW);
        assert_eq!(seen(), [1, 0, 0, 0]);
        turns.find_none(Place::Lan);
        assert_eq!(seen(), [1, 1, 0, 0]);
        turns.begin(NOW);
        turns.find_none(Place::DataPort);
        turns.find_none(Place::PlainPort);
        assert_eq!(seen(), [2, 1, 2, 2]);
        let mut next = self::turns(&file);
        assert_eq!(seen(), [2, 0, 0, 0]);
        next.begin(NOW);
        assert_eq!(seen(), [3, 0, 0, 0], "no number comes twice");
    }

    #[test]
    fn programs_see_what_a_packet_costs_as_a_mean() {
        let file = memory();
        let words = shared(&file);
        let cost = || words.words()[COST].load(Ordering::SeqCst);
        words.words()[COST].store(7, Ordering::SeqCst);
        let mut turns = turns(&file);
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

    /// A packet as programs open it: in this period, of this peer, with this header.
    fn packet(period: u64, peer: u16, header: [u8; 8]) -> Vec<u8> {
        let token = key().token(header, peer, period).octets();
        [&token[..], &peer.to_be_bytes(), &header].concat()
    }

    #[test]
    fn a_packet_with_its_token_was_opened() {
        let file = memory();
        let mut turns = turns(&file);
        turns.begin(NOW);
        let header = [0x12, 0x34, 0, 0, 0, 7, 0x0c, 40];
        let opened = packet(1, 0x102, header);
        assert_eq!(turns.opened(&opened), Some(PeerId(0x102)));
        assert_eq!(
            turns.opened(&[&opened[..], &[7; 40]].concat()),
            Some(PeerId(0x102)),
            "the body is not in it"
        );
        assert_eq!(turns.opened(&opened[..15]), None);
        for bit in 0..8 * opened.len() {
            let mut other = opened.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(turns.opened(&other), None, "one that leaks opens nothing else: {bit}");
        }
        assert_eq!(turns.opened(&packet(1, 0x103, header)), None, "no such peer");
        assert_eq!(turns.opened(&packet(1, 0x102, [0, 0, 0, 0, 0, 0, 0x10, 0])), None, "not of this form");
    }

    #[test]
    fn a_token_is_over_with_the_next_period() {
        let file = memory();
        let period = || shared(&file).words()[PERIOD].load(Ordering::SeqCst);
        let taken = |turns: &Turns| -> Vec<u64> {
            (0..9).filter(|of| turns.opened(&packet(*of, 1, [0; 8])).is_some()).collect()
        };
        let mut turns = turns(&file);
        let mut now = NOW;
        for (later, periods) in [
            (Duration::ZERO, [0, 1]),
            (PERIOD_LENGTH - Duration::from_millis(1), [0, 1]),
            (Duration::from_millis(1), [1, 2]),
            // However long the worker was away: what waited for it is not lost.
            (10 * PERIOD_LENGTH, [2, 3]),
            (Duration::from_millis(1), [2, 3]),
        ] {
            now = now + later;
            turns.begin(now);
            assert_eq!(taken(&turns), periods, "{now:?}");
            assert_eq!(period(), periods[1]);
        }
        let mut next = self::turns(&file);
        next.begin(now);
        assert_eq!(taken(&next), [3, 4], "what the worker before left is taken, and no period comes twice");
    }
}
