//! Links with static keys: leases of PNs, and paths that take over from others.

mod kernel;

use std::sync::Arc;
use std::time::{Duration, Instant};

use secy::{CarryOver, NextAction, SecY};
use wire::{An, Pn, Sci};

use super::jobs::LinkJob;
pub use kernel::{StaticSak, StaticSaks};

use super::{Gateway, Keys, LinkControl, Notice, ReceiveFloor, WorkerUnresponsive};
use dataplane::job::Progress;
use dataplane::path::Path;
use pnstore::{LeaseError, LeaseName, Reservation, UnusedPns};

/// Pause after a failed write before a lease is tried again.
const LEASE_RETRY: Duration = Duration::from_secs(1);
/// Interval at which the kernel is asked for PNs.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

/// The PNs that a link's transmit SA uses.
#[derive(Clone, Copy)]
pub struct TransmitLease {
    /// The record on disk.
    pub name: LeaseName,
    /// The SA.
    pub an: An,
    /// The last PN of its suite.
    pub last: Pn,
    /// The last PN that is reserved for it.
    pub through: Pn,
}

impl TransmitLease {
    /// The PNs that its SA has not used; the SecY has come back from its worker, so nobody can use them any more.
    pub(super) fn unused(&self, secy: &SecY) -> Option<UnusedPns> {
        let sa = secy.transmit_sas().find(|sa| sa.an() == self.an)?;
        self.unused_of(sa.pns().next(), sa.pns().reserved())
    }

    /// The PNs that its SA has not used, which stands at these: the next one, and the last that it was allowed.
    pub(super) fn unused_of(&self, next: Option<Pn>, reserved: Pn) -> Option<UnusedPns> {
        let Self { name, through, .. } = *self;
        // PNs that the SA was allowed, not those that were asked for: a block that never reached it is not its own.
        next.filter(|_| reserved <= through).map(|next| UnusedPns { name, next, through })
    }
}

/// Leases and floors that are kept on disk for a link's SAs with static keys.
pub struct StaticKeys {
    /// The PNs that its transmit SA uses.
    pub transmit: TransmitLease,
    /// Its receive SAs whose floors are kept.
    pub receive: Vec<ReceiveFloor>,
}

/// Control's part of a link with static keys.
pub(super) struct StaticControl {
    pub(super) lease: TransmitLease,
    /// Shared with the worker, so that nothing is freed there.
    pub(super) floors: Arc<[ReceiveFloor]>,
    /// The reservation that is under way.
    pub(super) pending: Option<u64>,
    /// A reservation that failed is due again then.
    pub(super) retry_at: Option<Instant>,
    /// Another path is under way: the worker's reports are about the SA before, and its PNs are no longer of interest.
    pub(super) changing: bool,
    /// The keys, if its SAs may be in the kernel.
    pub(super) saks: Option<StaticSaks>,
    /// Its SAs are there.
    pub(super) in_kernel: bool,
    /// Why its SAs are nowhere, if a move has failed.
    pub(super) nowhere: Option<String>,
    /// Not before then the kernel is asked for PNs.
    look_due: Instant,
}

impl StaticControl {
    pub(super) fn new(keys: StaticKeys) -> Self {
        let StaticKeys { transmit: lease, receive } = keys;
        Self {
            lease,
            floors: receive.into(),
            pending: None,
            retry_at: None,
            changing: false,
            saks: None,
            in_kernel: false,
            nowhere: None,
            look_due: Instant::now(),
        }
    }

    /// The receive SCs.
    pub(super) fn scs(&self) -> Vec<Sci> {
        let mut scs: Vec<_> = self.saks.iter().flat_map(|saks| &saks.receive).map(|of| of.sci).collect();
        scs.sort_unstable_by_key(|sci| sci.octets());
        scs.dedup();
        scs
    }

    /// Whether a reservation is due again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.retry_at.is_some_and(|at| at <= now)
    }
}

impl Gateway {
    /// Puts another path in the place of a link's own between two turns, so that no frame meets a half-changed one. The
    /// transmit SA uses the PNs of `transmit` from here on, or goes on with those that it has; the floors of `receive`
    /// are kept; what `carry_over` names is as in [`secy::SecY::take_over`].
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]; also if there is no such link with static keys.
    pub fn change(
        &mut self,
        name: &str,
        path: Box<Path>,
        carry_over: CarryOver,
        transmit: Option<TransmitLease>,
        receive: Vec<ReceiveFloor>,
    ) -> Result<(), WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        let Keys::Static(keys) = &mut self.links[number].keys else { return Err(WorkerUnresponsive) };
        // From here on nothing is reserved for the SA before.
        keys.changing = true;
        // The worker's path takes over from the worker's: the SAs come back first, and enter the kernel again by `set_link_path`, which
        // brings the keys.
        self.leave_static(number);
        let Keys::Static(keys) = &mut self.links[number].keys else { return Err(WorkerUnresponsive) };
        (keys.saks, keys.nowhere) = (None, None);
        if transmit.is_some() {
            // The SA before asked for the reservation that is under way: it would be taken for the new one's.
            (keys.pending, keys.retry_at) = (None, None);
        }
        let transmit = transmit.unwrap_or(keys.lease);
        let floors = std::mem::replace(&mut keys.floors, receive.into());
        let lease = std::mem::replace(&mut keys.lease, transmit);
        let before = self.exchange(number, path, carry_over)?;
        self.keep_last_floors(&before.secy, &floors);
        lease.unused(&before.secy).into_iter().for_each(|unused| self.disk.give_back(unused));
        if let Keys::Static(keys) = &mut self.links[number].keys {
            keys.changing = false;
        }
        Ok(())
    }

    /// Meets a need of a transmit SA.
    pub(super) fn next_action(&mut self, worker: usize, slot: usize, action: NextAction, now: Instant) {
        if let Some(number) = self.placed(worker, slot) {
            self.meet_need(number, action, now);
        }
    }

    /// Meets a need of a link's transmit SA.
    fn meet_need(&mut self, number: usize, action: NextAction, now: Instant) {
        match &mut self.links[number].keys {
            Keys::Static(keys) if keys.changing => return,
            Keys::Static(_) => {}
            Keys::None => return,
            // The KaY decides by the next PN, and so it is told at once.
            Keys::Agreed(agreement) => return agreement.schedule_pn_query(now),
        }
        let link = self.links[number].name.clone();
        match action {
            NextAction::Continue => {}
            NextAction::Rekey => self.notices.push(Notice::ChangeKeySoon { link }),
            NextAction::Exhausted => self.notices.push(Notice::PnExhausted { link }),
            NextAction::Reserve | NextAction::AwaitReservation => self.reserve(number),
        }
    }

    /// Has the next block of a link's PNs reserved, unless that is under way.
    pub(super) fn reserve(&mut self, number: usize) {
        let Keys::Static(keys) = &mut self.links[number].keys else { return };
        if keys.pending.is_none() {
            let TransmitLease { name, last, .. } = keys.lease;
            (keys.pending, keys.retry_at) = (Some(self.disk.reserve(name, last)), None);
        }
    }

    /// Allows the block that was reserved for the link which asked for it, if there still is one.
    pub(super) fn reserved(
        &mut self,
        ticket: u64,
        reservation: Result<Reservation, LeaseError>,
        now: Instant,
    ) {
        let asked =
            |link: &LinkControl| matches!(&link.keys, Keys::Static(keys) if keys.pending == Some(ticket));
        let Some(link) = self.links.iter_mut().find(|link| asked(link)) else { return };
        let LinkControl { name: link, worker, slot, keys: Keys::Static(keys), kernel, .. } = link else {
            return;
        };
        let TransmitLease { an, through: before, .. } = keys.lease;
        keys.pending = None;
        match reservation {
            Ok(Reservation::Block(block)) => {
                // The PNs between were reserved for another SA under this key, which must not be: whatever happens, no
                // PN is used twice.
                if before.number().checked_add(1) != Some(block.first.number()) {
                    self.notices.push(Notice::PnExhausted { link: link.clone() });
                    return;
                }
                let through = block.last;
                keys.lease.through = through;
                if keys.in_kernel {
                    let allowed = kernel.as_mut().map(|kernel| kernel.reserve_through(an, through));
                    if let Some(Err(error)) = allowed {
                        self.notices
                            .push(Notice::LinkKernelFault { link: link.clone(), why: error.to_string() });
                    }
                    return;
                }
                // Without room the worker is stuck, and needs no PNs.
                let allow = LinkJob::new(*slot, (an, through), |link, (an, through)| {
                    link.reserve_through(*an, *through);
                    Progress::Done
                });
                let _ = self.workers[*worker].submit(allow);
            }
            // The SA knows its last PN too, and says when it is used.
            Ok(Reservation::Exhausted) => {}
            Err(error) => {
                keys.retry_at = Some(now + LEASE_RETRY);
                self.notices.push(Notice::LeaseFailed { link: link.clone(), error });
            }
        }
    }

    /// Looks what the transmit SA of a link needs, if that is in the kernel and its key is static.
    pub(super) fn look_at_pns(&mut self, number: usize, now: Instant) {
        let LinkControl { keys: Keys::Static(keys), kernel: Some(kernel), .. } = &mut self.links[number]
        else {
            return;
        };
        if keys.in_kernel && now >= keys.look_due {
            keys.look_due = now + LOOK_PERIOD;
            if let Some(action) = kernel.new_need(keys.lease.an) {
                self.meet_need(number, action, now);
            }
        }
    }
}
