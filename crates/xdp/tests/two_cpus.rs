//! Frames on two CPUs at once: no PN is taken twice, and none is delivered twice. Root, as all that loads programs.
#![allow(clippy::unwrap_used)]

mod stations;

use std::collections::HashSet;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stations::{ENCRYPT, SETTINGS, World, payload, sci, sdu};
use suite::CipherSuite;
use xdp::{Link, Verdict};

const THREADS: usize = 2;
const FRAMES: usize = 1500;

fn world(window: u32) -> World {
    World::secured(CipherSuite::ChaCha20Poly1305Xpn, ENCRYPT, window, &SETTINGS, (1 << 32) - 500)
}

/// Each thread does something with each frame, all of them with the same one at a time; how many of all were sent on.
fn on_all(frames: &[Vec<u8>], run: impl Fn(&[u8]) -> Verdict + Sync) -> usize {
    // Threads that sleep would not come back at the same moment.
    let arrived = AtomicUsize::new(0);
    let one = || {
        let sent = |(number, frame): &(usize, &Vec<u8>)| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < (number + 1) * THREADS {
                hint::spin_loop();
            }
            run(frame) == Verdict::Redirect
        };
        frames.iter().enumerate().filter(sent).count()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

fn protect_all(link: &Link, frame: &[u8]) -> Vec<Vec<u8>> {
    let one = || (0..FRAMES).map(|_| link.run_outward(frame, 1).unwrap().frame).collect::<Vec<_>>();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn no_pn_is_taken_twice() {
    let world = world(0);
    let frames = protect_all(&world.gateways[0].kernel, &sdu(0, [8, 0], &payload(40)));
    let pns: HashSet<_> = frames.iter().map(|frame| frame[16..20].to_vec()).collect();
    assert_eq!((frames.len(), pns.len()), (THREADS * FRAMES, THREADS * FRAMES));
    let (pns, _) = world.gateways[0].kernel.transmit_pns(stations::an(0)).unwrap().unwrap();
    assert_eq!(pns.next().unwrap().number(), (1 << 32) - 500 + (THREADS * FRAMES) as u64);
}

/// The early look finds both copies fresh; what is decided behind the ICV lets one of them pass.
#[test]
fn no_frame_is_delivered_twice() {
    for window in [0, 1, 64] {
        let world = world(window);
        let frame = sdu(0, [8, 0], &payload(1400));
        let frames: Vec<_> =
            (0..FRAMES).map(|_| world.gateways[0].kernel.run_outward(&frame, 1).unwrap().frame).collect();
        let link = &world.gateways[1].kernel;
        let delivered = on_all(&frames, |frame| link.run_inward(frame, 1).unwrap().verdict);
        assert_eq!(delivered, FRAMES, "{window}");
        let counters = link.receive_counters(sci(0)).unwrap();
        assert_eq!(counters.in_pkts_ok, FRAMES as u64);
        if window == 0 {
            assert_eq!(counters.in_pkts_duplicate, 0, "without a window a PN that has come is late");
        }
        assert_eq!(counters.in_pkts_late + counters.in_pkts_duplicate, ((THREADS - 1) * FRAMES) as u64);
    }
}

/// While an SA comes and goes, each frame is protected here or left to user space as it came.
#[test]
fn no_frame_is_lost_while_its_sa_comes_and_goes() {
    let mut world = world(64);
    let frame = sdu(0, [8, 0], &payload(40));
    world.gateways[0].kernel.share(true).unwrap();
    let (link, octets) = (&world.gateways[0].kernel, frame.len());
    let (ended, left) = (AtomicBool::new(false), AtomicUsize::new(0));
    let send = || {
        while !ended.load(Ordering::SeqCst) {
            let ran = link.run_outward(&frame, 1).unwrap();
            match ran.verdict {
                Verdict::Redirect => {}
                Verdict::Pass => {
                    assert!(ran.frame.len() == octets && ran.frame == frame, "it is as it came");
                    left.fetch_add(1, Ordering::SeqCst);
                }
                other => panic!("{other:?}"),
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(send)).collect();
        let (mut rounds, end) = (0, Instant::now() + Duration::from_secs(60));
        // On a busy machine a sender may have no CPU for long.
        while (rounds < 2000 || left.load(Ordering::SeqCst) == 0) && Instant::now() < end {
            link.disable_transmit(stations::an(0)).unwrap();
            link.enable_transmit(stations::an(0)).unwrap();
            rounds += 1;
        }
        ended.store(true, Ordering::SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert!(left.into_inner() > 0, "the SA never was away");
    assert_eq!(link.counters().unwrap().0.out_pkts_no_sa, 0);
}
