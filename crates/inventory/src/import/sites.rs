//! Sites that are each other's peers.

use std::collections::{BTreeMap, BTreeSet};

use config::{Named as _, Site};
use suite::identity::PublicKey;

use super::draft::{Draft, DraftShared, NOWHERE, Section, give_back, take_common};
use super::links::{Kept, key_file, remove_key_file};
use crate::sections::Kind;
use crate::tree::{Node, Table, Value};
use crate::tunnel;

/// Mark of a section that [`share`] looks at.
pub(super) const A_SITE: &str = "it is a site";

/// The shape of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// Each with each.
    Mesh,
    /// The member of this number with each; the others by it, or not at all.
    Hub { at: usize, relays: bool },
}

/// A site of a section.
#[derive(Clone, Copy)]
struct Of<'s> {
    section: Section<'s>,
    site: &'s Site,
    /// Its own public key, as far as that can be told.
    public: Option<PublicKey>,
}

/// Takes up the sites that are each other's peers. Returns all other sections.
pub(super) fn share<'s>(sections: &[Kept<'s>], draft: &mut Draft) -> Vec<Kept<'s>> {
    let mut rest = Vec::new();
    let mut sites: Vec<Of<'s>> = Vec::new();
    for (section, why) in sections {
        let site = section.source.config.sites.iter().find(|site| site.name == section.name);
        match site.filter(|_| section.kind == "site") {
            Some(site) => sites.push(Of { section: *section, site, public: own_key(section, site) }),
            None => rest.push((*section, *why)),
        }
    }
    tell_keys(&mut sites);
    for members in components(&sites) {
        let members: Vec<Of<'_>> = members.into_iter().map(|number| sites[number]).collect();
        match shape(&members) {
            Ok(shape) => take_up(&members, shape, draft),
            Err(why) => rest.extend(members.iter().map(|of| (of.section, why))),
        }
    }
    rest
}

/// The public key of an identity that is here.
fn own_key(section: &Section<'_>, site: &Site) -> Option<PublicKey> {
    let file = section.table.get("identity")?.as_text()?;
    let is_here = !std::path::Path::new(file).is_absolute();
    site.identity.as_ref().filter(|_| is_here).map(|identity| identity.public())
}

/// Finds the public keys of sites whose identities stayed on their boxes: the one that all who name the gateway, or else the site, have
/// for it.
fn tell_keys(sites: &mut [Of<'_>]) {
    let known: BTreeSet<[u8; 32]> = sites.iter().filter_map(|of| Some(of.public?.0)).collect();
    let mut named: BTreeMap<&str, BTreeSet<[u8; 32]>> = BTreeMap::new();
    for peer in sites.iter().flat_map(|of| &of.site.peers) {
        if let Some(key) = peer.public_key.filter(|key| !known.contains(&key.0)) {
            named.entry(&peer.name).or_default().insert(key.0);
        }
    }
    let only = |name: &str| named.get(name).filter(|keys| keys.len() == 1)?.first().copied();
    let found: Vec<Option<[u8; 32]>> = sites
        .iter()
        .map(|of| match of.public {
            Some(_) => None,
            None => only(&of.section.source.name).or_else(|| only(of.section.name)),
        })
        .collect();
    for (number, of) in sites.iter_mut().enumerate() {
        let key = found[number].filter(|key| found.iter().filter(|other| **other == Some(*key)).count() == 1);
        of.public = of.public.or(key.map(PublicKey));
    }
}

/// Sites that name each other, directly or by others: numbers, in their order.
fn components(sites: &[Of<'_>]) -> Vec<Vec<usize>> {
    let by_key: BTreeMap<_, usize> =
        sites.iter().enumerate().filter_map(|(number, of)| Some((of.public?.0, number))).collect();
    let mut groups: Vec<usize> = (0..sites.len()).collect();
    for (number, of) in sites.iter().enumerate() {
        for peer in &of.site.peers {
            let Some(other) = peer.public_key.and_then(|key| by_key.get(&key.0)) else { continue };
            let (from, to) = (groups[*other].max(groups[number]), groups[*other].min(groups[number]));
            groups.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
        }
    }
    let mut components: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, group) in groups.into_iter().enumerate() {
        components.entry(group).or_default().push(number);
    }
    components.into_values().collect()
}

/// The number of the member that a peer is.
fn member(members: &[Of<'_>], peer: &config::SitePeer) -> Option<usize> {
    let key = peer.public_key?;
    members.iter().position(|of| of.public == Some(key))
}

fn shape(members: &[Of<'_>]) -> Result<Shape, &'static str> {
    if members.len() < 2 {
        return Err("its peers are not here, or have no key here");
    }
    let gateways: BTreeSet<_> = members.iter().map(|of| of.section.source.name.as_str()).collect();
    if gateways.len() != members.len() {
        return Err("its gateway has another site among its peers");
    }
    let all: Option<Vec<BTreeMap<usize, bool>>> = members
        .iter()
        .map(|of| {
            of.site.peers.iter().map(|peer| Some((member(members, peer)?, peer.via.is_some()))).collect()
        })
        .collect();
    let Some(all) = all else { return Err("one of its peers is not here") };
    if !each_is_called(members) {
        return Err("two of its sites have no endpoint of each other");
    }
    let whole = |peers: &BTreeMap<usize, bool>| peers.len() + 1 == members.len();
    let direct = |peers: &BTreeMap<usize, bool>| peers.values().all(|via| !via);
    if all.iter().all(|peers| whole(peers) && direct(peers)) {
        return Ok(Shape::Mesh);
    }
    let hub = |at: usize| {
        let spokes = || all.iter().enumerate().filter(move |(number, _)| *number != at);
        let alone = spokes().all(|(_, peers)| peers.len() == 1 && peers.get(&at) == Some(&false));
        let relayed = members[at].site.relay
            && spokes().all(|(number, peers)| {
                whole(peers)
                    && peers.iter().all(|(peer, via)| *via == (*peer != at))
                    && !members[number].site.relay
            });
        (whole(&all[at]) && direct(&all[at]) && (alone || relayed))
            .then_some(Shape::Hub { at, relays: relayed })
    };
    (0..members.len()).find_map(hub).ok_or("its peers are neither all of its tunnel nor one hub")
}

/// Whether of two sites in identifier mode one knows where the other is.
fn each_is_called(members: &[Of<'_>]) -> bool {
    let knows = |one: usize, other: usize| {
        let peer = members[one].site.peers.iter().find(|peer| member(members, peer) == Some(other));
        peer.is_none_or(|peer| {
            peer.via.is_some() || peer.endpoints().next().is_some() || peer.mode.name() != "identifier"
        })
    };
    (0..members.len()).all(|one| (0..one).all(|other| knows(one, other) || knows(other, one)))
}

fn take_up(members: &[Of<'_>], shape: Shape, draft: &mut Draft) {
    let gateways: Vec<&str> = members.iter().map(|of| of.section.source.name.as_str()).collect();
    let one_cak = one_cak(members);
    let cak = |of: &Of<'_>| key_file(Kind::Tunnel, "cak_file", of.section.table);
    let files = gateways.iter().zip(members).map(|(gateway, of)| (*gateway, cak(of)));
    let files: Vec<(&str, String)> = files.filter(|_| one_cak).collect();
    let name = draft.name(members.first().map_or("", |of| of.section.name), "cak", &files);
    let endpoints: Vec<Option<Node>> = (0..members.len()).map(|number| endpoint(members, number)).collect();
    let mut at = BTreeMap::new();
    for (number, of) in members.iter().enumerate() {
        let gateway = gateways[number];
        let mut options = of.section.table.clone();
        options.remove("peer");
        if of.section.name == name {
            options.remove("name");
        }
        if one_cak {
            remove_key_file(Kind::Tunnel, "cak_file", &mut options);
        }
        if shape.relays_at(number) {
            options.remove("relay");
        }
        say_key(of, gateway, &mut options);
        draft.name_port(gateway, &name, "lan", &mut options);
        if let Some(endpoint) = &endpoints[number] {
            options.insert("endpoint".into(), endpoint.clone());
        }
        let peers = peer_options(members, number, shape, &gateways, &endpoints);
        if !peers.is_empty() {
            options.insert("peer".into(), Node::table(NOWHERE, peers));
        }
        at.insert(gateway.to_owned(), options);
    }
    if one_cak {
        draft.share_key(&format!("{name}.cak"), &files);
    }
    let mut common = take_common(&mut at);
    for key in ["name", "endpoint", "public_key", "peer"] {
        give_back(key, &mut common, &mut at);
    }
    let hub = match shape {
        Shape::Mesh => None,
        Shape::Hub { at, relays } => {
            if relays {
                common.insert("relay".into(), Node { place: NOWHERE, value: Value::Literal("true".into()) });
            }
            Some(gateways[at].to_owned())
        }
    };
    let gateways = gateways.into_iter().map(str::to_owned).collect();
    draft.shared.push(DraftShared { kind: Kind::Tunnel, name, gateways, hub, common, at });
}

/// Says the public key of a site whose identity is on its box alone.
fn say_key(of: &Of<'_>, gateway: &str, options: &mut Table) {
    let identity = options.get("identity").and_then(Node::as_text).unwrap_or_default();
    if let (true, Some(public)) = (std::path::Path::new(identity).is_absolute(), of.public) {
        if identity == tunnel::identity(gateway) {
            options.remove("identity");
        }
        options.insert("public_key".into(), Node::text(NOWHERE, public.to_string()));
    }
}

impl Shape {
    fn relays_at(self, number: usize) -> bool {
        matches!(self, Self::Hub { at, relays: true } if at == number)
    }
}

/// Whether all protect their LANs under one CAK that goes along.
fn one_cak(members: &[Of<'_>]) -> bool {
    let cak = |of: &Of<'_>| {
        let file = of.section.table.get("mka")?.as_table()?.get("cak_file")?.as_text()?;
        let links = &of.section.source.config.links;
        let link = links.iter().find(|link| link.in_site && link.name == of.section.name)?;
        (!std::path::Path::new(file).is_absolute()).then(|| link.mka().map(|mka| mka.cak.clone()))?
    };
    let first = members.first().and_then(cak);
    first.is_some() && members.iter().all(|of| cak(of) == first)
}

/// The peer's section at one member for another.
fn section_of<'s>(of: &Of<'s>, members: &[Of<'_>], number: usize) -> Option<&'s Table> {
    let at = of.site.peers.iter().position(|peer| member(members, peer) == Some(number))?;
    of.section.table.get("peer")?.as_list()?.get(at)?.as_table()
}

/// Returns the endpoint of a member, if all that call it say the same.
fn endpoint(members: &[Of<'_>], number: usize) -> Option<Node> {
    let callers = members.iter().filter_map(|of| section_of(of, members, number));
    let callers = callers.filter(|peer| !peer.contains_key("via") && !peer.contains_key("paths"));
    let all: Option<Vec<&Node>> = callers.map(|peer| peer.get("endpoint")).collect();
    let all = all?;
    let first = *all.first()?;
    all.iter().all(|other| other.says(first)).then(|| first.clone())
}

/// Collects a member's options of its peers that do not follow from the tunnel.
fn peer_options(
    members: &[Of<'_>],
    own: usize,
    shape: Shape,
    gateways: &[&str],
    endpoints: &[Option<Node>],
) -> Table {
    let mut options = Table::new();
    for (number, gateway) in gateways.iter().enumerate() {
        let Some(section) = section_of(&members[own], members, number) else { continue };
        let mut peer = section.clone();
        peer.remove("public_key");
        if peer.get("name").and_then(Node::as_text) == Some(gateway) {
            peer.remove("name");
        }
        if matches!(shape, Shape::Hub { at, relays: true } if at != own && at != number) {
            peer.remove("via");
        }
        if let (Some(told), Some(endpoint)) = (peer.get("endpoint"), &endpoints[number])
            && told.says(endpoint)
        {
            peer.remove("endpoint");
        }
        if !peer.is_empty() {
            options.insert((*gateway).to_owned(), Node::table(NOWHERE, peer));
        }
    }
    options
}
