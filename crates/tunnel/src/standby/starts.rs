//! Two boxes that start at once, whose LAN carries beats one way alone, whose interface is full, or whose clocks differ.

extern crate std;

use super::tests::{Lan, at};
use super::*;

const TIMING: Timing = Timing { takeover: Duration::from_millis(40), longest: LONGEST_TAKEOVER };

/// Number of boxes that forward at that moment.
fn forward(lan: &Lan, ms: u64) -> usize {
    (0..2).filter(|number| lan.is_open(*number, ms)).count()
}

/// Whoever is first, and however late beats are: never both, and one forwards when both have listened.
#[test]
fn of_two_that_start_at_any_two_moments_one_forwards() {
    for first in 0..2 {
        for apart in (0..1100).step_by(3) {
            for delay in [0, 1, 3, 5] {
                let mut lan = Lan::new(TIMING);
                for ms in 0..apart + 1200 {
                    if ms == 0 {
                        lan.start(first, ms);
                    }
                    if ms == apart {
                        lan.start(1 - first, ms);
                    }
                    lan.step(ms, |_| Some(delay));
                }
                assert_eq!(lan.both, 0, "{first} is {apart} ms ahead, {delay} ms late");
                assert_eq!(forward(&lan, apart + 1199), 1, "{first} is {apart} ms ahead, {delay} ms late");
            }
        }
    }
}

/// Beats that name none of the own ones may be recorded. So a LAN that carries them one way alone, from the start on, is one that carries none. With the
/// first that come both ways there is one.
#[test]
fn two_that_start_on_a_lan_that_carries_one_way_are_one_when_it_carries_both() {
    for deaf in 0..2 {
        let mut lan = Lan::new(TIMING);
        for number in 0..2 {
            lan.start(number, 0);
        }
        for ms in 0..2000 {
            lan.step(ms, |from| (from == deaf).then_some(1));
        }
        assert_eq!((lan.role(0), lan.role(1)), (Role::Active, Role::Active), "{deaf} is deaf");
        lan.both = 0;
        lan.run(2000..2200);
        assert!(lan.both <= 12, "{} ms, {deaf} is deaf", lan.both);
        assert_eq!(forward(&lan, 2199), 1, "{deaf} is deaf");
    }
}

/// The active box hands over, and hears no beat from then on; or the other one does. The one that is not heard yields to the first beat.
#[test]
fn a_hand_over_on_a_lan_that_carries_one_way_leaves_one() {
    for deaf in 0..2 {
        for begins in 1400..1410 {
            let mut lan = Lan::settled_with(TIMING, begins);
            assert!(lan.boxes[0].as_mut().is_some_and(|election| election.hand_over(at(begins))));
            for ms in begins..begins + 600 {
                lan.step(ms, |from| (from == deaf).then_some(1));
            }
            assert!(lan.both <= 2, "{} ms, {deaf} is deaf from {begins} on", lan.both);
            assert_eq!(forward(&lan, begins + 599), 1, "{deaf} is deaf from {begins} on");
        }
    }
}

/// Far more than clocks differ by, with two beats lost in a row.
#[test]
fn clocks_that_differ_in_speed_leave_one() {
    let timing = Timing { takeover: Duration::from_millis(400), longest: LONGEST_TAKEOVER };
    for speed in [[95, 105], [105, 95]] {
        for lost in 0..3 {
            let mut lan = Lan::new(timing);
            lan.speed = speed;
            (0..2).for_each(|number| lan.start(number, 0));
            let mut beats = [0, 1];
            for ms in 0..20_000 {
                lan.step(ms, |from| {
                    beats[from] += 1;
                    (beats[from] % 3 >= lost).then_some(1)
                });
            }
            assert_eq!(lan.both, 0, "{speed:?}, {lost} of 3 lost");
            assert_eq!(forward(&lan, 19_999), 1, "{speed:?}, {lost} of 3 lost");
        }
    }
}

/// A clock that jumps ahead looks like a pause.
#[test]
fn a_clock_that_jumps_ahead_leaves_one() {
    for number in 0..2 {
        for begins in 1400..1410 {
            for jump in [1, 5, 20, 24, 25, 26, 39, 40, 41, 100, 5000, 86_400_000] {
                let mut lan = Lan::settled_with(TIMING, begins);
                lan.ahead[number] = jump;
                lan.run(begins..begins + 1400);
                assert_eq!(lan.both, 0, "{number} jumps by {jump} at {begins}");
                assert_eq!(forward(&lan, begins + 1399), 1, "{number} jumps by {jump} at {begins}");
                if number == 1 || jump < 20 {
                    assert_eq!((lan.role(0), lan.nobody), (Role::Active, 0), "{jump} at {begins}");
                }
            }
        }
    }
}

/// During a change of `takeover` one box has the shortest one and the other one the longest, whose beats are 250 ms apart: a box that starts takes
/// nothing from the one that forwards.
#[test]
fn a_start_beside_a_box_with_the_longest_takeover_takes_nothing() {
    for starts in (20_000..20_260).step_by(3) {
        let mut lan = Lan::new(Timing { takeover: LONGEST_TAKEOVER, longest: LONGEST_TAKEOVER });
        lan.timing[0] = Timing { takeover: Duration::from_millis(20), longest: LONGEST_TAKEOVER };
        lan.start(1, 0);
        lan.run(0..starts);
        assert_eq!(lan.role(1), Role::Active);
        lan.start(0, starts);
        // Two beats in a row are lost.
        let mut beats = 0;
        for ms in starts..starts + 9000 {
            lan.step(ms, |from| {
                beats += u32::from(from == 1);
                (from == 0 || beats > 2).then_some(1)
            });
        }
        assert_eq!((lan.both, lan.role(0), lan.role(1)), (0, Role::Standby, Role::Active), "{starts}");
    }
}

/// Who floods a LAN from another site fills the queue of its interface, which takes a beat now and then.
#[test]
fn an_interface_that_is_mostly_full_changes_nothing() {
    for number in 0..2 {
        for takes in 0..8 {
            let mut lan = Lan::settled_with(TIMING, 1400);
            for ms in 1400..3000 {
                lan.full[number] = ms % 8 != takes;
                lan.step(ms, |_| Some(1));
            }
            assert_eq!((lan.both, lan.nobody), (0, 0), "{number}, {takes}");
            assert_eq!((lan.role(0), lan.role(1)), (Role::Active, Role::Standby), "{number}, {takes}");
        }
    }
}

/// A virtual machine's host that stops it each half a second for longer than a lease.
#[test]
fn a_lone_box_that_stands_still_again_and_again_forwards() {
    for after in (0..500).step_by(7) {
        let mut lan = Lan::new(TIMING);
        lan.start(0, 0);
        for ms in 0..3000 {
            if ms % 500 == after {
                lan.still[0] = ms + 30;
            }
            lan.step(ms, |_| Some(1));
            // What it did not hear, it does not count as listened to.
            assert!(ms >= 1030 || forward(&lan, ms) == 0, "{after}: {ms}");
        }
        lan.run(3000..3100);
        lan.nobody = 0;
        lan.run(3100..3400);
        assert_eq!((lan.role(0), lan.nobody), (Role::Active, 0), "{after}");
    }
}

/// What a box knows of stations is old if the other one has forwarded since, or nobody has for a second.
#[test]
fn a_short_pause_leaves_what_is_known_of_stations() {
    let was_away = |lan: &Lan| lan.boxes[0].as_ref().is_some_and(Election::was_away);
    for (still, is_old) in [(30, false), (300, false), (999, true), (2000, true)] {
        let mut lan = Lan::settled_with(TIMING, 1400);
        lan.boxes[1] = None;
        lan.run(1400..1500);
        lan.still[0] = 1500 + still;
        lan.run(1500..4000);
        let takeovers = lan.boxes[0].as_ref().map(Election::takeovers);
        assert_eq!((lan.role(0), takeovers), (Role::Active, Some(2)), "{still}");
        assert_eq!(was_away(&lan), is_old, "{still}");
    }
    let mut lan = Lan::handed_over(TIMING, 3000);
    assert!(lan.boxes[1].as_mut().is_some_and(|election| election.hand_over(at(3000))));
    lan.run(3000..3050);
    assert_eq!(lan.role(0), Role::Active);
    assert!(was_away(&lan), "the other one has forwarded");
}
