//! A CAK with the keys that follow from it (IEEE 802.1X-2020 clause 9.3.3).

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use suite::mka::{Cak, Ick, Kek};
use suite::{CipherSuite, Sak};
use wire::mkpdu::Mkpdu;
use wire::{Ckn, Mi};

use crate::reason::Refusal;
use crate::settings::CakEntry;

/// A wrapped SAK.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub(crate) struct WrappedSak {
    octets: [u8; 40],
    length: usize,
}

/// First octets of what the check of a CAK is over. No MKPDU begins so: its EtherType would be in the middle of the words.
const CHECK: &[u8] = b"Frameward goes on under this CAK";

impl From<WrappedSak> for Vec<u8> {
    fn from(wrapped: WrappedSak) -> Self {
        wrapped.octets().to_vec()
    }
}

impl TryFrom<Vec<u8>> for WrappedSak {
    type Error = &'static str;

    fn try_from(from: Vec<u8>) -> Result<Self, Self::Error> {
        let mut octets = [0; 40];
        octets.get_mut(..from.len()).ok_or("no wrapped SAK")?.copy_from_slice(&from);
        Ok(Self { octets, length: from.len() })
    }
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

    /// By this the next program knows that it has the same CAK under the same name. It tells no more of them than an MKPDU does.
    pub(crate) fn check(&self, mi: Mi) -> [u8; 16] {
        self.ick.icv(&self.checked(mi))
    }

    /// True if this is the check of this CAK. In constant time.
    pub(crate) fn is_check(&self, mi: Mi, check: &[u8; 16]) -> bool {
        self.ick.verifies(&self.checked(mi), check)
    }

    fn checked(&self, mi: Mi) -> Vec<u8> {
        [CHECK, &mi.0, self.ckn.octets()].concat()
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
        let wrapped = self.wrap(&sak);
        (sak, wrapped)
    }

    pub(crate) fn wrap(&self, sak: &Sak) -> WrappedSak {
        let (octets, length) = self.kek.wrap(sak);
        WrappedSak { octets, length }
    }

    pub(crate) fn unwrap(&self, suite: CipherSuite, wrapped: &[u8]) -> Result<Sak, Refusal> {
        self.kek.unwrap(suite, wrapped).map_err(|_| Refusal::Unwrap)
    }
}
