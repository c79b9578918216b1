//! Verification of one frame by the SAs that it may be of.

use std::collections::BTreeMap;

use secy::{ReceiveDiscard, SduBuffer};
use wire::{Instant, Pn};

use super::anatomy::Macsec;
use super::capture::Captured;
use super::diagnose::{Diagnoses, Patient};
use super::frame_report::{FrameReport, FrameVerdict, SduReport};
use super::known_sas::KnownSas;
use super::receiver::{Outcome, Receiver, Sdu, Trial};
use super::words::{self, Standing};

/// Interfaces with receivers of their own; further ones share the last.
const INTERFACES: usize = 16;
/// Verifier of a frame.
pub(super) struct Verifier<'b> {
    pub(super) keys: &'b KnownSas,
    pub(super) receivers: &'b mut BTreeMap<(usize, usize), Receiver>,
    pub(super) diagnoses: &'b mut Diagnoses,
    pub(super) buffer: &'b mut SduBuffer,
}

impl Verifier<'_> {
    /// Sets the verdict; returns the SDUs and the counters that moved.
    pub(super) fn verify(
        &mut self,
        captured: &Captured<'_>,
        source: wire::MacAddr,
        macsec: &Macsec,
        now: Instant,
        report: &mut FrameReport,
    ) -> (Vec<Sdu>, Vec<(&'static str, u64)>) {
        let Captured { number, octets, .. } = *captured;
        let interface = captured.interface.min(INTERFACES - 1);
        let fitting = self.keys.sas.iter().enumerate().filter(|(_, keyed)| keyed.fits(&macsec.tag, source));
        let mut candidates: Vec<usize> = fitting.map(|(index, _)| index).collect();
        // The one that verified last is the likeliest.
        let last =
            |index: &usize| self.receivers.get(&(interface, *index)).map_or(0, |receiver| receiver.last);
        candidates.sort_by_key(|index| std::cmp::Reverse(last(index)));
        let mut refused: Option<(usize, Outcome, Standing)> = None;
        for index in candidates {
            let keyed = &self.keys.sas[index];
            let receiver = self.receivers.entry((interface, index)).or_insert_with(|| Receiver::new(keyed));
            let outcome = receiver.verify(keyed, number, octets, macsec, now, self.buffer);
            let discard = match outcome.result {
                Ok(sdus) => {
                    report.verdict = FrameVerdict::Ok;
                    report.sci = Some(keyed.sa.sci.to_string());
                    report.pn = Some(outcome.pn);
                    report.sak = keyed.ki.map(|ki| ki.to_string());
                    report.sdus = sdus.iter().map(sdu_report).collect();
                    let lost = outcome.moved.iter().filter(|(name, _)| name.starts_with("InPieces"));
                    report.notes.extend(lost.map(|(name, by)| format!("{name} {by}")));
                    return (sdus, outcome.moved);
                }
                Err(discard) => discard,
            };
            let authentic = matches!(discard, ReceiveDiscard::Malformed(_))
                || matches!(discard, ReceiveDiscard::Late | ReceiveDiscard::Duplicate)
                    && Pn::new(outcome.pn).is_some_and(|pn| Trial::of(keyed).opens(pn, octets));
            let verified = receiver.verified;
            let standing = Standing { pn: outcome.pn, lowest: outcome.lowest, verified, authentic };
            let better = refused.as_ref().is_none_or(|(_, _, other)| authentic && !other.authentic);
            if better {
                refused = Some((index, outcome, standing));
            }
        }
        self.refuse(captured, source, macsec, refused, report)
    }

    /// Says why no SA takes a frame.
    fn refuse(
        &mut self,
        captured: &Captured<'_>,
        source: wire::MacAddr,
        macsec: &Macsec,
        refused: Option<(usize, Outcome, Standing)>,
        report: &mut FrameReport,
    ) -> (Vec<Sdu>, Vec<(&'static str, u64)>) {
        let no_sa = ReceiveDiscard::NoSaError;
        let refused_by = refused.as_ref().map(|(index, ..)| *index);
        let (discard, standing, moved) = match refused {
            Some((_, Outcome { result: Err(discard), moved, .. }, standing)) => (discard, standing, moved),
            _ => (no_sa, Standing::default(), vec![("InPktsNoSAError", 1)]),
        };
        report.set_bad(moved.first().map(|(name, _)| *name), words::discard(discard, standing));
        if standing.authentic {
            report.pn = Some(standing.pn);
        }
        if matches!(discard, ReceiveDiscard::NotValid | ReceiveDiscard::NoSaError) {
            let pn = if standing.pn == 0 { macsec.tag.pn.into() } else { standing.pn };
            let patient = Patient { octets: captured.octets, tag: &macsec.tag, source, pn };
            let sci = macsec.tag.sc.sci(source);
            let no_sak =
                refused_by.is_none().then(|| self.keys.overheard.missing(macsec.tag.an, sci)).flatten();
            report.notes.extend(no_sak.or_else(|| self.diagnoses.find(patient, &self.keys.sas)));
        }
        (Vec::new(), moved)
    }
}

fn sdu_report(sdu: &Sdu) -> SduReport {
    let ethertype =
        wire::ethernet::Header::parse(&sdu.octets).ok().map(|header| header.ethertype.to_string());
    SduReport { octets: sdu.octets.len(), ethertype, frames: sdu.frames.clone() }
}
