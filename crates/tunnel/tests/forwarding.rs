//! Forwarding halves, two and three of them, over wires without faults.

mod ends;

use std::time::Duration;

use ends::{Sites, frame, frame_between, octets, settings};
use suite::tunnel::EpochSecret;
use tunnel::{
    Command, Destination, Discard, Event, Forwarding, FrameKinds, Generation, InDiscard, Limits, Location,
    Mode, PacketSource, PeerId, PeerSettings, PreparedPeer, RequestId, Settings, UnknownDiscard,
};
use wire::MacAddr;
use wire::tunnel::{
    Flow, FlowIndex, Header, LONG_HEADER_OCTETS as LONG, PacketFields, PacketForm, ParsedFrame,
    SHORT_HEADER_OCTETS as SHORT,
};
const P0: PeerId = PeerId(0);

/// Two sites whose flow from station 1 to station 2 is acknowledged, and who know where both stations are.
fn acquainted(settings: &Settings) -> Sites {
    let mut sites = Sites::new(2, settings);
    for (site, from, to) in [(0, 1, 2), (1, 2, 1), (0, 1, 2)] {
        sites.send(site, &frame(from, to, 1, 100));
        sites.deliver_all(site);
        sites.settle();
    }
    sites.take_delivered(0);
    sites.take_delivered(1);
    sites
}

#[test]
fn the_first_frame_arrives_and_later_ones_are_short() {
    let mut sites = Sites::new(2, &settings(1));
    let first = frame(1, 2, 1, 200);
    assert!(sites.send(0, &first));
    let packets = sites.take_sent(0);
    assert_eq!(packets.len(), 1);
    assert_eq!(packets[0].1.len(), 200 - 28 + LONG);
    assert_eq!(sites.arrive(0, 1, &packets[0].1).as_deref(), Some(&first[..]));
    sites.settle();
    let second = frame(1, 2, 2, 200);
    sites.send(0, &second);
    let packets = sites.take_sent(0);
    assert_eq!(packets[0].1.len(), 200 - 28 + SHORT);
    assert_eq!(sites.arrive(0, 1, &packets[0].1).as_deref(), Some(&second[..]));
    assert_eq!(sites.arrive(0, 1, &packets[0].1), None, "a replayed packet");
    assert_eq!(sites.sites[1].forwarding.counters().in_pkts_unknown_identifier, 1);
    let counters = sites.sites[0].forwarding.peer_counters(P0);
    assert_eq!((counters.out_pkts_tunnelled, counters.out_pkts_long_form), (2, 1));
    assert_eq!(counters.out_octets_tunnelled as usize, 2 * (200 - 28) + LONG + SHORT);
}

/// The first frame of a flow in flight, and its successors in short form overtake it: all of them arrive.
#[test]
fn the_announcement_may_overtake_the_frame_and_the_frame_the_announcement() {
    let mut sites = Sites::new(2, &settings(1));
    let frames: Vec<_> = (1..5).map(|pn| frame(1, 2, pn, 300)).collect();
    sites.channel = false;
    sites.send(0, &frames[0]);
    sites.send(0, &frames[1]);
    sites.channel = true;
    sites.settle();
    sites.send(0, &frames[2]);
    sites.send(0, &frames[3]);
    let mut packets = sites.take_sent(0);
    let lengths: Vec<_> = packets.iter().map(|(_, packet)| packet.len() - (300 - 28)).collect();
    assert_eq!(lengths, [LONG, LONG, SHORT, SHORT]);
    packets.reverse();
    for ((_, packet), frame) in packets.iter().zip(frames.iter().rev()) {
        assert_eq!(sites.arrive(0, 1, packet).as_ref(), Some(frame));
    }
}

#[test]
fn frames_go_where_their_stations_are() {
    let mut sites = Sites::new(3, &settings(2));
    // Unknown: to both. A group: to both, always.
    sites.send(0, &frame(1, 2, 1, 100));
    assert_eq!(sites.take_sent(0).len(), 2);
    sites.send(1, &frame(2, 1, 1, 100));
    sites.deliver_all(1);
    assert_eq!(sites.take_delivered(0).len(), 1);
    sites.send(0, &frame(1, 2, 2, 100));
    let to: Vec<_> = sites.take_sent(0).into_iter().map(|(to, _)| to).collect();
    assert_eq!(to, [1], "learned from what came out of the tunnel");
    sites.send(0, &frame_between([2, 0, 0, 0, 0, 1], [0xff; 6], 3, 100));
    assert_eq!(sites.take_sent(0).len(), 2);
    // Both on one LAN: nowhere.
    sites.send(0, &frame(3, 9, 1, 100));
    sites.take_sent(0);
    assert!(!sites.send(0, &frame(1, 3, 4, 100)));
    let counters = *sites.sites[0].forwarding.counters();
    assert_eq!((counters.out_pkts_local, counters.out_pkts_unicast, counters.out_pkts_flooded), (1, 1, 3));
    let places: Vec<_> = sites.sites[0].forwarding.stations().map(|station| station.location).collect();
    assert_eq!(places.iter().filter(|&&place| place == Location::Here).count(), 2);
    assert!(places.contains(&Location::Behind(P0)));
}

/// The LAN sends back what came out of the tunnel: it goes into none, and the station stays where it is.
#[test]
fn what_comes_out_of_a_tunnel_goes_into_none() {
    let mut sites = Sites::new(3, &settings(2));
    let broadcast = frame_between([2, 0, 0, 0, 0, 1], [0xff; 6], 1, 100);
    sites.send(0, &broadcast);
    sites.deliver_all(0);
    for site in [1, 2] {
        let delivered = sites.take_delivered(site);
        assert_eq!(delivered, [&broadcast[..]]);
        assert!(!sites.send(site, &delivered[0]), "reflected");
        assert_eq!(sites.sites[site].forwarding.counters().out_pkts_loop, 1);
    }
    sites.pass(Duration::from_secs(1));
    assert!(sites.send(1, &broadcast), "a second later it has moved");
}

/// A peer's frame with the source of a station that has just spoken on this LAN reaches no LAN, in any mode.
#[test]
fn what_says_that_it_is_from_here_is_refused() {
    for mode in [Mode::Identifier, Mode::Plain { vni: 7 }] {
        let mut settings = settings(1);
        settings.peers[0].mode = mode;
        let mut sites = Sites::new(2, &settings);
        sites.send(1, &frame(2, 9, 1, 100));
        sites.take_sent(1);
        // As if station 2 were at site 0.
        sites.send(0, &frame(2, 9, 1, 100));
        sites.deliver_all(0);
        assert_eq!(sites.take_delivered(1), Vec::<Vec<u8>>::new(), "{mode:?}");
        assert_eq!(sites.sites[1].forwarding.peer_counters(P0).in_pkts_source_here, 1);
        assert_eq!(
            sites.sites[1].forwarding.stations().next().map(|station| station.location),
            Some(Location::Here)
        );
        // It has moved there if it is silent here.
        sites.pass(Duration::from_secs(1));
        sites.send(0, &frame(2, 9, 2, 100));
        sites.deliver_all(0);
        assert_eq!(sites.take_delivered(1), [frame(2, 9, 2, 100)], "{mode:?}");
    }
}

#[test]
fn what_cannot_be_carried_has_its_counter() {
    let mut sites = Sites::new(2, &settings(1));
    let mut plain = frame(1, 2, 1, 100);
    plain[12..14].copy_from_slice(&[0x08, 0x00]);
    let mut version = frame(1, 2, 1, 100);
    version[14] |= 0x80;
    for bad in [&plain[..], &version, &frame(1, 2, 1, 100)[..27], &[]] {
        assert!(!sites.send(0, bad));
    }
    let counters = sites.sites[0].forwarding.counters();
    assert_eq!(
        (counters.out_pkts_not_macsec, counters.out_pkts_bad_tag, counters.out_pkts_too_short),
        (1, 1, 2)
    );
    let mut alone = Forwarding::new(settings(0));
    assert!(alone.route(sites.now, &frame(1, 2, 1, 100)).is_none());
    assert_eq!(alone.counters().out_pkts_no_peer, 1);
    let mut strangers = Sites::strangers(2, &settings(1));
    strangers.send(0, &frame(1, 2, 1, 100));
    assert_eq!(strangers.sites[0].forwarding.peer_counters(P0).out_pkts_no_epoch, 1);
    assert_eq!(strangers.sites[0].forwarding.flows(P0).count(), 0, "no flow for what does not go");
}

/// Frame lengths around what fits one packet and two; the octets of a trailer travel like all others.
#[test]
fn frames_that_do_not_fit_the_path_go_in_halves() {
    let path = 600;
    let mut settings = settings(1);
    settings.peers[0].path_payload = path;
    let whole = 28 + path - SHORT;
    let double = 28 + 2 * (path - SHORT);
    for (length, packets) in
        [(whole, 1), (whole + 1, 2), (whole + 2, 2), (double, 2), (double + 1, 0), (1530, 0)]
    {
        let mut sites = acquainted(&settings);
        let frame = frame(1, 2, 7, length);
        sites.send(0, &frame);
        let sent = sites.take_sent(0);
        assert_eq!(sent.len(), packets, "{length} octets");
        assert!(sent.iter().all(|(_, packet)| packet.len() <= path));
        if let [(_, first), (_, second)] = &sent[..] {
            assert!(first.len().abs_diff(second.len()) <= 1, "halves are of one size");
        }
        let backwards = sent.iter().rev();
        let frames: Vec<_> = backwards.filter_map(|(_, packet)| sites.arrive(0, 1, packet)).collect();
        assert_eq!(frames, if packets == 0 { vec![] } else { vec![frame] }, "{length} octets");
        let counters = sites.sites[0].forwarding.peer_counters(P0);
        assert_eq!(counters.out_pkts_too_long, u64::from(packets == 0));
        assert_eq!(counters.out_pkts_split, u64::from(packets == 2));
    }
}

/// A path that takes not even a header takes nothing.
#[test]
fn no_packet_exceeds_the_path() {
    for path in [0, 15, 16, 39, 40, 41, 56] {
        let mut sites = acquainted(&settings(1));
        sites.command(0, Command::PathPayload { peer: P0, octets: path });
        for octets in 28..100 {
            sites.send(0, &frame(1, 2, 1, octets));
            sites.send(0, &frame(3, 2, 1, octets));
        }
        let sent = sites.take_sent(0);
        assert!(sent.iter().all(|(_, packet)| packet.len() <= path), "{path}");
        assert_eq!(sent.is_empty(), path < SHORT);
    }
}

/// A flow that is not acknowledged loses no frame that an acknowledged one would not, whatever its length.
#[test]
fn halves_of_a_new_flow_carry_the_flow() {
    let path = 600;
    let mut settings = settings(1);
    settings.peers[0].path_payload = path;
    let whole = 28 + path - LONG;
    let double = 28 + 2 * path - LONG - SHORT;
    for (length, packets) in [(whole, 1), (whole + 1, 2), (double - 1, 2), (double, 2), (double + 1, 0)] {
        for backwards in [false, true] {
            let mut sites = Sites::new(2, &settings);
            let frame = frame(1, 2, 7, length);
            sites.send(0, &frame);
            let mut sent = sites.take_sent(0);
            assert_eq!(sent.len(), packets, "{length} octets");
            assert!(sent.iter().all(|(_, packet)| packet.len() <= path));
            if backwards {
                sent.reverse();
            }
            let frames: Vec<_> = sent.iter().filter_map(|(_, packet)| sites.arrive(0, 1, packet)).collect();
            assert_eq!(frames, if packets == 0 { vec![] } else { vec![frame] }, "{length} octets");
        }
    }
}

#[test]
fn parts_wait_for_50_ms_and_the_path_may_change() {
    let mut sites = acquainted(&settings(1));
    sites.command(0, Command::PathPayload { peer: P0, octets: 1200 });
    sites.send(0, &frame(1, 2, 7, 1500));
    sites.send(0, &frame(1, 2, 8, 1500));
    let sent = sites.take_sent(0);
    assert_eq!(sites.arrive(0, 1, &sent[0].1), None);
    sites.pass(Duration::from_millis(70));
    assert_eq!(sites.arrive(0, 1, &sent[1].1), None, "too late");
    assert_eq!(sites.arrive(0, 1, &sent[2].1), None);
    assert!(sites.arrive(0, 1, &sent[3].1).is_some());
    sites.pass(Duration::from_millis(70));
    let counters = sites.sites[1].forwarding.peer_counters(P0);
    assert_eq!((counters.in_parts_expired, counters.in_pkts_joined), (2, 1));
    sites.command(0, Command::PathPayload { peer: P0, octets: 1488 });
    sites.send(0, &frame(1, 2, 9, 1500));
    assert_eq!(sites.take_sent(0).len(), 1);
}

/// A packet made by hand, under a key that both know.
fn packet(secret: &EpochSecret, lane: u8, seq: u64, header: [u8; 8], rest: &[u8]) -> Vec<u8> {
    let key = secret.lane_key(lane);
    let block = key.block(seq);
    let masked: Vec<u8> = header.iter().zip(block.mask).map(|(octet, mask)| octet ^ mask).collect();
    [&block.rid.octets()[..], &key.check(block.pad, header), &masked, rest].concat()
}

/// A packet in long form made by hand, of a flow that is one or not.
fn long_packet(secret: &EpochSecret, seq: u64, form: PacketForm, flow: [u8; Flow::OCTETS]) -> Vec<u8> {
    let (key, header) = (secret.lane_key(0), short(0, form));
    let masked: Vec<u8> =
        flow.iter().zip(key.long_mask::<{ Flow::OCTETS }>(seq)).map(|(octet, mask)| octet ^ mask).collect();
    packet(secret, 0, seq, header, &[&masked[..], &key.long_tag(seq, header, &flow), &[0; 40]].concat())
}

fn short(index: u16, form: PacketForm) -> [u8; 8] {
    let fields = PacketFields { tci_low: 0x0c, octet_3: 0, pn: 5 };
    Header { flow: FlowIndex(index), form, fields }.encode()
}

/// A site whose peer is this test.
struct Hand {
    sites: Sites,
    secret: EpochSecret,
}

impl Hand {
    fn new(lanes: u8) -> Self {
        let mut sites = Sites::strangers(2, &settings(1));
        let secret = EpochSecret::new(&[5; 32]);
        let generation = sites.sites[0].generations[0];
        let install =
            Command::InstallReceive { peer: P0, generation, epoch: 1, secret: secret.clone(), lanes };
        sites.command(0, install);
        sites.settle();
        Self { sites, secret }
    }

    fn inward(&mut self, packet: &[u8]) -> Result<(), Discard> {
        self.sites.sites[0]
            .forwarding
            .handle_packet(self.sites.now, PacketSource::Identifier, packet)
            .map(|_| ())
    }
}

#[test]
fn packets_that_nobody_would_send() {
    let mut hand = Hand::new(1);
    let secret = hand.secret.clone();
    let of = |reason| Err(Discard::Of(P0, reason));
    let unknown = |reason| Err(Discard::Unknown(reason));
    let rows = [
        (packet(&secret, 0, 1, short(0, PacketForm::Whole), &[0; 40]), of(InDiscard::UnknownFlow)),
        (
            packet(&secret, 0, 1, short(0, PacketForm::Whole), &[0; 40]),
            unknown(UnknownDiscard::UnknownIdentifier),
        ),
        (packet(&secret, 0, 2, short(0, PacketForm::First), &[0; 40]), of(InDiscard::UnknownFlow)),
        (packet(&secret, 0, 3, [0, 0, 0, 0, 0, 0, 0x70, 0], &[0; 40]), of(InDiscard::BadHeader)),
        (
            packet(&secret, 0, 10, short(0, PacketForm::TaggedLongForm), &[0; 40]),
            of(InDiscard::ForgedLongForm),
        ),
        // Long form without a tag, with one that does not fit, and of what is no flow.
        (packet(&secret, 0, 4, short(0, PacketForm::LongForm), &[0; 31]), of(InDiscard::ForgedLongForm)),
        (packet(&secret, 0, 5, short(0, PacketForm::LongForm), &[0; 32]), of(InDiscard::ForgedLongForm)),
        (packet(&secret, 0, 6, short(0, PacketForm::LongFirst), &[0; 40]), of(InDiscard::ForgedLongForm)),
        (long_packet(&secret, 9, PacketForm::LongForm, [0xff; 24]), of(InDiscard::BadHeader)),
        (
            packet(&secret, 0, 7, short(0, PacketForm::Second), &[0; ends::LAN_FRAME + 1]),
            of(InDiscard::TooLong),
        ),
        (
            packet(&secret, 0, 8, short(0, PacketForm::Whole), &[])[..15].to_vec(),
            unknown(UnknownDiscard::TooShort),
        ),
        ([&[0x40][..], &[0; 30]].concat(), unknown(UnknownDiscard::TooShort)),
        (packet(&secret, 1, 1, short(0, PacketForm::Whole), &[]), unknown(UnknownDiscard::UnknownIdentifier)),
        (packet(&secret, 0, 0, short(0, PacketForm::Whole), &[]), unknown(UnknownDiscard::UnknownIdentifier)),
    ];
    for (number, (packet, expected)) in rows.into_iter().enumerate() {
        assert_eq!(hand.inward(&packet), expected, "row {number}");
    }
    let from = PacketSource::From(P0);
    let wrong = hand.sites.sites[0].forwarding.handle_packet(hand.sites.now, from, &[0; 60]).map(|_| ());
    assert_eq!(wrong, unknown(UnknownDiscard::WrongMode));
    assert_eq!(hand.sites.sites[0].forwarding.stations().count(), 0);
    // Unknown numbers are told once a second.
    hand.sites.carry();
    assert_eq!(hand.sites.events["UnknownIndex"], 1);
}

/// The masked octets change nothing but the delivered frame.
#[test]
fn a_frame_is_no_longer_than_the_lan_takes() {
    let mut sites = acquainted(&settings(1));
    sites.command(0, Command::PathPayload { peer: P0, octets: 4000 });
    sites.send(0, &frame(1, 2, 9, ends::LAN_FRAME));
    sites.send(0, &frame(1, 2, 10, ends::LAN_FRAME + 1));
    sites.deliver_all(0);
    assert_eq!(sites.take_delivered(1).len(), 1);
    assert_eq!(sites.sites[1].forwarding.peer_counters(P0).in_pkts_too_long, 1);
}

/// Sixteen lanes of one peer: each has its own window.
#[test]
fn lanes_are_received_each_for_itself() {
    let mut hand = Hand::new(Settings::LANES);
    let generation = hand.sites.sites[0].generations[0];
    let flow = ParsedFrame::parse(&frame(1, 2, 1, 60)).expect("a frame").flow;
    let (index, request) = (FlowIndex(3), RequestId::default());
    hand.sites.command(0, Command::AddFlow { peer: P0, generation, index, flow, request });
    for lane in 0..Settings::LANES {
        for (seq, accepted) in
            [(200, true), (u64::from(lane) + 1, false), (72 + u64::from(lane), true), (200, false)]
        {
            let packet = packet(&hand.secret, lane, seq, short(3, PacketForm::Whole), &[0; 40]);
            assert_eq!(hand.inward(&packet).is_ok(), accepted, "lane {lane}, seq {seq}");
            hand.sites.settle();
        }
    }
}

#[test]
fn quotas_have_their_counters_and_flows_grow_old() {
    let mut settings = settings(1);
    settings.limits = Limits {
        flows: 8,
        flows_per_sci: 3,
        flows_per_source: 3,
        new_flows_per_second: 9,
        ..Limits::default()
    };
    let mut sites = Sites::new(2, &settings);
    for destination in 10..15 {
        sites.send(0, &frame(1, destination, 1, 100));
    }
    let counters = |sites: &Sites| sites.sites[0].forwarding.peer_counters(P0);
    assert_eq!((counters(&sites).out_pkts_flow_quota_sci, sites.take_sent(0).len()), (2, 3));
    // Another SCI, the same source.
    let mut same_source = frame(1, 20, 1, 100);
    same_source[25] = 77;
    sites.send(0, &same_source);
    assert_eq!(counters(&sites).out_pkts_flow_quota_source, 1);
    for station in 2..10 {
        sites.send(0, &frame(station, 30, 1, 100));
    }
    assert_eq!((counters(&sites).out_pkts_flow_quota, sites.take_sent(0).len()), (3, 5));
    assert_eq!(sites.sites[0].forwarding.flows(P0).count(), 8);
    sites.settle();
    assert_eq!(sites.sites[1].forwarding.announced_flows(P0), 8);
    sites.now = sites.now + Duration::from_secs(301);
    sites.pass(Duration::from_secs(1));
    assert_eq!(sites.sites[0].forwarding.flows(P0).count(), 0);
    assert_eq!(sites.events["Withdraw"], 8);
    assert_eq!(sites.sites[1].forwarding.announced_flows(P0), 0, "only the giver ages flows");
    for station in 40..60 {
        sites.send(0, &frame(station, 30, 1, 100));
        sites.settle();
        sites.now = sites.now + Duration::from_millis(1);
    }
    assert_eq!(sites.take_sent(0).len(), 8);
    assert_eq!(sites.sites[0].forwarding.stations().count(), 20);
}

#[test]
fn new_flows_in_a_second_are_limited() {
    let mut settings = settings(2);
    settings.limits.new_flows_per_second = 5;
    let mut sites = Sites::new(3, &settings);
    for station in 0..20 {
        sites.send(0, &frame(station, 30, 1, 100));
    }
    assert_eq!(sites.take_sent(0).len(), 10, "five flows, to two peers");
    assert_eq!(sites.sites[0].forwarding.peer_counters(PeerId(1)).out_pkts_flow_rate, 15);
    sites.send(0, &frame(0, 30, 2, 100));
    assert_eq!(sites.take_sent(0).len(), 2, "known flows go on");
}

/// The peer has room for fewer flows than we have: the others go on in long form.
#[test]
fn a_flow_that_is_refused_goes_on_in_long_form() {
    let mut small = settings(1);
    small.limits.flows = 2;
    let mut sites = Sites::new(2, &settings(1));
    sites.sites[1].forwarding = Forwarding::new(small);
    sites.restart(0, 1);
    for round in 0..30 {
        for destination in 10..15 {
            let frame = frame(1, destination, round, 100);
            sites.send(0, &frame);
            sites.deliver_all(0);
            assert_eq!(sites.take_delivered(1), [frame]);
            sites.settle();
        }
        sites.now = sites.now + Duration::from_millis(100);
    }
    let counters = sites.sites[0].forwarding.peer_counters(P0);
    assert_eq!(counters.out_pkts_long_form, 2 + 3 * 30);
    assert_eq!(sites.events["Announce"], 2 + 3 * 3, "told once a second");
    assert_eq!(sites.sites[1].forwarding.peer_counters(P0).in_flows_refused, 9);
}

/// More announcements than the events have room for: the rest is told when the flows are used again.
#[test]
fn announcements_that_found_no_room_are_made_later() {
    let mut settings = settings(1);
    settings.limits = Limits { flows_per_sci: 4096, new_flows_per_second: 5000, ..Limits::default() };
    let mut sites = Sites::new(2, &settings);
    let frames: Vec<_> = (0..1500_u16)
        .map(|number| {
            let [high, low] = number.to_be_bytes();
            frame_between([2, 0, 0, 1, high, low], [2, 0, 0, 2, 0, 0], 1, 60)
        })
        .collect();
    for frame in &frames {
        sites.send(0, frame);
    }
    sites.settle();
    assert!(sites.sites[1].forwarding.announced_flows(P0) < 1500);
    for frame in &frames {
        sites.send(0, frame);
    }
    sites.settle();
    assert_eq!(sites.sites[1].forwarding.announced_flows(P0), 1500);
    assert!(sites.sites[0].forwarding.flows(P0).all(|flow| flow.acknowledged));
}

/// A managing half that takes nothing keeps nobody awake; what is ready is told as soon as there is room.
#[test]
fn what_is_ready_waits_for_room_without_a_loop() {
    let mut settings = settings(1);
    settings.limits = Limits { flows_per_sci: 4096, new_flows_per_second: 5000, ..Limits::default() };
    let mut sites = Sites::new(2, &settings);
    for number in 0..1500_u16 {
        let [high, low] = number.to_be_bytes();
        sites.send(0, &frame_between([2, 0, 0, 1, high, low], [2, 0, 0, 2, 0, 0], 1, 60));
    }
    sites.next_epoch(1, 0);
    let forwarding = &mut sites.sites[0].forwarding;
    let mut calls = 0;
    while forwarding.poll_timeout().is_some_and(|due| due <= sites.now) {
        forwarding.handle_timeout(sites.now);
        calls += 1;
    }
    assert!(calls < 10, "{calls}");
    while forwarding.poll_event().is_some() {}
    sites.now = forwarding.poll_timeout().expect("it is told again");
    forwarding.handle_timeout(sites.now);
    assert!(matches!(forwarding.poll_event(), Some(Event::ReceiveReady { epoch: 2, .. })));
}

#[test]
fn plain_peers_exchange_vxlan() {
    let mut settings = settings(1);
    settings.peers = vec![PeerSettings { mode: Mode::Plain { vni: 42 }, path_payload: 1472 }];
    let mut sites = Sites::strangers(2, &settings);
    let first = frame(1, 2, 1, 200);
    sites.send(0, &first);
    let sent = sites.take_sent(0);
    assert_eq!(sent[0].1, [&[8, 0, 0, 0, 0, 0, 42, 0], &first[..]].concat());
    assert_eq!(sites.arrive(0, 1, &sent[0].1), Some(first.clone()));
    assert!(!sites.send(1, &first), "reflected");
    sites.send(0, &frame(1, 2, 1, 1465));
    assert_eq!(sites.sites[0].forwarding.peer_counters(P0).out_pkts_too_long, 1);
    let mut eapol = frame(1, 2, 1, 100);
    eapol[12..14].copy_from_slice(&[0x88, 0x8e]);
    let packet = sites.sites[0].forwarding.encapsulate_eapol(P0, &eapol).expect("a plain peer");
    let packet = octets(&packet, &eapol);
    assert_eq!(sites.arrive(0, 1, &packet), Some(eapol));
    // VLAN tags come on top of the longest frame.
    let longest = frame(1, 2, 1, ends::LAN_FRAME);
    let vlan = [0x81, 0x00, 0, 5];
    for tags in [&[][..], &[vlan], &[vlan, vlan]] {
        for ether_type in [[0x88, 0xe5], [0x88, 0x8e]] {
            let inner = [&longest[..12], &tags.concat(), &ether_type, &longest[14..]].concat();
            let packet = [&[8, 0, 0, 0, 0, 0, 42, 0], &inner[..]].concat();
            assert_eq!(sites.arrive(0, 1, &[&packet[..], &[0]].concat()), None, "{tags:?}");
            assert_eq!(sites.sites[1].discards.pop(), Some(Discard::Of(P0, InDiscard::TooLong)));
            assert_eq!(sites.arrive(0, 1, &packet), Some(inner), "{tags:?}");
        }
    }
    let mut foreign = sent[0].1.clone();
    foreign[6] = 43;
    assert_eq!(sites.arrive(0, 1, &foreign), None);
    foreign[6] = 42;
    foreign.resize(8 + ends::LAN_FRAME + 1, 0);
    assert_eq!(sites.arrive(0, 1, &foreign), None);
    let discards = [InDiscard::BadVni, InDiscard::TooLong].map(|reason| Discard::Of(P0, reason));
    assert_eq!(sites.sites[1].discards, discards);
    assert_eq!(Sites::new(2, &ends::settings(1)).sites[0].forwarding.encapsulate_eapol(P0, &first), None);
}

#[test]
fn commands_of_another_generation_are_not_heeded() {
    let mut sites = acquainted(&settings(1));
    let old = sites.sites[0].generations[0];
    sites.restart(0, 1);
    let secret = EpochSecret::new(&[9; 32]);
    let flow = ParsedFrame::parse(&frame(1, 2, 1, 60)).expect("a frame").flow;
    let install =
        Command::InstallReceive { peer: P0, generation: old, epoch: 9, secret: secret.clone(), lanes: 1 };
    sites.command(0, install);
    sites.command(0, Command::InstallTransmit { peer: P0, generation: old, epoch: 9, secret });
    let (index, request) = (FlowIndex(9), RequestId::default());
    sites.command(0, Command::AddFlow { peer: P0, generation: old, index, flow, request });
    sites.command(0, Command::RequestPosition { peer: P0, generation: old, epoch: 1, lane: 0 });
    assert_eq!(sites.sites[0].forwarding.transmit_epoch(P0), 1);
    assert_eq!(sites.sites[0].forwarding.receive_epochs(P0).collect::<Vec<_>>(), [1]);
    assert_eq!(sites.sites[0].forwarding.announced_flows(P0), 0);
    assert_eq!(sites.sites[0].forwarding.poll_event(), None::<Event>);
    // A peer that there is not.
    sites.command(0, Command::Begin { peer: PeerId(9), generation: old });
    assert_eq!(sites.sites[0].forwarding.peer_counters(PeerId(9)), Default::default());
    let route = sites.sites[0].forwarding.route(sites.now, &frame(1, 200, 1, 60)).expect("unknown");
    assert_eq!(route.destination, Destination::All);
    let now = sites.now;
    assert!(sites.sites[0].forwarding.dispatch(now, &route, PeerId(9), &frame(1, 200, 1, 60)).is_empty());
}

/// Of three sites one leaves another, and comes again: the third one notices nothing.
#[test]
fn a_peer_leaves_and_comes_and_another_one_goes_on() {
    for mode in [Mode::Identifier, Mode::HeaderEncryption] {
        let mut settings = settings(2);
        settings.peers.iter_mut().for_each(|peer| peer.mode = mode);
        let mut sites = Sites::new(3, &settings);
        let mut pn = 0;
        // Both ways between the stations of the first and of another site. In header encryption the first frame of a
        // flow waits until that is known.
        let mut talk = |sites: &mut Sites, other: usize| {
            let station = other as u8 + 1;
            for (site, from, to) in [(0, 1, station), (other, station, 1)] {
                pn += 1;
                let sent = frame(from, to, pn, 300);
                sites.send(site, &sent);
                sites.deliver_all(site);
                sites.settle();
                sites.release(site);
                sites.deliver_all(site);
                let arrived = sites.take_delivered(if site == 0 { other } else { 0 });
                assert_eq!(arrived, [sent], "{mode:?} {site} to {to}");
            }
            (0..3).for_each(|site| drop(sites.take_delivered(site)));
        };
        (0..2).for_each(|_| (1..3).for_each(|other| talk(&mut sites, other)));
        let epochs = |sites: &Sites| sites.sites[0].forwarding.transmit_epoch(P0);
        let (epoch, sent) = (epochs(&sites), sites.sites[0].forwarding.peer_counters(P0).out_pkts_tunnelled);

        let gone = PeerId(1);
        assert!(sites.leave(0, 2).is_some());
        assert!(sites.sites[0].forwarding.remove_peer(gone).is_none(), "only once");
        let behind = |sites: &Sites| {
            sites.sites[0].forwarding.stations().any(|station| station.location == Location::Behind(gone))
        };
        assert!(!behind(&sites));
        talk(&mut sites, 1);
        // Its later packets, and its manager's commands, are ignored.
        let packet = {
            sites.send(2, &frame(3, 1, 900, 300));
            sites.take_sent(2).into_iter().find(|(to, _)| *to == 0).expect("a packet").1
        };
        let now = sites.now;
        let from = if mode == Mode::Identifier { PacketSource::Identifier } else { PacketSource::From(gone) };
        assert!(sites.sites[0].forwarding.handle_packet(now, from, &packet).is_err());
        let (generation, epoch_of_it) = (Generation(0), 9);
        let secret = EpochSecret::new(&[9; 32]);
        let lanes = 1;
        for command in [
            Command::Begin { peer: gone, generation },
            Command::InstallReceive {
                peer: gone,
                generation,
                epoch: epoch_of_it,
                secret: secret.clone(),
                lanes,
            },
            Command::InstallTransmit { peer: gone, generation, epoch: epoch_of_it, secret },
            Command::PathPayload { peer: gone, octets: 1 },
        ] {
            sites.command(0, command);
        }
        assert_eq!(sites.sites[0].forwarding.transmit_epoch(gone), 0);
        assert!(!behind(&sites));
        talk(&mut sites, 1);

        let memory = PreparedPeer::new(&settings.peers[1], &settings.limits, settings.lan_frame);
        assert_eq!(sites.come(0, 2, memory), PeerId(2));
        (0..2).for_each(|_| (1..3).for_each(|other| talk(&mut sites, other)));
        assert_eq!(epochs(&sites), epoch, "{mode:?}");
        assert!(sites.sites[0].forwarding.peer_counters(P0).out_pkts_tunnelled > sent);
        assert_eq!(sites.sites[0].forwarding.peers(), 3);
    }
}

/// Windows of peers that come and go have their places again.
#[test]
fn peers_that_come_and_go_all_day_are_heard() {
    let settings = settings(1);
    let mut sites = Sites::new(2, &settings);
    for turn in 1..40_u32 {
        drop(sites.leave(0, 1));
        let memory = PreparedPeer::new(&settings.peers[0], &settings.limits, settings.lan_frame);
        assert_eq!(sites.come(0, 1, memory).index(), turn as usize);
        for (site, from, to) in [(0, 1, 2), (1, 2, 1)] {
            sites.send(site, &frame(from, to, turn, 100));
            sites.deliver_all(site);
            sites.settle();
            assert_eq!(sites.take_delivered(1 - site).len(), 1, "{turn}");
        }
    }
}

/// What a half tells those who forward flows beside it, and what it asks them.
#[test]
fn flows_in_use_are_told_and_stations_move_only_when_nobody_heard_them() {
    let mut sites = acquainted(&settings(1));
    let told = |sites: &mut Sites| {
        let mut events = Vec::new();
        while let Some(event) = sites.sites[0].forwarding.poll_event() {
            events.push(event);
        }
        events
    };
    sites.send(0, &frame(1, 2, 2, 100));
    assert_eq!(told(&mut sites), [], "nobody has asked");
    sites.command(0, Command::OfferFlows);
    // To all, and in two packets: not for others.
    sites.send(0, &frame(1, 9, 3, 100));
    assert!(told(&mut sites).iter().all(|event| !matches!(event, Event::FlowInUse { .. })));
    for _ in 0..3 {
        sites.send(0, &frame(1, 2, 4, 100));
    }
    let events = told(&mut sites);
    let [Event::FlowInUse { peer: P0, flow, .. }] = events[..] else { panic!("{events:?}") };
    assert_eq!(flow, ParsedFrame::parse(&frame(1, 2, 4, 100)).unwrap().flow);
    sites.pass(Duration::from_millis(1100));
    told(&mut sites);
    sites.send(0, &frame(1, 2, 5, 100));
    assert_eq!(told(&mut sites).len(), 1, "again after a second");

    // Who forwards beside this half knows no VLAN tags.
    let generation = sites.sites[0].generations[0];
    sites.command(0, Command::TakesFrames { peer: P0, generation, frames: FrameKinds::ALL });
    let untagged = frame(1, 2, 6, 100);
    let tagged = [&untagged[..12], &[0x81, 0x00, 0, 5], &untagged[12..]].concat();
    assert!(sites.send(0, &tagged));
    sites.settle();
    let taken = ParsedFrame::parse(&tagged).expect("a frame");
    let numbered = sites.sites[0].forwarding.flows(P0).find(|given| given.flow == taken.flow);
    assert!(numbered.is_some_and(|given| given.acknowledged));
    assert!(sites.send(0, &tagged));
    assert_eq!(told(&mut sites), []);

    // Station 2 is behind the peer, and silent there for a second: it would move here.
    let loops = |sites: &Sites| sites.sites[0].forwarding.counters().out_pkts_loop;
    let before = loops(&sites);
    for _ in 0..3 {
        sites.send(0, &frame(2, 1, 1, 100));
    }
    let events = told(&mut sites);
    let [Event::StationMoves { peer: P0, address, to: Location::Here, .. }] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(loops(&sites), before + 3, "it may have come out of a tunnel");
    let place = |sites: &Sites| {
        let mut stations = sites.sites[0].forwarding.stations();
        stations.find(|station| station.address == address).map(|station| station.location)
    };
    assert_eq!(place(&sites), Some(Location::Behind(P0)));
    sites.command(0, Command::StationHeard { address, location: Location::Here });
    assert_eq!(place(&sites), Some(Location::Here), "nobody has heard it behind the peer");
    // Heard by others a moment ago: it stays.
    sites.command(0, Command::StationHeard { address, location: Location::Behind(P0) });
    assert_eq!(place(&sites), Some(Location::Here));
}

/// Two sites that ask before a station moves, and managers that do not answer. Station 2 is at site 1, and silent for a second.
fn unanswered() -> Sites {
    let mut sites = acquainted(&settings(1));
    for site in [0, 1] {
        sites.command(site, Command::OfferFlows);
    }
    sites.pass(Duration::from_millis(1100));
    sites.events.clear();
    sites
}

fn address(frame: &[u8]) -> MacAddr {
    ParsedFrame::parse(frame).expect("a MACsec frame").flow.source
}

fn location(sites: &Sites, site: usize, station: u8) -> Option<Location> {
    let address = address(&frame(station, 9, 1, 100));
    let mut stations = sites.sites[site].forwarding.stations();
    stations.find(|station| station.address == address).map(|station| station.location)
}

/// Station 2 speaks at site 0, every 10 ms.
fn speak(sites: &mut Sites, ms: u32) {
    for pn in 0..ms / 10 {
        sites.send(0, &frame(2, 9, pn + 1, 100));
        sites.deliver_all(0);
        sites.pass(Duration::from_millis(10));
    }
}

#[test]
fn a_station_moves_although_nobody_answers() {
    let mut sites = unanswered();
    speak(&mut sites, 1000);
    assert_eq!(location(&sites, 0, 2), Some(Location::Behind(P0)), "the manager has a second");
    speak(&mut sites, 10);
    assert_eq!(location(&sites, 0, 2), Some(Location::Here));
    // Its frames reach site 1 now, and may have come out of a tunnel there.
    speak(&mut sites, 990);
    assert_eq!(location(&sites, 1, 2), Some(Location::Here));
    assert_eq!(sites.take_delivered(1).len(), 0);
    speak(&mut sites, 20);
    assert_eq!(location(&sites, 1, 2), Some(Location::Behind(P0)));
    assert_eq!(sites.take_delivered(1).len(), 2);
    assert_eq!(sites.events["StationMoves"], 2, "one question at each");
}

#[test]
fn an_answer_that_a_station_stays_ends_the_question() {
    let mut sites = unanswered();
    let address = address(&frame(2, 9, 1, 100));
    speak(&mut sites, 500);
    sites.command(0, Command::StationHeard { address, location: Location::Behind(P0) });
    sites.events.clear();
    // It counts as heard there for a second. Then it is asked for anew, and the answer has a second again.
    speak(&mut sites, 1000);
    assert_eq!(sites.events.get("StationMoves"), None);
    speak(&mut sites, 1000);
    assert_eq!(sites.events["StationMoves"], 1);
    assert_eq!(location(&sites, 0, 2), Some(Location::Behind(P0)));
    speak(&mut sites, 10);
    assert_eq!(location(&sites, 0, 2), Some(Location::Here));
}

/// The events find no way to the manager: the queue is full before station 2 is asked for.
#[test]
fn a_station_moves_although_no_question_finds_room() {
    let mut sites = unanswered();
    let stations = (0..2000_u16).map(|number| {
        let [high, low] = number.to_be_bytes();
        frame_between([2, 0, 0, 1, high, low], [2, 0, 0, 0, 0, 9], 1, 100)
    });
    for frame in stations.clone() {
        let address = address(&frame);
        sites.command(0, Command::StationHeard { address, location: Location::Behind(P0) });
    }
    sites.pass(Duration::from_millis(1000));
    for frame in stations {
        assert!(!sites.send(0, &frame));
    }
    assert!(!sites.send(0, &frame(2, 9, 1, 100)));
    sites.now = sites.now + Duration::from_millis(990);
    assert!(!sites.send(0, &frame(2, 9, 2, 100)), "a second has not passed");
    sites.now = sites.now + Duration::from_millis(10);
    assert!(sites.send(0, &frame(2, 9, 3, 100)));
    assert_eq!(location(&sites, 0, 2), Some(Location::Here));
}

/// One station that speaks all the time does not keep others from being asked for.
#[test]
fn each_station_is_asked_for() {
    let mut sites = unanswered();
    let [second, third] = [2, 3].map(|station| address(&frame(station, 9, 1, 100)));
    sites.command(0, Command::StationHeard { address: third, location: Location::Behind(P0) });
    sites.pass(Duration::from_millis(1000));
    let mut asked = Vec::new();
    for station in [2, 2, 3, 2, 3] {
        sites.send(0, &frame(station, 9, 1, 100));
        while let Some(event) = sites.sites[0].forwarding.poll_event() {
            if let Event::StationMoves { address, .. } = event {
                asked.push(address);
            }
        }
    }
    assert_eq!(asked, [second, third]);
}

/// A flow whose frames others send does not age.
#[test]
fn a_flow_that_is_used_elsewhere_stays() {
    let age = Duration::from_secs(5);
    let limits = Limits { flow_age: age, station_age: age, ..settings(1).limits };
    let mut sites = acquainted(&Settings { limits, ..settings(1) });
    let flow = |sites: &Sites| sites.sites[0].forwarding.flows(P0).next().copied();
    let generation = sites.sites[0].generations[0];
    let index = flow(&sites).unwrap().index;
    for _ in 0..4 {
        sites.pass(Duration::from_secs(3));
        sites.command(0, Command::FlowUsed { peer: P0, generation, index });
    }
    assert_eq!(flow(&sites).map(|flow| flow.index), Some(index));
    sites.pass(Duration::from_secs(3));
    sites.pass(Duration::from_secs(3));
    assert_eq!(flow(&sites), None);
}

/// What a shaper may let others overtake: header encryption has a window of PNs of its own, whatever W says.
#[test]
fn a_peer_with_header_encryption_narrows_by_how_much_packets_may_be_late() {
    let mut wide = settings(1);
    wide.window = 65_536;
    let encrypting = PeerSettings { mode: Mode::HeaderEncryption, path_payload: 1472 };
    let prepared = PreparedPeer::new(&encrypting, &wide.limits, wide.lan_frame);
    let mut forwarding = Forwarding::new(wide);
    assert_eq!(forwarding.most_late(), 32_768);
    let peer = forwarding.add_peer(prepared).unwrap();
    assert_eq!(forwarding.most_late(), 2016);
    forwarding.remove_peer(peer);
    assert_eq!(forwarding.most_late(), 32_768);
    assert_eq!(Forwarding::new(Settings { window: 256, ..settings(1) }).most_late(), 128);
}
