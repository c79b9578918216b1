//! Secure Association Keys: the secret octets, before they are prepared for a cipher.
//!
//! A SAK is wiped when dropped, never shown, and compared in constant time.

use core::fmt;

use crate::{CipherSuite, Secret};

/// A Secure Association Key: 16 or 32 secret octets.
#[derive(Clone, PartialEq, Eq)]
pub struct Sak(Secret);

/// Error of a key whose length is not its suite's. Lengths in octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongKeyLength {
    /// Length that the suite needs.
    pub expected: usize,
    /// Given length.
    pub given: usize,
}

impl Sak {
    /// A SAK for `suite`. The caller wipes the source of `octets`.
    pub fn new(suite: CipherSuite, octets: &[u8]) -> Result<Self, WrongKeyLength> {
        let (expected, given) = (suite.key_octets(), octets.len());
        if given != expected {
            return Err(WrongKeyLength { expected, given });
        }
        Ok(Self(Secret::new(octets)))
    }

    /// A SAK for `suite` from a secret, which is not copied.
    pub fn of(suite: CipherSuite, secret: Secret) -> Result<Self, WrongKeyLength> {
        let (expected, given) = (suite.key_octets(), secret.length());
        if given == expected { Ok(Self(secret)) } else { Err(WrongKeyLength { expected, given }) }
    }

    /// The secret octets: for derivation, never for printing.
    pub fn octets(&self) -> &[u8] {
        self.0.octets()
    }
}

impl fmt::Debug for Sak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sak({} octets)", self.0.length())
    }
}

impl fmt::Display for WrongKeyLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key of {} octets where the cipher suite wants {}", self.given, self.expected)
    }
}

impl core::error::Error for WrongKeyLength {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;

    #[test]
    fn only_the_suites_own_length_is_taken() {
        for suite in CipherSuite::ALL {
            for given in 0..=64 {
                let expected = suite.key_octets();
                let octets = [7; 64];
                match Sak::new(suite, &octets[..given]) {
                    Ok(sak) => {
                        assert_eq!(given, expected, "{suite}");
                        assert_eq!(sak.octets(), &octets[..given]);
                    }
                    Err(error) => {
                        assert_ne!(given, expected, "{suite}");
                        assert_eq!(error, WrongKeyLength { expected, given });
                    }
                }
            }
        }
    }

    #[test]
    fn equal_only_if_every_octet_is() {
        let sak = Sak::new(CipherSuite::GcmAes256, &[0; 32]).unwrap();
        for i in 0..32 {
            let mut octets = [0; 32];
            assert_eq!(sak, Sak::new(CipherSuite::Aegis256, &octets).unwrap());
            octets[i] = 1;
            assert_ne!(sak, Sak::new(CipherSuite::GcmAes256, &octets).unwrap());
        }
        assert_ne!(sak, Sak::new(CipherSuite::GcmAes128, &[0; 16]).unwrap());
    }

    #[test]
    fn debug_keeps_the_secret() {
        let sak = Sak::new(CipherSuite::GcmAes128, &[0xab; 16]).unwrap();
        assert_eq!(format!("{sak:?}"), "Sak(16 octets)");
    }
}
