//! `workers` of a site: how many of the gateway's workers send its frames.

use tunnel::Mode;

use super::super::Io;
use super::super::findings::Findings;
use super::super::reference::{RawSite, SITE};
use super::super::words::Named as _;
use super::SitePeer;

/// The number of sending workers. What several do not go with is refused, one finding for each.
pub(super) fn validate(
    label: &str,
    raw: &RawSite,
    io: Io,
    peers: Option<&[SitePeer]>,
    findings: &mut Findings,
) -> u8 {
    let workers: u8 = SITE.workers.number_or_default(label, &raw.workers, findings);
    let Some(value) = raw.workers.as_ref().filter(|_| workers > 1) else { return workers };
    let mut refuse = |with: &str, why: &str, cure: &str| {
        let text =
            format!("{label}workers = {workers} does not go with {with}: {why}; {cure}, or remove workers");
        findings.error(value.span(), text);
    };
    if io == Io::Kernel {
        refuse("io = \"kernel\"", "programs send what they carry on all CPUs already", "use io = \"auto\"");
    }
    let order = "packets of all flows wait for each other";
    if raw.rate.is_some() {
        refuse("rate", order, "remove rate");
    }
    if SITE.relay.switch(&raw.relay) {
        refuse("relay = true", "relayed packets have no flow here to be told apart by", "remove relay");
    }
    if raw.standby.is_some() {
        refuse("[site.standby]", "one worker alone hears the other box", "remove [site.standby]");
    }
    for peer in peers.into_iter().flatten() {
        let SitePeer { name, mode, via, paths, .. } = peer;
        let with = |what: &str| format!("peer {name:?}, which has {what}");
        if *mode != Mode::Identifier {
            let with = with(&format!("mode = {:?}", mode.name()));
            refuse(&with, "only identifiers have lanes", "use mode = \"identifier\" there");
        }
        if via.is_some() {
            refuse(&with("via"), "packets to a relay are put together by one worker", "give it an endpoint");
        }
        if !paths.is_empty() {
            refuse(&with("paths"), order, "give it an endpoint");
        }
    }
    workers
}

#[cfg(test)]
mod tests {
    use crate::tests::{lines, validated};

    const KEY: &str = "4a3807d064d077181cc070989e76891d20dc5559548dc2c77c1a50273882b38d";

    fn text(gateway: &str, site: &str, peer: &str) -> String {
        format!(
            "[gateway]\nname = \"gw\"\n{gateway}\n[[site]]\nname = \"s\"\nlan = \"eth2\"\nbind = \"0.0.0.0:7787\"\nidentity = \"s.key\"\n{site}\n\
             [[site.peer]]\nname = \"b\"\npublic_key = \"{KEY}\"\n{peer}\n"
        )
    }

    #[test]
    fn a_site_sends_from_one_worker_unless_it_says_two() {
        let peer = "endpoint = \"192.0.2.1:7787\"";
        for (site, workers) in [("", 1), ("workers = 1", 1), ("workers = 2", 2)] {
            let (config, warnings) = validated(&text("", site, peer)).unwrap();
            assert_eq!((config.sites[0].workers, lines(&warnings)), (workers, Vec::<String>::new()));
        }
    }

    #[test]
    fn what_does_not_go_with_two_workers_is_refused_with_the_cure() {
        let peer = "endpoint = \"192.0.2.1:7787\"";
        for (gateway, site, peer, expected) in [
            ("", "workers = 3", peer, "workers = 3 is out of range; use 1 to 2"),
            (
                "io = \"kernel\"",
                "workers = 2",
                peer,
                "workers = 2 does not go with io = \"kernel\": programs send what they carry on all CPUs already; use io = \"auto\", or remove workers",
            ),
            (
                "",
                "workers = 2\nrate = \"50M\"",
                peer,
                "workers = 2 does not go with rate: packets of all flows wait for each other; remove rate, or remove workers",
            ),
            (
                "",
                "workers = 2",
                "endpoint = \"192.0.2.1:7787\"\nmode = \"header-encryption\"",
                "workers = 2 does not go with peer \"b\", which has mode = \"header-encryption\": only identifiers have lanes; use mode = \"identifier\" there, or remove workers",
            ),
            (
                "",
                "workers = 2",
                "[[site.peer.paths]]\nendpoint = \"192.0.2.1:7787\"\n[[site.peer.paths]]\nendpoint = \"192.0.2.2:7787\"",
                "workers = 2 does not go with peer \"b\", which has paths: packets of all flows wait for each other; give it an endpoint, or remove workers",
            ),
        ] {
            let found = lines(&validated(&text(gateway, site, peer)).unwrap_err());
            assert_eq!(found, [format!("gw.toml:9: site \"s\": {expected}")], "{site} {peer}");
        }
    }
}
