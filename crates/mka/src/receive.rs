//! Reception of a frame: parsed whole, verified, validated. Nothing changes before that.

use wire::mkpdu::{ALGORITHM_AGILITY, Mkpdu, MkpduError};

use crate::counters::Discard;
use crate::kay::Kay;
use crate::message::{Message, Use};
use crate::peers::Change;
use crate::reason::{NewMiReason, Reason, SakReason};
use crate::timers::{STRAY_INTERVAL, STRAY_INTERVAL_MAX};

impl Kay {
    /// Receives a frame.
    pub(crate) fn receive(&mut self, frame: &[u8]) -> Result<(), Discard> {
        let mkpdu = Mkpdu::parse(frame).map_err(|error| match error {
            MkpduError::NotEapol | MkpduError::NotMka(_) => Discard::NotMka,
            _ => Discard::Malformed,
        })?;
        let i = self.verify(&mkpdu)?;
        let message = Message::of(&mkpdu);
        self.detect_mi_collision(i, &mkpdu, &message)?;
        let participant = &self.participants[i];
        let heard_mn = participant.recent_listing(self.now, &message).map(|listing| listing.mn);
        participant.peers.validate(&message.basic, heard_mn)?;
        self.apply(i, &message, heard_mn)
    }

    /// The participant under whose CAK the MKPDU's ICV is right. Costs one AES-CMAC for each CAK with this
    /// CKN.
    fn verify(&mut self, mkpdu: &Mkpdu<'_>) -> Result<usize, Discard> {
        let (ckn, source, agility) = (mkpdu.basic.ckn, mkpdu.source, mkpdu.basic.agility);
        if agility != ALGORITHM_AGILITY {
            if self.foreign.other_agility.note(self.now) {
                self.out.notify(self.now, Reason::OtherAgility { agility, source });
            }
            return Err(Discard::OtherAgility);
        }
        let Some(named) = self.participants.iter().position(|participant| participant.ckn == ckn) else {
            if self.foreign.note_ckn(self.now, ckn) {
                self.out.notify(self.now, Reason::OtherCkn { ckn, source });
            }
            return Err(Discard::UnknownCkn);
        };
        let verified = self.participants.iter().position(|participant| {
            participant.ckn == ckn && participant.ick.verifies(mkpdu.authenticated(), mkpdu.icv())
        });
        if verified.is_none() && self.participants[named].faults.wrong_cak.note(self.now) {
            self.out.notify(self.now, Reason::WrongCak { ckn, source });
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
        let participant = &self.participants[i];
        let basic = &message.basic;
        let own_sci = basic.sci == self.settings.sci;
        let listing = message.listing(participant.mi);
        if own_sci && listing.is_some() && basic.mi != participant.mi {
            if self.participants[i].faults.sci_in_use.note(self.now) {
                self.out.notify(self.now, Reason::SciInUse { source: mkpdu.source });
            }
            return Err(Discard::Reflected);
        }
        let participant = &self.participants[i];
        let is_double = basic.mi == participant.mi
            && (!own_sci || participant.message_numbers.is_beyond(basic.mn))
            || listing.is_some_and(|listing| participant.message_numbers.is_beyond(listing.mn));
        if is_double {
            self.draw_mi(i, NewMiReason::Duplicate);
        }
        if own_sci || is_double { Err(Discard::Reflected) } else { Ok(()) }
    }

    fn apply(&mut self, i: usize, message: &Message<'_>, heard_mn: Option<u32>) -> Result<(), Discard> {
        let (now, sci) = (self.now, message.basic.sci);
        let participant = &mut self.participants[i];
        let own = participant.mi;
        let taken = participant.peers.handle_mkpdu(now, message, heard_mn, own);
        if taken == Err(Discard::TooManyPeers) && participant.faults.too_many_peers.note(now) {
            self.out.notify(now, Reason::TooManyPeers { sci });
        }
        let change = taken?;
        self.counters.mkpdus_rx += 1;
        match change {
            Change::Live { restarted: true } => self.out.notify(now, Reason::PeerRestarted { sci }),
            Change::Live { restarted: false } => self.out.notify(now, Reason::PeerLive { sci }),
            Change::Potential | Change::None => {}
        }
        // A peer that does not hear us may have missed our last MKPDU. A new peer gets an answer.
        let participant = &mut self.participants[i];
        let is_live = participant.peers.find(message.basic.mi).is_some_and(|peer| peer.live);
        let missed = heard_mn.is_some_and(|mn| participant.message_numbers.is_behind(now, mn));
        if change != Change::None || heard_mn.is_none() || !is_live || missed {
            participant.schedule.request();
        }
        self.watch_users(i, message);
        self.check_new_listeners(i, message.basic.mi);
        self.raise_lowest_pns(i, message);
        // A SAK counts only from the elected key server.
        self.choose_principal();
        self.elect();
        if let Some(offered) = message.distributed {
            self.handle_distributed_sak(i, message, offered);
        }
        Ok(())
    }

    /// As key server: records the users of the distributed SAK, and those whose PNs run out under it.
    fn watch_users(&mut self, i: usize, message: &Message<'_>) {
        let participant = &mut self.participants[i];
        let Some(distribution) = &mut participant.serving.distribution else { return };
        let Some(peer) = participant.peers.find(message.basic.mi).filter(|peer| peer.live) else { return };
        let (now, ki) = (self.now, distribution.ki);
        // A follower of a key server that is not heard here has dropped our SAK for that one's, and would
        // drop the next one too.
        if participant.peers.led_by(peer, participant.mi).is_some() {
            return;
        }
        let used = distribution.users.iter().position(|user| *user == peer.mi);
        let (mut need, mut strayed) = (None, false);
        match (peer.receives(ki), used) {
            (true, None) => distribution.users.push(peer.mi),
            (false, Some(user)) => {
                distribution.users.swap_remove(user);
                need = Some(SakReason::Dropped(peer.sci));
            }
            (true, Some(_)) | (false, None) => {}
        }
        let sak = self.cp.find(ki);
        // It has our SAK, and protects with another: it was with another key server meanwhile.
        let strays = peer.protects_with().is_some_and(|other| other != ki) && !peer.transmits(ki);
        if strays && sak.is_some_and(|sak| sak.is_settled()) && peer.stray.is_none_or(|(from, _)| now >= from)
        {
            need = Some(SakReason::Dropped(peer.sci));
            strayed = true;
        }
        let exhaustion = sak.map_or(u64::MAX, |sak| sak.exhaustion());
        // A station that does not use the SAK has no PNs under it.
        let is_used = |key: &Use| key.ki == ki && (key.tx || key.rx);
        if peer.uses.iter().any(|key| is_used(key) && key.lowest_pn >= exhaustion) {
            need = Some(SakReason::PnExhaustion(peer.sci));
        }
        let Some(why) = need else { return };
        participant.serving.need(now, why);
        if let Some(peer) = participant.peers.find_mut(message.basic.mi).filter(|_| strayed) {
            // Whatever keeps it from using ours, the others do not get SAK after SAK because of it.
            let delay = peer.stray.map_or(STRAY_INTERVAL, |(_, before)| (before * 2).min(STRAY_INTERVAL_MAX));
            peer.stray = Some((now + delay, delay));
        }
    }

    fn raise_lowest_pns(&mut self, i: usize, message: &Message<'_>) {
        let peer = self.participants[i].peers.find(message.basic.mi);
        if let Some(peer) = peer.filter(|peer| peer.live && peer.delay_protect && self.settings.delay_protect)
        {
            self.cp.raise_lowest_pns(peer.sci, &peer.uses, &mut self.out);
        }
    }
}
