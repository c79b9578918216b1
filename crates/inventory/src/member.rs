//! Sections of one gateway's configuration, made of links, groups and cells.

use std::collections::BTreeMap;

use config::keygen::KeygenError;

use crate::Inventory;
use crate::gateway::Gateway;
use crate::keys::{KeyFolder, KeyKind};
use crate::mistakes::{Mistakes, instead};
use crate::sections::{Kind, Shared};
use crate::tree::{Node, Place, Table, Value, is_word, merge};
use crate::tunnel;

/// The key that names a second CAK.
pub(crate) const FALLBACK: &str = "fallback_cak_file";
/// The key of the name that a gateway announces in its MKPDUs.
pub(crate) const ANNOUNCED: &str = "announce_name";
/// The word there that has it announce none.
pub(crate) const ANNOUNCES_NONE: &str = "off";
/// The key that names a second master key.
pub(crate) const FALLBACK_MASTER: &str = "fallback_master_key_file";

/// A member of something that gateways share.
#[derive(Clone, Copy)]
pub(crate) struct Member<'i> {
    pub(crate) inventory: &'i Inventory,
    pub(crate) shared: &'i Shared,
    pub(crate) name: &'i str,
    pub(crate) gateway: &'i Gateway,
}

impl Inventory {
    /// The configuration of each gateway that is wanted, as a table.
    pub(crate) fn tables(
        &self,
        keys: &mut KeyFolder,
        is_wanted: &dyn Fn(&str) -> bool,
        mistakes: &mut Mistakes<'_>,
    ) -> Result<BTreeMap<&str, Table>, KeygenError> {
        let mut tables: BTreeMap<&str, Table> = BTreeMap::new();
        for (name, gateway) in self.gateways.iter().filter(|(name, _)| is_wanted(name)) {
            let mut options = gateway.options.clone();
            options.insert("name".into(), Node::text(gateway.place, name));
            // The others see the inventory's name, whatever the host is called.
            if name != ANNOUNCES_NONE {
                options.entry(ANNOUNCED.into()).or_insert_with(|| Node::text(gateway.place, name));
            }
            let mut table = gateway.sections.clone();
            table.insert("gateway".into(), Node::table(gateway.place, options));
            tables.insert(name, table);
        }
        for shared in &self.shared {
            for name in shared.gateways.keys().filter(|name| is_wanted(name)) {
                let Some((name, gateway)) = self.gateways.get_key_value(name) else { continue };
                let member = Member { inventory: self, shared, name, gateway };
                let section = member.section(keys, mistakes)?;
                if let Some(table) = tables.get_mut(name.as_str()) {
                    push(table, shared.kind.section(), Node::table(shared.place, section));
                }
            }
        }
        Ok(tables)
    }
}

/// Adds a section to the others of its kind.
fn push(table: &mut Table, kind: &str, section: Node) {
    let place = section.place;
    let empty = || Node { place, value: Value::List(Vec::new()) };
    if let Value::List(list) = &mut table.entry(kind.to_owned()).or_insert_with(empty).value {
        list.push(section);
    }
}

impl Member<'_> {
    fn section(&self, keys: &mut KeyFolder, mistakes: &mut Mistakes<'_>) -> Result<Table, KeygenError> {
        let mut options = self.options(mistakes);
        let place = self.shared.place;
        if self.shared.kind != Kind::Tunnel {
            options.entry("name".into()).or_insert_with(|| Node::text(place, &self.shared.name));
        }
        match self.shared.kind {
            Kind::Link | Kind::Group => {
                self.port("plain", &mut options, mistakes);
                self.port("protected", &mut options, mistakes);
                if !options.contains_key("static") {
                    self.agree(&mut options, keys, mistakes)?;
                }
            }
            Kind::Fieldbus => {
                if is_word(options.get("rest"), "drop") {
                    self.port("plain", &mut options, mistakes);
                    self.port("protected", &mut options, mistakes);
                }
                self.derive_local(&mut options);
                let file = self.shared.key_file();
                self.want("master_key_file", &file, KeyKind::Master, &mut options, keys)?;
                self.name_before(&mut options, keys, mistakes);
            }
            Kind::Tunnel => tunnel::complete(self, &mut options, keys, mistakes)?,
        }
        Ok(options)
    }

    /// The options on this gateway.
    pub(crate) fn options(&self, mistakes: &mut Mistakes<'_>) -> Table {
        let mut options = self.shared.common.clone();
        if let Some(at) = self.shared.at.get(self.name) {
            let mut at = at.clone();
            // By gateways, and no options of all peers.
            at.remove("peer");
            merge(&mut options, &at);
        }
        let mut options = Node::table(self.shared.place, options);
        self.gateway.substitute(self.name, &mut options, mistakes);
        if let Value::Table(options) = options.value { options } else { Table::new() }
    }

    /// Puts the interface in place of its role. The role of no other name has that of the key.
    pub(crate) fn port(&self, key: &str, options: &mut Table, mistakes: &mut Mistakes<'_>) {
        let (place, role) = match options.get(key) {
            None => (self.shared.place, key),
            // `check` refuses what is no text.
            Some(node) => match node.as_text() {
                Some(role) => (node.place, role),
                None => return,
            },
        };
        let Some(interface) = self.gateway.port(role) else {
            let cure = if self.gateway.roles().next().is_none() || options.get(key).is_none() {
                format!("add {role} = \"INTERFACE\" to [gateway.{}.ports]", self.name)
            } else {
                instead(role, self.gateway.roles())
            };
            let label = self.shared.label();
            mistakes
                .add(place, format!("{label}gateway {:?} has no port {role:?} for {key}; {cure}", self.name));
            return;
        };
        options.insert(key.to_owned(), Node::text(place, interface));
    }

    /// Gives key agreement its CAK: the one of the link, unless another is named. While that is renewed, also the one before.
    pub(crate) fn agree(
        &self,
        options: &mut Table,
        keys: &mut KeyFolder,
        mistakes: &mut Mistakes<'_>,
    ) -> Result<(), KeygenError> {
        let place = self.shared.place;
        let mka = options.entry("mka".into()).or_insert_with(|| Node::table(place, Table::new()));
        // `check` refuses what is no section.
        let Value::Table(mka) = &mut mka.value else { return Ok(()) };
        self.want("cak_file", &self.shared.key_file(), KeyKind::Cak, mka, keys)?;
        self.name_before(mka, keys, mistakes);
        Ok(())
    }

    /// While a key is renewed, names the one before too.
    fn name_before(&self, section: &mut Table, keys: &KeyFolder, mistakes: &mut Mistakes<'_>) {
        let (key, fallback) = self.shared.key_names();
        let file = section.get(key).and_then(Node::as_text);
        let Some(before) = file.and_then(|file| keys.fallback(self.name, file)) else { return };
        match section.get(fallback) {
            None => drop(section.insert(fallback.into(), Node::text(self.shared.place, before))),
            Some(node) => mistakes.add(
                node.place,
                format!(
                    "{}its key is being renewed, which takes the place of {fallback}; remove this line, or finish first: frameward fleet rotate {} --finish",
                    self.shared.label(), self.shared.name
                ),
            ),
        }
    }

    /// Names the key that all members have and sees that it is there, unless another file is named.
    fn want(
        &self,
        key: &str,
        file: &str,
        kind: KeyKind,
        options: &mut Table,
        keys: &mut KeyFolder,
    ) -> Result<(), KeygenError> {
        if options.contains_key(key) {
            return Ok(());
        }
        keys.want(file, kind)?;
        options.insert(key.to_owned(), Node::text(self.shared.place, file));
        Ok(())
    }

    /// Stations behind this gateway: if only the other one says which it has, all others.
    fn derive_local(&self, options: &mut Table) {
        let others = self.shared.at.iter().filter(|(name, _)| *name != self.name);
        let theirs = others.filter_map(|(_, at)| at.get("local")).find_map(Node::as_list);
        let (None, Some(theirs)) = (options.get("local"), theirs) else { return };
        let is_theirs = |station: &str| {
            theirs.iter().filter_map(Node::as_text).any(|known| known.eq_ignore_ascii_case(station))
        };
        let relations = options.get("relation").and_then(Node::as_list).unwrap_or_default();
        let stations =
            relations.iter().filter_map(|one| one.as_table()?.get("stations")?.as_list()).flatten();
        let mut local: BTreeMap<String, Place> = BTreeMap::new();
        for station in stations {
            if let Some(text) = station.as_text().filter(|text| !is_theirs(text)) {
                local.entry(text.to_ascii_lowercase()).or_insert(station.place);
            }
        }
        let local = local.into_iter().map(|(station, place)| Node::text(place, station)).collect();
        options.insert("local".into(), Node { place: self.shared.place, value: Value::List(local) });
    }
}
