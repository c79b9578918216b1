//! A key of the configuration: its name, the values that it takes, and its meaning.

use std::time::Duration;

use crate::findings::list;

/// A section: `[gateway]`, `[[link]]`.
pub(crate) struct Section {
    /// Its name with those that it stands in.
    pub(crate) path: &'static [&'static str],
    /// Whether there can be several: `[[...]]`.
    pub(crate) many: bool,
    /// Whether the section around it, or the file, cannot be without it.
    pub(crate) needed: bool,
    /// Its meaning, in sentences.
    pub(super) meaning: &'static str,
    /// Its keys, the needed ones first.
    pub(crate) keys: &'static [Key],
}

/// A key of a section.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(super) absent: Absent,
    /// Its effect, in sentences.
    pub(super) meaning: &'static str,
    /// A line of the configuration, or several where it needs another key.
    pub(super) example: &'static str,
}

/// Values that may stand behind a key.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Switch,
    /// An integer.
    Number { from: i64, to: i64 },
    /// One of these integers.
    Numbers(&'static [i64]),
    /// This word.
    Word(&'static str),
    /// One of these words.
    Choice(fn() -> Vec<&'static str>),
    /// A text: what it is, and its regular expression.
    Text { what: &'static str, pattern: &'static str },
    /// A time: what it is, its units, its range, and whether it can be `off`.
    Time { what: &'static str, units: &'static [Unit], from: Duration, to: Duration, off: bool },
    /// A list of at least and at most so many.
    List { of: &'static Kind, from: usize, to: usize },
    /// A share, as a number.
    Share,
    /// A date, or a moment in UTC.
    Moment,
    /// A table in braces.
    Table(&'static [Key]),
    /// One of these.
    Either(&'static [Kind]),
}

/// A unit of times, as it stands behind a number, and its length.
pub(crate) type Unit = (&'static str, Duration);

/// Meaning of a key that is not there.
#[derive(Clone, Copy)]
pub(crate) enum Absent {
    /// It has to be there.
    Needed,
    /// It has to be there under this condition.
    NeededIf(&'static str),
    /// This.
    Switch(bool),
    /// This number.
    Number(i64),
    /// This text.
    Word(&'static str),
    /// This value, as TOML writes it.
    Is(&'static str),
    /// A meaning that no value of the key has, in words.
    Means(&'static str),
}

impl Section {
    /// As a file writes it.
    pub(crate) fn header(&self) -> String {
        let name = self.path.join(".");
        if self.many { format!("[[{name}]]") } else { format!("[{name}]") }
    }

    /// The last part of its path.
    pub(super) fn name(&self) -> &'static str {
        self.path.last().copied().unwrap_or_default()
    }
}

impl Kind {
    /// In words, with the range.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Switch => "`true` or `false`".to_owned(),
            Self::Numbers(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(|number| format!("`{number}`")).collect();
                list(&numbers)
            }
            Self::Number { from, to } => format!("integer, {from} to {to}"),
            Self::Word(word) => format!("`\"{word}\"`"),
            Self::Choice(words) => {
                let words: Vec<_> = words().iter().map(|word| format!("`\"{word}\"`")).collect();
                list(&words)
            }
            Self::Text { what, .. } | Self::Time { what, .. } => (*what).to_owned(),
            Self::List { of, from, to } if from == to => format!("list of {from}: {}", of.words()),
            Self::List { of, from, to } => format!("list of {from} to {to}: {}", of.words()),
            Self::Share => "number, 0.01 to 1".to_owned(),
            Self::Moment => "date, or date and time in UTC".to_owned(),
            Self::Table(keys) => {
                let keys: Vec<_> =
                    keys.iter().map(|key| format!("`{}` ({})", key.name, key.kind.words())).collect();
                format!("table with {}", keys.join(" and "))
            }
            Self::Either(kinds) => kinds.iter().map(Self::words).collect::<Vec<_>>().join("; or "),
        }
    }
}

impl Absent {
    /// The value that the key then has, as TOML writes it.
    pub(super) fn value(&self) -> Option<String> {
        match self {
            Self::Switch(on) => Some(on.to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::Word(word) => Some(format!("\"{word}\"")),
            Self::Is(value) => Some((*value).to_owned()),
            Self::Needed | Self::NeededIf(_) | Self::Means(_) => None,
        }
    }

    /// In words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Needed => "required".to_owned(),
            Self::NeededIf(when) => format!("required {when}"),
            Self::Switch(_) | Self::Number(_) | Self::Word(_) | Self::Is(_) => {
                format!("`{}`", self.value().unwrap_or_default())
            }
            Self::Means(words) => (*words).to_owned(),
        }
    }
}

/// Units of times.
pub(super) mod units {
    use std::time::Duration;

    use super::Unit;

    pub(in crate::reference) const MICROSECONDS: Unit = ("us", Duration::from_micros(1));
    pub(in crate::reference) const MILLISECONDS: Unit = ("ms", Duration::from_millis(1));
    pub(in crate::reference) const SECONDS: Unit = ("s", Duration::from_secs(1));
    pub(in crate::reference) const MINUTES: Unit = ("m", Duration::from_secs(60));
    pub(in crate::reference) const HOURS: Unit = ("h", Duration::from_secs(3600));
    pub(in crate::reference) const DAYS: Unit = ("d", Duration::from_secs(86_400));
}

/// Texts that several keys have.
pub(super) mod texts {
    use super::Kind;

    pub(in crate::reference) const NAME: Kind = Kind::Text {
        what: "1 to 32 of `a-z`, `0-9`, `_` and `-`, a letter or digit first",
        pattern: "^[a-z0-9][a-z0-9_-]{0,31}$",
    };
    pub(in crate::reference) const INTERFACE: Kind =
        Kind::Text { what: "name of an interface, 1 to 15 octets", pattern: r"^[^/:\s]{1,15}$" };
    pub(in crate::reference) const FILE: Kind =
        Kind::Text { what: "path of a file, relative to the configuration's directory", pattern: "^.+$" };
    pub(in crate::reference) const ADDRESS: Kind = Kind::Text {
        what: "IP address and port",
        pattern: r"^([0-9.]+|\[[0-9a-fA-F:.]+(%[0-9]+)?\]):[0-9]+$",
    };
    pub(in crate::reference) const MAC: Kind = Kind::Text {
        what: "MAC address such as `\"02:00:00:00:01:01\"`",
        pattern: "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$",
    };
    pub(in crate::reference) const SCI: Kind = Kind::Text {
        what: "SCI: MAC address, slash, port number",
        pattern: "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}/[0-9]+$",
    };
    pub(in crate::reference) const MTU: Kind =
        Kind::Either(&[Kind::Word("interface"), Kind::Number { from: 576, to: 9216 }]);
}
