//! Peers that are boxes of one LAN: of two *twins*, one forwards.
//!
//! Stations of a LAN with two boxes are behind the first of them in the table, whichever forwards. Frames for them, and frames for all, go
//! to the box from which a frame came last, since a box that does not forward sends none. A box that hands over still sends what is under way to it
//! for [`DRAIN`], so for [`HOLD`] behind a move none of its frames moves them back. So all stations of a LAN move with one
//! frame, whose packet has a valid identifier: as for stations, nobody has verified the frame yet. One that comes from anywhere else moves none.
//! If that box starts anew, they go to the other one.
//!
//! The other box of this site's own LAN is its *partner*. It is sent no frames, and none of its frames reaches the LAN: the LAN has them.

use alloc::vec::Vec;
use core::time::Duration;

use wire::time::Instant;

use super::Forwarding;
use crate::settings::PeerId;
use crate::standby::DRAIN;

/// Two boxes of another LAN.
#[derive(Debug)]
struct Twin {
    first: PeerId,
    second: PeerId,
    /// The one that forwards: it was heard last, or just before.
    current: Option<PeerId>,
    /// When it followed the other one.
    moved: Option<Instant>,
}

/// Time behind a move for which the box before is not followed: what it lets pass until [`DRAIN`] ends, with half of that for ways of different lengths.
const HOLD: Duration = Duration::from_millis(DRAIN.as_millis() as u64 * 3 / 2);

/// All of them, and the own partner.
#[derive(Debug, Default)]
pub(super) struct Twins {
    twins: Vec<Twin>,
    partner: Option<PeerId>,
    /// Whether some LAN, this one or another, has two boxes: one look for each packet where none has.
    any: bool,
}

impl Twins {
    /// Whether some LAN has two boxes.
    pub(super) const fn has_any(&self) -> bool {
        self.any
    }

    /// The peer behind which stations of this one are.
    pub(super) fn first(&self, peer: PeerId) -> PeerId {
        self.twins.iter().find(|twin| twin.has(peer)).map_or(peer, |twin| twin.first)
    }

    /// A frame of this peer came, and its source is no station of this LAN or of another peer: what comes back from a LAN whose boxes both
    /// forward moves nothing.
    pub(super) fn hear(&mut self, now: Instant, from: PeerId) {
        let Some(twin) = self.twins.iter_mut().find(|twin| twin.has(from)) else { return };
        if twin.current == Some(from) || twin.moved.is_some_and(|moved| now.since(moved) < HOLD) {
            return;
        }
        if twin.current.is_some() {
            twin.moved = Some(now);
        }
        twin.current = Some(from);
    }

    /// This peer has started anew.
    pub(super) fn begin(&mut self, peer: PeerId) {
        if let Some(twin) = self.twins.iter_mut().find(|twin| twin.current == Some(peer)) {
            (twin.current, twin.moved) =
                (Some(if twin.first == peer { twin.second } else { twin.first }), None);
        }
    }

    /// Whether this peer is one of two boxes.
    pub(super) fn has(&self, peer: PeerId) -> bool {
        self.twins.iter().any(|twin| twin.has(peer))
    }

    /// The peer to which frames for stations behind this one go.
    pub(super) fn current(&self, behind: PeerId) -> PeerId {
        if !self.any {
            return behind;
        }
        let twin = self.twins.iter().find(|twin| twin.has(behind));
        twin.and_then(|twin| twin.current).unwrap_or(behind)
    }

    pub(super) fn is_partner(&self, peer: PeerId) -> bool {
        self.partner == Some(peer)
    }
}

impl Twin {
    fn has(&self, peer: PeerId) -> bool {
        self.first == peer || self.second == peer
    }
}

impl Forwarding {
    /// These two peers are boxes of one LAN. Not for the frame path. To be called before the first frame.
    pub fn join_twins(&mut self, first: PeerId, second: PeerId) {
        self.twins.twins.push(Twin { first, second, current: None, moved: None });
        self.twins.any = true;
    }

    /// This peer is the other box of this LAN.
    pub const fn set_partner(&mut self, peer: PeerId) {
        self.twins.partner = Some(peer);
        self.twins.any = true;
    }

    /// True if frames for all peers do not go to this one: its twin forwards, or it is on this LAN.
    pub fn is_passed_over(&self, peer: PeerId) -> bool {
        self.twins.is_partner(peer) || self.twins.current(peer) != peer
    }

    /// Forgets where stations are: this box begins to forward, and knows what it heard when it last did.
    pub const fn forget_stations(&mut self, now: Instant) {
        self.stations.forget_all(now);
    }

    /// Puts addresses of stations behind peers into `into`, as far as there is room, from slot `cursor` of the table on, which moves on.
    /// Looks at 512 slots, or a part in 128 of all.
    pub fn stations_behind(&self, cursor: &mut usize, into: &mut impl Extend<wire::MacAddr>, room: usize) {
        self.stations.behind(cursor, into, room);
    }
}
