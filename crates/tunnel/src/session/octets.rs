//! Octets of packets that both ends have counted ([`PacketOctets`]): whether what an end sends arrives is known to the other end alone.
//!
//! The channel may pass where packets do not, and frames may go one way alone, so neither shows it. An end says its figures if they have
//! changed, and once after the peer's have: the peer hears also that nothing has come. Two ends that are idle say nothing. The caller sets the
//! pace ([`Session::handle_octets`](super::Session::handle_octets)), whatever the peer sends.

use crate::exchange::PacketOctets;

/// What the peer has said of its packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeardOctets {
    /// Its figures.
    pub octets: PacketOctets,
    /// How often it has said some.
    pub messages: u64,
}

/// Figures of both ends, as far as they were told.
#[derive(Clone, Default, Debug)]
pub(super) struct Octets {
    heard: Option<HeardOctets>,
    /// On this connection.
    told: Option<PacketOctets>,
    /// The peer waits for an answer.
    owed: bool,
    due: Option<PacketOctets>,
}

impl Octets {
    /// Takes this end's figures.
    pub(super) fn count(&mut self, octets: PacketOctets) {
        if self.owed || self.told != Some(octets) {
            self.due = Some(octets);
        }
    }

    /// Takes the peer's figures.
    pub(super) fn hear(&mut self, octets: PacketOctets) {
        let before = self.heard;
        self.owed |= before.is_none_or(|before| before.octets != octets);
        let messages = before.map_or(0, |before| before.messages).saturating_add(1);
        self.heard = Some(HeardOctets { octets, messages });
    }

    /// The peer's figures.
    pub(super) const fn heard(&self) -> Option<HeardOctets> {
        self.heard
    }

    /// Figures for the peer.
    pub(super) fn poll(&mut self) -> Option<PacketOctets> {
        let due = self.due.take()?;
        (self.told, self.owed) = (Some(due), false);
        Some(due)
    }

    /// The connection is gone: what was told on it may not have arrived.
    pub(super) const fn disconnected(&mut self) {
        (self.told, self.due) = (None, None);
    }
}
