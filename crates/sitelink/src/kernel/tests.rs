//! Programs in the kernel without a half: root.

use std::net::IpAddr;

use suite::tunnel::{EPOCH_SECRET_OCTETS, EpochSecret};
use tunnel::{EPOCH_OVERLAP, Forwarding, Location, Mode, PeerSettings, RequestId};
use wire::MacAddr;
use wire::tunnel::{Flow, Header, PacketForm, ParsedFrame};
use xdp::site::{MOST_HERE, MOST_KNOWN, UdpPath, Vxlan};

use super::lanes::NO_LANES;
use super::numbers::GRACE;
use super::*;

const NOW: Instant = Instant::after_start(Duration::ZERO);

fn kernel(peers: usize) -> KernelSite {
    limited(peers, &Limits::DEFAULT)
}

fn limited(peers: usize, limits: &Limits) -> KernelSite {
    bound(peers, [0; 4].into(), limits)
}

fn bound(peers: usize, bind: IpAddr, limits: &Limits) -> KernelSite {
    lab::require_root().unwrap();
    let bind = SocketAddr::new(bind, 7788);
    KernelSite::load([peers, 0], tunnel::Settings::WINDOW, bind, limits).unwrap()
}

fn command(kernel: &KernelSite, command: Command) {
    kernel.handle_command(NOW, ToWorker::Tunnel(command), &mut Vec::new());
}

fn transmit(kernel: &KernelSite, peer: u16, epoch: u32) {
    let secret = EpochSecret::new(&[epoch as u8 + 1; EPOCH_SECRET_OCTETS]);
    let peer = PeerId(peer);
    command(kernel, Command::InstallTransmit { peer, generation: Generation::default(), epoch, secret });
}

/// A path as a look would have found it.
fn give_path(kernel: &KernelSite, peer: u16) {
    let any = SocketAddr::from(([192, 0, 2, 1], 1));
    let mut kernel = kernel.lock();
    let plain = kernel.plain.get(&PeerId(peer));
    let path = UdpPath {
        interface: MacAddr::default(),
        next_hop: MacAddr::default(),
        source: any,
        destination: any,
        payload: 1200,
        port: 1,
        dscp: 0,
        vxlan: plain.map(|plain| Vxlan { vni: plain.vni, receives: true }),
    };
    let Kernel { site, paths, peers, .. } = &mut *kernel;
    assert!(peers.get_mut(&PeerId(peer)).unwrap().path.adopt(paths, site, Ok(path)));
    kernel.direct(PeerId(peer));
}

/// A frame between two stations under an SCI.
fn frame(source: u16, destination: u16, sci: u16) -> Vec<u8> {
    let station = |number: u16| [&[2, 0, 0, 0][..], &number.to_be_bytes()].concat();
    let tag = [0x88, 0xe5, 0x2c, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0];
    [&station(destination)[..], &station(source), &tag, &sci.to_be_bytes(), &[7; 64]].concat()
}

fn flow(source: u16, destination: u16, sci: u16) -> Flow {
    ParsedFrame::parse(&frame(source, destination, sci)).unwrap().flow
}

fn begin(kernel: &KernelSite, peer: u16) {
    command(kernel, Command::Begin { peer: PeerId(peer), generation: Generation::default() });
}

/// True if the kernel has room for a flow that a peer announces, and that the half takes.
fn announce(kernel: &KernelSite, peer: u16, index: u16, flow: Flow) -> bool {
    let (peer, generation, index) = (PeerId(peer), Generation::default(), FlowIndex(index));
    let mut events = Vec::new();
    let request = RequestId(7);
    let add = Command::AddFlow { peer, generation, index, flow, request };
    let told = kernel.handle_command(NOW, ToWorker::Tunnel(add), &mut events);
    assert_eq!(told.is_none(), events == [Event::FlowRefused { peer, generation, index, request }]);
    if told.is_none() {
        return false;
    }
    let accepted = || Event::FlowAccepted { peer, generation, index, request, source: None };
    assert_eq!(kernel.handle_event(NOW, accepted()), [Some(accepted()), None]);
    true
}

fn withdraw(kernel: &KernelSite, peer: u16, index: u16) {
    let (peer, generation, index) = (PeerId(peer), Generation::default(), FlowIndex(index));
    command(kernel, Command::WithdrawFlow { peer, generation, index });
}

/// All that was given up is free again.
fn rest(kernel: &KernelSite) {
    std::thread::sleep(flows::RESTED);
    kernel.lock().room.reuse();
}

fn use_flow(kernel: &KernelSite, peer: u16, index: u16, flow: Flow) {
    let (peer, generation, index) = (PeerId(peer), Generation::default(), FlowIndex(index));
    assert_eq!(kernel.handle_event(NOW, Event::FlowInUse { peer, generation, index, flow }), [None, None]);
}

/// All commands that wait for the half.
fn commands(kernel: &KernelSite) -> Vec<Command> {
    std::iter::from_fn(|| kernel.poll_command()).collect()
}

fn outward(kernel: &KernelSite, peer: u16) -> Option<String> {
    kernel.places(PeerId(peer))[0].clone().err()
}

#[test]
fn an_epoch_without_a_lane_is_user_spaces_and_the_one_before_is_not_sent_under_any_more() {
    let kernel = kernel(1);
    for peer in 0..5 {
        begin(&kernel, peer);
        transmit(&kernel, peer, 0);
    }
    assert_eq!(outward(&kernel, 0).as_deref(), Some("its address is not known"), "five lanes");
    transmit(&kernel, 0, 1);
    assert_eq!(outward(&kernel, 0).as_deref(), Some(NO_LANES));
    assert_eq!(kernel.lock().lanes.counts()[0][1], 1, "the lane before is over");
    std::thread::sleep(GRACE);
    drop(kernel.handle_timeout(NOW));
    // A command that comes twice opens no lane of an epoch that was sent under, or could have been.
    transmit(&kernel, 0, 0);
    transmit(&kernel, 0, 1);
    assert_eq!(outward(&kernel, 0).as_deref(), Some(NO_LANES));
    transmit(&kernel, 0, 2);
    assert_eq!(outward(&kernel, 0).as_deref(), Some("its address is not known"));
}

#[test]
fn flows_behind_vlan_tags_are_left_to_user_space() {
    let kernel = kernel(1);
    begin(&kernel, 0);
    transmit(&kernel, 0, 0);
    give_path(&kernel, 0);
    let free = || kernel.lock().room.counts()[0].iter().sum::<usize>();
    let all = free();
    let untagged = flow(1, 2, 3);
    let tagged = [&frame(1, 2, 3)[..12], &[0x81, 0, 0, 7], &frame(1, 2, 3)[12..]].concat();
    let tagged = ParsedFrame::parse(&tagged).unwrap().flow;
    assert_eq!(tagged.with_tags(untagged.tags), untagged);
    assert!(announce(&kernel, 0, 5, tagged), "the half takes it");
    use_flow(&kernel, 0, 6, tagged);
    assert_eq!(free(), all, "neither is in the programs' maps");
    // The number of a flow that the programs have, and which is another one's from here on.
    assert!(announce(&kernel, 0, 5, untagged));
    assert!(free() < all, "the measure sees those that are");
    assert!(announce(&kernel, 0, 5, tagged));
    assert_eq!(free(), all);
    use_flow(&kernel, 0, 6, untagged);
    assert!(free() < all);
}

#[test]
fn what_peers_had_is_free_after_them() {
    let kernel = kernel(1);
    let free = |kernel: &KernelSite| {
        let kernel = kernel.lock();
        let [transmit, receive] = kernel.lanes.counts();
        [transmit, receive, kernel.paths.counts()].map(|[free, resting]| free + resting)
    };
    let all = free(&kernel);
    for round in 0..2 {
        begin(&kernel, round);
        transmit(&kernel, round, 0);
        give_path(&kernel, round);
        assert_ne!(free(&kernel), all);
        match round {
            0 => kernel.retain(|_| false),
            _ => kernel.end(),
        }
        assert_eq!(free(&kernel), all);
    }
}

#[test]
fn flows_are_looked_at_some_at_a_time_and_a_half_that_is_behind_is_told_no_more() {
    let kernel = kernel(2);
    let generation = Generation::default();
    let each = flows::SWEPT as u16 * 3 / 4;
    for peer in 0..2 {
        begin(&kernel, peer);
        transmit(&kernel, peer, 0);
        give_path(&kernel, peer);
        for index in 0..each {
            use_flow(&kernel, peer, index, flow(9, peer, index));
        }
    }
    // One flow of the first peer is not used.
    std::thread::sleep(2 * QUIET);
    for (peer, index) in (0..2).flat_map(|peer| (0..each).map(move |index| (peer, index))).skip(1) {
        kernel.lock().site.run_outward(&frame(9, peer, index), 1).unwrap();
    }
    let mut now = NOW;
    let mut look = || {
        now = now + LOOK;
        drop(kernel.handle_timeout(now));
        let used = |command| match command {
            Command::FlowUsed { peer, index, .. } => Some((peer.0, index.0)),
            _ => None,
        };
        commands(&kernel).into_iter().filter_map(used).collect::<Vec<_>>()
    };
    assert!(look().is_empty(), "asked for flows");
    let [first, second] = [look(), look()];
    assert_eq!((first.len(), second.len()), (flows::SWEPT - 1, 2 * usize::from(each) - flows::SWEPT));
    let told = first.into_iter().chain(second);
    assert!(told.eq((0..2).flat_map(|peer| (0..each).map(move |index| (peer, index))).skip(1)), "each once");
    let looks = USED.div_duration_f64(LOOK) as usize;
    for _ in 2..looks {
        assert!(look().is_empty());
    }
    assert_eq!(look().len(), flows::SWEPT - 1, "the next round");
    // Nobody takes what there is to say.
    for round in 0..20 {
        kernel.handle_timeout(now + USED * round);
    }
    for number in 0..2 * MOST_COMMANDS as u32 {
        let [_, _, high, low] = number.to_be_bytes();
        let (address, to) = (MacAddr([2, 1, 0, 0, high, low]), Location::Here);
        let moves = Event::StationMoves { peer: PeerId(0), generation, address, to };
        assert_eq!(kernel.handle_event(now, moves), [None, None]);
    }
    assert!(commands(&kernel).len() <= MOST_COMMANDS);
}

#[test]
fn a_peer_that_announces_much_leaves_room_for_others() {
    let kernel = limited(2, &Limits { flows: 64, stations: 32, ..Limits::DEFAULT });
    (0..2).for_each(|peer| begin(&kernel, peer));
    let accepted = |peer: u16, flow_of: &dyn Fn(u16) -> Flow| {
        let all = 0..100;
        all.filter(|index| announce(&kernel, peer, *index, flow_of(*index))).count()
    };
    let withdraw = |peer: u16| (0..100).for_each(|index| withdraw(&kernel, peer, index));
    // Flows of one station.
    for peer in 0..2 {
        assert_eq!(accepted(peer, &|index| flow(peer, 9, index)), 64, "peer {peer}");
        assert!(announce(&kernel, peer, 63, flow(peer, 9, 63)), "one that is there already");
    }
    (0..2).for_each(withdraw);
    rest(&kernel);
    // A station for each flow: as many as stay free.
    assert_eq!(accepted(0, &|index| flow(index, 9, 0)), 16);
    assert!(announce(&kernel, 0, 99, flow(0, 9, 1)), "another flow of a station");
    assert_eq!(accepted(1, &|index| flow(100 + index, 9, 0)), 8);
    transmit(&kernel, 0, 0);
    give_path(&kernel, 0);
    use_flow(&kernel, 0, 0, flow(200, 201, 0));
    assert_eq!(kernel.lock().room.stations.free(), 6, "those of this LAN find room");
    (0..2).for_each(withdraw);
    rest(&kernel);
    assert_eq!(accepted(1, &|index| flow(index, 9, 0)), 15);
}

#[test]
fn a_peer_that_withdraws_much_leaves_room_for_others() {
    let kernel = limited(2, &Limits { flows: 64, stations: 32, ..Limits::DEFAULT });
    (0..2).for_each(|peer| begin(&kernel, peer));
    let churned = |flow_of: &dyn Fn(u16) -> Flow| {
        let all = 0..500;
        all.filter(|&number| {
            let accepted = announce(&kernel, 0, 0, flow_of(number));
            withdraw(&kernel, 0, 0);
            accepted
        })
        .count()
    };
    // Flows of one station, which has another flow.
    assert!(announce(&kernel, 0, 1, flow(1, 9, 1000)));
    assert_eq!(churned(&|number| flow(1, 9, number)), 63);
    assert_eq!((0..100).filter(|&index| announce(&kernel, 1, index, flow(2, 9, index))).count(), 64);
    (0..100).for_each(|index| withdraw(&kernel, 1, index));
    withdraw(&kernel, 0, 1);
    rest(&kernel);
    // A station for each.
    assert_eq!(churned(&|number| flow(number, 9, 0)), 16);
    assert_eq!((0..100).filter(|&index| announce(&kernel, 1, index, flow(600 + index, 9, 0))).count(), 8);
}

/// The peer's programs see by the silence that the flow was in user space, and let none of its frames overtake others there.
#[test]
fn a_flow_comes_back_after_a_second() {
    let kernel = kernel(1);
    begin(&kernel, 0);
    transmit(&kernel, 0, 0);
    give_path(&kernel, 0);
    use_flow(&kernel, 0, 0, flow(1, 2, 0));
    std::thread::sleep(2 * QUIET);
    let long = [frame(1, 2, 0), vec![7; 1200]].concat();
    let run = |frame: &[u8]| kernel.lock().site.run_outward(frame, 1).unwrap();
    run(&frame(1, 2, 0));
    let last = std::time::Instant::now();
    run(&long);
    let in_user_space = || {
        let kernel = kernel.lock();
        (0..8).any(|flow| kernel.site.flow_use(flow, kernel.site.now().unwrap()).unwrap().in_user_space)
    };
    assert!(in_user_space());
    while in_user_space() {
        std::thread::sleep(QUIET);
        use_flow(&kernel, 0, 0, flow(1, 2, 0));
    }
    assert!(last.elapsed() >= Duration::from_millis(980), "{:?}", last.elapsed());
}

/// A program may be at work with them still.
#[test]
fn what_a_flow_had_rests_before_it_is_anothers() {
    let kernel = kernel(1);
    begin(&kernel, 0);
    transmit(&kernel, 0, 0);
    give_path(&kernel, 0);
    let counts = || kernel.lock().room.counts();
    let all = counts();
    use_flow(&kernel, 0, 0, flow(1, 2, 0));
    assert!(announce(&kernel, 0, 5, flow(3, 1, 0)));
    let (peer, generation, index) = (PeerId(0), Generation::default(), FlowIndex(0));
    kernel.handle_event(NOW, Event::Withdraw { peer, generation, index });
    withdraw(&kernel, 0, 5);
    let resting = |counts: [[usize; 2]; 3]| counts.map(|[_, resting]| resting);
    assert_eq!(resting(counts()), [3, 1, 1]);
    assert_eq!(counts().map(|[free, resting]| free + resting), all.map(|[free, _]| free));
    kernel.handle_timeout(NOW);
    assert_eq!(resting(counts()), [3, 1, 1]);
    std::thread::sleep(GRACE);
    kernel.handle_timeout(NOW + LOOK);
    assert_eq!(counts(), all);
}

#[test]
fn a_flow_that_finds_room_for_one_station_leaves_it_to_others() {
    let kernel = limited(1, &Limits { stations: 3, ..Limits::DEFAULT });
    begin(&kernel, 0);
    transmit(&kernel, 0, 0);
    give_path(&kernel, 0);
    use_flow(&kernel, 0, 0, flow(1, 2, 0));
    assert_eq!(kernel.lock().room.stations.free(), 1);
    use_flow(&kernel, 0, 1, flow(3, 4, 0));
    rest(&kernel);
    assert_eq!(kernel.lock().room.stations.free(), 1);
    use_flow(&kernel, 0, 2, flow(1, 3, 0));
    assert_eq!(kernel.lock().room.stations.free(), 0);
    kernel.retain(|_| false);
    rest(&kernel);
    assert_eq!(kernel.lock().room.stations.free(), 3);
}

/// Programs beside a real half, which receive a peer's lane 1.
struct Beside {
    kernel: KernelSite,
    half: Forwarding,
    began: std::time::Instant,
    secret: EpochSecret,
    seq: u64,
    /// Flows that were announced.
    asked: u32,
}

impl Beside {
    fn new() -> Self {
        Self::bound([0; 4].into())
    }

    fn bound(bind: IpAddr) -> Self {
        let kernel = bound(1, bind, &Limits::DEFAULT);
        let half = Forwarding::new(tunnel::Settings {
            peers: vec![PeerSettings { mode: Mode::Identifier, path_payload: 1200 }],
            lan_frame: 1500,
            limits: Limits::DEFAULT,
            window: tunnel::Settings::WINDOW,
            table_seed: [7; 16],
        });
        let secret = EpochSecret::new(&[9; EPOCH_SECRET_OCTETS]);
        let mut beside = Self { kernel, half, began: std::time::Instant::now(), secret, seq: 0, asked: 0 };
        beside.tell(Command::Begin { peer: PeerId(0), generation: Generation::default() });
        {
            let Kernel { site, lanes, peers, .. } = &mut *beside.kernel.lock();
            site.set_lan(1).unwrap();
            site.set_lan_frame(1500).unwrap();
            let peer = peers.get_mut(&PeerId(0)).unwrap();
            assert!(peer.lanes.open_receive(lanes, site, 0, (1, &beside.secret), None));
        }
        beside
    }

    fn now(&self) -> Instant {
        Instant::after_start(self.began.elapsed())
    }

    /// False if the kernel answers instead of the half.
    fn tell(&mut self, command: Command) -> bool {
        let told = self.kernel.handle_command(self.now(), ToWorker::Tunnel(command), &mut Vec::new());
        let Some(ToWorker::Tunnel(command)) = told else { return false };
        self.half.handle_command(self.now(), command);
        true
    }

    fn announce(&mut self, index: u16, source: u16) -> bool {
        let (peer, generation, index) = (PeerId(0), Generation::default(), FlowIndex(index));
        self.asked += 1;
        let request = RequestId(self.asked);
        self.tell(Command::AddFlow { peer, generation, index, flow: flow(source, 9, 0), request })
    }

    fn withdraw(&mut self, index: u16) {
        let (peer, generation, index) = (PeerId(0), Generation::default(), FlowIndex(index));
        self.tell(Command::WithdrawFlow { peer, generation, index });
    }

    /// The half's oldest answer arrives. False if there is none.
    fn answer_once(&mut self) -> bool {
        let event = self.half.poll_event();
        event.map(|event| self.kernel.handle_event(self.now(), event)).is_some()
    }

    /// The half's answers arrive.
    fn answer(&mut self) {
        while self.answer_once() {}
    }

    /// A station speaks on this LAN.
    fn speak(&mut self, source: u16) {
        let frame = frame(source, 9, 0);
        self.kernel.lock().site.run_outward(&frame, 1).unwrap();
        let _ = self.half.route(self.now(), &frame);
    }

    /// The next packet of the peer's flow, to an address of this box.
    fn packet(&mut self, index: u16, source: u16, to: [u8; 4]) -> Vec<u8> {
        self.seq += 1;
        let frame = frame(source, 9, 0);
        let parsed = ParsedFrame::parse(&frame).unwrap();
        let header = Header { flow: FlowIndex(index), form: PacketForm::Whole, fields: parsed.fields };
        let (key, header) = (self.secret.lane_key(1), header.encode());
        let block = key.block(self.seq);
        let masked: Vec<u8> = header.iter().zip(block.mask).map(|(octet, mask)| octet ^ mask).collect();
        let body = &frame[parsed.flow.prefix_octets()..];
        let payload = [&block.rid.octets()[..], &key.check(block.pad, header), &masked, body].concat();
        let udp = (payload.len() as u16 + 8).to_be_bytes();
        let total = (payload.len() as u16 + 28).to_be_bytes();
        let ip = [0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1];
        let ports = [7788_u16.to_be_bytes(), 7788_u16.to_be_bytes(), udp, [0; 2]].concat();
        [&[2; 12][..], &[8, 0], &ip, &to, &ports, &payload].concat()
    }

    /// True if a frame of the peer's flow is delivered.
    fn receive(&mut self, index: u16, source: u16) -> bool {
        let packet = self.packet(index, source, [192, 0, 2, 2]);
        let ran = self.kernel.lock().site.run_inward(&packet, 1).unwrap();
        assert_ne!(ran.verdict, xdp::Verdict::Pass, "the lane is the kernel's");
        ran.verdict == xdp::Verdict::Redirect
    }

    fn refused_as_here(&self) -> u64 {
        self.kernel.counters(PeerId(0)).in_pkts_source_here
    }
}

#[test]
fn a_station_that_the_half_knows_here_is_not_a_peers_by_announcing_it() {
    let mut beside = Beside::new();
    let (here, nowhere) = (5, 6);
    beside.speak(here);
    assert!(beside.announce(1, here));
    assert!(!beside.receive(1, here), "before the half has said where it is");
    beside.answer();
    assert!(!beside.receive(1, here));
    assert_eq!(beside.refused_as_here(), 1);
    assert!(beside.announce(2, nowhere));
    beside.answer();
    assert!(beside.receive(2, nowhere), "one that nobody has heard");
    assert!(beside.announce(2, nowhere));
    assert!(beside.receive(2, nowhere), "announced again, it goes on");
    beside.answer();
    // An answer about another flow of this number says nothing about this one.
    assert!(beside.announce(3, 7));
    beside.withdraw(3);
    beside.speak(8);
    assert!(beside.announce(3, 8));
    assert!(beside.answer_once() && !beside.receive(3, 8));
    assert_eq!(beside.refused_as_here(), 1, "it is not delivered yet");
    assert!(beside.answer_once() && !beside.receive(3, 8));
    assert_eq!(beside.refused_as_here(), 2);
    // Spoken to the kernel first, as all frames of the LAN are.
    assert!(beside.announce(4, 10));
    beside.answer();
    beside.speak(10);
    assert!(!beside.receive(4, 10));
    assert_eq!(beside.refused_as_here(), 3);
}

/// By it MKPDUs are judged whose station's frames the half does not see.
#[test]
fn a_station_is_held_where_the_programs_have_heard_it_within_a_second() {
    let mut beside = Beside::new();
    let held = |beside: &Beside, station: u16| {
        let [high, low] = station.to_be_bytes();
        beside.kernel.held_at(MacAddr([2, 0, 0, 0, high, low]))
    };
    assert!(beside.announce(1, 5) && beside.announce(2, 6));
    beside.answer();
    assert_eq!(held(&beside, 5), None, "not heard");
    beside.speak(5);
    assert!(beside.receive(2, 6));
    let places = [5, 6, 7].map(|station| held(&beside, station));
    assert_eq!(places, [Some(Location::Here), Some(Location::Behind(PeerId(0))), None]);
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!([5, 6].map(|station| held(&beside, station)), [None, None]);
}

#[test]
fn programs_suit_the_limits_that_they_were_loaded_with() {
    let limits = Limits { stations: 32, ..Limits::DEFAULT };
    let kernel = limited(1, &limits);
    let (window, bind) = (tunnel::Settings::WINDOW, SocketAddr::new([0; 4].into(), 7788));
    let suits = |limits: &Limits| kernel.suits(window, bind, limits);
    assert!(
        suits(&limits) && suits(&Limits { new_flows_per_second: 7, ..limits }),
        "user space alone has that one"
    );
    let others = [
        Limits { flows: 7, ..limits },
        Limits { stations: 64, ..limits },
        Limits { station_age: Duration::from_secs(60), ..limits },
    ];
    assert!(!others.iter().any(suits));
}

/// One that the socket does not get would be quoted to its sender, or be sent on, with what opens packets.
#[test]
fn packets_are_opened_where_the_socket_receives_from_the_first_epoch_on() {
    let (any_four, any_six) = (IpAddr::from([0; 4]), IpAddr::from([0; 16]));
    // The latter is for documents, and no box has it.
    let [loopback, neighbour] = [[127, 0, 0, 1], [203, 0, 113, 77]];
    for (bind, to, is_opened) in [
        (any_four, loopback, true),
        (any_four, neighbour, false),
        (any_four, [255; 4], false),
        (any_six, loopback, true),
        (loopback.into(), loopback, true),
        (loopback.into(), neighbour, false),
        (IpAddr::from([127, 0, 0, 2]), loopback, false),
    ] {
        let mut beside = Beside::bound(bind);
        let secret = beside.secret.clone();
        let (peer, generation) = (PeerId(0), Generation::default());
        beside.tell(Command::InstallReceive { peer, generation, epoch: 1, secret, lanes: 2 });
        assert!(beside.announce(1, 6));
        beside.answer();
        // A worker that has begun turns, and has found packets in each.
        beside.kernel.lock().site.turns().unwrap().words().iter().zip([9, 0, 0, 0]).for_each(|(word, to)| {
            word.store(to, std::sync::atomic::Ordering::SeqCst);
        });
        let packet = beside.packet(1, 6, to);
        let ran = beside.kernel.lock().site.run_inward(&packet, 1).unwrap();
        assert_eq!(ran.verdict, xdp::Verdict::Pass);
        assert_eq!(ran.frame != packet, is_opened, "bound to {bind}, to {to:?}");
    }
    for (bind, address, is_received) in [
        ("0.0.0.0", "::1", false),
        ("0.0.0.0", "fe80::1", false),
        ("::", "::1", true),
        ("::", "192.0.2.1", true),
        ("::", "ff02::1", false),
        ("fd00::1", "fd00::1", true),
        ("fd00::1", "192.0.2.1", false),
    ] {
        let [bind, address] = [bind, address].map(|text| text.parse().unwrap());
        assert_eq!(strangers::is_received(bind, address), is_received, "{bind} {address}");
    }
}

#[test]
fn an_answer_about_the_flow_of_a_number_before_takes_nothing_from_the_next_one() {
    let kernel = kernel(1);
    begin(&kernel, 0);
    let (peer, generation, index) = (PeerId(0), Generation::default(), FlowIndex(7));
    let announced = || kernel.lock().room.counts()[2][0];
    let all = announced();
    for (source, request) in [(1, RequestId(1)), (2, RequestId(2))] {
        let add = Command::AddFlow { peer, generation, index, flow: flow(source, 9, 0), request };
        let told = kernel.handle_command(NOW, ToWorker::Tunnel(add), &mut Vec::new());
        assert!(told.is_some(), "the half is asked at once");
    }
    let refused = |request| Event::FlowRefused { peer, generation, index, request };
    assert_eq!(kernel.handle_event(NOW, refused(RequestId(1))), [Some(refused(RequestId(1))), None]);
    rest(&kernel);
    assert_eq!(announced(), all - 1, "the second flow has its number");
    kernel.handle_event(NOW, refused(RequestId(2)));
    rest(&kernel);
    assert_eq!(announced(), all);
}

/// Opens an epoch's lane of a peer, or refuses it. The secret is that of [`of_half`].
fn receive(kernel: &KernelSite, epoch: u32, refused: Option<&str>) {
    let secret = EpochSecret::new(&[epoch as u8 + 1; EPOCH_SECRET_OCTETS]);
    let Kernel { site, lanes, peers, .. } = &mut *kernel.lock();
    let known = peers.get_mut(&PeerId(0)).unwrap();
    let opened = known.lanes.open_receive(lanes, site, 0, (epoch, &secret), refused.map(Into::into));
    assert_eq!(opened, refused.is_none());
}

#[test]
fn an_epoch_ends_two_seconds_after_a_packet_of_the_next_one_whoever_takes_it() {
    const REFUSED: Option<&str> = Some("for the test");
    let (peer, generation) = (PeerId(0), Generation::default());
    let epochs = |kernel: &KernelSite| kernel.lock().peers[&peer].lanes.epochs();
    let in_use = |kernel: &KernelSite| -> Vec<u32> {
        let of = |command| match command {
            Command::EpochInUse { epoch, .. } => Some(epoch),
            _ => None,
        };
        commands(kernel).into_iter().filter_map(of).collect()
    };
    let begun = || {
        let kernel = kernel(1);
        begin(&kernel, 0);
        receive(&kernel, 1, None);
        kernel
    };
    // One that no program receives: the half hears it.
    let kernel = begun();
    receive(&kernel, 2, REFUSED);
    drop(kernel.handle_timeout(NOW + LOOK));
    assert_eq!(epochs(&kernel), [1]);
    let heard = NOW + EPOCH_OVERLAP;
    assert_eq!(kernel.handle_event(heard, Event::EpochInUse { peer, generation, epoch: 2 }), [None, None]);
    drop(kernel.handle_timeout(heard + (EPOCH_OVERLAP - LOOK)));
    assert_eq!(epochs(&kernel), [1], "packets on their way");
    // Said once more, it begins nothing anew.
    kernel.handle_event(heard + EPOCH_OVERLAP, Event::EpochInUse { peer, generation, epoch: 2 });
    drop(kernel.handle_timeout(heard + EPOCH_OVERLAP));
    assert_eq!(epochs(&kernel), []);
    assert_eq!(in_use(&kernel), [], "the half has said it");
    // One that programs receive: the half is told, which has lanes of it too.
    let kernel = begun();
    receive(&kernel, 2, None);
    let parsed = ParsedFrame::parse(&frame(1, 9, 0)).unwrap();
    let header = Header { flow: FlowIndex(1), form: PacketForm::Whole, fields: parsed.fields }.encode();
    let key = EpochSecret::new(&[3; EPOCH_SECRET_OCTETS]).lane_key(1);
    let block = key.block(1);
    let masked: Vec<u8> = header.iter().zip(block.mask).map(|(octet, mask)| octet ^ mask).collect();
    let packet =
        datagram(&[&block.rid.octets()[..], &key.check(block.pad, header), &masked, &[7; 40]].concat());
    drop(kernel.handle_timeout(NOW + LOOK));
    assert_eq!(in_use(&kernel), []);
    assert!(!passes(&kernel, &packet), "of a flow that is not known");
    for (later, left, told) in [
        (2 * LOOK, &[1, 2][..], &[2][..]),
        (3 * LOOK, &[1, 2], &[]),
        (2 * LOOK + EPOCH_OVERLAP, &[2], &[]),
        (4 * LOOK + EPOCH_OVERLAP, &[2], &[]),
    ] {
        drop(kernel.handle_timeout(NOW + later));
        assert_eq!((&epochs(&kernel)[..], &in_use(&kernel)[..]), (left, told), "{later:?}");
    }
    // Nothing has come of the two epochs behind it.
    for (third, left) in [(REFUSED, &[][..]), (None, &[3])] {
        let kernel = begun();
        receive(&kernel, 2, REFUSED);
        receive(&kernel, 3, third);
        assert_eq!(epochs(&kernel), left);
    }
}

fn plain(peers: usize, limits: &Limits) -> KernelSite {
    lab::require_root().unwrap();
    let bind = SocketAddr::new([0; 4].into(), 7788);
    let kernel = KernelSite::load([0, peers], tunnel::Settings::WINDOW, bind, limits).unwrap();
    let plain = PlainPeer { vni: 7, path_payload: 1472 };
    kernel.expect_plain(4789, (0..peers as u16).map(|peer| (PeerId(peer), plain)));
    for peer in 0..peers as u16 {
        kernel.set_endpoint(NOW, PeerId(peer), SocketAddr::from(([192, 0, 2, peer as u8], 4789)));
    }
    kernel
}

fn in_use(kernel: &KernelSite, peer: u16, station: u16) {
    let [high, low] = station.to_be_bytes();
    let address = MacAddr([2, 0, 0, 0, high, low]);
    let (peer, generation) = (PeerId(peer), Generation::default());
    assert_eq!(kernel.handle_event(NOW, Event::StationInUse { peer, generation, address }), [None, None]);
}

/// Without a session: a path alone has a flow of a plain peer's sent by the programs.
#[test]
fn a_plain_peer_needs_no_lane() {
    let kernel = plain(1, &Limits::DEFAULT);
    assert!(outward(&kernel, 0).is_some(), "no way leads there");
    give_path(&kernel, 0);
    assert_eq!(outward(&kernel, 0), None);
    use_flow(&kernel, 0, 0, flow(1, 2, 3));
    std::thread::sleep(2 * QUIET);
    let ran = kernel.lock().site.run_outward(&frame(1, 2, 3), 1).unwrap();
    assert_eq!(kernel.counters(PeerId(0)).out_pkts_tunnelled, 1, "{ran:?}");
    let all = |kernel: &KernelSite| kernel.lock().room.counts().map(|[free, resting]| free + resting);
    let before = all(&kernel);
    kernel.leave(&[PeerId(0)]);
    assert_ne!(all(&kernel), before, "what it had is free");
}

#[test]
fn a_plain_peer_that_invents_stations_leaves_room_for_others() {
    let kernel = plain(2, &Limits { stations: 32, ..Limits::DEFAULT });
    let free = || kernel.lock().room.stations.free();
    for station in 0..500 {
        in_use(&kernel, 0, station);
    }
    assert_eq!(free(), 16);
    for station in 500..1000 {
        in_use(&kernel, 1, station);
    }
    assert_eq!(free(), 8);
    for station in 0..500 {
        in_use(&kernel, 0, station);
    }
    assert_eq!(free(), 8, "those that are there already");
    kernel.leave(&[PeerId(0)]);
    rest(&kernel);
    assert_eq!(free(), 24);
}

#[test]
fn stations_behind_a_plain_peer_are_forgotten_when_they_are_silent() {
    let kernel = plain(1, &Limits { station_age: Duration::from_millis(300), ..Limits::DEFAULT });
    (0..100).for_each(|station| in_use(&kernel, 0, station));
    let known = || kernel.lock().room.stations.counts();
    let all = known();
    // Two looks go through all of them.
    let mut now = NOW;
    let mut look = || {
        (0..3).for_each(|_| {
            now = now + LOOK;
            drop(kernel.handle_timeout(now));
        })
    };
    look();
    assert_eq!(known(), all);
    std::thread::sleep(Duration::from_millis(350));
    look();
    assert_eq!(known()[0] + known()[1], all[0] + 100);
}

/// Sender of packets to this box.
const SENDER: &str = "198.51.100.7:7788";

/// A packet of the network to this box.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let [udp, ip] = [8, 28].map(|octets| (octets + payload.len() as u16).to_be_bytes());
    let ip = [&[0x45, 0][..], &ip, &[0, 0, 0x40, 0, 64, 17, 0, 0, 198, 51, 100, 7, 127, 0, 0, 1]].concat();
    let ports = [7788_u16; 2].map(u16::to_be_bytes).concat();
    [&[2; 12][..], &[8, 0], &ip, &ports, &udp, &[0, 0], payload].concat()
}

/// A packet of a peer on a lane of the half.
fn of_half(epoch: u32, lane: u8, seq: u64) -> Vec<u8> {
    let block = EpochSecret::new(&[epoch as u8 + 1; EPOCH_SECRET_OCTETS]).lane_key(lane).block(seq);
    datagram(&[&block.rid.octets()[..], &[7; 60]].concat())
}

fn passes(kernel: &KernelSite, packet: &[u8]) -> bool {
    kernel.lock().site.run_inward(packet, 1).unwrap().verdict == xdp::Verdict::Pass
}

/// True if made-up packets that begin with this octet are dropped, once their part is used up.
fn is_bounded(kernel: &KernelSite, first: u8) -> bool {
    let packet = datagram(&[&[first][..], &[0x3f; 60]].concat());
    let _ = passes(kernel, &packet);
    !passes(kernel, &packet)
}

fn install(kernel: &KernelSite, peer: u16, epoch: u32, lanes: u8) {
    let secret = EpochSecret::new(&[epoch as u8 + 1 + 32 * peer as u8; EPOCH_SECRET_OCTETS]);
    let (peer, generation) = (PeerId(peer), Generation::default());
    kernel.watch(&ToWorker::Tunnel(Command::InstallReceive { peer, generation, epoch, secret, lanes }));
}

#[test]
fn strangers_are_bounded_where_the_programs_know_who_is_none() {
    let kernel = kernel(1);
    // A packet takes the part of minutes.
    let words = kernel.lock().site.turns().unwrap();
    words.words()[4].store(10_000_000_000, std::sync::atomic::Ordering::SeqCst);
    let mut now = NOW;
    let mut look = || {
        now = now + LOOK;
        drop(kernel.handle_timeout(now));
        [0x3f, 0x40, 0xc0].map(|first| is_bounded(&kernel, first))
    };
    assert_eq!(look(), [false; 3], "the data port may be somebody else's");
    kernel.expect_channel();
    assert_eq!(look(), [true; 3]);

    let begin = |peer| Command::Begin { peer: PeerId(peer), generation: Generation::default() };
    for epoch in 0..3 {
        install(&kernel, 0, epoch, 2);
        for (old, lane) in (0..=epoch).flat_map(|old| [(old, 0), (old, 1)]) {
            let packet = of_half(old, lane, u64::from(epoch) + 1);
            assert_eq!(passes(&kernel, &packet), old + 2 > epoch, "epoch {old} in {epoch}");
            assert!(!passes(&kernel, &packet), "once more");
        }
    }
    install(&kernel, 0, 2, 2);
    install(&kernel, 0, 1, 2);
    assert!(passes(&kernel, &of_half(2, 0, 9)) && passes(&kernel, &of_half(1, 0, 9)), "none is newer");
    let seq = 1 << 40;
    assert!(!passes(&kernel, &of_half(2, 1, seq + 5)));
    let (peer, generation) = (PeerId(0), Generation::default());
    kernel.watch(&ToWorker::Tunnel(Command::Position { peer, generation, epoch: 2, lane: 1, seq }));
    assert!(passes(&kernel, &of_half(2, 1, seq + 5)) && !passes(&kernel, &of_half(2, 0, seq + 5)));
    assert_eq!(look(), [true; 3]);

    let (sender, elsewhere) = (SENDER.parse().unwrap(), "198.51.100.8:7788".parse().unwrap());
    kernel.know(vec![(PeerId(0), elsewhere), (PeerId(1), elsewhere)]);
    install(&kernel, 1, 0, 3);
    assert_eq!(look(), [true; 3], "a lane of the half is not watched, of a peer elsewhere");
    kernel.know(vec![(PeerId(0), elsewhere), (PeerId(1), sender)]);
    assert_eq!(look(), [false, true, true], "of one there");
    kernel.watch(&ToWorker::Tunnel(begin(1)));
    install(&kernel, 1, 1, 2);
    assert_eq!(look(), [true; 3], "all lanes are watched");
    install(&kernel, 1, 2, 3);
    assert!(!look()[0], "at once");
    kernel.watch(&ToWorker::Tunnel(begin(1)));
    kernel.know(vec![(PeerId(0), elsewhere)]);
    assert_eq!(look(), [true; 3]);
    kernel.watch(&ToWorker::Tunnel(begin(0)));
    assert!(!passes(&kernel, &of_half(2, 0, 10)), "its keys are void");
    assert!(kernel.floods().packets > 0 && kernel.floods().datagrams > 0);
    kernel.end();
    assert_eq!(kernel.floods(), Floods::default());
    assert_eq!([0x3f, 0x40, 0xc0].map(|first| is_bounded(&kernel, first)), [false; 3]);
}

/// Strangers have used up their part of QUIC's packets.
fn besieged() -> KernelSite {
    let kernel = kernel(1);
    let words = kernel.lock().site.turns().unwrap();
    words.words()[4].store(10_000_000_000, std::sync::atomic::Ordering::SeqCst);
    kernel.expect_channel();
    drop(kernel.handle_timeout(NOW));
    assert!(is_bounded(&kernel, 0x40) && is_bounded(&kernel, 0xc0));
    kernel
}

#[test]
fn a_connected_peers_packets_have_a_part_of_their_own() {
    let short = datagram(&[&[0x40][..], &[0x3f; 60]].concat());
    let at = |address: &str| (PeerId(0), address.parse().unwrap());
    for (known, has) in [
        (vec![], false),
        (vec![at("198.51.100.7:7789")], false),
        (vec![at("198.51.100.8:7788")], false),
        (vec![at(SENDER)], true),
        (vec![at("[::ffff:198.51.100.7]:7788"), at("192.0.2.1:1"), at(SENDER)], true),
    ] {
        let kernel = besieged();
        kernel.know(known.clone());
        assert_eq!(passes(&kernel, &short), has, "{known:?}");
        assert!(!passes(&kernel, &short), "{known:?}");
        // Others have theirs, and those who leave leave nothing.
        kernel.know(vec![at("192.0.2.2:1")]);
        kernel.know(vec![at("192.0.2.2:1"), at(SENDER)]);
        kernel.know(vec![]);
        assert!(!passes(&kernel, &short), "it is a stranger's");
        kernel.know(vec![at(SENDER)]);
        kernel.end();
        kernel.know(vec![]);
        assert_eq!(kernel.lock().known.counts(), [0, MOST_KNOWN as usize]);
    }
}

#[test]
fn peers_beyond_the_room_are_taken_for_strangers() {
    let kernel = besieged();
    let peers: Vec<_> =
        (0..=MOST_KNOWN as u16).map(|peer| (PeerId(peer), SocketAddr::from(([10, 0, 0, 1], peer)))).collect();
    kernel.know(peers.clone());
    assert_eq!(kernel.lock().known.counts(), [MOST_KNOWN as usize, 0]);
    let bounds_identifiers = || {
        kernel.lock().looked = None;
        drop(kernel.handle_timeout(NOW));
        is_bounded(&kernel, 0x3f)
    };
    assert!(bounds_identifiers());
    // Its frames are not dropped as a stranger's.
    install(&kernel, MOST_KNOWN as u16, 0, 3);
    assert!(!bounds_identifiers(), "there is no room to know where its packets come from");
    kernel.know(peers[1..].to_vec());
    assert!(bounds_identifiers());
    assert_eq!(kernel.lock().known.counts(), [MOST_KNOWN as usize, 0]);
}

#[test]
fn addresses_of_this_box_beyond_the_room_are_told() {
    let kernel = kernel(1);
    let mut locked = kernel.lock();
    let site = &mut locked.site;
    let mut bounds = Bounds::new(std::net::Ipv4Addr::UNSPECIFIED.into());
    let here =
        |numbers: std::ops::Range<u32>| numbers.map(|number| IpAddr::from(number.to_be_bytes())).collect();
    bounds.tell(site, here(1..MOST_HERE + 1), &[Stranger::ShortHeader]);
    assert_eq!(bounds.lack(), None);
    bounds.tell(site, here(0..MOST_HERE + 6), &[Stranger::ShortHeader]);
    let lack = bounds.lack().unwrap();
    assert!(lack.contains("at 1024 addresses of this box, and it has 6 more"), "{lack}");
    let first = IpAddr::from([0; 4]);
    assert!(site.free_strangers(first).is_err(), "those that were bounded stay so");
    bounds.tell(site, here(0..5), &[Stranger::ShortHeader]);
    assert_eq!(bounds.lack(), None);
    site.free_strangers(first).unwrap();
}

#[test]
fn watched_lanes_are_free_after_their_peers() {
    let kernel = kernel(1);
    let counts = || kernel.lock().watches.counts();
    let [all, _] = counts();
    for epoch in 0..20 {
        install(&kernel, 0, epoch, 1);
        if epoch >= 2 {
            assert_eq!(counts().iter().sum::<usize>(), all - 2, "two epochs have one each");
        }
        std::thread::sleep(GRACE / 3);
        kernel.lock().watches.reuse();
        assert!(kernel.lock().watches.are_complete(PeerId(0)), "{epoch}");
    }
    kernel.retain(|_| false);
    std::thread::sleep(GRACE);
    kernel.lock().watches.reuse();
    assert_eq!(counts(), [all, 0]);
}

#[test]
fn all_lanes_are_watched_when_all_peers_begin_an_epoch_at_once() {
    let kernel = kernel(5);
    // Lanes that rest stay so: nobody looks for those that have rested.
    for epoch in 0..3 {
        for peer in 0..5 {
            install(&kernel, peer, epoch, 2);
            assert!(kernel.lock().watches.are_complete(PeerId(peer)), "epoch {epoch} of peer {peer}");
        }
    }
}
