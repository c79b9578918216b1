//! Report on one frame: the same for people and for programs.

use std::fmt;

use serde::Serialize;
use wire::{ScEncoding, SecureData};

use super::anatomy::{Anatomy, Macsec, extension_fields};
use super::capture::Captured;
use super::mkpdu_report::MkpduReport;

/// The verdict on a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameVerdict {
    /// Without SecTAG.
    Clear,
    /// Protected; without keys nothing more is known.
    Read,
    /// Verified: a protected frame, or an MKPDU.
    Ok,
    /// Captured twice.
    Copy,
    /// A receiver would discard it, or it cannot be verified.
    Bad,
}

impl FrameVerdict {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Read => "read",
            Self::Ok => "ok",
            Self::Copy => "copy",
            Self::Bad => "BAD",
        }
    }
}

/// One frame.
#[derive(Clone, Debug, Serialize)]
pub struct FrameReport {
    /// Its number, from 1, as Wireshark counts.
    pub frame: u64,
    /// Seconds since 1970.
    pub time: Option<String>,
    /// The number of its interface.
    pub interface: usize,
    /// Octets on the wire.
    pub length: usize,
    /// Octets in the capture.
    pub captured: usize,
    /// The verdict.
    pub verdict: FrameVerdict,
    /// The counter that a receiver would move.
    pub counter: Option<&'static str>,
    /// Why it is bad.
    pub reason: Option<String>,
    /// Notes.
    pub notes: Vec<String>,
    /// Destination address.
    pub destination: Option<String>,
    /// Source address.
    pub source: Option<String>,
    /// VLAN tags in clear: TPID and TCI.
    pub vlans: Vec<VlanReport>,
    /// EtherType behind them.
    pub ethertype: Option<String>,
    /// The SecTAG, if it breaks no rule.
    pub sectag: Option<SecTagReport>,
    /// The SCI, from the SecTAG or from the key that opened it.
    pub sci: Option<String>,
    /// The whole PN, if it is known.
    pub pn: Option<u64>,
    /// The KI of the SAK that verified it, if that was agreed on.
    pub sak: Option<String>,
    /// Content of an MKPDU.
    pub mkpdu: Option<MkpduReport>,
    /// Octets of secure data.
    pub secure_data: Option<usize>,
    /// Octets behind the ICV.
    pub padding: usize,
    /// SDUs that it completes.
    pub sdus: Vec<SduReport>,
}

/// A VLAN tag.
#[derive(Clone, Debug, Serialize)]
pub struct VlanReport {
    /// Tag protocol identifier.
    pub tpid: String,
    /// VLAN identifier.
    pub vid: u16,
    /// Priority.
    pub pcp: u16,
}

/// A SecTAG, field by field.
#[derive(Clone, Debug, Serialize)]
pub struct SecTagReport {
    /// SC: the SCI stands in the tag.
    pub sc: bool,
    /// ES.
    pub es: bool,
    /// SCB.
    pub scb: bool,
    /// E.
    pub e: bool,
    /// C.
    pub c: bool,
    /// AN.
    pub an: u8,
    /// EXT.
    pub ext: bool,
    /// MF.
    pub mf: bool,
    /// SL.
    pub sl: usize,
    /// The PN field.
    pub pn: u32,
    /// Extension headers.
    pub extensions: Vec<ExtensionReport>,
    /// Lengths of the segments, if the extension headers break no rule.
    pub segments: Vec<u16>,
}

/// An extension header.
#[derive(Clone, Debug, Serialize)]
pub struct ExtensionReport {
    /// SEGL.
    pub segl: u16,
    /// The reserved bits.
    pub reserved: u16,
    /// CF.
    pub cf: bool,
    /// EXT.
    pub ext: bool,
}

/// An SDU that a frame completes.
#[derive(Clone, Debug, Serialize)]
pub struct SduReport {
    /// Octets, addresses included.
    pub octets: usize,
    /// Its EtherType.
    pub ethertype: Option<String>,
    /// The frames that it came in.
    pub frames: Vec<u64>,
}

impl FrameReport {
    /// Report on the frame without keys.
    pub fn new(captured: &Captured<'_>, anatomy: &Anatomy) -> Self {
        let macsec = match &anatomy.macsec {
            Some(Ok(macsec)) => Some(macsec),
            _ => None,
        };
        let header = anatomy.header;
        let source = header.map(|header| header.source);
        let sci = macsec.zip(source).and_then(|(macsec, source)| macsec.tag.sc.sci(source));
        let time = captured.time.map(|time| format!("{}.{:09}", time.as_secs(), time.subsec_nanos()));
        let vlan = |&(tpid, tci): &(u16, u16)| VlanReport {
            tpid: format!("0x{tpid:04x}"),
            vid: tci & 0xfff,
            pcp: tci >> 13,
        };
        Self {
            frame: captured.number,
            time,
            interface: captured.interface,
            length: captured.original,
            captured: captured.octets.len(),
            verdict: FrameVerdict::Read,
            counter: None,
            reason: None,
            notes: Vec::new(),
            destination: header.map(|header| header.destination.to_string()),
            source: source.map(|source| source.to_string()),
            vlans: anatomy.vlans.iter().map(vlan).collect(),
            ethertype: header.map(|header| header.ethertype.to_string()),
            sectag: macsec.map(SecTagReport::new),
            sci: sci.map(|sci| sci.to_string()),
            pn: None,
            sak: None,
            mkpdu: None,
            secure_data: macsec.and_then(|macsec| macsec.secure_data.ok()),
            padding: macsec.map_or(0, |macsec| macsec.padding),
            sdus: Vec::new(),
        }
    }

    /// Sets the verdict to bad, with the counter that a receiver would move.
    pub(super) fn set_bad(&mut self, counter: Option<&'static str>, reason: impl Into<String>) {
        (self.verdict, self.counter, self.reason) = (FrameVerdict::Bad, counter, Some(reason.into()));
    }
}

impl SecTagReport {
    fn new(macsec: &Macsec) -> Self {
        let tag = &macsec.tag;
        let extension = |&header: &u16| {
            let (segl, reserved, cf, ext) = extension_fields(header);
            ExtensionReport { segl, reserved, cf, ext }
        };
        Self {
            sc: matches!(tag.sc, ScEncoding::Explicit(_)),
            es: matches!(
                tag.sc,
                ScEncoding::EndStation | ScEncoding::SingleCopyBroadcast { end_station: true }
            ),
            scb: matches!(tag.sc, ScEncoding::SingleCopyBroadcast { .. }),
            e: tag.data == SecureData::Encrypted,
            c: tag.data != SecureData::Clear,
            an: tag.an.number(),
            ext: tag.extended,
            mf: tag.more_fragments,
            sl: tag.short_length.map_or(0, |length| length.octets()),
            pn: tag.pn,
            extensions: macsec.extensions.iter().map(extension).collect(),
            segments: macsec
                .segments
                .as_ref()
                .map(|segments| segments.lengths().to_vec())
                .unwrap_or_default(),
        }
    }
}

impl fmt::Display for SecTagReport {
    /// `AN 0 EC MF EXT[600 CF]`, without the PN.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AN {}", self.an)?;
        for (set, word) in [(self.es, "ES"), (self.scb, "SCB"), (self.e, "E"), (self.c, "C"), (self.mf, "MF")]
        {
            if set {
                write!(f, " {word}")?;
            }
        }
        for ExtensionReport { segl, reserved, cf, ext } in &self.extensions {
            let mark = match (*segl, *reserved, *cf, *ext) {
                (0, 1, false, false) => Some(" PADDED"),
                (0, 3, false, false) => Some(" COVER"),
                _ => None,
            };
            if let Some(mark) = mark {
                f.write_str(mark)?;
                continue;
            }
            write!(f, " EXT[{segl}{}", if *cf { " CF" } else { "" })?;
            if *reserved != 0 {
                write!(f, " reserved {reserved:#x}")?;
            }
            write!(f, "]")?;
        }
        if self.sl != 0 {
            write!(f, " SL {}", self.sl)?;
        }
        Ok(())
    }
}
