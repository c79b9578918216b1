//! A site as text.

use std::fmt;

use super::{Detail, StatusText, Uptime};
use report::site::{
    EpochReport, FlowReport, SitePathReport, SitePeerReport, SiteReport, StandbyReport, StationReport,
    UdpReport, UplinkReport,
};
use report::table::Group;

/// Stations and flows that are shown; all of them with [`Detail::All`].
const SHOWN: usize = 20;

impl StatusText<'_> {
    pub(super) fn site(&self, f: &mut fmt::Formatter<'_>, site: &SiteReport) -> fmt::Result {
        writeln!(f, "\nsite {}", site.name)?;
        super::judged(f, 2, &site.verdict, &site.concerns)?;
        let table = Group::ALL.into_iter().flat_map(Group::table);
        self.explained(f, &site.verdict, &site.concerns, table)?;
        if let Some(key) = &site.public_key {
            writeln!(f, "  public key {key}")?;
        }
        self.port(f, "LAN", &site.lan)?;
        for UdpReport { what, address, counters } in &site.udp {
            writeln!(f, "  UDP {address}, {what}")?;
            self.counters(f, 4, counters)?;
        }
        if site.peers.iter().all(|peer| peer.path.is_none()) {
            writeln!(f, "  in user space, both ways")?;
        }
        for (what, counters) in [("kinds of frames and packets", &site.path), ("tunnel", &site.tunnel)] {
            writeln!(f, "  {what}")?;
            self.counters(f, 4, counters)?;
        }
        if let Some(uplink) = &site.uplink {
            self.uplink(f, "uplink", uplink)?;
        }
        for uplink in &site.path_uplinks {
            self.uplink(f, &format!("uplink {}", uplink.name), &uplink.figures)?;
        }
        if let Some(channel) = &site.channel {
            writeln!(f, "  management channel")?;
            self.counters(f, 4, channel)?;
        }
        if let Some(standby) = &site.standby {
            write_standby(f, standby)?;
        }
        site.peers.iter().try_for_each(|peer| self.peer(f, peer))?;
        self.stations(f, &site.stations)?;
        self.flows(f, &site.flows)
    }

    fn uplink(&self, f: &mut fmt::Formatter<'_>, what: &str, uplink: &UplinkReport) -> fmt::Result {
        writeln!(
            f,
            "  {what}, {} kbit/s; {} express and {} other packets wait, {} octets",
            uplink.bits_per_second / 1000,
            uplink.express_waiting,
            uplink.bulk_waiting,
            uplink.octets_waiting
        )?;
        self.counters(f, 4, &uplink.counters)
    }

    fn peer(&self, f: &mut fmt::Formatter<'_>, peer: &SitePeerReport) -> fmt::Result {
        let SitePeerReport { name, mode, state, seconds, reason, .. } = peer;
        match state.as_str() {
            "plain" => writeln!(f, "  peer {name}, plain, NOT PROTECTED")?,
            _ => writeln!(f, "  peer {name}, {mode}, {state} for {}", Uptime(*seconds))?,
        }
        if !reason.is_empty() {
            writeln!(f, "    {reason}")?;
        }
        let place = match (&peer.via, &peer.address, &peer.endpoint) {
            (Some(hub), ..) if peer.relayed => format!("relayed by {hub}, in user space"),
            (Some(_), Some(address), _) => format!("data goes directly to {address}"),
            (Some(hub), None, _) => format!("to be relayed by {hub}, not found yet"),
            (None, Some(address), _) => format!("data goes to {address}"),
            (None, None, Some(endpoint)) => format!("configured to be at {endpoint}, not found yet"),
            (None, None, None) => "may connect from anywhere, and has not yet".to_owned(),
        };
        write!(f, "    {place}")?;
        if let Some(microseconds) = peer.round_trip_us {
            write!(f, ", round trip {microseconds} us")?;
        }
        if let Some(octets) = peer.path_payload {
            write!(f, ", UDP payload up to {octets}")?;
        }
        if let Some(seconds) = peer.instance_seconds {
            write!(f, ", running for {} at least", Uptime(seconds))?;
        }
        writeln!(f)?;
        if !peer.not_direct.is_empty() {
            writeln!(f, "    {}", peer.not_direct)?;
        }
        if let Some(path) = &peer.path {
            writeln!(f, "    known flows: {path}")?;
        }
        peer.paths.iter().zip(1..).try_for_each(|(path, number)| write_path(f, number, path))?;
        if let Some(address) = &peer.seen_at {
            writeln!(f, "    sees this site at {address}")?;
        }
        if let Some(group) = &peer.key_exchange {
            writeln!(f, "    keys agreed on by {group}")?;
        }
        if mode != "plain" {
            let epoch = |epoch: Option<EpochReport>| match epoch {
                Some(EpochReport { epoch, seconds }) => format!("epoch {epoch}, {} old", Uptime(seconds)),
                None => "no epoch".to_owned(),
            };
            let (send, receive) = (epoch(peer.transmit_epoch), epoch(peer.receive_epoch));
            writeln!(f, "    sends under {send}; receives under {receive}")?;
            writeln!(
                f,
                "    flows: {} known there, {} announced; {} of its own",
                peer.flows_acknowledged, peer.flows_announced, peer.peer_flows
            )?;
        }
        self.counters(f, 4, &peer.counters)?;
        if let Some(session) = &peer.session {
            self.counters(f, 4, session)?;
        }
        Ok(())
    }

    fn stations(&self, f: &mut fmt::Formatter<'_>, stations: &[StationReport]) -> fmt::Result {
        if stations.is_empty() {
            return writeln!(f, "  stations: none heard");
        }
        writeln!(f, "  stations")?;
        for StationReport { address, peer, seconds } in stations.iter().take(self.shown()) {
            let place =
                peer.as_ref().map_or_else(|| "on this LAN".to_owned(), |peer| format!("behind {peer}"));
            writeln!(f, "    {address}  {place}, heard {seconds} s ago")?;
        }
        self.left_out(f, stations.len())
    }

    fn flows(&self, f: &mut fmt::Formatter<'_>, flows: &[FlowReport]) -> fmt::Result {
        if flows.is_empty() {
            return Ok(());
        }
        writeln!(f, "  flows")?;
        for flow in flows.iter().take(self.shown()) {
            let FlowReport { peer, index, sci, source, destination, acknowledged, seconds } = flow;
            let sci = sci.as_ref().map_or_else(|| "no SCI".to_owned(), |sci| format!("SCI {sci}"));
            let known = if *acknowledged { "known there" } else { "not known there yet" };
            writeln!(
                f,
                "    {index:>5} to {peer}: {source} to {destination}, {sci}, {known}, used {seconds} s ago"
            )?;
        }
        self.left_out(f, flows.len())
    }

    const fn shown(&self) -> usize {
        match self.detail {
            Detail::NonZero => SHOWN,
            Detail::All => usize::MAX,
        }
    }

    fn left_out(&self, f: &mut fmt::Formatter<'_>, all: usize) -> fmt::Result {
        match all.saturating_sub(self.shown()) {
            0 => Ok(()),
            more => writeln!(f, "    and {more} more: --all shows them"),
        }
    }
}

fn write_path(f: &mut fmt::Formatter<'_>, number: usize, path: &SitePathReport) -> fmt::Result {
    let state = match (path.up, path.preferred) {
        (true, true) => "up, preferred",
        (true, false) => "up",
        (false, _) => "down",
    };
    write!(f, "    path {number} ({}): {state}", path.settings)?;
    if !path.reason.is_empty() {
        write!(f, ": {}", path.reason)?;
    }
    if let (true, Some(address)) = (path.up, &path.address) {
        write!(f, ", at {address}")?;
    }
    if let Some(microseconds) = path.round_trip_us {
        write!(f, ", round trip {microseconds} us")?;
    }
    if let Some(lost) = path.loss_per_mille {
        write!(f, ", {}.{} % of probes lost", lost / 10, lost % 10)?;
    }
    if let Some(octets) = path.payload {
        write!(f, ", UDP payload up to {octets}")?;
    }
    writeln!(f)
}

fn write_standby(f: &mut fmt::Formatter<'_>, standby: &StandbyReport) -> fmt::Result {
    let StandbyReport {
        role,
        cause,
        since_ms,
        takeovers,
        partner,
        partner_role,
        heard_ms_ago,
        other_takeover_ms,
    } = standby;
    writeln!(f, "  one of two boxes on its LAN: {role} for {}: {cause}", Uptime(since_ms / 1000))?;
    let heard = match (partner_role, heard_ms_ago) {
        (Some(role), Some(ms)) => format!("{role}, heard {ms} ms ago"),
        _ => "not heard yet".to_owned(),
    };
    writeln!(f, "    the other one, {partner}: {heard}; this one began to forward {takeovers} times")?;
    if let Some(milliseconds) = other_takeover_ms {
        writeln!(
            f,
            "    it has takeover = {milliseconds}, and both use the larger one; write the same in both configurations"
        )?;
    }
    Ok(())
}
