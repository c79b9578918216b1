//! Settings of interfaces: changed, recorded on disk and put back by a thread of its own. The disk may not answer for minutes, nor the
//! kernel for seconds, and the main thread has KaYs to turn.
//!
//! ```text
//!  main ── one after the other ──▶ fw-settings: prepares, notes, puts back ──▶ main, which waits for two seconds at most
//! ```
//!
//! Before main waits it has asked whether the disk answers ([`control::Gateway::probe_disk`]), so only a disk that stalls in this
//! moment holds it up, and once. What is not done within that time is taken back when it is done. An interface that has vanished is let
//! go without waiting. Before links have frames, and when they have none any more, nobody else waits: a minute is granted.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use netdev::interface::{InterfaceError, Prepared, Tolerated};
use netdev::passed_on::PassedInterface;

/// Limit on waiting while KaYs turn: well below the life time of an MKA participant, 6 s.
const PATIENCE: Duration = Duration::from_secs(2);
/// Limit on the wait of a start and a stop.
const FIRST_PATIENCE: Duration = Duration::from_secs(60);

type Work = Box<dyn FnOnce() + Send>;

/// Main's hold on the thread, which ends when the last one is dropped.
#[derive(Clone)]
pub(super) struct InterfaceSettings {
    state_dir: PathBuf,
    work: Sender<Work>,
    has_frames: Arc<AtomicBool>,
}

impl InterfaceSettings {
    /// Starts the thread.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(super) fn start(state_dir: &Path) -> io::Result<Self> {
        let (work, to_do) = mpsc::channel::<Work>();
        let serve = move || to_do.into_iter().for_each(|work| work());
        thread::Builder::new().name("fw-settings".into()).spawn(serve)?;
        Ok(Self { state_dir: state_dir.to_owned(), work, has_frames: Arc::default() })
    }

    /// Whether there are frames from now on, and KaYs that wait for nobody.
    pub(super) fn set_has_frames(&self, has_frames: bool) {
        self.has_frames.store(has_frames, Ordering::Relaxed);
    }

    fn begin(&self, work: impl FnOnce() + Send + 'static) {
        // A thread that has ended does not answer.
        let _ = self.work.send(Box::new(work));
    }

    /// Has something done about the interface of this name, or about files beside it, and waits for it.
    ///
    /// # Errors
    /// [`InterfaceError::Silent`]; it may be done later all the same.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, InterfaceError> {
        let after = if self.has_frames.load(Ordering::Relaxed) { PATIENCE } else { FIRST_PATIENCE };
        let (reply, answer) = mpsc::channel();
        // What nobody receives any more is dropped there, and an interface put back by that.
        self.begin(move || drop(reply.send(work())));
        answer.recv_timeout(after).map_err(|_| InterfaceError::Silent { name: name.to_owned(), after })
    }

    /// Opens the interface of that name and makes it fit for raw forwarding.
    ///
    /// # Errors
    /// Those of [`Prepared::named`], and [`InterfaceError::Silent`].
    pub(super) fn prepare(&self, name: &str, allowed: Tolerated) -> Result<OwnInterface, InterfaceError> {
        let (of, state_dir) = (name.to_owned(), self.state_dir.clone());
        let prepared = self.ask(name, move || Prepared::named(&of, &state_dir, allowed))??;
        Ok(OwnInterface { prepared: Some(prepared), settings: self.clone() })
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
        self.settings.ask(&name, move || prepared.restore())?
    }

    /// It is not there any more, or it is another one: puts back what there is, and does not wait.
    pub(super) fn let_go(mut self) {
        if let Some(prepared) = self.prepared.take() {
            self.settings.begin(move || drop(prepared));
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
