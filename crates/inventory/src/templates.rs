//! `[template.NAME]`: options that gateways, links, groups, cells and tunnels take by its name. Theirs come first.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::mistakes::{Mistakes, at, instead};
use crate::tree::{Node, Place, Table, Value, merge};

/// The key that names templates.
pub(crate) const KEY: &str = "template";

/// So many templates may stand one in the other.
const DEEPEST: usize = 64;

/// All templates, each with what it takes from others.
pub(crate) struct Templates(BTreeMap<String, Table>);

impl Templates {
    /// Of the sections, by their names.
    pub(crate) fn new(mut sections: BTreeMap<String, Node>, mistakes: &mut Mistakes<'_>) -> Self {
        sections.retain(|name, node| {
            let is_table = node.as_table().is_some();
            if !is_table {
                mistakes.add(node.place, format!("template {name:?} is no section; write [template.{name}]"));
            }
            is_table
        });
        let mut finder = Finder { sections: &sections, done: BTreeMap::new(), open: Vec::new() };
        for name in sections.keys() {
            finder.resolve(name, mistakes);
        }
        Self(finder.done)
    }

    /// A section with what it takes from the templates that it names.
    pub(crate) fn apply(&self, section: &Table, mistakes: &mut Mistakes<'_>) -> Table {
        let mut whole = Table::new();
        for (place, name) in named(section, mistakes) {
            match self.0.get(&name) {
                Some(template) => merge(&mut whole, template),
                None => mistakes.add(place, unknown(&name, &self.0)),
            }
        }
        merge(&mut whole, section);
        whole.remove(KEY);
        whole
    }
}

/// The search through templates that take others.
struct Finder<'s> {
    sections: &'s BTreeMap<String, Node>,
    done: BTreeMap<String, Table>,
    /// Those that are being resolved.
    open: Vec<String>,
}

impl Finder<'_> {
    fn resolve(&mut self, name: &str, mistakes: &mut Mistakes<'_>) {
        let Some(section) = self.sections.get(name).and_then(Node::as_table) else { return };
        if self.done.contains_key(name) {
            return;
        }
        self.open.push(name.to_owned());
        let mut whole = Table::new();
        for (place, other) in named(section, mistakes) {
            if self.open.contains(&other) {
                let mut way: Vec<_> = self.open.iter().skip_while(|open| **open != other).cloned().collect();
                way.push(other);
                mistakes.add(
                    place,
                    format!("templates take each other: {}; remove one of these", way.join(" takes ")),
                );
                continue;
            }
            if self.open.len() >= DEEPEST {
                mistakes
                    .add(place, format!("more than {DEEPEST} templates take each other here; take fewer"));
                continue;
            }
            self.resolve(&other, mistakes);
            match self.done.get(&other) {
                Some(template) => merge(&mut whole, template),
                None => mistakes.add(place, unknown(&other, self.sections)),
            }
        }
        merge(&mut whole, section);
        whole.remove(KEY);
        self.open.pop();
        self.done.insert(name.to_owned(), whole);
    }
}

fn unknown<T>(name: &str, known: &BTreeMap<String, T>) -> String {
    format!("there is no template {name:?}; {}", instead(name, known.keys().map(String::as_str)))
}

/// The templates that a section names, each with its place.
fn named(section: &Table, mistakes: &mut Mistakes<'_>) -> Vec<(Place, String)> {
    match section.get(KEY) {
        None => Vec::new(),
        Some(node) => names(KEY, node, mistakes),
    }
}

/// The names behind a key: one, or a list.
pub(crate) fn names(key: &str, node: &Node, mistakes: &mut Mistakes<'_>) -> Vec<(Place, String)> {
    let nodes = match &node.value {
        Value::List(list) => list.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let mut names = Vec::new();
    for node in nodes {
        match node.as_text() {
            Some(name) => names.push((node.place, name.to_owned())),
            None => mistakes.add(node.place, format!("{key} takes a name, or a list of names, in quotes")),
        }
    }
    names
}

/// Refuses a second thing of a name; `kind` is what it is.
pub(crate) fn refuse_second(
    kind: &str,
    name: &str,
    place: Place,
    first: Place,
    files: &[PathBuf],
    mistakes: &mut Mistakes<'_>,
) {
    let there = at(files, first);
    mistakes.add(place, format!("{kind} {name:?} is already at {there}; give one of them another name"));
}
