//! `rate` and `dscp`: the order of a site's packets at its uplink, and beyond.

use dataplane::site::{Dscp, UPLINKS};
use toml::{Spanned, Value};

use super::super::Io;
use super::super::findings::Findings;
use super::super::reference::{RawSite, RawSitePeer, SITE};
use super::{SitePeer, UplinkKey};

/// Rates that a shaper takes, in bits a second.
const RATES: std::ops::RangeInclusive<u64> = 64_000..=100_000_000_000;

/// The rate of the uplink in bits a second. `None`: packets are sent as they come.
pub(super) fn rate(label: &str, raw: &RawSite, io: Io, findings: &mut Findings) -> Option<u64> {
    let value = raw.rate.as_ref()?;
    let rate = judge(label, value, findings)?;
    if io == Io::Kernel {
        let wrong = format!(
            "{label}rate does not go with io = \"kernel\": programs cannot let packets wait, so all of them pass through user space; use io = \"auto\", or remove rate"
        );
        findings.error(value.span(), wrong);
        return None;
    }
    Some(rate)
}

/// A rate as it is written, in bits a second.
pub(super) fn judge(label: &str, value: &Spanned<String>, findings: &mut Findings) -> Option<u64> {
    let text = value.get_ref();
    let wrong = match parse(text) {
        None => format!(
            "{label}rate = {text:?} is no rate; write bits a second as a whole number with k, M or G, such as \"50M\""
        ),
        Some(rate) if !RATES.contains(&rate) => {
            format!("{label}rate = {text:?} is out of range; use \"64k\" to \"100G\"")
        }
        Some(rate) => return Some(rate),
    };
    findings.error(value.span(), wrong);
    None
}

/// Paths that share an uplink say the same rate, and uplinks with a rate are not too many.
pub(super) fn judge_paths(
    label: &str,
    raw: &[Spanned<RawSitePeer>],
    peers: &[SitePeer],
    findings: &mut Findings,
) {
    let mut known: Vec<(UplinkKey, Option<u64>, usize)> = Vec::new();
    for (peer, raw) in peers.iter().zip(raw) {
        for (number, (path, raw)) in (1..).zip(peer.paths.iter().zip(&raw.get_ref().paths)) {
            let Some(key) = path.uplink_key() else { continue };
            let line = findings.line(&raw.span());
            let Some((_, rate, before)) = known.iter().find(|(known, ..)| *known == key) else {
                known.push((key, path.rate, line));
                continue;
            };
            if *rate != path.rate {
                let written = |rate: Option<u64>| {
                    rate.map_or("no rate".to_owned(), |rate| format!("rate = {:?}", rate_text(rate)))
                };
                let text = format!(
                    "{label}peer {:?}: path {number}: it has {}, and the path of line {before} with the same uplink {}; write the same rate at both",
                    peer.name,
                    written(path.rate),
                    written(*rate)
                );
                findings.error(raw.span(), text);
            }
        }
    }
    let with_rate: Vec<_> = known.iter().filter(|(_, rate, _)| rate.is_some()).collect();
    if let Some((.., line)) = with_rate.get(UPLINKS) {
        let text = format!(
            "{label}{} uplinks of paths have a rate, and at most {UPLINKS} fit; remove rate from the path of line {line}",
            with_rate.len()
        );
        let span = raw.first().map(Spanned::span).unwrap_or_default();
        findings.error(span, text);
    }
}

fn parse(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    };
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| plain)?.checked_mul(unit)
}

/// A rate as the configuration writes it.
pub(crate) fn rate_text(rate: u64) -> String {
    let units = [(1_000_000_000, "G"), (1_000_000, "M")];
    let unit = units.into_iter().find(|(unit, _)| rate.is_multiple_of(*unit)).unwrap_or((1000, "k"));
    format!("{}{}", rate / unit.0, unit.1)
}

/// The DSCP of data packets.
pub(super) fn dscp(label: &str, raw: &RawSite, protects: bool, findings: &mut Findings) -> Dscp {
    let Some(value) = &raw.dscp else { return Dscp::default() };
    let wrong = match value.get_ref() {
        Value::String(text) if text == SITE.dscp.default_text() => return Dscp::default(),
        Value::Integer(number) => match SITE.dscp.in_range(*number) {
            Some(dscp) => return Dscp::All(dscp),
            None => {
                format!("{label}dscp = {number} is out of range; use 0 to 63, \"pcp\", \"copy\" or \"none\"")
            }
        },
        Value::String(text) if text == "pcp" => return shown(label, value, Dscp::Priority, findings),
        Value::String(text) if text == "copy" && protects => {
            return shown(label, value, Dscp::Copy, findings);
        }
        Value::String(text) if text == "copy" => format!(
            "{label}dscp = \"copy\" needs protect = true: without it the LAN's frames are MACsec, which hides the IP header; use \"pcp\", 0 to 63, or \"none\""
        ),
        _ => format!(
            "{label}dscp is neither a number nor a word that it takes; use 0 to 63, such as 46, \"pcp\", \"copy\" or \"none\""
        ),
    };
    findings.error(value.span(), wrong);
    Dscp::default()
}

/// Frames that show something of themselves are told loudly.
fn shown(label: &str, value: &Spanned<Value>, dscp: Dscp, findings: &mut Findings) -> Dscp {
    let text = format!(
        "{label}dscp = {}: {}; use one number or \"none\" to hide it",
        value.get_ref(),
        reveals(dscp).unwrap_or_default()
    );
    findings.warn(value.span(), text);
    dscp
}

/// Knowledge that a stranger on the path gets by the DSCP.
pub(crate) const fn reveals(dscp: Dscp) -> Option<&'static str> {
    match dscp {
        Dscp::All(_) => None,
        Dscp::Priority => Some(
            "a stranger on the path reads the priority (PCP) of each frame, and so which packets are express",
        ),
        Dscp::Copy => Some(
            "a stranger on the path reads the DSCP of the IP packet in each frame, and so which application it may be",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::check::Plan;
    use super::super::super::tests::{lines, validated};
    use super::*;

    #[test]
    fn a_rate_is_a_whole_number_with_a_unit() {
        for (text, rate) in [
            ("50M", Some(50_000_000)),
            ("64k", Some(64_000)),
            ("100G", Some(100_000_000_000)),
            ("2500k", Some(2_500_000)),
            ("", None),
            ("M", None),
            ("50", None),
            ("2.5M", None),
            ("+5M", None),
            ("5 M", None),
            ("5m", None),
            ("5µ", None),
            ("99999999999999999999M", None),
            ("99999999999G", None),
        ] {
            assert_eq!(parse(text), rate, "{text:?}");
            assert!(rate.is_none_or(|rate| rate_text(rate) == text), "{text}");
        }
    }

    #[test]
    fn rate_and_dscp_say_what_they_do_and_what_they_cannot_be() {
        let text = |gateway: &str, site: &str, keys: &str| {
            format!(
                "[gateway]\nname = \"edge\"{gateway}\n[[site]]\nname = \"dresden\"\nlan = \"eth2\"\nbind = \"0.0.0.0:7787\"\nidentity = \"a.key\"\n{site}\n{keys}\n[[site.peer]]\nname = \"berlin\"\npublic_key = \"{}\"\n",
                "1".repeat(64)
            )
        };
        let errors = validated(&text("\nio = \"kernel\"", "rate = \"50M\"", "")).unwrap_err();
        assert_eq!(
            lines(&errors),
            [
                "gw.toml:9: site \"dresden\": rate does not go with io = \"kernel\": programs cannot let packets wait, so all of them pass through user space; use io = \"auto\", or remove rate"
            ]
        );
        let mka = "[site.mka]\ncak_file = \"c.256\"";
        for (site, keys, dscp, warning) in [
            ("rate = \"2500k\"", "", Dscp::All(0), None),
            (
                "rate = \"2500k\"\ndscp = \"pcp\"",
                "",
                Dscp::Priority,
                Some("dscp = \"pcp\": a stranger on the path reads the priority"),
            ),
            (
                "rate = \"2500k\"\nprotect = true\ndscp = \"copy\"",
                mka,
                Dscp::Copy,
                Some("dscp = \"copy\": a stranger on the path reads the DSCP"),
            ),
        ] {
            let (config, warnings) =
                validated(&text("", site, keys)).map_err(|errors| lines(&errors)).unwrap();
            assert_eq!((config.sites[0].dscp, config.sites[0].rate), (dscp, Some(2_500_000)), "{site}");
            let warned = lines(&warnings);
            assert_eq!(warned.len(), usize::from(warning.is_some()), "{warned:?}");
            assert!(warning.is_none_or(|warning| warned[0].contains(warning)), "{warned:?}");
            let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap().to_string();
            assert!(plan.contains("  rate       2500k bit/s, all peers and paths together"), "{plan}");
            assert_eq!(plan.contains("  DSCP       "), warning.is_some(), "{plan}");
            assert!(plan.contains("  frames     user space"), "{plan}");
        }
    }
}
