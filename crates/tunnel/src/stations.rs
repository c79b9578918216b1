//! Locations of stations: on this LAN, or behind a peer. Learned from source addresses.
//!
//! | heard | known place | what becomes of it |
//! |---|---|---|
//! | on the LAN | none, or here | here |
//! | on the LAN | behind a peer, heard there within a second | refused: it came out of a tunnel, or says so |
//! | on the LAN | behind a peer, silent there for a second | moves here |
//! | behind a peer | none, or there | there |
//! | behind a peer | here, heard here within a second | stays; the frame is refused |
//! | behind a peer | behind another, heard there within a second | stays; the frame is delivered |
//! | behind a peer | elsewhere, silent there for a second | moves |
//!
//! A station therefore moves at most once a second. A frame from a tunnel never enters one, even if the LAN sends it
//! back. No other site takes over the address of a machine that sends every second. MKPDUs teach nothing, and none says where a station
//! is that was heard elsewhere within a second ([`Stations::held_at`]): switches learn from it, too. Half of the table is for stations
//! here and half for those behind peers: neither can crowd out the other.

use alloc::vec::Vec;
use core::time::Duration;

use wire::MacAddr;
use wire::time::Instant;

use crate::hash::Hasher;
use crate::settings::PeerId;
use crate::table::Table;

/// Time for which a station stays at its last location.
const STAY: Duration = Duration::from_secs(1);

/// Time that the manager has to answer whether a station may move. Then it moves without an answer: a lost question, or a manager
/// that has failed, costs a station no more than this.
const ANSWER: Duration = Duration::from_secs(1);

/// Interval at which it is told again that a station is in use.
const AGAIN: Duration = Duration::from_secs(1);

/// Location of a station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Location {
    /// On this LAN.
    Here,
    /// At another site.
    Behind(PeerId),
}

/// A station with a known location.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Station {
    /// Its address.
    pub address: MacAddr,
    /// Its location.
    pub location: Location,
    /// Time of its last frame there.
    pub heard: Instant,
    /// Time of the last question whether it may move. A frame of it since then has answered it.
    asked: Option<Instant>,
    /// Time at which it was told last that it is in use.
    offered_at: Option<Instant>,
}

/// Result of learning a station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LearnOutcome {
    /// Known at this location, or its address is no station's.
    Known,
    /// New.
    New,
    /// Moved here.
    Moved,
    /// Still at another location.
    Elsewhere(Location),
    /// Still at another location, and to be asked for.
    Asked(Location),
    /// No room for it.
    NoRoom,
}

/// Stations by address.
#[derive(Debug)]
pub(crate) struct Stations {
    /// Hash of an address to its slot, plus 1.
    index: Table,
    slots: Vec<Option<Station>>,
    free: Vec<u32>,
    /// Number of stations here, and behind peers.
    count: [usize; 2],
    /// Maximum of either.
    limit: usize,
    age: Duration,
    /// What was heard earlier is forgotten, and is cleared with age.
    begin: Instant,
    /// Slot at which the next ageing step begins.
    cursor: usize,
}

const fn table_half(location: Location) -> usize {
    match location {
        Location::Here => 0,
        Location::Behind(_) => 1,
    }
}

impl Stations {
    pub(crate) fn new(limit: usize, age: Duration) -> Self {
        let limit = limit.clamp(2, 1 << 30) / 2;
        let slots = 2 * limit;
        Self {
            index: Table::new(slots),
            slots: alloc::vec![None; slots],
            free: (0..slots as u32).rev().collect(),
            count: [0; 2],
            limit,
            age,
            begin: Instant::START,
            cursor: 0,
        }
    }

    /// The known station of this address. Of two addresses with one hash, the second is not learned.
    fn find(&self, hash: u64, address: MacAddr) -> Option<&Station> {
        let slot = self.index.find(hash)? as usize - 1;
        self.slots[slot].as_ref().filter(|station| station.address == address && station.heard >= self.begin)
    }

    /// Forgets all that was heard before `now`. Their slots are cleared step by step.
    pub(crate) const fn forget_all(&mut self, now: Instant) {
        self.begin = now;
    }

    /// Location of a station, if it was heard within its age.
    pub(crate) fn location(&self, now: Instant, hasher: &Hasher, address: MacAddr) -> Option<Location> {
        if address.is_group() {
            return None;
        }
        let station = self.find(hasher.address(address), address)?;
        (now.since(station.heard) < self.age).then_some(station.location)
    }

    /// Location that a station keeps: it was heard there within a second.
    pub(crate) fn held_at(&self, now: Instant, hasher: &Hasher, address: MacAddr) -> Option<Location> {
        let station = self.find(hasher.address(address), address)?;
        (now.since(station.heard) < STAY).then_some(station.location)
    }

    /// When it was told last that a station at this location is in use, if that is to be told now.
    pub(crate) fn offer_due(
        &mut self,
        now: Instant,
        hasher: &Hasher,
        address: MacAddr,
        location: Location,
    ) -> Option<&mut Option<Instant>> {
        let slot = self.index.find(hasher.address(address))?;
        let station = self.slots.get_mut(slot as usize - 1)?.as_mut()?;
        let is_it = station.address == address && station.location == location;
        let due = station.offered_at.is_none_or(|offered_at| now.since(offered_at) >= AGAIN);
        (is_it && due).then_some(&mut station.offered_at)
    }

    /// Learns a station at this location. If `asks`, one that would move is asked for first: [`ANSWER`] is waited for.
    pub(crate) fn learn(
        &mut self,
        now: Instant,
        hasher: &Hasher,
        address: MacAddr,
        location: Location,
        asks: bool,
    ) -> LearnOutcome {
        if address.is_group() {
            return LearnOutcome::Known;
        }
        let hash = hasher.address(address);
        let found = self.index.find(hash).and_then(|slot| self.slots[slot as usize - 1].as_mut());
        let Some(station) = found.filter(|station| station.address == address) else {
            return self.insert(now, hash, address, location);
        };
        if station.location == location {
            station.heard = now;
            return LearnOutcome::Known;
        }
        let is_forgotten = station.heard < self.begin;
        if now.since(station.heard) < STAY && !is_forgotten {
            return LearnOutcome::Elsewhere(station.location);
        }
        if asks
            && !is_forgotten
            && let Some(ask) = Self::awaits_answer(station, now)
        {
            let at = station.location;
            return if ask { LearnOutcome::Asked(at) } else { LearnOutcome::Elsewhere(at) };
        }
        let (from, to) = (table_half(station.location), table_half(location));
        if from != to && self.count[to] >= self.limit {
            return LearnOutcome::NoRoom;
        }
        (station.location, station.heard) = (location, now);
        self.count[from] -= 1;
        self.count[to] += 1;
        LearnOutcome::Moved
    }

    /// Whether a station that would move stays until that is answered; then, whether to ask now.
    #[cold]
    fn awaits_answer(station: &mut Station, now: Instant) -> Option<bool> {
        match station.asked.filter(|asked| *asked >= station.heard) {
            None => {
                station.asked = Some(now);
                Some(true)
            }
            Some(asked) => (now.since(asked) < ANSWER).then_some(false),
        }
    }

    fn insert(&mut self, now: Instant, hash: u64, address: MacAddr, location: Location) -> LearnOutcome {
        if self.count[table_half(location)] >= self.limit {
            return LearnOutcome::NoRoom;
        }
        let Some(slot) = self.free.pop() else { return LearnOutcome::NoRoom };
        if !self.index.insert(hash, u64::from(slot) + 1) {
            self.free.push(slot);
            return LearnOutcome::NoRoom;
        }
        self.slots[slot as usize] =
            Some(Station { address, location, heard: now, asked: None, offered_at: None });
        self.count[table_half(location)] += 1;
        LearnOutcome::New
    }

    /// Ages the next `budget` slots.
    pub(crate) fn age(&mut self, now: Instant, hasher: &Hasher, budget: usize) {
        for _ in 0..budget.min(self.slots.len()) {
            let slot = self.cursor;
            self.cursor = (self.cursor + 1) % self.slots.len();
            let is_old =
                |station: Station| now.since(station.heard) >= self.age || station.heard < self.begin;
            if self.slots[slot].is_some_and(is_old) {
                self.clear(hasher, slot);
            }
        }
    }

    /// Forgets the stations behind this peer.
    pub(crate) fn forget(&mut self, hasher: &Hasher, peer: PeerId) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_some_and(|station| station.location == Location::Behind(peer)) {
                self.clear(hasher, slot);
            }
        }
    }

    fn clear(&mut self, hasher: &Hasher, slot: usize) {
        let Some(station) = self.slots[slot].take() else { return };
        self.index.remove(hasher.address(station.address));
        self.free.push(slot as u32);
        self.count[table_half(station.location)] -= 1;
    }

    /// True if no station is known.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count[0] + self.count[1] == 0
    }

    /// Puts addresses of stations behind peers into `into`, at most `room`, from this slot on; the next slot is in `cursor` then. Looks at
    /// 512 slots, or a part in 128 of all: so all are told in 128 steps, and one more for each `room` of them.
    pub(crate) fn behind(&self, cursor: &mut usize, into: &mut impl Extend<MacAddr>, room: usize) {
        let mut left = room;
        for _ in 0..self.slots.len().min((self.slots.len() / 128).max(512)) {
            if left == 0 {
                break;
            }
            let slot = *cursor % self.slots.len();
            *cursor = slot + 1;
            if let Some(station) = &self.slots[slot]
                && station.location != Location::Here
                && station.heard >= self.begin
            {
                into.extend([station.address]);
                left -= 1;
            }
        }
    }

    /// All known stations, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Station> {
        self.slots.iter().flatten().filter(|station| station.heard >= self.begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Location = Location::Behind(PeerId(0));
    const B: Location = Location::Behind(PeerId(1));

    fn address(last: u16) -> MacAddr {
        let [high, low] = last.to_be_bytes();
        MacAddr([2, 0, 0, 0, high, low])
    }

    fn at(ms: u64) -> Instant {
        Instant::after_start(Duration::from_millis(ms))
    }

    fn new(limit: usize) -> (Stations, Hasher) {
        (Stations::new(limit, Duration::from_secs(300)), Hasher::new(&[1; 16]))
    }

    /// (milliseconds, where it is heard, what becomes of it, where it is then)
    #[test]
    fn rows() {
        let rows: &[&[(u64, Location, LearnOutcome, Location)]] = &[
            &[
                (0, Location::Here, LearnOutcome::New, Location::Here),
                (9, Location::Here, LearnOutcome::Known, Location::Here),
            ],
            // A frame that comes back from the LAN has come out of a tunnel.
            &[(0, A, LearnOutcome::New, A), (999, Location::Here, LearnOutcome::Elsewhere(A), A)],
            // A move takes a second of silence, counted from when it was heard last.
            &[
                (0, A, LearnOutcome::New, A),
                (900, A, LearnOutcome::Known, A),
                (1899, Location::Here, LearnOutcome::Elsewhere(A), A),
                (1900, Location::Here, LearnOutcome::Moved, Location::Here),
                (2899, A, LearnOutcome::Elsewhere(Location::Here), Location::Here),
                (2900, B, LearnOutcome::Moved, B),
                (3000, A, LearnOutcome::Elsewhere(B), B),
                (3900, A, LearnOutcome::Moved, A),
            ],
            // Being refused does not count as being heard.
            &[
                (0, A, LearnOutcome::New, A),
                (999, B, LearnOutcome::Elsewhere(A), A),
                (1000, B, LearnOutcome::Moved, B),
            ],
        ];
        for (number, row) in rows.iter().enumerate() {
            let (mut stations, hasher) = new(8);
            for &(ms, location, heard, then) in *row {
                assert_eq!(
                    stations.learn(at(ms), &hasher, address(1), location, false),
                    heard,
                    "row {number}, {ms} ms"
                );
                assert_eq!(
                    stations.location(at(ms), &hasher, address(1)),
                    Some(then),
                    "row {number}, {ms} ms"
                );
            }
        }
    }

    #[test]
    fn a_station_is_held_where_it_was_heard_within_a_second() {
        let (mut stations, hasher) = new(8);
        stations.learn(at(0), &hasher, address(1), Location::Here, false);
        stations.learn(at(500), &hasher, address(2), A, false);
        let held = |stations: &Stations, ms, number| stations.held_at(at(ms), &hasher, address(number));
        assert_eq!(
            [1, 2, 3].map(|number| held(&stations, 999, number)),
            [Some(Location::Here), Some(A), None]
        );
        assert_eq!([1, 2].map(|number| held(&stations, 1000, number)), [None, Some(A)]);
        assert_eq!(held(&stations, 1500, 2), None);
        stations.forget_all(at(600));
        assert_eq!(held(&stations, 700, 2), None, "forgotten");
    }

    #[test]
    fn half_of_the_room_is_for_either_side() {
        let (mut stations, hasher) = new(8);
        for number in 0..6 {
            let heard = stations.learn(at(0), &hasher, address(number), A, false);
            assert_eq!(heard, if number < 4 { LearnOutcome::New } else { LearnOutcome::NoRoom });
        }
        for number in 10..14 {
            assert_eq!(
                stations.learn(at(0), &hasher, address(number), Location::Here, false),
                LearnOutcome::New
            );
        }
        assert_eq!(
            stations.learn(at(2000), &hasher, address(10), A, false),
            LearnOutcome::NoRoom,
            "nor by moving"
        );
        assert_eq!(
            stations.learn(at(2000), &hasher, address(0), B, false),
            LearnOutcome::Moved,
            "on the same side"
        );
        assert_eq!(stations.iter().count(), 8);
    }

    #[test]
    fn stations_grow_old_and_make_room() {
        let (mut stations, hasher) = new(4);
        stations.learn(at(0), &hasher, address(1), A, false);
        stations.learn(at(1000), &hasher, address(2), A, false);
        assert_eq!(
            stations.location(at(300_000), &hasher, address(1)),
            None,
            "old, whether looked at or not"
        );
        stations.age(at(300_000), &hasher, 100);
        assert_eq!(stations.iter().map(|station| station.address).next(), Some(address(2)));
        assert_eq!(stations.learn(at(300_000), &hasher, address(3), A, false), LearnOutcome::New);
        stations.age(at(900_000), &hasher, 100);
        assert!(stations.is_empty());
    }

    #[test]
    fn who_is_behind_a_peer_that_leaves_is_nowhere() {
        let (mut stations, hasher) = new(8);
        for (number, location) in [(1, A), (2, B), (3, Location::Here), (4, A)] {
            stations.learn(at(0), &hasher, address(number), location, false);
        }
        stations.forget(&hasher, PeerId(0));
        let places = [1, 2, 3, 4].map(|number| stations.location(at(1), &hasher, address(number)));
        assert_eq!(places, [None, Some(B), Some(Location::Here), None]);
        assert_eq!(
            stations.learn(at(1), &hasher, address(1), B, false),
            LearnOutcome::New,
            "at once, and elsewhere"
        );
        assert_eq!((stations.count, stations.free.len()), ([1, 2], 5));
    }

    #[test]
    fn a_group_is_nowhere() {
        let (mut stations, hasher) = new(4);
        let group = MacAddr([3, 0, 0, 0, 0, 1]);
        assert_eq!(stations.learn(at(0), &hasher, group, A, false), LearnOutcome::Known);
        assert_eq!(stations.location(at(0), &hasher, group), None);
        assert!(stations.is_empty());
    }
}
