//! Frames of implementations that are not ours, octet for octet: the Linux kernel's macsec, scapy, and the
//! standard's Annex C. Each wire frame is verified to its clear frame, each clear frame protected to its wire frame.

mod ends;

use ends::{Outcome, protect, verify};
use secy::{
    ClearVlan, ConfidentialityOffset, Protection, ReceiveDiscard, ReceiveSa, SciInclusion, SecY, Settings,
    TransmitSa, ValidateFrames, XpnBinding,
};
use suite::{CipherSuite, Key, Sak, Salt};
use testkit::fixture::{FixtureSa, MacsecCase, annex_c, macsec_cases};
use wire::{Pn, Sci, SecTag, SecureData, Ssci};

fn key(suite: &str, octets: &[u8]) -> Key {
    let suite: CipherSuite = suite.parse().expect("a known suite");
    Key::prepare(suite, &Sak::new(suite, octets).expect("a key of the right length"))
        .expect("the suite's own SAK")
}

fn protection(case: &MacsecCase) -> Protection {
    let offset = match case.confidentiality_offset {
        0 => ConfidentialityOffset::Zero,
        30 => ConfidentialityOffset::Thirty,
        50 => ConfidentialityOffset::Fifty,
        other => panic!("offset {other}"),
    };
    if case.encrypt { Protection::Encrypt(offset) } else { Protection::Integrity }
}

fn settings(case: &MacsecCase) -> Settings {
    Settings {
        protect_frames: true,
        sci_inclusion: match (case.send_sci, case.end_station) {
            (true, _) => SciInclusion::Always,
            (false, true) => SciInclusion::EndStation,
            (false, false) => SciInclusion::Never,
        },
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        reassemble: false,
        mtu: 9216,
    }
}

fn xpn(sa: &FixtureSa) -> Option<XpnBinding> {
    sa.xpn.map(|(ssci, salt)| XpnBinding { ssci: Ssci(ssci), salt: Salt(salt) })
}

fn transmitter(case: &MacsecCase, sa: &FixtureSa) -> SecY {
    let first = Pn::new(sa.first_pn).expect("a PN");
    let mut secy = SecY::new(sa.sci, settings(case));
    let key = key(&case.suite, &sa.key);
    let transmit = TransmitSa::new(sa.an, key, xpn(sa), protection(case), first, Pn::LAST_64);
    secy.install_transmit(Box::new(transmit.expect("an SA"))).expect("a free AN");
    secy.enable_transmit(sa.an).expect("installed");
    secy
}

fn receiver(case: &MacsecCase, sa: &FixtureSa) -> SecY {
    let first = Pn::new(sa.first_pn).expect("a PN");
    let mut secy = SecY::new(Sci::from_octets([0xee; 8]), settings(case));
    secy.install_receive_sc(sa.sci).expect("a free SCI");
    let key = key(&case.suite, &sa.key);
    let receive = ReceiveSa::new(sa.an, key, xpn(sa), protection(case), first, 0);
    secy.install_receive(sa.sci, Box::new(receive.expect("an SA"))).expect("a free AN");
    secy.enable_receive(sa.sci, sa.an).expect("installed");
    secy
}

/// Runs all cases of a folder both ways and returns (frames delivered, frames that the recorded receiver refused).
fn run(folder: &str) -> (usize, usize) {
    let (mut delivered, mut refused) = (0, 0);
    for case in macsec_cases(folder) {
        for sa in &case.sas {
            let (mut tx, mut rx) = (transmitter(&case, sa), receiver(&case, sa));
            let frames = case.frames.iter().filter(|frame| frame.direction == sa.direction);
            for frame in frames {
                let at = format!("{} {} {}", case.name, sa.direction, frame.label);
                assert_eq!(
                    protect(&mut tx, &frame.clear),
                    Outcome::Passed(frame.wire.clone()),
                    "{at}: protect"
                );
                let outcome = verify(&mut rx, &frame.wire);
                if frame.delivered {
                    assert_eq!(outcome, Outcome::Passed(frame.clear.clone()), "{at}: verify");
                    delivered += 1;
                } else {
                    assert_eq!(outcome, Outcome::Discarded(ReceiveDiscard::NoSaError), "{at}: verify");
                    refused += 1;
                }
            }
        }
    }
    (delivered, refused)
}

#[test]
fn the_linux_kernels_frames() {
    // The refused ones are bridged frames sent with ES: their source address is not the transmitter's SCI, so the
    // kernel's receiver has no SC for them either.
    assert_eq!(run("macsec-kernel"), (692, 4));
}

#[test]
fn scapys_frames_with_confidentiality_offsets() {
    assert_eq!(run("macsec-offset"), (144, 0));
}

#[test]
fn the_standards_annex_c() {
    let mut checked = 0;
    for vector in annex_c() {
        let header = wire::ethernet::Header::parse(&vector.wire).expect("a header");
        let tag = SecTag::parse(&vector.wire[header.octets() - 2..]).expect("a SecTAG");
        let pn = vector.xpn.map_or(0, |(_, _, high)| u64::from(high) << 32) | u64::from(tag.pn);
        let sci = tag.sc.sci(header.source).expect("an SCI, or ES");
        let sa = FixtureSa {
            direction: "ab".into(),
            sci,
            an: tag.an,
            key: vector.key.clone(),
            first_pn: pn,
            xpn: vector.xpn.map(|(ssci, salt, _)| (ssci, salt)),
        };
        let case = MacsecCase {
            name: vector.name.clone(),
            suite: vector.suite.clone(),
            encrypt: tag.data == SecureData::Encrypted,
            send_sci: tag.octets() == 16,
            end_station: matches!(tag.sc, wire::ScEncoding::EndStation),
            confidentiality_offset: 0,
            sas: vec![],
            frames: vec![],
        };
        if header.vlan_tags == 0 {
            assert_eq!(
                protect(&mut transmitter(&case, &sa), &vector.clear),
                Outcome::Passed(vector.wire.clone()),
                "{}: protect",
                vector.name
            );
            let outcome = verify(&mut receiver(&case, &sa), &vector.wire);
            assert_eq!(outcome, Outcome::Passed(vector.clear.clone()), "{}: verify", vector.name);
        } else {
            vlan_tags_in_clear(&case, &sa, &vector.clear, &vector.wire, header.vlan_tags);
        }
        checked += 1;
    }
    assert_eq!(checked, 36);
}

/// Tags in clear are refused unless configured, and never come back into what is delivered.
fn vlan_tags_in_clear(case: &MacsecCase, sa: &FixtureSa, clear: &[u8], wire: &[u8], tags: usize) {
    let outcome = verify(&mut receiver(case, sa), wire);
    assert_eq!(outcome, Outcome::Discarded(ReceiveDiscard::ClearVlan), "{}", case.name);
    let mut secy = SecY::new(
        Sci::from_octets([0xee; 8]),
        Settings { clear_vlan: ClearVlan::Strip, ..*receiver(case, sa).settings() },
    );
    secy.install_receive_sc(sa.sci).expect("a free SCI");
    let key = key(&case.suite, &sa.key);
    let receive = ReceiveSa::new(sa.an, key, None, protection(case), Pn::FIRST, 0);
    secy.install_receive(sa.sci, Box::new(receive.expect("an SA"))).expect("a free AN");
    secy.enable_receive(sa.sci, sa.an).expect("installed");
    let without_tags = [&clear[..12], &clear[12 + 4 * tags..]].concat();
    assert_eq!(verify(&mut secy, wire), Outcome::Passed(without_tags), "{}", case.name);
}
