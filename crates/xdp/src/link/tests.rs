//! Keys of a link are in its maps as long as their SAs are there. Root, as all that loads programs.

use wire::Pn;

use super::*;
use aya::maps::{Map, MapData};
use secy::{ClearVlan, ConfidentialityOffset, SciInclusion};
use std::os::fd::AsFd;

const OWN: Sci = Sci::from_octets([1; 8]);
const PEER: Sci = Sci::from_octets([2; 8]);
const SETTINGS: Settings = Settings {
    protect_frames: true,
    sci_inclusion: SciInclusion::Always,
    validate_frames: ValidateFrames::Strict,
    replay_protect: true,
    clear_vlan: ClearVlan::Refuse,
    mtu: 1532,
    reassemble: false,
};
const KEY: [u8; 32] = *b"a key that is looked for in maps";

/// Whether a map has the key in one of its values.
fn has_key<const N: usize>(map: &Map, entries: u32) -> bool {
    let values = Array::<_, [u8; N]>::try_from(map).unwrap();
    (0..entries).any(|at| values.get(&at, 0).unwrap().windows(KEY.len()).any(|octets| octets == KEY))
}

/// `struct transmit_sc` and `struct receive_sa`.
fn has_keys([transmit, receive, _]: &[Map; 3]) -> [bool; 2] {
    [has_key::<392>(transmit, 1), has_key::<104>(receive, 128)]
}

/// Whether a slot has anything but zeros.
fn has_keystream([_, _, slots]: &[Map; 3]) -> bool {
    let slots = Array::<_, [u8; layout::SLOT]>::try_from(slots).unwrap();
    slots.iter().any(|slot| slot.unwrap().iter().any(|octet| *octet != 0))
}

/// Maps with secrets, which outlive the link as long as somebody has its programs.
fn maps(link: &Link) -> [Map; 3] {
    ["transmit", "receive", "slots"].map(|name| {
        let Map::Array(data) = link.programs.map_ref(name).unwrap() else { panic!("{name}") };
        Map::Array(MapData::from_fd(data.fd().as_fd().try_clone_to_owned().unwrap()).unwrap())
    })
}

#[test]
fn no_key_is_left_in_a_map_when_its_sa_has_gone() {
    let (own, peer, settings) = (OWN, PEER, SETTINGS);
    let mut link = Link::load(64).unwrap();
    let maps = maps(&link);
    link.share_slots().unwrap();
    link.configure(own, &settings, &[], Unclaimed::Drop).unwrap();
    let suite = CipherSuite::ChaCha20Poly1305;
    let sak = Sak::new(suite, &KEY).unwrap();
    let protection = Protection::Encrypt(ConfidentialityOffset::Zero);
    let key = SaKey { suite, sak: &sak, xpn: None, protection };
    let (an, other) = (An::ALL[0], An::ALL[3]);
    let install = |link: &mut Link| {
        link.install_receive_sc(peer).unwrap();
        for an in [an, other] {
            link.install_transmit(an, &key, Pn::FIRST, Pn::LAST_32).unwrap();
            link.install_receive(peer, an, &key, Pn::FIRST, 64).unwrap();
        }
        link.enable_transmit(other).unwrap();
        link.enable_receive(peer, other).unwrap();
        assert_eq!(has_keys(&maps), [true, true]);
        link.fill();
        assert!(has_keystream(&maps));
    };
    install(&mut link);
    for an in [an, other] {
        link.retire_transmit(an).unwrap();
        link.retire_receive(peer, an).unwrap();
    }
    assert_eq!(has_keys(&maps), [false, false]);
    assert!(!has_keystream(&maps));
    link.retire_receive_sc(peer).unwrap();
    install(&mut link);
    link.clear().unwrap();
    assert_eq!(has_keys(&maps), [false, false]);
    assert!(!has_keystream(&maps));
    install(&mut link);
    // Also where SAs cannot be retired.
    link.ahead = None;
    assert!(!has_keystream(&maps));
    drop(link);
    assert_eq!(has_keys(&maps), [false, false]);
}

/// As in the next program of a process: the descriptors are there, and nobody has them.
#[test]
fn programs_go_on_without_a_key_and_count_on() {
    let suite = CipherSuite::ChaCha20Poly1305;
    let sak = Sak::new(suite, &KEY).unwrap();
    let protection = Protection::Encrypt(ConfidentialityOffset::Zero);
    let key = SaKey { suite, sak: &sak, xpn: None, protection };
    let frame = [&[2; 12][..], &[0x88, 0xb5], &[7; 46]].concat();
    let protects = |link: &mut Link, first: u64| {
        link.install_transmit(An::ALL[1], &key, Pn::new(first).unwrap(), Pn::LAST_32).unwrap();
        link.enable_transmit(An::ALL[1]).unwrap();
        let protected = link.run_outward(&frame, 1).unwrap().frame;
        assert_eq!(protected[16..20], (first as u32).to_be_bytes());
    };
    let mut link = Link::load(64).unwrap();
    link.share_slots().unwrap();
    link.configure(OWN, &SETTINGS, &[], Unclaimed::Drop).unwrap();
    link.stand_aside(false).unwrap();
    link.install_receive_sc(PEER).unwrap();
    protects(&mut link, 5);
    assert!(link.pass_on().is_err(), "it has a transmit SA");
    link.retire_transmit(An::ALL[1]).unwrap();
    link.install_receive(PEER, An::ALL[2], &key, Pn::FIRST, 64).unwrap();
    assert!(link.pass_on().is_err(), "it has a receive SA");
    link.retire_receive(PEER, An::ALL[2]).unwrap();
    let maps = maps(&link);
    let (document, counted) =
        (serde_json::to_string(&link.pass_on().unwrap()).unwrap(), link.transmit_counters().unwrap());
    let passed: PassedLink = serde_json::from_str(&document).unwrap();
    let numbers: Vec<_> = passed.descriptors().collect();
    netdev::passed_on::pass_on(&numbers, true).unwrap();
    // The program before has no time to drop anything.
    let _before = std::mem::ManuallyDrop::new(link);
    assert_eq!((has_keys(&maps), has_keystream(&maps)), ([false, false], false));
    let mut next = Link::go_on(&passed).unwrap();
    assert!(Link::go_on(&passed).is_err(), "they are somebody's");
    assert_eq!((next.sci(), next.receive_scs().collect::<Vec<_>>()), (OWN, vec![PEER]));
    assert_eq!(next.room(), 64);
    assert_eq!(next.transmit_counters().unwrap(), counted);
    next.keep_filling(|| ()).unwrap();
    protects(&mut next, 6);
    assert_eq!(next.transmit_counters().unwrap().values()[0..2].iter().sum::<u64>(), 2);
    drop(next);
    assert_eq!(has_keys(&maps), [false, false]);
}
