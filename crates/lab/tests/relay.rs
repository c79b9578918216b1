//! The relay is a wire, apart from what it is told to do to frames, and it accounts for each of them. Needs root.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Duration;

use lab::topology::{LEFT, RIGHT};
use lab::traffic::{self, Ip, Until};
use lab::{
    Capture, Captured, Direction, DirectionCounters, Error, Impairments, PacketSocket, Relay, RelayCounters,
    Shape, Topology,
};

const LIMIT: Duration = Duration::from_secs(20);
const FRAMES: u64 = 10_000;
/// An EtherType for experiments (IEEE 802).
const EXPERIMENT: [u8; 2] = [0x88, 0xB5];

fn bridged(shape: &Shape) -> Topology {
    let topology = Topology::build(shape).unwrap();
    topology.bridge_gateways().unwrap();
    topology
}

fn frame(topology: &Topology, head: &[u8], length: usize) -> Vec<u8> {
    let mut octets = [&topology.machine_b.mac[..], &topology.machine_a.mac, head].concat();
    octets.extend((octets.len()..length).map(|i| (i * 7 + length) as u8));
    octets.truncate(length);
    octets
}

fn numbered(topology: &Topology, number: u64) -> Vec<u8> {
    let mut octets = frame(topology, &EXPERIMENT, 60 + (number % 200) as usize);
    octets[14..22].copy_from_slice(&number.to_be_bytes());
    octets
}

/// The number of a frame that is not corrupted.
fn number(topology: &Topology, octets: &[u8]) -> Option<u64> {
    let number = u64::from_be_bytes(octets.get(14..22)?.try_into().unwrap());
    (number < FRAMES && numbered(topology, number) == octets).then_some(number)
}

fn octets_in(captured: &Captured) -> Vec<Vec<u8>> {
    captured.going(Direction::In).map(|frame| frame.octets.clone()).collect()
}

fn balanced(way: &DirectionCounters) -> bool {
    way.received + way.duplicated == way.forwarded + way.lost + way.send_failed
}

/// Sends numbered frames from A to B in one go; what B saw, and what the relay did.
fn through(topology: &Topology, impairments: Impairments) -> (Vec<Vec<u8>>, DirectionCounters) {
    let far = Capture::start(&topology.machine_b.namespace, "b0").unwrap();
    let socket = PacketSocket::open(&topology.machine_a.namespace, "a0").unwrap();
    let relay = Relay::start(topology, impairments).unwrap();
    for number in 0..FRAMES {
        socket.send(&numbered(topology, number)).unwrap();
    }
    relay.wait_until(LIMIT, |counters| counters.to_right.received == FRAMES).unwrap();
    let RelayCounters { to_right, to_left } = relay.stop().unwrap();
    assert_eq!(to_left, DirectionCounters::default(), "nothing came the other way");
    assert_eq!((to_right.received, to_right.kernel_dropped, to_right.send_failed), (FRAMES, 0, 0));
    assert!(balanced(&to_right), "{to_right:?}");
    far.wait_for(to_right.forwarded as usize, LIMIT, |_| true).unwrap();
    let seen = octets_in(&far.stop().unwrap().complete().unwrap());
    assert_eq!(seen.len() as u64, to_right.forwarded, "what it forwarded arrived, and nothing else");
    (seen, to_right)
}

/// Within five standard deviations of a binomial distribution.
fn about(count: u64, share: f64) -> bool {
    let all = FRAMES as f64;
    (count as f64 - all * share).abs() < 5.0 * (all * share * (1.0 - share)).sqrt()
}

/// Number of times each frame arrived whole, and how many arrived otherwise.
fn arrivals(topology: &Topology, seen: &[Vec<u8>]) -> (BTreeMap<u64, u64>, u64) {
    let (mut whole, mut other) = (BTreeMap::new(), 0);
    for octets in seen {
        match number(topology, octets) {
            Some(number) => *whole.entry(number).or_insert(0) += 1,
            None => other += 1,
        }
    }
    (whole, other)
}

#[test]
fn without_impairments_it_is_a_wire() {
    for shape in [Shape::default(), Shape { plain_mtu: 9000, protected_mtu: 9032, ..Shape::default() }] {
        let topology = bridged(&shape);
        let most = shape.plain_mtu as usize + 14;
        let mut sent: Vec<_> = if most > 9000 {
            (14..=most)
                .step_by(61)
                .chain([most])
                .map(|length| frame(&topology, &EXPERIMENT, length))
                .collect()
        } else {
            (14..=most).map(|length| frame(&topology, &EXPERIMENT, length)).collect()
        };
        for head in [
            &[0x81, 0x00, 0xC0, 0x00, 0x88, 0x92][..],
            &[0x81, 0x00, 0x60, 0x07, 0x08, 0x00],
            &[0x88, 0xA8, 0x20, 0x05, 0x81, 0x00, 0x00, 0x07, 0x88, 0x92],
        ] {
            // One that ends before the EtherType behind its tags is eaten by every kernel.
            for length in [head.len() + 14, 64, 65, 1000, most] {
                sent.push(frame(&topology, head, length));
            }
        }
        sent.push(frame(&topology, &[0x81, 0x00, 0x60, 0x07, 0x08, 0x00], most + 4));
        // To groups that bridges keep for themselves.
        for group in [0x03, 0x0E, 0x00, 0x02] {
            let mut octets = frame(&topology, &[0x88, 0x8E], 60);
            octets[..6].copy_from_slice(&[0x01, 0x80, 0xC2, 0, 0, group]);
            sent.push(octets);
        }
        let far = Capture::start(&topology.machine_b.namespace, "b0").unwrap();
        let relay = Relay::start(&topology, Impairments { seed: 1, ..Impairments::default() }).unwrap();
        let socket = PacketSocket::open(&topology.machine_a.namespace, "a0").unwrap();
        for octets in &sent {
            socket.send(octets).unwrap();
        }
        far.wait_for(sent.len(), LIMIT, |_| true).unwrap();
        let way = relay.stop().unwrap().to_right;
        let count = sent.len() as u64;
        assert_eq!(way, DirectionCounters { received: count, forwarded: count, ..Default::default() });
        let seen = octets_in(&far.stop().unwrap().complete().unwrap());
        assert_eq!(seen.len(), sent.len());
        for (seen, sent) in seen.iter().zip(&sent) {
            assert_eq!(seen, sent);
        }
    }
}

/// Frames that the bridge in its place would not let through.
#[test]
fn it_passes_what_a_bridge_eats_and_counts_what_does_not_fit() {
    let topology = Topology::build(&Shape { protected_mtu: 1600, ..Shape::default() }).unwrap();
    topology.middle.ip(&["link", "set", RIGHT, "mtu", "1500"]).unwrap();
    let (a, b) = (&topology.gateway_a.namespace, &topology.gateway_b.namespace);
    let far = Capture::start(b, "prot").unwrap();
    let before = Capture::start(&topology.middle, LEFT).unwrap();
    let behind = Capture::start(&topology.middle, RIGHT).unwrap();
    let relay = Relay::start(&topology, Impairments::default()).unwrap();
    let socket = PacketSocket::open(a, "prot").unwrap();
    let plain = frame(&topology, &EXPERIMENT, 60);
    let to = |mac: [u8; 6]| [&mac[..], &plain[6..]].concat();
    // MAC control; the middle's own two ports; a group and no address at all for a source.
    let mut sent: Vec<_> =
        [[0x01, 0x80, 0xC2, 0, 0, 1], [2, 0, 0, 0, 0, 0xC1], [2, 0, 0, 0, 0, 0xC2]].map(to).to_vec();
    for source in [[0x01, 0, 0x5E, 0, 0, 1], [0; 6]] {
        sent.push([&plain[..6], &source, &plain[12..]].concat());
    }
    socket.send(&frame(&topology, &EXPERIMENT, 1515)).unwrap();
    for octets in &sent {
        socket.send(octets).unwrap();
    }
    far.wait_for(sent.len(), LIMIT, |_| true).unwrap();
    let way = relay.stop().unwrap().to_right;
    assert_eq!((way.received, way.forwarded, way.send_failed), (6, 5, 1));
    assert_eq!(octets_in(&far.stop().unwrap().complete().unwrap()), sent);
    // Captures in the middle see both sides of it.
    let before = before.stop().unwrap().complete().unwrap();
    assert_eq!((before.going(Direction::In).count(), before.going(Direction::Out).count()), (6, 0));
    let behind = behind.stop().unwrap().complete().unwrap();
    let out: Vec<_> = behind.going(Direction::Out).map(|frame| frame.octets.clone()).collect();
    assert_eq!(out, sent);
}

#[test]
fn lost_frames_are_those_that_do_not_arrive() {
    let topology = bridged(&Shape::default());
    let (seen, way) = through(&topology, Impairments { seed: 2, loss: 0.1, ..Impairments::default() });
    assert!(about(way.lost, 0.1), "{way:?}");
    let numbers: Vec<_> = seen.iter().map(|octets| number(&topology, octets).unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "in order, none twice");
    assert_eq!(numbers.len() as u64, FRAMES - way.lost);
}

#[test]
fn duplicates_arrive_twice_one_behind_the_other() {
    let topology = bridged(&Shape::default());
    let (seen, way) = through(&topology, Impairments { seed: 3, duplicate: 0.1, ..Impairments::default() });
    assert!(about(way.duplicated, 0.1), "{way:?}");
    let numbers: Vec<_> = seen.iter().map(|octets| number(&topology, octets).unwrap()).collect();
    assert!(numbers.is_sorted());
    let (whole, other) = arrivals(&topology, &seen);
    assert_eq!((whole.len() as u64, other), (FRAMES, 0));
    assert_eq!(whole.values().filter(|&&times| times == 2).count() as u64, way.duplicated);
    assert!(whole.values().all(|&times| times <= 2));
}

#[test]
fn corrupted_frames_differ_in_one_bit() {
    // Straight from gateway to gateway: a flipped bit may make a frame that bridges eat.
    let topology = Topology::build(&Shape::default()).unwrap();
    let far = Capture::start(&topology.gateway_b.namespace, "prot").unwrap();
    let socket = PacketSocket::open(&topology.gateway_a.namespace, "prot").unwrap();
    let relay =
        Relay::start(&topology, Impairments { seed: 4, corrupt: 0.1, ..Impairments::default() }).unwrap();
    for number in 0..FRAMES {
        socket.send(&numbered(&topology, number)).unwrap();
    }
    relay.wait_until(LIMIT, |counters| counters.to_right.received == FRAMES).unwrap();
    let way = relay.stop().unwrap().to_right;
    assert!(about(way.corrupted, 0.1), "{way:?}");
    assert_eq!(way.forwarded, FRAMES);
    far.wait_for(FRAMES as usize, LIMIT, |_| true).unwrap();
    let seen = octets_in(&far.stop().unwrap().complete().unwrap());
    assert_eq!(seen.len() as u64, FRAMES);
    let mut corrupted = 0;
    for (number, seen) in (0..FRAMES).zip(&seen) {
        let sent = numbered(&topology, number);
        assert_eq!(seen.len(), sent.len());
        let bits: u32 = sent.iter().zip(seen).map(|(one, other)| (one ^ other).count_ones()).sum();
        assert!(bits <= 1, "{bits} bits of frame {number}");
        corrupted += u64::from(bits);
    }
    assert_eq!(corrupted, way.corrupted);
}

#[test]
fn reordered_frames_are_a_permutation_within_the_bound() {
    let topology = bridged(&Shape::default());
    let reorder_by = 5;
    let impairments = Impairments { seed: 5, reorder: 0.05, reorder_by, ..Impairments::default() };
    let (seen, way) = through(&topology, impairments);
    assert!(about(way.reordered, 0.05), "{way:?}");
    let numbers: Vec<_> = seen.iter().map(|octets| number(&topology, octets).unwrap()).collect();
    let (whole, _) = arrivals(&topology, &seen);
    assert!(whole.len() as u64 == FRAMES && seen.len() as u64 == FRAMES, "each arrived once");
    let (mut highest, mut late) = (0, 0);
    for number in numbers {
        assert!(highest <= number + u64::from(reorder_by), "{number} behind {highest}");
        late += u64::from(number < highest);
        highest = highest.max(number);
    }
    // A frame held back beside its follower is overtaken by none, now and then.
    assert!(late <= way.reordered && late * 10 > way.reordered * 8, "{late} {way:?}");
}

#[test]
fn the_same_seed_and_traffic_meet_the_same_fate() {
    let topology = bridged(&Shape::default());
    let impairments = Impairments { seed: 6, loss: 0.05, duplicate: 0.05, ..Impairments::default() };
    let (one, one_way) = through(&topology, impairments);
    let (two, two_way) = through(&topology, impairments);
    assert_eq!((one.len(), one_way), (two.len(), two_way));
    assert!(one == two, "the same frames arrived");
    let (other, other_way) = through(&topology, Impairments { seed: 7, ..impairments });
    assert!(one != other);
    assert_ne!(one_way, other_way);
}

#[test]
fn everything_at_once_both_ways_and_the_account_is_exact() {
    let topology = bridged(&Shape::default());
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let to_right =
        Impairments { seed: 8, loss: 0.05, duplicate: 0.1, corrupt: 0.0, reorder: 0.2, reorder_by: 9 };
    let to_left = Impairments { loss: 0.0, ..to_right };
    let captures = [(a, "a0"), (b, "b0")].map(|(m, ifname)| Capture::start(&m.namespace, ifname).unwrap());
    let relay = Relay::start_each_way(&topology, to_right, to_left).unwrap();
    std::thread::scope(|scope| {
        for (from, ifname) in [(a, "a0"), (b, "b0")] {
            let topology = &topology;
            scope.spawn(move || {
                let socket = PacketSocket::open(&from.namespace, ifname).unwrap();
                for number in 0..FRAMES {
                    let mut octets = numbered(topology, number);
                    octets[6..12].copy_from_slice(&from.mac);
                    socket.send(&octets).unwrap();
                }
            });
        }
    });
    let all = |c: &RelayCounters| [c.to_right, c.to_left].iter().all(|way| way.received == FRAMES);
    relay.wait_until(LIMIT, all).unwrap();
    let counters = relay.stop().unwrap();
    let [at_a, at_b] = captures;
    for (capture, way) in [(at_a, counters.to_left), (at_b, counters.to_right)] {
        assert_eq!((way.received, way.kernel_dropped, way.send_failed), (FRAMES, 0, 0));
        assert!(balanced(&way), "{way:?}");
        assert!(about(way.duplicated, 0.1 * if way.lost > 0 { 0.95 } else { 1.0 }), "{way:?}");
        capture.wait_for(way.forwarded as usize, LIMIT, |f| f.direction == Direction::In).unwrap();
        let captured = capture.stop().unwrap().complete().unwrap();
        let mut times = BTreeMap::new();
        for frame in captured.going(Direction::In) {
            let number = u64::from_be_bytes(frame.octets[14..22].try_into().unwrap());
            *times.entry(number).or_insert(0_u64) += 1;
        }
        assert_eq!(times.values().sum::<u64>(), way.forwarded);
        assert_eq!(times.len() as u64, FRAMES - way.lost);
        assert_eq!(times.values().filter(|&&times| times == 2).count() as u64, way.duplicated);
    }
    assert_eq!(counters.to_left.lost, 0);
    assert!(about(counters.to_right.lost, 0.05), "{counters:?}");
}

#[test]
fn a_frame_held_back_leaves_without_followers() {
    let topology = bridged(&Shape::default());
    let far = Capture::start(&topology.machine_b.namespace, "b0").unwrap();
    let socket = PacketSocket::open(&topology.machine_a.namespace, "a0").unwrap();
    let all = Impairments { seed: 9, reorder: 1.0, reorder_by: 1000, ..Impairments::default() };
    let relay = Relay::start(&topology, all).unwrap();
    for number in 0..3 {
        socket.send(&numbered(&topology, number)).unwrap();
        // Nothing follows, and nothing stops the relay: it lets go by itself.
        far.wait_for(number as usize + 1, LIMIT, |_| true).unwrap();
    }
    assert_eq!(relay.stop().unwrap().to_right.reordered, 3);
}

#[test]
fn the_bridge_is_put_back_and_one_relay_is_enough() {
    let topology = bridged(&Shape { static_neighbours: true, ..Shape::default() });
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let far = Capture::start(&b.namespace, "b0").unwrap();
    let socket = PacketSocket::open(&a.namespace, "a0").unwrap();
    let mut passed = 0;
    let send = || socket.send(&numbered(&topology, 0)).unwrap();
    let mut passes = || {
        send();
        passed += 1;
        far.wait_for(passed, LIMIT, |_| true).unwrap();
    };
    let nothing = Impairments { loss: 1.0, ..Impairments::default() };
    let relay = Relay::start(&topology, nothing).unwrap();
    assert!(matches!(Relay::start(&topology, nothing), Err(Error::Unexpected(_))), "a second one");
    send();
    relay.wait_until(LIMIT, |counters| counters.to_right.lost == 1).unwrap();
    assert_eq!(relay.stop().unwrap().to_right.lost, 1);
    passes();
    drop(Relay::start(&topology, nothing).unwrap());
    passes();
    // A start that fails half-way puts it back as well.
    topology.middle.ip(&["link", "set", RIGHT, "name", "gone"]).unwrap();
    assert!(Relay::start(&topology, nothing).is_err());
    topology.middle.ip(&["link", "set", "gone", "name", RIGHT]).unwrap();
    passes();
    assert!(Relay::start(&topology, Impairments { loss: 2.0, ..nothing }).is_err());
    passes();
    let seen = far.stop().unwrap().complete().unwrap();
    assert_eq!(seen.going(Direction::In).count(), 4, "no frame twice");
}

#[test]
fn tcp_survives_a_bad_wire_and_a_rate_limit_holds_behind_the_relay() {
    let topology = bridged(&Shape::default());
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let bad =
        Impairments { seed: 10, loss: 0.001, duplicate: 0.01, corrupt: 0.001, reorder: 0.01, reorder_by: 3 };
    let relay = Relay::start(&topology, bad).unwrap();
    traffic::tcp(a, b, Ip::V4, Until::Octets(2_000_000)).unwrap();
    let counters = relay.stop().unwrap();
    assert!(counters.to_right.duplicated > 0 && counters.to_left.received > 0, "{counters:?}");
    assert!(balanced(&counters.to_right) && balanced(&counters.to_left), "{counters:?}");

    topology.limit_rate(50_000_000, Duration::from_millis(50)).unwrap();
    let relay = Relay::start(&topology, Impairments::default()).unwrap();
    let transfer = traffic::tcp(a, b, Ip::V4, Until::Elapsed(Duration::from_secs(2))).unwrap();
    let rate = transfer.megabits_per_second();
    assert!((25.0..50.0).contains(&rate), "{rate}");
    relay.stop().unwrap();
}
