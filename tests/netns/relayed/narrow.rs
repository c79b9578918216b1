//! The leg behind the hub becomes narrow. The hub splits nothing that it relays, and says nothing of it: spokes find out by what their own
//! channel through the hub still carries.

use super::*;

/// Octets of IPv4, UDP and the relay's header around a relayed packet.
const AROUND: u16 = 20 + 8 + 16;

#[test]
fn a_second_leg_that_becomes_narrow_is_noticed_at_both_spokes() {
    let hub = Hub::new(SYMMETRIC).start();
    hub.secured();
    hub.reaches(0, 2, 1472);
    let carry = |is: &dyn Fn(u16) -> bool| {
        for (own, other) in [(0, 2), (2, 0)] {
            let end = Instant::now() + DEADLINE;
            while !hub.peer(own, other).path_payload.is_some_and(is) {
                assert!(Instant::now() < end, "{:#?}", hub.peer(own, other));
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    };
    carry(&|payload| payload == 1500 - AROUND);
    hub.plants.narrow(&hub.plants.plants[2], 1400).unwrap();
    // Full frames are lost until the spokes know it; they go in shorter packets then.
    carry(&|payload| payload <= 1400 - AROUND);
    hub.reaches(0, 2, 1472);
    counted_until(&hub, (0, 2), 1000, || true);
    counted_until(&hub, (2, 0), 2000, || true);
    assert!(hub.peer(0, 2).relayed && hub.peer(2, 0).relayed);
    for site in hub.sites {
        site.stop().unwrap();
    }
}
