//! Programs that are a link's express SCs: they take the frames that crate secy calls express, and those of the peers' express SCs. All
//! others are user space's, as they came. Root, as all that loads programs.
#![allow(clippy::unwrap_used)]

mod stations;

use proptest::prelude::*;
use secy::express::ExpressClass;
use secy::{ClearVlan, ExpressClasses, SciInclusion, Settings};
use stations::{ENCRYPT, MTU, SETTINGS, an, load, payload, pn, sci, sdu};
use suite::{CipherSuite, Sak};
use wire::{EtherType, Sci};
use xdp::link::SaKey;
use xdp::{Link, Unclaimed, Verdict, XdpError};

const SUITE: CipherSuite = CipherSuite::ChaCha20Poly1305;
/// Loopback, as both ports.
const LOOPBACK: u32 = 1;
/// SECTAG with SCI, and ICV.
const OVERHEAD: usize = 32;

fn express(station: usize) -> Sci {
    sci(station).express().unwrap()
}

/// Programs of two stations, with an SA each way; `settings` as of links that split frames.
fn ends(settings: Settings) -> [Link; 2] {
    ends_with(settings, &ExpressClasses::DEFAULT)
}

fn ends_with(settings: Settings, classes: &ExpressClasses) -> [Link; 2] {
    let sak = Sak::new(SUITE, &[7; 32]).unwrap();
    let key = SaKey { suite: SUITE, sak: &sak, xpn: None, protection: ENCRYPT };
    [0, 1].map(|station| {
        let mut link = load();
        let settings = Settings { reassemble: true, ..settings };
        configure(&mut link, station, &settings, classes);
        link.set_ports(LOOPBACK, LOOPBACK).unwrap();
        link.install_receive_sc(express(1 - station)).unwrap();
        link.install_receive(express(1 - station), an(0), &key, pn(1), 0).unwrap();
        link.enable_receive(express(1 - station), an(0)).unwrap();
        link.install_transmit(an(0), &key, pn(1), pn(1 << 20)).unwrap();
        link.enable_transmit(an(0)).unwrap();
        link
    })
}

fn configure(link: &mut Link, station: usize, settings: &Settings, classes: &ExpressClasses) {
    let around = (&[EtherType::LLDP][..], classes);
    link.configure_express(express(station), settings, around, Unclaimed::Pass).unwrap();
}

/// A frame with VLAN tags of these PCPs, and this EtherType behind them.
fn frame(pcps: &[u8], ethertype: EtherType, octets: usize) -> Vec<u8> {
    let mut frame = sdu(0, ethertype.0.to_be_bytes(), &payload(octets));
    for pcp in pcps.iter().rev() {
        frame.splice(12..12, [0x81, 0, pcp << 5, 5]);
    }
    frame
}

#[test]
fn frames_are_express_by_the_rules_of_user_space() {
    let [sender, receiver] = ends(SETTINGS);
    let ethertypes = [
        EtherType::PROFINET,
        EtherType::ETHERCAT,
        EtherType::GOOSE,
        EtherType::SAMPLED_VALUES,
        EtherType::POWERLINK,
        EtherType::SERCOS,
        EtherType::IPV4,
        EtherType::IPV6,
        EtherType::SERVICE_VLAN,
    ];
    let tags: [&[u8]; 9] = [&[], &[0], &[5], &[6], &[7], &[0, 7], &[6, 0], &[3, 0], &[0, 0, 7]];
    let (mut sealed, mut left) = (0, 0);
    for ethertype in ethertypes {
        for pcps in tags {
            let whole = frame(pcps, ethertype, 40);
            for octets in 14..=whole.len() {
                let frame = &whole[..octets];
                let ran = sender.run_outward(frame, 1).unwrap();
                if ExpressClasses::DEFAULT.has(frame) {
                    assert_eq!(ran.verdict, Verdict::Redirect, "{pcps:?} {ethertype:?} {octets}");
                    assert_eq!(
                        (&ran.frame[12..14], &ran.frame[20..28]),
                        (&[0x88, 0xe5][..], &express(0).octets()[..])
                    );
                    let came = receiver.run_inward(&ran.frame, 1).unwrap();
                    assert_eq!((came.verdict, &came.frame[..]), (Verdict::Redirect, frame));
                    sealed += 1;
                } else {
                    assert_eq!(
                        (ran.verdict, &ran.frame[..]),
                        (Verdict::Pass, frame),
                        "{pcps:?} {ethertype:?}"
                    );
                    left += 1;
                }
            }
        }
    }
    assert!(sealed > 500 && left > 500, "{sealed} {left}");
    let (counters, around) = sender.counters().unwrap();
    assert_eq!((counters, around), Default::default(), "what is user space's is counted there");
    assert_eq!(sender.transmit_counters().unwrap().out_pkts_encrypted, sealed);
}

#[test]
fn express_frames_that_fit_no_frame_are_user_spaces_to_split() {
    let [sender, _] = ends(Settings { sci_inclusion: SciInclusion::EndStation, ..SETTINGS });
    let longest = MTU - OVERHEAD;
    let fits = frame(&[], EtherType::PROFINET, longest);
    assert_eq!(sender.run_outward(&fits, 1).unwrap().verdict, Verdict::Redirect);
    for octets in [longest + 1, 1600, 3000] {
        let frame = frame(&[], EtherType::PROFINET, octets);
        let ran = sender.run_outward(&frame, 1).unwrap();
        assert_eq!((ran.verdict, ran.frame), (Verdict::Pass, frame));
    }
}

/// A disk that reserves no PNs for the express SC: the other SC has its own, and carries express frames until there are some again.
#[test]
fn express_frames_without_a_reserved_pn_are_user_spaces() {
    let [mut sender, receiver] = ends(SETTINGS);
    let sak = Sak::new(SUITE, &[8; 32]).unwrap();
    let key = SaKey { suite: SUITE, sak: &sak, xpn: None, protection: ENCRYPT };
    sender.install_transmit(an(1), &key, pn(1), pn(2)).unwrap();
    sender.enable_transmit(an(1)).unwrap();
    let mut pns = Vec::new();
    let mut send = |sender: &Link, count: usize| {
        for number in 0..count {
            let frame = frame(&[], EtherType::GOOSE, 60 + number);
            let ran = sender.run_outward(&frame, 1).unwrap();
            match ran.verdict {
                Verdict::Redirect => pns.push(u32::from_be_bytes(ran.frame[16..20].try_into().unwrap())),
                verdict => {
                    assert_eq!((verdict, ran.frame), (Verdict::Pass, frame));
                    pns.push(0);
                }
            }
        }
        std::mem::take(&mut pns)
    };
    assert_eq!(send(&sender, 4), [1, 2, 0, 0]);
    assert_eq!(sender.counters().unwrap().0, Default::default(), "none is discarded");
    sender.reserve_through(an(1), pn(3)).unwrap();
    assert_eq!(send(&sender, 2), [3, 0], "no PN was taken meanwhile, and none comes twice");
    // The last of all.
    sender.install_transmit(an(2), &key, pn(u32::MAX.into()), pn(u32::MAX.into())).unwrap();
    sender.enable_transmit(an(2)).unwrap();
    assert_eq!(send(&sender, 3), [u32::MAX, 0, 0]);
    assert_eq!(sender.counters().unwrap().0, Default::default(), "none is discarded");
    drop(receiver);
}

/// Without an SA, user space protects express frames as all others. What goes past a SecY does so here.
#[test]
fn without_an_sa_all_frames_are_user_spaces() {
    let [mut sender, receiver] = ends(SETTINGS);
    let express = frame(&[], EtherType::GOOSE, 60);
    let protected = sender.run_outward(&express, 1).unwrap().frame;
    sender.disable_transmit(an(0)).unwrap();
    let ran = sender.run_outward(&express, 1).unwrap();
    assert_eq!((ran.verdict, &ran.frame), (Verdict::Pass, &express));
    sender.retire_transmit(an(0)).unwrap();
    let ran = sender.run_outward(&express, 1).unwrap();
    assert_eq!((ran.verdict, ran.frame), (Verdict::Pass, express));
    let lldp = frame(&[], EtherType::LLDP, 60);
    assert_eq!(sender.run_outward(&lldp, 1).unwrap().verdict, Verdict::Redirect);
    let pause = frame(&[], EtherType::MAC_CONTROL, 60);
    assert_eq!(sender.run_outward(&pause, 1).unwrap().verdict, Verdict::Drop);
    // Neither has the SA that this frame names.
    let mut other = protected.clone();
    other[14] |= 3;
    let ran = receiver.run_inward(&other, 1).unwrap();
    assert_eq!((ran.verdict, ran.frame), (Verdict::Pass, other));
}

#[test]
fn frames_of_other_scs_are_user_spaces_as_they_came() {
    let [sender, receiver] = ends(Settings { clear_vlan: ClearVlan::Strip, ..SETTINGS });
    let sent = frame(&[], EtherType::PROFINET, 60);
    let protected = sender.run_outward(&sent, 1).unwrap().frame;
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut frame = protected.clone();
        change(&mut frame);
        frame
    };
    let others = [
        changed(|frame| frame[26] &= 0x7f),
        // SDUs that share a frame, and parts of one, on the peer's other SC.
        changed(|frame| (frame[15], frame[26]) = (frame[15] | 0xc0, 0)),
        // No SCI in it; end station.
        changed(|frame| frame[14] &= !0x20),
        changed(|frame| frame[14] = frame[14] & !0x20 | 0x40),
        changed(|frame| frame.truncate(27)),
        changed(|frame| drop(frame.splice(12..12, [0x81, 0, 0, 7, 0x81, 0, 0, 7, 0x81, 0, 0, 7]))),
        frame(&[], EtherType::EAPOL, 60),
        frame(&[7], EtherType::PROFINET, 60),
        frame(&[], EtherType::PROFINET, 60),
    ];
    for other in others {
        let ran = receiver.run_inward(&other, 1).unwrap();
        assert_eq!((ran.verdict, &ran.frame), (Verdict::Pass, &other), "{:02x?}", &other[12..20]);
    }
    // Parts of SDUs on this SC: user space has no SA of it, and discards them.
    let parts = changed(|frame| frame[15] |= 0x40);
    let ran = receiver.run_inward(&parts, 1).unwrap();
    assert_eq!((ran.verdict, ran.frame), (Verdict::Pass, parts));
    assert_eq!(receiver.counters().unwrap().0, Default::default());
    // Rules are those of any SC: tags in front are taken off, and nothing comes twice.
    let tagged = changed(|frame| drop(frame.splice(12..12, [0x81, 0, 0, 7, 0x88, 0xa8, 0, 7])));
    let ran = receiver.run_inward(&tagged, 1).unwrap();
    assert_eq!((ran.verdict, ran.frame), (Verdict::Redirect, sent));
    assert_eq!(receiver.run_inward(&protected, 1).unwrap().verdict, Verdict::Drop);
}

#[test]
fn what_express_scs_cannot_have_is_refused() {
    for (settings, suite, why) in [
        (SETTINGS, CipherSuite::GcmAes256, "the suite is gcm-aes-256"),
        (Settings { validate_frames: secy::ValidateFrames::Check, ..SETTINGS }, SUITE, "validate_frames"),
    ] {
        let refused = Link::suits_express(&settings, suite).map_err(|error: XdpError| error.to_string());
        assert!(refused.as_ref().is_err_and(|said| said.contains(why)), "{refused:?}");
    }
    let splits = Settings { reassemble: true, ..SETTINGS };
    assert!(Link::suits(&splits, SUITE).is_err() && Link::suits_express(&splits, SUITE).is_ok());
}

fn classes(of: &[ExpressClass]) -> ExpressClasses {
    of.iter().fold(ExpressClasses::NONE, |classes, class| classes.with(*class).unwrap())
}

/// Whether the program takes a frame for express, and whether user space does.
fn both(link: &Link, classes: &ExpressClasses, frame: &[u8]) -> (bool, bool) {
    let ran = link.run_outward(frame, 1).unwrap();
    if ran.verdict == Verdict::Pass {
        assert_eq!(ran.frame, frame);
    }
    (ran.verdict == Verdict::Redirect, classes.has(frame))
}

/// An IP packet behind tags of these PCPs: traffic class, its fragment's word or next header, and two ports.
fn ip(pcps: &[u8], options: Option<u8>, class: u8, fragment: u16, protocol: u8, ports: [u16; 2]) -> Vec<u8> {
    let mut packet = match options {
        Some(words) => {
            let mut packet = vec![0x45 + words, class, 0, 60, 0, 1];
            packet.extend(fragment.to_be_bytes());
            packet.extend([64, protocol]);
            packet.resize(20 + 4 * usize::from(words), 7);
            packet
        }
        None => {
            let mut packet = vec![0x60 | class >> 4, class << 4, 0, 0, 0, 20, protocol, 64];
            packet.resize(40, 7);
            packet
        }
    };
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    let ethertype = if options.is_some() { EtherType::IPV4 } else { EtherType::IPV6 };
    let mut whole = frame(pcps, ethertype, 0);
    whole.extend(packet);
    whole
}

/// Each kind of class, each of IP in both versions, at every length that a frame can be cut to.
#[test]
fn every_kind_of_class_is_known_by_the_rules_of_user_space() {
    use ExpressClass::{Dscp, EtherType as Type, Pcp, Tcp, Udp};
    let kinds = [Type(EtherType(0x9100)), Pcp(3), Dscp(46), Dscp(0), Udp(4840), Tcp(102)];
    let full = |kind: fn(u16) -> ExpressClass| (1..=16).map(kind).collect::<Vec<_>>();
    let mut rows: Vec<Vec<ExpressClass>> = kinds.iter().map(|kind| vec![*kind]).collect();
    rows.extend([vec![], kinds.to_vec(), full(Udp), full(Tcp)]);
    let mut frames = vec![frame(&[], EtherType(0x9100), 20), frame(&[3, 0], EtherType(0x9100), 20)];
    for pcps in [&[][..], &[3], &[0, 3], &[0, 0, 0]] {
        for (class, fragment) in [(0xb8, 0x4000), (0, 0), (0xbb, 0x2000), (4, 1), (4, 0x8000)] {
            for ports in [[4840, 1], [2, 4840], [102, 9], [16, 17], [17, 16], [0, 0]] {
                for protocol in [17, 6, 44, 1] {
                    for options in [None, Some(0), Some(10)] {
                        frames.push(ip(pcps, options, class, fragment, protocol, ports));
                    }
                }
            }
        }
    }
    let [mut sender, _] = ends(SETTINGS);
    let settings = Settings { reassemble: true, ..SETTINGS };
    let mut express = 0;
    for row in rows {
        let classes = classes(&row);
        configure(&mut sender, 0, &settings, &classes);
        for frame in &frames {
            let [program, user_space] = <[bool; 2]>::from(both(&sender, &classes, frame));
            assert_eq!(program, user_space, "{row:?} {frame:02x?}");
            express += u32::from(program);
        }
    }
    assert!(express > 1000, "{express}");
    let classes = classes(&kinds[2..]);
    configure(&mut sender, 0, &settings, &classes);
    for whole in [ip(&[0], Some(3), 4, 0, 17, [1, 4840]), ip(&[], None, 4, 0, 6, [102, 1])] {
        for octets in 14..=whole.len() {
            let (program, user_space) = both(&sender, &classes, &whole[..octets]);
            assert_eq!((program, user_space), (octets == whole.len(), octets == whole.len()), "{octets}");
        }
    }
}

/// Beginnings of frames: tags, EtherTypes and IP headers, with octets changed anywhere, cut anywhere, or nothing of it.
fn beginnings() -> impl Strategy<Value = Vec<u8>> {
    let ports = || prop_oneof![Just(102_u16), Just(4840), any::<u16>()];
    let protocol = prop_oneof![Just(6_u8), Just(17), any::<u8>()];
    let options = proptest::option::of(0_u8..11);
    let fragment = prop_oneof![Just(0_u16), Just(0x4000), any::<u16>()];
    let pcps = proptest::collection::vec(0_u8..8, 0..4);
    let whole = (pcps, options, any::<u8>(), fragment, protocol, [ports(), ports()]).prop_map(
        |(pcps, options, class, fragment, protocol, ports)| {
            ip(&pcps, options, class, fragment, protocol, ports)
        },
    );
    let garbage = proptest::collection::vec(any::<u8>(), 14..120);
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (prop_oneof![8 => whole, 1 => garbage], changes, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(mut frame, changes, cut, is_cut)| {
            for (at, value) in changes {
                let at = at.index(frame.len());
                frame[at] = value;
            }
            if is_cut {
                frame.truncate(14 + cut.index(frame.len() - 13));
            }
            frame
        },
    )
}

fn class() -> impl Strategy<Value = ExpressClass> {
    prop_oneof![
        prop_oneof![Just(0x0800), Just(0x86dd), Just(0x8100), any::<u16>()]
            .prop_map(|of| ExpressClass::EtherType(EtherType(of))),
        (0_u8..8).prop_map(ExpressClass::Pcp),
        (0_u8..64).prop_map(ExpressClass::Dscp),
        prop_oneof![Just(4840), any::<u16>()].prop_map(ExpressClass::Udp),
        prop_oneof![Just(102), any::<u16>()].prop_map(ExpressClass::Tcp),
    ]
}

/// Whatever comes, the program and user space take the same frames for express.
#[test]
fn garbage_is_express_in_both_or_in_neither() {
    let [mut sender, _] = ends(SETTINGS);
    let settings = Settings { reassemble: true, ..SETTINGS };
    let config = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let cases = (proptest::collection::vec(class(), 0..12), proptest::collection::vec(beginnings(), 50));
    let sender = std::cell::RefCell::new(&mut sender);
    let seen = std::cell::Cell::new([0_u32; 2]);
    runner
        .run(&cases, |(of, frames)| {
            let classes = classes(&of);
            let mut sender = sender.borrow_mut();
            configure(&mut sender, 0, &settings, &classes);
            for frame in frames {
                // Those never come so far.
                if matches!(frame[12..14], [0x88, 0x08 | 0xcc]) {
                    continue;
                }
                let (program, user_space) = both(&sender, &classes, &frame);
                prop_assert_eq!(program, user_space, "{:?} {:02x?}", of, frame);
                let [others, express] = seen.get();
                seen.set(if program { [others, express + 1] } else { [others + 1, express] });
            }
            Ok(())
        })
        .unwrap();
    assert!(seen.get().iter().all(|count| *count > 100), "{seen:?}");
}
