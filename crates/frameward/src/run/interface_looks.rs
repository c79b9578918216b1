//! Looks at interfaces, by a thread of their own: the kernel answers under a lock of all interfaces (RTNL), which others may hold for
//! seconds, such as a driver that resets or a thousand interfaces that go. Key agreements do not wait for that.
//!
//! ```text
//!  main ── Question, one at a time ──▶ thread ── Seen ──▶ main, which is woken
//! ```
//!
//! Changes by main since the question was asked are not in the answer: [`InterfaceLooks::forget`].

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use netdev::interface::{InterfaceError, LinkState, VethPeer, link_state, takes_redirected};
use tracing::{info, warn};

/// Time after which a look that is not over is told.
const SILENT: Duration = Duration::from_secs(5);

/// Interfaces that are to be looked at.
#[derive(Default)]
pub(super) struct Question {
    /// Interfaces by name.
    pub(super) names: Vec<String>,
    /// Interfaces by index, to which programs redirect frames.
    pub(super) indexes: Vec<u32>,
    /// Interfaces by name, whose other end of a veth pair is to be named.
    pub(super) veths: Vec<String>,
}

/// The answer.
#[derive(Default)]
pub(super) struct Seen {
    states: HashMap<String, Result<Option<LinkState>, InterfaceError>>,
    takes_redirected: HashMap<u32, bool>,
    veth_ends: HashMap<String, String>,
}

impl Seen {
    fn of(question: Question) -> Self {
        let Question { names, indexes, veths } = question;
        let state = |name: String| (link_state(&name), name);
        let takes = |index: u32| Some((index, takes_redirected(index)?));
        let end = |name: String| Some((VethPeer::of(&name)?.name, name));
        Self {
            states: names.into_iter().map(state).map(|(state, name)| (name, state)).collect(),
            takes_redirected: indexes.into_iter().filter_map(takes).collect(),
            veth_ends: veths.into_iter().filter_map(end).map(|(end, name)| (name, end)).collect(),
        }
    }

    /// State of the interface of this name; none there, or none if that is not known.
    pub(super) fn state(&self, name: &str) -> Option<Option<LinkState>> {
        self.states.get(name)?.as_ref().ok().copied()
    }

    /// Whether the interface takes frames that programs redirect to it; none if that is not known.
    pub(super) fn takes_redirected(&self, index: u32) -> Option<bool> {
        self.takes_redirected.get(&index).copied()
    }

    /// Name of the interface's other end, if it is one of a veth pair of this network namespace and somebody wanted to know it.
    pub(super) fn veth_end(&self, name: &str) -> Option<&String> {
        self.veth_ends.get(name)
    }
}

/// A look that is under way.
struct UnderWay {
    since: Instant,
    /// Things have changed since.
    outdated: bool,
    told: bool,
}

/// The thread, and what was asked. It ends by itself when this is dropped, and the kernel has answered.
pub(super) struct InterfaceLooks {
    questions: Sender<Question>,
    answers: Receiver<Seen>,
    under_way: Option<UnderWay>,
}

impl InterfaceLooks {
    /// Starts the thread. It wakes the one that calls this with each answer.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(super) fn start() -> io::Result<Self> {
        let (questions, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let main = thread::current();
        let look = move || {
            for question in asked {
                if answer.send(Seen::of(question)).is_err() {
                    return;
                }
                main.unpark();
            }
        };
        thread::Builder::new().name("fw-interfaces".into()).spawn(look)?;
        Ok(Self { questions, answers, under_way: None })
    }

    /// Has the interfaces looked at, if no look is under way. Whether one begins.
    pub(super) fn ask(&mut self, now: Instant, question: impl FnOnce() -> Question) -> bool {
        if self.under_way.is_some() {
            return false;
        }
        // The thread lives as long as this does.
        let asked = self.questions.send(question()).is_ok();
        self.under_way = asked.then_some(UnderWay { since: now, outdated: false, told: false });
        asked
    }

    /// Returns the answer, once. Logs if it takes long.
    pub(super) fn answer(&mut self, now: Instant) -> Option<Seen> {
        let seen = match self.answers.try_recv() {
            // The thread has ended, by a defect: another one goes on. Without one there is none to be had now.
            Err(TryRecvError::Disconnected) => {
                if let Ok(anew) = Self::start() {
                    *self = anew;
                }
                return None;
            }
            seen => seen.ok(),
        };
        let under_way = self.under_way.as_mut()?;
        let silent = now.saturating_duration_since(under_way.since);
        if seen.is_none() {
            if silent >= SILENT && !std::mem::replace(&mut under_way.told, true) {
                warn!(
                    event = "interfaces-silent",
                    seconds = silent.as_secs(),
                    "the kernel has not said for {} s how the interfaces are: a driver or another program holds the lock of all interfaces. Frames and keys go on; MTUs, carriers and \
                     missing interfaces are seen when it answers. ps shows processes in state D, and dmesg may show why",
                    silent.as_secs()
                );
            }
            return None;
        }
        let UnderWay { outdated, told, .. } = self.under_way.take()?;
        if told {
            info!(
                event = "interfaces-answer",
                seconds = silent.as_secs(),
                "the kernel says again how the interfaces are, after {} s",
                silent.as_secs()
            );
        }
        seen.filter(|_| !outdated)
    }

    /// Makes the look that is under way worthless, as interfaces may change now. Returns whether there was one.
    pub(super) fn forget(&mut self) -> bool {
        self.under_way.as_mut().map(|under_way| under_way.outdated = true).is_some()
    }
}
