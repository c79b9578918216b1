//! Over random settings, suites, lengths and bursts: what is protected is verified, and whatever happens to
//! frames on the way, only sent SDUs are delivered, each once, and the counters add up.

mod ends;

use std::collections::HashSet;

use ends::{A, Outcome, SETTINGS, protect_all, protected, receiver, sdu, sender, verify_all};
use proptest::prelude::*;
use secy::{ConfidentialityOffset, Protection, SciInclusion, Settings, ValidateFrames};
use suite::CipherSuite;

fn suites() -> impl Strategy<Value = CipherSuite> {
    proptest::sample::select(&CipherSuite::ALL[..])
}

fn settings(suite: CipherSuite) -> impl Strategy<Value = (Settings, Protection)> {
    use ConfidentialityOffset::{Fifty, Thirty, Zero};
    let (zero, offsets) = ([Zero].to_vec(), [Zero, Thirty, Fifty].to_vec());
    let offset = proptest::sample::select(if suite.is_xpn() { zero } else { offsets });
    let protection = prop_oneof![Just(Protection::Integrity), offset.prop_map(Protection::Encrypt)];
    let inclusion =
        proptest::sample::select(vec![SciInclusion::Always, SciInclusion::Never, SciInclusion::EndStation]);
    let validate = proptest::sample::select(vec![ValidateFrames::Strict, ValidateFrames::Check]);
    (protection, inclusion, validate, any::<bool>()).prop_map(
        |(protection, sci_inclusion, validate_frames, replay_protect)| {
            (Settings { sci_inclusion, validate_frames, replay_protect, ..SETTINGS }, protection)
        },
    )
}

/// First PNs: at the beginning, before 2^32, before the end; a sequence of 500 fits behind each.
fn first_pn(suite: CipherSuite) -> impl Strategy<Value = u64> {
    let end = suite.last_pn().number();
    let crossing = if suite.is_xpn() { 1 << 32 } else { 1 << 31 };
    proptest::sample::select(vec![1, crossing - 100, end - 500])
}

/// Fate of frames between the ends.
#[derive(Debug, Clone)]
enum Mishap {
    Swap(prop::sample::Index, prop::sample::Index),
    Lose(prop::sample::Index),
    Duplicate(prop::sample::Index, prop::sample::Index),
    Corrupt(prop::sample::Index, prop::sample::Index, u8),
    Cut(prop::sample::Index, prop::sample::Index),
    Pad(prop::sample::Index, u8),
}

fn mishap() -> impl Strategy<Value = Mishap> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), index()).prop_map(|(a, b)| Mishap::Swap(a, b)),
        index().prop_map(Mishap::Lose),
        (index(), index()).prop_map(|(a, b)| Mishap::Duplicate(a, b)),
        (index(), index(), 0..8u8).prop_map(|(a, at, bit)| Mishap::Corrupt(a, at, bit)),
        (index(), index()).prop_map(|(a, at)| Mishap::Cut(a, at)),
        (index(), 1..64u8).prop_map(|(a, octets)| Mishap::Pad(a, octets)),
    ]
}

fn befall(wire: &mut Vec<Vec<u8>>, mishap: &Mishap) {
    if wire.is_empty() {
        return;
    }
    let frames = wire.len();
    match mishap {
        Mishap::Swap(a, b) => wire.swap(a.index(frames), b.index(frames)),
        Mishap::Lose(a) => drop(wire.remove(a.index(frames))),
        Mishap::Duplicate(a, to) => {
            let copy = wire[a.index(frames)].clone();
            wire.insert(to.index(frames + 1), copy);
        }
        Mishap::Corrupt(a, at, bit) => {
            let frame = &mut wire[a.index(frames)];
            if !frame.is_empty() {
                let at = at.index(frame.len());
                frame[at] ^= 1 << bit;
            }
        }
        Mishap::Cut(a, at) => {
            let frame = &mut wire[a.index(frames)];
            frame.truncate(at.index(frame.len() + 1));
        }
        Mishap::Pad(a, octets) => wire[a.index(frames)].extend(vec![0x55; (*octets).into()]),
    }
}

proptest! {
    #[test]
    fn what_is_protected_is_verified(
        (suite, settings, first) in suites().prop_flat_map(|s| (Just(s), settings(s), first_pn(s))),
        lengths in proptest::collection::vec(2..1400_usize, 1..80),
        burst in 1..40_usize,
        window in prop_oneof![Just(0), 1..100_u32],
    ) {
        let sdus: Vec<_> = lengths.iter().zip(0..).map(|(&octets, number)| sdu(octets, number)).collect();
        let (mut tx, mut rx) = (sender(A, settings, suite, first), receiver(settings, suite, first, window));
        for sdus in sdus.chunks(burst) {
            let frames = protected(&mut tx, sdus);
            let delivered: Vec<_> = verify_all(&mut rx, &frames).into_iter().map(Outcome::passed).collect();
            prop_assert_eq!(&delivered[..], sdus);
        }
        let sent = tx.transmit_counters();
        let seen = rx.receive_scs().next().expect("one SC").counters();
        let octets: usize = lengths.iter().sum();
        let of_sender = (
            sent.out_pkts_protected + sent.out_pkts_encrypted,
            sent.out_octets_protected + sent.out_octets_encrypted,
        );
        let of_receiver = (seen.in_pkts_ok, seen.in_octets_validated + seen.in_octets_decrypted);
        prop_assert_eq!(of_sender, (lengths.len() as u64, octets as u64));
        prop_assert_eq!(of_receiver, of_sender);
    }

    /// Reordering, duplication, loss, corruption, cutting and padding of a sequence of frames.
    #[test]
    fn only_sent_sdus_arrive_and_each_once(
        (suite, settings, first) in suites().prop_flat_map(|s| (Just(s), settings(s), first_pn(s))),
        lengths in proptest::collection::vec(2..200_usize, 1..60),
        mishaps in proptest::collection::vec(mishap(), 0..60),
        burst in 1..40_usize,
        window in prop_oneof![Just(0), 1..100_u32, Just(1000)],
    ) {
        let strict = Settings { replay_protect: true, validate_frames: ValidateFrames::Strict, ..settings.0 };
        let settings = (strict, settings.1);
        let sdus: Vec<_> = lengths.iter().zip(0..).map(|(&octets, number)| sdu(octets, number)).collect();
        let mut tx = sender(A, settings, suite, first);
        let mut wire = protected(&mut tx, &sdus);
        let sent = wire.clone();
        for mishap in &mishaps {
            befall(&mut wire, mishap);
        }
        let mut rx = receiver(settings, suite, first, window);
        let outcomes: Vec<_> = wire.chunks(burst).flat_map(|burst| verify_all(&mut rx, burst)).collect();

        // A model of the window: index of a frame in the sequence stands for its PN.
        let (mut seen, mut next) = (HashSet::new(), 0);
        let mut delivered = 0;
        for (frame, outcome) in wire.iter().zip(&outcomes) {
            let intact = sent.iter().position(|sent| {
                frame == sent || frame.starts_with(sent) && sent[15] != 0
            });
            let in_window = |index: usize| index >= next || next - index <= window as usize;
            let expected = intact.filter(|&index| in_window(index) && !seen.contains(&index));
            match outcome {
                Outcome::Passed(octets) => prop_assert_eq!(Some(octets), expected.map(|index| &sdus[index])),
                Outcome::Discarded(reason) => prop_assert_eq!(expected, None, "{:?}", reason),
            }
            if let Some(index) = expected {
                delivered += 1;
                next = next.max(index + 1);
                seen.insert(index);
            }
        }
        let counters = rx.receive_scs().next().expect("one SC").counters();
        prop_assert_eq!(counters.in_pkts_ok, delivered);
        prop_assert_eq!(ends::received(&rx), wire.len() as u64);
    }

    /// Octets out of nowhere, on both sides and under every mode: no panic, and each is counted once.
    #[test]
    fn any_octets_are_counted_once(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 1..40),
        macsec in any::<bool>(),
        mode in 0..3_usize,
        protect_frames in any::<bool>(),
    ) {
        let validate_frames = [ValidateFrames::Strict, ValidateFrames::Check, ValidateFrames::Disabled][mode];
        let settings = Settings { validate_frames, protect_frames, ..SETTINGS };
        let suite = CipherSuite::GcmAes128;
        let (mut tx, mut rx) = (sender(A, settings, suite, 1), receiver(settings, suite, 1, 10));
        let frames: Vec<_> = frames
            .into_iter()
            .map(|mut frame| {
                if let (true, Some(ethertype)) = (macsec, frame.get_mut(12..14)) {
                    ethertype.copy_from_slice(&[0x88, 0xe5]);
                }
                frame
            })
            .collect();
        verify_all(&mut rx, &frames);
        prop_assert_eq!(ends::received(&rx), frames.len() as u64);
        let passed = protect_all(&mut tx, &frames).iter().filter(|o| matches!(o, Outcome::Passed(_))).count();
        let (secy, sa) = (tx.counters(), tx.transmit_counters());
        let sent = secy.out_pkts_untagged + sa.out_pkts_encrypted;
        prop_assert_eq!(sent, passed as u64);
        prop_assert_eq!(sent + secy.out_pkts_too_short + secy.out_pkts_too_long, frames.len() as u64);
    }
}
