//! Configuration of a site.

use alloc::vec::Vec;
use core::time::Duration;

/// Most peers of a site since its start.
pub const PEERS: usize = 1 << 14;

/// Number of a peer in the order of arrival. The number of a departed peer is not used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u16);

impl PeerId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Header protection towards a peer and back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Rotating identifiers (section 3.1).
    Identifier,
    /// Header encryption (section 3.2).
    HeaderEncryption,
    /// VXLAN as in RFC 7348, unprotected, for comparison and for plain peers (section 3.3).
    Plain {
        /// The VXLAN network identifier, 24 bits.
        vni: u32,
    },
}

/// Kinds of frames that a site takes from a peer besides untagged MACsec frames without extension headers. A site tells its own in
/// its Hello; one of an earlier version tells none. Nobody is sent what it does not take.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct FrameKinds(pub u64);

impl FrameKinds {
    /// Frames with extension headers, in header encryption. Identifier mode has always carried them.
    pub const EXTENDED: Self = Self(1);
    /// Frames with VLAN tags in front of the SecTAG.
    pub const TAGGED: Self = Self(2);
    /// Cyclic frames of cells, in identifier mode; only if the site is configured to carry them.
    pub const CYCLIC: Self = Self(4);
    /// Packets for other sites, in identifier mode, which this site relays; only if it is configured to.
    pub const TO_SITES: Self = Self(8);
    /// Packets of other sites, in identifier mode, which the peer relays.
    pub const FROM_SITES: Self = Self(16);
    /// No frames: messages with octets that the peer has counted ([`Message::Octets`](crate::Message::Octets)).
    pub const OCTETS: Self = Self(32);
    /// All that this version takes without being told to.
    pub const ALWAYS: Self = Self(Self::EXTENDED.0 | Self::TAGGED.0 | Self::FROM_SITES.0 | Self::OCTETS.0);
    /// All that this version knows.
    pub const ALL: Self = Self(Self::ALWAYS.0 | Self::CYCLIC.0 | Self::TO_SITES.0);

    /// Both.
    #[must_use]
    pub const fn and(self, kinds: Self) -> Self {
        Self(self.0 | kinds.0)
    }

    /// True if all of `kinds` are among these.
    pub const fn has(self, kinds: Self) -> bool {
        self.0 & kinds.0 == kinds.0
    }
}

/// A peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerSettings {
    /// Header protection.
    pub mode: Mode,
    /// Octets of the largest UDP payload towards it, until the management channel measures it.
    pub path_payload: usize,
}

/// Bounds of memory and work, whatever arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Flows towards one peer.
    pub flows: usize,
    /// Numbers that flows towards one peer may have, of 2^16; the others are never given. The fewer, the sooner one comes again. 255 of
    /// them are kept for flows of relayed packets.
    pub flow_numbers: usize,
    /// Flows towards one peer with one SCI.
    pub flows_per_sci: usize,
    /// Flows towards one peer with one source address.
    pub flows_per_source: usize,
    /// New flows of the site per second.
    pub new_flows_per_second: u32,
    /// Age of an unused flow at which it is withdrawn.
    pub flow_age: Duration,
    /// Stations with a known location: here, and behind all peers.
    pub stations: usize,
    /// Age of an unheard station at which it is forgotten.
    pub station_age: Duration,
    /// Packets of one peer that are relayed to other sites in a second.
    pub relayed_per_second: u32,
}

impl Limits {
    /// For LANs of usual size.
    pub const DEFAULT: Self = Self {
        flows: 4096,
        flow_numbers: 1 << 16,
        flows_per_sci: 256,
        flows_per_source: 256,
        new_flows_per_second: 1000,
        flow_age: Duration::from_secs(300),
        stations: 8192,
        station_age: Duration::from_secs(300),
        relayed_per_second: 100_000,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One sending worker's share of a site: a lane of its own, with its own keys and seqs, and every `of`-th number of a flow. So
/// workers share nothing.
///
/// | lane | sends |
/// |---|---|
/// | 0 | the first worker, which receives too |
/// | 1 | programs in the kernel |
/// | 2 and above | further workers |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneShare {
    worker: u8,
    of: u8,
}

impl LaneShare {
    /// All of it: there is one worker.
    pub const WHOLE: Self = Self { worker: 0, of: 1 };

    /// The share of this worker, of so many. `None` if there is no such worker, or no lane for the last one.
    pub const fn new(worker: u8, of: u8) -> Option<Self> {
        if worker < of && of < Settings::LANES { Some(Self { worker, of }) } else { None }
    }

    /// Number of lanes that the peers are told of: up to the last worker's.
    pub const fn lanes(self) -> u8 {
        if self.of == 1 { 1 } else { self.of + 1 }
    }

    /// The lane.
    pub(crate) const fn lane(self) -> u8 {
        if self.worker == 0 { 0 } else { self.worker + 1 }
    }

    /// True if this worker receives nothing.
    pub(crate) const fn is_further(self) -> bool {
        self.worker > 0
    }

    /// Numbers of its flows, of the first `most` that there are.
    pub(crate) fn flow_numbers(self, most: usize) -> impl Iterator<Item = u16> {
        (0..=u16::MAX).take(most).skip(self.worker.into()).step_by(self.of.into())
    }

    /// Its part of what the peers have room for.
    pub(crate) fn limits(self, limits: &Limits) -> Limits {
        let of = usize::from(self.of);
        Limits {
            flows: (limits.flows / of).max(1),
            flows_per_sci: (limits.flows_per_sci / of).max(1),
            flows_per_source: (limits.flows_per_source / of).max(1),
            new_flows_per_second: (limits.new_flows_per_second / u32::from(self.of)).max(1),
            ..*limits
        }
    }
}

/// A site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Its first peers, in the order of their numbers.
    pub peers: Vec<PeerSettings>,
    /// Octets of the longest frame without VLAN tags that the LAN takes, header included. VLAN tags come on top.
    pub lan_frame: usize,
    /// Its bounds.
    pub limits: Limits,
    /// W: seqs of a lane's window above the newest; half as many below it. A power of two, at least 64.
    pub window: u64,
    /// Random octets that no machine knows: otherwise chosen addresses could slow the tables.
    pub table_seed: [u8; 16],
}

impl Settings {
    /// Default W.
    pub const WINDOW: u64 = 4096;

    /// Most lanes that a peer may send on: bounds its windows.
    pub const LANES: u8 = 16;
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn workers_share_neither_lanes_nor_numbers() {
        assert_eq!((LaneShare::WHOLE.lane(), LaneShare::WHOLE.lanes()), (0, 1));
        assert!(LaneShare::WHOLE.flow_numbers(1 << 16).eq(0..=u16::MAX));
        let [first, second] = [0, 1].map(|worker| LaneShare::new(worker, 2).expect("a worker"));
        // Lane 1 is that of programs in the kernel.
        assert_eq!([first, second].map(|share| (share.lane(), share.lanes())), [(0, 3), (2, 3)]);
        assert_eq!(first.flow_numbers(7).collect::<Vec<_>>(), [0, 2, 4, 6]);
        assert_eq!(second.flow_numbers(7).collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(second.limits(&Limits::DEFAULT).flows, 2048);
        for (worker, of) in [(0, 0), (1, 1), (2, 2), (0, Settings::LANES)] {
            assert_eq!(LaneShare::new(worker, of), None);
        }
        let last = LaneShare::new(Settings::LANES - 2, Settings::LANES - 1).expect("a worker");
        assert_eq!((last.lane(), last.lanes()), (Settings::LANES - 1, Settings::LANES));
    }
}
