//! A list of VLANs beside the kernel, whose flows have no tag: what a plant that lists nothing injects, and what leaves.

use super::super::reload::reloaded;
use super::*;

/// Frames of each kind.
const COUNT: usize = 50;

/// Behind these tags, a frame of a station of a plant to one of the other plant.
fn tagged(from: usize, number: u32, tags: &[u8]) -> Vec<u8> {
    let frame = frame(from, 3, number, 200);
    [&frame[..12], tags, &frame[12..]].concat()
}

impl World {
    /// Sends frames behind tags; how many of them come out of the other LAN as they were.
    fn come_through(&mut self, from: usize, tags: &[u8], within: Duration) -> usize {
        let first = self.next;
        self.next += COUNT as u32;
        let sent: Vec<_> = (first..).take(COUNT).map(|number| tagged(from, number, tags)).collect();
        for frame in &sent {
            self.probes[from].send(frame).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        let (end, mut came) = (Instant::now() + within, 0);
        while came < COUNT && Instant::now() < end {
            let frame = self.probes[1 - from].receive().unwrap();
            came +=
                usize::from(frame.is_some_and(|frame| {
                    frame.direction == lab::Direction::In && sent.contains(&frame.octets)
                }));
        }
        came
    }

    fn other_vlan(&self, at: usize, name: &str) -> u64 {
        counter(&self.sites[at].report().unwrap().sites[0].path, name)
    }

    /// All frames behind these tags cross, or none does and they are counted at plant 2, one by one.
    fn crosses_behind(&mut self, tags: &[u8], crosses: bool) {
        for (from, name) in [(0, "InPktsOtherVlan"), (1, "OutPktsOtherVlan")] {
            let before = self.other_vlan(1, name);
            let within = if crosses { DEADLINE } else { Duration::from_millis(300) };
            let came = self.come_through(from, tags, within);
            let dropped = if crosses { 0 } else { COUNT };
            assert_eq!(came, COUNT - dropped, "from {from} behind {tags:02x?}");
            let end = Instant::now() + DEADLINE;
            while self.other_vlan(1, name) - before < dropped as u64 {
                assert!(Instant::now() < end, "{name} behind {tags:02x?}");
                std::thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(self.other_vlan(1, name) - before, dropped as u64, "{name} behind {tags:02x?}");
        }
        assert_eq!([self.other_vlan(0, "InPktsOtherVlan"), self.other_vlan(0, "OutPktsOtherVlan")], [0, 0]);
    }

    /// Has plant 2 have this list, by a reload; what that says.
    fn list(&self, before: &str, list: &str) -> String {
        let file = self.scratch.path().join(format!("{}.toml", site_name(2)));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(before), "{text}");
        std::fs::write(&file, text.replacen(before, list, 1)).unwrap();
        reloaded(&self.scratch, &site_name(2))
    }
}

fn lists_hold_beside_the_kernel(mode: &'static str) {
    let choice = SitesChoice { mode, ..SitesChoice::default() };
    let mut world = World::new(PlantsShape::default(), &choice, ["auto", "auto"]);
    world.warm(1);
    assert_eq!([0, 1].map(|at| world.path(at)), ["kernel", "kernel"]);
    // The list comes while frames flow; they go on through the kernel, and none is lost.
    let user_space = world.received_by_user_space(1);
    let lost = world.stream(1000, Duration::from_millis(1), 400, |world, number| {
        if number == 250 {
            let said = world.list("\nbind = ", "\nvlans = [\"untagged\", 10]\nbind = ");
            assert!(said.contains("other VLANs cross") && !said.contains("restarted"), "{said}");
        }
    });
    assert_eq!(lost, [0, 0]);
    assert_eq!([0, 1].map(|at| world.path(at)), ["kernel", "kernel"]);
    let by_hand = world.received_by_user_space(1) - user_space;
    assert!(by_hand < 50, "{by_hand} frames in user space");
    for (tags, crosses) in [
        (&[0x81, 0, 0, 10][..], true),
        (&[0x81, 0, 0, 20], false),
        (&[0x81, 0, 0xc0, 0], true),
        (&[0x81, 0, 0xc0, 0, 0x81, 0, 0, 20], false),
        (&[0x88, 0xa8, 0, 10, 0x81, 0, 0, 20], true),
        (&[0x88, 0xa8, 0, 20, 0x81, 0, 0, 10], false),
    ] {
        world.crosses_behind(tags, crosses);
    }

    // Frames without a tag are not listed any more: they leave the kernel, which would carry them.
    let said = world.list("[\"untagged\", 10]", "[10]");
    assert!(said.contains("restarted"), "{said}");
    world.wait_until_up();
    assert_eq!(
        world.path(1),
        "user space: its vlans have no \"untagged\", and flows in the kernel have no tag"
    );
    // Until the peer knows the new session, frames of a restarted site are counted as others are.
    let end = Instant::now() + DEADLINE;
    while world.come_through(0, &[0x81, 0, 0, 10], Duration::from_millis(300)) < COUNT {
        assert!(Instant::now() < end, "{:#?}", world.sites[1].report());
    }
    world.crosses_behind(&[0x81, 0, 0, 10], true);
    world.crosses_behind(&[], false);
    world.stop();
}

#[test]
fn a_list_of_vlans_holds_beside_the_kernel() {
    lists_hold_beside_the_kernel("identifier");
}

#[test]
fn a_list_of_vlans_holds_beside_the_kernel_and_plain_peers() {
    lists_hold_beside_the_kernel("plain");
}
