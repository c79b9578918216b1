//! Peers that come and go while the site runs. The requester makes and drops all memory.

use tunnel::{Limits, Mode, PeerId, PeerSettings, PreparedPeer};

use super::relay::SentTo;
use super::{Site, Wan};

/// Peers that leave a site and peers that come, at once.
#[derive(Debug)]
pub struct PeerChange {
    leave: Vec<PeerId>,
    come: Vec<(Mode, PreparedPeer, SentTo)>,
    /// Ports that the modes of those who come need.
    wan: Option<Wan>,
    /// Of those who have left.
    left: Vec<(PreparedPeer, Option<SentTo>)>,
}

impl PeerChange {
    /// `wan` has the ports that the site lacks for those who come. `limits` and `lan_frame` are the site's own.
    pub fn new(
        leave: Vec<PeerId>,
        come: &[PeerSettings],
        wan: Wan,
        limits: &Limits,
        lan_frame: usize,
    ) -> Self {
        let left = Vec::with_capacity(leave.len());
        let memory =
            |peer: &PeerSettings| (peer.mode, PreparedPeer::new(peer, limits, lan_frame), SentTo::new());
        Self { leave, come: come.iter().map(memory).collect(), wan: Some(wan), left }
    }

    /// Number of peers that come.
    pub fn coming(&self) -> usize {
        self.come.len()
    }
}

impl Site {
    /// Carries out a change: those who leave first. Who comes has the next number each, and is nowhere until the manager
    /// says where. What is left over is in the change, to be dropped elsewhere.
    pub fn change_peers(&mut self, change: &mut PeerChange) {
        for peer in change.leave.drain(..) {
            self.endpoints.set(peer, None);
            let sent_to = self.relays.remove(peer);
            self.outward.remove(peer);
            change.left.extend(self.forwarding.remove_peer(peer).map(|memory| (memory, sent_to)));
        }
        if let Some(wan) = change.wan.take() {
            self.wan.take(wan);
        }
        for (mode, memory, sent_to) in change.come.drain(..) {
            let Some(peer) = self.forwarding.add_peer(memory) else { return };
            self.endpoints.add(mode);
            self.relays.add(sent_to);
            self.outward.add(peer, mode);
        }
        self.wan.uplinks.set_window(self.forwarding.most_late());
    }
}
