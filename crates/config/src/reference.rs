//! The reference of the configuration: every section and every key, once, for all that explain them.
//!
//! ```text
//! table (gateway, link, site, fieldbus) ──▶ JSON Schema for editors, frameward.toml(5), a page of the book
//! ```
//!
//! The table says what parsing does; it does not steer it. Tests compare the two: names with those that serde knows,
//! defaults, ranges and choices with what [`super::parse`] makes of them, and each example has to parse.
//!
//! Not here: rules about several keys at once, such as the one source of keys that a link needs. `frameward check` tells
//! those.

mod fieldbus;
mod gateway;
mod link;
mod pages;
mod schema;
mod site;

pub use pages::{manual, markdown};
pub use schema::schema;

/// A section: `[gateway]`, `[[link]]`.
pub(super) struct Section {
    /// Its name with those that it stands in.
    pub(super) path: &'static [&'static str],
    /// Whether there can be several: `[[...]]`.
    pub(super) many: bool,
    /// Whether the section around it, or the file, cannot be without it.
    pub(super) needed: bool,
    /// What it is, in sentences.
    meaning: &'static str,
    /// Its keys, the needed ones first.
    keys: &'static [Key],
}

/// A key of a section.
struct Key {
    name: &'static str,
    kind: Kind,
    absent: Absent,
    /// What it does, in sentences.
    meaning: &'static str,
    /// A line of the configuration, or several where it needs another key.
    example: &'static str,
}

/// What may stand behind a key.
enum Kind {
    /// `true` or `false`.
    Switch,
    /// An integer.
    Number { from: i64, to: i64 },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A text: what it is, and its regular expression.
    Text { what: &'static str, pattern: &'static str },
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

/// What it means if a key is not there.
enum Absent {
    /// It has to be there.
    Needed,
    /// It has to be there under this condition.
    NeededIf(&'static str),
    /// This value, as TOML writes it.
    Is(&'static str),
    /// What no value of the key says, in words.
    Means(&'static str),
}

/// All sections, each behind the one that it stands in.
pub(super) const SECTIONS: &[Section] = &[
    gateway::GATEWAY,
    link::LINK,
    link::STATIC,
    link::STATIC_PEER,
    link::MKA,
    site::SITE,
    site::PEER,
    site::LIMITS,
    fieldbus::FIELDBUS,
    fieldbus::RELATION,
];

/// The smallest configuration that does something, for the head of the pages.
const EXAMPLE: &str = r#"[gateway]
name = "press-a"

[[link]]
name      = "press"
plain     = "enp1s0"
protected = "enp2s0"

[link.mka]
cak_file = "line.cak"
"#;

impl Section {
    /// As a file writes it.
    pub(super) fn header(&self) -> String {
        let name = self.path.join(".");
        if self.many { format!("[[{name}]]") } else { format!("[{name}]") }
    }

    /// The sections that stand in the one with this path; with an empty path those of the file.
    fn within(path: &[&str]) -> impl Iterator<Item = &'static Self> {
        SECTIONS
            .iter()
            .filter(move |section| section.path.split_last().is_some_and(|(_, around)| around == path))
    }

    /// The last part of its path.
    fn name(&self) -> &'static str {
        self.path.last().copied().unwrap_or_default()
    }
}

impl Kind {
    /// In words, with the range.
    fn words(&self) -> String {
        match self {
            Self::Switch => "`true` or `false`".to_owned(),
            Self::Number { from, to } if from == to => format!("`{from}`"),
            Self::Number { from, to } => format!("integer, {from} to {to}"),
            Self::Choice(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
                super::findings::list(&words)
            }
            Self::Text { what, .. } => (*what).to_owned(),
            Self::List { of, from, to } if from == to => format!("list of {from}: {}", of.words()),
            Self::List { of, from, to } => format!("list of {from} to {to}: {}", of.words()),
            Self::Share => "number, 0.01 to 1".to_owned(),
            Self::Moment => "date, or date and time in UTC".to_owned(),
            Self::Table(keys) => {
                let keys: Vec<_> =
                    keys.iter().map(|key| format!("`{}` ({})", key.name, key.kind.words())).collect();
                format!("table with {}", keys.join(" and "))
            }
            Self::Either(kinds) => {
                let words: Vec<_> = kinds.iter().map(Self::words).collect();
                match kinds.iter().all(|kind| matches!(kind, Self::Number { from, to } if from == to)) {
                    true => super::findings::list(&words),
                    false => words.join("; or "),
                }
            }
        }
    }
}

impl Absent {
    /// In words.
    fn words(&self) -> String {
        match self {
            Self::Needed => "required".to_owned(),
            Self::NeededIf(when) => format!("required {when}"),
            Self::Is(value) => format!("`{value}`"),
            Self::Means(words) => (*words).to_owned(),
        }
    }
}

/// Texts that several keys have.
mod texts {
    use super::Kind;

    pub(super) const NAME: Kind = Kind::Text {
        what: "1 to 32 of `a-z`, `0-9`, `_` and `-`, a letter or digit first",
        pattern: "^[a-z0-9][a-z0-9_-]{0,31}$",
    };
    pub(super) const INTERFACE: Kind =
        Kind::Text { what: "name of an interface, 1 to 15 octets", pattern: r"^[^/:\s]{1,15}$" };
    pub(super) const FILE: Kind =
        Kind::Text { what: "path of a file, relative to the configuration's directory", pattern: "^.+$" };
    pub(super) const ADDRESS: Kind = Kind::Text {
        what: "IP address and port",
        pattern: r"^([0-9.]+|\[[0-9a-fA-F:.]+(%[0-9]+)?\]):[0-9]+$",
    };
    pub(super) const MAC: Kind = Kind::Text {
        what: "MAC address such as `\"02:00:00:00:01:01\"`",
        pattern: "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$",
    };
    pub(super) const SCI: Kind = Kind::Text {
        what: "SCI: MAC address, slash, port number",
        pattern: "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}/[0-9]+$",
    };
    pub(super) const MTU: Kind =
        Kind::Either(&[Kind::Choice(&["interface"]), Kind::Number { from: 576, to: 9216 }]);
    pub(super) const AUTO_ON_OFF: Kind = Kind::Choice(&["auto", "on", "off"]);
}

#[cfg(test)]
mod tests;
