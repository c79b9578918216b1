//! Enrolment: a box asks in the directory to be taken into the fleet, and shows a code; the operator takes the request that has it.
//!
//! ```text
//!  request: array of 3:  body (octets), the gateway's signature of it (64), the token's (64, or none)
//!  body:    map of 4:    0 format, 1    1 fleet: the operator's public key    2 gateway: its name    3 its public identity
//! ```
//!
//! CBOR, deterministic, as records are. Anybody may write such a request. So the operator believes none of it but what the code tells:
//! 16 digits out of a slow hash of fleet, name and whole identity. Who wants to have another identity taken for it has to try 2^53
//! identities, with 2^16 hashes for each. In the place of a code stands a signature of the token that came with a
//! [bundle](crate::Bundle).

use std::fmt;
use std::str::FromStr;

use ciborium_ll::Header as Head;
use sha2::{Digest as _, Sha256};
use suite::identity::{Identity, PublicKey, SIGNATURE_OCTETS};

use crate::cbor::{Malformed, Reader, push, push_octets, push_text};
use crate::member::PublicIdentity;
use crate::name::GatewayName;

const FORMAT: u64 = 1;
const SIGNED: &[u8] = b"frameward fleet request 1\0";
const BY_TOKEN: &[u8] = b"frameward fleet token 1\0";
/// The longest request.
pub const REQUEST_OCTETS: usize = 2048;
/// Hashes for a code, one behind the other.
const HASHES: u32 = 1 << 16;
/// A code has 16 decimal digits.
const CODES: u64 = 10_u64.pow(DIGITS);
const DIGITS: u32 = 16;

/// Request of a box to be taken into a fleet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The fleet: its operator's public key.
    pub fleet: PublicKey,
    /// The name under which the box wants to be known.
    pub gateway: GatewayName,
    /// Who it is.
    pub member: PublicIdentity,
    signature: [u8; SIGNATURE_OCTETS],
    token: Option<[u8; SIGNATURE_OCTETS]>,
}

/// Digits that a box shows, and an operator types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code(u64);

/// Error of octets that are no request, or one that its box did not sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("what is in the directory is no request of a box; have the box ask again: frameward fleet enrol")]
pub struct MalformedRequest;

/// Error of a text that is no code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a code has 16 digits, as the box shows them: 1234-5678-9012-3456")]
pub struct NotACode;

impl Request {
    /// The request of a box. `token`: what came with a bundle.
    pub fn new(
        fleet: PublicKey,
        gateway: &GatewayName,
        identity: &Identity,
        token: Option<&Identity>,
    ) -> Self {
        let member = PublicIdentity::of(identity);
        let body = body(fleet, gateway, &member);
        let token = token.map(|token| token.sign(BY_TOKEN, &body));
        Self { fleet, gateway: gateway.clone(), member, signature: identity.sign(SIGNED, &body), token }
    }

    /// Parses a request, and sees that the box signed it whose identity it has.
    ///
    /// # Errors
    /// [`MalformedRequest`].
    pub fn parse(octets: &[u8]) -> Result<Self, MalformedRequest> {
        if octets.len() > REQUEST_OCTETS {
            return Err(MalformedRequest);
        }
        let (request, body) = Self::parse_whole(octets).map_err(|Malformed| MalformedRequest)?;
        if request.member.key().verifies(SIGNED, body, &request.signature) {
            Ok(request)
        } else {
            Err(MalformedRequest)
        }
    }

    fn parse_whole(octets: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut outer = Reader::new(octets);
        if outer.array()? != 3 {
            return Err(Malformed);
        }
        let (body, signature, token) = (outer.octets()?, *outer.array_of()?, outer.octets()?);
        outer.end()?;
        let token = if token.is_empty() { None } else { Some(token.try_into().map_err(|_| Malformed)?) };
        let mut inner = Reader::new(body);
        inner.map(4)?;
        if inner.key(0)?.number()? != FORMAT {
            return Err(Malformed);
        }
        let fleet = PublicKey(*inner.key(1)?.array_of()?);
        let gateway = GatewayName::new(inner.key(2)?.text()?).ok_or(Malformed)?;
        let member = PublicIdentity::parse(inner.key(3)?.octets()?).ok_or(Malformed)?;
        inner.end()?;
        Ok((Self { fleet, gateway, member, signature, token }, body))
    }

    /// The octets that it is parsed from.
    pub fn encode(&self) -> Vec<u8> {
        let mut octets = Vec::with_capacity(REQUEST_OCTETS);
        push(&mut octets, Head::Array(Some(3)));
        push_octets(&mut octets, &body(self.fleet, &self.gateway, &self.member));
        push_octets(&mut octets, &self.signature);
        push_octets(&mut octets, self.token.as_ref().map_or(&[], |token| token.as_slice()));
        octets
    }

    /// True if the owner of this token made it.
    pub fn has_token(&self, token: PublicKey) -> bool {
        let body = body(self.fleet, &self.gateway, &self.member);
        self.token.is_some_and(|signature| token.verifies(BY_TOKEN, &body, &signature))
    }

    /// Its code: of fleet, name and identity.
    pub fn code(&self) -> Code {
        let body = body(self.fleet, &self.gateway, &self.member);
        let seed = Sha256::new().chain_update(b"frameward fleet code 1\0").chain_update(&body).finalize();
        let mut hash = seed;
        for _ in 0..HASHES {
            hash = Sha256::new().chain_update(hash).chain_update(seed).finalize();
        }
        let number = hash.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
        Code(number % CODES)
    }
}

fn body(fleet: PublicKey, gateway: &GatewayName, member: &PublicIdentity) -> Vec<u8> {
    let mut body = Vec::with_capacity(REQUEST_OCTETS);
    push(&mut body, Head::Map(Some(4)));
    push(&mut body, Head::Positive(0));
    push(&mut body, Head::Positive(FORMAT));
    push(&mut body, Head::Positive(1));
    push_octets(&mut body, &fleet.0);
    push(&mut body, Head::Positive(2));
    push_text(&mut body, gateway.as_str());
    push(&mut body, Head::Positive(3));
    push_octets(&mut body, &member.octets());
    body
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = |place: u32| self.0 / 10_u64.pow(place) % 10_000;
        write!(f, "{:04}-{:04}-{:04}-{:04}", group(12), group(8), group(4), group(0))
    }
}

impl FromStr for Code {
    type Err = NotACode;

    /// Reads the digits, however people divide them.
    fn from_str(text: &str) -> Result<Self, NotACode> {
        let digits = text.chars().filter(|c| !matches!(c, '-' | ' '));
        let mut number = 0;
        let mut count = 0;
        for digit in digits {
            count += 1;
            if count > DIGITS {
                return Err(NotACode);
            }
            number = 10 * number + u64::from(digit.to_digit(10).ok_or(NotACode)?);
        }
        if count == DIGITS { Ok(Self(number)) } else { Err(NotACode) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(seed: u8, name: &str, token: Option<u8>) -> Request {
        let token = token.map(|seed| Identity::new(&[seed; 32]));
        let name = GatewayName::new(name).unwrap();
        Request::new(PublicKey([1; 32]), &name, &Identity::new(&[seed; 32]), token.as_ref())
    }

    #[test]
    fn a_code_is_of_one_fleet_one_name_and_one_identity() {
        let press = request(7, "press", None);
        let code = press.code();
        assert_eq!(request(7, "press", Some(9)).code(), code, "whatever else the request has");
        let other_fleet = Request::new(PublicKey([2; 32]), &press.gateway, &Identity::new(&[7; 32]), None);
        for other in [request(8, "press", None), request(7, "crane", None), other_fleet] {
            assert_ne!(other.code(), code);
        }
        let shown = code.to_string();
        assert_eq!((shown.len(), shown.matches('-').count()), (19, 3), "{shown}");
        for typed in [shown.clone(), shown.replace('-', ""), shown.replace('-', " ")] {
            assert_eq!(typed.parse(), Ok(code));
        }
        for bad in
            ["", "1234", &shown[..18], &format!("{shown}1"), &shown.replacen('-', "x", 1), &"9".repeat(40)]
        {
            assert_eq!(bad.parse::<Code>(), Err(NotACode), "{bad}");
        }
        assert_eq!(Code(12).to_string(), "0000-0000-0000-0012");
    }

    #[test]
    fn a_request_is_what_its_box_signed_and_the_token_is_nobody_elses() {
        let with = request(7, "press", Some(9));
        assert_eq!(Request::parse(&with.encode()), Ok(with.clone()));
        assert!(with.has_token(Identity::new(&[9; 32]).public()));
        assert!(!with.has_token(Identity::new(&[8; 32]).public()));
        assert!(!request(7, "press", None).has_token(Identity::new(&[9; 32]).public()));
        // The token's signature under another identity: whoever reads the directory has it.
        let other = Request { token: with.token, ..request(8, "press", None) };
        assert_eq!(Request::parse(&other.encode()), Ok(other.clone()));
        assert!(!other.has_token(Identity::new(&[9; 32]).public()));
        // Another name, or another one's signature.
        let renamed = Request { gateway: GatewayName::new("crane").unwrap(), ..with.clone() };
        assert_eq!(Request::parse(&renamed.encode()), Err(MalformedRequest));
        let octets = with.encode();
        for i in 0..octets.len() {
            let mut changed = octets.clone();
            changed[i] ^= 1;
            // The token's signature alone is judged later, by who knows the token.
            let is_same =
                Request::parse(&changed).is_ok_and(|read| !read.has_token(Identity::new(&[9; 32]).public()));
            assert!(Request::parse(&changed).is_err() || is_same, "octet {i}");
            assert!(Request::parse(&octets[..i]).is_err(), "{i} octets");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_encodes_to_itself(at in any::<prop::sample::Index>(), octet: u8, cut in 0..3_usize) {
            let valid = request(7, "press", Some(9)).encode();
            prop_assert!(Request::parse(&valid).is_ok());
            let mut octets = valid.clone();
            octets.truncate(valid.len() - cut);
            let at = at.index(octets.len());
            octets[at] = octet;
            match Request::parse(&octets) {
                Ok(request) => prop_assert_eq!(request.encode(), octets),
                Err(_) => prop_assert_ne!(octets, valid),
            }
        }
    }
}
