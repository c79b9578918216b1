//! A gateway's public identity, as its box prints it and the operator keeps it: one line of text.
//!
//! ```text
//!  frameward-gateway-1:BASE64 of  public key, 32   public sealing key, 1216   signature of the latter, 64
//! ```
//!
//! The signature binds the two keys, so the short one alone is compared when a line was carried over an unsafe channel.

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
#[error("is not a gateway's public identity; make it on the gateway with: frameward fleet identity FILE")]
pub struct NotAnIdentity;

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

    /// What files are sealed to.
    pub const fn sealing(&self) -> &PublicSealingKey {
        &self.sealing
    }
}

impl FromStr for PublicIdentity {
    type Err = NotAnIdentity;

    /// Reads the one line that is no comment; comments begin with `#`.
    fn from_str(text: &str) -> Result<Self, NotAnIdentity> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (Some(line), None) = (lines.next(), lines.next()) else { return Err(NotAnIdentity) };
        let digits = line.strip_prefix(PREFIX).ok_or(NotAnIdentity)?;
        // Decoding allocates as much as comes.
        let octets = (digits.len() <= 2 * OCTETS).then(|| STANDARD.decode(digits).ok()).flatten();
        let octets: [u8; OCTETS] = octets.and_then(|octets| octets.try_into().ok()).ok_or(NotAnIdentity)?;
        let (key, rest) = octets.split_first_chunk().expect("invariant: longer than a key");
        let (sealing, signature) = rest.split_last_chunk().expect("invariant: longer than a signature");
        let key = PublicKey(*key);
        if !key.verifies(CONTEXT, sealing, signature) {
            return Err(NotAnIdentity);
        }
        let sealing = PublicSealingKey::parse(sealing).ok_or(NotAnIdentity)?;
        Ok(Self { key, sealing, signature: *signature })
    }
}

impl fmt::Display for PublicIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let octets = [&self.key.0[..], &self.sealing.octets(), &self.signature].concat();
        write!(f, "{PREFIX}{}", STANDARD.encode(octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_printed_and_not_otherwise() {
        let identity = PublicIdentity::of(&Identity::new(&[1; 32]));
        let line = identity.to_string();
        assert_eq!(format!(" {line}\n# {}\n", identity.key()).parse(), Ok(identity));
        // The sealing key of somebody else under this gateway's key.
        let other = PublicIdentity::of(&Identity::new(&[2; 32]));
        let swapped = PublicIdentity { key: Identity::new(&[1; 32]).public(), ..other };
        assert_eq!(swapped.to_string().parse::<PublicIdentity>(), Err(NotAnIdentity));
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
            assert_eq!(bad.parse::<PublicIdentity>(), Err(NotAnIdentity));
        }
    }
}
