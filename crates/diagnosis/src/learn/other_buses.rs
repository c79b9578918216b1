//! Relations of other fieldbuses than PROFINET: flows of one protocol that answer each other.
//!
//! | what one station sends | comes back |
//! |---|---|
//! | to another station | what that one sends to it |
//! | to another station, and nothing comes back so | what that one sends to a group: POWERLINK, EtherNet/IP |
//! | EtherCAT to a group | the same from its own address with the second bit set, as the first slave sets it |
//!
//! Each relation has the VLAN tag of its own frames. A publication that nobody answers is left out: nothing shows which station behind
//! the other box subscribes.

use std::collections::{BTreeMap, BTreeSet};

use config::check::cell::time;
use fieldbus::relation::FrameAddress;
use wire::MacAddr;
use wire::fieldbus::Protocol;

use super::flow::{Flow, Rhythm, Stream};
use super::proposal::{Direction, Draft, NO_VID, Proposed, TWO_TAGS, is_station, keep_best};

/// The bit of an address that the first EtherCAT slave sets.
const PASSED_SLAVE: u8 = 0x02;

/// A cyclic flow.
#[derive(Clone, Copy)]
struct Sent<'l> {
    stream: Stream,
    from: MacAddr,
    to: MacAddr,
    flow: &'l Flow,
    rhythm: Rhythm,
}

impl Sent<'_> {
    const fn direction(&self) -> Direction {
        (self.from, self.to, self.stream.id)
    }

    /// Whether this may be what comes back for `other`.
    fn answers(&self, other: &Self) -> bool {
        let (protocol, theirs) = (self.stream.protocol, other.stream.protocol);
        let mut passed = other.from;
        passed.0[0] ^= PASSED_SLAVE;
        protocol == theirs
            && match (other.to.is_group(), self.to.is_group()) {
                (false, false) => self.from == other.to && self.to == other.from,
                (false, true) => self.from == other.to,
                (true, false) => self.to == other.from,
                (true, true) => protocol == Protocol::EtherCat && self.from == passed,
            }
    }

    fn what(&self) -> String {
        format!("{} from {} to {}", self.stream, self.from, self.to)
    }
}

impl<'l> Draft<'l> {
    pub(super) fn take_other_buses(&mut self) {
        let mut pending = self.cyclic();
        let mut taken = self.taken();
        while !pending.is_empty() {
            let one = pending.remove(0);
            let answers = pending.iter().enumerate().filter(|(_, other)| other.answers(&one));
            let best = answers.min_by_key(|(_, other)| {
                (other.to.is_group(), other.rhythm.cycle.abs_diff(one.rhythm.cycle), other.stream.id)
            });
            let Some((place, _)) = best else {
                let cycle = time(one.rhythm.cycle);
                let why = if one.to.is_group() {
                    "goes to a group, and nothing shows who is behind the other box: write a relation with a station there, and destinations"
                } else {
                    "nothing cyclic comes back for it; listen where both directions pass"
                };
                self.left_out(one.what(), format!("one each {cycle}; {why}"));
                continue;
            };
            let other = pending.remove(place);
            self.pair(one, other, &mut taken);
        }
    }

    /// All cyclic flows, those to one station first.
    fn cyclic(&mut self) -> Vec<Sent<'l>> {
        let mut flows: BTreeMap<(bool, MacAddr, MacAddr, Stream), &Flow> = BTreeMap::new();
        for (key, flow) in &self.learner.flows {
            if key.stream.protocol != Protocol::Profinet {
                let of = (key.destination.is_group(), key.source, key.destination, key.stream);
                keep_best(flows.entry(of), flow);
            }
        }
        let end = self.learner.last;
        let cyclic = flows.into_iter().filter_map(|((_, from, to, stream), flow)| {
            Some(Sent { stream, from, to, flow, rhythm: flow.rhythm(end).ok()? })
        });
        let is_possible =
            |sent: &Sent<'_>| is_station(sent.from) && sent.to != MacAddr::default() && sent.from != sent.to;
        let (possible, _): (Vec<_>, Vec<_>) = cyclic.partition(is_possible);
        let (tagged_twice, possible): (Vec<_>, Vec<_>) =
            possible.into_iter().partition(|sent| sent.flow.tags > 1);
        tagged_twice.iter().for_each(|sent| self.left_out(sent.what(), TWO_TAGS));
        possible
    }

    /// Addresses and numbers of the relations so far: a protected frame does not show its protocol.
    fn taken(&self) -> BTreeSet<FrameAddress> {
        self.relations.iter().flat_map(Proposed::addresses).collect()
    }

    fn pair(&mut self, one: Sent<'l>, other: Sent<'l>, taken: &mut BTreeSet<FrameAddress>) {
        let ends = [(&one, one.rhythm.cycle), (&other, other.rhythm.cycle)]
            .map(|(sent, cycle)| self.end(sent.direction(), Some(sent.flow), cycle));
        let proposed = Proposed {
            protocol: one.stream.protocol,
            ends,
            cycle: one.rhythm.cycle.max(other.rhythm.cycle),
            has_two_cycles: one.rhythm.cycle != other.rhythm.cycle,
            origin: one.rhythm.origin.min(other.rhythm.origin),
            watchdog: None,
        };
        let addresses: BTreeSet<_> = proposed.addresses().collect();
        let vid = |sent: &Sent<'_>| sent.flow.tag.unwrap_or(0) & NO_VID;
        let why = if !addresses.is_disjoint(taken) {
            Some("another relation has the same number and the same stations, or the same group")
        } else if one.flow.tag != other.flow.tag {
            Some("the two directions have different VLAN tags, and a relation has one")
        } else if vid(&one) == NO_VID {
            Some("no tag has VLAN 4095")
        } else {
            None
        };
        if let Some(why) = why {
            return self.left_out(format!("{} and {}", one.what(), other.what()), why);
        }
        taken.extend(addresses);
        self.relations.push(proposed);
    }
}
