//! A heartbeat: what a gateway says of the versions that it got, and of its links, sites and cells. Signed by its identity and counted; one a
//! gateway in the directory.
//!
//! ```text
//!  heartbeat: array of 2:  body (octets), the gateway's signature of it (64 octets)
//!  body:      map of 9:    0 format, 1      1 fleet: the operator's public key    2 gateway: its name
//!                          3 member: the gateway's public key                     4 counter: ever more
//!                          5 time: seconds since 1970                             6 in use: the version, or 0
//!                          7 outcome of the newest version                        8 why, if it is not in use
//!  or map of 11: format 2, and besides:
//!                          9 parts: array of the worst verdicts ([`Parts`])       10 how many others there are
//!  or the same of format 3: a part at least has its peers
//!  format 4: one of these maps, and behind it:
//!                          11 the version that was taken back or refused: 7 and 8 are about it
//! ```
//!
//! CBOR, deterministic, as records are. Who writes the directory can withhold heartbeats, and play old ones back. An operator notices
//! both: by the time, and by the counter of the newest one that he has seen.

mod parts;

use ciborium_ll::Header as Head;
use suite::identity::{Identity, PublicKey, SIGNATURE_OCTETS};

use crate::accept::Span;
use crate::cbor::{Malformed, Reader, push, push_octets, push_text};
use crate::name::GatewayName;
pub use parts::{MOST_PARTS, MOST_PEERS, Part, PartKind, PartLevel, Parts, Peers};

/// Without verdicts: no gateway runs beside the agent, or it is of an earlier release.
const WITHOUT_PARTS: u64 = 1;
/// With verdicts.
const WITH_PARTS: u64 = 2;
/// With verdicts, and peers of a part.
const WITH_PEERS: u64 = 3;
/// With the version that is not in use, and with verdicts and peers or without.
const WITH_UNUSED: u64 = 4;
/// What the signature is about.
const SIGNED: &[u8] = b"frameward fleet heartbeat 1\0";
/// The longest heartbeat: 512 octets, 80 for each part, and 34 for each name of a peer.
pub const HEARTBEAT_OCTETS: usize = 512 + 80 * MOST_PARTS + 34 * MOST_PEERS;
/// The longest reason, in octets.
const REASON_OCTETS: usize = 200;
/// Time by which a gateway's clock may be ahead of the operator's.
const CLOCKS_APART: u64 = 600;

/// What became of the newest version that a gateway got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It got none yet: 0.
    Waits,
    /// It is in use, and stays: 1.
    Confirmed,
    /// It was taken back, and the one before is in use: 2.
    TakenBack,
    /// It was refused, and the one before stays in use: 3.
    Refused,
}

/// A heartbeat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// The fleet: the operator's public key.
    pub fleet: PublicKey,
    /// The gateway.
    pub gateway: GatewayName,
    /// Its public key.
    pub member: PublicKey,
    /// 1 at first, then ever more.
    pub counter: u64,
    /// When it was made, in seconds since 1970 by the gateway's clock.
    pub time: u64,
    /// The version that is in use.
    pub in_use: Option<u64>,
    /// What became of the newest one.
    pub outcome: Outcome,
    /// Why that is not in use; empty if it is.
    pub why: String,
    /// The version that was taken back or refused; none if another thing became of it, or if that is not known.
    pub unused: Option<u64>,
    /// Verdicts on its links, sites and cells; none if it does not tell.
    pub parts: Option<Parts>,
}

/// A gateway as the operator knows it.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The fleet.
    pub fleet: PublicKey,
    /// Its name.
    pub gateway: &'a GatewayName,
    /// Its public key.
    pub member: PublicKey,
}

/// Why a heartbeat is not believed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeartbeatRefusal {
    /// Something else.
    #[error("what is in the directory is no heartbeat, or damaged")]
    Malformed,
    /// A gateway of another operator.
    #[error("the heartbeat belongs to the fleet of operator {fleet}")]
    OtherFleet {
        /// That operator's public key, as the heartbeat says.
        fleet: PublicKey,
    },
    /// A true heartbeat, put in the place of this gateway's.
    #[error(
        "the heartbeat is of gateway {gateway}: somebody put it in this gateway's place in the directory"
    )]
    OtherGateway {
        /// That gateway.
        gateway: GatewayName,
    },
    /// Of another identity of this gateway.
    #[error(
        "the heartbeat is of the identity {member}, which is not the one that the operator has for this gateway"
    )]
    OtherIdentity {
        /// The identity's public key, as the heartbeat says.
        member: PublicKey,
    },
    /// Not signed by the gateway, or changed afterwards.
    #[error("the heartbeat is not signed by the gateway: somebody wrote or changed it in the directory")]
    NotSigned,
    /// An older one was played back.
    #[error(
        "the heartbeat has counter {counter}, and {seen} was seen before: somebody put an old one back into the directory"
    )]
    Older {
        /// Its counter.
        counter: u64,
        /// The greatest counter that was seen.
        seen: u64,
    },
    /// Two with one counter: two boxes have this identity.
    #[error(
        "the heartbeat is another one than that of the same counter {counter}, which was seen before: two boxes have this identity, or one was put back to an earlier state"
    )]
    SameCounter {
        /// The counter of both.
        counter: u64,
    },
    /// Made later than now.
    #[error("the heartbeat was made in {0} by the gateway's clock; correct that clock, or this one")]
    Ahead(Span),
}

impl Outcome {
    const fn number(self) -> u64 {
        match self {
            Self::Waits => 0,
            Self::Confirmed => 1,
            Self::TakenBack => 2,
            Self::Refused => 3,
        }
    }

    const fn of(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Waits),
            1 => Some(Self::Confirmed),
            2 => Some(Self::TakenBack),
            3 => Some(Self::Refused),
            _ => None,
        }
    }
}

impl From<Malformed> for HeartbeatRefusal {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

impl Heartbeat {
    /// The signed octets. A reason is cut where it is too long, and has no control characters: it goes to a terminal.
    pub fn sign(&self, identity: &Identity) -> Vec<u8> {
        let body = self.body();
        signed(&body, &identity.sign(SIGNED, &body))
    }

    fn body(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(HEARTBEAT_OCTETS);
        let number = |body: &mut Vec<u8>, key: u64, number: u64| {
            push(body, Head::Positive(key));
            push(body, Head::Positive(number));
        };
        let (pairs, format) = match &self.parts {
            None => (9, WITHOUT_PARTS),
            Some(parts) => (11, if parts.have_peers() { WITH_PEERS } else { WITH_PARTS }),
        };
        let (pairs, format) = self.unused.map_or((pairs, format), |_| (pairs + 1, WITH_UNUSED));
        push(&mut body, Head::Map(Some(pairs)));
        number(&mut body, 0, format);
        push(&mut body, Head::Positive(1));
        push_octets(&mut body, &self.fleet.0);
        push(&mut body, Head::Positive(2));
        push_text(&mut body, self.gateway.as_str());
        push(&mut body, Head::Positive(3));
        push_octets(&mut body, &self.member.0);
        number(&mut body, 4, self.counter);
        number(&mut body, 5, self.time);
        number(&mut body, 6, self.in_use.unwrap_or(0));
        number(&mut body, 7, self.outcome.number());
        push(&mut body, Head::Positive(8));
        push_text(&mut body, &reason(&self.why));
        if let Some(parts) = &self.parts {
            parts.push(&mut body);
        }
        if let Some(unused) = self.unused {
            number(&mut body, 11, unused);
        }
        body
    }

    /// Parses a heartbeat, and sees that the identity signed it that it names. Whose that is, it does not know.
    ///
    /// # Errors
    /// `Malformed` and `NotSigned`.
    pub fn parse(octets: &[u8]) -> Result<Self, HeartbeatRefusal> {
        if octets.len() > HEARTBEAT_OCTETS {
            return Err(HeartbeatRefusal::Malformed);
        }
        let mut outer = Reader::new(octets);
        if outer.array()? != 2 {
            return Err(HeartbeatRefusal::Malformed);
        }
        let (body, signature): (_, &[u8; SIGNATURE_OCTETS]) = (outer.octets()?, outer.array_of()?);
        outer.end()?;
        let heartbeat = Self::parse_body(body)?;
        if !heartbeat.member.verifies(SIGNED, body, signature) {
            return Err(HeartbeatRefusal::NotSigned);
        }
        Ok(heartbeat)
    }

    fn parse_body(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let pairs = reader.pairs()?;
        let (has_parts, have_peers, has_unused) = match (pairs, reader.key(0)?.number()?) {
            (9, WITHOUT_PARTS) => (false, None, false),
            (11, WITH_PARTS) => (true, Some(false), false),
            (11, WITH_PEERS) => (true, Some(true), false),
            (10, WITH_UNUSED) => (false, None, true),
            (12, WITH_UNUSED) => (true, None, true),
            _ => return Err(Malformed),
        };
        let mut heartbeat = Self {
            fleet: PublicKey(*reader.key(1)?.array_of()?),
            gateway: GatewayName::new(reader.key(2)?.text()?).ok_or(Malformed)?,
            member: PublicKey(*reader.key(3)?.array_of()?),
            counter: reader.key(4)?.number()?,
            time: reader.key(5)?.number()?,
            in_use: Some(reader.key(6)?.number()?).filter(|version| *version != 0),
            outcome: Outcome::of(reader.key(7)?.number()?).ok_or(Malformed)?,
            why: reader.key(8)?.text()?.to_owned(),
            unused: None,
            parts: has_parts.then(|| Parts::parse(&mut reader, have_peers)).transpose()?,
        };
        if has_unused {
            heartbeat.unused = Some(reader.key(11)?.number()?);
        }
        reader.end()?;
        let is_unused = matches!(heartbeat.outcome, Outcome::TakenBack | Outcome::Refused);
        let is_whole = heartbeat.counter != 0
            && heartbeat.unused.is_none_or(|version| version != 0 && is_unused)
            && (heartbeat.in_use.is_some() || heartbeat.outcome != Outcome::Confirmed)
            && reason(&heartbeat.why) == heartbeat.why;
        if is_whole { Ok(heartbeat) } else { Err(Malformed) }
    }

    /// Verifies what is in the directory for a gateway. `now` is the time in seconds since 1970, `seen` the newest one that was verified
    /// before.
    ///
    /// # Errors
    /// [`HeartbeatRefusal`].
    pub fn verify(
        octets: &[u8],
        known: Known<'_>,
        seen: Option<&Self>,
        now: u64,
    ) -> Result<Self, HeartbeatRefusal> {
        let heartbeat = Self::parse(octets)?;
        if heartbeat.fleet != known.fleet {
            return Err(HeartbeatRefusal::OtherFleet { fleet: heartbeat.fleet });
        }
        if heartbeat.gateway != *known.gateway {
            return Err(HeartbeatRefusal::OtherGateway { gateway: heartbeat.gateway });
        }
        if heartbeat.member != known.member {
            return Err(HeartbeatRefusal::OtherIdentity { member: heartbeat.member });
        }
        // Another identity counts for itself.
        if let Some(seen) = seen.filter(|seen| seen.member == heartbeat.member) {
            let (counter, seen_counter) = (heartbeat.counter, seen.counter);
            if counter < seen_counter {
                return Err(HeartbeatRefusal::Older { counter, seen: seen_counter });
            }
            if counter == seen_counter && heartbeat != *seen {
                return Err(HeartbeatRefusal::SameCounter { counter });
            }
        }
        if heartbeat.time > now.saturating_add(CLOCKS_APART) {
            return Err(HeartbeatRefusal::Ahead(Span(heartbeat.time - now)));
        }
        Ok(heartbeat)
    }
}

/// A reason as a heartbeat has it.
fn reason(text: &str) -> String {
    let mut reason = String::new();
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if reason.len() + c.len_utf8() > REASON_OCTETS {
            break;
        }
        reason.push(c);
    }
    reason
}

fn signed(body: &[u8], signature: &[u8; SIGNATURE_OCTETS]) -> Vec<u8> {
    let mut octets = Vec::with_capacity(HEARTBEAT_OCTETS);
    push(&mut octets, Head::Array(Some(2)));
    push_octets(&mut octets, body);
    push_octets(&mut octets, signature);
    octets
}

#[cfg(test)]
mod tests;
