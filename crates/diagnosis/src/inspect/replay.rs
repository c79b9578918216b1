//! Replay of a KaY's log: another KaY gets the same inputs, and its actions are printed.

use std::fmt::{self, Write as _};
use std::io::{self, BufRead};

use mka::{CakEntry, Event, Input, Kay, Names, Report, Status};
use suite::mka::Cak;
use wire::mkpdu::Mkpdu;
use wire::{Ckn, Instant, Sci};

use super::mkpdu_report::MkpduReport;
use super::words::bad_mkpdu;
use crate::kay_log::{self, Entry, Line, LoggedSettings};
use config::key_file::NamedCak;

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error("cannot be read: {0}; name a log that this user can read")]
    Unreadable(io::Error),
    /// A line is none of a log.
    #[error("line {line}: {why}; it is no log of a KaY, or damaged")]
    Malformed {
        /// Number of the line, from 1.
        line: u64,
        /// The fault.
        why: String,
    },
    /// A CAK is missing.
    #[error("line {line}: there is no CAK with CKN {ckn} among the keys; name its file with --cak")]
    NoCak {
        /// Number of the line, from 1.
        line: u64,
        /// The CAK's name.
        ckn: Ckn,
    },
}

/// A KaY that is told what another one was told.
#[derive(Default)]
pub struct Replay {
    caks: Vec<NamedCak>,
    kay: Option<Kay>,
    now: Instant,
}

impl Replay {
    /// With these CAKs.
    pub fn new(caks: Vec<NamedCak>) -> Self {
        Self { caks, ..Self::default() }
    }

    /// Replays a log; `tell` gets the lines that are told of each of its own, until it says to stop. The state at the end.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn run(
        mut self,
        log: impl BufRead,
        mut tell: impl FnMut(&str) -> bool,
    ) -> Result<Option<Status>, ReplayError> {
        for (number, line) in (1..).zip(log.lines()) {
            let line = line.map_err(ReplayError::Unreadable)?;
            let malformed =
                |why: &dyn fmt::Display| ReplayError::Malformed { line: number, why: why.to_string() };
            let Line { t, entry } = serde_json::from_str(&line).map_err(|error| malformed(&error))?;
            self.now = Instant::after_start(std::time::Duration::from_micros(t));
            let mut text = String::new();
            self.entry(number, entry, &mut text)?.ok_or_else(|| malformed(&"a value means nothing"))?;
            self.follow(&mut text);
            if !tell(&text) {
                break;
            }
        }
        Ok(self.kay.map(|kay| kay.status(self.now)))
    }

    /// Tells the KaY one entry. `None` if it means nothing.
    fn entry(&mut self, line: u64, entry: Entry, text: &mut String) -> Result<Option<()>, ReplayError> {
        let clock = self.now.since(Instant::START);
        let _ = write!(text, "{:>12.6}  ", clock.as_secs_f64());
        match entry {
            Entry::Begin { link, unix, settings, ckns, seed } => {
                let _ = write!(
                    text,
                    "link {link:?}: the KaY began, {unix} s after 1970, under CKN {}",
                    ckns.join(", ")
                );
                let Some((settings, caks)) = self.settings(line, &settings, &ckns)? else { return Ok(None) };
                self.kay = Some(Kay::new(self.now, settings, caks, &seed));
            }
            Entry::Change { settings, ckns } => {
                let _ = write!(text, "other settings, CKN {}", ckns.join(", "));
                let Some((settings, caks)) = self.settings(line, &settings, &ckns)? else { return Ok(None) };
                let Some(kay) = &mut self.kay else { return Ok(None) };
                kay.change(self.now, settings, caks);
            }
            Entry::Frame(frame) => {
                let _ = write!(text, "received {}", Summary(&frame));
                return Ok(self.handle_input(Input::Frame(&frame)));
            }
            Entry::Stranger(frame) => {
                let _ = write!(text, "received, but from no holder of a CAK: {}", Summary(&frame));
                return Ok(self.handle_input(Input::Frame(&frame)));
            }
            Entry::StrangersFull(()) => {
                text.push_str("frames from no holder of a CAK are omitted from here on: there were too many");
            }
            Entry::Lost(entries) => {
                let _ = write!(text, "{entries} entries before this one were lost: the disk was too slow");
            }
            Entry::Timeout(()) => {
                text.push_str("time");
                return Ok(self.handle_input(Input::Timeout));
            }
            Entry::Rekey(()) => {
                text.push_str("another SAK was asked for");
                return Ok(self.handle_input(Input::Rekey));
            }
            Entry::Full(()) => text.push_str("the log is full: it lacks all later inputs of the KaY"),
            Entry::Installed(ki) => {
                let _ = write!(text, "the SecY has installed SAK {ki}");
                return Ok(
                    kay_log::ki(&ki).and_then(|ki| self.handle_input(Input::Report(Report::Installed(ki))))
                );
            }
            Entry::Transmitting(ki) => {
                let _ = write!(text, "the SecY protects with SAK {ki}");
                return Ok(kay_log::ki(&ki)
                    .and_then(|ki| self.handle_input(Input::Report(Report::Transmitting(ki)))));
            }
            Entry::NextPn(ki, next_pn) => {
                let _ = write!(text, "next PN {next_pn} under SAK {ki}");
                let report = |ki| Input::Report(Report::NextPn { ki, next_pn });
                return Ok(kay_log::ki(&ki).and_then(|ki| self.handle_input(report(ki))));
            }
        }
        Ok(Some(()))
    }

    /// `None` before a KaY has begun.
    fn handle_input(&mut self, told: Input<'_>) -> Option<()> {
        self.kay.as_mut()?.handle_input(self.now, told);
        Some(())
    }

    /// Its consequences.
    fn follow(&mut self, text: &mut String) {
        let Some(kay) = &mut self.kay else { return };
        while let Some(event) = kay.poll_event() {
            let _ = write!(text, "\n                {}", Asked(&event, kay.names()));
        }
        while let Some(frame) = kay.poll_transmit(self.now) {
            let _ = write!(text, "\n                sent {}", Summary(&frame));
        }
    }

    fn settings(
        &self,
        line: u64,
        settings: &LoggedSettings,
        ckns: &[String],
    ) -> Result<Option<(mka::Settings, Vec<CakEntry>)>, ReplayError> {
        let mut caks = Vec::new();
        for name in ckns {
            let Some(ckn) = kay_log::ckn(name) else { return Ok(None) };
            let cak =
                self.caks.iter().find(|cak| cak.ckn() == ckn).ok_or(ReplayError::NoCak { line, ckn })?;
            let octets = Cak::new(cak.octets()).expect("invariant: 16 or 32 octets, by its file");
            caks.push(CakEntry { ckn, cak: octets });
        }
        Ok(settings.settings().map(|settings| (settings, caks)))
    }
}

/// An event in words.
struct Asked<'e>(&'e Event, &'e Names);

impl fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |sci: &Sci| self.1.beside(*sci);
        match self.0 {
            Event::Install(sak) => {
                write!(
                    f,
                    "SecY: install SAK {}, AN {}, {}, for {} peers",
                    sak.ki,
                    sak.an,
                    sak.suite,
                    sak.receive.len()
                )
            }
            Event::Admit { ki, admission } => {
                write!(f, "SecY: accept {} under SAK {ki}", named(&admission.sci))
            }
            Event::EnableTransmit(ki) => write!(f, "SecY: protect with SAK {ki}"),
            Event::Retire(ki) => write!(f, "SecY: retire SAK {ki}"),
            Event::Expel(sci) => write!(f, "SecY: no longer accept {}", named(sci)),
            Event::RaiseLowest { ki, sci, lowest_pn } => {
                write!(f, "SecY: refuse PNs of {} below {lowest_pn} under SAK {ki}", named(sci))
            }
            Event::Notice(reason) => self.1.within(reason).fmt(f),
        }
    }
}

/// An MKPDU in a line.
struct Summary<'f>(&'f [u8]);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Mkpdu::parse(self.0) {
            Ok(mkpdu) => MkpduReport::new(&mkpdu).fmt(f),
            Err(error) => write!(f, "{} octets that are no MKPDU: {}", self.0.len(), bad_mkpdu(error)),
        }
    }
}
