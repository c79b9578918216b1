//! Protocols above Ethernet work as if there were no gateway: neighbours are found (ARP, ND), full-size TCP and UDP
//! pass both ways, cyclic data keeps its order; and the network sees nothing of it.

use std::time::Duration;

use lab::topology::LEFT;
use lab::traffic::{self, Ip, MARKER, Until};
use lab::{Capture, Shape};
use perf::demo::pair::Choice;
use suite::CipherSuite;
use wire::EtherType;

use super::lab;

fn machines_talk(io: &'static str, suite: CipherSuite) {
    let shape = Shape { ipv6: true, ..Shape::default() };
    let (topology, pair) = lab(&shape, &Choice { io, suite, ..Choice::default() });
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    for ip in [Ip::V4, Ip::V6] {
        // 1500 octets of IP in one frame, and forbidden to be fragmented.
        let headers = if ip == Ip::V4 { 28 } else { 48 };
        traffic::ping(a, b, ip, 5, 1500 - headers).unwrap();
        for (from, to) in [(a, b), (b, a)] {
            traffic::tcp(from, to, ip, Until::Octets(4_000_000)).unwrap();
            let trips = traffic::round_trips(from, to, ip, 1452, 50).unwrap();
            assert_eq!(trips.lost(), 0, "{trips:?}");
        }
    }
    let cyclic = traffic::cyclic(a, b, Duration::from_millis(1), 500, 40).unwrap();
    assert_eq!((cyclic.received, cyclic.out_of_order), (500, 0));

    let wire = wire.stop().unwrap().complete().unwrap();
    // 16 MB of TCP in frames of at most 1500 octets.
    assert!(wire.frames.len() > 16_000_000 / 1500, "only {} frames captured", wire.frames.len());
    assert!(wire.all_ethertype(EtherType::MACSEC.0));
    assert_eq!(wire.find(MARKER), None, "plaintext is on the network");
    pair.stop().unwrap();
}

#[test]
fn over_af_xdp_and_gcm_aes_128() {
    machines_talk("af_xdp", CipherSuite::GcmAes128);
}

#[test]
fn over_af_xdp_and_chacha20_poly1305() {
    machines_talk("af_xdp", CipherSuite::ChaCha20Poly1305);
}

#[test]
fn over_af_packet_and_gcm_aes_128() {
    machines_talk("af_packet", CipherSuite::GcmAes128);
}

#[test]
fn over_af_packet_and_chacha20_poly1305() {
    machines_talk("af_packet", CipherSuite::ChaCha20Poly1305);
}
