//! The structures of `bpf/window.h` and `bpf/site.bpf.c`, octet by octet, in the machine's byte order.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use suite::Secret;
use suite::tunnel::LaneKey;
use tunnel::{Location, PeerCounters};
use wire::tunnel::{Flow, FlowIndex};
use wire::{EtherType, MacAddr};

use super::flow_path::FlowPath;
use super::report::LaneReport;
use super::settings::Settings;
use super::udp_path::{UdpPath, Vxlan};
use crate::octets::{long, nanoseconds, put, word};

pub(super) const SETTINGS: usize = 72;
pub(super) const TRANSMIT_LANE: usize = 56;
pub(super) const OUTWARD_FLOW: usize = 80;
pub(super) const TURNS: usize = 48;
pub(super) const ANNOUNCED_FLOW: usize = 56;
pub(super) const STATION: usize = 48;
pub(super) const PEER: usize = 8;
pub(super) const PATH: usize = 96;
pub(super) const ADDRESS: usize = 16;
pub(super) const SOURCE: usize = 24;
pub(super) const COMMAND: usize = 64;
pub(super) const COUNTERS: usize = 12;
/// Kinds of strangers' packets (`enum stranger`).
pub(super) const STRANGERS: usize = 5;
/// Counters of such that the programs have.
pub(super) const KINDS: usize = 8;
/// Anchors beyond a window (`ANCHORS`).
const ANCHORS: u64 = 1024;
const KEYS_IN_COMMAND: usize = 24;
const HERE: u32 = 1;
/// Places of a flow's frames (`enum place`).
const USER_SPACE: u32 = 1;
const SETTLING: u32 = 2;
const BEHIND: u32 = 2;
/// The flag of VXLAN that says that there is a VNI.
const VNI_THERE: u8 = 0x08;
/// In place of a port or an EtherType: above all of them.
const NONE: u32 = 1 << 16;
/// Packets to an address come to the socket of the data port (`RECEIVES`), above the kinds of strangers.
pub(super) const RECEIVES: u32 = 1 << 31;
/// Identifiers from a known address may be of lanes that are not watched (`ANY_IDENTIFIER`).
const ANY_IDENTIFIER: u32 = 1 << 31;
/// Offset of the cost of a packet in `struct turns`.
const COST: usize = 32;

/// Commands for a lane (`enum what`).
#[derive(Clone, Copy)]
pub(super) enum What {
    Open,
    FillUp,
    Advance,
    Close,
    Clear,
    Wipe,
    Look,
}

/// Places of a lane in the rings.
pub(super) const fn places(window: u64) -> u64 {
    2 * window + ANCHORS
}

pub(super) fn settings(settings: &Settings, [buckets, watched]: [u32; 2], rest: u32) -> [u8; SETTINGS] {
    let mut octets = [0; SETTINGS];
    put(&mut octets, 0, &settings.window.ilog2().to_ne_bytes());
    put(&mut octets, 4, &(buckets - 1).to_ne_bytes());
    put(&mut octets, 8, &(settings.lan_frame as u32).to_ne_bytes());
    put(&mut octets, 12, &as_read(settings.port).to_ne_bytes());
    put(&mut octets, 16, &rest.to_ne_bytes());
    put(&mut octets, 20, &NONE.to_ne_bytes());
    put(&mut octets, 24, &nanoseconds(settings.station_age).to_ne_bytes());
    put(&mut octets, 32, &nanoseconds(settings.quiet).to_ne_bytes());
    set_cyclic(&mut octets, None);
    put(&mut octets, 44, &(watched - 1).to_ne_bytes());
    put_words(&mut octets[56..], settings.token_key.octets());
    octets
}

/// Sets the EtherType of cells in [`settings`].
pub(super) fn set_cyclic(octets: &mut [u8; SETTINGS], ether_type: Option<EtherType>) {
    put(octets, 40, &ether_type.map_or(NONE, |ether_type| as_read(ether_type.0)).to_ne_bytes());
}

/// Sets the number of known addresses in [`settings`].
pub(super) fn set_knowns(octets: &mut [u8; SETTINGS], knowns: u32) {
    put(octets, 48, &knowns.to_ne_bytes());
}

/// Writes into [`settings`] the longest frame that the LAN takes.
pub(super) fn set_lan_frame(octets: &mut [u8; SETTINGS], lan_frame: usize) {
    put(octets, 8, &(lan_frame as u32).to_ne_bytes());
}

/// Writes into [`settings`] the port of plain mode.
pub(super) fn set_plain_port(octets: &mut [u8; SETTINGS], port: u16) {
    put(octets, 20, &as_read(port).to_ne_bytes());
}

/// An address as the program reads it in a frame.
pub(super) fn address(MacAddr(octets): MacAddr) -> u64 {
    let [a, b, c, d, e, f] = octets;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// 16 bits as the program reads them in a frame.
fn as_read(number: u16) -> u32 {
    u32::from(u16::from_ne_bytes(number.to_be_bytes()))
}

fn put_keys(octets: &mut [u8], key: &LaneKey) {
    let (identifier, check) = key.for_kernel();
    let (first, rest) = octets.split_at_mut(identifier.len());
    put_words(first, identifier);
    put_words(rest, check);
}

/// SipHash reads its key little endian, as the check of headers does its numbers.
fn put_words(octets: &mut [u8], words: &[u8]) {
    for (to, from) in octets.as_chunks_mut::<8>().0.iter_mut().zip(words.as_chunks().0) {
        *to = u64::from_le_bytes(*from).to_ne_bytes();
    }
}

/// A lane that sends, from its first seq on.
pub(super) fn transmit_lane(key: &LaneKey) -> Secret {
    let mut lane = Secret::zeros(TRANSMIT_LANE);
    put(lane.octets_mut(), 0, &1_u64.to_ne_bytes());
    put_keys(&mut lane.octets_mut()[8..48], key);
    put(lane.octets_mut(), 48, &1_u32.to_ne_bytes());
    lane
}

/// Whether a lane is sent on.
pub(super) fn is_open(lane: &[u8; TRANSMIT_LANE]) -> bool {
    word(lane, 48) != 0
}

/// Turns of no worker: what user space has is always done, and costs nobody knows what.
pub(super) fn no_turns() -> [u8; TURNS] {
    let mut octets = [0; TURNS];
    put(&mut octets, 8, &[0xff; COST - 8]);
    octets
}

/// Returns the number of turns that have begun.
pub(super) fn begun(turns: &[u8; TURNS]) -> u64 {
    long(turns, 0)
}

/// A flow that is added now, by the kernel's clock, in this turn of the worker.
pub(super) fn outward_flow(flow: &Flow, path: &FlowPath, now: u64, turn: u64) -> [u8; OUTWARD_FLOW] {
    let mut octets = [0; OUTWARD_FLOW];
    put(&mut octets, 0, &flow.encode());
    let numbers = [path.peer, as_read(path.index.0), path.source, path.destination, SETTLING];
    for (at, number) in numbers.into_iter().enumerate() {
        put(&mut octets, 24 + 4 * at, &number.to_ne_bytes());
    }
    put(&mut octets, 56, &now.to_ne_bytes());
    put(&mut octets, 64, &now.to_ne_bytes());
    put(&mut octets, 72, &turn.to_ne_bytes());
    octets
}

/// Returns the time at which a flow's last frame went through the program, on the kernel's clock; 0: none did. Tells also whether its frames are
/// user space's until it is added anew.
pub(super) fn flow_use(flow: &[u8; OUTWARD_FLOW]) -> (u64, bool) {
    (long(flow, 48), word(flow, 40) == USER_SPACE)
}

pub(super) fn announced_key(peer: u32, index: FlowIndex) -> u32 {
    peer << 16 | u32::from(index.0)
}

pub(super) fn announced_flow(key: u32, flow: &Flow, station: u32) -> [u8; ANNOUNCED_FLOW] {
    let mut octets = [0; ANNOUNCED_FLOW];
    put(&mut octets, 0, &flow.encode());
    put(&mut octets, Flow::OCTETS, &station.to_ne_bytes());
    put(&mut octets, Flow::OCTETS + 4, &key.to_ne_bytes());
    octets
}

/// A station that was heard at a time of the kernel's clock.
pub(super) fn station(of: MacAddr, location: Option<Location>, heard: u64) -> [u8; STATION] {
    let mut octets = [0; STATION];
    let place = match location {
        None => 0,
        Some(Location::Here) => HERE,
        Some(Location::Behind(peer)) => BEHIND + u32::from(peer.0),
    };
    put(&mut octets, 0, &heard.to_ne_bytes());
    put(&mut octets, 8, &place.to_ne_bytes());
    put(&mut octets, 16, &address(of).to_ne_bytes());
    octets
}

/// Returns the place of a station, and the time at which it was heard there on the kernel's clock.
pub(super) fn parse_station(octets: &[u8; STATION]) -> (Option<Location>, u64) {
    let location = match word(octets, 8) {
        0 => None,
        HERE => Some(Location::Here),
        behind => Some(Location::Behind(tunnel::PeerId((behind - BEHIND) as u16))),
    };
    (location, long(octets, 0))
}

pub(super) fn peer(lane: u32, path: u32) -> [u8; PEER] {
    let mut octets = [0; PEER];
    put(&mut octets, 0, &lane.to_ne_bytes());
    put(&mut octets, 4, &path.to_ne_bytes());
    octets
}

pub(super) fn path(path: &UdpPath) -> [u8; PATH] {
    let mut octets = [0; PATH];
    let (head, sum) = path.head();
    put(&mut octets, 0, &head);
    put(&mut octets, 64, &(head.len() as u32).to_ne_bytes());
    put(&mut octets, 68, &sum.to_ne_bytes());
    put(&mut octets, 72, &(path.payload as u32).to_ne_bytes());
    put(&mut octets, 76, &path.port.to_ne_bytes());
    if let Some(Vxlan { vni, receives }) = path.vxlan {
        let [_, high, middle, low] = vni.to_be_bytes();
        put(&mut octets, 80, &[VNI_THERE, 0, 0, 0, high, middle, low, 0]);
        put(&mut octets, 88, &u32::from(receives).to_ne_bytes());
    }
    octets
}

/// An address of a packet.
pub(super) fn ip_address(address: IpAddr) -> [u8; ADDRESS] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Source of a packet: `struct source`.
pub(super) fn source(from: SocketAddr) -> [u8; SOURCE] {
    let mut octets = [0; SOURCE];
    put(&mut octets, 0, &ip_address(from.ip()));
    put(&mut octets, ADDRESS, &as_read(from.port()).to_ne_bytes());
    octets
}

/// Number of a known address, and whether all identifiers pass that come from there.
pub(super) const fn known(number: u32, any_identifier: bool) -> u32 {
    if any_identifier { number | ANY_IDENTIFIER } else { number }
}

/// A command for a lane. On the heap, and wiped when it is dropped.
pub(super) fn command(what: What, lane: u32) -> Secret {
    let mut command = Secret::zeros(COMMAND);
    put(command.octets_mut(), 0, &(what as u32).to_ne_bytes());
    put(command.octets_mut(), 4, &lane.to_ne_bytes());
    command
}

pub(super) fn open(lane: u32, peer: u32, key: &LaneKey) -> Secret {
    let mut command = command(What::Open, lane);
    put(command.octets_mut(), 8, &peer.to_ne_bytes());
    put_keys(&mut command.octets_mut()[KEYS_IN_COMMAND..], key);
    command
}

/// As [`open`], but the lane is only known.
pub(super) fn watch(lane: u32, key: &LaneKey) -> Secret {
    let mut command = open(lane, 0, key);
    put(command.octets_mut(), 12, &1_u32.to_ne_bytes());
    command
}

pub(super) fn clear(lane: u32, from: u32) -> Secret {
    let mut command = command(What::Clear, lane);
    put(command.octets_mut(), 12, &from.to_ne_bytes());
    command
}

pub(super) fn advance(lane: u32, seq: u64) -> Secret {
    let mut command = command(What::Advance, lane);
    put(command.octets_mut(), 16, &seq.to_ne_bytes());
    command
}

pub(super) fn report(octets: &[u8; COMMAND]) -> LaneReport {
    let (now, used) = (long(octets, 0), long(octets, 24));
    LaneReport {
        newest: long(octets, 8),
        missing: long(octets, 16),
        used: (used != 0).then(|| Duration::from_nanos(now.saturating_sub(used))),
        advanced: word(octets, 32) != 0,
        unknown: word(octets, 36).checked_sub(1).map(|index| FlowIndex(index as u16)),
    }
}

/// The time of a report on the kernel's clock.
pub(super) fn now(octets: &[u8; COMMAND]) -> u64 {
    long(octets, 0)
}

/// Counters in their order in the program (`enum counter`), and the stations that moved.
pub(super) fn counters(values: [u64; COUNTERS]) -> (PeerCounters, u64) {
    let [
        out_pkts_tunnelled,
        out_octets_tunnelled,
        out_pkts_seq_exhausted,
        in_pkts_tunnelled,
        in_octets_tunnelled,
        in_pkts_late,
        in_pkts_bad_header,
        in_pkts_forged_header,
        in_pkts_source_here,
        in_pkts_unknown_flow,
        in_pkts_too_long,
        moved,
    ] = values;
    let counters = PeerCounters {
        out_pkts_tunnelled,
        out_octets_tunnelled,
        out_pkts_seq_exhausted,
        in_pkts_tunnelled,
        in_octets_tunnelled,
        in_pkts_late,
        in_pkts_bad_header,
        in_pkts_forged_header,
        in_pkts_source_here,
        in_pkts_unknown_flow,
        in_pkts_too_long,
        ..PeerCounters::default()
    };
    (counters, moved)
}
