//! Metrics and status over HTTP: read-only, and unable to hold up the gateway.
//!
//! ```text
//!  browser, Prometheus ── TCP ──▶ thread "http" ── at most ten times a second ──▶ main thread ──▶ a report
//!                                   /          the status page
//!                                   /status    the report, as `frameward status --json` prints it
//!                                   /metrics   the same figures for Prometheus
//! ```
//!
//! Against whom this stands, since there is no password: a connection has one request and ten seconds in all; of too
//! many connections the oldest is closed, so that idle ones crowd nobody out; a request's head is bounded, and its body
//! is not read; however many ask, the gateway makes a report only every [`FRESH`]. A web site that the user visits
//! cannot read here: no other origin is allowed, and a name that it points to this machine (DNS rebinding) is refused.

pub(crate) mod answer;
mod figures;
pub(crate) mod host;
mod metrics;
pub(crate) mod page;
pub(crate) mod serving;

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use answer::Surface;
use config::{Finding, Http};
#[cfg(doc)]
use figures::FRESH;
use figures::Figures;
use report::CountedReport;
use serving::{Listener, Serving};

/// Connections at a time. Of more, the oldest is closed.
const CONNECTIONS: usize = 32;
/// Time a client may take for the head of its request.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// Limit on the duration of a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest head of a request, in octets.
const LONGEST_HEAD: usize = 8192;
/// The most header fields of a request.
const MOST_FIELDS: usize = 64;

/// An address that is listened on; nobody is answered yet.
#[derive(Debug)]
pub struct Listening(Listener);

impl Listening {
    /// Listens on the address that the configuration `file` names.
    ///
    /// # Errors
    /// The obstacle, with the line of the configuration and the cure.
    pub fn start(file: &Path, http: Http) -> Result<Self, Finding> {
        let finding = |error: io::Error| Finding {
            file: file.to_owned(),
            line: Some(http.line.0),
            text: format!("cannot listen on http = \"{}\": {error}; {}", http.address, cure(&error)),
        };
        Listener::bind(http.address, "http-figures").map(Self).map_err(finding)
    }
}

/// Cure for an address that cannot be listened on.
pub(crate) fn cure(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "stop the program that uses it ('ss -ltnp' names it), or choose another port"
        }
        io::ErrorKind::AddrNotAvailable => {
            "no interface has this address: use one that 'ip address' lists, or 127.0.0.1"
        }
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege: choose a higher one",
        _ => "choose another address, or remove http",
    }
}

/// The HTTP surface of a running gateway. It goes when this is dropped.
#[derive(Debug)]
pub struct HttpServer {
    /// Held, not used: it goes with this.
    _serving: Serving,
}

impl HttpServer {
    /// Answers with what `ask` returns, which is called on a thread of its own and may take its time; `None` if the
    /// gateway has no figures.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        listening: Listening,
        ask: impl FnMut() -> Option<CountedReport> + Send + 'static,
    ) -> io::Result<Self> {
        let surface = Arc::new(Surface::new(Figures::new(ask)));
        // Nobody has to show who he is here.
        let serve = move |client, _| serve(client, Arc::clone(&surface));
        let serving = listening.0.start("http", CONNECTIONS, serve)?;
        Ok(Self { _serving: serving })
    }
}

/// One connection, one request.
async fn serve(client: TcpStream, surface: Arc<Surface>) {
    let service = service_fn(move |request| {
        let surface = Arc::clone(&surface);
        async move { Ok::<_, Infallible>(surface.answer(&request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .keep_alive(false)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_FIELDS)
        .serve_connection(TokioIo::new(client), service);
    // A client that is too slow, or speaks something else, is its own loss.
    let _ = tokio::time::timeout(PATIENCE, connection).await;
}

#[cfg(test)]
mod tests;
