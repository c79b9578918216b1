//! Memory that the kernel's programs and this process share: the values of a BPF array map, word by word.
//!
//! Both sides write it at any time, so each word is atomic. A reader of several words needs an agreement with the writer about
//! their order.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::slice;
use std::sync::atomic::AtomicU64;

use crate::mapping::Mapping;

/// The values of a map made with BPF_F_MMAPABLE, as long as this lives. The kernel leaves such memory out of core dumps.
#[derive(Debug)]
pub struct SharedWords(Mapping);

impl SharedWords {
    /// Maps the first `words` words of 64 bits behind a descriptor.
    ///
    /// # Errors
    /// If the kernel does not map it: it has fewer words, or its memory cannot be shared.
    pub fn map(descriptor: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        Mapping::shared(descriptor.as_raw_fd(), 0, words * size_of::<AtomicU64>()).map(Self)
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        let words = self.0.octets() / size_of::<AtomicU64>();
        // SAFETY: the mapping begins at a page, is as long as said and lives as long as this value. An atomic word may have any value
        // and may be written by others.
        unsafe { slice::from_raw_parts(self.0.base().cast::<AtomicU64>(), words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;

    /// A file of memory in place of a map: both are pages that somebody else has too.
    #[test]
    fn words_are_those_behind_the_descriptor() {
        let memory = nix::sys::memfd::memfd_create(c"words", nix::sys::memfd::MFdFlags::empty()).unwrap();
        let mut file = File::from(memory);
        file.set_len(4096).unwrap();
        let shared = SharedWords::map(file.as_fd(), 512).unwrap();
        assert_eq!(shared.words().len(), 512);
        shared.words()[511].store(0x1122_3344_5566_7788, Ordering::Release);
        let mut octets = Vec::new();
        file.read_to_end(&mut octets).unwrap();
        assert_eq!(octets[4088..], 0x1122_3344_5566_7788_u64.to_ne_bytes());
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() {
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(SharedWords::map(end.as_fd(), 512).is_err());
    }
}
