//! Members of a connection that its others do not hear. A group of three goes on without one of them, so its verdicts stay good; and what that one
//! said last counts until it is stale. The others notice within seconds, and name in their heartbeats whom they hear.

use std::collections::BTreeMap;

use fleet::{PartKind, Peers, Standing};
use inventory::{Connection, ConnectionKind, Layout};

/// Gateways that are named in one line, before the others are counted.
const NAMED: usize = 3;

/// A member that is not heard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Unheard<'l> {
    /// The member.
    pub(super) gateway: &'l str,
    /// Those that do not hear it: all that tell.
    pub(super) by: Vec<&'l str>,
}

/// Members that are not heard.
#[derive(Default, Debug)]
pub(super) struct Missing<'l> {
    by_connection: BTreeMap<&'l str, Vec<Unheard<'l>>>,
    /// Words about each of them: of the first connection.
    by_gateway: BTreeMap<&'l str, String>,
}

/// Words for that.
pub(super) fn unheard(by: &[&str]) -> String {
    let more = match by.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("not heard by {}{more}", by.iter().take(NAMED).copied().collect::<Vec<_>>().join(", "))
}

impl<'l> Missing<'l> {
    pub(super) fn new(layout: &'l Layout, standings: &BTreeMap<String, Standing>, now: u64) -> Self {
        let mut all = Self::default();
        for connection in &layout.connections {
            let missing = missing(connection, layout, standings, now);
            for one in &missing {
                let words = || format!("{}: {}", connection.name, unheard(&one.by));
                all.by_gateway.entry(one.gateway).or_insert_with(words);
            }
            if !missing.is_empty() {
                all.by_connection.insert(&connection.name, missing);
            }
        }
        all
    }

    /// Members of a connection that are not heard.
    pub(super) fn of_connection(&self, name: &str) -> &[Unheard<'l>] {
        self.by_connection.get(name).map_or(&[], Vec::as_slice)
    }

    /// Words about a gateway that is not heard.
    pub(super) fn of_gateway(&self, gateway: &str) -> Option<&str> {
        self.by_gateway.get(gateway).map(String::as_str)
    }
}

/// Members that somebody misses and nobody hears. One that hears nobody may be cut off itself: it makes nobody missing whom others hear.
fn missing<'l>(
    of: &'l Connection,
    layout: &Layout,
    standings: &BTreeMap<String, Standing>,
    now: u64,
) -> Vec<Unheard<'l>> {
    let kind = match of.kind {
        ConnectionKind::Link | ConnectionKind::Group => PartKind::Link,
        ConnectionKind::Tunnel => PartKind::Site,
        // Its relations are of stations, not of gateways.
        ConnectionKind::Fieldbus => return Vec::new(),
    };
    let told = of.ends.iter().filter_map(|(gateway, part)| {
        Some((gateway.as_str(), peers(standings.get(gateway)?, kind, part, now)?))
    });
    let told: Vec<_> = told.collect();
    let unheard = |gateway: &'l String| {
        let name = match kind {
            PartKind::Link => layout.gateways.get(gateway)?.announced.as_deref()?,
            PartKind::Site | PartKind::Cell => gateway.as_str(),
        };
        let others = told.iter().filter(|(other, _)| other != gateway);
        let is_in = |names: &[String]| names.binary_search_by(|one| one.as_str().cmp(name)).is_ok();
        let mut by = Vec::new();
        for (other, peers) in others {
            if is_in(peers.secured()) {
                return None;
            }
            // Whoever tells not all whom it hears says nothing of those that it does not name.
            let misses = kind == PartKind::Link && peers.others() == 0 && config::is_name(name);
            if misses || is_in(peers.absent()) {
                by.push(*other);
            }
        }
        (!by.is_empty()).then_some(Unheard { gateway, by })
    };
    of.ends.keys().filter_map(unheard).collect()
}

/// Peers of a part, as its gateway tells them, if that is not too long ago.
fn peers<'s>(standing: &'s Standing, kind: PartKind, name: &str, now: u64) -> Option<&'s Peers> {
    let parts = standing.heartbeat.as_ref().filter(|_| standing.is_heard(now))?.parts.as_ref()?;
    parts.told().iter().find(|part| part.kind == kind && part.name == name)?.peers.as_ref()
}
