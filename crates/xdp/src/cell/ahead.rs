//! Keystream ahead of frames: a thread runs the program `fill` (`bpf/ahead.h`), which makes the keystream of each relation's next
//! Seqs, both ways.
//!
//! It wakes when slots run low: the time to the next pass is halved if more than half of a relation's slots were missing, and doubled if
//! less than a quarter were. Without frames it wakes sixteen times a second, without relations never. It never takes more than a quarter
//! of a CPU. A frame that comes before its slot is computed whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::layout;
use crate::error::XdpError;
use crate::programs::Loaded;
use crate::run::answer;

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(64);
/// Share of its time that the thread sleeps at least, as a multiple of what it works.
const REST: u32 = 3;

/// The thread. It ends when this is dropped.
pub(super) struct Filler {
    asked: Arc<Asked>,
    thread: Option<JoinHandle<()>>,
}

struct Asked {
    /// Places of the maps that are in use are below.
    end: AtomicU32,
    stop: AtomicBool,
}

impl Filler {
    /// # Errors
    /// If there can be no thread.
    pub(super) fn start(programs: Arc<Loaded>, at_start: fn()) -> Result<Self, XdpError> {
        let asked = Arc::new(Asked { end: AtomicU32::new(0), stop: AtomicBool::new(false) });
        let of_thread = Arc::clone(&asked);
        let thread = thread::Builder::new().name("cell-ahead".into());
        let thread = thread.spawn(move || {
            at_start();
            run(&programs, &of_thread);
        });
        let thread = thread.map_err(XdpError::Thread)?;
        Ok(Self { asked, thread: Some(thread) })
    }

    /// Fills slots of the places below.
    pub(super) fn serve(&self, end: u32) {
        self.asked.end.store(end, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.asked.stop.store(true, Ordering::Relaxed);
        self.wake();
        // A thread that has panicked fills nothing.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn run(programs: &Loaded, asked: &Asked) {
    let mut period = SHORTEST;
    while !asked.stop.load(Ordering::Relaxed) {
        let end = asked.end.load(Ordering::Relaxed);
        if end == 0 {
            thread::park();
            period = SHORTEST;
            continue;
        }
        let begin = Instant::now();
        let lacked = fill(programs, end, || asked.stop.load(Ordering::Relaxed));
        period = next_period(period, lacked.map_or(0, |[_, most]| most));
        thread::park_timeout(period.max(begin.elapsed() * REST));
    }
}

fn next_period(before: Duration, most: u32) -> Duration {
    let next = if 2 * most > layout::SLOTS {
        before / 2
    } else if 4 * most < layout::SLOTS {
        before * 2
    } else {
        before
    };
    next.clamp(SHORTEST, LONGEST)
}

/// One pass over the places below `end`: the number of slots that were made, and the most that one way of a place lacked. A run makes
/// one slot at the most, and frames pass between two of them.
///
/// One run a system call. For more (`repeat`) the kernel puts the program into the dispatcher of all XDP programs and takes it out
/// again, which rewrites code and waits for every CPU: 15 ms instead of 2 us.
pub(super) fn fill(programs: &Loaded, end: u32, stop: impl Fn() -> bool) -> Result<[u32; 2], XdpError> {
    let (mut place, mut runs, mut made, mut most) = (0, 0, 0, 0);
    while place < end && !stop() {
        let (_, filled) = answer(programs, "fill", &layout::filling(place, end))?;
        let [reached, made_here, most_here] = layout::filled(&filled);
        (made, most) = (made + made_here, most.max(most_here));
        // Frames that spend slots as fast as they are made do not keep the other places waiting.
        runs += 1;
        if reached > place || runs == 2 * layout::SLOTS {
            (place, runs) = (place + 1, 0);
        }
    }
    Ok([made, most])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_follow_the_frames_and_rest_without_them() {
        let mut period = SHORTEST;
        // A slot a millisecond.
        for _ in 0..20 {
            period = next_period(period, (period.as_millis() as u32).min(layout::SLOTS));
        }
        assert_eq!(period, Duration::from_millis(2));
        for _ in 0..20 {
            period = next_period(period, 0);
        }
        assert_eq!(period, LONGEST);
        for _ in 0..20 {
            period = next_period(period, layout::SLOTS);
        }
        assert_eq!(period, SHORTEST);
    }
}
