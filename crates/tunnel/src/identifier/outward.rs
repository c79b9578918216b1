//! From the LAN to the peer.
//!
//! A frame that exceeds the path goes in two halves of equal length, not in a full and a short one. A stream
//! of full-size frames is then a stream of packets of one size, which the kernel accepts in one call
//! (UDP_SEGMENT). Either half keeps room for the long form.

use arrayvec::ArrayVec;
use wire::time::Instant;
use wire::tunnel::{
    CHECK_OCTETS, Flow, HEADER_OCTETS, Header, LONG_HEADER_OCTETS as LONG, LONGEST_HEADER_OCTETS as LONGEST,
    PacketForm, ParsedFrame, RID_OCTETS, SHORT_HEADER_OCTETS as SHORT,
};

use super::{AGAIN, Identifier};
use crate::counters::{OutDiscard, PeerCounters};
use crate::exchange::Event;
use crate::flows::NumberedFlow;
use crate::lane::{Lane, TakenSeq};
use crate::packet::{Destination, Packet, Route};
use crate::site_state::{PeerContext, SiteState};

/// Octets of identifier and check.
const CHECKED: usize = RID_OCTETS + CHECK_OCTETS;

/// Packets of a frame of the LAN, or the reason for none.
pub(crate) type Outward = Result<ArrayVec<Packet, 2>, OutDiscard>;

impl Identifier {
    /// The packets of a routed frame of `octets` octets.
    pub(crate) fn dispatch(
        &mut self,
        now: Instant,
        context: &PeerContext,
        counters: &mut PeerCounters,
        state: &mut SiteState,
        route: &Route,
        octets: usize,
    ) -> Outward {
        let taken = &route.taken;
        if self.transmit.is_none() {
            return Err(OutDiscard::NoEpoch);
        }
        let hash = state.hasher.flow(&taken.flow);
        let slot = state.assign_number(context, &mut self.flows, now, hash, &taken.flow)?;
        self.want_epoch(now, context, state);
        let given = self.flows.used(now, slot);
        let (Some(lane), Some(given)) = (&mut self.transmit, given) else {
            return Err(OutDiscard::FlowQuota);
        };
        state.announce(now, context, given);
        let body = taken.flow.prefix_octets()..octets;
        let room = |header| context.path_payload.checked_sub(header).ok_or(OutDiscard::TooLong);
        let header = if given.acknowledged { SHORT } else { long_octets(given) };
        if !lane.has(2) {
            return Err(OutDiscard::SeqExhausted);
        }
        let mut packets = ArrayVec::new();
        // Sites behind a relay find out what their whole way carries, by packets that are lost. What is known here of this leg may be less
        // than it carries: it is looked for apart, and after a loss for half a minute not at all.
        if taken.flow.relay().is_some() || body.len() <= room(header)? {
            let form = form_of(given, PacketForm::Whole);
            packets.extend(packet(lane, given, taken, form, body));
            if state.offers && route.destination != Destination::All {
                state.offer(now, context, given);
            }
        } else {
            let first = body.len().div_ceil(2).min(room(header)?);
            if body.len() - first > room(SHORT)? {
                return Err(OutDiscard::TooLong);
            }
            let form = form_of(given, PacketForm::First);
            let middle = body.start + first;
            packets.extend(packet(lane, given, taken, form, body.start..middle));
            packets.extend(packet(lane, given, taken, PacketForm::Second, middle..body.end));
            counters.out_pkts_split += 1;
        }
        counters.out_pkts_long_form += u64::from(!given.acknowledged);
        Ok(packets)
    }

    /// Requests the next epoch before numbers or seqs run out.
    fn want_epoch(&mut self, now: Instant, context: &PeerContext, state: &mut SiteState) {
        let short = self.flows.run_short() || self.transmit.as_ref().is_some_and(Lane::runs_short);
        if short && self.wanted.is_none_or(|wanted| now.since(wanted) >= AGAIN) {
            let (peer, generation, newest) = (context.peer, context.generation, self.transmit_epoch());
            if state.events.tell(Event::EpochWanted { peer, generation, newest }) {
                self.wanted = Some(now);
            }
        }
    }
}

/// Octets of the header while the peer does not know the flow.
const fn long_octets(given: &NumberedFlow) -> usize {
    if given.flow.tags.is_empty() { LONG } else { LONGEST }
}

/// Form of a whole frame or a first fragment: a long one while the peer does not know the flow.
fn form_of(given: &NumberedFlow, short: PacketForm) -> PacketForm {
    match (given.acknowledged, given.flow.tags.is_empty(), short) {
        (true, ..) => short,
        (false, true, PacketForm::Whole) => PacketForm::LongForm,
        (false, true, _) => PacketForm::LongFirst,
        (false, false, PacketForm::Whole) => PacketForm::TaggedLongForm,
        (false, false, _) => PacketForm::TaggedLongFirst,
    }
}

/// Puts a flow, masked, and its tag behind a header.
#[cold]
#[inline(never)]
fn add_flow(
    header: &mut ArrayVec<u8, LONGEST>,
    seq: &TakenSeq<'_>,
    fields: [u8; HEADER_OCTETS],
    flow: &Flow,
) {
    if flow.tags.is_empty() {
        add_masked(header, seq, fields, &flow.encode());
    } else {
        add_masked(header, seq, fields, &flow.encode_tagged());
    }
}

fn add_masked<const FLOW: usize>(
    header: &mut ArrayVec<u8, LONGEST>,
    seq: &TakenSeq<'_>,
    fields: [u8; HEADER_OCTETS],
    flow: &[u8; FLOW],
) {
    header.extend(flow.iter().zip(seq.long_mask::<FLOW>()).map(|(octet, mask)| octet ^ mask));
    header.extend(seq.long_tag(fields, flow));
}

/// One packet; none if the seqs are used up.
fn packet(
    lane: &mut Lane,
    given: &NumberedFlow,
    taken: &ParsedFrame,
    form: PacketForm,
    body: core::ops::Range<usize>,
) -> Option<Packet> {
    let seq = lane.take()?;
    let mut octets = [0; LONGEST];
    let fields = Header { flow: given.index, form, fields: taken.fields }.encode();
    octets[..RID_OCTETS].copy_from_slice(&seq.block.rid.octets());
    octets[RID_OCTETS..CHECKED].copy_from_slice(&seq.check(fields));
    for ((out, octet), mask) in octets[CHECKED..].iter_mut().zip(fields).zip(seq.block.mask) {
        *out = octet ^ mask;
    }
    let mut header = ArrayVec::from(octets);
    header.truncate(SHORT);
    if form.is_long() {
        add_flow(&mut header, &seq, fields, &given.flow);
    }
    Some(Packet { header, body })
}
