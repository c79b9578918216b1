//! Ends of a link with cover, on a virtual clock.

use std::num::NonZeroU16;
use std::time::Duration;

use dataplane::fragmenter::{FragmentConfig, FragmenterCounters};
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

pub(crate) const SUITE: CipherSuite = CipherSuite::GcmAes128;
pub(crate) const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
pub(crate) const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
pub(crate) const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
pub(crate) const MTU: usize = 1500;
pub(crate) const SETTINGS: Settings = Settings {
    protect_frames: true,
    sci_inclusion: SciInclusion::Always,
    validate_frames: ValidateFrames::Strict,
    replay_protect: true,
    clear_vlan: ClearVlan::Refuse,
    reassemble: true,
    mtu: MTU,
};

pub(crate) fn key(of: MacAddr, an: An) -> Key {
    Key::prepare(SUITE, &Sak::new(SUITE, &[of.0[5] ^ an.number(); 16]).unwrap()).unwrap()
}

pub(crate) fn fragmentation(padding: FrameSizes) -> FragmentConfig {
    FragmentConfig {
        fragment: true,
        concatenate: true,
        padding,
        hold: Duration::ZERO,
        express: ExpressClasses::DEFAULT,
    }
}

pub(crate) fn cover(size: u16, rate: u16) -> FrameSizes {
    FrameSizes::cover(size, NonZeroU16::new(rate).unwrap()).unwrap()
}

/// SAs under these ANs, the last one of them in use.
pub(crate) fn pipeline(own: MacAddr, peer: MacAddr, padding: FrameSizes, ans: &[An], next: Pn) -> Pipeline {
    let mut secy = SecY::new(Sci::new(own, 1), SETTINGS);
    secy.install_receive_sc(Sci::new(peer, 1)).unwrap();
    for &an in ans {
        let transmit = TransmitSa::new(an, key(own, an), None, PROTECTION, next, Pn::LAST_64).unwrap();
        secy.install_transmit(Box::new(transmit)).unwrap();
        secy.enable_transmit(an).unwrap();
        let receive = ReceiveSa::new(an, key(peer, an), None, PROTECTION, Pn::FIRST, 0).unwrap();
        secy.install_receive(Sci::new(peer, 1), Box::new(receive)).unwrap();
        secy.enable_receive(Sci::new(peer, 1), an).unwrap();
    }
    Pipeline::new(secy, &[], Some(fragmentation(padding)))
}

/// One end: a link, and the other ends of its ports.
pub(crate) struct End {
    pub(crate) link: Link,
    pub(crate) machine: MemoryPort,
    pub(crate) wire: MemoryPort,
}

impl End {
    pub(crate) fn of(pipeline: Pipeline) -> Self {
        let (machine, plain) = MemoryPort::pair(4096);
        let (wire, protected) = MemoryPort::pair(4096);
        let pool = Pool::new(ChunkOctets::Octets2048, 512).unwrap();
        Self { link: Link::new(pool, Box::new(plain), Box::new(protected), pipeline), machine, wire }
    }

    pub(crate) fn new(own: MacAddr, peer: MacAddr, padding: FrameSizes) -> Self {
        Self::of(pipeline(own, peer, padding, &An::ALL[..1], Pn::FIRST))
    }

    /// One turn; returns what left to the network.
    pub(crate) fn turn(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.link.turn(now, std::time::Instant::now());
        std::iter::from_fn(|| self.wire.collect()).collect()
    }

    /// Frames that the machine behind it gets of these.
    pub(crate) fn deliver(&mut self, frames: &[Vec<u8>], now: Instant) -> Vec<Vec<u8>> {
        let mut delivered = Vec::new();
        for frames in frames.chunks(32) {
            frames.iter().for_each(|frame| assert!(self.wire.inject(frame)));
            self.link.turn(now, std::time::Instant::now());
            delivered.extend(std::iter::from_fn(|| self.machine.collect()));
        }
        delivered
    }

    /// Has it send under this SA from here on.
    pub(crate) fn send_under(&mut self, key: Key, an: An, next: Pn, reserved: Pn) {
        let secy = &mut self.link.pipeline_mut().secy;
        let sa = TransmitSa::new(an, key, None, PROTECTION, next, reserved).unwrap();
        secy.install_transmit(Box::new(sa)).unwrap();
        secy.enable_transmit(an).unwrap();
    }

    pub(crate) fn counters(&self) -> FragmenterCounters {
        self.link.pipeline().fragmenter_counters()
    }

    pub(crate) fn assert_no_chunk_is_lost(&self) {
        let pool = self.link.pool().unwrap();
        assert_eq!(pool.free(), pool.total(), "a chunk is lost");
    }
}

/// SDUs of several stations, groups among them, each with its number.
pub(crate) fn sdu(octets: usize, number: u64) -> Vec<u8> {
    let to =
        if number.is_multiple_of(3) { MacAddr([0xff; 6]) } else { MacAddr([2, 0, 0, 0, 1, number as u8]) };
    let from = [2, 0, 0, 0, 2, number as u8 / 2];
    [&to.0[..], &from, &[0x88, 0xb5], &number.to_be_bytes(), &payload(octets, number)].concat()
}

pub(crate) fn at(microseconds: u64) -> Instant {
    Instant::START + Duration::from_micros(microseconds)
}
