//! A link: two ports, the memory that their frames share, and the pipeline between them.
//!
//! The pipeline lives as long as the link does; the ports come and go with their interfaces. A link without ports forwards
//! nothing, and its SAs keep their PNs and replay windows.

use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::time;

use secy::passed_on::{PassedOnError, Words};
use secy::{CarryOver, NextAction};
use wire::{An, Instant, Pn};

use crate::checksums::ChecksumSample;
use crate::pipeline::{Pipeline, ToPlain, ToProtected, give_refused};
use netdev::burst::Burst;
use netdev::passed_on::PassedPorts;
use netdev::pool::Pool;
use netdev::port::{KernelSide, Port, PortCounters};
use netdev::queue_port::QueuePort;

/// The two ports of a link, open over one pool.
pub struct Ports {
    /// The frames' memory.
    pub pool: Pool,
    /// Towards the machine.
    pub plain: Box<dyn Port>,
    /// Towards the insecure network.
    pub protected: Box<dyn Port>,
}

/// A transparent bump in the wire.
pub struct Link {
    ports: Option<Box<Ports>>,
    pipeline: Pipeline,
    /// SDUs from the plain side: those just received, and those that are held.
    waiting: Burst,
    burst: Burst,
    to_protected: ToProtected,
    to_plain: ToPlain,
    /// Counters of ports that are closed: plain, protected.
    before: [PortCounters; 2],
    /// The need of the transmit SA that control was told last.
    notified: NextAction,
    /// The machine's checksums, now and then.
    checksums: ChecksumSample,
    /// Frames wait in its ports.
    held: Hold,
    /// The last turn took all that had come to the protected side.
    emptied: bool,
}

/// Limit on the time for which frames wait in a link's ports. Whoever has them wait needs some milliseconds.
const HELD: time::Duration = time::Duration::from_secs(3);

/// Whether frames wait in a link's ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hold {
    No,
    /// From the next turn on.
    Begins,
    Since(Instant),
}

impl Link {
    /// A link between two ports that were opened over `pool`.
    pub fn new(pool: Pool, plain: Box<dyn Port>, protected: Box<dyn Port>, pipeline: Pipeline) -> Self {
        let mut link = Self::closed(pipeline);
        link.open(Box::new(Ports { pool, plain, protected }));
        link
    }

    /// A link without ports.
    pub fn closed(pipeline: Pipeline) -> Self {
        Self {
            ports: None,
            pipeline,
            waiting: Burst::new(),
            burst: Burst::new(),
            to_protected: ToProtected::default(),
            to_plain: ToPlain::default(),
            before: [PortCounters::default(); 2],
            notified: NextAction::Continue,
            checksums: ChecksumSample::default(),
            held: Hold::No,
            emptied: true,
        }
    }

    /// Ports, and all that it has counted and received, for the next program of this process; it is in no worker. None: it cannot go
    /// on there, since a port cannot, or SDUs wait in it. MKPDUs that wait go out before.
    pub fn pass_on(&mut self) -> Option<(PassedPorts, Vec<u64>)> {
        let Ports { pool, plain, protected } = self.ports.as_deref_mut()?;
        self.pipeline.send_all_mkpdus(pool, &mut self.to_protected, &mut **protected);
        let ports = PassedPorts { pool: pool.pass_on()?, ports: [plain.pass_on()?, protected.pass_on()?] };
        self.is_empty().then(|| (ports, self.words()))
    }

    /// The same of a link inside of a site: its ports end with this program, and others are opened in the next one. MKPDUs that wait are lost.
    pub fn pass_on_without_ports(&mut self) -> Option<Vec<u64>> {
        let mut counted = self.before;
        let Ports { plain, protected, .. } = self.ports.as_deref_mut()?;
        counted[0].add(&plain.counters());
        counted[1].add(&protected.counters());
        self.is_empty().then(|| self.words_with(&counted))
    }

    /// Whether no SDU waits in it.
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.pipeline.waits_before_cover()
    }

    /// All that it has counted and received, for [`Link::go_on`].
    pub fn words(&self) -> Vec<u64> {
        self.words_with(&self.before)
    }

    fn words_with(&self, counted: &[PortCounters; 2]) -> Vec<u64> {
        let mut words = Vec::new();
        words.extend(counted.iter().flat_map(PortCounters::values));
        self.pipeline.pass_on(&mut words);
        words
    }

    /// Goes on where a link of the same configuration was; it has no ports yet.
    ///
    /// # Errors
    /// [`PassedOnError`]; it is unfit for use then.
    pub fn go_on(&mut self, words: &[u64]) -> Result<(), PassedOnError> {
        let mut words = Words::new(words);
        self.before = [PortCounters::from_values(words.take()?), PortCounters::from_values(words.take()?)];
        self.pipeline.go_on(&mut words)?;
        words.end()
    }

    /// Leaves frames waiting in its ports until it is told otherwise, as far as those have room: its SAs are on their way. Ends by
    /// itself after [`HELD`].
    pub const fn hold(&mut self, held: bool) {
        self.held = if held { Hold::Begins } else { Hold::No };
    }

    /// Whether frames wait in its ports at this moment.
    fn is_held(&mut self, now: Instant) -> bool {
        self.held = match self.held {
            Hold::Begins => Hold::Since(now),
            Hold::Since(since) if now.since(since) >= HELD => Hold::No,
            unchanged => unchanged,
        };
        self.held != Hold::No
    }

    /// Gives the link ports; those before, if there were any, are returned.
    pub fn open(&mut self, ports: Box<Ports>) -> Option<Box<Ports>> {
        let before = self.close();
        self.ports = Some(ports);
        before
    }

    /// Takes the ports away. SDUs that were held go with them, counted as not sent: their memory is the ports'.
    pub fn close(&mut self) -> Option<Box<Ports>> {
        let mut ports = self.ports.take()?;
        let Ports { pool, plain, protected } = &mut *ports;
        let held = self.waiting.len() as u64;
        let covered = self.pipeline.discard_held();
        self.waiting.give_all(pool);
        let [before_plain, before_protected] = &mut self.before;
        before_plain.add(&plain.counters());
        before_protected.add(&protected.counters());
        before_protected.tx_dropped += held + covered;
        Some(ports)
    }

    /// Exchanges `pipeline` for the link's own. The new one takes over from the old one, which is in `pipeline` afterwards.
    pub fn change(&mut self, pipeline: &mut Pipeline, carry_over: &CarryOver) {
        pipeline.take_over(&mut self.pipeline, carry_over);
        mem::swap(&mut self.pipeline, pipeline);
        self.reset_notified_need();
    }

    /// Allows the transmit SA of this AN the PNs up to and with `through`. An SA that is gone needs none.
    pub fn reserve_through(&mut self, an: An, through: Pn) {
        let _ = self.pipeline.secy.reserve_through(an, through);
        self.reset_notified_need();
    }

    /// Has control told again what the transmit SA needs: it is another one, or its need was met.
    pub const fn reset_notified_need(&mut self) {
        self.notified = NextAction::Continue;
    }

    /// Whether control has not been told this need. Without frames from the plain side the SA's need is what it was.
    pub(crate) fn is_new_need(&self, action: NextAction) -> bool {
        action != self.notified && action != NextAction::Continue
    }

    /// Control has been told this need.
    pub(crate) const fn mark_need_notified(&mut self, action: NextAction) {
        self.notified = action;
    }

    /// One turn: MKPDUs and HELLOs out, and at most one burst from either side through the pipeline. `now` is protocol time, and `read`
    /// the OS instant it was taken from. Returns the number of frames that came in, and the need of the transmit SA.
    pub fn turn(&mut self, now: Instant, read: time::Instant) -> (usize, NextAction) {
        if self.is_held(now) {
            return (0, NextAction::Continue);
        }
        let (mut received, next) = self.outward(now, read, |_, _| {});
        let Self { ports, pipeline, burst, to_protected, to_plain, emptied, .. } = self;
        let Some(ports) = ports else { return (0, NextAction::Continue) };
        let Ports { pool, plain, protected } = &mut **ports;
        protected.receive(pool, burst);
        received += burst.len();
        *emptied = !burst.is_full();
        if !burst.is_empty() {
            pipeline.inward(now, pool, burst, to_plain, &mut **plain);
        }
        pipeline.send_hellos(now, pool, to_protected, &mut **protected);
        plain.housekeep(pool);
        protected.housekeep(pool);
        (received, next)
    }

    /// Sends the frames of the ticks that are due, with cover. A turn begins with it, before anything that came is taken; a worker with
    /// several links has all send theirs before the first turn. Returns the need of the transmit SA.
    pub fn send_ticks(&mut self, now: Instant) -> NextAction {
        if self.next_tick().is_none_or(|tick| now < tick) {
            return NextAction::Continue;
        }
        let Self { ports, pipeline, to_protected, .. } = self;
        let Some(Ports { pool, protected, .. }) = ports.as_deref_mut() else { return NextAction::Continue };
        pipeline.send_ticks(now, pool, to_protected, &mut **protected)
    }

    /// MKPDUs, and at most one burst of the plain side, to the protected port. `look` sees the frames that came, which stand behind
    /// those that are held, and may take some out. Returns the number of frames that came in, and the need of the transmit SA.
    #[inline]
    fn outward(
        &mut self,
        now: Instant,
        read: time::Instant,
        look: impl FnOnce(&mut Burst, &mut Pool),
    ) -> (usize, NextAction) {
        let mut next = self.send_ticks(now);
        let Self { ports, pipeline, waiting, to_protected, checksums, .. } = self;
        let Some(ports) = ports else {
            pipeline.drain_mkpdus();
            pipeline.drain_hellos();
            return (0, NextAction::Continue);
        };
        let Ports { pool, plain, protected } = &mut **ports;
        pipeline.send_mkpdus(pool, to_protected, &mut **protected);
        pipeline.refill(pool, waiting);
        let held = waiting.len();
        pipeline.mark_poll_time(read);
        plain.receive(pool, waiting);
        let received = waiting.len() - held;
        if checksums.is_open() {
            waiting.slots()[held..].iter().for_each(|slot| checksums.look(pool.frame(slot)));
        }
        look(waiting, pool);
        if !waiting.is_empty() {
            next = next.max(pipeline.outward(now, pool, waiting, to_protected, &mut **protected));
        }
        (received, next)
    }

    /// The first half of a turn of a link inside of a site ([`crate::site`]): what [`Link::protected_frames`] gives afterwards. Frames
    /// of the plain side that are `aside` by themselves, such as those of stations with a SecY of their own, are moved there, as far as
    /// there is room, and pass no SecY. `mark` makes of each other frame the mark of its chunk ([`Pool::set_mark`]), which it keeps behind
    /// the SecY. Such a link holds no frame back.
    pub(crate) fn turn_outward(
        &mut self,
        now: Instant,
        read: time::Instant,
        is_aside: impl Fn(&[u8]) -> bool,
        mark: Option<impl Fn(&[u8]) -> u8>,
        aside: &mut Burst,
    ) -> (usize, NextAction) {
        self.outward(now, read, |frames, pool| {
            if let Some(mark) = mark {
                for slot in frames.slots() {
                    let mark = mark(pool.frame(slot));
                    pool.set_mark(slot, mark);
                }
            }
            if !frames.slots().iter().any(|slot| is_aside(pool.frame(slot))) {
                return;
            }
            let mut others = Burst::new();
            for slot in frames.drain() {
                let to = if is_aside(pool.frame(&slot)) { &mut *aside } else { &mut others };
                give_refused(to.push(slot), pool);
            }
            std::mem::swap(frames, &mut others);
        })
    }

    /// Frames that were protected, and MKPDUs: at most a burst of those that wait. The pool of theirs, if there are ports.
    pub(crate) fn protected_frames(&mut self, into: &mut Burst) -> Option<&mut Pool> {
        let Ports { pool, protected, .. } = self.ports.as_deref_mut()?;
        protected.receive(pool, into);
        Some(pool)
    }

    /// Has the SecY protect frames of this box: they are among [`Link::protected_frames`] then.
    pub(crate) fn protect(&mut self, now: Instant, frames: &mut Burst) {
        let Self { ports, pipeline, to_protected, .. } = self;
        let Some(Ports { pool, protected, .. }) = ports.as_deref_mut() else { return };
        // What the SA needs it says again with the next frame of the LAN.
        let _ = pipeline.outward(now, pool, frames, to_protected, &mut **protected);
    }

    /// The second half: frames out of the tunnel, to the KaY or verified to the plain side, or to `instead`. Leaves `frames` empty.
    pub(crate) fn turn_inward(&mut self, now: Instant, frames: &mut Burst, instead: Option<&mut QueuePort>) {
        let Self { ports, pipeline, to_plain, before: [_, tunnel], .. } = self;
        let Some(Ports { pool, plain, .. }) = ports.as_deref_mut() else { return };
        tunnel.rx_frames += frames.len() as u64;
        tunnel.rx_octets += frames.slots().iter().map(|slot| slot.len() as u64).sum::<u64>();
        match instead {
            None => pipeline.inward(now, pool, frames, to_plain, &mut **plain),
            Some(instead) => pipeline.inward(now, pool, frames, to_plain, instead),
        }
    }

    /// Pool and plain port, for frames that pass no SecY, and the pipeline, to tell them from others.
    pub(crate) fn plain_side(&mut self) -> Option<(&mut Pool, &mut dyn Port, &mut Pipeline)> {
        let Ports { pool, plain, .. } = self.ports.as_deref_mut()?;
        Some((pool, &mut **plain, &mut self.pipeline))
    }

    /// Whether no frame of the plain side waits to be sent, at this moment. Those that do are sent in the next turn.
    pub fn is_plain_side_empty(&mut self) -> bool {
        if let Some(Ports { pool, plain, .. }) = self.ports.as_deref_mut() {
            plain.receive(pool, &mut self.waiting);
        }
        self.waiting.is_empty()
    }

    /// Whether the last turn took all frames that had come to the protected side.
    pub const fn has_emptied_protected_side(&self) -> bool {
        self.emptied
    }

    /// In idle time: makes one keystream for a frame to come ([`secy::SecY::antedate`]). False if there is none to make. With cover there
    /// never is: idle time must not show in the moment at which a frame leaves.
    pub fn antedate(&mut self) -> bool {
        self.pipeline.next_tick().is_none() && self.pipeline.secy.antedate()
    }

    /// Moment at which the next turn is due even if no frame comes.
    pub fn due(&self) -> Option<Instant> {
        let held_until = self.pipeline.held_until().filter(|_| self.leaves());
        [held_until, self.pipeline.cell_due()].into_iter().flatten().min()
    }

    /// Moment of the next tick, if frames leave at a constant rate ([`crate::cover`]).
    pub fn next_tick(&self) -> Option<Instant> {
        self.pipeline.next_tick().filter(|_| self.leaves())
    }

    /// Whether anything leaves: nothing does without ports, or while frames wait in them.
    fn leaves(&self) -> bool {
        self.ports.is_some() && self.held == Hold::No
    }

    /// The pipeline, for management between turns.
    pub const fn pipeline_mut(&mut self) -> &mut Pipeline {
        &mut self.pipeline
    }

    /// The pipeline.
    pub const fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Descriptors to poll for readability when there is nothing to do.
    pub fn poll_descriptors(&self) -> impl Iterator<Item = RawFd> {
        let sides = self.ports.iter().flat_map(|ports| [&ports.plain, &ports.protected]);
        sides.flat_map(|port| port.poll_descriptors().iter().copied())
    }

    /// Plain and protected side, as a program needs them that is to take frames before the ports do. Allocates; not for
    /// the frame path.
    ///
    /// # Errors
    /// If there are no ports, or frames do not come there by a program.
    pub fn kernel_sides(&self) -> io::Result<[KernelSide; 2]> {
        let ports = self.ports.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok([ports.plain.kernel_side()?, ports.protected.kernel_side()?])
    }

    /// Counters of plain and protected port, those before these included. Asks the kernel.
    /// A sample of the machine's frames is looked at before the next call.
    pub fn port_counters(&mut self) -> [PortCounters; 2] {
        let mut sums = self.before;
        if let Some(Ports { plain, protected, .. }) = self.ports.as_deref_mut() {
            sums[0].add(&plain.counters());
            sums[1].add(&protected.counters());
        }
        sums[0].rx_checksums_sampled += self.checksums.sampled;
        sums[0].rx_checksums_unfilled += self.checksums.unfilled;
        self.checksums.reopen();
        sums
    }

    /// The frames' memory, if it has ports.
    pub fn pool(&self) -> Option<&Pool> {
        self.ports.as_deref().map(|ports| &ports.pool)
    }
}
