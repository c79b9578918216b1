//! A site's LAN port, which comes and goes with its interface, and the frames that wait for it.

use std::os::fd::RawFd;
use std::time;

use secy::NextAction;
use tunnel::{Forwarding, PeerId};
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS, Header};
use wire::mkpdu::is_outer_tagged_eapol_mka;
use wire::{EtherType, Instant};

use super::counters::SitePathCounters;
use super::entry::{Entry, Origins};
use super::marking::Marking;
use super::secured::{Secured, Sender};
use super::standby::Standby;
use super::turns::Turns;
use super::vlans::VlanList;
use crate::link::Link;
use netdev::burst::Burst;
use netdev::pool::Pool;
use netdev::port::{Port, PortCounters};

/// The LAN port of a site, and the memory that it was opened over.
pub struct Lan {
    /// The frames' memory.
    pub pool: Pool,
    /// Towards the machines.
    pub port: Box<dyn Port>,
    /// How far the worker is, for programs in the kernel that stand at the port.
    pub turns: Option<Turns>,
}

/// Kind of a frame of the LAN, by its EtherType, behind up to two VLAN tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LanFrameKind {
    /// EAPOL that carries an MKPDU.
    Mka,
    /// EAPOL of another type: authentication, which ends at a LAN's switch.
    Eapol,
    MacControl,
    /// MACsec, or what is not carried.
    Other,
}

impl LanFrameKind {
    pub(super) fn of(frame: &[u8]) -> Self {
        let Some(&[high, low]) = frame.get(ADDRESSES_OCTETS..HEADER_OCTETS) else { return Self::Other };
        match EtherType(u16::from_be_bytes([high, low])) {
            EtherType::MACSEC => Self::Other,
            ether_type if ether_type.is_vlan() => Self::of_tagged(frame),
            EtherType::EAPOL if is_outer_tagged_eapol_mka(frame) => Self::Mka,
            EtherType::EAPOL => Self::Eapol,
            EtherType::MAC_CONTROL => Self::MacControl,
            _ => Self::Other,
        }
    }

    /// Of a frame with VLAN tags, among which no MAC control is expected.
    #[cold]
    fn of_tagged(frame: &[u8]) -> Self {
        match Header::parse(frame) {
            Ok(Header { ethertype: EtherType::EAPOL, .. }) if is_outer_tagged_eapol_mka(frame) => Self::Mka,
            Ok(Header { ethertype: EtherType::EAPOL, .. }) => Self::Eapol,
            _ => Self::Other,
        }
    }
}

/// The port, if there is one, and frames that wait to be sent through it.
#[derive(Default)]
pub(super) struct LanPort {
    side: Side,
    leaving: Burst,
    /// Peers of these, as far as they are to be heard yet.
    origins: Origins,
    /// Frames of the tunnel do not reach the LAN: the other box delivers them.
    is_closed: bool,
    /// VLANs that cross; none: all.
    vlans: Option<Box<VlanList>>,
    /// Counters of ports that are closed.
    before: PortCounters,
}

/// Way between the tunnel and the LAN.
#[derive(Default)]
enum Side {
    #[default]
    Nothing,
    Port(Box<Lan>),
    /// A SecY. It has the port, if there is one.
    Secured(Box<Secured>),
}

impl Side {
    /// The pool for the tunnel's frames and, unless they go through a SecY, the port.
    fn parts(&mut self) -> Option<(&mut Pool, &mut dyn Port)> {
        match self {
            Self::Nothing => None,
            Self::Port(lan) => Some((&mut lan.pool, &mut *lan.port)),
            Self::Secured(secured) => secured.link.plain_side().map(|(pool, port, _)| (pool, port)),
        }
    }
}

impl LanPort {
    /// Gives the side a port; the one before, if there was one, is returned.
    pub(super) fn open(&mut self, lan: Box<Lan>) -> Option<Box<Lan>> {
        let before = self.close();
        self.side = Side::Port(lan);
        before
    }

    /// Takes the port away. That of a SecY goes with its link.
    pub(super) fn close(&mut self) -> Option<Box<Lan>> {
        let Side::Port(lan) = &mut self.side else { return None };
        self.before.add(&lan.port.counters());
        match std::mem::take(&mut self.side) {
            Side::Port(lan) => Some(lan),
            _ => None,
        }
    }

    /// Puts a SecY between tunnel and LAN, in the place of the port.
    pub(super) fn secure(&mut self, link: Box<Link>) {
        self.side = Side::Secured(Box::new(Secured::new(link)));
    }

    /// Takes the SecY away; nothing passes until there is another one.
    pub(super) fn take_link(&mut self) -> Option<Box<Link>> {
        match std::mem::take(&mut self.side) {
            Side::Secured(secured) => Some(secured.link),
            other => {
                self.side = other;
                None
            }
        }
    }

    /// Sets which VLANs cross, and returns the list before.
    pub(super) const fn set_vlans(&mut self, vlans: Option<Box<VlanList>>) -> Option<Box<VlanList>> {
        std::mem::replace(&mut self.vlans, vlans)
    }

    pub(super) const fn link(&self) -> Option<&Link> {
        match &self.side {
            Side::Secured(secured) => Some(&secured.link),
            Side::Nothing | Side::Port(_) => None,
        }
    }

    pub(super) const fn link_mut(&mut self) -> Option<&mut Link> {
        match &mut self.side {
            Side::Secured(secured) => Some(&mut secured.link),
            Side::Nothing | Side::Port(_) => None,
        }
    }

    /// Has a SecY, if there is one, take a burst of the LAN in, to be received then, with marks by these rules. Returns how many frames came, and the
    /// need of its transmit SA.
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        read: time::Instant,
        marks: Option<Marking>,
        standby: Option<&mut Standby>,
        counters: &mut SitePathCounters,
    ) -> (usize, NextAction) {
        match &mut self.side {
            Side::Secured(secured) => {
                secured.take_in(now, read, marks, standby, self.vlans.as_deref(), counters)
            }
            Side::Nothing | Side::Port(_) => (0, NextAction::Continue),
        }
    }

    /// Whether frames of the tunnel do not reach the LAN from here on.
    pub(super) const fn close_gate(&mut self, is_closed: bool) {
        self.is_closed = is_closed;
    }

    /// How far the worker is, if programs ask.
    pub(super) fn turns(&mut self) -> Option<&mut Turns> {
        match &mut self.side {
            Side::Port(lan) => lan.turns.as_mut(),
            Side::Nothing | Side::Secured(_) => None,
        }
    }

    /// Receives frames for the tunnel into `burst`. The pool for them, if there is a port, who may have sent them, and how many there were. Those
    /// of the LAN whose VLAN does not cross are dropped here.
    pub(super) fn receive(
        &mut self,
        burst: &mut Burst,
        counters: &mut SitePathCounters,
    ) -> Option<(&mut Pool, Sender, usize)> {
        let Self { side, vlans, .. } = self;
        let (pool, sender) = match side {
            Side::Nothing => return None,
            Side::Port(lan) => {
                lan.port.receive(&mut lan.pool, burst);
                (&mut lan.pool, Sender::Lan)
            }
            Side::Secured(secured) => secured.receive(burst)?,
        };
        let received = burst.len();
        if let (Some(vlans), Sender::Lan) = (vlans, sender) {
            counters.out_pkts_other_vlan += vlans.keep_listed(pool, burst);
        }
        Some((pool, sender, received))
    }

    /// Has room for one more frame. To be called before each [`Self::put`].
    pub(super) fn make_room(
        &mut self,
        now: Instant,
        forwarding: &mut Forwarding,
        counters: &mut SitePathCounters,
    ) {
        if self.leaving.is_full() {
            self.flush(now, forwarding, counters);
        }
    }

    /// Puts a frame of several pieces into a chunk, to be sent; counts it if that cannot be. `from`: the peer that sent it; with a list of VLANs
    /// it is heard when the frame reaches the LAN.
    pub(super) fn put(&mut self, pieces: &[&[u8]], from: Option<PeerId>, counters: &mut SitePathCounters) {
        let Some((pool, _)) = self.side.parts() else {
            counters.in_pkts_no_lan += 1;
            return;
        };
        let Some(mut slot) = pool.take() else {
            counters.in_pkts_no_chunk += 1;
            return;
        };
        let fits = pieces.iter().map(|piece| piece.len()).sum::<usize>() <= pool.room()
            && pieces.iter().all(|piece| pool.append(&mut slot, piece));
        let refused = if fits {
            pool.set_mark(&slot, self.origins.note(from.filter(|_| self.vlans.is_some())));
            self.leaving.push(slot).err()
        } else {
            Some(slot)
        };
        if let Some(slot) = refused {
            counters.in_pkts_too_long += 1;
            pool.give(slot);
        }
    }

    /// Sends the frames that were put, through the SecY if there is one.
    pub(super) fn flush(
        &mut self,
        now: Instant,
        forwarding: &mut Forwarding,
        counters: &mut SitePathCounters,
    ) {
        if self.leaving.is_empty() {
            return;
        }
        let Self { side, leaving, origins, vlans, is_closed, .. } = self;
        let mut entry = Entry { now, vlans: vlans.as_deref(), origins, forwarding };
        match side {
            Side::Nothing => {}
            Side::Port(lan) => {
                entry.keep(&mut lan.pool, leaving, counters);
                lan.port.transmit(&mut lan.pool, leaving);
            }
            Side::Secured(secured) => secured.deliver(leaving, *is_closed, &mut entry, counters),
        }
        origins.clear();
    }

    /// Keeps the port's rings in order.
    pub(super) fn housekeep(&mut self) {
        if let Some((pool, port)) = self.side.parts() {
            port.housekeep(pool);
        }
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let port = match &self.side {
            Side::Port(lan) => Some(lan.port.poll_descriptors()),
            Side::Nothing | Side::Secured(_) => None,
        };
        let of_link = self.link().into_iter().flat_map(Link::poll_descriptors);
        port.into_iter().flatten().copied().chain(of_link)
    }

    /// Counters of the port and those before it, a SecY's included. Asks the kernel.
    pub(super) fn counters(&mut self) -> PortCounters {
        let mut sum = self.before;
        match &mut self.side {
            Side::Port(lan) => sum.add(&lan.port.counters()),
            Side::Secured(secured) => {
                let [plain, _] = secured.link.port_counters();
                sum.add(&plain);
            }
            Side::Nothing => {}
        }
        sum
    }

    /// Chunks that are free, of how many.
    pub(super) fn chunks(&self) -> (usize, usize) {
        let pool = match &self.side {
            Side::Nothing => None,
            Side::Port(lan) => Some(&lan.pool),
            Side::Secured(secured) => secured.link.pool(),
        };
        pool.map_or((0, 0), |pool| (pool.free(), pool.total()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_apart_by_their_first_ethertype() {
        for (octets, kind) in [
            ([0x88, 0xe5], LanFrameKind::Other),
            ([0x88, 0x8e], LanFrameKind::Eapol),
            ([0x88, 0x08], LanFrameKind::MacControl),
            ([0x81, 0x00], LanFrameKind::Other),
            ([0x08, 0x00], LanFrameKind::Other),
        ] {
            let mut frame = [0; 18];
            frame[12..14].copy_from_slice(&octets);
            assert_eq!(LanFrameKind::of(&frame), kind);
            assert_eq!(LanFrameKind::of(&frame[..14]), kind);
            assert_eq!(LanFrameKind::of(&frame[..13]), LanFrameKind::Other);
        }
        for (packet_type, kind) in [
            (0, LanFrameKind::Eapol),
            (1, LanFrameKind::Eapol),
            (3, LanFrameKind::Eapol),
            (5, LanFrameKind::Mka),
            (6, LanFrameKind::Eapol),
        ] {
            let mut frame = [0; 18];
            frame[12..16].copy_from_slice(&[0x88, 0x8e, 3, packet_type]);
            assert_eq!(LanFrameKind::of(&frame), kind);
            for tags in [&[0x81, 0, 0, 7][..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]] {
                let tagged = [&frame[..12], tags, &frame[12..]].concat();
                assert_eq!(LanFrameKind::of(&tagged), kind);
            }
            assert_eq!(LanFrameKind::of(&frame[..15]), LanFrameKind::Eapol);
        }
    }
}
