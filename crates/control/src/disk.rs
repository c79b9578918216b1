//! The disk of a gateway: a thread of its own. A disk may not answer for minutes, and control has KaYs to turn.
//!
//! ```text
//!  control ── Work ──▶ thread "fw-disk", which owns the LeaseStore ── Done ──▶ control, which is woken
//! ```
//!
//! Requests are done in order. It is bounded: a reservation for each link and one write of floors are under way at
//! most, besides what ends. Whoever cannot go on without an answer waits for [`PATIENCE`], and is refused then.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use wire::Pn;

use super::floors::Floor;
use super::{Gateway, Notice};
use pnstore::{BLOCK_PNS, LeaseError, LeaseName, LeaseStore, Reservation, UnusedPns};

/// Limit on waiting for an answer: well below the life time of an MKA participant, 6 s.
const PATIENCE: Duration = Duration::from_secs(2);
/// Limit on a start's wait for the disk.
const FIRST_PATIENCE: Duration = Duration::from_secs(60);
/// Limit on a stop's wait for the disk: nobody waits for a gateway that ends.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// Age of a request at which a disk counts as silent. A slow one takes a second.
const SILENT: Duration = Duration::from_secs(2);
/// Interval between notices of the same silence.
const REPORT_AGAIN: Duration = Duration::from_secs(60);

/// A request to the disk.
enum Work {
    /// To reserve the next block of PNs.
    Reserve { ticket: u64, name: LeaseName, last: Pn },
    /// To write floors that were read then; none: they are the last ones of SAs that are gone.
    Floors { floors: Vec<Floor>, read: Option<FloorReading> },
    /// To take back the unused PNs of an SA that is gone.
    GiveBack(UnusedPns),
    /// Something else.
    Other(Box<dyn FnOnce(&mut LeaseStore) + Send>),
}

/// A reading of floors: its moment by control's clock and by the real one, and whether every worker answered.
#[derive(Clone, Copy)]
pub(super) struct FloorReading {
    pub(super) at: Instant,
    pub(super) began: Instant,
    pub(super) complete: bool,
}

/// The outcome of a request.
enum Done {
    Reserved { ticket: u64, reservation: Result<Reservation, LeaseError> },
    Floors { read: Option<FloorReading>, took: Duration, written: Result<bool, LeaseError> },
    Other,
}

/// Control's hold on the thread.
pub(super) struct Disk {
    path: PathBuf,
    /// Dropped, it ends the thread.
    work: Sender<Work>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
    /// Moments of the requests whose answers were not taken yet, the oldest first.
    asked: VecDeque<Instant>,
    /// Number of answers that were taken.
    taken: usize,
    /// Number of answers that the thread has given. One that control has had no time to take is no silence.
    given: Arc<AtomicUsize>,
    /// Of the last reservation that was asked for.
    ticket: u64,
    /// Floors are under way.
    writes_floors: bool,
    /// Begin of the silence, and the last notice of it.
    reported: Option<(Instant, Instant)>,
}

impl Disk {
    /// `control_thread` is woken when something is done.
    pub(super) fn start(mut leases: LeaseStore, control_thread: Thread) -> io::Result<Self> {
        let path = leases.path().to_owned();
        let (work, to_do) = mpsc::channel::<Work>();
        let (says, done) = mpsc::channel();
        let given = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&given);
        let serve = move || {
            for work in to_do {
                let done = work.carry_out(&mut leases);
                counted.fetch_add(1, Ordering::Release);
                // If nobody receives it any more, the rest is done all the same: PNs that were given back, say.
                let _ = says.send(done);
                control_thread.unpark();
            }
        };
        let thread = thread::Builder::new().name("fw-disk".into()).spawn(serve)?;
        let asked = VecDeque::new();
        Ok(Self {
            path,
            work,
            done,
            thread,
            asked,
            taken: 0,
            given,
            ticket: 0,
            writes_floors: false,
            reported: None,
        })
    }

    fn send(&mut self, work: Work) {
        // A thread that has ended does not answer: it counts as a silent disk.
        let _ = self.work.send(work);
        self.asked.push_back(Instant::now());
    }

    fn next(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        self.asked.pop_front();
        self.taken = self.taken.wrapping_add(1);
        Some(done)
    }

    /// Asks for the next block of PNs. Returns the number that the answer will have.
    pub(super) fn reserve(&mut self, name: LeaseName, last: Pn) -> u64 {
        self.ticket += 1;
        self.send(Work::Reserve { ticket: self.ticket, name, last });
        self.ticket
    }

    /// Whether floors are being written.
    pub(super) const fn writes_floors(&self) -> bool {
        self.writes_floors
    }

    /// Has floors written.
    pub(super) fn keep_floors(&mut self, floors: Vec<Floor>, read: Option<FloorReading>) {
        self.writes_floors |= read.is_some();
        self.send(Work::Floors { floors, read });
    }

    /// Takes back the unused PNs of an SA that is gone.
    pub(super) fn give_back(&mut self, unused: UnusedPns) {
        self.send(Work::GiveBack(unused));
    }

    /// Duration of the silence, if the disk does not answer.
    fn silent(&self, now: Instant) -> Option<Duration> {
        let answered = self.given.load(Ordering::Acquire).wrapping_sub(self.taken);
        let for_so_long = now.saturating_duration_since(*self.asked.get(answered)?);
        Some(for_so_long).filter(|long| *long >= SILENT)
    }

    /// Has something done behind all that is under way, and waits for it.
    fn ask<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LeaseStore) -> T + Send + 'static,
        patience: Duration,
    ) -> Result<T, LeaseError> {
        if let Some(silent) = self.silent(Instant::now()) {
            return Err(LeaseError::Silent { path: self.path.clone(), silent });
        }
        let (reply, answer) = mpsc::channel();
        self.send(Work::Other(Box::new(move |leases| drop(reply.send(work(leases))))));
        answer
            .recv_timeout(patience)
            .map_err(|_| LeaseError::Silent { path: self.path.clone(), silent: patience })
    }

    /// Ends the thread, if it is not caught in a call.
    fn end(mut self) {
        while self.next().is_some() {}
        let Self { work, thread, asked, .. } = self;
        drop(work);
        if asked.is_empty() {
            // It has nothing to do any more.
            let _ = thread.join();
        }
    }

    /// A notice about its silence, if there is one to give.
    fn silence_notice(&mut self, now: Instant) -> Option<Notice> {
        let path = self.path.clone();
        match (self.silent(now), self.reported) {
            (Some(silent), None) => {
                self.reported = Some((now - silent, now));
                Some(Notice::DiskSilent { path, silent })
            }
            (Some(silent), Some((_, reported)))
                if now.saturating_duration_since(reported) >= REPORT_AGAIN =>
            {
                self.reported = Some((now - silent, now));
                Some(Notice::DiskSilent { path, silent })
            }
            (None, Some((since, _))) => {
                self.reported = None;
                Some(Notice::DiskAnswers { path, silent: now.saturating_duration_since(since) })
            }
            (Some(_), Some(_)) | (None, None) => None,
        }
    }
}

impl Work {
    fn carry_out(self, leases: &mut LeaseStore) -> Done {
        match self {
            Self::Reserve { ticket, name, last } => {
                Done::Reserved { ticket, reservation: leases.reserve(name, last, BLOCK_PNS) }
            }
            Self::Floors { floors, read } => {
                let written = leases.keep_floors(&floors);
                let took = read.map_or(Duration::ZERO, |read| read.began.elapsed());
                Done::Floors { read, took, written }
            }
            Self::GiveBack(unused) => {
                // A failed write is lost, as after a crash; other notices say that nothing can be written.
                let _ = leases.give_back(&[unused]);
                Done::Other
            }
            Self::Other(work) => {
                work(leases);
                Done::Other
            }
        }
    }
}

impl Gateway {
    /// Has the disk's thread work on leases and floors, and waits for it, for two seconds at most.
    ///
    /// # Errors
    /// [`LeaseError::Silent`]: the disk does not answer. It may be done later all the same.
    pub fn on_disk<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LeaseStore) -> T + Send + 'static,
    ) -> Result<T, LeaseError> {
        self.disk.ask(work, PATIENCE)
    }

    /// The same for a gateway whose links are not there yet, so that nobody else waits: for a minute at most.
    ///
    /// # Errors
    /// As [`Gateway::on_disk`].
    pub fn on_disk_at_start<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LeaseStore) -> T + Send + 'static,
    ) -> Result<T, LeaseError> {
        self.disk.ask(work, FIRST_PATIENCE)
    }

    /// Whether the state directory can be written: to be asked before something is written there by the thread that turns
    /// KaYs. It takes as long as the disk does, two seconds at most.
    ///
    /// # Errors
    /// [`LeaseError::Silent`], or why it cannot be written.
    pub fn probe_disk(&mut self) -> Result<(), LeaseError> {
        self.on_disk(LeaseStore::probe).and_then(|written| written)
    }

    /// Duration of the silence of the state directory's disk, if it does not answer.
    pub fn disk_silent(&self) -> Option<Duration> {
        self.disk.silent(Instant::now())
    }

    /// Handles the answers of the disk.
    pub(super) fn handle_disk_replies(&mut self, now: Instant) {
        while let Some(done) = self.disk.next() {
            match done {
                Done::Reserved { ticket, reservation } => self.reserved(ticket, reservation, now),
                Done::Floors { read: Some(read), took, written } => {
                    self.disk.writes_floors = false;
                    self.notices.extend(self.floor_keeper.write_notice(read, took, written));
                }
                Done::Floors { read: None, written, .. } => {
                    self.notices.extend(written.err().map(|error| Notice::FloorsFailed { error }));
                }
                Done::Other => {}
            }
        }
        self.notices.extend(self.disk.silence_notice(now));
    }

    /// Waits until all requests are done.
    pub(super) fn drain_disk(&mut self) {
        if self.disk.ask(|_| (), LAST_PATIENCE).is_ok() {
            self.handle_disk_replies(Instant::now());
        }
    }

    /// Brings the last floors to disk and gives back unused PNs.
    pub(super) fn close_disk(mut self, floors: Vec<Floor>, unused: Vec<UnusedPns>) -> Result<(), LeaseError> {
        let last = move |leases: &mut LeaseStore| {
            let kept = leases.keep_floors(&floors).map(drop);
            kept.and(leases.give_back(&unused))
        };
        let done = self.disk.ask(last, LAST_PATIENCE).and_then(|done| done);
        self.disk.end();
        done
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use dataplane::worker::Polling;
    use netdev::scheduling::Scheduling;

    /// Whoever asks again and again, as a reload does, takes no answers meanwhile.
    #[test]
    fn an_answer_that_was_not_taken_is_no_silence() {
        let path = std::env::temp_dir().join(format!("frameward-disk-taken-{}", std::process::id()));
        let leases = LeaseStore::open(&path, None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        gateway.probe_disk().unwrap();
        thread::sleep(SILENT + Duration::from_millis(100));
        assert_eq!(gateway.disk_silent(), None);
        gateway.on_disk(|_| ()).unwrap();
        gateway.turn(Instant::now());
        gateway.probe_disk().unwrap();
        gateway.stop().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }

    /// A disk that is held up: control turns, whoever needs an answer is refused, it is said, and later all is done.
    #[test]
    fn control_never_waits_for_a_disk() {
        let path = std::env::temp_dir().join(format!("frameward-disk-{}", std::process::id()));
        let leases = LeaseStore::open(&path, None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        assert!(gateway.on_disk(|_| 7).is_ok_and(|answer| answer == 7));
        gateway.probe_disk().unwrap();
        let (go, held) = channel::<()>();
        gateway.disk.send(Work::Other(Box::new(move |_| {
            let _ = held.recv();
        })));
        gateway.disk.keep_floors(Vec::new(), None);
        assert!(gateway.disk_silent().is_none(), "nobody knows yet");
        // Waits for what it may, and not again.
        assert!(matches!(gateway.on_disk(|_| ()), Err(LeaseError::Silent { .. })));
        let before = Instant::now();
        for _ in 0..100 {
            assert!(matches!(gateway.probe_disk(), Err(LeaseError::Silent { .. })));
        }
        assert!(before.elapsed() < PATIENCE && gateway.disk_silent().is_some());
        let mut notices = Vec::new();
        let now = Instant::now();
        for seconds in 0..130 {
            notices.extend(gateway.turn(now + Duration::from_secs(seconds)));
        }
        let silent = notices.iter().filter(|notice| matches!(notice, Notice::DiskSilent { .. })).count();
        assert_eq!((silent, notices.len()), (3, 3), "at once and every minute: {notices:?}");
        drop(go);
        while gateway.disk_silent().is_some() {
            notices.extend(gateway.turn(Instant::now()));
        }
        notices.extend(gateway.turn(Instant::now()));
        assert!(notices.iter().any(|notice| matches!(notice, Notice::DiskAnswers { .. })), "{notices:?}");
        gateway.probe_disk().unwrap();
        gateway.stop().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }
}
