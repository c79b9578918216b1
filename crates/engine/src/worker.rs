//! A worker: one thread that owns its links, ports and SAs, and shares nothing with other threads but two wait-free
//! rings: commands come in, events go out, both between turns.
//!
//! ```text
//!  control ── Command ring ──▶ worker ── turn, turn, turn … ──▶ Event ring ── control
//! ```
//!
//! Because a worker owns its SAs, a PN is taken without an atomic and a nonce cannot be used by two threads; and
//! because tables change only between turns, no frame in flight meets a half-changed one.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::{self, Duration};

use rtrb::{Consumer, Producer, RingBuffer};
use secy::NextAction;
use suite::{CipherSuite, Key, Sak};
use wire::{An, Instant, Pn};

use crate::link::Link;
use crate::scheduling::Scheduling;
use crate::snapshot::LinkSnapshot;
use crate::wake::{self, Waiter, Waker};

/// How a worker waits for frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Polling {
    /// Looks again for [`SPIN`] after the last frame, then sleeps: low latency within a burst of traffic, an idle
    /// CPU without.
    #[default]
    Adaptive,
    /// Never sleeps: the lowest latency, and a whole CPU for each worker.
    Busy,
    /// Sleeps as soon as there is nothing to do.
    Interrupt,
}

/// How long a worker with adaptive polling looks for frames before it sleeps. About what one sleep and wake-up
/// costs: whoever waits that long has lost at most as much again.
pub const SPIN: Duration = Duration::from_micros(50);

/// The longest sleep. Nothing depends on it: frames and control wake the worker.
const SLEEP: Duration = Duration::from_millis(100);

/// Commands or events that can wait. Control has at most two commands a link under way.
const RING: usize = 1024;

/// What control asks of a worker. Links are named by their index in the worker.
pub(crate) enum Command {
    /// Allow the transmit SA the PNs up to and with this one.
    Reserve { link: usize, an: An, through: Pn },
    /// Fill the snapshot and send it back.
    Report { link: usize, snapshot: Box<LinkSnapshot> },
    /// Let go of everything.
    Stop,
}

/// What a worker tells control.
pub(crate) enum Event {
    /// What the transmit SA of a link needs has changed.
    Next { link: usize, action: NextAction },
    /// The snapshot that was asked for.
    Report { link: usize, snapshot: Box<LinkSnapshot> },
}

/// Control's hold on a worker.
pub(crate) struct WorkerHandle {
    commands: Producer<Command>,
    events: Consumer<Event>,
    waker: Waker,
    /// Returns the links, so that they are closed where time does not matter.
    thread: JoinHandle<Vec<Link>>,
}

impl WorkerHandle {
    /// Starts a worker over `links`.
    pub(crate) fn start(name: String, links: Vec<Link>, polling: Polling) -> io::Result<Self> {
        let (commands, command_ring) = RingBuffer::new(RING);
        let (event_ring, events) = RingBuffer::new(RING);
        let mut links = links;
        let descriptors: Vec<_> = links
            .iter_mut()
            .flat_map(Link::ports_mut)
            .flat_map(|port| port.poll_descriptors().to_vec())
            .collect();
        let (waker, waiter) = wake::pair(descriptors.into_iter())?;
        let told = vec![NextAction::GoOn; links.len()];
        let worker = Worker { links, told, commands: command_ring, events: event_ring, waiter, polling };
        let thread = thread::Builder::new().name(name).spawn(move || worker.run())?;
        Ok(Self { commands, events, waker, thread })
    }

    /// Sends a command. One that finds the ring full is handed back: the worker is stuck or gone.
    pub(crate) fn command(&mut self, command: Command) -> Result<(), Command> {
        self.commands.push(command).map_err(|rtrb::PushError::Full(command)| command)?;
        self.waker.wake();
        Ok(())
    }

    /// The next event, if there is one.
    pub(crate) fn event(&mut self) -> Option<Event> {
        self.events.pop().ok()
    }

    /// Schedules the thread so from now on.
    pub(crate) fn schedule(&self, scheduling: Scheduling) -> io::Result<()> {
        scheduling.apply_to(&self.thread)
    }

    /// False once the thread has ended.
    pub(crate) fn is_alive(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Stops the worker and closes its links.
    pub(crate) fn stop(mut self) {
        // A worker that takes no command any more has ended: join returns at once.
        let _ = self.command(Command::Stop);
        drop(self.thread.join());
    }
}

struct Worker {
    links: Vec<Link>,
    /// What control was told last of each link.
    told: Vec<NextAction>,
    commands: Consumer<Command>,
    events: Producer<Event>,
    waiter: Waiter,
    polling: Polling,
}

impl Worker {
    fn run(mut self) -> Vec<Link> {
        // The cipher library makes room for its error queue when a thread first refuses a frame, and preparing a key
        // rehearses that: done here, no frame has to wait for an allocation.
        if let Ok(sak) = Sak::new(CipherSuite::GcmAes128, &[0; 16]) {
            drop(Key::prepare(CipherSuite::GcmAes128, &sak));
        }
        let start = time::Instant::now();
        let mut idle_since = None;
        while self.obey() {
            let now = Instant::after_start(start.elapsed());
            if self.turn(now) > 0 {
                idle_since = None;
                continue;
            }
            let idle = now.since(*idle_since.get_or_insert(now));
            match self.polling {
                Polling::Busy => std::hint::spin_loop(),
                Polling::Adaptive if idle < SPIN => {}
                Polling::Adaptive | Polling::Interrupt => {
                    self.waiter.wait(self.sleep(now));
                    idle_since = None;
                }
            }
        }
        self.links
    }

    /// How long nothing is due.
    fn sleep(&self, now: Instant) -> Duration {
        let due = self.links.iter().filter_map(Link::due).map(|due| due.since(now));
        due.fold(SLEEP, Duration::min)
    }

    /// One turn of each link. Returns how many frames came in.
    fn turn(&mut self, now: Instant) -> usize {
        let mut received = 0;
        for (index, link) in self.links.iter_mut().enumerate() {
            let (frames, action) = link.turn(now);
            received += frames;
            // Without frames from the plain side the SA's need is what it was.
            if action != self.told[index] && action != NextAction::GoOn {
                let event = Event::Next { link: index, action };
                // A full ring is not an error: the same need is told again at the next burst.
                if self.events.push(event).is_ok() {
                    self.told[index] = action;
                }
            }
        }
        received
    }

    /// Carries out what control asks for. False when the worker is to stop.
    fn obey(&mut self) -> bool {
        while let Ok(command) = self.commands.pop() {
            match command {
                Command::Stop => return false,
                Command::Reserve { link, an, through } => {
                    // An SA that is gone needs no PNs.
                    let _ = self.links[link].path_mut().secy.reserve_through(an, through);
                    self.told[link] = NextAction::GoOn;
                }
                Command::Report { link, mut snapshot } => {
                    snapshot.fill(&mut self.links[link]);
                    // If the ring is full the snapshot is lost; control asks again.
                    let _ = self.events.push(Event::Report { link, snapshot });
                }
            }
        }
        // Control is gone without a word: nobody could stop the worker any more.
        !self.commands.is_abandoned()
    }
}
