//! A gateway's own status, asked for by the controller: one request to the address that the inventory has, with bounded time and octets.
//! A request names a gateway, and never an address.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time that a gateway has to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest status, in octets.
const STATUS_OCTETS: usize = 4 << 20;

/// The status of the gateway at `address`, which is JSON.
///
/// # Errors
/// Reason for which there is none.
pub(super) async fn ask(address: SocketAddr) -> Result<Bytes, String> {
    match timeout(PATIENCE, answer(address)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("{address} does not answer within {} s", PATIENCE.as_secs())),
    }
}

async fn answer(address: SocketAddr) -> Result<Bytes, String> {
    let broken = |error: hyper::Error| format!("{address} broke off: {error}");
    let stream = TcpStream::connect(address).await.map_err(|error| format!("{address}: {error}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let request = Request::get("/status").header(HOST, address.to_string()).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| format!("{address}: {error}"))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), STATUS_OCTETS).collect().await;
        let body = body.map_err(|error| format!("{address}: {error}"))?.to_bytes();
        match status.is_success() && serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok() {
            true => Ok(body),
            false => Err(format!("{address} answers {status}, and no status of a gateway")),
        }
    };
    // The connection is dropped with this future: what is too slow is not waited for any longer.
    let (mut exchange, mut connection) = (std::pin::pin!(exchange), std::pin::pin!(connection));
    let mut is_over = false;
    std::future::poll_fn(|context| {
        if !is_over {
            is_over = connection.as_mut().poll(context).is_ready();
        }
        exchange.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests;
