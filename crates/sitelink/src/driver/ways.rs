//! Ways to peers: what connects to them, and their paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use quinn::TransportConfig;
use suite::identity::PublicKey;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tunnel::PeerId;

use super::super::dial::{Dial, Name, Way};
use super::super::settings::{ManagerPath, ManagerPeer};
use super::super::shared::DriverEvent;
use super::super::transport;
use super::{Driver, LOOK_AGAIN, TRY_AGAIN};

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

    /// Whether programs in the kernel forward a peer's known flows: they know one path.
    pub(super) fn has_programs(&self, peer: &ManagerPeer) -> bool {
        self.kernel.is_some() && peer.paths.is_empty()
    }
}
