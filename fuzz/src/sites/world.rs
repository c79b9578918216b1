//! The sites, the wires and channels between them, and the time.

use std::collections::VecDeque;
use std::time::Duration;

use tunnel::{Delivery, Destination, Location, Message, Mode, PacketSource, PeerFault, RelayLeg};
use wire::Instant;

use super::judge::{Frame, Judge, address};
use super::site::{LAN_FRAME, Plan, RELAY, SITES, Site, begin_draws, name, named, octets, pair_bit};
use super::{STATIONS, Setup};

/// Messages that a channel carries at most: more are lost with it.
const MESSAGES: usize = 4096;

/// A packet on its way.
#[derive(Clone)]
pub(crate) struct OnWire {
    from: usize,
    to: usize,
    /// The UDP port of header encryption.
    header_port: bool,
    octets: Vec<u8>,
}

/// The channel of two sites, the lower one first.
#[derive(Default)]
struct Channel {
    connected: bool,
    /// By sender and stream.
    sent: [[VecDeque<Vec<u8>>; 2]; 2],
}

pub(crate) struct World {
    now: Instant,
    plan: Plan,
    sites: [Option<Site>; SITES],
    /// Site at each address that there ever was.
    addresses: Vec<Option<usize>>,
    /// Whether packets of a site to another one are relayed.
    relayed: [[bool; SITES]; SITES],
    pub(crate) wire: Vec<OnWire>,
    /// Packets that an attacker has.
    pub(crate) held: Vec<OnWire>,
    /// By the lower site, then the higher one.
    channels: [[Channel; SITES]; SITES],
    /// LAN of each station.
    pub(crate) stations: [usize; STATIONS],
    judge: Judge,
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..SITES).flat_map(|low| (low + 1..SITES).map(move |high| (low, high)))
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        begin_draws();
        let (plan, now) = (Plan::new(setup), Instant::after_start(Duration::from_secs(5)));
        let endpoints = std::array::from_fn(|site| site);
        let mut world = Self {
            sites: std::array::from_fn(|number| Some(Site::new(&plan, number, now, endpoints))),
            now,
            plan,
            addresses: (0..SITES).map(Some).collect(),
            relayed: [[false; SITES]; SITES],
            wire: Vec::new(),
            held: Vec::new(),
            channels: Default::default(),
            stations: std::array::from_fn(|station| station % SITES),
            judge: Judge::default(),
        };
        for (low, high) in pairs() {
            let on = pair_bit(setup.relayed, low, high);
            world.relay(low, high, on);
            world.relay(high, low, on);
        }
        if setup.begin {
            world.pass(Duration::from_millis(100), Duration::from_millis(5));
        }
        world
    }

    /// A station sends a frame. Returns its octets, if it went into a site.
    pub(crate) fn depart(&mut self, frame: &Frame) -> Option<Vec<u8>> {
        let (now, at) = (self.now, self.stations[frame.from]);
        let octets_of_frame = self.judge.make(frame);
        let site = self.sites[at].as_mut()?;
        let route = site.forwarding.route(now, &octets_of_frame)?;
        let peers = match route.destination {
            Destination::Peer(peer) => vec![(peer, site.site_of(peer))],
            Destination::All => site.others().collect(),
        };
        if let Destination::Peer(_) = route.destination {
            self.judge.directed(at, frame, peers[0].1);
        }
        let (mut to, mut packets) = ([false; SITES], Vec::new());
        for (peer, other) in peers {
            to[other] = true;
            for packet in site.forwarding.dispatch(now, &route, peer, &octets_of_frame) {
                packets.push((other, octets(&packet, &octets_of_frame)));
            }
        }
        self.judge.entered(&octets_of_frame, at, frame, to);
        packets.into_iter().for_each(|(to, packet)| self.send(at, to, packet));
        Some(octets_of_frame)
    }

    /// A packet of a site for another one.
    fn send(&mut self, from: usize, to: usize, packet: Vec<u8>) {
        assert!(packet.len() <= self.plan.path, "longer than the path");
        let header_port = self.plan.mode(from, to) == Mode::HeaderEncryption;
        if !header_port {
            self.judge.identified(from, to, &packet);
        }
        if self.relayed[from][to] {
            self.send_by_relay(from, RELAY, (RelayLeg::To, to), &packet);
        } else {
            self.transmit(from, to, header_port, packet);
        }
    }

    /// A packet inside of one to or from the relay. It is lost if that is no peer, or takes none.
    fn send_by_relay(&mut self, from: usize, to: usize, (leg, of): (RelayLeg, usize), packet: &[u8]) {
        let now = self.now;
        let Some(site) = &mut self.sites[from] else { return };
        let Some(peer) = site.peer(to) else { return };
        let Some(header) = site.forwarding.relay(now, peer, (leg, name(of)), packet.len()) else { return };
        let packet = [&header[..], packet].concat();
        self.judge.identified(from, to, &packet);
        self.transmit(from, to, false, packet);
    }

    fn transmit(&mut self, from: usize, to: usize, header_port: bool, octets: Vec<u8>) {
        let site = self.sites[from].as_ref().expect("a site that sends");
        self.wire.push(OnWire { from: site.address, to: site.endpoints[to], header_port, octets });
    }

    /// The first packets of the wires arrive.
    pub(crate) fn deliver(&mut self, count: usize) {
        let count = count.min(self.wire.len());
        for packet in self.wire.drain(..count).collect::<Vec<_>>() {
            let OnWire { from, to, header_port, octets } = packet;
            let Some(at) = self.addresses[to] else { continue };
            let Some(site) = &self.sites[at] else { continue };
            let source = if header_port {
                let mut others = site.others();
                let Some((peer, _)) = others.find(|(_, other)| {
                    site.endpoints[*other] == from && self.plan.mode(at, *other) == Mode::HeaderEncryption
                }) else {
                    continue;
                };
                PacketSource::From(peer)
            } else {
                PacketSource::Identifier
            };
            self.open(at, source, &octets, None);
        }
    }

    /// A packet comes to a site, by itself or out of one of the relay that names this site as its sender.
    fn open(&mut self, at: usize, source: PacketSource, packet: &[u8], relayed: Option<usize>) {
        let now = self.now;
        let site = self.sites[at].as_mut().expect("invariant: it is there");
        match site.forwarding.handle_packet(now, source, packet) {
            Ok(Delivery::Frame { from, prefix, body }) => {
                let from = site.site_of(from);
                let frame = [&prefix[..], &packet[body]].concat();
                self.arrive(at, from, relayed, &frame);
            }
            Ok(Delivery::Joined { from, prefix, first, second }) => {
                let frame = [&prefix[..], first, second].concat();
                let from = site.site_of(from);
                self.arrive(at, from, relayed, &frame);
            }
            Ok(Delivery::Relayed { from, leg, site: name, body }) => {
                assert!(relayed.is_none(), "a relayed packet in a relayed packet");
                let (from, named) = (site.site_of(from), named(name));
                match leg {
                    RelayLeg::To => {
                        assert_eq!(at, RELAY, "a site that relays nothing has taken it");
                        self.send_by_relay(at, named, (RelayLeg::From, from), &packet[body]);
                    }
                    RelayLeg::From => {
                        assert_eq!(from, RELAY, "a site that relays nothing has sent it");
                        self.open(at, PacketSource::Identifier, &packet[body], Some(named));
                    }
                }
            }
            Ok(Delivery::Pending) | Err(_) => {}
        }
    }

    fn arrive(&mut self, at: usize, from: usize, relayed: Option<usize>, frame: &[u8]) {
        assert!(
            relayed.is_none_or(|named| named == from),
            "the relay names {relayed:?}, and it is of {from}"
        );
        assert!(frame.len() <= LAN_FRAME + 8, "longer than the LAN takes");
        self.judge.delivered(frame, at, from);
    }

    /// The last frame that came out of a site is on its LAN at once again.
    pub(crate) fn reflect(&mut self, at: usize) {
        let now = self.now;
        let (Some(frame), Some(site)) = (self.judge.last[at].take(), &mut self.sites[at]) else { return };
        // The station may be forgotten, or no place was left for it.
        let source: [u8; 6] = *frame[6..].first_chunk().expect("a source");
        let known = site.forwarding.stations().find(|station| station.address.0 == source);
        let is_fresh = known.is_some_and(|station| {
            station.location != Location::Here && now.since(station.heard) < Duration::from_secs(1)
        });
        if is_fresh {
            let loops = site.forwarding.counters().out_pkts_loop;
            assert!(site.forwarding.route(now, &frame).is_none(), "a loop");
            assert_eq!(site.forwarding.counters().out_pkts_loop, loops + 1);
        }
    }

    pub(crate) fn stop(&mut self, at: usize) {
        if self.sites[at].take().is_some() {
            (0..SITES).for_each(|other| self.break_channel(at, other, true));
        }
        self.judge.last[at] = None;
        self.judge.forget(at, None);
    }

    pub(crate) fn start(&mut self, at: usize) {
        self.stop(at);
        // Its configuration says where the others are.
        let place = |site| self.addresses.iter().position(|at| *at == Some(site)).expect("an address");
        self.sites[at] = Some(Site::new(&self.plan, at, self.now, std::array::from_fn(place)));
    }

    pub(crate) fn remove(&mut self, at: usize, other: usize) {
        if at != other
            && let Some(site) = &mut self.sites[at]
        {
            site.remove(other);
            self.break_channel(at, other, true);
            self.judge.forget(at, Some(other));
            self.assert_bounded();
        }
    }

    pub(crate) fn add(&mut self, at: usize, other: usize) {
        let now = self.now;
        if let Some(site) = &mut self.sites[at] {
            site.add(other, now);
        }
    }

    /// Packets of a site to another one are relayed, or not.
    pub(crate) fn relay(&mut self, from: usize, to: usize, on: bool) {
        let may = from != to && from != RELAY && to != RELAY && self.plan.mode(from, to) == Mode::Identifier;
        self.relayed[from][to] = on && may;
    }

    pub(crate) fn renumber(&mut self, at: usize) {
        let next = self.addresses.len();
        for address in self.addresses.iter_mut().filter(|address| **address == Some(at)) {
            *address = None;
        }
        self.addresses.push(Some(at));
        if let Some(site) = &mut self.sites[at] {
            (site.address, site.endpoints[at]) = (next, next);
        }
    }

    pub(crate) fn locate(&mut self, at: usize, other: usize) {
        let place = self.addresses.iter().position(|site| *site == Some(other)).expect("an address");
        if let Some(site) = &mut self.sites[at] {
            site.endpoints[other] = place;
        }
    }

    pub(crate) fn break_channel(&mut self, one: usize, other: usize, noticed: bool) {
        let (low, high, now) = (one.min(other), one.max(other), self.now);
        if low == high || !std::mem::take(&mut self.channels[low][high]).connected || !noticed {
            return;
        }
        for (at, of) in [(low, high), (high, low)] {
            if let Some(session) = self.sites[at].as_mut().and_then(|site| site.session(of)) {
                session.handle_disconnected(now);
            }
        }
    }

    /// Time goes by, in steps; messages arrive in the step in which they were said.
    pub(crate) fn pass(&mut self, time: Duration, step: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = (self.now + step).min(end);
            self.connect();
            for at in 0..SITES {
                let Some(site) = &mut self.sites[at] else { continue };
                let packets = site.turn(self.now);
                packets.into_iter().for_each(|(to, packet)| self.send(at, to, packet));
            }
            for (low, high) in pairs() {
                self.carry(low, high);
                self.carry(high, low);
            }
        }
    }

    /// Connects all that are in each other's configuration.
    fn connect(&mut self) {
        for (low, high) in pairs() {
            let knows =
                |at: usize, other| self.sites[at].as_ref().is_some_and(|site| site.peer(other).is_some());
            if self.channels[low][high].connected || !knows(low, high) || !knows(high, low) {
                continue;
            }
            self.channels[low][high].connected = true;
            for (at, other) in [(low, high), (high, low)] {
                let session = self.sites[at].as_mut().and_then(|site| site.session(other));
                session.expect("invariant: it is there").handle_connected(self.now);
            }
        }
    }

    /// Carries a site's messages to another one.
    fn carry(&mut self, from: usize, to: usize) {
        let (low, high, end) = (from.min(to), from.max(to), usize::from(from > to));
        let Some(site) = &mut self.sites[from] else { return };
        let channel = &mut self.channels[low][high];
        while let Some((stream, octets)) = site.say(to) {
            if channel.connected {
                channel.sent[end][stream].push_back(octets);
            }
        }
        let said = channel.sent[end].iter().map(VecDeque::len).sum::<usize>();
        assert!(said <= MESSAGES, "{said} messages at once");
        let Some(session) = self.sites[to].as_mut().and_then(|site| site.session(from)) else { return };
        let mut hasty = false;
        for octets in channel.sent[end].iter_mut().rev().flat_map(|stream| stream.drain(..)) {
            let message = Message::parse(&octets).expect("a message").expect("a known kind");
            match session.handle_message(self.now, message) {
                Ok(()) => {}
                // Its site was started more often than once a second.
                Err(PeerFault::TooManyInstances | PeerFault::TooManyEpochs) => {
                    hasty = true;
                    break;
                }
                Err(fault) => panic!("an honest peer: {fault}"),
            }
        }
        if hasty {
            self.break_channel(from, to, true);
        }
    }

    /// No table is longer than it may be, and no station is behind a peer that has left.
    pub(crate) fn assert_bounded(&self) {
        let limits = self.plan.limits;
        for site in self.sites.iter().flatten() {
            let here =
                site.forwarding.stations().filter(|station| station.location == Location::Here).count();
            let behind = site.forwarding.stations().count() - here;
            assert!(here.max(behind) <= limits.stations / 2, "stations of one half of the table");
            for station in site.forwarding.stations() {
                if let Location::Behind(peer) = station.location {
                    assert!(site.others().any(|(other, _)| other == peer), "behind a peer that has left");
                }
            }
            for (peer, _) in site.others() {
                // Relayed packets have flows of their own: to or from each other site.
                let flows = limits.flows + SITES;
                assert!(site.forwarding.flows(peer).count() <= flows, "flows");
                assert!(site.forwarding.announced_flows(peer) <= flows, "flows of a peer");
                for station in 0..STATIONS {
                    let is_its = |source: [u8; 6]| source == address(station);
                    let flows = site.forwarding.flows(peer);
                    let its = flows.filter(|numbered| is_its(numbered.flow.source.0)).count();
                    assert!(its <= limits.flows_per_source, "{its} flows of one source");
                }
            }
        }
    }

    /// All is well again: what each station sends to each other one arrives there alone.
    pub(crate) fn heal(&mut self) {
        self.wire.clear();
        for at in 0..SITES {
            if self.sites[at].is_none() {
                self.start(at);
            }
        }
        for at in 0..SITES {
            (0..SITES).for_each(|other| self.add(at, other));
        }
        for at in 0..SITES {
            (0..SITES).for_each(|other| self.locate(at, other));
        }
        // Stations are forgotten where they were, and flows too.
        self.pass(Duration::from_secs(12), Duration::from_millis(100));
        for _ in 0..30 {
            for from in 0..STATIONS {
                self.depart(&Frame { from, to: None, octets: 64, tags: 0 });
            }
            self.deliver(usize::MAX);
            self.pass(Duration::from_millis(100), Duration::from_millis(10));
            self.deliver(usize::MAX);
        }
        self.assert_bounded();
        if self.plan.limits.stations < STATIONS {
            return;
        }
        let stations = self.stations;
        // Some in two packets, where the path carries the halves with all headers.
        let longest = if self.plan.path < 300 { 64 } else { self.plan.path.min(LAN_FRAME) };
        for from in 0..STATIONS {
            for to in (0..STATIONS).filter(|to| *to != from) {
                let frame = Frame { from, to: Some(to), octets: longest, tags: from };
                let sent = self.depart(&frame);
                if stations[to] == stations[from] {
                    assert_eq!(sent, None, "{from} to {to}, of the same LAN");
                    continue;
                }
                let octets = sent.expect("a way");
                self.deliver(usize::MAX);
                // With header encryption a new flow waits until it is known there.
                self.pass(Duration::from_millis(30), Duration::from_millis(5));
                self.deliver(usize::MAX);
                let mut wanted = [false; SITES];
                wanted[stations[to]] = true;
                assert_eq!(self.judge.fate(&octets), Some((wanted, wanted)), "{from} to {to}");
            }
        }
    }
}
