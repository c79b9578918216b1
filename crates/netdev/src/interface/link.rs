//! Query of an interface's facts at rtnetlink (RTM_GETLINK, rtnetlink(7)).
//!
//! ```text
//! nlmsghdr 16 | ifinfomsg 16: - 2, type 2, index 4, flags 4, change 4 | attributes
//! ```

use std::io;
use std::mem;

use crate::netlink::{self, ATTRIBUTE_HEADER, Message};

const LINK_HEADER: usize = 16;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
/// Flags in the upper bits of an attribute's type.
const ATTRIBUTE_TYPE: u16 = 0x3fff;

/// Octets of a MAC address, and nothing else.
pub type MacAddress = [u8; 6];

/// Name or number of an interface.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkId<'a> {
    Name(&'a str),
    Index(u32),
}

/// The kernel's facts about an interface.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkFacts {
    pub(crate) index: u32,
    pub(super) hardware_type: u16,
    /// IFF_…
    pub(super) flags: u32,
    pub(super) name: String,
    pub(crate) mac: MacAddress,
    pub(super) mtu: u32,
    pub(super) master: Option<u32>,
    /// Of a veth pair, the other end; of a VLAN, what is below it.
    pub(super) link: Option<u32>,
    /// It is in another network namespace.
    pub(super) link_is_elsewhere: bool,
    pub(super) kind: String,
    pub(super) xdp_program: Option<u32>,
}

/// Asks the kernel; ENODEV if there is no such interface.
pub(crate) fn query(which: LinkId<'_>) -> io::Result<LinkFacts> {
    parse(&request(which)?.query()?)
}

fn request(which: LinkId<'_>) -> io::Result<Message> {
    let (index, name) = match which {
        LinkId::Index(index) => (index, None),
        LinkId::Name(name) if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') => {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        LinkId::Name(name) => (0, Some(name)),
    };
    let mut fixed = [0; LINK_HEADER];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    let message = Message::new(RTM_GETLINK, 0, &fixed);
    Ok(match name {
        Some(name) => message.text(IFLA_IFNAME, name),
        None => message,
    })
}

fn parse(answer: &[u8]) -> io::Result<LinkFacts> {
    let short = || io::Error::other("a netlink answer that ends early");
    let (RTM_NEWLINK, body) = netlink::parse(answer)? else {
        return Err(io::Error::other("a netlink answer to another question"));
    };
    let header = body.get(..LINK_HEADER).ok_or_else(short)?;
    let mut facts = LinkFacts {
        hardware_type: u16::from_ne_bytes([header[2], header[3]]),
        index: number(&header[4..8]).ok_or_else(short)?,
        flags: number(&header[8..12]).ok_or_else(short)?,
        ..LinkFacts::default()
    };
    for (kind, value) in attributes(&body[LINK_HEADER..]) {
        match kind {
            IFLA_ADDRESS => facts.mac = value.try_into().unwrap_or_default(),
            IFLA_IFNAME => facts.name = text(value),
            IFLA_MTU => facts.mtu = number(value).unwrap_or(0),
            IFLA_MASTER => facts.master = number(value).filter(|index| *index != 0),
            IFLA_LINK => facts.link = number(value).filter(|index| *index != 0),
            IFLA_LINK_NETNSID => facts.link_is_elsewhere = true,
            IFLA_LINKINFO => facts.kind = nested(value, IFLA_INFO_KIND).map(text).unwrap_or_default(),
            IFLA_XDP if nested(value, IFLA_XDP_ATTACHED).is_some_and(|attached| attached != [0]) => {
                facts.xdp_program = Some(nested(value, IFLA_XDP_PROG_ID).and_then(number).unwrap_or(0));
            }
            _ => {}
        }
    }
    Ok(facts)
}

pub(crate) fn attributes(mut octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header = octets.get(..ATTRIBUTE_HEADER)?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & ATTRIBUTE_TYPE;
        let value = octets.get(ATTRIBUTE_HEADER..length)?;
        octets = octets.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

pub(super) fn nested(octets: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(octets).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn number(value: &[u8]) -> Option<u32> {
    value.get(..mem::size_of::<u32>())?.try_into().ok().map(u32::from_ne_bytes)
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{HEADER as NETLINK_HEADER, NLMSG_ERROR};

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut octets = ((ATTRIBUTE_HEADER + value.len()) as u16).to_ne_bytes().to_vec();
        octets.extend_from_slice(&kind.to_ne_bytes());
        octets.extend_from_slice(value);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    fn answer(attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut octets = vec![0; NETLINK_HEADER + LINK_HEADER];
        octets[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
        octets[18..20].copy_from_slice(&1u16.to_ne_bytes());
        octets[20..24].copy_from_slice(&7u32.to_ne_bytes());
        octets[24..28].copy_from_slice(&1u32.to_ne_bytes());
        octets.extend(attributes.concat());
        octets
    }

    #[test]
    fn an_answer_is_understood() {
        let xdp = [attribute(IFLA_XDP_ATTACHED, &[1]), attribute(IFLA_XDP_PROG_ID, &9u32.to_ne_bytes())];
        let facts = parse(&answer(&[
            attribute(IFLA_IFNAME, b"enp1s0\0"),
            attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]),
            attribute(IFLA_MTU, &1500u32.to_ne_bytes()),
            attribute(IFLA_MASTER, &3u32.to_ne_bytes()),
            attribute(IFLA_LINK, &8u32.to_ne_bytes()),
            attribute(IFLA_LINK_NETNSID, &0u32.to_ne_bytes()),
            attribute(IFLA_LINKINFO | 0x8000, &attribute(IFLA_INFO_KIND, b"veth\0")),
            attribute(IFLA_XDP, &xdp.concat()),
        ]))
        .unwrap();
        let expected = LinkFacts {
            index: 7,
            hardware_type: 1,
            flags: 1,
            name: "enp1s0".into(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            master: Some(3),
            link: Some(8),
            link_is_elsewhere: true,
            kind: "veth".into(),
            xdp_program: Some(9),
        };
        assert_eq!(facts, expected);
    }

    #[test]
    fn no_xdp_program_is_none() {
        let facts = parse(&answer(&[attribute(IFLA_XDP, &attribute(IFLA_XDP_ATTACHED, &[0]))])).unwrap();
        assert_eq!(facts.xdp_program, None);
    }

    #[test]
    fn errors_and_cut_answers() {
        let mut error = vec![0; NETLINK_HEADER];
        error[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        error.extend_from_slice(&(-libc::ENODEV).to_ne_bytes());
        assert_eq!(parse(&error).unwrap_err().raw_os_error(), Some(libc::ENODEV));
        let whole = answer(&[attribute(IFLA_MTU, &1500u32.to_ne_bytes())]);
        for cut in 0..NETLINK_HEADER + LINK_HEADER {
            assert!(parse(&whole[..cut]).is_err(), "{cut}");
        }
        for cut in NETLINK_HEADER + LINK_HEADER..whole.len() {
            assert_eq!(parse(&whole[..cut]).unwrap().mtu, 0, "{cut}");
        }
    }

    #[test]
    fn impossible_names_are_refused() {
        for name in ["", "a-name-of-sixteen", "nul\0nul"] {
            let error = request(LinkId::Name(name)).err().expect("refused");
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{name:?}");
        }
    }
}
