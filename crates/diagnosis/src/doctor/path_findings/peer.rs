//! Findings about the peer: it answered, or why it may not have.

use wire::Sci;

use super::super::Finding;
use super::super::exam::{Outcome, Rejections};
use super::super::path::Seen;
use config::key_file::fingerprint;
use config::{Keys, Link, Mka, StaticSas};

/// The fingerprint of the key that this box has for a peer: a static one, or the CAK.
fn fingerprint_for(link: &Link, sci: Option<Sci>) -> String {
    match &link.keys {
        Keys::Static(sas) => {
            let key = sas.receive.iter().find(|sa| Some(sa.sci) == sci);
            key.map(|sa| fingerprint(sa.key.octets())).unwrap_or_default()
        }
        Keys::Agreed(mka) => mka.cak.fingerprint(),
        Keys::None => link.cell.as_ref().map(|cell| cell.master_key.fingerprint()).unwrap_or_default(),
    }
}

pub(super) fn rejections(link: &Link, seen: &Seen, findings: &mut Vec<Finding>) {
    let (outcome, own_sci) = (&seen.outcome, seen.own);
    let mut problem = |text: String| findings.push(Finding::problem("peer", text));
    match (&link.keys, outcome.rejections.own_sci) {
        (_, None) => {}
        (Keys::Static(_), Some(true)) => problem(format!(
            "the other box has the SCI {own_sci} and the key of this one: the same configuration was copied to both. Before a gateway starts, exchange own and peer in one of them, or nonces repeat"
        )),
        (Keys::Static(_), Some(false)) => {
            problem(format!("another box uses this one's SCI, {own_sci}: give each its own"))
        }
        (Keys::Agreed(_), Some(_)) => problem(format!(
            "another box uses this one's SCI, {own_sci}: give each its own (sci in [link.mka], or the address of the protected interface), or nonces repeat"
        )),
        (Keys::None, Some(_)) => problem(format!(
            "another box uses the address of this one's protected interface, {own_sci}: give each its own"
        )),
    }
    if outcome.peer.is_some() {
        return;
    }
    let unmet = match &link.keys {
        Keys::Static(sas) => doubts_of_static_keys(link, sas, &outcome.rejections),
        Keys::Agreed(mka) => doubts_of_caks(mka, &outcome.rejections),
        Keys::None => doubts_of_master_key(&fingerprint_for(link, None), &outcome.rejections),
    };
    unmet.into_iter().for_each(&mut problem);
    if outcome.rejections.other_release > 0 {
        problem("the other box runs a doctor of another release: install the same release on both".into());
    }
}

const ONE_WAY: &str = "the path is open in one direction only; look for a filter, a wrong VLAN or a one-way cable (or somebody replays its frames)";

fn doubts_of_caks(mka: &Mka, rejections: &Rejections) -> Vec<String> {
    let Rejections { misfits, misfit, deaf, refused, .. } = *rejections;
    let own = mka.cak.fingerprint();
    let mut said = Vec::new();
    if let Some(sci) = misfit.filter(|_| misfits > 0) {
        said.push(format!(
            "a box answers as {sci}, but with another CAK than this one (ckn {}, fingerprint {own}): compare it with `CAK` in check there, and copy the file again (or somebody poses as a member)",
            mka.cak.ckn()
        ));
    }
    match deaf {
        Some(sci) if refused => said.push(format!(
            "{sci} answers under a CAK of this box, but does not know the preferred one (ckn {}, fingerprint {own}): copy it there",
            mka.cak.ckn()
        )),
        Some(sci) if misfit.is_none() => said.push(format!(
            "frames of {sci} arrive, and its CAK is right, but it receives nothing from this box: {ONE_WAY}"
        )),
        _ => {}
    }
    said
}

fn doubts_of_master_key(own: &str, rejections: &Rejections) -> Vec<String> {
    let Rejections { misfits, misfit, deaf, .. } = *rejections;
    match (misfit.filter(|_| misfits > 0), deaf) {
        (Some(sci), _) => vec![format!(
            "a box answers as {sci}, but with another master key than this one (fingerprint {own}): compare it with `master key` in check there, and copy the file again (or somebody poses as the other gateway)"
        )],
        (None, Some(sci)) => vec![format!(
            "frames of {sci} arrive, and its master key is right, but it receives nothing from this box: {ONE_WAY}"
        )],
        (None, None) => Vec::new(),
    }
}

fn doubts_of_static_keys(link: &Link, sas: &StaticSas, rejections: &Rejections) -> Vec<String> {
    let Rejections { misfits, misfit, stranger, deaf, refused, .. } = *rejections;
    let own = fingerprint(sas.transmit.key.octets());
    let mut said = Vec::new();
    if let Some(sci) = misfit.filter(|_| misfits > 0) {
        let here = fingerprint_for(link, Some(sci));
        said.push(format!(
            "a box answers as {sci}, but with another key than this one has for it (fingerprint {here}): compare it with `own SA` in check there, and copy the key again (or somebody poses as it)"
        ));
    }
    match deaf {
        Some(sci) if refused => said.push(format!(
            "{sci} answers, and its key fits, but it has another key for this box than the one that this box sends with (fingerprint {own}): compare it with `peer SA` in check there, and copy the key again"
        )),
        Some(sci) if misfit.is_none() => said.push(format!(
            "frames of {sci} arrive, and its key is right, but it receives nothing from this box: {ONE_WAY}"
        )),
        _ => {}
    }
    if let Some(sci) = stranger {
        said.push(format!(
            "a box answers as {sci}, which is not a peer of this link: correct sci in one of the two configurations"
        ));
    }
    said
}

pub(super) fn unanswered(link: &Link) -> Finding {
    let who = match &link.keys {
        Keys::Static(sas) => {
            let peers: Vec<_> = sas.receive.iter().map(|sa| sa.sci.to_string()).collect();
            peers.join(" or ")
        }
        Keys::Agreed(_) | Keys::None => "another box".into(),
    };
    Finding::problem(
        "peer",
        format!(
            "{who} did not answer: start 'frameward doctor' on that box too, while this one waits. If it did run, the path carries nothing: check cables, VLANs and the carrier of both protected ports"
        ),
    )
}

pub(super) fn met(link: &Link, outcome: &Outcome) -> Finding {
    let sci = outcome.peer.map(|sci| sci.to_string()).unwrap_or_default();
    let key = fingerprint_for(link, outcome.peer);
    let text = match &link.keys {
        Keys::Agreed(_) => {
            format!(
                "{sci} answers, and has the CAK (its fingerprint {key}); other members were not looked for"
            )
        }
        Keys::Static(sas) if sas.receive.iter().any(|sa| Some(sa.sci) != outcome.peer) => format!(
            "{sci} answers, and both keys fit (its fingerprint {key}); of several peers, this one was met first"
        ),
        Keys::None => format!("{sci} answers, and has the master key (its fingerprint {key})"),
        Keys::Static(_) => format!("{sci} answers, and both keys fit (its fingerprint {key})"),
    };
    Finding::ok("peer", text)
}
