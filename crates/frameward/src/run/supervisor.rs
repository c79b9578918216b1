//! Messages to a service manager (sd_notify(3)): ready, alive, about to end. Without one nothing happens.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The service manager that started this process, if one did.
#[derive(Debug)]
pub(super) struct Supervisor {
    /// Interval between signs of life of the main loop, if it wants them.
    every: Option<Duration>,
    next: Instant,
}

impl Supervisor {
    /// Tells that frames flow.
    pub(super) fn ready() -> Self {
        tell(&NotifyState::Ready);
        // Two words may be late before the service is taken for dead.
        let every = sd_notify::watchdog_enabled().map(|limit| limit / 3);
        Self { every, next: Instant::now() }
    }

    /// To be called at each turn of the main loop.
    pub(super) fn alive(&mut self, now: Instant) {
        if let Some(every) = self.every
            && now >= self.next
        {
            tell(&NotifyState::Watchdog);
            self.next = now + every;
        }
    }
}

impl Supervisor {
    /// Ends without a word: the process goes on, and another one of these takes over.
    pub(super) fn goes_on(self) {
        std::mem::forget(self);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        tell(&NotifyState::Stopping);
    }
}

fn tell(state: &NotifyState<'_>) {
    // A manager that is gone needs no word.
    let _ = sd_notify::notify(std::slice::from_ref(state));
}
