//! Authentication: doctors know each other by the link's static keys, or by its CAK, which never leave this module's inputs.
//!
//! ```text
//!  MAC key = HKDF-SHA-256(ikm = static key of the sender's transmit SA, or CAK, info = "frameward doctor mac 1" | sender's SCI)
//!  MAC     = first 16 octets of HMAC-SHA-256(MAC key, addresses and message)
//! ```
//!
//! No nonce is taken from the key's PNs: nothing is encrypted, and the cipher suite is not touched. The derived
//! key serves for nothing else, and HKDF gives no way back from it, so a doctor is no oracle for the SecY. Each direction has
//! a key of its own, since each sender has: a frame that is sent back fits as its sender's only. Replays from
//! another run fail on the sessions, which both ends draw anew.

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use wire::Sci;
use zeroize::Zeroizing;

/// Octets of a MAC.
pub const MAC_OCTETS: usize = 16;
const LABEL: &[u8] = b"frameward doctor mac 1";

/// The MAC key of one sender. Wiped when dropped, never shown.
#[derive(Clone)]
pub struct MacKey(Zeroizing<[u8; 32]>);

impl std::fmt::Debug for MacKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MacKey")
    }
}

impl MacKey {
    /// Derives it from the static key of the SA with which `sender` sends, or from the CAK that it is a member by.
    pub fn derive(key: &[u8], sender: Sci) -> Self {
        let mut derived = Zeroizing::new([0; 32]);
        Hkdf::<Sha256>::new(None, key)
            .expand_multi_info(&[LABEL, &sender.octets()], &mut *derived)
            .expect("invariant: 32 octets are one block of HKDF-SHA-256");
        Self(derived)
    }

    pub(super) fn mac(&self, parts: &[&[u8]]) -> [u8; MAC_OCTETS] {
        let mut mac = [0; MAC_OCTETS];
        mac.copy_from_slice(&self.over(parts).finalize().into_bytes()[..MAC_OCTETS]);
        mac
    }

    /// In constant time.
    pub(super) fn verify(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        mac.len() == MAC_OCTETS && self.over(parts).verify_truncated_left(mac).is_ok()
    }

    fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&*self.0).expect("invariant: HMAC takes keys of any length");
        parts.iter().fold(mac, |mac, part| mac.chain_update(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_senders_alone() {
        let (a, b) = (Sci::from_octets([1; 8]), Sci::from_octets([2; 8]));
        let of = |key: u8, sci| MacKey::derive(&[key; 16], sci).mac(&[b"message"]);
        assert_eq!(of(1, a), of(1, a));
        assert_ne!(of(1, a), of(1, b), "one static key at both ends");
        assert_ne!(of(1, a), of(2, a));
        let key = MacKey::derive(&[1; 16], a);
        let mac = key.mac(&[b"mes", b"sage"]);
        assert!(key.verify(&[b"message"], &mac));
        assert!(!key.verify(&[b"message"], &mac[..15]) && !key.verify(&[b"Message"], &mac));
        assert_eq!(format!("{key:?}"), "MacKey");
    }
}
