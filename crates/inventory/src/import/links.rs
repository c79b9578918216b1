//! Links under one CAK, and cells under one master key.

use std::collections::BTreeMap;

use super::draft::{Draft, DraftShared, Section, give_back, take_common};
use crate::sections::Kind;
use crate::tree::{Node, Table, Value};

/// A section that stays as it is, and why.
pub(super) type Kept<'s> = (Section<'s>, &'static str);

/// Takes up the links and cells that several gateways have. Returns all other sections.
pub(super) fn share<'s>(sections: &[Section<'s>], draft: &mut Draft) -> Vec<Kept<'s>> {
    let mut rest = Vec::new();
    let mut by_key: BTreeMap<(bool, Vec<u8>), Vec<Section<'s>>> = BTreeMap::new();
    for section in sections {
        match key(section) {
            Ok(key) => by_key.entry((section.kind == "fieldbus", key)).or_default().push(*section),
            Err(why) => rest.push((*section, why)),
        }
    }
    let mut buckets: Vec<_> = by_key.into_values().collect();
    // In the order of names, and not of keys.
    buckets.sort_by_key(|members| {
        members.first().map(|first| (first.source.name.clone(), first.name.to_owned()))
    });
    for members in buckets {
        match refusal(&members) {
            Some(why) => rest.extend(members.into_iter().map(|section| (section, why))),
            None => take_up(&members, draft),
        }
    }
    rest
}

/// The key that its members have in common: of a link its CAK with its name, of a cell its master key.
fn key(section: &Section<'_>) -> Result<Vec<u8>, &'static str> {
    let Section { source, kind, name, table } = section;
    let links = &source.config.links;
    match *kind {
        "link" => {
            let link = links.iter().find(|link| link.name == *name && !link.in_site);
            let mka = link.and_then(|link| link.mka()).ok_or("its keys are static")?;
            relative(table.get("mka").and_then(Node::as_table), "cak_file")?;
            Ok([mka.cak.ckn().octets(), mka.cak.octets()].concat())
        }
        "fieldbus" => {
            let cells = links.iter().filter_map(|link| link.cell.as_ref());
            let cell = cells.into_iter().find(|cell| cell.name == *name).ok_or("it is no cell")?;
            relative(Some(table), "master_key_file")?;
            Ok(cell.master_key.as_cak().octets().to_vec())
        }
        _ => Err(super::sites::A_SITE),
    }
}

/// A key that goes along with the configuration.
fn relative(table: Option<&Table>, key: &str) -> Result<(), &'static str> {
    let file = table.and_then(|table| table.get(key)?.as_text()).unwrap_or_default();
    if std::path::Path::new(file).is_absolute() { Err("its key has an absolute path") } else { Ok(()) }
}

fn refusal(members: &[Section<'_>]) -> Option<&'static str> {
    let mut gateways: Vec<_> = members.iter().map(|section| section.source.name.as_str()).collect();
    gateways.sort_unstable();
    gateways.dedup();
    let is_cell = members.first().is_some_and(|first| first.kind == "fieldbus");
    match gateways.len() {
        1 if members.len() == 1 => Some("no other gateway here has its key"),
        distinct if distinct != members.len() => Some("its gateway has another one under its key"),
        2 => None,
        _ if is_cell => Some("more than two gateways have its key"),
        _ => None,
    }
}

fn take_up(members: &[Section<'_>], draft: &mut Draft) {
    let Some(first) = members.first() else { return };
    let gateways: Vec<&str> = members.iter().map(|section| section.source.name.as_str()).collect();
    let (kind, key, ending) = match (first.kind, members.len()) {
        ("fieldbus", _) => (Kind::Fieldbus, "master_key_file", "key"),
        (_, 2) => (Kind::Link, "cak_file", "cak"),
        _ => (Kind::Group, "cak_file", "cak"),
    };
    let named =
        members.iter().map(|section| (section.source.name.as_str(), key_file(kind, key, section.table)));
    let files: Vec<(&str, String)> = named.collect();
    let name = draft.name(first.name, ending, &files);
    let mut at = BTreeMap::new();
    for section in members {
        let gateway = section.source.name.as_str();
        let mut options = section.table.clone();
        if section.name == name {
            options.remove("name");
        }
        remove_key_file(kind, key, &mut options);
        draft.name_port(gateway, &name, "plain", &mut options);
        draft.name_port(gateway, &name, "protected", &mut options);
        at.insert(gateway.to_owned(), options);
    }
    draft.share_key(&format!("{name}.{ending}"), &files);
    let mut common = take_common(&mut at);
    // The other name is that of the whole.
    give_back("name", &mut common, &mut at);
    let gateways = gateways.into_iter().map(str::to_owned).collect();
    draft.shared.push(DraftShared { kind, name, gateways, hub: None, common, at });
}

/// The file of the key that all members have.
pub(super) fn key_file(kind: Kind, key: &str, options: &Table) -> String {
    let around =
        if kind == Kind::Fieldbus { Some(options) } else { options.get("mka").and_then(Node::as_table) };
    around.and_then(|table| table.get(key)?.as_text()).unwrap_or_default().to_owned()
}

/// Takes that file out of the options.
pub(super) fn remove_key_file(kind: Kind, key: &str, options: &mut Table) {
    if kind == Kind::Fieldbus {
        options.remove(key);
        return;
    }
    if let Some(Node { value: Value::Table(mka), .. }) = options.get_mut("mka") {
        mka.remove(key);
        if mka.is_empty() {
            options.remove("mka");
        }
    }
}
