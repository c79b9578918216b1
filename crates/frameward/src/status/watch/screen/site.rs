//! A site on the screen.

use ratatui::text::Line;

use super::{Look, Palette, discards, port_line, title, traffic};
use crate::status::text::Uptime;
use crate::status::watch::rates::Activity;
use report::site::{EpochReport, SitePeerReport, SiteReport};

pub(super) fn lines(site: &SiteReport, activity: &Activity, palette: Palette) -> Vec<Line<'static>> {
    let here = site.stations.iter().filter(|station| station.peer.is_none()).count();
    let about = format!("  stations: {here} here, {} elsewhere", site.stations.len() - here);
    let mut lines = title(&format!("site {}", site.name), about, &site.verdict, &site.concerns, palette);
    lines.extend(traffic(["LAN", "other sites"], activity, palette));
    lines.push(port_line("LAN", &site.lan, palette));
    for port in &site.udp {
        let (received, sent) = (port.counters.value("RxPackets"), port.counters.value("TxPackets"));
        let text = format!(
            "  {:<13}{}, {}, received {received}, sent {sent} packets",
            "UDP", port.address, port.what
        );
        lines.push(Line::from(palette.span(Look::Plain, text)));
    }
    lines.extend(discards(activity, palette));
    lines.extend(site.peers.iter().map(|peer| peer_line(peer, palette)));
    lines.push(Line::default());
    lines
}

fn peer_line(peer: &SitePeerReport, palette: Palette) -> Line<'static> {
    let SitePeerReport { name, mode, state, seconds, address, .. } = peer;
    let mut text = format!("  {:<13}{name}, {mode}, {state} for {}", "peer", Uptime(*seconds));
    if let Some(address) = address {
        text += &format!(", at {address}");
    }
    if let Some(hub) = peer.via.as_ref().filter(|_| peer.relayed) {
        text += &format!(", through {hub}");
    }
    if let Some(microseconds) = peer.round_trip_us {
        text += &format!(", {microseconds} us");
    }
    let up = peer.paths.iter().filter(|path| path.up).count();
    if !peer.paths.is_empty() {
        text += &format!(", paths {up}/{}", peer.paths.len());
    }
    if let Some(octets) = peer.path_payload {
        text += &format!(", payload {octets}");
    }
    if let Some(EpochReport { epoch, seconds }) = peer.transmit_epoch {
        text += &format!(", epoch {epoch} for {}", Uptime(seconds));
    }
    text += &format!(", flows {} out, {} in", peer.flows_acknowledged, peer.peer_flows);
    let well = state == "connected" && up == peer.paths.len();
    Line::from(palette.span(if well { Look::Plain } else { Look::Warn }, text))
}
