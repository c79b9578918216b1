use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::keygen::KeyLength;
use config::fieldbus::VlanTag;
use config::key_file;
use testkit::TestDirectory;
use wire::fieldbus::{CellSuite, Protocol};

fn setting(directory: &TestDirectory) -> Setting {
    Setting { directory: directory.path().to_owned(), state: None, owner: None, offline: true }
}

fn files(directory: &TestDirectory) -> Vec<String> {
    let entries = std::fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn all_are_private(directory: &TestDirectory) {
    for name in files(directory) {
        let mode = std::fs::metadata(directory.path().join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{name}");
    }
}

fn answers(name: &str) -> LinkAnswers {
    LinkAnswers { name: name.into(), plain: "eth0".into(), protected: "eth1".into(), kernel: false }
}

/// One word on the first box, and the bundle tells the other one.
#[test]
fn a_link_for_the_kernel_has_its_suite_on_both_boxes() {
    let (here, there) = (TestDirectory::new("init-kernel-a"), TestDirectory::new("init-kernel-b"));
    let lines = link(&setting(&here), &LinkAnswers { kernel: true, ..answers("press") }, None).unwrap();
    assert!(lines.iter().any(|line| line.contains("ip link set eth1 mtu 1536")), "{lines:#?}");
    let bundle = Bundle::read(&here.path().join("press.bundle"), "link").unwrap();
    let joined = link(&setting(&there), &answers("press"), Some(&bundle)).unwrap();
    assert!(joined.iter().any(|line| line.contains("ip link set eth1 mtu 1536")), "{joined:#?}");
    for at in [&here, &there] {
        let (config, warnings) = config::load(&at.path().join("press.toml")).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        let link = &config.links[0];
        assert_eq!(link.suite(), Some(suite::CipherSuite::ChaCha20Poly1305));
        assert_eq!(link.whole_sdus, config::WholeSdus::ForKernel);
    }
}

#[test]
fn a_link_of_two_boxes_has_one_cak_and_two_configurations_that_are_valid() {
    let (here, there) = (TestDirectory::new("init-a"), TestDirectory::new("init-b"));
    let lines = link(&setting(&here), &answers("press"), None).unwrap();
    assert_eq!(files(&here), ["press.bundle", "press.cak", "press.toml"]);
    assert!(lines.iter().any(|line| line.contains("frameward init link --join press.bundle")), "{lines:#?}");
    let bundle = Bundle::read(&here.path().join("press.bundle"), "link").unwrap();
    assert_eq!(bundle.name().unwrap(), "press");
    link(&setting(&there), &answers("press"), Some(&bundle)).unwrap();
    assert_eq!(files(&there), ["press.cak", "press.toml"]);
    let caks = [&here, &there].map(|at| {
        all_are_private(at);
        let (config, warnings) = config::load(&at.path().join("press.toml")).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!((config.gateway.name.as_str(), config.links[0].name.as_str()), ("press", "press"));
        assert_eq!(config.gateway.state, Path::new("/var/lib/frameward/press"));
        key_file::read_cak(&at.path().join("press.cak")).unwrap()
    });
    assert_eq!(caks[0], caks[1]);
    // Said in words, and no secret in them.
    let secret = hex::encode(caks[0].octets());
    assert!(!format!("{lines:?}{bundle:?}").contains(&secret[..8]));
}

#[test]
fn a_bundle_may_lie_where_the_files_go() {
    let (here, there) = (TestDirectory::new("init-carry"), TestDirectory::new("init-carried"));
    link(&setting(&here), &answers("press"), None).unwrap();
    let carried = there.path().join("press.bundle");
    std::fs::copy(here.path().join("press.bundle"), &carried).unwrap();
    let bundle = Bundle::read(&carried, "link").unwrap();
    link(&setting(&there), &answers("press"), Some(&bundle)).unwrap();
    assert_eq!(files(&there), ["press.bundle", "press.cak", "press.toml"]);
    assert_eq!(std::fs::read(&carried).unwrap(), std::fs::read(here.path().join("press.bundle")).unwrap());
}

#[test]
fn nothing_is_overwritten_and_a_failure_leaves_nothing() {
    let here = TestDirectory::new("init-refused");
    for kept in ["press.toml", "press.cak", "press.bundle"] {
        let path = here.path().join(kept);
        std::fs::write(&path, "mine").unwrap();
        let error = link(&setting(&here), &answers("press"), None).unwrap_err();
        assert!(error.to_string().contains("already exists"), "{error}");
        assert_eq!((files(&here), std::fs::read(&path).unwrap()), (vec![kept.to_owned()], b"mine".to_vec()));
        std::fs::remove_file(&path).unwrap();
    }
    // One interface for both sides: found by the configuration's own rules.
    let one = LinkAnswers { protected: "eth0".into(), ..answers("press") };
    let error = link(&setting(&here), &one, None).unwrap_err();
    assert!(matches!(&error, InitError::Refused(findings) if !findings.is_empty()), "{error}");
    let told = error.to_string();
    assert!(!told.contains("press.toml") && told.contains("eth0"), "a file that is gone again: {told}");
    assert!(files(&here).is_empty(), "{:?}", files(&here));
    for name in ["../press", "", "Press"] {
        let error = link(&setting(&here), &answers(name), None).unwrap_err();
        assert!(matches!(error, InitError::Name(_)), "{error}");
    }
    // Here, and with its interfaces: they are not there.
    let here_and_now = Setting { offline: false, ..setting(&here) };
    let missing = LinkAnswers { plain: "no-such-if".into(), ..answers("press") };
    let error = link(&here_and_now, &missing, None).unwrap_err().to_string();
    assert!(error.contains("no-such-if"), "{error}");
    assert!(files(&here).is_empty());
}

#[test]
fn a_bundle_is_judged_before_it_is_used() {
    let here = TestDirectory::new("init-bundle");
    let path = here.path().join("press.bundle");
    let refused = |text: &str, mode, kind| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Bundle::read(&path, kind).unwrap_err().to_string()
    };
    for (text, mode, kind, expected) in [
        ("init = link\n", 0o644, "link", "can be read by others"),
        ("init = site\n", 0o600, "link", "is the bundle of a site; use: frameward init site"),
        ("ckn = 00\n", 0o600, "link", "is no bundle; make one with: frameward init link"),
        ("", 0o644, "site", "is no bundle"),
    ] {
        let error = refused(text, mode, kind);
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("press.bundle"), "{error}");
    }
    std::fs::write(&path, "init = link # of A\nname = press\nckn = 00\ncak = 0g\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let bundle = Bundle::read(&path, "link").unwrap();
    let error = link(&setting(&here), &answers("lane"), Some(&bundle)).unwrap_err().to_string();
    assert!(error.contains("has a cak that is not a key"), "{error}");
    let gone = Bundle::read(&here.path().join("none"), "link").unwrap_err().to_string();
    assert!(gone.contains("bring it from the other box"), "{gone}");
}

#[test]
fn two_sites_exchange_public_keys_and_nothing_else() {
    let (dresden, berlin) = (TestDirectory::new("init-dresden"), TestDirectory::new("init-berlin"));
    let answers = |name: &str, endpoint: Option<&str>| SiteAnswers {
        name: name.into(),
        lan: "eth2".into(),
        bind: "0.0.0.0:7787".into(),
        endpoint: endpoint.map(str::to_owned),
        cak: None,
        via: None,
        relay: false,
    };
    let first = answers("dresden", Some("dresden.example.net:7787"));
    site(&setting(&dresden), &first, &[]).unwrap();
    assert_eq!(files(&dresden), ["dresden.key", "dresden.site"]);
    let identity = key_file::read_identity(&dresden.path().join("dresden.key")).unwrap();
    // Without a peer a second time, it would be another identity.
    let again = site(&setting(&dresden), &first, &[]).unwrap_err().to_string();
    assert!(again.contains("already exists"), "{again}");
    let carried = Bundle::read(&dresden.path().join("dresden.site"), "site").unwrap();
    site(&setting(&berlin), &answers("berlin", None), &[carried]).unwrap();
    assert_eq!(files(&berlin), ["berlin.key", "berlin.site", "berlin.toml"]);
    let carried = Bundle::read(&berlin.path().join("berlin.site"), "site").unwrap();
    site(&setting(&dresden), &first, &[carried]).unwrap();
    assert_eq!(files(&dresden), ["dresden.key", "dresden.site", "dresden.toml"]);
    all_are_private(&dresden);
    let [here, there] = [(&dresden, "dresden"), (&berlin, "berlin")].map(|(at, name)| {
        let (mut config, _) = config::load(&at.path().join(format!("{name}.toml"))).unwrap();
        config.sites.remove(0)
    });
    assert_eq!(here.identity.as_ref().unwrap().public(), identity.public());
    assert_eq!(there.peers[0].public_key, Some(identity.public()));
    assert_eq!(here.peers[0].public_key, there.identity.map(|own| own.public()));
    assert_eq!((here.peers[0].endpoint.is_none(), there.peers[0].endpoint.is_some()), (true, true));
    let private = hex::encode(&identity.private()[..8]);
    for (at, name) in [(&dresden, "dresden.site"), (&berlin, "berlin.toml"), (&berlin, "berlin.site")] {
        assert!(!std::fs::read_to_string(at.path().join(name)).unwrap().contains(&private), "{name}");
    }
}

/// Two spokes behind NAT and a hub, each from the files that the others made.
#[test]
fn sites_without_an_endpoint_reach_each_other_through_a_peer() {
    let answers = |name: &str, endpoint: Option<&str>, via: Option<&str>| SiteAnswers {
        name: name.into(),
        lan: "eth2".into(),
        bind: "0.0.0.0:7787".into(),
        endpoint: endpoint.map(str::to_owned),
        cak: None,
        via: via.map(str::to_owned),
        relay: via.is_none() && endpoint.is_some(),
    };
    let names = ["dresden", "berlin", "celle"];
    let places = names.map(|name| TestDirectory::new(&format!("init-via-{name}")));
    let at = |name: &str| &places[names.iter().position(|one| *one == name).unwrap()];
    let hub = answers("dresden", Some("dresden.example.net:7787"), None);
    for site_answers in [&hub, &answers("berlin", None, None), &answers("celle", None, None)] {
        site(&setting(at(&site_answers.name)), site_answers, &[]).unwrap();
    }
    let bundle = |name: &str| Bundle::read(&at(name).path().join(format!("{name}.site")), "site").unwrap();
    let config = |name: &str| {
        let (mut config, _) = config::load(&at(name).path().join(format!("{name}.toml"))).unwrap();
        config.sites.remove(0)
    };
    // Nobody said how, so they say that they do not.
    let open = answers("berlin", None, None);
    let peers = [bundle("dresden"), bundle("celle")];
    assert_eq!(unreached(&setting(at("berlin")), &open, &peers).unwrap(), ["celle"]);
    let said = site(&setting(at("berlin")), &open, &peers).unwrap();
    assert!(
        said.iter().any(|line| line.contains("neither this site nor celle has an endpoint")),
        "{said:#?}"
    );
    std::fs::remove_file(at("berlin").path().join("berlin.toml")).unwrap();
    // A relay that is no peer is refused as the configuration refuses it.
    let wrong = site(&setting(at("berlin")), &answers("berlin", None, Some("essen")), &peers).unwrap_err();
    assert!(matches!(wrong, InitError::Refused(_)), "{wrong}");
    for (name, other) in [("berlin", "celle"), ("celle", "berlin")] {
        let peers = [bundle("dresden"), bundle(other)];
        let said = site(&setting(at(name)), &answers(name, None, Some("dresden")), &peers).unwrap();
        assert!(!said.iter().any(|line| line.starts_with("warning")), "{said:#?}");
        let config = config(name);
        let via: Vec<_> =
            config.peers.iter().map(|peer| peer.via.as_ref().map(|hub| hub.name.as_str())).collect();
        assert_eq!((via, config.relay), (vec![None, Some("dresden")], false), "{name}");
    }
    // Its own endpoint stands in its file.
    let peers = [bundle("berlin"), bundle("celle")];
    assert!(
        unreached(&setting(at("dresden")), &SiteAnswers { endpoint: None, ..hub.clone() }, &peers)
            .unwrap()
            .is_empty()
    );
    site(&setting(at("dresden")), &hub, &peers).unwrap();
    let config = config("dresden");
    assert!(config.relay && config.peers.iter().all(|peer| peer.via.is_none()));
}

#[test]
fn a_site_with_a_cak_protects_its_lan() {
    let at = TestDirectory::new("init-protects");
    let answers = |cak: Option<&str>| SiteAnswers {
        name: "dresden".into(),
        lan: "eth2".into(),
        bind: "0.0.0.0:7787".into(),
        endpoint: None,
        cak: cak.map(str::to_owned),
        via: None,
        relay: false,
    };
    let other = TestDirectory::new("init-protects-other");
    let there = SiteAnswers { name: "berlin".into(), ..answers(None) };
    site(&setting(&other), &there, &[]).unwrap();
    let carried = || Bundle::read(&other.path().join("berlin.site"), "site").unwrap();
    // A CAK that is not there leaves no file.
    let missing = site(&setting(&at), &answers(Some("plants.cak")), &[carried()]).unwrap_err().to_string();
    assert!(
        missing.contains("plants.cak cannot be read") && files(&at).is_empty(),
        "{missing} {:?}",
        files(&at)
    );
    keygen::cak(KeyLength::Bits256, None, &at.path().join("plants.cak")).unwrap();
    let said = site(&setting(&at), &answers(Some("plants.cak")), &[carried()]).unwrap();
    assert!(!said.iter().any(|line| line.contains("--cak")), "{said:#?}");
    let (config, _) = config::load(&at.path().join("dresden.toml")).unwrap();
    assert!(config.sites[0].protect && config.links[0].in_site && config.links[0].mka().is_some());
    // Without one it is told what does not cross.
    std::fs::remove_file(at.path().join("dresden.toml")).unwrap();
    let said = site(&setting(&at), &answers(None), &[carried()]).unwrap();
    assert!(
        said.iter().any(|line| line.contains("for ordinary machines") && line.contains("--cak FILE")),
        "{said:#?}"
    );
}

#[test]
fn both_boxes_of_a_cell_have_the_same_relations_and_keys_and_other_stations() {
    let (here, there) = (TestDirectory::new("init-cell-a"), TestDirectory::new("init-cell-b"));
    let (plc, drives) = ("02:00:00:00:01:01", ["02:00:00:00:02:01", "02:00:00:00:02:02"]);
    let answers = CellAnswers {
        name: "cell-4".into(),
        plain: "eth0".into(),
        protected: "eth1".into(),
        local: vec![plc.into()],
        relations: vec![
            format!("{plc},{},0x8001,0x8002,1ms", drives[0]),
            format!("{plc}, {}, 32771, 0x8004, 4ms", drives[1]),
        ],
    };
    cell(&setting(&here), &answers, None).unwrap();
    let bundle = Bundle::read(&here.path().join("cell-4.bundle"), "cell").unwrap();
    let joined = CellAnswers { local: Vec::new(), relations: Vec::new(), ..answers.clone() };
    cell(&setting(&there), &joined, Some(&bundle)).unwrap();
    assert_eq!(files(&there), ["cell-4.cak", "cell-4.key", "cell-4.toml"]);
    all_are_private(&here);
    for file in ["cell-4.cak", "cell-4.key"] {
        let [a, b] = [&here, &there].map(|at| std::fs::read(at.path().join(file)).unwrap());
        assert_eq!(a, b, "{file}");
    }
    let cells = [&here, &there].map(|at| {
        let (mut config, warnings) = config::load(&at.path().join("cell-4.toml")).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        config.links.remove(0).cell.unwrap()
    });
    assert_eq!(cells.each_ref().map(|cell| cell.relations.len()), [2, 2]);
    // The suite that the kernel path has.
    assert_eq!(cells.each_ref().map(|cell| cell.protection.suite), [CellSuite::ChaCha20Poly1305; 2]);

    // A bundle of a build that chose no suite.
    let path = here.path().join("cell-4.bundle");
    let mut lines = std::fs::read_to_string(&path).unwrap();
    lines = lines.lines().filter(|line| !line.starts_with("suite")).map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, lines).unwrap();
    let older = TestDirectory::new("init-cell-older");
    cell(&setting(&older), &joined, Some(&Bundle::read(&path, "cell").unwrap())).unwrap();
    let (config, _) = config::load(&older.path().join("cell-4.toml")).unwrap();
    assert_eq!(config.links[0].cell.as_ref().unwrap().protection.suite, CellSuite::GcmAes128);

    let drive = drives[0];
    for (relation, why) in [
        (String::new(), "it needs two stations and the cycle"),
        ("a,b,c".into(), "profinet has two IDs between stations and cycle"),
        (format!("{plc},{drive},0x8001,no,1ms"), "\"no\" is no ID from 0x0000 to 0xffff"),
        (format!("{plc},drive,1,2,1ms"), "\"drive\" is not a MAC address such as 02:00:00:00:00:01"),
        (format!("goosebus,{plc},{drive},1,1ms"), "\"goosebus\" is not a MAC address"),
        (format!("goose,{plc},{drive},1ms"), "goose has one ID or two between stations and cycle"),
        (format!("modbus-tcp,{plc},{drive},502,1ms"), "modbus-tcp has no ID between stations and cycle"),
        (format!("goose,{plc},{drive},1,1ms,to=group"), "\"group\" is not a MAC address"),
        (format!("goose,{plc},{drive},1,1ms,vlan=4"), "vlan=\"4\" is neither none nor a priority"),
        (format!("goose,{plc},{drive},1,1ms,vlan=4.4095"), "vlan=\"4.4095\" is neither none nor a priority"),
        (
            format!("goose,{plc},{drive},1,1ms,vlan=none,vlan=4.1"),
            "\"vlan=4.1\" is neither to=MAC nor the only",
        ),
        (format!("goose,{plc},{drive},1,1ms,via={plc}"), "is neither to=MAC nor the only vlan=PRIORITY.VID"),
    ] {
        let wrong = CellAnswers { relations: vec![relation.clone()], ..answers.clone() };
        let other = TestDirectory::new("init-cell-refused");
        let error = cell(&setting(&other), &wrong, None).unwrap_err();
        assert!(matches!(error, InitError::Relation { .. }), "{error}");
        let begins = format!("{relation:?} is no relation: ");
        assert!(error.to_string().starts_with(&begins) && error.to_string().contains(why), "{error}");
        assert!(files(&other).is_empty());
    }
}

/// A relation of each fieldbus, as the book has them, in the configuration of both boxes.
#[test]
fn a_cell_of_any_fieldbus_is_set_up_on_both_boxes() {
    let (here, there) = (TestDirectory::new("init-buses-a"), TestDirectory::new("init-buses-b"));
    let (plc, drive) = ("02:00:00:00:01:01", "02:00:00:00:02:01");
    let relations = [
        format!("{plc},{drive},0x8001,0x8002,1ms"),
        format!("goose,{plc},{drive},0x0003,2ms,to=01:0c:cd:01:00:01,vlan=4.10"),
        format!("sampled-values,{drive},{plc},0x4000,250us,to=01:0c:cd:04:00:01"),
        format!("powerlink,{plc},{drive},0x0301,0x04ff,400us,to={drive},to=01:11:1e:00:00:02"),
        format!("ethercat,{plc},{drive},0x2c10,0x2c10,1ms,to=ff:ff:ff:ff:ff:ff,to=ff:ff:ff:ff:ff:ff"),
        format!("sercos,{plc},{drive},0x8104,0xc104,1ms,vlan=none"),
        format!("ethernet-ip,{plc},{drive},10ms"),
        format!("modbus-tcp,{plc},{drive},100ms"),
    ];
    let answers = CellAnswers {
        name: "bay-7".into(),
        plain: "eth0".into(),
        protected: "eth1".into(),
        local: vec![plc.into()],
        relations: relations.to_vec(),
    };
    cell(&setting(&here), &answers, None).unwrap();
    let path = here.path().join("bay-7.bundle");
    let lines = std::fs::read_to_string(&path).unwrap();
    for relation in &relations {
        assert!(lines.contains(&format!("\nrelation = {relation}\n")), "{relation}\n{lines}");
    }
    let joined = CellAnswers { local: Vec::new(), relations: Vec::new(), ..answers };
    cell(&setting(&there), &joined, Some(&Bundle::read(&path, "cell").unwrap())).unwrap();
    let [one, other] = [&here, &there].map(|at| {
        let (mut config, warnings) = config::load(&at.path().join("bay-7.toml")).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        config.links.remove(0).cell.unwrap().relations
    });
    let protocols = one.iter().map(|of| of.relation.protocol());
    assert!(protocols.eq(Protocol::ALL), "each once");
    for (one, other) in one.iter().zip(&other) {
        let (one, other) = (&one.relation, &other.relation);
        assert_eq!((one.own(), one.peer(), one.cycle), (other.peer(), other.own(), other.cycle));
        assert_eq!((one.stations(), one.binding()), (other.stations(), other.binding()));
        assert_eq!(one.delivered_tag(None), other.delivered_tag(None));
    }
    let told = |number: usize| {
        let of = &one[number].relation;
        (of.sends().to_string(), of.receives().to_string())
    };
    let words = |sends: &str, receives: &str| (sends.to_owned(), receives.to_owned());
    assert_eq!(told(1), words("goose 0x0003 to 01:0c:cd:01:00:01", "nothing"));
    assert_eq!(told(2), words("nothing", "sampled-values 0x4000 to 01:0c:cd:04:00:01"));
    assert_eq!(told(3), words("powerlink 0x0301", "powerlink 0x04ff to 01:11:1e:00:00:02"));
    assert_eq!(told(7), words("modbus-tcp", "modbus-tcp"));
    let tag = |number: usize| one[number].relation.delivered_tag(None);
    assert_eq!((tag(1), tag(5)), (VlanTag::new(4, 10), None));
}
