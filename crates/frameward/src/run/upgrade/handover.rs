//! The handover: SAs and links leave, execve, and what the next program says of it. If it fails, everything goes back to where it was.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use control::HaltedLink;
use tracing::{error, info};

use super::super::fleet::InFleet;
use super::super::link::RunningLink;
use super::super::site::RunningSite;
use super::super::{Asks, Running};
use super::passed::{
    AboutLink, Passed, PassedGateway, PassedLink, PassedSite, VARIABLE, cell_object, in_memory,
    kernel_object, number,
};
use super::{FileIdentity, cannot_start, passed, with_cure};
use crate::privilege;
use netdev::passed_on::{self, pass_on};
use report::UpgradeReport;

impl Running {
    pub(super) fn upgrade_or_say_why(&mut self, program: &Path, file: FileIdentity, asks: &Asks) {
        let Err(why) = self.upgrade(program, file, asks);
        error!(event = "upgrade-failed", "not upgraded, and everything goes on as before: {why}");
        let count = self.upgraded.as_ref().map_or(0, |before| before.count);
        self.upgraded =
            Some(UpgradeReport { count: count + 1, done: false, waited_ms: None, why: Some(why) });
    }

    fn upgrade(
        &mut self,
        program: &Path,
        file: FileIdentity,
        asks: &Asks,
    ) -> Result<std::convert::Infallible, String> {
        // Interfaces and carriers may have gone since.
        self.can_go_on().map_err(|refused| refused.why)?;
        if !self.control.are_keys_settled() {
            return Err(
                "a key is being installed, or the disk has not answered yet with packet numbers; ask again"
                    .into(),
            );
        }
        self.leave_shared_lans();
        let Err(why) = match self.control.leave_kernel_for_next_program() {
            Ok(()) => self.upgrade_in_user_space(program, file, asks),
            Err(error) => Err(error.to_string()),
        };
        self.control.come_back_to_kernel();
        Err(why)
    }

    /// The same when all frames go through the workers.
    fn upgrade_in_user_space(
        &mut self,
        program: &Path,
        file: FileIdentity,
        asks: &Asks,
    ) -> Result<std::convert::Infallible, String> {
        let state_lock = self.control.settle_disk().map_err(|error| error.to_string())?;
        let gateway = self.passed_gateway([state_lock, self.socket_lock]);
        let mut passed = Passed::new(gateway, Vec::new(), self.passed_sites());
        let mut halted = self.control.halt_links().map_err(|error| error.to_string())?;
        let why = match FileIdentity::of(program) {
            Ok(now) if now == file => self.become_next(program, &mut passed, &mut halted, asks),
            Ok(_) => Err(format!("{} is another file than the one that has judged", program.display())),
            Err(error) => Err(cannot_start(program, &error)),
        };
        self.control.resume_links(halted);
        let Err(why) = why;
        Err(why)
    }

    fn become_next(
        &mut self,
        program: &Path,
        passed: &mut Passed,
        halted: &mut [HaltedLink],
        asks: &Asks,
    ) -> Result<std::convert::Infallible, String> {
        for running in &self.links {
            let name = &running.config.name;
            // Its SAs have left the kernel since it was asked.
            if let Some(why) = self.control.why_not_halted(name) {
                return Err(format!("link {name:?} cannot be handed over: {why}"));
            }
            let programs = self.control.passed_programs(name).map_err(|error| error.to_string())?;
            let link = halted.iter_mut().find(|halted| halted.name == *name).and_then(|halted| {
                let about = self.about(running)?;
                PassedLink::new(halted, &running.config, about, running.unmarked(), programs)
            });
            passed
                .links
                .push(link.ok_or_else(|| format!("link {name:?} cannot be handed over at this moment"))?);
        }
        let programs = self.control.passed_spare_programs().map_err(|error| error.to_string())?;
        passed.gateway.programs = Some(programs);
        let failed = |error: io::Error| format!("cannot pass the state on: {error}");
        let document = passed.encode().and_then(|document| in_memory(&document)).map_err(failed)?;
        let mut descriptors = passed.descriptors();
        descriptors.push(number(&document));
        let before = privilege::inherited().map_err(|error| failed(io::Error::other(error)))?;
        // What comes later waits for the next program.
        if let Some(why) = asks.anything() {
            return Err(why.into());
        }
        if self.machine.was_restored() {
            return Err("this machine was brought back to an earlier state".into());
        }
        let error = pass_on(&descriptors, true)
            .and_then(|()| privilege::let_inherit().map_err(io::Error::other))
            .map(|()| {
                let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
                Command::new(program).args(arguments).env(VARIABLE, number(&document).to_string()).exec()
            });
        // Back to where it was. A failed execve leaves a closed log deadly.
        passed_on::ignore_sigpipe();
        let _ = privilege::set_inherited(before);
        let _ = pass_on(&descriptors, false);
        let error = error.unwrap_or_else(|error| error);
        Err(with_cure(format!("cannot become {}", program.display()), &error))
    }

    /// Sites as the next program begins with them. They go on here until then.
    pub(super) fn passed_sites(&self) -> Vec<PassedSite> {
        self.sites.iter().map(RunningSite::pass_on).collect()
    }

    /// Facts of a link that only this thread knows. None if its interfaces are not there.
    pub(super) fn about(&self, running: &RunningLink) -> Option<AboutLink> {
        Some(AboutLink {
            interfaces: running.pass_on()?,
            fallback: running.fallback().cloned(),
            kay_in_kernel: running.kay_in_kernel,
            last_valid: self.verdicts.last_valid(&running.config.name),
        })
    }

    /// All links of the program before go on: says so, and since when frames waited.
    pub(in crate::run) fn has_become(&mut self, passed: Option<Passed>) {
        let Some(passed) = passed else { return };
        passed.last_valid().for_each(|(link, last)| self.verdicts.go_on(link, last));
        let Passed { version, gateway, .. } = passed;
        // What was received since the links left their workers.
        self.control.hasten_floors();
        let waited = unix_microseconds().saturating_sub(gateway.halted_us) / 1000;
        info!(
            event = "upgraded",
            milliseconds = waited,
            "version {} runs in the place of {version}; frames waited {waited} ms",
            env!("CARGO_PKG_VERSION")
        );
        self.upgraded = Some(UpgradeReport { waited_ms: Some(waited), ..gateway.upgrade });
    }

    /// State that the whole gateway passes on.
    pub(super) fn passed_gateway(&self, locks: [i32; 2]) -> PassedGateway {
        let count = self.upgraded.as_ref().map_or(0, |before| before.count) + 1;
        PassedGateway {
            locks,
            machine: self.machine.descriptor(),
            inherited: privilege::inherited().unwrap_or_default(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            halted_us: unix_microseconds(),
            clock_us: passed::clock_since(self.control.clock_start()),
            upgrade: UpgradeReport { count, done: true, waited_ms: None, why: None },
            fleet: self.fleet.as_ref().map(InFleet::pass_on),
            reload: self.reloaded.clone(),
            baseline: self.baseline.as_deref().cloned(),
            speeds: self.measured.speeds.clone(),
            antedating: self.measured.antedating.clone(),
            cell_object: self.control.has_programs_of_cells().then(cell_object),
            kernel_object: self.control.has_programs_of_links().then(kernel_object),
            programs: None,
        }
    }
}

fn unix_microseconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
