//! The box of a gateway: its disk, which outlives its starts.

use testkit::Chance;

use super::super::judge::Wrong;
use super::super::network::CALM;
use super::super::time::instant;
use super::disk::{Disk, Files};
use super::static_keys::long_ago;
use super::{Gateway, Link};

/// A box, with the present start of its gateway.
pub(in crate::simulation) struct Host {
    pub(in crate::simulation) gateway: Gateway,
    pub(in crate::simulation) number: u8,
    disk: Disk,
    /// Files that the disk had long ago.
    image: Files,
    full_until: u64,
    failing_until: u64,
    went_back: bool,
}

impl Host {
    pub(in crate::simulation) fn new(chance: &mut Chance, link: Link, number: u8) -> Result<Self, Wrong> {
        let disk = Disk::new(chance.draw());
        let image = match link.is_static {
            true => long_ago(&disk, &link, number).map_err(|why| Wrong::Impossible(why.to_string()))?,
            false => Files::new(),
        };
        let gateway = Gateway::new(instant(0), link, number, &chance.octets(), &disk);
        Ok(Self { gateway, number, disk, image, full_until: 0, failing_until: 0, went_back: false })
    }

    /// Begins anew after a kill, or after a loss of power. The start may end alike.
    pub(in crate::simulation) fn restart(&mut self, chance: &mut Chance, now: u64) {
        let (seed, power_lost) = (chance.octets(), chance.happens(500));
        self.disk.restart(power_lost);
        if now < CALM && chance.happens(300) {
            self.disk.kill_within(1 + chance.below(12));
        }
        self.gateway = Gateway::new(instant(now), self.gateway.link, self.number, &seed, &self.disk);
    }

    /// The disk is full or fails to sync for a while, or goes back to what it was long ago, as with an image that somebody restores. True if the gateway has
    /// to begin anew with that.
    pub(in crate::simulation) fn fail_disk(&mut self, chance: &mut Chance, until: u64) -> bool {
        let goes_back = chance.happens(100) && self.gateway.link.is_static;
        if goes_back {
            self.disk.roll_back(&self.image);
            self.went_back = true;
        } else if chance.happens(500) {
            self.full_until = until;
        } else {
            self.failing_until = until;
        }
        goes_back
    }

    /// Does whatever is due.
    ///
    /// # Errors
    /// If the SecY cannot do what is asked of it.
    pub(in crate::simulation) fn handle_timeout(&mut self, now: u64) -> Result<(), String> {
        self.disk.set_full(self.full_until > now);
        self.disk.set_failing(self.failing_until > now);
        self.gateway.handle_timeout(instant(now))
    }

    /// A start refuses its state, though the disk never went back.
    pub(in crate::simulation) const fn is_refused_wrongly(&self) -> bool {
        self.gateway.is_refused() && !self.went_back
    }
}
