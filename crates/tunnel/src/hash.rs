//! Keyed hashes for [`Table`](crate::table::Table): of addresses and flows, which others choose.

use siphasher::sip::SipHasher13;
use wire::tunnel::Flow;
use wire::{MacAddr, Sci};

/// Hasher under octets that no machine knows.
#[derive(Clone)]
pub(crate) struct Hasher(SipHasher13);

impl core::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Hasher")
    }
}

impl Hasher {
    pub(crate) fn new(seed: &[u8; 16]) -> Self {
        Self(SipHasher13::new_with_key(seed))
    }

    pub(crate) fn flow(&self, flow: &Flow) -> u64 {
        if !flow.tags.is_empty() {
            return self.tagged_flow(flow);
        }
        self.0.hash(&flow.encode())
    }

    #[cold]
    #[inline(never)]
    fn tagged_flow(&self, flow: &Flow) -> u64 {
        self.0.hash(&flow.encode_tagged())
    }

    pub(crate) fn address(&self, address: MacAddr) -> u64 {
        self.0.hash(&address.0)
    }

    pub(crate) fn sci(&self, sci: Sci) -> u64 {
        self.0.hash(&sci.octets())
    }
}
