use super::*;
use report::samples::{agreed, sample};

#[test]
fn a_report_as_metrics() {
    let mut report = sample("press-line");
    report.links[0].last_valid_seconds = Some(7);
    let text = metrics(Arc::new(report.into()));
    for line in [
        "# HELP frameward_port_rx_frames Frames handed to the worker.",
        "# TYPE frameward_port_rx_frames counter",
        "frameward_port_rx_frames_total{link=\"press\",side=\"plain\",interface=\"eth0\"} 7",
        "frameward_port_rx_frames_total{link=\"press\",side=\"protected\",interface=\"eth1\"} 7",
        "# HELP frameward_secy_in_pkts_bad_tag Discarded: the SecTAG breaks a rule of clause 9, or its PN is 0.",
        "frameward_secy_in_pkts_bad_tag_total{link=\"press\"} 6",
        "frameward_transmit_sc_out_pkts_encrypted_total{link=\"press\",sc=\"02:00:00:00:00:01/1\"} 4",
        "frameward_receive_sa_in_pkts_late_total{link=\"press\",sc=\"02:00:00:00:00:02/1\",sa=\"1\"} 18446744073709551615",
        "# TYPE frameward_transmit_sa_next_pn gauge",
        "frameward_transmit_sa_next_pn{link=\"press\",sc=\"02:00:00:00:00:01/1\",sa=\"1\"} 9",
        "frameward_receive_sa_lowest_pn{link=\"press\",sc=\"02:00:00:00:00:02/1\",sa=\"1\"} 1099511627776",
        "frameward_receive_sa_in_use{link=\"press\",sc=\"02:00:00:00:00:02/1\",sa=\"1\"} 0",
        "frameward_build_info{gateway=\"press-line\",version=\"0.1.0\"} 1",
        "frameward_uptime_seconds 93784",
        "frameward_link_protecting{link=\"press\"} 1",
        "frameward_link_concerns{link=\"press\"} 1",
        "frameward_link_in_kernel{link=\"press\"} 0",
        "frameward_link_verdict{link=\"press\",state=\"no keys\"} 2",
        "frameward_link_last_valid_seconds{link=\"press\"} 7",
        "frameward_port_guarded{link=\"press\",side=\"protected\",interface=\"eth1\"} 1",
        "frameward_port_mtu_octets{link=\"press\",side=\"plain\",interface=\"eth0\"} 1532",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\nis not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    let mut report = sample("press-line");
    report.links[0].plain.guard = "none".into();
    let text = metrics(Arc::new(report.into()));
    let line = "frameward_port_guarded{link=\"press\",side=\"plain\",interface=\"eth0\"} 0";
    assert!(text.lines().any(|known| known == line), "{text}");
}

/// A second link adds samples, not families: a family that comes twice is refused by every reader.
#[test]
fn families_stand_together() {
    let mut report = sample("g");
    report.links.push(LinkReport { name: "oven".into(), ..report.links[0].clone() });
    let text = metrics(Arc::new(report.into()));
    let mut types: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let all = types.len();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), all);
    assert!(text.contains("frameward_secy_in_pkts_bad_tag_total{link=\"oven\"} 6"));
}

#[test]
fn key_agreement_as_metrics() {
    let text = metrics(Arc::new(agreed("press-line").into()));
    for line in [
        "frameward_mka_secured{link=\"press\"} 1",
        "frameward_mka_under_fallback{link=\"press\"} 0",
        "frameward_mka_live_peers{link=\"press\"} 1",
        "frameward_mka_member_info{link=\"press\",sc=\"02:00:00:00:00:02/1\",name=\"press-b\"} 1",
        "frameward_mka_is_key_server{link=\"press\"} 1",
        "frameward_mka_sak_age_seconds{link=\"press\"} 93784",
        "frameward_mka_next_rekey_seconds{link=\"press\"} 61",
        "frameward_mka_fragment{link=\"press\"} 1",
        "frameward_mka_concatenate{link=\"press\"} 1",
        "# TYPE frameward_mka_mkpdus_tx counter",
        "frameward_mka_mkpdus_tx_total{link=\"press\"} 12",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\nis not in\n{text}");
    }
    // A member may have two live MIs for a moment: a series comes once.
    let mut twice = agreed("press-line");
    let mka = twice.links[0].mka.as_mut().unwrap();
    mka.members.push(mka.members[0].clone());
    assert_eq!(metrics(Arc::new(twice.into())).matches("frameward_mka_member_info{").count(), 1);
    // MIs and KIs change for ever: they are no labels.
    assert!(!text.contains("000102030405060708090a0b"));
    assert!(!metrics(Arc::new(sample("press-line").into())).contains("mka"));
}

#[test]
fn a_site_as_metrics() {
    let mut report = sample("edge");
    report.sites = vec![report::samples::sample_site()];
    report.sites[0].peers[0].path =
        Some("sent: kernel; received: user space: its LAN port is AF_PACKET".into());
    let text = metrics(Arc::new(report.into()));
    for line in [
        "frameward_site_protecting{site=\"dresden\"} 1",
        "frameward_site_verdict{site=\"dresden\",state=\"protecting\"} 0",
        "frameward_site_lan_rx_frames_total{site=\"dresden\",interface=\"eth2\"} 7",
        "frameward_site_udp_tx_dropped_total{site=\"dresden\",what=\"data\",address=\"0.0.0.0:7787\"} 1",
        "frameward_site_path_out_pkts_mac_control_total{site=\"dresden\"} 3",
        "frameward_site_uplink_bits_per_second{site=\"dresden\"} 50000000",
        "frameward_site_uplink_packets_waiting{site=\"dresden\",class=\"bulk\"} 17",
        "frameward_site_uplink_octets_waiting{site=\"dresden\"} 25100",
        "frameward_site_uplink_out_pkts_express_total{site=\"dresden\"} 40",
        "frameward_site_uplink_bits_per_second{site=\"dresden\",uplink=\"wan2\"} 5000000",
        "frameward_site_uplink_packets_waiting{site=\"dresden\",uplink=\"wan2\",class=\"bulk\"} 4",
        "frameward_site_uplink_out_pkts_express_total{site=\"dresden\",uplink=\"wan2\"} 20",
        "frameward_site_in_pkts_unknown_identifier_total{site=\"dresden\"} 4",
        "frameward_site_in_pkts_too_short_total{site=\"dresden\"} 6",
        "frameward_site_channel_connections_total{site=\"dresden\"} 1",
        "frameward_site_peer_in_pkts_late_total{site=\"dresden\",peer=\"berlin\"} 2",
        "frameward_site_session_peer_instances_total{site=\"dresden\",peer=\"berlin\"} 1",
        "frameward_site_peer_connected{site=\"dresden\",peer=\"berlin\"} 1",
        "frameward_site_peer_round_trip_microseconds{site=\"dresden\",peer=\"berlin\"} 812",
        "frameward_site_peer_path_payload_octets{site=\"dresden\",peer=\"berlin\"} 1472",
        "frameward_site_peer_path_up{site=\"dresden\",peer=\"berlin\",path=\"1\"} 1",
        "frameward_site_peer_path_up{site=\"dresden\",peer=\"berlin\",path=\"2\"} 0",
        "frameward_site_peer_path_preferred{site=\"dresden\",peer=\"berlin\",path=\"1\"} 1",
        "frameward_site_peer_path_round_trip_microseconds{site=\"dresden\",peer=\"berlin\",path=\"1\"} 9120",
        "frameward_site_peer_path_loss_per_mille{site=\"dresden\",peer=\"berlin\",path=\"1\"} 20",
        "frameward_site_peer_transmit_epoch_seconds{site=\"dresden\",peer=\"berlin\"} 12",
        "frameward_site_peer_in_kernel{site=\"dresden\",peer=\"berlin\",way=\"outward\"} 1",
        "frameward_site_peer_in_kernel{site=\"dresden\",peer=\"berlin\",way=\"inward\"} 0",
        "frameward_site_peer_info{site=\"dresden\",peer=\"berlin\",mode=\"identifier\"} 1",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\nis not in\n{text}");
    }
    // Addresses learned on LANs are no labels: the number of series is bounded by the configuration.
    assert!(!text.contains("02:00:00:00:00:02\",peer") && !text.contains("station"));
}

#[test]
fn a_cell_as_metrics() {
    let mut report = sample("line");
    report.links[0].fieldbus = Some(report::samples::sample_cell());
    if let Some(cell) = &mut report.links[0].fieldbus {
        cell.path =
            "kernel; 2 relations in user space, which are in shadow mode or were since the last start".into();
    }
    let text = metrics(Arc::new(report.clone().into()));
    let relation = "fieldbus=\"cell-4\",own=\"02:00:00:00:01:01\",peer=\"02:00:00:00:01:02\",sends=\"0x8001\",receives=\"0x8002\"";
    for line in [
        "frameward_fieldbus_out_pkts_rest_dropped_total{fieldbus=\"cell-4\"} 12".to_owned(),
        "frameward_fieldbus_hello_in_hello_total{fieldbus=\"cell-4\"} 3".into(),
        "frameward_fieldbus_verdict{fieldbus=\"cell-4\",state=\"protecting\"} 0".into(),
        "frameward_fieldbus_in_kernel{fieldbus=\"cell-4\"} 1".into(),
        "frameward_fieldbus_relations{fieldbus=\"cell-4\"} 1".into(),
        "frameward_fieldbus_relations_in_shadow{fieldbus=\"cell-4\"} 0".into(),
        "frameward_fieldbus_relations_without_session{fieldbus=\"cell-4\"} 0".into(),
        "frameward_fieldbus_info{fieldbus=\"cell-4\",link=\"press\",protect=\"encrypt\",suite=\"gcm-aes-128\",rest=\"link\"} 1".into(),
        format!("frameward_fieldbus_transmit_out_pkts_protected_total{{{relation}}} 1000"),
        format!("frameward_fieldbus_receive_in_alarms_total{{{relation}}} 1"),
        format!("frameward_fieldbus_relation_session{{{relation}}} 1"),
        format!("frameward_fieldbus_relation_longest_gap_nanoseconds{{{relation}}} 1600000"),
        "# TYPE frameward_fieldbus_relation_jitter_seconds histogram".into(),
        format!("frameward_fieldbus_relation_jitter_seconds_count{{{relation}}} 1000"),
        format!("frameward_fieldbus_relation_jitter_seconds_bucket{{le=\"0.00001\",{relation}}} 99"),
        format!("frameward_fieldbus_relation_jitter_seconds_bucket{{le=\"+Inf\",{relation}}} 1000"),
        format!("frameward_fieldbus_relation_residence_seconds_bucket{{le=\"0.00002\",{relation},way=\"inward\"}} 999"),
        format!("frameward_fieldbus_relation_residence_p99_9_nanoseconds{{{relation},way=\"outward\"}} 20000"),
        format!("frameward_fieldbus_relation_residence_worst_nanoseconds{{{relation},way=\"inward\"}} 70000"),
        format!("frameward_fieldbus_relation_jitter_p99_9_nanoseconds{{{relation}}} 20000"),
        format!("frameward_fieldbus_relation_jitter_worst_nanoseconds{{{relation}}} 70000"),
        "# TYPE frameward_fieldbus_residence_seconds histogram".into(),
        "frameward_fieldbus_residence_seconds_bucket{le=\"0.00002\",fieldbus=\"cell-4\",way=\"inward\"} 999".into(),
        "frameward_fieldbus_jitter_seconds_count{fieldbus=\"cell-4\"} 1000".into(),
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\nis not in\n{text}");
    }
    // Together they have twice as many of each, and the longest of all.
    let of_two = {
        let mut report = report.clone();
        let cell = report.links[0].fieldbus.as_mut().unwrap();
        let mut second = cell.relations[0].clone();
        second.peer = "02:00:00:00:01:03".into();
        cell.relations.push(second);
        metrics(Arc::new(report.into()))
    };
    for line in [
        "frameward_fieldbus_jitter_seconds_count{fieldbus=\"cell-4\"} 2000",
        "frameward_fieldbus_jitter_seconds_bucket{le=\"0.00002\",fieldbus=\"cell-4\"} 1998",
        "frameward_fieldbus_residence_seconds_bucket{le=\"0.00002\",fieldbus=\"cell-4\",way=\"inward\"} 1998",
    ] {
        assert!(of_two.lines().any(|known| known == line), "{line}\nis not in\n{of_two}");
    }
    // Without a SecY there are no figures of one.
    let mut report = sample("line");
    let mut cell = report::samples::sample_cell();
    cell.rest = "drop".into();
    report.links[0].fieldbus = Some(cell);
    let text = metrics(Arc::new(report.into()));
    assert!(!text.contains("_secy") && !text.contains("transmit_sc") && text.contains("frameward_port_"));
}

/// A cell of this many relations, each with everything in it.
fn crowd(relations: u16) -> String {
    let mut report = sample("line");
    let mut cell = report::samples::sample_cell();
    let one = cell.relations.remove(0);
    for number in 0..relations {
        let [high, low] = number.to_be_bytes();
        let peer = wire::MacAddr([2, 0, 0, 0, high, low]).to_string();
        cell.relations.push(report::cell::RelationReport { peer, ..one.clone() });
    }
    report.links[0].fieldbus = Some(cell);
    let start = std::time::Instant::now();
    let text = metrics(Arc::new(report.into()));
    let samples = text.lines().filter(|line| !line.starts_with('#')).count();
    println!("{relations} relations: {samples} series, {} octets, {:?}", text.len(), start.elapsed());
    text
}

/// `cargo test --release --workspace --lib a_thousand_relations -- --nocapture` says how long it takes.
#[test]
fn a_thousand_relations_are_no_more_than_a_scrape() {
    let each = |text: &str, name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    let few = crowd(64);
    assert_eq!(each(&few, "frameward_fieldbus_relation_jitter_seconds_count{"), 64);
    assert!(few.len() < 2_000_000, "{}", few.len());
    let many = crowd(1024);
    assert_eq!(each(&many, "frameward_fieldbus_relation_jitter_seconds"), 0, "no histogram for each");
    assert_eq!(each(&many, "frameward_fieldbus_relation_residence_worst_nanoseconds{"), 2 * 1024);
    assert_eq!(each(&many, "frameward_fieldbus_receive_in_alarms_total{"), 1024);
    assert!(many.contains("frameward_fieldbus_jitter_seconds_count{fieldbus=\"cell-4\"} 1024000\n"));
    assert!(many.len() < 6_500_000, "{}", many.len());
}
