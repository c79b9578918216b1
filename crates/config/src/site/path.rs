//! `paths` of a peer: several ways to it, numbered as at the peer.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use dataplane::site::{Copies, PATHS};
use toml::Spanned;
use tunnel::Mode;

use super::super::Io;
use super::super::findings::Findings;
use super::super::reference::{RawSitePath, RawSitePeer, SITE_PATH, SITE_PEER};
use super::super::unique_names::interface_name;
use super::{Endpoint, Host, SitePath, uplink};

/// Settings of site and peer that paths have to go with.
#[derive(Clone, Copy)]
pub(super) struct Around {
    /// Of the site, if it has one.
    pub(super) bind: Option<SocketAddr>,
    /// Of the gateway.
    pub(super) io: Io,
}

/// Judges the paths of one peer and what goes over all of them. `endpoints`: those of other peers, with their lines.
pub(super) fn validate(
    label: &str,
    raw: &RawSitePeer,
    mode: Mode,
    around: Around,
    endpoints: &mut BTreeMap<Endpoint, usize>,
    findings: &mut Findings,
) -> (Vec<SitePath>, Copies) {
    let copies = SITE_PEER.copies.choice(label, &raw.copies, findings);
    let Some(first) = raw.paths.first() else {
        if let Some(given) = &raw.copies {
            findings.error(given.span(), format!("{label}copies does nothing without paths; remove it"));
        }
        return (Vec::new(), Copies::None);
    };
    let mut refuse = |text: &str| findings.error(first.span(), format!("{label}{text}"));
    if mode != Mode::Identifier {
        refuse("paths go with mode = \"identifier\" alone; remove them, or use that mode");
    }
    if around.io == Io::Kernel {
        refuse(
            "paths do not go with io = \"kernel\": frames to several paths pass through user space; use io = \"auto\"",
        );
    }
    if raw.endpoint.is_some() {
        refuse("paths and endpoint; write the endpoint into one of the paths");
    }
    if let Some(beyond) = raw.paths.get(PATHS) {
        let text =
            format!("{label}has {} paths, and at most {PATHS} fit; remove the others", raw.paths.len());
        findings.error(beyond.span(), text);
    }
    let mut paths: Vec<SitePath> = Vec::new();
    for (at, raw) in raw.paths.iter().enumerate() {
        let label = format!("{label}path {}: ", at + 1);
        let path = judge(&label, raw, around.bind, findings);
        let way = |path: &SitePath| SitePath { rate: None, ..path.clone() };
        if let Some(same) = paths.iter().position(|other| way(other) == way(&path)) {
            let text = format!(
                "{label}is the same as path {}; give it an endpoint, local or interface of its own",
                same + 1
            );
            findings.error(raw.span(), text);
        }
        paths.push(path);
    }
    for (at, path) in paths.iter().enumerate() {
        let Some(endpoint) = &path.endpoint else { continue };
        let line = findings.line(&raw.paths[at].span());
        let own = paths[..at].iter().any(|other| other.endpoint.as_ref() == Some(endpoint));
        if let Some(before) = endpoints.insert(endpoint.clone(), line).filter(|_| !own) {
            let text = format!(
                "{label}path {}: endpoint = \"{endpoint}\" is already used on line {before}; each site has its own",
                at + 1
            );
            findings.error(raw.paths[at].span(), text);
        }
    }
    (paths, copies)
}

fn judge(
    label: &str,
    raw: &Spanned<RawSitePath>,
    bind: Option<SocketAddr>,
    findings: &mut Findings,
) -> SitePath {
    let span = raw.span();
    let RawSitePath { endpoint, local, interface, rate } = raw.get_ref();
    let endpoint = endpoint.as_ref().and_then(|value| match value.get_ref().parse::<Endpoint>() {
        Ok(endpoint) => Some(endpoint),
        Err(why) => {
            findings.error(value.span(), format!("{label}endpoint = {:?} {why}", value.get_ref()));
            None
        }
    });
    let local = local.as_ref().and_then(|value| match value.get_ref().parse::<IpAddr>() {
        Ok(address) if !address.is_multicast() => Some(address.to_canonical()),
        _ => {
            let text = format!(
                "{label}local = {:?} is no address of this box; write one of its own, such as \"192.0.2.7\"",
                value.get_ref()
            );
            findings.error(value.span(), text);
            None
        }
    });
    if interface.is_some() {
        interface_name(label, &span, SITE_PATH.interface, interface, findings);
    }
    let to = match endpoint.as_ref().map(|endpoint| &endpoint.host) {
        Some(Host::Address(address)) => Some(*address),
        _ => None,
    };
    let version = |address: IpAddr| if address.is_ipv4() { "IPv4" } else { "IPv6" };
    if let (Some(local), Some(to)) = (local, to)
        && local.is_ipv4() != to.is_ipv4()
    {
        let text = format!(
            "{label}local is {}, and endpoint {}; use addresses of one version",
            version(local),
            version(to)
        );
        findings.error(span.clone(), text);
    }
    if let (Some(bind), Some(address)) = (bind, to.or(local)) {
        let dual = bind.is_ipv6() && bind.ip().is_unspecified();
        if bind.is_ipv4() != address.is_ipv4() && !dual {
            let text = format!(
                "{label}is {}, and bind {} reaches {} alone; use bind = \"[::]:{}\"",
                version(address),
                bind.ip(),
                version(bind.ip()),
                bind.port()
            );
            findings.error(span.clone(), text);
        } else if let Some(local) = local.filter(|local| !local.is_unspecified())
            && !bind.ip().is_unspecified()
            && bind.ip() != local
        {
            let text = format!(
                "{label}local is {local}, and bind {} sends from that address alone; use bind = \"0.0.0.0:{1}\" or \"[::]:{1}\"",
                bind.ip(),
                bind.port()
            );
            findings.error(span, text);
        }
    }
    let interface = interface.as_ref().map(|interface| interface.get_ref().clone());
    let path = SitePath {
        endpoint,
        local,
        interface,
        rate: rate.as_ref().and_then(|rate| uplink::judge(label, rate, findings)),
    };
    if let (Some(rate), None) = (rate, path.uplink_key()) {
        let text = format!(
            "{label}rate is that of an uplink, and nothing says which; add interface or local, or write the rate into [[site]]"
        );
        findings.error(rate.span(), text);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{lines, validated};

    /// A site with a peer that has two paths, and another peer; line numbers count from the first line.
    fn two_paths() -> String {
        let key = |digit: &str| digit.repeat(64);
        format!(
            r#"[gateway]
name = "edge"
[[site]]
name = "dresden"
lan = "eth2"
bind = "0.0.0.0:7787"
identity = "a.key"
[[site.peer]]
name = "berlin"
public_key = "{}"
copies = "express"
paths = [
  {{ endpoint = "198.51.100.7:7787", local = "192.0.2.7" }},
  {{ endpoint = "198.51.100.7:7787", interface = "wan2" }},
]
[[site.peer]]
name = "celle"
public_key = "{}"
endpoint = "203.0.113.9:7787"
"#,
            key("1"),
            key("2")
        )
    }

    #[test]
    fn paths_are_understood_and_may_change_without_another_peer() {
        let site = |text: &str| validated(text).unwrap().0.sites.remove(0);
        let one = site(&two_paths());
        let [first, second] = one.peers[0].paths.as_slice() else { panic!("two paths") };
        assert_eq!(first.endpoint, second.endpoint);
        assert_eq!((first.local, second.interface.as_deref()), ("192.0.2.7".parse().ok(), Some("wan2")));
        assert_eq!((one.peers[0].copies, one.peers[1].copies), (Copies::Express, Copies::None));
        assert_eq!(site(&two_paths().replace("copies = \"express\"\n", "")).peers[0].copies, Copies::All);
        for (what, by, alike) in [
            ("wan2", "wan3", true),
            ("express", "none", true),
            ("\"berlin\"", "\"bonn\"", false),
            ("name = \"berlin\"", "name = \"berlin\"\npath_mtu = 1400", false),
        ] {
            let other = site(&two_paths().replacen(what, by, 1));
            assert!(one.peers[0] != other.peers[0], "{by}");
            assert_eq!(one.peers[0].is_like_but_for_paths(&other.peers[0]), alike, "{by}");
        }
        assert!(!one.peers[1].is_like_but_for_paths(&one.peers[1]), "it has an endpoint");
    }

    #[test]
    fn uplinks_are_numbered_and_shared_and_other_rates_restart_the_site() {
        let site = |text: &str| validated(text).map_err(|errors| lines(&errors)).unwrap().0.sites.remove(0);
        let rates = two_paths()
            .replace("interface = \"wan2\"", "interface = \"wan2\", local = \"192.0.2.9\", rate = \"20M\"")
            .replace("local = \"192.0.2.7\"", "local = \"192.0.2.7\", rate = \"5M\"")
            .replace(
                "endpoint = \"203.0.113.9:7787\"",
                "paths = [{ endpoint = \"203.0.113.9:7787\", interface = \"wan2\", rate = \"20M\" }, { endpoint = \"203.0.113.9:7787\" }]",
            );
        let one = site(&rates);
        let uplinks = one.path_uplinks();
        let named: Vec<_> = uplinks.iter().map(|uplink| (uplink.name(), uplink.rate)).collect();
        assert_eq!(named, [("192.0.2.7".to_owned(), 5_000_000), ("wan2".to_owned(), 20_000_000)]);
        let numbers = |peer: usize| -> Vec<_> {
            let manager = crate::site::settings::manager_peer(&one, &one.peers[peer]);
            manager.paths.iter().map(|path| path.uplink).collect()
        };
        assert_eq!([numbers(0), numbers(1)], [vec![Some(1), Some(2)], vec![Some(2), None]]);
        assert!(one.is_shaped() && !site(&two_paths()).is_shaped());
        for (what, by, goes_on) in [
            ("198.51.100.7:7787\", local", "198.51.100.8:7787\", local", true),
            ("\"5M\"", "\"6M\"", false),
            ("192.0.2.7", "192.0.2.8", false),
        ] {
            assert_eq!(one.goes_on_as(&site(&rates.replacen(what, by, 1))), goes_on, "{by}");
        }
        let plan =
            crate::check::Plan::new(&validated(&rates).unwrap().0, Some(&|_| Ok(1500))).unwrap().to_string();
        for line in [
            "  rate       5M bit/s at 192.0.2.7, 20M bit/s at wan2, of paths there to all peers",
            "    path 1     from 192.0.2.7 to 198.51.100.7:7787, 5M bit/s",
        ] {
            assert!(plan.contains(line), "{line}\n{plan}");
        }
    }

    #[test]
    fn a_site_has_eight_uplinks_with_a_rate_at_most() {
        let text = |uplinks: usize| {
            let path = |number: usize| format!("{{ interface = \"wan{number}\", rate = \"1M\" }}");
            let peers = (0..uplinks).step_by(3).map(|first| {
                let paths: Vec<_> = (first..uplinks.min(first + 3)).map(path).collect();
                let key = first.to_string().repeat(64);
                let paths = paths.join(", ");
                format!("[[site.peer]]\nname = \"p{first}\"\npublic_key = \"{key}\"\npaths = [{paths}]\n")
            });
            let text = two_paths();
            let (site, _) = text.split_once("[[site.peer]]").unwrap();
            format!("{site}{}", peers.collect::<String>())
        };
        assert_eq!(validated(&text(8)).unwrap().0.sites[0].path_uplinks().len(), 8);
        let errors = lines(&validated(&text(9)).unwrap_err());
        let expected = "gw.toml:8: site \"dresden\": 9 uplinks of paths have a rate, and at most 8 fit; remove rate from the path of line 19";
        assert_eq!(errors, [expected]);
    }

    /// Each row: the text that is replaced, its replacement, and all lines that are reported.
    #[test]
    fn each_mistake_has_its_line() {
        let second = "{ endpoint = \"198.51.100.7:7787\", interface = \"wan2\" }";
        for (what, by, expected) in [
            (
                "copies = \"express\"\n",
                "copies = \"some\"\n",
                "11: site \"dresden\": peer \"berlin\": copies = \"some\" is no choice; use \"all\", \"express\" or \"none\"",
            ),
            (
                "endpoint = \"203.0.113.9:7787\"",
                "endpoint = \"203.0.113.9:7787\"\ncopies = \"all\"",
                "20: site \"dresden\": peer \"celle\": copies does nothing without paths; remove it",
            ),
            (
                "copies = \"express\"",
                "mode = \"header-encryption\"",
                "8: site \"dresden\": peer \"berlin\": endpoint is missing; mode = \"header-encryption\" needs it: add endpoint = \"HOST:PORT\", or use identifier\n13: site \"dresden\": peer \"berlin\": paths go with mode = \"identifier\" alone; remove them, or use that mode",
            ),
            (
                "copies = \"express\"",
                "endpoint = \"198.51.100.8:7787\"",
                "13: site \"dresden\": peer \"berlin\": paths and endpoint; write the endpoint into one of the paths",
            ),
            (
                "name = \"edge\"",
                "name = \"edge\"\nio = \"kernel\"",
                "14: site \"dresden\": peer \"berlin\": paths do not go with io = \"kernel\": frames to several paths pass through user space; use io = \"auto\"",
            ),
            (
                second,
                "{ interface = \"a\" }, { interface = \"b\" }, { interface = \"c\" }, { interface = \"d\" }",
                "14: site \"dresden\": peer \"berlin\": has 5 paths, and at most 4 fit; remove the others",
            ),
            (
                second,
                "{ endpoint = \"198.51.100.7:7787\", local = \"192.0.2.7\" }",
                "14: site \"dresden\": peer \"berlin\": path 2: is the same as path 1; give it an endpoint, local or interface of its own",
            ),
            (
                "203.0.113.9",
                "198.51.100.7",
                "19: site \"dresden\": peer \"celle\": endpoint = \"198.51.100.7:7787\" is already used on line 14; each site has its own",
            ),
            (
                second,
                "{ endpoint = \"nowhere\" }",
                "14: site \"dresden\": peer \"berlin\": path 2: endpoint = \"nowhere\" is no host with a port; write one, such as \"198.51.100.7:7787\", \"[2001:db8::7]:7787\" or \"berlin.example.net:7787\"",
            ),
            (
                second,
                "{ endpoint = \"[2001:db8::7]:7787\" }",
                "14: site \"dresden\": peer \"berlin\": path 2: is IPv6, and bind 0.0.0.0 reaches IPv4 alone; use bind = \"[::]:7787\"",
            ),
            (
                "\"192.0.2.7\"",
                "\"2001:db8::1\"",
                "13: site \"dresden\": peer \"berlin\": path 1: local is IPv6, and endpoint IPv4; use addresses of one version",
            ),
            (
                "\"192.0.2.7\"",
                "\"eth0\"",
                "13: site \"dresden\": peer \"berlin\": path 1: local = \"eth0\" is no address of this box; write one of its own, such as \"192.0.2.7\"",
            ),
            (
                "0.0.0.0:7787",
                "192.0.2.8:7787",
                "13: site \"dresden\": peer \"berlin\": path 1: local is 192.0.2.7, and bind 192.0.2.8 sends from that address alone; use bind = \"0.0.0.0:7787\" or \"[::]:7787\"",
            ),
            (
                "local = \"192.0.2.7\"",
                "rate = \"5M\"",
                "13: site \"dresden\": peer \"berlin\": path 1: rate is that of an uplink, and nothing says which; add interface or local, or write the rate into [[site]]",
            ),
            (
                "interface = \"wan2\"",
                "interface = \"wan2\", rate = \"5m\"",
                "14: site \"dresden\": peer \"berlin\": path 2: rate = \"5m\" is no rate; write bits a second as a whole number with k, M or G, such as \"50M\"",
            ),
            (
                second,
                "{ local = \"192.0.2.7\", rate = \"5M\" }",
                "14: site \"dresden\": peer \"berlin\": path 2: it has rate = \"5M\", and the path of line 13 with the same uplink no rate; write the same rate at both",
            ),
            (
                second,
                "{ endpoint = \"198.51.100.7:7787\", local = \"192.0.2.7\", rate = \"5M\" }",
                "14: site \"dresden\": peer \"berlin\": path 2: is the same as path 1; give it an endpoint, local or interface of its own\n14: site \"dresden\": peer \"berlin\": path 2: it has rate = \"5M\", and the path of line 13 with the same uplink no rate; write the same rate at both",
            ),
            (
                "\"wan2\"",
                "\"wan/2\"",
                "14: site \"dresden\": peer \"berlin\": path 2: interface = \"wan/2\" is no interface name; use 1 to 15 octets without space, / and :",
            ),
            (
                "interface = \"wan2\"",
                "device = \"wan2\"",
                "14: unknown key \"device\"; remove it or use one of endpoint, local, interface, rate",
            ),
        ] {
            let text = two_paths();
            assert!(text.contains(what), "{what}");
            let found = validated(&text.replacen(what, by, 1)).map(|_| ()).map_err(|errors| lines(&errors));
            let expected: Vec<_> = expected.lines().map(|line| format!("gw.toml:{line}")).collect();
            assert_eq!(found, Err(expected), "{by}");
        }
    }
}
