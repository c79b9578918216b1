//! `[gateway.NAME]`: a box with its plant, its ports by their roles, its variables, and the options of `[gateway]` and of sections of its
//! own.

use std::collections::BTreeMap;

use config::is_name;

use crate::mistakes::Mistakes;
use crate::sections::check_keys;
use crate::tree::{Node, Place, Table, Value, substitute};

/// Keys of the inventory's own; all others are those of `[gateway]`.
const OWN: [&str; 7] = ["template", "site", "ports", "variables", "public_key", "endpoint", "box"];
/// Sections of a single box that a gateway can have to itself.
pub(crate) const OF_A_BOX: [&str; 3] = ["link", "site", "fieldbus"];

/// A gateway of the inventory.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) place: Place,
    /// The plant that it stands in.
    pub(crate) site: Option<String>,
    /// Interfaces by their roles.
    ports: BTreeMap<String, Node>,
    variables: BTreeMap<String, String>,
    /// Of its identity, for tunnels.
    pub(crate) public_key: Option<Node>,
    /// Address at which tunnels reach it.
    pub(crate) endpoint: Option<Node>,
    /// Of `[gateway]`.
    pub(crate) options: Table,
    /// Sections as its configuration has them.
    pub(crate) sections: Table,
}

impl Gateway {
    /// Of its section, with what templates say.
    pub(crate) fn new(name: &str, place: Place, mut table: Table, mistakes: &mut Mistakes<'_>) -> Self {
        if !is_name(name) {
            mistakes.add(
                place,
                format!("gateway {name:?} is not a valid name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first"),
            );
        }
        if let Some(node) = table.remove("name") {
            mistakes.add(
                node.place,
                format!("gateway {name:?} has its name from [gateway.{name}]; remove this line"),
            );
        }
        check_keys(&table, &["gateway"], &OWN, &format!("gateway {name:?}: "), mistakes);
        let mut gateway = Self {
            place,
            site: None,
            ports: BTreeMap::new(),
            variables: BTreeMap::new(),
            public_key: table.remove("public_key"),
            endpoint: table.remove("endpoint"),
            options: Table::new(),
            sections: Table::new(),
        };
        if let Some(node) = table.remove("site") {
            match node.as_text() {
                Some(site) => gateway.site = Some(site.to_owned()),
                None => mistakes.add(node.place, "site takes the name of a plant, in quotes"),
            }
        }
        if let Some(node) = table.remove("variables") {
            gateway.take_variables(node, mistakes);
        }
        if let Some(node) = table.remove("ports") {
            gateway.take_ports(name, node, mistakes);
        }
        if let Some(node) = table.remove("box") {
            gateway.take_sections(name, node, mistakes);
        }
        gateway.options = table;
        let mut options = Node::table(place, std::mem::take(&mut gateway.options));
        gateway.substitute(name, &mut options, mistakes);
        let mut sections = Node::table(place, std::mem::take(&mut gateway.sections));
        gateway.substitute(name, &mut sections, mistakes);
        let mut facts = [gateway.public_key.take(), gateway.endpoint.take()];
        facts.iter_mut().flatten().for_each(|fact| gateway.substitute(name, fact, mistakes));
        [gateway.public_key, gateway.endpoint] = facts;
        if let (Value::Table(options), Value::Table(sections)) = (options.value, sections.value) {
            gateway.options = options;
            gateway.sections = sections;
        }
        gateway
    }

    fn take_variables(&mut self, node: Node, mistakes: &mut Mistakes<'_>) {
        let Value::Table(table) = node.value else {
            mistakes.add(node.place, "variables is a section; write [gateway.NAME.variables]");
            return;
        };
        for (variable, node) in table {
            match node.value {
                Value::Text(value) | Value::Literal(value) => drop(self.variables.insert(variable, value)),
                Value::List(_) | Value::Table(_) => {
                    mistakes.add(node.place, format!("variable {variable:?} takes a text or a number"));
                }
            }
        }
    }

    fn take_ports(&mut self, name: &str, node: Node, mistakes: &mut Mistakes<'_>) {
        let Value::Table(table) = node.value else {
            mistakes.add(node.place, "ports is a section; write [gateway.NAME.ports]");
            return;
        };
        for (role, mut node) in table {
            if node.as_text().is_none() {
                mistakes.add(node.place, format!("port {role:?} takes the name of an interface, in quotes"));
                continue;
            }
            self.substitute(name, &mut node, mistakes);
            self.ports.insert(role, node);
        }
    }

    fn take_sections(&mut self, name: &str, node: Node, mistakes: &mut Mistakes<'_>) {
        let Value::Table(table) = node.value else {
            mistakes.add(node.place, format!("box is a section; write [[gateway.{name}.box.link]]"));
            return;
        };
        for (section, node) in table {
            let tables = node.as_list().is_some_and(|list| list.iter().all(|one| one.as_table().is_some()));
            if !OF_A_BOX.contains(&section.as_str()) || !tables {
                mistakes.add(
                    node.place,
                    format!("gateway {name:?}: box holds [[gateway.{name}.box.link]], .site and .fieldbus, as in the configuration of the box; write one of these"),
                );
                continue;
            }
            for one in node.as_list().unwrap_or_default() {
                let table = one.as_table().cloned().unwrap_or_default();
                check_keys(&table, &[&section], &[], &format!("gateway {name:?}: {section}: "), mistakes);
            }
            self.sections.insert(section, node);
        }
    }

    /// Puts the gateway's variables into strings.
    pub(crate) fn substitute(&self, name: &str, node: &mut Node, mistakes: &mut Mistakes<'_>) {
        let variable = |variable: &str| match (variable, &self.site) {
            ("gateway", _) => Some(name.to_owned()),
            ("site", Some(site)) => Some(site.clone()),
            _ => self.variables.get(variable).cloned(),
        };
        substitute(node, &variable, &mut |place, variable| {
            let known: Vec<_> =
                self.variables.keys().map(String::as_str).chain(["gateway", "site"]).collect();
            let meant = config::suggest_key(variable, known.into_iter())
                .map_or(String::new(), |meant| format!("did you mean {meant}? Else "));
            let cure = if variable == "site" {
                format!("add site = \"PLANT\" to [gateway.{name}]")
            } else {
                format!("{meant}set it in [gateway.{name}.variables]")
            };
            mistakes.add(place, format!("variable ${{{variable}}} is not set for gateway {name:?}; {cure}"));
        });
    }

    /// The interface of a role.
    pub(crate) fn port(&self, role: &str) -> Option<&str> {
        self.ports.get(role).and_then(Node::as_text)
    }

    /// Roles that have an interface.
    pub(crate) fn roles(&self) -> impl Iterator<Item = &str> + Clone {
        self.ports.keys().map(String::as_str)
    }
}
