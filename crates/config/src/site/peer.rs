//! `[[site.peer]]`.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use suite::identity::PublicKey;
use toml::Spanned;
use tunnel::Mode;

use super::super::findings::Findings;
use super::super::raw::RawSitePeer;
use super::super::{gateway::bad_name, is_name};
use super::{Endpoint, Host, SitePeer, USUAL_PATH_MTU};

/// IPv6 asks for 1280 octets, and QUIC for 1200 of UDP payload; what is larger than a jumbo frame is a mistake.
const PATH_MTU: RangeInclusive<i64> = 1280..=9216;
/// A VXLAN network identifier has 24 bits (RFC 7348, 5).
const VNI: RangeInclusive<i64> = 0..=0xff_ffff;

/// Judges the peers of one site.
#[derive(Default)]
pub(super) struct Peers<'r> {
    names: BTreeMap<&'r str, usize>,
    keys: BTreeMap<PublicKey, usize>,
    endpoints: BTreeMap<Endpoint, usize>,
    /// Of plain peers: packets are told apart by their source's address.
    plain_hosts: BTreeMap<Host, usize>,
    /// The port of the first plain peer, and its line: one socket serves all of them.
    plain_port: Option<(u16, usize)>,
}

/// One peer's place.
struct Place {
    label: String,
    span: Range<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Identifier,
    HeaderEncryption,
    Plain,
}

impl<'r> Peers<'r> {
    pub(super) fn validate(
        &mut self,
        site: &str,
        number: usize,
        raw: &'r Spanned<RawSitePeer>,
        findings: &mut Findings,
    ) -> Option<SitePeer> {
        let (span, raw) = (raw.span(), raw.get_ref());
        let label = match &raw.name {
            Some(name) => format!("{site}peer {:?}: ", name.get_ref()),
            None => format!("{site}peer {}: ", number + 1),
        };
        let place = Place { label, span };
        let name = self.name(&place, raw, findings);
        let kinds = [
            ("identifier", Kind::Identifier),
            ("header-encryption", Kind::HeaderEncryption),
            ("plain", Kind::Plain),
        ];
        let kind = findings.choice(&place.label, "mode", &raw.mode, &kinds, Kind::Identifier);
        let public_key = self.public_key(&place, raw, kind, findings);
        let endpoint = self.endpoint(&place, raw, kind, findings);
        let mode = match kind {
            Kind::Identifier => Some(Mode::Identifier),
            Kind::HeaderEncryption => Some(Mode::HeaderEncryption),
            Kind::Plain => None,
        };
        let vni = place.vni(raw, kind, findings);
        if kind == Kind::Plain {
            let text = format!(
                "{}mode = \"plain\": a stranger on the path reads all addresses of the LAN's frames, and can put frames of any sender into the LAN; only MACsec at the stations protects their content",
                place.label
            );
            findings.warn(raw.mode.as_ref().map_or(place.span.clone(), Spanned::span), text);
        }
        let path_mtu = place.path_mtu(raw, findings);
        let classical = place.classical(raw, kind, findings);
        Some(SitePeer {
            name: name?,
            line: findings.line(&place.span),
            endpoint: endpoint?,
            public_key: public_key?,
            mode: mode.or(vni.map(|vni| Mode::Plain { vni }))?,
            path_mtu,
            classical,
        })
    }

    fn name(&mut self, place: &Place, raw: &'r RawSitePeer, findings: &mut Findings) -> Option<String> {
        let Place { label, span } = place;
        let Some(value) = &raw.name else {
            findings.error(span.clone(), format!("{label}name is missing; add name = \"NAME\""));
            return None;
        };
        let name = value.get_ref();
        if !is_name(name) {
            findings.error(value.span(), bad_name(label, name));
        }
        let line = findings.line(&value.span());
        if let Some(before) = self.names.insert(name, line) {
            let text =
                format!("{label}name = {name:?} is already used on line {before}; give each peer its own");
            findings.error(value.span(), text);
        }
        Some(name.clone())
    }

    /// `Some(None)` is right for plain peers alone.
    fn public_key(
        &mut self,
        place: &Place,
        raw: &RawSitePeer,
        kind: Kind,
        findings: &mut Findings,
    ) -> Option<Option<PublicKey>> {
        let Place { label, span } = place;
        let Some(value) = &raw.public_key else {
            if kind == Kind::Plain {
                return Some(None);
            }
            let text = format!(
                "{label}public_key is missing; add the line that frameward keygen site printed at the peer"
            );
            findings.error(span.clone(), text);
            return None;
        };
        if kind == Kind::Plain {
            let text = format!("{label}public_key does nothing with mode = \"plain\"; remove it");
            findings.error(value.span(), text);
            return None;
        }
        let mut octets = [0; 32];
        if hex::decode_to_slice(value.get_ref(), &mut octets).is_err() {
            let text = format!(
                "{label}public_key is not 64 hexadecimal digits; copy the line that frameward keygen site printed"
            );
            findings.error(value.span(), text);
            return None;
        }
        let key = PublicKey(octets);
        if let Some(before) = self.keys.insert(key, findings.line(&value.span())) {
            let text = format!("{label}public_key is already used on line {before}; each site has its own");
            findings.error(value.span(), text);
        }
        Some(Some(key))
    }

    /// `Some(None)` is right for peers in identifier mode alone.
    fn endpoint(
        &mut self,
        place: &Place,
        raw: &RawSitePeer,
        kind: Kind,
        findings: &mut Findings,
    ) -> Option<Option<Endpoint>> {
        let Place { label, span } = place;
        let Some(value) = &raw.endpoint else {
            let mode = match kind {
                Kind::Identifier => return Some(None),
                Kind::HeaderEncryption => "header-encryption",
                Kind::Plain => "plain",
            };
            let text = format!(
                "{label}endpoint is missing; mode = \"{mode}\" needs it: add endpoint = \"HOST:PORT\", or use identifier"
            );
            findings.error(span.clone(), text);
            return None;
        };
        let endpoint = match value.get_ref().parse::<Endpoint>() {
            Ok(endpoint) => endpoint,
            Err(why) => {
                findings.error(value.span(), format!("{label}endpoint = {:?} {why}", value.get_ref()));
                return None;
            }
        };
        let line = findings.line(&value.span());
        if let Some(before) = self.endpoints.insert(endpoint.clone(), line) {
            let text = format!(
                "{label}endpoint = \"{endpoint}\" is already used on line {before}; each site has its own"
            );
            findings.error(value.span(), text);
        } else if kind == Kind::Plain {
            self.plain(label, value, &endpoint, findings);
        }
        Some(Some(endpoint))
    }

    fn plain(&mut self, label: &str, value: &Spanned<String>, endpoint: &Endpoint, findings: &mut Findings) {
        let line = findings.line(&value.span());
        if let Some(before) = self.plain_hosts.insert(endpoint.host.clone(), line) {
            let text = format!(
                "{label}endpoint = \"{endpoint}\": the plain peer of line {before} already has this host, and the host tells packets apart; give each peer its own"
            );
            findings.error(value.span(), text);
        }
        match self.plain_port {
            None => self.plain_port = Some((endpoint.port, line)),
            Some((port, before)) if port != endpoint.port => {
                let text = format!(
                    "{label}endpoint = \"{endpoint}\": the plain peer of line {before} has port {port}, and all plain peers of a site share one; use {port}"
                );
                findings.error(value.span(), text);
            }
            Some(_) => {}
        }
    }
}

impl Place {
    fn vni(&self, raw: &RawSitePeer, kind: Kind, findings: &mut Findings) -> Option<u32> {
        let label = &self.label;
        match (&raw.vni, kind) {
            (None, Kind::Plain) => {
                findings.error(
                    self.span.clone(),
                    format!(
                        "{label}vni is missing; mode = \"plain\" needs it: add vni = NUMBER, as at the peer"
                    ),
                );
                None
            }
            (None, _) => None,
            (Some(value), Kind::Plain) => {
                let vni = Some(*value.get_ref()).filter(|vni| VNI.contains(vni));
                if vni.is_none() {
                    let text =
                        format!("{label}vni = {} is out of range; use 0 to {}", value.get_ref(), VNI.end());
                    findings.error(value.span(), text);
                }
                vni.and_then(|vni| u32::try_from(vni).ok())
            }
            (Some(value), _) => {
                let text = format!("{label}vni is for mode = \"plain\" alone; remove it");
                findings.error(value.span(), text);
                None
            }
        }
    }

    fn classical(&self, raw: &RawSitePeer, kind: Kind, findings: &mut Findings) -> bool {
        let label = &self.label;
        let choices = [("refuse", false), ("allow", true)];
        let classical = findings.choice(label, "classical", &raw.classical, &choices, false);
        if let Some(value) = &raw.classical {
            if kind == Kind::Plain {
                let text = format!("{label}classical does nothing with mode = \"plain\"; remove it");
                findings.error(value.span(), text);
            } else if classical {
                let text = format!(
                    "{label}classical = \"allow\": if the peer does not know X25519MLKEM768, the channel uses X25519 alone, and a later quantum computer can open recordings of it"
                );
                findings.warn(value.span(), text);
            }
        }
        classical
    }

    fn path_mtu(&self, raw: &RawSitePeer, findings: &mut Findings) -> u16 {
        let Some(value) = &raw.path_mtu else { return USUAL_PATH_MTU };
        let mtu = Some(*value.get_ref()).filter(|mtu| PATH_MTU.contains(mtu));
        match mtu.and_then(|mtu| u16::try_from(mtu).ok()) {
            Some(mtu) => mtu,
            None => {
                let text = format!(
                    "{}path_mtu = {} is out of range; use {} to {}",
                    self.label,
                    value.get_ref(),
                    PATH_MTU.start(),
                    PATH_MTU.end()
                );
                findings.error(value.span(), text);
                USUAL_PATH_MTU
            }
        }
    }
}
