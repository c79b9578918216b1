//! Plain mode: VXLAN as in RFC 7348, section 5, unprotected.
//!
//! ```text
//!  flags 1 (0x08: a VNI is there) | reserved 3 | VNI 3 | reserved 1 | the frame
//! ```
//!
//! Reserved bits are sent as 0 and ignored on reception. Left out on purpose: outer UDP source ports by hash
//! of the inner frame (there is one socket), fragmentation (VXLAN has none). Inner VLAN tags stay where they are, as a kernel's vxlan
//! interface leaves them.

use arrayvec::ArrayVec;
use wire::ethernet::{EtherType, Header};
use wire::time::Instant;
use wire::tunnel::{Flow, ParsedFrame};

use crate::counters::{InDiscard, OutDiscard};
use crate::flows::Flows;
use crate::packet::{Destination, Packet, Route};
use crate::settings::{LaneShare, Limits};
use crate::site_state::{PeerContext, SiteState};

/// Octets of the header.
pub(crate) const VXLAN_OCTETS: usize = 8;
const VNI_THERE: u8 = 0x08;

/// State of plain mode towards one peer.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) vni: u32,
    /// Flows that somebody else may forward. Their numbers are on no wire.
    pub(crate) flows: Flows,
}

impl Plain {
    pub(crate) fn new(vni: u32, limits: &Limits) -> Self {
        Self { vni, flows: Flows::new(limits, LaneShare::WHOLE) }
    }

    /// The packet of a routed frame of `octets` octets.
    pub(crate) fn dispatch(
        &mut self,
        now: Instant,
        context: &PeerContext,
        state: &mut SiteState,
        route: &Route,
        octets: usize,
    ) -> Result<Packet, OutDiscard> {
        let flow = &route.taken.flow;
        if flow.cyclic().is_some() {
            return Err(OutDiscard::Cyclic);
        }
        let packet = encapsulate(self.vni, context.path_payload, octets)?;
        if state.offers && route.destination != Destination::All && flow.is_untagged_macsec() {
            self.offer(now, context, state, flow);
        }
        Ok(packet)
    }

    /// Tells that a flow is in use, if that is due. One that finds no room is not told of: it goes this way alone.
    #[inline(never)]
    fn offer(&mut self, now: Instant, context: &PeerContext, state: &mut SiteState, flow: &Flow) {
        let hash = state.hasher.flow(flow);
        if self.flows.find(hash, flow).is_none() {
            self.number(now, state, flow);
        }
        if let Some(slot) = self.flows.find(hash, flow)
            && let Some(given) = self.flows.used(now, slot)
        {
            state.offer(now, context, given);
        }
    }

    /// Gives a flow a number, if there is room.
    fn number(&mut self, now: Instant, state: &SiteState, flow: &Flow) {
        let liveness = state.live.liveness(now, flow);
        if self.flows.admits(&state.hasher, flow, liveness).is_err() {
            return;
        }
        if let Some(given) = self.flows.assign(now, &state.hasher, *flow, liveness) {
            given.acknowledged = true;
        }
        if self.flows.run_short() {
            self.flows.begin_epoch();
        }
    }
}

/// Contents of a VXLAN packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inner {
    Macsec(ParsedFrame),
    Eapol,
}

/// Puts the header in front of a frame.
pub(crate) fn encapsulate(vni: u32, path_payload: usize, frame: usize) -> Result<Packet, OutDiscard> {
    if VXLAN_OCTETS + frame > path_payload {
        return Err(OutDiscard::TooLong);
    }
    let [_, v0, v1, v2] = vni.to_be_bytes();
    let header = ArrayVec::from_iter([VNI_THERE, 0, 0, 0, v0, v1, v2, 0]);
    Ok(Packet { header, body: 0..frame })
}

/// Parses a packet's header and identifies its frame.
pub(crate) fn parse(vni: u32, packet: &[u8]) -> Result<Inner, InDiscard> {
    let Some(([flags, _, _, _, v0, v1, v2, _], frame)) = packet.split_first_chunk::<VXLAN_OCTETS>() else {
        return Err(InDiscard::BadHeader);
    };
    if flags & VNI_THERE == 0 || u32::from_be_bytes([0, *v0, *v1, *v2]) != vni {
        return Err(InDiscard::BadVni);
    }
    if Header::parse(frame).is_ok_and(|header| header.ethertype == EtherType::EAPOL) {
        return Ok(Inner::Eapol);
    }
    ParsedFrame::parse(frame).map(Inner::Macsec).map_err(|_| InDiscard::NotMacsec)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn frame(ether_type: [u8; 2]) -> Vec<u8> {
        [&[2; 12], &ether_type[..], &[0x0c, 0, 0, 0, 0, 1], &[9; 40]].concat()
    }

    /// The header of RFC 7348, section 5, octet for octet.
    #[test]
    fn the_header_is_that_of_the_rfc() {
        let packet = encapsulate(0x12_3456, 1472, 60).expect("it fits");
        assert_eq!(packet.header[..], [0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(packet.body, 0..60);
        assert!(encapsulate(1, 68, 60).is_ok());
        assert_eq!(encapsulate(1, 67, 60), Err(OutDiscard::TooLong));
    }

    #[test]
    fn what_is_received() {
        let packet = |header: [u8; 8], ether_type| [&header[..], &frame(ether_type)].concat();
        let (good, macsec) = ([8, 0, 0, 0, 0, 1, 2, 0], [0x88, 0xe5]);
        assert!(matches!(parse(0x102, &packet(good, macsec)), Ok(Inner::Macsec(_))));
        // Reserved bits are ignored.
        assert!(parse(0x102, &packet([0xff, 1, 2, 3, 0, 1, 2, 9], macsec)).is_ok());
        assert_eq!(parse(0x102, &packet(good, [0x88, 0x8e])), Ok(Inner::Eapol));
        let tagged = |ether_type: [u8; 2]| {
            let mut inner = frame(ether_type);
            inner.splice(12..12, [0x81, 0, 0, 7]);
            [&good[..], &inner].concat()
        };
        assert!(
            matches!(parse(0x102, &tagged(macsec)), Ok(Inner::Macsec(taken)) if taken.flow.tags.octets() == 4)
        );
        assert_eq!(parse(0x102, &tagged([0x88, 0x8e])), Ok(Inner::Eapol));
        assert_eq!(parse(0x102, &packet([0xf7, 0, 0, 0, 0, 1, 2, 0], macsec)), Err(InDiscard::BadVni));
        assert_eq!(parse(0x103, &packet(good, macsec)), Err(InDiscard::BadVni));
        assert_eq!(parse(0x102, &packet(good, [0x08, 0x00])), Err(InDiscard::NotMacsec));
        assert_eq!(parse(0x102, &packet(good, macsec)[..27]), Err(InDiscard::NotMacsec));
        assert_eq!(parse(0x102, &good[..7]), Err(InDiscard::BadHeader));
        assert_eq!(parse(0x102, &good), Err(InDiscard::NotMacsec));
    }
}
