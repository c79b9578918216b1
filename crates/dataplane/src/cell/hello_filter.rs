//! Filter of HELLOs in front of the handshakes: a forged one ends here, for the price of a MAC, and one that needs no more than an
//! answer gets it here.
//!
//! ```text
//!  a frame ──▶ names a nonce of mine? ──yes──▶ a queue ──┐  4 MACs    names a nonce of mine ─▶ control
//!                                     ──no───▶ a queue ──┴─ of each ▶ names none ───────────▶ answered with my offer
//!                                                           a turn    names another ────────▶ control, few in a second
//! ```
//!
//! The budget is CPU work: [`MACS`] MACs of each share in a turn, behind all of its frames. A worker that has
//! nothing else to do goes on at once with those that wait; one that is busy does so much for each of its bursts. The share of
//! HELLOs that name a nonce of mine is theirs alone: somebody who does not see what this gateway sends cannot spend it.
//! With two master keys a forged HELLO costs two MACs, and half as many are looked at.
//!
//! A true HELLO that is played again costs less than a forged one, or as much. One that names my nonce goes to control once in
//! [`AGAIN`]; a copy within that says nothing that the first one did not. One that names none changes nothing, and its
//! answer nothing but the offer: a relation has one answer waiting at the most, and all go at the pace of HELLOs. What names
//! another nonce is late, unless it crossed a change of mine.
//!
//! Relations do not take each other's room: of one at most [`OF_ONE`] wait in each share.
//!
//! Work for a HELLO: a copy of it, and one MAC if it finds room. No allocation, no lock, no log.

use std::collections::VecDeque;
use std::time::Duration;

use arrayvec::ArrayVec;
use fieldbus::Moment;
use fieldbus::handshake::{Asker, ExpectedNonces, HelloCodec, HelloDiscard};
use wire::fieldbus::MAC_OCTETS;
use wire::time::{Instant, TokenBucket};

use super::counters::CellCounters;
use super::mailbox::{HelloFrame, LATE_AT_ONCE, WorkerMailbox};

/// MACs of a turn in each share: a few microseconds.
const MACS: usize = 4;
/// HELLOs that wait in each share.
const WAITING: usize = 256;
/// Of these, HELLOs of one relation: a whole burst.
const OF_ONE: u8 = 64;
/// A HELLO that control has got is not given again within this time. A peer asks again after 100 ms.
const AGAIN: Duration = Duration::from_millis(50);
/// HELLOs of a relation that are known again. Two are right at a time: a peer that asks, and one that has entered.
const KNOWN: usize = 4;

const LATE: TokenBucket = TokenBucket::new(LATE_AT_ONCE, Duration::from_millis(10));

/// The two shares of the budget.
#[derive(Clone, Copy)]
enum Share {
    /// HELLOs that name a nonce of mine.
    Named,
    Others,
}

/// The worker's part of a relation's handshake.
#[derive(Debug)]
pub struct HelloFilter {
    line: HelloCodec,
    names: ExpectedNonces,
    waiting: [u8; 2],
    /// Those that control got last, by their MACs.
    known: ArrayVec<([u8; MAC_OCTETS], Moment), KNOWN>,
    late: TokenBucket,
    /// The peer that waits for an answer.
    answer: Option<Asker>,
}

impl HelloFilter {
    /// A filter of this relation, whose handshake has these nonces.
    pub fn new(line: HelloCodec, names: ExpectedNonces) -> Self {
        let (known, late) = (ArrayVec::new(), LATE);
        Self { line, names, waiting: [0; 2], known, late, answer: None }
    }

    fn is_known(&self, mac: &[u8; MAC_OCTETS], now: Moment) -> bool {
        self.known.iter().any(|(known, at)| known == mac && now.since(*at) < AGAIN)
    }

    fn know(&mut self, mac: &[u8; MAC_OCTETS], now: Moment) {
        if self.known.is_full() {
            self.known.remove(0);
        }
        self.known.push((*mac, now));
    }
}

/// Those of all relations, by number.
#[derive(Debug)]
pub(super) struct HelloFilters {
    filters: Box<[HelloFilter]>,
    waiting: [VecDeque<HelloFrame>; 2],
    /// Relations in which somebody waits for an answer, each once.
    answers: VecDeque<u16>,
}

impl HelloFilters {
    pub(super) fn new(filters: Box<[HelloFilter]>) -> Self {
        let answers = VecDeque::with_capacity(filters.len());
        Self { filters, waiting: [0; 2].map(|_| VecDeque::with_capacity(WAITING)), answers }
    }

    /// A frame that looks like a HELLO of a relation.
    pub(super) fn queue(
        &mut self,
        relation: usize,
        frame: &[u8],
        now: Moment,
        counters: &mut CellCounters,
        mailbox: &WorkerMailbox,
    ) {
        let Some(filter) = self.filters.get_mut(relation) else { return };
        let claim = match filter.line.parse(frame) {
            Ok(claim) => claim,
            Err(discard) => return mailbox.shared_counters.discard(discard),
        };
        let named = claim.answers(&filter.names);
        if named && filter.is_known(claim.mac(), now) {
            counters.in_hello_repeated += 1;
            return;
        }
        let share = if named { Share::Named } else { Share::Others } as usize;
        if filter.waiting[share] == OF_ONE || self.waiting[share].len() == WAITING {
            counters.in_hello_flood += 1;
            return;
        }
        filter.waiting[share] += 1;
        self.waiting[share].push_back(HelloFrame::new(relation, frame));
    }

    /// Looks at the MACs of some that wait, and gives control what is true.
    pub(super) fn check_macs(
        &mut self,
        now: Moment,
        counters: &mut CellCounters,
        mailbox: &mut WorkerMailbox,
    ) {
        let looks = MACS / self.filters.first().map_or(1, |filter| filter.line.macs());
        for share in [Share::Named, Share::Others] {
            for _ in 0..looks {
                let Some(frame) = self.waiting[share as usize].pop_front() else { break };
                let Some(filter) = self.filters.get_mut(usize::from(frame.relation)) else { continue };
                filter.waiting[share as usize] -= 1;
                match filter.admit(&frame, now, counters, mailbox) {
                    Ok(None) => {}
                    Ok(Some(asker)) => {
                        // A relation stands in the list once, with the newest that asked.
                        if filter.answer.replace(asker).is_none() {
                            self.answers.push_back(frame.relation);
                        }
                    }
                    Err(discard) => mailbox.shared_counters.discard(discard),
                }
            }
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.iter().any(|share| !share.is_empty())
    }

    pub(super) fn has_answer(&self) -> bool {
        !self.answers.is_empty()
    }

    /// The next answer.
    pub(super) fn next_answer(&mut self, mailbox: &WorkerMailbox) -> Option<HelloFrame> {
        let relation = usize::from(self.answers.pop_front()?);
        let filter = self.filters.get_mut(relation)?;
        let octets = filter.line.answer(&filter.names, filter.answer.take()?);
        mailbox.shared_counters.answered();
        Some(HelloFrame::new(relation, &octets))
    }

    /// A handshake has these nonces now.
    pub(super) fn name(&mut self, relation: usize, names: ExpectedNonces) {
        if let Some(filter) = self.filters.get_mut(relation) {
            filter.names = names;
        }
    }

    /// Relations that go on: (own number, number there).
    pub(super) fn take_over(&mut self, predecessor: &mut Self, carry_over: &[(usize, usize)]) {
        for &(number, before) in carry_over {
            let (own, there) = (&mut self.filters[number], &mut predecessor.filters[before]);
            std::mem::swap(own, there);
            // Master keys are the new ones. The names come with them, from control.
            std::mem::swap(&mut own.line, &mut there.line);
            // The relations that wait ask again.
            (own.waiting, own.answer) = ([0; 2], None);
        }
    }
}

impl HelloFilter {
    /// Does with a HELLO what is to be done, if it is true: the peer, if that is an answer.
    fn admit(
        &mut self,
        frame: &HelloFrame,
        now: Moment,
        counters: &mut CellCounters,
        mailbox: &mut WorkerMailbox,
    ) -> Result<Option<Asker>, HelloDiscard> {
        let claim = self.line.parse(&frame.octets)?;
        let named = claim.answers(&self.names);
        if named && self.is_known(claim.mac(), now) {
            counters.in_hello_repeated += 1;
            return Ok(None);
        }
        if let Some(asker) = self.line.verify(&claim)?.asker() {
            counters.in_hello_answered += 1;
            return Ok(Some(asker));
        }
        let admitted = named || self.late.take(Instant::after_start(now.since(Moment::START)));
        if admitted && mailbox.hellos.send(frame.clone()) {
            counters.in_hello_given += 1;
            if named {
                self.know(claim.mac(), now);
            }
        } else {
            counters.in_hello_flood += 1;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
