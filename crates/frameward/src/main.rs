//! The command line: reads arguments, calls the library, prints, and says by its exit status how it went.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::{Shell, generate_to};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use frameward::bench::suites::{self, SuitesTable};
use frameward::bench::table::Table;
use frameward::bench::{Bench, Effort};
use frameward::check::{Plan, interface_mtu};
use frameward::config::{self, Config, Finding};
use frameward::demo;
use frameward::keygen::{self, KeyLength};
use frameward::lifetime::interface_mbits;
use frameward::privilege;
use frameward::reload;
use frameward::run;
use frameward::status::{self, Detail, StatusText};
use frameward::suite_speed;

/// Commands whose arguments are a page of their own.
mod arguments {
    pub(crate) mod doctor;
    pub(crate) mod inspect;
}

#[derive(Parser)]
#[command(name = "frameward", version, about, after_help = AFTER_HELP, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  frameward keygen static --out /etc/frameward/press.key
  frameward check /etc/frameward/press-line.toml
  frameward run /etc/frameward/press-line.toml
  frameward status press-line
  frameward inspect press.pcapng --keys /etc/frameward/press-line.toml --bad

Exit status: 0 done, 1 failed, 2 usage or configuration.";

#[derive(Subcommand)]
enum Command {
    /// Run the gateway in the foreground until SIGTERM or SIGINT
    #[command(after_help = "\
Needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF; root has them, and gives up all others before the configuration is read.
Says on standard error what it does, one line each.
When it stops, the interfaces are as they were; what a killed gateway left is put right at the next start.

Example:
  frameward run /etc/frameward/press-line.toml")]
    Run {
        /// The configuration file (TOML)
        config: PathBuf,
    },
    /// Validate a configuration and print the plan: interfaces, MTUs, overheads, largest payload, faster suites
    #[command(after_help = "\
Errors and warnings go to standard error, one line each: file:line: what is wrong; what to do.
The plan goes to standard output. Key files are read. How fast the cipher suites are on this CPU is measured, which
takes less than a tenth of a second.

Examples:
  frameward check press-line.toml
  frameward check --offline press-line.toml     (on a machine without the interfaces)")]
    Check {
        /// Do not look at this machine's interfaces
        #[arg(long)]
        offline: bool,
        /// The configuration file (TOML)
        config: PathBuf,
    },
    /// Show the state of a running gateway: links, ports, SecYs, SCs, SAs and their counters
    #[command(after_help = "\
Sockets are searched in /run/frameward, or in the directory that FRAMEWARD_RUNTIME_DIR names.

Examples:
  frameward status                     (the only running gateway)
  frameward status --all press-line    (also counters that are 0)
  frameward status --json press-line
  frameward status --watch press-line")]
    Status {
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
        /// Show rates, discards and SAs, again every second, until q is pressed; on a pipe, a line for each link
        #[arg(long, conflicts_with_all = ["json", "all"])]
        watch: bool,
        /// Show also counters that are 0 (JSON always has them)
        #[arg(long)]
        all: bool,
        /// The gateway's name; may be left out if only one is running
        name: Option<String>,
    },
    /// Find out what is wrong with this box and with the path to the other one, and what cures it
    #[command(after_help = arguments::doctor::AFTER_HELP)]
    Doctor(arguments::doctor::Doctor),
    /// Say what a capture holds: decode, verify, decrypt, reassemble; and why a frame of it is bad
    #[command(after_help = arguments::inspect::AFTER_HELP)]
    Inspect(arguments::inspect::Inspect),
    /// Have a running gateway read its configuration and keys again, without losing a frame; says how it went
    #[command(after_help = "\
Links that stay as they are go on untouched. Keys and settings change between two frames; a link whose interfaces, io or
mtu change is restarted alone; links are added and removed. If anything is wrong nothing is changed.
The same as SIGHUP, with an answer. Needs the right to send the gateway a signal: root, or the gateway's own user.

To change a key and lose no frame: give it an AN of its own; first add it to the peers of the other end, and reload
there; then name it in [link.static] here, and reload; then remove the old key there, and reload.

Example:
  frameward reload press-line")]
    Reload {
        /// The gateway's name; may be left out if only one is running
        name: Option<String>,
    },
    /// Show a link at work on this machine: two gateways, two machines, real frames, in network namespaces
    #[command(after_help = "\
Needs root, ip, tc, ethtool and ping. Leaves nothing behind. Takes about 20 seconds.

Example:
  sudo frameward demo")]
    Demo {
        /// What to show
        #[arg(value_enum, default_value = "link")]
        what: Demo,
    },
    /// Measure on this machine; every figure is compared with another one of the same run
    #[command(after_help = "\
Leaves nothing behind. Says on standard error what it measures, and the figures at the end on standard output: as a
table, or with --json as one line of JSON for each figure. `suites` needs no root; the others need root, ip, tc
and ethtool.

Examples:
  frameward bench suites
  sudo frameward bench link --quick
  sudo frameward bench fragment --quick")]
    Bench {
        /// What to measure
        #[arg(value_enum)]
        what: Measured,
        /// Short rounds: the figures spread more
        #[arg(long)]
        quick: bool,
        /// One line of JSON for each figure
        #[arg(long)]
        json: bool,
    },
    /// Write manual pages and shell completions into a directory, for packages
    #[command(hide = true)]
    Manual {
        /// The directory; it exists
        directory: PathBuf,
    },
    /// Make keys
    #[command(subcommand, arg_required_else_help = true)]
    Keygen(Keygen),
}

#[derive(Subcommand)]
enum Keygen {
    /// Make a static key: a new file of mode 0600; the key's fingerprint goes to standard output
    #[command(after_help = "\
A file that exists is never overwritten. Copy the file to the other end over a channel that is itself secret.
The fingerprint (the first 8 octets of SHA-256 over \"frameward key\" and the key) tells whether both ends have
the same key; `check` and `status` show it too.

Suites with 128 bits: gcm-aes-128, gcm-aes-xpn-128, aegis-128l, morus-640-128, morus-1280-128.
Suites with 256 bits: gcm-aes-256, gcm-aes-xpn-256, chacha20-poly1305, aegis-256.

Examples:
  frameward keygen static --out press.key
  frameward keygen static --bits 256 --salt --out press.key     (for gcm-aes-xpn-256)")]
    Static {
        /// The length of the key
        #[arg(long, value_enum, default_value = "128")]
        bits: Bits,
        /// Print also a salt, which the XPN suites need: not secret, the same at all ends of a key
        #[arg(long)]
        salt: bool,
        /// The file to make
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Demo {
    /// A link between two gateways with static keys
    Link,
}

#[derive(Clone, Copy, ValueEnum)]
enum Measured {
    /// What it costs and gains to split frames and to put them together
    Fragment,
    /// Throughput, round trips and CPU of a link, beside a bridge and a bare forwarder, with each suite
    Link,
    /// What a frame costs with each cipher suite, beside the bare call of the cipher's crate
    Suites,
}

#[derive(Clone, Copy, ValueEnum)]
enum Bits {
    #[value(name = "128")]
    Bits128,
    #[value(name = "256")]
    Bits256,
}

/// How a command that did not succeed ended; what is wrong has been told.
enum Failure {
    /// Exit status 1.
    Failed,
    /// Exit status 2.
    Usage,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run { config } => run_gateway(&config),
        Command::Check { offline, config } => check(&config, offline),
        Command::Status { watch: true, name, .. } => watch_status(name),
        Command::Status { json, all, name, .. } => show_status(json, all, name),
        Command::Doctor(doctor) => doctor.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Reload { name } => reload_gateway(name),
        Command::Demo { what: Demo::Link } => demo_link(),
        Command::Bench { what, quick, json } => bench(what, quick, json),
        Command::Manual { directory } => write_manual(&directory),
        Command::Keygen(Keygen::Static { bits, salt, out }) => keygen_static(bits, salt, &out),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed) => ExitCode::from(1),
        Err(Failure::Usage) => ExitCode::from(2),
    }
}

fn run_gateway(file: &Path) -> Result<(), Failure> {
    // Before the configuration is read: a reload must be able to read whatever a start can.
    privilege::give_up_others().map_err(|error| told(&error, Failure::Failed))?;
    let asks = run::Asks::default();
    for (signal, asked) in [(SIGTERM, &asks.stop), (SIGINT, &asks.stop), (SIGHUP, &asks.reload)] {
        signal_hook::flag::register(signal, Arc::clone(asked))
            .map_err(|error| told(&format_args!("cannot wait for signals: {error}"), Failure::Failed))?;
    }
    let config = load(file)?;
    let told_line = &mut |line: &dyn Display| tell(&format_args!("frameward: {line}"));
    run::run(config, &status::runtime_dir(), &asks, told_line).map_err(|error| match error {
        // Each of these lines names file and line itself.
        run::RunError::Configuration(errors) => {
            tell_all("", &errors);
            Failure::Failed
        }
        other => told(&other, Failure::Failed),
    })
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

fn check(file: &Path, offline: bool) -> Result<(), Failure> {
    let config = load(file)?;
    let plan = Plan::new(&config, if offline { None } else { Some(&interface_mtu) }).map_err(|errors| {
        tell_all("", &errors);
        Failure::Failed
    })?;
    // Without its interfaces this is not the gateway's machine, and its CPU says nothing.
    if offline {
        return print(&plan);
    }
    print(&plan.with_speeds(suite_speed::measure()).with_line_rates(&interface_mbits))
}

fn choose_gateway(directory: &Path, name: Option<String>) -> Result<String, Failure> {
    status::choose(directory, name).map_err(|error| match error {
        status::StatusError::BadName(_) => told(&error, Failure::Usage),
        _ => told(&error, Failure::Failed),
    })
}

fn watch_status(name: Option<String>) -> Result<(), Failure> {
    let directory = status::runtime_dir();
    let name = choose_gateway(&directory, name)?;
    status::watch(&directory, &name)
        .map_err(|error| told(&format_args!("cannot use this terminal: {error}"), Failure::Failed))
}

fn show_status(json: bool, all: bool, name: Option<String>) -> Result<(), Failure> {
    let directory = status::runtime_dir();
    let name = choose_gateway(&directory, name)?;
    let document = status::ask(&directory, &name).map_err(|error| told(&error, Failure::Failed))?;
    if json {
        return print(&document);
    }
    let report = status::parse(&name, &document).map_err(|error| told(&error, Failure::Failed))?;
    let detail = if all { Detail::All } else { Detail::NonZero };
    print(&StatusText { report: &report, detail })
}

fn reload_gateway(name: Option<String>) -> Result<(), Failure> {
    let directory = status::runtime_dir();
    let name = choose_gateway(&directory, name)?;
    let report = reload::ask(&directory, &name).map_err(|error| told(&error, Failure::Failed))?;
    if report.done {
        report.lines.iter().try_for_each(|line| print(&format_args!("{line}\n")))
    } else {
        report.lines.iter().for_each(|line| tell(line));
        Err(Failure::Usage)
    }
}

fn demo_link() -> Result<(), Failure> {
    let failed = |error: &dyn Display| told(&format_args!("demo: {error}"), Failure::Failed);
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    abandon_when_interrupted().map_err(|error| failed(&error))?;
    let mut broken = Ok(());
    let shown = demo::link(&program, &mut |line: &dyn Display| {
        let printed = print(&format_args!("{line}\n"));
        if broken.is_ok() {
            broken = printed;
        }
    });
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

fn bench(what: Measured, quick: bool, json: bool) -> Result<(), Failure> {
    let measure: fn(&mut Bench<'_>) -> _ = match what {
        Measured::Suites => return bench_suites(quick, json),
        Measured::Fragment => |bench| bench.fragment(),
        Measured::Link => |bench| bench.link(),
    };
    let failed = |error: &dyn Display| told(&format_args!("bench: {error}"), Failure::Failed);
    let frameward = std::env::current_exe().map_err(|error| failed(&error))?;
    abandon_when_interrupted().map_err(|error| failed(&error))?;
    let (mut rows, mut printed) = (Vec::new(), Ok(()));
    let mut bench = Bench {
        frameward: &frameward,
        effort: if quick { Effort::QUICK } else { Effort::FULL },
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

fn write_manual(directory: &Path) -> Result<(), Failure> {
    let written = [Shell::Bash, Shell::Zsh, Shell::Fish]
        .into_iter()
        .try_for_each(|shell| generate_to(shell, &mut Arguments::command(), "frameward", directory).map(drop))
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), directory));
    let place = directory.display();
    written.map_err(|error| {
        told(&format_args!("cannot write to {place}: {error}; name a directory"), Failure::Failed)
    })
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

fn keygen_static(bits: Bits, salt: bool, out: &Path) -> Result<(), Failure> {
    let length = match bits {
        Bits::Bits128 => KeyLength::Bits128,
        Bits::Bits256 => KeyLength::Bits256,
    };
    privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
    let failed = |error| told(&error, Failure::Failed);
    let fingerprint = keygen::static_key(length, out).map_err(failed)?;
    print(&format_args!("fingerprint {fingerprint}\n"))?;
    if salt {
        print(&format_args!("salt = \"{}\"\n", keygen::salt().map_err(failed)?))?;
    }
    Ok(())
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

/// Nobody is left to hear that standard error is closed.
fn tell(line: &dyn Display) {
    let _ = writeln!(io::stderr(), "{line}");
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
