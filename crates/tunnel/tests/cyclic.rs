//! Protected cyclic frames of cells, from LAN to LAN: two sites with their sessions, on a virtual clock.

mod plants;

use std::collections::BTreeSet;

use plants::{PEER, Plants, tagged};
use tunnel::{Command, Discard, Event, FrameKinds, Generation, InDiscard, Mode, RequestId};
use wire::EtherType;
use wire::tunnel::{FlowIndex, ParsedFrame};

const PRIORITY: &[[u8; 4]] = &[[0x81, 0x00, 0xc0, 0x00]];

/// A frame of a relation, as a gateway protects it; Seq 0 is a HELLO.
fn cyclic(ether_type: u16, frame_id: u16, key_id: u8, seq: u32, octets: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 1];
    frame.extend(ether_type.to_be_bytes());
    frame.extend(frame_id.to_be_bytes());
    frame.push(key_id);
    frame.extend(seq.to_be_bytes());
    let mut state = u64::from(seq) << 24 | u64::from(frame_id) << 8 | u64::from(key_id) | 1 << 63;
    frame.extend((frame.len()..octets).map(|_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    }));
    frame
}

#[test]
fn cyclic_frames_cross_and_their_headers_do_not_show() {
    let mut plants = Plants::new(Mode::Identifier);
    let mut sent = BTreeSet::new();
    for seq in 0..200 {
        for (frame_id, tags) in [(0x8000, PRIORITY), (0x8001, PRIORITY), (0x8000, &[])] {
            // KeyID and Seq begin anew.
            let (key_id, seq) = if seq < 100 { (0xfe, seq) } else { (0xff, seq - 100) };
            let octets = if seq == 0 { 12 + 2 + 72 } else { 61 + seq as usize % 3 };
            sent.insert(tagged(&cyclic(0x88b5, frame_id, key_id, seq, octets), tags));
        }
    }
    for frame in &sent {
        plants.send(0, frame);
        plants.pass(1);
    }
    plants.pass(50);
    assert!(BTreeSet::from_iter(plants.take(1)) == sent);
    assert_eq!(plants.discards, []);
    assert_eq!(plants.forwarding(0).flows(PEER).count(), 3, "one for each FrameID and tag");
    let (_, last) = plants.recorded.last().expect("sent");
    // 16 octets in the place of addresses, EtherType and what is in front of the data: 21, and a VLAN tag.
    let longest = sent.iter().map(Vec::len).max().expect("some");
    assert!(last.len() < longest - 4, "{}", last.len());
    let frame = sent.last().expect("sent");
    let headers = if frame[12..14] == [0x81, 0] { 25 } else { 21 };
    assert_eq!(last.len(), 16 + frame.len() - headers, "as fieldbus::budget has it");
    let shown = plants
        .recorded
        .iter()
        .filter(|(_, packet)| packet.windows(3).any(|octets| octets == [0x88, 0xb5, 0x80]));
    assert!(shown.count() < 3);
}

#[test]
fn cyclic_frames_go_only_where_both_ends_carry_them() {
    for (mode, taking) in [
        (Mode::Identifier, [FrameKinds::ALL, FrameKinds::ALWAYS]),
        (Mode::Identifier, [FrameKinds::ALL, FrameKinds::default()]),
        (Mode::HeaderEncryption, [FrameKinds::ALL, FrameKinds::ALL]),
    ] {
        let mut plants = Plants::taking(mode, 1, taking[1]);
        plants.send(0, &cyclic(0x88b5, 0x8000, 1, 7, 80));
        plants.send(0, &cyclic(0x88b6, 0x8000, 1, 7, 80));
        plants.pass(150);
        assert_eq!(plants.take(1), Vec::<Vec<u8>>::new(), "{mode:?}");
        assert_eq!(plants.counters(0).out_pkts_cyclic, 1, "{mode:?}");
        let site = *plants.forwarding(0).counters();
        assert_eq!(site.out_pkts_not_macsec, 1, "{mode:?}: another EtherType");
        // The end that is not told to carries none.
        plants.send(1, &cyclic(0x88b5, 0x8001, 1, 7, 80));
        let carried = u64::from(taking[1].has(FrameKinds::CYCLIC));
        assert_eq!(plants.forwarding(1).counters().out_pkts_not_macsec, 1 - carried, "{mode:?}");
    }
}

/// A peer that is not to be trusted with anything but protected frames: neither its announcements nor its long forms bring others in.
#[test]
fn a_peer_brings_in_no_other_ether_type() {
    let frame = cyclic(0x0800, 0x4500, 0, 9, 80);
    let flow = ParsedFrame::parse_cyclic(&frame, EtherType(0x0800)).expect("parsed").flow;
    let mut plants = Plants::new(Mode::Identifier);
    let (now, generation) = (plants.now, Generation(1));
    let to = plants.forwarding(1);
    let (index, request) = (FlowIndex(9), RequestId::default());
    to.handle_command(now, Command::AddFlow { peer: PEER, generation, index, flow, request });
    let events: Vec<_> = std::iter::from_fn(|| to.poll_event()).collect();
    assert!(matches!(events[..], [Event::FlowRefused { index: FlowIndex(9), .. }]), "{events:?}");
    assert_eq!(to.announced_flows(PEER), 0);
    // A site that was told to carry IPv4 as if it were a cell's.
    plants.forwarding(0).carry_cyclic(EtherType(0x0800));
    plants.send(0, &frame);
    plants.pass(50);
    assert_eq!(plants.take(1), Vec::<Vec<u8>>::new());
    assert!(plants.discards.contains(&Discard::Of(PEER, InDiscard::BadHeader)), "{:?}", plants.discards);
}
