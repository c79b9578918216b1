//! One line of a diagnosis.

use std::fmt;

use serde::Serialize;

/// Its level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; a link works all the same.
    Note,
    /// A link does not work, or works badly.
    Problem,
}

/// A finding with its meaning and its cure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// Its level.
    pub level: Level,
    /// Its subject, in a word.
    pub about: &'static str,
    /// One line.
    pub text: String,
}

impl Finding {
    pub(super) fn ok(about: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Ok, about, text: text.into() }
    }

    pub(super) fn note(about: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Note, about, text: text.into() }
    }

    pub(super) fn problem(about: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Problem, about, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Problem => "PROBLEM",
        };
        write!(f, "{level:<8} {:<10} {}", self.about, self.text)
    }
}
