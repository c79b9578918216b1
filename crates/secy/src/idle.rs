//! Idle work of a SecY: keystreams are made ahead, one at a time ([`antedated`](crate::antedated)).

use wire::{Pn, Sci};

use crate::antedated::Antedated;
use crate::sa::{ReceiveSa, SaKey, TransmitSa};
use crate::settings::{Protection, ValidateFrames};
use crate::table::SecY;

/// A keystream to be made.
struct Task<'s> {
    antedated: &'s mut Antedated,
    key: &'s SaKey,
    sci: Sci,
    pn: Pn,
    /// Number of prepared keystreams before it.
    ahead: u64,
}

impl<'s> Task<'s> {
    /// The next keystream of an SA whose next frame should have the PN `first`.
    fn next(antedated: &'s mut Antedated, key: &'s SaKey, sci: Sci, first: u64) -> Option<Self> {
        let (pn, ahead) = antedated.next(&key.key, first)?;
        let encrypts = matches!(key.protection, Protection::Encrypt(_));
        encrypts.then_some(Self { antedated, key, sci, pn, ahead })
    }

    fn perform(self) {
        let Self { antedated, key, sci, pn, .. } = self;
        antedated.prepare(&key.key, key.nonce(sci, pn), pn);
    }
}

impl TransmitSa {
    fn task(&mut self, sci: Sci) -> Option<Task<'_>> {
        let next = self.pns.next()?;
        Task::next(self.antedated.as_deref_mut()?, &self.key, sci, next.number())
    }
}

impl ReceiveSa {
    fn task(&mut self, sci: Sci) -> Option<Task<'_>> {
        let expected = self.window.highest().checked_add(1)?;
        let antedated = self.antedated.as_deref_mut().filter(|_| self.in_use)?;
        Task::next(antedated, &self.key, sci, expected)
    }
}

impl SecY {
    /// Most receive SCs with antedated SAs. With more peers, the others are computed in the ordinary way,
    /// which bounds the memory.
    pub const ANTEDATED_SCS: usize = 8;

    /// Idle work: makes one keystream, for the SA with the fewest prepared. False if there is none to make.
    ///
    /// Work: one look at each SA, and one keystream of at most [`Keystream::LONGEST`](suite::antedated::Keystream::LONGEST) octets. A frame that
    /// arrives meanwhile waits for it. Does not allocate.
    pub fn antedate(&mut self) -> bool {
        let (own, settings) = (self.sci, self.settings);
        let transmit = self.transmit.iter_mut().filter(|_| settings.protect_frames).flatten();
        let transmit = transmit.filter_map(|sa| sa.task(own));
        let opens = settings.validate_frames != ValidateFrames::Disabled;
        let receive = self.receive.iter_mut().filter(|_| opens).flat_map(|sc| {
            let sci = sc.sci();
            sc.sas_mut().filter_map(move |sa| sa.task(sci))
        });
        let task = transmit.chain(receive).min_by_key(|task| task.ahead);
        let found = task.is_some();
        if let Some(task) = task {
            task.perform();
        }
        found
    }
}
