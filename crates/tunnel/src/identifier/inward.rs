//! From the peer to the LAN. Nothing here changes by what a packet says, except that a part is kept for its other half.

use arrayvec::ArrayVec;
use wire::time::Instant;
use wire::tunnel::{Flow, HEADER_OCTETS, Header, LONG_FORM_OCTETS, Part, RID_OCTETS, Taken};

use super::Identifier;
use crate::counters::{InDiscard, PeerCounters};
use crate::forwarding::{PeerFacts, Shared};
use crate::packet::PREFIX_OCTETS;
use crate::parts::{Half, Met, Part as Piece};
use crate::receive::ReceiveLane;
use core::ops::Range;

const SHORT: usize = RID_OCTETS + HEADER_OCTETS;

/// What a packet was rebuilt to.
#[derive(Debug)]
pub(crate) enum Rebuilt {
    /// A frame: its prefix, then these octets of the packet.
    Whole { taken: Taken, body: Range<usize>, long: bool },
    /// A frame of which the other half has waited here, which is the first or not; then these octets of the packet.
    Joined { taken: Taken, place: usize, waited_first: bool, body: Range<usize> },
    /// A part that waits.
    Pending,
}

/// What came with a packet, beside itself.
pub(crate) struct Received<'a> {
    pub(crate) now: Instant,
    pub(crate) epoch: u32,
    pub(crate) lane: &'a mut ReceiveLane,
    pub(crate) seq: u64,
    pub(crate) mask: [u8; HEADER_OCTETS],
}

impl Identifier {
    /// Rebuilds what a packet whose identifier was good stands for.
    pub(crate) fn inward(
        &mut self,
        received: Received<'_>,
        facts: &PeerFacts,
        counters: &mut PeerCounters,
        shared: &mut Shared,
        packet: &[u8],
    ) -> Result<Rebuilt, InDiscard> {
        let Received { now, epoch, lane, seq, mask } = received;
        if self.heard(now, epoch) {
            shared.watch = true;
        }
        let masked = packet[RID_OCTETS..].first_chunk::<HEADER_OCTETS>().ok_or(InDiscard::BadHeader)?;
        let header =
            Header::parse(core::array::from_fn(|i| masked[i] ^ mask[i])).map_err(|_| InDiscard::BadHeader)?;
        let start = if header.part.is_long() { SHORT + LONG_FORM_OCTETS } else { SHORT };
        let body = packet.get(start..).ok_or(InDiscard::BadHeader)?;
        let taken = |flow| Taken { flow, fields: header.fields };
        let half = match header.part {
            Part::Second => Half::Second,
            Part::LongForm | Part::LongFirst => {
                let flow = long_form(lane, seq, packet).ok_or(InDiscard::BadHeader)?;
                if header.part == Part::LongForm {
                    return Ok(Rebuilt::Whole { taken: taken(flow), body: start..packet.len(), long: true });
                }
                Half::First(flow)
            }
            Part::Whole | Part::First => {
                let Some(flow) = self.announced.find(header.flow) else {
                    self.tell_unknown(now, facts.peer, facts.generation, header.flow, shared);
                    return Err(InDiscard::UnknownFlow);
                };
                if header.part == Part::Whole {
                    return Ok(Rebuilt::Whole { taken: taken(flow), body: start..packet.len(), long: false });
                }
                Half::First(flow)
            }
        };
        let piece = Piece { seq, half, index: header.flow, fields: header.fields };
        match lane.parts.meet(now, piece, &[], body) {
            Met::Joined { flow, place } => {
                let body = start..packet.len();
                Ok(Rebuilt::Joined { taken: taken(flow), place, waited_first: half == Half::Second, body })
            }
            Met::Mismatched => {
                counters.count_in(InDiscard::PartMismatched);
                Err(InDiscard::PartMismatched)
            }
            Met::TooLong => Err(InDiscard::TooLong),
            met => {
                if met == Met::KeptForAnother {
                    counters.count_in(InDiscard::PartOverrun);
                }
                shared.watch = true;
                Ok(Rebuilt::Pending)
            }
        }
    }
}

/// The flow in a packet's long form.
fn long_form(lane: &ReceiveLane, seq: u64, packet: &[u8]) -> Option<Flow> {
    let masked = packet.get(SHORT..)?.first_chunk::<LONG_FORM_OCTETS>()?;
    let mask = lane.window.long_mask(seq)?;
    Flow::parse(&core::array::from_fn(|i| masked[i] ^ mask[i]))
}

/// Addresses and SecTAG.
pub(crate) fn prefix(taken: &Taken) -> ArrayVec<u8, PREFIX_OCTETS> {
    let mut prefix = ArrayVec::from([0; PREFIX_OCTETS]);
    prefix.truncate(taken.flow.prefix_octets());
    taken.encode_prefix(&mut prefix);
    prefix
}
