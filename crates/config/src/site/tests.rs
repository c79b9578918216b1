use super::super::tests::{lines, validated};
use super::*;
use std::fmt::Write as _;
use std::time::Duration;
use tunnel::FrameKinds;

/// A valid configuration without a link; line numbers stand beside it.
fn valid() -> String {
    let keys = ["b", "c"].map(key);
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
endpoint = "198.51.100.7:7787"
public_key = "{}"
[[site.peer]]
name = "celle"
endpoint = "celle.example.net:7787"
public_key = "{}"
mode = "header-encryption"
[[site.peer]]
name = "dump"
endpoint = "198.51.100.9:4789"
mode = "plain"
vni = 7
"#,
        keys[0], keys[1]
    )
}

/// The public key of the identity that the tests' files of this name hold.
fn key(letter: &str) -> String {
    Identity::new(&[letter.as_bytes()[0]; 32]).public().to_string()
}

#[test]
fn a_site_needs_no_link() {
    let (config, warnings) = validated(&valid()).unwrap();
    assert!(config.links.is_empty());
    let [site] = config.sites.as_slice() else { panic!("one site") };
    assert_eq!((site.name.as_str(), site.line.0, site.lan.as_str()), ("dresden", 3, "eth2"));
    assert_eq!(
        (site.mtu, site.dscp, site.window, site.limits),
        (Mtu::Interface, Dscp::All(0), 4096, Limits::default())
    );
    assert_eq!(
        (site.cells, settings::manager_settings(site, 1500).unwrap().frames),
        (None, FrameKinds::ALWAYS)
    );
    assert_eq!(site.identity.as_ref().unwrap().public().to_string(), key("a"));
    let [berlin, celle, dump] = site.peers.as_slice() else { panic!("three peers") };
    assert_eq!((berlin.mode, berlin.line.0, berlin.path_mtu), (Mode::Identifier, 8, 1500));
    assert_eq!(berlin.public_key.unwrap().to_string(), key("b"));
    assert_eq!(celle.mode, Mode::HeaderEncryption);
    assert_eq!(celle.endpoint.as_ref().unwrap().to_string(), "celle.example.net:7787");
    assert_eq!((dump.mode, dump.public_key), (Mode::Plain { vni: 7 }, None));
    let bound: Vec<_> = sockets(site).iter().map(|socket| socket.address.to_string()).collect();
    assert_eq!(bound, ["0.0.0.0:7787", "0.0.0.0:7788", "0.0.0.0:4789"]);
    assert!(!berlin.classical);
    // Unprotected is loud.
    let [warning] = lines(&warnings).try_into().unwrap();
    assert!(warning.starts_with(
        "gw.toml:20: site \"dresden\": peer \"dump\": mode = \"plain\": a stranger on the path reads"
    ));
}

#[test]
fn every_key_of_a_site_is_understood() {
    let text = valid().replace(
        "identity = \"a.key\"\n",
        r#"identity = "a.key"
mtu = 1400
dscp = 46
rate = "50M"
cells = "0x88b6"
relay = true
window = 1024
[site.limits]
flows = 100
flows_per_sci = 10
flows_per_source = 11
new_flows_per_second = 12
flow_age = "90s"
stations = 200
station_age = "1h"
relayed_per_second = 13
"#,
    );
    let text = text.replacen("[[site.peer]]\n", "[[site.peer]]\npath_mtu = 9000\n", 1);
    let site = validated(&text).unwrap().0.sites.remove(0);
    let limits = Limits {
        flows: 100,
        flow_numbers: 1 << 16,
        flows_per_sci: 10,
        flows_per_source: 11,
        new_flows_per_second: 12,
        flow_age: Duration::from_secs(90),
        stations: 200,
        station_age: Duration::from_secs(3600),
        relayed_per_second: 13,
    };
    assert_eq!(
        (site.mtu, site.dscp, site.window, site.limits),
        (Mtu::Octets(1400), Dscp::All(46), 1024, limits)
    );
    assert_eq!(site.rate, Some(50_000_000));
    assert_eq!(site.cells, Some(EtherType(0x88b6)));
    assert_eq!(settings::manager_settings(&site, 1500).unwrap().frames, FrameKinds::ALL);
    assert_eq!(site.peers[0].path_mtu, 9000);
    assert_eq!(
        validated(
            &valid().replace("[[site.peer]]\nname = \"b", "dscp = \"none\"\n[[site.peer]]\nname = \"b")
        )
        .unwrap()
        .0
        .sites[0]
            .dscp,
        Dscp::All(0)
    );
}

#[test]
fn a_site_of_plain_peers_needs_no_identity_and_no_channel() {
    let text = r#"[gateway]
name = "edge"
[[site]]
name = "dresden"
lan = "eth2"
bind = "[::]:7787"
[[site.peer]]
name = "dump"
endpoint = "[2001:db8::9]:4789"
mode = "plain"
vni = 16777215
"#;
    let site = validated(text).unwrap().0.sites.remove(0);
    assert_eq!((site.identity.as_ref(), site.peers[0].mode), (None, Mode::Plain { vni: 0xff_ffff }));
    assert_eq!(sockets(&site).len(), 1);
}

#[test]
fn a_way_to_a_relay_is_searched_for_room_for_the_channel_in_a_relayed_packet() {
    let far = format!("[[site.peer]]\nname = \"far\"\nvia = \"berlin\"\npublic_key = \"{}\"\n", key("d"));
    let most = |text: &str, lan_mtu| settings::most_payload(&validated(text).unwrap().0.sites[0], lan_mtu);
    assert_eq!(most(&valid(), 500), Some(1200));
    assert_eq!(most(&format!("{}{far}", valid()), 500), Some(1248), "1200 octets and the longest header");
    assert_eq!(most(&valid().replace("identity =", "relay = true\nidentity ="), 500), Some(1248));
    assert_eq!(most(&format!("{}{far}", valid()), 1300), most(&valid(), 1300), "as for frames");
}

#[test]
fn a_peer_behind_a_relay_has_the_key_of_its_relay() {
    let far = format!("[[site.peer]]\nname = \"far\"\nvia = \"berlin\"\npublic_key = \"{}\"\n", key("d"));
    let (config, warnings) = validated(&format!("{}{far}", valid())).unwrap();
    assert_eq!(warnings.len(), 1, "of the plain peer alone");
    let site = &config.sites[0];
    let (berlin, far) = (&site.peers[0], &site.peers[3]);
    let hub = Hub { name: "berlin".into(), public_key: berlin.public_key.unwrap() };
    assert_eq!((far.via.as_ref(), far.endpoint.as_ref()), (Some(&hub), None));
    assert_eq!(settings::manager_peer(site, far).via, berlin.public_key);
    assert!(site.peers[..3].iter().all(|peer| peer.via.is_none()));
    // A hub of one peer relays nothing.
    let (_, warnings) = validated(&valid().replace("identity =", "relay = true\nidentity =")).unwrap();
    assert_eq!(
        lines(&warnings)[0],
        "gw.toml:7: site \"dresden\": relay = true does nothing with 1 peers in identifier mode and without via; it needs two"
    );
}

#[test]
fn as_many_peers_as_there_may_be() {
    let with = |peers: usize| {
        let mut text = valid().split("[[site.peer]]").next().unwrap().to_owned();
        for number in 0..peers {
            let _ = write!(text, "[[site.peer]]\nname = \"p{number}\"\npublic_key = \"{number:064x}\"\n");
        }
        validated(&text).map(|(config, _)| config.sites[0].peers.len()).map_err(|errors| lines(&errors))
    };
    assert_eq!(with(255), Ok(255));
    let line = 8 + 255 * 3;
    assert_eq!(
        with(257),
        Err(vec![format!(
            "gw.toml:{line}: site \"dresden\": has 257 peers, and at most 255 fit; add another site for the others"
        )])
    );
    assert_eq!(with(0), Err(vec!["gw.toml:3: site \"dresden\": has no peer; add [[site.peer]]".into()]));
}

#[test]
fn a_line_elsewhere_is_no_difference() {
    let site = |text: &str| validated(text).unwrap().0.sites.remove(0);
    let one = site(&valid());
    assert_eq!(one, site(&format!("# a comment\n{}", valid())));
    assert_eq!(
        one,
        site(&valid().replace("\"a.key\"", "\"also-a.key\"")),
        "the same identity in another file"
    );
    for (what, by) in [
        ("eth2", "eth3"),
        ("0.0.0.0:7787", "0.0.0.0:7777"),
        ("a.key", "d.key"),
        ("198.51.100.7:7787", "198.51.100.7:1"),
        ("vni = 7", "vni = 8"),
        ("\"berlin\"", "\"bonn\""),
    ] {
        let other = site(&valid().replacen(what, by, 1));
        assert_ne!(one, other, "{by}");
        let of_a_peer =
            what.contains(':') && !what.starts_with('0') || what.contains("vni") || what == "\"berlin\"";
        assert_eq!(one.goes_on_as(&other), of_a_peer, "{by}");
    }
}

/// Each row: the text that is replaced in the valid configuration, its replacement, and all lines that are reported.
#[test]
fn each_mistake_has_its_line() {
    for (what, by, expected) in mistakes() {
        let text = valid();
        assert!(text.contains(&what), "{what}");
        let found = validated(&text.replacen(&what, &by, 1)).map(|_| ()).map_err(|errors| lines(&errors));
        let expected: Vec<_> = expected.lines().map(|line| format!("gw.toml:{line}")).collect();
        assert_eq!(found, Err(expected), "{by}");
    }
}

fn mistakes() -> Vec<(String, String, String)> {
    let rows: Vec<(&str, &str, &str)> = vec![
        (
            "lan =",
            "wan =",
            "5: unknown key \"wan\"; did you mean lan? Else remove it or use one of name, lan, bind, identity, protect, suite, padding, mtu, dscp, rate, express_classes, vlans, cells, relay, workers, window, allow_addresses, static, mka, standby, limits, peer",
        ),
        (
            "vni = 7",
            "vnid = 7",
            "21: unknown key \"vnid\"; did you mean vni? Else remove it or use one of name, public_key, endpoint, via, mode, standby_of, vni, path_mtu, classical, copies, paths",
        ),
        ("name = \"dresden\"\n", "", "3: site 1: name is missing; add name = \"NAME\""),
        (
            "\"dresden\"",
            "\"Dresden\"",
            "4: site \"Dresden\": name = \"Dresden\" is not a valid name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first",
        ),
        ("lan = \"eth2\"\n", "", "3: site \"dresden\": lan is missing; add lan = \"INTERFACE\""),
        (
            "\"eth2\"",
            "\"eth 2\"",
            "5: site \"dresden\": lan = \"eth 2\" is no interface name; use 1 to 15 octets without space, / and :",
        ),
        (
            "bind = \"0.0.0.0:7787\"\n",
            "",
            "3: site \"dresden\": bind is missing; add bind = \"0.0.0.0:7787\"",
        ),
        (
            "0.0.0.0:7787",
            "any:7787",
            "6: site \"dresden\": bind = \"any:7787\" is no address with a port; write one, such as \"0.0.0.0:7787\" or \"[::]:7787\"",
        ),
        (
            "0.0.0.0:7787",
            "0.0.0.0:65535",
            "6: site \"dresden\": bind = \"0.0.0.0:65535\": port 65535 is too high: the site also uses the next port; use 1 to 65534",
        ),
        (
            "0.0.0.0:7787",
            "224.0.0.9:7787",
            "6: site \"dresden\": bind = \"224.0.0.9:7787\" cannot be an address of this box; use one of its own, or 0.0.0.0 or [::]",
        ),
        (
            "0.0.0.0:7787",
            "[2001:db8::1]:7787",
            "10: site \"dresden\": peer \"berlin\": endpoint is IPv4, and bind 2001:db8::1 reaches IPv6 alone; use bind = \"[::]:7787\"\n19: site \"dresden\": peer \"dump\": endpoint is IPv4, and bind 2001:db8::1 reaches IPv6 alone; use bind = \"[::]:7787\"",
        ),
        (
            "identity = \"a.key\"\n",
            "",
            "3: site \"dresden\": identity is missing; make one with frameward keygen site --out FILE, and add identity = \"FILE\"",
        ),
        (
            "a.key",
            "b.key",
            "11: site \"dresden\": public_key of a peer is this site's own; write the one that keygen printed at the peer",
        ),
        (
            "a.key",
            "Zeros.key",
            "7: site \"dresden\": identity: Zeros.key holds only zeros, which are no secret; make a key with: frameward keygen site --out FILE",
        ),
        (
            "identity =",
            "cells = 0x0800\nidentity =",
            "7: site \"dresden\": cells = 0x0800 is another protocol's; use the ethertype of the cells, such as 0x88b5, or \"none\"",
        ),
        (
            "identity =",
            "rate = \"50\"\nidentity =",
            "7: site \"dresden\": rate = \"50\" is no rate; write bits a second as a whole number with k, M or G, such as \"50M\"",
        ),
        (
            "identity =",
            "rate = \"63k\"\nidentity =",
            "7: site \"dresden\": rate = \"63k\" is out of range; use \"64k\" to \"100G\"",
        ),
        (
            "identity =",
            "dscp = 64\nidentity =",
            "7: site \"dresden\": dscp = 64 is out of range; use 0 to 63, \"pcp\", \"copy\" or \"none\"",
        ),
        (
            "identity =",
            "dscp = \"copy\"\nidentity =",
            "7: site \"dresden\": dscp = \"copy\" needs protect = true: without it the LAN's frames are MACsec, which hides the IP header; use \"pcp\", 0 to 63, or \"none\"",
        ),
        (
            "identity =",
            "dscp = \"EF\"\nwindow = 1000\nmtu = 100\nidentity =",
            "7: site \"dresden\": dscp is neither a number nor a word that it takes; use 0 to 63, such as 46, \"pcp\", \"copy\" or \"none\"\n8: site \"dresden\": window = 1000 is not allowed; use a power of two from 64 to 65536, the same at both ends\n9: site \"dresden\": mtu is neither \"interface\" nor 576 to 9216 octets; use one of them",
        ),
        (
            "identity = \"a.key\"\n",
            "identity = \"a.key\"\n[site.limits]\nflows = 70000\nflow_age = \"29s\"\n",
            "9: site \"dresden\": flows = 70000 is out of range; use 16 to 32768\n10: site \"dresden\": flow_age = \"29s\" is no age; use 30 seconds to a day, such as \"300s\", \"5m\" or \"1h\"",
        ),
        ("name = \"berlin\"\n", "", "8: site \"dresden\": peer 1: name is missing; add name = \"NAME\""),
        (
            "\"celle\"",
            "\"berlin\"",
            "13: site \"dresden\": peer \"berlin\": name = \"berlin\" is already used on line 9; give each peer its own",
        ),
        (
            "celle.example.net:7787",
            "198.51.100.7:7787",
            "14: site \"dresden\": peer \"celle\": endpoint = \"198.51.100.7:7787\" is already used on line 10; each site has its own",
        ),
        (
            "endpoint = \"celle.example.net:7787\"\n",
            "",
            "12: site \"dresden\": peer \"celle\": endpoint is missing; mode = \"header-encryption\" needs it: add endpoint = \"HOST:PORT\", or use identifier",
        ),
        (
            "endpoint = \"198.51.100.9:4789\"\n",
            "",
            "17: site \"dresden\": peer \"dump\": endpoint is missing; mode = \"plain\" needs it: add endpoint = \"HOST:PORT\", or use identifier",
        ),
        (
            "celle.example.net:7787",
            "celle",
            "14: site \"dresden\": peer \"celle\": endpoint = \"celle\" is no host with a port; write one, such as \"198.51.100.7:7787\", \"[2001:db8::7]:7787\" or \"berlin.example.net:7787\"",
        ),
        (
            "celle.example.net:7787",
            "[2001:db8::7]:7787",
            "14: site \"dresden\": peer \"celle\": endpoint is IPv6, and bind 0.0.0.0 reaches IPv4 alone; use bind = \"[::]:7787\"",
        ),
        (
            "mode = \"header-encryption\"",
            "mode = \"header\"",
            "16: site \"dresden\": peer \"celle\": mode = \"header\" is no choice; use \"identifier\", \"header-encryption\" or \"plain\"",
        ),
        (
            "mode = \"header-encryption\"",
            "vni = 1\npath_mtu = 1279",
            "16: site \"dresden\": peer \"celle\": vni is for mode = \"plain\" alone; remove it\n17: site \"dresden\": peer \"celle\": path_mtu = 1279 is out of range; use 1280 to 9216",
        ),
        (
            "mode = \"header-encryption\"",
            "classical = \"yes\"",
            "16: site \"dresden\": peer \"celle\": classical = \"yes\" is no choice; use \"refuse\" or \"allow\"",
        ),
        (
            "vni = 7",
            "vni = 7\nclassical = \"allow\"",
            "22: site \"dresden\": peer \"dump\": classical does nothing with mode = \"plain\"; remove it",
        ),
        (
            "vni = 7",
            "vni = 16777216",
            "21: site \"dresden\": peer \"dump\": vni = 16777216 is out of range; use 0 to 16777215",
        ),
        (
            "vni = 7",
            "",
            "17: site \"dresden\": peer \"dump\": vni is missing; mode = \"plain\" needs it: add vni = NUMBER, as at the peer",
        ),
        (
            "vni = 7",
            "vni = 7\npublic_key = \"00\"",
            "22: site \"dresden\": peer \"dump\": public_key does nothing with mode = \"plain\"; remove it",
        ),
        (
            "vni = 7\n",
            "vni = 7\n[[site.peer]]\nname = \"also\"\nendpoint = \"198.51.100.9:4790\"\nmode = \"plain\"\nvni = 7\n",
            "24: site \"dresden\": peer \"also\": endpoint = \"198.51.100.9:4790\": the plain peer of line 19 already has this host, and the host tells packets apart; give each peer its own\n24: site \"dresden\": peer \"also\": endpoint = \"198.51.100.9:4790\": the plain peer of line 19 has port 4789, and all plain peers of a site share one; use 4789",
        ),
        (
            "vni = 7",
            "vni = 7\nvia = \"nobody\"",
            "22: site \"dresden\": peer \"dump\": via = \"nobody\": no peer of the site has that name; write the name of the one that relays",
        ),
        (
            "vni = 7",
            "vni = 7\nvia = \"dump\"",
            "22: site \"dresden\": peer \"dump\": via = \"dump\": a peer does not relay to itself; write the name of the one that relays",
        ),
        (
            "vni = 7",
            "vni = 7\nvia = \"berlin\"",
            "22: site \"dresden\": peer \"dump\": via = \"berlin\": both need mode = \"identifier\"; use it, or remove via",
        ),
        (
            "mode = \"header-encryption\"",
            "via = \"berlin\"",
            "16: site \"dresden\": peer \"celle\": via = \"berlin\": the peer has an endpoint, so it is reached directly; remove one of the two",
        ),
        (
            "[gateway]\nname = \"edge\"\n",
            "[gateway]\nname = \"edge\"\n[[site]]\nname = \"dresden\"\nlan = \"eth2\"\nbind = \"127.0.0.1:7788\"\nidentity = \"a.key\"\n[[site.peer]]\nname = \"x\"\npublic_key = \"0000000000000000000000000000000000000000000000000000000000000000\"\n",
            "12: site \"dresden\": name = \"dresden\" is already used on line 4; give each link and site its own\n13: site \"dresden\": lan = \"eth2\" is already used on line 5; an interface serves one site, or one side of one link\n14: site \"dresden\": UDP 0.0.0.0:7788 (header encryption) is UDP 127.0.0.1:7788 (data and management channel) of site \"dresden\" already; give bind another port\n15: site \"dresden\": identity is that of the site of line 3; give each site its own",
        ),
        (
            "[[site]]",
            "[[link]]\nname = \"dresden\"\nplain = \"eth2\"\nprotected = \"eth1\"\nsuite = \"gcm-aes-128\"\n[link.static]\nan = 0\nsci = \"02:00:00:00:00:01/1\"\nkey_file = \"a.key\"\n[[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:02/1\"\nkey_file = \"b.key\"\n[[site]]",
            "17: site \"dresden\": name = \"dresden\" is already used on line 4; give each link and site its own\n18: site \"dresden\": lan = \"eth2\" is already used on line 5; an interface serves one site, or one side of one link",
        ),
    ];
    let mut rows: Vec<_> =
        rows.into_iter().map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())).collect();
    let (b, c) = (key("b"), key("c"));
    let via = |name: &str, letter: &str, hub: &str| {
        format!("[[site.peer]]\nname = \"{name}\"\npublic_key = \"{}\"\nvia = \"{hub}\"\n", key(letter))
    };
    rows.push((
        "vni = 7\n".into(),
        format!("vni = 7\n{}{}", via("far", "d", "berlin"), via("farther", "e", "far")),
        "29: site \"dresden\": peer \"farther\": via = \"far\": that peer has via itself, and a packet is relayed once; use one that is reached directly"
            .into(),
    ));
    rows.push((
        format!("public_key = \"{c}\""),
        format!("public_key = \"{b}\""),
        "15: site \"dresden\": peer \"celle\": public_key is already used on line 11; each site has its own"
            .into(),
    ));
    rows.push((
        format!("public_key = \"{c}\"\n"),
        String::new(),
        "12: site \"dresden\": peer \"celle\": public_key is missing; add the line that frameward keygen site printed at the peer".into(),
    ));
    rows.push((
        c,
        "abc".into(),
        "15: site \"dresden\": peer \"celle\": public_key is not 64 hexadecimal digits; copy the line that frameward keygen site printed".into(),
    ));
    rows
}
