//! Peers of a running site that come and go: frames and sessions of all others go on.
//!
//! The worker is told first, so that it knows whom the management channel speaks of. Numbers are never used again, so
//! what is under way of a peer that has left is nobody's.

use control::Gateway as Control;
use dataplane::site::PeerChange;
use tracing::info;
use tunnel::{PEERS, PeerId, PeerSettings};

use super::super::RunningSite;
use super::{Channel, Works, about_udp, plain_peers, warn_if_plain};
use config::site::settings::{
    lan_frame, manager_peer, most_payload, open_further, peer_settings, plain_port,
};
use config::{Site, SitePeer};

impl RunningSite {
    /// Whether the site needs no other start to become as `config` says: it runs, nothing is different but what can change, and
    /// it has a management channel if and only if it is to have one.
    pub(in crate::run) fn may_go_on_as(&self, config: &Site) -> bool {
        let Some(works) = &self.works else { return false };
        let has_channel = matches!(works.channel, Channel::Quic(_));
        // The worker knows twins by their numbers, from its start on.
        let has_twins = self.config.has_twins() || config.has_twins();
        (!has_twins || self.config.peers == config.peers)
            && self.config.goes_on_as(config)
            && most_payload(config, works.about.lan_mtu).is_some() == has_channel
            && works.numbered + config.peers.len() <= PEERS
    }

    /// Has it be as `config` says, which is to be the site's from here on: its peers, and the VLANs that cross.
    ///
    /// # Errors
    /// As [`Self::change_peers`].
    pub(in crate::run) fn change(&mut self, config: &Site, control: &mut Control) -> Result<(), String> {
        if self.config.vlans != config.vlans {
            let vlans = config.vlans.clone().map(Box::new);
            control.set_vlans(&config.name, vlans).map_err(|error| error.to_string())?;
            info!(event = "site-changed", site = config.name, "other VLANs cross");
        }
        if self.config.peers == config.peers { Ok(()) } else { self.change_peers(config, control) }
    }

    /// Lets peers leave and others come, so that they are as `config` says. One
    /// that is configured otherwise than before does both.
    ///
    /// # Errors
    /// If a port cannot be opened, which changes nothing; or if the worker does not answer.
    fn change_peers(&mut self, config: &Site, control: &mut Control) -> Result<(), String> {
        let Some(works) = &mut self.works else { return Ok(()) };
        let (before, site) = (&self.config.peers, &config.name);
        let goes_on = |old: &SitePeer, peer: &SitePeer| old == peer || old.is_like_but_for_paths(peer);
        let stays = |peer: &SitePeer| Some(works.numbers[before.iter().position(|old| goes_on(old, peer))?]);
        let stay: Vec<Option<PeerId>> = config.peers.iter().map(stays).collect();
        let leave: Vec<PeerId> =
            works.numbers.iter().filter(|number| !stay.contains(&Some(**number))).copied().collect();
        let mut next = (works.numbered..).map(|number| PeerId(number as u16));
        let numbers: Vec<PeerId> = stay.iter().filter_map(|stays| stays.or_else(|| next.next())).collect();
        let come: Vec<(PeerId, &SitePeer)> = (numbers.iter().copied().zip(&config.peers))
            .filter(|(number, _)| number.index() >= works.numbered)
            .collect();

        works.tell_worker(config, &leave, &come, control)?;
        if let Some(kernel) = &works.kernel {
            kernel.expect_plain(plain_port(config), plain_peers(config, come.iter().copied()));
        }
        match &works.channel {
            Channel::Quic(manager) => {
                let most_payload = most_payload(config, works.about.lan_mtu).unwrap_or_default();
                let come = come.iter().map(|(number, peer)| (*number, manager_peer(peer))).collect();
                manager.change_peers(&leave, come, most_payload);
                let other_paths = stay.iter().zip(&config.peers).filter_map(|(stays, peer)| {
                    let known = before.contains(peer);
                    stays.filter(|_| !known).map(|number| (number, manager_peer(peer)))
                });
                manager.change_paths(other_paths.collect());
            }
            Channel::Plain(peers) => peers.change(&leave, come.iter().copied()),
        }
        works.numbered += come.len();
        for peer in before.iter().filter(|old| !config.peers.iter().any(|peer| peer.name == old.name)) {
            info!(event = "peer-removed", site, "peer {:?} has left", peer.name);
        }
        for (_, peer) in come {
            let again = before.iter().any(|old| old.name == peer.name);
            let what = if again { "begins anew" } else { "has come" };
            info!(event = "peer-added", site, "peer {:?} {what}", peer.name);
            warn_if_plain(site, peer);
        }
        works.numbers = numbers;
        Ok(())
    }
}

impl Works {
    fn tell_worker(
        &mut self,
        config: &Site,
        leave: &[PeerId],
        come: &[(PeerId, &SitePeer)],
        control: &mut Control,
    ) -> Result<(), String> {
        let is_there = |what| self.about.udp.iter().any(|port| port.what == what);
        let there = ["data", "header encryption", "plain"].map(is_there);
        let wan = open_further(config, there).map_err(|error| error.to_string())?;
        let mut udp = about_udp(&wan);
        let come: Vec<PeerSettings> = come.iter().map(|(_, peer)| peer_settings(config, peer)).collect();
        let change =
            PeerChange::new(leave.to_vec(), &come, wan, &config.limits, lan_frame(self.about.lan_mtu));
        control.change_peers(&config.name, Box::new(change)).map_err(|error| error.to_string())?;
        self.about.udp.append(&mut udp);
        Ok(())
    }
}
