//! Reasons for changes, in words for operators.

use core::fmt;

use serde::{Deserialize, Serialize};
use suite::CipherSuite;
use wire::mkpdu::{Confidentiality, SystemName};
use wire::{An, Ckn, Ki, MacAddr, Mi, Sci};

use crate::names::{Named, NamedSci, Names};

/// A change with its reason, for the log and for `status`. None of it is secret.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reason {
    /// Key agreement began under this CKN, with this MI.
    Started {
        /// The name of the CAK.
        ckn: Ckn,
        /// The own MI.
        mi: Mi,
    },
    /// Key agreement under this CKN ended: it is no longer configured.
    Ended {
        /// The name of the CAK.
        ckn: Ckn,
    },
    /// This CKN's group became the one whose SAK is used.
    Principal {
        /// The name of the CAK.
        ckn: Ckn,
        /// It is not the preferred one.
        fallback: bool,
    },
    /// Settings were changed.
    Configured,
    /// The own MI was replaced.
    NewMi {
        /// The new MI.
        mi: Mi,
        /// The reason.
        why: NewMiReason,
    },
    /// A member has proved that it hears us.
    PeerLive {
        /// Its SCI.
        sci: Sci,
    },
    /// A member began anew.
    PeerRestarted {
        /// Its SCI.
        sci: Sci,
    },
    /// A member was not heard, or did not hear us, for a life time.
    PeerLost {
        /// Its SCI.
        sci: Sci,
    },
    /// A member has another name than before.
    Renamed {
        /// Its SCI.
        sci: Sci,
        /// The name before.
        before: SystemName,
        /// The name now.
        now: SystemName,
    },
    /// There are as many members as a SecY can receive from.
    TooManyPeers {
        /// SCI of the rejected station.
        sci: Sci,
    },
    /// A member is key server.
    KeyServer {
        /// Its SCI.
        sci: Sci,
    },
    /// This station is key server.
    KeyServerMyself,
    /// Nobody is key server.
    NoKeyServer,
    /// This station made a SAK.
    SakMade {
        /// Its identifier.
        ki: Ki,
        /// Its AN.
        an: An,
        /// Its suite.
        suite: CipherSuite,
        /// The reason.
        why: SakReason,
    },
    /// A SAK of the key server was accepted.
    SakTaken {
        /// Its identifier.
        ki: Ki,
        /// Its AN.
        an: An,
        /// Its suite.
        suite: CipherSuite,
        /// The key server.
        from: Sci,
    },
    /// A SAK of the key server was rejected.
    SakRefused {
        /// The key server.
        from: Sci,
        /// The reason.
        why: Refusal,
    },
    /// This SAK protects transmitted frames.
    Transmitting {
        /// Its identifier.
        ki: Ki,
    },
    /// This SAK is out of use.
    Retired {
        /// Its identifier.
        ki: Ki,
    },
    /// A member gets no SAK: it does no MACsec, or lacks the suite.
    LeftOut {
        /// Its SCI.
        sci: Sci,
    },
    /// All members have gone.
    Alone {
        /// True if the SAK stays in use.
        held: bool,
    },
    /// MKPDUs under a CKN of ours have wrong ICVs.
    WrongCak {
        /// The name of the CAK.
        ckn: Ckn,
        /// Source address of one.
        source: MacAddr,
    },
    /// MKPDUs under another CKN are heard.
    OtherCkn {
        /// Their CKN.
        ckn: Ckn,
        /// Source address of one.
        source: MacAddr,
    },
    /// MKPDUs with other algorithms are heard.
    OtherAgility {
        /// The algorithm agility.
        agility: [u8; 4],
        /// Source address of one.
        source: MacAddr,
    },
    /// A station that does not belong to the link is live under a CAK.
    Stranger {
        /// Its SCI.
        sci: Sci,
        /// The name of the CAK.
        ckn: Ckn,
    },
    /// Another station uses our SCI.
    SciInUse {
        /// Source address of an MKPDU with it.
        source: MacAddr,
    },
}

/// Reason for a key server's SAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SakReason {
    /// It has become key server.
    Elected,
    /// A member has joined.
    Joined(Sci),
    /// A member that had gone is back.
    Returned(Sci),
    /// A member has dropped the previous SAK.
    Dropped(Sci),
    /// A member of another implementation hears others that it did not hear when it took the previous SAK,
    /// and accepts none of their frames under it.
    NewListeners(Sci),
    /// The common capabilities of all members have changed.
    Terms,
    /// The station with this SCI runs out of PNs, or requests a SAK by saying so.
    PnExhaustion(Sci),
    /// The previous SAK has reached its maximum age.
    Lifetime,
    /// An operator or a member requested it.
    Requested,
}

/// Reason for rejecting a SAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// The key server says that MACsec is not to be used.
    NoMacsec,
    /// A suite that this implementation does not know.
    UnknownSuite([u8; 8]),
    /// A suite other than the configured one, or one that this station has not announced.
    Suite(CipherSuite),
    /// Confidentiality, or an offset, that this station or the suite does not support.
    Confidentiality(Confidentiality),
    /// Less confidentiality than this station's settings require.
    Weaker(Confidentiality),
    /// The wrapped key does not open under the CAK.
    Unwrap,
    /// A previously used SAK: never again, since its PNs were used.
    Old(Ki),
}

/// Reason for a new MI.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NewMiReason {
    /// Another station has the same.
    Duplicate,
    /// The SAK was given up when all members were gone: members that still have it must learn that we do not.
    Blocked,
    /// The key server has given no SAK for a long time.
    Starved,
    /// All Message Numbers are used up.
    MnExhausted,
    /// The settings have another SCI.
    Sci,
}

impl Reason {
    /// Name of a security event of the link, for log searches.
    pub const fn event(&self) -> Option<&'static str> {
        match self {
            Self::Stranger { .. } => Some("stranger-under-cak"),
            Self::Principal { fallback: true, .. } => Some("fallback-in-use"),
            Self::SakRefused { why: Refusal::Weaker(_), .. } => Some("integrity-refused"),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Names::default().within(self).fmt(f)
    }
}

impl fmt::Display for Named<'_, Reason> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Reason as R;
        let named = |sci: &Sci| self.names.beside(*sci);
        match self.told {
            R::Started { ckn, mi } => write!(f, "key agreement under CKN {ckn} begins, MI {mi}"),
            R::Ended { ckn } => write!(f, "key agreement under CKN {ckn} ends: no longer configured"),
            R::Principal { ckn, fallback: false } => write!(f, "SAKs are now agreed on under CKN {ckn}"),
            R::Principal { ckn, fallback: true } => {
                write!(
                    f,
                    "SAKs are now agreed on under CKN {ckn}, the fallback: not all have the preferred CAK"
                )
            }
            R::Configured => f.write_str("settings changed"),
            R::NewMi { mi, why } => write!(f, "new MI {mi}: {why}"),
            R::PeerLive { sci } => write!(f, "member {} is live", named(sci)),
            R::PeerRestarted { sci } => write!(f, "member {} began anew", named(sci)),
            R::PeerLost { sci } => {
                write!(f, "member {} is gone: 6 s without an MKPDU that lists us", named(sci))
            }
            R::Renamed { sci, before, now } => {
                let now = NamedSci(*sci, Some(now));
                write!(f, "member {now} has another name: it was \"{before}\"")
            }
            R::TooManyPeers { sci } => write!(f, "{} refused: a group has at most 33 members", named(sci)),
            R::KeyServer { sci } => write!(f, "{} is key server", named(sci)),
            R::KeyServerMyself => f.write_str("this station is key server"),
            R::NoKeyServer => f.write_str("no key server"),
            R::SakMade { ki, an, suite, why } => {
                write!(f, "SAK {ki} made, AN {an}, {suite}: {}", self.names.within(why))
            }
            R::SakTaken { ki, an, suite, from } => {
                write!(f, "SAK {ki} taken from key server {}, AN {an}, {suite}", named(from))
            }
            R::SakRefused { from, why } => write!(f, "SAK of key server {} refused: {why}", named(from)),
            R::Transmitting { ki } => write!(f, "SAK {ki} protects"),
            R::Retired { ki } => write!(f, "SAK {ki} retired"),
            R::LeftOut { sci } => {
                write!(f, "member {} left out: it does not do MACsec, or lacks the cipher suite", named(sci))
            }
            R::Alone { held: true } => f.write_str("all members are gone: the SAK stays in use (hold)"),
            R::Alone { held: false } => f.write_str("all members are gone: nothing passes (block)"),
            R::WrongCak { ckn, source } => {
                write!(f, "{source} speaks under CKN {ckn} with another CAK: compare the cak of both ends")
            }
            R::OtherCkn { ckn, source } => {
                write!(f, "{source} speaks under CKN {ckn}, which is not configured here")
            }
            R::OtherAgility { agility: [a, b, c, d], source } => {
                write!(
                    f,
                    "{source} uses other algorithms ({a:02x}-{b:02x}-{c:02x}-{d:02x}) for key agreement"
                )
            }
            R::Stranger { sci, ckn } => write!(
                f,
                "{} has the CAK of CKN {ckn}, but is not known to belong to this link: if it does, give it the preferred CAK or name it in peers; else change that CAK",
                named(sci)
            ),
            R::SciInUse { source } => write!(f, "{source} uses the SCI of this station"),
        }
    }
}

impl fmt::Display for Named<'_, SakReason> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use SakReason as R;
        let named = |sci: &Sci| self.names.beside(*sci);
        match self.told {
            R::Elected => f.write_str("elected key server"),
            R::Joined(sci) => write!(f, "member {} joined", named(sci)),
            R::Returned(sci) => write!(f, "member {} is back", named(sci)),
            R::Dropped(sci) => write!(f, "member {} dropped the last SAK", named(sci)),
            R::NewListeners(sci) => {
                write!(
                    f,
                    "member {} hears members that it did not hear when the last SAK was made",
                    named(sci)
                )
            }
            R::Terms => f.write_str("the capabilities of the members have changed"),
            R::PnExhaustion(sci) => write!(f, "PNs of {} run out, or it asks for one", named(sci)),
            R::Lifetime => f.write_str("the last SAK has reached its age"),
            R::Requested => f.write_str("requested"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMacsec => f.write_str("it tells members not to use MACsec"),
            Self::UnknownSuite(identifier) => {
                f.write_str("unknown cipher suite ")?;
                for (i, octet) in identifier.iter().enumerate() {
                    write!(f, "{}{octet:02x}", if i == 0 { "" } else { "-" })?;
                }
                Ok(())
            }
            Self::Suite(suite) => write!(f, "cipher suite {suite} is not allowed by the configuration"),
            Self::Confidentiality(confidentiality) => {
                write!(f, "{} cannot be done here, or not with this suite", hides(*confidentiality))
            }
            Self::Weaker(confidentiality) => write!(
                f,
                "{} hides less than is configured here: set encrypt alike at both ends, or accept_integrity = true here",
                hides(*confidentiality)
            ),
            Self::Unwrap => f.write_str("the wrapped key cannot be unwrapped"),
            Self::Old(ki) => write!(f, "{ki} was in use before, and is never used again"),
        }
    }
}

const fn hides(confidentiality: Confidentiality) -> &'static str {
    match confidentiality {
        Confidentiality::Integrity => "integrity alone",
        Confidentiality::Zero => "confidentiality",
        Confidentiality::Thirty => "a confidentiality offset of 30",
        Confidentiality::Fifty => "a confidentiality offset of 50",
    }
}

impl fmt::Display for NewMiReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Duplicate => "another station has the old one",
            Self::Blocked => "the SAK was given up",
            Self::Starved => "the key server gives no SAK",
            Self::MnExhausted => "all Message Numbers are used up",
            Self::Sci => "another SCI is configured",
        })
    }
}
