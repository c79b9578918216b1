//! The fleet at one moment: gateways with their states and verdicts, connections between them, and plants. A document of JSON.
//!
//! Made of the inventory's [`Layout`] and of where gateways stand by their heartbeats. It says nothing good that was not heard lately: what a
//! gateway said before it fell silent counts as unknown. Before that is known, the others of its links say that they do not hear it.

mod missing;

use std::collections::BTreeMap;

use fleet::{Outcome, PartKind, PartLevel, Standing};
use inventory::{Connection, ConnectionKind, Layout, Placed};
use serde::{Deserialize, Serialize};
use suite::identity::PublicKey;

use missing::{Missing, Unheard, unheard};

/// A fleet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Overview {
    /// The operator's public key, in hexadecimal digits.
    pub fleet: String,
    /// Time of its making, in seconds since 1970.
    pub time: u64,
    /// The verdict on all of it: the worst one.
    pub verdict: Verdict,
    /// The gateways, by name.
    pub gateways: Vec<GatewayView>,
    /// Connections of the gateways, by name.
    pub connections: Vec<ConnectionView>,
    /// The plants, by name. Gateways of no plant are in none.
    pub plants: Vec<PlantView>,
}

/// A gateway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GatewayView {
    /// Its name.
    pub name: String,
    /// Its plant, if the inventory says so.
    pub plant: Option<String>,
    /// Its state towards the newest version.
    pub state: State,
    /// The worst of its state and of its parts.
    pub verdict: Verdict,
    /// Cause of a verdict that is not good; empty if it is good.
    pub cause: String,
    /// The cure; empty if nothing has to be done.
    pub cure: String,
    /// Time of its last heartbeat, in seconds since 1970.
    pub heard: Option<u64>,
    /// The version that it has in use.
    pub in_use: Option<u64>,
    /// The version that is published for it.
    pub published: Option<u64>,
    /// Its links, sites and cells, the worst first.
    pub parts: Vec<PartView>,
    /// Number of parts left out, since the worst alone are told.
    pub parts_left_out: u64,
    /// True if the controller can ask it for its own status.
    pub page: bool,
}

/// A link, site or cell of a gateway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartView {
    /// `link`, `site` or `cell`.
    pub kind: String,
    /// Its name in the gateway's configuration.
    pub name: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// Its state, in a word.
    pub words: String,
}

/// A link, site, cell or tunnel of several gateways.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConnectionView {
    /// `link`, `group`, `fieldbus` or `tunnel`.
    pub kind: String,
    /// Its name in the inventory.
    pub name: String,
    /// Its gateways, by name.
    pub gateways: Vec<String>,
    /// The worst verdict of its ends.
    pub verdict: Verdict,
    /// The end that says so, and its state in a word; empty if all is well.
    pub words: String,
}

/// A plant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlantView {
    /// Its name.
    pub name: String,
    /// Number of its gateways.
    pub gateways: u64,
    /// The worst verdict of them.
    pub verdict: Verdict,
}

/// Severity. The worst one is the greatest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Valid frames come; of a gateway: it has confirmed what is published, too.
    Good,
    /// Nothing is wrong, and nothing shows that all is well.
    Idle,
    /// Nothing was heard of it lately.
    Unknown,
    /// Somebody should look.
    Attention,
    /// Frames leave in clear, or do not pass.
    Alarm,
}

/// State of a gateway towards the newest version. The words are those of `fleet status --format prometheus`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has confirmed what is published.
    Confirmed,
    /// It has not yet said that the published version is in use.
    Waiting,
    /// It took the newest version back.
    #[serde(rename = "taken back")]
    TakenBack,
    /// It refused the newest version.
    Refused,
    /// It was not heard for a quarter of an hour.
    Stale,
    /// It was never heard.
    #[serde(rename = "never heard")]
    NeverHeard,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Confirmed, Self::Waiting, Self::TakenBack, Self::Refused, Self::Stale, Self::NeverHeard];

    /// The state of a gateway that stands so.
    pub fn of(standing: &Standing, now: u64) -> Self {
        let Some(heartbeat) = &standing.heartbeat else { return Self::NeverHeard };
        match heartbeat.outcome {
            _ if standing.stale(now).is_some() => Self::Stale,
            // Its word about the version before says nothing of the published one.
            Outcome::TakenBack | Outcome::Refused if !standing.has_judged() => Self::Waiting,
            Outcome::TakenBack => Self::TakenBack,
            Outcome::Refused => Self::Refused,
            Outcome::Confirmed if standing.is_confirmed() => Self::Confirmed,
            Outcome::Confirmed | Outcome::Waits => Self::Waiting,
        }
    }

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Waiting => "waiting",
            Self::TakenBack => "taken back",
            Self::Refused => "refused",
            Self::Stale => "stale",
            Self::NeverHeard => "never heard",
        }
    }
}

impl Verdict {
    /// All of them, the worst last.
    pub const ALL: [Self; 5] = [Self::Good, Self::Idle, Self::Unknown, Self::Attention, Self::Alarm];
}

impl From<PartLevel> for Verdict {
    fn from(level: PartLevel) -> Self {
        match level {
            PartLevel::Good => Self::Good,
            PartLevel::Idle => Self::Idle,
            PartLevel::Attention => Self::Attention,
            PartLevel::Alarm => Self::Alarm,
        }
    }
}

impl Overview {
    /// The gateways of `layout` as they stand at `now`, in seconds since 1970. One without a standing was never heard: the operator has no
    /// identity of it.
    pub fn new(fleet: PublicKey, layout: &Layout, standings: &BTreeMap<String, Standing>, now: u64) -> Self {
        let missing = Missing::new(layout, standings, now);
        let view = |(name, placed): (&String, &Placed)| {
            GatewayView::new(name, placed, standings.get(name.as_str()), missing.of_gateway(name), now)
        };
        let gateways: Vec<_> = layout.gateways.iter().map(view).collect();
        let by_name: BTreeMap<_, _> = gateways.iter().map(|one| (one.name.as_str(), one)).collect();
        let connections = layout.connections.iter();
        let connections =
            connections.map(|one| ConnectionView::new(one, &by_name, missing.of_connection(&one.name)));
        let connections = connections.collect();
        let mut plants: BTreeMap<&str, PlantView> = BTreeMap::new();
        for one in &gateways {
            let Some(name) = one.plant.as_deref() else { continue };
            let new = || PlantView { name: name.to_owned(), gateways: 0, verdict: Verdict::Good };
            let plant = plants.entry(name).or_insert_with(new);
            plant.gateways += 1;
            plant.verdict = plant.verdict.max(one.verdict);
        }
        Self {
            fleet: fleet.to_string(),
            time: now,
            verdict: gateways.iter().map(|one| one.verdict).max().unwrap_or(Verdict::Good),
            plants: plants.into_values().collect(),
            gateways,
            connections,
        }
    }
}

/// Cause and cure of a gateway that is not well.
struct Trouble {
    verdict: Verdict,
    cause: String,
    cure: String,
}

impl Trouble {
    fn new(verdict: Verdict, cause: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { verdict, cause: cause.into(), cure: cure.into() }
    }
}

impl GatewayView {
    fn new(
        name: &str,
        placed: &Placed,
        standing: Option<&Standing>,
        unheard: Option<&str>,
        now: u64,
    ) -> Self {
        let heartbeat = standing.and_then(|standing| standing.heartbeat.as_ref());
        let is_heard = standing.is_some_and(|standing| standing.is_heard(now));
        let told = heartbeat.and_then(|heartbeat| heartbeat.parts.as_ref());
        let parts: Vec<_> = told.iter().flat_map(|parts| parts.told()).collect();
        let parts: Vec<_> = parts.into_iter().map(|part| PartView::new(part, is_heard)).collect();
        let mut view = Self {
            name: name.to_owned(),
            plant: placed.plant.clone(),
            state: standing.map_or(State::NeverHeard, |standing| State::of(standing, now)),
            verdict: Verdict::Good,
            cause: String::new(),
            cure: String::new(),
            heard: heartbeat.map(|heartbeat| heartbeat.time),
            in_use: heartbeat.and_then(|heartbeat| heartbeat.in_use),
            published: standing.and_then(|standing| standing.published),
            parts,
            parts_left_out: told.map_or(0, fleet::Parts::left_out),
            page: placed.page().is_some(),
        };
        let of_peers = unheard.map(|cause| view.of_its_peers(cause));
        // Its own word is older than that of those which do not hear it any more.
        let of_parts = match (view.of_its_parts(), of_peers) {
            (Some(part), Some(peers)) if part.verdict < peers.verdict => Some(peers),
            (part, peers) => part.or(peers),
        };
        let of_version = view.of_its_version(standing);
        let verdict = of_version.iter().chain(&of_parts).map(|trouble| trouble.verdict).max();
        // The first of equal ones: what stands in the way of a version is known better than what follows from it. A change that did not stay is
        // what somebody did last: it comes before a part that is worse.
        let is_first = view.state == State::TakenBack;
        let told = match (of_version, of_parts) {
            (Some(version), Some(part)) if part.verdict > version.verdict && !is_first => Some(part),
            (version, part) => version.or(part),
        };
        if let (Some(verdict), Some(Trouble { cause, cure, .. })) = (verdict, told) {
            (view.verdict, view.cause, view.cure) = (verdict, cause, cure);
        }
        view
    }

    /// Trouble with its heartbeats and its version.
    fn of_its_version(&self, standing: Option<&Standing>) -> Option<Trouble> {
        let name = &self.name;
        let (attention, unknown) = (Verdict::Attention, Verdict::Unknown);
        let Some(standing) = standing else {
            let cure = format!(
                "take the box into the fleet: frameward fleet approve {name}; if it is, bring its identity here"
            );
            return Some(Trouble::new(unknown, format!("no identity of {name} is known here"), cure));
        };
        if let Some(refusal) = &standing.refusal {
            let cure =
                "find out who writes the directory; if a box was replaced, take it into the fleet anew";
            return Some(Trouble::new(attention, refusal.to_string(), cure));
        }
        if let Some(hidden) = standing.hidden {
            let cause = format!(
                "version {hidden} was published before: somebody put an old record back, or removed it"
            );
            return Some(Trouble::new(attention, cause, "if it was you, apply again with --anew"));
        }
        if standing.is_withheld {
            let cause = "the directory shows no heartbeat of it any more: somebody removed it, or put another directory there";
            return Some(Trouble::new(attention, cause, "find out who writes the directory"));
        }
        let why = standing.heartbeat.as_ref().map_or("", |heartbeat| heartbeat.why.as_str());
        let published = self.published.map_or_else(
            || "nothing is published for its identity".to_owned(),
            |version| format!("version {version} is published"),
        );
        match self.state {
            // Nobody verified anything: its word is about a version alone.
            State::Confirmed if standing.heartbeat.as_ref().is_some_and(|beat| beat.parts.is_none()) => {
                let cause = "it tells no verdicts: no gateway runs beside its agent, or it does not answer, or is of an earlier release";
                Some(Trouble::new(unknown, cause, format!("look there: frameward status {name}")))
            }
            State::Confirmed => None,
            State::NeverHeard => {
                let cure = "see that the box runs, has [fleet] and reaches the directory";
                Some(Trouble::new(unknown, format!("{published}; it was never heard"), cure))
            }
            State::Stale => {
                let cure =
                    "see that the box runs and reaches the directory: its links may be up all the same";
                Some(Trouble::new(attention, "it says nothing any more", cure))
            }
            State::TakenBack => {
                let cure = "put right what the new version changes there, and apply again; the same files with: frameward fleet apply --anew";
                Some(Trouble::new(attention, format!("{published}; taken back: {why}"), cure))
            }
            State::Refused => {
                let cure =
                    "do what its words say; if they name no cure, put right what it refuses, and apply again";
                Some(Trouble::new(attention, format!("{published}; refused: {why}"), cure))
            }
            State::Waiting if self.published.is_none() => {
                Some(Trouble::new(attention, published, "frameward fleet apply"))
            }
            State::Waiting => {
                let cure = "wait until its trial is over; if it stays so, look at the log of the box";
                Some(Trouble::new(Verdict::Idle, format!("{published}; it has not confirmed it yet"), cure))
            }
        }
    }

    /// The worst of its parts, if that is not good.
    fn of_its_parts(&self) -> Option<Trouble> {
        let part = self.parts.iter().find(|part| part.verdict != Verdict::Good)?;
        let cure = match part.verdict {
            Verdict::Attention | Verdict::Alarm => format!(
                "look at {}: frameward status {}{}",
                part.name,
                self.name,
                if self.page { " there, or its page here" } else { " there" }
            ),
            Verdict::Good | Verdict::Idle | Verdict::Unknown => String::new(),
        };
        Some(Trouble::new(part.verdict, format!("{} {}: {}", part.kind, part.name, part.words), cure))
    }

    /// Others of a connection do not hear it.
    fn of_its_peers(&self, cause: &str) -> Trouble {
        let cure = format!(
            "see that {} runs, and look at its protected port and cable: frameward status {} there",
            self.name, self.name
        );
        Trouble::new(Verdict::Attention, cause, cure)
    }

    /// The part that a connection is there.
    fn part(&self, kind: PartKind, name: &str) -> Option<&PartView> {
        self.parts.iter().find(|part| part.kind == kind.word() && part.name == name)
    }
}

impl PartView {
    fn new(part: &fleet::Part, is_heard: bool) -> Self {
        let (kind, name) = (part.kind.word().to_owned(), part.name.clone());
        match is_heard {
            true => Self { kind, name, verdict: part.level.into(), words: part.state.clone() },
            false => Self {
                kind,
                name,
                verdict: Verdict::Unknown,
                words: format!("{} when heard last", part.state),
            },
        }
    }
}

impl ConnectionView {
    fn new(of: &Connection, gateways: &BTreeMap<&str, &GatewayView>, missing: &[Unheard<'_>]) -> Self {
        let kind = match of.kind {
            ConnectionKind::Link | ConnectionKind::Group => PartKind::Link,
            ConnectionKind::Fieldbus => PartKind::Cell,
            ConnectionKind::Tunnel => PartKind::Site,
        };
        let end = |(gateway, name): (&String, &String)| {
            let view = gateways.get(gateway.as_str());
            match view.and_then(|view| view.part(kind, name)) {
                Some(part) => (part.verdict, format!("{gateway}: {}", part.words)),
                None => (Verdict::Unknown, format!("{gateway}: says nothing of it")),
            }
        };
        // Before an end that is no worse: it says which one it is.
        let missing =
            missing.iter().map(|one| (Verdict::Attention, format!("{}: {}", one.gateway, unheard(&one.by))));
        let ends = missing.chain(of.ends.iter().map(end));
        let worst = ends.reduce(|worst, other| if other.0 > worst.0 { other } else { worst });
        let (verdict, words) = worst.unwrap_or((Verdict::Unknown, "no gateway has it".to_owned()));
        Self {
            kind: of.kind.word().to_owned(),
            name: of.name.clone(),
            gateways: of.ends.keys().cloned().collect(),
            verdict,
            words: if verdict == Verdict::Good { String::new() } else { words },
        }
    }
}

#[cfg(test)]
mod tests;
