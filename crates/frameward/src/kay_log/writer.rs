//! Writes the log while a gateway runs.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use mka::{Settings, Told};
use wire::{Ckn, Instant};

use super::{Entry, Line, LoggedSettings};

/// A log ends when it is as long as this: a group of three says about as much in a month.
const LONGEST: u64 = 1 << 28;

/// A log that is being written. An error ends it; the KaY goes on.
#[derive(Debug)]
pub struct KayLog {
    file: Option<BufWriter<File>>,
    written: u64,
    longest: u64,
}

impl KayLog {
    /// A new log of a KaY that begins now; a file that is there already is continued, since a KaY's beginning stands in
    /// its log.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::of_at_most(LONGEST, path)
    }

    pub(super) fn of_at_most(longest: u64, path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let written = file.metadata()?.len();
        // One that is full says so in its last line.
        let file = Some(BufWriter::new(file)).filter(|_| written <= longest);
        Ok(Self { file, written, longest })
    }

    /// A KaY began.
    pub fn began(&mut self, now: Instant, link: &str, settings: &Settings, ckns: &[Ckn], seed: &[u8; 32]) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let (link, settings) = (link.to_owned(), Box::new(LoggedSettings::from(settings)));
        self.write(now, Entry::Begin { link, unix, settings, ckns: names(ckns), seed: *seed });
    }

    /// It was given other settings or CAKs.
    pub fn changed(&mut self, now: Instant, settings: &Settings, ckns: &[Ckn]) {
        self.write(
            now,
            Entry::Change { settings: Box::new(LoggedSettings::from(settings)), ckns: names(ckns) },
        );
    }

    /// It was told something.
    pub fn told(&mut self, now: Instant, told: Told<'_>) {
        self.write(
            now,
            match told {
                Told::Frame(frame) => Entry::Frame(frame.to_owned()),
                Told::Report(report) => Entry::of_report(report),
                Told::Timeout => Entry::Timeout(()),
                Told::Rekey => Entry::Rekey(()),
            },
        );
    }

    /// Each line is written at once: a log is read when something went wrong, a crash among other things.
    fn write(&mut self, now: Instant, entry: Entry) {
        self.line(now, entry);
        if self.written > self.longest {
            self.line(now, Entry::Full(()));
            self.file = None;
        }
    }

    fn line(&mut self, now: Instant, entry: Entry) {
        let Some(file) = &mut self.file else { return };
        let t = u64::try_from(now.since(Instant::START).as_micros()).unwrap_or(u64::MAX);
        let written = serde_json::to_string(&Line { t, entry }).map_err(io::Error::from).and_then(|line| {
            self.written += line.len() as u64 + 1;
            writeln!(file, "{line}")?;
            file.flush()
        });
        if written.is_err() {
            self.file = None;
        }
    }
}

fn names(ckns: &[Ckn]) -> Vec<String> {
    ckns.iter().map(Ckn::to_string).collect()
}
