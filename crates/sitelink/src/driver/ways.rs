//! Ways to peers: what connects to them, and their paths.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::TransportConfig;
use suite::identity::PublicKey;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tunnel::{Mode, PeerId};

use super::super::dial::{Dial, Name, Way};
use super::super::peer::Following;
use super::super::settings::{ManagerPath, ManagerPeer};
use super::super::shared::{DriverEvent, Shared};
use super::super::transport;
use super::Driver;

/// Interval at which fixed endpoints are resolved again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Pause before a name that could not be resolved is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(3);

impl Driver<'_> {
    /// Has peers with several paths have those of their settings.
    pub(super) fn change_paths(&mut self, configured: &BTreeMap<PeerId, ManagerPeer>) {
        let mut peers = std::mem::take(&mut self.peers);
        for peer in &mut peers {
            let number = peer.id();
            if let Some(settings) = configured.get(&number).filter(|settings| peer.has_other_paths(settings))
            {
                let dial = settings.public_key.and_then(|key| {
                    self.dial(number, settings, key, &transport::transport(self.settings.most_payload))
                });
                peer.change_paths(settings, dial, |path, settings| self.follow_path(number, path, settings));
            }
        }
        self.peers = peers;
    }

    /// Has the endpoint of a path looked up, again and again.
    pub(super) fn follow_path(&self, peer: PeerId, number: u8, path: &ManagerPath) -> Option<AbortHandle> {
        let name = Name::on_path(path.endpoint.clone()?, self.local, path);
        let (shared, news) = (Arc::clone(&self.shared), self.tell.clone());
        let following = tokio::spawn(async move {
            loop {
                let found = name.addresses().await;
                let pause = if found.is_ok() { LOOK_AGAIN } else { TRY_AGAIN };
                let _ = news.send(DriverEvent::PathFound { peer, number, found }).await;
                shared.stir.notify_one();
                sleep(pause).await;
            }
        });
        Some(following.abort_handle())
    }

    /// Ways to a peer: to its endpoint, those of its paths, or its relay.
    fn ways(&self, id: PeerId, peer: &ManagerPeer) -> Vec<Way> {
        let single = peer.endpoint.iter().map(|host| Name::new(host.clone(), self.local));
        let relay = (peer.endpoint.is_none() && peer.via.is_some()).then(|| Name::relayed(id, self.local));
        let of_path = |path: &ManagerPath| {
            let name = Name::on_path(path.endpoint.clone()?, self.local, path);
            Some(Way { name, path: Some(path.clone()) })
        };
        let direct = single.chain(relay).map(|name| Way { name, path: None });
        direct.chain(peer.paths.iter().filter_map(of_path)).collect()
    }

    /// What connects to a peer, if there is a way to it.
    pub(super) fn dial(
        &self,
        id: PeerId,
        peer: &ManagerPeer,
        public_key: PublicKey,
        transport: &Arc<TransportConfig>,
    ) -> Option<Arc<Dial>> {
        let ways = self.ways(id, peer);
        if ways.is_empty() {
            return None;
        }
        let (crypto, verifier) = self.tls.client(public_key, peer.classical);
        Some(Arc::new(Dial {
            peer: id,
            ways,
            endpoint: self.endpoint.clone(),
            config: transport::client(crypto, Arc::clone(transport), public_key),
            verifier,
            shared: Arc::clone(&self.shared),
            news: self.tell.clone(),
        }))
    }

    /// Whether programs in the kernel forward a peer's known flows: they know one path, and no encrypted headers.
    pub(super) fn has_programs(&self, peer: &ManagerPeer) -> bool {
        self.kernel.is_some() && peer.paths.is_empty() && peer.mode != Mode::HeaderEncryption
    }
}

/// Resolves the endpoint of a peer with header encryption or a plain one, again and again: its name may get another address. At once if the peer
/// wants it.
pub(super) fn follow(
    peer: PeerId,
    settings: &ManagerPeer,
    local: SocketAddr,
    shared: &Arc<Shared>,
    news: &mpsc::Sender<DriverEvent>,
) -> Option<Following> {
    let beyond = match settings.mode {
        Mode::Identifier => return None,
        // Data is beside the management channel, one port above.
        Mode::HeaderEncryption => 1,
        Mode::Plain { .. } => 0,
    };
    let host = settings.endpoint.clone()?;
    let (shared, news) = (Arc::clone(shared), news.clone());
    let at_once = Arc::new(Notify::new());
    let asked = Arc::clone(&at_once);
    let following = tokio::spawn(async move {
        let name = Name::new(host, local);
        loop {
            let pause = match name.addresses().await {
                Ok(mut addresses) => {
                    for address in &mut addresses {
                        address.set_port(address.port().wrapping_add(beyond));
                    }
                    let _ = news.send(DriverEvent::Found { peer, addresses }).await;
                    LOOK_AGAIN
                }
                Err(why) => {
                    let _ = news.send(DriverEvent::Failed { peer, why }).await;
                    TRY_AGAIN
                }
            };
            shared.stir.notify_one();
            // A peer whose address goes to and fro causes few look-ups.
            sleep(TRY_AGAIN.min(pause)).await;
            let _ = timeout(pause.saturating_sub(TRY_AGAIN), asked.notified()).await;
        }
    });
    Some(Following::new(following.abort_handle(), at_once))
}
