//! `frameward inspect`: its arguments, and where its lines go.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{ArgGroup, Args, ValueEnum};
use config::key_file::read_cak;
use diagnosis::inspect::decrypted::Decrypted;
use diagnosis::inspect::frame_report::FrameVerdict;
use diagnosis::inspect::keys::{self, KeyedCak, Keyring, Overrides, Replay};
use diagnosis::inspect::replay::{Replay as KayReplay, ReplayError};
use diagnosis::inspect::text::Line;
use diagnosis::inspect::trail::Summary;
use diagnosis::inspect::{Inspected, Inspector, Options};
use frameward::privilege;
use secy::ClearVlan;
use secy::ReplayWindow;

use crate::{Failure, tell, tell_all, told};

pub(crate) const AFTER_HELP: &str = "\
Without --keys, frames are decoded: Ethernet, VLAN tags in clear, SecTAG, extension headers, packet
numbers, MKPDUs. With --keys they also pass the SecY that gateways use. FILE is a gateway's
configuration (with all SAs and CAKs of its links, and their settings), or a file of mode 0600
with entries such as

  [[sa]]
  suite    = \"gcm-aes-128\"
  sci      = \"02:00:00:00:00:0a/1\"
  an       = 0
  key_file = \"from-a.key\"            (or key = \"32 or 64 hexadecimal digits\")
  # confidentiality_offset = 0; ssci and salt for XPN suites; pn_high or lowest_pn where the packet
  # numbers begin

With --cak (repeat it for fallback CAKs), MKPDUs are verified as a KaY does it, by CKN. Their SAKs
decrypt the frames that follow, over all rekeys. If a SAK was distributed before the capture began,
its frames cannot be decrypted: start the capture earlier, or let it run over a rekey. SAKs and
CAKs are never printed.

Each frame is verified as a receiver in the capture's place would do it. The first frame of an SA
is never late. If the same octets come twice on one interface within --copies-within, the second
frame is a copy that the capture made: it is listed, and not verified. Each interface of a pcapng
has receivers of its own.

A frame or MKPDU is bad if a receiver would discard it. With keys, it is also bad if no key is for
it, or if the capture did not keep it whole. Frames in clear are not bad.

--write makes a pcapng that Wireshark opens. It holds each decrypted payload as a frame, with the
time of the protected frame that completed it, and every other frame as captured. A comment on
each tells where it comes from. The file holds plaintext: its mode is 0600, and no file is ever
overwritten.

Examples:
  frameward inspect press.pcap
  frameward inspect press.pcap --keys keys.toml --write clear.pcapng
  frameward inspect press.pcapng --keys /etc/frameward/press.toml --bad
  frameward inspect press.pcap --cak /etc/frameward/press.cak
  frameward inspect --replay press.kay --cak line.cak
  tcpdump -i enp2s0 -s 0 -U -w - | frameward inspect - --keys keys.toml --json

--replay gives a KaY the recorded inputs of another one (record in [link.mka] makes the log). It
prints a line for each input, followed by the KaY's actions: what it asked of its SecY, what it
sent, and why.

Exit status: 0 nothing bad, 1 bad frames or a broken file, 2 usage or keys.";

#[derive(Args)]
#[command(group = ArgGroup::new("secrets").multiple(true))]
pub(crate) struct Inspect {
    /// The capture, pcap or pcapng; - for standard input
    #[arg(required_unless_present = "replay")]
    capture: Option<PathBuf>,
    /// Instead of a capture: replay the log of a link's key agreement ([link.mka] record), and print what the KaY does
    #[arg(long, value_name = "LOG", conflicts_with_all = ["capture", "keys", "write", "bad", "json"], requires = "cak")]
    replay: Option<PathBuf>,
    /// Verify MKPDUs under the CAK of this file, and decrypt with the SAKs that they distribute; repeatable
    #[arg(long, value_name = "FILE", group = "secrets")]
    cak: Vec<PathBuf>,
    /// Verify and decrypt with the SAs and CAKs of this file
    #[arg(long, value_name = "FILE", group = "secrets")]
    keys: Option<PathBuf>,
    /// Write the decrypted, reassembled payloads and all other frames to this new pcapng
    #[arg(long, value_name = "OUT.pcapng", requires = "secrets")]
    write: Option<PathBuf>,
    /// Print bad frames only
    #[arg(long)]
    bad: bool,
    /// Print one JSON object a line: frames, then the summary
    #[arg(long)]
    json: bool,
    /// The replay window of every receiver, or off [default: the configuration's; else 0]
    #[arg(long, value_name = "PNS", value_parser = replay, requires = "secrets")]
    replay_window: Option<Replay>,
    /// Treatment of VLAN tags in front of a SecTAG [default: the configuration's; else strip]
    #[arg(long, value_enum, requires = "secrets")]
    clear_vlan: Option<Vlan>,
    /// Treat the same octets within this time, in milliseconds, as a copy made by the capture; 0 for never
    #[arg(long, value_name = "MS", default_value_t = 5)]
    copies_within: u64,
    /// Frames end with an FCS of 4 octets (files that say so need no option)
    #[arg(long)]
    fcs: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Vlan {
    /// The frame is bad
    Refuse,
    /// They are taken off
    Strip,
}

fn replay(text: &str) -> Result<Replay, String> {
    match text.parse() {
        _ if text == "off" => Ok(Replay::Off),
        Ok(window) if window <= ReplayWindow::WIDEST => Ok(Replay::Window(window)),
        _ => Err(format!("use off, or 0 to {}", ReplayWindow::WIDEST)),
    }
}

impl Inspect {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(log) = &self.replay {
            return self.replay(log);
        }
        let keys = self.keyring()?;
        let (source, length) = self.open()?;
        let options = Options { keys, copies: Duration::from_millis(self.copies_within), fcs: self.fcs };
        let decrypted = self.write.as_deref().map(|file| self.create(file)).transpose()?;
        let mut output = Output::new(&self, length, decrypted);
        let summary = Inspector::new(options)
            .run(BufReader::with_capacity(1 << 18, source), |inspected| output.frame(inspected))
            .map_err(|error| self.told(&error))?;
        output.end(&summary)?;
        match &summary.broken {
            Some(broken) => Err(self.told(broken)),
            None if summary.bad > 0 => Err(Failure::Failed),
            None => Ok(()),
        }
    }

    /// Only asked for where there is one.
    fn capture(&self) -> &Path {
        self.capture.as_deref().unwrap_or(Path::new("-"))
    }

    fn replay(&self, log: &Path) -> Result<(), Failure> {
        let caks = self.cak.iter().map(|file| read_cak(file)).collect::<Result<_, _>>();
        let caks = caks.map_err(|error| told(&error, Failure::Usage))?;
        let failed = |error: ReplayError| told(&format_args!("{} {error}", log.display()), Failure::Failed);
        let file = File::open(log).map_err(|error| failed(ReplayError::Unreadable(error)))?;
        let mut lines = BufWriter::new(io::stdout().lock());
        let mut written = Ok(());
        let status = KayReplay::new(caks)
            .run(BufReader::new(file), |text| {
                written = writeln!(lines, "{text}");
                written.is_ok()
            })
            .map_err(failed)?;
        let trouble = status.and_then(|status| status.fault);
        let trouble = trouble.map_or_else(|| "secured".to_owned(), |trouble| trouble.to_string());
        match written.and_then(|()| writeln!(lines, "at the end: {trouble}")).and_then(|()| lines.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(told(
                &format_args!("cannot write to standard output: {error}; free its disk"),
                Failure::Failed,
            )),
            _ => Ok(()),
        }
    }

    fn told(&self, error: &dyn std::fmt::Display) -> Failure {
        told(&format_args!("{} {error}", self.capture().display()), Failure::Failed)
    }

    /// The keys of all files; none if no file is named.
    fn keyring(&self) -> Result<Option<Keyring>, Failure> {
        let clear_vlan = self.clear_vlan.map(|rule| match rule {
            Vlan::Refuse => ClearVlan::Refuse,
            Vlan::Strip => ClearVlan::Strip,
        });
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        let overrides = Overrides { replay: self.replay_window, clear_vlan };
        let mut keyring = match &self.keys {
            None if self.cak.is_empty() => return Ok(None),
            None => Keyring::default(),
            Some(file) => keys::load(file, overrides).map_err(|errors| {
                tell_all("", &errors);
                Failure::Usage
            })?,
        };
        for file in &self.cak {
            let cak = KeyedCak::of_file(file, overrides).map_err(|error| told(&error, Failure::Usage))?;
            keyring.caks.push(cak);
        }
        Ok(Some(keyring))
    }

    /// A file for plaintext: a new one, and nobody else's.
    fn create(&self, file: &Path) -> Result<Decrypted<BufWriter<File>>, Failure> {
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        created
            .and_then(|file| Decrypted::new(BufWriter::with_capacity(1 << 18, file)))
            .map_err(|error| self.not_written(&error))
    }

    fn not_written(&self, error: &io::Error) -> Failure {
        let file = self.write.as_deref().unwrap_or(Path::new("")).display();
        let cure = match error.kind() {
            io::ErrorKind::AlreadyExists => "name a new file",
            io::ErrorKind::StorageFull => "free its disk",
            _ => "name a file in a directory that can be written",
        };
        told(&format_args!("cannot write {file}: {error}; {cure}"), Failure::Failed)
    }

    fn open(&self) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
        if self.capture() == Path::new("-") {
            return Ok((Box::new(io::stdin().lock()), None));
        }
        let unreadable = |error: io::Error| {
            self.told(&format_args!("cannot be read: {error}; name a capture that this user can read"))
        };
        let file = File::open(self.capture()).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        Ok((Box::new(file), metadata.is_file().then_some(metadata.len())))
    }
}

/// Destinations of lines and frames.
struct Output<'i> {
    inspect: &'i Inspect,
    lines: BufWriter<io::StdoutLock<'static>>,
    error: Option<io::Error>,
    decrypted: Option<Decrypted<BufWriter<File>>>,
    write_error: Option<io::Error>,
    colour: bool,
    progress: Option<Progress>,
}

impl<'i> Output<'i> {
    fn new(inspect: &'i Inspect, length: Option<u64>, decrypted: Option<Decrypted<BufWriter<File>>>) -> Self {
        let terminal = io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            inspect,
            lines: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
            error: None,
            decrypted,
            write_error: None,
            colour: terminal && !plain,
            // On one terminal with the lines it would only disturb them.
            progress: (!terminal && io::stderr().is_terminal()).then(|| Progress::new(length)),
        }
    }

    /// False if nobody listens any more.
    fn frame(&mut self, inspected: &Inspected<'_>) -> bool {
        let Inspected { report, since_first, offset, .. } = inspected;
        if let Some(progress) = &mut self.progress {
            progress.at(report.frame, *offset);
        }
        if let Some(decrypted) = &mut self.decrypted {
            self.write_error = decrypted.frame(inspected).err();
        }
        if self.error.is_none() && (!self.inspect.bad || report.verdict == FrameVerdict::Bad) {
            let line = Line { report, time: *since_first, colour: self.colour };
            self.error = if self.inspect.json {
                json(&mut self.lines, report).err()
            } else {
                writeln!(self.lines, "{line}").err()
            };
        }
        // The file is written to its end even if nobody reads the lines any more.
        self.write_error.is_none() && (self.error.is_none() || self.decrypted.is_some())
    }

    fn end(mut self, summary: &Summary) -> Result<(), Failure> {
        if let Some(progress) = self.progress.take() {
            progress.end();
        }
        let written = match (self.decrypted.take(), self.write_error.take()) {
            (_, Some(error)) => Err(error),
            (Some(decrypted), None) => decrypted.into_inner().flush(),
            (None, None) => Ok(()),
        };
        written.map_err(|error| self.inspect.not_written(&error))?;
        let told_all = match self.error.take() {
            Some(error) => Err(error),
            None if self.inspect.json => json(&mut self.lines, &serde_json::json!({ "summary": summary })),
            None => write!(self.lines, "{summary}"),
        };
        match told_all.and_then(|()| self.lines.flush()) {
            // A reader that has seen enough, such as `head`, is no failure.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(told(
                &format_args!("cannot write to standard output: {error}; free its disk"),
                Failure::Failed,
            )),
            _ => Ok(()),
        }
    }
}

fn json(lines: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *lines, value)?;
    writeln!(lines)
}

/// A line on the terminal that says how far it is, once it takes long.
struct Progress {
    begun: Instant,
    told: Option<Instant>,
    length: Option<u64>,
}

impl Progress {
    const PATIENCE: Duration = Duration::from_secs(2);

    fn new(length: Option<u64>) -> Self {
        Self { begun: Instant::now(), told: None, length }
    }

    fn at(&mut self, frame: u64, offset: u64) {
        if !frame.is_multiple_of(1024) {
            return;
        }
        let now = Instant::now();
        let due = match self.told {
            Some(told) => now - told > Self::PATIENCE / 8,
            None => now - self.begun > Self::PATIENCE,
        };
        if due {
            self.told = Some(now);
            let share = self.length.map(|length| format!(", {} %", offset * 100 / length.max(1)));
            let _ = write!(io::stderr(), "\r{frame} frames{} ", share.unwrap_or_default());
        }
    }

    fn end(self) {
        if self.told.is_some() {
            tell(&"");
        }
    }
}
