//! Tables and properties of the codec; what wpa_supplicant sent is read in `crates/suite/tests/mka.rs`.

extern crate std;

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

const DESTINATION: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x03]);
const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0a]);
const ICV: [u8; ICV_OCTETS] = [0xcc; ICV_OCTETS];

fn basic(ckn: &[u8]) -> BasicParameters {
    BasicParameters {
        version: MKA_VERSION,
        priority: 16,
        key_server: true,
        macsec_desired: true,
        capability: Capability::Offsets,
        sci: Sci::new(SOURCE, 1),
        mi: Mi([7; 12]),
        mn: 1,
        agility: ALGORITHM_AGILITY,
        ckn: Ckn::new(ckn).expect("1 to 32 octets"),
    }
}

fn written(basic: &BasicParameters, sets: &[ParameterSet<'_>], indicate: bool) -> Vec<u8> {
    let mut buffer = std::vec![0xaa; 70_000];
    let mut writer = Writer::new(&mut buffer, DESTINATION, SOURCE, EAPOL_VERSION, basic).expect("room");
    for set in sets {
        writer.push(set).expect("room");
    }
    let mut authenticated = Vec::new();
    let icv = |octets: &[u8]| {
        authenticated = octets.to_vec();
        ICV
    };
    let frame = writer.finish(indicate, icv).expect("room").to_vec();
    assert_eq!(frame, [authenticated, ICV.to_vec()].concat());
    frame
}

/// A frame of this body, as long as it says.
fn frame(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u16).to_be_bytes();
    [&DESTINATION.0[..], &SOURCE.0, &[0x88, 0x8e, 3, 5], &length, body].concat()
}

/// A body with an empty Basic but for a CKN of one octet, these octets of sets, and an ICV.
fn body(sets: &[u8]) -> Vec<u8> {
    let minimal = written(&basic(b"a"), &[], false);
    [&minimal[EAPOL_HEADER_OCTETS..minimal.len() - ICV_OCTETS], sets, &ICV].concat()
}

fn error(sets: &[u8]) -> Option<MkpduError> {
    Mkpdu::parse(&frame(&body(sets))).err()
}

fn set(kind: u8, body: usize) -> Vec<u8> {
    let [high, low] = (body as u16).to_be_bytes();
    let mut set = std::vec![kind, 0, high, low];
    set.resize(SET_HEADER_OCTETS + padded(body), 0);
    set
}

#[test]
fn an_mkpdu_stands_as_figure_11_7_draws_it() {
    let peer = PeerEntry { mi: Mi([9; 12]), mn: 0x0102_0304 };
    let mut buffer = [0; 16];
    let peers = PeerList::write([peer].into_iter(), &mut buffer);
    let frame = written(&basic(b"name"), &[ParameterSet::LivePeers { key_server_ssci: 2, peers }], true);
    let expected = [
        &[0x01, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, 0x0a, 0x88, 0x8e, 3, 5, 0, 76][..],
        &[3, 16, 0xf0, 32, 2, 0, 0, 0, 0, 0x0a, 0, 1],
        &[7; 12],
        &[0, 0, 0, 1, 0x00, 0x80, 0xc2, 0x01],
        b"name",
        &[1, 2, 0, 16],
        &[9; 12],
        &[1, 2, 3, 4, 255, 0, 0, 16],
        &ICV,
    ];
    assert_eq!(frame, expected.concat());
    let mkpdu = Mkpdu::parse(&frame).expect("an MKPDU");
    assert!(mkpdu.icv_indicated);
    assert_eq!((mkpdu.destination, mkpdu.source, mkpdu.eapol_version), (DESTINATION, SOURCE, 3));
    assert_eq!(mkpdu.basic, basic(b"name"));
    assert_eq!((mkpdu.authenticated(), mkpdu.icv()), (&frame[..frame.len() - 16], &ICV));
}

#[test]
fn every_rule_has_its_error() {
    use MkpduError::*;
    for (sets, expected) in [
        (std::vec![], None),
        (set(1, 16), None),
        (set(1, 0), None),
        (set(1, 15), Some(PeerList)),
        (set(2, 24), Some(PeerList)),
        (set(3, 0), None),
        (set(3, 36), Some(SakUse)),
        (set(3, 39), Some(SakUse)),
        (set(3, 40), None),
        (set(3, 44), None),
        (set(4, 0), None),
        (set(4, 4), Some(DistributedSak)),
        (set(4, 28), None),
        (set(4, 32), Some(DistributedSak)),
        (set(4, 36), None),
        (set(4, 52), None),
        (set(5, 24), Some(DistributedCak)),
        (set(5, 25), None),
        (set(5, 72), None),
        (set(5, 73), Some(DistributedCak)),
        (set(6, 0), None),
        (set(6, 253), None),
        (set(6, 254), Some(Kmd)),
        (set(7, 3), None),
        (set(8, 4), Some(Xpn)),
        (set(8, 8), None),
        (set(0, 3), None),
        (set(9, 77), None),
        (set(200, 5), None),
        ([set(200, 5), set(200, 5)].concat(), None),
        ([set(0, 5), set(0, 5)].concat(), None),
        ([set(1, 0), set(2, 0), set(1, 0)].concat(), Some(Repeated(1))),
        ([set(7, 5), set(7, 5)].concat(), Some(Repeated(7))),
        ([set(8, 8), set(8, 8)].concat(), Some(Repeated(8))),
        // Contents that do not fit before the ICV.
        (std::vec![6, 0, 0, 1], Some(SetTooLong(6))),
        (std::vec![99, 0, 0, 5, 0, 0, 0, 0], Some(SetTooLong(99))),
        (std::vec![1, 0, 0x0f, 0xf0], Some(SetTooLong(1))),
        // The ICV Indicator: last, and of an ICV of 16 octets.
        (std::vec![255, 0, 0, 16], None),
        (std::vec![255, 0, 0, 0], Some(IcvIndicator)),
        (std::vec![255, 0, 0, 20], Some(IcvIndicator)),
        ([&[255, 0, 0, 16], &set(6, 0)[..]].concat(), Some(IcvIndicator)),
        ([&set(6, 2)[..], &[255, 0, 0, 16]].concat(), None),
    ] {
        assert_eq!(error(&sets), expected, "{sets:?}");
    }
}

#[test]
fn the_eapol_header_and_the_basic_set_are_checked() {
    use MkpduError::*;
    let good = frame(&body(&[]));
    let changed = |at: usize, octet: u8| {
        let mut frame = good.clone();
        frame[at] = octet;
        Mkpdu::parse(&frame).err()
    };
    assert_eq!(changed(0, 0), None, "the destination is the port's matter");
    assert_eq!(changed(13, 0xe5), Some(NotEapol));
    assert_eq!(changed(12, 0x81), Some(NotEapol), "with a VLAN tag");
    for packet_type in 0..=u8::MAX {
        let expected = (packet_type != 5).then_some(NotMka(packet_type));
        assert_eq!(changed(15, packet_type), expected);
    }
    for version in 0..=u8::MAX {
        assert_eq!(changed(14, version), None, "EAPOL version {version}");
        assert_eq!(changed(18, version), (version == 0).then_some(Version), "MKA version {version}");
    }
    assert_eq!(changed(17, 0), Some(TooShort));
    assert_eq!(changed(17, 28), Some(TooShort));
    assert_eq!(changed(17, 51), Some(Alignment));
    assert_eq!(changed(17, 48), Some(BasicTooLong));
    assert_eq!(changed(17, 56), Some(Truncated));
    assert_eq!(changed(21, 27), Some(Ckn));
    assert_eq!(changed(21, 28), Some(Ckn), "of no octets");
    assert_eq!(changed(21, 33), Some(BasicTooLong));
    let mut long = written(&basic(&[1; 32]), &[ParameterSet::Kmd(b"more")], false);
    assert_eq!(Mkpdu::parse(&long).err(), None);
    long[21] = 61;
    assert_eq!(Mkpdu::parse(&long).err(), Some(Ckn), "33 octets");
    for octets in 0..good.len() {
        assert_eq!(Mkpdu::parse(&good[..octets]), Err(Truncated), "{octets} octets");
    }
}

#[test]
fn ethernets_padding_and_that_of_sets_is_ignored() {
    let mut octets = frame(&body(&set(6, 1)));
    octets.extend([0xee; 9]);
    let padding = octets.len() - 9 - ICV_OCTETS - 1;
    octets[padding] = 0xee;
    let mkpdu = Mkpdu::parse(&octets).expect("an MKPDU");
    assert_eq!(mkpdu.sets().collect::<Vec<_>>(), [ParameterSet::Kmd(&[0])]);
    assert_eq!(mkpdu.icv(), &ICV);
}

#[test]
fn a_key_that_is_not_in_use_is_none() {
    let sak_use = |keys: [u8; 2]| {
        let mut octets = set(3, 40);
        octets[1] = keys[0];
        octets[19] = keys[1];
        match Mkpdu::parse(&frame(&body(&octets))).expect("an MKPDU").sets().next() {
            Some(ParameterSet::SakUse(sak_use)) => (sak_use.latest, sak_use.old),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(sak_use([0xff, 0]), (None, None), "the bits of no key say nothing");
    let (latest, old) = sak_use([0b1001_0000, 5]);
    let key = latest.expect("KN 5");
    assert_eq!((key.ki.kn, key.an.number(), key.tx, key.rx), (5, 2, false, true));
    assert_eq!(old, None);
}

#[test]
fn a_wrapped_cak_ends_where_its_name_begins() {
    for (octets, wrapped) in [(25, 24), (40, 24), (41, 24), (56, 24), (57, 40), (72, 40)] {
        let octets = frame(&body(&set(5, octets)));
        let mkpdu = Mkpdu::parse(&octets).expect("an MKPDU");
        match mkpdu.sets().next() {
            Some(ParameterSet::DistributedCak { wrapped: cak, .. }) => assert_eq!(cak.len(), wrapped),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_what_stands() {
    let whole = written(&basic(b"a"), &[ParameterSet::Kmd(b"kmd")], true);
    for room in 0..=whole.len() {
        let mut buffer = std::vec![0; room];
        let write = |buffer: &mut [u8]| {
            let mut writer = Writer::new(buffer, DESTINATION, SOURCE, EAPOL_VERSION, &basic(b"a"))?;
            let refused = writer.push(&ParameterSet::Kmd(&[0; 4096]));
            assert_eq!(refused, Err(TooLong), "12 bits of length");
            writer.push(&ParameterSet::Kmd(b"kmd"))?;
            writer.finish(true, |_| ICV).map(<[u8]>::to_vec)
        };
        let expected = if room < whole.len() { Err(TooLong) } else { Ok(whole.clone()) };
        assert_eq!(write(&mut buffer), expected, "{room} octets of room");
    }
    let mut buffer = std::vec![0; 70_000];
    let mut writer =
        Writer::new(&mut buffer, DESTINATION, SOURCE, EAPOL_VERSION, &basic(b"a")).expect("room");
    while writer.push(&ParameterSet::Unknown { kind: 99, flags: [0; 2], body: &[0; 4000] }).is_ok() {}
    assert_eq!(writer.finish(false, |_| ICV), Err(TooLong), "16 bits of EAPOL body length");
}

#[test]
fn peers_that_find_no_room_are_left_out() {
    let peers = (1..=3).map(|mn| PeerEntry { mi: Mi([mn as u8; 12]), mn });
    let mut buffer = [0; 47];
    let list = PeerList::write(peers.clone(), &mut buffer);
    assert!(list.iter().eq(peers.take(2)));
    assert_eq!((list.len(), list.is_empty()), (2, false));
}

#[test]
fn announcements_of_others_are_read_as_far_as_they_are_known() {
    let tlvs = |octets: &'static [u8]| Tlvs(octets).iter().collect::<Vec<_>>();
    assert_eq!(tlvs(&[]), []);
    assert_eq!(tlvs(&[0xe0]), [], "half a head");
    assert_eq!(tlvs(&[0xe0, 1]), [], "a value that is not there");
    let other = |kind, value| Tlv::Other { kind, value };
    assert_eq!(tlvs(&[0xdf, 0, 0xe3, 3, 1, 2, 3]), [], "a length of 256 octets");
    assert_eq!(tlvs(&[0xde, 0, 0xe2, 3, 1, 2, 3, 0]), [other(111, &[]), other(113, &[1, 2, 3])]);
    let others = b"\xfe\x0c\xf2\x46\x57\x01FWRE\x01\x03\x05\xdc";
    assert_eq!(tlvs(others), [other(127, &others[2..])], "another name");
    let older = b"\xfe\x0c\xf2\x46\x57\x01FWRD\x00\x03\x05\xdc";
    assert_eq!(tlvs(older), [other(127, &older[2..])], "version 0");
    let short = b"\xfe\x0b\xf2\x46\x57\x01FWRD\x01\x03\x05";
    assert_eq!(tlvs(short), [other(127, &short[2..])]);
    let newer = b"\xfe\x14\xf2\x46\x57\x01FWRD\x02\xd9\x05\xdc\x02\x00\x21\x83\xff\xff\x01\x02";
    let [Tlv::Extensions(extensions, figures)] = tlvs(newer)[..] else { panic!("ours") };
    let expected = Extensions {
        reassembles: true,
        splits: false,
        misses: false,
        express: true,
        carries_whole: true,
        in_kernel: false,
        takes_padded: true,
        largest_sdu: 1500,
    };
    assert_eq!(extensions, expected, "flags of later versions are skipped");
    let figure =
        |identifier: u64, nanoseconds| TimingEntry { identifier: identifier.to_be_bytes(), nanoseconds };
    let expected = [figure(0xf246_5700_0000_0002, 33), figure(0x0080_c200_0100_0003, 65535)];
    assert!(figures.iter().eq(expected), "what is behind the last whole figure is skipped");
}

#[test]
fn our_announcement_stands_as_the_module_draws_it() {
    let identifier = |number: u64| number.to_be_bytes();
    let (gcm, aegis) = (identifier(0x0080_c200_0100_0001), identifier(0xf246_5700_0000_0002));
    let mut buffer = [0; 96];
    let mut writer = TlvWriter::new(&mut buffer);
    let capable = |identifier| CapableSuite { identifier, capability: Capability::Offsets };
    writer.cipher_suites([gcm, aegis].map(capable).into_iter()).expect("room");
    let extensions = Extensions {
        reassembles: true,
        splits: true,
        misses: true,
        express: true,
        carries_whole: false,
        in_kernel: true,
        takes_padded: true,
        largest_sdu: 9000,
    };
    let stranger = identifier(0x0123_4567_89ab_cdef);
    let figures = [(gcm, 120), (stranger, 1), (aegis, u16::MAX)];
    let figures = figures.map(|(identifier, nanoseconds)| TimingEntry { identifier, nanoseconds });
    writer.extensions(&extensions, figures.into_iter()).expect("room");
    let name = SystemName::new(b"Nord-1").expect("a name");
    writer.name(&name).expect("room");
    let tlvs = writer.finish();
    let expected = [
        &[0xe0, 20, 0, 3, 0x00, 0x80, 0xc2, 0, 1, 0, 0, 1, 0, 3, 0xf2, 0x46, 0x57, 0, 0, 0, 0, 2][..],
        b"\xfe\x12\xf2\x46\x57\x01FWRD\x01\x6f\x23\x28\x81\x00\x78\x02\xff\xff",
        b"\xfe\x0e\xf2\x46\x57\x02FWRDNord-1",
    ];
    assert_eq!(tlvs.0, expected.concat());
    let read: Vec<_> = tlvs.iter().collect();
    let [Tlv::CipherSuites(suites), Tlv::Extensions(read, read_figures), Tlv::Name(named)] = read[..] else {
        panic!("{read:?}")
    };
    assert!(suites.iter().eq([gcm, aegis].map(capable)));
    assert_eq!(read, extensions);
    assert!(read_figures.iter().eq([figures[0], figures[2]]));
    assert_eq!(SystemName::new(named), Ok(name));
}

#[test]
fn a_tlv_that_does_not_fit_leaves_what_stands() {
    for room in 0..=7 {
        let mut buffer = [0; 7];
        let mut writer = TlvWriter::new(&mut buffer[..room]);
        assert_eq!(writer.other(113, &[1, 2]).is_ok(), room >= 4);
        assert_eq!(writer.other(114, &[3]).is_ok(), room == 7 || room == 3);
        let read = writer.finish();
        assert_eq!(read.iter().count(), usize::from(room >= 3) + usize::from(room == 7));
    }
    let mut buffer = [0; 1000];
    let mut writer = TlvWriter::new(&mut buffer);
    assert_eq!(writer.other(113, &[0; 512]), Err(TooLong), "9 bits of length");
    assert_eq!(writer.other(128, &[]), Err(TooLong), "7 bits of type");
    assert!(writer.other(113, &[0; 511]).is_ok());
}

/// AN, confidentiality offset, KN, suite, wrapped key.
type MadeSak = (An, u8, u32, Option<[u8; 8]>, Vec<u8>);

/// Source of a property's set, which borrows from it.
#[derive(Clone, Debug)]
enum Made {
    Peers(bool, u8, Vec<u8>),
    SakUse(Option<KeyUse>, Option<KeyUse>, bool, bool, bool),
    DistributedSak(Option<MadeSak>),
    DistributedCak(Vec<u8>, Vec<u8>),
    Kmd(Vec<u8>),
    Announcement(Vec<u8>),
    Xpn(u8, u32, u32),
    Unknown(u8, [u8; 2], Vec<u8>),
}

impl Made {
    fn set(&self) -> ParameterSet<'_> {
        match self {
            Self::Peers(true, ssci, list) => {
                ParameterSet::LivePeers { key_server_ssci: *ssci, peers: PeerList(list) }
            }
            Self::Peers(false, _, list) => ParameterSet::PotentialPeers(PeerList(list)),
            Self::SakUse(latest, old, plain_tx, plain_rx, delay_protect) => ParameterSet::SakUse(SakUse {
                latest: *latest,
                old: *old,
                plain_tx: *plain_tx,
                plain_rx: *plain_rx,
                delay_protect: *delay_protect,
            }),
            Self::DistributedSak(made) => ParameterSet::DistributedSak(made.as_ref().map(
                |(an, confidentiality, kn, suite, wrapped)| DistributedSak {
                    an: *an,
                    confidentiality: Confidentiality::from_bits(*confidentiality),
                    kn: *kn,
                    suite: *suite,
                    wrapped,
                },
            )),
            Self::DistributedCak(wrapped, ckn) => ParameterSet::DistributedCak { wrapped, ckn },
            Self::Kmd(text) => ParameterSet::Kmd(text),
            Self::Announcement(tlvs) => ParameterSet::Announcement(Tlvs(tlvs)),
            Self::Xpn(suspension, latest, old) => ParameterSet::Xpn {
                suspension: *suspension,
                latest_lowest_pn_high: *latest,
                old_lowest_pn_high: *old,
            },
            Self::Unknown(kind, flags, body) => {
                ParameterSet::Unknown { kind: *kind, flags: [flags[0], flags[1] & 0xf0], body }
            }
        }
    }
}

fn key_uses() -> impl Strategy<Value = Option<KeyUse>> {
    let key = (any::<[u8; 12]>(), 1..=u32::MAX, 0_u8..4, any::<bool>(), any::<bool>(), any::<u32>());
    proptest::option::of(key.prop_map(|(server, kn, an, tx, rx, lowest_pn)| KeyUse {
        ki: Ki { server: Mi(server), kn },
        an: An::from_tci(an),
        tx,
        rx,
        lowest_pn,
    }))
}

fn made() -> impl Strategy<Value = Vec<Made>> {
    let peers = (0..6_usize).prop_flat_map(|peers| vec(any::<u8>(), peers * 16));
    let wrapped = prop_oneof![vec(any::<u8>(), 24), vec(any::<u8>(), 40)];
    let named = (any::<[u8; 8]>(), wrapped).prop_map(|(suite, wrapped)| (Some(suite), wrapped));
    let suites = prop_oneof![vec(any::<u8>(), 24).prop_map(|wrapped| (None, wrapped)), named];
    let sak = ((0_u8..4).prop_map(An::from_tci), 0_u8..4, any::<u32>(), suites);
    let sak = sak.prop_map(|(an, offset, kn, (suite, wrapped))| (an, offset, kn, suite, wrapped));
    let unknown = (9_u8..=254, any::<[u8; 2]>(), vec(any::<u8>(), 0..50));
    let sets = (
        proptest::option::of(
            (any::<u8>(), peers.clone()).prop_map(|(ssci, list)| Made::Peers(true, ssci, list)),
        ),
        proptest::option::of(peers.prop_map(|list| Made::Peers(false, 0, list))),
        proptest::option::of(
            (key_uses(), key_uses(), any::<bool>(), any::<bool>(), any::<bool>())
                .prop_map(|(latest, old, a, b, c)| Made::SakUse(latest, old, a, b, c)),
        ),
        proptest::option::of(proptest::option::of(sak).prop_map(Made::DistributedSak)),
        proptest::option::of(
            (vec(any::<u8>(), 24), vec(any::<u8>(), 1..=32))
                .prop_map(|(cak, ckn)| Made::DistributedCak(cak, ckn)),
        ),
        proptest::option::of(vec(any::<u8>(), 0..=253).prop_map(Made::Kmd)),
        proptest::option::of(vec(any::<u8>(), 0..=80).prop_map(Made::Announcement)),
        proptest::option::of(any::<(u8, u32, u32)>().prop_map(|(a, b, c)| Made::Xpn(a, b, c))),
        vec(unknown.prop_map(|(kind, flags, body)| Made::Unknown(kind, flags, body)), 0..3),
    );
    sets.prop_flat_map(|(a, b, c, d, e, f, g, h, unknown)| {
        let sets: Vec<_> = [a, b, c, d, e, f, g, h].into_iter().flatten().chain(unknown).collect();
        Just(sets).prop_shuffle()
    })
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(
        sets in made(),
        ckn in vec(any::<u8>(), 1..=32),
        (version, priority, bits, sci, mi, mn, agility) in
            (1_u8.., any::<u8>(), any::<u8>(), any::<[u8; 8]>(), any::<[u8; 12]>(), any::<u32>(), any::<[u8; 4]>()),
        indicate: bool,
        trailer in vec(any::<u8>(), 0..8),
    ) {
        let basic = BasicParameters {
            version, priority, mn, agility,
            key_server: bits & 1 != 0,
            macsec_desired: bits & 2 != 0,
            capability: Capability::from_bits(bits >> 2),
            sci: Sci::from_octets(sci),
            mi: Mi(mi),
            ckn: Ckn::new(&ckn).expect("1 to 32 octets"),
        };
        let expected: Vec<_> = sets.iter().map(Made::set).collect();
        let frame = written(&basic, &expected, indicate);
        let padded = [&frame[..], &trailer].concat();
        let mkpdu = Mkpdu::parse(&padded).expect("what is written is an MKPDU");
        prop_assert_eq!(mkpdu.basic, basic);
        prop_assert_eq!(mkpdu.icv_indicated, indicate);
        let read: Vec<_> = mkpdu.sets().collect();
        prop_assert_eq!(&read, &expected);
        prop_assert_eq!(written(&mkpdu.basic, &read, indicate), frame);
    }

    #[test]
    fn a_name_that_is_written_is_read_again(text in "[ -~]{0,70}", before in vec(any::<u8>(), 0..20)) {
        let Ok(name) = SystemName::new(text.as_bytes()) else { return Ok(()) };
        let mut buffer = [0; 200];
        let mut writer = TlvWriter::new(&mut buffer);
        writer.other(113, &before).expect("room");
        writer.name(&name).expect("room");
        let tlvs = writer.finish();
        let read: Vec<_> = tlvs.iter().collect();
        prop_assert_eq!(&read[..], &[Tlv::Other { kind: 113, value: &before }, Tlv::Name(text.as_bytes())]);
        prop_assert_eq!(name.as_str(), text);
    }

    #[test]
    fn any_octets_are_a_name_or_refused(text in "[ -~]{0,70}", at: usize, octet: u8, change: bool) {
        let mut octets = text.into_bytes();
        if let Some(changed) = at.checked_rem(octets.len()).filter(|_| change) {
            octets[changed] = octet;
        }
        // Each octet that may stand in a name, spelled out.
        let allowed = b" !#$%&()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~";
        let is_name = (1..=63).contains(&octets.len())
            && octets.iter().all(|octet| allowed.contains(octet))
            && octets.trim_ascii() == octets;
        let name = SystemName::new(&octets);
        prop_assert_eq!(name.is_ok(), is_name, "{:?}", octets);
        if let Ok(name) = name {
            prop_assert_eq!(name.as_str().as_bytes(), octets);
        }
    }

    #[test]
    fn any_octets_are_read_or_refused(
        mut octets in vec(any::<u8>(), 0..300),
        eapol: bool,
    ) {
        if eapol && octets.len() > 21 {
            let body = (octets.len() - EAPOL_HEADER_OCTETS) as u16 & !3;
            octets[12..16].copy_from_slice(&[0x88, 0x8e, 3, 5]);
            octets[16..18].copy_from_slice(&body.to_be_bytes());
            octets[20] &= 0xf0;
            octets[21] = 29 + (octets[21] & 0x0f);
        }
        if let Ok(mkpdu) = Mkpdu::parse(&octets) {
            for set in mkpdu.sets() {
                if let ParameterSet::Announcement(tlvs) = set {
                    for tlv in tlvs.iter() {
                        if let Tlv::Extensions(_, figures) = tlv {
                            prop_assert!(figures.iter().count() < 512);
                        }
                    }
                }
            }
        }
    }
}
