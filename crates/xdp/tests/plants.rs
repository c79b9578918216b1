//! Two sites in the kernel between two plants: real interfaces, a router between them, and a socket that checks what it is sent. Keys and
//! flows are told to the programs here. Root.
#![allow(clippy::unwrap_used)]

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use lab::plants::{BARE, LAN, Plant, WAN, to};
use lab::{Plants, PlantsShape, macsec};
use suite::tunnel::{EpochSecret, TokenKey};
use tunnel::{Limits, Location, PeerId};
use wire::MacAddr;
use wire::tunnel::{FlowIndex, ParsedFrame};
use xdp::site::{FlowPath, Room, Settings, Site, UdpPath};
use xdp::{Unclaimed, XdpError};

const PORT: u16 = 4790;
const LANE: u8 = 1;
const LAN_FRAME: usize = 1530;
const PAYLOAD: usize = 1472;
/// Port of the path to the other plant.
const WAN_PORT: u32 = 1;
const PAUSE: Duration = Duration::from_micros(200);

fn plants() -> Plants {
    let shape = PlantsShape {
        plants: 2,
        stations: 0,
        lan_mtu: 1500,
        wan_mtu: 1520,
        switches: false,
        lines: false,
        ipv6: true,
        ..PlantsShape::default()
    };
    let plants = Plants::build(&shape).unwrap();
    // A veth pair takes redirected frames if its other end polls.
    for plant in &plants.plants {
        plant.lan.run(&["ethtool", "-K", BARE, "gro", "on"]).unwrap();
        plants.internet.run(&["ethtool", "-K", &to(plant.number), "gro", "on"]).unwrap();
        // Its own end takes no frames of several buffers, which merging would make.
        plant.site.run(&["ethtool", "-K", WAN, "gro", "off"]).unwrap();
    }
    plants
}

fn station(plant: &Plant) -> MacAddr {
    MacAddr([2, 0, 0, 0, plant.number, 0x51])
}

fn ports(plants: &Plants) -> [macsec::Port<'_>; 2] {
    [0, 1].map(|index| {
        let plant = &plants.plants[index];
        macsec::Port { namespace: &plant.lan, ifname: BARE, mac: station(plant).0 }
    })
}

fn address(plant: &Plant, v6: bool) -> SocketAddr {
    if v6 { (plant.ipv6, PORT).into() } else { (plant.ipv4, PORT).into() }
}

fn index(namespace: &lab::Namespace, ifname: &str) -> u32 {
    let told = namespace.run(&["cat", &format!("/sys/class/net/{ifname}/ifindex")]).unwrap();
    told.stdout.trim().parse().unwrap()
}

fn secret(from: u8) -> EpochSecret {
    EpochSecret::new(&[from; 32])
}

/// The site of a plant, with one flow each way between the two stations.
fn site(here: &Plant, there: &Plant, [lan, wan]: [u32; 2], v6: bool) -> Result<Site, XdpError> {
    let room = Room { peers: 1, lanes: 2, watched: 0, paths: 2, flows: 16, stations: 2 };
    let settings = Settings {
        window: tunnel::Settings::WINDOW,
        lan_frame: LAN_FRAME,
        port: PORT,
        station_age: Limits::DEFAULT.station_age,
        quiet: Duration::ZERO,
        token_key: TokenKey::new(&[0; 16]),
    };
    let flow = |from: &Plant, to: &Plant| {
        let frame = macsec::Prepared::new(station(from).0, station(to).0, 60, 1).next_frame();
        ParsedFrame::parse(&frame).unwrap().flow
    };
    let mut site = Site::load(&room, &settings, Unclaimed::Drop)?;
    site.attach(0, lan)?;
    site.attach(WAN_PORT, wan)?;
    site.set_station(0, station(here), Some(Location::Here))?;
    site.set_station(1, station(there), Some(Location::Behind(PeerId(0))))?;
    site.open_transmit(0, &secret(here.number).lane_key(LANE))?;
    site.open_receive(0, 0, &secret(there.number).lane_key(LANE))?;
    while site.fill(0)?.missing > 0 {}
    let path = UdpPath {
        dscp: 0,
        vxlan: None,
        interface: MacAddr(here.wan_mac),
        next_hop: MacAddr([2, 0, 0, 0, here.number, 0xe1]),
        source: address(here, v6),
        destination: address(there, v6),
        payload: PAYLOAD,
        port: WAN_PORT,
    };
    site.set_path(0, &path)?;
    site.set_peer(0, 0, 0)?;
    site.add_flow(
        0,
        &flow(here, there),
        &FlowPath { peer: 0, index: FlowIndex(3), source: 0, destination: 1 },
    )?;
    site.announce(0, (0, FlowIndex(3)), &flow(there, here), 1)?;
    Ok(site)
}

fn start(plants: &Plants, number: usize, v6: bool) -> Site {
    let [here, there] = [number, 1 - number].map(|number| &plants.plants[number]);
    let indexes = [LAN, WAN].map(|ifname| index(&here.site, ifname));
    here.site.enter(|| site(here, there, indexes, v6)).unwrap().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn frames_pass_between_plants_and_nothing_passes_afterwards() {
    lab::require_root().unwrap();
    let plants = plants();
    for v6 in [false, true] {
        let mut sites = [0, 1].map(|number| start(&plants, number, v6));
        let mut frames = 0;
        for octets in [60, 61, 511, 1484] {
            let [from, to] = ports(&plants);
            let trips = macsec::round_trips(from, to, octets, 1 + frames, 100, PAUSE).unwrap();
            assert_eq!(trips.lost(), 0, "{octets} octets, {v6}");
            frames += 100;
        }
        for site in &mut sites {
            let counters = site.counters(0).unwrap().0;
            let told = [counters.out_pkts_tunnelled, counters.in_pkts_tunnelled];
            assert!(told.iter().all(|told| *told >= frames.into()), "{told:?}");
            assert_eq!(told[0] + 1, site.next_seq(0).unwrap());
        }
        drop(sites);
        let [from, to] = ports(&plants);
        let trips = macsec::round_trips(from, to, 60, 1, 3, PAUSE).unwrap();
        assert_eq!(trips.lost(), 3, "nothing passes without the programs");
    }
}

/// The host checks lengths and checksums of IP and UDP, and of an IPv6 packet without a right one it tells nobody.
#[test]
fn packets_are_what_a_hosts_socket_takes() {
    lab::require_root().unwrap();
    let plants = plants();
    let [here, there] = [&plants.plants[0], &plants.plants[1]];
    for v6 in [false, true] {
        let site = start(&plants, 0, v6);
        let socket = there.site.enter(|| UdpSocket::bind(address(there, v6))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut prepared = macsec::Prepared::new(station(here).0, station(there).0, 60, 1);
        for octets in [60, 61, 62, 63, 900, 1483] {
            let mut frame = prepared.next_frame();
            frame.resize(octets, 0xa5);
            let sent = frame.clone();
            lab::PacketSocket::open(&here.lan, BARE).unwrap().send(&sent).unwrap();
            let mut packet = [0; 2048];
            let (received, from) = socket
                .recv_from(&mut packet)
                .unwrap_or_else(|error| panic!("{octets} octets, {v6}: {error}"));
            assert_eq!(from, address(here, v6));
            assert_eq!(packet[16..received], frame[28..]);
        }
        drop(site);
    }
}
