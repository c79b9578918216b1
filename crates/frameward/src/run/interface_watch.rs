//! The interfaces of links, watched: they vanish and come back (a USB adapter is pulled, a driver loaded again, a port moved to
//! another namespace), their MTU and carrier change, and what was missing at the start appears.
//!
//! | what is seen | what happens |
//! |---|---|
//! | an interface is gone, or another one has its name | the ports are closed; the other interface stays as it is prepared |
//! | its MTU is another | the ports are closed and opened again; frames are judged by the new MTU |
//! | it takes no redirected frames any more, or does now | its cell leaves the kernel, or comes to it |
//! | an interface is back | it is prepared at once, so that nothing of the host gets out on it |
//! | both are there, and none is held down | the ports are opened |
//! | that fails | it is tried again every second, and told once |
//! | one was missing at the start, and both are there | the link is started, with a first block of PNs |
//!
//! Carriers are seen here, too, and a side is held down as `carrier_loss.rs` decides. A site's LAN is looked after in `site.rs`.
//!
//! The SecY lives on meanwhile: PNs, replay windows and counters are those from before. Looked at when the kernel says
//! that something has changed, and once a second, by a thread of its own (interface_looks.rs).

use std::fmt;
use std::time::{Duration, Instant};

use control::Gateway;
use netdev::interface::{InterfaceError, LinkEvents, LinkState, link_state};
use secy::CarryOver;
use tracing::{error, info};

use super::interface_looks::{InterfaceLooks, Question, Seen};
use super::link::{NO_SITE, ReadyLink, RunningLink};
use super::reload::ExpressGoesOn;
use super::site::RunningSite;
use super::{RunError, Running};
use config::check::{interface_mtu, link_mtus};
use config::{Finding, Keys, Link};

/// Interval between looks at interfaces if the kernel reports nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time in which a KaY that has heard that programs take SAs again makes another SAK by itself, if it does.
const SAK_BY_ITSELF: Duration = Duration::from_secs(3);
/// Pause after a failure before interfaces and ports are tried again: at the next look, whose answer may come sooner than the last one.
pub(super) const RETRY: Duration = Duration::from_millis(900);

/// Schedule of looks at the interfaces.
pub(super) struct InterfaceMonitor {
    /// Without it, once a second must do.
    watch: Option<LinkEvents>,
    next: Instant,
    looks: InterfaceLooks,
    /// Something has changed since the last look that was answered was asked for: what it saw may be over.
    pub(super) is_behind: bool,
    /// Something has changed since the last look was asked for.
    has_changed: bool,
}

impl InterfaceMonitor {
    pub(super) fn start() -> Result<Self, RunError> {
        let looks = InterfaceLooks::start().map_err(RunError::Thread)?;
        let watch = LinkEvents::open().ok();
        Ok(Self { watch, next: Instant::now(), looks, is_behind: false, has_changed: false })
    }

    /// Has the interfaces looked at if that is due, and says what was seen since the last call.
    fn poll(&mut self, now: Instant, question: impl FnOnce() -> Question) -> Option<Seen> {
        if self.watch.as_ref().is_some_and(LinkEvents::has_changed) {
            (self.next, self.is_behind, self.has_changed) = (now, true, true);
        }
        let seen = self.looks.answer(now);
        if seen.is_some() {
            self.is_behind = self.has_changed;
        } else if now >= self.next && self.looks.ask(now, question) {
            // Effects of an answer are seen by a look that begins behind it.
            (self.next, self.has_changed) = (now + LOOK_EVERY, false);
        }
        seen
    }

    /// Interfaces or ports may be others now: looks again.
    pub(super) fn forget(&mut self) {
        if self.looks.forget() {
            self.next = Instant::now();
        }
    }
}

impl Running {
    /// Looks at the interfaces of all links and sites, if that is due, and does what they need; logs what sites have to
    /// say.
    pub(super) fn poll_interfaces(&mut self, monitor: &mut InterfaceMonitor, now: Instant) {
        if self.control.disk_has_just_answered(now) {
            monitor.next = now;
        }
        self.settings.tidy();
        let seen = monitor.poll(now, || self.question());
        let mut links = std::mem::take(&mut self.links);
        for link in &mut links {
            let changed = seen.as_ref().and_then(|seen| self.poll_link(link, seen, now));
            if let Some(PassageNews { event, text }) = changed {
                info!(event, link = link.config.name, "{text}");
            }
            if seen.is_some() {
                link.log_place(&self.control);
            }
            if seen.is_some() || !monitor.is_behind {
                forward_loss(link, &mut self.control, now);
            }
        }
        self.links = links;
        // Decided once: only a site whose link was taken out is started anew.
        let renewed: Vec<String> = self
            .sites
            .iter()
            .filter(|site| seen.as_ref().is_some_and(|seen| site.is_to_renew(seen)))
            .map(|site| site.config.name.clone())
            .collect();
        for site in &renewed {
            self.unseat_from_site(site);
        }
        for site in &mut self.sites {
            site.log_notices();
            site.log_places();
            let renew = renewed.contains(&site.config.name);
            let changed = seen.as_ref().and_then(|seen| {
                site.poll_interfaces(&self.file, &self.gateway, &mut self.control, seen, renew, now)
            });
            if let Some(PassageNews { event, text }) = changed {
                info!(event, site = site.config.name, "{text}");
            }
        }
    }

    /// All interfaces of links and sites.
    fn question(&self) -> Question {
        let of_links = self.links.iter().flat_map(|link| link.config.interfaces());
        let names = of_links.chain(self.sites.iter().map(|site| &site.config.lan)).cloned().collect();
        let now = self.started.elapsed();
        let plain = self.links.iter().map(|link| (&link.config.name, &link.config.plain));
        let veths = plain.filter(|(link, _)| self.verdicts.has_unfilled_checksums(link, now));
        let veths = veths.map(|(_, plain)| plain.clone()).collect();
        Question { names, indexes: self.control.redirected_to(), veths }
    }

    /// Returns what a person should know, if that has changed.
    fn poll_link(&mut self, link: &mut RunningLink, looks: &Seen, now: Instant) -> Option<PassageNews> {
        // If the kernel does not tell, nothing is known to have changed.
        let plain = looks.state(&link.config.plain)?;
        link.machine_end = looks.veth_end(&link.config.plain).cloned();
        let seen = [plain, if link.config.in_site { plain } else { looks.state(&link.config.protected)? }];
        let [plain, protected] = seen.map(|seen| seen.is_some_and(|seen| seen.carrier));
        // A tunnel has none to lose.
        link.carriers = Some([plain, protected || link.config.in_site]);
        if link.is_open() {
            if link.is_on(seen) {
                self.control.check_kernel_ports(&link.config.name, |index| looks.takes_redirected(index));
                if let Err(error) = self.tell_kay_of_place(link) {
                    error!(event = "key-agreement-not-changed", "{error}");
                }
                self.ask_for_sak(link, now);
                return None;
            }
            // A worker that does not answer is told by its verdict.
            self.control.close(&link.config.name).ok()?;
            link.wait(String::new(), now);
        }
        link.let_go(seen);
        if link.waiting.as_ref().is_some_and(|waiting| now < waiting.try_at) {
            return None;
        }
        let there = seen.map(|seen| seen.is_some());
        if !link.is_seated {
            return self.start_absent(link, there, now);
        }
        // The interface's original settings are recorded on disk.
        let written = match link.is_to_prepare(there) {
            true => self.control.probe_disk(Instant::now())?.map_err(|error| error.to_string()),
            false => Ok(()),
        };
        let prepared = written.and_then(|()| {
            link.prepare(&self.gateway, &self.settings, there).map_err(|error| error.to_string())
        });
        let (why, try_at) = match (prepared, missing(&link.config, there)) {
            (Err(why), _) => (why, now + RETRY),
            (Ok(()), Some(missing)) => (missing, now),
            // Ports on a side that is down may not open, or be worse ones.
            (Ok(()), None) => match link.why_held().map_or_else(|| self.take_up(link), Err) {
                Ok(()) => return Some(PassageNews::goes_on(link.engines())),
                Err(why) if link.loss.held().is_some() => (why, now),
                Err(why) => (why, now + RETRY),
            },
        };
        let known = link.waiting.as_ref().is_some_and(|waiting| waiting.why == why);
        let news = (!known).then(|| PassageNews::ends(&why));
        link.wait(why, try_at);
        news
    }

    /// A SAK that has left the kernel never comes back. Asks for the next one, once, if programs wait for it.
    fn ask_for_sak(&mut self, link: &mut RunningLink, now: Instant) {
        let name = &link.config.name;
        if !self.control.awaits_next_sak(name) {
            link.awaits_sak = None;
            return;
        }
        let (since, asked) = link.awaits_sak.get_or_insert((now, false));
        if !*asked && now.saturating_duration_since(*since) >= SAK_BY_ITSELF {
            *asked = self.control.rekey(name);
        }
    }

    /// Starts a link whose interfaces were missing until now, if both are there.
    fn start_absent(
        &mut self,
        link: &mut RunningLink,
        there: [bool; 2],
        now: Instant,
    ) -> Option<PassageNews> {
        let (why, try_at) = match missing(&link.config, there) {
            Some(missing) => (missing, now),
            None if link.config.in_site && !self.has_started_site(&link.config.name) => {
                (NO_SITE.to_owned(), now)
            }
            None => {
                let written = self.control.probe_disk(Instant::now())?.map_err(|error| error.to_string());
                match written.and_then(|()| self.start_link(link)) {
                    Ok(()) => return Some(PassageNews::begins(link.engines())),
                    Err(why) => (why, now + RETRY),
                }
            }
        };
        let known = link.waiting.as_ref().is_some_and(|waiting| waiting.why == why);
        link.wait(why.clone(), try_at);
        (!known).then(|| PassageNews::ends(&why))
    }

    /// Starts a link whose interfaces are there.
    fn start_link(&mut self, link: &mut RunningLink) -> Result<(), String> {
        let mtus = link_mtus(&self.file, &link.config, &interface_mtu).map_err(lines)?;
        let ready = ReadyLink::open(&self.gateway, &link.config, mtus, &self.control, &self.settings)
            .map_err(|error| error.to_string())?;
        self.begin(link, ready).map_err(|error| error.to_string())
    }

    /// Opens the ports of a link whose interfaces are both there.
    fn take_up(&mut self, link: &mut RunningLink) -> Result<(), String> {
        let mtus = link_mtus(&self.file, &link.config, &interface_mtu).map_err(lines)?;
        if mtus != link.about.mtus {
            match &link.config.keys {
                Keys::Static(sas) => {
                    let express = link.config.express_sas();
                    let receive = sas.receive.iter().chain(express.iter().flat_map(|sas| &sas.receive));
                    let carry_over = CarryOver {
                        transmit: Some((sas.transmit.an, link.config.protection)),
                        receive: receive.map(|sa| (sa.sci, sa.an)).collect(),
                        all: false,
                    };
                    self.replace_pipeline(&link.config, sas, mtus, carry_over, ExpressGoesOn(true))?;
                }
                Keys::Agreed(_) => self.replace_agreed_pipeline(&link.config, link.about.sci, mtus)?,
                Keys::None => self.replace_bare_pipeline(&link.config, link.about.sci, mtus)?,
            }
            let before = std::mem::replace(&mut link.about.mtus, mtus);
            // Until all of it is so, it is tried again.
            if let Err(why) = self.renew_for_mtus(link) {
                link.about.mtus = before;
                return Err(why);
            }
        }
        self.reopen(link, mtus)
    }
}

impl Running {
    fn has_started_site(&self, name: &str) -> bool {
        // One that waits is stopped before it goes on, if its LAN has another MTU.
        let started = |site: &RunningSite| site.works.is_some() && site.waiting.is_none();
        self.sites.iter().any(|site| site.config.name == name && started(site))
    }

    /// Takes the link inside of a site out, before the site is stopped. It is started again with the site, if that is.
    pub(super) fn unseat_from_site(&mut self, site: &str) {
        let of_site =
            |link: &&mut RunningLink| link.config.in_site && link.config.name == site && link.is_seated;
        let Some(link) = self.links.iter_mut().find(of_site) else { return };
        // A worker that does not answer is told by its verdict. Its ports are closed here, before its interface is put back.
        drop(self.control.remove(site));
        if let Err(error) = link.unseat("its site is started again") {
            error!(event = "interface-not-restored", link = site, "{error}");
        }
    }

    /// Gives a link's key agreement, cell and programs the MTUs that it has now.
    fn renew_for_mtus(&mut self, link: &mut RunningLink) -> Result<(), String> {
        self.renew_agreement(link)?;
        self.renew_cell(link, link.config.cell.as_deref())?;
        link.set_place(&mut self.control, self.gateway.io)
    }
}

fn lines(findings: Vec<Finding>) -> String {
    let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

/// Takes a side down whose other side has lost its carrier, or up again.
fn forward_loss(link: &mut RunningLink, control: &mut Gateway, now: Instant) {
    link.loss.set_rule(link.config.link_loss);
    // Time to settle begins with the first look.
    let Some(carriers) = link.carriers else { return };
    link.loss.turn(now, carriers);
    if link.not_held.as_ref().is_some_and(|(_, try_at)| now < *try_at) {
        return;
    }
    if !link.is_to_hold() {
        return;
    }
    // That a side is held down is recorded on disk before.
    let Some(written) = control.probe_disk(Instant::now()) else { return };
    let written = written.map_err(|error| error.to_string());
    match written.and_then(|()| link.hold_down().map_err(|error| error.to_string())) {
        Ok(()) => {
            link.not_held = None;
            let Link { name, plain, protected, .. } = &link.config;
            match link.why_held() {
                Some(why) => info!(event = "no-frame-passes", link = name, "no frame passes: {why}"),
                None => info!(event = "loss-over", link = name, "{plain} and {protected} are up again"),
            }
        }
        Err(text) => {
            let known = link.not_held.as_ref().is_some_and(|(before, _)| *before == text);
            link.not_held = Some((text.clone(), now + RETRY));
            if !known {
                error!(event = "loss-not-forwarded", link = link.config.name, "{text}");
            }
        }
    }
}

/// News for the log that frames pass, or pass no more.
pub(super) struct PassageNews {
    /// The event's name.
    pub(super) event: &'static str,
    pub(super) text: String,
}

impl PassageNews {
    pub(super) fn begins(through: impl fmt::Display) -> Self {
        Self { event: "frames-pass", text: format!("frames pass: {through}") }
    }

    pub(super) fn goes_on(through: impl fmt::Display) -> Self {
        Self { event: "frames-pass", text: format!("frames pass again: {through}") }
    }

    pub(super) fn ends(why: &str) -> Self {
        Self { event: "no-frame-passes", text: format!("no frame passes: {why}") }
    }
}

/// State of a link's interfaces in the kernel, plain and protected. A link inside of a site has the first alone, which stands for
/// both.
pub(super) fn seen(link: &Link) -> Result<[Option<LinkState>; 2], InterfaceError> {
    let plain = link_state(&link.plain)?;
    Ok([plain, if link.in_site { plain } else { link_state(&link.protected)? }])
}

/// Says which interfaces are missing, if any is.
pub(super) fn missing(link: &Link, there: [bool; 2]) -> Option<String> {
    let names: Vec<_> = link.interfaces().zip(there).filter(|(_, there)| !there).collect();
    match names.as_slice() {
        [] => None,
        [(name, _)] => Some(format!(
            "interface {name} is missing ('ip link' lists those that are there); the link goes on when it is back"
        )),
        _ => Some(format!(
            "interfaces {} and {} are missing ('ip link' lists those that are there); the link goes on when they are back",
            link.plain, link.protected
        )),
    }
}
