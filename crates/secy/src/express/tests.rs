extern crate std;

use std::vec;
use std::vec::Vec;

use super::*;

fn classes(of: &[ExpressClass]) -> ExpressClasses {
    of.iter().fold(ExpressClasses::NONE, |classes, class| classes.with(*class).expect("room"))
}

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &parts.concat()].concat()
}

/// An IPv4 packet with these words of options, third word and protocol, and ports behind the header.
fn ipv4(tos: u8, options: u8, fragment: [u8; 2], protocol: u8, ports: [u16; 2]) -> Vec<u8> {
    let mut packet = vec![0x45 + options, tos, 0, 60, 0, 1, fragment[0], fragment[1], 64, protocol];
    packet.resize(20 + 4 * usize::from(options), 0xee);
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend([0; 16]);
    packet
}

fn ipv6(class: u8, next: u8, ports: [u16; 2]) -> Vec<u8> {
    let mut packet = vec![0x60 | class >> 4, class << 4, 0, 0, 0, 20, next, 64];
    packet.resize(40, 0xdd);
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend([0; 16]);
    packet
}

const WHOLE: [u8; 2] = [0x40, 0];

#[test]
fn the_default_has_fieldbuses_and_substations_and_high_priorities() {
    let default = ExpressClasses::default();
    assert_eq!((default.iter().count(), default), (8, ExpressClasses::DEFAULT));
    for ethertype in [0x8892, 0x88a4, 0x88b8, 0x88ba, 0x88ab, 0x88cd_u16] {
        assert!(default.has(&frame(&[&ethertype.to_be_bytes(), &[0; 46]])), "{ethertype:04x}");
        assert!(default.has(&frame(&[&[0x81, 0, 0, 5, 0x81, 0, 0, 7], &ethertype.to_be_bytes()])));
    }
    for ethertype in [0x0800, 0x86dd, 0x0806, 0x88b9, 0x88bb, 0x88cc_u16] {
        assert!(!default.has(&frame(&[&ethertype.to_be_bytes(), &[0xff; 46]])), "{ethertype:04x}");
    }
}

#[test]
fn a_class_has_what_it_says_and_nothing_else() {
    use ExpressClass::{Dscp, EtherType as Type, Pcp, Tcp, Udp};
    let all = classes(&[Type(EtherType(0x9000)), Pcp(0), Pcp(5), Dscp(46), Dscp(0), Udp(4840), Tcp(102)]);
    let only = |class| classes(&[class]);
    let (v4, v6, tag) = (&[8, 0][..], &[0x86, 0xdd][..], |tci: u8| vec![0x81, 0, tci, 1]);
    let udp = |ports| ipv4(0xb8, 0, WHOLE, UDP, ports);
    let rows: [(Vec<u8>, ExpressClass, bool); 26] = [
        (frame(&[&[0x90, 0]]), Type(EtherType(0x9000)), true),
        (frame(&[&[0x90, 1]]), Type(EtherType(0x9000)), false),
        (frame(&[&tag(0xa0), v4]), Pcp(5), true),
        (frame(&[&tag(0xa0), &tag(0), v4]), Pcp(5), true),
        (frame(&[&tag(0), &tag(0xa0), v4]), Pcp(5), false),
        (frame(&[&tag(0), v4]), Pcp(0), true),
        // No tag, no priority.
        (frame(&[v4, &[0; 40]]), Pcp(0), false),
        (frame(&[v4, &udp([1, 2])]), Dscp(46), true),
        (frame(&[v4, &udp([1, 2])]), Dscp(45), false),
        (frame(&[&tag(0), &tag(0), v4, &udp([1, 2])]), Dscp(46), true),
        (frame(&[&tag(0), &tag(0), &tag(0), v4, &udp([1, 2])]), Dscp(46), false),
        (frame(&[v6, &ipv6(0xb8, UDP, [1, 2])]), Dscp(46), true),
        (frame(&[v6, &ipv6(0xb8, 59, [1, 2])]), Dscp(0), false),
        // ECN is no part of it.
        (frame(&[v4, &ipv4(0xbb, 0, WHOLE, 1, [0, 0])]), Dscp(46), true),
        (frame(&[v6, &ipv6(0xbb, 58, [0, 0])]), Dscp(46), true),
        // Neither of what is called one version and is another.
        (frame(&[v4, &ipv6(0xb8, UDP, [1, 2])]), Dscp(46), false),
        (frame(&[v6, &ipv4(0xb8, 0, WHOLE, UDP, [1, 2])]), Dscp(46), false),
        (frame(&[v4, &udp([4840, 2])]), Udp(4840), true),
        (frame(&[v4, &udp([1, 4840])]), Udp(4840), true),
        (frame(&[v4, &udp([4840, 2])]), Tcp(4840), false),
        (frame(&[v4, &ipv4(0, 10, WHOLE, TCP, [5, 102])]), Tcp(102), true),
        (frame(&[v6, &ipv6(0, TCP, [102, 5])]), Tcp(102), true),
        // Behind an extension header; of a first fragment, and of another one.
        (frame(&[v6, &ipv6(0, 44, [102, 102])]), Tcp(102), false),
        (frame(&[v4, &ipv4(0, 0, [0x20, 0], UDP, [4840, 4840])]), Udp(4840), false),
        (frame(&[v4, &ipv4(0, 0, [0, 1], UDP, [4840, 4840])]), Udp(4840), false),
        (frame(&[v4, &ipv4(0xb8, 0, [0x20, 0xb9], UDP, [1, 2])]), Dscp(46), true),
    ];
    for (frame, class, has) in rows {
        assert_eq!(only(class).has(&frame), has, "{class:?} {frame:02x?}");
        assert!(all.has(&frame) || !has, "{class:?} {frame:02x?}");
        assert!(!ExpressClasses::NONE.has(&frame));
    }
}

#[test]
fn a_header_that_is_cut_short_shows_nothing() {
    let of = classes(&[ExpressClass::Udp(7), ExpressClass::Dscp(46)]);
    for (ethertype, header, packet) in [
        ([8, 0], IPV4_OCTETS, ipv4(0xb8, 0, WHOLE, UDP, [1, 7])),
        ([8, 0], IPV4_OCTETS + 24, ipv4(0, 6, WHOLE, UDP, [1, 7])),
        ([0x86, 0xdd], IPV6_OCTETS, ipv6(0xb8, UDP, [1, 7])),
        ([0x86, 0xdd], IPV6_OCTETS, ipv6(0, UDP, [1, 7])),
    ] {
        let whole = frame(&[&[0x88, 0xa8, 0, 1], &ethertype, &packet]);
        let (by_dscp, by_port) = (18 + header, 18 + header + 4);
        let needed = if packet[1] & 0xf0 != 0 { by_dscp } else { by_port };
        for octets in 0..whole.len() {
            assert_eq!(of.has(&whole[..octets]), octets >= needed, "{octets} of {ethertype:x?}");
        }
    }
    // A header of less than five words has no ports behind it.
    let mut short = ipv4(0, 0, WHOLE, UDP, [7, 7]);
    short[0] = 0x44;
    assert!(!of.has(&frame(&[&[8, 0], &short])));
}

#[test]
fn a_list_ends_and_numbers_out_of_range_are_no_classes() {
    let of_kind: [fn(u16) -> ExpressClass; 3] =
        [|number| ExpressClass::EtherType(EtherType(number)), ExpressClass::Udp, ExpressClass::Tcp];
    for kind in of_kind {
        let full: Vec<_> = (0..ExpressClasses::LIST as u16).map(kind).collect();
        let full = classes(&full);
        assert_eq!(full.iter().count(), ExpressClasses::LIST);
        assert_eq!(full.with(kind(99)), Err(ClassRefused));
    }
    assert_eq!(ExpressClasses::NONE.with(ExpressClass::Pcp(8)), Err(ClassRefused));
    assert_eq!(ExpressClasses::NONE.with(ExpressClass::Dscp(64)), Err(ClassRefused));
    let all = (0..8).map(ExpressClass::Pcp).chain((0..64).map(ExpressClass::Dscp));
    assert_eq!(classes(&all.collect::<Vec<_>>()).iter().count(), 72);
}
