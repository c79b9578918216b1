//! A HELLO as a frame: whose it is, whether its MAC is right.
//!
//! The MAC is over the addresses too. So a HELLO cannot be sent back with its addresses exchanged, even if both stations
//! send the same FrameID; and what the VLAN tag says, which is not under the MAC, is not looked at.

use wire::ethernet::{self, HEADER_OCTETS};
use wire::fieldbus::{self, HELLO_OCTETS, HELLO_SAID_OCTETS, Hello};

use super::{Handshake, HelloDiscard, Say};

/// Octets of a HELLO's frame, without a VLAN tag.
pub const HELLO_FRAME_OCTETS: usize = HEADER_OCTETS + HELLO_OCTETS;

impl Handshake {
    /// The peer's HELLO in this frame. Cheap reasons first: a MAC is made of what can be the peer's alone.
    pub(super) fn read(&self, frame: &[u8]) -> Result<Hello, HelloDiscard> {
        let ethernet = ethernet::Header::parse(frame).map_err(|_| HelloDiscard::Malformed)?;
        if ethernet.ethertype != self.ethertype {
            return Err(HelloDiscard::Malformed);
        }
        let octets = &frame[ethernet.octets()..];
        let header = fieldbus::Header::parse(octets).map_err(|_| HelloDiscard::Malformed)?;
        let (own, peer) = (self.relation.own(), self.relation.peer());
        let way = (ethernet.source, ethernet.destination, header.frame_id);
        if way == (own.0, peer.0, own.1) {
            return Err(HelloDiscard::Reflected);
        }
        if way != (peer.0, own.0, peer.1) {
            return Err(HelloDiscard::OtherRelation);
        }
        let (hello, mac) = Hello::parse(octets).map_err(|_| HelloDiscard::Malformed)?;
        if header.seq.is_some() {
            return Err(HelloDiscard::Malformed);
        }
        if !self.hello_key.verify(ethernet.destination, ethernet.source, &octets[..HELLO_SAID_OCTETS], mac) {
            return Err(HelloDiscard::NotValid);
        }
        if hello.protection != self.protection {
            return Err(HelloDiscard::OtherMode);
        }
        Ok(hello)
    }

    pub(super) fn write(&self, say: &Say) -> [u8; HELLO_FRAME_OCTETS] {
        let ((source, frame_id), (destination, _)) = (self.relation.own(), self.relation.peer());
        let hello = Hello {
            frame_id,
            key_id: say.key_id,
            state: say.state,
            protection: self.protection,
            own: say.own,
            peers: say.peers,
        };
        let said = hello.said();
        let mut frame = [0; HELLO_FRAME_OCTETS];
        let (header, rest) = frame.split_at_mut(HEADER_OCTETS);
        header[..6].copy_from_slice(&destination.0);
        header[6..12].copy_from_slice(&source.0);
        header[12..].copy_from_slice(&self.ethertype.0.to_be_bytes());
        rest[..HELLO_SAID_OCTETS].copy_from_slice(&said);
        rest[HELLO_SAID_OCTETS..].copy_from_slice(&self.hello_key.mac(destination, source, &said));
        frame
    }
}
