//! Interfaces are refused with a reason, changed, and put back as they were: needs root.

#![allow(clippy::unwrap_used)]

#[path = "netns/bench.rs"]
mod bench;
mod netns;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bench::{ENGINES, Forwarder};
use netdev::af_packet::AfPacket;
use netdev::af_xdp::{AfXdp, Attach};
use netdev::burst::Burst;
use netdev::interface::{Guard, Interface, InterfaceError, Prepared};
use netdev::pool::{ChunkOctets, Pool};
use netdev::port::Port;
use netns::{Machine, PATIENCE, StateDirectory, frame, in_namespace, run, wire, wires};

/// All that is changed on an interface, in one text.
fn settings(name: &str) -> String {
    let offloads = run(&format!("ethtool -k {name}"));
    let link = run(&format!("ip -o link show {name}"));
    let flags = link.split_once('<').unwrap().1.split_once('>').unwrap().0.to_owned();
    let ipv6 = fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6")).unwrap();
    // Carrier comes and goes with the other end.
    let flags: Vec<_> = flags.split(',').filter(|flag| !matches!(*flag, "LOWER_UP" | "NO-CARRIER")).collect();
    format!("{offloads}\n{flags:?}\n{ipv6}")
}

/// A wire whose port end is down, speaks IPv6 and merges frames: everything to be changed.
fn a_wire_to_be_changed() {
    wire("a0", "plain", 1, 1500);
    run("ip link set plain down");
    fs::write("/proc/sys/net/ipv6/conf/plain/disable_ipv6", "0").unwrap();
    run("ethtool -K plain gro on");
}

#[test]
fn what_cannot_be_used_is_refused_with_a_reason() {
    in_namespace(|| {
        wires(1, 1500);
        run("ip link add bridge0 type bridge");
        wire("c0", "member", 1, 1500);
        run("ip link set member master bridge0");
        for (name, reason) in [
            ("enp9s9", "interface enp9s9 does not exist; 'ip link' lists those that do"),
            ("", "interface  does not exist; 'ip link' lists those that do"),
            (
                "a name that no interface can have",
                "interface a name that no interface can have does not exist",
            ),
            ("lo", "interface lo is not Ethernet (hardware type 772); choose one that is"),
            ("member", "interface member is busy: it belongs to bridge bridge0; release it with"),
        ] {
            let error = Interface::open(name).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let [plain, protected] = ["plain", "protected"].map(|name| Interface::open(name).unwrap());
        let mut pool = Pool::new(ChunkOctets::Octets2048, 4096).unwrap();
        let ports = AfXdp::open_pair(&plain, &protected, &mut pool, Attach::default()).unwrap();
        assert!(matches!(Interface::open("plain"), Err(InterfaceError::XdpBusy { .. })));
        drop(ports);
        Interface::open("plain").unwrap();
    });
}

#[test]
fn an_interface_says_what_it_is() {
    in_namespace(|| {
        wire("a0", "plain", 4, 1400);
        run("ip link set plain address 02:00:00:00:00:17");
        run("ip addr add 192.0.2.1/24 dev plain");
        let plain = Interface::open("plain").unwrap();
        assert_eq!((plain.name(), plain.mtu(), plain.is_up()), ("plain", 1400, true));
        assert_eq!((plain.mac(), plain.kind()), ([2, 0, 0, 0, 0, 0x17], "veth"));
        assert_eq!((plain.receive_queues(), plain.addresses()), (Some(4), &["192.0.2.1".to_owned()][..]));
        run("ip link set plain down");
        assert!(!Interface::open("plain").unwrap().is_up());
    });
}

#[test]
fn settings_are_changed_and_put_back() {
    in_namespace(|| {
        let state = StateDirectory::new("settings");
        a_wire_to_be_changed();
        let before = settings("plain");
        assert!(before.contains("rx-vlan-offload: on") && before.contains("generic-receive-offload: on"));
        let prepared = Prepared::apply(Interface::open("plain").unwrap(), &state.0).unwrap();
        let during = settings("plain");
        for change in ["generic-receive-offload: off", "rx-vlan-offload: off", "\"NOARP\"", "\"UP\"", "\n1\n"]
        {
            assert!(during.contains(change), "{change} is missing in {during}");
        }
        assert!(prepared.remaining_offloads().is_empty() && prepared.guard() == Guard::Tcx, "{prepared:?}");
        let second = Prepared::apply(Interface::open("plain").unwrap(), &state.0).unwrap_err();
        assert!(matches!(second, InterfaceError::Taken { .. }), "{second}");
        prepared.restore().unwrap();
        assert_eq!(settings("plain"), before);
        assert!(state.is_empty(), "no record is left");
        // By drop as well, and with ports that were open meanwhile.
        wire("b0", "protected", 1, 1500);
        let prepared = ["plain", "protected"]
            .map(|name| Prepared::apply(Interface::open(name).unwrap(), &state.0).unwrap());
        let [plain, protected] = prepared.each_ref().map(Prepared::interface);
        let mut pool = Pool::new(ChunkOctets::Octets2048, 4096).unwrap();
        drop(AfXdp::open_pair(plain, protected, &mut pool, Attach::default()).unwrap());
        drop(prepared);
        assert_eq!(settings("plain"), before);
        assert!(state.is_empty());
    });
}

/// The program that is killed below: prepares `plain` and waits for its end.
#[test]
#[ignore = "a helper process of what_a_killed_process_left_is_put_right"]
fn holds_an_interface_until_it_is_killed() {
    let state = std::env::var("FRAMEWARD_TEST_STATE").expect("run by its parent");
    let interface = Interface::open("plain").unwrap();
    let pool = Pool::new(ChunkOctets::Octets2048, 16).unwrap();
    let prepared = Prepared::apply(interface, Path::new(&state)).unwrap();
    let _port = AfPacket::open(prepared.interface(), &pool).unwrap();
    println!("\nholding");
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Starts the helper in this namespace, waits until it holds the interface, and kills it.
fn hold_and_kill(state: &StateDirectory) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "holds_an_interface_until_it_is_killed"])
        .env("FRAMEWARD_TEST_STATE", &state.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let held = lines.map_while(Result::ok).any(|line| line == "holding");
    assert!(held, "the helper ended early");
    assert!(settings("plain").contains("generic-receive-offload: off"));
    let in_use = Prepared::apply(Interface::open("plain").unwrap(), &state.0).unwrap_err();
    assert!(
        in_use.to_string().starts_with("interface plain is busy: another running gateway has it"),
        "{in_use}"
    );
    assert!(run("ip -d link show plain").contains("promiscuity 1"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(run("ip -d link show plain").contains("promiscuity 0"), "promiscuous mode ends of itself");
}

#[test]
fn what_a_killed_process_left_is_put_right() {
    in_namespace(|| {
        let state = StateDirectory::new("killed");
        a_wire_to_be_changed();
        let before = settings("plain");
        hold_and_kill(&state);
        assert_ne!(settings("plain"), before);
        // By the next start on that interface, which then records what was before the killed one.
        let prepared = Prepared::apply(Interface::open("plain").unwrap(), &state.0).unwrap();
        prepared.restore().unwrap();
        assert_eq!(settings("plain"), before);
        assert!(state.is_empty());
        // By a start that has nothing to do with it any more, under a new name.
        hold_and_kill(&state);
        run("ip link set plain down");
        run("ip link set plain name renamed");
        Prepared::restore_stale(&state.0).unwrap();
        run("ip link set renamed name plain");
        assert_eq!(settings("plain"), before);
        assert!(state.is_empty());
    });
}

#[test]
fn interfaces_that_vanished_need_nothing() {
    in_namespace(|| {
        let state = StateDirectory::new("vanished");
        a_wire_to_be_changed();
        let prepared = Prepared::apply(Interface::open("plain").unwrap(), &state.0).unwrap();
        run("ip link del plain");
        prepared.restore().unwrap();
        assert!(state.is_empty());
        // A killed one's, whose number another interface has taken over.
        a_wire_to_be_changed();
        hold_and_kill(&state);
        let index = Interface::open("plain").unwrap().index();
        run("ip link del plain");
        run(&format!("ip link add other index {index} type bridge"));
        run("ip link set other up arp off");
        Prepared::restore_stale(&state.0).unwrap();
        assert!(run("ip link show other").contains("NOARP,UP"), "another interface is left alone");
        assert!(state.is_empty());
    });
}

#[test]
fn records_of_another_boot_or_of_somebody_else_change_nothing() {
    in_namespace(|| {
        let state = StateDirectory::new("records");
        a_wire_to_be_changed();
        hold_and_kill(&state);
        let path = state.0.join("interface-plain");
        let record = fs::read_to_string(&path).unwrap();
        let during = settings("plain");
        fs::write(&path, record.replace("boot ", "boot 0")).unwrap();
        Prepared::restore_stale(&state.0).unwrap();
        assert_eq!(settings("plain"), during);
        assert!(state.is_empty());
        // Cut short: it was killed before it changed anything.
        fs::write(&path, &record[..record.len() - 2]).unwrap();
        Prepared::restore_stale(&state.0).unwrap();
        assert!(state.is_empty());
        fs::write(&path, record.replace("was down", "was asleep")).unwrap();
        let error = Prepared::apply(Interface::open("plain").unwrap(), &state.0).unwrap_err().to_string();
        assert!(error.contains("interface-plain:6: not a record of interface settings"), "{error}");
        assert_eq!(settings("plain"), during);
        fs::write(&path, &record).unwrap();
        Prepared::restore_stale(&state.0).unwrap();
        assert_ne!(settings("plain"), during);
    });
}

#[test]
fn an_interface_is_one_gateways_whatever_the_state_directory() {
    in_namespace(|| {
        let states = ["one", "other"].map(StateDirectory::new);
        let apply = |at: usize| Prepared::apply(Interface::open("plain").unwrap(), &states[at].0);
        a_wire_to_be_changed();
        // Changes that the other one left when it was killed stay as they are while the first has the interface.
        hold_and_kill(&states[1]);
        let first = apply(0).unwrap();
        let during = settings("plain");
        let error = apply(1).unwrap_err();
        assert!(matches!(error, InterfaceError::Taken { .. }), "{error}");
        Prepared::restore_stale(&states[1].0).unwrap();
        assert_eq!(settings("plain"), during);
        assert!(!states[1].is_empty());
        first.restore().unwrap();
        apply(1).unwrap().restore().unwrap();
        assert!(states.iter().all(StateDirectory::is_empty));
    });
}

#[test]
fn of_many_that_take_an_interface_at_once_one_does() {
    const MANY: usize = 8;
    in_namespace(|| {
        a_wire_to_be_changed();
        let states: [StateDirectory; MANY] =
            std::array::from_fn(|number| StateDirectory::new(&format!("many-{number}")));
        for round in 0..4 {
            let (begin, end) = (std::sync::Barrier::new(MANY), std::sync::Barrier::new(MANY));
            let taken = std::thread::scope(|scope| {
                let all = states.each_ref().map(|state| {
                    let (begin, end) = (&begin, &end);
                    scope.spawn(move || {
                        begin.wait();
                        let prepared = Prepared::apply(Interface::open("plain").unwrap(), &state.0);
                        // Nobody lets go before all have tried.
                        end.wait();
                        prepared.is_ok()
                    })
                });
                all.map(|one| one.join().unwrap()).into_iter().filter(|taken| *taken).count()
            });
            assert_eq!(taken, 1, "round {round}");
        }
    });
}

#[test]
fn a_state_directory_that_cannot_be_written_stops_the_start_before_any_change() {
    in_namespace(|| {
        a_wire_to_be_changed();
        let before = settings("plain");
        let error =
            Prepared::apply(Interface::open("plain").unwrap(), Path::new("/proc/frameward")).unwrap_err();
        assert!(error.to_string().contains("/proc/frameward"), "{error}");
        assert_eq!(settings("plain"), before);
    });
}

/// Octets of an ARP request for 192.0.2.1.
fn arp_request() -> Vec<u8> {
    let mut frame = frame(42, 0);
    frame[..6].fill(0xff);
    frame[12..22].copy_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    frame[22..28].copy_from_slice(&[2, 0, 0, 0, 0, 0xa0]);
    frame[28..32].copy_from_slice(&[192, 0, 2, 2]);
    frame[32..38].fill(0);
    frame[38..42].copy_from_slice(&[192, 0, 2, 1]);
    frame
}

#[test]
fn the_hosts_stack_neither_speaks_nor_hears_while_the_port_does() {
    in_namespace(|| {
        let state = StateDirectory::new("guard");
        a_wire_to_be_changed();
        run("ip link set plain up");
        run("ip addr add 192.0.2.1/24 dev plain");
        let machine = Machine::on("a0");
        // A wire that has just come up may lose the first.
        let answered = (0..20).any(|_| {
            machine.send(&arp_request());
            std::iter::from_fn(|| machine.receive(Duration::from_millis(250)))
                .any(|frame| frame[12..14] == [0x08, 0x06])
        });
        assert!(answered, "without a guard the host answers: else this test shows nothing");

        let prepared = Prepared::apply(Interface::open("plain").unwrap(), &state.0).unwrap();
        while machine.receive(Duration::from_millis(100)).is_some() {}
        let mut pool = Pool::new(ChunkOctets::Octets2048, 256).unwrap();
        let mut port = AfPacket::open(prepared.interface(), &pool).unwrap();
        machine.send(&arp_request());
        // A ping that the host sends, and a raw frame of another program.
        run("ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:a0 dev plain");
        let ping = Command::new("ping").args(["-c1", "-W1", "192.0.2.2"]).output();
        assert!(ping.is_ok_and(|output| !output.status.success()));
        // Its sender is even told.
        Machine::on("plain").try_send(&frame(60, 1)).unwrap_err();
        assert_eq!(machine.receive(Duration::from_millis(300)), None, "nothing of the host's gets out");

        let mut burst = Burst::new();
        port.receive(&mut pool, &mut burst);
        assert_eq!(burst.len(), 1, "the port hears what the host does not");
        assert_eq!(pool.frame(&burst.slots()[0]), arp_request());
        port.transmit(&mut pool, &mut burst);
        assert_eq!(machine.receive(PATIENCE), Some(arp_request()), "and it speaks");
    });
}

#[test]
fn prepared_interfaces_forward_on_every_engine() {
    for engine in ENGINES {
        in_namespace(move || {
            let state = StateDirectory::new(&format!("forward-{engine:?}"));
            wires(2, 1500);
            run("ip link set plain down");
            let prepared = ["plain", "protected"]
                .map(|name| Prepared::apply(Interface::open(name).unwrap(), &state.0).unwrap());
            let mut forwarder = Forwarder::open(engine);
            let (left, right) = (Machine::on("a0"), Machine::on("b0"));
            for (number, (from, to)) in [(&left, &right), (&right, &left)].into_iter().enumerate() {
                from.send(&frame(1514, number));
                assert_eq!(forwarder.forward(1, PATIENCE), 1, "{engine:?}");
                assert_eq!(to.receive(PATIENCE), Some(frame(1514, number)), "{engine:?}");
            }
            drop(forwarder);
            for prepared in prepared {
                prepared.restore().unwrap();
            }
            assert!(!Interface::open("plain").unwrap().is_up());
        });
    }
}
