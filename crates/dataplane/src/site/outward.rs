//! From the LAN to the peers.
//!
//! ```text
//!  LAN ──▶ burst ──▶ EtherType ── MACsec ─▶ route ──▶ peer by peer: dispatch ──▶ head and body ──▶ UDP, 64 a call
//!                        ├ MKPDU ─▶ manager's mailbox, plain peers
//!                        └ else: counted
//! ```
//!
//! A packet is a head of a few octets and a piece of the frame, which the kernel gathers from where they lie: nothing is
//! copied here, whether a frame goes to one peer, to all, or in two parts. Peer by peer, so that packets for one address
//! follow each other and leave together.

use arrayvec::ArrayVec;
use secy::ExpressClasses;
use tunnel::shaper::{Class, PacketOf};
use tunnel::standby::Gate;
use tunnel::{Destination, Location, Mode, PeerId, Route};
use wire::Instant;
use wire::tunnel::Flow;

use super::Site;
use super::copies::{Copies, is_express};
use super::endpoints::{PATHS, Place, WanPort};
use super::entry::source;
use super::handed_frames::are_handed;
use super::lan::LanFrameKind;
use super::marking::{Dscp, Mark, Marking};
use super::relay::{RelayedDatagram, RelayedKind, Relays};
use super::secured::Sender;
use super::senders::{Admission, Senders};
use super::uplink::BulkFlow;
use super::wan::Wan;
use netdev::burst::BURST_FRAMES;
use netdev::udp::{HEAD_OCTETS, Outgoing, SEND_PACKETS};

/// Work space in which the frames of a turn are sorted by peer.
pub(super) struct Outward {
    /// Frames of the burst that go somewhere, by their number in it, with their marks.
    routes: ArrayVec<(usize, Mark, Route), BURST_FRAMES>,
    /// Peers to which a frame of the burst goes.
    wanted: Vec<bool>,
    /// Peers that have not left.
    there: Vec<bool>,
    /// Peers whose EAPOL goes beside their frames.
    plain: Vec<PeerId>,
    /// Number of peers with a management channel, which carries EAPOL.
    channels: usize,
    /// The differentiated services code points of packets, and which frames are express.
    pub(super) marking: Marking,
}

impl Outward {
    pub(super) fn new(modes: &[Mode], dscp: Dscp) -> Self {
        let mut outward = Self {
            routes: ArrayVec::new(),
            wanted: Vec::with_capacity(modes.len()),
            there: Vec::with_capacity(modes.len()),
            plain: Vec::new(),
            channels: 0,
            marking: Marking { dscp, express: ExpressClasses::DEFAULT },
        };
        (0..).zip(modes).for_each(|(number, mode)| outward.add(PeerId(number), *mode));
        outward
    }

    /// A peer comes, with the next number.
    pub(super) fn add(&mut self, peer: PeerId, mode: Mode) {
        self.wanted.push(false);
        self.there.push(true);
        match mode {
            Mode::Plain { .. } => self.plain.push(peer),
            Mode::Identifier | Mode::HeaderEncryption => self.channels += 1,
        }
    }

    /// A peer leaves.
    pub(super) fn remove(&mut self, peer: PeerId) {
        let Some(there) = self.there.get_mut(peer.index()).filter(|there| **there) else { return };
        *there = false;
        match self.plain.iter().position(|plain| *plain == peer) {
            Some(place) => drop(self.plain.remove(place)),
            None => self.channels -= 1,
        }
    }

    /// The rules by which a SecY's frames are marked before it hides what is in them, if anybody asks for marks.
    pub(super) fn marks(&self, shaped: bool, copies: bool) -> Option<Marking> {
        (shaped || copies || !matches!(self.marking.dscp, Dscp::All(_))).then_some(self.marking)
    }

    /// Sends the packets that wait for a relay, or to be relayed.
    pub(super) fn send_relayed(&self, now: Instant, relays: &mut Relays, wan: &mut Wan) {
        send_relayed(now, relays, wan, self.marking.dscp);
    }

    /// Notes where a frame goes.
    fn note(&mut self, number: usize, mark: Mark, route: Route) {
        match route.destination {
            Destination::All => self.wanted.copy_from_slice(&self.there),
            Destination::Peer(peer) => {
                if let Some(wanted) = self.wanted.get_mut(peer.index()) {
                    *wanted = true;
                }
            }
        }
        self.routes.push((number, mark, route));
    }
}

impl Site {
    /// Takes a burst from the LAN to the peers, and says how many frames came. Work: one route a frame, and one dispatch
    /// for each peer that it goes to.
    pub(super) fn outward(&mut self, now: Instant) -> usize {
        let Self {
            forwarding,
            mailbox,
            senders,
            wan,
            lan,
            endpoints,
            relays,
            arrived,
            outward,
            standby,
            sending,
            counters,
            ..
        } = self;
        let Some((pool, sender, received)) = lan.receive(arrived, counters) else { return 0 };
        if arrived.is_empty() {
            return received;
        }
        let gate = standby.as_ref().map_or(Gate::Open, |standby| standby.gate());
        let marks = outward.marks(!wan.uplinks.is_empty(), endpoints.has_express_copies());
        let mut batch = Batch::new(now, wan, arrived.len());
        let first = batch.number;
        for (number, slot) in arrived.slots().iter().enumerate() {
            let frame = pool.frame(slot);
            match LanFrameKind::of(frame) {
                LanFrameKind::Other => {
                    let is_repeated = || standby.as_ref().is_some_and(|it| it.is_delivered_by_partner(frame));
                    let route = match gate {
                        Gate::Open if is_repeated() => None,
                        Gate::Open => match forwarding.route(now, frame) {
                            Some(route) => Some(route),
                            // It was counted.
                            None => continue,
                        },
                        // Every box of the LAN has heard what goes to all.
                        Gate::Draining => forwarding.route_draining(now, frame),
                        Gate::Closed => None,
                    };
                    let Some(route) = route else {
                        counters.out_pkts_standby += 1;
                        continue;
                    };
                    let mark = match (&marks, sender) {
                        (None, _) => Mark::of_others(outward.marking.dscp),
                        (Some(marking), Sender::Lan) => Mark::of(frame, marking),
                        (Some(_), Sender::Own) => Mark(pool.mark(slot)),
                    };
                    // Groups and unknown stations stay here: they go to all peers, and this half alone knows which share a LAN.
                    if let (Some(sending), Destination::Peer(peer)) = (&mut *sending, route.destination)
                        && are_handed(forwarding.spread(&route))
                    {
                        let given = sending.give(peer, route, mark.dscp(), frame);
                        counters.out_pkts_worker_busy += u64::from(!given);
                        continue;
                    }
                    outward.note(number, mark, route);
                }
                LanFrameKind::Mka if gate != Gate::Open && matches!(sender, Sender::Lan) => {
                    counters.out_pkts_standby += 1;
                }
                LanFrameKind::Eapol => counters.out_eapol_other += 1,
                LanFrameKind::Mka
                    if matches!(sender, Sender::Lan)
                        && source(frame)
                            .and_then(|source| forwarding.held_at(now, source))
                            .is_some_and(|location| location != Location::Here) =>
                {
                    counters.out_mkpdus_loop += 1;
                }
                LanFrameKind::Mka => {
                    if outward.channels > 0 {
                        let admission = match sender {
                            Sender::Lan => senders.send(now, frame, &mut mailbox.eapol),
                            // Whoever floods the LAN takes nothing of the own KaY's share.
                            Sender::Own => Senders::send_own(frame, &mut mailbox.eapol),
                        };
                        *match admission {
                            Admission::Sent => &mut counters.out_eapol,
                            Admission::Flood => &mut counters.out_mkpdus_flood,
                            Admission::NoRoom => &mut counters.out_eapol_dropped,
                        } += 1;
                    }
                    for &peer in &outward.plain {
                        let Some(place) = endpoints.of(peer) else {
                            counters.out_pkts_no_endpoint += 1;
                            continue;
                        };
                        if let Some(packet) = forwarding.encapsulate_eapol(peer, frame) {
                            batch.number = first + number as u64;
                            batch.describe(BulkFlow::Mka, Mark::of_others(outward.marking.dscp));
                            batch.push(place, packet.header, &frame[packet.body]);
                            counters.out_eapol_plain += 1;
                        }
                    }
                }
                LanFrameKind::MacControl => counters.out_pkts_mac_control += 1,
            }
        }
        for peer in (0..outward.wanted.len()).map(|number| PeerId(number as u16)) {
            if !std::mem::take(&mut outward.wanted[peer.index()]) {
                continue;
            }
            let place = endpoints.of(peer);
            let passed_over = forwarding.is_passed_over(peer);
            let (copies, others) = endpoints.others(peer);
            batch.begin(copies, others);
            for (number, mark, route) in &outward.routes {
                match route.destination {
                    Destination::All if passed_over => continue,
                    Destination::Peer(other) if other != peer => continue,
                    Destination::All | Destination::Peer(_) => {}
                }
                let frame = pool.frame(&arrived.slots()[*number]);
                batch.number = first + *number as u64;
                match (place, relays.hub_of(peer)) {
                    (Some(place), _) => {
                        batch.describe_frame(peer, &route.taken.flow, *mark, &outward.marking.express);
                        for packet in forwarding.dispatch(now, route, peer, frame) {
                            batch.push(place, packet.header, &frame[packet.body]);
                        }
                    }
                    (None, Some(hub)) => {
                        batch.describe_frame(peer, &route.taken.flow, *mark, &outward.marking.express);
                        let mut kind = RelayedKind::Frame(batch.class, *mark, false);
                        for packet in forwarding.dispatch(now, route, peer, frame) {
                            if relays.is_full() {
                                send_relayed(now, relays, batch.wan, outward.marking.dscp);
                            }
                            let pieces = [packet.header.as_slice(), &frame[packet.body]];
                            let before = relays.waiting();
                            relays.put_for(now, (peer, hub), kind, pieces, (forwarding, endpoints), counters);
                            // One that could not go is no beginning.
                            kind = RelayedKind::Frame(batch.class, *mark, relays.waiting() > before);
                        }
                    }
                    (None, None) => counters.out_pkts_no_endpoint += 1,
                }
            }
        }
        counters.out_pkts_copies += batch.finish();
        outward.send_relayed(now, relays, wan);
        outward.routes.clear();
        if let Some(sending) = sending {
            sending.wake();
        }
        arrived.give_all(pool);
        received
    }

    /// Sends packets of the management channel that are to be relayed. Returns how many there were.
    pub(super) fn relay_datagrams(&mut self, now: Instant) -> usize {
        let Self { forwarding, mailbox, wan, endpoints, relays, outward, counters, .. } = self;
        let mut sent = 0;
        while !relays.is_full()
            && sent < BURST_FRAMES
            && let Some(RelayedDatagram { peer, octets }) = mailbox.relayed.receive()
        {
            sent += 1;
            match relays.hub_of(peer) {
                Some(hub) => {
                    let kind = RelayedKind::Channel(peer);
                    relays.put_for(now, (peer, hub), kind, [&octets, &[]], (forwarding, endpoints), counters);
                }
                None => counters.out_pkts_no_endpoint += 1,
            }
        }
        outward.send_relayed(now, relays, wan);
        sent
    }

    /// Sends frames that waited for their flow to be announced: all of them, since a frame that comes now must not
    /// overtake them. Work: at most what may wait.
    pub(super) fn release(&mut self, now: Instant) {
        let Self { forwarding, wan, endpoints, outward, counters, .. } = self;
        while let Some(released) = forwarding.poll_released(now) {
            let Some(place) = endpoints.of(released.peer) else {
                counters.out_pkts_no_endpoint += 1;
                continue;
            };
            let mut batch = Batch::new(now, wan, 1);
            // Not in the order of classes: those that waited go before all that come.
            batch.describe(BulkFlow::Released(released.peer), Mark::of_others(outward.marking.dscp));
            for packet in released.packets {
                batch.push(place, packet.header, &released.frame[packet.body]);
            }
            let _ = batch.finish();
        }
    }
}

/// Sends the packets that wait for a relay, or to be relayed.
fn send_relayed(now: Instant, relays: &mut Relays, wan: &mut Wan, dscp: Dscp) {
    let mut batch = Batch::new(now, wan, relays.waiting());
    relays.drain(|kind, to, head, body| {
        let others = Mark::of_others(dscp);
        match kind {
            RelayedKind::Frame(class, mark, continues) => {
                (batch.class, batch.dscp) = (class, mark.dscp());
                batch.begun = if continues { u16::MAX } else { 0 };
            }
            RelayedKind::Channel(peer) => batch.describe(BulkFlow::Channel(peer), others),
            RelayedKind::OfOthers(from, to, channel) => {
                batch.describe(BulkFlow::Relayed(from, to, channel), others);
            }
        }
        batch.push((WanPort::Data, to), head, body);
        batch.number += 1;
    });
    batch.finish();
}

/// Packets that leave through one port with one system call, or that wait for the uplink.
struct Batch<'b> {
    wan: &'b mut Wan,
    now: Instant,
    wan_port: WanPort,
    packets: ArrayVec<Outgoing<'b>, SEND_PACKETS>,
    /// Of the frame whose packets come now: its number, their class, their DSCP, whether they go over other paths as well.
    number: u64,
    class: Class,
    dscp: u8,
    copy: bool,
    /// Of which uplinks one of them has come, a bit for each.
    begun: u16,
    /// Of the peer whose packets come now: which go over its other paths as well, and these paths.
    copies: Copies,
    others: ArrayVec<Place, { PATHS - 1 }>,
    /// A bit for each packet: whether it goes over the other paths.
    copied: u64,
    /// Copies that were sent.
    sent: u64,
}

impl<'b> Batch<'b> {
    /// So many frames come, or relayed packets.
    fn new(now: Instant, wan: &'b mut Wan, frames: usize) -> Self {
        let number = wan.uplinks.take_numbers(frames as u64);
        let (copies, others) = (Copies::None, ArrayVec::new());
        Self {
            wan,
            now,
            wan_port: WanPort::Data,
            packets: ArrayVec::new(),
            number,
            class: Class::Express,
            dscp: 0,
            copy: false,
            begun: 0,
            copies,
            others,
            copied: 0,
            sent: 0,
        }
    }

    /// Packets of another peer come now.
    fn begin(&mut self, copies: Copies, others: ArrayVec<Place, { PATHS - 1 }>) {
        if self.copied != 0 {
            self.flush();
        }
        (self.copies, self.others) = (copies, others);
    }

    /// Packets of bulk come now.
    fn describe(&mut self, flow: BulkFlow<'_>, mark: Mark) {
        (self.dscp, self.copy, self.begun) = (mark.dscp(), false, 0);
        if !self.wan.uplinks.is_empty() {
            self.class = self.wan.uplinks.bulk(flow);
        }
    }

    /// Packets of a frame come now.
    fn describe_frame(&mut self, peer: PeerId, flow: &Flow, mark: Mark, classes: &ExpressClasses) {
        (self.dscp, self.begun) = (mark.dscp(), 0);
        self.copy = !self.others.is_empty() && self.copies.has(flow, mark, classes);
        if !self.wan.uplinks.is_empty() {
            self.class = if mark.is_express() || is_express(flow, classes) {
                Class::Express
            } else {
                self.wan.uplinks.bulk(BulkFlow::Frames(peer, flow))
            };
        }
    }

    fn push(
        &mut self,
        (wan_port, Place { to, source }): (WanPort, Place),
        head: ArrayVec<u8, HEAD_OCTETS>,
        body: &'b [u8],
    ) {
        let mut packet = Outgoing { to, source, dscp: self.dscp, head, body };
        // Copies may leave by an uplink with a rate, and packets of one without leave in bursts.
        if !self.wan.uplinks.is_empty() && (self.copy || self.wan.uplinks.number_of(&packet.source).is_some())
        {
            self.give(wan_port, &packet);
            for place in 0..self.others.len() {
                if self.copy {
                    Place { to: packet.to, source: packet.source } = self.others[place];
                    self.give(wan_port, &packet);
                    self.sent += 1;
                }
            }
            return;
        }
        if wan_port != self.wan_port || self.packets.is_full() {
            self.flush();
            self.wan_port = wan_port;
        }
        self.copied |= u64::from(self.copy) << self.packets.len();
        self.packets.push(packet);
    }

    /// Gives a packet to its uplink, or sends it if that has no rate.
    fn give(&mut self, wan_port: WanPort, packet: &Outgoing<'_>) {
        let number = self.wan.uplinks.number_of(&packet.source);
        let Some((number, uplink)) =
            number.and_then(|number| Some((number, self.wan.uplinks.get_mut(number)?)))
        else {
            return self.wan.send(wan_port, std::slice::from_ref(packet));
        };
        let bit = 1 << number;
        let of = PacketOf { number: self.number, continues: self.begun & bit != 0 };
        self.begun |= bit;
        uplink.push(self.now, of, self.class, wan_port, packet);
    }

    /// Sends what is left, and says how many copies went over other paths.
    fn finish(mut self) -> u64 {
        self.flush();
        self.sent
    }

    fn flush(&mut self) {
        self.wan.send(self.wan_port, &self.packets);
        if self.copied != 0 {
            let mut copied = self.copied;
            self.packets.retain(|_| {
                let copy = copied & 1 == 1;
                copied >>= 1;
                copy
            });
            for Place { to, source } in &self.others {
                self.packets.iter_mut().for_each(|packet| (packet.to, packet.source) = (*to, *source));
                self.wan.send(self.wan_port, &self.packets);
                self.sent += self.packets.len() as u64;
            }
        }
        self.packets.clear();
        self.copied = 0;
    }
}
