//! One path: its settings, its figures, and why it carries no packets.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use dataplane::site::Place;
use netdev::interface::link_state;
use netdev::udp::Source;
use quinn::Connection;
use suite::path_probe::{PROBE_KEY_OCTETS, ProbeKey};
use tokio::task::AbortHandle;
use wire::Instant;

use super::meter::{Figures, Meter};
use super::search::PayloadSearch;
use crate::settings::ManagerPath;
use crate::status::canonical;

/// Label of the octets that a connection gives for probes (RFC 8446, 7.5).
const LABEL: &[u8] = b"EXPORTER-frameward-path-probe";
/// Time for which copies still go over a path that is down. It may be this end that is slow, and the other path that has died.
const LINGER: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct PeerPath {
    pub(super) settings: ManagerPath,
    /// Address of its endpoint, or why there is none.
    pub(super) endpoint: Result<Option<SocketAddr>, String>,
    /// Looks the endpoint up, now and after its name has changed.
    pub(super) following: Option<AbortHandle>,
    pub(super) source: Result<Source, String>,
    pub(super) meter: Meter,
    pub(super) search: PayloadSearch,
    /// Where its packets went on the connection before.
    pub(super) kept: Option<Place>,
    /// As it was told to a person.
    pub(super) up: bool,
    /// Moment at which it was up last.
    pub(super) was_up: Option<Instant>,
}

impl Drop for PeerPath {
    fn drop(&mut self) {
        if let Some(following) = self.following.take() {
            following.abort();
        }
    }
}

impl PeerPath {
    pub(super) fn new(settings: ManagerPath, following: Option<AbortHandle>, most_payload: u16) -> Self {
        let source = source_of(&settings);
        let search = PayloadSearch::new(most_payload);
        Self {
            settings,
            endpoint: Ok(None),
            following,
            source,
            meter: Meter::default(),
            search,
            kept: None,
            up: false,
            was_up: None,
        }
    }

    /// Where its packets go, if the peer was proved to be there on this connection or on the one before.
    pub(super) fn place(&self) -> Option<Place> {
        let to = self.proved()?;
        Some(Place { to, source: *self.source.as_ref().ok()? })
    }

    /// Address at which the peer was proved to be last.
    pub(super) fn proved(&self) -> Option<SocketAddr> {
        self.meter.proved().or(self.kept.map(|kept| kept.to))
    }

    /// There are other keys: it is measured and proved anew. `used`: packets went over it.
    pub(super) fn begin(&mut self, now: Instant, used: bool) {
        self.kept = self.place().filter(|_| used);
        self.meter = Meter::default();
        self.search.begin();
        self.was_up = self.kept.map(|_| now);
    }

    /// Whether packets go over it: it is up, or was until lately.
    pub(super) fn is_used(&self, now: Instant) -> bool {
        self.was_up.is_some_and(|last| now.since(last) < LINGER)
    }

    pub(super) fn figures(&self, now: Instant) -> Option<Figures> {
        self.source.as_ref().ok().and(self.meter.figures(now))
    }

    /// Why it carries no packets, in words.
    pub(super) fn reason(&self, now: Instant) -> String {
        if let Err(why) = &self.source {
            return why.clone();
        }
        if self.meter.answers(now) {
            return "the peer has no proof yet that this site is at its end".to_owned();
        }
        let endpoint = self.endpoint.as_ref().ok().copied().flatten();
        match (self.meter.proved().or(self.meter.heard()).or(endpoint), &self.endpoint) {
            (Some(address), _) => format!("no answer from {}", canonical(address)),
            (None, Err(why)) => why.clone(),
            (None, Ok(_)) if self.settings.endpoint.is_some() => "its endpoint is being looked up".to_owned(),
            (None, Ok(_)) => "the peer was not heard on it".to_owned(),
        }
    }
}

/// The way out of this box of a path.
///
/// # Errors
/// Its interface is not there.
pub(crate) fn source_of(path: &ManagerPath) -> Result<Source, String> {
    let interface = match &path.interface {
        None => 0,
        Some(name) => match link_state(name) {
            Ok(Some(seen)) => seen.index,
            Ok(None) => return Err(format!("interface {name} is missing")),
            Err(error) => return Err(format!("interface {name}: {error}")),
        },
    };
    Ok(Source { address: path.local.filter(|local| !local.is_unspecified()), interface })
}

/// Keys of a path's probes, inward and outward.
pub(crate) fn keys_of(connection: &Connection, number: u8, ours: bool) -> Option<[ProbeKey; 2]> {
    let mut octets = zeroize::Zeroizing::new([0; 2 * PROBE_KEY_OCTETS]);
    connection.export_keying_material(&mut octets[..], LABEL, &[number]).ok()?;
    let (clients, servers) = octets.split_first_chunk::<PROBE_KEY_OCTETS>()?;
    let (clients, servers) = (ProbeKey::new(clients), ProbeKey::new(servers.first_chunk()?));
    Some(if ours { [servers, clients] } else { [clients, servers] })
}

/// Whether an address is of the IP version that a path's own address has.
pub(crate) fn is_of_version(address: SocketAddr, local: Option<IpAddr>) -> bool {
    local.is_none_or(|local| canonical(address).is_ipv4() == local.is_ipv4())
}
