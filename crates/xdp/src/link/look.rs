//! Questions to the programs: PNs, windows and counters. No key comes back.

use secy::{ReceiveSaCounters, SecYCounters, TransmitPns, TransmitSaCounters, UnmatchedFrame};
use wire::{An, Pn, Sci};

use super::layout::{self, About};
use super::{AROUND, AroundCounters, Link, SECY, Window, since};
use crate::error::XdpError;

impl Link {
    fn report(&self, about: About, place: u32) -> Result<Option<layout::Report>, XdpError> {
        Ok(layout::report(&self.programs.ask("look", &layout::question(about, place))?))
    }

    /// PNs of the transmit SA under `an`, and whether it protects; `None` without one.
    ///
    /// # Errors
    /// If the kernel does not run the program.
    pub fn transmit_pns(&self, an: An) -> Result<Option<(TransmitPns, bool)>, XdpError> {
        let report = self.report(About::Transmit, an.index() as u32)?;
        Ok(report.and_then(|layout::Report { used, numbers: [next, reserved, reserve_at, last] }| {
            let pns =
                TransmitPns::taken_elsewhere(Pn::new(next), Pn::new(reserved)?, reserve_at, Pn::new(last)?);
            Some((pns, used))
        }))
    }

    /// The replay window of a receive SA; `None` without one.
    ///
    /// # Errors
    /// If there is no such SC.
    pub fn window(&self, sci: Sci, an: An) -> Result<Option<Window>, XdpError> {
        let report = self.report(About::Receive, self.place(sci, an)?)?;
        Ok(report.map(|layout::Report { used, numbers: [highest, lowest, ..] }| Window {
            in_use: used,
            highest,
            lowest,
        }))
    }

    /// Counters that belong to no SC, on all CPUs together, and those of frames that do not go through the SecY.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn counters(&self) -> Result<(SecYCounters, AroundCounters), XdpError> {
        let all: [u64; SECY + AROUND] = self.programs.sum("counted", 0)?;
        let (mut secy, mut around) = ([0; SECY], [0; AROUND]);
        secy.copy_from_slice(&all[..SECY]);
        around.copy_from_slice(&all[SECY..]);
        let [out_bypass, in_bypass, out_mac_control, in_mac_control] = around;
        let around = AroundCounters { out_bypass, in_bypass, out_mac_control, in_mac_control };
        Ok((SecYCounters::from_values(secy), around))
    }

    /// Counters of the transmit SC: the sum over all SAs, retired ones included.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn transmit_counters(&self) -> Result<TransmitSaCounters, XdpError> {
        let mut sum = TransmitSaCounters::default();
        for an in An::ALL {
            sum.add(&TransmitSaCounters::from_values(self.programs.sum("sent", an.index() as u32)?));
        }
        Ok(sum)
    }

    /// Counters of the transmit SA under `an`.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn transmit_sa_counters(&self, an: An) -> Result<TransmitSaCounters, XdpError> {
        let now = self.programs.sum("sent", an.index() as u32)?;
        Ok(TransmitSaCounters::from_values(since(now, &self.sent_before[an.index()])))
    }

    /// Counters of a receive SC: the sum over all SAs, retired ones included.
    ///
    /// # Errors
    /// If there is no such SC.
    pub fn receive_counters(&self, sci: Sci) -> Result<ReceiveSaCounters, XdpError> {
        let mut sum = ReceiveSaCounters::default();
        for an in An::ALL {
            sum.add(&ReceiveSaCounters::from_values(self.programs.sum("received", self.place(sci, an)?)?));
        }
        Ok(sum)
    }

    /// Counters of the receive SA under `an`.
    ///
    /// # Errors
    /// If there is no such SC.
    pub fn receive_sa_counters(&self, sci: Sci, an: An) -> Result<ReceiveSaCounters, XdpError> {
        let place = self.place(sci, an)?;
        let now = self.programs.sum("received", place)?;
        Ok(ReceiveSaCounters::from_values(since(now, &self.received_before[place as usize])))
    }

    /// The last frame that was discarded for lack of an SA.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn last_unmatched(&self) -> Result<Option<UnmatchedFrame>, XdpError> {
        let by_cpu = self.programs.per_cpu::<3>("last_unmatched", 0)?;
        let last = by_cpu.iter().filter(|[at, ..]| *at != 0).max_by_key(|[at, ..]| *at);
        Ok(last.and_then(|&[_, sci, claim]| {
            let octets = claim.to_ne_bytes();
            let sci = (octets[4] != 0).then(|| Sci::from_octets(sci.to_ne_bytes()));
            Some(UnmatchedFrame { sci, an: An::new(octets[0])? })
        }))
    }
}
