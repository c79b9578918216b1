//! Interfaces under programs in the kernel: they vanish and come back, lose their carrier, get another MTU. Links, express SCs, cells and sites go on
//! by themselves, in the kernel; nothing is in clear meanwhile, and no PN comes twice under one key.

use std::time::{Duration, Instant};

use lab::topology::{LEFT, PLAIN, PROTECTED, RIGHT};
use lab::{Capture, Shape, Topology};
use perf::demo::pair::{Choice, LinkKeys, Pair, Station};
use suite::CipherSuite;

use super::express::{EXPRESS, cyclic_both_ways};
use super::fieldbus::{cell, in_the_kernel, streams_are_whole, takes_redirected_frames};
use super::kernel_link::{all_protected, in_user_space, no_pn_twice, redirecting, until_path};
use super::loss::wait_for_carrier;
use super::vanish::{both_ways, wait_until};
use super::{DEADLINE, program, wait_for};

/// Something that happens to an interface of gateway A, until it is over and A goes on.
#[derive(Clone, Copy, Debug)]
enum Event {
    ProtectedVanishes,
    PlainVanishes,
    CarrierIsLost,
    OtherMtu,
}

const EVENTS: [Event; 4] =
    [Event::ProtectedVanishes, Event::PlainVanishes, Event::CarrierIsLost, Event::OtherMtu];

impl Event {
    fn happens(self, shape: &Shape, topology: &Topology, a: &Station) {
        let (gateway, machine) = (&topology.gateway_a.namespace, &topology.machine_a);
        match self {
            Self::ProtectedVanishes => {
                gateway.ip(&["link", "del", PROTECTED]).unwrap();
                wait_until(a, true);
                wait_for_carrier(&machine.namespace, machine.ifname, false);
                topology.remake_protected(shape).unwrap();
                takes_redirected_frames(&topology.middle, &[LEFT]);
            }
            Self::PlainVanishes => {
                gateway.ip(&["link", "del", PLAIN]).unwrap();
                wait_until(a, true);
                topology.remake_plain(shape).unwrap();
                takes_redirected_frames(&machine.namespace, &[machine.ifname]);
            }
            Self::CarrierIsLost => {
                topology.middle.ip(&["link", "set", LEFT, "down"]).unwrap();
                wait_for_carrier(&machine.namespace, machine.ifname, false);
                topology.middle.ip(&["link", "set", LEFT, "up"]).unwrap();
            }
            Self::OtherMtu => {
                let mtu = a.report().unwrap().links[0].protected.mtu + 32;
                gateway.ip(&["link", "set", PROTECTED, "mtu", &mtu.to_string()]).unwrap();
                wait_for(|| a.report().unwrap(), mtu.into(), |report| report.links[0].protected.mtu.into());
            }
        }
        wait_for_carrier(&machine.namespace, machine.ifname, true);
        wait_until(a, false);
    }
}

/// All events, one after the other: behind each the link is where it was, and `talk` finds nothing lost.
fn goes_on(shape: &Shape, topology: &Topology, pair: &Pair, place: &str, talk: impl Fn(&str)) {
    let is_agreed = pair.a.report().unwrap().links[0].mka.is_some();
    talk("before");
    for event in EVENTS {
        event.happens(shape, topology, &pair.a);
        if is_agreed {
            pair.wait_until_secured().unwrap();
        }
        [&pair.a, &pair.b].into_iter().for_each(|station| until_path(station, place));
        talk(&format!("{event:?}"));
    }
}

fn links_go_on(keys: LinkKeys) {
    let shape = Shape { static_neighbours: true, protected_mtu: 1536, ..Shape::default() };
    let topology = redirecting(&shape);
    let choice = Choice { suite: CipherSuite::ChaCha20Poly1305, keys, ..Choice::default() };
    let pair = Pair::start(program(), &topology, &choice).unwrap();
    let wire = Capture::start(&topology.middle, RIGHT).unwrap();
    goes_on(&shape, &topology, &pair, "kernel", |event| {
        let before = [&pair.a, &pair.b].map(in_user_space);
        (0..20).for_each(|seed| both_ways(&topology, seed));
        assert_eq!([&pair.a, &pair.b].map(in_user_space), before, "{event}: frames came to user space");
    });
    let wire = all_protected(wire);
    if keys == LinkKeys::Static {
        assert!(no_pn_twice(&wire) >= 5 * 40);
    }
    pair.stop().unwrap();
}

#[test]
fn a_link_with_agreed_keys_stays_in_the_kernel_whatever_its_interfaces_do() {
    links_go_on(LinkKeys::Agreed);
}

#[test]
fn a_link_with_static_keys_stays_in_the_kernel_whatever_its_interfaces_do() {
    links_go_on(LinkKeys::Static);
}

fn express_goes_on(keys: LinkKeys) {
    let shape = Shape { protected_mtu: 1500, static_neighbours: true, ..Shape::default() };
    let topology = redirecting(&shape);
    let suite = CipherSuite::ChaCha20Poly1305;
    let link = match keys {
        LinkKeys::Static => "express = true\nfragment = \"on\"\nconcatenate = \"on\"",
        LinkKeys::Agreed => "express = true",
    };
    let pair = Pair::start(program(), &topology, &Choice { suite, keys, link, ..Choice::default() }).unwrap();
    [&pair.a, &pair.b].into_iter().for_each(|station| until_path(station, EXPRESS));
    let wire = Capture::start(&topology.middle, RIGHT).unwrap();
    goes_on(&shape, &topology, &pair, EXPRESS, |event| {
        let before = [&pair.a, &pair.b].map(in_user_space);
        cyclic_both_ways(&topology, 100, || ());
        assert_eq!([&pair.a, &pair.b].map(in_user_space), before, "{event}: frames came to user space");
        both_ways(&topology, 1);
    });
    let wire = all_protected(wire);
    if keys == LinkKeys::Static {
        assert!(no_pn_twice(&wire) >= 5 * 200);
    }
    pair.stop().unwrap();
}

#[test]
fn express_frames_stay_in_the_kernel_whatever_interfaces_do() {
    express_goes_on(LinkKeys::Agreed);
}

#[test]
fn express_frames_under_static_keys_stay_in_the_kernel_whatever_interfaces_do() {
    express_goes_on(LinkKeys::Static);
}

#[test]
fn a_cell_stays_in_the_kernel_whatever_its_interfaces_do() {
    let shape = Shape { protected_mtu: 1500, ..Shape::default() };
    let (topology, choice, pair) = in_the_kernel("auto", "encrypt");
    let until_kernel = |station: &Station, event: Event| {
        let end = Instant::now() + DEADLINE;
        loop {
            let cell = cell(station);
            if cell.path == "kernel"
                && cell
                    .relations
                    .iter()
                    .all(|relation| ["entered", "running"].contains(&relation.state.as_str()))
            {
                return;
            }
            assert!(Instant::now() < end, "{event:?}: {cell:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    streams_are_whole(&topology, &choice, 50);
    for event in EVENTS {
        event.happens(&shape, &topology, &pair.a);
        [&pair.a, &pair.b].into_iter().for_each(|station| until_kernel(station, event));
        streams_are_whole(&topology, &choice, 50);
    }
    pair.stop().unwrap();
}
