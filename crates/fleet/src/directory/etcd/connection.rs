//! A connection for requests: HTTP/1.1, with TLS if the address has it.

use std::path::Path;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
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

/// A connection that requests go over, one after the other.
pub(super) struct Connection {
    host: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects, with TLS if there is a configuration of it.
    pub(super) async fn open(
        (host, port): &(String, u16),
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self, Failed> {
        let not_reached = |why: &dyn std::fmt::Display| {
            Failed::NotReached(format!("cannot reach {host}:{port}: {why}; is etcd running there?"))
        };
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| not_reached(&error))?;
        // A request goes out behind the last octets of a handshake at once, and does not wait for their acknowledgement.
        stream.set_nodelay(true).map_err(|error| not_reached(&error))?;
        let sender = match tls {
            None => http(TokioIo::new(stream)).await,
            Some(config) => {
                let name = ServerName::try_from(host.clone()).map_err(|error| not_reached(&error))?;
                let secured = TlsConnector::from(config).connect(name, stream).await;
                http(TokioIo::new(secured.map_err(|error| not_reached(&error))?)).await
            }
        };
        let host = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Ok(Self { host, sender: sender.map_err(|error| broken(&error))? })
    }

    /// True if the other end has not closed it, as far as this machine knows.
    pub(super) async fn is_whole(&self) -> bool {
        // Nothing runs between two requests: an end that came meanwhile is read now, and then acted on.
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        !self.sender.is_closed()
    }

    /// Sends a request and waits for the whole answer. Of a connection that failed nothing else is to be asked.
    pub(super) async fn ask(&mut self, path: &str, body: Bytes) -> Result<Vec<u8>, Failed> {
        let response = self.send(path, body).await?;
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

    /// Sends a request whose answer comes line by line, and takes up the connection.
    pub(super) async fn stream(mut self, path: &str, body: Bytes) -> Result<Lines, Failed> {
        let response = self.send(path, body).await?;
        if !response.status().is_success() {
            return Err(Failed::Refused(format!("etcd refuses: {}", response.status())));
        }
        Ok(Lines { body: response.into_body(), octets: Vec::new(), read: 0 })
    }

    async fn send(&mut self, path: &str, body: Bytes) -> Result<Response<Incoming>, Failed> {
        let not_sent =
            |why: &dyn std::fmt::Display| Failed::NotReached(format!("cannot ask {}: {why}", self.host));
        let request = Request::post(path)
            .header(HOST, self.host.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(HAS_LEADER.0, HAS_LEADER.1)
            .body(Full::new(body))
            .map_err(|error| not_sent(&error))?;
        // A request that comes back was not sent: the other end had closed the connection.
        self.sender.try_send_request(request).await.map_err(|mut failed| match failed.take_message() {
            Some(_) => not_sent(failed.error()),
            None => broken(failed.error()),
        })
    }
}

async fn http<Io>(io: Io) -> hyper::Result<SendRequest<Full<Bytes>>>
where
    Io: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(io).await?;
    // It ends when its sender and the last answer are dropped.
    tokio::spawn(connection);
    Ok(sender)
}

fn broken(error: &hyper::Error) -> Failed {
    Failed::Broken(format!("the connection broke off: {error}"))
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
        let frame = frame.map_err(|error| broken(&error))?;
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
