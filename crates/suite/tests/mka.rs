//! MKPDUs of wpa_supplicant, read, verified, unwrapped and written again: `tests/vectors/mka`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use suite::mka::Cak;
use suite::{CipherSuite, Key, Nonce, OpenJob, Sak};
use testkit::mka::{MkaCase, MkaFrame, Participant, mka_cases};
use wire::mkpdu::{ALGORITHM_AGILITY, DistributedSak, KeyUse, Mkpdu, ParameterSet, PeerList, SakUse, Writer};
use wire::{Ckn, MacAddr, Pn, SecTag, SecureData};

/// The participant with the source address of this frame.
fn sender<'c>(case: &'c MkaCase, frame: &MkaFrame) -> &'c Participant {
    let source = frame.src.as_deref().expect("an MKPDU's source");
    let name = source.strip_prefix("02000000000").expect("an address of the fixtures");
    &case.participants[name]
}

fn keys(participant: &Participant) -> (Cak, Ckn) {
    (Cak::new(&participant.cak).expect("a CAK"), Ckn::new(&participant.ckn).expect("a CKN"))
}

/// Each MKPDU, with what the independent reader says of it.
fn each_mkpdu(mut check: impl FnMut(&MkaCase, &MkaFrame, &[u8], Mkpdu<'_>)) {
    let mut mkpdus = 0;
    for case in mka_cases() {
        for (frame, octets) in case.frames.iter().zip(&case.octets).filter(|(frame, _)| frame.kind == "mkpdu")
        {
            let mkpdu = Mkpdu::parse(octets).unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
            check(&case, frame, octets, mkpdu);
            mkpdus += 1;
        }
    }
    assert_eq!(mkpdus, 126, "all of them");
}

fn number(set: &Map<String, Value>, name: &str) -> u64 {
    set[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {set:?}"))
}

fn flag(set: &Map<String, Value>, name: &str) -> bool {
    number(set, name) == 1
}

fn same_peers(set: &Map<String, Value>, peers: PeerList<'_>) {
    let expected = set["peers"].as_array().expect("peers");
    assert_eq!(peers.len(), expected.len());
    for (peer, expected) in peers.iter().zip(expected) {
        assert_eq!(peer.mi.to_string(), expected["mi"].as_str().expect("an MI"));
        assert_eq!(Some(u64::from(peer.mn)), expected["mn"].as_u64());
    }
}

fn same_key(set: &Map<String, Value>, which: &str, key: Option<KeyUse>) {
    let field = |name| format!("{which}_{name}");
    let kn = number(set, &field("kn"));
    let Some(key) = key else {
        return assert_eq!(kn, 0, "only KN 0 is no key");
    };
    assert_eq!(u64::from(key.ki.kn), kn);
    assert_eq!(Some(key.ki.server.to_string().as_str()), set[&field("key_server_mi")].as_str());
    assert_eq!(u64::from(key.an.number()), number(set, &field("an")));
    assert_eq!((key.tx, key.rx), (flag(set, &field("tx")), flag(set, &field("rx"))));
    assert_eq!(u64::from(key.lowest_pn), number(set, &field("lpn")));
}

fn same_sak_use(set: &Map<String, Value>, sak_use: SakUse) {
    same_key(set, "latest", sak_use.latest);
    same_key(set, "old", sak_use.old);
    assert_eq!(sak_use.plain_tx, flag(set, "plain_tx"));
    assert_eq!(sak_use.plain_rx, flag(set, "plain_rx"));
    assert_eq!(sak_use.delay_protect, flag(set, "delay_protect"));
}

fn same_distributed_sak(set: &Map<String, Value>, distributed: DistributedSak<'_>) {
    assert_eq!(u64::from(distributed.kn), number(set, "kn"));
    assert_eq!(u64::from(distributed.an.number()), number(set, "an"));
    assert_eq!(u64::from(distributed.confidentiality.bits()), number(set, "confidentiality_offset"));
    assert_eq!(Some(hex::encode(distributed.wrapped).as_str()), set["wrapped"].as_str());
    assert_eq!(
        distributed.suite.map(hex::encode).as_deref(),
        set.get("cipher_suite").and_then(Value::as_str)
    );
}

#[test]
fn every_mkpdu_says_what_another_reader_reads() {
    each_mkpdu(|case, frame, _, mkpdu| {
        let (name, basic) = (&case.name, mkpdu.basic);
        assert_eq!((mkpdu.eapol_version, basic.version, basic.agility), (3, 1, ALGORITHM_AGILITY), "{name}");
        assert_eq!(Some(basic.mn), frame.mn, "{name}");
        assert_eq!(Some(basic.priority), frame.key_server_priority, "{name}");
        assert_eq!(Some(u8::from(basic.key_server)), frame.key_server, "{name}");
        assert_eq!(Some(basic.capability.bits()), frame.macsec_capability, "{name}");
        assert_eq!(Some(basic.mi.to_string()), frame.mi, "{name}");
        assert_eq!(Some(basic.ckn.to_string()), frame.ckn, "{name}");
        assert_eq!(Some(hex::encode(basic.sci.octets())), frame.sci, "{name}");
        assert!(!mkpdu.icv_indicated, "{name}: wpa_supplicant sends none");
        let sets: Vec<_> = mkpdu.sets().collect();
        assert_eq!(sets.len(), frame.sets.len(), "{name}");
        for (set, expected) in sets.into_iter().zip(&frame.sets) {
            match (expected["set"].as_str().expect("a name"), set) {
                ("live_peers", ParameterSet::LivePeers { key_server_ssci: 0, peers })
                | ("potential_peers", ParameterSet::PotentialPeers(peers)) => same_peers(expected, peers),
                ("sak_use", ParameterSet::SakUse(sak_use)) => same_sak_use(expected, sak_use),
                ("distributed_sak", ParameterSet::DistributedSak(Some(distributed))) => {
                    same_distributed_sak(expected, distributed);
                }
                (set, other) => panic!("{name}: {set} is read as {other:?}"),
            }
        }
    });
}

#[test]
fn every_mkpdu_verifies_under_its_senders_cak_and_under_no_other() {
    each_mkpdu(|case, frame, _, mkpdu| {
        let own = sender(case, frame);
        for participant in case.participants.values() {
            let (cak, ckn) = keys(participant);
            let same = (&participant.cak, &participant.ckn) == (&own.cak, &own.ckn);
            assert_eq!(cak.ick(&ckn).verifies(mkpdu.authenticated(), mkpdu.icv()), same, "{}", case.name);
        }
        let (cak, ckn) = keys(own);
        let mut touched = mkpdu.authenticated().to_vec();
        touched[0] ^= 1;
        assert!(!cak.ick(&ckn).verifies(&touched, mkpdu.icv()), "the destination address is authenticated");
    });
}

#[test]
fn every_mkpdu_is_written_as_it_was() {
    each_mkpdu(|case, frame, octets, mkpdu| {
        let (cak, ckn) = keys(sender(case, frame));
        let mut buffer = [0xaa; 1514];
        let Mkpdu { destination, source, eapol_version, basic, .. } = mkpdu;
        let mut writer = Writer::new(&mut buffer, destination, source, eapol_version, &basic).expect("room");
        for set in mkpdu.sets() {
            writer.push(&set).expect("room");
        }
        let icv = |octets: &[u8]| cak.ick(&ckn).icv(octets);
        let written = writer.finish(mkpdu.icv_indicated, icv).expect("room");
        assert_eq!(written, octets, "{}", case.name);
    });
}

/// The SAKs of a case, unwrapped from its MKPDUs, by KI.
fn unwrapped(case: &MkaCase) -> BTreeMap<(String, u32), (Sak, CipherSuite)> {
    let mut saks = BTreeMap::new();
    for (frame, octets) in case.frames.iter().zip(&case.octets).filter(|(frame, _)| frame.kind == "mkpdu") {
        let mkpdu = Mkpdu::parse(octets).expect("an MKPDU");
        let (cak, ckn) = keys(sender(case, frame));
        let kek = cak.kek(&ckn);
        for set in mkpdu.sets() {
            let ParameterSet::DistributedSak(Some(distributed)) = set else { continue };
            let suite = distributed.suite.map_or(CipherSuite::GcmAes128, |identifier| {
                CipherSuite::from_identifier(identifier).expect("a suite of the standard")
            });
            let sak = kek.unwrap(suite, distributed.wrapped).expect("wrapped under this KEK");
            // Key wrap draws nothing: wrapping again makes the same octets.
            let (wrapped, length) = kek.wrap(&sak);
            assert_eq!(&wrapped[..length], distributed.wrapped, "{}", case.name);
            let mut touched = distributed.wrapped.to_vec();
            touched[7] ^= 0x10;
            assert!(kek.unwrap(suite, &touched).is_err(), "{}", case.name);
            saks.insert((mkpdu.basic.mi.to_string(), distributed.kn), (sak, suite));
        }
    }
    saks
}

#[test]
fn every_distributed_sak_unwraps_to_the_one_in_the_log() {
    let mut suites = BTreeSet::new();
    for case in mka_cases() {
        let saks = unwrapped(&case);
        assert_eq!(saks.len(), case.saks.len(), "{}", case.name);
        for expected in &case.saks {
            let (sak, suite) = &saks[&(hex::encode(&expected.key_server_mi), expected.kn)];
            assert_eq!(sak.octets(), expected.sak, "{}", case.name);
            assert!(expected.cipher_suite.starts_with(&hex::encode(suite.identifier())), "{}", case.name);
            suites.insert(suite.name());
        }
    }
    assert_eq!(suites, BTreeSet::from(["gcm-aes-128", "gcm-aes-256"]));
}

/// The frame in clear: addresses, and what stood behind them.
fn opened(octets: &[u8], suite: CipherSuite, sak: &Sak) -> Option<Vec<u8>> {
    let tag = SecTag::parse(&octets[12..]).expect("a SecTAG");
    let start = 12 + tag.octets();
    let end = start + tag.secure_data_octets(octets.len() - start).expect("secure data and an ICV");
    let sci = tag.sc.sci(MacAddr(*octets[6..].first_chunk().expect("addresses"))).expect("an SCI");
    let nonce = Nonce::new(sci, Pn::new(tag.pn.into()).expect("a PN"));
    let mut frame = octets.to_vec();
    let (aad, text) = frame.split_at_mut(if tag.data == SecureData::Encrypted { start } else { end });
    let (text, icv) = text.split_at_mut(end - aad.len());
    let icv = icv.first_chunk().expect("an ICV");
    let mut authentic = false;
    let job = OpenJob { nonce, aad, text, icv, authentic: &mut authentic };
    Key::prepare(suite, sak).expect("a key for its suite").open_each([job].into_iter());
    authentic.then(|| [&octets[..12], &frame[start..end]].concat())
}

#[test]
fn the_saks_open_the_frames_that_were_sent_under_them() {
    let mut frames = 0;
    for case in mka_cases() {
        let saks = unwrapped(&case);
        for (frame, octets) in
            case.frames.iter().zip(&case.octets).filter(|(frame, _)| frame.kind == "macsec")
        {
            let expected = frame.sak.as_deref().expect("a SAK");
            let known = |(sak, _): &&(Sak, CipherSuite)| hex::encode(sak.octets()) == expected;
            let (sak, suite) = saks.values().find(known).expect("it was distributed");
            let clear = opened(octets, *suite, sak).map(hex::encode);
            assert_eq!(clear, frame.clear, "{}", case.name);
            frames += 1;
        }
    }
    assert_eq!(frames, 122);
}
