//! Words of a gateway's heartbeat about its links, sites and cells: for each its name, its verdict's level and word, and the gateways at its other
//! ends by their names. The sentences of verdicts name stations and addresses, and stay in the report.

use fleet::{Part, PartKind, PartLevel, Parts, Peers};
use report::mka::MkaReport;
use report::site::SiteReport;
use report::{GatewayReport, Level, Verdict};

/// State of a site's channel to a peer that it has keys with.
const CONNECTED: &str = "connected";
/// State of a peer that has no channel.
const PLAIN: &str = "plain";

/// The verdicts of a report, in the order of its parts.
pub(super) fn parts(report: &GatewayReport) -> Parts {
    let mut parts = Vec::new();
    for link in &report.links {
        // A cell that drops the rest has no link beside it.
        if link.has_secy() {
            let peers = link.mka.as_ref().map(of_group);
            parts.push(Part { peers, ..part(PartKind::Link, &link.name, &link.verdict) });
        }
        let cell = link.fieldbus.as_ref();
        parts.extend(cell.map(|cell| part(PartKind::Cell, &cell.name, &cell.verdict)));
    }
    let site = |site: &SiteReport| Part {
        peers: Some(of_site(site)),
        ..part(PartKind::Site, &site.name, &site.verdict)
    };
    parts.extend(report.sites.iter().map(site));
    Parts::new(parts)
}

/// The others of a link, as they are heard. Nobody knows here who else belongs to it.
fn of_group(mka: &MkaReport) -> Peers {
    let live = mka.members.iter().filter(|member| member.live);
    Peers::new(live.map(|member| member.name.as_deref()), [])
}

/// The peers of a site. A plain one has no keys, so nothing shows whether it is there.
fn of_site(site: &SiteReport) -> Peers {
    let of = |is_connected: bool| {
        let peers = site.peers.iter().filter(|peer| peer.state != PLAIN);
        let peers = peers.filter(move |peer| (peer.state == CONNECTED) == is_connected);
        peers.map(|peer| peer.name.as_str())
    };
    Peers::new(of(true).map(Some), of(false))
}

fn part(kind: PartKind, name: &str, verdict: &Verdict) -> Part {
    let level = match verdict.level {
        Level::Good => PartLevel::Good,
        Level::Idle => PartLevel::Idle,
        Level::Attention => PartLevel::Attention,
        Level::Alarm => PartLevel::Alarm,
    };
    Part { kind, name: name.to_owned(), level, state: verdict.state.clone(), peers: None }
}
