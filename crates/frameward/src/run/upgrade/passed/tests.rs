use std::num::NonZeroU64;

use super::link::Transmit;
use super::*;
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
        interfaces: [interface("p"), interface("q")],
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
    assert_eq!((FORMAT, serde_json::to_string(&link).unwrap()), (5, expected.concat()));
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
