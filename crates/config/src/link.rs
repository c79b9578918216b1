//! `[[link]]`, without its keys.

use std::collections::BTreeMap;
use std::ops::Range;

use ::mka::SuiteRule;
use secy::pn::ReplayWindow;
use secy::{ClearVlan, ConfidentialityOffset, Protection, SciInclusion, ValidateFrames};
use suite::CipherSuite;
use toml::{Spanned, Value};

use super::bypass;
use super::findings::{Findings, list};
use super::fragment;
use super::gateway::bad_name;
use super::mka::{self, CakSource, SeenScis};
use super::raw::RawLink;
use super::static_keys::{self, KeySource, Place};
use super::{Keys, Link, LinkLoss, Mtu, is_name};

/// The smallest and the largest MTU of a protected side that can be set.
const MTU: std::ops::RangeInclusive<u16> = 576..=9216;

pub(super) fn validate_all<'r>(
    raw: &'r [Spanned<RawLink>],
    allow_experimental: bool,
    sources: (&KeySource, &CakSource),
    seen: &mut Seen<'r>,
    findings: &mut Findings,
) -> Vec<Link> {
    let (mut places, mut scis) = (Vec::new(), SeenScis::default());
    let mut links = Vec::new();
    for (at, spanned) in raw.iter().enumerate() {
        let link = spanned.get_ref();
        let label = match &link.name {
            Some(name) => format!("link {:?}: ", name.get_ref()),
            None => format!("link {}: ", at + 1),
        };
        if let Some(name) = &link.name {
            seen.name(&label, name, "give each link its own", findings);
        }
        for (key, interface) in [("plain", &link.plain), ("protected", &link.protected)] {
            if let Some(interface) = interface {
                seen.interface(&label, key, interface, "an interface serves one side of one link", findings);
            }
        }
        let judge = Judge { label, span: spanned.span(), allow_experimental };
        let judged = judge.link(link, sources, &mut places, findings);
        if let (Some(mka), Some(section)) = (judged.as_ref().and_then(Link::mka), &link.mka) {
            scis.once(&judge.label, section, mka, findings);
        }
        links.extend(judged);
    }
    static_keys::refuse_repeated_nonces(&places, findings);
    links
}

/// What stood in the configuration already, by name, with its line.
#[derive(Default)]
pub(super) struct Seen<'r> {
    names: BTreeMap<&'r str, usize>,
    interfaces: BTreeMap<&'r str, usize>,
}

impl<'r> Seen<'r> {
    /// Refuses a name that a link or a site has.
    pub(super) fn name(
        &mut self,
        label: &str,
        name: &'r Spanned<String>,
        cure: &str,
        findings: &mut Findings,
    ) {
        once(label, "name", name, &mut self.names, cure, findings);
    }

    /// Refuses an interface that a link or a site has.
    pub(super) fn interface(
        &mut self,
        label: &str,
        key: &str,
        interface: &'r Spanned<String>,
        cure: &str,
        findings: &mut Findings,
    ) {
        once(label, key, interface, &mut self.interfaces, cure, findings);
    }
}

fn once<'r>(
    label: &str,
    key: &str,
    value: &'r Spanned<String>,
    seen: &mut BTreeMap<&'r str, usize>,
    cure: &str,
    findings: &mut Findings,
) {
    let line = findings.line(&value.span());
    if let Some(earlier) = seen.insert(value.get_ref(), line) {
        let text = format!("{label}{key} = {:?} is already used on line {earlier}; {cure}", value.get_ref());
        findings.error(value.span(), text);
    }
}

/// Judges one link.
struct Judge {
    /// `link "name": `, the beginning of every finding.
    label: String,
    /// Where the link begins.
    span: Range<usize>,
    allow_experimental: bool,
}

impl Judge {
    fn link(
        &self,
        raw: &RawLink,
        sources: (&KeySource, &CakSource),
        places: &mut Vec<Place>,
        findings: &mut Findings,
    ) -> Option<Link> {
        let label = &self.label;
        let name = name(label, &self.span, &raw.name, findings);
        let plain = interface_name(label, &self.span, "plain", &raw.plain, findings);
        let protected = interface_name(label, &self.span, "protected", &raw.protected, findings);
        let suite = self.suite(raw, findings);
        let protection = self.protection(raw, by_name(suite), findings);
        let sci = [
            ("always", SciInclusion::Always),
            ("never", SciInclusion::Never),
            ("end-station", SciInclusion::EndStation),
        ];
        let sci_inclusion = findings.choice(label, "sci", &raw.sci, &sci, SciInclusion::Always);
        let validate_frames = self.validate_frames(raw, findings);
        let clear_vlan = [("refuse", ClearVlan::Refuse), ("strip", ClearVlan::Strip)];
        let clear_vlan =
            findings.choice(label, "clear_vlan", &raw.clear_vlan, &clear_vlan, ClearVlan::Refuse);
        let fragmentation = fragment::validate(label, raw, protection, validate_frames, findings);
        let replay_window = self.replay_window(raw, findings);
        let mtu = mtu(label, &raw.mtu, findings);
        let bypass = bypass::validate(label, raw, findings);
        let link_loss = [LinkLoss::Off, LinkLoss::Forward, LinkLoss::Both].map(|rule| (rule.name(), rule));
        let link_loss = findings.choice(label, "link_loss", &raw.link_loss, &link_loss, LinkLoss::Forward);
        let protect_frames = self.switch("protect_frames", &raw.protect_frames, UNPROTECTED, findings);
        let replay_protect = self.switch("replay_protect", &raw.replay_protect, REPLAYABLE, findings);
        let keys = self.keys(raw, suite, (protection, sci_inclusion), sources, places, findings);
        Some(Link {
            name: name?,
            line: findings.line(&self.span),
            plain: plain?,
            protected: protected?,
            protect_frames,
            protection,
            sci_inclusion,
            validate_frames,
            replay_protect,
            replay_window,
            mtu,
            clear_vlan,
            bypass,
            fragmentation,
            link_loss,
            allow_addresses: raw.allow_addresses.as_ref().is_some_and(|allow| *allow.get_ref()),
            keys: keys?,
            cell: None,
        })
    }

    /// Exactly one section says where keys come from.
    fn keys(
        &self,
        raw: &RawLink,
        suite: Option<SuiteRule>,
        (protection, sci_inclusion): (Protection, SciInclusion),
        (keys, caks): (&KeySource, &CakSource),
        places: &mut Vec<Place>,
        findings: &mut Findings,
    ) -> Option<Keys> {
        let label = &self.label;
        match (&raw.static_keys, &raw.mka) {
            (None, None) => {
                let text = format!("{label}has no keys; add [link.mka] or [link.static]");
                findings.error(self.span.clone(), text);
                None
            }
            (Some(_), Some(mka)) => {
                let text = format!("{label}has [link.mka] and [link.static]; remove one of them");
                findings.error(mka.span(), text);
                None
            }
            (Some(section), None) => {
                let scope =
                    static_keys::Scope { label, link: self.span.clone(), sci: &raw.sci, sci_inclusion };
                Some(Keys::Static(scope.validate(section, by_name(suite)?, keys, places, findings)?))
            }
            (None, Some(section)) => {
                let scope = mka::Scope { label, raw, suite: suite?, protection, sci_inclusion };
                scope.validate(section, caks, findings).map(Box::new).map(Keys::Agreed)
            }
        }
    }

    /// A switch that is on by default; off is warned.
    fn switch(
        &self,
        key: &str,
        value: &Option<Spanned<bool>>,
        warning: &str,
        findings: &mut Findings,
    ) -> bool {
        match value {
            Some(value) if !*value.get_ref() => {
                findings.warn(value.span(), format!("{}{key} = false: {warning}", self.label));
                false
            }
            _ => true,
        }
    }

    fn suite(&self, raw: &RawLink, findings: &mut Findings) -> Option<SuiteRule> {
        let label = &self.label;
        let known = || list(&CipherSuite::ALL.map(|suite| suite.name().to_owned()));
        let Some(value) = &raw.suite else {
            if raw.mka.is_some() {
                return Some(UNNAMED);
            }
            let text = format!("{label}suite is missing; static keys need its name: {}", known());
            findings.error(self.span.clone(), text);
            return None;
        };
        if let Some((word, rule)) = AGREED.iter().find(|(word, _)| word == value.get_ref()) {
            if raw.mka.is_some() {
                return Some(*rule);
            }
            let text = format!("{label}suite = {word:?} needs MKA; with static keys name it: {}", known());
            findings.error(value.span(), text);
            return None;
        }
        let Ok(suite) = value.get_ref().parse::<CipherSuite>() else {
            let auto = if raw.mka.is_some() { "auto, any, " } else { "" };
            findings.error(
                value.span(),
                format!("{label}suite = {:?} is unknown; use {auto}{}", value.get_ref(), known()),
            );
            return None;
        };
        if suite.is_experimental() && self.allow_experimental {
            findings.warn(
                value.span(),
                format!("{label}suite = \"{suite}\" is broken in theory: for research, not for protection"),
            );
        } else if suite.is_experimental() {
            findings.error(
                value.span(),
                format!(
                    "{label}suite = \"{suite}\" is experimental; use another, or for research set allow_experimental = true in [gateway]"
                ),
            );
        }
        Some(SuiteRule::Only(suite))
    }

    fn protection(&self, raw: &RawLink, suite: Option<CipherSuite>, findings: &mut Findings) -> Protection {
        let label = &self.label;
        let encrypt = raw.encrypt.as_ref().is_none_or(|encrypt| *encrypt.get_ref());
        let mut offset = ConfidentialityOffset::Zero;
        if let Some(value) = &raw.confidentiality_offset {
            match value.get_ref() {
                0 => {}
                30 => offset = ConfidentialityOffset::Thirty,
                50 => offset = ConfidentialityOffset::Fifty,
                other => {
                    let text =
                        format!("{label}confidentiality_offset = {other} is no choice; use 0, 30 or 50");
                    findings.error(value.span(), text);
                }
            }
            let set = offset != ConfidentialityOffset::Zero;
            let why = match suite {
                _ if !encrypt => Some("encrypt = false"),
                Some(suite) if !suite.allows_confidentiality_offset() => Some("an XPN suite"),
                _ => None,
            };
            if let (true, Some(why)) = (set, why) {
                let text = format!(
                    "{label}confidentiality_offset = {} does not go with {why}; remove it",
                    offset.octets()
                );
                findings.error(value.span(), text);
            }
        }
        if encrypt { Protection::Encrypt(offset) } else { Protection::Integrity }
    }

    fn validate_frames(&self, raw: &RawLink, findings: &mut Findings) -> ValidateFrames {
        let choices = [
            ("strict", ValidateFrames::Strict),
            ("check", ValidateFrames::Check),
            ("disabled", ValidateFrames::Disabled),
        ];
        let key = "validate_frames";
        let chosen =
            findings.choice(&self.label, key, &raw.validate_frames, &choices, ValidateFrames::Strict);
        if let (Some(value), ValidateFrames::Check | ValidateFrames::Disabled) =
            (&raw.validate_frames, chosen)
        {
            let text =
                format!("{}{key} = {:?}: forged frames reach the machine", self.label, value.get_ref());
            findings.warn(value.span(), text);
        }
        chosen
    }

    fn replay_window(&self, raw: &RawLink, findings: &mut Findings) -> u32 {
        let Some(value) = &raw.replay_window else { return 0 };
        match u32::try_from(*value.get_ref()) {
            Ok(window) if window <= ReplayWindow::WIDEST => window,
            _ => {
                let text = format!(
                    "{}replay_window = {} is out of range; use 0 to {}",
                    self.label,
                    value.get_ref(),
                    ReplayWindow::WIDEST
                );
                findings.error(value.span(), text);
                0
            }
        }
    }
}

/// Of the standard's suites; which one, the CAK says.
const UNNAMED: SuiteRule = SuiteRule::Standard(CipherSuite::GcmAes128);
/// Words in place of a suite's name.
pub(super) const AGREED: [(&str, SuiteRule); 2] = [("auto", UNNAMED), ("any", SuiteRule::Any)];

/// The suite that is named, if one is.
const fn by_name(rule: Option<SuiteRule>) -> Option<CipherSuite> {
    match rule {
        Some(SuiteRule::Only(suite)) => Some(suite),
        _ => None,
    }
}

/// The name of a link, a site or a fieldbus.
pub(super) fn name(
    label: &str,
    section: &Range<usize>,
    value: &Option<Spanned<String>>,
    findings: &mut Findings,
) -> Option<String> {
    let Some(name) = value else {
        findings.error(section.clone(), format!("{label}name is missing; add name = \"NAME\""));
        return None;
    };
    if !is_name(name.get_ref()) {
        findings.error(name.span(), bad_name(label, name.get_ref()));
    }
    Some(name.get_ref().clone())
}

/// The interface that a key names.
pub(super) fn interface_name(
    label: &str,
    section: &Range<usize>,
    key: &str,
    value: &Option<Spanned<String>>,
    findings: &mut Findings,
) -> Option<String> {
    let Some(value) = value else {
        findings.error(section.clone(), format!("{label}{key} is missing; add {key} = \"INTERFACE\""));
        return None;
    };
    let name = value.get_ref();
    // What Linux accepts (dev_valid_name).
    let bad = name.is_empty()
        || name.len() > 15
        || matches!(name.as_str(), "." | "..")
        || name.chars().any(|c| c == '/' || c == ':' || c.is_whitespace() || c.is_control());
    if bad {
        let text = format!(
            "{label}{key} = {name:?} is no interface name; use 1 to 15 octets without space, / and :"
        );
        findings.error(value.span(), text);
    }
    Some(name.clone())
}

/// The MTU of a link's protected side, or of a site's LAN.
pub(super) fn mtu(label: &str, value: &Option<Spanned<Value>>, findings: &mut Findings) -> Mtu {
    let Some(value) = value else { return Mtu::Interface };
    match value.get_ref() {
        Value::String(text) if text == "interface" => return Mtu::Interface,
        Value::Integer(octets) => {
            if let Some(octets) = u16::try_from(*octets).ok().filter(|octets| MTU.contains(octets)) {
                return Mtu::Octets(octets);
            }
        }
        _ => {}
    }
    let text = format!(
        "{label}mtu is neither \"interface\" nor {} to {} octets; use one of them",
        MTU.start(),
        MTU.end()
    );
    findings.error(value.span(), text);
    Mtu::Interface
}

const UNPROTECTED: &str = "frames leave in CLEAR, without encryption and without ICV";
const REPLAYABLE: &str = "recorded frames can be sent again, and reach the machine";
