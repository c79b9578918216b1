//! Forwarding halves, two and three of them, over wires without faults.

mod ends;

use ends::{Sites, frame, settings};
use wire::tunnel::{HEADER_OCTETS, LONG_FORM_OCTETS, RID_OCTETS};

const SHORT: usize = RID_OCTETS + HEADER_OCTETS;

#[test]
fn the_first_frame_arrives_and_later_ones_are_short() {
    let mut sites = Sites::new(2, &settings(1));
    let first = frame(1, 2, 1, 200);
    assert!(sites.send(0, &first));
    let packets = sites.take_sent(0);
    assert_eq!(packets.len(), 1);
    assert_eq!(packets[0].1.len(), 200 - 28 + SHORT + LONG_FORM_OCTETS);
    assert_eq!(sites.arrive(0, 1, &packets[0].1).as_deref(), Some(&first[..]));
    sites.settle();
    let second = frame(1, 2, 2, 200);
    sites.send(0, &second);
    let packets = sites.take_sent(0);
    assert_eq!(packets[0].1.len(), 200 - 28 + SHORT);
    assert_eq!(sites.arrive(0, 1, &packets[0].1).as_deref(), Some(&second[..]));
    assert_eq!(sites.arrive(0, 1, &packets[0].1), None, "a replayed packet");
    assert_eq!(sites.sites[1].forwarding.counters().in_pkts_unknown_identifier, 1);
}
