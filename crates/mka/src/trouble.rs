//! What stands in the way of a secured link, in words for those who run the network.

use core::time::Duration;

use wire::Instant;
use wire::mkpdu::Capability;

use crate::announcement::is_eligible;
use crate::election::Server;
use crate::kay::Kay;
use crate::reason::{Reason, Refusal};
use crate::timers::TROUBLE;

/// The same thing is told again after this time, if it goes on.
const AGAIN: Duration = Duration::from_secs(60);

/// What was heard, and does not belong to a group that works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hindrance {
    WrongCak,
    OtherCkn,
    OtherAgility,
    SciInUse,
    TooManyPeers,
}

/// When each of them was noticed last, and told last.
#[derive(Debug, Default)]
pub(crate) struct Hindrances([Option<(Instant, Instant)>; 5]);

impl Hindrances {
    /// Notes one. True if people should be told.
    fn note(&mut self, now: Instant, hindrance: Hindrance) -> bool {
        let noted = &mut self.0[hindrance as usize];
        match noted {
            Some((noticed, told)) if now < *told + AGAIN => {
                *noticed = now;
                false
            }
            _ => {
                *noted = Some((now, now));
                true
            }
        }
    }

    fn is_recent(&self, now: Instant, hindrance: Hindrance) -> bool {
        self.0[hindrance as usize].is_some_and(|(noticed, _)| now < noticed + TROUBLE)
    }
}

impl Kay {
    pub(crate) fn hinder(&mut self, hindrance: Hindrance, reason: Reason) {
        if self.hindrances.note(self.now, hindrance) {
            self.out.tell(self.now, reason);
        }
    }

    /// What stands in the way, if anything does.
    pub(crate) fn trouble(&self, now: Instant) -> Option<&'static str> {
        let recent = |hindrance| self.hindrances.is_recent(now, hindrance);
        let Some(principal) = self.principal() else { return Some("no CAK is configured") };
        if recent(Hindrance::SciInUse) {
            return Some("another station uses the SCI of this one: give each its own MAC address or sci");
        }
        if recent(Hindrance::TooManyPeers) {
            return Some("more than 33 stations share this CAK: one of them at least is left out");
        }
        if principal.peers.live().next().is_none() {
            return Some(if recent(Hindrance::WrongCak) {
                "a station with the same CKN has another CAK: compare the cak of both ends"
            } else if recent(Hindrance::OtherCkn) {
                "a station speaks under another CKN: compare the ckn of both ends"
            } else if recent(Hindrance::OtherAgility) {
                "a station uses other key agreement algorithms than IEEE 802.1X-2020 knows"
            } else if principal.peers.potential().next().is_some() {
                "a station is heard, but has not shown to hear this one: frames may pass in one direction alone"
            } else {
                "no other station is heard: link, VLAN, or a switch that does not forward the MKPDUs' destination address"
            });
        }
        let left_out = || principal.peers.live().any(|peer| !is_eligible(&self.settings, peer));
        let secured = self.cp.transmitting().is_some();
        match principal.server() {
            Server::None if !secured => {
                Some("no key server: all stations have priority 255, or none can do MACsec")
            }
            Server::Me if left_out() => {
                Some("a station is left out: it does no MACsec, or does not have the configured cipher suite")
            }
            Server::Peer(_) if let Some((_, why)) = principal.refused => Some(refused(why)),
            Server::Me | Server::Peer(_) if !secured && self.settings.capability == Capability::None => {
                Some("this station is configured without MACsec")
            }
            Server::Me | Server::Peer(_) if !secured && self.cp.latest().is_some() => {
                Some("a SAK is there, and protects as soon as all stations accept it")
            }
            Server::Me if !secured => Some("a SAK is due: stations of the group are still missing"),
            Server::Peer(_) if !secured => Some("waiting for the key server's SAK"),
            _ => None,
        }
    }
}

const fn refused(why: Refusal) -> &'static str {
    match why {
        Refusal::NoMacsec => "the key server says that MACsec is not to be used: check its configuration",
        Refusal::UnknownSuite(_) => "the key server chose a cipher suite that this station does not have",
        Refusal::Suite(_) => {
            "the key server chose a cipher suite that this station's configuration does not allow"
        }
        Refusal::Confidentiality(_) => {
            "the key server asks for a confidentiality or an offset that this station cannot do"
        }
        Refusal::Unwrap => "the key server's SAK does not open under the CAK",
        Refusal::Old(_) => {
            "the key server hands out a SAK that was in use before: it has to make another one"
        }
    }
}
