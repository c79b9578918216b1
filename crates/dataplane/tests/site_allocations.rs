//! A site's turns allocate nothing, whatever comes: frames of known and new flows, floods, halves, EAPOL, QUIC, garbage.

#![allow(clippy::unwrap_used)]

#[path = "../../netdev/tests/counting/mod.rs"]
mod counting;
mod plants;
#[path = "plants/secured.rs"]
mod secured_plants;

use std::net::UdpSocket;

use dataplane::site::{LanFrame, UNTAGGED, VlanList};
use netdev::udp::Offloads;
use plants::{Plants, eapol, macsec, station};
use testkit::frames::payload;
use tunnel::Mode;

/// The same of sites that protect their LANs. Not a test of its own: the counter is the process's.
fn protected_turns_allocate_nothing() {
    let mut plants = Plants::secured(3);
    // Of one of them behind a list, which lets all pass.
    let mut list = Box::new(VlanList::EMPTY);
    assert!(list.add(UNTAGGED));
    plants.plants[1].site.as_mut().unwrap().set_vlans(Some(list));
    let (mut allocations, mut came) = (0, 0);
    for round in 0..20_u32 {
        for own in 0..3 {
            let lan = &mut plants.plants[own].lan;
            for number in 0..60_u32 {
                let to = [station((own as u8 + 1) % 3), [0xff; 6], station(100 + round as u8)];
                let (to, from) = (to[number as usize % 3], station(own as u8));
                let frame = match number % 5 {
                    // Of a station, and forged.
                    0 => macsec(to, from, round * 60 + number + 1, 300),
                    _ => [&to[..], &from, &[0x88, 0x92], &payload(46 + 24 * number as usize, 1)].concat(),
                };
                assert!(lan.inject(&frame));
            }
            assert!(lan.inject(&eapol(station(own as u8), 200)));
            let plant = &mut plants.plants[own];
            let frame = LanFrame::try_from(&eapol(station(9), 300)[..]).unwrap();
            assert!(plant.manager.eapol.send(frame));
            let said = mka::Frame::try_from(&eapol(station(8), 200)[..]).unwrap();
            assert!(plant.kay.as_mut().unwrap().send(said));
        }
        allocations += turns(&mut plants, 12);
        for own in 0..3 {
            came += plants.collect(own).len();
            while plants.plants[own].manager.eapol.receive().is_some() {}
        }
    }
    assert_eq!(allocations, 0);
    assert!(came > 1000, "only {came} frames came");
}

/// Turns so often, managing between the turns; allocations in the turns. Those in which a key comes do not count: it is
/// derived there, once an epoch.
fn turns(plants: &mut Plants, count: usize) -> usize {
    let mut allocations = 0;
    for _ in 0..count {
        let keys = std::mem::take(&mut plants.keys);
        counting::begin();
        plants.turn();
        let in_turn = counting::end();
        allocations += if keys { 0 } else { in_turn };
        plants.manage();
    }
    allocations
}

#[test]
fn a_turn_allocates_nothing() {
    for mode in [Mode::Identifier, Mode::HeaderEncryption, Mode::Plain { vni: 42 }] {
        let sites = if matches!(mode, Mode::Plain { .. }) { 2 } else { 4 };
        let mut plants = Plants::new(sites, mode, Offloads::default());
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut allocations, mut came) = (0, 0);
        for round in 0..20 {
            for own in 0..sites {
                for number in 0..60_u32 {
                    // To one station, to all, and of a flow that is new in each round.
                    let to = [station((own as u8 + 1) % sites as u8), [0xff; 6], station(100 + round as u8)];
                    let frame =
                        macsec(to[number as usize % 3], station(own as u8), round * 60 + number + 1, 1514);
                    let frame = if number % 2 == 0 { &frame[..] } else { &frame[..300] };
                    assert!(plants.plants[own].lan.inject(frame));
                }
                let lan = &mut plants.plants[own].lan;
                assert!(lan.inject(&eapol(station(own as u8), 200)) && lan.inject(&payload(60, 1)));
                let frame = LanFrame::try_from(&eapol(station(9), 300)[..]).unwrap();
                assert!(plants.plants[own].manager.eapol.send(frame));
                for first in [0, 0x40] {
                    let mut packet = payload(300, u64::from(round));
                    packet[0] = packet[0] & !0x40 | first;
                    stranger.send_to(&packet, plants.plants[own].address).unwrap();
                }
            }
            allocations += turns(&mut plants, 12);
            for own in 0..sites {
                came += plants.collect(own).len();
                while plants.plants[own].manager.eapol.receive().is_some() {}
            }
        }
        assert_eq!(allocations, 0, "{mode:?}");
        assert!(came > 1000, "{mode:?}: only {came} frames came");
    }
    protected_turns_allocate_nothing();
}
