//! `[gateway]`: what is right and wrong in it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;

use super::super::Origin;
use super::super::findings::Findings;
use super::super::name::{bad_name, is_name};
use super::super::reference::{GATEWAY, RawGateway};
use super::announced_name::announced_name;
use super::{DEFAULT_STATE, Gateway, Http};
use crate::cpus::Cpus;

/// The gateway, and whether experimental suites are allowed.
pub(in super::super) fn validate(
    raw: Option<&Spanned<RawGateway>>,
    findings: &mut Findings,
) -> Option<(Gateway, bool)> {
    let Some(spanned) = raw else {
        findings.error(0..0, "[gateway] is missing; add it with name = \"NAME\"");
        return None;
    };
    let raw = spanned.get_ref();
    match &raw.name {
        None => findings.error(spanned.span(), "[gateway] has no name; add name = \"NAME\""),
        Some(name) if !is_name(name.get_ref()) => findings.error(name.span(), bad_name("", name.get_ref())),
        Some(_) => {}
    }
    let name = raw.name.as_ref().map(Spanned::get_ref);
    let gateway = Gateway {
        announced_name: announced_name(raw.announce_name.as_ref(), name.map_or("", String::as_str), findings),
        state: state(raw, findings),
        state_max_age: max_age(raw, findings),
        io: GATEWAY.io.choice("", &raw.io, findings),
        polling: GATEWAY.polling.choice("", &raw.polling, findings),
        realtime: GATEWAY.realtime.choice("", &raw.realtime, findings),
        cpus: raw.cpus.as_ref().and_then(|value| cpus(value, findings)),
        unguarded: GATEWAY.unguarded.switch(&raw.unguarded),
        antedate: GATEWAY.antedate.choice("", &raw.antedate, findings),
        http: raw.http.as_ref().and_then(|value| http(value, findings)),
        log: GATEWAY.log.choice("", &raw.log, findings),
        name: name?.clone(),
    };
    Some((gateway, GATEWAY.allow_experimental.switch(&raw.allow_experimental)))
}

/// CPUs by their numbers, as the kernel writes them.
fn cpus(value: &Spanned<String>, findings: &mut Findings) -> Option<Cpus> {
    let cpus = Cpus::parse(value.get_ref()).filter(|cpus| !cpus.0.is_empty());
    if cpus.is_none() {
        let text = format!(
            "cpus = {:?} is no list of CPUs; write their numbers, such as \"3\" or \"2-3,6\"",
            value.get_ref()
        );
        findings.error(value.span(), text);
    }
    cpus
}

/// An address with its port. Names are not looked up: a start must not hang on a name server, nor move with it.
fn http(value: &Spanned<String>, findings: &mut Findings) -> Option<Http> {
    let text = value.get_ref();
    let address = match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => address,
        Ok(_) => {
            let wrong = format!("http = {text:?} has no fixed port; write one, such as 9464");
            findings.error(value.span(), wrong);
            return None;
        }
        Err(_) => {
            let wrong = format!(
                "http = {text:?} is no address with a port; write one, such as \"127.0.0.1:9464\" or \"[::1]:9464\""
            );
            findings.error(value.span(), wrong);
            return None;
        }
    };
    if !address.ip().to_canonical().is_loopback() {
        let open = format!(
            "http = {text:?} lets other machines read the gateway's status without a password; use 127.0.0.1 unless every machine that reaches this address may read it"
        );
        findings.warn(value.span(), open);
    }
    Some(Http { address, line: Origin(findings.line(&value.span())) })
}

fn state(raw: &RawGateway, findings: &mut Findings) -> PathBuf {
    let state = GATEWAY.state.text(&raw.state);
    // A relative path would name other state, and begin again at PN 1, when started from elsewhere.
    if let (Some(given), false) = (&raw.state, Path::new(state).is_absolute()) {
        let text = format!("state = {state:?} is no absolute path; write one, such as {DEFAULT_STATE:?}");
        findings.error(given.span(), text);
    }
    state.into()
}

/// `7d`, `12h` or `off`.
fn max_age(raw: &RawGateway, findings: &mut Findings) -> Option<Duration> {
    let text = GATEWAY.state_max_age.text(&raw.state_max_age);
    if text == "off" {
        return None;
    }
    let age = GATEWAY.state_max_age.time(text);
    if let (Some(given), None) = (&raw.state_max_age, age) {
        let text = format!(
            "state_max_age = {text:?} is not an age; use days or hours such as \"7d\" or \"12h\", or \"off\""
        );
        findings.error(given.span(), text);
    }
    age
}
