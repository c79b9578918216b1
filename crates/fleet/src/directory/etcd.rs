//! A directory in etcd, by the JSON form of its interface (`/v3/kv/...`, `/v3/watch`), which each etcd from 3.4 on speaks beside gRPC.
//!
//! Crate `etcd-client` speaks gRPC, and wants protoc wherever Frameward is built. The JSON form needs HTTP, base64 and serde alone, which
//! are here already. It costs a third more octets, which does not matter for records that seldom change.
//!
//! - Of several addresses the one that answered last is asked first, and then the others in turn.
//! - Requests go over one connection, one after the other. A watch takes that over, and the next request opens another one: with TLS a connection
//!   costs more than a request. A connection that nobody used for [`KEPT`] is closed. At rest there is that of the watch alone.
//! - A request ends after [`PATIENCE`] at each address; a list after [`LIST_PATIENCE`]. What is read is asked once more over a new connection, if
//!   the kept one does not answer within half of that: it may be dead.
//! - A watch asks etcd to notify it of its progress. One of which nothing was heard for [`SILENCE`] is followed by a look: a network that drops
//!   packets ends no connection, and a member that is cut off from the others answers nothing. It is asked for with `hasleader`, so such a member
//!   ends it as soon as it notices itself.
//! - A write that broke off is not tried again: whether it was done is for the caller to see.
//! - An answer has bounded octets, and its entries are as long in memory as there: whoever speaks for etcd cannot fill this memory.

mod connection;
mod messages;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Bytes;
use rustls::ClientConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout, timeout_at};

use self::connection::{Connection, Failed, Lines};
use self::messages::{
    Event, KeyValue, RangeAnswer, RangeRequest, TransactionAnswer, WatchAnswer, WatchRequest, transaction,
};
use super::{Directory, DirectoryError, Entry, Listing, Put, Watched, Write};

/// The longest time that a request takes at one address.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time that a list takes.
const LIST_PATIENCE: Duration = Duration::from_secs(120);
/// Silence of a watch after which the entry is read. A directory that is away is then noticed within this and [`PATIENCE`], and what a dead
/// connection did not tell is late by no more. Nothing comes back but the revision, unless the entry is newer. 5,000 gateways make 170 such reads
/// a second, and none where etcd notifies watches more often: by itself it does so every ten minutes.
const SILENCE: Duration = Duration::from_secs(30);
/// Time in which a connection without a request is taken for whole: longer than [`SILENCE`], and shorter than firewalls remember one.
const KEPT: Duration = Duration::from_secs(50);
/// Entries that are asked for at once. The longest records of so many fit into an answer.
const PAGE: usize = 8;
/// The most that are, where entries are short, such as heartbeats.
const LARGEST_PAGE: usize = 500;
/// Octets of keys and values that a page has, as far as the entries before say how long the next ones are.
const PAGE_OCTETS: usize = 1 << 20;

/// Where an etcd is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdAddress {
    /// Hosts and ports of its members.
    pub(super) endpoints: Vec<(String, u16)>,
    /// Files for TLS; without it nothing is encrypted.
    pub(super) tls: Option<TlsFiles>,
}

/// Files in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TlsFiles {
    /// Authorities of the members' certificates.
    pub(super) ca: PathBuf,
    /// Certificate and key that this machine shows, if etcd asks for one.
    pub(super) client: Option<(PathBuf, PathBuf)>,
}

/// A directory in etcd.
pub struct Etcd {
    address: EtcdAddress,
    tls: Option<Arc<ClientConfig>>,
    runtime: Runtime,
    /// Which of the addresses answered last.
    last: usize,
    kept: Option<Kept>,
    watching: Option<Watching>,
    /// [`SILENCE`], but for tests.
    silence: Duration,
}

/// Entries that a watch is about.
#[derive(Clone, Copy)]
enum Scope<'a> {
    /// The entry at this key.
    One(&'a str),
    /// Those whose keys begin alike.
    All(&'a str),
}

impl Scope<'_> {
    fn covers(self, key: &str) -> bool {
        match self {
            Self::One(one) => key == one,
            Self::All(prefix) => key.starts_with(prefix),
        }
    }
}

/// A connection between two requests.
struct Kept {
    connection: Connection,
    /// To which of the addresses.
    at: usize,
    /// Time of its last answer.
    answered: Instant,
}

impl Kept {
    /// True if no firewall has forgotten it, supposedly.
    fn is_fresh(&self) -> bool {
        self.answered.elapsed() < KEPT
    }
}

/// A watch between two calls.
struct Watching {
    /// The want that it was asked for, but for the revision.
    about: WatchRequest,
    /// What was told so far.
    revision: u64,
    lines: Lines,
    /// When it was known last that nothing else is to be told.
    heard: Instant,
}

impl Etcd {
    /// Directory at this address. Nothing is asked yet.
    ///
    /// # Errors
    /// If a file for TLS cannot be used.
    pub fn new(address: &EtcdAddress) -> Result<Self, DirectoryError> {
        let unusable = |why| DirectoryError::Unreachable { address: address.to_string(), why };
        let tls = address.tls.as_ref().map(connection::client_config).transpose().map_err(unusable)?;
        // A thread for names alone: everything else runs in the caller's.
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(1)
            .thread_name("fleet-names")
            .build()
            .map_err(|error| unusable(format!("cannot start a thread: {error}")))?;
        Ok(Self {
            address: address.clone(),
            tls,
            runtime,
            last: 0,
            kept: None,
            watching: None,
            silence: SILENCE,
        })
    }

    /// Asks the members in turn, until one answers.
    fn ask<T: DeserializeOwned>(
        &mut self,
        path: &str,
        request: &impl Serialize,
    ) -> Result<T, DirectoryError> {
        let body = serde_json::to_vec(request).expect("invariant: texts and numbers alone").into();
        let mut why = String::new();
        for turn in 0..self.address.endpoints.len() {
            let at = (self.last + turn) % self.address.endpoints.len();
            match self.ask_one(at, path, &body) {
                Ok(answer) => {
                    self.last = at;
                    match serde_json::from_slice(&answer) {
                        Ok(answer) => return Ok(answer),
                        // Another one may make more sense.
                        Err(_) if path == RANGE => {
                            let (host, port) = &self.address.endpoints[at];
                            why = format!("{host}:{port} answers no JSON of etcd");
                        }
                        Err(_) => return Err(self.nonsense("JSON")),
                    }
                }
                // Whether a member that got the request wrote it is not known: only one that was not reached is passed over.
                Err(Failed::Refused(failed) | Failed::Broken(failed)) if path != RANGE => {
                    return Err(self.unreachable(failed));
                }
                Err(Failed::Refused(failed) | Failed::Broken(failed) | Failed::NotReached(failed)) => {
                    why = failed;
                }
            }
        }
        Err(self.unreachable(why))
    }

    /// Asks one member, over the connection that is kept to it, or a new one.
    fn ask_one(&mut self, at: usize, path: &str, body: &Bytes) -> Result<Vec<u8>, Failed> {
        let until = Instant::now() + PATIENCE;
        if let Some(mut kept) = self.take_kept(at) {
            let until = if path == RANGE { until - PATIENCE / 2 } else { until };
            let asked = kept.connection.ask(path, body.clone());
            match self.runtime.block_on(async { timeout_at(until, asked).await }) {
                Ok(Ok(answer)) => {
                    self.kept = Some(Kept { answered: Instant::now(), ..kept });
                    return Ok(answer);
                }
                // Nothing was sent, or it may be read twice.
                Ok(Err(Failed::NotReached(_))) => {}
                Ok(Err(Failed::Broken(_))) | Err(_) if path == RANGE => {}
                Ok(Err(failed)) => return Err(failed),
                Err(_) => return Err(Failed::Broken(no_answer(&self.address.endpoints[at]))),
            }
        }
        let (endpoint, tls) = (&self.address.endpoints[at], self.tls.clone());
        let asked = async {
            let mut connection = Connection::open(endpoint, tls).await?;
            let answer = connection.ask(path, body.clone()).await?;
            Ok((connection, answer))
        };
        let asked = self.runtime.block_on(async { timeout_at(until, asked).await });
        let (connection, answer) = asked.unwrap_or_else(|_| Err(Failed::Broken(no_answer(endpoint))))?;
        self.kept = Some(Kept { connection, at, answered: Instant::now() });
        Ok(answer)
    }

    /// The connection that is kept to a member, if it is whole as far as this machine knows.
    fn take_kept(&mut self, at: usize) -> Option<Kept> {
        let kept = self.kept.take().filter(|kept| kept.at == at && kept.is_fresh())?;
        self.runtime.block_on(kept.connection.is_whole()).then_some(kept)
    }

    fn unreachable(&self, why: String) -> DirectoryError {
        DirectoryError::Unreachable { address: self.address.to_string(), why }
    }

    fn nonsense(&self, what: &'static str) -> DirectoryError {
        DirectoryError::Nonsense { address: self.address.to_string(), what }
    }

    fn entry(&self, pair: KeyValue) -> Result<Entry, DirectoryError> {
        pair.entry().ok_or_else(|| self.nonsense("a key, a value and a revision"))
    }

    /// The watch of the last call if it is about the same, or a new one.
    fn watching(&mut self, scope: Scope<'_>, after: u64) -> Result<Watching, DirectoryError> {
        let about = match scope {
            Scope::One(key) => WatchRequest::one(key),
            Scope::All(prefix) => WatchRequest::all(prefix),
        };
        let same = |watching: &Watching| watching.about == about && watching.revision == after;
        if let Some(watching) = self.watching.take().filter(same) {
            return Ok(watching);
        }
        let request = about.from(after.saturating_add(1));
        let body = Bytes::from(serde_json::to_vec(&request).expect("invariant: texts and numbers alone"));
        let mut why = String::new();
        for turn in 0..self.address.endpoints.len() {
            let at = (self.last + turn) % self.address.endpoints.len();
            let kept = self.take_kept(at);
            let opened = Connection::open(&self.address.endpoints[at], self.tls.clone());
            let asked = async {
                // One that is dead after all is noticed in time for another one.
                if let Some(Kept { connection, .. }) = kept
                    && let Ok(Ok(lines)) = timeout(PATIENCE / 2, connection.stream(WATCH, body.clone())).await
                {
                    return Ok(lines);
                }
                opened.await?.stream(WATCH, body.clone()).await
            };
            match self.runtime.block_on(async { timeout(PATIENCE, asked).await }) {
                Ok(Ok(lines)) => {
                    self.last = at;
                    return Ok(Watching {
                        about,
                        revision: after,
                        lines,
                        heard: heard_at_first(self.silence),
                    });
                }
                Ok(Err(Failed::Refused(failed) | Failed::Broken(failed) | Failed::NotReached(failed))) => {
                    why = failed
                }
                Err(_) => why = no_answer(&self.address.endpoints[at]),
            }
        }
        Err(self.unreachable(why))
    }

    /// The entry at a key, by a request for it.
    fn looked(&mut self, request: &RangeRequest, key: &str) -> Result<Listing, DirectoryError> {
        let answer: RangeAnswer = self.ask(RANGE, request)?;
        let revision = answer.header.revision().ok_or_else(|| self.nonsense("a revision"))?;
        let entry = answer.kvs.into_iter().next().map(|pair| self.entry(pair)).transpose()?;
        if entry.as_ref().is_some_and(|entry| entry.key != key) {
            return Err(self.nonsense("the entry of that key"));
        }
        Ok(Listing { revision, entries: entry.into_iter().collect() })
    }

    /// After too long a silence of a watch: has the directory show that it is there, and that nothing was missed. What was, if anything.
    fn missed(
        &mut self,
        scope: Scope<'_>,
        watching: &mut Watching,
    ) -> Result<Option<Watched>, DirectoryError> {
        let after = watching.revision;
        let listing = match scope {
            Scope::One(key) => self.looked(&RangeRequest::newer(key, after), key)?,
            Scope::All(prefix) => {
                // One is enough to know that something was missed.
                let answer: RangeAnswer = self.ask(RANGE, &RangeRequest::any_newer(prefix, after))?;
                let revision = answer.header.revision().ok_or_else(|| self.nonsense("a revision"))?;
                if !answer.kvs.is_empty() {
                    return Ok(Some(Watched::Lost));
                }
                Listing { revision, entries: Vec::new() }
            }
        };
        watching.heard = Instant::now();
        if listing.revision < watching.revision {
            return Ok(Some(Watched::Lost));
        }
        let is_behind = listing.entries.iter().any(|entry| entry.revision > watching.revision);
        Ok(is_behind.then_some(Watched::Changes(listing)))
    }
}

const RANGE: &str = "/v3/kv/range";
const TRANSACTION: &str = "/v3/kv/txn";
const WATCH: &str = "/v3/watch";

/// Time at which a new watch counts as heard. Agents that begin at once would also look at once, again and again: the first look of each comes after
/// half of a silence to one and a half, when etcd may have notified it, and each further one a silence later.
fn heard_at_first(silence: Duration) -> Instant {
    let (now, mut octets) = (Instant::now(), [0; 2]);
    let part = match getrandom::fill(&mut octets) {
        Ok(()) => f64::from(u16::from_be_bytes(octets)) / 65_536.0,
        // Without a random number it comes when those of others do.
        Err(_) => 0.0,
    };
    (now + silence.mul_f64(part)).checked_sub(silence / 2).unwrap_or(now)
}

fn no_answer((host, port): &(String, u16)) -> String {
    format!("{host}:{port} does not answer within {} s; is etcd running there?", PATIENCE.as_secs())
}

impl Directory for Etcd {
    fn look(&mut self, key: &str) -> Result<Listing, DirectoryError> {
        self.looked(&RangeRequest::one(key), key)
    }

    fn list(&mut self, prefix: &str) -> Result<Listing, DirectoryError> {
        let mut listing = Listing { revision: 0, entries: Vec::new() };
        let (mut octets, mut page, mut longest) = (0, PAGE, 1);
        let until = Instant::now() + LIST_PATIENCE;
        loop {
            let from =
                listing.entries.last().map_or_else(|| prefix.to_owned(), |entry| format!("{}\0", entry.key));
            // All pages are of the revision of the first one.
            let request = RangeRequest::page(&from, prefix, page, listing.revision);
            let answer: RangeAnswer = match self.ask(RANGE, &request) {
                // Entries that are longer than all before may be too many for an answer.
                Err(_) if page > PAGE => {
                    (page, longest) = (PAGE, PAGE_OCTETS);
                    continue;
                }
                answer => answer?,
            };
            if listing.revision == 0 {
                listing.revision = answer.header.revision().ok_or_else(|| self.nonsense("a revision"))?;
            }
            let (more, before) = (answer.more, listing.entries.len());
            for pair in answer.kvs {
                let entry = self.entry(pair)?;
                let is_next = listing.entries.last().is_none_or(|last| last.key < entry.key);
                if !is_next || !entry.key.starts_with(prefix) {
                    return Err(self.nonsense("keys that begin alike, in their order"));
                }
                if Listing::is_too_long(&mut octets, &entry) || Instant::now() > until {
                    return Err(self.nonsense("a list that has an end"));
                }
                longest = longest.max(entry.key.len() + entry.value.len());
                listing.entries.push(entry);
            }
            page = (PAGE_OCTETS / longest).clamp(PAGE, LARGEST_PAGE);
            if !more {
                return Ok(listing);
            }
            if listing.entries.len() == before {
                return Err(self.nonsense("a page with entries"));
            }
        }
    }

    fn put(&mut self, key: &str, value: &[u8], seen: u64) -> Result<Put, DirectoryError> {
        let answer: TransactionAnswer = self.ask(TRANSACTION, &transaction(&[Write { key, value, seen }]))?;
        if answer.succeeded {
            let revision = answer.header.revision().ok_or_else(|| self.nonsense("a revision"))?;
            return Ok(Put::Done(revision));
        }
        let there = answer.responses.into_iter().next().and_then(|response| response.response_range);
        let there = there.ok_or_else(|| self.nonsense("the entry that is there"))?;
        there.kvs.into_iter().next().map(|pair| self.entry(pair)).transpose().map(Put::Changed)
    }

    fn put_all(&mut self, writes: &[Write<'_>]) -> Result<bool, DirectoryError> {
        let answer: TransactionAnswer = self.ask(TRANSACTION, &transaction(writes))?;
        Ok(answer.succeeded)
    }

    fn watch(&mut self, key: &str, after: u64, patience: Duration) -> Result<Watched, DirectoryError> {
        self.watched(Scope::One(key), after, patience)
    }

    fn watch_all(&mut self, prefix: &str, after: u64, patience: Duration) -> Result<Watched, DirectoryError> {
        self.watched(Scope::All(prefix), after, patience)
    }
}

impl Etcd {
    fn watched(
        &mut self,
        scope: Scope<'_>,
        after: u64,
        patience: Duration,
    ) -> Result<Watched, DirectoryError> {
        let until = Instant::now() + patience;
        self.kept = self.kept.take().filter(Kept::is_fresh);
        let mut watching = self.watching(scope, after)?;
        let nothing = Watched::Changes(Listing { revision: after, entries: Vec::new() });
        loop {
            // One that missed anything is dead: the next one is new.
            if watching.heard.elapsed() >= self.silence
                && let Some(missed) = self.missed(scope, &mut watching)?
            {
                return Ok(missed);
            }
            let wake = until.min(watching.heard + self.silence);
            let next = self.runtime.block_on(async { timeout_at(wake, watching.lines.next()).await });
            let line = match next {
                Err(_) if Instant::now() < until => continue,
                // The time is over; the connection stays.
                Err(_) => {
                    self.watching = Some(watching);
                    return Ok(nothing);
                }
                Ok(Ok(line)) => line,
                Ok(Err(Failed::Refused(why) | Failed::Broken(why) | Failed::NotReached(why))) => {
                    return Err(self.unreachable(why));
                }
            };
            let answer: WatchAnswer = serde_json::from_slice(&line).map_err(|_| self.nonsense("JSON"))?;
            let result = answer.result.ok_or_else(|| self.unreachable("the watch ended".to_owned()))?;
            // Forgotten, or of a directory that was restored from a copy and is not that far again.
            let is_behind =
                result.created && result.header.revision().is_some_and(|revision| revision < after);
            if result.canceled || is_behind {
                return Ok(Watched::Lost);
            }
            // Also a notification that there is nothing: what it says of a revision is not relied on.
            if !result.created {
                watching.heard = Instant::now();
            }
            // A watch of many is to tell which are there.
            if matches!(scope, Scope::All(_)) && result.events.iter().any(Event::is_removal) {
                return Ok(Watched::Lost);
            }
            // One that was removed is withheld from us, which changes nothing here.
            let written = result.events.into_iter().filter(|event| !event.is_removal());
            let pairs: Vec<_> = written.map(|event| event.kv).collect();
            if pairs.is_empty() {
                // Lines that tell nothing may come without end.
                if Instant::now() >= until {
                    self.watching = Some(watching);
                    return Ok(nothing);
                }
                continue;
            }
            let entries = pairs.into_iter().map(|pair| self.entry(pair)).collect::<Result<Vec<_>, _>>()?;
            if entries.iter().any(|entry| !scope.covers(&entry.key)) {
                return Err(self.nonsense("the entry of that key"));
            }
            let newest = entries.iter().map(|entry| entry.revision).max().unwrap_or(after);
            watching.revision = newest.max(after);
            let listing = Listing { revision: watching.revision, entries };
            self.watching = Some(watching);
            return Ok(Watched::Changes(listing));
        }
    }
}

impl fmt::Display for EtcdAddress {
    /// Without the files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls.is_some() { "etcds://" } else { "etcd://" })?;
        for (at, (host, port)) in self.endpoints.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if host.contains(':') {
                write!(f, "{comma}[{host}]:{port}")?
            } else {
                write!(f, "{comma}{host}:{port}")?
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Etcd({})", self.address)
    }
}

fn encoded(text: &[u8]) -> String {
    STANDARD.encode(text)
}

#[cfg(test)]
mod tests;
