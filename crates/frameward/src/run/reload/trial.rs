//! `reload --dry-run`: what a reload would say, of the same judgement, and nothing is changed.
//!
//! Not foretold is what the system refuses only when it is asked: a port that cannot be opened, a disk that fails.

use super::super::Running;
use super::sites::Fate;
use super::{New, What, stopped};
use crate::request::Tried;

impl Running {
    /// Judges the configuration as a reload does.
    pub(in super::super) fn try_reload(&mut self) -> Tried {
        let mut lines = Vec::new();
        let prepared = self.prepare(&mut lines).and_then(|new| {
            let http = self.http.try_out(&self.file, self.gateway.http, new.gateway.http);
            http.map(|()| new).map_err(|finding| vec![finding.to_string()])
        });
        let done = prepared.is_ok();
        match prepared {
            Ok(new) => {
                lines.extend(self.changes(&new.outline));
                lines.extend(self.foretell(&new));
            }
            Err(errors) => lines.extend(errors),
        }
        let outcome = if done { "would be reloaded" } else { "would not be reloaded" };
        lines.push(format!("{}: {outcome}; nothing was changed", self.file.display()));
        Tried { done, lines }
    }

    /// The lines of links and sites.
    fn foretell(&self, new: &New) -> Vec<String> {
        let mut lines = Vec::new();
        for running in self.links.iter().filter(|running| running.is_seated) {
            let name = &running.config.name;
            match new.steps.iter().find(|step| step.link.name == *name) {
                None => lines.push(stopped(name, false)),
                Some(step) if matches!(step.what, What::Add) => lines.push(stopped(name, true)),
                Some(_) => {}
            }
        }
        for step in &new.steps {
            let words = if matches!(step.what, What::Add) { Some("started") } else { step.what.words() };
            lines.extend(words.map(|words| format!("link {:?}: {words}", step.link.name)));
        }
        for running in &self.sites {
            let name = &running.config.name;
            if !new.sites.iter().any(|(site, _)| site.name == *name) {
                lines.push(format!("site {name:?}: stopped"));
            }
        }
        for (site, lan_mtu) in &new.sites {
            let running = self.sites.iter().find(|running| running.config.name == site.name);
            let words = Fate::of(running, site, *lan_mtu, new.io_changes).words();
            lines.extend(words.map(|words| format!("site {:?}: {words}", site.name)));
        }
        lines
    }
}
