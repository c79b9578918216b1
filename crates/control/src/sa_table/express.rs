//! SAs of express SCs: a second set under each SAK, with a key that is derived from it.
//!
//! ```text
//!  own SCI, port p            SAs under the SAK                            in the worker
//!  express SCI, port p + 8000 SAs under the express key, the same AN       transmit: programs in the kernel alone
//!                                                                          receive: there too, else in the worker
//! ```
//!
//! A station that announces express SCs receives them from the beginning of each SAK. It sends on its own if all live peers announced
//! them when the SAK was installed, and programs stand in front of its ports. Until then, and else, its express frames are the worker's, as
//! all others.
//!
//! An SC is in one place, so its frames keep their order, and a replay window of 0 is enough. SSCIs and salt of XPN are those of
//! the SAK: the key is another one.

use mka::{Admission, Association, Report};
use secy::{NextAction, SecY};
use wire::{Ki, Sci};
use xdp::XdpError;

use super::{BEGAN_THERE, Installed, SaNotice, SaTable};
use crate::kernel_link::{KernelLink, LinkPlace};

/// The most peers whose express SCs are received: each has two SCs then.
const MOST_PEERS: usize = SecY::RECEIVE_SCS / 2;

/// A peer's express SC, or its other one.
pub(super) fn express_or_not(express: bool, peer: Admission) -> Option<Admission> {
    if express { Some(Admission { sci: peer.sci.express()?, ..peer }) } else { Some(peer) }
}

impl SaTable {
    /// Installs a SAK for all SCs. The KaY hears of it if it can be used.
    pub(super) fn install_all(
        &mut self,
        sak: Association,
        mut kernel: Option<&mut KernelLink>,
        tell: &mut impl FnMut(SaNotice),
    ) {
        let ki = sak.ki;
        let express = self.express_association(&sak).map(|sak| (sak, true));
        // Those of the express SCs come last: they take no place of the others.
        for (sak, express) in [(sak, false)].into_iter().chain(express) {
            let programs = kernel.as_deref_mut().filter(|kernel| kernel.is_express() == express);
            if !self.install(sak, express, programs, tell) {
                self.take_out(ki, kernel, tell);
                return;
            }
        }
        self.newest = Some(ki);
        self.changes.reports.push(Report::Installed(ki));
    }

    /// Takes the SAs out again of a SAK that cannot be used as a whole.
    fn take_out(&mut self, ki: Ki, mut kernel: Option<&mut KernelLink>, tell: &mut impl FnMut(SaNotice)) {
        while let Some(index) = self.saks.iter().position(|of| of.sak.ki == ki) {
            let of = self.saks.swap_remove(index);
            if let Err(error) = self.retire(&of, kernel.as_deref_mut()) {
                tell(SaNotice::Kernel(error));
            }
        }
    }

    /// Express SCs of peers under no SAK any more.
    pub(super) fn unused_express_scs(&self) -> Vec<Sci> {
        let used = |sci: Sci| self.saks.iter().any(|of| of.sak.receive.iter().any(|peer| peer.sci == sci));
        let of_peer = |sci: Sci| self.scs.iter().any(|other| other.express() == Some(sci));
        self.scs.iter().copied().filter(|sci| of_peer(*sci) && !used(*sci)).collect()
    }

    /// The SAs of the express SCs under a SAK; none for a suite without, or for more peers than there is room for.
    fn express_association(&self, sak: &Association) -> Option<Association> {
        if !self.express || sak.receive.len() > MOST_PEERS {
            return None;
        }
        // A station whose SCI is another's express SCI is received as itself.
        let is_free =
            |of: &Admission| of.sci != self.sci && sak.receive.iter().all(|peer| peer.sci != of.sci);
        let receive =
            sak.receive.iter().filter_map(|peer| express_or_not(true, *peer)).filter(is_free).collect();
        let Association { ki, an, suite, confidentiality, xpn, fragmentation, .. } = *sak;
        let sak = sak.sak.express(suite)?;
        // They are never divided.
        let whole = true;
        Some(Association { ki, an, suite, sak, confidentiality, xpn, receive, fragmentation, whole })
    }

    pub(super) fn find_express(&self, ki: Ki) -> Option<&Installed> {
        self.saks.iter().find(|of| of.sak.ki == ki && of.express)
    }

    /// Has the programs send express frames under this SAK if it is there and all peers receive them; else they are the worker's.
    pub(super) fn enable_express(&self, ki: Ki, kernel: &mut KernelLink) -> Result<(), XdpError> {
        match self.find_express(ki).filter(|of| of.in_kernel && of.sak.fragmentation.express) {
            Some(of) => kernel.enable_transmit(of.sak.an),
            None => kernel.disable_transmit(),
        }
    }

    /// Whether PNs of the express SC are running out under the SAK that protects, and no other is on its way into use.
    pub(crate) fn express_wants_sak(&self, kernel: &KernelLink) -> bool {
        let newest = self.enabled.filter(|ki| self.newest == Some(*ki));
        let of = newest.and_then(|ki| self.find_express(ki)).filter(|of| of.in_kernel);
        let pns = of.and_then(|of| kernel.pns(of.sak.an).ok().flatten());
        pns.is_some_and(|(pns, _)| matches!(pns.next_action(), NextAction::Rekey | NextAction::Exhausted))
    }

    /// The peers' express SCs.
    pub(crate) fn express_scs(&self) -> Vec<Sci> {
        let mut scs = Vec::new();
        for Installed { sak, .. } in self.saks.iter().filter(|of| of.express) {
            scs.extend(sak.receive.iter().map(|admission| admission.sci));
        }
        scs.sort_unstable();
        scs.dedup();
        scs
    }

    /// Returns the place of express frames, with programs that stand for the express SCs.
    pub(crate) fn express_place(&self) -> LinkPlace {
        let Some(ki) = self.enabled else { return LinkPlace::Express };
        let why = match self.find_express(ki) {
            Some(of) if !of.sak.fragmentation.express => "not all of the group announce express SCs",
            Some(of) if of.in_kernel => return LinkPlace::Express,
            Some(_) => self.why_user_space.as_deref().unwrap_or(BEGAN_THERE),
            None => "its SAK has no express SCs",
        };
        LinkPlace::UserSpace(why.to_owned())
    }
}
