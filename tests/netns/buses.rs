//! A cell with frames of other fieldbuses than PROFINET, end to end: a GOOSE publication to a group, POWERLINK with its answer to a
//! group, EtherNet/IP over UDP. Nothing of them is readable on the network, and each comes out octet by octet, with its own tag.

use std::fmt::Write as _;
use std::time::Duration;

use lab::topology::LEFT;
use lab::{Capture, Frame, Namespace, PacketSocket, Shape, Topology};
use perf::demo::cells::{self, CellChoice, only_cell, secured};
use perf::demo::pair::Pair;
use wire::fieldbus::ETHERTYPE;
use wire::{EtherType, MacAddr};

use super::fieldbus::{for_the_kernel, kernel_choice};
use super::{DEADLINE, MARKER, program};

/// The device behind gateway B.
const DEVICE: [u8; 6] = [2, 0, 0, 0, 1, 1];
const GOOSE_GROUP: [u8; 6] = [1, 0x0c, 0xcd, 1, 0, 1];
const POWERLINK_GROUP: [u8; 6] = [1, 0x11, 0x1e, 0, 0, 2];
const GOOSE_TAG: [u8; 4] = [0x81, 0, 0x80, 10];
/// Frames of each stream.
const FRAMES: u8 = 20;

/// The relations, between machine A's station and the device.
fn relations(a: [u8; 6]) -> String {
    let stations = format!("stations = [\"{}\", \"{}\"]", MacAddr(a), MacAddr(DEVICE));
    let mut text = String::new();
    for relation in [
        "protocol = \"goose\"\nframe_ids = [0x0003]\ndestinations = [\"01:0c:cd:01:00:01\"]\nvlan = { priority = 4, vid = 10 }",
        "protocol = \"powerlink\"\nframe_ids = [0x0301, 0x04ff]\ndestinations = [\"02:00:00:00:01:01\", \"01:11:1e:00:00:02\"]",
        "protocol = \"ethernet-ip\"",
    ] {
        let _ = write!(text, "[[fieldbus.relation]]\n{stations}\n{relation}\ncycle = \"4ms\"\n");
    }
    text
}

/// A frame with the marker, a number and an end that is not zeros.
fn frame(to: [u8; 6], from: [u8; 6], tag: &[u8], ethertype: EtherType, begins: &[u8], number: u8) -> Vec<u8> {
    let end = [&[number; 20][..], MARKER, &[0xa5; 12]].concat();
    [&to[..], &from, tag, &ethertype.0.to_be_bytes(), begins, &end].concat()
}

fn ethernet_ip(to: [u8; 6], from: [u8; 6], number: u8) -> Vec<u8> {
    let ipv4 = [0x45, 0xdc, 0, 98, 0, number, 0x40, 0, 64, 17, 0, 0, 192, 168, 7, 1, 192, 168, 7, 2];
    let udp = [8, 0xae, 8, 0xae, 0, 78, 0, 0];
    let cpf = [2, 0, 2, 0x80, 8, 0, 0x78, 0x56, 0x34, 0x12, number, 0, 0, 0, 0xb1, 0, 48, 0];
    frame(to, from, &[], EtherType::IPV4, &[&ipv4[..], &udp, &cpf].concat(), number)
}

/// Frames of machine A's station, and of the device.
fn sent(a: [u8; 6]) -> [Vec<Vec<u8>>; 2] {
    let goose = |number| {
        let begins = [0, 3, 0, 60, 0, 0, 0, 0, 0x61, 0x34];
        frame(GOOSE_GROUP, a, &GOOSE_TAG, EtherType::GOOSE, &begins, number)
    };
    let request = |number| frame(DEVICE, a, &[], EtherType::POWERLINK, &[3, 1, 240, 0, 0], number);
    let response =
        |number| frame(POWERLINK_GROUP, DEVICE, &[], EtherType::POWERLINK, &[4, 255, 1, 0, 0xfd], number);
    let there = (0..FRAMES).flat_map(|n| [goose(n), request(n), ethernet_ip(DEVICE, a, n)]).collect();
    let back = (0..FRAMES).flat_map(|n| [response(n), ethernet_ip(a, DEVICE, n)]).collect();
    [there, back]
}

fn is_ours(frame: &Frame) -> bool {
    frame.contains(MARKER)
}

/// Sends frames at one machine, and returns those with the marker that come to the other one.
fn pass(from: (&Namespace, &str), to: (&Namespace, &str), frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let heard = Capture::start(to.0, to.1).unwrap();
    let socket = PacketSocket::open(from.0, from.1).unwrap();
    for frame in frames {
        socket.send(frame).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    heard.wait_for(frames.len(), DEADLINE, is_ours).unwrap();
    let heard = heard.stop().unwrap().complete().unwrap();
    heard.frames.into_iter().filter(is_ours).map(|frame| frame.octets).collect()
}

/// Frames stream by stream, each in its own order.
fn by_stream(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.sort_by_key(|frame| (frame[..6].to_vec(), frame[12..14].to_vec()));
    frames
}

/// All frames pass both ways, as they were sent; on the network there are protected ones alone. `order`: of frames that are compared.
fn all_pass(topology: &Topology, order: fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>) {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let [there, back] = sent(a.mac);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let (at_a, at_b) = ((&a.namespace, a.ifname), (&b.namespace, b.ifname));
    assert_eq!(order(pass(at_a, at_b, &there)), order(there.clone()));
    assert_eq!(order(pass(at_b, at_a, &back)), order(back.clone()));
    let wire = wire.stop().unwrap().complete().unwrap();
    assert_eq!(wire.find(MARKER), None, "plaintext is on the network");
    assert_eq!(wire.find(b"\x78\x56\x34\x12"), None, "a connection ID is on the network");
    let protected: Vec<_> = wire.of_ethertype(ETHERTYPE.0).collect();
    assert!(protected.len() >= there.len() + back.len(), "{}", protected.len());
    let goose = |frame: &&&Frame| frame.octets[..6] == GOOSE_GROUP && frame.octets[12..16] == GOOSE_TAG;
    assert_eq!(protected.iter().filter(goose).count(), usize::from(FRAMES));
}

fn start(topology: &Topology, mut choice: CellChoice) -> Pair {
    choice.cell = format!("{}\n{}", choice.cell, relations(topology.machine_a.mac)).leak();
    let pair = cells::start(program(), topology, &choice).unwrap();
    secured(&pair).unwrap();
    pair
}

#[test]
fn other_fieldbuses_pass_a_cell_as_they_were_sent() {
    let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
    let pair = start(&topology, CellChoice::new(&topology, 1, Duration::from_millis(4)));
    all_pass(&topology, |frames| frames);
    let report = pair.b.report().unwrap();
    let relations = &only_cell(&report).unwrap().relations;
    let told: Vec<_> = relations[..3].iter().map(|of| (of.receives.as_str(), of.sends.as_str())).collect();
    let expected = [
        ("goose 0x0003 to 01:0c:cd:01:00:01", "nothing"),
        ("powerlink 0x0301", "powerlink 0x04ff to 01:11:1e:00:00:02"),
        ("ethernet-ip", "ethernet-ip"),
    ];
    assert_eq!(told, expected);
    for relation in &relations[..3] {
        assert_eq!(relation.receive.value("InPktsOK"), u64::from(FRAMES), "{}", relation.receives);
    }

    // A frame of the same protocols that no relation has is the rest, which the link carries.
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let other = frame(GOOSE_GROUP, a.mac, &[], EtherType::GOOSE, &[0, 4, 0, 60, 0, 0, 0, 0], 1);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let heard = pass((&a.namespace, a.ifname), (&b.namespace, b.ifname), std::slice::from_ref(&other));
    assert_eq!(heard, [other]);
    let wire = wire.stop().unwrap().complete().unwrap();
    let to_group = |frame: &&Frame| frame.octets[..6] == GOOSE_GROUP;
    assert!(
        wire.of_ethertype(EtherType::MACSEC.0).any(|frame| to_group(&frame)) && wire.find(MARKER).is_none()
    );

    // In clear from the network none of them is delivered.
    let stranger = PacketSocket::open(&topology.middle, lab::topology::RIGHT).unwrap();
    let machine = Capture::start(&b.namespace, b.ifname).unwrap();
    let [there, _] = sent(a.mac);
    for frame in &there {
        stranger.send(frame).unwrap();
    }
    let refused = || {
        let report = pair.b.report().unwrap();
        let cell = only_cell(&report).unwrap();
        cell.relations.iter().map(|relation| relation.receive.value("InPktsClearRefused")).sum::<u64>()
    };
    let end = std::time::Instant::now() + DEADLINE;
    while refused() < there.len() as u64 {
        assert!(std::time::Instant::now() < end, "{} of {} are refused", refused(), there.len());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(machine.stop().unwrap().complete().unwrap().find(MARKER), None);
    pair.stop().unwrap();
}

/// Those whose identification stands behind the EtherType go through the programs, EtherNet/IP through user space beside them.
#[test]
fn other_fieldbuses_pass_a_cell_in_the_kernel() {
    let topology = for_the_kernel();
    let pair = start(&topology, kernel_choice(&topology, "kernel"));
    // Frames in the kernel overtake those in user space: each stream has one of these ways.
    all_pass(&topology, by_stream);
    for station in [&pair.a, &pair.b] {
        let report = station.report().unwrap();
        let cell = only_cell(&report).unwrap();
        assert!(cell.path.starts_with("kernel; 1 relations in user space"), "{}", cell.path);
        for relation in &cell.relations[..3] {
            let (sent, received) =
                (relation.transmit.value("OutPktsProtected"), relation.receive.value("InPktsOK"));
            let of = |stream: &str| if stream == "nothing" { 0 } else { u64::from(FRAMES) };
            assert_eq!((sent, received), (of(&relation.sends), of(&relation.receives)), "{}", relation.sends);
        }
    }
    pair.stop().unwrap();
}
