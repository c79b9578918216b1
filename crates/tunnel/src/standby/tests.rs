//! Two boxes on a virtual clock, and a LAN that delays and loses.

extern crate std;

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

pub(super) const TIMING: Timing = Timing { takeover: Duration::from_millis(40) };

pub(super) fn at(ms: u64) -> Instant {
    Instant::after_start(Duration::from_millis(ms))
}

/// Two boxes. The first one comes first.
pub(super) struct Lan {
    pub(super) boxes: [Option<Election>; 2],
    /// Until when a box stands still.
    pub(super) still: [u64; 2],
    /// Beats under way: when they arrive, for whom, and what they say.
    on_wire: Vec<(u64, usize, Beat)>,
    sessions: u64,
    /// Milliseconds in which both forwarded, and in which nobody did.
    pub(super) both: u64,
    pub(super) nobody: u64,
}

impl Lan {
    pub(super) fn new() -> Self {
        Self { boxes: [None, None], still: [0; 2], on_wire: vec![], sessions: 0, both: 0, nobody: 0 }
    }

    pub(super) fn start(&mut self, number: usize, ms: u64) {
        self.sessions += 1;
        self.boxes[number] = Some(Election::new(TIMING, false, number == 0, self.sessions, at(ms)));
    }

    /// One step at a time. `delay` says for a beat of a box when it arrives; none: it is lost.
    pub(super) fn step(&mut self, ms: u64, mut delay: impl FnMut(usize) -> Option<u64>) {
        let now = at(ms);
        for number in 0..2 {
            if self.still[number] > ms {
                continue;
            }
            let Some(election) = &mut self.boxes[number] else { continue };
            // In the order of a worker's turn.
            election.handle_timeout(now);
            if let Some(beat) = election.poll_beat(now)
                && let Some(delay) = delay(number)
            {
                self.on_wire.push((ms + delay, 1 - number, beat));
            }
            for (_, _, beat) in self.on_wire.iter().filter(|(arrives, to, _)| *to == number && *arrives <= ms)
            {
                election.hear(now, *beat);
            }
            self.on_wire.retain(|(arrives, to, _)| *to != number || *arrives > ms);
        }
        // What stands still is asked too: it may go on at any moment.
        let open = |number: usize| {
            self.boxes[number].as_ref().is_some_and(|election| election.gate(now) == Gate::Open)
        };
        self.both += u64::from(open(0) && open(1));
        self.nobody += u64::from(!open(0) && !open(1));
    }

    pub(super) fn run(&mut self, ms: core::ops::Range<u64>) {
        ms.for_each(|ms| self.step(ms, |_| Some(1)));
    }

    pub(super) fn role(&self, number: usize) -> Role {
        self.boxes[number].as_ref().expect("it runs").role().0
    }

    fn cause(&self, number: usize) -> Cause {
        self.boxes[number].as_ref().expect("it runs").role().1
    }

    /// Two boxes that have found each other, up to that moment.
    pub(super) fn settled(ms: u64) -> Self {
        let mut lan = Self::new();
        lan.start(0, 0);
        lan.start(1, 3);
        lan.run(0..ms);
        assert_eq!((lan.role(0), lan.role(1), lan.both), (Role::Active, Role::Standby, 0));
        lan.nobody = 0;
        lan
    }
}

#[test]
fn the_first_of_two_that_start_forwards_and_a_lone_one_does() {
    let lan = Lan::settled(300);
    assert_eq!(lan.cause(0), Cause::ComesFirst);
    for number in 0..2 {
        let mut lan = Lan::new();
        lan.start(number, 0);
        lan.run(0..160);
        assert_eq!(lan.role(number), Role::Listening);
        lan.run(160..161);
        assert_eq!((lan.role(number), lan.cause(number)), (Role::Active, Cause::PartnerSilent));
    }
}

#[test]
fn a_killed_box_is_followed_within_t_and_does_not_come_back_as_the_active_one() {
    for killed in 300..312 {
        let mut lan = Lan::settled(killed);
        lan.boxes[0] = None;
        lan.run(killed..killed + 42);
        assert_eq!((lan.role(1), lan.cause(1)), (Role::Active, Cause::PartnerSilent));
        assert!(lan.nobody <= 41, "{}", lan.nobody);
        lan.nobody = 0;
        lan.start(0, killed + 42);
        lan.run(killed + 42..killed + 2000);
        assert_eq!((lan.role(0), lan.role(1)), (Role::Standby, Role::Active), "no preemption");
        assert_eq!((lan.both, lan.nobody), (0, 0));
    }
}

/// However long: also when the beats that waited for it are old ones.
#[test]
fn a_box_that_stood_still_does_not_forward_beside_the_other() {
    for (still, follows) in [(10, false), (20, false), (45, true), (100, true), (5000, true)] {
        let mut lan = Lan::settled(300);
        lan.still[0] = 300 + still;
        lan.run(300..300 + still + 400);
        assert_eq!(lan.both, 0, "{still} ms");
        let roles = (lan.role(0), lan.role(1));
        let expected = if follows { (Role::Standby, Role::Active) } else { (Role::Active, Role::Standby) };
        assert_eq!(roles, expected, "{still} ms");
        // The standby that stood still does not take its own deafness for silence.
        let mut lan = Lan::settled(300);
        lan.still[1] = 300 + still;
        lan.run(300..300 + still + 400);
        assert_eq!((lan.both, lan.nobody), (0, 0), "{still} ms");
        assert_eq!(lan.role(0), Role::Active);
    }
}

/// Its new session shows that the box before is dead: there is nothing to wait for.
#[test]
fn a_box_that_restarts_at_once_is_followed_all_the_same() {
    for killed in 300..312 {
        let mut lan = Lan::settled(killed);
        lan.start(0, killed + 5);
        lan.run(killed..killed + 60);
        assert_eq!((lan.role(0), lan.role(1), lan.both), (Role::Standby, Role::Active, 0), "{killed}");
        lan.run(killed + 60..killed + 1000);
        assert_eq!((lan.role(0), lan.role(1), lan.both), (Role::Standby, Role::Active, 0), "{killed}");
        assert!(lan.nobody <= 50, "{}", lan.nobody);
    }
}

#[test]
fn a_box_that_stands_still_while_it_listens_listens_anew() {
    let mut lan = Lan::settled(300);
    lan.boxes[1] = None;
    lan.run(300..400);
    lan.start(1, 400);
    lan.still[1] = 554;
    lan.run(400..1000);
    assert_eq!((lan.role(0), lan.role(1), lan.both), (Role::Active, Role::Standby, 0));
}

/// Both stood still, and the beats that waited say that nobody forwards: the one that wakes does not believe them.
#[test]
fn beats_that_waited_open_no_gate() {
    let mut lan = Lan::settled(300);
    lan.still[0] = 538;
    lan.run(300..391);
    lan.still[1] = 499;
    lan.run(391..1000);
    assert_eq!(lan.both, 0);
    assert_ne!(lan.role(0), lan.role(1));
}

#[test]
fn two_that_forward_are_one_again_with_the_first_beats() {
    let mut lan = Lan::settled(300);
    for ms in 300..1000 {
        lan.step(ms, |_| None);
    }
    assert_eq!((lan.role(0), lan.role(1)), (Role::Active, Role::Active), "a LAN in two halves has two");
    lan.both = 0;
    lan.run(1000..1200);
    assert!(lan.both <= 11, "{}", lan.both);
    assert_eq!((lan.role(0), lan.role(1)), (Role::Active, Role::Standby));
}

#[test]
fn whoever_is_not_heard_yields() {
    for deaf in 0..2 {
        let mut lan = Lan::settled(300);
        // Beats to it are lost, and its own arrive.
        for ms in 300..1000 {
            lan.step(ms, |from| (from == deaf).then_some(1));
        }
        assert!(lan.both <= 2, "{}", lan.both);
        assert_eq!(lan.role(deaf), Role::Active);
        assert_eq!(lan.role(1 - deaf), Role::Standby);
    }
}

#[test]
fn a_hand_over_leaves_no_moment_without_a_way_and_lets_pass_what_is_under_way() {
    let mut lan = Lan::settled(300);
    let first = lan.boxes[0].as_mut().unwrap();
    assert!(first.hand_over(at(300)) && !first.hand_over(at(300)));
    let mut ways = vec![];
    for ms in 300..1400 {
        lan.step(ms, |_| Some(1));
        let gate = |number: usize| lan.boxes[number].as_ref().unwrap().gate(at(ms));
        ways.push((gate(0), gate(1)));
        assert_ne!((gate(0), gate(1)), (Gate::Closed, Gate::Closed), "{ms}");
    }
    ways.dedup();
    assert_eq!(lan.both, 0);
    assert_eq!(
        ways,
        [(Gate::Draining, Gate::Closed), (Gate::Draining, Gate::Open), (Gate::Closed, Gate::Open)]
    );
    assert_eq!((lan.cause(0), lan.cause(1)), (Cause::HandOver, Cause::PartnerLeft));
    // A partner that is not there, or forwards, cannot take over.
    assert!(!lan.boxes[0].as_mut().unwrap().hand_over(at(1400)));
    lan.boxes[0] = None;
    lan.run(1400..1500);
    assert!(!lan.boxes[1].as_mut().unwrap().hand_over(at(1500)));
}

#[test]
fn a_partner_that_dies_in_a_hand_over_is_not_waited_for() {
    let mut lan = Lan::settled(300);
    assert!(lan.boxes[0].as_mut().unwrap().hand_over(at(300)));
    lan.boxes[1] = None;
    lan.run(300..342);
    assert_eq!((lan.role(0), lan.cause(0)), (Role::Active, Cause::NotTakenOver));
}

#[test]
fn a_box_without_a_link_does_not_forward_and_listens_when_it_has_one() {
    let mut lan = Lan::settled(300);
    lan.boxes[0].as_mut().unwrap().set_link(at(300), false);
    lan.run(300..1000);
    assert_eq!((lan.role(0), lan.role(1), lan.both), (Role::Listening, Role::Active, 0));
    lan.boxes[0].as_mut().unwrap().set_link(at(1000), true);
    lan.run(1000..1500);
    assert_eq!((lan.role(0), lan.role(1), lan.both), (Role::Standby, Role::Active, 0));
}

#[test]
fn a_box_with_the_others_sci_never_forwards_and_the_other_one_goes_on() {
    let mut lan = Lan::settled(300);
    lan.boxes.iter_mut().flatten().for_each(|election| election.refuse(at(300)));
    lan.run(300..600);
    assert_eq!((lan.role(0), lan.role(1), lan.cause(1)), (Role::Active, Role::Listening, Cause::SameSci));
    lan.boxes[0] = None;
    lan.run(600..2000);
    assert_eq!((lan.role(1), lan.cause(1)), (Role::Listening, Cause::SameSci));
}

#[test]
fn recorded_beats_are_worthless() {
    let mut lan = Lan::settled(300);
    let mut recorded = vec![];
    for ms in 300..400 {
        let election = lan.boxes[0].as_mut().unwrap();
        election.handle_timeout(at(ms));
        recorded.extend(election.poll_beat(at(ms)));
        lan.run(ms..ms + 1);
    }
    assert!(!recorded.is_empty());
    // The active box is dead, and its beats come again, also those that had been held back.
    lan.boxes[0] = None;
    for ms in 400..460 {
        for beat in &recorded {
            let heard = lan.boxes[1].as_mut().unwrap().hear(at(ms), *beat);
            assert!(heard == Judged::Unproved || ms == 400, "{ms}");
        }
        lan.run(ms..ms + 1);
    }
    assert_eq!(lan.role(1), Role::Active);
    // Nor do they make another start of the partner believe anything.
    lan.boxes[1] = None;
    lan.start(1, 500);
    for ms in 500..700 {
        for beat in &recorded {
            assert_eq!(lan.boxes[1].as_mut().unwrap().hear(at(ms), *beat), Judged::Unproved);
        }
        lan.run(ms..ms + 1);
    }
    assert_eq!((lan.role(1), lan.cause(1)), (Role::Active, Cause::PartnerSilent));
}

#[derive(Clone, Debug)]
enum Happens {
    Kill(usize),
    Start(usize),
    Still(usize, u64),
    HandOver(usize),
    Nothing,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        (0..2_usize).prop_map(Happens::Kill),
        (0..2_usize).prop_map(Happens::Start),
        (0..2_usize, 1..300_u64).prop_map(|(number, time)| Happens::Still(number, time)),
        (0..2_usize).prop_map(Happens::HandOver),
        Just(Happens::Nothing),
    ]
}

proptest! {
    /// Any order of deaths, starts, stalls and hand-overs, with beats that are up to 8 ms late: never both. And once nothing
    /// happens any more, one of two forwards.
    #[test]
    fn never_both(
        story in proptest::collection::vec((happens(), 0..200_u64), 1..12),
        delays in proptest::collection::vec(0..8_u64, 1..64),
    ) {
        let mut lan = Lan::settled(300);
        let mut ms = 300;
        let mut delays = delays.iter().cycle();
        for (what, time) in story {
            match what {
                Happens::Kill(number) => lan.boxes[number] = None,
                Happens::Start(number) => if lan.boxes[number].is_none() { lan.start(number, ms) },
                Happens::Still(number, time) => lan.still[number] = ms + time,
                Happens::HandOver(number) => if lan.still[number] <= ms && let Some(election) = &mut lan.boxes[number] {
                    election.handle_timeout(at(ms));
                    let _ = election.hand_over(at(ms));
                },
                Happens::Nothing => {}
            }
            for ms in ms..ms + time {
                lan.step(ms, |_| delays.next().copied());
            }
            ms += time;
        }
        prop_assert_eq!(lan.both, 0);
        for number in 0..2 {
            lan.still[number] = 0;
            if lan.boxes[number].is_none() {
                lan.start(number, ms);
            }
        }
        lan.run(ms..ms + 500);
        prop_assert_eq!(lan.both, 0);
        lan.nobody = 0;
        lan.run(ms + 500..ms + 800);
        prop_assert_eq!(lan.nobody, 0);
    }
}
