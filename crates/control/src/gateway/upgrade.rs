//! Links that go on in the next program of this process.
//!
//! A link that has left its worker is control's: nobody protects a frame under its keys meanwhile, and what comes waits in its ports. One
//! inside of a site has left that, which stays in its worker.

use std::num::NonZeroU64;
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::Instant;

use dataplane::link::Link;
use pnstore::{LeaseError, LeaseStore};
use xdp::XdpError;

use super::Gateway;
use crate::WorkerUnresponsive;
use crate::cells::{CellControl, CellSettings, PassedCell};
use crate::jobs::{Decision, HaltLink, ReturnLink};
use crate::kernel_link::{KernelLink, PassedKernelLink};
use crate::kernel_ports::{PlaceWanted, ProgramsOf};
use crate::kernel_programs::PassedKernelPrograms;
use crate::key_agreement::PassedAgreement;
use crate::link::{Keys, LinkControl};
use crate::static_keys::{ExpressPns, TransmitLease};
use crate::workers::WorkerSlot;

/// A link that has left its worker for a moment.
pub struct HaltedLink {
    /// Its name.
    pub name: String,
    /// Its keys.
    pub keys: HaltedKeys,
    /// Itself.
    pub link: Box<Link>,
    /// Its cell; none also while a session of it cannot go on.
    pub cell: Option<Box<PassedCell>>,
    at: WorkerSlot,
}

/// Keys of a link that has left its worker.
pub enum HaltedKeys {
    /// They are static.
    Static {
        /// The PNs of its transmit SA.
        lease: TransmitLease,
        /// PNs of the latest block of that SA ([`Gateway::go_on_behind_block`]).
        block: NonZeroU64,
        /// Those of its express SC, if it has one.
        express: Option<ExpressPns>,
    },
    /// They are agreed on; none while something is under way between KaY and SecY.
    Agreed(Option<Box<PassedAgreement>>),
    /// There are none: nothing but the frames of its cell passes.
    None,
}

/// Why floors are not on disk.
#[derive(Debug, thiserror::Error)]
pub enum Unsettled {
    /// They cannot be read.
    #[error(transparent)]
    Worker(#[from] WorkerUnresponsive),
    /// They cannot be written.
    #[error(transparent)]
    Disk(#[from] LeaseError),
}

impl Gateway {
    /// The descriptor of the state directory's lock. What was received until now is below the floors on disk when this returns, and
    /// leases are there.
    ///
    /// # Errors
    /// [`Unsettled`].
    pub fn settle_disk(&mut self) -> Result<RawFd, Unsettled> {
        let (floors, complete) = self.ask_floors();
        if !complete {
            return Err(WorkerUnresponsive.into());
        }
        // Behind all that is under way.
        let lock = self.on_disk(move |leases: &mut LeaseStore| {
            leases.keep_floors(&floors)?;
            Ok::<_, LeaseError>(leases.lock().as_raw_fd())
        })??;
        self.handle_disk_replies(Instant::now());
        Ok(lock)
    }

    /// Has floors read at the next turn.
    pub const fn hasten_floors(&mut self) {
        self.floor_keeper.hasten();
    }

    /// Why a link cannot leave its worker for the next program of this process, if it cannot.
    pub fn why_not_halted(&self, name: &str) -> Option<&'static str> {
        let Some(number) = self.number(name) else { return Some("it is not there") };
        let link = &self.links[number];
        // Frames of a cell go on in the kernel.
        if link.cell().is_none() && link.kernel().is_some_and(|of| of.wanted() == PlaceWanted::Kernel) {
            return Some("io = \"kernel\" has its frames go no other way, and they would for a moment");
        }
        match link.keys() {
            Keys::None if link.cell().is_none() => Some("it has no keys"),
            Keys::Agreed(_) | Keys::None => None,
            Keys::Static(keys) if keys.nowhere().is_some() => Some("its SAs could not be moved before"),
            Keys::Static(keys) if keys.is_changing() => Some("its keys are being changed at this moment"),
            Keys::Static(_) => None,
        }
    }

    /// True if no KaY waits for its SecY or its SecY for it, no static SA for packet numbers, and no session of a cell rests on a master key that
    /// was removed. Waits are over in milliseconds, or as soon as a disk has answered, and such sessions within a second.
    pub fn are_keys_settled(&self) -> bool {
        self.links.iter().all(|link| {
            let are_settled = match link.keys() {
                Keys::Agreed(agreement) => agreement.is_settled(),
                Keys::Static(keys) => !keys.is_reserving(),
                Keys::None => true,
            };
            are_settled && link.cell().is_none_or(CellControl::is_settled)
        })
    }

    /// State of a link's cell for the next program to judge; none without a cell, or if a session of it cannot go on.
    pub fn cell_to_be_judged(&self, name: &str) -> Option<Box<PassedCell>> {
        let cell = self.links[self.number(name)?].cell()?;
        cell.pass_on(self.start, None, false).map(Box::new)
    }

    /// State of a link's key agreement for the next program to judge; none if that is no such link, or something is under
    /// way.
    pub fn agreement_to_be_judged(&self, name: &str) -> Option<Box<PassedAgreement>> {
        let Keys::Agreed(agreement) = self.links[self.number(name)?].keys() else { return None };
        agreement.pass_on_to_be_judged().map(Box::new)
    }

    /// Has every frame of links go through their workers: SAs leave the kernel, and programs stand aside in front of the ports. They stay
    /// there, also while the next program begins.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]: frames that would go to a worker which does not answer stay in the kernel.
    pub fn leave_kernel_for_next_program(&mut self) -> Result<(), WorkerUnresponsive> {
        self.workers.ask_all()?;
        for number in 0..self.links.len() {
            match self.links[number].kernel().map(KernelLink::is_attached) {
                Some(true) => self.while_held(number, |gateway| {
                    gateway.step_aside(number, ProgramsOf::Link);
                    gateway.move_to_worker(number)
                })??,
                Some(false) => self.move_to_worker(number)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Puts programs to work again that stand aside for a program which did not begin. Agreed SAs come back with the next SAK.
    pub fn come_back_to_kernel(&mut self) {
        (0..self.links.len()).for_each(|number| self.attach_link(number));
    }

    /// A link's programs for the next program, if it has some; none of its SAs is in them.
    ///
    /// # Errors
    /// If one is.
    pub fn passed_programs(&self, name: &str) -> Result<Option<PassedKernelLink>, XdpError> {
        let kernel = self.number(name).and_then(|number| self.links[number].kernel());
        kernel.map(KernelLink::pass_on).transpose()
    }

    /// Whether programs of cells are loaded, wherever they are.
    pub fn has_programs_of_cells(&self) -> bool {
        let has_some = |link: &LinkControl| link.cell().is_some_and(CellControl::has_loaded_programs);
        self.kernel_programs.has_some_for_cells() || self.links.iter().any(has_some)
    }

    /// Gives a link without ports the cell that it had in the program before this one. Its programs are at work all the time.
    ///
    /// # Errors
    /// In words.
    pub fn go_on_with_cell(
        &mut self,
        link: &str,
        settings: CellSettings,
        passed: PassedCell,
    ) -> Result<(), String> {
        let number = self.number(link).ok_or("there is no link of that name")?;
        let is_in_front = passed.is_in_front();
        let (cell, control) = CellControl::go_on(settings, passed, self.start)?;
        self.exchange_cell(number, Some(cell), Vec::new(), false).map_err(|error| error.to_string())?;
        self.links[number].replace_cell(Some(control));
        self.links[number].set_in_front(is_in_front.then_some(ProgramsOf::Cell));
        Ok(())
    }

    /// Whether programs of links are loaded, wherever they are: the next program has to go on with them.
    pub fn has_programs_of_links(&self) -> bool {
        self.kernel_programs.has_some_for_links() || self.links.iter().any(|link| link.kernel().is_some())
    }

    /// Programs that nobody has, for the next program.
    ///
    /// # Errors
    /// If they cannot be asked.
    pub fn passed_spare_programs(&self) -> Result<PassedKernelPrograms, XdpError> {
        self.kernel_programs.pass_on()
    }

    /// Gives a link the programs that it had in the program before this one. They stand aside in front of its ports.
    ///
    /// # Errors
    /// If they were not passed on.
    pub fn go_on_with_programs(&mut self, name: &str, passed: &PassedKernelLink) -> Result<(), XdpError> {
        let kernel = KernelLink::go_on(passed)?;
        if let Some(number) = self.number(name) {
            self.links[number].replace_kernel(Some(Box::new(kernel)));
        }
        Ok(())
    }

    /// Takes all links out of their workers. Those of a worker that does not answer stay; the others go back.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]; also if a link is not one that [`Gateway::why_not_halted`] lets go.
    pub fn halt_links(&mut self) -> Result<Vec<HaltedLink>, WorkerUnresponsive> {
        let mut halted = Vec::new();
        for number in 0..self.links.len() {
            match self.halt(number) {
                Ok(link) => halted.push(link),
                Err(error) => {
                    self.resume_links(halted);
                    return Err(error);
                }
            }
        }
        Ok(halted)
    }

    fn halt(&mut self, number: usize) -> Result<HaltedLink, WorkerUnresponsive> {
        let (name, at) = (self.links[number].name().to_owned(), self.links[number].at());
        let decision = Decision::default();
        let of = self.links[number].identity();
        let job = HaltLink { slot: at.slot, of, link: None, decision: decision.clone() };
        // Reports of the worker that come meanwhile are handled when its links are back: until then a change would find no link.
        let halted = self.workers.run_in_time(at.worker, Box::new(job), &decision)?;
        let mut link = halted.and_then(|job| job.link).ok_or(WorkerUnresponsive)?;
        let moment = self.moment(Instant::now());
        let control = &mut self.links[number];
        let in_front = control.in_front() == Some(ProgramsOf::Cell);
        let cell = control.cell_mut().zip(link.pipeline_mut().cell_mut()).and_then(|(control, cell)| {
            control.settle(moment, cell, &mut self.notices);
            control.pass_on(self.start, Some(cell), in_front).map(Box::new)
        });
        let keys = control.halted_keys(&link);
        Ok(HaltedLink { name, keys, link, cell, at })
    }

    /// Gives links back to their workers: they go on as if nothing had been.
    pub fn resume_links(&mut self, halted: Vec<HaltedLink>) {
        for HaltedLink { link, at, .. } in halted {
            // Without room the worker is stuck; the next job reports it.
            let job = ReturnLink { slot: at.slot, link: Some(link) };
            let _ = self.workers.submit(at.worker, Box::new(job));
        }
        self.handle_held_events();
    }

    /// A link that left its worker later than anybody waited for it goes back, if it was not removed meanwhile.
    pub(super) fn return_late(&mut self, worker: usize, HaltLink { slot, of, link, .. }: HaltLink) {
        let is_here = self.links.iter().any(|control| control.identity() == of);
        if let Some(link) = link.filter(|_| is_here) {
            let _ = self.workers.submit(worker, Box::new(ReturnLink { slot, link: Some(link) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread;
    use std::time::Duration;

    use super::super::tests::Held;
    use super::*;
    use crate::StaticKeys;
    use dataplane::job::Progress;
    use dataplane::pipeline::Pipeline;
    use dataplane::site::{DatagramConsumer, Dscp, ManagerMailbox, Site, Wan, datagrams, mailboxes};
    use dataplane::worker::Polling;
    use netdev::scheduling::Scheduling;
    use netdev::udp::Offloads;
    use pnstore::{BLOCK_PNS, FIRST_BLOCK_PNS, LeaseName};
    use secy::{ClearVlan, SciInclusion, SecY, Settings, ValidateFrames};
    use wire::{An, MacAddr, Pn, Sci};

    fn sci(of: u8) -> Sci {
        Sci::new(MacAddr([2, 0, 0, 0, 0, of]), 1)
    }

    fn add(gateway: &mut Gateway, name: &str, of: u8) {
        let settings = Settings {
            protect_frames: true,
            sci_inclusion: SciInclusion::Always,
            validate_frames: ValidateFrames::Strict,
            replay_protect: true,
            clear_vlan: ClearVlan::Refuse,
            reassemble: false,
            mtu: 1532,
        };
        let link = Link::closed(Pipeline::new(SecY::new(sci(of), settings), &[], None));
        let name_of_lease = LeaseName::new(&[of; 16], sci(of));
        let transmit =
            TransmitLease { name: name_of_lease, an: An::ALL[0], last: Pn::LAST_32, through: Pn::LAST_32 };
        gateway.add(name.into(), link, StaticKeys { transmit, express: None, receive: vec![] }).unwrap();
    }

    /// A gateway with link `a`, whose worker is held up until the sender goes.
    fn held_up(name: &str) -> (Gateway, Sender<()>, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("frameward-{name}-{}", std::process::id()));
        let leases = LeaseStore::open(&path, None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        add(&mut gateway, "a", 1);
        let (go, held) = channel();
        assert!(gateway.workers.submit(0, Box::new(Held(held))).is_ok());
        (gateway, go, path)
    }

    /// Lets the worker go, and looks for a while which link is in its first slot.
    fn found_after((mut gateway, go, path): (Gateway, Sender<()>, std::path::PathBuf)) -> Vec<Option<Sci>> {
        drop(go);
        let at = WorkerSlot { worker: 0, slot: 0 };
        let mut found = Vec::new();
        for _ in 0..40 {
            gateway.turn(Instant::now());
            let sci = |link: &mut Link, sci: &mut Option<Sci>| {
                *sci = Some(link.pipeline().secy.sci());
                Progress::Done
            };
            found.push(gateway.workers.run_on_link(at, None, sci).ok().flatten());
            gateway.handle_held_events();
            thread::sleep(Duration::from_millis(5));
        }
        gateway.stop().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        found.split_off(20)
    }

    #[test]
    fn a_link_that_was_removed_from_a_stuck_worker_never_comes_back() {
        let mut held = held_up("removed-late");
        assert!(held.0.remove("a").is_err());
        add(&mut held.0, "b", 2);
        assert_eq!(found_after(held), [Some(sci(2)); 20]);
    }

    #[test]
    fn a_link_that_leaves_a_stuck_worker_late_goes_back() {
        let mut held = held_up("halted-late");
        assert!(held.0.halt_links().is_err());
        assert!(held.0.halt_links().is_err());
        assert_eq!(found_after(held), [Some(sci(1)); 20]);
    }

    /// A site without peers or ports; the manager's ends have to be kept.
    fn site() -> (Box<Site>, ManagerMailbox, DatagramConsumer) {
        let settings = tunnel::Settings {
            peers: Vec::new(),
            lan_frame: 1518,
            limits: tunnel::Limits::DEFAULT,
            window: 64,
            table_seed: [0; 16],
        };
        let wan = Wan::open("127.0.0.1:0".parse().unwrap(), 0, &[], Offloads::default()).unwrap();
        let (worker, manager) = mailboxes().unwrap();
        let (producer, consumer) = datagrams();
        (Box::new(Site::new(settings, wan, worker, producer, Dscp::All(0))), manager, consumer)
    }

    /// The site goes on until the next program begins, and has its link again if that does not.
    #[test]
    fn a_link_inside_of_a_site_leaves_that_and_goes_back() {
        let path = std::env::temp_dir().join(format!("frameward-halted-in-site-{}", std::process::id()));
        let leases = LeaseStore::open(&path, None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        let (of_site, _manager, _datagrams) = site();
        gateway.add_site("a".into(), of_site).unwrap();
        add(&mut gateway, "a", 1);
        add(&mut gateway, "b", 2);
        let protects = |gateway: &mut Gateway| {
            let number = gateway.site_number("a").unwrap();
            let look = |site: &mut Site, sci: &mut Option<Sci>| {
                *sci = site.link().map(|link| link.pipeline().secy.sci());
                Progress::Done
            };
            gateway.run_on_site(number, None, look).unwrap()
        };
        assert_eq!(protects(&mut gateway), Some(sci(1)));
        for _ in 0..2 {
            let halted = gateway.halt_links().unwrap();
            assert_eq!(
                halted.iter().map(|of| of.link.pipeline().secy.sci()).collect::<Vec<_>>(),
                [sci(1), sci(2)]
            );
            assert!(halted.iter().all(|of| matches!(of.keys, HaltedKeys::Static { .. })));
            assert_eq!(protects(&mut gateway), None, "the site is there, and nothing leaves its LAN");
            gateway.resume_links(halted);
            assert_eq!(protects(&mut gateway), Some(sci(1)));
        }
        gateway.remove("a").unwrap();
        gateway.remove("b").unwrap();
        drop(gateway.remove_site("a").unwrap());
        gateway.stop().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }

    /// The next program asks for as many PNs as this one would: its frames are not fewer.
    #[test]
    fn the_size_of_blocks_goes_on() {
        let path = std::env::temp_dir().join(format!("frameward-halted-block-{}", std::process::id()));
        let leases = LeaseStore::open(&path, None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        add(&mut gateway, "a", 1);
        let halted_block = |gateway: &mut Gateway| {
            let halted = gateway.halt_links().unwrap();
            let HaltedKeys::Static { block, .. } = halted[0].keys else { panic!("its keys are static") };
            gateway.resume_links(halted);
            block
        };
        assert_eq!(halted_block(&mut gateway), FIRST_BLOCK_PNS);
        gateway.go_on_behind_block("a", BLOCK_PNS, BLOCK_PNS.get());
        gateway.go_on_behind_block("nobody", BLOCK_PNS, BLOCK_PNS.get());
        assert_eq!((halted_block(&mut gateway), gateway.latest_block("a")), (BLOCK_PNS, BLOCK_PNS));
        gateway.stop().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }

    /// Upgrades in quick succession leave a slow disk as much time as it has without them.
    #[test]
    fn what_goes_on_with_less_than_a_block_has_the_next_one_reserved_at_once() {
        let path = std::env::temp_dir().join(format!("frameward-goes-on-{}", std::process::id()));
        let leases = LeaseStore::open(&path, None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        add(&mut gateway, "a", 1);
        gateway.go_on_behind_block("a", FIRST_BLOCK_PNS, FIRST_BLOCK_PNS.get());
        assert!(gateway.are_keys_settled());
        gateway.go_on_behind_block("a", FIRST_BLOCK_PNS, FIRST_BLOCK_PNS.get() - 1);
        assert!(!gateway.are_keys_settled(), "packet numbers are being reserved");
        gateway.stop().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_link_that_leaves_late_and_was_removed_meanwhile_stays_away() {
        let mut held = held_up("halted-and-removed");
        assert!(held.0.halt_links().is_err());
        assert!(held.0.remove("a").is_err());
        add(&mut held.0, "b", 2);
        assert_eq!(found_after(held), [Some(sci(2)); 20]);
    }
}
