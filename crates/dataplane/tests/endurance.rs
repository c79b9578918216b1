//! A long day in little time: two links over ports in memory, both directions at once, SDUs of all sizes, whole and
//! fragmented, over a wire that loses, doubles, damages, reorders and replays frames. Every frame is accounted for, memory
//! does not grow, and the pools end as they began.
//!
//! `FRAMEWARD_ENDURANCE_FRAMES` says how many SDUs; `make test-long` takes 100 million, a million otherwise.
#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

use std::time::Duration;

use dataplane::fragmenter::FragmentConfig;
use dataplane::link::Link;
use dataplane::pipeline::Pipeline;
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use secy::{
    ClearVlan, ConfidentialityOffset, ExpressClasses, FrameSizes, Protection, ReceiveSa, SciInclusion, SecY,
    Settings, TransmitSa, ValidateFrames,
};
use suite::{CipherSuite, Key, Sak};
use testkit::frames::payload;
use wire::{An, Instant, MacAddr, Pn, Sci};

const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
/// SDUs that a machine sends at once.
const BURST: u64 = 32;
/// Distance by which a frame may be overtaken: less than the replay window.
const OVERTAKEN: u64 = 16;
const WINDOW: u32 = 64;
/// SDUs whose fate is remembered: far more than can be under way.
const REMEMBERED: usize = 1 << 16;
/// Frames that an attacker has recorded.
const RECORDED: usize = 512;
/// Growth of memory that is allowed between a tenth of the way and the end.
const GROWTH_KIB: u64 = 2048;

/// SplitMix64: a wire's day is the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// One end: a link, and the other ends of its ports.
struct End {
    link: Link,
    machine: MemoryPort,
    wire: MemoryPort,
}

impl End {
    fn new(own: MacAddr, peer: MacAddr, fragmentation: Option<FragmentConfig>) -> Self {
        let settings = Settings {
            protect_frames: true,
            sci_inclusion: SciInclusion::Always,
            validate_frames: ValidateFrames::Strict,
            replay_protect: true,
            clear_vlan: ClearVlan::Refuse,
            reassemble: fragmentation.is_some(),
            mtu: if fragmentation.is_some() { 1500 } else { 1532 },
        };
        let suite = CipherSuite::GcmAes128;
        let key = |mac: MacAddr| Key::prepare(suite, &Sak::new(suite, &[mac.0[5]; 16]).unwrap()).unwrap();
        let (an, mut secy) = (An::ALL[0], SecY::new(Sci::new(own, 1), settings));
        let transmit = TransmitSa::new(an, key(own), None, PROTECTION, Pn::FIRST, Pn::LAST_64).unwrap();
        secy.install_transmit(Box::new(transmit)).unwrap();
        secy.enable_transmit(an).unwrap();
        secy.install_receive_sc(Sci::new(peer, 1)).unwrap();
        let receive = ReceiveSa::new(an, key(peer), None, PROTECTION, Pn::FIRST, WINDOW).unwrap();
        secy.install_receive(Sci::new(peer, 1), Box::new(receive)).unwrap();
        secy.enable_receive(Sci::new(peer, 1), an).unwrap();
        let (machine, plain) = MemoryPort::pair(256);
        let (wire, protected) = MemoryPort::pair(256);
        let pool = Pool::new(ChunkOctets::Octets2048, 512).unwrap();
        let pipeline = Pipeline::new(secy, &[], fragmentation);
        Self { link: Link::new(pool, Box::new(plain), Box::new(protected), pipeline), machine, wire }
    }

    /// Until nothing comes in any more.
    fn turn(&mut self, now: Instant) {
        while self.link.turn(now, std::time::Instant::now()).0 > 0 {}
    }
}

/// Traffic from one machine to the other.
struct Traffic {
    from: MacAddr,
    to: MacAddr,
    sent: u64,
    delivered: u64,
    /// The SDU of each place: its number, and whether it was delivered.
    fates: Vec<(u64, bool)>,
    noise: Vec<u8>,
}

impl Traffic {
    fn new(from: MacAddr, to: MacAddr) -> Self {
        let (fates, noise) = (vec![(u64::MAX, true); REMEMBERED], payload(4096, 7));
        Self { from, to, sent: 0, delivered: 0, fates, noise }
    }

    /// SDU `number`: DA, SA, EtherType, its number, and noise that depends on it.
    fn sdu(&self, number: u64, out: &mut Vec<u8>) {
        let octets = Dice(number).below(1500 - 8 + 1) as usize;
        let begin = (number % 2048) as usize;
        out.clear();
        out.extend(self.to.0);
        out.extend(self.from.0);
        out.extend([0x88, 0xb5]);
        out.extend(number.to_be_bytes());
        out.extend_from_slice(&self.noise[begin..begin + octets]);
    }

    fn send(&mut self, machine: &mut MemoryPort, scratch: &mut Vec<u8>) {
        self.sdu(self.sent, scratch);
        assert!(machine.inject(scratch), "a machine's queue is full");
        self.fates[self.sent as usize % REMEMBERED] = (self.sent, false);
        self.sent += 1;
    }

    /// Each SDU is delivered at most once, and as it was sent.
    fn receive(&mut self, frame: &[u8], scratch: &mut Vec<u8>) {
        let number = u64::from_be_bytes(frame[14..22].try_into().unwrap());
        let fate = &mut self.fates[number as usize % REMEMBERED];
        assert_eq!(*fate, (number, false), "delivered twice, or never sent");
        fate.1 = true;
        self.sdu(number, scratch);
        assert_eq!(frame, &scratch[..], "SDU {number} has changed");
        self.delivered += 1;
    }
}

/// One direction of a bad wire, and what it did.
struct BadWire {
    dice: Dice,
    held: Option<(Vec<u8>, u64)>,
    recorded: Vec<Vec<u8>>,
    taken: u64,
    given: u64,
    lost: u64,
    damaged: u64,
    repeated: u64,
}

impl BadWire {
    fn new(seed: u64) -> Self {
        let (dice, recorded) = (Dice(seed), Vec::with_capacity(RECORDED));
        Self { dice, held: None, recorded, taken: 0, given: 0, lost: 0, damaged: 0, repeated: 0 }
    }

    fn carry(&mut self, from: &mut MemoryPort, to: &mut MemoryPort) {
        while let Some(mut frame) = from.collect() {
            self.taken += 1;
            match self.dice.below(1000) {
                0..5 => self.lost += 1,
                5..10 => {
                    let at = 28 + self.dice.below(frame.len() as u64 - 28) as usize;
                    frame[at] ^= 1 << self.dice.below(8);
                    self.damaged += 1;
                    self.give(&frame, to);
                }
                10..15 => {
                    self.repeated += 1;
                    self.give(&frame, to);
                    self.give(&frame, to);
                }
                15..20 if self.held.is_none() => {
                    let frames = 1 + self.dice.below(OVERTAKEN);
                    self.held = Some((frame, frames));
                    continue;
                }
                20..25 if self.recorded.len() == RECORDED => {
                    self.repeated += 1;
                    let old = self.dice.below(RECORDED as u64) as usize;
                    let old = std::mem::replace(&mut self.recorded[old], frame.clone());
                    self.give(&frame, to);
                    self.give(&old, to);
                }
                _ => {
                    self.give(&frame, to);
                    if self.recorded.len() < RECORDED {
                        self.recorded.push(frame);
                    }
                }
            }
            match self.held.take() {
                Some((late, 0)) => self.give(&late, to),
                Some((late, frames)) => self.held = Some((late, frames - 1)),
                None => {}
            }
        }
    }

    fn give(&mut self, frame: &[u8], to: &mut MemoryPort) {
        assert!(to.inject(frame), "the wire is full");
        self.given += 1;
    }

    fn flush(&mut self, to: &mut MemoryPort) {
        if let Some((late, _)) = self.held.take() {
            self.give(&late, to);
        }
    }
}

/// Resident memory, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Every frame that came over the wire has one verdict, and it is the right one.
fn account(end: &mut End, traffic: &Traffic, wire: &BadWire, fragmented: bool) {
    let [_, protected] = end.link.port_counters();
    assert_eq!(protected.rx_frames, wire.given);
    let secy = &end.link.pipeline().secy;
    let counters = secy.receive_scs().next().unwrap().counters();
    // Damage to an extension header can leave a frame too short for what it then says: that is seen before the ICV.
    let bad_tags = secy.counters().in_pkts_bad_tag;
    assert!(bad_tags == 0 || fragmented, "{bad_tags}");
    assert_eq!(counters.in_pkts_ok, wire.taken - wire.lost - wire.damaged);
    assert_eq!(counters.in_pkts_not_valid + bad_tags, wire.damaged, "{:?}", secy.counters());
    assert_eq!(counters.in_pkts_late + counters.in_pkts_duplicate, wire.repeated);
    assert_eq!(counters.in_pkts_malformed, 0);
    assert_eq!(secy.counters().values().iter().sum::<u64>(), bad_tags, "{:?}", secy.counters());
    if fragmented {
        // A lost frame takes along what shares it and what continues in it, and no more.
        assert!(counters.in_sdus_reassembled > traffic.sent / 4, "{counters:?}");
        let dead = wire.lost + wire.damaged;
        assert!(traffic.sent - traffic.delivered <= 40 * dead, "{} of {}", traffic.delivered, traffic.sent);
    } else {
        assert_eq!(traffic.delivered, wire.taken - wire.lost - wire.damaged);
        assert_eq!(traffic.sent, wire.taken);
    }
}

fn endure(sdus: u64, fragmentation: Option<FragmentConfig>) {
    let (mut a, mut b) = (End::new(A, B, fragmentation), End::new(B, A, fragmentation));
    let (mut there, mut back) = (Traffic::new(A, B), Traffic::new(B, A));
    let (mut right, mut left) = (BadWire::new(1), BadWire::new(2));
    let (mut dice, mut scratch) = (Dice(3), Vec::with_capacity(2048));
    let (mut warm, mut now) = (None, Instant::START);
    while there.sent + back.sent < sdus {
        (0..=dice.below(BURST)).for_each(|_| there.send(&mut a.machine, &mut scratch));
        (0..=dice.below(BURST)).for_each(|_| back.send(&mut b.machine, &mut scratch));
        let last = there.sent + back.sent >= sdus;
        now = now + Duration::from_micros(100);
        a.turn(now);
        b.turn(now);
        right.carry(&mut a.wire, &mut b.wire);
        left.carry(&mut b.wire, &mut a.wire);
        if last {
            right.flush(&mut b.wire);
            left.flush(&mut a.wire);
        }
        a.turn(now);
        b.turn(now);
        while let Some(frame) = b.machine.collect() {
            there.receive(&frame, &mut scratch);
        }
        while let Some(frame) = a.machine.collect() {
            back.receive(&frame, &mut scratch);
        }
        if warm.is_none() && there.sent + back.sent > sdus / 10 {
            warm = Some(resident());
        }
    }
    let (warm, end) = (warm.unwrap(), resident());
    account(&mut b, &there, &right, fragmentation.is_some());
    account(&mut a, &back, &left, fragmentation.is_some());
    for end in [&a, &b] {
        let pool = end.link.pool().unwrap();
        assert_eq!(pool.free(), pool.total(), "a chunk is lost");
    }
    let frames = right.taken + left.taken;
    let delivered = there.delivered + back.delivered;
    println!(
        "{sdus} SDUs in {frames} frames, {delivered} delivered; {warm} KiB resident at a tenth of the way, {end} at the end"
    );
    assert!(end <= warm + GROWTH_KIB, "memory has grown from {warm} KiB to {end}");
}

/// In one test, since others beside it would use memory of their own.
#[test]
fn nothing_is_lost_and_memory_stays() {
    let sdus = std::env::var("FRAMEWARD_ENDURANCE_FRAMES").map_or(1_000_000, |text| text.parse().unwrap());
    let fragmentation = FragmentConfig {
        fragment: true,
        concatenate: true,
        padding: FrameSizes::NONE,
        hold: Duration::ZERO,
        express: ExpressClasses::DEFAULT,
    };
    endure(sdus / 2, None);
    endure(sdus / 2, Some(fragmentation));
}

/// Frames wait while a link's SAs move, and none is lost. Whoever had them wait and is gone does not stop the link.
#[test]
fn frames_wait_in_the_ports_of_a_link_until_it_is_told_or_for_three_seconds() {
    let mut end = End::new(A, B, None);
    let mut traffic = Traffic::new(A, B);
    let mut scratch = Vec::with_capacity(2048);
    let at = |milliseconds| Instant::START + Duration::from_millis(milliseconds);
    let mut sent = |end: &mut End, now| {
        traffic.send(&mut end.machine, &mut scratch);
        end.turn(now);
        std::iter::from_fn(|| end.wire.collect()).count()
    };
    assert_eq!(sent(&mut end, at(0)), 1);
    end.link.hold(true);
    assert_eq!([10, 20].map(|moment| sent(&mut end, at(moment))), [0, 0]);
    end.link.hold(false);
    assert_eq!(sent(&mut end, at(30)), 3, "those that waited too");
    end.link.hold(true);
    assert_eq!([40, 3039, 3040].map(|moment| sent(&mut end, at(moment))), [0, 0, 3]);
}
