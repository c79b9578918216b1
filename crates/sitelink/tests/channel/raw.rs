//! QUIC ends that follow no rule of the channel: any key shown, any key signed with, any octets sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, ConnectionId, Endpoint, ServerConfig, TransportConfig,
};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group, sign::any_eddsa_type};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use suite::identity::{Identity, PublicKey};
use suite::knock::KnockKey;
use tokio::runtime::{Builder, Runtime};

use super::hostile::PROTOCOL;

/// Takes anybody.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Anybody {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Certificate with the public key that is shown, and the key that signs.
fn certified(shown: PublicKey, signs: &Identity) -> Arc<CertifiedKey> {
    let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(&signs.pkcs8()[..])).expect("a key");
    Arc::new(CertifiedKey::new(vec![CertificateDer::from(shown.spki().to_vec())], key))
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    // As sites have it.
    transport.initial_rtt(Duration::from_millis(100));
    transport.max_idle_timeout(Some(Duration::from_secs(5).try_into().expect("in range")));
    Arc::new(transport)
}

/// Octets for a knock.
fn rand() -> [u8; 8] {
    let mut random = [0; 8];
    getrandom::fill(&mut random).expect("random octets");
    random
}

/// A runtime of one thread, for one test.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Identity that a client shows.
pub(crate) enum Shown<'a> {
    Key(PublicKey, &'a Identity),
    Nothing,
}

/// Agrees by these groups, in this order.
fn provider(groups: &[&'static dyn SupportedKxGroup]) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { kx_groups: groups.to_vec(), ..default_provider() })
}

/// Where a site is, and which public key it is known by.
pub(crate) type Known = (SocketAddr, PublicKey);

/// A client, at another address than the sites. The connection may be one that the server is about to close.
pub(crate) async fn connect(
    shown: Shown<'_>,
    protocol: &[u8],
    to: Known,
) -> (Endpoint, Result<Connection, ConnectionError>) {
    connect_by(&[kx_group::X25519MLKEM768], shown, protocol, to).await
}

/// The same, and how keys are agreed on.
pub(crate) async fn connect_by(
    groups: &[&'static dyn SupportedKxGroup],
    shown: Shown<'_>,
    protocol: &[u8],
    (to, site): Known,
) -> (Endpoint, Result<Connection, ConnectionError>) {
    let mut config = config(groups, &shown, protocol);
    let knock = KnockKey::of(site).knock(rand());
    config.initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&knock)));
    let endpoint = Endpoint::client("127.0.0.2:0".parse().expect("an address")).expect("a socket");
    let connection = endpoint.connect_with(config, to, "site").expect("a connection").await;
    (endpoint, connection)
}

/// Of a client.
fn config(groups: &[&'static dyn SupportedKxGroup], shown: &Shown<'_>, protocol: &[u8]) -> ClientConfig {
    let builder = rustls::ClientConfig::builder_with_provider(provider(groups))
        .with_protocol_versions(&[&TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody));
    let mut config = match shown {
        Shown::Key(shown, signs) => builder.with_client_cert_resolver(Arc::new(
            AlwaysResolvesClientRawPublicKeys::new(certified(*shown, signs)),
        )),
        Shown::Nothing => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).expect("a suite")));
    config.transport_config(transport());
    config
}

/// Packets that a client sends first to a site, with this connection ID for the site: the whole of its hello.
pub(crate) fn initials(identity: &Identity, id: &[u8]) -> Vec<Vec<u8>> {
    let id = ConnectionId::new(id);
    let trap = super::stand::socket();
    trap.set_read_timeout(Some(Duration::from_secs(10))).expect("not zero");
    let runtime = runtime();
    let at = trap.local_addr().expect("an address");
    runtime.block_on(async {
        let mut config =
            config(&[kx_group::X25519MLKEM768], &Shown::Key(identity.public(), identity), PROTOCOL);
        config.initial_dst_cid_provider(Arc::new(move || id));
        let endpoint = Endpoint::client("127.0.0.2:0".parse().expect("an address")).expect("a socket");
        let connecting = endpoint.connect_with(config, at, "site").expect("a connection");
        let _ = tokio::time::timeout(Duration::from_millis(20), connecting).await;
    });
    // A hello of that length is two packets long.
    let mut packet = [0; 2048];
    let mut packets = || trap.recv(&mut packet).map(|octets| packet[..octets].to_vec()).expect("a hello");
    vec![packets(), packets()]
}

/// A server that shows a key and signs with another, and takes anybody.
pub(crate) fn serve(
    groups: &[&'static dyn SupportedKxGroup],
    shown: PublicKey,
    signs: &Identity,
) -> Endpoint {
    let mut config = rustls::ServerConfig::builder_with_provider(provider(groups))
        .with_protocol_versions(&[&TLS13])
        .expect("TLS 1.3")
        .with_client_cert_verifier(Arc::new(Anybody))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified(shown, signs))));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    let mut config =
        ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config).expect("a suite")));
    config.transport_config(transport());
    Endpoint::server(config, "127.0.0.1:0".parse().expect("an address")).expect("a socket")
}
