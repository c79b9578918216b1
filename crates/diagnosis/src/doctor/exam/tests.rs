//! Two examinations over a link in memory, on a virtual clock: each thing that a path may do is told with its figures.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::keys::MacKey;
use super::super::targets::{self, Meaning};
use super::*;
use config::key_file::NamedCak;
use wire::Ckn;

const STEP: Duration = Duration::from_millis(1);

fn sci(last: u8) -> Sci {
    Sci::new(mac(last), 1)
}

const fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

fn key(of: u8, octet: u8) -> MacKey {
    MacKey::derive(&[octet; 16], sci(of))
}

/// Station `own` of 1 and 2; keys 11 and 12.
fn setup(own: u8) -> Setup {
    let peer = 3 - own;
    Setup {
        own: Party { sci: sci(own), keys: vec![key(own, 10 + own)] },
        peers: Peers::Known(vec![Party { sci: sci(peer), keys: vec![key(peer, 10 + peer)] }]),
        mac: mac(own),
        session: u64::from(own) + 70,
        mtu: 1532,
        probes: 2000,
        pause: Duration::from_millis(2),
        patience: Duration::from_secs(60),
        facts: Status { suite: [own; 8], ..Status::default() },
    }
}

/// Effects of a link on frames of one direction.
struct Wire {
    /// Shares of 1000.
    loss: u64,
    duplicate: u64,
    spoil: u64,
    late: u64,
    mtu: usize,
    /// Whether it lets a frame pass.
    passes: fn(&[u8]) -> bool,
    changes: fn(&mut Vec<u8>),
    state: u64,
}

impl Wire {
    fn good() -> Self {
        Self {
            loss: 0,
            duplicate: 0,
            spoil: 0,
            late: 0,
            mtu: 9000,
            passes: |_| true,
            changes: |_| (),
            state: 1,
        }
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn happens(&mut self, share: u64) -> bool {
        self.draw() % 1000 < share
    }

    /// Copies of a frame that arrive, each with its delay in steps.
    fn carry(&mut self, mut frame: Vec<u8>) -> Vec<(u32, Vec<u8>)> {
        let tags = if frame[12..14] == [0x81, 0] { 4 } else { 0 };
        if !(self.passes)(&frame) || frame.len() > self.mtu + 14 + tags || self.happens(self.loss) {
            return Vec::new();
        }
        (self.changes)(&mut frame);
        if self.happens(self.spoil) {
            // Behind the signature: a frame that is not the doctor's any more is merely lost.
            let bit = (26 * 8 + self.draw() as usize % ((frame.len() - 26) * 8)) as u32;
            frame[bit as usize / 8] ^= 1 << (bit % 8);
        }
        let delay = if self.happens(self.late) { 1 + 20 } else { 1 };
        let copies = 1 + usize::from(self.happens(self.duplicate));
        vec![(delay, frame); copies]
    }
}

type Under = Reverse<(Duration, u64, usize, Vec<u8>)>;

struct Lab {
    exams: [Exam; 2],
    wires: [Wire; 2],
    under_way: BinaryHeap<Under>,
    sent: [Vec<(Duration, Vec<u8>)>; 2],
    now: Duration,
    count: u64,
}

impl Lab {
    fn new(setups: [Setup; 2], wires: [Wire; 2]) -> Self {
        let exams = setups.map(|setup| Exam::new(setup, Duration::ZERO));
        let (under_way, sent) = (BinaryHeap::new(), [Vec::new(), Vec::new()]);
        Self { exams, wires, under_way, sent, now: Duration::ZERO, count: 0 }
    }

    /// Both ways alike.
    fn alike(wire: fn() -> Wire) -> Self {
        Self::new([setup(1), setup(2)], [wire(), Wire { state: 2, ..wire() }])
    }

    /// Until both have an outcome; the second starts `later`.
    fn run(mut self, later: Duration) -> ([Outcome; 2], Self) {
        let mut outcomes = [None, None];
        while outcomes.iter().any(Option::is_none) {
            assert!(self.now < Duration::from_secs(200), "no end: {outcomes:?}");
            while self.under_way.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                let Some(Reverse((_, _, to, frame))) = self.under_way.pop() else { break };
                if (to == 0 || self.now >= later) && outcomes[to].is_none() {
                    self.exams[to].handle_frame(self.now, &frame);
                }
            }
            for (end, outcome) in outcomes.iter_mut().enumerate() {
                if (end == 1 && self.now < later) || outcome.is_some() {
                    continue;
                }
                while let Some(frame) = self.exams[end].poll_transmit(self.now) {
                    self.sent[end].push((self.now, frame.clone()));
                    for (delay, frame) in self.wires[end].carry(frame) {
                        self.count += 1;
                        self.under_way.push(Reverse((self.now + delay * STEP, self.count, 1 - end, frame)));
                    }
                }
                assert!(
                    self.exams[end].poll_timeout() > self.now,
                    "poll_transmit() would be due at once, over and over"
                );
                *outcome = self.exams[end].poll_outcome(self.now);
            }
            self.now += STEP;
        }
        (outcomes.map(|outcome| outcome.expect("both ended")), self)
    }
}

fn all_targets() -> u16 {
    ((1_u32 << TARGETS.len()) - 1) as u16
}

#[test]
fn a_good_path_is_found_good_whoever_starts_first() {
    for later in [0, 150, 30_000] {
        let (outcomes, lab) = Lab::alike(Wire::good).run(Duration::from_millis(later));
        for (end, outcome) in outcomes.iter().enumerate() {
            assert_eq!((outcome.end, outcome.peer), (End::Examined, Some(sci(2 - end as u8))), "{outcome:?}");
            assert_eq!((outcome.probed.tried, outcome.probed.crossed), (all_targets(), all_targets()));
            assert_eq!((outcome.probed.largest, outcome.probed.tag), (Some(1532), TagFate::Kept));
            assert_eq!((outcome.probed.sent, outcome.theirs.sent), (2000, 2000));
            let clean = ReceiveRecord { received: 2000, ..ReceiveRecord::default() };
            assert_eq!((outcome.record, outcome.theirs.record), (clean, clean));
            assert_eq!(outcome.theirs.suite, [2 - end as u8; 8]);
        }
        let longest = lab.sent.iter().flatten().map(|(_, frame)| frame.len()).max();
        assert_eq!(longest, Some(1532 + 14));
    }
}

#[test]
fn traffic_is_bounded_by_what_was_asked_for() {
    let slow = |own| Setup { pause: Duration::from_millis(10), probes: 500, ..setup(own) };
    let (_, lab) = Lab::new([slow(1), slow(2)], [Wire::good(), Wire::good()]).run(Duration::ZERO);
    for sent in &lab.sent {
        for (at, _) in sent {
            let second =
                sent.iter().filter(|(other, _)| *other >= *at && *other < *at + Duration::from_secs(1));
            // Own probes, five statuses, and echoes of the other one's probes.
            assert!(second.count() <= 100 + 6 + 100, "at {at:?}");
        }
    }
}

#[test]
fn the_largest_frame_that_crosses_is_found_to_the_octet() {
    for mtu in [200, 1499, 1500, 1501, 1531] {
        let mut lab = Lab::alike(Wire::good);
        lab.wires[0].mtu = mtu;
        let (outcomes, _) = lab.run(Duration::ZERO);
        assert_eq!(outcomes[0].probed.largest, Some(mtu as u16));
        assert_eq!(outcomes[1].probed.largest, Some(1532));
        assert_eq!((outcomes[0].theirs.largest, outcomes[1].theirs.largest), (1532, mtu as u16));
        assert_eq!(outcomes[1].record.received, 2000, "the stream has no frame that cannot cross");
    }
}

#[test]
fn a_bad_path_is_told_with_its_figures() {
    let bad = || Wire { loss: 100, duplicate: 50, spoil: 20, late: 30, mtu: 1500, ..Wire::good() };
    let (outcomes, _) = Lab::alike(bad).run(Duration::from_secs(1));
    for outcome in &outcomes {
        assert_eq!(outcome.end, End::Examined);
        assert_eq!((outcome.probed.crossed, outcome.probed.largest), (all_targets(), Some(1500)));
        let record = outcome.theirs.record;
        // 10 % lost, 2 % of the rest damaged.
        assert!((1690..1840).contains(&record.received), "{record:?}");
        assert!((50..130).contains(&record.duplicates), "{record:?}");
        assert!((25..90).contains(&record.reordered) && record.displacement <= 10, "{record:?}");
        assert!((20..120).contains(&record.damaged), "{record:?}");
        assert_eq!((record.tagged, record.looped), (0, 0));
    }
}

#[test]
fn a_switch_that_keeps_reserved_addresses_is_seen_through() {
    // IEEE 802.1Q: nothing to 01-80-C2-00-00-00 to -0F.
    let switch = || Wire {
        passes: |frame| !(frame.starts_with(&[0x01, 0x80, 0xc2, 0, 0]) && frame[5] < 0x10),
        ..Wire::good()
    };
    let (outcomes, _) = Lab::alike(switch).run(Duration::ZERO);
    let eaten: u16 = targets::of(Meaning::Reserved).map(|(bit, _)| bit).sum::<u16>() | 0b100_1110_0000_0000;
    // Key agreement's: all but 01-80-C2-00-00-1F, the other box's own and broadcast.
    for outcome in &outcomes {
        assert_eq!((outcome.end, outcome.probed.largest), (End::Examined, Some(1532)));
        assert_eq!(outcome.probed.crossed, all_targets() & !eaten);
    }
}

#[test]
fn a_switch_that_takes_eapol_macsec_or_tags_is_seen_through() {
    let switch = || Wire { passes: |frame| frame[12..14] == [0x88, 0xb5], ..Wire::good() };
    let (outcomes, _) = Lab::alike(switch).run(Duration::ZERO);
    assert_eq!((outcomes[0].probed.crossed, outcomes[0].probed.tag), (0, TagFate::Dropped));

    let untagging = || Wire {
        changes: |frame| {
            if frame[12..14] == [0x81, 0] {
                frame.drain(12..16);
            }
        },
        ..Wire::good()
    };
    let (outcomes, _) = Lab::alike(untagging).run(Duration::ZERO);
    assert_eq!(outcomes[0].probed.tag, TagFate::TakenOff);

    let tagging = || Wire {
        changes: |frame| {
            frame.splice(12..12, [0x81, 0, 0, 7]);
        },
        ..Wire::good()
    };
    let (outcomes, _) = Lab::alike(tagging).run(Duration::ZERO);
    assert_eq!(outcomes[1].end, End::Examined);
    assert!(outcomes[1].record.tagged > 10, "{:?}", outcomes[1].record);
}

/// A switch that drops the local experimental EtherType: cells' frames do not cross it either.
#[test]
fn a_switch_that_drops_the_experimental_ethertype_leaves_nobody_to_be_heard() {
    const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];
    let drops = || Wire { passes: |frame| frame[12..14] != EXPERIMENTAL, ..Wire::good() };
    let (outcomes, lab) = Lab::alike(drops).run(Duration::ZERO);
    for outcome in &outcomes {
        assert_eq!((outcome.end, outcome.peer, outcome.probed.crossed), (End::Unanswered, None, 0));
        assert_eq!(outcome.rejections, Rejections::default(), "nothing is heard, so nothing is doubted");
    }
    assert!(lab.sent.iter().flatten().all(|(_, frame)| frame[12..14] == EXPERIMENTAL), "they call in it");

    // One way only: who is heard knows that the other one is deaf.
    let mut lab = Lab::alike(Wire::good);
    lab.wires[0].passes = |frame| frame[12..14] != EXPERIMENTAL;
    let (outcomes, _) = lab.run(Duration::ZERO);
    assert_eq!(outcomes.each_ref().map(|outcome| outcome.end), [End::Unanswered; 2]);
    assert_eq!(outcomes.map(|outcome| outcome.rejections.deaf), [Some(sci(2)), None]);

    // With the tag of cyclic frames alone: only what has one is lost.
    let untagged = || Wire { passes: |frame| frame[12..14] != [0x81, 0], ..Wire::good() };
    let (outcomes, _) = Lab::alike(untagged).run(Duration::ZERO);
    for outcome in &outcomes {
        assert_eq!((outcome.end, outcome.probed.tag), (End::Examined, TagFate::Dropped));
        assert_eq!(outcome.probed.crossed, all_targets());
    }
}

#[test]
fn another_key_is_told_from_no_answer() {
    // B has made a key of its own and A has an old copy of it; B's copy of A's is right.
    let mut b = setup(2);
    b.own.keys = vec![key(2, 99)];
    let (outcomes, lab) = Lab::new([setup(1), b], [Wire::good(), Wire::good()]).run(Duration::from_secs(5));
    let [a, b] = outcomes.map(|outcome| (outcome.end, outcome.rejections));
    assert_eq!((a.0, b.0), (End::Unanswered, End::Unanswered));
    assert!(a.1.misfits > 10 && a.1.misfit == Some(sci(2)) && a.1.deaf.is_none(), "{a:?}");
    assert!(b.1.deaf == Some(sci(1)) && b.1.refused && b.1.misfits == 0, "{b:?}");
    assert!(lab.now < Duration::from_secs(20), "told soon");

    // Nobody there.
    let nobody = || Wire { passes: |_| false, ..Wire::good() };
    let (outcomes, lab) = Lab::alike(nobody).run(Duration::ZERO);
    assert!(outcomes.iter().all(|outcome| outcome.end == End::Unanswered));
    assert_eq!(outcomes[0].rejections, Rejections::default());
    assert!(lab.now >= Duration::from_secs(60));

    // One way only.
    let mut lab = Lab::alike(Wire::good);
    lab.wires[0].passes = |_| false;
    let (outcomes, _) = lab.run(Duration::ZERO);
    assert_eq!((outcomes[0].end, outcomes[0].rejections.deaf), (End::Unanswered, Some(sci(2))));
    assert_eq!((outcomes[1].rejections.deaf, outcomes[0].rejections.refused), (None, false));
}

#[test]
fn who_has_the_cak_is_of_the_group_whatever_his_sci() {
    let cak = |octet| NamedCak::new(Ckn::new(b"line").unwrap(), &[octet; 16]).unwrap();
    let of = |own: u8, caks: &[u8]| {
        let keys = caks.iter().map(|octet| MacKey::derive(&[*octet; 16], sci(own))).collect();
        let peers = Peers::Group(caks.iter().map(|octet| cak(*octet)).collect());
        Setup { own: Party { sci: sci(own), keys }, peers, ..setup(own) }
    };
    let meet = |a: &[u8], b: &[u8]| {
        let (outcomes, _) = Lab::new([of(1, a), of(2, b)], [Wire::good(), Wire::good()]).run(Duration::ZERO);
        outcomes.map(|outcome| (outcome.end, outcome.peer, outcome.rejections))
    };
    assert_eq!(meet(&[7], &[7]).map(|end| end.1), [Some(sci(2)), Some(sci(1))]);
    let [a, b] = meet(&[7], &[8]);
    assert_eq!((a.0, a.2.misfit, b.2.misfit), (End::Unanswered, Some(sci(2)), Some(sci(1))));
    // B has only what A falls back to.
    let [a, b] = meet(&[7, 8], &[8]);
    assert_eq!((a.0, a.2.deaf, a.2.refused), (End::Unanswered, Some(sci(2)), true));
    assert_eq!((b.0, b.2.misfit), (End::Unanswered, Some(sci(1))));
}

#[test]
fn the_same_configuration_on_both_boxes_and_other_mix_ups() {
    let twin = Setup { mac: mac(2), session: 5, ..setup(1) };
    let (outcomes, _) = Lab::new([setup(1), twin], [Wire::good(), Wire::good()]).run(Duration::ZERO);
    assert!(outcomes.iter().all(|outcome| outcome.rejections.own_sci == Some(true)));
    let mut stranger = setup(2);
    stranger.own.sci = sci(9);
    let (outcomes, _) = Lab::new([setup(1), stranger], [Wire::good(), Wire::good()]).run(Duration::ZERO);
    assert_eq!((outcomes[0].end, outcomes[0].rejections.stranger), (End::Unanswered, Some(sci(9))));
}

#[test]
fn what_was_recorded_earlier_is_answered_by_nobody_and_counted_nowhere() {
    let (_, earlier) = Lab::alike(Wire::good).run(Duration::ZERO);
    let mut exam = Exam::new(Setup { session: 1000, ..setup(1) }, Duration::ZERO);
    let mut now = Duration::ZERO;
    for (at, frame) in &earlier.sent[1] {
        now = *at;
        exam.handle_frame(now, frame);
        while let Some(frame) = exam.poll_transmit(now) {
            let sent = Frame::parse(&frame).map(|received| received.frame.body);
            assert!(matches!(sent, Ok(Body::Status(_))), "{sent:?}");
        }
        assert!(!exam.is_met());
    }
    // The real one still gets through.
    let mut frame = Frame {
        to: mac(1),
        from: mac(2),
        envelope: Envelope::Experiment,
        sender: sci(2),
        session: 7,
        receiver: 1000,
        number: 0,
        body: Body::Status(Status::default()),
    };
    exam.handle_frame(now, &frame.encode(0, None, &key(2, 12)));
    assert!(exam.is_met());
    // And from now on a changed frame, or one to another session, is no probe.
    frame.body = Body::Probe(Purpose::Stream);
    let good = frame.encode(0, None, &key(2, 12));
    let forged = frame.encode(0, None, &key(2, 13));
    frame.receiver = 71;
    let stale = frame.encode(0, None, &key(2, 12));
    for octets in [&forged, &stale, &good, &good] {
        exam.handle_frame(now, octets);
    }
    assert_eq!((exam.tally.received, exam.tally.duplicates, exam.rejections.misfits), (1, 1, 1));
}

#[test]
fn a_loop_and_an_end_that_falls_silent() {
    let mut exam = Exam::new(setup(1), Duration::ZERO);
    let own = exam.poll_transmit(Duration::ZERO).expect("a status at once");
    exam.handle_frame(Duration::ZERO, &own);
    assert_eq!((exam.tally.looped, exam.rejections.own_sci), (1, None));
    let hello = Frame {
        to: mac(1),
        from: mac(2),
        envelope: Envelope::Experiment,
        sender: sci(2),
        session: 7,
        receiver: 71,
        number: 0,
        body: Body::Status(Status::default()),
    };
    exam.handle_frame(Duration::ZERO, &hello.encode(0, None, &key(2, 12)));
    let mut now = Duration::ZERO;
    let outcome = loop {
        now += Duration::from_millis(10);
        while exam.poll_transmit(now).is_some() {}
        if let Some(outcome) = exam.poll_outcome(now) {
            break outcome;
        }
        assert!(now < Duration::from_secs(30));
    };
    assert_eq!(outcome.end, End::Lost);
}
