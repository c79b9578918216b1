//! Cost of a cyclic frame in the programs of the kernel path: `BPF_PROG_TEST_RUN` of single frames, protected by one cell and
//! verified by another.
//!
//! The kernel times each run: from before the program to behind it, with two readings of its clock. Frames come in shuffled order,
//! as those of the other extents do, and between two of them lie a system call and a copy. So they find caches as cold as after other work,
//! and the time of a frame of no relation, with which the program ends at once, is told beside.

use std::fmt::Display;
use std::time::Instant;

use ::bench::{Row, Target};
use fieldbus::session::{EpochKey, Session, SessionNumber};
use fieldbus::{KeyChange, LiveSession, Mode, RelationSettings, Settings};
use speed::order::shuffled;
use suite::fieldbus::{KeyContext, MasterKey};
use wire::fieldbus::{CellSuite, HandshakeNonce, KeyId, Protection};
use xdp::Unclaimed;
use xdp::{Cell, Verdict, XdpError};

use super::super::BenchError;
use super::super::samples::Samples;
use super::whole_path::{MTU, frame, relation};
use super::{BENCH, Effort, FLAT, PAPER, PaperRow, RELATIONS, TURN};

/// The loopback interface, as all ports: a program that is only tried sends nothing.
const LOOPBACK: u32 = 1;
const OPERATIONS: [&str; 2] = ["protect", "verify"];

/// Times of one operation.
struct Times {
    middles: Samples,
    /// In nanoseconds.
    all: Vec<u64>,
}

/// Two cells with so many relations in session, and what they took.
struct Case {
    relations: usize,
    ends: [Cell; 2],
    order: Vec<usize>,
    times: [Times; 2],
}

/// Measures each row of the paper with each number of relations; they take turns. Needs root.
///
/// # Errors
/// If the kernel does not take the programs, or a frame does not come out.
pub fn measure(effort: Effort, progress: &mut dyn FnMut(&dyn Display)) -> Result<Vec<Row>, BenchError> {
    let mut rows = vec![nothing(effort)?];
    for row in PAPER {
        progress(&format_args!("programs in the kernel: {} {} octets", row.mode(), row.payload.octets()));
        let case = |relations| Case::new(row, relations);
        let mut cases =
            RELATIONS.into_iter().map(case).collect::<Result<Vec<_>, XdpError>>().map_err(failed)?;
        for _ in 0..effort.rounds {
            for case in &mut cases {
                case.round(row, effort)?;
            }
        }
        for operation in 0..OPERATIONS.len() {
            let alone = cases[0].times[operation].middles.clone();
            for case in &mut cases {
                let reference = (case.relations > 1).then_some(&alone);
                rows.extend(case.times[operation].rows(row, reference));
            }
        }
    }
    Ok(rows)
}

fn failed(error: XdpError) -> BenchError {
    BenchError::Kernel(error.to_string())
}

const fn protection(row: PaperRow) -> Protection {
    Protection { protect: row.protect, suite: CellSuite::ChaCha20Poly1305 }
}

/// Time of a frame with which the program has nothing to do, as the kernel measures it.
fn nothing(effort: Effort) -> Result<Row, BenchError> {
    let case = Case::new(PAPER[0], 1).map_err(failed)?;
    let mut samples = Samples::new("a frame of no relation, a program in the kernel, p50");
    for _ in 0..effort.rounds {
        let mut times = Vec::new();
        let begin = Instant::now();
        while times.is_empty() || begin.elapsed() < effort.time {
            times.push(case.ends[0].run_outward(&[0x5a; 64], 1).map_err(failed)?.time.as_nanos() as u64);
        }
        times.sort_unstable();
        samples.push(times[times.len() / 2] as f64);
    }
    Ok(samples.row(BENCH, "ns/frame", None))
}

impl Case {
    fn new(row: PaperRow, relations: usize) -> Result<Self, XdpError> {
        let octets = row.payload.octets();
        let times = OPERATIONS.map(|operation| Times {
            middles: Samples::new(&format!(
                "{operation} {octets} octets, {}, a program in the kernel, {relations} relations p50",
                row.mode()
            )),
            all: Vec::new(),
        });
        let ends = [end(row, relations, 0)?, end(row, relations, 1)?];
        Ok(Self { relations, ends, order: shuffled(relations, TURN), times })
    }

    /// Frames of all relations, one after the other, for so long.
    fn round(&mut self, row: PaperRow, effort: Effort) -> Result<(), BenchError> {
        let frames: Vec<_> =
            (0..self.relations).map(|number| frame(0, number, row.payload.octets().into())).collect();
        let mut round = [Vec::new(), Vec::new()];
        let begin = Instant::now();
        for number in self.order.iter().cycle() {
            let protected = self.ends[0].run_outward(&frames[*number], 1).map_err(failed)?;
            let verified = self.ends[1].run_inward(&protected.frame, 1).map_err(failed)?;
            for (ran, times) in [protected, verified].iter().zip(&mut round) {
                if ran.verdict != Verdict::Redirect {
                    return Err(BenchError::Kernel(format!(
                        "a frame of a session ends with {:?}",
                        ran.verdict
                    )));
                }
                times.push(ran.time.as_nanos() as u64);
            }
            if begin.elapsed() >= effort.time {
                break;
            }
        }
        for (times, mut round) in self.times.iter_mut().zip(round) {
            round.sort_unstable();
            times.middles.push(round[round.len() / 2] as f64);
            times.all.extend(round);
        }
        Ok(())
    }
}

impl Times {
    /// p50, p99.9 and worst.
    fn rows(&mut self, of: PaperRow, alone: Option<&Samples>) -> [Row; 3] {
        self.all.sort_unstable();
        let mut middle = self.middles.row(BENCH, "ns/frame", alone);
        middle.target = middle.ratio.as_ref().map(|ratio| Target {
            wanted: format!("at most {FLAT} times that with one relation"),
            met: ratio.value <= FLAT,
        });
        let at = |share: f64| self.all[((self.all.len() - 1) as f64 * share).round() as usize] as f64;
        let tail = |what: &str, value| {
            let case = self.middles.case.replace("p50", what);
            Row::new(BENCH, &case, value, "ns/frame", self.all.len() as u64)
        };
        let mut high = tail("p99.9", at(0.999));
        high.target = Some(Target {
            wanted: format!("{} times inside {:.2} us", of.wanted, of.t_max() / 1e3),
            met: of.t_max() / at(0.999) >= of.wanted,
        });
        [middle, high, tail("worst", at(1.0))]
    }
}

/// A cell with all relations in one session: that of the PLC (0) or that of the devices (1).
fn end(row: PaperRow, relations: usize, end: usize) -> Result<Cell, XdpError> {
    let of: Vec<_> = (0..relations).map(|number| relation(end, number)).collect();
    let mut cell = Cell::load(relations)?;
    cell.configure(&Settings::new(protection(row), MTU), &of, Unclaimed::Pass, &[])?;
    cell.set_ports(LOOPBACK, LOOPBACK)?;
    for (number, of) in of.iter().enumerate() {
        cell.change(number, &KeyChange::Enter(LiveSession::new(session(row, of))))?;
        cell.change(number, &KeyChange::Enable(SessionNumber(1)))?;
    }
    Ok(cell)
}

fn session(row: PaperRow, RelationSettings { relation, mode, .. }: &RelationSettings) -> Session {
    debug_assert_eq!(*mode, Mode::Protect);
    let higher = relation.own().0 > relation.peer().0;
    let key = |from_higher, epoch| {
        let direction = KeyContext {
            stations: *relation.stations(),
            from_higher,
            nonces: [1, 2].map(|octet| HandshakeNonce([octet; 16])),
            protection: protection(row),
            epoch,
        };
        let key = MasterKey::new(&[0x5a; 32]).direction_key(&direction);
        EpochKey { key_id: KeyId(epoch as u8), epoch, key }
    };
    Session {
        number: SessionNumber(1),
        transmit: [0, 1].map(|epoch| key(higher, epoch)),
        receive: [0, 1].map(|epoch| key(!higher, epoch)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// One very short round: what the figures are is not judged here. Root, as all that loads programs.
    #[test]
    fn every_row_is_measured_with_every_number_of_relations() {
        let rows = measure(Effort { rounds: 1, time: Duration::ZERO }, &mut |_| {}).unwrap();
        assert_eq!(rows.len(), 1 + 4 * 2 * 5 * 3);
        assert!(rows.iter().all(|row| row.value > 0.0 && row.value.is_finite()), "{rows:?}");
    }
}
