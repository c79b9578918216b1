//! Plain mode: VXLAN as in RFC 7348, section 5, unprotected.
//!
//! ```text
//!  flags 1 (0x08: a VNI is there) | reserved 3 | VNI 3 | reserved 1 | the frame
//! ```
//!
//! Reserved bits are sent as 0 and ignored. Left out on purpose: outer UDP source ports by hash of the inner frame
//! (there is one socket), splitting (VXLAN has none), VLAN tags inside.

use arrayvec::ArrayVec;
use wire::ethernet::EtherType;
use wire::tunnel::Taken;

use crate::counters::{InDiscard, OutDiscard};
use crate::packet::Packet;

/// Octets of the header.
pub(crate) const VXLAN_OCTETS: usize = 8;
const VNI_THERE: u8 = 0x08;

/// What is in a VXLAN packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inner {
    Macsec(Taken),
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

/// Reads a packet's header, and what its frame is.
pub(crate) fn parse(vni: u32, packet: &[u8]) -> Result<Inner, InDiscard> {
    let Some(([flags, _, _, _, v0, v1, v2, _], frame)) = packet.split_first_chunk::<VXLAN_OCTETS>() else {
        return Err(InDiscard::BadHeader);
    };
    if flags & VNI_THERE == 0 || u32::from_be_bytes([0, *v0, *v1, *v2]) != vni {
        return Err(InDiscard::BadVni);
    }
    if frame.get(12..14) == Some(&EtherType::EAPOL.0.to_be_bytes()[..]) {
        return Ok(Inner::Eapol);
    }
    Taken::parse(frame).map(Inner::Macsec).map_err(|_| InDiscard::NotMacsec)
}
