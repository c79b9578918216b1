//! Connects and names of PROFINET's stations: parsed within the octets that are there, in bounded steps.

use std::time::Duration;

use wire::profinet::connect::Connect;
use wire::profinet::{StationName, dcp, udp_payload};

/// Reads `octets` as a UDP datagram of DCE/RPC, as an IPv4 packet with one, and as a DCP answer.
///
/// # Panics
/// If a parser does, or tells of more than there is.
pub fn run(octets: &[u8]) {
    connect(octets);
    if let Some(datagram) = udp_payload(octets) {
        assert!(datagram.len() + 28 <= octets.len());
        connect(datagram);
    }
    if let Some(name) = dcp::identified(octets) {
        is_name(name, octets);
    }
}

fn connect(datagram: &[u8]) {
    let Ok(connect) = Connect::parse(datagram) else { return };
    if let Some(name) = connect.name {
        is_name(name, datagram);
    }
    let mut octets = 0;
    for iocr in connect.iocrs() {
        octets += 12;
        let possible = Duration::from_nanos(31_250)..=Duration::from_millis(2048);
        assert!(iocr.cycle.is_none_or(|cycle| possible.contains(&cycle)));
    }
    assert!(octets <= datagram.len(), "each IOCR has octets of its own");
}

fn is_name(name: StationName<'_>, octets: &[u8]) {
    let name = name.as_str().as_bytes();
    assert!((1..=StationName::LONGEST).contains(&name.len()));
    assert!(octets.windows(name.len()).any(|window| window == name));
    assert!(name.iter().all(|octet| octet.is_ascii_alphanumeric() || b"-.".contains(octet)));
}
