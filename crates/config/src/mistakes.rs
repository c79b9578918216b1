//! Mistakes whose meaning can be guessed: a section in the wrong kind of brackets, at the wrong place or by nearly its
//! name, a key nearly by its name, a key file where the configuration belongs. Each message says what to type.

use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::findings::{Finding, Findings};
use super::reference::{Key, SECTIONS, Section};

/// The findings for a configuration that the TOML parser or serde refuses: wrong sections, with those that are meant; if there are none,
/// what was refused.
pub(super) fn explain_refusal(file: &Path, text: &str, error: &toml::de::Error) -> Vec<Finding> {
    let mut findings = Findings::new(file, text);
    check_sections(text, &mut findings);
    if findings.errors.is_empty() {
        return vec![explain_toml_error(file, text, error, SECTIONS)];
    }
    findings.errors.sort_by_key(|error| error.line);
    findings.errors
}

/// The finding for what the TOML parser or serde refuses; for an unknown key with the one that is meant, if that can be told.
/// `sections` are those that such a file may have.
pub(super) fn explain_toml_error(
    file: &Path,
    text: &str,
    error: &toml::de::Error,
    sections: &'static [Section],
) -> Finding {
    let message = error.message();
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
    let what = match unknown {
        Some((key, rest)) => {
            let elsewhere = elsewhere(key, sections);
            let known = rest.trim_start_matches(", expected").trim_start_matches(" one of").trim();
            let known = known.replace('`', "");
            match suggest_key(key, known.split(", ")) {
                Some(meant) => {
                    format!("unknown key {key:?}; did you mean {meant}? Else remove it or use one of {known}")
                }
                None => format!("unknown key {key:?}{elsewhere}; remove it or use one of {known}"),
            }
        }
        None => match error.span().and_then(|span| bare_text(text, span.start)) {
            Some((key, value)) => format!("text stands in quotes: {key} = \"{value}\""),
            None => {
                let wrong = error.span().and_then(|span| wrong_type(text, span.start, message, sections));
                wrong.unwrap_or_else(|| format!("{message}; correct this line"))
            }
        },
    };
    let findings = Findings::new(file, text);
    let line = error.span().map(|span| findings.line(&span));
    Finding { file: file.to_owned(), line, text: what }
}

/// The sections that have a key of this name, as the middle of a sentence; empty if there are none, or too many to be a hint.
fn elsewhere(key: &str, sections: &[Section]) -> String {
    let has = |section: &&Section| section.keys.iter().any(|known| known.name == key);
    let headers: Vec<_> = sections.iter().filter(has).map(Section::header).collect();
    match headers.len() {
        1..=3 => format!(" here: it belongs to {}", headers.join(" or ")),
        _ => String::new(),
    }
}

/// Message for a value of another type than its key takes: the values that it takes, and how the line is to be written where that can be
/// told. Nothing if `message` says something else.
fn wrong_type(text: &str, at: usize, message: &str, sections: &'static [Section]) -> Option<String> {
    let (found, expected) = message.strip_prefix("invalid type: ")?.split_once(", expected ")?;
    let (table, _) = DeTable::parse_recoverable(text);
    let key = key_at(table.get_ref(), at, &mut Vec::new(), &[], sections)?;
    let (name, takes) = (key.name, key.kind.words().replace('`', ""));
    let quoted = found.strip_prefix("string \"").and_then(|value| value.strip_suffix('"'));
    let bare = found.split_once('`').and_then(|(_, value)| value.strip_suffix('`'));
    Some(match (quoted, bare) {
        (Some(value), _) if is_of(value, expected) => {
            format!("{name} takes {takes}, without quotes; write {name} = {value}")
        }
        (None, Some(_)) if expected == "a string" => {
            format!("{name} takes text in quotes: {takes}; correct this line")
        }
        _ => format!("{name} takes {takes}; correct this line"),
    })
}

/// Whether this text without its quotes is a value of the type that serde names so.
fn is_of(value: &str, expected: &str) -> bool {
    let line = format!("v = {value}");
    let table = DeTable::parse(&line).ok();
    let value = table.as_ref().and_then(|table| table.get_ref().values().next());
    match value.map(|value| value.get_ref()) {
        Some(DeValue::Integer(_)) => expected == "i64",
        Some(DeValue::Boolean(_)) => expected == "a boolean",
        Some(DeValue::Datetime(_)) => expected == "a TOML datetime",
        _ => false,
    }
}

/// The key whose value is at this octet.
fn key_at<'t>(
    table: &'t DeTable<'t>,
    at: usize,
    path: &mut Vec<&'t str>,
    keys: &'static [Key],
    sections: &'static [Section],
) -> Option<&'static Key> {
    for (name, value) in table {
        let known = keys.iter().find(|key| key.name == name.get_ref());
        path.push(name.get_ref());
        let within = sections.iter().find(|section| section.path == path);
        let within = within.map_or(&[][..], |section| section.keys);
        let found =
            tables(value.get_ref()).into_iter().find_map(|table| key_at(table, at, path, within, sections));
        path.pop();
        if let Some(key) = found.or_else(|| known.filter(|_| value.span().contains(&at))) {
            return Some(key);
        }
    }
    None
}

/// The tables that a value is, or that stand in it as a list.
fn tables<'t>(value: &'t DeValue<'t>) -> Vec<&'t DeTable<'t>> {
    match value {
        DeValue::Table(table) => vec![table],
        DeValue::Array(list) => list.iter().filter_map(|one| one.get_ref().as_table()).collect(),
        _ => Vec::new(),
    }
}

/// Key and value of the line at this octet, if the value is text without quotes: to TOML `net0` is a number that is none.
fn bare_text(text: &str, at: usize) -> Option<(&str, &str)> {
    let begin = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(begin..)?.lines().next()?;
    let (key, value) = line.split_once('=')?;
    let value = value.split('#').next()?.trim();
    let is_bare = value.starts_with(|c: char| c.is_alphanumeric() || c == '/' || c == '.')
        && !value.contains(['"', '\'', '\\', '[', ']', '{', '}'])
        && DeTable::parse(&format!("v = {value}")).is_err();
    is_bare.then(|| (key.trim(), value))
}

/// Says what of the text's sections is meant otherwise; nothing if its sections are as they should be.
fn check_sections(text: &str, findings: &mut Findings) {
    if let Some(line) = key_file(text) {
        findings.error(
            line,
            "this is a key file, not a configuration; name a configuration, which has a section [gateway]",
        );
        return;
    }
    // Text behind an error is read all the same: two [link] are an error of their own.
    let (table, _) = DeTable::parse_recoverable(text);
    walk(text, table.get_ref(), &mut Vec::new(), findings);
}

/// Whether the key at this octet stands in a header in brackets. A table in braces or of dotted keys is a value: whether its key exists is for
/// serde to say.
fn is_in_header(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let begin = before.rfind('\n').map_or(0, |end| end + 1);
    before[begin..].trim_start().starts_with('[')
}

fn walk<'t>(text: &str, table: &'t DeTable<'t>, path: &mut Vec<&'t str>, findings: &mut Findings) {
    for (key, value) in table {
        let tables = tables(value.get_ref());
        if tables.is_empty() {
            continue;
        }
        let (span, is_list) = (key.span(), matches!(value.get_ref(), DeValue::Array(_)));
        path.push(key.get_ref());
        match SECTIONS.iter().find(|section| section.path == path) {
            Some(section) if section.many != is_list => {
                findings.error(span, brackets(section));
            }
            Some(_) => tables.into_iter().for_each(|table| walk(text, table, path, findings)),
            None if !is_in_header(text, span.start) => {}
            None => findings.error(span, unknown(path, is_list)),
        }
        path.pop();
    }
}

fn brackets(section: &Section) -> String {
    let (name, header) = (section.path.join("."), section.header());
    match section.many {
        true => format!(
            "[{name}] must be {header}, in double brackets, since there can be several; write {header}"
        ),
        false => format!(
            "[[{name}]] must be {header}, in single brackets, since there can be only one; write {header}"
        ),
    }
}

/// Message about a section that does not exist.
fn unknown(path: &[&str], is_list: bool) -> String {
    let name = path.join(".");
    let written = if is_list { format!("[[{name}]]") } else { format!("[{name}]") };
    let last = path.last().copied().unwrap_or_default();
    // One of another place by its name comes before one by nearly its name.
    let elsewhere: Vec<_> =
        SECTIONS.iter().filter(|section| section.path.last() == Some(&last)).map(Section::header).collect();
    let near = SECTIONS.iter().filter_map(|section| {
        let same_depth = section.path.len() == path.len();
        let apart = distance(&name, &section.path.join("."))?;
        same_depth.then(|| (apart, section.header()))
    });
    let near = near.min_by_key(|(apart, _)| *apart).map(|(_, header)| header);
    match (near, elsewhere.as_slice()) {
        (Some(header), []) => format!("{written} is not a section; did you mean {header}?"),
        (None, []) => {
            let all: Vec<_> = SECTIONS.iter().map(Section::header).collect();
            format!("{written} is not a section; use one of {}", all.join(", "))
        }
        (_, headers) => {
            format!(
                "{written} is not a section; did you mean {}? Write it below the section that it belongs to",
                headers.join(" or ")
            )
        }
    }
}

/// Distance of two names, if that is a slip: about a letter in three.
fn distance(one: &str, other: &str) -> Option<usize> {
    let apart = strsim::osa_distance(one, other);
    (apart > 0 && 3 * apart <= one.len().max(other.len())).then_some(apart)
}

/// The one of the names that is meant by another, if that is a slip: about a letter in three.
pub fn suggest_key<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names
        .filter_map(|known| Some((distance(name, known)?, known)))
        .min_by_key(|(apart, _)| *apart)
        .map(|(_, known)| known)
}

/// The first line that says so, if the text is that of a key file. None of its digits is repeated.
fn key_file(text: &str) -> Option<Range<usize>> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let content = line.split('#').next().unwrap_or_default().trim();
        if !content.is_empty() {
            let name = content.split('=').next().unwrap_or_default().trim_end();
            let is_hexadecimal = content.len() >= 16
                && content.bytes().all(|c| c.is_ascii_hexdigit() || c.is_ascii_whitespace());
            let is_key = is_hexadecimal || matches!(name, "ckn" | "cak") || content.starts_with("-----BEGIN");
            return is_key.then_some(start..start + line.len());
        }
        start += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, validated};

    fn said(text: &str) -> Vec<String> {
        lines(&validated(text).unwrap_err())
    }

    #[test]
    fn slips_in_sections_are_told_with_what_to_type() {
        let gateway = "[gateway]\nname = \"a\"\n";
        for (text, words) in [
            (
                "[link]\nname = \"x\"",
                "3: [link] must be [[link]], in double brackets, since there can be several; write [[link]]",
            ),
            (
                "[link]\nname = \"x\"\n[link]\nname = \"y\"",
                "5: [link] must be [[link]], in double brackets, since there can be several; write [[link]]",
            ),
            ("[[links]]\nname = \"x\"", "3: [[links]] is not a section; did you mean [[link]]?"),
            ("[[Link]]\nname = \"x\"", "3: [[Link]] is not a section; did you mean [[link]]?"),
            (
                "[[link]]\n[[link.mka]]",
                "4: [[link.mka]] must be [link.mka], in single brackets, since there can be only one; write [link.mka]",
            ),
            (
                "[[link]]\n[link.static]\n[link.static.peer]",
                "5: [link.static.peer] must be [[link.static.peer]], in double brackets, since there can be several; write [[link.static.peer]]",
            ),
            (
                "[[link]]\n[[link.peer]]",
                "4: [[link.peer]] is not a section; did you mean [[link.static.peer]] or [[site.static.peer]] or [[site.peer]]? Write it below the section that it belongs to",
            ),
            (
                "[[link]]\n[mka]",
                "4: [mka] is not a section; did you mean [link.mka] or [site.mka]? Write it below the section that it belongs to",
            ),
            (
                "[[link]]\n[link.macsec]",
                "4: [link.macsec] is not a section; use one of [gateway], [fleet], [[link]], [link.static], [[link.static.peer]], [link.mka], [link.cover], [[site]], [site.mka], [site.static], [[site.static.peer]], [site.standby], [[site.peer]], [[site.peer.paths]], [site.limits], [[fieldbus]], [[fieldbus.relation]]",
            ),
        ] {
            assert_eq!(said(&format!("{gateway}{text}\n")), [format!("gw.toml:{words}")], "{text}");
        }
        assert_eq!(
            said("[[gateway]]\nname = \"a\"\n"),
            [
                "gw.toml:1: [[gateway]] must be [gateway], in single brackets, since there can be only one; write [gateway]"
            ]
        );
    }

    /// A table in braces is a value, and no section: it hides no other mistake.
    #[test]
    fn beside_a_table_in_braces_the_mistake_is_named() {
        let text = |line: &str| {
            format!(
                "[gateway]\nname = \"a\"\n[[fieldbus]]\nname = \"c\"\nprotect = \"encrypt\"\n\n[[fieldbus.relation]]\nprotocol = \"goose\"\nvlan = {{ vid = 5, priority = 4 }}\n{line}\n"
            )
        };
        for (line, words) in [
            (
                "watchdog = 10",
                "10: unknown key \"watchdog\" here: it belongs to [[fieldbus]]; remove it or use one of ",
            ),
            (
                "vlann = { vid = 5 }",
                "10: unknown key \"vlann\"; did you mean vlan? Else remove it or use one of ",
            ),
            ("vlann.vid = 5", "10: unknown key \"vlann\"; did you mean vlan? Else remove it or use one of "),
            ("cycle = = 1", "10: "),
        ] {
            let [said] = &said(&text(line))[..] else { panic!("{line}") };
            assert!(said.starts_with(&format!("gw.toml:{words}")), "{said}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_told_in_the_references_words() {
        let gateway = "[gateway]\nname = \"a\"\n[[link]]\n";
        for (line, words) in [
            ("replay_window = \"64\"", "replay_window takes integer, 0 to "),
            ("replay_protect = \"yes\"", "replay_protect takes true or false; correct this line"),
            (
                "replay_protect = \"true\"",
                "replay_protect takes true or false, without quotes; write replay_protect = true",
            ),
            ("replay_protect = 1", "replay_protect takes true or false; correct this line"),
            (
                "plain = 3",
                "plain takes text in quotes: name of an interface, 1 to 15 octets; correct this line",
            ),
            ("bypass = 3", "bypass takes list of "),
            (
                "[link.mka]\nfallback_until = \"2127-03-31\"",
                "fallback_until takes date, or date and time in UTC, without quotes; write fallback_until = 2127-03-31",
            ),
            (
                "[link.mka]\npriority = \"16\"",
                "priority takes integer, 0 to 255, without quotes; write priority = 16",
            ),
        ] {
            let [said] = &said(&format!("{gateway}{line}\n"))[..] else { panic!("{line}") };
            assert!(said.contains(&format!(": {words}")), "{said}");
            assert!(!said.contains("i64") && !said.contains("invalid type"), "{said}");
        }
    }

    #[test]
    fn a_key_that_is_a_letter_off_is_recognised() {
        for (line, words) in [
            (
                "plian = \"eth0\"",
                "4: unknown key \"plian\"; did you mean plain? Else remove it or use one of ",
            ),
            ("replay_windows = 3", "4: unknown key \"replay_windows\"; did you mean replay_window? Else "),
            ("colour = \"red\"", "4: unknown key \"colour\"; remove it or use one of name, "),
        ] {
            let [said] = &said(&format!("[gateway]\nname = \"a\"\n[[link]]\n{line}\n"))[..] else {
                panic!("{line}")
            };
            assert!(said.starts_with(&format!("gw.toml:{words}")), "{said}");
        }
    }

    #[test]
    fn a_key_file_is_recognised_and_not_repeated() {
        let digits = "000102030405060708090a0b0c0d0e0f";
        for text in [
            format!("{digits}\n"),
            format!("# made by frameward\n\n{digits} {digits}\n"),
            format!("# a CAK\nckn = 00\ncak = {digits}\n"),
            format!("cak = {digits}\nckn = 00\n"),
        ] {
            let [said] = &said(&text)[..] else { panic!("{text}") };
            assert!(
                said.contains(": this is a key file, not a configuration; name a configuration"),
                "{said}"
            );
            assert!(!said.contains("0001"), "{said}");
        }
    }
}
