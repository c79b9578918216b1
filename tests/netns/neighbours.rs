//! Protocols that speak to the neighbour: for the machines the neighbour is the other machine, since a gateway pair is
//! a cable. The book, "What passes", has the rule; each row of it is a frame here, both ways, octet for octet.

use lab::topology::{LEFT, Mac, RIGHT};
use lab::{Capture, PacketSocket, Shape};
use perf::demo::pair::Choice;
use testkit::frames::{ethernet, tagged};
use wire::{EtherType, MacAddr};

use super::{counter, exchange, lab, next, wait_for};

/// IEEE 802.1Q's reserved addresses: a bridge never forwards them.
const fn reserved(last: u8) -> MacAddr {
    MacAddr([0x01, 0x80, 0xc2, 0, 0, last])
}

/// A frame as a machine's network card sends it: padded to 60 octets.
fn frame(to: MacAddr, from: Mac, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(to, MacAddr(from), EtherType(ethertype), payload);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn octets(hexadecimal: &str) -> Vec<u8> {
    let digits: String = hexadecimal.split_whitespace().collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn lldp(from: Mac) -> Vec<u8> {
    let body = octets("0207 04 0200000000a1 0405 07 706c63 31 0602 0078 0000");
    frame(reserved(0x0e), from, 0x88cc, &body)
}

/// A PTP message of 802.3 transport: header of version 2, correctionField, sequenceId, and a body.
fn ptp(to: MacAddr, from: Mac, message_type: u8, body: usize) -> Vec<u8> {
    let mut message = vec![0x10 | message_type, 0x02, 0, 34 + body as u8, 0, 0, 0x02, 0];
    message.extend([0, 0, 0, 0, 0, 0x12, 0x80, 0]); // correctionField: nobody on the way may touch it
    message.extend([0; 4]);
    message.extend([&from[..3], &[0xff, 0xfe], &from[3..], &[0, 1]].concat());
    message.extend([0, 7, 0, 0]);
    message.resize(34 + body, 0x5a);
    frame(to, from, 0x88f7, &message)
}

fn profinet(to: MacAddr, from: Mac, frame_id: u16) -> Vec<u8> {
    let body = [&frame_id.to_be_bytes()[..], &[0; 12], &octets("0c06 0001 0000 0002 0000")].concat();
    frame(to, from, 0x8892, &body)
}

fn group(text: &str) -> MacAddr {
    text.parse().unwrap()
}

/// One frame of each protocol, by name.
fn neighbourly(from: Mac, to: Mac) -> Vec<(&'static str, Vec<u8>)> {
    let stp = octets(
        "424203 0000 02 02 3c 8000 0200000000a1 00000000 8000 0200000000a1 8001 0000 1400 0200 0f00 00",
    );
    let lacp = [&octets("0101 0114 8000 0200000000a1 0001 8000 0001 3d 000000 0214")[..], &[0; 18], &[3, 16]]
        .concat();
    let cdp = octets("aaaa03 00000c 2000 02b4 0000 0001 0008 706c6331");
    let mrp_test = octets(
        "0001 0212 8000 0200000000a1 0001 0000 0000 0000 0000 0110 0001 ffffffffffffffffffffffffffffffff 0000",
    );
    let mka = octets("03 05 0010 01f0 0010 0200000000a1 0001 0123 4567");
    let macsec = octets(
        "2c 00 00000001 0200000000a1 0001 00112233445566778899aabbccddeeff 00112233445566778899aabbccddeeff",
    );
    let priority = |frame: &[u8]| tagged(frame, EtherType::VLAN, 0xe000);
    let ptcp_delay = profinet(reserved(0x0e), from, 0xff40);
    vec![
        ("STP", frame(reserved(0), from, stp.len() as u16, &stp)),
        ("CDP, an LLC frame with SNAP", frame(group("01:00:0c:cc:cc:cc"), from, cdp.len() as u16, &cdp)),
        ("LACP", frame(reserved(2), from, 0x8809, &lacp)),
        ("EtherOAM", frame(reserved(2), from, 0x8809, &octets("03 0050 00 0000"))),
        ("ESMC", frame(reserved(2), from, 0x8809, &octets("0a 0019a7 0001 1000 0000 01 0004 02"))),
        ("EAPOL-Start", frame(reserved(3), from, 0x888e, &octets("01 01 0000"))),
        ("EAPOL-MKA", frame(reserved(3), from, 0x888e, &mka)),
        ("EAPOL-MKA to the group that bridges forward", frame(reserved(0x1f), from, 0x888e, &mka)),
        ("LLDP", lldp(from)),
        ("PTP Sync", ptp(group("01:1b:19:00:00:00"), from, 0, 10)),
        ("gPTP Sync", ptp(reserved(0x0e), from, 0, 10)),
        ("PTP Pdelay_Req", ptp(reserved(0x0e), from, 2, 20)),
        ("PTP Delay_Req to a unicast address", ptp(MacAddr(to), from, 1, 10)),
        ("PTCP Sync", priority(&profinet(group("01:0e:cf:00:04:00"), from, 0x0080))),
        ("PTCP announce", profinet(group("01:0e:cf:00:04:80"), from, 0xff00)),
        ("PTCP follow-up", profinet(group("01:0e:cf:00:04:20"), from, 0xff20)),
        ("PTCP delay request", ptcp_delay),
        ("DCP identify", profinet(group("01:0e:cf:00:00:00"), from, 0xfefe)),
        ("MRP test", priority(&frame(group("01:15:4e:00:00:01"), from, 0x88e3, &mrp_test))),
        ("MRP control", frame(group("01:15:4e:00:00:02"), from, 0x88e3, &mrp_test)),
        ("the machines' own MACsec", frame(MacAddr(to), from, 0x88e5, &macsec)),
    ]
}

/// PAUSE and priority-based flow control.
fn mac_control(from: Mac) -> [Vec<u8>; 2] {
    [octets("0001 ffff"), octets("0101 00ff ffff ffff ffff ffff ffff ffff ffff ffff")]
        .map(|body| frame(reserved(1), from, 0x8808, &body))
}

fn neighbours_meet(io: &'static str, link: &'static str) {
    let (topology, pair) = lab(&Shape::default(), &Choice { io, link, ..Choice::default() });
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    for (from, to, gateway, far) in [(a, b, &pair.a, RIGHT), (b, a, &pair.b, LEFT)] {
        let frames = neighbourly(from.mac, to.mac);
        for (name, frame) in &frames {
            eprintln!("{name}, from {}", from.ifname);
            exchange(from, to, std::slice::from_ref(frame));
        }
        // At once, too, so that what may share a frame does, with PAUSE among them: it is missing, and nothing else.
        let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
        let mut receiver = PacketSocket::open(&to.namespace, to.ifname).unwrap();
        for (_, frame) in &frames {
            for control in mac_control(from.mac) {
                sender.send(&control).unwrap();
            }
            sender.send(frame).unwrap();
        }
        let mut arrived: Vec<_> = frames.iter().map(|_| next(&mut receiver).unwrap()).collect();
        let mut sent: Vec<_> = frames.iter().map(|(_, frame)| frame.clone()).collect();
        // Cyclic frames overtake the others if frames are shared.
        arrived.sort();
        sent.sort();
        assert_eq!(arrived, sent);
        let dropped = 2 * frames.len() as u64;
        wait_for(
            || gateway.report().unwrap(),
            dropped,
            |r| counter(&r.links[0].secy.counters, "OutPktsMacControl"),
        );

        // From the network: PAUSE and EAPOL are counted and reach no machine, nor does anything else in clear.
        let network = PacketSocket::open(&topology.middle, far).unwrap();
        let machine = Capture::start(&to.namespace, to.ifname).unwrap();
        let stranger = [2, 0, 0, 0, 0, 0x66];
        for frame in mac_control(stranger).iter().chain(neighbourly(stranger, to.mac).iter().map(|(_, f)| f))
        {
            network.send(frame).unwrap();
        }
        let beyond = if far == RIGHT { &pair.b } else { &pair.a };
        let in_clear = frames.len() as u64 - 4;
        wait_for(
            || beyond.report().unwrap(),
            in_clear,
            |r| counter(&r.links[0].secy.counters, "InPktsNoTag"),
        );
        let report = beyond.report().unwrap();
        let counters = &report.links[0].secy.counters;
        assert_eq!((counter(counters, "InPktsMacControl"), counter(counters, "InPktsEapol")), (2, 3));
        assert_eq!(machine.stop().unwrap().complete().unwrap().frames, []);
    }
    let wire = wire.stop().unwrap().complete().unwrap();
    // Frames that the test itself played into the wire came from a stranger.
    let of_gateways: Vec<_> =
        wire.frames.iter().filter(|frame| frame.octets[6..12] != [2, 0, 0, 0, 0, 0x66]).collect();
    assert!(of_gateways.len() >= neighbourly(a.mac, b.mac).len());
    assert!(of_gateways.iter().all(|frame| frame.ethertype() == Some(EtherType::MACSEC.0)));
    pair.stop().unwrap();
}

#[test]
fn on_af_xdp() {
    neighbours_meet("af_xdp", "");
}

#[test]
fn on_af_packet() {
    neighbours_meet("af_packet", "");
}

#[test]
fn where_frames_are_shared() {
    neighbours_meet("auto", "fragment = \"on\"\nconcatenate = \"on\"");
}

fn a_bypass_opens_one_door(io: &'static str) {
    let choice = Choice { io, link: "bypass = [\"lldp\", \"ptp\"]", ..Choice::default() };
    let (topology, pair) = lab(&Shape::default(), &choice);
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let all = neighbourly(a.mac, b.mac);
    let frames: Vec<_> = all.iter().map(|(_, frame)| frame.clone()).collect();
    exchange(a, b, &frames);
    let back: Vec<_> = neighbourly(b.mac, a.mac).into_iter().map(|(_, frame)| frame).collect();
    exchange(b, a, &back);
    let wire = wire.stop().unwrap().complete().unwrap();
    let in_clear = |name: &str| name.contains("LLDP") || name.contains("PTP ");
    for (name, frame) in &all {
        let seen = wire.frames.iter().any(|on_wire| on_wire.octets == *frame);
        assert_eq!(seen, in_clear(name), "{name} in clear");
    }

    // A stranger may do just that: its LLDP reaches the machine, in clear. With a VLAN tag, or anything else, not.
    let mut machine = PacketSocket::open(&b.namespace, b.ifname).unwrap();
    let stranger = PacketSocket::open(&topology.middle, RIGHT).unwrap();
    let from = [2, 0, 0, 0, 0, 0x66];
    let forged = lldp(from);
    stranger.send(&tagged(&forged, EtherType::VLAN, 1)).unwrap();
    stranger.send(&frame(reserved(0), from, 0x88e3, &[0; 46])).unwrap();
    stranger.send(&forged).unwrap();
    assert_eq!(next(&mut machine), Some(forged));
    let report = pair.b.report().unwrap();
    let bypassed = all.iter().filter(|(name, _)| in_clear(name)).count() as u64;
    assert_eq!(counter(&report.links[0].secy.counters, "InPktsBypass"), bypassed + 1);
    assert_eq!(counter(&report.links[0].secy.counters, "OutPktsBypass"), bypassed);
    pair.stop().unwrap();
}

#[test]
fn a_bypass_opens_one_door_on_af_xdp() {
    a_bypass_opens_one_door("af_xdp");
}

#[test]
fn a_bypass_opens_one_door_on_af_packet() {
    a_bypass_opens_one_door("af_packet");
}
