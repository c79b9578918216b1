//! Announcements of stations: the suites and the capabilities that they list (wire formats, section 6).

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use suite::CipherSuite;
use wire::mkpdu::{
    BadName, Capability, CapableSuite, Extensions, SystemName, TimingEntry, Tlv, TlvWriter, Tlvs,
};

use crate::settings::{Announced, Settings, SuiteRule, SuiteTiming};

/// Octets of the longest announcement that is sent.
pub(crate) const OCTETS: usize = 256;

/// Announcement of a peer. A peer that does not send our TLV announces none of our functions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Announcement {
    /// True if it sent our TLV.
    pub(crate) ours: bool,
    pub(crate) reassembles: bool,
    pub(crate) splits: bool,
    /// True if it misses a station under this CAK.
    pub(crate) misses: bool,
    pub(crate) carries_whole: bool,
    pub(crate) in_kernel: bool,
    pub(crate) express: bool,
    pub(crate) takes_padded: bool,
    pub(crate) largest_sdu: u16,
    /// Name that it announces, or why that is no name.
    pub(crate) name: Option<Result<SystemName, BadName>>,
    lists: Vec<CipherSuite>,
    figures: Vec<SuiteTiming>,
}

impl Announcement {
    /// Reads a peer's TLVs. Of several of one kind, the first counts.
    pub(crate) fn of(tlvs: Option<Tlvs<'_>>) -> Self {
        let mut announcement = Self::default();
        for tlv in tlvs.iter().flat_map(Tlvs::iter) {
            match tlv {
                Tlv::CipherSuites(list) if announcement.lists.is_empty() => {
                    announcement.lists = known(list.iter().map(|suite| suite.identifier));
                }
                Tlv::Extensions(extensions, figures) if !announcement.ours => {
                    let Extensions {
                        reassembles,
                        splits,
                        misses,
                        express,
                        carries_whole,
                        in_kernel,
                        takes_padded,
                        largest_sdu,
                    } = extensions;
                    let figures = figures
                        .iter()
                        .filter_map(|TimingEntry { identifier, nanoseconds }| {
                            let suite = CipherSuite::from_identifier(identifier)?;
                            Some(SuiteTiming { suite, nanoseconds })
                        })
                        .take(CipherSuite::ALL.len())
                        .collect();
                    announcement = Self {
                        ours: true,
                        reassembles,
                        splits,
                        misses,
                        express,
                        carries_whole,
                        in_kernel,
                        takes_padded,
                        largest_sdu,
                        figures,
                        ..announcement
                    };
                }
                Tlv::Name(octets) if announcement.name.is_none() => {
                    announcement.name = Some(SystemName::new(octets));
                }
                Tlv::CipherSuites(_) | Tlv::Extensions(..) | Tlv::Name(_) | Tlv::Other { .. } => {}
            }
        }
        announcement
    }

    /// True if it lists this suite.
    pub(crate) fn has(&self, suite: CipherSuite) -> bool {
        self.lists.contains(&suite)
    }

    /// True if it cannot do without fragments: its network does not carry the SDUs of its machine whole. One that
    /// takes none, not even in padded frames, makes none.
    pub(crate) const fn needs_fragments(&self) -> bool {
        (self.reassembles || self.takes_padded) && !self.carries_whole
    }

    /// Nanoseconds that the peer needs for a frame with this suite, as it announced.
    pub(crate) fn figure(&self, suite: CipherSuite) -> Option<u16> {
        self.figures.iter().find(|figure| figure.suite == suite).map(|figure| figure.nanoseconds)
    }
}

/// The known suites among these identifiers, each once.
fn known(identifiers: impl Iterator<Item = [u8; 8]>) -> Vec<CipherSuite> {
    let mut suites = Vec::new();
    for suite in identifiers.filter_map(CipherSuite::from_identifier) {
        if !suites.contains(&suite) {
            suites.push(suite);
        }
    }
    suites
}

/// Suites that a station with these settings lists: those whose SAK it would accept.
pub(crate) fn listed(settings: &Settings) -> Vec<CipherSuite> {
    match settings.suite {
        SuiteRule::Only(suite) => [suite].into(),
        rule @ (SuiteRule::Standard(_) | SuiteRule::Any) => {
            let mut suites: Vec<_> = settings.announced.suites.iter().map(|figure| figure.suite).collect();
            if matches!(rule, SuiteRule::Standard(_)) {
                suites.retain(|suite| suite.is_standard());
            }
            if !suites.contains(&CipherSuite::GcmAes128) {
                suites.push(CipherSuite::GcmAes128);
            }
            suites
        }
    }
}

/// Writes this station's announcement. `whole`: it keeps SDUs whole; `misses`: a station is heard under another
/// CAK only.
pub(crate) fn write<'b>(
    settings: &Settings,
    whole: bool,
    misses: bool,
    buffer: &'b mut [u8; OCTETS],
) -> Tlvs<'b> {
    let lists = listed(settings);
    let suites = lists.iter().map(|suite| CapableSuite {
        identifier: suite.identifier(),
        capability: if suite.allows_confidentiality_offset() {
            settings.capability
        } else {
            settings.capability.min(Capability::Confidentiality)
        },
    });
    let Announced {
        reassembles,
        splits,
        express,
        carries_whole,
        in_kernel,
        takes_padded,
        largest_sdu,
        ref name,
        suites: ref figures,
    } = settings.announced;
    let extensions = Extensions {
        reassembles: reassembles && !whole,
        splits: splits && !whole,
        misses,
        express,
        carries_whole,
        in_kernel,
        takes_padded: takes_padded && !whole,
        largest_sdu,
    };
    let figures = figures.iter().filter(|figure| lists.contains(&figure.suite));
    let figures = figures
        .map(|figure| TimingEntry { identifier: figure.suite.identifier(), nanoseconds: figure.nanoseconds });
    let mut writer = TlvWriter::new(buffer);
    let written = writer.cipher_suites(suites).and_then(|()| writer.extensions(&extensions, figures));
    let written = written.and_then(|()| name.as_ref().map_or(Ok(()), |name| writer.name(name)));
    debug_assert!(written.is_ok(), "all suites there are fit, and the longest name");
    writer.finish()
}
