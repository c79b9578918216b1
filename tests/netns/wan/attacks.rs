//! Attacks from the internet: each is discarded under a name of its own, reaches no LAN unless a station can refuse it,
//! and changes no state.

use std::time::Instant;

use lab::plants::PROBE;
use lab::topology::LEFT;
use lab::{Capture, PacketSocket};
use testkit::frames::payload;

use super::{DEADLINE, PROTECTED, UDP_PAYLOAD, Wan};

/// Where IPv4 and UDP keep what has to be right again when a payload was changed.
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

/// Somebody who can hold packets back and change them: what is masked, and bodies.
#[test]
fn changed_headers_and_swapped_bodies_cost_the_packet_itself_and_nothing_else() {
    let mut wan = Wan::new(PROTECTED[0]);
    // The line is cut, and the attacker carries what it likes.
    let line = lab::topology::RIGHT;
    let frames = wan.frames(200, 32);
    let mut right = PacketSocket::open(wan.line(1), line).unwrap();
    let left = PacketSocket::open(wan.line(1), LEFT).unwrap();
    let sender = PacketSocket::open(wan.probe(0).namespace, PROBE).unwrap();
    let mut lan = PacketSocket::open(wan.probe(1).namespace, PROBE).unwrap();
    wan.line(1).ip(&["link", "set", "wire", "down"]).unwrap();
    for frame in &frames {
        sender.send(frame).unwrap();
    }
    let (mut held, end) = (Vec::new(), Instant::now() + DEADLINE);
    while held.len() < frames.len() {
        assert!(Instant::now() < end, "{} packets", held.len());
        let frame = right.receive().unwrap();
        held.extend(frame.filter(|frame| wan.is_data(&frame.octets)).map(|frame| frame.octets));
    }
    let body = UDP_PAYLOAD + 16;
    for (number, pair) in held.chunks(2).enumerate() {
        let [one, other] = pair else { unreachable!("an even number") };
        // The header of one in front of the body of the other: rebuilt, and refused by the station.
        let swapped = [&one[UDP_PAYLOAD..body], &other[body..]].concat();
        left.send(&with_payload(one, &swapped)).unwrap();
        let expected = [&frames[2 * number][..28], &frames[2 * number + 1][28..]].concat();
        // Frames with a changed PN or octet 3 come out as well, and die at the station as this one does.
        let heard = std::iter::from_fn(|| super::next(&mut lan)).any(|frame| frame == expected);
        assert!(heard, "delivered, for the station to judge");
        // A masked octet: flow, PN, part or octet 3.
        let mut flipped = other[UDP_PAYLOAD..].to_vec();
        flipped[8 + number % 8] ^= 0x80;
        left.send(&with_payload(other, &flipped)).unwrap();
        // And what the attacker held back comes too late: its identifiers are used up.
        left.send(one).unwrap();
        left.send(other).unwrap();
    }
    wan.wait_for_count(1, "InPktsUnknownIdentifier", 32);
    assert_eq!(wan.peer(1).peer_flows, 1, "no flow came of it");
    wan.line(1).ip(&["link", "set", "wire", "up"]).unwrap();
    drop((right, left, lan));
    wan.cross(200, 64);
    wan.stop();
}
