//! Sections of an inventory: gateways, and what they share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use config::{is_name, reference};

use crate::Inventory;
use crate::gateway::Gateway;
use crate::member::{FALLBACK, FALLBACK_MASTER};
use crate::mistakes::{Mistakes, instead};
use crate::revoked::{self, Revocation};
use crate::schedule;
use crate::templates::{Templates, names, refuse_second};
use crate::tree::{Node, Place, Table, Value};

/// Kind of section that gateways share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `[[link]]`: of two gateways.
    Link,
    /// `[[group]]`: a link of two or more under one CAK.
    Group,
    /// `[[fieldbus]]`: a cell of two gateways.
    Fieldbus,
    /// `[[tunnel]]`: sites of gateways that join their LANs.
    Tunnel,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Link, Self::Group, Self::Fieldbus, Self::Tunnel];

    /// Its section in the inventory.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Group => "group",
            Self::Fieldbus => "fieldbus",
            Self::Tunnel => "tunnel",
        }
    }

    /// Its section in the configuration of a box.
    pub(crate) const fn section(self) -> &'static str {
        match self {
            Self::Link | Self::Group => "link",
            Self::Fieldbus => "fieldbus",
            Self::Tunnel => "site",
        }
    }

    /// Keys of the inventory's own.
    const fn own(self) -> &'static [&'static str] {
        match self {
            Self::Tunnel => &["template", "gateways", "at", "hub", "public_key", "endpoint", schedule::KEY],
            _ => &["template", "gateways", "at", schedule::KEY],
        }
    }
}

/// A link, group, cell or tunnel.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) place: Place,
    /// Its gateways, each with the place of its name.
    pub(crate) gateways: BTreeMap<String, Place>,
    /// Gateways of it that were revoked.
    pub(crate) gone: BTreeSet<String>,
    /// Of a tunnel: the gateway that all others have as their peer.
    pub(crate) hub: Option<String>,
    /// Time between two exchanges of its CAK, in seconds.
    pub(crate) rotate_every: Option<u64>,
    /// Options on all of its gateways.
    pub(crate) common: Table,
    /// Options on one of them alone.
    pub(crate) at: BTreeMap<String, Table>,
}

/// Judges the sections of all files together.
pub(crate) fn judge(tables: Vec<Table>, files: &[PathBuf], mistakes: &mut Mistakes<'_>) -> Inventory {
    let mut named: BTreeMap<&str, BTreeMap<String, Node>> = BTreeMap::new();
    let mut lists: Vec<(Kind, Node)> = Vec::new();
    for table in tables {
        for (key, node) in table {
            match (key.as_str(), Kind::ALL.into_iter().find(|kind| kind.word() == key)) {
                (_, Some(kind)) => sort_list(kind, node, &mut lists, mistakes),
                ("gateway", None) => sort_named("gateway", node, files, &mut named, mistakes),
                ("template", None) => sort_named("template", node, files, &mut named, mistakes),
                ("revoked", None) => sort_named("revoked", node, files, &mut named, mistakes),
                _ => {
                    let known = ["gateway", "template", "link", "group", "fieldbus", "tunnel", "revoked"];
                    let cure = instead(&key, known.into_iter());
                    mistakes.add(node.place, format!("{key:?} is no section of an inventory; {cure}"));
                }
            }
        }
    }
    let templates = Templates::new(named.remove("template").unwrap_or_default(), mistakes);
    let revoked = revoked::judge(named.remove("revoked").unwrap_or_default(), mistakes);
    let mut gateways = BTreeMap::new();
    for (name, node) in named.remove("gateway").unwrap_or_default() {
        if revoked.contains_key(&name) {
            continue;
        }
        let Value::Table(table) = &node.value else {
            mistakes.add(node.place, format!("gateway {name:?} is no section; write [gateway.{name}]"));
            continue;
        };
        let table = templates.apply(table, mistakes);
        gateways.insert(name.clone(), Gateway::new(&name, node.place, table, mistakes));
    }
    let mut shared: Vec<Shared> = Vec::new();
    let (mut seen, mut companions) = (BTreeMap::new(), BTreeMap::<String, BTreeSet<String>>::new());
    for (kind, node) in lists {
        let table = templates.apply(node.as_table().unwrap_or(&Table::new()), mistakes);
        let known = Known { gateways: &gateways, revoked: &revoked };
        let Some(one) = Shared::new(kind, node.place, table, known, mistakes) else { continue };
        if let Some(first) = seen.insert(one.name.clone(), one.place) {
            refuse_second(kind.word(), &one.name, one.place, first, files, mistakes);
        }
        for gone in &one.gone {
            companions.entry(gone.clone()).or_default().extend(one.gateways.keys().cloned());
        }
        if revoked::is_left(&one) || revoked.is_empty() {
            shared.push(one);
        }
    }
    shared.sort_by(|one, other| one.name.cmp(&other.name));
    Inventory { files: files.to_vec(), gateways, shared, revoked, companions }
}

/// Gateways by their names: those that there are, and those with whom nobody speaks any more.
#[derive(Clone, Copy)]
struct Known<'k> {
    gateways: &'k BTreeMap<String, Gateway>,
    revoked: &'k BTreeMap<String, Revocation>,
}

/// Sections with a name behind a dot.
fn sort_named(
    kind: &'static str,
    node: Node,
    files: &[PathBuf],
    named: &mut BTreeMap<&'static str, BTreeMap<String, Node>>,
    mistakes: &mut Mistakes<'_>,
) {
    let Value::Table(table) = node.value else {
        mistakes.add(node.place, format!("{kind} needs a name behind a dot; write [{kind}.NAME]"));
        return;
    };
    let known = named.entry(kind).or_default();
    for (name, node) in table {
        let place = node.place;
        if let Some(first) = known.get(&name) {
            refuse_second(kind, &name, place, first.place, files, mistakes);
            continue;
        }
        known.insert(name, node);
    }
}

/// Sections in double brackets.
fn sort_list(kind: Kind, node: Node, lists: &mut Vec<(Kind, Node)>, mistakes: &mut Mistakes<'_>) {
    let word = kind.word();
    let place = node.place;
    match node.value {
        Value::List(list) if list.iter().all(|one| one.as_table().is_some()) => {
            lists.extend(list.into_iter().map(|one| (kind, one)));
        }
        _ => mistakes.add(
            place,
            format!("{word} is written in double brackets, since there can be several; write [[{word}]]"),
        ),
    }
}

impl Shared {
    fn new(
        kind: Kind,
        place: Place,
        mut table: Table,
        known: Known<'_>,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Self> {
        let word = kind.word();
        let name = match table.remove("name") {
            Some(node) if node.as_text().is_some_and(is_name) => {
                node.as_text().unwrap_or_default().to_owned()
            }
            Some(node) => {
                mistakes.add(node.place, format!("{word}: name is not a valid name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first"));
                return None;
            }
            None => {
                mistakes.add(place, format!("{word}: name is missing; add name = \"NAME\""));
                return None;
            }
        };
        let label = format!("{word} {name:?}: ");
        check_keys(&table, &[kind.section()], kind.own(), &label, mistakes);
        let (gateways, gone) = members(kind, &label, place, table.remove("gateways"), known, mistakes);
        let is_known = |name: &str| gateways.contains_key(name) || known.revoked.contains_key(name);
        let all = gateways.keys().map(String::as_str);
        let at = options_at(&label, kind, table.remove("at"), (&is_known, all), mistakes);
        let rotate_every =
            table.remove(schedule::KEY).and_then(|node| schedule::judge(&node, &label, mistakes));
        let hub = table.remove("hub").and_then(|node| {
            let hub = node.as_text().map(str::to_owned);
            match &hub {
                Some(hub) if gateways.contains_key(hub) => {}
                Some(hub) if known.revoked.contains_key(hub) && gateways.len() > 1 => mistakes.add(
                    node.place,
                    format!("{label}hub = {hub:?} was revoked; name another hub, or take the tunnel out of the inventory"),
                ),
                Some(hub) if known.revoked.contains_key(hub) => {}
                Some(hub) => {
                    let cure = instead(hub, gateways.keys().map(String::as_str));
                    mistakes.add(node.place, format!("{label}hub = {hub:?} is none of its gateways; {cure}"));
                }
                None => {
                    mistakes.add(node.place, format!("{label}hub takes the name of a gateway, in quotes"))
                }
            }
            hub
        });
        Some(Self { kind, name, place, gateways, gone, hub, rotate_every, common: table, at })
    }

    /// The file of its CAK or master key, unless another one is named.
    pub(crate) fn key_file(&self) -> String {
        let ending = if self.kind == Kind::Fieldbus { "key" } else { "cak" };
        format!("{}.{ending}", self.name)
    }

    /// The keys of the configuration that name that file, and the one before while it is renewed.
    pub(crate) const fn key_names(&self) -> (&'static str, &'static str) {
        match self.kind {
            Kind::Fieldbus => ("master_key_file", FALLBACK_MASTER),
            Kind::Link | Kind::Group | Kind::Tunnel => ("cak_file", FALLBACK),
        }
    }

    /// The beginning of a mistake about it.
    pub(crate) fn label(&self) -> String {
        format!("{} {:?}: ", self.kind.word(), self.name)
    }
}

fn members(
    kind: Kind,
    label: &str,
    place: Place,
    node: Option<Node>,
    known: Known<'_>,
    mistakes: &mut Mistakes<'_>,
) -> (BTreeMap<String, Place>, BTreeSet<String>) {
    let Some(node) = node else {
        mistakes.add(place, format!("{label}gateways is missing; add gateways = [\"ONE\", \"OTHER\"]"));
        return Default::default();
    };
    let (mut members, mut gone) = (BTreeMap::new(), BTreeSet::new());
    let (mut is_whole, mut revoked) = (true, 0);
    for (place, name) in names("gateways", &node, mistakes) {
        if known.revoked.contains_key(&name) {
            revoked += 1;
            gone.insert(name);
        } else if !known.gateways.contains_key(&name) {
            let cure = instead(&name, known.gateways.keys().map(String::as_str));
            mistakes.add(place, format!("{label}there is no gateway {name:?}; {cure}"));
            is_whole = false;
        } else if members.insert(name.clone(), place).is_some() {
            mistakes.add(place, format!("{label}gateway {name:?} is named twice; remove one"));
            is_whole = false;
        }
    }
    let (count, word) = (members.len() + revoked, kind.word());
    let wrong = match kind {
        Kind::Link if count != 2 => Some("has two gateways; name two, or make it a [[group]]"),
        Kind::Fieldbus if count != 2 => Some("has two gateways; name two"),
        Kind::Group | Kind::Tunnel if count < 2 => Some("has two gateways or more; name another one"),
        _ => None,
    };
    if let Some(wrong) = wrong.filter(|_| is_whole) {
        mistakes.add(node.place, format!("{label}it names {count}; a {word} {wrong}"));
    }
    (members, gone)
}

/// `at.GATEWAY`
fn options_at<'n>(
    label: &str,
    kind: Kind,
    node: Option<Node>,
    (is_known, all): (&dyn Fn(&str) -> bool, impl Iterator<Item = &'n str> + Clone),
    mistakes: &mut Mistakes<'_>,
) -> BTreeMap<String, Table> {
    let mut options = BTreeMap::new();
    let Some(node) = node else { return options };
    let Value::Table(table) = node.value else {
        mistakes.add(node.place, format!("{label}at is a section; write [{}.at.GATEWAY]", kind.word()));
        return options;
    };
    for (gateway, node) in table {
        let Value::Table(table) = node.value else {
            mistakes.add(
                node.place,
                format!("{label}at.{gateway} is a section; write [{}.at.{gateway}]", kind.word()),
            );
            continue;
        };
        if !is_known(&gateway) {
            let cure = instead(&gateway, all.clone());
            mistakes
                .add(node.place, format!("{label}at.{gateway}: {gateway:?} is none of its gateways; {cure}"));
            continue;
        }
        let own: &[&str] = if kind == Kind::Tunnel { &["public_key", "endpoint"] } else { &[] };
        check_keys(&table, &[kind.section()], own, &format!("{label}at.{gateway}: "), mistakes);
        options.insert(gateway, table);
    }
    options
}

/// Refuses keys that the section of a configuration does not have, and `own` does not name.
pub(crate) fn check_keys(
    table: &Table,
    path: &[&str],
    own: &[&str],
    label: &str,
    mistakes: &mut Mistakes<'_>,
) {
    let Some(section) = reference::section(path) else { return };
    for (key, node) in table {
        if own.contains(&key.as_str()) || section.keys.contains(&key.as_str()) {
            continue;
        }
        let inner: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
        if !section.within.contains(&key.as_str()) {
            let known = section.keys.iter().chain(&section.within).copied().chain(own.iter().copied());
            mistakes.add(node.place, format!("{label}unknown key {key:?}; {}", instead(key, known)));
            continue;
        }
        match &node.value {
            // By the peer's gateway, in a tunnel: judged there.
            Value::Table(_) if inner == ["site", "peer"] => {}
            Value::Table(table) => check_keys(table, &inner, &[], label, mistakes),
            Value::List(list) => list
                .iter()
                .filter_map(Node::as_table)
                .for_each(|table| check_keys(table, &inner, &[], label, mistakes)),
            Value::Text(_) | Value::Literal(_) => {}
        }
    }
}
