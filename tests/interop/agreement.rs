//! Key agreement with a real wpa_supplicant.

mod kay;

/// The guest's address.
const GUEST_MAC: &str = "02:00:00:00:00:d3";
