//! The answer as a person reads it.

use std::fmt;

use super::{Answer, Limit, MOST_RELATIONS, ModeAnswer, PathAnswer, PayloadAnswer, Verdict, Whole};

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, version, cycle_us, load, key_bits, clock_ns, port_time_us, .. } = self;
        let link = Rate(self.link_bits_per_second);
        writeln!(f, "plan, frameward {version}, {machine}")?;
        writeln!(
            f,
            "cycle {}, link {link}, of which {} % for cyclic frames; AES-GCM-{key_bits}",
            Microseconds(*cycle_us),
            load * 100.0
        )?;
        writeln!(
            f,
            "times of one frame, relations in shuffled order: p50 of bursts, p99.9 and worst of single frames, without the"
        )?;
        write!(f, "{clock_ns} ns that reading the clock takes; ")?;
        if *port_time_us > 0.0 {
            writeln!(f, "headroom, share and N with {} for the ports", Microseconds(*port_time_us))?;
        } else {
            writeln!(f, "ports are not in them: --port-time adds what they take")?;
        }
        self.payloads(f)?;
        self.path(f)?;
        self.verdict(f)?;
        self.cycles(f)
    }
}

impl Answer {
    fn payloads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:7} {:>6} {:>6} {:>10}  {:12} {:>25}  {:>25} {:>9} {:>9} {:>8}",
            "", "on the", "", "", "", "protect, ns", "verify, ns", "", "", "of one"
        )?;
        writeln!(
            f,
            "{:>7} {:>6} {:>6} {:>10}  {:12} {:>7} {:>8} {:>8}  {:>7} {:>8} {:>8} {:>9} {:>9} {:>8}  verdict",
            "payload",
            "line",
            "N",
            "t_max, us",
            "mode",
            "p50",
            "p99.9",
            "worst",
            "p50",
            "p99.9",
            "worst",
            "samples",
            "headroom",
            "core"
        )?;
        for payload in &self.payloads {
            for mode in &payload.modes {
                self.line(f, payload, mode)?;
            }
        }
        Ok(())
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, payload: &PayloadAnswer, mode: &ModeAnswer) -> fmt::Result {
        let PayloadAnswer { payload: octets, line_octets, uplink_relations, .. } = payload;
        let relations = payload.relations.min(uplink_relations.unwrap_or(u64::MAX));
        let t_max = payload.t_max_us.map_or("-".to_owned(), |t_max| format!("{t_max:.2}"));
        write!(f, "{octets:7} {line_octets:6} {relations:6} {t_max:>10}  {:12}", mode.mode)?;
        for cost in [&mode.protect, &mode.verify] {
            write!(f, " {:7.0} {:8.0} {:8.0} ", cost.p50_ns, cost.p99_9_ns, cost.worst_ns)?;
        }
        let headroom = mode.headroom.map_or("-".to_owned(), |headroom| format!("{headroom:.1}"));
        let share = mode.core_share.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0));
        write!(f, "{:9} {headroom:>9} {share:>8}  ", mode.protect.samples)?;
        match mode.verdict {
            Verdict::Fits => writeln!(f, "fits"),
            Verdict::TooBusy => writeln!(f, "too busy to judge"),
            Verdict::TooSlow => writeln!(f, "too slow: fewer relations, a longer cycle or a faster CPU"),
            Verdict::TooManyRelations => writeln!(
                f,
                "{} are too many for the link, which carries {}",
                self.relations.unwrap_or_default(),
                payload.relations
            ),
            Verdict::UplinkTooSlow => {
                writeln!(f, "the uplink carries {}", payload.uplink_relations.unwrap_or_default())
            }
            Verdict::NoRelation => writeln!(
                f,
                "the link carries none; a cycle of {} carries one",
                Microseconds(payload.shortest_cycle_us.unwrap_or_default())
            ),
        }
    }

    fn path(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(path) = self.path else { return Ok(()) };
        let PathAnswer { data_hold, oldest_us, losses_in_a_row, .. } = path;
        write!(
            f,
            "\nbetween plants: uplink {}, data up to {} old; ",
            Rate(path.uplink_bits_per_second),
            Microseconds(oldest_us)
        )?;
        match losses_in_a_row {
            Some(0) => writeln!(
                f,
                "one lost frame stops devices that wait for {data_hold} cycles: a longer cycle or data hold time"
            ),
            Some(losses) => {
                writeln!(f, "devices that wait for {data_hold} cycles bear the loss of {losses} in a row")
            }
            None => writeln!(
                f,
                "its jitter alone stops devices that wait for {data_hold} cycles: a longer cycle or data hold time"
            ),
        }
    }

    /// One line: what all of it comes to.
    fn verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verdict {
            Whole::Fits => writeln!(f, "\nverdict: every payload fits"),
            Whole::DoesNotFit if self.path.is_some_and(|path| !path.fits) => {
                writeln!(f, "\nverdict: the path between the plants does not fit the cycle")
            }
            Whole::DoesNotFit => writeln!(f, "\nverdict: some payloads do not fit"),
            Whole::TooBusy => {
                let modes = self.payloads.iter().flat_map(|payload| &payload.modes);
                let held_up = modes.map(|mode| mode.longest_hold_up()).fold(0.0, f64::max);
                writeln!(
                    f,
                    "\nverdict: this machine is too busy to judge: something else had the CPU for up to {}; stop what else runs, or\ngive it a CPU of its own (taskset and isolcpus), and ask again",
                    Microseconds(held_up / 1e3)
                )
            }
        }
    }

    /// A line a cycle, a column for each payload and mode.
    fn cycles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nlargest number of relations, and what limits it: the link; one core, at p99.9; or a cell, which has {MOST_RELATIONS} at most\n(in parentheses what link or CPU would allow)\n"
        )?;
        write!(f, "{:>10}", "cycle")?;
        let columns = self.columns();
        for column in &columns {
            let head = format!("{} octets, {}", column[0].payload, column[0].mode);
            write!(f, "  {head:>26}")?;
        }
        writeln!(f)?;
        for row in 0..columns.first().map_or(0, Vec::len) {
            write!(f, "{:>10}", Microseconds(columns[0][row].cycle_us).to_string())?;
            for answer in columns.iter().map(|column| column[row]) {
                let (limit, other) = match answer.limit {
                    Limit::Link => ("link", format!("CPU {}", answer.cpu_relations)),
                    Limit::Cpu => ("CPU", format!("link {}", answer.link_relations)),
                    Limit::Cell => ("cell", format!("link {}", answer.link_relations)),
                };
                let cell = format!("{} {limit} ({other})", answer.relations);
                write!(f, "  {cell:>26}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl ModeAnswer {
    /// For how long a frame, or a loop that does nothing, was held up, in nanoseconds.
    fn longest_hold_up(&self) -> f64 {
        let frames = [&self.protect, &self.verify].map(|cost| cost.worst_ns - cost.p50_ns);
        frames.into_iter().fold(self.idle_loop.held_up(), f64::max)
    }
}

/// A time that prints in microseconds, or in milliseconds from one on.
pub struct Microseconds(pub f64);

impl fmt::Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = if self.0 < 1000.0 { (self.0, "us") } else { (self.0 / 1e3, "ms") };
        // Three digits, unless they are zeros.
        let text = format!("{value:.3}");
        write!(f, "{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Bits a second that print in their largest unit.
pub struct Rate(pub u64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.0 as f64;
        match self.0 {
            0..1_000_000 => write!(f, "{} kbit/s", rate / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{} Mbit/s", rate / 1e6),
            _ => write!(f, "{} Gbit/s", rate / 1e9),
        }
    }
}
