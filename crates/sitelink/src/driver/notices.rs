//! Notices for people: callers that are no peers, do not know this site's public key, or hear no answer.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use suite::identity::PublicKey;
use tunnel::PeerId;

use super::super::peer::Peer;
use super::Driver;

/// Interval between notices of strangers.
const STRANGER: Duration = Duration::from_secs(10);
/// Interval between notices that somebody at a peer's address does not know this site's public key. Anybody can send such packets in
/// its name.
const UNKNOCKED: Duration = Duration::from_secs(60);

impl Driver<'_> {
    /// Notes that calls arrive and answers do not. When two calls meet, one of them ends early too, and soon there is a connection: the
    /// second such end in a row counts.
    pub(super) fn report_unheard(&mut self, address: IpAddr) {
        let is_there: Vec<PeerId> = self.shared.with_roster(|roster| roster.peers_at(address).collect());
        let waits = |peer: &Peer| peer.is_waited_for(is_there.contains(&peer.id()));
        if !self.peers.iter().any(waits) {
            self.unheard = None;
            return;
        }
        let first = self.unheard.replace(address) != Some(address);
        if first || self.told_unheard.is_some_and(|last| last.elapsed() < UNKNOCKED) {
            return;
        }
        self.told_unheard = Some(Instant::now());
        let (address, port) = (address.to_canonical(), self.local.port());
        let text = format!(
            "{address} calls, knows this site's public key, and hears no answer: let what this site sends from UDP {port} pass at the firewalls on the way there"
        );
        self.shared.board.notice(&self.shared.shared_counters, None, text);
    }

    /// Notes that somebody does not know this site's key. He gets no answer, so nobody else can tell why.
    pub(super) fn report_unknocked(&mut self) {
        if self.unknocked.is_some_and(|last| last.elapsed() < UNKNOCKED) {
            return;
        }
        let Some(address) = self.shared.socket.unknocked() else { return };
        self.unknocked = Some(Instant::now());
        let (address, own) = (address.to_canonical(), self.settings.identity.public());
        let text = format!(
            "{address}, where a peer is, wants to connect and does not show that it knows this site's public key; if it is that peer, write {own} as public_key there, and bring it to this version"
        );
        self.shared.board.notice(&self.shared.shared_counters, None, text);
    }

    /// Notes that somebody calls whose public key no peer has.
    pub(super) fn report_stranger(&mut self, address: IpAddr, key: PublicKey) {
        if self.stranger.is_none_or(|last| last.elapsed() >= STRANGER) {
            self.stranger = Some(Instant::now());
            let text = format!(
                "{address} wants to connect with the public key {key}, which no peer has; if it is one of your sites, write it as that peer's public_key"
            );
            self.shared.board.notice(&self.shared.shared_counters, None, text);
        }
    }
}
