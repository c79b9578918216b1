//! Secrets in a process's memory, looked for as a debugger would.
//!
//! ```text
//!  key file ── two digits at a time ──▶ Needle: every octet masked ──▶ /proc/PID/mem, each readable and writable mapping
//! ```
//!
//! A test that looks through its own memory must not hold there what it looks for. So a needle is kept masked, is read
//! from its file octet by octet, and is compared octet by octet.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Mask over a needle's octets, read so that no compiler removes it for good.
const MASK: u8 = 0xa7;
/// Octets that are looked at in one piece; the next one begins so many before its end.
const PIECE: usize = 1 << 16;
/// The right to look: the piece that another thread looks at is a copy, and would be found as if somebody kept it.
static LOOKING: Mutex<()> = Mutex::new(());

/// A secret to look for, which is not in this process's memory by it.
pub struct Needle(Vec<u8>);

impl Needle {
    /// The first `octets` octets of the secret in a key file: those behind the last `=`, or all that is no comment.
    ///
    /// # Errors
    /// If the file cannot be read, or holds fewer.
    pub fn of_key_file(path: &Path, octets: usize) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let (mut masked, mut high, mut comment) = (Vec::with_capacity(octets), None, false);
        let mut letter = [0];
        while file.read(&mut letter)? == 1 {
            match letter[0] {
                b'\n' => comment = false,
                b'#' => comment = true,
                b'=' if !comment => (masked, high) = (Vec::with_capacity(octets), None),
                digit if !comment && masked.len() < octets => {
                    let Some(value) = char::from(digit).to_digit(16) else { continue };
                    match high.take() {
                        None => high = Some(value as u8),
                        Some(first) => masked.push((first << 4 | value as u8) ^ black_box(MASK)),
                    }
                }
                _ => {}
            }
        }
        match masked.len() == octets {
            true => Ok(Self(masked)),
            false => Err(io::Error::other("the key file holds too few octets")),
        }
    }

    /// The secret as it stands in its file: lower-case hexadecimal digits.
    #[must_use]
    pub fn digits(&self) -> Self {
        let digit = |value: u8| (if value < 10 { b'0' + value } else { b'a' - 10 + value }) ^ black_box(MASK);
        let both =
            |masked: &u8| [digit((masked ^ black_box(MASK)) >> 4), digit((masked ^ black_box(MASK)) & 15)];
        Self(self.0.iter().flat_map(both).collect())
    }

    fn is_at(&self, octets: &[u8]) -> bool {
        self.0.iter().zip(octets).all(|(masked, octet)| *masked == *octet ^ black_box(MASK))
    }

    /// Where the secret stands in the memory of a process (`self`, or its number): an address and a mapping's name
    /// each. The process has to be this one, or ours to debug.
    ///
    /// # Errors
    /// If its memory cannot be read.
    pub fn places(&self, process: &str) -> io::Result<Vec<String>> {
        let _looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = File::open(format!("/proc/{process}/mem"))?;
        let mut places = Vec::new();
        let mut piece = vec![0; PIECE];
        for line in fs::read_to_string(format!("/proc/{process}/maps"))?.lines() {
            let mut words = line.split_whitespace();
            let (range, rights) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let name = words.nth(3).unwrap_or("anonymous");
            // Device memory cannot be read that way, and frames' pools hold frames.
            if !rights.starts_with("rw") || name == "[vvar]" {
                continue;
            }
            let bound = |text: &str| u64::from_str_radix(text, 16).map_err(io::Error::other);
            let (begin, end) = range.split_once('-').ok_or_else(|| io::Error::other("no range"))?;
            let (mut at, end) = (bound(begin)?, bound(end)?);
            while at < end {
                let length = PIECE.min((end - at) as usize);
                // Nothing of the piece before may be found again when this very memory is looked at.
                black_box(&mut piece).fill(0);
                let Ok(read) = memory.read_at(&mut piece[..length], at) else { break };
                if read < self.0.len() {
                    break;
                }
                // One octet of it may stand in the open.
                let first = self.0[0] ^ black_box(MASK);
                let found = (0..=read - self.0.len())
                    .filter(|from| piece[*from] == first && self.is_at(&piece[*from..]));
                places.extend(found.map(|from| format!("{:#x} {name}", at + from as u64)));
                // The octets that the next piece begins with cannot be a whole secret that was found here.
                let step =
                    if read < length || at + read as u64 == end { read } else { read - self.0.len() + 1 };
                at += step as u64;
            }
        }
        black_box(&mut piece).fill(0);
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_while_it_is_there() {
        let path = std::env::temp_dir().join(format!("testkit-memory-{}", std::process::id()));
        let digits = [0_u8; 32].map(|_| fs::read("/proc/sys/kernel/random/uuid").unwrap()[0]);
        fs::write(&path, [&b"# 00112233\nckn = 4455\ncak = "[..], &digits].concat()).unwrap();
        let needle = Needle::of_key_file(&path, 16).unwrap();
        fs::remove_file(&path).unwrap();
        let text = needle.digits();
        assert!(!text.places("self").unwrap().is_empty(), "`digits` holds it");
        assert_eq!(needle.places("self").unwrap(), Vec::<String>::new());
        let mut plain: Vec<u8> = needle.0.iter().map(|masked| masked ^ black_box(MASK)).collect();
        assert!(!needle.places("self").unwrap().is_empty());
        black_box(&mut plain).fill(0);
        drop(plain);
    }
}
