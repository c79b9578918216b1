//! The figures as a person reads them: the paper's beside ours.

use std::fmt;

use ::bench::Row as Figure;
use precompute::{PAYLOADS, Row, What};

use super::{BENCH, Device, Measured, PAPER, PAPER_OVERHEAD, SCENARIOS};

/// The clock of the paper's device; one instruction a cycle is assumed, which a Cortex-M4 does not always reach.
const MHZ: f64 = 16.0;

/// All that was measured, the microcontroller first.
#[derive(Debug)]
pub struct PrecomputeTable<'m>(pub &'m [Measured]);

impl fmt::Display for PrecomputeTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figure { commit, machine, .. } = Figure::new(BENCH, "", 0.0, "", 0);
        writeln!(f, "bench {BENCH}, commit {commit}, {machine}\n")?;
        write!(f, "{:44} {:>9}", "saved when the data is there, %", "paper")?;
        self.heads(f)?;
        for (what, payload, template, paper) in PAPER {
            let case = format!("{}, {payload} octets, template {template}", what.name());
            write!(f, "{case:44} {paper:9.2}")?;
            self.each(f, what, payload, template, &|measured, row| measured.saved(row))?;
        }
        write!(f, "\n{:44} {:>9}", "preparation and rest to the ordinary way, %", "paper")?;
        self.heads(f)?;
        for (payload, paper) in PAPER_OVERHEAD {
            write!(f, "{:44} {paper:+9.2}", format!("encryption, {payload} octets"))?;
            self.each(f, What::Encryption, payload, 0, &|_, row| Measured::overhead(row))?;
            write!(f, "{:44} {:>9}", format!("both, {payload} octets"), "")?;
            self.each(f, What::Both, payload, 0, &|_, row| Measured::overhead(row))?;
        }
        write!(f, "\n{:44} {:>9}", "AES-GCM: saved, %", "")?;
        self.heads(f)?;
        for payload in [16, 128, 1000] {
            write!(f, "{:44} {:>9}", format!("gcm, {payload} octets"), "")?;
            self.each(f, What::Gcm, payload, 0, &|measured, row| measured.saved(row))?;
        }
        write!(f, "\n{:44} {:>9}", "GOOSE over CCM: saved, %", "")?;
        self.heads(f)?;
        for (what, means) in [
            (What::GooseChange, "a change, known up to its time"),
            (What::GooseRepetition, "a repetition, known as a whole"),
        ] {
            write!(f, "{means:44} {:>9}", "")?;
            self.row(f, &|measured| measured.rows.iter().find(|row| row.what == what), &Measured::saved)?;
        }
        match self.0.iter().find(|measured| measured.device == Device::CortexM4) {
            Some(measured) => scenarios(f, measured),
            None => Ok(()),
        }
    }
}

impl PrecomputeTable<'_> {
    fn heads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|measured| write!(f, " {:>24}", measured.device.name()))?;
        writeln!(f)
    }

    fn each(
        &self,
        f: &mut fmt::Formatter<'_>,
        what: What,
        payload: usize,
        template: usize,
        of: &dyn Fn(&Measured, &Row) -> f64,
    ) -> fmt::Result {
        self.row(f, &|measured| measured.row(what, payload, template), of)
    }

    fn row(
        &self,
        f: &mut fmt::Formatter<'_>,
        found: &dyn Fn(&Measured) -> Option<&Row>,
        of: &dyn Fn(&Measured, &Row) -> f64,
    ) -> fmt::Result {
        for measured in self.0 {
            match found(measured) {
                Some(row) => write!(f, " {:24.2}", of(measured, row))?,
                None => write!(f, " {:>24}", "-")?,
            }
        }
        writeln!(f)
    }
}

/// The paper's table I: which payloads a Cortex-M4 protects in time.
fn scenarios(f: &mut fmt::Formatter<'_>, measured: &Measured) -> fmt::Result {
    let targets = measured.rows.iter().flat_map(|row| [measured.target(row), measured.overhead_target(row)]);
    let (good, all) =
        targets.flatten().fold((0, 0), |(good, all), target| (good + usize::from(target.met), all + 1));
    writeln!(f, "\ntargets on the Cortex-M4: {good} of {all} met")?;
    writeln!(
        f,
        "\nlargest payload, in octets, that a Cortex-M4 at {MHZ} MHz protects in time (one instruction a cycle;"
    )?;
    writeln!(f, "payloads up to {} were measured)\n", PAYLOADS[PAYLOADS.len() - 1])?;
    writeln!(
        f,
        "{:24} {:>10} {:>9} {:>10} {:>10} {:>12}",
        "", "octets", "bound, ms", "ordinary", "antedated", "template 48"
    )?;
    for scenario in SCENARIOS {
        let (smallest, largest) = scenario.payload;
        let in_time = |what: &dyn Fn(usize) -> Option<u64>| {
            let fits = |payload: &usize| {
                what(*payload).is_some_and(|cost| cost as f64 / (MHZ * 1000.0) <= scenario.bound)
            };
            // A shorter length than the least measured one takes no longer than that.
            let upper = PAYLOADS
                .into_iter()
                .find(|payload| *payload >= largest)
                .unwrap_or(PAYLOADS[PAYLOADS.len() - 1]);
            let most = PAYLOADS.into_iter().filter(|payload| *payload <= upper && fits(payload)).max();
            match most {
                Some(most) if most >= largest.min(upper) => "all".to_owned(),
                Some(most) if most >= smallest => most.to_string(),
                // A template is no longer than the message.
                _ if !PAYLOADS.into_iter().any(|payload| payload <= upper && what(payload).is_some()) => {
                    "-".to_owned()
                }
                _ => "none".to_owned(),
            }
        };
        let both = |payload, template| measured.row(What::Both, payload, template);
        let ordinary = in_time(&|payload| both(payload, 0).map(|row| measured.ordinary(row) as u64));
        let antedated = in_time(&|payload| both(payload, 0).map(|row| row.online));
        let template = in_time(&|payload| both(payload, 48).map(|row| row.online));
        let octets = format!("{smallest}-{largest}");
        writeln!(
            f,
            "{:24} {octets:>10} {:>9} {ordinary:>10} {antedated:>10} {template:>12}",
            scenario.name, scenario.bound
        )?;
    }
    Ok(())
}
