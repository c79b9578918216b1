//! Offloads that change frames between wire and port, switched by name through ethtool's feature sets.
//!
//! ```text
//! ETHTOOL_GFEATURES: cmd | blocks | { available, requested, active, never_changed } per 32 features
//! ETHTOOL_SFEATURES: cmd | blocks | { valid, requested } per 32 features
//! ```
//! A feature's number is the place of its name in the string set ETH_SS_FEATURES, which differs between kernels:
//! so a record holds names.

#![allow(unsafe_code)]

use std::io;

use super::control::Control;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const NAME_OCTETS: usize = 32;
/// Bound on the number of features, far above that of any kernel.
const MOST_FEATURES: u32 = 4096;

/// Offloads that must be off for frames to come through as they were on the wire.
pub(super) const HARMFUL: [&str; 11] = [
    // Merge frames: what comes out exceeds the MTU.
    "rx-gro",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
    "rx-lro",
    // Take the VLAN tag out of the frame; AF_XDP then never sees it.
    "rx-vlan-hw-parse",
    "rx-vlan-stag-hw-parse",
    // Drop frames of VLANs that the host itself is not in.
    "rx-vlan-filter",
    "rx-vlan-stag-filter",
    // Leave the FCS behind the frame; deliver frames with a wrong one.
    "rx-fcs",
    "rx-all",
];

/// One feature of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Feature {
    pub(super) name: String,
    number: usize,
    /// It can be switched on this interface.
    pub(super) available: bool,
    pub(super) active: bool,
}

/// All features of an interface; empty if its driver knows none.
pub(super) fn features(control: &Control) -> io::Result<Vec<Feature>> {
    let names = match names(control) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(Vec::new()),
        other => other?,
    };
    let blocks = names.len().div_ceil(32);
    let mut words = vec![0u32; 2 + 4 * blocks];
    (words[0], words[1]) = (ETHTOOL_GFEATURES, blocks as u32);
    // SAFETY: as many blocks of four words as announced; the kernel writes no more.
    unsafe { control.ethtool(&mut words) }?;
    let bit = |member: usize, number: usize| words[2 + 4 * (number / 32) + member] >> (number % 32) & 1 == 1;
    Ok(names
        .into_iter()
        .enumerate()
        .map(|(number, name)| Feature {
            name,
            number,
            available: bit(0, number) && !bit(3, number),
            active: bit(2, number),
        })
        .collect())
}

/// The harmful ones that are on.
pub(super) fn harmful(control: &Control) -> io::Result<Vec<Feature>> {
    let mut features = features(control)?;
    features.retain(|feature| feature.active && HARMFUL.contains(&feature.name.as_str()));
    Ok(features)
}

/// Switches features by name; names that this kernel or interface does not have are passed over.
pub(super) fn switch(control: &Control, wanted: &[&str], on: bool) -> io::Result<()> {
    let features = features(control)?;
    let blocks = features.len().div_ceil(32);
    let mut words = vec![0u32; 2 + 2 * blocks];
    (words[0], words[1]) = (ETHTOOL_SFEATURES, blocks as u32);
    let mut any = false;
    for feature in
        features.iter().filter(|feature| feature.available && wanted.contains(&feature.name.as_str()))
    {
        let (block, bit) = (2 + 2 * (feature.number / 32), 1 << (feature.number % 32));
        words[block] |= bit;
        words[block + 1] |= if on { bit } else { 0 };
        any = true;
    }
    if !any {
        return Ok(());
    }
    // SAFETY: as many blocks of two words as announced; the kernel writes none.
    unsafe { control.ethtool(&mut words) }
}

fn names(control: &Control) -> io::Result<Vec<String>> {
    // cmd | reserved | mask 64 | count of each set in the mask
    let mut info = [ETHTOOL_GSSET_INFO, 0, 0, 0, 0];
    info[if cfg!(target_endian = "little") { 2 } else { 3 }] = 1 << ETH_SS_FEATURES;
    // SAFETY: one bit in the mask, so one count behind it.
    unsafe { control.ethtool(&mut info) }?;
    let count = info[4];
    if count > MOST_FEATURES {
        return Err(io::Error::other(format!("a kernel with {count} features")));
    }
    // cmd | set | count | names of 32 octets
    let mut words = vec![0u32; 3 + count as usize * NAME_OCTETS / 4];
    (words[0], words[1], words[2]) = (ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count);
    // SAFETY: a place for each name; the number of features is fixed when a kernel is built.
    unsafe { control.ethtool(&mut words) }?;
    let octets: Vec<u8> = words[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(octets
        .chunks_exact(NAME_OCTETS)
        .map(|name| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned())
        .collect())
}
