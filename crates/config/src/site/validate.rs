//! `[[site]]`, without its peers.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use suite::identity::{Identity, PublicKey};
use toml::{Spanned, Value};
use tunnel::{Mode, Settings};

use super::super::ReadIdentity;
use super::super::findings::Findings;
use super::super::link::{Seen, interface_name, mtu, name};
use super::super::raw::RawSite;
use super::peer::Peers;
use super::{Host, MOST_PEERS, Site, SitePeer, limits, ports};
use crate::key_file::{is_zeros, zeros};

/// W: seqs of a window.
const WINDOW: std::ops::RangeInclusive<u64> = 64..=65_536;
/// Six bits (RFC 2474).
const DSCP: std::ops::RangeInclusive<i64> = 0..=63;

/// Where identities come from.
pub(in super::super) struct IdentitySource<'k> {
    /// Relative paths start here.
    pub(in super::super) directory: &'k std::path::Path,
    pub(in super::super) read: ReadIdentity<'k>,
}

pub(in super::super) fn validate_all<'r>(
    raw: &'r [Spanned<RawSite>],
    identities: &IdentitySource,
    seen: &mut Seen<'r>,
    findings: &mut Findings,
) -> Vec<Site> {
    let (mut sites, mut spans) = (Vec::new(), Vec::new());
    let mut own_keys: Vec<(PublicKey, usize)> = Vec::new();
    for (at, spanned) in raw.iter().enumerate() {
        let site = spanned.get_ref();
        let label = match &site.name {
            Some(name) => format!("site {:?}: ", name.get_ref()),
            None => format!("site {}: ", at + 1),
        };
        if let Some(name) = &site.name {
            seen.name(&label, name, "give each link and site its own", findings);
        }
        if let Some(lan) = &site.lan {
            seen.interface(
                &label,
                "lan",
                lan,
                "an interface serves one site, or one side of one link",
                findings,
            );
        }
        let judge = Judge { label, span: spanned.span() };
        if let Some(judged) = judge.site(site, identities, findings) {
            judge.own_key(&judged, &mut own_keys, site, findings);
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
    /// Where the site begins.
    span: Range<usize>,
}

impl Judge {
    fn site(&self, raw: &RawSite, identities: &IdentitySource, findings: &mut Findings) -> Option<Site> {
        let label = &self.label;
        let name = name(label, &self.span, &raw.name, findings);
        let lan = interface_name(label, &self.span, "lan", &raw.lan, findings);
        let mtu = mtu(label, &raw.mtu, findings);
        let dscp = self.dscp(raw, findings);
        let window = self.window(raw, findings);
        let limits = limits::validate(label, raw.limits.as_ref(), findings);
        let peers = self.peers(raw, findings);
        let plain = peers.as_ref().is_some_and(|peers| {
            !peers.is_empty() && peers.iter().all(|peer| matches!(peer.mode, Mode::Plain { .. }))
        });
        let identity = self.identity(raw, plain, identities, findings);
        let bind = self.bind(raw, findings);
        let (bind, peers) = (bind?, peers?);
        self.reach(bind, &peers, raw, findings);
        Some(Site {
            name: name?,
            line: findings.line(&self.span),
            lan: lan?,
            allow_addresses: raw.allow_addresses.as_ref().is_some_and(|allow| *allow.get_ref()),
            mtu,
            bind,
            identity: identity?,
            identity_file: raw.identity.as_ref().map_or_else(Default::default, |file| file.get_ref().into()),
            dscp,
            window,
            limits,
            peers,
        })
    }

    fn bind(&self, raw: &RawSite, findings: &mut Findings) -> Option<SocketAddr> {
        let label = &self.label;
        let Some(value) = &raw.bind else {
            findings.error(self.span.clone(), format!("{label}bind is missing; add bind = \"0.0.0.0:7787\""));
            return None;
        };
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
        identities: &IdentitySource,
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
        let file = identities.directory.join(value.get_ref());
        match (identities.read)(&file) {
            Ok(identity) if is_zeros(identity.private()) => {
                findings.error(value.span(), format!("{label}identity: {}", zeros(&file, "site")));
                None
            }
            Ok(identity) => Some(Some(identity)),
            Err(error) => {
                findings.error(value.span(), format!("{label}identity: {error}"));
                None
            }
        }
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
        own_keys.push((own, site.line));
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
        let mut judge = Peers::default();
        let peers: Vec<_> = raw
            .peer
            .iter()
            .enumerate()
            .filter_map(|(number, peer)| judge.validate(label, number, peer, findings))
            .collect();
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

    /// A number, or none. What would be copied is encrypted: see below.
    fn dscp(&self, raw: &RawSite, findings: &mut Findings) -> u8 {
        let label = &self.label;
        let Some(value) = &raw.dscp else { return 0 };
        let wrong = match value.get_ref() {
            Value::String(text) if text == "none" => return 0,
            Value::Integer(number) => match u8::try_from(*number).ok().filter(|_| DSCP.contains(number)) {
                Some(dscp) => return dscp,
                None => format!("{label}dscp = {number} is out of range; use 0 to 63, or \"none\""),
            },
            // MACsec encrypts the VLAN tag with the frame, and frames with a tag in clear do not travel.
            Value::String(text) if text == "copy" => format!(
                "{label}dscp = \"copy\" cannot work: MACsec encrypts the priority with the frame; use 0 to 63, or \"none\""
            ),
            _ => {
                format!("{label}dscp is neither a number nor \"none\"; use 0 to 63, such as 46, or \"none\"")
            }
        };
        findings.error(value.span(), wrong);
        0
    }

    fn window(&self, raw: &RawSite, findings: &mut Findings) -> u64 {
        let Some(value) = &raw.window else { return Settings::WINDOW };
        let window = u64::try_from(*value.get_ref()).ok();
        match window.filter(|window| WINDOW.contains(window) && window.is_power_of_two()) {
            Some(window) => window,
            None => {
                let text = format!(
                    "{}window = {} is not allowed; use a power of two from {} to {}, the same at both ends",
                    self.label,
                    value.get_ref(),
                    WINDOW.start(),
                    WINDOW.end()
                );
                findings.error(value.span(), text);
                Settings::WINDOW
            }
        }
    }
}
