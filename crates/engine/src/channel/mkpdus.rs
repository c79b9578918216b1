//! MKPDUs on their way to a peer: the newest of a sender replaces the one that waits.
//!
//! An MKPDU is worth nothing once its sender has sent another. So few are given to QUIC at a time, which would send each
//! of them for as long as the connection lives; the others wait here, and age.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, Semaphore};

use super::counters::Tally;
use super::line::kind;
use crate::site::LanFrame;

/// Senders whose MKPDU can wait for one peer.
const WAITING: usize = 128;
/// MKPDUs that QUIC has at a time: each lasts a round trip.
const UNDER_WAY: usize = 8;
/// Above everything else.
const PRIORITY: i32 = 2;

/// Where the EtherType stands, and what it has to be (IEEE 802.1X clause 11.1).
const EAPOL: [u8; 2] = [0x88, 0x8e];

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Mkpdus {
    frames: Mutex<VecDeque<LanFrame>>,
    some: Notify,
}

/// What became of the one that was put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Put {
    Waits,
    Replaces,
    /// The oldest has given way.
    Crowds,
}

/// Whether this is an untagged EAPOL frame: nothing else is relayed, in neither direction.
pub(super) fn is_eapol(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&EAPOL[..]) && frame.len() > 14
}

fn sender(frame: &LanFrame) -> Option<&[u8]> {
    frame.get(6..12)
}

impl Mkpdus {
    pub(super) fn put(&self, frame: LanFrame) -> Put {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let put = if let Some(older) = frames.iter_mut().find(|older| sender(older) == sender(&frame)) {
            *older = frame;
            Put::Replaces
        } else {
            let crowded = frames.len() == WAITING;
            if crowded {
                frames.pop_front();
            }
            frames.push_back(frame);
            if crowded { Put::Crowds } else { Put::Waits }
        };
        self.some.notify_one();
        put
    }

    fn next(&self) -> Option<LanFrame> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn is_empty(&self) -> bool {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Sends them until the connection ends.
    pub(super) async fn send(self: Arc<Self>, connection: quinn::Connection, tally: Arc<Tally>) {
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
            tally.count(|counters| counters.out_mkpdus += 1);
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
        let mkpdus = Mkpdus::default();
        assert_eq!(mkpdus.put(frame(1, 1)), Put::Waits);
        assert_eq!(mkpdus.put(frame(2, 1)), Put::Waits);
        assert_eq!(mkpdus.put(frame(1, 2)), Put::Replaces);
        assert_eq!(mkpdus.next(), Some(frame(1, 2)));
        assert_eq!(mkpdus.next(), Some(frame(2, 1)));
        assert_eq!(mkpdus.next(), None);
    }

    #[test]
    fn senders_beyond_the_bound_crowd_out_the_oldest() {
        let mkpdus = Mkpdus::default();
        for sender in 0..WAITING {
            assert_eq!(mkpdus.put(frame(sender as u8, 0)), Put::Waits);
        }
        assert_eq!(mkpdus.put(frame(200, 0)), Put::Crowds);
        assert_eq!(mkpdus.next(), Some(frame(1, 0)));
    }

    #[test]
    fn nothing_but_untagged_eapol() {
        assert!(is_eapol(&frame(1, 1)));
        let mut other = frame(1, 1);
        other[13] = 0xe5;
        assert!(!is_eapol(&other));
        assert!(!is_eapol(&frame(1, 1)[..14]) && !is_eapol(&[]));
    }
}
