//! Attacks from the network: each is discarded, counted under its name, and harms nobody else's frames.

use lab::topology::{LEFT, RIGHT};
use lab::{Capture, PacketSocket, Shape, Topology};
use perf::demo::pair::{Choice, Pair};
use testkit::frames::{ethernet, payload, tagged};
use wire::{EtherType, MacAddr};

use super::{EXPERIMENT, MARKER, counter, exchange, lab, marked, wait_for};

fn attacked(io: &'static str) {
    let (topology, pair) =
        lab(&Shape::default(), &Choice { io, link: "replay_window = 32", ..Choice::default() });
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 200, 1)]);
    let seen = wire.stop().unwrap().complete().unwrap();
    let good = &seen.frames[0].octets;

    let mut forged = good.clone();
    *forged.last_mut().unwrap() ^= 1;
    forged[16..20].copy_from_slice(&1000u32.to_be_bytes());
    let mut other_sc = good.clone();
    other_sc[20] ^= 1;
    let mut other_an = good.clone();
    other_an[14] ^= 3;
    let clear = marked(b.mac, a.mac, EXPERIMENT, 200, 2);
    let eapol = ethernet(MacAddr(b.mac), MacAddr(a.mac), EtherType::EAPOL, &payload(60, 3));
    let attacks: [(&str, &[u8]); 8] = [
        ("InPktsDuplicate", good),
        ("InPktsNotValid", &forged),
        ("InPktsNoSAError", &other_sc),
        ("InPktsNoSAError", &other_an),
        ("InPktsNoTag", &clear),
        ("InPktsClearVlan", &tagged(good, EtherType::VLAN, 5)),
        ("InPktsBadTag", &good[..40]),
        ("InPktsEapol", &eapol),
    ];
    // A station on the network, between the middle's bridge and gateway B.
    let attacker = PacketSocket::open(&topology.middle, RIGHT).unwrap();
    let machine = Capture::start(&b.namespace, b.ifname).unwrap();
    for (_, frame) in &attacks {
        attacker.send(frame).unwrap();
    }
    for (name, _) in &attacks {
        let expected = attacks.iter().filter(|(other, _)| other == name).count() as u64;
        let read = |report: &report::GatewayReport| {
            let secy = &report.links[0].secy;
            let all = secy.counters.iter().chain(secy.receive[0].counters.iter());
            all.filter(|(known, _)| known == name).map(|(_, value)| value).sum()
        };
        wait_for(|| pair.b.report().unwrap(), expected, read);
    }
    let machine = machine.stop().unwrap().complete().unwrap();
    assert_eq!(machine.find(MARKER), None, "an attacker's frame was delivered");
    // The forged PN of 1000 moved no window.
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 300, 4)]);
    exchange(b, a, &[marked(a.mac, b.mac, EXPERIMENT, 300, 5)]);
    pair.stop().unwrap();
}

#[test]
fn attacks_on_af_xdp() {
    attacked("af_xdp");
}

#[test]
fn attacks_on_af_packet() {
    attacked("af_packet");
}

#[test]
fn a_peer_with_another_key_is_told_nothing_and_delivers_nothing() {
    let topology = Topology::build(&Shape::default()).unwrap();
    // Both make their own keys: neither has the other's.
    let one = Pair::start(super::program(), &topology, &Choice::default()).unwrap();
    let keys = std::fs::read(one.scratch.path().join("a.key")).unwrap();
    let Pair { a, b, scratch } = one;
    b.stop().unwrap();
    std::fs::remove_file(scratch.path().join("a.key")).unwrap();
    frameward::keygen::static_key(frameward::keygen::KeyLength::Bits128, &scratch.path().join("a.key"))
        .unwrap();
    assert_ne!(std::fs::read(scratch.path().join("a.key")).unwrap(), keys);
    let namespace = &topology.gateway_b.namespace;
    let b = perf::demo::pair::Station::start(super::program(), namespace, &scratch, "b").unwrap();

    let (from, to) = (&topology.machine_a, &topology.machine_b);
    let machine = Capture::start(&to.namespace, to.ifname).unwrap();
    let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
    for seed in 0..10 {
        sender.send(&marked(to.mac, from.mac, EXPERIMENT, 100, seed)).unwrap();
    }
    wait_for(
        || b.report().unwrap(),
        10,
        |report| counter(&report.links[0].secy.receive[0].counters, "InPktsNotValid"),
    );
    assert_eq!(machine.stop().unwrap().complete().unwrap().find(MARKER), None);
    a.stop().unwrap();
    b.stop().unwrap();
}
