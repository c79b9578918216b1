//! SAs that leave the kernel: how they come to stand still, and where they stood.

use std::thread;
use std::time::Duration;

use wire::{An, Pn, Sci};
use xdp::XdpError;

use super::KernelLink;

/// Time that programs have to end frames which they have begun. A wait for RCU (`membarrier`) would be sure, and takes 12 to 36 ms on a
/// busy box: rings of ports do not hold the frames of that time. A CPU that is away for longer than this loses the frame that it has begun.
const LAST_FRAMES: Duration = Duration::from_millis(1);

/// SAs that have left the kernel, as they stood there.
#[derive(Default)]
pub(crate) struct Standing {
    /// AN, the next PN if one is left, the last reserved one, and whether it was the one that protected.
    pub(crate) transmit: Vec<(An, Option<Pn>, Pn, bool)>,
    /// The lowest PN that was not accepted yet, whatever came before it.
    pub(crate) receive: Vec<(Sci, An, Pn)>,
}

impl KernelLink {
    /// Lets no receive SA verify any more; which there are, and the lowest PN that each has not accepted, whatever came before it.
    pub(super) fn stand_still(&mut self, scs: &[Sci]) -> Result<Vec<(Sci, An, Pn)>, XdpError> {
        let mut stood = Vec::new();
        for sci in scs {
            for an in An::ALL {
                if self.window(*sci, an)?.is_none() {
                    continue;
                }
                self.programs.disable_receive(*sci, an)?;
                let window = self.window(*sci, an)?.ok_or(XdpError::Malformed)?;
                stood.push((*sci, an, Pn::new(window.highest.saturating_add(1)).unwrap_or(Pn::LAST_64)));
            }
        }
        Ok(stood)
    }

    /// Takes all SAs out. Each stands still before it is read. Frames without an SA go to the worker from the beginning on: it is to hold
    /// them until it has the SAs.
    pub(crate) fn take_out(&mut self, scs: &[Sci]) -> Result<Standing, XdpError> {
        let mut standing = Standing::default();
        self.programs.share(true)?;
        for (sci, an) in scs.iter().flat_map(|sci| An::ALL.map(|an| (*sci, an))) {
            if self.window(sci, an)?.is_some() {
                self.programs.end_receive(sci, an)?;
            }
        }
        thread::sleep(LAST_FRAMES);
        for an in An::ALL {
            if let Some((_, used)) = self.pns(an)? {
                self.programs.disable_transmit(an)?;
                let stood = self.pns(an)?.ok_or(XdpError::Malformed)?.0;
                standing.transmit.push((an, stood.next(), stood.reserved(), used));
            }
        }
        standing.receive = self.stand_still(scs)?;
        self.retire_all(scs)?;
        Ok(standing)
    }

    /// Removes all SAs.
    pub(crate) fn retire_all(&mut self, scs: &[Sci]) -> Result<(), XdpError> {
        An::ALL.into_iter().map(|an| self.retire(an, scs)).fold(Ok(()), Result::and)
    }
}
