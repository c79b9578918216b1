//! The forwarding halves of two sites and the wire between them, driven by a list of operations.
//!
//! ```text
//!  LAN ◀──▶ site 0 ◀── swap, duplicate, lose, hold, release, flip, forge ──▶ site 1 ◀──▶ LAN
//!               └───── events ──▶ a manager that answers them ◀── events ────┘
//!                        any command, from a manager that lies
//! ```
//!
//! In identifier mode, header encryption or plain mode, with real keys. Promises: no panic; no identifier is
//! sent twice; no packet exceeds the path; no packet of a protected mode is accepted twice; every frame and packet is
//! counted once; as long as nobody lies or changes packets, only what went in comes out; and as long as no manager lies,
//! whatever is changed, no frame of a flow comes out of a protected mode that did not go in, and no station is learned that
//! did not speak.

mod end;

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use end::{Ends, LAN_FRAME};

/// The most operations of a run.
const OPERATIONS: usize = 200;
/// The most packets that wait on the wire.
const WIRE: usize = 256;

/// Settings that both sites share.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub(crate) struct Setup {
    /// 0 identifier, 1 header encryption, 2 plain.
    pub(crate) mode: u8,
    /// Octets of the path's payload, above 40.
    pub(crate) path: u8,
    /// Few flows and stations: quotas are met.
    pub(crate) narrow: bool,
    /// Both have keys and answer events from the beginning, so that short lists of operations move frames.
    pub(crate) begin: bool,
}

/// A command with values that a hostile peer could bring about.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub(crate) enum Lie {
    Begin { generation: u8 },
    InstallReceive { epoch: u8, secret: u8, lanes: u8 },
    InstallTransmit { epoch: u8 },
    Announced { index: u16 },
    Unknown { index: u16 },
    AddFlow { index: u16, octets: [u8; 24] },
    WithdrawFlow { index: u16 },
    Position { epoch: u8, lane: u8, anchors: u64 },
    RequestPosition { epoch: u8, lane: u8 },
    PathPayload { octets: u16 },
    TakesFrames { frames: u8 },
}

#[derive(Arbitrary, Debug)]
enum Operation {
    /// MACsec frames of one flow, of growing PN.
    Send {
        end: bool,
        station: u8,
        to: u8,
        tci: u8,
        octets: u16,
        count: u8,
    },
    /// Any octets from the LAN.
    Lan {
        end: bool,
        octets: Vec<u8>,
    },
    Deliver {
        count: u8,
    },
    Swap {
        a: u8,
        b: u8,
    },
    Duplicate {
        a: u8,
    },
    Lose {
        count: u8,
    },
    /// A bit of a packet.
    Corrupt {
        a: u8,
        at: u16,
        bit: u8,
    },
    /// The first packets stay with the attacker.
    Hold {
        count: u8,
    },
    /// Some of them go on, in front of the others.
    Release {
        count: u8,
    },
    /// A packet with a difference in the place of an address, or of any others of its first octets.
    Forge {
        a: u8,
        at: u8,
        difference: [u8; 8],
    },
    Raw {
        end: bool,
        octets: Vec<u8>,
    },
    /// Events go to the manager, and its answers to the ends.
    Manage,
    NextEpoch {
        end: bool,
    },
    Lie {
        end: bool,
        lie: Lie,
    },
    Pass {
        milliseconds: u16,
    },
}

/// Reads `octets` as a list of operations and carries it out.
///
/// # Panics
/// If one of the promises above is broken.
pub fn run(octets: &[u8]) {
    let mut input = Unstructured::new(octets);
    let Ok(setup) = Setup::arbitrary(&mut input) else { return };
    let mut ends = Ends::new(&setup);
    for _ in 0..OPERATIONS {
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        carry_out(&mut ends, operation);
        ends.wire.truncate(WIRE);
        if input.is_empty() {
            break;
        }
    }
    ends.deliver(WIRE);
}

fn carry_out(ends: &mut Ends, operation: Operation) {
    match operation {
        Operation::Send { end, station, to, tci, octets, count } => {
            for _ in 0..=count % 8 {
                let frame = ends.frame(station % 4, to % 4, tci, usize::from(octets) % (LAN_FRAME + 2));
                ends.send(end, &frame);
            }
        }
        Operation::Lan { end, octets } => ends.send(end, &octets),
        Operation::Deliver { count } => ends.deliver(usize::from(count % 65)),
        Operation::Raw { end, octets } => {
            ends.changed = true;
            ends.wire.push((end, octets));
        }
        Operation::Manage => ends.manage(),
        Operation::Hold { count } => {
            let count = usize::from(count).min(ends.wire.len());
            ends.held.extend(ends.wire.drain(..count));
            ends.held.truncate(WIRE);
        }
        Operation::Release { count } => {
            let count = usize::from(count).min(ends.held.len());
            ends.wire.splice(..0, ends.held.drain(..count));
        }
        Operation::NextEpoch { end } => ends.next_epoch(end),
        Operation::Lie { end, lie } => ends.lie(end, lie),
        Operation::Pass { milliseconds } => ends.pass(Duration::from_millis(milliseconds.into())),
        on_the_way => befall(ends, on_the_way),
    }
}

fn befall(ends: &mut Ends, operation: Operation) {
    let packets = ends.wire.len();
    if packets == 0 {
        return;
    }
    let index = |a: u8| usize::from(a) % packets;
    match operation {
        Operation::Swap { a, b } => ends.wire.swap(index(a), index(b)),
        Operation::Duplicate { a } => ends.wire.push(ends.wire[index(a)].clone()),
        Operation::Lose { count } => drop(ends.wire.drain(..index(count))),
        Operation::Corrupt { a, at, bit } => {
            ends.changed = true;
            let packet = &mut ends.wire[index(a)].1;
            if !packet.is_empty() {
                let at = usize::from(at) % packet.len();
                packet[at] ^= 1 << (bit % 8);
            }
        }
        Operation::Forge { a, at, difference } => {
            ends.changed = true;
            let packet = &mut ends.wire[index(a)].1;
            for (octet, difference) in packet.iter_mut().skip(usize::from(at % 56)).zip(difference) {
                *octet ^= difference;
            }
        }
        _ => {}
    }
}
