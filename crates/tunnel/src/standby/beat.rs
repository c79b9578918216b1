//! Frames that two boxes send on their LAN.
//!
//! ```text
//!  DA 6 | SA 6 | 0x88B6 | kind 1 | role 1 | flags 1 | n 1 | T 2 | session 8 | seq 8 | heard session 8 | heard seq 8 | SCI 8 | n addresses, 6 each | tag 16
//! ```
//!
//! - `kind`: 1 a beat; 2 a frame that shows a switch where its source is, whose octets behind `kind` mean nothing.
//! - `role`: 1 listening, 2 standby, 3 active, 4 leaving. `flags`: bit 0x01 preferred. All others are 0.
//! - `T`: `takeover` of the sender's configuration, in milliseconds.
//! - `heard session` 0: none was heard. `SCI`: that of the sender's SecY, which no other box has.
//! - Addresses: some of the stations at other sites, from the active box. They show the standby for which stations it has to send frames of
//!   kind 2.
//! - `tag`: [`suite::beat::BeatKey`] over all octets from `kind` on that are in front of it. Octets behind it are padding.
//!
//! DA is a group address of local administration, which bridges forward. The EtherType is IEEE 802's second one for local experiments. Numbers
//! are big-endian.

use core::time::Duration;

use arrayvec::ArrayVec;
use suite::beat::{BEAT_TAG_OCTETS, BeatKey};
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS};
use wire::{EtherType, MacAddr, Sci};

use super::{Beat, Role};

/// Addresses in a beat, at most.
pub const BEAT_ADDRESSES: usize = 32;
/// Octets of the longest frame.
pub const BEAT_OCTETS: usize = HEADER_OCTETS + FIXED + 6 * BEAT_ADDRESSES + BEAT_TAG_OCTETS;

const DESTINATION: MacAddr = MacAddr([0x03, 0x46, 0x57, 0x00, 0x00, 0x01]);
const ETHER_TYPE: EtherType = EtherType(0x88b6);
const FIXED: usize = 46;
/// Octets in front of the session.
const NUMBERS: usize = 6;
const BEAT: u8 = 1;
const LEARN: u8 = 2;
const PREFERRED: u8 = 1;
/// Octets of the shortest Ethernet frame, without FCS.
const SHORTEST: usize = 60;

/// Session and seq of a beat.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Heard {
    /// Its session.
    pub session: u64,
    /// Its seq.
    pub seq: u64,
}

/// A frame of these.
pub type BeatFrame = ArrayVec<u8, BEAT_OCTETS>;

/// Kind of a frame of a LAN.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for a frame, and nothing is allocated there")]
pub enum BeatFrameKind {
    /// None of these.
    Other,
    /// A beat of the partner, its SCI, and addresses of stations.
    Beat(Beat, Sci, ArrayVec<MacAddr, BEAT_ADDRESSES>),
    /// For switches.
    Learn,
    /// With the EtherType of these, but no beat of the partner.
    Bad,
}

impl Beat {
    /// The frame of this beat, from a box whose SecY has this SCI.
    pub fn frame(&self, key: &BeatKey, sci: Sci, addresses: &[MacAddr]) -> BeatFrame {
        let mut frame = header(address_of(sci), BEAT);
        let addresses = &addresses[..addresses.len().min(BEAT_ADDRESSES)];
        let role = match self.role {
            Role::Listening => 1,
            Role::Standby => 2,
            Role::Active => 3,
            Role::Leaving => 4,
        };
        let heard = self.heard.unwrap_or(Heard { session: 0, seq: 0 });
        let mut put = |octets: &[u8]| frame.try_extend_from_slice(octets).expect("invariant: they fit");
        put(&[role, u8::from(self.preferred) * PREFERRED, addresses.len() as u8]);
        put(&u16::try_from(self.takeover.as_millis()).unwrap_or(u16::MAX).to_be_bytes());
        for number in [self.session, self.seq, heard.session, heard.seq] {
            put(&number.to_be_bytes());
        }
        put(&sci.octets());
        addresses.iter().for_each(|address| put(&address.0));
        let tag = key.tag(&frame[HEADER_OCTETS..]);
        frame.try_extend_from_slice(&tag).expect("invariant: it fits");
        pad(&mut frame);
        frame
    }
}

impl BeatFrameKind {
    /// True for frames that are one box's word to the other or to switches: they stay on their LAN.
    pub fn is_own(frame: &[u8]) -> bool {
        frame.get(ADDRESSES_OCTETS..HEADER_OCTETS) == Some(&ETHER_TYPE.0.to_be_bytes())
    }

    /// What a frame is. Verifies a beat.
    pub fn of(frame: &[u8], key: &BeatKey) -> Self {
        if !Self::is_own(frame) {
            return Self::Other;
        }
        match frame.get(HEADER_OCTETS) {
            Some(&LEARN) => Self::Learn,
            Some(&BEAT) => parse(&frame[HEADER_OCTETS..], key).unwrap_or(Self::Bad),
            _ => Self::Bad,
        }
    }
}

/// A frame that shows switches where `source` is.
pub fn learn_frame(source: MacAddr) -> BeatFrame {
    let mut frame = header(source, LEARN);
    pad(&mut frame);
    frame
}

/// The address in an SCI.
pub fn address_of(sci: Sci) -> MacAddr {
    let [octets @ .., _, _] = sci.octets();
    MacAddr(octets)
}

fn parse(octets: &[u8], key: &BeatKey) -> Option<BeatFrameKind> {
    let count = usize::from(*octets.get(3)?);
    let end = FIXED + 6 * count;
    let (tagged, tag) = (octets.get(..end)?, octets.get(end..end + BEAT_TAG_OCTETS)?);
    if count > BEAT_ADDRESSES || !key.verify(tagged, tag) {
        return None;
    }
    let role = match tagged[1] {
        1 => Role::Listening,
        2 => Role::Standby,
        3 => Role::Active,
        4 => Role::Leaving,
        _ => return None,
    };
    let (head, addresses) = tagged.split_at_checked(FIXED)?;
    let &[high, low] = head.get(4..NUMBERS)?.first_chunk()?;
    let takeover = Duration::from_millis(u16::from_be_bytes([high, low]).into());
    let numbers = head.get(NUMBERS..)?;
    let mut numbers = numbers.as_chunks::<8>().0.iter().map(|octets| u64::from_be_bytes(*octets));
    let mut next = || numbers.next();
    let (session, seq) = (next()?, next()?);
    let heard = Heard { session: next()?, seq: next()? };
    let heard = (heard.session != 0).then_some(heard);
    let sci = Sci::from_octets(next()?.to_be_bytes());
    let addresses = addresses.as_chunks::<6>().0.iter().map(|octets| MacAddr(*octets)).collect();
    let preferred = tagged[2] & PREFERRED != 0;
    let beat = Beat { role, preferred, takeover, session, seq, heard };
    Some(BeatFrameKind::Beat(beat, sci, addresses))
}

fn header(source: MacAddr, kind: u8) -> BeatFrame {
    let mut frame = BeatFrame::new();
    for octets in [&DESTINATION.0[..], &source.0, &ETHER_TYPE.0.to_be_bytes(), &[kind]] {
        frame.try_extend_from_slice(octets).expect("invariant: a header fits");
    }
    frame
}

fn pad(frame: &mut BeatFrame) {
    while frame.len() < SHORTEST {
        frame.push(0);
    }
}

#[cfg(test)]
mod tests {
    use suite::identity::Identity;

    use super::*;

    fn keys() -> [BeatKey; 2] {
        let [a, b] = [Identity::new(&[1; 32]), Identity::new(&[2; 32])];
        [BeatKey::of(&a, b.public()).unwrap(), BeatKey::of(&b, a.public()).unwrap()]
    }

    const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    #[test]
    fn a_beat_arrives_as_it_was_and_no_octet_of_it_can_be_changed() {
        let [a, b] = keys();
        let heard = Some(Heard { session: 7, seq: 8 });
        for (role, heard, count) in [
            (Role::Listening, None, 0),
            (Role::Standby, heard, 1),
            (Role::Active, heard, 32),
            (Role::Leaving, None, 31),
        ] {
            let takeover = Duration::from_millis(2000);
            let beat = Beat { role, preferred: count == 1, takeover, session: u64::MAX, seq: 1 << 40, heard };
            let addresses: ArrayVec<_, 32> = (0..count).map(|last| MacAddr([2, 0, 0, 0, 1, last])).collect();
            let sci = Sci::new(SOURCE, 1);
            let frame = beat.frame(&a, sci, &addresses);
            assert!(frame.len() >= SHORTEST && BeatFrameKind::is_own(&frame));
            assert_eq!(BeatFrameKind::of(&frame, &b), BeatFrameKind::Beat(beat, sci, addresses));
            assert_eq!(BeatFrameKind::of(&frame, &a), BeatFrameKind::Bad, "reflected");
            let end = HEADER_OCTETS + FIXED + 6 * usize::from(count) + BEAT_TAG_OCTETS;
            for at in HEADER_OCTETS..end {
                let mut changed = frame.clone();
                changed[at] ^= 2;
                assert_eq!(BeatFrameKind::of(&changed, &b), BeatFrameKind::Bad, "octet {at}");
                assert_ne!(BeatFrameKind::of(&frame[..at], &b), BeatFrameKind::of(&frame, &b), "{at} octets");
            }
        }
    }

    #[test]
    fn frames_for_switches_say_nothing() {
        let [a, _] = keys();
        let frame = learn_frame(SOURCE);
        assert_eq!(frame.len(), SHORTEST);
        assert_eq!(BeatFrameKind::of(&frame, &a), BeatFrameKind::Learn);
        assert_eq!(BeatFrameKind::of(&[0; 60], &a), BeatFrameKind::Other);
        assert_eq!(BeatFrameKind::of(&frame[..13], &a), BeatFrameKind::Other);
    }
}
