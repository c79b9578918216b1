//! Two SecYs between which SDUs are fragmented into frames and put together again, as the engine does it: a plan, a copy
//! of every octet that is in a fragment, and a buffer.
//!
//! ```text
//!  SDUs ──▶ plan, copy, protect ──▶ frames ──▶ verify, reassemble ──▶ buffer
//! ```

use arrayvec::ArrayVec;
use secy::fragment::{Plan, Rules, Sdu};
use secy::{Delivered, ExpressClasses, Frame, Incoming, Outgoing, SduBuffer, SecY};
use suite::CipherSuite;
use wire::Instant;
use wire::ethernet::ADDRESSES_OCTETS;

use crate::secys::{secys, settings};
use speed::burst::{BURST, CHUNK, HEADROOM};

/// A transmitter, a receiver, and a burst of SDUs of one length.
#[derive(Debug)]
pub struct FragmentEnds {
    transmitter: SecY,
    receiver: SecY,
    rules: Rules,
    plan: Plan,
    sdus: Vec<Vec<u8>>,
    chunks: Vec<Vec<u8>>,
    /// Offset of the frames in their chunks.
    places: Vec<(usize, usize)>,
    buffer: SduBuffer,
}

impl FragmentEnds {
    /// Number of SDUs in a burst: each becomes at most two frames.
    pub const SDUS: usize = BURST / 2;

    /// Ends that encrypt SDUs of `octets` (DA to their end) over a protected side of `mtu` octets.
    ///
    /// # Panics
    /// If the suite is XPN.
    pub fn new(suite: CipherSuite, octets: usize, mtu: usize, concatenate: bool) -> Self {
        Self::of(Self::SDUS, suite, octets, mtu, concatenate)
    }

    /// The same with one SDU at a time: no other waits that could share its frame.
    ///
    /// # Panics
    /// If the suite is XPN.
    pub fn alone(suite: CipherSuite, octets: usize, mtu: usize, concatenate: bool) -> Self {
        Self::of(1, suite, octets, mtu, concatenate)
    }

    fn of(sdus: usize, suite: CipherSuite, octets: usize, mtu: usize, concatenate: bool) -> Self {
        let settings = settings(mtu, true);
        let (transmitter, receiver) = secys(suite, &settings);
        let rules = Rules::new(&settings, true, concatenate);
        Self {
            transmitter,
            receiver,
            plan: Plan::new(sdus, &rules),
            rules,
            sdus: vec![vec![0xa5; octets]; sdus],
            chunks: vec![vec![0; CHUNK]; BURST],
            places: Vec::with_capacity(BURST),
            buffer: SduBuffer::new(BURST, CHUNK),
        }
    }

    /// Fragments one burst of SDUs and protects the frames.
    ///
    /// # Panics
    /// If a frame is discarded, or there are more than a burst holds.
    pub fn protect(&mut self) {
        let Self { transmitter, rules, plan, sdus, chunks, places, .. } = self;
        let classes = ExpressClasses::default();
        let described: ArrayVec<Sdu, { FragmentEnds::SDUS }> =
            sdus.iter().map(|sdu| Sdu::of(sdu, &classes).expect("an Ethernet header")).collect();
        plan.make(rules, &described);
        assert!(plan.frames().len() <= chunks.len(), "more frames than a burst holds");
        let mut burst: Vec<_> = Vec::with_capacity(BURST);
        for (frame, chunk) in plan.frames().iter().zip(chunks.iter_mut()) {
            let parts = plan.fragments(frame);
            let mut end = HEADROOM + ADDRESSES_OCTETS;
            chunk[HEADROOM..end].copy_from_slice(&sdus[parts[0].sdu][..ADDRESSES_OCTETS]);
            for part in parts {
                let octets = &sdus[part.sdu][ADDRESSES_OCTETS..][part.octets.clone()];
                chunk[end..end + octets.len()].copy_from_slice(octets);
                end += octets.len();
            }
            let octets = Frame::new(chunk, HEADROOM, end - HEADROOM).expect("inside");
            burst.push(match frame.layout {
                None => Outgoing::new(octets),
                Some(layout) => Outgoing::with_layout(octets, layout),
            });
        }
        transmitter.protect(&mut burst);
        places.clear();
        for outgoing in burst {
            places.push((outgoing.frame().start(), outgoing.frame().len()));
            outgoing.into_outcome().expect("protected");
        }
    }

    /// Octets of SecTAGs, ICVs and extension headers of the frames that were protected last, for each SDU.
    pub fn header_octets(&self) -> f64 {
        let sent: usize = self.places.iter().map(|(_, len)| len - ADDRESSES_OCTETS).sum();
        let secured: usize = self.sdus.iter().map(|sdu| sdu.len() - ADDRESSES_OCTETS).sum();
        (sent - secured) as f64 / self.sdus.len() as f64
    }

    /// Verifies the frames that were protected last and puts the SDUs together; how many there are.
    ///
    /// # Panics
    /// If a frame is discarded, as all are the second time.
    pub fn verify(&mut self) -> usize {
        let Self { receiver, chunks, places, buffer, .. } = self;
        let frame = |chunk, (start, len)| Incoming::new(Frame::new(chunk, start, len).expect("inside"));
        let mut burst: Vec<_> =
            chunks.iter_mut().zip(places.iter()).map(|(chunk, place)| frame(chunk, *place)).collect();
        receiver.verify(Instant::START, &mut burst, buffer);
        let delivered = burst.into_iter().map(|incoming| incoming.into_outcome().expect("verified"));
        delivered
            .map(|delivered| match delivered {
                Delivered::Whole(_) => 1,
                Delivered::Separated(numbers, _) => buffer.sdus(numbers).count(),
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fragmented_comes_whole() {
        for concatenate in [false, true] {
            let mut ends = FragmentEnds::new(CipherSuite::GcmAes128, 1514, 1500, concatenate);
            for _ in 0..3 {
                ends.protect();
                assert!(ends.places.iter().all(|(_, len)| *len <= 1514));
                assert_eq!(ends.verify(), FragmentEnds::SDUS);
            }
            let mut alone = FragmentEnds::alone(CipherSuite::GcmAes128, 60, 1500, concatenate);
            alone.protect();
            assert_eq!((alone.places.len(), alone.header_octets(), alone.verify()), (1, 32.0, 1));
            // Two frames of 32 octets around each SDU; or, sharing frames, hardly more than one and what tells the parts.
            let headers = ends.header_octets();
            assert!(if concatenate { (34.0..40.0).contains(&headers) } else { headers >= 64.0 }, "{headers}");
        }
    }
}
