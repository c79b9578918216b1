//! State of a fleet as an agent has seen it, for the report of its gateway.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fleet::install::Trial;
use fleet::{Outcome, Said};
use report::FleetReport;
pub use report::FleetState;

/// State of a fleet that several threads share: one writes it, and others look. Nobody holds it while he waits for anything.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<Mutex<Now>>);

#[derive(Debug, Default)]
struct Now {
    version: Option<u64>,
    state: FleetState,
    why: Option<String>,
    /// The version that was taken back or refused, if that is known.
    unused: Option<u64>,
    answered: Option<Instant>,
    away: Option<String>,
    /// The version that the gateway does not start with.
    unusable: Option<u64>,
    /// The box's own configuration, which leads to the fleet.
    file: Option<PathBuf>,
}

impl Seen {
    fn now(&self) -> MutexGuard<'_, Now> {
        // Whole at each moment: each field is written by one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its box's configuration is this file.
    pub(crate) fn is_of(&self, file: PathBuf) {
        self.now().file = Some(file);
    }

    /// Goes on with what was seen in the program before.
    pub(crate) fn go_on(&self, before: FleetReport) {
        let FleetReport { version, state, why, unused, file: _, directory_answered_seconds, directory_away } =
            before;
        let mut now = self.now();
        // An agent that had ended begins anew with this program.
        if state != FleetState::AgentEnded {
            (now.version, now.state, now.why, now.unused) = (version, state, why, unused);
        }
        let answered = directory_answered_seconds.map(Duration::from_secs);
        now.answered = answered.and_then(|since| Instant::now().checked_sub(since));
        now.away = directory_away;
    }

    /// The directory answered, or why it does not.
    pub(super) fn directory(&self, away: Option<String>) {
        let mut now = self.now();
        if away.is_none() {
            now.answered = Some(Instant::now());
        }
        now.away = away;
    }

    /// An agent begins, and this version is in the gateway's folder. It is in use if the gateway starts with it.
    pub(super) fn begin(&self, version: Option<u64>) {
        let mut now = self.now();
        now.version = version.filter(|version| now.unusable != Some(*version));
    }

    /// No gateway runs that could have a version.
    pub(super) fn waits(&self) {
        let mut now = self.now();
        (now.version, now.state, now.why, now.unused) = (None, FleetState::Waits, None, None);
    }

    /// The gateway has this version. What became of a newer one before stays told.
    pub(super) fn confirmed(&self, version: Option<u64>) {
        let mut now = self.now();
        let is_told = now.version == version && now.state == FleetState::TakenBack;
        now.version = version;
        if version.is_some() && !is_told {
            (now.state, now.why, now.unused) = (FleetState::Confirmed, None, None);
        }
    }

    /// The gateway does not start with this version, which it has.
    pub fn does_not_start(&self, version: u64, why: String) {
        let mut now = self.now();
        (now.unusable, now.unused) = (Some(version), Some(version));
        (now.version, now.state, now.why) = (None, FleetState::Refused, Some(why));
    }

    /// This version, or none, is in use, since `unused` was taken back.
    pub fn taken_back(&self, in_use: Option<u64>, unused: u64, why: String) {
        self.now().version = in_use;
        self.not_used(FleetState::TakenBack, Some(unused), why);
    }

    /// A newer version than the one in use cannot be: which one, if that is known.
    pub(super) fn refused(&self, unused: Option<u64>, why: String) {
        self.not_used(FleetState::Refused, unused, why);
    }

    /// A version on trial waits for a restart, and the one before is in use.
    pub(super) fn refused_on_trial(&self, trial: &Trial, why: String) {
        self.now().version = Some(trial.before);
        self.refused(Some(trial.version), why);
    }

    /// The same, with what became of it.
    pub(super) fn not_used(&self, state: FleetState, unused: Option<u64>, why: String) {
        let mut now = self.now();
        (now.state, now.why, now.unused) = (state, Some(why), unused);
    }

    /// True if the gateway does not start with this version.
    pub(super) fn is_unusable(&self, version: u64) -> bool {
        self.now().unusable == Some(version)
    }

    /// The version that is in use, and what it is.
    pub(super) fn version(&self, version: u64, state: FleetState) {
        let mut now = self.now();
        (now.version, now.state, now.why, now.unused) = (Some(version), state, None, None);
    }

    /// The agent has ended, though its gateway runs.
    pub fn ended(&self, why: &str) {
        let mut now = self.now();
        (now.state, now.why) = (FleetState::AgentEnded, Some(why.to_owned()));
    }

    /// For the operator, without verdicts; nothing while a version is on trial.
    pub(super) fn said(&self) -> Option<Said> {
        let now = self.now();
        let outcome = match now.state {
            FleetState::Waits => Outcome::Waits,
            FleetState::Confirmed => Outcome::Confirmed,
            FleetState::TakenBack => Outcome::TakenBack,
            FleetState::Refused => Outcome::Refused,
            FleetState::OnTrial | FleetState::AgentEnded | FleetState::Unknown => return None,
        };
        let why = now.why.clone().unwrap_or_default();
        Some(Said { in_use: now.version, outcome, why, unused: now.unused, parts: None })
    }

    /// For the report.
    pub fn report(&self) -> FleetReport {
        let now = self.now();
        FleetReport {
            version: now.version,
            state: now.state,
            why: now.why.clone(),
            unused: now.unused,
            file: now.file.as_ref().map(|file| file.display().to_string()),
            directory_answered_seconds: now.answered.map(|answered| answered.elapsed().as_secs()),
            directory_away: now.away.clone(),
        }
    }
}
