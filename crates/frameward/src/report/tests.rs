use suite::CipherSuite::{Aegis128L, GcmAes128};

use super::*;
use crate::config::Antedate;
use crate::suite_speed::tests::speeds;
use crate::suite_speed::{AesInstructions, Antedating};

/// A report with something in every part.
pub(crate) fn sample(name: &str) -> GatewayReport {
    const NAMES: &[&str] = &["OutPktsUntagged", "InPktsNoTag", "InPktsBadTag"];
    let sa = |next_pn: Option<u64>, lowest_pn| SaReport {
        an: 1,
        in_use: next_pn.is_some(),
        key: "0011223344556677".into(),
        next_pn,
        pns_left: next_pn.map(|next| u64::from(u32::MAX) + 1 - next),
        pns_last_seconds: next_pn.map(|_| 4_294_967),
        lowest_pn,
        counters: Counters::new(&["InPktsLate"], [u64::MAX]),
    };
    let port = |interface: &str| PortReport {
        interface: interface.into(),
        engine: "af_xdp native".into(),
        mtu: 1532,
        guard: "tcx".into(),
        counters: Counters::new(&["RxFrames", "TxFrames"], [7, 0]),
    };
    let secy = SecYReport {
        suite: "gcm-aes-128".into(),
        protect_frames: true,
        validate_frames: "strict".into(),
        replay_protect: true,
        replay_window: 32,
        counters: Counters::new(NAMES, [0, 5, 6]),
        stranger: None,
        transmit: TransmitScReport {
            sci: "02:00:00:00:00:01/1".into(),
            counters: Counters::new(&["OutPktsEncrypted"], [4]),
            sas: vec![sa(Some(9), None)],
        },
        receive: vec![ReceiveScReport {
            sci: "02:00:00:00:00:02/1".into(),
            counters: Counters::new(&["InPktsOK"], [3]),
            sas: vec![sa(None, Some(1 << 40))],
        }],
    };
    let grant = |granted, detail: &str| Grant { granted, detail: detail.into() };
    let privileges = PrivilegeReport {
        realtime: grant(true, "SCHED_FIFO, priority 10"),
        locked_memory: grant(false, "only 7 octets may be locked"),
    };
    let mut link = LinkReport {
        name: "press".into(),
        verdict: Verdict::default(),
        last_valid_seconds: None,
        concerns: Vec::new(),
        waiting: None,
        plain: port("eth0"),
        protected: port("eth1"),
        secy,
        mka: None,
        fieldbus: None,
    };
    (link.verdict, link.concerns) = evaluate::link(&link, &evaluate::Facts::default());
    GatewayReport {
        name: name.into(),
        version: "0.1.0".into(),
        uptime_seconds: 93_784,
        privileges: Some(privileges),
        configuration: Some("/etc/frameward/gw.toml".into()),
        suite_speeds: Some(speeds(AesInstructions::Present, &[(GcmAes128, 105), (Aegis128L, 51)])),
        antedating: Some(Antedating { configured: Antedate::Auto, on: false, figures: Vec::new() }),
        uptime_ms: 93_784_012,
        cleared_seconds: None,
        reload: Some(ReloadReport { count: 2, done: false, lines: vec!["gw.toml:7: no".into()] }),
        links: vec![link],
        sites: Vec::new(),
    }
}

/// The same link with keys that are agreed on.
pub(crate) fn agreed(name: &str) -> GatewayReport {
    let mut report = sample(name);
    let link = &mut report.links[0];
    let mka = super::mka::tests::sample();
    for sa in link.secy.transmit.sas.iter_mut().chain(&mut link.secy.receive[0].sas) {
        (sa.key, sa.in_use) = (mka.saks[0].ki.clone(), true);
    }
    link.mka = Some(mka);
    let requested = super::mka::Requested { dividing: true, encrypted: true, no_sci: false, trouble: None };
    let facts = evaluate::Facts { requested: Some(requested), ..evaluate::Facts::default() };
    (link.verdict, link.concerns) = evaluate::link(link, &facts);
    report
}

#[test]
fn counters_keep_their_order_and_their_names() {
    let json = serde_json::to_string(&sample("g").links[0].secy.counters).unwrap();
    assert_eq!(json, r#"{"OutPktsUntagged":0,"InPktsNoTag":5,"InPktsBadTag":6}"#);
    let back: Counters = serde_json::from_str(&json).unwrap();
    assert_eq!(back, sample("g").links[0].secy.counters);
}
