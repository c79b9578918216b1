//! Where a gateway stands, as its operator sees it: what is published for it, and what it says of that.

use suite::identity::PublicKey;

use crate::directory::{Directory, DirectoryError, configuration_key, heartbeat_key};
use crate::heartbeat::{Heartbeat, HeartbeatRefusal, Known, Outcome};
use crate::name::GatewayName;
use crate::record::Record;

/// Seconds after which a gateway is silent: three heartbeats.
pub const STALE: u64 = 3 * BEAT;
/// Seconds between two heartbeats of a gateway that has nothing new to say.
pub const BEAT: u64 = 300;

/// Where a gateway stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The version that the operator published for it, if the directory shows one.
    pub published: Option<u64>,
    /// The newest heartbeat that was verified, now or before.
    pub heartbeat: Option<Heartbeat>,
    /// Why what the directory shows is not that.
    pub refusal: Option<HeartbeatRefusal>,
    /// The newest version that was published for this place, as the operator knows it, if what the directory shows is older.
    pub hidden: Option<u64>,
    /// The directory shows no heartbeat, and there was one.
    pub is_withheld: bool,
    /// The octets of a heartbeat that is newer than the one before: the operator keeps them.
    pub newer: Option<Vec<u8>>,
}

impl Standing {
    /// Looks at a gateway's places in the directory. `seen` are the octets of the newest heartbeat that was verified before; what is no
    /// heartbeat of this gateway there counts as none. `newest` is the newest version that was published or seen before.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn look(
        directory: &mut dyn Directory,
        known: Known<'_>,
        seen: Option<&[u8]>,
        newest: Option<u64>,
        now: u64,
    ) -> Result<Self, DirectoryError> {
        let record = directory.get(&configuration_key(known.fleet, known.gateway))?;
        let published = record.and_then(|entry| published(&entry.value, known.fleet, known.gateway));
        let published = published.filter(|(member, _)| *member == known.member).map(|(_, version)| version);
        let there = directory.get(&heartbeat_key(known.fleet, known.gateway))?;
        Ok(Self::of(published, there.map(|there| there.value), known, seen, newest, now))
    }

    /// The same of what the directory shows: the version of the record for this gateway, and the octets in the place of its heartbeat.
    pub fn of(
        published: Option<u64>,
        there: Option<Vec<u8>>,
        known: Known<'_>,
        seen: Option<&[u8]>,
        newest: Option<u64>,
        now: u64,
    ) -> Self {
        let hidden = newest.filter(|newest| published.is_none_or(|published| published < *newest));
        let seen = seen.and_then(|octets| Heartbeat::parse(octets).ok());
        let seen = seen.filter(|seen| seen.gateway == *known.gateway && seen.member == known.member);
        let is_withheld = there.is_none() && seen.is_some();
        let (mut newer, mut refusal) = (None, None);
        let heartbeat = match there.map(|there| (Heartbeat::verify(&there, known, seen.as_ref(), now), there))
        {
            None => seen,
            Some((Ok(heartbeat), there)) => {
                newer = (seen.as_ref() != Some(&heartbeat)).then_some(there);
                Some(heartbeat)
            }
            Some((Err(why), _)) => {
                refusal = Some(why);
                seen
            }
        };
        Self { published, hidden, heartbeat, refusal, is_withheld, newer }
    }

    /// True if the gateway said that the published version is in use and stays, and no newer one is known.
    pub fn is_confirmed(&self) -> bool {
        self.hidden.is_none() && self.published.is_some_and(|published| self.has_confirmed(published))
    }

    /// True if the gateway says that this version is in use and stays: whatever the directory shows as published, not too long ago, and as
    /// its newest word.
    pub fn confirms(&self, version: u64, now: u64) -> bool {
        self.has_confirmed(version) && self.is_heard(now)
    }

    /// True if what the directory shows is its newest heartbeat, and not too long ago.
    pub fn is_heard(&self, now: u64) -> bool {
        self.stale(now).is_none() && self.refusal.is_none() && !self.is_withheld
    }

    fn has_confirmed(&self, version: u64) -> bool {
        self.heartbeat.as_ref().is_some_and(|heartbeat| {
            heartbeat.outcome == Outcome::Confirmed && heartbeat.in_use == Some(version)
        })
    }

    /// True if the gateway's word about a version that is not in use is about what is published. A box of an earlier release does not say which
    /// version it is about: then the newest one is meant.
    pub fn has_judged(&self) -> bool {
        let unused = self.heartbeat.as_ref().and_then(|heartbeat| heartbeat.unused);
        unused.is_none_or(|unused| self.published.is_none_or(|published| unused >= published))
    }

    /// Seconds since the newest heartbeat, if that is too long ago.
    pub fn stale(&self, now: u64) -> Option<u64> {
        let since = now.saturating_sub(self.heartbeat.as_ref()?.time);
        (since > STALE).then_some(since)
    }
}

/// Whom a record is for, and its version, if the fleet's operator signed it for the gateway of this name.
pub fn published(record: &[u8], fleet: PublicKey, gateway: &GatewayName) -> Option<(PublicKey, u64)> {
    let record = Record::parse(record).ok()?;
    let header = record.header();
    let is_its = record.is_signed_by(fleet) && header.fleet == fleet && header.gateway == *gateway;
    is_its.then_some((header.member, header.version))
}
