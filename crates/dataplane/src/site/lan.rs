//! A site's LAN port, which comes and goes with its interface, and the frames that wait for it.

use std::os::fd::RawFd;

use wire::EtherType;
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS, Header};
use wire::mkpdu::is_outer_tagged_eapol_mka;

use super::counters::SitePathCounters;
use netdev::burst::Burst;
use netdev::pool::Pool;
use netdev::port::{Port, PortCounters};

/// The LAN port of a site, and the memory that it was opened over.
pub struct Lan {
    /// The frames' memory.
    pub pool: Pool,
    /// Towards the machines.
    pub port: Box<dyn Port>,
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
    lan: Option<Box<Lan>>,
    leaving: Burst,
    /// Counters of ports that are closed.
    before: PortCounters,
}

impl LanPort {
    /// Gives the side a port; the one before, if there was one, is returned.
    pub(super) fn open(&mut self, lan: Box<Lan>) -> Option<Box<Lan>> {
        let before = self.close();
        self.lan = Some(lan);
        before
    }

    /// Takes the port away.
    pub(super) fn close(&mut self) -> Option<Box<Lan>> {
        let mut lan = self.lan.take()?;
        self.before.add(&lan.port.counters());
        Some(lan)
    }

    /// Receives into `burst`. The pool for its frames, if there is a port.
    pub(super) fn receive(&mut self, burst: &mut Burst) -> Option<&mut Pool> {
        let Lan { pool, port } = self.lan.as_deref_mut()?;
        port.receive(pool, burst);
        Some(pool)
    }

    /// Puts a frame of several pieces into a chunk, to be sent; counts it if that cannot be.
    pub(super) fn put(&mut self, pieces: &[&[u8]], counters: &mut SitePathCounters) {
        let Some(Lan { pool, port }) = self.lan.as_deref_mut() else {
            counters.in_pkts_no_lan += 1;
            return;
        };
        if self.leaving.is_full() {
            port.transmit(pool, &mut self.leaving);
        }
        let Some(mut slot) = pool.take() else {
            counters.in_pkts_no_chunk += 1;
            return;
        };
        let fits = pieces.iter().map(|piece| piece.len()).sum::<usize>() <= pool.room()
            && pieces.iter().all(|piece| pool.append(&mut slot, piece));
        let refused = if fits { self.leaving.push(slot).err() } else { Some(slot) };
        if let Some(slot) = refused {
            counters.in_pkts_too_long += 1;
            pool.give(slot);
        }
    }

    /// Sends the frames that were put.
    pub(super) fn flush(&mut self) {
        if let Some(Lan { pool, port }) = self.lan.as_deref_mut()
            && !self.leaving.is_empty()
        {
            port.transmit(pool, &mut self.leaving);
        }
    }

    /// Keeps the port's rings in order.
    pub(super) fn housekeep(&mut self) {
        if let Some(Lan { pool, port }) = self.lan.as_deref_mut() {
            port.housekeep(pool);
        }
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.lan.iter().flat_map(|lan| lan.port.poll_descriptors().iter().copied())
    }

    /// Counters of the port and those before it. Asks the kernel.
    pub(super) fn counters(&mut self) -> PortCounters {
        let mut sum = self.before;
        if let Some(lan) = self.lan.as_deref_mut() {
            sum.add(&lan.port.counters());
        }
        sum
    }

    /// Chunks that are free, of how many.
    pub(super) fn chunks(&self) -> (usize, usize) {
        self.lan.as_deref().map_or((0, 0), |lan| (lan.pool.free(), lan.pool.total()))
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
