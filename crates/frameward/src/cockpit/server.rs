//! The server: HTTP on loopback, HTTPS elsewhere, and unable to be held up.
//!
//! | address | TLS | who may look |
//! |---|---|---|
//! | loopback | none, or with `--tls-cert` | every user of this machine; with `--tokens` or `--client-ca` who has one |
//! | any other | 1.3 | who has a token of `--tokens`, or a certificate of `--client-ca` |
//!
//! A connection takes requests one after the other, ends when it is silent for [`IDLE`], and at last after [`LIFE`]. Of too many the oldest is
//! closed, so that idle ones crowd nobody out. Connections of those who have shown a token or certificate are counted apart: who floods the address
//! keeps none of them out that is there. Heads and bodies are bounded.

use std::convert::Infallible;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::access::{Access, Client};
use super::surface::Surface;
use super::tokens::Tokens;
use crate::http::cure;
use crate::http::host::Hosts;
use crate::http::serving::{Known, Listener, Serving};

/// Connections at a time of strangers, and of those who are known. Of more, the oldest is closed.
const CONNECTIONS: usize = 64;
/// Time that a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Silence after which a connection ends: time for the head of the next request.
const IDLE: Duration = Duration::from_secs(10);
/// Limit on the duration of a connection.
const LIFE: Duration = Duration::from_secs(600);
/// The longest head of a request, in octets.
const LONGEST_HEAD: usize = 8192;
/// The most header fields of a request.
const MOST_FIELDS: usize = 64;

/// A server's address, and who may look there.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address.
    pub address: SocketAddr,
    /// Certificates and key of the server, in PEM.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Authorities of clients' certificates, in PEM: without such a certificate nobody gets a connection.
    pub client_ca: Option<PathBuf>,
    /// A file of tokens and certificates, one of which each request needs.
    pub tokens: Option<PathBuf>,
    /// Names by which clients may ask, beside those of the machine.
    pub hosts: Vec<String>,
}

/// An address that is listened on; nobody is answered yet.
#[derive(Debug)]
pub struct Listening {
    listener: Listener,
    door: Door,
}

/// Conditions that a client has to meet.
#[derive(Debug)]
struct Door {
    tls: Option<Arc<ServerConfig>>,
    access: Access,
}

/// Refusal of a start: one line, cause and cure.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotListening {
    /// The settings, or files that they name.
    #[error("{0}")]
    Settings(String),
    /// The address.
    #[error("{0}")]
    Address(String),
}

/// A running server. It goes when this is dropped.
#[derive(Debug)]
pub struct Server {
    /// Held, not used: it goes with this.
    _serving: Serving,
}

impl Settings {
    /// Sees that nobody gets in who should not.
    ///
    /// # Errors
    /// One line: cause and cure.
    pub fn judge(&self) -> Result<(), String> {
        let Self { address, tls, client_ca, tokens, .. } = self;
        if client_ca.is_some() && tls.is_none() {
            return Err("--client-ca needs --tls-cert and --tls-key".to_owned());
        }
        match (address.ip().is_loopback(), tls.is_some(), client_ca.is_some() || tokens.is_some()) {
            (true, ..) | (_, true, true) => Ok(()),
            (_, false, _) => Err(format!(
                "--listen {address} can be reached from other machines: add --tls-cert FILE --tls-key FILE, or listen on 127.0.0.1"
            )),
            (_, true, false) => Err(format!(
                "--listen {address} can be reached from other machines, and nothing says who may look: add --tokens FILE or --client-ca FILE"
            )),
        }
    }

    /// Reads the files.
    fn read(&self) -> Result<(Option<Arc<ServerConfig>>, Access), String> {
        self.judge()?;
        let tls = self.tls.as_ref().map(|files| tls_config(files, self.client_ca.as_deref())).transpose()?;
        let tokens = self.tokens.as_deref().map(Tokens::read).transpose()?;
        Ok((tls, Access { hosts: Hosts::new(self.hosts.iter().cloned()), tokens }))
    }
}

impl Listening {
    /// Reads the files and listens.
    ///
    /// # Errors
    /// [`NotListening`].
    pub fn start(settings: &Settings) -> Result<Self, NotListening> {
        let (tls, access) = settings.read().map_err(NotListening::Settings)?;
        let failed = |error: io::Error| {
            let text = format!("cannot listen on {}: {error}; {}", settings.address, cure(&error));
            NotListening::Address(text)
        };
        let listener = Listener::bind(settings.address, "cockpit-audit").map_err(failed)?;
        Ok(Self { listener, door: Door { tls, access } })
    }

    /// The address at which clients find it.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.address()
    }
}

impl Server {
    /// Answers with what `surface` shows.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(listening: Listening, surface: Arc<Surface>) -> io::Result<Self> {
        let Listening { listener, door } = listening;
        let door = Arc::new(door);
        let serve = move |client, known| connection(client, known, Arc::clone(&door), Arc::clone(&surface));
        let serving = listener.start("cockpit-http", CONNECTIONS, serve)?;
        Ok(Self { _serving: serving })
    }
}

async fn connection(stream: TcpStream, known: Known, door: Arc<Door>, surface: Arc<Surface>) {
    let mut client = Client { known, certificate: None };
    match &door.tls {
        None => serve(TokioIo::new(stream), &client, &door.access, &surface).await,
        Some(config) => {
            let handshake = TlsAcceptor::from(Arc::clone(config)).accept(stream);
            // No answer goes to who is too slow, or has no certificate.
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, handshake).await {
                let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                client.certificate = certificate.map(|shown| Sha256::digest(shown).into());
                if client.certificate.is_some() {
                    client.known.learn();
                }
                serve(TokioIo::new(stream), &client, &door.access, &surface).await;
            }
        }
    }
}

async fn serve<Io>(stream: Io, client: &Client, access: &Access, surface: &Surface)
where
    Io: hyper::rt::Read + hyper::rt::Write + Unpin,
{
    let service =
        service_fn(
            |request| async move { Ok::<_, Infallible>(surface.answer(request, access, client).await) },
        );
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_FIELDS)
        .serve_connection(stream, service);
    // A client that is too slow, or speaks something else, is its own loss.
    let _ = timeout(LIFE, connection).await;
}

/// TLS 1.3 with this certificate and key; with `client_ca` only for clients with a certificate of one of these authorities.
fn tls_config(
    (certificate, key): &(PathBuf, PathBuf),
    client_ca: Option<&Path>,
) -> Result<Arc<ServerConfig>, String> {
    let unusable = |path: &Path, error: &dyn Display| {
        format!("cannot use {}: {error}; it has to be a PEM file", path.display())
    };
    let certificates = |path: &Path| {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match read {
            Ok(read) if read.is_empty() => Err(unusable(path, &"it has no certificate")),
            read => read.map_err(|error| unusable(path, &error)),
        }
    };
    config::key_file::check_file(key).map_err(|error| error.to_string())?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| unusable(path, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| unusable(path, &error))?)
        }
    };
    let config = builder.with_single_cert(certificates(certificate)?, private);
    config.map(Arc::new).map_err(|error| unusable(certificate, &error))
}

#[cfg(test)]
mod tests;
