//! Sites whose uplink has a rate: which frames leave when, on a clock that the test holds, and that every one is accounted for.

#![allow(clippy::unwrap_used)]

mod plants;
#[path = "plants/secured.rs"]
mod secured_plants;

use std::time;

use dataplane::site::UplinkSnapshot;
use netdev::udp::Offloads;
use plants::{Plants, macsec, station};
use secy::ExpressClasses;
use secy::express::ExpressClass;
use testkit::frames::payload;
use tunnel::Mode;
use tunnel::shaper::{ShaperSettings, UplinkCounters};
use wire::Instant;

const RATE: u64 = 10_000_000;
/// A group of GOOSE, whose frames are express.
const GOOSE: [u8; 6] = [1, 0x0c, 0xcd, 1, 0, 7];

/// Two sites of which the first shapes its uplink, on a clock of their own.
struct Shaped {
    plants: Plants,
    now: Instant,
}

impl Shaped {
    /// Flows are known before the rate is set.
    fn new(mut plants: Plants, known: &[Vec<u8>]) -> Self {
        for frame in known {
            plants.send(0, std::slice::from_ref(frame));
        }
        assert_eq!(plants.collect(1).len(), known.len());
        let settings = ShaperSettings { bits_per_second: RATE, most_payload: 1600 };
        plants.plants[0].site.as_mut().unwrap().shape(settings);
        let now = plants.now();
        Self { plants, now }
    }

    /// A turn of both sites after so many microseconds. What has reached the second LAN then.
    fn turn_after(&mut self, microseconds: u64) -> Vec<Vec<u8>> {
        self.now = self.now + time::Duration::from_micros(microseconds);
        for plant in &mut self.plants.plants {
            plant.site.as_mut().unwrap().turn(self.now, time::Instant::now());
        }
        self.plants.collect(1)
    }

    fn inject(&mut self, frame: &[u8]) {
        assert!(self.plants.plants[0].lan.inject(frame));
    }

    fn uplink(&mut self) -> UplinkSnapshot {
        self.plants.snapshot(0).uplink.unwrap()
    }

    /// Sixty bulk frames at once, and express ones then. Bulk takes 74 ms of the line.
    fn bulk_and_express(mut self, bulk: impl Fn(u32) -> Vec<u8>, express: impl Fn(u32) -> Vec<u8>) {
        for number in 0..60 {
            self.inject(&bulk(number));
        }
        let mut came = self.turn_after(0);
        assert!(came.len() <= 2, "{} frames at once", came.len());
        let (mut sent, mut due) = (0, 0);
        for turn in 0..2000 {
            // Express frames come in time, and each has left by the next turn but a few.
            if turn % 20 == 0 && sent < 20 {
                self.inject(&express(sent));
                sent += 1;
                due = turn + 15;
            }
            came.extend(self.turn_after(100));
            if turn == due && sent > 0 {
                let express_came = came.iter().filter(|frame| **frame == express(sent - 1)).count();
                assert_eq!(express_came, 1, "express frame {sent} is not there 1.5 ms later");
            }
        }
        let (bulk, express): (Vec<_>, Vec<_>) = ((0..60).map(bulk).collect(), (0..20).map(express).collect());
        let of = |frames: &[Vec<u8>]| {
            came.iter().filter(|frame| frames.contains(frame)).cloned().collect::<Vec<_>>()
        };
        assert!(of(&express) == express, "express frames are lost or overtake each other");
        let bulk_came = of(&bulk);
        let mut rest = bulk.iter();
        assert!(bulk_came.iter().all(|frame| rest.any(|sent| sent == frame)), "bulk overtakes bulk");
        let UplinkSnapshot { counters, backlog } = self.uplink();
        assert_eq!(backlog, Default::default());
        let discards: u64 = UplinkCounters::TABLE
            .iter()
            .zip(counters.values())
            .filter_map(|(counter, value)| counter.discard.then_some(value))
            .sum();
        assert_eq!(bulk_came.len() as u64 + discards, 60, "{counters:?}");
        // 50 ms of the line may wait.
        assert!((38..=48).contains(&bulk_came.len()), "{counters:?}");
        assert_eq!((counters.out_pkts_express, counters.out_pkts_bulk), (20, bulk_came.len() as u64));
    }
}

#[test]
fn express_frames_overtake_what_waits_for_the_uplink() {
    for mode in [Mode::Identifier, Mode::HeaderEncryption, Mode::Plain { vni: 42 }] {
        let plants = Plants::new(2, mode, Offloads::default());
        let bulk = |pn| macsec(station(1), station(0), pn, 1450);
        let express = |pn| macsec(GOOSE, station(2), pn, 200);
        let learned = macsec([0xff; 6], station(1), 1, 60);
        let mut shaped = Shaped::new(plants, &[bulk(10_000), express(10_000)]);
        shaped.plants.plants[1].lan.inject(&learned);
        shaped.turn_after(0);
        shaped.turn_after(0);
        shaped.plants.manage();
        shaped.plants.collect(0);
        shaped.bulk_and_express(bulk, express);
    }
}

/// What the SecY hides says which frames go first.
#[test]
fn express_frames_of_machines_overtake_others_behind_the_secy() {
    let frame = |ether_type: [u8; 2], number: u32, octets: usize| {
        let mut frame = [&station(1)[..], &station(0), &ether_type].concat();
        frame.extend(payload(octets, u64::from(number) << 16 | u64::from(ether_type[1])));
        frame
    };
    let bulk = move |number| frame([0x08, 0x00], number, 1436);
    let express = move |number| frame([0x88, 0x92], number, 60);
    let shaped = Shaped::new(Plants::secured(2), &[bulk(10_000), express(10_000)]);
    shaped.bulk_and_express(bulk, express);
}

/// The site's classes say it, and not the default.
#[test]
fn frames_of_other_classes_overtake_those_of_the_default() {
    let frame = |ether_type: [u8; 2], ip: [u8; 2], number: u32, octets: usize| {
        let mut frame = [&station(1)[..], &station(0), &ether_type, &ip].concat();
        frame.extend(payload(octets, u64::from(number) << 16 | u64::from(ether_type[1])));
        frame
    };
    let bulk = move |number| frame([0x88, 0x92], [0x80, 0], number, 1434);
    // DSCP 46.
    let express = move |number| frame([0x08, 0x00], [0x45, 0xb8], number, 60);
    let mut shaped = Shaped::new(Plants::secured(2), &[bulk(10_000), express(10_000)]);
    let classes = ExpressClasses::NONE.with(ExpressClass::Dscp(46)).unwrap();
    shaped.plants.plants[0].site.as_mut().unwrap().set_express_classes(classes);
    shaped.bulk_and_express(bulk, express);
}

#[test]
fn what_the_management_channel_sends_is_charged() {
    let plants = Plants::new(2, Mode::Identifier, Offloads::default());
    let frame = |pn| macsec(station(1), station(0), pn, 1450);
    let mut shaped = Shaped::new(plants, &[frame(1)]);
    // 10 ms of the line.
    shaped.plants.plants[0].manager.channel.add(0, 12_500 - 66, false);
    shaped.inject(&frame(2));
    assert!(shaped.turn_after(0).is_empty());
    assert!(shaped.turn_after(8_900).is_empty());
    let due = shaped.plants.plants[0].site.as_ref().unwrap().due().unwrap();
    assert!(due > shaped.now && due.since(shaped.now) < time::Duration::from_millis(2));
    assert_eq!(shaped.turn_after(1000), [frame(2)]);
    assert_eq!(shaped.uplink().counters.out_octets_channel, 12_500);
}

/// Frames that need two packets, at once and more than may wait: the line carries no half without the other.
#[test]
fn split_frames_leave_whole_or_not_at_all() {
    for mode in [Mode::Identifier, Mode::HeaderEncryption] {
        let frame = |pn| macsec(station(1), station(0), pn, 1514);
        let mut shaped = Shaped::new(Plants::new(2, mode, Offloads::default()), &[frame(10_000)]);
        (0..60).for_each(|number| shaped.inject(&frame(number)));
        let came: usize = (0..2000).map(|_| shaped.turn_after(100).len()).sum();
        let UplinkSnapshot { counters, backlog } = shaped.uplink();
        assert_eq!(backlog, Default::default());
        assert!((30..=45).contains(&came), "{came} came: {counters:?}");
        assert_eq!(counters.out_pkts_bulk, 2 * came as u64, "{counters:?}");
        assert_eq!(counters.out_pkts_bulk_full + counters.out_pkts_bulk_delayed, 2 * (60 - came as u64));
    }
}
