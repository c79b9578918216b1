//! Answers of the programs about a relation: its state with events for control, counters and times.

use std::time::Duration;

use aya::maps::PerCpuValues;
use fieldbus::{Histogram, ReceiveCounters, TransmitCounters};

use super::{Cell, Report, layout};
use crate::error::XdpError;

impl Cell {
    /// Looks at a relation: whether frames have stopped, and what control has to know of it.
    ///
    /// # Errors
    /// If there is no such relation.
    pub fn look(&mut self, relation: usize) -> Result<Report, XdpError> {
        self.report(&layout::question(self.place(relation)?, true))
    }

    /// The same, and what control has to know stays there.
    ///
    /// # Errors
    /// As [`Cell::look`].
    pub fn peek(&self, relation: usize) -> Result<Report, XdpError> {
        self.report(&layout::question(self.place(relation)?, false))
    }

    fn report(&self, question: &[u8; layout::COMMAND]) -> Result<Report, XdpError> {
        Ok(layout::report(&self.programs.ask("look", question)?))
    }

    /// Counters of a relation, on all CPUs together.
    ///
    /// # Errors
    /// If there is no such relation.
    pub fn counters(&self, relation: usize) -> Result<(TransmitCounters, ReceiveCounters), XdpError> {
        let sent = TransmitCounters::from_values(self.sum("sent", relation)?);
        let received = ReceiveCounters::from_values(self.sum("received", relation)?);
        Ok((sent, received))
    }

    /// Jitter of a relation, on all CPUs together: how much the time between two verified frames differs from the cycle.
    ///
    /// # Errors
    /// If there is no such relation.
    pub fn jitter(&self, relation: usize) -> Result<Histogram, XdpError> {
        self.histogram("jitter", relation)
    }

    /// Time of a relation's frames in their program, on all CPUs together: those that left, outward and inward.
    ///
    /// # Errors
    /// If there is no such relation.
    pub fn residence(&self, relation: usize) -> Result<[Histogram; 2], XdpError> {
        Ok([self.histogram("residence_outward", relation)?, self.histogram("residence_inward", relation)?])
    }

    fn histogram(&self, name: &'static str, relation: usize) -> Result<Histogram, XdpError> {
        let values = self.per_cpu::<{ layout::HISTOGRAM }>(name, relation)?;
        let (mut sum, mut worst, mut counts) = (0_u64, 0, [0_u64; Histogram::BUCKETS]);
        for [sum_here, worst_here, counts_here @ ..] in values.iter() {
            sum = sum.saturating_add(*sum_here);
            worst = worst.max(*worst_here);
            counts.iter_mut().zip(counts_here).for_each(|(count, here)| *count += here);
        }
        Ok(Histogram::of(counts, Duration::from_nanos(sum), Duration::from_nanos(worst)))
    }

    fn sum<const N: usize>(&self, name: &'static str, relation: usize) -> Result<[u64; N], XdpError> {
        self.programs.sum(name, self.place(relation)?)
    }

    fn per_cpu<const N: usize>(
        &self,
        name: &'static str,
        relation: usize,
    ) -> Result<PerCpuValues<[u64; N]>, XdpError> {
        self.programs.per_cpu(name, self.place(relation)?)
    }
}
