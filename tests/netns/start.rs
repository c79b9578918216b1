//! Starts that must fail: one clear line each, the right exit status, and nothing changed.

use std::path::Path;
use std::time::{Duration, Instant};

use frameward::keygen;
use lab::program::Output;
use lab::topology::{PLAIN, PROTECTED};
use lab::{Namespace, Program, Shape, Topology};
use perf::demo::pair::{Choice, Scratch, configure};

use super::{DEADLINE, program};

/// Runs `frameward run a.toml` in gateway A's namespace until it ends by itself.
fn run(topology: &Topology, scratch: &Scratch) -> Output {
    run_in(&topology.gateway_a.namespace, scratch, "a")
}

/// Runs a gateway until it ends by itself.
pub(crate) fn run_in(namespace: &Namespace, scratch: &Scratch, name: &str) -> Output {
    start(namespace, scratch, name).wait(DEADLINE).unwrap()
}

fn start(namespace: &Namespace, scratch: &Scratch, name: &str) -> Program {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    let config = scratch.path().join(format!("{name}.toml"));
    let command =
        ["env", &variable, program().to_str().unwrap(), "run", "--keep-user", config.to_str().unwrap()];
    namespace.spawn(&command).unwrap()
}

pub(crate) fn refused(output: &Output, status: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(status), "{}", output.stderr);
    let line = output.stderr.lines().last().unwrap_or_default();
    for word in words {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
}

pub(crate) fn replace(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    std::fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn an_interface_that_belongs_to_a_bridge() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice::default()).unwrap();
    let namespace = &topology.gateway_a.namespace;
    namespace.ip(&["link", "add", "br7", "type", "bridge"]).unwrap();
    namespace.ip(&["link", "set", PROTECTED, "master", "br7"]).unwrap();
    refused(&run(&topology, &scratch), 1, &["press", PROTECTED, "br7"]);
}

#[test]
fn an_interface_that_another_gateway_has() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    for first in ["af_packet", "af_xdp"] {
        let pair =
            super::Pair::start(program(), &topology, &Choice { io: first, ..Choice::default() }).unwrap();
        // Its state and its keys are others: nothing but the interface is common.
        for second in ["af_packet", "af_xdp"] {
            let scratch = Scratch::new().unwrap();
            configure(&scratch, &Choice { io: second, ..Choice::default() }).unwrap();
            refused(&run(&topology, &scratch), 1, &["press", PLAIN, "another running gateway has it"]);
            super::exchange(a, b, &[super::marked(b.mac, a.mac, super::EXPERIMENT, 90, 1)]);
        }
        let site = Scratch::new().unwrap();
        configure_site(&site, PROTECTED);
        refused(&run(&topology, &site), 1, &["dresden", PROTECTED, "another running gateway has it"]);
        // The same state directory, and the same name.
        refused(&run(&topology, &pair.scratch), 1, &["state-a", "another gateway"]);
        super::exchange(a, b, &[super::marked(b.mac, a.mac, super::EXPERIMENT, 90, 1)]);
        pair.stop().unwrap();
    }
}

/// A gateway `a.toml` with a site, on AF_PACKET.
fn configure_site(scratch: &Scratch, lan: &str) {
    let own = keygen::site(&scratch.path().join("own.key")).unwrap();
    let peer = keygen::site(&scratch.path().join("peer.key")).unwrap();
    assert_ne!(own, peer);
    let text = format!(
        "[gateway]\nname = \"a\"\nstate = \"{}\"\nio = \"af_packet\"\nrealtime = \"off\"\n[[site]]\nname = \"dresden\"\n\
         lan = \"{lan}\"\nbind = \"127.0.0.1:7788\"\nidentity = \"own.key\"\n[[site.peer]]\nname = \"berlin\"\n\
         public_key = \"{peer}\"\n",
        scratch.path().join("state").display(),
    );
    scratch.write("a.toml", &text).unwrap();
}

/// Output of a gateway that has ended, or ends now.
fn ended(mut gateway: Program) -> Output {
    let running = gateway.is_running();
    if running { gateway.terminate(DEADLINE) } else { gateway.wait(DEADLINE) }.unwrap()
}

/// Whoever comes second is refused; of two that come at once never both stay.
#[test]
fn two_gateways_that_start_at_once_on_one_interface() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let choice = Choice { io: "af_packet", ..Choice::default() };
    let home = &topology.gateway_a.namespace;
    for _ in 0..4 {
        let scratches = [Scratch::new().unwrap(), Scratch::new().unwrap()];
        scratches.iter().for_each(|scratch| configure(scratch, &choice).unwrap());
        let mut both = [0, 1].map(|at| start(home, &scratches[at], "a"));
        let end = Instant::now() + DEADLINE;
        // One runs and the other has gone, or both have.
        while both.iter_mut().any(|one| one.is_running() && !one.stderr().contains("is running")) {
            assert!(Instant::now() < end, "two gateways neither run nor end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let stay = both.iter_mut().filter_map(|one| one.is_running().then_some(())).count();
        assert!(stay < 2, "two gateways have {PLAIN}");
        both.into_iter().for_each(|one| drop(ended(one)));
    }
}

/// Key files that were copied, and two state directories: the second one finds the mark beside the key.
#[test]
fn two_gateways_that_start_at_once_with_one_key_file() {
    let topologies = [0, 1].map(|_| Topology::build(&Shape::default()).unwrap());
    for _ in 0..4 {
        let scratch = Scratch::new().unwrap();
        configure(&scratch, &Choice { io: "af_packet", ..Choice::default() }).unwrap();
        let text = std::fs::read_to_string(scratch.path().join("a.toml")).unwrap();
        scratch.write("c.toml", &text.replace("\"a\"", "\"c\"").replace("state-a", "state-c")).unwrap();
        let mut both =
            [(0, "a"), (1, "c")].map(|(at, name)| start(&topologies[at].gateway_a.namespace, &scratch, name));
        let end = Instant::now() + DEADLINE;
        while both.iter_mut().all(Program::is_running) {
            assert!(Instant::now() < end, "two gateways count the packet numbers of one key");
            std::thread::sleep(Duration::from_millis(10));
        }
        for one in both {
            let output = ended(one);
            if !output.status.success() {
                // As if it had found the mark before it began: another key has to be made in either case.
                refused(&output, 2, &["a.key", "has been used for sending", "used/a.key"]);
            }
        }
    }
}

#[test]
fn a_protected_side_that_is_too_small() {
    let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice::default()).unwrap();
    refused(&run(&topology, &scratch), 1, &["a.toml:", "MTU too small", "1532", "1468"]);
}

#[test]
fn a_key_that_others_can_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice::default()).unwrap();
    let key = scratch.path().join("a.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused(&run(&topology, &scratch), 2, &["a.toml:", "a.key", "0644", "chmod 600"]);
}

#[test]
fn both_ends_with_one_key_and_sci() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice::default()).unwrap();
    let config = scratch.path().join("a.toml");
    replace(&config, "02:00:00:00:00:02/1", "02:00:00:00:00:01/1");
    replace(&config, "b.key", "a.key");
    refused(&run(&topology, &scratch), 2, &["a.toml:", "key and SCI", "nonces would repeat"]);
}

/// A key of zeros, and one key for both directions.
#[test]
fn keys_that_protect_nothing() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice::default()).unwrap();
    let config = scratch.path().join("a.toml");
    let own = std::fs::read_to_string(&config).unwrap();
    std::fs::write(scratch.path().join("a.key"), "0".repeat(32)).unwrap();
    refused(&run(&topology, &scratch), 2, &["a.toml:", "press", "a.key", "zeros", "keygen static"]);
    std::fs::copy(scratch.path().join("b.key"), scratch.path().join("a.key")).unwrap();
    refused(&run(&topology, &scratch), 2, &["a.toml:", "press", "both directions", "keygen static"]);
    let section = own.split_once("[link.static]").unwrap().0;
    let mka = format!("{section}[link.mka]\ncak_file = \"line.cak\"\n");
    std::fs::write(&config, mka).unwrap();
    let cak = scratch.write("line.cak", &format!("ckn = 6c696e65\ncak = {}\n", "00".repeat(16))).unwrap();
    std::fs::set_permissions(&cak, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    refused(&run(&topology, &scratch), 2, &["a.toml:", "press", "line.cak", "zeros", "keygen cak"]);
}
