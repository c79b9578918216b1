//! A site that sends from two workers: two halves with a lane each, and a peer that receives both.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use suite::tunnel::EpochSecret;
use tunnel::{
    Command, Delivery, Destination, Event, Forwarding, Generation, LaneShare, Limits, Location, Mode,
    PacketSource, PeerId, PeerSettings, Settings,
};
use wire::{Instant, MacAddr};

const PEER: PeerId = PeerId(0);
const GENERATION: Generation = Generation(1);
const DESTINATION: [u8; 6] = [2, 0, 0, 0, 0xee, 1];

fn settings() -> Settings {
    Settings {
        peers: vec![PeerSettings { mode: Mode::Identifier, path_payload: 1472 }],
        lan_frame: 1518,
        limits: Limits::default(),
        window: 256,
        table_seed: [7; 16],
    }
}

fn frame(station: u8, pn: u32) -> Vec<u8> {
    let from = [2, 0, 0, 0, 0xee, station];
    let tag = [0x88, 0xe5, 0x2c, 0];
    [&DESTINATION[..], &from, &tag, &pn.to_be_bytes(), &from, &[0, 1], &[station; 64]].concat()
}

fn secret() -> EpochSecret {
    EpochSecret::new(&[0x3c; 32])
}

/// The two halves of the site, and the peer's.
fn acquainted() -> ([Forwarding; 2], Forwarding) {
    let now = Instant::START;
    let shares = [0, 1].map(|worker| LaneShare::new(worker, 2).unwrap());
    let mut halves = shares.map(|share| Forwarding::on_lane(settings(), share));
    let mut peer = Forwarding::new(settings());
    peer.handle_command(now, Command::Begin { peer: PEER, generation: GENERATION });
    let lanes = shares[0].lanes();
    let install =
        Command::InstallReceive { peer: PEER, generation: GENERATION, epoch: 1, secret: secret(), lanes };
    peer.handle_command(now, install);
    (0..64).for_each(|_| peer.handle_timeout(now));
    assert!(matches!(peer.poll_event(), Some(Event::ReceiveReady { epoch: 1, .. })));
    for half in &mut halves {
        for command in [
            Command::Begin { peer: PEER, generation: GENERATION },
            Command::InstallTransmit { peer: PEER, generation: GENERATION, epoch: 1, secret: secret() },
        ] {
            assert!(command.goes_to_all_lanes());
            half.handle_command(now, command);
        }
    }
    let heard = Command::StationHeard { address: MacAddr(DESTINATION), location: Location::Behind(PEER) };
    assert!(!heard.goes_to_all_lanes());
    halves[0].handle_command(now, heard);
    (halves, peer)
}

#[test]
fn both_lanes_are_received_and_share_neither_identifiers_nor_numbers() {
    let ([mut first, mut second], mut peer) = acquainted();
    let now = Instant::START;
    let (mut rids, mut numbers) = (BTreeSet::new(), [BTreeSet::new(), BTreeSet::new()]);
    for pn in 1..=600 {
        for station in 10..26 {
            let frame = frame(station, pn);
            let route = first.route(now, &frame).unwrap();
            assert_eq!(route.destination, Destination::Peer(PEER));
            let worker = usize::from(station % 2);
            let half = if worker == 0 { &mut first } else { &mut second };
            let [packet] =
                half.dispatch(now, &route, PEER, &frame).into_iter().collect::<Vec<_>>().try_into().unwrap();
            // Announced once, and in short form from then on: 16 octets.
            assert_eq!(packet.header.len() == 16, pn > 1, "{station} {pn}");
            let octets = [&packet.header[..], &frame[packet.body]].concat();
            assert!(rids.insert(octets[..6].to_vec()), "an identifier came again");
            match peer.handle_packet(now, PacketSource::Identifier, &octets) {
                Ok(Delivery::Frame { prefix, body, .. }) => {
                    assert_eq!([&prefix[..], &octets[body]].concat(), frame);
                }
                other => panic!("{other:?}"),
            }
            while let Some(event) = half.poll_event() {
                let Event::Announce { index, flow, request, .. } = event else { panic!("{event:?}") };
                assert!(numbers[worker].insert(index.0), "{index:?} twice");
                let add = Command::AddFlow { peer: PEER, generation: GENERATION, index, flow, request };
                peer.handle_command(now, add);
            }
            while let Some(event) = peer.poll_event() {
                let Event::FlowAccepted { index, request, .. } = event else { panic!("{event:?}") };
                // Both hear it, and the one whose number it is acts on it.
                for half in [&mut first, &mut second] {
                    half.handle_command(
                        now,
                        Command::Announced { peer: PEER, generation: GENERATION, index, request },
                    );
                }
            }
            peer.handle_timeout(now);
        }
    }
    assert_eq!(numbers.each_ref().map(BTreeSet::len), [8, 8]);
    assert!(
        numbers[0].iter().all(|number| number % 2 == 0) && numbers[1].iter().all(|number| number % 2 == 1)
    );
    assert_eq!([&first, &second].map(|half| half.peer_counters(PEER).out_pkts_tunnelled), [4800; 2]);
}

#[test]
fn each_half_answers_for_its_own_lane() {
    let (halves, _) = acquainted();
    let now = Instant::START;
    let answers = halves.map(|mut half| {
        [0, 1, 2].map(|lane| {
            half.handle_command(
                now,
                Command::RequestPosition { peer: PEER, generation: GENERATION, epoch: 1, lane },
            );
            half.poll_event().map(|event| match event {
                Event::Position { lane, .. } => lane,
                other => panic!("{other:?}"),
            })
        })
    });
    assert_eq!(answers, [[Some(0), None, None], [None, None, Some(2)]]);
}
