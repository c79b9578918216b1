//! Another configuration for a running gateway, without losing a frame.
//!
//! | what is different | what happens |
//! |---|---|
//! | nothing | the link goes on untouched |
//! | static keys, settings | another pipeline takes over between two turns: see [`secy::SecY::take_over`] |
//! | `[link.mka]` | the KaY is told; participants whose CAK stays go on, and the SAK does |
//! | static keys instead of `[link.mka]` or the reverse, another SCI of the latter | the link alone is stopped and started |
//! | interfaces, `mtu`, `io` to or from `af_packet` | the link alone is closed and opened again; its SAs go on |
//! | any other `io` | programs come in front of the ports, or go; its SAs go on |
//! | `[[fieldbus]]` | relations that stay go on in their sessions, also with another `mode`; others begin or end; with other master keys sessions go on until others are agreed on; with another `protect` all are made anew |
//! | a link more | it is started; one less: it is stopped and its interfaces are put back |
//! | peers of a site | they come and go: see run/site/works/peers.rs; one that is changed begins anew |
//! | anything else about a site, `io` | that site alone is stopped and started: see below |
//! | `http` | the surface is closed and opened again elsewhere |
//! | `log` | the lines of the log look otherwise |
//! | anything else in `[gateway]`, but for `io` and `unguarded` | refused: the gateway has to be restarted |
//!
//! Files are read, and the disk is asked, by other threads: see request.rs.
//!
//! Everything that can be wrong is looked for before anything is changed: configuration, key files, what keys were used
//! for before, MTUs, the address of `http`. A reload that is only tried ends there (trial.rs). What the
//! system refuses afterwards, such as a port that cannot be opened, is told, and concerns that link alone (a port is tried
//! again: interface_watch.rs). An interface that is missing, and that a link waits for, keeps the MTU that it had.
//!
//! A site that is as it was goes on untouched, and so do the peers of one whose other peers are changed. One that is
//! changed itself, that gets its first peer with a management channel or loses its last one, is another instance for its peers: keys, windows and
//! flows are agreed on anew, which takes about a second, and until then its frames are lost and counted at the peers'
//! stations. Sites are stopped before links change and started behind them, so an interface may go from one to another.

mod judge;
mod request;
mod sites;
mod step;
mod trial;

use std::time::Instant;

use control::ExpressChange;
use secy::CarryOver;
use tracing::{error, info};

use super::interface_watch::{RETRY, missing, seen};
use super::kernel_programs::place_wanted;
use super::link::{NO_SITE, ReadyLink, RunningLink, pipeline};
use super::start::needs_heartbeat;
use super::static_keys::{Begun, Granted, NewSas, floors, secy};
use super::{RunError, Running};
use crate::log::heard;
use config::change::KeysChange;
use config::check::Mtus;
use config::{Keys, Link, Outline, StaticSas};
use judge::New;
use report::ReloadReport;
use report::control_socket::Outcome;
pub(super) use request::{Loaded, ReloadRequests, read};
pub(super) use step::ExpressGoesOn;
use step::{KeyChange, Step, What};

/// Logs that a link stops which is in no step, or in one to start it anew.
fn log_stopped(link: &str, again: bool) {
    let again = if again { ", to start with keys of another origin" } else { "" };
    info!(event = "link-stopped", link, "stopped{again}");
}

/// Logs why a configuration is not taken over.
fn log_refusal(errors: &[String]) {
    for error in errors {
        error!(event = "reload-refused", "{error}");
    }
}

impl Running {
    /// Takes a configuration over that was read. Returns whether that was done, and what was said of it.
    fn reload(&mut self, loaded: Loaded) -> Outcome {
        let (done, lines) = heard(|| {
            let done = self.take_over(loaded);
            let outcome = if done { "reloaded" } else { "not reloaded" };
            info!(event = "reload", done, "{}: {outcome}", self.file.display());
            done
        });
        let count = self.reloaded.as_ref().map_or(0, |before| before.count) + 1;
        self.reloaded = Some(ReloadReport { count, done, lines: lines.clone() });
        Outcome { done, lines }
    }

    fn take_over(&mut self, loaded: Loaded) -> bool {
        let prepared = self.prepare(loaded).and_then(|new| {
            let http = self.http.prepare(&self.file, self.gateway.http, new.gateway.http);
            Ok((new, http.map_err(|finding| vec![finding.to_string()])?))
        });
        match prepared {
            Ok((New { gateway, outline, steps, sites, io_changes }, http)) => {
                self.log_changes(&outline);
                self.http.change(http, gateway.http);
                self.log.set_format(gateway.log);
                self.control.keep_heartbeat(needs_heartbeat(&gateway, steps.iter().map(|step| &step.link)));
                self.gateway = gateway;
                self.outline = outline;
                let sites = self.stop_changed_sites(sites, io_changes);
                let done = self.carry_out(steps);
                self.start_sites(sites) && done
            }
            Err(errors) => {
                log_refusal(&errors);
                false
            }
        }
    }

    /// Logs what is different in another configuration, a line each.
    fn log_changes(&self, outline: &Outline) {
        let changes = self.outline.changes(outline);
        if changes.is_empty() {
            info!(event = "configuration-unchanged", "the configuration is unchanged");
        }
        for change in changes {
            info!(event = "configuration-changed", "{change}");
        }
    }

    /// Takes the steps. False if the system refused one.
    fn carry_out(&mut self, steps: Vec<Step>) -> bool {
        let mut errors = Vec::new();
        self.remove_others(&steps, &mut errors);
        // A closed link leaves its interfaces to their new owner.
        for step in &steps {
            let is_seated =
                |name: &String| self.links.iter().any(|link| link.is_seated && link.config.name == *name);
            if let What::Change { reopen: true, .. } = step.what
                && is_seated(&step.link.name)
            {
                errors.extend(self.close(&step.link.name).err());
            }
        }
        let mut before = std::mem::take(&mut self.links);
        for Step { link, mtus, what, words } in steps {
            let name = link.name.clone();
            let found = before.iter().position(|running| running.config.name == name);
            // One whose site was stopped is in no worker any more.
            let running = found.map(|found| before.remove(found)).filter(|running| running.is_seated);
            match (what, running) {
                (What::Keep, Some(mut running)) => {
                    running.config = link;
                    self.links.push(running);
                }
                (What::Change { keys, reopen }, Some(mut running)) => {
                    match self.change(&mut running, link, mtus, keys) {
                        Ok(of_cell) => {
                            if let Some(words) = words {
                                info!(event = "link-changed", link = name, "{words}");
                            }
                            if let Some((cell, words)) = of_cell {
                                info!(event = "cell-changed", cell, "{words}");
                            }
                        }
                        Err(error) => errors.push(error),
                    }
                    running.warn_of_unmarked_key();
                    if reopen {
                        errors.extend(self.open(&mut running, mtus).err());
                    }
                    self.links.push(running);
                }
                (What::Add, _) | (_, None) => match self.start_or_wait(link, mtus) {
                    Ok(started) => {
                        match &started.waiting {
                            Some(waiting) => {
                                info!(
                                    event = "no-frame-passes",
                                    link = name,
                                    "no frame passes: {}",
                                    waiting.why
                                )
                            }
                            None => started.announce(),
                        }
                        self.links.push(started);
                    }
                    Err(error) => errors.push(error.to_string()),
                },
            }
        }
        let done = errors.is_empty();
        for error in errors {
            error!(event = "reload-failed", "{error}");
        }
        done
    }

    /// Stops the links that are in no step.
    fn remove_others(&mut self, steps: &[Step], errors: &mut Vec<String>) {
        let step = |running: &RunningLink| steps.iter().find(|step| step.link.name == running.config.name);
        let stays = |running: &RunningLink| step(running).is_some_and(|step| !matches!(step.what, What::Add));
        let (stay, go) = std::mem::take(&mut self.links).into_iter().partition(stays);
        self.links = stay;
        for running in go {
            let name = running.config.name.clone();
            // Its ports are closed here, before its interfaces are put back.
            if !running.is_seated {
                continue;
            }
            errors.extend(self.control.remove(&name).map(drop).err().map(|error| error.to_string()));
            let again = step(&running).is_some();
            errors.extend(running.restore().err().map(|error| error.to_string()));
            log_stopped(&name, again);
        }
    }

    /// Changes keys and settings of a link; if that fails it has those before. Returns as [`Self::renew_cell`].
    fn change(
        &mut self,
        running: &mut RunningLink,
        link: Link,
        mtus: Mtus,
        keys: KeyChange,
    ) -> Result<Option<(String, String)>, String> {
        match (keys, &link.keys) {
            (KeyChange::Static(carry_over, express), Keys::Static(sas)) => {
                if let Some(Begun { block, unmarked, .. }) =
                    self.replace_pipeline(&link, sas, mtus, carry_over, express)?
                {
                    running.has_begun(block, unmarked);
                }
            }
            (KeyChange::Other(KeysChange::Agreed { pipeline: true }), _) => {
                self.replace_agreed_pipeline(&link, running.about.sci, mtus)?
            }
            (KeyChange::Other(KeysChange::None { pipeline: true }), _) => {
                self.replace_bare_pipeline(&link, running.about.sci, mtus)?
            }
            _ => {}
        }
        let same_place =
            self.control.cell_place_wanted(&link.name).is_none_or(|of| of == place_wanted(self.gateway.io));
        let same_cell = running.config.cell == link.cell && running.about.mtus == mtus && same_place;
        let before = std::mem::replace(&mut running.config, link);
        running.about.mtus = mtus;
        // A SAK that this station makes at once goes where the link is then.
        running.set_place(&mut self.control, self.gateway.io)?;
        self.renew_agreement(running)?;
        let renewed = if same_cell { Ok(None) } else { self.renew_cell(running, before.cell.as_deref()) };
        if renewed.is_err() {
            running.config.cell = before.cell;
        }
        running.set_place(&mut self.control, self.gateway.io)?;
        self.tell_kay_of_place(running)?;
        renewed
    }

    /// Gives a link's worker a pipeline as `link` says. Returns what its transmit SA begins with, unless that goes on.
    pub(super) fn replace_pipeline(
        &mut self,
        link: &Link,
        sas: &StaticSas,
        mtus: Mtus,
        carry_over: CarryOver,
        express: ExpressGoesOn,
    ) -> Result<Option<Begun>, String> {
        // Reserved here and used at once: in between nothing may be reserved for the SA before, which may have the
        // same key under another AN.
        let new = NewSas { transmit: carry_over.transmit.is_none(), express: !express.0 };
        let granted = Granted::of(link, sas, new, &mut self.control);
        let mut granted = granted.map_err(|error| error.to_string())?;
        let begun = match granted.begun(&link.name, sas) {
            Ok(begun) => begun,
            Err(error) => {
                granted.return_blocks(link, sas, &mut self.control);
                return Err(error.to_string());
            }
        };
        let of_express = match granted.begun_express(link) {
            Some(begins) => ExpressChange::Begins(begins),
            None if link.express => ExpressChange::Same,
            None => ExpressChange::None,
        };
        let block = begun.as_ref().map(|begun| begun.block);
        let secy = secy(link, sas, mtus, block, &granted, self.measured.antedating.on);
        let pipeline = Box::new(pipeline(link, secy));
        let transmit = begun.as_ref().map(|begun| begun.lease);
        let changed =
            self.control.change(&link.name, pipeline, carry_over, (transmit, of_express), floors(link));
        if let Err(error) = changed {
            granted.return_blocks(link, sas, &mut self.control);
            return Err(format!("link {:?}: {error}", link.name));
        }
        Ok(begun)
    }

    fn close(&mut self, name: &str) -> Result<(), String> {
        self.control.close(name).map_err(|error| format!("link {name:?}: {error}"))?;
        let running = self.links.iter_mut().find(|running| running.config.name == name);
        running.map_or(Ok(()), RunningLink::put_back).map_err(|error| error.to_string())
    }

    fn open(&mut self, running: &mut RunningLink, mtus: Mtus) -> Result<(), String> {
        let name = running.config.name.clone();
        let opened = self.reopen(running, mtus);
        if let Err(why) = &opened {
            running.wait(why.clone(), Instant::now() + RETRY);
        }
        opened.map_err(|why| format!("link {name:?}: {why}; tried again every second"))
    }

    /// Starts a link, or has it wait for an interface that was missing before, too.
    fn start_or_wait(&mut self, link: Link, mtus: Mtus) -> Result<RunningLink, RunError> {
        if let Some(missing) = missing(&link, seen(&link)?.map(|seen| seen.is_some())) {
            return Ok(RunningLink::absent(link, missing));
        }
        // Sites are started behind links, and a link inside of one behind that.
        if link.in_site {
            return Ok(RunningLink::absent(link, NO_SITE.to_owned()));
        }
        let ready = ReadyLink::open(&self.gateway, &link, mtus, &self.control, &self.settings)?;
        let mut running = RunningLink::absent(link, String::new());
        self.begin(&mut running, ready)?;
        Ok(running)
    }
}
