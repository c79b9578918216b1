use fieldbus::budget::{LinkRate, Load};
use proptest::prelude::*;

use super::answers::payloads;
use super::*;

fn question(cycle: Duration) -> Question {
    Question {
        budget: Budget {
            cycle: Cycle::new(cycle).unwrap(),
            link: LinkRate::new(100_000_000).unwrap(),
            load: Load::from_millionths(500_000).unwrap(),
        },
        payloads: vec![Payload::MIN, Payload::MAX],
        modes: vec![Protect::Encrypt, Protect::Authenticate],
        suite: CellSuite::GcmAes128,
        relations: None,
        port_time: Duration::ZERO,
        path: None,
        time: Duration::ZERO,
    }
}

/// A payload of which protecting takes so long, and verifying half of it, beside a loop that takes at most `idle`.
fn measured(payload: Payload, p99_9: f64, worst: f64, idle: [f64; 2]) -> Measured {
    let cost = |part: f64| Percentiles {
        p50: 80.0,
        single_p50: 90.0 * part,
        p99_9: p99_9 * part,
        worst: worst * part,
        samples: 1000,
    };
    let [p99_9_ns, worst_ns] = idle;
    Measured {
        payload,
        mode: Protect::Encrypt,
        relations: 57,
        protect: cost(1.0),
        verify: cost(0.5),
        idle_loop: IdleLoop { length_ns: 90.0, p99_9_ns, worst_ns },
    }
}

const QUIET: [f64; 2] = [100.0, 5000.0];
const BUSY: [f64; 2] = [9000.0, 3e6];

fn of_least(question: &Question, p99_9: f64, worst: f64, idle: [f64; 2]) -> ModeAnswer {
    let question = Question { payloads: vec![Payload::MIN], ..question.clone() };
    payloads(&question, vec![measured(Payload::MIN, p99_9, worst, idle)]).remove(0).modes.remove(0)
}

#[test]
fn the_verdict_is_that_of_the_slower_operation_with_the_ports() {
    // t_max is 8771.9 ns, and 57 relations fit; of the millisecond 962,500 ns are left at a p99.9 of 438.5.
    let millisecond = question(Duration::from_millis(1));
    for (p99_9, worst, wanted, port_ns, idle, verdict) in [
        (438.5, 8772.0, None, 0, QUIET, Verdict::Fits),
        (438.5, 962_000.0, None, 0, QUIET, Verdict::Fits),
        (438.5, 963_000.0, None, 0, QUIET, Verdict::TooBusy),
        (438.5, 3.5e6, None, 0, BUSY, Verdict::TooBusy),
        (8771.0, 9999.0, None, 0, QUIET, Verdict::Fits),
        (8772.0, 9999.0, None, 0, QUIET, Verdict::TooSlow),
        (8772.0, 9999.0, None, 0, BUSY, Verdict::TooBusy),
        // The loop was held up, though not once in a thousand times.
        (8772.0, 9999.0, None, 0, [100.0, 9000.0], Verdict::TooBusy),
        (438.5, 500.0, None, 8500, [100.0, 250.0], Verdict::TooSlow),
        // A frame that takes longer than it may in the middle is too slow, whatever else goes on.
        (438.5, 500.0, None, 8700, BUSY, Verdict::TooSlow),
        (438.5, 500.0, Some(57), 0, QUIET, Verdict::Fits),
        (438.5, 500.0, Some(58), 0, QUIET, Verdict::TooManyRelations),
    ] {
        let question =
            Question { relations: wanted, port_time: Duration::from_nanos(port_ns), ..millisecond.clone() };
        assert_eq!(
            of_least(&question, p99_9, worst, idle).verdict,
            verdict,
            "{p99_9} {worst} {wanted:?} {port_ns} {idle:?}"
        );
    }
    let answer = of_least(&millisecond, 438.596_491, 500.0, QUIET);
    assert!((answer.headroom.unwrap() - 20.0).abs() < 0.001, "{answer:?}");
    // 57 frames out at 438.6 ns and 57 in at 219.3.
    assert!((answer.core_share.unwrap() - 57.0 * 1.5 * 438.596_491 / 1e6).abs() < 1e-9);
    assert!((answer.slack_us.unwrap() - 962.5).abs() < 1e-6, "{answer:?}");
    let half = of_least(&Question { relations: Some(19), ..millisecond }, 438.596_491, 500.0, QUIET);
    assert!(
        (half.core_share.unwrap() * 3.0 - answer.core_share.unwrap()).abs() < 1e-9,
        "of those that are to be"
    );
}

#[test]
fn between_plants_uplink_and_path_have_their_part() {
    // Half of 10 Mbit/s carries 7 packets of 166 octets in two milliseconds; the link carries 114 relations.
    let path = Path {
        delay: Duration::from_millis(12),
        jitter: Duration::from_millis(2),
        data_hold: 3,
        uplink: LinkRate::new(10_000_000).unwrap(),
    };
    let between = Question { path: Some(path), ..question(Duration::from_millis(2)) };
    for (wanted, uplink, verdict) in [
        (None, 10_000_000, Verdict::Fits),
        (Some(7), 10_000_000, Verdict::Fits),
        (Some(8), 10_000_000, Verdict::UplinkTooSlow),
        (Some(115), 10_000_000, Verdict::TooManyRelations),
        (None, 1_000_000, Verdict::UplinkTooSlow),
    ] {
        let path = Path { uplink: LinkRate::new(uplink).unwrap(), ..path };
        let question = Question { relations: wanted, path: Some(path), ..between.clone() };
        let answer = of_least(&question, 438.5, 500.0, QUIET);
        assert_eq!(answer.verdict, verdict, "{wanted:?} {uplink}");
    }
    let question = Question { payloads: vec![Payload::MIN], time: Duration::from_millis(20), ..between };
    let asked = |jitter_ms| {
        let path = Path { jitter: Duration::from_millis(jitter_ms), ..path };
        answer(&Question { path: Some(path), ..question.clone() }, &mut |_| {})
    };
    for (jitter_ms, losses, words) in [
        (
            2,
            Some(1),
            "uplink 10 Mbit/s, data up to 14 ms old; devices that wait for 3 cycles bear the loss of 1 in a row",
        ),
        (3, Some(0), "data up to 15 ms old; one lost frame stops devices that wait for 3 cycles"),
        (5, None, "data up to 17 ms old; its jitter alone stops devices that wait for 3 cycles"),
    ] {
        let answer = asked(jitter_ms);
        let path = answer.path.unwrap();
        assert_eq!((path.losses_in_a_row, path.fits), (losses, losses == Some(1)));
        assert!(answer.to_string().contains(words), "{answer}");
        let stops = "verdict: the path between the plants does not fit the cycle";
        assert_eq!(answer.to_string().contains(stops), !path.fits, "{answer}");
        assert!(path.fits || answer.verdict == Whole::DoesNotFit);
        assert!(answer.cycles.iter().all(|cycle| cycle.cycle_us != 2000.0 || cycle.link_relations <= 7));
    }
}

#[test]
fn a_spell_makes_no_payload_slower_than_a_longer_one() {
    let lengths = [44, 200, 400, 1444].map(|octets| Payload::new(octets).unwrap());
    let question = Question { payloads: lengths.to_vec(), ..question(Duration::from_millis(1)) };
    let rows = lengths.iter().zip([400.0, 90_000.0, 500.0, 900_000.0]);
    let rows = rows.map(|(payload, took)| measured(*payload, took, took, QUIET)).collect();
    let answers = payloads(&question, rows);
    let took: Vec<f64> = answers.iter().map(|answer| answer.modes[0].protect.p99_9_ns).collect();
    // The second is bounded by the third, the last by the octets of the third.
    assert_eq!(took[..3], [400.0, 500.0, 500.0]);
    assert!((took[3] - 500.0 * 1509.0 / 465.0).abs() < 1e-6, "{took:?}");
    assert!(answers.iter().all(|answer| answer.modes[0].verdict == Verdict::Fits), "{answers:?}");
}

#[test]
fn one_verdict_is_on_all() {
    use Verdict::{Fits, NoRelation, TooBusy, TooManyRelations, TooSlow, UplinkTooSlow};
    for (verdicts, whole) in [
        (&[][..], Whole::Fits),
        (&[Fits, Fits], Whole::Fits),
        (&[Fits, TooBusy], Whole::TooBusy),
        (&[TooBusy, TooSlow], Whole::DoesNotFit),
        (&[TooManyRelations, TooBusy, Fits], Whole::DoesNotFit),
        (&[NoRelation], Whole::DoesNotFit),
        (&[UplinkTooSlow, Fits], Whole::DoesNotFit),
    ] {
        assert_eq!(Whole::of(verdicts.iter().copied()), whole, "{verdicts:?}");
    }
}

proptest! {
    /// Whatever was measured: where a payload fits with room to spare, a longer one that the link carries is not too slow;
    /// nothing fits of which a frame was late for its cycle; and a verdict of too busy has something that was.
    #[test]
    fn verdicts_do_not_contradict_each_other(
        took in proptest::collection::vec((100.0..1e6_f64, 1.0..1e4_f64, 100.0..1e5_f64), 8),
        cycle_us in 125_u64..4000,
    ) {
        let lengths: Vec<_> = (0..8).map(|step| Payload::new(44 + 200 * step).unwrap()).collect();
        let question =
            Question { payloads: lengths.clone(), ..question(Duration::from_micros(cycle_us)) };
        let rows = lengths.iter().zip(&took);
        let rows = rows.map(|(payload, (took, spike, idle))| {
            measured(*payload, *took, took * spike, [*idle, idle * spike])
        });
        let answers = payloads(&question, rows.collect());
        for (number, answer) in answers.iter().enumerate() {
            let mode = &answer.modes[0];
            let slack = mode.slack_us.unwrap_or_default() * 1e3;
            match mode.verdict {
                Verdict::Fits => {
                    prop_assert!(mode.protect.worst_ns <= slack && mode.headroom.unwrap() >= 1.0);
                }
                Verdict::TooBusy => prop_assert!(
                    mode.protect.worst_ns > slack
                        || mode.idle_loop.worst_ns > answer.t_max_us.unwrap() * 1e3
                ),
                _ => {}
            }
            if mode.headroom.is_some_and(|headroom| headroom >= 2.0) {
                let longer = answers[number..].iter().filter(|longer| longer.relations > 0);
                for longer in longer {
                    prop_assert!(longer.modes[0].verdict != Verdict::TooSlow, "{:?}", answers);
                }
            }
        }
    }
}

#[test]
fn where_no_relation_fits_it_says_which_cycle_carries_one() {
    let answer = answer(&question(Cycle::SHORTEST.time()), &mut |_| {});
    let [least, most] = &answer.payloads[..] else { panic!("{answer:?}") };
    assert_eq!((least.relations, least.t_max_us), (1, Some(15.625)));
    assert_eq!((most.relations, most.t_max_us, most.shortest_cycle_us), (0, None, Some(241.44)));
    assert!(most.modes.iter().all(|mode| mode.verdict == Verdict::NoRelation && mode.headroom.is_none()));
    assert!(!answer.fits, "not all of it");
    let text = answer.to_string();
    assert!(text.contains("the link carries none; a cycle of 241.44 us carries one"), "{text}");
    assert!(
        text.contains("cycle 31.25 us, link 100 Mbit/s, of which 50 % for cyclic frames; AES-GCM-128"),
        "{text}"
    );
}

#[test]
fn the_answer_has_every_payload_mode_and_cycle() {
    let mut told = Vec::new();
    let question = question(Duration::from_millis(1));
    let answer = answer(&question, &mut |line| told.push(line.to_string()));
    assert_eq!(told.len(), 4);
    assert_eq!(told[0], "44 octets, encrypt, 57 relations");
    let numbers: Vec<_> =
        answer.payloads.iter().map(|payload| (payload.line_octets, payload.relations)).collect();
    assert_eq!(numbers, [(109, 57), (1509, 4)]);
    for mode in answer.payloads.iter().flat_map(|payload| &payload.modes) {
        for cost in [mode.protect, mode.verify] {
            assert!(cost.p50_ns > 0.0 && cost.p99_9_ns > 0.0 && cost.worst_ns >= cost.p99_9_ns, "{cost:?}");
            assert!(cost.samples >= TURN as u64);
        }
    }
    assert_eq!(answer.cycles.len(), 2 * 2 * 15);
    for CycleAnswer { relations, link_relations, cpu_relations, limit, .. } in &answer.cycles {
        assert_eq!(*relations, (*link_relations).min(*cpu_relations).min(1024));
        let named = match limit {
            Limit::Link => link_relations,
            Limit::Cpu => cpu_relations,
            Limit::Cell => &1024,
        };
        assert_eq!(relations, named);
    }
    let text = answer.to_string();
    assert_eq!(
        text.lines().filter(|line| line.starts_with("     44    109     57       8.77  ")).count(),
        2,
        "{text}"
    );
    let limits = ["link (CPU ", "CPU (link ", "cell (link "];
    let limited = |line: &&str| limits.iter().any(|limit| line.contains(limit));
    assert_eq!(text.lines().filter(limited).count(), 15, "{text}");

    let document: serde_json::Value = serde_json::to_value(&answer).unwrap();
    assert_eq!(document["payloads"][1]["t_max_us"], 125.0);
    assert_eq!(document["cycles"][5]["link_relations"], 57);
    let read: Answer = serde_json::from_value(document).unwrap();
    assert_eq!(read, answer);
}
