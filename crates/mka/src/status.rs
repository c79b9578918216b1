//! Status of a KaY. Nothing here is secret.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use suite::CipherSuite;
use wire::mkpdu::{Confidentiality, SystemName};
use wire::{An, Ckn, Instant, Ki, Mi, Sci};

use crate::cp::{Cp, InstalledSak};
use crate::election::ElectedServer;
use crate::event::FragmentAgreement;
use crate::fault::Fault;
use crate::gaps::Gap;
use crate::names::Names;
use crate::participants::Participants;
use crate::peer::Peer;
use crate::reason::Reason;
use crate::station::Station;

/// A member of the group, as this KaY sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberStatus {
    /// Its SCI.
    pub sci: Sci,
    /// Its MI.
    pub mi: Mi,
    /// Its key server priority.
    pub priority: u8,
    /// True if it has proved that it hears this KaY.
    pub live: bool,
    /// Time of its last MKPDU.
    pub heard: Instant,
    /// True if it announced Frameward's own capabilities.
    pub announced: bool,
    /// True if it announced that it takes padded frames.
    pub takes_padded: bool,
    /// Name that it announces, if it is valid.
    pub name: Option<SystemName>,
    /// The SAK that it protects with, and the lowest PN of its frames of the last 2 s, as it tells.
    pub sends_under: Option<(Ki, u64)>,
}

/// A change that operators were told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangeStatus {
    /// Time of the change.
    pub at: Instant,
    /// The change, and why.
    pub reason: Reason,
    /// The same in words, with the names that stations had then.
    pub words: String,
}

/// A SAK in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SakStatus {
    /// Its identifier.
    pub ki: Ki,
    /// Its AN.
    pub an: An,
    /// The suite.
    pub suite: CipherSuite,
    /// Confidentiality of its frames.
    pub confidentiality: Confidentiality,
    /// Fragmentation of SDUs, and the use of express SCs.
    pub fragmentation: FragmentAgreement,
    /// Every frame holds one whole SDU, also those of peers.
    pub whole: bool,
    /// Time of its installation.
    pub since: Instant,
    /// True if it protects transmitted frames.
    pub transmits: bool,
}

/// The state of a KaY.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Name of the CAK (one zero octet without any) in whose group the keys are agreed on.
    pub ckn: Ckn,
    /// Own MI in that group.
    pub mi: Mi,
    /// True if this KaY is key server.
    pub is_key_server: bool,
    /// The SCI of the key server, if one is elected.
    pub key_server: Option<Sci>,
    /// The other members.
    pub members: Vec<MemberStatus>,
    /// The latest SAK, and the previous one while it is accepted.
    pub saks: Vec<SakStatus>,
    /// Time of the next SAK, if known.
    pub next_rekey: Option<Instant>,
    /// Recent changes, newest last; a few dozen.
    pub changes: Vec<ChangeStatus>,
    /// Members that have not heard each other for a life time.
    pub gaps: Vec<Gap>,
    /// Live stations that do not belong to the link, each with its CKN.
    pub strangers: Vec<(Sci, Ckn)>,
    /// True if keys are agreed on under another CAK than the preferred one.
    pub under_fallback: bool,
    /// Names of the stations in all of this.
    pub names: Names,
    /// Fault that prevents a secured link; `None` if the link is secured with all heard stations.
    pub fault: Option<Fault>,
}

/// The state of a KaY, read off its parts.
pub(crate) fn of(
    station: &Station,
    participants: &Participants,
    cp: &Cp,
    fault: Option<Fault>,
    now: Instant,
) -> Status {
    let principal = participants.principal();
    let key_server = principal.and_then(|principal| match principal.server() {
        ElectedServer::Me => Some(station.settings().sci),
        ElectedServer::Peer(_) => principal.server_peer().map(|peer| peer.sci),
        ElectedServer::None => None,
    });
    let handed_out = principal.and_then(|principal| principal.distribution());
    let lifetime = station.settings().sak_lifetime;
    Status {
        ckn: principal.map_or_else(no_ckn, |principal| principal.ckn()),
        mi: principal.map_or(Mi([0; 12]), |principal| principal.mi()),
        is_key_server: principal.is_some_and(|principal| principal.server() == ElectedServer::Me),
        key_server,
        members: principal
            .into_iter()
            .flat_map(|principal| principal.peers().all())
            .map(|peer| member(peer, cp))
            .collect(),
        saks: cp.saks().iter().rev().map(sak).collect(),
        next_rekey: handed_out.zip(lifetime).map(|(handed_out, lifetime)| handed_out.since + lifetime),
        changes: station.changes(),
        gaps: principal.map_or_else(Vec::new, |principal| principal.gaps(now)),
        strangers: participants.strangers(now),
        under_fallback: participants.is_under_fallback(),
        names: station.names().clone(),
        fault,
    }
}

fn no_ckn() -> Ckn {
    Ckn::new(&[0]).expect("invariant: a name has 1 to 32 octets")
}

fn member(peer: &Peer, cp: &Cp) -> MemberStatus {
    let sends_under = peer.uses.iter().find(|key| key.tx);
    // A PN beyond that asks for another SAK, and says nothing of frames.
    let sends_under =
        sends_under.filter(|key| cp.find(key.ki).is_none_or(|sak| key.lowest_pn < sak.exhaustion()));
    MemberStatus {
        sci: peer.sci,
        mi: peer.mi,
        priority: peer.priority,
        live: peer.live,
        heard: peer.heard,
        announced: peer.announcement.ours,
        takes_padded: peer.announcement.takes_padded,
        name: peer.announcement.name.and_then(Result::ok),
        sends_under: sends_under.map(|key| (key.ki, key.lowest_pn)),
    }
}

fn sak(sak: &InstalledSak) -> SakStatus {
    SakStatus {
        ki: sak.ki,
        an: sak.an,
        suite: sak.suite,
        confidentiality: sak.confidentiality,
        fragmentation: sak.fragmentation,
        whole: sak.whole,
        since: sak.since,
        transmits: sak.tx,
    }
}
