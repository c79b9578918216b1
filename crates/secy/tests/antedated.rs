//! A SecY that antedates beside one that does not: whatever happens, frames, verdicts and counters are the same, but for
//! the counters that tell what was ready.

mod ends;

use ends::{
    A, Books, ENCRYPT, HERE, MAC_A, MAC_B, Outcome, SETTINGS, an, books, pn, protect_all, protected, sdu,
    sdus, start_receiving, start_sending, verify, verify_all, xpn,
};
use proptest::prelude::*;
use secy::antedated::FRAMES_AHEAD;
use secy::{CarryOver, ConfidentialityOffset, Protection, ReceiveSa, SecY, Settings, TransmitSa};
use suite::antedated::Keystream;
use suite::{CipherSuite, Key, Sak};
use testkit::frames;
use wire::{EtherType, Pn};

const SUITE: CipherSuite = CipherSuite::GcmAes128;

/// Whether keys antedate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Ordinary,
    Antedated,
}

impl Way {
    fn key(self, suite: CipherSuite, seed: u8) -> Key {
        let sak = Sak::new(suite, &vec![seed; suite.key_octets()]).expect("its length");
        let prepare = match self {
            Self::Ordinary => Key::prepare,
            Self::Antedated => Key::prepare_antedated,
        };
        prepare(suite, &sak).expect("its suite")
    }

    fn transmit_sa(
        self,
        suite: CipherSuite,
        how: Protection,
        number: u8,
        first: u64,
        reserved: u64,
    ) -> Box<TransmitSa> {
        let key = self.key(suite, number);
        Box::new(TransmitSa::new(an(number), key, xpn(suite), how, pn(first), pn(reserved)).expect("an SA"))
    }

    fn receive_sa(
        self,
        suite: CipherSuite,
        how: Protection,
        number: u8,
        lowest: u64,
        window: u32,
    ) -> Box<ReceiveSa> {
        let key = self.key(suite, number);
        Box::new(ReceiveSa::new(an(number), key, xpn(suite), how, pn(lowest), window).expect("an SA"))
    }

    /// A transmitter and a receiver under AN 0, whose first PN is `first`.
    fn ends(self, suite: CipherSuite, how: Protection, settings: Settings, first: u64) -> (SecY, SecY) {
        let (mut tx, mut rx) = (SecY::new(A, settings), SecY::new(HERE, settings));
        start_sending(&mut tx, self.transmit_sa(suite, how, 0, first, u64::MAX));
        rx.install_receive_sc(A).expect("a free SCI");
        start_receiving(&mut rx, A, self.receive_sa(suite, how, 0, first, 64));
        (tx, rx)
    }
}

fn antedating() -> (SecY, SecY) {
    Way::Antedated.ends(SUITE, ENCRYPT, SETTINGS, 1)
}

/// Makes all that is to be made; how many keystreams.
fn fill(secy: &mut SecY) -> usize {
    let made = (0..10_000).take_while(|_| secy.antedate()).count();
    assert!(made < 10_000, "it never ends");
    made
}

/// Frames sent with a whole, a part and nothing of their keystream.
fn sent(secy: &SecY) -> [u64; 3] {
    let counters = secy.transmit_counters();
    [counters.out_pkts_antedated, counters.out_pkts_antedated_in_part, counters.out_pkts_not_antedated]
}

fn received(secy: &SecY) -> [u64; 3] {
    let counters = secy.receive_scs().next().expect("one SC").counters();
    [counters.in_pkts_antedated, counters.in_pkts_antedated_in_part, counters.in_pkts_not_antedated]
}

#[test]
fn what_was_ready_is_used_once_and_made_again() {
    let (mut tx, mut rx) = antedating();
    assert_eq!((fill(&mut tx), fill(&mut rx)), (FRAMES_AHEAD, FRAMES_AHEAD));
    let sdus = sdus(FRAMES_AHEAD as u64 + 5, 60);
    let frames = protected(&mut tx, &sdus);
    assert_eq!(sent(&tx), [FRAMES_AHEAD as u64, 0, 5]);
    let delivered: Vec<_> = verify_all(&mut rx, &frames).into_iter().map(Outcome::passed).collect();
    assert_eq!(delivered, sdus);
    assert_eq!(received(&rx), [FRAMES_AHEAD as u64, 0, 5]);
    assert_eq!((fill(&mut tx), fill(&mut rx)), (FRAMES_AHEAD, FRAMES_AHEAD), "for the next ones");
    assert!(!tx.antedate() && !rx.antedate());
}

#[test]
fn one_keystream_is_made_at_a_time_for_the_sa_that_has_the_fewest() {
    let (mut tx, _) = antedating();
    let other = Way::Antedated.transmit_sa(SUITE, ENCRYPT, 1, 1, u64::MAX);
    tx.install_transmit(other).expect("a free AN");
    for _ in 0..6 {
        assert!(tx.antedate());
    }
    protected(&mut tx, &sdus(4, 60));
    assert_eq!(sent(&tx), [3, 0, 1], "three for each SA");
    tx.enable_transmit(an(1)).expect("installed");
    protected(&mut tx, &sdus(4, 60));
    assert_eq!(sent(&tx), [6, 0, 2]);
}

#[test]
fn a_length_is_expected_as_those_before_it() {
    let (mut tx, mut rx) = antedating();
    let mut met = |length: usize| {
        let before = (sent(&tx), received(&rx));
        fill(&mut tx);
        fill(&mut rx);
        let sdu = sdu(length, 1);
        let frame = protected(&mut tx, std::slice::from_ref(&sdu)).remove(0);
        assert_eq!(verify(&mut rx, &frame), Outcome::Passed(sdu));
        let what =
            |before: [u64; 3], after: [u64; 3]| (0..3).find(|&at| before[at] != after[at]).expect("one");
        let moved = (what(before.0, sent(&tx)), what(before.1, received(&rx)));
        assert_eq!(moved.0, moved.1);
        moved.0
    };
    const { assert!(Keystream::LONGEST == 1536) };
    assert_eq!(met(1490), 0, "before the first frame all that can be is made");
    for _ in 0..FRAMES_AHEAD + 8 {
        assert_eq!(met(60), 0);
    }
    for _ in 0..FRAMES_AHEAD {
        assert_eq!(met(500), 1, "those that were made for short ones");
    }
    assert_eq!(met(500), 0);
    // Of the last eight the longest counts.
    assert_eq!((met(60), met(500)), (0, 0));
}

#[test]
fn goose_that_speaks_seldom_is_expected_to_be_as_long_as_its_last() {
    // Sampled Values of 80 octets, and among them one of another kind, of 300: how the later ones found their keystream.
    let among = |ether_type: EtherType| {
        let (mut tx, mut rx) = antedating();
        let mut send = |ether_type: EtherType, octets: usize, number: u64| {
            fill(&mut tx);
            fill(&mut rx);
            let before = (sent(&tx), received(&rx));
            let sdu = frames::ethernet(MAC_B, MAC_A, ether_type, &frames::payload(octets - 2, number));
            let frame = protected(&mut tx, std::slice::from_ref(&sdu)).remove(0);
            assert_eq!(verify(&mut rx, &frame), Outcome::Passed(sdu));
            let rise = |before: [u64; 3], after: [u64; 3]| std::array::from_fn(|at| after[at] - before[at]);
            (rise(before.0, sent(&tx)), rise(before.1, received(&rx)))
        };
        let seldom: Vec<([u64; 3], [u64; 3])> = (0..4)
            .map(|_| {
                (0..2 * FRAMES_AHEAD as u64).for_each(|_| {
                    send(EtherType::SAMPLED_VALUES, 80, 1);
                });
                send(ether_type, 300, 1)
            })
            .collect();
        seldom[1..].to_vec()
    };
    // Both ends: the counter of whole keystreams rises with each.
    assert_eq!(among(EtherType::GOOSE), [([1, 0, 0], [1, 0, 0]); 3]);
    assert_eq!(among(EtherType::IPV4), [([0, 1, 0], [0, 1, 0]); 3], "of all frames the last eight count");
}

#[test]
fn a_forged_frame_takes_nothing_from_the_true_one() {
    let (mut tx, mut rx) = antedating();
    fill(&mut rx);
    let sdus = sdus(FRAMES_AHEAD as u64, 60);
    let frames = protected(&mut tx, &sdus);
    for (frame, sdu) in frames.iter().zip(&sdus) {
        let mut forged = frame.clone();
        *forged.last_mut().expect("an ICV") ^= 1;
        // And one with a PN far away, which must not move what is prepared.
        let mut far = frame.clone();
        far[16] ^= 0x40;
        for forged in [forged, far] {
            assert!(matches!(verify(&mut rx, &forged), Outcome::Discarded(_)));
        }
        assert_eq!(verify(&mut rx, frame), Outcome::Passed(sdu.clone()));
    }
    assert_eq!(received(&rx), [FRAMES_AHEAD as u64, 0, 0]);
}

#[test]
fn nothing_is_made_for_what_needs_no_keystream() {
    let settings = [
        (SUITE, Protection::Integrity, SETTINGS),
        (CipherSuite::ChaCha20Poly1305, ENCRYPT, SETTINGS),
        (SUITE, ENCRYPT, Settings { protect_frames: false, ..SETTINGS }),
    ];
    for (suite, how, settings) in settings {
        let (mut tx, _) = Way::Antedated.ends(suite, how, settings, 1);
        assert!(!tx.antedate(), "{suite} {how:?} {settings:?}");
    }
    let (mut tx, mut rx) = Way::Ordinary.ends(SUITE, ENCRYPT, SETTINGS, 1);
    assert!(!tx.antedate() && !rx.antedate());
    protected(&mut tx, &sdus(1, 60));
    assert_eq!(sent(&tx), [0; 3]);
}

#[test]
fn no_pn_is_prepared_for_behind_the_last() {
    for suite in [CipherSuite::GcmAes256, CipherSuite::GcmAesXpn128] {
        let last = suite.last_pn().number();
        let (mut tx, mut rx) = Way::Antedated.ends(suite, ENCRYPT, SETTINGS, last - 2);
        assert_eq!((fill(&mut tx), fill(&mut rx)), (3, 3), "{suite}");
        let frames = protected(&mut tx, &sdus(3, 60));
        assert!(
            verify_all(&mut rx, &frames).into_iter().all(|outcome| matches!(outcome, Outcome::Passed(_)))
        );
        assert_eq!((sent(&tx), received(&rx)), ([3, 0, 0], [3, 0, 0]));
        assert_eq!((fill(&mut tx), fill(&mut rx)), (0, 0));
    }
}

/// Run of a SecY with this preparation.
#[derive(Debug, Clone)]
enum Step {
    Idle(usize),
    Send(Vec<usize>),
    /// Of the frames on the wire: how many are delivered, in reverse order, twice, or with a bit turned.
    Deliver(usize, bool, bool, Option<prop::sample::Index>),
    Lose(usize),
    Reserve(u64),
    Rekey,
    Succeed(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let octets = prop_oneof![2..100_usize, 2..1500_usize];
    prop_oneof![
        3 => (0..80_usize).prop_map(Step::Idle),
        4 => proptest::collection::vec(octets, 1..12).prop_map(Step::Send),
        4 => (1..12_usize, any::<bool>(), any::<bool>(), proptest::option::weighted(0.3, any::<prop::sample::Index>()))
            .prop_map(|(count, reverse, twice, flip)| Step::Deliver(count, reverse, twice, flip)),
        1 => (1..6_usize).prop_map(Step::Lose),
        1 => (0..40_u64).prop_map(Step::Reserve),
        1 => Just(Step::Rekey),
        1 => any::<bool>().prop_map(Step::Succeed),
    ]
}

/// Two ends that go one way.
struct Ends {
    way: Way,
    suite: CipherSuite,
    how: Protection,
    settings: Settings,
    number: u8,
    tx: SecY,
    rx: SecY,
    wire: Vec<Vec<u8>>,
}

impl Ends {
    fn new(way: Way, suite: CipherSuite, how: Protection, settings: Settings) -> Self {
        let (mut tx, rx) = way.ends(suite, how, settings, 1);
        tx.retire_transmit(an(0));
        start_sending(&mut tx, way.transmit_sa(suite, how, 0, 1, 50));
        Self { way, suite, how, settings, number: 0, tx, rx, wire: Vec::new() }
    }

    /// All that can be seen of a step.
    fn take(&mut self, step: &Step, number: u64) -> (String, Books, Books) {
        let mut seen = String::new();
        match step {
            Step::Idle(times) => {
                for _ in 0..*times {
                    self.tx.antedate();
                    self.rx.antedate();
                }
            }
            Step::Send(lengths) => {
                let sdus: Vec<_> =
                    lengths.iter().zip(100 * number..).map(|(&octets, n)| sdu(octets, n)).collect();
                let outcomes = protect_all(&mut self.tx, &sdus);
                seen = format!("{outcomes:?}");
                self.wire.extend(outcomes.into_iter().filter_map(|outcome| match outcome {
                    Outcome::Passed(frame) => Some(frame),
                    Outcome::Discarded(_) => None,
                }));
            }
            Step::Deliver(count, reverse, twice, flip) => {
                let mut frames: Vec<_> = self.wire.drain(..self.wire.len().min(*count)).collect();
                if *reverse {
                    frames.reverse();
                }
                if *twice {
                    frames.extend(frames.clone());
                }
                if let (Some(flip), Some(frame)) = (flip, frames.first().cloned()) {
                    let mut forged = frame;
                    let bit = flip.index(8 * forged.len());
                    forged[bit / 8] ^= 1 << (bit % 8);
                    frames.insert(0, forged);
                }
                seen = format!("{:?}", verify_all(&mut self.rx, &frames));
            }
            Step::Lose(count) => drop(self.wire.drain(..self.wire.len().min(*count))),
            Step::Reserve(more) => {
                let next = self.tx.transmit_sas().next().and_then(|sa| sa.pns().next()).map_or(1, Pn::number);
                let reserved = self.tx.reserve_through(an(self.number), pn(next + more));
                seen = format!("{reserved:?}");
            }
            Step::Rekey => {
                let (before, after) = (an(self.number), (self.number + 1) % 4);
                self.number = after;
                self.rx.retire_receive(A, an(after));
                start_receiving(&mut self.rx, A, self.way.receive_sa(self.suite, self.how, after, 1, 64));
                start_sending(&mut self.tx, self.way.transmit_sa(self.suite, self.how, after, 1, 50));
                self.tx.retire_transmit(before);
            }
            Step::Succeed(agreed) => self.succeed(*agreed),
        }
        (seen, without(books(&self.tx)), without(books(&self.rx)))
    }

    /// Other SecYs in the place of both, to which all SAs go on.
    fn succeed(&mut self, agreed: bool) {
        let (mut tx, mut rx) = (SecY::new(A, self.settings), SecY::new(HERE, self.settings));
        rx.install_receive_sc(A).expect("a free SCI");
        let mut receive = Vec::new();
        if !agreed {
            for sa in self.rx.receive_scs().next().expect("one SC").sas() {
                receive.push((A, sa.an()));
                let own = self.way.receive_sa(self.suite, self.how, sa.an().index() as u8, 1, 64);
                start_receiving(&mut rx, A, own);
            }
        }
        let transmit = Some((an(self.number), self.how)).filter(|_| !agreed);
        let carry_over = CarryOver { transmit, receive, all: agreed };
        tx.take_over(&mut self.tx, &carry_over);
        rx.take_over(&mut self.rx, &carry_over);
        (self.tx, self.rx) = (tx, rx);
    }
}

/// Without what tells whether something was ready.
fn without(mut books: Books) -> Books {
    for counters in iter_mut(&mut books.transmit, &mut books.transmit_sas) {
        counters.out_pkts_antedated = 0;
        counters.out_pkts_antedated_in_part = 0;
        counters.out_pkts_not_antedated = 0;
    }
    let of_scs = books.scs.iter_mut().map(|(_, counters)| counters);
    for counters in of_scs.chain(books.receive_sas.iter_mut().map(|(_, _, counters)| counters)) {
        counters.in_pkts_antedated = 0;
        counters.in_pkts_antedated_in_part = 0;
        counters.in_pkts_not_antedated = 0;
    }
    books
}

fn iter_mut<'b>(
    sum: &'b mut secy::TransmitSaCounters,
    sas: &'b mut [(wire::An, secy::TransmitSaCounters)],
) -> impl Iterator<Item = &'b mut secy::TransmitSaCounters> {
    std::iter::once(sum).chain(sas.iter_mut().map(|(_, counters)| counters))
}

fn protections(suite: CipherSuite) -> Vec<Protection> {
    use ConfidentialityOffset::{Fifty, Thirty};
    let offsets = [Protection::Encrypt(Thirty), Protection::Encrypt(Fifty)];
    let mut all = vec![ENCRYPT, Protection::Integrity];
    all.extend(offsets.into_iter().filter(|_| suite.allows_confidentiality_offset()));
    all
}

proptest! {
    #[test]
    fn antedated_or_not_all_is_the_same(
        (suite, how) in proptest::sample::select(vec![
            CipherSuite::GcmAes128,
            CipherSuite::GcmAes256,
            CipherSuite::GcmAesXpn128,
            CipherSuite::GcmAesXpn256,
        ]).prop_flat_map(|suite| (Just(suite), proptest::sample::select(protections(suite)))),
        replay_protect: bool,
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let settings = Settings { replay_protect, ..SETTINGS };
        let [mut ordinary, mut antedated] =
            [Way::Ordinary, Way::Antedated].map(|way| Ends::new(way, suite, how, settings));
        for (step, number) in steps.iter().zip(0..) {
            prop_assert_eq!(antedated.take(step, number), ordinary.take(step, number), "{:?}", step);
        }
        // Whatever happened, each encrypted frame that was sent is counted in one of three ways, or had no text.
        let sum: u64 = sent(&antedated.tx).iter().sum();
        prop_assert!(sum <= antedated.tx.transmit_counters().out_pkts_encrypted);
        prop_assert_eq!(sent(&ordinary.tx), [0; 3]);
        prop_assert_eq!(received(&ordinary.rx), [0; 3]);
    }
}
