//! Moves of SAs with static keys between a worker's SecY and the programs. No PN is both's, so none is taken twice and no frame accepted
//! twice. On their way to the kernel both have SAs for a while (static_keys/tail.rs); on their way back frames wait for the worker.

use std::time::Instant;

use dataplane::job::Progress;
use xdp::link::Switch;

use super::Gateway;
use crate::static_keys::{Limited, TAIL_PNS, TakenOut};
use crate::{Notice, WorkerUnresponsive};

/// Turns in which a worker looks for one without a frame of the plain side.
const MOST_TURNS: u32 = 1000;

impl Gateway {
    /// Moves the SAs of a link with static keys from its worker to its programs, unless they are there.
    pub(super) fn enter_static(&mut self, number: usize) {
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        if !keys.may_enter_kernel() {
            return;
        }
        let scs = keys.scs();
        // Nothing stands there that could be taken for them.
        if let Err(error) = kernel.retire_all(&scs) {
            return self.lose_static(number, &error.to_string());
        }
        // Without programs in front of ports no frame comes to them, and none is to go another way.
        let limited = Limited::new(if kernel.is_attached() { TAIL_PNS } else { 0 });
        let job = (scs, limited, TakenOut::default());
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

    /// Has frames protected in the kernel when the worker has sent what had come to it, or after some turns: what comes to it meanwhile
    /// would be overtaken.
    fn switch_transmit(&mut self, number: usize, switch: Switch) -> Result<(), String> {
        let done = self.run_on_link(number, (switch, 0, Ok(())), |link, (switch, turns, done)| {
            *turns += 1;
            if *turns == 1 || (!link.plain_rested() && *turns < MOST_TURNS) {
                return Progress::Unfinished;
            }
            *done = switch.turn();
            Progress::Done
        });
        let (_, _, done) = done.map_err(|error| error.to_string())?;
        done.map_err(|error| error.to_string())
    }

    /// Has the worker let go of SAs that are in the kernel, when its last PNs have gone by.
    pub(super) fn look_at_tail(&mut self, number: usize, now: Instant) {
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        if !keys.tail_has_ended(kernel, now) || self.take_from_worker(number).is_err() {
            return;
        }
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        if let Err(error) = keys.end_tail(kernel) {
            let link = self.links[number].name().to_owned();
            self.notices.push(Notice::LinkKernelFault { link, why: error.to_string() });
        }
    }

    /// Takes all SAs out of the worker.
    fn take_from_worker(&mut self, number: usize) -> Result<TakenOut, WorkerUnresponsive> {
        let scs = self.links[number].static_keys_mut().map(|keys| keys.scs()).unwrap_or_default();
        let taken = self.run_on_link(number, (scs, TakenOut::default()), |link, (scs, taken)| {
            taken.take(&mut link.pipeline_mut().secy, scs);
            Progress::Done
        });
        taken.map(|(_, taken)| taken)
    }

    /// The SAs of a link with static keys are nowhere: no frame passes under them before a restart.
    fn lose_static(&mut self, number: usize, why: &str) {
        // What it still has is limited, and what it has no more is nobody's.
        let _ = self.take_from_worker(number);
        let link = &mut self.links[number];
        let name = link.name().to_owned();
        let Some((keys, kernel)) = link.static_parts() else { return };
        let why = keys.lose_sas(kernel, why);
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
        let Some(sas) = keys.leave_kernel(&of_tail, kernel) else { return };
        let moved = sas.and_then(|sas| {
            let job = self.run_on_link(number, sas, |link, sas| {
                sas.install(&mut link.pipeline_mut().secy);
                link.reset_notified_need();
                Progress::Done
            });
            job.map(drop).map_err(|error| error.to_string())
        });
        if let Err(why) = moved {
            self.lose_static(number, &why);
        }
    }
}
