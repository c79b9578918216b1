//! A worker whose links send at ticks, step by step: what it does when does not depend on what came.

use std::cell::Cell;
use std::num::NonZeroU16;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use netdev::burst::Burst;
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use netdev::port::{Port, PortCounters};
use secy::{
    ClearVlan, ConfidentialityOffset, ExpressClasses, FrameSizes, Protection, SciInclusion, SecY, Settings,
    TransmitSa, ValidateFrames,
};
use wire::{An, MacAddr, Pn, Sci};

use super::*;
use crate::fragmenter::FragmentConfig;
use crate::pipeline::Pipeline;

/// Frames that leave, and frames that are taken, in the order of all ports.
type Log = Arc<Mutex<Vec<&'static str>>>;

/// A port in memory that notes when frames pass it.
struct Noted {
    port: MemoryPort,
    log: Log,
}

impl Noted {
    fn note(&self, what: &'static str) {
        self.log.lock().expect("no thread but this one").push(what);
    }
}

impl Port for Noted {
    fn receive(&mut self, pool: &mut Pool, burst: &mut Burst) {
        let held = burst.len();
        self.port.receive(pool, burst);
        if burst.len() > held {
            self.note("taken");
        }
    }

    fn transmit(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        self.note("left");
        self.port.transmit(pool, burst)
    }

    fn housekeep(&mut self, pool: &mut Pool) {
        self.port.housekeep(pool);
    }

    fn poll_descriptors(&self) -> &[RawFd] {
        self.port.poll_descriptors()
    }

    fn counters(&mut self) -> PortCounters {
        self.port.counters()
    }

    fn description(&self) -> &str {
        self.port.description()
    }
}

/// Ticks a second.
const RATE: u16 = 100;
const GAP: Duration = Duration::from_millis(10);

fn pipeline(padding: FrameSizes) -> Pipeline {
    let settings = Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        reassemble: true,
        mtu: 1500,
    };
    let mut secy = SecY::new(Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1), settings);
    let suite = CipherSuite::GcmAes128;
    let key = Key::prepare(suite, &Sak::new(suite, &[7; 16]).expect("16 octets")).expect("a key");
    let protection = Protection::Encrypt(ConfidentialityOffset::Zero);
    let sa = TransmitSa::new(An::ALL[0], key, None, protection, Pn::FIRST, Pn::LAST_64).expect("an SA");
    secy.install_transmit(Box::new(sa)).expect("a free AN");
    secy.enable_transmit(An::ALL[0]).expect("it is there");
    let fragmentation = FragmentConfig {
        fragment: true,
        concatenate: true,
        padding,
        hold: Duration::ZERO,
        express: ExpressClasses::NONE,
    };
    Pipeline::new(secy, &[], Some(fragmentation))
}

/// A worker with so many links, which have cover or not.
struct World {
    worker: Worker,
    machines: Vec<MemoryPort>,
    log: Log,
    start: time::Instant,
    // Both ends of its mailbox and of the networks are there as long as it is.
    _others: (Mailbox<Box<dyn Job>, WorkerEvent>, Waker, Vec<MemoryPort>),
}

impl World {
    fn new(polling: Polling, links: usize, covered: bool) -> Self {
        let (mailbox, workers_mailbox) = mailbox::pair(8, 8);
        let (waker, waiter) = wake::pair().expect("a socket pair");
        let log = Log::default();
        let (mut machines, mut networks) = (vec![], vec![]);
        let mut datapaths = Datapaths::default();
        let cover = FrameSizes::cover(512, NonZeroU16::new(RATE).expect("not 0")).expect("a size");
        for slot in 0..links {
            let ((machine, plain), (network, protected)) = (MemoryPort::pair(128), MemoryPort::pair(128));
            let noted = |port| Box::new(Noted { port, log: log.clone() });
            let pool = Pool::new(ChunkOctets::Octets2048, 256).expect("memory");
            let pipeline = pipeline(if covered { cover } else { FrameSizes::NONE });
            let link = Link::new(pool, noted(plain), noted(protected), pipeline);
            datapaths.insert(slot, Datapath::Link(Box::new(link)));
            machines.push(machine);
            networks.push(network);
        }
        let start = time::Instant::now();
        let worker = Worker {
            datapaths,
            mailbox: workers_mailbox,
            unfinished: None,
            waiter,
            idle: IdlePolicy::new(polling, Scheduling::Ordinary),
            real_time: RealTimeBudget::new(Scheduling::Ordinary, start),
            control_thread: thread::current(),
            antedated: 0,
        };
        Self { worker, machines, log, start, _others: (mailbox, waker, networks) }
    }

    /// Each machine sends so many frames.
    fn send(&mut self, frames: usize) {
        for machine in &mut self.machines {
            (0..frames).for_each(|_| assert!(machine.inject(&[0x55; 300])));
        }
    }

    /// A step at this moment: what is next, and how long it would sleep.
    fn step(&mut self, at: Duration) -> (Option<IdleAction>, Duration) {
        let now = Instant::after_start(at);
        let next = self.worker.step(now, self.start + at);
        (next, self.worker.sleep(now))
    }

    fn noted(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.log.lock().expect("no thread but this one"))
    }
}

#[test]
fn ticks_of_all_links_leave_before_a_frame_is_taken() {
    let mut world = World::new(Polling::Adaptive, 3, true);
    for tick in 0..5 {
        world.send(20);
        world.step(GAP * tick);
        assert_eq!(world.noted(), [["left"; 3], ["taken"; 3]].concat(), "tick {tick}");
        world.send(20);
        world.step(GAP * tick + GAP / 2);
        assert_eq!(world.noted(), ["taken"; 3], "what comes between two ticks leaves with the next");
    }
}

/// Who has met frames looks for more, but not if frames leave at ticks: it would be awake at the tick, and who met none would not.
#[test]
fn the_way_to_wait_for_a_tick_does_not_depend_on_what_came() {
    const LATER: Duration = Duration::from_micros(400);
    for (polling, action) in [
        (Polling::Adaptive, IdleAction::Sleep),
        (Polling::Interrupt, IdleAction::Sleep),
        (Polling::Busy, IdleAction::Look),
    ] {
        for came in [0, 1, 64] {
            let mut world = World::new(polling, 2, true);
            world.step(Duration::ZERO);
            world.send(came);
            let (next, _) = world.step(LATER - Duration::from_micros(1));
            assert_eq!(next.is_none(), came > 0, "frames are met");
            let slept = (Some(action), GAP - LATER - TICK_LEAD);
            assert_eq!(world.step(LATER), slept, "{polling:?}, {came}");
            let near = GAP - TICK_LEAD;
            assert_eq!(world.step(near), (Some(action), Duration::ZERO), "{polling:?}, {came}");
        }
    }
    let mut without = World::new(Polling::Adaptive, 2, false);
    without.send(1);
    without.step(Duration::ZERO);
    assert_eq!(without.step(LATER).0, Some(IdleAction::Yield), "a link without cover loses nothing");
}

#[test]
fn nothing_is_done_near_a_tick_but_to_watch_the_clock() {
    const LOOK: Duration = Duration::from_micros(7);
    let tick = Instant::START + GAP;
    // The moment of the turn, if each look at the clock takes so long.
    let turn = |before: Duration, tick| {
        let now = Cell::new(Instant::after_start(GAP - before));
        await_tick(tick, || (now.replace(now.get() + LOOK), time::Instant::now())).0
    };
    for before in [TICK_LEAD, LOOK, Duration::from_micros(1), Duration::ZERO] {
        assert!((tick..tick + LOOK).contains(&turn(before, Some(tick))), "{before:?}");
    }
    let far = TICK_LEAD + Duration::from_micros(1);
    assert_eq!(turn(far, Some(tick)), Instant::after_start(GAP - far), "there is time for a turn");
    assert_eq!(turn(LOOK, None), Instant::after_start(GAP - LOOK), "no link has cover");
    let late = Some(Instant::START);
    assert_eq!(turn(LOOK, late), Instant::after_start(GAP - LOOK), "nobody waits for what is over");
}
