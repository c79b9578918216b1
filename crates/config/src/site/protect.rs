//! `protect`: what does not go together with it. Its keys are judged with those of links.

use secy::SecY;
use suite::CipherSuite;
use toml::Spanned;

use super::super::Io;
use super::super::findings::Findings;
use super::super::reference::RawSite;

/// Whether the LAN's frames are protected by this box.
pub(super) fn validate(label: &str, raw: &RawSite, io: Io, findings: &mut Findings) -> bool {
    let Some(value) = raw.protect.as_ref().filter(|on| *on.get_ref()) else {
        refuse_keys(label, raw, findings);
        return false;
    };
    if io == Io::Kernel {
        let text = format!(
            "{label}protect = true does not go with io = \"kernel\": its frames pass through user space; use io = \"auto\""
        );
        findings.error(value.span(), text);
    }
    if let Some(cells) = &raw.cells {
        let text = format!(
            "{label}cells does not go with protect = true, under which cells' frames are protected like all others; remove cells"
        );
        findings.error(cells.span(), text);
    }
    // With static keys the SCIs are counted, as those of a link.
    if let Some(beyond) = raw.peer.get(SecY::RECEIVE_SCS).filter(|_| raw.mka.is_some()) {
        let most = SecY::RECEIVE_SCS;
        let text = format!(
            "{label}has {} peers, and a SecY receives from at most {most}; use protect = true between at most {} sites",
            raw.peer.len(),
            most + 1
        );
        findings.error(beyond.span(), text);
    }
    warn_of_partial_mesh(label, raw, findings);
    true
}

/// Suites whose SAKs depend on all members' SCIs, between sites of which two may not hear each other.
fn warn_of_partial_mesh(label: &str, raw: &RawSite, findings: &mut Findings) {
    let is_xpn = |suite: &&Spanned<String>| suite.get_ref().parse().is_ok_and(CipherSuite::is_xpn);
    let Some(value) = raw.suite.as_ref().filter(is_xpn) else { return };
    if raw.mka.is_some() && raw.peer.len() > 1 {
        let name = value.get_ref();
        let text = format!(
            "{label}suite = {name:?} between {} sites: if two of them do not hear each other, one gets no key, and all of its frames stop; use {:?} at all sites, with which who hears each other goes on",
            raw.peer.len() + 1,
            name.replace("-xpn", "")
        );
        findings.warn(value.span(), text);
    }
}

/// Keys that nobody would use.
fn refuse_keys(label: &str, raw: &RawSite, findings: &mut Findings) {
    let spans = [
        ("suite", raw.suite.as_ref().map(Spanned::span)),
        ("padding", raw.padding.as_ref().map(Spanned::span)),
        ("[site.mka]", raw.mka.as_ref().map(Spanned::span)),
        ("[site.static]", raw.static_keys.as_ref().map(Spanned::span)),
    ];
    for (what, span) in spans {
        let Some(span) = span else { continue };
        let text =
            format!("{label}{what} is of no use without protect = true; add protect = true, or remove it");
        findings.error(span, text);
    }
}

#[cfg(test)]
mod tests {
    use secy::{SciInclusion, SecY, ValidateFrames};

    use super::super::super::check::Plan;
    use super::super::super::tests::{lines, validated};
    use super::super::super::{Config, Keys, Mtu};

    /// A site that protects its LAN, with further lines; line 8 is the first of `site`.
    fn text(gateway: &str, site: &str, keys: &str) -> String {
        format!(
            r#"[gateway]
name = "edge"{gateway}
[[site]]
name = "dresden"
lan = "eth2"
bind = "0.0.0.0:7787"
identity = "a.key"
{site}
{keys}
[[site.peer]]
name = "berlin"
public_key = "{:064x}"
"#,
            1
        )
    }

    const MKA: &str = "[site.mka]\ncak_file = \"c.256\"";
    const STATIC: &str = "[site.static]\nan = 0\nsci = \"02:00:00:00:00:01/1\"\nkey_file = \"b.key\"";
    const PEER: &str = "[[site.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:02/1\"\nkey_file = \"d.key\"";

    fn config(site: &str, keys: &str) -> Config {
        validated(&text("", site, keys)).map_err(|errors| lines(&errors)).unwrap().0
    }

    #[test]
    fn a_site_that_protects_has_a_link_inside_of_it() {
        let config = config("protect = true\nmtu = 1400\nwindow = 1024\nallow_addresses = true", MKA);
        let ([link], [site]) = (config.links.as_slice(), config.sites.as_slice()) else {
            panic!("one of each")
        };
        assert!(site.protect && link.in_site);
        assert_eq!((link.name.as_str(), link.plain.as_str(), link.line.0), ("dresden", "eth2", 3));
        assert_eq!((link.mtu, link.replay_window, link.allow_addresses), (Mtu::Octets(1400), 1024, true));
        assert_eq!(
            (link.validate_frames, link.sci_inclusion),
            (ValidateFrames::Strict, SciInclusion::Always)
        );
        assert!(link.protect_frames && link.replay_protect && link.fragmentation.is_none());
        assert!(matches!(link.keys, Keys::Agreed(_)));
        // All machines have one SCI.
        assert_eq!(site.limits.flows_per_sci, site.limits.flows);
        assert_eq!(crate::interfaces(&config.links, &config.sites).collect::<Vec<_>>(), ["eth2"]);
        assert_eq!(crate::datapaths(&config.links, &config.sites), 1);
        let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap().to_string();
        for line in [
            "plain      eth2, the LAN of site dresden",
            "protected  the tunnel of site dresden",
            "MKPDUs     to 01:80:c2:00:00:03, through the tunnel",
            "SCI        the address of eth2, port 1",
            "lan        eth2, MTU 1400; with SecTAG, ICV and VLAN tags 1440",
            "protects   all frames of the LAN, as link dresden says",
        ] {
            assert!(plan.contains(&format!("  {line}\n")), "{line}\n{plan}");
        }
    }

    #[test]
    fn static_keys_do_as_well_and_without_protect_there_is_no_link() {
        let keys = format!("{STATIC}\n{PEER}");
        let with_keys = config("protect = true\nsuite = \"gcm-aes-128\"", &keys);
        assert_eq!(with_keys.links[0].static_sas().unwrap().receive.len(), 1);
        for site in ["", "protect = false"] {
            let config = config(site, "");
            assert!(config.links.is_empty() && !config.sites[0].protect);
        }
        let (_, warnings) = validated(&text("", "protect = true\nsuite = \"gcm-aes-128\"", STATIC)).unwrap();
        assert_eq!(
            lines(&warnings),
            ["gw.toml:10: site \"dresden\": has no peer, so it delivers nothing; add [[site.static.peer]]"]
        );
        let (_, warnings) =
            validated(&text("", "protect = true", &format!("{MKA}\naccept_integrity = true"))).unwrap();
        assert_eq!(
            lines(&warnings),
            [
                "gw.toml:11: site \"dresden\": accept_integrity = true: frames leave authenticated, but readable on the internet, if the key server says so"
            ]
        );
        // Of three sites, two may not hear each other.
        let more = "[[site.peer]]\nname = \"celle\"\npublic_key = \"".to_owned() + &format!("{:064x}\"", 2);
        for (suite, other, three, warned) in [
            ("gcm-aes-xpn-256", "gcm-aes-256", true, true),
            ("gcm-aes-xpn-128", "gcm-aes-128", true, true),
            ("chacha20-poly1305-xpn", "chacha20-poly1305", true, true),
            ("gcm-aes-xpn-256", "", false, false),
            ("gcm-aes-256", "", true, false),
        ] {
            let site = format!("protect = true\nsuite = {suite:?}");
            let text = text("", &site, MKA) + if three { &more } else { "" };
            let warnings = lines(&validated(&text).unwrap().1);
            let partial = warnings.iter().filter(|line| line.contains("do not hear each other"));
            let partial: Vec<_> = partial.collect();
            assert_eq!(partial.len(), usize::from(warned), "{warnings:?}");
            let head = format!("gw.toml:9: site \"dresden\": suite = {suite:?} between 3 sites: ");
            let cure = format!("; use {other:?} at all sites");
            assert!(
                partial.iter().all(|line| line.starts_with(&head) && line.contains(&cure)),
                "{partial:?}"
            );
        }
        let limits = "[site.limits]\nflows = 100\nflows_per_sci = 10";
        let limited = config("protect = true", &format!("{MKA}\n{limits}"));
        assert_eq!((limited.sites[0].limits.flows, limited.sites[0].limits.flows_per_sci), (100, 10));
    }

    #[test]
    fn what_cannot_be_combined_is_refused_with_line_cause_and_cure() {
        let link = "[[link]]\nname = \"press\"\nplain = \"eth2\"\nprotected = \"eth3\"\n[link.mka]\ncak_file = \"e.256\"";
        let own = format!("{STATIC}\n{PEER}");
        let rows: [(&str, &str, &str, &str); 10] = [
            ("", "protect = true", "", "3: site \"dresden\": has no keys; add [site.mka] or [site.static]"),
            (
                "",
                "protect = true\nsuite = \"gcm-aes-128\"",
                &format!("{own}\n{MKA}"),
                "18: site \"dresden\": has [site.mka] and [site.static]; remove one of them",
            ),
            (
                "",
                "protect = true",
                &own,
                "3: site \"dresden\": suite is missing; static keys need its name: gcm-aes-128",
            ),
            (
                "",
                "",
                MKA,
                "9: site \"dresden\": [site.mka] is of no use without protect = true; add protect = true, or remove it",
            ),
            (
                "",
                "protect = false",
                STATIC,
                "9: site \"dresden\": [site.static] is of no use without protect = true; add protect = true, or remove it",
            ),
            (
                "",
                "suite = \"auto\"",
                "",
                "8: site \"dresden\": suite is of no use without protect = true; add protect = true, or remove it",
            ),
            (
                "\nio = \"kernel\"",
                "protect = true",
                MKA,
                "9: site \"dresden\": protect = true does not go with io = \"kernel\": its frames pass through user space; use io = \"auto\"",
            ),
            (
                "",
                "protect = true\ncells = 0x88b5",
                MKA,
                "9: site \"dresden\": cells does not go with protect = true, under which cells' frames are protected like all others; remove cells",
            ),
            (
                "",
                "protect = true\nfragment = \"on\"",
                MKA,
                "9: unknown key \"fragment\" here: it belongs to [[link]]; remove it or use one of name, lan,",
            ),
            ("", "protect = true", &format!("{MKA}\n{link}"), ""),
        ];
        for (gateway, site, keys, expected) in rows {
            let errors = lines(&validated(&text(gateway, site, keys)).unwrap_err());
            if expected.is_empty() {
                let shared = "an interface serves one site, or one side of one link";
                assert!(
                    errors
                        .iter()
                        .any(|error| error.contains("\"eth2\" is already used") && error.contains(shared)),
                    "{errors:#?}"
                );
                continue;
            }
            let expected = format!("gw.toml:{expected}");
            assert!(errors.iter().any(|error| error.starts_with(&expected)), "{expected}\n{errors:#?}");
        }
    }

    /// A SecY has a receive SC for each of the other sites, and stations of a group as many live peers.
    #[test]
    fn a_site_that_agrees_on_keys_has_no_more_peers_than_its_secy_can_receive_from() {
        let crowd = |site: &str, keys: &str, peers: usize| {
            let more = (2..=peers).map(|number| {
                format!("[[site.peer]]\nname = \"p{number}\"\npublic_key = \"{number:064x}\"\n")
            });
            text("", site, keys) + &more.collect::<String>()
        };
        let protect = "protect = true";
        assert!(validated(&crowd(protect, MKA, SecY::RECEIVE_SCS)).is_ok());
        assert!(validated(&crowd("", "", SecY::RECEIVE_SCS + 1)).is_ok());
        let errors = lines(&validated(&crowd(protect, MKA, SecY::RECEIVE_SCS + 1)).unwrap_err());
        assert_eq!(
            errors,
            [
                "gw.toml:107: site \"dresden\": has 33 peers, and a SecY receives from at most 32; use protect = true between at most 33 sites"
            ]
        );
    }

    /// One key under two names of links and sites would seal with one nonce twice.
    #[test]
    fn no_key_is_a_sites_and_a_links() {
        let link = "[[link]]\nname = \"press\"\nplain = \"eth3\"\nprotected = \"eth4\"\nsuite = \"gcm-aes-128\"\n[link.static]\nan = 1\nsci = \"02:00:00:00:00:01/1\"\nkey_file = \"b.key\"\n[[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:09/1\"\nkey_file = \"f.key\"";
        let site = "protect = true\nsuite = \"gcm-aes-128\"";
        let whole = text("", site, &format!("{STATIC}\n{PEER}")) + link;
        let errors = lines(&validated(&whole).unwrap_err());
        assert!(errors.iter().any(|error| error.contains("nonce")), "{errors:#?}");
    }
}
