//! The management channel of a site in the kernel beside a flood of packets that look like its own.

use super::*;

/// MKPDUs that are sent, and the pause between two.
const MKPDUS: u8 = 30;
const PAUSE: Duration = Duration::from_millis(100);
/// Time in which one has to come: then a member sends the next one (IEEE 802.1X, MKA Hello Time).
const HELLO: Duration = Duration::from_secs(2);

/// An MKPDU of a station of plant 0.
fn mkpdu(number: u8) -> Vec<u8> {
    let mut frame = [&[1, 0x80, 0xc2, 0, 0, 3][..], &mac(0, 1), &[0x88, 0x8e, 3, 5, number]].concat();
    frame.resize(120, 0);
    frame
}

/// Number of MKPDUs that are on the other LAN while they are worth something.
fn timely(world: &mut World) -> usize {
    let mut timely = 0;
    for number in 0..MKPDUS {
        world.probes[0].send(&mkpdu(number)).unwrap();
        timely += usize::from(comes(&mut world.probes[1], number));
        std::thread::sleep(PAUSE);
    }
    timely
}

/// Whether this MKPDU comes within [`HELLO`].
fn comes(probe: &mut PacketSocket, number: u8) -> bool {
    let end = Instant::now() + HELLO;
    while Instant::now() < end {
        match probe.receive_waiting().unwrap() {
            Some(seen) if seen.octets[12..14] == [0x88, 0x8e] && seen.octets[16] == number => return true,
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    false
}

/// The checksum of an IPv4 header anew.
fn checksum(ip: &mut [u8]) {
    ip[10..12].fill(0);
    let sum: u32 = ip.as_chunks().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

/// Packets with the mark of QUIC, more of them than the worker has time for, from somewhere. The peer's own address has a part of its own,
/// so what its site says arrives in time.
#[test]
fn a_flood_with_the_channels_mark_does_not_hold_up_the_channel() {
    const RATE: u32 = 60_000;
    let mut world = World::new(PlantsShape::default(), &SitesChoice::default(), ["auto", "auto"]);
    world.warm(1);
    let device = lab::plants::to(world.plants.plants[1].number);
    let mut good = overheard(&mut world, &device);
    good[26..30].copy_from_slice(&[203, 0, 113, 77]);
    checksum(&mut good[14..34]);
    good[40..42].fill(0);
    let mut number = 0_u32;
    let made_up = move |packet: &mut Vec<u8>| {
        packet.clone_from(&good);
        number += 1;
        packet[42] = 0x40 | (number as u8 & 0xbf);
        packet[43..47].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_be_bytes());
    };
    let dropped =
        |world: &World| counter(&world.sites[1].report().unwrap().sites[0].path, "InDatagramsFlood");
    let before = timely(&mut world);
    assert_eq!(dropped(&world), 0, "nobody sends too much yet");
    let from = (&world.plants.internet, &*device);
    let load = lab::macsec::Load::start_with(from, made_up, Some(RATE), 4 * DEADLINE).unwrap();
    let end = Instant::now() + DEADLINE;
    while dropped(&world) == 0 {
        assert!(Instant::now() < end, "all of them come to user space");
        std::thread::sleep(Duration::from_millis(50));
    }
    let beside = timely(&mut world);
    let (dropped, sent) = (dropped(&world), load.stop().unwrap());
    println!(
        "of {MKPDUS} MKPDUs {before} were in time, and {beside} beside {sent} packets, {dropped} of them dropped"
    );
    assert!(beside >= usize::from(MKPDUS) * 9 / 10, "{beside}, and {before} without a flood");
    world.stop();
}
