//! Replay floors while a gateway runs: asked of the workers, brought to disk together.
//!
//! ```text
//!  control ── job ──▶ worker: reads its windows, between two turns ──▶ control ──▶ lease_thread.rs
//! ```
//!
//! **What is promised**: what a receive SA accepted more than a second before a crash, it does not accept after it. A
//! floor covers all that was accepted before it was read, and stands until the next one is on disk. So from reading
//! one to having written the next no more than a second may pass: floors are read every [`PERIOD`], and what is left of
//! the second belongs to the disk. If it takes longer, that is told ([`Notice::FloorsLate`]). What was held back on its
//! way and arrives for the first time is no replay; static keys have no clock that could tell.
//!
//! One write holds the floors of all SAs, and there is none if no floor has risen and the heartbeat is young. A stop
//! reads the floors when the workers have ended, so that a restart in order loses nothing of the promise.
//!
//! *Departure.* Section 7 also writes whenever the high 32 bits of a PN change. A receiver of an XPN suite takes the PN
//! that is nearest to its floor, so after a crash the floor must be less than 2^31 below what the peer sends, wherever
//! the high bits change. A floor of a second ago is, as nobody sends 2^31 frames a second; and no rule about the high
//! bits helps a gateway that was off while its peer sent so many.
//!
//! **If floors cannot be written** (a full disk), links go on. The windows in memory go on refusing replays, so
//! nothing is lost as long as the gateway runs; only if it also crashes is more than a second open to replay. To fail
//! closed would let whoever fills a disk stop the plant. It is told at once and every minute
//! ([`Notice::FloorsFailed`]), and tried again every period. A start that cannot write is refused, and a stop says so.
//! (Leases fail closed: there a nonce would come twice.)

use std::time::{Duration, Instant};

use secy::SecY;
use wire::{An, Pn, Sci};

use crate::Notice;
use crate::lease_thread::FloorReading;
use pnstore::{LeaseError, LeaseName};

/// Interval between readings of floors. The rest of a second is for the disk.
pub const PERIOD: Duration = Duration::from_millis(750);

/// No replay goes further back than this.
const PROMISE: Duration = Duration::from_secs(1);

/// Interval between notices of the same fault.
const REPORT_AGAIN: Duration = Duration::from_secs(60);

/// A receive SA whose floor is kept.
#[derive(Clone, Copy)]
pub struct ReceiveFloor {
    /// The record on disk.
    pub name: LeaseName,
    /// The SC.
    pub sci: Sci,
    /// The SA.
    pub an: An,
}

/// A floor as it was read.
pub(crate) type Floor = (LeaseName, Pn);

/// Reads the floors of a SecY: for each SA the PN above the highest that it received. SAs that are not there have none.
/// Work: at most one search among [`SecY::RECEIVE_SCS`] SCs for each floor; `into` is long enough, so nothing is
/// allocated.
pub(crate) fn read(secy: &SecY, floors: &[ReceiveFloor], into: &mut Vec<Floor>) {
    for floor in floors.iter().take(into.capacity() - into.len()) {
        let sc = secy.receive_scs().find(|sc| sc.sci() == floor.sci);
        let Some(sa) = sc.and_then(|sc| sc.sas().find(|sa| sa.an() == floor.an)) else { continue };
        // After 2^64 - 1 there is none; nobody gets that far.
        let above = Pn::new(sa.window().highest().saturating_add(1)).unwrap_or(Pn::LAST_64);
        into.push((floor.name, above));
    }
}

/// Schedule of floors, and how well they were kept.
pub(crate) struct FloorKeeper {
    due: Instant,
    /// All that was received until then is below the floors on disk.
    covered: Instant,
    failed_reported: Option<Instant>,
    late_reported: Option<Instant>,
}

impl FloorKeeper {
    pub(crate) fn new(now: Instant) -> Self {
        Self { due: now + PERIOD, covered: now, failed_reported: None, late_reported: None }
    }

    /// Whether floors are to be read, which is then not due before another period.
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        let due = now >= self.due;
        if due {
            self.due = now + PERIOD;
        }
        due
    }

    /// Floors are to be read at the next look.
    pub(crate) const fn hasten(&mut self) {
        self.due = self.covered;
    }

    /// No floor is kept: there is nothing to be replayed, and no state that could be too old.
    pub(crate) const fn keep_none(&mut self, now: Instant) {
        self.covered = now;
    }

    /// A notice about floors that were read then and were on disk `took` later, or could not be written.
    pub(crate) fn write_notice(
        &mut self,
        read: FloorReading,
        took: Duration,
        written: Result<bool, LeaseError>,
    ) -> Option<Notice> {
        let FloorReading { at: read_at, complete, .. } = read;
        let (reported, notice) = match written {
            Err(error) => (&mut self.failed_reported, Notice::FloorsFailed { error }),
            Ok(_) => {
                let open = (read_at + took).saturating_duration_since(self.covered);
                if complete {
                    self.covered = read_at;
                }
                if open <= PROMISE {
                    return None;
                }
                (&mut self.late_reported, Notice::FloorsLate { open })
            }
        };
        if reported.is_some_and(|reported| read_at.saturating_duration_since(reported) < REPORT_AGAIN) {
            return None;
        }
        *reported = Some(read_at);
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Moments at which floors are read, in ms; their outcomes; the notices.
    #[test]
    fn the_promise_is_judged() {
        #[derive(Clone, Copy)]
        enum Fate {
            /// Milliseconds later they are on disk.
            Kept(u64),
            /// But for those of a worker that did not answer.
            KeptInPart,
            Failed,
        }
        use Fate::{Failed, Kept, KeptInPart};
        let start = Instant::now();
        let mut keeper = FloorKeeper::new(start);
        for (ms, fate, expected) in [
            (750, Kept(250), ""),
            (1500, Kept(250), ""),
            (2250, Kept(251), "late 1001"),
            (3000, Kept(400), ""),
            (3750, Failed, "failed"),
            (4500, Failed, ""),
            (62_000, Failed, ""),
            (62_250, Kept(0), "late 59250"),
            (63_750, Failed, "failed"),
            (122_250, Kept(0), "late 60000"),
            (182_250, KeptInPart, "late 60000"),
            (242_250, Kept(10), "late 120010"),
            (243_000, KeptInPart, ""),
            (303_000, Kept(0), "late 60750"),
        ] {
            let (took, complete, written) = match fate {
                Kept(ms) => (ms, true, Ok(true)),
                KeptInPart => (0, false, Ok(true)),
                Failed => (0, true, Err(LeaseError::Full { path: PathBuf::new() })),
            };
            let read_at = start + Duration::from_millis(ms);
            let read = FloorReading { at: read_at, began: start, complete };
            let notice = keeper.write_notice(read, Duration::from_millis(took), written);
            let notice = match notice {
                None => String::new(),
                Some(Notice::FloorsLate { open }) => format!("late {}", open.as_millis()),
                Some(Notice::FloorsFailed { .. }) => "failed".to_owned(),
                Some(other) => panic!("{other:?}"),
            };
            assert_eq!(notice, expected, "at {ms} ms");
        }
    }
}
