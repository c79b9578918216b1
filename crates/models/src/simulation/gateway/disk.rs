//! The disk of a gateway. It may be full, be slow, fail to sync, and lose its power between any two operations and within each: then it
//! forgets what was not synced, name by name, and of a write any part may be there. Of what it failed to sync any part may last.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

use testkit::Chance;

pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// A disk. Its copies are the same disk.
#[derive(Clone)]
pub(super) struct Disk(Rc<RefCell<Content>>);

struct Content {
    /// Files that a reader sees.
    live: Files,
    /// Files that a loss of power leaves.
    durable: Files,
    chance: Chance,
    /// Operations until the gateway is killed.
    lives: Option<u64>,
    full: bool,
    /// No sync succeeds.
    failing: bool,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Self {
        let (live, durable) = (Files::new(), Files::new());
        Self(Rc::new(RefCell::new(Content {
            live,
            durable,
            chance: Chance::new(seed),
            lives: None,
            full: false,
            failing: false,
        })))
    }

    /// The gateway is killed within the operation with this number, counted from 1.
    pub(super) fn kill_within(&self, operation: u64) {
        self.0.borrow_mut().lives = Some(operation);
    }

    /// True once the gateway is killed.
    pub(super) fn has_killed(&self) -> bool {
        self.0.borrow().lives == Some(0)
    }

    /// Whether there is room for a write.
    pub(super) fn set_full(&self, full: bool) {
        self.0.borrow_mut().full = full;
    }

    /// Whether syncs fail.
    pub(super) fn set_failing(&self, failing: bool) {
        self.0.borrow_mut().failing = failing;
    }

    /// The gateway is to start again, after a loss of power or, without one, after it was killed.
    pub(super) fn restart(&self, power_lost: bool) {
        let content = &mut *self.0.borrow_mut();
        content.lives = None;
        if power_lost {
            content.sync_some();
            content.live = content.durable.clone();
        }
    }

    /// All that is on it, to be brought back later.
    pub(super) fn image(&self) -> Files {
        self.0.borrow().live.clone()
    }

    /// Brings an image back.
    pub(super) fn roll_back(&self, image: &Files) {
        let content = &mut *self.0.borrow_mut();
        (content.live, content.durable) = (image.clone(), image.clone());
    }
}

impl Content {
    /// Begins an operation. True if the gateway is killed within it.
    fn begin(&mut self) -> io::Result<bool> {
        match &mut self.lives {
            Some(0) => Err(killed()),
            Some(lives) => {
                *lives -= 1;
                Ok(*lives == 0)
            }
            None => Ok(false),
        }
    }
}

impl Content {
    /// Some names last as they are now.
    fn sync_some(&mut self) {
        let names: BTreeSet<String> = self.live.keys().chain(self.durable.keys()).cloned().collect();
        for name in names {
            let kept = if self.chance.happens(500) { &self.live } else { &self.durable };
            match kept.get(&name).cloned() {
                Some(octets) => self.durable.insert(name, octets),
                None => self.durable.remove(&name),
            };
        }
    }
}

fn failed() -> io::Error {
    io::Error::other("the sync failed")
}

fn killed() -> io::Error {
    io::Error::other("killed")
}

impl pnstore::Disk for Disk {
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let content = self.0.borrow();
        if content.lives == Some(0) { Err(killed()) } else { Ok(content.live.get(name).cloned()) }
    }

    fn write_synced(&mut self, name: &str, octets: &[u8]) -> io::Result<()> {
        let content = &mut *self.0.borrow_mut();
        let (is_killed, is_full) = (content.begin()?, content.full);
        let whole = octets.len() as u64;
        let written = if is_killed || is_full { content.chance.below(whole + 1) } else { whole };
        let octets = octets[..written as usize].to_vec();
        // A file that is there is overwritten in place.
        let lasts = !content.failing || content.chance.happens(500);
        if let Some(durable) = content.durable.get_mut(name).filter(|_| lasts) {
            durable.clone_from(&octets);
        }
        content.live.insert(name.into(), octets);
        match (is_killed, is_full, content.failing) {
            (true, ..) => Err(killed()),
            (_, true, _) => Err(io::ErrorKind::StorageFull.into()),
            (.., true) => Err(failed()),
            _ => Ok(()),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let content = &mut *self.0.borrow_mut();
        let is_killed = content.begin()?;
        let octets = content.live.remove(from).ok_or(io::ErrorKind::NotFound)?;
        content.live.insert(to.into(), octets);
        if is_killed { Err(killed()) } else { Ok(()) }
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        let content = &mut *self.0.borrow_mut();
        if content.begin()? {
            return Err(killed());
        }
        if content.failing {
            content.sync_some();
            return Err(failed());
        }
        content.durable = content.live.clone();
        Ok(())
    }
}
