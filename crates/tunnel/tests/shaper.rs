//! The shaper on a virtual clock, in front of a bottleneck with a deep queue: rate, delay, order, fairness, and where every packet went.

use std::time::Duration;

use proptest::prelude::*;
use tunnel::shaper::{
    BULK_AHEAD, Class, EXPRESS_AHEAD, PacketOf, Shaper, ShaperSettings, UplinkCounters, line_overhead,
};
use wire::Instant;

const OVERHEAD: usize = line_overhead(false);
const MOST: usize = 1472;
/// Seqs by which a packet may be late at the peer.
const WINDOW: u64 = 2048;

/// A packet that has left: its moment in microseconds, what it is, its number there, and its octets on the line.
#[derive(Clone, Copy, Debug)]
struct Left {
    at: u64,
    what: u8,
    number: u32,
    octets: usize,
}

/// A shaper and its clock.
struct World {
    shaper: Shaper<u8>,
    bits_per_second: u64,
    now: u64,
    /// The numbers of what comes, by what it is.
    numbers: [u32; 256],
    /// When each came, by what it is.
    came: Vec<Vec<u64>>,
    /// The number of the frame of each, by what it is.
    frames: Vec<Vec<u64>>,
    pushed: u64,
    left: Vec<Left>,
    /// Microseconds by which each wake-up is late, in turns.
    late: Vec<u64>,
    woken: usize,
}

/// Express is 0, and all others are flows of bulk.
const EXPRESS: u8 = 0;

impl World {
    fn new(bits_per_second: u64) -> Self {
        let settings = ShaperSettings { bits_per_second, most_payload: MOST };
        Self {
            shaper: Shaper::new(settings, WINDOW),
            bits_per_second,
            now: 0,
            numbers: [0; 256],
            came: vec![Vec::new(); 256],
            frames: vec![Vec::new(); 256],
            pushed: 0,
            left: Vec::new(),
            late: vec![0],
            woken: 0,
        }
    }

    fn instant(&self) -> Instant {
        Instant::START + Duration::from_micros(self.now)
    }

    fn push(&mut self, what: u8, octets: usize) {
        self.push_frame(what, &[octets]);
    }

    /// The packets of a frame come, of so many octets each.
    fn push_frame(&mut self, what: u8, packets: &[usize]) {
        let class = if what == EXPRESS { Class::Express } else { Class::Bulk { key: what.into() } };
        let mut of = PacketOf { number: self.shaper.take_numbers(1), continues: false };
        for octets in packets {
            let number = self.numbers[usize::from(what)];
            self.numbers[usize::from(what)] += 1;
            self.came[usize::from(what)].push(self.now);
            self.frames[usize::from(what)].push(of.number);
            let rest = vec![what; (*octets).max(4) - 4];
            self.shaper.push(self.instant(), of, class, what, OVERHEAD, [&number.to_be_bytes(), &rest]);
            self.pushed += 1;
            of.continues = true;
        }
        self.depart();
    }

    /// Frames of this kind of which all packets have left, each with the time in which they did, in microseconds. Of none has a part left:
    /// nothing waits.
    fn whole_frames(&self, what: u8) -> Vec<u64> {
        let numbers = &self.frames[usize::from(what)];
        let left: Vec<_> = self.left.iter().filter(|left| left.what == what).collect();
        let frame = |left: &Left| numbers[left.number as usize];
        let whole = |packets: &[&Left]| {
            let wanted = numbers.iter().filter(|number| **number == frame(packets[0])).count();
            assert_eq!(packets.len(), wanted, "packets of a frame of {what} have left, and others not");
            packets[wanted - 1].at - packets[0].at
        };
        left.chunk_by(|one, other| frame(one) == frame(other)).map(whole).collect()
    }

    fn depart(&mut self) {
        while self.shaper.depart(self.instant()) {
            for (what, octets) in self.shaper.leaving() {
                let (number, rest) = octets.split_first_chunk().expect("a number");
                assert!(rest.iter().all(|octet| octet == what), "octets of another packet");
                let (number, octets) = (u32::from_be_bytes(*number), octets.len() + OVERHEAD);
                self.left.push(Left { at: self.now, what: *what, number, octets });
            }
        }
    }

    /// Goes on to a moment, waking when packets are due.
    fn until(&mut self, moment: u64) {
        while let Some(due) = self.shaper.due() {
            let due = due.since(Instant::START).as_micros() as u64;
            let late = self.late[self.woken % self.late.len()];
            let at = due.max(self.now) + late;
            if at > moment {
                break;
            }
            let before = (self.now, self.shaper.backlog());
            self.now = at;
            self.woken += 1;
            self.depart();
            assert!(before != (self.now, self.shaper.backlog()), "woken for nothing at {}", self.now);
        }
        self.now = moment.max(self.now);
    }

    /// Nanoseconds that octets take on the line.
    fn time(&self, octets: usize) -> u64 {
        octets as u64 * 8_000_000_000 / self.bits_per_second
    }

    fn is_accounted_for(&self) {
        let counters = self.shaper.counters();
        let discards: u64 = UplinkCounters::TABLE
            .iter()
            .zip(counters.values())
            .filter_map(|(counter, value)| counter.discard.then_some(value))
            .sum();
        let backlog = self.shaper.backlog();
        let waiting = (backlog.express + backlog.bulk) as u64;
        assert_eq!(self.pushed, self.left.len() as u64 + waiting + discards, "{counters:?} {backlog:?}");
        assert_eq!(counters.out_pkts_express + counters.out_pkts_bulk, self.left.len() as u64);
        assert_eq!(counters.out_octets_line, self.left.iter().map(|left| left.octets as u64).sum::<u64>());
    }

    /// In no interval does more leave than the line carries, what may be ahead of it, and a packet.
    fn keeps_its_rate(&self) {
        // The line empties from the first packet of the interval on: what is left of it never exceeds what may be ahead.
        let most = EXPRESS_AHEAD.as_nanos() as u64 + self.time(MOST + OVERHEAD);
        let (mut behind, mut before) = (0_u64, 0);
        for left in &self.left {
            behind = behind.saturating_sub((left.at - before) * 1000) + self.time(left.octets);
            before = left.at;
            assert!(behind <= most + 1000, "{behind} ns are waiting in the bottleneck at {} us", left.at);
        }
    }

    fn keeps_each_order(&self) {
        let mut next = [0; 256];
        for Left { what, number, .. } in &self.left {
            assert!(*number >= next[usize::from(*what)], "{number} of {what} comes late");
            next[usize::from(*what)] = number + 1;
        }
    }

    /// Microseconds from a packet's coming to the moment at which a bottleneck of the same rate has sent it, for each of this kind.
    fn delays(&self, of: u8) -> Vec<u64> {
        let mut free_at = 0;
        let mut delays = Vec::new();
        for left in &self.left {
            free_at = free_at.max(left.at * 1000) + self.time(left.octets);
            if left.what == of {
                delays.push(free_at / 1000 - self.came[usize::from(of)][left.number as usize]);
            }
        }
        delays
    }

    fn octets_of(&self, what: u8) -> usize {
        self.left.iter().filter(|left| left.what == what).map(|left| left.octets).sum()
    }
}

#[test]
fn an_express_frame_waits_for_what_is_ahead_and_one_packet_beside_twice_the_rate_of_bulk() {
    for megabits in [2, 10, 50, 100, 1000] {
        let mut world = World::new(megabits * 1_000_000);
        world.late = vec![0, 60, 150];
        let each = world.time(MOST + OVERHEAD) / 2;
        let (mut bulk, mut cycle) = (0, 0);
        for _ in 0..4000 {
            let next = (bulk / 1000).min(cycle);
            world.until(next);
            if next == cycle {
                world.push(EXPRESS, 100);
                cycle += if megabits < 10 { 10_000 } else { 1000 };
            } else {
                world.push(1, MOST);
                bulk += each;
            }
        }
        let delays = world.delays(EXPRESS);
        // Ahead, late wake-ups, its own time and that of the packet that was begun.
        let most = 2000 + world.time(MOST + OVERHEAD) / 1000;
        assert!(delays.iter().all(|delay| *delay <= most), "{megabits} Mb/s: {:?}", delays.iter().max());
        assert_eq!(delays.len() as u32, world.numbers[0], "no express frame is lost");
        world.keeps_its_rate();
        world.keeps_each_order();
        world.is_accounted_for();
        // The line is never idle: bulk has all that is left.
        let sent = world.time(world.octets_of(1) + world.octets_of(EXPRESS)) / 1000;
        assert!(sent * 100 >= world.now * 97, "{megabits} Mb/s: {sent} of {} us", world.now);
        assert!(BULK_AHEAD < EXPRESS_AHEAD);
    }
}

#[test]
fn a_flood_of_express_frames_leaves_a_quarter_to_others_and_a_quiet_flow_passes() {
    let mut world = World::new(50_000_000);
    let each = world.time(1000 + OVERHEAD) / 3;
    let quiet = 2;
    let mut next = 0;
    for number in 0..60_000_u64 {
        world.until(next / 1000);
        world.push(EXPRESS, 1000);
        if number % 2 == 0 {
            world.push(1, MOST);
        }
        if number % 500 == 0 {
            world.push(quiet, 1200);
        }
        next += each;
    }
    let (express, bulk) = (world.octets_of(EXPRESS), world.octets_of(1) + world.octets_of(quiet));
    let share = express * 100 / (express + bulk);
    assert!((74..=77).contains(&share), "{share} %");
    // Such as a handshake.
    assert_eq!(world.delays(quiet).len() as u32, world.numbers[usize::from(quiet)], "none is lost");
    // At first the flood has what may leave at once: 5 ms of three quarters.
    let delays = world.delays(quiet);
    let (first, later) = delays.split_at(4);
    assert!(first.iter().all(|delay| *delay < 20_000) && later.iter().all(|delay| *delay < 5000));
    assert!(world.shaper.counters().out_pkts_express_full > 0);
    world.keeps_its_rate();
    world.keeps_each_order();
    world.is_accounted_for();
}

#[test]
fn flows_of_bulk_share_the_rate_and_none_waits_behind_a_flood() {
    let mut world = World::new(20_000_000);
    let each = world.time(MOST + OVERHEAD) / 4;
    let mut next = 0;
    for number in 0..20_000_u64 {
        world.until(next / 1000);
        // One floods, one sends as much as its half, and one a short packet now and then.
        world.push(1, MOST);
        if number % 7 == 0 {
            world.push(2, MOST);
        }
        if number % 100 == 0 {
            world.push(3, 200);
        }
        next += each;
    }
    let lost = |what: usize, world: &World| world.numbers[what] as usize - world.delays(what as u8).len();
    assert_eq!(lost(3, &world), 0);
    assert!(world.delays(3).iter().all(|delay| *delay < 4000), "{:?}", world.delays(3).iter().max());
    // Twice as much as its half is offered: 4/7 of the rate, so it has a half.
    let share = world.octets_of(2) * 100 / (world.octets_of(1) + world.octets_of(2));
    assert!((46..=54).contains(&share), "{share} %");
    assert!(world.shaper.counters().out_pkts_bulk_full > 0);
    world.keeps_its_rate();
    world.keeps_each_order();
    world.is_accounted_for();
}

#[test]
fn the_management_channel_is_charged_and_stops_nothing_for_long() {
    let mut world = World::new(10_000_000);
    world.shaper.charge(world.instant(), 12_500);
    world.push(1, MOST);
    assert!(world.left.is_empty(), "10 ms of the line are spent");
    world.until(9_700);
    assert_eq!(world.left.len(), 1);
    // More than a second of it.
    world.shaper.charge(world.instant(), 2_000_000);
    world.push(EXPRESS, 100);
    world.until(world.now + 101_000);
    assert_eq!(world.left.len(), 2);
    assert_eq!(world.shaper.counters().out_octets_channel, 2_012_500);
    world.is_accounted_for();
}

/// Nobody else waits, so express frames take more than their share. It is no debt for later.
#[test]
fn express_frames_alone_for_a_minute_go_first_when_a_file_copy_begins() {
    let mut world = World::new(2_000_000);
    // 85 % of the rate.
    let each = world.time(100 + OVERHEAD) * 100 / 85 / 1000;
    while world.now < 60_000_000 {
        world.push(EXPRESS, 100);
        world.until(world.now + each);
    }
    let (alone, sent) = (world.left.len(), world.numbers[0] as usize);
    assert!(sent - alone <= 2, "{alone} of {sent}");
    // From now on they need a fifth.
    for cycle in 0..200 {
        if cycle % 2 == 0 {
            world.push(EXPRESS, 100);
        }
        world.push(1, MOST);
        world.until(world.now + 2000);
    }
    world.until(world.now + 20_000);
    let delays = &world.delays(EXPRESS)[alone..];
    assert_eq!(world.delays(EXPRESS).len() as u32, world.numbers[0], "none is lost");
    let most = 2000 + world.time(MOST + OVERHEAD) / 1000;
    assert!(delays.iter().all(|delay| *delay <= most), "{:?}", delays.iter().max());
    world.is_accounted_for();
}

#[test]
fn a_management_channel_that_sends_at_the_rate_leaves_half_of_it_to_frames() {
    let mut world = World::new(10_000_000);
    for millisecond in 0..2000 {
        // 1250 octets are a millisecond of the line.
        world.shaper.charge(world.instant(), 1250);
        world.push(1, MOST);
        if millisecond % 20 == 0 {
            world.push(EXPRESS, 100);
        }
        world.until(world.now + 1000);
    }
    let octets = world.octets_of(1) + world.octets_of(EXPRESS);
    let share = world.time(octets) / 10 / world.now;
    assert!((46..=52).contains(&share), "{share} %");
    // At first the channel has what it may send at once.
    let delays = &world.delays(EXPRESS)[5..];
    assert!(delays.iter().all(|delay| *delay < 5000), "{:?}", delays.iter().max());
    world.is_accounted_for();
}

#[test]
fn what_the_peers_window_would_refuse_is_discarded_here() {
    let settings = ShaperSettings { bits_per_second: 1_000_000, most_payload: MOST };
    let mut world = World { shaper: Shaper::new(settings, 64), ..World::new(1_000_000) };
    for _ in 0..3 {
        world.push(1, MOST);
    }
    // 40 express packets overtake the last of bulk: of a window of 64, half.
    for _ in 0..40 {
        world.push(EXPRESS, 4);
        world.until(world.now + 1000);
    }
    world.until(10_000_000);
    assert_eq!(world.delays(EXPRESS).len(), 40);
    assert_eq!(world.shaper.counters().out_pkts_overtaken, 1, "{:?}", world.shaper.counters());
    world.is_accounted_for();
}

/// Of 100,000 express frames a second less than half find room, but all have used up a seq.
#[test]
fn what_leaves_beside_a_flood_that_finds_no_room_is_in_the_peers_window() {
    let mut world = World::new(50_000_000);
    for number in 0..200_000 {
        world.push(EXPRESS, 60);
        if number % 20 == 0 {
            world.push(1, MOST);
        }
        world.until(world.now + 10);
    }
    let counters = *world.shaper.counters();
    assert!(counters.out_pkts_express_full > 50_000, "{counters:?}");
    assert!(counters.out_pkts_overtaken > 0, "{counters:?}");
    let mut newest = 0;
    for Left { at, what, number, .. } in &world.left {
        let seq = world.frames[usize::from(*what)][*number as usize];
        assert!(seq + WINDOW >= newest, "seq {seq} of {what} is {} behind at {at} us", newest - seq);
        newest = newest.max(seq);
    }
    // The quarter of the others is not wasted.
    let (express, bulk) = (world.octets_of(EXPRESS), world.octets_of(1));
    let share = express * 100 / (express + bulk);
    assert!((74..=77).contains(&share), "{share} %");
    world.keeps_each_order();
    world.is_accounted_for();
}

/// A frame for a hundred peers is one frame: it has one seq in each lane, and one PN.
#[test]
fn copies_of_a_frame_for_many_peers_overtake_as_one() {
    let settings = ShaperSettings { bits_per_second: 10_000_000, most_payload: MOST };
    let mut shaper = Shaper::new(settings, 64);
    let push = |shaper: &mut Shaper<u8>, class, copies| {
        let of = PacketOf { number: shaper.take_numbers(1), continues: false };
        (0..copies).for_each(|peer| shaper.push(Instant::START, of, class, peer, OVERHEAD, [&[0; 100], &[]]));
    };
    for _ in 0..20 {
        push(&mut shaper, Class::Bulk { key: 1 }, 1);
    }
    for _ in 0..10 {
        push(&mut shaper, Class::Express, 100);
    }
    for milliseconds in 0..1000 {
        while shaper.depart(Instant::START + Duration::from_millis(milliseconds)) {}
    }
    let counters = shaper.counters();
    assert_eq!((counters.out_pkts_bulk, counters.out_pkts_overtaken), (20, 0), "{counters:?}");
}

/// Full-size frames are split where an uplink carries 1500 octets. A receiver joins halves that come within 50 ms.
#[test]
fn beside_more_than_the_uplink_carries_halves_leave_together_or_not_at_all() {
    for (megabits, flows, express) in [(2, 12, false), (10, 1, false), (10, 10, true), (50, 100, true)] {
        let mut world = World::new(megabits * 1_000_000);
        let halves = [MOST, 240];
        let frame = world.time(halves.iter().map(|octets| octets + OVERHEAD).sum()) / 1000;
        let mut coming = 0;
        while world.now < 3_000_000 {
            world.until(coming);
            coming += frame / 2;
            let flow = 1 + (coming / (frame / 2) % flows) as u8;
            world.push_frame(flow, &halves);
            // In bursts the express queue is full.
            if express && (coming / (frame / 2)).is_multiple_of(200) {
                (0..200).for_each(|_| world.push_frame(EXPRESS, &[MOST / 4, MOST / 4]));
            }
        }
        world.until(world.now + 1_000_000);
        let mut sent = 0;
        for what in 0..=flows as u8 {
            let times = world.whole_frames(what);
            let most = if what == EXPRESS { 0 } else { 2000 + world.time(MOST + OVERHEAD) / 1000 * 2 };
            let longest = times.iter().max();
            // Express frames may come between two halves.
            assert!(express || times.iter().all(|time| *time <= most), "{megabits} Mb/s: {longest:?} us");
            assert!(times.iter().all(|time| *time < 50_000), "{megabits} Mb/s: {longest:?} us");
            sent += times.len() as u64 * u64::from(what != EXPRESS);
        }
        // What the uplink carries is whole frames.
        let counters = *world.shaper.counters();
        assert!(express || sent * frame * 100 >= 3_000_000 * 97, "{sent} frames of {frame} us");
        assert!(counters.out_pkts_bulk_full + counters.out_pkts_bulk_delayed > 100, "{counters:?}");
        assert!(!express || counters.out_pkts_express_full > 100, "{counters:?}");
        world.is_accounted_for();
    }
}

#[test]
fn a_packet_longer_than_any_path_is_counted() {
    let mut world = World::new(1_000_000);
    world.push(1, MOST + 1);
    world.push(EXPRESS, MOST);
    assert_eq!(world.shaper.counters().out_pkts_uplink_too_long, 1);
    world.is_accounted_for();
}

#[test]
fn nothing_is_allocated_once_it_is_there() {
    let mut world = World::new(50_000_000);
    let payload = [7; MOST];
    let counted = allocation_counter::measure(|| {
        for number in 0..50_000_u64 {
            let now = Instant::START + Duration::from_micros(number * 100);
            let class = if number % 9 == 0 { Class::Express } else { Class::Bulk { key: number % 300 } };
            let of = PacketOf { number: world.shaper.take_numbers(1), continues: false };
            world.shaper.push(now, of, class, 1, OVERHEAD, [&payload, &[]]);
            while world.shaper.depart(now) {
                assert!(world.shaper.leaving().all(|(_, octets)| octets.len() == MOST));
            }
        }
    });
    assert_eq!(counted.count_total, 0);
    assert!(world.shaper.counters().out_pkts_bulk > 1000);
}

/// What happens: a packet of a kind and length comes, or time passes.
#[derive(Clone, Debug)]
enum Step {
    Comes(u8, usize),
    Burst(u8, usize),
    Split(u8, usize, usize),
    Passes(u64),
    Charge(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..6, 4..=MOST).prop_map(|(what, octets)| Step::Comes(what, octets)),
        1 => (0_u8..6, 4..=MOST).prop_map(|(what, octets)| Step::Burst(what, octets)),
        2 => (0_u8..6, 4..=MOST, 1_usize..200).prop_map(|(what, octets, frames)| Step::Split(what, octets, frames)),
        3 => (0_u64..5000).prop_map(Step::Passes),
        1 => (100_000_u64..2_000_000).prop_map(Step::Passes),
        1 => (0_u64..5000).prop_map(Step::Charge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn whatever_comes_rate_and_order_are_kept_and_nothing_is_lost_uncounted(
        kilobits in 64_u64..2_000_000,
        late in prop::collection::vec(0_u64..400, 1..5),
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let mut world = World::new(kilobits * 1000);
        world.late = late;
        for step in steps {
            match step {
                Step::Comes(what, octets) => world.push(what, octets),
                Step::Burst(what, octets) => (0..200).for_each(|_| world.push(what, octets)),
                Step::Split(what, octets, frames) => (0..frames).for_each(|_| world.push_frame(what, &[MOST, octets])),
                Step::Passes(time) => world.until(world.now + time),
                Step::Charge(octets) => world.shaper.charge(world.instant(), octets),
            }
            world.is_accounted_for();
        }
        world.keeps_its_rate();
        world.keeps_each_order();
        // All that waits leaves in the time that it takes.
        let backlog = world.shaper.backlog().octets;
        world.until(world.now + 110_000 + world.time(backlog) / 1000 * 3 / 2);
        prop_assert_eq!(world.shaper.backlog(), Default::default());
        world.keeps_each_order();
        (0..6).for_each(|what| drop(world.whole_frames(what)));
        world.is_accounted_for();
    }
}
