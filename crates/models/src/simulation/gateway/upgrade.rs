//! Upgrade of a gateway: another program goes on in its place, with what this one passes on. Control is a model by hand; KaY, SecY and
//! leases are the product's.

use std::mem;

use mka::{Kay, PassedKay};
use secy::SecY;
use secy::passed_on::Words;
use wire::{Instant, Pn};

use super::static_keys::is_less_than_a_block;
use super::{Gateway, Keys, MTU, Sas};

impl Gateway {
    /// Another program goes on in its place. False where that is refused: something is under way (also a block of PNs), PNs are used up,
    /// the CAK of a SAK is gone, or there was no start. A program that cannot go on ends: it is killed then.
    ///
    /// # Errors
    /// If KaY or SecY cannot go on with what was passed on.
    pub(in crate::simulation) fn upgrade(&mut self, now: Instant, seed: &[u8; 32]) -> Result<bool, String> {
        let used_up = self.secy.transmit_sas().any(|sa| sa.pns().next().is_none());
        if used_up || self.is_killed() || !self.reports.is_empty() {
            return Ok(false);
        }
        match &self.keys {
            Keys::Agreed(kay) => {
                let wrapped = self.saks.iter().map(|sas| kay.wrap_sak(sas.ki, &sas.sak));
                let wrapped: Option<Vec<_>> = wrapped.collect();
                let Some((passed, wrapped)) = kay.pass_on().zip(wrapped) else { return Ok(false) };
                let text = serde_json::to_vec(&passed).map_err(|error| error.to_string())?;
                let passed: PassedKay = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
                let (settings, caks) = (self.link.settings(self.number), self.link.caks());
                let next =
                    Kay::go_on(now, passed, settings, caks, seed).map_err(|error| error.to_string())?;
                for (Sas { ki, suite, sak, .. }, wrapped) in self.saks.iter_mut().zip(&wrapped) {
                    *sak = next.unwrap_sak(*ki, *suite, wrapped).ok_or("a SAK is not wrapped")?;
                }
                self.keys = Keys::Agreed(Box::new(next));
            }
            Keys::Static(keys) if keys.is_reserving() => return Ok(false),
            Keys::Static(keys) => {
                let Ok(mut next) = keys.go_on(&self.disk, &self.link, self.number, now) else {
                    self.lives = Some(0);
                    return Ok(true);
                };
                if self.secy.transmit_sas().any(|sa| is_less_than_a_block(sa.pns())) {
                    next.ask(now, &self.link);
                }
                self.keys = Keys::Static(Box::new(next));
            }
            Keys::Refused(_) => return Ok(false),
        }
        self.pass_secy_on()?;
        Ok(true)
    }

    /// Puts a SecY in the place of this one, with SAs of the same keys, each behind its last PN.
    fn pass_secy_on(&mut self) -> Result<(), String> {
        let mut words = Vec::new();
        self.secy.pass_on(&mut words);
        let next = SecY::new(self.sci, crate::simulation::strict_secy(MTU));
        let before = mem::replace(&mut self.secy, next);
        for sci in &self.scs {
            self.secy.install_receive_sc(*sci).map_err(|error| format!("SC {sci}: {error:?}"))?;
        }
        for at in 0..self.saks.len() {
            let an = self.saks[at].an;
            let sa = before.transmit_sas().find(|sa| sa.an() == an).ok_or("a SAK without an SA")?;
            let next = sa.pns().next().ok_or("its PNs are used up")?;
            self.install_transmit(at, next, sa.pns().reserved())?;
            for admission in mem::take(&mut self.saks[at].receive) {
                self.admit(at, admission, Pn::FIRST)?;
            }
        }
        if let Some(an) = before.encoding_sa() {
            self.secy.enable_transmit(an).map_err(|error| format!("{error:?}"))?;
        }
        let mut words = Words::new(&words);
        self.secy.go_on(&mut words).and_then(|()| words.end()).map_err(|error| error.to_string())
    }
}
