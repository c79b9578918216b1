//! `[[site]]`, without its peers.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use suite::identity::{Identity, PublicKey};
use toml::{Spanned, Value};
use tunnel::Mode;
use wire::EtherType;

use super::super::express_classes;
use super::super::fieldbus::ethertype;
use super::super::findings::Findings;
use super::super::key_source::KeySource;
use super::super::link::mtu;
use super::super::reference::{RawSite, SITE};
use super::super::unique_names::{UniqueNames, interface_name, label, name};
use super::super::{Io, Origin};
use super::path::Around;
use super::peer::Peers;
use super::{
    Host, MOST_PEERS, Site, SitePeer, limits, ports, protect, relay, sending, standby, uplink, vlans,
};
use crate::key_file::is_zeros;

pub(in super::super) fn validate_all<'r>(
    raw: &'r [Spanned<RawSite>],
    io: Io,
    keys: &KeySource,
    names: &mut UniqueNames<'r>,
    findings: &mut Findings,
) -> Vec<Site> {
    let (mut sites, mut spans) = (Vec::new(), Vec::new());
    let mut own_keys: Vec<(PublicKey, usize)> = Vec::new();
    for (at, spanned) in raw.iter().enumerate() {
        let site = spanned.get_ref();
        let label = label("site", &site.name, at);
        names.name(&label, &site.name, "give each link and site its own", findings);
        if let Some(lan) = &site.lan {
            names.interface(
                &label,
                "lan",
                lan,
                "an interface serves one site, or one side of one link",
                findings,
            );
        }
        let judge = Judge { label, span: spanned.span(), io };
        if let Some(judged) = judge.site(site, keys, findings) {
            judge.own_key(&judged, &mut own_keys, site, findings);
            standby::judge_key(&judge.label, &judged, site, findings);
            standby::judge_sci(&judge.label, &judged, site, findings);
            sites.push(judged);
            spans.push(site.bind.as_ref().map_or(spanned.span(), Spanned::span));
        }
    }
    ports::refuse_shared(&sites, &spans, findings);
    sites
}

/// Judges one site.
struct Judge {
    /// `site "name": `, the beginning of every finding.
    label: String,
    /// Place of the site in the file.
    span: Range<usize>,
    /// That of the gateway.
    io: Io,
}

impl Judge {
    fn site(&self, raw: &RawSite, keys: &KeySource, findings: &mut Findings) -> Option<Site> {
        let label = &self.label;
        let name = name(label, &self.span, &raw.name, findings);
        let lan = interface_name(label, &self.span, SITE.lan, &raw.lan, findings);
        let peers = self.peers(raw, findings);
        let plain = peers.as_ref().is_some_and(|peers| {
            !peers.is_empty() && peers.iter().all(|peer| matches!(peer.mode, Mode::Plain { .. }))
        });
        let identity = self.identity(raw, plain, keys, findings);
        let bind = self.bind(raw, findings);
        if let (Some(bind), Some(peers)) = (bind, &peers) {
            self.reach(bind, peers, raw, findings);
        }
        let (protects, cells) = (SITE.protect.switch(&raw.protect), self.cells(raw, findings));
        let around = express_classes::Around { protects, io: self.io, cells, peers: peers.as_deref() };
        // Fields with a question mark come last: all others are judged, whatever is missing.
        Some(Site {
            line: Origin(findings.line(&self.span)),
            allow_addresses: SITE.allow_addresses.switch(&raw.allow_addresses),
            mtu: mtu(label, SITE.mtu, &raw.mtu, findings),
            dscp: uplink::dscp(label, raw, protects, findings),
            rate: uplink::rate(label, raw, self.io, findings),
            express: express_classes::validate_site(label, raw, &around, findings),
            vlans: vlans::validate(label, raw, self.io, findings),
            cells,
            relay: relay::validate(label, raw, peers.as_deref(), findings),
            standby: standby::validate(label, raw, peers.as_deref(), findings),
            workers: sending::validate(label, raw, self.io, peers.as_deref(), findings),
            window: self.window(raw, findings),
            protect: protect::validate(label, raw, self.io, findings),
            limits: limits::validate(label, raw, findings),
            name: name?,
            lan: lan?,
            bind: bind?,
            identity: identity?,
            peers: peers?,
        })
    }

    fn bind(&self, raw: &RawSite, findings: &mut Findings) -> Option<SocketAddr> {
        let label = &self.label;
        let cure = "; add bind = \"0.0.0.0:7787\"";
        let value = SITE.bind.required(label, &self.span, &raw.bind, cure, findings)?;
        let text = value.get_ref();
        let wrong = match text.parse::<SocketAddr>() {
            Err(_) => format!(
                "{label}bind = {text:?} is no address with a port; write one, such as \"0.0.0.0:7787\" or \"[::]:7787\""
            ),
            Ok(address) if address.port() == 0 || address.port() == u16::MAX => format!(
                "{label}bind = {text:?}: port {} is too high: the site also uses the next port; use 1 to 65534",
                address.port()
            ),
            Ok(address) if address.ip().is_multicast() || address.ip() == IpAddr::from([255; 4]) => {
                format!(
                    "{label}bind = {text:?} cannot be an address of this box; use one of its own, or 0.0.0.0 or [::]"
                )
            }
            Ok(address) => return Some(address),
        };
        findings.error(value.span(), wrong);
        None
    }

    /// `Some(None)` is right where all peers are plain.
    fn identity(
        &self,
        raw: &RawSite,
        plain: bool,
        keys: &KeySource,
        findings: &mut Findings,
    ) -> Option<Option<Identity>> {
        let label = &self.label;
        let Some(value) = &raw.identity else {
            if plain {
                return Some(None);
            }
            let text = format!(
                "{label}identity is missing; make one with frameward keygen site --out FILE, and add identity = \"FILE\""
            );
            findings.error(self.span.clone(), text);
            return None;
        };
        let label = format!("{label}identity: ");
        let is_zeros = |identity: &Identity| is_zeros(identity.private());
        keys.read(&label, value, "site", keys.files.identity, is_zeros, findings).map(Some)
    }

    /// A site is none of its own peers, and two sites are not the same one.
    fn own_key(
        &self,
        site: &Site,
        own_keys: &mut Vec<(PublicKey, usize)>,
        raw: &RawSite,
        findings: &mut Findings,
    ) {
        let Some(own) = site.identity.as_ref().map(Identity::public) else { return };
        for peer in raw.peer.iter().map(Spanned::get_ref) {
            if let Some(key) = &peer.public_key
                && key.get_ref().eq_ignore_ascii_case(&own.to_string())
            {
                let text = format!(
                    "{}public_key of a peer is this site's own; write the one that keygen printed at the peer",
                    self.label
                );
                findings.error(key.span(), text);
            }
        }
        let span = raw.identity.as_ref().map_or(self.span.clone(), Spanned::span);
        if let Some((_, line)) = own_keys.iter().find(|(key, _)| *key == own) {
            let text =
                format!("{}identity is that of the site of line {line}; give each site its own", self.label);
            findings.error(span, text);
        }
        own_keys.push((own, site.line.0));
    }

    fn peers(&self, raw: &RawSite, findings: &mut Findings) -> Option<Vec<SitePeer>> {
        let label = &self.label;
        if raw.peer.is_empty() {
            findings.error(self.span.clone(), format!("{label}has no peer; add [[site.peer]]"));
        }
        if let Some(beyond) = raw.peer.get(MOST_PEERS) {
            let text = format!(
                "{label}has {} peers, and at most {MOST_PEERS} fit; add another site for the others",
                raw.peer.len()
            );
            findings.error(beyond.span(), text);
        }
        let bind = raw.bind.as_ref().and_then(|bind| bind.get_ref().parse().ok());
        let mut judge = Peers::new(Around { bind, io: self.io });
        let mut peers: Vec<_> = raw
            .peer
            .iter()
            .enumerate()
            .filter_map(|(number, peer)| judge.validate(label, number, peer, findings))
            .collect();
        if peers.len() == raw.peer.len() {
            relay::find_hubs(label, &raw.peer, &mut peers, findings);
            standby::judge_twins(label, raw, &mut peers, findings);
            uplink::judge_paths(label, &raw.peer, &peers, findings);
        }
        (peers.len() == raw.peer.len() && (1..=MOST_PEERS).contains(&peers.len())).then_some(peers)
    }

    /// An IPv4 socket reaches no IPv6 address, nor the other way round; [::] reaches both.
    fn reach(&self, bind: SocketAddr, peers: &[SitePeer], raw: &RawSite, findings: &mut Findings) {
        for (peer, raw) in peers.iter().zip(&raw.peer) {
            let Some(Host::Address(address)) = peer.endpoint.as_ref().map(|endpoint| &endpoint.host) else {
                continue;
            };
            if bind.is_ipv4() == address.is_ipv4() || (bind.is_ipv6() && bind.ip().is_unspecified()) {
                continue;
            }
            let version = |four| if four { "IPv4" } else { "IPv6" };
            let text = format!(
                "{}peer {:?}: endpoint is {}, and bind {} reaches {} alone; use bind = \"[::]:{}\"",
                self.label,
                peer.name,
                version(address.is_ipv4()),
                bind.ip(),
                version(bind.is_ipv4()),
                bind.port()
            );
            let span = raw.get_ref().endpoint.as_ref().map_or(raw.span(), Spanned::span);
            findings.error(span, text);
        }
    }

    fn cells(&self, raw: &RawSite, findings: &mut Findings) -> Option<EtherType> {
        match raw.cells.as_ref()?.get_ref() {
            Value::String(text) if text == SITE.cells.default_text() => None,
            _ => Some(ethertype(
                (&self.label, "cells"),
                &raw.cells,
                "use the ethertype of the cells, such as 0x88b5, or \"none\"",
                findings,
            )),
        }
    }

    fn window(&self, raw: &RawSite, findings: &mut Findings) -> u64 {
        let key = SITE.window;
        let Some(value) = &raw.window else { return key.default_number() };
        key.in_range(*value.get_ref()).unwrap_or_else(|| {
            let range = key.range();
            let text = format!(
                "{}window = {} is not allowed; use a power of two from {} to {}, the same at both ends",
                self.label,
                value.get_ref(),
                range.start(),
                range.end()
            );
            findings.error(value.span(), text);
            key.default_number()
        })
    }
}
