//! Moves of SAs with static keys between a worker's SecY and the programs. No PN is both's, so none is taken twice and no frame accepted
//! twice. On their way to the kernel both have SAs for a while (static_keys/tail.rs); on their way back frames wait for the worker.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dataplane::job::Progress;
use secy::SecY;
use wire::An;
use xdp::XdpError;
use xdp::link::Switch;

use super::Gateway;
use crate::static_keys::{Limited, TAIL_PNS, TakenOut};
use crate::{Notice, WorkerUnresponsive};

/// Time in which a worker looks for a turn that leaves no frame of one side waiting.
pub(super) const MOST_WAIT: Duration = Duration::from_millis(50);
/// PNs that a worker keeps for what it takes in one turn.
const LAST_PNS: u64 = 64;

impl Gateway {
    /// Moves the SAs of a link with static keys from its worker to its programs, unless they are there.
    pub(super) fn enter_static(&mut self, number: usize) {
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        if !keys.may_enter_kernel() {
            return;
        }
        let (scs, express) = (keys.scs(), keys.has_express());
        // Nothing stands there that could be taken for them.
        if let Err(error) = kernel.retire_all(&scs) {
            return self.lose_static(number, &error.to_string());
        }
        // Without programs in front of ports no frame comes to them, and none is to go another way.
        let limited = Limited::new(express, if kernel.is_attached() { TAIL_PNS } else { 0 });
        let job = (scs, limited, TakenOut::new(express));
        let limited = self.run_on_link(number, job, |link, (scs, limited, taken)| {
            limited.limit(&mut link.pipeline_mut().secy, scs, taken);
            Progress::Done
        });
        let limited = match limited {
            Ok((_, limited, _)) => limited,
            // It may do so later, and then nobody has the other PNs.
            Err(error) => return self.lose_static(number, &error.to_string()),
        };
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        let entered = keys.enter_kernel(&limited, kernel, Instant::now());
        let switched = entered
            .map_err(|error| error.to_string())
            .and_then(|switch| switch.map_or(Ok(()), |switch| self.switch_transmit(number, switch)));
        if let Err(why) = switched {
            self.lose_static(number, &why);
        }
    }

    /// Has frames protected in the kernel when the worker has sent what had come to it, or has waited for that long enough: what comes to
    /// it meanwhile would be overtaken. A worker that does not answer is not waited for, since the kernel's PNs are its own.
    fn switch_transmit(&mut self, number: usize, (an, switch): (An, Switch)) -> Result<(), String> {
        // Nobody turns it after the other one: the SA may be on its way back by then.
        let turned = Arc::new(Mutex::new(false));
        let job = (an, switch, Arc::clone(&turned), None, Ok(()));
        let done = self.run_on_link(number, job, |link, (an, switch, turned, began, done)| {
            let waited = began.get_or_insert_with(Instant::now).elapsed();
            let may_wait = waited < MOST_WAIT && pns_left(&link.pipeline().secy, *an) > LAST_PNS;
            if may_wait && !link.is_plain_side_empty() {
                return Progress::Unfinished;
            }
            if let Ok(mut turned) = turned.try_lock()
                && !mem::replace(&mut *turned, true)
            {
                *done = switch.turn();
            }
            Progress::Done
        });
        if let Ok((.., done)) = done {
            return done.map_err(|error| error.to_string());
        }
        let mut turned = turned.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, Some(kernel))) = self.links[number].static_parts() else { return Ok(()) };
        if mem::replace(&mut *turned, true) {
            return Ok(());
        }
        kernel.enable_transmit(an).map_err(|error| error.to_string())
    }

    /// Has the worker let go of SAs that are in the kernel, when its last PNs have gone by.
    pub(super) fn look_at_tail(&mut self, number: usize, now: Instant) {
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        match keys.look_at_tail(kernel, now) {
            Ok(false) => {}
            Ok(true) => self.end_tail(number, now),
            Err(error) => self.tail_fault(number, &error),
        }
    }

    /// Takes the SAs out of a worker that are in the kernel.
    pub(super) fn end_tail(&mut self, number: usize, now: Instant) {
        let taken = self.take_from_worker(number);
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        if taken.is_err() {
            return keys.delay_tail(now);
        }
        if let Err(error) = keys.end_tail(kernel) {
            self.tail_fault(number, &error);
        }
    }

    fn tail_fault(&mut self, number: usize, error: &XdpError) {
        let link = self.links[number].name().to_owned();
        self.notices.push(Notice::LinkKernelFault { link, why: error.to_string() });
    }

    /// Takes all SAs out of the worker that may be in the kernel.
    fn take_from_worker(&mut self, number: usize) -> Result<TakenOut, WorkerUnresponsive> {
        let keys = self.links[number].static_keys_mut();
        let job = keys.map(|keys| (keys.scs(), TakenOut::new(keys.has_express()))).unwrap_or_default();
        let taken = self.run_on_link(number, job, |link, (scs, taken)| {
            taken.take(&mut link.pipeline_mut().secy, scs);
            Progress::Done
        });
        taken.map(|(_, taken)| taken)
    }

    /// The SAs of a link with static keys are nowhere: no frame passes under them before a restart.
    fn lose_static(&mut self, number: usize, why: &str) {
        // SAs still in the worker are limited. Those that have left it belong to nobody.
        let taken = self.take_from_worker(number).unwrap_or_default();
        let link = &mut self.links[number];
        let name = link.name().to_owned();
        let Some((keys, kernel)) = link.static_parts() else { return };
        // The windows go: what they have accepted is refused after the restart as well.
        let floors = keys.last_floors(kernel.as_deref(), &taken);
        let why = keys.lose_sas(kernel, why);
        self.lease_thread.keep_floors(floors, None);
        self.notices.push(Notice::LinkKernelFault { link: name, why });
    }

    /// Moves them back.
    pub(super) fn leave_static(&mut self, number: usize) {
        if self.links[number].static_keys_mut().is_some_and(|keys| keys.is_in_kernel()) {
            self.while_held(number, |gateway| gateway.take_back(number));
        }
    }

    fn take_back(&mut self, number: usize) {
        let has_tail = self.links[number].static_keys_mut().is_some_and(|keys| keys.has_tail());
        let of_tail = if has_tail { self.take_from_worker(number) } else { Ok(TakenOut::default()) };
        let of_tail = match of_tail {
            Ok(of_tail) => of_tail,
            Err(error) => return self.lose_static(number, &error.to_string()),
        };
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        let floors = keys.last_floors(Some(kernel), &of_tail);
        let Some(sas) = keys.leave_kernel(&of_tail, kernel) else { return };
        let moved = sas.and_then(|sas| {
            let at = self.links[number].at();
            // Not later: what they accept then would be in no floor.
            let done = self.workers.run_on_link_in_time(at, sas, |link, sas| {
                sas.install(&mut link.pipeline_mut().secy);
                link.reset_notified_need();
                Progress::Done
            });
            self.handle_held_events();
            done.map(drop).map_err(|error| error.to_string())
        });
        if let Err(why) = moved {
            self.lease_thread.keep_floors(floors, None);
            self.lose_static(number, &why);
        }
    }
}

/// PNs that an SA may still use.
fn pns_left(secy: &SecY, an: An) -> u64 {
    let sa = secy.transmit_sas().find(|sa| sa.an() == an);
    let next = sa.and_then(|sa| Some((sa.pns().next()?, sa.pns().reserved())));
    next.map_or(0, |(next, reserved)| reserved.number().saturating_add(1).saturating_sub(next.number()))
}
