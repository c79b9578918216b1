use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use std::path::Path;

use report::control_socket::{ControlSocket, Reply, ServeError};
use report::samples::{agreed, sample};
use report::{FleetReport, FleetState, GatewayReport, LinkReport, ask, parse, socket_path};
use testkit::TestDirectory;

/// A gateway of this report.
fn serve(
    directory: &Path,
    name: &str,
    report: impl Fn() -> GatewayReport + Send + Sync + 'static,
) -> Result<ControlSocket, ServeError> {
    ControlSocket::serve(directory, name, move |_| Reply::Report(report()))
}

#[test]
fn a_report_goes_round_through_a_real_socket() {
    let directory = TestDirectory::new("status-round");
    let runtime = directory.path().join("run");
    let asked = AtomicU64::new(1);
    let server = serve(&runtime, "line", move || GatewayReport {
        uptime_seconds: asked.fetch_add(1, Ordering::Relaxed),
        ..sample("line")
    })
    .unwrap();
    let mode = std::fs::metadata(socket_path(&runtime, "line")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    assert_eq!(find(&runtime, None).unwrap().gateway, "line");
    for expected in 1..4 {
        let report = parse("line", &ask(&runtime, "line").unwrap()).unwrap();
        assert_eq!(report.uptime_seconds, expected);
        assert_eq!(report.links, sample("line").links);
    }
    let second = serve(&runtime, "line", || sample("line"));
    assert!(matches!(second, Err(ServeError::AlreadyRunning(name)) if name == "line"));
    drop(server);
    assert!(matches!(find(&runtime, None), Err(StatusError::None(_))));
    assert!(matches!(ask(&runtime, "line"), Err(AskError::Silent { .. })));
}

#[test]
fn a_dead_gateways_socket_is_replaced() {
    let directory = TestDirectory::new("status-stale");
    drop(UnixListener::bind(socket_path(directory.path(), "line")).unwrap());
    assert!(matches!(ask(directory.path(), "line"), Err(report::AskError::Silent { .. })));
    let _server = serve(directory.path(), "line", || sample("line")).unwrap();
    assert!(ask(directory.path(), "line").is_ok());
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody_for_long() {
    let directory = TestDirectory::new("status-silent");
    // Some hundred kilobytes: more than a socket holds.
    let many = || report::GatewayReport { links: vec![sample("x").links[0].clone(); 200], ..sample("line") };
    let _server = serve(directory.path(), "line", many).unwrap();
    let _silent = UnixStream::connect(socket_path(directory.path(), "line")).unwrap();
    let report = parse("line", &ask(directory.path(), "line").unwrap()).unwrap();
    assert_eq!(report.links.len(), 200);
}

#[test]
fn the_gateway_that_is_meant_is_found_or_asked_for() {
    let directory = TestDirectory::new("status-choose");
    let chosen = |name: Option<&str>| {
        find(directory.path(), name).map(|found| found.gateway).map_err(|error| error.to_string())
    };
    let none = format!(
        "no gateway runs (no socket in {}); start one with: frameward run CONFIG",
        directory.path().display()
    );
    assert_eq!(chosen(None), Err(none.clone()));
    assert_eq!(chosen(Some("press")), Err(none));
    for file in ["b.sock", "a.sock", "c.new", "UPPER.sock"] {
        std::fs::write(directory.path().join(file), "").unwrap();
    }
    let ended =
        "no gateway runs: a, b ended without taking the socket away; start one with: frameward run CONFIG";
    assert_eq!(chosen(None), Err(ended.to_owned()));
    let press = serve(directory.path(), "press", || sample("press")).unwrap();
    assert_eq!(chosen(None), Ok("press".to_owned()));
    let line = serve(directory.path(), "line", || sample("line")).unwrap();
    assert_eq!(chosen(None), Err("several gateways run; name one of line, press".to_owned()));
    drop((press, line));
    assert_eq!(chosen(Some("b")), Ok("b".to_owned()));
    for bad in ["../b", "a b", "", "/run/b", "B.toml", "frameward@"] {
        assert!(matches!(find(directory.path(), Some(bad)), Err(StatusError::BadName(_))), "{bad:?}");
    }
    let dead = chosen(Some("c")).unwrap_err();
    assert!(dead.contains("gateway a (does not answer on ") && dead.contains("; gateway b (does"), "{dead}");
}

#[test]
fn one_name_may_be_that_of_a_unit_a_file_a_gateway_a_link_a_site_or_a_cell() {
    let directory = TestDirectory::new("status-find");
    let file = directory.path().join("etc").join("press.toml");
    std::fs::create_dir(directory.path().join("etc")).unwrap();
    std::fs::write(&file, "").unwrap();
    let runtime = directory.path().join("run");
    let with = |name: &str, file: &Path, links: &[&str], change: fn(&mut GatewayReport)| {
        let mut report = sample(name);
        report.configuration = Some(file.display().to_string());
        let one = report.links[0].clone();
        report.links = links.iter().map(|name| LinkReport { name: (*name).into(), ..one.clone() }).collect();
        change(&mut report);
        serve(&runtime, name, move || report.clone()).unwrap()
    };
    let other = Path::new("/etc/frameward/other.toml");
    let _servers = [
        with("line", &file, &["oven", "belt"], |report| {
            report.sites = vec![report::samples::sample_site()];
        }),
        with("oven", other, &["belt", "mixer"], |report| {
            report.links[1].fieldbus = Some(report::samples::sample_cell());
        }),
    ];
    let found = |name: &str| find(&runtime, Some(name)).map_err(|error| error.to_string());
    let whole = |gateway: &str| Ok(Found { gateway: gateway.into(), part: None });
    let part = |gateway: &str, part: &str| Ok(Found { gateway: gateway.into(), part: Some(part.into()) });
    // A gateway's own name before a link's of another one.
    for name in ["oven", "frameward@oven", "frameward@oven.service"] {
        assert_eq!(found(name), whole("oven"), "{name}");
    }
    for name in ["press", "press.toml", "frameward@press", file.to_str().unwrap()] {
        assert_eq!(found(name), whole("line"), "{name}");
    }
    assert_eq!(found("mixer"), part("oven", "mixer"));
    assert_eq!(found("cell-4"), part("oven", "cell-4"));
    assert_eq!(found("dresden"), part("line", "dresden"));
    assert_eq!(
        found("belt"),
        Err("\"belt\" is found in several gateways; name one of line, oven".to_owned())
    );
    assert_eq!(
        found("pres"),
        Err(format!(
            "nothing that runs has the name \"pres\"; running: gateway line (link oven, link belt, site dresden, file {}); \
             gateway oven (link belt, link mixer, fieldbus cell-4, file /etc/frameward/other.toml)",
            file.display()
        ))
    );
    // A link is no file, nor has a file of another directory the name alone.
    assert!(found("mixer.toml").is_err() && found("/press.toml").is_err());
    let mut report = parse("oven", &ask(&runtime, "oven").unwrap()).unwrap();
    found("cell-4").unwrap().narrow(&mut report);
    assert_eq!(report.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["mixer"]);
    let mut report = parse("line", &ask(&runtime, "line").unwrap()).unwrap();
    found("dresden").unwrap().narrow(&mut report);
    assert_eq!((report.links.len(), report.sites.len()), (0, 1));
}

#[test]
fn the_text_says_how_far_the_fleet_is_and_since_when_nobody_answers() {
    let said = |fleet: FleetReport| {
        let report = GatewayReport { fleet: Some(fleet), links: Vec::new(), ..sample("line") };
        let text = StatusText { report: &report, detail: Detail::NonZero, verbose: false }.to_string();
        text.lines()
            .skip_while(|line| !line.starts_with("  fleet"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    assert_eq!(said(FleetReport::default()), "  fleet          no version yet, waits\n");
    let confirmed = FleetReport {
        version: Some(17),
        state: FleetState::Confirmed,
        directory_answered_seconds: Some(3),
        ..FleetReport::default()
    };
    assert_eq!(said(confirmed.clone()), "  fleet          version 17, confirmed\n");
    let away = FleetReport {
        directory_answered_seconds: Some(93_784),
        directory_away: Some("directory etcd://h:1: cannot reach h:1".to_owned()),
        ..confirmed.clone()
    };
    assert_eq!(
        said(away),
        "  fleet          version 17, confirmed\n  directory      stale since 1d 02:03:04 ago: directory etcd://h:1: cannot reach h:1\n"
    );
    let back = FleetReport {
        state: FleetState::TakenBack,
        why: Some("link press does not stand any more".to_owned()),
        ..confirmed
    };
    assert_eq!(
        said(back),
        "  fleet          version 17 in use; the newest: taken back: link press does not stand any more\n"
    );
}

#[test]
fn the_text_says_what_a_reload_waits_for() {
    let why = "gw.toml or a key file that it names could not be read yet, for 7 s";
    let report = GatewayReport { reload_waits: Some(why.into()), links: Vec::new(), ..sample("line") };
    let text = StatusText { report: &report, detail: Detail::NonZero, verbose: false }.to_string();
    assert!(text.ends_with(&format!("    gw.toml:7: no\n  reload waits   {why}\n")), "{text}");
}

#[test]
fn the_text_shows_what_counted() {
    let report = sample("line");
    let text = StatusText { report: &report, detail: Detail::NonZero, verbose: true }.to_string();
    assert_eq!(
        text,
        "gateway line, version 0.1.0, up 1d 02:03:04
  real time      yes, SCHED_FIFO, priority 10
  locked memory  no, only 7 octets may be locked
  cipher suites  ns for 512 octets on this CPU: aegis-128l 51, gcm-aes-128 105
  antedate       off
  reloads        2, the last one FAILED
    gw.toml:7: no

link press
  ATTENTION, no keys: No receive SA is in use, so no peer's frame can be verified.
  plain eth0, af_xdp native, MTU 1532, guard tcx
    RxFrames                                            7
  protected eth1, af_xdp native, MTU 1532, guard tcx
    RxFrames                                            7
  SecY gcm-aes-128, validate strict, replay window 32
    path, both ways: user space: io says so
    gcm-aes-128 takes 105 ns for 512 octets on this CPU; consider aegis-128l (51 ns), if Frameward stands at both ends
    InPktsNoTag                                         5
    InPktsBadTag                                        6
    transmit SC 02:00:00:00:00:01/1
      OutPktsEncrypted                                  4
      SA 1, key 0011223344556677, next PN 9, 4294967287 left: 49 days at the rate since the start
        InPktsLate                   18446744073709551615
    receive SC 02:00:00:00:00:02/1
      InPktsOK                                          3
      SA 1, key 0011223344556677, lowest PN 1099511627776, not in use
        InPktsLate                   18446744073709551615
"
    );
    let quiet = StatusText { report: &report, detail: Detail::NonZero, verbose: false }.to_string();
    let measured =
        |line: &&str| ["cipher suites", "antedate", " takes 105 ns"].iter().any(|word| line.contains(word));
    assert_eq!(text.lines().filter(measured).count(), 3);
    let others: Vec<_> = text.lines().filter(|line| !measured(line)).collect();
    assert_eq!(quiet.lines().collect::<Vec<_>>(), others);
    let all = StatusText { report: &report, detail: Detail::All, verbose: true }.to_string();
    assert!(all.contains("OutPktsUntagged") && all.contains("TxFrames"));
}

/// Each counter that a verdict names, also one of a cell, has its meaning with `--verbose`, once.
#[test]
fn counters_in_a_verdict_are_explained() {
    let mut report = sample("line");
    let link = &mut report.links[0];
    link.fieldbus = Some(report::samples::sample_cell());
    link.verdict.text = "Discarded: InPktsNoTag 5. status --verbose explains each counter.".to_owned();
    let text = "InPktsClearTwin 3, InPktsNoTag 5, InPktsNo 7.".to_owned();
    link.concerns = vec![report::Concern { grave: false, text }];
    let text = |verbose| StatusText { report: &report, detail: Detail::NonZero, verbose }.to_string();
    let told = |name: &str| {
        let row = report::table::counter(name).or(report::table::Group::RelationReceive.counter(name));
        format!("    {name}: {}\n", row.unwrap().meaning)
    };
    for name in ["InPktsNoTag", "InPktsClearTwin"] {
        assert_eq!(text(true).matches(&told(name)).count(), 1, "{}", text(true));
        assert!(!text(false).contains(&told(name)));
    }
    assert!(!text(true).contains("    InPktsBadTag: "), "no verdict names it");
}

#[test]
fn key_agreement_as_text() {
    let mut report = agreed("line");
    let text = |report: &GatewayReport, detail| StatusText { report, detail, verbose: true }.to_string();
    let shown = text(&report, Detail::NonZero);
    let (_, part) = shown.split_once("if Frameward stands at both ends\n").unwrap();
    assert_eq!(
        part.split_once("    InPktsNoTag").unwrap().0,
        "    key agreement: secured, this box is key server
      own MI 000102030405060708090a0b, priority 16, MKPDUs to 01:80:c2:00:00:03, on_peer_loss block
      CAK 8899aabbccddeeff, ckn 6c696e65, its group agrees on the keys
      fallback CAK 8899aabbccddeeff, ckn 6f6c64
      member 02:00:00:00:00:02/1, named \"press-b\" by itself, live, heard 0.4 s ago, priority 32, MI 101112131415161718191a1b
      SAK 000102030405060708090a0b/7, AN 1, gcm-aes-128, encrypted, protects, 1d 02:03:04 old
      fragment on, concatenate on
      next key in 61 seconds
      what changed last
        90 seconds ago  member 02:00:00:00:00:02/1 \"press-b\" is live
        1.5 s ago  SAK 000102030405060708090a0b/7 protects
      MkpdusTx                                         12
"
    );
    assert!(shown.contains("SA 1, key 000102030405060708090a0b/7, next PN 9"), "{shown}");
    let link = &mut report.links[0];
    let mka = link.mka.as_mut().unwrap();
    (mka.secured, mka.is_key_server, mka.key_server) = (false, false, None);
    mka.members.clear();
    mka.saks.clear();
    mka.changes.extend((0..20).map(|_| mka.changes[0].clone()).collect::<Vec<_>>());
    let shown = text(&report, Detail::NonZero);
    for line in ["    key agreement: NOT SECURED, no key server\n", "      no other member is heard\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    let changes = |shown: &str| shown.matches("is live").count();
    assert_eq!((changes(&shown), changes(&text(&report, Detail::All))), (8, 21));
}

#[test]
fn a_site_as_text() {
    let mut report = sample("edge");
    report.links.clear();
    report.sites = vec![report::samples::sample_site()];
    let text = StatusText { report: &report, detail: Detail::NonZero, verbose: true }.to_string();
    let site = text.split_once("\nsite ").unwrap().1;
    assert_eq!(
        site,
        "dresden
  PROTECTING: All peers are connected: 1.
  public key 00ff
  LAN eth2, af_xdp native, MTU 1470, guard tcx
    RxFrames                                            7
    RxOctets                                          700
  UDP 0.0.0.0:7787, data
    TxPackets                                           8
    TxOctets                                          800
    TxDropped                                           1
  in user space, both ways
  kinds of frames and packets
    OutPktsMacControl                                   3
  tunnel
    InPktsUnknownIdentifier                             4
    InPktsTooShort                                      6
  uplink, 50000 kbit/s; 0 express and 17 other packets wait, 25100 octets
    OutPktsExpress                                     40
  uplink wan2, 5000 kbit/s; 1 express and 4 other packets wait, 6100 octets
    OutPktsExpress                                     20
  management channel
    Connections                                         1
  one of two boxes on its LAN: standby for 00:01:01: the other box forwards
    the other one, dresden-2: active, heard 7 ms ago; this one began to forward 2 times
    it has takeover = 400, and both use the larger one; write the same in both configurations
  peer berlin, identifier, connected for 00:01:01
    data goes to 198.51.100.7:7787, round trip 812 us, UDP payload up to 1472, running for 01:00:00 at least
    path 1 (wan1 to 198.51.100.7:7787): up, preferred, at 198.51.100.7:7787, round trip 9120 us, 2.0 % of probes lost, UDP payload up to 1464
    path 2 (wan2): down: the peer was not heard on it
    sees this site at 203.0.113.9:20007
    keys agreed on by X25519MLKEM768
    sends under epoch 3, 00:00:12 old; receives under no epoch
    flows: 5 known there, 1 announced; 4 of its own
    OutPktsTunnelled                                    9
    InPktsLate                                          2
    PeerInstances                                       1
  stations
    02:00:00:00:00:01  on this LAN, heard 1 s ago
    02:00:00:00:00:02  behind berlin, heard 2 s ago
  flows
        3 to berlin: 02:00:00:00:00:01 to 02:00:00:00:00:02, SCI 02:00:00:00:00:0a/1, known there, used 0 s ago
"
    );
    // Many stations: the first ones, and how to see the others.
    let stations = &mut report.sites[0].stations;
    let one = stations[0].clone();
    stations.extend((0..30).map(|_| one.clone()));
    let text = StatusText { report: &report, detail: Detail::NonZero, verbose: true }.to_string();
    assert!(text.contains("    and 12 more: --all shows them\n"), "{text}");
}

#[test]
fn a_cell_as_text() {
    let mut report = sample("line");
    report.links[0].fieldbus = Some(report::samples::sample_cell());
    let text = StatusText { report: &report, detail: Detail::NonZero, verbose: true }.to_string();
    let cell = &text[text.find("  fieldbus ").unwrap()..text.find("  SecY ").unwrap()];
    assert_eq!(
        cell,
        "  fieldbus cell-4, gcm-aes-128, encrypt; rest through this link's SecY; master key 0011223344556677; relations: 1
    PROTECTING: All relations have a session with the other gateway; the last verified frame came 0 ms ago.
    OutPktsRestDropped                                 12
    InHello                                             3
    relation 02:00:00:00:01:01 (here) 0x8001, 02:00:00:00:01:02 0x8002, each 1 ms: running, out KeyID 17 epoch 1 Seq 1000, in KeyID 200 epoch 1 Seq 1000
      out: inside p50 <= 20 us, p99.9 <= 20 us, worst 70 us
        OutPktsProtected                             1000
      in: inside p50 <= 20 us, p99.9 <= 20 us, worst 70 us; jitter p50 <= 20 us, p99.9 <= 20 us, worst 70 us; longest gap 1.6 ms, alarm at 1.5 ms, watchdog 3 ms
        InPktsOK                                      998
        InPktsLate                                      2
        InAlarms                                        1
"
    );
    let mut lone = report::samples::sample_cell();
    lone.rest = "drop".into();
    lone.relations[0].mode = "shadow".into();
    (lone.relations[0].state, lone.relations[0].silent_ns) = ("no session".into(), Some(5_000_000));
    report.links[0].fieldbus = Some(lone);
    let text = StatusText { report: &report, detail: Detail::NonZero, verbose: true }.to_string();
    for words in [
        "rest dropped",
        "1 IN SHADOW MODE: IN CLEAR, 1 WITHOUT A SESSION",
        "no session, SHADOW: IN CLEAR",
        "SILENT for 5 ms",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("SecY"), "{text}");
}
