//! Verdicts on a gateway's links, sites and cells, as heartbeats of formats 2 to 4 have them: the worst first, and a bounded number.
//!
//! ```text
//!  part:  array of 4:  0 link, 1 site, 2 cell    its name    0 good, 1 idle, 2 attention, 3 alarm    the state, in a word
//!  or array of 7, in formats 3 and 4 alone, and besides:  its peers ([`Peers`])
//! ```
//!
//! The state is the word alone, such as `keys differ`: the sentence behind it names stations and addresses, and stays on the gateway. One part
//! at least has peers in format 3, and none in format 2: there is one encoding.

use ciborium_ll::Header as Head;

use crate::cbor::{Malformed, Reader, push, push_text};
pub use peers::{MOST_PEERS, Peers};

mod peers;

/// Parts of a heartbeat, at most.
pub const MOST_PARTS: usize = 64;
/// Items of a part.
const WITHOUT_PEERS: usize = 4;
/// The same with its peers.
const WITH_PEERS: usize = 7;
/// The longest state, in octets.
const STATE_OCTETS: usize = 24;

/// Kind of a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PartKind {
    /// A link.
    Link,
    /// A site.
    Site,
    /// A cell of a link.
    Cell,
}

/// Gravity of a part's state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PartLevel {
    /// Valid frames come.
    Good,
    /// Nothing is wrong, and nothing shows that all is well.
    Idle,
    /// Somebody should look.
    Attention,
    /// Frames leave in clear, or do not pass.
    Alarm,
}

/// The verdict on a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its kind.
    pub kind: PartKind,
    /// Its name in the configuration.
    pub name: String,
    /// The gravity of its state.
    pub level: PartLevel,
    /// Its state, in a word.
    pub state: String,
    /// Gateways at its other ends; none if it does not tell.
    pub peers: Option<Peers>,
}

/// The verdicts on all parts of a gateway, or on the worst of them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Parts {
    told: Vec<Part>,
    left_out: u64,
}

impl PartKind {
    pub(super) const ALL: [Self; 3] = [Self::Link, Self::Site, Self::Cell];

    /// As a command and the API have it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Site => "site",
            Self::Cell => "cell",
        }
    }
}

impl PartLevel {
    pub(super) const ALL: [Self; 4] = [Self::Good, Self::Idle, Self::Attention, Self::Alarm];
}

impl Part {
    fn is_valid(&self) -> bool {
        let is_state = !self.state.is_empty() && self.state.len() <= STATE_OCTETS;
        config::is_name(&self.name) && is_state && !self.state.chars().any(char::is_control)
    }
}

impl Parts {
    /// The verdicts on all parts: the worst are told, in the order of the configuration, and the others counted. A part whose name or state
    /// breaks a rule is counted, too.
    pub fn new(mut parts: Vec<Part>) -> Self {
        let all = parts.len();
        parts.retain(Part::is_valid);
        parts.sort_by_key(|part| std::cmp::Reverse(part.level));
        parts.truncate(MOST_PARTS);
        let left_out = (all - parts.len()) as u64;
        let mut room = MOST_PEERS;
        for part in &mut parts {
            part.peers = part.peers.take().map(|peers| peers.within(&mut room));
        }
        Self { told: parts, left_out }
    }

    /// Any parts, unchecked, for tests.
    #[cfg(test)]
    pub(super) const fn unchecked(told: Vec<Part>) -> Self {
        Self { told, left_out: 0 }
    }

    /// Parts that are told, the worst first.
    pub fn told(&self) -> &[Part] {
        &self.told
    }

    /// The number of those that are not.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// True if a part tells its peers.
    pub(super) fn have_peers(&self) -> bool {
        self.told.iter().any(|part| part.peers.is_some())
    }

    /// Keys 9 and 10 of a body.
    pub(super) fn push(&self, body: &mut Vec<u8>) {
        push(body, Head::Positive(9));
        push(body, Head::Array(Some(self.told.len())));
        for Part { kind, name, level, state, peers } in &self.told {
            push(body, Head::Array(Some(if peers.is_some() { WITH_PEERS } else { WITHOUT_PEERS })));
            push(body, Head::Positive(*kind as u64));
            push_text(body, name);
            push(body, Head::Positive(*level as u64));
            push_text(body, state);
            if let Some(peers) = peers {
                peers.push(body);
            }
        }
        push(body, Head::Positive(10));
        push(body, Head::Positive(self.left_out));
    }

    /// Parses them. `have_peers` is for formats that say whether a part has peers.
    pub(super) fn parse(reader: &mut Reader<'_>, have_peers: Option<bool>) -> Result<Self, Malformed> {
        let count = reader.key(9)?.array()?;
        if count > MOST_PARTS {
            return Err(Malformed);
        }
        let mut told: Vec<Part> = Vec::with_capacity(count);
        let mut room = MOST_PEERS;
        for _ in 0..count {
            let has_peers = match reader.array()? {
                WITHOUT_PEERS => false,
                WITH_PEERS => true,
                _ => return Err(Malformed),
            };
            let part = Part {
                kind: *of(&PartKind::ALL, reader.number()?)?,
                name: reader.text()?.to_owned(),
                level: *of(&PartLevel::ALL, reader.number()?)?,
                state: reader.text()?.to_owned(),
                peers: has_peers.then(|| Peers::parse(reader, &mut room)).transpose()?,
            };
            // The worst first: one encoding.
            if !part.is_valid() || told.last().is_some_and(|before| before.level < part.level) {
                return Err(Malformed);
            }
            told.push(part);
        }
        let parts = Self { told, left_out: reader.key(10)?.number()? };
        let is_as_said = have_peers.is_none_or(|have_peers| parts.have_peers() == have_peers);
        if is_as_said { Ok(parts) } else { Err(Malformed) }
    }
}

fn of<T>(all: &[T], number: u64) -> Result<&T, Malformed> {
    usize::try_from(number).ok().and_then(|number| all.get(number)).ok_or(Malformed)
}
