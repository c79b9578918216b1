//! A model of the forwarding half: what it was told, what it tells, and what it must never be told. Data flows all the time: a flow that
//! the peer does not know is announced at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tunnel::{Command, Event, Generation, Mode, RequestId};
use wire::tunnel::{Flow, FlowIndex};

use super::properties::Wrong;
use super::site::PEER;
use crate::names::{Part, digest, parts};

/// History of all forwarding halves.
#[derive(Clone, Default, Debug)]
pub(super) struct Ledger {
    /// Secrets that a half was ready to receive with, and the start of its site.
    pub(super) ready: BTreeMap<[u8; 32], u8>,
    /// Secrets that a half was told to send with.
    used: BTreeSet<[u8; 32]>,
}

/// A flow of the site's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Own {
    pub(super) flow: Flow,
    pub(super) acknowledged: bool,
}

/// A forwarding half.
#[derive(Clone, Debug)]
pub(super) struct Half {
    mode: Mode,
    generation: Generation,
    pub(super) in_use: u32,
    reserve: Option<u32>,
    pub(super) transmit: BTreeMap<u32, [u8; 32]>,
    pub(super) receive: BTreeMap<u32, [u8; 32]>,
    next_index: u16,
    pub(super) own: BTreeMap<FlowIndex, Own>,
    pub(super) peer_flows: BTreeMap<FlowIndex, Flow>,
    pub(super) events: VecDeque<Event>,
}

/// The request by which a flow is announced. No number is given twice.
fn request(index: FlowIndex) -> RequestId {
    RequestId(u32::from(index.0) + 1)
}

impl Half {
    /// A half in whose LAN there are flows.
    pub(super) fn new(mode: Mode, flows: impl Iterator<Item = Flow>) -> Self {
        let mut half = Self {
            mode,
            generation: Generation::default(),
            in_use: 0,
            reserve: None,
            transmit: BTreeMap::new(),
            receive: BTreeMap::new(),
            next_index: 0,
            own: BTreeMap::new(),
            peer_flows: BTreeMap::new(),
            events: VecDeque::new(),
        };
        flows.for_each(|flow| half.begin_flow(flow));
        half
    }

    pub(super) fn begin_flow(&mut self, flow: Flow) {
        let (peer, generation, index) = (PEER, self.generation, FlowIndex(self.next_index));
        self.next_index += 1;
        self.own.insert(index, Own { flow, acknowledged: false });
        self.events.push_back(Event::Announce { peer, generation, index, flow, request: request(index) });
    }

    /// The oldest flow ends.
    pub(super) fn end_flow(&mut self) {
        if let Some((index, _)) = self.own.pop_first() {
            self.events.push_back(Event::Withdraw { peer: PEER, generation: self.generation, index });
        }
    }

    /// The epoch in reserve comes into use, or numbers run short. It is told twice: that does no harm.
    pub(super) fn use_epoch(&mut self) {
        self.in_use = self.reserve.take().unwrap_or(self.in_use);
        let newest = self.in_use;
        for _ in 0..2 {
            self.events.push_back(Event::EpochWanted { peer: PEER, generation: self.generation, newest });
        }
    }

    /// A flow of the peer is forgotten, and its next packet is met.
    pub(super) fn forget_flow(&mut self) -> Option<()> {
        let (index, _) = self.peer_flows.pop_first()?;
        self.meet(index);
        Some(())
    }

    /// The peer's lane is lost. It was heard last in the newest epoch, or in the one before.
    pub(super) fn lose_lane(&mut self) -> Option<()> {
        let epoch = *self.receive.keys().rev().take(2).min()?;
        self.events.push_back(Event::Lost { peer: PEER, generation: self.generation, epoch, lane: 0 });
        Some(())
    }

    fn begin(&mut self, told: Generation) -> Result<(), Wrong> {
        if told <= self.generation {
            return Err(Wrong::Impossible(format!("generation {} after {}", told.0, self.generation.0)));
        }
        let flows: Vec<Flow> = self.own.values().map(|own| own.flow).collect();
        let events = std::mem::take(&mut self.events);
        *self = Self { generation: told, events, ..Self::new(self.mode, std::iter::empty()) };
        flows.into_iter().for_each(|flow| self.begin_flow(flow));
        Ok(())
    }

    /// The first packet of a number arrives that is unknown here.
    pub(super) fn meet(&mut self, index: FlowIndex) {
        self.events.push_back(Event::UnknownIndex { peer: PEER, generation: self.generation, index });
    }

    /// Carries a command out. `start`: that of its site.
    pub(super) fn handle(&mut self, ledger: &mut Ledger, command: Command, start: u8) -> Result<(), Wrong> {
        let (peer, generation) = (PEER, self.generation);
        match command {
            Command::Begin { generation, .. } => self.begin(generation)?,
            Command::InstallReceive { generation: told, epoch, secret, .. } if told == generation => {
                if self.receive.last_key_value().map_or(0, |(newest, _)| *newest) + 1 != epoch {
                    return Err(Wrong::Impossible(format!("epoch {epoch} is received out of order")));
                }
                ledger.ready.insert(*secret.octets(), start);
                self.receive.insert(epoch, *secret.octets());
                self.events.push_back(Event::ReceiveReady { peer, generation, epoch });
            }
            Command::InstallTransmit { generation: told, epoch, secret, .. } if told == generation => {
                if self.transmit.last_key_value().map_or(0, |(newest, _)| *newest) + 1 != epoch {
                    return Err(Wrong::Impossible(format!("epoch {epoch} is sent out of order")));
                }
                if !ledger.ready.contains_key(secret.octets()) {
                    return Err(Wrong::Unready(epoch));
                }
                if !ledger.used.insert(*secret.octets()) {
                    return Err(Wrong::Twice(epoch));
                }
                self.transmit.insert(epoch, *secret.octets());
                if self.mode == Mode::HeaderEncryption && self.in_use != 0 {
                    if self.reserve.replace(epoch).is_some() {
                        return Err(Wrong::Impossible("two epochs in reserve".to_owned()));
                    }
                } else {
                    self.in_use = epoch;
                }
            }
            Command::Announced { generation: told, index, request: of, .. } if told == generation => {
                if of != request(index) {
                    return Err(Wrong::Impossible(format!("number {} is acknowledged by {of:?}", index.0)));
                }
                if let Some(own) = self.own.get_mut(&index) {
                    own.acknowledged = true;
                }
            }
            Command::Unknown { generation: told, index, .. } if told == generation => {
                if let Some(own) = self.own.get_mut(&index) {
                    own.acknowledged = false;
                    let (flow, request) = (own.flow, request(index));
                    self.events.push_back(Event::Announce { peer, generation, index, flow, request });
                }
            }
            Command::AddFlow { generation: told, index, flow, request, .. } if told == generation => {
                self.peer_flows.insert(index, flow);
                let accepted = Event::FlowAccepted { peer, generation, index, request, source: None };
                self.events.push_back(accepted);
            }
            Command::WithdrawFlow { generation: told, index, .. } if told == generation => {
                self.peer_flows.remove(&index);
            }
            Command::Position { generation: told, epoch, .. }
                if told == generation && !self.receive.contains_key(&epoch) =>
            {
                return Err(Wrong::Impossible(format!("a position in epoch {epoch}")));
            }
            Command::RequestPosition { generation: told, epoch, lane, .. } if told == generation => {
                if !self.transmit.contains_key(&epoch) {
                    return Err(Wrong::Impossible(format!("a position in epoch {epoch} is wanted")));
                }
                // Of the epoch that is in use by now.
                let epoch = self.in_use;
                self.events.push_back(Event::Position { peer, generation, epoch, lane, seq: 4096 });
            }
            // Of a generation before.
            _ => {}
        }
        Ok(())
    }

    pub(super) fn parts(&self) -> Vec<Part> {
        let Self { generation, in_use, reserve, next_index, own, peer_flows, events, .. } = self;
        let mut all = vec![Part::plain((generation, in_use, reserve, next_index, own, peer_flows))];
        // Requests of the session count by what they are about.
        all.extend(parts(&format!("{events:?}"), &["RequestId("], &[]));
        for (epoch, secret) in &self.transmit {
            all.extend([Part::plain(("transmit", epoch)), Part::Name(digest(secret))]);
        }
        for (epoch, secret) in &self.receive {
            all.extend([Part::plain(("receive", epoch)), Part::Name(digest(secret))]);
        }
        all
    }
}
