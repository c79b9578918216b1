//! The LANs: what machines send, and what comes out of their sites.

use std::collections::HashSet;

use tunnel::Destination;
use wire::MacAddr;

use super::super::judge::{Sent, Wrong};
use super::super::time::instant;
use super::World;
use super::site::{octets, peer, site_of};
use super::station::{BROADCAST, Station, count, sdu};
use crate::names::digest;

/// A machine with its station.
pub(super) struct Machine {
    pub(super) station: Station,
    pub(super) site: usize,
    /// It sends nothing until then.
    pub(super) quiet: u64,
    pub(super) sent: Sent,
    /// Of each frame that it sent: receiver, and octets behind its number.
    pub(super) frames: Vec<(MacAddr, usize)>,
    /// Frames of others that it got, by machine and number.
    pub(super) got: HashSet<(usize, u64)>,
}

/// A frame that came from a LAN.
pub(super) struct OnWay {
    pub(super) from: usize,
    /// Sites to which it was sent, and at which it came out.
    pub(super) to: [bool; 3],
    pub(super) delivered: [bool; 3],
}

impl World {
    /// A machine sends a frame to one of another site, or to all.
    pub(super) fn depart(&mut self, at: usize) -> Result<(), Wrong> {
        let (now, is_calm) = (self.common.now, self.common.is_calm());
        let site = self.machines[at].site;
        let others: Vec<MacAddr> = self
            .machines
            .iter()
            .filter(|other| other.site != site)
            .map(|other| other.station.address)
            .collect();
        let chance = &mut self.common.chance;
        let to = if chance.happens(100) { BROADCAST } else { chance.pick(&others) };
        let long = if chance.happens(200) { 1_200 } else { 40 } + chance.below(200) as usize;
        let machine = &mut self.machines[at];
        let number = machine.sent.another(now, is_calm);
        machine.frames.push((to, long));
        let sdu = sdu(to, machine.station.address, number, long);
        let frame = if self.is_secured() {
            let Some(frame) = self.secure(site, &sdu)? else { return Ok(()) };
            frame
        } else {
            let protected = self.machines[at].station.protect(&sdu);
            let name = || format!("{}: its station does not protect", self.name(site));
            protected.ok_or_else(|| Wrong::Impossible(name()))?
        };
        let forwarding = &mut self.places[site].site.forwarding;
        let Some(route) = forwarding.route(instant(now), &frame) else { return Ok(()) };
        let peers: Vec<_> = match route.destination {
            Destination::Peer(peer) => vec![peer],
            Destination::All => {
                (0..self.plan.sites).filter(|other| *other != site).map(|other| peer(site, other)).collect()
            }
        };
        let mut on_way = OnWay { from: site, to: [false; 3], delivered: [false; 3] };
        let mut packets = Vec::new();
        for peer in peers {
            let to = site_of(site, peer);
            on_way.to[to] = true;
            let parts = forwarding.dispatch(instant(now), &route, peer, &frame);
            packets.extend(parts.iter().map(|packet| (to, octets(packet, &frame))));
        }
        self.frames.insert(digest(&frame), on_way);
        for (to, packet) in packets {
            self.send(site, to, &packet)?;
        }
        self.turn(site)
    }

    /// A frame comes out of a site. `altered`: it may have been on its way.
    pub(super) fn deliver(&mut self, at: usize, frame: &[u8], altered: bool) -> Result<(), Wrong> {
        match self.frames.get_mut(&digest(frame)) {
            None if altered => {}
            None => return Err(Wrong::Forged(self.name(at))),
            Some(OnWay { from, to, .. }) if *from == at || !to[at] => {
                let from = *from;
                return Err(Wrong::Forged(format!("{}: a frame of site {from} for others", self.name(at))));
            }
            Some(on_way) => {
                if std::mem::replace(&mut on_way.delivered[at], true) {
                    return Err(Wrong::Twice(self.name(at)));
                }
            }
        }
        let now = instant(self.common.now);
        // A machine without MACsec gets what its site verifies.
        let verified = match self.secured.get_mut(at) {
            Some(host) => match host.gateway.verify(now, frame) {
                Some(sdu) => Some(sdu),
                None => return Ok(()),
            },
            None => None,
        };
        let destination = frame.first_chunk().map(|octets| MacAddr(*octets));
        for to in 0..self.machines.len() {
            let address = self.machines[to].station.address;
            let is_for_it = destination.is_some_and(|to| to == address || to == BROADCAST);
            if self.machines[to].site == at && is_for_it {
                let verified = match &verified {
                    Some(sdu) => Some(sdu.clone()),
                    None => self.machines[to].station.verify(now, frame),
                };
                if let Some(got) = verified {
                    self.machine_gets(to, &got)?;
                }
            }
        }
        Ok(())
    }

    fn machine_gets(&mut self, to: usize, got: &[u8]) -> Result<(), Wrong> {
        self.common.counts[1] += 1;
        let from = self.machines.iter().position(|from| got.get(6..12) == Some(&from.station.address.0));
        let number = count(got);
        let is_sent = |(from, number): &(usize, u64)| {
            let machine = &self.machines[*from];
            let sent = number.checked_sub(1).and_then(|at| machine.frames.get(at as usize));
            sent.is_some_and(|(to, long)| got == sdu(*to, machine.station.address, *number, *long))
        };
        let Some(id) = from.zip(number).filter(is_sent) else {
            return Err(Wrong::Forged(format!("{}: station {to}", self.name(self.machines[to].site))));
        };
        if !self.machines[to].got.insert(id) {
            let site = self.name(self.machines[to].site);
            return Err(Wrong::Twice(format!("{site}: number {} of station {}", id.1, id.0)));
        }
        Ok(())
    }
}
