//! `reload --dry-run`: what a reload would say, of the same judgement, and nothing is changed or logged.
//!
//! Not foretold is what the system refuses only when it is asked: a port that cannot be opened, a disk that fails.

use tracing::info;

use super::super::Running;
use super::judge::New;
use super::request::Loaded;
use super::sites::fate;
use super::step::What;
use super::{log_refusal, log_stopped};
use crate::log::heard_alone;
use report::control_socket::Outcome;

impl Running {
    /// Judges the configuration as a reload does. Returns whether it would be taken over, and what is to be said of it.
    pub(super) fn try_reload(&self, loaded: Loaded) -> Outcome {
        let (done, lines) = heard_alone(|| {
            let prepared = self.prepare(loaded).and_then(|new| {
                let http = self.http.try_out(&self.file, self.gateway.http, new.gateway.http);
                http.map(|()| new).map_err(|finding| vec![finding.to_string()])
            });
            match &prepared {
                Ok(new) => {
                    self.log_changes(&new.outline);
                    self.foretell(new);
                }
                Err(errors) => log_refusal(errors),
            }
            let done = prepared.is_ok();
            let outcome = if done { "would be reloaded" } else { "would not be reloaded" };
            info!(event = "reload-tried", done, "{}: {outcome}; nothing was changed", self.file.display());
            done
        });
        Outcome { done, lines }
    }

    /// Says what becomes of links and sites.
    fn foretell(&self, new: &New) {
        for running in self.links.iter().filter(|running| running.is_seated) {
            let name = &running.config.name;
            match new.steps.iter().find(|step| step.link.name == *name) {
                None => log_stopped(name, false),
                Some(step) if matches!(step.what, What::Add) => log_stopped(name, true),
                Some(_) => {}
            }
        }
        for step in &new.steps {
            let words = if matches!(step.what, What::Add) { Some("started") } else { step.words };
            if let Some(words) = words {
                info!(event = "link-changed", link = step.link.name, "{words}");
            }
        }
        for running in &self.sites {
            let name = &running.config.name;
            if !new.sites.iter().any(|(site, _)| site.name == *name) {
                info!(event = "site-stopped", site = name, "stopped");
            }
        }
        for (site, lan_mtu) in &new.sites {
            let running = self.sites.iter().find(|running| running.config.name == site.name);
            if let Some(words) = fate(running, site, *lan_mtu, new.io_changes).words() {
                info!(event = "site-changed", site = site.name, "{words}");
            }
        }
    }
}
