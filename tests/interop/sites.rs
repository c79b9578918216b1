//! Two kernels with macsec, in two plants: stations that reach each other through sites and know of no tunnel.
//!
//! ```text
//!  plant 1                                                                                           plant 2
//!  [guest] macsec0 ─ vec0 ── switch ── [frameward run] ~~ line ~~ internet ~~ line ~~ [frameward run] ── switch ── [guest]
//!                              │         a site           captures                       a site            │
//!                            probe                                                                       probe
//! ```
//!
//! First with static keys, then with those on which the wpa_supplicant of each guest agrees with the other: its
//! EAPOL-MKA frames travel over the management channel. In `plain` mode a kernel's vxlan interface stands in the place
//! of the other site. Needs root.

pub(crate) mod carrier;
mod station;

use lab::plants::{BARE, PROBE};
use lab::topology::LEFT;
use lab::{Capture, Captured, Direction, PacketSocket, Plants, PlantsShape};
use testkit::frames;
use wire::{EtherType, MacAddr};

use self::carrier::{Carrier, counter};
use self::station::Station;

/// Echo requests of one size.
const PINGS: usize = 60;
/// An EtherType for experiments (IEEE 802), and what its frames contain.
const EXPERIMENT: EtherType = EtherType(0x88b5);
const MARKER: &[u8; 16] = b"frame-in-clear-\0";

/// Octets of a MACsec frame beside its IP packet: addresses 12, SecTAG 16, EtherType 2, ICV 16.
const BESIDE: usize = 46;

struct Laboratory {
    plants: Plants,
    stations: [Station; 2],
}

impl Laboratory {
    fn new(lan_mtu: u32) -> Laboratory {
        let shape = PlantsShape { stations: 0, lan_mtu, ..PlantsShape::default() };
        let plants = Plants::build(&shape).unwrap();
        let stations = [0, 1].map(|at| Station::boot(&plants.plants[at], lan_mtu as usize));
        Laboratory { plants, stations }
    }

    /// With a key each way that nobody agreed on. `most_unsplit`: octets of the longest IP packet whose frame goes in one
    /// packet; what is longer goes in two.
    fn static_keys(&mut self, carrier: &Carrier, most_unsplit: usize) {
        let [one, two] = &mut self.stations;
        one.install_keys(two);
        two.install_keys(one);
        one.reach(two);
        let split = splits(carrier);
        for octets in [28, 84, 576, most_unsplit] {
            one.ping(two, octets, PINGS);
        }
        assert_eq!(splits(carrier), split, "a frame was split that fits");
        let longer = [most_unsplit + 1, one.largest()].map(|octets| octets.min(one.largest()));
        let longer = longer.iter().filter(|&&octets| octets > most_unsplit);
        for &octets in longer.clone() {
            one.ping(two, octets, PINGS);
        }
        let parted = (longer.count() * PINGS) as u64;
        carrier.wait("what is longer goes in two packets", |site| {
            splits_of(site).iter().all(|&frames| frames >= split + parted)
        });
        two.ping(one, 84, PINGS);
        self.kernels_are_content(&["OK"]);
        for station in &mut self.stations {
            station.remove_keys();
        }
    }

    /// With keys that both agree on over the sites, another one when the first is used up, and again when one starts anew.
    fn agreement(&mut self) {
        let [one, two] = &mut self.stations;
        for station in [&mut *one, &mut *two] {
            station.start_agreement();
        }
        let first = one.wait_for_key(None);
        assert_eq!(two.wait_for_key(None), first);
        for station in [&mut *one, &mut *two] {
            station.take_up();
        }
        one.reach(two);
        one.ping(two, 84, PINGS);

        one.exhaust();
        let second = two.wait_for_key(Some(&first));
        assert_eq!(one.wait_for_key(Some(&first)), second);
        two.ping(one, 84, PINGS);
        // Frames that are not MACsec are those by which they agree.
        self.kernels_are_content(&["OK", "NoTag"]);
    }

    /// One of them loses all it knows.
    fn restart(&mut self) {
        let [one, two] = &mut self.stations;
        let before = two.key();
        one.stop_agreement();
        one.start_agreement();
        let key = one.wait_for_key(None);
        assert_eq!(two.wait_for_key(Some(&before)), key);
        one.take_up();
        // With header encryption the first PNs that come again are taken for copies, until they are too many.
        one.reach(two);
        two.reach(one);
        self.kernels_are_content(&["OK", "NoTag"]);
    }

    /// Both kernels have received frames, and counted them by these names only.
    fn kernels_are_content(&mut self, names: &[&str]) {
        for station in &mut self.stations {
            let received = station.received();
            assert!(received["OK"] as usize > PINGS, "{received:?}");
            let strange =
                received.iter().find(|(name, value)| **value > 0 && !names.contains(&name.as_str()));
            assert_eq!(strange, None, "{received:?}");
        }
    }

    /// Puts a frame in clear, to all, into each LAN.
    fn shout(&self) {
        for plant in &self.plants.plants {
            let probe = PacketSocket::open(&plant.lan, PROBE).unwrap();
            let frame = frames::ethernet(
                MacAddr([0xff; 6]),
                MacAddr([2, 0, 0, 0, plant.number, 0xf0]),
                EXPERIMENT,
                MARKER,
            );
            probe.send(&frame).unwrap();
        }
    }
}

/// Number of frames that went in two packets so far, as many each way.
fn splits(carrier: &Carrier) -> u64 {
    let [sent, received] = splits_of(&carrier.reports()[0]);
    assert_eq!(sent, received);
    sent
}

/// Frames that a site sent in two packets, and received in two.
fn splits_of(site: &report::site::SiteReport) -> [u64; 2] {
    ["OutPktsSplit", "InPktsJoined"].map(|name| counter(&site.peers[0].counters, name))
}

/// Captures at the LANs' ends of the sites, and on the line of plant 1.
struct Watch {
    lans: Vec<Capture>,
    line: Capture,
}

/// Frames that a [`Watch`] captured.
struct Seen {
    lans: Vec<Captured>,
    line: Captured,
}

impl Watch {
    fn start(plants: &Plants) -> Watch {
        let lans = plants.plants.iter().map(|plant| Capture::start(&plant.lan, BARE).unwrap()).collect();
        Watch { lans, line: Capture::start(plants.plants[0].line.as_ref().unwrap(), LEFT).unwrap() }
    }

    fn stop(self) -> Seen {
        let whole = |capture: Capture| capture.stop().unwrap().complete().unwrap();
        Seen { lans: self.lans.into_iter().map(whole).collect(), line: whole(self.line) }
    }
}

impl Seen {
    /// Frames from the carrier into a LAN were MACsec and EAPOL, some of each, though other frames were offered.
    fn nothing_else_crossed(&self) {
        for lan in &self.lans {
            let offered = lan.going(Direction::Out).find(|frame| frame.contains(MARKER));
            assert!(offered.is_some(), "the frame in clear was not offered");
            let mut counts = [0; 2];
            for frame in lan.going(Direction::In) {
                match frame.ethertype().map(EtherType) {
                    Some(EtherType::MACSEC) => counts[0] += 1,
                    Some(EtherType::EAPOL) => counts[1] += 1,
                    _ => panic!("this crossed: {:02x?}", frame.octets),
                }
            }
            assert!(counts.iter().all(|&count| count > 0), "MACsec and EAPOL: {counts:?}");
        }
    }

    /// Whether an address of a station, with which its SCI begins, is on the line. It is in the LANs.
    fn shows(&self, station: &Station) -> bool {
        let address = station.address();
        assert!(self.lans.iter().all(|lan| lan.find(&address).is_some()), "the search finds nothing");
        self.line.find(&address).is_some()
    }
}

/// `hidden`: octets of a frame that do not travel as such; `header`: those that travel instead; `restarts`: what a
/// station that begins again with its PNs may cost.
fn protected(mode: &'static str, hidden: usize, header: usize, restarts: &[&'static str]) {
    let mut laboratory = Laboratory::new(1500);
    let carrier = Carrier::sites(&laboratory.plants, mode);
    let watch = Watch::start(&laboratory.plants);
    laboratory.shout();
    laboratory.static_keys(&carrier, 1472 - BESIDE + hidden - header);
    carrier.has_discarded_only(&["OutPktsNotMacsec"]);
    laboratory.agreement();
    laboratory.restart();
    carrier.has_discarded_only(&[&["OutPktsNotMacsec"], restarts].concat());
    let seen = watch.stop();
    seen.nothing_else_crossed();
    for station in &laboratory.stations {
        assert!(!seen.shows(station), "a station's address is on the internet");
    }
    carrier.stop();
}

#[test]
fn stations_meet_in_identifier_mode() {
    protected("identifier", 28, 16, &[]);
}

#[test]
fn stations_meet_in_header_encryption_mode() {
    protected("header-encryption", 32, 32, &["OutPktsRepeated", "OutPktsEpochAwaited"]);
}

/// A kernel's vxlan interface is the peer. Nothing is split, and nothing is hidden.
#[test]
fn stations_meet_between_a_plain_site_and_a_kernel() {
    // 1500 less IPv4, UDP, VXLAN and the inner Ethernet header.
    let mut laboratory = Laboratory::new(1450);
    let carrier = Carrier::plain(&laboratory.plants);
    let watch = Watch::start(&laboratory.plants);
    laboratory.shout();
    let largest = laboratory.stations[0].largest();
    laboratory.static_keys(&carrier, largest);
    laboratory.agreement();
    let seen = watch.stop();
    seen.nothing_else_crossed();
    for station in &laboratory.stations {
        assert!(seen.shows(station), "VXLAN hides nothing");
    }
    carrier.stop();
}
