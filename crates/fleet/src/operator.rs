//! The operator: seals files to gateways and signs the records.

use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;
use suite::identity::{Identity, PublicKey, SIGNATURE_OCTETS};

use crate::files::Files;
use crate::member::PublicIdentity;
use crate::name::GatewayName;
use crate::record::{Header, Kind, Record, SEALED, SIGNED, TAG_OCTETS, Validity, body, signed};

/// Owner of a fleet's signing key.
#[derive(Debug)]
pub struct Operator(Identity);

/// What is to be published for a gateway.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// The gateway's name.
    pub gateway: &'a GatewayName,
    /// Who it is.
    pub member: &'a PublicIdentity,
    /// What it is told.
    pub kind: Kind,
    /// Its configuration and key files; none if it is revoked.
    pub files: &'a Files,
}

impl Operator {
    /// Operator with this signing key.
    pub const fn new(identity: Identity) -> Self {
        Self(identity)
    }

    /// The fleet: the operator's public key.
    pub const fn fleet(&self) -> PublicKey {
        self.0.public()
    }

    /// The draft's record.
    ///
    /// # Panics
    /// If the operating system gives no random numbers.
    pub fn publish(&self, draft: Draft<'_>, version: u64, validity: Validity) -> Vec<u8> {
        let header = Header {
            fleet: self.fleet(),
            gateway: draft.gateway.clone(),
            kind: draft.kind,
            version,
            validity,
            member: draft.member.key(),
            tag: self.tag(draft.member.key(), draft.files),
        };
        let aad = header.encode();
        let sealed = draft.member.sealing().seal(SEALED, &aad, &draft.files.encode(), &mut UnwrapErr(SysRng));
        let body = body(&header, &sealed);
        signed(&body, &self.sign(SIGNED, &body))
    }

    pub(crate) fn sign(&self, context: &[u8], message: &[u8]) -> [u8; SIGNATURE_OCTETS] {
        self.0.sign(context, message)
    }

    /// True if a record of this operator has exactly these files, for whichever identity of the gateway.
    pub(crate) fn has_files(&self, record: &Record<'_>, files: &Files) -> bool {
        let header = record.header();
        header.tag == self.tag(header.member, files)
    }

    fn tag(&self, member: PublicKey, files: &Files) -> [u8; TAG_OCTETS] {
        // The files are many octets, and their encoding says itself where it ends; so does each key in front of it.
        let files = files.encode();
        let mut octets = zeroize::Zeroizing::new(Vec::with_capacity(64 + files.len()));
        octets.extend_from_slice(b"frameward fleet tag 1\0");
        octets.extend_from_slice(&member.0);
        octets.extend_from_slice(&files);
        self.0.recognition_key().tag(&octets)
    }
}
