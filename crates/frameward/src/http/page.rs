//! The pages: each is one document, made at the start out of files, so that it loads nothing.
//!
//! | page | of | asks |
//! |---|---|---|
//! | [`Page::status`] | a gateway | `/status`; the meanings of the counters are in the page, from the one table |
//! | [`Page::cockpit`] | a fleet | `/api/` |
//!
//! Scripts and styles stand inline and are allowed by their digests: what an attacker might get into a page is not. What a script was
//! told it puts into the page as text, never as markup.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use wire::Counter;

use report::table;

const STATUS: &str = include_str!("page/page.html");
const STATUS_STYLE: &str = concat!(include_str!("page/common.css"), include_str!("page/page.css"));
const STATUS_SCRIPT: &str = concat!(include_str!("page/common.js"), include_str!("page/page.js"));

const COCKPIT: &str = include_str!("page/cockpit/cockpit.html");
const COCKPIT_STYLE: &str =
    concat!(include_str!("page/common.css"), include_str!("page/cockpit/cockpit.css"));
const COCKPIT_SCRIPT: &str = concat!(
    include_str!("page/common.js"),
    include_str!("page/cockpit/fleet.js"),
    include_str!("page/cockpit/table.js"),
    include_str!("page/cockpit/map.js"),
    include_str!("page/cockpit/actions.js"),
    include_str!("page/cockpit/views.js"),
    include_str!("page/cockpit/cockpit.js"),
);

/// A page, and what it may load and run.
#[derive(Debug)]
pub(crate) struct Page {
    /// The document.
    pub(crate) html: Bytes,
    /// Its `Content-Security-Policy`.
    pub(crate) policy: HeaderValue,
}

impl Page {
    /// The page of a running gateway.
    pub(crate) fn status() -> Self {
        Self::new(&STATUS.replacen("/* counters */", &counters(), 1), STATUS_STYLE, STATUS_SCRIPT)
    }

    /// The page of a fleet.
    pub(crate) fn cockpit() -> Self {
        Self::new(COCKPIT, COCKPIT_STYLE, COCKPIT_SCRIPT)
    }

    fn new(html: &str, style: &str, script: &str) -> Self {
        let html = html.replacen("/* style */", style, 1).replacen("/* script */", script, 1);
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            digest(script),
            digest(style)
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
