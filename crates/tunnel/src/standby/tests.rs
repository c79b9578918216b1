//! Two boxes on a virtual clock, and a LAN that delays and loses.

extern crate std;

use std::format;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use wire::time::Instant;

use super::*;

/// The partner has the same T, so a start takes 4T.
const TIMING: Timing = Timing { takeover: DEFAULT_TAKEOVER, longest: Duration::ZERO };

pub(super) fn at(ms: u64) -> Instant {
    Instant::after_start(Duration::from_millis(ms))
}

/// Two boxes. The first one comes first.
#[derive(Clone)]
pub(super) struct Lan {
    pub(super) timing: [Timing; 2],
    /// Speed of each box's clock in percent, and by how many milliseconds it is ahead.
    pub(super) speed: [u64; 2],
    pub(super) ahead: [u64; 2],
    pub(super) boxes: [Option<Election>; 2],
    /// Until when a box stands still.
    pub(super) still: [u64; 2],
    /// Boxes without a link, which were not told.
    pub(super) unplugged: [bool; 2],
    /// Boxes whose interface takes no frame at this moment, and brings them.
    pub(super) full: [bool; 2],
    /// Whether frames wait behind those that a box takes in, in each turn.
    flood: [bool; 2],
    /// Recorded beats that a box hears in each turn, behind those that are alive.
    recorded: [Vec<Beat>; 2],
    /// Beats under way: when they arrive, for whom, and what they say.
    on_wire: Vec<(u64, usize, Beat)>,
    sessions: u64,
    /// Milliseconds in which both forwarded at some moment, and in which nobody did at their end.
    pub(super) both: u64,
    pub(super) nobody: u64,
}

impl Lan {
    pub(super) fn new(timing: Timing) -> Self {
        Self {
            timing: [timing; 2],
            speed: [100; 2],
            ahead: [0; 2],
            boxes: [None, None],
            still: [0; 2],
            unplugged: [false; 2],
            full: [false; 2],
            flood: [false; 2],
            recorded: [vec![], vec![]],
            on_wire: vec![],
            sessions: 0,
            both: 0,
            nobody: 0,
        }
    }

    pub(super) fn start(&mut self, number: usize, ms: u64) {
        self.sessions += 1;
        // What came before it had a socket, it does not hear.
        self.on_wire.retain(|(_, to, _)| *to != number);
        let (timing, now) = (self.timing[number], self.clock(number, ms));
        self.boxes[number] = Some(Election::new(timing, false, number == 0, self.sessions, now));
    }

    /// What a box's own clock says.
    pub(super) fn clock(&self, number: usize, ms: u64) -> Instant {
        at(self.ahead[number]) + Duration::from_micros(10 * self.speed[number] * ms)
    }

    pub(super) fn is_open(&self, number: usize, ms: u64) -> bool {
        let now = self.clock(number, ms);
        self.boxes[number].as_ref().is_some_and(|election| election.gate(now) == Gate::Open)
    }

    /// One step at a time. `delay` says for a beat of a box when it arrives; none: it is lost.
    pub(super) fn step(&mut self, ms: u64, mut delay: impl FnMut(usize) -> Option<u64>) {
        // What stands still is asked too: it may go on at any moment.
        let mut both = self.is_open(0, ms) && self.is_open(1, ms);
        for number in 0..2 {
            if self.still[number] <= ms && self.boxes[number].is_some() {
                both |= self.turn(number, ms, &mut delay);
            }
        }
        self.both += u64::from(both);
        self.nobody += u64::from(!self.is_open(0, ms) && !self.is_open(1, ms));
    }

    /// A worker's turn. Says whether both forwarded at some moment of it, also if that ends with it.
    fn turn(&mut self, number: usize, ms: u64, mut delay: impl FnMut(usize) -> Option<u64>) -> bool {
        let now = self.clock(number, ms);
        let is_other_open = self.is_open(1 - number, ms);
        let Some(election) = &mut self.boxes[number] else { return false };
        let mut was_open = false;
        let mut look = |election: &Election| was_open |= election.gate(now) == Gate::Open;
        election.begin(now);
        look(election);
        self.on_wire.retain(|(arrives, to, beat)| {
            if *to != number || *arrives > ms {
                return true;
            }
            election.hear(now, *beat);
            look(election);
            false
        });
        for beat in &self.recorded[number] {
            assert_eq!(election.hear(now, *beat), Judged::Unproved);
        }
        election.listened(now, !self.flood[number]);
        look(election);
        if let Some(beat) = election.poll_beat(now) {
            let has_left = !self.unplugged[number] && !self.full[number];
            election.sent(now, has_left);
            if let Some(delay) = delay(number).filter(|_| has_left && !self.unplugged[1 - number]) {
                self.on_wire.push((ms + delay, 1 - number, beat));
            }
        }
        look(election);
        if !self.flood[number] {
            // Else the worker would not sleep.
            assert!(election.poll_timeout().is_none_or(|due| due > now), "{ms}: {election:?}");
        }
        was_open && is_other_open
    }

    pub(super) fn run(&mut self, ms: core::ops::Range<u64>) {
        ms.for_each(|ms| self.step(ms, |_| Some(1)));
    }

    pub(super) fn role(&self, number: usize) -> Role {
        self.boxes[number].as_ref().expect("it runs").role().0
    }

    pub(super) fn cause(&self, number: usize) -> Cause {
        self.boxes[number].as_ref().expect("it runs").role().1
    }

    /// Two boxes that have found each other, up to that moment. The first one is active.
    fn settled(ms: u64) -> Self {
        Self::settled_with(TIMING, ms)
    }

    pub(super) fn settled_with(timing: Timing, ms: u64) -> Self {
        let mut lan = Self::new(timing);
        lan.start(0, 0);
        lan.start(1, 3);
        lan.run(0..ms);
        assert_eq!((lan.role(0), lan.role(1), lan.both), (Role::Active, Role::Standby, 0));
        lan.nobody = 0;
        lan
    }

    /// The same, after a hand-over: the second one is active, and the first still comes first.
    pub(super) fn handed_over(timing: Timing, ms: u64) -> Self {
        let mut lan = Self::settled_with(timing, ms / 2);
        assert!(lan.boxes[0].as_mut().expect("it runs").hand_over(at(ms / 2)));
        lan.run(ms / 2..ms);
        assert_eq!((lan.role(0), lan.role(1), lan.both), (Role::Standby, Role::Active, 0));
        lan.nobody = 0;
        lan
    }
}

#[test]
fn the_first_of_two_that_start_forwards_and_a_lone_one_does() {
    let lan = Lan::settled(300);
    assert_eq!(lan.cause(0), Cause::ComesFirst);
    for number in 0..2 {
        let mut lan = Lan::new(TIMING);
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

/// The box that stood by stands still while the active one dies and starts anew, and goes on when that one has nearly listened to the end. It follows, since
/// it hears a new start, and the new start does not know it yet.
#[test]
fn a_box_that_shows_itself_at_the_end_of_listening_is_waited_for() {
    for resumes in 500..580 {
        for delay in 0..8 {
            let mut lan = Lan::handed_over(TIMING, 400);
            lan.boxes[1] = None;
            lan.still[0] = resumes;
            lan.start(1, 401);
            for ms in 401..800 {
                lan.step(ms, |from| Some(if from == 0 { delay } else { 1 }));
            }
            assert_eq!(lan.both, 0, "{resumes}, {delay}");
            let forward = (0..2).filter(|number| lan.role(*number) == Role::Active).count();
            assert_eq!(forward, 1, "{resumes}, {delay}");
        }
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

/// The active box stands still and listens then; the other one hears that after a pause of its own, which is nearly T. It does not follow at the last
/// moment: two beats by which it tells that may be lost.
#[test]
fn what_waited_for_long_is_not_followed() {
    for first in [26, 30, 36] {
        for begins in 0..12 {
            for second in 15..50 {
                let mut lan = Lan::settled(300);
                let resumes = 300 + first;
                let mut lost = 0;
                for ms in 300..600 {
                    if ms == 300 {
                        lan.still[0] = resumes;
                    }
                    if ms == resumes + begins {
                        lan.still[1] = ms + second;
                    }
                    lan.step(ms, |from| {
                        let is_lost = from == 1 && ms >= resumes + begins && lost < 2;
                        lost += u32::from(is_lost);
                        (!is_lost).then_some(1)
                    });
                }
                assert_eq!(lan.both, 0, "{first} {begins} {second}");
                assert_ne!(lan.role(0), lan.role(1), "{first} {begins} {second}");
            }
        }
    }
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
    assert!(lan.both <= 6, "{}", lan.both);
    // Whoever hears first that it is not heard yields.
    assert_eq!((lan.role(0), lan.role(1)), (Role::Standby, Role::Active));
}

/// Two beats of the active box are lost, and the next one waits in the socket of the box that stands by, which stands still for a moment.
#[test]
fn a_beat_that_waits_is_no_silence() {
    for (active, lan) in [(0, Lan::settled(2400)), (1, Lan::handed_over(TIMING, 2400))] {
        for still in 2400..2445 {
            for (time, lost) in [(11, 7), (20, 5), (24, 4)] {
                let mut lan = lan.clone();
                let mut beats = 0;
                for ms in 2400..2600 {
                    if ms == still {
                        lan.still[1 - active] = ms + time;
                    }
                    lan.step(ms, |from| {
                        beats += u64::from(from == active);
                        (from != active || beats > lost).then_some(1)
                    });
                }
                let what =
                    format!("{active} active, {lost} lost, the other one still for {time} from {still}");
                assert_eq!((lan.both, lan.nobody), (0, 0), "{what}");
                assert_eq!(lan.role(active), Role::Active, "{what}");
            }
        }
    }
}

/// As long as frames wait that came before, a beat may be among them: until that has lasted for 2T.
#[test]
fn a_flood_postpones_a_take_over_and_makes_none() {
    let mut lan = Lan::settled(300);
    lan.flood = [true; 2];
    lan.run(300..1000);
    assert_eq!((lan.role(0), lan.role(1), lan.both, lan.nobody), (Role::Active, Role::Standby, 0, 0));
    lan.boxes[0] = None;
    lan.run(1000..1040);
    assert_eq!(lan.role(1), Role::Standby);
    lan.run(1040..1121);
    assert_eq!((lan.role(1), lan.cause(1)), (Role::Active, Cause::PartnerSilent));
}

/// Old beats of several starts of the partner come without an end, and the two find each other all the same.
#[test]
fn recorded_beats_do_not_keep_two_from_finding_each_other() {
    for starts in [1, 3, 10] {
        let mut lan = Lan::settled(300);
        let mut recorded = [vec![], vec![]];
        let mut ms = 300;
        for _ in 0..starts {
            // Both had these starts, and neither of the present ones knows of them.
            for number in 0..2 {
                lan.boxes[number] = None;
                lan.start(number, ms);
            }
            for _ in 0..200 {
                lan.run(ms..ms + 1);
                ms += 1;
                lan.on_wire.iter().for_each(|(_, to, beat)| recorded[*to].push(*beat));
            }
        }
        lan = Lan { sessions: lan.sessions, ..Lan::new(TIMING) };
        lan.start(0, ms);
        lan.run(ms..ms + 300);
        ms += 300;
        assert_eq!(lan.role(0), Role::Active);
        lan.start(1, ms);
        lan.recorded = recorded;
        lan.run(ms..ms + 600);
        assert_eq!((lan.role(0), lan.role(1), lan.both), (Role::Active, Role::Standby, 0), "{starts}");
    }
}

/// During a change of `takeover` the two boxes have different ones.
#[test]
fn boxes_with_different_times_use_the_larger_ones() {
    let long = Timing { takeover: Duration::from_millis(400), longest: Duration::ZERO };
    for other in 0..2 {
        let mut lan = Lan::new(TIMING);
        lan.timing[other] = long;
        for number in [0, 1] {
            lan.start(number, 0);
        }
        lan.run(0..4000);
        let (active, standby) = (0, 1);
        assert_eq!((lan.role(active), lan.role(standby), lan.both), (Role::Active, Role::Standby, 0));
        let takeovers = lan.boxes.iter().flatten().map(Election::takeovers).sum::<u64>();
        assert_eq!(takeovers, 1);
        let others = lan.boxes.iter().flatten().map(Election::other_takeover).collect::<Vec<_>>();
        assert_eq!(others[1 - other], Some(long.takeover));
        assert_eq!(others[other], Some(TIMING.takeover));
        // The standby starts anew, with the short time beside the long one or the other way round.
        lan.start(standby, 4000);
        lan.nobody = 0;
        lan.run(4000..8000);
        assert_eq!((lan.role(active), lan.role(standby)), (Role::Active, Role::Standby));
        assert_eq!((lan.both, lan.nobody), (0, 0));
        lan.boxes[active] = None;
        lan.run(8000..8401);
        assert_eq!((lan.role(standby), lan.cause(standby)), (Role::Active, Cause::PartnerSilent));
    }
}

/// The partner follows at the last moment, when the leaving box has stopped waiting for it.
#[test]
fn a_partner_that_follows_late_meets_nobody_who_forwards() {
    for late in 20..80 {
        for lost in 0..4 {
            let mut lan = Lan::settled(300);
            assert!(lan.boxes[0].as_mut().unwrap().hand_over(at(300)));
            let mut beats = 0;
            for ms in 300..600 {
                if ms == 302 {
                    lan.still[1] = 300 + late;
                }
                lan.step(ms, |from| {
                    beats += u64::from(from == 0);
                    (from != 0 || beats > lost).then_some(1)
                });
            }
            assert_eq!(lan.both, 0, "{late} ms late, {lost} lost");
            assert_ne!(lan.role(0), lan.role(1));
        }
    }
}

/// A worker without a link sleeps. (`Lan::turn` asks that of all others.)
#[test]
fn a_box_without_a_link_has_nothing_due() {
    let mut lan = Lan::settled(300);
    for election in lan.boxes.iter_mut().flatten() {
        election.set_link(at(300), false);
        assert_eq!(election.poll_timeout(), None);
    }
    lan.run(300..1000);
    for election in lan.boxes.iter_mut().flatten() {
        assert_eq!(election.poll_timeout(), None);
        election.set_link(at(1000), true);
        assert_eq!(election.poll_timeout(), Some(at(1000)), "a beat");
    }
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
    lan.run(300..341);
    assert_eq!((lan.role(0), lan.cause(0)), (Role::Listening, Cause::NotTakenOver));
    lan.run(341..382);
    assert_eq!((lan.role(0), lan.cause(0)), (Role::Active, Cause::PartnerSilent));
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

/// It is told late that its link is gone, or never: its beats do not leave.
#[test]
fn a_box_without_a_link_that_was_not_told_does_not_forward_either() {
    for (active, lan) in [(0, Lan::settled(400)), (1, Lan::handed_over(TIMING, 400))] {
        for number in 0..2 {
            for begins in 400..406 {
                for time in [1, 5, 12, 20, 24, 25, 26, 30, 39, 40, 41, 45, 60, 200, 2000] {
                    let mut lan = lan.clone();
                    let what =
                        || format!("{active} is active, {number} without a link for {time} from {begins}");
                    lan.run(400..begins);
                    lan.unplugged[number] = true;
                    lan.run(begins..begins + time);
                    let is_followed = lan.role(1 - active) == Role::Active;
                    // Up to an interval and the time of a beat under way, in which the last one was sent.
                    if !(35..=41).contains(&time) {
                        assert_eq!(is_followed, number == active && time > 41, "{}", what());
                    }
                    if time > 30 && number == active {
                        assert_eq!((lan.role(number), lan.cause(number)), (Role::Listening, Cause::NoLink));
                    }
                    lan.unplugged[number] = false;
                    lan.run(begins + time..begins + time + 400);
                    assert_eq!(lan.both, 0, "{}", what());
                    assert_eq!(
                        (0..2).filter(|number| lan.role(*number) == Role::Active).count(),
                        1,
                        "{}",
                        what()
                    );
                    // A short one changes nothing, and no matter what happens to the box that stands by.
                    if time < 15 || number != active {
                        assert_eq!(lan.role(active), Role::Active, "{}", what());
                        assert_eq!(lan.nobody, 0, "{}", what());
                    }
                }
            }
        }
    }
}

/// The active one stands still, and then the other one has no link: each for less than T, together for longer.
#[test]
fn time_without_a_link_is_no_silence() {
    for (active, lan) in [(0, Lan::settled(400)), (1, Lan::handed_over(TIMING, 400))] {
        for begins in 400..406 {
            for still in 1..20 {
                for time in 1..60 {
                    let mut lan = lan.clone();
                    let resumes = begins + still;
                    lan.run(400..begins);
                    lan.still[active] = resumes;
                    lan.run(begins..resumes);
                    lan.unplugged[1 - active] = true;
                    lan.run(resumes..resumes + time);
                    lan.unplugged[1 - active] = false;
                    lan.run(resumes + time..resumes + time + 200);
                    assert_eq!(lan.both, 0, "{active} {begins} {still} {time}");
                    assert_eq!(lan.role(1 - active), Role::Standby, "{active} {begins} {still} {time}");
                }
            }
        }
    }
}

/// A lone one, too: somebody else may have begun meanwhile.
#[test]
fn a_box_whose_partner_is_dead_forwards_until_its_beats_leave_no_more() {
    let mut lan = Lan::settled(300);
    lan.boxes[1] = None;
    lan.run(300..1000);
    assert_eq!((lan.role(0), lan.nobody), (Role::Active, 0));
    lan.unplugged[0] = true;
    lan.run(1000..1026);
    assert!(!lan.is_open(0, 1026));
    lan.run(1026..3000);
    assert_eq!((lan.role(0), lan.cause(0)), (Role::Listening, Cause::NoLink));
    lan.unplugged[0] = false;
    lan.run(3000..3160);
    assert_eq!(lan.role(0), Role::Listening);
    lan.run(3160..3170);
    assert_eq!((lan.role(0), lan.cause(0)), (Role::Active, Cause::PartnerSilent));
}

/// A box starts, and its LAN is not connected.
#[test]
fn a_box_without_a_link_from_its_start_does_not_believe_that_it_is_alone() {
    for number in 0..2 {
        let mut lan = Lan::settled(300);
        let other = 1 - number;
        lan.boxes[number] = None;
        lan.run(300..400);
        lan.start(number, 400);
        lan.unplugged[number] = true;
        lan.run(400..1000);
        assert_eq!((lan.role(number), lan.role(other)), (Role::Listening, Role::Active));
        lan.unplugged[number] = false;
        lan.run(1000..1400);
        assert_eq!((lan.role(number), lan.role(other), lan.both), (Role::Standby, Role::Active, 0));
    }
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
    // A link that was gone is not the cause.
    lan.unplugged[1] = true;
    lan.run(2000..2100);
    lan.unplugged[1] = false;
    lan.run(2100..2200);
    let refused = lan.boxes[1].as_mut().unwrap();
    refused.set_link(at(2200), false);
    refused.set_link(at(2201), true);
    lan.run(2202..3000);
    assert_eq!((lan.role(1), lan.cause(1)), (Role::Listening, Cause::SameSci));
}

#[test]
fn recorded_beats_are_worthless() {
    let mut lan = Lan::settled(300);
    let mut recorded = vec![];
    for ms in 300..400 {
        lan.run(ms..ms + 1);
        recorded.extend(lan.on_wire.iter().filter(|(_, to, _)| *to == 1).map(|(.., beat)| *beat));
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
    for ms in 500..750 {
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
    /// It loses its link, or has it again.
    Replug(usize),
    Nothing,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        (0..2_usize).prop_map(Happens::Kill),
        (0..2_usize).prop_map(Happens::Start),
        (0..2_usize, 1..300_u64).prop_map(|(number, time)| Happens::Still(number, time)),
        (0..2_usize).prop_map(Happens::HandOver),
        (0..2_usize).prop_map(Happens::Replug),
        Just(Happens::Nothing),
    ]
}

proptest! {
    /// Any order of deaths, starts, stalls, hand-overs and lost links, with beats that are up to 8 ms late: never both. And once nothing
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
                    election.begin(at(ms));
                    let _ = election.hand_over(at(ms));
                },
                Happens::Replug(number) => lan.unplugged[number] = !lan.unplugged[number],
                Happens::Nothing => {}
            }
            for ms in ms..ms + time {
                lan.step(ms, |_| delays.next().copied());
            }
            ms += time;
        }
        prop_assert_eq!(lan.both, 0);
        for number in 0..2 {
            (lan.still[number], lan.unplugged[number]) = (0, false);
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
