//! Handling of the peer's messages.

use wire::Instant;
use wire::tunnel::FlowIndex;

use super::receive_epochs::EpochOffer;
use super::transmit_epochs::TransmitEpochs;
use super::{Announcements, ChannelState, Due, Octets, PeerFault, PeerFlows, Session};
use crate::exchange::{Command, Generation, Instance};
use crate::message::Message;
use crate::settings::{FrameKinds, Settings};

impl Session {
    /// The first message of a connection.
    pub(super) fn handle_hello(&mut self, now: Instant, message: Message) -> Result<(), PeerFault> {
        let Message::Hello { instance, lanes, window, mode, frames } = message else {
            return Err(PeerFault::BeforeHello);
        };
        if instance == self.settings.instance {
            return Err(PeerFault::OwnInstance);
        }
        if mode != self.mode {
            return Err(PeerFault::Mode { ours: self.mode, theirs: mode });
        }
        if window != self.settings.window {
            return Err(PeerFault::Window { ours: self.settings.window, theirs: window });
        }
        lanes_are_fine(lanes)?;
        if self.instance.is_none_or(|(known, _)| known != instance) {
            if !self.instances.take(now) {
                return Err(PeerFault::TooManyInstances);
            }
            self.begin_generation(now, instance, frames);
        }
        self.due.welcome = true;
        self.enter(now, ChannelState::HelloReceived);
        Ok(())
    }

    /// Begins a generation: everything of the previous pair of instances is void, on both halves.
    fn begin_generation(&mut self, now: Instant, instance: Instance, frames: FrameKinds) {
        self.counters.peer_instances += 1;
        self.instance = Some((instance, now));
        self.generation = Generation(self.generation.0.wrapping_add(1).max(1));
        self.transmit = TransmitEpochs::new(self.mode, self.settings.epoch_life);
        self.receive.begin_generation();
        self.flows = Announcements::default();
        self.peer_flows = PeerFlows::default();
        (self.peer_takes, self.octets) = (frames, Octets::default());
        // Pending messages belong to the previous generation, even those that an event has added since the
        // connection came up.
        self.due = Due { hello: self.due.hello, ..Due::default() };
        self.commands.clear();
        let (peer, generation) = (self.settings.peer, self.generation);
        self.commands.push_back(Command::Begin { peer, generation });
        if frames != FrameKinds::default() {
            self.commands.push_back(Command::TakesFrames { peer, generation, frames });
        }
    }

    /// Handles any message after the Hello.
    pub(super) fn handle_when_up(&mut self, now: Instant, message: Message) -> Result<(), PeerFault> {
        let (peer, generation) = (self.settings.peer, self.generation);
        match message {
            Message::Hello { .. } => return Err(PeerFault::SecondHello),
            Message::Welcome => {
                if self.channel == ChannelState::HelloReceived {
                    self.enter(now, ChannelState::Up);
                }
            }
            Message::Epoch { epoch, secret, lanes } => {
                lanes_are_fine(lanes)?;
                match self.receive.offer(now, epoch, &secret)? {
                    EpochOffer::New => {
                        self.command(Command::InstallReceive { peer, generation, epoch, secret, lanes })
                    }
                    EpochOffer::AlreadyReady => self.due.epoch_ready = Some(epoch),
                    EpochOffer::UnderWay => {}
                }
            }
            Message::EpochReady { epoch } => match self.transmit.acknowledge(now, epoch)? {
                Some(secret) => {
                    self.counters.out_epochs += 1;
                    self.command(Command::InstallTransmit { peer, generation, epoch, secret });
                }
                None => self.counters.in_messages_stale += 1,
            },
            Message::Announce { index, flow } => {
                let request = self.peer_flows.announce(now, index)?;
                self.command(Command::AddFlow { peer, generation, index, flow, request });
            }
            Message::Withdraw { index } => {
                self.peer_flows.withdraw(index)?;
                self.command(Command::WithdrawFlow { peer, generation, index });
            }
            Message::Announced { index } => {
                let flow = self.flows.take_announced(index);
                self.stale_unless(flow.is_some());
                if let Some(request) = flow.and_then(|flow| self.flows.acknowledge(index, flow)) {
                    self.counters.out_flows_announced += 1;
                    self.command(Command::Announced { peer, generation, index, request });
                }
            }
            Message::Refused { index } => {
                let flow = self.flows.take_announced(index);
                self.stale_unless(flow.is_some());
                if flow.is_some_and(|flow| self.flows.refuse(now, index, flow)) {
                    self.counters.out_flows_refused += 1;
                }
            }
            Message::Withdrawn { index } => {
                let known = self.flows.withdrawn(index);
                self.stale_unless(known);
            }
            Message::Unknown { index } => self.handle_unknown(now, index),
            Message::WhereIs { epoch, lane } => return self.handle_where_is(now, epoch, lane),
            Message::Position { epoch, lane, seq } => return self.handle_position(epoch, lane, seq),
            Message::Ping { token } => self.due.pong = Some(token),
            Message::Octets(octets) => self.octets.hear(octets),
            // The channel has handled them already.
            Message::Pong { .. } | Message::SeenAt { .. } | Message::ReachableAt { .. } => {}
        }
        Ok(())
    }

    fn handle_unknown(&mut self, now: Instant, index: FlowIndex) {
        if !self.unknowns.take(now) {
            self.counters.in_messages_excess += 1;
            return;
        }
        let known = self.flows.forgotten(index);
        if self.stale_unless(known) {
            self.counters.out_flows_unknown += 1;
            let (peer, generation) = (self.settings.peer, self.generation);
            self.command(Command::Unknown { peer, generation, index });
        }
    }

    fn handle_where_is(&mut self, now: Instant, epoch: u32, lane: u8) -> Result<(), PeerFault> {
        if lane >= self.settings.lanes {
            return Err(PeerFault::Lane { lane });
        }
        if epoch > self.transmit.newest_told() {
            return Err(PeerFault::NeverOffered { epoch });
        }
        if !self.where_is.take(now) {
            self.counters.in_messages_excess += 1;
        } else if self.stale_unless(self.transmit.is_in_use(epoch)) {
            let (peer, generation) = (self.settings.peer, self.generation);
            self.asks.insert(lane);
            self.command(Command::RequestPosition { peer, generation, epoch, lane });
        }
        Ok(())
    }

    fn handle_position(&mut self, epoch: u32, lane: u8, seq: u64) -> Result<(), PeerFault> {
        if !seq.is_multiple_of((self.settings.window / 2).max(1)) {
            return Err(PeerFault::NoAnchor { seq });
        }
        // The peer may have moved to another known epoch since the question.
        let asked =
            self.asked.get(&lane).is_some_and(|&asked| (asked..=self.receive.newest()).contains(&epoch));
        // One answer for each question. The forwarding half has the window, and decides whether it is
        // forward.
        if self.stale_unless(asked) {
            self.asked.remove(&lane);
            let (peer, generation) = (self.settings.peer, self.generation);
            self.command(Command::Position { peer, generation, epoch, lane, seq });
        }
        Ok(())
    }

    /// Counts an answer without a question: harmless, and normal where messages cross.
    fn stale_unless(&mut self, expected: bool) -> bool {
        self.counters.in_messages_stale += u64::from(!expected);
        expected
    }

    fn command(&mut self, command: Command) {
        self.commands.push_back(command);
    }
}

fn lanes_are_fine(lanes: u8) -> Result<(), PeerFault> {
    match lanes {
        1..=Settings::LANES => Ok(()),
        _ => Err(PeerFault::Lanes { lanes }),
    }
}
