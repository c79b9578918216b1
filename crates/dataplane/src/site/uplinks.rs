//! The uplinks of a site whose rates are known: those of its paths, each with a shaper of its own, and one for all other packets.
//!
//! ```text
//!              ┌─ leaves by wan1 ─▶ shaper ──▶
//!  packets ────┼─ leaves by wan2 ─▶ shaper ──▶
//!              └─ all others ─────▶ shaper, if the site has a rate
//! ```
//!
//! A packet is an uplink's by the interface by which it leaves, or by its source address. So all paths that leave by one interface share its
//! rate, to whichever peer they lead.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;

use arrayvec::ArrayVec;
use netdev::udp::{Outgoing, Source};
use tunnel::shaper::{Class, ShaperSettings};
use wire::Instant;

use super::endpoints::WanPort;
use super::uplink::{BulkFlow, ChannelOctets, Uplink, UplinkSnapshot};

/// Uplinks of paths at most.
pub const UPLINKS: usize = 8;

/// By what packets are an uplink's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WayOut {
    /// By the index of the interface by which they leave.
    Interface(u32),
    /// By the address from which they leave, if no interface is said.
    Address(IpAddr),
}

impl WayOut {
    /// The way of packets that leave so. `None`: as the routes of this box say.
    pub fn of(source: &Source) -> Option<Self> {
        match (source.interface, source.address) {
            (0, address) => address.map(|address| Self::Address(address.to_canonical())),
            (interface, _) => Some(Self::Interface(interface)),
        }
    }
}

/// Numbers of the uplinks, by what packets are theirs. 0 is that of all other packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WaysOut([Option<WayOut>; UPLINKS]);

impl WaysOut {
    /// Packets that leave so are of the uplink of this number, from 1 on.
    pub fn set(&mut self, number: u8, way: WayOut) {
        if let Some(place) = usize::from(number).checked_sub(1).and_then(|place| self.0.get_mut(place)) {
            *place = Some(way);
        }
    }

    /// The uplink of packets that leave so.
    pub fn of(&self, source: &Source) -> u8 {
        let Some(way) = WayOut::of(source) else { return 0 };
        self.0.iter().position(|known| *known == Some(way)).map_or(0, |place| place as u8 + 1)
    }
}

/// The shapers.
#[derive(Debug, Default)]
pub(super) struct Uplinks {
    /// That of all packets which are of no other one.
    rest: Option<Box<Uplink>>,
    /// Those of paths; their numbers are from 1 on.
    own: ArrayVec<Box<Uplink>, UPLINKS>,
    ways: WaysOut,
    /// Who chose the flows must not know which of them share a queue.
    hash: RandomState,
}

impl Uplinks {
    /// Has all packets wait that are of no other uplink.
    pub(super) fn shape_rest(&mut self, settings: ShaperSettings, window: u64, channel: ChannelOctets) {
        self.rest = Some(Box::new(Uplink::new(settings, window, channel, 0)));
    }

    /// Has the packets of one more uplink wait, which has the next number. There are [`UPLINKS`] at most.
    pub(super) fn shape_next(&mut self, settings: ShaperSettings, window: u64, channel: ChannelOctets) {
        let number = self.own.len() as u8 + 1;
        // The configuration has no more.
        let _ = self.own.try_push(Box::new(Uplink::new(settings, window, channel, number)));
    }

    /// Packets that leave so are of the uplink of this number.
    pub(super) fn set_way(&mut self, number: u8, way: WayOut) {
        self.ways.set(number, way);
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Box<Uplink>> {
        self.rest.iter_mut().chain(&mut self.own)
    }

    /// True if no uplink has a rate: no packet ever waits.
    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_none() && self.own.is_empty()
    }

    /// Number of the uplink of packets that leave so; `None` if they do not wait.
    pub(super) fn number_of(&self, source: &Source) -> Option<u8> {
        match self.ways.of(source) {
            0 => self.rest.as_ref().map(|_| 0),
            number => (usize::from(number) <= self.own.len()).then_some(number),
        }
    }

    /// The uplink of this number.
    pub(super) fn get_mut(&mut self, number: u8) -> Option<&mut Box<Uplink>> {
        match usize::from(number).checked_sub(1) {
            None => self.rest.as_mut(),
            Some(place) => self.own.get_mut(place),
        }
    }

    /// The class of packets of a flow.
    pub(super) fn bulk(&self, flow: BulkFlow<'_>) -> Class {
        Class::Bulk { key: self.hash.hash_one(flow) }
    }

    /// The first of the numbers of so many frames, the same at all uplinks, whichever their packets leave by.
    pub(super) fn take_numbers(&mut self, frames: u64) -> u64 {
        self.all().map(|uplink| uplink.take_numbers(frames)).max().unwrap_or_default()
    }

    /// Sets the seqs, or PNs, by which a packet may be late at all peers.
    pub(super) fn set_window(&mut self, window: u64) {
        self.all().for_each(|uplink| uplink.set_window(window));
    }

    /// Sends what is due by `send`.
    pub(super) fn depart(&mut self, now: Instant, mut send: impl FnMut(WanPort, &[Outgoing<'_>])) {
        self.all().for_each(|uplink| uplink.depart(now, &mut send));
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.rest.iter().chain(&self.own).filter_map(|uplink| uplink.due()).min()
    }

    /// The figures of the uplink of all others, and of those of paths.
    pub(super) fn snapshots(&self) -> (Option<UplinkSnapshot>, ArrayVec<UplinkSnapshot, UPLINKS>) {
        let own = self.own.iter().map(|uplink| uplink.snapshot()).collect();
        (self.rest.as_ref().map(|uplink| uplink.snapshot()), own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_an_uplinks_by_their_interface_or_by_their_address() {
        let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let mut ways = WaysOut::default();
        ways.set(1, WayOut::Interface(3));
        ways.set(2, WayOut::Address(address("192.0.2.1").unwrap()));
        // There are eight.
        [0, 9].into_iter().for_each(|nobody| ways.set(nobody, WayOut::Interface(9)));
        for (source, number) in [
            (Source { address: None, interface: 3 }, 1),
            (Source { address: address("192.0.2.1"), interface: 3 }, 1),
            (Source { address: address("192.0.2.1"), interface: 0 }, 2),
            (Source { address: address("::ffff:192.0.2.1"), interface: 0 }, 2),
            (Source { address: address("192.0.2.1"), interface: 4 }, 0),
            (Source { address: address("192.0.2.2"), interface: 0 }, 0),
            (Source { address: None, interface: 9 }, 0),
            (Source::default(), 0),
        ] {
            assert_eq!(ways.of(&source), number, "{source:?}");
        }
        // The interface came back with another index.
        ways.set(1, WayOut::Interface(7));
        assert_eq!([3, 7].map(|interface| ways.of(&Source { address: None, interface })), [0, 1]);
    }
}
