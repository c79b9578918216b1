//! Requests by signals: to stop, to reload.
//!
//! Signals are blocked in all threads, and the main thread hears them at one place of its turn. So none comes between the last look at
//! [`Asks`] and the execve of an upgrade: it waits, and the next program hears it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::signal::{SigSet, Signal};

const SIGNALS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// Requests to a running gateway by signals.
#[derive(Clone, Debug, Default)]
pub struct Asks {
    /// To stop.
    pub stop: Arc<AtomicBool>,
    /// The number of the signal that asked to; 0 if none did.
    pub signal: Arc<AtomicUsize>,
    /// To read keys and configuration again.
    pub reload: Arc<AtomicBool>,
}

impl Asks {
    /// Hears what has come, and whether it asks to stop.
    pub fn to_stop(&self) -> bool {
        // A signal that waits is handled before the first of these calls returns.
        unblock_signals();
        block_signals();
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a reload was asked for since the last call.
    pub(super) fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// Hears what has come, and says what it asks for, if anything.
    pub(super) fn anything(&self) -> Option<&'static str> {
        match (self.to_stop(), self.reload.load(Ordering::Relaxed)) {
            (true, _) => Some("it is asked to stop"),
            (_, true) => Some("it is asked to reload"),
            (false, false) => None,
        }
    }
}

/// Leaves signals waiting in this thread, and in those that it starts. To be called before another thread begins.
pub fn block_signals() {
    // It only fails on signals that do not exist.
    let _ = SigSet::from_iter(SIGNALS).thread_block();
}

/// Ends that in this thread.
pub fn unblock_signals() {
    let _ = SigSet::from_iter(SIGNALS).thread_unblock();
}
