//! One request over one connection: HTTP/1.1, with TLS if the address has it.

use std::path::Path;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::TlsFiles;

/// The most octets of one answer, or of one line of a watch: a page of the longest records in base64.
const ANSWER_OCTETS: usize = 8 << 20;
/// Has a member that knows no leader refuse or end a watch. Its answers would be as old as its separation from the others.
const HAS_LEADER: (&str, &str) = ("Grpc-Metadata-hasleader", "true");
/// The most characters of a reason that etcd tells.
const REASON: usize = 200;

/// Why there is no answer.
pub(super) enum Failed {
    /// No connection: the request did not get there.
    NotReached(String),
    /// The connection ended, so what became of the request is not known.
    Broken(String),
    /// etcd refused.
    Refused(String),
}

/// Lines of an answer without an end. The connection lives as long.
pub(super) struct Lines {
    body: Incoming,
    /// Octets of lines that have begun.
    octets: Vec<u8>,
    /// How many of them are in lines that were read.
    read: usize,
}

/// Sends a request and waits for the whole answer.
pub(super) async fn ask(
    endpoint: &(String, u16),
    tls: Option<Arc<ClientConfig>>,
    path: &str,
    body: Vec<u8>,
) -> Result<Vec<u8>, Failed> {
    let response = send(endpoint, tls, path, body).await?;
    let status = response.status();
    let mut lines = Lines { body: response.into_body(), octets: Vec::new(), read: 0 };
    while lines.read().await? {}
    if status.is_success() {
        return Ok(lines.octets);
    }
    let told: Option<serde_json::Value> = serde_json::from_slice(&lines.octets).ok();
    let told = told.as_ref().and_then(|told| told.get("error")).and_then(serde_json::Value::as_str);
    // It goes to a terminal, or into a log.
    let shown = |told: &str| told.chars().take(REASON).collect::<String>().escape_debug().to_string();
    Err(Failed::Refused(format!("etcd refuses: {}", told.map_or_else(|| status.to_string(), shown))))
}

/// Sends a request whose answer comes line by line.
pub(super) async fn stream(
    endpoint: &(String, u16),
    tls: Option<Arc<ClientConfig>>,
    path: &str,
    body: Vec<u8>,
) -> Result<Lines, Failed> {
    let response = send(endpoint, tls, path, body).await?;
    if !response.status().is_success() {
        return Err(Failed::Refused(format!("etcd refuses: {}", response.status())));
    }
    Ok(Lines { body: response.into_body(), octets: Vec::new(), read: 0 })
}

async fn send(
    (host, port): &(String, u16),
    tls: Option<Arc<ClientConfig>>,
    path: &str,
    body: Vec<u8>,
) -> Result<Response<Incoming>, Failed> {
    let not_reached = |why: &dyn std::fmt::Display| {
        Failed::NotReached(format!("cannot reach {host}:{port}: {why}; is etcd running there?"))
    };
    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| not_reached(&error))?;
    let host_field = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let request = Request::post(path)
        .header(HOST, host_field)
        .header(CONTENT_TYPE, "application/json")
        .header(HAS_LEADER.0, HAS_LEADER.1)
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| not_reached(&error))?;
    match tls {
        None => exchange(TokioIo::new(stream), request).await,
        Some(config) => {
            let name = ServerName::try_from(host.clone()).map_err(|error| not_reached(&error))?;
            let secured = TlsConnector::from(config).connect(name, stream).await;
            exchange(TokioIo::new(secured.map_err(|error| not_reached(&error))?), request).await
        }
    }
}

async fn exchange<Io>(io: Io, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failed>
where
    Io: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| Failed::Broken(format!("the connection broke off: {error}"));
    let (mut sender, connection) = http1::handshake(io).await.map_err(broken)?;
    // It ends with the answer, or when that is dropped.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(broken)
}

impl Lines {
    /// The next line. Losing the future loses no octet.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, Failed> {
        let mut looked = self.read;
        loop {
            if let Some(end) = self.octets[looked..].iter().position(|octet| *octet == b'\n') {
                let end = looked + end + 1;
                let line = self.octets[self.read..end].to_vec();
                self.read = end;
                return Ok(line);
            }
            self.octets.drain(..self.read);
            self.read = 0;
            looked = self.octets.len();
            if !self.read().await? {
                return Err(Failed::Broken("the connection broke off".to_owned()));
            }
        }
    }

    /// Reads what comes next. False at the end.
    async fn read(&mut self) -> Result<bool, Failed> {
        let Some(frame) = self.body.frame().await else { return Ok(false) };
        let frame = frame.map_err(|error| Failed::Broken(format!("the connection broke off: {error}")))?;
        if let Ok(octets) = frame.into_data() {
            if self.octets.len() + octets.len() > ANSWER_OCTETS {
                return Err(Failed::Broken("its answer is longer than any can be".to_owned()));
            }
            self.octets.extend_from_slice(&octets);
        }
        Ok(true)
    }
}

/// TLS 1.3 with the authorities of the file alone.
pub(super) fn client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>, String> {
    let unusable = |path: &Path, error: &dyn std::fmt::Display| {
        format!("cannot use {}: {error}; it has to be a PEM file", path.display())
    };
    let certificates = |path: &Path| {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match read {
            Ok(read) if read.is_empty() => Err(unusable(path, &"it has no certificate")),
            read => read.map_err(|error| unusable(path, &error)),
        }
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.ca)? {
        roots.add(certificate).map_err(|error| unusable(&files.ca, &error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match &files.client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, private)
                .map_err(|error| unusable(certificate, &error))?
        }
    };
    Ok(Arc::new(config))
}
