//! All ways in which a LAN can lose beats of both boxes as long as the condition of the guarantee holds, each together with a pause or the
//! death of either box at each moment among them. Each of the two is the active one.

extern crate std;

use super::tests::{Lan, at};
use super::*;

/// Small, so that a step of a millisecond is half an interval. What is held follows from the fractions of T.
const TIMING: Timing = Timing { takeover: Duration::from_millis(16), longest: Duration::ZERO };
/// Beats of each box that may be lost: those of T and more.
const BEATS: u32 = 6;
/// Losses of the other box: none, and those that are worst.
const OTHERS: [u32; 2] = [0, 0b01_1011];
const FROM: u64 = 400;

/// Patterns in which no more than `most` beats in a row are lost.
fn losses(most: u32) -> impl Iterator<Item = u32> + Clone {
    (0..1 << BEATS).filter(move |pattern| {
        let mut row = 0;
        (0..BEATS).all(|beat| {
            row = if pattern >> beat & 1 == 1 { row + 1 } else { 0 };
            row <= most
        })
    })
}

/// What happens to a box among the losses.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Nothing,
    Pause { number: usize, from: u64, time: u64 },
    NoLink { number: usize, from: u64, time: u64 },
    Death { number: usize, from: u64, restart: u64 },
}

/// The two cases in which either box is active.
fn settled() -> [Lan; 2] {
    [Lan::settled_with(TIMING, FROM), Lan::handed_over(TIMING, FROM)]
}

/// Each box is the active one; something happens to either; of one no more than two beats in a row are lost, and of the other one those of
/// [`OTHERS`]: which is active, the LAN, to which it happens, and the losses.
fn for_each_case(judge: impl Fn(usize, &Lan, usize, [u32; 2])) {
    for (active, lan) in settled().iter().enumerate() {
        for number in 0..2 {
            for one in losses(2) {
                for other in OTHERS {
                    judge(active, lan, number, [one, other]);
                    judge(active, lan, number, [other, one]);
                }
            }
        }
    }
}

fn run(lan: &Lan, losses: [u32; 2], happens: Happens, time: u64) -> Lan {
    let mut lan = lan.clone();
    let mut sent = [0; 2];
    for ms in FROM..FROM + time {
        match happens {
            Happens::Pause { number, from, time } if from == ms => lan.still[number] = ms + time,
            Happens::NoLink { number, from, .. } if from == ms => lan.unplugged[number] = true,
            Happens::NoLink { number, from, time } if from + time == ms => lan.unplugged[number] = false,
            Happens::Death { number, from, .. } if from == ms => lan.boxes[number] = None,
            Happens::Death { number, restart, .. } if restart == ms => lan.start(number, ms),
            _ => {}
        }
        lan.step(ms, |from| {
            let beat = sent[from];
            sent[from] += 1;
            (beat >= BEATS || losses[from] >> beat & 1 == 0).then_some(1)
        });
    }
    lan
}

#[test]
fn two_lost_beats_in_a_row_change_nothing() {
    for (active, lan) in settled().iter().enumerate() {
        for first in losses(2) {
            for second in losses(2) {
                let lan = run(lan, [first, second], Happens::Nothing, 40);
                assert_eq!((lan.both, lan.nobody), (0, 0), "{first:b} {second:b}");
                assert_eq!((lan.role(active), lan.role(1 - active)), (Role::Active, Role::Standby));
            }
        }
    }
}

/// Losses of either box, no more than two in a row, and a pause of either box, of each length at each moment: never both, and the pause
/// of the box that stands by changes nothing.
#[test]
fn losses_together_with_a_pause_never_leave_both_forwarding() {
    for_each_case(|active, lan, number, losses| {
        for from in FROM..FROM + 16 {
            for time in [1, 4, 7, 9, 10, 11, 15, 16, 30] {
                let happens = Happens::Pause { number, from, time };
                let after = run(lan, losses, happens, from - FROM + time + 24);
                let what = || std::format!("{active} active, {losses:?}, {happens:?}");
                assert_eq!(after.both, 0, "{}", what());
                if number != active {
                    assert_eq!(after.nobody, 0, "{}", what());
                    assert_eq!(after.role(active), Role::Active, "{}", what());
                }
            }
        }
    });
}

/// The same with a death of either box, and a new start at once, later or not at all.
#[test]
fn losses_together_with_a_death_never_leave_both_forwarding() {
    for_each_case(|active, lan, number, losses| {
        for from in FROM..FROM + 10 {
            for restart in [from + 1, from + 6, from + 13, from + 20, u64::MAX] {
                let happens = Happens::Death { number, from, restart };
                let after = run(lan, losses, happens, 100);
                let what = || std::format!("{active} active, {losses:?}, {happens:?}");
                assert_eq!(after.both, 0, "{}", what());
                assert_eq!(after.role(1 - number), Role::Active, "{}", what());
            }
        }
    });
}

/// The same with a lost link of either box, which is not told of it: never both, also when it is back.
#[test]
fn losses_together_with_a_lost_link_never_leave_both_forwarding() {
    for_each_case(|active, lan, number, losses| {
        for from in FROM..FROM + 10 {
            for time in [1, 4, 7, 9, 10, 11, 13, 15, 16, 17, 20, 40] {
                let happens = Happens::NoLink { number, from, time };
                let after = run(lan, losses, happens, from - FROM + time + 90);
                let what = || std::format!("{active} active, {losses:?}, {happens:?}");
                assert_eq!(after.both, 0, "{}", what());
                let forward = (0..2).filter(|number| after.role(*number) == Role::Active);
                assert_eq!(forward.count(), 1, "{}", what());
                if number != active {
                    assert_eq!(after.role(active), Role::Active, "{}", what());
                }
            }
        }
    });
}

/// A hand-over, with losses and a pause of either box meanwhile.
#[test]
fn losses_together_with_a_pause_in_a_hand_over_never_leave_both_forwarding() {
    for_each_case(|active, lan, number, losses| {
        let mut lan = lan.clone();
        assert!(lan.boxes[active].as_mut().is_some_and(|election| election.hand_over(at(FROM))));
        for from in FROM..FROM + 10 {
            for time in [0, 3, 7, 9, 11, 13, 15, 17, 25] {
                let happens = Happens::Pause { number, from, time };
                let after = run(&lan, losses, happens, 80);
                let what = || std::format!("{active} leaves, {losses:?}, {happens:?}");
                assert_eq!(after.both, 0, "{}", what());
                assert_eq!(
                    (0..2).filter(|number| after.role(*number) == Role::Active).count(),
                    1,
                    "{}",
                    what()
                );
            }
        }
    });
}

/// Where the condition does not hold, both may forward: until the first beats that arrive.
#[test]
fn any_losses_leave_both_forwarding_no_longer_than_they_last() {
    for lan in settled() {
        for first in losses(BEATS) {
            for second in losses(BEATS) {
                let mut lan = run(&lan, [first, second], Happens::Nothing, 30);
                lan.both = 0;
                (FROM + 30..FROM + 60).for_each(|ms| lan.step(ms, |_| Some(1)));
                assert_eq!(lan.both, 0, "{first:b} {second:b}");
                assert_eq!((0..2).filter(|number| lan.is_open(*number, FROM + 59)).count(), 1);
            }
        }
    }
}
