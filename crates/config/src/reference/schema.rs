//! The table as a JSON Schema, which editors with TOML support read.
//!
//! Draft 4, since Taplo and the editors that are built on it (Even Better TOML) speak that one. Keywords that mean something
//! else in later drafts are not used. TOML's dates are texts there.

use serde_json::{Map, Value, json};

use super::key::{Absent, Key, Kind};
use super::{SECTIONS, Section};

/// The schema of a configuration, as text.
pub fn schema() -> String {
    let mut top = object(&[], "A configuration of Frameward (frameward.toml).");
    if let Some(top) = top.as_object_mut() {
        top.insert("$schema".to_owned(), json!("http://json-schema.org/draft-04/schema#"));
        top.insert("title".to_owned(), json!(concat!("Frameward ", env!("CARGO_PKG_VERSION"))));
    }
    format!("{top:#}\n")
}

/// A section with those that stand in it; without a path the file.
fn object(path: &[&str], meaning: &str) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    let own = SECTIONS.iter().find(|section| section.path == path);
    for key in own.into_iter().flat_map(|section| section.keys) {
        properties.insert(key.name.to_owned(), property(key));
        if matches!(key.absent, Absent::Needed) {
            required.push(key.name);
        }
    }
    for section in Section::within(path) {
        let one = object(section.path, section.meaning);
        let value = if section.many {
            json!({ "type": "array", "items": one, "description": section.meaning })
        } else {
            one
        };
        properties.insert(section.name().to_owned(), value);
        if section.needed {
            required.push(section.name());
        }
    }
    let mut object = json!({
        "type": "object",
        "description": meaning,
        "properties": properties,
        "additionalProperties": false,
    });
    // Draft 4 knows no empty list here.
    if let (Some(object), false) = (object.as_object_mut(), required.is_empty()) {
        object.insert("required".to_owned(), json!(required));
    }
    object
}

fn property(key: &Key) -> Value {
    let mut property = kind(&key.kind);
    if let Some(property) = property.as_object_mut() {
        let absent = match key.absent {
            Absent::Needed => "Required.".to_owned(),
            Absent::Switch(_) | Absent::Number(_) | Absent::Word(_) | Absent::Is(_) => {
                format!("Default: {}.", key.absent.words())
            }
            Absent::NeededIf(_) => format!("{}.", key.absent.words()),
            Absent::Means(_) => format!("If absent: {}.", key.absent.words()),
        };
        let (words, example) = (key.kind.words(), key.example);
        let text = format!("{}\n\nValue: {words}. {absent}\n\n```toml\n{example}\n```", key.meaning);
        property.insert("description".to_owned(), json!(text));
        if let Some(default) = default(key) {
            property.insert("default".to_owned(), default);
        }
    }
    property
}

/// The value that an absent key stands for.
fn default(key: &Key) -> Option<Value> {
    let table: toml::Table = format!("value = {}", key.absent.value()?).parse().ok()?;
    serde_json::to_value(table.get("value")?).ok()
}

fn kind(kind: &Kind) -> Value {
    match kind {
        Kind::Switch => json!({ "type": "boolean" }),
        Kind::Number { from, to } => json!({ "type": "integer", "minimum": from, "maximum": to }),
        Kind::Numbers(numbers) => {
            let one = |number| json!({ "type": "integer", "minimum": number, "maximum": number });
            json!({ "anyOf": numbers.iter().map(one).collect::<Vec<_>>() })
        }
        Kind::Word(word) => json!({ "type": "string", "enum": [word] }),
        Kind::Choice(words) => json!({ "type": "string", "enum": words() }),
        Kind::Text { pattern, .. } => json!({ "type": "string", "pattern": pattern }),
        Kind::Time { units, off, .. } => {
            let units: Vec<_> = units.iter().map(|(unit, _)| *unit).collect();
            let time = match units.iter().all(|unit| unit.len() == 1) {
                true => format!("[0-9]+[{}]", units.concat()),
                false => format!("[0-9]+({})", units.join("|")),
            };
            let pattern = if *off { format!("^(off|{time})$") } else { format!("^{time}$") };
            json!({ "type": "string", "pattern": pattern })
        }
        Kind::List { of, from, to } => {
            json!({ "type": "array", "items": self::kind(of), "minItems": from, "maxItems": to })
        }
        Kind::Share => json!({ "type": "number", "minimum": 0.01, "maximum": 1 }),
        Kind::Moment => json!({ "type": "string" }),
        Kind::Table(keys) => {
            let properties: Map<_, _> = keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
            json!({ "type": "object", "properties": properties, "additionalProperties": false })
        }
        Kind::Either(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(self::kind).collect();
            json!({ "anyOf": kinds })
        }
    }
}
