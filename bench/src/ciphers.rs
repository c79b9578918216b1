//! The ciphers of cyclic frames by themselves, as the paper measures its engine: many relations, each under a key of its
//! own, one frame after the other.
//!
//! ```text
//!  chunk 2048, of 64:   AAD | text | ICV 16       the frame at i is that of the i-th relation named
//! ```
//!
//! Nonces are composed for a burst beforehand, as a data path does. Seqs count bursts, so a relation that has two frames in
//! one burst has one nonce twice: these are frames that nobody sends.

use std::iter;

use arrayvec::ArrayVec;
use suite::fieldbus::{DirectionKey, KeyContext, MasterKey};
use suite::{ICV_OCTETS, Nonce, OpenJob, SealJob};
use wire::MacAddr;
use wire::fieldbus::{FrameId, HandshakeNonce, Protection, Seq};

use speed::burst::{BURST, CHUNK};
use speed::frame_times::Work;

/// Octets that the cipher takes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lengths {
    /// Authenticated and in clear.
    pub aad: usize,
    /// Encrypted.
    pub text: usize,
}

/// The keys of many relations, and a burst of frames.
#[derive(Debug)]
pub struct Ciphers {
    keys: Vec<DirectionKey>,
    chunks: Vec<u8>,
    lengths: Lengths,
    seq: Seq,
}

impl Ciphers {
    /// `relations` relations, and frames of `lengths`.
    ///
    /// # Panics
    /// If such a frame does not fit into a chunk of 2048 octets.
    pub fn new(relations: usize, protection: Protection, lengths: Lengths) -> Self {
        let octets = lengths.aad + lengths.text + ICV_OCTETS;
        assert!(octets <= CHUNK, "{octets} octets fit no chunk");
        let master = MasterKey::new(&[0x5a; 32]);
        let keys = (0..relations).map(|number| master.direction_key(&direction(number, protection)));
        Self { keys: keys.collect(), chunks: vec![0xa5; BURST * CHUNK], lengths, seq: Seq::FIRST }
    }

    /// Seals a frame of each of these relations, up to 64.
    pub fn seal(&mut self, relations: &[usize]) {
        self.seq = self.seq.next().unwrap_or(Seq::FIRST);
        let Self { keys, chunks, lengths, .. } = self;
        for ((relation, nonce), chunk) in
            relations.iter().zip(nonces(keys, relations, self.seq)).zip(chunks.chunks_exact_mut(CHUNK))
        {
            let (aad, text, icv) = parts(chunk, *lengths);
            keys[*relation].key().seal_each(iter::once(SealJob { nonce, aad, text, icv }));
        }
    }

    /// Opens what was sealed last, which must have been for these relations. Whether all of it was authentic.
    pub fn open(&mut self, relations: &[usize]) -> bool {
        let Self { keys, chunks, lengths, .. } = self;
        let mut all = true;
        for ((relation, nonce), chunk) in
            relations.iter().zip(nonces(keys, relations, self.seq)).zip(chunks.chunks_exact_mut(CHUNK))
        {
            let ((aad, text, icv), mut authentic) = (parts(chunk, *lengths), false);
            let job = OpenJob { nonce, aad, text, icv, authentic: &mut authentic };
            keys[*relation].key().open_each(iter::once(job));
            all &= authentic;
        }
        all
    }
}

fn nonces(keys: &[DirectionKey], relations: &[usize], seq: Seq) -> ArrayVec<Nonce, BURST> {
    relations.iter().map(|relation| keys[*relation].nonce(seq)).collect()
}

fn parts(chunk: &mut [u8], lengths: Lengths) -> (&[u8], &mut [u8], &mut [u8; ICV_OCTETS]) {
    let (aad, rest) = chunk.split_at_mut(lengths.aad);
    let (text, rest) = rest.split_at_mut(lengths.text);
    (aad, text, rest.first_chunk_mut().expect("invariant: a frame fits its chunk"))
}

/// One direction of relation `number`.
fn direction(number: usize, protection: Protection) -> KeyContext {
    let [high, low] = (number as u16).to_be_bytes();
    KeyContext {
        stations: [
            (MacAddr([2, 0, 0, 0, 0, 1]), FrameId(0x8000 | number as u16)),
            (MacAddr([2, 0, 0, 1, high, low]), FrameId(0x8000 | number as u16)),
        ],
        from_higher: false,
        nonces: [HandshakeNonce([1; 16]), HandshakeNonce([2; 16])],
        protection,
        epoch: 0,
    }
}

/// The cipher alone.
impl Work for Ciphers {
    fn prepare(&mut self, _relations: &[usize]) {}

    fn protect(&mut self, relations: &[usize]) {
        self.seal(relations);
    }

    fn verify(&mut self, relations: &[usize]) {
        assert!(self.open(relations), "what was sealed does not open");
    }
}

#[cfg(test)]
mod tests {
    use wire::fieldbus::{CellSuite, Protect};

    use super::*;

    #[test]
    fn each_relation_has_its_own_key() {
        let protection = Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 };
        let mut ciphers = Ciphers::new(3, protection, Lengths { aad: 19, text: 44 });
        let (order, other) = ([2, 0, 1, 2], [2, 1, 0, 2]);
        ciphers.seal(&order);
        assert!(ciphers.open(&order));
        assert!(!ciphers.open(&order), "plaintext is no ciphertext");
        ciphers.seal(&order);
        assert!(!ciphers.open(&other), "two frames are not under the keys of these relations");
    }
}
