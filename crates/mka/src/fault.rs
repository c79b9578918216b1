//! Faults that prevent a secured link, for operators.

use core::fmt;
use core::time::Duration;

use wire::mkpdu::Capability;
use wire::{Ckn, Instant, Sci};

use crate::cp::Cp;
use crate::election::ElectedServer;
use crate::gaps::Gap;
use crate::names::{Named, Names};
use crate::observed_faults::{ForeignMkpdus, Observed};
use crate::participants::Participants;
use crate::reason::{Reason, Refusal};
use crate::station::Station;
use crate::terms::is_eligible;

/// Fault that prevents a secured link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No CAK is configured.
    NoCak,
    /// Another station has our SCI.
    SciInUse,
    /// There are more stations than a SecY can receive from.
    TooManyPeers,
    /// Nobody is live, and MKPDUs under our CKN have wrong ICVs.
    WrongCak,
    /// Nobody is live, and MKPDUs under another CKN are heard: of a station that belongs to the link, or nobody was live before.
    OtherCkn,
    /// Nobody is live, though somebody was. A station that does not belong to the link speaks under another CKN.
    Gone {
        /// The member that was live last.
        member: Sci,
        /// Time since it was lost, if that is remembered.
        ago: Option<Duration>,
        /// The other station's SCI, as it says.
        other: Sci,
        /// The other CKN.
        ckn: Ckn,
    },
    /// Nobody is live, and MKPDUs with other algorithms are heard.
    OtherAgility,
    /// Only stations that do not belong to the link are live.
    Strangers,
    /// Nobody is live, and a heard station has not proved that it hears us.
    OneWay,
    /// No station is heard.
    Alone,
    /// No station may be key server.
    NoKeyServer,
    /// A live station gets no SAK.
    LeftOut,
    /// Some members do not hear each other: the first such pair. Status lists all.
    Partial(Gap),
    /// The key server's SAK is rejected.
    Refused(Refusal),
    /// This station must not do MACsec.
    NoMacsec,
    /// The SAK waits for stations to accept it.
    NotAccepted,
    /// This station has to make a SAK.
    SakDue,
    /// The key server has to make a SAK.
    SakAwaited,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Names::default().within(self).fmt(f)
    }
}

impl fmt::Display for Named<'_, Fault> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Fault as F;
        f.write_str(match self.told {
            F::NoCak => "no CAK is configured",
            F::SciInUse => {
                "another station uses the SCI of this one: give each its own MAC address or sci"
            }
            F::TooManyPeers => "more than 33 stations share this CAK: at least one is left out",
            F::WrongCak => "a station with the same CKN has another CAK: compare the cak of both ends",
            F::OtherCkn => "a station speaks under another CKN: compare the ckn of both ends",
            F::Gone { member, ago, other, ckn } => {
                write!(f, "member {} is gone", self.names.beside(*member))?;
                if let Some(ago) = ago {
                    write!(f, " for {} s", ago.as_secs())?;
                }
                return write!(
                    f,
                    ": check whether that box runs, and its cable; a station that is no member, {other}, speaks under another CKN, {ckn}: if it replaces that box, give it the same CAK file, else it is of another link"
                );
            }
            F::OtherAgility => {
                "a station uses other key agreement algorithms than IEEE 802.1X-2020 knows"
            }
            F::Strangers => {
                "a station has the fallback CAK, but is not known to belong to this link: give it the preferred CAK, or name it in peers"
            }
            F::OneWay => {
                "a station is heard, but has not shown that it hears this one: perhaps frames pass in one direction only"
            }
            F::Alone => {
                "no other station is heard: check the link, the VLAN, and whether the switches forward the MKPDUs' destination address"
            }
            F::NoKeyServer => "no key server: all stations have priority 255, or none can do MACsec",
            F::LeftOut => {
                "a station is left out: it does not do MACsec, or lacks the configured cipher suite"
            }
            F::Partial(gap) => return self.names.within(gap).fmt(f),
            F::Refused(why) => refused(*why),
            F::NoMacsec => "this station is configured without MACsec",
            F::NotAccepted => "a SAK is installed, and will protect when all stations accept it",
            F::SakDue => "a SAK is due, but stations of the group are missing",
            F::SakAwaited => "waiting for the key server's SAK",
        })
    }
}

/// The present fault, if any.
pub(crate) fn present(
    station: &Station,
    participants: &Participants,
    cp: &Cp,
    foreign: &ForeignMkpdus,
    now: Instant,
) -> Option<Fault> {
    let Some(principal) = participants.principal() else { return Some(Fault::NoCak) };
    let recent = |fault| participants.all().iter().any(|participant| participant.has_fault(now, fault));
    if recent(Observed::SciInUse) {
        return Some(Fault::SciInUse);
    }
    if recent(Observed::TooManyPeers) {
        return Some(Fault::TooManyPeers);
    }
    if principal.peers().live().next().is_none() {
        return Some(if recent(Observed::WrongCak) {
            Fault::WrongCak
        } else if let Some(ckn) = other_ckn(participants, foreign, now) {
            gone(station, participants, foreign.other_sci(), ckn, now).unwrap_or(Fault::OtherCkn)
        } else if foreign.has_other_agility(now) {
            Fault::OtherAgility
        } else if !participants.strangers(now).is_empty() {
            Fault::Strangers
        } else if principal.peers().potential().next().is_some() {
            Fault::OneWay
        } else {
            Fault::Alone
        });
    }
    let settings = station.settings();
    let left_out = || principal.peers().live().any(|peer| !is_eligible(settings, peer));
    let secured = cp.transmitting().is_some();
    let gap = || principal.gaps(now).first().copied();
    match principal.server() {
        ElectedServer::None if !secured => Some(gap().map_or(Fault::NoKeyServer, Fault::Partial)),
        ElectedServer::Me if left_out() => Some(Fault::LeftOut),
        ElectedServer::Peer(_) if let Some((_, why)) = principal.refused() => Some(Fault::Refused(why)),
        ElectedServer::Me | ElectedServer::Peer(_) if !secured && settings.capability == Capability::None => {
            Some(Fault::NoMacsec)
        }
        ElectedServer::Me | ElectedServer::Peer(_) if !secured && cp.latest().is_some() => {
            Some(Fault::NotAccepted)
        }
        ElectedServer::Me if !secured => Some(gap().map_or(Fault::SakDue, Fault::Partial)),
        ElectedServer::Peer(_) if !secured => Some(gap().map_or(Fault::SakAwaited, Fault::Partial)),
        _ => gap().map(Fault::Partial),
    }
}

/// A CKN that has become ours meanwhile is not foreign.
fn other_ckn(participants: &Participants, foreign: &ForeignMkpdus, now: Instant) -> Option<Ckn> {
    let is_ours = |ckn: &Ckn| participants.all().iter().any(|participant| participant.ckn() == *ckn);
    foreign.other_ckn(now).filter(|ckn| !is_ours(ckn))
}

/// The loss of the member that was live last, if the other CKN is not that of a station of this link: a member that speaks under
/// another CKN is no lost one.
fn gone(
    station: &Station,
    participants: &Participants,
    other: Option<Sci>,
    ckn: Ckn,
    now: Instant,
) -> Option<Fault> {
    let (member, other) = participants.last_live().zip(other)?;
    if participants.is_known(station.settings(), other) {
        return None;
    }
    let changes = station.changes();
    let lost = changes.iter().rev().find(|change| change.reason == Reason::PeerLost { sci: member });
    Some(Fault::Gone { member, ago: lost.map(|change| now.since(change.at)), other, ckn })
}

const fn refused(why: Refusal) -> &'static str {
    match why {
        Refusal::NoMacsec => "the key server tells members not to use MACsec: check its configuration",
        Refusal::UnknownSuite(_) => {
            "the key server chose a cipher suite that this station lacks: set suite alike at both ends"
        }
        Refusal::Suite(_) => {
            "the key server chose a cipher suite that this station's configuration does not allow: set suite alike at both ends"
        }
        Refusal::Confidentiality(_) => {
            "the key server asks for a confidentiality offset that this station does not support"
        }
        Refusal::Weaker(_) => {
            "the key server's keys hide less than encrypt asks for here, so this station refuses them: set encrypt alike at both ends, or accept_integrity = true here"
        }
        Refusal::Unwrap => "the key server's SAK cannot be unwrapped under the CAK",
        Refusal::Old(_) => {
            "the key server distributes a SAK that was in use before: it has to make a new one"
        }
    }
}
