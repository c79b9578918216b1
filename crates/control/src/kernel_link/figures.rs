//! Figures of a link whose frames go through the kernel: the sum of what programs and worker count.

use dataplane::snapshot::{LinkSnapshot, ReceiveSaSnapshot, TransmitSaSnapshot};
use wire::An;
use xdp::XdpError;

use super::KernelLink;

impl KernelLink {
    /// Adds what the kernel counts, and its SAs, to what the worker knows.
    pub(crate) fn complete(&self, snapshot: &mut LinkSnapshot) -> Result<(), XdpError> {
        let (secy, around) = self.programs.counters()?;
        snapshot.secy.add(&secy);
        snapshot.pipeline.out_pkts_bypass += around.out_bypass;
        snapshot.pipeline.in_pkts_bypass += around.in_bypass;
        snapshot.pipeline.out_pkts_mac_control += around.out_mac_control;
        snapshot.pipeline.in_pkts_mac_control += around.in_mac_control;
        snapshot.stranger = self.programs.last_unmatched()?.or(snapshot.stranger);
        snapshot.transmit.add(&self.programs.transmit_counters()?);
        for an in An::ALL {
            let Some((pns, enabled)) = self.pns(an)? else { continue };
            if enabled {
                snapshot.transmit_sas.iter_mut().for_each(|sa| sa.enabled = false);
            }
            let counters = self.programs.transmit_sa_counters(an)?;
            let (next_pn, reserved) = (pns.next(), pns.reserved());
            // An AN is in one place, so there is room.
            let _ = snapshot.transmit_sas.try_push(TransmitSaSnapshot {
                an,
                enabled,
                next_pn,
                reserved,
                counters,
            });
        }
        snapshot.transmit_sas.sort_by_key(|sa| sa.an.index());
        for sc in &mut snapshot.receive_scs {
            if !self.programs.receive_scs().any(|sci| sci == sc.sci) {
                continue;
            }
            sc.counters.add(&self.programs.receive_counters(sc.sci)?);
            for an in An::ALL {
                let Some(window) = self.window(sc.sci, an)? else { continue };
                let counters = self.programs.receive_sa_counters(sc.sci, an)?;
                let (in_use, lowest_pn) = (window.in_use, window.lowest);
                let _ = sc.sas.try_push(ReceiveSaSnapshot { an, in_use, lowest_pn, counters });
            }
            sc.sas.sort_by_key(|sa| sa.an.index());
        }
        Ok(())
    }
}
