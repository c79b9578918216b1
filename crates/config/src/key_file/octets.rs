//! Octets of keys, whatever they are keys for: their fingerprint, and the refusal of zeros.

use std::path::Path;

use sha2::{Digest as _, Sha256};
use suite::scrubbed;

/// Whether a key is nothing but zeros: memory that nobody wrote to, or a place to be filled in. Looks at all of it, however
/// it begins.
pub fn is_zeros(key: &[u8]) -> bool {
    key.iter().fold(0, |all, octet| all | octet) == 0
}

/// Why a key of zeros is refused; `kind` is what `keygen` makes in its place.
pub fn zeros(path: &Path, kind: &str) -> String {
    format!(
        "{} holds only zeros, which are no secret; make a key with: frameward keygen {kind} --out FILE",
        path.display()
    )
}

/// The public part of a key: the first 8 octets of SHA-256 over "frameward key" and the key, as 16 hexadecimal
/// digits. It tells keys apart and tells nothing about them, as long as they are random.
pub fn fingerprint(key: &[u8]) -> String {
    let digest = scrubbed(|| Sha256::new().chain_update(b"frameward key").chain_update(key).finalize());
    hex::encode(&digest[..8])
}
