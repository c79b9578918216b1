//! Fragmented SDUs and what becomes of their pieces, by a list of operations.
//!
//! ```text
//!  SDUs ──▶ plan ──▶ transmitter ──▶ wire ──▶ receiver ──▶ SDUs
//!              wild frames ─┘          └─ swap, duplicate, lose, corrupt; time; a new instance of the SA
//! ```
//!
//! With padding all frames that a plan makes have one of two sizes. A *wild* frame is authentic, but fragmented as no plan does, under addresses of its own. Promises: no panic;
//! under the addresses of the planned SDUs only sent ones are delivered, octet for octet, and with replay protection
//! each of them once; an SC never holds more pieces than it may; every frame is counted once.

use std::collections::HashSet;
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use secy::fragment::{Plan, Rules, Sdu};
use secy::reassemble::MAX_FRAGMENTS;
use secy::{
    ClearVlan, ConfidentialityOffset, ExpressClasses, FrameLayout, FrameSizes, Protection, ReceiveSa,
    SciInclusion, SduBuffer, SecY, Settings, TransmitSa, ValidateFrames,
};
use suite::CipherSuite;
use wire::{An, Instant, Pn, Segments};

use crate::secy::secys::{self, Assembled, RECEIVER, TRANSMITTER};

const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
const SUITE: CipherSuite = CipherSuite::GcmAes128;
/// Of planned SDUs, and of wild frames.
const ADDRESSES: [[u8; 12]; 3] =
    [[2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xc, 2, 0, 0, 0, 0, 0xa], [0xee; 12]];
const WILD: usize = 2;
/// The most operations of a run.
const OPERATIONS: usize = 100;
/// The most frames that wait on the wire.
const WIRE: usize = 256;
/// The most SDUs of a burst.
const SDUS: usize = 24;
/// The most frames of a burst.
const BURST: usize = 64;

#[derive(Arbitrary, Debug)]
struct Setup {
    small_frames: bool,
    explicit_sci: bool,
    fragment: bool,
    concatenate: bool,
    replay_protect: bool,
    /// Bits 0 to 6: the replay window. Bit 7: frames are padded.
    window_and_padded: u8,
}

#[derive(Arbitrary, Debug)]
enum Operation {
    /// SDUs of so many octets, to one or the other address.
    Send {
        octets: Vec<(bool, u16)>,
    },
    /// Segments as told; the first may continue what nobody began, the last go on in what never comes.
    Wild {
        continues: bool,
        carry_over: bool,
        octets: Vec<u8>,
        planned_addresses: bool,
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
    Wait {
        milliseconds: u8,
    },
    /// The receiver's SA goes, and one with the same key comes, for PNs above all that were received.
    Renew,
}

/// Reads `octets` as a list of operations and carries it out.
///
/// # Panics
/// If one of the promises above is broken.
pub fn run(octets: &[u8]) {
    let mut input = Unstructured::new(octets);
    let Ok(setup) = Setup::arbitrary(&mut input) else { return };
    let mut run = Run::new(&setup);
    for _ in 0..OPERATIONS {
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        run.carry_out(operation);
        if input.is_empty() {
            break;
        }
    }
    while !run.wire.is_empty() {
        run.deliver(BURST);
    }
}

struct Run {
    transmitter: SecY,
    receiver: SecY,
    rules: Rules,
    is_padded: bool,
    plan: Plan,
    buffer: SduBuffer,
    wire: Vec<Vec<u8>>,
    now: Instant,
    number: u64,
    received: u64,
    /// Sent, and with replay protection not delivered yet.
    sent: HashSet<Vec<u8>>,
}

impl Run {
    fn new(setup: &Setup) -> Self {
        let settings = Settings {
            protect_frames: true,
            sci_inclusion: if setup.explicit_sci { SciInclusion::Always } else { SciInclusion::Never },
            validate_frames: ValidateFrames::Strict,
            replay_protect: setup.replay_protect,
            clear_vlan: ClearVlan::Refuse,
            mtu: if setup.small_frames { 120 } else { 576 },
            reassemble: true,
        };
        let (window, is_padded) = (setup.window_and_padded & 0x7f, setup.window_and_padded & 0x80 != 0);
        let sizes = if setup.small_frames { [128, 134] } else { [200, 580] };
        let sizes = if is_padded { FrameSizes::new(&sizes) } else { Ok(FrameSizes::NONE) };
        let rules = Rules::new(&settings, setup.fragment, setup.concatenate)
            .padded(&settings, &sizes.expect("invariant: ascending"));
        let an = An::from_tci(0);
        let mut transmitter = SecY::new(TRANSMITTER, settings);
        let sa = TransmitSa::new(an, crate::key::prepared(SUITE), None, PROTECTION, Pn::FIRST, Pn::LAST_64);
        let sa = sa.expect("invariant: no XPN suite, no binding");
        transmitter.install_transmit(Box::new(sa)).expect("invariant: a free AN");
        transmitter.enable_transmit(an).expect("invariant: it is installed");
        let mut receiver = SecY::new(RECEIVER, settings);
        receiver.install_receive_sc(TRANSMITTER).expect("invariant: another SCI");
        install(&mut receiver, Pn::FIRST, window);
        Self {
            transmitter,
            receiver,
            rules,
            is_padded,
            plan: Plan::new(SDUS, &rules),
            buffer: SduBuffer::new(BURST, settings.mtu + 14),
            wire: Vec::new(),
            now: Instant::START,
            number: 0,
            received: 0,
            sent: HashSet::new(),
        }
    }

    fn carry_out(&mut self, operation: Operation) {
        match operation {
            Operation::Send { octets } => self.send(&octets),
            Operation::Wild { continues, carry_over, octets, planned_addresses } => {
                self.wild(continues, carry_over, &octets, planned_addresses);
            }
            Operation::Deliver { count } => self.deliver(usize::from(count) % (BURST + 1)),
            Operation::Wait { milliseconds } => {
                self.now = self.now + Duration::from_millis(milliseconds.into())
            }
            Operation::Renew => self.renew(),
            on_the_way => self.befall(&on_the_way),
        }
        self.wire.truncate(WIRE);
    }

    fn send(&mut self, octets: &[(bool, u16)]) {
        let number = &mut self.number;
        let sdus: Vec<Vec<u8>> = octets
            .iter()
            .take(SDUS)
            .map(|&(other, octets)| {
                *number += 1;
                // No two SDUs share a number, and octets depend on their place.
                let body = (0..octets % 2500).map(|at| (u64::from(at) ^ (*number << 3)) as u8);
                let head = ADDRESSES[usize::from(other)].into_iter().chain([8, 0]);
                head.chain(number.to_be_bytes()).chain(body).collect()
            })
            .collect();
        let described: Vec<_> = sdus
            .iter()
            .map(|sdu| Sdu::of(sdu, &ExpressClasses::default()).expect("invariant: a header"))
            .collect();
        self.plan.make(&self.rules, &described);
        let assembled = secys::carry_out(&self.plan, &sdus);
        let frames = secys::protect(&mut self.transmitter, &assembled);
        let sizes = self.rules.sizes;
        assert!(frames.iter().flatten().all(|frame| {
            sizes.is_none() || sizes.octets().iter().any(|size| usize::from(*size) == frame.len())
        }));
        self.wire
            .extend(frames.into_iter().map(|frame| frame.expect("a planned frame fits, and PNs are there")));
        self.sent.extend(sdus);
    }

    /// An authentic frame that no plan makes. Under the addresses of planned SDUs only if it is no whole SDU and
    /// begins none: then nothing may come of it.
    fn wild(&mut self, continues: bool, carry_over: bool, octets: &[u8], planned_addresses: bool) {
        let lone_tail = continues && !carry_over && octets.len() == 1;
        let addresses = ADDRESSES[if planned_addresses && lone_tail { 0 } else { WILD }];
        let Some((&first, others)) = octets.split_first() else { return };
        let mut segments = Segments::one(u16::from(first) + 2, continues);
        for &octets in others.iter().take(32) {
            segments.push(u16::from(octets) + 2).expect("invariant: room for 33 segments");
        }
        let data: usize = segments.lengths().iter().map(|&octets| usize::from(octets)).sum();
        let frame: Assembled = (
            addresses.into_iter().chain(std::iter::repeat_n(0x5a, data)).collect(),
            Some(FrameLayout {
                segments,
                chain: u16::from(carry_over),
                padding: self.is_padded.then_some(first.into()),
                with_addresses: false,
            }),
        );
        let frame = secys::protect(&mut self.transmitter, &[frame]).remove(0);
        self.wire.extend(frame);
    }

    fn befall(&mut self, operation: &Operation) {
        let frames = self.wire.len();
        if frames == 0 {
            return;
        }
        let index = |a: u8| usize::from(a) % frames;
        match *operation {
            Operation::Swap { a, b } => self.wire.swap(index(a), index(b)),
            Operation::Duplicate { a } => self.wire.push(self.wire[index(a)].clone()),
            Operation::Lose { a } => drop(self.wire.remove(index(a))),
            Operation::Corrupt { a, at, bit } => {
                let frame = &mut self.wire[index(a)];
                let at = usize::from(at) % frame.len();
                frame[at] ^= 1 << (bit % 8);
            }
            _ => {}
        }
    }

    /// Takes up to `count` frames from the wire to the receiver, as one burst.
    fn deliver(&mut self, count: usize) {
        let burst: Vec<_> = self.wire.drain(..count.min(self.wire.len())).collect();
        self.received += burst.len() as u64;
        let outcomes = secys::verify(&mut self.receiver, self.now, &burst, &mut self.buffer);
        for sdu in outcomes.into_iter().flatten().flatten() {
            if sdu.starts_with(&ADDRESSES[WILD]) {
                continue;
            }
            let known = match self.receiver.settings().replay_protect {
                true => self.sent.remove(&sdu),
                false => self.sent.contains(&sdu),
            };
            assert!(known, "{sdu:02x?} was never sent, or is delivered twice");
        }
        let sc = self.receiver.receive_scs().next().expect("invariant: one SC");
        assert!(sc.reassembler().len() <= MAX_FRAGMENTS);
        let (c, of_secy) = (sc.counters(), self.receiver.counters());
        let of_sc = c.in_pkts_ok
            + c.in_pkts_delayed
            + c.in_pkts_late
            + c.in_pkts_duplicate
            + c.in_pkts_not_valid
            + c.in_pkts_malformed;
        let of_secy = of_secy.in_pkts_bad_tag
            + of_secy.in_pkts_no_tag
            + of_secy.in_pkts_no_sa_error
            + of_secy.in_pkts_clear_vlan;
        assert_eq!(of_sc + of_secy, self.received, "every frame is counted once: {c:?}");
    }

    fn renew(&mut self) {
        let sa = self.receiver.retire_receive(TRANSMITTER, An::from_tci(0)).expect("invariant: installed");
        let sc = self.receiver.receive_scs().next().expect("invariant: one SC");
        assert!(sc.reassembler().is_empty(), "the pieces of an SA go with it");
        let lowest = Pn::new(sa.window().highest() + 1).expect("invariant: far from the end");
        install(&mut self.receiver, lowest, 64);
    }
}

fn install(receiver: &mut SecY, lowest: Pn, window: u8) {
    let an = An::from_tci(0);
    let sa = ReceiveSa::new(an, crate::key::prepared(SUITE), None, PROTECTION, lowest, window.into());
    let sa = sa.expect("invariant: no XPN suite, no binding");
    receiver.install_receive(TRANSMITTER, Box::new(sa)).expect("invariant: a free AN");
    receiver.enable_receive(TRANSMITTER, an).expect("invariant: it is installed");
}
