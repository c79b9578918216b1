//! Savings by antedating: ordinary ciphers beside antedated ones, on a Cortex-M4, on this host with AES in software, and
//! on this host as it is; beside the figures of the paper (Hiller et al., LCN 2018, section VI: a Zolertia Z1 at 16 MHz).
//!
//! This host is measured here. The other two need another build: `scripts/precompute.sh` makes their rows, and this
//! bench reads them.

mod table;

use std::fs;
use std::path::Path;

use ::bench::{Row as Figure, Target};
use precompute::{BATCH, PAYLOADS, Row, TEMPLATES, What, host};

pub use table::PrecomputeTable;

const BENCH: &str = "precompute";

/// On what was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// A Cortex-M4 in an emulator that counts instructions.
    CortexM4,
    /// This host, with AES in software.
    Software,
    /// This host.
    Host,
}

impl Device {
    const fn name(self) -> &'static str {
        match self {
            Self::CortexM4 => "Cortex-M4",
            Self::Software => "this host, software AES",
            Self::Host => "this host",
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::CortexM4 => "instructions",
            Self::Software | Self::Host => "ns",
        }
    }
}

/// Measurements on one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// On what.
    pub device: Device,
    rows: Vec<Row>,
}

impl Measured {
    /// Measures this host, in so many rounds.
    pub fn here(rounds: usize) -> Self {
        Self { device: Device::Host, rows: host::rows(rounds) }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// In words.
    pub fn read(device: Device, file: &Path) -> Result<Self, String> {
        let cure = "make it with: scripts/precompute.sh mcu, or soft";
        let text = fs::read_to_string(file)
            .map_err(|error| format!("{} cannot be read: {error}; {cure}", file.display()))?;
        let rows: Option<Vec<Row>> = text.lines().filter(|line| *line != "end").map(host::parse).collect();
        let rows = rows.filter(|rows| !rows.is_empty() && text.ends_with("end\n"));
        Ok(Self { device, rows: rows.ok_or_else(|| format!("{} holds no rows; {cure}", file.display()))? })
    }

    fn row(&self, what: What, payload: usize, template: usize) -> Option<&Row> {
        self.rows.iter().find(|row| (row.what, row.payload, row.template) == (what, payload, template))
    }

    /// Cost of the ordinary computation: the faster one of ours and the crate's.
    fn ordinary(&self, row: &Row) -> f64 {
        let by_crate = self.row(What::OrdinaryCrate, row.payload, 0).filter(|_| row.what == What::Both);
        by_crate.map_or(row.ordinary, |other| other.ordinary.min(row.ordinary)) as f64
    }

    /// Share of the ordinary computation that is done before, in per cent.
    fn saved(&self, row: &Row) -> f64 {
        100.0 * (1.0 - row.online as f64 / self.ordinary(row))
    }

    /// Extra cost of both phases over the ordinary computation, in per cent of it.
    fn overhead(row: &Row) -> f64 {
        100.0 * ((row.prepare + row.online) as f64 / row.ordinary as f64 - 1.0)
    }

    /// Upper bound of the saving, in per cent: if nothing were left to do but the blocks of the CBC-MAC behind the
    /// template, one after the other.
    fn possible(&self, row: &Row) -> Option<f64> {
        let block = self.row(What::Block, 16, 0)?.online as f64;
        let blocks = (row.payload - row.template).div_ceil(16) as f64;
        Some(100.0 * (1.0 - blocks * block / self.ordinary(row)))
    }

    /// All rows as figures.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for row in &self.rows {
            let Row { what, payload, template, ordinary, prepare, online } = row;
            let case =
                format!("{}, {}, {payload} octets, template {template}", self.device.name(), what.name());
            for (phase, value) in [("ordinary", ordinary), ("prepare", prepare), ("online", online)] {
                let figure = Figure::new(
                    BENCH,
                    &format!("{case}, {phase}"),
                    *value as f64,
                    self.device.unit(),
                    BATCH as u64,
                );
                let target = match phase {
                    "prepare" => self.overhead_target(row),
                    "online" => self.target(row),
                    _ => None,
                };
                figures.push(Figure { target, ..figure });
            }
        }
        figures
    }

    /// Target of the online phase, where that is laid down: on the Cortex-M4.
    fn target(&self, row: &Row) -> Option<Target> {
        let least = match row.what {
            What::Both => 0.95 * self.possible(row)?,
            _ => paper_saves(row)?,
        };
        let wanted = format!("at least {least:.2} % saved");
        (self.device == Device::CortexM4).then(|| Target { wanted, met: self.saved(row) >= least })
    }

    /// Limit on the extra cost of both phases, where that is laid down.
    fn overhead_target(&self, row: &Row) -> Option<Target> {
        let laid_down = self.device == Device::CortexM4
            && matches!(row.what, What::Encryption | What::Both)
            && row.payload >= OVERHEAD_FROM;
        let wanted = format!("preparation and rest at most {MOST_OVERHEAD} % more than the ordinary way");
        laid_down.then(|| Target { wanted, met: Self::overhead(row) <= MOST_OVERHEAD })
    }

    /// Targets for a Cortex-M4, row by row: how many are met, and the missed ones in words. A row that is not there has
    /// missed its target.
    pub fn check_targets(&self) -> Judged {
        let all = |what, template| PAYLOADS.map(|payload| (what, payload, template));
        let wanted = (all(What::Encryption, 0).into_iter())
            .chain(TEMPLATES.into_iter().flat_map(|template| all(What::Both, template)))
            .chain(PAPER.into_iter().map(|(what, payload, template, _)| (what, payload, template)))
            .filter(|(_, payload, template)| template <= payload);
        let mut rows: Vec<_> = wanted.collect();
        rows.sort_by_key(|(what, payload, template)| (what.name(), *payload, *template));
        rows.dedup();
        let mut judged = Judged { met: 0, missed: Vec::new() };
        for (what, payload, template) in rows {
            let case = format!("{}, {payload} octets, template {template}", what.name());
            let Some(row) = self.row(what, payload, template) else {
                judged.missed.push(format!("{case}: not measured"));
                continue;
            };
            let (saved, overhead) = (self.saved(row), Self::overhead(row));
            for target in [self.target(row), self.overhead_target(row)].into_iter().flatten() {
                if target.met {
                    judged.met += 1;
                } else {
                    let wanted = target.wanted;
                    judged.missed.push(format!(
                        "{case}: wanted: {wanted}; saved {saved:.2} %, {overhead:+.2} % in all"
                    ));
                }
            }
        }
        judged
    }
}

/// Result of [`Measured::judge`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judged {
    /// Targets that are met.
    pub met: usize,
    /// A line for each other.
    pub missed: Vec<String>,
}

/// Preparing and sending together may cost so much more than the ordinary way, in per cent, from so many octets up.
const MOST_OVERHEAD: f64 = 5.0;
const OVERHEAD_FROM: usize = 48;

/// Savings of the paper, in per cent: its section VI.
fn paper_saves(row: &Row) -> Option<f64> {
    PAPER
        .iter()
        .find(|paper| (paper.0, paper.1, paper.2) == (row.what, row.payload, row.template))
        .map(|paper| paper.3)
}

/// Operation, payload, template, and the saving in per cent (sections VI-A to VI-C; "large" is 200 octets, "small" 48, both
/// with a template of 48).
const PAPER: [(What, usize, usize, f64); 9] = [
    (What::Encryption, 16, 0, 78.93),
    (What::Encryption, 80, 0, 88.13),
    (What::Encryption, 1000, 0, 89.90),
    (What::Mac, 112, 96, 75.85),
    (What::Mac, 112, 16, 21.99),
    (What::Mac, 64, 48, 64.45),
    (What::Mac, 1000, 48, 5.95),
    (What::Both, 48, 48, 75.97),
    (What::Both, 200, 48, 56.55),
];

/// Payload, and what both phases of antedated encryption cost more than the ordinary one, in per cent (section VI-A).
const PAPER_OVERHEAD: [(usize, f64); 5] = [(16, 27.59), (48, 11.28), (80, 8.20), (200, 5.36), (1000, 4.14)];

/// A row of the paper's table I: the smallest and the largest payload in octets, and the tightest bound in milliseconds.
struct Scenario {
    name: &'static str,
    payload: (usize, usize),
    bound: f64,
}

const SCENARIOS: [Scenario; 9] = [
    Scenario { name: "condition monitoring", payload: (16, 50), bound: 100.0 },
    Scenario { name: "process automation", payload: (16, 80), bound: 50.0 },
    Scenario { name: "logistics automation", payload: (16, 300), bound: 15.0 },
    Scenario { name: "factory maintenance", payload: (200, 1000), bound: 20.0 },
    Scenario { name: "packaging", payload: (15, 15), bound: 5.0 },
    Scenario { name: "printing", payload: (30, 30), bound: 2.0 },
    Scenario { name: "production lines", payload: (20, 50), bound: 1.0 },
    Scenario { name: "smart grid", payload: (200, 1521), bound: 8.0 },
    Scenario { name: "augmented reality", payload: (200, 1000), bound: 10.0 },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::pair::Scratch;

    const ROWS: &str = "\
block,16,0,2200,0,4000
crate-ccm,48,0,40000,0,0
encryption,16,0,5000,4900,250
both,48,48,50000,49000,1000
both,48,0,50000,37000,14000
end
";

    #[test]
    fn shares_are_of_the_faster_ordinary_way() {
        let directory = Scratch::new().unwrap();
        let file = directory.path().join("mcu.csv");
        fs::write(&file, ROWS).unwrap();
        let measured = Measured::read(Device::CortexM4, &file).unwrap();
        let row = |what, payload, template| *measured.row(what, payload, template).unwrap();
        let encryption = row(What::Encryption, 16, 0);
        assert_eq!((measured.saved(&encryption), Measured::overhead(&encryption).round()), (95.0, 3.0));
        // 40,000 by the crate; three blocks of 4,000 each are left without a template, none with one.
        let (with, without) = (row(What::Both, 48, 48), row(What::Both, 48, 0));
        assert_eq!((measured.saved(&with), measured.possible(&with)), (97.5, Some(100.0)));
        assert_eq!((measured.saved(&without), measured.possible(&without)), (65.0, Some(70.0)));
        assert_eq!(measured.target(&with).map(|target| target.met), Some(true));
        assert_eq!(
            measured.target(&without).map(|target| target.met),
            Some(false),
            "65 of 70 is less than 95 %"
        );
        let table = PrecomputeTable(&[measured]).to_string();
        for line in [
            "encryption, 16 octets, template 0                78.93                    95.00",
            "targets on the Cortex-M4: 4 of 5 met",
        ] {
            assert!(table.contains(line), "{table}");
        }
    }

    #[test]
    fn a_target_is_missed_by_what_is_slow_and_by_what_is_not_there() {
        let directory = Scratch::new().unwrap();
        let file = directory.path().join("mcu.csv");
        let judge = |rows: &str| {
            fs::write(&file, rows).unwrap();
            Measured::read(Device::CortexM4, &file).unwrap().check_targets()
        };
        // Both at 48 octets has a target for each phase, with its template and without; encryption at 16 has one.
        let judged = judge(ROWS);
        assert_eq!(judged.met, 4);
        let count_of = |text: &str| judged.missed.iter().filter(|line| line.contains(text)).count();
        assert_eq!(count_of("both, 48 octets, template 0: wanted: at least 66.50 % saved; saved 65.00 %"), 1);
        assert_eq!(count_of("both, 48 octets, template 48"), 0);
        assert_eq!(count_of("mac, 112 octets, template 96: not measured"), 1);
        // 4 of the MAC; of encryption all but one; of both, a row for each template that is no longer than its payload, but two.
        let pairs = TEMPLATES.into_iter().flat_map(|template| PAYLOADS.map(|payload| payload >= template));
        assert_eq!(count_of("not measured"), 3 + PAYLOADS.len() + pairs.filter(|fits| *fits).count() - 2);
        // A tenth more for the preparation.
        let judged = judge(&ROWS.replace("49000", "55000"));
        assert_eq!(judged.met, 3);
        let line = "both, 48 octets, template 48: wanted: preparation and rest at most 5 % more than the \
                    ordinary way; saved 97.50 %, +12.00 % in all";
        assert!(judged.missed.contains(&line.to_owned()), "{judged:?}");
    }

    #[test]
    fn a_file_that_breaks_off_holds_no_rows() {
        let directory = Scratch::new().unwrap();
        let file = directory.path().join("mcu.csv");
        for text in ["", "end\n", "block,16,0,1,0,2\n", "no row\nend\n"] {
            fs::write(&file, text).unwrap();
            let error = Measured::read(Device::CortexM4, &file).unwrap_err();
            assert!(error.contains("holds no rows; make it with: scripts/precompute.sh"), "{error}");
        }
        let missing = Measured::read(Device::Software, &directory.path().join("none")).unwrap_err();
        assert!(missing.contains("cannot be read"), "{missing}");
    }
}
