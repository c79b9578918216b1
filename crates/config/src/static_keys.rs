//! `[link.static]` and `[[link.static.peer]]`: SAs with keys from files.
//!
//! The rule: no two frames are sealed under one key with one nonce. The nonce is made of SCI and PN, or of SSCI, PN and
//! salt with XPN (the AN is no part of it), so no two SAs of the whole gateway, own or peers', may have equal key and
//! SCI, or SSCI. This also catches two ends' files that were copied, and one key file named twice.
//!
//! One key for both directions of a link repeats no nonce as long as the SCIs differ. It is refused all the same: then
//! whoever may receive may also send as the other end, and a mistake with an SCI is all that keeps nonces apart.

mod nonces;

use std::ops::Range;
use std::path::PathBuf;

use secy::{SciInclusion, SecY, XpnBinding};
use suite::{CipherSuite, Sak, Salt};
use toml::{Spanned, Value};
use wire::{An, Sci, Ssci};

use super::findings::Findings;
use super::key_source::KeySource;
use super::reference::{RawPeer, RawStatic, STATIC, STATIC_PEER};
use super::words::ReplayFloor;
use super::{Origin, StaticSa, StaticSas};
use crate::key_file::{is_zeros, zeros};
pub(super) use nonces::{Place, refuse_repeated_nonces};

/// Settings that the own SA and a peer's SA have in common.
pub(super) struct RawSa<'r> {
    pub(super) an: &'r Option<Spanned<i64>>,
    pub(super) sci: &'r Option<Spanned<String>>,
    pub(super) key_file: &'r Option<Spanned<String>>,
    pub(super) ssci: &'r Option<Spanned<Value>>,
    pub(super) salt: &'r Option<Spanned<String>>,
}

impl<'r> From<&'r RawStatic> for RawSa<'r> {
    fn from(RawStatic { an, sci, key_file, ssci, salt, .. }: &'r RawStatic) -> Self {
        Self { an, sci, key_file, ssci, salt }
    }
}

impl<'r> From<&'r RawPeer> for RawSa<'r> {
    fn from(RawPeer { an, sci, key_file, ssci, salt, .. }: &'r RawPeer) -> Self {
        Self { an, sci, key_file, ssci, salt }
    }
}

/// Settings of a link by which its SAs are judged.
pub(super) struct Scope<'s> {
    pub(super) label: &'s str,
    /// "link" or "site".
    pub(super) section: &'static str,
    pub(super) link: Range<usize>,
    pub(super) sci: &'s Option<Spanned<String>>,
    pub(super) sci_inclusion: SciInclusion,
}

impl Scope<'_> {
    pub(super) fn validate(
        &self,
        section: &Spanned<RawStatic>,
        suite: CipherSuite,
        keys: &KeySource,
        places: &mut Vec<Place>,
        findings: &mut Findings,
    ) -> Option<StaticSas> {
        let own = section.get_ref();
        let at = places.len();
        let transmit = self.sa(&own.into(), section.span(), suite, keys, places, findings);
        places.iter_mut().skip(at).for_each(|place| place.own = true);
        let mut receive = Vec::new();
        for peer in &own.peer {
            let replay_floor = self.replay_floor(peer, findings);
            let sa = self.sa(&peer.get_ref().into(), peer.span(), suite, keys, places, findings);
            receive.extend(sa.map(|sa| StaticSa { replay_floor, ..sa }));
        }
        let all_read = transmit.is_some() && receive.len() == own.peer.len();
        if let (Some(transmit), true) = (&transmit, all_read) {
            self.peers(section, transmit, &receive, findings);
            self.inclusion(transmit, &receive, findings);
        }
        Some(StaticSas { suite, transmit: transmit?, receive })
    }

    /// Off is for peers that begin again at PN 1 whenever they start.
    fn replay_floor(&self, peer: &Spanned<RawPeer>, findings: &mut Findings) -> bool {
        let floor = &peer.get_ref().replay_floor;
        let choice: ReplayFloor = STATIC_PEER.replay_floor.choice(self.label, floor, findings);
        let kept = choice == ReplayFloor::On;
        if let (Some(value), false) = (floor, kept) {
            findings.warn(value.span(), format!("{}replay_floor = \"off\": {NO_FLOOR}", self.label));
        }
        kept
    }

    fn sa(
        &self,
        raw: &RawSa,
        span: Range<usize>,
        suite: CipherSuite,
        keys: &KeySource,
        places: &mut Vec<Place>,
        findings: &mut Findings,
    ) -> Option<StaticSa> {
        let an = self.an(raw, &span, findings);
        let sci = self.sci(raw, &span, findings);
        let key_and_file = self.key(raw, &span, suite, keys, findings);
        let xpn = self.xpn(raw, &span, suite, findings);
        let (key, key_file) = key_and_file?;
        if is_zeros(key.octets()) {
            let span = raw.key_file.as_ref().map_or(span, Spanned::span);
            findings.error(span, format!("{}{}", self.label, zeros(&key_file, "static")));
            return None;
        }
        let span = raw.key_file.as_ref().map_or(span, Spanned::span);
        let sa = StaticSa {
            an: an?,
            sci: sci?,
            key,
            key_file: Origin(key_file),
            line: Origin(findings.line(&span)),
            xpn: xpn?,
            replay_floor: true,
        };
        places.push(Place {
            span,
            label: self.label.to_owned(),
            suite,
            key: sa.key.clone(),
            sci: sa.sci,
            xpn: sa.xpn,
            link: self.link.start,
            own: false,
        });
        Some(sa)
    }

    pub(super) fn an(&self, raw: &RawSa, span: &Range<usize>, findings: &mut Findings) -> Option<An> {
        let value = STATIC.an.required(self.label, span, raw.an, "; add an = 0", findings)?;
        STATIC.an.number(self.label, value, findings).and_then(An::new)
    }

    pub(super) fn sci(&self, raw: &RawSa, span: &Range<usize>, findings: &mut Findings) -> Option<Sci> {
        let cure = "; add sci = \"02:00:00:00:00:01/1\"";
        let value = STATIC.sci.required(self.label, span, raw.sci, cure, findings)?;
        match value.get_ref().parse() {
            Ok(sci) => Some(sci),
            Err(error) => {
                let text = format!("{}sci = {:?} is {error}; correct it", self.label, value.get_ref());
                findings.error(value.span(), text);
                None
            }
        }
    }

    pub(super) fn key(
        &self,
        raw: &RawSa,
        span: &Range<usize>,
        suite: CipherSuite,
        keys: &KeySource,
        findings: &mut Findings,
    ) -> Option<(Sak, PathBuf)> {
        let cure = "; add key_file = \"FILE\"";
        let value = STATIC.key_file.required(self.label, span, raw.key_file, cure, findings)?;
        let file = keys.path(value);
        // Marks of its use stand beside its file, and nothing can be written beside a credential.
        if value.get_ref().starts_with("credential:") {
            let cure = "static keys cannot be credentials, since marks of their use stand beside their file; name a file, or use [link.mka]";
            findings.error(value.span(), format!("{}key_file: {cure}", self.label));
            return None;
        }
        match (keys.files.key)(&file, suite) {
            Ok(key) => Some((key, file)),
            Err(error) => {
                findings.error(value.span(), format!("{}{error}", self.label));
                None
            }
        }
    }

    /// The outer `None`: an error was found.
    pub(super) fn xpn(
        &self,
        raw: &RawSa,
        span: &Range<usize>,
        suite: CipherSuite,
        findings: &mut Findings,
    ) -> Option<Option<XpnBinding>> {
        if !suite.is_xpn() {
            let needless = [
                ("ssci", raw.ssci.as_ref().map(Spanned::span)),
                ("salt", raw.salt.as_ref().map(Spanned::span)),
            ];
            let mut fine = Some(None);
            for (key, span) in needless {
                if let Some(span) = span {
                    findings.error(
                        span,
                        format!("{}{key} does not go with suite {suite}; remove it", self.label),
                    );
                    fine = None;
                }
            }
            return fine;
        }
        let cure = "; add ssci = 1 (each SC another)";
        let ssci = STATIC.ssci.required(self.label, span, raw.ssci, cure, findings).and_then(|value| {
            let ssci = ssci(value.get_ref());
            if ssci.is_none() {
                let text =
                    format!("{}ssci is not an SSCI; use 1 to 4294967295, or \"0x\" and 8 digits", self.label);
                findings.error(value.span(), text);
            }
            ssci
        });
        let cure = "; add salt = 24 hexadecimal digits (keygen static --salt prints some)";
        let salt = STATIC.salt.required(self.label, span, raw.salt, cure, findings).and_then(|value| {
            let mut salt = [0; 12];
            let decoded = hex::decode_to_slice(value.get_ref(), &mut salt);
            if decoded.is_err() {
                let text = format!("{}salt is not 24 hexadecimal digits; correct it", self.label);
                findings.error(value.span(), text);
            }
            decoded.ok().map(|()| Salt(salt))
        });
        Some(Some(XpnBinding { ssci: ssci?, salt: salt? }))
    }

    /// Rules for the peers of a link among each other and with the own SA.
    fn peers(
        &self,
        section: &Spanned<RawStatic>,
        transmit: &StaticSa,
        receive: &[StaticSa],
        findings: &mut Findings,
    ) {
        let label = self.label;
        if receive.is_empty() {
            let text =
                format!("{label}has no peer, so it delivers nothing; add [[{}.static.peer]]", self.section);
            findings.warn(section.span(), text);
        }
        for (at, (peer, raw)) in receive.iter().zip(&section.get_ref().peer).enumerate() {
            if peer.sci == transmit.sci {
                let text =
                    format!("{label}the peer's sci {} is that of this end; give each end its own", peer.sci);
                findings.error(raw.span(), text);
            }
            if receive.iter().take(at).any(|other| (other.sci, other.an) == (peer.sci, peer.an)) {
                let text = format!(
                    "{label}sci {} has AN {} already; give its further keys other ANs",
                    peer.sci, peer.an
                );
                findings.error(raw.span(), text);
            }
        }
        if distinct_scis(receive) > SecY::RECEIVE_SCS {
            let text = format!("{label}has more than {} peers; split the network", SecY::RECEIVE_SCS);
            findings.error(section.span(), text);
        }
    }

    /// Demands of a SecTAG without SCI on the network (IEEE 802.1AE clause 9.5).
    ///
    /// With `end-station` the receiver takes the source address of a frame, port 1, for its SCI. The source
    /// address is the machine's, since the link is transparent: only frames of the one machine whose address the
    /// SCI holds can be verified at the other end.
    fn inclusion(&self, transmit: &StaticSa, receive: &[StaticSa], findings: &mut Findings) {
        let label = self.label;
        let span = self.sci.as_ref().map_or(self.link.clone(), Spanned::span);
        match self.sci_inclusion {
            SciInclusion::Always => {}
            SciInclusion::Never => {
                if distinct_scis(receive) > 1 {
                    let text = format!("{label}sci = \"never\" is for a single peer; use \"always\"");
                    findings.error(span, text);
                }
            }
            SciInclusion::EndStation => {
                let (system, port) = (transmit.sci.system(), transmit.sci.port());
                if port != Sci::PORT_END_STATION || system.is_group() {
                    let text = format!(
                        "{label}sci = \"end-station\" implies the machine's address with port 1, not {}; set sci to that in [link.static], or use \"always\"",
                        transmit.sci
                    );
                    findings.error(span, text);
                } else {
                    let text = format!(
                        "{label}sci = \"end-station\": peers discard all frames but those that the machine {system} sends"
                    );
                    findings.warn(span, text);
                }
            }
        }
    }
}

const NO_FLOOR: &str = "frames recorded before a restart of this gateway can be sent again after it";

fn distinct_scis(receive: &[StaticSa]) -> usize {
    receive.iter().map(|peer| peer.sci).collect::<std::collections::BTreeSet<_>>().len()
}

pub(super) fn ssci(value: &Value) -> Option<Ssci> {
    let number = match value {
        Value::Integer(number) => u32::try_from(*number).ok()?,
        Value::String(text) => {
            let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 8)?;
            let mut octets = [0; 4];
            hex::decode_to_slice(digits, &mut octets).ok()?;
            u32::from_be_bytes(octets)
        }
        _ => return None,
    };
    (number != 0).then_some(Ssci(number))
}
