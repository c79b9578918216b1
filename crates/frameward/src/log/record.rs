//! An event as a line.
//!
//! ```text
//!  warning: link "press": stranger-under-cak: somebody ...                                text
//!  {"time":"2026-11-24T18:40:00.123Z","level":"warning","event":"stranger-under-cak",
//!   "link":"press","message":"somebody ..."}                                              json, in one line
//! ```
//!
//! `link`, `site`, `cell` and `peer` of an event are its subjects: text has them in front of the message, in their order.
//! Its other fields are in the message already, and JSON has them by themselves too.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Write as _};
use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// Events by subject, and the release since which each has a name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Record {
    pub(super) level: Level,
    /// Its name, which stays the same through versions.
    pub(super) event: String,
    subjects: Vec<(&'static str, String)>,
    fields: BTreeMap<&'static str, Value>,
    pub(super) message: String,
}

#[derive(Serialize)]
struct Json<'r> {
    time: String,
    level: &'static str,
    event: &'r str,
    #[serde(flatten)]
    subjects: BTreeMap<&'r str, &'r str>,
    #[serde(flatten)]
    fields: &'r BTreeMap<&'static str, Value>,
    message: &'r str,
}

impl Record {
    pub(super) fn new(level: Level, event: &str, message: String) -> Self {
        Self { level, event: event.to_owned(), subjects: Vec::new(), fields: BTreeMap::new(), message }
    }

    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut record = Self::new(*event.metadata().level(), "", String::new());
        event.record(&mut record);
        // A line is one event.
        record.message = record.message.replace('\n', "; ");
        record
    }

    /// Without the program's name.
    pub(super) fn text(&self) -> String {
        let mut text = match self.level {
            Level::ERROR => "error: ",
            Level::WARN => "warning: ",
            _ => "",
        }
        .to_owned();
        for (what, name) in &self.subjects {
            // As the configuration calls it.
            let what = if *what == "cell" { "fieldbus" } else { what };
            let _ = write!(text, "{what} {name:?}: ");
        }
        text + &self.message
    }

    pub(super) fn json(&self, now: SystemTime) -> String {
        // The event has a field of its own here.
        let named = self.message.strip_prefix(self.event.as_str()).and_then(|rest| rest.strip_prefix(": "));
        let json = Json {
            time: rfc_3339(now),
            level: self.level_name(),
            event: &self.event,
            subjects: self.subjects.iter().map(|(what, name)| (*what, name.as_str())).collect(),
            fields: &self.fields,
            message: named.unwrap_or(&self.message),
        };
        serde_json::to_string(&json).expect("invariant: text and figures are always JSON")
    }

    fn level_name(&self) -> &'static str {
        match self.level {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => "info",
        }
    }

    /// The prefix by which the journal knows the level of a line (sd-daemon(3)).
    pub(super) fn journal_level(&self) -> &'static str {
        match self.level {
            Level::ERROR => "<3>",
            Level::WARN => "<4>",
            _ => "<6>",
        }
    }

    fn take(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("event", Value::String(name)) => self.event = name,
            ("message", Value::String(message)) => self.message = message,
            (subject @ ("link" | "site" | "cell" | "peer"), Value::String(name)) => {
                self.subjects.push((subject, name));
            }
            (name, value) => {
                self.fields.insert(name, value);
            }
        }
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.take(field, value.into());
    }
}

/// A moment in UTC, with milliseconds.
fn rfc_3339(moment: SystemTime) -> String {
    struct Utc(OffsetDateTime);
    impl fmt::Display for Utc {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Self(utc) = self;
            let (year, month, day) = (utc.year(), u8::from(utc.month()), utc.day());
            let (hour, minute, second, ms) = (utc.hour(), utc.minute(), utc.second(), utc.millisecond());
            write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
        }
    }
    Utc(moment.into()).to_string()
}
