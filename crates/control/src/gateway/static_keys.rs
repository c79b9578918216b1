//! Links with static keys: leases of PNs, and pipelines that take over from others.

use std::num::NonZeroU64;
use std::time::Instant;

use dataplane::job::Progress;
use dataplane::pipeline::Pipeline;
use pnstore::{FIRST_BLOCK_PNS, LeaseError, Reservation};
use secy::{CarryOver, NextAction};

use super::Gateway;
use crate::floors::ReceiveFloor;
use crate::jobs::LinkJob;
use crate::kernel_link::KernelLink;
use crate::link::{Keys, LinkControl};
use crate::static_keys::{ExpressChange, PnUser, ReservationFault, TransmitLease};
use crate::workers::WorkerSlot;
use crate::{Notice, WorkerUnresponsive};

/// Why a link with static keys is as it was.
#[derive(Debug, thiserror::Error)]
pub enum NotChanged {
    /// Its worker does not answer; or there is no such link.
    #[error(transparent)]
    Worker(#[from] WorkerUnresponsive),
    /// Its SAs are nowhere, for this reason, so there is nothing to go on with.
    #[error("{0}")]
    Nowhere(String),
}

impl Gateway {
    /// Puts another pipeline in the place of a link's own between two turns, so that no frame meets a half-changed one. The
    /// transmit SA uses the PNs of `transmit` from here on, or goes on with those that it has; the floors of `receive`
    /// are kept; what `carry_over` names is as in [`secy::SecY::take_over`]. `express` is about the express SC's.
    ///
    /// # Errors
    /// [`NotChanged`]: the link has its pipeline of before, and keeps it; also if there is no such link with static keys.
    pub fn change(
        &mut self,
        name: &str,
        pipeline: Box<Pipeline>,
        carry_over: CarryOver,
        (transmit, express): (Option<TransmitLease>, ExpressChange),
        receive: Vec<ReceiveFloor>,
    ) -> Result<(), NotChanged> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        let keys = self.links[number].static_keys_mut().ok_or(WorkerUnresponsive)?;
        keys.begin_change();
        let before = self.exchange_static(number, pipeline, carry_over);
        if before.is_err()
            && let Some(keys) = self.links[number].static_keys_mut()
        {
            keys.end_change();
        }
        // The worker's words are about SAs that go on, and are heard in the next turn: behind what the caller gives back. PNs behind those
        // would be a gap for an SA with the same key.
        let before = before?;
        self.handle_held_events();
        let keys = self.links[number].static_keys_mut().ok_or(WorkerUnresponsive)?;
        let (lease, of_express, floors) = keys.replace(transmit, express, receive);
        keys.end_change();
        let secy = before.as_ref().map(|before| &before.secy);
        if let Some(secy) = secy {
            self.keep_last_floors(secy, &floors);
        }
        // Nobody knows where an SA stands that has not come back: its PNs are lost, as after a crash.
        let unused = secy.and_then(|secy| lease.unused(secy)).into_iter().chain(of_express);
        unused.for_each(|unused| self.lease_thread.give_back(unused));
        Ok(())
    }

    /// Puts a pipeline in the place of a link's own that takes over from it. SAs come back from the kernel before, and enter it again by
    /// [`Gateway::set_link_place`], which brings the keys.
    fn exchange_static(
        &mut self,
        number: usize,
        pipeline: Box<Pipeline>,
        carry_over: CarryOver,
    ) -> Result<Option<Box<Pipeline>>, NotChanged> {
        self.leave_static(number)?;
        // A pipeline that takes over from one without the SAs would accept again what these have accepted.
        if let Keys::Static(keys) = self.links[number].keys()
            && let Some(why) = keys.nowhere()
        {
            return Err(NotChanged::Nowhere(why.to_owned()));
        }
        Ok(self.exchange(number, pipeline, carry_over)?)
    }

    /// PNs of the latest block of a link's transmit SA: one that replaces it begins with as many, for it has the same frames to send.
    pub fn latest_block(&mut self, name: &str) -> NonZeroU64 {
        let number = self.number(name);
        let keys = number.and_then(|number| self.links[number].static_keys_mut());
        keys.map_or(FIRST_BLOCK_PNS, |keys| keys.latest_block())
    }

    /// Has a link's transmit SA go on behind a block of so many PNs, the latest one of the program before this. `left`: PNs that it may
    /// use now. Unless they are a whole block the next one is reserved at once: the SA itself asks when half of what is left is used, so
    /// each upgrade within a block would leave a slow disk less time.
    pub fn go_on_behind_block(&mut self, name: &str, pns: NonZeroU64, left: u64) {
        let Some(number) = self.number(name) else { return };
        let Some(keys) = self.links[number].static_keys_mut() else { return };
        keys.set_latest_block(pns);
        if left < pns.get() {
            self.reserve(number, false);
        }
    }

    /// Meets a need of a transmit SA.
    pub(super) fn next_action(&mut self, at: WorkerSlot, action: NextAction, now: Instant) {
        if let Some(number) = self.number_at(at) {
            self.meet_need(number, action, now);
        }
    }

    /// Meets a need of a link's transmit SA.
    fn meet_need(&mut self, number: usize, action: NextAction, now: Instant) {
        let link = &mut self.links[number];
        // The KaY decides by the next PN, and so it is told at once.
        if let Some(agreement) = link.agreement_mut() {
            return agreement.schedule_pn_query(now);
        }
        if link.static_keys_mut().is_none_or(|keys| keys.is_changing()) {
            return;
        }
        let link = link.name().to_owned();
        match action {
            NextAction::Continue => {}
            NextAction::Rekey => self.notices.push(Notice::ChangeKeySoon { link }),
            NextAction::Exhausted => self.notices.push(Notice::PnExhausted { link }),
            NextAction::Reserve | NextAction::AwaitReservation => self.reserve(number, false),
        }
    }

    /// Meets a need of the transmit SA of a link's express SC.
    fn meet_express_need(&mut self, number: usize, action: NextAction) {
        let link = self.links[number].name().to_owned();
        match action {
            NextAction::Continue => {}
            NextAction::Rekey => self.notices.push(Notice::ChangeKeySoon { link }),
            NextAction::Reserve | NextAction::AwaitReservation => self.reserve(number, true),
            // From here on express frames go out on the other SC.
            NextAction::Exhausted => {
                if let Some(keys) = self.links[number].static_keys_mut() {
                    keys.use_express_up();
                }
                let disabled = self.links[number].kernel_mut().map_or(Ok(()), KernelLink::disable_transmit);
                self.notices.push(match disabled {
                    Ok(()) => Notice::ChangeKeySoon { link },
                    Err(error) => Notice::LinkKernelFault { link, why: error.to_string() },
                });
            }
        }
    }

    /// Has the next block of PNs reserved for a link's transmit SA, or for that of its express SC, unless that is under way.
    fn reserve(&mut self, number: usize, express: bool) {
        if let Some(keys) = self.links[number].static_keys_mut() {
            keys.reserve(express, &mut self.lease_thread);
        }
    }

    /// Asks again for a link's blocks of PNs whose reservation failed, if it is time.
    pub(super) fn reserve_again(&mut self, number: usize, now: Instant) {
        if let Some(keys) = self.links[number].static_keys_mut() {
            keys.reserve_again(now, &mut self.lease_thread);
        }
    }

    /// Allows the block that was reserved for the link which asked for it, if there still is one.
    pub(super) fn reserved(
        &mut self,
        ticket: u64,
        reservation: Result<Reservation, LeaseError>,
        now: Instant,
    ) {
        let awaits = |link: &LinkControl| matches!(link.keys(), Keys::Static(keys) if keys.awaits(ticket));
        let Some(link) = self.links.iter_mut().find(|link| awaits(link)) else { return };
        let (name, WorkerSlot { worker, slot }) = (link.name().to_owned(), link.at());
        let Some((keys, kernel)) = link.static_parts() else { return };
        match keys.take_reservation(ticket, reservation, now) {
            Ok(Some((an, through, PnUser::Kernel))) => {
                if let Some(Err(error)) = kernel.map(|kernel| kernel.reserve_through(an, through)) {
                    self.notices.push(Notice::LinkKernelFault { link: name, why: error.to_string() });
                }
            }
            Ok(Some((an, through, PnUser::Worker))) => {
                // Without room the worker is stuck, and needs no PNs.
                let allow = LinkJob::new(slot, (an, through), |link, (an, through)| {
                    link.reserve_through(*an, *through);
                    Progress::Done
                });
                let _ = self.workers.submit(worker, allow);
            }
            Ok(Some((_, _, PnUser::Later)) | None) => {}
            Err(ReservationFault::Gap) => self.notices.push(Notice::PnExhausted { link: name }),
            Err(ReservationFault::Disk(error)) => {
                self.notices.push(Notice::LeaseFailed { link: name, error })
            }
        }
    }

    /// Looks what the transmit SA of a link needs, if that is in the kernel and its key is static.
    pub(super) fn look_at_pns(&mut self, number: usize, now: Instant) {
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        let is_express = keys.has_express();
        let Some(need) = keys.look_in_kernel(kernel, now) else { return };
        match need {
            NextAction::Continue => {}
            need if is_express => self.meet_express_need(number, need),
            need => self.meet_need(number, need, now),
        }
        self.look_at_tail(number, now);
    }
}
