//! Frames that a site sends each second from one worker, and from two with a lane each, in memory.
//!
//! ```text
//!  one   route, dispatch
//!  two   route ─┬─ dispatch                                 a thread
//!               └─ ring ── dispatch                         another one
//! ```
//!
//! Rings, shares and forwarding halves are those of a running site. What is not there is input and output: system calls, which
//! are spread too, and take more than all of this.

use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use ::bench::Target;
use dataplane::site::SENDING_WORKERS;
use dataplane::site::handed_frames::{are_handed, handed_frames};
use speed::burst::BURST;
use suite::tunnel::EpochSecret;
use tunnel::{
    Command, Event, Forwarding, Generation, LaneShare, Limits, Location, Mode, PeerId, PeerSettings, Route,
    Settings,
};
use wire::MacAddr;

use super::BENCH;
use super::headers::FRAMES;
use crate::bench::Bench;
use crate::bench::samples::Samples;

const PEER: PeerId = PeerId(0);
const GENERATION: Generation = Generation(1);
/// Times that a burst of as many flows is sent in a round.
const BURSTS: usize = 4000;
/// Wanted of two workers, as a multiple of one.
const WANTED: f64 = 1.7;

pub(super) fn measure(bench: &mut Bench<'_>) {
    (bench.progress)(&"sending from one worker and from two, in memory");
    for octets in FRAMES {
        let name = |workers| format!("send {octets} octets in memory over {workers}");
        let (mut one, mut two) =
            (Samples::new(&name("one lane")), Samples::new(&name("two lanes, two threads")));
        for _ in 0..bench.effort.rounds {
            one.push(from_one(octets));
            two.push(from_two(octets));
        }
        (bench.figure)(one.row(BENCH, "frames/s", None));
        let mut row = two.row(BENCH, "frames/s", Some(&one));
        let ratio = row.ratio.as_ref().map_or(0.0, |ratio| ratio.value);
        row.target = Some(Target { wanted: format!("ratio at least {WANTED}"), met: ratio >= WANTED });
        (bench.figure)(row);
    }
}

/// Frames of one flow each.
fn frames(octets: usize) -> Vec<Vec<u8>> {
    let frame = |flow: usize| {
        let mut frame = vec![0x5a; octets];
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 1, flow as u8]);
        frame[12..20].copy_from_slice(&[0x88, 0xe5, 0x2c, 0, 0, 0, 0, 1]);
        frame[20..28].copy_from_slice(&[2, 0, 0, 0, 1, flow as u8, 0, 1]);
        frame
    };
    (0..BURST).map(frame).collect()
}

/// A half whose peer knows all flows that it will send, and has the station to which they go.
fn half(share: LaneShare, frames: &[Vec<u8>], finds: &mut impl FnMut(&[u8]) -> Route) -> Forwarding {
    let now = wire::Instant::START;
    let mut half = Forwarding::on_lane(settings(), share);
    half.handle_command(now, Command::Begin { peer: PEER, generation: GENERATION });
    let secret = EpochSecret::new(&[0x3c; 32]);
    half.handle_command(
        now,
        Command::InstallTransmit { peer: PEER, generation: GENERATION, epoch: 1, secret },
    );
    for frame in frames {
        half.dispatch(now, &finds(frame), PEER, frame);
    }
    while let Some(event) = half.poll_event() {
        if let Event::Announce { index, request, .. } = event {
            let known = Command::Announced { peer: PEER, generation: GENERATION, index, request };
            half.handle_command(now, known);
        }
    }
    half
}

fn settings() -> Settings {
    Settings {
        peers: vec![PeerSettings { mode: Mode::Identifier, path_payload: 9000 }],
        lan_frame: 2048,
        limits: Limits { new_flows_per_second: u32::MAX, ..Limits::default() },
        window: Settings::WINDOW,
        table_seed: [7; 16],
    }
}

/// The half that hears the LAN; it knows where the station is.
fn hearing(share: LaneShare, frames: &[Vec<u8>]) -> Forwarding {
    let now = wire::Instant::START;
    let address = MacAddr([2, 0, 0, 0, 0, 2]);
    let heard = Command::StationHeard { address, location: Location::Behind(PEER) };
    let mut finder = Forwarding::on_lane(settings(), share);
    finder.handle_command(now, heard.clone());
    let mut finds = |frame: &[u8]| finder.route(now, frame).expect("invariant: it goes to the peer");
    let mut half = half(share, frames, &mut finds);
    half.handle_command(now, heard);
    half
}

/// Makes the packets of a frame. A gateway writes headers in front of bodies that it does not touch.
fn dispatch(half: &mut Forwarding, route: &Route, frame: &[u8]) {
    for packet in half.dispatch(wire::Instant::START, route, PEER, frame) {
        black_box(packet);
    }
}

/// Frames a second.
fn per_second(begin: Instant) -> f64 {
    (BURSTS * BURST) as f64 / begin.elapsed().as_secs_f64()
}

fn from_one(octets: usize) -> f64 {
    let frames = frames(octets);
    let mut half = hearing(LaneShare::WHOLE, &frames);
    let begin = Instant::now();
    for _ in 0..BURSTS {
        for frame in &frames {
            let Some(route) = half.route(wire::Instant::START, frame) else { continue };
            dispatch(&mut half, &route, frame);
        }
    }
    let rate = per_second(begin);
    assert_eq!(
        half.peer_counters(PEER).out_pkts_tunnelled as usize,
        (BURSTS + 1) * BURST,
        "every frame goes"
    );
    rate
}

fn from_two(octets: usize) -> f64 {
    let frames = frames(octets);
    let [first, second] = [0, 1].map(|worker| {
        LaneShare::new(worker, SENDING_WORKERS).expect("invariant: a site has two sending workers at most")
    });
    let mut hearing = hearing(first, &frames);
    let mut further = half(second, &frames, &mut |frame| {
        hearing.route(wire::Instant::START, frame).expect("invariant: as above")
    });
    let handed = frames.iter().filter(|frame| {
        let route = hearing.route(wire::Instant::START, frame);
        route.is_some_and(|route| are_handed(hearing.spread(&route)))
    });
    let handed = handed.count() * BURSTS;
    let (mut producer, mut consumer) = handed_frames();
    let ready = Barrier::new(2);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            ready.wait();
            let mut sent = 0;
            while sent < handed {
                let Some(burst) = consumer.burst() else {
                    spin_loop();
                    continue;
                };
                for (known, frame) in burst.frames() {
                    dispatch(&mut further, &known.route, frame);
                    sent += 1;
                }
            }
        });
        ready.wait();
        let begin = Instant::now();
        for _ in 0..BURSTS {
            for frame in &frames {
                let Some(route) = hearing.route(wire::Instant::START, frame) else { continue };
                if are_handed(hearing.spread(&route)) {
                    while !producer.push(PEER, route, 0, frame) {
                        spin_loop();
                    }
                } else {
                    dispatch(&mut hearing, &route, frame);
                }
            }
        }
        thread.join().expect("the other thread has not ended badly");
        per_second(begin)
    })
}
