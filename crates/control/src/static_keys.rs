//! Static keys of a link: the lease of its transmit SA, its receive SAs' floors, and the keys for SAs in the kernel.

mod kernel;
mod tail;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pnstore::{LeaseError, LeaseName, Reservation, UnusedPns};
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

/// Leases and floors that are kept on disk for a link's SAs with static keys.
pub struct StaticKeys {
    /// The PNs that its transmit SA uses.
    pub transmit: TransmitLease,
    /// Its receive SAs whose floors are kept.
    pub receive: Vec<ReceiveFloor>,
}

/// Fault of a reservation.
pub(crate) enum ReservationFault {
    /// The block is not the next one.
    Gap,
    /// It could not be written.
    Disk(LeaseError),
}

/// Control's part of a link with static keys.
pub(crate) struct StaticControl {
    lease: TransmitLease,
    /// Shared with the worker, so that nothing is freed there.
    floors: Arc<[ReceiveFloor]>,
    /// The reservation that is under way.
    pending: Option<u64>,
    /// A reservation that failed is due again then.
    retry_at: Option<Instant>,
    /// Another pipeline is under way: the worker's reports are about the SA before, and its PNs are no longer of interest.
    changing: bool,
    /// The keys, if its SAs may be in the kernel.
    saks: Option<StaticSaks>,
    /// Its SAs are there.
    in_kernel: bool,
    /// What the worker still does under them.
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
        let StaticKeys { transmit: lease, receive } = keys;
        Self {
            lease,
            floors: receive.into(),
            pending: None,
            retry_at: None,
            changing: false,
            saks: None,
            in_kernel: false,
            tail: None,
            worker_transmits: false,
            nowhere: None,
            look_due: Instant::now(),
        }
    }

    /// Receive SAs whose floors are kept.
    pub(crate) fn floors(&self) -> Arc<[ReceiveFloor]> {
        Arc::clone(&self.floors)
    }

    /// The PNs that its transmit SA has not used; the SecY has come back from its worker. Of an SA whose PNs go on in the kernel it has
    /// none to give.
    pub(crate) fn unused(&self, secy: &SecY) -> Option<UnusedPns> {
        self.lease.unused(secy).filter(|_| self.tail.is_none())
    }

    /// Another pipeline is under way: from here on nothing is reserved for the SA before.
    pub(crate) const fn begin_change(&mut self) {
        self.changing = true;
    }

    /// The worker has that pipeline.
    pub(crate) const fn end_change(&mut self) {
        self.changing = false;
    }

    pub(crate) const fn is_changing(&self) -> bool {
        self.changing
    }

    /// Takes over what the pipeline that is under way uses: other PNs, or those of before, and floors. Hands out what the pipeline
    /// before used. The keys for the kernel come again.
    pub(crate) fn replace(
        &mut self,
        transmit: Option<TransmitLease>,
        receive: Vec<ReceiveFloor>,
    ) -> (TransmitLease, Arc<[ReceiveFloor]>) {
        (self.saks, self.nowhere, self.tail) = (None, None, None);
        if transmit.is_some() {
            // The SA before asked for the reservation that is under way: it would be taken for the new one's.
            (self.pending, self.retry_at) = (None, None);
        }
        let transmit = transmit.unwrap_or(self.lease);
        let lease = std::mem::replace(&mut self.lease, transmit);
        (lease, std::mem::replace(&mut self.floors, receive.into()))
    }

    /// Has the next block of PNs reserved, unless that is under way.
    pub(crate) fn reserve(&mut self, lease_thread: &mut LeaseThread) {
        if self.pending.is_none() {
            let TransmitLease { name, last, .. } = self.lease;
            (self.pending, self.retry_at) = (Some(lease_thread.reserve(name, last)), None);
        }
    }

    /// Whether this reservation is its own.
    pub(crate) fn awaits(&self, ticket: u64) -> bool {
        self.pending == Some(ticket)
    }

    /// Takes the block that was reserved: its transmit SA may use the PNs through the last one. None are left where that
    /// is nothing; the SA knows its last PN too, and says when it is used.
    ///
    /// # Errors
    /// If there is no block, or not the next one.
    pub(crate) fn take_reservation(
        &mut self,
        reservation: Result<Reservation, LeaseError>,
        now: Instant,
    ) -> Result<Option<(An, Pn)>, ReservationFault> {
        let TransmitLease { an, through: before, .. } = self.lease;
        self.pending = None;
        match reservation {
            // The PNs between were reserved for another SA under this key, which must not be: whatever happens, no
            // PN is used twice.
            Ok(Reservation::Block(block)) if before.number().checked_add(1) != Some(block.first.number()) => {
                Err(ReservationFault::Gap)
            }
            Ok(Reservation::Block(block)) => {
                self.lease.through = block.last;
                Ok(Some((an, block.last)))
            }
            Ok(Reservation::Exhausted) => Ok(None),
            Err(error) => {
                self.retry_at = Some(now + LEASE_RETRY);
                Err(ReservationFault::Disk(error))
            }
        }
    }

    /// The receive SCs.
    pub(crate) fn scs(&self) -> Vec<Sci> {
        let mut scs: Vec<_> = self.saks.iter().flat_map(|saks| &saks.receive).map(|of| of.sci).collect();
        scs.sort_unstable_by_key(|sci| sci.octets());
        scs.dedup();
        scs
    }

    /// Whether a reservation is due again.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.retry_at.is_some_and(|at| at <= now)
    }
}
