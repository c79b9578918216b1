//! Sites of a gateway: they come and go beside its links, on the same workers.

use std::io;

use super::Gateway;
use dataplane::job::{Datapath, Progress};
use dataplane::link::Link;
use dataplane::site::{Lan, PeerChange, Site, VlanList};

use crate::WorkerUnresponsive;
use crate::jobs::{SiteJob, SwapDatapath};
use crate::workers::WorkerSlot;

/// Control's part of a site.
pub(super) struct SiteControl {
    name: String,
    at: WorkerSlot,
    /// Peers that it has had since its start.
    peers: usize,
    /// It has a further worker, which sends.
    sends: bool,
}

impl SiteControl {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn at(&self) -> WorkerSlot {
        self.at
    }

    /// Peers that it has had since its start.
    pub(super) const fn peers(&self) -> usize {
        self.peers
    }
}

impl Gateway {
    /// Adds a site, whose name no other site has: packets flow from here on. It goes to a worker as a link does. A link of the
    /// same name that is added afterwards becomes its SecY, which protects its LAN, and has to be removed before it.
    ///
    /// # Errors
    /// If a thread cannot be started, or not be scheduled as it should.
    pub fn add_site(&mut self, name: String, mut site: Box<Site>) -> io::Result<()> {
        let at = self.free_slot()?;
        let peers = site.peers();
        let sends = site.has_sending_worker();
        if sends {
            let others = self.sites.iter().filter(|site| site.sends).count();
            self.workers.start_sending(&name, &mut site, others)?;
        }
        // Without room the worker is stuck; the next job reports it.
        let datapath = Some(Datapath::Site(site));
        let _ = self.workers.submit(at.worker, Box::new(SwapDatapath { slot: at.slot, datapath }));
        self.sites.push(SiteControl { name, at, peers, sends });
        Ok(())
    }

    /// Takes a site out, with its ports and its end of the mailbox to the manager.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]; the site is then forgotten all the same.
    pub fn remove_site(&mut self, name: &str) -> Result<Box<Site>, WorkerUnresponsive> {
        let number = self.site_number(name).ok_or(WorkerUnresponsive)?;
        let WorkerSlot { worker, slot } = self.sites[number].at;
        let removed = self.workers.run(worker, Box::new(SwapDatapath { slot, datapath: None }));
        self.handle_held_events();
        self.sites.remove(number);
        match removed?.datapath {
            Some(Datapath::Site(site)) => Ok(site),
            _ => Err(WorkerUnresponsive),
        }
    }

    /// Gives a site a LAN port, in the place of the one that it has.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`].
    pub fn open_site(&mut self, name: &str, lan: Box<Lan>) -> Result<(), WorkerUnresponsive> {
        self.on_lan(name, Some(lan), |site, lan| {
            *lan = lan.take().and_then(|lan| site.open(lan));
            Progress::Done
        })
    }

    /// Closes a site's LAN port, if it has one. The site goes on.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`].
    pub fn close_site(&mut self, name: &str) -> Result<(), WorkerUnresponsive> {
        self.on_lan(name, None, |site, lan| {
            *lan = site.close();
            Progress::Done
        })
    }

    /// Lets peers of a site leave and others come; frames of all others pass on.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`].
    pub fn change_peers(&mut self, name: &str, change: Box<PeerChange>) -> Result<(), WorkerUnresponsive> {
        let number = self.site_number(name).ok_or(WorkerUnresponsive)?;
        let coming = change.coming();
        let change = self.run_on_site(number, change, |site, change| {
            site.change_peers(change);
            Progress::Done
        })?;
        self.sites[number].peers += coming;
        // Freeing takes its time, and takes it here.
        drop(change);
        Ok(())
    }

    /// Lets frames of these VLANs alone cross from here on; of all without a list.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`].
    pub fn set_vlans(&mut self, name: &str, vlans: Option<Box<VlanList>>) -> Result<(), WorkerUnresponsive> {
        let number = self.site_number(name).ok_or(WorkerUnresponsive)?;
        let before = self.run_on_site(number, vlans, |site, vlans| {
            *vlans = site.set_vlans(vlans.take());
            Progress::DoneForThisTurn
        })?;
        drop(before);
        Ok(())
    }

    /// Tells a site that shares its LAN with another box whether its LAN's interface has a link.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`].
    pub fn set_lan_link(&mut self, name: &str, has_link: bool) -> Result<(), WorkerUnresponsive> {
        let number = self.site_number(name).ok_or(WorkerUnresponsive)?;
        self.run_on_site(number, has_link, |site, has_link| {
            site.set_lan_link(*has_link);
            Progress::DoneForThisTurn
        })
        .map(drop)
    }

    /// Has a site hand over to the other box of its LAN. False if it does not forward, or the other one cannot take over.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`].
    pub fn hand_over(&mut self, name: &str) -> Result<bool, WorkerUnresponsive> {
        let number = self.site_number(name).ok_or(WorkerUnresponsive)?;
        self.run_on_site(number, false, |site, done| {
            *done = site.hand_over();
            Progress::DoneForThisTurn
        })
    }

    /// Puts a link between a site's LAN and its tunnel.
    pub(super) fn secure_site(&mut self, site: usize, link: Link) -> WorkerSlot {
        let at = self.sites[site].at;
        // Without room the worker is stuck; the next job reports it.
        let job = SiteJob::new(at.slot, Some(Box::new(link)), |site, link| {
            link.take().into_iter().for_each(|link| site.secure(link));
            Progress::Done
        });
        let _ = self.workers.submit(at.worker, job);
        at
    }

    /// Takes the link of a site out.
    pub(super) fn take_from_site(&mut self, site: usize) -> Result<Box<Link>, WorkerUnresponsive> {
        self.run_on_site(site, None, |site, link| {
            *link = site.take_link();
            Progress::Done
        })?
        .ok_or(WorkerUnresponsive)
    }

    fn on_lan(
        &mut self,
        name: &str,
        lan: Option<Box<Lan>>,
        run: fn(&mut Site, &mut Option<Box<Lan>>) -> Progress,
    ) -> Result<(), WorkerUnresponsive> {
        let number = self.site_number(name).ok_or(WorkerUnresponsive)?;
        let before = self.run_on_site(number, lan, run)?;
        // Unmapping takes its time, and takes it here.
        drop(before);
        Ok(())
    }

    /// Whether a site of this name was added.
    pub fn has_site(&self, name: &str) -> bool {
        self.site_number(name).is_some()
    }

    pub(super) fn site_number(&self, name: &str) -> Option<usize> {
        self.sites.iter().position(|site| site.name == name)
    }
}
