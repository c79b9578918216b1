//! A burst of frames as the frame path has it when it comes to the cipher: what is timed to compare suites.
//!
//! ```text
//!  chunk 2048, of 64:   headroom 240 | AAD 28: DA, SA, SecTAG with SCI | text | ICV 16
//! ```
//!
//! Nonces are composed beforehand, as the SecY does: one that is written in pieces just before the cipher reads it
//! stalls the store buffer. The same nonces come with each burst: these are frames that nobody sends.

use suite::{CipherSuite, ICV_OCTETS, Key, Nonce, OpenJob, Sak, SealJob};

/// Frames of a burst.
pub const BURST: usize = 64;
/// Octets in front of a frame in its chunk, as the engine leaves them.
pub const HEADROOM: usize = 256;
/// Octets of a chunk.
pub const CHUNK: usize = 2048;

/// Octets of the AAD of an encrypted frame: DA, SA and a SecTAG with SCI.
pub const AAD_OCTETS: usize = 28;

/// The key of all benches, as many octets of it as a suite wants.
pub const KEY: [u8; 32] = [0x5a; 32];

/// Offset of a frame in its chunk: its SecTAG has grown into the headroom.
const START: usize = HEADROOM - 16;

/// 64 frames of one length, each in a chunk of its own.
#[derive(Debug)]
pub struct Burst {
    chunks: Vec<u8>,
    text_octets: usize,
    nonces: [Nonce; BURST],
    authentic: [bool; BURST],
}

/// One frame of a burst, in the parts that a cipher takes.
#[derive(Debug)]
pub struct Parts<'b> {
    /// Authenticated and in clear.
    pub aad: &'b [u8],
    /// Encrypted.
    pub text: &'b mut [u8],
    /// Its ICV.
    pub icv: &'b mut [u8; ICV_OCTETS],
    /// Whether it was authentic when it was opened last.
    pub authentic: &'b mut bool,
}

/// A key for `suite` that is no secret.
pub fn prepared(suite: CipherSuite) -> Key {
    let sak = Sak::new(suite, &KEY[..suite.key_octets()]).expect("invariant: the suite's length");
    Key::prepare(suite, &sak).expect("invariant: the suite's length")
}

/// A key for `suite`, one of GCM-AES, that is no secret and whose frames can be antedated.
pub fn prepared_antedated(suite: CipherSuite) -> Key {
    let sak = Sak::new(suite, &KEY[..suite.key_octets()]).expect("invariant: the suite's length");
    Key::prepare_antedated(suite, &sak).expect("invariant: the suite's length")
}

/// The nonce of the frame at `at`.
pub const fn nonce(at: usize) -> [u8; Nonce::OCTETS] {
    let mut octets = [0x02; Nonce::OCTETS];
    octets[Nonce::OCTETS - 1] = at as u8;
    octets
}

impl Burst {
    /// Frames whose text has `text_octets`.
    ///
    /// # Panics
    /// If such a frame does not fit into a chunk of 2048 octets.
    pub fn new(text_octets: usize) -> Self {
        assert!(START + AAD_OCTETS + text_octets + ICV_OCTETS <= CHUNK, "{text_octets} octets fit no chunk");
        Self {
            chunks: vec![0xa5; BURST * CHUNK],
            text_octets,
            nonces: std::array::from_fn(|at| Nonce::from_octets(nonce(at))),
            authentic: [false; BURST],
        }
    }

    /// Seals every frame.
    pub fn seal(&mut self, key: &Key) {
        let nonces = self.nonces;
        let jobs = self.parts().zip(&nonces);
        key.seal_each(jobs.map(|(Parts { aad, text, icv, .. }, nonce)| SealJob {
            nonce: *nonce,
            aad,
            text,
            icv,
        }));
    }

    /// Opens every frame.
    pub fn open(&mut self, key: &Key) {
        let nonces = self.nonces;
        let jobs = self.parts().zip(&nonces);
        key.open_each(jobs.map(|(Parts { aad, text, icv, authentic }, nonce)| OpenJob {
            nonce: *nonce,
            aad,
            text,
            icv,
            authentic,
        }));
    }

    /// The frames' nonces.
    pub const fn nonces(&self) -> &[Nonce; BURST] {
        &self.nonces
    }

    /// Whether every frame was authentic when it was opened last.
    pub fn is_authentic(&self) -> bool {
        self.authentic == [true; BURST]
    }

    /// The frames, in order.
    pub fn parts(&mut self) -> impl Iterator<Item = Parts<'_>> {
        let text_octets = self.text_octets;
        self.chunks.chunks_exact_mut(CHUNK).zip(&mut self.authentic).map(move |(chunk, authentic)| {
            let (aad, rest) = chunk[START..].split_at_mut(AAD_OCTETS);
            let (text, rest) = rest.split_at_mut(text_octets);
            let icv = rest.first_chunk_mut().expect("invariant: a frame fits its chunk");
            Parts { aad, text, icv, authentic }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_once() {
        for octets in [0, 64, 1468] {
            let (mut burst, key) = (Burst::new(octets), prepared(CipherSuite::GcmAes128));
            assert!(!burst.is_authentic());
            burst.seal(&key);
            assert!(octets == 0 || burst.parts().all(|parts| parts.text.iter().any(|octet| *octet != 0xa5)));
            burst.open(&key);
            assert!(burst.is_authentic());
            assert!(burst.parts().all(|parts| parts.text.iter().all(|octet| *octet == 0xa5)));
            burst.open(&key);
            assert!(octets == 0 || !burst.is_authentic(), "plaintext is no ciphertext");
        }
    }
}
