//! Static keys of a link: the leases of its transmit SAs, its receive SAs' floors, and the keys for SAs in the kernel.
//!
//! A link that splits frames may have express SCs, whose SAs have leases and floors of their own. Its other SAs stay in the worker then;
//! the transmit SA of the express SC is in the programs or nowhere, and its PNs wait here ([`ExpressPns`]).

mod kernel;
mod tail;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pnstore::{FIRST_BLOCK_PNS, LeaseError, LeaseName, Reservation, UnusedPns, next_block};
use secy::SecY;
use wire::{An, Pn, Sci};

use crate::floors::ReceiveFloor;
use crate::lease_thread::LeaseThread;
pub(crate) use kernel::TakenOut;
pub use kernel::{StaticSak, StaticSaks};
use tail::Tail;
pub(crate) use tail::{Limited, TAIL_PNS};

/// Pause after a failed write before a lease is tried again.
const LEASE_RETRY: Duration = Duration::from_secs(1);

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
    pub(crate) fn unused(&self, secy: &SecY) -> Option<UnusedPns> {
        let sa = secy.transmit_sas().find(|sa| sa.an() == self.an)?;
        self.unused_of(sa.pns().next(), sa.pns().reserved())
    }

    /// The PNs that its SA has not used, which stands at these: the next one, and the last that it was allowed.
    pub(crate) fn unused_of(&self, next: Option<Pn>, reserved: Pn) -> Option<UnusedPns> {
        let Self { name, through, .. } = *self;
        // PNs that the SA was allowed, not those that were asked for: a block that never reached it is not its own.
        next.filter(|_| reserved <= through).map(|next| UnusedPns { name, next, through })
    }
}

/// PNs of the express SC's transmit SA, which is in programs alone, while it is not there.
#[derive(Clone, Copy)]
pub struct ExpressPns {
    /// The record on disk.
    pub lease: TransmitLease,
    /// The PN of its next frame; none if all are used, or nobody knows.
    pub next: Option<Pn>,
}

/// Change of the express SC's transmit SA together with a link's pipeline.
pub enum ExpressChange {
    /// There is none from here on.
    None,
    /// It goes on as it is, or stays away.
    Same,
    /// It begins with these PNs.
    Begins(ExpressPns),
}

/// Leases and floors that are kept on disk for a link's SAs with static keys.
pub struct StaticKeys {
    /// The PNs that its transmit SA uses.
    pub transmit: TransmitLease,
    /// Those of its express SC, if it has one.
    pub express: Option<ExpressPns>,
    /// Its receive SAs whose floors are kept, those of express SCs too.
    pub receive: Vec<ReceiveFloor>,
}

/// Fault of a reservation.
pub(crate) enum ReservationFault {
    /// The block is not the next one.
    Gap,
    /// It could not be written.
    Disk(LeaseError),
}

/// User of a block that was reserved.
pub(crate) enum PnUser {
    /// The programs' transmit SA.
    Kernel,
    /// The worker's.
    Worker,
    /// None yet: the SA gets it when it comes into the kernel.
    Later,
}

/// A lease with its reservation that is under way.
struct Lease {
    of: TransmitLease,
    /// PNs of the latest block. One that replaces it under load begins with as many.
    block: NonZeroU64,
    pending: Option<u64>,
    /// A reservation that failed is due again then.
    retry_at: Option<Instant>,
}

impl Lease {
    fn new(of: TransmitLease) -> Self {
        Self { of, block: FIRST_BLOCK_PNS, pending: None, retry_at: None }
    }

    /// Has the next block of PNs reserved, unless that is under way.
    fn reserve(&mut self, lease_thread: &mut LeaseThread) {
        if self.pending.is_none() {
            let TransmitLease { name, last, .. } = self.of;
            (self.pending, self.retry_at) =
                (Some(lease_thread.reserve(name, last, next_block(self.block))), None);
        }
    }

    /// Whether this reservation is its own.
    fn awaits(&self, ticket: u64) -> bool {
        self.pending == Some(ticket)
    }

    fn take_reservation(
        &mut self,
        reservation: Result<Reservation, LeaseError>,
        now: Instant,
    ) -> Result<Option<(An, Pn)>, ReservationFault> {
        let TransmitLease { an, through: before, .. } = self.of;
        self.pending = None;
        match reservation {
            // The PNs between were reserved for another SA under this key, which must not be: whatever happens, no
            // PN is used twice.
            Ok(Reservation::Block(block)) if before.number().checked_add(1) != Some(block.first.number()) => {
                Err(ReservationFault::Gap)
            }
            Ok(Reservation::Block(block)) => {
                (self.of.through, self.block) = (block.last, next_block(self.block));
                Ok(Some((an, block.last)))
            }
            Ok(Reservation::Exhausted) => Ok(None),
            Err(error) => {
                self.retry_at = Some(now + LEASE_RETRY);
                Err(ReservationFault::Disk(error))
            }
        }
    }

    /// Whether a reservation is due again.
    fn is_due(&self, now: Instant) -> bool {
        self.retry_at.is_some_and(|at| at <= now)
    }
}

/// Lease of the express SC's transmit SA, and where that goes on if it is not in the kernel.
struct Express {
    lease: Lease,
    next: Option<Pn>,
    /// There are no PNs left: its frames go out on the other SC.
    used_up: bool,
}

impl Express {
    fn new(pns: ExpressPns) -> Self {
        Self { lease: Lease::new(pns.lease), next: pns.next, used_up: pns.next.is_none() }
    }

    /// The PNs that its SA has not used, which is not in the kernel and never will be again.
    fn unused(&mut self) -> Option<UnusedPns> {
        let through = self.lease.of.through;
        self.lease.of.unused_of(self.next.take(), through)
    }
}

/// Control's part of a link with static keys.
pub(crate) struct StaticControl {
    lease: Lease,
    /// Of the express SC, if it has one. The SAs in the kernel are those of the express SCs then, and the others are the worker's.
    express: Option<Express>,
    /// Shared with the worker, so that nothing is freed there.
    floors: Arc<[ReceiveFloor]>,
    /// Another pipeline is under way: the worker's reports are about the SA before, and its PNs are no longer of interest.
    changing: bool,
    /// The keys, if its SAs may be in the kernel.
    saks: Option<StaticSaks>,
    /// Its SAs are there.
    in_kernel: bool,
    /// Frames that the worker still has under them.
    tail: Option<Tail>,
    /// Its transmit SA has stayed in the worker.
    worker_transmits: bool,
    /// Why its SAs are nowhere, if a move has failed.
    nowhere: Option<String>,
    /// Not before then the kernel is asked for PNs.
    look_due: Instant,
}

impl StaticControl {
    pub(crate) fn new(keys: StaticKeys) -> Self {
        let StaticKeys { transmit, express, receive } = keys;
        Self {
            lease: Lease::new(transmit),
            express: express.map(Express::new),
            floors: receive.into(),
            changing: false,
            saks: None,
            in_kernel: false,
            tail: None,
            worker_transmits: false,
            nowhere: None,
            look_due: Instant::now(),
        }
    }

    /// The PNs that its transmit SA uses.
    pub(crate) const fn transmit_lease(&self) -> TransmitLease {
        self.lease.of
    }

    /// PNs of the transmit SA's latest block.
    pub(crate) const fn latest_block(&self) -> NonZeroU64 {
        self.lease.block
    }

    /// Goes on behind a block of so many PNs.
    pub(crate) const fn set_latest_block(&mut self, pns: NonZeroU64) {
        self.lease.block = pns;
    }

    /// Whether a block of PNs is under way.
    pub(crate) fn is_reserving(&self) -> bool {
        let express = self.express.as_ref().map(|of| &of.lease);
        express.into_iter().chain([&self.lease]).any(|lease| lease.pending.is_some())
    }

    /// PNs of the express SC's transmit SA, if it has one, which is not in the kernel.
    pub(crate) fn express_pns(&self) -> Option<ExpressPns> {
        self.express.as_ref().map(|of| ExpressPns { lease: of.lease.of, next: of.next })
    }

    /// Receive SAs whose floors are kept.
    pub(crate) fn floors(&self) -> Arc<[ReceiveFloor]> {
        Arc::clone(&self.floors)
    }

    /// The PNs that its transmit SA has not used; the SecY has come back from its worker. Of an SA whose PNs go on in the kernel, or were
    /// there when it was lost, it has none to give.
    pub(crate) fn unused(&self, secy: &SecY) -> Option<UnusedPns> {
        let is_whole = self.tail.is_none() && self.nowhere.is_none();
        self.lease.of.unused(secy).filter(|_| is_whole || self.has_express())
    }

    /// Whether the express SC has no PNs left.
    pub(crate) fn is_express_used_up(&self) -> bool {
        self.express.as_ref().is_some_and(|express| express.used_up)
    }

    /// The express SC has no PNs left.
    pub(crate) const fn use_express_up(&mut self) {
        if let Some(express) = &mut self.express {
            express.used_up = true;
        }
    }

    /// Whether it has express SCs.
    pub(crate) const fn has_express(&self) -> bool {
        self.express.is_some()
    }

    /// From here on nothing is reserved for the SAs before: another pipeline is under way, and what it begins with is reserved.
    pub(crate) const fn begin_change(&mut self) {
        self.changing = true;
    }

    /// The worker has that pipeline, or never gets it.
    pub(crate) const fn end_change(&mut self) {
        self.changing = false;
    }

    pub(crate) const fn is_changing(&self) -> bool {
        self.changing
    }

    /// Takes over what the worker's new pipeline uses: other PNs, or those of before, and floors. Hands out what the pipeline
    /// before used, and what the express SC's transmit SA has left if it ends; it is not in the kernel meanwhile. The keys for the kernel
    /// come again.
    pub(crate) fn replace(
        &mut self,
        transmit: Option<TransmitLease>,
        express: ExpressChange,
        receive: Vec<ReceiveFloor>,
    ) -> (TransmitLease, Option<UnusedPns>, Arc<[ReceiveFloor]>) {
        (self.saks, self.tail) = (None, None);
        let lease = self.lease.of;
        if let Some(transmit) = transmit {
            // The SA before asked for the reservation that is under way: it would be taken for the new one's.
            self.lease = Lease { block: self.lease.block, ..Lease::new(transmit) };
        }
        let ended = match express {
            ExpressChange::Same => None,
            ExpressChange::None => self.express.take(),
            ExpressChange::Begins(pns) => self.express.replace(Express::new(pns)),
        };
        let unused = ended.and_then(|mut express| express.unused());
        (lease, unused, std::mem::replace(&mut self.floors, receive.into()))
    }

    /// Has the next block of PNs reserved for the transmit SA, or for that of the express SC, unless that is under way.
    pub(crate) fn reserve(&mut self, express: bool, lease_thread: &mut LeaseThread) {
        match &mut self.express {
            Some(of) if express => of.lease.reserve(lease_thread),
            _ => self.lease.reserve(lease_thread),
        }
    }

    /// Asks again for blocks whose reservation failed, if it is time.
    pub(crate) fn reserve_again(&mut self, now: Instant, lease_thread: &mut LeaseThread) {
        let leases = std::iter::once(&mut self.lease).chain(self.express.as_mut().map(|of| &mut of.lease));
        leases.filter(|lease| lease.is_due(now)).for_each(|lease| lease.reserve(lease_thread));
    }

    /// Whether this reservation is its own.
    pub(crate) fn awaits(&self, ticket: u64) -> bool {
        self.lease.awaits(ticket) || self.express.as_ref().is_some_and(|of| of.lease.awaits(ticket))
    }

    /// Takes the block that was reserved: that SA may use the PNs through the last one. None are left where that
    /// is nothing; the SA knows its last PN too, and says when it is used.
    ///
    /// # Errors
    /// If there is no block, or not the next one.
    pub(crate) fn take_reservation(
        &mut self,
        ticket: u64,
        reservation: Result<Reservation, LeaseError>,
        now: Instant,
    ) -> Result<Option<(An, Pn, PnUser)>, ReservationFault> {
        let in_kernel = self.in_kernel;
        let (lease, user) = match &mut self.express {
            Some(of) if of.lease.awaits(ticket) => {
                (&mut of.lease, if in_kernel { PnUser::Kernel } else { PnUser::Later })
            }
            None if in_kernel => (&mut self.lease, PnUser::Kernel),
            Some(_) | None => (&mut self.lease, PnUser::Worker),
        };
        Ok(lease.take_reservation(reservation, now)?.map(|(an, through)| (an, through, user)))
    }

    /// The receive SCs.
    pub(crate) fn scs(&self) -> Vec<Sci> {
        let mut scs: Vec<_> = self.saks.iter().flat_map(|saks| &saks.receive).map(|of| of.sci).collect();
        scs.sort_unstable_by_key(|sci| sci.octets());
        scs.dedup();
        scs
    }
}

#[cfg(test)]
mod tests;
