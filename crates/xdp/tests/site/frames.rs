//! Frames and packets, one at a time: which the programs take, and what becomes of each.

use tunnel::{Command, InDiscard, PeerCounters, PeerId};
use wire::tunnel::{FlowIndex, Header, PacketForm, ParsedFrame};
use xdp::Verdict;

use crate::packets::{datagram, frame, packet, receive_lane, secret};
use crate::world::{GENERATION, LAN_FRAME, LANE, LONGEST_BODY, Outcome, World};

#[test]
fn frames_of_every_length_leave_and_arrive_as_in_user_space() {
    for v6 in [false, true] {
        let mut world = World::new(v6);
        world.announce(0, 7, 5, 1, true);
        world.announce(0, 8, 6, 1, false);
        world.hear(0, 1, 5, 1);
        world.hear(0, 2, 6, 1);
        for sci in [true, false] {
            world.send_known(0, 1, 5, sci);
        }
        let mut seq = 0;
        for body in 0..=LONGEST_BODY {
            for (sci, index) in [(true, 7), (false, 8)] {
                let out = world.send(&frame(1, 5, sci, body as u32 + 1, body));
                assert!(matches!(out, Outcome::Sent(_)), "{body}");
                seq += 1;
                let back = world.of_peer((0, 1, seq), index, 0xfe00_0000 | body as u32, sci, body);
                assert!(matches!(world.receive(true, &back), Outcome::Sent(_)), "{body}");
            }
        }
    }
}

/// Over IPv6 a checksum of zero is sent as ones: zero says that there is none, and no host takes that.
#[test]
fn no_packet_goes_without_a_checksum_over_ipv6() {
    let mut world = World::new(true);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let mut whole = frame(1, 5, true, 1, 40);
    let last = whole.len() - 2;
    whole[last..].fill(0);
    let fields = ParsedFrame::parse(&whole).unwrap().fields;
    let header = Header { flow: world.flows[0].1.index, form: PacketForm::Whole, fields };
    let like_this = datagram(true, true, &packet(&secret(0, 1, false), LANE, 1, header, &whole[28..]));
    // The word that fills the sum up to all ones.
    whole[last..].copy_from_slice(&like_this[60..62]);
    match world.send(&whole) {
        Outcome::Sent(packet) => assert_eq!(packet[60..62], [0xff; 2]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_frame_that_does_not_fit_the_path_takes_its_flow_with_it() {
    let mut world = World::new(false);
    world.hear(0, 1, 5, 1);
    for source in [1, 2] {
        world.send_known(0, source, 5, true);
    }
    assert!(matches!(world.send(&frame(1, 5, true, 1, LONGEST_BODY)), Outcome::Sent(_)));
    assert_eq!(world.send(&frame(1, 5, true, 2, LONGEST_BODY + 1)), Outcome::ForUserSpace);
    assert_eq!(
        world.send(&frame(1, 5, true, 3, 40)),
        Outcome::ForUserSpace,
        "not before the one in front of it"
    );
    assert!(matches!(world.send(&frame(2, 5, true, 1, 40)), Outcome::Sent(_)), "other flows go on");
    let (flow, path, _) = world.flows[0];
    let now = world.kernel.now().unwrap();
    let used = [0, 1].map(|number| world.kernel.flow_use(number, now).unwrap());
    assert!(used[0].in_user_space && !used[1].in_user_space && used[1].idle.is_some());
    world.kernel.add_flow(0, &flow, &path).unwrap();
    world.flows[0].2 = false;
    assert!(matches!(world.send(&frame(1, 5, true, 4, 40)), Outcome::Sent(_)));
    world.kernel.remove_flow(&flow).unwrap();
    world.flows.remove(0);
    assert_eq!(world.send(&frame(1, 5, true, 5, 40)), Outcome::ForUserSpace);
}

#[test]
fn what_is_not_a_known_flows_is_left_to_user_space() {
    let mut world = World::new(false);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let whole = frame(1, 5, true, 1, 40);
    for cut in 14..28 {
        assert_eq!(world.send(&whole[..cut]), Outcome::ForUserSpace, "{cut}");
    }
    // DA, SA, EtherType, V, ES, SC, SCB, SCI: each bit is another flow, or none.
    for octet in (0..15).chain(20..28) {
        let bits = if octet == 14 { 4..8 } else { 0..8 };
        for bit in bits {
            let mut other = whole.clone();
            other[octet] ^= 1 << bit;
            assert_eq!(world.send(&other), Outcome::ForUserSpace, "octet {octet}, bit {bit}");
        }
    }
    let tagged = [&whole[..12], &[0x81, 0, 0, 5], &whole[12..]].concat();
    assert_eq!(world.send(&tagged), Outcome::ForUserSpace);
    assert!(matches!(world.send(&whole), Outcome::Sent(_)));
    // E, C, AN, octet 3 and PN are the packet's own.
    for octet in 14..20 {
        for bit in if octet == 14 { 0..4 } else { 0..8 } {
            let mut other = whole.clone();
            other[octet] ^= 1 << bit;
            assert!(matches!(world.send(&other), Outcome::Sent(_)), "octet {octet}, bit {bit}");
        }
    }
}

#[test]
fn what_is_no_packet_of_the_kernels_lanes_is_the_hosts() {
    for v6 in [false, true] {
        let mut world = World::new(v6);
        world.announce(0, 7, 5, 1, true);
        let whole = world.of_peer((0, 1, 1), 7, 1, true, 40);
        for cut in 14..whole.len() {
            assert_eq!(world.receive(true, &whole[..cut]), Outcome::ForUserSpace, "{cut}");
        }
        // Another destination port, QUIC, and fragments of IP.
        let ports = if v6 { 14 + 42 } else { 14 + 22 };
        for (octet, bit) in [(ports, 0x10), (ports + 1, 1), (ports + 6, 0x40), (12, 8), (13, 1)] {
            let mut other = whole.clone();
            other[octet] ^= bit;
            assert_eq!(world.receive(true, &other), Outcome::ForUserSpace, "octet {octet}");
        }
        if !v6 {
            for (octet, bit) in [(14, 1), (20, 0x20), (20, 1), (21, 1), (23, 1)] {
                let mut other = whole.clone();
                other[octet] ^= bit;
                assert_eq!(world.receive(true, &other), Outcome::ForUserSpace, "octet {octet}");
            }
        }
        for secret in [secret(0, 1, false), secret(1, 1, true)] {
            // Reflected, and of another peer, whose window does not reach so far.
            let header = world.header(7, PacketForm::Whole, 1, true);
            let other = datagram(v6, false, &packet(&secret, LANE, 4095, header, &[0; 40]));
            assert_eq!(world.receive(true, &other), Outcome::ForUserSpace);
        }
        // Padding of Ethernet is no part of the frame.
        let padded = [&whole[..], &[0x5a; 30]].concat();
        assert!(matches!(world.receive(true, &padded), Outcome::Sent(_)));
        assert_eq!(world.receive(true, &whole), Outcome::ForUserSpace, "once and not again");
    }
}

#[test]
fn a_changed_header_uses_its_identifier_up_and_is_dropped() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    world.receive(true, &world.of_peer((0, 1, 1), 7, 1, true, 40));
    let mut dropped = 0;
    for bit in 0..16 * 8 {
        let seq = 2 + bit as u64;
        let mut spoilt = world.of_peer((0, 1, seq), 7, 1, true, 40);
        spoilt[42 + bit / 8] ^= 1 << (bit % 8);
        let outcome = world.receive(true, &spoilt);
        assert!(!matches!(outcome, Outcome::Sent(_)), "bit {bit}");
        dropped += u32::from(outcome == Outcome::Discarded(Some(InDiscard::ForgedHeader)));
    }
    assert_eq!(dropped, 80, "all of check and header");
}

#[test]
fn each_reason_has_its_counter() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    world.announce(0, 8, 1, 5, true);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let discarded = |reason| Outcome::Discarded(Some(reason));
    let unknown = world.of_peer((0, 1, 1), 0x1234, 1, true, 40);
    assert_eq!(world.receive(true, &unknown), discarded(InDiscard::UnknownFlow));
    let lane = receive_lane(0, 1);
    assert_eq!(world.kernel.look(lane).unwrap().unknown, Some(FlowIndex(0x1234)));
    assert_eq!(world.kernel.look(lane).unwrap().unknown, None, "told once");
    let long = world.of_peer((0, 1, 2), 7, 1, true, LAN_FRAME - 28);
    assert!(matches!(world.receive(true, &long), Outcome::Sent(_)));
    let longer = world.of_peer((0, 1, 3), 7, 1, true, LAN_FRAME - 27);
    assert_eq!(world.receive(true, &longer), discarded(InDiscard::TooLong));
    // Station 1 has just sent here.
    let ours = world.of_peer((0, 1, 4), 8, 1, true, 40);
    assert_eq!(world.receive(true, &ours), discarded(InDiscard::SourceHere));
    world.kernel.withdraw(0, FlowIndex(7)).unwrap();
    world.rust.handle_command(
        world.now(),
        Command::WithdrawFlow { peer: PeerId(0), generation: GENERATION, index: FlowIndex(7) },
    );
    let gone = world.of_peer((0, 1, 5), 7, 1, true, 40);
    assert_eq!(world.receive(true, &gone), discarded(InDiscard::UnknownFlow));
    // A peer that sends anything but whole frames in short form on these lanes.
    let header = world.header(8, PacketForm::Second, 1, true);
    let part = datagram(false, false, &packet(&secret(0, 1, true), LANE, 6, header, &[0; 40]));
    assert_eq!(world.kernel.run_inward(&part, 1).unwrap().verdict, Verdict::Drop);
    assert_eq!(world.kernel.counters(0).unwrap().0.in_pkts_bad_header, 1);
    world.kernel.clear_counters(0).unwrap();
    assert_eq!(world.kernel.counters(0).unwrap(), (PeerCounters::default(), 0));
}
