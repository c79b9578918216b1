//! The metrics of a site. Peers are what the configuration names; stations and flows, which come from the LANs, are
//! numbers and no labels.

use super::{Families, Labels};
use prometheus_client::metrics::MetricType;
use report::Counters;
use report::site::{EpochReport, PathUplinkReport, SitePeerReport, SiteReport, UdpReport, UplinkReport};
use report::table::Group;

impl Families {
    pub(super) fn site(&mut self, site: &SiteReport) {
        let of_site: Labels = vec![("site", site.name.clone())];
        let help = "Whether frames pass and headers are protected, towards every peer.";
        self.gauge("site_protecting", help, &of_site, site.verdict.protecting.into());
        self.verdict("site_verdict", &of_site, &site.verdict);
        let help = "Number of concerns: /status has their texts.";
        self.gauge("site_concerns", help, &of_site, site.concerns.len() as u64);
        let mut of_lan = of_site.clone();
        of_lan.push(("interface", site.lan.interface.clone()));
        let help = "The MTU, in octets behind destination, source and EtherType.";
        self.gauge("site_lan_mtu_octets", help, &of_lan, site.lan.mtu.into());
        self.group(Group::Lan, &of_lan, &site.lan.counters);
        for UdpReport { what, address, counters } in &site.udp {
            let mut of_port = of_site.clone();
            of_port.extend([("what", what.clone()), ("address", address.clone())]);
            self.group(Group::Udp, &of_port, counters);
        }
        self.group(Group::Path, &of_site, &site.path);
        if let Some(uplink) = &site.uplink {
            self.uplink(&of_site, uplink);
        }
        for PathUplinkReport { name, figures } in &site.path_uplinks {
            let mut of_uplink = of_site.clone();
            of_uplink.push(("uplink", name.clone()));
            self.uplink(&of_uplink, figures);
        }
        self.group(Group::Tunnel, &of_site, &site.tunnel);
        if let Some(channel) = &site.channel {
            self.group(Group::Channel, &of_site, channel);
        }
        if let Some(standby) = &site.standby {
            let help = "Whether this box, one of two on its LAN, forwards.";
            self.gauge("site_standby_active", help, &of_site, (standby.role == "active").into());
            let help = "Times that this box, one of two on its LAN, began to forward.";
            self.gauge("site_standby_takeovers", help, &of_site, standby.takeovers);
            let help = "Milliseconds since the last beat of the other box of the LAN.";
            self.known("site_standby_heard_milliseconds", help, &of_site, standby.heard_ms_ago);
        }
        site.peers.iter().for_each(|peer| self.peer(&of_site, peer));
    }

    fn uplink(&mut self, of_uplink: &Labels, uplink: &UplinkReport) {
        let help = "The rate of the uplink, in bits a second.";
        self.gauge("site_uplink_bits_per_second", help, of_uplink, uplink.bits_per_second);
        let help = "Packets that wait for the uplink.";
        for (class, waiting) in [("express", uplink.express_waiting), ("bulk", uplink.bulk_waiting)] {
            let mut labels = of_uplink.clone();
            labels.push(("class", class.into()));
            self.gauge("site_uplink_packets_waiting", help, &labels, waiting);
        }
        let help = "Octets that wait for the uplink.";
        self.gauge("site_uplink_octets_waiting", help, of_uplink, uplink.octets_waiting);
        self.group(Group::Uplink, of_uplink, &uplink.counters);
    }

    fn peer(&mut self, of_site: &Labels, peer: &SitePeerReport) {
        let mut labels = of_site.clone();
        labels.push(("peer", peer.name.clone()));
        let connected = peer.state == "connected";
        let help = "Whether there is a management channel to the peer.";
        self.gauge("site_peer_connected", help, &labels, connected.into());
        let help = "Seconds since the last change of that.";
        self.gauge("site_peer_state_seconds", help, &labels, peer.seconds);
        let help = "A round trip over the management channel, in microseconds.";
        self.known("site_peer_round_trip_microseconds", help, &labels, peer.round_trip_us);
        let help = "Octets of the largest UDP payload towards the peer.";
        self.known("site_peer_path_payload_octets", help, &labels, peer.path_payload.map(u64::from));
        for (path, number) in peer.paths.iter().zip(1..) {
            let mut labels = labels.clone();
            labels.push(("path", number.to_string()));
            let help = "Whether this path to the peer carries packets both ways.";
            self.gauge("site_peer_path_up", help, &labels, path.up.into());
            let help = "Whether frames that go over one path go over this one.";
            self.gauge("site_peer_path_preferred", help, &labels, path.preferred.into());
            let help = "A round trip of probes on this path, in microseconds.";
            self.known("site_peer_path_round_trip_microseconds", help, &labels, path.round_trip_us);
            let help = "Of a thousand probes on this path, those that are lost.";
            self.known("site_peer_path_loss_per_mille", help, &labels, path.loss_per_mille.map(u64::from));
        }
        let age = |epoch: Option<EpochReport>| epoch.map(|epoch| epoch.seconds);
        let help = "Age of the epoch in use for sending, in seconds.";
        self.known("site_peer_transmit_epoch_seconds", help, &labels, age(peer.transmit_epoch));
        let help = "Age of the newest epoch in use for receiving, in seconds.";
        self.known("site_peer_receive_epoch_seconds", help, &labels, age(peer.receive_epoch));
        let help = "Flows towards the peer that it knows.";
        self.gauge("site_peer_flows_acknowledged", help, &labels, peer.flows_acknowledged as u64);
        let help = "Flows of the peer that are known here.";
        self.gauge("site_peer_known_flows", help, &labels, peer.peer_flows as u64);
        let help = "Whether frames of known flows go through the kernel: /status says why not.";
        for (way, in_kernel) in ["outward", "inward"].into_iter().zip(peer.in_kernel().into_iter().flatten())
        {
            let mut labels = labels.clone();
            labels.push(("way", way.into()));
            self.gauge("site_peer_in_kernel", help, &labels, in_kernel.into());
        }
        self.group(Group::Peer, &labels, &peer.counters);
        if let Some(session) = &peer.session {
            self.group(Group::Session, &labels, session);
        }
        labels.push(("mode", peer.mode.clone()));
        self.info("site_peer", "How the peer's headers are protected.", labels);
    }

    fn known(&mut self, name: &str, help: &'static str, labels: &Labels, value: Option<u64>) {
        if let Some(value) = value {
            self.gauge(name, help, labels, value);
        }
    }

    pub(super) fn group(&mut self, group: Group, labels: &Labels, counters: &Counters) {
        for (name, value) in counters.iter() {
            let row =
                group.counter(name).expect("invariant: a report's counters stand in their group's table");
            let family = format!("{}_{}", group.object(), row.metric);
            self.add(family, MetricType::Counter, row.meaning, labels, value);
        }
    }
}
