//! The command line of the evidence.
//!
//! ```text
//! evidence run [--quick] [--fresh] [--only BENCH]... [--step WORDS]...   measure what is not stored, write evidence.json
//!                                                                       and index.html
//! evidence page EVIDENCE.JSON INDEX.HTML                               draw the page anew
//! ```

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use evidence::document::Document;
use evidence::page;
use evidence::plan::{self, Extent};
use evidence::run::{Choice, Run};
use evidence::store::Store;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Measure Frameward beside its rivals, and draw what came out of it
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure everything that is not stored yet, and write evidence.json and index.html; root
    Run {
        /// Short rounds that tell whether everything runs
        #[arg(long)]
        quick: bool,
        /// Measure anew what is stored
        #[arg(long)]
        fresh: bool,
        /// Measure only this bench now, and take of the others what is stored; may be given several times
        #[arg(long, value_name = "BENCH")]
        only: Vec<String>,
        /// Measure only steps with these words in their names, such as a contestant's name or `round 1,`; may be given
        /// several times
        #[arg(long, value_name = "WORDS")]
        step: Vec<String>,
        /// Where steps, evidence.json and index.html stand
        #[arg(long, value_name = "DIRECTORY", default_value = "target/evidence")]
        out: PathBuf,
        /// The program that is measured
        #[arg(long, value_name = "FILE", default_value = "target/release/frameward")]
        frameward: PathBuf,
        /// Where scripts/precompute.sh has left its rows
        #[arg(long, value_name = "DIRECTORY", default_value = "target/precompute")]
        rows: PathBuf,
    },
    /// Draw the page of a run
    Page {
        /// The run's evidence.json
        evidence: PathBuf,
        /// The page
        page: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run { quick, fresh, only, step, out, frameward, rows } => {
            let extent = if quick { Extent::Quick } else { Extent::Full };
            run(extent, fresh, Choice { benches: &only, words: &step }, &out, &frameward, &rows)
        }
        Command::Page { evidence, page } => draw(&evidence, &page),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("evidence: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    extent: Extent,
    fresh: bool,
    choice: Choice<'_>,
    out: &Path,
    frameward: &Path,
    rows: &Path,
) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    abandon_when_interrupted().map_err(failed)?;
    let steps = plan::steps(extent);
    if let Some(unknown) =
        choice.benches.iter().find(|name| !steps.iter().any(|step| step.bench == name.as_str()))
    {
        let mut known: Vec<_> = steps.iter().map(|step| step.bench).collect();
        known.dedup();
        return Err(format!("there is no bench {unknown}; these are: {}", known.join(", ")));
    }
    if let Some(unknown) =
        choice.words.iter().find(|words| !steps.iter().any(|step| step.name.contains(words.as_str())))
    {
        let names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
        return Err(format!("no step has `{unknown}` in its name; these are: {}", names.join("; ")));
    }
    let store = Store::open(out).map_err(failed)?;
    let frameward = frameward.canonicalize().unwrap_or_else(|_| frameward.to_owned());
    let mut tell = |line: &dyn Display| eprintln!("evidence: {line}");
    let mut run =
        Run { frameward: &frameward, precompute: rows, extent, choice, store: &store, tell: &mut tell };
    for step in steps.iter().filter(|step| fresh && run.wants(step)) {
        store.forget(&step.name).map_err(failed)?;
    }
    let document = run.go(&steps).map_err(failed)?;
    let json = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())? + "\n";
    store.publish("evidence.json", &json).map_err(failed)?;
    let page = store.publish("index.html", &page::render(&document)).map_err(failed)?;
    tell(&format_args!("open it: {}", page.display()));
    Ok(())
}

fn draw(evidence: &Path, page: &Path) -> Result<(), String> {
    let text =
        std::fs::read_to_string(evidence).map_err(|error| format!("{}: {error}", evidence.display()))?;
    let document: Document =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", evidence.display()))?;
    let drawn = page::render(&document);
    std::fs::write(page, drawn).map_err(|error| format!("{}: {error}", page.display()))
}

/// From now on a signal removes what the laboratory has made, and ends the program. What is stored stays.
fn abandon_when_interrupted() -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            frameward::demo::abandon();
            std::process::exit(1);
        }
    });
    Ok(())
}
