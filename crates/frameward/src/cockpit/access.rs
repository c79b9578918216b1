//! Conditions that a request has to meet: its names, its sender, and for a change that no other site's page sends it.
//!
//! A browser sends a client certificate by itself, in the name of any page. So a change has to be JSON, which no form sends and no script of another
//! site without being asked whether it may; and what a browser says of a request's origin has to be this controller.

use hyper::Request;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, ORIGIN};
use hyper::http::Uri;

use super::tokens::{Tokens, Who};
use crate::http::host::Hosts;
use crate::http::serving::Known;

/// Names by which the server may be asked, and tokens that let clients in.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) hosts: Hosts,
    /// None: whoever gets a connection may look.
    pub(super) tokens: Option<Tokens>,
}

/// The other end of a connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) known: Known,
    /// SHA-256 of its certificate, if the server asks for certificates.
    pub(super) certificate: Option<[u8; 32]>,
}

impl Access {
    /// Sender of a request, if he may look.
    pub(super) fn who<B>(&self, request: &Request<B>, client: &Client) -> Option<Who> {
        let Some(tokens) = &self.tokens else { return Some(Who::anybody()) };
        let field = request.headers().get(AUTHORIZATION).and_then(|field| field.to_str().ok());
        let token = field.and_then(|field| field.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"));
        let of_token = token.and_then(|(_, token)| tokens.of_token(token.trim()));
        let of_certificate = || client.certificate.as_ref().and_then(|hash| tokens.of(hash));
        let who = of_token.or_else(of_certificate)?;
        client.known.learn();
        Some(who.clone())
    }
}

/// True if a browser says so. It could not read the answer, but the controller would work for it.
pub(super) fn is_of_another_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    let is_said = site.is_some_and(|site| site == "cross-site" || site == "same-site");
    is_said || headers.get(ORIGIN).is_some_and(|origin| !is_here(origin.as_bytes(), headers))
}

/// True if an origin is the address that was asked. `null` is none.
fn is_here(origin: &[u8], headers: &HeaderMap) -> bool {
    let origin = Uri::try_from(origin).ok();
    let authority = origin.as_ref().and_then(Uri::authority);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    authority.zip(host).is_some_and(|(origin, host)| origin.as_str().eq_ignore_ascii_case(host))
}

/// True if the body is said to be JSON, as no form says.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let field = headers.get(CONTENT_TYPE).and_then(|field| field.to_str().ok()).unwrap_or_default();
    let media_type = field.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}
