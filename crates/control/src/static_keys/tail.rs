//! The worker's last PNs under SAs with static keys that go to the kernel.
//!
//! ```text
//!  transmit SA   next ── the worker's ──┬── the kernel's ── reserved
//!  receive SA    highest ── the worker's ──┬── the kernel's ──▶
//! ```
//!
//! Frames that have come to the worker are not lost, and nobody waits for anybody: both have the SAs for a while, and no PN is both's. Programs
//! leave frames with PNs of the worker's to it. The worker's SAs go when its last PNs of all receive SAs have gone by, and it has sent what
//! had come to it. A peer that sends little goes through user space for so long.
//!
//! The worker itself switches the kernel's transmit SA on, at a moment when nothing waits to be sent. A frame that comes to it in the microseconds
//! between may be overtaken by one of the kernel, [`TAIL_PNS`] PNs above: then it is late at a peer with a narrower replay window.

use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use secy::SecY;
use wire::{An, Pn, Sci};
use xdp::XdpError;
use xdp::link::Switch;

use super::StaticControl;
use super::kernel::{StaticSaks, TakenOut};
use crate::kernel_link::KernelLink;

/// PNs of each SA that the worker goes on with: for what comes to it while the kernel gets the SAs. More than there are places in a
/// queue's ring, at most 2048: frames may wait there that the worker has not seen.
pub(crate) const TAIL_PNS: u64 = 4096;

/// Time in which the worker has sent what had come to it.
const TAIL_TIME: Duration = Duration::from_secs(1);

/// SAs of a worker that was limited to some PNs more.
#[derive(Default)]
pub(crate) struct Limited {
    /// The AN, the kernel's first PN, and the last reserved one. None if the kernel gets no transmit SA.
    pub(super) transmit: Option<(An, Pn, Pn)>,
    /// Each with the highest PN that it had accepted, and the last PN that is the worker's.
    receive: ArrayVec<(Sci, An, u64), { SecY::RECEIVE_SCS * An::COUNT }>,
    /// PNs of each SA that are the worker's.
    tail: u64,
    /// They are those of express SCs: the worker's transmit SA is of no interest.
    express: bool,
}

impl Limited {
    /// `tail`: so many PNs of each SA are the worker's.
    pub(crate) fn new(express: bool, tail: u64) -> Self {
        Self { tail, express, ..Self::default() }
    }

    /// Limits the worker's SAs; without a tail it has none any more. Allocates nothing.
    pub(crate) fn limit(&mut self, secy: &mut SecY, scs: &[Sci], taken: &mut TakenOut) {
        let transmit = secy.encoding_sa().filter(|_| !self.express);
        self.transmit = transmit.and_then(|an| self.limit_transmit(secy, an));
        for (sci, an) in scs.iter().flat_map(|sci| An::ALL.map(|an| (*sci, an))) {
            let sc = secy.receive_scs().find(|sc| sc.sci() == sci);
            let Some(sa) = sc.and_then(|sc| sc.sas().find(|sa| sa.an() == an)) else { continue };
            let through = sa.window().highest().saturating_add(self.tail);
            if let Some(limit) = Pn::new(through) {
                let _ = secy.limit_receive(sci, an, limit);
            }
            // There is room for all that there are.
            let _ = self.receive.try_push((sci, an, through));
        }
        if self.tail == 0 {
            taken.take(secy, scs);
        }
    }

    fn limit_transmit(&self, secy: &mut SecY, an: An) -> Option<(An, Pn, Pn)> {
        let sa = secy.transmit_sas().find(|sa| sa.an() == an)?;
        let (next, reserved) = (sa.pns().next()?, sa.pns().reserved());
        let left = reserved.number().saturating_add(1).saturating_sub(next.number());
        let first = Pn::new(next.number().checked_add(self.tail.min(left.div_ceil(2)))?)?;
        secy.limit_transmit(an, Pn::new(first.number() - 1).unwrap_or(reserved)).ok()?;
        Some((an, first, reserved))
    }

    /// Installs the SAs in the kernel, for the PNs that are not the worker's.
    /// Returns what has frames protected there, if that is left to the worker.
    pub(super) fn install(
        &self,
        saks: &StaticSaks,
        kernel: &mut KernelLink,
    ) -> Result<Option<(An, Switch)>, XdpError> {
        for &(sci, an, through) in &self.receive {
            let Some(of) = saks.receive.iter().find(|of| (of.sci, of.an) == (sci, an)) else { continue };
            let (key, lowest) = (saks.key(of), lowest(through));
            kernel.install_receive_above(sci, an, &key, lowest, self.tail > 0)?;
        }
        let Some((an, first, reserved)) = self.transmit.filter(|(an, ..)| *an == saks.transmit.an) else {
            return Ok(None);
        };
        kernel.install_transmit(an, &saks.key(&saks.transmit), first, reserved)?;
        if self.tail > 0 {
            return Ok(Some((an, kernel.transmit_switch(an))));
        }
        kernel.enable_transmit(an).map(|()| None)
    }
}

fn lowest(through: u64) -> Pn {
    Pn::new(through.saturating_add(1)).unwrap_or(Pn::LAST_64)
}

/// Frames that the worker still has under SAs that are in the kernel.
pub(super) struct Tail {
    receive: Vec<TailOfSa>,
    /// Until then it may have frames to send, and get some that were overtaken.
    until: Instant,
}

/// Frames that the worker still receives under an SA.
struct TailOfSa {
    sci: Sci,
    an: An,
    /// The last PN that is the worker's.
    through: u64,
    /// Programs leave no frame to the worker any more.
    ended: bool,
}

impl Tail {
    pub(super) fn of(limited: &Limited, now: Instant) -> Option<Self> {
        let of_sa = |&(sci, an, through): &(Sci, An, u64)| TailOfSa { sci, an, through, ended: false };
        let receive = limited.receive.iter().map(of_sa).collect();
        (limited.tail > 0).then(|| Self { receive, until: now + TAIL_TIME })
    }

    /// Whether nothing has come above the worker's PNs of a receive SA, whose lowest PN in the kernel is this one.
    pub(super) fn is_workers(&self, sci: Sci, an: An, lowest: Pn) -> bool {
        self.receive.iter().any(|of| (of.sci, of.an, of.through) == (sci, an, lowest.number() - 1))
    }

    /// Lowers the start of SAs in the kernel: if nothing has come above the worker's PNs, an SA goes on behind the highest PN of the worker.
    pub(super) fn lower(&self, standing: &mut [(Sci, An, Pn)], of_worker: &TakenOut) {
        for (sci, an, of_kernel) in standing {
            let sa = of_worker.receive.iter().find(|(of, sa)| (*of, sa.an()) == (*sci, *an));
            if let Some((_, sa)) = sa.filter(|_| self.is_workers(*sci, *an, *of_kernel)) {
                *of_kernel = lowest(sa.window().highest());
            }
        }
    }

    /// Ends what has gone by: an SA that has come above the worker's PNs leaves it nothing, so that nobody brings it later what he has
    /// held back. Returns whether all have ended.
    fn end(&mut self, kernel: &mut KernelLink, now: Instant) -> Result<bool, XdpError> {
        if now < self.until {
            return Ok(false);
        }
        for of in self.receive.iter_mut().filter(|of| !of.ended) {
            // One that is gone has no PN to come.
            if kernel.highest(of.sci, of.an)?.is_none_or(|highest| highest > of.through) {
                kernel.share_no_more(of.sci, of.an)?;
                of.ended = true;
            }
        }
        Ok(self.receive.iter().all(|of| of.ended))
    }
}

impl StaticControl {
    /// Whether the worker has SAs too.
    pub(crate) const fn is_shared(&self) -> bool {
        !self.in_kernel || self.worker_transmits || self.tail.is_some()
    }

    /// Whether the worker goes on with some PNs.
    pub(crate) const fn has_tail(&self) -> bool {
        self.in_kernel && self.tail.is_some()
    }

    /// Ends what the worker's last PNs have gone by of. Returns whether it needs no SAs any more.
    pub(crate) fn look_at_tail(&mut self, kernel: &mut KernelLink, now: Instant) -> Result<bool, XdpError> {
        match &mut self.tail {
            Some(tail) if self.in_kernel => tail.end(kernel, now),
            _ => Ok(false),
        }
    }

    /// The worker did not let go of its SAs: it is asked again later.
    pub(crate) fn delay_tail(&mut self, now: Instant) {
        if let Some(tail) = &mut self.tail {
            tail.until = now + TAIL_TIME;
        }
    }

    /// The worker's SAs have gone.
    pub(crate) fn end_tail(&mut self, kernel: &mut KernelLink) -> Result<(), XdpError> {
        let Some(tail) = self.tail.take() else { return Ok(()) };
        for of in tail.receive.iter().filter(|of| !of.ended) {
            kernel.share_no_more(of.sci, of.an)?;
        }
        kernel.share(self.is_shared())
    }
}
