use super::super::Level;
use super::*;

#[test]
fn kernels_rights_and_clocks_are_judged() {
    for (release, level) in
        [("6.18.5", Level::Ok), ("6.6.0-rc1", Level::Ok), ("6.1.0-13-amd64", Level::Note), ("", Level::Note)]
    {
        assert_eq!(kernel(release).level, level, "{release}");
    }
    for (effective, expected) in [
        ("000001ffffffffff", None),
        ("0000000000203000", None),
        ("0000008000003000", None),
        ("0000000000003000", Some("CAP_BPF missing")),
        ("0000000000000000", Some("CAP_NET_ADMIN and CAP_NET_RAW and CAP_BPF missing")),
    ] {
        let finding = rights(&format!("Name:\tx\nCapEff:\t{effective}\n"));
        assert_eq!(finding.level == Level::Ok, expected.is_none(), "{effective}");
        assert!(finding.text.starts_with(expected.unwrap_or("")), "{finding:?}");
    }
    assert_eq!(clock(SystemTime::UNIX_EPOCH + Duration::from_secs(1000)).level, Level::Note);
    assert_eq!(clock(SystemTime::UNIX_EPOCH + BUILT + BUILT).level, Level::Ok);
}

#[test]
fn state_directories_are_judged() {
    let directory = testkit::TestDirectory::new("doctor-state");
    let path = directory.path();
    let set = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(0o700);
    assert_eq!(state(path).level, Level::Ok);
    set(0o777);
    assert!(state(path).text.ends_with(&format!("chmod 700 {}", path.display())));
    set(0o700);
    assert!(state(&path.join("none")).text.contains("the first start makes it"));
    fs::write(path.join("file"), "").unwrap();
    assert_eq!(state(&path.join("file")).level, Level::Problem);
}

fn survey() -> InterfaceInfo {
    InterfaceInfo {
        name: "enp2s0".into(),
        mac: [2; 6],
        mtu: 1500,
        is_ethernet: true,
        is_up: true,
        has_carrier: true,
        kind: String::new(),
        veth_peer: None,
        master: None,
        xdp_program: None,
        receive_queues: Some(1),
        addresses: Vec::new(),
        default_routes: Vec::new(),
        speaks_ipv6: false,
        speaks_arp: true,
        harmful_offloads: Vec::new(),
        megabits: Some(1000),
        full_duplex: Some(true),
    }
}

#[test]
fn each_thing_wrong_with_a_port_has_its_line_and_cure() {
    type Change = fn(&mut InterfaceInfo);
    let told = |change: Change| {
        let mut survey = survey();
        change(&mut survey);
        let mut findings = Vec::new();
        port("protected", &survey, true, &mut findings);
        own("protected", &survey, false, &mut findings);
        findings
    };
    let good = told(|_| ());
    assert_eq!(good, [Finding::ok("protected", "enp2s0 is up, 1000 Mbit/s, MTU 1500")]);
    let rows: [(Change, Level, &str); 10] = [
        (|s| s.master = Some("bridge br0".into()), Level::Problem, "ip link set enp2s0 nomaster"),
        (|s| s.xdp_program = Some(7), Level::Problem, "xdp off"),
        (|s| s.is_up = false, Level::Problem, "ip link set enp2s0 up"),
        (|s| s.has_carrier = false, Level::Problem, "cable"),
        (|s| s.full_duplex = Some(false), Level::Problem, "autonegotiation"),
        (|s| s.addresses = vec!["192.0.2.1".into()], Level::Problem, "ip addr flush dev enp2s0"),
        (|s| s.default_routes = vec!["IPv6"], Level::Problem, "the default route for IPv6"),
        (|s| s.speaks_ipv6 = true, Level::Note, "disable_ipv6=1"),
        (|s| s.harmful_offloads = vec![("rx-vlan-hw-parse".into(), true)], Level::Note, "rx-vlan-hw-parse"),
        (|s| s.receive_queues = Some(4), Level::Note, "combined 1"),
    ];
    for (change, level, cure) in rows {
        let findings = told(change);
        let worst = findings.iter().max_by_key(|finding| finding.level).unwrap();
        assert_eq!(worst.level, level, "{cure}: {findings:?}");
        assert!(worst.text.contains(cure), "{cure}: {findings:?}");
    }
}
