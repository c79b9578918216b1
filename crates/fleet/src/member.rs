//! A gateway's public identity, as its box prints it and the operator keeps it: two lines of text.
//!
//! ```text
//!  frameward-gateway-1:BASE64 of  public key, 32   public sealing key, 1216   signature of the latter, 64
//!  # HEX of the public key
//! ```
//!
//! The signature binds the two keys, and the second line has to be the key of the first. So people compare the second line alone when
//! the text was carried over an unsafe channel.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use suite::identity::{IDENTITY_KEY_OCTETS, Identity, PublicKey, SIGNATURE_OCTETS};
use suite::sealing::{PublicSealingKey, SEALING_KEY_OCTETS};

/// First characters of a line. Another form has another number.
const PREFIX: &str = "frameward-gateway-1:";
/// What the signature is about.
const CONTEXT: &[u8] = b"frameward fleet identity 1\0";
const OCTETS: usize = IDENTITY_KEY_OCTETS + SEALING_KEY_OCTETS + SIGNATURE_OCTETS;

/// Public identity of a gateway: by which key it is known, and what files for it are sealed to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicIdentity {
    key: PublicKey,
    sealing: PublicSealingKey,
    signature: [u8; SIGNATURE_OCTETS],
}

/// Error of a text that is no public identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAnIdentity {
    /// The line with the keys is not there, or damaged.
    #[error("is not a gateway's public identity; make it on the gateway with: frameward fleet identity FILE")]
    Malformed,
    /// The line that people compare is about another key, or is not there.
    #[error(
        "has keys of {key}, and its line with # is not this key: somebody exchanged one of the lines; take both anew from the gateway: frameward fleet identity FILE"
    )]
    OtherKey {
        /// The key by which the gateway would be known.
        key: PublicKey,
    },
}

impl PublicIdentity {
    /// The public part of an identity.
    pub fn of(identity: &Identity) -> Self {
        let sealing = identity.sealing_key().public();
        let signature = identity.sign(CONTEXT, &sealing.octets());
        Self { key: identity.public(), sealing, signature }
    }

    /// The key by which the gateway is known.
    pub const fn key(&self) -> PublicKey {
        self.key
    }

    /// Key, sealing key and signature.
    pub(crate) fn octets(&self) -> Vec<u8> {
        [&self.key.0[..], &self.sealing.octets(), &self.signature].concat()
    }

    /// Parses [`Self::octets`]; `None` if the key did not sign the sealing key.
    pub(crate) fn parse(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; OCTETS] = octets.try_into().ok()?;
        let (key, rest) = octets.split_first_chunk().expect("invariant: longer than a key");
        let (sealing, signature) = rest.split_last_chunk().expect("invariant: longer than a signature");
        let key = PublicKey(*key);
        if !key.verifies(CONTEXT, sealing, signature) {
            return None;
        }
        Some(Self { key, sealing: PublicSealingKey::parse(sealing)?, signature: *signature })
    }

    /// What files are sealed to.
    pub const fn sealing(&self) -> &PublicSealingKey {
        &self.sealing
    }
}

impl FromStr for PublicIdentity {
    type Err = NotAnIdentity;

    /// Reads both lines, in any order.
    fn from_str(text: &str) -> Result<Self, NotAnIdentity> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let (told, keys): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with('#'));
        let &[line] = keys.as_slice() else { return Err(NotAnIdentity::Malformed) };
        let digits = line.strip_prefix(PREFIX).ok_or(NotAnIdentity::Malformed)?;
        // Decoding allocates as much as comes.
        let octets = (digits.len() <= 2 * OCTETS).then(|| STANDARD.decode(digits).ok()).flatten();
        let identity = octets.and_then(|octets| Self::parse(&octets)).ok_or(NotAnIdentity::Malformed)?;
        let key = identity.key;
        if told != [format!("# {key}")] {
            return Err(NotAnIdentity::OtherKey { key });
        }
        Ok(identity)
    }
}

impl fmt::Display for PublicIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}\n# {}", STANDARD.encode(self.octets()), self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_printed_and_not_otherwise() {
        let identity = PublicIdentity::of(&Identity::new(&[1; 32]));
        let key = identity.key();
        let printed = identity.to_string();
        let (line, told) = printed.split_once('\n').unwrap();
        assert_eq!(told, format!("# {key}"));
        assert_eq!(format!(" {line}\r\n\n{told}\n").parse(), Ok(identity));
        // Somebody exchanged the keys, and left the line that people compare; or took that away, or wrote two.
        let other_told = format!("# {}", Identity::new(&[2; 32]).public());
        for told in [&other_told, "", &format!("{told} of press"), &format!("{told}\n{other_told}")] {
            let exchanged = format!("{line}\n{told}").parse::<PublicIdentity>();
            assert_eq!(exchanged, Err(NotAnIdentity::OtherKey { key }), "{told}");
        }
        // The sealing key of somebody else under this gateway's key.
        let other = PublicIdentity::of(&Identity::new(&[2; 32]));
        let swapped = PublicIdentity { key: Identity::new(&[1; 32]).public(), ..other };
        assert_eq!(swapped.to_string().parse::<PublicIdentity>(), Err(NotAnIdentity::Malformed));
        let bad = [
            String::new(),
            line.replace(PREFIX, ""),
            line.replace("-1:", "-2:"),
            line[..line.len() - 4].to_owned(),
            format!("{line}AAAA"),
            format!("{line}\n{line}"),
            format!("{line}{}", "A".repeat(1 << 20)),
            line.replacen("A", "B", 1),
        ];
        for bad in bad {
            assert_eq!(format!("{bad}\n{told}").parse::<PublicIdentity>(), Err(NotAnIdentity::Malformed));
        }
    }
}
