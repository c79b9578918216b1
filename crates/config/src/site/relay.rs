//! `relay` of a site and `via` of its peers.

use toml::Spanned;
use tunnel::Mode;

use super::super::findings::Findings;
use super::super::reference::{RawSite, RawSitePeer, SITE};
use super::super::unique_names::label;
use super::{Hub, SitePeer};

/// Whether a site relays between its peers.
pub(super) fn validate(
    site: &str,
    raw: &RawSite,
    peers: Option<&[SitePeer]>,
    findings: &mut Findings,
) -> bool {
    let relay = SITE.relay.switch(&raw.relay);
    if let (true, Some(value), Some(peers)) = (relay, &raw.relay, peers) {
        // Whoever is reached through a relay is not relayed to. Spokes may come one by one: no error.
        let direct = peers.iter().filter(|peer| peer.mode == Mode::Identifier && peer.via.is_none()).count();
        if direct < 2 {
            let text = format!(
                "{site}relay = true does nothing with {direct} peers in identifier mode and without via; it needs two"
            );
            findings.warn(value.span(), text);
        }
    }
    relay
}

/// Finds the hubs that peers name. All are judged; what is wrong gets none.
pub(super) fn find_hubs(
    site: &str,
    raw: &[Spanned<RawSitePeer>],
    peers: &mut [SitePeer],
    findings: &mut Findings,
) {
    for (number, raw_peer) in raw.iter().enumerate() {
        let Some(value) = &raw_peer.get_ref().via else { continue };
        let label = format!("{site}{}", label("peer", &raw_peer.get_ref().name, number));
        let named = value.get_ref();
        let hub = peers.iter().position(|peer| peer.name == *named);
        let wrong = match hub.map(|hub| (hub, raw[hub].get_ref())) {
            None => "no peer of the site has that name; write the name of the one that relays".to_owned(),
            Some((hub, _)) if hub == number => {
                "a peer does not relay to itself; write the name of the one that relays".to_owned()
            }
            Some((_, hub)) if hub.via.is_some() => {
                "that peer has via itself, and a packet is relayed once; use one that is reached directly"
                    .to_owned()
            }
            Some((hub, _))
                if peers[hub].mode != Mode::Identifier || peers[number].mode != Mode::Identifier =>
            {
                "both need mode = \"identifier\"; use it, or remove via".to_owned()
            }
            Some(_) if raw_peer.get_ref().endpoint.is_some() => {
                "the peer has an endpoint, so it is reached directly; remove one of the two".to_owned()
            }
            Some(_) if !raw_peer.get_ref().paths.is_empty() => {
                "the peer has paths, so it is reached directly; remove one of the two".to_owned()
            }
            Some((hub, _)) => {
                let hub = &peers[hub];
                let via = hub.public_key.map(|public_key| Hub { name: hub.name.clone(), public_key });
                peers[number].via = via;
                continue;
            }
        };
        findings.error(value.span(), format!("{label}via = {named:?}: {wrong}"));
    }
}
