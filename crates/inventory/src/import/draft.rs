//! An inventory that is being made.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use config::Finding;
use zeroize::Zeroizing;

use super::{Source, links, sites};
use crate::gateway::OF_A_BOX;
use crate::keys::KeyFolder;
use crate::sections::Kind;
use crate::tree::{Node, Place, Table, Value};

/// Place of a made value, which no file has.
pub(super) const NOWHERE: Place = Place { file: 0, line: 1 };

/// The inventory.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) gateways: BTreeMap<String, DraftGateway>,
    pub(super) shared: Vec<DraftShared>,
    /// Key files, relative to the folder of keys.
    pub(super) keys: BTreeMap<PathBuf, Zeroizing<Vec<u8>>>,
    pub(super) notes: Vec<String>,
    names: BTreeSet<String>,
    /// Gateways with their own files of keys that are shared.
    replaced: Vec<(String, String)>,
}

#[derive(Default)]
pub(super) struct DraftGateway {
    pub(super) options: Table,
    /// Interfaces by their roles.
    pub(super) ports: BTreeMap<String, String>,
    /// Sections as they are.
    pub(super) sections: BTreeMap<&'static str, Vec<Table>>,
}

pub(super) struct DraftShared {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) gateways: Vec<String>,
    pub(super) hub: Option<String>,
    pub(super) common: Table,
    pub(super) at: BTreeMap<String, Table>,
}

/// A section of a gateway's configuration.
#[derive(Clone, Copy)]
pub(super) struct Section<'s> {
    pub(super) source: &'s Source,
    pub(super) kind: &'static str,
    pub(super) name: &'s str,
    pub(super) table: &'s Table,
}

impl Draft {
    /// Of configurations; those gateways in `as_it_is` keep all of their sections.
    pub(super) fn of(
        sources: &[Source],
        keys: &KeyFolder,
        as_it_is: &BTreeSet<String>,
    ) -> Result<Self, Vec<Finding>> {
        let mut draft = Self::default();
        let mut sections = Vec::new();
        for source in sources {
            let mut options =
                source.sections.get("gateway").and_then(Node::as_table).cloned().unwrap_or_default();
            options.remove("name");
            draft.gateways.insert(source.name.clone(), DraftGateway { options, ..DraftGateway::default() });
            draft.copy_keys(source, keys)?;
            sections.extend(of_source(source));
        }
        let (kept, shareable): (Vec<_>, Vec<_>) =
            sections.into_iter().partition(|section: &Section<'_>| as_it_is.contains(&section.source.name));
        let rest = links::share(&shareable, &mut draft);
        let rest = sites::share(&rest, &mut draft);
        for section in kept {
            draft.keep(section, "all of its gateway stays, since its parts would come out otherwise");
        }
        for (section, why) in rest {
            draft.keep(section, why);
        }
        for (gateway, file) in std::mem::take(&mut draft.replaced) {
            if !draft.mentions(&gateway, &file) {
                draft.keys.remove(&Path::new(&gateway).join(file));
            }
        }
        Ok(draft)
    }

    /// Whether something of a gateway still names a file.
    fn mentions(&self, gateway: &str, file: &str) -> bool {
        fn within(table: &Table, file: &str) -> bool {
            table.values().any(|node| names(node, file))
        }
        fn names(node: &Node, file: &str) -> bool {
            match &node.value {
                Value::Text(text) => text == file,
                Value::Literal(_) => false,
                Value::List(list) => list.iter().any(|node| names(node, file)),
                Value::Table(table) => within(table, file),
            }
        }
        let own = self.gateways.get(gateway).map(|gateway| gateway.sections.values().flatten());
        let shared = self.shared.iter().filter_map(|shared| Some([&shared.common, shared.at.get(gateway)?]));
        own.into_iter().flatten().chain(shared.flatten()).any(|table| within(table, file))
    }

    /// The gateway's own key files, under its name.
    fn copy_keys(&mut self, source: &Source, keys: &KeyFolder) -> Result<(), Vec<Finding>> {
        for file in &source.files {
            let octets = keys.octets(&source.folder, file);
            let refused =
                |text| vec![Finding { file: Path::new(&source.folder).join(file), line: None, text }];
            self.keys.insert(Path::new(&source.name).join(file), octets.map_err(refused)?);
        }
        Ok(())
    }

    /// A section stays as it is.
    fn keep(&mut self, section: Section<'_>, why: &str) {
        let Section { source, kind, name, table } = section;
        self.notes.push(format!("gateway {:?}: {kind} {name:?} stays as it is: {why}", source.name));
        if let Some(gateway) = self.gateways.get_mut(&source.name) {
            gateway.sections.entry(kind).or_default().push(table.clone());
        }
    }

    /// A name that nothing else has, under which no gateway has another key file than the one that all have.
    pub(super) fn name(&mut self, wanted: &str, ending: &str, files: &[(&str, String)]) -> String {
        let of = |gateway: &str, file: &str| self.keys.get(&Path::new(gateway).join(file));
        let is_free = |name: &str| {
            let named = format!("{name}.{ending}");
            let is_other = |(gateway, file): &(&str, String)| {
                of(gateway, &named).is_some_and(|there| Some(there) != of(gateway, file))
            };
            !self.names.contains(name) && !files.iter().any(is_other)
        };
        let numbered = |number: usize| {
            let end = format!("-{number}");
            // Names have at most 32 octets, all of them ASCII.
            format!("{}{end}", &wanted[..wanted.len().min(32 - end.len())])
        };
        let name = std::iter::once(wanted.to_owned()).chain((2..).map(numbered)).find(|name| is_free(name));
        let name = name.unwrap_or_default();
        self.names.insert(name.clone());
        name
    }

    /// Puts the key that all have among those that are shared.
    pub(super) fn share_key(&mut self, file: &str, members: &[(&str, String)]) {
        let mut octets = None;
        for (gateway, own) in members {
            octets = octets.or_else(|| self.keys.get(&Path::new(gateway).join(own)).cloned());
        }
        let Some(octets) = octets else { return };
        self.keys.insert(PathBuf::from(file), octets);
        let own = members.iter().map(|(gateway, own)| ((*gateway).to_owned(), own.clone()));
        self.replaced.extend(own);
    }

    /// The role of a gateway's interface. `key` is the one that it has if nothing is said.
    pub(super) fn role(&mut self, gateway: &str, key: &str, of: &str, interface: &str) -> String {
        let Some(ports) = self.gateways.get_mut(gateway).map(|gateway| &mut gateway.ports) else {
            return key.to_owned();
        };
        if let Some((role, _)) = ports.iter().find(|(_, known)| *known == interface) {
            return role.clone();
        }
        let further = (1..).map(|number| {
            format!("{of}-{key}{}", if number == 1 { String::new() } else { format!("-{number}") })
        });
        let role = std::iter::once(key.to_owned()).chain(further).find(|role| !ports.contains_key(role));
        let role = role.unwrap_or_default();
        ports.insert(role.clone(), interface.to_owned());
        role
    }

    /// Puts the role in place of the interface behind `key`; nothing if it is the role that the key has anyway.
    pub(super) fn name_port(&mut self, gateway: &str, of: &str, key: &str, options: &mut Table) {
        let Some(interface) = options.get(key).and_then(Node::as_text).map(str::to_owned) else { return };
        let role = self.role(gateway, key, of, &interface);
        if role == key {
            options.remove(key);
        } else {
            options.insert(key.to_owned(), Node::text(NOWHERE, role));
        }
    }
}

/// The sections of a configuration, but for `[gateway]`.
fn of_source(source: &Source) -> Vec<Section<'_>> {
    let mut sections = Vec::new();
    for kind in OF_A_BOX {
        let list = source.sections.get(kind).and_then(Node::as_list).unwrap_or_default();
        for table in list.iter().filter_map(Node::as_table) {
            let name = table.get("name").and_then(Node::as_text).unwrap_or_default();
            sections.push(Section { source, kind, name, table });
        }
    }
    sections
}

/// Gives all tables a key of their own, which was common.
pub(super) fn give_back(key: &str, common: &mut Table, tables: &mut BTreeMap<String, Table>) {
    if let Some(node) = common.remove(key) {
        tables.values_mut().for_each(|table| drop(table.insert(key.to_owned(), node.clone())));
    }
}

/// Takes out what all tables say alike, table by table within.
pub(super) fn take_common(tables: &mut BTreeMap<String, Table>) -> Table {
    let mut common = Table::new();
    let Some(first) = tables.values().next().cloned() else { return common };
    for (key, node) in first {
        let all = || tables.values().map(|table| table.get(&key));
        if all().all(|other| other.is_some_and(|other| other.says(&node))) {
            tables.values_mut().for_each(|table| drop(table.remove(&key)));
            common.insert(key, node);
        } else if all().all(|other| other.is_some_and(|other| other.as_table().is_some())) && key != "peer" {
            let inner = tables
                .iter()
                .filter_map(|(name, table)| Some((name.clone(), table.get(&key)?.as_table()?.clone())));
            let mut inner: BTreeMap<String, Table> = inner.collect();
            let shared = take_common(&mut inner);
            for (name, table) in inner {
                let Some(around) = tables.get_mut(&name) else { continue };
                if table.is_empty() {
                    around.remove(&key);
                } else {
                    around.insert(key.clone(), Node { place: node.place, value: Value::Table(table) });
                }
            }
            if !shared.is_empty() {
                common.insert(key, Node::table(NOWHERE, shared));
            }
        }
    }
    common
}
