//! Sites over LANs in memory and real UDP sockets: what crosses, what does not, and who counted it.

#![allow(clippy::unwrap_used)]

mod plants;

use std::io::Read;
use std::net::UdpSocket;

use dataplane::site::{LanFrame, ToWorker};
use netdev::udp::Offloads;
use plants::{Plants, eapol, lan, macsec, peer, station};
use testkit::frames::payload;
use tunnel::{Command, Generation, Mode, PeerId};

const MODES: [Mode; 3] = [Mode::Identifier, Mode::HeaderEncryption, Mode::Plain { vni: 42 }];
const BROADCAST: [u8; 6] = [0xff; 6];

/// Lengths of frames: from the shortest to the longest that the LAN of a test carries whole.
fn length(number: u32, longest: usize) -> usize {
    // A third of them equal, as in a transfer.
    if number.is_multiple_of(3) { longest } else { 60 + number as usize * 7919 % (longest - 59) }
}

#[test]
fn frames_cross_octet_for_octet_and_in_order_in_every_mode() {
    for mode in MODES {
        // Split by the two protected modes if longer than the path; plain has no way to.
        let longest = if matches!(mode, Mode::Plain { .. }) { 1464 } else { 1514 };
        let mut plants = Plants::new(2, mode, Offloads::default());
        // Both flows are known, since header encryption lets no more than 64 frames of a new one wait.
        for from in [0, 1] {
            plants.send(from, &[macsec(station(1 - from as u8), station(from as u8), 1, 60)]);
            assert_eq!(plants.collect(1 - from).len(), 1, "{mode:?}");
        }
        for round in 0..20 {
            let frames = |from: usize| -> Vec<Vec<u8>> {
                let pns = (0..250).map(|number| 2 + round * 250 + number);
                let one = |pn| macsec(station(1 - from as u8), station(from as u8), pn, length(pn, longest));
                pns.map(one).collect()
            };
            for from in 0..2 {
                for frame in frames(from) {
                    assert!(plants.plants[from].lan.inject(&frame));
                }
            }
            plants.settle();
            for from in 0..2 {
                let (came, sent) = (plants.collect(1 - from), frames(from));
                assert_eq!(came.len(), sent.len(), "{mode:?} round {round}");
                assert!(came == sent, "{mode:?}: something was changed or overtaken");
            }
        }
        for own in 0..2 {
            let snapshot = plants.snapshot(own);
            assert_eq!(snapshot.lan.rx_frames, 5001);
            assert_eq!(snapshot.peers[0].counters.out_pkts_tunnelled, 5001);
            assert_eq!(snapshot.peers[0].counters.in_pkts_tunnelled, 5001);
            assert_eq!(snapshot.chunks_free, snapshot.chunks, "a chunk was lost");
            assert_eq!(snapshot.stations.len(), 2);
            let split = snapshot.peers[0].counters.out_pkts_split;
            assert_eq!(split > 1000, longest == 1514, "{mode:?}: {split} split");
        }
    }
}

#[test]
fn frames_cross_without_help_of_the_kernel() {
    let offloads = Offloads { segmentation: false, merging: false };
    let mut plants = Plants::new(2, Mode::Identifier, offloads);
    let frames: Vec<_> = (1..=1000).map(|pn| macsec(station(1), station(0), pn, length(pn, 1514))).collect();
    plants.send(0, &frames[..200]);
    let mut came = plants.collect(1);
    for frames in frames[200..].chunks(200) {
        plants.send(0, frames);
        came.extend(plants.collect(1));
    }
    assert!(came == frames);
}

#[test]
fn unknown_and_group_destinations_go_to_all_sites_and_known_ones_to_one() {
    for mode in MODES {
        // Plain peers are told apart by their addresses, and on loopback all have one.
        if matches!(mode, Mode::Plain { .. }) {
            continue;
        }
        let mut plants = Plants::new(4, mode, Offloads::default());
        let flood: Vec<_> = (1..=100).map(|pn| macsec(BROADCAST, station(0), pn, 60 + pn as usize)).collect();
        plants.send(0, &flood[..1]);
        plants.send(0, &flood[1..]);
        for other in 1..4 {
            assert!(plants.collect(other) == flood, "{mode:?}: site {other}");
        }
        // Site 2 answers; from here on only site 2 gets what is for its station.
        plants.send(2, &[macsec(station(0), station(2), 1, 100)]);
        assert_eq!(plants.collect(0).len(), 1);
        let known: Vec<_> = (101..=200).map(|pn| macsec(station(2), station(0), pn, 300)).collect();
        plants.send(0, &known[..1]);
        plants.send(0, &known[1..]);
        assert!(plants.collect(2) == known);
        for other in [0, 1, 3] {
            assert_eq!(plants.collect(other), Vec::<Vec<u8>>::new(), "{mode:?}: site {other}");
        }
        // A station of the same LAN: nowhere. What came out of a tunnel goes into none.
        plants.send(0, &[macsec(station(0), station(9), 1, 60), macsec(BROADCAST, station(2), 2, 60)]);
        let snapshot = plants.snapshot(0);
        assert_eq!((snapshot.tunnel.out_pkts_local, snapshot.tunnel.out_pkts_loop), (1, 1));
        assert_eq!((snapshot.tunnel.out_pkts_flooded, snapshot.tunnel.out_pkts_unicast), (100, 100));
    }
}

#[test]
fn the_management_channel_shares_the_data_port() {
    let mut plants = Plants::new(2, Mode::Identifier, Offloads::default());
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut bell = plants.plants[0].manager.socket().unwrap();
    for octets in [1, 100, 1200, 1452] {
        let mut packet = payload(octets, 1);
        packet[0] |= 0x40;
        stranger.send_to(&packet, plants.plants[0].address).unwrap();
        plants.settle();
        let mut into = [0; 2048];
        let (from, len) = plants.plants[0].datagrams.pop(&mut into).unwrap();
        assert_eq!((from, &into[..len]), (stranger.local_addr().unwrap(), &packet[..]));
        assert_eq!(bell.read(&mut [0]).unwrap(), 1, "the manager was woken");
        plants.plants[0].manager.woken();
    }
    // More than wait for the manager: counted, and nothing else suffers.
    let packet = [0x40; 1400];
    for _ in 0..1000 {
        stranger.send_to(&packet, plants.plants[0].address).unwrap();
        plants.turn();
    }
    plants.settle();
    let path = plants.snapshot(0).path;
    assert_eq!(path.in_datagrams + path.in_datagrams_dropped, 1004);
    assert!(path.in_datagrams_dropped > 100);
}

#[test]
fn eapol_goes_through_the_manager_and_with_plain_peers_in_band() {
    for mode in MODES {
        let plain = matches!(mode, Mode::Plain { .. });
        let mut plants = Plants::new(2, mode, Offloads::default());
        let mut mka: Vec<_> = (0..10).map(|number| eapol(station(0), 100 + number)).collect();
        // KaYs of interfaces of VLANs.
        mka[3].splice(12..12, [0x81, 0, 0xe0, 7]);
        mka[6].splice(12..12, [0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]);
        plants.send(0, &mka);
        let taken: Vec<_> = std::iter::from_fn(|| plants.plants[0].manager.eapol.receive()).collect();
        let (in_band, by_manager) = if plain { (10, 0) } else { (0, 10) };
        assert_eq!(taken.len(), by_manager, "{mode:?}");
        assert!(taken.iter().zip(&mka).all(|(taken, sent)| taken[..] == sent[..]));
        let came = plants.collect(1);
        assert_eq!(came.len(), in_band, "{mode:?}");
        assert!(came.iter().zip(&mka).all(|(came, sent)| came == sent));
        for frame in &mka {
            assert!(plants.plants[1].manager.eapol.send(LanFrame::try_from(&frame[..]).unwrap()));
        }
        plants.settle();
        assert!(plants.collect(1) == mka);
        // More than wait for the manager, or longer than it takes; what else a LAN says is not carried.
        let mut tagged = macsec(BROADCAST, station(0), 1, 60);
        tagged.splice(12..12, [0x81, 0, 0xe0, 0].repeat(3));
        let mut pause = vec![1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 0x08, 0, 1];
        pause.resize(60, 0);
        plants.send(0, &vec![eapol(station(0), 200); 300]);
        let mut logoff = eapol(station(0), 60);
        logoff[15] = 2;
        plants.send(0, &[logoff, eapol(station(0), 1600), tagged, pause, vec![0; 60], vec![0; 14]]);
        let snapshot = plants.snapshot(0);
        let tunnel = snapshot.tunnel;
        let counted = (tunnel.out_pkts_not_macsec, tunnel.out_pkts_too_short);
        assert_eq!((snapshot.path.out_pkts_mac_control, counted), (1, (2, 1)), "{mode:?}");
        assert_eq!(snapshot.path.out_eapol_other, 1);
        if plain {
            assert_eq!((snapshot.path.out_eapol, snapshot.path.out_eapol_dropped), (0, 0));
            assert_eq!((snapshot.path.out_eapol_plain, plants.collect(1).len()), (310, 300));
        } else {
            assert_eq!(snapshot.path.out_eapol + snapshot.path.out_mkpdus_flood, 10 + 300);
            assert!(snapshot.path.out_mkpdus_flood > 40);
            assert_eq!(snapshot.path.out_eapol_dropped, 1);
            assert_eq!(plants.collect(1).len(), 0);
        }
    }
}

/// Switches learn from MKPDUs as from any frame: one in the name of another plant's machine would draw that machine's frames.
#[test]
fn an_mkpdu_in_the_name_of_a_station_that_was_heard_elsewhere_goes_nowhere() {
    let carried = |plants: &mut Plants, plain: bool| {
        let taken = std::iter::from_fn(|| plants.plants[1].manager.eapol.receive());
        let taken: Vec<LanFrame> = taken.collect();
        for frame in &taken {
            assert!(plants.plants[0].manager.eapol.send(frame.clone()) && !plain);
        }
        plants.settle();
        plants.collect(0)
    };
    for mode in MODES {
        let plain = matches!(mode, Mode::Plain { .. });
        let mut plants = Plants::new(2, mode, Offloads::default());
        // Of plant 0's LAN: a station that plant 1 hears of, and one that it does not.
        plants.send(0, &[macsec(BROADCAST, station(0), 1, 60), macsec(station(0), station(7), 1, 60)]);
        assert_eq!(plants.collect(1).len(), 1, "{mode:?}");
        let others = eapol(station(5), 100);
        plants.send(1, &[eapol(station(0), 100), eapol(station(7), 100), others.clone()]);
        assert!(carried(&mut plants, plain) == [others], "{mode:?}");
        assert_eq!(plants.snapshot(1).path.out_mkpdus_loop, 1, "{mode:?}");
        let inward = plants.snapshot(0);
        let here = [inward.path.in_mkpdus_source_here, inward.peers[0].counters.in_pkts_source_here];
        assert_eq!(here, if plain { [0, 1] } else { [1, 0] }, "{mode:?}");
        let places = plants.snapshot(0).stations.len();
        assert_eq!(places, 2, "{mode:?}: MKPDUs teach nothing");
    }
}

#[test]
fn garbage_on_every_port_is_counted_and_moves_nothing() {
    for mode in MODES {
        let mut plants = Plants::new(2, mode, Offloads::default());
        let frames: Vec<_> = (1..=50).map(|pn| macsec(station(1), station(0), pn, 500)).collect();
        plants.send(0, &frames[..1]);
        assert_eq!(plants.collect(1).len(), 1);
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wan = plants.plants[1].site.as_ref().unwrap().wan();
        let ports = [wan.data(), wan.header(), wan.plain()].map(|port| port.map(|port| port.address()));
        let mut sent = 0;
        for (number, address) in ports.iter().flatten().cycle().take(2000).enumerate() {
            let mut packet = payload(number * 31 % 1472, number as u64);
            if let Some(first) = packet.first_mut() {
                *first &= !0x40;
            }
            stranger.send_to(&packet, address).unwrap();
            sent += 1;
            if number % 50 == 0 {
                plants.settle();
            }
        }
        plants.settle();
        assert_eq!(plants.collect(1), Vec::<Vec<u8>>::new(), "{mode:?}: garbage on the LAN");
        let snapshot = plants.snapshot(1);
        let tunnel = snapshot.tunnel;
        let peer = snapshot.peers[0].counters;
        let counted = snapshot.path.in_pkts_unknown_address
            + tunnel.in_pkts_unknown_identifier
            + tunnel.in_pkts_too_short
            + tunnel.in_pkts_wrong_mode
            + peer.in_pkts_bad_vni
            + peer.in_pkts_not_macsec
            + peer.in_pkts_bad_header
            + peer.in_pkts_forged_header;
        assert_eq!(counted, sent, "{mode:?} {snapshot:?}");
        assert_eq!(snapshot.chunks_free, snapshot.chunks);
        assert_eq!(snapshot.peers[0].endpoint, Some(plants.plants[0].address), "nothing moves it");
        // Genuine frames come through as before.
        plants.send(0, &frames[1..]);
        assert!(plants.collect(1) == frames[1..], "{mode:?}");
    }
}

#[test]
fn without_an_address_or_a_lan_frames_are_counted_and_all_goes_on_afterwards() {
    let mut plants = Plants::new(2, Mode::Identifier, Offloads::default());
    let mut pn = 0;
    let mut frames = |count: u32| -> Vec<Vec<u8>> {
        pn += count;
        (pn - count..pn).map(|pn| macsec(station(1), station(0), pn + 1, 200)).collect()
    };
    plants.tell(0, ToWorker::Endpoint { peer: PeerId(0), address: None });
    plants.send(0, &frames(7));
    assert_eq!(plants.snapshot(0).path.out_pkts_no_endpoint, 7);
    let address = Some(plants.plants[1].address);
    plants.tell(0, ToWorker::Endpoint { peer: peer(0, 1), address });

    let before = plants.plants[1].site.as_mut().unwrap().close().unwrap();
    assert_eq!(before.pool.free(), before.pool.total());
    drop(before);
    plants.send(0, &frames(5));
    let mut into = [0; 8];
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(&[0x40; 8], plants.plants[1].address).unwrap();
    plants.settle();
    assert!(plants.plants[1].datagrams.pop(&mut into).is_some(), "the channel does not notice");
    let snapshot = plants.snapshot(1);
    assert_eq!((snapshot.path.in_pkts_no_lan, snapshot.chunks), (5, 0));

    let (own, other) = lan();
    assert!(plants.plants[1].site.as_mut().unwrap().open(own).is_none());
    plants.plants[1].lan = other;
    let last = frames(300);
    plants.send(0, &last);
    assert!(plants.collect(1) == last);
    assert_eq!(plants.snapshot(1).lan.tx_frames, 300);
}

/// When many peers restart at once, frames of the others pass between.
#[test]
fn one_peer_a_turn_begins_anew() {
    let mut plants = Plants::new(3, Mode::Identifier, Offloads::default());
    let begin = |number: u16| {
        ToWorker::Tunnel(Command::Begin { peer: PeerId(number % 2), generation: Generation(number.into()) })
    };
    let payload = |octets| ToWorker::Tunnel(Command::PathPayload { peer: PeerId(0), octets });
    for word in [payload(1300), payload(1400), begin(8), begin(9), payload(1200), payload(1300), begin(10)] {
        plants.tell(0, word);
    }
    // Two others with the first, one alone, and two others with the last.
    let turns: Vec<_> = (0..4).map(|_| plants.turn()).collect();
    assert_eq!(turns, [3, 1, 3, 0]);
}
