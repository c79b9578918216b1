//! When unused flows are withdrawn: those that somebody answers, and those that nobody does.

mod ends;

use std::collections::BTreeSet;
use std::time::Duration;

use ends::{Sites, frame, frame_between, settings};
use tunnel::PeerId;

const P0: PeerId = PeerId(0);

/// A flow to a station that was not heard behind the peer holds its place for half a minute, so that new ones do not wait behind a flood
/// for as long as known flows are remembered. Nobody answers from a group address.
#[test]
fn a_flow_that_nobody_answers_ages_sooner() {
    let mut sites = Sites::new(2, &settings(1));
    // Station 1 is here and station 2 behind the peer: each knows where the other one is.
    for (site, from, to) in [(0, 1, 2), (1, 2, 1), (0, 1, 2), (0, 1, 30)] {
        sites.send(site, &frame(from, to, 1, 100));
        sites.deliver_all(site);
    }
    sites.send(0, &frame_between([2, 0, 0, 0, 0, 1], [3, 0, 0, 0, 0, 31], 2, 100));
    sites.deliver_all(0);
    sites.settle();
    let destinations = |sites: &Sites| {
        let flows = sites.sites[0].forwarding.flows(P0);
        flows.map(|given| given.flow.destination.0[5]).collect::<BTreeSet<u8>>()
    };
    // (seconds that pass before, flows that are left)
    let rows: [(u64, &[u8]); 4] = [(29, &[2, 30, 31]), (2, &[2, 31]), (267, &[2, 31]), (2, &[])];
    for (seconds, left) in rows {
        sites.now = sites.now + Duration::from_secs(seconds);
        // All slots are looked at once.
        sites.pass(Duration::from_millis(600));
        assert_eq!(destinations(&sites), BTreeSet::from_iter(left.iter().copied()), "{seconds} s later");
    }
    assert_eq!(sites.sites[1].forwarding.announced_flows(P0), 0);
}
