//! Keys and cipher suites: seal and open frames in place, compose nonces, hold secrets. No protocol, no input or
//! output.
//!
//! A [`Sak`] is key material, a [`Key`] the same material prepared for one [`CipherSuite`]. A burst of frames goes
//! through [`Key::seal_each`] or [`Key::open_each`], which choose the implementation once and then run over all jobs.
//!
//! | suite | implementation |
//! |---|---|
//! | GCM-AES-128, -256, -XPN-128, -XPN-256, ChaCha20-Poly1305 | aws-lc-rs |
//! | AEGIS-128L, AEGIS-256 | libaegis, through the crate aegis |
//! | MORUS-1280-128 | the crate morus |
//! | MORUS-640-128 | here, in `morus640` |
//!
//! The tunnel between sites has keys of its own kind, for headers alone: [`tunnel`]. Who a site is stands in
//! [`identity`], and how another one shows that it knows the site's public key in [`knock`].
//!
//! So has each direction of a cyclic relation: [`fieldbus`].
//!
//! Key agreement's keys (CAK, ICK, KEK) and what is done with them stand in [`mka`].
//!
//! On a CPU without AES instructions, GCM's keystream can be made before the frame is there: [`antedated`].
//!
//! Left out on purpose: anything that knows where in a frame the AAD, the text and the ICV stand (that is the SecY).
#![no_std]

extern crate alloc;

mod aead;
pub mod antedated;
mod cipher_suite;
pub mod fieldbus;
pub mod identity;
mod key;
pub mod knock;
pub mod mka;
mod morus640;
mod nonce;
#[cfg(fuzzing)]
mod null;
mod sak;
mod secret;
pub mod tunnel;
#[cfg(test)]
mod wycheproof;

pub use antedate::LengthPredictor;
pub use cipher_suite::{CipherSuite, UnknownCipherSuite};
pub use key::{Key, OpenJob, SealJob};
pub use nonce::{Nonce, Salt};
#[cfg(fuzzing)]
pub use null::null_icv;
pub use sak::{Sak, WrongKeyLength};
pub use secret::{Secret, SecretArray, scrub_stack, scrubbed};

/// Octets of an ICV, with every suite (IEEE 802.1AE clause 14.5).
pub const ICV_OCTETS: usize = 16;
