//! One region of mapped memory: the pool's own, or a ring that the kernel shares with us.
//!
//! Owns the mapping and nothing else: what lies in it, and who may touch which part when, is the business of
//! the module that asked for it.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::ptr::{self, NonNull};

use nix::fcntl::{FallocateFlags, fallocate};

use crate::passed_on::unlinked_file;

/// Memory from `mmap`, unmapped on drop. Zero-filled and resident from the start, so that the frame path meets
/// no page fault.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    octets: usize,
}

// SAFETY: the mapping is plain memory that belongs to this value alone; nothing about it is tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping gives no more than its address and length; whoever follows the address answers for it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory of our own, private to the process.
    pub(crate) fn anonymous(octets: usize) -> io::Result<Self> {
        Self::map(octets, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// The same behind a file of its own ([`unlinked_file`]): the next program of this process can map it again.
    pub(crate) fn of_file(octets: usize) -> io::Result<(Self, OwnedFd)> {
        let file = unlinked_file()?;
        // Allocated, not only long: a mapping without memory behind it kills who touches it.
        let length = libc::off_t::try_from(octets).map_err(io::Error::other)?;
        fallocate(&file, FallocateFlags::empty(), 0, length)?;
        Ok((Self::shared(file.as_raw_fd(), 0, octets)?, file.into()))
    }

    /// The memory that stands behind `descriptor` from `offset` on, shared with the kernel.
    pub(crate) fn shared(descriptor: RawFd, offset: libc::off_t, octets: usize) -> io::Result<Self> {
        Self::map(octets, libc::MAP_SHARED, descriptor, offset)
    }

    fn map(octets: usize, flags: i32, descriptor: RawFd, offset: libc::off_t) -> io::Result<Self> {
        // SAFETY: a null hint lets the kernel choose an address range that nothing else uses.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                octets,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_POPULATE,
                descriptor,
                offset,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mmap gave address zero"))?;
        Ok(Self { base, octets })
    }

    /// The first octet. Aligned to a page.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Length in octets.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and octets are those that mmap gave, and nobody can hold the mapping after its owner.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.octets) };
    }
}
