//! The SAs that frames of a capture may be of.

use std::collections::BTreeMap;

use super::keys::{KeyedSa, Keyring};
use super::overheard::Overheard;
use super::receiver::Receiver;

/// SAs of SAKs that were handed out; then the oldest makes room.
const AGREED_SAS: usize = 512;

/// The SAs of files, and those of SAKs that the capture hands out.
#[derive(Debug)]
pub(super) struct KnownSas {
    pub(super) sas: Vec<KeyedSa>,
    /// Number of SAs from files: these stay.
    of_files: usize,
    /// Place of the oldest of the others, which the next one replaces once there is no more room.
    oldest: usize,
    pub(super) overheard: Overheard,
}

impl KnownSas {
    pub(super) fn new(keys: Keyring) -> Self {
        let Keyring { sas, caks } = keys;
        Self { of_files: sas.len(), oldest: 0, sas, overheard: Overheard::new(caks) }
    }

    pub(super) fn take(&mut self, sas: Vec<KeyedSa>, receivers: &mut BTreeMap<(usize, usize), Receiver>) {
        for sa in sas {
            if self.sas.len() < self.of_files + AGREED_SAS {
                self.sas.push(sa);
                continue;
            }
            let place = self.of_files + self.oldest;
            self.sas[place] = sa;
            receivers.retain(|(_, index), _| *index != place);
            self.oldest = (self.oldest + 1) % AGREED_SAS;
        }
    }
}
