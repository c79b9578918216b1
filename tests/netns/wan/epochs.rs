//! Packets that were held back while epochs went by.

use std::time::{Duration, Instant};

use lab::plants::PROBE;
use lab::topology::{LEFT, RIGHT};
use lab::{Capture, PacketSocket};

use super::{DEADLINE, PROTECTED, Wan};

/// A sender begins no two epochs in less, and the old one is received for two seconds more.
const A_SECOND: Duration = Duration::from_millis(1050);
const OVERLAP: Duration = Duration::from_millis(2050);

/// With identifiers an epoch lasts an hour; the same on a virtual clock: crates/tunnel/tests/epochs.rs.
#[test]
fn packets_of_an_epoch_that_is_over_are_refused_though_they_never_arrived() {
    let mut wan = Wan::new(PROTECTED[1]);
    // As if the station had been there for long.
    wan.pn = 100_000;
    wan.cross(200, 32);
    let epoch = |wan: &Wan| wan.transmit_epoch(0);
    let first = epoch(&wan);

    // Half of them arrive before the line is cut, and are replayed; the others never did.
    let mut old = wan.captured(|wan| wan.cross(200, 32));
    let mut held = PacketSocket::open(wan.line(1), RIGHT).unwrap();
    wan.line(1).ip(&["link", "set", "wire", "down"]).unwrap();
    wan.frames_into(0, 200, 32);
    let end = Instant::now() + DEADLINE;
    while old.len() < 64 {
        assert!(Instant::now() < end, "{} packets", old.len());
        let packet = held.receive().unwrap();
        old.extend(packet.filter(|packet| wan.is_data(&packet.octets)).map(|packet| packet.octets));
    }
    wan.line(1).ip(&["link", "set", "wire", "up"]).unwrap();
    drop(held);
    assert_eq!(epoch(&wan), first);

    for after in 1..=2 {
        std::thread::sleep(A_SECOND);
        let end = Instant::now() + DEADLINE;
        while epoch(&wan) < first + after {
            assert!(Instant::now() < end, "{:#?}", wan.peer(0));
            // The station's PNs begin again, for which the sender begins a new epoch.
            wan.pn = 1;
            wan.frames_into(0, 200, 1);
        }
        wan.cross(200, 32);
    }
    // The epoch before the last one goes as well.
    std::thread::sleep(OVERLAP);
    let before = ["InPktsNotValid", "InPktsReplayed"].map(|name| wan.count(1, name));
    let lan = Capture::start(wan.probe(1).namespace, PROBE).unwrap();
    let attacker = PacketSocket::open(wan.line(1), LEFT).unwrap();
    for packet in &old {
        attacker.send(packet).unwrap();
    }
    wan.wait_for_count(1, "InPktsNotValid", before[0] + 64);
    assert_eq!(wan.count(1, "InPktsReplayed"), before[1], "there is no key any more that would open them");
    assert_eq!(lan.stop().unwrap().complete().unwrap().of_ethertype(0x88e5).count(), 0);
    wan.cross(200, 32);
    wan.stop();
}
