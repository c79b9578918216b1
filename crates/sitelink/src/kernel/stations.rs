//! Stations by their numbers in the kernel, as long as flows need them, or peers in plain mode send from them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use tunnel::{Command, Location};
use wire::{Instant, MacAddr};
use xdp::site::Site;

use super::numbers::Numbers;

/// Time for which a station stays where it was heard, as in the half.
const STAY: Duration = Duration::from_secs(1);
/// Interval at which the half is told that a station or a flow is used.
pub(super) const USED: Duration = Duration::from_secs(10);
/// Stations that are looked at in one look.
pub(super) const SWEPT: usize = 512;

#[derive(Debug)]
pub(super) struct Stations {
    known: BTreeMap<MacAddr, Station>,
    numbers: Numbers,
    /// Station that was looked at last.
    swept: MacAddr,
}

/// A station, and how many flows and peers in plain mode need it.
#[derive(Debug)]
struct Station {
    number: u32,
    flows: usize,
    told: Option<Location>,
    told_at: Option<Instant>,
}

impl Stations {
    pub(super) fn new(room: u32) -> Self {
        Self { known: BTreeMap::new(), numbers: Numbers::new(room), swept: MacAddr::default() }
    }

    /// Stations that there is room for.
    pub(super) const fn free(&self) -> usize {
        self.numbers.free()
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 2] {
        self.numbers.counts()
    }

    /// Numbers that have rested may be used again.
    pub(super) fn reuse(&mut self) {
        self.numbers.reuse();
    }

    /// Number of a station, which one more flow needs from here on.
    pub(super) fn take(&mut self, site: &mut Site, address: MacAddr) -> Option<u32> {
        if let Some(known) = self.known.get_mut(&address) {
            known.flows += 1;
            return Some(known.number);
        }
        let number = self.numbers.take()?;
        let set = site.set_station(number, address, None).and_then(|()| site.set_address(address, number));
        if set.is_err() {
            self.numbers.put_back(number);
            return None;
        }
        self.known.insert(address, Station { number, flows: 1, told: None, told_at: None });
        Some(number)
    }

    /// Number of a station that some flow or peer needs.
    pub(super) fn number(&self, address: MacAddr) -> Option<u32> {
        self.known.get(&address).map(|known| known.number)
    }

    /// One flow less needs a station.
    pub(super) fn let_go(&mut self, site: &mut Site, address: MacAddr) {
        let Some(known) = self.known.get_mut(&address) else { return };
        known.flows -= 1;
        if known.flows == 0 {
            let number = known.number;
            let _ = site.remove_address(address);
            self.known.remove(&address);
            self.numbers.rest(number);
        }
    }

    /// The half knows of this location already.
    pub(super) fn half_knows(&mut self, address: MacAddr, location: Location) {
        if let Some(station) = self.known.get_mut(&address) {
            station.told = Some(location);
        }
    }

    /// The half says where it has heard a station, if it has. Where the programs have heard it since counts more. Returns its number.
    pub(super) fn place(
        &mut self,
        site: &mut Site,
        address: MacAddr,
        location: Option<Location>,
    ) -> Option<u32> {
        let known = self.known.get_mut(&address)?;
        let (heard, _) = site.now().and_then(|now| site.station(known.number, now)).ok()?;
        if heard.is_none() && location.is_some() {
            site.set_station(known.number, address, location).ok()?;
            known.told = location;
        }
        Some(known.number)
    }

    /// A station was heard elsewhere by the half: it moves if the kernel has not heard it lately. Returns its location.
    pub(super) fn move_to(&mut self, site: &mut Site, address: MacAddr, to: Location) -> Location {
        let mut location = to;
        if let Some(known) = self.known.get_mut(&address)
            && let Ok((place, since)) = site.now().and_then(|now| site.station(known.number, now))
        {
            match place {
                Some(place) if place != to && since < STAY => location = place,
                _ => drop(site.set_station(known.number, address, Some(to))),
            }
            known.told = Some(location);
        }
        location
    }

    /// Location that a station keeps: the programs have heard it there within a second. The half hears of it once in a while.
    pub(super) fn held_at(&self, site: &Site, address: MacAddr) -> Option<Location> {
        let known = self.known.get(&address)?;
        let (location, since) = site.now().and_then(|now| site.station(known.number, now)).ok()?;
        location.filter(|_| since < STAY)
    }

    /// Tells the half where some more stations are.
    pub(super) fn sweep(&mut self, site: &Site, now: Instant, commands: &mut VecDeque<Command>) {
        let Ok(clock) = site.now() else { return };
        let behind = (Bound::Excluded(self.swept), Bound::Unbounded);
        let swept = self.known.range_mut(behind).take(SWEPT);
        let (mut last, mut looked) = (MacAddr::default(), 0);
        for (&address, station) in swept {
            (last, looked) = (address, looked + 1);
            let Ok((Some(location), since)) = site.station(station.number, clock) else { continue };
            let due = station.told_at.is_none_or(|told| now.since(told) >= USED);
            if station.told != Some(location) || due && since < USED {
                (station.told, station.told_at) = (Some(location), Some(now));
                commands.push_back(Command::StationHeard { address, location });
            }
        }
        self.swept = if looked < SWEPT { MacAddr::default() } else { last };
    }
}
