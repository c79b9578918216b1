//! UDP ports: on loopback and on a virtual wire, with everything that the kernel can do for them and without.

#![allow(clippy::unwrap_used)]

mod netns;

use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use arrayvec::ArrayVec;
use netdev::udp::{HEAD_OCTETS, Offloads, Outgoing, Source, UdpPort, send_one};
use netns::{Machine, PATIENCE, in_namespace, run, wire};
use testkit::frames::payload;

const WITH: Offloads = Offloads { segmentation: true, merging: true };
const WITHOUT: Offloads = Offloads { segmentation: false, merging: false };

fn open(address: &str, offloads: Offloads) -> UdpPort {
    UdpPort::open(address.parse().unwrap(), offloads).unwrap()
}

fn outgoing(to: SocketAddr, head: usize, octets: &[u8]) -> Outgoing<'_> {
    let (head, body) = octets.split_at(head.min(octets.len()));
    let source = Source::default();
    Outgoing { to, source, dscp: 0, head: head.iter().copied().collect::<ArrayVec<_, HEAD_OCTETS>>(), body }
}

/// Receives so many packets.
fn collect(port: &mut UdpPort, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let (mut packets, give_up) = (vec![], Instant::now() + PATIENCE);
    while packets.len() < count {
        assert!(Instant::now() < give_up, "{} of {count} came", packets.len());
        port.receive();
        while let Some(packet) = port.next_packet() {
            packets.push((packet.from, packet.octets.to_vec()));
        }
        assert!(port.is_empty());
    }
    packets
}

/// Payloads whose lengths come in runs, with a shorter one at the end of some.
fn payloads() -> Vec<Vec<u8>> {
    let runs =
        [(1486, 70, 80), (80, 64, 0), (81, 1, 81), (1200, 3, 1), (1, 5, 1), (9000, 9, 8999), (0, 2, 7)];
    let lengths = runs.into_iter().flat_map(|(each, times, last)| [vec![each; times], vec![last]].concat());
    lengths.enumerate().map(|(seed, octets)| payload(octets, seed as u64)).collect()
}

#[test]
fn every_packet_arrives_as_it_was_sent_and_in_order() {
    let both = [true, false];
    for (segmentation, merging) in both.into_iter().flat_map(|one| both.map(|other| (one, other))) {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let mut from = open(address, Offloads { segmentation, merging });
            let mut to = open(address, Offloads { segmentation, merging });
            let payloads = payloads();
            let packets: Vec<_> = payloads
                .iter()
                .enumerate()
                .map(|(number, octets)| outgoing(to.address(), number % 41, octets))
                .collect();
            from.send(&packets);
            let came = collect(&mut to, payloads.len());
            for (number, ((address, octets), sent)) in came.iter().zip(&payloads).enumerate() {
                assert_eq!((address, octets.len()), (&from.address(), sent.len()), "packet {number}");
                assert_eq!(octets, sent, "packet {number}");
            }
            let octets: usize = payloads.iter().map(Vec::len).sum();
            let (sent, seen) = (from.counters(), to.counters());
            assert_eq!((sent.tx_packets, sent.tx_octets), (payloads.len() as u64, octets as u64));
            assert_eq!((seen.rx_packets, seen.rx_octets), (payloads.len() as u64, octets as u64));
            assert_eq!(from.segments(), segmentation, "the kernel refused");
        }
    }
}

#[test]
fn a_socket_on_all_addresses_speaks_both_families() {
    let mut all = open("[::]:0", WITH);
    let port = all.address().port();
    let (mut four, mut six) = (open("127.0.0.1:0", WITH), open("[::1]:0", WITH));
    let to_four = SocketAddr::from(([127, 0, 0, 1], port));
    let to_six: SocketAddr = format!("[::1]:{port}").parse().unwrap();
    four.send(&[outgoing(to_four, 0, b"four")]);
    assert_eq!(collect(&mut all, 1), [(four.address(), b"four".to_vec())]);
    six.send(&[outgoing(to_six, 0, b"six")]);
    assert_eq!(collect(&mut all, 1), [(six.address(), b"six".to_vec())]);
    all.send(&[outgoing(four.address(), 0, b"to four"), outgoing(six.address(), 0, b"to six")]);
    assert_eq!(collect(&mut four, 1), [(to_four, b"to four".to_vec())]);
    assert_eq!(collect(&mut six, 1), [(to_six, b"to six".to_vec())]);
}

#[test]
fn an_address_in_use_is_told_with_its_cure() {
    let port = open("127.0.0.1:0", WITH);
    let error = UdpPort::open(port.address(), WITH).unwrap_err().to_string();
    let number = port.address().port();
    assert!(error.starts_with(&format!("UDP 127.0.0.1:{number}: cannot bind: ")), "{error}");
    assert!(error.ends_with(&format!("'ss -ulpn sport = {number}' says which")), "{error}");
}

#[test]
fn another_hold_on_the_socket_sends_from_the_same_address() {
    let (mut port, to) = (open("127.0.0.1:0", WITH), UdpSocket::bind("127.0.0.1:0").unwrap());
    let socket = port.socket().unwrap();
    socket.send_to(b"quic", to.local_addr().unwrap()).unwrap();
    port.send(&[outgoing(to.local_addr().unwrap(), 2, b"data")]);
    let mut octets = [0; 10];
    for sent in [b"quic", b"data"] {
        assert_eq!(to.recv_from(&mut octets).unwrap(), (4, port.address()));
        assert_eq!(&octets[..4], sent);
    }
}

/// Packets leave from the source that they name, those of one source together; from an address of somebody else nothing leaves.
#[test]
fn packets_leave_from_the_source_that_they_name() {
    for bind in ["0.0.0.0:0", "[::]:0"] {
        let (mut receiver, mut sender) =
            (open("127.0.0.1:0", Offloads::default()), open(bind, Offloads::default()));
        let (to, octets) = (receiver.address(), [7; 100]);
        let from = |address: &str| Source { address: Some(address.parse().unwrap()), interface: 0 };
        let packet = |source| Outgoing { source, ..outgoing(to, 16, &octets) };
        let [two, three] = [from("127.0.0.2"), from("127.0.0.3")];
        sender.send(&[packet(two), packet(two), packet(three), packet(from("192.0.2.1")), packet(two)]);
        let loopback = Source { address: None, interface: 1 };
        assert!(send_one(&sender.socket().unwrap(), to, loopback, &octets));
        let seen: Vec<_> =
            collect(&mut receiver, 5).into_iter().map(|(from, _)| from.ip().to_string()).collect();
        assert_eq!(seen, ["127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.1"], "{bind}");
        let counters = sender.counters();
        assert_eq!((counters.tx_packets, counters.tx_unreachable), (4, 1), "{bind}: {counters:?}");
        assert!(!send_one(&sender.socket().unwrap(), to, Source { address: None, interface: 9999 }, &octets));
    }
}

#[test]
fn what_the_kernel_drops_is_counted() {
    let (mut from, mut to) = (open("127.0.0.1:0", WITH), open("127.0.0.1:0", WITH));
    let octets = payload(1400, 0);
    let packets = vec![outgoing(to.address(), 16, &octets); 64];
    while to.counters().rx_kernel_dropped == 0 {
        from.send(&packets);
        assert!(from.counters().tx_packets < 1_000_000, "an endless buffer");
    }
    loop {
        to.receive();
        let Some(packet) = to.next_packet() else { break };
        assert_eq!(packet.octets, octets);
        while to.next_packet().is_some() {}
    }
    let (sent, seen) = (from.counters(), to.counters());
    // A merged message is one to the kernel when it drops it.
    assert!(seen.rx_packets < sent.tx_packets && seen.rx_packets + seen.rx_kernel_dropped <= sent.tx_packets);
    assert_eq!(sent.tx_dropped, 0);
}

/// IPv4 UDP packets seen on the wire: DF, type of service and octets of UDP payload of each.
fn seen(machine: &Machine, count: usize) -> Vec<(bool, u8, usize)> {
    let (mut packets, give_up) = (vec![], Instant::now() + PATIENCE);
    while packets.len() < count {
        assert!(Instant::now() < give_up, "{} of {count} came: {packets:?}", packets.len());
        let Some(frame) = machine.receive(PATIENCE) else { continue };
        if frame[12..14] != [0x08, 0x00] || frame[23] != 17 {
            continue;
        }
        let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        assert_eq!(frame[20] & 0x3f, 0, "no fragment");
        packets.push((frame[20] & 0x40 != 0, frame[15], total - 28));
    }
    packets
}

#[test]
fn packets_on_a_wire_are_whole_marked_and_never_fragmented() {
    for offloads in [WITH, WITHOUT] {
        in_namespace(move || {
            wire("machine", "wan", 1, 1500);
            run("ip address add 192.0.2.1/24 dev wan");
            run("ip neighbor add 192.0.2.2 lladdr 02:00:00:00:00:02 dev wan");
            // As a real wire: what is on it is one packet each.
            run("ethtool -K wan tx-udp-segmentation off");
            let machine = Machine::on("machine");
            let mut port = open("192.0.2.1:7787", offloads);
            let to: SocketAddr = "192.0.2.2:7787".parse().unwrap();
            let octets = payload(1473, 1);
            let with = |len: usize, dscp| Outgoing { dscp, ..outgoing(to, 16, &octets[..len]) };
            let packets: Vec<_> =
                [vec![with(1472, 46); 40], vec![with(80, 46), with(80, 0), with(80, 0)]].concat();
            port.send(&packets);
            let expected =
                [vec![(true, 46 << 2, 1472); 40], vec![(true, 46 << 2, 80), (true, 0, 80), (true, 0, 80)]];
            assert_eq!(seen(&machine, 43), expected.concat());

            // One octet more than the wire takes; alone, and together with others.
            port.send(&[with(1473, 0), with(1473, 0), with(80, 0)]);
            port.send(&[with(1473, 0), with(90, 0)]);
            // Nobody's address, and one in another family.
            for nowhere in ["198.51.100.1:1", "[2001:db8::1]:1"] {
                port.send(&[
                    Outgoing { to: nowhere.parse().unwrap(), ..with(100, 0) },
                    Outgoing { to, ..with(70, 0) },
                ]);
            }
            assert_eq!(seen(&machine, 4), [80, 90, 70, 70].map(|octets| (true, 0, octets)));
            let counters = port.counters();
            let told =
                (counters.tx_packets, counters.tx_too_long, counters.tx_unreachable, counters.tx_dropped);
            assert_eq!(told, (43 + 4, 3, 2, 0));
            assert_eq!(port.segments(), offloads.segmentation, "too long is no reason to send singly");
        });
    }
}
