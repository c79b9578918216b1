//! Two links whose keys are agreed on, and the test between them on the wire, holding the KaYs' clock.

#![allow(dead_code)] // not every test uses all of it

use std::path::PathBuf;
use std::time::{Duration, Instant};

use control::{Gateway, KeyAgreement, KeyAgreementStatus, Notice};
use dataplane::link::{Link, Ports};
use dataplane::pipeline::Pipeline;
use dataplane::snapshot::LinkSnapshot;
use dataplane::worker::Polling;
use mka::{Announced, CakEntry, OnPeerLoss, SuiteRule};
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use netdev::scheduling::Scheduling;
use pnstore::LeaseStore;
use secy::{ClearVlan, ExpressClasses, FrameSizes, SciInclusion, SecY, Settings, ValidateFrames};
use suite::mka::Cak;
use testkit::frames::{ethernet, payload};
use wire::mkpdu::{Capability, Confidentiality};
use wire::{Ckn, EtherType, MacAddr, Sci};

pub(crate) const NAMES: [&str; 2] = ["left", "right"];
/// Factor by which the KaYs' clock is faster than ours.
const HASTE: u32 = 10;
/// Longest step of that clock in one turn: a machine that is busy with other things loses nobody his peers.
const LEAP: Duration = Duration::from_millis(200);
/// No test takes as long as that.
const DEADLINE: Duration = Duration::from_secs(120);
const CHUNKS: usize = 512;

pub(crate) const fn mac(side: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, side as u8 + 1])
}

pub(crate) const fn sci(side: usize) -> Sci {
    Sci::new(mac(side), 1)
}

pub(crate) fn cak(octet: u8) -> CakEntry {
    CakEntry { ckn: Ckn::new(&[octet]).unwrap(), cak: Cak::new(&[octet; 16]).unwrap() }
}

/// Settings of a side's KaY; both reassemble and want to fragment.
pub(crate) fn kay(side: usize) -> mka::Settings {
    mka::Settings {
        sci: sci(side),
        source: mac(side),
        destination: MacAddr([1, 0x80, 0xc2, 0, 0, 3]),
        priority: 16,
        capability: Capability::Offsets,
        confidentiality: Confidentiality::Zero,
        suite: SuiteRule::Any,
        announced: Announced {
            reassembles: true,
            splits: true,
            carries_whole: false,
            in_kernel: false,
            express: false,
            takes_padded: true,
            largest_sdu: 9000,
            name: None,
            suites: vec![],
        },
        fragment: true,
        concatenate: true,
        pad: true,
        delay_protect: false,
        sak_lifetime: None,
        on_peer_loss: OnPeerLoss::Block,
        peers: vec![],
        accept_integrity: false,
    }
}

/// One that neither announces nor uses what the standard does not have.
pub(crate) fn plain_kay(side: usize) -> mka::Settings {
    let announced = Announced {
        reassembles: false,
        splits: false,
        express: false,
        takes_padded: false,
        largest_sdu: 1518,
        ..kay(side).announced
    };
    mka::Settings { announced, fragment: false, concatenate: false, pad: false, ..kay(side) }
}

pub(crate) fn agreement(settings: mka::Settings) -> KeyAgreement {
    let (caks, hold) = (vec![cak(1)], Duration::ZERO);
    // Half of all tests: antedated or not, nothing else may differ.
    let antedate = settings.sci == sci(0);
    KeyAgreement {
        settings,
        caks,
        replay_window: 64,
        hold,
        express_classes: ExpressClasses::DEFAULT,
        padding: FrameSizes::NONE,
        antedate,
        beside_stations: false,
        record: None,
    }
}

pub(crate) fn pipeline(side: usize, mtu: usize) -> Pipeline {
    let settings = Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        reassemble: true,
        mtu,
    };
    Pipeline::new(SecY::new(sci(side), settings), &[], None)
}

/// One side: the far ends of its link's ports, and what its machine has got.
pub(crate) struct Side {
    pub(crate) machine: MemoryPort,
    pub(crate) wire: MemoryPort,
    pub(crate) came: Vec<Vec<u8>>,
    /// MKPDUs and data that it sent are lost.
    pub(crate) cut: bool,
    /// Data that it sent is held back, and waits here.
    pub(crate) delayed: Option<Vec<Vec<u8>>>,
}

pub(crate) fn ports() -> (Box<Ports>, MemoryPort, MemoryPort) {
    let (machine, plain) = MemoryPort::pair(256);
    let (wire, protected) = MemoryPort::pair(256);
    let pool = Pool::new(ChunkOctets::Octets2048, CHUNKS).unwrap();
    (Box::new(Ports { pool, plain: Box::new(plain), protected: Box::new(protected) }), machine, wire)
}

pub(crate) struct Pair {
    pub(crate) gateway: Gateway,
    pub(crate) sides: [Side; 2],
    pub(crate) now: Instant,
    pub(crate) notices: Vec<Notice>,
    /// Frames in clear that were carried.
    pub(crate) clear: usize,
    began: Instant,
    turned: Instant,
    state: PathBuf,
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

impl Pair {
    pub(crate) fn new(name: &str, settings: [mka::Settings; 2]) -> Self {
        let state = std::env::temp_dir().join(format!("fw-agreed-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&state);
        let leases = LeaseStore::open(&state, None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Adaptive, Scheduling::Ordinary).unwrap();
        let mut side = 0;
        let sides = settings.map(|settings| {
            let (ports, machine, wire) = ports();
            let link = Link::closed(pipeline(side, 1532));
            gateway.add_agreed(NAMES[side].into(), link, agreement(settings)).unwrap();
            // The worker turns it without ports meanwhile, as at a start where opening them takes its time.
            std::thread::sleep(Duration::from_millis(20));
            gateway.open(NAMES[side], ports).unwrap();
            side += 1;
            Side { machine, wire, came: Vec::new(), cut: false, delayed: None }
        });
        let now = Instant::now();
        Self { gateway, sides, now, notices: vec![], clear: 0, began: now, turned: now, state }
    }

    /// One step of the clock: control turns, the wire carries, machines get their SDUs.
    pub(crate) fn turn(&mut self) {
        assert!(self.began.elapsed() < DEADLINE, "it takes too long: {}", self.story());
        let before = std::mem::replace(&mut self.turned, Instant::now());
        self.now += ((self.turned - before) * HASTE).min(LEAP);
        self.notices.extend(self.gateway.turn(self.now));
        std::thread::yield_now();
        for (from, to) in [(0, 1), (1, 0)] {
            while let Some(frame) = self.sides[from].wire.collect() {
                let ethertype = [frame[12], frame[13]];
                self.clear += usize::from(ethertype != [0x88, 0xe5] && ethertype != [0x88, 0x8e]);
                if ethertype == [0x88, 0xe5]
                    && let Some(delayed) = &mut self.sides[from].delayed
                {
                    delayed.push(frame);
                } else if !self.sides[from].cut {
                    assert!(self.sides[to].wire.inject(&frame), "the wire is full");
                }
            }
        }
        for side in &mut self.sides {
            while let Some(sdu) = side.machine.collect() {
                side.came.push(sdu);
            }
        }
    }

    /// Account of what happened, for whoever looks for why it did not go on.
    fn story(&mut self) -> String {
        use std::fmt::Write;
        let mut story = String::new();
        for (side, name) in NAMES.into_iter().enumerate() {
            let snapshot = self.snapshot(side);
            let mut look = |table: &[wire::Counter], values: &[u64]| {
                for (counter, value) in table.iter().zip(values).filter(|(_, value)| **value > 0) {
                    write!(story, "{} {value}, ", counter.name).unwrap();
                }
            };
            look(dataplane::pipeline::PipelineCounters::TABLE, &snapshot.pipeline.values());
            look(dataplane::fragmenter::FragmenterCounters::TABLE, &snapshot.fragmenter.values());
            look(secy::SecYCounters::TABLE, &snapshot.secy.values());
            look(secy::TransmitSaCounters::TABLE, &snapshot.transmit.values());
            for sc in &snapshot.receive_scs {
                look(secy::ReceiveSaCounters::TABLE, &sc.counters.values());
            }
            writeln!(story, "\nin {:?} out {:?}", snapshot.plain, snapshot.protected).unwrap();
            let status = self.status(side);
            for change in status.status.changes {
                let ago = status.now.since(change.at);
                writeln!(story, "{name} {ago:?} ago: {}", change.words).unwrap();
            }
        }
        story
    }

    /// The latest SAK, if both protect with it.
    pub(crate) fn current(&self) -> Option<wire::Ki> {
        let [left, right] = [0, 1].map(|side| {
            let saks = self.status(side).status.saks;
            saks.first().filter(|sak| sak.transmits).map(|sak| sak.ki)
        });
        left.filter(|_| left == right)
    }

    /// Turns until it is so.
    pub(crate) fn until(&mut self, what: &str, mut so: impl FnMut(&mut Self) -> bool) {
        let start = self.now;
        while !so(self) {
            self.turn();
            let waited = self.now - start;
            assert!(waited < Duration::from_secs(100), "{what}: {}", self.story());
        }
    }

    pub(crate) fn status(&self, side: usize) -> KeyAgreementStatus {
        self.gateway.key_agreement_status(NAMES[side]).unwrap()
    }

    /// The name of the SAK that both protect with, if it is the same and the only one.
    pub(crate) fn settled(&self) -> Option<wire::Ki> {
        let [left, right] = [0, 1].map(|side| match &self.status(side).status.saks[..] {
            [sak] if sak.transmits => Some(sak.ki),
            _ => None,
        });
        left.filter(|_| left == right)
    }

    pub(crate) fn secure(&mut self) -> wire::Ki {
        self.until("secured", |pair| pair.settled().is_some());
        self.settled().unwrap()
    }

    pub(crate) fn snapshot(&mut self, side: usize) -> LinkSnapshot {
        // A worker that gets no CPU for a second is left out of a report: it is asked again.
        let mut answers = std::iter::repeat_with(|| self.gateway.snapshots()).take(60);
        answers.find_map(|all| all.into_iter().find(|(of, _)| of == NAMES[side])).unwrap().1
    }

    /// Gives both machines SDUs of their own, and sees all of them come out at the other one, in order.
    pub(crate) fn exchange(&mut self, count: u64, octets: usize) {
        let first: [usize; 2] = [0, 1].map(|side| self.sides[side].came.len());
        for number in 0..count {
            for from in 0..2 {
                assert!(self.sides[from].machine.inject(&sdu(from, number, octets)));
            }
            if number % 8 == 7 {
                self.turn();
                self.until("few are under way", |pair| {
                    (0..2).all(|to| pair.sides[to].came.len() + 32 > first[to] + number as usize)
                });
            }
        }
        self.until("all came", |pair| {
            (0..2).all(|to| pair.sides[to].came.len() >= first[to] + count as usize)
        });
        for (to, first) in first.into_iter().enumerate() {
            let came = self.sides[to].came.split_off(first);
            assert!(came.iter().zip(0..).all(|(came, number)| *came == sdu(1 - to, number, octets)));
            assert_eq!(came.len() as u64, count);
        }
    }
}

/// An SDU of a machine, for the other one.
pub(crate) fn sdu(from: usize, number: u64, octets: usize) -> Vec<u8> {
    let seed = number * 2 + from as u64;
    ethernet(mac(1 - from + 8), mac(from + 8), EtherType::IPV4, &payload(octets, seed))
}

/// An EAPOL frame that no KaY can do anything with.
pub(crate) fn garbage(number: u64) -> Vec<u8> {
    let octets = [0, 3, 40, 400, 1400][number as usize % 5];
    let mut frame =
        ethernet(MacAddr([1, 0x80, 0xc2, 0, 0, 3]), mac(0), EtherType::EAPOL, &payload(octets, number));
    if let (true, Some(head)) = (number.is_multiple_of(2), frame.get_mut(14..18)) {
        let body = (octets - 4) as u16;
        head.copy_from_slice(&[3, 5, (body >> 8) as u8, body as u8]);
    }
    frame
}
