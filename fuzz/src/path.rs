//! Two links, each with its pipeline and its SecY, over one pool of chunks: octets from both sides, by a list of
//! operations.
//!
//! Promises: no panic; after each call all chunks are back in the pool or on their way out, none lost and none twice;
//! what leaves for the network is a MACsec frame or in `bypass`; what reaches a machine was given to the other link by
//! its machine, once each, or is in `bypass`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use dataplane::fragmenter::FragmentConfig;
use dataplane::pipeline::{Pipeline, ToPlain, ToProtected};
use netdev::burst::{BURST_FRAMES, Burst};
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, HEADROOM, Pool};
use secy::{
    ClearVlan, ConfidentialityOffset, ExpressClasses, FrameSizes, Protection, ReceiveSa, SciInclusion, SecY,
    Settings, TransmitSa, ValidateFrames,
};
use suite::CipherSuite;
use wire::ethernet::Header;
use wire::{An, EtherType, Instant, MacAddr, Pn, Sci};

const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
const SUITE: CipherSuite = CipherSuite::GcmAes128;
const LEFT: Sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1);
const RIGHT: Sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 2]), 1);
const BYPASS: EtherType = EtherType::LLDP;
/// The most operations of a run.
const OPERATIONS: usize = 64;

/// Fragmentation settings of a link.
#[derive(Arbitrary, Debug, Clone, Copy)]
struct Setup {
    small_frames: bool,
    reassemble: bool,
    is_fragmenting: bool,
    fragment: bool,
    /// Bit 0: frames are shared. Bit 1: they are padded.
    shared_and_padded: u8,
}

/// A frame as a port may hand it over, or worse.
#[derive(Arbitrary, Debug)]
struct Received {
    kind: Kind,
    octets: Vec<u8>,
    /// Where the frame stands in its chunk, if not behind the headroom; perhaps beyond the chunk.
    place: Option<(u16, u16)>,
}

/// EtherType that a frame is given.
#[derive(Arbitrary, Debug)]
enum Kind {
    AsIs,
    Macsec,
    Eapol,
    Bypass,
    MacControl,
}

#[derive(Arbitrary, Debug)]
enum Operation {
    FromMachine {
        left: bool,
        frames: Vec<Received>,
    },
    FromNetwork {
        left: bool,
        frames: Vec<Received>,
    },
    /// Frames that left one link reach the other, the last first or in order, and once more if `twice`.
    Relay {
        left: bool,
        reversed: bool,
        twice: bool,
    },
}

struct Room {
    pool: Pool,
    port: MemoryPort,
    far: MemoryPort,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::new(room());
}

fn room() -> Room {
    // Chunks for SDUs, and for most of the frames that are made of them.
    let pool =
        Pool::new(ChunkOctets::Octets2048, 2 * BURST_FRAMES).expect("invariant: memory for 128 chunks");
    let (port, far) = MemoryPort::pair(4 * BURST_FRAMES);
    Room { pool, port, far }
}

/// Reads `octets` as a list of operations and carries it out.
///
/// # Panics
/// If one of the promises above is broken.
pub fn run(octets: &[u8]) {
    let mut input = Unstructured::new(octets);
    let Ok(setups) = <[Setup; 2]>::arbitrary(&mut input) else { return };
    ROOM.with_borrow_mut(|room| {
        let mut links = [Link::new(LEFT, RIGHT, setups[0]), Link::new(RIGHT, LEFT, setups[1])];
        for _ in 0..OPERATIONS {
            let Ok(operation) = Operation::arbitrary(&mut input) else { break };
            carry_out(room, &mut links, operation);
            assert_eq!(
                (room.pool.free(), room.pool.in_flight()),
                (room.pool.total(), 0),
                "every chunk is back"
            );
            if input.is_empty() {
                break;
            }
        }
    });
}

fn carry_out(room: &mut Room, links: &mut [Link; 2], operation: Operation) {
    let [a, b] = links;
    let (link, other) = match operation {
        Operation::FromMachine { left: true, .. }
        | Operation::FromNetwork { left: true, .. }
        | Operation::Relay { left: true, .. } => (a, b),
        _ => (b, a),
    };
    match operation {
        Operation::FromMachine { frames, .. } => link.outward(room, frames),
        Operation::FromNetwork { frames, .. } => link.inward(room, other, frames),
        Operation::Relay { reversed, twice, .. } => {
            let mut frames = std::mem::take(&mut other.sent);
            if reversed {
                frames.reverse();
            }
            let copies = if twice { 2 } else { 1 };
            for frames in frames.chunks(BURST_FRAMES) {
                for _ in 0..copies {
                    let received =
                        |octets: &Vec<u8>| Received { kind: Kind::AsIs, octets: octets.clone(), place: None };
                    link.inward(room, other, frames.iter().map(received).collect());
                }
            }
        }
    }
}

struct Link {
    pipeline: Pipeline,
    /// Frames that left for the network and have not been relayed yet.
    sent: Vec<Vec<u8>>,
    /// SDUs that its machine gave it and the other machine has not got yet, with how often each is still due.
    given: HashMap<Vec<u8>, usize>,
}

impl Link {
    fn new(own: Sci, peer: Sci, setup: Setup) -> Self {
        let settings = Settings {
            protect_frames: true,
            sci_inclusion: SciInclusion::Always,
            validate_frames: ValidateFrames::Strict,
            replay_protect: true,
            clear_vlan: ClearVlan::Refuse,
            reassemble: setup.reassemble,
            mtu: if setup.small_frames { 300 } else { 1532 },
        };
        let an = An::from_tci(0);
        let mut secy = SecY::new(own, settings);
        let transmit =
            TransmitSa::new(an, crate::key::prepared(SUITE), None, PROTECTION, Pn::FIRST, Pn::LAST_64);
        let transmit = transmit.expect("invariant: no XPN suite, no binding");
        secy.install_transmit(Box::new(transmit)).expect("invariant: a free AN");
        secy.enable_transmit(an).expect("invariant: it is installed");
        secy.install_receive_sc(peer).expect("invariant: another SCI");
        let receive = ReceiveSa::new(an, crate::key::prepared(SUITE), None, PROTECTION, Pn::FIRST, 64);
        let receive = receive.expect("invariant: no XPN suite, no binding");
        secy.install_receive(peer, Box::new(receive)).expect("invariant: a free AN");
        secy.enable_receive(peer, an).expect("invariant: it is installed");
        let Setup { fragment, shared_and_padded, .. } = setup;
        let (concatenate, is_padded) = (shared_and_padded & 1 != 0, shared_and_padded & 2 != 0);
        let sizes: &[u16] = if setup.small_frames { &[128, 200, 314] } else { &[256, 1546] };
        let padding =
            if is_padded { FrameSizes::new(sizes).expect("invariant: sizes") } else { FrameSizes::NONE };
        let fragmentation = FragmentConfig {
            fragment,
            concatenate,
            padding,
            hold: Duration::ZERO,
            express: ExpressClasses::DEFAULT,
        };
        let pipeline = Pipeline::new(secy, &[BYPASS], setup.is_fragmenting.then_some(fragmentation));
        Self { pipeline, sent: Vec::new(), given: HashMap::new() }
    }

    fn outward(&mut self, room: &mut Room, frames: Vec<Received>) {
        let mut burst = fill(&mut room.pool, frames);
        let mut given = Vec::new();
        for slot in burst.slots() {
            given.push(room.pool.frame(slot).to_vec());
        }
        let mut out = ToProtected::default();
        self.pipeline.outward(Instant::START, &mut room.pool, &mut burst, &mut out, &mut room.port);
        assert!(burst.is_empty());
        for frame in std::iter::from_fn(|| room.far.collect()) {
            let ethertype = Header::parse(&frame).expect("what leaves has a header").ethertype;
            assert!(ethertype == EtherType::MACSEC || ethertype == BYPASS, "{frame:02x?} leaves in clear");
            self.sent.push(frame);
        }
        for sdu in given {
            // Never an SDU: it must not arrive.
            if sdu.get(12..14) == Some(&EtherType::MAC_CONTROL.0.to_be_bytes()) {
                continue;
            }
            *self.given.entry(sdu).or_default() += 1;
        }
    }

    fn inward(&mut self, room: &mut Room, other: &mut Self, frames: Vec<Received>) {
        let mut burst = fill(&mut room.pool, frames);
        let mut out = ToPlain::default();
        self.pipeline.inward(Instant::START, &mut room.pool, &mut burst, &mut out, &mut room.port);
        assert!(burst.is_empty());
        for frame in std::iter::from_fn(|| room.far.collect()) {
            if Header::parse(&frame).is_ok_and(|header| header.vlan_tags == 0 && header.ethertype == BYPASS) {
                continue;
            }
            let left = other.given.get_mut(&frame);
            let left = left.unwrap_or_else(|| panic!("{frame:02x?} was never sent"));
            *left = left.checked_sub(1).unwrap_or_else(|| panic!("{frame:02x?} is delivered twice"));
        }
    }
}

/// Frames in chunks of the pool, at most one burst.
fn fill(pool: &mut Pool, frames: Vec<Received>) -> Burst {
    let mut burst = Burst::new();
    for Received { kind, mut octets, place } in frames.into_iter().take(BURST_FRAMES) {
        let ethertype = match kind {
            Kind::AsIs => None,
            Kind::Macsec => Some(EtherType::MACSEC),
            Kind::Eapol => Some(EtherType::EAPOL),
            Kind::Bypass => Some(BYPASS),
            Kind::MacControl => Some(EtherType::MAC_CONTROL),
        };
        if let (Some(ethertype), Some(place)) = (ethertype, octets.get_mut(12..14)) {
            place.copy_from_slice(&ethertype.0.to_be_bytes());
        }
        octets.truncate(pool.room());
        let mut slot = pool.take().expect("invariant: as many chunks as a burst has frames");
        let view = pool.view(&mut slot);
        view.chunk.fill(0);
        view.chunk[HEADROOM..HEADROOM + octets.len()].copy_from_slice(&octets);
        let (start, len) = place.map_or((HEADROOM, octets.len()), |(start, len)| (start.into(), len.into()));
        slot.place(start, len);
        assert!(burst.push(slot).is_ok(), "at most one burst");
    }
    burst
}
