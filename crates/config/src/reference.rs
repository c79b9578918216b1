//! Keys of the configuration: each one once, for the parser and for all that explain it.
//!
//! ```text
//! section! (gateway, link, site, fieldbus) ──▶ Raw…, which serde reads ──▶ Key::switch, number, choice ──▶ Config
//!                                         └──▶ JSON Schema for editors, frameward.toml(5), a page of the book
//! ```
//!
//! An entry has the key's name, type, range or words, default, meaning and example. The parser takes range, words and
//! default from it (`read.rs`). Tests show that it takes no others, and that each example parses.
//!
//! Not here: rules about several keys at once, such as the one source of keys that a link needs. `frameward check` tells
//! those.

/// Defines a section: the structure that serde reads it into, with a field for each key, and the keys themselves.
macro_rules! section {
    (
        $name:ident: $raw:ident, $keys:ident { $($of:ident: $about:expr,)* }
        keys { $($key:ident: $type:ty { $($field:ident: $value:expr,)* $(..$same:expr)? })* }
        sections { $($(#[$attribute:meta])* $inner:ident: $section:ty,)* }
    ) => {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $raw {
            $(pub(crate) $key: Option<toml::Spanned<$type>>,)*
            $($(#[$attribute])* pub(crate) $inner: $section,)*
        }

        pub(crate) struct $keys {
            $(pub(crate) $key: Key,)*
        }

        pub(crate) const $name: $keys =
            $keys { $($key: Key { name: stringify!($key), $($field: $value,)* $(..$same)? },)* };

        impl $keys {
            pub(crate) const SECTION: Section = Section { $($of: $about,)* keys: &[$($name.$key),*] };
        }
    };
}

mod fieldbus;
mod gateway;
mod link;
mod pages;
pub(crate) mod read;
mod schema;
mod site;

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

pub(crate) use fieldbus::{FIELDBUS, RELATION, RawFieldbus, RawRelation, VLAN};
pub(crate) use gateway::{GATEWAY, RawGateway};
pub(crate) use link::{LINK, MKA, RawLink, RawMka, RawPeer, RawStatic, STATIC, STATIC_PEER};
pub use pages::{manual, markdown};
pub use schema::schema;
pub(crate) use site::{LIMITS, RawLimits, RawSite, RawSitePeer, SITE, SITE_PEER};

/// The configuration as it is written: every key, none of them judged yet. An unknown key is serde's error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    pub(super) gateway: Option<Spanned<RawGateway>>,
    #[serde(default)]
    pub(super) link: Vec<Spanned<RawLink>>,
    #[serde(default)]
    pub(super) site: Vec<Spanned<RawSite>>,
    #[serde(default)]
    pub(super) fieldbus: Vec<Spanned<RawFieldbus>>,
}

/// A section: `[gateway]`, `[[link]]`.
pub(super) struct Section {
    /// Its name with those that it stands in.
    pub(super) path: &'static [&'static str],
    /// Whether there can be several: `[[...]]`.
    pub(super) many: bool,
    /// Whether the section around it, or the file, cannot be without it.
    pub(super) needed: bool,
    /// Its meaning, in sentences.
    meaning: &'static str,
    /// Its keys, the needed ones first.
    keys: &'static [Key],
}

/// A key of a section.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(super) name: &'static str,
    kind: Kind,
    absent: Absent,
    /// Its effect, in sentences.
    meaning: &'static str,
    /// A line of the configuration, or several where it needs another key.
    example: &'static str,
}

/// Values that may stand behind a key.
#[derive(Clone, Copy)]
pub(super) enum Kind {
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
pub(super) type Unit = (&'static str, Duration);

/// Meaning of a key that is not there.
#[derive(Clone, Copy)]
pub(super) enum Absent {
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

/// All sections, each behind the one that it stands in.
pub(super) const SECTIONS: &[Section] = &[
    gateway::GatewayKeys::SECTION,
    link::LinkKeys::SECTION,
    link::StaticKeys::SECTION,
    link::StaticPeerKeys::SECTION,
    link::MkaKeys::SECTION,
    site::SiteKeys::SECTION,
    site::SitePeerKeys::SECTION,
    site::LimitsKeys::SECTION,
    fieldbus::FieldbusKeys::SECTION,
    fieldbus::RelationKeys::SECTION,
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
            Self::Numbers(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(|number| format!("`{number}`")).collect();
                super::findings::list(&numbers)
            }
            Self::Number { from, to } => format!("integer, {from} to {to}"),
            Self::Word(word) => format!("`\"{word}\"`"),
            Self::Choice(words) => {
                let words: Vec<_> = words().iter().map(|word| format!("`\"{word}\"`")).collect();
                super::findings::list(&words)
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
    fn value(&self) -> Option<String> {
        match self {
            Self::Switch(on) => Some(on.to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::Word(word) => Some(format!("\"{word}\"")),
            Self::Is(value) => Some((*value).to_owned()),
            Self::Needed | Self::NeededIf(_) | Self::Means(_) => None,
        }
    }

    /// In words.
    fn words(&self) -> String {
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
mod units {
    use std::time::Duration;

    use super::Unit;

    pub(super) const MICROSECONDS: Unit = ("us", Duration::from_micros(1));
    pub(super) const MILLISECONDS: Unit = ("ms", Duration::from_millis(1));
    pub(super) const SECONDS: Unit = ("s", Duration::from_secs(1));
    pub(super) const MINUTES: Unit = ("m", Duration::from_secs(60));
    pub(super) const HOURS: Unit = ("h", Duration::from_secs(3600));
    pub(super) const DAYS: Unit = ("d", Duration::from_secs(86_400));
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
        Kind::Either(&[Kind::Word("interface"), Kind::Number { from: 576, to: 9216 }]);
}

#[cfg(test)]
mod tests;
