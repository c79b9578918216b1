//! Report on an MKPDU: the same fields in text and in JSON. It holds no keys, not even wrapped ones.

use std::fmt;

use serde::Serialize;
use suite::CipherSuite;
use wire::mkpdu::{
    Capability, Confidentiality, DistributedSak, Extensions, KeyUse, Mkpdu, ParameterSet, PeerList, SakUse,
    SystemName, TimingList, Tlv, Tlvs,
};

/// An MKPDU, set by set.
#[derive(Clone, Debug, Serialize)]
pub struct MkpduReport {
    /// The sender's SCI.
    pub sci: String,
    /// The sender's MI.
    pub mi: String,
    /// Its Message Number.
    pub mn: u32,
    /// Under which CAK it speaks.
    pub ckn: String,
    /// The EAPOL version.
    pub eapol_version: u8,
    /// The MKA version.
    pub mka_version: u8,
    /// The key server priority.
    pub priority: u8,
    /// The sender is key server, or believes that it should be.
    pub key_server: bool,
    /// It wants MACsec.
    pub macsec_desired: bool,
    /// Its MACsec capability.
    pub capability: &'static str,
    /// The algorithm agility.
    pub algorithm_agility: String,
    /// The Live Peer List.
    pub live_peers: Option<Vec<PeerReport>>,
    /// The low octet of the key server's SSCI, from MKA version 3 on.
    pub key_server_ssci: Option<u8>,
    /// The Potential Peer List.
    pub potential_peers: Option<Vec<PeerReport>>,
    /// SAK Use.
    pub sak_use: Option<SakUseReport>,
    /// Distributed SAK.
    pub distributed_sak: Option<DistributedReport>,
    /// The name of a CAK that is handed out.
    pub distributed_cak: Option<String>,
    /// The Key Management Domain, in hexadecimal.
    pub kmd: Option<String>,
    /// The announcement's TLVs.
    pub announcement: Option<Vec<TlvReport>>,
    /// XPN.
    pub xpn: Option<XpnReport>,
    /// Parameter sets of other types.
    pub unknown_sets: Vec<UnknownReport>,
    /// The ICV Indicator is there.
    pub icv_indicator: bool,
}

/// A participant in a list.
#[derive(Clone, Debug, Serialize)]
pub struct PeerReport {
    /// Its MI.
    pub mi: String,
    /// The last MN heard of it.
    pub mn: u32,
}

/// SAKs that the sender uses.
#[derive(Clone, Debug, Serialize)]
pub struct SakUseReport {
    /// The latest key.
    pub latest: Option<KeyUseReport>,
    /// The one before.
    pub old: Option<KeyUseReport>,
    /// It sends in clear.
    pub plain_tx: bool,
    /// It accepts frames in clear.
    pub plain_rx: bool,
    /// Receivers may hold it to its lowest PNs.
    pub delay_protect: bool,
}

/// A SAK in use.
#[derive(Clone, Debug, Serialize)]
pub struct KeyUseReport {
    /// Its KI: MI and KN.
    pub sak: String,
    /// Its AN.
    pub an: u8,
    /// The sender protects frames with it.
    pub tx: bool,
    /// The sender accepts frames under it.
    pub rx: bool,
    /// The low half of the lowest PN.
    pub lowest_pn: u32,
}

/// A SAK that is handed out, without the key.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum DistributedReport {
    /// An empty set: no MACsec.
    NoMacsec {
        /// Always false.
        macsec: bool,
    },
    /// A wrapped SAK.
    Sak {
        /// Its KI: MI and KN.
        sak: String,
        /// Its Key Number.
        kn: u32,
        /// Its AN.
        an: u8,
        /// The suite's name, or the identifier of one that is not known.
        suite: String,
        /// `integrity`, or the octets that stay in clear.
        confidentiality: &'static str,
        /// Octets of the wrapped key.
        wrapped_octets: usize,
    },
}

/// A TLV of an announcement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TlvReport {
    /// The suites that the sender has, each with what it can do.
    CipherSuites(Vec<(String, &'static str)>),
    /// Ours: what it receives beyond the standard.
    Frameward {
        /// It puts SDUs together again.
        reassembles: bool,
        /// It separates SDUs that share a frame.
        splits: bool,
        /// It misses a station under this CAK.
        misses: bool,
        /// Its network carries its longest SDU whole.
        carries_whole: bool,
        /// It has programs in the kernel, which take whole SDUs.
        in_kernel: bool,
        /// It receives express SCs.
        express: bool,
        /// It takes padded frames.
        takes_padded: bool,
        /// Octets of the longest SDU that it takes.
        largest_sdu: u16,
        /// Suites, and nanoseconds for a frame of 512 octets.
        figures: Vec<(String, u16)>,
    },
    /// Ours: what the sender calls itself.
    Name(String),
    /// Ours, but the name is none: why.
    BadName(String),
    /// Any other.
    Other {
        /// Its type.
        kind: u8,
        /// Octets of its value.
        octets: usize,
    },
}

/// Additions of XPN to SAK Use.
#[derive(Clone, Debug, Serialize)]
pub struct XpnReport {
    /// MKA suspension time in seconds.
    pub suspension: u8,
    /// The high half of the latest key's lowest PN.
    pub latest_lowest_pn_high: u32,
    /// The high half of the old key's lowest PN.
    pub old_lowest_pn_high: u32,
}

/// A parameter set of another type.
#[derive(Clone, Debug, Serialize)]
pub struct UnknownReport {
    /// Its type.
    pub kind: u8,
    /// Octets of its body.
    pub octets: usize,
}

impl MkpduReport {
    /// All that an MKPDU says.
    pub fn new(mkpdu: &Mkpdu<'_>) -> Self {
        let basic = &mkpdu.basic;
        let mut report = Self {
            sci: basic.sci.to_string(),
            mi: basic.mi.to_string(),
            mn: basic.mn,
            ckn: basic.ckn.to_string(),
            eapol_version: mkpdu.eapol_version,
            mka_version: basic.version,
            priority: basic.priority,
            key_server: basic.key_server,
            macsec_desired: basic.macsec_desired,
            capability: capability(basic.capability),
            algorithm_agility: hex::encode(basic.agility),
            live_peers: None,
            key_server_ssci: None,
            potential_peers: None,
            sak_use: None,
            distributed_sak: None,
            distributed_cak: None,
            kmd: None,
            announcement: None,
            xpn: None,
            unknown_sets: Vec::new(),
            icv_indicator: mkpdu.icv_indicated,
        };
        mkpdu.sets().for_each(|set| report.set(set));
        report
    }

    fn set(&mut self, set: ParameterSet<'_>) {
        match set {
            ParameterSet::LivePeers { key_server_ssci, peers: list } => {
                self.key_server_ssci = (key_server_ssci != 0).then_some(key_server_ssci);
                self.live_peers = Some(peers(list));
            }
            ParameterSet::PotentialPeers(list) => self.potential_peers = Some(peers(list)),
            ParameterSet::SakUse(sak_use) => self.sak_use = Some(SakUseReport::new(&sak_use)),
            ParameterSet::DistributedSak(None) => {
                self.distributed_sak = Some(DistributedReport::NoMacsec { macsec: false });
            }
            ParameterSet::DistributedSak(Some(sak)) => {
                let DistributedSak { an, confidentiality, kn, suite, wrapped } = sak;
                self.distributed_sak = Some(DistributedReport::Sak {
                    sak: format!("{}/{kn}", self.mi),
                    kn,
                    an: an.number(),
                    suite: suite_name(suite.unwrap_or_else(|| CipherSuite::GcmAes128.identifier())),
                    confidentiality: offset(confidentiality),
                    wrapped_octets: wrapped.len(),
                });
            }
            ParameterSet::DistributedCak { ckn, .. } => self.distributed_cak = Some(hex::encode(ckn)),
            ParameterSet::Kmd(domain) => self.kmd = Some(hex::encode(domain)),
            ParameterSet::Announcement(list) => self.announcement = Some(tlvs(list)),
            ParameterSet::Xpn { suspension, latest_lowest_pn_high, old_lowest_pn_high } => {
                self.xpn = Some(XpnReport { suspension, latest_lowest_pn_high, old_lowest_pn_high });
            }
            ParameterSet::Unknown { kind, body, .. } => {
                self.unknown_sets.push(UnknownReport { kind, octets: body.len() });
            }
        }
    }
}

impl SakUseReport {
    fn new(sak_use: &SakUse) -> Self {
        let key = |key: Option<KeyUse>| {
            let KeyUse { ki, an, tx, rx, lowest_pn } = key?;
            Some(KeyUseReport { sak: ki.to_string(), an: an.number(), tx, rx, lowest_pn })
        };
        Self {
            latest: key(sak_use.latest),
            old: key(sak_use.old),
            plain_tx: sak_use.plain_tx,
            plain_rx: sak_use.plain_rx,
            delay_protect: sak_use.delay_protect,
        }
    }
}

fn peers(list: PeerList<'_>) -> Vec<PeerReport> {
    list.iter().map(|heard| PeerReport { mi: heard.mi.to_string(), mn: heard.mn }).collect()
}

fn tlvs(list: Tlvs<'_>) -> Vec<TlvReport> {
    let report = |tlv| match tlv {
        Tlv::CipherSuites(suites) => {
            let suites = suites.iter();
            TlvReport::CipherSuites(
                suites.map(|suite| (suite_name(suite.identifier), capability(suite.capability))).collect(),
            )
        }
        Tlv::Extensions(extensions, figures) => frameward(extensions, figures),
        Tlv::Name(octets) => match SystemName::new(octets) {
            Ok(name) => TlvReport::Name(name.to_string()),
            Err(bad) => TlvReport::BadName(bad.to_string()),
        },
        Tlv::Other { kind, value } => TlvReport::Other { kind, octets: value.len() },
    };
    list.iter().map(report).collect()
}

fn frameward(extensions: Extensions, figures: TimingList<'_>) -> TlvReport {
    let Extensions {
        reassembles,
        splits,
        misses,
        express,
        takes_padded,
        carries_whole,
        in_kernel,
        largest_sdu,
    } = extensions;
    let figures = figures.iter().map(|figure| (suite_name(figure.identifier), figure.nanoseconds)).collect();
    TlvReport::Frameward {
        reassembles,
        splits,
        misses,
        carries_whole,
        in_kernel,
        express,
        takes_padded,
        largest_sdu,
        figures,
    }
}

/// The suite's name, or the identifier of one that is not known.
fn suite_name(identifier: [u8; 8]) -> String {
    CipherSuite::from_identifier(identifier)
        .map_or_else(|| hex::encode(identifier), |suite| suite.name().to_owned())
}

const fn capability(capability: Capability) -> &'static str {
    match capability {
        Capability::None => "none",
        Capability::Integrity => "integrity",
        Capability::Confidentiality => "confidentiality",
        Capability::Offsets => "offsets",
    }
}

const fn offset(confidentiality: Confidentiality) -> &'static str {
    match confidentiality {
        Confidentiality::Integrity => "integrity",
        Confidentiality::Zero => "0",
        Confidentiality::Thirty => "30",
        Confidentiality::Fifty => "50",
    }
}

impl fmt::Display for MkpduReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sci, mi, mn, priority, .. } = self;
        write!(f, "MKPDU of {sci}, MI {mi}, MN {mn}, priority {priority}")?;
        if self.key_server {
            f.write_str(", key server")?;
        }
        if !self.macsec_desired {
            f.write_str(", wants no MACsec")?;
        }
        write!(f, ", CKN {}", self.ckn)?;
        for (name, list) in [("live", &self.live_peers), ("potential", &self.potential_peers)] {
            let Some(list) = list else { continue };
            let peers: Vec<_> = list.iter().map(|PeerReport { mi, mn }| format!("{mi} MN {mn}")).collect();
            write!(f, "; {name} {} ({})", peers.len(), peers.join(", "))?;
        }
        if let Some(sak_use) = &self.sak_use {
            write!(f, "{sak_use}")?;
        }
        if let Some(XpnReport { latest_lowest_pn_high, old_lowest_pn_high, .. }) = &self.xpn {
            write!(f, "; XPN high halves {latest_lowest_pn_high}, {old_lowest_pn_high}")?;
        }
        match &self.distributed_sak {
            None => {}
            Some(DistributedReport::NoMacsec { .. }) => f.write_str("; tells members not to use MACsec")?,
            Some(DistributedReport::Sak { kn, an, suite, confidentiality, .. }) => {
                let protection = match *confidentiality {
                    "integrity" => "integrity only".to_owned(),
                    octets => format!("confidentiality offset {octets}"),
                };
                write!(f, "; distributes SAK {kn} on AN {an}, {suite}, {protection}")?;
            }
        }
        if let Some(ckn) = &self.distributed_cak {
            write!(f, "; distributes the CAK {ckn}")?;
        }
        if let Some(kmd) = &self.kmd {
            write!(f, "; KMD {kmd}")?;
        }
        for tlv in self.announcement.iter().flatten() {
            write!(f, "; {tlv}")?;
        }
        self.unknown_sets.iter().try_for_each(|set| write!(f, "; unknown set {}", set.kind))
    }
}

impl fmt::Display for SakUseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, key) in [("latest", &self.latest), ("old", &self.old)] {
            let Some(KeyUseReport { sak, an, tx, rx, lowest_pn }) = key else { continue };
            let does = match (rx, tx) {
                (true, true) => "receives, transmits",
                (true, false) => "receives",
                (false, true) => "transmits",
                (false, false) => "unused",
            };
            write!(f, "; {name} SAK {sak} AN {an} ({does}, lowest PN {lowest_pn})")?;
        }
        for (set, words) in [
            (self.plain_tx, "sends in clear"),
            (self.plain_rx, "accepts frames in clear"),
            (self.delay_protect, "delay protect"),
        ] {
            if set {
                write!(f, "; {words}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for TlvReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CipherSuites(suites) => {
                let names: Vec<_> = suites.iter().map(|(name, _)| name.as_str()).collect();
                write!(f, "has {}", names.join(", "))
            }
            Self::Frameward {
                reassembles,
                splits,
                misses,
                carries_whole,
                in_kernel,
                express,
                takes_padded,
                largest_sdu,
                ..
            } => {
                let said = [
                    (reassembles, "reassembles"),
                    (splits, "splits"),
                    (misses, "misses a station"),
                    (carries_whole, "carries whole payloads"),
                    (in_kernel, "kernel path"),
                    (express, "receives express SCs"),
                    (takes_padded, "takes padded frames"),
                ];
                let said: Vec<_> = said.iter().filter(|(is, _)| **is).map(|(_, word)| *word).collect();
                let comma = if said.is_empty() { "" } else { ", " };
                write!(f, "{}{comma}largest payload {largest_sdu}", said.join(", "))
            }
            Self::Name(name) => write!(f, "named \"{name}\" by itself"),
            Self::BadName(why) => write!(f, "a name that is none: {why}"),
            Self::Other { kind, octets } => write!(f, "TLV {kind} of {octets} octets"),
        }
    }
}
