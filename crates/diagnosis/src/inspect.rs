//! `frameward inspect`: what a capture holds, and why a frame of it is bad.
//!
//! ```text
//! capture ──▶ anatomy ──▶ copies ──▶ receiver: the product's own SecY ──▶ words, diagnose ──▶ frame report
//!                            │            ▲ SAs                                   └──▶ trail: the summary
//!                            └──▶ overheard: key agreement, with a CAK
//! ```
//!
//! Without keys frames are taken apart. With keys each goes through the SecY of its SA, as a receiver at the place of
//! the capture would have it; where that discards, the reason is the SecY's own. Each capture interface has receivers
//! of its own, so that a capture taken at two points shows no replays; see [`copies`] for one that was taken at two
//! points and written as one. Frames are streamed, and what is remembered is bounded.

pub mod anatomy;
pub mod capture;
pub mod copies;
pub mod decrypted;
pub mod diagnose;
pub mod frame_report;
pub mod keys;
mod known_sas;
pub mod mkpdu_report;
pub mod overheard;
pub mod receiver;
pub mod replay;
pub mod text;
pub mod trail;
mod verifier;
pub mod words;

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use secy::{ReceiveDiscard, SduBuffer};
use wire::mkpdu::{Mkpdu, is_eapol_mka};
use wire::{EtherType, Instant};

use anatomy::Anatomy;
use capture::{CaptureError, CaptureReader, Captured, ETHERNET};
use copies::Copies;
use diagnose::Diagnoses;
use frame_report::{FrameReport, FrameVerdict};
use keys::Keyring;
use known_sas::KnownSas;
use mkpdu_report::MkpduReport;
use overheard::PeerEntry;
use receiver::{Receiver, Sdu};
use trail::{Passing, SakSummary, Summary};
use verifier::Verifier;
use words::Standing;

/// The longest frame whose SDUs are taken apart.
const FRAME_OCTETS: usize = 1 << 16;
/// Options of an inspection.
#[derive(Debug)]
pub struct Options {
    /// SAs and CAKs; none to read headers only.
    pub keys: Option<Keyring>,
    /// The same octets within this time are a copy.
    pub copies: Duration,
    /// Frames end with an FCS of 4 octets, whatever the file says.
    pub fcs: bool,
}

/// A frame that was looked at.
#[derive(Debug)]
pub struct Inspected<'i> {
    /// Its captured octets.
    pub captured: Captured<'i>,
    /// Its report.
    pub report: FrameReport,
    /// Its SDUs.
    pub sdus: Vec<Sdu>,
    /// Since the first frame.
    pub since_first: Option<Duration>,
    /// Octets of the file before it.
    pub offset: u64,
}

/// Looks at a capture, frame by frame.
#[derive(Debug)]
pub struct Inspector {
    /// Frames end with an FCS.
    fcs: bool,
    /// The SAs, if there are keys; those of the file first.
    keys: Option<KnownSas>,
    receivers: BTreeMap<(usize, usize), Receiver>,
    copies: Copies,
    diagnoses: Diagnoses,
    buffer: SduBuffer,
    first: Option<Duration>,
    summary: Summary,
}

impl Inspector {
    /// An inspector that has seen nothing.
    pub fn new(options: Options) -> Self {
        Self {
            fcs: options.fcs,
            keys: options.keys.map(KnownSas::new),
            receivers: BTreeMap::new(),
            copies: Copies::new(options.copies),
            diagnoses: Diagnoses::default(),
            buffer: SduBuffer::new(1, FRAME_OCTETS),
            first: None,
            summary: Summary::default(),
        }
    }

    /// Looks at all frames of `source`, and gives each to `each` until that says to stop.
    ///
    /// # Errors
    /// [`CaptureError::NoCapture`] and [`CaptureError::Unreadable`] if there is nothing to look at. A capture that
    /// breaks off later is told in the summary.
    pub fn run<R: Read>(
        mut self,
        source: R,
        mut each: impl FnMut(&Inspected<'_>) -> bool,
    ) -> Result<Summary, CaptureError> {
        let mut reader = CaptureReader::new(source)?;
        loop {
            let offset = reader.offset();
            match reader.next_frame() {
                Ok(Some(captured)) => {
                    let inspected = self.frame(captured, offset);
                    if !each(&inspected) {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.summary.broken = Some(error.to_string());
                    break;
                }
            }
        }
        self.summary.octets = reader.offset();
        Ok(self.summary)
    }

    fn frame<'i>(&mut self, captured: Captured<'i>, offset: u64) -> Inspected<'i> {
        let captured = self.without_fcs(captured);
        let anatomy = Anatomy::new(captured.octets, captured.original);
        let mut report = FrameReport::new(&captured, &anatomy);
        self.first = self.first.or(captured.time);
        let since_first = captured.time.zip(self.first).map(|(time, first)| time.saturating_sub(first));
        let ethernet = captured.place().is_none_or(|interface| interface.linktype == ETHERNET);
        let sdus = if ethernet {
            self.classify(&captured, &anatomy, since_first, &mut report)
        } else {
            report.set_bad(None, "is not an Ethernet frame: capture on one interface, not on \"any\"");
            Vec::new()
        };
        self.count(&captured, &anatomy, &report, sdus.len());
        Inspected { captured, report, sdus, since_first, offset }
    }

    fn without_fcs<'i>(&self, captured: Captured<'i>) -> Captured<'i> {
        let told = captured.place().map_or(0, |interface| interface.fcs);
        let fcs = if self.fcs { 4 } else { told };
        let original = captured.original.saturating_sub(fcs);
        Captured { original, octets: &captured.octets[..captured.octets.len().min(original)], ..captured }
    }

    /// Sets the verdict; returns the SDUs.
    fn classify(
        &mut self,
        captured: &Captured<'_>,
        anatomy: &Anatomy,
        since_first: Option<Duration>,
        report: &mut FrameReport,
    ) -> Vec<Sdu> {
        if is_eapol_mka(captured.octets) {
            self.mkpdu(captured, report);
            return Vec::new();
        }
        let (Some(header), Some(macsec)) = (&anatomy.header, &anatomy.macsec) else {
            match anatomy.header {
                Some(header) => {
                    report.verdict = FrameVerdict::Clear;
                    if header.ethertype == EtherType::EAPOL && header.vlan_tags > 0 {
                        report.notes.push("EAPOL behind a VLAN tag: a KaY accepts no tagged frame".into());
                    }
                }
                None => {
                    let why = words::discard(ReceiveDiscard::TooShort, Standing::default());
                    self.discard(report, "InPktsTooShort", why);
                }
            }
            return Vec::new();
        };
        let cut = captured.octets.len() < captured.original;
        if cut {
            report.notes.push(format!(
                "the capture kept only {} of its {} octets",
                captured.octets.len(),
                captured.original
            ));
        }
        let macsec = match macsec {
            Ok(macsec) => macsec,
            Err(_) if cut => return Vec::new(),
            Err(error) => {
                self.discard(report, "InPktsBadTag", words::bad_tag(*error));
                return Vec::new();
            }
        };
        if let Err(error) = macsec.secure_data {
            self.discard(report, "InPktsBadTag", words::bad_tag(error));
            return Vec::new();
        }
        let copy = self.copies.of(captured.number, captured.interface, captured.time, captured.octets);
        if let Some(first) = copy {
            report.verdict = FrameVerdict::Copy;
            report.notes.push(copy_of(first));
            return Vec::new();
        }
        let Some(keys) = &self.keys else {
            if let Err(error) = macsec.segments {
                self.discard(report, "InPktsMalformed", words::malformed(error));
            }
            return Vec::new();
        };
        if cut {
            report.set_bad(None, "cannot be verified: capture whole frames (tcpdump -s 0)");
            return Vec::new();
        }
        let now = Instant::after_start(since_first.unwrap_or_default());
        let mut verifier = Verifier {
            keys,
            receivers: &mut self.receivers,
            diagnoses: &mut self.diagnoses,
            buffer: &mut self.buffer,
        };
        let (sdus, moved) = verifier.verify(captured, header.source, macsec, now, report);
        for (counter, by) in moved {
            self.summary.count(counter, by);
        }
        if let Some(sak) = &report.sak {
            self.summary.verified_by(sak);
        }
        sdus
    }

    /// Sets the verdict on an MKPDU, and takes the SAs that come of it.
    fn mkpdu(&mut self, captured: &Captured<'_>, report: &mut FrameReport) {
        report.verdict = FrameVerdict::Clear;
        let mkpdu = match Mkpdu::parse(captured.octets) {
            Ok(mkpdu) => mkpdu,
            Err(_) if captured.octets.len() < captured.original => {
                report.notes.push(
                    "the capture did not keep the whole MKPDU: capture whole frames (tcpdump -s 0)".into(),
                );
                return;
            }
            Err(error) => return self.discard(report, "MkpdusMalformed", words::bad_mkpdu(error)),
        };
        report.mkpdu = Some(MkpduReport::new(&mkpdu));
        let Some(keys) = self.keys.as_mut().filter(|keys| keys.overheard.has_caks()) else { return };
        let copy = self.copies.of(captured.number, captured.interface, captured.time, captured.octets);
        if let Some(first) = copy {
            report.verdict = FrameVerdict::Copy;
            report.notes.push(copy_of(first));
            return;
        }
        let PeerEntry { refusal, note, new_sak, sas } = keys.overheard.hear(captured.interface, &mkpdu);
        report.notes.extend(note);
        keys.take(sas, &mut self.receivers);
        if let Some(sak) = new_sak {
            self.summary.hand_out(SakSummary {
                sak: sak.ki.to_string(),
                ckn: sak.ckn.to_string(),
                an: sak.an.number(),
                suite: sak.suite.name(),
                frame: captured.number,
                verified: 0,
            });
        }
        match refusal {
            Some(refusal) => self.discard(report, refusal.counter(), words::refusal(refusal)),
            None => report.verdict = FrameVerdict::Ok,
        }
    }

    /// No receiver needs to look at it: it would move this counter.
    fn discard(&mut self, report: &mut FrameReport, counter: &'static str, why: impl Into<String>) {
        report.set_bad(Some(counter), why);
        self.summary.count(counter, 1);
    }

    fn count(&mut self, captured: &Captured<'_>, anatomy: &Anatomy, report: &FrameReport, sdus: usize) {
        let summary = &mut self.summary;
        summary.frames += 1;
        summary.sdus += sdus as u64;
        summary.cut += u64::from(report.captured < report.length);
        match report.verdict {
            FrameVerdict::Clear => summary.clear(report.ethertype.clone().unwrap_or_default()),
            FrameVerdict::Read => {}
            FrameVerdict::Ok if report.mkpdu.is_some() => summary.mkpdus += 1,
            FrameVerdict::Ok => summary.verified += 1,
            FrameVerdict::Copy => summary.copies += 1,
            FrameVerdict::Bad => summary.bad += 1,
        }
        let Some(tag) = anatomy.tag().filter(|_| report.verdict != FrameVerdict::Copy) else { return };
        let sci = report.sci.as_deref().unwrap_or("unknown (no SCI in the SecTAG)");
        let sc = match captured.place().and_then(|interface| interface.name.as_deref()) {
            Some(name) => format!("SC {sci} on {}", name.escape_debug()),
            None if captured.interfaces.len() > 1 => format!("SC {sci} on interface {}", report.interface),
            None => format!("SC {sci}"),
        };
        summary.pass(
            sc,
            Passing {
                number: report.frame,
                an: tag.an.number(),
                pn: report.pn.ok_or(tag.pn),
                more_fragments: tag.more_fragments,
                extended: tag.extended,
                bad: report.verdict == FrameVerdict::Bad,
            },
        );
    }
}

fn copy_of(first: u64) -> String {
    format!("the same octets as frame {first}: captured twice, or replayed at once")
}
