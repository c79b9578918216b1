//! Entry to the LAN of frames out of the tunnel, where a list of VLANs says which of them reach it. What does not reach it teaches nothing.
//!
//! With a SecY the VLAN of a frame is known when the frame is verified. The mark of its chunk says until then which peer sent it.

use arrayvec::ArrayVec;
use tunnel::standby::BeatFrameKind;
use tunnel::{Forwarding, PeerId};
use wire::{Instant, MacAddr};

use super::counters::SitePathCounters;
use super::vlans::{UNTAGGED, VlanList};
use crate::pipeline::give_refused;
use netdev::burst::{BURST_FRAMES, Burst};
use netdev::pool::Pool;

/// Peers whose frames wait for the LAN, and are to be heard when these reach it.
#[derive(Default)]
pub(super) struct Origins(ArrayVec<PeerId, BURST_FRAMES>);

impl Origins {
    /// Notes the peer of a frame of a burst, if it is to be heard. The mark for its chunk.
    pub(super) fn note(&mut self, from: Option<PeerId>) -> u8 {
        match from.map(|from| self.0.try_push(from)) {
            Some(Ok(())) => self.0.len() as u8,
            // A burst has room for all of its frames.
            Some(Err(_)) | None => 0,
        }
    }

    /// The peer behind a mark.
    fn of(&self, mark: u8) -> Option<PeerId> {
        self.0.get(usize::from(mark).checked_sub(1)?).copied()
    }

    /// All of the burst have reached the LAN, or were dropped.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Parts of a site that decide on a burst, and learn from it.
pub(super) struct Entry<'a> {
    pub(super) now: Instant,
    /// None: all frames enter, and were heard already.
    pub(super) vlans: Option<&'a VlanList>,
    pub(super) origins: &'a Origins,
    pub(super) forwarding: &'a mut Forwarding,
}

impl Entry<'_> {
    /// Whether frames may be dropped here.
    pub(super) const fn is_guarded(&self) -> bool {
        self.vlans.is_some()
    }

    /// Gives frames back to the pool whose VLAN is not listed, or whose source is a station of this LAN, and counts them; hears the sources
    /// of the others, which keep their order.
    pub(super) fn keep(&mut self, pool: &mut Pool, frames: &mut Burst, counters: &mut SitePathCounters) {
        let Some(vlans) = self.vlans else { return };
        counters.in_pkts_other_vlan += vlans.keep_listed(pool, frames);
        let mut kept = Burst::new();
        for slot in frames.drain() {
            let from = self.origins.of(pool.mark(&slot)).zip(source(pool.frame(&slot)));
            if from.is_none_or(|(from, source)| self.forwarding.hear(self.now, from, source).is_ok()) {
                give_refused(kept.push(slot), pool);
            } else {
                pool.give(slot);
            }
        }
        std::mem::swap(frames, &mut kept);
    }

    /// Hears verified frames by which boxes show that they forward, if the list drops them: they have no tag by their nature, and no list of
    /// any site can change that. How many there are. With `untagged` they enter like all others.
    pub(super) fn hear_boxes(&mut self, pool: &Pool, frames: &Burst) -> u64 {
        if self.vlans.is_none_or(|vlans| vlans.has(UNTAGGED)) {
            return 0;
        }
        let mut heard = 0;
        for slot in frames.slots().iter().filter(|slot| BeatFrameKind::is_own(pool.frame(slot))) {
            heard += 1;
            if let Some((from, source)) = self.origins.of(pool.mark(slot)).zip(source(pool.frame(slot))) {
                self.forwarding.hear_box(self.now, from, source);
            }
        }
        heard
    }
}

/// The source of a frame.
pub(super) fn source(frame: &[u8]) -> Option<MacAddr> {
    frame.get(6..).and_then(<[u8]>::first_chunk).map(|octets| MacAddr(*octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_is_of_the_peer_that_was_noted_with_it() {
        let mut origins = Origins::default();
        assert_eq!((origins.note(None), origins.of(0), origins.of(1)), (0, None, None));
        let marks: Vec<u8> = (0..BURST_FRAMES as u16).map(|peer| origins.note(Some(PeerId(peer)))).collect();
        for (mark, peer) in marks.iter().zip(0..) {
            assert_eq!(origins.of(*mark), Some(PeerId(peer)));
        }
        assert_eq!((origins.note(Some(PeerId(99))), origins.note(None)), (0, 0));
        origins.clear();
        assert_eq!((origins.of(marks[0]), origins.note(Some(PeerId(7)))), (None, 1));
        assert_eq!(origins.of(1), Some(PeerId(7)));
    }
}
