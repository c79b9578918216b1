//! The check that a request means this machine. A web site may point its own name to our address (DNS rebinding), and would then count as the same
//! origin. An address it cannot own.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap};
use hyper::http::uri::Authority;

/// Names by which clients may ask, beside all IP addresses and `localhost`.
#[derive(Debug)]
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    /// The machine's own name, and others that it has.
    pub(crate) fn new(others: impl IntoIterator<Item = String>) -> Self {
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let machine = machine.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        Self(machine.into_iter().chain(others).collect())
    }

    /// True if the `Host` of a request is one of them.
    pub(crate) fn has(&self, headers: &HeaderMap) -> bool {
        let authority = headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let Some(authority) = authority else { return false };
        let host = authority.host();
        let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        address.parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || self.0.iter().any(|name| host.eq_ignore_ascii_case(name))
    }
}
