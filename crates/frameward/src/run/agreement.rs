//! Settings of a link's KaY: settings out of the configuration, the interface and the speed of this CPU.

use std::path::Path;
use std::time::SystemTime;

use control::{KeyAgreement, Recorded, Recorder};
use dataplane::fragmenter::FragmentConfig;
use mka::{Announced, CakEntry, Settings, SuiteRule, SuiteTiming};
use secy::{ConfidentialityOffset, Protection, SDU_OCTETS};
use suite::CipherSuite;
use suite::mka::Cak;
use tracing::{error, warn};
use wire::ethernet::{ADDRESSES_OCTETS, ETHERTYPE_OCTETS, VLAN_TAG_OCTETS};
use wire::mkpdu::{Capability, Confidentiality};
use wire::{MacAddr, Sci};

use super::link::{RunningLink, bare_secy, is_for_kernel, pipeline};
use super::{Measured, Running};
use config::check::Mtus;
use config::suite_speed::SuiteSpeeds;
use config::{Keys, Link, Mka};
use diagnosis::kay_log::KayLog;

/// VLAN tags that a machine's frame may have beyond the MTU of its side.
const VLAN_TAGS: usize = 2;

/// Settings of a link's key agreement. `sci` is its SecY's, `source` the address of its protected interface. `in_kernel`: programs
/// take its SAs.
pub(super) fn key_agreement(
    link: &Link,
    mka: &Mka,
    (sci, source): (Sci, MacAddr),
    mtus: Mtus,
    measured: &Measured,
    in_kernel: bool,
) -> KeyAgreement {
    let fragments = |which: fn(&FragmentConfig) -> bool| link.fragmentation.as_ref().is_some_and(which);
    let (fragment, concatenate) = (fragments(|how| how.fragment), fragments(|how| how.concatenate));
    let settings = Settings {
        sci,
        source,
        destination: mka.destination,
        priority: mka.priority,
        capability: Capability::Offsets,
        confidentiality: confidentiality(link.protection),
        suite: mka.suite,
        announced: Announced {
            reassembles: fragment,
            splits: concatenate,
            // Programs in a peer's kernel would take no padded frames.
            carries_whole: mtus.need_no_fragments(link) && link.padding().is_none(),
            in_kernel,
            express: link.express && sci.express().is_some(),
            takes_padded: link.reassembles(),
            largest_sdu: largest_sdu(mtus),
            name: mka.announced_name,
            suites: suites(mka.suite, &measured.speeds),
        },
        fragment,
        concatenate,
        pad: !link.padding().is_none(),
        delay_protect: mka.delay_protect,
        sak_lifetime: mka.rekey,
        on_peer_loss: mka.on_peer_loss,
        peers: mka.peers.clone(),
        accept_integrity: mka.accept_integrity,
    };
    KeyAgreement {
        settings,
        caks: caks(mka),
        replay_window: link.replay_window,
        hold: link.fragmentation.map(|how| how.hold).unwrap_or_default(),
        express_classes: link.fragmentation.map(|how| how.express).unwrap_or_default(),
        padding: link.padding(),
        antedate: measured.antedating.on,
        beside_stations: link.in_site,
        record: None,
    }
}

/// The CAKs of a link, the preferred one first.
pub(super) fn caks(mka: &Mka) -> Vec<CakEntry> {
    let entry = |cak: &config::key_file::NamedCak| CakEntry {
        ckn: cak.ckn(),
        cak: Cak::new(cak.octets()).expect("invariant: a CAK has 16 or 32 octets, as its file was judged"),
    };
    mka.caks().map(entry).collect()
}

/// Keeps the log of a link's KaY there.
///
/// # Errors
/// In words, if the file cannot be written.
pub(super) fn recorder(link: &str, path: &Path) -> Result<Recorder, String> {
    let mut log = KayLog::create(path).map_err(|error| {
        format!(
            "link {link:?}: cannot write record {}: {error}; name a file that the gateway's user can write, or remove record",
            path.display()
        )
    })?;
    let link = link.to_owned();
    Ok(Box::new(move |now, recorded| match recorded {
        Recorded::Began { settings, ckns, seed } => log.began(now, &link, settings, ckns, seed),
        Recorded::Changed { settings, ckns } => log.changed(now, settings, ckns),
        Recorded::Input(told) => log.told(now, told),
        Recorded::Stranger(frame) => log.stranger(now, frame),
    }))
}

impl Running {
    /// Tells a link's KaY what it is configured with now, if it has one.
    pub(super) fn renew_agreement(&mut self, link: &mut RunningLink) -> Result<(), String> {
        let in_kernel = self.takes_in_kernel(link);
        link.kay_in_kernel = in_kernel;
        let RunningLink { config, about, .. } = link;
        let Some(mka) = config.mka() else { return Ok(()) };
        let addresses = (about.sci, about.source);
        let agreement = key_agreement(config, mka, addresses, about.mtus, &self.measured, in_kernel);
        let renewed = self.control.change_key_agreement(&config.name, agreement);
        renewed.map_err(|error| format!("link {:?}: {error}", config.name))
    }

    /// Tells a link's KaY whether programs take its SAs, if that has changed: peers and suites depend on it.
    pub(super) fn tell_kay_of_place(&mut self, link: &mut RunningLink) -> Result<(), String> {
        if link.config.mka().is_none() || link.kay_in_kernel == self.takes_in_kernel(link) {
            return Ok(());
        }
        self.renew_agreement(link)
    }

    fn takes_in_kernel(&self, RunningLink { config, about, .. }: &RunningLink) -> bool {
        is_for_kernel(config, about.mtus, self.gateway.io, &self.control)
            && self.control.takes_in_kernel(&config.name)
    }

    /// Leaves every fallback CAK whose time is over, and says so.
    pub(super) fn end_fallbacks(&mut self) {
        let now = SystemTime::now();
        let mut links = std::mem::take(&mut self.links);
        for link in &mut links {
            let Keys::Agreed(mka) = &mut link.config.keys else { continue };
            if mka.fallback_until.is_none_or(|until| now < until) {
                continue;
            }
            (mka.fallback, mka.fallback_until) = (None, None);
            warn!(
                event = "fallback-ended",
                link = link.config.name,
                "fallback-ended: fallback_until is over, and the fallback CAK is not used any more; \
                 remove fallback_cak_file and fallback_until"
            );
            if let Err(error) = self.renew_agreement(link) {
                error!(event = "key-agreement-not-changed", "{error}");
            }
        }
        self.links = links;
    }

    /// Gives the worker of a link whose keys are agreed on a pipeline with other settings; all SAs go on.
    pub(super) fn replace_agreed_pipeline(
        &mut self,
        link: &Link,
        sci: Sci,
        mtus: Mtus,
    ) -> Result<(), String> {
        let pipeline = Box::new(pipeline(link, bare_secy(link, sci, mtus)));
        let changed = self.control.change_agreed(&link.name, pipeline);
        changed.map_err(|error| format!("link {:?}: {error}", link.name))
    }

    /// The same for a link without keys.
    pub(super) fn replace_bare_pipeline(&mut self, link: &Link, sci: Sci, mtus: Mtus) -> Result<(), String> {
        let pipeline = Box::new(pipeline(link, bare_secy(link, sci, mtus)));
        let changed = self.control.change_without_keys(&link.name, pipeline);
        changed.map_err(|error| format!("link {:?}: {error}", link.name))
    }

    /// Opens a link's ports on its interfaces as they are now.
    pub(super) fn reopen(&mut self, link: &mut RunningLink, mtus: Mtus) -> Result<(), String> {
        let before = link.about.source;
        let ports = link.reopen(&self.gateway, &self.settings, mtus)?;
        if link.about.source != before {
            self.renew_agreement(link)?;
        }
        self.control.open(&link.config.name, Box::new(ports)).map_err(|error| error.to_string())?;
        self.tell_kay_of_place(link)
    }
}

const fn confidentiality(protection: Protection) -> Confidentiality {
    match protection {
        Protection::Integrity => Confidentiality::Integrity,
        Protection::Encrypt(ConfidentialityOffset::Zero) => Confidentiality::Zero,
        Protection::Encrypt(ConfidentialityOffset::Thirty) => Confidentiality::Thirty,
        Protection::Encrypt(ConfidentialityOffset::Fifty) => Confidentiality::Fifty,
    }
}

/// Octets of the longest SDU that the plain side takes, from its EtherType on.
fn largest_sdu(mtus: Mtus) -> u16 {
    let plain = mtus.plain + ETHERTYPE_OCTETS + VLAN_TAGS * VLAN_TAG_OCTETS;
    u16::try_from(plain.min(SDU_OCTETS - ADDRESSES_OCTETS)).unwrap_or(u16::MAX)
}

/// The suites that can be used, with their figures: all sound ones, and what is configured by name. One that was not
/// measured here is announced as the slowest, so that nobody chooses it for its speed.
fn suites(rule: SuiteRule, speeds: &SuiteSpeeds) -> Vec<SuiteTiming> {
    let wanted = |suite: &CipherSuite| !suite.is_experimental() || rule == SuiteRule::Only(*suite);
    let figure = |suite| SuiteTiming {
        suite,
        nanoseconds: speeds.nanoseconds(suite).and_then(|ns| u16::try_from(ns).ok()).unwrap_or(u16::MAX),
    };
    CipherSuite::ALL.into_iter().filter(wanted).map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::suite_speed::AesInstructions;

    #[test]
    fn suites_are_announced_with_what_they_cost_here() {
        let speeds = SuiteSpeeds::new(
            AesInstructions::Masked,
            [
                (CipherSuite::GcmAes128, 105),
                (CipherSuite::ChaCha20Poly1305, 70_000),
                (CipherSuite::Morus640, 20),
            ],
        );
        let announced = |rule| -> Vec<_> {
            suites(rule, &speeds)
                .into_iter()
                .map(|figure| (figure.suite.name(), figure.nanoseconds))
                .collect()
        };
        let sound = [
            ("gcm-aes-128", 105),
            ("gcm-aes-256", u16::MAX),
            ("gcm-aes-xpn-128", 105),
            ("gcm-aes-xpn-256", u16::MAX),
            ("chacha20-poly1305", u16::MAX),
            ("chacha20-poly1305-xpn", u16::MAX),
            ("aegis-128l", u16::MAX),
            ("aegis-256", u16::MAX),
        ];
        assert_eq!(announced(SuiteRule::Any), sound);
        let research = announced(SuiteRule::Only(CipherSuite::Morus640));
        assert_eq!((&research[..8], &research[8..]), (&sound[..], &[("morus-640-128", 20)][..]));
    }

    #[test]
    fn a_machines_longest_frame_is_taken_with_two_vlan_tags() {
        let mtus = |plain| Mtus { plain, protected: 1500 };
        assert_eq!(largest_sdu(mtus(1500)), 1510);
        assert_eq!(largest_sdu(mtus(9000)), 9010);
        assert_eq!(largest_sdu(mtus(9216)), 9010, "as long as SDUs are put together");
    }
}
