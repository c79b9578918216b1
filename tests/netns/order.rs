//! The order of a start: all that can fail comes before the first PN, what is not there is waited for, and a
//! stop gives back what it has not used.

use std::fs::{self, File, TryLockError};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::program::Output;
use lab::{Namespace, Shape, Topology};
use nix::sys::signal::Signal;
use perf::demo::pair::{Choice, LinkKeys, Scratch, Station, configure};
use pnstore::FIRST_BLOCK_PNS;
use report::GatewayReport;

use super::reload::reloaded;
use super::vanish::both_ways;
use super::{DEADLINE, program};

/// Fewer than a block, and more than a few frames.
const FEW: u64 = 1000;

const CHOICE: Choice = Choice {
    io: "af_packet",
    suite: suite::CipherSuite::GcmAes128,
    gateway: "",
    link: "",
    keys: LinkKeys::Static,
    environment: &[],
};

fn start(namespace: &Namespace, scratch: &Scratch, name: &str) -> Station {
    Station::start(program(), namespace, scratch, name).unwrap()
}

/// Runs `a.toml` until it ends by itself.
fn run(namespace: &Namespace, scratch: &Scratch) -> Output {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    let config = scratch.path().join("a.toml");
    let command =
        ["env", &variable, program().to_str().unwrap(), "run", "--keep-user", config.to_str().unwrap()];
    namespace.spawn(&command).unwrap().wait(DEADLINE).unwrap()
}

fn append(scratch: &Scratch, text: &str) {
    let config = fs::read_to_string(scratch.path().join("a.toml")).unwrap();
    scratch.write("a.toml", &(config + text)).unwrap();
}

/// Adds a link with keys of its own, of which only the plain interface is there.
fn add_link(namespace: &Namespace, scratch: &Scratch, name: &str, keys: &str) {
    namespace
        .ip(&["link", "add", &format!("{name}-m"), "type", "veth", "peer", "name", &format!("{name}-x")])
        .unwrap();
    let suite = if keys.contains("static") { "suite = \"gcm-aes-128\"\n" } else { "" };
    append(
        scratch,
        &format!(
            "\n[[link]]\nname = \"{name}\"\nplain = \"{name}-m\"\nprotected = \"{name}-n\"\n{suite}{keys}"
        ),
    );
}

fn add_network(namespace: &Namespace, name: &str) {
    let (near, far) = (format!("{name}-n"), format!("{name}-y"));
    namespace
        .ip(&["link", "add", &near, "mtu", "1600", "type", "veth", "peer", "name", &far, "mtu", "1600"])
        .unwrap();
    namespace.ip(&["link", "set", &far, "up"]).unwrap();
}

fn next_pn(report: &GatewayReport, link: usize) -> u64 {
    report.links[link].secy.transmit.sas[0].next_pn.unwrap()
}

#[test]
fn a_link_waits_for_its_interface_and_starts_use_up_nothing() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let home = &topology.gateway_a.namespace;
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &CHOICE).unwrap();
    for key in ["c.key", "d.key"] {
        keygen::static_key(KeyLength::Bits128, &scratch.path().join(key)).unwrap();
    }
    keygen::cak(KeyLength::Bits128, None, &scratch.path().join("line.cak")).unwrap();
    let keys = "[link.static]\nan = 0\nsci = \"02:00:00:00:00:11/1\"\nkey_file = \"c.key\"\n\
                [[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:12/1\"\nkey_file = \"d.key\"\n";
    add_link(home, &scratch, "oven", keys);
    add_link(home, &scratch, "kiln", "[link.mka]\ncak_file = \"line.cak\"\n");
    let b = start(&topology.gateway_b.namespace, &scratch, "b");
    for round in 1..=5 {
        let a = start(home, &scratch, "a");
        both_ways(&topology, round);
        let report = a.report().unwrap();
        assert!(next_pn(&report, 0) < FEW, "start {round} begins at {}", next_pn(&report, 0));
        assert!(report.links[0].waiting.is_none());
        for (link, name) in [(1, "oven"), (2, "kiln")] {
            let why = format!("interface {name}-n is missing");
            let link = &report.links[link];
            assert!(link.waiting.as_ref().unwrap().why.contains(&why), "{:?}", link.waiting);
            assert!(link.concerns[0].grave && link.concerns[0].text.contains(&why), "{:?}", link.concerns);
        }
        let said = a.stop().unwrap();
        for name in ["oven", "kiln"] {
            let line = format!("link {name:?}: no frame passes: interface {name}-n is missing");
            assert_eq!(said.matches(&line).count(), 1, "{said}");
        }
    }
    let a = start(home, &scratch, "a");
    assert!(reloaded(&scratch, "a").contains(": reloaded"));
    for name in ["oven", "kiln"] {
        add_network(home, name);
    }
    let end = Instant::now() + DEADLINE;
    while a.report().unwrap().links.iter().any(|link| link.waiting.is_some()) {
        assert!(Instant::now() < end, "{:?}", a.report().unwrap().links[1].waiting);
        std::thread::sleep(Duration::from_millis(20));
    }
    let report = a.report().unwrap();
    assert!(next_pn(&report, 0) < FEW && next_pn(&report, 1) < FEW);
    assert!(report.links[2].mka.is_some());
    assert!(reloaded(&scratch, "a").contains(": reloaded"));
    both_ways(&topology, 9);
    let said = a.stop().unwrap();
    for name in ["oven", "kiln"] {
        assert_eq!(said.matches(&format!("link {name:?}: frames pass")).count(), 1, "{said}");
    }
    b.stop().unwrap();
}

/// A gateway that crashes over and over uses a small first block of its key's PNs each time.
#[test]
fn a_crash_without_traffic_uses_a_small_block() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let home = &topology.gateway_a.namespace;
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &CHOICE).unwrap();
    for crashes in 0..4 {
        let mut a = start(home, &scratch, "a");
        let next = next_pn(&a.report().unwrap(), 0);
        assert!(next < crashes * FIRST_BLOCK_PNS.get() + FEW, "{next} after {crashes} crashes");
        a.program().signal(Signal::SIGKILL).unwrap();
        let end = Instant::now() + DEADLINE;
        while a.program().is_running() {
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_start_that_fails_uses_no_packet_number() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let home = &topology.gateway_a.namespace;
    let address: SocketAddr = "127.0.0.1:7788".parse().unwrap();
    // Both are closed when the test ends.
    let (udp, tcp) =
        home.enter(|| (UdpSocket::bind(address).unwrap(), TcpListener::bind(address).unwrap())).unwrap();
    let site = "\n[[site]]\nname = \"dresden\"\nlan = \"lan\"\nbind = \"127.0.0.1:7788\"\nidentity = \"own.key\"\n\
                [[site.peer]]\nname = \"berlin\"\n";
    home.ip(&["link", "add", "lan", "type", "veth", "peer", "name", "lan-m"]).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &CHOICE).unwrap();
    let own = keygen::site(&scratch.path().join("own.key")).unwrap();
    let peer = keygen::site(&scratch.path().join("peer.key")).unwrap();
    assert_ne!(own, peer);
    let good = fs::read_to_string(scratch.path().join("a.toml")).unwrap();
    let socket = scratch.path().join("run/a.sock");
    for what in ["status", "site", "http"] {
        match what {
            "status" => fs::create_dir_all(&socket).unwrap(),
            "site" => append(&scratch, &format!("{site}public_key = \"{peer}\"\n")),
            _ => drop(
                scratch
                    .write("a.toml", &good.replace("[[link]]", "http = \"127.0.0.1:7788\"\n[[link]]"))
                    .unwrap(),
            ),
        }
        for _ in 0..2 {
            let output = run(home, &scratch);
            assert_eq!(output.status.code(), Some(1), "{what}: {}", output.stderr);
            assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
        }
        scratch.write("a.toml", &good).unwrap();
        if what == "status" {
            fs::remove_dir(&socket).unwrap();
        }
        let a = start(home, &scratch, "a");
        let next = next_pn(&a.report().unwrap(), 0);
        assert!(next < FEW, "{what}: the next PN is {next}");
        a.stop().unwrap();
    }
    drop((udp, tcp));
}

/// Links that stand behind the one that fails have begun.
#[test]
fn a_start_that_fails_at_one_link_uses_no_packet_number_of_another() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let home = &topology.gateway_a.namespace;
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &CHOICE).unwrap();
    for key in ["c.key", "d.key"] {
        keygen::static_key(KeyLength::Bits128, &scratch.path().join(key)).unwrap();
    }
    let keys = "[link.static]\nan = 0\nsci = \"02:00:00:00:00:11/1\"\nkey_file = \"c.key\"\n\
                [[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:12/1\"\nkey_file = \"d.key\"\n";
    add_link(home, &scratch, "oven", keys);
    add_network(home, "oven");
    let good = fs::read_to_string(scratch.path().join("a.toml")).unwrap();
    // No program has this suite.
    let bad = good.replace("io = \"af_packet\"", "io = \"kernel\"");
    assert_ne!(good, bad);
    scratch.write("a.toml", &bad).unwrap();
    for _ in 0..2 {
        let output = run(home, &scratch);
        assert_eq!(output.status.code(), Some(1), "{}", output.stderr);
        assert!(output.stderr.contains("press") && output.stderr.contains("kernel"), "{}", output.stderr);
    }
    scratch.write("a.toml", &good).unwrap();
    let a = start(home, &scratch, "a");
    let report = a.report().unwrap();
    let next = [next_pn(&report, 0), next_pn(&report, 1)];
    assert!(next.iter().all(|next| *next < FEW), "the next PNs are {next:?}");
    a.stop().unwrap();
}

/// A lock on a directory is for whoever may read it. Nothing of the gateway's may depend on one.
#[test]
fn another_account_cannot_keep_a_gateway_from_starting() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &CHOICE).unwrap();
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(scratch.path(), 0o755);
    let home = &topology.gateway_a.namespace;
    start(home, &scratch, "a").stop().unwrap();
    // As an administrator may make them.
    let mut held =
        vec![scratch.path().join("run"), scratch.path().join("state-a"), scratch.path().join("used")];
    held.iter().for_each(|directory| open(directory, 0o755));
    for directory in held.clone() {
        let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        held.extend(files.filter(|path| path.is_file()));
    }
    let stranger = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "flock", "--shared"];
    let holders: Vec<_> = held
        .iter()
        .map(|path| home.spawn(&[&stranger[..], &[path.to_str().unwrap(), "sleep", "60"]].concat()).unwrap())
        .collect();
    let locked = |path: &Path| matches!(File::open(path).unwrap().try_lock(), Err(TryLockError::WouldBlock));
    let end = Instant::now() + DEADLINE;
    while !held[..3].iter().all(|path| locked(path)) {
        assert!(Instant::now() < end, "the stranger could not lock what anybody can");
        std::thread::sleep(Duration::from_millis(10));
    }
    let a = start(home, &scratch, "a");
    let b = start(&topology.gateway_b.namespace, &scratch, "b");
    // Control turns: floors come to disk, and the figures are there.
    let floors = || fs::read(scratch.path().join("state-a/floors")).unwrap();
    let before = floors();
    both_ways(&topology, 1);
    assert_eq!(a.report().unwrap().links.len(), 1);
    while floors() == before {
        assert!(Instant::now() < end, "no floor is written");
        std::thread::sleep(Duration::from_millis(50));
    }
    // A second gateway of the name finds out at once.
    let output = run(home, &scratch);
    assert!(output.stderr.contains("another gateway"), "{}", output.stderr);
    a.stop().unwrap();
    b.stop().unwrap();
    drop(holders);
}
