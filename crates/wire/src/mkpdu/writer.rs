//! The MKPDU writer.

use super::{BASIC_OCTETS, EAPOL_HEADER_OCTETS, EAPOL_MKA, ICV_INDICATOR, padded};
use super::{BasicParameters, DistributedSak, ICV_OCTETS, KeyUse, ParameterSet, SakUse};
use crate::ethernet::EtherType;
use crate::id::MacAddr;

/// Maximum octets of a set's body: its length has 12 bits.
const LONGEST_BODY: usize = 0x0fff;

/// Writes an MKPDU.
#[derive(Debug)]
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    length: usize,
}

/// Error: the MKPDU exceeds the buffer, or a set exceeds the 12 bits of its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

impl<'b> Writer<'b> {
    /// Begins an MKPDU in `buffer`.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn new(
        buffer: &'b mut [u8],
        destination: MacAddr,
        source: MacAddr,
        eapol_version: u8,
        basic: &BasicParameters,
    ) -> Result<Self, TooLong> {
        let mut writer = Self { buffer, length: 0 };
        writer.put(&[&destination.0, &source.0, &EtherType::EAPOL.0.to_be_bytes()])?;
        // `finish` fills in the body's length.
        writer.put(&[&[eapol_version, EAPOL_MKA, 0, 0]])?;
        let bits = u8::from(basic.key_server) << 7
            | u8::from(basic.macsec_desired) << 6
            | basic.capability.bits() << 4;
        writer.set(
            [basic.version, basic.priority, bits],
            &[&basic.sci.octets(), &basic.mi.0, &basic.mn.to_be_bytes(), &basic.agility, basic.ckn.octets()],
        )?;
        Ok(writer)
    }

    /// Adds a parameter set.
    ///
    /// # Errors
    /// [`TooLong`]; earlier sets stay.
    pub fn push(&mut self, set: &ParameterSet<'_>) -> Result<(), TooLong> {
        match set {
            ParameterSet::LivePeers { key_server_ssci, peers } => {
                self.set([1, *key_server_ssci, 0], &[peers.0])
            }
            ParameterSet::PotentialPeers(peers) => self.set([2, 0, 0], &[peers.0]),
            ParameterSet::SakUse(sak_use) => self.sak_use(sak_use),
            ParameterSet::DistributedSak(None) => self.set([4, 0, 0], &[]),
            ParameterSet::DistributedSak(Some(distributed)) => self.distributed_sak(distributed),
            ParameterSet::DistributedCak { wrapped, ckn } => self.set([5, 0, 0], &[wrapped, ckn]),
            ParameterSet::Kmd(text) => self.set([6, 0, 0], &[text]),
            ParameterSet::Announcement(tlvs) => self.set([7, 0, 0], &[tlvs.0]),
            ParameterSet::Xpn { suspension, latest_lowest_pn_high, old_lowest_pn_high } => {
                let (latest, old) = (latest_lowest_pn_high.to_be_bytes(), old_lowest_pn_high.to_be_bytes());
                self.set([8, *suspension, 0], &[&latest, &old])
            }
            ParameterSet::Unknown { kind, flags: [second, third], body } => {
                self.set([*kind, *second, third & 0xf0], &[body])
            }
        }
    }

    fn sak_use(&mut self, sak_use: &SakUse) -> Result<(), TooLong> {
        let [keys, plain] = sak_use.flags();
        if sak_use.latest.is_none() && sak_use.old.is_none() {
            return self.set([3, keys, plain], &[]);
        }
        let key = |key: &Option<KeyUse>| match key {
            Some(KeyUse { ki, lowest_pn, .. }) => (ki.server.0, ki.kn.to_be_bytes(), lowest_pn.to_be_bytes()),
            None => ([0; 12], [0; 4], 1_u32.to_be_bytes()),
        };
        let (latest, old) = (key(&sak_use.latest), key(&sak_use.old));
        self.set([3, keys, plain], &[&latest.0, &latest.1, &latest.2, &old.0, &old.1, &old.2])
    }

    fn distributed_sak(&mut self, distributed: &DistributedSak<'_>) -> Result<(), TooLong> {
        let bits = distributed.an.number() << 6 | distributed.confidentiality.bits() << 4;
        let suite = distributed.suite.as_ref().map_or(&[][..], |suite| suite);
        self.set([4, bits, 0], &[&distributed.kn.to_be_bytes(), suite, distributed.wrapped])
    }

    /// Ends the MKPDU with the ICV that `icv` computes over the octets before it, and returns the frame. With
    /// `indicate`, the ICV Indicator parameter set precedes the ICV.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn finish(
        mut self,
        indicate: bool,
        icv: impl FnOnce(&[u8]) -> [u8; ICV_OCTETS],
    ) -> Result<&'b [u8], TooLong> {
        if indicate {
            self.put(&[&[ICV_INDICATOR, 0, 0, ICV_OCTETS as u8]])?;
        }
        let body = self.length - EAPOL_HEADER_OCTETS + ICV_OCTETS;
        let octets = u16::try_from(body).map_err(|_| TooLong)?.to_be_bytes();
        self.buffer[EAPOL_HEADER_OCTETS - 2..EAPOL_HEADER_OCTETS].copy_from_slice(&octets);
        if self.buffer.len() - self.length < ICV_OCTETS {
            return Err(TooLong);
        }
        let icv = icv(&self.buffer[..self.length]);
        self.put(&[&icv])?;
        Ok(&self.buffer[..self.length])
    }

    /// Writes a set: the header's first three octets without the length, and the body.
    fn set(&mut self, [first, second, third]: [u8; 3], body: &[&[u8]]) -> Result<(), TooLong> {
        let length = body.iter().map(|part| part.len()).sum::<usize>();
        if length > LONGEST_BODY {
            return Err(TooLong);
        }
        let before = self.length;
        let padding = &[0; 3][..padded(length) - length];
        let [high, low] = (length as u16).to_be_bytes();
        let written = self
            .put(&[&[first, second, third | high, low]])
            .and_then(|()| self.put(body))
            .and_then(|()| self.put(&[padding]));
        if written.is_err() {
            self.length = before;
        }
        written
    }

    fn put(&mut self, parts: &[&[u8]]) -> Result<(), TooLong> {
        for part in parts {
            let room = self.buffer.get_mut(self.length..self.length + part.len()).ok_or(TooLong)?;
            room.copy_from_slice(part);
            self.length += part.len();
        }
        Ok(())
    }
}

// A basic parameter set always fits its 12 bits.
const _: () = assert!(BASIC_OCTETS + crate::id::Ckn::LONGEST <= LONGEST_BODY);
