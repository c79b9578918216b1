//! `announce_name`: what a gateway calls itself in its MKPDUs.

use std::fs;

use toml::Spanned;
use wire::mkpdu::{BadName, SystemName};

use crate::findings::Findings;

/// The word for none.
const OFF: &str = "off";
/// Host names of boxes that nobody has named.
const UNNAMED: [&str; 2] = ["localhost", "(none)"];

/// The name as the key says, or the host name up to its first dot.
pub(super) fn announced_name(
    value: Option<&Spanned<String>>,
    gateway: &str,
    findings: &mut Findings,
) -> Option<SystemName> {
    let Some(value) = value else {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        return of_host(host.trim_end(), gateway);
    };
    let text = value.get_ref();
    if text == OFF {
        return None;
    }
    let name = SystemName::new(text.as_bytes());
    if let Err(bad) = name {
        let wrong = format!(
            "announce_name = {text:?} has {}; write 1 to 63 characters of printable ASCII without quotation mark, apostrophe and backslash, no space at an end, or {OFF:?}",
            barred(text, bad)
        );
        findings.error(value.span(), wrong);
    }
    name.ok()
}

/// Obstacle that keeps this text from being a name.
fn barred(text: &str, bad: BadName) -> String {
    match bad {
        BadName::Length => format!("{} octets", text.len()),
        BadName::Character => {
            let is_barred = |letter: &char| SystemName::new(letter.to_string().as_bytes()).is_err();
            let letter = text.trim_matches(' ').chars().find(|letter| *letter != ' ' && is_barred(letter));
            letter.map_or_else(|| "a space at an end".to_owned(), |letter| format!("{letter:?}"))
        }
    }
}

/// The label of the host name before its first dot: what follows is the plant's, and no stranger's business. A box without one, or with one that
/// tells it from no other or is no name, goes by its gateway's name.
fn of_host(host: &str, gateway: &str) -> Option<SystemName> {
    let host = host.split_once('.').map_or(host, |(label, _)| label);
    let host = SystemName::new(host.as_bytes()).ok().filter(|host| !UNNAMED.contains(&host.as_str()));
    host.or_else(|| SystemName::new(gateway.as_bytes()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_without_a_host_name_goes_by_its_gateways_name() {
        let rows = [
            ("box-b", "box-b"),
            ("box-b.plant.example", "box-b"),
            ("localhost.localdomain", "press"),
            (".plant", "press"),
            ("O'Brien", "press"),
            ("", "press"),
            ("(none)", "press"),
            ("localhost", "press"),
            ("a\u{1b}[2J", "press"),
        ];
        for (host, name) in rows {
            assert_eq!(
                of_host(host, "press").map(|name| name.to_string()).as_deref(),
                Some(name),
                "{host:?}"
            );
        }
        let longest = "h".repeat(64);
        assert_eq!(of_host(&longest, "press").map(|name| name.to_string()).as_deref(), Some("press"));
    }
}
