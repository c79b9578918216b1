//! Moves of SAs with static keys between a worker's SecY and the programs. An SA leaves one place before it enters the other, so no PN
//! is taken twice and no frame accepted twice.

use dataplane::job::Progress;

use super::Gateway;
use crate::Notice;
use crate::static_keys::TakenOut;

impl Gateway {
    /// Moves the SAs of a link with static keys from its worker to its programs, unless they are there.
    pub(super) fn enter_static(&mut self, number: usize) {
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        if !keys.may_enter_kernel() {
            return;
        }
        let (scs, taken) = (keys.scs(), TakenOut::new(keys.has_express()));
        // Nothing stands there that could be taken for them.
        if let Err(error) = kernel.retire_all(&scs) {
            return self.lose_static(number, &error.to_string());
        }
        let taken = self.run_on_link(number, (scs, taken), |link, (scs, taken)| {
            taken.take(&mut link.pipeline_mut().secy, scs);
            Progress::Done
        });
        let taken = match taken {
            Ok((_, taken)) => taken,
            // It may take them out later, and then nobody has them.
            Err(error) => return self.lose_static(number, &error.to_string()),
        };
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        if let Err(error) = keys.enter_kernel(&taken, kernel) {
            self.lose_static(number, &error.to_string());
        }
    }

    /// The SAs of a link with static keys are nowhere: no frame passes under them before a restart.
    fn lose_static(&mut self, number: usize, why: &str) {
        let link = &mut self.links[number];
        let name = link.name().to_owned();
        let Some((keys, kernel)) = link.static_parts() else { return };
        let why = keys.lose_sas(kernel, why);
        self.notices.push(Notice::LinkKernelFault { link: name, why });
    }

    /// Moves them back.
    pub(super) fn leave_static(&mut self, number: usize) {
        let Some((keys, Some(kernel))) = self.links[number].static_parts() else { return };
        let Some(sas) = keys.leave_kernel(kernel) else { return };
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
