//! `[[link]]`, without its keys: what is right and wrong in it.

use std::ops::Range;
use std::time::Duration;

use ::mka::SuiteRule;
use dataplane::fragmenter::FragmentConfig;
use secy::{ClearVlan, ConfidentialityOffset, ExpressClasses, Protection, SciInclusion, ValidateFrames};
use suite::CipherSuite;
use toml::{Spanned, Value};

use super::super::bypass;
use super::super::express;
use super::super::findings::{Findings, list};
use super::super::fragment;
use super::super::key_source::KeySource;
use super::super::mka::{self, SeenScis};
use super::super::padding;
use super::super::reference::{Key, LINK, RawLink, RawSite, SITE};
use super::super::static_keys::{self, Place};
use super::super::unique_names::{UniqueNames, interface_name, label, name};
use super::super::words::{AGREED, UNNAMED};
use super::super::{Keys, Link, LinkLoss, Mtu, Origin, WholeSdus};

/// The links, and those inside of sites that protect their LANs.
pub(in super::super) fn validate_all<'r>(
    raw: &'r [Spanned<RawLink>],
    sites: &[Spanned<RawSite>],
    allow_experimental: bool,
    keys: &KeySource,
    names: &mut UniqueNames<'r>,
    findings: &mut Findings,
) -> (Vec<Link>, Vec<Link>) {
    let (mut places, mut scis) = (Vec::new(), SeenScis::default());
    let mut links = Vec::new();
    for (at, spanned) in raw.iter().enumerate() {
        let link = spanned.get_ref();
        let label = label("link", &link.name, at);
        names.name(&label, &link.name, "give each link its own", findings);
        for (key, interface) in [("plain", &link.plain), ("protected", &link.protected)] {
            if let Some(interface) = interface {
                names.interface(&label, key, interface, "an interface serves one side of one link", findings);
            }
        }
        let judge = Judge { label, section: "link", span: spanned.span(), allow_experimental };
        let judged = judge.link(link, keys, &mut places, findings);
        if let (Some(mka), Some(section)) = (judged.as_ref().and_then(Link::mka), &link.mka) {
            scis.once(&judge.label, section, mka, findings);
        }
        links.extend(judged);
    }
    let mut in_sites = Vec::new();
    for (at, spanned) in sites.iter().enumerate() {
        let site = spanned.get_ref();
        if !SITE.protect.switch(&site.protect) {
            continue;
        }
        let (label, span) = (label("site", &site.name, at), spanned.span());
        let judge = Judge { label, section: "site", span, allow_experimental };
        let judged = judge.in_site(site, keys, &mut places, findings);
        if let (Some(mka), Some(section)) = (judged.as_ref().and_then(Link::mka), &site.mka) {
            scis.once(&judge.label, section, mka, findings);
        }
        in_sites.extend(judged);
    }
    static_keys::refuse_repeated_nonces(&places, findings);
    (links, in_sites)
}

/// Judges one link.
struct Judge {
    /// `link "name": `, the beginning of every finding.
    label: String,
    /// "link" or "site".
    section: &'static str,
    /// Place of the link in the file.
    span: Range<usize>,
    allow_experimental: bool,
}

impl Judge {
    fn link(
        &self,
        raw: &RawLink,
        keys: &KeySource,
        places: &mut Vec<Place>,
        findings: &mut Findings,
    ) -> Option<Link> {
        let label = &self.label;
        let name = name(label, &self.span, &raw.name, findings);
        let plain = interface_name(label, &self.span, LINK.plain, &raw.plain, findings);
        let protected = interface_name(label, &self.span, LINK.protected, &raw.protected, findings);
        let suite = self.suite(raw, findings);
        let protection = self.protection(raw, by_name(suite), findings);
        let sci_inclusion = LINK.sci.choice(label, &raw.sci, findings);
        let validate_frames = self.validate_frames(raw, findings);
        let keys = self.keys(raw, suite, (protection, sci_inclusion), keys, places, findings);
        let (fragmentation, whole_sdus) =
            fragment::validate(label, raw, protection, validate_frames, findings);
        let divides = fragmentation.is_some();
        // Fields with a question mark come last: all others are judged, whatever is missing.
        Some(Link {
            line: Origin(findings.line(&self.span)),
            protect_frames: self.switch(LINK.protect_frames, &raw.protect_frames, UNPROTECTED, findings),
            protection,
            sci_inclusion,
            validate_frames,
            replay_protect: self.switch(LINK.replay_protect, &raw.replay_protect, REPLAYABLE, findings),
            replay_window: LINK.replay_window.number_or_default(label, &raw.replay_window, findings),
            mtu: mtu(label, LINK.mtu, &raw.mtu, findings),
            clear_vlan: LINK.clear_vlan.choice(label, &raw.clear_vlan, findings),
            bypass: bypass::validate(label, raw, findings),
            fragmentation,
            whole_sdus,
            express: express::validate(label, raw, (keys.as_ref(), sci_inclusion, divides), findings),
            link_loss: LINK.link_loss.choice(label, &raw.link_loss, findings),
            allow_addresses: LINK.allow_addresses.switch(&raw.allow_addresses),
            cell: None,
            name: name?,
            plain: plain?,
            protected: protected?,
            in_site: false,
            keys: keys?,
        })
    }

    /// The link inside of a site, which is judged elsewhere ([`Link::take_from_site`]). Frames that do not fit a packet are the
    /// tunnel's to split.
    fn in_site(
        &self,
        site: &RawSite,
        keys: &KeySource,
        places: &mut Vec<Place>,
        findings: &mut Findings,
    ) -> Option<Link> {
        let raw = RawLink {
            suite: site.suite.clone(),
            mka: site.mka.clone(),
            static_keys: site.static_keys.clone(),
            ..RawLink::default()
        };
        let suite = self.suite(&raw, findings);
        let (protection, sci_inclusion) =
            (Protection::Encrypt(ConfidentialityOffset::Zero), SciInclusion::Always);
        let keys = self.keys(&raw, suite, (protection, sci_inclusion), keys, places, findings);
        let padding = padding::sizes(&self.label, SITE.padding, &site.padding, findings);
        // The order of frames at the uplink is the tunnel's.
        let padded = FragmentConfig {
            fragment: false,
            concatenate: false,
            padding,
            hold: Duration::ZERO,
            express: ExpressClasses::NONE,
        };
        Some(Link {
            name: site.name.as_ref()?.get_ref().clone(),
            line: Origin(findings.line(&self.span)),
            plain: site.lan.as_ref()?.get_ref().clone(),
            protected: "tunnel".to_owned(),
            in_site: true,
            protect_frames: true,
            protection,
            sci_inclusion,
            validate_frames: ValidateFrames::Strict,
            replay_protect: true,
            replay_window: 0,
            mtu: Mtu::Interface,
            clear_vlan: ClearVlan::Refuse,
            bypass: Vec::new(),
            fragmentation: (!padding.is_none()).then_some(padded),
            whole_sdus: WholeSdus::AsConfigured,
            express: false,
            link_loss: LinkLoss::Off,
            allow_addresses: false,
            cell: None,
            keys: keys?,
        })
    }

    /// Exactly one section says where keys come from.
    fn keys(
        &self,
        raw: &RawLink,
        suite: Option<SuiteRule>,
        (protection, sci_inclusion): (Protection, SciInclusion),
        keys: &KeySource,
        places: &mut Vec<Place>,
        findings: &mut Findings,
    ) -> Option<Keys> {
        let label = &self.label;
        match (&raw.static_keys, &raw.mka) {
            (None, None) => {
                let section = self.section;
                let text = format!("{label}has no keys; add [{section}.mka] or [{section}.static]");
                findings.error(self.span.clone(), text);
                None
            }
            (Some(_), Some(mka)) => {
                let section = self.section;
                let text = format!("{label}has [{section}.mka] and [{section}.static]; remove one of them");
                findings.error(mka.span(), text);
                None
            }
            (Some(section), None) => {
                let (section_name, link) = (self.section, self.span.clone());
                let scope =
                    static_keys::Scope { label, section: section_name, link, sci: &raw.sci, sci_inclusion };
                Some(Keys::Static(scope.validate(section, by_name(suite)?, keys, places, findings)?))
            }
            (None, Some(section)) => {
                let in_site = self.section == "site";
                let scope = mka::Scope { label, in_site, raw, suite: suite?, protection, sci_inclusion };
                scope.validate(section, keys, findings).map(Box::new).map(Keys::Agreed)
            }
        }
    }

    /// A switch that is warned of if it is off.
    fn switch(
        &self,
        key: Key,
        value: &Option<Spanned<bool>>,
        warning: &str,
        findings: &mut Findings,
    ) -> bool {
        let on = key.switch(value);
        if let (Some(value), false) = (value, on) {
            findings.warn(value.span(), format!("{}{} = false: {warning}", self.label, key.name));
        }
        on
    }

    fn suite(&self, raw: &RawLink, findings: &mut Findings) -> Option<SuiteRule> {
        let label = &self.label;
        let known = || list(&CipherSuite::ALL.map(|suite| suite.name().to_owned()));
        let Some(value) = &raw.suite else {
            if raw.mka.is_some() {
                return Some(UNNAMED);
            }
            // Without keys those are missing, and nothing is known of a suite.
            raw.static_keys.as_ref()?;
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
        let encrypt = LINK.encrypt.switch(&raw.encrypt);
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
        let chosen = LINK.validate_frames.choice(&self.label, &raw.validate_frames, findings);
        if let (Some(value), ValidateFrames::Check | ValidateFrames::Disabled) =
            (&raw.validate_frames, chosen)
        {
            let text = format!(
                "{}validate_frames = {:?}: forged frames reach the machine",
                self.label,
                value.get_ref()
            );
            findings.warn(value.span(), text);
        }
        chosen
    }
}

/// The suite that is named, if one is.
const fn by_name(rule: Option<SuiteRule>) -> Option<CipherSuite> {
    match rule {
        Some(SuiteRule::Only(suite)) => Some(suite),
        _ => None,
    }
}

/// The MTU of a link's protected side, or of a site's LAN.
pub(in super::super) fn mtu(
    label: &str,
    key: Key,
    value: &Option<Spanned<Value>>,
    findings: &mut Findings,
) -> Mtu {
    let Some(value) = value else { return Mtu::Interface };
    match value.get_ref() {
        Value::String(text) if text == key.default_text() => return Mtu::Interface,
        Value::Integer(octets) => {
            if let Some(octets) = key.in_range(*octets) {
                return Mtu::Octets(octets);
            }
        }
        _ => {}
    }
    let range = key.range();
    let text = format!(
        "{label}mtu is neither \"interface\" nor {} to {} octets; use one of them",
        range.start(),
        range.end()
    );
    findings.error(value.span(), text);
    Mtu::Interface
}

const UNPROTECTED: &str = "frames leave in CLEAR, without encryption and without ICV";
const REPLAYABLE: &str = "recorded frames can be sent again, and reach the machine";
