//! The command line of the laboratory: reads arguments, calls the library, prints, and says by its exit status how it went.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use dataplane::open::Io;
use perf::bench::fieldbus::{self, FieldbusTable};
use perf::bench::fleet;
use perf::bench::forwarder;
use perf::bench::precompute::{Device, Measured as Rows, PrecomputeTable};
use perf::bench::suites::{self, SuitesTable};
use perf::bench::table::Table;
use perf::bench::{Bench, Effort};
use perf::demo;
use perf::evidence::document::Document;
use perf::evidence::page;
use perf::evidence::plan::{self, Extent};
use perf::evidence::run::{Choice, Run};
use perf::evidence::store::Store;
use perf::plot;
use perf::programs::Programs;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use arguments::{Arguments, Command, Demo, Evidence, EvidenceRun, FleetAgents, Measured, PortKind};

mod arguments;

/// Exit of a command that did not succeed; the fault has been told.
enum Failure {
    /// Exit status 1.
    Failed,
    /// Exit status 2.
    Usage,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Demo { what } => demo(what),
        Command::Bench { what: Measured::Precompute, judge: true, rows, .. } => check_precompute(&rows),
        Command::Bench { judge: true, .. } => {
            Err(report_failure(&"bench: --judge is for `precompute`; omit it", Failure::Usage))
        }
        Command::Bench { what, quick, json, only, agents, rows, .. } => {
            bench(what, quick, json, (&only, agents), &rows)
        }
        Command::FleetAgents(asked) => fleet_agents(&asked),
        Command::BareForwarder { io, records } => bare_forwarder(io, &records),
        Command::Evidence(Evidence::Run(run)) => evidence_run(&run),
        Command::Evidence(Evidence::Page { evidence, page }) => evidence_page(&evidence, &page),
        Command::Plot { answer, svg } => plot_answer(&answer, &svg),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed) => ExitCode::from(1),
        Err(Failure::Usage) => ExitCode::from(2),
    }
}

fn demo(what: Demo) -> Result<(), Failure> {
    let failed = |error: &dyn Display| report_failure(&format_args!("demo: {error}"), Failure::Failed);
    let Programs { frameward, .. } = Programs::beside_this_one().map_err(|error| failed(&error))?;
    abandon_when_interrupted().map_err(|error| failed(&error))?;
    let mut broken = Ok(());
    let say: &mut dyn FnMut(&dyn Display) = &mut |line| {
        let printed = print(&format_args!("{line}\n"));
        if broken.is_ok() {
            broken = printed;
        }
    };
    let shown = match what {
        Demo::Link => demo::link(&frameward, say),
        Demo::Tunnel => demo::tunnel(&frameward, say),
        Demo::Fieldbus => demo::fieldbus(&frameward, say),
    };
    shown.map_err(|error| failed(&error)).and(broken)
}

/// From now on a signal removes what the laboratory has made, and ends the program.
fn abandon_when_interrupted() -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            demo::abandon();
            std::process::exit(1);
        }
    });
    Ok(())
}

fn bench(
    what: Measured,
    quick: bool,
    json: bool,
    (only, agents): (&[String], Vec<u32>),
    rows: &Path,
) -> Result<(), Failure> {
    if !only.is_empty() && !matches!(what, Measured::Link | Measured::Overload | Measured::Tunnel) {
        return Err(report_failure(
            &"bench: --only works with `link`, `overload` and `tunnel`; omit it",
            Failure::Usage,
        ));
    }
    if !agents.is_empty() && !matches!(what, Measured::Fleet) {
        return Err(report_failure(&"bench: --agents is for `fleet`; omit it", Failure::Usage));
    }
    let measure: fn(&mut Bench<'_>) -> _ = match what {
        Measured::Suites => return bench_suites(quick, json),
        Measured::Fleet => return bench_fleet(quick, json, agents),
        Measured::Fieldbus => return bench_fieldbus(quick, json),
        Measured::Precompute => return bench_precompute(quick, json, rows),
        Measured::Antedate => |bench| bench.antedate(),
        Measured::Fragment => |bench| bench.fragment(),
        Measured::Link => |bench| bench.link(),
        Measured::Overload => |bench| bench.overload(),
        Measured::Tunnel => |bench| bench.tunnel(),
    };
    let failed = |error: &dyn Display| report_failure(&format_args!("bench: {error}"), Failure::Failed);
    let programs = Programs::beside_this_one().map_err(|error| failed(&error))?;
    abandon_when_interrupted().map_err(|error| failed(&error))?;
    let (mut rows, mut printed) = (Vec::new(), Ok(()));
    let mut bench = Bench {
        programs: &programs,
        effort: if quick { Effort::QUICK } else { Effort::FULL },
        only,
        progress: &mut |line| tell(&format_args!("bench: {line}")),
        // A row is printed at once: what was measured before an interruption is kept.
        figure: &mut |row| {
            if json && printed.is_ok() {
                printed = print(&format_args!("{}\n", row.line()));
            }
            rows.push(row);
        },
    };
    measure(&mut bench).map_err(|error| failed(&error))?;
    if json { printed } else { print(&Table(&rows)) }
}

fn bare_forwarder(io: PortKind, records: &Path) -> Result<(), Failure> {
    let ran = match io {
        PortKind::AfXdp => forwarder::run(Io::AfXdp, records),
        PortKind::AfPacket => forwarder::run(Io::AfPacket, records),
        PortKind::Xdp => forwarder::redirect(records),
        PortKind::LinkA => forwarder::protect(0, false, records),
        PortKind::LinkB => forwarder::protect(1, false, records),
        PortKind::LinkAheadA => forwarder::protect(0, true, records),
        PortKind::LinkAheadB => forwarder::protect(1, true, records),
    };
    ran.map_err(|error| report_failure(&error, Failure::Failed))
}

fn bench_suites(quick: bool, json: bool) -> Result<(), Failure> {
    let effort = if quick { suites::Effort::QUICK } else { suites::Effort::FULL };
    let (mut figures, mut printed) = (Vec::new(), Ok(()));
    suites::measure(effort, &mut |line| tell(&format_args!("bench: {line}")), &mut |figure| {
        for row in figure.rows().iter().filter(|_| json) {
            if printed.is_ok() {
                printed = print(&format_args!("{}\n", row.line()));
            }
        }
        figures.push(figure);
    });
    if json { printed } else { print(&SuitesTable(&figures)) }
}

fn bench_fieldbus(quick: bool, json: bool) -> Result<(), Failure> {
    let effort = if quick { fieldbus::Effort::QUICK } else { fieldbus::Effort::FULL };
    let (mut figures, mut printed) = (Vec::new(), Ok(()));
    let measured =
        fieldbus::measure(effort, &mut |line| tell(&format_args!("bench: {line}")), &mut |figure| {
            for row in figure.rows().iter().filter(|_| json) {
                if printed.is_ok() {
                    printed = print(&format_args!("{}\n", row.line()));
                }
            }
            figures.push(figure);
        });
    let meanwhile =
        measured.map_err(|error| report_failure(&format_args!("bench: {error}"), Failure::Failed))?;
    for row in meanwhile.rows().iter().filter(|_| json) {
        printed = printed.and_then(|()| print(&format_args!("{}\n", row.line())));
    }
    if !json {
        printed = print(&FieldbusTable(&figures, &meanwhile));
    }
    printed.and_then(|()| bench_fieldbus_delay(quick, json))
}

fn bench_fieldbus_delay(quick: bool, json: bool) -> Result<(), Failure> {
    let failed = |error: &dyn Display| report_failure(&format_args!("bench: {error}"), Failure::Failed);
    if let Err(error) = lab::require_root() {
        tell(&format_args!("bench: the delay of gateways is not measured: {error}"));
        return Ok(());
    }
    let programs = Programs::beside_this_one().map_err(|error| failed(&error))?;
    abandon_when_interrupted().map_err(|error| failed(&error))?;
    let effort = if quick { fieldbus::end_to_end::QUICK } else { fieldbus::end_to_end::FULL };
    let mut progress = |line: &dyn Display| tell(&format_args!("bench: {line}"));
    let in_kernel = if quick { fieldbus::Effort::QUICK } else { fieldbus::Effort::FULL };
    let mut rows = fieldbus::in_kernel::measure(in_kernel, &mut progress).map_err(|error| failed(&error))?;
    let delays = fieldbus::end_to_end::measure(&programs, effort, &mut progress);
    rows.extend(delays.map_err(|error| failed(&error))?);
    if json {
        return rows.iter().try_for_each(|row| print(&format_args!("{}\n", row.line())));
    }
    print(&format_args!("\n{}", Table(&rows)))
}

fn bench_fleet(quick: bool, json: bool, agents: Vec<u32>) -> Result<(), Failure> {
    let failed = |error: &dyn Display| report_failure(&format_args!("bench: {error}"), Failure::Failed);
    let programs = Programs::beside_this_one().map_err(|error| failed(&error))?;
    abandon_when_interrupted().map_err(|error| failed(&error))?;
    let effort = if quick { fleet::Effort::quick() } else { fleet::Effort::full() };
    let effort = if agents.is_empty() { effort } else { fleet::Effort { agents, ..effort } };
    let (mut rows, mut printed) = (Vec::new(), Ok(()));
    let measured =
        fleet::measure(&programs, &effort, &mut |line| tell(&format_args!("bench: {line}")), &mut |row| {
            if json && printed.is_ok() {
                printed = print(&format_args!("{}\n", row.line()));
            }
            rows.push(row);
        });
    measured.map_err(|error| failed(&error))?;
    if json { printed } else { print(&Table(&rows)) }
}

fn fleet_agents(asked: &FleetAgents) -> Result<(), Failure> {
    let FleetAgents { directory, operator, place, first, count } = asked;
    let choice = fleet::agents::Choice::new(directory, operator, place, (*first, *count));
    let ran = choice.and_then(|choice| fleet::agents::run(&choice));
    ran.map_err(|error| report_failure(&error, Failure::Failed))
}

fn bench_precompute(quick: bool, json: bool, directory: &Path) -> Result<(), Failure> {
    let mut measured = Vec::new();
    for (device, file) in [(Device::CortexM4, "mcu.csv"), (Device::Software, "soft.csv")] {
        let file = directory.join(file);
        if !file.exists() {
            let script = if device == Device::CortexM4 { "mcu" } else { "soft" };
            tell(&format_args!("bench: no {}; scripts/precompute.sh {script} makes it", file.display()));
            continue;
        }
        let rows = Rows::read(device, &file);
        measured
            .push(rows.map_err(|error| report_failure(&format_args!("bench: {error}"), Failure::Failed))?);
    }
    tell(&"bench: round trips through gateways that antedate: frameward-lab bench antedate (root)");
    tell(&"bench: this host");
    measured.push(Rows::here(if quick { 51 } else { 501 }));
    if json {
        let figures = measured.iter().flat_map(Rows::figures);
        return figures.into_iter().try_for_each(|figure| print(&format_args!("{}\n", figure.line())));
    }
    print(&PrecomputeTable(&measured))
}

fn check_precompute(directory: &Path) -> Result<(), Failure> {
    let failed = |error: &dyn Display| report_failure(&format_args!("bench: {error}"), Failure::Failed);
    let rows = Rows::read(Device::CortexM4, &directory.join("mcu.csv")).map_err(|error| failed(&error))?;
    let judged = rows.check_targets();
    judged.missed.iter().for_each(|line| tell(&format_args!("bench: {line}")));
    match judged.missed.len() {
        0 => print(&format_args!("all {} targets on the Cortex-M4 are met\n", judged.met)),
        missed => {
            Err(failed(&format_args!("{missed} targets on the Cortex-M4 are missed, {} met", judged.met)))
        }
    }
}

fn evidence_run(asked: &EvidenceRun) -> Result<(), Failure> {
    let failed = |error: &dyn Display| report_failure(&format_args!("evidence: {error}"), Failure::Failed);
    let programs = Programs::beside_this_one().map_err(|error| failed(&error))?;
    abandon_when_interrupted().map_err(|error| failed(&error))?;
    let extent = if asked.quick { Extent::Quick } else { Extent::Full };
    let choice = Choice { benches: &asked.only, words: &asked.step };
    let steps = plan::steps(extent);
    choice
        .known_in(&steps)
        .map_err(|error| report_failure(&format_args!("evidence: {error}"), Failure::Usage))?;
    let store = Store::open(&asked.out).map_err(|error| failed(&error))?;
    let mut tell = |line: &dyn Display| tell(&format_args!("evidence: {line}"));
    let mut run =
        Run { programs: &programs, precompute: &asked.rows, extent, choice, store: &store, tell: &mut tell };
    for step in steps.iter().filter(|step| asked.fresh && run.wants(step)) {
        store.forget(&step.name).map_err(|error| failed(&error))?;
    }
    let document = run.go(&steps).map_err(|error| failed(&error))?;
    let json = serde_json::to_string_pretty(&document).map_err(|error| failed(&error))? + "\n";
    store.publish("evidence.json", &json).map_err(|error| failed(&error))?;
    let page = store.publish("index.html", &page::render(&document)).map_err(|error| failed(&error))?;
    tell(&format_args!("open it: {}", page.display()));
    Ok(())
}

fn evidence_page(evidence: &Path, page: &Path) -> Result<(), Failure> {
    let failed = |file: &Path, error: &dyn Display| {
        report_failure(&format_args!("evidence: {}: {error}", file.display()), Failure::Failed)
    };
    let text = fs::read_to_string(evidence).map_err(|error| failed(evidence, &error))?;
    let mut document: Document = serde_json::from_str(&text).map_err(|error| failed(evidence, &error))?;
    document.judge();
    let json = serde_json::to_string_pretty(&document).map_err(|error| failed(evidence, &error))? + "\n";
    if json != text {
        fs::write(evidence, json).map_err(|error| failed(evidence, &error))?;
    }
    fs::write(page, page::render(&document)).map_err(|error| failed(page, &error))
}

fn plot_answer(answer: &Path, svg: &Path) -> Result<(), Failure> {
    let failed = |file: &Path, error: &dyn Display| {
        report_failure(&format_args!("plot: {}: {error}", file.display()), Failure::Failed)
    };
    let text = fs::read_to_string(answer).map_err(|error| failed(answer, &error))?;
    let parsed = serde_json::from_str(&text).map_err(|error| {
        failed(answer, &format_args!("{error}; name an answer of `frameward plan --json`"))
    })?;
    plot::draw(&parsed, svg)
        .map_err(|error| failed(svg, &format_args!("{error}; name a file in a directory that exists")))
}

fn report_failure(error: &dyn Display, failure: Failure) -> Failure {
    tell(&format_args!("frameward-lab: {error}"));
    failure
}

/// Nobody is left to hear that standard error is closed.
fn tell(line: &dyn Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints to standard output. A reader that has seen enough, such as `head`, is no failure.
fn print(text: &dyn Display) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match write!(output, "{text}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(report_failure(
            &format_args!("cannot write to standard output: {error}; free its disk"),
            Failure::Failed,
        )),
        _ => Ok(()),
    }
}
