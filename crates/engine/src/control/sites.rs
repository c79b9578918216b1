//! Sites of a gateway: they come and go beside its links, on the same workers.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::{ANSWER_WAIT, Gateway, Unanswered};
use crate::site::{Lan, Site, SiteSnapshot};
use crate::worker::{Command, Event, Occupant, WorkerHandle};

pub(super) struct SiteControl {
    pub(super) name: String,
    pub(super) worker: usize,
    /// In the worker.
    pub(super) seat: usize,
    peers: usize,
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

    /// The figures of all sites at this moment, with their names; sites of a worker that has ended are left out.
    pub fn site_snapshots(&mut self) -> Vec<(String, SiteSnapshot)> {
        let mut snapshots: Vec<Option<SiteSnapshot>> = self.sites.iter().map(|_| None).collect();
        for &SiteControl { worker, seat, peers, .. } in &self.sites {
            let snapshot = Box::new(SiteSnapshot::with_room(peers));
            // A full ring means that the worker is stuck: its sites are left out.
            let _ = self.workers[worker].command(Command::ReportSite { seat, snapshot });
        }
        let give_up = Instant::now() + ANSWER_WAIT;
        while snapshots.iter().any(Option::is_none) && Instant::now() < give_up {
            for worker in 0..self.workers.len() {
                while let Some(event) = self.workers[worker].event() {
                    match event {
                        Event::ReportSite { seat, snapshot } => {
                            let at = |site: &SiteControl| (site.worker, site.seat) == (worker, seat);
                            if let Some(number) = self.sites.iter().position(at) {
                                snapshots[number] = Some(*snapshot);
                            }
                        }
                        other => self.heed(worker, other, Instant::now()),
                    }
                }
            }
            if !self.workers.iter().any(WorkerHandle::is_alive) {
                break;
            }
            thread::sleep(Duration::from_micros(200));
        }
        let names = self.sites.iter().map(|site| site.name.clone());
        names.zip(snapshots).filter_map(|(name, snapshot)| Some((name, snapshot?))).collect()
    }

    fn site_number(&self, name: &str) -> Option<usize> {
        self.sites.iter().position(|site| site.name == name)
    }
}
