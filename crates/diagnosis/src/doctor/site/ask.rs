//! Questions to the peers of a site whose gateway does not run: doctor takes its place on the UDP side.

use std::fmt;
use std::time::{Duration, Instant};

use config::Site;
use config::site::settings::{manager_settings, open_wan, settings};
use dataplane::site::{Site as Forwarding, datagrams, mailboxes};
use report::site::{SitePeerReport, peer_report};
use sitelink::{ConnState, Manager, ManagerStatus, RoundTrips};
use tunnel::PeerId;

use super::super::Finding;

/// Time peers may take to answer, and the path to be probed; a peer that runs takes less than two seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);
/// Time without growth after which the size that the path carries is final.
const STEADY: Duration = Duration::from_secs(3);
/// Answered probes of a path or a peer that are waited for, ten seconds of them: fewer show little of its jitter.
const PROBES: u16 = 50;
/// Interval between looks at the site's sockets.
const LOOK: Duration = Duration::from_millis(1);

/// Calls the peers of a site whose gateway does not run. Returns what is known of them, and what the channel says of callers that are none.
pub(super) fn ask(
    site: &Site,
    lan_mtu: usize,
    patience: Duration,
) -> Result<(Vec<SitePeerReport>, Vec<String>), Finding> {
    let problem = |error: &dyn fmt::Display| Finding::problem("UDP", error.to_string());
    let wan = open_wan(site).map_err(|error| problem(&error))?;
    let socket = wan.socket().map_err(|error| problem(&error))?;
    let (Some(settings_of_manager), Some(socket)) = (manager_settings(site, lan_mtu), socket) else {
        return Err(Finding::note("peers", "not tested: peers in plain mode do not answer"));
    };
    let (worker, mailbox) = mailboxes().map_err(|error| problem(&error))?;
    let (producer, datagrams) = datagrams();
    let settings = settings(site, lan_mtu).map_err(|error| problem(&error))?;
    let mut forwarding = Forwarding::new(settings, wan, worker, producer, site.dscp);
    if site.relay {
        forwarding.relay_for_peers();
    }
    let manager = Manager::start(settings_of_manager, mailbox, datagrams, socket, None)
        .map_err(|error| problem(&error))?;
    let start = Instant::now();
    let mut steady = Steady { since: start, sum: 0 };
    let status = loop {
        let now = Instant::now();
        if forwarding.turn(wire::Instant::after_start(now - start), now).0 == 0 {
            std::thread::sleep(LOOK);
        }
        let status = manager.status();
        if now - start >= patience
            || (all_answered(&status) && steady.is(now, &status) && are_measured(&status))
        {
            break status;
        }
    };
    let peers = site.peers.iter().zip((0..).map(PeerId));
    let peers = peers.map(|(peer, number)| peer_report(peer, None, Some(&status), Some(number))).collect();
    let strangers = manager.notices().into_iter().filter(|notice| notice.peer.is_none());
    let strangers = strangers.map(|notice| notice.text).collect();
    manager.stop();
    Ok((peers, strangers))
}

fn all_answered(status: &ManagerStatus) -> bool {
    status
        .peers
        .iter()
        .all(|peer| matches!(peer.reach, ConnState::Connected | ConnState::Refused | ConnState::Without))
}

/// True if enough probes were answered on each path that is up, and by each peer without paths that answers some.
fn are_measured(status: &ManagerStatus) -> bool {
    let enough = |its: RoundTrips| its.count >= PROBES;
    let paths = status.peers.iter().flat_map(|peer| &peer.paths);
    paths.filter(|path| path.round_trip.is_some()).all(|path| path.round_trips.is_some_and(enough))
        && status.peers.iter().filter_map(|peer| peer.round_trips).all(enough)
}

/// Sum of what the paths carry and of those of several that are up, and since when it has not grown.
struct Steady {
    since: Instant,
    sum: u64,
}

impl Steady {
    fn is(&mut self, now: Instant, status: &ManagerStatus) -> bool {
        let payloads = status.peers.iter().filter_map(|peer| peer.path_payload).map(u64::from);
        let paths = status.peers.iter().flat_map(|peer| &peer.paths);
        let up = paths.filter(|path| path.round_trip.is_some()).count() as u64;
        let sum = payloads.sum::<u64>() + up;
        if sum != self.sum {
            (self.since, self.sum) = (now, sum);
        }
        now - self.since >= STEADY
    }
}
