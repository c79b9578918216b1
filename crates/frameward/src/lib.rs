//! An open-source MACsec encryption gateway for industrial networks: the library of the program.

pub mod http;
pub mod init;
pub mod keygen;
pub mod log_lines;
pub mod plan;
pub mod privilege;
pub mod reload;
pub mod request;
pub mod run;
pub mod status;
