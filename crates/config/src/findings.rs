//! Errors and warnings about a configuration, each in one line with the place: `file:line: what is wrong; what to do`.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One error or warning about the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The configuration file, as the user named it.
    pub file: PathBuf,
    /// The line, from 1; none if the file as a whole is meant.
    pub line: Option<usize>,
    /// The mistake, and its cure.
    pub text: String,
}

impl Finding {
    /// The mistake and its cure, without the place. A TOML string may hold control characters, and what is wrong quotes it: one line
    /// stays one line.
    pub fn one_line(&self) -> String {
        let mut line = String::new();
        for c in self.text.chars() {
            if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
        }
        line
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.one_line())
    }
}

/// Collects findings while the configuration is judged.
pub(super) struct Findings<'t> {
    file: &'t Path,
    text: &'t str,
    pub(super) errors: Vec<Finding>,
    pub(super) warnings: Vec<Finding>,
}

impl<'t> Findings<'t> {
    pub(super) fn new(file: &'t Path, text: &'t str) -> Self {
        Self { file, text, errors: Vec::new(), warnings: Vec::new() }
    }

    pub(super) const fn file(&self) -> &Path {
        self.file
    }

    pub(super) fn error(&mut self, span: Range<usize>, text: impl Into<String>) {
        self.errors.push(self.finding(span, text.into()));
    }

    pub(super) fn warn(&mut self, span: Range<usize>, text: impl Into<String>) {
        self.warnings.push(self.finding(span, text.into()));
    }

    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        1 + self.text.bytes().take(span.start).filter(|&octet| octet == b'\n').count()
    }

    fn finding(&self, span: Range<usize>, text: String) -> Finding {
        Finding { file: self.file.to_owned(), line: Some(self.line(&span)), text }
    }
}

/// `a, b or c`.
pub(super) fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
