//! Links of a gateway: they come and go, and so do their ports.

use std::io;
use std::time::Instant;

use dataplane::job::{Datapath, Progress};
use dataplane::link::{Link, Ports};
use dataplane::pipeline::Pipeline;
use secy::CarryOver;

use super::Gateway;
use crate::cells::KernelCell;
use crate::jobs::SwapDatapath;
use crate::kernel_ports::ProgramsOf;
use crate::link::{Keys, LinkControl};
use crate::static_keys::{StaticControl, StaticKeys};
use crate::workers::WorkerSlot;
use crate::{Notice, WorkerUnresponsive};

/// Why the SAs of a link inside of a site are the worker's.
const IN_SITE: &str = "it is inside of a site";

impl Gateway {
    /// Adds a link, whose name no other has: frames flow from here on, if it has ports. It goes to a worker of its own,
    /// or where there are as many workers as CPUs, to the one with the fewest links and sites. Workers under real-time
    /// scheduling leave a CPU free, if none are kept for them.
    ///
    /// # Errors
    /// If a thread cannot be started, or not be scheduled as it should.
    pub fn add(&mut self, name: String, link: Link, keys: StaticKeys) -> io::Result<()> {
        self.give_to_worker(name, link, Keys::Static(Box::new(StaticControl::new(keys))))
    }

    /// Adds a link without keys, whose name no other has: its SecY has no SA and never gets one, so nothing passes but
    /// the frames of a cell that it is given. Otherwise as [`Gateway::add`].
    ///
    /// # Errors
    /// As [`Gateway::add`].
    pub fn add_without_keys(&mut self, name: String, link: Link) -> io::Result<()> {
        self.give_to_worker(name, link, Keys::None)
    }

    /// Puts another pipeline in the place of such a link's own between two turns, for other settings of its SecY.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]; also if there is no such link without keys.
    pub fn change_without_keys(
        &mut self,
        name: &str,
        pipeline: Box<Pipeline>,
    ) -> Result<(), WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        let Keys::None = self.links[number].keys() else { return Err(WorkerUnresponsive) };
        let changed = self.exchange(number, pipeline, CarryOver::default());
        self.handle_held_events();
        changed.map(drop)
    }

    /// Gives a link to a worker, or to the site of its name.
    pub(super) fn give_to_worker(&mut self, name: String, link: Link, keys: Keys) -> io::Result<()> {
        let begun = link.pool().is_some();
        let site = self.site_number(&name);
        let at = match site {
            Some(site) => self.secure_site(site, link),
            None => {
                let at = self.free_slot()?;
                // Without room the worker is stuck; the next job reports it.
                let datapath = Some(Datapath::Link(Box::new(link)));
                let _ = self.workers.submit(at.worker, Box::new(SwapDatapath { slot: at.slot, datapath }));
                at
            }
        };
        self.added += 1;
        let mut control = LinkControl::new(self.added, name, at, keys, begun);
        if site.is_some() {
            control.stay_in_user_space(IN_SITE.into());
        }
        self.links.push(control);
        Ok(())
    }

    /// Takes a link out, with its ports and its SecY.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]; the link is then forgotten all the same.
    pub fn remove(&mut self, name: &str) -> Result<Box<Link>, WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        let WorkerSlot { worker, slot } = self.links[number].at();
        self.links[number].leaves();
        let removed = match self.site_number(name) {
            Some(site) => self.take_from_site(site),
            None => {
                let job = self.workers.run(worker, Box::new(SwapDatapath { slot, datapath: None }));
                self.handle_held_events();
                job.and_then(|job| match job.datapath {
                    Some(Datapath::Link(link)) => Ok(link),
                    _ => Err(WorkerUnresponsive),
                })
            }
        };
        let mut control = self.links.remove(number);
        // Programs of a worker that does not answer may stand in front of its ports still: they end here.
        let programs = control.cell_mut().and_then(|cell| cell.take_kernel()).filter(|_| removed.is_ok());
        self.kernel_programs.give_back(programs.map(KernelCell::into_programs));
        if let Some((keys, kernel)) = control.static_parts() {
            match keys.end_in_kernel(kernel) {
                Ok((floors, unused)) => {
                    if !floors.is_empty() {
                        self.lease_thread.keep_floors(floors, None);
                    }
                    unused.into_iter().for_each(|unused| self.lease_thread.give_back(unused));
                }
                Err(error) => {
                    self.notices.push(Notice::LinkKernelFault { link: name.into(), why: error.to_string() });
                }
            }
        }
        let programs = control.replace_kernel(None).filter(|_| removed.is_ok());
        self.kernel_programs.give_back_link(programs.map(|kernel| kernel.into_programs()));
        let link = removed?;
        self.keep_last_floors(&link.pipeline().secy, &control.floors());
        control.unused(&link).into_iter().for_each(|unused| self.lease_thread.give_back(unused));
        Ok(link)
    }

    /// Gives a link ports, in the place of those that it has. With its first ones KaY and handshakes begin to speak.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`].
    pub fn open(&mut self, name: &str, ports: Box<Ports>) -> Result<(), WorkerUnresponsive> {
        self.open_behind(name, ports, None)
    }

    /// The same with ports of the program before this one. Programs that its cell goes on with are in front of them still.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`].
    pub fn open_going_on(&mut self, name: &str, ports: Box<Ports>) -> Result<(), WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        self.open_behind(name, ports, self.links[number].in_front())
    }

    /// Gives a link ports, in front of which these programs stand.
    fn open_behind(
        &mut self,
        name: &str,
        ports: Box<Ports>,
        in_front: Option<ProgramsOf>,
    ) -> Result<(), WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        // Not later: they would be in the way of the next try.
        let before = self.run_on_link_in_time(number, Some(ports), |link, ports| {
            *ports = ports.take().and_then(|ports| link.open(ports));
            Progress::Done
        })?;
        // Unmapping takes its time, and takes it here.
        drop(before);
        self.links[number].set_in_front(in_front);
        self.attach_kernel(number);
        self.attach_link(number);
        if self.links[number].begin() {
            self.speak(number, Instant::now());
        }
        Ok(())
    }

    /// Has a link's KaY and handshakes do what is due, as soon as anybody could hear them.
    pub(super) fn speak(&mut self, link: usize, now: Instant) {
        if self.links[link].has_begun() {
            self.turn_agreement(link, now);
            self.turn_cell(link, now);
        }
    }

    /// Closes a link's ports, if it has any. The link and its SecY stay.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`].
    pub fn close(&mut self, name: &str) -> Result<(), WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        let before = self.run_on_link_in_time(number, None, |link, ports| {
            *ports = link.close();
            Progress::Done
        })?;
        drop(before);
        self.links[number].set_in_front(None);
        self.kernel_closed(number);
        self.link_ports_closed(number);
        Ok(())
    }

    /// Indexes of the interfaces of which [`Gateway::check_kernel_ports`] wants to know something.
    pub fn redirected_to(&self) -> Vec<u32> {
        let of_cells = self.links.iter().filter_map(|link| link.cell()?.redirected_to());
        let of_links = self.links.iter().filter_map(|link| link.kernel()?.redirected_to());
        of_cells.chain(of_links).flatten().collect()
    }

    /// Looks whether a link's ports take redirected frames still, or do so now: `takes` knows that of interfaces, by their indexes. To be
    /// called about once a second. A program is not told: what it sends would be lost, and counted as sent.
    pub fn check_kernel_ports(&mut self, name: &str, takes: impl Fn(u32) -> Option<bool>) {
        if let Some(number) = self.number(name) {
            self.check_cell_ports(number, &takes);
            self.check_link_ports(number, &takes);
        }
    }

    /// Puts another pipeline in the place of a link's own, and returns that one, so that it is freed where time does not
    /// matter; none if the worker has it still. What the worker told before waits: [`Gateway::handle_held_events`].
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]: the link has its own pipeline, and keeps it.
    pub(super) fn exchange(
        &mut self,
        number: usize,
        pipeline: Box<Pipeline>,
        carry_over: CarryOver,
    ) -> Result<Option<Box<Pipeline>>, WorkerUnresponsive> {
        let (at, job) = (self.links[number].at(), (pipeline, carry_over));
        let done = self.workers.run_on_link_in_time(at, job, |link, (pipeline, carry_over)| {
            link.change(pipeline, carry_over);
            Progress::Done
        });
        done.map(|done| done.map(|(before, _freed)| before))
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|link| link.name() == name)
    }

    pub(super) fn number_at(&self, at: WorkerSlot) -> Option<usize> {
        self.links.iter().position(|link| link.at() == at)
    }
}
