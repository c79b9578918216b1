//! A link's programs for the next program of its process. Its SAs are the worker's then.

use std::os::fd::RawFd;

use secy::{ReceiveSaCounters, TransmitSaCounters};
use serde::{Deserialize, Serialize};
use wire::Sci;
use xdp::XdpError;
use xdp::link::PassedLink;

use super::KernelLink;
use super::figures::Before;

/// Programs of a link, and what they have counted for SCs that they are not any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedKernelLink {
    programs: PassedLink,
    /// They are the express SCs, and not all SCs of their link.
    express: bool,
    /// Counters in their order: the programs' sum when they became the SC that they are; of the link's own transmit SC, and of its express SC.
    transmit: [Vec<u64>; 3],
    receive: Vec<(Sci, Vec<u64>)>,
}

impl PassedKernelLink {
    /// The descriptors that it names.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.programs.descriptors()
    }
}

impl KernelLink {
    /// The programs, which have no SA, for the next program.
    pub(crate) fn pass_on(&self) -> Result<PassedKernelLink, XdpError> {
        let Before { began, transmit: [own, express], receive } = &self.before;
        let receive = receive.iter().map(|(sci, counters)| (*sci, counters.values().to_vec()));
        Ok(PassedKernelLink {
            programs: self.programs.pass_on()?,
            express: self.express,
            transmit: [began, own, express].map(|counters| counters.values().to_vec()),
            receive: receive.collect(),
        })
    }

    /// Goes on with those of the program before this one. They stand aside, wherever they stand.
    pub(crate) fn go_on(passed: &PassedKernelLink) -> Result<Self, XdpError> {
        let mut programs = xdp::Link::go_on(&passed.programs)?;
        programs.stand_aside(true)?;
        // Without the thread frames are computed whole.
        let _ = programs.keep_filling(|| ());
        let transmit = |words: &Vec<u64>| {
            let words = words.as_slice().try_into().map_err(|_| XdpError::Malformed)?;
            Ok::<_, XdpError>(TransmitSaCounters::from_values(words))
        };
        let receive = |(sci, words): &(Sci, Vec<u64>)| {
            let words = words.as_slice().try_into().map_err(|_| XdpError::Malformed)?;
            Ok::<_, XdpError>((*sci, ReceiveSaCounters::from_values(words)))
        };
        let [began, own, express] = &passed.transmit;
        let mut link = Self::new(programs);
        link.express = passed.express;
        link.before = Before {
            began: transmit(began)?,
            transmit: [transmit(own)?, transmit(express)?],
            receive: passed.receive.iter().map(receive).collect::<Result<_, _>>()?,
        };
        Ok(link)
    }
}
