//! Nonces that two SAs would have under one key: see [the module above](super).

use std::ops::Range;

use secy::XpnBinding;
use suite::{CipherSuite, Sak};
use wire::Sci;

use super::super::findings::Findings;

/// One SA and where it stands, to be compared with all others.
pub(in super::super) struct Place {
    pub(super) span: Range<usize>,
    pub(super) label: String,
    pub(super) suite: CipherSuite,
    pub(super) key: Sak,
    pub(super) sci: Sci,
    pub(super) xpn: Option<XpnBinding>,
    /// Offset of its link in the file, in octets, and whether it is the own SA of that.
    pub(super) link: usize,
    pub(super) own: bool,
}

/// Refuses SAs that would repeat a nonce under a key, over all links. Quadratic in the SAs of a file that is at
/// most a mebibyte.
pub(in super::super) fn refuse_repeated_nonces(places: &[Place], findings: &mut Findings) {
    for (at, later) in places.iter().enumerate() {
        let same_key = |earlier: &&Place| earlier.key == later.key;
        let Some((earlier, why, cure)) = places
            .iter()
            .take(at)
            .filter(same_key)
            .find_map(|earlier| conflict(earlier, later).map(|(why, cure)| (earlier, why, cure)))
        else {
            continue;
        };
        let line = findings.line(&earlier.span);
        findings.error(later.span.clone(), format!("{}key {why} line {line}; {cure}", later.label));
    }
}

/// Why two SAs of one key cannot be, and what to do.
fn conflict(earlier: &Place, later: &Place) -> Option<(&'static str, &'static str)> {
    if earlier.suite != later.suite {
        return Some(("is used with another suite on", "use each key with one suite only"));
    }
    match (&earlier.xpn, &later.xpn) {
        (Some(a), Some(b)) if a.salt != b.salt => {
            Some(("has another salt than on", "a key has one salt, the same at all ends"))
        }
        (Some(a), Some(b)) if a.ssci == b.ssci => {
            Some(("and SSCI are those of", "nonces would repeat: give each SC its own ssci or its own key"))
        }
        (None, None) if earlier.sci == later.sci => Some((
            "and SCI are those of",
            "nonces would repeat: give each end its own SCI and each SA its own key",
        )),
        _ if earlier.link == later.link && earlier.own != later.own => Some((
            "is used for both directions, here and on",
            "make another key for one of them with: frameward keygen static --out FILE",
        )),
        _ => None,
    }
}
