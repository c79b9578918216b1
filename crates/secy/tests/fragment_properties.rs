//! Over random SDUs, bursts and mishaps on the way: only sent SDUs are delivered, whole and as often as they were
//! sent; in order if frames come in order; all of them if nothing befalls; and the counters say what became of all.

mod ends;

use std::collections::HashMap;

use ends::fragments::{REASSEMBLING, buffer, carry_out, planned, protect_assembled, verify_fragments};
use ends::{A, MAC_A, MAC_B, Outcome, receiver, sender};
use proptest::prelude::*;
use secy::fragment::Rules;
use secy::{FrameSizes, ReceiveSaCounters, ReceiveSc, SciInclusion, SecY, Settings};
use suite::CipherSuite;
use testkit::frames;
use wire::{EtherType, Instant, MacAddr};

/// An SDU to be sent.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    payload: usize,
    station: u8,
    express: bool,
}

/// Half of them small, some long.
fn wanted() -> impl Strategy<Value = Wanted> {
    let payload = prop_oneof![4 => 8..80_usize, 3 => 400..1600_usize, 1 => 8..9001_usize];
    (payload, 0..3_u8, prop::bool::weighted(0.1)).prop_map(|(payload, station, express)| Wanted {
        payload,
        station,
        express,
    })
}

/// SDUs, each with a number of its own in its payload.
fn sdus(wanted: &[Wanted]) -> Vec<Vec<u8>> {
    let sdu = |(number, wanted): (u64, &Wanted)| {
        let to = if wanted.station == 0 { MAC_B } else { MacAddr([2, 0, 0, 0, 1, wanted.station]) };
        let ethertype = if wanted.express { EtherType::PROFINET } else { EtherType::IPV4 };
        let payload = [&number.to_be_bytes()[..], &frames::payload(wanted.payload - 8, number)].concat();
        frames::ethernet(to, MAC_A, ethertype, &payload)
    };
    (0..).zip(wanted).map(sdu).collect()
}

fn rules(settings: &Settings) -> impl Strategy<Value = Rules> + use<> {
    let settings = *settings;
    let largest = settings.mtu as u16 + 14;
    let sizes = [&[][..], &[largest], &[128, largest / 2, largest]].map(<[u16]>::to_vec).to_vec();
    (any::<bool>(), prop::sample::select(sizes)).prop_map(move |(concatenate, sizes)| {
        let sizes = FrameSizes::new(&sizes).unwrap_or_default();
        Rules::new(&settings, true, concatenate).padded(&settings, &sizes)
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let mtu = prop::sample::select(vec![576, 577, 1000, 1492, 1500, 1532, 2100, 9000]);
    let sci_inclusion = prop::sample::select(vec![SciInclusion::Always, SciInclusion::Never]);
    (mtu, sci_inclusion).prop_map(|(mtu, sci_inclusion)| Settings { mtu, sci_inclusion, ..REASSEMBLING })
}

fn setup() -> impl Strategy<Value = (Settings, Rules, CipherSuite, u64)> {
    let start =
        prop_oneof![Just((CipherSuite::GcmAes128, 1)), Just((CipherSuite::GcmAesXpn128, (1 << 32) - 40)),];
    (settings(), start).prop_flat_map(|(settings, (suite, first))| {
        rules(&settings).prop_map(move |rules| (settings, rules, suite, first))
    })
}

/// Fate of a frame on its way.
#[derive(Debug, Clone, Copy)]
enum Mishap {
    Lose,
    Duplicate { later: usize },
    Delay { by: usize },
    Corrupt { at: prop::sample::Index, bit: u8 },
}

/// For each frame, cycled; most of them travel unharmed.
fn mishaps(rough: bool) -> impl Strategy<Value = Vec<Option<Mishap>>> {
    let any_mishap = prop_oneof![
        Just(Mishap::Lose),
        (0..20_usize).prop_map(|later| Mishap::Duplicate { later }),
        (1..20_usize).prop_map(|by| Mishap::Delay { by }),
        (any::<prop::sample::Index>(), 0..8_u8).prop_map(|(at, bit)| Mishap::Corrupt { at, bit }),
    ];
    let in_order = prop_oneof![
        Just(Mishap::Lose),
        Just(Mishap::Duplicate { later: 0 }),
        (any::<prop::sample::Index>(), 0..8_u8).prop_map(|(at, bit)| Mishap::Corrupt { at, bit }),
    ];
    let one = if rough { any_mishap.boxed() } else { in_order.boxed() };
    proptest::collection::vec(prop::option::weighted(0.15, one), 50..300)
}

/// The frames as they arrive.
fn befall(frames: &[Vec<u8>], mishaps: &[Option<Mishap>]) -> Vec<Vec<u8>> {
    let mut arriving: Vec<(usize, Vec<u8>)> = Vec::new();
    for ((index, frame), mishap) in frames.iter().enumerate().zip(mishaps.iter().cycle()) {
        match *mishap {
            None => arriving.push((index, frame.clone())),
            Some(Mishap::Lose) => {}
            Some(Mishap::Duplicate { later }) => {
                arriving.push((index, frame.clone()));
                arriving.push((index + later, frame.clone()));
            }
            Some(Mishap::Delay { by }) => arriving.push((index + by, frame.clone())),
            Some(Mishap::Corrupt { at, bit }) => {
                let mut frame = frame.clone();
                let at = at.index(frame.len());
                frame[at] ^= 1 << bit;
                arriving.push((index, frame));
            }
        }
    }
    arriving.sort_by_key(|&(at, _)| at);
    arriving.into_iter().map(|(_, frame)| frame).collect()
}

fn send(tx: &mut SecY, rules: &Rules, sdus: &[Vec<u8>], bursts: &[usize]) -> Vec<Vec<u8>> {
    let (mut frames, mut rest, mut bursts) = (Vec::new(), sdus, bursts.iter().cycle());
    while !rest.is_empty() {
        let burst;
        (burst, rest) = rest.split_at((*bursts.next().expect("a burst")).min(rest.len()));
        let assembled = carry_out(&planned(rules, burst), burst);
        frames.extend(protect_assembled(tx, &assembled).into_iter().map(Outcome::passed));
    }
    frames
}

/// SDUs in the order of their delivery, from frames that come at a microsecond's distance.
fn receive(rx: &mut SecY, frames: &[Vec<u8>], bursts: &[usize]) -> Vec<Vec<u8>> {
    let (mut got, mut rest, mut bursts) = (Vec::new(), frames, bursts.iter().cycle());
    let mut buffer = buffer(64);
    while !rest.is_empty() {
        let burst;
        (burst, rest) = rest.split_at((*bursts.next().expect("a burst")).min(rest.len()));
        got.extend(verify_fragments(rx, Instant::START, burst, &mut buffer).into_iter().flatten().flatten());
    }
    got
}

fn sc(rx: &SecY) -> &ReceiveSc {
    rx.receive_scs().next().expect("one SC")
}

/// Pieces that were dropped.
const fn pieces_dropped(c: &ReceiveSaCounters) -> u64 {
    c.in_pieces_lost + c.in_pieces_expired + c.in_pieces_overrun + c.in_pieces_mismatched
}

/// Number of occurrences of each SDU.
fn count(sdus: &[Vec<u8>]) -> HashMap<&[u8], usize> {
    sdus.iter().fold(HashMap::new(), |mut counts, sdu| {
        *counts.entry(&sdu[..]).or_default() += 1;
        counts
    })
}

/// The numbers of delivered SDUs of one pair of addresses and kind, in order.
fn numbers(sdus: &[Vec<u8>], of: &[u8]) -> Vec<u64> {
    let number = |sdu: &Vec<u8>| u64::from_be_bytes(*sdu[14..].first_chunk().expect("a number"));
    sdus.iter().filter(|sdu| sdu[..14] == *of).map(number).collect()
}

fn each_kind(sdus: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut kinds: Vec<_> = sdus.iter().map(|sdu| sdu[..14].to_vec()).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(2000), ..ProptestConfig::default() })]

    #[test]
    fn with_no_loss_and_in_order_all_are_delivered(
        (settings, rules, suite, first) in setup(),
        wanted in proptest::collection::vec(wanted(), 1..150),
        sent_by in proptest::collection::vec(1..=64_usize, 1..8),
        received_by in proptest::collection::vec(1..=64_usize, 1..8),
        window in prop_oneof![Just(0), 1..100_u32],
    ) {
        let sdus = sdus(&wanted);
        let (mut tx, mut rx) = (sender(A, settings, suite, first), receiver(settings, suite, first, window));
        let frames = send(&mut tx, &rules, &sdus, &sent_by);
        prop_assert!(frames.iter().all(|frame| frame.len() <= settings.mtu + 14));
        let got = receive(&mut rx, &frames, &received_by);
        for kind in each_kind(&sdus) {
            prop_assert_eq!(numbers(&got, &kind), numbers(&sdus, &kind));
        }
        prop_assert_eq!(count(&got), count(&sdus));
        let c = sc(&rx).counters();
        prop_assert_eq!((sc(&rx).reassembler().len(), pieces_dropped(&c), c.in_pkts_ok), (0, 0, frames.len() as u64));
    }

    #[test]
    fn in_order_a_subsequence_is_delivered(
        (settings, rules, suite, first) in setup(),
        wanted in proptest::collection::vec(wanted(), 1..120),
        sent_by in proptest::collection::vec(1..=64_usize, 1..8),
        received_by in proptest::collection::vec(1..=64_usize, 1..8),
        mishaps in mishaps(false),
        window in prop_oneof![Just(0), 1..100_u32],
    ) {
        let sdus = sdus(&wanted);
        let (mut tx, mut rx) = (sender(A, settings, suite, first), receiver(settings, suite, first, window));
        let frames = befall(&send(&mut tx, &rules, &sdus, &sent_by), &mishaps);
        let got = receive(&mut rx, &frames, &received_by);
        let sent = count(&sdus);
        prop_assert!(count(&got).iter().all(|(sdu, times)| sent.get(sdu) == Some(times)), "sent, and once");
        for kind in each_kind(&sdus) {
            let got = numbers(&got, &kind);
            prop_assert!(got.is_sorted(), "{:?}", got);
        }
    }

    #[test]
    fn in_any_order_only_sent_sdus_are_delivered_and_each_once(
        (settings, rules, suite, first) in setup(),
        replay_protect in prop::bool::weighted(0.8),
        wanted in proptest::collection::vec(wanted(), 1..120),
        sent_by in proptest::collection::vec(1..=64_usize, 1..8),
        received_by in proptest::collection::vec(1..=64_usize, 1..8),
        mishaps in mishaps(true),
        window in prop_oneof![Just(0), 1..100_u32],
    ) {
        let settings = Settings { replay_protect, ..settings };
        let sdus = sdus(&wanted);
        let (mut tx, mut rx) = (sender(A, settings, suite, first), receiver(settings, suite, first, window));
        let frames = befall(&send(&mut tx, &rules, &sdus, &sent_by), &mishaps);
        let got = receive(&mut rx, &frames, &received_by);
        let sent = count(&sdus);
        let once = |(sdu, &times): (&&[u8], &usize)| sent.contains_key(sdu) && (times == 1 || !replay_protect);
        prop_assert!(count(&got).iter().all(once), "sent, and once");

        // Every frame, every piece and every SDU is in one counter.
        let c = sc(&rx).counters();
        prop_assert_eq!(ends::received(&rx), frames.len() as u64);
        let whole = c.in_pkts_ok + c.in_pkts_delayed;
        prop_assert!(c.in_sdus_reassembled + c.in_sdus_separated <= got.len() as u64);
        prop_assert!(got.len() as u64 - c.in_sdus_reassembled - c.in_sdus_separated <= whole);
        prop_assert_eq!(c.in_pkts_malformed + c.in_sdus_too_long, 0);
        // Without replay protection a piece can come again when its neighbour is used up, and with another of the
        // neighbour's frame; and so it can when the neighbour was thrown out.
        if replay_protect && c.in_pieces_overrun == 0 {
            prop_assert_eq!(c.in_pieces_mismatched, 0);
        }
    }

    /// Missing SDUs are explained: sent SDUs are those delivered and those with a lost frame.
    #[test]
    fn an_sdu_is_missing_only_if_a_frame_of_it_is(
        (settings, rules, suite, first) in setup(),
        wanted in proptest::collection::vec(wanted(), 1..64),
        lost in proptest::collection::vec(prop::bool::weighted(0.1), 1..200),
        shuffle in proptest::collection::vec(0..6_usize, 1..50),
    ) {
        let sdus = sdus(&wanted);
        let (mut tx, mut rx) = (sender(A, settings, suite, first), receiver(settings, suite, first, 5000));
        let plan = planned(&rules, &sdus);
        let frames = send(&mut tx, &rules, &sdus, &[64]);
        let is_lost = |index: usize| lost[index % lost.len()];
        // Near its place, so that no piece is thrown out for want of room.
        let mut order: Vec<_> = (0..frames.len()).filter(|&index| !is_lost(index)).collect();
        order.sort_by_key(|&index| index + shuffle[index % shuffle.len()]);
        let arriving: Vec<_> = order.iter().map(|&index| frames[index].clone()).collect();
        let got = receive(&mut rx, &arriving, &[1]);

        let mut expected = vec![true; sdus.len()];
        for (index, frame) in plan.frames().iter().enumerate().filter(|&(index, _)| is_lost(index)) {
            prop_assert!(index < frames.len());
            plan.fragments(frame).iter().for_each(|part| expected[part.sdu] = false);
        }
        let expected: Vec<_> = sdus.iter().zip(expected).filter(|(_, whole)| *whole).map(|(sdu, _)| sdu.clone()).collect();
        let c = sc(&rx).counters();
        if c.in_pieces_overrun == 0 {
            prop_assert_eq!(count(&got), count(&expected));
        } else {
            let expected = count(&expected);
            prop_assert!(count(&got).keys().all(|sdu| expected.contains_key(sdu)));
        }
        // Of what arrived, each piece was joined, is held, or was thrown out.
        let spans = |sdu: usize, index: usize| plan.fragments(&plan.frames()[index]).iter().any(|part| part.sdu == sdu);
        let pieces_of = |sdu: usize, among: &[usize]| among.iter().filter(|&&index| spans(sdu, index)).count();
        let all: Vec<_> = (0..frames.len()).collect();
        let got = count(&got);
        let (mut arrived, mut joined) = (0, 0);
        for (number, sdu) in sdus.iter().enumerate().filter(|&(number, _)| pieces_of(number, &all) > 1) {
            let pieces = pieces_of(number, &order);
            arrived += pieces;
            joined += if got.contains_key(&sdu[..]) { pieces } else { 0 };
        }
        let accounted = joined + sc(&rx).reassembler().len() + pieces_dropped(&c) as usize;
        prop_assert_eq!(arrived, accounted);
    }
}
