//! TOML with the place of each key and value: what is wrong with a value that came through templates and variables is told where it was
//! written.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// Place in the inventory's files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    /// Number of the file.
    pub(crate) file: usize,
    /// The line, from 1.
    pub(crate) line: usize,
}

/// A value and the place of its key, or, in a list, its own.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A string.
    Text(String),
    /// A number, a boolean or a date, as it was written.
    Literal(String),
    List(Vec<Node>),
    Table(Table),
}

pub(crate) type Table = BTreeMap<String, Node>;

impl Node {
    pub(crate) fn text(place: Place, text: impl Into<String>) -> Self {
        Self { place, value: Value::Text(text.into()) }
    }

    pub(crate) const fn table(place: Place, table: Table) -> Self {
        Self { place, value: Value::Table(table) }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(crate) const fn as_table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }

    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        if let Value::List(list) = &self.value { Some(list) } else { None }
    }

    /// Whether both say the same, wherever that stands.
    pub(crate) fn says(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Text(one), Value::Text(other)) | (Value::Literal(one), Value::Literal(other)) => {
                one == other
            }
            (Value::List(one), Value::List(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.says(other))
            }
            (Value::Table(one), Value::Table(other)) => {
                one.len() == other.len()
                    && one.iter().zip(other).all(|((a, one), (b, other))| a == b && one.says(other))
            }
            _ => false,
        }
    }
}

/// Whether it is this word: `true`, `false` or a string.
pub(crate) fn is_word(node: Option<&Node>, word: &str) -> bool {
    matches!(node.map(|node| &node.value), Some(Value::Text(text) | Value::Literal(text)) if text == word)
}

/// The table of a text, and the first mistake in grammar of each line. What could be read is there all the same.
pub(crate) fn parse(text: &str, file: usize) -> (Table, Vec<(usize, String)>) {
    let lines = Lines::of(text, file);
    let (table, errors) = DeTable::parse_recoverable(text);
    let mistakes = errors.iter().map(|error| {
        let line = lines.place(&error.span().unwrap_or(0..0)).line;
        (line, format!("{}; correct this line", error.message()))
    });
    let mut mistakes: Vec<_> = mistakes.collect();
    // Further errors on a line mostly follow from the first mistake.
    mistakes.sort_by_key(|(line, _)| *line);
    mistakes.dedup_by_key(|(line, _)| *line);
    (lines.table(table.get_ref()), mistakes)
}

/// A text and where its lines begin.
struct Lines<'t> {
    text: &'t str,
    file: usize,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str, file: usize) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, octet)| *octet == b'\n').map(|(at, _)| at + 1);
        Self { text, file, starts: std::iter::once(0).chain(ends).collect() }
    }

    fn place(&self, span: &Range<usize>) -> Place {
        let line = self.starts.partition_point(|start| *start <= span.start).max(1);
        Place { file: self.file, line }
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        let node = |span: &Range<usize>, value: &toml::Spanned<DeValue<'_>>| Node {
            place: self.place(span),
            value: self.value(value),
        };
        table.iter().map(|(key, value)| (key.get_ref().to_string(), node(&key.span(), value))).collect()
    }

    fn value(&self, value: &toml::Spanned<DeValue<'_>>) -> Value {
        match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Array(list) => {
                let node = |one: &toml::Spanned<DeValue<'_>>| Node {
                    place: self.place(&one.span()),
                    value: self.value(one),
                };
                Value::List(list.iter().map(node).collect())
            }
            DeValue::Table(table) => Value::Table(self.table(table)),
            _ => Value::Literal(self.text.get(value.span()).unwrap_or_default().to_owned()),
        }
    }
}

/// Puts `over` on top of `base`: its values count, and tables in both become one.
pub(crate) fn merge(base: &mut Table, over: &Table) {
    for (key, node) in over {
        match (base.get_mut(key), &node.value) {
            (Some(Node { value: Value::Table(below), .. }), Value::Table(over)) => merge(below, over),
            _ => drop(base.insert(key.clone(), node.clone())),
        }
    }
}

/// Replaces each `${name}` in strings by its value; `$${` stands for `${`. `unknown` is told the place and name of those without one.
pub(crate) fn substitute(
    node: &mut Node,
    variable: &dyn Fn(&str) -> Option<String>,
    unknown: &mut dyn FnMut(Place, &str),
) {
    let place = node.place;
    match &mut node.value {
        Value::Text(text) if text.contains("${") => {
            *text = replaced(text, variable, &mut |name| unknown(place, name))
        }
        Value::Text(_) | Value::Literal(_) => {}
        Value::List(list) => list.iter_mut().for_each(|node| substitute(node, variable, unknown)),
        Value::Table(table) => table.values_mut().for_each(|node| substitute(node, variable, unknown)),
    }
}

fn replaced(text: &str, variable: &dyn Fn(&str) -> Option<String>, unknown: &mut dyn FnMut(&str)) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, behind) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            replaced.push_str(before);
            replaced.push_str("${");
            rest = behind;
            continue;
        }
        replaced.push_str(before);
        let Some((name, after)) = behind.split_once('}') else {
            unknown(behind);
            return replaced;
        };
        match variable(name) {
            Some(value) => replaced.push_str(&value),
            None => unknown(name),
        }
        rest = after;
    }
    replaced.push_str(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_once_and_nothing_else_is() {
        let variable = |name: &str| match name {
            "line" => Some("7".to_owned()),
            "odd" => Some("${line}".to_owned()),
            _ => None,
        };
        let mut unknown = Vec::new();
        for (text, expected) in [
            ("press-${line}", "press-7"),
            ("${line}${line}", "77"),
            ("${odd}", "${line}"),
            ("a $${line} $ {line} $$", "a ${line} $ {line} $$"),
            ("x${none}y", "xy"),
            ("x${open", "x"),
        ] {
            let mut node = Node::text(Place { file: 0, line: 1 }, text);
            substitute(&mut node, &variable, &mut |_, name| unknown.push(name.to_owned()));
            assert_eq!(node.as_text(), Some(expected), "{text}");
        }
        assert_eq!(unknown, ["none", "open"]);
    }

    #[test]
    fn each_key_knows_its_line_and_numbers_stay_as_they_were_written() {
        let (table, mistakes) = parse("a = 0x8001\n[[b]]\nc = { d = 2127-03-31 }\n[[b]]\n", 3);
        assert!(mistakes.is_empty());
        assert!(is_word(table.get("a"), "0x8001"));
        let list = table["b"].as_list().unwrap();
        assert_eq!(list.iter().map(|node| node.place.line).collect::<Vec<_>>(), [2, 4]);
        let inner = list[0].as_table().unwrap()["c"].as_table().unwrap();
        assert!(is_word(inner.get("d"), "2127-03-31"));
        assert_eq!(inner["d"].place, Place { file: 3, line: 3 });
        let (_, mistakes) = parse("a = 1\nb =\nc = 2\nd = = 3\n", 0);
        assert_eq!(mistakes.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4]);
    }
}
