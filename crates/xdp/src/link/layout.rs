//! The structures of `bpf/sa.h`, `bpf/sa_change.h` and `bpf/link.bpf.c`, octet by octet, in the machine's byte order.
//!
//! ```text
//!  settings  longest 4 | TCI 4 | replay 4 | strip 4 | rest 4 | bypasses 4 | ring 4 | shared 4 | express 4 | aside 4 | SCI 8 | bypass 2 each
//!  express   DSCPs 8 | PCPs 4 | lists of EtherTypes, UDP and TCP ports: count 4 | number 2 each
//!  channels  count 4 | only 4 | SCI 8 each
//!  command   what 4 | place 4 | extended 4 | ring 4 | PN 8 | through 8 | last 8 | window 8 | instance 8 | key
//!  key       octets 32 | base of nonces 12 | octets in clear 4
//!  slot      id 8 | PN 8 | octets 8 | 0 8 | Poly1305 key 32 | keystream
//!  ring      next 8 | made 8 | longest 4 | asleep 4 | instance 8 | 0 32
//!  report    there 4 | used 4 | numbers 8 each
//! ```

use secy::{ExpressClasses, Protection, SciInclusion, Settings};
use suite::Secret;
use wire::{EtherType, Sci};

use super::{RECEIVE_SCS, SaKey};
use crate::octets::{long, put, word};

pub(super) const SETTINGS: usize = 64;
pub(super) const EXPRESS: usize = 12 + 3 * LIST;
const LIST: usize = 4 + 2 * ExpressClasses::LIST;
pub(super) const CHANNELS: usize = 8 + 8 * RECEIVE_SCS;
/// Octets of a command; a report stands at its beginning.
pub(super) const COMMAND: usize = KEY_IN_COMMAND + 48;
pub(super) const BYPASS: usize = 8;
const KEY_IN_COMMAND: usize = 56;
/// Rings of keystream ahead, and slots of each.
pub(super) const RINGS: usize = 8;
pub(super) const SLOTS: usize = 512;
/// The most text that a slot has keystream for.
pub(super) const MOST_AHEAD: usize = 1536;
/// Octets of a slot and of a ring.
pub(super) const SLOT: usize = 64 + MOST_AHEAD;
pub(super) const RING: usize = 64;
const ALL_CLEAR: u32 = 0xffff;
/// SC and ES of a SecTAG's TCI.
const SC: u32 = 0x20;
const ES: u32 = 0x40;

/// A change of an SA.
#[derive(Clone, Copy)]
pub(super) enum What {
    InstallTransmit,
    EnableTransmit,
    RetireTransmit,
    ReserveThrough,
    DisableTransmit,
    InstallReceive,
    EnableReceive,
    RetireReceive,
    RaiseLowest,
    DisableReceive,
    EndReceive,
    ShareBelow,
}

/// Subject of a question.
#[derive(Clone, Copy)]
pub(super) enum About {
    Transmit,
    Receive,
}

/// Settings of a link; whether user space has SAs too, or all frames, is set apart. `ring`: blocks of each window. `express`: its SCs are express SCs,
/// whose frames always have the SCI.
pub(super) fn settings(
    sci: Sci,
    of: &Settings,
    bypass: &[EtherType],
    rest: u32,
    ring: u32,
    express: bool,
) -> [u8; SETTINGS] {
    let mut octets = [0; SETTINGS];
    let tci = match of.sci_inclusion {
        _ if express => SC,
        SciInclusion::Always => SC,
        SciInclusion::Never => 0,
        SciInclusion::EndStation => ES,
    };
    let strip = u32::from(of.clear_vlan == secy::ClearVlan::Strip);
    let longest = (of.mtu + wire::ethernet::HEADER_OCTETS) as u32;
    let bypass = &bypass[..bypass.len().min(BYPASS)];
    let words = [longest, tci, u32::from(of.replay_protect), strip, rest, bypass.len() as u32, ring];
    for (at, word) in words.into_iter().enumerate() {
        put(&mut octets, 4 * at, &word.to_ne_bytes());
    }
    put(&mut octets, 32, &u32::from(express).to_ne_bytes());
    put(&mut octets, 40, &sci.octets());
    for (at, ethertype) in bypass.iter().enumerate() {
        put(&mut octets, 48 + 2 * at, &ethertype.0.to_be_bytes());
    }
    octets
}

/// Encodes the classes of express SDUs.
pub(super) fn express(classes: &ExpressClasses) -> [u8; EXPRESS] {
    let mut octets = [0; EXPRESS];
    put(&mut octets, 0, &classes.dscps().to_ne_bytes());
    put(&mut octets, 8, &u32::from(classes.pcps()).to_ne_bytes());
    for (list, numbers) in [classes.ethertypes(), classes.udp(), classes.tcp()].into_iter().enumerate() {
        let at = 12 + list * LIST;
        put(&mut octets, at, &(numbers.len() as u32).to_ne_bytes());
        for (number, value) in numbers.iter().enumerate() {
            put(&mut octets, at + 4 + 2 * number, &value.to_be_bytes());
        }
    }
    octets
}

/// Whether user space has SAs of the link too.
pub(super) fn set_shared(settings: &mut [u8; SETTINGS], shared: bool) {
    put(settings, 28, &u32::from(shared).to_ne_bytes());
}

pub(super) fn is_shared(settings: &[u8; SETTINGS]) -> bool {
    word(settings, 28) != 0
}

/// Whether every frame is the sockets'.
pub(super) fn set_aside(settings: &mut [u8; SETTINGS], aside: bool) {
    put(settings, 36, &u32::from(aside).to_ne_bytes());
}

pub(super) fn is_aside(settings: &[u8; SETTINGS]) -> bool {
    word(settings, 36) != 0
}

/// The receive SCs by their places; `None`: a place without one, which a frame may find, and finds no SA there.
pub(super) fn channels(scis: &[Option<Sci>]) -> [u8; CHANNELS] {
    let mut octets = [0; CHANNELS];
    let count = scis.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let mut there = (0_u32..).zip(scis).filter(|(_, sci)| sci.is_some()).map(|(place, _)| place);
    let only = there.next().filter(|_| there.next().is_none()).unwrap_or(RECEIVE_SCS as u32);
    put(&mut octets, 0, &(count as u32).to_ne_bytes());
    put(&mut octets, 4, &only.to_ne_bytes());
    for (place, sci) in scis.iter().enumerate() {
        put(&mut octets, 8 + 8 * place, &sci.map_or([0; 8], |sci| sci.octets()));
    }
    octets
}

/// A change without a key.
pub(super) fn command(what: What, place: u32, pn: u64) -> [u8; COMMAND] {
    let mut octets = [0; COMMAND];
    put(&mut octets, 0, &(what as u32).to_ne_bytes());
    put(&mut octets, 4, &place.to_ne_bytes());
    put(&mut octets, 16, &pn.to_ne_bytes());
    octets
}

/// An SA that is installed: what names it, and its PNs.
pub(super) struct Install {
    /// A number that no other SA of the link ever has.
    pub(super) instance: u64,
    /// Number of its ring; [`RINGS`] if it has none.
    pub(super) ring: usize,
    pub(super) first: u64,
    /// Of a transmit SA.
    pub(super) reserved: u64,
    /// Of a receive SA.
    pub(super) window: u64,
}

/// An SA, whose SC is `sci`. On the heap, and wiped when it is dropped.
pub(super) fn install(what: What, place: u32, sci: Sci, key: &SaKey<'_>, sa: &Install) -> Secret {
    let mut command_of = Secret::zeros(COMMAND);
    let octets = command_of.octets_mut();
    put(octets, 0, &command(what, place, sa.first));
    put(octets, 8, &u32::from(key.xpn.is_some()).to_ne_bytes());
    let last = key.suite.last_pn().number();
    put(octets, 12, &(sa.ring as u32).to_ne_bytes());
    for (at, number) in [(24, sa.reserved), (32, last), (40, sa.window), (48, sa.instance)] {
        put(octets, at, &number.to_ne_bytes());
    }
    put(octets, KEY_IN_COMMAND, key.sak.octets());
    put(octets, KEY_IN_COMMAND + 32, &nonce_base(sci, key));
    let clear = match key.protection {
        Protection::Integrity => ALL_CLEAR,
        Protection::Encrypt(offset) => offset.octets() as u32,
    };
    put(octets, KEY_IN_COMMAND + 44, &clear.to_ne_bytes());
    command_of
}

/// A nonce whose PN is 0.
fn nonce_base(sci: Sci, key: &SaKey<'_>) -> [u8; 12] {
    let mut base = [0; 12];
    match &key.xpn {
        None => base[..8].copy_from_slice(&sci.octets()),
        Some(xpn) => {
            base = xpn.salt.0;
            base.iter_mut().zip(xpn.ssci.0.to_be_bytes()).for_each(|(octet, ssci)| *octet ^= ssci);
        }
    }
    base
}

/// The question for an SA's report.
pub(super) fn question(about: About, place: u32) -> [u8; COMMAND] {
    let mut octets = [0; COMMAND];
    put(&mut octets, 0, &(about as u32).to_ne_bytes());
    put(&mut octets, 4, &place.to_ne_bytes());
    octets
}

/// An SA as the programs see it.
pub(super) struct Report {
    /// It protects, or is in use.
    pub(super) used: bool,
    pub(super) numbers: [u64; 4],
}

/// `None`: there is no SA.
pub(super) fn report(octets: &[u8; COMMAND]) -> Option<Report> {
    let numbers = [8, 16, 24, 32].map(|at| long(octets, at));
    (word(octets, 0) != 0).then(|| Report { used: word(octets, 4) != 0, numbers })
}
