//! Packets that are relayed: what the forwarding halves of a hub and its spokes make of them.

mod ends;

use ends::{Sites, settings};
use tunnel::{
    Command, Delivery, Discard, FrameKinds, InDiscard, Limits, Mode, PacketSource, PeerSettings, RelayLeg,
    SiteName,
};

const FAR: SiteName = [0xfa; 20];
const SHORT: usize = 16;
const LONG: usize = 48;

/// Two sites, of which the first takes all kinds of frames of the other one, and the other one relays if it is to.
fn sites(mode: Mode, relays: bool) -> Sites {
    let settings = settings(1);
    let peers = vec![PeerSettings { mode, ..settings.peers[0].clone() }];
    sites_of(&tunnel::Settings { peers, ..settings }, relays)
}

fn sites_of(settings: &tunnel::Settings, relays: bool) -> Sites {
    let mut sites = Sites::new(2, settings);
    if relays {
        sites.sites[1].forwarding.relay_for_peers();
    }
    for (site, other) in [(0, 1), (1, 0)] {
        let peer = sites.peer(site, other);
        let generation = sites.sites[site].generations[peer.index()];
        sites.command(site, Command::TakesFrames { peer, generation, frames: FrameKinds::ALL });
    }
    sites
}

/// A packet from the first site for another one. `None` if it cannot go.
fn packet(sites: &mut Sites, leg: RelayLeg, body: &[u8]) -> Option<Vec<u8>> {
    let (now, peer) = (sites.now, sites.peer(0, 1));
    let header = sites.sites[0].forwarding.relay(now, peer, (leg, FAR), body.len());
    sites.settle();
    Some([&header?, body].concat())
}

/// The leg and the site that the second one finds in it, and the body.
fn arrive(sites: &mut Sites, packet: &[u8]) -> Result<(RelayLeg, SiteName, Vec<u8>), Discard> {
    let now = sites.now;
    match sites.sites[1].forwarding.handle_packet(now, PacketSource::Identifier, packet)? {
        Delivery::Relayed { from, leg, site, body } => {
            assert_eq!(from.0, 0);
            Ok((leg, site, packet[body].to_vec()))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_packet_arrives_as_it_was_with_its_leg_and_site_and_teaches_nothing_of_stations() {
    for leg in [RelayLeg::To, RelayLeg::From] {
        let mut sites = sites(Mode::Identifier, true);
        for (number, octets) in [0, 1, 60, 1200, 1472 - LONG].into_iter().enumerate() {
            let body: Vec<u8> = (0..octets).map(|octet| (octet * 7 + number) as u8).collect();
            let packet = packet(&mut sites, leg, &body).expect("it goes");
            // The flow is known as soon as it was announced.
            assert_eq!(packet.len() - body.len(), if number == 0 { LONG } else { SHORT });
            assert_eq!(arrive(&mut sites, &packet), Ok((leg, FAR, body)));
            assert!(arrive(&mut sites, &packet).is_err(), "a copy is taken");
        }
        assert_eq!(sites.sites[1].forwarding.stations().count(), 0);
        let peer = sites.peer(0, 1);
        let [sent, came] = [0, 1].map(|site| sites.sites[site].forwarding.peer_counters(peer));
        assert_eq!((sent.out_pkts_relayed, sent.out_pkts_tunnelled), (5, 0));
        assert_eq!((came.in_pkts_relayed, came.in_pkts_tunnelled), (5, 0));
    }
}

/// The sites at both ends look for what their way carries, from 1200 octets on, and the relay for what a leg does. What the leg is not known
/// to carry goes all the same: else packets of 1200 octets would not get through while the leg is believed to carry as many.
#[test]
fn a_packet_goes_whole_whatever_is_known_of_the_leg() {
    for leg in [RelayLeg::To, RelayLeg::From] {
        let mut sites = sites(Mode::Identifier, true);
        let peer = sites.peer(0, 1);
        sites.command(0, Command::PathPayload { peer, octets: 1200 });
        let lengths = [1200 - LONG, 1200 - SHORT, 1200 - SHORT + 1, 1200, 1472 - SHORT];
        for octets in lengths {
            let body = vec![7; octets];
            let packet = packet(&mut sites, leg, &body).expect("it goes");
            assert_eq!(arrive(&mut sites, &packet), Ok((leg, FAR, body)), "{octets}");
        }
        let counters = sites.sites[0].forwarding.peer_counters(peer);
        assert_eq!((counters.out_pkts_too_long, counters.out_pkts_relayed), (0, lengths.len() as u64));
        assert_eq!(counters.out_pkts_split, 0);
    }
}

#[test]
fn nobody_is_sent_what_it_does_not_take() {
    for (takes, leg, goes) in [
        (FrameKinds::ALWAYS, RelayLeg::To, false),
        (FrameKinds::ALWAYS, RelayLeg::From, true),
        (FrameKinds::TO_SITES, RelayLeg::To, true),
        (FrameKinds::TO_SITES, RelayLeg::From, false),
        // Of an earlier version.
        (FrameKinds::default(), RelayLeg::From, false),
    ] {
        let mut sites = sites(Mode::Identifier, true);
        let peer = sites.peer(0, 1);
        let generation = sites.sites[0].generations[peer.index()];
        sites.command(0, Command::TakesFrames { peer, generation, frames: takes });
        assert_eq!(packet(&mut sites, leg, &[0; 60]).is_some(), goes, "{takes:?} {leg:?}");
        let counters = sites.sites[0].forwarding.peer_counters(peer);
        assert_eq!(counters.out_pkts_not_relayed, u64::from(!goes));
    }
    let mut sites = sites(Mode::HeaderEncryption, true);
    assert!(packet(&mut sites, RelayLeg::To, &[0; 60]).is_none());
    assert_eq!(sites.sites[0].forwarding.peer_counters(sites.peer(0, 1)).out_pkts_not_relayed, 1);
}

#[test]
fn a_relayed_packet_waits_for_no_quota_of_the_lan() {
    let settings = settings(1);
    let limits = Limits { flows: 1, new_flows_per_second: 0, ..settings.limits };
    let mut sites = sites_of(&tunnel::Settings { limits, ..settings }, true);
    let first = packet(&mut sites, RelayLeg::To, &[0; 60]).expect("it goes");
    assert!(arrive(&mut sites, &first).is_ok());
}

#[test]
fn a_site_that_does_not_relay_takes_nothing_for_others() {
    let mut sites = sites(Mode::Identifier, false);
    let packet_to =
        packet(&mut sites, RelayLeg::To, &[0; 60]).expect("the first one believes that it relays");
    let peer = sites.peer(1, 0);
    assert_eq!(arrive(&mut sites, &packet_to), Err(Discard::Of(peer, InDiscard::BadHeader)));
    let flows = sites.sites[1].forwarding.announced_flows(peer);
    assert_eq!(flows, 0, "nor is such a flow announced in vain");
    let packet_from = packet(&mut sites, RelayLeg::From, &[0; 60]).expect("it goes");
    assert!(arrive(&mut sites, &packet_from).is_ok());
}
