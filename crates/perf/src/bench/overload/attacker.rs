//! Frames that a stranger on the insecure network sends, made of those that it has seen there.

use std::ops::Range;
use std::time::{Duration, Instant};

use lab::{Direction, Namespace, PacketSocket};

use crate::bench::BenchError;

/// Octets of Seq in a cell's tagged frame: behind addresses, tag, EtherType, FrameID and KeyID.
const SEQ: Range<usize> = 21..25;
/// Time a protected frame may take to show.
const PATIENCE: Duration = Duration::from_secs(10);

/// Frames of a stranger on the insecure network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strange {
    /// With the right header, a packet number that is next, and an ICV that is wrong: the dearest to refuse.
    Garbage,
    /// A good one, again and again.
    Replayed,
    /// Without a SecTAG.
    Clear,
}

impl Strange {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Garbage, Self::Replayed, Self::Clear];

    /// Name in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Garbage => "garbage",
            Self::Replayed => "replayed frames",
            Self::Clear => "clear frames",
        }
    }

    /// Frame after frame, made of a good one of a link.
    pub(super) fn frames(self, good: &[u8]) -> impl FnMut(&mut Vec<u8>) + Send + 'static {
        let good = good.to_vec();
        let mut number = 0_u32;
        move |frame| {
            frame.clone_from(&good);
            number = number.wrapping_add(1);
            match self {
                Self::Garbage => {
                    frame[16..20].copy_from_slice(&(0x4000_0000 | number).to_be_bytes());
                    let icv = frame.len() - 4;
                    frame[icv..].copy_from_slice(&number.to_le_bytes());
                }
                Self::Replayed => {}
                Self::Clear => frame[12..14].copy_from_slice(&[0x88, 0xb5]),
            }
        }
    }
    /// Frame after frame, made of a good one of a cell; `clear` is what a machine would send.
    pub(super) fn cyclic(self, good: &[u8], clear: &[u8]) -> impl FnMut(&mut Vec<u8>) + Send + 'static {
        let good = if self == Self::Clear { clear } else { good }.to_vec();
        let mut number = 0_u32;
        move |frame| {
            frame.clone_from(&good);
            number = number.wrapping_add(1);
            if self == Self::Garbage {
                frame[SEQ].copy_from_slice(&(0x4000_0000 | number).to_be_bytes());
                let icv = frame.len() - 4;
                frame[icv..].copy_from_slice(&number.to_le_bytes());
            }
        }
    }

    /// Packet after packet, made of a good one between sites. In clear: a frame as a plain tunnel would carry it.
    pub(super) fn packets(self, good: &[u8]) -> impl FnMut(&mut Vec<u8>) + Send + 'static {
        let good = good.to_vec();
        let mut number = 0_u32;
        move |packet| {
            packet.clone_from(&good);
            number = number.wrapping_add(1);
            if self != Self::Replayed {
                let icv = packet.len() - 4;
                packet[icv..].copy_from_slice(&number.to_le_bytes());
                // IPv4 allows UDP without a checksum: else the system would refuse it and not the site.
                packet[40..42].fill(0);
            }
            if self == Self::Clear {
                packet[42..54].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
                packet[54..56].copy_from_slice(&[0x88, 0xb5]);
            }
        }
    }
}

/// A frame that `sought` accepts, of those that go out of an interface while `send` sends.
pub(super) fn caught(
    (namespace, ifname): (&Namespace, &str),
    what: &str,
    mut send: impl FnMut() -> Result<(), lab::Error>,
    sought: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, BenchError> {
    let mut network = PacketSocket::open(namespace, ifname)?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        send()?;
        while let Some(seen) = network.receive()? {
            if seen.direction == Direction::Out && sought(&seen.octets) {
                return Ok(seen.octets);
            }
        }
    }
    Err(BenchError::Silent(what.into()))
}
