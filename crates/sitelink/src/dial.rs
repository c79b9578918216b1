//! Connecting to a peer that has an endpoint: again and again, until there is a connection.
//!
//! The name is resolved again for each try, and the tries go through its addresses in turn. A try that nobody answers
//! sends its Initial again after 300 and 900 ms and is given up after [`PATIENCE`], so that a peer that starts is met
//! within about half a second. Tries that fail at once are up to half a second apart.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quinn::{ClientConfig, Connection, Endpoint, RecvStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tunnel::PeerId;

use super::error::DisconnectReason;
use super::paths::{is_of_version, source_of};
use super::random;
use super::routes::Route;
use super::settings::ManagerPath;
use super::shared::{Arrival, DriverEvent, Shared};
use super::status::canonical;
use super::tls::Verifier;
use super::transport::DEAD;
use dataplane::site::{Place, relay_address, relayed_peer};

/// Limit on the wait for an answer.
const PATIENCE: Duration = Duration::from_millis(1400);
/// Limit on the time of resolving a name.
const NAME_PATIENCE: Duration = Duration::from_secs(2);

/// Cure of a name that cannot be resolved.
const RESOLVE: &str = "correct the name, or this box's resolver: 'getent ahosts NAME' asks it";

/// Everything that a try needs.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) peer: PeerId,
    /// The ways to it, at least one, tried in turn.
    pub(super) ways: Vec<Way>,
    pub(super) endpoint: Endpoint,
    pub(super) config: ClientConfig,
    pub(super) verifier: Arc<Verifier>,
    pub(super) shared: Arc<Shared>,
    pub(super) news: mpsc::Sender<DriverEvent>,
}

/// An endpoint of a peer, and the path on which it is, if the peer has several.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) name: Name,
    pub(super) path: Option<ManagerPath>,
}

/// `host:port`, and where it was last time.
#[derive(Debug)]
pub(super) struct Name {
    host: String,
    /// The address that stands for a relay, in the place of a name.
    relay: Option<SocketAddr>,
    local: SocketAddr,
    /// The IP version that is wanted, by an address of it.
    version: Option<IpAddr>,
    last: Mutex<Vec<SocketAddr>>,
}

impl Dial {
    /// Tries until there is a connection, and tells it.
    pub(super) async fn dial(self: Arc<Self>, delay: Duration) {
        sleep(delay).await;
        for number in 0_usize.. {
            let why = match self.attempt(number).await {
                Ok((connection, address, first)) => {
                    let first = Some(first);
                    let arrival = Arrival { peer: self.peer, connection, address, first, ours: true };
                    let _ = self.news.send(DriverEvent::Arrived(arrival)).await;
                    break;
                }
                Err(why) => why,
            };
            let pause = if why.silent {
                random::between(Duration::ZERO, Duration::from_millis(100))
            } else {
                random::between(Duration::from_millis(200), Duration::from_millis(500))
            };
            let _ = self.news.send(DriverEvent::Failed { peer: self.peer, why }).await;
            self.shared.stir.notify_one();
            sleep(pause).await;
        }
        self.shared.stir.notify_one();
    }

    async fn attempt(&self, number: usize) -> Result<(Connection, SocketAddr, RecvStream), DisconnectReason> {
        let way = &self.ways[number % self.ways.len()];
        let addresses = way.name.addresses().await?;
        self.shared.with_roster(|roster| roster.expect_from(self.peer, self.all_addresses()));
        let address = addresses[number / self.ways.len() % addresses.len()];
        if let Some(path) = &way.path {
            let source = source_of(path).map_err(DisconnectReason::plain)?;
            let places = vec![Place { to: address, source }];
            self.shared.socket.routes().set(self.peer, Some(Route { seen: address, places }));
        }
        self.attempt_at(address).await.map(|(connection, first)| (connection, address, first))
    }

    /// The peer may call from here, besides from where its name says.
    pub(super) fn expect(&self, ip: IpAddr) {
        let relays = self.ways.iter().filter_map(|way| way.name.relay.map(|relay| relay.ip()));
        let ips = [ip].into_iter().chain(relays).collect();
        self.shared.with_roster(|roster| roster.expect_from(self.peer, ips));
    }

    /// One try at this address, which is as the socket takes it.
    pub(super) async fn attempt_at(
        &self,
        address: SocketAddr,
    ) -> Result<(Connection, RecvStream), DisconnectReason> {
        let connecting = self
            .endpoint
            .connect_with(self.config.clone(), address, "site")
            .map_err(|error| DisconnectReason::plain(format!("cannot connect to {address}: {error}")))?;
        let shown = || self.verifier.shown().filter(|key| !self.verifier.accepts(*key));
        let connection = match timeout(PATIENCE, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(DisconnectReason::of(&error, shown())),
            Err(_) if relayed_peer(address).is_some() => {
                let why = DisconnectReason::silent("no answer through the relay");
                return Err(why.cured_by(
                    "see that the relay is connected, has relay = true and the peer among its peers, and that via and public_key are right at both ends",
                ));
            }
            Err(_) => {
                let why = DisconnectReason::silent(format!("no answer from {}", canonical(address)));
                return Err(why.cured_by(
                    "start its gateway, let the port in at its firewall, and see that endpoint and public_key are right: a site answers nobody who does not know its key",
                ));
            }
        };
        // In TLS 1.3 the client is done before the server has looked at its key: only a server that speaks knows us.
        match timeout(DEAD, connection.accept_uni()).await {
            Ok(Ok(first)) => Ok((connection, first)),
            Ok(Err(error)) => Err(DisconnectReason::of(&error, shown())),
            Err(_) => Err(DisconnectReason::silent("the peer says nothing")),
        }
    }
}

impl Dial {
    /// Where this site's socket is bound.
    pub(super) fn local(&self) -> SocketAddr {
        self.ways[0].name.local
    }

    /// Addresses of all endpoints, as they were found last.
    fn all_addresses(&self) -> Vec<IpAddr> {
        let of = |way: &Way| way.name.last().iter().map(SocketAddr::ip).collect::<Vec<_>>();
        self.ways.iter().flat_map(of).collect()
    }
}

impl Name {
    /// `local`: where this site's socket is bound.
    pub(super) fn new(host: String, local: SocketAddr) -> Self {
        Self { host, relay: None, local, version: None, last: Mutex::new(Vec::new()) }
    }

    /// The same, with addresses of the IP version of a path's own address alone.
    pub(super) fn on_path(host: String, local: SocketAddr, path: &ManagerPath) -> Self {
        Self { version: path.local, ..Self::new(host, local) }
    }

    /// The way to a peer behind a relay.
    pub(super) fn relayed(peer: PeerId, local: SocketAddr) -> Self {
        let address = relay_address(peer);
        let ip = match (address.ip(), local) {
            (IpAddr::V4(four), SocketAddr::V6(_)) => four.to_ipv6_mapped().into(),
            (other, _) => other,
        };
        let relay = Some(SocketAddr::new(ip, address.port()));
        Self { relay, ..Self::new(String::new(), local) }
    }

    fn last(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its addresses, as this site's socket can reach them; those of last time if names cannot be resolved now.
    pub(super) async fn addresses(&self) -> Result<Vec<SocketAddr>, DisconnectReason> {
        if let Some(relay) = self.relay {
            return Ok(vec![relay]);
        }
        let found = match self.host.parse::<SocketAddr>() {
            Ok(address) => Ok(vec![address]),
            Err(_) => match timeout(NAME_PATIENCE, tokio::net::lookup_host(&self.host)).await {
                Ok(Ok(found)) => Ok(found.collect()),
                Ok(Err(error)) => {
                    Err(DisconnectReason::plain(format!("cannot resolve {}: {error}", self.host))
                        .cured_by(RESOLVE))
                }
                Err(_) => Err(DisconnectReason::plain(format!("cannot resolve {}: no answer", self.host))
                    .cured_by(RESOLVE)),
            },
        };
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                let last = self.last().clone();
                return if last.is_empty() { Err(why) } else { Ok(last) };
            }
        };
        let mut fit: Vec<SocketAddr> = found.iter().filter_map(|address| fit(*address, self.local)).collect();
        fit.dedup();
        fit.retain(|address| is_of_version(*address, self.version));
        if let (true, Some(version)) = (fit.is_empty(), self.version) {
            return Err(DisconnectReason::plain(format!(
                "{} has no address that can be reached from {version}",
                self.host
            )));
        }
        if fit.is_empty() {
            let family = if self.local.is_ipv4() { "IPv4" } else { "IPv6" };
            let bound = self.local.ip();
            let why = format!("{} has no {family} address, and bind is {bound}", self.host);
            return Err(DisconnectReason::plain(why).cured_by(
                "bind to an address of the other IP version, or give the peer one of this version",
            ));
        }
        self.last().clone_from(&fit);
        Ok(fit)
    }
}

/// The address as it is written to a socket that is bound to `local`; `None` if that cannot reach it.
pub(super) fn fit(address: SocketAddr, local: SocketAddr) -> Option<SocketAddr> {
    match (address, local) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) | (SocketAddr::V6(_), SocketAddr::V6(_)) => Some(address),
        // [::] takes both families, unless the system is told otherwise.
        (SocketAddr::V4(four), SocketAddr::V6(local)) if local.ip().is_unspecified() => {
            Some(SocketAddr::new(four.ip().to_ipv6_mapped().into(), four.port()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_fit_the_socket() {
        let parse = |address: &str| address.parse::<SocketAddr>().expect("an address");
        let rows = [
            ("192.0.2.1:7", "0.0.0.0:1", Some("192.0.2.1:7")),
            ("[2001:db8::1]:7", "0.0.0.0:1", None),
            ("[2001:db8::1]:7", "[::]:1", Some("[2001:db8::1]:7")),
            ("192.0.2.1:7", "[::]:1", Some("[::ffff:192.0.2.1]:7")),
            ("192.0.2.1:7", "[2001:db8::2]:1", None),
        ];
        for (address, local, expected) in rows {
            assert_eq!(fit(parse(address), parse(local)), expected.map(parse), "{address} from {local}");
        }
    }
}
