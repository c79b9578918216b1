//! Contents of our MKPDUs (IEEE 802.1X-2020 clause 11.11.3).
//!
//! Basic, live and potential peers, SAK Use, Distributed SAK, Announcement; XPN with an XPN suite. 32 peers
//! of each kind and a name of 63 octets make 1,466 octets.

use wire::mkpdu::{ALGORITHM_AGILITY, BasicParameters, EAPOL_VERSION, MKA_VERSION, ParameterSet, PeerEntry};
use wire::mkpdu::{Capability, PeerList, SakUse, TooLong, Writer};

use crate::cp::Cp;
use crate::frame::{FRAME_OCTETS, Frame};
use crate::participant::Participant;
use crate::participants::Participants;
use crate::peer::LIVE;
use crate::peers::POTENTIAL;
use crate::station::Station;
use crate::terms::keeps_whole;
use crate::{announcement, interop, key_server};

/// The state of a KaY that its MKPDUs show.
#[derive(Clone, Copy)]
pub(crate) struct Contents<'k> {
    pub(crate) station: &'k Station,
    pub(crate) participants: &'k Participants,
    pub(crate) cp: &'k Cp,
}

impl Contents<'_> {
    /// An MKPDU of this participant.
    pub(crate) fn mkpdu(&self, participant: &Participant, mn: u32) -> Frame {
        let mut buffer = [0; FRAME_OCTETS];
        let octets = self.write(participant, mn, &mut buffer);
        octets.expect("invariant: peers and suites are bounded").iter().copied().collect()
    }

    fn write<'b>(
        &self,
        participant: &Participant,
        mn: u32,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8], TooLong> {
        let (settings, peers) = (self.station.settings(), participant.peers());
        let basic = BasicParameters {
            version: MKA_VERSION,
            priority: settings.priority,
            key_server: participant.claims(&self.station.candidate()),
            macsec_desired: settings.capability > Capability::None,
            capability: settings.capability,
            sci: settings.sci,
            mi: participant.mi(),
            mn,
            agility: ALGORITHM_AGILITY,
            ckn: participant.ckn(),
        };
        let mut writer = Writer::new(buffer, settings.destination, settings.source, EAPOL_VERSION, &basic)?;
        let mut room = [0; 16 * LIVE];
        let live = peers.live_list();
        if !live.is_empty() {
            let key_server_ssci = self.key_server_ssci(participant);
            let peers = PeerList::write(live.into_iter(), &mut room);
            writer.push(&ParameterSet::LivePeers { key_server_ssci, peers })?;
        }
        let mut room = [0; 16 * POTENTIAL];
        let potential = peers.potential().map(|peer| PeerEntry { mi: peer.mi, mn: peer.mn });
        let potential = PeerList::write(potential, &mut room);
        if !potential.is_empty() {
            writer.push(&ParameterSet::PotentialPeers(potential))?;
        }
        self.push_sak_use(participant, &mut writer)?;
        if key_server::may_hand_out(settings, participant)
            && let Some(distribution) = participant.distribution()
        {
            writer.push(&ParameterSet::DistributedSak(Some(distribution.parameter_set())))?;
        }
        let mut room = [0; announcement::OCTETS];
        let whole = keeps_whole(settings, participant.peers().live());
        let misses = self.participants.says_that_it_misses(settings, participant);
        writer.push(&ParameterSet::Announcement(announcement::write(settings, whole, misses, &mut room)))?;
        self.push_xpn(participant, &mut writer)?;
        writer.finish(false, |octets| participant.keys().icv(octets))
    }

    fn push_sak_use(&self, participant: &Participant, writer: &mut Writer<'_>) -> Result<(), TooLong> {
        let now = self.station.now();
        let forgotten = interop::forgotten_use(now, participant);
        let [latest, old] = match forgotten {
            Some(_) => [None, forgotten],
            None => self.cp.uses(now, participant.id()).map(|key| key.map(|(key, _)| key)),
        };
        if latest.is_none() && old.is_none() {
            return Ok(());
        }
        // Nobody may be held to a PN that only requests a SAK and was never used.
        let delay_protect =
            self.station.settings().delay_protect && !self.cp.asks_for_sak() && forgotten.is_none();
        writer.push(&ParameterSet::SakUse(SakUse {
            latest,
            old,
            plain_tx: false,
            plain_rx: false,
            delay_protect,
        }))
    }

    fn push_xpn(&self, participant: &Participant, writer: &mut Writer<'_>) -> Result<(), TooLong> {
        let id = participant.id();
        let is_xpn = self.cp.saks().iter().any(|sak| sak.owner == id && sak.suite.is_xpn());
        if !is_xpn || interop::forgotten_use(self.station.now(), participant).is_some() {
            return Ok(());
        }
        let uses = self.cp.uses(self.station.now(), id);
        let [latest_lowest_pn_high, old_lowest_pn_high] = uses.map(|key| key.map_or(0, |(_, high)| high));
        writer.push(&ParameterSet::Xpn { suspension: 0, latest_lowest_pn_high, old_lowest_pn_high })
    }

    /// The key server's SSCI. Members that have not heard each other derive theirs from it (MKA version 3).
    fn key_server_ssci(&self, participant: &Participant) -> u8 {
        if !participant.distribution().is_some_and(|distribution| distribution.suite.is_xpn()) {
            return 0;
        }
        let own = self.station.settings().sci;
        participant.peers().live().filter(|peer| peer.sci > own).count() as u8 + 1
    }
}
