//! A directory in etcd, by the JSON form of its interface (`/v3/kv/...`, `/v3/watch`), which each etcd from 3.4 on speaks beside gRPC.
//!
//! Crate `etcd-client` speaks gRPC, and wants protoc wherever Frameward is built. The JSON form needs HTTP, base64 and serde alone, which
//! are here already. It costs a third more octets, which does not matter for records that seldom change.
//!
//! - Of several addresses the one that answered last is asked first, and then the others in turn.
//! - An operation has its own connection, and ends after [`PATIENCE`]. A watch keeps its connection from call to call.
//! - A write that broke off is not tried again: whether it was done is for the caller to see.
//! - An answer has bounded octets: whoever speaks for etcd cannot fill this memory.

mod connection;
mod messages;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::ClientConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout, timeout_at};

use self::connection::{Failed, Lines};
use self::messages::{
    KeyValue, RangeAnswer, RangeRequest, TransactionAnswer, WatchAnswer, transaction, watch_request,
};
use super::{Directory, DirectoryError, Entry, Listing, Put, Watched};

/// The longest time that an operation takes at one address.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most octets of a list: 5,000 gateways with 50 kB each.
const LIST_OCTETS: usize = 256 << 20;
/// Entries that are asked for at once.
const PAGE: u32 = 32;

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
    watching: Option<Watching>,
}

/// A watch between two calls.
struct Watching {
    prefix: String,
    /// What was told so far.
    revision: u64,
    lines: Lines,
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
        Ok(Self { address: address.clone(), tls, runtime, last: 0, watching: None })
    }

    /// Asks the members in turn, until one answers.
    fn ask<T: DeserializeOwned>(
        &mut self,
        path: &str,
        request: &impl Serialize,
    ) -> Result<T, DirectoryError> {
        let body = serde_json::to_vec(request).expect("invariant: texts and numbers alone");
        let mut why = String::new();
        for turn in 0..self.address.endpoints.len() {
            let at = (self.last + turn) % self.address.endpoints.len();
            let asked = connection::ask(&self.address.endpoints[at], self.tls.clone(), path, body.clone());
            match self.runtime.block_on(async { timeout(PATIENCE, asked).await }) {
                Ok(Ok(answer)) => {
                    self.last = at;
                    return serde_json::from_slice(&answer).map_err(|_| self.nonsense("JSON"));
                }
                Ok(Err(Failed::Refused(refused))) => return Err(self.unreachable(refused)),
                // Whether a member that got the request wrote it is not known: only one that was not reached is passed over.
                Ok(Err(Failed::Broken(broken))) if path != RANGE => return Err(self.unreachable(broken)),
                Ok(Err(Failed::Broken(broken) | Failed::NotReached(broken))) => why = broken,
                Err(_) if path != RANGE => {
                    return Err(self.unreachable(no_answer(&self.address.endpoints[at])));
                }
                Err(_) => why = no_answer(&self.address.endpoints[at]),
            }
        }
        Err(self.unreachable(why))
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
    fn watching(&mut self, prefix: &str, after: u64) -> Result<Watching, DirectoryError> {
        let same = |watching: &Watching| watching.prefix == prefix && watching.revision == after;
        if let Some(watching) = self.watching.take().filter(same) {
            return Ok(watching);
        }
        let request = watch_request(prefix, after.saturating_add(1));
        let body = serde_json::to_vec(&request).expect("invariant: texts and numbers alone");
        let mut why = String::new();
        for turn in 0..self.address.endpoints.len() {
            let at = (self.last + turn) % self.address.endpoints.len();
            let asked =
                connection::stream(&self.address.endpoints[at], self.tls.clone(), "/v3/watch", body.clone());
            match self.runtime.block_on(async { timeout(PATIENCE, asked).await }) {
                Ok(Ok(lines)) => {
                    self.last = at;
                    return Ok(Watching { prefix: prefix.to_owned(), revision: after, lines });
                }
                Ok(Err(Failed::Refused(failed) | Failed::Broken(failed) | Failed::NotReached(failed))) => {
                    why = failed
                }
                Err(_) => why = no_answer(&self.address.endpoints[at]),
            }
        }
        Err(self.unreachable(why))
    }
}

const RANGE: &str = "/v3/kv/range";

fn no_answer((host, port): &(String, u16)) -> String {
    format!("{host}:{port} does not answer within {} s; is etcd running there?", PATIENCE.as_secs())
}

impl Directory for Etcd {
    fn get(&mut self, key: &str) -> Result<Option<Entry>, DirectoryError> {
        let answer: RangeAnswer = self.ask(RANGE, &RangeRequest::one(key))?;
        answer.kvs.into_iter().next().map(|pair| self.entry(pair)).transpose()
    }

    fn list(&mut self, prefix: &str) -> Result<Listing, DirectoryError> {
        let mut listing = Listing { revision: 0, entries: Vec::new() };
        let mut octets = 0;
        loop {
            let from =
                listing.entries.last().map_or_else(|| prefix.to_owned(), |entry| format!("{}\0", entry.key));
            // All pages are of the revision of the first one.
            let request = RangeRequest::page(&from, prefix, PAGE, listing.revision);
            let answer: RangeAnswer = self.ask(RANGE, &request)?;
            if listing.revision == 0 {
                listing.revision = answer.header.revision().ok_or_else(|| self.nonsense("a revision"))?;
            }
            let (more, before) = (answer.more, listing.entries.len());
            for pair in answer.kvs {
                let entry = self.entry(pair)?;
                octets += entry.key.len() + entry.value.len();
                listing.entries.push(entry);
            }
            if octets > LIST_OCTETS {
                return Err(self.nonsense("a list that has an end"));
            }
            if !more {
                return Ok(listing);
            }
            if listing.entries.len() == before {
                return Err(self.nonsense("a page with entries"));
            }
        }
    }

    fn put(&mut self, key: &str, value: &[u8], seen: u64) -> Result<Put, DirectoryError> {
        let answer: TransactionAnswer = self.ask("/v3/kv/txn", &transaction(key, value, seen))?;
        if answer.succeeded {
            let revision = answer.header.revision().ok_or_else(|| self.nonsense("a revision"))?;
            return Ok(Put::Done(revision));
        }
        let there = answer.responses.into_iter().next().and_then(|response| response.response_range);
        let there = there.ok_or_else(|| self.nonsense("the entry that is there"))?;
        there.kvs.into_iter().next().map(|pair| self.entry(pair)).transpose().map(Put::Changed)
    }

    fn watch(&mut self, prefix: &str, after: u64, patience: Duration) -> Result<Watched, DirectoryError> {
        let until = Instant::now() + patience;
        let mut watching = self.watching(prefix, after)?;
        loop {
            let next = self.runtime.block_on(async { timeout_at(until, watching.lines.next()).await });
            let line = match next {
                // The time is over; the connection stays.
                Err(_) => {
                    self.watching = Some(watching);
                    return Ok(Watched::Changes(Listing { revision: after, entries: Vec::new() }));
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
            // One that was removed is withheld from us, which changes nothing here.
            let written = result.events.into_iter().filter(|event| !event.is_removal());
            let pairs: Vec<_> = written.filter_map(|event| event.kv).collect();
            if pairs.is_empty() {
                continue;
            }
            let entries = pairs.into_iter().map(|pair| self.entry(pair)).collect::<Result<Vec<_>, _>>()?;
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
