//! Cause of a peer's silence, one, and one cure.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use config::{Site, SitePeer};
use report::site::SitePeerReport;

use super::super::Finding;
use super::way::Way;

/// Whether a peer with a way to it does not answer.
pub(super) fn is_silent(report: &SitePeerReport) -> bool {
    !matches!(report.state.as_str(), "plain" | "connected" | "greeting" | "refused" | "waiting")
}

/// Address to which the way to a silent peer is probed: none where that says nothing. Of several paths the first with an endpoint stands for all.
pub(super) fn probed(site: &Site, peer: &SitePeer, report: &SitePeerReport) -> Option<SocketAddr> {
    let endpoint = peer.endpoints().next().filter(|_| peer.via.is_none() && report.cure.is_empty())?;
    reachable(site.bind, endpoint.to_string().to_socket_addrs().ok()?)
}

/// The first of a name's addresses to which a socket at `bind` can send: `[::]` alone takes both kinds.
fn reachable(bind: SocketAddr, addresses: impl IntoIterator<Item = SocketAddr>) -> Option<SocketAddr> {
    let both = bind.is_ipv6() && bind.ip().is_unspecified();
    addresses.into_iter().find(|to| both || to.is_ipv4() == bind.is_ipv4())
}

/// The finding about a silent peer. `reports` are those of all peers.
pub(super) fn finding(
    site: &Site,
    peer: &SitePeer,
    report: &SitePeerReport,
    reports: &[SitePeerReport],
    way: Option<(SocketAddr, Way)>,
) -> Finding {
    let name = &peer.name;
    let because = if report.reason.is_empty() { String::new() } else { format!(" ({})", report.reason) };
    let answers = |other: &SitePeerReport| matches!(other.state.as_str(), "connected" | "greeting");
    let text = match (&peer.via, way) {
        (Some(hub), _) => {
            let hub = &hub.name;
            if reports.iter().any(|other| other.name == *hub && !answers(other)) {
                format!(
                    "{name} does not answer: {hub}, its relay, is not reached; make that one answer first"
                )
            } else {
                format!(
                    "{name} does not answer through {hub}{because}: see that {hub} has relay = true and {name} among its peers; start the gateway of {name} or doctor there, with via for this site"
                )
            }
        }
        (None, Some((to, way))) => {
            let why = why(to, way, reports.iter().any(answers));
            [name, " does not answer", &because, ": ", &why].concat()
        }
        (None, None) if !report.cure.is_empty() => {
            [name, " does not answer", &because, ": ", &report.cure].concat()
        }
        (None, None) => format!(
            "{name} does not answer{because}: start its gateway or doctor there; let UDP {} in at its firewall and out at yours",
            peer.endpoints().next().map_or(site.bind.port(), |endpoint| endpoint.port),
        ),
    };
    Finding::problem("peer", text)
}

/// Cause and cure. `gets_out`: another peer answers.
fn why(to: SocketAddr, way: Way, gets_out: bool) -> String {
    let (ip, port, needed) = (to.ip(), to.port(), Way::needed(to));
    match way {
        Way::NoRoute => {
            format!("this box has no route to {ip}; give it one ('ip route get {ip}' asks for it)")
        }
        Way::HeldHere => format!(
            "this box itself drops UDP {port} to {ip}; let it out at the filter here ('nft list ruleset' shows it)"
        ),
        Way::NarrowHere => format!(
            "the interface of this box towards {ip} carries less than the {needed} octets that QUIC needs; raise its MTU"
        ),
        Way::Narrow { by, octets: 0 } => format!(
            "the path behind {by} carries packets of too few octets, and QUIC needs {needed}; raise its MTU"
        ),
        Way::Narrow { by, octets } => format!(
            "the path behind {by} carries packets of {octets} octets, and QUIC needs {needed}; raise its MTU"
        ),
        Way::Closed { by } if by == ip => {
            format!("nobody listens at UDP {port} of {ip}; start its gateway, or doctor, there")
        }
        Way::Closed { by } | Way::Forbidden { by } => {
            format!("{by} refuses UDP {port} to {ip}; let it pass at that firewall")
        }
        Way::Unreachable { by } => {
            format!("{by} knows no way to {ip}; see that its box is on, and that endpoint is its address")
        }
        Way::Open => format!(
            "{ip} takes UDP {port} and says nothing, as a site does to whom does not know its key; write what 'frameward check' prints there as identity as its public_key here"
        ),
        Way::Lost { behind: Some(by) } if is_inside(by) && !is_inside(ip) && !gets_out => format!(
            "UDP {port} is lost behind {by}, before the internet; let it out at the firewall of this plant"
        ),
        Way::Lost { behind: Some(by) } => format!(
            "UDP {port} gets as far as {by}, and nothing behind {by} answers; look first at this plant's firewall, then at firewall and NAT of the other plant, where doctor says whether it comes"
        ),
        Way::Lost { behind: None } if gets_out => format!(
            "UDP {port} to {ip} is lost, and other peers answer; let it in at the firewall and NAT of that plant"
        ),
        Way::Lost { behind: None } => format!(
            "UDP {port} to {ip} is lost, and no router says where; let it pass at the firewalls of both plants"
        ),
    }
}

/// Whether networks use such an address inside, behind a NAT (RFC 1918, RFC 6598, RFC 4193).
const fn is_inside(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(four) => {
            let [first, second, ..] = four.octets();
            four.is_private() || first == 100 && second & 0xc0 == 64
        }
        IpAddr::V6(six) => six.is_unique_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_sends_to_addresses_of_its_kind() {
        let [six, four] = ["[2001:db8::1]:7", "192.0.2.1:7"].map(|to| to.parse::<SocketAddr>().unwrap());
        for (bind, first, of_four_alone) in [
            ("0.0.0.0:7", Some(four), Some(four)),
            ("192.0.2.9:7", Some(four), Some(four)),
            ("[::]:7", Some(six), Some(four)),
            ("[2001:db8::9]:7", Some(six), None),
        ] {
            let bind = bind.parse().unwrap();
            assert_eq!(reachable(bind, [six, four]), first, "{bind}");
            assert_eq!(reachable(bind, [four]), of_four_alone, "{bind}");
        }
    }
}
