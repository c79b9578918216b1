//! The text of a configuration, and the line of the inventory behind each of its lines.

use std::fmt::Write as _;

use config::reference;

use crate::keys::can_go_along;
use crate::mistakes::Mistakes;
use crate::tree::{Node, Place, Table, Value};

/// The first line of a rendered configuration; only what begins with it is ever replaced.
pub(crate) const HEAD: &str = "# Made by frameward fleet render. Change the inventory instead.";

/// Sections in the order in which they are written.
const SECTIONS: [&str; 4] = ["gateway", "link", "site", "fieldbus"];
/// Keys that name key files.
const KEY_FILES: [&str; 6] =
    ["key_file", "cak_file", "fallback_cak_file", "master_key_file", "fallback_master_key_file", "identity"];

/// A text that is being written.
pub(crate) struct RenderedText {
    pub(crate) text: String,
    /// For each line, what it came from.
    pub(crate) places: Vec<Place>,
}

impl RenderedText {
    /// Of a gateway's configuration. The same table gives the same octets.
    pub(crate) fn of(table: &Table, place: Place, mistakes: &mut Mistakes<'_>) -> Self {
        let mut written = Self { text: String::new(), places: Vec::new() };
        written.line(place, HEAD);
        for section in SECTIONS {
            if let Some(node) = table.get(section) {
                written.section(&mut vec![section], node, mistakes);
            }
        }
        written
    }

    fn line(&mut self, place: Place, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.places.push(place);
    }

    /// A section with those in it; what is none is written as a value, for `check` to refuse.
    fn section(&mut self, path: &mut Vec<&'static str>, node: &Node, mistakes: &mut Mistakes<'_>) {
        let name = path.join(".");
        match &node.value {
            Value::Table(table) => self.table(path, &format!("[{name}]"), node.place, table, mistakes),
            Value::List(list) => {
                for one in list {
                    if let Value::Table(table) = &one.value {
                        self.table(path, &format!("[[{name}]]"), one.place, table, mistakes);
                    }
                }
            }
            Value::Text(_) | Value::Literal(_) => {}
        }
    }

    fn table(
        &mut self,
        path: &mut Vec<&'static str>,
        header: &str,
        place: Place,
        table: &Table,
        mistakes: &mut Mistakes<'_>,
    ) {
        let known = reference::section(path);
        let keys = known.as_ref().map_or([].as_slice(), |section| &section.keys);
        let within = known.as_ref().map_or([].as_slice(), |section| &section.within);
        let is_section = |key: &str, node: &Node| within.contains(&key) && is_of_tables(node);
        self.line(place, "");
        self.line(place, header);
        // In the order of the reference, and behind them those that it does not have, for `check` to refuse.
        let ordered = keys.iter().filter_map(|key| table.get_key_value(*key));
        let others = table.iter().filter(|(key, _)| !keys.contains(&key.as_str()));
        for (key, node) in ordered.chain(others).filter(|(key, node)| !is_section(key, node)) {
            if let (true, Some(file)) = (KEY_FILES.contains(&key.as_str()), node.as_text()) {
                judge_key_file(key, file, node.place, mistakes);
            }
            self.line(node.place, &format!("{} = {}", bare(key), inline(node)));
        }
        for key in within {
            if let Some(node) = table.get(*key).filter(|node| is_section(key, node)) {
                path.push(*key);
                self.section(path, node, mistakes);
                path.pop();
            }
        }
    }
}

fn is_of_tables(node: &Node) -> bool {
    match &node.value {
        Value::Table(_) => true,
        Value::List(list) => !list.is_empty() && list.iter().all(|one| one.as_table().is_some()),
        Value::Text(_) | Value::Literal(_) => false,
    }
}

/// A file that goes along must not leave the gateway's folder.
fn judge_key_file(key: &str, file: &str, place: Place, mistakes: &mut Mistakes<'_>) {
    let path = std::path::Path::new(file);
    if !path.is_absolute() && (!can_go_along(path) || path.starts_with(crate::CONFIGURATION)) {
        mistakes.add(
            place,
            format!("{key} = {file:?} is no place in the gateway's folder; name a file, or an absolute path on the box"),
        );
    }
}

/// A value in one line.
pub(crate) fn inline(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => quoted(text),
        Value::Literal(literal) => literal.clone(),
        Value::List(list) => {
            let list: Vec<_> = list.iter().map(inline).collect();
            format!("[{}]", list.join(", "))
        }
        Value::Table(table) if table.is_empty() => "{}".to_owned(),
        Value::Table(table) => {
            let pairs: Vec<_> =
                table.iter().map(|(key, node)| format!("{} = {}", bare(key), inline(node))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

/// A string as TOML has it, in one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => drop(write!(quoted, "\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A key, in quotes if it needs them.
pub(crate) fn bare(key: &str) -> String {
    let is_bare =
        !key.is_empty() && key.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"_-".contains(&octet));
    if is_bare { key.to_owned() } else { quoted(key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_reads_back() {
        for text in ["", "eth0", "a \"b\" \\ c", "two\nlines\t\u{7f}\u{85}\u{1}", "größe 🦀"] {
            let read: toml::Table = format!("{} = {}", bare(text), quoted(text)).parse().unwrap();
            assert_eq!(read.get(text).and_then(toml::Value::as_str), Some(text));
            assert_eq!(quoted(text).lines().count(), 1);
        }
    }
}
