//! Many relations with a key each, and a frame of each in turn: what the change of keys costs.
//!
//! The frames share one burst's chunks, as frames of many links share a pool: what grows with the relations is what a
//! SecY keeps, and not the memory of the frames.

use secy::{Frame, Incoming, Outgoing, SduBuffer, SecY};
use suite::CipherSuite;
use wire::Instant;

use crate::secys::{secys, settings};
use speed::burst::{BURST, CHUNK, HEADROOM};

/// Transmitters and receivers, and as many chunks as a burst has.
#[derive(Debug)]
pub struct Relations {
    ends: Vec<(SecY, SecY)>,
    chunks: Vec<Vec<u8>>,
    octets: usize,
    /// The relation of the first frame of the burst.
    first: usize,
}

impl Relations {
    /// `relations` relations, whose frames have `octets`, DA to the end of the SDU.
    ///
    /// # Panics
    /// If the suite is XPN, the frames do not fit a chunk, or there is no relation.
    pub fn new(suite: CipherSuite, octets: usize, relations: usize) -> Self {
        assert!(octets + HEADROOM + 16 <= CHUNK && relations > 0, "{octets} octets, {relations} relations");
        let ends = (0..relations).map(|_| secys(suite, &settings(CHUNK, false))).collect();
        Self { ends, chunks: vec![vec![0xa5; CHUNK]; BURST], octets, first: 0 }
    }

    /// Protects a frame of each of the next relations.
    ///
    /// # Panics
    /// If a frame is discarded.
    pub fn protect(&mut self) {
        let count = self.ends.len();
        for (number, chunk) in self.chunks.iter_mut().enumerate() {
            let frame = Frame::new(chunk, HEADROOM, self.octets).expect("inside");
            let mut burst = vec![Outgoing::new(frame)];
            self.ends[(self.first + number) % count].0.protect(&mut burst);
            burst.remove(0).into_outcome().expect("protected");
        }
    }

    /// Verifies the frames that were protected last.
    ///
    /// # Panics
    /// If a frame is discarded.
    pub fn verify(&mut self) {
        // SecTAG and ICV, 16 octets each.
        let (start, len, count) = (HEADROOM - 16, self.octets + 32, self.ends.len());
        for (number, chunk) in self.chunks.iter_mut().enumerate() {
            let mut burst = vec![Incoming::new(Frame::new(chunk, start, len).expect("inside"))];
            let receiver = &mut self.ends[(self.first + number) % count].1;
            receiver.verify(Instant::START, &mut burst, &mut SduBuffer::none());
            burst.remove(0).into_outcome().expect("verified");
        }
        self.first = (self.first + BURST) % count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_relation_has_its_turn() {
        for count in [1, 3, 64, 100] {
            let mut relations = Relations::new(CipherSuite::GcmAes128, 58, count);
            for _ in 0..4 {
                relations.protect();
                relations.verify();
            }
        }
    }
}
