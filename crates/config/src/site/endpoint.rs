//! `endpoint = "198.51.100.7:7787"`: an address, or a name that is looked up when it is needed, and a UDP port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Host and port of a peer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Endpoint {
    /// Its host.
    pub host: Host,
    /// Its UDP port; not 0.
    pub port: u16,
}

/// A host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Host {
    /// By its address: one host's, not that of a group, of all or of none.
    Address(IpAddr),
    /// By its name in the DNS, without a dot at the end, in lower case.
    Name(String),
}

/// Mistake in an endpoint, and its cure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadEndpoint(&'static str);

/// Octets of a name, and of a label of it (RFC 1035, 2.3.4).
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

const SHAPE: BadEndpoint = BadEndpoint(
    "is no host with a port; write one, such as \"198.51.100.7:7787\", \"[2001:db8::7]:7787\" or \"berlin.example.net:7787\"",
);

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        let endpoint = match text.parse::<SocketAddr>() {
            Ok(address) => Self { host: Host::Address(address.ip().to_canonical()), port: address.port() },
            Err(_) => {
                let (name, port) = text.rsplit_once(':').ok_or(SHAPE)?;
                let digits = port.bytes().all(|c| c.is_ascii_digit());
                let port = port.parse().ok().filter(|_| digits).ok_or(SHAPE)?;
                Self { host: Host::Name(name_of(name)?), port }
            }
        };
        if endpoint.port == 0 {
            return Err(BadEndpoint("has port 0, on which nobody listens; write the peer's port"));
        }
        match endpoint.host {
            Host::Address(address) if !is_one_host(address) => {
                Err(BadEndpoint("is not the address of one host; write the peer's own address"))
            }
            _ => Ok(endpoint),
        }
    }
}

fn is_one_host(address: IpAddr) -> bool {
    let all = matches!(address, IpAddr::V4(four) if four.is_broadcast());
    !all && !address.is_unspecified() && !address.is_multicast()
}

fn name_of(text: &str) -> Result<String, BadEndpoint> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        (1..=LONGEST_LABEL).contains(&label.len())
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > LONGEST_NAME || !name.split('.').all(label) {
        return Err(SHAPE);
    }
    // Such as 10.0.0.300: a mistyped address would be looked up as a name.
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|c| c.is_ascii_digit()) {
        return Err(BadEndpoint("is neither an address nor a name; correct the address"));
    }
    Ok(name.to_ascii_lowercase())
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(address) => SocketAddr::new(*address, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_addresses_or_names_with_a_port() {
        for (text, shown) in [
            ("198.51.100.7:7787", "198.51.100.7:7787"),
            ("[2001:db8::7]:7787", "[2001:db8::7]:7787"),
            ("[::ffff:198.51.100.7]:1", "198.51.100.7:1"),
            ("berlin.example.net:65535", "berlin.example.net:65535"),
            ("Berlin.Example.NET.:7787", "berlin.example.net:7787"),
            ("localhost:1", "localhost:1"),
            ("xn--mnchen-3ya.example:1", "xn--mnchen-3ya.example:1"),
            ("site_7.example:1", "site_7.example:1"),
            ("7.example:1", "7.example:1"),
        ] {
            let endpoint = text.parse::<Endpoint>().unwrap();
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(shown.parse(), Ok(endpoint));
        }
        for (text, words) in [
            ("", "no host"),
            ("berlin", "no host"),
            ("berlin:", "no host"),
            ("berlin:+1", "no host"),
            (":7787", "no host"),
            ("berlin:65536", "no host"),
            ("a..b:1", "no host"),
            ("-a:1", "no host"),
            ("a b:1", "no host"),
            ("2001:db8::7:7787", "no host"),
            ("[2001:db8::7]", "no host"),
            ("https://berlin:1", "no host"),
            ("10.0.0.300:7787", "neither an address nor a name"),
            ("berlin:0", "port 0"),
            ("198.51.100.7:0", "port 0"),
            ("0.0.0.0:1", "one host"),
            ("[::]:1", "one host"),
            ("224.0.0.1:1", "one host"),
            ("255.255.255.255:1", "one host"),
            ("[ff02::1]:1", "one host"),
        ] {
            let BadEndpoint(why) = text.parse::<Endpoint>().unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
        assert!(format!("{}:1", "a".repeat(64)).parse::<Endpoint>().is_err());
        assert!(format!("{}a:1", "a.".repeat(127)).parse::<Endpoint>().is_err());
        assert!(format!("{}a:1", "a.".repeat(126)).parse::<Endpoint>().is_ok());
    }
}
