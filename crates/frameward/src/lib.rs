//! An open-source MACsec encryption gateway for industrial networks: the library of the program.

pub mod check;
pub mod config;
pub mod cpus;
pub mod doctor;
pub mod http;
pub mod init;
pub mod inspect;
pub mod kay_log;
pub mod key_file;
pub mod keygen;
pub mod lifetime;
pub mod log_lines;
pub mod placement;
pub mod plan;
pub mod privilege;
pub mod reload;
pub mod report;
pub mod request;
pub mod run;
pub mod status;
pub mod suite_speed;
