//! The direct way to a peer behind a relay: looked for at both ends at once, while the relay carries on.
//!
//! ```text
//!  site ── ReachableAt: where the relay sees this site ──▶ peer        over the channel that the relay cannot open
//!       ◀───────────────────────────────── the same ───── peer
//!  both: a handshake to the other one's address
//! ```
//!
//! The packets of the one let those of the other in through its own NAT, if that sends from one port whomever it sends to. If only one of the
//! two NATs does, the other site's call passes where nothing is filtered. The first connection that comes up replaces the one through the
//! relay. Sessions, windows and flows know nothing of it.
//!
//! Both calls may come up, each at the site that was called first. Of the two that of the site with the lower key stays. So this site goes on
//! with its call when the other one's has come up: if both gave theirs up, none would be left.
//!
//! What a relay says of this site's address is told to the peer alone, and can at most lead to no answer: a connection is made with who
//! has the peer's key. Tries that fail, and direct ways that soon end, make the next one later.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use super::dial::{Dial, fit};
use super::shared::{Arrival, DriverEvent};
use dataplane::site::relayed_peer;

/// Interval at which a direct way is looked for anew, which doubles with each failure.
const AGAIN: Duration = Duration::from_secs(60);
/// The longest such interval.
const LONGEST: Duration = Duration::from_secs(3600);
/// Shortest interval between two tries, and between two words about this site's address.
const SPACING: Duration = Duration::from_secs(5);
/// A direct way that ends earlier has failed.
const STEADY: Duration = Duration::from_secs(300);

/// The search for a direct way.
#[derive(Debug, Default)]
pub(super) struct Direct {
    /// This site's address that the peer was told on this connection, and when.
    told: Option<(SocketAddr, wire::Instant)>,
    /// Where the peer says that it is, if that was not tried yet.
    theirs: Option<SocketAddr>,
    /// Moment of the last try, or at which a direct way failed.
    tried: Option<wire::Instant>,
    /// Tries in vain, and direct ways that soon ended, since there was one that lasted.
    failures: u32,
    trying: Option<AbortHandle>,
    /// Why there is none, in words; empty until something is known.
    pub(super) why: String,
}

impl Direct {
    /// The peer says where it is.
    pub(super) const fn peer_says(&mut self, address: SocketAddr) {
        self.theirs = Some(address);
    }

    /// Another connection with the peer: it knows nothing yet. What was tried in vain counts on.
    pub(super) fn begin_anew(&mut self) {
        self.stop();
        (self.told, self.theirs) = (None, None);
        self.why.clear();
    }

    /// The same with the peer's direct connection. This site's own call may have come up there already: it ends by itself.
    pub(super) fn begin_anew_and_call_on(&mut self) {
        let trying = self.trying.take();
        self.begin_anew();
        self.trying = trying;
    }

    /// A try was in vain.
    pub(super) fn failed(&mut self, why: String) {
        self.failures = self.failures.saturating_add(1);
        self.why = why;
    }

    /// A direct way has ended, which was there for so long.
    pub(super) fn ended(&mut self, now: wire::Instant, lasted: Duration) {
        if lasted >= STEADY {
            self.failures = 0;
        } else {
            self.failures = self.failures.saturating_add(1);
            self.tried = Some(now);
        }
    }

    /// Time between the last try and the next one of this site's own. The first failure is for free: a peer may have restarted.
    fn pause(&self) -> Duration {
        match self.failures {
            0 | 1 => SPACING,
            more => AGAIN.saturating_mul(1 << (more - 2).min(6)).min(LONGEST),
        }
    }

    fn waited(&self, now: wire::Instant, pause: Duration) -> bool {
        self.tried.is_none_or(|tried| now.since(tried) >= pause)
    }

    /// Whether a try may begin that the peer asks for.
    fn may_try(&self, now: wire::Instant) -> bool {
        self.waited(now, self.pause().min(AGAIN))
    }

    /// Whether the peer is to be told now where the relay sees this site. Who is told answers at once: both have to try at the same time.
    pub(super) fn due(&self, now: wire::Instant, own: SocketAddr) -> bool {
        let answers = self.theirs.is_some() && self.may_try(now);
        let Some((told, since)) = self.told else { return answers || self.waited(now, self.pause()) };
        let after = match (answers, told == own) {
            (true, _) => SPACING,
            (false, true) if self.failures == 1 => SPACING,
            (false, true) => self.pause().max(AGAIN),
            (false, false) => self.pause().min(AGAIN),
        };
        now.since(since) >= after
    }

    /// The peer was told.
    pub(super) const fn told(&mut self, now: wire::Instant, own: SocketAddr) {
        self.told = Some((own, now));
    }

    /// Begins to try what the peer said, if it said something.
    pub(super) fn try_it(&mut self, now: wire::Instant, own: SocketAddr, dial: &Arc<Dial>) {
        let Some(theirs) = self.theirs.take().filter(|_| self.may_try(now)) else { return };
        let Some(address) = fit(theirs, dial.local()).filter(|_| is_plausible(theirs, own)) else {
            self.why =
                format!("no direct way: {theirs}, where the relay sees the peer, is not reached from here");
            return;
        };
        self.tried = Some(now);
        self.stop();
        self.trying = Some(tokio::spawn(call(Arc::clone(dial), address)).abort_handle());
    }

    /// Ends what is tried.
    pub(super) fn stop(&mut self) {
        if let Some(trying) = self.trying.take() {
            trying.abort();
        }
    }
}

/// Whether packets may go to an address that a peer has named: no group, and no address of this box alone or of a network behind this
/// site's NAT. Private addresses are only tried from a private one: without a NAT before the relay.
fn is_plausible(theirs: SocketAddr, own: SocketAddr) -> bool {
    let (ip, own) = (theirs.ip().to_canonical(), own.ip().to_canonical());
    let nobodys = match ip {
        IpAddr::V4(four) => four.is_broadcast() || four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    theirs.port() != 0
        && !ip.is_unspecified()
        && !ip.is_multicast()
        && !nobodys
        && ip.is_loopback() == own.is_loopback()
        && (!is_private(ip) || is_private(own))
        && relayed_peer(theirs).is_none()
}

/// Whether networks use such an address behind a NAT (RFC 1918, RFC 6598, RFC 4193).
const fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(four) => {
            let [first, second, ..] = four.octets();
            four.is_private() || first == 100 && second & 0xc0 == 64
        }
        IpAddr::V6(six) => six.is_unique_local(),
    }
}

/// Calls the peer, once.
async fn call(dial: Arc<Dial>, address: SocketAddr) {
    dial.expect(address.ip());
    let news = match dial.attempt_at(address).await {
        Ok((connection, first)) => DriverEvent::Arrived(Arrival {
            peer: dial.peer,
            connection,
            address,
            first: Some(first),
            ours: true,
        }),
        Err(reason) => {
            DriverEvent::NotDirect { peer: dial.peer, why: format!("no direct way: {}", reason.text) }
        }
    };
    let _ = dial.news.send(news).await;
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
            ("10.0.0.7:7787", false),
            ("172.16.0.7:7787", false),
            ("100.64.0.7:7787", false),
            ("[fd00::7]:7787", false),
            ("[fe80::7]:7787", false),
            ("[::ffff:192.168.0.7]:7787", false),
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
        let private = parse("192.168.1.6:7787");
        assert!(is_plausible(parse("192.168.1.7:7787"), private), "no NAT before the relay");
        assert!(is_plausible(parse("203.0.113.9:20007"), private));
    }

    fn at(seconds: u64) -> wire::Instant {
        wire::Instant::after_start(Duration::from_secs(seconds))
    }

    #[test]
    fn both_are_told_at_the_same_time_once_a_minute() {
        let (own, other) = ("192.0.2.1:7".parse().expect("an address"), "192.0.2.2:7".parse().expect("one"));
        let mut direct = Direct::default();
        assert!(direct.due(at(0), own));
        direct.told(at(0), own);
        assert!(!direct.due(at(59), own) && direct.due(at(60), own));
        assert!(!direct.due(at(4), other), "a relay that says one thing now and another thing then");
        assert!(direct.due(at(5), other), "this site is seen elsewhere");
        direct.peer_says(other);
        assert!(!direct.due(at(4), own), "it was told a moment ago");
        assert!(direct.due(at(5), own), "the answer");
    }

    #[test]
    fn a_direct_way_that_fails_again_and_again_is_tried_less_and_less() {
        let own = "192.0.2.1:7".parse().expect("an address");
        let (mut direct, mut now, mut pauses) = (Direct::default(), 0, vec![]);
        for _ in 0..10 {
            // It comes up, carries nothing, and the relay has to go on.
            direct.ended(at(now), Duration::from_secs(3));
            direct.begin_anew();
            let failed = now;
            while !direct.due(at(now), own) {
                now += 1;
            }
            pauses.push(now - failed);
        }
        assert_eq!(pauses, [5, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        direct.peer_says(own);
        assert!(
            !direct.due(at(now - 3600 + 59), own) && direct.due(at(now - 3600 + 60), own),
            "the peer asks"
        );
        direct.ended(at(now), STEADY);
        assert_eq!(direct.pause(), SPACING, "one that lasted");
    }
}
