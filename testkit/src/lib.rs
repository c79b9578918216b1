//! Shared by the tests of several crates: fixtures that other implementations made, frames to send, and an etcd.
//!
//! Never a dependency of the product.

mod chance;
mod directory;
pub mod etcd;
pub mod fixture;
pub mod frames;
pub mod memory;
pub mod mka;

pub use chance::{Chance, seeds};
pub use directory::TestDirectory;
