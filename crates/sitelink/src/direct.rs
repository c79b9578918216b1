//! The direct way to a peer behind a relay: looked for at both ends at once, while the relay carries on.
//!
//! ```text
//!  site ── ReachableAt: where the relay sees this site ──▶ peer        over the channel that the relay cannot open
//!       ◀───────────────────────────────── the same ───── peer
//!  caller: handshakes to the peer's address; the other one: a few octets to the caller's
//! ```
//!
//! The octets of the one let those of the other in through its own NAT, if that sends from one port whomever it sends to. The first connection that
//! comes up replaces the one through the relay. Sessions, windows and flows know nothing of it.
//!
//! What a relay says of this site's address is told to the peer alone, and can at most lead to no answer: a connection is made with who
//! has the peer's key.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::dial::{Dial, fit};
use super::random;
use super::shared::{Arrival, DriverEvent};
use super::status::canonical;
use dataplane::site::relayed_peer;

/// Interval at which a direct way is looked for anew.
const AGAIN: Duration = Duration::from_secs(60);
/// Shortest interval between two tries, however often a peer asks.
const SPACING: Duration = Duration::from_secs(5);
/// Handshakes of a try, each with packets at 0, 300 and 900 ms.
const HANDSHAKES: usize = 3;
/// Pauses before the packets of the one who is called, as long as the other one tries.
const PAUSES: [u64; 8] = [0, 100, 200, 300, 400, 500, 1000, 1500];
/// Octets of such a packet: too few for anything.
const PUNCH_OCTETS: usize = 8;

/// The search for a direct way.
#[derive(Debug, Default)]
pub(super) struct Direct {
    /// This site's address that the peer was told on this connection, and when.
    told: Option<(SocketAddr, wire::Instant)>,
    /// Where the peer says that it is, if that was not tried yet.
    theirs: Option<SocketAddr>,
    tried: Option<wire::Instant>,
    trying: Option<AbortHandle>,
    /// Why there is none, in words; empty until something is known.
    pub(super) why: String,
}

impl Direct {
    /// The peer says where it is.
    pub(super) const fn peer_says(&mut self, address: SocketAddr) {
        self.theirs = Some(address);
    }

    /// Whether the peer is to be told now where the relay sees this site. Who is told answers at once: both have to try at the same time.
    pub(super) fn due(&self, now: wire::Instant, own: SocketAddr) -> bool {
        let after = if self.theirs.is_some() { SPACING } else { AGAIN };
        self.told.is_none_or(|(told, since)| told != own || now.since(since) >= after)
    }

    /// The peer was told.
    pub(super) const fn told(&mut self, now: wire::Instant, own: SocketAddr) {
        self.told = Some((own, now));
    }

    /// Begins to try what the peer said, if it said something.
    pub(super) fn try_it(&mut self, now: wire::Instant, own: SocketAddr, caller: bool, dial: &Arc<Dial>) {
        let Some(theirs) = self.theirs.take() else { return };
        if self.tried.is_some_and(|tried| now.since(tried) < SPACING) {
            return;
        }
        let Some(address) = fit(theirs, dial.local()).filter(|_| is_plausible(theirs, own)) else {
            self.why =
                format!("no direct way: {theirs}, where the relay sees the peer, is not reached from here");
            return;
        };
        self.tried = Some(now);
        self.stop();
        let dial = Arc::clone(dial);
        let trying = match caller {
            true => tokio::spawn(call(dial, address)),
            false => tokio::spawn(open(dial, address, own)),
        };
        self.trying = Some(trying.abort_handle());
    }

    /// Ends what is tried.
    pub(super) fn stop(&mut self) {
        if let Some(trying) = self.trying.take() {
            trying.abort();
        }
    }
}

/// Whether packets may go to an address that a peer has named. Nothing of this box's own, and no group.
fn is_plausible(theirs: SocketAddr, own: SocketAddr) -> bool {
    let ip = theirs.ip();
    let broadcast = matches!(ip, IpAddr::V4(four) if four.is_broadcast() || four.is_link_local());
    theirs.port() != 0
        && !ip.is_unspecified()
        && !ip.is_multicast()
        && !broadcast
        && ip.is_loopback() == own.ip().is_loopback()
        && relayed_peer(theirs).is_none()
}

/// Calls the peer.
async fn call(dial: Arc<Dial>, address: SocketAddr) {
    let mut why = String::new();
    for _ in 0..HANDSHAKES {
        match dial.attempt_at(address).await {
            Ok((connection, first)) => {
                let arrival =
                    Arrival { peer: dial.peer, connection, address, first: Some(first), ours: true };
                let _ = dial.news.send(DriverEvent::Arrived(arrival)).await;
                dial.shared.stir.notify_one();
                return;
            }
            Err(reason) => why = reason.text,
        }
    }
    let why = format!("no direct way: {why}");
    let _ = dial.news.send(DriverEvent::NotDirect { peer: dial.peer, why }).await;
    dial.shared.stir.notify_one();
}

/// Lets the peer's calls in, whose address the NAT here does not know yet.
async fn open(dial: Arc<Dial>, address: SocketAddr, own: SocketAddr) {
    dial.expect(address.ip());
    for pause in PAUSES {
        sleep(Duration::from_millis(pause)).await;
        // QUIC's bit is not set, and no identifier is so short.
        let octets: [u8; PUNCH_OCTETS] = random::octets();
        dial.shared.socket.send_beside(&octets.map(|octet| octet & !0x40), address);
    }
    let why = format!("no direct way: no call of the peer from {} to {own}", canonical(address));
    let _ = dial.news.send(DriverEvent::NotDirect { peer: dial.peer, why }).await;
    dial.shared.stir.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_where_a_site_can_be_and_nowhere_else() {
        let parse = |address: &str| address.parse::<SocketAddr>().expect("an address");
        let own = parse("198.51.100.6:7787");
        for (theirs, plausible) in [
            ("203.0.113.9:20007", true),
            ("10.0.0.7:7787", true),
            ("[2001:db8::7]:7787", true),
            ("203.0.113.9:0", false),
            ("0.0.0.0:7787", false),
            ("0.1.0.2:1", false),
            ("224.0.0.1:7787", false),
            ("255.255.255.255:7787", false),
            ("169.254.1.2:7787", false),
            ("127.0.0.1:7787", false),
            ("[::1]:7787", false),
            ("[ff02::1]:7787", false),
        ] {
            assert_eq!(is_plausible(parse(theirs), own), plausible, "{theirs}");
        }
    }

    #[test]
    fn both_are_told_at_the_same_time_once_a_minute() {
        let at = |seconds| wire::Instant::after_start(Duration::from_secs(seconds));
        let (own, other) = ("192.0.2.1:7".parse().expect("an address"), "192.0.2.2:7".parse().expect("one"));
        let mut direct = Direct::default();
        assert!(direct.due(at(0), own));
        direct.told(at(0), own);
        assert!(!direct.due(at(59), own) && direct.due(at(60), own));
        assert!(direct.due(at(1), other), "this site is seen elsewhere");
        direct.peer_says(other);
        assert!(!direct.due(at(4), own), "it was told a moment ago");
        assert!(direct.due(at(5), own), "the answer");
    }
}
