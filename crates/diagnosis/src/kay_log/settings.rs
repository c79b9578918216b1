//! A KaY's settings as they stand in its log.

use std::time::Duration;

use mka::{Announced, OnPeerLoss, Settings, SuiteRule, SuiteTiming};
use serde::{Deserialize, Serialize};
use suite::CipherSuite;
use wire::MacAddr;
use wire::mkpdu::{Capability, Confidentiality, SystemName};

/// [`Settings`], spelled out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct LoggedSettings {
    sci: String,
    #[serde(with = "hex::serde")]
    source: [u8; 6],
    #[serde(with = "hex::serde")]
    destination: [u8; 6],
    priority: u8,
    capability: u8,
    confidentiality: u8,
    /// A suite's name, or `auto`.
    suite: String,
    reassembles: bool,
    splits: bool,
    largest_sdu: u16,
    /// Names, and nanoseconds for a frame of 512 octets.
    suites: Vec<(String, u16)>,
    fragment: bool,
    concatenate: bool,
    delay_protect: bool,
    sak_lifetime_us: Option<u64>,
    hold: bool,
    /// SCIs. Absent in logs of before.
    #[serde(default)]
    peers: Vec<String>,
    #[serde(default)]
    accept_integrity: bool,
    #[serde(default)]
    carries_whole: bool,
    #[serde(default)]
    in_kernel: bool,
    #[serde(default)]
    express: bool,
    #[serde(default)]
    takes_padded: bool,
    #[serde(default)]
    pad: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

const ANY: &str = "any";
/// Before the name of a suite of the standard that is taken if all have it.
const STANDARD: &str = "standard ";
const CAPABILITIES: [Capability; 4] =
    [Capability::None, Capability::Integrity, Capability::Confidentiality, Capability::Offsets];
const CONFIDENTIALITIES: [Confidentiality; 4] =
    [Confidentiality::Integrity, Confidentiality::Zero, Confidentiality::Thirty, Confidentiality::Fifty];

impl From<&Settings> for LoggedSettings {
    fn from(settings: &Settings) -> Self {
        let Settings {
            sci,
            source,
            destination,
            priority,
            capability,
            confidentiality,
            suite,
            announced:
                Announced {
                    reassembles,
                    splits,
                    express,
                    takes_padded,
                    carries_whole,
                    in_kernel,
                    largest_sdu,
                    name,
                    suites,
                },
            fragment,
            concatenate,
            pad,
            delay_protect,
            sak_lifetime,
            on_peer_loss,
            peers,
            accept_integrity,
        } = settings;
        let place = |found: Option<usize>| found.map_or(0, |place| place as u8);
        Self {
            sci: sci.to_string(),
            source: source.0,
            destination: destination.0,
            priority: *priority,
            capability: place(CAPABILITIES.iter().position(|other| other == capability)),
            confidentiality: place(CONFIDENTIALITIES.iter().position(|other| other == confidentiality)),
            suite: match suite {
                SuiteRule::Any => ANY.to_owned(),
                SuiteRule::Standard(suite) => format!("{STANDARD}{suite}"),
                SuiteRule::Only(suite) => suite.to_string(),
            },
            reassembles: *reassembles,
            splits: *splits,
            largest_sdu: *largest_sdu,
            suites: suites.iter().map(|figure| (figure.suite.to_string(), figure.nanoseconds)).collect(),
            fragment: *fragment,
            concatenate: *concatenate,
            delay_protect: *delay_protect,
            sak_lifetime_us: sak_lifetime.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
            hold: *on_peer_loss == OnPeerLoss::Hold,
            peers: peers.iter().map(ToString::to_string).collect(),
            accept_integrity: *accept_integrity,
            carries_whole: *carries_whole,
            in_kernel: *in_kernel,
            express: *express,
            takes_padded: *takes_padded,
            pad: *pad,
            name: name.as_ref().map(ToString::to_string),
        }
    }
}

impl LoggedSettings {
    /// The settings; `None` if a value means nothing.
    pub fn settings(&self) -> Option<Settings> {
        let figure = |(name, nanoseconds): &(String, u16)| {
            Some(SuiteTiming { suite: name.parse().ok()?, nanoseconds: *nanoseconds })
        };
        Some(Settings {
            sci: self.sci.parse().ok()?,
            source: MacAddr(self.source),
            destination: MacAddr(self.destination),
            priority: self.priority,
            capability: *CAPABILITIES.get(usize::from(self.capability))?,
            confidentiality: *CONFIDENTIALITIES.get(usize::from(self.confidentiality))?,
            suite: match self.suite.as_str() {
                ANY => SuiteRule::Any,
                name => match name.strip_prefix(STANDARD) {
                    Some(suite) => SuiteRule::Standard(suite.parse::<CipherSuite>().ok()?),
                    None => SuiteRule::Only(name.parse::<CipherSuite>().ok()?),
                },
            },
            announced: Announced {
                reassembles: self.reassembles,
                splits: self.splits,
                carries_whole: self.carries_whole,
                in_kernel: self.in_kernel,
                express: self.express,
                takes_padded: self.takes_padded,
                largest_sdu: self.largest_sdu,
                name: match &self.name {
                    Some(name) => Some(SystemName::new(name.as_bytes()).ok()?),
                    None => None,
                },
                suites: self.suites.iter().map(figure).collect::<Option<_>>()?,
            },
            fragment: self.fragment,
            concatenate: self.concatenate,
            pad: self.pad,
            delay_protect: self.delay_protect,
            sak_lifetime: self.sak_lifetime_us.map(Duration::from_micros),
            on_peer_loss: if self.hold { OnPeerLoss::Hold } else { OnPeerLoss::Block },
            peers: self.peers.iter().map(|sci| sci.parse().ok()).collect::<Option<_>>()?,
            accept_integrity: self.accept_integrity,
        })
    }
}
