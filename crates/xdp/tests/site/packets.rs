//! Frames of a LAN, and packets of peers, made without the code under test.

use std::net::SocketAddr;

use suite::tunnel::EpochSecret;
use wire::MacAddr;
use wire::tunnel::Header;

/// The site's own, in identifier mode.
pub(crate) const PORT: u16 = 4790;

pub(crate) fn station(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number])
}

/// A MACsec frame with `body` octets behind its SecTAG; with SCI, or without.
pub(crate) fn frame(source: u8, destination: u8, sci: bool, pn: u32, body: usize) -> Vec<u8> {
    let tci: &[u8] = if sci { &[0x2d, 0x11] } else { &[0x4e, 0] };
    let mut frame =
        [&station(destination).0[..], &station(source).0, &[0x88, 0xe5], tci, &pn.to_be_bytes()].concat();
    if sci {
        frame.extend(station(source).0);
        frame.extend([0, 1]);
    }
    frame.extend((0..body).map(|octet| (octet as u32 ^ pn.wrapping_mul(31)) as u8));
    frame
}

pub(crate) fn secret(peer: u16, epoch: u32, inward: bool) -> EpochSecret {
    EpochSecret::new(&[(2 * (u32::from(peer) + 16 * epoch) + u32::from(inward)) as u8; 32])
}

pub(crate) fn receive_lane(peer: u16, epoch: u32) -> u32 {
    2 * u32::from(peer) + epoch % 2
}

/// Packet of a seq, as a peer makes it: without the kernel's and the tunnel's code.
pub(crate) fn packet(secret: &EpochSecret, lane: u8, seq: u64, header: Header, body: &[u8]) -> Vec<u8> {
    let key = secret.lane_key(lane);
    let (block, fields) = (key.block(seq), header.encode());
    let masked: Vec<u8> = fields.iter().zip(block.mask).map(|(octet, mask)| octet ^ mask).collect();
    [&block.rid.octets()[..], &key.check(block.pad, fields), &masked, body].concat()
}

pub(crate) fn addresses(v6: bool) -> [SocketAddr; 2] {
    let [here, there] =
        if v6 { ["[fd00::1:2]:4790", "[fd00:7::9]:4791"] } else { ["192.0.2.1:4790", "198.51.100.77:4791"] };
    [here.parse().unwrap(), there.parse().unwrap()]
}

pub(crate) fn sum(octets: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for word in octets.chunks(2) {
        sum += u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A payload with everything in front, from the peer or to it, with right checksums.
pub(crate) fn datagram(v6: bool, outward: bool, payload: &[u8]) -> Vec<u8> {
    datagram_between(addresses(v6), outward, payload)
}

/// The same between this site and some other address.
pub(crate) fn datagram_between([here, there]: [SocketAddr; 2], outward: bool, payload: &[u8]) -> Vec<u8> {
    let (v6, mut from, mut to) = (here.is_ipv6(), here, there);
    let mut links = [[2, 9, 9, 9, 9, 1], [2, 9, 9, 9, 9, 2]];
    if !outward {
        std::mem::swap(&mut from, &mut to);
        links.reverse();
    }
    let length = 8 + payload.len() as u16;
    let mut udp = [from.port().to_be_bytes(), to.port().to_be_bytes(), length.to_be_bytes(), [0; 2]].concat();
    let mut ip = match (from.ip(), to.ip()) {
        (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) => {
            let [high, low] = (20 + length).to_be_bytes();
            [&[0x45, 0, high, low, 0, 0, 0x40, 0, 64, 17, 0, 0][..], &from.octets(), &to.octets()].concat()
        }
        (std::net::IpAddr::V6(from), std::net::IpAddr::V6(to)) => {
            let [high, low] = length.to_be_bytes();
            [&[0x60, 0, 0, 0, high, low, 17, 64][..], &from.octets(), &to.octets()].concat()
        }
        _ => unreachable!(),
    };
    if v6 {
        let checksum = match !sum(&[&ip[8..], &[0, 17], &length.to_be_bytes(), &udp, payload].concat()) {
            0 => 0xffff,
            other => other,
        };
        udp[6..8].copy_from_slice(&checksum.to_be_bytes());
    } else {
        let checksum = !sum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    let ethertype: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
    [&links[1][..], &links[0], &ethertype, &ip, &udp, payload].concat()
}

/// Payload of a UDP datagram to the site's port, as its socket would give it.
pub(crate) fn udp_payload(octets: &[u8]) -> Option<&[u8]> {
    let (ip, given) = match octets.get(12..14)? {
        [8, 0]
            if *octets.get(14)? == 0x45
                && *octets.get(23)? == 17
                && octets[20] & 0x3f == 0
                && octets[21] == 0 =>
        {
            (20, usize::from(u16::from_be_bytes([octets[16], octets[17]])).checked_sub(20)?)
        }
        [0x86, 0xdd] if *octets.get(20)? == 17 => {
            (40, usize::from(u16::from_be_bytes([octets[18], octets[19]])))
        }
        _ => return None,
    };
    let udp = octets.get(14 + ip..)?;
    let length = usize::from(u16::from_be_bytes(udp.get(4..6)?.try_into().unwrap()));
    let mine = u16::from_be_bytes(udp.get(2..4)?.try_into().unwrap()) == PORT;
    let payload = udp.get(8..length)?;
    // A packet of QUIC is the manager's.
    (mine && given == length && payload.first()? & 0x40 == 0).then_some(payload)
}
