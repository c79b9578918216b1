//! Protected cyclic frames between plants, behind the VLAN tag that machines give them.

use std::time::Instant;

use lab::plants::PROBE;
use lab::{Direction, PacketSocket};
use testkit::frames::payload;

use super::{DEADLINE, PROTECTED, Wan};

/// A frame of a relation, as a cell's gateway protects it.
fn cyclic(to: [u8; 6], from: [u8; 6], seq: u32) -> Vec<u8> {
    let header = [0x81, 0x00, 0xc0, 0x00, 0x88, 0xb5, 0x80, 0x01, 7];
    [&to[..], &from, &header, &seq.to_be_bytes(), &payload(56, seq.into())].concat()
}

#[test]
fn cyclic_frames_of_cells_cross_in_order() {
    const COUNT: u32 = 2000;
    let mut wan = Wan::with(PROTECTED[0], "cells = 0x88b5");
    for index in [0, 1] {
        let (from, to) = (wan.probe(index), wan.probe(1 - index));
        let sender = PacketSocket::open(from.namespace, PROBE).unwrap();
        let mut receiver = PacketSocket::open(to.namespace, PROBE).unwrap();
        for first in (1..=COUNT).step_by(32) {
            let frames: Vec<_> =
                (first..(first + 32).min(COUNT + 1)).map(|seq| cyclic(to.mac, from.mac, seq)).collect();
            frames.iter().for_each(|frame| sender.send(frame).unwrap());
            for frame in &frames {
                let end = Instant::now() + DEADLINE;
                loop {
                    assert!(
                        Instant::now() < end,
                        "a frame from {first} on is missing: {:#?}",
                        wan.report(index)
                    );
                    match receiver.receive().unwrap() {
                        Some(came) if came.direction == Direction::In && came.octets[..12] == frame[..12] => {
                            assert_eq!(came.octets, *frame);
                            break;
                        }
                        _ => {}
                    }
                }
            }
        }
        assert!(wan.count(index, "OutPktsTunnelled") >= COUNT.into());
        assert_eq!(wan.count(index, "OutPktsCyclic") + wan.count(index, "OutPktsNotMacsec"), 0);
    }
    // Known MACsec flows go on beside them.
    wan.cross(200, 64);
    wan.stop();
}
