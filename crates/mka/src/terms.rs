//! Properties of a SAK that follow from the announcements of its members.
//!
//! ```text
//!  rule            peers                                   suite
//!  Any             all have programs in the kernel         ChaCha20-Poly1305, which the programs have
//!  Any             all announced figures                   the fastest for the slowest of them, of those that all have
//!  Any             anybody else                            GCM-AES-128
//!  Only(standard)  any                                     this one: switches have it and announce nothing
//!  Only(ours)      those who list it                       this one; the others are left out
//! ```

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use suite::CipherSuite;
use wire::mkpdu::{Capability, Confidentiality};

use crate::announcement::listed;
use crate::event::FragmentAgreement;
use crate::peer::{LIVE, Peer};
use crate::settings::{Settings, SuiteRule};

/// Properties of a SAK that depend on the live members. A change of them requires another SAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Terms {
    pub(crate) suite: CipherSuite,
    pub(crate) confidentiality: Confidentiality,
    /// Number of stations that do not reassemble SDUs, up to two: one of them may send fragments itself.
    whole_sdus: u8,
    /// Number of stations that do not split shared frames, up to two.
    single_sdus: u8,
    /// Number of stations that do not receive express SCs, up to two.
    without_express: u8,
    /// Number of stations that take no padded frames, up to two.
    without_padded: u8,
    /// The two smallest of the members' longest SDUs.
    largest_sdus: [u16; 2],
}

/// Terms of a SAK for these peers and this station.
pub(crate) fn terms<'p>(settings: &Settings, peers: impl Iterator<Item = &'p Peer> + Clone) -> Terms {
    let suite = suite_for(settings, peers.clone());
    let own = &settings.announced;
    let divides = !keeps_whole(settings, peers.clone());
    let all = || {
        let own = (
            own.reassembles && divides,
            own.splits && divides,
            own.express,
            own.takes_padded && divides,
            own.largest_sdu,
        );
        let others = peers.clone().map(|peer| &peer.announcement);
        others.map(|a| (a.reassembles, a.splits, a.express, a.takes_padded, a.largest_sdu)).chain([own])
    };
    let up_to_two = |count: usize| count.min(2) as u8;
    let mut largest: Vec<u16> = all().map(|(.., largest)| largest).collect();
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
        single_sdus: up_to_two(all().filter(|(_, splits, ..)| !splits).count()),
        without_express: up_to_two(all().filter(|(_, _, express, ..)| !express).count()),
        without_padded: up_to_two(all().filter(|(.., takes_padded, _)| !takes_padded).count()),
        largest_sdus: [0, 1].map(|i| largest.get(i).copied().unwrap_or(u16::MAX)),
    }
}

fn suite_for<'p>(settings: &Settings, peers: impl Iterator<Item = &'p Peer> + Clone) -> CipherSuite {
    let slowest = |suite: CipherSuite| -> Option<u16> {
        let own = settings.announced.suites.iter().find(|figure| figure.suite == suite)?.nanoseconds;
        peers.clone().try_fold(own, |slowest, peer| {
            let figure = peer.announcement.figure(suite).filter(|_| peer.announcement.has(suite));
            Some(slowest.max(figure?))
        })
    };
    match settings.suite {
        SuiteRule::Only(suite) => suite,
        SuiteRule::Standard(suite) => {
            let have_it = peers.clone().all(|peer| peer.announcement.has(suite));
            if have_it && listed(settings).contains(&suite) { suite } else { CipherSuite::GcmAes128 }
        }
        SuiteRule::Any
            if settings.announced.in_kernel
                && slowest(CipherSuite::ChaCha20Poly1305).is_some()
                && peers.clone().all(|peer| peer.announcement.in_kernel) =>
        {
            CipherSuite::ChaCha20Poly1305
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
            SuiteRule::Only(suite) if !suite.is_standard() => peer.announcement.has(suite),
            SuiteRule::Only(_) | SuiteRule::Standard(_) | SuiteRule::Any => true,
        }
}

/// True if this station takes whole SDUs alone, each in a frame of its own, and sends no others: programs in the
/// kernel protect and verify such frames only, and none of these peers needs fragments.
pub(crate) fn keeps_whole<'p>(settings: &Settings, mut peers: impl Iterator<Item = &'p Peer>) -> bool {
    settings.announced.in_kernel
        && match settings.suite {
            SuiteRule::Only(_) => peers.all(|peer| !peer.announcement.needs_fragments()),
            // Otherwise the suite is one that the programs may not have.
            SuiteRule::Any => peers.all(|peer| peer.announcement.in_kernel),
            SuiteRule::Standard(_) => false,
        }
}

/// Number of peers up to which express SCs are used: half of the SCs that a SecY receives.
pub(crate) const MOST_EXPRESS_PEERS: usize = LIVE / 2;

/// Fragmentation, concatenation, padding and express SCs that these peers permit, if this station does not keep SDUs
/// whole. Padding is permitted to a station that does not pad, too.
pub(crate) fn fragmentation<'p>(
    settings: &Settings,
    peers: impl Iterator<Item = &'p Peer>,
) -> FragmentAgreement {
    let mut fragmentation = FragmentAgreement {
        fragment: settings.fragment,
        concatenate: settings.concatenate,
        // Padding by other settings begins under the SAK that is there.
        pad: settings.pad || settings.announced.takes_padded,
        express: settings.announced.express,
        largest_sdu: settings.announced.largest_sdu,
    };
    let mut express_scs = 0;
    for peer in peers {
        let announced = &peer.announcement;
        fragmentation.fragment &= announced.reassembles;
        fragmentation.concatenate &= announced.splits;
        fragmentation.pad &= announced.takes_padded;
        fragmentation.express &= announced.express && peer.sci.express().is_some();
        express_scs += 1;
        if announced.ours {
            fragmentation.largest_sdu = fragmentation.largest_sdu.min(announced.largest_sdu);
        }
    }
    // Every station has two receive SCs for each other one.
    fragmentation.express &= express_scs <= MOST_EXPRESS_PEERS;
    fragmentation
}
