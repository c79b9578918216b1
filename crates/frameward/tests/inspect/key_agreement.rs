//! Captures of key agreement: wpa_supplicant's with the kernel's frames, and those of our own KaYs and SecYs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use config::key_file::NamedCak;
use diagnosis::inspect::frame_report::FrameVerdict;
use diagnosis::inspect::keys::{KeyedCak, Keyring, Replay};
use diagnosis::inspect::mkpdu_report::{DistributedReport, TlvReport};
use mka::{Announced, Association, CakEntry, Event, Input, Kay, OnPeerLoss, Report, SuiteRule, SuiteTiming};
use pcap_file::Endianness;
use proptest::prelude::*;
use secy::{ClearVlan, ConfidentialityOffset, Protection, SecY, TransmitSa, XpnBinding};
use suite::mka::Cak;
use suite::{CipherSuite, Key};
use testkit::mka::{MkaCase, mka_cases};
use wire::mkpdu::{Capability, Confidentiality};
use wire::{Ckn, Instant, Ki, MacAddr, Pn, Sci};

use super::command::Directory;
use super::ends::{MAC_B, SETTINGS, protect};
use super::{Timed, Told, inspect_with, pcap, pcapng, timed};

fn keyed(from: &str, ckn: &[u8], cak: &[u8]) -> KeyedCak {
    KeyedCak {
        from: from.into(),
        cak: NamedCak::new(Ckn::new(ckn).unwrap(), cak).unwrap(),
        replay: Replay::Window(0),
        clear_vlan: ClearVlan::Strip,
        reassemble: true,
    }
}

fn with(caks: Vec<KeyedCak>) -> Option<Keyring> {
    Some(Keyring { caks, ..Keyring::default() })
}

/// The CAKs of these participants.
fn caks(case: &MkaCase, of: &[&str]) -> Option<Keyring> {
    let mut caks: Vec<KeyedCak> = Vec::new();
    for name in of {
        let Some(participant) = case.participants.get(*name) else { continue };
        let keyed = keyed(name, &participant.ckn, &participant.cak);
        if caks.iter().all(|other| other.cak != keyed.cak) {
            caks.push(keyed);
        }
    }
    with(caks)
}

/// Wpa_supplicant's SAKs are found, and the kernel's frames decrypt to what an independent reader made of them.
#[test]
fn wpa_supplicants_captures_decrypt() {
    let (mut mkpdus, mut frames, mut saks) = (0, 0, 0);
    for case in mka_cases() {
        let told = inspect_with(&pcap(&timed(&case.octets)), caks(&case, &["a", "b"]));
        for (index, ((report, sdus), frame)) in told.frames.iter().zip(&case.frames).enumerate() {
            let at = format!("{} frame {index}: {}", case.name, told.why(index));
            assert_eq!(report.verdict, FrameVerdict::Ok, "{at}");
            match &report.mkpdu {
                Some(mkpdu) => {
                    assert_eq!(Some(mkpdu.mi.as_str()), frame.mi.as_deref(), "{at}");
                    assert_eq!(Some(mkpdu.mn), frame.mn, "{at}");
                    assert_eq!(Some(mkpdu.priority), frame.key_server_priority, "{at}");
                    assert_eq!(Some(mkpdu.ckn.as_str()), frame.ckn.as_deref(), "{at}");
                    assert_eq!(Some(u8::from(mkpdu.key_server)), frame.key_server, "{at}");
                    mkpdus += 1;
                }
                None => {
                    assert_eq!(frame.kind, "macsec");
                    let clear = hex::decode(frame.clear.as_ref().unwrap()).unwrap();
                    assert_eq!(*sdus, [clear], "{at}");
                    frames += 1;
                }
            }
        }
        let found: Vec<_> = told.summary.saks.iter().map(|sak| (sak.sak.clone(), sak.an)).collect();
        let expected: Vec<_> = case
            .saks
            .iter()
            .map(|sak| (format!("{}/{}", hex::encode(&sak.key_server_mi), sak.kn), sak.an))
            .collect();
        assert_eq!(found, expected, "{}", case.name);
        let verified: u64 = told.summary.saks.iter().map(|sak| sak.verified).sum();
        assert_eq!((verified, told.summary.bad), (told.summary.verified, 0), "{}", case.name);
        saks += found.len();
        for sak in &case.saks {
            let shown = format!("{:?}{}", told.frames, told.summary);
            assert!(!shown.contains(&hex::encode(&sak.sak)), "a SAK is shown");
        }
    }
    assert!(mkpdus > 80 && frames > 80 && saks > 8, "{mkpdus} MKPDUs, {frames} frames, {saks} SAKs");
}

#[test]
fn what_is_wrong_with_an_mkpdu_is_told() {
    let cases = mka_cases();
    let case = |name: &str| cases.iter().find(|case| case.name == name).unwrap();
    let of_b = |case: &MkaCase| {
        case.frames.iter().position(|frame| frame.src.as_deref() == Some("02000000000b")).unwrap()
    };
    // The same name, another key.
    let bad_cak = case("bad-cak");
    let told = inspect_with(&pcap(&timed(&bad_cak.octets)), caks(bad_cak, &["a"]));
    assert_eq!(
        told.why(of_b(bad_cak)),
        "MkpdusWrongIcv: the ICV does not match, and no MKPDU of its sender was verified before: another CAK under this CKN, or altered on the way"
    );
    // The same key, another name.
    let bad_ckn = case("bad-ckn");
    let told = inspect_with(&pcap(&timed(&bad_ckn.octets)), caks(bad_ckn, &["a"]));
    let why = told.why(of_b(bad_ckn));
    let ckns = ["a", "b"].map(|name| hex::encode(&bad_ckn.participants[name].ckn));
    assert!(
        why.starts_with(&format!("MkpdusUnknownCkn: there is no CAK with CKN {}: name its file", ckns[1])),
        "{why}"
    );
    if bad_ckn.participants["a"].cak == bad_ckn.participants["b"].cak {
        assert!(
            why.contains(&format!("it verifies with the CAK of a, which has CKN {} there", ckns[0])),
            "{why}"
        );
    }
    // Altered, doubled, of another version, cut.
    let good = case("psk128-ckn32");
    let mut frames = timed(&good.octets);
    let mut altered = frames[4].1.clone();
    let last = altered.len() - 1;
    altered[last] ^= 1;
    let mut agility = frames[4].1.clone();
    agility[18 + 28] ^= 1;
    let mut long = frames[4].1.clone();
    long[17] += 100;
    let late = frames[0].1.clone();
    frames
        .splice(5..5, [(10_000_000, altered), (10_000_001, agility), (10_000_002, long), (10_000_003, late)]);
    let told = inspect_with(&pcap(&frames), caks(good, &["a", "b"]));
    for (frame, expected) in [
        (5, "MkpdusWrongIcv: the ICV does not match, but "),
        (6, "MkpdusOtherAgility: its algorithms are "),
        (7, "MkpdusMalformed: the frame is shorter than the MKPDU"),
        (8, "MkpdusOldMn: its MN is not above "),
    ] {
        assert!(told.why(frame).starts_with(expected), "{}", told.why(frame));
    }
    assert!(told.why(5).ends_with("altered on the way, or forged"), "{}", told.why(5));
    assert_eq!(told.summary.bad, 4);
    // Without a CAK nothing can be verified, and what an MKPDU says is told all the same.
    let told = inspect_with(&pcap(&timed(&good.octets)), None);
    assert!(
        told.frames
            .iter()
            .all(|(report, _)| matches!(report.verdict, FrameVerdict::Clear | FrameVerdict::Read))
    );
    assert!(told.frames[0].0.mkpdu.is_some() && told.summary.saks.is_empty());
}

/// The SAK was handed out before: which one it is, is told.
#[test]
fn a_capture_that_begins_too_late_says_so() {
    let cases = mka_cases();
    let case = cases.iter().find(|case| case.name == "psk128-rekey").unwrap();
    let is_macsec = |index: &usize| case.frames[*index].kind == "macsec";
    let first = (0..case.frames.len()).find(is_macsec).unwrap();
    // From the first frame on, and before it an MKPDU that says what its sender uses, and hands nothing out.
    let hands_out =
        |index: usize| case.frames[index].sets.iter().any(|set| format!("{set:?}").contains("wrapped"));
    let uses = (first..case.frames.len()).find(|index| !is_macsec(index) && !hands_out(*index)).unwrap();
    let mut frames = vec![case.octets[uses].clone()];
    let sender = &case.frames[uses].src;
    let of_sender = |index: &usize| {
        is_macsec(index) && case.octets[*index][6..12] == hex::decode(sender.as_ref().unwrap()).unwrap()
    };
    frames.push(case.octets[(first..).find(of_sender).unwrap()].clone());
    let told = inspect_with(&pcap(&timed(&frames)), caks(case, &["a", "b"]));
    let sak = &case.saks[0];
    let ki = format!("{}/{}", hex::encode(&sak.key_server_mi), sak.kn);
    assert!(
        told.why(1).starts_with("InPktsNoSAError: there is no key for this SC and AN; its sender uses SAK"),
        "{}",
        told.why(1)
    );
    assert!(told.why(1).contains(&ki), "{}", told.why(1));
}

const LINE: [u8; 16] = *b"not so secret !!";
const FALLBACK: [u8; 32] = *b"not so secret either, and longer";

fn line_caks() -> Vec<KeyedCak> {
    vec![keyed("line.cak", b"line", &LINE), keyed("fallback.cak", b"fallback", &FALLBACK)]
}

/// A KaY and a SecY that does at once what it is asked for.
struct Station {
    kay: Kay,
    sci: Sci,
    express: bool,
    secy: SecY,
    saks: BTreeMap<Ki, Box<Association>>,
    transmitting: Option<Ki>,
}

fn settings(station: u8, priority: u8, suite: SuiteRule) -> mka::Settings {
    let source = MacAddr([2, 0, 0, 0, 0, station]);
    mka::Settings {
        sci: Sci::new(source, 1),
        source,
        destination: MacAddr([1, 0x80, 0xc2, 0, 0, 3]),
        priority,
        capability: Capability::Offsets,
        confidentiality: Confidentiality::Zero,
        suite,
        announced: Announced {
            reassembles: true,
            splits: false,
            carries_whole: false,
            in_kernel: false,
            express: station == 2,
            takes_padded: false,
            largest_sdu: 1500,
            name: None,
            suites: CipherSuite::ALL.map(|suite| SuiteTiming { suite, nanoseconds: 120 }).to_vec(),
        },
        fragment: true,
        concatenate: false,
        pad: false,
        delay_protect: false,
        sak_lifetime: Some(Duration::from_secs(7)),
        on_peer_loss: OnPeerLoss::Block,
        peers: vec![],
        accept_integrity: false,
    }
}

impl Station {
    fn new(number: u8, suite: SuiteRule, caks: &[KeyedCak]) -> Self {
        let entry =
            |keyed: &KeyedCak| CakEntry { ckn: keyed.cak.ckn(), cak: Cak::new(keyed.cak.octets()).unwrap() };
        let settings = settings(number, 16 * number, suite);
        let (sci, express) = (settings.sci, settings.announced.express);
        let kay = Kay::new(Instant::START, settings, caks.iter().map(entry).collect(), &[number; 32]);
        Self { kay, sci, express, secy: SecY::new(sci, SETTINGS), saks: BTreeMap::new(), transmitting: None }
    }

    fn told(&mut self, now: Instant, input: Input<'_>, sent: &mut VecDeque<Vec<u8>>) {
        self.kay.handle_input(now, input);
        let mut reports = Vec::new();
        while let Some(event) = self.kay.poll_event() {
            match event {
                Event::Install(sak) => {
                    reports.push(Report::Installed(sak.ki));
                    self.saks.insert(sak.ki, sak);
                }
                Event::EnableTransmit(ki) => {
                    self.transmit(ki);
                    reports.push(Report::Transmitting(ki));
                }
                Event::Retire(ki) if self.transmitting == Some(ki) => self.transmitting = None,
                _ => {}
            }
        }
        while let Some(frame) = self.kay.poll_transmit(now) {
            sent.push_back(frame.to_vec());
        }
        for report in reports {
            self.told(now, Input::Report(report), sent);
        }
    }

    fn transmit(&mut self, ki: Ki) {
        let sak = &self.saks[&ki];
        // One of them sends on its express SC alone.
        let express = self.sci.express().zip(sak.sak.express(sak.suite)).filter(|_| self.express);
        let (sci, key) = express.unwrap_or_else(|| (self.sci, sak.sak.clone()));
        let key = Key::prepare(sak.suite, &key).unwrap();
        let xpn = sak.xpn.map(|(salt, ssci)| XpnBinding { ssci, salt });
        let protection = match sak.confidentiality {
            Confidentiality::Integrity => Protection::Integrity,
            _ => Protection::Encrypt(ConfidentialityOffset::Zero),
        };
        let sa = TransmitSa::new(sak.an, key, xpn, protection, Pn::FIRST, Pn::LAST_64).unwrap();
        self.secy = SecY::new(sci, SETTINGS);
        self.secy.install_transmit(Box::new(sa)).unwrap();
        self.secy.enable_transmit(sak.an).unwrap();
        self.transmitting = Some(ki);
    }
}

/// Traffic of a bus: MKPDUs and frames, and the SDUs in them with the SAK that each was sent under.
#[derive(Default)]
struct Bus {
    wire: Vec<Timed>,
    sdus: Vec<(Ki, Vec<u8>)>,
}

/// Lets stations speak for some seconds; each sends a frame every half second. From `absent.1` on the station with the number
/// `absent.0` is silent.
fn speak(stations: &mut [Station], seconds: u64, absent: Option<(usize, u64)>) -> Bus {
    let mut bus = Bus::default();
    let mut air: Vec<VecDeque<Vec<u8>>> = stations.iter().map(|_| VecDeque::new()).collect();
    for step in 0..seconds * 50 {
        let now = Instant::after_start(Duration::from_millis(20 * step));
        let microseconds = 20_000 * step;
        for me in 0..stations.len() {
            if absent.is_some_and(|(absent, from)| absent == me && step >= from * 50) {
                continue;
            }
            let mut sent = VecDeque::new();
            for frame in std::mem::take(&mut air[me]) {
                stations[me].told(now, Input::Frame(&frame), &mut sent);
            }
            stations[me].told(now, Input::Timeout, &mut sent);
            if let Some(ki) = stations[me].transmitting.filter(|_| step % 25 == 0) {
                let payload = testkit::frames::payload(100, bus.sdus.len() as u64);
                let own = stations[me].sci.system();
                let sdu = testkit::frames::ethernet(MAC_B, own, wire::EtherType::IPV4, &payload);
                bus.wire.push((microseconds, protect(&mut stations[me].secy, &sdu).passed()));
                bus.sdus.push((ki, sdu));
            }
            for frame in sent {
                bus.wire.push((microseconds, frame.clone()));
                (0..air.len())
                    .filter(|other| *other != me)
                    .for_each(|other| air[other].push_back(frame.clone()));
            }
        }
    }
    bus
}

fn all_decrypt(bus: &Bus, told: &Told) {
    let bad: Vec<_> = (0..told.frames.len())
        .filter(|frame| told.frames[*frame].0.verdict != FrameVerdict::Ok)
        .map(|frame| told.why(frame))
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
    let decrypted: Vec<_> = told
        .frames
        .iter()
        .filter_map(|(report, sdus)| Some((report.sak.clone()?, sdus[0].clone())))
        .collect();
    let sent: Vec<_> = bus.sdus.iter().map(|(ki, sdu)| (ki.to_string(), sdu.clone())).collect();
    assert_eq!(decrypted.len(), sent.len());
    assert!(decrypted == sent, "each frame by the SAK that it was sent under");
}

/// With each kind of suite: many rekeys, so that ANs come again, and a key server that goes.
#[test]
fn our_gateways_captures_decrypt_over_rekeys_and_key_servers() {
    for (suite, name) in [
        (SuiteRule::Only(CipherSuite::GcmAes128), "gcm-aes-128"),
        (SuiteRule::Only(CipherSuite::GcmAesXpn256), "gcm-aes-xpn-256"),
        (SuiteRule::Only(CipherSuite::Aegis256), "aegis-256"),
        (SuiteRule::Only(CipherSuite::ChaCha20Poly1305), "chacha20-poly1305"),
        (SuiteRule::Only(CipherSuite::ChaCha20Poly1305Xpn), "chacha20-poly1305-xpn"),
    ] {
        let caks = line_caks();
        let mut stations = [1, 2, 3].map(|number| Station::new(number, suite, &caks));
        let bus = speak(&mut stations, 90, Some((0, 50)));
        let told = inspect_with(&pcap(&bus.wire), with(caks));
        all_decrypt(&bus, &told);
        let servers: BTreeSet<_> =
            told.summary.saks.iter().filter_map(|sak| sak.sak.split_once('/')).map(|(mi, _)| mi).collect();
        assert!(servers.len() >= 2, "{name}: another key server: {:?}", told.summary.saks);
        assert!(
            told.summary.saks.len() >= 9 && told.summary.saks.iter().all(|sak| sak.suite == name),
            "{name}"
        );
        // A capture of two points in one file: each interface hears each MKPDU, and verifies each frame.
        let doubled: Vec<Timed> = bus.wire.iter().flat_map(|frame| [frame.clone(), frame.clone()]).collect();
        let told =
            inspect_with(&pcapng(&doubled, Endianness::Little, |index| index as u32 % 2), with(line_caks()));
        assert_eq!((told.summary.bad, told.summary.copies), (0, 0), "{name}");
        assert_eq!(told.summary.verified, 2 * bus.sdus.len() as u64, "{name}");
    }
}

/// All sets that our KaYs send are told.
#[test]
fn the_sets_of_our_own_are_told() {
    let caks = line_caks();
    let mut stations =
        [1, 2].map(|number| Station::new(number, SuiteRule::Only(CipherSuite::GcmAesXpn128), &caks));
    let bus = speak(&mut stations, 10, None);
    let told = inspect_with(&pcap(&bus.wire), with(caks));
    let mkpdus: Vec<_> = told.frames.iter().filter_map(|(report, _)| report.mkpdu.as_ref()).collect();
    let under = |name: &str| mkpdus.iter().filter(|mkpdu| mkpdu.ckn == hex::encode(name)).count();
    assert!(under("line") > 4 && under("fallback") > 4);
    assert!(mkpdus.iter().any(|mkpdu| mkpdu.xpn.is_some() && mkpdu.key_server_ssci.is_some()));
    assert!(mkpdus.iter().any(|mkpdu| mkpdu.potential_peers.is_some()));
    let uses = |mkpdu: &&&diagnosis::inspect::mkpdu_report::MkpduReport| {
        mkpdu.sak_use.as_ref().and_then(|sak_use| sak_use.latest.as_ref()).is_some_and(|key| key.tx && key.rx)
    };
    assert!(mkpdus.iter().any(|mkpdu| uses(&mkpdu)));
    assert!(
        mkpdus.iter().any(|mkpdu| matches!(&mkpdu.distributed_sak,
        Some(DistributedReport::Sak { kn: 1, suite, wrapped_octets: 24, .. }) if suite == "gcm-aes-xpn-128"))
    );
    assert!(mkpdus.iter().all(|mkpdu| mkpdu.announcement.iter().flatten().any(|tlv| matches!(
        tlv,
        TlvReport::Frameward { reassembles: true, splits: false, largest_sdu: 1500, .. }
    ))));
    let text = mkpdus.iter().find(|mkpdu| mkpdu.distributed_sak.is_some()).unwrap().to_string();
    for word in [
        "MKPDU of 02:00:00:00:00:01/1, MI ",
        "key server",
        "; live 1 (",
        "; distributes SAK 1 on AN ",
        "reassembles, largest payload 1500",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// A forged or altered octet is never taken for good, and nothing that comes of it decrypts.
fn altered(bus: &Bus, frame: usize, octet: usize, by: u8) {
    let mut wire = bus.wire.clone();
    let frame = frame % wire.len();
    let octets = &mut wire[frame].1;
    let octet = octet % octets.len();
    octets[octet] ^= by;
    let told = inspect_with(&pcap(&wire), with(line_caks()));
    assert_eq!(told.frames.len(), bus.wire.len());
    let verdict = told.frames[frame].0.verdict;
    // Padding is not protected; what is no longer EAPOL or MACsec is in clear.
    assert!(matches!(verdict, FrameVerdict::Bad | FrameVerdict::Clear), "{verdict:?}, octet {octet}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn altered_captures_are_told(frame in 0..1000_usize, octet in 0..2000_usize, by in 1..=255_u8) {
        let caks = line_caks();
        let mut stations =
            [1, 2].map(|number| Station::new(number, SuiteRule::Only(CipherSuite::GcmAes128), &caks));
        altered(&speak(&mut stations, 8, None), frame, octet, by);
    }
}

#[test]
fn the_command_takes_caks_in_files() {
    let cases = mka_cases();
    let case = cases.iter().find(|case| case.name == "psk128-rekey").unwrap();
    let directory = Directory::new("cak");
    let (ckn, cak) = (hex::encode(&case.participants["a"].ckn), hex::encode(&case.participants["a"].cak));
    directory.write("line.cak", format!("ckn = {ckn}\ncak = {cak}\n"));
    directory.write("other.cak", format!("ckn = 31\ncak = {}\n", "01".repeat(16)));
    directory.write("line.pcap", pcap(&timed(&case.octets)));
    let (status, output, errors) =
        directory.run(&["line.pcap", "--cak", "other.cak", "--cak", "line.cak", "--write", "clear.pcapng"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{output}");
    let saks = output.lines().filter(|line| line.starts_with("SAK ")).count();
    assert_eq!(saks, case.saks.len(), "{output}");
    let written = std::fs::read(directory.0.join("clear.pcapng")).unwrap();
    let told = inspect_with(&written, None);
    let clear: Vec<_> = case.frames.iter().filter_map(|frame| frame.clear.clone()).collect();
    assert_eq!(told.summary.frames as usize, case.frames.len(), "MKPDUs stand there as they were");
    assert!(!clear.is_empty() && told.summary.clear.values().sum::<u64>() as usize == case.frames.len());
    let (status, output, _) = directory.run(&["line.pcap", "--cak", "line.cak", "--json"]);
    let objects: Vec<serde_json::Value> =
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(status, Some(0));
    assert_eq!(objects[0]["mkpdu"]["mn"], 1);
    assert_eq!(objects.last().unwrap()["summary"]["saks"].as_array().unwrap().len(), case.saks.len());
    for secret in case.saks.iter().map(|sak| hex::encode(&sak.sak)).chain([cak.clone()]) {
        assert!(!output.contains(&secret));
    }
    // A gateway's configuration names its CAK.
    directory.write(
        "press.toml",
        "[gateway]\nname = \"press\"\n[[link]]\nname = \"press\"\nplain = \"p\"\nprotected = \"q\"\n[link.mka]\ncak_file = \"line.cak\"\n",
    );
    let (status, output, errors) = directory.run(&["line.pcap", "--keys", "press.toml"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{output}");
    assert!(output.contains(&format!("{} verified", clear.len())), "{output}");
    // Of another link: each of its MKPDUs is bad.
    let (status, output, _) = directory.run(&["line.pcap", "--cak", "other.cak", "--bad"]);
    assert_eq!(status, Some(1));
    assert!(output.contains("MkpdusUnknownCkn: there is no CAK with CKN 31323334"), "{output}");
    let (status, _, errors) = directory.run(&["line.pcap", "--cak", "none.cak"]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("none.cak cannot be read"), "{errors}");
}
