//! Three KaYs and the LAN between them, driven by a list of operations.
//!
//! ```text
//!  KaY 0 ┐                                     ┌ a SecY each: does what it is asked for, and says so when it is let
//!  KaY 1 ┼── lose, swap, duplicate, corrupt ───┤
//!  KaY 2 ┘     ▲ any octets; what a member says who has a CAK and lies; a rogue KaY that has the fallback CAK alone;
//!              └ what was held back or recorded, at any time later
//! ```
//!
//! Promises: no panic; a KaY ends what it says to one thing that it is told; it installs no SAK twice, and on no AN that
//! is in use; it enables and retires only what is installed; it reports no state in which the SecY is not. And as long
//! as nobody lies who has the preferred CAK, half a minute of quiet secures all of them under that one, whatever a rogue
//! did who has the fallback.

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use mka::{Announced, CakEntry, Event, Kay, OnPeerLoss, Report, Settings, SuiteRule, SuiteTiming};
use suite::CipherSuite;
use suite::mka::Cak;
use wire::mkpdu::{
    BasicParameters, Capability, Confidentiality, DistributedSak, KeyUse, Mkpdu, ParameterSet, PeerEntry,
    PeerList, SakUse, SystemName, Writer,
};
use wire::{An, Ckn, Instant, Ki, MacAddr, Mi, Sci};

const STATIONS: usize = 3;
/// The most operations of a run.
const OPERATIONS: usize = 150;
/// Whose frame comes from none of the stations.
const NOBODY: usize = usize::MAX;
/// The most frames that wait on the LAN.
const LAN: usize = 64;
/// The most that may follow from one thing that a KaY is told.
const FOLLOWS: usize = 200;
const CAKS: [[u8; 16]; 2] = [*b"the group's CAK!", *b"a fallback's CAK"];

#[derive(Arbitrary, Debug, Clone, Copy)]
struct Setup {
    priorities: [u8; STATIONS],
    suites: [u8; STATIONS],
    hold: bool,
    delay_protect: bool,
    lifetime: bool,
    fallback: bool,
}

#[derive(Arbitrary, Debug)]
enum Operation {
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
    Corrupt {
        a: u8,
        at: u16,
        bit: u8,
    },
    Raw {
        octets: Vec<u8>,
    },
    Pass {
        milliseconds: u16,
    },
    /// The SecY says what it did.
    Answer {
        station: u8,
    },
    NextPn {
        station: u8,
        next_pn: u64,
    },
    Rekey {
        station: u8,
    },
    Restart {
        station: u8,
    },
    Change {
        station: u8,
        setup: Setup,
    },
    /// A frame of who has the CAK and says what it likes.
    Lie {
        lie: Lie,
    },
    /// The same of who has the fallback CAK alone.
    RogueLie {
        lie: Lie,
    },
    /// A KaY with the fallback CAK alone speaks from here on, or no more.
    Rogue {
        priority: u8,
    },
    /// Frames are kept back, or recorded.
    Hold {
        count: u8,
        record: bool,
    },
    /// Frames that were held back come after all.
    Release {
        count: u8,
    },
}

#[derive(Arbitrary, Debug, Clone, Copy)]
struct Lie {
    /// Another's SCI and MI, or its own.
    as_station: Option<u8>,
    mn: u32,
    priority: u8,
    key_server: bool,
    /// Whose MI it says to have heard, and up to which MN.
    hears: u8,
    heard_mn: u32,
    sak: Option<(u8, u32, u8, u8)>,
    uses: Option<(u8, u32, u8, bool, bool, u32)>,
    suite: u8,
}

/// A KaY and its SecY.
struct Station {
    kay: Kay,
    seed: u8,
    /// Installed: KI, AN, and whether it protects.
    saks: Vec<(Ki, An)>,
    /// Ever installed by this KaY.
    known: Vec<Ki>,
    answers: Vec<Report>,
}

struct World {
    setup: Setup,
    /// The last one may be a rogue's.
    stations: Vec<Station>,
    /// Kept back by who stands between.
    held: Vec<(usize, Vec<u8>)>,
    lan: Vec<(usize, Vec<u8>)>,
    now: Instant,
    honest: bool,
    seeds: u8,
}

/// Reads `octets` as a list of operations and carries it out.
///
/// # Panics
/// If one of the promises above is broken.
pub fn run(octets: &[u8]) {
    let mut input = Unstructured::new(octets);
    let Ok(setup) = Setup::arbitrary(&mut input) else { return };
    let mut world = World {
        setup,
        stations: Vec::new(),
        held: Vec::new(),
        lan: Vec::new(),
        now: Instant::after_start(Duration::from_secs(1)),
        honest: true,
        seeds: 0,
    };
    for number in 0..STATIONS {
        let station = world.begin(number);
        world.stations.push(station);
        world.follow(number);
    }
    for _ in 0..OPERATIONS {
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        world.carry_out(operation);
        world.lan.truncate(LAN);
        world.held.truncate(LAN);
        if input.is_empty() {
            break;
        }
    }
    world.settle();
}

fn ckn(number: usize) -> Ckn {
    Ckn::new(&[b'g', number as u8]).expect("a name")
}

fn caks(setup: &Setup) -> Vec<CakEntry> {
    let entry = |(number, octets): (usize, &[u8; 16])| CakEntry {
        ckn: ckn(number),
        cak: Cak::new(octets).expect("16 octets"),
    };
    CAKS.iter().enumerate().take(1 + usize::from(setup.fallback)).map(entry).collect()
}

fn settings(setup: &Setup, number: usize) -> Settings {
    let source = MacAddr([2, 0, 0, 0, 0, number as u8 + 1]);
    let suites = [CipherSuite::GcmAes256, CipherSuite::GcmAesXpn128, CipherSuite::ChaCha20Poly1305];
    let announced = suites.into_iter().filter(|suite| setup.suites[number] & (1 << (*suite as u8 % 8)) != 0);
    Settings {
        sci: Sci::new(source, 1),
        source,
        destination: MacAddr([1, 0x80, 0xc2, 0, 0, 3]),
        // One of them is always willing.
        priority: if number == 0 { setup.priorities[0] & 0x7f } else { setup.priorities[number] },
        capability: Capability::Offsets,
        confidentiality: Confidentiality::Zero,
        suite: SuiteRule::Any,
        announced: Announced {
            reassembles: setup.suites[number] & 1 == 0,
            splits: setup.suites[number] & 2 == 0,
            carries_whole: setup.suites[number] & 8 == 0,
            in_kernel: setup.suites[number] & 24 == 0,
            express: setup.suites[number] & 4 == 0,
            takes_padded: setup.suites[number] & 8 == 0,
            largest_sdu: 1500,
            name: SystemName::new(&[b'a' + number as u8; 9]).ok(),
            suites: announced.map(|suite| SuiteTiming { suite, nanoseconds: 100 }).collect(),
        },
        fragment: true,
        concatenate: true,
        pad: true,
        delay_protect: setup.delay_protect,
        sak_lifetime: setup.lifetime.then_some(Duration::from_secs(30)),
        on_peer_loss: if setup.hold { OnPeerLoss::Hold } else { OnPeerLoss::Block },
        peers: vec![],
        accept_integrity: false,
    }
}

impl World {
    fn begin(&mut self, number: usize) -> Station {
        self.seeds = self.seeds.wrapping_add(1);
        let mut seed = [self.seeds; 32];
        seed[0] = number as u8;
        let kay = Kay::new(self.now, settings(&self.setup, number), caks(&self.setup), &seed);
        Station { kay, seed: self.seeds, saks: Vec::new(), known: Vec::new(), answers: Vec::new() }
    }

    /// Carries out what a KaY says after it was told something: events and frames.
    fn follow(&mut self, number: usize) {
        let station = &mut self.stations[number];
        let mut follows = 0;
        while let Some(event) = station.kay.poll_event() {
            station.obey(event);
            follows += 1;
            assert!(follows < FOLLOWS, "events without end");
        }
        while let Some(frame) = station.kay.poll_transmit(self.now) {
            assert!(Mkpdu::parse(&frame).is_ok(), "what it sends is an MKPDU");
            self.lan.push((number, frame.to_vec()));
            follows += 1;
            assert!(follows < FOLLOWS, "frames without end");
        }
        let due = station.kay.poll_timeout();
        assert!(due.is_some_and(|due| due > self.now), "due {due:?} at {:?}: {:?}", self.now, station.kay);
    }

    fn deliver(&mut self, place: usize) {
        let (from, frame) = self.lan.remove(place);
        for number in (0..self.stations.len()).filter(|&number| number != from) {
            self.stations[number].kay.handle_frame(self.now, &frame);
            self.follow(number);
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        // From one moment at which something is due to the next, as a driver does.
        for _ in 0..2000 {
            let due = self.stations.iter().filter_map(|station| station.kay.poll_timeout()).min();
            self.now = due.filter(|&due| due <= end).unwrap_or(end).max(self.now);
            for number in 0..self.stations.len() {
                self.stations[number].kay.handle_timeout(self.now);
                self.follow(number);
            }
            if self.now >= end {
                return;
            }
        }
        panic!("time does not pass");
    }

    fn answer(&mut self, number: usize) {
        for report in std::mem::take(&mut self.stations[number].answers) {
            self.stations[number].kay.handle_report(self.now, report);
            self.follow(number);
        }
    }

    fn carry_out(&mut self, operation: Operation) {
        let waiting = self.lan.len();
        match operation {
            Operation::Deliver { count } => {
                for _ in 0..(1 + usize::from(count % 16)).min(waiting) {
                    self.deliver(0);
                }
            }
            Operation::Swap { a, b } if waiting > 0 => {
                self.lan.swap(usize::from(a) % waiting, usize::from(b) % waiting);
            }
            Operation::Duplicate { a } if waiting > 0 => {
                let copy = self.lan[usize::from(a) % waiting].clone();
                self.lan.push(copy);
            }
            Operation::Lose { count } => drop(self.lan.drain(..usize::from(count % 8).min(waiting))),
            Operation::Corrupt { a, at, bit } if waiting > 0 => {
                let frame = &mut self.lan[usize::from(a) % waiting].1;
                if let Some(at) = usize::from(at).checked_rem(frame.len()) {
                    frame[at] ^= 1 << (bit % 8);
                }
            }
            Operation::Raw { octets } => self.lan.push((NOBODY, octets)),
            Operation::Pass { milliseconds } => self.pass(Duration::from_millis(milliseconds.into())),
            Operation::Answer { station } => self.answer(usize::from(station) % STATIONS),
            Operation::NextPn { station, next_pn } => {
                let number = usize::from(station) % STATIONS;
                if let Some(&(ki, _)) = self.stations[number].saks.last() {
                    self.stations[number].kay.handle_report(self.now, Report::NextPn { ki, next_pn });
                    self.follow(number);
                }
            }
            Operation::Rekey { station } => {
                let number = usize::from(station) % STATIONS;
                self.stations[number].kay.rekey(self.now);
                self.follow(number);
            }
            Operation::Restart { station } => {
                let number = usize::from(station) % STATIONS;
                self.stations[number] = self.begin(number);
                self.follow(number);
            }
            Operation::Change { station, setup } => {
                let number = usize::from(station) % STATIONS;
                self.stations[number].kay.change(self.now, settings(&setup, number), caks(&setup));
                self.follow(number);
            }
            Operation::Lie { lie } => {
                self.honest = false;
                let frame = self.lie(&lie, 0);
                self.lan.push((NOBODY, frame));
            }
            Operation::RogueLie { lie } => {
                let frame = self.lie(&lie, 1);
                self.lan.push((NOBODY, frame));
            }
            Operation::Rogue { priority } if self.stations.len() == STATIONS => {
                let rogue = self.begin_rogue(priority);
                self.stations.push(rogue);
                self.follow(STATIONS);
            }
            Operation::Rogue { .. } => drop(self.stations.pop()),
            Operation::Hold { count, record } => {
                let count = usize::from(count % 16).min(waiting);
                let kept: Vec<_> = self.lan.drain(..count).collect();
                if record {
                    self.lan.extend(kept.iter().cloned());
                }
                self.held.extend(kept);
            }
            Operation::Release { count } => {
                let count = usize::from(count % 16).min(self.held.len());
                self.lan.extend(self.held.drain(..count));
            }
            _ => {}
        }
    }

    /// A KaY of its own SCI that has the fallback CAK alone.
    fn begin_rogue(&mut self, priority: u8) -> Station {
        self.seeds = self.seeds.wrapping_add(1);
        let seed = [self.seeds; 32];
        let setup = Setup { fallback: true, ..self.setup };
        let of_station = settings(&setup, 0);
        let source = MacAddr([2, 0, 0, 0, 0, 8]);
        let settings = Settings { sci: Sci::new(source, 1), source, priority, ..of_station };
        let kay = Kay::new(self.now, settings, caks(&setup).split_off(1), &seed);
        Station { kay, seed: self.seeds, saks: Vec::new(), known: Vec::new(), answers: Vec::new() }
    }

    /// An MKPDU whose ICV is right, under one of the CAKs.
    fn lie(&self, lie: &Lie, cak: usize) -> Vec<u8> {
        let ckn = ckn(cak);
        let mi_of = |number: u8| self.stations[usize::from(number) % STATIONS].kay.status(self.now).mi;
        let (sci, mi) = match lie.as_station {
            Some(number) => (settings(&self.setup, usize::from(number) % STATIONS).sci, mi_of(number)),
            None => (Sci::new(MacAddr([2, 0, 0, 0, 0, 9]), 1), Mi([9; 12])),
        };
        let basic = BasicParameters {
            version: 3,
            priority: lie.priority,
            key_server: lie.key_server,
            macsec_desired: true,
            capability: Capability::Confidentiality,
            sci,
            mi,
            mn: lie.mn,
            agility: [0x00, 0x80, 0xc2, 0x01],
            ckn,
        };
        let cak = Cak::new(&CAKS[cak]).expect("16 octets");
        let mut peers = [0; 64];
        let heard = std::iter::once(PeerEntry { mi: mi_of(lie.hears), mn: lie.heard_mn });
        let peers = PeerList::write(heard, &mut peers);
        let mut buffer = [0; 1514];
        let suite = CipherSuite::ALL[usize::from(lie.suite) % CipherSuite::ALL.len()];
        let wrapped = cak.kek(&ckn).wrap(&cak.sak(suite, &[7; 32], &[mi], 1));
        let mut write = || {
            let source = MacAddr([2, 0, 0, 0, 0, 9]);
            let destination = MacAddr([1, 0x80, 0xc2, 0, 0, 3]);
            let mut writer = Writer::new(&mut buffer, destination, source, 3, &basic).ok()?;
            writer.push(&ParameterSet::LivePeers { key_server_ssci: 0, peers }).ok()?;
            if let Some((server, kn, an, flags, rx, lowest_pn)) = lie.uses {
                let latest = KeyUse {
                    ki: Ki { server: mi_of(server), kn },
                    an: An::from_tci(an),
                    tx: flags,
                    rx,
                    lowest_pn,
                };
                let sak_use = SakUse {
                    latest: Some(latest),
                    old: None,
                    plain_tx: false,
                    plain_rx: false,
                    delay_protect: rx,
                };
                writer.push(&ParameterSet::SakUse(sak_use)).ok()?;
            }
            if let Some((an, kn, confidentiality, short)) = lie.sak {
                let octets = if short & 1 == 0 { wrapped.1 } else { 24 };
                let confidentiality = match confidentiality % 4 {
                    0 => Confidentiality::Integrity,
                    1 => Confidentiality::Zero,
                    2 => Confidentiality::Thirty,
                    _ => Confidentiality::Fifty,
                };
                let sak = DistributedSak {
                    an: An::from_tci(an),
                    confidentiality,
                    kn,
                    suite: Some(suite.identifier()),
                    wrapped: &wrapped.0[..octets],
                };
                writer.push(&ParameterSet::DistributedSak(Some(sak))).ok()?;
            }
            writer.finish(false, |octets| cak.ick(&ckn).icv(octets)).ok().map(<[u8]>::to_vec)
        };
        write().unwrap_or_default()
    }

    /// Quiet: nothing is lost, and the SecYs answer.
    fn settle(&mut self) {
        for _ in 0..300 {
            while !self.lan.is_empty() {
                self.deliver(0);
            }
            (0..self.stations.len()).for_each(|number| self.answer(number));
            self.pass(Duration::from_millis(100));
        }
        if !self.honest {
            return;
        }
        for station in &self.stations[..STATIONS] {
            let status = station.kay.status(self.now);
            assert_eq!(status.fault, None, "seed {}: {status:?}", station.seed);
            assert_eq!((status.ckn, status.under_fallback), (ckn(0), false), "{status:?}");
            assert!(status.saks.iter().any(|sak| sak.transmits), "{status:?}");
        }
    }
}

impl Station {
    fn obey(&mut self, event: Event) {
        let installed = |saks: &[(Ki, An)], ki: Ki| saks.iter().any(|&(other, _)| other == ki);
        match event {
            Event::Install(sak) => {
                assert!(!self.known.contains(&sak.ki), "SAK {} is installed a second time", sak.ki);
                assert!(self.saks.iter().all(|&(_, an)| an != sak.an), "AN {} is in use", sak.an);
                self.known.push(sak.ki);
                self.saks.push((sak.ki, sak.an));
                self.answers.push(Report::Installed(sak.ki));
            }
            Event::EnableTransmit(ki) => {
                assert!(installed(&self.saks, ki), "SAK {ki} is not installed");
                self.answers.push(Report::Transmitting(ki));
            }
            Event::Retire(ki) => {
                assert!(installed(&self.saks, ki), "SAK {ki} is not installed");
                self.saks.retain(|&(other, _)| other != ki);
                self.answers.retain(
                    |answer| !matches!(answer, Report::Installed(of) | Report::Transmitting(of) if *of == ki),
                );
            }
            Event::Admit { ki, .. } | Event::RaiseLowest { ki, .. } => {
                assert!(installed(&self.saks, ki), "SAK {ki} is not installed");
            }
            Event::Expel(_) | Event::Notice(_) => {}
        }
    }
}
