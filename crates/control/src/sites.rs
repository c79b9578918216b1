//! Sites of a gateway: they come and go beside its links, on the same workers.

use std::io;

use super::{Gateway, Unanswered};
use dataplane::site::{Lan, PeerChange, Site};
use dataplane::worker::{Command, Event, Occupant};

pub(super) struct SiteControl {
    pub(super) name: String,
    pub(super) worker: usize,
    /// In the worker.
    pub(super) seat: usize,
    /// That it has had since its start.
    pub(super) peers: usize,
}

impl Gateway {
    /// Adds a site, whose name no other site has: packets flow from here on. It goes to a worker as a link does.
    ///
    /// # Errors
    /// If a thread cannot be started, or not be scheduled as it should.
    pub fn add_site(&mut self, name: String, site: Box<Site>) -> io::Result<()> {
        let (worker, seat) = self.free_seat()?;
        let peers = site.peers();
        // If the ring is full the worker is stuck, which is told by what follows.
        let _ = self.workers[worker].command(Command::Add { seat, occupant: Occupant::Site(site) });
        self.sites.push(SiteControl { name, worker, seat, peers });
        Ok(())
    }

    /// Takes a site out, with its ports and its end of the manager's rings.
    ///
    /// # Errors
    /// [`Unanswered`]; the site is then forgotten all the same.
    pub fn remove_site(&mut self, name: &str) -> Result<Box<Site>, Unanswered> {
        let number = self.site_number(name).ok_or(Unanswered)?;
        let SiteControl { worker, seat, .. } = self.sites[number];
        let removed = self.ask(worker, Command::Remove { seat }, |event| match event {
            Event::Removed { occupant } => Ok(occupant),
            other => Err(other),
        });
        self.sites.remove(number);
        match removed? {
            Some(Occupant::Site(site)) => Ok(site),
            _ => Err(Unanswered),
        }
    }

    /// Gives a site a LAN port, in the place of the one that it has.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub fn open_site(&mut self, name: &str, lan: Box<Lan>) -> Result<(), Unanswered> {
        self.replace_lan(name, |seat| Command::OpenLan { seat, lan })
    }

    /// Closes a site's LAN port, if it has one. The site goes on.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub fn close_site(&mut self, name: &str) -> Result<(), Unanswered> {
        self.replace_lan(name, |seat| Command::CloseLan { seat })
    }

    /// Lets peers of a site leave and others come; frames of all others pass on.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub fn change_peers(&mut self, name: &str, change: Box<PeerChange>) -> Result<(), Unanswered> {
        let number = self.site_number(name).ok_or(Unanswered)?;
        let (SiteControl { worker, seat, .. }, coming) = (&self.sites[number], change.coming());
        let (worker, command) = (*worker, Command::ChangePeers { seat: *seat, change });
        let change = self.ask(worker, command, |event| match event {
            Event::PeersChanged { change } => Ok(change),
            other => Err(other),
        })?;
        self.sites[number].peers += coming;
        // Freeing takes its time, and takes it here.
        drop(change);
        Ok(())
    }

    fn replace_lan(&mut self, name: &str, command: impl FnOnce(usize) -> Command) -> Result<(), Unanswered> {
        let number = self.site_number(name).ok_or(Unanswered)?;
        let SiteControl { worker, seat, .. } = self.sites[number];
        let before = self.ask(worker, command(seat), |event| match event {
            Event::LanReplaced { lan } => Ok(lan),
            other => Err(other),
        })?;
        // Unmapping takes its time, and takes it here.
        drop(before);
        Ok(())
    }

    fn site_number(&self, name: &str) -> Option<usize> {
        self.sites.iter().position(|site| site.name == name)
    }
}
