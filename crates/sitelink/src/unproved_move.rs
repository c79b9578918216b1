//! A new address of a peer, and the proof that the peer is there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::random;

/// Another address than before at which QUIC has seen a peer. The peer is taken on there if it answers a Ping that was sent there,
/// and nowhere else.
///
/// An answer from there is not enough. An attacker diverts the peer's packets, and lets ours pass. QUIC then tries his address,
/// gives up on it, sends the Ping to the peer, and takes the diverted answer as coming from him. So an answer counts only if
/// nothing was sent to the address of before since the Ping.
#[derive(Debug)]
pub(super) struct UnprovedMove {
    pub(super) address: SocketAddr,
    pub(super) token: u64,
    /// Packets to the address of before since the Ping; nothing as long as it was not sent.
    pub(super) elsewhere: Option<Arc<AtomicU64>>,
}

impl UnprovedMove {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, token: random::number(), elsewhere: None }
    }

    /// Whether this answer, while the peer is at `address`, proves that it is there.
    pub(super) fn is_proved_by(&self, token: u64, address: SocketAddr) -> bool {
        let nowhere_else = self.elsewhere.as_ref().is_some_and(|sent| sent.load(Ordering::Relaxed) == 0);
        token == self.token && address == self.address && nowhere_else
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_an_answer_from_there_to_a_ping_that_went_nowhere_else() {
        let there: SocketAddr = "192.0.2.1:7".parse().expect("an address");
        let before: SocketAddr = "192.0.2.1:8".parse().expect("an address");
        let mut claimed = UnprovedMove::new(there);
        let token = claimed.token;
        assert!(!claimed.is_proved_by(token, there), "not sent yet");
        let sent = Arc::new(AtomicU64::new(0));
        claimed.elsewhere = Some(Arc::clone(&sent));
        assert!(claimed.is_proved_by(token, there));
        assert!(!claimed.is_proved_by(token ^ 1, there), "of another Ping");
        assert!(!claimed.is_proved_by(token, before), "while it is elsewhere");
        sent.fetch_add(1, Ordering::Relaxed);
        assert!(!claimed.is_proved_by(token, there), "it may have gone to where the peer was before");
    }
}
