//! Addresses of directories.
//!
//! ```text
//!  etcd://HOST:PORT,HOST:PORT...                                     without TLS: for loopback, or inside of a tunnel
//!  etcds://HOST:PORT,...?ca=FILE[&certificate=FILE&key=FILE]         with TLS, in PEM files, or credential:NAME
//!  everything else                                                   a file
//! ```

use std::ffi::OsString;
use std::fmt;
use std::iter;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use config::key_file::named_file;

use super::etcd::{EtcdAddress, TlsFiles};

/// The port of an etcd whose address names none.
const PORT: u16 = 2379;

/// Where a directory is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A file of redb.
    File(PathBuf),
    /// An etcd.
    Etcd(EtcdAddress),
}

/// Error of a text that is no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{text:?} is no address of a directory: {why}; use a file, etcd://HOST:PORT,... or etcds://HOST:PORT,...?ca=FILE"
)]
pub struct BadAddress {
    text: String,
    why: &'static str,
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why| BadAddress { text: text.to_owned(), why };
        let (rest, with_tls) = match (text.strip_prefix("etcd://"), text.strip_prefix("etcds://")) {
            (Some(rest), _) => (rest, false),
            (_, Some(rest)) => (rest, true),
            _ if text.is_empty() => return Err(bad("it is empty")),
            _ if text.contains("://") => return Err(bad("its scheme is unknown")),
            _ => return Ok(Self::File(text.into())),
        };
        let (hosts, settings) =
            rest.split_once('?').map_or((rest, None), |(hosts, settings)| (hosts, Some(settings)));
        let hosts: Option<Vec<_>> = hosts.split(',').map(endpoint).collect();
        let endpoints = hosts.ok_or_else(|| bad("a host or port is missing or wrong"))?;
        let tls = match (with_tls, settings) {
            (false, None) => None,
            (false, Some(_)) => return Err(bad("etcd:// has no settings; etcds:// has TLS")),
            (true, settings) => Some(tls_files(settings.unwrap_or_default()).map_err(bad)?),
        };
        Ok(Self::Etcd(EtcdAddress { endpoints, tls }))
    }
}

/// Host and port; an IPv6 address stands in brackets.
fn endpoint(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok().filter(|port| *port != 0)?),
        _ => (text, PORT),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match bare {
        Some(bare) => bare.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_'))
        }
    };
    is_host.then(|| (bare.unwrap_or(host).to_owned(), port))
}

fn tls_files(settings: &str) -> Result<TlsFiles, &'static str> {
    let (mut ca, mut certificate, mut key) = (None, None, None);
    for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
        let (name, file) = setting.split_once('=').ok_or("a setting is NAME=FILE")?;
        let place = match name {
            "ca" => &mut ca,
            "certificate" => &mut certificate,
            "key" => &mut key,
            _ => return Err("its settings are ca, certificate and key"),
        };
        if file.is_empty() || place.replace(named_file(Path::new(""), file)).is_some() {
            return Err("a setting is empty or stands there twice");
        }
    }
    let client = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("certificate and key go together"),
    };
    Ok(TlsFiles {
        ca: ca.ok_or("ca is missing: the file with the authority that signed the certificates of etcd")?,
        client,
    })
}

impl Address {
    /// The whole address, as a command takes it: with the files of TLS, which [`Display`](fmt::Display) leaves out.
    pub fn argument(&self) -> OsString {
        let address = match self {
            Self::File(path) => return path.into(),
            Self::Etcd(address) => address,
        };
        let mut argument = OsString::from(address.to_string());
        if let Some(TlsFiles { ca, client }) = &address.tls {
            let client =
                client.iter().flat_map(|(certificate, key)| [("&certificate=", certificate), ("&key=", key)]);
            for (name, file) in iter::once(("?ca=", ca)).chain(client) {
                argument.push(name);
                argument.push(file);
            }
        }
        argument
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Etcd(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused() {
        for (text, expected) in [
            ("fleet.redb", "fleet.redb"),
            ("/srv/fleet.redb", "/srv/fleet.redb"),
            ("etcd://a", "etcd://a:2379"),
            ("etcd://a:1,b.example:2,[::1]:3,[::1]", "etcd://a:1,b.example:2,[::1]:3,[::1]:2379"),
            ("etcds://a?ca=ca.pem", "etcds://a:2379"),
            ("etcds://a?ca=ca.pem&certificate=c.pem&key=k.pem", "etcds://a:2379"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), expected);
            // Of a command that is given on, nothing is lost.
            assert_eq!(address.argument().to_str().unwrap().parse::<Address>(), Ok(address), "{text}");
        }
        for (text, why) in [
            ("", "it is empty"),
            ("http://a", "its scheme is unknown"),
            ("etcd://", "a host or port is missing or wrong"),
            ("etcd://a,", "a host or port is missing or wrong"),
            ("etcd://a:0", "a host or port is missing or wrong"),
            ("etcd://a:65536", "a host or port is missing or wrong"),
            ("etcd://a/b", "a host or port is missing or wrong"),
            ("etcd://::1", "a host or port is missing or wrong"),
            ("etcd://user@a", "a host or port is missing or wrong"),
            ("etcd://a?ca=x", "etcd:// has no settings; etcds:// has TLS"),
            ("etcds://a", "ca is missing: the file with the authority that signed the certificates of etcd"),
            ("etcds://a?ca=x&ca=y", "a setting is empty or stands there twice"),
            ("etcds://a?ca=", "a setting is empty or stands there twice"),
            ("etcds://a?ca", "a setting is NAME=FILE"),
            ("etcds://a?insecure=1", "its settings are ca, certificate and key"),
            ("etcds://a?ca=x&key=y", "certificate and key go together"),
        ] {
            assert_eq!(text.parse::<Address>(), Err(BadAddress { text: text.to_owned(), why }), "{text}");
        }
    }
}
