//! The examination of a path, without sockets and clocks: frames and times in, frames and an [`Outcome`] out.
//!
//! ```text
//!  doctor A                                    doctor B          both at once; who starts first does not matter
//!     │ ── status: session a, receiver 0 ───────▶ │
//!     │ ◀─────── status: session b, receiver a ── │              A believes b: it answers a fresh number
//!     │ ── status: session a, receiver b ───────▶ │              B believes a
//!     │ ── probes: targets, tag, sizes, stream ─▶ │  ◀── its own probes the other way
//!     │ ◀──────────────────────────────── echoes ─│
//!     │ ◀─ status: what was counted, finished ─── │              five a second, all the time
//! ```
//!
//! A frame counts only if its MAC fits the peer's key and it names both sessions, so nothing of an earlier run, and
//! nothing of a stranger's, changes a figure. A stranger can only be counted as damaged or misfitting.
//!
//! Bounds: one frame for each time that [`Exam::poll_transmit`] finds due; at most [`MOST_ECHOES`] echoes wait; an echo is
//! shorter than its probe or as long. All memory is taken at the start, but for the frames themselves.

mod outcome;
mod prober;
mod setup;

use std::collections::VecDeque;
use std::time::Duration;

use wire::{MacAddr, Sci};

use super::frame::{Body, Envelope, Frame, Purpose, ReceiveRecord, Received, Reject, Stage, Status, Tag};
use super::targets::TARGETS;
pub use outcome::{End, Outcome, Rejections};
use prober::Prober;
pub use prober::{Probed, TagFate};
pub use setup::{Party, Peers, Setup};

/// Interval between status frames.
const HEARTBEAT: Duration = Duration::from_millis(200);
/// Minimum spacing between echoes.
const ECHO_PAUSE: Duration = Duration::from_millis(2);
/// Echoes that may wait. Further ones are not made, and the peer sends its probe again.
const MOST_ECHOES: usize = 64;
/// Time a finished doctor goes on sending, so that its peer hears of the end over a bad path.
const LINGER: Duration = Duration::from_secs(2);
/// Silence after which the peer counts as gone.
const SILENCE: Duration = Duration::from_secs(10);
/// Grace period while all frames that arrive have MACs that do not fit.
const DOUBT: Duration = Duration::from_secs(10);
/// Destination while the peer's address is unknown: a group that nobody else listens to.
const GROUP: MacAddr = MacAddr([0x03, b'F', b'w', b'D', b'o', b'c']);

#[derive(Clone, Copy, Debug)]
struct Peer {
    sci: Sci,
    session: u64,
    mac: MacAddr,
}

/// An examination in progress. Times are since any moment, and never go back.
#[derive(Debug)]
pub struct Exam {
    setup: Setup,
    peer: Option<Peer>,
    /// The session that was heard last and is not proven fresh yet.
    heard: Option<Peer>,
    theirs: Status,
    their_status: u32,
    last_received: Duration,
    prober: Prober,
    tally: ReceiveRecord,
    seen: Vec<u64>,
    highest: Option<u32>,
    echoes: VecDeque<(Frame, usize)>,
    next_echo: Duration,
    next_status: Duration,
    statuses: u32,
    rejections: Rejections,
    doubtful_since: Option<Duration>,
    finished_at: Option<Duration>,
    deadline: Duration,
}

impl Exam {
    /// Begins at `now`.
    pub fn new(setup: Setup, now: Duration) -> Self {
        let prober = Prober::new(setup.mtu, setup.probes.min(Setup::MOST_PROBES), setup.pause);
        let deadline = now + setup.patience;
        Self {
            setup,
            peer: None,
            heard: None,
            theirs: Status::default(),
            their_status: 0,
            last_received: now,
            prober,
            tally: ReceiveRecord::default(),
            seen: vec![0; (Setup::MOST_PROBES / 64) as usize],
            highest: None,
            echoes: VecDeque::with_capacity(MOST_ECHOES),
            next_echo: now,
            next_status: now,
            statuses: 0,
            rejections: Rejections::default(),
            doubtful_since: None,
            finished_at: None,
            deadline,
        }
    }

    /// Whether the peer has answered.
    pub fn is_met(&self) -> bool {
        self.peer.is_some()
    }

    /// The phase, for people who wait.
    pub fn phase(&self) -> &'static str {
        match (self.peer, self.prober.stage()) {
            (None, _) => "waiting for the other box",
            (_, Stage::Finished) => "waiting for the other box to finish",
            _ => self.prober.phase(),
        }
    }

    /// Takes a frame from the protected port. Answers wait until [`Exam::poll_transmit`] fetches them.
    pub fn handle_frame(&mut self, now: Duration, octets: &[u8]) {
        let received = match Frame::parse(octets) {
            Ok(received) => received,
            Err(Reject::Foreign) => return,
            Err(Reject::Damaged) => return self.tally.damaged += u32::from(self.peer.is_some()),
            Err(Reject::Version) => return self.rejections.other_release += 1,
        };
        let frame = received.frame;
        if frame.sender == self.setup.own.sci {
            return self.handle_own_sci(&received);
        }
        let Some(keys) = self.setup.peers.keys_of(frame.sender) else {
            return self.rejections.stranger = Some(frame.sender);
        };
        if !keys.iter().any(|key| received.fits(key)) {
            self.rejections.misfits += 1;
            self.rejections.misfit = Some(frame.sender);
            self.doubtful_since.get_or_insert(now);
            return;
        }
        self.establish_session(now, &frame);
        if self.peer.is_none_or(|peer| (peer.sci, peer.session) != (frame.sender, frame.session))
            || frame.receiver != self.setup.session
        {
            return;
        }
        self.last_received = now;
        self.tally.tagged +=
            u32::from(received.tag != Tag::None && !matches!(frame.body, Body::Probe(Purpose::Tag)));
        match frame.body {
            // A late or repeated status would turn time back.
            Body::Status(status) if frame.number >= self.their_status => {
                (self.theirs, self.their_status) = (status, frame.number);
            }
            Body::Status(_) => {}
            Body::Probe(Purpose::Stream) => self.count_stream(frame.number),
            Body::Probe(purpose) => self.queue_echo(&frame, purpose, received.tag),
            Body::Echo(purpose, tag) => self.prober.handle_echo(now, purpose, frame.number, tag),
        }
    }

    /// A frame of the own SCI: either one of the own came back, or somebody else uses the SCI.
    fn handle_own_sci(&mut self, received: &Received<'_>) {
        let fits = self.setup.own.keys.iter().any(|key| received.fits(key));
        if fits && received.frame.session == self.setup.session {
            self.tally.looped += 1;
        } else {
            self.rejections.own_sci = Some(self.rejections.own_sci.unwrap_or(false) || fits);
        }
    }

    /// Believes the sender of a frame that fits its key once the frame names the own session: it is fresh, and its
    /// sender hears this end.
    fn establish_session(&mut self, now: Duration, frame: &Frame) {
        if self.peer.is_some() {
            return;
        }
        let peer = Peer { sci: frame.sender, session: frame.session, mac: frame.from };
        if frame.receiver == self.setup.session {
            self.peer = Some(peer);
            self.prober.begin(now);
            self.next_status = now;
            return;
        }
        // It may be a replay of an earlier run. It is answered with the own session, and not believed.
        self.rejections.deaf = Some(frame.sender);
        if let Body::Status(status) = frame.body {
            self.rejections.refused |= status.hears_misfits;
        }
        self.doubtful_since.get_or_insert(now);
        if self.heard.is_none() {
            self.next_status = now;
        }
        self.heard = Some(peer);
    }

    fn count_stream(&mut self, number: u32) {
        let Some(word) = self.seen.get_mut((number / 64) as usize) else { return };
        let bit = 1 << (number % 64);
        if *word & bit != 0 {
            self.tally.duplicates += 1;
            return;
        }
        *word |= bit;
        self.tally.received += 1;
        match self.highest {
            Some(highest) if number < highest => {
                self.tally.reordered += 1;
                self.tally.displacement = self.tally.displacement.max(highest - number);
            }
            _ => self.highest = Some(number),
        }
    }

    fn queue_echo(&mut self, probe: &Frame, purpose: Purpose, tag: Tag) {
        if self.echoes.len() < MOST_ECHOES {
            let body = Body::Echo(purpose, tag);
            let echo = self.frame(probe.from, Envelope::Experiment, probe.number, body);
            self.echoes.push_back((echo, 0));
        }
    }

    fn frame(&self, to: MacAddr, envelope: Envelope, number: u32, body: Body) -> Frame {
        let known = self.peer.or(self.heard);
        Frame {
            to,
            from: self.setup.mac,
            envelope,
            sender: self.setup.own.sci,
            session: self.setup.session,
            receiver: known.map_or(0, |peer| peer.session),
            number,
            body,
        }
    }

    /// The next frame that is due, if one is: at most one of each kind at one time. Call it until there is none.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<Vec<u8>> {
        if now >= self.next_status {
            self.next_status = now + HEARTBEAT;
            return Some(self.next_status_frame());
        }
        if now >= self.next_echo
            && let Some((echo, octets)) = self.echoes.pop_front()
        {
            self.next_echo = now + ECHO_PAUSE;
            return Some(self.encode(&echo, octets, None));
        }
        let peer = self.peer?;
        let probe = self.prober.poll_transmit(now)?;
        let (to, envelope) = match probe.purpose {
            Purpose::Target(index) => {
                let target = TARGETS.get(usize::from(index))?;
                (target.to.unwrap_or(peer.mac), target.envelope)
            }
            _ => (peer.mac, Envelope::Experiment),
        };
        let frame = self.frame(to, envelope, probe.number, Body::Probe(probe.purpose));
        // Priority 6 of VLAN 0.
        let tci = (probe.purpose == Purpose::Tag).then_some(0xc000);
        Some(self.encode(&frame, probe.octets.into(), tci))
    }

    fn encode(&self, frame: &Frame, octets: usize, tci: Option<u16>) -> Vec<u8> {
        let key = self.setup.own.keys.first().expect("invariant: this end has a key to send with");
        frame.encode(octets, tci, key)
    }

    /// Goes by turns to broadcast, the peer's address and the group, so that it arrives if any of them crosses.
    fn next_status_frame(&mut self) -> Vec<u8> {
        self.statuses += 1;
        let known = self.peer.or(self.heard).map(|peer| peer.mac);
        let to = match (self.statuses % 3, known) {
            (0, _) => MacAddr([0xff; 6]),
            (1, Some(mac)) => mac,
            _ => GROUP,
        };
        let probed = self.prober.probed();
        let status = Status {
            stage: if self.peer.is_some() { self.prober.stage() } else { Stage::Waiting },
            saw_finish: self.theirs.stage == Stage::Finished,
            hears_misfits: self.rejections.misfits > 0,
            largest: probed.largest.unwrap_or(0),
            tried: probed.tried,
            crossed: probed.crossed,
            tag_fate: probed.tag as u8,
            sent: probed.sent,
            record: self.tally,
            ..self.setup.facts
        };
        let frame = self.frame(to, Envelope::Experiment, self.statuses, Body::Status(status));
        self.encode(&frame, 0, None)
    }

    /// Returns the time at which [`Exam::poll_transmit`] has something to do again, if nothing is received. Never none: status frames are due to the
    /// end.
    pub fn poll_timeout(&self) -> Duration {
        let echo = if self.echoes.is_empty() { self.next_status } else { self.next_echo };
        let probe = if self.peer.is_some() { self.prober.poll_timeout() } else { None };
        self.next_status.min(echo).min(probe.unwrap_or(self.next_status))
    }

    /// The outcome, once there is one. Call it after [`Exam::poll_transmit`] has no more.
    pub fn poll_outcome(&mut self, now: Duration) -> Option<Outcome> {
        let end = if self.peer.is_none() {
            let doubtful = self.doubtful_since.is_some_and(|since| now >= since + DOUBT);
            (now >= self.deadline || doubtful).then_some(End::Unanswered)
        } else {
            let finished =
                [self.prober.stage(), self.theirs.stage].iter().all(|stage| *stage == Stage::Finished);
            if finished && self.theirs.saw_finish {
                self.finished_at.get_or_insert(now);
            }
            match self.finished_at {
                Some(at) if now >= at + LINGER => Some(End::Examined),
                None if now >= self.last_received + SILENCE => Some(End::Lost),
                _ => None,
            }
        }?;
        Some(Outcome {
            end,
            peer: self.peer.map(|peer| peer.sci),
            theirs: self.theirs,
            probed: self.prober.probed(),
            record: self.tally,
            rejections: self.rejections,
        })
    }
}

#[cfg(test)]
mod tests;
