//! Reports with something in every part, for tests of whatever shows them.

use std::time::Duration;

use dataplane::cell::CellCounters;
use fieldbus::handshake::HelloCounters;
use fieldbus::{Histogram, ReceiveCounters, TransmitCounters};
use suite::CipherSuite::{Aegis128L, GcmAes128};

use super::cell::{CellKeyReport, CellReport, HistogramReport, RelationReport, nanoseconds};
use super::mka::{
    CakReport, ChangeReport, FragmentReport, MemberReport, MkaReport, Requested, SakReport, SendsUnderReport,
};
use super::recent::RecentTraffic;
use super::site::{
    EpochReport, FlowReport, PathUplinkReport, RoundTripsReport, SitePathReport, SitePeerReport, SiteReport,
    StandbyReport, StationReport, UdpReport, UplinkReport,
};
use super::*;
use config::Antedate;
use config::suite_speed::AesInstructions;

/// A report with something in every part.
pub fn sample(name: &str) -> GatewayReport {
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
        path: Some("user space: io says so".into()),
        counters: Counters::new(NAMES, [0, 5, 6]),
        stranger: None,
        passed: None,
        transmit: TransmitScReport {
            sci: "02:00:00:00:00:01/1".into(),
            counters: Counters::new(&["OutPktsEncrypted"], [4]),
            sas: vec![sa(Some(9), None)],
        },
        express: None,
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
        unread: false,
        plain: port("eth0"),
        protected: port("eth1"),
        secy,
        mka: None,
        fieldbus: None,
    };
    (link.verdict, link.concerns) = link_verdict::link_verdict(&link, &link_verdict::Facts::default());
    GatewayReport {
        name: name.into(),
        version: "0.1.0".into(),
        uptime_seconds: 93_784,
        privileges: Some(privileges),
        configuration: Some("/etc/frameward/gw.toml".into()),
        suite_speeds: Some(SuiteSpeeds::new(AesInstructions::Present, [(GcmAes128, 105), (Aegis128L, 51)])),
        antedating: Some(Antedating { configured: Antedate::Auto, on: false, figures: Vec::new() }),
        uptime_ms: 93_784_012,
        cleared_seconds: None,
        reload: Some(ReloadReport { count: 2, done: false, lines: vec!["gw.toml:7: no".into()] }),
        reload_waits: None,
        upgrade: None,
        fleet: None,
        links: vec![link],
        sites: Vec::new(),
    }
}

/// The same link with keys that are agreed on.
pub fn agreed(name: &str) -> GatewayReport {
    let mut report = sample(name);
    let link = &mut report.links[0];
    let mka = sample_mka();
    for sa in link.secy.transmit.sas.iter_mut().chain(&mut link.secy.receive[0].sas) {
        (sa.key, sa.in_use) = (mka.saks[0].ki.clone(), true);
    }
    link.mka = Some(mka);
    let requested = Requested { fragmentation: true, encrypted: true, no_sci: false, trouble: None };
    let facts = link_verdict::Facts { requested: Some(requested), ..link_verdict::Facts::default() };
    (link.verdict, link.concerns) = link_verdict::link_verdict(link, &facts);
    report
}

/// A group of two that is secured.
pub fn sample_mka() -> MkaReport {
    MkaReport {
        secured: true,
        trouble: None,
        ckn: Some("6c696e65".into()),
        caks: ["6c696e65", "6f6c64"]
            .map(|ckn| CakReport { ckn: ckn.into(), key: "8899aabbccddeeff".into() })
            .into(),
        mi: "000102030405060708090a0b".into(),
        priority: 16,
        destination: "01:80:c2:00:00:03".into(),
        on_peer_loss: "block".into(),
        is_key_server: true,
        key_server: Some("02:00:00:00:00:01/1".into()),
        members: vec![MemberReport {
            sci: "02:00:00:00:00:02/1".into(),
            mi: "101112131415161718191a1b".into(),
            priority: 32,
            live: true,
            heard_ms_ago: 420,
            announced: true,
            name: Some("press-b".into()),
            sends_under: Some(SendsUnderReport { ki: "000102030405060708090a0b/7".into(), lowest_pn: 41 }),
        }],
        strangers: Vec::new(),
        under_fallback: false,
        missing: Vec::new(),
        not_heard: Vec::new(),
        saks: vec![SakReport {
            ki: "000102030405060708090a0b/7".into(),
            an: 1,
            suite: "gcm-aes-128".into(),
            confidentiality: "0".into(),
            seconds: 93_784,
            transmits: true,
        }],
        fragmentation: FragmentReport {
            fragment: true,
            concatenate: true,
            why_not: None,
            padded: false,
            covered: false,
            why_not_padded: None,
        },
        next_rekey_seconds: Some(61),
        changes: vec![
            ChangeReport { ms_ago: 90_000, text: "member 02:00:00:00:00:02/1 \"press-b\" is live".into() },
            ChangeReport { ms_ago: 1_500, text: "SAK 000102030405060708090a0b/7 protects".into() },
        ],
        counters: Counters::new(&["MkpdusTx", "MkpdusRx"], [12, 0]),
    }
}

/// A site with something in every part.
pub fn sample_site() -> SiteReport {
    let peers = vec![SitePeerReport {
        name: "berlin".into(),
        mode: "identifier".into(),
        endpoint: Some("berlin.example.net:7787".into()),
        via: None,
        relayed: false,
        not_direct: String::new(),
        state: "connected".into(),
        seconds: 61,
        reason: String::new(),
        cure: String::new(),
        address: Some("198.51.100.7:7787".into()),
        round_trip_us: Some(812),
        round_trips: None,
        path: None,
        path_payload: Some(1472),
        paths: vec![
            SitePathReport {
                settings: "wan1 to 198.51.100.7:7787".into(),
                up: true,
                preferred: true,
                reason: String::new(),
                address: Some("198.51.100.7:7787".into()),
                round_trip_us: Some(9120),
                round_trips: Some(RoundTripsReport { probes: 250, least_us: 8801, most_us: 12_400 }),
                loss_per_mille: Some(20),
                payload: Some(1464),
            },
            SitePathReport {
                settings: "wan2".into(),
                up: false,
                preferred: false,
                reason: "the peer was not heard on it".into(),
                address: None,
                round_trip_us: None,
                round_trips: None,
                loss_per_mille: None,
                payload: None,
            },
        ],
        seen_at: Some("203.0.113.9:20007".into()),
        key_exchange: Some("X25519MLKEM768".into()),
        instance_seconds: Some(3600),
        transmit_epoch: Some(EpochReport { epoch: 3, seconds: 12 }),
        receive_epoch: None,
        counted_there: None,
        flows_acknowledged: 5,
        flows_announced: 1,
        peer_flows: 4,
        counters: Counters::new(&["OutPktsTunnelled", "InPktsLate", "InPktsTooShort"], [9, 2, 0]),
        session: Some(Counters::new(&["PeerInstances"], [1])),
    }];
    let mut report = SiteReport {
        name: "dresden".into(),
        verdict: Verdict::default(),
        concerns: Vec::new(),
        waiting: None,
        unread: false,
        public_key: Some("00ff".into()),
        lan: PortReport {
            interface: "eth2".into(),
            engine: "af_xdp native".into(),
            mtu: 1470,
            guard: "tcx".into(),
            counters: Counters::new(&["RxFrames", "RxOctets"], [7, 700]),
        },
        udp: vec![UdpReport {
            what: "data".into(),
            address: "0.0.0.0:7787".into(),
            counters: Counters::new(&["TxPackets", "TxOctets", "TxDropped"], [8, 800, 1]),
        }],
        path: Counters::new(&["OutPktsMacControl"], [3]),
        uplink: Some(UplinkReport {
            bits_per_second: 50_000_000,
            express_waiting: 0,
            bulk_waiting: 17,
            octets_waiting: 25_100,
            counters: Counters::new(&["OutPktsExpress", "OutPktsBulkFull"], [40, 0]),
        }),
        path_uplinks: vec![PathUplinkReport {
            name: "wan2".into(),
            figures: UplinkReport {
                bits_per_second: 5_000_000,
                express_waiting: 1,
                bulk_waiting: 4,
                octets_waiting: 6_100,
                counters: Counters::new(&["OutPktsExpress", "OutPktsBulkFull"], [20, 0]),
            },
        }],
        tunnel: Counters::new(&["InPktsUnknownIdentifier", "InPktsTooShort"], [4, 6]),
        channel: Some(Counters::new(&["Connections"], [1])),
        peers,
        standby: Some(StandbyReport {
            role: "standby".into(),
            cause: "the other box forwards".into(),
            since_ms: 61_000,
            takeovers: 2,
            partner: "dresden-2".into(),
            partner_role: Some("active".into()),
            heard_ms_ago: Some(7),
            other_takeover_ms: Some(400),
        }),
        stations: vec![
            StationReport { address: "02:00:00:00:00:01".into(), peer: None, seconds: 1 },
            StationReport { address: "02:00:00:00:00:02".into(), peer: Some("berlin".into()), seconds: 2 },
        ],
        flows: vec![FlowReport {
            peer: "berlin".into(),
            index: 3,
            sci: Some("02:00:00:00:00:0a/1".into()),
            source: "02:00:00:00:00:01".into(),
            destination: "02:00:00:00:00:02".into(),
            acknowledged: true,
            seconds: 0,
        }],
    };
    (report.verdict, report.concerns) =
        super::site::site_verdict::site_verdict(&report, &super::site::site_verdict::SiteFacts::default());
    report
}

/// A cell with something in every part.
pub fn sample_cell() -> CellReport {
    let mut histogram = Histogram::default();
    for microseconds in (1..=999).map(|number| 10 + number % 10).chain([70]) {
        histogram.add(Duration::from_micros(microseconds));
    }
    let times = HistogramReport::new(&histogram);
    let key = |key_id, seq| Some(CellKeyReport { session: 1, key_id, epoch: 1, seq });
    let transmit = TransmitCounters { out_pkts_protected: 1000, ..Default::default() };
    let receive = ReceiveCounters { in_pkts_ok: 998, in_pkts_late: 2, in_alarms: 1, ..Default::default() };
    let relation = RelationReport {
        own: "02:00:00:00:01:01".into(),
        sends: "0x8001".into(),
        peer: "02:00:00:00:01:02".into(),
        receives: "0x8002".into(),
        cycle_ns: 1_000_000,
        watchdog_ns: 3_000_000,
        alarm_ns: 1_500_000,
        mode: "protect".into(),
        state: "running".into(),
        master_key: Some("0011223344556677".into()),
        transmit_key: key(17, Some(1000)),
        receive_key: key(200, Some(1000)),
        silent_ns: Some(400_000),
        worst_gap_ns: 1_600_000,
        residence_outward: times.clone(),
        residence_inward: times.clone(),
        jitter: times,
        transmit: Counters::new(TransmitCounters::NAMES, transmit.values()),
        receive: Counters::new(ReceiveCounters::NAMES, receive.values()),
    };
    let counters = CellCounters { out_pkts_rest_dropped: 12, ..Default::default() };
    let hello = HelloCounters { in_hello: 3, ..Default::default() };
    let mut cell = CellReport {
        name: "cell-4".into(),
        verdict: Verdict::default(),
        protect: "encrypt".into(),
        suite: "gcm-aes-128".into(),
        path: String::new(),
        rest: "link".into(),
        master_key: "0011223344556677".into(),
        fallback_master_key: None,
        ethertype: "0x88b5".into(),
        bounds_ns: Histogram::BOUNDS.map(nanoseconds).to_vec(),
        counters: Counters::new(CellCounters::NAMES, counters.values()),
        hello: Counters::new(HelloCounters::NAMES, hello.values()),
        hello_lately: Counters::new(HelloCounters::NAMES, hello.values()),
        relations: vec![relation],
        kernel_faults: None,
    };
    cell.verdict = cell.judged(&RecentTraffic::default());
    cell
}
