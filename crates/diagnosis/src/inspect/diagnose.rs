//! Diagnosis of a frame whose ICV is wrong, or for which there is no SA: usual mistakes, tried out.
//!
//! Each attempt is the product's own SecY with one thing changed. Attempts cost time, so only the first bad frames
//! of each SC are diagnosed: [`Diagnoses`].

use std::collections::BTreeMap;

use secy::{ConfidentialityOffset, Protection, XpnBinding};
use suite::CipherSuite;
use wire::{MacAddr, Pn, ScEncoding, Sci, SecTag, Ssci};

use super::keys::KeyedSa;
use super::receiver::Trial;

/// Bad frames of one SC that are diagnosed.
const FRAMES_OF_AN_SC: u32 = 32;
/// SCs that are diagnosed.
const SCS: usize = 256;
/// SAs of the file that are tried.
const SAS: usize = 64;

/// Counts what was diagnosed.
#[derive(Debug, Default)]
pub struct Diagnoses {
    done: BTreeMap<Option<Sci>, u32>,
}

/// A frame to be diagnosed.
#[derive(Clone, Copy, Debug)]
pub struct Patient<'p> {
    /// The frame.
    pub octets: &'p [u8],
    /// Its SecTAG.
    pub tag: &'p SecTag,
    /// Its source address.
    pub source: MacAddr,
    /// Its PN, with the high half that is expected.
    pub pn: u64,
}

impl Diagnoses {
    /// The mistake that explains the frame, in words.
    pub fn find(&mut self, patient: Patient<'_>, keys: &[KeyedSa]) -> Option<String> {
        let sci = patient.tag.sc.sci(patient.source);
        if !self.done.contains_key(&sci) && self.done.len() == SCS {
            return None;
        }
        let done = self.done.entry(sci).or_default();
        if *done == FRAMES_OF_AN_SC {
            return None;
        }
        *done += 1;
        let keys = &keys[..keys.len().min(SAS)];
        let own = keys.iter().filter(|keyed| keyed.fits(patient.tag, patient.source));
        own.clone()
            .find_map(|keyed| patient.settings(keyed))
            .or_else(|| own.clone().find_map(|keyed| patient.sscis(keyed, keys)))
            .or_else(|| keys.iter().find_map(|keyed| patient.other_sa(keyed)))
    }
}

impl Patient<'_> {
    fn opens(&self, trial: &Trial<'_>) -> bool {
        let pn = if trial.suite.is_xpn() { self.pn } else { self.tag.pn.into() };
        Pn::new(pn).is_some_and(|pn| trial.opens(pn, self.octets))
    }

    /// The right key, used in another way.
    fn settings(&self, keyed: &KeyedSa) -> Option<String> {
        let right = Trial::of(keyed);
        for offset in
            [ConfidentialityOffset::Zero, ConfidentialityOffset::Thirty, ConfidentialityOffset::Fifty]
        {
            let trial = Trial { protection: Protection::Encrypt(offset), ..right };
            if offset != keyed.offset && self.opens(&trial) {
                return Some(format!("it verifies with confidentiality_offset = {}", offset.octets()));
            }
        }
        for suite in CipherSuite::ALL {
            let xpn = if suite.is_xpn() { keyed.sa.xpn } else { None };
            let trial = Trial { suite, xpn, ..right };
            if suite != keyed.suite && self.opens(&trial) {
                return Some(format!("it verifies as suite {suite}, not {}", keyed.suite));
            }
        }
        let without_fcs =
            self.octets.len().checked_sub(4).map(|end| Self { octets: &self.octets[..end], ..*self });
        if without_fcs.is_some_and(|patient| patient.opens(&right)) {
            return Some(
                "it verifies without its last 4 octets: the capture holds the FCS; use --fcs".into(),
            );
        }
        None
    }

    /// The right key and the SSCI or salt of another.
    fn sscis(&self, keyed: &KeyedSa, keys: &[KeyedSa]) -> Option<String> {
        let XpnBinding { ssci, salt } = keyed.sa.xpn?;
        let others = keys.iter().filter_map(|other| other.sa.xpn);
        let small = (1..=16).map(|number| XpnBinding { ssci: Ssci(number), salt });
        let swapped = others.clone().map(|other| XpnBinding { ssci: other.ssci, salt });
        let salted = others.map(|other| XpnBinding { ssci, salt: other.salt });
        let other = swapped
            .chain(salted)
            .chain(small)
            .find(|&xpn| self.opens(&Trial { xpn: Some(xpn), ..Trial::of(keyed) }))?;
        Some(match other.ssci == ssci {
            true => "it verifies with the salt of another SA of the file".into(),
            false => format!("it verifies with ssci {}, not {}", other.ssci.0, ssci.0),
        })
    }

    /// The key of another SA.
    fn other_sa(&self, keyed: &KeyedSa) -> Option<String> {
        let (an, own) = (self.tag.an, keyed.sa.sci);
        let told = self.tag.sc.sci(self.source);
        let trial = Trial { an, sci: told.unwrap_or(own), ..Trial::of(keyed) };
        if self.opens(&trial) {
            return Some(format!("it verifies with the key of SC {own} AN {} ({})", keyed.sa.an, keyed.from));
        }
        // The nonce of a frame with ES is made of its source address; no key can be tried with another SCI.
        let bridged = self.tag.sc == ScEncoding::EndStation && an == keyed.sa.an && told != Some(own);
        (bridged && own.port() == Sci::PORT_END_STATION).then(|| {
            format!(
                "with ES the SCI is the source address, but the file has SC {own}: perhaps a bridged frame"
            )
        })
    }
}
