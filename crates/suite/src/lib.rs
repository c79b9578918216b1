//! Keys and cipher suites: seals and opens frames in place, composes nonces, holds secrets. No protocol, no
//! input or output.
//!
//! A [`Sak`] is key material, a [`Key`] the same material prepared for one [`CipherSuite`]. A burst of frames
//! goes through [`Key::seal_each`] or [`Key::open_each`], which choose the implementation once for all jobs.
//!
//! | suite | implementation |
//! |---|---|
//! | GCM-AES-128, -256, -XPN-128, -XPN-256, ChaCha20-Poly1305 | aws-lc-rs |
//! | AEGIS-128L, AEGIS-256 | libaegis, through the crate aegis |
//! | MORUS-1280-128 | the crate morus |
//! | MORUS-640-128 | here, in `morus640` |
//!
//! Modules for other keys:
//!
//! - [`sealing`]: what only the owner of an identity can open.
//! - [`tunnel`]: headers between sites. [`identity`]: who a site is. [`knock`]: proof of knowing a site's
//!   public key. [`path_probe`]: probes of the paths between two sites. [`beat`]: two boxes on one LAN.
//! - [`fieldbus`]: each direction of a cyclic relation.
//! - [`mka`]: key agreement (CAK, ICK, KEK).
//! - [`antedated`]: GCM keystreams made ahead, for CPUs without AES instructions.
//!
//! Left out on purpose: the places of AAD, text and ICV in a frame (the SecY's knowledge).
#![no_std]

extern crate alloc;

mod aead;
pub mod antedated;
pub mod beat;
mod cipher_suite;
pub mod fieldbus;
pub mod identity;
mod key;
mod keystream;
pub mod knock;
pub mod mka;
mod morus640;
mod nonce;
#[cfg(fuzzing)]
mod null;
pub mod path_probe;
mod sak;
pub mod sealing;
mod secret;
pub mod tunnel;
#[cfg(test)]
mod wycheproof;

pub use antedate::LengthPredictor;
pub use cipher_suite::{CipherSuite, UnknownCipherSuite};
pub use key::{Key, OpenJob, SealJob};
pub use keystream::ChaCha20Keystream;
pub use nonce::{Nonce, Salt};
#[cfg(fuzzing)]
pub use null::null_icv;
pub use sak::{Sak, WrongKeyLength};
pub use secret::{Secret, SecretArray, scrub_stack, scrubbed};

/// Octets of an ICV, with every suite (IEEE 802.1AE clause 14.5).
pub const ICV_OCTETS: usize = 16;
