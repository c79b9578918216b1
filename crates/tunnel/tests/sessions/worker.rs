//! A model of the forwarding half: what it has been told, what it tells, and what it must never be told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use suite::tunnel::EpochSecret;
use tunnel::{Command, Event, Generation, Mode, PeerId, RequestId};
use wire::tunnel::{Flow, FlowIndex};

/// The one peer.
pub(crate) const PEER: PeerId = PeerId(3);

/// History of all workers since the beginning.
#[derive(Default, Debug)]
pub(crate) struct Ledger {
    /// Secrets that a worker told it was ready to receive with.
    ready: BTreeSet<[u8; 32]>,
    /// Secrets that a worker was told to send with.
    used: BTreeSet<[u8; 32]>,
    /// Flows that a worker accepted: whose, number, flow.
    accepted: BTreeSet<(usize, FlowIndex, Flow)>,
}

/// A flow of the site's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Own {
    pub(crate) flow: Flow,
    told: bool,
    pub(crate) acknowledged: bool,
}

#[derive(Debug)]
pub(crate) struct Worker {
    end: usize,
    mode: Mode,
    generation: Generation,
    pub(crate) in_use: u32,
    pub(crate) readiness: Option<u32>,
    pub(crate) transmit: BTreeMap<u32, EpochSecret>,
    pub(crate) receive: BTreeMap<u32, EpochSecret>,
    next_index: u16,
    pub(crate) own: BTreeMap<FlowIndex, Own>,
    pub(crate) peer_flows: BTreeMap<FlowIndex, Flow>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) commands: usize,
    pub(crate) positions: usize,
    /// Answers to announcements that will be lost, for there is no room for them.
    pub(crate) mute: usize,
}

/// The request by which a flow is announced. No number is given twice.
fn request(index: FlowIndex) -> RequestId {
    RequestId(u32::from(index.0) + 1)
}

impl Worker {
    /// A worker in whose LAN there are flows.
    pub(crate) fn new(end: usize, mode: Mode, flows: impl Iterator<Item = Flow>) -> Self {
        let mut worker = Self {
            end,
            mode,
            generation: Generation::default(),
            in_use: 0,
            readiness: None,
            transmit: BTreeMap::new(),
            receive: BTreeMap::new(),
            next_index: 0,
            own: BTreeMap::new(),
            peer_flows: BTreeMap::new(),
            events: VecDeque::new(),
            commands: 0,
            positions: 0,
            mute: 0,
        };
        flows.for_each(|flow| worker.begin_flow(flow));
        worker
    }

    pub(crate) fn begin_flow(&mut self, flow: Flow) {
        let index = FlowIndex(self.next_index);
        self.next_index += 1;
        self.own.insert(index, Own { flow, told: false, acknowledged: false });
    }

    pub(crate) fn end_flow(&mut self) {
        if let Some((index, _)) = self.own.pop_first() {
            self.events.push_back(Event::Withdraw { peer: PEER, generation: self.generation, index });
        }
    }

    /// Each flow has a frame in each direction.
    pub(crate) fn use_flows(&mut self, of_peer: &BTreeMap<FlowIndex, Own>) {
        let (peer, generation) = (PEER, self.generation);
        for (&index, own) in &mut self.own {
            if !own.told {
                own.told = true;
                let (flow, request) = (own.flow, request(index));
                self.events.push_back(Event::Announce { peer, generation, index, flow, request });
            }
        }
        let unknown =
            of_peer.iter().find(|(index, own)| own.acknowledged && !self.peer_flows.contains_key(index));
        if let Some((&index, _)) = unknown {
            self.events.push_back(Event::UnknownIndex { peer, generation, index });
        }
    }

    /// Puts the epoch in readiness to use, or runs short of numbers. Tells it twice: that must do no harm.
    pub(crate) fn use_epoch(&mut self) {
        if let Some(epoch) = self.readiness.take() {
            self.in_use = epoch;
        }
        for _ in 0..2 {
            self.events.push_back(Event::EpochWanted {
                peer: PEER,
                generation: self.generation,
                newest: self.readiness.unwrap_or(self.in_use),
            });
        }
    }

    pub(crate) fn forget_flow(&mut self) {
        if let Some((index, _)) = self.peer_flows.pop_first() {
            self.events.push_back(Event::UnknownIndex { peer: PEER, generation: self.generation, index });
        }
    }

    /// Asks for the epoch on which the peer was heard last, which may be the one before the newest.
    pub(crate) fn lose_lane(&mut self) {
        if let Some(&epoch) = self.receive.keys().rev().take(2).min() {
            self.events.push_back(Event::Lost { peer: PEER, generation: self.generation, epoch, lane: 0 });
        }
    }

    pub(crate) fn handle(&mut self, ledger: &mut Ledger, command: Command) {
        self.commands += 1;
        if let Command::Begin { peer, generation } = command {
            assert_eq!(peer, PEER);
            assert!(generation > self.generation, "generations go up");
            let flows: Vec<Flow> = self.own.values().map(|own| own.flow).collect();
            let (commands, positions) = (self.commands, self.positions);
            *self = Self {
                generation,
                commands,
                positions,
                events: std::mem::take(&mut self.events),
                ..Self::new(self.end, self.mode, flows.into_iter())
            };
            return;
        }
        let (peer, generation) = (PEER, self.generation);
        match command {
            Command::InstallReceive { generation: told, epoch, secret, lanes, .. } if told == generation => {
                assert_eq!(lanes, 1);
                let newest = self.receive.last_key_value().map_or(0, |(&newest, _)| newest);
                assert_eq!(epoch, newest + 1, "epochs come in order");
                ledger.ready.insert(*secret.octets());
                self.receive.insert(epoch, secret);
                self.events.push_back(Event::ReceiveReady { peer, generation, epoch });
            }
            Command::InstallTransmit { generation: told, epoch, secret, .. } if told == generation => {
                let newest = self.transmit.last_key_value().map_or(0, |(&newest, _)| newest);
                assert_eq!(epoch, newest + 1, "no epoch comes twice in a generation");
                assert!(ledger.ready.contains(secret.octets()), "the peer is not ready");
                assert!(ledger.used.insert(*secret.octets()), "two epochs with one secret");
                self.transmit.insert(epoch, secret);
                if self.mode == Mode::HeaderEncryption && self.in_use != 0 {
                    assert_eq!(self.readiness.replace(epoch), None, "there is room for one in readiness");
                } else {
                    self.in_use = epoch;
                }
            }
            Command::Announced { generation: told, index, request: of, .. } if told == generation => {
                assert_eq!(of, request(index), "it answers what was requested");
                if let Some(own) = self.own.get_mut(&index) {
                    assert!(
                        ledger.accepted.contains(&(self.end, index, own.flow)),
                        "the peer does not know it"
                    );
                    own.acknowledged = true;
                }
            }
            Command::Unknown { generation: told, index, .. } if told == generation => {
                if let Some(own) = self.own.get_mut(&index) {
                    (own.told, own.acknowledged) = (false, false);
                }
            }
            Command::AddFlow { generation: told, index, flow, request, .. } if told == generation => {
                ledger.accepted.insert((1 - self.end, index, flow));
                self.peer_flows.insert(index, flow);
                if self.mute > 0 {
                    self.mute -= 1;
                } else {
                    let accepted = Event::FlowAccepted { peer, generation, index, request, source: None };
                    self.events.push_back(accepted);
                }
            }
            Command::WithdrawFlow { generation: told, index, .. } if told == generation => {
                self.peer_flows.remove(&index);
            }
            Command::Position { generation: told, epoch, lane, seq, .. } if told == generation => {
                assert!(self.receive.contains_key(&epoch) && lane == 0 && seq % 2048 == 0);
                self.positions += 1;
            }
            Command::RequestPosition { generation: told, epoch, lane, .. } if told == generation => {
                assert!(self.transmit.contains_key(&epoch));
                // Of the epoch that is in use by now.
                let epoch = self.in_use;
                self.events.push_back(Event::Position { peer, generation, epoch, lane, seq: 4096 });
            }
            // A generation before.
            _ => {}
        }
    }
}
