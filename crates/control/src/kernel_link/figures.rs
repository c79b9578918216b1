//! Figures of a link whose frames go through the kernel: the sum of what programs and worker count.

use arrayvec::ArrayVec;
use dataplane::snapshot::{LinkSnapshot, ReceiveSaSnapshot, TransmitSaSnapshot, TransmitScSnapshot};
use secy::{ReceiveSaCounters, TransmitSaCounters};
use wire::{An, Sci};
use xdp::XdpError;

use super::KernelLink;

/// Counters of programs for SCs that they served earlier.
#[derive(Default)]
pub(super) struct Before {
    /// The programs' sum when they became the transmit SC that they are.
    pub(super) began: TransmitSaCounters,
    /// Of the link's own transmit SC, and of its express SC.
    pub(super) transmit: [TransmitSaCounters; 2],
    pub(super) receive: Vec<(Sci, ReceiveSaCounters)>,
}

impl KernelLink {
    /// The programs are another transmit SC from here on.
    pub(super) fn keep_transmit_counters(&mut self) -> Result<(), XdpError> {
        let now = self.programs.transmit_counters()?;
        self.before.transmit[usize::from(self.express)].add(&now.since(&self.before.began));
        self.before.began = now;
        Ok(())
    }

    /// The programs are not this receive SC any more, which the link may have elsewhere.
    pub(super) fn keep_receive_counters(&mut self, sci: Sci) -> Result<(), XdpError> {
        let counters = self.programs.receive_counters(sci)?;
        match self.before.receive.iter_mut().find(|(of, _)| *of == sci) {
            Some((_, before)) => before.add(&counters),
            None => self.before.receive.push((sci, counters)),
        }
        Ok(())
    }

    /// The link has no such receive SC any more.
    pub(super) fn forget_receive_counters(&mut self, sci: Sci) {
        self.before.receive.retain(|(of, _)| *of != sci);
    }

    /// Adds what the kernel counts, and its SAs, to what the worker knows.
    pub(crate) fn complete(&self, snapshot: &mut LinkSnapshot) -> Result<(), XdpError> {
        let (secy, around) = self.programs.counters()?;
        snapshot.secy.add(&secy);
        snapshot.pipeline.out_pkts_bypass += around.out_bypass;
        snapshot.pipeline.in_pkts_bypass += around.in_bypass;
        snapshot.pipeline.out_pkts_mac_control += around.out_mac_control;
        snapshot.pipeline.in_pkts_mac_control += around.in_mac_control;
        snapshot.stranger = self.programs.last_unmatched()?.or(snapshot.stranger);
        let sas = self.transmit_sas()?;
        let [own, mut counters] = self.before.transmit;
        snapshot.transmit.add(&own);
        let since = self.programs.transmit_counters()?.since(&self.before.began);
        if self.express {
            counters.add(&since);
            snapshot.express = Some(TransmitScSnapshot { sci: self.programs.sci(), counters, sas });
        } else {
            snapshot.transmit.add(&since);
            if sas.iter().any(|sa| sa.enabled) {
                snapshot.transmit_sas.iter_mut().for_each(|sa| sa.enabled = false);
            }
            for mut sa in sas {
                if let Some(at) = snapshot.transmit_sas.iter().position(|of| of.an == sa.an) {
                    // The worker has some PNs of it still.
                    sa.counters.add(&snapshot.transmit_sas.remove(at).counters);
                }
                // An AN is there once, so there is room.
                let _ = snapshot.transmit_sas.try_push(sa);
            }
            snapshot.transmit_sas.sort_by_key(|sa| sa.an.index());
        }
        for sc in &mut snapshot.receive_scs {
            let before = self.before.receive.iter().find(|(sci, _)| *sci == sc.sci);
            before.into_iter().for_each(|(_, before)| sc.counters.add(before));
            if !self.programs.receive_scs().any(|sci| sci == sc.sci) {
                continue;
            }
            sc.counters.add(&self.programs.receive_counters(sc.sci)?);
            for an in An::ALL {
                let Some(window) = self.window(sc.sci, an)? else { continue };
                let mut counters = self.programs.receive_sa_counters(sc.sci, an)?;
                let (in_use, lowest_pn) = (window.in_use, window.lowest);
                if let Some(at) = sc.sas.iter().position(|of| of.an == an) {
                    // The worker has some PNs of it still.
                    counters.add(&sc.sas.remove(at).counters);
                }
                let _ = sc.sas.try_push(ReceiveSaSnapshot { an, in_use, lowest_pn, counters });
            }
            sc.sas.sort_by_key(|sa| sa.an.index());
        }
        Ok(())
    }

    fn transmit_sas(&self) -> Result<ArrayVec<TransmitSaSnapshot, { An::COUNT }>, XdpError> {
        let mut sas = ArrayVec::new();
        for an in An::ALL {
            let Some((pns, enabled)) = self.pns(an)? else { continue };
            let counters = self.programs.transmit_sa_counters(an)?;
            let (next_pn, reserved) = (pns.next(), pns.reserved());
            sas.push(TransmitSaSnapshot { an, enabled, next_pn, reserved, counters });
        }
        Ok(sas)
    }
}
