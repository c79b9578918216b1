//! The text of an inventory that was made.

use std::fmt::Write as _;

use super::draft::{Draft, NOWHERE};
use crate::rendered_text::{bare, inline};
use crate::tree::{Node, Table, Value};

/// Of a draft; the same gives the same octets.
pub(super) fn of(draft: &Draft) -> String {
    let mut text =
        String::from("# An inventory of hand-written configurations, made by frameward fleet import.\n");
    for (name, gateway) in &draft.gateways {
        let mut table = gateway.options.clone();
        if !gateway.ports.is_empty() {
            let ports =
                gateway.ports.iter().map(|(role, interface)| (role.clone(), Node::text(NOWHERE, interface)));
            table.insert("ports".into(), Node::table(NOWHERE, ports.collect()));
        }
        let list = |tables: &Vec<Table>| Node {
            place: NOWHERE,
            value: Value::List(tables.iter().map(|table| Node::table(NOWHERE, table.clone())).collect()),
        };
        let sections = gateway.sections.iter().map(|(kind, tables)| ((*kind).to_owned(), list(tables)));
        let sections: Table = sections.collect();
        if !sections.is_empty() {
            table.insert("box".into(), Node::table(NOWHERE, sections));
        }
        section(&mut text, &format!("gateway.{}", bare(name)), false, &table);
    }
    for shared in &draft.shared {
        let mut table = shared.common.clone();
        table.insert("name".into(), Node::text(NOWHERE, &shared.name));
        let gateways = shared.gateways.iter().map(|gateway| Node::text(NOWHERE, gateway)).collect();
        table.insert("gateways".into(), Node { place: NOWHERE, value: Value::List(gateways) });
        if let Some(hub) = &shared.hub {
            table.insert("hub".into(), Node::text(NOWHERE, hub));
        }
        let at = shared.at.iter().filter(|(_, options)| !options.is_empty());
        let at: Table =
            at.map(|(name, options)| (name.clone(), Node::table(NOWHERE, options.clone()))).collect();
        if !at.is_empty() {
            table.insert("at".into(), Node::table(NOWHERE, at));
        }
        section(&mut text, shared.kind.word(), true, &table);
    }
    text
}

/// A section, with those in it behind its values.
fn section(text: &mut String, path: &str, many: bool, table: &Table) {
    let is_section = |node: &&Node| match &node.value {
        Value::Table(_) => true,
        Value::List(list) => !list.is_empty() && list.iter().all(|one| one.as_table().is_some()),
        Value::Text(_) | Value::Literal(_) => false,
    };
    let values: Vec<_> = table.iter().filter(|(_, node)| !is_section(node)).collect();
    let inner: Vec<_> = table.iter().filter(|(_, node)| is_section(node)).collect();
    let is_gateway = path.starts_with("gateway.") && path.matches('.').count() == 1;
    if many || is_gateway || !values.is_empty() || inner.is_empty() {
        let _ = if many { write!(text, "\n[[{path}]]\n") } else { write!(text, "\n[{path}]\n") };
    }
    // The name first: people look for it.
    let (first, others): (Vec<_>, Vec<_>) = values.into_iter().partition(|(key, _)| *key == "name");
    for (key, node) in first.into_iter().chain(others) {
        let _ = writeln!(text, "{} = {}", bare(key), inline(&escaped(node)));
    }
    for (key, node) in inner {
        let path = format!("{path}.{}", bare(key));
        match &node.value {
            Value::Table(table) => section(text, &path, false, table),
            Value::List(list) => {
                list.iter().filter_map(Node::as_table).for_each(|table| section(text, &path, true, table));
            }
            Value::Text(_) | Value::Literal(_) => {}
        }
    }
}

/// With strings in which nothing looks like a variable.
fn escaped(node: &Node) -> Node {
    let value = match &node.value {
        Value::Text(text) => Value::Text(text.replace("${", "$${")),
        Value::Literal(literal) => Value::Literal(literal.clone()),
        Value::List(list) => Value::List(list.iter().map(escaped).collect()),
        Value::Table(table) => {
            Value::Table(table.iter().map(|(key, node)| (key.clone(), escaped(node))).collect())
        }
    };
    Node { place: node.place, value }
}
