//! From flows and connections to the relations of a cell, and to the reasons of what is left out.
//!
//! 1. A connection that was agreed on is a relation for each pair of output and input: FrameIDs and cycles are exact.
//! 2. Other flows to one station are paired with those that come back, by cycle and FrameID. Any pairing protects the same frames; both
//!    boxes only need the same one.
//! 3. Flows of other fieldbuses are paired alike ([`super::other_buses`]).
//! 4. Stations go to the two boxes so that each relation has one at each: controllers to box A, or the stations with the most relations.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use config::check::cell::time;
use config::fieldbus::MOST_RELATIONS;
use fieldbus::relation::{FrameAddress, Relation};
use wire::MacAddr;
use wire::fieldbus::{FrameId, Protocol, Target};
use wire::profinet::connect::Way;

use super::flow::{Flow, Irregular, Origin};
use super::{Heard, Learner};

/// The longest cycle that a cell takes.
const LONGEST_CYCLE: Duration = Duration::from_millis(512);
/// VID that no tag may have.
pub(super) const NO_VID: u16 = 0xfff;

/// Facts that the configuration needs besides frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The cell's name.
    pub name: String,
    /// Stations at box A; none: they are guessed.
    pub local: Vec<MacAddr>,
    /// The interface of both boxes towards the machines.
    pub plain: String,
    /// The interface of both boxes towards the network.
    pub protected: String,
}

/// One station of a relation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// Its address.
    pub station: MacAddr,
    /// FrameID that it sends.
    pub frame_id: FrameId,
    /// Its name, if it was heard.
    pub name: Option<String>,
    /// Frames that were heard of it.
    pub frames: u64,
    /// Octets of the longest of these.
    pub octets: usize,
    /// Nine of ten intervals between them deviate from the cycle by no more.
    pub jitter: Duration,
    /// The group that they go to, if they do not go to the other station.
    pub group: Option<MacAddr>,
    /// TCI of their VLAN tag.
    pub(super) tag: Option<u16>,
}

/// A relation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposed {
    /// Its fieldbus.
    pub protocol: Protocol,
    /// Its stations, that at box A first.
    pub ends: [End; 2],
    /// Its cycle: the longer one, if both directions differ.
    pub cycle: Duration,
    /// Whether the other direction has a shorter one.
    pub has_two_cycles: bool,
    /// Source of the cycle.
    pub origin: Origin,
    /// Cycles without a frame after which stations give up, if that was agreed on.
    pub(super) watchdog: Option<u16>,
}

/// Frames that are in no relation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LeftOut {
    /// The frames.
    pub what: String,
    /// The reason, and the cure if there is one.
    pub why: String,
}

/// The proposal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Learned {
    /// As it was asked for.
    pub setting: Setting,
    /// The relations; none if none was found.
    pub relations: Vec<Proposed>,
    /// Cyclic frames that are in none of them.
    pub left_out: Vec<LeftOut>,
    /// TCI of the VLAN tag of most frames.
    pub tag: Option<u16>,
    /// Cycles without a frame after which the first station gives up, if that is known.
    pub watchdog: Option<u16>,
    /// Time between the first frame and the last.
    pub duration: Duration,
    /// Counters of all frames.
    pub heard: Heard,
}

impl Learned {
    /// Stations at box A (0) or B (1), each once.
    pub fn stations(&self, end: usize) -> BTreeSet<MacAddr> {
        self.relations.iter().map(|relation| relation.ends[end].station).collect()
    }
}

/// Sender, receiver, FrameID.
pub(super) type Direction = (MacAddr, MacAddr, FrameId);

impl Learner {
    /// The relations of all that was heard.
    pub fn learned(&self, setting: Setting) -> Learned {
        let mut draft = Draft::new(self);
        draft.take_connections();
        draft.take_timing();
        draft.take_other_buses();
        let Draft { mut relations, mut left_out, .. } = draft;
        divide(&mut relations, &mut left_out, &setting.local, self);
        relations.sort_by_key(|relation| {
            let [a, b] = &relation.ends;
            (a.station, b.station, a.frame_id, b.frame_id, relation.protocol)
        });
        let tag = one_vlan(&mut relations, &mut left_out);
        for relation in relations.drain(relations.len().min(MOST_RELATIONS)..) {
            left_out.push(
                relation
                    .left_out(format!("a cell has {MOST_RELATIONS} relations at most; use two boxes more")),
            );
        }
        left_out.sort();
        left_out.dedup();
        let watchdog = relations.iter().filter_map(|relation| relation.watchdog).min();
        let (duration, heard) = (self.duration(), *self.heard());
        Learned { setting, relations, left_out, tag, watchdog, duration, heard }
    }
}

pub(super) struct Draft<'l> {
    pub(super) learner: &'l Learner,
    /// Flows of PROFINET: where the same one was heard at several interfaces, the one with the most frames.
    flows: BTreeMap<Direction, &'l Flow>,
    used: BTreeSet<Direction>,
    pub(super) relations: Vec<Proposed>,
    left_out: Vec<LeftOut>,
}

impl<'l> Draft<'l> {
    fn new(learner: &'l Learner) -> Self {
        let mut flows: BTreeMap<Direction, &Flow> = BTreeMap::new();
        for (key, flow) in &learner.flows {
            if key.stream.protocol == Protocol::Profinet {
                keep_best(flows.entry((key.source, key.destination, key.stream.id)), flow);
            }
        }
        Self { learner, flows, used: BTreeSet::new(), relations: Vec::new(), left_out: Vec::new() }
    }

    pub(super) fn left_out(&mut self, what: String, why: impl Into<String>) {
        self.left_out.push(LeftOut { what, why: why.into() });
    }

    /// A flow that has not ended.
    fn alive(&self, direction: &Direction) -> Option<&'l Flow> {
        let flow = self.flows.get(direction)?;
        (!matches!(flow.rhythm(self.learner.last), Err(Irregular::Ended(_)))).then_some(*flow)
    }

    pub(super) fn end(
        &self,
        (station, to, frame_id): Direction,
        flow: Option<&Flow>,
        cycle: Duration,
    ) -> End {
        End {
            station,
            frame_id,
            name: self.learner.names.get(&station).cloned(),
            frames: flow.map_or(0, |flow| flow.frames),
            octets: flow.map_or(0, |flow| flow.octets[1]),
            jitter: flow.map_or(Duration::ZERO, |flow| flow.jitter(cycle)),
            group: to.is_group().then_some(to),
            tag: flow.and_then(|flow| flow.tag),
        }
    }

    fn take_connections(&mut self) {
        let learner = self.learner;
        for connection in learner.connections.latest_first() {
            let Some(device) = connection.device else { continue };
            let pairs = connection.of_way(Way::Output).zip(connection.of_way(Way::Input));
            for (output, input) in pairs {
                let there = (connection.controller, device, output.frame_id);
                let back = (device, connection.controller, input.frame_id);
                let Some(cycles) = output.cycle.zip(input.cycle) else { continue };
                let is_new = !self.used.contains(&there) && !self.used.contains(&back);
                if is_new && is_possible(&there) && is_possible(&back) {
                    let watchdog = output.watchdog.min(input.watchdog);
                    self.agreed(there, back, cycles, watchdog);
                }
            }
        }
    }

    fn agreed(
        &mut self,
        there: Direction,
        back: Direction,
        (one, other): (Duration, Duration),
        watchdog: u16,
    ) {
        let cycle = one.max(other);
        let flows = [self.alive(&there), self.alive(&back)];
        let what = || format!("{} and {}, by Connect", named(&there), named(&back));
        if flows.iter().all(Option::is_none) {
            let why = "no frame of it was heard; listen for longer, or where both directions pass";
            // A flow that has ended is told with the others.
            return self.left_out(what(), why);
        }
        if cycle > LONGEST_CYCLE {
            return self
                .left_out(what(), format!("one each {}: a cell takes cycles up to 512 ms", time(cycle)));
        }
        if flows.iter().flatten().any(|flow| flow.tags > 1) {
            return self.left_out(what(), TWO_TAGS);
        }
        self.used.extend([there, back]);
        let ends = [self.end(there, flows[0], one), self.end(back, flows[1], other)];
        self.relations.push(Proposed {
            protocol: Protocol::Profinet,
            ends,
            cycle,
            has_two_cycles: one != other,
            origin: Origin::Connect,
            watchdog: Some(watchdog).filter(|watchdog| (2..=255).contains(watchdog)),
        });
    }

    fn take_timing(&mut self) {
        // Of each pair of stations: what the lower address sends, then what the higher one does, by cycle and FrameID.
        let mut pairs: BTreeMap<[MacAddr; 2], [BTreeSet<(Duration, Direction)>; 2]> = BTreeMap::new();
        let flows: Vec<_> = self.flows.iter().map(|(direction, flow)| (*direction, *flow)).collect();
        for (direction, flow) in flows {
            if self.used.contains(&direction) {
                continue;
            }
            let what = named_frames(&direction, flow);
            match flow.rhythm(self.learner.last) {
                _ if direction.1.is_group() => {
                    self.left_out(
                        what,
                        "goes to a group: a relation has two stations, so the link carries it",
                    );
                }
                _ if !is_possible(&direction) => {
                    self.left_out(what, "has an address or a FrameID that no relation can have");
                }
                _ if flow.tags > 1 => self.left_out(what, TWO_TAGS),
                Err(why) => self.left_out(what, why.to_string()),
                Ok(rhythm) => {
                    let (from, to, _) = direction;
                    let side = usize::from(from > to);
                    let pair = pairs.entry([from.min(to), from.max(to)]).or_default();
                    pair[side].insert((rhythm.cycle, direction));
                }
            }
        }
        for [one, other] in pairs.into_values() {
            for (_, direction) in one.iter().skip(other.len()).chain(other.iter().skip(one.len())) {
                let what = named_frames(direction, self.flows[direction]);
                self.left_out(what, "nothing cyclic comes back for it; listen where both directions pass");
            }
            for (there, back) in one.iter().zip(&other) {
                self.timed(*there, *back);
            }
        }
    }

    fn timed(&mut self, (one, there): (Duration, Direction), (other, back): (Duration, Direction)) {
        let flows = [self.flows[&there], self.flows[&back]];
        let ends = [self.end(there, Some(flows[0]), one), self.end(back, Some(flows[1]), other)];
        let origins =
            flows.map(|flow| flow.rhythm(self.learner.last).map_or(Origin::Timing, |rhythm| rhythm.origin));
        let origin = origins[0].min(origins[1]);
        let (cycle, has_two_cycles) = (one.max(other), one != other);
        let protocol = Protocol::Profinet;
        self.relations.push(Proposed { protocol, ends, cycle, has_two_cycles, origin, watchdog: None });
    }
}

/// Flows once each: of several interfaces with the same one, the one with the most frames counts.
pub(super) fn keep_best<'l, K: Ord>(entry: Entry<'_, K, &'l Flow>, flow: &'l Flow) {
    let best = entry.or_insert(flow);
    if (flow.frames, flow.octets) > (best.frames, best.octets) {
        *best = flow;
    }
}

pub(super) const TWO_TAGS: &str = "has two VLAN tags: a cell delivers frames with one at most";

/// Whether a relation of PROFINET can have it.
fn is_possible(&(from, to, id): &Direction) -> bool {
    is_station(from) && is_station(to) && from != to && id.is_cyclic()
}

pub(super) fn is_station(station: MacAddr) -> bool {
    !station.is_group() && station != MacAddr::default()
}

fn named(&(from, to, id): &Direction) -> String {
    format!("{id} from {from} to {to}")
}

fn named_frames(direction: &Direction, flow: &Flow) -> String {
    format!("{}, {} frames", named(direction), flow.frames)
}

impl Proposed {
    /// Addresses of its frames and HELLOs, both ways.
    pub(super) fn addresses(&self) -> impl Iterator<Item = FrameAddress> + use<> {
        let ways = [fieldbus::Direction::Outward, fieldbus::Direction::Inward];
        let of = move |relation: Relation| ways.map(|way| relation.addresses(way));
        self.relation().into_iter().flat_map(of).flat_map(|addresses| addresses.all())
    }

    /// It, as the box of its first station has it; none if its ends are no relation.
    fn relation(&self) -> Option<Relation> {
        let [a, b] = &self.ends;
        let target = |end: &End| end.group.map_or(Target::Peer, Target::Group);
        let relation = Relation::new((a.station, a.frame_id), (b.station, b.frame_id), self.cycle);
        relation.and_then(|relation| relation.of(self.protocol, target(a), target(b))).ok()
    }

    fn left_out(&self, why: String) -> LeftOut {
        let [a, b] = &self.ends;
        let what = format!("{} {} and {} {}", a.station, a.frame_id, b.station, b.frame_id);
        LeftOut { what, why }
    }
}

/// Puts each station at one box, and the station at box A first in each relation.
fn divide(relations: &mut Vec<Proposed>, left_out: &mut Vec<LeftOut>, local: &[MacAddr], learner: &Learner) {
    let sides = if local.is_empty() { guessed(relations, learner) } else { BTreeMap::new() };
    let side = |station: MacAddr| match local {
        [] => sides.get(&station).copied().unwrap_or(1),
        local => usize::from(!local.contains(&station)),
    };
    relations.retain_mut(|relation| {
        let [a, b] = [0, 1].map(|end| side(relation.ends[end].station));
        if a > b {
            relation.ends.swap(0, 1);
        }
        if a == b {
            let at = ["A", "B"][a];
            let why = format!("both stations would be behind box {at}; name those behind box A with --local");
            left_out.push(relation.left_out(why));
        }
        a != b
    });
}

/// The box of each station, 0 or 1: neighbours get different ones, as far as possible.
fn guessed(relations: &[Proposed], learner: &Learner) -> BTreeMap<MacAddr, usize> {
    let mut peers: BTreeMap<MacAddr, BTreeSet<MacAddr>> = BTreeMap::new();
    for Proposed { ends: [a, b], .. } in relations {
        peers.entry(a.station).or_default().insert(b.station);
        peers.entry(b.station).or_default().insert(a.station);
    }
    let mut seeds: Vec<MacAddr> =
        learner.connections.latest_first().map(|connection| connection.controller).collect();
    let mut by_peers: Vec<_> =
        peers.iter().map(|(station, peers)| (std::cmp::Reverse(peers.len()), *station)).collect();
    by_peers.sort_unstable();
    seeds.extend(by_peers.into_iter().map(|(_, station)| station));
    let mut sides = BTreeMap::new();
    for seed in seeds {
        if sides.contains_key(&seed) || !peers.contains_key(&seed) {
            continue;
        }
        sides.insert(seed, 0);
        let mut next = vec![seed];
        while let Some(station) = next.pop() {
            let other = 1 - sides[&station];
            for peer in &peers[&station] {
                if !sides.contains_key(peer) {
                    sides.insert(*peer, other);
                    next.push(*peer);
                }
            }
        }
    }
    sides
}

/// Leaves relations of PROFINET out whose frames are in another VLAN than most: they have the cell's tag. The TCI of most frames of the
/// others.
fn one_vlan(relations: &mut Vec<Proposed>, left_out: &mut Vec<LeftOut>) -> Option<u16> {
    let vid = |tag: Option<u16>| tag.unwrap_or(0) & NO_VID;
    let heard = |relation: &Proposed| -> Vec<Option<u16>> {
        relation
            .ends
            .iter()
            .filter(|end| end.frames > 0)
            .map(|end| end.tag.map(|tag| tag & !0x1000))
            .collect()
    };
    let has_tag_of_cell = |relation: &&Proposed| relation.protocol == Protocol::Profinet;
    let tags: Vec<_> = relations.iter().filter(has_tag_of_cell).flat_map(heard).collect();
    let vlan = most_frequent(tags.iter().map(|tag| vid(*tag)).filter(|vid| *vid != NO_VID)).unwrap_or(0);
    relations.retain(|relation| {
        let other = heard(relation).into_iter().map(vid).find(|vid| *vid != vlan);
        let other = other.filter(|_| relation.protocol == Protocol::Profinet);
        if let Some(other) = other {
            left_out.push(relation.left_out(format!(
                "is in VLAN {other}, and most are in VLAN {vlan}: a cell has one tag; make the engineering tool use one VLAN"
            )));
        }
        other.is_none()
    });
    most_frequent(relations.iter().filter(has_tag_of_cell).flat_map(heard)).flatten()
}

/// The most frequent of some values; of several as frequent, the lowest.
fn most_frequent<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts.into_iter().min_by_key(|(_, count)| std::cmp::Reverse(*count)).map(|(value, _)| value)
}
