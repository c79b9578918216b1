//! Shared by the tests of several crates: fixtures that other implementations made, frames to send, an etcd, and a way to it that falls silent.
//!
//! Never a dependency of the product.

mod chance;
pub mod cluster;
mod directory;
pub mod etcd;
pub mod fixture;
pub mod frames;
pub mod memory;
pub mod mka;
mod proxy;

pub use chance::{Chance, Speed, seeds};
pub use directory::TestDirectory;
pub use proxy::SilentProxy;
