//! The book's troubleshooting has a row for every finding of `doctor` that names a problem, and for every verdict of
//! `status`; and what it quotes is what the program says.
//!
//! A text of the sources is cut at its placeholders, and the book writes `...` for them.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/book/src/troubleshooting.md";

/// Texts of doctor's sources that are no finding, or a part of one that says that all is well.
const NO_FINDINGS: &[&str] = &[
    "waiting for the other box",
    "trying addresses and EtherTypes",
    "looking for the largest frame that crosses",
    "counting lost, duplicate and reordered frames",
    "start doctor there within",
    "site ...: ... (LAN)",
    "calling its peers",
    // Parts of lines.
    "neither fragment nor concatenate",
    "replay protection discards the copies",
    "with replay_protect = false, the machine gets them twice",
    "if a fragment is lost, the whole payload is lost",
    "it needs Linux 5.10",
    "one static key at both ends",
    "two CAK files have",
    "the CAK file has",
    "mode 0600 or less",
    "...: ... of ... frames were overtaken, by up to ...",
    "since they were cleared",
    "... ... since the start: ...",
    ", round trip ... us",
    "probes took ... to ... us, for frameward plan",
    "MACsec frames (EtherType 0x88E5)",
    "LLDP and PTP peer delay",
    "the other box's own address",
    "the doctor of the box with SCI ... is heard",
    "MKPDUs of this link come from ...",
    // All is well.
    "...: ... frames sent protected; ...: ... received and verified",
    "of the peers that are there, since each came",
    "crosses, to its own address",
    "other members were not looked for",
    "of several peers, this one was met first",
    "and has the master key",
    "and both keys fit (its fingerprint ...)",
    "carries ... octets of UDP payload: LAN frames up to",
    // Not for people.
    "frameward doctor mac 1",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources below a folder, without tests.
fn sources(folder: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs") {
            texts.push(fs::read_to_string(&path).unwrap());
        }
    }
    texts
}

/// The string literals of a source, each with the names of the calls around it. Placeholders become `...`.
fn literals(source: &str) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let (mut calls, mut name) = (Vec::new(), String::new());
    let mut rest = source;
    while let Some(character) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        }
        // Characters that would look like the beginning of a string, or like a parenthesis.
        if let Some(behind) =
            ["'\"'", "'\\\"'", "'('", "')'"].iter().find_map(|quoted| rest.strip_prefix(quoted))
        {
            rest = behind;
            continue;
        }
        rest = &rest[character.len_utf8()..];
        match character {
            '"' => {
                let (text, behind) = literal(rest);
                found.push((calls.clone(), text));
                rest = behind;
            }
            '(' => calls.push(std::mem::take(&mut name)),
            ')' => drop(calls.pop()),
            _ if character.is_alphanumeric() || "_:!".contains(character) => name.push(character),
            _ => name.clear(),
        }
    }
    found
}

/// A literal behind its first quotation mark, and what stands behind it.
fn literal(rest: &str) -> (String, &str) {
    let mut text = String::new();
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (text, &rest[at + 1..]),
            '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
            '{' => {
                characters.by_ref().find(|(_, character)| *character == '}');
                text.push_str("...");
            }
            _ => text.push(character),
        }
    }
    panic!("a string without an end: {text}");
}

/// Whether the parts of a phrase, between its `...`, come in this order in a text.
fn says(text: &str, phrase: &str) -> bool {
    let mut rest = text;
    phrase.split("...").map(str::trim).filter(|part| !part.is_empty()).all(|part| {
        match rest.split_once(part) {
            Some((_, behind)) => {
                rest = behind;
                true
            }
            None => false,
        }
    })
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Phrases between backticks in the first column of the page's tables.
fn phrases(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let first = rows.filter_map(|row| row[2..].split(" | ").next());
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_finding_has_its_row() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let phrases: Vec<_> = phrases(&page).into_iter().filter(|phrase| words(phrase) > 1).collect();
    let (mut findings, mut missing) = (0, Vec::new());
    for source in sources(&root().join("crates/diagnosis/src/doctor")) {
        for (calls, text) in literals(&source) {
            let fine = calls.iter().any(|call| call == "Finding::ok" || call.ends_with("expect"));
            // Placeholders alone say nothing; what goes into them is a literal of its own.
            let no_words = !text.replace("...", "").contains(char::is_alphabetic);
            if fine || no_words || words(&text) < 4 || NO_FINDINGS.iter().any(|other| says(&text, other)) {
                continue;
            }
            findings += 1;
            if !phrases.iter().any(|phrase| says(&text, phrase)) {
                missing.push(text);
            }
        }
    }
    assert!(
        missing.is_empty(),
        "{PAGE} has no row for what doctor says (what is no finding belongs in NO_FINDINGS):\n{}",
        missing.join("\n")
    );
    assert!(findings > 80, "only {findings} findings were found: the sources are read wrongly");
}

#[test]
fn every_state_has_its_row() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let phrases = phrases(&page);
    let source = fs::read_to_string(root().join("crates/report/src/verdict.rs")).unwrap();
    let states: Vec<_> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => \"")?.1.strip_suffix("\","))
        .filter(|state| state.chars().any(char::is_lowercase) && *state != "protecting")
        .collect();
    assert!(states.len() > 20, "only {} states were found: {states:?}", states.len());
    for state in states {
        assert!(phrases.contains(&state), "{PAGE} has no row for the verdict {state}");
    }
}

#[test]
fn what_the_page_quotes_is_what_the_program_says() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let texts: Vec<_> = ["config", "report", "diagnosis", "control", "frameward", "sitelink", "netdev"]
        .iter()
        .flat_map(|name| sources(&root().join("crates").join(name).join("src")))
        .flat_map(|source| literals(&source))
        .map(|(_, text)| text)
        .collect();
    for phrase in phrases(&page).into_iter().filter(|phrase| words(phrase) > 2) {
        assert!(texts.iter().any(|text| says(text, phrase)), "{PAGE} quotes {phrase:?}, and nothing says so");
    }
}
