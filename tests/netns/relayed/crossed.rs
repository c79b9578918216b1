//! Calls of both spokes that cross: on a long line each hears of the other one's call when its own is under way.
//!
//! ```text
//!  site-1 ── long line, no NAT ──┐
//!                                ├── internet ── site-2
//!  site-3 ── NAT ────────────────┘
//! ```

use super::*;
use crate::standby::flows::LongLine;

/// Time from one end of the line to the other. A round trip is longer than boxes are late, also busy ones.
const FAR: Duration = Duration::from_millis(150);
/// Time in which a first try and the one for free behind it end. The next one comes after a minute.
const TRIES: Duration = Duration::from_secs(20);

/// Time after which a call that nobody answers is given up.
const CALL: Duration = Duration::from_millis(1400);

/// Either spoke's key may be the lower one: its call stays.
#[test]
fn of_two_calls_that_cross_on_a_long_line_one_stays() {
    let mut hub = Hub::by(|plant, number| {
        if number == 1 {
            put_behind_nat(plant, ONE_PORT);
        }
    });
    let line = LongLine::start(&hub.plants, 0, FAR);
    hub = hub.start();
    let is_direct = |own: usize| {
        let site = hub.sites[own].report().unwrap().sites.remove(0);
        site.peers.iter().any(|peer| peer.via.is_some() && !peer.relayed && is_up(peer))
    };
    hub.secured();
    let secured = Instant::now();
    while !(is_direct(0) && is_direct(2)) {
        assert!(secured.elapsed() < TRIES, "no direct way stays: {}", hub.said());
        std::thread::sleep(Duration::from_millis(50));
    }
    // Time in which a call that nobody ended would come up, and take the place of the first.
    std::thread::sleep(4 * FAR + CALL);
    hub.reaches(0, 2, 1472);
    assert!(is_direct(0) && is_direct(2), "the direct way has ended: {}", hub.said());
    counted_until(&hub, (0, 2), 1, || true);
    assert!(is_direct(0) && is_direct(2), "{}", hub.said());
    drop(line);
    for site in hub.sites {
        site.stop().unwrap();
    }
}
