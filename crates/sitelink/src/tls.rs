//! TLS 1.3 between sites, with raw public keys (RFC 7250) on both sides: a peer is its Ed25519 key and nothing else.
//!
//! No certificate, no name, no authority, no time of day; nothing is resumed, so the key is proved anew for every
//! connection. The signature over the handshake is verified by rustls; here it is decided whose key it must be.
//!
//! Keys are agreed on by X25519 and ML-KEM-768 together (X25519MLKEM768): what is recorded today stays closed as long as
//! one of both holds. X25519 alone is spoken with peers for which that is allowed, and only if they do not know the other.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, InvalidMessage,
    NamedGroup, PeerIncompatible, ServerConfig, SignatureScheme,
};
use suite::identity::{Identity, PublicKey};

/// Protocol that both ends must offer (ALPN); another version of the channel has another one.
const PROTOCOL: &[u8] = b"frameward-site/1";

/// This site's part of TLS.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    hybrid: Arc<CryptoProvider>,
    /// The same, and X25519 alone after it.
    either: Arc<CryptoProvider>,
    own: Arc<CertifiedKey>,
}

/// Key exchange of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyExchange {
    /// By X25519 and ML-KEM-768 together.
    Hybrid,
    /// By X25519 alone: a quantum computer would open later what is recorded now.
    Classical,
}

impl KeyExchange {
    /// The group's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hybrid => "X25519MLKEM768",
            Self::Classical => "X25519",
        }
    }
}

/// Key that is accepted, and the one that was shown last in a handshake, for words to a person.
#[derive(Debug)]
pub(super) struct Verifier {
    accepted: BTreeSet<PublicKey>,
    shown: Mutex<Option<PublicKey>>,
    provider: Arc<CryptoProvider>,
}

impl Tls {
    /// # Errors
    /// If the cipher library does not take the key.
    pub(super) fn new(identity: &Identity) -> Result<Self, Error> {
        let hybrid = CryptoProvider {
            cipher_suites: vec![
                cipher_suite::TLS13_AES_128_GCM_SHA256,
                cipher_suite::TLS13_AES_256_GCM_SHA384,
                cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            ],
            kx_groups: vec![kx_group::X25519MLKEM768],
            ..aws_lc_rs::default_provider()
        };
        let kx_groups = vec![kx_group::X25519MLKEM768, kx_group::X25519];
        let either = Arc::new(CryptoProvider { kx_groups, ..hybrid.clone() });
        let key = suite::scrubbed(|| {
            let pkcs8 = identity.pkcs8();
            aws_lc_rs::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&pkcs8[..]))
        })?;
        let public = CertificateDer::from(identity.public().spki().to_vec());
        Ok(Self { hybrid: Arc::new(hybrid), either, own: Arc::new(CertifiedKey::new(vec![public], key)) })
    }

    fn verifier(&self, accepted: BTreeSet<PublicKey>) -> Arc<Verifier> {
        Arc::new(Verifier { accepted, shown: Mutex::new(None), provider: Arc::clone(&self.hybrid) })
    }

    fn provider(&self, classical: bool) -> Arc<CryptoProvider> {
        Arc::clone(if classical { &self.either } else { &self.hybrid })
    }

    /// For connections to this peer. `classical`: whether X25519 alone will do.
    pub(super) fn client(&self, peer: PublicKey, classical: bool) -> (Arc<QuicClientConfig>, Arc<Verifier>) {
        let verifier = self.verifier(BTreeSet::from([peer]));
        let mut config = ClientConfig::builder_with_provider(self.provider(classical))
            .with_protocol_versions(&[&TLS13])
            .expect("invariant: the provider has suites of TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(
                &self.own,
            ))));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        let config =
            QuicClientConfig::try_from(config).expect("invariant: the provider has QUIC's initial suite");
        (Arc::new(config), verifier)
    }

    /// For a connection from any of these peers. `classical`: whether X25519 alone will do for one of them.
    pub(super) fn server(
        &self,
        peers: BTreeSet<PublicKey>,
        classical: bool,
    ) -> (Arc<QuicServerConfig>, Arc<Verifier>) {
        let verifier = self.verifier(peers);
        let mut config = ServerConfig::builder_with_provider(self.provider(classical))
            .with_protocol_versions(&[&TLS13])
            .expect("invariant: the provider has suites of TLS 1.3")
            .with_client_cert_verifier(Arc::clone(&verifier) as _)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&self.own))));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        let config =
            QuicServerConfig::try_from(config).expect("invariant: the provider has QUIC's initial suite");
        (Arc::new(config), verifier)
    }
}

/// The key that the other end of an established connection has proved to have.
pub(super) fn key_of(connection: &quinn::Connection) -> Option<PublicKey> {
    let shown = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    PublicKey::from_spki(shown.first()?)
}

/// Key exchange of an established connection.
pub(super) fn key_exchange_of(connection: &quinn::Connection) -> KeyExchange {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    match data.map(|data| data.negotiated_key_exchange_group) {
        Some(NamedGroup::X25519MLKEM768) => KeyExchange::Hybrid,
        _ => KeyExchange::Classical,
    }
}

impl Verifier {
    /// The key that was shown last.
    pub(super) fn shown(&self) -> Option<PublicKey> {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this key is one of those that are accepted.
    pub(super) fn accepts(&self, key: PublicKey) -> bool {
        self.accepted.contains(&key)
    }

    fn verify_key(&self, shown: &CertificateDer<'_>, more: &[CertificateDer<'_>]) -> Result<(), Error> {
        let key = PublicKey::from_spki(shown)
            .filter(|_| more.is_empty())
            .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
        if self.accepted.contains(&key) {
            Ok(())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    /// That who shows the key has it, too.
    fn verify(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if signed.scheme != SignatureScheme::ED25519 {
            return Err(Error::InvalidMessage(InvalidMessage::InvalidEmptyPayload));
        }
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify_key(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify_key(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
