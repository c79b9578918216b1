use std::fs;

use fieldbus::budget::{LinkRate, Load};

use super::*;
use crate::test_directory::TestDirectory;

fn question(cycle: Duration) -> Question {
    Question {
        budget: Budget {
            cycle: Cycle::new(cycle).unwrap(),
            link: LinkRate::new(100_000_000).unwrap(),
            load: Load::from_millionths(500_000).unwrap(),
        },
        payloads: vec![Payload::LEAST, Payload::MOST],
        modes: vec![Protect::Encrypt, Protect::Authenticate],
        key_bits: KeyBits::Bits128,
        relations: None,
        port_time: Duration::ZERO,
        time: Duration::ZERO,
    }
}

fn costs(p99_9_ns: f64, worst_ns: f64) -> Costs {
    let cost = |part: f64| Cost {
        p50_ns: 80.0,
        p99_9_ns: p99_9_ns * part,
        worst_ns: worst_ns * part,
        samples: 1000,
    };
    Costs { protect: cost(1.0), verify: cost(0.5) }
}

fn judged(question: &Question, costs: Costs) -> ModeAnswer {
    let payload = Payload::LEAST;
    let (relations, longest) = (question.budget.relations(payload), question.budget.longest(payload));
    judge_mode(question, longest, relations, 57, "encrypt", costs)
}

#[test]
fn the_verdict_is_that_of_the_slower_operation_with_the_ports() {
    // t_max is 8771.9 ns, and 57 relations fit.
    let millisecond = question(Duration::from_millis(1));
    for (p99_9, worst, wanted, port_ns, verdict) in [
        (438.5, 8771.0, None, 0, Verdict::Fits),
        (438.5, 8772.0, None, 0, Verdict::FitsButWorst),
        (8771.0, 9999.0, None, 0, Verdict::FitsButWorst),
        (8772.0, 9999.0, None, 0, Verdict::TooSlow),
        (438.5, 500.0, None, 8500, Verdict::TooSlow),
        (438.5, 500.0, Some(57), 0, Verdict::Fits),
        (438.5, 500.0, Some(58), 0, Verdict::TooManyRelations),
    ] {
        let question =
            Question { relations: wanted, port_time: Duration::from_nanos(port_ns), ..millisecond.clone() };
        assert_eq!(
            judged(&question, costs(p99_9, worst)).verdict,
            verdict,
            "{p99_9} {worst} {wanted:?} {port_ns}"
        );
    }
    let answer = judged(&millisecond, costs(438.596_491, 500.0));
    assert!((answer.headroom.unwrap() - 20.0).abs() < 0.001, "{answer:?}");
    // 57 frames out at 438.6 ns and 57 in at 219.3.
    assert!((answer.core_share.unwrap() - 57.0 * 1.5 * 438.596_491 / 1e6).abs() < 1e-9);
    let half = judged(&Question { relations: Some(19), ..millisecond }, costs(438.596_491, 500.0));
    assert!(
        (half.core_share.unwrap() * 3.0 - answer.core_share.unwrap()).abs() < 1e-9,
        "of those that are to be"
    );
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

    let directory = TestDirectory::new("plan");
    let file = directory.path().join("budget.svg");
    draw(&question, &answer, &file).unwrap();
    let svg = fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for words in
        ["t_max: what it may take", "encrypt, p99.9", "CPU, 1444 octets, authenticate", "link, 44 octets"]
    {
        assert!(svg.contains(words), "{words}");
    }
    assert!(draw(&question, &answer, &directory.path().join("none/budget.svg")).is_err());
}
