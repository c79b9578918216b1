//! Keystreams made ahead, for SAs whose key has an [`Antedater`](suite::antedated::Antedater).
//!
//! ```text
//!  transmit:  sent … 41 │ 42 ready │ 43 ready │ 44 …              from the next PN on
//!  receive:   highest verified 17 │ 18 ready │ 19 ready │ 20 …    from the PN above it on
//!                                 └── at most FRAMES_AHEAD ──┘
//! ```
//!
//! What is ready is a cache: it belongs to an SA, goes with it, and is wiped. A frame takes what is ready for its PN, and
//! goes the ordinary way where nothing is. How long a frame will be is guessed: as the longest of the last eight under
//! its SA, and as long as can be before the first. To make more than is needed costs idle time alone; to make less costs
//! the frame.
//!
//! Which PNs are prepared for on reception follows the highest PN that was *verified*, and the lengths those of verified
//! frames: what an attacker sends changes neither, and takes no keystream from the frame that it is for
//! (`a_forged_frame_takes_nothing_from_the_true_one` in `tests/antedated.rs`). A PN that is prepared for is not used by
//! that: leases and the order of PNs know nothing of it.
//!
//! Memory: for each SA [`FRAMES_AHEAD`] keystreams, [`OCTETS_PER_SA`] in all; how many SAs are antedated, those say who
//! prepare their keys.

use alloc::boxed::Box;
use core::iter;

use suite::antedated::{AAD_OCTETS, CacheHit, Keystream, KeystreamSlot, Scratch};
use suite::{Key, LengthPredictor, OpenJob, SealJob};
use wire::{Pn, Sci};

use crate::sa::{ReceiveSa, SaKey, TransmitSa};
use crate::settings::{Protection, ValidateFrames};
use crate::table::SecY;

/// Frames of an SA that are prepared for at most.
pub const FRAMES_AHEAD: usize = 32;

/// Octets that keystreams and what they are used with take for an SA, but for a few for each keystream.
pub const OCTETS_PER_SA: usize = (FRAMES_AHEAD + 1) * Keystream::LONGEST + AAD_OCTETS;

/// What is ready for the frames of an SA.
#[derive(Debug)]
pub(crate) struct Antedated {
    /// By PN, modulo their number.
    slots: Box<[KeystreamSlot]>,
    /// The PN above the last one that was prepared for; above all PNs in the end.
    through: u128,
    lengths: LengthPredictor,
    scratch: Scratch,
}

impl Antedated {
    /// For an SA under `key`; none if it is no key to antedate with. Allocates.
    pub(crate) fn new(key: &Key) -> Option<Box<Self>> {
        key.antedater()?;
        let slots = (0..FRAMES_AHEAD).map(|_| KeystreamSlot::new()).collect();
        Some(Box::new(Self { slots, through: 0, lengths: LengthPredictor::new(), scratch: Scratch::new() }))
    }

    fn slot(&mut self, pn: Pn) -> &mut KeystreamSlot {
        &mut self.slots[pn.number() as usize % FRAMES_AHEAD]
    }

    /// Seals the frame with `pn`. None if it has no text.
    pub(crate) fn seal(&mut self, key: &Key, pn: Pn, job: SealJob<'_>) -> Option<CacheHit> {
        if job.text.is_empty() {
            key.seal_each(iter::once(job));
            return None;
        }
        self.lengths.observe(job.text.len());
        let ready = self.slot(pn).take(&job.nonce);
        let Some((antedater, keystream)) = key.antedater().zip(ready) else {
            key.seal_each(iter::once(job));
            return Some(CacheHit::Miss);
        };
        let (buffer, hit) = antedater.seal(keystream, job, &mut self.scratch);
        self.slot(pn).reclaim(buffer);
        Some(hit)
    }

    /// Opens the frame with `pn`. None if it has no text, or is not authentic.
    pub(crate) fn open(&mut self, key: &Key, pn: Pn, job: OpenJob<'_>) -> Option<CacheHit> {
        let OpenJob { nonce, aad, text, icv, authentic } = job;
        let text_octets = text.len();
        let job = OpenJob { nonce, aad, text, icv, authentic: &mut *authentic };
        let ready = if text_octets == 0 { None } else { self.slot(pn).take(&nonce) };
        let hit = match key.antedater().zip(ready) {
            None => {
                key.open_each(iter::once(job));
                CacheHit::Miss
            }
            Some((antedater, keystream)) => match antedater.open(keystream, job, &mut self.scratch) {
                Ok((buffer, hit)) => {
                    self.slot(pn).reclaim(buffer);
                    hit
                }
                Err(keystream) => {
                    self.slot(pn).restore(keystream);
                    CacheHit::Miss
                }
            },
        };
        let counts = *authentic && text_octets > 0;
        counts.then(|| {
            self.lengths.observe(text_octets);
            hit
        })
    }
}

/// A keystream that could be made.
struct Task<'s> {
    antedated: &'s mut Antedated,
    key: &'s SaKey,
    sci: Sci,
    pn: Pn,
    /// How many are ready before it.
    ahead: u64,
}

impl<'s> Task<'s> {
    /// The next one of an SA whose next frame is expected to have the PN `first`.
    fn next(antedated: &'s mut Antedated, key: &'s SaKey, sci: Sci, first: u64) -> Option<Self> {
        let next = u64::try_from(antedated.through.max(first.into())).ok()?;
        let pn = Pn::new(next).filter(|&pn| pn <= key.key.suite().last_pn())?;
        let ahead = next - first;
        let wanted = ahead < FRAMES_AHEAD as u64 && matches!(key.protection, Protection::Encrypt(_));
        wanted.then_some(Self { antedated, key, sci, pn, ahead })
    }

    fn perform(self) {
        let Self { antedated, key, sci, pn, .. } = self;
        let Some(antedater) = key.key.antedater() else { return };
        let expected = antedated.lengths.predict();
        let octets = expected.map_or(Keystream::LONGEST, |expected| expected.at_most);
        antedated.slot(pn).prepare(antedater, key.nonce(sci, pn), octets);
        antedated.through = u128::from(pn.number()) + 1;
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
    /// Receive SCs whose SAs should be antedated at most: with more peers, those beyond go the ordinary way, so that
    /// memory stays bounded.
    pub const ANTEDATED_SCS: usize = 8;

    /// In idle time: makes one keystream, for the SA that has the fewest ready. False if there is none to make.
    ///
    /// Work: one look at each SA, and one keystream of at most [`Keystream::LONGEST`] octets, which a frame that comes
    /// meanwhile waits for. Does not allocate.
    pub fn antedate(&mut self) -> bool {
        let (own, settings) = (self.sci, self.settings);
        let transmit = self.transmit.iter_mut().filter(|_| settings.protect_frames).flatten();
        let transmit = transmit.filter_map(|sa| sa.task(own));
        let opens = settings.validate_frames != ValidateFrames::Disabled;
        let receive = self.receive.iter_mut().filter(|_| opens).flat_map(|sc| {
            let sci = sc.sci();
            sc.sas.iter_mut().flatten().filter_map(move |sa| sa.task(sci))
        });
        let task = transmit.chain(receive).min_by_key(|task| task.ahead);
        let found = task.is_some();
        if let Some(task) = task {
            task.perform();
        }
        found
    }
}
