use super::*;

const TICK: Duration = Duration::from_millis(20);

/// Gateways, machines and cables, on a clock that is held in the hand.
///
/// ```text
///  machine ── plain [gateway 0] protected ── cable ── protected [gateway 1] plain ── machine
/// ```
struct World {
    now: Instant,
    gateways: [LossForwarding; 2],
    /// The machines' ends are up.
    machines: [bool; 2],
    /// The cable between the gateways is whole.
    cable: bool,
    /// Time that a cable has to be up at both ends until both have a carrier.
    negotiation: Duration,
    /// Since when the plain cables and the one between the gateways are up at both ends.
    up_since: [Option<Instant>; 3],
    /// Number of times that a side was taken down or brought up.
    changes: usize,
}

impl World {
    fn new(rule: LinkLoss, negotiation: Duration) -> Self {
        let now = Instant::now();
        let gateway = || LossForwarding::new(rule, now);
        let mut world = Self {
            now,
            gateways: [gateway(), gateway()],
            machines: [true; 2],
            cable: true,
            negotiation,
            up_since: [None; 3],
            changes: 0,
        };
        world.run(Duration::from_secs(10));
        assert_eq!((world.machines_see(), world.changes), ([true; 2], 0), "a quiet start");
        world
    }

    fn held(&self, gateway: usize, side: Side) -> bool {
        self.gateways[gateway].held() == Some(side)
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += TICK;
            let up = [
                self.machines[0] && !self.held(0, Side::Plain),
                self.machines[1] && !self.held(1, Side::Plain),
                self.cable && !self.held(0, Side::Protected) && !self.held(1, Side::Protected),
            ];
            for (since, up) in self.up_since.iter_mut().zip(up) {
                *since = if up { since.or(Some(self.now)) } else { None };
            }
            for gateway in 0..2 {
                let before = self.gateways[gateway].held();
                let seen = [self.carrier(gateway), self.carrier(2)];
                self.gateways[gateway].turn(self.now, seen);
                self.changes += usize::from(before != self.gateways[gateway].held());
            }
        }
    }

    fn carrier(&self, cable: usize) -> bool {
        self.up_since[cable].is_some_and(|since| self.now.duration_since(since) >= self.negotiation)
    }

    fn machines_see(&self) -> [bool; 2] {
        [self.carrier(0), self.carrier(1)]
    }
}

/// Of a virtual wire, and of copper.
const NEGOTIATIONS: [Duration; 2] = [Duration::ZERO, Duration::from_secs(3)];
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_cut_cable_takes_both_machines_links_down_and_a_mended_one_brings_them_back() {
    for (rule, negotiation) in
        [LinkLoss::Forward, LinkLoss::Both].into_iter().flat_map(|rule| NEGOTIATIONS.map(|time| (rule, time)))
    {
        let mut world = World::new(rule, negotiation);
        world.cable = false;
        world.run(Duration::from_millis(100));
        assert_eq!(world.machines_see(), [false; 2], "{rule:?}: at once");
        world.run(LONG);
        assert_eq!((world.machines_see(), world.changes), ([false; 2], 2), "{rule:?}: and no flapping");
        world.cable = true;
        world.run(LONG);
        assert_eq!((world.machines_see(), world.changes), ([true; 2], 4), "{rule:?}");
    }
}

#[test]
fn a_machine_that_goes_is_told_to_the_other_only_if_wanted() {
    for negotiation in NEGOTIATIONS {
        let mut world = World::new(LinkLoss::Forward, negotiation);
        world.machines[0] = false;
        world.run(LONG);
        assert_eq!((world.machines_see(), world.changes), ([false, true], 0));
        let mut world = World::new(LinkLoss::Both, negotiation);
        world.machines[0] = false;
        world.run(LONG);
        assert_eq!((world.machines_see(), world.changes), ([false; 2], 2));
        world.machines[0] = true;
        world.run(LONG);
        assert_eq!((world.machines_see(), world.changes), ([true; 2], 4));
    }
}

#[test]
fn both_machines_go_at_once_and_come_back_one_by_one() {
    for negotiation in NEGOTIATIONS {
        let mut world = World::new(LinkLoss::Both, negotiation);
        world.machines = [false; 2];
        world.run(LONG);
        assert_eq!(world.machines_see(), [false; 2]);
        world.machines[0] = true;
        world.run(LONG);
        assert!(!world.machines_see()[1], "it is not there");
        let before = world.changes;
        world.run(LONG);
        assert_eq!(world.changes, before, "no flapping while one is away");
        world.machines[1] = true;
        world.run(LONG);
        assert_eq!(world.machines_see(), [true; 2]);
    }
}

#[test]
fn everything_fails_in_any_order_and_all_is_well_in_the_end() {
    for (seed, negotiation) in (0..40_u32).flat_map(|seed| NEGOTIATIONS.map(|time| (seed, time))) {
        let mut world = World::new(LinkLoss::Both, negotiation);
        // Three bits of the seed, over and over: what is turned next. Pauses from shorter than any time here to longer.
        for step in 0..12 {
            match (seed.wrapping_mul(2_654_435_761) >> (step * 2)) % 3 {
                0 => world.machines[0] = !world.machines[0],
                1 => world.machines[1] = !world.machines[1],
                _ => world.cable = !world.cable,
            }
            world.run(Duration::from_millis(u64::from(30 + (seed * 97 + step * 311) % 9_000)));
        }
        (world.machines, world.cable) = ([true; 2], true);
        world.run(LONG);
        assert_eq!(world.machines_see(), [true; 2], "seed {seed}, {negotiation:?}");
        let before = world.changes;
        world.run(LONG);
        assert_eq!(world.changes, before, "seed {seed}: no flapping");
    }
}

#[test]
fn a_short_gap_is_no_loss_and_a_bouncing_plug_is_not_back() {
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let mut link = LossForwarding::new(LinkLoss::Forward, start);
    link.turn(at(0), [true; 2]);
    link.turn(at(100), [true, false]);
    link.turn(at(130), [true, false]);
    assert_eq!(link.held(), None);
    link.turn(at(135), [true, true]);
    link.turn(at(200), [true, false]);
    link.turn(at(240), [true, false]);
    assert_eq!(link.held(), Some(Side::Plain));
    // Its own carrier, that of a side that is down, says nothing.
    for (time, protected) in [(300, true), (700, true), (750, false), (760, true), (1200, true)] {
        link.turn(at(time), [false, protected]);
        assert_eq!(link.held(), Some(Side::Plain), "{time}");
    }
    link.turn(at(1260), [false, true]);
    assert_eq!(link.held(), None);
}

#[test]
fn a_link_that_never_had_a_carrier_is_given_time_and_then_told() {
    let start = Instant::now();
    let mut link = LossForwarding::new(LinkLoss::Forward, start);
    link.turn(start + SETTLE - TICK, [true, false]);
    assert_eq!(link.held(), None);
    link.turn(start + SETTLE, [true, false]);
    assert_eq!(link.held(), Some(Side::Plain));
    link.set_rule(LinkLoss::Off);
    link.turn(start + SETTLE + TICK, [false, false]);
    assert_eq!(link.held(), None, "switched off by a new configuration");
}
