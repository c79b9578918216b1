//! Times that differ from agent to agent. What begins for all agents of a fleet at once, such as an etcd that is back, would come to it at once again
//! and again.

use std::time::{Duration, Instant};

use super::BEAT;

/// A random part of a time.
fn part_of(time: Duration) -> Duration {
    let mut octets = [0; 4];
    match getrandom::fill(&mut octets) {
        Ok(()) => time.mul_f64(f64::from(u32::from_be_bytes(octets)) / f64::from(u32::MAX)),
        // Without a random number it comes when those of others do.
        Err(_) => time,
    }
}

/// Something between half of a time and all of it.
pub(super) fn at_most(time: Duration) -> Duration {
    time / 2 + part_of(time / 2)
}

/// Something between an eighth of a time and all of it, for a pause from which all agents of a fleet come back: the wider, the fewer of them at once.
pub(super) fn wide(time: Duration) -> Duration {
    time / 8 + part_of(time * 7 / 8)
}

/// Time of the next heartbeat after one at `now`. All agents of a fleet may have had news at once: the next one comes in the second half of an
/// interval, and each further one an interval later.
pub(super) fn next_beat(now: Instant, had_news: bool) -> Instant {
    now + if had_news { at_most(BEAT) } else { BEAT }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All four quarters of what they can be, of 200 agents.
    fn are_spread(times: impl Fn() -> Duration, from: Duration, to: Duration) {
        let mut quarters = [0; 4];
        for _ in 0..200 {
            let time = times();
            assert!(from <= time && time <= to, "{time:?}");
            let place = (time - from).as_secs_f64() / (to - from).as_secs_f64();
            quarters[((place * 4.0) as usize).min(3)] += 1;
        }
        assert!(quarters.iter().all(|count| *count > 20), "{quarters:?}");
    }

    #[test]
    fn agents_that_had_news_at_once_do_not_come_at_once_again() {
        let now = Instant::now();
        are_spread(|| next_beat(now, true) - now, BEAT / 2, BEAT);
        assert_eq!(next_beat(now, false) - now, BEAT);
        let pause = Duration::from_secs(60);
        are_spread(|| at_most(pause), pause / 2, pause);
        are_spread(|| wide(pause), pause / 8, pause);
    }
}
