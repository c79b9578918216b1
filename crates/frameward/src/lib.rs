//! An open-source MACsec encryption gateway for industrial networks: the library of the program.

pub mod cockpit;
pub mod fleet_agent;
pub mod fleet_top;
pub mod http;
pub mod init;
pub use config::keygen;
pub mod log;
pub mod membership;
pub mod plan;
pub mod privilege;
pub mod run;
pub mod status;
mod terminal;
