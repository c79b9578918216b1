//! The operator's signing key in a PKCS#11 token: an HSM, a smart card, a TPM 2.0 behind a module, or SoftHSM. The private key never leaves
//! it.
//!
//! Ed25519 without context or prehash (PKCS#11 3.0, section 2.3.14: `CKM_EDDSA`). The module is a shared library, which is loaded when it
//! is asked for. A static program cannot load one.

mod uri;

use std::path::PathBuf;

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use cryptoki::types::AuthPin;
use suite::identity::{IDENTITY_KEY_OCTETS, PublicKey, SIGNATURE_OCTETS};
use zeroize::Zeroizing;

pub use uri::{BadTokenUri, TokenUri};

/// What is signed to see whether the token signs, and alike each time. Its signature is a secret: [`Token::recognition`].
const RECOGNITION: &[u8] = b"frameward fleet recognition 1\0";
/// The curve, as RFC 8410 names it, and as PKCS#11 3.0 does: tokens know one or the other.
const CURVES: [&[u8]; 2] = [b"\x06\x03\x2b\x65\x70", b"\x13\x0cedwards25519"];
/// The longest PIN that is read of a file.
const LONGEST_PIN: usize = 256;

/// A signing key in a token, for as long as its session is open.
#[derive(Debug)]
pub struct Token {
    session: Session,
    key: ObjectHandle,
    public: PublicKey,
    recognition: Zeroizing<[u8; SIGNATURE_OCTETS]>,
}

/// Where a PIN comes from if no file is named: a person who is asked for the PIN of this token. `None`: nobody is there.
pub type AskPin<'a> = &'a mut dyn FnMut(&str) -> Option<Zeroizing<String>>;

/// Why a key in a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// This program cannot load libraries.
    #[error(
        "this program is static and loads no PKCS#11 module; take the Debian package's, or a signing key in a file"
    )]
    Static,
    /// The library is none, or its token cannot be reached.
    #[error("cannot load the PKCS#11 module {}: {why}; correct module-path", path.display())]
    Module {
        /// The library.
        path: PathBuf,
        /// The system's or the module's words.
        why: String,
    },
    /// No token of these attributes is there.
    #[error("{token} is not there; put it in, or correct the URI: {there}")]
    NoToken {
        /// What was looked for.
        token: String,
        /// The tokens that are there, in words.
        there: String,
    },
    /// Several are.
    #[error("there are several of {0}; add serial= to the URI")]
    SeveralTokens(String),
    /// There is no PIN.
    #[error("{0} wants its PIN, and nobody can be asked here; add pin-source=file:FILE to the URI")]
    NoPin(String),
    /// The file with the PIN is none.
    #[error("the PIN cannot be read: {0}")]
    PinFile(String),
    /// The PIN is wrong.
    #[error("{token} refuses the PIN; {}", if *is_last { "the next wrong one locks it: be sure of it first" } else { "correct it" })]
    WrongPin {
        /// The token.
        token: String,
        /// Whether the token says that the next wrong one locks it.
        is_last: bool,
    },
    /// One more wrong PIN locks the token, and a file cannot be asked whether it is right.
    #[error(
        "{0} has one try left, and the next wrong PIN locks it, so the one in the file is not tried; leave out pin-source, and type the PIN once"
    )]
    LastTry(String),
    /// Too many PINs were wrong.
    #[error(
        "{0} is locked after too many wrong PINs; its security officer unlocks it, for example with: pkcs11-tool --init-pin"
    )]
    Locked(String),
    /// The token has no PIN yet.
    #[error("{0} has no PIN yet; its security officer sets one, for example with: pkcs11-tool --init-pin")]
    NoUserPin(String),
    /// There is no such key.
    #[error("{0} is not there; correct object= or id=, or make it with: frameward fleet operator --out URI")]
    NoKey(String),
    /// Several keys are so called.
    #[error("{0} is there several times; add id= to the URI")]
    SeveralKeys(String),
    /// It is a key of another kind.
    #[error(
        "{0} is no Ed25519 key that can sign; name another one, or make one with: frameward fleet operator --out URI"
    )]
    NotEd25519(String),
    /// A key of that name is there.
    #[error("{0} is there already, and is not overwritten; name another object=")]
    Exists(String),
    /// Its public key is not there, or of another one.
    #[error(
        "{0} has no public key beside it that its signatures belong to; put that into the token, under the same object= and id="
    )]
    NoPublicKey(String),
    /// Its signatures differ from time to time.
    #[error(
        "{0} signs the same otherwise each time, so what is published could not be recognized (RFC 8032 has it sign alike); take another token, or a file"
    )]
    Varies(String),
    /// The token or its module failed.
    #[error("{token}: {what} failed: {why}; is it still there?")]
    Failed {
        /// The token.
        token: String,
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        why: String,
    },
}

impl Token {
    /// Opens the key of a URI.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn open(uri: &TokenUri, ask: AskPin<'_>) -> Result<Self, TokenError> {
        Self::in_session(session(uri, false, ask)?, uri)
    }

    /// The key of a URI in a session, once it has signed.
    fn in_session(session: Session, uri: &TokenUri) -> Result<Self, TokenError> {
        let failed = |what| move |error| failure(uri, what, &error);
        let found = session.find_objects(&template(uri, ObjectClass::PRIVATE_KEY, Some(KeyType::EC_EDWARDS)));
        let key = match found.map_err(failed("the search for the key"))?.as_slice() {
            [key] => *key,
            [] => {
                let others = session.find_objects(&template(uri, ObjectClass::PRIVATE_KEY, None));
                let is_there = !others.map_err(failed("the search for the key"))?.is_empty();
                return Err(match is_there {
                    true => TokenError::NotEd25519(uri.to_string()),
                    false => TokenError::NoKey(uri.to_string()),
                });
            }
            _ => return Err(TokenError::SeveralKeys(uri.to_string())),
        };
        let signed = || {
            let signature =
                sign(&session, key, RECOGNITION).map(Zeroizing::new).map_err(failed("to sign"))?;
            let signature: Option<[u8; SIGNATURE_OCTETS]> = signature.as_slice().try_into().ok();
            signature.map(Zeroizing::new).ok_or_else(|| TokenError::NotEd25519(uri.to_string()))
        };
        let recognition = signed()?;
        if *recognition != *signed()? {
            return Err(TokenError::Varies(uri.to_string()));
        }
        let keys = session.find_objects(&template(uri, ObjectClass::PUBLIC_KEY, None));
        let keys = keys.map_err(failed("the search for the public key"))?;
        let is_its = |public: &PublicKey| public.verifies(RECOGNITION, &[], &*recognition);
        let public = keys.into_iter().filter_map(|handle| public_key(&session, handle)).find(is_its);
        let public = public.ok_or_else(|| TokenError::NoPublicKey(uri.to_string()))?;
        Ok(Self { session, key, public, recognition })
    }

    /// Makes a key pair in the token, which never leaves it, and has it sign. Returns the public key.
    ///
    /// # Errors
    /// [`TokenError`]. `Exists` if there is a key of that name.
    pub fn make(uri: &TokenUri, ask: AskPin<'_>) -> Result<PublicKey, TokenError> {
        let session = session(uri, true, ask)?;
        for class in [ObjectClass::PRIVATE_KEY, ObjectClass::PUBLIC_KEY] {
            let there = session.find_objects(&template(uri, class, None));
            if !there.map_err(|error| failure(uri, "the search for the key", &error))?.is_empty() {
                return Err(TokenError::Exists(uri.to_string()));
            }
        }
        let mut refused = None;
        for curve in CURVES {
            let mut public = named(uri);
            public.extend([Attribute::Token(true), Attribute::Private(false), Attribute::Verify(true)]);
            public.push(Attribute::EcParams(curve.to_vec()));
            let mut private = named(uri);
            private.extend([Attribute::Token(true), Attribute::Private(true), Attribute::Sign(true)]);
            private.extend([Attribute::Sensitive(true), Attribute::Extractable(false)]);
            match session.generate_key_pair(&Mechanism::EccEdwardsKeyPairGen, &public, &private) {
                // Boxes are told the public key, so it is proved first.
                Ok(_) => return Self::in_session(session, uri).map(|token| token.public),
                Err(error) => refused = Some(error),
            }
        }
        let why = refused.expect("invariant: there are curves, and each was refused");
        Err(failure(uri, "to make an Ed25519 key", &why))
    }

    /// The public key.
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// Secret by which its owner recognizes what is his: the signature of something that is never published.
    pub(crate) fn recognition(&self) -> &[u8] {
        &*self.recognition
    }

    /// Signature of `message`, as [`suite::identity::Identity::sign`] makes it.
    ///
    /// # Errors
    /// [`TokenError::Failed`].
    pub(crate) fn sign(&self, context: &[u8], message: &[u8]) -> Result<[u8; SIGNATURE_OCTETS], TokenError> {
        let failed = |why: String| TokenError::Failed { token: "the token".to_owned(), what: "to sign", why };
        let signature = sign(&self.session, self.key, &[context, message].concat());
        let signature = signature.map_err(|error| failed(words(&error)))?;
        let signature: Option<[u8; SIGNATURE_OCTETS]> = signature.as_slice().try_into().ok();
        let signature = signature.ok_or_else(|| failed("its signature has another length".to_owned()))?;
        match self.public.verifies(context, message, &signature) {
            true => Ok(signature),
            false => Err(failed("its signature does not verify".to_owned())),
        }
    }
}

/// A session in the one token that the URI names, logged in.
fn session(uri: &TokenUri, writes: bool, ask: AskPin<'_>) -> Result<Session, TokenError> {
    if cfg!(target_feature = "crt-static") {
        return Err(TokenError::Static);
    }
    let module = |error: Error| TokenError::Module { path: uri.module.clone(), why: words(&error) };
    let pkcs11 = Pkcs11::new(&uri.module).map_err(module)?;
    pkcs11.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).map_err(module)?;
    let (slot, info) = slot(&pkcs11, uri)?;
    let session = if writes { pkcs11.open_rw_session(slot) } else { pkcs11.open_ro_session(slot) };
    let session = session.map_err(|error| failure(uri, "to open a session", &error))?;
    if !info.login_required() {
        return Ok(session);
    }
    if info.user_pin_locked() {
        return Err(TokenError::Locked(uri.of()));
    }
    may_be_tried(uri, info.user_pin_final_try())?;
    // A card reader with keys of its own.
    let pin = if info.protected_authentication_path() { None } else { Some(pin(uri, &info, ask)?) };
    match session.login(UserType::User, pin.as_ref()) {
        Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(session),
        Err(error) => {
            let is_last = pkcs11.get_token_info(slot).is_ok_and(|info| info.user_pin_final_try());
            Err(refused(uri, is_last, &error))
        }
    }
}

/// A timer that comes again with a wrong PIN in a file locks no token.
fn may_be_tried(uri: &TokenUri, is_last: bool) -> Result<(), TokenError> {
    if is_last && uri.pin_file().is_some() { Err(TokenError::LastTry(uri.of())) } else { Ok(()) }
}

/// Why a token does not let anybody in.
fn refused(uri: &TokenUri, is_last: bool, error: &Error) -> TokenError {
    match error {
        Error::Pkcs11(RvError::PinIncorrect | RvError::PinLenRange | RvError::PinInvalid, _) => {
            TokenError::WrongPin { token: uri.of(), is_last }
        }
        Error::Pkcs11(RvError::PinLocked, _) => TokenError::Locked(uri.of()),
        Error::Pkcs11(RvError::UserPinNotInitialized, _) => TokenError::NoUserPin(uri.of()),
        error => failure(uri, "to log in", error),
    }
}

/// The one token that has all attributes of the URI.
fn slot(pkcs11: &Pkcs11, uri: &TokenUri) -> Result<(Slot, TokenInfo), TokenError> {
    let slots =
        pkcs11.get_slots_with_token().map_err(|error| failure(uri, "the search for tokens", &error))?;
    let with_info = |slot: Slot| Some((slot, pkcs11.get_token_info(slot).ok()?));
    let there: Vec<_> =
        slots.into_iter().filter_map(with_info).filter(|(_, info)| info.token_initialized()).collect();
    let labels: Vec<_> = there.iter().map(|(_, info)| format!("{:?}", info.label())).collect();
    let has = |info: &TokenInfo, (name, value): &(&str, String)| {
        let there = match *name {
            "token" => info.label(),
            "manufacturer" => info.manufacturer_id(),
            "model" => info.model(),
            _ => info.serial_number(),
        };
        there == value
    };
    let mut named =
        there.into_iter().filter(|(_, info)| uri.token.iter().all(|attribute| has(info, attribute)));
    match (named.next(), named.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(TokenError::SeveralTokens(uri.of())),
        (None, _) => {
            let there = match labels.as_slice() {
                [] => "there is no token".to_owned(),
                labels => format!("there are {}", labels.join(", ")),
            };
            Err(TokenError::NoToken { token: uri.of(), there })
        }
    }
}

/// The PIN: out of the file that the URI names, or of a person.
fn pin(uri: &TokenUri, info: &TokenInfo, ask: AskPin<'_>) -> Result<AuthPin, TokenError> {
    let Some(path) = uri.pin_file() else {
        let typed = ask(info.label()).ok_or_else(|| TokenError::NoPin(uri.of()))?;
        return Ok(AuthPin::from(typed.as_str()));
    };
    config::key_file::check_file(path).map_err(|error| TokenError::PinFile(error.to_string()))?;
    let wrong = |why: &dyn std::fmt::Display| {
        TokenError::PinFile(format!("{}: {why}; put the PIN alone into the file", path.display()))
    };
    let text = std::fs::read(path).map(Zeroizing::new).map_err(|error| wrong(&error))?;
    let pin = text.trim_ascii_end();
    if pin.is_empty() || pin.len() > LONGEST_PIN {
        return Err(wrong(&"is empty, or longer than a PIN"));
    }
    std::str::from_utf8(pin).map(AuthPin::from).map_err(|error| wrong(&error))
}

/// Attributes of the URI's key.
fn named(uri: &TokenUri) -> Vec<Attribute> {
    let label = uri.object.iter().map(|label| Attribute::Label(label.clone().into_bytes()));
    label.chain(uri.id.iter().map(|id| Attribute::Id(id.clone()))).collect()
}

fn template(uri: &TokenUri, class: ObjectClass, kind: Option<KeyType>) -> Vec<Attribute> {
    let mut template = named(uri);
    template.push(Attribute::Class(class));
    template.extend(kind.map(Attribute::KeyType));
    template
}

/// A public key: its octets, or a DER octet string or bit string of them (tokens differ).
fn public_key(session: &Session, handle: ObjectHandle) -> Option<PublicKey> {
    let attributes = session.get_attributes(handle, &[AttributeType::EcPoint]).ok()?;
    let point = attributes.into_iter().find_map(|attribute| match attribute {
        Attribute::EcPoint(point) => Some(point),
        _ => None,
    })?;
    let octets = [b"\x04\x20".as_slice(), b"\x03\x21\x00"].iter().find_map(|head| point.strip_prefix(*head));
    let octets: [u8; IDENTITY_KEY_OCTETS] = octets.unwrap_or(&point).try_into().ok()?;
    Some(PublicKey(octets))
}

fn sign(session: &Session, key: ObjectHandle, octets: &[u8]) -> Result<Vec<u8>, Error> {
    session.sign(&Mechanism::Eddsa(EddsaParams::new(EddsaSignatureScheme::Pure)), key, octets)
}

fn failure(uri: &TokenUri, what: &'static str, error: &Error) -> TokenError {
    TokenError::Failed { token: uri.of(), what, why: words(error) }
}

/// An error without the paragraphs of the standard behind it.
fn words(error: &Error) -> String {
    match error {
        Error::Pkcs11(error, function) => format!("C_{function:?}: {error:?}"),
        Error::LibraryLoading(error) => error.to_string(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use cryptoki::context::Function;

    use super::*;

    /// SoftHSM locks nobody out, so what other tokens answer is put here.
    #[test]
    fn a_token_that_lets_nobody_in_says_why() {
        let uri: TokenUri = "pkcs11:token=fleet;object=key?module-path=/m.so".parse().unwrap();
        let in_file: TokenUri =
            "pkcs11:token=fleet;object=key?module-path=/m.so&pin-source=file:pin".parse().unwrap();
        assert!(may_be_tried(&uri, true).is_ok() && may_be_tried(&in_file, false).is_ok());
        let last = may_be_tried(&in_file, true).unwrap_err().to_string();
        assert!(
            last.starts_with("the token with token=fleet has one try left, and the next wrong PIN"),
            "{last}"
        );
        let told =
            |error, is_last| refused(&uri, is_last, &Error::Pkcs11(error, Function::Login)).to_string();
        assert!(told(RvError::PinIncorrect, false).ends_with("refuses the PIN; correct it"));
        assert!(told(RvError::PinIncorrect, true).contains("the next wrong one locks it"));
        assert!(
            told(RvError::PinLocked, false).contains("token=fleet is locked after too many wrong PINs; its")
        );
        assert!(told(RvError::UserPinNotInitialized, false).contains("has no PIN yet; its security officer"));
        let other = told(RvError::DeviceRemoved, false);
        assert_eq!(
            other,
            "the token with token=fleet: to log in failed: C_Login: DeviceRemoved; is it still there?"
        );
    }
}
