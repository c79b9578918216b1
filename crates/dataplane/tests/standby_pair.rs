//! Both boxes of a LAN, and another site, on a virtual clock: what stations have of a take-over.
//!
//! ```text
//!        +── site 0 ══+
//!  LAN ──+            +══ 127.0.0.1 ══ site 2 ── LAN 2
//!        +── site 1 ══+
//! ```
//!
//! The LAN is a hub between the two boxes: what one sends there comes to the other one. What a machine sends comes to those boxes that the test names, as
//! a switch would decide.

#![allow(clippy::unwrap_used)]

mod plants;
#[path = "plants/secured.rs"]
mod secured_plants;

use std::time::{self, Duration};

use dataplane::site::{LanFrame, StandbySettings, VlanList};
use plants::{Plants, eapol, peer, station};
use suite::beat::BeatKey;
use suite::identity::Identity;
use testkit::frames::payload;
use tunnel::standby::{DEFAULT_TAKEOVER, LONGEST_TAKEOVER, Role, Timing};
use wire::Instant;

const TAKEOVER: Duration = DEFAULT_TAKEOVER;
/// Longest time without a frame if a box is killed, with the default.
const NO_FRAME: u64 = 50;
const GROUP: [u8; 6] = [0x03, 0, 0, 0, 0, 9];
const ETHER_TYPE: [u8; 2] = [0x88, 0x92];
/// Of frames of a box: beats, and what shows switches where a station is.
const OWN: [u8; 2] = [0x88, 0xb6];

fn frame(to: [u8; 6], from: [u8; 6], number: u64) -> Vec<u8> {
    [&to[..], &from, &ETHER_TYPE, &payload(60, number)].concat()
}

struct Pair {
    plants: Plants,
    now: Duration,
    /// Boxes and sites that do not turn.
    still: [bool; 3],
    /// Frames of machines that came out of each box, and out of site 2.
    out: [Vec<Vec<u8>>; 3],
    /// Sources of frames by which a box showed switches where stations are, by millisecond.
    shown: Vec<Vec<[u8; 6]>>,
}

impl Pair {
    /// Box 0 forwards.
    fn new() -> Self {
        let mut plants = Plants::secured(3);
        let identities = [1, 2].map(|seed| Identity::new(&[seed; 32]));
        for own in 0..2 {
            let key = BeatKey::of(&identities[own], identities[1 - own].public()).unwrap();
            plants.plants[own].site.as_mut().unwrap().stand_by(StandbySettings {
                key,
                partner: peer(own, 1 - own),
                timing: Timing { takeover: TAKEOVER, longest: LONGEST_TAKEOVER },
                preferred: own == 0,
                session: 7 + own as u64,
            });
        }
        plants.plants[2].site.as_mut().unwrap().join_twins(peer(2, 0), peer(2, 1));
        let mut pair = Self {
            plants,
            now: Duration::from_secs(1000),
            still: [false; 3],
            out: Default::default(),
            shown: vec![],
        };
        pair.run(3000);
        assert_eq!((pair.role(0), pair.role(1)), (Role::Active, Role::Standby));
        pair.out = Default::default();
        pair
    }

    fn role(&mut self, number: usize) -> Role {
        self.plants.snapshot(number).standby.unwrap().role
    }

    /// A turn of each that lives, and what the LAN carries.
    fn turn(&mut self) {
        for number in 0..3 {
            if self.still[number] {
                continue;
            }
            let now = Instant::after_start(self.now);
            self.plants.plants[number].site.as_mut().unwrap().turn(now, time::Instant::now());
            for frame in self.plants.collect(number) {
                if number < 2 {
                    self.plants.plants[1 - number].lan.inject(&frame);
                }
                if frame[12..14] != OWN {
                    self.out[number].push(frame);
                } else if number < 2 && frame[14] == 2 {
                    self.shown.last_mut().unwrap().push(frame[6..12].try_into().unwrap());
                }
            }
        }
        self.plants.manage();
    }

    fn run(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.now += Duration::from_millis(1);
            self.shown.push(vec![]);
            self.turn();
        }
    }

    /// A machine's frame comes to the LAN's interface of these.
    fn send(&mut self, to: &[usize], frame: &[u8]) {
        for number in to {
            assert!(self.plants.plants[*number].lan.inject(frame));
        }
    }

    fn hand_over(&mut self, from: usize) {
        assert!(self.plants.plants[from].site.as_mut().unwrap().hand_over());
    }

    /// Until a box forwards.
    fn until_active(&mut self, number: usize) {
        for _ in 0..1000 {
            if self.role(number) == Role::Active {
                return;
            }
            self.run(1);
        }
        panic!("box {number} does not forward");
    }

    fn count(&self, number: usize, frame: &[u8]) -> usize {
        self.out[number].iter().filter(|out| *out == frame).count()
    }
}

/// They have no tag, and a list that wants one drops them: that is no discard of anybody's frame.
#[test]
fn announcements_of_the_box_that_forwards_count_as_no_other_vlan() {
    let mut pair = Pair::new();
    let mut list = Box::new(VlanList::EMPTY);
    assert!(list.add(10));
    pair.plants.plants[2].site.as_mut().unwrap().set_vlans(Some(list));
    let came = |pair: &mut Pair| {
        let link = pair.plants.plants[2].site.as_mut().unwrap().link().unwrap();
        link.pipeline().secy.receive_scs().map(|sc| sc.counters().in_pkts_ok).sum::<u64>()
    };
    let before = came(&mut pair);
    pair.run(3000);
    assert!(came(&mut pair) > before, "announcements came");
    assert_eq!(pair.plants.snapshot(2).path.in_pkts_other_vlan, 0);
    // A machine's frame counts.
    let frame = [&station(1)[..], &station(0), &[0x08, 0x00], &[7; 60]].concat();
    assert!(pair.plants.plants[0].lan.inject(&frame));
    pair.run(100);
    assert_eq!(pair.plants.snapshot(2).path.in_pkts_other_vlan, 1);
}

/// They reach no LAN that lists no frame without a tag. They show all the same which box forwards, and nothing else.
#[test]
fn a_site_that_lists_no_frame_without_a_tag_follows_the_box_that_takes_over() {
    let mut pair = Pair::new();
    let mut list = Box::new(VlanList::EMPTY);
    assert!(list.add(10));
    pair.plants.plants[2].site.as_mut().unwrap().set_vlans(Some(list));
    pair.hand_over(0);
    pair.until_active(1);
    pair.run(2000);
    let tagged = [&station(1)[..], &station(9), &[0x81, 0, 0, 10], &ETHER_TYPE, &payload(60, 1)].concat();
    pair.send(&[2], &tagged);
    pair.run(50);
    assert_eq!((pair.count(0, &tagged), pair.count(1, &tagged)), (0, 1));
    let of_box = secured_plants::sci_of(1).octets();
    let stations = pair.plants.snapshot(2).stations;
    assert!(!stations.iter().any(|known| known.address.0 == of_box[..6]), "{stations:?}");
}

/// The box that leaves hears on the LAN what the other one delivers: stations of other sites are not on this LAN for that.
#[test]
fn a_box_that_drains_learns_nothing_of_what_the_other_one_delivers() {
    let (s, machine) = (station(9), station(1));
    let mut pair = Pair::new();
    pair.hand_over(0);
    pair.until_active(1);
    pair.run(100);
    // The leaving one still drains.
    let group = frame(GROUP, s, 1);
    pair.send(&[2], &group);
    pair.run(20);
    assert_eq!((pair.count(0, &group), pair.count(1, &group)), (0, 1));
    pair.run(2000);
    pair.hand_over(1);
    pair.until_active(0);
    pair.run(20);
    let unicast = frame(s, machine, 2);
    pair.send(&[0], &unicast);
    pair.run(20);
    assert_eq!(pair.count(2, &unicast), 1, "the station has not spoken since");
}

/// The other direction: the box that drains delivers a frame to a group, and the one that has taken over hears it on the LAN.
#[test]
fn a_box_that_took_over_takes_no_station_of_another_site_for_one_of_its_lan() {
    let s = station(9);
    let mut pair = Pair::new();
    // Box 1 is told where the station is.
    pair.send(&[2], &frame(GROUP, s, 1));
    pair.run(100);
    pair.hand_over(0);
    // Site 2 sends before it hears who forwards.
    pair.still[2] = true;
    pair.until_active(1);
    pair.still[2] = false;
    let (group, before) = (frame(GROUP, s, 2), pair.plants.snapshot(2).peers[0].counters.out_pkts_tunnelled);
    pair.send(&[2], &group);
    pair.turn();
    pair.run(1);
    let after = pair.plants.snapshot(2).peers[0].counters.out_pkts_tunnelled;
    assert!(after > before, "it went to the box that drains");
    pair.run(5);
    assert_eq!((pair.count(0, &group), pair.count(1, &group)), (1, 0));
    for number in 3..50 {
        let next = frame(GROUP, s, number);
        pair.send(&[2], &next);
        pair.run(2);
        assert_eq!((pair.count(0, &next), pair.count(1, &next)), (0, 1), "{number}");
    }
}

/// It came to this LAN while this box stood by.
#[test]
fn a_station_that_moved_here_meanwhile_is_not_shown_behind_the_box_that_takes_over() {
    let moved = station(9);
    let mut pair = Pair::new();
    pair.hand_over(0);
    pair.until_active(1);
    pair.run(2000);
    pair.send(&[2], &frame(GROUP, moved, 1));
    pair.run(2000);
    pair.hand_over(1);
    pair.until_active(0);
    pair.run(2000);
    for number in 2..20 {
        pair.send(&[0, 1], &frame(GROUP, moved, number));
        pair.run(1000);
    }
    pair.still[0] = true;
    pair.shown.clear();
    pair.until_active(1);
    pair.run(1000);
    assert!(!pair.shown.iter().flatten().any(|shown| *shown == moved));
    // Nor is a station of site 2 taken for one of this LAN, though it was one when this box forwarded last.
    let (machine, other) = (station(1), station(2));
    let mut pair = Pair::new();
    pair.send(&[0, 1], &frame(GROUP, other, 1));
    pair.run(1500);
    pair.hand_over(0);
    pair.until_active(1);
    pair.run(1500);
    pair.send(&[2], &frame(GROUP, other, 2));
    pair.run(100);
    pair.hand_over(1);
    pair.until_active(0);
    pair.run(20);
    let unicast = frame(other, machine, 3);
    pair.send(&[0], &unicast);
    pair.run(20);
    assert_eq!(pair.count(2, &unicast), 1);
}

#[test]
fn all_stations_that_the_dead_box_knew_are_shown_at_most_32_in_a_millisecond() {
    let mut pair = Pair::new();
    let address = |number: u32| {
        let [a, b, c, d] = number.wrapping_mul(2_654_435_761).to_be_bytes();
        [2, 9, a, b, c, d]
    };
    for number in 0..250 {
        pair.send(&[2], &frame(GROUP, address(number), number.into()));
        if number % 16 == 15 {
            pair.run(1);
        }
    }
    // A round of all.
    pair.run(1500);
    pair.still[0] = true;
    pair.shown.clear();
    pair.until_active(1);
    // However often it turns.
    for _ in 0..100 {
        pair.run(1);
        (0..10).for_each(|_| pair.turn());
    }
    assert!(pair.shown.iter().all(|shown| shown.len() <= 32));
    let shown: std::collections::BTreeSet<_> = pair.shown.iter().flatten().collect();
    assert_eq!((0..250).filter(|number| shown.contains(&address(*number))).count(), 250);
}

/// A frame of a station to the group of MKPDUs comes to both boxes, like any other one to a group.
#[test]
fn a_box_that_drains_leaves_mkpdus_of_stations_to_the_other() {
    let mut pair = Pair::new();
    pair.hand_over(0);
    pair.until_active(1);
    let before = [0, 1].map(|number| pair.plants.snapshot(number).path.out_eapol);
    pair.send(&[0, 1], &eapol(station(5), 100));
    pair.run(5);
    let after = [0, 1].map(|number| pair.plants.snapshot(number).path.out_eapol);
    assert_eq!([0, 1].map(|number| after[number] - before[number]), [0, 1]);
    // And the other way.
    for number in 0..2 {
        let mkpdu = LanFrame::try_from(&eapol(station(6), 100)[..]).unwrap();
        assert!(pair.plants.plants[number].manager.eapol.send(mkpdu));
    }
    pair.out = Default::default();
    pair.run(5);
    assert_eq!([0, 1].map(|number| pair.count(number, &eapol(station(6), 100))), [0, 1]);
}

/// A numbered frame of a machine at each LAN to one at the other, each millisecond, while the box that forwards is killed.
struct Cyclic {
    machines: [[u8; 6]; 2],
    next: u64,
    /// The box to which the switch sends what is for the machine at site 2.
    port: usize,
}

impl Cyclic {
    fn frame(&self, from: usize, number: u64) -> Vec<u8> {
        let [own, other] = [self.machines[from], self.machines[1 - from]];
        [&other[..], &own, &ETHER_TYPE, &number.to_be_bytes(), &[0; 52]].concat()
    }

    /// Runs for this time, in milliseconds. The switch learns by what a box shows.
    fn run(&mut self, pair: &mut Pair, milliseconds: u64) {
        for _ in 0..milliseconds {
            let [there, back] = [0, 1].map(|from| self.frame(from, self.next));
            pair.send(&[self.port], &there);
            pair.send(&[2], &back);
            self.next += 1;
            pair.run(1);
            if pair.still[self.port] && pair.shown.last().unwrap().contains(&self.machines[1]) {
                self.port = 1 - self.port;
            }
        }
    }

    /// The longest row of numbers that did not come, there and back. None came twice.
    fn gaps(&self, pair: &Pair) -> [u64; 2] {
        [0, 1].map(|from| {
            let of = |out: &Vec<u8>| out[..14] == self.frame(from, 0)[..14];
            let came = pair.out.iter().flatten().filter(|out| of(out));
            let mut numbers: Vec<_> =
                came.map(|out| u64::from_be_bytes(*out[14..].first_chunk().unwrap())).collect();
            numbers.sort_unstable();
            let of_two = numbers.windows(2).map(|pair| pair[1].checked_sub(pair[0] + 1).expect("once"));
            assert!(numbers.last().is_some_and(|last| last + 5 > self.next), "{numbers:?}");
            of_two.max().unwrap()
        })
    }
}

/// Whichever box forwards, and at whatever moment between two beats it dies. Under load, too: this clock is a virtual one.
#[test]
fn machines_at_both_lans_miss_less_than_50_ms_when_a_box_is_killed() {
    for active in [0, 1] {
        for moment in 0..12 {
            let mut pair = Pair::new();
            let mut cyclic = Cyclic { machines: [station(1), station(9)], next: 0, port: active };
            if active == 1 {
                pair.hand_over(0);
                pair.until_active(1);
            }
            // Switch and sites learn; a box that has handed over lets nothing pass any more.
            cyclic.run(&mut pair, 2000 + moment);
            pair.still[active] = true;
            cyclic.run(&mut pair, 500);
            let gaps = cyclic.gaps(&pair);
            assert!(gaps.iter().all(|gap| (20..NO_FRAME).contains(gap)), "box {active}, {moment}: {gaps:?}");
        }
    }
}

/// A box that died delivers nothing, so what comes from a station is no repetition.
#[test]
fn a_station_that_moved_here_before_the_other_box_died_is_forwarded_at_once() {
    let moved = station(9);
    let mut pair = Pair::new();
    pair.send(&[2], &frame(GROUP, moved, 1));
    pair.run(2000);
    pair.still[0] = true;
    pair.until_active(1);
    let here = frame(GROUP, moved, 2);
    pair.send(&[1], &here);
    pair.run(20);
    assert_eq!(pair.count(2, &here), 1);
}

/// Alone, and a pause of its worker: frames to a station go where it is, and not to all.
#[test]
fn a_lone_box_that_stood_still_knows_its_stations() {
    let mut pair = Pair::new();
    let (machine, other) = (station(1), station(2));
    pair.still[1] = true;
    // Both are stations of the LAN.
    for (number, source) in [(1, machine), (2, other)] {
        pair.send(&[0], &frame(GROUP, source, number));
    }
    pair.run(100);
    pair.now += Duration::from_millis(30);
    pair.turn();
    assert_eq!(pair.role(0), Role::Listening);
    pair.until_active(0);
    pair.run(20);
    let unicast = frame(other, machine, 3);
    pair.send(&[0], &unicast);
    pair.run(20);
    assert_eq!(pair.count(2, &unicast), 0, "it is on this LAN");
}
