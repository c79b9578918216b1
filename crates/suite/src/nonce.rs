//! Nonces: 12 octets that no two frames under one key share.
//!
//! ```text
//!         0               4               8              12
//!         +---------------+---------------+---------------+
//!         | SCI                           | PN            |        clauses 14.5, 14.6, and our own suites
//!         +---------------+---------------+---------------+
//!         | SSCI          | PN                            | xor Salt        clauses 14.7, 14.8 (XPN)
//!         +---------------+---------------+---------------+
//! ```
//!
//! A suite with a longer nonce appends zeros. Nonces are stored with the first of those zeros: a cipher that
//! reads 16 octets right after a write in pieces waits for the store buffer. For the same reason a burst's
//! nonces are composed before its first frame is sealed.

use wire::{Pn, Sci, Ssci};

/// A nonce, unique for each frame under one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(16))]
pub struct Nonce([u8; 16]);

/// The 96-bit Salt of an XPN suite's SAK (clause 14.7). Not a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Salt(pub [u8; 12]);

impl Nonce {
    /// Octets of a nonce.
    pub const OCTETS: usize = 12;

    /// Nonce of a suite with a 32-bit PN: `SCI 8 | PN 4`. Uses only the low 32 bits of a wider PN.
    pub const fn new(sci: Sci, pn: Pn) -> Self {
        let high = u64::from_be_bytes(sci.octets()) as u128;
        Self((high << 64 | (pn.low() as u128) << 32).to_be_bytes())
    }

    /// The nonce of an XPN suite: `(SSCI 4 | PN 8) xor Salt 12`.
    pub const fn xpn(ssci: Ssci, pn: Pn, salt: &Salt) -> Self {
        let Self(salt) = Self::from_octets(salt.0);
        let plain = (ssci.0 as u128) << 96 | (pn.number() as u128) << 32;
        Self((plain ^ u128::from_be_bytes(salt)).to_be_bytes())
    }

    /// A nonce from all its octets.
    pub const fn from_octets(octets: [u8; 12]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = octets;
        Self([a, b, c, d, e, f, g, h, i, j, k, l, 0, 0, 0, 0])
    }

    /// A nonce from the upper twelve octets of this number.
    pub(crate) const fn from_number(number: u128) -> Self {
        Self(number.to_be_bytes())
    }

    /// The twelve octets.
    pub const fn octets(&self) -> [u8; 12] {
        let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = self.0;
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    /// The nonce for a cipher with 16 octets.
    pub(crate) const fn extended_16(&self) -> &[u8; 16] {
        &self.0
    }

    /// The nonce for a cipher with 32 octets.
    pub(crate) fn extended_32(&self) -> [u8; 32] {
        let mut octets = [0; 32];
        octets[..16].copy_from_slice(&self.0);
        octets
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    const SCI: Sci = Sci::from_octets([0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8]);

    #[test]
    fn sci_and_pn_stand_side_by_side() {
        let pn = Pn::new(0x0102_0304).unwrap();
        let octets = [0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 1, 2, 3, 4];
        assert_eq!(Nonce::new(SCI, pn).octets(), octets);
        assert_eq!(Nonce::new(SCI, pn), Nonce::from_octets(octets));
        let beyond = Pn::new(0xffff_ffff_0102_0304).unwrap();
        assert_eq!(Nonce::new(SCI, beyond).octets(), octets, "the SCI stays whole");
    }

    #[test]
    fn ssci_and_pn_are_masked_with_the_salt() {
        let pn = Pn::new(0x0102_0304_0506_0708).unwrap();
        let ssci = Ssci(0xa0b0_c0d0);
        assert_eq!(
            Nonce::xpn(ssci, pn, &Salt([0; 12])).octets(),
            [0xa0, 0xb0, 0xc0, 0xd0, 1, 2, 3, 4, 5, 6, 7, 8]
        );
        let salt = Salt([0xff, 0, 0, 0x0f, 0x10, 0, 0, 0, 0, 0, 0, 0xf0]);
        assert_eq!(
            Nonce::xpn(ssci, pn, &salt).octets(),
            [0x5f, 0xb0, 0xc0, 0xdf, 0x11, 2, 3, 4, 5, 6, 7, 0xf8]
        );
    }

    #[test]
    fn longer_nonces_end_in_zeros() {
        let nonce = Nonce::xpn(Ssci(u32::MAX), Pn::LAST_64, &Salt([0; 12]));
        assert_eq!(nonce.extended_16()[..12], [0xff; 12]);
        assert_eq!(nonce.extended_16()[12..], [0; 4]);
        assert_eq!(nonce.extended_32()[..12], [0xff; 12]);
        assert_eq!(nonce.extended_32()[12..], [0; 20]);
    }

    proptest! {
        #[test]
        fn frames_of_one_key_differ_in_their_nonces(a in 1u64.., b in 1u64.., salt: [u8; 12], s: u32, t: u32) {
            let (a, b) = (Pn::new(a).unwrap(), Pn::new(b).unwrap());
            let nonce = |ssci, pn| Nonce::xpn(Ssci(ssci), pn, &Salt(salt));
            prop_assert_eq!(nonce(s, a) == nonce(t, b), s == t && a == b);
            prop_assert_eq!(Nonce::new(SCI, a) == Nonce::new(SCI, b), a.low() == b.low());
        }
    }
}
