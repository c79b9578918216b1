//! Counts the instructions that protecting or verifying a frame takes, and guards them.
//!
//! ```text
//! instructions guard            counts, compares with bench/instructions.json, fails above +3 %
//! instructions guard --renew    counts and writes bench/instructions.json
//! instructions run CASE         runs one case (what callgrind looks at)
//! ```
//!
//! A case is `protect|verify/SUITE/OCTETS`, OCTETS of secure data behind the addresses: encrypted, SCI in every
//! SecTAG, replay protection on, in bursts as the engine hands them over.
//!
//! **What is counted.** callgrind counts inside [`counted`] alone (`--toggle-collect`), so neither start-up nor the
//! making of the frames matters, and one burst goes before it, so neither do first-use initialisations.
//!
//! **Which code.** aws-lc chooses its code when it starts, by CPUID, and so does the C library. valgrind shows
//! its own CPUID, of the class of the host's: AVX2, but never AVX-512 or VAES. To make the figures independent of
//! the host and of valgrind's version, `OPENSSL_ia32cap` (see [`CAPABILITIES`]) pins aws-lc to AES, CLMUL, AVX
//! and AVX2. A machine with VAES therefore runs other code than is counted here; what is guarded is our own path
//! around the cipher, and that the cipher is called as often as before.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use bench::guard::{self, Verdict};
use bench::{Row, row};
use secy::{
    ClearVlan, ConfidentialityOffset, Frame, Incoming, Outgoing, Protection, ReceiveSa, SciInclusion, SecY,
    Settings, TransmitSa, ValidateFrames,
};
use suite::{CipherSuite, Key, Sak};
use wire::{An, MacAddr, Pn, Sci};

/// CPUID as aws-lc is told it, `leaf 1 ECX EDX : leaf 7 EBX`: FXSR, SSE, SSE2, Intel; PCLMULQDQ, SSSE3, SSE4.1,
/// SSE4.2, MOVBE, AES, XSAVE, OSXSAVE, AVX; BMI1, AVX2, BMI2. It ends the program on a CPU that has less.
const CAPABILITIES: &str = "0x1e58020247000000:0x128";
/// Where the committed figures are.
const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json");
/// Frames of a burst: the engine's.
const BURST_FRAMES: usize = 64;
/// Bursts that are counted.
const BURSTS: usize = 16;
/// Room in front of a frame for the SecTAG, and behind it for the ICV.
const ROOM: usize = 64;
/// Octets of DA and SA.
const ADDRESSES: usize = 12;

type Outcome<T> = Result<T, String>;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["guard"] => compare(),
        ["guard", "--renew"] => renew(),
        ["run", case] => Case::parse(case).and_then(Case::run),
        _ => {
            eprintln!("usage: instructions guard [--renew] | run CASE");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Clone, Copy)]
enum Work {
    Protect,
    Verify,
}

#[derive(Clone, Copy)]
struct Case {
    work: Work,
    suite: CipherSuite,
    octets: usize,
}

impl Case {
    fn all() -> Vec<Case> {
        let suites = [CipherSuite::GcmAes128, CipherSuite::ChaCha20Poly1305];
        let of = |work| {
            suites.into_iter().flat_map(move |suite| [64, 1468].map(|octets| Case { work, suite, octets }))
        };
        of(Work::Protect).chain(of(Work::Verify)).collect()
    }

    fn name(self) -> String {
        let work = match self.work {
            Work::Protect => "protect",
            Work::Verify => "verify",
        };
        format!("{work}/{}/{}", self.suite, self.octets)
    }

    fn parse(name: &str) -> Outcome<Case> {
        let known = Case::all();
        known.iter().copied().find(|case| case.name() == name).ok_or_else(|| {
            let names: Vec<_> = known.iter().map(|case| case.name()).collect();
            format!("no case is called {name}; there are {}", names.join(", "))
        })
    }

    /// Protects every frame, and verifies them too if that is the case; counts only what the case is about.
    fn run(self) -> Outcome<()> {
        let (mut sender, mut receiver) = self.ends()?;
        let mut octets = vec![0x5A; ROOM + ADDRESSES + self.octets + ROOM];
        octets[ROOM..ROOM + ADDRESSES].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        let mut chunks = vec![octets; (BURSTS + 1) * BURST_FRAMES];
        let mut bursts: Vec<_> = chunks.chunks_mut(BURST_FRAMES).collect();
        let (first, rest) = bursts.split_first_mut().ok_or("no bursts")?;
        let mut outgoing = [self.outgoing(first)?];
        let mut rest = rest.iter_mut().map(|chunks| self.outgoing(chunks)).collect::<Outcome<Vec<_>>>()?;
        let mut sending = |burst: &mut Vec<Outgoing<'_>>| {
            sender.protect(burst);
        };
        outgoing.iter_mut().for_each(&mut sending);
        match self.work {
            Work::Protect => counted(&mut rest, sending),
            Work::Verify => rest.iter_mut().for_each(&mut sending),
        }
        let spans: Vec<_> = outgoing.into_iter().chain(rest).map(protected).collect::<Outcome<_>>()?;
        if let Work::Verify = self.work {
            let mut bursts = chunks
                .chunks_mut(BURST_FRAMES)
                .zip(&spans)
                .map(|(chunks, spans)| incoming(chunks, spans))
                .collect::<Outcome<Vec<_>>>()?;
            let mut receiving = |burst: &mut Vec<Incoming<'_>>| receiver.verify(burst);
            let (first, rest) = bursts.split_first_mut().ok_or("no bursts")?;
            receiving(first);
            counted(rest, receiving);
            for incoming in bursts.into_iter().flatten() {
                let octets = incoming.frame().len();
                incoming.into_outcome().map_err(|discard| format!("a frame was discarded: {discard:?}"))?;
                if octets != ADDRESSES + self.octets {
                    return Err(format!("a frame of {octets} octets was delivered"));
                }
            }
        }
        Ok(())
    }

    fn ends(self) -> Outcome<(SecY, SecY)> {
        let (here, there) =
            (Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1), Sci::new(MacAddr([2, 0, 0, 0, 0, 2]), 1));
        let an = An::new(0).ok_or("AN 0")?;
        let settings = Settings {
            protect_frames: true,
            protection: Protection::Encrypt(ConfidentialityOffset::Zero),
            sci_inclusion: SciInclusion::Always,
            validate_frames: ValidateFrames::Strict,
            replay_protect: true,
            clear_vlan: ClearVlan::Refuse,
            mtu: 1532,
        };
        let key = || -> Outcome<Key> {
            let sak =
                Sak::new(self.suite, &vec![7; self.suite.key_octets()]).map_err(|e| format!("{e:?}"))?;
            Key::prepare(self.suite, &sak).map_err(|e| format!("{e:?}"))
        };
        let first = Pn::new(1).ok_or("PN 1")?;
        let refused = |error: secy::InstallError| format!("an SA was refused: {error:?}");
        let mut sender = SecY::new(here, settings);
        let sa = TransmitSa::new(an, key()?, None, first, Pn::LAST_64).map_err(refused)?;
        sender.install_transmit(Box::new(sa)).map_err(|(error, _)| refused(error))?;
        sender.enable_transmit(an).map_err(refused)?;
        let mut receiver = SecY::new(there, settings);
        receiver.install_receive_sc(here).map_err(refused)?;
        let sa = ReceiveSa::new(an, key()?, None, first, 0).map_err(refused)?;
        receiver.install_receive(here, Box::new(sa)).map_err(|(error, _)| refused(error))?;
        receiver.enable_receive(here, an).map_err(refused)?;
        Ok((sender, receiver))
    }

    fn outgoing<'b>(self, chunks: &'b mut [Vec<u8>]) -> Outcome<Vec<Outgoing<'b>>> {
        let frames = chunks.iter_mut().map(|chunk| Frame::new(chunk, ROOM, ADDRESSES + self.octets));
        frames.map(|frame| frame.map(Outgoing::new).ok_or_else(|| "a chunk is too small".into())).collect()
    }
}

/// Where in its chunk a protected frame stands: start and length.
type Span = (usize, usize);

fn protected(burst: Vec<Outgoing<'_>>) -> Outcome<Vec<Span>> {
    let span = |outgoing: Outgoing<'_>| {
        let span = (outgoing.frame().start(), outgoing.frame().len());
        outgoing.into_outcome().map(|_| span).map_err(|discard| format!("an SDU was discarded: {discard:?}"))
    };
    burst.into_iter().map(span).collect()
}

fn incoming<'b>(chunks: &'b mut [Vec<u8>], spans: &[Span]) -> Outcome<Vec<Incoming<'b>>> {
    let frames = chunks.iter_mut().zip(spans).map(|(chunk, &(start, len))| Frame::new(chunk, start, len));
    frames.map(|frame| frame.map(Incoming::new).ok_or_else(|| "a chunk is too small".into())).collect()
}

/// What callgrind counts: it toggles at this function's name, so it must stay a function of its own.
#[inline(never)]
fn counted<B>(bursts: &mut [B], work: impl FnMut(&mut B)) {
    bursts.iter_mut().for_each(work);
}

fn compare() -> Outcome<()> {
    let text = std::fs::read_to_string(COMMITTED).map_err(|error| format!("{COMMITTED}: {error}"))?;
    let committed = Row::read_lines(&text).map_err(|error| format!("{COMMITTED}: {error}"))?;
    let measured = measure_all()?;
    let mut failed = false;
    for (case, verdict) in guard::judge(&committed, &measured) {
        let value = |rows: &[Row]| {
            let row = rows.iter().find(|row| row.case == case);
            row.map_or_else(|| "-".into(), |row| format!("{:.1}", row.value))
        };
        println!("{case:<34} {:>9} committed {:>9}  {verdict}", value(&measured), value(&committed));
        failed |= verdict.fails();
        if let Verdict::Incomparable { .. } = verdict {
            println!("{:<34} renew on the kind of machine that CI runs on", "");
        }
    }
    if failed {
        return Err("not as committed. If the new figures are meant, renew them on purpose: scripts/instructions.sh --renew, and \
             say in the commit why"
            .into());
    }
    Ok(())
}

fn renew() -> Outcome<()> {
    let mut text = String::new();
    for row in measure_all()? {
        println!("{:<34} {:>9.1}", row.case, row.value);
        text += &row.line().map_err(|error| error.to_string())?;
        text.push('\n');
    }
    std::fs::write(COMMITTED, text).map_err(|error| format!("{COMMITTED}: {error}"))
}

fn measure_all() -> Outcome<Vec<Row>> {
    let (commit, valgrind) = (row::commit(), valgrind_version()?);
    let frames = (BURSTS * BURST_FRAMES) as f64;
    let measure = |case: Case| {
        let value = count(case)? as f64 / frames;
        let row = Row::of_samples("instructions", &case.name(), "instructions/frame", &[value], &commit);
        let row = row.ok_or("a count is no number")?;
        println!("# {} under {valgrind}: {value:.1}", row.case);
        Ok(row.under("burst", BURST_FRAMES.to_string()).under("OPENSSL_ia32cap", CAPABILITIES))
    };
    Case::all().into_iter().map(measure).collect()
}

fn valgrind_version() -> Outcome<String> {
    let output = Command::new("valgrind").arg("--version").output();
    let output = output.map_err(|error| format!("valgrind: {error} (scripts/setup.sh ci installs it)"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Instructions inside [`counted`], as callgrind counts them.
fn count(case: Case) -> Outcome<u64> {
    let program = std::env::current_exe().map_err(|error| format!("the program's own path: {error}"))?;
    let file = Scratch::new(&format!("instructions-{}.callgrind", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*counted*"])
        .arg(format!("--callgrind-out-file={}", file.0.display()))
        .arg(program)
        .args(["run", &case.name()])
        .env("OPENSSL_ia32cap", CAPABILITIES)
        .env_remove("LD_PRELOAD")
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().rev().find(|line| !line.starts_with("==")).unwrap_or("it did not say why");
        return Err(format!("{} under valgrind ended with {}: {why}", case.name(), output.status));
    }
    let profile = file.read()?;
    total(&profile)
        .filter(|&total| total > 0)
        .ok_or_else(|| format!("callgrind counted nothing in {}", case.name()))
}

/// The total of a callgrind profile: its line `totals: N`.
fn total(profile: &str) -> Option<u64> {
    profile.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

/// A file that goes when it is no longer needed.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(name))
    }

    fn read(&self) -> Outcome<String> {
        let path: &Path = &self.0;
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing was written if valgrind failed early.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_and_is_found_by_its_name() {
        for case in Case::all() {
            Case::parse(&case.name()).unwrap().run().unwrap();
        }
        assert!(Case::parse("protect/gcm-aes-128/65").is_err());
    }

    #[test]
    fn the_total_is_read() {
        assert_eq!(total("events: Ir\nsummary: 9\ntotals: 1234\n"), Some(1234));
        assert_eq!(total("events: Ir\n"), None);
        assert_eq!(total("totals: many\n"), None);
    }

    #[test]
    fn the_committed_figures_are_rows_of_every_case() {
        let committed = Row::read_lines(&std::fs::read_to_string(COMMITTED).unwrap()).unwrap();
        let cases: Vec<_> = committed.iter().map(|row| row.case.clone()).collect();
        assert_eq!(cases, Case::all().into_iter().map(Case::name).collect::<Vec<_>>());
    }
}
