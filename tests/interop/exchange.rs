//! Frame by frame: what the kernel protects, our SecY verifies to the same octets, and the other way about, at every
//! size up to the MTU, with every suite that both have. Without root: the guest's interfaces end in this process.
//!
//! Found on the way, of Linux 6.1: the MTU of `macsec0` is 32 octets below its lower interface's, also where the SecTAG
//! has 8 octets (`send_sci off`); an SDU of an EtherType alone is taken and protected; short frames are not padded.

use secy::{Protection, SciInclusion, SecY, Settings, TransmitDiscard, XpnBinding};
use secy::{ReceiveSa, TransmitSa};
use suite::{CipherSuite, Salt};
use testkit::frames;
use wire::{EtherType, Pn, Ssci};

use super::ends::{self, Outcome, SETTINGS};
use super::guest::{Guest, Wire};
use super::kernel::{self, ITS, ITS_MAC, ITS_SEED, ITS_SSCI, MACSEC_MTU, MTU, Macsec};
use super::kernel::{OUR_MAC, OUR_SEED, OUR_SSCI, OURS, SALT};

/// An EtherType for experiments (IEEE 802).
const EXPERIMENT: EtherType = EtherType(0x88b5);
/// Frames under way at once: fewer than a socket between the test and the guest holds.
const WINDOW: usize = 16;

/// Our end of the link, set as the kernel's is.
pub(crate) fn our_secy(macsec: &Macsec, transmit_pn: u64, receive_pn: u64) -> SecY {
    let settings = Settings {
        sci_inclusion: macsec.sci,
        replay_protect: macsec.replay_window.is_some(),
        mtu: MTU,
        ..SETTINGS
    };
    let mut secy = SecY::new(OURS, settings);
    ends::start_sending(&mut secy, transmit_sa(macsec, 0, transmit_pn));
    secy.install_receive_sc(ITS).unwrap();
    let window = macsec.replay_window.unwrap_or(0);
    ends::start_receiving(&mut secy, ITS, receive_sa(macsec.suite, 0, receive_pn, window));
    secy
}

fn xpn(suite: CipherSuite, ssci: u32) -> Option<XpnBinding> {
    suite.is_xpn().then_some(XpnBinding { ssci: Ssci(ssci), salt: Salt(SALT) })
}

/// The SA under which we send, and the kernel receives.
pub(crate) fn transmit_sa(macsec: &Macsec, an: u8, first: u64) -> Box<TransmitSa> {
    let (an, key, xpn) = (ends::an(an), ends::key(macsec.suite, OUR_SEED), xpn(macsec.suite, OUR_SSCI));
    let protection = if macsec.encrypt { ends::ENCRYPT } else { Protection::Integrity };
    Box::new(TransmitSa::new(an, key, xpn, protection, ends::pn(first), Pn::LAST_64).unwrap())
}

/// The SA under which the kernel sends, and we receive.
pub(crate) fn receive_sa(suite: CipherSuite, an: u8, lowest: u64, window: u32) -> Box<ReceiveSa> {
    let (an, key, xpn) = (ends::an(an), ends::key(suite, ITS_SEED), xpn(suite, ITS_SSCI));
    Box::new(ReceiveSa::new(an, key, xpn, ends::ENCRYPT, ends::pn(lowest), window).unwrap())
}

/// The SA under which we send, on a SecY of ours that receives what the kernel receives.
pub(crate) fn mirror_sa(suite: CipherSuite, lowest: u64, window: u32) -> Box<ReceiveSa> {
    let (an, key, xpn) = (ends::an(0), ends::key(suite, OUR_SEED), xpn(suite, OUR_SSCI));
    Box::new(ReceiveSa::new(an, key, xpn, ends::ENCRYPT, ends::pn(lowest), window).unwrap())
}

/// A guest, and a wire to each of its sides.
pub(crate) struct Bench {
    pub(crate) guest: Guest,
    pub(crate) protected: Wire,
    pub(crate) plain: Wire,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let (mut guest, protected, plain) = Guest::between();
        kernel::prepare(&mut guest);
        Bench { guest, protected, plain }
    }

    /// Number of questions that [`Bench::settle`] asks.
    pub(crate) const QUESTIONS: usize = 2;

    /// Waits until the kernel has dealt with all frames that were sent to it, and what it delivers has arrived:
    /// questions that are not for macsec (ARP) and come after them are answered. The first answer may come before what
    /// is delivered, which passes through one queue more; the second does not.
    pub(crate) fn settle(&self) {
        (0..Self::QUESTIONS).for_each(|_| self.ask());
    }

    fn ask(&self) {
        let address = [198, 51, 100, 1];
        let question = [
            &[0xff; 6],
            &OUR_MAC.0[..],
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
            &OUR_MAC.0,
            &[198, 51, 100, 2],
            &[0; 6],
            &address,
        ];
        self.protected.send(&question.concat());
        let answer = self.protected.receive();
        assert_eq!((&answer[12..14], &answer[28..32]), (&[8, 6][..], &address[..]), "{answer:02x?}");
    }

    /// Sends SDUs through the kernel's SecY to ours.
    pub(crate) fn its_to_ours(&self, secy: &mut SecY, sdus: &[Vec<u8>]) {
        for window in sdus.chunks(WINDOW) {
            window.iter().for_each(|sdu| self.plain.send(sdu));
            for sdu in window {
                let frame = self.protected.receive();
                assert_eq!(ends::verify(secy, &frame), Outcome::Passed(sdu.clone()), "{} octets", sdu.len());
            }
        }
    }

    /// Sends SDUs through our SecY to the kernel's.
    pub(crate) fn ours_to_its(&self, secy: &mut SecY, sdus: &[Vec<u8>]) {
        for window in sdus.chunks(WINDOW) {
            ends::protected(secy, window).iter().for_each(|frame| self.protected.send(frame));
            for sdu in window {
                assert_eq!(&self.plain.receive(), sdu, "{} octets", sdu.len());
            }
        }
    }
}

/// SDUs of the kernel's machine, and of ours. Behind DA, SA and EtherType each has as many octets as its number says.
pub(crate) fn sdus(ours: bool, sizes: impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
    let (to, from) = if ours { (ITS_MAC, OUR_MAC) } else { (OUR_MAC, ITS_MAC) };
    let sdu = |octets| frames::ethernet(to, from, EXPERIMENT, &frames::payload(octets, octets as u64));
    sizes.map(sdu).collect()
}

fn every_size(suite: CipherSuite) {
    let mut bench = Bench::new();
    let rows = [
        (true, SciInclusion::Always, None),
        (true, SciInclusion::EndStation, Some(0)),
        (true, SciInclusion::Never, Some(64)),
        (false, SciInclusion::Always, Some(0)),
        (false, SciInclusion::EndStation, Some(64)),
        (false, SciInclusion::Never, None),
    ];
    for (encrypt, sci, replay_window) in rows {
        let macsec = Macsec { suite, encrypt, sci, replay_window };
        macsec.install(&mut bench.guest, 1, 1);
        kernel::join(&mut bench.guest);
        let mut secy = our_secy(&macsec, 1, 1);
        // Whatever there is to say about an SDU's size, it is near the SecTAG's Short Length or near the MTU.
        let all = sci == SciInclusion::Always;
        let sizes = || (0..=MACSEC_MTU).filter(|size| all || *size < 100 || *size > MACSEC_MTU - 20);
        bench.its_to_ours(&mut secy, &sdus(false, sizes()));
        bench.ours_to_its(&mut secy, &sdus(true, sizes()));
        // One more does not fit: neither sends it.
        let long = &sdus(true, std::iter::once(MTU - 32 + 1))[0];
        if all {
            assert_eq!(ends::protect(&mut secy, long), Outcome::Discarded(TransmitDiscard::TooLong));
        }
    }
}

#[test]
fn gcm_aes_128() {
    every_size(CipherSuite::GcmAes128);
}

#[test]
fn gcm_aes_256() {
    every_size(CipherSuite::GcmAes256);
}

#[test]
fn gcm_aes_xpn_128() {
    every_size(CipherSuite::GcmAesXpn128);
}

#[test]
fn gcm_aes_xpn_256() {
    every_size(CipherSuite::GcmAesXpn256);
}
