//! A participant: this station under one CAK (IEEE 802.1X-2020 clause 9.3), with its identity, sent MNs and
//! peers.

use alloc::collections::VecDeque;
use core::time::Duration;

use suite::mka::{Cak, Drbg, Ick, Kek};
use wire::{Ckn, Instant, Ki, Mi};

use crate::distribution::KeyServerRole;
use crate::election::{ElectedServer, Election};
use crate::fault::ParticipantFaults;
use crate::message::{Listing, Message};
use crate::peers::{Peer, Peers};
use crate::reason::Refusal;
use crate::send_schedule::SendSchedule;
use crate::settings::CakEntry;
use crate::timers::{LIFE, LOSS_DELAY, SAK_TIMEOUT};

/// Minimum spacing between recorded MNs.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// This station under one CAK.
#[derive(Debug)]
pub(crate) struct Participant {
    /// Unique among all participants so far.
    pub(crate) id: u32,
    pub(crate) ckn: Ckn,
    pub(crate) cak: Cak,
    pub(crate) ick: Ick,
    pub(crate) kek: Kek,
    pub(crate) mi: Mi,
    pub(crate) message_numbers: MessageNumbers,
    pub(crate) peers: Peers,
    pub(crate) election: Election,
    pub(crate) schedule: SendSchedule,
    pub(crate) serving: KeyServerRole,
    /// Last rejected SAK, and the reason.
    pub(crate) refused: Option<(Ki, Refusal)>,
    /// Since when it has been live with a key server without any SAK.
    pub(crate) sak_wait_since: Option<Instant>,
    /// Consecutive restarts for lack of a SAK.
    pub(crate) sak_timeouts: u8,
    /// Faults that keep it from securing the link.
    pub(crate) faults: ParticipantFaults,
}

/// MNs of an MI: the last sent one, and recent ones with their times.
#[derive(Debug, Default)]
pub(crate) struct MessageNumbers {
    last: u32,
    /// Recorded MNs with their times, one per half second of a life time.
    samples: VecDeque<(Instant, u32)>,
}

impl MessageNumbers {
    /// The next MN; `None` if all are used.
    pub(crate) fn next(&mut self, now: Instant) -> Option<u32> {
        self.last = self.last.checked_add(1)?;
        if self.samples.back().is_none_or(|(at, _)| now >= *at + SAMPLE_INTERVAL) {
            self.samples.push_back((now, self.last));
        }
        self.forget(now);
        Some(self.last)
    }

    fn forget(&mut self, now: Instant) {
        // MNs after a sample were sent less than half a second later.
        while self.samples.front().is_some_and(|(at, _)| now > *at + SAMPLE_INTERVAL + LIFE) {
            self.samples.pop_front();
        }
    }

    /// True if this MN was sent, within a life time.
    pub(crate) fn is_recent(&self, now: Instant, mn: u32) -> bool {
        let first = self.samples.iter().find(|(at, _)| now <= *at + SAMPLE_INTERVAL + LIFE);
        mn <= self.last && first.is_some_and(|(_, first)| mn >= *first)
    }

    /// True if a later one was sent long enough ago to have been heard, unless lost.
    pub(crate) fn is_behind(&self, now: Instant, mn: u32) -> bool {
        let arrived = self.samples.iter().rev().find(|(at, _)| now >= *at + LOSS_DELAY);
        arrived.is_some_and(|(_, arrived)| mn < *arrived)
    }

    /// True if this MN was never sent.
    pub(crate) const fn is_beyond(&self, mn: u32) -> bool {
        mn > self.last
    }
}

impl Participant {
    pub(crate) fn new(id: u32, entry: CakEntry, drbg: &mut Drbg) -> Self {
        let CakEntry { ckn, cak } = entry;
        Self {
            id,
            ckn,
            ick: cak.ick(&ckn),
            kek: cak.kek(&ckn),
            cak,
            mi: mi(drbg),
            message_numbers: MessageNumbers::default(),
            peers: Peers::default(),
            election: Election::default(),
            schedule: SendSchedule::default(),
            serving: KeyServerRole::default(),
            refused: None,
            sak_wait_since: None,
            sak_timeouts: 0,
            faults: ParticipantFaults::default(),
        }
    }

    /// Restarts under a new MI: for the others, one member leaves and another joins.
    pub(crate) fn draw_mi(&mut self, drbg: &mut Drbg) {
        self.mi = mi(drbg);
        self.message_numbers = MessageNumbers::default();
        self.peers.own_mi_changed();
        self.serving.forget();
        self.sak_wait_since = None;
        self.schedule.request();
    }

    /// Time of a restart, if it has been without a SAK since `since`. The delay grows: a key server that
    /// never gives a SAK does not cause a new MI every few seconds.
    pub(crate) fn sak_timeout_at(&self, since: Instant) -> Instant {
        since + SAK_TIMEOUT * (1 << self.sak_timeouts.min(5))
    }

    /// Our entry in a message, if it has a recent MN.
    pub(crate) fn recent_listing(&self, now: Instant, message: &Message<'_>) -> Option<Listing> {
        message.listing(self.mi).filter(|listing| self.message_numbers.is_recent(now, listing.mn))
    }

    pub(crate) fn server(&self) -> ElectedServer {
        self.election.server()
    }

    /// The peer that is key server.
    pub(crate) fn server_peer(&self) -> Option<&Peer> {
        match self.server() {
            ElectedServer::Peer(mi) => self.peers.find(mi).filter(|peer| peer.live),
            ElectedServer::Me | ElectedServer::None => None,
        }
    }
}

fn mi(drbg: &mut Drbg) -> Mi {
    let mut octets = [0; 12];
    drbg.fill(&mut octets);
    Mi(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::after_start(Duration::from_millis(milliseconds))
    }

    #[test]
    fn an_mn_is_recent_for_a_life_time() {
        let mut message_numbers = MessageNumbers::default();
        assert!(!message_numbers.is_recent(at(0), 0));
        let sent: Vec<u64> = (0..200).map(|i| i * 130).collect();
        for (i, &when) in sent.iter().enumerate() {
            assert_eq!(message_numbers.next(at(when)), Some(i as u32 + 1));
            for (j, &earlier) in sent[..=i].iter().enumerate() {
                let (age, recent) = (when - earlier, message_numbers.is_recent(at(when), j as u32 + 1));
                assert!(recent || age > 6000, "{age} ms");
                assert!(!recent || age <= 7000, "{age} ms");
            }
            assert!(!message_numbers.is_recent(at(when), i as u32 + 2));
            assert!(message_numbers.samples.len() <= 16);
        }
        let last = sent.len() as u32;
        assert!(message_numbers.is_recent(at(26_000), last) && !message_numbers.is_recent(at(40_000), last));
    }

    use alloc::vec::Vec;
}
