//! Frames of other fieldbuses than PROFINET through the data paths of two gateways, whose sessions come from real handshakes: they
//! come out octet by octet, each as its own protocol, or not at all.
#![allow(clippy::unwrap_used, clippy::panic)] // a test's own set-up fails loudly

mod agreed;
mod wireshark;

use std::time::Duration;

use fieldbus::handshake::{Handshake, HelloDiscard};
use fieldbus::relation::{DeliveredTag, Relation};
use fieldbus::{
    Direction, Incoming, InwardFrame, Mode, Moment, Outgoing, ReceiveDiscard, RelationSettings, Relations,
    RelationsError, Settings, VlanTag,
};
use proptest::prelude::*;
use suite::fieldbus::{MasterKey, MasterKeys};
use wire::fieldbus::{CellSuite, ETHERTYPE, FrameId, Protect, Protection, Protocol, Target};
use wire::{Frame, Instant, MacAddr};
use wireshark::{Scratch, tshark};

/// Controller, publisher, master, originator, client; and the other end of all relations.
const A: MacAddr = MacAddr([0, 0x1b, 0x21, 0, 1, 1]);
const B: MacAddr = MacAddr([2, 0x1b, 0x21, 0, 1, 1]);
const HEADROOM: usize = 64;
const CYCLE: Duration = Duration::from_millis(1);
/// Octets behind the EtherType that no padding follows.
const UNPADDED: usize = 46;
const BROADCAST: Target = Target::Group(MacAddr([0xff; 6]));
const ENCRYPT: Protection = Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 };
const PROTECTIONS: [Protection; 2] =
    [ENCRYPT, Protection { protect: Protect::Authenticate, suite: CellSuite::ChaCha20Poly1305 }];

/// A relation of each protocol, all of them between the same two stations: its identifications, where A and B send, and the
/// beginning of A's and B's frames behind the EtherType.
struct Bus {
    protocol: Protocol,
    ids: [u16; 2],
    targets: [Target; 2],
    begins: [Vec<u8>; 2],
    tag: Option<VlanTag>,
}

fn group(octets: [u8; 6]) -> Target {
    Target::Group(MacAddr(octets))
}

fn ipv4(protocol: u8, ports: [u16; 2], behind: &[u8]) -> Vec<u8> {
    let mut begins =
        vec![0x45, 0xdc, 0, 0, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    begins.extend(ports.into_iter().flat_map(u16::to_be_bytes));
    begins.extend(behind);
    begins
}

fn buses() -> Vec<Bus> {
    let io = [0, 34, 0, 0, 2, 0, 2, 0x80, 8, 0, 0x78, 0x56, 0x34, 0x12, 9, 0, 0, 0, 0xb1, 0, 8, 0];
    let bus = |protocol, ids, targets, begins: [&[u8]; 2], tag| Bus {
        protocol,
        ids,
        targets,
        begins: begins.map(<[u8]>::to_vec),
        tag,
    };
    let publishes = |last: [u8; 4]| [group([1, 0x0c, last[0], last[1], last[2], last[3]]), Target::Nobody];
    let to_group = group([1, 0, 0x5e, 0x40, 0, 1]);
    let (there, back) = (ipv4(6, [0xc001, 502], &[0; 16]), ipv4(6, [502, 0xc001], &[0; 16]));
    let cyclic = ipv4(17, [2222, 2222], &io);
    vec![
        bus(
            Protocol::Profinet,
            [0x8001, 0x8002],
            [Target::Peer; 2],
            [&[0x80, 1], &[0x80, 2]],
            Some(VlanTag::PROFINET),
        ),
        bus(
            Protocol::Goose,
            [3, 3],
            publishes([0xcd, 1, 0, 1]),
            [&[0, 3, 0, 90, 0, 0, 0, 0, 0x61], &[]],
            VlanTag::new(4, 10),
        ),
        bus(
            Protocol::SampledValues,
            [0x4000; 2],
            publishes([0xcd, 4, 0, 1]),
            [&[0x40, 0, 0, 90, 0, 0, 0, 0, 0x60], &[]],
            VlanTag::new(4, 0),
        ),
        // Poll request to node 1, and its response to all.
        bus(
            Protocol::Powerlink,
            [0x0301, 0x04ff],
            [Target::Peer, group([1, 0x11, 0x1e, 0, 0, 2])],
            [&[3, 1, 240, 0], &[4, 255, 1, 0]],
            None,
        ),
        // The first slave sets a bit of the master's address.
        bus(
            Protocol::EtherCat,
            [0x2c10; 2],
            [BROADCAST; 2],
            [&[0x2c, 0x10, 0x0c], &[0x2c, 0x10, 0x0c]],
            None,
        ),
        bus(Protocol::Sercos, [0x0004, 0x4004], [BROADCAST; 2], [&[0x20, 0x34], &[0x60, 0x34]], None),
        bus(Protocol::EtherNetIp, [2222; 2], [Target::Peer, to_group], [&cyclic, &cyclic], None),
        bus(Protocol::ModbusTcp, [502; 2], [Target::Peer; 2], [&there, &back], None),
    ]
}

fn relation(end: usize, of: &Bus) -> RelationSettings {
    let ends = [(A, FrameId(of.ids[0])), (B, FrameId(of.ids[1]))];
    let relation = Relation::new(ends[end], ends[1 - end], CYCLE).unwrap();
    let relation = relation.of(of.protocol, of.targets[end], of.targets[1 - end]).unwrap();
    let relation = relation.delivered_with(DeliveredTag::Is(of.tag));
    RelationSettings { relation, mode: Mode::Protect, alarm: 2 * CYCLE }
}

fn gateways(protection: Protection, mode: Mode) -> ([Relations; 2], Vec<Vec<u8>>) {
    let of = |end| buses().iter().map(|bus| RelationSettings { mode, ..relation(end, bus) }).collect();
    agreed::gateways(Settings::new(protection, 1532), &[0, 1].map(of))
}

/// A frame of the station at an end, behind these tags, with so much more behind its beginning.
fn machine(end: usize, bus: &Bus, tags: &[u8], more: &[u8]) -> Option<Vec<u8>> {
    let to = match bus.targets[end] {
        Target::Peer => [B, A][end],
        Target::Group(group) => group,
        Target::Nobody => return None,
    };
    let mut body = [&bus.begins[end][..], more].concat();
    body.resize(body.len().max(UNPADDED), 0);
    Some([&to.0[..], &[A, B][end].0, tags, &bus.protocol.ethertype().0.to_be_bytes(), &body].concat())
}

fn chunk(frame: &[u8]) -> Vec<u8> {
    [&[0xee; HEADROOM][..], frame, &[0xee; HEADROOM]].concat()
}

fn protect(cell: &mut Relations, frame: &[u8]) -> (usize, Vec<u8>) {
    let found = cell.find_outward(frame).expect("a relation's");
    let mut octets = chunk(frame);
    let mut burst = [Outgoing::new(Frame::new(&mut octets, HEADROOM, frame.len()).unwrap(), found)];
    cell.protect(&mut burst);
    let [outgoing] = burst;
    let wire = outgoing.frame().octets().to_vec();
    outgoing.into_outcome().expect("protected");
    (found.relation(), wire)
}

fn verify(cell: &mut Relations, frame: &[u8]) -> Option<(usize, Result<Vec<u8>, ReceiveDiscard>)> {
    let InwardFrame::Protected(found) = cell.find_inward(frame) else { return None };
    let mut octets = chunk(frame);
    let mut burst = [Incoming::new(Frame::new(&mut octets, HEADROOM, frame.len()).unwrap(), found)];
    cell.verify(Moment::START, &mut burst);
    let [incoming] = burst;
    let delivered = incoming.frame().octets().to_vec();
    Some((found.relation(), incoming.into_outcome().map(|_| delivered)))
}

/// Each frame that a station sends in some relation: the end, the relation, the frame.
fn frames(tags: &[u8], more: &[u8]) -> Vec<(usize, usize, Vec<u8>)> {
    let buses = buses();
    let of = |end: usize| {
        let sent = buses.iter().enumerate().map(move |(number, bus)| (number, machine(end, bus, tags, more)));
        sent.filter_map(move |(number, frame)| Some((end, number, frame?))).collect::<Vec<_>>()
    };
    [of(0), of(1)].concat()
}

/// A protected frame does not show its protocol: identification and destination leave one or two.
#[test]
fn the_dissector_names_protocol_and_relation_as_far_as_frames_show_them() {
    let scratch = Scratch::new("buses-lua");
    let (mut cells, hellos) = gateways(ENCRYPT, Mode::Protect);
    let frames: Vec<_> =
        frames(&[], &[]).iter().map(|(end, _, frame)| protect(&mut cells[*end], frame).1).collect();
    let fields = ["fieldbus.protocol", "fieldbus.relation", "_ws.expert"];
    let told = tshark(&scratch.capture("frames.pcap", &frames), true, &fields);
    let (a, b) = ("00:1b:21:00:01:01", "02:1b:21:00:01:01");
    let expected = [
        ("profinet", a, "0x8001", b),
        ("goose", a, "0x0003", "01:0c:cd:01:00:01"),
        ("sampled-values", a, "0x4000", "01:0c:cd:04:00:01"),
        ("profinet or powerlink", a, "0x0301", b),
        ("ethercat", a, "0x2c10", "ff:ff:ff:ff:ff:ff"),
        ("sercos", a, "0x0004", "ff:ff:ff:ff:ff:ff"),
        ("profinet or ethernet-ip", a, "0x08ae", b),
        ("profinet or modbus-tcp", a, "0x01f6", b),
        ("profinet", b, "0x8002", a),
        ("powerlink", b, "0x04ff", "01:11:1e:00:00:02"),
        ("ethercat", b, "0x2c10", "ff:ff:ff:ff:ff:ff"),
        ("sercos", b, "0x4004", "ff:ff:ff:ff:ff:ff"),
        ("ethernet-ip", b, "0x08ae", "01:00:5e:40:00:01"),
        ("profinet or modbus-tcp", b, "0x01f6", a),
    ];
    let expected =
        expected.map(|(protocols, from, id, to)| format!("{protocols}|{from} sends {id} to {to}|"));
    assert_eq!(told, expected);
    // HELLOs go between stations, whatever the protocol.
    let told = tshark(&scratch.capture("hellos.pcap", &hellos), true, &fields);
    assert!(told.iter().all(|line| line.starts_with("|HELLOs for 0x") && line.ends_with('|')), "{told:?}");
    assert!(told.contains(&format!("|HELLOs for 0x0003 from {a} to {b}|")), "{told:?}");
}

/// Who has two master keys says so in its HELLOs, which are longer then.
#[test]
fn the_dissector_reads_hellos_that_name_another_master_key() {
    let scratch = Scratch::new("other-key-lua");
    let [master, other] = [3, 4].map(|octet| MasterKey::new(&[octet; 32]));
    let hellos: Vec<_> = [(&master, &other), (&other, &master)]
        .into_iter()
        .map(|(preferred, fallback)| {
            let masters = MasterKeys { preferred: preferred.clone(), fallback: Some(fallback.clone()) };
            let relation = relation(0, &buses()[1]).relation;
            let mut handshake = Handshake::new(&relation, &masters, ENCRYPT, ETHERTYPE, &[1; 32]);
            handshake.handle_timeout(Instant::START);
            std::iter::from_fn(move || handshake.poll_transmit())
                .map(|hello| hello.to_vec())
                .collect::<Vec<_>>()
        })
        .collect::<Vec<_>>()
        .concat();
    let fields = [
        "fieldbus.hello.other_key",
        "fieldbus.hello.prefers_other_key",
        "fieldbus.hello.other_key_id",
        "fieldbus.padding",
        "_ws.expert.message",
    ];
    let told = tshark(&scratch.capture("hellos.pcap", &hellos), true, &fields);
    assert!(!told.is_empty());
    let ids = [master.id(), other.id()];
    for line in &told {
        let columns: Vec<_> = line.split('|').collect();
        assert_eq!((columns[0], columns[3], columns[4]), ("1", "", ""), "{line}");
        assert!(ids.iter().any(|id| columns[2] == id.to_string()), "{line}");
    }
    let mut cut = hellos[0].clone();
    cut.truncate(cut.len() - 1);
    let told = tshark(&scratch.capture("cut.pcap", &[cut]), true, &["_ws.expert.message"]);
    assert_eq!(told, ["The frame ends before KeyID, Seq and ICV, or the HELLO, are whole"]);
}

proptest! {
    #[test]
    fn frames_of_every_bus_come_out_octet_by_octet(
        more in prop::collection::vec(1u8.., 24..1400),
        tag in prop::option::of(any::<[u8; 2]>()),
        which in 0usize..2,
    ) {
        let (mut cells, _) = gateways(PROTECTIONS[which], Mode::Protect);
        let tags = tag.map(|[high, low]| vec![0x81, 0, high, low]).unwrap_or_default();
        let frames = frames(&tags, &more);
        prop_assert_eq!(frames.len(), 14);
        for (end, number, frame) in frames {
            let bus = &buses()[number];
            let (found, wire) = protect(&mut cells[end], &frame);
            prop_assert_eq!(found, number);
            let front = 12 + tags.len();
            prop_assert_eq!(&wire[..front], &frame[..front]);
            prop_assert_eq!(&wire[front..front + 2], &ETHERTYPE.0.to_be_bytes());
            prop_assert_eq!(&wire[front + 2..front + 4], &bus.ids[end].to_be_bytes());
            let overhead = 23 - bus.protocol.identification_octets();
            prop_assert_eq!(wire.len(), frame.len() + overhead);
            let in_clear = wire.windows(24).any(|octets| octets == &more[..24]);
            prop_assert_eq!(in_clear, PROTECTIONS[which].protect == Protect::Authenticate);
            let expected = {
                let tag = bus.tag.map(|tag| tag.octets().to_vec()).unwrap_or_default();
                [&frame[..12], &tag, &frame[front..]].concat()
            };
            let delivered = verify(&mut cells[1 - end], &wire);
            prop_assert_eq!(delivered, Some((number, Ok(expected))));
            prop_assert_eq!(verify(&mut cells[1 - end], &wire), Some((number, Err(ReceiveDiscard::Late))));
        }
    }

    /// Whatever an attacker writes into the front of a protected frame, it is delivered as what it was, or not at all.
    #[test]
    fn a_frame_of_one_bus_is_never_restored_as_another(
        more in prop::collection::vec(any::<u8>(), 60..61), from in 0usize..14, other in 0usize..14, which in 0usize..2,
    ) {
        let (mut cells, _) = gateways(PROTECTIONS[which], Mode::Protect);
        let frames = frames(&[], &more);
        let (end, number, frame) = &frames[from];
        let (_, mut wire) = protect(&mut cells[*end], frame);
        let (to, target, as_other) = &frames[other];
        let other_wire = protect(&mut cells[*to], as_other).1;
        // Addresses and FrameID of the other relation, or KeyID too.
        wire[..12].copy_from_slice(&other_wire[..12]);
        for until in [16, 17] {
            wire[14..until].copy_from_slice(&other_wire[14..until]);
            let outcome = verify(&mut cells[1 - to], &wire);
            if from == other {
                prop_assert!(matches!(outcome, Some((same, Ok(_) | Err(ReceiveDiscard::Late))) if same == *number));
            } else {
                let outcome = outcome.map(|(found, result)| (found, result.is_ok()));
                prop_assert_eq!(outcome, Some((*target, false)));
            }
        }
    }

    /// Hostile octets behind addresses and EtherTypes of relations: a frame is found by its own identification alone, and changes nothing.
    #[test]
    fn hostile_octets_are_found_by_their_identification_alone(
        octets in prop::collection::vec(any::<u8>(), 0..80), from in 0usize..14, ethertype in 0usize..9, front in 0usize..3,
    ) {
        let (mut cells, _) = gateways(ENCRYPT, Mode::Protect);
        let (end, _, frame) = &frames(&[], &[])[from];
        let named = Protocol::ALL.get(ethertype).map_or(ETHERTYPE, |protocol| protocol.ethertype());
        let begins = &frame[14..14 + [0, 2, 36][front]];
        let hostile = [&frame[..12], &named.0.to_be_bytes(), begins, &octets].concat();
        if let Some(found) = cells[*end].find_outward(&hostile) {
            let bus = &buses()[found.relation()];
            prop_assert_eq!(bus.protocol.ethertype(), named);
            prop_assert_eq!(bus.protocol.identify(&hostile[14..]), Some(FrameId(bus.ids[*end])));
        }
        let is_kept = cells[1 - end].is_kept_for_relation(&hostile);
        prop_assert_eq!(is_kept, cells[*end].find_outward(&hostile).is_some());
        match cells[1 - end].find_inward(&hostile) {
            InwardFrame::Clear(_) => prop_assert!(is_kept),
            InwardFrame::Protected(_) => {
                let outcome = verify(&mut cells[1 - end], &hostile).map(|(_, result)| result.is_ok());
                prop_assert_eq!(outcome, Some(false));
            }
            _ => {}
        }
    }
}

#[test]
fn hellos_go_between_the_stations_also_where_frames_go_to_a_group() {
    let (cells, hellos) = gateways(ENCRYPT, Mode::Protect);
    assert!(hellos.len() >= 4 * buses().len(), "{}", hellos.len());
    for hello in &hellos {
        let end = usize::from(hello[..6] == B.0);
        assert!(hello[0] & 1 == 0, "to a station");
        let InwardFrame::Hello(found) = cells[end].find_inward(hello) else { panic!("{hello:02x?}") };
        assert_eq!(hello[14..16], buses()[found.relation()].ids[1 - end].to_be_bytes());
        // Data of a group's relation is not what comes to the station.
        let is_to_station = buses()[found.relation()].targets[1 - end] == Target::Peer;
        let mut data = hello.clone();
        data[20] = 1;
        assert_eq!(matches!(cells[end].find_inward(&data), InwardFrame::Protected(_)), is_to_station);
    }
}

#[test]
fn gateways_that_mean_different_protocols_or_groups_make_no_session() {
    let goose = |end: usize, protocol, to: Target| {
        let of =
            Bus { protocol, ids: [3; 2], targets: [to, Target::Nobody], begins: [vec![], vec![]], tag: None };
        let master = MasterKey::new(&[3; 32]);
        Handshake::new(&relation(end, &of).relation, &master.into(), ENCRYPT, ETHERTYPE, &[end as u8; 32])
    };
    let group = |last| group([1, 0x0c, 0xcd, 1, 0, last]);
    for (protocol, to, agrees) in [
        (Protocol::Goose, group(1), true),
        (Protocol::SampledValues, group(1), false),
        (Protocol::Goose, group(2), false),
        (Protocol::Goose, Target::Peer, false),
        (Protocol::Profinet, group(1), false),
    ] {
        let (mut a, mut b) = (goose(0, Protocol::Goose, group(1)), goose(1, protocol, to));
        a.handle_timeout(Instant::START);
        let answer = b.handle_frame(Instant::START, &a.poll_transmit().unwrap());
        assert_eq!(answer, if agrees { Ok(()) } else { Err(HelloDiscard::NotValid) }, "{protocol:?} {to:?}");
    }
}

#[test]
fn relations_whose_frames_could_not_be_told_apart_are_refused() {
    let bus = |protocol, ids, targets| Bus { protocol, ids, targets, begins: [vec![], vec![]], tag: None };
    let to = group([1, 0x0c, 0xcd, 1, 0, 1]);
    let one_way = [to, Target::Nobody];
    let rows = [
        // The protected frames would be the same.
        (bus(Protocol::Goose, [3; 2], one_way), bus(Protocol::SampledValues, [3; 2], one_way), true),
        (bus(Protocol::Goose, [3; 2], one_way), bus(Protocol::Goose, [4; 2], one_way), false),
        // The HELLOs would.
        (bus(Protocol::Goose, [3; 2], one_way), bus(Protocol::Goose, [3; 2], [Target::Nobody, to]), true),
        (bus(Protocol::Goose, [3; 2], one_way), bus(Protocol::Powerlink, [3; 2], [Target::Peer; 2]), true),
        (bus(Protocol::Goose, [3; 2], one_way), bus(Protocol::Goose, [4; 2], [Target::Nobody, to]), false),
    ];
    for (one, other, is_refused) in rows {
        for end in [0, 1] {
            let relations = [relation(end, &one), relation(end, &other)];
            let made = Relations::new(Settings::new(ENCRYPT, 1500), &relations);
            let expected = if is_refused { Some(RelationsError::Same(0, 1)) } else { None };
            assert_eq!(made.err(), expected, "{:?} {:?}", one.protocol, other.protocol);
        }
    }
}

#[test]
fn frames_in_clear_are_refused_and_in_shadow_mode_their_twins_are_known() {
    let more = [7; 80];
    for mode in [Mode::Protect, Mode::Shadow] {
        let (mut cells, _) = gateways(ENCRYPT, mode);
        for (end, number, frame) in frames(&[], &more) {
            let found = cells[end].find_outward(&frame).unwrap();
            let sent = cells[end].pass_clear(found, Direction::Outward, &frame);
            assert_eq!(sent.is_some(), mode == Mode::Shadow);
            let (_, twin) = protect(&mut cells[end], &frame);
            let InwardFrame::Clear(found) = cells[1 - end].find_inward(&frame) else { panic!("{number}") };
            assert_eq!(found.relation(), number);
            assert_eq!(cells[1 - end].is_kept_for_relation(&frame), mode == Mode::Protect);
            let passes = cells[1 - end].pass_clear(found, Direction::Inward, &frame).is_some();
            assert_eq!(passes, mode == Mode::Shadow);
            let (_, outcome) = verify(&mut cells[1 - end], &twin).unwrap();
            // The twin of a frame that was delivered ends here; it is found by the payload.
            assert_eq!(outcome.is_ok(), mode == Mode::Protect, "{number} {outcome:?}");
            if mode == Mode::Shadow {
                assert_eq!(outcome, Err(ReceiveDiscard::Shadow));
            }
        }
    }
}
