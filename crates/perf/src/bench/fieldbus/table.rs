//! The figures as a person reads them: the paper's table first, then a table for each extent.

use std::fmt;

use ::bench::Row;

use super::machine::{EmptyLoop, Meanwhile};
use super::{BENCH, Extent, FLAT, Figure, PAPER, RELATIONS};

/// Figures that print as tables, and what the machine did meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct FieldbusTable<'f>(pub &'f [Figure], pub &'f Meanwhile);

impl fmt::Display for FieldbusTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else { return Ok(()) };
        let Row { commit, machine, .. } = Row::new(BENCH, "", 0.0, "", 0);
        writeln!(f, "bench {BENCH}, commit {commit}, {machine}")?;
        writeln!(
            f,
            "each relation has a key of its own, and frames come in shuffled order; p50 of bursts, p99.9 and worst of single"
        )?;
        writeln!(
            f,
            "frames, without the {} ns that reading the clock takes; what else this machine did meanwhile is in the worst",
            first.clock_ns
        )?;
        self.paper(f)?;
        Extent::ALL.into_iter().try_for_each(|extent| self.extent(f, extent))?;
        self.loops(f)?;
        self.machine(f)?;
        self.targets(f)
    }
}

impl FieldbusTable<'_> {
    fn paper(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["hardware", "hardware,", "software", "t_max"];
        writeln!(
            f,
            "\n{:12} {:>9} {:>10} {:>10} {:>10} {:>10}",
            "paper, us", "payload", heads[0], heads[1], heads[2], heads[3]
        )?;
        writeln!(f, "{:12} {:>9} {:>10} {:>10}", "", "octets", "", "bare")?;
        for row in PAPER {
            writeln!(
                f,
                "{:12} {:9} {:10.2} {:10.2} {:10.2} {:10.2}",
                row.mode(),
                row.payload.octets(),
                row.hardware_total,
                row.hardware_bare,
                row.software,
                row.t_max() / 1e3
            )?;
        }
        Ok(())
    }

    fn extent(&self, f: &mut fmt::Formatter<'_>, extent: Extent) -> fmt::Result {
        let figures: Vec<_> = self.0.iter().filter(|figure| figure.extent == extent).collect();
        writeln!(f, "\n{:40} p50 in ns with so many relations", format!("{}, ns a frame", extent.name()))?;
        write!(f, "{:12} {:>7} {:>8}", "", "payload", "")?;
        RELATIONS.iter().try_for_each(|relations| write!(f, " {relations:>7}"))?;
        writeln!(f, " {:>8} {:>7} {:>9} {:>10} {:>10}", "growth", "single", "p99.9", "worst", "t_max by")?;
        writeln!(f, "{:110} {:>10}", "", "p99.9")?;
        // One line for all numbers of relations.
        let same = |one: &&Figure, other: &&Figure| (one.row, one.operation) == (other.row, other.operation);
        for line in figures.chunk_by(same) {
            write!(
                f,
                "{:12} {:7} {:>8}",
                line[0].row.mode(),
                line[0].row.payload.octets(),
                line[0].operation
            )?;
            line.iter().try_for_each(|figure| write!(f, " {:7.0}", figure.times.p50))?;
            let most = |of: fn(&Figure) -> f64| line.iter().map(|figure| of(figure)).fold(0.0, f64::max);
            let growth = most(|figure| figure.growth().unwrap_or(0.0));
            let single = most(|figure| figure.times.single_p50);
            let (high, worst) = (most(|figure| figure.times.p99_9), most(|figure| figure.times.worst));
            let headroom = line[0].row.t_max() / high;
            writeln!(f, " {growth:8.2} {single:7.0} {high:9.0} {worst:10.0} {headroom:10.1}")?;
        }
        Ok(())
    }

    /// Below what no work of the same length can come.
    fn loops(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        let mut line = |name: &str, value: fn(&EmptyLoop) -> u64| {
            write!(f, "{name:29}")?;
            self.1.loops.iter().try_for_each(|one| write!(f, " {:>7}", value(one)))?;
            writeln!(f)
        };
        line("an empty loop of so many ns", |one| one.nanoseconds)?;
        line("p99.9, ns", EmptyLoop::p99_9)?;
        line("worst, ns", EmptyLoop::worst)
    }

    /// Share of the time in which this machine had a whole CPU.
    fn machine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:40} {:>8} {:>14} {:>10}",
            "slow single frames, %", "of all", "beside another", "by chance"
        )?;
        for (extent, slow) in &self.1.slow {
            writeln!(
                f,
                "{:40} {:8.2} {:14.1} {:10.1}",
                extent.name(),
                slow.percent(),
                slow.percent_together(),
                slow.percent_by_chance()
            )?;
        }
        match self.1.stolen {
            Some(percent) => writeln!(f, "CPU time that the hypervisor gave to others: {percent:.1} %"),
            None => Ok(()),
        }
    }

    fn targets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nsingle (the p50 of single frames), p99.9 and worst are those of the number of relations with the greatest; growth\n\
             likewise, beside one relation. An empty loop reads the clock and does nothing: what takes as long has no better p99.9 here.\n\
             Slow is a frame that takes a third longer than the median of its round. Where slow ones come together more often than\n\
             chance would have it, it was not they that were slow, but this CPU for a while."
        )?;
        for (what, met) in [
            (
                "p99.9 at least 50 times inside t_max with 1444 octets, 20 times with 44",
                Figure::is_inside as fn(&Figure) -> bool,
            ),
            (&*format!("p50 at most {FLAT} times that with one relation"), Figure::is_flat),
        ] {
            let missed: Vec<_> = self.0.iter().filter(|figure| !met(figure)).collect();
            write!(f, "target, {what}: ")?;
            if missed.is_empty() {
                writeln!(f, "met by all")?;
                continue;
            }
            writeln!(f, "missed by {} of {}", missed.len(), self.0.len())?;
            for figure in missed {
                let Figure { row, extent, operation, relations, .. } = figure;
                writeln!(
                    f,
                    "  {operation} {} octets, {}, {}, {relations} relations: {:.1} times inside, p50 grows {:.2} times",
                    row.payload.octets(),
                    row.mode(),
                    extent.name(),
                    figure.headroom(),
                    figure.growth().unwrap_or(1.0)
                )?;
            }
        }
        Ok(())
    }
}
