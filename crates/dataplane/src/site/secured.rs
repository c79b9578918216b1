//! The SecY of a site that protects its LAN, between LAN port and tunnel, in one pool and one turn.
//!
//! ```text
//!             ┌─ MACsec, MKPDU: of stations with a SecY of their own ────────────────────┐
//!  LAN port ──┴─▶ Link::turn_outward ── protected, and MKPDUs of the own KaY ─▶ QueuePort ┴─▶ tunnel
//!  LAN port ◀─┬── Link::turn_inward ◀── all others ──────────────────────────────────────┬── tunnel
//!             └─ MACsec of no SC of the SecY, MKPDUs of no known KaY ◀───────────────────┘
//! ```
//!
//! A link does the work, with its path, SAs and counters; control knows it by the site's slot. What is neither MACsec nor an
//! MKPDU reaches the LAN through the SecY alone. MACsec and MKPDUs of the LAN under the SecY's own SCI go nowhere.

use std::time;

use secy::NextAction;
use tunnel::standby::{BeatFrameKind, Gate};
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS, Header};
use wire::mkpdu::{Mkpdu, is_outer_tagged_eapol_mka};
use wire::sectag::{ScEncoding, SecTag};
use wire::{EtherType, Instant, Sci};

use super::counters::SitePathCounters;
use super::entry::Entry;
use super::marking::{Mark, Marking};
use super::standby::Standby;
use super::vlans::VlanList;
use crate::link::Link;
use crate::pipeline::{Pipeline, give_refused};
use netdev::burst::Burst;
use netdev::pool::{Pool, Slot};
use netdev::port::Port as _;
use netdev::queue_port::QueuePort;

/// A link whose protected side is the tunnel.
pub(super) struct Secured {
    pub(super) link: Box<Link>,
    /// Frames of stations, from the LAN; empty between turns.
    stations: Burst,
    /// Place of verified frames that are not delivered; empty between turns.
    kept: QueuePort,
    /// Frames for the SecY, and those past it; empty between turns.
    verify: Burst,
    pass: Burst,
}

/// Possible senders of a frame that goes into the tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sender {
    /// Anybody on the LAN.
    Lan,
    /// The own SecY or KaY.
    Own,
}

impl Secured {
    pub(super) fn new(link: Box<Link>) -> Self {
        Self {
            link,
            stations: Burst::new(),
            kept: QueuePort::default(),
            verify: Burst::new(),
            pass: Burst::new(),
        }
    }

    /// Takes a burst of the LAN in, and marks its frames by these rules. Those of VLANs that do not cross go with the stations' frames: they
    /// are dropped with those. Returns how many frames came, and the need of the transmit SA.
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        read: time::Instant,
        marks: Option<Marking>,
        standby: Option<&mut Standby>,
        vlans: Option<&VlanList>,
        counters: &mut SitePathCounters,
    ) -> (usize, NextAction) {
        let is_closed = standby.as_ref().is_some_and(|standby| standby.gate() == Gate::Closed);
        // A frame that does not go out costs no PN.
        let stays = |frame: &[u8]| is_closed || vlans.is_some_and(|vlans| !vlans.admits(frame));
        let is_beat: fn(&[u8]) -> bool =
            if standby.is_some() { BeatFrameKind::is_own } else { |_: &[u8]| false };
        let is_aside = |frame: &[u8]| stays(frame) || is_of_station(frame) || is_beat(frame);
        let mark = marks.map(|marking| move |frame: &[u8]| Mark::of(frame, &marking).0);
        let taken_in = self.link.turn_outward(now, read, is_aside, mark, &mut self.stations);
        if let Some(standby) = standby
            && let Some((pool, _, pipeline)) = self.link.plain_side()
        {
            standby.take_in(is_closed, pool, &mut self.stations, pipeline.secy.sci(), counters);
        }
        self.drop_own_sci(counters);
        taken_in
    }

    /// Gives frames that bear the own SCI back to the pool. At the peers they would count as forged or replayed frames of this SecY, or
    /// as its KaY's.
    fn drop_own_sci(&mut self, counters: &mut SitePathCounters) {
        let Self { link, stations, .. } = self;
        let Some((pool, _, pipeline)) = link.plain_side() else { return };
        let own = Some(pipeline.secy.sci());
        counters.out_pkts_own_sci += stations.retain(pool, |frame| claimed_sci(frame) != own);
    }

    /// Frames for the tunnel, and who may have sent them; the pool of theirs.
    pub(super) fn receive(&mut self, into: &mut Burst) -> Option<(&mut Pool, Sender)> {
        if !self.stations.is_empty() {
            std::mem::swap(into, &mut self.stations);
            return self.link.plain_side().map(|(pool, ..)| (pool, Sender::Lan));
        }
        self.link.protected_frames(into).map(|pool| (pool, Sender::Own))
    }

    /// Takes frames of the tunnel to KaY, SecY and LAN; leaves `frames` empty. If `is_closed`, none reaches the LAN, else those that `entry` keeps:
    /// all are verified, so that nobody can have them delivered later. Work: a look at each of the SecY's SCs for a frame.
    pub(super) fn deliver(
        &mut self,
        frames: &mut Burst,
        is_closed: bool,
        entry: &mut Entry<'_>,
        counters: &mut SitePathCounters,
    ) {
        let Self { link, verify, pass, kept, .. } = self;
        let Some((pool, _, pipeline)) = link.plain_side() else { return };
        for slot in frames.drain() {
            match way(pool.frame(&slot), pipeline) {
                Way::Verify => give_refused(verify.push(slot), pool),
                Way::Pass => {
                    let frame = pool.frame(&slot);
                    if is_macsec(frame) {
                        pipeline.note_passed(frame);
                    }
                    give_refused(pass.push(slot), pool);
                }
                Way::Both => {
                    match copy(pool, &slot) {
                        Some(copy) => give_refused(pass.push(copy), pool),
                        None => counters.in_pkts_no_chunk += 1,
                    }
                    give_refused(verify.push(slot), pool);
                }
            }
        }
        if !verify.is_empty() {
            let before = kept.counters().tx_dropped;
            link.turn_inward(entry.now, verify, (is_closed || entry.is_guarded()).then_some(kept));
            counters.in_pkts_no_chunk += kept.counters().tx_dropped - before;
        }
        let Some((pool, port, _)) = link.plain_side() else { return };
        entry.keep(pool, pass, counters);
        loop {
            kept.receive(pool, verify);
            if verify.is_empty() {
                break;
            }
            let of_boxes = entry.hear_boxes(pool, verify);
            entry.keep(pool, verify, counters);
            // Nobody lets them cross, so they are no discards.
            counters.in_pkts_other_vlan -= of_boxes;
            if is_closed {
                counters.in_pkts_standby += verify.len() as u64;
                verify.give_all(pool);
            } else {
                port.transmit(pool, verify);
            }
        }
        if is_closed {
            counters.in_pkts_standby += pass.len() as u64;
            pass.give_all(pool);
        } else if !pass.is_empty() {
            counters.in_pkts_stations += pass.len() as u64;
            port.transmit(pool, pass);
        }
    }
}

/// Ways of a frame that comes out of the tunnel.
enum Way {
    /// To the KaY, or through the SecY.
    Verify,
    /// To stations, as it is.
    Pass,
    /// An MKPDU of either: its CKN tells, and the KaY alone knows that.
    Both,
}

fn way(frame: &[u8], pipeline: &Pipeline) -> Way {
    let secy = &pipeline.secy;
    let is_known = |sci: Sci| secy.sci() == sci || secy.receive_scs().any(|sc| sc.sci() == sci);
    if is_macsec(frame) {
        return if explicit_sci(frame).is_some_and(is_known) { Way::Verify } else { Way::Pass };
    }
    if !is_outer_tagged_eapol_mka(frame) {
        return Way::Verify;
    }
    // With static keys all MKPDUs are stations'.
    if !pipeline.has_kay() {
        return Way::Pass;
    }
    match Mkpdu::parse(frame) {
        Ok(mkpdu) if is_known(mkpdu.basic.sci) => Way::Verify,
        Ok(_) => Way::Both,
        // Behind VLAN tags it is no MKPDU of ours.
        Err(_) => Way::Pass,
    }
}

/// The SCI of a MACsec frame that bears one; none behind VLAN tags, where the SecY would not look for it.
fn explicit_sci(frame: &[u8]) -> Option<Sci> {
    if untagged(frame) != Some(EtherType::MACSEC) {
        return None;
    }
    match frame.get(ADDRESSES_OCTETS..).map(SecTag::parse) {
        Some(Ok(SecTag { sc: ScEncoding::Explicit(sci), .. })) => Some(sci),
        _ => None,
    }
}

/// The same, and the SCI of an MKPDU.
fn claimed_sci(frame: &[u8]) -> Option<Sci> {
    explicit_sci(frame).or_else(|| Mkpdu::parse(frame).ok().map(|mkpdu| mkpdu.basic.sci))
}

fn copy(pool: &mut Pool, slot: &Slot) -> Option<Slot> {
    let mut copy = pool.take()?;
    if pool.append_from(&mut copy, slot, 0..slot.len()) {
        let mark = pool.mark(slot);
        pool.set_mark(&copy, mark);
        return Some(copy);
    }
    pool.give(copy);
    None
}

fn untagged(frame: &[u8]) -> Option<EtherType> {
    let octets = frame.get(ADDRESSES_OCTETS..HEADER_OCTETS)?.first_chunk()?;
    Some(EtherType(u16::from_be_bytes(*octets)))
}

/// MACsec, also behind VLAN tags.
fn is_macsec(frame: &[u8]) -> bool {
    match untagged(frame) {
        Some(EtherType::MACSEC) => true,
        Some(ether_type) if ether_type.is_vlan() => {
            Header::parse(frame).is_ok_and(|header| header.ethertype == EtherType::MACSEC)
        }
        _ => false,
    }
}

/// Frames of a station with a SecY of its own: MACsec and MKPDUs, also behind VLAN tags.
fn is_of_station(frame: &[u8]) -> bool {
    is_macsec(frame) || is_outer_tagged_eapol_mka(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stations_send_is_told_from_what_is_protected() {
        for (octets, of_station) in [
            (&[0x88, 0xe5, 0, 0][..], true),
            (&[0x81, 0, 0, 7, 0x88, 0xe5][..], true),
            (&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 0x88, 0xe5][..], true),
            (&[0x88, 0x8e, 3, 5][..], true),
            (&[0x81, 0, 0, 7, 0x88, 0x8e, 3, 5][..], true),
            (&[0x88, 0x8e, 3, 0][..], false),
            (&[0x88, 0x8e, 3, 1][..], false),
            (&[0x81, 0, 0, 7, 0x88, 0x92][..], false),
            (&[0x08, 0x00, 0x45][..], false),
            (&[0x88, 0x08, 0, 1][..], false),
            (&[0x88][..], false),
        ] {
            let frame = [&[2; 12], octets].concat();
            assert_eq!(is_of_station(&frame), of_station, "{octets:02x?}");
        }
    }
}
