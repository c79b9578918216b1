//! MKPDUs on their way to a peer: the newest of a sender replaces the one that waits.
//!
//! An MKPDU is worth nothing once its sender has sent another. So few are given to QUIC at a time, which would send each
//! of them for as long as the connection lives; the others wait here, and age.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};

use super::counters::SharedCounters;
use super::transport::kind;
use dataplane::site::{KNOWN_SENDERS, LanFrame, sender_of};

/// Senders whose MKPDU can wait for one peer: all that are known on the LAN, and as many others.
const WAITING: usize = 2 * KNOWN_SENDERS;
/// An MKPDU that has waited for so long is worth nothing: its sender is live no more (IEEE 802.1X table 9-3).
const WORTHLESS: Duration = Duration::from_secs(6);
/// MKPDUs that QUIC has at a time: each lasts a round trip.
const UNDER_WAY: usize = 8;
/// Above everything else.
const PRIORITY: i32 = 2;

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Mkpdus {
    frames: Mutex<VecDeque<Waiting>>,
    some: Notify,
}

/// Outcome of putting an MKPDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PutOutcome {
    Waits,
    Replaces,
    /// There is no room: whoever waits keeps the place.
    Refused,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    frame: LanFrame,
}

impl Mkpdus {
    pub(super) fn put(&self, now: Instant, frame: LanFrame) -> PutOutcome {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        if frames.len() == WAITING {
            frames.retain(|older| now.duration_since(older.since) < WORTHLESS);
        }
        let waiting = Waiting { since: now, frame };
        let put = if let Some(older) =
            frames.iter_mut().find(|older| sender_of(&older.frame) == sender_of(&waiting.frame))
        {
            *older = waiting;
            PutOutcome::Replaces
        } else if frames.len() == WAITING {
            PutOutcome::Refused
        } else {
            frames.push_back(waiting);
            PutOutcome::Waits
        };
        self.some.notify_one();
        put
    }

    fn next(&self) -> Option<LanFrame> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.pop_front().map(|waiting| waiting.frame)
    }

    fn is_empty(&self) -> bool {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Sends them until the connection ends. Whoever has started it ends it where none waits at that moment.
    pub(super) async fn send(
        self: Arc<Self>,
        connection: quinn::Connection,
        shared_counters: Arc<SharedCounters>,
    ) {
        let room = Arc::new(Semaphore::new(UNDER_WAY));
        loop {
            while self.is_empty() {
                self.some.notified().await;
            }
            // Room first: the newest is what is sent, when there is.
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            let Ok(mut stream) = connection.open_uni().await else { return };
            let Some(frame) = self.next() else { continue };
            let written = async {
                let _ = stream.set_priority(PRIORITY);
                stream.write_all(&[kind::MKPDU]).await?;
                stream.write_all(&frame).await
            };
            if written.await.is_err() {
                return;
            }
            let _ = stream.finish();
            shared_counters.count(|counters| counters.out_mkpdus += 1);
            tokio::spawn(async move {
                let _ = stream.stopped().await;
                drop(permit);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(sender: u8, number: u8) -> LanFrame {
        let mut frame = LanFrame::new();
        frame.extend([1, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, sender, 0x88, 0x8e, 3, number]);
        frame
    }

    #[test]
    fn the_newest_of_a_sender_is_what_waits_in_the_place_of_the_first() {
        let (mkpdus, now) = (Mkpdus::default(), Instant::now());
        assert_eq!(mkpdus.put(now, frame(1, 1)), PutOutcome::Waits);
        assert_eq!(mkpdus.put(now, frame(2, 1)), PutOutcome::Waits);
        assert_eq!(mkpdus.put(now, frame(1, 2)), PutOutcome::Replaces);
        assert_eq!(mkpdus.next(), Some(frame(1, 2)));
        assert_eq!(mkpdus.next(), Some(frame(2, 1)));
        assert_eq!(mkpdus.next(), None);
    }

    #[test]
    fn senders_beyond_the_bound_take_nobodys_place() {
        let (mkpdus, begin) = (Mkpdus::default(), Instant::now());
        for sender in 0..WAITING {
            assert_eq!(mkpdus.put(begin, frame(sender as u8, 0)), PutOutcome::Waits);
        }
        let mut other = frame(1, 0);
        other[10] = 1;
        assert_eq!(mkpdus.put(begin, other.clone()), PutOutcome::Refused);
        assert_eq!(mkpdus.put(begin + WORTHLESS / 2, frame(7, 1)), PutOutcome::Replaces);
        // After a jam that nobody survives the places are free again, but for those who spoke since.
        assert_eq!(mkpdus.put(begin + WORTHLESS, other.clone()), PutOutcome::Waits);
        assert_eq!([mkpdus.next(), mkpdus.next(), mkpdus.next()], [Some(frame(7, 1)), Some(other), None]);
    }
}
