//! Turns of an agent and of an upgrade, which puts another program in the place of the gateway's: neither cuts the other off.
//!
//! | the agent | an upgrade |
//! |---|---|
//! | takes a version over, or judges it | is refused: ask again |
//! | reads or writes a directory that is a file | waits until that is over: it may be a sleep that nothing ends, and execve(2) would wait for it |
//! | does anything else | begins; then the agent begins neither of these until the upgrade is over |

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// Interval between two looks at whether an upgrade is over.
const LOOK: Duration = Duration::from_millis(20);

/// Work of an agent that no upgrade may cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// It reads or writes a directory that is a file.
    File,
    /// It takes a version over, or judges it.
    Version,
}

/// Turns of an agent and of upgrades of its gateway. Nobody holds the lock while he waits for anything.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Mutex<Now>>);

#[derive(Debug, Default)]
struct Now {
    agent: Option<Work>,
    upgrade: bool,
}

/// Turn of an agent; over when this is dropped.
#[derive(Debug)]
pub(super) struct AgentTurn(Turns);

/// Turn of an upgrade; over when this is dropped.
#[derive(Debug)]
pub struct UpgradeTurn(Turns);

impl Turns {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a turn of the agent as soon as no upgrade is under way. None if `stop` is set before.
    pub(super) fn work(&self, work: Work, stop: &AtomicBool) -> Option<AgentTurn> {
        loop {
            {
                let mut now = self.now();
                if !now.upgrade {
                    now.agent = Some(work);
                    return Some(AgentTurn(self.clone()));
                }
            }
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            sleep(LOOK);
        }
    }

    /// Begins a turn of an upgrade; none while a version is taken over or judged.
    pub fn upgrade(&self) -> Option<UpgradeTurn> {
        let mut now = self.now();
        if now.agent == Some(Work::Version) {
            return None;
        }
        now.upgrade = true;
        Some(UpgradeTurn(self.clone()))
    }
}

impl UpgradeTurn {
    /// Whether the agent is in nothing that an upgrade would cut off. It stays so.
    pub fn is_undisturbed(&self) -> bool {
        self.0.now().agent.is_none()
    }
}

impl Drop for AgentTurn {
    fn drop(&mut self) {
        self.0.now().agent = None;
    }
}

impl Drop for UpgradeTurn {
    fn drop(&mut self) {
        self.0.now().upgrade = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_an_agent_nor_an_upgrade_is_cut_off() {
        let (turns, stop) = (Turns::default(), AtomicBool::new(false));
        let version = turns.work(Work::Version, &stop);
        assert!(version.is_some() && turns.upgrade().is_none(), "a version is on trial");
        drop(version);
        let file = turns.work(Work::File, &stop);
        let upgrade = turns.upgrade().expect("no version changes");
        assert!(!upgrade.is_undisturbed(), "a file is being read");
        drop(file);
        assert!(upgrade.is_undisturbed());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let turn = turns.work(Work::Version, &stop);
                turn.is_some() && turns.upgrade().is_none()
            });
            sleep(3 * LOOK);
            assert!(!waiting.is_finished() && upgrade.is_undisturbed(), "it waits for the upgrade");
            drop(upgrade);
            assert!(waiting.join().expect("a turn"), "then it has its turn");
        });
        let upgrade = turns.upgrade();
        stop.store(true, Ordering::Relaxed);
        assert!(upgrade.is_some() && turns.work(Work::File, &stop).is_none(), "the gateway ends");
    }
}
