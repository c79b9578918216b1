//! Whether an interface sends frames that an XDP program redirects to it (generic netlink, family `netdev`, Linux 6.3).
//!
//! A driver that does not drops them, and no program hears of it. A veth does as long as its other end has NAPI, which
//! `gro on` gives it.

use std::io;

use nix::sys::socket::SockProtocol;

use super::link::nested;
use crate::netlink::{self, Message};

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
/// NETDEV_XDP_ACT_NDO_XMIT.
const TRANSMITS_REDIRECTED: u64 = 1 << 2;
/// Command 1, version 1, 0 2.
const GENERIC_HEADER: usize = 4;

/// Whether the interface of this index takes frames that XDP programs redirect to it; none: this kernel does not tell.
pub fn takes_redirected(index: u32) -> Option<bool> {
    let features = family().and_then(|family| {
        let question = request(family, NETDEV_CMD_DEV_GET).number(NETDEV_A_DEV_IFINDEX, index);
        let features: Vec<u8> = ask(question, NETDEV_A_DEV_XDP_FEATURES)?;
        Ok(u64::from_ne_bytes(features.try_into().map_err(|_| io::ErrorKind::InvalidData)?))
    });
    features.ok().map(|features| features & TRANSMITS_REDIRECTED != 0)
}

/// The number of the family `netdev`.
fn family() -> io::Result<u16> {
    let question = request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY).text(CTRL_ATTR_FAMILY_NAME, "netdev");
    let number: Vec<u8> = ask(question, CTRL_ATTR_FAMILY_ID)?;
    Ok(u16::from_ne_bytes(number.try_into().map_err(|_| io::ErrorKind::InvalidData)?))
}

fn request(family: u16, command: u8) -> Message {
    Message::new(family, 0, &[command, 1, 0, 0])
}

/// The value of one attribute of the reply.
fn ask(question: Message, wanted: u16) -> io::Result<Vec<u8>> {
    let answer = question.query_of(SockProtocol::NetlinkGeneric)?;
    let (_, payload) = netlink::parse(&answer)?;
    let found = payload.get(GENERIC_HEADER..).and_then(|attributes| nested(attributes, wanted));
    found.map(Into::into).ok_or_else(|| io::ErrorKind::NotFound.into())
}
