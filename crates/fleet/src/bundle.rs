//! A bundle: what an operator hands to one box on a stick, so that it asks by itself to be taken into the fleet. After RFC 8572's
//! idea: signed, for one box, once.
//!
//! ```text
//!  frameward-bundle-1:BASE64 of
//!  bundle:  array of 2:  body (octets), the operator's signature of it (64)
//!  body:    map of 8:    0 fleet: the operator's public key   1 gateway: its name     2 number: rises with each bundle
//!                        3 valid from, 4 valid until          5 machine (text)        6 directory (text)     7 token (32, secret)
//! ```
//!
//! The token is a private key that signs the box's request. The operator keeps its public half. So whoever has the stick can ask in the
//! box's place, once, and the box is refused then: that is noticed. The machine is checked by the box itself, against mistakes.

mod enrolled;
mod machine;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ciborium_ll::Header as Head;
use sha2::{Digest as _, Sha256};
use suite::identity::{Identity, PublicKey, SIGNATURE_OCTETS};
use zeroize::Zeroizing;

use crate::Span;
use crate::cbor::{Malformed, Reader, push, push_octets, push_text};
use crate::name::GatewayName;
use crate::operator::Operator;
use crate::record::Validity;
use crate::token::TokenError;
pub use enrolled::Enrolled;
pub use machine::{Machine, Machines};

const PREFIX: &str = "frameward-bundle-1:";
const SIGNED: &[u8] = b"frameward fleet bundle 1\0";
/// The longest text of a bundle.
pub const BUNDLE_OCTETS: usize = 4096;
/// The longest name of a machine, and address of a directory.
const LONGEST_TEXT: usize = 1024;

/// A bundle as it was read. Nothing of it is verified.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The fleet: its operator's public key.
    pub fleet: PublicKey,
    /// The name that the box gets.
    pub gateway: GatewayName,
    /// One more than that of the bundle before, or the time.
    pub number: u64,
    /// When it may be used.
    pub validity: Validity,
    /// The box that it is for.
    pub machine: Machine,
    /// Address of the directory.
    pub directory: String,
    token: Zeroizing<[u8; 32]>,
    signature: [u8; SIGNATURE_OCTETS],
}

/// Why a bundle is not used. Nothing changes on the box.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BundleRefusal {
    /// No bundle.
    #[error("is no bundle, or damaged; have the operator make one: frameward fleet bundle")]
    Malformed,
    /// Of another operator.
    #[error("is of operator {fleet}, and this box belongs to another one")]
    Foreign {
        /// That operator's public key.
        fleet: PublicKey,
    },
    /// Not signed by whom it names.
    #[error("is not signed by the operator whom it names: somebody changed it")]
    NotSigned,
    /// For another box.
    #[error("is for the box with {0}, which this one is not")]
    OtherMachine(Machine),
    /// Valid later, by this machine's clock.
    #[error("is valid in {0} by this box's clock; is the clock right?")]
    NotYetValid(Span),
    /// Not valid any more, by this machine's clock.
    #[error(
        "ended {0} ago by this box's clock; is the clock right? If it is, have the operator make another one"
    )]
    Expired(Span),
    /// That very one was used.
    #[error("was used on this box already, and counts once; have the operator make another one")]
    Replayed,
    /// A newer one was used.
    #[error("is older than the one that was used on this box last; have the operator make another one")]
    Older,
}

impl Bundle {
    /// A new bundle.
    ///
    /// # Errors
    /// [`TokenError`] of a signing key in a token.
    pub fn new(
        operator: &Operator,
        gateway: &GatewayName,
        (number, validity): (u64, Validity),
        machine: Machine,
        directory: &str,
        token: &[u8; 32],
    ) -> Result<Self, TokenError> {
        let mut bundle = Self {
            fleet: operator.fleet(),
            gateway: gateway.clone(),
            number,
            validity,
            machine,
            directory: directory.to_owned(),
            token: Zeroizing::new(*token),
            signature: [0; SIGNATURE_OCTETS],
        };
        bundle.signature = operator.sign(SIGNED, &bundle.body())?;
        Ok(bundle)
    }

    /// The token, which signs the request.
    pub fn token(&self) -> Identity {
        Identity::new(&self.token)
    }

    /// Judges it on a box. `operator`: whom the box belongs to; if nobody, whoever brings the first bundle. `used`: what it used last.
    ///
    /// # Errors
    /// [`BundleRefusal`].
    pub fn judge(
        &self,
        operator: Option<PublicKey>,
        used: Option<&Enrolled>,
        machines: &Machines,
        now: u64,
    ) -> Result<Enrolled, BundleRefusal> {
        let Validity { from, until } = self.validity;
        if operator.or_else(|| used.map(|used| used.fleet)).is_some_and(|known| known != self.fleet) {
            return Err(BundleRefusal::Foreign { fleet: self.fleet });
        }
        if !self.fleet.verifies(SIGNED, &self.body(), &self.signature) {
            return Err(BundleRefusal::NotSigned);
        }
        if !self.machine.is_one_of(machines) {
            return Err(BundleRefusal::OtherMachine(self.machine.clone()));
        }
        if now < from {
            return Err(BundleRefusal::NotYetValid(Span(from - now)));
        }
        if now >= until {
            return Err(BundleRefusal::Expired(Span(now - until)));
        }
        let digest = Sha256::digest(self.encode().as_slice()).into();
        let this = Enrolled { fleet: self.fleet, number: self.number, digest };
        match used.filter(|used| used.fleet == self.fleet) {
            Some(used) if *used == this => Err(BundleRefusal::Replayed),
            Some(used) if self.number <= used.number => Err(BundleRefusal::Older),
            _ => Ok(this),
        }
    }

    fn body(&self) -> Zeroizing<Vec<u8>> {
        // Full capacity at once: a growing vector leaves copies of the token behind.
        let mut body = Zeroizing::new(Vec::with_capacity(3 * LONGEST_TEXT));
        let key = |body: &mut Vec<u8>, key| push(body, Head::Positive(key));
        push(&mut body, Head::Map(Some(8)));
        key(&mut body, 0);
        push_octets(&mut body, &self.fleet.0);
        key(&mut body, 1);
        push_text(&mut body, self.gateway.as_str());
        for (at, number) in [(2, self.number), (3, self.validity.from), (4, self.validity.until)] {
            key(&mut body, at);
            push(&mut body, Head::Positive(number));
        }
        key(&mut body, 5);
        push_text(&mut body, &self.machine.to_string());
        key(&mut body, 6);
        push_text(&mut body, &self.directory);
        key(&mut body, 7);
        push_octets(&mut body, &*self.token);
        body
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let body = self.body();
        let mut octets = Zeroizing::new(Vec::with_capacity(body.len() + 2 * SIGNATURE_OCTETS));
        push(&mut octets, Head::Array(Some(2)));
        push_octets(&mut octets, &body);
        push_octets(&mut octets, &self.signature);
        octets
    }

    /// Its text, which is a secret until it was used.
    pub fn text(&self) -> Zeroizing<String> {
        let octets = self.encode();
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + 2 * octets.len()));
        text.push_str(PREFIX);
        STANDARD.encode_string(octets.as_slice(), &mut text);
        text.push('\n');
        text
    }

    /// Parses the text of a bundle.
    ///
    /// # Errors
    /// `Malformed`.
    pub fn parse(text: &str) -> Result<Self, BundleRefusal> {
        let digits = text.trim_end().strip_prefix(PREFIX).filter(|digits| digits.len() <= BUNDLE_OCTETS);
        let octets = digits.and_then(|digits| STANDARD.decode(digits).ok()).map(Zeroizing::new);
        let octets = octets.ok_or(BundleRefusal::Malformed)?;
        Self::parse_whole(&octets).map_err(|Malformed| BundleRefusal::Malformed)
    }

    fn parse_whole(octets: &[u8]) -> Result<Self, Malformed> {
        let mut outer = Reader::new(octets);
        if outer.array()? != 2 {
            return Err(Malformed);
        }
        let (body, signature) = (outer.octets()?, *outer.array_of()?);
        outer.end()?;
        let mut inner = Reader::new(body);
        inner.map(8)?;
        let fleet = PublicKey(*inner.key(0)?.array_of()?);
        let gateway = GatewayName::new(inner.key(1)?.text()?).ok_or(Malformed)?;
        let number = inner.key(2)?.number()?;
        let validity = Validity { from: inner.key(3)?.number()?, until: inner.key(4)?.number()? };
        let machine = inner.key(5)?.text()?.parse().map_err(|_| Malformed)?;
        let directory = inner.key(6)?.text()?;
        let token = Zeroizing::new(*inner.key(7)?.array_of()?);
        inner.end()?;
        if directory.len() > LONGEST_TEXT || directory.contains(char::is_control) {
            return Err(Malformed);
        }
        Ok(Self {
            fleet,
            gateway,
            number,
            validity,
            machine,
            directory: directory.to_owned(),
            token,
            signature,
        })
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle")
            .field("gateway", &self.gateway)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
