use std::path::Path;

use report::site::peer_report;
use suite::identity::Identity;

use super::*;

fn site(peer: &str) -> Site {
    let text = format!(
        "[gateway]\nname = \"edge\"\n[[site]]\nname = \"dresden\"\nlan = \"eth2\"\nbind = \"0.0.0.0:7787\"\nidentity = \"a\"\n\
         [[site.peer]]\nname = \"berlin\"\n{peer}\npublic_key = \"{}\"\n",
        Identity::new(&[2; 32]).public()
    );
    let files = config::KeyFiles {
        key: &config::key_file::read,
        cak: &config::key_file::read_cak,
        identity: &|_| Ok(Identity::new(&[1; 32])),
        master_key: &config::key_file::read_master_key,
    };
    config::parse(Path::new("gw.toml"), &text, files).unwrap().0.sites.remove(0)
}

fn found(peer: &str, lan_mtu: usize, change: impl FnOnce(&mut SitePeerReport)) -> Vec<(Level, String)> {
    let site = site(peer);
    let mut report = peer_report(&site.peers[0], None, None, None);
    report.state = "connected".into();
    change(&mut report);
    let (peer, reports) = (&site.peers[0], std::slice::from_ref(&report));
    let findings = if silence::is_silent(&report) {
        vec![silence::finding(&site, peer, &report, reports, None)]
    } else {
        of_peer(&site, peer, &report, reports, Some(lan_mtu))
    };
    findings.into_iter().map(|finding| (finding.level, finding.text)).collect()
}

const ENDPOINT: &str = "endpoint = \"198.51.100.7:7777\"";

#[test]
fn every_state_has_its_cure() {
    type Row<'r> = (&'r str, &'r str, Level, &'r [&'r str]);
    let rows: [Row<'_>; 4] = [
        (ENDPOINT, "connecting", Level::Problem, &["does not answer (no answer", "UDP 7777"]),
        (ENDPOINT, "refused", Level::Problem, &["public_key", "frameward check"]),
        ("", "waiting", Level::Note, &["may connect from anywhere", "start its gateway"]),
        (ENDPOINT, "plain", Level::Note, &["not protected"]),
    ];
    for (peer, state, level, words) in rows {
        let findings = found(peer, 1500, |report| {
            report.state = state.into();
            report.reason = "no answer from 198.51.100.7:7777".into();
        });
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].0, level, "{findings:?}");
        assert!(words.iter().all(|word| findings[0].1.contains(word)), "{findings:?}");
    }
}

/// The channel knows the cause, so its cure is the one that is told.
#[test]
fn a_known_reason_has_one_cure() {
    for state in ["connecting", "refused"] {
        let findings = found(ENDPOINT, 1500, |report| {
            (report.state, report.reason) = (state.into(), "cannot resolve b.example".into());
            report.cure = "correct the name".into();
        });
        let [(level, text)] = &findings[..] else { panic!("{findings:?}") };
        assert!(
            *level == Level::Problem && text.ends_with("(cannot resolve b.example): correct the name"),
            "{text}"
        );
    }
}

#[test]
fn a_silent_peer_is_probed_where_it_is_called() {
    let paths = "paths = [{}, { endpoint = \"198.51.100.7:7777\" }, { endpoint = \"198.51.100.8:7778\" }]";
    let to: SocketAddr = "198.51.100.7:7777".parse().unwrap();
    for (peer, cure, expected) in [
        (ENDPOINT, "", Some(to)),
        (ENDPOINT, "correct the name", None),
        (paths, "", Some(to)),
        ("", "", None),
    ] {
        let site = site(peer);
        let mut report = peer_report(&site.peers[0], None, None, None);
        report.cure = cure.into();
        assert_eq!(silence::probed(&site, &site.peers[0], &report), expected, "{peer} {cure}");
    }
}

#[test]
fn each_end_of_a_way_has_its_cure() {
    use way::Way;
    let site = site(ENDPOINT);
    let to: SocketAddr = "198.51.100.7:7777".parse().unwrap();
    let [inside, router] = ["192.168.1.1", "198.51.100.5"].map(|by| by.parse().unwrap());
    let mut report = peer_report(&site.peers[0], None, None, None);
    report.state = "connecting".into();
    let mut other = report.clone();
    other.state = "connected".into();
    for (way, gets_out, words) in [
        (Way::NoRoute, false, "no route to 198.51.100.7; give it one"),
        (Way::HeldHere, false, "itself drops UDP 7777 to 198.51.100.7; let it out"),
        (Way::NarrowHere, false, "less than the 1228 octets that QUIC needs; raise its MTU"),
        (
            Way::Narrow { by: router, octets: 1000 },
            false,
            "behind 198.51.100.5 carries packets of 1000 octets",
        ),
        (
            Way::Narrow { by: router, octets: 0 },
            false,
            "behind 198.51.100.5 carries packets of too few octets",
        ),
        (Way::Closed { by: to.ip() }, false, "nobody listens at UDP 7777 of 198.51.100.7; start its gateway"),
        (Way::Closed { by: router }, false, "198.51.100.5 refuses UDP 7777 to 198.51.100.7; let it pass"),
        (Way::Forbidden { by: to.ip() }, false, "198.51.100.7 refuses UDP 7777 to 198.51.100.7; let it pass"),
        (Way::Unreachable { by: router }, false, "198.51.100.5 knows no way to 198.51.100.7; see that"),
        (Way::Open, false, "prints there as identity as its public_key here"),
        (
            Way::Lost { behind: Some(inside) },
            false,
            "lost behind 192.168.1.1, before the internet; let it out",
        ),
        (
            Way::Lost { behind: Some(inside) },
            true,
            "gets as far as 192.168.1.1, and nothing behind 192.168.1.1 answers; look first at this plant's firewall",
        ),
        (
            Way::Lost { behind: Some(router) },
            false,
            "gets as far as 198.51.100.5, and nothing behind 198.51.100.5 answers; look first at this plant's firewall",
        ),
        (Way::Lost { behind: None }, true, "is lost, and other peers answer; let it in"),
        (Way::Lost { behind: None }, false, "no router says where; let it pass at the firewalls of both"),
    ] {
        let reports = [report.clone(), if gets_out { other.clone() } else { report.clone() }];
        let finding = silence::finding(&site, &site.peers[0], &report, &reports, Some((to, way)));
        assert_eq!(finding.level, Level::Problem);
        assert!(finding.text.contains(words), "{words:?} is not in {:?}", finding.text);
        assert!(finding.text.starts_with("berlin does not answer: "), "{}", finding.text);
    }
}

#[test]
fn a_peer_behind_a_relay_is_told_of_with_its_relay() {
    let found = |state: &str, relayed: bool, why: &str| {
        let mut site = site("");
        let hub = config::site::Hub { name: "hub".into(), public_key: Identity::new(&[3; 32]).public() };
        site.peers[0].via = Some(hub);
        let mut report = peer_report(&site.peers[0], None, None, None);
        (report.state, report.relayed, report.not_direct) = (state.into(), relayed, why.into());
        report.reason =
            if state == "connected" { String::new() } else { "no answer through the relay".into() };
        let peer = &site.peers[0];
        let findings = if silence::is_silent(&report) {
            vec![silence::finding(&site, peer, &report, &[], None)]
        } else {
            of_peer(&site, peer, &report, &[], Some(1470))
        };
        findings.into_iter().map(|finding| (finding.level, finding.text)).collect::<Vec<_>>()
    };
    let [(level, text)] = &found("connecting", false, "")[..] else { panic!("one finding") };
    let words = [
        "does not answer through hub (no answer through the relay)",
        "relay = true",
        "with via for this site",
    ];
    assert!(*level == Level::Problem && words.iter().all(|word| text.contains(word)), "{text}");
    let relayed = found("connected", true, "no direct way: no answer from 203.0.113.9:7787");
    assert_eq!(relayed[0], (Level::Ok, "berlin answers through hub".into()));
    assert!(
        relayed[1].0 == Level::Note && relayed[1].1.contains("relayed by hub (no direct way: no answer"),
        "{relayed:?}"
    );
    let direct = found("connected", false, "");
    assert_eq!(direct[1], (Level::Ok, "berlin is reached directly: hub does not relay".into()));
}

/// The relay is called at the port that firewalls let out, and this site is not there.
#[test]
fn where_firewalls_let_out_one_port_the_cure_is_that_port() {
    for (hub_port, own_port, cure) in [
        (443, 7787, "set bind to port 443 at both sites"),
        (443, 443, "the NAT of berlin keep its port"),
        (7787, 7787, "the NAT of berlin keep its port"),
        (7787, 7788, "the NAT of this plant keep UDP 7788 for all destinations: hub sees 7787"),
    ] {
        let mut site = site("");
        let mut hub = site.peers[0].clone();
        hub.name = "hub".into();
        hub.endpoint = Some(format!("203.0.113.1:{hub_port}").parse().unwrap());
        let public_key = hub.public_key.unwrap();
        site.peers.push(hub);
        site.peers[0].via = Some(config::site::Hub { name: "hub".into(), public_key });
        site.bind.set_port(own_port);
        let mut report = peer_report(&site.peers[0], None, None, None);
        (report.state, report.relayed) = ("connected".into(), true);
        let mut seen_by_hub = peer_report(&site.peers[1], None, None, None);
        seen_by_hub.seen_at = Some(format!("203.0.113.9:{}", if own_port == 7788 { 7787 } else { own_port }));
        let findings = of_peer(&site, &site.peers[0], &report, &[seen_by_hub], Some(1470));
        let told = findings.iter().filter(|finding| finding.text.contains(cure)).count();
        assert_eq!((told, findings[1].level), (1, Level::Note), "{findings:?}");
    }
}

#[test]
fn what_the_path_carries_is_held_against_the_lan() {
    for (payload, lan_mtu, level, words) in [
        (1472, 1470, Level::Ok, "up to 1470 go unsplit"),
        (1472, 1500, Level::Note, "an MTU of 1438 on the machines avoids it"),
        (1400, 1470, Level::Note, "less than path_mtu promises"),
        (1200, 9000, Level::Problem, "are dropped"),
    ] {
        let findings = found(ENDPOINT, lan_mtu, |report| {
            report.path_payload = Some(payload);
            report.address = Some("198.51.100.7:7777".into());
            report.round_trip_us = Some(812);
        });
        assert_eq!(findings[0], (Level::Ok, "berlin answers at 198.51.100.7:7777, round trip 812 us".into()));
        assert!(findings[1].0 == level && findings[1].1.contains(words), "{findings:?}");
        assert_eq!(findings.len(), 2);
    }
}

/// Options of `plan` as they are typed there: half of the shortest round trip, and what the longest one took above that.
#[test]
fn a_path_that_is_up_tells_delay_and_jitter_for_plan() {
    let paths = "paths = [{ endpoint = \"198.51.100.7:7777\", interface = \"wan1\" }]";
    let path = |round_trips: Option<RoundTripsReport>| SitePathReport {
        settings: "wan1".into(),
        up: true,
        preferred: true,
        reason: String::new(),
        address: None,
        round_trip_us: Some(9120),
        round_trips,
        loss_per_mille: None,
        payload: None,
    };
    for (round_trips, words) in [
        (None, "path 1 to berlin (wan1) is up, round trip 9120 us"),
        (
            Some(RoundTripsReport { probes: 250, least_us: 8801, most_us: 12_400 }),
            "path 1 to berlin (wan1) is up, round trip 9120 us; 250 probes took 8801 to 12400 us, for frameward plan: --path-delay 4401us --path-jitter 3599us",
        ),
        (
            Some(RoundTripsReport { probes: 1, least_us: 700, most_us: 700 }),
            "path 1 to berlin (wan1) is up, round trip 9120 us; 1 probes took 700 to 700 us, for frameward plan: --path-delay 350us --path-jitter 0us",
        ),
    ] {
        let findings = found(paths, 1470, |report| report.paths = vec![path(round_trips)]);
        assert_eq!(findings[1], (Level::Ok, words.into()));
    }
}

/// The same of a peer with one way.
#[test]
fn a_peer_that_answers_probes_tells_delay_and_jitter_for_plan() {
    let findings = found(ENDPOINT, 1470, |report| {
        report.round_trip_us = Some(9120);
        report.round_trips = Some(RoundTripsReport { probes: 250, least_us: 8801, most_us: 12_400 });
    });
    let words = "berlin answers, round trip 9120 us; 250 probes took 8801 to 12400 us, for frameward plan: --path-delay 4401us --path-jitter 3599us";
    assert_eq!(findings[0], (Level::Ok, words.into()));
}

#[test]
fn where_cells_cross_a_peer_that_answers_no_probe_has_no_jitter() {
    let paths = "paths = [{ endpoint = \"198.51.100.7:7777\" }]";
    let some = Some(RoundTripsReport { probes: 1, least_us: 700, most_us: 700 });
    for (peer, cells, round_trips, told) in [
        (ENDPOINT, true, None, true),
        (ENDPOINT, true, some, false),
        (ENDPOINT, false, None, false),
        (paths, true, None, false),
    ] {
        let mut site = site(peer);
        site.cells = cells.then_some(wire::EtherType(0x88b5));
        let mut report = peer_report(&site.peers[0], None, None, None);
        report.round_trips = round_trips;
        let finding = not_measured(&site, &site.peers[0], &report);
        assert_eq!(finding.is_some(), told, "{peer} {cells}");
        assert!(finding.is_none_or(|finding| {
            finding.level == Level::Note && finding.text.starts_with("berlin has answered no probe")
        }));
    }
}

#[test]
fn header_encryption_has_a_port_that_nothing_tests() {
    let findings = found(&format!("{ENDPOINT}\nmode = \"header-encryption\""), 1458, |_| {});
    assert!(
        findings.iter().any(|(level, text)| *level == Level::Note && text.contains("UDP 7778")),
        "{findings:?}"
    );
}

#[test]
fn a_nat_on_the_way_is_told() {
    let address = |seen: &str| {
        let findings = found("endpoint = \"127.0.0.1:7777\"", 1470, |report| {
            report.address = Some("127.0.0.1:7777".into());
            report.seen_at = Some(seen.into());
        });
        findings[1].clone()
    };
    let (level, text) = address("127.0.0.1:7787");
    assert!(level == Level::Ok && text.contains("no NAT in front of this site"), "{text}");
    for elsewhere in ["127.0.0.1:20007", "203.0.113.9:7787"] {
        let (level, text) = address(elsewhere);
        assert!(
            level == Level::Ok && text.contains(elsewhere) && text.contains("a NAT is in front of this site"),
            "{text}"
        );
    }
}

#[test]
fn frames_that_a_peer_does_not_take_are_told_with_a_cure() {
    for (counter, cure) in [
        ("OutPktsExtended", "upgrade it"),
        ("OutPktsTagged", "upgrade it"),
        ("OutPktsCyclic", "set cells there, too"),
    ] {
        let findings = of_counters(|name| if name == counter { 3 } else { 0 });
        let [finding] = &findings[..] else { panic!("{counter}: {findings:?}") };
        assert_eq!(finding.level, Level::Note);
        assert!(
            finding.text.starts_with(&format!("{counter} 3 ")) && finding.text.contains(cure),
            "{}",
            finding.text
        );
    }
}
