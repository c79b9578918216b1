//! Time from the moment when a line is there to the first protected frame, each way.
//!
//! Both ends run and have found nobody for some seconds; then the bridge between them begins to forward. What would be
//! sent protected waits at both ends all the time, a frame every 10 ms.

use std::time::{Duration, Instant};

use lab::topology::{LEFT, WIRE};
use lab::{Capture, Machine, Topology};
use wire::EtherType;

use super::super::DEADLINE;
use super::super::guest::Guest;
use super::super::supplicant::{self, Agreement, Version};
use super::gateway::{Choice, Gateway};
use super::{GUEST_IP, GUEST_MAC, station, take_up, topology};

/// Minimum time that each end is alone before the line comes: longer than a hello time.
const ALONE: Duration = Duration::from_millis(2500);
const SECOND_MAC: &str = "02:00:00:00:00:d4";
const SECOND_IP: &str = "10.77.0.4";

/// From the line to the first protected frame, and to the first one of the other end.
type Times = [Duration; 2];

/// Lets the line come, and looks at one of its ends.
fn line_comes(topology: &Topology, port: &str, round: u32) -> Times {
    // Not always in the same phase of what the ends do every two seconds.
    std::thread::sleep(ALONE + Duration::from_millis(u64::from(round) * 370 % 2000));
    let capture = Capture::start(&topology.middle, port).unwrap();
    let begin = Instant::now();
    topology.middle.ip(&["link", "set", WIRE, "up"]).unwrap();
    let first = |direction: Option<lab::Direction>| {
        let protected = |frame: &lab::Frame| {
            frame.ethertype() == Some(EtherType::MACSEC.0)
                && direction.is_none_or(|direction| frame.direction == direction)
        };
        capture.wait_for(1, DEADLINE, protected).unwrap();
        begin.elapsed()
    };
    let any = first(None);
    first(Some(lab::Direction::In));
    [any, first(Some(lab::Direction::Out))]
}

fn line_goes(topology: &Topology) {
    topology.middle.ip(&["link", "set", WIRE, "down"]).unwrap();
}

/// Knows where the other is, and pings it without an end.
fn guest_pings(guest: &mut Guest, ip: &str, mac: &str) {
    guest.run(&format!("ip neigh replace {ip} lladdr {mac} dev macsec0 nud permanent"));
    guest.run(&format!("ping -n -q -i 0.01 -w 60 {ip} >/dev/null 2>&1 & echo $! >/run/ping"));
}

fn machine_pings(machine: &Machine, ip: &str, mac: &str) -> lab::Program {
    let device = machine.ifname;
    let neighbour = ["neigh", "replace", ip, "lladdr", mac, "dev", device, "nud", "permanent"];
    machine.namespace.ip(&neighbour).unwrap();
    machine.namespace.spawn(&["ping", "-n", "-q", "-i", "0.01", "-w", "60", ip]).unwrap()
}

fn supplicant_alone(guest: &mut Guest, priority: u8, ip: &str) {
    Agreement::of_priority(Version::V2_10, priority).start(guest);
    take_up(guest, ip);
}

fn two_supplicants(topology: &Topology, guests: &mut [Guest; 2], round: u32) -> Times {
    let [one, two] = guests;
    line_goes(topology);
    supplicant_alone(one, 16, GUEST_IP);
    supplicant_alone(two, 32, SECOND_IP);
    guest_pings(one, SECOND_IP, SECOND_MAC);
    guest_pings(two, GUEST_IP, GUEST_MAC);
    let times = line_comes(topology, one.port(), round);
    for guest in guests {
        guest.run("kill $(cat /run/ping)");
        supplicant::stop(guest);
    }
    times
}

fn ours_and_supplicant(topology: &Topology, guest: &mut Guest, priority: u8, round: u32) -> Times {
    line_goes(topology);
    let gateway = Gateway::start(&topology.gateway_a.namespace, "a", &Choice::of_priority(priority));
    supplicant_alone(guest, 16, GUEST_IP);
    let machine = &topology.machine_a;
    guest_pings(guest, &machine.ipv4.to_string(), &mac(machine));
    let _pings = machine_pings(machine, GUEST_IP, GUEST_MAC);
    let times = line_comes(topology, LEFT, round);
    guest.run("kill $(cat /run/ping)");
    supplicant::stop(guest);
    gateway.stop();
    times
}

fn two_of_ours(topology: &Topology, round: u32) -> Times {
    line_goes(topology);
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let one = Gateway::start(&topology.gateway_a.namespace, "a", &Choice::of_priority(16));
    let two = Gateway::start(&topology.gateway_b.namespace, "b", &Choice::of_priority(32));
    let _pings =
        [(a, b), (b, a)].map(|(own, other)| machine_pings(own, &other.ipv4.to_string(), &mac(other)));
    let times = line_comes(topology, LEFT, round);
    one.stop();
    two.stop();
    times
}

fn mac(machine: &Machine) -> String {
    wire::MacAddr(machine.mac).to_string()
}

/// Prints a table; judges nothing, for figures depend on the machine and on what else it does.
#[test]
#[ignore = "a measurement: cargo test --workspace --test interop -- --ignored --nocapture first_protected"]
fn time_to_the_first_protected_frame() {
    let rounds = std::env::var("FRAMEWARD_ROUNDS").map_or(5, |rounds| rounds.parse().unwrap());
    let topology = topology();
    let mut guests = [GUEST_MAC, SECOND_MAC].map(|mac| station(&topology, Version::V2_10, mac));
    println!("milliseconds from the line to the first protected frame, and to the first of the other end");
    println!("round  two supplicants   ours is key server   supplicant is it   two of ours");
    for round in 0..rounds {
        let rows = [
            two_supplicants(&topology, &mut guests, round),
            ours_and_supplicant(&topology, &mut guests[0], 8, round),
            ours_and_supplicant(&topology, &mut guests[0], 32, round),
            two_of_ours(&topology, round),
        ];
        let cells = rows.map(|[one, two]| format!("{:6} {:6}", one.as_millis(), two.as_millis()));
        println!("{round:5}  {}", cells.join("      "));
    }
}
