//! From the peer to the LAN.
//!
//! Anybody may have altered a packet. So its contents count only after its check, and the long form only
//! after its tag as well. Before that it uses up its identifier, and nothing else.

use arrayvec::ArrayVec;
use suite::tunnel::{IdentifierBlock, LaneKey};
use wire::time::Instant;
use wire::tunnel::{
    CHECK_OCTETS, Flow, HEADER_OCTETS, Header, LONG_HEADER_OCTETS as LONG, LONGEST_HEADER_OCTETS as LONGEST,
    PacketForm, ParsedFrame, RID_OCTETS, SHORT_HEADER_OCTETS as SHORT, TAG_OCTETS,
};

use super::Identifier;
use crate::counters::{InDiscard, PeerCounters};
use crate::fragments::{Fragment, FragmentPosition, JoinOutcome};
use crate::packet::PREFIX_OCTETS;
use crate::receive::ReceiveLane;
use crate::site_state::{PeerContext, SiteState};
use core::ops::Range;

/// Frame or fragment rebuilt from a packet.
#[derive(Debug)]
pub(crate) enum Rebuilt {
    /// A frame: its prefix, then these octets of the packet.
    Whole { taken: ParsedFrame, body: Range<usize>, long: bool },
    /// A frame in two fragments: the waiting one in `slot`, which is the first or not, and these octets of
    /// the packet.
    Joined { taken: ParsedFrame, slot: usize, waited_first: bool, body: Range<usize> },
    /// A fragment that waits.
    Pending,
}

/// Context of a received packet.
pub(crate) struct Received<'a> {
    pub(crate) now: Instant,
    pub(crate) epoch: u32,
    pub(crate) lane: &'a mut ReceiveLane,
    pub(crate) seq: u64,
    pub(crate) block: IdentifierBlock,
}

impl Identifier {
    /// Rebuilds the frame of a packet with a good identifier.
    pub(crate) fn inward(
        &mut self,
        received: Received<'_>,
        context: &PeerContext,
        counters: &mut PeerCounters,
        state: &mut SiteState,
        packet: &[u8],
    ) -> Result<Rebuilt, InDiscard> {
        let Received { now, epoch, lane, seq, block } = received;
        let key = lane.window.key().ok_or(InDiscard::Late)?;
        let fields = checked(key, &block, packet).ok_or(InDiscard::ForgedHeader)?;
        let header = Header::parse(fields).map_err(|_| InDiscard::BadHeader)?;
        let form = header.form;
        let long = if form.is_long() { Some(flow_of(form, key, seq, fields, packet, state)?) } else { None };
        let start = match long {
            None => SHORT,
            Some(_) if form.is_tagged() => LONGEST,
            Some(_) => LONG,
        };
        if self.heard(now, epoch) {
            state.watch = true;
        }
        let body = &packet[start..];
        let taken = |flow| ParsedFrame { flow, fields: header.fields };
        let position = match (form, long) {
            (PacketForm::LongForm | PacketForm::TaggedLongForm, Some(flow)) => {
                return Ok(Rebuilt::Whole { taken: taken(flow), body: start..packet.len(), long: true });
            }
            (_, Some(flow)) => FragmentPosition::First(flow),
            (PacketForm::Second, None) => FragmentPosition::Second,
            (_, None) => {
                let Some(flow) = self.announced.find(header.flow) else {
                    self.tell_unknown(now, context.peer, context.generation, header.flow, state);
                    return Err(InDiscard::UnknownFlow);
                };
                if form == PacketForm::Whole {
                    return Ok(Rebuilt::Whole { taken: taken(flow), body: start..packet.len(), long: false });
                }
                FragmentPosition::First(flow)
            }
        };
        let fragment = Fragment { seq, position, index: header.flow, fields: header.fields };
        match lane.fragments.insert(now, fragment, &[], body) {
            JoinOutcome::Joined { flow, slot } => {
                let body = start..packet.len();
                Ok(Rebuilt::Joined {
                    taken: taken(flow),
                    slot,
                    waited_first: position == FragmentPosition::Second,
                    body,
                })
            }
            JoinOutcome::Mismatched => {
                counters.count_in(InDiscard::PartMismatched);
                Err(InDiscard::PartMismatched)
            }
            JoinOutcome::TooLong => Err(InDiscard::TooLong),
            outcome => {
                if outcome == JoinOutcome::StoredEvicting {
                    counters.count_in(InDiscard::PartOverrun);
                }
                state.watch = true;
                Ok(Rebuilt::Pending)
            }
        }
    }
}

/// The octets of a packet's header, if its check is right.
fn checked(key: &LaneKey, block: &IdentifierBlock, packet: &[u8]) -> Option<[u8; HEADER_OCTETS]> {
    let (check, rest) = packet.get(RID_OCTETS..)?.split_first_chunk::<CHECK_OCTETS>()?;
    let masked = rest.first_chunk::<HEADER_OCTETS>()?;
    let fields = core::array::from_fn(|i| masked[i] ^ block.mask[i]);
    // Compares two octets at once, in constant time.
    (u16::from_be_bytes(key.check(block.pad, fields)) == u16::from_be_bytes(*check)).then_some(fields)
}

/// The flow in a packet's long form, if its tag is right and it may come in here.
#[cold]
#[inline(never)]
fn flow_of(
    form: PacketForm,
    key: &LaneKey,
    seq: u64,
    fields: [u8; HEADER_OCTETS],
    packet: &[u8],
    state: &SiteState,
) -> Result<Flow, InDiscard> {
    let flow = if form.is_tagged() {
        Flow::parse_tagged(&long_form(key, seq, fields, packet)?)
    } else {
        Flow::parse(&long_form(key, seq, fields, packet)?)
    };
    flow.filter(|flow| state.takes(flow)).ok_or(InDiscard::BadHeader)
}

/// The octets of the flow in a packet's long form, if its tag is right.
fn long_form<const FLOW: usize>(
    key: &LaneKey,
    seq: u64,
    fields: [u8; HEADER_OCTETS],
    packet: &[u8],
) -> Result<[u8; FLOW], InDiscard> {
    let forged = InDiscard::ForgedLongForm;
    let (masked, rest) = packet[SHORT..].split_first_chunk::<FLOW>().ok_or(forged)?;
    let tag = rest.first_chunk::<TAG_OCTETS>().ok_or(forged)?;
    let mask = key.long_mask::<FLOW>(seq);
    let flow = core::array::from_fn(|i| masked[i] ^ mask[i]);
    if u64::from_le_bytes(key.long_tag(seq, fields, &flow)) != u64::from_le_bytes(*tag) {
        return Err(forged);
    }
    Ok(flow)
}

/// Addresses and SecTAG.
pub(crate) fn prefix(taken: &ParsedFrame) -> ArrayVec<u8, PREFIX_OCTETS> {
    let mut prefix = ArrayVec::from([0; PREFIX_OCTETS]);
    prefix.truncate(taken.flow.prefix_octets());
    taken.encode_prefix(&mut prefix);
    prefix
}
