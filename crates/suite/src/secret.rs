//! Secret octets, and the traces of work with them on the stack.
//!
//! ```text
//!  Secret ──▶ heap: 16, 32 or so octets      moved, only the pointer is copied; dropped, the octets are wiped
//!  scrubbed(work)  ──▶ work's frames on the stack, then zeros over them
//! ```
//!
//! A value that wipes itself on drop wipes only its last place. Moves and cipher setup leave copies on the
//! stack until something overwrites them. So secrets stand on the heap from the first octet on, and work with
//! them is [`scrubbed`].
//!
//! Left out on purpose: registers, which the next few calls overwrite.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use aws_lc_rs::constant_time;
use zeroize::{Zeroizing, optimization_barrier};

/// Octets of stack that [`scrubbed`] overwrites: more than twice what reading a configuration takes, the
/// deepest work with keys.
const DEPTH: usize = 1 << 16;

/// Secret octets in one place until they are wiped. Never shown, compared in constant time.
pub struct Secret(Zeroizing<Box<[u8]>>);

impl Secret {
    /// This many zeros, to be filled in place.
    pub fn zeros(octets: usize) -> Self {
        Self(Zeroizing::new(vec![0; octets].into_boxed_slice()))
    }

    /// A copy. The caller wipes the source of `octets`.
    pub fn new(octets: &[u8]) -> Self {
        let mut secret = Self::zeros(octets.len());
        secret.octets_mut().copy_from_slice(octets);
        secret
    }

    /// The octets: for derivation, never for printing.
    pub fn octets(&self) -> &[u8] {
        &self.0
    }

    /// The octets, to be filled in.
    pub fn octets_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Number of octets. Not secret.
    pub fn length(&self) -> usize {
        self.0.len()
    }
}

/// A [`Secret`] of a fixed length.
pub struct SecretArray<const OCTETS: usize>(Box<Zeroizing<[u8; OCTETS]>>);

impl<const OCTETS: usize> SecretArray<OCTETS> {
    /// Zeros, to be filled in place.
    pub fn zeros() -> Self {
        Self(Box::new(Zeroizing::new([0; OCTETS])))
    }

    /// A copy. The caller wipes the source of `octets`.
    pub fn new(octets: &[u8; OCTETS]) -> Self {
        let mut secret = Self::zeros();
        secret.octets_mut().copy_from_slice(octets);
        secret
    }

    /// The octets: for derivation, never for printing.
    pub fn octets(&self) -> &[u8; OCTETS] {
        &self.0
    }

    /// The octets, to be filled in.
    pub fn octets_mut(&mut self) -> &mut [u8; OCTETS] {
        &mut self.0
    }
}

impl<const OCTETS: usize> Clone for SecretArray<OCTETS> {
    fn clone(&self) -> Self {
        Self::new(self.octets())
    }
}

impl<const OCTETS: usize> PartialEq for SecretArray<OCTETS> {
    /// In constant time.
    fn eq(&self, other: &Self) -> bool {
        constant_time::verify_slices_are_equal(self.octets(), other.octets()).is_ok()
    }
}

impl<const OCTETS: usize> Eq for SecretArray<OCTETS> {}

impl<const OCTETS: usize> fmt::Debug for SecretArray<OCTETS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretArray({OCTETS} octets)")
    }
}

impl Clone for Secret {
    fn clone(&self) -> Self {
        Self::new(self.octets())
    }
}

impl PartialEq for Secret {
    /// In constant time for secrets of one length; the length is not secret.
    fn eq(&self, other: &Self) -> bool {
        constant_time::verify_slices_are_equal(self.octets(), other.octets()).is_ok()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} octets)", self.length())
    }
}

/// Does `work`, then overwrites its part of the stack. The result may hold secrets behind pointers only.
/// Takes 64 KiB of stack and a few microseconds: not for the frame path.
pub fn scrubbed<T>(work: impl FnOnce() -> T) -> T {
    let result = apart(work);
    scrub_stack();
    result
}

/// Runs `work` in a frame of its own, never inlined into the caller's.
#[inline(never)]
fn apart<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Overwrites the 64 KiB of stack below the caller: the traces of its earlier calls.
#[inline(never)]
pub fn scrub_stack() {
    let below = [0_u8; DEPTH];
    optimization_barrier(&below);
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;

    #[test]
    fn a_secret_stays_where_it_is() {
        let secret = Secret::new(&[7; 32]);
        let at = secret.octets().as_ptr();
        let moved = [Some(secret)];
        let [Some(again)] = moved else { unreachable!() };
        assert_eq!(again.octets().as_ptr(), at);
        assert_ne!(again.clone().octets().as_ptr(), at);
        assert_eq!(again.clone(), again);
        assert_ne!(again, Secret::new(&[7; 16]));
        assert_ne!(again, Secret::new(&[8; 32]));
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new(&[0xab; 16])), "Secret(16 octets)");
    }
}
