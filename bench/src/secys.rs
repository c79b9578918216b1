//! Two SecYs that talk to each other, and a burst of frames between them: what benches run.

use secy::{
    ClearVlan, ConfidentialityOffset, Frame, Incoming, Outgoing, Protection, ReceiveSa, SciInclusion,
    SduBuffer, SecY, Settings, TransmitSa, ValidateFrames,
};
use speed::burst::{BURST, CHUNK, HEADROOM};
use suite::{CipherSuite, Key, Sak};
use wire::{An, Instant, MacAddr, Pn, Sci};

/// Everything is encrypted.
const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);

/// A transmitter, a receiver, and a burst of frames of one length.
#[derive(Debug)]
pub struct Ends {
    transmitter: SecY,
    receiver: SecY,
    chunks: Vec<Vec<u8>>,
    octets: usize,
}

impl Ends {
    /// Ends that encrypt frames of `octets` (DA to the end of the SDU) with `suite`, every SecTAG with SCI, strict,
    /// with a replay window of 64.
    ///
    /// # Panics
    /// If the suite is XPN, or the frames do not fit a chunk of 2048 octets.
    pub fn new(suite: CipherSuite, octets: usize) -> Self {
        assert!(octets + HEADROOM + 16 <= CHUNK, "a frame of {octets} octets fits no chunk");
        let (transmitter, receiver) = secys(suite, &settings(CHUNK, false));
        Self { transmitter, receiver, chunks: vec![vec![0xa5; CHUNK]; BURST], octets }
    }

    /// Protects one burst.
    ///
    /// # Panics
    /// If a frame is discarded.
    pub fn protect(&mut self) {
        let mut burst: Vec<_> = self
            .chunks
            .iter_mut()
            .map(|chunk| Outgoing::new(Frame::new(chunk, HEADROOM, self.octets).expect("inside")))
            .collect();
        self.transmitter.protect(&mut burst);
        for outgoing in burst {
            outgoing.into_outcome().expect("protected");
        }
    }

    /// Verifies the burst that was protected last.
    ///
    /// # Panics
    /// If a frame is discarded, as all are the second time.
    pub fn verify(&mut self) {
        // SecTAG and ICV, 16 octets each.
        let (start, len) = (HEADROOM - 16, self.octets + 32);
        let frame = |chunk| Incoming::new(Frame::new(chunk, start, len).expect("inside"));
        let mut burst: Vec<_> = self.chunks.iter_mut().map(|chunk| frame(chunk)).collect();
        self.receiver.verify(Instant::START, &mut burst, &mut SduBuffer::none());
        for incoming in burst {
            incoming.into_outcome().expect("verified");
        }
    }
}

/// Encrypt everything, every SecTAG with SCI, strict, a protected side of `mtu` octets.
pub(crate) const fn settings(mtu: usize, reassemble: bool) -> Settings {
    Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        reassemble,
        mtu,
    }
}

/// A transmitter and a receiver of one SC, with a replay window of 64.
pub(crate) fn secys(suite: CipherSuite, settings: &Settings) -> (SecY, SecY) {
    let octets_of_key = vec![0x5a; suite.key_octets()];
    let key =
        || Key::prepare(suite, &Sak::new(suite, &octets_of_key).expect("its length")).expect("its suite");
    let (an, sci) = (An::ALL[0], Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1));
    let mut transmitter = SecY::new(sci, *settings);
    let sa =
        TransmitSa::new(an, key(), None, PROTECTION, Pn::FIRST, Pn::LAST_64).expect("a suite without XPN");
    transmitter.install_transmit(Box::new(sa)).expect("a free AN");
    transmitter.enable_transmit(an).expect("installed");
    let mut receiver = SecY::new(Sci::new(MacAddr([2, 0, 0, 0, 0, 2]), 1), *settings);
    receiver.install_receive_sc(sci).expect("a free SCI");
    let sa = ReceiveSa::new(an, key(), None, PROTECTION, Pn::FIRST, 64).expect("a suite without XPN");
    receiver.install_receive(sci, Box::new(sa)).expect("a free AN");
    receiver.enable_receive(sci, an).expect("installed");
    (transmitter, receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_end_protects_the_other_verifies() {
        for octets in [14, 64, 1468] {
            let mut ends = Ends::new(CipherSuite::GcmAes128, octets);
            for _ in 0..3 {
                ends.protect();
                ends.verify();
            }
        }
    }
}
