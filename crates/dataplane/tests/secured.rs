//! Sites that protect their LANs: machines' frames through SecY and tunnel in one turn, stations with a SecY of their own beside
//! them, and what must not pass.

#![allow(clippy::unwrap_used)]

mod plants;
#[path = "plants/secured.rs"]
mod secured_plants;

use dataplane::site::{Copies, LanFrame, Place, ToWorker};
use dataplane::snapshot::LinkSnapshot;
use netdev::udp::Source;
use plants::{Plants, eapol, macsec, peer, station};
use secured_plants::sci_of;
use secy::{SecYCounters, UnmatchedFrame};
use testkit::frames::payload;
use tunnel::Command;
use wire::mkpdu::{
    ALGORITHM_AGILITY, BasicParameters, Capability, EAPOL_VERSION, MKA_VERSION, Mkpdu, Writer,
};
use wire::{An, Ckn, MacAddr, Mi, Sci};

const BROADCAST: [u8; 6] = [0xff; 6];

/// A machine's frame of so many octets, with up to two VLAN tags, whose octets depend on its number.
fn plain(to: [u8; 6], from: [u8; 6], number: u32, octets: usize) -> Vec<u8> {
    let tags: &[u8] = match number % 4 {
        1 => &[0x81, 0, 0xe0, 7],
        2 => &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8],
        _ => &[],
    };
    let mut frame = [&to[..], &from, tags, &[0x88, 0x92]].concat();
    frame.extend(payload(octets - 14, u64::from(number)));
    frame
}

/// A whole MKPDU of a station's KaY; its ICV is none.
fn mkpdu(source: [u8; 6]) -> Vec<u8> {
    let basic = BasicParameters {
        version: MKA_VERSION,
        priority: 16,
        key_server: false,
        macsec_desired: true,
        capability: Capability::Offsets,
        sci: Sci::new(MacAddr(source), 1),
        mi: Mi([7; 12]),
        mn: 1,
        agility: ALGORITHM_AGILITY,
        ckn: Ckn::new(b"stations").unwrap(),
    };
    let (mut buffer, group) = ([0; 200], MacAddr([0x01, 0x80, 0xc2, 0, 0, 3]));
    let writer = Writer::new(&mut buffer, group, MacAddr(source), EAPOL_VERSION, &basic).unwrap();
    writer.finish(false, |_| [0xe0; 16]).unwrap().to_vec()
}

fn secy(plants: &mut Plants, own: usize) -> SecYCounters {
    *plants.plants[own].site.as_mut().unwrap().link().unwrap().pipeline().secy.counters()
}

fn assert_no_chunk_is_lost(plants: &mut Plants) {
    for own in 0..plants.plants.len() {
        let snapshot = plants.snapshot(own);
        assert_eq!(snapshot.chunks_free, snapshot.chunks, "site {own} lost a chunk");
        assert!(snapshot.chunks > 0);
    }
}

#[test]
fn machines_frames_cross_octet_for_octet_and_in_order() {
    let mut plants = Plants::secured(2);
    for round in 0..20_u32 {
        let frames = |from: usize| -> Vec<Vec<u8>> {
            let numbers = (0..250).map(|number| round * 250 + number);
            let one = |number: u32| {
                let octets = if number.is_multiple_of(3) { 1514 } else { 14 + number as usize * 7919 % 1500 };
                plain(station(1 - from as u8), station(from as u8), number, octets)
            };
            numbers.map(one).collect()
        };
        for from in 0..2 {
            for frame in frames(from) {
                assert!(plants.plants[from].lan.inject(&frame));
            }
        }
        plants.settle();
        for from in 0..2 {
            let (came, sent) = (plants.collect(1 - from), frames(from));
            assert_eq!(came.len(), sent.len(), "round {round}");
            assert!(came == sent, "something was changed or overtaken");
        }
    }
    for own in 0..2 {
        let link = plants.plants[own].site.as_mut().unwrap().link_mut().unwrap();
        let transmit = link.pipeline().secy.transmit_counters();
        assert_eq!(transmit.out_pkts_encrypted, 5000);
        let received: u64 = link.pipeline().secy.receive_scs().map(|sc| sc.counters().in_pkts_ok).sum();
        assert_eq!(received, 5000);
        let [lan, tunnel] = link.port_counters();
        assert_eq!((lan.rx_frames, lan.tx_frames), (5000, 5000));
        assert_eq!((tunnel.rx_frames, tunnel.tx_frames, tunnel.tx_dropped), (5000, 5000, 0));
        let snapshot = plants.snapshot(own);
        assert_eq!(snapshot.peers[0].counters.out_pkts_tunnelled, 5000);
        assert_eq!((snapshot.lan.rx_frames, snapshot.path.in_pkts_stations), (5000, 0));
    }
    assert_no_chunk_is_lost(&mut plants);
}

/// As in an upgrade. A PN that came again would be late at the other end, and so would one below a window that was lost.
#[test]
fn a_secy_goes_on_in_another_link_with_other_ports() {
    let mut plants = Plants::secured_without_kay(2);
    for round in 0..6_u32 {
        for from in 0..2 {
            let one = |number| plain(station(1 - from as u8), station(from as u8), round * 100 + number, 300);
            let frames: Vec<_> = (0..100).map(one).collect();
            plants.send(from, &frames);
            assert!(plants.collect(1 - from) == frames, "round {round}");
        }
        plants.go_on(round as usize % 2);
    }
    for own in 0..2 {
        let link = plants.plants[own].site.as_mut().unwrap().link_mut().unwrap();
        assert_eq!(link.pipeline().secy.transmit_counters().out_pkts_encrypted, 600);
        let pns = link.pipeline().secy.transmit_sas().next().unwrap().pns();
        assert_eq!(pns.next().unwrap().number(), 601);
        let sc = link.pipeline().secy.receive_scs().next().unwrap();
        let counters = sc.counters();
        assert_eq!((counters.in_pkts_ok, counters.in_pkts_late, counters.in_pkts_delayed), (600, 0, 0));
        let [lan, tunnel] = link.port_counters();
        assert_eq!((lan.rx_frames, lan.tx_frames), (600, 600), "those of ports that have ended too");
        assert_eq!((tunnel.rx_frames, tunnel.tx_frames), (600, 600));
    }
}

#[test]
fn a_group_of_three_gets_what_is_for_all_and_nobody_else_what_is_for_one() {
    let mut plants = Plants::secured(3);
    let flood: Vec<_> = (0..100).map(|number| plain(BROADCAST, station(0), number, 100)).collect();
    plants.send(0, &flood);
    for other in [1, 2] {
        assert!(plants.collect(other) == flood, "site {other}");
    }
    plants.send(2, &[plain(station(0), station(2), 0, 60)]);
    assert_eq!(plants.collect(0).len(), 1);
    let known: Vec<_> = (0..100).map(|number| plain(station(2), station(0), number, 1514)).collect();
    plants.send(0, &known);
    assert!(plants.collect(2) == known);
    assert_eq!(plants.collect(1), Vec::<Vec<u8>>::new());
    // The gaps that the others' frames leave in a receiver's PNs lose nothing.
    plants.send(0, &flood);
    for other in [1, 2] {
        assert!(plants.collect(other) == flood, "site {other}");
    }
    assert_no_chunk_is_lost(&mut plants);
}

/// Nothing waits for another turn, which may be long in coming.
#[test]
fn one_turn_takes_what_came_to_the_peers() {
    let mut plants = Plants::secured(2);
    let frames = [macsec(station(1), station(0), 1, 300), plain(station(1), station(0), 1, 300)];
    for frame in &frames {
        assert!(plants.plants[0].lan.inject(frame));
    }
    let said = eapol(station(200), 120);
    assert!(plants.plants[0].kay.as_mut().unwrap().send(mka::Frame::try_from(&said[..]).unwrap()));
    plants.turn();
    assert_eq!(plants.snapshot(0).peers[0].counters.out_pkts_tunnelled, 2);
    assert!(plants.plants[0].manager.eapol.receive().is_some());
    plants.settle();
    assert_eq!(plants.collect(1).len(), 2);
    assert_no_chunk_is_lost(&mut plants);
}

/// The tunnel sees MACsec alone; the SecY has seen what a machine's frame is.
#[test]
fn express_frames_of_machines_go_over_all_paths_and_others_over_one() {
    let mut plants = Plants::secured(2);
    let profinet = |number: u32| {
        let mut frame = plain(station(1), station(0), 4 * number, 100);
        frame[14..16].copy_from_slice(&[0x80, 0]);
        frame
    };
    let other = |number: u32| {
        let mut frame = profinet(number);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame
    };
    plants.send(0, &[profinet(0)]);
    assert_eq!(plants.collect(1).len(), 1, "the flow is known");
    let (to, loopback) = (plants.plants[1].address, std::net::Ipv4Addr::LOCALHOST.into());
    let sources = [Source::default(), Source { address: Some(loopback), interface: 0 }];
    for (number, source) in (0..).zip(sources) {
        plants.tell(0, ToWorker::Path { peer: peer(0, 1), number, place: Some(Place { to, source }) });
    }
    plants.tell(1, ToWorker::Tunnel(Command::ExpectCopies { peer: peer(1, 0) }));
    for (copies, expected) in [(Copies::Express, [20, 0]), (Copies::None, [0, 0]), (Copies::All, [20, 20])] {
        plants.tell(0, ToWorker::Copies { peer: peer(0, 1), copies });
        plants.settle();
        let bursts: [Vec<_>; 2] = [(1..21).map(profinet).collect(), (1..21).map(other).collect()];
        for (frames, expected) in bursts.into_iter().zip(expected) {
            let before = plants.snapshot(0).path.out_pkts_copies;
            plants.send(0, &frames);
            assert!(plants.collect(1) == frames, "{copies:?}: each once");
            assert_eq!(plants.snapshot(0).path.out_pkts_copies - before, expected, "{copies:?}");
        }
    }
    assert_no_chunk_is_lost(&mut plants);
}

#[test]
fn without_a_key_no_frame_of_a_machine_passes() {
    let mut plants = Plants::secured(2);
    let link = plants.plants[0].site.as_mut().unwrap().link_mut().unwrap();
    let an = link.pipeline().secy.encoding_sa().unwrap();
    drop(link.pipeline_mut().secy.retire_transmit(an));
    plants.send(0, &(0..50).map(|number| plain(BROADCAST, station(0), number, 200)).collect::<Vec<_>>());
    assert_eq!(plants.collect(1), Vec::<Vec<u8>>::new());
    assert_eq!(plants.snapshot(0).peers[0].counters.out_pkts_tunnelled, 0);
    assert_no_chunk_is_lost(&mut plants);
}

#[test]
fn stations_with_a_secy_of_their_own_pass_beside_it_unchanged() {
    let mut plants = Plants::secured(2);
    let mut frames = vec![];
    for number in 1..=100 {
        frames.push(macsec(station(1), station(0), number, 300));
        frames.push(plain(station(1), station(0), number, 300));
    }
    plants.send(0, &frames);
    let came = plants.collect(1);
    let of = |frames: &[Vec<u8>], macsec: bool| -> Vec<Vec<u8>> {
        frames.iter().filter(|frame| (frame[12..14] == [0x88, 0xe5]) == macsec).cloned().collect()
    };
    for macsec in [true, false] {
        assert_eq!(of(&came, macsec).len(), 100);
        assert!(of(&came, macsec) == of(&frames, macsec));
    }
    let snapshot = plants.snapshot(1);
    assert_eq!(snapshot.path.in_pkts_stations, 100);
    assert_eq!(secy(&mut plants, 1), SecYCounters::default(), "they are none of the SecY's");
    assert_no_chunk_is_lost(&mut plants);
}

/// A station's frame under this SCI.
fn macsec_of(sci: Sci, to: [u8; 6], from: [u8; 6], pn: u32) -> Vec<u8> {
    let mut frame = macsec(to, from, pn, 300);
    frame[20..28].copy_from_slice(&sci.octets());
    frame
}

/// Whoever is on a LAN can send what looks like another SecY's frames: it is verified, and that is its end.
#[test]
fn forged_and_replayed_frames_of_a_lan_do_not_reach_a_machine() {
    let mut plants = Plants::secured(3);
    plants.send(0, &[plain(station(1), station(0), 0, 100)]);
    assert_eq!([plants.collect(1).len(), plants.collect(2).len()], [1, 1]);
    // The first site's SCI, from the third one's LAN; and the second one's own, as if what it sent came back to it.
    for sci in [sci_of(0), sci_of(1)] {
        let forged: Vec<_> = (2..52).map(|pn| macsec_of(sci, station(1), station(2), pn)).collect();
        plants.send(2, &forged);
    }
    assert_eq!(plants.collect(1), Vec::<Vec<u8>>::new());
    let receive: u64 = {
        let link = plants.plants[1].site.as_mut().unwrap().link().unwrap();
        link.pipeline().secy.receive_scs().map(|sc| sc.counters().in_pkts_not_valid).sum()
    };
    assert_eq!(receive, 50);
    // Neither moved a window.
    plants.send(0, &[plain(station(1), station(0), 4, 100)]);
    assert_eq!(plants.collect(1).len(), 1);
    assert_no_chunk_is_lost(&mut plants);
}

/// The own SCI is the SecY's alone: under it a machine would send what the others count as forged frames of this site.
#[test]
fn a_machine_does_not_send_under_the_sites_own_sci() {
    let mut plants = Plants::secured(2);
    let mut frames = vec![];
    for pn in 1..=50 {
        frames.push(macsec_of(sci_of(0), station(1), station(0), pn));
        frames.push(macsec(station(1), station(0), pn, 300));
        frames.push(plain(station(1), station(0), pn, 300));
    }
    plants.send(0, &frames);
    assert_eq!(plants.collect(1).len(), 100);
    let snapshot = plants.snapshot(0);
    assert_eq!(snapshot.peers[0].counters.out_pkts_tunnelled, 100);
    assert_eq!(snapshot.path.out_pkts_own_sci, 50);
    // The others' KaYs would hear it as this site's.
    let (own, others) = (mkpdu([2, 0, 0, 0, 0xdd, 0]), mkpdu(station(9)));
    assert_eq!(Mkpdu::parse(&own).unwrap().basic.sci, sci_of(0));
    plants.send(0, &[own, others.clone()]);
    let taken: Vec<_> = std::iter::from_fn(|| plants.plants[0].manager.eapol.receive()).collect();
    assert!(taken.len() == 1 && taken[0][..] == others[..]);
    assert_eq!(plants.snapshot(0).path.out_pkts_own_sci, 51);
    let link = plants.plants[1].site.as_mut().unwrap().link().unwrap();
    let failed: u64 = link.pipeline().secy.receive_scs().map(|sc| sc.counters().in_pkts_not_valid).sum();
    assert_eq!(failed, 0);
    assert_no_chunk_is_lost(&mut plants);
}

/// With static keys nobody else would tell that the peer's `sci` is another one than is configured here.
#[test]
fn the_sci_of_what_passes_to_stations_is_noted_and_is_no_discard() {
    let mut plants = Plants::secured(2);
    let other = Sci::new(MacAddr([2, 0, 0, 0, 0xee, 9]), 1);
    let frames: Vec<_> = (1..=50).map(|pn| macsec_of(other, station(1), station(0), pn)).collect();
    plants.send(0, &frames);
    assert!(plants.collect(1) == frames);
    let mut snapshot = LinkSnapshot::default();
    snapshot.fill(plants.plants[1].site.as_mut().unwrap().link_mut().unwrap());
    assert_eq!(snapshot.pipeline.in_pkts_other_sci, 50);
    assert_eq!(snapshot.passed, Some(UnmatchedFrame { sci: Some(other), an: An::ALL[0] }));
    assert_eq!(snapshot.stranger, None, "it was not discarded");
    assert_no_chunk_is_lost(&mut plants);
}

#[test]
fn where_there_is_no_kay_mkpdus_are_stations() {
    let mut plants = Plants::secured_without_kay(2);
    let said = mkpdu(station(200));
    assert!(Mkpdu::parse(&said).is_ok(), "it is whole");
    assert!(plants.plants[1].manager.eapol.send(LanFrame::try_from(&said[..]).unwrap()));
    plants.settle();
    assert_eq!(plants.collect(1), [said]);
    let link = plants.plants[1].site.as_mut().unwrap().link().unwrap();
    assert_eq!(link.pipeline().counters().in_pkts_eapol, 0);
    assert_eq!(plants.snapshot(1).path.in_pkts_stations, 1);
    assert_no_chunk_is_lost(&mut plants);
}

#[test]
fn the_kay_speaks_and_hears_through_the_channel_whoever_floods_the_lan() {
    let mut plants = Plants::secured(2);
    let said = eapol(station(200), 120);
    let flood: Vec<_> = (0..200).map(|number| eapol(station(number), 100)).collect();
    plants.send(0, &flood);
    while plants.plants[0].manager.eapol.receive().is_some() {}
    plants.send(0, &flood);
    assert!(plants.plants[0].kay.as_mut().unwrap().send(mka::Frame::try_from(&said[..]).unwrap()));
    plants.settle();
    let taken: Vec<_> = std::iter::from_fn(|| plants.plants[0].manager.eapol.receive()).collect();
    assert!(taken.iter().any(|frame| frame[..] == said[..]), "the own KaY is heard");
    assert!(plants.snapshot(0).path.out_mkpdus_flood > 0, "it was a flood");
    assert_eq!(plants.collect(0), Vec::<Vec<u8>>::new(), "the LAN does not hear the KaY");
    // The other end: the KaY hears it, and so do stations, whose it may be.
    for own in [0, 1] {
        assert!(
            plants.plants[own].kay.as_mut().unwrap().receive().is_none(),
            "a LAN says nothing to its own KaY"
        );
    }
    let mut tagged = eapol(station(3), 120);
    tagged.splice(12..12, [0x81, 0, 0, 9]);
    for frame in [&said, &tagged] {
        assert!(plants.plants[1].manager.eapol.send(LanFrame::try_from(&frame[..]).unwrap()));
    }
    plants.settle();
    let kay = plants.plants[1].kay.as_mut().unwrap();
    assert!(kay.receive().is_none(), "it is no whole MKPDU");
    assert_eq!(plants.collect(1), [said, tagged]);
    assert_no_chunk_is_lost(&mut plants);
}
