//! The topology with plain bridges for gateways is a wire: what a machine sends, the other receives, octet for
//! octet, and the middle sees it. Needs root.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use lab::{Capture, Direction, InterfaceCounters, PacketSocket, Shape, Topology};

const LIMIT: Duration = Duration::from_secs(20);
const MARKER: &[u8] = b"frameward plaintext marker";

fn bridged(shape: &Shape) -> Topology {
    let topology = Topology::build(shape).unwrap();
    topology.bridge_gateways().unwrap();
    topology
}

fn frame(topology: &Topology, head: &[u8], length: usize) -> Vec<u8> {
    let mut octets = [&topology.machine_b.mac[..], &topology.machine_a.mac, head, MARKER].concat();
    octets.extend((octets.len()..length).map(|i| i as u8));
    octets
}

#[test]
fn frames_of_every_kind_pass_unchanged() {
    let topology = bridged(&Shape::default());
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let mut sent = Vec::new();
    for ethertype in [0x8892_u16, 0x88B8, 0x88A4, 0x88E5, 0x888E, 0x88CC, 0x9000] {
        sent.push(frame(&topology, &ethertype.to_be_bytes(), 60));
    }
    sent.push(frame(&topology, &[0x81, 0x00, 0xC0, 0x00, 0x88, 0x92], 64));
    sent.push(frame(&topology, &[0x81, 0x00, 0x60, 0x07, 0x08, 0x00], 1518));
    sent.push(frame(&topology, &[0x88, 0xA8, 0x00, 0x05, 0x81, 0x00, 0x00, 0x07, 0x88, 0x92], 1514));
    // To EAPOL's, LLDP's, STP's and LACP's groups, which bridges like to keep for themselves.
    for group in [0x03, 0x0E, 0x00, 0x02] {
        let mut octets = frame(&topology, &[0x88, 0x8E], 60);
        octets[..6].copy_from_slice(&[0x01, 0x80, 0xC2, 0, 0, group]);
        sent.push(octets);
    }
    // A header alone, and the full size.
    sent.push(frame(&topology, &[0x88, 0x92], 0)[..14].to_vec());
    sent.push(frame(&topology, &[0x88, 0x92], 1514));

    let middle = Capture::start(&topology.middle, "left").unwrap();
    let far = Capture::start(&b.namespace, b.ifname).unwrap();
    let socket = PacketSocket::open(&a.namespace, a.ifname).unwrap();
    for octets in &sent {
        socket.send(octets).unwrap();
    }
    far.wait_for(sent.len(), LIMIT, |_| true).unwrap();
    for (capture, place) in [(middle, "middle"), (far, "machine B")] {
        let captured = capture.stop().unwrap().complete().unwrap();
        let seen: Vec<_> = captured.going(Direction::In).map(|frame| frame.octets.clone()).collect();
        assert_eq!(seen.len(), sent.len(), "{place}");
        for (seen, sent) in seen.iter().zip(&sent) {
            assert_eq!(seen, sent, "{place}");
        }
        assert!(captured.find(MARKER).is_some(), "{place}");
        assert!(captured.find(b"frameward plaintext markes").is_none(), "{place}");
        assert!(!captured.all_ethertype(0x88E5), "{place}");
        assert_eq!(captured.of_ethertype(0x88A4).count(), 1, "{place}");
    }
}

#[test]
fn a_sent_frame_is_captured_as_outgoing_with_its_tag() {
    let topology = bridged(&Shape::default());
    let b = &topology.machine_b;
    let right = Capture::start(&topology.middle, "right").unwrap();
    let tagged = frame(&topology, &[0x88, 0xA8, 0x20, 0x05, 0x81, 0x00, 0x00, 0x07, 0x88, 0x92], 100);
    let socket = PacketSocket::open(&topology.machine_a.namespace, "a0").unwrap();
    let before = InterfaceCounters::read(&b.namespace, b.ifname).unwrap();
    socket.send(&tagged).unwrap();
    right.wait_for(1, LIMIT, |_| true).unwrap();
    let captured = right.stop().unwrap().complete().unwrap();
    assert_eq!(captured.frames.len(), 1);
    assert_eq!(captured.frames[0].direction, Direction::Out);
    assert_eq!(captured.frames[0].octets, tagged);
    let after = InterfaceCounters::read(&b.namespace, b.ifname).unwrap();
    assert_eq!(after.rx_frames - before.rx_frames, 1);
    assert_eq!(after.rx_octets - before.rx_octets, 100);
}

#[test]
fn a_frame_longer_than_the_wire_is_refused_or_lost() {
    let topology = bridged(&Shape { plain_mtu: 1600, protected_mtu: 1500, ..Shape::default() });
    let far = Capture::start(&topology.machine_b.namespace, "b0").unwrap();
    let socket = PacketSocket::open(&topology.machine_a.namespace, "a0").unwrap();
    assert!(socket.send(&frame(&topology, &[0x88, 0x92], 1615)).is_err(), "longer than the machine's MTU");
    socket.send(&frame(&topology, &[0x88, 0x92], 1519)).unwrap();
    socket.send(&frame(&topology, &[0x88, 0x92], 1514)).unwrap();
    far.wait_for(1, LIMIT, |_| true).unwrap();
    let captured = far.stop().unwrap().complete().unwrap();
    let lengths: Vec<_> = captured.frames.iter().map(|frame| frame.octets.len()).collect();
    assert_eq!(lengths, [1514], "a bridge drops what exceeds the MTU and one tag");
}

#[test]
fn a_capture_that_lost_frames_says_so() {
    let topology = bridged(&Shape::default());
    let mut reader = PacketSocket::open(&topology.machine_b.namespace, "b0").unwrap();
    let socket = PacketSocket::open(&topology.machine_a.namespace, "a0").unwrap();
    let octets = frame(&topology, &[0x88, 0x92], 1514);
    // Nobody reads, and no buffer is endless.
    let sent = 60_000;
    for _ in 0..sent {
        socket.send(&octets).unwrap();
    }
    let arrived = || InterfaceCounters::read(&topology.machine_b.namespace, "b0").unwrap().rx_frames;
    let mut before = 0;
    while before != arrived() {
        before = arrived();
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut read = 0;
    while reader.receive_waiting().unwrap().is_some() {
        read += 1;
    }
    let dropped = reader.dropped().unwrap();
    assert!(dropped > 0, "{read} of {sent} read, {dropped} dropped");
    assert_eq!(read + dropped, arrived());
    assert_eq!(reader.dropped().unwrap(), 0, "the count begins anew");
}

#[test]
fn two_topologies_stand_side_by_side_and_leave_nothing() {
    let one = bridged(&Shape::default());
    let two = bridged(&Shape { gateway_queues: 2, protected_mtu: 1500, ..Shape::default() });
    let names: Vec<String> = [&one, &two]
        .iter()
        .flat_map(|t| {
            [
                &t.machine_a.namespace,
                &t.gateway_a.namespace,
                &t.middle,
                &t.gateway_b.namespace,
                &t.machine_b.namespace,
            ]
        })
        .map(|namespace| namespace.name().to_owned())
        .collect();
    let captures = [&one, &two].map(|t| Capture::start(&t.machine_b.namespace, "b0").unwrap());
    let socket = PacketSocket::open(&one.machine_a.namespace, "a0").unwrap();
    socket.send(&frame(&one, &[0x88, 0x92], 60)).unwrap();
    captures[0].wait_for(1, LIMIT, |_| true).unwrap();
    let [here, there] = captures.map(|capture| capture.stop().unwrap().complete().unwrap());
    assert_eq!((here.frames.len(), there.frames.len()), (1, 0));
    let mtu = |t: &Topology| t.middle.ip(&["link", "show", "left"]).unwrap().stdout.contains("mtu 1532");
    assert!(mtu(&one) && !mtu(&two));
    let sleeper = one.middle.spawn(&["sleep", "60"]).unwrap();
    drop((one, two));
    for name in names {
        assert!(!std::path::Path::new("/run/netns").join(&name).exists(), "{name}");
    }
    assert!(!sleeper.wait(LIMIT).unwrap().status.success());
}
