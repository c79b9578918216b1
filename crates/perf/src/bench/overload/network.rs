//! Networks in which good frames are offered: a pair of boxes between machines, or tunnels between plants.

use std::path::Path;
use std::time::Duration;

use lab::cyclic::{Relation, RoundRobin};
use lab::flood::Flood;
use lab::macsec::{self, Load, Prepared};
use lab::plants::to;
use lab::topology::RIGHT;
use lab::trial::{Search, SearchResult};
use lab::{Error, Namespace, PacketSocket, Topology};

use super::PAYLOAD;
use super::attacker::{Strange, caught};
use super::curve::Way;
use super::witness::Witness;
use crate::bench::test_bed::TestBed;
use crate::bench::{BenchError, tunnel};
use crate::demo::pair::Station;

/// More than any sender sends in a trial: PNs go on from one to the next.
const PNS: u32 = 1 << 22;

/// A case with its network.
pub(super) enum TestNetwork {
    /// Boxes between two machines.
    Link(Box<TestBed>),
    /// Boxes between a PLC and its devices.
    Cell(Box<TestBed>, Vec<Relation>),
    /// Boxes between two plants.
    Tunnel(Box<tunnel::Case>),
}

impl TestNetwork {
    pub(super) fn link(test_bed: TestBed) -> Self {
        Self::Link(Box::new(test_bed))
    }

    pub(super) fn cell(test_bed: TestBed, relations: Vec<Relation>) -> Self {
        Self::Cell(Box::new(test_bed), relations)
    }

    pub(super) fn tunnel(case: tunnel::Case) -> Self {
        Self::Tunnel(Box::new(case))
    }

    /// The second box, if a gateway runs there, and where.
    fn far(&self) -> Option<(&Station, &Namespace)> {
        match self {
            Self::Link(test_bed) | Self::Cell(test_bed, _) => {
                Some((test_bed.far()?, &test_bed.topology.gateway_b.namespace))
            }
            Self::Tunnel(case) => Some((case.far()?, &case.plants.plants[1].site)),
        }
    }

    /// Somebody who uses the second box meanwhile, if a gateway runs there.
    pub(super) fn witness(&self) -> Result<Option<Witness>, BenchError> {
        self.far().map(|(station, namespace)| Witness::start(namespace, station.asker())).transpose()
    }

    /// A frame that the first box has protected, as a stranger can take it from the network; `None` if nothing is protected.
    pub(super) fn protected(&mut self) -> Result<Option<Vec<u8>>, BenchError> {
        match self {
            Self::Link(test_bed) | Self::Cell(test_bed, _) if test_bed.far().is_none() => Ok(None),
            Self::Link(test_bed) => {
                let Topology { machine_a: a, machine_b: b, middle, .. } = &test_bed.topology;
                let sender = PacketSocket::open(&a.namespace, a.ifname)?;
                let mut frame = [&b.mac[..], &a.mac, &[0x88, 0xb5]].concat();
                frame.resize(14 + PAYLOAD, 0);
                let sought = |seen: &[u8]| seen.starts_with(&b.mac) && seen[12..14] == [0x88, 0xe5];
                caught((middle, RIGHT), "a protected frame", || sender.send(&frame), sought).map(Some)
            }
            Self::Cell(test_bed, relations) => {
                let Topology { machine_a: a, middle, .. } = &test_bed.topology;
                let sender = PacketSocket::open(&a.namespace, a.ifname)?;
                let mut turns = RoundRobin::new(&relations[..1], 0);
                let mut frame = Vec::new();
                let to = relations[0].stations[1];
                let ethertype = wire::fieldbus::ETHERTYPE.0.to_be_bytes();
                let sought = |seen: &[u8]| {
                    // Of Seq 0 is a HELLO.
                    seen.starts_with(&to) && seen[16..18] == ethertype && seen[21..25] != [0; 4]
                };
                let send = || {
                    turns.next_into(&mut frame);
                    sender.send(&frame)
                };
                caught((middle, RIGHT), "a protected cyclic frame", send, sought).map(Some)
            }
            Self::Tunnel(case) if !case.protects => Ok(None),
            Self::Tunnel(case) => {
                let [from, to_port] = case.ports();
                let mut frames = Prepared::new(from.mac, to_port.mac, macsec::SHORTEST, case.pn);
                let sender = PacketSocket::open(from.namespace, from.ifname)?;
                let [one, two] = [0, 1].map(|index| &case.plants.plants[index]);
                // Data packets of a shortest frame: IPv4, UDP, from site to site, and not much more than the frame.
                let (source, target) = (one.ipv4.octets(), two.ipv4.octets());
                let sought = |seen: &[u8]| {
                    (42 + 32..42 + 100).contains(&seen.len())
                        && seen[12..14] == [8, 0]
                        && seen[23] == 17
                        && seen[26..30] == source
                        && seen[30..34] == target
                        && seen[42] & 0x40 == 0
                };
                let send = || sender.send(&frames.next_frame());
                let device = to(two.number);
                let seen = caught((&case.plants.internet, &device), "a packet between sites", send, sought);
                case.pn += PNS;
                seen.map(Some)
            }
        }
    }

    /// Sends what a stranger sends, towards the second box.
    pub(super) fn stranger(
        &self,
        strange: Strange,
        protected: &[u8],
        rate: u32,
        limit: Duration,
    ) -> Result<Load, BenchError> {
        Ok(match self {
            Self::Link(test_bed) => Load::start_with(
                (&test_bed.topology.middle, RIGHT),
                strange.frames(protected),
                Some(rate),
                limit,
            )?,
            Self::Cell(test_bed, relations) => {
                let mut clear = Vec::new();
                RoundRobin::new(&relations[..1], 0).next_into(&mut clear);
                let next = strange.cyclic(protected, &clear);
                Load::start_with((&test_bed.topology.middle, RIGHT), next, Some(rate), limit)?
            }
            Self::Tunnel(case) => {
                let device = to(case.plants.plants[1].number);
                let from = (&case.plants.internet, &*device);
                Load::start_with(from, strange.packets(protected), Some(rate), limit)?
            }
        })
    }

    /// Time of a cell's handshakes after the first box has started again; `None` where there is no protected cell.
    pub(super) fn handshake(&mut self, frameward: &Path) -> Result<Option<Duration>, BenchError> {
        match self {
            Self::Cell(test_bed, _) if test_bed.far().is_some() => test_bed.handshake(frameward).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn stop(self) -> Result<(), BenchError> {
        match self {
            Self::Link(test_bed) | Self::Cell(test_bed, _) => test_bed.stop(),
            Self::Tunnel(case) => case.stop(),
        }
    }
}

impl Way for TestNetwork {
    fn search(&mut self, search: &Search) -> Result<SearchResult, Error> {
        match self {
            Self::Link(test_bed) => {
                [&test_bed.topology.machine_a, &test_bed.topology.machine_b].search(search)
            }
            Self::Cell(test_bed, relations) => {
                let octets = RoundRobin::new(relations, 0).mean_octets();
                search.run_with(ends(test_bed), octets, || cyclic(relations, 0))
            }
            Self::Tunnel(case) => {
                let mut pn = case.pn;
                let [from, to] = case.ports();
                let ends = [from, to].map(|port| (port.namespace, port.ifname));
                let found = search.run_with(ends, macsec::SHORTEST, || {
                    let mut frames = Prepared::new(from.mac, to.mac, macsec::SHORTEST, pn);
                    pn += PNS;
                    move |frame: &mut Vec<u8>| {
                        frames.next_into(frame);
                    }
                });
                case.pn = pn;
                found
            }
        }
    }

    fn offer(&mut self, rate: u32, time: Duration) -> Result<Flood, Error> {
        match self {
            Self::Link(test_bed) => {
                [&test_bed.topology.machine_a, &test_bed.topology.machine_b].offer(rate, time)
            }
            Self::Cell(test_bed, relations) => {
                macsec::flood_with(ends(test_bed), cyclic(relations, 0), Some(rate), time)
            }
            Self::Tunnel(case) => {
                let [from, to] = case.ports();
                let flood = macsec::flood(from, to, macsec::SHORTEST, case.pn, Some(rate), time);
                case.pn += PNS;
                flood
            }
        }
    }

    fn offer_both(&mut self, rate: u32, time: Duration) -> Result<[Flood; 2], Error> {
        match self {
            Self::Link(test_bed) => {
                [&test_bed.topology.machine_a, &test_bed.topology.machine_b].offer_both(rate, time)
            }
            Self::Cell(test_bed, relations) => {
                let frames = [0, 1].map(|side| cyclic(relations, side));
                macsec::both_ways_with(ends(test_bed), frames, Some(rate), time)
            }
            Self::Tunnel(case) => {
                let floods = macsec::both_ways(case.ports(), macsec::SHORTEST, case.pn, Some(rate), time);
                case.pn += PNS;
                floods
            }
        }
    }
}

/// The machines' interfaces.
fn ends(test_bed: &TestBed) -> [(&Namespace, &str); 2] {
    let Topology { machine_a, machine_b, .. } = &test_bed.topology;
    [machine_a, machine_b].map(|machine| (&machine.namespace, machine.ifname))
}

/// Frames of all relations in turn, from one side.
fn cyclic(relations: &[Relation], side: usize) -> impl FnMut(&mut Vec<u8>) + Send + use<> {
    let mut turns = RoundRobin::new(relations, side);
    move |frame| turns.next_into(frame)
}
