//! A box that is one of two on its LAN, on a virtual clock: what it tells switches and other sites, and when it is due.

#![allow(clippy::unwrap_used)]

mod plants;
#[path = "plants/secured.rs"]
mod secured_plants;

use std::time::{self, Duration};

use dataplane::site::{StandbySettings, ToWorker};
use plants::{LAN_FRAMES, Plants, peer, station};
use suite::beat::BeatKey;
use suite::identity::Identity;
use suite::tunnel::EpochSecret;
use testkit::frames::payload;
use tunnel::standby::{Cause, Role, Timing};
use tunnel::{Command, Generation};
use wire::Instant;

const TAKEOVER: Duration = Duration::from_millis(40);

/// Sites 0 and 1 are boxes of one LAN, of which 1 is dead; site 2 is another one. The clock of 0 and 2 begins ahead of that by which they were set up.
struct World {
    plants: Plants,
    now: Duration,
}

impl World {
    fn new() -> Self {
        let mut plants = Plants::secured(3);
        let [own, partner] = [1, 2].map(|seed| Identity::new(&[seed; 32]));
        let site = plants.plants[0].site.as_mut().unwrap();
        site.stand_by(StandbySettings {
            key: BeatKey::of(&own, partner.public()).unwrap(),
            partner: peer(0, 1),
            timing: Timing { takeover: TAKEOVER, longest: Duration::ZERO },
            preferred: false,
            session: 7,
        });
        plants.plants[2].site.as_mut().unwrap().join_twins(peer(2, 0), peer(2, 1));
        Self { plants, now: Duration::from_secs(1000) }
    }

    fn at(&self) -> Instant {
        Instant::after_start(self.now)
    }

    /// A turn of both.
    fn turn(&mut self) {
        for number in [0, 2] {
            let now = self.at();
            self.plants.plants[number].site.as_mut().unwrap().turn(now, time::Instant::now());
        }
    }

    fn run(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.now += Duration::from_millis(1);
            self.turn();
        }
    }

    /// The same on a LAN whose other end takes the frames, as all that are connected do.
    fn run_connected(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.run(1);
            self.plants.collect(0);
        }
    }

    fn role(&mut self) -> Role {
        self.plants.snapshot(0).standby.unwrap().role
    }

    /// Frames to the other site.
    fn sent(&mut self) -> u64 {
        self.plants.snapshot(0).peers[peer(0, 2).index()].counters.out_pkts_tunnelled
    }

    fn active() -> Self {
        let mut world = Self::new();
        world.run(150);
        assert_eq!(world.role(), Role::Listening);
        world.run(20);
        assert_eq!(world.role(), Role::Active);
        world
    }
}

#[test]
fn a_box_without_a_link_sleeps() {
    let mut world = World::active();
    world.plants.plants[0].site.as_mut().unwrap().set_lan_link(false);
    for _ in 0..300 {
        world.run(1);
        let now = world.at();
        let due = world.plants.plants[0].site.as_ref().unwrap().due();
        assert!(due.is_none_or(|due| due > now), "{due:?} at {now:?}");
    }
    assert_eq!(world.role(), Role::Listening);
}

/// Its link is gone, and nobody has told it: its port takes no beat. The other box may forward by now.
#[test]
fn a_box_whose_beats_do_not_leave_forwards_no_more_and_listens_once_they_do() {
    let mut world = World::active();
    let machine = |number: u64| [&station(2)[..], &station(0), &[0x88, 0x92], &payload(60, number)].concat();
    assert!(world.plants.plants[0].lan.inject(&machine(0)));
    world.turn();
    let forwarded = world.sent();
    // Nobody takes frames off the wire, until it has room for none.
    world.run(5 * LAN_FRAMES as u64 + 60);
    assert_eq!(world.role(), Role::Listening);
    let sent = world.sent();
    assert!(sent >= forwarded);
    for number in 1..50 {
        world.plants.plants[0].lan.inject(&machine(number));
        world.run(1);
        let now = world.at();
        let due = world.plants.plants[0].site.as_ref().unwrap().due();
        assert!(due.is_none_or(|due| due > now), "{due:?} at {now:?}");
    }
    // The link is back: for four times `takeover` it may hear of the other one.
    world.plants.collect(0);
    for number in 50..205 {
        world.plants.plants[0].lan.inject(&machine(number));
        world.run_connected(1);
        assert_eq!(world.role(), Role::Listening, "{number}");
    }
    assert_eq!(world.sent(), sent);
    let snapshot = world.plants.snapshot(0);
    assert_eq!(snapshot.path.out_pkts_standby, 204);
    assert_eq!(snapshot.standby.unwrap().cause, Cause::NoLink);
    world.run_connected(20);
    assert_eq!(world.role(), Role::Active);
}

#[test]
fn the_active_box_is_due_for_its_next_beat_alone() {
    let mut world = World::active();
    world.run(300);
    for _ in 0..300 {
        world.run(1);
        let (now, due) = (world.at(), world.plants.plants[0].site.as_ref().unwrap().due());
        assert!(due.is_some_and(|due| due > now && due <= now + TAKEOVER / 8), "{due:?} at {now:?}");
    }
}

/// Also if they could not hear of the take-over, or heard the box before later.
#[test]
fn other_sites_hear_each_second_who_forwards_and_at_once_when_there_are_keys() {
    let mut world = World::active();
    world.run_connected(500);
    assert!((3..=4).contains(&world.sent()), "{}", world.sent());
    let before = world.sent();
    world.run_connected(10_000);
    assert!((9..=11).contains(&(world.sent() - before)), "{}", world.sent() - before);
    let before = world.sent();
    while world.sent() == before {
        world.run_connected(1);
    }
    world.run_connected(100);
    let before = world.sent();
    let command = Command::InstallTransmit {
        peer: peer(0, 2),
        generation: Generation(1),
        epoch: 2,
        secret: EpochSecret::new(&[9; 32]),
    };
    world.plants.tell(0, ToWorker::Tunnel(command));
    world.run_connected(1);
    assert_eq!(world.sent(), before + 1);
}
