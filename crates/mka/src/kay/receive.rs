//! Reception of a frame: parsed whole, verified, validated. Nothing changes before that.

use wire::mkpdu::{ALGORITHM_AGILITY, Mkpdu, MkpduError};

use super::Kay;
use crate::counters::Discard;
use crate::distributed_sak;
use crate::election::ElectedServer;
use crate::message::Message;
use crate::observed_faults::Observed;
use crate::reason::{NewMiReason, Reason, SakReason};

impl Kay {
    /// Receives a frame.
    pub(super) fn receive(&mut self, frame: &[u8]) -> Result<(), Discard> {
        let mkpdu = Mkpdu::parse(frame).map_err(|error| match error {
            MkpduError::NotEapol | MkpduError::NotMka(_) => Discard::NotMka,
            _ => Discard::Malformed,
        })?;
        let i = self.verify(&mkpdu)?;
        let message = Message::of(&mkpdu);
        self.detect_mi_collision(i, &mkpdu, &message)?;
        let participant = &self.participants.all()[i];
        let heard_mn = participant.recent_listing(self.station.now(), &message).map(|listing| listing.mn);
        participant.peers().validate(&message.basic, heard_mn)?;
        self.apply(i, &message, heard_mn)
    }

    /// The participant under whose CAK the MKPDU's ICV is right. Costs one AES-CMAC for each CAK with this
    /// CKN.
    fn verify(&mut self, mkpdu: &Mkpdu<'_>) -> Result<usize, Discard> {
        let (ckn, source, agility) = (mkpdu.basic.ckn, mkpdu.source, mkpdu.basic.agility);
        let now = self.station.now();
        if agility != ALGORITHM_AGILITY {
            if self.foreign.note_agility(now) {
                self.station.notify(Reason::OtherAgility { agility, source });
            }
            return Err(Discard::OtherAgility);
        }
        let participants = self.participants.all();
        let Some(named) = participants.iter().position(|participant| participant.ckn() == ckn) else {
            if self.foreign.note_ckn(now, ckn, mkpdu.basic.sci) {
                self.station.notify(Reason::OtherCkn { ckn, source });
            }
            return Err(Discard::UnknownCkn);
        };
        let verified = participants.iter().position(|participant| participant.keys().verify(mkpdu));
        if verified.is_none() && self.participants.at_mut(named).note_fault(now, Observed::WrongCak) {
            self.station.notify(Reason::WrongCak { ckn, source });
        }
        verified.ok_or(Discard::WrongIcv)
    }

    /// Discards own MKPDUs that come back. Draws a new MI if another station has ours.
    fn detect_mi_collision(
        &mut self,
        i: usize,
        mkpdu: &Mkpdu<'_>,
        message: &Message<'_>,
    ) -> Result<(), Discard> {
        let participant = self.participants.at_mut(i);
        let basic = &message.basic;
        let own_sci = basic.sci == self.station.settings().sci;
        let listing = message.listing(participant.mi());
        if own_sci && listing.is_some() && basic.mi != participant.mi() {
            if participant.note_fault(self.station.now(), Observed::SciInUse) {
                self.station.notify(Reason::SciInUse { source: mkpdu.source });
            }
            return Err(Discard::Reflected);
        }
        let is_double = basic.mi == participant.mi() && (!own_sci || participant.has_not_sent(basic.mn))
            || listing.is_some_and(|listing| participant.has_not_sent(listing.mn));
        if is_double {
            self.participants.draw_mi(&mut self.station, i, NewMiReason::Duplicate);
        }
        if own_sci || is_double { Err(Discard::Reflected) } else { Ok(()) }
    }

    fn apply(&mut self, i: usize, message: &Message<'_>, heard_mn: Option<u32>) -> Result<(), Discard> {
        let (now, mi) = (self.station.now(), message.basic.mi);
        let sci = message.basic.sci;
        let elsewhere = self.participants.all()[..i].iter().any(|preferred| preferred.peers().has_live(sci));
        let participant = self.participants.at_mut(i);
        participant.handle_mkpdu(&mut self.station, message, heard_mn, elsewhere)?;
        participant.watch_user(now, mi, &self.cp);
        self.check_new_listeners(i, message);
        self.raise_lowest_pns(i, message);
        // A SAK counts only from the elected key server.
        self.choose_principal();
        self.elect();
        if let Some(offered) = message.distributed
            && self.participants.all()[i].id() == self.participants.principal_id()
        {
            let principal = self.participants.at_mut(i);
            let installed =
                distributed_sak::handle(&mut self.station, principal, &mut self.cp, message, offered);
            if let Some(ki) = installed {
                self.listeners.record(principal, ki);
            }
        }
        Ok(())
    }

    fn check_new_listeners(&mut self, i: usize, message: &Message<'_>) {
        let participant = &self.participants.all()[i];
        let Some(sci) = self.listeners.check(participant, &self.cp, message.basic.mi) else { return };
        match participant.server() {
            ElectedServer::Me => self.need_sak(SakReason::NewListeners(sci)),
            ElectedServer::Peer(_) if self.server_is_of_another_make() => self.ask_for_sak(),
            ElectedServer::Peer(_) | ElectedServer::None => {}
        }
    }

    fn raise_lowest_pns(&mut self, i: usize, message: &Message<'_>) {
        let peer = self.participants.all()[i].peers().find(message.basic.mi);
        let delay_protect = self.station.settings().delay_protect;
        if let Some(peer) = peer.filter(|peer| peer.live && peer.delay_protect && delay_protect) {
            self.cp.raise_lowest_pns(&mut self.station, peer.sci, &peer.uses);
        }
    }
}
