//! Links beside a site whose frames its peers' mode does not carry.

use secy::{ConfidentialityOffset, Protection, SciInclusion};

use super::super::Link;
use super::super::findings::{Finding, Findings};
use super::{Mode, Site};

/// Why a link's frames cannot pass a peer under header encryption, as its configuration writes it.
pub fn unfit_for_header_encryption(link: &Link) -> Option<&'static str> {
    match link.protection {
        _ if !link.protect_frames => None,
        Protection::Integrity => Some("encrypt = false"),
        Protection::Encrypt(offset) if offset != ConfidentialityOffset::Zero => {
            Some("confidentiality_offset")
        }
        Protection::Encrypt(_) if link.sci_inclusion != SciInclusion::Always => Some("sci is not \"always\""),
        Protection::Encrypt(_) => None,
    }
}

/// Warns of each link whose frames a peer of a site in the same configuration would not get: it may well stand in that
/// site's LAN.
pub(in super::super) fn warn_of_misfits(links: &[Link], sites: &[Site], findings: &mut Findings) {
    for link in links {
        let Some(why) = unfit_for_header_encryption(link) else { continue };
        for site in sites {
            let mut unreached = site.peers.iter().filter(|peer| peer.mode == Mode::HeaderEncryption);
            let Some(first) = unreached.next() else { continue };
            let others = match unreached.count() {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            let text = format!(
                "link {:?}: {why}: mode = \"header-encryption\" cannot carry such frames, so no frame of this link reaches peer {:?}{others} through site {:?}; change the link, or use mode = \"identifier\"",
                link.name, first.name, site.name
            );
            findings.warnings.push(Finding {
                file: findings.file().to_owned(),
                line: Some(link.line.0),
                text,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{lines, validated};

    fn warnings(link: &str, mode: &str) -> Vec<String> {
        let text = format!(
            r#"[gateway]
name = "edge"
[[link]]
name = "press"
plain = "eth0"
protected = "eth1"
suite = "gcm-aes-128"
{link}
[link.static]
an = 0
sci = "02:00:00:00:00:01/1"
key_file = "a.key"
[[link.static.peer]]
an = 0
sci = "02:00:00:00:00:02/1"
key_file = "b.key"
[[site]]
name = "dresden"
lan = "eth2"
bind = "0.0.0.0:7787"
identity = "a.key"
[[site.peer]]
name = "berlin"
endpoint = "198.51.100.7:7787"
public_key = "{0:064x}"
{mode}
[[site.peer]]
name = "celle"
endpoint = "198.51.100.8:7787"
public_key = "{1:064x}"
{mode}
"#,
            1, 2
        );
        let (_, warnings) = validated(&text).unwrap();
        lines(&warnings).into_iter().filter(|line| line.contains("cannot carry such frames")).collect()
    }

    #[test]
    fn a_link_whose_frames_header_encryption_refuses_is_warned_about() {
        let mode = "mode = \"header-encryption\"";
        for (link, why) in [
            ("encrypt = false", "encrypt = false"),
            ("confidentiality_offset = 30", "confidentiality_offset"),
            ("sci = \"never\"", "sci is not \"always\""),
            ("sci = \"end-station\"", "sci is not \"always\""),
        ] {
            let expected = format!(
                "gw.toml:3: link \"press\": {why}: mode = \"header-encryption\" cannot carry such frames, so no frame of this link reaches peer \"berlin\" and 1 more through site \"dresden\"; change the link, or use mode = \"identifier\""
            );
            assert_eq!(warnings(link, mode), [expected], "{link}");
            assert_eq!(warnings(link, ""), Vec::<String>::new(), "identifiers carry all: {link}");
        }
        for fits in
            ["", "protect_frames = false", "encrypt = true", "fragment = \"on\"\nconcatenate = \"on\""]
        {
            assert_eq!(warnings(fits, mode), Vec::<String>::new(), "{fits}");
        }
    }
}
