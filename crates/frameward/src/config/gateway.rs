//! `[gateway]`.

use std::path::{Path, PathBuf};

use toml::Spanned;

use super::findings::Findings;
use super::raw::RawGateway;
use super::{Gateway, Io, Polling, Realtime, is_name};

const DEFAULT_STATE: &str = "/var/lib/frameward";

/// The gateway, and whether experimental suites are allowed.
pub(super) fn judge(raw: Option<&Spanned<RawGateway>>, findings: &mut Findings) -> Option<(Gateway, bool)> {
    let Some(spanned) = raw else {
        findings.error(0..0, "[gateway] is missing; add it with name = \"NAME\"");
        return None;
    };
    let raw = spanned.get_ref();
    let io = [("auto", Io::Auto), ("af_xdp", Io::AfXdp), ("af_packet", Io::AfPacket)];
    let io = findings.choice("", "io", &raw.io, &io, Io::Auto);
    let polling =
        [("adaptive", Polling::Adaptive), ("busy", Polling::Busy), ("interrupt", Polling::Interrupt)];
    let polling = findings.choice("", "polling", &raw.polling, &polling, Polling::Adaptive);
    let realtime = [("auto", Realtime::Auto), ("on", Realtime::On), ("off", Realtime::Off)];
    let realtime = findings.choice("", "realtime", &raw.realtime, &realtime, Realtime::Auto);
    findings.later("", "antedate", &raw.antedate, &["off", "auto"]);
    for (key, value) in [("http", &raw.http), ("state_max_age", &raw.state_max_age)] {
        if let Some(value) = value {
            findings.error(value.span(), format!("{key} is not in this release; remove it"));
        }
    }
    let state = state(raw, findings);
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
    Some((Gateway { name: name.get_ref().clone(), state, io, polling, realtime }, allow_experimental))
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

pub(super) fn bad_name(label: &str, name: &str) -> String {
    format!("{label}name = {name:?} is no name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first")
}
