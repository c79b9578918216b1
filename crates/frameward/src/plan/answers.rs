//! Answers for each payload and mode: the measured figures beside the budget.
//!
//! Two things are known of what a frame takes, whatever was measured: a shorter one takes no longer, and a longer one takes
//! no longer for each octet, since look-up, header and key cost the same for all. So each p99.9 is bounded by those of all other
//! payloads of its mode, and one that something else has held up for a while is not taken for slow beside a longer one
//! that fits.
//!
//! | p99.9 of the slower of both operations | verdict |
//! |---|---|
//! | above t_max, and the median too | too slow |
//! | above t_max, and a loop that does nothing never is | too slow |
//! | above t_max, and such a loop once is too: what holds it up has emptied the caches for some frames behind it | too busy to judge |
//! | up to t_max, but a frame was held up for longer than the cycle has left | too busy to judge: no cipher takes so long |
//! | up to t_max | fits |

use fieldbus::budget::{Cycle, Path, Payload, Picoseconds};

use config::Named as _;

use super::{
    Cost, IdleLoop, Measured, ModeAnswer, PathAnswer, PayloadAnswer, Percentiles, Question, Verdict, Whole,
    microseconds,
};

/// Payload by payload, as they were asked for.
pub(super) fn payloads(question: &Question, mut measured: Vec<Measured>) -> Vec<PayloadAnswer> {
    bound(&mut measured);
    let payload = |payload: &Payload| {
        let longest = question.budget.longest(*payload);
        let modes = measured.iter().filter(|row| row.payload == *payload);
        PayloadAnswer {
            payload: payload.octets(),
            line_octets: payload.line_octets().0,
            relations: question.budget.relations(*payload),
            uplink_relations: question.uplink_relations(*payload),
            t_max_us: longest.ok().map(|longest| longest.nanoseconds() / 1e3),
            shortest_cycle_us: longest.err().map(|none| microseconds(none.shortest)),
            modes: modes.map(|row| answer(question, row)).collect(),
        }
    };
    question.payloads.iter().map(payload).collect()
}

/// Every network between plants loses a frame now and then: a path on which devices bear no loss does not fit.
pub(super) fn path(cycle: Cycle, path: &Path) -> PathAnswer {
    let losses_in_a_row = path.losses_in_a_row(cycle);
    PathAnswer {
        uplink_bits_per_second: path.uplink.bits_per_second(),
        data_hold: path.data_hold,
        oldest_us: microseconds(path.oldest()),
        losses_in_a_row,
        fits: losses_in_a_row.is_some_and(|losses| losses > 0),
    }
}

/// Bounds each p99.9 and median by those of the other payloads.
fn bound(measured: &mut [Measured]) {
    type Figure = fn(&mut Measured) -> &mut f64;
    let figures: [Figure; 4] = [
        |row| &mut row.protect.p99_9,
        |row| &mut row.verify.p99_9,
        |row| &mut row.protect.single_p50,
        |row| &mut row.verify.single_p50,
    ];
    for figure in figures {
        let seen: Vec<_> =
            measured.iter_mut().map(|row| (row.mode, row.payload.line_octets().0, *figure(row))).collect();
        for row in measured.iter_mut() {
            let (mode, octets) = (row.mode, row.payload.line_octets().0);
            let of_mode = seen.iter().filter(|(other, ..)| *other == mode);
            let bounds =
                of_mode.map(|(_, other, took)| took * f64::from(octets.max(*other)) / f64::from(*other));
            let least = bounds.fold(f64::INFINITY, f64::min);
            *figure(row) = least;
        }
    }
}

fn answer(question: &Question, row: &Measured) -> ModeAnswer {
    let Measured { payload, mode, relations: relations_measured, protect, verify, idle_loop } = row;
    let relations = question.budget.relations(*payload);
    let t_max = question.budget.longest(*payload).ok().map(Picoseconds::nanoseconds);
    let ports = question.port_time.as_nanos() as f64;
    let slower = |of: fn(&Percentiles) -> f64| of(protect).max(of(verify)) + ports;
    let (median, most, worst) = (slower(|of| of.single_p50), slower(|of| of.p99_9), slower(|of| of.worst));
    let uplink = question.uplink_relations(*payload).unwrap_or(u64::MAX);
    let wanted = question.relations.unwrap_or_else(|| relations.min(uplink).max(1));
    let cycle = question.budget.cycle.time().as_nanos() as f64;
    let core_share = wanted as f64 * (protect.p99_9 + verify.p99_9 + 2.0 * ports) / cycle;
    let slack = cycle * (1.0 - core_share);
    let verdict = match t_max {
        None => Verdict::NoRelation,
        Some(_) if wanted > relations => Verdict::TooManyRelations,
        Some(_) if wanted > uplink => Verdict::UplinkTooSlow,
        Some(t_max) if median > t_max => Verdict::TooSlow,
        Some(t_max) if most > t_max && idle_loop.worst_ns + ports > t_max => Verdict::TooBusy,
        Some(t_max) if most > t_max => Verdict::TooSlow,
        Some(_) if slack <= 0.0 => Verdict::TooSlow,
        Some(_) if worst > slack => Verdict::TooBusy,
        Some(_) => Verdict::Fits,
    };
    let is_carried = |value: f64| Some(value).filter(|_| relations > 0);
    ModeAnswer {
        mode: mode.name().into(),
        relations_measured: *relations_measured,
        protect: protect.into(),
        verify: verify.into(),
        idle_loop: *idle_loop,
        headroom: t_max.map(|t_max| t_max / most),
        core_share: is_carried(core_share),
        slack_us: is_carried(slack / 1e3),
        verdict,
    }
}

impl From<&Percentiles> for Cost {
    fn from(Percentiles { p50, p99_9, worst, samples, .. }: &Percentiles) -> Self {
        Self { p50_ns: *p50, p99_9_ns: *p99_9, worst_ns: *worst, samples: *samples }
    }
}

impl IdleLoop {
    /// For how long something else had the CPU, at the most.
    pub(super) fn held_up(&self) -> f64 {
        (self.worst_ns - self.length_ns).max(0.0)
    }
}

impl Whole {
    pub(super) fn of(verdicts: impl Iterator<Item = Verdict>) -> Self {
        let of = |verdict| match verdict {
            Verdict::Fits => Self::Fits,
            Verdict::TooBusy => Self::TooBusy,
            Verdict::TooSlow | Verdict::TooManyRelations | Verdict::UplinkTooSlow | Verdict::NoRelation => {
                Self::DoesNotFit
            }
        };
        verdicts.map(of).fold(Self::Fits, |whole, one| match (whole, one) {
            (Self::DoesNotFit, _) | (_, Self::DoesNotFit) => Self::DoesNotFit,
            (Self::TooBusy, _) | (_, Self::TooBusy) => Self::TooBusy,
            (Self::Fits, Self::Fits) => Self::Fits,
        })
    }
}
