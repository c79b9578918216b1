//! Attacks from the internet: each is discarded under a name of its own, reaches no LAN unless a station can refuse it,
//! and changes no state.

use std::time::{Duration, Instant};

use lab::macsec::Prepared;
use lab::plants::PROBE;
use lab::topology::{LEFT, RIGHT};
use lab::{Capture, PacketSocket};
use testkit::frames::payload;
use wire::tunnel::{LONG_HEADER_OCTETS, SHORT_HEADER_OCTETS};

use super::{DEADLINE, PROTECTED, UDP_PAYLOAD, Wan};

/// Octets of the UDP checksum, which has to be right again when a payload was changed.
const UDP_CHECKSUM: std::ops::Range<usize> = 40..42;

/// A packet with a payload of the attacker's.
fn with_payload(packet: &[u8], payload: &[u8]) -> Vec<u8> {
    assert_eq!(packet.len(), UDP_PAYLOAD + payload.len());
    let mut forged = [&packet[..UDP_PAYLOAD], payload].concat();
    // No checksum, which IPv4 allows: the sums of what was changed are nobody's proof.
    forged[UDP_CHECKSUM].fill(0);
    forged
}

#[test]
fn replayed_random_and_damaged_packets_reach_no_lan_and_change_nothing() {
    for mode in PROTECTED {
        let mut wan = Wan::new(mode);
        let genuine = wan.captured(|wan| wan.cross(200, 64));
        assert_eq!(genuine.len(), 64, "{mode:?}");
        let (unknown, replayed) = match mode.0 {
            "identifier" => ("InPktsUnknownIdentifier", "InPktsUnknownIdentifier"),
            _ => ("InPktsNotValid", "InPktsReplayed"),
        };
        let lan = Capture::start(wan.probe(1).namespace, PROBE).unwrap();
        let attacker = PacketSocket::open(wan.line(1), LEFT).unwrap();
        let before = [unknown, replayed].map(|name| wan.count(1, name));

        for packet in &genuine {
            attacker.send(packet).unwrap();
        }
        wan.wait_for_count(1, replayed, before[1] + 64);
        let middle = wan.count(1, unknown);
        for (seed, packet) in (0..).zip(&genuine) {
            let mut noise = payload(packet.len() - UDP_PAYLOAD, seed);
            noise[0] &= !super::QUIC_BIT;
            attacker.send(&with_payload(packet, &noise)).unwrap();
            // One bit of the identifier, or of what the first block of the header is made of.
            let mut flipped = packet[UDP_PAYLOAD..].to_vec();
            flipped[1 + seed as usize % 7] ^= 1 << (seed % 8);
            attacker.send(&with_payload(packet, &flipped)).unwrap();
        }
        wan.wait_for_count(1, unknown, middle + 128);
        let arrived = lan.stop().unwrap().complete().unwrap();
        let heard = arrived.of_ethertype(0x88e5).count();
        assert_eq!(heard, 0, "{mode:?}: an attacker's packet reached the LAN");
        assert_eq!(wan.peer(1).peer_flows, 1, "no flow came of it");
        wan.cross(200, 64);
        wan.stop();
    }
}

/// Data packets that come to the end of a line which is cut.
fn hold(wan: &Wan, right: &mut PacketSocket, count: usize) -> Vec<Vec<u8>> {
    let (mut held, end) = (Vec::new(), Instant::now() + DEADLINE);
    while held.len() < count {
        assert!(Instant::now() < end, "{} packets", held.len());
        let frame = right.receive().unwrap();
        held.extend(frame.filter(|frame| wan.is_data(&frame.octets)).map(|frame| frame.octets));
    }
    held
}

/// Somebody who can hold packets back and change them: what is masked, and bodies.
#[test]
fn changed_headers_and_swapped_bodies_cost_the_packet_itself_and_nothing_else() {
    let mut wan = Wan::new(PROTECTED[0]);
    // The line is cut, and the attacker carries what it likes.
    let frames = wan.frames(200, 32);
    let mut right = PacketSocket::open(wan.line(1), RIGHT).unwrap();
    let left = PacketSocket::open(wan.line(1), LEFT).unwrap();
    let sender = PacketSocket::open(wan.probe(0).namespace, PROBE).unwrap();
    let mut lan = PacketSocket::open(wan.probe(1).namespace, PROBE).unwrap();
    wan.line(1).ip(&["link", "set", "wire", "down"]).unwrap();
    for frame in &frames {
        sender.send(frame).unwrap();
    }
    let held = hold(&wan, &mut right, frames.len());
    let body = UDP_PAYLOAD + 16;
    for (number, pair) in held.chunks(2).enumerate() {
        let [one, other] = pair else { unreachable!("an even number") };
        // The header of one in front of the body of the other: rebuilt, and refused by the station.
        let swapped = [&one[UDP_PAYLOAD..body], &other[body..]].concat();
        left.send(&with_payload(one, &swapped)).unwrap();
        let expected = [&frames[2 * number][..28], &frames[2 * number + 1][28..]].concat();
        let heard = std::iter::from_fn(|| super::next(&mut lan)).any(|frame| frame == expected);
        assert!(heard, "delivered, for the station to judge");
        // A masked octet, flow, PN, part or octet 3: the check does not fit, but for one in 65,536.
        let mut flipped = other[UDP_PAYLOAD..].to_vec();
        flipped[8 + number % 8] ^= 0x80;
        left.send(&with_payload(other, &flipped)).unwrap();
        // And what the attacker held back comes too late: its identifiers are used up.
        left.send(one).unwrap();
        left.send(other).unwrap();
    }
    wan.wait_for_count(1, "InPktsUnknownIdentifier", 32);
    wan.wait_for_count(1, "InPktsForgedHeader", 15);
    let end = Instant::now() + DEADLINE;
    while wan.report(1).sites.remove(0).verdict.state != "forged headers" {
        assert!(Instant::now() < end, "not told: {:?}", wan.report(1).sites.remove(0).verdict);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(wan.peer(1).peer_flows, 1, "no flow came of it");
    wan.line(1).ip(&["link", "set", "wire", "up"]).unwrap();
    drop((right, left, lan));
    wan.cross(200, 64);
    let log = wan.stop_and_say(1);
    let told = log.lines().filter(|line| line.contains("forged-header: "));
    assert!((1..=2).contains(&told.count()), "{log}");
}

/// Somebody who lets nothing of the management channel through, so that new flows stay in long form, and changes what
/// stands there: among it the source address, into that of a station at the other site.
#[test]
fn changed_long_forms_teach_no_station_and_reach_no_lan() {
    let mut wan = Wan::new(PROTECTED[0]);
    let mut right = PacketSocket::open(wan.line(1), RIGHT).unwrap();
    let left = PacketSocket::open(wan.line(1), LEFT).unwrap();
    let sender = PacketSocket::open(wan.probe(0).namespace, PROBE).unwrap();
    let mut lan = PacketSocket::open(wan.probe(1).namespace, PROBE).unwrap();
    wan.line(1).ip(&["link", "set", "wire", "down"]).unwrap();
    let (newcomer, local) = ([2, 0, 0, 0, 1, 0x77], wan.probe(1).mac);
    let mut prepared = Prepared::new(newcomer, local, 200, 1);
    let frames: Vec<_> = (0..40).map(|_| prepared.next_frame()).collect();
    frames.iter().for_each(|frame| sender.send(frame).unwrap());
    let held = hold(&wan, &mut right, frames.len());
    // The station at the other site has been silent for as long as makes it uncertain that it is still there.
    std::thread::sleep(Duration::from_millis(1100));
    let (changed, untouched) = held.split_at(32);
    let header = SHORT_HEADER_OCTETS..LONG_HEADER_OCTETS;
    for (number, packet) in changed.iter().enumerate() {
        let mut forged = packet[UDP_PAYLOAD..].to_vec();
        assert_eq!(forged.len(), 200 - 28 + header.end, "in long form");
        if number == 0 {
            for (octet, (new, old)) in forged[header.start + 10..].iter_mut().zip(local.iter().zip(newcomer))
            {
                *octet ^= new ^ old;
            }
        } else {
            forged[header.start + number] ^= 1 << (number % 8);
        }
        left.send(&with_payload(packet, &forged)).unwrap();
    }
    wan.wait_for_count(1, "InPktsForgedLongForm", 32);
    wan.frames_into(1, 200, 1);
    wan.wait_for_count(1, "OutPktsUnicast", 1);
    assert_eq!(wan.count(1, "OutPktsLoop"), 0, "the station's own frames were refused");
    let stations = wan.report(1).sites.remove(0).stations;
    let behind = stations.iter().filter(|station| station.peer.is_some());
    assert_eq!(behind.count(), 1, "{stations:?}: learned of a forged packet");
    let end = Instant::now() + DEADLINE;
    while wan.report(1).sites.remove(0).verdict.state != "forged headers" {
        assert!(Instant::now() < end, "not told: {:?}", wan.report(1).sites.remove(0).verdict);
        std::thread::sleep(Duration::from_millis(100));
    }
    for (packet, frame) in untouched.iter().zip(&frames[32..]) {
        left.send(packet).unwrap();
        let heard = std::iter::from_fn(|| super::next(&mut lan)).next();
        assert_eq!(heard.as_ref(), Some(frame), "nothing that was forged came before it");
    }
    wan.line(1).ip(&["link", "set", "wire", "up"]).unwrap();
    drop((right, left, lan));
    let log = wan.stop_and_say(1);
    let told = log.lines().filter(|line| line.contains("forged-long-form: "));
    assert!((1..=2).contains(&told.count()), "{log}");
}
