//! `frameward cell learn`: which cyclic frames a network has, and the configuration of a cell that would protect them.
//!
//! ```text
//! interface, capture ──▶ Learner ──▶ flows: who sends what, how often        ──▶ proposal ──▶ text: the configuration of both boxes
//!                           ├──────▶ connections: cycles and FrameIDs by Connect ──▲               └▶ and what was left out, and why
//!                           └──────▶ names of stations ────────────────────────────┘
//! ```
//!
//! It only listens. Anybody on the network can send what it hears: all tables are bounded, names have no octet that a terminal or TOML
//! would obey, and the result is a proposal that a person compares with the engineering tool.
//!
//! Left out on purpose: keys (`keygen` makes them), and Modbus TCP, whose frames come when somebody asks.

pub mod connections;
pub mod flow;
mod other_buses;
pub mod proposal;
pub mod source;
pub mod text;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use wire::ethernet::Header;
use wire::fieldbus::{ETHERTYPE, Protocol};
use wire::profinet::connect::{Connect, ConnectError};
use wire::profinet::{dcp, udp_payload};
use wire::{EtherType, MacAddr};

use connections::Connections;
use flow::{Flow, FlowKey, Seen, Stream};

/// Most flows that are followed at once.
pub const MOST_FLOWS: usize = 4096;
/// Most stations whose names are remembered.
pub const MOST_NAMES: usize = 4096;

wire::counters! {
    /// Frames that were heard.
    Heard {
        /// Frames.
        frames = "Frames",
        /// Frames of cyclic flows, of any fieldbus.
        cyclic = "Cyclic",
        /// Frames that ended inside their Ethernet header.
        truncated = "Truncated" [discard],
        /// Protected frames of a cell: a gateway is in front of these machines already.
        protected = "Protected",
        /// Connect requests and responses that were understood.
        connects = "Connects",
        /// Connects that a device refused.
        refused = "ConnectsRefused",
        /// Connects that ended early or began with another block than the AR.
        malformed = "ConnectsMalformed" [discard],
        /// Connects of more connections than are remembered, and names of more stations.
        forgotten = "Forgotten" [discard],
        /// Cyclic frames of more flows than are followed.
        unfollowed = "Unfollowed" [discard],
    }
}

/// Hears frames, and remembers what cells are made of.
#[derive(Debug, Default)]
pub struct Learner {
    flows: HashMap<FlowKey, Flow>,
    connections: Connections,
    names: BTreeMap<MacAddr, String>,
    heard: Heard,
    first: Option<Duration>,
    last: Option<Duration>,
}

impl Learner {
    /// Takes one frame, from its destination address on. `time` is since any moment, the same for all frames. Frames of several `interfaces` may
    /// be copies of each other. `is_whole` is false if the frame was cut at its end.
    pub fn handle_frame(&mut self, time: Option<Duration>, interface: usize, frame: &[u8], is_whole: bool) {
        self.heard.frames += 1;
        self.first = self.first.or(time);
        self.last = self.last.max(time);
        let Ok(header) = Header::parse(frame) else {
            self.heard.truncated += 1;
            return;
        };
        let body = &frame[header.octets()..];
        if header.ethertype == ETHERTYPE {
            self.heard.protected += 1;
            return;
        }
        if let Some(stream) = stream(header.ethertype, body) {
            let tag = if header.vlan_tags == 0 { None } else { frame.get(14..16) };
            let tag = tag.map(|tci| u16::from_be_bytes([tci[0], tci[1]]));
            let counter = if is_whole { cycle_counter(header.ethertype, body) } else { None };
            let seen = Seen { time, octets: frame.len(), tag, tags: header.vlan_tags, counter };
            let key = FlowKey { interface, source: header.source, destination: header.destination, stream };
            self.follow(key, &seen);
            return;
        }
        if header.ethertype == EtherType::PROFINET {
            if let Some(name) = dcp::identified(body) {
                self.name(header.source, name.as_str());
            }
        } else if let Some(datagram) = udp_payload(body).filter(|_| header.ethertype == EtherType::IPV4) {
            self.connect(datagram);
        }
    }

    fn follow(&mut self, key: FlowKey, seen: &Seen) {
        let is_full = self.flows.len() >= MOST_FLOWS;
        match self.flows.get_mut(&key) {
            Some(flow) => flow.take(seen),
            None if is_full => {
                self.heard.unfollowed += 1;
                return;
            }
            None => drop(self.flows.insert(key, Flow::new(seen))),
        }
        self.heard.cyclic += 1;
    }

    fn connect(&mut self, datagram: &[u8]) {
        match Connect::parse(datagram) {
            Ok(connect) => {
                self.heard.connects += 1;
                if !self.connections.take(&connect) {
                    self.heard.forgotten += 1;
                }
                if let Some(name) = connect.name {
                    self.name(connect.station, name.as_str());
                }
            }
            Err(ConnectError::Other) => {}
            Err(ConnectError::Refused) => self.heard.refused += 1,
            Err(ConnectError::Truncated | ConnectError::NoAr) => self.heard.malformed += 1,
        }
    }

    fn name(&mut self, station: MacAddr, name: &str) {
        if self.names.len() >= MOST_NAMES && !self.names.contains_key(&station) {
            self.heard.forgotten += 1;
            return;
        }
        self.names.insert(station, name.to_owned());
    }

    /// Time between the first frame and the last.
    pub fn duration(&self) -> Duration {
        self.last.zip(self.first).map_or(Duration::ZERO, |(last, first)| last.saturating_sub(first))
    }

    /// Counters of all frames.
    pub const fn heard(&self) -> &Heard {
        &self.heard
    }
}

/// The fieldbus of a frame and its identification there, if it may be cyclic, from the octets behind its EtherType.
fn stream(ethertype: EtherType, body: &[u8]) -> Option<Stream> {
    // Acknowledgements of TCP come between the frames of Modbus: times say nothing there.
    let known = Protocol::ALL.into_iter().filter(|protocol| *protocol != Protocol::ModbusTcp);
    let mut known = known.filter(|protocol| protocol.ethertype() == ethertype);
    let stream = known.find_map(|protocol| Some(Stream { protocol, id: protocol.identify(body)? }))?;
    // Of PROFINET also those to groups, which no relation has.
    let is_cyclic = matches!(stream.id.0, 0x0100..=0x0fff | 0x8000..=0xfbff);
    (stream.protocol != Protocol::Profinet || is_cyclic).then_some(stream)
}

/// CycleCounter of a frame of PROFINET, which ends with it: CycleCounter 2 | DataStatus 1 | TransferStatus 1.
fn cycle_counter(ethertype: EtherType, body: &[u8]) -> Option<u16> {
    let status: &[u8; 4] = body.last_chunk().filter(|_| ethertype == EtherType::PROFINET)?;
    Some(u16::from_be_bytes([status[0], status[1]]))
}

#[cfg(test)]
mod tests;
