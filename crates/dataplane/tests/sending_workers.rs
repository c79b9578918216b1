//! Sites that send from two workers each: what crosses, in which order, and by which lane.

#![allow(clippy::unwrap_used)]

mod plants;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use dataplane::worker::Polling;
use plants::{PATIENCE, Plants, macsec, station};

/// Machines that send at the first LAN.
const FLOWS: u8 = 32;

/// Turns until so many frames have come to a LAN.
fn collect(plants: &mut Plants, own: usize, count: usize) -> Vec<Vec<u8>> {
    let give_up = Instant::now() + PATIENCE;
    let mut came = vec![];
    while came.len() < count {
        assert!(Instant::now() < give_up, "{} of {count} have come", came.len());
        plants.turn();
        plants.manage();
        came.extend(plants.collect(own));
    }
    came
}

/// A station of each LAN is known to the other site.
fn acquaint(plants: &mut Plants) {
    plants.send(1, &[macsec(station(1), station(200), 1, 60)]);
    assert_eq!(collect(plants, 0, 1).len(), 1);
}

#[test]
fn flows_are_spread_over_two_workers_and_each_keeps_its_order() {
    for polling in [Polling::Adaptive, Polling::Interrupt] {
        let mut plants = Plants::with_sending_workers(2, Some(polling));
        acquaint(&mut plants);
        let mut sent = 0;
        for round in 0..40_u32 {
            // One of the first frames of each flow, and longer ones than the path carries whole among the later.
            let longest = if round == 0 { 60 } else { 1514 };
            let frames: Vec<_> = (0..256_u32)
                .map(|number| {
                    let pn = 1 + round * 8 + number / u32::from(FLOWS);
                    let octets = if pn % 3 == 0 { longest } else { 60 + (pn * 101 % 1300) as usize };
                    macsec(station(200), station((number % u32::from(FLOWS)) as u8), pn, octets)
                })
                .collect();
            for frame in &frames {
                assert!(plants.plants[0].lan.inject(frame));
            }
            let came = collect(&mut plants, 1, frames.len());
            sent += frames.len() as u64;
            let by_flow = |frames: &[Vec<u8>]| {
                let mut flows = BTreeMap::<[u8; 6], Vec<Vec<u8>>>::new();
                for frame in frames {
                    flows.entry(frame[6..12].try_into().unwrap()).or_default().push(frame.clone());
                }
                flows
            };
            assert!(by_flow(&came) == by_flow(&frames), "round {round}: changed, lost or overtaken");
        }
        // Figures of the further worker are a tenth of a second old.
        let give_up = Instant::now() + PATIENCE;
        let snapshot = loop {
            plants.turn();
            let snapshot = plants.snapshot(0);
            if snapshot.peers[0].counters.out_pkts_tunnelled == sent || Instant::now() > give_up {
                break snapshot;
            }
            thread::sleep(Duration::from_millis(10));
        };
        let counters = snapshot.peers[0].counters;
        assert_eq!((counters.out_pkts_tunnelled, snapshot.path.out_pkts_worker_busy), (sent, 0));
        assert!(counters.out_pkts_split > 0);
        let data = snapshot.data.unwrap();
        assert!(data.tx_packets >= sent + counters.out_pkts_split, "{}", data.tx_packets);
        // Even numbers are the first worker's, odd ones those of the further one.
        let of = |odd: u16| snapshot.flows.iter().filter(|(_, flow)| flow.index.0 % 2 == odd).count();
        let [first, further] = [0, 1].map(of);
        assert_eq!(first + further, usize::from(FLOWS));
        assert!(first >= 3 && further >= 8, "{first} and {further} flows");
        assert!(snapshot.flows.iter().all(|(_, flow)| flow.acknowledged), "{:?}", snapshot.flows);
        let received = plants.snapshot(1);
        assert_eq!(received.peers[0].counters.in_pkts_tunnelled, sent);
        assert_eq!(received.tunnel.in_pkts_unknown_identifier, 0);
    }
}

#[test]
fn what_a_further_worker_has_no_room_for_is_counted_and_what_waits_is_sent() {
    // Its thread does not run yet.
    let mut plants = Plants::with_sending_workers(2, None);
    plants.plants[1].start_sending(Polling::Interrupt);
    acquaint(&mut plants);
    let (mut given, mut came) = (0, 0);
    for round in 0..12_u32 {
        for number in 0..256_u32 {
            let from = station((number % u32::from(FLOWS)) as u8);
            let frame = macsec(station(200), from, 1 + round * 8 + number / u32::from(FLOWS), 60);
            assert!(plants.plants[0].lan.inject(&frame));
            given += 1;
        }
        plants.settle();
        came += plants.collect(1).len();
    }
    let busy = plants.snapshot(0).path.out_pkts_worker_busy as usize;
    assert!(busy > 0 && came + busy < given, "{came} of {given} came, {busy} had no room");
    plants.plants[0].start_sending(Polling::Interrupt);
    collect(&mut plants, 1, given - came - busy);
    plants.settle();
    assert!(plants.collect(1).is_empty(), "more than were given");
}

#[test]
fn the_further_worker_ends_with_its_site() {
    let mut plants = Plants::with_sending_workers(2, Some(Polling::Interrupt));
    acquaint(&mut plants);
    let address = plants.plants[0].address;
    assert!(UdpSocket::bind(address).is_err(), "the site has it");
    drop(plants.plants[0].site.take());
    // Nobody holds the socket any more: the thread has ended.
    UdpSocket::bind(address).unwrap();
}
