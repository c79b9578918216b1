//! Two SecYs and the wire between them, driven by a list of operations.
//!
//! ```text
//!  operations: install, enable, retire, reserve ─┐            ┌─ install, enable, retire
//!                               SDUs ──▶ transmitter ──▶ wire ──▶ receiver ──▶ plain side
//!                         swap, duplicate, lose, corrupt, pad, forge, raw octets ─┘
//! ```
//!
//! All SAs have one static key: the transmitter's take their PNs from blocks that never overlap, as leases make
//! them, and the receiver's begin above all that their AN has received, as the replay floor makes them. Promises:
//! no panic; no PN twice on the wire; with `validate_frames` strict, only sent SDUs are delivered; with
//! replay protection on top, each of them once, and exactly those frames that the window's rule lets pass; every
//! frame is counted once. SDUs may be fragmented and put together; who has not agreed on that takes no such frame.

mod model;
pub(crate) mod secys;

use arbitrary::{Arbitrary, Unstructured};
use model::Receiver;
use secys::Transmitter;

/// The most operations of a run.
const OPERATIONS: usize = 200;
/// The most frames that wait on the wire.
const WIRE: usize = 256;

/// The variables of both SecYs.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) xpn: bool,
    /// 0 integrity alone, else encryption with offset 0, 30, 50.
    pub(crate) protection: u8,
    pub(crate) sci_inclusion: u8,
    pub(crate) validate_frames: u8,
    pub(crate) replay_protect: bool,
    pub(crate) protect_frames: bool,
    pub(crate) strip_vlan: bool,
    pub(crate) window: u8,
    /// Installs and enables AN 0 on both sides first, so that short lists of operations move frames.
    pub(crate) begin: bool,
    /// Whether MF and EXT are understood.
    pub(crate) reassemble: bool,
    /// 1: the transmitter fragments, 2: it concatenates.
    pub(crate) fragment: u8,
}

#[derive(Arbitrary, Debug)]
enum Operation {
    /// A new SA whose block of PNs begins `gap` above all blocks before.
    InstallTransmit {
        an: u8,
        gap: Gap,
        block: u8,
    },
    /// A retired SA, as it is.
    ReinstallTransmit,
    EnableTransmit {
        an: u8,
    },
    RetireTransmit {
        an: u8,
    },
    /// More PNs if the SA has the topmost block; else a reservation that must change nothing.
    Reserve {
        an: u8,
        more: u8,
    },
    InstallReceive {
        an: u8,
    },
    EnableReceive {
        an: u8,
    },
    RetireReceive {
        an: u8,
    },
    Protect {
        count: u8,
        octets: u8,
    },
    ProtectRaw {
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
        a: u8,
    },
    Corrupt {
        a: u8,
        at: u16,
        bit: u8,
    },
    Pad {
        a: u8,
        octets: u8,
    },
    /// A frame with a plausible SecTAG and an ICV that nobody computed.
    Forge {
        tci: u8,
        short_length: u8,
        pn: u32,
        octets: u8,
    },
    Raw {
        octets: Vec<u8>,
    },
}

/// Where a new block of PNs begins, above all blocks before.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub(crate) enum Gap {
    None,
    Some(u16),
    /// Distance below 2^32.
    Below32(u8),
    /// Distance below 2^64 - 1.
    Below64(u8),
}

/// Reads `octets` as a list of operations and carries it out.
///
/// # Panics
/// If one of the promises above is broken.
pub fn run(octets: &[u8]) {
    let mut input = Unstructured::new(octets);
    let Ok(setup) = Setup::arbitrary(&mut input) else { return };
    let mut pair =
        Pair { transmitter: Transmitter::new(&setup), receiver: Receiver::new(&setup), wire: Vec::new() };
    if setup.begin {
        pair.transmitter.install(0, Gap::None, 200);
        pair.transmitter.enable(0);
        pair.receiver.install(0);
        pair.receiver.enable(0);
    }
    for _ in 0..OPERATIONS {
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        pair.carry_out(operation);
        pair.idle();
        if input.is_empty() {
            break;
        }
    }
    pair.deliver(WIRE);
}

struct Pair {
    transmitter: Transmitter,
    receiver: Receiver,
    wire: Vec<Vec<u8>>,
}

impl Pair {
    fn carry_out(&mut self, operation: Operation) {
        match operation {
            Operation::InstallTransmit { an, gap, block } => self.transmitter.install(an, gap, block.into()),
            Operation::ReinstallTransmit => self.transmitter.reinstall(),
            Operation::EnableTransmit { an } => self.transmitter.enable(an),
            Operation::RetireTransmit { an } => self.transmitter.retire(an),
            Operation::Reserve { an, more } => self.transmitter.reserve(an, more.into()),
            Operation::InstallReceive { an } => self.receiver.install(an),
            Operation::EnableReceive { an } => self.receiver.enable(an),
            Operation::RetireReceive { an } => self.receiver.retire(an),
            Operation::Protect { count, octets } => {
                let sent = self.transmitter.protect(count % 65, octets.into());
                self.wire.extend(sent);
            }
            Operation::ProtectRaw { octets } => self.wire.extend(self.transmitter.protect_raw(octets)),
            Operation::Deliver { count } => self.deliver((count % 65).into()),
            Operation::Forge { tci, short_length, pn, octets } => {
                let tag = [&[0x88, 0xe5, tci, short_length], &pn.to_be_bytes()[..]].concat();
                let sci: &[u8] = if tci & 0x20 == 0 { &[] } else { &secys::TRANSMITTER.octets() };
                let data = vec![0x5a; usize::from(octets) + 16];
                self.wire.push([&secys::ADDRESSES[..], &tag, sci, &data].concat());
            }
            Operation::Raw { octets } => self.wire.push(octets),
            on_the_way => self.befall(on_the_way),
        }
        self.wire.truncate(WIRE);
    }

    /// A moment in which keystreams are made: fewer than the frames that some operations move.
    fn idle(&mut self) {
        for _ in 0..5 {
            self.transmitter.antedate();
            self.receiver.antedate();
        }
    }

    fn befall(&mut self, operation: Operation) {
        let frames = self.wire.len();
        if frames == 0 {
            return;
        }
        let index = |a: u8| usize::from(a) % frames;
        match operation {
            Operation::Swap { a, b } => self.wire.swap(index(a), index(b)),
            Operation::Duplicate { a } => self.wire.push(self.wire[index(a)].clone()),
            Operation::Lose { a } => drop(self.wire.remove(index(a))),
            Operation::Corrupt { a, at, bit } => {
                let frame = &mut self.wire[index(a)];
                let octets = frame.len().max(1);
                if let Some(octet) = frame.get_mut(usize::from(at) % octets) {
                    *octet ^= 1 << (bit % 8);
                }
            }
            Operation::Pad { a, octets } => self.wire[index(a)].extend(vec![0; octets.into()]),
            _ => {}
        }
    }

    /// Takes up to `count` frames from the wire to the receiver, as one burst.
    fn deliver(&mut self, count: usize) {
        let burst: Vec<_> = self.wire.drain(..count.min(self.wire.len())).collect();
        let outcomes = self.receiver.verify(&burst);
        for (frame, outcome) in burst.iter().zip(outcomes) {
            let sent = self.transmitter.sent_as(frame);
            self.receiver.judge(frame, sent, &outcome);
            let fragmented = sent.is_some_and(|sent| sent.sdu.is_none());
            for sdu in outcome.iter().flatten().filter(|_| fragmented && self.receiver.is_strict()) {
                assert!(self.transmitter.take_fragmented(sdu), "{sdu:02x?} was never sent, or came twice");
            }
        }
        self.receiver.balance();
    }
}
