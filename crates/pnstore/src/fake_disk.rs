//! A disk that forgets what was not synced, and what the tests of the store share.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::rc::Rc;

use wire::Sci;

use super::disk::Disk;
use super::store::{Opening, Store};
use super::{LeaseError, LeaseName};

pub(super) const MACHINE: [u8; 32] = [9; 32];

/// A disk that forgets at a crash what was not synced.
///
/// `live` is what a reader sees; `durable` is what a crash is sure to leave. A crash in the middle of a write
/// leaves any part of the file; each name that was not synced may or may not survive.
#[derive(Default)]
pub(super) struct FakeDisk {
    pub(super) live: BTreeMap<String, Vec<u8>>,
    durable: BTreeMap<String, Vec<u8>>,
    /// Operations until the crash; none: no crash.
    pub(super) fuel: Option<u32>,
    /// Decides what a crash leaves.
    luck: u32,
}

impl FakeDisk {
    fn burn(&mut self) -> bool {
        match &mut self.fuel {
            None => false,
            Some(0) => true,
            Some(fuel) => {
                *fuel -= 1;
                *fuel == 0
            }
        }
    }

    fn gone() -> io::Error {
        io::Error::other("power lost")
    }

    /// Starts anew: after a `kill -9` with all that was written, after a loss of power with all that was synced
    /// and, name by name, perhaps more.
    pub(super) fn reboot(&mut self, fuel: Option<u32>, luck: u32) {
        if self.luck & 1 == 0 {
            let names: BTreeSet<String> = self.live.keys().chain(self.durable.keys()).cloned().collect();
            for (at, name) in names.into_iter().enumerate() {
                let kept = if self.luck >> (5 + at) & 1 == 0 { &self.durable } else { &self.live };
                match kept.get(&name).cloned() {
                    Some(content) => self.durable.insert(name, content),
                    None => self.durable.remove(&name),
                };
            }
            self.live = self.durable.clone();
        }
        self.fuel = fuel;
        self.luck = luck;
    }
}

pub(super) type SharedDisk = Rc<RefCell<FakeDisk>>;

impl Disk for SharedDisk {
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let disk = self.borrow();
        if disk.fuel == Some(0) { Err(FakeDisk::gone()) } else { Ok(disk.live.get(name).cloned()) }
    }

    fn write_synced(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut disk = self.borrow_mut();
        if disk.fuel == Some(0) {
            return Err(FakeDisk::gone());
        }
        let crash = disk.burn();
        let kept = if crash { content.len() * (disk.luck as usize >> 1 & 7) / 7 } else { content.len() };
        let mut content = content[..kept].to_vec();
        if crash && disk.luck & 16 != 0 {
            content.fill(0);
        }
        // The old content of a name that exists durably is overwritten in place.
        if let Some(old) = disk.durable.get_mut(name) {
            old.clone_from(&content);
        }
        disk.live.insert(name.into(), content);
        if crash { Err(FakeDisk::gone()) } else { Ok(()) }
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.borrow_mut();
        if disk.fuel == Some(0) {
            return Err(FakeDisk::gone());
        }
        let content = disk.live.remove(from).ok_or(io::ErrorKind::NotFound)?;
        disk.live.insert(to.into(), content);
        if disk.burn() { Err(FakeDisk::gone()) } else { Ok(()) }
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        let mut disk = self.borrow_mut();
        if disk.burn() {
            return Err(FakeDisk::gone());
        }
        disk.durable = disk.live.clone();
        Ok(())
    }
}

pub(super) fn name(number: u8) -> LeaseName {
    LeaseName::new(&[number; 16], Sci::from_octets([number; 8]))
}

pub(super) fn open(disk: &SharedDisk) -> Result<Store<SharedDisk>, LeaseError> {
    open_at(disk, 0)
}

pub(super) fn open_at(disk: &SharedDisk, now: u64) -> Result<Store<SharedDisk>, LeaseError> {
    let opening = Opening { machine: MACHINE, now, max_age: None, goes_on: false };
    Store::open(disk.clone(), Path::new("state"), opening)
}

/// The error with which a state directory is refused.
pub(super) fn refusal(disk: &SharedDisk) -> String {
    open(disk).err().map(|error| error.to_string()).unwrap_or_default()
}

/// All bits depend on the number, as a crash's luck should.
pub(super) const fn luck(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b9).rotate_left(11) ^ number
}
