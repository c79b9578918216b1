//! A [`Burst`] whose keystreams are made before: what antedating takes and saves.

use suite::antedated::{Antedater, CacheHit, KeystreamSlot, Scratch};
use suite::{Nonce, OpenJob, SealJob};

use crate::burst::{BURST, Burst, Parts};

/// A burst, and for each of its frames a place for its keystream.
#[derive(Debug)]
pub struct AntedatedBurst {
    burst: Burst,
    nonces: [Nonce; BURST],
    text_octets: usize,
    places: Vec<KeystreamSlot>,
    scratch: Scratch,
}

impl AntedatedBurst {
    /// Frames whose text has `text_octets`.
    ///
    /// # Panics
    /// As [`Burst::new`].
    pub fn new(text_octets: usize) -> Self {
        let burst = Burst::new(text_octets);
        let places = (0..BURST).map(|_| KeystreamSlot::new()).collect();
        Self { nonces: *burst.nonces(), burst, text_octets, places, scratch: Scratch::new() }
    }

    /// Makes the keystream of each frame.
    pub fn prepare(&mut self, antedater: &Antedater) {
        for (place, nonce) in self.places.iter_mut().zip(&self.nonces) {
            place.prepare(antedater, *nonce, self.text_octets);
        }
    }

    /// Seals every frame; how many had their whole keystream.
    pub fn seal(&mut self, antedater: &Antedater) -> usize {
        let Self { burst, nonces, places, scratch, .. } = self;
        let mut whole = 0;
        for ((Parts { aad, text, icv, .. }, nonce), place) in burst.parts().zip(&*nonces).zip(places) {
            let Some(keystream) = place.take(nonce) else { continue };
            let (blank, met) = antedater.seal(keystream, SealJob { nonce: *nonce, aad, text, icv }, scratch);
            place.reclaim(blank);
            whole += usize::from(met == CacheHit::Full);
        }
        whole
    }

    /// Opens every frame; how many had their whole keystream.
    pub fn open(&mut self, antedater: &Antedater) -> usize {
        let Self { burst, nonces, places, scratch, .. } = self;
        let mut whole = 0;
        for ((Parts { aad, text, icv, authentic }, nonce), place) in burst.parts().zip(&*nonces).zip(places) {
            let Some(keystream) = place.take(nonce) else { continue };
            let job = OpenJob { nonce: *nonce, aad, text, icv, authentic };
            match antedater.open(keystream, job, scratch) {
                Ok((blank, met)) => {
                    place.reclaim(blank);
                    whole += usize::from(met == CacheHit::Full);
                }
                Err(keystream) => place.restore(keystream),
            }
        }
        whole
    }

    /// The frames.
    pub const fn burst(&mut self) -> &mut Burst {
        &mut self.burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burst::{prepared, prepared_antedated};
    use suite::CipherSuite;

    #[test]
    fn an_antedated_burst_is_one_like_another() {
        for octets in [0, 64, 1468] {
            let suite = CipherSuite::GcmAes256;
            let (mut burst, key) = (AntedatedBurst::new(octets), prepared_antedated(suite));
            let antedater = key.antedater().unwrap();
            assert_eq!(burst.seal(antedater), 0, "nothing is ready");
            burst.prepare(antedater);
            assert_eq!(burst.seal(antedater), BURST);
            burst.burst().open(&prepared(suite));
            assert!(burst.burst().is_authentic());
            burst.burst().seal(&prepared(suite));
            burst.prepare(antedater);
            assert_eq!(burst.open(antedater), BURST);
            assert!(burst.burst().is_authentic());
        }
    }
}
