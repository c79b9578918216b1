//! `rotate_every`: how often the CAK of a link, group or tunnel, or the master key of a cell, is exchanged for a new one, and for which that
//! is due.
//!
//! ```text
//! rotate_every = "90d"       in the inventory: hours (h), days (d) or weeks (w)
//! # made 1795676400          in the CAK's file: seconds since 1970, by the clock of the machine that drew it
//! ```
//!
//! The time stands in the key's own file: key and time change together, go along to the gateways together, and are signed together. A CAK
//! without a time is due.
//!
//! - A CAK that was made in the future is not exchanged: this clock is wrong, or was when the CAK was made. So a clock that jumps ahead and
//!   back exchanges a CAK once at most.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use config::key_file::check_file;
use zeroize::Zeroizing;

use crate::keys::Drawn;
use crate::mistakes::Mistakes;
use crate::tree::Node;
use crate::{Inventory, KeyFolder, Rendering};

/// The key in the inventory.
pub(crate) const KEY: &str = "rotate_every";
/// Beginning of the line of a CAK's file with the second in which it was made.
pub(crate) const MADE: &str = "# made ";
/// Seconds by which the clocks of two operators' machines may differ.
const CLOCKS_APART: u64 = 600;
/// An hour, in seconds: gateways take some minutes to confirm both steps.
const HOUR: u64 = 3600;
/// Ten years, in seconds.
const LONGEST: u64 = 10 * 365 * 24 * HOUR;
/// The file that says that a rotation of what is due was cut off.
const CUT_OFF: &str = ".rotating";

/// A CAK that has a schedule, or whose exchange has begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rotation {
    /// Its file in the folder of keys.
    pub file: String,
    /// Links, groups and tunnels that have it, in the order of their names.
    pub groups: Vec<String>,
    /// The shortest time that they ask for between two CAKs, in seconds.
    pub every: Option<u64>,
    /// Place in the schedule.
    pub state: State,
}

/// Place of a CAK in its schedule. Times are in seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// A new one is there, and the old one beside it.
    UnderWay {
        /// Time at which the new one was made, if its file says so.
        since: Option<u64>,
    },
    /// A new one is due.
    Due {
        /// Since when. `None`: its file does not say when it was made.
        since: Option<u64>,
    },
    /// It was made later than now.
    Ahead {
        /// Time at which it was made.
        made: u64,
    },
    /// A new one is due later.
    Later {
        /// Time at which the new one is due.
        due: u64,
    },
}

/// All CAKs with a schedule, and what cannot have one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rotations {
    /// In the order of their files.
    pub rotations: Vec<Rotation>,
    /// In words: links, groups and tunnels whose CAK cannot be exchanged here.
    pub refused: Vec<String>,
}

/// Versions that gateways had in the directory before a rotation of what is due that was cut off.
pub type CutOff = BTreeMap<String, u64>;

impl State {
    /// Of a CAK that was made then.
    const fn of(made: Option<u64>, every: u64, now: u64) -> Self {
        let Some(made) = made else { return Self::Due { since: None } };
        let due = made.saturating_add(every);
        if made > now.saturating_add(CLOCKS_APART) {
            Self::Ahead { made }
        } else if due <= now {
            Self::Due { since: Some(due) }
        } else {
            Self::Later { due }
        }
    }
}

impl Inventory {
    /// CAKs that have a schedule, or whose exchange has begun, at the second `now`.
    pub fn rotations(&self, keys: &KeyFolder, now: u64) -> Rotations {
        let mut files: BTreeMap<String, (Vec<String>, Option<u64>)> = BTreeMap::new();
        let mut refused = Vec::new();
        for shared in &self.shared {
            match (self.cak_file(&shared.name, keys), shared.rotate_every) {
                (Ok(file), every) => {
                    let (groups, shortest) = files.entry(file).or_default();
                    groups.push(shared.name.clone());
                    *shortest = [*shortest, every].into_iter().flatten().min();
                }
                (Err(why), Some(_)) => refused.push(why),
                (Err(_), None) => {}
            }
        }
        files.retain(|file, (groups, every)| match keys.hidden(file) {
            Some(error) if every.is_some() => {
                let path = keys.path_of(file).display().to_string();
                let groups = groups.join(", ");
                refused.push(format!(
                    "{groups}: when its CAK is due is not known, as {path} cannot be read: {error}"
                ));
                false
            }
            _ => true,
        });
        let rotation = |(file, (groups, every)): (String, (Vec<String>, Option<u64>))| {
            let state = if keys.is_under_way(&file) {
                State::UnderWay { since: keys.made(&file) }
            } else {
                State::of(keys.made(&file), every?, now)
            };
            Some(Rotation { file, groups, every, state })
        };
        Rotations { rotations: files.into_iter().filter_map(rotation).collect(), refused }
    }
}

impl Rotation {
    /// Gateways that have the CAK, by a rendering.
    pub fn members<'r>(&self, rendering: &'r Rendering) -> Vec<&'r str> {
        let members = rendering.gateways.iter().filter(|(_, one)| one.key_files.contains_key(&self.file));
        members.map(|(name, _)| name.as_str()).collect()
    }
}

impl KeyFolder {
    /// Returns the time at which a CAK was made, in seconds since 1970, if its file says so.
    pub fn made(&self, file: &str) -> Option<u64> {
        if let Some(Drawn::Cak(_, made) | Drawn::Master(_, made)) = self.drawn(Path::new(file)) {
            return Some(*made);
        }
        let path = self.path_of(file);
        check_file(&path).ok()?;
        let text = Zeroizing::new(fs::read(path).ok()?);
        let mut lines = text.split(|octet| *octet == b'\n');
        let made = lines.find_map(|line| line.strip_prefix(MADE.as_bytes()))?;
        std::str::from_utf8(made).ok()?.trim().parse().ok()
    }

    /// Why a CAK that is there, or may be, cannot be read by this user.
    fn hidden(&self, file: &str) -> Option<io::Error> {
        let read = fs::read(self.path_of(file)).map(Zeroizing::new);
        read.err().filter(|error| error.kind() != io::ErrorKind::NotFound)
    }

    /// Versions before a rotation of what is due that was cut off; `None` if none was.
    ///
    /// # Errors
    ///
    /// The system's; and if the file is damaged.
    pub fn cut_off(&self) -> io::Result<Option<CutOff>> {
        let text = match fs::read_to_string(self.path_of(CUT_OFF)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let version = |line: &str| {
            let (name, version) = line.split_once(' ')?;
            Some((name.to_owned(), version.parse().ok()?))
        };
        let versions: Option<CutOff> = text.lines().map(version).collect();
        versions.map(Some).ok_or_else(|| io::Error::other("is damaged; remove it, and render and apply"))
    }

    /// Writes down which versions gateways have in the directory before what is due is rotated. Durable at return.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn may_be_cut_off(&self, versions: &CutOff) -> io::Result<()> {
        let text: String = versions.iter().map(|(name, version)| format!("{name} {version}\n")).collect();
        let next = self.path_of(&format!("{CUT_OFF}.next"));
        let mut file = File::create(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(next, self.path_of(CUT_OFF))?;
        File::open(self.folder())?.sync_all()
    }

    /// Says that nothing was cut off. Durable at return.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn was_not_cut_off(&self) -> io::Result<()> {
        fs::remove_file(self.path_of(CUT_OFF))?;
        File::open(self.folder())?.sync_all()
    }

    /// Returns the path of the file that [`Self::cut_off`] reads.
    pub fn cut_off_file(&self) -> PathBuf {
        self.path_of(CUT_OFF)
    }
}

/// Seconds of a `rotate_every`.
pub(crate) fn judge(node: &Node, label: &str, mistakes: &mut Mistakes<'_>) -> Option<u64> {
    let every = node.as_text().and_then(interval).filter(|every| (HOUR..=LONGEST).contains(every));
    if every.is_none() {
        mistakes.add(
            node.place,
            format!("{label}{KEY} is no time between two keys; use 1h to 3650d, such as \"90d\", \"12h\" or \"4w\""),
        );
    }
    every
}

/// `90d`, `12h` or `4w` in seconds.
fn interval(text: &str) -> Option<u64> {
    let unit = match text.as_bytes().last()? {
        b'h' => HOUR,
        b'd' => 24 * HOUR,
        b'w' => 7 * 24 * HOUR,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(unit)
}
