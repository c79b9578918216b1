//! `[gateway]`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;

use super::findings::Findings;
use super::raw::RawGateway;
use super::{Antedate, Gateway, Http, Io, LogFormat, Polling, Realtime, is_name};
use crate::cpus::Cpus;

/// Where leases and floors are, unless the configuration says otherwise.
pub const DEFAULT_STATE: &str = "/var/lib/frameward";

/// The gateway, and whether experimental suites are allowed.
pub(super) fn validate(
    raw: Option<&Spanned<RawGateway>>,
    findings: &mut Findings,
) -> Option<(Gateway, bool)> {
    let Some(spanned) = raw else {
        findings.error(0..0, "[gateway] is missing; add it with name = \"NAME\"");
        return None;
    };
    let raw = spanned.get_ref();
    let io = [("auto", Io::Auto), ("kernel", Io::Kernel), ("af_xdp", Io::AfXdp), ("af_packet", Io::AfPacket)];
    let io = findings.choice("", "io", &raw.io, &io, Io::Auto);
    let polling =
        [("adaptive", Polling::Adaptive), ("busy", Polling::Busy), ("interrupt", Polling::Interrupt)];
    let polling = findings.choice("", "polling", &raw.polling, &polling, Polling::Adaptive);
    let realtime = [("auto", Realtime::Auto), ("on", Realtime::On), ("off", Realtime::Off)];
    let realtime = findings.choice("", "realtime", &raw.realtime, &realtime, Realtime::Auto);
    let cpus = raw.cpus.as_ref().and_then(|value| cpus(value, findings));
    let antedate = [("auto", Antedate::Auto), ("on", Antedate::On), ("off", Antedate::Off)];
    let antedate = findings.choice("", "antedate", &raw.antedate, &antedate, Antedate::Auto);
    let log = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let log = findings.choice("", "log", &raw.log, &log, LogFormat::Text);
    let http = raw.http.as_ref().and_then(|value| http(value, findings));
    let state = state(raw, findings);
    let state_max_age = raw.state_max_age.as_ref().and_then(|value| max_age(value, findings));
    let name = match &raw.name {
        None => {
            findings.error(spanned.span(), "[gateway] has no name; add name = \"NAME\"");
            return None;
        }
        Some(name) => name,
    };
    if !is_name(name.get_ref()) {
        findings.error(name.span(), bad_name("", name.get_ref()));
    }
    let allow_experimental = raw.allow_experimental.as_ref().is_some_and(|allow| *allow.get_ref());
    let unguarded = raw.unguarded.as_ref().is_some_and(|allow| *allow.get_ref());
    let name = name.get_ref().clone();
    Some((
        Gateway { name, state, state_max_age, io, polling, realtime, cpus, unguarded, antedate, http, log },
        allow_experimental,
    ))
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
    Some(Http { address, line: findings.line(&value.span()) })
}

fn state(raw: &RawGateway, findings: &mut Findings) -> PathBuf {
    let Some(state) = &raw.state else { return DEFAULT_STATE.into() };
    // A relative path would name other state, and begin again at PN 1, when started from elsewhere.
    if !Path::new(state.get_ref()).is_absolute() {
        let text = format!(
            "state = {:?} is no absolute path; write one, such as {DEFAULT_STATE:?}",
            state.get_ref()
        );
        findings.error(state.span(), text);
    }
    state.get_ref().into()
}

/// `7d`, `12h` or `off`.
fn max_age(value: &Spanned<String>, findings: &mut Findings) -> Option<Duration> {
    let text = value.get_ref();
    if text == "off" {
        return None;
    }
    let units = [("h", SECONDS_AN_HOUR), ("d", 24 * SECONDS_AN_HOUR)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let number = text.strip_suffix(unit)?;
        number.parse::<u32>().ok().filter(|&number| number > 0).map(|number| u64::from(number) * seconds)
    });
    if seconds.is_none() {
        let text = format!(
            "state_max_age = {text:?} is not an age; use days or hours such as \"7d\" or \"12h\", or \"off\""
        );
        findings.error(value.span(), text);
    }
    seconds.map(Duration::from_secs)
}

const SECONDS_AN_HOUR: u64 = 3600;

pub(super) fn bad_name(label: &str, name: &str) -> String {
    format!(
        "{label}name = {name:?} is not a valid name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first"
    )
}
