//! A CAK with the keys that follow from it (IEEE 802.1X-2020 clause 9.3.3).

use suite::mka::{Cak, Ick, Kek};
use suite::{CipherSuite, Sak};
use wire::mkpdu::Mkpdu;
use wire::{Ckn, Mi};

use crate::reason::Refusal;
use crate::settings::CakEntry;

/// A wrapped SAK.
#[derive(Debug)]
pub(crate) struct WrappedSak {
    octets: [u8; 40],
    length: usize,
}

/// A CAK with its name, its ICK and its KEK.
#[derive(Debug)]
pub(crate) struct Keys {
    ckn: Ckn,
    cak: Cak,
    ick: Ick,
    kek: Kek,
}

impl WrappedSak {
    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}

impl Keys {
    pub(crate) fn new(entry: CakEntry) -> Self {
        let CakEntry { ckn, cak } = entry;
        Self { ckn, ick: cak.ick(&ckn), kek: cak.kek(&ckn), cak }
    }

    /// True if this entry has the same name and key.
    pub(crate) fn are_of(&self, entry: &CakEntry) -> bool {
        self.ckn == entry.ckn && self.cak == entry.cak
    }

    pub(crate) const fn ckn(&self) -> Ckn {
        self.ckn
    }

    pub(crate) fn icv(&self, octets: &[u8]) -> [u8; 16] {
        self.ick.icv(octets)
    }

    /// True if the MKPDU has this CKN, and its ICV is right under this CAK.
    pub(crate) fn verify(&self, mkpdu: &Mkpdu<'_>) -> bool {
        self.ckn == mkpdu.basic.ckn && self.ick.verifies(mkpdu.authenticated(), mkpdu.icv())
    }

    /// A SAK of these participants, and what to distribute of it.
    pub(crate) fn make_sak(
        &self,
        suite: CipherSuite,
        nonce: &[u8],
        participants: &[Mi],
        kn: u32,
    ) -> (Sak, WrappedSak) {
        let sak = self.cak.sak(suite, nonce, participants, kn);
        let (octets, length) = self.kek.wrap(&sak);
        (sak, WrappedSak { octets, length })
    }

    pub(crate) fn unwrap(&self, suite: CipherSuite, wrapped: &[u8]) -> Result<Sak, Refusal> {
        self.kek.unwrap(suite, wrapped).map_err(|_| Refusal::Unwrap)
    }
}
