//! Another program in the place of a running gateway's whose frames go through the kernel: none is lost or comes twice, no packet number
//! comes twice, and the frames are in the kernel again soon.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use lab::topology::LEFT;
use lab::traffic;
use lab::{Capture, Captured, Shape, Topology};
use perf::demo::pair::{Choice, LinkKeys, Pair, Station};
use suite::CipherSuite::ChaCha20Poly1305;

use super::express;
use super::kernel_link::{all_protected, path, redirecting, until_path};
use super::lost_frames::{Lost, without_loss};
use super::reload::hear;
use super::upgrade::{dies_in_upgrades, install_script, refused, upgraded, upgrades, with_own_program};
use super::{counter, program};

/// Upgrades of each gateway in a run.
const ROUNDS: u64 = 3;
/// Time in which frames are in the kernel again: with static keys at once, with MKA by the next SAK.
const BACK: Duration = Duration::from_secs(10);

const STATIC_KEYS: Choice = Choice {
    io: "auto",
    suite: ChaCha20Poly1305,
    gateway: "",
    // A worker that waits for its CPU may be overtaken by the kernel, under static keys in one SA.
    link: "replay_window = 64",
    keys: LinkKeys::Static,
    environment: &[],
};

const AGREED_KEYS: Choice = Choice { keys: LinkKeys::Agreed, ..STATIC_KEYS };

fn topology() -> Topology {
    redirecting(&Shape { static_neighbours: true, protected_mtu: 1536, ..Shape::default() })
}

/// No sender has used a PN twice under one key: a new key comes with another AN than the one before it. How many frames it were.
fn no_pn_twice(wire: &Captured) -> usize {
    let mut current: HashMap<Vec<u8>, (u8, HashSet<Vec<u8>>)> = HashMap::new();
    let mut count = 0;
    for frame in wire.of_ethertype(wire::EtherType::MACSEC.0) {
        let (an, sci) = (frame.octets[14] & 3, frame.octets[20..28].to_vec());
        let (of, seen) = current.entry(sci).or_default();
        if *of != an {
            (*of, *seen) = (an, HashSet::new());
        }
        assert!(seen.insert(frame.octets[16..20].to_vec()), "a PN twice under one key");
        count += 1;
    }
    count
}

/// Both gateways become another program, one after the other, while machines send a thousand frames a second both ways.
fn goes_on_in_the_kernel(choice: &Choice) {
    let wire = without_loss(|| {
        let topology = topology();
        let Pair { a, b, scratch } = Pair::start(program(), &topology, choice).unwrap();
        for station in [&a, &b] {
            until_path(station, "kernel");
        }
        let (process, wire) = (a.id(), Capture::start(&topology.middle, LEFT).unwrap());
        let heard = hear(&topology, || {
            for round in 0..ROUNDS {
                for (station, name) in [(&a, "a"), (&b, "b")] {
                    let waited = upgraded(&scratch, name);
                    let again = Instant::now();
                    until_path(station, "kernel");
                    let back = again.elapsed();
                    println!(
                        "{:?}: frames waited {waited} ms, and were in the kernel {back:?} later",
                        choice.keys
                    );
                    assert!(back < BACK, "{back:?}");
                    // Twice as long as the worker keeps some PNs, and within that time.
                    std::thread::sleep(Duration::from_millis(if round == 1 { 2500 } else { 200 }));
                }
            }
        });
        let lost = Lost::of(&heard, &topology, [&a, &b]);
        assert_eq!(a.id(), process);
        let came = heard.map(|heard| heard.numbers.len() as u64);
        for (station, sent, came) in [(&a, came[0], came[1]), (&b, came[1], came[0])] {
            let report = station.report().unwrap();
            let upgrade = report.upgrade.clone().unwrap();
            assert_eq!((upgrade.count, upgrade.done), (ROUNDS, true));
            let secy = &report.links[0].secy;
            let transmitted = counter(&secy.transmit.counters, "OutPktsEncrypted");
            assert!(transmitted >= sent, "it counts on: {transmitted} of {sent}");
            assert!(counter(&secy.receive[0].counters, "InPktsOK") >= came, "it counts on");
        }
        // Nothing comes any more, and the last valid frame is known still.
        for (station, name) in [(&a, "a"), (&b, "b")] {
            upgraded(&scratch, name);
            let known = station.report().unwrap().links[0].last_valid_seconds;
            assert!(known.is_some_and(|seconds| seconds < 60), "{known:?}");
        }
        Pair { a, b, scratch }.stop().unwrap();
        (lost, all_protected(wire))
    });
    assert!(no_pn_twice(&wire) > 1000);
}

#[test]
fn a_link_in_the_kernel_with_static_keys_is_upgraded_without_a_lost_frame() {
    goes_on_in_the_kernel(&STATIC_KEYS);
}

#[test]
fn a_link_in_the_kernel_with_agreed_keys_is_upgraded_without_a_lost_frame() {
    goes_on_in_the_kernel(&AGREED_KEYS);
}

/// The same with express frames on an SC of their own, under static keys and with MKA: machines send some each millisecond meanwhile.
#[test]
fn express_frames_in_the_kernel_are_upgraded_without_a_lost_frame() {
    const LINK: &str = "replay_window = 64\nexpress = true\nfragment = \"on\"";
    // With MKA the next SAK brings express frames back, after some seconds.
    let rounds = upgrades() / 10;
    let rows = [
        (Choice { link: LINK, ..STATIC_KEYS }, rounds, 2_000 * rounds),
        (Choice { link: "replay_window = 64\nexpress = true", ..AGREED_KEYS }, 1, 12_000),
    ];
    for (choice, rounds, frames) in rows {
        let topology = express::topology();
        let pair = Pair::start(program(), &topology, &choice).unwrap();
        let stations = [(&pair.a, "a"), (&pair.b, "b")];
        stations.iter().for_each(|(station, _)| until_path(station, express::EXPRESS));
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        let (machine_a, machine_b) = (&topology.machine_a, &topology.machine_b);
        std::thread::scope(|scope| {
            let flows = [(machine_a, machine_b), (machine_b, machine_a)].map(|(from, to)| {
                scope.spawn(move || traffic::cyclic(from, to, Duration::from_millis(1), frames, 40).unwrap())
            });
            for (station, name) in stations.repeat(usize::try_from(rounds).unwrap()) {
                std::thread::sleep(Duration::from_millis(300));
                let waited = upgraded(&pair.scratch, name);
                let again = Instant::now();
                until_path(station, express::EXPRESS);
                println!("{:?}: frames waited {waited} ms, express {:?} later", choice.keys, again.elapsed());
            }
            for flow in flows {
                let seen = flow.join().unwrap();
                println!("{} out of order", seen.out_of_order);
                assert_eq!(seen.received, frames, "lost or doubled");
            }
        });
        let all: u64 = express::sent_express(&pair.a);
        assert!(all > frames / 4, "it counts on: {all}");
        for (station, _) in stations {
            assert_eq!(station.report().unwrap().upgrade.map(|upgrade| upgrade.done), Some(true));
            express::cyclic_both_ways(&topology, 50, || ());
        }
        assert!(no_pn_twice(&all_protected(wire)) as u64 >= 2 * frames);
        pair.stop().unwrap();
    }
}

/// It judges, and cannot be begun: the SAs had left the kernel by then, and come back.
#[test]
fn a_program_that_does_not_begin_costs_a_link_in_the_kernel_no_frame() {
    for choice in [STATIC_KEYS, AGREED_KEYS] {
        without_loss(|| {
            let topology = topology();
            let (scratch, own, a, b) = with_own_program(&topology, &choice);
            let pair = Pair { a, b, scratch };
            if choice.keys == LinkKeys::Agreed {
                pair.wait_until_secured().unwrap();
            }
            let Pair { a, b, scratch } = &pair;
            for station in [a, b] {
                until_path(station, "kernel");
            }
            install_script(scratch, "chmod a-x \"$0\"", &own);
            let heard = hear(&topology, || {
                std::thread::sleep(Duration::from_millis(200));
                let why = refused(scratch, "a");
                assert!(why.contains("cannot become"), "{why}");
                let again = Instant::now();
                until_path(a, "kernel");
                assert!(again.elapsed() < BACK);
                std::thread::sleep(Duration::from_millis(200));
            });
            let lost = Lost::of(&heard, &topology, [a, b]);
            let upgrade = a.report().unwrap().upgrade.unwrap();
            assert_eq!((upgrade.count, upgrade.done), (1, false));
            pair.stop().unwrap();
            (lost, ())
        });
    }
}

/// Killed while it becomes another program, or by that: no PN comes twice, over all lives. At some moments the new program has not begun, at
/// others its first frames have passed.
#[test]
fn a_gateway_in_the_kernel_that_dies_in_an_upgrade_repeats_no_packet_number() {
    let in_kernel = |a: &Station| assert_eq!(path(a), "kernel");
    dies_in_upgrades(&topology(), &STATIC_KEYS, Duration::from_millis(60), in_kernel);
}

#[test]
fn a_link_that_may_be_nowhere_but_in_the_kernel_is_refused_before_anything_is_touched() {
    let topology = topology();
    let choice = Choice { io: "kernel", ..STATIC_KEYS };
    let pair = Pair::start(program(), &topology, &choice).unwrap();
    let why = refused(&pair.scratch, "a");
    assert!(why.contains("io = \"kernel\"") && why.contains("restart"), "{why}");
    assert_eq!(path(&pair.a), "kernel");
    pair.stop().unwrap();
}
