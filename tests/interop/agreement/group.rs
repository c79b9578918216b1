//! Two gateways of ours share more than the standard has, until a station comes that has only the standard.

use std::time::{Duration, Instant};

use lab::topology::LEFT;
use lab::traffic::{self, Ip};
use lab::{Capture, Machine};
use wire::{EtherType, SecTag, SecTagError};

use super::gateway::{Choice, Gateway};
use super::pinging::Pinging;
use super::{GUEST_IP, GUEST_MAC, station, take_up, topology_of};
use crate::DEADLINE;
use crate::kernel::{MACSEC_MTU, MTU};
use crate::supplicant::{self, Agreement, Version};

/// Settings under which SDUs that do not fit a frame are fragmented.
const FRAGMENT: &str = "fragment = \"on\"\nconcatenate = \"on\"";

/// Whether IP packets of the machines' full MTU, which do not fit one protected frame, are answered.
fn full_size_passes(from: &Machine, to: &Machine) -> bool {
    traffic::ping(from, to, Ip::V4, 5, MTU as u16 - 28).is_ok()
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is() {
        assert!(Instant::now() < end, "{what}, but not within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Protected frames, and how many of them only we understand.
fn frames(capture: Capture) -> (usize, usize) {
    let captured = capture.stop().unwrap().complete().unwrap();
    let mut counts = (0, 0);
    for frame in captured.frames.iter().filter(|frame| frame.ethertype() == Some(EtherType::MACSEC.0)) {
        let tag: Result<SecTag, SecTagError> = SecTag::parse(&frame.octets[12..]);
        let tag = tag.unwrap();
        counts.0 += 1;
        counts.1 += usize::from(tag.extended || tag.more_fragments);
    }
    counts
}

/// A station with priority 16 comes to two gateways with these, and goes.
fn comes_and_goes(version: Version, priorities: [u8; 2]) {
    let topology = topology_of(MTU);
    let mut guest = station(&topology, version, GUEST_MAC);
    let choice = |priority| Choice { link: FRAGMENT, ..Choice::of_priority(priority) };
    let one = Gateway::start(&topology.gateway_a.namespace, "a", &choice(priorities[0]));
    let two = Gateway::start(&topology.gateway_b.namespace, "b", &choice(priorities[1]));
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    wait_until("frames are fragmented", || full_size_passes(a, b));
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    assert!(full_size_passes(a, b));
    let (protected, extended) = frames(wire);
    assert!(extended >= 10, "{extended} of {protected} frames");

    let pinging = Pinging::start(a, &b.ipv4.to_string(), MACSEC_MTU);
    pinging.wait_for(20);
    Agreement::of_priority(version, 16).start(&mut guest);
    take_up(&mut guest, GUEST_IP);
    for gateway in [&one, &two] {
        gateway.same_key(&mut guest, None);
        gateway.wait("the other two are live", |agreement| (agreement.live_peers() == 2).then_some(()));
    }
    let with_all = Pinging::start(a, GUEST_IP, MACSEC_MTU);
    with_all.wait_for(50);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    pinging.wait_for(200);
    assert!(!full_size_passes(a, b), "the extensions are still in use");
    let (protected, extended) = frames(wire);
    assert!(protected > 100 && extended == 0, "{extended} of {protected} frames");
    with_all.stop().are_complete();
    let key = one.same_key(&mut guest, None);
    one.rekey();
    one.same_key(&mut guest, Some(&key));
    pinging.wait_for(50);

    supplicant::stop(&mut guest);
    wait_until("frames are fragmented again", || full_size_passes(a, b));
    pinging.wait_for(50);
    let answers = pinging.stop();
    one.knows_its_group(true, 1);
    two.knows_its_group(false, 1);
    println!(
        "{} answered, {} missing\n{}\n{}",
        answers.answered,
        answers.missing.len(),
        one.stop(),
        two.stop()
    );
    answers.are_complete();
}

fn a_station_of_the_standard_comes_and_goes_and_no_frame_that_fits_is_lost(version: Version) {
    comes_and_goes(version, [8, 32]);
}

fn a_key_server_of_the_standard_comes_and_goes_and_no_frame_that_fits_is_lost(version: Version) {
    comes_and_goes(version, [32, 48]);
}

with_each_version!(
    a_station_of_the_standard_comes_and_goes_and_no_frame_that_fits_is_lost,
    a_key_server_of_the_standard_comes_and_goes_and_no_frame_that_fits_is_lost
);
