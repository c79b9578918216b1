//! Parts of a world's stations: settings, CAKs, times, chance.

use std::time::Duration;

use mka::{Announced, CakEntry, OnPeerLoss, Settings, SuiteRule, SuiteTiming};
use suite::CipherSuite;
use suite::mka::Cak;
use wire::mkpdu::{Capability, Confidentiality};
use wire::{Ckn, MacAddr, Sci};

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Pseudo-random numbers (splitmix64): the same for the same seed.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A CAK of 16 octets, all the same, under a name that is this octet.
pub(crate) fn cak(octet: u8) -> CakEntry {
    named_cak(&[octet], octet)
}

pub(crate) fn named_cak(name: &[u8], octet: u8) -> CakEntry {
    CakEntry { ckn: Ckn::new(name).expect("a name"), cak: Cak::new(&[octet; 16]).expect("16 octets") }
}

/// Settings of station `i`: its priority is 16, and its SCI rises with `i`.
pub(crate) fn settings(i: usize) -> Settings {
    let source = MacAddr([2, 0, 0, 0, 0, i as u8 + 1]);
    Settings {
        sci: Sci::new(source, 1),
        source,
        destination: MacAddr([1, 0x80, 0xc2, 0, 0, 3]),
        priority: 16,
        capability: Capability::Offsets,
        confidentiality: Confidentiality::Zero,
        suite: SuiteRule::Any,
        announced: Announced {
            reassembles: true,
            splits: true,
            carries_whole: false,
            in_kernel: false,
            express: true,
            takes_padded: true,
            largest_sdu: 2000,
            name: None,
            suites: vec![SuiteTiming { suite: CipherSuite::GcmAes128, nanoseconds: 100 }],
        },
        fragment: true,
        concatenate: true,
        pad: true,
        delay_protect: false,
        sak_lifetime: None,
        on_peer_loss: OnPeerLoss::Block,
        peers: vec![],
        accept_integrity: false,
    }
}
