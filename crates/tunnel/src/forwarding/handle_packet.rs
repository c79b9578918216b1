//! Packets from the peers to the LAN.

use arrayvec::ArrayVec;
use suite::tunnel::Rid;
use wire::MacAddr;
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS, Header};
use wire::time::Instant;
use wire::tunnel::{self, CHECK_OCTETS, OuterTags, PacketForm, ParsedFrame, RID_OCTETS, SHORT_HEADER_OCTETS};

use super::{Forwarding, Peer, Transport};
use crate::counters::{Discard, InDiscard, PeerCounters, UnknownDiscard};
use crate::exchange::Event;
use crate::header_encryption::{HEADER_OCTETS as DECRYPTED_OCTETS, Rebuilt as Decrypted};
use crate::identifier::{Rebuilt, Received, prefix};
use crate::packet::{Delivery, PREFIX_OCTETS, PacketSource};
use crate::plain::{Inner, VXLAN_OCTETS, parse};
use crate::receive::{Found, Owner};
use crate::settings::PeerId;
use crate::stations::{LearnOutcome, Location};
use crate::window::LaneNumber;

/// Identifiers that a packet puts into its window: normally one, more after a gap or a jump.
const FILL: usize = 64;

impl Forwarding {
    /// Handles the UDP payload of a packet from the network.
    ///
    /// # Errors
    /// If it yields no frame, which is counted.
    pub fn handle_packet<'a>(
        &'a mut self,
        now: Instant,
        from: PacketSource,
        packet: &'a [u8],
    ) -> Result<Delivery<'a>, Discard> {
        match from {
            PacketSource::Identifier => self.inward_identifier(now, packet),
            PacketSource::From(peer) => self.inward_from(now, peer, packet),
            PacketSource::Opened(peer) => self.inward_opened(peer, packet),
        }
    }

    /// A whole frame in short form, whose source was heard already.
    fn inward_opened(&mut self, from: PeerId, packet: &[u8]) -> Result<Delivery<'static>, Discard> {
        let Some(Transport::Identifier(mode)) = self.transport(from) else {
            return Err(self.unknown(UnknownDiscard::WrongMode));
        };
        let header = packet.get(RID_OCTETS + CHECK_OCTETS..).and_then(<[u8]>::first_chunk);
        let header = header.and_then(|octets| tunnel::Header::parse(*octets).ok());
        let Some(header) = header.filter(|header| header.form == PacketForm::Whole) else {
            return Err(self.discard(from, InDiscard::BadHeader));
        };
        let Some(flow) = mode.announced.find(header.flow) else {
            return Err(self.discard(from, InDiscard::UnknownFlow));
        };
        let prefix = prefix(&ParsedFrame { flow, fields: header.fields });
        Ok(Delivery::Frame { from, prefix, body: SHORT_HEADER_OCTETS..packet.len() })
    }

    fn inward_identifier<'a>(&'a mut self, now: Instant, packet: &'a [u8]) -> Result<Delivery<'a>, Discard> {
        let rid = match packet.first_chunk::<RID_OCTETS>() {
            Some(&octets) if packet.len() >= SHORT_HEADER_OCTETS => Rid::from_octets(octets),
            _ => None,
        };
        let Some(rid) = rid else { return Err(self.unknown(UnknownDiscard::TooShort)) };
        let Some(Found { number, seq, used }) = self.receive.find(rid) else {
            self.state.watch = true;
            return Err(self.unknown(UnknownDiscard::UnknownIdentifier));
        };
        let lane = &mut self.receive.lanes[usize::from(number.0)];
        if used && let Some(Owner { peer, .. }) = lane.owner {
            return Err(self.discard(peer, InDiscard::Duplicate));
        }
        let block = lane.window.take(&mut self.receive.table, rid.number(), seq);
        let Some(Owner { peer, epoch }) = lane.owner else {
            return Err(self.unknown(UnknownDiscard::UnknownIdentifier));
        };
        let Ok(block) = block else { return Err(self.discard(peer, InDiscard::Late)) };
        if lane.window.fill(&mut self.receive.table, FILL) == FILL {
            self.receive.mark_unfilled();
        }
        let Some(Some(Peer { context, counters, transport: Transport::Identifier(identifier) })) =
            self.peers.get_mut(peer.index())
        else {
            return Err(self.unknown(UnknownDiscard::WrongMode));
        };
        let lane = &mut self.receive.lanes[usize::from(number.0)];
        let received = Received { now, epoch, lane, seq, block };
        let rebuilt = identifier.inward(received, context, counters, &mut self.state, packet);
        match rebuilt {
            Ok(rebuilt) => {
                counters.in_octets_tunnelled += packet.len() as u64;
                self.deliver(now, peer, number, rebuilt, packet)
            }
            Err(reason) => Err(self.discard(peer, reason)),
        }
    }

    fn deliver<'a>(
        &'a mut self,
        now: Instant,
        from: PeerId,
        number: LaneNumber,
        rebuilt: Rebuilt,
        packet: &'a [u8],
    ) -> Result<Delivery<'a>, Discard> {
        let place = |place: usize| (usize::from(number.0), place);
        let (taken, octets) = match &rebuilt {
            Rebuilt::Pending => return Ok(Delivery::Pending),
            Rebuilt::Whole { taken, body, .. } => (taken, body.len()),
            Rebuilt::Joined { taken, slot: at, body, .. } => {
                let (lane, at) = place(*at);
                (taken, body.len() + self.receive.lanes[lane].fragments.octets(at).len())
            }
        };
        if let Some((leg, site)) = taken.flow.relay() {
            // Nobody splits a relayed packet.
            let Rebuilt::Whole { body, .. } = rebuilt else {
                return Err(self.discard(from, InDiscard::BadHeader));
            };
            if let Some(counters) = counters_of(&mut self.peers, from) {
                counters.in_pkts_relayed += 1;
            }
            return Ok(Delivery::Relayed { from, leg, site, body });
        }
        let prefix = prefix(taken);
        if self.is_too_long(prefix.len() + octets, || taken.flow.tags.octets()) {
            return Err(self.discard(from, InDiscard::TooLong));
        }
        self.hear_or_leave(now, from, taken.flow.source)?;
        let Some(counters) = counters_of(&mut self.peers, from) else {
            return Err(self.unknown(UnknownDiscard::WrongMode));
        };
        counters.in_pkts_tunnelled += 1;
        match rebuilt {
            Rebuilt::Pending => Ok(Delivery::Pending),
            Rebuilt::Whole { body, long, .. } => {
                counters.in_pkts_long_form += u64::from(long);
                Ok(Delivery::Frame { from, prefix, body })
            }
            Rebuilt::Joined { slot: at, waited_first, body, .. } => {
                counters.in_pkts_joined += 1;
                let (lane, at) = place(at);
                let (waited, came) = (self.receive.lanes[lane].fragments.octets(at), &packet[body]);
                let (first, second) = if waited_first { (waited, came) } else { (came, waited) };
                Ok(Delivery::Joined { from, prefix, first, second })
            }
        }
    }

    /// Learns the source of a frame, or leaves that to [`Self::hear`].
    fn hear_or_leave(&mut self, now: Instant, from: PeerId, source: MacAddr) -> Result<(), Discard> {
        if self.hears_later { self.leave(from) } else { self.hear(now, from, source) }
    }

    /// A partner's frames go nowhere in any case.
    #[cold]
    fn leave(&mut self, from: PeerId) -> Result<(), Discard> {
        if self.twins.is_partner(from) { Err(self.discard(from, InDiscard::Partner)) } else { Ok(()) }
    }

    /// Notes that a peer's box forwards, by a frame of the box itself that does not reach the LAN. It teaches no station's place.
    pub fn hear_box(&mut self, now: Instant, from: PeerId, source: MacAddr) {
        let place = self.stations.location(now, &self.state.hasher, source);
        if place.is_none_or(|place| place == Location::Behind(self.twins.first(from))) {
            self.twins.hear(now, from);
        }
    }

    /// Learns a station behind a peer.
    ///
    /// # Errors
    /// If the source is that of a station of this LAN, which is counted: the frame must not reach the LAN, whose switches would look for that
    /// station behind the gateway.
    pub fn hear(&mut self, now: Instant, from: PeerId, source: MacAddr) -> Result<(), Discard> {
        if self.twins.has_any() {
            return self.hear_behind_twins(now, source, from);
        }
        match self.learn(now, source, Location::Behind(from)) {
            LearnOutcome::Elsewhere(Location::Here) => Err(self.discard(from, InDiscard::SourceHere)),
            _ => Ok(()),
        }
    }

    /// The same where some LAN has two boxes. One of two does not speak for a station that another peer has just sent from: if both
    /// forward, it sends on what the other one delivered, and two such LANs would send that round.
    #[cold]
    fn hear_behind_twins(&mut self, now: Instant, source: MacAddr, from: PeerId) -> Result<(), Discard> {
        if self.twins.is_partner(from) {
            return Err(self.discard(from, InDiscard::Partner));
        }
        let is_of_two = self.twins.has(from);
        if is_of_two && source.is_group() {
            // Nobody learns it, so nothing would end its way.
            return Err(self.discard(from, InDiscard::SourceElsewhere));
        }
        match self.learn(now, source, Location::Behind(self.twins.first(from))) {
            LearnOutcome::Elsewhere(Location::Here) => Err(self.discard(from, InDiscard::SourceHere)),
            LearnOutcome::Elsewhere(Location::Behind(_)) if is_of_two => {
                Err(self.discard(from, InDiscard::SourceElsewhere))
            }
            _ => {
                self.twins.hear(now, from);
                Ok(())
            }
        }
    }

    /// Header encryption and plain mode: the engine identifies the peer by its UDP address.
    fn inward_from<'a>(
        &'a mut self,
        now: Instant,
        from: PeerId,
        packet: &'a [u8],
    ) -> Result<Delivery<'a>, Discard> {
        match self.transport(from) {
            Some(Transport::Plain(mode)) => {
                let vni = mode.vni;
                self.inward_plain(now, from, vni, packet)
            }
            _ => self.inward_header_encryption(now, from, packet),
        }
    }

    fn inward_plain(
        &mut self,
        now: Instant,
        from: PeerId,
        vni: u32,
        packet: &[u8],
    ) -> Result<Delivery<'static>, Discard> {
        let inner = match parse(vni, packet) {
            Ok(_) if self.is_too_long(packet.len() - VXLAN_OCTETS, || vlan_tags_octets(packet)) => {
                Err(InDiscard::TooLong)
            }
            inner => inner,
        };
        let inner = inner.map_err(|reason| self.discard(from, reason))?;
        match inner {
            Inner::Macsec(taken) => {
                self.hear_or_leave(now, from, taken.flow.source)?;
                if self.state.offers && taken.flow.is_untagged_macsec() {
                    self.offer_station(now, from, taken.flow.source);
                }
            }
            Inner::Eapol => {
                let source = packet.get(VXLAN_OCTETS + 6..).and_then(<[u8]>::first_chunk);
                if source.and_then(|source| self.held_at(now, MacAddr(*source))) == Some(Location::Here) {
                    return Err(self.discard(from, InDiscard::SourceHere));
                }
            }
        }
        if let Some(counters) = counters_of(&mut self.peers, from) {
            counters.in_pkts_tunnelled += 1;
            counters.in_octets_tunnelled += packet.len() as u64;
        }
        Ok(Delivery::Frame { from, prefix: ArrayVec::new(), body: VXLAN_OCTETS..packet.len() })
    }

    /// Tells that a station behind a peer sends, if that is due and it is there.
    #[inline(never)]
    fn offer_station(&mut self, now: Instant, from: PeerId, address: MacAddr) {
        let Some(generation) = self.peer(from).map(|peer| peer.context.generation) else { return };
        let Self { stations, state, .. } = self;
        if let Some(offered) = stations.offer_due(now, &state.hasher, address, Location::Behind(from))
            && state.events.tell(Event::StationInUse { peer: from, generation, address })
        {
            *offered = Some(now);
        }
    }

    fn inward_header_encryption<'a>(
        &'a mut self,
        now: Instant,
        from: PeerId,
        packet: &'a [u8],
    ) -> Result<Delivery<'a>, Discard> {
        let Some(Some(Peer { counters, transport: Transport::HeaderEncryption(mode), .. })) =
            self.peers.get_mut(from.index())
        else {
            return Err(self.unknown(UnknownDiscard::WrongMode));
        };
        let rebuilt = match mode.inward(now, counters, &mut self.state, packet) {
            Ok(rebuilt) => rebuilt,
            Err(reason) => {
                counters.count_in(reason);
                return Err(Discard::Of(from, reason));
            }
        };
        counters.in_octets_tunnelled += packet.len() as u64;
        let mut prefix = ArrayVec::new();
        let (taken, waited, waited_first) = match rebuilt {
            Decrypted::Pending => return Ok(Delivery::Pending),
            Decrypted::Whole(taken, header) => {
                put_prefix(&mut prefix, taken.flow.tags, &header);
                (taken, None, false)
            }
            Decrypted::First(taken, header, place) => {
                put_prefix(&mut prefix, taken.flow.tags, &header);
                (taken, Some(place), false)
            }
            Decrypted::Second(taken, addresses_and_tag, place) => {
                put_prefix(&mut prefix, taken.flow.tags, &addresses_and_tag);
                (taken, Some(place), true)
            }
        };
        let came = DECRYPTED_OCTETS..packet.len();
        let octets =
            |this: &Self| waited.and_then(|place| this.waited_fragment(from, place)).map_or(0, <[u8]>::len);
        let frame_octets = prefix.len() + came.len() + octets(self);
        if self.is_too_long(frame_octets, || taken.flow.tags.octets()) {
            return Err(self.discard(from, InDiscard::TooLong));
        }
        self.hear_or_leave(now, from, taken.flow.source)?;
        if let Some(counters) = counters_of(&mut self.peers, from) {
            counters.in_pkts_tunnelled += 1;
            counters.in_pkts_joined += u64::from(waited.is_some());
        }
        let Some(waited) = waited.and_then(|place| self.waited_fragment(from, place)) else {
            return Ok(Delivery::Frame { from, prefix, body: came });
        };
        let came = &packet[came];
        let (first, second) = if waited_first { (waited, came) } else { (came, waited) };
        Ok(Delivery::Joined { from, prefix, first, second })
    }

    /// True if a frame is longer than the LAN takes: VLAN tags come on top of its MTU.
    fn is_too_long(&self, octets: usize, tags_octets: impl FnOnce() -> usize) -> bool {
        octets > self.lan_frame && octets > self.lan_frame + tags_octets()
    }

    /// The waiting fragment that belongs to the one that has just arrived.
    fn waited_fragment(&self, from: PeerId, place: usize) -> Option<&[u8]> {
        match self.transport(from)? {
            Transport::HeaderEncryption(mode) => Some(mode.fragments.octets(place)),
            Transport::Identifier(_) | Transport::Plain(_) => None,
        }
    }

    const fn unknown(&mut self, reason: UnknownDiscard) -> Discard {
        self.counters.count_unknown(reason);
        Discard::Unknown(reason)
    }

    fn discard(&mut self, peer: PeerId, reason: InDiscard) -> Discard {
        if let Some(counters) = counters_of(&mut self.peers, peer) {
            counters.count_in(reason);
        }
        Discard::Of(peer, reason)
    }
}

/// Octets of the VLAN tags of the frame in a VXLAN packet.
fn vlan_tags_octets(packet: &[u8]) -> usize {
    Header::parse(&packet[VXLAN_OCTETS..]).map_or(0, |header| header.octets() - HEADER_OCTETS)
}

/// Writes the beginning of a frame, with its VLAN tags behind the addresses. There is room.
fn put_prefix<const N: usize>(prefix: &mut ArrayVec<u8, PREFIX_OCTETS>, tags: OuterTags, octets: &[u8; N]) {
    if tags.is_empty() {
        let _ = prefix.try_extend_from_slice(octets);
    } else {
        put_tagged_prefix(prefix, tags, octets);
    }
}

#[cold]
#[inline(never)]
fn put_tagged_prefix(prefix: &mut ArrayVec<u8, PREFIX_OCTETS>, tags: OuterTags, octets: &[u8]) {
    let (addresses, rest) = octets.split_at(ADDRESSES_OCTETS);
    let tags = &tags.encode()[..tags.octets()];
    prefix.extend(addresses.iter().chain(tags).chain(rest).copied());
}

/// Counters of a present peer.
fn counters_of(peers: &mut [Option<Peer>], peer: PeerId) -> Option<&mut PeerCounters> {
    Some(&mut peers.get_mut(peer.index())?.as_mut()?.counters)
}
