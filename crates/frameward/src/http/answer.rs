//! A request's answer.
//!
//! | request | answer |
//! |---|---|
//! | another method than GET and HEAD | 405 |
//! | a `Host` that is neither an IP address, `localhost` nor this machine's name | 421 |
//! | `/` | the page |
//! | `/status`, `/metrics` | the figures; 503 while the gateway has none |
//! | anything else | 404 |

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};

use super::figures::Figures;
use super::host::Hosts;
use super::metrics::{self, metrics};
use super::page::Page;

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
/// Content policy of an answer without a page: it may load nothing.
pub(crate) const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// All that answers are made of.
pub(super) struct Surface {
    figures: Figures,
    page: Page,
    hosts: Hosts,
}

impl Surface {
    pub(super) fn new(figures: Figures) -> Self {
        Self { figures, page: Page::status(), hosts: Hosts::new([]) }
    }

    pub(super) async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !self.hosts.has(request.headers()) {
            let text = "Ask by the gateway's IP address: anybody could own this name.\n";
            return plain(StatusCode::MISDIRECTED_REQUEST, text);
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "This is read-only: GET or HEAD.\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        match request.uri().path() {
            "/" => {
                let html = "text/html; charset=utf-8";
                response(StatusCode::OK, html, self.page.policy.clone(), self.page.html.clone())
            }
            "/status" => match self.figures.latest().await {
                None => no_figures(),
                Some(counted) => figures("application/json", counted.shown().document()),
            },
            "/metrics" => match self.figures.latest().await {
                None => no_figures(),
                // Never cleared: rates are made of counters that only rise.
                Some(counted) => figures(metrics::MEDIA_TYPE, metrics(counted)),
            },
            _ => plain(StatusCode::NOT_FOUND, "There are /, /status and /metrics.\n"),
        }
    }
}

fn figures(media_type: &'static str, document: String) -> Response<Full<Bytes>> {
    response(StatusCode::OK, media_type, HeaderValue::from_static(NOTHING), document.into())
}

fn no_figures() -> Response<Full<Bytes>> {
    plain(StatusCode::SERVICE_UNAVAILABLE, "The gateway is starting, stopping, or does not answer.\n")
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, TEXT, HeaderValue::from_static(NOTHING), Bytes::from_static(text.as_bytes()))
}

/// An answer, with what keeps a browser from doing more with it than showing it.
pub(crate) fn response(
    status: StatusCode,
    media_type: &'static str,
    policy: HeaderValue,
    body: Bytes,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        (CONTENT_TYPE, media_type),
        // The page shows old figures as old, not a cache.
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
