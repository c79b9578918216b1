//! The log: what happens, as events of `tracing` that become a line each on standard error.
//!
//! ```text
//!  any thread but a worker ── info!, warn!, error! ──▶ Log ── a bounded queue ──▶ fw-log ──▶ standard error
//! ```
//!
//! Events are what this crate logs; `control` and `sitelink` return theirs as values (notices), which become events in
//! `run`. Each has a field `event`, its name, and names as `link`, `site`, `cell` and `peer` what it is about. Both are
//! described in docs/book/src/watching.md.
//!
//! [`Log`] is a subscriber of our own and not one of tracing-subscriber: there are no spans and no filters to combine; the
//! words of a line are a contract; and the writer must neither block nor keep buffers for each thread. What other crates
//! trace (quinn's) is not taken.

mod lines;
mod record;

use std::fmt::Display;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::subscriber::{Interest, with_default};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};

use config::LogFormat;
use lines::LogLines;
use record::Record;

/// The log of a gateway. Whoever has a copy may change its format.
#[derive(Clone, Debug)]
pub struct Log(Arc<Output>);

#[derive(Debug)]
struct Output {
    lines: LogLines,
    is_json: AtomicBool,
    is_journal: bool,
}

impl Log {
    /// Lines go to standard error from here on.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start() -> io::Result<Self> {
        Self::to(io::stderr(), is_journal(std::env::var("JOURNAL_STREAM").ok().as_deref()))
    }

    fn to(output: impl Write + Send + 'static, is_journal: bool) -> io::Result<Self> {
        let lines = LogLines::start(output)?;
        Ok(Self(Arc::new(Output { lines, is_json: AtomicBool::new(false), is_journal })))
    }

    /// Takes the events of all threads from here on, until the process ends.
    pub fn install(&self) {
        // There is one in a process; a second one in a test has nothing to take.
        let _ = tracing::subscriber::set_global_default(self.subscriber());
    }

    fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        let log = self.clone();
        Events(move |event: &Event<'_>| {
            let record = Record::of(event);
            log.write(&record, &format!("frameward: {}", record.text()));
        })
    }

    /// Format of lines from now on.
    pub fn set_format(&self, format: LogFormat) {
        self.0.is_json.store(format == LogFormat::Json, Ordering::Relaxed);
    }

    /// Says why the gateway ends, in the words of a command that failed, behind `prefix` if it is text; and waits until
    /// that is written.
    pub fn last_words(&self, prefix: &str, error: &dyn Display) {
        let record = Record::new(Level::ERROR, "gateway-failed", error.to_string());
        self.write(&record, &format!("{prefix}{error}"));
        self.flush();
    }

    /// Waits until all that was said is written.
    pub fn flush(&self) {
        self.0.lines.flush();
    }

    fn write(&self, record: &Record, text: &str) {
        let line = |record: &Record, text: &str| {
            let level = if self.0.is_journal { record.journal_level() } else { "" };
            match self.0.is_json.load(Ordering::Relaxed) {
                true => format!("{level}{}", record.json(SystemTime::now())),
                false => format!("{level}{}", text.replace('\n', &format!("\n{level}"))),
            }
        };
        let gap = |lost| {
            let text = format!("{lost} lines are lost here, because nobody read them");
            line(&Record::new(Level::WARN, "lines-lost", text.clone()), &format!("frameward: {text}"))
        };
        self.0.lines.tell(&line(record, text), gap);
    }
}

/// Whether standard error is the stream to the journal that the service manager has named (systemd.exec(5)).
fn is_journal(stream: Option<&str>) -> bool {
    let is_it = |stream: &str| {
        let stderr = std::fs::File::from(io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
        Some(stream == format!("{}:{}", stderr.dev(), stderr.ino()))
    };
    stream.and_then(is_it).unwrap_or(false)
}

/// Whether it is an event of ours.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.is_event() && metadata.target().starts_with("frameward") && *metadata.level() <= Level::INFO
}

/// A subscriber of our events, and of no spans.
struct Events<F>(F);

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Subscriber for Events<F> {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_ours(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_ours(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn event(&self, event: &Event<'_>) {
        (self.0)(event);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &SpanRecord<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Does `work`, and returns what it logged, too, as text: whoever asked for it gets to read it.
pub(crate) fn heard<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    listen(Some(dispatcher::get_default(Dispatch::clone)), work)
}

/// The same, and the log has nothing of it.
pub(crate) fn heard_alone<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    listen(None, work)
}

fn listen<T>(log: Option<Dispatch>, work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&heard);
    let listener = Events(move |event: &Event<'_>| {
        lines.lock().unwrap_or_else(PoisonError::into_inner).push(Record::of(event).text());
        if let Some(log) = &log {
            log.event(event);
        }
    });
    let done = with_default(listener, work);
    let lines = std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner));
    (done, lines)
}

#[cfg(test)]
mod tests;
