//! `[[site.peer]]`.

use std::collections::BTreeMap;
use std::ops::Range;

use suite::identity::PublicKey;
use toml::Spanned;
use tunnel::Mode;

use super::super::Origin;
use super::super::findings::Findings;
use super::super::reference::{RawSitePeer, SITE_PEER};
use super::super::unique_names::{UniqueNames, label, name};
use super::super::words::{Classical, Named as _};
use super::path::{self, Around};
use super::{Endpoint, Host, SitePeer};

/// Judges the peers of one site.
pub(super) struct Peers<'r> {
    around: Around,
    names: UniqueNames<'r>,
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

impl<'r> Peers<'r> {
    pub(super) fn new(around: Around) -> Self {
        Self {
            around,
            names: UniqueNames::default(),
            keys: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            plain_hosts: BTreeMap::new(),
            plain_port: None,
        }
    }

    pub(super) fn validate(
        &mut self,
        site: &str,
        number: usize,
        raw: &'r Spanned<RawSitePeer>,
        findings: &mut Findings,
    ) -> Option<SitePeer> {
        let (span, raw) = (raw.span(), raw.get_ref());
        let place = Place { label: format!("{site}{}", label("peer", &raw.name, number)), span };
        let name = name(&place.label, &place.span, &raw.name, findings);
        self.names.name(&place.label, &raw.name, "give each peer its own", findings);
        let mode = SITE_PEER.mode.choice(&place.label, &raw.mode, findings);
        let public_key = self.public_key(&place, raw, mode, findings);
        let endpoint = self.endpoint(&place, raw, mode, findings);
        let vni = place.vni(raw, mode, findings);
        let (paths, copies) =
            path::validate(&place.label, raw, mode, self.around, &mut self.endpoints, findings);
        if is_plain(mode) {
            let text = format!(
                "{}mode = \"plain\": a stranger on the path reads all addresses of the LAN's frames, and can put frames of any sender into the LAN; only MACsec at the stations protects their content",
                place.label
            );
            findings.warn(raw.mode.as_ref().map_or(place.span.clone(), Spanned::span), text);
        }
        // Fields with a question mark come last: all others are judged, whatever is missing.
        Some(SitePeer {
            line: Origin(findings.line(&place.span)),
            path_mtu: SITE_PEER.path_mtu.number_or_default(&place.label, &raw.path_mtu, findings),
            classical: place.classical(raw, mode, findings),
            paths,
            copies,
            name: name?,
            endpoint: endpoint?,
            // Found out when all peers are judged.
            via: None,
            standby_of: None,
            public_key: public_key?,
            mode: if is_plain(mode) { Mode::Plain { vni: vni? } } else { mode },
        })
    }

    /// `Some(None)` is right for plain peers alone.
    fn public_key(
        &mut self,
        place: &Place,
        raw: &RawSitePeer,
        mode: Mode,
        findings: &mut Findings,
    ) -> Option<Option<PublicKey>> {
        let Place { label, span } = place;
        let Some(value) = &raw.public_key else {
            if is_plain(mode) {
                return Some(None);
            }
            let text = format!(
                "{label}public_key is missing; add the line that frameward keygen site printed at the peer"
            );
            findings.error(span.clone(), text);
            return None;
        };
        if is_plain(mode) {
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
        mode: Mode,
        findings: &mut Findings,
    ) -> Option<Option<Endpoint>> {
        let Place { label, span } = place;
        let Some(value) = &raw.endpoint else {
            if mode == Mode::Identifier {
                return Some(None);
            }
            let text = format!(
                "{label}endpoint is missing; mode = \"{}\" needs it: add endpoint = \"HOST:PORT\", or use identifier",
                mode.name()
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
        } else if is_plain(mode) {
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
    fn vni(&self, raw: &RawSitePeer, mode: Mode, findings: &mut Findings) -> Option<u32> {
        let label = &self.label;
        match &raw.vni {
            None if is_plain(mode) => {
                let text = format!(
                    "{label}vni is missing; mode = \"plain\" needs it: add vni = NUMBER, as at the peer"
                );
                findings.error(self.span.clone(), text);
                None
            }
            None => None,
            Some(value) if is_plain(mode) => SITE_PEER.vni.number(label, value, findings),
            Some(value) => {
                findings.error(value.span(), format!("{label}vni is for mode = \"plain\" alone; remove it"));
                None
            }
        }
    }

    fn classical(&self, raw: &RawSitePeer, mode: Mode, findings: &mut Findings) -> bool {
        let label = &self.label;
        let choice: Classical = SITE_PEER.classical.choice(label, &raw.classical, findings);
        let classical = choice == Classical::Allow;
        if let Some(value) = &raw.classical {
            if is_plain(mode) {
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
}

const fn is_plain(mode: Mode) -> bool {
    matches!(mode, Mode::Plain { .. })
}
