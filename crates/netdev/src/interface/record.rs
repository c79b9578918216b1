//! State of an interface before it was changed, on disk, in plain text:
//!
//! ```text
//! # Settings of a network interface before Frameward changed them; put back when it stops or at its next start.
//! boot 0a9c2d3e-...          settings do not outlive a boot: then there is nothing to put back
//! interface enp1s0
//! index 3
//! mac 02:00:00:00:00:01
//! was down                   only what was so, and was changed
//! was arp
//! was ipv6
//! was up                     while it is held down (link-loss forwarding), and at no other time
//! guard clsact               where there is no tcx: a clsact of ours drops; "guard filters": in somebody else's
//! feature rx-gro
//! end
//! ```
//!
//! The record is written and synced before the first change, so one without its last line was cut short before
//! anything was changed. What is added later is added behind that line, with another one like it, in one write, and
//! cut off in one step: whenever the process is killed, the record is whole. It is locked
//! for as long as its writer lives: an unlocked record is a stale one. The lock goes with the process, however that
//! ends.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{InterfaceError, MacAddress};

const HEADING: &str = "# Settings of a network interface before Frameward changed them; put back when it stops or at its next start.";

/// Line that is added to a record while its interface is held down.
const HELD_DOWN: &[u8] = b"was up\nend\n";

/// The settings to be put back, and which interface they belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) boot: String,
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) mac: MacAddress,
    pub(super) was_down: bool,
    pub(super) was_arp: bool,
    pub(super) was_ipv6: bool,
    pub(super) was_up: bool,
    pub(super) filters: Option<Filters>,
    pub(super) features: Vec<String>,
}

/// Guard of an interface that outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filters {
    /// Our filters in a `clsact` of our own.
    Own,
    /// Our filters in somebody else's.
    Among,
}

/// The name of this boot, or nothing where the kernel does not tell.
pub(super) fn this_boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

impl Record {
    fn encode(&self) -> String {
        let [a, b, c, d, e, f] = self.mac;
        let mut text = format!(
            "{HEADING}\nboot {}\ninterface {}\nindex {}\nmac {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}\n",
            self.boot, self.name, self.index,
        );
        for (was, word) in
            [(self.was_down, "down"), (self.was_arp, "arp"), (self.was_ipv6, "ipv6"), (self.was_up, "up")]
        {
            if was {
                let _ = writeln!(text, "was {word}");
            }
        }
        match self.filters {
            Some(Filters::Own) => text += "guard clsact\n",
            Some(Filters::Among) => text += "guard filters\n",
            None => {}
        }
        for feature in &self.features {
            let _ = writeln!(text, "feature {feature}");
        }
        text + "end\n"
    }

    /// None if the record was cut short. The number of the first line that makes no sense is the error.
    fn parse(text: &str) -> Result<Option<Self>, usize> {
        if !text.ends_with("\nend\n") {
            return Ok(None);
        }
        let mut record = Self::default();
        for (number, line) in
            text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && *line != "end")
        {
            let wrong = number + 1;
            let (word, value) = line.split_once(' ').ok_or(wrong)?;
            match (word, value) {
                ("boot", _) => record.boot = value.into(),
                ("interface", _) => record.name = value.into(),
                ("index", _) => record.index = value.parse().map_err(|_| wrong)?,
                ("mac", _) => record.mac = parse_mac(value).ok_or(wrong)?,
                ("was", "down") => record.was_down = true,
                ("was", "arp") => record.was_arp = true,
                ("was", "ipv6") => record.was_ipv6 = true,
                ("was", "up") => record.was_up = true,
                ("guard", "clsact") => record.filters = Some(Filters::Own),
                ("guard", "filters") => record.filters = Some(Filters::Among),
                ("feature", _) => record.features.push(value.into()),
                _ => return Err(wrong),
            }
        }
        Ok(Some(record))
    }
}

fn parse_mac(text: &str) -> Option<MacAddress> {
    let octets: Option<Vec<u8>> = text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    octets?.try_into().ok()
}

/// A note in a record that its interface is held down, or is so no more: to be written by a thread that may wait for the disk.
#[derive(Debug)]
pub struct HeldDownNote {
    file: File,
    path: PathBuf,
    /// Length of the record without it.
    octets: u64,
    held: bool,
}

impl HeldDownNote {
    /// Writes it. On the disk when this returns.
    ///
    /// # Errors
    /// [`InterfaceError::Record`]; it may be there or not.
    pub fn write(mut self) -> Result<(), InterfaceError> {
        let cut = self.file.set_len(self.octets);
        let noted = cut.and_then(|()| match self.held {
            true => self.file.seek(io::SeekFrom::End(0)).and_then(|_| self.file.write_all(HELD_DOWN)),
            false => Ok(()),
        });
        noted.and_then(|()| self.file.sync_all()).map_err(|source| InterfaceError::Record {
            action: "write",
            path: self.path,
            source,
        })
    }
}

/// The file of a record, locked.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    file: File,
}

impl RecordFile {
    /// Opens and locks the record of an interface, making the file (and the state directory) if there is none.
    pub(super) fn lock(state_dir: &Path, interface: &str) -> Result<Self, InterfaceError> {
        let path = path_of(state_dir, interface);
        let failed = |action| {
            let path = path.clone();
            move |source| InterfaceError::Record { action, path, source }
        };
        fs::create_dir_all(state_dir).map_err(failed("make the directory of"))?;
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
                .map_err(failed("open"))?;
            // Whoever may open it could hold its lock. One that was left by an earlier release may be open to all.
            if file.metadata().map_err(failed("look at"))?.mode() & 0o077 != 0 {
                file.set_permissions(Permissions::from_mode(0o600)).map_err(failed("close to others"))?;
            }
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(InterfaceError::InUse { name: interface.into(), record: path });
                }
                Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
            }
            // Between open and lock the previous owner may have removed it: then we hold what nobody can find.
            let found = fs::metadata(&path).map(|found| found.ino()).ok();
            if found == Some(file.metadata().map_err(failed("look at"))?.ino()) {
                return Ok(Self { path, file });
            }
        }
    }

    /// That of the program before this one, locked all the while.
    pub(super) fn go_on(file: OwnedFd, state_dir: &Path, interface: &str) -> Self {
        Self { path: path_of(state_dir, interface), file: File::from(file) }
    }

    pub(super) fn raw(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The record on disk, if it is complete.
    pub(super) fn read(&mut self) -> Result<Option<Record>, InterfaceError> {
        let mut text = String::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_string(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(InterfaceError::RecordGarbled { path: self.path.clone(), line: 1 });
            }
            Err(source) => return Err(self.failed("read", source)),
        }
        Record::parse(&text).map_err(|line| InterfaceError::RecordGarbled { path: self.path.clone(), line })
    }

    /// Writes a record, and does not return before it is on the disk.
    pub(super) fn write(&mut self, record: &Record) -> Result<(), InterfaceError> {
        let written = self
            .file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .and_then(|()| self.file.write_all(record.encode().as_bytes()))
            .and_then(|()| self.file.sync_all())
            .and_then(|()| self.sync_directory());
        written.map_err(|source| self.failed("write", source))
    }

    /// The note that the interface was up, and is held down, or that it is so no more; behind a record of this content.
    pub(super) fn note(&self, record: &Record, held: bool) -> Result<HeldDownNote, InterfaceError> {
        let file = self.file.try_clone().map_err(|source| self.failed("open", source))?;
        let octets = Record { was_up: false, ..record.clone() }.encode().len() as u64;
        Ok(HeldDownNote { file, path: self.path.clone(), octets, held })
    }

    /// Removes the record: there is nothing left to put back.
    pub(super) fn remove(&mut self) -> Result<(), InterfaceError> {
        match fs::remove_file(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(self.failed("remove", source)),
            _ => Ok(()),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    fn failed(&self, action: &'static str, source: io::Error) -> InterfaceError {
        InterfaceError::Record { action, path: self.path.clone(), source }
    }
}

fn path_of(state_dir: &Path, interface: &str) -> PathBuf {
    state_dir.join(format!("interface-{interface}"))
}

/// Names of the interfaces that a state directory holds records of.
pub(super) fn recorded(state_dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(state_dir) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("interface-").map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = Record> {
        let words = || "[a-z0-9-]{1,20}";
        (
            words(),
            words(),
            any::<u32>(),
            any::<[u8; 6]>(),
            any::<[bool; 4]>(),
            prop::sample::select(vec![None, Some(Filters::Own), Some(Filters::Among)]),
            prop::collection::vec(words(), 0..5),
        )
            .prop_map(
                |(boot, name, index, mac, [was_down, was_arp, was_ipv6, was_up], filters, features)| Record {
                    boot,
                    name,
                    index,
                    mac,
                    was_down,
                    was_arp,
                    was_ipv6,
                    was_up,
                    filters,
                    features,
                },
            )
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(record in record()) {
            prop_assert_eq!(Record::parse(&record.encode()), Ok(Some(record)));
        }

        #[test]
        fn a_record_cut_short_is_none(record in record(), cut in any::<prop::sample::Index>()) {
            let text = record.encode();
            prop_assert_eq!(Record::parse(&text[..cut.index(text.len())]), Ok(None));
        }
    }

    #[test]
    fn what_is_added_is_read_and_can_be_taken_away() {
        let directory = std::env::temp_dir().join(format!("frameward-record-held-{}", std::process::id()));
        let record = Record { name: "x0".into(), was_arp: true, ..Record::default() };
        let mut file = RecordFile::lock(&directory, "x0").unwrap();
        file.write(&record).unwrap();
        let held = Record { was_up: true, ..record.clone() };
        // One that came late is written once more.
        for _ in 0..2 {
            file.note(&record, true).unwrap().write().unwrap();
            assert_eq!(file.read().unwrap(), Some(held.clone()));
        }
        file.note(&held, false).unwrap().write().unwrap();
        assert_eq!(file.read().unwrap(), Some(record));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_line_that_makes_no_sense_is_named() {
        for (text, line) in [
            ("nonsense\nend\n", 1),
            ("# x\nindex 1\nindex one\nend\n", 3),
            ("mac 02:00:00:00:00\nend\n", 1),
            ("was asleep\nend\n", 1),
        ] {
            assert_eq!(Record::parse(text), Err(line), "{text}");
        }
    }

    #[test]
    fn a_locked_record_is_in_use_and_an_unlocked_one_stale() {
        let directory = std::env::temp_dir().join(format!("frameward-record-{}", std::process::id()));
        let record = Record { name: "x0".into(), ..Record::default() };
        let mut owner = RecordFile::lock(&directory, "x0").unwrap();
        assert_eq!(owner.read().unwrap(), None);
        owner.write(&record).unwrap();
        assert!(matches!(RecordFile::lock(&directory, "x0"), Err(InterfaceError::InUse { .. })));
        assert_eq!(recorded(&directory), ["x0"]);
        drop(owner);
        let mut next = RecordFile::lock(&directory, "x0").unwrap();
        assert_eq!(next.read().unwrap(), Some(record));
        next.remove().unwrap();
        drop(next);
        assert!(recorded(&directory).is_empty());
        fs::remove_dir(&directory).unwrap();
    }
}
