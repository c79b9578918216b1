//! A gateway's heart: counts its heartbeats, and puts them into the directory.
//!
//! ```text
//!  STATE/fleet-FLEET-NAME.counter   array of 2: a counter that was not used yet, SHA-256 of it
//! ```
//!
//! Counters are reserved on disk some at a time, so that a heartbeat seldom costs a write, and none comes twice. A box whose disk was lost
//! goes on behind the newest heartbeat of its own that the directory shows. No secret hangs on the counter: a damaged file is as
//! none.

use std::io;
use std::path::Path;

use ciborium_ll::Header as Head;
use pnstore::{Directory as Folder, Disk as _};
use sha2::{Digest as _, Sha256};

use crate::accept::Member;
use crate::cbor::{Malformed, Reader, push, push_octets};
use crate::directory::{Directory, DirectoryError, Put, heartbeat_key};
use crate::heartbeat::{Heartbeat, Outcome, Parts};

/// Counters that are reserved at once.
const RESERVED: u64 = 256;
/// How often a heartbeat is written at once over what others wrote meanwhile.
const ATTEMPTS: u32 = 3;

/// Heartbeats of one gateway.
#[derive(Debug)]
pub struct Heart {
    disk: Folder,
    file: String,
    key: String,
    /// The next counter.
    next: u64,
    /// The first one that is not reserved.
    end: u64,
    /// Revision of what is in the directory, as it was seen last.
    seen: u64,
}

/// What a heartbeat says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// The version that is in use.
    pub in_use: Option<u64>,
    /// What became of the newest one.
    pub outcome: Outcome,
    /// Why that is not in use.
    pub why: String,
    /// The version that was taken back or refused, if that is known.
    pub unused: Option<u64>,
    /// Verdicts on the gateway's links, sites and cells; none if it does not tell.
    pub parts: Option<Parts>,
}

/// Why a heartbeat is not in the directory.
#[derive(Debug, thiserror::Error)]
pub enum HeartError {
    /// The directory did not take it.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Others write in its place all the time.
    #[error("somebody else writes in the place of this gateway's heartbeat in the directory")]
    Overwritten,
    /// A counter cannot be reserved.
    #[error("cannot count heartbeats: {0}; free the disk of the state directory")]
    Disk(io::Error),
}

impl Heart {
    /// Opens the counter of `member` in the state directory `path`. The caller has the lock of the gateway's
    /// [`Acceptor`](crate::Acceptor).
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn open(member: &Member, path: &Path) -> io::Result<Self> {
        let file = format!("fleet-{}-{}.counter", member.fleet, member.name);
        let mut disk = Folder::open(path)?;
        let kept = disk.read(&file)?;
        let next = kept.and_then(|octets| parse(&octets).ok()).unwrap_or(1);
        let key = heartbeat_key(member.fleet, &member.name);
        Ok(Self { disk, file, key, next, end: next, seen: 0 })
    }

    /// Puts a heartbeat into the directory, in the place of the one before. `now` is the time in seconds since 1970.
    ///
    /// # Errors
    /// [`HeartError`]; the next one is tried with another counter.
    pub fn beat(
        &mut self,
        directory: &mut dyn Directory,
        member: &Member,
        said: &Said,
        now: u64,
    ) -> Result<(), HeartError> {
        for _ in 0..ATTEMPTS {
            let heartbeat = Heartbeat {
                fleet: member.fleet,
                gateway: member.name.clone(),
                member: member.identity.public(),
                counter: self.count().map_err(HeartError::Disk)?,
                time: now,
                in_use: said.in_use,
                outcome: said.outcome,
                why: said.why.clone(),
                unused: said.unused,
                parts: said.parts.clone(),
            };
            match directory.put(&self.key, &heartbeat.sign(&member.identity), self.seen)? {
                Put::Done(revision) => {
                    self.seen = revision;
                    return Ok(());
                }
                Put::Changed(there) => {
                    self.seen = there.as_ref().map_or(0, |there| there.revision);
                    let own = there.and_then(|there| Heartbeat::parse(&there.value).ok());
                    let own = own.filter(|own| own.member == heartbeat.member);
                    self.next = self.next.max(own.map_or(0, |own| own.counter.saturating_add(1)));
                }
            }
        }
        Err(HeartError::Overwritten)
    }

    /// A counter that no heartbeat had.
    fn count(&mut self) -> io::Result<u64> {
        if self.next >= self.end {
            let end = self.next.saturating_add(RESERVED);
            pnstore::replace(&mut self.disk, &self.file, &encode(end))?;
            self.end = end;
        }
        let counter = self.next;
        self.next = counter.saturating_add(1);
        Ok(counter)
    }
}

fn encode(counter: u64) -> Vec<u8> {
    let mut octets = Vec::new();
    push(&mut octets, Head::Array(Some(2)));
    push(&mut octets, Head::Positive(counter));
    push_octets(&mut octets, &Sha256::digest(counter.to_be_bytes()));
    octets
}

fn parse(octets: &[u8]) -> Result<u64, Malformed> {
    let mut reader = Reader::new(octets);
    let items = reader.array()?;
    let (counter, check): (u64, &[u8; 32]) = (reader.number()?, reader.array_of()?);
    reader.end()?;
    let is_whole = items == 2 && check[..] == Sha256::digest(counter.to_be_bytes())[..];
    if is_whole { Ok(counter) } else { Err(Malformed) }
}
