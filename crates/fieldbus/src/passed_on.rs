//! A relation on the data path, for the next program of its process: Seqs, counters, watch, and frames in clear whose twins have not come.
//!
//! ```text
//!  Relations::pass_on ──▶ PassedRelation ──▶ Relations::go_on ◀── Handshake: derives the keys again
//! ```
//!
//! Nothing that protects or verifies may happen behind [`Relations::pass_on`] in the program before: no Seq is taken twice then, and no
//! frame is accepted twice. Events are told before it; those that wait are not in it.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::counters::{ReceiveCounters, TransmitCounters};
use crate::gap_monitor::PassedGaps;
use crate::handshake::Handshake;
use crate::histogram::Histogram;
use crate::keys::{Keys, PassedKeys};
use crate::member::{ClearOutcome, Member, PayloadHash, UnknownKeyStats};
use crate::moment::Moment;
use crate::relations::Relations;

/// A relation of a cell. It and a [`PassedHandshake`](crate::handshake::PassedHandshake) have this form; another one is another number here.
pub const PASSED_RELATION_FORM: u32 = 1;

/// State of a relation on the data path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PassedRelation {
    keys: PassedKeys,
    sent: Vec<u64>,
    received: Vec<u64>,
    jitter: PassedHistogram,
    residence: [PassedHistogram; 2],
    gaps: PassedGaps,
    /// Since when, in nanoseconds; frames of unknown keys, and verified ones.
    unknown: Option<(u64, u32, u32)>,
    clear_ahead: u8,
    /// Payloads in clear whose twins have not come, and whether they were delivered.
    twins: Vec<(u64, bool)>,
}

/// A histogram: sum and worst in nanoseconds, and the buckets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct PassedHistogram {
    sum: u64,
    worst: u64,
    counts: Vec<u64>,
}

/// Why a relation cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassedOnError {
    /// A session rests on a master key that is not there.
    MasterKey,
    /// Its handshake does not know a session that its frames run in.
    Session,
    /// It is no state of a relation.
    Garbled,
}

impl fmt::Display for PassedOnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MasterKey => "a session rests on another master key",
            Self::Session => "a session is unknown to its handshake",
            Self::Garbled => "the state of a relation is garbled",
        })
    }
}

impl core::error::Error for PassedOnError {}

impl PassedHistogram {
    fn of(histogram: &Histogram) -> Self {
        Self {
            sum: Moment::after_start(histogram.sum()).since_start(),
            worst: Moment::after_start(histogram.worst()).since_start(),
            counts: histogram.counts().to_vec(),
        }
    }

    fn histogram(&self) -> Result<Histogram, PassedOnError> {
        let counts = self.counts.as_slice().try_into().map_err(|_| PassedOnError::Garbled)?;
        Ok(Histogram::of(counts, Duration::from_nanos(self.sum), Duration::from_nanos(self.worst)))
    }
}

impl Relations {
    /// State of a relation for the next program.
    pub fn pass_on(&self, relation: usize) -> PassedRelation {
        let Member {
            keys, sent, received, jitter, residence, gap_monitor, unknown, clear_ahead, twins, ..
        } = self.member(relation);
        let unknown = unknown
            .map(|UnknownKeyStats { since, frames, verified }| (since.since_start(), frames, verified));
        let twins = twins.iter().map(|(hash, clear)| (hash.0, clear == ClearOutcome::Delivered));
        PassedRelation {
            keys: keys.pass_on(),
            sent: sent.values().to_vec(),
            received: received.values().to_vec(),
            jitter: PassedHistogram::of(jitter),
            residence: residence.each_ref().map(PassedHistogram::of),
            gaps: gap_monitor.pass_on(),
            unknown,
            clear_ahead: *clear_ahead,
            twins: twins.collect(),
        }
    }

    /// Goes on with a relation of the program before, whose handshake goes on too. Moments are on the same clock.
    ///
    /// # Errors
    /// [`PassedOnError`]; nothing of the relation is changed then.
    pub fn go_on(
        &mut self,
        relation: usize,
        passed: &PassedRelation,
        handshake: &mut Handshake,
    ) -> Result<(), PassedOnError> {
        let keys = Keys::go_on(&passed.keys, handshake)?;
        let garbled = PassedOnError::Garbled;
        let sent = TransmitCounters::from_values(passed.sent.as_slice().try_into().map_err(|_| garbled)?);
        let received =
            ReceiveCounters::from_values(passed.received.as_slice().try_into().map_err(|_| garbled)?);
        let jitter = passed.jitter.histogram()?;
        let [outward, inward] = &passed.residence;
        let residence = [outward.histogram()?, inward.histogram()?];
        if passed.gaps.is_watched() {
            self.note_watched();
        }
        let (_, member, _) = self.member_mut(relation);
        member.gap_monitor.go_on(&passed.gaps);
        member.unknown = passed.unknown.map(|(since, frames, verified)| UnknownKeyStats {
            since: Moment::after_start(Duration::from_nanos(since)),
            frames,
            verified,
        });
        for &(hash, delivered) in &passed.twins {
            let clear = if delivered { ClearOutcome::Delivered } else { ClearOutcome::Refused };
            member.twins.await_twin(PayloadHash(hash), clear);
        }
        (member.keys, member.sent, member.received) = (keys, sent, received);
        (member.jitter, member.residence, member.clear_ahead) = (jitter, residence, passed.clear_ahead);
        Ok(())
    }
}
