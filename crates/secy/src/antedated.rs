//! Keystreams prepared ahead, for SAs whose key has an [`Antedater`](suite::antedated::Antedater).
//!
//! ```text
//!  transmit:  sent … 41 │ 42 ready │ 43 ready │ 44 …              from the next PN on
//!  receive:   highest verified 17 │ 18 ready │ 19 ready │ 20 …    from the PN above it on
//!                                 └── at most FRAMES_AHEAD ──┘
//! ```
//!
//! Prepared keystreams are a cache. They belong to an SA, go with it, and are wiped. A frame takes the
//! keystream of its PN, or is computed in the ordinary way if there is none. The length of the next frame is
//! predicted from those under the SA (`expected_length`); it is the maximum before the first. Preparing too much
//! costs idle time only; preparing too little costs the frame time.
//!
//! On reception, the prepared PNs follow the highest PN that was *verified*, and the lengths those of
//! verified frames. An attacker's frames change neither, and take no keystream from the true frame
//! (`a_forged_frame_takes_nothing_from_the_true_one` in `tests/antedated.rs`). Preparing does not use a PN:
//! leases and the order of PNs are unaffected.
//!
//! Memory: [`FRAMES_AHEAD`] keystreams for each SA, [`OCTETS_PER_SA`] in all. Whoever prepares the keys
//! decides how many SAs are antedated.

mod expected_length;

use alloc::boxed::Box;
use core::iter;

use suite::antedated::{AAD_OCTETS, CacheHit, Keystream, KeystreamSlot, Scratch};
use suite::{Key, Nonce, OpenJob, SealJob};
use wire::Pn;

use expected_length::ExpectedLength;

/// Most frames of an SA with a prepared keystream.
pub const FRAMES_AHEAD: usize = 32;

/// Octets of the keystreams and their buffers for an SA, except for a few octets of bookkeeping each.
pub const OCTETS_PER_SA: usize = (FRAMES_AHEAD + 1) * Keystream::LONGEST + AAD_OCTETS;

/// Prepared keystreams of an SA.
#[derive(Debug)]
pub(crate) struct Antedated {
    /// Ring of keystreams; PN n is at n % FRAMES_AHEAD.
    slots: Box<[KeystreamSlot]>,
    /// The PN above the last prepared one. It can exceed all PNs in the end.
    through: u128,
    lengths: ExpectedLength,
    scratch: Scratch,
}

impl Antedated {
    /// For an SA under `key`; `None` if the key does not antedate. Allocates.
    pub(crate) fn new(key: &Key) -> Option<Box<Self>> {
        key.antedater()?;
        let slots = (0..FRAMES_AHEAD).map(|_| KeystreamSlot::new()).collect();
        Some(Box::new(Self { slots, through: 0, lengths: ExpectedLength::new(), scratch: Scratch::new() }))
    }

    fn slot(&mut self, pn: Pn) -> &mut KeystreamSlot {
        &mut self.slots[pn.number() as usize % FRAMES_AHEAD]
    }

    /// Seals the frame with `pn`. `None` for a frame without text.
    pub(crate) fn seal(&mut self, key: &Key, pn: Pn, job: SealJob<'_>) -> Option<CacheHit> {
        if job.text.is_empty() {
            key.seal_each(iter::once(job));
            return None;
        }
        self.lengths.observe(job.aad, job.text);
        let ready = self.slot(pn).take(&job.nonce);
        let Some((antedater, keystream)) = key.antedater().zip(ready) else {
            key.seal_each(iter::once(job));
            return Some(CacheHit::Miss);
        };
        let (buffer, hit) = antedater.seal(keystream, job, &mut self.scratch);
        self.slot(pn).reclaim(buffer);
        Some(hit)
    }

    /// Opens the frame with `pn`. `None` for a frame without text, or a frame that is not authentic.
    pub(crate) fn open(&mut self, key: &Key, pn: Pn, job: OpenJob<'_>) -> Option<CacheHit> {
        let OpenJob { nonce, aad, text, icv, authentic } = job;
        let text_octets = text.len();
        let job = OpenJob { nonce, aad, text: &mut *text, icv, authentic: &mut *authentic };
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
            self.lengths.observe(aad, text);
            hit
        })
    }

    /// The PN whose keystream is to be prepared next, for an SA whose next frame should have the PN `first`, and the number of
    /// prepared keystreams before it. `None` if enough are prepared.
    pub(crate) fn next(&self, key: &Key, first: u64) -> Option<(Pn, u64)> {
        let next = u64::try_from(self.through.max(first.into())).ok()?;
        let pn = Pn::new(next).filter(|&pn| pn <= key.suite().last_pn())?;
        let ahead = next - first;
        (ahead < FRAMES_AHEAD as u64).then_some((pn, ahead))
    }

    /// Prepares the keystream of a PN that [`Antedated::next`] returned.
    pub(crate) fn prepare(&mut self, key: &Key, nonce: Nonce, pn: Pn) {
        let Some(antedater) = key.antedater() else { return };
        let octets = self.lengths.at_most().unwrap_or(Keystream::LONGEST);
        self.slot(pn).prepare(antedater, nonce, octets);
        self.through = u128::from(pn.number()) + 1;
    }
}
