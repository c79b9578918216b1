//! A cell: `fieldbus` in a link's report.

use std::time::Duration;

use fieldbus::Histogram;
use fieldbus::relation::Stream;
use serde::{Deserialize, Serialize};

use super::Counters;
use super::recent::{FailingSc, RecentTraffic};
use super::table::Group;
use super::verdict::{Finding, Level, State, Verdict, worst};

/// A cell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CellReport {
    /// Its name.
    pub name: String,
    /// Made of what was verified lately.
    #[serde(default)]
    pub verdict: Verdict,
    /// `encrypt` or `authenticate`.
    pub protect: String,
    /// The suite's name.
    pub suite: String,
    /// Place of protection and verification: `kernel`, `user space` or `nowhere: ` and why.
    #[serde(default)]
    pub path: String,
    /// Treatment of the rest: `link` or `drop`.
    pub rest: String,
    /// The master key's fingerprint, as `keygen` printed it.
    pub master_key: String,
    /// That of the second master key, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_master_key: Option<String>,
    /// The EtherType of protected frames.
    pub ethertype: String,
    /// The upper bounds of the buckets of all histograms, in nanoseconds; the last bucket has none.
    pub bounds_ns: Vec<u64>,
    /// Counters of the rest, and of HELLOs on their way.
    pub counters: Counters,
    /// Counters of the handshakes.
    pub hello: Counters,
    /// Their counters of the last five to ten seconds.
    #[serde(default)]
    pub hello_lately: Counters,
    /// The relations, in the order of the configuration; none if the worker does not answer.
    pub relations: Vec<RelationReport>,
    /// Faults of the kernel path: the number of relations, the duty that the kernel does not do, why, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_faults: Option<String>,
}

/// A relation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RelationReport {
    /// The station behind this gateway.
    pub own: String,
    /// The FrameID that it sends; of another protocol than PROFINET, its name and the identification, such as `goose 0x0003`; the group
    /// behind it, if the frames go to one; or `nothing`.
    pub sends: String,
    /// The station behind the other gateway.
    pub peer: String,
    /// Frames of that one, alike.
    pub receives: String,
    /// Their cycle, in nanoseconds.
    pub cycle_ns: u64,
    /// The time without a frame after which a station gives up, as it is configured.
    pub watchdog_ns: u64,
    /// That at which there is an alarm.
    pub alarm_ns: u64,
    /// `protect` or `shadow`.
    pub mode: String,
    /// `no session`, `entered` (with the other gateway, and no frame was verified in it yet) or `running`.
    pub state: String,
    /// The fingerprint of the master key that its session rests on; none without a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master_key: Option<String>,
    /// The key that protects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_key: Option<CellKeyReport>,
    /// The key of the newest verified frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_key: Option<CellKeyReport>,
    /// For how long no verified frame has come; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ns: Option<u64>,
    /// The longest time between two verified frames.
    pub worst_gap_ns: u64,
    /// Times of the own station's frames inside this gateway.
    pub residence_outward: HistogramReport,
    /// The same for frames of its peer.
    pub residence_inward: HistogramReport,
    /// Deviations of the time between two verified frames from the cycle.
    pub jitter: HistogramReport,
    /// Frames of the own station.
    pub transmit: Counters,
    /// Frames of its peer.
    pub receive: Counters,
}

/// A key of a relation in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CellKeyReport {
    /// The gateway's number of the session, since its start.
    #[serde(default)]
    pub session: u32,
    /// Its name on the wire.
    pub key_id: u8,
    /// Number of the epoch in its session, from 0.
    pub epoch: u64,
    /// The Seq of the last frame under it; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u32>,
}

/// Times, by buckets.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HistogramReport {
    /// Their number.
    pub count: u64,
    /// All of them together.
    pub sum_ns: u64,
    /// The longest.
    pub worst_ns: u64,
    /// Number in each bucket: see [`CellReport::bounds_ns`].
    pub buckets: Vec<u64>,
}

/// In nanoseconds.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl HistogramReport {
    /// The figures of a histogram.
    pub fn new(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            sum_ns: nanoseconds(histogram.sum()),
            worst_ns: nanoseconds(histogram.worst()),
            buckets: histogram.counts().to_vec(),
        }
    }

    /// Adds another one's times, of the same buckets.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.worst_ns = self.worst_ns.max(other.worst_ns);
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, other)| *own += other);
    }

    /// Takes off what was there before. The longest time stays: what it was since then is not known.
    pub fn take_off(&mut self, before: &Self) {
        self.count = self.count.saturating_sub(before.count);
        self.sum_ns = self.sum_ns.saturating_sub(before.sum_ns);
        self.buckets
            .iter_mut()
            .zip(&before.buckets)
            .for_each(|(own, before)| *own = own.saturating_sub(*before));
    }

    /// A time that so many of a thousand do not exceed: the bound of a bucket, or the longest time if that is less.
    pub fn at_permille(&self, permille: u64, bounds_ns: &[u64]) -> u64 {
        let rank = self.count.saturating_mul(permille).div_ceil(1000);
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return bounds_ns.get(at).map_or(self.worst_ns, |bound| self.worst_ns.min(*bound));
            }
        }
        self.worst_ns
    }
}

impl RelationReport {
    /// Whether its frames pass in clear.
    pub fn is_shadowed(&self) -> bool {
        self.mode == "shadow"
    }

    /// Whether its frames can pass protected.
    pub fn has_session(&self) -> bool {
        self.state != "no session"
    }

    /// Whether it protects frames of its own station, and none of its peer was ever verified in this session, though the peer sends.
    pub fn is_unanswered(&self) -> bool {
        self.has_session()
            && self.silent_ns.is_none()
            && self.receives != Stream::NOTHING
            && self.transmit.value("OutPktsProtected") > 0
    }

    /// As a person finds it in the configuration.
    pub fn inward_name(&self) -> String {
        format!("{} from {}", self.receives, self.peer)
    }

    /// Whether its peer's frames have stopped.
    pub fn is_silent(&self) -> bool {
        self.silent_ns.is_some_and(|silent| silent >= self.watchdog_ns)
    }
}

/// Counter of frames in clear whose verified twin came behind.
pub const CLEAR_TWIN: &str = "InPktsClearTwin";

impl CellReport {
    /// Whether frames are protected and verified in the kernel; none if nobody has looked.
    pub fn in_kernel(&self) -> Option<bool> {
        (!self.path.is_empty()).then(|| self.path.starts_with("kernel"))
    }

    /// The counters, with the group that tells what they mean, and the words for where they count.
    pub fn groups(&self) -> Vec<(Group, String, &Counters)> {
        let mut groups = vec![
            (Group::Cell, format!("fieldbus {}", self.name), &self.counters),
            (Group::Hello, format!("handshakes of {}", self.name), &self.hello),
        ];
        for relation in &self.relations {
            let RelationReport { own, sends, peer, receives, .. } = relation;
            groups.push((Group::RelationTransmit, format!("{sends} from {own}"), &relation.transmit));
            groups.push((Group::RelationReceive, format!("{receives} from {peer}"), &relation.receive));
        }
        groups
    }

    /// The verdict on it alone.
    pub fn judged(&self, recent: &RecentTraffic) -> Verdict {
        worst(self.findings(recent), self.well()).0
    }

    /// Nothing is wrong: whether something shows that all is well.
    pub(crate) fn well(&self) -> Finding {
        let latest = self.relations.iter().filter_map(|relation| relation.silent_ns).min();
        match latest {
            Some(nanoseconds) => {
                let text = format!(
                    "All relations have a session with the other gateway; the last verified frame came {} ms ago.",
                    nanoseconds / 1_000_000
                );
                Finding::new(State::Protecting, Level::Good, text)
            }
            None => {
                let text = "All relations have a session with the other gateway; no cyclic frame has come or gone yet.";
                Finding::new(State::Idle, Level::Idle, text)
            }
        }
    }

    /// Its concerns.
    pub(crate) fn findings(&self, recent: &RecentTraffic) -> Vec<Finding> {
        let Self { name, relations, .. } = self;
        let mut findings = Vec::new();
        let count =
            |of: fn(&RelationReport) -> bool| relations.iter().filter(|relation| of(relation)).count();
        let all = relations.len();
        let shadowed = count(RelationReport::is_shadowed);
        if shadowed > 0 {
            findings.push(Finding::alarm(
                State::SendsInClear,
                format!(
                    "Fieldbus {name} is in shadow mode: the cyclic frames of {shadowed} of {all} relations pass in clear."
                ),
            ));
        }
        let lacking = count(|relation| !relation.has_session());
        if lacking > 0 {
            let passes = if lacking == shadowed && all == shadowed {
                ""
            } else {
                ", so their cyclic frames do not pass"
            };
            findings.push(Finding::alarm(
                State::NoSession,
                format!(
                    "Fieldbus {name}: {lacking} of {all} relations have no session with the other gateway{passes}{}.",
                    self.why()
                ),
            ));
        }
        let others = self.under_other_key();
        if others > 0 {
            findings.push(Finding::attention(
                State::FallbackKey,
                format!(
                    "Fieldbus {name}: the sessions of {others} of {all} relations do not rest on the preferred master key, {}: the other gateway lacks it, or prefers another. Put it first there, and reload.",
                    self.master_key
                ),
            ));
        }
        let silent = count(|relation| relation.has_session() && relation.is_silent());
        let misfit = self.misfit().filter(|_| lacking == 0);
        if let Some(why) = &misfit {
            findings.push(Finding::alarm(
                State::KeysDiffer,
                format!(
                    "Fieldbus {name}: no verified frame comes, and the other gateway asks for other sessions than it has here: {why}."
                ),
            ));
        }
        if silent > 0 && misfit.is_none() {
            findings.push(Finding::attention(
                State::Silent,
                format!(
                    "Fieldbus {name}: {silent} of {all} relations have had no verified frame for longer than their watchdog."
                ),
            ));
        }
        let unanswered = count(RelationReport::is_unanswered);
        if unanswered > 0 && misfit.is_none() {
            findings.push(Finding::attention(
                State::PeerAbsent,
                format!(
                    "Fieldbus {name}: {unanswered} of {all} relations send, but no verified frame of the other station has come since their session began. Check whether its machine sends, and whether the network passes EtherType {} both ways.",
                    self.ethertype
                ),
            ));
        }
        findings.extend(recent.failing.iter().map(|failing| self.fails(failing, recent)));
        if let Some(frames) = recent.clear {
            let level = if recent.valid.is_none() { Level::Alarm } else { Level::Attention };
            let text = format!(
                "Fieldbus {name}: cyclic frames come in clear, {frames} since the last verified one, and are discarded: the other gateway is not on their path, or has mode = \"shadow\"."
            );
            findings.push(Finding::new(State::ClearFrames, level, text));
        }
        if let Some((_, twins)) = recent.discards.iter().find(|(name, _)| name == CLEAR_TWIN) {
            let text = format!(
                "Fieldbus {name}: the other gateway is in shadow mode: its cyclic frames come in clear beside protected ones, {twins} in the last ten seconds, and are discarded (InPktsClearRefused, InPktsClearTwin). Set mode = \"protect\" there, too."
            );
            findings.push(Finding::attention(State::ClearFrames, text));
        }
        findings
    }

    /// Number of relations whose sessions rest on another master key than the preferred one.
    pub fn under_other_key(&self) -> usize {
        let is_other =
            |of: &&RelationReport| of.master_key.as_ref().is_some_and(|key| *key != self.master_key);
        self.relations.iter().filter(is_other).count()
    }

    /// All frames of a relation are refused.
    fn fails(
        &self,
        FailingSc { sci: relation, not_valid, late }: &FailingSc,
        recent: &RecentTraffic,
    ) -> Finding {
        let name = &self.name;
        let level = if recent.valid.is_none() { Level::Alarm } else { Level::Attention };
        match not_valid {
            Some(frames) => Finding::new(
                State::KeysDiffer,
                level,
                format!(
                    "Fieldbus {name}: every frame {relation} fails its ICV, {frames} since the last verified one: somebody forges frames, and the station's own do not come. Find out who else sends in this network."
                ),
            ),
            None => Finding::new(
                State::LateFrames,
                level,
                format!(
                    "Fieldbus {name}: every frame {relation} is late, {} since the last verified one: somebody replays frames, and new ones do not come.",
                    late.unwrap_or_default()
                ),
            ),
        }
    }

    /// Why the other gateway's HELLOs do not fit, if some did not, of late, and a relation has no session, or frames are missed and no verified
    /// one comes in any: then the other end has lost the sessions. What a stranger sent at some time since the start, or sends while frames
    /// come, is no reason to compare keys.
    pub fn misfit(&self) -> Option<String> {
        let value = |name| self.hello_lately.value(name);
        let hears = |relation: &RelationReport| relation.silent_ns.is_some() && !relation.is_silent();
        let misses = |relation: &RelationReport| relation.is_silent() || relation.is_unanswered();
        let mut relations = self.relations.iter();
        let is_deaf = relations.clone().any(misses) && !relations.clone().any(hears);
        if relations.all(RelationReport::has_session) && !is_deaf {
            return None;
        }
        if value("InHelloNotValid") > 0 {
            return Some(format!(
                "HELLOs do not fit the master key; compare its fingerprint, {}, with that of the other gateway",
                self.master_key
            ));
        }
        (value("InHelloOtherMode") > 0)
            .then(|| "the other gateway has another protect or suite; set the same at both".to_owned())
    }

    /// Reason for the missing session, as HELLOs show it.
    fn why(&self) -> String {
        if let Some(why) = self.kernel_faults.clone().or_else(|| self.misfit()) {
            return format!(": {why}");
        }
        if self.hello_lately.value("InHello") == 0 {
            return format!(
                ": no HELLO has come lately; check whether the other gateway runs, and whether the network passes the EtherType; and compare the master key's fingerprint, {}, with that of the other gateway, which asks for nothing while it has sessions under another key",
                self.master_key
            );
        }
        String::new()
    }
}

#[cfg(test)]
mod tests;
