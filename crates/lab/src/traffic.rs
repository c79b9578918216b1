//! Traffic of machines: they transfer files, answer datagrams, exchange process data every cycle.
//!
//! Each runs on threads inside the machines' namespaces and ends by itself: every wait has a deadline. What is sent
//! carries [`MARKER`], so that a search for it tells whether plaintext is somewhere.

mod cyclic;
mod round_trips;
mod tcp;

use std::net::IpAddr;
use std::time::Duration;

use crate::Error;
use crate::topology::Machine;

pub use cyclic::{Cyclic, cyclic};
pub use round_trips::{RoundTrips, lone_round_trips, round_trips};
pub use tcp::{Transfer, Until, tcp, tcp_with};

/// Marker that no frame but ours contains: it stands in every segment, datagram and cyclic frame sent here.
pub const MARKER: &[u8; 16] = b"plaintext-marker";

/// Time under way after which a datagram or a frame counts as lost, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Limit on the time that anything takes beyond its own duration.
const GRACE: Duration = Duration::from_secs(20);

/// Version of the Internet Protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ip {
    /// Version 4.
    V4,
    /// Version 6; only in a topology that has it.
    V6,
}

fn address(machine: &Machine, ip: Ip) -> IpAddr {
    match ip {
        Ip::V4 => machine.ipv4.into(),
        Ip::V6 => machine.ipv6.into(),
    }
}

/// Result of `ping`: round trips of ICMP echoes, lost ones among them.
#[derive(Clone, Debug)]
pub struct Ping {
    /// As its last two lines: packets, and round trips.
    pub summary: String,
}

/// Pings from one machine to the other with the system's `ping`, 50 ms apart. An answer may take [`PATIENCE`], the last
/// one too.
///
/// # Errors
/// If an answer is missing.
pub fn ping(from: &Machine, to: &Machine, ip: Ip, count: u32, payload_octets: u16) -> Result<Ping, Error> {
    let (target, echoes, octets) =
        (address(to, ip).to_string(), count.to_string(), payload_octets.to_string());
    // Without a deadline ping leaves two round trips after the last echo, which a busy machine may exceed. With one it
    // sends further echoes until so many are answered; they are not asked for here.
    let deadline = (PATIENCE + Duration::from_millis(50) * count).as_secs().to_string();
    let arguments =
        ["ping", "-n", "-i", "0.05", "-w", &deadline, "-c", &echoes, "-s", &octets, "-M", "do", &target];
    let output = from.namespace.run_within(&arguments, Duration::from_secs(60))?;
    let answered = |number: u32| output.stdout.contains(&format!("icmp_seq={number} ttl="));
    let line = |word: &str| output.stdout.lines().find(|line| line.contains(word)).unwrap_or_default();
    if (1..=count).all(answered) {
        let summary =
            format!("{count} packets transmitted, {count} received, 0% packet loss; {}", line("rtt"));
        Ok(Ping { summary })
    } else {
        Err(Error::Unexpected(format!("ping to {target}: {}; {}", line("transmitted"), line("rtt"))))
    }
}

fn deadline(what: &str, limit: Duration) -> Error {
    Error::Deadline { what: what.into(), limit }
}
