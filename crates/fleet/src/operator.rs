//! The operator: seals files to gateways and signs the records.

use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;
use sha2::{Digest as _, Sha256};
use suite::identity::{Identity, PublicKey, RecognitionKey, SIGNATURE_OCTETS};
use zeroize::Zeroizing;

use crate::files::Files;
use crate::member::PublicIdentity;
use crate::name::GatewayName;
use crate::record::{Header, Kind, Record, SEALED, SIGNED, TAG_OCTETS, Validity, body, signed};
use crate::token::{Token, TokenError};

/// Owner of a fleet's signing key.
#[derive(Debug)]
pub struct Operator {
    key: SigningKey,
    /// By which what is published is recognized.
    recognition: RecognitionKey,
}

/// Where the private key is.
#[derive(Debug)]
enum SigningKey {
    /// In memory.
    Identity(Identity),
    /// In a token, which signs.
    Token(Token),
}

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
    pub fn new(identity: Identity) -> Self {
        Self { recognition: identity.recognition_key(), key: SigningKey::Identity(identity) }
    }

    /// Operator whose signing key is in this token. What the same key published from a file is not recognized: it is published once more.
    pub fn of_token(token: Token) -> Self {
        Self { recognition: recognition(&token), key: SigningKey::Token(token) }
    }

    /// True if the key is in a token.
    pub const fn is_of_token(&self) -> bool {
        matches!(self.key, SigningKey::Token(_))
    }

    /// The fleet: the operator's public key.
    pub const fn fleet(&self) -> PublicKey {
        match &self.key {
            SigningKey::Identity(identity) => identity.public(),
            SigningKey::Token(token) => token.public(),
        }
    }

    /// The draft's record.
    ///
    /// # Errors
    /// [`TokenError`] of a key in a token.
    ///
    /// # Panics
    /// If the operating system gives no random numbers.
    pub fn publish(&self, draft: Draft<'_>, version: u64, validity: Validity) -> Result<Vec<u8>, TokenError> {
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
        Ok(signed(&body, &self.sign(SIGNED, &body)?))
    }

    pub(crate) fn sign(&self, context: &[u8], message: &[u8]) -> Result<[u8; SIGNATURE_OCTETS], TokenError> {
        match &self.key {
            SigningKey::Identity(identity) => Ok(identity.sign(context, message)),
            SigningKey::Token(token) => token.sign(context, message),
        }
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
        self.recognition.tag(&octets)
    }
}

/// Key that only the owner of this token can derive: of a signature that is never published. Derived from its digest as from a private key.
fn recognition(token: &Token) -> RecognitionKey {
    let secret = Zeroizing::new(Sha256::digest(token.recognition()).into());
    Identity::new(&secret).recognition_key()
}
