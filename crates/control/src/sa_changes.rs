//! Changes of a link's SAs where keys are agreed on: made in control, carried out in order by the worker between two
//! turns, so that no frame meets a half-changed table.
//!
//! All that takes time is done before, in control: keys are prepared, SAs, windows, SCs and fragmenters are allocated. What
//! is taken out takes the place of what was put in, and goes back with the list, to be wiped and freed in control.
//!
//! Work for a list: for each change at most one search among [`SecY::RECEIVE_SCS`] SCs; to retire a SAK, one SA in
//! each of them; to raise a lowest PN, one step for each 64 PNs of the window.

use arrayvec::ArrayVec;
use secy::{InstallError, ReceiveSa, ReceiveSc, SecY, TransmitSa};
use wire::{An, Ki, Pn, Sci};

use dataplane::fragmenter::Fragmenter;
use dataplane::link::Link;
use dataplane::pipeline::Pipeline;

/// One change.
#[derive(Debug)]
pub(crate) enum SaChange {
    /// Takes this receive SC in. Afterwards there is none here, or the one that was refused.
    InstallReceiveSc(Box<Option<ReceiveSc>>),
    /// Installs this receive SA and enables it. Afterwards there is none here, or the one that was refused.
    InstallReceive { sci: Sci, sa: Option<Box<ReceiveSa>> },
    /// Installs this transmit SA. Afterwards there is none here, or the one that was refused.
    InstallTransmit { sa: Option<Box<TransmitSa>> },
    /// Protects under this AN, and fragments SDUs so. Afterwards the fragmenter before is here.
    EnableTransmit { an: An, fragmenter: Option<Box<Fragmenter>> },
    /// Fragments SDUs so under the SA that protects. Afterwards the fragmenter before is here.
    ReplaceFragmenter(Option<Box<Fragmenter>>),
    /// Takes all SAs under this AN out.
    Retire { an: An, out: Box<Retired> },
    /// Takes this receive SC out.
    RetireReceiveSc { sci: Sci, out: Box<Option<ReceiveSc>> },
    /// Takes no PN below this one any more.
    RaiseLowest { sci: Sci, an: An, lowest_pn: Pn },
}

/// The SAs of a SAK, taken out.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    transmit: Option<Box<TransmitSa>>,
    receive: ArrayVec<Box<ReceiveSa>, { SecY::RECEIVE_SCS }>,
    fragmenter: Option<Box<Fragmenter>>,
}

/// Changes in their order, and what the KaY hears when they are carried out.
#[derive(Debug, Default)]
pub(crate) struct SaChanges {
    pub(crate) list: Vec<SaChange>,
    /// For control alone.
    pub(crate) reports: Vec<mka::Report>,
    /// Why the first one that was refused was refused. Control knows the tables, so it is a defect if there is one.
    pub(crate) refused: Option<InstallError>,
}

impl SaChanges {
    /// Carries all of them out on a link, and has it tell anew what its transmit SA needs if that is another one.
    pub(crate) fn apply_to_link(&mut self, link: &mut Link) {
        self.apply(link.pipeline_mut());
        if self.list.iter().any(|change| matches!(change, SaChange::EnableTransmit { .. })) {
            link.reset_notified_need();
        }
    }

    /// Carries all of them out; one that is refused does not keep the others from it.
    pub(crate) fn apply(&mut self, pipeline: &mut Pipeline) {
        for change in &mut self.list {
            let done = change.apply(pipeline);
            self.refused = self.refused.or(done.err());
        }
    }
}

impl SaChange {
    fn apply(&mut self, pipeline: &mut Pipeline) -> Result<(), InstallError> {
        match self {
            Self::InstallReceiveSc(sc) => pipeline.secy.install_prepared_sc(sc),
            Self::InstallReceive { sci, sa: place } => {
                let Some(sa) = place.take() else { return Ok(()) };
                let an = sa.an();
                if let Err((error, sa)) = pipeline.secy.install_receive(*sci, sa) {
                    *place = Some(sa);
                    return Err(error);
                }
                pipeline.secy.enable_receive(*sci, an)
            }
            Self::InstallTransmit { sa: place } => {
                let Some(sa) = place.take() else { return Ok(()) };
                pipeline.secy.install_transmit(sa).map_err(|(error, sa)| {
                    *place = Some(sa);
                    error
                })
            }
            Self::EnableTransmit { an, fragmenter } => {
                pipeline.secy.enable_transmit(*an)?;
                *fragmenter = pipeline.replace_fragmenter(fragmenter.take());
                Ok(())
            }
            Self::ReplaceFragmenter(fragmenter) => {
                *fragmenter = pipeline.replace_fragmenter(fragmenter.take());
                Ok(())
            }
            Self::Retire { an, out } => {
                if pipeline.secy.encoding_sa() == Some(*an) {
                    // SDUs are discarded from here on, and each is counted once: as an SDU.
                    out.fragmenter = pipeline.replace_fragmenter(None);
                }
                out.transmit = pipeline.secy.retire_transmit(*an);
                out.receive = pipeline.secy.retire_receive_everywhere(*an).collect();
                Ok(())
            }
            Self::RetireReceiveSc { sci, out } => {
                **out = pipeline.secy.retire_receive_sc(*sci);
                Ok(())
            }
            // The SA may be gone by now.
            Self::RaiseLowest { sci, an, lowest_pn } => {
                let _ = pipeline.secy.raise_lowest(*sci, *an, *lowest_pn);
                Ok(())
            }
        }
    }
}

/// Next PNs, by AN.
#[derive(Debug, Default)]
pub(crate) struct NextPns {
    /// Key identifiers of their SAKs: made by control, which knows what is installed when the worker comes to it.
    pub(crate) of: [Option<Ki>; An::COUNT],
    /// One above the last, if all are used.
    pub(crate) next: [Option<u64>; An::COUNT],
}

impl NextPns {
    /// Reads them.
    pub(crate) fn read(&mut self, secy: &SecY) {
        for sa in secy.transmit_sas() {
            // SAs whose keys are agreed on have no leases: all PNs of the suite are reserved.
            let exhausted = sa.pns().reserved().number().saturating_add(1);
            self.next[sa.an().index()] = Some(sa.pns().next().map_or(exhausted, Pn::number));
        }
    }
}
