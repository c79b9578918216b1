//! Header-encryption mode from LAN to LAN: two sites with their sessions, on a virtual clock.

mod ends;
mod plants;

use std::collections::BTreeSet;

use std::time::Duration;

use ends::Sites;
use plants::{PEER, Plants, Wire, frame};
use tunnel::{Discard, Event, InDiscard, Limits, Mode};

const MODE: Mode = Mode::HeaderEncryption;

/// Two sites that know a flow of each of these stations of the first one.
fn acquainted(stations: std::ops::RangeInclusive<u8>) -> Plants {
    let mut plants = Plants::new(MODE);
    for station in stations {
        plants.send(0, &frame(station, 1, 0, 1, 64));
    }
    plants.pass(50);
    plants.take(1);
    plants
}

fn epoch(plants: &mut Plants) -> u32 {
    plants.forwarding(0).transmit_epoch(PEER)
}

#[test]
fn a_new_flow_waits_for_its_announcement_and_goes_in_order() {
    let mut plants = Plants::new(MODE);
    let sent: Vec<_> = (1..=60).map(|pn| frame(1, 1, 0, pn, 60 + pn as usize)).collect();
    let others: Vec<_> = (1..=60).map(|pn| frame(2, 1, 0, pn, 90)).collect();
    plants.send(0, &others[0]);
    plants.pass(30);
    for (number, frame) in sent.iter().enumerate() {
        plants.send(0, frame);
        if let Some(other) = others.get(number + 1) {
            plants.send(0, other);
        }
        plants.pass(1);
        assert_eq!(plants.lans[1].iter().any(|(_, came)| came[11] == 1), number >= 10, "after {number} ms");
    }
    plants.pass(50);
    let came = plants.take(1);
    let of = |station| came.iter().filter(|frame| frame[11] == station).cloned().collect::<Vec<_>>();
    assert_eq!(of(1), sent);
    assert_eq!(of(2), others, "others do not wait");
    let counters = plants.counters(0);
    assert_eq!(counters.out_pkts_waited, 1 + 10, "one of the other flow, and a round trip of this one");
    assert_eq!(counters.out_pkts_tunnelled, 120);
    assert_eq!(epoch(&mut plants), 1);
}

#[test]
fn a_frame_does_not_overtake_those_that_may_go_and_have_not_gone() {
    let mut settings = ends::settings(1);
    settings.peers[0].mode = MODE;
    let mut sites = Sites::new(2, &settings);
    let sent: Vec<_> = (1..=6).map(|pn| frame(1, 1, 0, pn, 90)).collect();
    sent[..3].iter().for_each(|frame| assert!(sites.send(0, frame)));
    sites.settle();
    // The flow is acknowledged; nobody has asked for what was released.
    sent[3..5].iter().for_each(|frame| assert!(sites.send(0, frame)));
    assert_eq!(sites.take_sent(0), []);
    let now = sites.now;
    let released = |sites: &mut Sites| {
        let released = sites.sites[0].forwarding.poll_released(now)?;
        Some((released.frame.to_vec(), ends::octets(&released.packets[0], released.frame)))
    };
    for expected in &sent[..5] {
        let (frame, packet) = released(&mut sites).expect("it may go");
        assert_eq!((&frame, sites.arrive(0, 1, &packet).as_ref()), (expected, Some(expected)));
    }
    assert_eq!(released(&mut sites), None);
    assert!(sites.send(0, &sent[5]));
    sites.deliver_all(0);
    assert_eq!(sites.take_delivered(1).last(), Some(&sent[5]));
    // A released frame that is fetched too late does not go.
    sites.send(0, &frame(2, 1, 0, 1, 90));
    sites.settle();
    let late = now + Duration::from_millis(100);
    assert!(sites.sites[0].forwarding.poll_released(late).is_none());
    assert_eq!(sites.sites[0].forwarding.peer_counters(PEER).out_pkts_wait_expired, 1);
    assert_eq!(sites.sites[1].forwarding.announced_flows(PEER), 2);
    sites.restart(0, 1);
    assert_eq!(sites.sites[1].forwarding.announced_flows(PEER), 0, "another generation");
}

#[test]
fn what_waits_too_long_or_finds_no_room_is_counted_and_the_rest_is_in_order() {
    let mut plants = Plants::new(MODE);
    plants.channel = Some(75);
    let sent: Vec<_> = (1..=600).map(|pn| frame(1, 1, 0, pn, 80)).collect();
    for (number, frame) in sent.iter().enumerate() {
        plants.send(0, frame);
        if number % 2 == 1 {
            plants.pass(1);
        }
    }
    plants.pass(100);
    let came = plants.take(1);
    let mut order = sent.iter();
    assert!(came.iter().all(|frame| order.any(|sent| sent == frame)), "in the order in which they were sent");
    assert_eq!(came.last(), sent.last());
    let counters = plants.counters(0);
    assert!(counters.out_pkts_wait_full > 0 && counters.out_pkts_wait_expired > 0, "{counters:?}");
    let lost = counters.out_pkts_wait_full + counters.out_pkts_wait_expired;
    assert_eq!(came.len() as u64 + lost, 600);
}

#[test]
fn a_changed_an_of_eight_stations_within_milliseconds_loses_nothing() {
    let mut plants = acquainted(1..=8);
    plants.wire = Wire { delay: 3, jitter: 4, lost: 0 };
    let mut sent = BTreeSet::new();
    for round in 0..60_u32 {
        for station in 1..=8 {
            // All of them change within 8 ms, and 12 ms later once more.
            let changes = (round > 20 + u32::from(station)) as u8 + (round > 32 + u32::from(station)) as u8;
            let frame = frame(station, 1, changes, round + 2, 200);
            plants.send(0, &frame);
            sent.insert(frame);
        }
        plants.pass(1);
    }
    plants.pass(20);
    let came = plants.take(1);
    assert_eq!(came.len(), sent.len());
    assert_eq!(BTreeSet::from_iter(came), sent);
    assert_eq!(epoch(&mut plants), 1, "no epoch is needed for that");
}

#[test]
fn stations_that_restart_begin_an_epoch_at_most_one_a_second() {
    let mut plants = acquainted(1..=3);
    let (mut starts, mut sent, mut pns) = (Vec::new(), 0, [10_000_u32; 3]);
    for millisecond in 0..12_000_u32 {
        // The first station restarts again and again for some seconds, at last the second in the same millisecond, and
        // the third never.
        if millisecond < 6000 && millisecond % 300 == 0 {
            pns[0] = if pns[0] > 9000 { 1 } else { 10_000 };
        }
        if millisecond == 9000 {
            pns[..2].fill(1);
        }
        for (station, pn) in (1..).zip(&mut pns) {
            *pn += 1;
            plants.send(0, &frame(station, 1, 0, *pn, 64));
            sent += 1;
        }
        plants.pass(1);
        let epoch = epoch(&mut plants);
        if epoch > starts.last().map_or(1, |&(_, last)| last) {
            starts.push((millisecond, epoch));
        }
    }
    plants.pass(50);
    let came = plants.take(1).len() as u64;
    assert!(starts.len() > 5, "{starts:?}");
    for pair in starts.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= 1000 && pair[1].1 == pair[0].1 + 1, "{starts:?}");
    }
    assert_eq!(starts.iter().filter(|&&(at, _)| at > 8000).count(), 1, "one epoch for both: {starts:?}");
    let counters = plants.counters(0);
    assert!(counters.out_pkts_epoch_awaited > 0, "some restarts came too soon");
    let dropped = counters.out_pkts_epoch_awaited + counters.out_pkts_repeated;
    assert_eq!(came + dropped, sent, "{counters:?}");
    assert_eq!(plants.discards, []);
}

#[test]
fn a_restart_within_the_window_costs_nothing_or_after_a_few_frames_three() {
    // (the newest PN, frames that are taken for copies)
    for (newest, lost) in [(500, 0), (65, 0), (64, 3), (20, 3)] {
        let mut plants = acquainted(1..=1);
        for pn in 2..=newest {
            plants.send(0, &frame(1, 1, 0, pn, 64));
        }
        plants.pass(1500);
        plants.take(1);
        let sent: Vec<_> = (1..100).map(|pn| frame(1, 1, 0, pn, 64)).collect();
        sent.iter().for_each(|frame| plants.send(0, frame));
        plants.pass(50);
        assert_eq!(plants.take(1), sent[lost as usize..], "after PN {newest}");
        assert_eq!((plants.counters(0).out_pkts_repeated, epoch(&mut plants)), (lost, 2));
    }
}

#[test]
fn late_copies_of_first_frames_begin_one_epoch_a_second_and_cost_nobody_a_frame() {
    let mut plants = acquainted(1..=2);
    let (mut sent, mut pn, mut copy) = (BTreeSet::new(), 1, Vec::new());
    for millisecond in 0..5000_u32 {
        if millisecond % 6 == 0 {
            pn += 1;
            for station in 1..=2 {
                let frame = frame(station, 1, 0, pn, 64);
                plants.send(0, &frame);
                if (station, pn) == (1, 10) {
                    copy = frame.clone();
                }
                sent.insert(frame);
            }
        }
        if pn > 100 {
            plants.send(0, &copy);
        }
        plants.pass(1);
    }
    plants.pass(50);
    let came = plants.take(1);
    let copies = came.iter().filter(|&frame| *frame == copy).count();
    assert_eq!(BTreeSet::from_iter(came), sent);
    let epochs = epoch(&mut plants) - 1;
    assert!((3..=5).contains(&epochs), "{epochs} epochs in 5 s");
    assert_eq!(copies, 1 + epochs as usize, "the station refuses all but the first");
}

#[test]
fn copies_on_the_lan_go_once_and_begin_no_epoch() {
    let mut plants = acquainted(1..=1);
    plants.pass(1500);
    let sent: Vec<_> = (2..500).map(|pn| frame(1, 1, 0, pn, 64)).collect();
    for (number, frame) in sent.iter().enumerate() {
        plants.send(0, frame);
        plants.send(0, &sent[number.saturating_sub(40)]);
    }
    plants.pass(50);
    assert_eq!(plants.take(1), sent);
    assert_eq!((plants.counters(0).out_pkts_repeated, epoch(&mut plants)), (498, 1));
}

#[test]
fn without_an_acknowledged_epoch_the_sa_that_restarts_is_dropped_and_others_go_on() {
    let mut plants = acquainted(1..=2);
    plants.pass(2000);
    for station in 1..=2 {
        plants.send(0, &frame(station, 1, 0, 50_000, 64));
    }
    plants.channel = None;
    for pn in 1..=10 {
        plants.send(0, &frame(1, 1, 0, pn, 64));
        assert_eq!(epoch(&mut plants), 2, "the one in readiness");
    }
    plants.send(0, &frame(1, 1, 0, 50_000, 64));
    plants.send(0, &frame(2, 1, 0, 50_001, 64));
    plants.pass(2000);
    assert_eq!(plants.take(1).len(), 14);
    for pn in 1..=10 {
        plants.send(0, &frame(1, 1, 0, pn, 64));
        plants.send(0, &frame(2, 1, 0, 50_001 + pn, 64));
        plants.pass(300);
    }
    assert_eq!(plants.take(1).iter().map(|frame| frame[11]).collect::<Vec<_>>(), [2; 10]);
    assert_eq!(plants.counters(0).out_pkts_epoch_awaited, 10);
    let wants = |plants: &Plants| {
        plants
            .events
            .iter()
            .filter(|(_, site, event)| *site == 0 && matches!(event, Event::EpochWanted { .. }))
            .count()
    };
    assert!((2..=7).contains(&wants(&plants)), "told again, once a second: {}", wants(&plants));
    plants.channel = Some(5);
    plants.connect();
    plants.pass(1100);
    plants.send(0, &frame(1, 1, 0, 10, 64));
    plants.pass(10);
    assert_eq!((plants.take(1).len(), epoch(&mut plants)), (1, 3));
}

#[test]
fn loss_reordering_and_replays_deliver_nothing_twice() {
    let mut plants = acquainted(1..=4);
    plants.wire = Wire { delay: 1, jitter: 40, lost: 200 };
    let (mut sent, first) = (BTreeSet::new(), plants.recorded.len());
    for pn in 2..3000_u32 {
        for station in 1..=4 {
            let frame = frame(station, 1, 0, pn, 100);
            plants.send(0, &frame);
            sent.insert(frame);
        }
        if pn % 4 == 0 {
            plants.pass(1);
        }
    }
    plants.pass(100);
    let came = plants.take(1);
    assert_eq!(BTreeSet::from_iter(&came).len(), came.len(), "no frame twice");
    assert!(came.iter().all(|frame| sent.contains(frame)), "octet for octet what was sent");
    let share = came.len() as f64 / sent.len() as f64;
    assert!((0.75..0.85).contains(&share), "a fifth is lost, and no more: {share}");
    assert_eq!(plants.discards, [], "reordering inside the window costs nothing");
    // An attacker plays all of it again, in another order: what was lost is new, once; what came is not.
    let recorded = plants.recorded.split_off(first);
    let mut late = BTreeSet::new();
    for (to, packet) in recorded.iter().rev().chain(&recorded) {
        late.extend(plants.arrive(*to, packet));
    }
    assert!(late.iter().all(|frame| sent.contains(frame) && !came.contains(frame)));
    assert_eq!(plants.lans[1].len(), late.len(), "each of them once");
    let (replayed, old) = (plants.counters(1).in_pkts_replayed, plants.counters(1).in_pkts_late);
    assert_eq!(replayed + old + late.len() as u64, 2 * recorded.len() as u64);
    assert!(old > 0 && replayed > 0);
}

#[test]
fn frames_that_do_not_fit_the_path_go_in_two_and_come_back_as_one() {
    let mut plants = Plants::with(MODE, Limits::default(), 1000);
    plants.send(0, &frame(1, 1, 0, 1, 1528));
    plants.pass(50);
    plants.wire = Wire { delay: 1, jitter: 8, lost: 0 };
    let sent: BTreeSet<_> = (2..200).map(|pn| frame(1, 1, 0, pn, 960 + 5 * pn as usize % 600)).collect();
    for frame in &sent {
        plants.send(0, frame);
        plants.pass(1);
    }
    plants.pass(100);
    assert!(plants.recorded.iter().all(|(_, packet)| packet.len() <= 1000));
    let came = plants.take(1);
    assert_eq!((came.len(), BTreeSet::from_iter(came[1..].iter().cloned())), (199, sent));
    let split = plants.counters(0).out_pkts_split;
    assert!((100..190).contains(&split), "{split}");
    assert_eq!(plants.counters(1).in_pkts_joined, split);
    plants.take(1);
    // Parts of frames with one PN, of two stations.
    plants.send(0, &frame(2, 1, 0, 300, 100));
    plants.pass(50);
    plants.wire = Wire { delay: 1, jitter: 0, lost: 1000 };
    let pair = [1, 2].map(|station| frame(station, 1, 0, 301, 1500));
    pair.iter().for_each(|frame| plants.send(0, frame));
    let parts: Vec<_> =
        plants.recorded[plants.recorded.len() - 4..].iter().map(|(_, part)| part.clone()).collect();
    let joined = [0, 2, 3, 1].map(|part: usize| plants.arrive(1, &parts[part]));
    assert_eq!(joined, [None, None, Some(pair[1].clone()), Some(pair[0].clone())]);
    // A replayed part is none, and a part alone goes after 50 ms.
    let parts: Vec<_> = plants.recorded.iter().rev().map(|(_, packet)| packet.clone()).take(4).collect();
    parts.iter().for_each(|packet| assert_eq!(plants.arrive(1, packet), None));
    assert_eq!(plants.counters(1).in_pkts_replayed, 4);
    plants.wire.lost = 1000;
    plants.send(0, &frame(1, 1, 0, 302, 1500));
    let (_, first) = plants.recorded[plants.recorded.len() - 2].clone();
    assert_eq!(plants.arrive(1, &first), None);
    plants.pass(70);
    assert_eq!(plants.counters(1).in_parts_expired, 1);
    let (_, second) = plants.recorded[plants.recorded.len() - 1].clone();
    assert_eq!(plants.arrive(1, &second), None, "its other part is gone");
    plants.send(0, &frame(1, 1, 0, 303, 1990));
    assert_eq!(plants.counters(0).out_pkts_too_long, 1);
}

/// A frame with so many extension headers of segments of 40 octets, the same in every frame.
fn extended(an: u8, pn: u32, headers: usize, octets: usize) -> Vec<u8> {
    let mut frame = frame(1, 1, an, pn, octets);
    frame[15] |= 0x80;
    for header in 0..headers {
        let [high, low] = (40_u16 << 5 | u16::from(header + 1 < headers)).to_be_bytes();
        (frame[28 + 2 * header], frame[29 + 2 * header]) = (high, low);
    }
    frame
}

#[test]
fn split_and_concatenated_frames_cross_octet_for_octet() {
    let mut plants = Plants::with(MODE, Limits::default(), 1000);
    plants.send(0, &frame(1, 1, 0, 1, 100));
    plants.pass(50);
    plants.take(1);
    plants.wire = Wire { delay: 1, jitter: 8, lost: 0 };
    // A lone tail in a padded frame, one to 32 headers, whole and in two packets.
    let mut tail = extended(0, 2, 1, 47);
    tail.resize(60, 0);
    let mut sent = BTreeSet::from([tail]);
    sent.extend((3..200).map(|pn| extended(0, pn, 1 + pn as usize % 32, 160 + 7 * pn as usize)));
    for frame in &sent {
        plants.send(0, frame);
        plants.pass(1);
    }
    plants.pass(100);
    assert!(plants.recorded.iter().all(|(_, packet)| packet.len() <= 1000));
    let came = BTreeSet::from_iter(plants.take(1));
    assert!(came == sent, "{} of {}", came.intersection(&sent).count(), sent.len());
    let counters = plants.counters(1);
    assert_eq!((counters.in_pkts_tunnelled, plants.discards.len()), (sent.len() as u64 + 1, 0));
    assert!(counters.in_pkts_joined > 50, "{}", counters.in_pkts_joined);
}

/// Two SAs of a station at the same PN, and both fragments of a frame, have the same PN, SCI and extension headers.
#[test]
fn equal_extension_headers_make_no_equal_blocks() {
    let mut plants = Plants::with(MODE, Limits::default(), 1000);
    plants.send(0, &frame(1, 1, 0, 1, 100));
    plants.pass(50);
    let first = plants.recorded.len();
    for pn in 2..100 {
        for an in 0..4 {
            plants.send(0, &extended(an, pn, 2 + pn as usize % 20, if pn % 2 == 0 { 300 } else { 1400 }));
        }
    }
    let packets = &plants.recorded[first..];
    assert_eq!(packets.len(), 4 * (49 + 2 * 49));
    for block in [0..16, 16..32] {
        let blocks: BTreeSet<_> = packets.iter().map(|(_, packet)| &packet[block.clone()]).collect();
        assert_eq!(blocks.len(), packets.len(), "{block:?}");
    }
}

/// A site of a version that does not know these frames refuses them, so they are not sent to it.
#[test]
fn split_and_concatenated_frames_go_to_no_peer_that_does_not_know_them() {
    let mut plants = Plants::older(MODE, 1);
    plants.send(0, &frame(1, 1, 0, 1, 100));
    plants.pass(50);
    plants.take(1);
    plants.send(0, &extended(0, 2, 3, 300));
    plants.send(0, &frame(1, 1, 0, 3, 100));
    plants.pass(50);
    assert_eq!(plants.take(1).len(), 1);
    assert_eq!(plants.counters(0).out_pkts_extended, 1);
}

#[test]
fn flipped_headers_die_here_and_swapped_bodies_at_the_station() {
    let mut plants = acquainted(1..=2);
    plants.wire.lost = 1000;
    let sent: Vec<_> = (2..40).map(|pn| frame(1 + (pn % 2) as u8, 1, 0, pn, 120)).collect();
    sent.iter().for_each(|frame| plants.send(0, frame));
    let packets: Vec<_> = plants.recorded.iter().rev().take(sent.len()).rev().cloned().collect();
    let stations = plants.forwarding(1).stations().count();
    for ((_, packet), original) in packets.iter().zip(&sent) {
        for bit in (0..256).step_by(7) {
            let mut forged = packet.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(plants.arrive(1, &forged), None);
        }
        // The body of another packet: the frame goes on with it, and the MACsec station will see that.
        let other = &packets[packets.len() / 2].1;
        let came = plants.arrive(1, &[&packet[..32], &other[32..]].concat()).expect("nobody looks at bodies");
        assert_eq!(came[..32], original[..32]);
        assert_eq!(plants.arrive(1, packet), None, "its PN is used up: one loss for one injection");
    }
    let counters = plants.counters(1);
    assert_eq!(counters.in_pkts_not_valid + counters.in_pkts_unknown_flow, 37 * sent.len() as u64);
    assert_eq!(counters.in_pkts_replayed, sent.len() as u64);
    assert_eq!(plants.forwarding(1).stations().count(), stations, "nothing was learned");
    plants.wire.lost = 0;
    plants.take(1);
    let next: Vec<_> = (41..60).map(|pn| frame(1, 1, 0, pn, 120)).collect();
    next.iter().for_each(|frame| plants.send(0, frame));
    plants.pass(10);
    assert_eq!(plants.take(1), next);
}

#[test]
fn a_restart_of_a_site_voids_what_was_recorded_and_all_goes_on() {
    let mut plants = acquainted(1..=2);
    for restarts in 0..6_u32 {
        let mut sent = Vec::new();
        for pn in 2..30 {
            sent.push(frame(1, 1, 0, 100 * restarts + pn, 100));
            plants.send(0, &sent[sent.len() - 1]);
        }
        plants.pass(60);
        let came = plants.take(1);
        assert_eq!(came, sent, "after {restarts} restarts");
        // A frame of a new flow waits while the site starts anew.
        plants.channel = None;
        plants.send(0, &frame(9, 1, 0, restarts + 1, 80));
        plants.channel = Some(5);
        match restarts % 3 {
            0 => plants.restart(0),
            1 => plants.restart(1),
            _ => (0..2).for_each(|site| plants.restart(site)),
        }
        plants.pass(60);
        plants.send(0, &frame(1, 1, 0, 100 * restarts + 90, 100));
        plants.pass(60);
        plants.take(1);
        let recorded = plants.recorded.clone();
        for (to, packet) in &recorded {
            assert_eq!(plants.arrive(*to, packet), None, "a packet of a generation before");
        }
        plants.recorded.clear();
    }
    assert!(plants.discards.contains(&Discard::Of(PEER, InDiscard::NotValid)));
}

#[test]
fn a_wait_ends_with_the_generation() {
    let mut plants = acquainted(1..=1);
    plants.channel = None;
    for pn in 1..=5 {
        plants.send(0, &frame(9, 1, 0, pn, 80));
    }
    plants.channel = Some(5);
    plants.restart(1);
    plants.pass(50);
    assert_eq!(plants.counters(0).out_pkts_wait_voided, 5);
    assert_eq!(plants.take(1), Vec::<Vec<u8>>::new());
}

#[test]
fn each_frame_that_is_not_carried_has_its_reason() {
    let mut plants = acquainted(1..=1);
    plants.wire.lost = 1000;
    let flows = plants.forwarding(0).flows(PEER).count();
    let good = frame(7, 1, 0, 1, 80);
    let changed = |octet: usize, value: u8, octets: usize| {
        let mut frame = good.clone();
        frame[octet] = value;
        frame.truncate(octets);
        frame
    };
    let frames = [changed(14, 0x0c, 80), changed(14, 0x20, 80), changed(0, 2, 31)];
    frames.iter().for_each(|frame| plants.send(0, frame));
    let counters = plants.counters(0);
    assert_eq!(counters.out_pkts_no_sci, 1);
    assert_eq!(counters.out_pkts_not_encrypted, 1);
    assert_eq!(counters.out_pkts_too_short, 1);
    assert_eq!(plants.forwarding(0).flows(PEER).count(), flows, "they make no flows");
    assert_eq!(counters.out_pkts_waited, 1);
}

#[test]
fn a_flow_that_the_peer_has_no_room_for_is_dropped_and_others_are_not() {
    let limits = Limits { flows: 3, ..Limits::default() };
    let mut plants = Plants::with(MODE, limits, 1472);
    for pn in 1..=50 {
        for station in 1..=5 {
            plants.send(0, &frame(station, 1, 0, pn, 80));
        }
        plants.pass(10);
    }
    plants.pass(200);
    let came = plants.take(1);
    assert!(came.iter().all(|frame| frame[11] <= 3));
    assert_eq!(came.len(), 150);
    assert_eq!(plants.counters(0).out_pkts_flow_quota, 100);
}

#[test]
fn a_flood_of_new_flows_costs_known_ones_nothing() {
    let mut plants = acquainted(1..=1);
    let mut sent = Vec::new();
    for pn in 2..200_u32 {
        for flow in 0..20_u32 {
            let mut stray = frame(200, 1, 0, pn * 20 + flow, 80);
            stray[20..24].copy_from_slice(&(pn * 20 + flow).to_be_bytes());
            stray[6..10].copy_from_slice(&(0x0200_0000 + pn * 20 + flow).to_be_bytes());
            plants.send(0, &stray);
        }
        sent.push(frame(1, 1, 0, pn, 80));
        plants.send(0, &sent[sent.len() - 1]);
        plants.pass(1);
    }
    plants.pass(200);
    let came: Vec<_> = plants.take(1).into_iter().filter(|frame| frame[11] == 1).collect();
    assert_eq!(came, sent);
    let counters = plants.counters(0);
    assert!(counters.out_pkts_flow_rate > 2000, "{counters:?}");
    let kept = counters.out_pkts_waited - 1;
    assert!(kept < 1300, "a thousand new flows a second: {kept}");
}

#[test]
fn an_sa_that_is_silent_between_its_frames_loses_none_to_a_flood_of_new_sas() {
    let mut plants = acquainted(1..=5);
    let (mut sent, mut strays, mut epochs) = (BTreeSet::new(), 0_u32, BTreeSet::new());
    for millisecond in 0..6000_u32 {
        for _ in 0..5 {
            strays += 1;
            let mut stray = frame(200, 1, 0, strays, 80);
            stray[20..24].copy_from_slice(&strays.to_be_bytes());
            stray[6..10].copy_from_slice(&(0x0200_0000 + strays).to_be_bytes());
            plants.send(0, &stray);
        }
        // Each in a rhythm of its own, so at any age of an epoch.
        for station in (1..=5).filter(|&station| millisecond % (170 * u32::from(station) + 1) == 7) {
            let frame = frame(station, 1, 0, millisecond, 80);
            plants.send(0, &frame);
            sent.insert(frame);
        }
        plants.pass(1);
        epochs.insert(epoch(&mut plants));
    }
    plants.pass(200);
    let came = BTreeSet::from_iter(plants.take(1).into_iter().filter(|frame| frame[11] <= 5));
    assert!(sent.len() > 20 && came == sent, "{} of {}", came.len(), sent.len());
    assert!(epochs.len() >= 4, "the flood has begun epochs: {epochs:?}");
    assert!(plants.counters(0).out_pkts_epoch_awaited > 100, "{:?}", plants.counters(0));
}
