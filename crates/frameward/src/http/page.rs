//! The status page: one document, made at the start out of three files, so that it loads nothing.
//!
//! Its script and style stand inline and are allowed by their digests: what an attacker might get into the page is not.
//! The script fetches `/status` every second; the meanings of the counters are in the page, from the one table.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use wire::Counter;

use report::table;

const HTML: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The page, and what it may load and run.
pub(super) struct Page {
    pub(super) html: Bytes,
    pub(super) policy: HeaderValue,
}

impl Page {
    pub(super) fn new() -> Self {
        let html = HTML
            .replacen("/* page.css */", STYLE, 1)
            .replacen("/* counters */", &counters(), 1)
            .replacen("/* page.js */", SCRIPT, 1);
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            digest(SCRIPT),
            digest(STYLE)
        );
        let policy = HeaderValue::from_str(&policy).expect("invariant: digests are printable");
        Self { html: html.into(), policy }
    }
}

/// The source expression that allows an inline script or style.
fn digest(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)))
}

/// The tables of counters for the script, by the part that counts. `<` could end the element that they stand in.
fn counters() -> String {
    let rows = |rows: &mut dyn Iterator<Item = &'static Counter>| {
        let row =
            |row: &Counter| (row.name.to_owned(), json!({ "meaning": row.meaning, "discard": row.discard }));
        Value::Object(rows.map(row).collect::<Map<_, _>>())
    };
    let mut tables = Map::new();
    tables.insert("link".to_owned(), rows(&mut table::counters()));
    for group in table::Group::ALL {
        tables.insert(group.object().to_owned(), rows(&mut group.table().iter()));
    }
    Value::Object(tables).to_string().replace('<', "\\u003c")
}
