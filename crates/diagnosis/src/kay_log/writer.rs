//! Writes the log while a gateway runs: made on control's thread, written by one of its own.
//!
//! ```text
//!  control: entry ── line, counted ──▶ bounded channel ──▶ fw-record: write
//!                                      full: lost += 1       an error ends the log
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mka::{Input, Settings};
use wire::{Ckn, Instant};

use super::{Entry, Line, LoggedSettings};

/// A log ends when it is as long as this: a group of three says about as much in a month.
const LONGEST: u64 = 1 << 28;
/// Limit on strangers' frames in it, from one start of a KaY on: about two thousand MKPDUs.
const LONGEST_OF_STRANGERS: u64 = 1 << 20;
/// Lines that may wait for the disk: a group of three says as many in a minute.
const WAITING: usize = 256;
/// Time the end of a log waits for the disk.
const PATIENCE: Duration = Duration::from_secs(3);

/// A log that is being written. An error ends it; the KaY goes on.
#[derive(Debug)]
pub struct KayLog {
    lines: Option<SyncSender<String>>,
    ended: Receiver<()>,
    /// Entries that found the channel full, and that no line tells yet.
    lost: u64,
    /// Those at the end.
    at_the_end: Arc<LostAtTheEnd>,
    /// The moment of the entry before, in microseconds.
    t: u64,
    written: u64,
    longest: u64,
    of_strangers: u64,
}

/// Last line of the thread.
#[derive(Debug, Default)]
struct LostAtTheEnd {
    entries: AtomicU64,
    t: AtomicU64,
}

impl KayLog {
    /// A new log of a KaY that begins now; a file that is there already is continued, since a KaY's beginning stands in
    /// its log.
    ///
    /// # Errors
    /// If the file cannot be written, or the thread that writes it not be started.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::of_at_most(LONGEST, WAITING, path)
    }

    pub(super) fn of_at_most(longest: u64, at_once: usize, path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let written = file.metadata()?.len();
        let (lines, waiting) = sync_channel(at_once);
        let (done, ended) = sync_channel(1);
        let at_the_end = Arc::new(LostAtTheEnd::default());
        let last = Arc::clone(&at_the_end);
        thread::Builder::new().name("fw-record".into()).spawn(move || {
            write_all(&file, &waiting, &last);
            // Nobody may be waiting any more.
            let _ = done.send(());
        })?;
        // One that is full says so in its last line.
        let lines = Some(lines).filter(|_| written <= longest);
        Ok(Self { lines, ended, lost: 0, at_the_end, t: 0, written, longest, of_strangers: 0 })
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
    pub fn told(&mut self, now: Instant, told: Input<'_>) {
        self.write(
            now,
            match told {
                Input::Frame(frame) => Entry::Frame(frame.to_owned()),
                Input::Report(report) => Entry::of_report(report),
                Input::Timeout => Entry::Timeout(()),
                Input::Rekey => Entry::Rekey(()),
            },
        );
    }

    /// It was told of a frame that anybody may have sent. What these take of the log is bounded, and not of the room that
    /// is for all else.
    pub fn stranger(&mut self, now: Instant, frame: &[u8]) {
        if self.of_strangers > LONGEST_OF_STRANGERS {
            return;
        }
        // As digits, and what is around them. Also what finds the channel full counts.
        self.of_strangers += 2 * frame.len() as u64 + 40;
        let entry = match self.of_strangers > LONGEST_OF_STRANGERS {
            true => Entry::StrangersFull(()),
            false => Entry::Stranger(frame.to_owned()),
        };
        self.line(now, entry);
    }

    fn write(&mut self, now: Instant, entry: Entry) {
        self.written += self.line(now, entry);
        if self.lines.is_some() && self.written > self.longest {
            self.line(now, Entry::Full(()));
            self.end();
        }
    }

    /// Hands a line over, and says how long it is; 0 if there was no room for it.
    fn line(&mut self, now: Instant, entry: Entry) -> u64 {
        if self.lines.is_none() {
            return 0;
        }
        if self.lost > 0 && self.hand_over(now, Entry::Lost(self.lost)) > 0 {
            self.lost = 0;
        }
        let length = self.hand_over(now, entry);
        self.lost += u64::from(length == 0);
        length
    }

    fn hand_over(&mut self, now: Instant, entry: Entry) -> u64 {
        let t = u64::try_from(now.since(Instant::START).as_micros()).unwrap_or(u64::MAX);
        self.t = t;
        let Some(lines) = &self.lines else { return 0 };
        let Some(text) = text(&Line { t, entry }) else { return 0 };
        let length = text.len() as u64;
        match lines.try_send(text) {
            Ok(()) => length,
            Err(TrySendError::Full(_)) => 0,
            Err(TrySendError::Disconnected(_)) => {
                self.lines = None;
                0
            }
        }
    }

    /// Lets the thread write what waits, and end.
    fn end(&mut self) {
        self.at_the_end.t.store(self.t, Ordering::Release);
        self.at_the_end.entries.store(self.lost, Ordering::Release);
        self.lines = None;
    }
}

impl Drop for KayLog {
    fn drop(&mut self) {
        if self.lines.is_some() {
            self.end();
        }
        // A disk that stands still does not hold up a stop.
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

/// Each line is written at once: a log is read when something went wrong, a crash among other things.
fn write_all(mut file: &File, lines: &Receiver<String>, last: &LostAtTheEnd) {
    for line in lines {
        if file.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
    let (lost, t) = (last.entries.load(Ordering::Acquire), last.t.load(Ordering::Acquire));
    let last = text(&Line { t, entry: Entry::Lost(lost) }).filter(|_| lost > 0);
    // There is nobody to be told.
    let _ = last.map(|line| file.write_all(line.as_bytes()));
}

fn text(line: &Line) -> Option<String> {
    let mut text = serde_json::to_string(line).ok()?;
    text.push('\n');
    Some(text)
}

fn names(ckns: &[Ckn]) -> Vec<String> {
    ckns.iter().map(Ckn::to_string).collect()
}
