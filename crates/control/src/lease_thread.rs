//! The thread that owns a gateway's leases and floors, which are on disk. A disk may not answer for minutes, and control has KaYs to turn.
//!
//! ```text
//!  control ── Work ──▶ thread "fw-disk", which owns the LeaseStore ── Answer ──▶ control, which is woken
//! ```
//!
//! Requests are done in order. It is bounded: a reservation for each link, one write of floors, one probe and one reload's question are
//! under way at most, besides what ends. Whoever can wait without standing still asks ([`LeaseThread::begin`], [`DiskProbe`]); who cannot
//! has asked before whether the disk answers, waits for [`PATIENCE`], and is refused then.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use wire::Pn;

use crate::Notice;
use crate::floors::Floor;
use pnstore::{LeaseError, LeaseName, LeaseStore, Reservation, UnusedPns};

/// Limit on waiting for an answer: well below the life time of an MKA participant, 6 s.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Limit on a start's wait for the disk.
pub(crate) const FIRST_PATIENCE: Duration = Duration::from_secs(60);
/// Limit on a stop's wait for the disk: nobody waits for a gateway that ends.
pub(crate) const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// Age of a request at which a disk counts as silent. A slow one takes a second.
pub(crate) const SILENT: Duration = Duration::from_secs(2);
/// Interval between notices of the same silence.
const REPORT_AGAIN: Duration = Duration::from_secs(60);

/// A request to the disk.
enum Work {
    /// To reserve the next block of PNs.
    Reserve { ticket: u64, name: LeaseName, last: Pn, pns: NonZeroU64 },
    /// To write floors that were read then; none: they are the last ones of SAs that are gone.
    Floors { floors: Vec<Floor>, read: Option<FloorReading> },
    /// To take back the unused PNs of an SA that is gone.
    GiveBack(UnusedPns),
    /// Something else.
    Other(Box<dyn FnOnce(&mut LeaseStore) + Send>),
}

/// A reading of floors: its moment by control's clock and by the real one, and whether every worker answered.
#[derive(Clone, Copy)]
pub(crate) struct FloorReading {
    pub(crate) at: Instant,
    pub(crate) began: Instant,
    pub(crate) complete: bool,
}

/// The outcome of a request.
pub(crate) enum Answer {
    Reserved { ticket: u64, reservation: Result<Reservation, LeaseError> },
    Floors { read: Option<FloorReading>, took: Duration, written: Result<bool, LeaseError> },
    Other,
}

/// State of the disk, as far as a write that means nothing has shown it.
#[derive(Default)]
pub(crate) enum DiskProbe {
    #[default]
    Unknown,
    UnderWay(Receiver<Result<(), LeaseError>>),
    /// It could be written at this moment, or not.
    Answered(Instant, Result<(), LeaseError>),
}

/// Control's hold on the thread.
pub(crate) struct LeaseThread {
    path: PathBuf,
    /// Dropped, it ends the thread.
    work: Sender<Work>,
    answers: Receiver<Answer>,
    thread: JoinHandle<()>,
    /// Moments of the requests whose answers were not taken yet, the oldest in front.
    asked: VecDeque<Instant>,
    /// Number of answers that were taken.
    taken: usize,
    /// Number of answers that the thread has given. One that control has had no time to take is no silence.
    given: Arc<AtomicUsize>,
    /// Number of the last reservation that was asked for.
    ticket: u64,
    /// Floors are under way.
    writes_floors: bool,
    /// Begin of the silence, and the last notice of it.
    reported: Option<(Instant, Instant)>,
}

impl LeaseThread {
    /// `control_thread` is woken when something is done.
    pub(crate) fn start(mut leases: LeaseStore, control_thread: Thread) -> io::Result<Self> {
        let path = leases.path().to_owned();
        let (work, to_do) = mpsc::channel::<Work>();
        let (says, answers) = mpsc::channel();
        let given = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&given);
        let serve = move || {
            for work in to_do {
                let answer = work.carry_out(&mut leases);
                counted.fetch_add(1, Ordering::Release);
                // If nobody receives it any more, the rest is done all the same: PNs that were given back, say.
                let _ = says.send(answer);
                control_thread.unpark();
            }
        };
        let thread = thread::Builder::new().name("fw-disk".into()).spawn(serve)?;
        let asked = VecDeque::new();
        Ok(Self {
            path,
            work,
            answers,
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

    /// Takes the next answer.
    pub(crate) fn next_answer(&mut self) -> Option<Answer> {
        let answer = self.answers.try_recv().ok()?;
        self.asked.pop_front();
        self.taken = self.taken.wrapping_add(1);
        self.writes_floors &= !matches!(answer, Answer::Floors { read: Some(_), .. });
        Some(answer)
    }

    /// Asks for the next block of so many PNs. Returns the number that the answer will have.
    pub(crate) fn reserve(&mut self, name: LeaseName, last: Pn, pns: NonZeroU64) -> u64 {
        self.ticket += 1;
        self.send(Work::Reserve { ticket: self.ticket, name, last, pns });
        self.ticket
    }

    /// Whether floors are being written.
    pub(crate) const fn writes_floors(&self) -> bool {
        self.writes_floors
    }

    /// Has floors written.
    pub(crate) fn keep_floors(&mut self, floors: Vec<Floor>, read: Option<FloorReading>) {
        self.writes_floors |= read.is_some();
        self.send(Work::Floors { floors, read });
    }

    /// Takes back the unused PNs of an SA that is gone.
    pub(crate) fn give_back(&mut self, unused: UnusedPns) {
        self.send(Work::GiveBack(unused));
    }

    /// Duration of the silence, if the disk does not answer.
    pub(crate) fn silent(&self, now: Instant) -> Option<Duration> {
        let answered = self.given.load(Ordering::Acquire).wrapping_sub(self.taken);
        let for_so_long = now.saturating_duration_since(*self.asked.get(answered)?);
        Some(for_so_long).filter(|long| *long >= SILENT)
    }

    /// Has something done behind all that is under way, and waits for it.
    pub(crate) fn ask<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LeaseStore) -> T + Send + 'static,
        patience: Duration,
    ) -> Result<T, LeaseError> {
        if self.silent(Instant::now()).is_some() {
            return Err(self.silence(SILENT));
        }
        self.begin(work).recv_timeout(patience).map_err(|_| self.silence(patience))
    }

    /// The same for what has to be undone if the one who asked has given up meanwhile: at once, before anything else is done. What was
    /// given up before it began is not begun.
    pub(crate) fn ask_or_undo<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LeaseStore) -> T + Send + 'static,
        undo: impl FnOnce(&mut LeaseStore, T) + Send + 'static,
        patience: Duration,
    ) -> Result<T, LeaseError> {
        if self.silent(Instant::now()).is_some() {
            return Err(self.silence(SILENT));
        }
        let (reply, answer) = mpsc::channel();
        // Set by the first: the one who gives up, or the answer.
        let decided = Arc::new(AtomicBool::new(false));
        let is_decided = Arc::clone(&decided);
        self.send(Work::Other(Box::new(move |leases| {
            if is_decided.load(Ordering::Acquire) {
                return;
            }
            let done = work(leases);
            if is_decided.swap(true, Ordering::AcqRel) {
                undo(leases, done);
            } else {
                let _ = reply.send(done);
            }
        })));
        let answered = answer.recv_timeout(patience).ok();
        // Without an answer it is on its way if it was given first.
        let late = || decided.swap(true, Ordering::AcqRel).then(|| answer.recv().ok()).flatten();
        answered.or_else(late).ok_or_else(|| self.silence(SILENT))
    }

    /// Has something done behind all that is under way, and does not wait. No answer comes if the thread has ended.
    pub(crate) fn begin<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LeaseStore) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (reply, answer) = mpsc::channel();
        self.send(Work::Other(Box::new(move |leases| drop(reply.send(work(leases))))));
        answer
    }

    /// Error of a silence of this duration. Whoever tries again and again says the same, not a growing one: it is logged once.
    pub(crate) fn silence(&self, silent: Duration) -> LeaseError {
        LeaseError::Silent { path: self.path.clone(), silent }
    }

    /// Ends the thread, if it is not caught in a call.
    pub(crate) fn end(mut self) {
        while self.next_answer().is_some() {}
        let Self { work, thread, asked, .. } = self;
        drop(work);
        if asked.is_empty() {
            // It has nothing to do any more.
            let _ = thread.join();
        }
    }

    /// A notice about its silence, if there is one to give.
    pub(crate) fn silence_notice(&mut self, now: Instant) -> Option<Notice> {
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
    fn carry_out(self, leases: &mut LeaseStore) -> Answer {
        match self {
            Self::Reserve { ticket, name, last, pns } => {
                Answer::Reserved { ticket, reservation: leases.reserve(name, last, pns) }
            }
            Self::Floors { floors, read } => {
                let written = leases.keep_floors(&floors);
                let took = read.map_or(Duration::ZERO, |read| read.began.elapsed());
                Answer::Floors { read, took, written }
            }
            Self::GiveBack(unused) => {
                // A failed write is lost, as after a crash; other notices say that nothing can be written.
                let _ = leases.give_back(&[unused]);
                Answer::Other
            }
            Self::Other(work) => {
                work(leases);
                Answer::Other
            }
        }
    }
}
