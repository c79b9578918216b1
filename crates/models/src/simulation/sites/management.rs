//! Turns of sites, their management channels, and where they take each other to be.

use super::super::judge::Wrong;
use super::super::time::{Common, instant};
use super::World;
use super::channel::{MKPDUS, Told};
use super::site::Site;

/// Interval between two looks at the management channels.
const LOOK: u64 = 250_000;
/// Longest time in which a message of a channel arrives, while there are faults.
const MESSAGE: u64 = 80_000;
/// The one site whose address changes. The others have fixed ones: of two that move at once, neither would find the other.
pub(super) const MOVING: usize = 0;
/// Time between two attempts of a peer to be taken on at its new address: its keep-alive.
const KEEP_ALIVE: u64 = 1_000_000;

impl World {
    /// Whether packets of a site reach another one.
    fn reaches(&self, from: usize, to: usize) -> bool {
        if self.plan.is_relayed(from, to) {
            return self.reaches(from, 1) && self.reaches(1, to);
        }
        let (now, address) = (self.common.now, self.places[from].address);
        let endpoint = self.places[from].endpoints[to];
        let awake = [from, to].iter().all(|site| self.places[*site].asleep <= now);
        awake && self.addresses[endpoint] == Some(to) && !self.common.network.is_cut(now, address, endpoint)
    }

    /// Longest time in which a message of a channel arrives now.
    pub(super) const fn message_time(&self) -> u64 {
        if self.common.is_calm() { 1_000 } else { MESSAGE }
    }

    /// A site's turn: what is due, and what it has for others.
    pub(super) fn turn(&mut self, at: usize) -> Result<(), Wrong> {
        let now = self.common.now;
        let packets = self.places[at].site.turn(now);
        for (to, packet) in packets {
            self.send(at, to, &packet)?;
        }
        let most = self.message_time();
        for (low, high, out) in self.pairs().filter(|(low, high, _)| *low == at || *high == at) {
            while let Some((stream, octets)) = self.places[at].site.say(low + high - at) {
                let arrives = now + 1 + self.common.chance.below(most);
                self.channels[out].send(usize::from(at == high), stream, arrives, octets);
            }
        }
        Ok(())
    }

    /// Carries messages of the management channels.
    pub(super) fn carry(&mut self) -> Result<(), Wrong> {
        let now = self.common.now;
        for (low, high, out) in self.pairs() {
            for (end, from, to) in [(0, low, high), (1, high, low)] {
                if !self.reaches(from, to) {
                    self.channels[out].put_off(now, end, now + LOOK);
                }
                while let Some((stream, octets)) = self.channels[out].take(now, end) {
                    if stream == MKPDUS {
                        self.secured[to].gateway.handle_mkpdu(instant(now), &octets);
                        self.secured_turn(to)?;
                        continue;
                    }
                    let heard = self.places[to].site.hear(now, from, &octets);
                    if heard.is_err() && self.differ(low, high) {
                        self.close(to, from);
                    } else {
                        heard.map_err(|why| Wrong::Impossible(format!("{}: {why}", self.name(to))))?;
                    }
                    self.turn(to)?;
                }
            }
        }
        Ok(())
    }

    /// Whether two sites are configured for different modes: then they refuse each other.
    fn differ(&self, low: usize, high: usize) -> bool {
        let mode = |at: usize| self.places[at].site.plan.mode(low, high);
        mode(low) != mode(high)
    }

    /// A site gives its connection to another one up, and that has not heard of it.
    pub(super) fn close(&mut self, at: usize, other: usize) {
        self.channels[3 - at - other].drop_end(usize::from(at > other));
        self.places[at].site.session(other).handle_disconnected(instant(self.common.now));
    }

    /// Two sites get another mode: one begins anew with it, and then the other one.
    pub(super) fn change(&mut self) {
        let out = self.plan.change(&mut self.common.chance);
        for at in (0..self.plan.sites).filter(|at| *at != out) {
            let soon = self.common.soon();
            let due = &mut self.places[at].change;
            *due = Some(due.map_or(soon, |before| before.min(soon)));
        }
    }

    /// Looks whether connections are lost or made, and takes sites on at new addresses.
    pub(super) fn look(&mut self) -> Result<(), Wrong> {
        let now = self.common.now;
        self.look = now + LOOK;
        for (low, high, out) in self.pairs() {
            for (moved, other) in [(low, high), (high, low)] {
                if self.places[moved].unproved[other].take_if(|due| *due <= now).is_some() {
                    self.prove(moved, other);
                }
            }
            let reaches = [self.reaches(low, high), self.reaches(high, low)];
            for (end, told) in self.channels[out].look(now, reaches) {
                let (at, other) = if end == 0 { (low, high) } else { (high, low) };
                let session = self.places[at].site.session(other);
                match told {
                    Told::Connected => session.handle_connected(instant(now)),
                    Told::Disconnected => session.handle_disconnected(instant(now)),
                }
                self.turn(at)?;
            }
        }
        Ok(())
    }

    /// A site is taken on at its new address, if it answers there; if not, it is tried again.
    fn prove(&mut self, moved: usize, other: usize) {
        let before = self.places[other].endpoints[moved];
        self.places[other].endpoints[moved] = self.places[moved].address;
        if !self.reaches(moved, other) || !self.reaches(other, moved) {
            self.places[other].endpoints[moved] = before;
            self.places[moved].unproved[other] = Some(self.common.now + KEEP_ALIVE);
        }
    }

    /// A site gets another address, as behind a NAT that has begun anew.
    pub(super) fn move_site(&mut self, at: usize) {
        let before = std::mem::replace(&mut self.places[at].address, self.addresses.len());
        self.addresses[before] = None;
        self.addresses.push(Some(at));
        for other in (0..self.plan.sites).filter(|other| *other != at) {
            self.places[at].unproved[other] = Some(self.common.now + self.common.chance.below(KEEP_ALIVE));
        }
    }

    /// A site begins anew, or its manager alone.
    pub(super) fn restart(&mut self, at: usize, whole: bool) -> Result<(), Wrong> {
        let Common { chance, now, .. } = &mut self.common;
        if whole {
            // A changed configuration comes when it is due.
            let plan = if self.places[at].change.is_some() { &self.places[at].site.plan } else { &self.plan };
            self.places[at].site = Site::new(chance, *now, plan, at);
            if let Some(host) = self.secured.get_mut(at) {
                host.restart(chance, *now);
            }
        } else {
            self.places[at].site.restart_manager(chance, *now);
        }
        for (_, high, out) in self.pairs().filter(|(low, high, _)| *low == at || *high == at) {
            self.channels[out].drop_end(usize::from(at == high));
        }
        self.turn(at)
    }
}
