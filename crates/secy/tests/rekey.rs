//! Install, enable, retire: a rekey loses no frame that is on its way.
//!
//! ```text
//!  sender    ── AN 0 ───────────────────┐ enable AN 1 ── AN 1 ──────────────▶
//!  receiver  ── AN 0 ── install, enable AN 1 ── AN 0 and AN 1 mixed ── retire AN 0 ── AN 1 ──▶
//! ```

mod ends;

use ends::{
    A, B, HERE, Outcome, SETTINGS, an, protected, receive_sa, sdus, start_receiving, start_sending,
    transmit_sa, verify_all,
};
use proptest::prelude::*;
use secy::{ReceiveDiscard, SciInclusion, SecY, Settings, TransmitDiscard};
use suite::CipherSuite;
use wire::{Pn, Sci};

const WINDOW: u32 = 256;

/// All frames of `count` SDUs for each AN of `ans`, sent one AN after the other.
fn under_each_an(tx: &mut SecY, suite: CipherSuite, ans: &[u8], sdus: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (&number, sdus) in ans.iter().zip(sdus.chunks(sdus.len() / ans.len())) {
        start_sending(tx, transmit_sa(suite, number, 1, Pn::LAST_64));
        frames.extend(protected(tx, sdus));
    }
    frames
}

fn passed(sdus: &[Vec<u8>]) -> Vec<Outcome<ReceiveDiscard>> {
    sdus.iter().cloned().map(Outcome::Passed).collect()
}

#[test]
fn a_rekey_with_frames_on_their_way() {
    for suite in [CipherSuite::GcmAes128, CipherSuite::GcmAesXpn256, CipherSuite::ChaCha20Poly1305] {
        let (mut tx, mut rx) = (SecY::new(A, SETTINGS), SecY::new(HERE, SETTINGS));
        rx.install_receive_sc(A).expect("a free SCI");
        start_receiving(&mut rx, A, receive_sa(suite, 0, 1, WINDOW));
        start_sending(&mut tx, transmit_sa(suite, 0, 1, Pn::LAST_64));
        let sdus = sdus(30, 60);
        let old = protected(&mut tx, &sdus[..20]);
        assert_eq!(verify_all(&mut rx, &old[..10]), passed(&sdus[..10]));

        tx.install_transmit(transmit_sa(suite, 1, 1, Pn::LAST_64)).expect("a free AN");
        assert_eq!(tx.encoding_sa(), Some(an(0)), "installing changes nothing yet");
        start_receiving(&mut rx, A, receive_sa(suite, 1, 1, WINDOW));
        tx.enable_transmit(an(1)).expect("installed");
        let new = protected(&mut tx, &sdus[20..]);
        assert!(new.iter().all(|frame| frame[14] & 3 == 1) && old.iter().all(|frame| frame[14] & 3 == 0));

        // The new ones overtake, one by one, within one burst.
        let mixed: Vec<_> = new.iter().zip(&old[10..]).flat_map(|(new, old)| [new, old]).collect();
        let expected: Vec<_> =
            sdus[20..].iter().zip(&sdus[10..20]).flat_map(|(new, old)| [new.clone(), old.clone()]).collect();
        assert_eq!(verify_all(&mut rx, &mixed), passed(&expected), "{suite}");

        let retired = rx.retire_receive(A, an(0)).expect("installed");
        assert_eq!(retired.counters().in_pkts_ok, 20);
        assert_eq!(retired.window().highest(), 20);
        let sc = rx.receive_scs().next().expect("one SC");
        assert_eq!((sc.counters().in_pkts_ok, sc.sas().count()), (30, 1), "the SC's sum keeps them");
        assert_eq!(verify_all(&mut rx, &old[..1]), [Outcome::Discarded(ReceiveDiscard::NoSaError)]);

        let retired = tx.retire_transmit(an(0)).expect("installed");
        assert_eq!(retired.counters().out_pkts_encrypted, 20);
        assert_eq!(retired.counters().out_octets_encrypted, 20 * 60);
        assert_eq!(tx.transmit_counters().out_pkts_encrypted, 30);
        assert_eq!(tx.encoding_sa(), Some(an(1)));
    }
}

/// The AN comes round: the fifth key is under the first AN again, and opens nothing of the first key.
#[test]
fn the_same_an_with_another_key() {
    let suite = CipherSuite::GcmAes128;
    let (mut tx, mut rx) = (SecY::new(A, SETTINGS), SecY::new(HERE, SETTINGS));
    rx.install_receive_sc(A).expect("a free SCI");
    start_receiving(&mut rx, A, receive_sa(suite, 0, 1, WINDOW));
    start_sending(&mut tx, transmit_sa(suite, 0, 1, Pn::LAST_64));
    let frames = protected(&mut tx, &sdus(2, 60));
    assert_eq!(verify_all(&mut rx, &frames[..1]), passed(&sdus(1, 60)));
    rx.retire_receive(A, an(0)).expect("installed");
    let other = secy::ReceiveSa::new(an(0), ends::key(suite, 0xee), None, ends::ENCRYPT, Pn::FIRST, WINDOW)
        .expect("an SA");
    start_receiving(&mut rx, A, Box::new(other));
    let not_valid = Outcome::Discarded(ReceiveDiscard::NotValid);
    assert_eq!(verify_all(&mut rx, &frames), [not_valid.clone(), not_valid]);
}

#[test]
fn enabling_what_is_not_there_keeps_the_one_before() {
    let mut tx = SecY::new(A, SETTINGS);
    start_sending(&mut tx, transmit_sa(CipherSuite::GcmAes128, 0, 1, Pn::LAST_64));
    assert!(tx.enable_transmit(an(1)).is_err());
    assert_eq!(tx.encoding_sa(), Some(an(0)));
    protected(&mut tx, &sdus(1, 60));
    tx.retire_transmit(an(0)).expect("installed");
    assert_eq!(tx.encoding_sa(), None);
    let discarded = ends::protect_all(&mut tx, &sdus(1, 60));
    assert_eq!(discarded, [Outcome::Discarded(TransmitDiscard::NoSa)], "never in clear");
}

proptest! {
    /// Two transmitters, four ANs each, any order, any cutting into bursts: every frame arrives, once.
    #[test]
    fn any_mix_of_sas_and_scs_arrives(
        suite in proptest::sample::select(&CipherSuite::ALL[..]),
        order in Just((0..128_usize).collect::<Vec<_>>()).prop_shuffle(),
        cuts in proptest::collection::vec(1..40_usize, 1..12),
        implicit in any::<bool>(),
    ) {
        let inclusion = if implicit { SciInclusion::EndStation } else { SciInclusion::Always };
        let settings = Settings { sci_inclusion: inclusion, ..SETTINGS };
        let mut rx = SecY::new(HERE, settings);
        let (mut frames, mut sent) = (Vec::new(), Vec::new());
        for (channel, sci) in [A, B].into_iter().enumerate() {
            rx.install_receive_sc(sci).expect("a free SCI");
            for number in 0..4 {
                start_receiving(&mut rx, sci, receive_sa(suite, number, 1, WINDOW));
            }
            let sdus: Vec<_> = (0..64).map(|n| from(sci, 50 + n, channel * 64 + n)).collect();
            frames.extend(under_each_an(&mut SecY::new(sci, settings), suite, &[0, 3, 1, 2], &sdus));
            sent.extend(sdus);
        }
        let shuffled: Vec<_> = order.iter().map(|&index| frames[index].clone()).collect();
        let (mut rest, mut outcomes) = (&shuffled[..], Vec::new());
        for cut in cuts.into_iter().cycle() {
            let (burst, behind) = rest.split_at(cut.min(rest.len()));
            outcomes.extend(verify_all(&mut rx, burst));
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        for (&index, outcome) in order.iter().zip(&outcomes) {
            prop_assert_eq!(outcome, &Outcome::Passed(sent[index].clone()));
        }
        for sc in rx.receive_scs() {
            prop_assert_eq!(sc.counters().in_pkts_ok, 64);
            prop_assert!(sc.sas().all(|sa| sa.counters().in_pkts_ok == 16));
        }
    }
}

fn from(sci: Sci, octets: usize, number: usize) -> Vec<u8> {
    let mut sdu = ends::sdu(octets, number as u64);
    sdu[6..12].copy_from_slice(&sci.system().0);
    sdu
}
