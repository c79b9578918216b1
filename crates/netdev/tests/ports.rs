//! Both engines on real (virtual) wires, each test in a network namespace that it makes: needs root.

#![allow(clippy::unwrap_used)]

#[path = "netns/bench.rs"]
mod bench;
mod netns;

use std::thread;
use std::time::Duration;

use bench::{ENGINES, Engine, Forwarder, exchange};
use netdev::af_xdp::{AfXdp, Attach};
use netdev::burst::Burst;
use netdev::interface::Interface;
use netdev::pool::{ChunkOctets, Pool};
use netdev::port::{Port, PortError};
use netns::{Machine, OffloadHeader, PATIENCE, frame, in_namespace, run, tagged, wires};

const C_TAG: [u8; 4] = [0x81, 0x00, 0xc0, 0x05];
const S_TAG: [u8; 4] = [0x88, 0xa8, 0x20, 0x07];

fn every_size_and_tag(engine: Engine, queues: u32) {
    in_namespace(move || {
        wires(queues, 1500);
        let mut forwarder = Forwarder::open(engine);
        let mut frames: Vec<Vec<u8>> = (14..=1514).map(|octets| frame(octets, octets)).collect();
        // The kernel drops a tagged frame with less than two octets behind its EtherType.
        for octets in [16, 17, 60, 64, 1000, 1506] {
            let tag_pair = [S_TAG, C_TAG].concat();
            for tags in [&C_TAG[..], &S_TAG, &tag_pair, &[C_TAG, C_TAG].concat()] {
                frames.push(tagged(frame(octets, octets), tags));
            }
        }
        frames.push(tagged(frame(1514, 1), &C_TAG));
        exchange(&mut forwarder, &frames);
    });
}

#[test]
fn af_packet_forwards_every_size_and_tag() {
    every_size_and_tag(Engine::AfPacket, 1);
}

#[test]
fn af_xdp_native_forwards_every_size_and_tag() {
    every_size_and_tag(Engine::Native, 1);
}

#[test]
fn af_xdp_generic_forwards_every_size_and_tag() {
    every_size_and_tag(Engine::Generic, 1);
}

#[test]
fn a_tag_that_the_senders_kernel_keeps_beside_the_frame_is_on_the_wire() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(1, 1500);
            let _tagging = netns::vlan_push::push_vlan_5("a0");
            if engine != Engine::AfPacket {
                // On veth XDP has no way to see such a tag: the machine must put it into the frame.
                run("ethtool -K a0 tx-vlan-hw-insert off");
            }
            let mut forwarder = Forwarder::open(engine);
            let (sender, receiver) = (Machine::on("a0"), Machine::on("b0"));
            sender.send(&frame(60, 5));
            assert_eq!(forwarder.forward(1, PATIENCE), 1);
            let expected = tagged(frame(60, 5), &[0x81, 0x00, 0x00, 0x05]);
            assert_eq!(receiver.receive(PATIENCE), Some(expected), "{engine:?}");
        });
    }
}

#[test]
fn ports_go_on_in_the_next_program_with_what_waits_in_them() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(1, 1500);
            let interfaces = ["plain", "protected"].map(|name| Interface::open(name).unwrap());
            let mut forwarder = Forwarder::open(engine);
            let frames: Vec<Vec<u8>> = (60..180).map(|octets| frame(octets, octets)).collect();
            exchange(&mut forwarder, &frames);
            let before = forwarder.ports[0].counters();
            let (sender, receiver) = (Machine::on("a0"), Machine::on("b0"));
            for _ in 0..20 {
                frames.iter().for_each(|frame| sender.send(frame));
                forwarder = forwarder.go_on(&interfaces);
                assert_eq!(forwarder.forward(frames.len(), PATIENCE), frames.len(), "{engine:?}");
                for frame in &frames {
                    assert_eq!(receiver.receive(PATIENCE).as_ref(), Some(frame), "{engine:?}");
                }
            }
            let counted = forwarder.ports[0].counters().since(&before);
            assert_eq!(counted.rx_frames, 20 * frames.len() as u64);
            forwarder.drain();
            forwarder.assert_no_chunk_lost();
            // A pool that another port has is refused, and nobody's descriptors are taken for it.
            let pool = forwarder.pool.pass_on().unwrap();
            assert!(Pool::go_on(&pool).is_err(), "it is somebody's");
        });
    }
}

/// An IPv4 UDP frame of flow `flow`, so that the sender's kernel spreads the flows over its queues.
fn flow_frame(flow: u16) -> Vec<u8> {
    let mut frame = frame(60, flow.into());
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..36].copy_from_slice(&flow.to_be_bytes());
    frame[36..40].copy_from_slice(&[0, 9, 0, 26]);
    frame
}

#[test]
fn every_receive_queue_is_served() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(4, 1500);
            let mut forwarder = Forwarder::open(engine);
            if engine != Engine::AfPacket {
                assert!(forwarder.ports[0].description().ends_with(", 4 queues"));
                assert_eq!(forwarder.ports[0].poll_descriptors().len(), 4);
            }
            let (sender, receiver) = (Machine::on("a0"), Machine::on("b0"));
            (0..400).for_each(|flow| sender.send(&flow_frame(flow)));
            assert_eq!(forwarder.forward(400, PATIENCE), 400, "{engine:?}");
            let mut seen: Vec<Vec<u8>> = (0..400).map(|_| receiver.receive(PATIENCE).unwrap()).collect();
            seen.sort_unstable();
            let mut sent: Vec<Vec<u8>> = (0..400).map(flow_frame).collect();
            sent.sort_unstable();
            assert!(seen == sent, "{engine:?}");
            if engine == Engine::Native {
                // The test would show nothing if all had come over one queue.
                let statistics = run("ethtool -S plain");
                for queue in 0..4 {
                    let name = format!("rx_queue_{queue}_xdp_packets: ");
                    let count = statistics.lines().find_map(|line| line.trim().strip_prefix(&name));
                    assert!(count.is_some_and(|count| count != "0"), "queue {queue}: {statistics}");
                }
            }
            forwarder.assert_no_chunk_lost();
        });
    }
}

/// Frames that the kernel dropped at an end of a wire, before any port or after every one.
fn dropped_by_wire(name: &str) -> u64 {
    let text = run(&format!("ip -s -o link show {name}"));
    let rows: Vec<&str> = text.split('\\').map(str::trim).collect();
    // A row of names, then a row of numbers; the fourth is "dropped".
    rows.windows(2)
        .filter(|pair| pair[0].starts_with("RX:") || pair[0].starts_with("TX:"))
        .map(|pair| pair[1].split_whitespace().nth(3).unwrap().parse::<u64>().unwrap())
        .sum()
}

#[test]
fn no_chunk_is_lost_in_100_000_frames_at_full_speed() {
    for engine in ENGINES {
        in_namespace(move || {
            const FRAMES: usize = 100_000;
            wires(1, 1500);
            let mut forwarder = Forwarder::open(engine);
            let at_rest = forwarder.pool.free();
            let (left, right) = (Machine::on("a0"), Machine::on("b0"));
            let sink = Machine::on("b0");
            let (mut forwarded, mut seen) = (0, 0);
            thread::scope(|scope| {
                let senders = [&left, &right].map(|machine| {
                    scope.spawn(move || {
                        (0..FRAMES / 2).for_each(|number| machine.send(&frame(60 + number % 1400, number)))
                    })
                });
                loop {
                    let all_sent = senders.iter().all(|sender| sender.is_finished());
                    let now = forwarder.forward(10_000, Duration::from_millis(500));
                    while sink.receive_now().is_some() {
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
            // Whatever was not forwarded is in a counter, ours or the wire's, at least as often.
            for (counters, wire) in [(plain, ["a0", "plain"]), (protected, ["b0", "protected"])] {
                let lost = counters.rx_kernel_dropped
                    + counters.rx_fill_ring_empty
                    + counters.rx_no_chunk
                    + wire.map(dropped_by_wire).iter().sum::<u64>();
                assert!(counters.rx_frames + lost >= FRAMES as u64 / 2, "{engine:?}: {counters:?}");
                assert_eq!((counters.bad_descriptors, counters.tx_malformed), (0, 0), "{engine:?}");
                assert_eq!((counters.rx_invalid_descriptors, counters.tx_invalid_descriptors), (0, 0));
            }
            assert_eq!(plain.rx_frames + protected.rx_frames, forwarded, "{engine:?}");
            assert_eq!(plain.rx_frames, protected.tx_frames + protected.tx_dropped, "{engine:?}");
            assert!(forwarded > FRAMES as u64 / 10, "{engine:?} forwarded {forwarded}");
            assert!(seen > 0);
            forwarder.assert_no_chunk_lost();
            // A fill ring is not topped up for less than a burst.
            let back = forwarder.pool.free() - at_rest;
            assert!(back < 2 * netdev::burst::BURST_FRAMES, "{engine:?}: {back} not put up to receive");
        });
    }
}

#[test]
fn a_dead_peer_costs_counted_frames_and_nothing_else() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(1, 1500);
            let mut forwarder = Forwarder::open(engine);
            let at_rest = forwarder.pool.free();
            let (sender, receiver) = (Machine::on("a0"), Machine::on("b0"));
            run("ip link set b0 down");
            for batch in 0..10 {
                (0..100).for_each(|number| sender.send(&frame(60, batch * 100 + number)));
                assert_eq!(forwarder.forward(100, PATIENCE), 100, "{engine:?}");
            }
            forwarder.drain();
            let counters = forwarder.ports[1].counters();
            assert_eq!(counters.tx_dropped + counters.tx_kernel_dropped, 1000, "{engine:?}: {counters:?}");
            assert!(forwarder.pool.free() >= at_rest, "{engine:?}: none is stuck");
            run("ip link set b0 up");
            sender.send(&frame(60, 7));
            assert_eq!(forwarder.forward(1, PATIENCE), 1);
            assert_eq!(receiver.receive(PATIENCE), Some(frame(60, 7)), "{engine:?}: alive again");
        });
    }
}

#[test]
fn a_port_without_a_link_says_that_it_took_nothing() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(1, 1500);
            let mut forwarder = Forwarder::open(engine);
            let send = |forwarder: &mut Forwarder| {
                let Forwarder { pool, ports: [_, port], .. } = forwarder;
                let (mut burst, mut slot) = (Burst::new(), pool.take().unwrap());
                assert!(pool.append(&mut slot, &frame(60, 1)));
                burst.push(slot).unwrap();
                let taken = port.transmit(pool, &mut burst);
                port.housekeep(pool);
                taken
            };
            // The other end, which takes the carrier, and this one.
            for ifname in ["b0", "protected"] {
                assert_eq!(send(&mut forwarder), 1, "{engine:?}");
                run(&format!("ip link set {ifname} down"));
                for _ in 0..20 {
                    assert_eq!(send(&mut forwarder), 0, "{engine:?}, {ifname}");
                }
                run(&format!("ip link set {ifname} up"));
            }
            assert_eq!(send(&mut forwarder), 1, "{engine:?}");
        });
    }
}

#[test]
fn a_port_that_went_down_comes_back_and_does_not_spin() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(1, 1500);
            let mut forwarder = Forwarder::open(engine);
            let (sender, receiver) = (Machine::on("a0"), Machine::on("b0"));
            run("ip link set protected down");
            sender.send(&frame(60, 1));
            assert_eq!(forwarder.forward(1, PATIENCE), 1);
            // A worker that waits for frames sleeps although a socket has an error to tell.
            let before = std::time::Instant::now();
            for _ in 0..100 {
                forwarder.turn(|_, _| {});
                forwarder.wait(Duration::from_millis(10));
            }
            assert!(before.elapsed() > Duration::from_millis(200), "{engine:?}: {:?}", before.elapsed());
            run("ip link set protected up");
            sender.send(&frame(60, 2));
            assert_eq!(forwarder.forward(1, PATIENCE), 1);
            forwarder.drain();
            let mut seen = std::iter::from_fn(|| receiver.receive(PATIENCE));
            assert!(seen.any(|seen| seen == frame(60, 2)), "{engine:?}");
            forwarder.assert_no_chunk_lost();
        });
    }
}

#[test]
fn ports_open_again_right_after_being_closed() {
    for engine in ENGINES {
        in_namespace(move || {
            wires(4, 1500);
            for number in 0..5 {
                let mut forwarder = Forwarder::open(engine);
                let (sender, receiver) = (Machine::on("a0"), Machine::on("b0"));
                sender.send(&frame(60, number));
                assert_eq!(forwarder.forward(1, PATIENCE), 1, "{engine:?}");
                assert_eq!(receiver.receive(PATIENCE), Some(frame(60, number)));
            }
        });
    }
}

#[test]
fn frames_too_long_for_the_other_side_are_counted() {
    for engine in ENGINES {
        in_namespace(move || {
            netns::wire("a0", "plain", 1, 1500);
            netns::wire("b0", "protected", 1, 1000);
            let mut forwarder = Forwarder::open(engine);
            let (sender, receiver) = (Machine::on("a0"), Machine::on("b0"));
            sender.send(&frame(1015, 0));
            sender.send(&tagged(frame(1015, 0), &C_TAG));
            sender.send(&frame(1014, 1));
            sender.send(&tagged(frame(1014, 2), &C_TAG));
            assert_eq!(forwarder.forward(4, PATIENCE), 4);
            assert_eq!(receiver.receive(PATIENCE), Some(frame(1014, 1)), "{engine:?}");
            assert_eq!(receiver.receive(PATIENCE), Some(tagged(frame(1014, 2), &C_TAG)), "{engine:?}");
            assert_eq!(receiver.receive(Duration::from_millis(50)), None);
            let counters = forwarder.ports[1].counters();
            assert_eq!((counters.tx_frames, counters.tx_too_long), (2, 2), "{engine:?}");
        });
    }
}

#[test]
fn af_xdp_takes_an_mtu_that_needs_chunks_of_4096() {
    for (mtu, attach) in [(3000, Engine::Native), (3786, Engine::Generic)] {
        in_namespace(move || {
            wires(1, mtu);
            let mut forwarder = Forwarder::try_open(attach, ChunkOctets::Octets4096).unwrap();
            let longest = mtu as usize + 14;
            exchange(&mut forwarder, &[longest, longest - 1, 2048, 60].map(|octets| frame(octets, octets)));
        });
    }
}

#[test]
fn af_xdp_falls_back_to_generic_where_native_cannot_be_had() {
    in_namespace(|| {
        // Beyond what native mode on veth takes in one piece.
        wires(1, 3786);
        let [plain, protected] = ["plain", "protected"].map(|name| Interface::open(name).unwrap());
        let mut pool =
            Pool::new(ChunkOctets::Octets4096, AfXdp::chunks(&[&plain, &protected], ChunkOctets::Octets4096))
                .unwrap();
        let free = pool.free();
        AfXdp::open_pair(&plain, &protected, &mut pool, Attach::Native).unwrap_err();
        assert_eq!(pool.free(), free, "a failure leaves the pool as it was");
        let (first, _) = AfXdp::open_pair(&plain, &protected, &mut pool, Attach::default()).unwrap();
        assert_eq!(first.description(), "af_xdp generic, 1 queue");
        assert!(pool.in_flight() > 0);
    });
}

#[test]
fn af_xdp_finds_the_queues_of_drivers_that_do_not_tell() {
    in_namespace(|| {
        for name in ["plain", "protected"] {
            run(&format!("ip tuntap add dev {name} mode tap"));
            run(&format!("ip link set {name} up"));
        }
        let [plain, protected] = ["plain", "protected"].map(|name| Interface::open(name).unwrap());
        assert_eq!(plain.receive_queues(), None, "else this test shows nothing");
        let mut pool =
            Pool::new(ChunkOctets::Octets2048, AfXdp::chunks(&[&plain, &protected], ChunkOctets::Octets2048))
                .unwrap();
        let (first, _) = AfXdp::open_pair(&plain, &protected, &mut pool, Attach::default()).unwrap();
        assert!(first.description().ends_with(", 1 queue"), "{}", first.description());
    });
}

#[test]
fn a_pool_too_small_is_told_how_large_it_must_be() {
    in_namespace(|| {
        wires(4, 1500);
        let [plain, protected] = ["plain", "protected"].map(|name| Interface::open(name).unwrap());
        let mut pool = Pool::new(ChunkOctets::Octets2048, 895).unwrap();
        let error = AfXdp::open_pair(&plain, &protected, &mut pool, Attach::default()).unwrap_err();
        assert!(matches!(error, PortError::PoolTooSmall { total: 895, wanted: 896 }), "{error}");
        let mut pool = Pool::new(ChunkOctets::Octets2048, 896).unwrap();
        AfXdp::open_pair(&plain, &protected, &mut pool, Attach::default()).unwrap();
    });
}

#[test]
fn af_packet_completes_checksums_and_counts_super_frames() {
    in_namespace(|| {
        wires(1, 1500);
        let mut forwarder = Forwarder::open(Engine::AfPacket);
        let (sender, receiver) = (Machine::offloading("a0"), Machine::on("b0"));
        // UDP over IPv4 with the sum of the pseudo-header where the checksum belongs.
        let mut udp = flow_frame(5);
        let pseudo = (0x0a00u32 + 1 + 0x0a00 + 2 + 17 + 26) as u16;
        udp[40..42].copy_from_slice(&pseudo.to_be_bytes());
        let partial =
            OffloadHeader { flags: 1, checksum_start: 34, checksum_offset: 6, ..Default::default() };
        sender.send_offloaded(partial, &udp);
        assert_eq!(forwarder.forward(1, PATIENCE), 1);
        let seen = receiver.receive(PATIENCE).unwrap();
        let sum: u32 =
            seen[34..60].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let pseudo_sum = sum + u32::from(pseudo);
        assert_eq!((pseudo_sum & 0xffff) + (pseudo_sum >> 16), 0xffff, "the sum over all is all ones");
        assert_eq!(forwarder.ports[0].counters().rx_checksums_completed, 1);
        // Eight TCP segments in one.
        let mut tcp = frame(54 + 8000, 1);
        tcp[12..14].copy_from_slice(&[0x08, 0x00]);
        tcp[14..34]
            .copy_from_slice(&[0x45, 0, 0x1f, 0x68, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        tcp[46] = 0x50;
        let merged = OffloadHeader {
            flags: 1,
            gso_type: 1,
            header_octets: 54,
            gso_octets: 1000,
            checksum_start: 34,
            checksum_offset: 16,
        };
        sender.send_offloaded(merged, &tcp);
        forwarder.drain();
        assert_eq!(forwarder.ports[0].counters().rx_super_frames, 1);
        assert_eq!(receiver.receive(Duration::from_millis(50)), None);
        forwarder.assert_no_chunk_lost();
    });
}
