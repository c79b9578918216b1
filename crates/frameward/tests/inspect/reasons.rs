//! Why frames are bad, in words.

use diagnosis::inspect::frame_report::FrameVerdict;
use diagnosis::inspect::keys::{KeyedSa, Replay};
use pcap_file::Endianness;
use secy::fragment::Rules;
use secy::{ConfidentialityOffset, FrameLayout, Protection, Settings};
use suite::CipherSuite;
use wire::Segments;

use super::ends::fragments::{Assembled, REASSEMBLING, chain, protect_assembled, send};
use super::ends::{A, End, Outcome, SETTINGS, protected, sdus, sender};
use super::{ENDS, Told, inspect, pcap, pcapng, sas, timed};

const GCM: CipherSuite = CipherSuite::GcmAes128;

/// `count` protected frames of A from PN `first` on, and their SDUs.
fn frames(first: u64, count: u64) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let sdus = sdus(count, 200);
    (protected(&mut sender(A, SETTINGS, GCM, first), &sdus), sdus)
}

fn with(keys: &str, frames: &[Vec<u8>]) -> Told {
    inspect(&pcap(&timed(frames)), Some(sas(keys)))
}

fn replay(replay: Replay) -> Vec<KeyedSa> {
    sas(ENDS).into_iter().map(|keyed| KeyedSa { replay, ..keyed }).collect()
}

#[test]
fn altered_frames() {
    let (mut frames, sdus) = frames(1000, 3);
    frames[1][40] ^= 1;
    let told = with(ENDS, &frames);
    assert_eq!(told.verdicts(), [FrameVerdict::Ok, FrameVerdict::Bad, FrameVerdict::Ok]);
    assert_eq!(told.sdus(), [sdus[0].clone(), sdus[2].clone()]);
    assert_eq!(
        told.why(1),
        "InPktsNotValid: the ICV does not match, but 1 frames of this SA were verified: altered on the way, or forged"
    );
    assert_eq!(told.summary.counters, [("InPktsNotValid", 1), ("InPktsOK", 2)].into());
    let sc = &told.summary.scs["SC 02:00:00:00:00:0a/1"];
    assert_eq!((sc.ans[&0].lowest_pn, sc.ans[&0].highest_pn, sc.ans[&0].missing), (1000, 1002, 1));
}

#[test]
fn wrong_keys() {
    let (frames, _) = frames(1, 1);
    let wrong = ENDS.replace("0000000000000000\"", "0000000000000001\"");
    assert_eq!(
        with(&wrong, &frames).why(0),
        "InPktsNotValid: the ICV does not match, and no frame of this SA was verified before: wrong key, or altered on the way"
    );
    let foreign = ENDS.replace(":0a/1", ":0c/1");
    assert_eq!(
        with(&foreign, &frames).why(0),
        "InPktsNoSAError: there is no key for this SC and AN; it verifies with the key of SC 02:00:00:00:00:0c/1 AN 0 (line 2)"
    );
    let exchanged = format!("{wrong}{}", ENDS.replace(":0a/1", ":0c/1"));
    assert!(
        with(&exchanged, &frames)
            .why(0)
            .ends_with("; it verifies with the key of SC 02:00:00:00:00:0c/1 AN 0 (line 8)")
    );
    // The keys of an SA one after the other.
    let rekeyed = with(&format!("{wrong}{ENDS}"), &frames);
    assert_eq!(rekeyed.verdicts(), [FrameVerdict::Ok]);
}

#[test]
fn right_keys_used_in_another_way() {
    let (frames, _) = frames(1, 1);
    let rows = [
        (ENDS.replace("gcm-aes-128", "aegis-128l"), "it verifies as suite gcm-aes-128, not aegis-128l"),
        (
            ENDS.replace("an = 0", "an = 0\nconfidentiality_offset = 30"),
            "it verifies with confidentiality_offset = 0",
        ),
    ];
    for (keys, expected) in rows {
        assert!(with(&keys, &frames).why(0).ends_with(expected), "{}", with(&keys, &frames).why(0));
    }
    let with_fcs: Vec<_> = frames.iter().map(|frame| [&frame[..], &[1, 2, 3, 4]].concat()).collect();
    assert!(with(ENDS, &with_fcs).why(0).ends_with("the capture holds the FCS; use --fcs"));
}

#[test]
fn an_exchanged_ssci_and_a_capture_from_the_middle() {
    let keys = |ssci| {
        format!(
            "{}ssci = {ssci}\nsalt = \"{}\"\n",
            ENDS.replace("gcm-aes-128", "gcm-aes-xpn-128"),
            hex::encode(b"salt of test")
        )
    };
    let sdus = sdus(3, 200);
    let middle = protected(&mut sender(A, SETTINGS, CipherSuite::GcmAesXpn128, (77 << 32) - 1), &sdus);
    let told = with(&keys(7), &middle);
    assert_eq!(told.sdus(), sdus);
    let pns: Vec<_> = told.frames.iter().map(|(report, _)| report.pn).collect();
    assert_eq!(pns, [Some((77 << 32) - 1), Some(77 << 32), Some((77 << 32) + 1)]);
    let beginning = protected(&mut sender(A, SETTINGS, CipherSuite::GcmAesXpn128, 5), &sdus);
    assert!(with(&keys(8), &beginning).why(0).ends_with("; it verifies with ssci 7, not 8"));
    // The upper half of PNs needs no search if `pn_high` gives it; this one is too far to be found.
    let far = protected(&mut sender(A, SETTINGS, CipherSuite::GcmAesXpn128, 1_000_000 << 32), &sdus);
    assert_eq!(with(&keys(7), &far).verdicts(), [FrameVerdict::Bad; 3]);
    assert_eq!(with(&format!("{}pn_high = 1000000\n", keys(7)), &far).sdus(), sdus);
}

/// A capture of 64-bit PNs that begins anywhere in the half that is told, also where recovery from its first PN on would
/// come out in the half before; integrity alone and encrypted; with a forged frame in front.
#[test]
fn a_told_high_half_is_searched() {
    let keys = |high: u64| {
        format!(
            "{}ssci = 7\nsalt = \"{}\"\npn_high = {high}\n",
            ENDS.replace("gcm-aes-128", "gcm-aes-xpn-128"),
            hex::encode(b"salt of test")
        )
    };
    let sdus = sdus(3, 200);
    for high in [1, 77, 1_000_000, u64::from(u32::MAX) - 1] {
        for low in [0, 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 2, (1 << 32) - 1] {
            for protection in [Protection::Integrity, Protection::Encrypt(ConfidentialityOffset::Zero)] {
                let first = (high << 32) + low;
                let end = End { settings: SETTINGS, protection };
                let mut frames = protected(&mut sender(A, end, CipherSuite::GcmAesXpn128, first), &sdus);
                let mut forged = frames[0].clone();
                forged[40] ^= 1;
                frames.insert(0, forged);
                let told = with(&keys(high), &frames);
                assert_eq!(told.sdus(), sdus, "{first:#x} {protection:?}: {}", told.why(1));
                let pns: Vec<_> = told.frames[1..].iter().map(|(report, _)| report.pn).collect();
                assert_eq!(pns, [Some(first), Some(first + 1), Some(first + 2)]);
                assert!(told.why(0).starts_with("InPktsNotValid"), "{}", told.why(0));
                assert_eq!(told.summary.counters["InPktsNotValid"], 1);
            }
        }
    }
}

#[test]
fn replayed_and_reordered_frames() {
    let (mut all, _) = frames(1, 12);
    all.push(all[6].clone());
    let told = with(ENDS, &all);
    assert_eq!(told.verdicts()[..12], [FrameVerdict::Ok; 12]);
    assert_eq!(
        told.why(12),
        "InPktsLate: PN 7 is below the lowest acceptable PN 13: replayed, or reordered by more than the window; its ICV is right"
    );
    let capture = pcap(&timed(&all));
    let told = inspect(&capture, Some(replay(Replay::Window(8))));
    assert_eq!(
        told.why(12),
        "InPktsDuplicate: PN 7 was received before: replayed, or duplicated on the way; its ICV is right"
    );
    assert_eq!(inspect(&capture, Some(replay(Replay::Off))).verdicts(), [FrameVerdict::Ok; 13]);
    // A forger who knows nothing but an old PN.
    all[12][60] ^= 1;
    assert!(with(ENDS, &all).why(12).ends_with("and its ICV is wrong: forged, or altered"));
    // The order in which a window lets them pass.
    let (mut all, _) = frames(1, 4);
    all.swap(1, 2);
    let capture = pcap(&timed(&all));
    assert_eq!(inspect(&capture, Some(replay(Replay::Window(4)))).verdicts(), [FrameVerdict::Ok; 4]);
    assert_eq!(inspect(&capture, Some(sas(ENDS))).summary.counters["InPktsLate"], 1);
}

#[test]
fn captures_from_two_points_show_no_replays() {
    let (all, sdus) = frames(1, 5);
    let doubled: Vec<_> =
        timed(&all).into_iter().flat_map(|(at, f)| [(at, f.clone()), (at + 300, f)]).collect();
    let told = inspect(&pcap(&doubled), Some(sas(ENDS)));
    assert_eq!((told.summary.bad, told.summary.copies, told.summary.verified), (0, 5, 5));
    assert_eq!(told.sdus(), sdus);
    let told = inspect(&pcapng(&doubled, Endianness::Little, |index| index as u32 % 2), Some(sas(ENDS)));
    assert_eq!((told.summary.bad, told.summary.copies, told.summary.verified), (0, 0, 10));
    assert_eq!(told.summary.scs["SC 02:00:00:00:00:0a/1 on there"].frames, 5);
}

#[test]
fn broken_tags_and_headers() {
    let (all, _) = frames(1, 1);
    let change = |at: usize, octet: u8| {
        let mut frame = all[0].clone();
        frame[at] = octet;
        frame
    };
    let rows = [
        (change(14, 0x80), "InPktsBadTag: the SecTAG's version bit is set; only version 0 is defined"),
        (change(14, 0x60), "InPktsBadTag: ES or SCB is set together with SC, which name one SC in two ways"),
        (change(15, 50), "InPktsBadTag: the Short Length is above 47, or 1 without extension headers"),
        (
            all[0][..70].to_vec(),
            "InPktsBadTag: the frame is shorter than its Short Length and ICV: it was cut on the way, or padding was removed",
        ),
        (all[0][..20].to_vec(), "InPktsBadTag: the frame ends inside the SecTAG"),
        (all[0][..13].to_vec(), "InPktsTooShort: shorter than an Ethernet header"),
    ];
    for (frame, expected) in rows {
        for keys in [None, Some(sas(ENDS))] {
            let told = inspect(&pcap(&timed(std::slice::from_ref(&frame))), keys);
            assert_eq!((told.why(0).as_str(), told.summary.bad), (expected, 1));
            // The summary counts the counter that a line shows, for people and for programs.
            let (counter, _) = expected.split_once(':').unwrap();
            assert_eq!(told.summary.counters, [(counter, 1)].into(), "{expected}");
            assert!(told.summary.to_string().contains(&format!("{counter} 1")), "{}", told.summary);
            let json = serde_json::to_value(&told.summary).unwrap();
            assert_eq!(json["counters"][counter], 1);
        }
    }
    let zero = [&all[0][..16], &[0; 4], &all[0][20..]].concat();
    assert_eq!(with(ENDS, &[zero]).why(0), "InPktsBadTag: its PN is 0, which no sender uses");
}

#[test]
fn vlan_tags_in_clear() {
    let (all, sdus) = frames(1, 1);
    let tagged = testkit::frames::tagged(&all[0], wire::EtherType::VLAN, 0xc00a);
    let told = with(ENDS, std::slice::from_ref(&tagged));
    assert_eq!((told.sdus(), told.frames[0].0.vlans[0].vid), (sdus, 10));
    let strict = sas(ENDS).into_iter().map(|keyed| KeyedSa { clear_vlan: secy::ClearVlan::Refuse, ..keyed });
    let told = inspect(&pcap(&timed(&[tagged])), Some(strict.collect()));
    assert!(told.why(0).starts_with("InPktsClearVlan: a VLAN tag in clear is in front"), "{}", told.why(0));
}

/// Without a key nothing is wrong with them; with one, what they hold is there.
#[test]
fn our_gateways_padded_frames() {
    let sdus: Vec<_> =
        [1512, 64].iter().enumerate().map(|(n, &octets)| super::ends::sdu(octets, n as u64)).collect();
    let settings = Settings { mtu: 1500, ..REASSEMBLING };
    let sizes = secy::FrameSizes::new(&[200, 1514]).unwrap();
    let rules = Rules::new(&settings, true, false).padded(&settings, &sizes);
    let wire = send(&mut sender(A, settings, GCM, 90), &rules, &sdus);
    assert_eq!(wire.iter().map(Vec::len).collect::<Vec<_>>(), [1514, 200, 200]);
    let told = inspect(&pcap(&timed(&wire)), None);
    assert_eq!(told.summary.bad, 0);
    assert!(
        told.frames.iter().all(|(report, _)| report.sectag.as_ref().unwrap().to_string().contains(" PADDED"))
    );
    let told = with(ENDS, &wire);
    assert_eq!((told.sdus(), told.summary.bad), (sdus, 0));
}

/// A frame of cover with this SDU, or with none.
pub(crate) fn covered(sdu: &[u8], padding: u16) -> Assembled {
    let segments = Segments::one(sdu.len() as u16, false);
    let layout = FrameLayout { segments, chain: 0, padding: Some(padding), with_addresses: true };
    ([&[0x5a; 12], sdu].concat(), Some(layout))
}

/// Their SDUs have addresses of their own, and some hold nothing.
#[test]
fn our_gateways_cover() {
    let sdu = super::ends::sdu(100, 1);
    let settings = Settings { mtu: 1500, ..REASSEMBLING };
    let assembled = [covered(&sdu, 40), covered(&[], 40 + sdu.len() as u16)];
    let wire = protect_assembled(&mut sender(A, settings, GCM, 90), &assembled);
    let wire: Vec<_> = wire.into_iter().map(Outcome::passed).collect();
    assert_eq!(wire[0].len(), wire[1].len());
    let told = inspect(&pcap(&timed(&wire)), None);
    assert_eq!(told.summary.bad, 0);
    assert!(
        told.frames.iter().all(|(report, _)| report.sectag.as_ref().unwrap().to_string().contains(" COVER"))
    );
    let told = with(ENDS, &wire);
    assert_eq!((told.sdus(), told.summary.bad), (vec![sdu], 0));
}

#[test]
fn our_gateways_fragments() {
    let sdus: Vec<_> = [1512, 200, 1512, 64, 1512]
        .into_iter()
        .enumerate()
        .map(|(n, octets)| super::ends::sdu(octets, n as u64))
        .collect();
    let settings = Settings { mtu: 1500, ..REASSEMBLING };
    let wire = send(&mut sender(A, settings, GCM, 90), &Rules::new(&settings, true, true), &sdus);
    assert!(wire.iter().all(|frame| frame.len() <= 1514));
    let told = with(ENDS, &wire);
    assert_eq!(told.summary.bad, 0, "{}", told.why(0));
    let mut delivered = told.sdus();
    delivered.sort();
    let mut expected = sdus.clone();
    expected.sort();
    assert_eq!(delivered, expected);
    let sources: Vec<_> =
        told.frames.iter().flat_map(|(report, _)| &report.sdus).map(|sdu| sdu.frames.clone()).collect();
    assert!(sources.iter().any(|frames| frames.len() == 2 && frames[0] + 1 == frames[1]), "{sources:?}");
    assert!(told.summary.scs["SC 02:00:00:00:00:0a/1"].extended > 0);
    // A gateway that is not configured for it.
    let standard = sas(ENDS).into_iter().map(|keyed| KeyedSa { reassemble: false, ..keyed });
    let told = inspect(&pcap(&timed(&wire)), Some(standard.collect()));
    assert!(told.why(0).starts_with("InPktsBadTag: MF or EXT is set, but this receiver does not reassemble"));
    // A lost frame takes the other part with it.
    let lost = [&wire[1..2], &wire[2..]].concat();
    let told = with(ENDS, &lost);
    assert!(told.summary.counters.contains_key("InPiecesLost"), "{:?}", told.summary.counters);
}

#[test]
fn a_long_chain_names_its_frames_in_any_order() {
    let (sdu, pieces) = chain(10, 6, 100);
    let mut wire: Vec<_> = pieces.iter().map(super::ends::fragments::Forged::seal).collect();
    wire.swap(2, 5);
    let told = inspect(&pcap(&timed(&wire)), Some(replay(Replay::Window(32))));
    assert_eq!(told.sdus(), [sdu]);
    let report = &told.frames[5].0;
    assert_eq!(report.sdus[0].frames, [1, 2, 6, 4, 5, 3]);
}
