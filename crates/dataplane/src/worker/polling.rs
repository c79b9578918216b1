//! Idle policy: the time for which a worker without frames looks for some before it sleeps.
//!
//! Looking is worth its CPU time only where nobody else wants the CPU. A worker that looks offers its CPU after each look
//! (sched_yield), and measures for how long it was away: longer than [`AWAY`], and a sleep would have cost it less. Then it does
//! not look but sleeps at once, as with [`Polling::Interrupt`], for a while that doubles from [`SHY`] to [`SHYEST`] as often as
//! a new try ends alike, and halves with each that does not.
//!
//! A worker whose links send at ticks ([`crate::cover`]) waits in a way that does not depend on what came, for the moment at which a
//! tick's frame leaves is seen by everybody. It never looks for frames but sleeps at once, until [`TICK_LEAD`] before the next tick. From
//! then on it takes nothing and watches the clock.
//!
//! ```text
//!     sleeps, wakes for frames      │ TICK_LEAD: watches the clock │ frames of the tick │ a turn │ sleeps …
//!  ─────────────────────────────────┴──────────────────────────────▲ tick
//! ```

use std::time::{Duration, Instant};

use netdev::scheduling::{MAX_REAL_TIME, Scheduling};

/// A worker's way of waiting for frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Polling {
    /// Looks again for [`SPIN`] after the last frame, then sleeps: low latency within a burst of traffic, an idle
    /// CPU without. It sleeps at once while others want its CPU. Under real-time scheduling it sleeps whenever it has been awake
    /// for a millisecond and there is nothing to do: only a wake-up lets it go first again.
    #[default]
    Adaptive,
    /// Never sleeps: the lowest latency, and a whole CPU for each worker.
    Busy,
    /// Sleeps as soon as there is nothing to do.
    Interrupt,
}

/// Time for which a worker with adaptive polling looks for frames before it sleeps: longer than the gaps of steady traffic
/// from 10,000 frames/s up, and twice what one sleep and wake-up costs.
pub const SPIN: Duration = Duration::from_micros(100);

/// Time before a tick in which a worker takes no frames, but waits for the tick alone: longer than a sleep lasts beyond its end, and than
/// most turns that are under way when it begins.
pub const TICK_LEAD: Duration = Duration::from_micros(150);

/// Cost of a sleep and a wake-up. A worker that was away for longer had better slept.
const AWAY: Duration = Duration::from_micros(50);

/// Time without looking after others wanted the CPU: the shortest, and the longest after they did again and again.
const SHY: Duration = Duration::from_millis(1);
const SHYEST: Duration = Duration::from_secs(1);

/// The next step of a worker that has nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdleAction {
    /// Looks again at once.
    Look,
    /// Offers its CPU, and looks again when it gets it back.
    Yield,
    /// Sleeps.
    Sleep,
}

/// Decides between looking for frames and sleeping. The worker's thread reports each turn to it.
#[derive(Debug)]
pub struct IdlePolicy {
    polling: Polling,
    awake_at_most: Duration,
    awake_since: Option<Instant>,
    idle_since: Option<Instant>,
    /// Frames came since the last sleep. Whoever woke for anything else need not look for more.
    met: bool,
    /// Moment at which the CPU was offered, if it was since the last turn.
    offered: Option<Instant>,
    shy: Duration,
    shy_until: Option<Instant>,
}

impl IdlePolicy {
    /// Of a thread that is scheduled so.
    pub const fn new(polling: Polling, scheduling: Scheduling) -> Self {
        let awake_at_most = match scheduling {
            Scheduling::Ordinary => Duration::MAX,
            Scheduling::Fifo(_) => MAX_REAL_TIME,
        };
        Self {
            polling,
            awake_at_most,
            awake_since: None,
            idle_since: None,
            met: false,
            offered: None,
            shy: Duration::ZERO,
            shy_until: None,
        }
    }

    /// A turn begins.
    pub fn begin(&mut self, now: Instant) {
        if self.offered.take().is_some_and(|offered| now.saturating_duration_since(offered) >= AWAY) {
            self.shy = (self.shy * 2).clamp(SHY, SHYEST);
            self.shy_until = Some(now + self.shy);
        }
        self.awake_since.get_or_insert(now);
    }

    /// The turn had something to do: frames, or no frames.
    pub const fn busy(&mut self, frames: bool) {
        self.idle_since = None;
        self.met |= frames;
    }

    /// The turn that began at `now` had nothing to do. What next?
    pub fn idle(&mut self, now: Instant) -> IdleAction {
        match self.polling {
            Polling::Busy => return IdleAction::Look,
            Polling::Interrupt => return IdleAction::Sleep,
            Polling::Adaptive => {}
        }
        if !self.met || self.shy_until.is_some_and(|until| now < until) {
            return IdleAction::Sleep;
        }
        let since = |moment: Instant| now.saturating_duration_since(moment);
        if since(*self.idle_since.get_or_insert(now)) >= SPIN {
            self.shy = if self.shy > SHY { self.shy / 2 } else { Duration::ZERO };
            return IdleAction::Sleep;
        }
        if self.awake_since.map_or(Duration::ZERO, since) >= self.awake_at_most {
            return IdleAction::Sleep;
        }
        IdleAction::Yield
    }

    /// The turn of a worker with ticks had nothing to do. What next? The same whatever came before.
    pub const fn idle_between_ticks(&self) -> IdleAction {
        match self.polling {
            Polling::Busy => IdleAction::Look,
            Polling::Adaptive | Polling::Interrupt => IdleAction::Sleep,
        }
    }

    /// The CPU is offered to others now.
    pub const fn yields(&mut self, now: Instant) {
        self.offered = Some(now);
    }

    /// A sleep is over.
    pub const fn slept(&mut self) {
        (self.awake_since, self.idle_since, self.met) = (None, None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_micros(1);

    /// Looks until it sleeps, and is away for so long behind each look; returns for how many looks.
    fn rest(idle: &mut IdlePolicy, now: &mut Instant, away: Duration) -> usize {
        idle.begin(*now);
        idle.busy(true);
        for number in 0..1000 {
            *now += LOOK;
            idle.begin(*now);
            match idle.idle(*now) {
                IdleAction::Sleep => {
                    idle.slept();
                    return number;
                }
                IdleAction::Yield => {
                    idle.yields(*now);
                    *now += away;
                }
                IdleAction::Look => {}
            }
        }
        usize::MAX
    }

    #[test]
    fn only_a_busy_worker_never_sleeps() {
        let mut now = Instant::now();
        for (polling, scheduling, expected) in [
            (Polling::Adaptive, Scheduling::Ordinary, 100),
            (Polling::Adaptive, Scheduling::Fifo(10), 100),
            (Polling::Interrupt, Scheduling::Ordinary, 0),
            (Polling::Busy, Scheduling::Ordinary, usize::MAX),
        ] {
            let mut idle = IdlePolicy::new(polling, scheduling);
            let looked = rest(&mut idle, &mut now, Duration::ZERO);
            assert_eq!(looked, expected, "{polling:?}, {scheduling:?}");
        }
    }

    #[test]
    fn nobody_looks_for_more_who_has_met_no_frame() {
        let now = Instant::now();
        let mut idle = IdlePolicy::new(Polling::Adaptive, Scheduling::Ordinary);
        idle.begin(now);
        idle.busy(false);
        assert_eq!(idle.idle(now), IdleAction::Sleep);
    }

    #[test]
    fn who_goes_first_sleeps_each_millisecond() {
        let mut now = Instant::now();
        for (scheduling, expected) in
            [(Scheduling::Fifo(10), IdleAction::Sleep), (Scheduling::Ordinary, IdleAction::Yield)]
        {
            let mut idle = IdlePolicy::new(Polling::Adaptive, scheduling);
            for _ in 0..50 {
                idle.begin(now);
                idle.busy(true);
                now += Duration::from_micros(20);
            }
            idle.begin(now);
            assert_eq!(idle.idle(now), expected, "{scheduling:?}");
        }
    }

    #[test]
    fn nobody_looks_while_others_want_the_cpu() {
        let mut now = Instant::now();
        let mut idle = IdlePolicy::new(Polling::Adaptive, Scheduling::Ordinary);
        assert_eq!(rest(&mut idle, &mut now, LOOK), 50, "being away for a moment is what an offer is for");
        // Somebody computes without end: of all frames hardly one is followed by a look.
        let begin = now;
        let mut looked = 0;
        for _ in 0..100_000 {
            looked += rest(&mut idle, &mut now, Duration::from_millis(3));
            now += Duration::from_micros(100);
        }
        assert!(now - begin > Duration::from_secs(10) && looked <= 10 + 10 + 2, "{looked}");
        // That one is gone: soon all is as it was, also if it is back for a moment now and then.
        now += SHYEST;
        assert_eq!(rest(&mut idle, &mut now, Duration::ZERO), 100);
        for _ in 0..10 {
            rest(&mut idle, &mut now, Duration::ZERO);
        }
        assert_eq!(rest(&mut idle, &mut now, AWAY), 1);
        now += SHY;
        assert_eq!(rest(&mut idle, &mut now, Duration::ZERO), 100);
    }
}
