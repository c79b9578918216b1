//! Virtual time of a world, and what each world has.

use std::collections::HashSet;
use std::time::Duration;

use testkit::Chance;
use wire::Instant;

use super::judge::{Told, Used, Wrong};
use super::network::{CALM, Flight, Network, WAY};

/// Time for which a healed world is watched.
const WATCHED: u64 = 2_000_000;

/// State that each world has.
pub(super) struct Common {
    pub(super) chance: Chance,
    /// Microseconds since the beginning.
    pub(super) now: u64,
    /// Interval between two frames of a machine.
    pub(super) cycle: u64,
    pub(super) network: Network,
    pub(super) nonces: HashSet<Used>,
    /// Frames that were protected, delivered; faults; upgrades.
    pub(super) counts: [u64; 4],
}

/// A world.
pub(super) trait World {
    /// Time within which a fair network delivers all frames after the last fault.
    fn healed(&self) -> Duration;

    fn common(&mut self) -> &mut Common;
    /// Returns the time at which the next timer of a gateway that is awake is due.
    fn timer(&self) -> Option<u64>;
    /// Something happens.
    fn fault(&mut self) -> Result<(), Wrong>;
    /// Each machine sends a frame.
    fn machines(&mut self) -> Result<(), Wrong>;
    /// Until when a receiver sleeps.
    fn asleep(&self, flight: &Flight) -> u64;
    fn arrive(&mut self, flight: Flight) -> Result<(), Wrong>;
    /// Does what is due.
    fn timers(&mut self) -> Result<(), Wrong>;
    /// Last frame, sent before `until`, that was lost: moment, and between whom.
    fn last_lost(&self, until: u64) -> Option<(u64, String)>;
}

/// A moment of the world, for those within it.
pub(super) fn instant(now: u64) -> Instant {
    Instant::after_start(Duration::from_micros(1_000_000_000 + now))
}

pub(super) fn micros(at: Instant) -> u64 {
    at.since(instant(0)).as_micros() as u64
}

impl Common {
    pub(super) fn new(mut chance: Chance, cycle: u64) -> Self {
        let network = Network::new(&mut chance);
        Self { chance, now: 0, cycle, network, nonces: HashSet::new(), counts: [0; 4] }
    }

    /// No fault comes any more.
    pub(super) const fn is_calm(&self) -> bool {
        self.now >= CALM
    }

    /// A moment within the next eight seconds, and before the last fault.
    pub(super) fn soon(&mut self) -> u64 {
        (self.now + self.chance.below(8_000_000)).min(CALM)
    }

    /// Puts a frame on the network, towards all of these.
    pub(super) fn send(&mut self, from: usize, towards: impl Iterator<Item = usize>, octets: &[u8]) {
        self.network.send(&mut self.chance, self.now, from, towards, octets);
    }

    /// Somebody replays old frames.
    pub(super) fn replay(&mut self, receivers: usize) {
        self.network.replay(&mut self.chance, self.now, receivers);
    }
}

/// Runs a world to its end.
pub(super) fn run<W: World>(mut world: W) -> Result<Told, Wrong> {
    let most = world.healed().as_micros() as u64;
    let end = CALM + most + WATCHED;
    let (mut cycle, mut fault) = (0, 0);
    loop {
        let timer = world.timer();
        let common = world.common();
        let next = [common.network.next(), timer, Some(cycle), Some(fault)].into_iter().flatten().min();
        common.now = next.unwrap_or(end).max(common.now);
        let now = common.now;
        if now >= end {
            break;
        }
        if fault <= now {
            fault = u64::MAX;
            if now < CALM {
                common.counts[2] += 1;
                fault = now + common.chance.below(800_000);
                world.fault()?;
            }
        }
        if cycle <= now {
            cycle = now + world.common().cycle;
            world.machines()?;
        }
        while let Some(flight) = world.common().network.take(now) {
            let asleep = world.asleep(&flight);
            if asleep > now {
                world.common().network.put_off(flight, asleep);
            } else {
                world.arrive(flight)?;
            }
        }
        world.timers()?;
    }
    // The last frames are on their way.
    let lost = world.last_lost(end - 2 * WAY);
    let healed = lost.as_ref().map_or(0, |(at, _)| at + 1 - CALM);
    if let Some((at, between)) = lost.filter(|(at, _)| at - CALM > most) {
        return Err(Wrong::NotHealed(format!("{:.6} s: {between}: a frame is lost", at as f64 / 1e6)));
    }
    let Common { counts, network, .. } = world.common();
    let (time, healed) = (Duration::from_micros(end), Duration::from_micros(healed));
    Ok(Told { time, counts: *counts, healed, print: network.print() })
}
