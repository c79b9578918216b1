//! Why a connection failed or ended, in words for a person.

use quinn::{ConnectionError, TransportErrorCode};
use suite::identity::PublicKey;
use tunnel::PeerFault;

use super::transport::{DEAD, code};

/// Who ended a handshake, if it was not this site.
const PEER: &str = "the peer";

/// Why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Why {
    /// One line.
    pub(super) text: String,
    /// What to do about it; empty if there is nothing to say.
    pub(super) cure: &'static str,
    /// Whether a person has to change something: keys, versions or settings do not fit, or an end does wrong.
    pub(super) refused: bool,
    /// Whether nobody answered.
    pub(super) silent: bool,
    /// Whether it is no news: another connection is there, or about to come.
    pub(super) superseded: bool,
}

impl Why {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), cure: "", refused: false, silent: false, superseded: false }
    }

    /// The same, with what to do.
    pub(super) fn cured_by(self, cure: &'static str) -> Self {
        Self { cure, ..self }
    }

    /// Both in one line.
    pub(super) fn advice(&self) -> String {
        match self.cure {
            "" => self.text.clone(),
            cure => format!("{}; {cure}", self.text),
        }
    }

    pub(super) fn silent(text: impl Into<String>) -> Self {
        Self { silent: true, ..Self::plain(text) }
    }

    /// Of what the peer did wrong.
    pub(super) fn fault(fault: &PeerFault) -> Self {
        Self::refused(fault.to_string())
    }

    fn refused(text: impl Into<String>) -> Self {
        Self { refused: true, ..Self::plain(text) }
    }

    /// Of an error. `other_key`: the key that the other end showed, if it is not the one that it should have.
    pub(super) fn of(error: &ConnectionError, other_key: Option<PublicKey>) -> Self {
        match error {
            ConnectionError::TransportError(_) if let Some(key) = other_key => {
                Self::refused(format!("it has the public key {key}, which is not the configured one"))
                    .cured_by("if it is the right site, write this key as its public_key here")
            }
            ConnectionError::TransportError(error) => Self::handshake(error.code, "this site")
                .unwrap_or_else(|| Self::plain(format!("QUIC: {}", printable(error.reason.as_bytes())))),
            ConnectionError::ConnectionClosed(close) => Self::handshake(close.error_code, PEER)
                .unwrap_or_else(|| Self::plain(format!("closed by the peer: {}", printable(&close.reason)))),
            ConnectionError::ApplicationClosed(close) => match close.error_code {
                code::STOPPED => Self::plain("the peer has stopped"),
                code::SUPERSEDED => {
                    Self { superseded: true, ..Self::plain("the peer prefers another connection") }
                }
                code::FAULT => Self::refused(format!("the peer says: {}", printable(&close.reason))),
                _ => Self::plain(format!("closed by the peer: {}", printable(&close.reason))),
            },
            ConnectionError::Reset => Self::plain("the peer has restarted"),
            ConnectionError::TimedOut => Self::silent(format!("nothing heard for {} s", DEAD.as_secs())),
            ConnectionError::LocallyClosed => Self::plain("closed here"),
            other => Self::plain(format!("QUIC: {other}")),
        }
    }

    /// A TLS alert (RFC 8446, 6.2) that `who` gave.
    fn handshake(error: TransportErrorCode, who: &str) -> Option<Self> {
        const ACCESS_DENIED: u64 = 49;
        const DECRYPT_ERROR: u64 = 51;
        const NO_APPLICATION_PROTOCOL: u64 = 120;
        let number = u64::from(error);
        let alert = number.checked_sub(0x100).filter(|alert| *alert < 0x100)?;
        if alert == ACCESS_DENIED && who == PEER {
            return Some(
                Self::refused("the peer does not know this site's public key")
                    .cured_by("write what 'frameward check' prints here as identity as public_key there"),
            );
        }
        Some(Self::refused(match alert {
            ACCESS_DENIED => format!("{who} does not know the other's public key"),
            DECRYPT_ERROR => {
                "somebody shows a public key that is not theirs: the signature is wrong".to_owned()
            }
            NO_APPLICATION_PROTOCOL => "the two sites speak different versions of the channel".to_owned(),
            alert => format!("{who} ended the handshake: TLS alert {alert}"),
        }))
    }
}

/// What a peer says goes to a terminal: short, and nothing that moves a cursor.
fn printable(octets: &[u8]) -> String {
    octets
        .iter()
        .take(120)
        .map(|octet| if (0x20..0x7f).contains(octet) { *octet as char } else { '?' })
        .collect()
}
