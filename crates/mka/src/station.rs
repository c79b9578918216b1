//! Parts of a KaY that all others use: settings, the present moment, randomness, and what the KaY tells.

use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};
use suite::mka::Drbg;
use wire::mkpdu::{Capability, SystemName};
use wire::{Instant, Mi, Sci};

use crate::counters::KayCounters;
use crate::election::Candidate;
use crate::event::{Event, Outbox};
use crate::names::Names;
use crate::reason::Reason;
use crate::settings::Settings;
use crate::status::ChangeStatus;

/// This station, whatever the CAK.
pub(crate) struct Station {
    settings: Settings,
    /// Latest known moment.
    now: Instant,
    drbg: Drbg,
    out: Outbox,
    counters: KayCounters,
    names: Names,
}

/// State of a station for the next program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PassedStation {
    settings: Settings,
    now: Instant,
    /// Random values that were drawn.
    drawn: u64,
    changes: VecDeque<ChangeStatus>,
    /// In the order of [`KayCounters::values`].
    counters: Vec<u64>,
    names: Names,
}

impl fmt::Debug for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Output, counters and names decide nothing. The moment decides until the next input alone, by `Kay::poll_timeout`.
        let Self { settings, now: _, drbg: _, out: _, counters: _, names: _ } = self;
        f.debug_struct("Station").field("settings", settings).finish_non_exhaustive()
    }
}

impl Station {
    pub(crate) fn new(now: Instant, settings: Settings, seed: &[u8; 32]) -> Self {
        let (out, counters) = (Outbox::default(), KayCounters::default());
        Self { settings, now, drbg: Drbg::new(seed), out, counters, names: Names::default() }
    }

    /// None while an event waits.
    pub(crate) fn pass_on(&self) -> Option<PassedStation> {
        let Self { settings, now, drbg, out, counters, names } = self;
        Some(PassedStation {
            settings: settings.clone(),
            now: *now,
            drawn: drbg.drawn(),
            changes: out.pass_on()?,
            counters: counters.values().to_vec(),
            names: names.clone(),
        })
    }

    /// Goes on with other random values. None if there are other counters.
    pub(crate) fn go_on(now: Instant, passed: PassedStation, seed: &[u8; 32]) -> Option<Self> {
        let PassedStation { settings, now: before, drawn, changes, counters, names } = passed;
        Some(Self {
            settings,
            now: now.max(before),
            drbg: Drbg::new(seed).behind(drawn),
            out: Outbox::go_on(changes),
            counters: KayCounters::from_values(counters.try_into().ok()?),
            names,
        })
    }

    pub(crate) const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Applies other settings, and returns the previous ones.
    pub(crate) const fn configure(&mut self, settings: Settings) -> Settings {
        core::mem::replace(&mut self.settings, settings)
    }

    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// A clock that went back counts as one that stands still.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Random octets.
    pub(crate) fn fill(&mut self, octets: &mut [u8]) {
        self.drbg.fill(octets);
    }

    pub(crate) fn draw_mi(&mut self) -> Mi {
        let mut octets = [0; 12];
        self.fill(&mut octets);
        Mi(octets)
    }

    /// Own candidacy, before what a CAK's members hear is known.
    pub(crate) fn candidate(&self) -> Candidate {
        Candidate {
            priority: self.settings.priority,
            sci: self.settings.sci,
            macsec: self.settings.capability > Capability::None,
            yields: false,
        }
    }

    /// Requests something from the SecY.
    pub(crate) fn request(&mut self, event: Event) {
        self.out.event(event);
    }

    /// Tells operators.
    pub(crate) fn notify(&mut self, reason: Reason) {
        let words = self.names.within(&reason).to_string();
        self.out.notify(ChangeStatus { at: self.now, reason, words });
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.out.poll()
    }

    /// Recent changes.
    pub(crate) fn changes(&self) -> Vec<ChangeStatus> {
        self.out.changes()
    }

    pub(crate) const fn names(&self) -> &Names {
        &self.names
    }

    /// Records what a station that hears us calls itself.
    pub(crate) fn record_name(&mut self, sci: Sci, name: Option<SystemName>) {
        if let Some((before, now)) = self.names.record(self.now, sci, name) {
            self.notify(Reason::Renamed { sci, before, now });
        }
    }

    pub(crate) const fn counters(&self) -> &KayCounters {
        &self.counters
    }

    pub(crate) fn count(&mut self, add: impl FnOnce(&mut KayCounters)) {
        add(&mut self.counters);
    }
}
