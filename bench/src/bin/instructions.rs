//! The instruction guard: how many instructions it takes to protect and to verify a frame, to fragment and to reassemble
//! it, and to send and receive it in a tunnel; counted by callgrind and compared with the committed figures.
//!
//! Instructions are counted, not timed, since they are the same in every run. The ciphers choose their code by the CPU,
//! so aws-lc is pinned to one path ([`CPU`]), which every x86-64 machine of the last ten years has; so is crate `aes`,
//! since valgrind has no instructions beyond that path. Each figure is the difference of two counts of different length, so
//! start-up cancels out.
//!
//! | subject | first half | second half | for each |
//! |---|---|---|---|
//! | `secy,SUITE` | protect | verify | frame |
//! | `fragments,SUITE` | fragment over MTU 1500, sharing frames, and protect | verify and reassemble | SDU |
//! | `cyclic,MODE` | protect a frame of one of 57 relations | verify | frame |
//! | `tunnel,MODE` | send | receive: header and tables, no cipher over the frame | frame |
//!
//! ```text
//! instructions check                         compare with bench/instructions.json; fails above +3 %
//! instructions renew                         count and write bench/instructions.json anew
//! instructions run SUBJECT,KIND,OCTETS HALF N  what callgrind counts
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use bench::fragments::FragmentEnds;
use bench::secys::Ends;
use bench::sites::Sites;
use bench::{Ratio, Row};
use speed::burst::BURST;
use speed::cells::Cells;
use speed::order::shuffled;
use suite::CipherSuite;
use tunnel::Mode;
use wire::fieldbus::{CellSuite, Protect, Protection};

/// Permitted growth over the committed figure.
const ALLOWANCE: f64 = 1.03;
/// CPU features for aws-lc: AES, CLMUL, SSE up to 4.2, AVX, AVX2 (OPENSSL_ia32cap(3): words 1 and 0, then 3
/// and 2).
const CPU: &str = "0x1e58020247000000:0x128";
/// Bursts of the shorter and the longer count.
const BURSTS: [u64; 2] = [20, 60];
const SUITES: [CipherSuite; 2] = [CipherSuite::GcmAes128, CipherSuite::ChaCha20Poly1305];
const OCTETS: [usize; 2] = [64, 1468];
/// An SDU with 1500 octets of payload, which MTU 1500 has no room for once it is protected.
const FRAGMENTED: usize = 1514;
const MTU: usize = 1500;
/// The shortest frame in a tunnel, and the largest that identifier mode carries whole over MTU 1500.
const TUNNELLED: [usize; 2] = [60, 1484];
const MODES: [(&str, Mode); 2] =
    [("identifier", Mode::Identifier), ("header-encryption", Mode::HeaderEncryption)];
/// Octets of payload of cyclic frames: PROFINET's least and most.
const PAYLOADS: [usize; 2] = [44, 1444];
const PROTECTIONS: [(&str, Protect); 2] =
    [("encrypt", Protect::Encrypt), ("authenticate", Protect::Authenticate)];
/// Relations of a cell.
const RELATIONS: usize = 57;

/// The committed figures: instructions a frame, by case.
type Figures = BTreeMap<String, f64>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["check"] => check(),
        ["renew"] => renew(),
        ["run", subject, half, bursts] => run(subject, half, bursts),
        _ => Err("usage: instructions check | renew | run SUBJECT,KIND,OCTETS HALF N".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("instructions: {message}");
            ExitCode::FAILURE
        }
    }
}

fn committed_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.json")
}

fn check() -> Result<(), String> {
    let path = committed_path();
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let committed: Figures =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let counted = count_all()?;
    if let Some(missing) = committed.keys().find(|case| !counted.contains_key(*case)) {
        return Err(format!("{missing:?} is committed and not counted any more; {HOW_TO_RENEW}"));
    }
    let mut above = Vec::new();
    for (case, value) in &counted {
        let before =
            committed.get(case).ok_or_else(|| format!("{case:?} is not committed; {HOW_TO_RENEW}"))?;
        let ratio = value / before;
        let frames = (BURSTS[1] - BURSTS[0]) * BURST as u64;
        let row = Row::new("instructions", case, *value, "instructions/frame", frames);
        println!("{}", Row { ratio: Some(Ratio { to: "committed".into(), value: ratio }), ..row }.line());
        if ratio > ALLOWANCE {
            above.push(format!("{case}: {value:.0} instructions a frame, {before:.0} are committed"));
        }
    }
    if above.is_empty() { Ok(()) } else { Err(format!("{}; {HOW_TO_RENEW}", above.join("; "))) }
}

const HOW_TO_RENEW: &str = "if that is on purpose, run scripts/instructions.sh renew and commit bench/instructions.json with the reason";

fn renew() -> Result<(), String> {
    let figures = count_all()?;
    let text = serde_json::to_string_pretty(&figures).map_err(|error| error.to_string())? + "\n";
    let path = committed_path();
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{} figures written to {}", figures.len(), path.display());
    Ok(())
}

/// Something with two halves, of which the second needs the first.
struct Pair {
    /// Arguments of callgrind.
    subject: String,
    /// Names of the halves.
    names: [String; 2],
    /// Frames or SDUs of a burst.
    each: usize,
}

fn pairs() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for suite in SUITES {
        for octets in OCTETS {
            let names = ["protect", "verify"].map(|verb| format!("{verb} {octets} octets, {suite}"));
            pairs.push(Pair { subject: format!("secy,{suite},{octets}"), names, each: BURST });
        }
    }
    let suite = SUITES[0];
    let names = ["fragment", "reassemble"].map(|verb| format!("{verb} {FRAGMENTED} octets, {suite}"));
    pairs.push(Pair { subject: format!("fragments,{suite},{FRAGMENTED}"), names, each: FragmentEnds::SDUS });
    for (mode, _) in MODES {
        for octets in TUNNELLED {
            let names = ["send", "receive"].map(|verb| format!("{verb} {octets} octets, {mode}"));
            pairs.push(Pair { subject: format!("tunnel,{mode},{octets}"), names, each: BURST });
        }
    }
    for (protection, _) in PROTECTIONS {
        for payload in PAYLOADS {
            let names =
                ["protect", "verify"].map(|verb| format!("{verb} cyclic {payload} octets, {protection}"));
            pairs.push(Pair { subject: format!("cyclic,{protection},{payload}"), names, each: BURST });
        }
    }
    pairs
}

/// Counts every case. What the second half takes is what both take together without what the first takes.
fn count_all() -> Result<Figures, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the committed figures are of x86-64; count on such a machine".into());
    }
    let mut figures = Figures::new();
    for Pair { subject, names: [first, second], each } in pairs() {
        let [neither, one, both] = HALVES.map(|half| count(&subject, half, each));
        let (neither, one, both) = (neither?, one?, both?);
        figures.insert(first, round(one - neither));
        figures.insert(second, round(both - one));
    }
    Ok(figures)
}

/// Neither half, the first, and both. What neither takes is what prepares a burst.
const HALVES: [&str; 3] = ["neither", "first", "both"];

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Instructions that one of `each` in a burst takes.
fn count(subject: &str, half: &str, each: usize) -> Result<f64, String> {
    let [few, many] = [callgrind(subject, half, BURSTS[0])?, callgrind(subject, half, BURSTS[1])?];
    let more = many.checked_sub(few).ok_or("the longer run took fewer instructions")?;
    Ok(more as f64 / ((BURSTS[1] - BURSTS[0]) as f64 * each as f64))
}

/// Instructions of a whole run.
fn callgrind(subject: &str, half: &str, bursts: u64) -> Result<u64, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--quiet", "--verbose"])
        .env("OPENSSL_ia32cap", CPU)
        .arg(own)
        .args(["run", subject, half, &bursts.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error} (is it installed?)"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected =
        text.lines().find_map(|line| line.split_once("Collected : ")?.1.split_whitespace().next());
    match collected.and_then(|number| number.parse().ok()) {
        Some(instructions) if output.status.success() => Ok(instructions),
        _ => Err(format!("callgrind counted nothing: {}", text.lines().last().unwrap_or("it said nothing"))),
    }
}

/// Work that callgrind counts: this many bursts of a half.
fn run(subject: &str, half: &str, bursts: &str) -> Result<(), String> {
    let unknown = || format!("{subject:?} is not SUBJECT,KIND,OCTETS");
    let [what, kind, octets] = subject.split(',').collect::<Vec<_>>()[..] else { return Err(unknown()) };
    let octets: usize = octets.parse().map_err(|_| unknown())?;
    let bursts: u64 = bursts.parse().map_err(|_| "N is no number")?;
    let halves = HALVES.iter().position(|name| *name == half);
    let halves = halves.ok_or_else(|| format!("{half:?} is none of {}", HALVES.join(", ")))?;
    let suite = || kind.parse::<CipherSuite>().map_err(|_| unknown());
    match what {
        "secy" => {
            repeat(Ends::new(suite()?, octets), halves, bursts, |_| (), Ends::protect, Ends::verify);
        }
        "fragments" => {
            let ends = FragmentEnds::new(suite()?, octets, MTU, true);
            let verify = |ends: &mut FragmentEnds| {
                ends.verify();
            };
            repeat(ends, halves, bursts, |_| (), FragmentEnds::protect, verify);
        }
        "tunnel" => {
            let mode = MODES.iter().find(|(name, _)| *name == kind).ok_or_else(unknown)?.1;
            repeat(Sites::new(mode, octets), halves, bursts, Sites::number, Sites::send, Sites::receive);
        }
        "cyclic" => {
            let found = PROTECTIONS.iter().find(|(name, _)| *name == kind);
            let protection =
                Protection { protect: found.ok_or_else(unknown)?.1, suite: CellSuite::GcmAes128 };
            let order = shuffled(RELATIONS, RELATIONS * BURST);
            let mut turns = order.chunks_exact(BURST).cycle();
            let prepare = |cells: &mut Cells| turns.next().into_iter().for_each(|turn| cells.prepare(turn));
            let cells = Cells::new(RELATIONS, protection, octets);
            repeat(cells, halves, bursts, prepare, Cells::protect, Cells::verify);
        }
        _ => return Err(unknown()),
    }
    Ok(())
}

/// Prepares so many bursts, and does so many halves of each.
fn repeat<T>(
    mut ends: T,
    halves: usize,
    bursts: u64,
    mut prepare: impl FnMut(&mut T),
    first: impl Fn(&mut T),
    second: impl Fn(&mut T),
) {
    for _ in 0..bursts {
        prepare(&mut ends);
        if halves > 0 {
            first(&mut ends);
        }
        if halves > 1 {
            second(&mut ends);
        }
    }
}
