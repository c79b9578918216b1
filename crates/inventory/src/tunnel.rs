//! `[[tunnel]]`: sites of gateways that join their LANs over UDP. All are peers of each other, or all have one hub.
//!
//! ```text
//! no hub                  each gateway has all others as peers
//! hub = "dresden"         the hub has all others as peers, and each of them has the hub
//! ... and relay = true    each of them has the others, too, via the hub, which relays
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use config::keygen::KeygenError;

use crate::Inventory;
use crate::keys::{KeyFolder, can_go_along};
use crate::member::Member;
use crate::mistakes::{Mistakes, instead};
use crate::sections::{Kind, check_keys};
use crate::tree::{Node, Table, Value, is_word, merge};

/// Folder of a site's own key on its box, where `keygen site` and `init site` make it.
pub(crate) const FOLDER: &str = "/etc/frameward";
/// As `init site` has it.
const BIND: &str = "0.0.0.0:7787";

/// Makes a site of the options: its peers, its port, its identity and its CAK.
pub(crate) fn complete(
    member: &Member<'_>,
    options: &mut Table,
    keys: &mut KeyFolder,
    mistakes: &mut Mistakes<'_>,
) -> Result<(), KeygenError> {
    let (shared, place) = (member.shared, member.shared.place);
    let common = options.remove("peer");
    ["public_key", "endpoint"].iter().for_each(|key| drop(options.remove(*key)));
    let relays = is_word(options.get("relay"), "true");
    let is_spoke = shared.hub.as_ref().is_some_and(|hub| hub != member.name);
    if is_spoke && shared.common.contains_key("relay") {
        options.remove("relay");
    }
    options.entry("name".into()).or_insert_with(|| Node::text(place, &shared.name));
    options.entry("bind".into()).or_insert_with(|| Node::text(place, BIND));
    member.port("lan", options, mistakes);
    if is_word(options.get("protect"), "true") && !options.contains_key("static") {
        member.agree(options, keys, mistakes)?;
    }
    let of_peers = judge_peer_options(member, common, mistakes);
    let mut peers = Vec::new();
    for (name, at) in &shared.gateways {
        if name == member.name {
            continue;
        }
        let via = match &shared.hub {
            Some(hub) if is_spoke && name != hub => match relays {
                true => Some(hub),
                false => continue,
            },
            _ => None,
        };
        let Some(other) = member.inventory.gateways.get(name) else { continue };
        let other = Member { name, gateway: other, ..*member };
        peers.push(Node {
            place: *at,
            value: Value::Table(peer(member, &other, via, &of_peers, keys, mistakes)),
        });
    }
    drop_twins(options, &mut peers, &of_peers.gone);
    let needs_identity =
        peers.iter().filter_map(Node::as_table).any(|peer| !is_word(peer.get("mode"), "plain"));
    if needs_identity && !options.contains_key("identity") {
        options.insert("identity".into(), Node::text(place, identity(member.name)));
    }
    options.insert("peer".into(), Node { place, value: Value::List(peers) });
    Ok(())
}

/// Returns the path of a site's identity on its box, unless another file is named.
pub(crate) fn identity(gateway: &str) -> String {
    format!("{FOLDER}/{gateway}.key")
}

/// Options of all peers, and of each.
struct PeerOptions {
    common: Table,
    at: Table,
    /// Names that revoked gateways have as peers.
    gone: BTreeSet<String>,
}

/// Of two boxes on a LAN one was revoked: the other one forwards alone, and has peers as any other.
fn drop_twins(options: &mut Table, peers: &mut [Node], gone: &BTreeSet<String>) {
    let names = |peer: &Node| peer.as_table().and_then(|peer| peer.get("name")?.as_text()).map(str::to_owned);
    let there: BTreeSet<_> = peers.iter().filter_map(names).collect();
    let is_gone = |node: Option<&Node>| {
        node.and_then(Node::as_text).is_some_and(|name| gone.contains(name) && !there.contains(name))
    };
    if is_gone(options.get("standby").and_then(|standby| standby.as_table()?.get("peer"))) {
        options.remove("standby");
    }
    for peer in peers {
        if let Value::Table(peer) = &mut peer.value
            && is_gone(peer.get("standby_of"))
        {
            peer.remove("standby_of");
        }
    }
}

fn judge_peer_options(member: &Member<'_>, common: Option<Node>, mistakes: &mut Mistakes<'_>) -> PeerOptions {
    let shared = member.shared;
    let label = shared.label();
    let mut table_of = |node: Option<Node>, cure: &str| match node {
        None => Table::new(),
        Some(Node { value: Value::Table(table), .. }) => table,
        Some(node) => {
            mistakes.add(node.place, format!("{label}peer is a section here; write {cure}"));
            Table::new()
        }
    };
    let common = table_of(common, "[tunnel.peer], for options of all peers");
    let at = shared.at.get(member.name).and_then(|at| at.get("peer")).cloned();
    let cure = format!("[tunnel.at.{}.peer.GATEWAY], for options of one peer", member.name);
    let mut at = Node::table(shared.place, table_of(at, &cure));
    member.gateway.substitute(member.name, &mut at, mistakes);
    let Value::Table(mut at) = at.value else {
        return PeerOptions { common, at: Table::new(), gone: BTreeSet::new() };
    };
    check_keys(&common, &["site", "peer"], &[], &format!("{label}peer: "), mistakes);
    let called = |name: &String| {
        let own = at.get(name).and_then(|options| options.as_table()?.get("name")?.as_text());
        own.unwrap_or(name).to_owned()
    };
    let gone = member.inventory.revoked.keys().map(called).collect();
    // Lines about a gateway that was revoked may stay.
    at.retain(|name, _| !member.inventory.revoked.contains_key(name));
    for (name, node) in &at {
        if !shared.gateways.contains_key(name) || name == member.name {
            let others = shared.gateways.keys().map(String::as_str).filter(|other| *other != member.name);
            mistakes.add(
                node.place,
                format!(
                    "{label}at.{}.peer.{name} is no other gateway of it; {}",
                    member.name,
                    instead(name, others)
                ),
            );
        }
        if let Some(table) = node.as_table() {
            check_keys(
                table,
                &["site", "peer"],
                &[],
                &format!("{label}at.{}.peer.{name}: ", member.name),
                mistakes,
            );
        } else {
            mistakes.add(
                node.place,
                format!("{label}at.{}.peer.{name} is a section; write it in brackets", member.name),
            );
        }
    }
    PeerOptions { common, at, gone }
}

/// `[[site.peer]]` of one gateway for another.
fn peer(
    member: &Member<'_>,
    other: &Member<'_>,
    via: Option<&String>,
    options: &PeerOptions,
    keys: &KeyFolder,
    mistakes: &mut Mistakes<'_>,
) -> Table {
    let place = member.shared.gateways.get(other.name).copied().unwrap_or(member.shared.place);
    let mut peer = options.common.clone();
    if let Some(own) = options.at.get(other.name).and_then(Node::as_table) {
        merge(&mut peer, own);
    }
    peer.entry("name".into()).or_insert_with(|| Node::text(place, other.name));
    if let Some(hub) = via {
        let renamed = options.at.get(hub).and_then(Node::as_table).and_then(|own| own.get("name")?.as_text());
        let hub = renamed.unwrap_or(hub).to_owned();
        peer.entry("via".into()).or_insert_with(|| Node::text(place, hub));
    }
    let is_plain = is_word(peer.get("mode"), "plain");
    if !peer.contains_key("via") && !peer.contains_key("paths") {
        if let (false, Some(endpoint)) = (peer.contains_key("endpoint"), fact(other, "endpoint", mistakes)) {
            peer.insert("endpoint".into(), endpoint);
        }
        let identifier = !peer.contains_key("mode") || is_word(peer.get("mode"), "identifier");
        if identifier && !peer.contains_key("endpoint") && fact(member, "endpoint", mistakes).is_none() {
            let (one, two) =
                if member.name < other.name { (member.name, other.name) } else { (other.name, member.name) };
            mistakes.add(
                member.shared.place,
                format!("{}neither {one:?} nor {two:?} has an endpoint, so none can call the other; add endpoint = \"HOST:PORT\" to one of them", member.shared.label()),
            );
        }
    }
    if is_plain || peer.contains_key("public_key") {
        return peer;
    }
    match public_key(other, keys, mistakes) {
        Some(public_key) => drop(peer.insert("public_key".into(), public_key)),
        None => mistakes.add(
            place,
            format!(
                "{}gateway {:?} has no public_key; run there: frameward keygen site --out {FOLDER}/{}.key, and add the line that it prints to [gateway.{}]",
                member.shared.label(), other.name, other.name, other.name
            ),
        ),
    }
    peer
}

/// Returns a value that a gateway states: for this tunnel, or for all.
fn fact(of: &Member<'_>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Node> {
    if let Some(node) = of.shared.at.get(of.name).and_then(|at| at.get(key)) {
        let mut node = node.clone();
        of.gateway.substitute(of.name, &mut node, mistakes);
        return Some(node);
    }
    let all = if key == "endpoint" { &of.gateway.endpoint } else { &of.gateway.public_key };
    all.clone()
}

impl Inventory {
    /// Public keys by which a gateway is known to its peers.
    pub(crate) fn public_keys(&self, name: &str, keys: &KeyFolder) -> BTreeSet<String> {
        let Some(gateway) = self.gateways.get(name) else { return BTreeSet::new() };
        let of = |shared| {
            let member = Member { inventory: self, shared, name, gateway };
            public_key(&member, keys, &mut Mistakes::new(&self.files))
        };
        let tunnels = self
            .shared
            .iter()
            .filter(|shared| shared.kind == Kind::Tunnel && shared.gateways.contains_key(name));
        let all = tunnels.filter_map(of).chain(gateway.public_key.clone());
        all.filter_map(|node| node.as_text().map(str::to_ascii_lowercase)).collect()
    }
}

/// The public key of a gateway: as it is written, or of its identity, if that is among the keys.
fn public_key(of: &Member<'_>, keys: &KeyFolder, mistakes: &mut Mistakes<'_>) -> Option<Node> {
    if let Some(node) = fact(of, "public_key", mistakes) {
        return Some(node);
    }
    let options = of.options(mistakes);
    let identity = options.get("identity")?;
    let file = Path::new(identity.as_text()?);
    let read = can_go_along(file).then(|| keys.identity(of.name, file).ok())??;
    Some(Node::text(identity.place, read.public().to_string()))
}
