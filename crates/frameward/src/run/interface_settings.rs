//! Settings of interfaces: changed, recorded on disk and put back by a thread of its own. The disk may not answer for minutes, nor the
//! kernel for seconds, and the main thread has KaYs to turn.
//!
//! ```text
//!  main ── one after the other ──▶ fw-settings: prepares, notes, puts back ──▶ main, which waits for two seconds at most
//! ```
//!
//! Before main waits it has asked whether the disk answers ([`control::Gateway::probe_disk`]), so only a disk that stalls in this
//! moment holds it up, and once: while a question is open for two seconds all others are refused unasked, and what is to be put back is
//! handed over ([`AskedThread`]). An interface whose preparation takes longer is taken by whoever asks for it next; if nobody does for
//! [`UNCLAIMED`], it is put back. One that has vanished is let go without waiting. Before links have frames nobody else waits: a minute
//! is granted. A stop has one deadline for all interfaces.
//!
//! Records of KaYs are opened by a thread of their own, for they may be on another disk.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netdev::interface::{InterfaceError, Prepared, Tolerated};
use netdev::passed_on::PassedInterface;

use super::asked_thread::{AskedThread, Question};

/// Limit on waiting while KaYs turn: well below the life time of an MKA participant, 6 s.
const PATIENCE: Duration = Duration::from_secs(2);
/// Limit on each wait of a start.
const FIRST_PATIENCE: Duration = Duration::from_secs(60);
/// Time for which an interface that was prepared too late is kept for whoever asks for it again. A link does every second, a site too.
const UNCLAIMED: Duration = Duration::from_secs(30);

/// Limit on main's waiting.
#[derive(Clone, Copy)]
enum Patience {
    First,
    WithFrames,
    Until(Instant),
}

/// A preparation that has taken too long.
struct Late {
    name: String,
    allowed: Tolerated,
    prepared: Question<Result<Prepared, InterfaceError>>,
    asked: Instant,
    /// Time for which it was waited for at first. A link that waits says the same each second: other words are news.
    after: Duration,
}

/// Main's hold on the threads, which end when the last one is dropped.
#[derive(Clone)]
pub(super) struct InterfaceSettings {
    state_dir: PathBuf,
    settings: AskedThread,
    records: AskedThread,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    patience: Patience,
    late: Vec<Late>,
}

impl InterfaceSettings {
    /// Starts the threads.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(super) fn start(state_dir: &Path) -> io::Result<Self> {
        let shared = Shared { patience: Patience::First, late: Vec::new() };
        Ok(Self {
            state_dir: state_dir.to_owned(),
            settings: AskedThread::start("fw-settings")?,
            records: AskedThread::start("fw-records")?,
            shared: Arc::new(Mutex::new(shared)),
        })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There are frames from now on, and KaYs that wait for nobody.
    pub(super) fn has_frames(&self) {
        self.shared().patience = Patience::WithFrames;
    }

    /// All ends: whatever is put back, main waits until then and no longer.
    pub(super) fn end_by(&self, deadline: Instant) {
        self.shared().patience = Patience::Until(deadline);
        self.put_unclaimed_back(Duration::ZERO);
    }

    /// Puts back what was prepared too late, and what nobody asks for any more.
    pub(super) fn tidy(&self) {
        self.put_unclaimed_back(UNCLAIMED);
    }

    fn put_unclaimed_back(&self, age: Duration) {
        let unclaimed: Vec<_> =
            self.shared().late.extract_if(.., |late| late.asked.elapsed() >= age).collect();
        for late in unclaimed {
            if let Some(Ok(prepared)) = late.prepared.leave() {
                self.settings.begin(move || drop(prepared));
            }
        }
    }

    /// Limit on the wait for this thread.
    ///
    /// # Errors
    /// If it is known that it does not answer.
    fn patience(&self, thread: &AskedThread, name: &str) -> Result<Duration, InterfaceError> {
        let (after, is_silent) = match self.shared().patience {
            Patience::First => (FIRST_PATIENCE, thread.open_for() >= FIRST_PATIENCE),
            Patience::WithFrames => (PATIENCE, thread.open_for() >= PATIENCE),
            Patience::Until(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                (left, left.is_zero())
            }
        };
        if is_silent { Err(silent(name, after)) } else { Ok(after) }
    }

    /// Has something done about the interface of this name, and waits for it.
    ///
    /// # Errors
    /// [`InterfaceError::Silent`]; if it was begun, it may be done later all the same.
    fn ask<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, InterfaceError> {
        let after = self.patience(&self.settings, name)?;
        let question = self.settings.ask(work);
        question.wait(after).or_else(|| question.leave()).ok_or_else(|| silent(name, after))
    }

    /// Has the record of a KaY on this interface opened, and waits for it.
    ///
    /// # Errors
    /// [`InterfaceError::Silent`].
    pub(super) fn open_record<T: Send + 'static>(
        &self,
        name: &str,
        open: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, InterfaceError> {
        let after = self.patience(&self.records, name)?;
        let question = self.records.ask(open);
        question.wait(after).or_else(|| question.leave()).ok_or_else(|| silent(name, after))
    }

    /// Opens the interface of that name and makes it fit for raw forwarding. What takes too long is taken by the next call.
    ///
    /// # Errors
    /// Those of [`Prepared::named`], and [`InterfaceError::Silent`].
    pub(super) fn prepare(&self, name: &str, allowed: Tolerated) -> Result<OwnInterface, InterfaceError> {
        let late = {
            let late = &mut self.shared().late;
            let found = late.iter().position(|late| late.name == name);
            found.map(|number| late.swap_remove(number))
        };
        let (question, patience, after) = match late {
            Some(late) if late.allowed == allowed && late.prepared.is_open() => {
                (late.prepared, Duration::ZERO, late.after)
            }
            other => {
                if let Some(Ok(prepared)) = other.and_then(|late| late.prepared.leave()) {
                    self.settings.begin(move || drop(prepared));
                }
                let patience = self.patience(&self.settings, name)?;
                let (of, state_dir) = (name.to_owned(), self.state_dir.clone());
                (self.settings.ask(move || Prepared::named(&of, &state_dir, allowed)), patience, patience)
            }
        };
        let Some(prepared) = question.wait(patience) else {
            let (name, asked) = (name.to_owned(), Instant::now());
            let error = silent(&name, after);
            self.shared().late.push(Late { name, allowed, prepared: question, asked, after });
            return Err(error);
        };
        let mut own = OwnInterface { prepared: Some(prepared?), settings: self.clone() };
        // It may have vanished meanwhile, or been changed.
        match own.renew() {
            Ok(()) => Ok(own),
            Err(error) => {
                own.let_go();
                Err(error)
            }
        }
    }

    /// Goes on with an interface of the program before this one.
    ///
    /// # Errors
    /// Those of [`Prepared::go_on`], and [`InterfaceError::Silent`].
    pub(super) fn go_on(&self, passed: &PassedInterface) -> Result<OwnInterface, InterfaceError> {
        let (of, state_dir) = (passed.clone(), self.state_dir.clone());
        let prepared = self.ask(&passed.name, move || Prepared::go_on(&of, &state_dir))??;
        Ok(OwnInterface { prepared: Some(prepared), settings: self.clone() })
    }
}

fn silent(name: &str, after: Duration) -> InterfaceError {
    InterfaceError::Silent { name: name.to_owned(), after }
}

/// An interface that was made fit for raw forwarding. Ports on it are to be closed before it is dropped, which puts it back.
pub(super) struct OwnInterface {
    /// None only while it is dropped.
    prepared: Option<Prepared>,
    settings: InterfaceSettings,
}

impl OwnInterface {
    /// Puts its settings back.
    ///
    /// # Errors
    /// Those of [`Prepared::restore`], and [`InterfaceError::Silent`]: then it is put back as soon as that can be, or by the next start.
    pub(super) fn restore(mut self) -> Result<(), InterfaceError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), InterfaceError> {
        let Some(prepared) = self.prepared.take() else { return Ok(()) };
        let name = prepared.interface().name().to_owned();
        let settings = &self.settings;
        let patience = settings.patience(&settings.settings, &name);
        let question = settings.settings.insist(move || prepared.restore());
        let after = patience?;
        question.wait(after).or_else(|| question.leave()).ok_or_else(|| silent(&name, after))?
    }

    /// It is not there any more, or it is another one: puts back what there is, and does not wait.
    pub(super) fn let_go(mut self) {
        if let Some(prepared) = self.prepared.take() {
            self.settings.settings.begin(move || drop(prepared));
        }
    }

    /// Takes it down, or up again, as [`Prepared::hold_down`].
    ///
    /// # Errors
    /// Those of it, and [`InterfaceError::Silent`]: then nothing is changed.
    pub(super) fn hold_down(&mut self, down: bool) -> Result<(), InterfaceError> {
        let (settings, name) = (self.settings.clone(), self.interface().name().to_owned());
        (**self).hold_down(down, |note| settings.ask(&name, move || note.write())?)
    }
}

impl Drop for OwnInterface {
    fn drop(&mut self) {
        // Nobody is left to hear of an error; the record stays, and the next start tries again.
        let _ = self.put_back();
    }
}

impl Deref for OwnInterface {
    type Target = Prepared;

    fn deref(&self) -> &Prepared {
        self.prepared.as_ref().expect("invariant: it is given away only when this is dropped")
    }
}

impl DerefMut for OwnInterface {
    fn deref_mut(&mut self) -> &mut Prepared {
        self.prepared.as_mut().expect("invariant: it is given away only when this is dropped")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// The thread itself stands still: the first question waits, no other does, and none is begun afterwards.
    #[test]
    fn a_thread_that_stands_still_holds_main_up_once() {
        let settings = InterfaceSettings::start(&std::env::temp_dir()).unwrap();
        settings.has_frames();
        let (go, held) = channel::<()>();
        settings.settings.begin(move || while held.recv().is_ok() {});
        let began = Instant::now();
        let (says, begun) = channel();
        for number in 0..100 {
            let says = says.clone();
            let asked = settings.ask("lan", move || says.send(number));
            assert!(matches!(asked, Err(InterfaceError::Silent { .. })), "{number}");
            let prepared = settings.prepare("fw-none0", Tolerated::default());
            assert!(matches!(prepared, Err(InterfaceError::Silent { .. })), "{number}");
        }
        let took = began.elapsed();
        assert!(took >= PATIENCE && took < 2 * PATIENCE, "{took:?}");
        // Records are not behind it.
        assert!(settings.open_record("lan", || 7).is_ok_and(|seven| seven == 7));
        drop(go);
        drop(says);
        assert_eq!(begun.iter().count(), 0);
        while settings.settings.open_for() > Duration::ZERO {
            std::thread::yield_now();
        }
        assert!(settings.ask("lan", || 8).is_ok_and(|eight| eight == 8), "it answers again");
    }

    /// However many interfaces there are, a stop waits until its deadline.
    #[test]
    fn a_stop_has_one_deadline() {
        let settings = InterfaceSettings::start(&std::env::temp_dir()).unwrap();
        let (go, held) = channel::<()>();
        settings.settings.begin(move || while held.recv().is_ok() {});
        let began = Instant::now();
        settings.end_by(began + Duration::from_millis(300));
        for _ in 0..100 {
            assert!(matches!(settings.ask("lan", || ()), Err(InterfaceError::Silent { .. })));
        }
        assert!(began.elapsed() >= Duration::from_millis(300) && began.elapsed() < Duration::from_secs(30));
        drop(go);
    }

    /// The words say how long main has waited, at a start too, and stay the same while the same question is open.
    #[test]
    fn a_late_preparation_says_how_long_it_was_waited_for() {
        let settings = InterfaceSettings::start(&std::env::temp_dir()).unwrap();
        let (go, held) = channel::<()>();
        settings.settings.begin(move || while held.recv().is_ok() {});
        // Another limit than that of a gateway with frames.
        let limit = PATIENCE / 2;
        settings.end_by(Instant::now() + limit);
        let after = || match settings.prepare("fw-none0", Tolerated::default()) {
            Err(InterfaceError::Silent { after, .. }) => after,
            other => panic!("{:?}", other.map(drop)),
        };
        let waited = after();
        assert!(waited <= limit, "{waited:?}");
        settings.has_frames();
        assert_eq!(after(), waited);
        drop(go);
    }

    /// A preparation that takes longer than main waits is taken by the next question, however often it takes so long.
    #[test]
    fn a_late_answer_is_taken_by_the_next_question() {
        let settings = InterfaceSettings::start(&std::env::temp_dir()).unwrap();
        settings.has_frames();
        let (go, held) = channel::<()>();
        settings.settings.begin(move || while held.recv().is_ok() {});
        let prepare = || settings.prepare("fw-none0", Tolerated::default()).map(drop);
        assert!(matches!(prepare(), Err(InterfaceError::Silent { .. })));
        assert_eq!(settings.shared().late.len(), 1);
        assert!(matches!(prepare(), Err(InterfaceError::Silent { .. })));
        assert_eq!(settings.shared().late.len(), 1, "it is asked once");
        drop(go);
        while settings.settings.open_for() > Duration::ZERO {
            std::thread::yield_now();
        }
        assert!(matches!(prepare(), Err(InterfaceError::Missing { .. })));
        assert_eq!(settings.shared().late.len(), 0);
        settings.put_unclaimed_back(Duration::ZERO);
    }
}
