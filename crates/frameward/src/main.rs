//! The command line: reads arguments, calls the library, prints, and says by its exit status how it went.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use clap_complete::{Shell, generate, generate_to};

use config::check::{Plan, access, interface_mtu, own};
use config::lifetime::interface_mbits;
use config::suite_speed;
use config::{Config, Finding, reference};
use frameward::membership;
use frameward::privilege::{self, RunAs};
use frameward::run;
use frameward::status::{self, Detail, Found, StatusText};
use report::control_socket::client::Rekeyed;
use report::control_socket::{Outcome, client};

use arguments::{Arguments, Command, ReferenceFormat};

mod arguments;
mod gateway_start;

/// End of a command that did not succeed; the error has been printed.
enum Failure {
    /// Exit status 1.
    Failed,
    /// Exit status 2.
    Usage,
    /// Exit status 3: what was asked could not be judged here and now.
    Undecided,
    /// Exit status 4: a plan that was asked for would change something.
    Changes,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run { user, keep_user, config } => {
            gateway_start::run_gateway(&config, &run_as(user, keep_user))
        }
        Command::Check { offline, verbose, config } => check(&config, offline, verbose),
        Command::Status { clear: true, name, .. } => clear_counters(name.as_deref()),
        Command::Status { watch: true, name, .. } => watch_status(name.as_deref()),
        Command::Status { json: true, name, .. } => show_document(name.as_deref()),
        Command::Status { all, verbose, name, .. } => show_status(all, verbose, name.as_deref()),
        Command::Doctor(doctor) => doctor.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Plan(plan) => plan.run(),
        Command::Cell(cell) => cell.run(),
        Command::Reload { dry_run, name } => reload_gateway(name.as_deref(), dry_run),
        Command::Rekey { name, link } => rekey(&name, link.as_deref()),
        Command::Upgrade { wait, name } => upgrade(name.as_deref(), Duration::from_secs(wait.into())),
        Command::GoOn { config } => go_on(&config),
        Command::HandOver { name, site } => hand_over(&name, site.as_deref()),
        Command::Schema { format } => print(&match format {
            ReferenceFormat::Json => reference::schema(),
            ReferenceFormat::Man => reference::manual(),
            ReferenceFormat::Markdown => reference::markdown(),
        }),
        Command::Help { command } => help(&command),
        Command::Version => print(&format_args!("frameward {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Completions { shell } => completions(shell),
        Command::Manual { directory } => write_manual(&directory),
        Command::Init(init) => init.run(),
        Command::Fleet(fleet) => fleet.run(),
        Command::Keygen(keygen) => keygen.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed) => ExitCode::from(1),
        Err(Failure::Usage) => ExitCode::from(2),
        Err(Failure::Undecided) => ExitCode::from(3),
        Err(Failure::Changes) => ExitCode::from(4),
    }
}

fn run_as(user: Option<String>, keep_user: bool) -> RunAs {
    match user {
        Some(user) => RunAs::User(user),
        None if keep_user => RunAs::Starter,
        None => RunAs::Default,
    }
}

fn load(file: &Path) -> Result<Config, Failure> {
    privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
    let (config, warnings) = config::load(file).map_err(|errors| {
        tell_all("", &errors);
        Failure::Usage
    })?;
    tell_all("warning: ", &warnings);
    Ok(config)
}

/// Returns the path of the fleet's configuration that this one leads to; none if it has no `[fleet]`.
fn of_fleet(config: &Config) -> Result<Option<PathBuf>, Failure> {
    membership::configuration(config).map_err(|errors| {
        tell_all("", &errors);
        Failure::Usage
    })
}

fn check(file: &Path, offline: bool, verbose: bool) -> Result<(), Failure> {
    let config = load(file)?;
    let of_fleet = of_fleet(&config)?;
    if let Some(configuration) = of_fleet {
        let path = configuration.display();
        return print(&match configuration.exists() {
            true => {
                format!("links and sites come from the fleet; look at them with: frameward check {path}\n")
            }
            false => format!(
                "links and sites come from the fleet, which has sent none yet; they will stand in {path}\n"
            ),
        });
    }
    let plan = Plan::new(&config, if offline { None } else { Some(&interface_mtu) }).map_err(|errors| {
        tell_all("", &errors);
        Failure::Failed
    })?;
    tell_all("warning: ", &plan.not_carried());
    let misused = if offline { Vec::new() } else { plan.misused_keys() };
    if !misused.is_empty() {
        tell_all("", &misused);
        return Err(Failure::Usage);
    }
    // Without its interfaces this is not the gateway's machine, and its CPU says nothing.
    if offline {
        return print(&plan);
    }
    let (refused, allowed) = own::lives(&config);
    tell_all("WARNING: ", &allowed);
    if !refused.is_empty() {
        tell_all("", &refused);
        return Err(Failure::Failed);
    }
    if let Some(access) = access::of_gateway_user(&config) {
        tell_all(&format!("WARNING: user {} cannot start this gateway: ", access.user), &access.refused);
    }
    let (io, programs) = (config.gateway.io, run::load_programs(&config));
    let plan = plan.with_workers().with_guard();
    let plan = plan.with_cell_places(&|cell, mtu| run::planned_cell_place(io, &programs, cell, mtu));
    let plan = plan.with_link_places(&|link, mtus| run::planned_link_place(io, &programs, link, mtus));
    let plan = if verbose { plan.with_speeds(suite_speed::measure()).with_antedating() } else { plan };
    print(&plan.with_line_rates(&interface_mbits))
}

fn find(directory: &Path, name: Option<&str>) -> Result<Found, Failure> {
    status::find(directory, name).map_err(|error| match error {
        status::StatusError::BadName(_) => told(&error, Failure::Usage),
        _ => told(&error, Failure::Failed),
    })
}

fn watch_status(name: Option<&str>) -> Result<(), Failure> {
    let directory = report::runtime_dir();
    let found = find(&directory, name)?;
    status::watch(&directory, &found)
        .map_err(|error| told(&format_args!("cannot use this terminal: {error}"), Failure::Failed))
}

fn show_document(name: Option<&str>) -> Result<(), Failure> {
    let directory = report::runtime_dir();
    let found = find(&directory, name)?;
    let name = &found.gateway;
    let document = report::ask(&directory, name).map_err(|error| told(&error, Failure::Failed))?;
    match report::parse(name, &document) {
        Ok(mut report) => {
            found.narrow(&mut report);
            print(&report.document())
        }
        // Another release's, as it is.
        Err(_) if found.part.is_none() => print(&format_args!("{document}\n")),
        Err(error) => Err(told(&error, Failure::Failed)),
    }
}

fn show_status(all: bool, verbose: bool, name: Option<&str>) -> Result<(), Failure> {
    let directory = report::runtime_dir();
    let found = find(&directory, name)?;
    let name = &found.gateway;
    let document = report::ask(&directory, name).map_err(|error| told(&error, Failure::Failed))?;
    let mut report = report::parse(name, &document).map_err(|error| told(&error, Failure::Failed))?;
    found.narrow(&mut report);
    let detail = if all { Detail::All } else { Detail::NonZero };
    print(&StatusText { report: &report, detail, verbose })
}

fn clear_counters(name: Option<&str>) -> Result<(), Failure> {
    let directory = report::runtime_dir();
    let gateway = find(&directory, name)?.gateway;
    client::clear(&directory, &gateway).map_err(|error| told(&error, Failure::Failed))?;
    print(&format_args!("gateway {gateway}: counters are cleared\n"))
}

fn reload_gateway(name: Option<&str>, dry_run: bool) -> Result<(), Failure> {
    let directory = report::runtime_dir();
    let gateway = find(&directory, name)?.gateway;
    let outcome = client::reload(&directory, &gateway, dry_run);
    let Outcome { done, lines } = outcome.map_err(|error| told(&error, Failure::Failed))?;
    if done {
        lines.iter().try_for_each(|line| print(&format_args!("{line}\n")))
    } else {
        lines.iter().for_each(|line| tell(line));
        Err(Failure::Usage)
    }
}

fn rekey(name: &str, link: Option<&str>) -> Result<(), Failure> {
    let directory = report::runtime_dir();
    let found = find(&directory, Some(name))?;
    let failed = |error| told(&error, Failure::Failed);
    let link = match link.or(found.part.as_deref()) {
        Some(link) => link.to_owned(),
        None => client::only_link(&directory, &found.gateway).map_err(failed)?,
    };
    match client::rekey(&directory, &found.gateway, &link).map_err(failed)? {
        Rekeyed::Sak(ki) => print(&format_args!("link {link:?}: SAK {ki} protects\n")),
        Rekeyed::Sessions(1) => print(&format_args!("fieldbus {link:?}: 1 relation has a new session\n")),
        Rekeyed::Sessions(all) => {
            print(&format_args!("fieldbus {link:?}: {all} relations have new sessions\n"))
        }
    }
}

fn upgrade(name: Option<&str>, patience: Duration) -> Result<(), Failure> {
    let directory = report::runtime_dir();
    let gateway = find(&directory, name)?.gateway;
    let since = Instant::now();
    let upgraded = loop {
        let tell = |line| drop(print(&format_args!("{line}\n")));
        match client::upgrade(&directory, &gateway, tell) {
            Err(error) if error.ends_by_itself() && since.elapsed() < patience => {
                std::thread::sleep(Duration::from_secs(1));
            }
            upgraded => break upgraded,
        }
    };
    let (version, waited) = upgraded.map_err(|error| told(&error, Failure::Failed))?;
    print(&format_args!("gateway {gateway}: version {version} runs; frames waited {waited} ms\n"))
}

/// Judges what a running gateway would pass on to this program.
fn go_on(file: &Path) -> Result<(), Failure> {
    // Its starter has them blocked.
    run::unblock_signals();
    // A file system that is silent, say: nobody waits that long, and its starter may not be able to end it.
    let end = || {
        std::thread::sleep(run::JUDGING);
        std::process::exit(1)
    };
    std::thread::Builder::new()
        .spawn(end)
        .map_err(|error| told(&format_args!("cannot start a thread: {error}"), Failure::Failed))?;
    privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
    // Its keys are here for a moment; without the right they may reach the swap.
    let _ = privilege::lock_memory();
    run::judge(file, io::stdin().lock()).map_err(|error| told(&error, Failure::Usage))
}

fn hand_over(name: &str, site: Option<&str>) -> Result<(), Failure> {
    let directory = report::runtime_dir();
    let found = find(&directory, Some(name))?;
    let failed = |error| told(&error, Failure::Failed);
    let site = match site.or(found.part.as_deref()) {
        Some(site) => site.to_owned(),
        None => client::only_shared_site(&directory, &found.gateway).map_err(failed)?,
    };
    client::hand_over(&directory, &found.gateway, &site).map_err(failed)?;
    client::await_hand_over(&directory, &found.gateway, &site).map_err(failed)?;
    print(&format_args!("site {site:?}: the other box forwards\n"))
}

/// The page that the command itself prints with `--help`.
fn help(names: &[String]) -> Result<(), Failure> {
    let names_and_help = names.iter().map(String::as_str).chain(["--help"]);
    match Arguments::try_parse_from(["frameward"].into_iter().chain(names_and_help)) {
        Err(page) if page.kind() == ErrorKind::DisplayHelp => print(&page.render()),
        _ => {
            let line = format_args!("there is no command {:?}; frameward --help lists them", names.join(" "));
            Err(told(&line, Failure::Usage))
        }
    }
}

fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "frameward", &mut script);
    print(&String::from_utf8_lossy(&script))
}

fn write_manual(directory: &Path) -> Result<(), Failure> {
    let written = [Shell::Bash, Shell::Zsh, Shell::Fish]
        .into_iter()
        .try_for_each(|shell| generate_to(shell, &mut Arguments::command(), "frameward", directory).map(drop))
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), directory))
        .and_then(|()| std::fs::write(directory.join("frameward.toml.5"), reference::manual()));
    let place = directory.display();
    written.map_err(|error| {
        told(&format_args!("cannot write to {place}: {error}; name a directory"), Failure::Failed)
    })
}

fn told(error: &dyn Display, failure: Failure) -> Failure {
    tell(&format_args!("frameward: {error}"));
    failure
}

fn tell_all(prefix: &str, findings: &[Finding]) {
    for finding in findings {
        tell(&format_args!("{prefix}{finding}"));
    }
}

thread_local! {
    /// The last line that was told.
    static TOLD: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Nobody is left to hear that standard error is closed.
fn tell(line: &dyn Display) {
    let line = line.to_string();
    let _ = writeln!(io::stderr(), "{line}");
    TOLD.set(line);
}

/// Why this command does not succeed: the last line that was told.
fn why() -> String {
    let line = TOLD.take();
    line.strip_prefix("frameward: ").unwrap_or(&line).to_owned()
}

/// Prints to standard output. A reader that has seen enough, such as `head`, is no failure.
fn print(text: &dyn Display) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match write!(output, "{text}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(told(
            &format_args!("cannot write to standard output: {error}; free its disk"),
            Failure::Failed,
        )),
        _ => Ok(()),
    }
}
