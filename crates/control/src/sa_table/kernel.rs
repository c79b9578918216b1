//! SAKs whose SAs are in the kernel.

use std::mem;

use mka::{Association, Report};
use wire::{Ki, Pn};
use xdp::XdpError;

use super::{Installed, SaNotice, SaTable, receive_key, transmit_key};
use crate::kernel_link::{KernelLink, Standing};
use crate::sa_changes::SaChange;

impl SaTable {
    /// The next PN of each SAK that is in the kernel; one above the last, if all are used.
    pub(crate) fn next_pns(&self, kernel: &KernelLink) -> Vec<Report> {
        let next = |of: &Installed| {
            let (pns, _) = kernel.pns(of.sak.an).ok()??;
            let exhausted = pns.reserved().number().saturating_add(1);
            Some(Report::NextPn { ki: of.sak.ki, next_pn: pns.next().map_or(exhausted, Pn::number) })
        };
        self.saks.iter().filter(|of| of.in_kernel && !of.express).filter_map(next).collect()
    }

    /// Takes all SAs out of the kernel, and has the worker go on with them: each behind the last PN that it had there.
    ///
    /// # Errors
    /// If the kernel does not tell where they stand: what was not read is not used again, and another SAK is needed.
    pub(crate) fn leave_kernel(&mut self, kernel: &mut KernelLink) -> Result<(), String> {
        if !self.is_in_kernel() {
            return Ok(());
        }
        let standing = kernel.take_out(&self.scs).map_err(|error| {
            let _ = kernel.retire_all(&self.scs);
            error.to_string()
        });
        let (standing, mut done) = match standing {
            Ok(standing) => (standing, Ok(())),
            Err(error) => (Standing::default(), Err(error)),
        };
        self.why_user_space = None;
        let mut saks = mem::take(&mut self.saks);
        for Installed { sak, express, in_kernel } in saks.iter_mut().filter(|of| of.in_kernel) {
            *in_kernel = false;
            for (sci, _, lowest) in standing.receive.iter().filter(|(_, an, _)| *an == sak.an) {
                let Some(admission) = sak.receive.iter().find(|of| of.sci == *sci) else { continue };
                match self.receive_sa(sak, admission, *lowest, self.replay_window) {
                    Ok(sa) => self.changes.list.push(SaChange::InstallReceive { sci: *sci, sa: Some(sa) }),
                    Err(why) => done = Err(why.into()),
                }
            }
            // The worker sends express frames on its one transmit SC.
            for (an, next, ..) in standing.transmit.iter().filter(|(an, ..)| !*express && *an == sak.an) {
                // Without a PN it protects nothing any more.
                let Some(next) = next else { continue };
                match self.transmit_sa(sak, *next) {
                    Ok(sa) => self.changes.list.push(SaChange::InstallTransmit { sa: Some(sa) }),
                    Err(why) => done = Err(why.into()),
                }
                if self.enabled == Some(sak.ki) {
                    let fragmenter = self.fragmenter(sak, &self.settings);
                    self.changes.list.push(SaChange::EnableTransmit { an: *an, fragmenter });
                }
            }
        }
        self.saks = saks;
        let shared = kernel.share(self.is_shared()).map_err(|error| error.to_string());
        done.and(shared)
    }

    /// Installs the SAs of a SAK there, those of the peers in use.
    pub(crate) fn install_in_kernel(
        &mut self,
        (sak, express): (&Association, bool),
        kernel: &mut KernelLink,
        tell: &mut impl FnMut(SaNotice),
    ) -> Result<(), XdpError> {
        for admission in &sak.receive {
            if self.has_sc(admission.sci, express, tell) {
                kernel.install_receive(admission.sci, sak.an, &receive_key(sak, admission), Pn::FIRST)?;
            }
        }
        kernel.install_transmit(sak.an, &transmit_key(sak), Pn::FIRST, Pn::LAST_64)
    }

    /// The worker protects with this SAK: the kernel does with none any more.
    pub(crate) fn worker_protects(&self, ki: Ki, kernel: &mut KernelLink) -> Result<(), XdpError> {
        let is_so =
            self.enabled == Some(ki) && !kernel.is_express() && self.find(ki).is_some_and(|of| !of.in_kernel);
        if is_so { kernel.disable_transmit() } else { Ok(()) }
    }
}
