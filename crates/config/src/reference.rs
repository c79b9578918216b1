//! Keys of the configuration: each one once, for the parser and for all that explain it.
//!
//! ```text
//! section! (gateway, fleet, link, site, fieldbus) ──▶ Raw…, which serde reads ──▶ Key::switch, number, choice ──▶ Config
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
        #[derive(serde::Deserialize, Clone, Default)]
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
mod fleet;
mod gateway;
mod key;
mod link;
mod pages;
pub(crate) mod read;
mod schema;
mod site;

use serde::Deserialize;
use toml::Spanned;

pub(crate) use fieldbus::{FIELDBUS, RELATION, RawFieldbus, RawRelation, VLAN};
pub(crate) use fleet::{FLEET, RawFleet};
pub(crate) use gateway::{GATEWAY, RawGateway};
pub(crate) use key::{Key, Section};
pub(crate) use link::{COVER, LINK, MKA, RawLink, RawMka, RawPeer, RawStatic, STATIC, STATIC_PEER};
pub use pages::{manual, markdown};
pub use schema::schema;
pub(crate) use site::{LIMITS, RawSite, RawSitePath, RawSitePeer, SITE, SITE_PATH, SITE_PEER, STANDBY};

/// The configuration as it is written: every key, none of them judged yet. An unknown key is serde's error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    pub(super) gateway: Option<Spanned<RawGateway>>,
    pub(super) fleet: Option<Spanned<RawFleet>>,
    #[serde(default)]
    pub(super) link: Vec<Spanned<RawLink>>,
    #[serde(default)]
    pub(super) site: Vec<Spanned<RawSite>>,
    #[serde(default)]
    pub(super) fieldbus: Vec<Spanned<RawFieldbus>>,
}

/// All sections, each behind the one that it stands in.
pub(super) const SECTIONS: &[Section] = &[
    gateway::GatewayKeys::SECTION,
    fleet::FleetKeys::SECTION,
    link::LinkKeys::SECTION,
    link::StaticKeys::SECTION,
    link::StaticPeerKeys::SECTION,
    link::MkaKeys::SECTION,
    link::CoverKeys::SECTION,
    site::SiteKeys::SECTION,
    site::SITE_MKA,
    site::SITE_STATIC,
    site::SITE_STATIC_PEER,
    site::StandbyKeys::SECTION,
    site::SitePeerKeys::SECTION,
    site::SitePathKeys::SECTION,
    site::LimitsKeys::SECTION,
    fieldbus::FieldbusKeys::SECTION,
    fieldbus::RelationKeys::SECTION,
];

/// A section of the configuration, for those that write one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownSection {
    /// Whether there can be several: `[[...]]`.
    pub many: bool,
    /// Its keys, in the order of the reference; not those of the sections within.
    pub keys: Vec<&'static str>,
    /// The sections within, by the last part of their paths.
    pub within: Vec<&'static str>,
}

/// The section with this path, such as `["link", "mka"]`.
pub fn section(path: &[&str]) -> Option<KnownSection> {
    let section = SECTIONS.iter().find(|section| section.path == path)?;
    Some(KnownSection {
        many: section.many,
        keys: section.keys.iter().map(|key| key.name).collect(),
        within: Section::within(path).map(Section::name).collect(),
    })
}

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
    /// The sections that stand in the one with this path; with an empty path those of the file.
    fn within(path: &[&str]) -> impl Iterator<Item = &'static Self> {
        SECTIONS
            .iter()
            .filter(move |section| section.path.split_last().is_some_and(|(_, around)| around == path))
    }
}

#[cfg(test)]
mod tests;
