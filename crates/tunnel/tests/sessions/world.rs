//! Two sites, a channel between them, and a clock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use suite::tunnel::EpochSecret;
use tunnel::{Command, FrameKinds, Instance, Message, Mode, Session, SessionSettings, Stream};
use wire::Instant;
use wire::tunnel::Flow;

use super::worker::{Ledger, PEER, Worker};

/// One site.
#[derive(Debug)]
struct End {
    session: Session,
    worker: Worker,
    /// Commands on their way to the worker.
    ring: VecDeque<Command>,
    /// Messages on their way to the other end, by stream.
    sent: [VecDeque<Vec<u8>>; 2],
    /// Requests sent on this connection without an answer.
    under_way: usize,
}

#[derive(Debug)]
pub(crate) struct World {
    mode: Mode,
    now: Instant,
    ends: [End; 2],
    /// Without it messages are lost.
    connected: bool,
    ledger: Ledger,
    made: u64,
    most_under_way: usize,
    /// Messages, commands and events that went from one hand to another.
    moved: u64,
}

/// A secret that was never drawn before.
fn draw() -> EpochSecret {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let mut octets = [0; 32];
    octets[..8].copy_from_slice(&DRAWN.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    EpochSecret::new(&octets)
}

fn settings(mode: Mode, made: u64) -> SessionSettings {
    let mut instance = [0; 16];
    instance[..8].copy_from_slice(&made.to_le_bytes());
    SessionSettings {
        peer: PEER,
        instance: Instance(instance),
        mode,
        lanes: 1,
        window: 4096,
        frames: FrameKinds::ALL,
        epoch_life: tunnel::EPOCH_LIFE,
        draw,
    }
}

impl World {
    pub(crate) fn new(mode: Mode) -> Self {
        let now = Instant::START;
        let ends = [0, 1].map(|end| End {
            session: Session::new(settings(mode, end as u64), now),
            worker: Worker::new(end, mode, std::iter::empty()),
            ring: VecDeque::new(),
            sent: Default::default(),
            under_way: 0,
        });
        Self {
            mode,
            now,
            ends,
            connected: false,
            ledger: Ledger::default(),
            made: 2,
            most_under_way: 0,
            moved: 0,
        }
    }

    pub(crate) fn session(&self, end: usize) -> &Session {
        &self.ends[end].session
    }

    pub(crate) fn commands(&self, end: usize) -> usize {
        self.ends[end].worker.commands
    }

    pub(crate) fn positions(&self, end: usize) -> usize {
        self.ends[end].worker.positions
    }

    pub(crate) fn most_under_way(&self) -> usize {
        self.most_under_way
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        for _ in 0..100_000 {
            let due = |end: &End| end.session.poll_timeout();
            match self.ends.iter().filter_map(due).min() {
                Some(at) if at <= until => self.now = self.now.max(at),
                _ => {
                    self.now = until;
                    return;
                }
            }
            let now = self.now;
            for end in 0..2 {
                if self.ends[end].session.poll_timeout().is_some_and(|at| at <= now) {
                    self.observed(end, |session| session.handle_timeout(now));
                }
            }
        }
        panic!("a time that has come comes again");
    }

    /// Does something to a session, and holds its epochs to one a second.
    fn observed<R>(&mut self, end: usize, act: impl FnOnce(&mut Session) -> R) -> R {
        let session = &mut self.ends[end].session;
        let before = session.state();
        let result = act(session);
        let after = session.state();
        if after.generation == before.generation
            && let (Some(old), Some(new)) = (before.transmit, after.transmit)
            && old != new
        {
            let second = self.mode == Mode::HeaderEncryption && new.epoch == 2;
            assert!(second || new.since.since(old.since) >= Duration::from_secs(1), "{old:?} {new:?}");
        }
        result
    }

    pub(crate) fn connect(&mut self) {
        self.lose_messages();
        self.connected = true;
        for end in 0..2 {
            self.ends[end].session.handle_connected(self.now);
        }
    }

    pub(crate) fn lose_connection(&mut self, noticed: [bool; 2]) {
        self.lose_messages();
        self.connected = false;
        for (end, _) in self.ends.iter_mut().zip(noticed).filter(|(_, noticed)| *noticed) {
            end.session.handle_disconnected(self.now);
        }
    }

    fn lose_messages(&mut self) {
        for end in &mut self.ends {
            end.sent = Default::default();
            end.under_way = 0;
        }
    }

    pub(crate) fn restart(&mut self, ends: [bool; 2], noticed: bool) {
        if ends == [false, false] {
            return;
        }
        self.lose_connection([noticed && !ends[0], noticed && !ends[1]]);
        for (number, end) in self.ends.iter_mut().enumerate().filter(|(number, _)| ends[*number]) {
            end.session = Session::new(settings(self.mode, self.made), self.now);
            self.made += 1;
            let flows: Vec<Flow> = end.worker.own.values().map(|own| own.flow).collect();
            end.worker = Worker::new(number, self.mode, flows.into_iter());
            end.ring.clear();
        }
    }

    /// The session's messages go on their way.
    fn send(&mut self, from: usize) {
        let end = &mut self.ends[from];
        while let Some((stream, message)) = end.session.poll_message() {
            if self.connected {
                end.under_way +=
                    usize::from(matches!(message, Message::Announce { .. } | Message::Withdraw { .. }));
                self.most_under_way = self.most_under_way.max(end.under_way);
                end.sent[usize::from(stream.octet())].push_back(message.encode().to_vec());
            }
        }
    }

    pub(crate) fn carry(&mut self, from: usize, stream: Stream, messages: usize) {
        self.send(from);
        for _ in 0..messages {
            let Some(octets) = self.ends[from].sent[usize::from(stream.octet())].pop_front() else { return };
            self.moved += 1;
            let message = Message::parse(&octets).expect("a message").expect("a known kind");
            let to = 1 - from;
            if matches!(
                message,
                Message::Announced { .. } | Message::Refused { .. } | Message::Withdrawn { .. }
            ) {
                self.ends[to].under_way -= 1;
            }
            let now = self.now;
            let result = self.observed(to, |session| session.handle_message(now, message));
            assert_eq!(result, Ok(()), "an honest peer");
        }
    }

    pub(crate) fn turn(&mut self, end: usize, commands: usize, events: usize) {
        let now = self.now;
        let End { session, worker, ring, .. } = &mut self.ends[end];
        for command in ring.drain(..commands.min(ring.len())) {
            self.moved += 1;
            worker.handle(&mut self.ledger, command);
        }
        ring.extend(std::iter::from_fn(|| session.poll_command()).take(commands));
        for _ in 0..events {
            let Some(event) = self.ends[end].worker.events.pop_front() else { break };
            self.moved += 1;
            self.observed(end, |session| session.handle_event(now, event));
        }
    }

    pub(crate) fn flow(&mut self, end: usize, begins: bool) {
        if begins {
            self.made += 1;
            let mut octets = [0; 24];
            octets[0] = 0x20;
            octets[4..12].copy_from_slice(&self.made.to_le_bytes());
            let worker = &mut self.ends[end].worker;
            worker.begin_flow(Flow::parse(&octets).expect("a flow"));
            worker.use_flows(&Default::default());
        } else {
            self.ends[end].worker.end_flow();
        }
    }

    pub(crate) fn use_flows(&mut self) {
        for end in 0..2 {
            let of_peer = self.ends[1 - end].worker.own.clone();
            self.ends[end].worker.use_flows(&of_peer);
        }
    }

    pub(crate) fn use_epoch(&mut self, end: usize) {
        self.ends[end].worker.use_epoch();
    }

    pub(crate) fn forget_flow(&mut self, end: usize) {
        self.ends[end].worker.forget_flow();
    }

    pub(crate) fn mute(&mut self, end: usize, answers: usize) {
        self.ends[end].worker.mute = answers;
    }

    pub(crate) fn lose_lane(&mut self, end: usize) {
        self.ends[end].worker.lose_lane();
    }

    /// Until nobody has anything to say.
    pub(crate) fn exchange_everything(&mut self) {
        for _ in 0..10_000 {
            let before = self.moved;
            for end in 0..2 {
                self.turn(end, usize::MAX, usize::MAX);
                self.carry(end, Stream::Control, usize::MAX);
                self.carry(end, Stream::Announcements, usize::MAX);
            }
            if self.moved == before && self.ends.iter().all(|end| end.ring.is_empty()) {
                return;
            }
        }
        panic!("two sessions that never have said everything");
    }

    /// Packets of this end are accepted at the other, and so will be those of the epoch in readiness.
    pub(crate) fn assert_direction_works(&self, end: usize) {
        let (from, to) = (&self.ends[end].worker, &self.ends[1 - end].worker);
        assert!(from.in_use > 0, "no epoch");
        for (epoch, secret) in &from.transmit {
            assert_eq!(
                to.receive.get(epoch).map(EpochSecret::octets),
                Some(secret.octets()),
                "epoch {epoch}"
            );
        }
    }

    /// The other end knows this end's flows and no others, and this end knows that it does.
    pub(crate) fn assert_flows_are_told(&self, end: usize) {
        let (from, to) = (&self.ends[end], &self.ends[1 - end]);
        assert!(from.worker.own.values().all(|own| own.acknowledged), "{:?}", from.worker.own);
        let told = from.worker.own.iter().map(|(index, own)| (*index, own.flow)).collect();
        assert_eq!(to.worker.peer_flows, told);
        let (state, at_peer) = (from.session.state(), to.session.state());
        let flows = from.worker.own.len();
        assert_eq!((state.flows_announced, state.flows_acknowledged, at_peer.peer_flows), (0, flows, flows));
    }
}
