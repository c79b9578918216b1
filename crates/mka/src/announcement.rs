//! Announcements of stations, and the properties of a SAK that follow from them (wire formats, section 6).
//!
//! ```text
//!  rule            peers                                   suite
//!  Auto            all announced figures                   the fastest for the slowest of them, of those that all have
//!  Auto            anybody else                            GCM-AES-128
//!  Only(standard)  any                                     this one: switches have it and announce nothing
//!  Only(ours)      those who list it                       this one; the others are left out
//! ```

use alloc::vec::Vec;

use suite::CipherSuite;
use wire::mkpdu::{Capability, CapableSuite, Confidentiality, Extensions, TimingEntry, Tlv, TlvWriter, Tlvs};

use crate::event::FragmentAgreement;
use crate::peers::Peer;
use crate::settings::{Announced, Settings, SuiteRule, SuiteTiming};

/// Octets of the longest announcement that is sent.
pub(crate) const OCTETS: usize = 256;

/// Announcement of a peer. A peer without our TLV announces nothing of ours.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Announcement {
    /// True if it sent our TLV.
    pub(crate) ours: bool,
    reassembles: bool,
    splits: bool,
    /// True if it misses a station under this CAK.
    pub(crate) misses: bool,
    largest_sdu: u16,
    lists: Vec<CipherSuite>,
    figures: Vec<SuiteTiming>,
}

impl Announcement {
    /// Reads a peer's TLVs. The first of repeated ones counts.
    pub(crate) fn of(tlvs: Option<Tlvs<'_>>) -> Self {
        let mut announcement = Self::default();
        for tlv in tlvs.iter().flat_map(Tlvs::iter) {
            match tlv {
                Tlv::CipherSuites(list) if announcement.lists.is_empty() => {
                    announcement.lists = known(list.iter().map(|suite| suite.identifier));
                }
                Tlv::Extensions(extensions, figures) if !announcement.ours => {
                    let Extensions { reassembles, splits, misses, largest_sdu } = extensions;
                    announcement =
                        Self { ours: true, reassembles, splits, misses, largest_sdu, ..announcement };
                    announcement.figures = figures
                        .iter()
                        .filter_map(|TimingEntry { identifier, nanoseconds }| {
                            let suite = CipherSuite::from_identifier(identifier)?;
                            Some(SuiteTiming { suite, nanoseconds })
                        })
                        .take(CipherSuite::ALL.len())
                        .collect();
                }
                Tlv::CipherSuites(_) | Tlv::Extensions(..) | Tlv::Other { .. } => {}
            }
        }
        announcement
    }

    fn figure(&self, suite: CipherSuite) -> Option<u16> {
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

/// Writes this station's announcement. `misses`: a station is heard under another CAK only.
pub(crate) fn write<'b>(settings: &Settings, misses: bool, buffer: &'b mut [u8; OCTETS]) -> Tlvs<'b> {
    let lists = listed(settings);
    let suites = lists.iter().map(|suite| CapableSuite {
        identifier: suite.identifier(),
        capability: if suite.allows_confidentiality_offset() {
            settings.capability
        } else {
            settings.capability.min(Capability::Confidentiality)
        },
    });
    let Announced { reassembles, splits, largest_sdu, suites: ref figures } = settings.announced;
    let figures = figures.iter().filter(|figure| lists.contains(&figure.suite));
    let figures = figures
        .map(|figure| TimingEntry { identifier: figure.suite.identifier(), nanoseconds: figure.nanoseconds });
    let mut writer = TlvWriter::new(buffer);
    let written = writer
        .cipher_suites(suites)
        .and_then(|()| writer.extensions(&Extensions { reassembles, splits, misses, largest_sdu }, figures));
    debug_assert!(written.is_ok(), "all suites there are fit");
    writer.finish()
}

/// Properties of a SAK that depend on the live members. A change of them requires another SAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    pub(crate) suite: CipherSuite,
    pub(crate) confidentiality: Confidentiality,
    /// Number of stations that do not reassemble SDUs, up to two: one of them may send fragments itself.
    whole_sdus: u8,
    /// Number of stations that do not split shared frames, up to two.
    single_sdus: u8,
    /// The two smallest of the members' longest SDUs.
    largest_sdus: [u16; 2],
}

/// Terms of a SAK for these peers and this station.
pub(crate) fn terms<'p>(settings: &Settings, peers: impl Iterator<Item = &'p Peer> + Clone) -> Terms {
    let suite = suite_for(settings, peers.clone());
    let own = &settings.announced;
    let all = || {
        let own = (own.reassembles, own.splits, own.largest_sdu);
        let others = peers.clone().map(|peer| &peer.announcement);
        others.map(|a| (a.reassembles, a.splits, a.largest_sdu)).chain([own])
    };
    let up_to_two = |count: usize| count.min(2) as u8;
    let mut largest: Vec<u16> = all().map(|(_, _, largest)| largest).collect();
    largest.sort_unstable();
    let offsets = suite.allows_confidentiality_offset()
        && peers.clone().all(|peer| peer.capability == Capability::Offsets)
        && settings.capability == Capability::Offsets;
    Terms {
        suite,
        // If somebody cannot leave octets in clear, more is encrypted than was asked for.
        confidentiality: match settings.confidentiality {
            Confidentiality::Thirty | Confidentiality::Fifty if !offsets => Confidentiality::Zero,
            other => other,
        },
        whole_sdus: up_to_two(all().filter(|(reassembles, ..)| !reassembles).count()),
        single_sdus: up_to_two(all().filter(|(_, splits, _)| !splits).count()),
        largest_sdus: [0, 1].map(|i| largest.get(i).copied().unwrap_or(u16::MAX)),
    }
}

fn suite_for<'p>(settings: &Settings, peers: impl Iterator<Item = &'p Peer> + Clone) -> CipherSuite {
    let slowest = |suite: CipherSuite| -> Option<u16> {
        let own = settings.announced.suites.iter().find(|figure| figure.suite == suite)?.nanoseconds;
        peers.clone().try_fold(own, |slowest, peer| {
            let figure = peer.announcement.figure(suite).filter(|_| peer.announcement.lists.contains(&suite));
            Some(slowest.max(figure?))
        })
    };
    match settings.suite {
        SuiteRule::Only(suite) => suite,
        SuiteRule::Standard(suite) => {
            let have_it = peers.clone().all(|peer| peer.announcement.lists.contains(&suite));
            if have_it && listed(settings).contains(&suite) { suite } else { CipherSuite::GcmAes128 }
        }
        SuiteRule::Any => CipherSuite::ALL
            .into_iter()
            .filter(|suite| !suite.is_experimental())
            .filter_map(|suite| Some((slowest(suite)?, suite)))
            .min_by_key(|(slowest, _)| *slowest)
            .map_or(CipherSuite::GcmAes128, |(_, suite)| suite),
    }
}

/// True if this station gives the peer a SAK: the peer does MACsec, and has the suite unless any station may
/// have it.
pub(crate) fn is_eligible(settings: &Settings, peer: &Peer) -> bool {
    peer.macsec
        && match settings.suite {
            SuiteRule::Only(suite) if !suite.is_standard() => peer.announcement.lists.contains(&suite),
            SuiteRule::Only(_) | SuiteRule::Standard(_) | SuiteRule::Any => true,
        }
}

/// Fragmentation and concatenation that these peers permit.
pub(crate) fn fragmentation<'p>(
    settings: &Settings,
    peers: impl Iterator<Item = &'p Peer>,
) -> FragmentAgreement {
    let mut fragmentation = FragmentAgreement {
        fragment: settings.fragment,
        concatenate: settings.concatenate,
        largest_sdu: settings.announced.largest_sdu,
    };
    for peer in peers {
        let announced = &peer.announcement;
        fragmentation.fragment &= announced.reassembles;
        fragmentation.concatenate &= announced.splits;
        if announced.ours {
            fragmentation.largest_sdu = fragmentation.largest_sdu.min(announced.largest_sdu);
        }
    }
    fragmentation
}
