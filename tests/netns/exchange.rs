//! Frames that machines send arrive unchanged, whatever they are; those on the network are MACsec and tell nothing.

use lab::topology::{LEFT, Mac};
use lab::{Capture, Shape, Topology};
use perf::demo::pair::Choice;
use suite::CipherSuite;
use testkit::frames::tagged;
use wire::EtherType;

use super::{EXPERIMENT, MARKER, counter, exchange, lab, marked};

const BROADCAST: Mac = [0xff; 6];
const PROFINET_GROUP: Mac = [0x01, 0x0e, 0xcf, 0, 0, 0];
const LLDP_GROUP: Mac = [0x01, 0x80, 0xc2, 0, 0, 0x0e];

/// All that machine A sends: every size, every kind of tag, the fieldbuses' EtherTypes, and those that mean
/// something on the protected side.
fn from(topology: &Topology, a_to_b: bool) -> Vec<Vec<u8>> {
    let (a, b) = (topology.machine_a.mac, topology.machine_b.mac);
    let (own, other) = if a_to_b { (a, b) } else { (b, a) };
    let mut frames: Vec<_> =
        (0..=1500).map(|octets| marked(other, own, EXPERIMENT, octets, octets as u64)).collect();
    let ethertypes =
        [EtherType::PROFINET, EtherType::GOOSE, EtherType::ETHERCAT, EtherType::MACSEC, EtherType::EAPOL];
    for (seed, ethertype) in ethertypes.into_iter().enumerate() {
        for octets in [40, 46, 300, 1500] {
            frames.push(marked(other, own, ethertype, octets, seed as u64));
            frames.push(marked(PROFINET_GROUP, own, ethertype, octets, seed as u64));
        }
    }
    frames.push(marked(BROADCAST, own, EXPERIMENT, 100, 1));
    frames.push(marked(LLDP_GROUP, own, EtherType::LLDP, 100, 1));
    // Tags count against the protected side's MTU of 1532, as all that is behind DA and SA does. A tagged frame of
    // fewer than 20 octets, which no real wire carries, is lost in the receiving machine's kernel.
    for octets in [2, 3, 38, 42, 46, 600, 1492] {
        let plain = marked(other, own, EtherType::PROFINET, octets, 7);
        let priority = tagged(&plain, EtherType::VLAN, 0xc000);
        frames.push(tagged(&priority, EtherType::SERVICE_VLAN, 0x0064));
        frames.push(tagged(&tagged(&plain, EtherType::VLAN, 3), EtherType::VLAN, 2));
        frames.push(priority);
    }
    frames
}

fn everything_passes_and_nothing_is_seen(io: &'static str, suite: CipherSuite) {
    let (topology, pair) = lab(&Shape::default(), &Choice { io, suite, ..Choice::default() });
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let machine = Capture::start(&topology.machine_b.namespace, topology.machine_b.ifname).unwrap();
    let (forth, back) = (from(&topology, true), from(&topology, false));
    exchange(&topology.machine_a, &topology.machine_b, &forth);
    exchange(&topology.machine_b, &topology.machine_a, &back);

    let wire = wire.stop().unwrap().complete().unwrap();
    let sent = forth.len() + back.len();
    assert!(wire.frames.len() >= sent, "{} frames captured of {sent}", wire.frames.len());
    assert!(wire.all_ethertype(EtherType::MACSEC.0), "something that is not MACsec is on the network");
    assert_eq!(wire.find(MARKER), None, "plaintext is on the network");
    // The search can find what it looks for.
    let machine = machine.stop().unwrap().complete().unwrap();
    let marked = machine.frames.iter().filter(|frame| frame.contains(MARKER)).count();
    assert!(marked > sent / 2, "{marked} marked frames at the machine, of {sent}");

    let engine = match io {
        "af_xdp" => "af_xdp native",
        _ => "af_packet",
    };
    for station in [&pair.a, &pair.b] {
        let report = station.report().unwrap();
        let link = &report.links[0];
        assert!(link.plain.engine.starts_with(engine), "{} instead of {engine}", link.plain.engine);
        assert_eq!(link.secy.suite, suite.name());
        let (out, received) =
            if report.name == "a" { (forth.len(), back.len()) } else { (back.len(), forth.len()) };
        assert_eq!(counter(&link.secy.transmit.counters, "OutPktsEncrypted"), out as u64);
        assert_eq!(counter(&link.secy.receive[0].counters, "InPktsOK"), received as u64);
    }
    pair.stop().unwrap();
}

#[test]
fn af_xdp_gcm_aes_128() {
    everything_passes_and_nothing_is_seen("af_xdp", CipherSuite::GcmAes128);
}

#[test]
fn af_xdp_chacha20_poly1305() {
    everything_passes_and_nothing_is_seen("af_xdp", CipherSuite::ChaCha20Poly1305);
}

#[test]
fn af_packet_gcm_aes_128() {
    everything_passes_and_nothing_is_seen("af_packet", CipherSuite::GcmAes128);
}

#[test]
fn af_packet_chacha20_poly1305() {
    everything_passes_and_nothing_is_seen("af_packet", CipherSuite::ChaCha20Poly1305);
}

#[test]
fn integrity_only_and_every_other_suite() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let frames: Vec<_> = [0, 1, 29, 30, 31, 46, 47, 48, 49, 50, 51, 700, 1500]
        .map(|octets| marked(b.mac, a.mac, EXPERIMENT, octets, octets as u64))
        .into();
    let experimental = "allow_experimental = true";
    let choices = [
        (CipherSuite::GcmAes128, "", "encrypt = false"),
        (CipherSuite::GcmAes128, "", "confidentiality_offset = 30\nsci = \"never\""),
        (CipherSuite::GcmAes128, "", "confidentiality_offset = 50"),
        (CipherSuite::GcmAes256, "polling = \"interrupt\"", "sci = \"never\"\nreplay_window = 64"),
        (CipherSuite::Aegis128L, "polling = \"busy\"", ""),
        (CipherSuite::Aegis256, "", "encrypt = false"),
        (CipherSuite::Morus640, experimental, ""),
        (CipherSuite::Morus1280, experimental, "replay_protect = false"),
    ];
    for (suite, gateway, link) in choices {
        let choice = Choice { suite, gateway, link, ..Choice::default() };
        let pair = super::Pair::start(super::program(), &topology, &choice).unwrap();
        exchange(a, b, &frames);
        pair.stop().unwrap();
    }
}

#[test]
fn every_receive_queue_is_bound() {
    let shape = Shape { gateway_queues: 4, ..Shape::default() };
    let (topology, pair) = lab(&shape, &Choice { io: "af_xdp", ..Choice::default() });
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    assert!(pair.a.report().unwrap().links[0].plain.engine.contains("4 queues"));
    // One at a time: several queues keep no order between flows. Different sources go to different queues.
    for station in 0..64u8 {
        let source = [2, 0, 0, 1, 0, station];
        exchange(a, b, &[marked(b.mac, source, EXPERIMENT, 100, station.into())]);
        exchange(b, a, &[marked(source, b.mac, EXPERIMENT, 100, station.into())]);
    }
    pair.stop().unwrap();
}
