//! Two paths to a peer whose uplinks have rates of their own, on a clock that the test holds: which frames leave when by which.

#![allow(clippy::unwrap_used)]

mod plants;

use std::net::{IpAddr, Ipv4Addr};
use std::time::{self, Duration};

use dataplane::site::{Copies, Place, ToWorker, UplinkSnapshot, WayOut};
use netdev::udp::{Offloads, Source};
use plants::{Plants, macsec, peer, station};
use tunnel::shaper::ShaperSettings;
use tunnel::{Command, Mode};
use wire::Instant;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Rates of the first path, which has that of the site, and of the second.
const RATES: [u64; 2] = [10_000_000, 2_000_000];
/// A group of GOOSE, whose frames are express.
const GOOSE: [u8; 6] = [1, 0x0c, 0xcd, 1, 0, 7];
/// Octets of a bulk frame, and of its packet on the line: short form instead of addresses and SecTAG, UDP, IP and Ethernet.
const BULK: usize = 1450;
const BULK_ON_THE_LINE: u64 = BULK as u64 - 12 + 66;
const TURN: Duration = Duration::from_micros(100);

struct Shaped {
    plants: Plants,
    now: Instant,
    next: u32,
}

fn bulk(number: u32) -> Vec<u8> {
    macsec(station(1), station(0), number, BULK)
}

fn express(number: u32) -> Vec<u8> {
    macsec(GOOSE, station(2), number, 200)
}

impl Shaped {
    fn new(copies: Copies) -> Self {
        let mut plants = Plants::new(2, Mode::Identifier, Offloads::default());
        for frame in [bulk(1_000_000), express(1_000_000)] {
            plants.send(0, &[frame]);
        }
        assert_eq!(plants.collect(1).len(), 2);
        let site = plants.plants[0].site.as_mut().unwrap();
        let shaper = |bits_per_second| ShaperSettings { bits_per_second, most_payload: 1600 };
        site.shape(shaper(RATES[0]));
        site.shape_path(shaper(RATES[1]));
        let to = plants.plants[1].address;
        let second = Source { address: Some(LOOPBACK), interface: 0 };
        plants.tell(0, ToWorker::WayOut { uplink: 1, way: WayOut::of(&second).unwrap() });
        for (number, source) in (0..).zip([Source::default(), second]) {
            plants.tell(0, ToWorker::Path { peer: peer(0, 1), number, place: Some(Place { to, source }) });
        }
        plants.tell(0, ToWorker::Copies { peer: peer(0, 1), copies });
        plants.tell(1, ToWorker::Tunnel(Command::ExpectCopies { peer: peer(1, 0) }));
        plants.settle();
        let now = plants.now();
        Self { plants, now, next: 0 }
    }

    fn inject(&mut self, frame: &[u8]) {
        assert!(self.plants.plants[0].lan.inject(frame));
    }

    /// A turn of both sites, a while after the one before. What has reached the second LAN then.
    fn turn(&mut self) -> Vec<Vec<u8>> {
        self.now = self.now + TURN;
        for plant in &mut self.plants.plants {
            plant.site.as_mut().unwrap().turn(self.now, time::Instant::now());
        }
        self.plants.collect(1)
    }

    /// The figures of both uplinks.
    fn uplinks(&mut self) -> [UplinkSnapshot; 2] {
        let snapshot = self.plants.snapshot(0);
        [snapshot.uplink.unwrap(), snapshot.path_uplinks[0]]
    }

    /// Octets that both uplinks have sent.
    fn octets(&mut self) -> [u64; 2] {
        self.uplinks().map(|uplink| uplink.counters.out_octets_line)
    }

    /// Twice as much bulk as the faster uplink carries, for a while; how many of its frames came.
    fn flood(&mut self, turns: u32) -> u64 {
        let mut came = 0;
        for turn in 0..turns {
            // 1504 octets take 1.2 ms of 10 Mbit/s.
            if turn % 6 == 0 {
                self.next += 1;
                self.inject(&bulk(self.next));
            }
            came += self.turn().len() as u64;
        }
        came
    }
}

/// Frames that a line carries in so many turns.
fn carried(rate: u64, turns: u32) -> u64 {
    rate * TURN.as_micros() as u64 * u64::from(turns) / 8_000_000 / BULK_ON_THE_LINE
}

#[test]
fn a_flow_that_moves_obeys_the_rate_of_the_path_that_it_moves_to() {
    let mut shaped = Shaped::new(Copies::None);
    for number in [0, 1, 0, 1] {
        shaped.plants.tell(0, ToWorker::Prefer { peer: peer(0, 1), number });
        // What waited for the other path leaves by that: 50 ms of it, or sixteen full packets at a low rate.
        shaped.flood(1200);
        let before = shaped.octets();
        let (turns, used, idle) = (3000, usize::from(number), usize::from(1 - number));
        let came = shaped.flood(turns);
        let expected = carried(RATES[used], turns);
        assert!(came.abs_diff(expected) <= 3, "path {number}: {came} frames in place of {expected}");
        let after = shaped.octets();
        let limit = RATES[used] / 8 * u64::from(turns) / 10_000 + 2 * BULK_ON_THE_LINE;
        assert!(after[used] - before[used] <= limit, "path {number} sent more than its line carries");
        assert_eq!(after[idle], before[idle], "nothing leaves by the other path");
    }
}

/// The limit of the added delay: 2 ms and a full packet. In turns of 100 us, so a turn more.
#[test]
fn express_frames_go_first_on_each_path() {
    for number in [0, 1] {
        let mut shaped = Shaped::new(Copies::None);
        shaped.plants.tell(0, ToWorker::Prefer { peer: peer(0, 1), number });
        shaped.flood(600);
        let full_packet = BULK_ON_THE_LINE * 8 * 1_000_000 / RATES[usize::from(number)];
        let limit = (2000 + full_packet).div_ceil(TURN.as_micros() as u64) + 1;
        let (mut longest, mut sent) = (0, 0);
        for turn in 0..20_000_u32 {
            if turn % 6 == 0 {
                shaped.next += 1;
                let frame = bulk(shaped.next);
                shaped.inject(&frame);
            }
            if turn % 97 != 0 {
                shaped.turn();
                continue;
            }
            sent += 1;
            let frame = express(sent);
            shaped.inject(&frame);
            let waited = (1..=limit).find(|_| shaped.turn().contains(&frame));
            longest = longest.max(waited.unwrap_or_else(|| panic!("path {number}: more than {limit} turns")));
        }
        println!("path {number}: at most {longest} turns of 100 us in {sent} frames, {limit} are allowed");
        let uplink = shaped.uplinks()[usize::from(number)];
        assert_eq!(uplink.counters.out_pkts_express, u64::from(sent), "{uplink:?}");
        assert!(
            uplink.counters.out_pkts_bulk_full + uplink.counters.out_pkts_bulk_delayed > 0,
            "no full line"
        );
    }
}

#[test]
fn copies_wait_at_each_path_for_its_own_line() {
    let mut shaped = Shaped::new(Copies::Express);
    let mut came = 0;
    for turn in 0..20_000_u32 {
        if turn % 6 == 0 {
            shaped.next += 1;
            let frame = bulk(shaped.next);
            shaped.inject(&frame);
        }
        if turn % 100 == 0 {
            shaped.inject(&express(1 + turn / 100));
        }
        came += shaped.turn().iter().filter(|frame| frame[..6] == GOOSE).count();
    }
    (0..1000).for_each(|_| came += shaped.turn().iter().filter(|frame| frame[..6] == GOOSE).count());
    assert_eq!(came, 200, "each once");
    let [first, second] = shaped.uplinks().map(|uplink| uplink.counters);
    assert_eq!([first.out_pkts_express, second.out_pkts_express], [200, 200]);
    assert_eq!((second.out_pkts_bulk, first.out_pkts_bulk > 1000), (0, true), "{first:?}");
}

/// What the channel sends by an uplink is charged there and nowhere else; frames of split packets leave whole.
#[test]
fn the_channels_packets_are_charged_where_they_leave_and_split_frames_leave_whole() {
    let mut shaped = Shaped::new(Copies::None);
    // 50 ms of the second line, which would be 10 of the first.
    shaped.plants.plants[0].manager.channel.add(1, 12_500 - 66, false);
    shaped.plants.plants[0].manager.channel.add(200, 1000, false);
    shaped.turn();
    let channel = shaped.uplinks().map(|uplink| uplink.counters.out_octets_channel);
    assert_eq!(channel, [0, 12_500]);
    shaped.inject(&bulk(1));
    assert_eq!(shaped.turn(), [bulk(1)], "the first line is free");
    shaped.plants.tell(0, ToWorker::Prefer { peer: peer(0, 1), number: 1 });
    shaped.inject(&bulk(2));
    let waited = (1..600).find(|_| !shaped.turn().is_empty());
    assert!(waited.is_some_and(|turns| (400..520).contains(&turns)), "{waited:?} turns");
    // In two packets each, more than may wait.
    let split = |number| macsec(station(1), station(0), number, 1514);
    (100..160).for_each(|number| shaped.inject(&split(number)));
    let came: usize = (0..4000).map(|_| shaped.turn().len()).sum();
    let [_, second] = shaped.uplinks().map(|uplink| uplink.counters);
    assert!((5..30).contains(&came), "{came}: {second:?}");
    assert_eq!(second.out_pkts_bulk, 1 + 2 * came as u64, "{second:?}");
}
