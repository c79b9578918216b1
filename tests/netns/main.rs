//! The program end to end: the real `frameward`, run twice, between two machines, over a network that is watched.
//!
//! ```text
//!  machine A        gateway A             middle             gateway B        machine B
//! +---------+    +-------------+    +----------------+    +-------------+    +---------+
//! |      a0 |----| plain  prot |----| left     right |----| prot  plain |----| b0      |
//! +---------+    +-------------+    |  \__ wire __/  |    +-------------+    +---------+
//!                  frameward run    +----------------+      frameward run
//!                                    captures, attacks
//! ```
//!
//! Needs root, and says so. Every test makes its own namespaces and removes them.
#![allow(clippy::unwrap_used, clippy::panic)] // a test's own set-up fails loudly

mod antedate;
mod arrival;
mod buses;
mod cells;
mod checksums;
mod cover;
mod crowd;
mod disk;
mod doctor;
mod everything;
mod exchange;
mod exchanged;
mod express;
mod express_static;
mod fieldbus;
mod fleet;
mod fragments;
mod guard;
mod held_links;
mod hostile;
mod http;
mod init;
mod kernel_default;
mod kernel_life;
mod kernel_link;
mod kernel_path;
mod kernel_reload;
mod kernel_site;
mod kernels;
mod kills;
mod learn;
mod lifecycle;
mod links;
mod loss;
mod lost_frames;
mod mesh;
mod mka;
mod names;
mod neighbours;
mod onebox;
mod operators;
mod order;
mod padding;
mod page;
mod peers;
mod plants;
mod privileges;
mod protocols;
mod relayed;
mod reload;
mod restored;
mod rogue;
mod secrets;
mod service;
mod silent;
mod sites;
mod standby;
mod start;
mod steps;
mod suites;
mod unreached;
mod upgrade;
mod upgrade_cell;
mod upgrade_kernel;
mod upgrade_site;
mod uplink;
mod vanish;
mod wan;
mod words;

use std::path::Path;
use std::time::{Duration, Instant};

use lab::topology::Mac;
use lab::{Direction, Machine, PacketSocket, Shape, Topology};
use perf::demo::pair::{Choice, Pair};
use report::{Counters, GatewayReport};
use testkit::frames;
use wire::{EtherType, MacAddr};

/// The program under test.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_frameward"))
}

/// Time limit for anything, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Octets that no frame but ours contains, and no protected frame may contain.
const MARKER: &[u8; 16] = b"plaintext-marker";

/// An EtherType for experiments (IEEE 802): the kernel's stack ignores it.
const EXPERIMENT: EtherType = EtherType(0x88b5);

fn lab(shape: &Shape, choice: &Choice) -> (Topology, Pair) {
    let topology = Topology::build(shape).unwrap();
    let pair = Pair::start(program(), &topology, choice).unwrap();
    (topology, pair)
}

/// A frame between machines whose payload begins with as much of the marker as has room.
fn marked(to: Mac, from: Mac, ethertype: EtherType, payload_octets: usize, seed: u64) -> Vec<u8> {
    let mut payload = frames::payload(payload_octets, seed);
    let marked = payload_octets.min(MARKER.len());
    payload[..marked].copy_from_slice(&MARKER[..marked]);
    frames::ethernet(MacAddr(to), MacAddr(from), ethertype, &payload)
}

/// Sends frames from one machine to another and sees each arrive once, in order, octet for octet.
fn exchange(from: &Machine, to: &Machine, frames: &[Vec<u8>]) {
    let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
    let mut receiver = PacketSocket::open(&to.namespace, to.ifname).unwrap();
    // No more under way than the smallest queue on it holds.
    for window in frames.chunks(64) {
        for frame in window {
            sender.send(frame).unwrap();
        }
        for frame in window {
            assert_eq!(next(&mut receiver).as_ref(), Some(frame), "{} octets", frame.len());
        }
    }
}

/// The next frame that a machine receives of those that we send, within the deadline.
fn next(receiver: &mut PacketSocket) -> Option<Vec<u8>> {
    let end = Instant::now() + DEADLINE;
    while Instant::now() < end {
        match receiver.receive().unwrap() {
            Some(frame) if frame.direction == Direction::In && !is_noise(&frame.octets) => {
                return Some(frame.octets);
            }
            _ => {}
        }
    }
    None
}

/// The machines' own ARP and IPv6, where a test has them on.
fn is_noise(frame: &[u8]) -> bool {
    matches!(frame.get(12..14), Some([0x08, 0x06] | [0x86, 0xdd]))
}

/// The value of a counter.
fn counter(counters: &Counters, name: &str) -> u64 {
    let found = counters.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}

/// Waits until `read` is `expected` in a gateway's report.
fn wait_for(report: impl Fn() -> GatewayReport, expected: u64, read: impl Fn(&GatewayReport) -> u64) {
    let end = Instant::now() + DEADLINE;
    loop {
        let report = report();
        if read(&report) == expected {
            return;
        }
        assert!(Instant::now() < end, "{} instead of {expected}: {report:#?}", read(&report));
        std::thread::sleep(Duration::from_millis(20));
    }
}
