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
