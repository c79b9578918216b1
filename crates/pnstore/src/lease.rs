//! Parts of a lease: the name of a key's PNs, and blocks of them.

use std::num::NonZeroU64;

use sha2::{Digest, Sha256};
use wire::{Pn, Sci, Ssci};

/// PNs reserved at a time, at most: 2^20.
///
/// At 1.5 million frames a second a block lasts 0.7 s, and the next is asked for at its half, so a disk has
/// 350 ms to sync.
pub const BLOCK_PNS: NonZeroU64 = block(1 << 20);

/// PNs of a transmit SA's first block: 2^16. Each block is twice as large as the one before, up to [`BLOCK_PNS`].
///
/// So a crash burns PNs in proportion to the frames since the start: this block, or five times the frames, and never more than
/// [`MOST_UNUSED_PNS`]. A gateway that crashes over and over without traffic uses up the 32 bits of a PN in 65,535 starts.
/// At 100,000 frames a second a disk has 330 ms to sync, as later at 1.5 million. At 1.5 million it has 22 ms in the beginning, and
/// frames that find no PN are discarded: 220,000 over the first three blocks of a disk that takes 100 ms.
pub const FIRST_BLOCK_PNS: NonZeroU64 = block(1 << 16);

/// The most PNs that a transmit SA has reserved and not used: 2^21. The next block is asked for when half of what was left behind the
/// one before is used, so `n` are left behind one block, and half of `n` and another block behind the next.
pub const MOST_UNUSED_PNS: u64 = 2 * BLOCK_PNS.get();

const fn block(pns: u64) -> NonZeroU64 {
    match NonZeroU64::new(pns) {
        Some(pns) => pns,
        None => NonZeroU64::MIN,
    }
}

/// PNs of the block behind one of that many.
pub fn next_block(pns: NonZeroU64) -> NonZeroU64 {
    pns.saturating_add(pns.get()).min(BLOCK_PNS)
}

/// Names the PNs of one SC under one key by what its nonces are made of besides the PN: SHA-256 over key and SCI,
/// or over key and SSCI with an XPN suite. The salt of an XPN suite is left out, so that a changed salt goes on
/// counting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseName(pub(super) [u8; 32]);

impl LeaseName {
    /// The name for a suite whose nonce is SCI and PN.
    pub fn new(key: &[u8], sci: Sci) -> Self {
        Self::digest(b"frameward lease sci\0", key, &sci.octets())
    }

    /// The name for an XPN suite, whose nonce is SSCI and PN under the salt.
    pub fn xpn(key: &[u8], ssci: Ssci) -> Self {
        Self::digest(b"frameward lease ssci\0", key, &ssci.0.to_be_bytes())
    }

    /// The digest.
    pub const fn octets(&self) -> &[u8; 32] {
        &self.0
    }

    fn digest(label: &[u8], key: &[u8], channel: &[u8]) -> Self {
        // Only the key's length varies and it stands last, so no two inputs hash the same octets.
        let hash = || Sha256::new().chain_update(label).chain_update(channel).chain_update(key).finalize();
        Self(suite::scrubbed(hash).into())
    }
}

/// PNs that are reserved on disk and were never reserved before; both ends belong to the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PnBlock {
    /// The lowest PN of the block.
    pub first: Pn,
    /// The highest PN of the block.
    pub last: Pn,
}

/// PNs of a transmit SA that is gone: reserved, and never used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnusedPns {
    /// The record on disk.
    pub name: LeaseName,
    /// The PN that the next frame would have had.
    pub next: Pn,
    /// The last PN that was reserved.
    pub through: Pn,
}

/// Outcome of a request for PNs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reservation {
    /// These PNs may be used.
    Block(PnBlock),
    /// The key has no PNs left: it must be changed.
    Exhausted,
}
