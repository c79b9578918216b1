//! Frames as no transmitter should make them: sealed with a right ICV whatever the SecTAG says, then damaged.

use suite::{Nonce, Salt, SealJob};
use testkit::frames;
use wire::{Pn, Sci, Ssci};

use super::ends;
use super::kernel::{ITS_MAC, Macsec, OUR_MAC, OUR_SEED, OUR_SSCI, OURS, SALT};

/// Bits of the SecTAG's octet 2.
pub(crate) const V: u8 = 0x80;
pub(crate) const ES: u8 = 0x40;
pub(crate) const SC: u8 = 0x20;
pub(crate) const SCB: u8 = 0x10;
pub(crate) const E: u8 = 0x08;
pub(crate) const C: u8 = 0x04;
/// Bits of octet 3.
pub(crate) const EXT: u8 = 0x80;
pub(crate) const MF: u8 = 0x40;

/// A frame to be. Made of an SDU and a PN, it is what a transmitter sends; each method makes it something else.
#[derive(Clone)]
pub(crate) struct Craft {
    sdu: Vec<u8>,
    pn: u64,
    bits: u8,
    an: u8,
    /// Instead of the SL that belongs to the secure data.
    length: Option<u8>,
    sci: Sci,
    tagged: Vec<u8>,
    padding: usize,
    wrong_icv: bool,
    cut: Option<usize>,
    clear: bool,
}

impl Craft {
    /// Our machine's SDU, of so many octets behind DA, SA and EtherType.
    pub(crate) fn new(octets: usize, pn: u64) -> Craft {
        let payload = frames::payload(octets, pn);
        let sdu = frames::ethernet(ITS_MAC, OUR_MAC, wire::EtherType(0x88b5), &payload);
        let (tagged, bits) = (Vec::new(), SC | E | C);
        Craft {
            sdu,
            pn,
            bits,
            an: 0,
            length: None,
            sci: OURS,
            tagged,
            padding: 0,
            wrong_icv: false,
            cut: None,
            clear: false,
        }
    }

    /// With these bits in octet 2 instead of SC, E and C.
    pub(crate) fn bits(self, bits: u8) -> Craft {
        Craft { bits, ..self }
    }

    pub(crate) fn an(self, an: u8) -> Craft {
        Craft { an, ..self }
    }

    /// With this octet 3.
    pub(crate) fn length(self, length: u8) -> Craft {
        Craft { length: Some(length), ..self }
    }

    pub(crate) fn sci(self, sci: Sci) -> Craft {
        Craft { sci, ..self }
    }

    /// With octets in front of the SecTAG, as switches put VLAN tags there.
    pub(crate) fn tagged(self, octets: &[u8]) -> Craft {
        Craft { tagged: octets.to_vec(), ..self }
    }

    /// With zeros behind the ICV.
    pub(crate) fn padded(self, padding: usize) -> Craft {
        Craft { padding, ..self }
    }

    pub(crate) fn wrong_icv(self) -> Craft {
        Craft { wrong_icv: true, ..self }
    }

    /// Cut off behind so many octets.
    pub(crate) fn cut(self, octets: usize) -> Craft {
        Craft { cut: Some(octets), ..self }
    }

    /// The SDU as it is, without SecTAG.
    pub(crate) fn clear(self) -> Craft {
        Craft { clear: true, ..self }
    }

    /// SDU of which the frame is made.
    pub(crate) fn sdu(&self) -> &[u8] {
        &self.sdu
    }

    /// The frame, sealed with the key under which the kernel and our SecY receive.
    pub(crate) fn frame(&self, macsec: &Macsec) -> Vec<u8> {
        if self.clear {
            return self.sdu.clone();
        }
        let (addresses, data) = self.sdu.split_at(12);
        let short = if data.len() < 48 { data.len() as u8 } else { 0 };
        let mut tag = vec![0x88, 0xe5, self.bits | self.an, self.length.unwrap_or(short)];
        tag.extend((self.pn as u32).to_be_bytes());
        if self.bits & SC != 0 {
            tag.extend(self.sci.octets());
        }
        let (mut aad, mut text) = ([addresses, &tag].concat(), data.to_vec());
        if self.bits & E == 0 {
            aad.append(&mut text);
        }
        // A PN of 0 is in no nonce; it is refused before.
        let pn = Pn::new(self.pn).unwrap_or(Pn::FIRST);
        let nonce = match macsec.suite.is_xpn() {
            true => Nonce::xpn(Ssci(OUR_SSCI), pn, &Salt(SALT)),
            false => Nonce::new(self.sci, pn),
        };
        let mut icv = [0; 16];
        let key = ends::key(macsec.suite, OUR_SEED);
        key.seal_each(std::iter::once(SealJob { nonce, aad: &aad, text: &mut text, icv: &mut icv }));
        icv[15] ^= u8::from(self.wrong_icv);
        let secured = if self.bits & E == 0 { data.to_vec() } else { text };
        let mut frame = [addresses, &self.tagged, &tag, &secured, &icv, &vec![0; self.padding]].concat();
        frame.truncate(self.cut.unwrap_or(frame.len()));
        frame
    }
}
