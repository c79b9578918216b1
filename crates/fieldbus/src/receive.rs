//! Verification of frames from stations behind the other gateway.
//!
//! | check, in this order | discard | pass |
//! |---|---|---|
//! | KeyID, Seq and ICV are there | `InPktsTooShort` | 1 |
//! | there is a session | `InPktsNoSession` | 1 |
//! | KeyID is that of the current key or of the next | `InPktsUnknownKey` | 1 |
//! | Seq is newer than that of the newest verified frame | `InPktsLate` | 1, and again behind the ICV |
//! | ICV | `InPktsNotValid` | 2 |
//!
//! Nothing changes before that: an attacker's frame changes only a counter. Seq is checked twice because one
//! burst can hold two copies of a frame.
//!
//! A delivered frame has the addresses and the FrameID of the relation, which the ICV covers, the EtherType of the relation's protocol,
//! which its keys are bound to, and the configured VLAN tag. The tag from the wire is discarded.
//!
//! Work for a burst of n frames: n headers read, n opens under n prepared keys, n headers written, n
//! additions to a histogram.

use suite::{ICV_OCTETS, Nonce, OpenJob};
use wire::Frame;
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS, VLAN_TAG_OCTETS};
use wire::fieldbus::{HEADER_OCTETS as BEHIND_ETHERTYPE, Header, Seq};

use crate::direction::Direction;
use crate::discard::ReceiveDiscard;
use crate::keys::{CommitOutcome, KeyRef};
use crate::member::{ClearOutcome, Member, PayloadHash, UnknownKeyStats};
use crate::moment::Moment;
use crate::relations::{GROUP, RelationMatch, Relations};
use crate::settings::{Mode, Settings};
use crate::transmit::{AAD_OCTETS, sections};

/// Proof that a frame was verified and is to be delivered. Only [`Relations::verify`] makes one.
#[derive(PartialEq, Eq, Debug)]
pub struct Verified(());

/// A received frame of a relation under verification.
#[derive(Debug)]
pub struct Incoming<'b> {
    frame: Frame<'b>,
    found: RelationMatch,
    open: Option<Open>,
    outcome: Result<Verified, ReceiveDiscard>,
}

/// Result of pass 1 for pass 2.
#[derive(Debug)]
struct Open {
    under: KeyRef,
    seq: Seq,
    nonce: Nonce,
    aad: usize,
    text: usize,
    payload: usize,
}

impl<'b> Incoming<'b> {
    /// A frame that [`Relations::find_inward`] found, to be verified. Its outcome is a discard until then.
    pub const fn new(frame: Frame<'b>, found: RelationMatch) -> Self {
        Self { frame, found, open: None, outcome: Err(ReceiveDiscard::NoSession) }
    }

    /// The frame, in its present state.
    pub const fn frame(&self) -> &Frame<'b> {
        &self.frame
    }

    /// Outcome of the verification.
    ///
    /// # Errors
    /// The reason for not delivering it.
    pub fn into_outcome(self) -> Result<Verified, ReceiveDiscard> {
        self.outcome
    }
}

impl Relations {
    /// Verifies a burst of frames that arrived at `now`, in place, in order.
    pub fn verify(&mut self, now: Moment, burst: &mut [Incoming<'_>]) {
        for group in burst.chunks_mut(GROUP) {
            self.verify_group(now, group);
        }
    }

    fn verify_group(&mut self, now: Moment, group: &mut [Incoming<'_>]) {
        self.prefetch(Direction::Inward, group.iter().map(|incoming| incoming.found));
        for Incoming { frame, found, open, outcome } in &mut *group {
            let (settings, member, _) = self.member_mut(found.relation());
            match admit(settings, member, frame, found.vlan_tags()) {
                Ok(admitted) => *open = Some(admitted),
                Err(discard) => {
                    member.received.count(Err(discard));
                    if discard == ReceiveDiscard::UnknownKey {
                        let unknown = member.unknown.get_or_insert(UnknownKeyStats::at(now));
                        unknown.frames = unknown.frames.saturating_add(1);
                        self.note_watched();
                    }
                    *outcome = Err(discard);
                }
            }
        }
        for Incoming { frame, found, open, outcome } in group {
            let Some(open) = open else { continue };
            let settled = self.settle(now, *found, open, frame);
            self.member_mut(found.relation()).1.received.count(settled);
            *outcome = settled.map(Verified);
        }
    }

    /// Pass 2: opens, decides, commits and delivers.
    fn settle(
        &mut self,
        now: Moment,
        found: RelationMatch,
        open: &Open,
        frame: &mut Frame<'_>,
    ) -> Result<(), ReceiveDiscard> {
        let number = found.relation();
        let member = self.member_mut(number).1;
        // An earlier frame of its burst has ended the key: it is late.
        let key = member.keys.receive_key(open.under).ok_or(ReceiveDiscard::Late)?;
        let (aad, text, icv) = frame.sections(open.aad, open.text).ok_or(ReceiveDiscard::TooShort)?;
        let mut authentic = false;
        let job = OpenJob { nonce: open.nonce, aad, text, icv, authentic: &mut authentic };
        key.key.key().open_each(core::iter::once(job));
        if !authentic {
            return Err(ReceiveDiscard::NotValid);
        }
        let outcome = member.keys.commit(open.under, open.seq)?;
        self.note_watched();
        let (_, member, events) = self.member_mut(number);
        if let Some(unknown) = &mut member.unknown {
            unknown.verified = unknown.verified.saturating_add(1);
        }
        member.received.in_octets_ok += open.payload as u64;
        member.received.in_pkts_missing += u64::from(outcome.missing);
        if let Some(session) = outcome.session {
            member.received.in_sessions += 1;
            events.heard(&mut member.events, number, session);
        }
        if let Some(begun) = outcome.epoch {
            member.received.in_epochs += 1;
            events.receive_epoch(&mut member.events, number, begun);
        }
        if let Some(arrival) = member.gap_monitor.arrived(now) {
            member.jitter.add(arrival.gap.abs_diff(member.settings.relation.cycle));
            if arrival.alarm {
                member.received.in_alarms += 1;
                events.alarm(&mut member.events, number, arrival.gap);
            }
        }
        // The frame starts at its AAD.
        let payload = frame.octets().get(AAD_OCTETS..AAD_OCTETS + open.payload).unwrap_or_default();
        shadow(member, &outcome, payload)?;
        deliver(member, frame, open.payload).ok_or(ReceiveDiscard::TooShort)
    }
}

/// Decides whether a verified frame is delivered. In shadow mode, a twin is delivered only if its frame in
/// clear did not come: that was lost, or the other gateway already protects this relation. So one gateway
/// after the other can leave shadow mode without a lost frame. After the change, a frame is not delivered if
/// it came in clear before: of a burst, all come in clear before the first twin. The payload identifies it,
/// not a count. An attacker who replays frames in clear until the change would otherwise hold up as many true
/// ones after it (`replays_in_clear_hold_up_nothing_behind_the_change`), and after a lost twin a count is
/// wrong (`a_lost_twin_of_a_burst_brings_none_of_the_others_a_second_time`).
fn shadow(member: &mut Member, outcome: &CommitOutcome, payload: &[u8]) -> Result<(), ReceiveDiscard> {
    let Member { settings, clear_ahead, twins, received, .. } = member;
    if *clear_ahead == 0 {
        return Ok(());
    }
    // There were no twins before a session; missing ones are not waited for.
    let without = if outcome.session.is_some() { usize::MAX } else { outcome.missing as usize };
    let clear = twins.twin_of(PayloadHash::of(payload), without);
    if clear.is_none() && (settings.mode == Mode::Protect || outcome.session.is_some()) {
        twins.forget();
    }
    *clear_ahead = twins.awaited();
    match clear {
        Some(ClearOutcome::Refused) => {
            received.in_pkts_clear_twin += 1;
            Ok(())
        }
        Some(ClearOutcome::Delivered) => Err(ReceiveDiscard::Shadow),
        None => Ok(()),
    }
}

/// Pass 1: finds the key and assembles the AAD. The frame then starts at its AAD.
fn admit(
    settings: &Settings,
    member: &Member,
    frame: &mut Frame<'_>,
    vlan_tags: usize,
) -> Result<Open, ReceiveDiscard> {
    let front = HEADER_OCTETS + vlan_tags * VLAN_TAG_OCTETS;
    let behind = frame.octets().get(front..).ok_or(ReceiveDiscard::TooShort)?;
    let payload = behind.len().checked_sub(BEHIND_ETHERTYPE + ICV_OCTETS).ok_or(ReceiveDiscard::TooShort)?;
    let header = Header::parse(behind).map_err(|_| ReceiveDiscard::TooShort)?;
    let seq = header.seq.ok_or(ReceiveDiscard::Late)?;
    let (under, key) = member.keys.admit(header.key_id, seq)?;
    let nonce = key.key.nonce(seq);
    // At least 14 octets precede the FrameID.
    let (start, len) = (frame.start() + front - ADDRESSES_OCTETS, frame.len() + ADDRESSES_OCTETS - front);
    frame.set_bounds(start, len).ok_or(ReceiveDiscard::TooShort)?;
    frame.octets_mut()[..ADDRESSES_OCTETS].copy_from_slice(&member.delivered[..ADDRESSES_OCTETS]);
    let (aad, text) = sections(settings.protection.protect, payload);
    Ok(Open { under, seq, nonce, aad, text, payload })
}

/// Restores the frame as the machine expects it: its front, and the payload in place.
fn deliver(member: &Member, frame: &mut Frame<'_>, payload: usize) -> Option<()> {
    let front = member.delivered.as_slice();
    // The front is at most one octet longer than the AAD, and the frame had two octets before that.
    let start = (frame.start() + AAD_OCTETS).checked_sub(front.len())?;
    frame.set_bounds(start, front.len() + payload)?;
    frame.octets_mut()[..front.len()].copy_from_slice(front);
    Some(())
}
