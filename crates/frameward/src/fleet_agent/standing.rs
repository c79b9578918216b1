//! Parts of a gateway that stand: a site that has lost one of its peers still has a good word for the others.
//!
//! | part | stands if |
//! |---|---|
//! | link, site | its verdict says that it protects. Of a link also whatever its frames say, if keys are agreed on with a live peer; and if it misses an answer, or frames come in clear, and a valid one came during the trial: one frame that nobody answers, and a stranger's, take no version back |
//! | peer of a site | the management channel to it is there |
//! | member of a link's group | it hears this box. Known by its SCI, or by its name: either outlasts a change |
//! | relation of a cell | it has a session, and its frames come. Of one in shadow mode the session alone |
//!
//! Parts stand beside their link or site, whose verdict may be bad for another reason, or good for another part.

use std::fmt;

use config::Config;
use config::fieldbus::CellRelation;
use report::cell::RelationReport;
use report::verdict::State;
use report::{GatewayReport, LinkReport};

use super::PROOF;

/// Parts that are named when they have fallen. More are counted.
const NAMED: usize = 3;

/// A part that stands, or shall.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// A link.
    Link(String),
    /// A site.
    Site(String),
    /// A site's peer.
    Peer { site: String, peer: String },
    /// A member of a link's group. Its name, if no other member has it.
    Member { link: String, sci: String, name: Option<String> },
    /// A relation of a link's cell, by its ends.
    Relation { link: String, ends: String },
    /// A link or a site: an earlier release wrote a trial down without saying which.
    Named(String),
}

impl Part {
    /// Links and sites of a configuration.
    fn configured(config: &Config) -> Vec<Self> {
        let links = config.links.iter().map(|link| Self::Link(link.name.clone()));
        let sites = config.sites.iter().map(|site| Self::Site(site.name.clone()));
        links.chain(sites).collect()
    }

    /// All that stands.
    pub(super) fn standing(report: &GatewayReport) -> Vec<Self> {
        let mut parts = Vec::new();
        for link in &report.links {
            let name = || link.name.clone();
            parts.extend(link_stands(link).then(|| Self::Link(name())));
            let live = || link.mka.iter().flat_map(|mka| &mka.members).filter(|member| member.live);
            parts.extend(live().map(|member| {
                let is_only =
                    |name: &&String| live().filter(|other| other.name.as_ref() == Some(*name)).count() == 1;
                let known = member.name.as_ref().filter(is_only);
                Self::Member { link: name(), sci: member.sci.clone(), name: known.cloned() }
            }));
            let relations = link.fieldbus.iter().flat_map(|cell| &cell.relations);
            let passes = |relation: &&RelationReport| {
                let comes = !relation.is_silent() && !relation.is_unanswered();
                relation.has_session() && (comes || relation.is_shadowed())
            };
            parts.extend(relations.filter(passes).map(|relation| {
                let RelationReport { own, sends, peer, receives, .. } = relation;
                Self::Relation { link: name(), ends: ends(&[own, sends, peer, receives]) }
            }));
        }
        for site in &report.sites {
            parts.extend(site.verdict.protecting.then(|| Self::Site(site.name.clone())));
            let connected = site.peers.iter().filter(|peer| peer.state == "connected");
            parts.extend(
                connected.map(|peer| Self::Peer { site: site.name.clone(), peer: peer.name.clone() }),
            );
        }
        parts
    }

    /// Whether it is among what stands.
    pub(super) fn is_among(&self, standing: &[Self]) -> bool {
        standing.iter().any(|part| match (self, part) {
            (Self::Named(name), Self::Link(other) | Self::Site(other)) => name == other,
            (Self::Member { link, sci, name }, Self::Member { link: other, sci: its, name: called }) => {
                link == other && (sci == its || (name.is_some() && name == called))
            }
            _ => self == part,
        })
    }

    /// Whether a configuration has it. `stood`: all that did before.
    pub(super) fn is_of(&self, config: &Config, stood: &[Self]) -> bool {
        let link = |name: &str| config.links.iter().find(|link| link.name == name);
        let site = |name: &str| config.sites.iter().find(|site| site.name == name);
        // A plain peer has no channel.
        let has_peer = |name: &str, peer: &str| {
            let is_it = |other: &config::SitePeer| other.name == peer && other.public_key.is_some();
            site(name).is_some_and(|site| site.peers.iter().any(is_it))
        };
        match self {
            Self::Link(name) => link(name).is_some(),
            Self::Site(name) => site(name).is_some(),
            Self::Named(name) => link(name).is_some() || site(name).is_some(),
            Self::Peer { site, peer } => has_peer(site, peer),
            Self::Member { link: of, sci, name } => {
                let Some(mka) = link(of).and_then(|link| link.mka()) else { return false };
                let is_named = mka.peers.is_empty() || mka.peers.iter().any(|peer| peer.to_string() == *sci);
                // In a site with protect = true, gateways are members and peers at once.
                let was_peer = name.clone().map(|peer| Self::Peer { site: of.clone(), peer });
                let has_left =
                    was_peer.is_some_and(|peer| stood.contains(&peer) && !peer.is_of(config, stood));
                is_named && !has_left
            }
            Self::Relation { link: of, ends } => {
                let cell = link(of).and_then(|link| link.cell.as_ref());
                cell.is_some_and(|cell| {
                    cell.relations.iter().any(|relation| configured_ends(relation) == *ends)
                })
            }
        }
    }

    /// A line for a file. A name has no tab: those of configurations have none, and members' are printable.
    pub(super) fn line(&self) -> String {
        let fields = match self {
            Self::Link(name) => vec!["link", name],
            Self::Site(name) => vec!["site", name],
            Self::Peer { site, peer } => vec!["peer", site, peer],
            Self::Member { link, sci, name: None } => vec!["member", link, sci],
            Self::Member { link, sci, name: Some(name) } => vec!["member", link, sci, name],
            Self::Relation { link, ends } => vec!["relation", link, ends],
            Self::Named(name) => vec![name.as_str()],
        };
        fields.join("\t")
    }

    /// Reads such a line; none if it is of a later release.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split('\t').collect();
        let of = |field: &str| field.to_owned();
        Some(match fields[..] {
            [name] => Self::Named(of(name)),
            ["link", name] => Self::Link(of(name)),
            ["site", name] => Self::Site(of(name)),
            ["peer", site, peer] => Self::Peer { site: of(site), peer: of(peer) },
            ["member", link, sci] => Self::Member { link: of(link), sci: of(sci), name: None },
            ["member", link, sci, name] => {
                Self::Member { link: of(link), sci: of(sci), name: Some(of(name)) }
            }
            ["relation", link, ends] => Self::Relation { link: of(link), ends: of(ends) },
            _ => return None,
        })
    }

    /// Whether it is all of the link or site that `part` is a part of.
    fn is_whole_of(&self, part: &Self) -> bool {
        match (self, part) {
            (Self::Site(name), Self::Peer { site, .. }) => name == site,
            (Self::Link(name), Self::Member { link, .. } | Self::Relation { link, .. }) => name == link,
            _ => false,
        }
    }
}

/// Parts that stood before a change: all that a look found since its record came.
///
/// Links and sites are waited for. Peers and members are not: one of many that is off would put the two ends of a change out of step. What
/// another end's change has made fall by now stood, so both ends take the change back, or neither does.
pub(super) struct Stood {
    waited_for: Vec<Part>,
    found: Option<Vec<Part>>,
}

impl Stood {
    /// Before the first look, with the configuration that is in use.
    pub(super) fn new(config: Option<&Config>) -> Self {
        Self { waited_for: config.map_or_else(Vec::new, Part::configured), found: None }
    }

    /// Adds the findings of a look; none if the gateway did not tell. Returns true if nothing is waited for any more.
    pub(super) fn look(&mut self, standing: Option<Vec<Part>>) -> bool {
        let Some(standing) = standing else { return false };
        let found = self.found.get_or_insert_default();
        let new: Vec<_> = standing.into_iter().filter(|part| !part.is_among(found)).collect();
        found.extend(new);
        self.waited_for.iter().all(|part| part.is_among(found))
    }

    /// All of it. Of a gateway that did not tell, all links and sites.
    pub(super) fn parts(self) -> Vec<Part> {
        self.found.unwrap_or(self.waited_for)
    }
}

impl fmt::Display for Part {
    /// As an operator knows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(name) => write!(f, "link {name}"),
            Self::Site(name) => write!(f, "site {name}"),
            Self::Peer { site, peer } => write!(f, "peer {peer} of site {site}"),
            Self::Member { link, sci, name: None } => write!(f, "member {sci} of link {link}"),
            Self::Member { link, name: Some(name), .. } => write!(f, "member {name} of link {link}"),
            Self::Relation { link, ends } => write!(f, "relation {ends} of link {link}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// Whether a link stands. The table above says when.
fn link_stands(link: &LinkReport) -> bool {
    let verdict = &link.verdict;
    // With static keys nothing but a valid frame shows that they fit: another one than the last before the change.
    let misses_answers =
        [State::Silent, State::ClearFrames].iter().any(|state| state.word() == verdict.state);
    let came = link.last_valid_seconds.is_some_and(|seconds| seconds < PROOF.as_secs());
    verdict.protecting || link.is_agreed() && verdict.is_of_traffic() || misses_answers && came
}

/// Ends of a relation, in words.
fn ends([own, sends, peer, receives]: &[&String; 4]) -> String {
    format!("{sends} from {own}, {receives} from {peer}")
}

fn configured_ends(of: &CellRelation) -> String {
    let of = &of.relation;
    let (sends, receives) = (of.sends().to_string(), of.receives().to_string());
    ends(&[&of.own().0.to_string(), &sends, &of.peer().0.to_string(), &receives])
}

/// Lists the parts that have fallen, for the operator: parts rather than the whole that they are of, and no list without end.
pub(super) fn fallen(parts: &[Part]) -> String {
    let is_told = |part: &&Part| !parts.iter().any(|other| part.is_whole_of(other));
    let told: Vec<_> = parts.iter().filter(is_told).map(ToString::to_string).collect();
    let (named, others) = told.split_at(told.len().min(NAMED));
    let others = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    let verb = if told.len() > 1 { "do" } else { "does" };
    format!("{}{others} {verb} not stand any more", named.join(", "))
}

#[cfg(test)]
mod tests;
