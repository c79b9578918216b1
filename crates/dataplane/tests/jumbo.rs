//! Frames longer than a page on real (virtual) wires: received as several of the kernel's chunks, and sent so.
//! Each test in a network namespace that it makes: needs root, and for AF_XDP Linux 6.6.

#![allow(clippy::unwrap_used)]

#[path = "../../netdev/tests/netns/bench.rs"]
mod bench;
#[path = "../../netdev/tests/netns/mod.rs"]
mod netns;

use std::thread;
use std::time::Duration;

use bench::{ENGINES, Engine, Forwarder, exchange};
use dataplane::open::{Io, OpenPorts, open_ports};
use netdev::interface::{Prepared, Tolerated};
use netdev::pool::{ChunkOctets, HEADROOM, TAILROOM};
use netdev::port::PortError;
use netns::{Machine, PATIENCE, StateDirectory, frame, in_namespace, run, tagged, wire, wires};

const C_TAG: [u8; 4] = [0x81, 0x00, 0xc0, 0x05];
const S_TAG: [u8; 4] = [0x88, 0xa8, 0x20, 0x07];

/// Octets that the kernel puts into one of its chunks.
const PIECE: usize = 4096 - HEADROOM;

fn open(engine: Engine) -> Forwarder {
    Forwarder::try_open(engine, ChunkOctets::Octets16384).unwrap()
}

/// Sizes up to the longest of an MTU: in steps, and each near where one more chunk is needed, to receive, to send,
/// or in the driver.
fn sizes(mtu: usize) -> Vec<usize> {
    let longest = mtu + 14;
    let borders = (1..5).flat_map(|pieces| {
        [pieces * PIECE, PIECE + (pieces - 1) * 4096, pieces * 4096, pieces * 4096 - HEADROOM - 320]
    });
    let mut sizes: Vec<usize> = (14..=longest)
        .step_by(61)
        .chain(borders.flat_map(|border| border - 3..=border + 3))
        .chain(14..100)
        .chain(longest - 3..=longest)
        .filter(|octets| *octets <= longest)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[test]
fn every_size_and_tag_passes_both_ways() {
    for engine in ENGINES {
        for mtu in [9000, 3600, 1500] {
            in_namespace(move || {
                wires(1, mtu);
                let mut forwarder = open(engine);
                let sizes = sizes(mtu as usize);
                let mut frames: Vec<Vec<u8>> = sizes.iter().map(|&octets| frame(octets, octets)).collect();
                let tag_pair = [S_TAG, C_TAG].concat();
                for &octets in sizes.iter().step_by(4).filter(|octets| **octets > 16) {
                    // A packet socket, which the machine is, takes only the tag of a C-VLAN above the MTU.
                    for tags in [&S_TAG[..], &tag_pair] {
                        if octets + tags.len() <= mtu as usize + 14 {
                            frames.push(tagged(frame(octets, octets), tags));
                        }
                    }
                }
                frames.push(tagged(frame(mtu as usize + 14, 1), &C_TAG));
                frames.push(tagged(frame(mtu as usize + 10, 1), &[C_TAG, C_TAG].concat()));
                exchange(&mut forwarder, &frames);
                let expected = match engine {
                    Engine::AfPacket => "af_packet",
                    Engine::Native => "af_xdp native multi-buffer, ",
                    Engine::Generic => "af_xdp generic multi-buffer, ",
                };
                assert!(forwarder.ports[0].description().starts_with(expected));
            });
        }
    }
}

#[test]
fn every_receive_queue_gathers_for_itself() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(3, 9000);
            let mut forwarder = open(engine);
            let (sender, receiver) = (Machine::on("a0"), Machine::on("b0"));
            let mut sent: Vec<Vec<u8>> = (0..300).map(|number| frame(9014 - number * 29, number)).collect();
            sent.iter().for_each(|frame| sender.send(frame));
            assert_eq!(forwarder.forward(300, PATIENCE), 300, "{engine:?}");
            let mut seen: Vec<Vec<u8>> = (0..300).map(|_| receiver.receive(PATIENCE).unwrap()).collect();
            // The queues are not in order with each other.
            sent.sort_unstable();
            seen.sort_unstable();
            assert!(seen == sent, "{engine:?}");
            forwarder.assert_no_chunk_lost();
        });
    }
}

#[test]
fn a_frame_stands_whole_between_headroom_and_tailroom() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(1, 16074);
            let mut forwarder = open(engine);
            let sender = Machine::on("a0");
            // Two tags need not pass veth, but there is room for them.
            let longest = 16384 - HEADROOM - TAILROOM - 4;
            let frames = [tagged(frame(longest - 4, 1), &C_TAG), frame(60, 2), frame(9014, 3)];
            frames.iter().for_each(|frame| sender.send(frame));
            let mut seen = Vec::new();
            while seen.len() < frames.len() {
                forwarder.wait(PATIENCE);
                forwarder.turn(|octets, start| {
                    assert_eq!(start, HEADROOM);
                    seen.push(octets.to_vec());
                });
            }
            assert!(seen == frames, "{engine:?}");
        });
    }
}

#[test]
fn frames_of_other_lengths_and_places_leave_as_they_are() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(1, 9000);
            let mut forwarder = open(engine);
            let (sender, receiver) = (Machine::on("a0"), Machine::on("b0"));
            // As a tag in front or an octet less make it, and wherever in its chunk a frame was put together.
            for start in [0, 1, 224, 255, 257, 1000, 3839, 3841, 4090, 4096, 7000] {
                for len in [14, 60, 256, 257, 3840, 4096, 4097, 8192, 9014] {
                    sender.send(&frame(60, len));
                    let expected = frame(len, start);
                    forwarder.forward_changed(|chunk| {
                        chunk[start..start + len].copy_from_slice(&expected);
                        (start, len)
                    });
                    let seen = receiver.receive(PATIENCE);
                    assert!(seen.as_ref() == Some(&expected), "{engine:?}: {len} octets at {start}");
                }
            }
            forwarder.assert_no_chunk_lost();
        });
    }
}

#[test]
fn one_side_may_be_jumbo_and_the_other_not() {
    for engine in ENGINES {
        for (large, small) in [("plain", "protected"), ("protected", "plain")] {
            in_namespace(move || {
                wire("l0", large, 1, 9000);
                wire("s0", small, 1, 1500);
                let mut forwarder = open(engine);
                let (jumbo, other) = (Machine::on("l0"), Machine::on("s0"));
                for (number, octets) in [9014, 1515, 3841, 1514, 5000, 60].into_iter().enumerate() {
                    jumbo.send(&frame(octets, number));
                }
                assert_eq!(forwarder.forward(6, PATIENCE), 6, "{engine:?}");
                for (number, octets) in [(3, 1514), (5, 60)] {
                    assert_eq!(other.receive(PATIENCE), Some(frame(octets, number)), "{engine:?}");
                }
                other.send(&frame(1514, 9));
                assert_eq!(forwarder.forward(1, PATIENCE), 1);
                assert_eq!(jumbo.receive(PATIENCE), Some(frame(1514, 9)), "{engine:?}");
                let side = usize::from(small == "protected");
                let counters = forwarder.ports[side].counters();
                assert_eq!((counters.tx_too_long, counters.tx_frames), (4, 2), "{engine:?}");
                forwarder.assert_no_chunk_lost();
            });
        }
    }
}

#[test]
fn no_chunk_is_lost_in_50_000_frames_at_full_speed() {
    for engine in ENGINES {
        in_namespace(move || {
            const FRAMES: usize = 50_000;
            wires(1, 9000);
            let mut forwarder = open(engine);
            let at_rest = forwarder.pool.free();
            let (left, right) = (Machine::on("a0"), Machine::on("b0"));
            let sink = Machine::on("b0");
            let (mut forwarded, mut seen) = (0, 0);
            let size = |number: usize| 60 + (number * 7919) % 8955;
            thread::scope(|scope| {
                let senders = [&left, &right].map(|machine| {
                    scope.spawn(move || {
                        for number in 0..FRAMES / 2 {
                            // A full queue of the sender's is not what is tested.
                            let _ = machine.try_send(&frame(size(number), number));
                        }
                    })
                });
                loop {
                    let all_sent = senders.iter().all(|sender| sender.is_finished());
                    let now = forwarder.forward(5_000, Duration::from_millis(500));
                    while let Some(octets) = sink.receive_now() {
                        // Nothing is glued or cut: what comes out is one of those that were sent.
                        let sent = |number: usize| {
                            size(number) == octets.len() && frame(size(number), number) == octets
                        };
                        if seen % 20 == 0 {
                            assert!((0..FRAMES / 2).any(sent), "{} octets", octets.len());
                        }
                        seen += 1;
                    }
                    forwarded += now as u64;
                    if now == 0 && all_sent {
                        break;
                    }
                }
            });
            forwarder.drain();
            let [plain, protected] = &mut forwarder.ports;
            let (plain, protected) = (plain.counters(), protected.counters());
            for counters in [&plain, &protected] {
                assert_eq!((counters.bad_descriptors, counters.tx_malformed), (0, 0), "{engine:?}");
                assert_eq!((counters.rx_invalid_descriptors, counters.tx_invalid_descriptors), (0, 0));
                assert_eq!((counters.rx_too_long, counters.tx_too_long), (0, 0), "{engine:?}");
            }
            assert_eq!(plain.rx_frames + protected.rx_frames, forwarded, "{engine:?}");
            assert_eq!(plain.rx_frames, protected.tx_frames + protected.tx_dropped, "{engine:?}");
            assert_eq!(protected.rx_frames, plain.tx_frames + plain.tx_dropped, "{engine:?}");
            assert!(forwarded > FRAMES as u64 / 10, "{engine:?} forwarded {forwarded}");
            assert!(seen > 0);
            forwarder.assert_no_chunk_lost();
            assert_eq!(forwarder.pool.free(), at_rest, "{engine:?}: all that was sent is back");
        });
    }
}

#[test]
fn a_dead_peer_costs_counted_frames_and_nothing_else() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(1, 9000);
            let mut forwarder = open(engine);
            let at_rest = forwarder.pool.free();
            let (sender, receiver) = (Machine::on("a0"), Machine::on("b0"));
            run("ip link set b0 down");
            for batch in 0..10 {
                (0..50).for_each(|number| sender.send(&frame(9014 - number, batch * 50 + number)));
                assert_eq!(forwarder.forward(50, PATIENCE), 50, "{engine:?}");
            }
            forwarder.drain();
            let counters = forwarder.ports[1].counters();
            assert_eq!(counters.tx_dropped + counters.tx_kernel_dropped, 500, "{engine:?}: {counters:?}");
            assert_eq!(forwarder.pool.free(), at_rest, "{engine:?}: none is stuck");
            run("ip link set b0 up");
            sender.send(&frame(9014, 7));
            assert_eq!(forwarder.forward(1, PATIENCE), 1);
            assert_eq!(receiver.receive(PATIENCE), Some(frame(9014, 7)), "{engine:?}: alive again");
        });
    }
}

#[test]
fn a_port_that_went_down_comes_back_with_whole_frames() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(1, 9000);
            let mut forwarder = open(engine);
            let (sender, receiver) = (Machine::on("a0"), Machine::on("b0"));
            run("ip link set protected down");
            (0..10).for_each(|number| sender.send(&frame(9014, number)));
            assert_eq!(forwarder.forward(10, PATIENCE), 10);
            run("ip link set protected up");
            (10..20).for_each(|number| sender.send(&frame(9000, number)));
            assert_eq!(forwarder.forward(10, PATIENCE), 10);
            forwarder.drain();
            let sent = |number| frame(if number < 10 { 9014 } else { 9000 }, number);
            let mut seen = Vec::new();
            while seen.last() != Some(&sent(19)) {
                seen.push(receiver.receive(PATIENCE).expect("the last one"));
            }
            assert!(seen.iter().all(|octets| (0..20).any(|number| sent(number) == *octets)), "{engine:?}");
            forwarder.assert_no_chunk_lost();
        });
    }
}

#[test]
fn a_pool_of_chunks_too_small_is_refused() {
    in_namespace(|| {
        wires(1, 9000);
        for engine in ENGINES {
            for (chunk, room) in [(ChunkOctets::Octets2048, 1738), (ChunkOctets::Octets4096, 3786)] {
                let Err(error) = Forwarder::try_open(engine, chunk) else {
                    panic!("{engine:?} took an MTU of 9000")
                };
                assert!(error.to_string().contains(&format!("'ip link set plain mtu {room}'")), "{error}");
                assert!(
                    matches!(error, PortError::MtuTooLarge { mtu: 9000, most, .. } if most == room),
                    "{error}"
                );
            }
        }
    });
}

#[test]
fn the_larger_mtu_decides_what_is_opened() {
    let (native, generic) = ("af_xdp native, 1 queue", "af_xdp generic, 1 queue");
    let several = "af_xdp native multi-buffer, 1 queue";
    for (mtus, chunk, descriptions) in [
        ([1500, 1532], ChunkOctets::Octets2048, [native, native]),
        // One piece, but too long for veth's native mode.
        ([3600, 1500], ChunkOctets::Octets4096, [generic, native]),
        ([9000, 1500], ChunkOctets::Octets16384, [several, several]),
        ([1500, 9032], ChunkOctets::Octets16384, [several, several]),
    ] {
        in_namespace(move || {
            wire("a0", "plain", 1, mtus[0]);
            wire("b0", "protected", 1, mtus[1]);
            let state = StateDirectory::new(&format!("jumbo-{}-{}", mtus[0], mtus[1]));
            let [plain, protected] = ["plain", "protected"]
                .map(|name| Prepared::named(name, &state.0, Tolerated::default()).unwrap());
            let OpenPorts { ports, fallback } = open_ports([&plain, &protected], Io::Auto).unwrap();
            assert_eq!(ports.pool.chunk_octets(), chunk);
            assert_eq!([ports.plain.description(), ports.protected.description()], descriptions);
            assert_eq!(fallback, None);
        });
    }
}
