//! Rate limit of MKPDUs from the LAN, by sender: a source address and the VLAN tags behind it, for in each VLAN it is another KaY.
//! Anybody on a LAN can send any number of them, from any number of addresses and behind any tags. A station whose MKPDUs are lost for six seconds loses its keys.
//!
//! ```text
//!  known sender ─────────────────────────── its own bucket ─────────▶ manager
//!  another, heard a while ago ── becomes known, if there is room
//!  another ── is noted ──────────────────── one bucket for all of these ▶ manager
//! ```
//!
//! A sender that is *known* stays so as long as it speaks, whoever else does. A station speaks every two seconds; a flood of
//! senders that come once each makes none of them known, and a station that begins to speak in it is known by its
//! second or third MKPDU.
//!
//! Left out on purpose: whether an MKPDU is true, for a site has no CAK. Who uses a station's own address and tags
//! takes that station's share; and [`KNOWN`] senders that go on speaking keep stations out that were not
//! known before.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use arrayvec::ArrayVec;
use wire::Instant;
use wire::ethernet::{ETHERTYPE_OCTETS, Header};
use wire::time::TokenBucket;

use super::mailbox::{LanFrame, PACKET_OCTETS};
use crate::mailbox::Mailbox;

/// Senders that are known at a time.
pub const KNOWN: usize = 128;
/// Silence after which a sender is forgotten: longer than a KaY is live for others (6 s).
const FORGOTTEN: Duration = Duration::from_secs(20);
/// A second MKPDU makes known if it comes this much later than the first at the earliest, and at the latest.
const RETURNS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];
/// MKPDUs of one known sender: burst of 32, and 16 a second. A KaY has some a second, at most, for each CAK.
const EACH: TokenBucket = TokenBucket::new(32, SIXTEENTH);
/// MKPDUs of all others together.
const OTHERS: TokenBucket = TokenBucket::new(64, SIXTEENTH);
const SIXTEENTH: Duration = Duration::from_micros(62_500);
/// Senders that are noted: at 20,000 new ones a second more than a second passes until all places are taken.
const NOTED: usize = 1 << 16;
/// The unit of the times that are noted.
const TICK: Duration = Duration::from_millis(100);

/// A sender as a number: source address and VLAN tags, then zeros.
pub type SenderId = u128;

/// The sender of an MKPDU. `None` if the frame ends in its header.
pub fn sender_of(frame: &[u8]) -> Option<SenderId> {
    let header = Header::parse(frame).ok()?;
    let octets = frame.get(6..header.octets() - ETHERTYPE_OCTETS)?;
    let mut id = [0; size_of::<SenderId>()];
    id.get_mut(..octets.len())?.copy_from_slice(octets);
    Some(SenderId::from_be_bytes(id))
}

/// Senders that are known, and others that are noted.
pub struct Senders {
    known: ArrayVec<Sender, KNOWN>,
    others: TokenBucket,
    /// Hash and time of others, by hash. Memory that no flood has touched is not there.
    noted: Box<[u64]>,
    hash: RandomState,
}

/// Outcome for an MKPDU of the LAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The manager gets it.
    Sent,
    /// Its sender was not heard before and too many such speak, or it says too much.
    Flood,
    /// Too many wait for the manager, or it is too long.
    NoRoom,
}

struct Sender {
    id: SenderId,
    last: Instant,
    bucket: TokenBucket,
}

impl Default for Senders {
    /// Nobody is known. Allocates.
    fn default() -> Self {
        Self {
            known: ArrayVec::new(),
            others: OTHERS,
            noted: vec![0; NOTED].into_boxed_slice(),
            hash: RandomState::new(),
        }
    }
}

impl Senders {
    /// Sends an MKPDU of the LAN to the manager, unless its sender is a part of a flood.
    pub fn send(&mut self, now: Instant, frame: &[u8], eapol: &mut Mailbox<LanFrame, LanFrame>) -> Admission {
        let Some(sender) = sender_of(frame) else { return Admission::NoRoom };
        if frame.len() > PACKET_OCTETS {
            return Admission::NoRoom;
        }
        if !self.admit(now, sender) {
            return Admission::Flood;
        }
        Self::send_own(frame, eapol)
    }

    /// The same for an MKPDU of this box's own KaY, of which there are a few a second.
    pub fn send_own(frame: &[u8], eapol: &mut Mailbox<LanFrame, LanFrame>) -> Admission {
        let sent = LanFrame::try_from(frame).is_ok_and(|frame| eapol.send(frame));
        if sent { Admission::Sent } else { Admission::NoRoom }
    }

    /// Whether this sender's MKPDU goes on. Work: a look at each known sender, and one at the noted ones.
    fn admit(&mut self, now: Instant, id: SenderId) -> bool {
        if let Some(sender) = self.known.iter_mut().find(|sender| sender.id == id) {
            sender.last = now;
            return sender.bucket.take(now);
        }
        if self.returns(now, id) {
            let mut sender = Sender { id, last: now, bucket: EACH };
            sender.bucket.take(now);
            if self.known.is_full() {
                // Only a silent sender gives way.
                let silent = self.known.iter_mut().find(|sender| now.since(sender.last) > FORGOTTEN);
                if let Some(silent) = silent {
                    *silent = sender;
                    return true;
                }
            } else {
                self.known.push(sender);
                return true;
            }
        }
        self.others.take(now)
    }

    /// Whether this sender was heard a while ago. If not it is noted, unless another one is in its place, which keeps it
    /// until it had time to return: else a flood would leave no note standing from one hello to the next.
    fn returns(&mut self, now: Instant, id: SenderId) -> bool {
        // The part of the hash that the place does not say.
        let hash = self.hash.hash_one(id);
        let key = hash & !u64::from(u16::MAX);
        // From 1 on: a place of zeros is empty.
        let ticks = now.since(Instant::START).as_millis() / TICK.as_millis();
        let tick = 1 + (ticks % u128::from(u16::MAX)) as u16;
        let place = hash as usize % NOTED;
        let Some(note) = self.noted.get_mut(place) else { return false };
        let since = |note: u64| {
            let behind =
                (u32::from(tick) + u32::from(u16::MAX) - u32::from(note as u16)) % u32::from(u16::MAX);
            TICK * behind
        };
        if *note == 0 || since(*note) > RETURNS[1] {
            *note = key | u64::from(tick);
            return false;
        }
        *note >> 16 == key >> 16 && since(*note) >= RETURNS[0]
    }
}

impl fmt::Debug for Senders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Senders").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::pair;

    const STATION: SenderId = 0x0200_0000_0001 << 80;
    const HELLO: Duration = Duration::from_secs(2);

    fn at(milliseconds: u64) -> Instant {
        Instant::after_start(Duration::from_millis(milliseconds))
    }

    fn stranger(number: u64) -> SenderId {
        SenderId::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) << 16) << 64
    }

    /// Twenty new senders a millisecond, from `first` on; how many of them were admitted.
    fn flood(senders: &mut Senders, from: u64, to: u64) -> usize {
        let mut admitted = 0;
        for millisecond in from..to {
            for number in 0..20 {
                admitted +=
                    usize::from(senders.admit(at(millisecond), stranger(1 + millisecond * 20 + number)));
            }
        }
        admitted
    }

    #[test]
    fn a_group_that_starts_at_once_is_heard_from_its_first_word_on() {
        let mut senders = Senders::default();
        for hello in 0..10 {
            for station in 0..50 {
                assert!(
                    senders.admit(at(2000 * hello + station), stranger(station + 1)),
                    "{hello} {station}"
                );
            }
        }
        assert_eq!(senders.known.len(), 50);
    }

    #[test]
    fn a_known_sender_is_heard_whoever_else_speaks() {
        let mut senders = Senders::default();
        assert!(senders.admit(at(0), STATION) && senders.admit(at(2000), STATION));
        let mut admitted = 0;
        for hello in 1..30 {
            admitted += flood(&mut senders, 2000 * hello, 2000 * (hello + 1));
            assert!(senders.admit(at(2000 * (hello + 1)), STATION), "{hello}");
        }
        assert!(admitted <= 64 + 16 * 60, "{admitted} of a flood");
        assert!(senders.known.len() <= 2, "a flood is not known");
    }

    #[test]
    fn who_begins_to_speak_in_a_flood_is_soon_known() {
        let mut late = 0;
        for try_ in 0..20 {
            let mut senders = Senders::default();
            flood(&mut senders, 0, 8000);
            let mut now = 8000 + try_ * 37;
            let first = now;
            while !senders.known.iter().any(|sender| sender.id == STATION) {
                senders.admit(at(now), STATION);
                let next = now + HELLO.as_millis() as u64;
                flood(&mut senders, now, next);
                now = next;
                assert!(now < first + 60_000, "not known for a minute");
            }
            late += u64::from(now - first > 12_000);
        }
        assert!(late <= 6, "{late} of 20 needed more than 12 s");
    }

    #[test]
    fn a_known_sender_gives_way_only_when_it_is_silent() {
        let mut senders = Senders::default();
        let full = KNOWN as u64;
        // Two that are noted in one place need some hellos more.
        let mut hello = 0;
        while !senders.known.is_full() {
            for number in 0..full {
                senders.admit(at(2000 * hello + number), stranger(1 + number));
            }
            hello += 1;
            assert!(hello < 60, "{} are known", senders.known.len());
        }
        // They go on speaking: nobody else becomes known.
        for hello in hello..hello + 18 {
            for number in 0..full {
                assert!(senders.admit(at(2000 * hello + number), stranger(1 + number)));
            }
            senders.admit(at(2000 * hello + 500), STATION);
            assert!(!senders.known.iter().any(|sender| sender.id == STATION));
        }
        // They are silent.
        senders.admit(at(200_000), STATION);
        senders.admit(at(202_000), STATION);
        assert!(senders.known.iter().any(|sender| sender.id == STATION));
    }

    #[test]
    fn one_address_has_its_own_share_and_no_more() {
        let mut senders = Senders::default();
        for sender in [STATION, stranger(1)] {
            senders.admit(at(0), sender);
            senders.admit(at(2000), sender);
        }
        let admitted = (2001..12_001).filter(|now| senders.admit(at(*now), stranger(1))).count();
        assert!((150..=32 + 160).contains(&admitted), "{admitted}");
        assert!(senders.admit(at(12_001), STATION));
    }

    /// An MKPDU of a station's address behind an 802.1Q tag.
    fn in_vlan(vlan: u16) -> Vec<u8> {
        let [high, low] = vlan.to_be_bytes();
        let tag = [0x81, 0x00, high, low];
        [&[1, 0x80, 0xc2, 0, 0, 3][..], &STATION.to_be_bytes()[..6], &tag, &[0x88, 0x8e, 3, 5, 0, 0]].concat()
    }

    #[test]
    fn kays_of_one_address_in_many_vlans_are_heard_like_those_of_many_addresses() {
        let (mut senders, (mut eapol, mut manager)) = (Senders::default(), pair(64, 64));
        for hello in 0..20 {
            for vlan in 0..60 {
                let now = at(2000 * hello + u64::from(vlan));
                assert_eq!(senders.send(now, &in_vlan(vlan), &mut eapol), Admission::Sent, "{hello} {vlan}");
                manager.receive().expect("sent");
            }
        }
    }

    #[test]
    fn one_address_with_new_tags_all_the_time_is_a_flood() {
        let (mut senders, (mut eapol, mut manager)) = (Senders::default(), pair(64, 64));
        let mut admitted = 0;
        for vlan in 0..4096 {
            admitted +=
                usize::from(senders.send(at(u64::from(vlan)), &in_vlan(vlan), &mut eapol) == Admission::Sent);
            manager.receive();
        }
        assert!(admitted <= 64 + 16 * 5, "{admitted}");
    }

    #[test]
    fn times_that_are_noted_go_round() {
        let mut senders = Senders::default();
        let round = TICK.as_millis() as u64 * u64::from(u16::MAX);
        for begin in [round - 1000, round, 3 * round - 100] {
            let address = stranger(begin);
            assert!(!senders.returns(at(begin), address));
            assert!(!senders.returns(at(begin + 100), address), "too soon");
            assert!(senders.returns(at(begin + 2000), address));
            assert!(!senders.returns(at(begin + 5200), address), "too late: noted anew");
            assert!(senders.returns(at(begin + 7200), address));
        }
    }
}
