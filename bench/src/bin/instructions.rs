//! The instruction guard: how many instructions it takes to protect and to verify a frame, counted by callgrind and
//! compared with the committed figures.
//!
//! Instructions are counted, not timed, since they are the same in every run. The ciphers choose their code by the CPU,
//! so aws-lc is pinned to one path ([`CPU`]), which every x86-64 machine of the last ten years has. Each figure is the
//! difference of two counts of different length, so start-up cancels out.
//!
//! ```text
//! instructions check           compare with bench/instructions.json; fails above +3 %
//! instructions renew           count and write bench/instructions.json anew
//! instructions run OPERATION N what callgrind counts
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use bench::cells::Cells;
use bench::order::shuffled;
use bench::secys::{BURST, Ends};
use bench::{Ratio, Row};
use suite::CipherSuite;
use wire::fieldbus::{KeyBits, Protect, Protection};

/// How much more than the committed figure is allowed.
const ALLOWANCE: f64 = 1.03;
/// What aws-lc may use: AES, CLMUL, SSE up to 4.2, AVX, AVX2 (OPENSSL_ia32cap(3): words 1 and 0, then 3 and 2).
const CPU: &str = "0x1e58020247000000:0x128";
/// Bursts of the shorter and the longer count.
const BURSTS: [u64; 2] = [20, 60];
const SUITES: [CipherSuite; 2] = [CipherSuite::GcmAes128, CipherSuite::ChaCha20Poly1305];
const OCTETS: [usize; 2] = [64, 1468];
/// Octets of payload of cyclic frames: PROFINET's least and most.
const PAYLOADS: [usize; 2] = [44, 1444];
const MODES: [&str; 2] = ["encrypt", "authenticate"];
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
        ["run", operation, bursts] => run(operation, bursts),
        _ => Err("usage: instructions check | renew | run OPERATION N".into()),
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

/// Counts every case. What verifying takes is what both take together without what protecting takes.
fn count_all() -> Result<Figures, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the committed figures are of x86-64; count on such a machine".into());
    }
    let mut figures = Figures::new();
    for suite in SUITES {
        for octets in OCTETS {
            let case = |verb: &str| format!("{verb} {octets} octets, {suite}");
            let protect = count(&format!("protect,{octets},{suite}"))?;
            let both = count(&format!("both,{octets},{suite}"))?;
            figures.insert(case("protect"), round(protect));
            figures.insert(case("verify"), round(both - protect));
        }
    }
    for mode in MODES {
        for payload in PAYLOADS {
            let case = |verb: &str| format!("{verb} cyclic {payload} octets, {mode}");
            let protect = count(&format!("cyclic-protect,{payload},{mode}"))?;
            let both = count(&format!("cyclic-both,{payload},{mode}"))?;
            figures.insert(case("protect"), round(protect));
            figures.insert(case("verify"), round(both - protect));
        }
    }
    Ok(figures)
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Instructions that one frame of `operation` takes.
fn count(operation: &str) -> Result<f64, String> {
    let [few, many] = [callgrind(operation, BURSTS[0])?, callgrind(operation, BURSTS[1])?];
    let more = many.checked_sub(few).ok_or("the longer run took fewer instructions")?;
    Ok(more as f64 / ((BURSTS[1] - BURSTS[0]) * BURST as u64) as f64)
}

/// Instructions of a whole run.
fn callgrind(operation: &str, bursts: u64) -> Result<u64, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--quiet", "--verbose"])
        .env("OPENSSL_ia32cap", CPU)
        .arg(own)
        .args(["run", operation, &bursts.to_string()])
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

/// What callgrind counts: `VERB,OCTETS,SUITE`, or `cyclic-VERB,OCTETS,MODE`; so many bursts of it.
fn run(operation: &str, bursts: &str) -> Result<(), String> {
    let unknown = || format!("{operation:?} is not VERB,OCTETS,SUITE, nor cyclic-VERB,OCTETS,MODE");
    let mut parts = operation.split(',');
    let [verb, octets, suite] =
        [parts.next(), parts.next(), parts.next()].map(|part| part.ok_or_else(unknown));
    let octets = octets?.parse().map_err(|_| unknown())?;
    let bursts: u64 = bursts.parse().map_err(|_| "N is no number")?;
    let verb = verb?;
    if let Some(verb) = verb.strip_prefix("cyclic-") {
        return run_cyclic(verb, octets, suite?, bursts).ok_or_else(unknown);
    }
    let suite: CipherSuite = suite?.parse().map_err(|_| unknown())?;
    let mut ends = Ends::new(suite, octets);
    let verify = match verb {
        "protect" => false,
        "both" => true,
        _ => return Err(unknown()),
    };
    for _ in 0..bursts {
        ends.protect();
        if verify {
            ends.verify();
        }
    }
    Ok(())
}

/// Writing a burst's addresses into its chunks is counted with protecting: a few instructions.
fn run_cyclic(verb: &str, payload: usize, mode: &str, bursts: u64) -> Option<()> {
    let protect = match mode {
        "encrypt" => Protect::Encrypt,
        "authenticate" => Protect::Authenticate,
        _ => return None,
    };
    let verify = match verb {
        "protect" => false,
        "both" => true,
        _ => return None,
    };
    let mut cells = Cells::new(RELATIONS, Protection { protect, key_bits: KeyBits::Bits128 }, payload);
    let order = shuffled(RELATIONS, RELATIONS * BURST);
    for (_, relations) in (0..bursts).zip(order.chunks_exact(BURST).cycle()) {
        cells.prepare(relations);
        cells.protect();
        if verify {
            cells.verify();
        }
    }
    Some(())
}
