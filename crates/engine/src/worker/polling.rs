//! How long a worker without frames looks for some before it sleeps.

use std::time::Duration;

use crate::scheduling::Scheduling;

/// How a worker waits for frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Polling {
    /// Looks again for [`SPIN`] after the last frame, then sleeps: low latency within a burst of traffic, an idle
    /// CPU without. Under real-time scheduling it sleeps whenever it has been awake for a millisecond and there is nothing to do: while
    /// it looks, no ordinary thread of its CPU can run, among them the one of the kernel that may have frames for it
    /// (ksoftirqd), and with steady traffic it would never sleep.
    #[default]
    Adaptive,
    /// Never sleeps: the lowest latency, and a whole CPU for each worker.
    Busy,
    /// Sleeps as soon as there is nothing to do.
    Interrupt,
}

/// How long a worker with adaptive polling looks for frames before it sleeps: longer than the gaps of steady traffic
/// from 10,000 frames/s up, and twice what one sleep and wake-up costs. While it looks, it offers its CPU to whoever
/// else wants it: on a box with few CPUs the frame that it waits for may have to pass a thread on this very CPU.
pub const SPIN: Duration = Duration::from_micros(100);

/// How long a real-time worker with adaptive polling may look for frames without having slept. A sleep lasts until the next frame.
const AWAKE: Duration = Duration::from_millis(1);

impl Polling {
    /// How long after the last frame, and how long after its last sleep, a worker that is scheduled so looks for frames before it
    /// sleeps.
    pub(super) const fn looks_for(self, scheduling: Scheduling) -> [Duration; 2] {
        match (self, scheduling) {
            (Self::Adaptive, Scheduling::Ordinary) => [SPIN, Duration::MAX],
            (Self::Adaptive, Scheduling::Fifo(_)) => [SPIN, AWAKE],
            (Self::Busy, _) => [Duration::MAX; 2],
            (Self::Interrupt, _) => [Duration::ZERO; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_busy_worker_never_sleeps() {
        let (ordinary, fifo) = (Scheduling::Ordinary, Scheduling::Fifo(10));
        for (polling, scheduling, expected) in [
            (Polling::Adaptive, ordinary, [SPIN, Duration::MAX]),
            (Polling::Adaptive, fifo, [SPIN, AWAKE]),
            (Polling::Interrupt, ordinary, [Duration::ZERO; 2]),
            (Polling::Interrupt, fifo, [Duration::ZERO; 2]),
            (Polling::Busy, ordinary, [Duration::MAX; 2]),
            (Polling::Busy, fifo, [Duration::MAX; 2]),
        ] {
            assert_eq!(polling.looks_for(scheduling), expected, "{polling:?}, {scheduling:?}");
        }
    }
}
