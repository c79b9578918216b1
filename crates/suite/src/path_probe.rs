//! Probes of the paths between two sites (the project's wire formats, section 3.6): small packets whose answers show that a path
//! carries packets both ways, how long that takes, and who is at its other end.
//!
//! ```text
//!  first 1 | id 8 | flags 1 | seq 8 | tag 8 | zeros
//! ```
//!
//! - `first`: bit 0x40 set and bit 0x80 clear, as in a short header of QUIC; the others are random.
//! - `id` names connection, path and direction; it is secret until the first probe shows it.
//! - `flags`: bit 0x01 an answer, bit 0x02 the sender has proved that the receiver is there.
//! - `seq`: of a request, one more each time; of an answer, that of its request.
//! - `tag`: the first octets of HMAC-SHA-256 over the 18 octets in front of it and the packet's length, 2 octets.
//!
//! Keys and ids come from the TLS exporter of the management channel, for each path and each direction another one. Numbers are
//! big-endian.

use core::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

/// Octets of a probe without filling.
pub const PROBE_OCTETS: usize = 26;
/// Octets of an id.
pub const PROBE_ID_OCTETS: usize = 8;
/// Octets from which a key with its id is made.
pub const PROBE_KEY_OCTETS: usize = PROBE_ID_OCTETS + 32;

const TAGGED: usize = 18;
/// Bits of `first`: those that are fixed, and their values.
const FIXED: u8 = 0xc0;
const QUIC_SHORT: u8 = 0x40;
const ANSWER: u8 = 1;
const PROVED: u8 = 2;

/// Contents of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Whether it answers one.
    pub answer: bool,
    /// Whether its sender has proved that the receiver is at the other end of the path.
    pub proved: bool,
    /// Its number, or that of the request that it answers.
    pub seq: u64,
}

/// Key of the probes of one path in one direction, with their id.
#[derive(Clone)]
pub struct ProbeKey {
    id: [u8; PROBE_ID_OCTETS],
    key: hmac::Key,
}

impl ProbeKey {
    /// Key and id, from octets that nobody else knows.
    pub fn new(octets: &[u8; PROBE_KEY_OCTETS]) -> Self {
        let mut id = [0; PROBE_ID_OCTETS];
        let (first, key) = octets.split_at(PROBE_ID_OCTETS);
        id.copy_from_slice(first);
        Self { id, key: hmac::Key::new(hmac::HMAC_SHA256, key) }
    }

    /// The id of its probes.
    pub const fn id(&self) -> [u8; PROBE_ID_OCTETS] {
        self.id
    }

    /// Writes a probe that is as long as `packet`, at least [`PROBE_OCTETS`]. `random`: for the first octet.
    ///
    /// # Panics
    /// If `packet` is shorter.
    pub fn seal(&self, probe: Probe, random: u8, packet: &mut [u8]) {
        let length = packet.len();
        let (head, filling) = packet.split_at_mut(PROBE_OCTETS);
        filling.fill(0);
        head[0] = QUIC_SHORT | (random & !FIXED);
        head[1..9].copy_from_slice(&self.id);
        head[9] = (u8::from(probe.answer) * ANSWER) | (u8::from(probe.proved) * PROVED);
        head[10..TAGGED].copy_from_slice(&probe.seq.to_be_bytes());
        let tag = self.tag(&head[..TAGGED], length);
        head[TAGGED..].copy_from_slice(&tag);
    }

    /// The probe in a packet, if it was made with this key.
    pub fn open(&self, packet: &[u8]) -> Option<Probe> {
        let (tagged, rest) = packet.split_at_checked(TAGGED)?;
        let tag = rest.get(..PROBE_OCTETS - TAGGED)?;
        verify_slices_are_equal(&self.tag(tagged, packet.len()), tag).ok()?;
        let (flags, seq) = (tagged[9], tagged.last_chunk()?);
        let seq = u64::from_be_bytes(*seq);
        Some(Probe { answer: flags & ANSWER != 0, proved: flags & PROVED != 0, seq })
    }

    fn tag(&self, tagged: &[u8], length: usize) -> [u8; PROBE_OCTETS - TAGGED] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(tagged);
        context.update(&(length as u16).to_be_bytes());
        let mut tag = [0; PROBE_OCTETS - TAGGED];
        tag.copy_from_slice(&context.sign().as_ref()[..PROBE_OCTETS - TAGGED]);
        tag
    }
}

/// The id of a probe, if a packet may be one.
pub fn probe_id(packet: &[u8]) -> Option<[u8; PROBE_ID_OCTETS]> {
    match packet {
        [first, rest @ ..] if first & FIXED == QUIC_SHORT && packet.len() >= PROBE_OCTETS => {
            rest.first_chunk().copied()
        }
        _ => None,
    }
}

impl fmt::Debug for ProbeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProbeKey")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{format, vec};

    /// The tag was calculated apart, with Python's hmac module.
    #[test]
    fn a_probe_is_that_of_the_format() {
        let octets = core::array::from_fn(|at| at as u8);
        let key = ProbeKey::new(&octets);
        let mut packet = vec![9; 30];
        key.seal(Probe { answer: true, proved: true, seq: 0x0102 }, 0xff, &mut packet);
        assert_eq!(hex::encode(&packet), "7f00010203040506070300000000000001026df4866eac27f53b00000000");
        assert_eq!(format!("{key:?}"), "ProbeKey");
    }

    #[test]
    fn a_probe_is_opened_to_the_bit_and_at_its_length_alone() {
        let [key, other] = [1, 2].map(|fill| ProbeKey::new(&[fill; PROBE_KEY_OCTETS]));
        let probe = Probe { answer: false, proved: true, seq: u64::MAX };
        let mut packet = vec![0; 64];
        key.seal(probe, 5, &mut packet);
        assert_eq!((key.open(&packet), other.open(&packet)), (Some(probe), None));
        assert_eq!(probe_id(&packet), Some(key.id()));
        for bit in 0..8 * PROBE_OCTETS {
            let mut forged = packet.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(&forged), None, "bit {bit}");
        }
        for octets in 0..packet.len() {
            assert_eq!(key.open(&packet[..octets]), None, "{octets} octets");
        }
        assert_eq!(probe_id(&packet[..PROBE_OCTETS - 1]), None);
        packet[0] |= 0x80;
        assert_eq!(probe_id(&packet), None, "a long header");
    }
}
