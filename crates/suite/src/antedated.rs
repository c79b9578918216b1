//! GCM with a keystream made before the frame exists. On a CPU without AES instructions, idle time then
//! covers half of the cipher's work.
//!
//! ```text
//!  before:  keystream = AES(J_0 + 1), AES(J_0 + 2), …      by the counter mode of aws-lc
//!  online:  text xor keystream
//!           ICV = GCM's tag over  AAD padded | text padded  as AAD alone,  xor  H · (lengths xor its lengths)
//! ```
//!
//! GHASH runs over the encrypted text, so nothing of it can be done ahead. It is all that remains, so its
//! fastest code decides. aws-lc has that code, in vectors where there is no carry-less multiplication, but
//! only inside GCM. So the ICV is computed for a message without text, whose AAD is ours and the text in
//! GHASH's layout. The two hashes differ in their last block, the lengths, which is multiplied by H once.
//! GHASH is linear: the correction is an exclusive-or of the products of H with the differing bits. These
//! products are computed with the key, by the crate `ghash`, whose software multiplication is 1.5 times
//! slower than aws-lc's vectors.
//!
//! The result equals that of [`Key::seal_each`](crate::Key::seal_each) and `open_each`, bit by bit. A frame
//! uses up the [`Keystream`] that it is sealed or opened with. A forged frame does not: authenticity is known
//! before the text is touched, so forgeries cannot delay the true frame.
//!
//! Left out on purpose: texts longer than [`Keystream::LONGEST`] and AADs longer than [`AAD_OCTETS`], which
//! take the ordinary way; and the number of keystreams ahead (the SecY's decision).

use alloc::boxed::Box;
use core::fmt;

use aws_lc_rs::aead::Aad;
use aws_lc_rs::cipher::{AES_128, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::iv::FixedLength;
use ghash::GHash;
use ghash::universal_hash::UniversalHash as _;
use zeroize::{Zeroizing, optimization_barrier};

use crate::aead::{Aead as _, AwsLc};
use crate::{ICV_OCTETS, Nonce, OpenJob, SealJob};

/// Octets of an AES block.
const BLOCK: usize = 16;

/// Longest AAD of an antedated frame: addresses, SecTAG, extension headers, confidentiality offset.
pub const AAD_OCTETS: usize = 128;

/// Bits of a length in octets. The key holds twice as many products of H.
const LENGTH_BITS: usize = 11;
const _: () = assert!(AAD_OCTETS + Keystream::LONGEST < 1 << LENGTH_BITS);
const _: () = assert!(AAD_OCTETS.is_multiple_of(BLOCK) && Keystream::LONGEST.is_multiple_of(BLOCK));

/// Share of a frame's keystream that was prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheHit {
    /// All of it.
    Full,
    /// Its beginning; the rest was made with the frame.
    Partial,
    /// Nothing: the frame took the ordinary way.
    Miss,
}

/// Maker of keystreams for one key.
pub struct Antedater {
    pub(crate) gcm: AwsLc,
    counter_mode: EncryptingKey,
    /// H times each bit of the block of lengths, in bits: those of the AAD, then those of the text.
    products: Zeroizing<[u128; 2 * LENGTH_BITS]>,
}

/// Memory for a keystream; zeros.
pub struct KeystreamBuffer(Octets);

/// The keystream of one nonce, or its beginning. Used up by one frame, and wiped.
pub struct Keystream {
    nonce: Nonce,
    octets: Octets,
}

/// Slot for a keystream, which enters and leaves by value.
#[derive(Debug)]
pub struct KeystreamSlot(Option<SlotContent>);

#[derive(Debug)]
enum SlotContent {
    Free(KeystreamBuffer),
    Ready(Keystream),
}

/// Scratch memory for hashing a frame; holds no secret.
pub struct Scratch(Box<[u8; AAD_OCTETS + Keystream::LONGEST]>);

/// Octets that are zero from `filled` on.
struct Octets {
    octets: Box<[u8; Keystream::LONGEST]>,
    filled: usize,
}

impl Octets {
    fn wipe(&mut self) {
        // As zeroize does, but not octet by octet.
        let filled = &mut self.octets[..self.filled];
        filled.fill(0);
        optimization_barrier(filled);
        self.filled = 0;
    }
}

impl Drop for Octets {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl KeystreamBuffer {
    /// Allocates.
    #[expect(clippy::new_without_default, reason = "it allocates")]
    pub fn new() -> Self {
        Self(Octets { octets: Box::new([0; Keystream::LONGEST]), filled: 0 })
    }
}

impl Scratch {
    /// Allocates.
    #[expect(clippy::new_without_default, reason = "it allocates")]
    pub fn new() -> Self {
        Self(Box::new([0; AAD_OCTETS + Keystream::LONGEST]))
    }
}

impl Keystream {
    /// Octets of the longest antedated text: a full-size frame's, in whole blocks.
    pub const LONGEST: usize = 1536;

    /// Its nonce.
    pub const fn nonce(&self) -> &Nonce {
        &self.nonce
    }

    /// Number of prepared octets.
    pub const fn ready(&self) -> usize {
        self.octets.filled
    }

    /// Discards it unused, wiped.
    pub fn discard(self) -> KeystreamBuffer {
        let mut octets = self.octets;
        octets.wipe();
        KeystreamBuffer(octets)
    }
}

impl KeystreamSlot {
    /// An empty slot. Allocates.
    #[expect(clippy::new_without_default, reason = "it allocates")]
    pub fn new() -> Self {
        Self(Some(SlotContent::Free(KeystreamBuffer::new())))
    }

    /// Makes the keystream of `nonce` here, as [`Antedater::prepare`] does. Discards an earlier one.
    pub fn prepare(&mut self, antedater: &Antedater, nonce: Nonce, octets: usize) {
        let buffer = match self.0.take() {
            Some(SlotContent::Free(buffer)) => buffer,
            Some(SlotContent::Ready(keystream)) => keystream.discard(),
            None => return,
        };
        self.0 = Some(SlotContent::Ready(antedater.prepare(buffer, nonce, octets)));
    }

    /// Takes the keystream of `nonce`, if it is here.
    pub fn take(&mut self, nonce: &Nonce) -> Option<Keystream> {
        match self.0.take() {
            Some(SlotContent::Ready(keystream)) if keystream.nonce == *nonce => Some(keystream),
            other => {
                self.0 = other;
                None
            }
        }
    }

    /// Returns the memory of a used keystream.
    pub fn reclaim(&mut self, buffer: KeystreamBuffer) {
        self.0 = Some(SlotContent::Free(buffer));
    }

    /// Returns an unused keystream.
    pub fn restore(&mut self, keystream: Keystream) {
        self.0 = Some(SlotContent::Ready(keystream));
    }
}

impl Antedater {
    /// For a key of 16 or 32 octets, from which `gcm` was made too.
    pub(crate) fn new(gcm: AwsLc, key: &[u8]) -> Option<Self> {
        let algorithm = if key.len() == 16 { &AES_128 } else { &AES_256 };
        let counter_mode = EncryptingKey::ctr(UnboundCipherKey::new(algorithm, key).ok()?).ok()?;
        let mut antedater = Self { gcm, counter_mode, products: Zeroizing::new([0; 2 * LENGTH_BITS]) };
        let mut h = Zeroizing::new([0; BLOCK]);
        antedater.apply([0; BLOCK], &mut *h).then_some(())?;
        let ghash = GHash::new((&*h).into());
        for (at, product) in antedater.products.iter_mut().enumerate() {
            let bits = 8_u128 << (at % LENGTH_BITS);
            let block = if at < LENGTH_BITS { bits << 64 } else { bits };
            let mut ghash = ghash.clone();
            ghash.update(&[block.to_be_bytes().into()]);
            *product = u128::from_be_bytes(ghash.finalize().into());
        }
        Some(antedater)
    }

    /// Makes the first `octets` of the keystream of `nonce`, rounded up to whole blocks, at most
    /// [`Keystream::LONGEST`]. Does not allocate; its time is linear in them.
    pub fn prepare(&self, buffer: KeystreamBuffer, nonce: Nonce, octets: usize) -> Keystream {
        let KeystreamBuffer(mut octets_of) = buffer;
        let filled = octets.min(Keystream::LONGEST).next_multiple_of(BLOCK);
        // A failure leaves nothing prepared, so nothing wrong is used.
        if self.apply(counter_block(&nonce, 0), &mut octets_of.octets[..filled]) {
            octets_of.filled = filled;
        }
        Keystream { nonce, octets: octets_of }
    }

    /// Seals a frame; `keystream` is from this antedater. Discards a keystream of another nonce unused.
    /// Neither allocates nor locks.
    pub fn seal(
        &self,
        keystream: Keystream,
        job: SealJob<'_>,
        scratch: &mut Scratch,
    ) -> (KeystreamBuffer, CacheHit) {
        let SealJob { nonce, aad, text, icv } = job;
        if keystream.nonce != nonce || !fits(aad, text) {
            self.gcm.seal(&nonce, aad, text, icv);
            return (keystream.discard(), CacheHit::Miss);
        }
        let hit = self.consume(&keystream, text);
        let (Some(hit), Some(own)) = (hit, self.icv(&nonce, aad, text, scratch)) else {
            // aws-lc refuses no text of this length. None of it may leave in clear.
            text.fill(0);
            icv.fill(0);
            return (keystream.discard(), CacheHit::Miss);
        };
        *icv = own;
        (keystream.discard(), hit)
    }

    /// Opens a frame; `keystream` is from this antedater. As with [`Key::open_each`](crate::Key::open_each),
    /// nothing is left of a text that is not authentic. Neither allocates nor locks.
    ///
    /// # Errors
    /// The frame is not authentic. The keystream is still whole: nothing was decrypted with it.
    pub fn open(
        &self,
        keystream: Keystream,
        job: OpenJob<'_>,
        scratch: &mut Scratch,
    ) -> Result<(KeystreamBuffer, CacheHit), Keystream> {
        let OpenJob { nonce, aad, text, icv, authentic } = job;
        if keystream.nonce != nonce || !fits(aad, text) {
            *authentic = self.gcm.open(&nonce, aad, text, icv);
            if !*authentic {
                text.fill(0);
                return Err(keystream);
            }
            return Ok((keystream.discard(), CacheHit::Miss));
        }
        let own = self.icv(&nonce, aad, text, scratch);
        *authentic = own.is_some_and(|own| verify_slices_are_equal(&own, icv).is_ok());
        if !*authentic {
            text.fill(0);
            return Err(keystream);
        }
        let hit = self.consume(&keystream, text);
        if hit.is_none() {
            *authentic = false;
            text.fill(0);
        }
        Ok((keystream.discard(), hit.unwrap_or(CacheHit::Miss)))
    }

    /// Encrypts or decrypts, and makes the missing keystream. `None` if that failed.
    fn consume(&self, keystream: &Keystream, text: &mut [u8]) -> Option<CacheHit> {
        let ready = keystream.ready();
        let (covered, rest) = text.split_at_mut(ready.min(text.len()));
        for (octet, with) in covered.iter_mut().zip(keystream.octets.octets.iter()) {
            *octet ^= with;
        }
        if rest.is_empty() {
            return Some(CacheHit::Full);
        }
        let hit = if ready == 0 { CacheHit::Miss } else { CacheHit::Partial };
        self.apply(counter_block(&keystream.nonce, ready / BLOCK), rest).then_some(hit)
    }

    /// ICV of an encrypted frame that [`fits`].
    fn icv(
        &self,
        nonce: &Nonce,
        aad: &[u8],
        text: &[u8],
        Scratch(scratch): &mut Scratch,
    ) -> Option<[u8; ICV_OCTETS]> {
        let text_at = aad.len().next_multiple_of(BLOCK);
        let end = text_at + text.len().next_multiple_of(BLOCK);
        scratch[..aad.len()].copy_from_slice(aad);
        scratch[aad.len()..text_at].fill(0);
        scratch[text_at..text_at + text.len()].copy_from_slice(text);
        scratch[text_at + text.len()..end].fill(0);
        let mut icv = [0; ICV_OCTETS];
        let hashed = Aad::from(&scratch[..end]);
        self.gcm.0.seal_in_place_scatter(AwsLc::nonce(nonce), hashed, &mut [], &[], &mut icv).ok()?;
        // Over all bits: the lengths are no secret, but this keeps the time independent of them.
        let differ = (aad.len() ^ end) | text.len() << LENGTH_BITS;
        let products = self.products.iter().enumerate();
        let correction = products
            .fold(0, |sum, (at, product)| sum ^ (product & 0_u128.wrapping_sub((differ >> at & 1) as u128)));
        Some((u128::from_be_bytes(icv) ^ correction).to_be_bytes())
    }

    /// Encrypts in counter mode from this counter block. False if aws-lc refuses, which it does only for a
    /// context of another mode.
    fn apply(&self, first: [u8; BLOCK], octets: &mut [u8]) -> bool {
        let context = EncryptionContext::Iv128(FixedLength::from(first));
        octets.is_empty() || self.counter_mode.less_safe_encrypt(octets, context).is_ok()
    }
}

/// Counter block of this block of the text: J_0 ends in 1, the text's first in 2.
fn counter_block(nonce: &Nonce, block: usize) -> [u8; BLOCK] {
    let mut counter = *nonce.extended_16();
    counter[Nonce::OCTETS..].copy_from_slice(&(block as u32 + 2).to_be_bytes());
    counter
}

const fn fits(aad: &[u8], text: &[u8]) -> bool {
    aad.len() <= AAD_OCTETS && text.len() <= Keystream::LONGEST
}

impl fmt::Debug for Antedater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Antedater")
    }
}

impl fmt::Debug for KeystreamBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blank")
    }
}

impl fmt::Debug for Keystream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keystream({} octets)", self.ready())
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scratch")
    }
}
