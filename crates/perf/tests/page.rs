//! The page in a real browser: it opens from a file, asks nobody for anything, and every figure says what it is. About 20
//! seconds; root, for a network namespace. Pictures are left in `target/screenshots`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::Row;
use browser::Browser;
use lab::Namespace;
use perf::bench::suites;
use perf::demo::pair::Scratch;
use perf::evidence::document::{Document, Step};
use perf::evidence::outcome::Outcome;
use perf::evidence::{machine, page};

/// Texts that each figure has to have, and whether it draws or tells why it does not.
const FIGURES: &str = "[...document.querySelectorAll('figure')].map((figure) => ({
    id: figure.id,
    title: figure.querySelector('h3').innerText,
    told: ['.caption', '.units', '.source', '.command'].map((part) =>
        (figure.querySelector('figcaption ' + part) || {}).innerText || ''),
    drawings: figure.querySelectorAll('svg').length,
    letters: Math.min(...[...figure.querySelectorAll('svg')].filter((svg) => svg.getClientRects().length)
        .map((svg) => 14.5 / 1.24 * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)),
    tables: figure.querySelectorAll('table').length,
    gaps: figure.querySelectorAll('.gap').length,
}))";

/// A run of which only the cipher suites were measured, in one very short round: figures and gaps.
fn brief_run() -> Document {
    let mut rows = Vec::new();
    let effort = suites::Effort { rounds: 1, time: Duration::ZERO };
    suites::measure(effort, &mut |_| {}, &mut |figure| rows.extend(figure.rows()));
    // Enough for one of the targets.
    let rates = [("Frameward", 219_999.0), ("fastd", 100_000.0)];
    rows.extend(
        rates.map(|(who, rate)| Row::new("rivals", &format!("64-octet frames, {who}"), rate, "frames/s", 1)),
    );
    let step = |bench: &str, gap: Option<&str>| Step {
        bench: bench.into(),
        name: bench.into(),
        seconds: 1.0,
        gap: gap.map(String::from),
        quietness: None,
    };
    let steps = vec![step("suites", None), step("rivals", Some("a <program> is not installed"))];
    let outcome = Outcome { rows, ..Outcome::default() };
    Document::new(("quick", "none", &machine::now()), machine::here(), BTreeMap::new(), steps, outcome)
}

fn picture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots").join(name)
}

/// Opens the page of a run in a browser without a network, and looks at it on a telephone and on a desk.
fn look_at(document: &Document, name: &str) -> Vec<serde_json::Value> {
    let (scratch, namespace) = (Scratch::new().unwrap(), Namespace::new("page").unwrap());
    let file = scratch.path().join("index.html");
    fs::write(&file, page::render(document)).unwrap();
    let url = format!("file://{}", file.display());
    let mut browser = Browser::start(&namespace, scratch.path());
    browser.shape(1280, 900, "light");
    browser.open(&url);
    assert_eq!(browser.value("document.querySelector('h1').innerText"), "Evidence");
    // A figure just below its target is not rounded up to it.
    assert_eq!(
        browser.value("[...document.querySelectorAll('.tile')].map((tile) => [tile.querySelector('.figure').innerText, tile.querySelectorAll('svg').length])"),
        serde_json::json!([["2.19 times", 1]])
    );
    assert_eq!(browser.value("document.querySelectorAll('.tile .open').length"), 1);
    for (width, device) in [(360_u32, "phone"), (1280, "desk")] {
        for scheme in ["light", "dark"] {
            browser.shape(width, 900, scheme);
            browser.wait_for(&format!("innerWidth === {width}"));
            let wide = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(wide <= u64::from(width), "{wide} wide, of {width}");
            let smallest = browser.value(FIGURES);
            for figure in smallest.as_array().unwrap().iter().filter(|figure| figure["letters"].is_number()) {
                assert!(figure["letters"].as_f64().unwrap() > 9.0, "letters that nobody can read: {figure}");
            }
            browser.screenshot(&picture(&format!("evidence-{name}-{device}-{scheme}.png")));
        }
    }
    let text = browser.value("getComputedStyle(document.querySelector('svg text')).fill");
    browser.shape(1280, 900, "light");
    assert_ne!(
        browser.value("getComputedStyle(document.querySelector('svg text')).fill"),
        text,
        "dark is dark"
    );
    let shown = browser.value(FIGURES).as_array().unwrap().clone();
    for url in browser.requests() {
        assert!(url.starts_with("file://") || url.starts_with("data:"), "{url}");
    }
    assert_eq!(browser.requests().len(), 1, "the page alone: {:?}", browser.requests());
    assert_eq!(browser.complaints(), Vec::<String>::new());
    shown
}

fn check_figures(figures: &[serde_json::Value]) {
    assert!(figures.len() >= 40, "{}", figures.len());
    let mut ids = Vec::new();
    for figure in figures {
        let id = figure["id"].as_str().unwrap().to_owned();
        assert!(!id.is_empty() && !ids.contains(&id), "{figure}");
        assert_ne!(figure["title"], "", "{figure}");
        for told in figure["told"].as_array().unwrap() {
            assert_ne!(told, "", "{figure}");
        }
        let shows = ["drawings", "tables", "gaps"].iter().any(|part| figure[*part].as_u64().unwrap() > 0);
        assert!(shows, "neither drawn nor missed: {figure}");
        ids.push(id);
    }
}

#[test]
fn every_figure_says_what_it_is_and_what_is_missing_is_said() {
    let figures = look_at(&brief_run(), "brief");
    check_figures(&figures);
    let of = |id: &str| figures.iter().find(|figure| figure["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    // Measured: drawn, with its numbers beside it. Not measured: the gap alone.
    assert_eq!((&of("tii-table-4")["drawings"], &of("tii-table-4")["gaps"]), (&2.into(), &0.into()));
    let tcp = of("rivals-tcp--one-stream");
    assert_eq!((&tcp["drawings"], &tcp["gaps"]), (&0.into(), &1.into()));
    // The paper's figures are drawn without ours.
    assert_eq!(
        (&of("fieldbus-table-2")["drawings"], &of("fieldbus-table-2")["gaps"]),
        (&2.into(), &1.into())
    );
}
