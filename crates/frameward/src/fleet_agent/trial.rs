//! Trial of a version: the gateway reloads, what stood before has its time to stand again, and the version is confirmed or taken back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fleet::install::Trial;
use tracing::{error, info};

use super::reload::{Reloaded, reload};
use super::standing::{self, Part, Stood};
use super::{Agent, FleetState, LOOK, NoGateway, PROOF, RunningGateway, Told, wait};

/// Looks at the end: a link that stands in one of them stands.
const LAST_LOOKS: u32 = 6;

impl Agent {
    pub(super) fn try_out(
        &self,
        trial: &Trial,
        gateway: &dyn RunningGateway,
        told: &mut Told,
        stop: &AtomicBool,
    ) {
        told.reload = None;
        self.seen.version(trial.version, FleetState::OnTrial);
        match reload(gateway, told) {
            Reloaded::Taken => {
                told.is_unloaded = false;
                self.judge(trial, gateway, told, stop);
            }
            // It has the configuration before, and goes on with it.
            Reloaded::Refused(why) => self.refused(trial, &why, gateway),
            // It reads this version when it starts. Whether it did is asked from here on.
            Reloaded::NoGateway => {
                self.confirm(trial);
                self.seen.waits();
                told.is_unloaded = true;
                told.reloaded(&Reloaded::NoGateway);
            }
            // The gateway ends, and the next agent judges the trial.
            Reloaded::Unknown(_) if stop.load(Ordering::Relaxed) => {}
            Reloaded::Unknown(why) => {
                self.go_back(trial, &why, gateway, told);
            }
        }
    }

    /// Takes a version back, and has the gateway load the one before. A gateway that was started with what a reload cannot change has to end
    /// for that.
    fn go_back(&self, trial: &Trial, why: &str, gateway: &dyn RunningGateway, told: &mut Told) {
        self.take_back(trial, why);
        let reloaded = reload(gateway, told);
        told.reloaded(&reloaded);
        let Trial { version, before, .. } = *trial;
        let is_back = self.folder.version() == Some(before);
        if !is_back || !matches!(reloaded, Reloaded::Refused(_)) || !gateway.begins_with_agent() {
            return;
        }
        let keys = self.folder.wants_restart(trial);
        if keys.is_empty() {
            return;
        }
        told.reload = None;
        let ends = format!(
            "{} in [gateway] cannot change while the gateway runs; the gateway ends, to be started with version {before}",
            keys.join(", ")
        );
        // Until then it runs with the other one, and then with none.
        self.seen.taken_back(None, version, format!("{why}; {ends}"));
        told.ends = Some(format!("version {version} is taken back, and {ends}"));
    }

    /// A running gateway does not take what is on trial. What it takes at a start alone waits there for that, still on trial, if an agent begins
    /// with the gateway; otherwise nobody would judge it then.
    fn refused(&self, trial: &Trial, why: &str, gateway: &dyn RunningGateway) {
        let keys = self.folder.wants_restart(trial);
        // With another name it would not start either.
        if keys.is_empty() || keys.contains(&"name") {
            return self.take_back(trial, why);
        }
        let cannot = format!("{} in [gateway] cannot change while the gateway runs", keys.join(", "));
        let name = &self.acceptor.member().name;
        if !gateway.begins_with_agent() {
            let cure = "stop the gateway, publish again with fleet apply --anew, and start it";
            return self.take_back(trial, &format!("{cannot}; {cure}"));
        }
        let why =
            format!("{cannot}; restart it there, and it is on trial: systemctl restart frameward@{name}");
        error!(event = "fleet-version-refused", version = trial.version, "{why}");
        self.seen.refused_on_trial(trial, why);
    }

    /// Waits until what stood before has had its time to stand again. A trial that is not judged stays one.
    fn judge(&self, trial: &Trial, gateway: &dyn RunningGateway, told: &mut Told, stop: &AtomicBool) {
        wait(PROOF, stop);
        let mut fallen = self.expected(trial);
        for _ in 0..LAST_LOOKS {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let standing = standing(gateway).ok().flatten().unwrap_or_default();
            fallen.retain(|part| !part.is_among(&standing));
            if fallen.is_empty() {
                return self.confirm(trial);
            }
            wait(LOOK, stop);
        }
        self.go_back(trial, &standing::fallen(&fallen), gateway, told);
    }

    /// Parts that stood before and are in the configuration still.
    fn expected(&self, trial: &Trial) -> Vec<Part> {
        let stood: Vec<_> = trial.stood.iter().filter_map(|line| Part::parse(line)).collect();
        match config::load(&self.folder.configuration()) {
            Ok((config, _)) => stood.iter().filter(|part| part.is_of(&config, &stood)).cloned().collect(),
            Err(_) => stood,
        }
    }

    fn confirm(&self, trial: &Trial) {
        let version = trial.version;
        match self.folder.confirm() {
            Ok(()) => {
                self.seen.version(version, FleetState::Confirmed);
                info!(event = "fleet-version-confirmed", version, "version {version} stays");
            }
            Err(error) => error!(event = "fleet-version-refused", version, "{error}"),
        }
    }

    fn take_back(&self, trial: &Trial, why: &str) {
        let Trial { version, before, .. } = *trial;
        match self.folder.take_back(trial) {
            Ok(()) => {
                self.seen.taken_back(Some(before), version, why.to_owned());
                error!(
                    event = "fleet-version-taken-back",
                    version, "version {version} is taken back, and version {before} is in use again: {why}"
                );
            }
            Err(error) => error!(event = "fleet-version-refused", version, "{error}"),
        }
    }

    /// Parts that stand before a change. A link or site that starts has its time, as it has afterwards.
    pub(super) fn stood(&self, gateway: &dyn RunningGateway, stop: &AtomicBool) -> Vec<Part> {
        let config = config::load(&self.folder.configuration()).ok();
        let mut stood = Stood::new(config.as_ref().map(|(config, _)| config));
        let since = Instant::now();
        loop {
            let Ok(standing) = standing(gateway) else { return Vec::new() };
            if stood.look(standing) || since.elapsed() > PROOF || stop.load(Ordering::Relaxed) {
                return stood.parts();
            }
            wait(LOOK, stop);
        }
    }
}

/// Parts that stand; none if the gateway does not tell, or starts.
fn standing(gateway: &dyn RunningGateway) -> Result<Option<Vec<Part>>, NoGateway> {
    let report = gateway.report()?.filter(|report| report.configuration.is_some());
    Ok(report.as_ref().map(Part::standing))
}
