//! From a KaY's state to its report: names and ages put to it.

use control::KeyAgreementStatus;
use mka::{Fault, KayCounters, MemberStatus, Names, SakStatus};
use wire::Instant;
use wire::mkpdu::Confidentiality;

use config::{Link, Mka, Named as _};
use report::Counters;
use report::mka::{
    CakReport, ChangeReport, FragmentReport, MemberReport, MkaReport, MkaStrangerReport, Requested,
    SakReport, SendsUnderReport,
};
use report::verdict::State;

pub(super) fn report(link: &Link, mka: &Mka, agreement: &KeyAgreementStatus) -> MkaReport {
    let KeyAgreementStatus { now, status, counters } = agreement;
    let ms_ago = |then: Instant| u64::try_from(now.since(then).as_millis()).unwrap_or(u64::MAX);
    let member = |member: &MemberStatus| MemberReport {
        sci: member.sci.to_string(),
        mi: member.mi.to_string(),
        priority: member.priority,
        live: member.live,
        heard_ms_ago: ms_ago(member.heard),
        announced: member.announced,
        name: member.name.map(|name| name.to_string()),
        sends_under: member
            .sends_under
            .map(|(ki, lowest_pn)| SendsUnderReport { ki: ki.to_string(), lowest_pn }),
    };
    let sak = |sak: &SakStatus| SakReport {
        ki: sak.ki.to_string(),
        an: sak.an.number(),
        suite: sak.suite.name().into(),
        confidentiality: confidentiality(sak.confidentiality).into(),
        seconds: ms_ago(sak.since) / 1000,
        transmits: sak.transmits,
    };
    MkaReport {
        secured: transmitting(agreement).is_some(),
        trouble: status.fault.map(|trouble| words(link, trouble, &status.names)),
        ckn: mka.caks().any(|cak| cak.ckn() == status.ckn).then(|| status.ckn.to_string()),
        caks: mka
            .caks()
            .map(|cak| CakReport { ckn: cak.ckn().to_string(), key: cak.fingerprint() })
            .collect(),
        mi: status.mi.to_string(),
        priority: mka.priority,
        destination: mka.destination.to_string(),
        on_peer_loss: mka.on_peer_loss.name().into(),
        is_key_server: status.is_key_server,
        key_server: status.key_server.map(|sci| sci.to_string()),
        members: status.members.iter().map(member).collect(),
        strangers: status
            .strangers
            .iter()
            .map(|(sci, ckn)| MkaStrangerReport {
                sci: sci.to_string(),
                ckn: ckn.to_string(),
                name: status.names.of(*sci).map(ToString::to_string),
            })
            .collect(),
        under_fallback: status.under_fallback && status.members.iter().any(|member| member.live),
        missing: missing(mka, agreement),
        not_heard: status.gaps.iter().map(|gap| status.names.within(gap).to_string()).collect(),
        saks: status.saks.iter().map(sak).collect(),
        fragmentation: fragmentation(link, agreement),
        next_rekey_seconds: status.next_rekey.map(|at| at.since(*now).as_secs()),
        changes: status
            .changes
            .iter()
            .map(|change| ChangeReport { ms_ago: ms_ago(change.at), text: change.words.clone() })
            .collect(),
        counters: Counters::new(KayCounters::NAMES, counters.values()),
    }
}

/// Stations of `peers` that are not live.
fn missing(mka: &Mka, agreement: &KeyAgreementStatus) -> Vec<String> {
    let KeyAgreementStatus { status, .. } = agreement;
    let is_live = |sci| status.members.iter().any(|member| member.live && member.sci == sci);
    let missing = mka.peers.iter().filter(|sci| !is_live(**sci));
    missing.map(|sci| status.names.beside(*sci).to_string()).collect()
}

/// Requests of the configuration.
pub(super) fn requested(link: &Link, mka: &Mka, agreement: &KeyAgreementStatus) -> Requested {
    Requested {
        fragmentation: mka.expects.fragment || mka.expects.concatenate,
        encrypted: link.protection != secy::Protection::Integrity,
        no_sci: link.sci_inclusion == secy::SciInclusion::Never,
        trouble: agreement.status.fault.map(state),
    }
}

/// A trouble in words. Inside of a site no switch is in the way, and MKPDUs under other CKNs are stations'.
fn words(link: &Link, trouble: Fault, names: &Names) -> String {
    match trouble {
        Fault::Alone if link.in_site => "no other site is heard: check whether the site has connected peers, whether they have protect = true, and compare the ckn of both ends".to_owned(),
        trouble => names.within(&trouble).to_string(),
    }
}

/// The state of a link that this trouble stands for.
const fn state(trouble: Fault) -> State {
    match trouble {
        Fault::WrongCak => State::WrongCak,
        Fault::OtherCkn => State::WrongCkn,
        Fault::OneWay => State::OneWay,
        Fault::Strangers => State::Stranger,
        Fault::Alone | Fault::Gone { .. } => State::PeerAbsent,
        Fault::SciInUse => State::SciInUse,
        Fault::TooManyPeers | Fault::LeftOut | Fault::Partial(_) => State::PartialMesh,
        Fault::NoCak
        | Fault::OtherAgility
        | Fault::NoKeyServer
        | Fault::Refused(_)
        | Fault::NoMacsec
        | Fault::NotAccepted
        | Fault::SakDue
        | Fault::SakAwaited => State::NoKeys,
    }
}

/// The SAK that protects.
pub(super) fn transmitting(agreement: &KeyAgreementStatus) -> Option<&SakStatus> {
    agreement.status.saks.iter().find(|sak| sak.transmits)
}

const fn confidentiality(confidentiality: Confidentiality) -> &'static str {
    match confidentiality {
        Confidentiality::Integrity => "integrity",
        Confidentiality::Zero => "0",
        Confidentiality::Thirty => "30",
        Confidentiality::Fifty => "50",
    }
}

fn fragmentation(link: &Link, agreement: &KeyAgreementStatus) -> FragmentReport {
    let Some(SakStatus { fragmentation, whole, .. }) = transmitting(agreement) else {
        return FragmentReport {
            fragment: false,
            concatenate: false,
            why_not: None,
            padded: false,
            covered: false,
            why_not_padded: None,
        };
    };
    let is_wished = !link.padding().is_none();
    let why_not_padded = is_wished.then(|| why_not_padded(agreement)).flatten();
    let padded = is_wished && why_not_padded.is_none();
    let covered = padded && link.padding().cover_rate().is_some();
    let (fragment, concatenate) = (fragmentation.fragment, fragmentation.concatenate);
    let as_wished =
        link.fragmentation.is_none_or(|how| fragment >= how.fragment && concatenate >= how.concatenate);
    let strangers = agreement.status.members.iter().filter(|member| member.live && !member.announced);
    let strangers: Vec<_> =
        strangers.map(|member| agreement.status.names.beside(member.sci).to_string()).collect();
    let why_not = match (as_wished, strangers.as_slice()) {
        (true, _) => None,
        (false, _) if *whole => Some("frames stay whole for the kernel".into()),
        (false, []) => Some(
            "a peer has it switched off or sends its frames through the kernel, or did so when the key was made"
                .into(),
        ),
        (false, [one]) => Some(format!("{one} is a plain MACsec station, which cannot do it")),
        (false, all) => Some(format!("{} are plain MACsec stations, which cannot do it", all.join(", "))),
    };
    FragmentReport { fragment, concatenate, why_not, padded, covered, why_not_padded }
}

/// Why frames are not padded under the SAK that protects.
fn why_not_padded(agreement: &KeyAgreementStatus) -> Option<String> {
    let sak = transmitting(agreement)?;
    let ignorant = agreement.status.members.iter().filter(|member| member.live && !member.takes_padded);
    let ignorant: Vec<_> =
        ignorant.map(|member| agreement.status.names.beside(member.sci).to_string()).collect();
    match ignorant.as_slice() {
        _ if sak.confidentiality != Confidentiality::Zero => Some(
            "the key server's SAK leaves octets in clear; set encrypt and confidentiality_offset there"
                .into(),
        ),
        _ if sak.fragmentation.pad => None,
        [] => Some("a peer did not know it when the key was made; frameward rekey makes another".into()),
        [one] => Some(format!("peer {one} does not know it")),
        all => Some(format!("peers {} do not know it", all.join(", "))),
    }
}
