//! Frames to send: what a machine speaks, with a payload that can be told from any other.

use wire::{EtherType, MacAddr};

/// An untagged frame: `payload` behind DA, SA and EtherType.
pub fn ethernet(destination: MacAddr, source: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    [&destination.0[..], &source.0, &ethertype.0.to_be_bytes(), payload].concat()
}

/// `frame` with a VLAN tag of TPID `tag` and `tci` behind its addresses.
pub fn tagged(frame: &[u8], tag: EtherType, tci: u16) -> Vec<u8> {
    [&frame[..12], &tag.0.to_be_bytes(), &tci.to_be_bytes(), &frame[12..]].concat()
}

/// `octets` octets that depend on `seed`, and differ between neighbours.
pub fn payload(octets: usize, seed: u64) -> Vec<u8> {
    // SplitMix64: what comes out for one seed has nothing to do with what comes out for the next.
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    };
    let mut out = Vec::with_capacity(octets + 8);
    while out.len() < octets {
        out.extend(next());
    }
    out.truncate(octets);
    out
}
