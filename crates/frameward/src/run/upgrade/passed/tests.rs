use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::link::Transmit;
use super::*;
use config::suite_speed::AesInstructions;
use netdev::passed_on::{PassedAfPacket, PassedAfXdp, PassedPool};

/// What is only passed on, and never judged: another form of it needs another [`FORMAT`], and then other words here.
#[test]
fn another_form_of_ports_is_another_format() {
    let interface = |name: &str| PassedInterface {
        name: name.into(),
        index: 1,
        descriptors: [3, 4],
        guards: Some([5, 6]),
        remaining_offloads: vec![],
    };
    let packet = PassedAfPacket { descriptors: [7, 8], place_octets: 2, next: 0, mtu: 9, counters: vec![] };
    let xdp = PassedAfXdp {
        descriptors: [1, 2, 3, 4],
        sockets: vec![],
        places: 1,
        depth: 2,
        in_flight: vec![],
        native: true,
        mtu: 9,
        description: String::new(),
        counters: vec![],
    };
    let pool = PassedPool { file: 9, chunk_octets: 2048, chunks: 1, in_flight: vec![] };
    let transmit = Transmit { lease: "00".into(), an: 0, next: 1, through: 2, block: NonZeroU64::MIN };
    let link = PassedLink {
        name: "l".into(),
        interfaces: vec![interface("p"), interface("q")],
        ports: Some(PassedPorts { pool, ports: [PassedPort::AfPacket(packet), PassedPort::AfXdp(xdp)] }),
        keys: PassedKeys::Static { transmit, express: None, receive: vec![], unmarked: None },
        words: vec![],
        fallback: None,
        programs: None,
        cell: None,
        kay_in_kernel: false,
        last_valid: LastValid::default(),
    };
    let interface = |name: &str| {
        format!(r#"{{"name":"{name}","index":1,"descriptors":[3,4],"guards":[5,6],"remaining_offloads":[]}}"#)
    };
    let expected = [
        r#"{"name":"l","interfaces":["#,
        &interface("p"),
        ",",
        &interface("q"),
        r#"],"ports":{"pool":{"file":9,"chunk_octets":2048,"chunks":1,"in_flight":[]},"#,
        r#""ports":[{"AfPacket":{"descriptors":[7,8],"place_octets":2,"next":0,"mtu":9,"counters":[]}},"#,
        r#"{"AfXdp":{"descriptors":[1,2,3,4],"sockets":[],"places":1,"depth":2,"in_flight":[],"native":true,"mtu":9,"#,
        r#""description":"","counters":[]}}]},"keys":{"Static":{"transmit":{"lease":"00","an":0,"next":1,"through":2,"block":1},"express":null,"#,
        r#""receive":[],"unmarked":null}},"words":[],"fallback":null,"#,
        r#""programs":null,"cell":null,"kay_in_kernel":false,"last_valid":{"any":null,"scs":{}}}"#,
    ];
    assert_eq!((FORMAT, serde_json::to_string(&link).unwrap()), (6, expected.concat()));
    let site = PassedSite::new("s".into(), link.interfaces.into_iter().next(), "io says so".into());
    let expected =
        [r#"{"name":"s","interface":"#, &interface("p"), r#","why_user_space":"io says so"}"#].concat();
    assert_eq!((FORMAT, serde_json::to_string(&site).unwrap()), (6, expected));
}

#[test]
fn a_document_of_another_layout_is_refused() {
    let document = |layout: &[String]| serde_json::json!({ "format": FORMAT, "layout": layout }).to_string();
    let mut other = layout();
    other.swap(0, 1);
    assert!(Passed::parse(document(&other).as_bytes()).unwrap_err().contains("other counters"));
    assert!(Passed::parse(document(&layout()).as_bytes()).unwrap_err().contains("cannot be read"));
}

/// The maps of programs are known by their object file alone.
#[test]
fn other_programs_in_the_kernel_are_refused() {
    for own in [kernel_object(), cell_object()] {
        assert_eq!(check_kernel_object(None, &own), Ok(()), "none are loaded");
        assert_eq!(check_kernel_object(Some(&own), &own), Ok(()));
        let other = check_kernel_object(Some(&"0".repeat(64)), &own);
        assert!(other.unwrap_err().contains("other programs in the kernel"));
        assert_eq!(own.len(), 64);
    }
    assert_ne!(kernel_object(), cell_object());
}

/// A configuration with a site of this LAN, for as long as it lives.
struct Written(std::path::PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn written(lan: &str) -> Written {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let name = format!("frameward-passed-site-{}-{number}.toml", std::process::id());
    let file = std::env::temp_dir().join(name);
    let text = r#"
        [gateway]
        name  = "a"
        state = "/var/lib/frameward/a"
        [[site]]
        name = "line"
        lan  = "LAN"
        bind = "127.0.0.1:7787"
        [[site.peer]]
        name     = "far"
        endpoint = "192.0.2.7:4789"
        mode     = "plain"
        vni      = 7
    "#;
    std::fs::write(&file, text.replace("LAN", lan)).unwrap();
    Written(file)
}

/// A gateway with a site, and its configuration.
fn with_site() -> (Passed, Config) {
    let (config, _) = config::load(&written("lan0").0).unwrap();
    (with_site_on("lan0"), config)
}

fn with_site_on(lan: &str) -> Passed {
    let gateway = PassedGateway {
        locks: [3, 4],
        machine: None,
        inherited: [0; 2],
        uptime_ms: 1,
        halted_us: 2,
        clock_us: 3,
        upgrade: UpgradeReport { count: 1, done: true, waited_ms: None, why: None },
        fleet: None,
        reload: None,
        baseline: None,
        speeds: SuiteSpeeds::new(AesInstructions::Absent, []),
        antedating: Antedating::decide(config::Antedate::Off),
        cell_object: None,
        kernel_object: None,
        programs: None,
    };
    let lan = PassedInterface {
        name: lan.into(),
        index: 1,
        descriptors: [5, 6],
        guards: Some([7, 8]),
        remaining_offloads: vec![],
    };
    let site = PassedSite::new("line".into(), Some(lan), "io says so".into());
    Passed::new(gateway, Vec::new(), vec![site])
}

/// All of the judgement, as the new program does it.
#[test]
fn a_site_is_judged_with_what_it_begins_with() {
    let judged = |lan: &str, document: &[u8]| super::super::judge(&written(lan).0, document);
    let document = |lan: &str| with_site_on(lan).encode().unwrap();
    let missing = "fw-none0";
    assert_eq!(judged(missing, &document(missing)), Ok(()), "it waits for its LAN");
    let why = judged("lo", &document("lo")).unwrap_err();
    assert!(why.contains("site \"line\"") && why.contains("Ethernet"), "{why}");
    assert!(judged(missing, &document("lo")).unwrap_err().contains("other links or sites"));
    for cut in [0, 1, 100, document(missing).len() - 1] {
        assert!(judged(missing, &document(missing)[..cut]).unwrap_err().contains("cannot be read"));
    }
}

/// Makes one differ from the other.
type Change = dyn Fn(&mut Passed, &mut Config);

#[test]
fn sites_are_those_of_the_configuration_or_it_is_refused() {
    let judged = |change: &Change| {
        let (mut passed, mut config) = with_site();
        change(&mut passed, &mut config);
        passed.judge(&config, false)
    };
    assert_eq!(judged(&|_, _| ()), Ok(()));
    assert_eq!(judged(&|passed, _| passed.sites[0].interface = None), Ok(()), "its LAN is missing");
    let others: [&Change; 5] = [
        &|passed, _| passed.sites.clear(),
        &|_, config| config.sites.clear(),
        &|_, config| config.sites.push(config.sites[0].clone()),
        &|passed, _| passed.sites[0].name = "other".into(),
        &|_, config| config.sites[0].lan = "lan1".into(),
    ];
    for other in others {
        assert!(judged(other).unwrap_err().contains("other links or sites"));
    }
}

#[test]
fn every_descriptor_of_a_site_is_passed_on() {
    let (passed, config) = with_site();
    assert_eq!(passed.descriptors(), [3, 4, 5, 6, 7, 8]);
    let site = passed.site(&config.sites[0]).unwrap();
    assert_eq!(site.interface.as_ref().map(|lan| lan.index), Some(1));
    let reasons: Vec<_> = passed.sites_in_user_space().collect();
    assert_eq!(reasons, [("line".to_owned(), "io says so".to_owned())]);
}

#[test]
fn a_document_that_is_cut_or_has_no_sites_is_refused() {
    let (passed, _) = with_site();
    let document = passed.encode().unwrap();
    Passed::parse(&document).unwrap();
    for octets in (0..document.len()).step_by(7).chain([document.len() - 1]) {
        let why = Passed::parse(&document[..octets]).unwrap_err();
        assert!(why.contains("cannot be read"), "{octets} octets: {why}");
    }
    let text = String::from_utf8(document).unwrap();
    for (from, to) in [
        (r#""sites":["#, r#""others":["#),
        (r#""descriptors":[5,6]"#, r#""descriptors":[5]"#),
        (r#""index":1"#, r#""index":-1"#),
    ] {
        assert!(text.contains(from), "{text}");
        let why = Passed::parse(text.replace(from, to).as_bytes()).unwrap_err();
        assert!(why.contains("cannot be read"), "{from}: {why}");
    }
}
