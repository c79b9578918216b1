//! Outline of a configuration, key by key, so that two of them can be compared: for the lines of a reload.
//!
//! Elements of lists go by their names, peers' SAs by SCI and AN: an element that is put in between changes no other. Keys
//! are in files, and stand here as fingerprints: a file with another key under the same name is a change, too.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{Keys, Link, Site};
use crate::key_file::fingerprint;

/// Changes that are listed; a configuration that is replaced by another one needs no more.
const LISTED: usize = 100;

/// Each key of a configuration with its value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outline(BTreeMap<String, String>);

impl Outline {
    /// Of a text that was read before, and of the keys that it names.
    pub(super) fn of(text: &str, links: &[Link], sites: &[Site]) -> Self {
        let mut outline = Self::default();
        if let Ok(table) = text.parse::<Table>() {
            outline.table("", &table);
        }
        links.iter().for_each(|link| outline.keys(link));
        for site in sites {
            if let Some(identity) = &site.identity {
                outline.key(&format!("site {:?}", site.name), "identity", identity.public().to_string());
            }
        }
        outline
    }

    fn table(&mut self, path: &str, table: &Table) {
        for (key, value) in table {
            match value {
                Value::Table(inner) => self.table(&join(path, key), inner),
                Value::Array(items) if items.iter().all(Value::is_table) => {
                    for (at, inner) in items.iter().filter_map(Value::as_table).enumerate() {
                        self.table(&join(path, &format!("{key} {}", name(at, inner))), inner);
                    }
                }
                // It is the name of what the path says.
                Value::String(_) if key == "name" && !path.is_empty() && path != "gateway" => {
                    self.0.insert(path.to_owned(), "there".to_owned());
                }
                value => {
                    self.0.insert(join(path, key), value.to_string());
                }
            }
        }
    }

    fn keys(&mut self, link: &Link) {
        let path = format!("link {:?}", link.name);
        match &link.keys {
            Keys::Static(sas) => {
                self.key(&path, "static", fingerprint(sas.transmit.key.octets()));
                for sa in &sas.receive {
                    let what = format!("static peer {} AN {}", sa.sci, sa.an);
                    self.key(&path, &what, fingerprint(sa.key.octets()));
                }
            }
            Keys::Agreed(mka) => {
                self.key(&path, "mka cak", mka.cak.fingerprint());
                if let Some(fallback) = &mka.fallback {
                    self.key(&path, "mka fallback cak", fallback.fingerprint());
                }
            }
            Keys::None => {}
        }
        if let Some(cell) = &link.cell {
            let path = format!("fieldbus {:?}", cell.name);
            self.key(&path, "master key", cell.master_key.fingerprint());
            if let Some(fallback) = &cell.fallback_master_key {
                self.key(&path, "fallback master key", fallback.fingerprint());
            }
        }
    }

    fn key(&mut self, path: &str, what: &str, fingerprint: String) {
        self.0.insert(format!("{path} {what}, its key's fingerprint"), fingerprint);
    }

    /// Changes from this outline to a new one, a line each.
    pub fn changes(&self, new: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (key, old) in &self.0 {
            match new.0.get(key) {
                None => lines.push(format!("changed: {key}: was {old}, now not set")),
                Some(now) if now != old => lines.push(format!("changed: {key}: was {old}, now {now}")),
                Some(_) => {}
            }
        }
        let added = new.0.iter().filter(|(key, _)| !self.0.contains_key(*key));
        lines.extend(added.map(|(key, now)| format!("changed: {key}: was not set, now {now}")));
        let more = lines.len().saturating_sub(LISTED);
        if more > 0 {
            lines.truncate(LISTED);
            lines.push(format!("changed: {more} keys more"));
        }
        lines
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path} {key}") }
}

/// Name that an element of a list goes by.
fn name(at: usize, table: &Table) -> String {
    let word = |key: &str| table.get(key).map(|value| value.to_string().trim_matches('"').to_owned());
    match (word("name"), word("sci"), word("an")) {
        (Some(name), ..) => format!("{name:?}"),
        (None, Some(sci), Some(an)) => format!("{sci} AN {an}"),
        _ => format!("{}", at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[gateway]\nname = \"a\"\n[[link]]\nname = \"press\"\nreplay_window = 0\n[link.static]\nan = 0\n\
                        [[link.static.peer]]\nan = 1\nsci = \"02:00:00:00:00:02/1\"\nkey_file = \"b.key\"\n";

    #[test]
    fn each_key_that_changed_is_said_with_both_values() {
        let outline = |text: &str| Outline::of(text, &[], &[]);
        let changes = |from: &str, to: &str| outline(TEXT).changes(&outline(&TEXT.replace(from, to)));
        assert_eq!(changes("", ""), Vec::<String>::new());
        assert_eq!(
            changes("replay_window = 0", "replay_window = 64"),
            ["changed: link \"press\" replay_window: was 0, now 64"]
        );
        assert_eq!(
            changes("replay_window = 0\n", ""),
            ["changed: link \"press\" replay_window: was 0, now not set"]
        );
        assert_eq!(
            changes("b.key", "c.key"),
            [
                "changed: link \"press\" static peer 02:00:00:00:00:02/1 AN 1 key_file: was \"b.key\", now \"c.key\""
            ]
        );
        let more = "[[link]]\nname = \"first\"\nmtu = 1400\n[[link]]";
        assert_eq!(
            outline(TEXT).changes(&outline(&TEXT.replacen("[[link]]", more, 1))),
            [
                "changed: link \"first\": was not set, now there",
                "changed: link \"first\" mtu: was not set, now 1400"
            ]
        );
    }

    #[test]
    fn no_more_lines_than_anybody_reads() {
        let many: String = (0..300).map(|number| format!("key{number} = 1\n")).collect();
        let changes = Outline::default().changes(&Outline::of(&many, &[], &[]));
        assert_eq!(changes.len(), LISTED + 1);
        assert_eq!(changes[LISTED], "changed: 200 keys more");
    }
}
