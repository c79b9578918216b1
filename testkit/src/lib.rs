//! Shared by the tests of several crates: fixtures that other implementations made, and frames to send.
//!
//! Never a dependency of the product.

mod directory;
pub mod fixture;
pub mod frames;
pub mod memory;
pub mod mka;

pub use directory::TestDirectory;
