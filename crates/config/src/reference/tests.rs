//! Whether the table says what parsing does.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::super::Finding;
use super::super::tests::{lines, validated};
use super::key::{Absent, Kind};
use super::{EXAMPLE, Key, SECTIONS, Section, manual, markdown, schema};

/// The lines of a block are padded to so many, so that a key more moves nothing.
const BLOCK: usize = 40;

/// A section of a configuration, and its keys with their values.
#[derive(Clone)]
struct Block {
    path: &'static [&'static str],
    keys: Vec<(String, String)>,
}

fn block(path: &'static [&'static str], keys: &[(&str, &str)]) -> Block {
    Block { path, keys: keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect() }
}

/// A configuration with every section, and those twice that have two sides.
fn base() -> Vec<Block> {
    let sci = |last| format!("\"02:00:00:00:00:{last}/1\"");
    let static_keys = |sci: &str, file| [("an", "0".to_owned()), ("sci", sci.to_owned()), ("key_file", file)];
    let own = |keys: &[(&str, String)], more: &[(&str, &str)]| -> Vec<(String, String)> {
        let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        keys.chain(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))).collect()
    };
    let salt = "\"00112233445566778899aabb\"";
    let plain = "\"198.51.100.8:4789\"";
    let [key, hub] = ["ab", "cd"].map(|octet| format!("\"{}\"", octet.repeat(32)));
    vec![
        block(&["gateway"], &[("name", "\"a\"")]),
        block(&["link"], &[("name", "\"cell\""), ("plain", "\"e0\""), ("protected", "\"e1\"")]),
        block(&["link", "mka"], &[("cak_file", "\"a.256\"")]),
        block(
            &["link"],
            &[
                ("name", "\"fixed\""),
                ("plain", "\"e2\""),
                ("protected", "\"e3\""),
                ("suite", "\"gcm-aes-128\""),
            ],
        ),
        Block { path: &["link", "static"], keys: own(&static_keys(&sci("01"), "\"d.key\"".into()), &[]) },
        Block {
            path: &["link", "static", "peer"],
            keys: own(&static_keys(&sci("02"), "\"e.key\"".into()), &[]),
        },
        block(
            &["link"],
            &[
                ("name", "\"xpn\""),
                ("plain", "\"e4\""),
                ("protected", "\"e5\""),
                ("suite", "\"gcm-aes-xpn-128\""),
            ],
        ),
        Block {
            path: &["link", "static"],
            keys: own(&static_keys(&sci("03"), "\"x.key\"".into()), &[("ssci", "1"), ("salt", salt)]),
        },
        Block {
            path: &["link", "static", "peer"],
            keys: own(&static_keys(&sci("04"), "\"y.key\"".into()), &[("ssci", "2"), ("salt", salt)]),
        },
        block(
            &["site"],
            &[("name", "\"s\""), ("lan", "\"e6\""), ("bind", "\"0.0.0.0:7787\""), ("identity", "\"h.key\"")],
        ),
        block(&["site", "limits"], &[]),
        block(&["site", "peer"], &[("name", "\"hidden\""), ("public_key", &key)]),
        block(&["site", "peer"], &[("name", "\"hub\""), ("public_key", &hub)]),
        block(
            &["site", "peer"],
            &[("name", "\"plain\""), ("mode", "\"plain\""), ("endpoint", plain), ("vni", "1")],
        ),
        block(
            &["site", "peer"],
            &[("name", "\"paths\""), ("public_key", &format!("\"{}\"", "2".repeat(64)))],
        ),
        block(&["site", "peer", "paths"], &[("endpoint", "\"198.51.100.3:7787\"")]),
        block(
            &["site"],
            &[
                ("name", "\"t\""),
                ("lan", "\"e9\""),
                ("bind", "\"0.0.0.0:7797\""),
                ("identity", "\"o.key\""),
                ("protect", "true"),
            ],
        ),
        block(&["site", "mka"], &[("cak_file", "\"l.256\"")]),
        block(&["site", "standby"], &[("peer", "\"dresden-2\"")]),
        block(&["site", "peer"], &[("name", "\"hidden\""), ("public_key", &key)]),
        block(
            &["site", "peer"],
            &[("name", "\"dresden-2\""), ("public_key", &format!("\"{}\"", "3".repeat(64)))],
        ),
        block(
            &["site"],
            &[
                ("name", "\"u\""),
                ("lan", "\"e10\""),
                ("bind", "\"0.0.0.0:7807\""),
                ("identity", "\"p.key\""),
                ("protect", "true"),
                ("suite", "\"gcm-aes-xpn-128\""),
            ],
        ),
        Block {
            path: &["site", "static"],
            keys: own(&static_keys(&sci("05"), "\"m.key\"".into()), &[("ssci", "1"), ("salt", salt)]),
        },
        Block {
            path: &["site", "static", "peer"],
            keys: own(&static_keys(&sci("06"), "\"n.key\"".into()), &[("ssci", "2"), ("salt", salt)]),
        },
        block(&["site", "peer"], &[("name", "\"hidden\""), ("public_key", &key)]),
        block(
            &["site", "peer"],
            &[("name", "\"dresden\""), ("public_key", &format!("\"{}\"", "3".repeat(64)))],
        ),
        block(
            &["site"],
            &[
                ("name", "\"v\""),
                ("lan", "\"e11\""),
                ("bind", "\"0.0.0.0:7817\""),
                ("identity", "\"q.key\""),
                ("protect", "true"),
                ("suite", "\"gcm-aes-128\""),
            ],
        ),
        Block { path: &["site", "static"], keys: own(&static_keys(&sci("0c"), "\"r.key\"".into()), &[]) },
        Block {
            path: &["site", "static", "peer"],
            keys: own(&static_keys(&sci("0b"), "\"s.key\"".into()), &[]),
        },
        block(&["site", "standby"], &[("peer", "\"dresden-2\""), ("sci", &sci("0b"))]),
        block(&["site", "peer"], &[("name", "\"hidden\""), ("public_key", &key)]),
        block(
            &["site", "peer"],
            &[("name", "\"dresden-2\""), ("public_key", &format!("\"{}\"", "3".repeat(64)))],
        ),
        block(
            &["fieldbus"],
            &[
                ("name", "\"c\""),
                ("rest", "\"cell\""),
                ("master_key_file", "\"i.key\""),
                ("local", "[\"02:00:00:00:01:01\"]"),
            ],
        ),
        block(&["fieldbus", "relation"], RELATION),
        block(
            &["fieldbus"],
            &[
                ("name", "\"d\""),
                ("rest", "\"drop\""),
                ("plain", "\"e7\""),
                ("protected", "\"e8\""),
                ("master_key_file", "\"j.key\""),
                ("local", "[\"02:00:00:00:01:01\"]"),
            ],
        ),
        block(&["fieldbus", "relation"], RELATION),
        block(&["link"], &[("name", "\"covered\""), ("plain", "\"e12\""), ("protected", "\"e13\"")]),
        block(&["link", "mka"], &[("cak_file", "\"b.256\"")]),
        block(&["link", "cover"], &[("rate", "1000"), ("size", "512")]),
        block(&["fleet"], &[("directory", "\"a.redb\""), ("operator", &key), ("identity", "\"i.key\"")]),
    ]
}

const RELATION: &[(&str, &str)] = &[
    ("stations", "[\"02:00:00:00:01:01\", \"02:00:00:00:02:01\"]"),
    ("frame_ids", "[0x8001, 0x8002]"),
    ("cycle", "\"1ms\""),
];

/// A key that needs another word at another place: its section, the key there, the value.
fn beside(section: &Section, key: &Key, blocks: &mut [Block]) {
    if (section.path, key.name) == (&["gateway"], "allow_experimental") {
        set(&mut blocks[3], "suite", "\"morus-640-128\"");
        set(&mut blocks[4], "key_file", "\"k.key\"");
    }
}

fn set(block: &mut Block, key: &str, value: &str) {
    block.keys.retain(|(name, _)| name != key);
    block.keys.push((key.to_owned(), value.to_owned()));
}

fn text(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        let section = SECTIONS.iter().find(|section| section.path == block.path).unwrap();
        let _ = writeln!(text, "{}", section.header());
        for (key, value) in &block.keys {
            let _ = writeln!(text, "{key} = {value}");
        }
        text.push_str(&"\n".repeat(BLOCK - block.keys.len()));
    }
    text
}

/// All that parsing makes of a text but for the text itself.
fn parsed(blocks: &[Block]) -> Result<String, Vec<Finding>> {
    validated(&text(blocks))
        .map(|(config, _)| format!("{:?} {:?} {:?}", config.gateway, config.links, config.sites))
}

/// The places of a section in the base.
fn places(section: &Section) -> Vec<usize> {
    let blocks = base();
    (0..blocks.len()).filter(|at| blocks[*at].path == section.path).collect()
}

/// Of a key's lines in the place: whether that parses, and what comes of it.
fn with(section: &Section, key: &Key, place: usize, lines: &str) -> Result<String, Vec<Finding>> {
    let mut blocks = base();
    beside(section, key, &mut blocks);
    for line in lines.lines() {
        let (name, value) = line.split_once(" = ").unwrap();
        set(&mut blocks[place], name, value);
    }
    parsed(&blocks)
}

/// The same without the key.
fn without(section: &Section, key: &Key, place: usize) -> Result<String, Vec<Finding>> {
    let mut blocks = base();
    beside(section, key, &mut blocks);
    blocks[place].keys.retain(|(name, _)| name != key.name);
    parsed(&blocks)
}

fn keys() -> impl Iterator<Item = (&'static Section, &'static Key)> {
    SECTIONS.iter().flat_map(|section| section.keys.iter().map(move |key| (section, key)))
}

#[test]
fn the_base_of_these_tests_and_the_example_of_the_pages_parse() {
    assert!(parsed(&base()).is_ok(), "{:?}", parsed(&base()).map_err(|errors| lines(&errors)));
    assert!(validated(EXAMPLE).is_ok());
}

#[test]
fn a_default_is_what_parsing_takes_when_the_key_is_absent() {
    for (section, key) in keys() {
        let Some(default) = key.absent.value() else { continue };
        let what = format!("{} {} = {default}", section.header(), key.name);
        let mut compared = 0;
        for place in places(section) {
            let line = format!("{} = {default}", key.name);
            let said = with(section, key, place, &line);
            // A word that this place does not take says nothing; one that it takes has to say the same.
            if let (Ok(absent), Ok(said)) = (without(section, key, place), &said) {
                assert_eq!(&absent, said, "{what}");
                compared += 1;
            } else if key.name == "allow_experimental" {
                assert!(without(section, key, place).is_err() && said.is_err(), "{what}");
                compared += 1;
            }
        }
        assert!(compared > 0, "{what}: not accepted anywhere");
        // The comparison would see another default.
        let seen = places(section).into_iter().any(|place| {
            let with = with(section, key, place, key.example);
            with.is_ok() && with.ok() != without(section, key, place).ok()
        });
        assert!(seen, "{what}: the example {:?} changes nothing", key.example);
    }
}

/// Whether parsing says that the key is missing in the place.
fn is_missed(section: &Section, key: &Key, place: usize) -> bool {
    let said = [format!("{} is missing", key.name), format!("has no {}", key.name)];
    let errors = without(section, key, place).err().unwrap_or_default();
    errors.iter().any(|error| said.iter().any(|said| error.text.contains(said.as_str())))
}

#[test]
fn what_is_needed_is_missed() {
    for (section, key) in keys() {
        let missed: Vec<_> =
            places(section).into_iter().map(|place| is_missed(section, key, place)).collect();
        let fits = match key.absent {
            Absent::Needed => !missed.contains(&false),
            Absent::NeededIf(_) => missed.contains(&true),
            _ => !missed.contains(&true),
        };
        assert!(fits, "{} {}: {missed:?}", section.header(), key.name);
    }
}

#[test]
fn every_example_parses_and_names_its_key() {
    for (section, key) in keys() {
        let what = format!("{} {}", section.header(), key.example);
        assert!(key.example.lines().last().unwrap().starts_with(&format!("{} = ", key.name)), "{what}");
        let results: Vec<_> =
            places(section).into_iter().map(|place| with(section, key, place, key.example)).collect();
        let errors: Vec<_> =
            results.iter().filter_map(|result| result.as_ref().err().map(|e| lines(e))).collect();
        assert!(results.iter().any(Result::is_ok), "{what}: {errors:?}");
    }
}

/// Whether a value of the key is taken somewhere: beside what its example needs, and no error is about the value itself.
fn takes(section: &Section, key: &Key, value: &str) -> bool {
    let needs: Vec<_> =
        key.example.lines().filter(|line| !line.starts_with(&format!("{} = ", key.name))).collect();
    let lines = format!("{}\n{} = {value}", needs.join("\n"), key.name);
    places(section).into_iter().any(|place| match with(section, key, place, lines.trim_start()) {
        Ok(_) => true,
        // Errors about other keys, or about several.
        Err(errors) => !errors.iter().any(|error| {
            let about = [" = ", " is ", ": ", " does not go "].map(|verb| format!("{}{verb}", key.name));
            about.iter().any(|about| error.text.contains(about.as_str()))
                && !error.text.contains("less than a second")
                && !error.text.contains("experimental")
                && !error.text.contains("protect = true does not go with")
                && !error.text.contains("paths do not go with")
                && !error.text.contains("cover does not go with")
        }),
    })
}

fn validate_kind(section: &Section, key: &Key, kind: &Kind) {
    let what = format!("{} {}", section.header(), key.name);
    match kind {
        Kind::Number { from, to } => {
            for number in [*from, *to] {
                assert!(takes(section, key, &number.to_string()), "{what} = {number} is refused");
            }
            for number in [from - 1, to + 1] {
                assert!(!takes(section, key, &number.to_string()), "{what} = {number} is taken");
            }
        }
        Kind::Numbers(numbers) => {
            for number in *numbers {
                assert!(takes(section, key, &number.to_string()), "{what} = {number} is refused");
            }
            for number in numbers.iter().flat_map(|number| [number - 1, number + 1]) {
                assert!(!takes(section, key, &number.to_string()), "{what} = {number} is taken");
            }
        }
        Kind::Word(word) => {
            assert!(takes(section, key, &format!("{word:?}")), "{what} = {word:?} is refused")
        }
        Kind::Choice(words) => {
            for word in words() {
                assert!(takes(section, key, &format!("{word:?}")), "{what} = {word:?} is refused");
            }
            assert!(!takes(section, key, "\"nonsense\""), "{what}: any word is taken");
        }
        Kind::Either(kinds) => kinds.iter().for_each(|kind| validate_kind(section, key, kind)),
        Kind::Table(keys) => {
            for inner in *keys {
                let Kind::Number { from, to } = inner.kind else { continue };
                let value = |number| format!("{{ {} = {number} }}", inner.name);
                assert!(takes(section, key, &value(from)) && takes(section, key, &value(to)), "{what}");
                assert!(
                    !takes(section, key, &value(from - 1)) && !takes(section, key, &value(to + 1)),
                    "{what}"
                );
            }
        }
        Kind::Time { units, from, to, off, .. } => {
            let (unit, length) = units[0];
            let written = |time: Duration| format!("\"{}{unit}\"", time.as_nanos() / length.as_nanos());
            let beyond = to.checked_add(length).into_iter().chain(from.checked_sub(length));
            for fits in [*from, *to].into_iter().filter(|time| *time != Duration::MAX) {
                assert!(takes(section, key, &written(fits)), "{what} = {} is refused", written(fits));
            }
            for beyond in beyond {
                assert!(!takes(section, key, &written(beyond)), "{what} = {} is taken", written(beyond));
            }
            assert_eq!(takes(section, key, "\"off\""), *off, "{what} = \"off\"");
        }
        Kind::Switch | Kind::Text { .. } | Kind::List { .. } | Kind::Share | Kind::Moment => {}
    }
}

#[test]
fn ranges_and_choices_are_those_of_parsing() {
    for (section, key) in keys() {
        validate_kind(section, key, &key.kind);
    }
}

/// Breaches of a schema by a value. A keyword that this does not know is a fault of the schema, or of this.
fn breaches(schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let number = |value: &Value| value.as_f64().unwrap();
    let list = value.as_array();
    for (keyword, rule) in schema.as_object().unwrap() {
        let breach = match keyword.as_str() {
            "$schema" | "title" | "description" | "default" => None,
            "type" => {
                let fits = match rule.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_i64(),
                    "number" => value.is_number(),
                    other => panic!("type {other}"),
                };
                (!fits).then(|| format!("{value} is no {rule}"))
            }
            "enum" => {
                (!rule.as_array().unwrap().contains(value)).then(|| format!("{value} is none of {rule}"))
            }
            "minimum" => {
                (value.is_number() && number(value) < number(rule)).then(|| format!("{value} < {rule}"))
            }
            "maximum" => {
                (value.is_number() && number(value) > number(rule)).then(|| format!("{value} > {rule}"))
            }
            "minItems" => {
                list.filter(|list| list.len() < number(rule) as usize).map(|_| format!("fewer than {rule}"))
            }
            "maxItems" => {
                list.filter(|list| list.len() > number(rule) as usize).map(|_| format!("more than {rule}"))
            }
            "pattern" => {
                let pattern = regex_lite::Regex::new(rule.as_str().unwrap()).unwrap();
                let other = value.as_str().filter(|text| !pattern.is_match(text));
                other.map(|text| format!("{text:?} is not {rule}"))
            }
            "required" => {
                let missing = |key: &&Value| value.is_object() && value.get(key.as_str().unwrap()).is_none();
                rule.as_array().unwrap().iter().find(missing).map(|key| format!("{key} is missing"))
            }
            "items" => {
                for (at, value) in list.into_iter().flatten().enumerate() {
                    breaches(rule, value, &format!("{place}[{at}]"), found);
                }
                None
            }
            "properties" => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = rule.get(key) {
                        breaches(schema, value, &format!("{place}.{key}"), found);
                    }
                }
                None
            }
            "additionalProperties" => {
                assert_eq!(rule, &Value::Bool(false));
                let mut keys = value.as_object().into_iter().flat_map(|table| table.keys());
                let unknown = keys.find(|key| schema["properties"].get(key.as_str()).is_none());
                unknown.map(|key| format!("{key} is unknown"))
            }
            "anyOf" => {
                let fits = rule.as_array().unwrap().iter().any(|rule| {
                    let mut found = Vec::new();
                    breaches(rule, value, place, &mut found);
                    found.is_empty()
                });
                (!fits).then(|| format!("{value} is none of {rule}"))
            }
            other => panic!("{place}: {other} is no keyword that this knows"),
        };
        found.extend(breach.map(|breach| format!("{place}: {breach}")));
    }
}

fn told_by_schema(text: &str) -> Vec<String> {
    let table: toml::Table = text.parse().unwrap();
    let schema: Value = serde_json::from_str(&schema()).unwrap();
    let mut found = Vec::new();
    breaches(&schema, &as_json(&toml::Value::Table(table)), "", &mut found);
    found
}

/// As an editor hands it on: dates are texts.
fn as_json(value: &toml::Value) -> Value {
    match value {
        toml::Value::Table(table) => table.iter().map(|(key, value)| (key.clone(), as_json(value))).collect(),
        toml::Value::Array(list) => list.iter().map(as_json).collect(),
        toml::Value::Datetime(moment) => Value::String(moment.to_string()),
        other => serde_json::to_value(other).unwrap(),
    }
}

#[test]
fn the_schema_takes_what_parsing_takes() {
    assert_eq!(told_by_schema(&text(&base())), Vec::<String>::new());
    for (section, key) in keys() {
        let default = key.absent.value().map(|value| format!("{} = {value}", key.name)).unwrap_or_default();
        for lines in [key.example, &default] {
            let mut blocks = base();
            let place = places(section)[0];
            for line in lines.lines() {
                let (name, value) = line.split_once(" = ").unwrap();
                set(&mut blocks[place], name, value);
            }
            assert_eq!(told_by_schema(&text(&blocks)), Vec::<String>::new(), "{lines}");
        }
    }
}

#[test]
fn the_schema_takes_the_configurations_of_readme_and_package() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts: Vec<String> = Vec::new();
    for folder in ["packaging", "packaging/examples"] {
        let Ok(files) = std::fs::read_dir(top.join(folder)) else { continue };
        let files = files
            .map(|file| file.unwrap().path())
            .filter(|file| file.extension().is_some_and(|e| e == "toml"));
        texts.extend(files.map(|file| std::fs::read_to_string(file).unwrap()));
    }
    assert!(texts.len() >= 2, "packaging has examples");
    let chapters = std::fs::read_dir(top.join("docs/book/src")).unwrap().map(|file| file.unwrap().path());
    for document in chapters.chain([top.join("README.md")]) {
        let text = std::fs::read_to_string(document).unwrap();
        let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
        texts.extend(blocks.filter(|text| text.contains("[gateway]")));
    }
    assert!(texts.len() >= 9, "README.md and the book have configurations: {}", texts.len());
    for text in texts {
        assert_eq!(told_by_schema(&text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn the_schema_refuses_slips() {
    let slips: [(&[&str], &str, &str); 7] = [
        (&["gateway"], "plain", "\"eth0\""),
        (&["gateway"], "io", "\"xdp\""),
        (&["link"], "replay_window", "1048577"),
        (&["link"], "mtu", "\"large\""),
        (&["link"], "encrypt", "\"yes\""),
        (&["link", "mka"], "sci", "\"02:00:00:00:00:01\""),
        (&["fieldbus", "relation"], "frame_ids", "[1, 2, 3]"),
    ];
    for (path, key, value) in slips {
        let mut blocks = base();
        let place = blocks.iter().position(|block| block.path == path).unwrap();
        set(&mut blocks[place], key, value);
        assert_ne!(told_by_schema(&text(&blocks)), Vec::<String>::new(), "{path:?} {key} = {value}");
    }
    assert_eq!(
        told_by_schema("[[link]]\nname = \"a\"\nplain = \"b\"\nprotected = \"c\"\n"),
        [": \"gateway\" is missing"]
    );
}

/// The page of the book.
const PAGE: &str = "docs/book/src/configuration.md";

#[test]
fn the_page_of_the_book_is_the_one_that_is_printed() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let committed = std::fs::read_to_string(committed).unwrap_or_default();
    assert!(committed == markdown(), "{PAGE} is another one: frameward schema --format markdown >{PAGE}");
}

#[test]
fn no_line_of_the_manual_is_taken_for_a_request() {
    const REQUESTS: [&str; 11] = [".TH", ".SH", ".TP", ".PP", ".RS", ".RE", ".EX", ".EE", ".BR", ".br", ".I"];
    let page = manual();
    for line in page.lines() {
        let request = line.split(' ').next().unwrap_or_default();
        assert!(!line.starts_with(['.', '\'']) || REQUESTS.contains(&request), "{line}");
        assert!(!line.is_empty(), "an empty line is a request, too");
    }
    for (section, key) in keys() {
        assert!(page.contains(&format!(".TP\n\\fB{}\\fR\n", key.name)), "{} {}", section.header(), key.name);
    }
}
