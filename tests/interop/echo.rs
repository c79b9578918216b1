//! Echo requests (RFC 792) of every size, as frames: the guest's kernel answers each with the same octets.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lab::{Direction, Machine, PacketSocket};
use testkit::frames;
use wire::{EtherType, MacAddr};

/// Requests under way at once: fewer than the smallest queue on the way holds.
const WINDOW: usize = 16;
/// A request without answer for so long is sent again: queues on the way may overflow on a busy machine.
const PATIENCE: Duration = Duration::from_millis(500);
const ECHO: u8 = 8;
const REPLY: u8 = 0;
const HEADERS: usize = 28;

/// Sends an echo request of each IP length from 28 octets to `mtu`, and sees every one answered, octet for octet.
/// Returns how many had to be sent again.
pub(crate) fn every_size(from: &Machine, to: &Machine, mtu: usize) -> usize {
    let mut socket = PacketSocket::open(&from.namespace, from.ifname).unwrap();
    let mut waiting = (HEADERS..=mtu).collect::<Vec<_>>().into_iter();
    let mut under_way: BTreeMap<usize, Instant> = BTreeMap::new();
    let mut repeated = 0;
    let end = Instant::now() + super::DEADLINE;
    loop {
        for octets in waiting.by_ref().take(WINDOW - under_way.len()) {
            socket.send(&echo(from, to, octets, ECHO)).unwrap();
            under_way.insert(octets, Instant::now());
        }
        if under_way.is_empty() {
            return repeated;
        }
        for (octets, sent) in &mut under_way {
            if sent.elapsed() > PATIENCE {
                socket.send(&echo(from, to, *octets, ECHO)).unwrap();
                (*sent, repeated) = (Instant::now(), repeated + 1);
            }
        }
        assert!(Instant::now() < end, "no answer to {:?} octets", under_way.keys());
        let Some(frame) = socket.receive().unwrap().filter(|frame| frame.direction == Direction::In) else {
            continue;
        };
        let octets = frame.octets.len() - 14;
        let answer = (octets >= HEADERS).then(|| echo(to, from, octets, REPLY));
        // Time to live, identification and both checksums are the kernel's to choose; ARP is not ours.
        let same =
            |answer: &Vec<u8>| answer[..14] == frame.octets[..14] && answer[26..] == frame.octets[26..];
        if answer.as_ref().is_some_and(same) {
            under_way.remove(&octets);
        }
    }
}

/// An IPv4 datagram of `octets` octets with an echo request or reply.
fn echo(from: &Machine, to: &Machine, octets: usize, kind: u8) -> Vec<u8> {
    let payload = frames::payload(octets - HEADERS, octets as u64);
    let mut message = [&[kind, 0, 0, 0, 0xf4, 0x77], &(octets as u16).to_be_bytes()[..], &payload].concat();
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum);
    let mut header = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[2..4].copy_from_slice(&(octets as u16).to_be_bytes());
    header[12..16].copy_from_slice(&from.ipv4.octets());
    header[16..].copy_from_slice(&to.ipv4.octets());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum);
    let datagram = [&header[..], &message].concat();
    frames::ethernet(MacAddr(to.mac), MacAddr(from.mac), EtherType::IPV4, &datagram)
}

/// The Internet checksum (RFC 1071).
fn checksum(octets: &[u8]) -> [u8; 2] {
    let pairs = octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = pairs.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}
