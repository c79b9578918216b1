//! All ways in which a LAN can lose six beats each way, as long as the condition of the guarantee holds, with a stall of either box at
//! each moment among them.

use super::tests::{Lan, at};
use super::*;

const BEATS: u32 = 6;

/// True if no more than `most` beats in a row are lost.
fn loses_at_most(pattern: u32, most: u32) -> bool {
    let mut row = 0;
    (0..BEATS).all(|beat| {
        row = if pattern >> beat & 1 == 1 { row + 1 } else { 0 };
        row <= most
    })
}

fn run(losses: [u32; 2], still: Option<(usize, u64, u64)>) -> Lan {
    let mut lan = Lan::settled(300);
    let mut sent = [0; 2];
    for ms in 300..520 {
        if let Some((number, from, time)) = still
            && from == ms
        {
            lan.still[number] = ms + time;
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
    for first in (0..1 << BEATS).filter(|pattern| loses_at_most(*pattern, 2)) {
        for second in 0..1 << BEATS {
            let lan = run([first, second], None);
            assert_eq!((lan.both, lan.nobody), (0, 0), "{first:b} {second:b}");
            assert_eq!(lan.role(0), Role::Active);
        }
    }
}

#[test]
fn stalls_of_any_length_at_any_moment_never_leave_both_forwarding() {
    for number in 0..2 {
        for from in 300..320 {
            for time in 1..120 {
                let lan = run([0, 0], Some((number, from, time)));
                assert_eq!(lan.both, 0, "box {number} from {from} for {time} ms");
                assert!(number == 0 || lan.nobody == 0);
            }
        }
    }
}

/// Where the condition does not hold, both may forward: until the first beat that arrives.
#[test]
fn any_losses_leave_both_forwarding_no_longer_than_they_last() {
    for first in 0..1 << BEATS {
        for second in 0..1 << BEATS {
            let mut lan = run([first, second], None);
            lan.both = 0;
            (520..600).for_each(|ms| lan.step(ms, |_| Some(1)));
            assert_eq!(lan.both, 0, "{first:b} {second:b}");
            let open = (0..2).filter(|number| {
                lan.boxes[*number].as_ref().is_some_and(|election| election.gate(at(599)) == Gate::Open)
            });
            assert_eq!(open.count(), 1, "{first:b} {second:b}");
        }
    }
}
