use super::*;

/// A link whose counters rise by so much in each second: sent, valid, not valid.
fn after(seconds: &[(u64, u64, u64)]) -> RecentTraffic {
    let (mut lately, mut counted) = (RecentCounters::default(), Counted::default());
    counted.scs.insert("peer".into(), CountedSc::default());
    lately.look(Duration::ZERO, counted.clone());
    let mut now = Duration::ZERO;
    for (sent, valid, not_valid) in seconds {
        now += Duration::from_secs(1);
        counted.sent += sent;
        let sc = counted.scs.get_mut("peer").unwrap();
        sc.valid += valid;
        sc.not_valid += not_valid;
        *counted.discards.entry("InPktsNotValid".into()).or_default() += not_valid;
        lately.look(now, counted.clone());
    }
    lately.traffic(now)
}

#[test]
fn the_last_valid_frame_is_known_to_the_next_program() {
    let (mut lately, mut counted) = (RecentCounters::default(), Counted::default());
    counted.scs.insert("peer".into(), CountedSc::default());
    lately.look(Duration::ZERO, counted.clone());
    counted.scs.get_mut("peer").unwrap().valid = 5;
    lately.look(Duration::from_secs(7), counted.clone());
    let document = serde_json::to_string(&lately.last_valid()).unwrap();
    let mut next = RecentCounters::going_on(serde_json::from_str(&document).unwrap());
    for look in 0..3 {
        let traffic = next.traffic(Duration::from_secs(9));
        assert_eq!(traffic.valid, Some(Duration::from_secs(2)), "look {look}");
        assert_eq!(traffic.scs[0].valid, Some(Duration::from_secs(2)), "look {look}");
        next.look(Duration::from_secs(9), counted.clone());
    }
    assert_eq!(RecentCounters::going_on(LastValid::default()).traffic(Duration::ZERO).valid, None);
}

fn repeated(times: usize, second: (u64, u64, u64)) -> Vec<(u64, u64, u64)> {
    vec![second; times]
}

#[test]
fn the_end_of_a_conversation_waits_for_no_answer() {
    let talk = repeated(10, (5, 5, 0));
    let quiet = |end: &[(u64, u64, u64)]| [&talk[..], end, &repeated(20, (0, 0, 0))].concat();
    assert_eq!(after(&quiet(&[(3, 0, 0)])).unanswered, None, "the last word");
    let later = [repeated(8, (0, 0, 0)), vec![(2, 0, 0)]].concat();
    assert_eq!(after(&quiet(&later)).unanswered, Some(2), "a word into silence");
    let answered = [later, vec![(0, 1, 0)]].concat();
    assert_eq!(after(&quiet(&answered)).unanswered, None);
    assert_eq!(after(&quiet(&[])).valid, Some(Duration::from_secs(20)));
}

#[test]
fn silence_is_told_after_some_seconds_and_forgotten_with_the_last_that_was_sent() {
    assert_eq!(after(&repeated(5, (1, 0, 0))).unanswered, None);
    assert_eq!(after(&repeated(6, (1, 0, 0))).unanswered, Some(6));
    let long = [repeated(6, (1, 0, 0)), repeated(301, (0, 0, 0))].concat();
    assert_eq!(after(&long).unanswered, None);
}

/// Each receive SC by itself: a valid frame of one peer says nothing of another.
#[test]
fn a_silent_peer_is_seen_beside_one_that_answers() {
    let (mut lately, mut counted) = (RecentCounters::default(), Counted::default());
    for peer in ["there", "gone", "mute", "express"] {
        counted.scs.insert(peer.into(), CountedSc { express: peer == "express", ..CountedSc::default() });
    }
    let mut now = Duration::ZERO;
    lately.look(now, counted.clone());
    let mut after = |seconds: u64, answers: &[&str], sends: bool| {
        for _ in 0..seconds {
            now += Duration::from_secs(1);
            for (name, sc) in &mut counted.scs {
                sc.sent += u64::from(sends);
                sc.valid += u64::from(answers.contains(&name.as_str()));
            }
            counted.sent += u64::from(sends);
            lately.look(now, counted.clone());
        }
        let traffic = lately.traffic(now);
        assert_eq!(traffic.unanswered, None, "somebody answers, or nobody is asked");
        let silent = traffic.scs.into_iter().filter(|sc| sc.unanswered.is_some());
        silent.map(|sc| (sc.sci, sc.valid.map(|ago| ago.as_secs()))).collect::<Vec<_>>()
    };
    assert_eq!(after(30, &["there", "gone"], true), []);
    let mute = ("mute".to_owned(), None);
    assert_eq!(after(1, &["there", "gone"], true), [("express".to_owned(), None), mute.clone()]);
    assert_eq!(after(270, &["there", "gone", "express"], true), [mute]);
    // Machines that say something each minute, and others that talk with each other meanwhile.
    let all = ["there", "gone", "mute", "express"];
    assert_eq!(after(1, &all, true), []);
    assert_eq!(after(34, &["there", "express"], true), []);
    assert_eq!(after(25, &["there", "express"], true), [("gone".to_owned(), Some(59))], "it always talked");
    assert_eq!(after(1, &all, true), []);
    for _ in 0..10 {
        assert_eq!(after(59, &["there", "express"], true), [], "quiet for less than a minute");
        assert_eq!(after(1, &all, true), []);
    }
    assert_eq!(after(305, &["there", "mute", "express"], true), [("gone".to_owned(), Some(305))]);
    assert_eq!(after(1, &["there", "gone", "express"], true), [], "it is back");
    assert_eq!(after(400, &[], false), [], "nothing is sent");
}

#[test]
fn what_passes_to_stations_counts_from_the_last_valid_frame_on() {
    let (mut lately, mut now) = (RecentCounters::default(), Duration::ZERO);
    let mut after = |seconds: u64, passed: u64, valid: u64| {
        now += Duration::from_secs(seconds);
        let sc = CountedSc { valid, ..CountedSc::default() };
        let scs = [("peer".to_owned(), sc)].into();
        lately.look(now, Counted { passed, scs, ..Counted::default() });
        lately.traffic(now).passed
    };
    assert_eq!(after(0, 5, 0), None, "before the first look");
    assert_eq!(after(1, 7, 0), Some(2));
    assert_eq!(after(1, 9, 1), None, "a valid frame came");
    assert_eq!(after(4, 12, 1), Some(3));
    assert_eq!(after(31, 12, 1), None, "long ago");
}

/// Of 1000 ticks in each second of two minutes: whether their gaps are told, and that the peer sends no cover.
#[test]
fn gaps_of_cover_and_cover_at_one_end_alone_are_told_after_a_while() {
    let after = |seconds: u64, missed: u64, empty: u64| {
        let mut lately = RecentCounters::default();
        for second in 0..=seconds {
            let cover = CountedCover {
                sent: (1000 - missed) * second,
                missed: missed * second,
                empty: empty * second,
            };
            lately.look(Duration::from_secs(second), Counted { cover, ..Counted::default() });
        }
        let traffic = lately.traffic(Duration::from_secs(seconds));
        (traffic.ticks_missed, traffic.is_cover_alone)
    };
    assert_eq!(after(120, 0, 3), (None, false));
    assert_eq!(after(120, 10, 1), (None, false), "one in a hundred");
    assert_eq!(after(120, 11, 1), (Some((671, 61_000)), false), "the last minute's");
    assert_eq!(after(1, 9, 1), (None, false), "a few are chance");
    assert_eq!(after(1, 20, 1), (Some((20, 1000)), false));
    assert_eq!(after(58, 0, 0), (None, false), "perhaps it begins there, too");
    assert_eq!(after(62, 0, 0), (None, true));
    assert_eq!(after(62, 1000, 0), (None, false), "no frame leaves: it has no key, or no cover any more");
}

#[test]
fn a_few_unfilled_checksums_are_chance_and_many_are_told_for_a_while() {
    let after = |counts: &[u64]| {
        let (mut lately, mut now) = (RecentCounters::default(), Duration::ZERO);
        for unfilled in counts {
            lately.look(now, Counted { unfilled: *unfilled, ..Counted::default() });
            now += Duration::from_secs(1);
        }
        lately.traffic(now).unfilled
    };
    assert_eq!(after(&[7, 7, 7]), None, "before the first look");
    assert_eq!(after(&[0, 1, 2, 3]), None);
    assert_eq!(after(&[0, 1, 2, 4]), Some(4));
    assert_eq!(after(&[&[0, 9][..], &[9; 25]].concat()), Some(9));
    assert_eq!(after(&[&[0, 9][..], &[9; 31]].concat()), None, "mended");
}

#[test]
fn frames_fail_only_where_no_valid_one_comes_between() {
    let count =
        |seconds: &[(u64, u64, u64)]| after(seconds).failing.first().and_then(|failing| failing.not_valid);
    assert_eq!(count(&[(0, 0, 3)]), Some(3), "from the first one on");
    assert_eq!(count(&repeated(20, (0, 4, 3))), None, "both come");
    assert_eq!(count(&[(0, 1, 0), (0, 0, 2), (0, 0, 2)]), None, "a change of keys");
    assert_eq!(count(&[(0, 1, 0), (0, 0, 2), (0, 0, 2), (0, 0, 2)]), Some(6));
    assert_eq!(count(&[vec![(0, 0, 3)], repeated(30, (0, 0, 0))].concat()), None, "long ago");
    assert_eq!(after(&repeated(20, (0, 4, 3))).discards, [("InPktsNotValid".to_owned(), 33)]);
}

/// A peer whose lowest PN is so much in each second, and whose valid frames are so many.
fn told(seconds: &[(u64, u64)]) -> RecentSc {
    let (mut lately, mut now) = (RecentCounters::default(), Duration::ZERO);
    for (lowest, valid) in seconds {
        let told = Some(("ki".to_owned(), *lowest));
        let sc = CountedSc { valid: *valid, told, ..CountedSc::default() };
        lately.look(now, Counted { scs: [("peer".into(), sc)].into(), ..Counted::default() });
        now += Duration::from_secs(1);
    }
    lately.traffic(now - Duration::from_secs(1)).scs.remove(0)
}

#[test]
fn frames_that_a_peer_tells_of_and_that_do_not_come_are_lost() {
    let lost = |seconds: &[(u64, u64)]| {
        let RecentSc { lost, tells, .. } = told(seconds);
        (lost, tells)
    };
    let rising = |valid: fn(u64) -> u64| (0..20).map(|n| (1 + 2 * n, valid(n))).collect::<Vec<_>>();
    assert_eq!(lost(&repeated_pairs(20, (1, 0))), (None, false), "it sends nothing, or tells nothing");
    assert_eq!(lost(&repeated_pairs(20, (9, 4))), (None, true), "it sends nothing more");
    assert_eq!(lost(&rising(|n| n)), (None, true), "its frames come");
    assert_eq!(lost(&rising(|_| 0)), (Some(38), true));
    assert_eq!(lost(&rising(|n| u64::from(n >= 18))), (None, true), "one comes again");
    // Its PN shows its last frames for some seconds after they have come.
    let tail = [vec![(1, 0), (1, 9), (3, 9), (5, 9), (7, 9), (9, 9), (10, 9)], repeated_pairs(9, (10, 9))];
    assert_eq!(lost(&tail.concat()), (None, true));
    // A frame now and then may be lost, and PNs skipped.
    let one = [repeated_pairs(10, (5, 4)), repeated_pairs(10, (6, 4)), repeated_pairs(9, (900, 4))];
    assert_eq!(lost(&one.concat()), (None, true));
    let three = [one.concat(), repeated_pairs(2, (901, 4))].concat();
    assert_eq!(lost(&three), (Some(896), true));
    let long_ago = [three, repeated_pairs(301, (901, 4))].concat();
    assert_eq!(lost(&long_ago), (None, true), "it sends nothing more");
}

fn repeated_pairs(times: usize, second: (u64, u64)) -> Vec<(u64, u64)> {
    vec![second; times]
}

/// A KI's PNs begin anew.
#[test]
fn under_another_sak_a_peers_pns_begin_anew() {
    let of = |ki: &str, lowest| CountedSc { told: Some((ki.into(), lowest)), ..CountedSc::default() };
    assert_eq!(of("a", 9).told_since(&of("a", 4)), 5);
    assert_eq!(of("b", 1).told_since(&of("a", 4)), 0);
    assert_eq!(of("b", 3).told_since(&of("a", 400)), 2);
    assert_eq!(of("b", 3).told_since(&CountedSc::default()), 0, "how far it was is not known");
    assert_eq!(CountedSc::default().told_since(&of("a", 4)), 0);
}

/// A link that falls idle behind a change of keys is not red because of what came before.
#[test]
fn what_failed_under_another_key_is_forgotten() {
    let (mut lately, mut now) = (RecentCounters::default(), Duration::ZERO);
    let mut look = |key: &str, fails: u64| {
        now += Duration::from_secs(1);
        let sas = vec![(0, key.to_owned())];
        let sc = CountedSc { not_valid: fails, late: fails, sas, ..CountedSc::default() };
        let counted = Counted { no_sa: fails, scs: [("peer".into(), sc)].into(), ..Counted::default() };
        lately.look(now, counted);
        let RecentTraffic { failing, no_sa, .. } = lately.traffic(now);
        (failing.first().and_then(|failing| failing.not_valid), no_sa)
    };
    look("a", 0);
    assert_eq!(look("a", 3), (Some(3), Some(3)));
    assert_eq!(look("a", 3), (Some(3), Some(3)));
    assert_eq!(look("b", 4), (None, None), "the last of them came under the key before");
    assert_eq!(look("b", 4), (None, None));
    assert_eq!(look("b", 6), (Some(2), Some(2)), "under this one");
}
