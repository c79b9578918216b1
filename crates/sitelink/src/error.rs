//! Why a connection failed or ended, in words for a person.

use quinn::{ConnectionError, TransportErrorCode};
use suite::identity::PublicKey;
use tunnel::PeerFault;

use super::tls::KeyExchange;
use super::transport::{DEAD, code};

/// The party that ended a handshake, if it was not this site.
const PEER: &str = "the peer";

/// Why, in one line, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DisconnectReason {
    /// One line.
    pub(super) text: String,
    /// Cure; empty if there is none.
    pub(super) cure: &'static str,
    /// Whether a person has to change something: keys, versions or settings do not fit, or an end does wrong.
    pub(super) refused: bool,
    /// Whether nobody answered.
    pub(super) silent: bool,
    /// Whether it is no news: another connection is there, or about to come.
    pub(super) superseded: bool,
}

impl DisconnectReason {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), cure: "", refused: false, silent: false, superseded: false }
    }

    /// The same, with what to do.
    pub(super) fn cured_by(self, cure: &'static str) -> Self {
        Self { cure, ..self }
    }

    /// Cure of a reason that is known. Silence has many.
    pub(super) const fn certain_cure(&self) -> &'static str {
        if self.silent { "" } else { self.cure }
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

    /// One of the two sites agrees on keys by X25519 alone, and the other one does not.
    pub(super) fn no_group() -> Self {
        let group = KeyExchange::Hybrid.name();
        Self::refused(format!("no way to agree on keys in common: one of the two sites asks for {group}")).cured_by(
            "bring both sites to this version, or write classical = \"allow\" for the peer where that is asked for",
        )
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
                .unwrap_or_else(|| {
                    Self::plain(match printable(error.reason.as_bytes()).trim() {
                        "" => format!("QUIC: {}", error.code),
                        reason => format!("QUIC: {reason}"),
                    })
                }),
            ConnectionError::ConnectionClosed(close) => {
                Self::handshake(close.error_code, PEER).unwrap_or_else(|| Self::plain(closed(&close.reason)))
            }
            ConnectionError::ApplicationClosed(close) => match close.error_code {
                code::STOPPED => Self::plain("the peer has stopped"),
                code::REMOVED => {
                    Self::plain("the peer has another configuration of this site, or none any more")
                }
                code::SUPERSEDED => {
                    Self { superseded: true, ..Self::plain("the peer prefers another connection") }
                }
                code::FAULT if close.reason.is_empty() => {
                    Self::refused("the peer takes what this site said for a fault, and does not say which")
                }
                code::FAULT => Self::refused(format!("the peer says: {}", printable(&close.reason))),
                _ => Self::plain(closed(&close.reason)),
            },
            ConnectionError::Reset => Self::plain("the peer has restarted"),
            ConnectionError::TimedOut => Self::silent(format!("nothing heard for {} s", DEAD.as_secs())),
            ConnectionError::LocallyClosed => Self::plain("closed here"),
            other => Self::plain(format!("QUIC: {other}")),
        }
    }

    /// A TLS alert (RFC 8446, 6.2) that `who` gave.
    fn handshake(error: TransportErrorCode, who: &str) -> Option<Self> {
        const HANDSHAKE_FAILURE: u64 = 40;
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
        if alert == HANDSHAKE_FAILURE {
            return Some(Self::no_group());
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

/// The peer has closed the connection, and says why or does not.
fn closed(reason: &[u8]) -> String {
    match printable(reason).trim() {
        "" => "the peer has closed the connection without a reason".to_owned(),
        reason => format!("closed by the peer: {reason}"),
    }
}

/// Makes a peer's text fit for a terminal: short, and nothing that moves a cursor.
fn printable(octets: &[u8]) -> String {
    octets
        .iter()
        .take(120)
        .map(|octet| if (0x20..0x7f).contains(octet) { *octet as char } else { '?' })
        .collect()
}

#[cfg(test)]
mod tests {
    use quinn::{ApplicationClose, ConnectionClose, VarInt};

    use super::*;

    #[test]
    fn a_reason_that_is_not_given_leaves_no_colon_behind() {
        let application = |code: VarInt, reason: &'static [u8]| {
            let close = ApplicationClose { error_code: code, reason: reason.into() };
            DisconnectReason::of(&ConnectionError::ApplicationClosed(close), None).text
        };
        let unknown = VarInt::from_u32(77);
        assert_eq!(application(unknown, b""), "the peer has closed the connection without a reason");
        assert_eq!(application(unknown, b"late"), "closed by the peer: late");
        for code in [unknown, code::FAULT, code::STOPPED, code::SUPERSEDED, code::REMOVED] {
            assert!(!application(code, b"").trim().ends_with(':'));
        }
        let close = ConnectionClose {
            error_code: TransportErrorCode::NO_ERROR,
            frame_type: None,
            reason: (&b""[..]).into(),
        };
        let text = DisconnectReason::of(&ConnectionError::ConnectionClosed(close), None).text;
        assert_eq!(text, "the peer has closed the connection without a reason");
    }
}
