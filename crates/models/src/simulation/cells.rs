//! A world of cells, in one process, under virtual time, drawn from a seed: handshakes, keys and data paths of relations are the product's.
//! One or two cells share a network; each has two to four gateways.

mod gateway;
mod plan;

use std::collections::HashSet;
use std::time::Duration;

use fieldbus::Mode;
use testkit::Chance;
use wire::fieldbus::Protect;
use wire::{EtherType, Instant};

use super::judge::{Sent, Told, Wrong};
use super::network::{CALM, Flight};
use super::time::{self, Common, instant, micros};
use gateway::{Arrived, Departed, Gateway};
use plan::{Config, MARK, Plan};

/// Interval between two frames of a machine.
const CYCLE: u64 = 50_000;

struct Place {
    gateway: Gateway,
    cell: usize,
    number: usize,
    /// Asleep until then; and by how much its clock is behind, since that stood still meanwhile.
    asleep: u64,
    behind: u64,
    /// Time at which it is told to take the newest configuration of its cell.
    reload: Option<u64>,
    /// By relation: frames that were sent, and numbers of those that were delivered after they were verified, or in clear.
    sent: Vec<Sent>,
    verified: HashSet<(usize, u64)>,
    in_clear: HashSet<(usize, u64)>,
}

struct World {
    common: Common,
    cells: Vec<(Plan, Config)>,
    places: Vec<Place>,
    /// Frames reach all gateways, as by a switch that knows no address; else those of their cell.
    is_flooded: bool,
}

/// Runs a world of cells.
///
/// # Errors
/// The first broken promise.
pub fn run(seed: u64) -> Result<Told, Wrong> {
    time::run(World::new(seed).map_err(Wrong::Impossible)?)
}

impl World {
    fn new(seed: u64) -> Result<Self, String> {
        let mut chance = Chance::new(seed);
        let (mut cells, mut places) = (Vec::new(), Vec::new());
        for cell in 0..1 + chance.below(2) as usize {
            let plan = Plan::new(&mut chance, cell as u8);
            let config = Config::new(&mut chance, plan.relations.len());
            for number in 0..plan.gateways {
                places.push(Place {
                    gateway: Gateway::new(&mut chance, &plan, number, &config)?,
                    cell,
                    number,
                    asleep: 0,
                    behind: 0,
                    reload: None,
                    sent: vec![Sent::default(); plan.relations.len()],
                    verified: HashSet::new(),
                    in_clear: HashSet::new(),
                });
            }
            cells.push((plan, config));
        }
        let is_flooded = chance.happens(300);
        Ok(Self { common: Common::new(chance, CYCLE), cells, places, is_flooded })
    }

    fn name(&self, at: usize) -> String {
        let Place { cell, number, .. } = &self.places[at];
        format!("{:.6} s: gateway {number} of cell {cell}", self.common.now as f64 / 1e6)
    }

    fn impossible(&self, at: usize, why: &str) -> Wrong {
        Wrong::Impossible(format!("{}: {why}", self.name(at)))
    }

    /// Puts a frame on the network. It shows what the machine sent in shadow mode alone, or if it is only authenticated.
    fn send(&mut self, from: usize, frame: &[u8], of: Option<usize>) -> Result<(), Wrong> {
        let Place { gateway, cell, .. } = &self.places[from];
        let ethertype = frame.get(16..18).map(|octets| EtherType(u16::from_be_bytes([octets[0], octets[1]])));
        let may_show = of.is_some_and(|relation| {
            let protects = ethertype.is_some_and(|ethertype| gateway.protects(ethertype));
            let authenticates = gateway.config.protection.protect == Protect::Authenticate;
            gateway.mode(relation) == Mode::Shadow && !protects || protects && authenticates
        });
        if !may_show && frame.windows(MARK.len()).any(|part| part == MARK) {
            return Err(Wrong::Plaintext(self.name(from)));
        }
        let (cell, is_flooded) = (*cell, self.is_flooded);
        let places = self.places.iter().enumerate();
        let hears = |(to, place): &(usize, &Place)| *to != from && (is_flooded || place.cell == cell);
        self.common.send(from, places.filter(hears).map(|(to, _)| to), frame);
        Ok(())
    }

    /// Control's turn. It may be killed meanwhile.
    fn turn(&mut self, at: usize) -> Result<(), Wrong> {
        let place = &mut self.places[at];
        let says = place.gateway.turn(place.clock(self.common.now));
        for hello in says {
            self.send(at, &hello, None)?;
        }
        if self.places[at].gateway.lives == Some(0) {
            self.begin(at)?;
        }
        Ok(())
    }

    /// Begins anew, with the configuration that is there.
    fn begin(&mut self, at: usize) -> Result<(), Wrong> {
        let Place { cell, number, reload, gateway, .. } = &self.places[at];
        let (plan, newest) = &self.cells[*cell];
        let config = if reload.is_some() { &gateway.config } else { newest };
        let begun = Gateway::new(&mut self.common.chance, plan, *number, config);
        self.places[at].gateway = begun.map_err(|why| self.impossible(at, &why))?;
        Ok(())
    }

    /// Another program goes on in the place of one that is awake.
    fn upgrade(&mut self, at: usize) -> Result<(), Wrong> {
        if self.places[at].asleep > self.common.now {
            return Ok(());
        }
        // Control is done with all that has come.
        self.places[at].gateway.hasten();
        self.turn(at)?;
        let place = &mut self.places[at];
        let plan = &self.cells[place.cell].0;
        match place.gateway.upgraded(&mut self.common.chance, plan, place.number) {
            Ok(Some(next)) => {
                place.gateway = next;
                self.common.counts[3] += 1;
            }
            Ok(None) => {}
            Err(why) => return Err(self.impossible(at, &why)),
        }
        Ok(())
    }

    /// A cell gets another configuration: one gateway after the other.
    fn change(&mut self, cell: usize) {
        let (_, config) = &mut self.cells[cell];
        *config = config.changed(&mut self.common.chance);
        for place in self.places.iter_mut().filter(|place| place.cell == cell) {
            let at = self.common.soon();
            place.reload = Some(place.reload.map_or(at, |before| before.min(at)));
        }
    }

    fn reload(&mut self, at: usize) -> Result<(), Wrong> {
        let Place { cell, number, .. } = self.places[at];
        let begun = Gateway::new(&mut self.common.chance, &self.cells[cell].0, number, &self.cells[cell].1);
        let begun = begun.map_err(|why| self.impossible(at, &why))?;
        let before = std::mem::replace(&mut self.places[at].gateway, begun);
        let now = self.places[at].clock(self.common.now);
        self.places[at].gateway.take_over(now, before);
        self.turn(at)
    }

    /// The machine at an end of a relation sends a frame.
    fn depart(&mut self, at: usize, relation: usize) -> Result<(), Wrong> {
        let (now, is_calm) = (self.common.now, self.common.is_calm());
        let place = &mut self.places[at];
        let plan = &self.cells[place.cell].0;
        let end = usize::from(plan.relations[relation][1].gateway == place.number);
        let sdu = plan.sdu(relation, end, place.sent[relation].another(now, is_calm));
        let departed = place.gateway.depart(place.clock(now), &sdu);
        let Departed { clear, protected } = departed.map_err(|why| self.impossible(at, &why))?;
        if clear {
            self.send(at, &sdu, Some(relation))?;
        }
        let Some((frame, used)) = protected else { return Ok(()) };
        self.common.counts[0] += 1;
        if !self.common.nonces.insert(used) {
            return Err(Wrong::NonceTwice(self.name(at)));
        }
        self.send(at, &frame, Some(relation))
    }

    /// The machine at an end of a relation gets a frame that was verified.
    fn deliver(&mut self, to: usize, relation: usize, octets: &[u8]) -> Result<(), Wrong> {
        self.common.counts[1] += 1;
        let Place { cell, number, .. } = self.places[to];
        let plan = &self.cells[cell].0;
        let from = usize::from(plan.relations[relation][0].gateway == number);
        let sender = plan.relations[relation][from].gateway;
        let sender = self.places.iter().find(|place| (place.cell, place.number) == (cell, sender));
        let sent = sender.map_or(0, |sender| sender.sent[relation].count);
        let count = Plan::count(octets);
        let is_sent = |count: &u64| *count <= sent && octets == plan.sdu(relation, from, *count);
        let Some(count) = count.filter(is_sent) else {
            return Err(Wrong::Forged(format!("{}: relation {relation}", self.name(to))));
        };
        if !self.places[to].verified.insert((relation, count)) {
            return Err(Wrong::Twice(format!("{}: number {count} of relation {relation}", self.name(to))));
        }
        Ok(())
    }
}

impl Place {
    /// Returns the time of its clock.
    fn clock(&self, now: u64) -> Instant {
        instant(now - self.behind)
    }
}

impl time::World for World {
    fn healed(&self) -> Duration {
        Duration::from_secs(4)
    }

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn timer(&self) -> Option<u64> {
        let due = |place: &Place| {
            let timer = place.gateway.poll_timeout().map(|due| micros(due) + place.behind);
            Some(timer.into_iter().chain(place.reload).min()?.max(place.asleep))
        };
        self.places.iter().filter_map(due).min()
    }

    fn fault(&mut self) -> Result<(), Wrong> {
        let (count, until) = (self.places.len() as u64, self.common.soon());
        let Common { chance, network, now, .. } = &mut self.common;
        let (at, other) = (chance.below(count) as usize, chance.below(count) as usize);
        match chance.below(9) {
            0 => network.cut(at, other, until),
            1 => network.cut_both_ways(at, other, until),
            2 => self.places[at].gateway.lives = Some(1 + chance.below(12)),
            3 => {
                let place = &mut self.places[at];
                if place.asleep <= *now {
                    place.asleep = until;
                    place.behind += if chance.happens(500) { until - *now } else { 0 };
                }
            }
            4 | 5 => self.change(self.places[at].cell),
            6 | 7 => self.upgrade(at)?,
            _ => self.common.replay(count as usize),
        }
        Ok(())
    }

    fn machines(&mut self) -> Result<(), Wrong> {
        for at in 0..self.places.len() {
            if self.places[at].asleep > self.common.now {
                continue;
            }
            let relations: Vec<usize> = self.places[at].gateway.relations().collect();
            for relation in relations {
                self.depart(at, relation)?;
            }
        }
        Ok(())
    }

    fn asleep(&self, flight: &Flight) -> u64 {
        self.places[flight.to].asleep
    }

    fn arrive(&mut self, Flight { to, octets, .. }: Flight) -> Result<(), Wrong> {
        let now = self.places[to].clock(self.common.now);
        let arrived = self.places[to].gateway.arrive(now, &octets);
        match arrived.map_err(|why| self.impossible(to, &why))? {
            Arrived::Nothing => Ok(()),
            Arrived::Verified(relation, octets) => self.deliver(to, relation, &octets),
            Arrived::Clear(relation, _) if self.places[to].gateway.mode(relation) != Mode::Shadow => {
                Err(Wrong::Forged(format!("{}: in clear, in relation {relation}", self.name(to))))
            }
            Arrived::Clear(relation, octets) => {
                let count = Plan::count(&octets).unwrap_or_default();
                self.places[to].in_clear.insert((relation, count));
                Ok(())
            }
        }
    }

    fn timers(&mut self) -> Result<(), Wrong> {
        let now = self.common.now;
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            if place.asleep > now {
                continue;
            }
            if now >= CALM {
                place.gateway.lives = None;
            }
            if place.reload.take_if(|reload| *reload <= now).is_some() {
                self.reload(at)?;
            }
            let place = &self.places[at];
            if place.gateway.poll_timeout().is_some_and(|due| micros(due) + place.behind <= now) {
                self.turn(at)?;
            }
        }
        Ok(())
    }

    fn last_lost(&self, until: u64) -> Option<(u64, String)> {
        let mut lost = None;
        for place in &self.places {
            let plan = &self.cells[place.cell].0;
            for relation in place.gateway.relations() {
                let peer = plan.relations[relation].iter().find(|end| end.gateway != place.number);
                let peer = peer.and_then(|end| {
                    self.places.iter().find(|peer| (peer.cell, peer.number) == (place.cell, end.gateway))
                });
                let arrived = |count| {
                    let id = (relation, count);
                    place.verified.contains(&id) || place.in_clear.contains(&id)
                };
                let last = peer.and_then(|peer| peer.sent[relation].last_lost(until, arrived));
                let to = place.number;
                let between = || format!("cell {}, relation {relation}, towards gateway {to}", place.cell);
                lost = lost.max(last.map(|at| (at, between())));
            }
        }
        lost
    }
}
