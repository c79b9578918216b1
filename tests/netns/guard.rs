//! The host's own stack is kept off the ports on kernels without tcx, too, and no port is taken that the box itself lives on.
//!
//! This kernel has tcx. So the gateway runs under strace, which has the kernel refuse the calls that an older one would.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use lab::topology::{Gateway, PLAIN, PROTECTED};
use lab::{Machine, Shape, Topology};
use nix::sys::signal::Signal;
use perf::demo::pair::{Choice, Scratch, Station, configure};

use super::start::{refused, replace};
use super::{DEADLINE, exchange, marked, program};

const ADDRESS: &str = "192.0.2.1";
/// Time limit for a datagram that arrives; none does in a test of silence.
const SILENCE: Duration = Duration::from_millis(300);

/// The gateway's command goes behind it: the calls of `bpf` that `when` names fail as on a kernel that lacks them.
fn lacking(when: &'static str) -> [&'static str; 10] {
    ["strace", "-D", "-f", "-q", "-o", "/dev/null", "-e", "trace=bpf", "-e", when]
}

/// For each interface: load a program, link it (which fails), load one for the filter.
const NO_TCX: &str = "inject=bpf:error=EINVAL:when=2+3";
const NO_BPF: &str = "inject=bpf:error=EINVAL";

fn station(topology: &Topology, scratch: &Scratch, when: &'static str) -> Station {
    let home = &topology.gateway_a.namespace;
    Station::start_by(&lacking(when), program(), home, scratch, "a").unwrap()
}

/// The box of gateway A has an address on its plain port, and a service there.
pub(crate) fn live_on(gateway: &Gateway, machine: &Machine) -> UdpSocket {
    gateway.namespace.ip(&["addr", "add", &format!("{ADDRESS}/24"), "dev", PLAIN]).unwrap();
    gateway.namespace.ip(&["route", "add", &format!("{}/32", machine.ipv4), "dev", PLAIN]).unwrap();
    let ifname = machine.ifname;
    machine.namespace.ip(&["route", "add", &format!("{ADDRESS}/32"), "dev", ifname]).unwrap();
    let mac = wire::MacAddr(gateway.plain_mac).to_string();
    machine.namespace.ip(&["neigh", "replace", ADDRESS, "lladdr", &mac, "dev", ifname]).unwrap();
    let service = gateway.namespace.enter(|| UdpSocket::bind((ADDRESS, 7)).unwrap()).unwrap();
    service.set_read_timeout(Some(SILENCE)).unwrap();
    service
}

/// Whether the box's service hears a stranger on the machine's side.
pub(crate) fn hears(service: &UdpSocket, machine: &Machine) -> bool {
    machine
        .namespace
        .enter(|| UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", (ADDRESS, 7)).unwrap())
        .unwrap();
    service.recv(&mut [0; 8]).is_ok()
}

/// Whether a datagram of the box's own stack leaves it and reaches the machine.
pub(crate) fn speaks(service: &UdpSocket, gateway: &Gateway, machine: &Machine) -> bool {
    let mac = wire::MacAddr(machine.mac).to_string();
    gateway
        .namespace
        .ip(&["neigh", "replace", &machine.ipv4.to_string(), "lladdr", &mac, "dev", PLAIN])
        .unwrap();
    let listener = machine.namespace.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    listener.set_read_timeout(Some(SILENCE)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // A filter may refuse it at once.
    let _ = service.send_to(b"x", (machine.ipv4, port));
    listener.recv(&mut [0; 8]).is_ok()
}

/// Waits until it does: a wire that has just come up may lose the first.
pub(crate) fn hears_in_the_end(service: &UdpSocket, machine: &Machine) -> bool {
    let end = Instant::now() + DEADLINE;
    std::iter::repeat_with(|| hears(service, machine)).take_while(|_| Instant::now() < end).any(|heard| heard)
}

fn filters(gateway: &Gateway) -> String {
    gateway.namespace.run(&["tc", "qdisc", "show", "dev", PLAIN]).unwrap().stdout
}

#[test]
fn without_tcx_clsact_keeps_the_hosts_stack_off_and_goes_with_the_gateway() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let (home, a, b) = (&topology.gateway_a, &topology.machine_a, &topology.machine_b);
    let scratch = Scratch::new().unwrap();
    let choice = Choice { io: "af_packet", link: "allow_addresses = true", ..Choice::default() };
    configure(&scratch, &choice).unwrap();
    let service = live_on(home, a);
    assert!(
        hears_in_the_end(&service, a),
        "without a gateway the box is reached: else this test shows nothing"
    );
    assert!(speaks(&service, home, a), "and it is heard");

    let other = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
    let mut gateway = station(&topology, &scratch, NO_TCX);
    let link = gateway.report().unwrap().links.remove(0);
    assert_eq!([link.plain.guard, link.protected.guard], ["clsact", "clsact"]);
    let other_link = other.report().unwrap().links.remove(0);
    assert_eq!(other_link.plain.guard, "tcx");
    assert!(!hears(&service, a), "a stranger reaches the box's stack");
    assert!(!speaks(&service, home, a), "the box's stack speaks on a port");
    exchange(a, b, &[marked(b.mac, a.mac, super::EXPERIMENT, 90, 1)]);
    exchange(b, a, &[marked(a.mac, b.mac, super::EXPERIMENT, 90, 2)]);

    // Killed, it leaves the port shut; the next start takes over, and its stop opens the port.
    gateway.program().signal(Signal::SIGKILL).unwrap();
    let end = Instant::now() + DEADLINE;
    while gateway.program().is_running() {
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!hears(&service, a), "a killed gateway leaves the port open");
    drop(gateway);
    let gateway = station(&topology, &scratch, NO_TCX);
    assert!(!hears(&service, a));
    exchange(a, b, &[marked(b.mac, a.mac, super::EXPERIMENT, 90, 3)]);
    gateway.stop().unwrap();
    assert!(!filters(home).contains("clsact"), "{}", filters(home));
    assert!(hears_in_the_end(&service, a), "a stop leaves the port shut");

    // Somebody else's clsact stays.
    home.namespace.run(&["tc", "qdisc", "add", "dev", PLAIN, "clsact"]).unwrap();
    let gateway = station(&topology, &scratch, NO_TCX);
    assert!(!hears(&service, a));
    gateway.stop().unwrap();
    assert!(filters(home).contains("clsact"), "{}", filters(home));
    assert!(hears_in_the_end(&service, a));
    other.stop().unwrap();
}

#[test]
fn without_any_guard_run_refuses_unless_told_otherwise() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let home = &topology.gateway_a.namespace;
    let scratch = Scratch::new().unwrap();
    let choice = Choice { io: "af_packet", ..Choice::default() };
    configure(&scratch, &choice).unwrap();
    let config = scratch.path().join("a.toml").display().to_string();
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    let run = || {
        let lacking = lacking(NO_BPF);
        let command = [
            &["env", &variable][..],
            &lacking,
            &[program().to_str().unwrap(), "run", "--keep-user", &config],
        ]
        .concat();
        home.spawn(&command).unwrap().wait(DEADLINE).unwrap()
    };
    refused(&run(), 1, &["press", PLAIN, "tcx", "clsact", "unguarded = true"]);
    replace(
        &scratch.path().join("a.toml"),
        "[gateway]",
        "[gateway]
unguarded = true",
    );
    let gateway = station(&topology, &scratch, NO_BPF);
    let link = gateway.report().unwrap().links.remove(0);
    assert_eq!([link.plain.guard, link.protected.guard], ["none", "none"]);
    assert!(link.concerns.iter().any(|concern| concern.text.contains("own stack")), "{:?}", link.concerns);
    let said = gateway.stop().unwrap();
    assert!(said.contains("unguarded"), "{said}");
}

#[test]
fn a_port_that_the_box_itself_lives_on_is_refused_unless_allowed() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let home = &topology.gateway_a.namespace;
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice::default()).unwrap();
    let run = || super::start::run_in(home, &scratch, "a");
    let config = scratch.path().join("a.toml").display().to_string();
    let check = || {
        let session = format!("SSH_CONNECTION=192.0.2.9 50000 {ADDRESS} 22");
        home.run(&["env", &session, program().to_str().unwrap(), "check", &config])
    };
    let check_says = |words: &[&str]| {
        let told = match check() {
            Ok(output) => output.stderr,
            Err(error) => error.to_string(),
        };
        words.iter().for_each(|word| assert!(told.contains(word), "{word:?} is not in {told}"));
    };
    home.ip(&["addr", "add", &format!("{ADDRESS}/24"), "dev", PLAIN]).unwrap();
    refused(&run(), 1, &["press", "plain carries the address 192.0.2.1", "allow_addresses = true"]);
    check_says(&["a.toml:", "plain carries the address 192.0.2.1", "run refuses it", "YOUR SSH SESSION"]);
    // sudo takes the variable away; whoever called it still has it.
    let session = format!("SSH_CONNECTION=192.0.2.9 50000 {ADDRESS} 22");
    let through_sudo = format!("env -i {} check {config}; exit $?", program().display());
    let told = home.run(&["env", &session, "sh", "-c", &through_sudo]).unwrap_err().to_string();
    assert!(told.contains("YOUR SSH SESSION"), "{told}");
    home.ip(&["addr", "del", &format!("{ADDRESS}/24"), "dev", PLAIN]).unwrap();
    home.ip(&["link", "set", PROTECTED, "up"]).unwrap();
    home.ip(&["route", "add", "default", "dev", PROTECTED]).unwrap();
    refused(&run(), 1, &["press", "prot carries the default route for IPv4"]);
    home.ip(&["route", "del", "default"]).unwrap();
    // An address that every interface gets of itself is no reason; nor is any other, if it is allowed.
    home.sysctl("net/ipv6/conf/plain/disable_ipv6", "0").unwrap();
    home.ip(&["addr", "add", "fe80::1/64", "dev", PLAIN, "nodad"]).unwrap();
    Station::start(program(), home, &scratch, "a").unwrap().stop().unwrap();
    home.ip(&["addr", "add", &format!("{ADDRESS}/24"), "dev", PLAIN]).unwrap();
    replace(
        &scratch.path().join("a.toml"),
        "[[link]]",
        "[[link]]
allow_addresses = true",
    );
    check_says(&["WARNING: ", "cut off while the gateway runs", "YOUR SSH SESSION"]);
}

#[test]
fn ports_of_sites_and_cells_that_the_box_lives_on_are_refused_unless_allowed() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let home = &topology.gateway_a.namespace;
    home.ip(&["addr", "add", &format!("{ADDRESS}/24"), "dev", PLAIN]).unwrap();
    let scratch = Scratch::new().unwrap();
    let [config, state, key] = ["a.toml", "state", "m.key"].map(|name| scratch.path().join(name));
    home.run(&[
        program().to_str().unwrap(),
        "keygen",
        "fieldbus",
        "--user",
        "root",
        "--out",
        key.to_str().unwrap(),
    ])
    .unwrap();
    let site = format!(
        r#"[[site]]
name = "dresden"
lan = "{PLAIN}"
bind = "127.0.0.1:7787"
[[site.peer]]
name = "dump"
endpoint = "127.0.0.1:4790"
mode = "plain"
vni = 7
"#
    );
    let cell = format!(
        r#"[[fieldbus]]
name = "cell-4"
plain = "{PLAIN}"
protected = "{PROTECTED}"
rest = "drop"
master_key_file = "{}"
local = ["02:00:00:00:01:01"]
[[fieldbus.relation]]
stations = ["02:00:00:00:01:01", "02:00:00:00:01:02"]
frame_ids = [0x8001, 0x8002]
cycle = "1ms"
"#,
        key.display()
    );
    for (section, first) in [(site, "lan = "), (cell, "rest = ")] {
        let state = state.display();
        let gateway = format!("[gateway]\nname = \"a\"\nstate = \"{state}\"\nio = \"af_packet\"\n");
        std::fs::write(&config, gateway + &section).unwrap();
        let words = ["plain carries the address 192.0.2.1", "set allow_addresses = true"];
        refused(&super::start::run_in(home, &scratch, "a"), 1, &words);
        replace(&config, first, &format!("allow_addresses = true\n{first}"));
        Station::start(program(), home, &scratch, "a").unwrap().stop().unwrap();
    }
}
