//! The order of a start: all that can be wrong or fail comes before the first frame, and before the first packet number.
//!
//! | step | what can fail |
//! |---|---|
//! | HTTP, state directory, control socket | they are another gateway's, or cannot be written; a key that must not be used |
//! | privileges, how fast the cipher suites are here | what `realtime = "on"` wants |
//! | MTUs, interfaces, ports | they do not fit, or are another program's; one that is missing is waited for (interface_watch.rs) |
//! | workers, sites | threads, sockets |
//! | leases, links | a disk that fails |
//!
//! Whatever fails leaves nothing behind: interfaces are put back, and so are the PNs that a link began with before another
//! one failed.

use std::fs::File;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{Gateway, KernelPrograms};
use netdev::interface::{Prepared, link_state};
use pnstore::LeaseStore;
use tracing::{info, warn};

use super::interface_settings::InterfaceSettings;
use super::interface_watch::{missing, seen};
use super::link::{NO_SITE, ReadyLink, RunningLink, StartedLink};
use super::reload::ReloadRequests;
use super::site::RunningSite;
use super::static_keys::{Granted, NewSas};
use super::surface::Surface;
use super::upgrade::{Passed, PassedLink};
use super::verdicts::Verdicts;
use super::{Measured, RunError, Running, SitePrograms, polling, restored};
use crate::log::Log;
use crate::privilege;
use config::check::interface_mtu;
use config::check::keys::misused;
use config::check::link_mtus;
use config::check::site::{lan_mtu, not_carried};
use config::suite_speed::{self, Antedating};
use config::worker_scheduling::Machine;
use config::{Config, Link, Site, StaticSas, datapaths, interfaces};

/// Takes the state directory, judges by it which keys may be used, and puts right what killed gateways have left of
/// interfaces.
/// With the lock that the program before has passed on, if there was one.
pub(super) fn open_state(config: &Config, lock: Option<File>) -> Result<LeaseStore, RunError> {
    let Config { file, gateway, links, .. } = config;
    // Without static keys there is nothing that could be too old.
    let max_age = gateway.state_max_age.filter(|_| links.iter().any(|link| link.static_sas().is_some()));
    let leases = match lock {
        Some(lock) => LeaseStore::go_on(&gateway.state, max_age, lock)?,
        None => LeaseStore::open(&gateway.state, max_age)?,
    };
    if let Some(behind) = leases.clock_behind() {
        warn!(
            event = "clock-behind",
            seconds = behind.as_secs(),
            "this box's clock is {} s behind the state in {}; correct the clock",
            behind.as_secs(),
            gateway.state.display()
        );
    }
    let found = misused(file, links, &|role, name, key| leases.check_role(role, name, key));
    if !found.is_empty() {
        return Err(RunError::Misused(found));
    }
    Prepared::restore_stale(&gateway.state)?;
    Ok(leases)
}

/// Whether the heartbeat of the state is kept whichever links are there: a start with such a configuration, or with static keys more in
/// it, judges the state by its age.
pub(super) fn needs_heartbeat<'l>(
    gateway: &config::Gateway,
    links: impl IntoIterator<Item = &'l Link>,
) -> bool {
    gateway.state_max_age.is_some() || links.into_iter().any(|link| link.static_sas().is_some())
}

/// Means that a start finds beside its configuration.
pub(super) struct Around {
    pub(super) programs: KernelPrograms,
    pub(super) site_programs: SitePrograms,
    /// Whether memory is locked.
    pub(super) locked: Result<(), String>,
    pub(super) http: Surface,
    /// The lock of the control socket.
    pub(super) socket_lock: RawFd,
    /// The file of this program, or why it is unknown.
    pub(super) program: Result<PathBuf, String>,
    /// State that the program before has passed on, if there was one.
    pub(super) passed: Option<Passed>,
}

impl Running {
    /// Starts all links and sites. Frames flow only when all links stand.
    pub(super) fn start(
        config: Config,
        leases: LeaseStore,
        around: Around,
        log: &Log,
    ) -> Result<Self, RunError> {
        let Around { programs, site_programs, locked, http, socket_lock, program, mut passed } = around;
        let Config { file, gateway, links, sites, outline, .. } = config;
        let (mut started, datapaths) = (Instant::now(), datapaths(&links, &sites));
        let machine = Machine::this(interfaces(&links, &sites));
        let (workers, privileges) =
            privilege::ask(&gateway, datapaths, &machine, locked).map_err(RunError::NotGranted)?;
        for (what, grant) in privileges.named() {
            info!(event = "privilege", granted = grant.granted, "{what}: {grant}");
        }
        // Before any interface is touched: frames would wait for it.
        let measured = match &passed {
            // They do wait.
            Some(Passed { gateway, .. }) => {
                started = started.checked_sub(Duration::from_millis(gateway.uptime_ms)).unwrap_or(started);
                Measured { speeds: gateway.speeds.clone(), antedating: gateway.antedating.clone() }
            }
            None => {
                Measured { speeds: suite_speed::measure(), antedating: Antedating::decide(gateway.antedate) }
            }
        };
        let control =
            Gateway::new(leases, polling(gateway.polling), workers.scheduling).map_err(RunError::Thread)?;
        let mut control = control.on_cpus(workers.cpus).with_kernel_programs(programs);
        if let Some(passed) = &passed {
            control = control.on_clock_since(passed.clock_start());
        }
        control.keep_heartbeat(needs_heartbeat(&gateway, &links));
        control.start_workers(datapaths).map_err(RunError::Thread)?;
        let machine = match &passed {
            Some(passed) => restored::Machine::go_on(passed.gateway.machine)
                .map_err(|error| RunError::PassedOn(error.to_string()))?,
            None => restored::Machine::watch(),
        };
        let settings = InterfaceSettings::start(&gateway.state).map_err(RunError::Thread)?;
        let mut running = Self {
            file,
            started,
            gateway,
            privileges,
            measured,
            reloads: ReloadRequests::default(),
            reloaded: passed.as_ref().and_then(|passed| passed.gateway.reload.clone()),
            upgraded: None,
            upgrade: None,
            program,
            machine,
            socket_lock,
            fleet: None,
            baseline: passed.as_ref().and_then(|passed| passed.gateway.baseline.clone()).map(Arc::new),
            control,
            settings,
            links: Vec::new(),
            sites: Vec::new(),
            site_programs,
            verdicts: Verdicts::default(),
            outline,
            http,
            log: log.clone(),
        };
        let begun = running.start_all(links, sites, passed.as_mut());
        match begun {
            Ok(()) => {
                running.has_become(passed);
                Ok(running)
            }
            Err(error) => running.stop().and(Err(error)),
        }
    }

    fn start_all(
        &mut self,
        links: Vec<Link>,
        sites: Vec<Site>,
        mut passed: Option<&mut Passed>,
    ) -> Result<(), RunError> {
        let lans = sites.iter().map(|site| self.check_lan(site)).collect::<Result<Vec<_>, _>>()?;
        let links = links.into_iter().map(|link| self.open_link(link, passed.as_deref_mut()));
        let links: Vec<(RunningLink, Option<ReadyLink>)> = links.collect::<Result<_, _>>()?;
        let order: Vec<String> = links.iter().map(|(running, _)| running.config.name.clone()).collect();
        // Frames of links that go on wait for nothing that begins anew.
        let goes_on = passed.is_some();
        let (first, links): (Vec<_>, Vec<_>) =
            links.into_iter().partition(|(running, _)| goes_on && !running.config.in_site);
        self.begin_links(first, passed.as_deref_mut())?;
        for (site, lan) in sites.into_iter().zip(lans) {
            let site = self.open_site(site, lan, passed.as_deref());
            let (name, fallen) = (site.config.name.clone(), site.fallen().map(str::to_owned));
            match (lan, fallen) {
                // Links that go on do not wait for a site.
                (Some(_), Some(why)) if passed.is_none() => {
                    return Err(RunError::Site(format!("site {name:?}: {why}")));
                }
                (_, Some(why)) => info!(event = "no-frame-passes", site = name, "no frame passes: {why}"),
                (_, None) => site.announce(),
            }
            self.sites.push(site);
        }
        self.begin_links(links, passed)?;
        self.links.sort_by_key(|running| order.iter().position(|name| *name == running.config.name));
        Ok(())
    }

    /// Begins links, all of them before any of them forwards a frame.
    fn begin_links(
        &mut self,
        links: Vec<(RunningLink, Option<ReadyLink>)>,
        mut passed: Option<&mut Passed>,
    ) -> Result<(), RunError> {
        let mut begun = Vec::new();
        for (mut running, mut ready) in links {
            // Its LAN may have come after it was looked for, for the site.
            let has_no_site = running.config.in_site && !self.control.has_site(&running.config.name);
            if ready.take_if(|_| has_no_site).is_some() {
                running.wait(NO_SITE.to_owned(), Instant::now());
            }
            let agreement =
                passed.as_deref_mut().and_then(|passed| passed.take_agreement(&running.config.name));
            let started = ready.map(|ready| {
                let going_on = passed.as_deref().and_then(|passed| passed.link(&running.config).ok());
                let grant = |sas: &StaticSas| match going_on {
                    Some(link) => Ok(link.granted(&running.config, sas)),
                    None => Granted::at_start(&running.config, sas, &mut self.control),
                };
                ready.begin(&running.config, grant, agreement, &self.measured)
            });
            match started.transpose() {
                Ok(started) => begun.push((running, started)),
                Err(error) => {
                    self.give_back(begun.into_iter().filter_map(|(_, link)| link));
                    return Err(error);
                }
            }
        }
        // From here on frames flow, and KaYs wait for nobody.
        let mut begun = begun.into_iter();
        while let Some((mut running, started)) = begun.next() {
            let given = match started {
                None => {
                    let why = running.waiting.as_ref().map_or("", |waiting| &waiting.why);
                    info!(event = "no-frame-passes", link = running.config.name, "no frame passes: {why}");
                    Ok(())
                }
                Some(started) => started
                    .give_to(&mut running, &mut self.control, self.gateway.io)
                    .and_then(|()| self.tell_kay_of_place(&mut running).map_err(RunError::LinkPlace))
                    .map(|()| running.announce()),
            };
            let going_on = passed.as_deref().and_then(|passed| passed.link(&running.config).ok());
            if let Some((block, left)) = going_on.and_then(PassedLink::latest_block) {
                self.control.go_on_behind_block(&running.config.name, block, left);
            }
            self.links.push(running);
            if let Err(error) = given {
                self.give_back(begun.filter_map(|(_, link)| link));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives back the PNs of links that no worker has had. If that fails they are lost as after a crash.
    fn give_back(&mut self, links: impl Iterator<Item = StartedLink>) {
        let unused: Vec<_> = links.flat_map(|link| link.unused().collect::<Vec<_>>()).collect();
        let _ = self.control.on_disk_at_start(move |leases| leases.give_back(&unused));
    }

    /// Starts a site, with its programs if it has some.
    pub(super) fn open_site(
        &mut self,
        site: Site,
        lan_mtu: Option<usize>,
        passed: Option<&Passed>,
    ) -> RunningSite {
        let kernel = self.site_programs.of(&site, self.gateway.io);
        let passed = passed.and_then(|passed| passed.site(&site));
        RunningSite::start(&self.gateway, site, (lan_mtu, passed), kernel, &mut self.control, &self.settings)
    }

    /// The MTU of a site's LAN; none if its interface is missing.
    fn check_lan(&self, site: &Site) -> Result<Option<usize>, RunError> {
        if link_state(&site.lan)?.is_none() {
            return Ok(None);
        }
        let mtu = lan_mtu(&self.file, site, &interface_mtu)
            .map_err(|found| RunError::Configuration(vec![found]))?;
        for warning in not_carried(&self.file, site, mtu) {
            warn!(event = "configuration", "{warning}");
        }
        Ok(Some(mtu))
    }

    /// Opens a link's interfaces and ports, if its interfaces are there.
    fn open_link(
        &self,
        link: Link,
        passed: Option<&mut Passed>,
    ) -> Result<(RunningLink, Option<ReadyLink>), RunError> {
        if let Some(passed) = passed {
            let cell = passed.take_cell(&link.name);
            let going_on = passed.link(&link).map_err(RunError::PassedOn)?;
            let mtus = link_mtus(&self.file, &link, &|interface| match link.in_site {
                true => interface_mtu(interface),
                false => going_on.mtu(interface),
            });
            let mtus = mtus.map_err(RunError::Configuration)?;
            let ready = ReadyLink::go_on(&self.gateway, &link, mtus, (going_on, cell), &self.settings)?;
            return Ok((RunningLink::absent(link, String::new()), Some(ready)));
        }
        if let Some(missing) = missing(&link, seen(&link)?.map(|seen| seen.is_some())) {
            return Ok((RunningLink::absent(link, missing), None));
        }
        let mtus = link_mtus(&self.file, &link, &interface_mtu).map_err(RunError::Configuration)?;
        let ready = ReadyLink::open(&self.gateway, &link, mtus, &self.control, &self.settings)?;
        Ok((RunningLink::absent(link, String::new()), Some(ready)))
    }

    /// Gives a link keys and then a worker, while others run.
    pub(super) fn begin(&mut self, link: &mut RunningLink, ready: ReadyLink) -> Result<(), RunError> {
        let new = NewSas { transmit: true, express: true };
        let grant = |sas: &StaticSas| Granted::of(&link.config, sas, new, &mut self.control);
        let started = ready.begin(&link.config, grant, None, &self.measured)?;
        started.give_to(link, &mut self.control, self.gateway.io)?;
        self.tell_kay_of_place(link).map_err(RunError::LinkPlace)
    }
}
