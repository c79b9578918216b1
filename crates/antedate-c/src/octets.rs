//! Areas of C's memory: a pointer and a length, checked, and only then a slice.

#![allow(unsafe_code)]

use core::slice;

use crate::results::antedate_result::{self, *};

/// Octets from an address on. They are in nobody's hands until a slice is made of them.
#[derive(Clone, Copy)]
pub(crate) struct Area {
    begin: usize,
    octets: usize,
}

impl Area {
    /// An area of so many octets.
    ///
    /// # Errors
    /// NULL with a length; an area that is longer than half of all memory, or goes past its end.
    pub(crate) fn new<T>(begin: *const T, octets: usize) -> Result<Self, antedate_result> {
        if begin.is_null() && octets > 0 {
            return Err(ANTEDATE_ERROR_NULL);
        }
        let begin = begin as usize;
        if isize::try_from(octets).is_err() || begin.checked_add(octets).is_none() {
            return Err(ANTEDATE_ERROR_LENGTH);
        }
        Ok(Self { begin, octets })
    }

    /// The area of one value, or none if the pointer is NULL.
    pub(crate) fn of<T>(value: *const T) -> Result<Self, antedate_result> {
        Self::new(value, if value.is_null() { 0 } else { size_of::<T>() })
    }

    /// Its length.
    pub(crate) const fn octets(self) -> usize {
        self.octets
    }

    /// # Errors
    /// If both have an octet in common.
    pub(crate) fn is_apart_from(self, other: Self) -> Result<(), antedate_result> {
        let apart = self.octets == 0
            || other.octets == 0
            || self.begin + self.octets <= other.begin
            || other.begin + other.octets <= self.begin;
        if apart {
            Ok(())
        } else {
            Err(ANTEDATE_ERROR_OVERLAP)
        }
    }
}

/// Octets that are only read.
///
/// # Errors
/// As [`Area::new`].
///
/// # Safety
/// The caller's octets can be read, and nobody writes to them while the slice lives.
pub(crate) unsafe fn read<'a>(begin: *const u8, octets: usize) -> Result<&'a [u8], antedate_result> {
    Area::new(begin, octets)?;
    if octets == 0 {
        return Ok(&[]);
    }
    // SAFETY: neither NULL nor too long, which `Area` has checked; readable and unchanged, which the caller grants.
    Ok(unsafe { slice::from_raw_parts(begin, octets) })
}

/// Octets that are written to.
///
/// # Errors
/// As [`Area::new`].
///
/// # Safety
/// The caller's octets can be read and written, hold values, and are in nobody else's hands while the slice lives.
pub(crate) unsafe fn write<'a>(begin: *mut u8, octets: usize) -> Result<&'a mut [u8], antedate_result> {
    Area::new(begin, octets)?;
    if octets == 0 {
        return Ok(&mut []);
    }
    // SAFETY: neither NULL nor too long, which `Area` has checked; the caller's alone, which it grants.
    Ok(unsafe { slice::from_raw_parts_mut(begin, octets) })
}

/// Up to `N` octets by value, and how many.
///
/// # Errors
/// As [`read`]; more octets than `N`.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn copy<const N: usize>(
    begin: *const u8,
    octets: usize,
) -> Result<([u8; N], usize), antedate_result> {
    let mut copied = [0; N];
    let place = copied.get_mut(..octets).ok_or(ANTEDATE_ERROR_LENGTH)?;
    // SAFETY: as the caller grants it.
    place.copy_from_slice(unsafe { read(begin, octets) }?);
    Ok((copied, octets))
}
