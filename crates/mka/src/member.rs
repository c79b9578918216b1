//! A SAK's way into the SecY: checking a distributed SAK, admitting members under it, bringing it into use.

use alloc::vec::Vec;

use suite::{CipherSuite, Sak, mka};
use wire::mkpdu::{Capability, Confidentiality, DistributedSak};
use wire::{An, Ki, Mi, Sci, Ssci};

use crate::announcement::{fragmentation, listed};
use crate::cp::CpInputs;
use crate::election::ElectedServer;
use crate::event::{Admission, Association};
use crate::kay::Kay;
use crate::message::Message;
use crate::participant::Participant;
use crate::peers::Peer;
use crate::reason::{Reason, Refusal, SakReason};
use crate::settings::OnPeerLoss;

impl Kay {
    /// Handles a distributed SAK. Accepts only a SAK of the elected key server of the principal participant,
    /// in an MKPDU that lists us as live with a recent MN. No recorded MKPDU of an earlier session has that.
    pub(crate) fn handle_distributed_sak(
        &mut self,
        i: usize,
        message: &Message<'_>,
        offered: Option<DistributedSak<'_>>,
    ) {
        let participant = &self.participants[i];
        let mi = message.basic.mi;
        let is_ours = participant.id == self.principal && participant.server() == ElectedServer::Peer(mi);
        let lists_us = participant.recent_listing(self.now, message).is_some_and(|listing| listing.live);
        let Some(server) = participant.peers.find(mi).filter(|_| is_ours && lists_us) else { return };
        let from = server.sci;
        let ki = Ki { server: mi, kn: offered.map_or(0, |offered| offered.kn) };
        match self.evaluate_offer(participant, server, ki, offered) {
            Ok(None) => {}
            Ok(Some((suite, sak, offered))) => {
                let members: Vec<Mi> =
                    message.live_members().filter(|member| *member != participant.mi).chain([mi]).collect();
                let new = self.build_association(
                    i,
                    ki,
                    offered.an,
                    (suite, offered.confidentiality, sak),
                    &members,
                );
                let (now, participant) = (self.now, &mut self.participants[i]);
                let peers = &participant.peers;
                let unheard =
                    members.iter().any(|mi| peers.find(*mi).is_none() && !peers.is_out_of_reach(now, *mi));
                participant.refused = None;
                if let Some(server) = participant.peers.find_mut(mi) {
                    server.highest_kn = ki.kn;
                }
                let owner = participant.id;
                self.out.notify(self.now, Reason::SakTaken { ki, an: offered.an, suite, from });
                self.cp.install(self.now, owner, new, &mut self.out);
                if let Some(latest) = self.cp.latest_mut() {
                    latest.unheard = unheard;
                }
                self.record_listeners(i, ki);
            }
            Err(why) => {
                if self.participants[i].refused != Some((ki, why)) {
                    self.participants[i].refused = Some((ki, why));
                    self.counters.saks_refused += 1;
                    self.counters.saks_weaker += u64::from(matches!(why, Refusal::Weaker(_)));
                    self.out.notify(self.now, Reason::SakRefused { from, why });
                }
            }
        }
    }

    /// The distributed SAK; `None` if it is installed, or cannot be installed yet.
    fn evaluate_offer<'f>(
        &self,
        participant: &Participant,
        server: &Peer,
        ki: Ki,
        offered: Option<DistributedSak<'f>>,
    ) -> Result<Option<(CipherSuite, Sak, DistributedSak<'f>)>, Refusal> {
        let offered = offered.ok_or(Refusal::NoMacsec)?;
        if self.cp.find(ki).is_some() {
            return Ok(None);
        }
        if ki.kn <= server.highest_kn {
            return Err(Refusal::Old(ki));
        }
        let suite = match offered.suite {
            None => CipherSuite::GcmAes128,
            Some(identifier) => {
                CipherSuite::from_identifier(identifier).ok_or(Refusal::UnknownSuite(identifier))?
            }
        };
        if !listed(&self.settings).contains(&suite) {
            return Err(Refusal::Suite(suite));
        }
        let needed = match offered.confidentiality {
            Confidentiality::Integrity => Capability::Integrity,
            Confidentiality::Zero => Capability::Confidentiality,
            Confidentiality::Thirty | Confidentiality::Fifty => Capability::Offsets,
        };
        let offset = needed == Capability::Offsets;
        if self.settings.capability < needed || offset && !suite.allows_confidentiality_offset() {
            return Err(Refusal::Confidentiality(offered.confidentiality));
        }
        // Otherwise user data would leave in clear at another station's word.
        let floor = self.settings.confidentiality;
        if !self.settings.accept_integrity && hidden(offered.confidentiality) < hidden(floor) {
            return Err(Refusal::Weaker(offered.confidentiality));
        }
        // The MKPDU lists members that were not heard yet, and the SSCIs depend on their SCIs. It will be
        // repeated.
        if suite.is_xpn()
            && server.hears.iter().any(|mi| *mi != participant.mi && participant.peers.find(*mi).is_none())
        {
            return Ok(None);
        }
        let sak = participant.kek.unwrap(suite, offered.wrapped).map_err(|_| Refusal::Unwrap)?;
        Ok(Some((suite, sak, offered)))
    }

    /// Parameters of a SAK for these members (without us), as far as they were heard; and their MIs.
    pub(crate) fn build_association(
        &self,
        i: usize,
        ki: Ki,
        an: An,
        (suite, confidentiality, sak): (CipherSuite, Confidentiality, Sak),
        members: &[Mi],
    ) -> (Association, Vec<Mi>) {
        let participant = &self.participants[i];
        let peers: Vec<&Peer> = members.iter().filter_map(|mi| participant.peers.find(*mi)).collect();
        // The highest SCI has SSCI 1 (IEEE 802.1AE clause 10.7.13).
        let mut scis: Vec<Sci> = peers.iter().map(|peer| peer.sci).chain([self.settings.sci]).collect();
        scis.sort_unstable_by(|a, b| b.cmp(a));
        scis.dedup();
        let ssci = |sci: Sci| {
            let place = scis.iter().position(|other| *other == sci).unwrap_or_default();
            Ssci(place as u32 + 1)
        };
        let receive = peers
            .iter()
            .map(|peer| Admission { sci: peer.sci, ssci: suite.is_xpn().then(|| ssci(peer.sci)) });
        // A member out of reach receives nothing, fragmented or not.
        let is_heard = |mi: &Mi| {
            participant.peers.find(*mi).is_some() || participant.peers.is_out_of_reach(self.now, *mi)
        };
        let all_heard = members.iter().all(is_heard);
        // Only the members that receive the SAK. A station that has just gone may still be live here, and not
        // for the key server.
        let mut fragmentation = fragmentation(&self.settings, peers.iter().copied());
        fragmentation.fragment &= all_heard;
        fragmentation.concatenate &= all_heard;
        let association = Association {
            ki,
            an,
            suite,
            sak,
            confidentiality,
            xpn: suite.is_xpn().then(|| (mka::salt(&ki), ssci(self.settings.sci))),
            receive: receive.collect(),
            fragmentation,
        };
        (association, peers.iter().map(|peer| peer.mi).collect())
    }

    /// Admits members that are heard only now, and removes those that are gone.
    pub(crate) fn sync_receive_scs(&mut self) {
        self.admit_members();
        self.expel_gone();
        self.request_sak_for_expelled();
        if self.asks_to_replace.is_some() && self.asks_to_replace != self.cp.latest().map(|latest| latest.ki)
        {
            self.asks_to_replace = None;
        }
    }

    /// As a member: admits every peer that the key server lists as live, even without proof that it hears us.
    /// The peer's frames arrive as soon as the key server lists it.
    fn admit_members(&mut self) {
        let Some(latest) = self.cp.latest() else { return };
        let Some(participant) = self.participant(latest.owner) else { return };
        let Some(server) = participant.server_peer().filter(|server| server.mi == latest.ki.server) else {
            return;
        };
        let others = || server.hears.iter().filter(|mi| **mi != participant.mi);
        let is_to_come = |mi: &Mi| {
            participant.peers.find(*mi).is_none() && !participant.peers.is_out_of_reach(self.now, *mi)
        };
        let to_come = others().any(is_to_come);
        let incomplete = !latest.tx && to_come;
        // The missing members are out of reach: SDUs may be fragmented under the next SAK.
        let out_of_reach = || others().any(|mi| participant.peers.is_out_of_reach(self.now, *mi));
        let wanted = self.settings.fragment || self.settings.concatenate;
        let divides = wanted && latest.unheard && !to_come && out_of_reach();
        let mut too_much = false;
        let mut missing: Vec<(Sci, Mi)> = Vec::new();
        if !latest.suite.is_xpn() {
            let heard = others().filter_map(|mi| participant.peers.find(*mi));
            for peer in heard.filter(|peer| !latest.knows(peer.sci)) {
                // It was out of reach, and would not understand frames under this SAK.
                let bearable = fragmentation(&self.settings, [peer].into_iter());
                too_much |= latest.fragmentation.fragment && !bearable.fragment
                    || latest.fragmentation.concatenate && !bearable.concatenate;
                if !missing.iter().any(|(sci, _)| *sci == peer.sci) {
                    missing.push((peer.sci, peer.mi));
                }
            }
        }
        for (sci, mi) in missing {
            self.cp.admit(sci, mi, &mut self.out);
        }
        if let Some(latest) = self.cp.latest_mut().filter(|_| divides) {
            latest.unheard = false;
        }
        if let Some(latest) = self.cp.latest_mut().filter(|latest| latest.incomplete != incomplete) {
            latest.incomplete = incomplete;
            self.request_mkpdus();
        }
        if too_much || divides {
            self.ask_for_sak();
        }
    }

    /// Removes members that are live for nobody here and for the key server neither. With `hold` they stay as
    /// long as the SAK.
    fn expel_gone(&mut self) {
        if self.settings.on_peer_loss == OnPeerLoss::Hold {
            return;
        }
        let gone = |sci: Sci, mi: Mi| {
            self.participants.iter().all(|participant| {
                !participant.peers.has_live(sci)
                    && !participant.server_peer().is_some_and(|server| server.hears.contains(&mi))
            })
        };
        let gone: Vec<Sci> = self.cp.scs().iter().filter(|sc| gone(sc.sci, sc.mi)).map(|sc| sc.sci).collect();
        for sci in gone {
            self.cp.expel(sci, &mut self.out);
        }
    }

    /// An expelled station that is live again cannot be admitted under the same SAK: it needs another one.
    fn request_sak_for_expelled(&mut self) {
        let Some(latest) = self.cp.latest() else { return };
        let Some(participant) = self.participant(latest.owner) else { return };
        let Some(back) = participant.peers.live().find(|peer| peer.macsec && latest.has_expelled(peer.sci))
        else {
            return;
        };
        let (sci, server) = (back.sci, participant.server());
        match server {
            ElectedServer::Me => self.need(SakReason::Returned(sci)),
            ElectedServer::Peer(_) => self.ask_for_sak(),
            ElectedServer::None => {}
        }
    }

    /// As a member: requests another SAK from the key server.
    pub(crate) fn ask_for_sak(&mut self) {
        let latest = self.cp.latest().filter(|latest| latest.owner == self.principal).map(|latest| latest.ki);
        if latest.is_some() && self.asks_to_replace != latest {
            self.asks_to_replace = latest;
            self.request_mkpdus();
        }
    }

    /// Runs the CP machine.
    pub(crate) fn run_cp(&mut self) {
        let Some(latest) = self.cp.latest() else { return };
        let ki = latest.ki;
        let owner = self.participants.iter().find(|participant| participant.id == latest.owner);
        let (inputs, peers): (_, Vec<&Peer>) = match owner {
            None => (CpInputs::default(), Vec::new()),
            Some(participant) => {
                let own = participant.serving.distribution.as_ref().filter(|own| own.ki == ki);
                let server = participant.server_peer();
                // A station that joined later and has no SAK misses nothing: it waits for the next one.
                let peers: Vec<&Peer> = participant
                    .peers
                    .live()
                    .filter(|peer| {
                        let is_new = own.is_some_and(|own| !own.members.contains(&peer.mi));
                        peer.macsec && !(is_new && peer.uses.iter().all(|key| !key.tx))
                    })
                    .collect();
                let knows_all = own.is_some()
                    || server.is_some_and(|server| {
                        let mut members = server.hears.iter().filter(|mi| **mi != participant.mi);
                        members.all(|mi| match participant.peers.find(*mi) {
                            Some(peer) => peer.live,
                            None => participant.peers.is_out_of_reach(self.now, *mi),
                        })
                    });
                let inputs = CpInputs {
                    elected_self: own.is_some(),
                    all_receiving: latest.receives()
                        && knows_all
                        && peers.iter().all(|peer| peer.receives(ki)),
                    server_transmitting: server.is_some_and(|server| server.transmits(ki)),
                };
                (inputs, peers)
            }
        };
        if self.cp.handle_inputs(self.now, inputs, &peers, &mut self.out) {
            self.request_mkpdus();
        }
    }
}

/// Degree of confidentiality, for comparison.
const fn hidden(confidentiality: Confidentiality) -> u8 {
    match confidentiality {
        Confidentiality::Integrity => 0,
        Confidentiality::Fifty => 1,
        Confidentiality::Thirty => 2,
        Confidentiality::Zero => 3,
    }
}
