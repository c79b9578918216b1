//! Counters and SAs of a link, copied out at one moment: the only source of reports.
//!
//! Control allocates a snapshot, the worker fills it between two turns and hands it back; so the counters need no
//! atomics, and all figures of a snapshot are of one moment.

use arrayvec::ArrayVec;
use secy::{
    ReceiveSa, ReceiveSaCounters, ReceiveSc, SecY, SecYCounters, TransmitSa, TransmitSaCounters,
    UnmatchedFrame,
};
use wire::{An, Pn, Sci};

use crate::fragmenter::FragmenterCounters;
use crate::link::Link;
use crate::pipeline::PipelineCounters;
use netdev::port::PortCounters;

/// A transmit SA.
#[derive(Clone, Debug)]
pub struct TransmitSaSnapshot {
    /// Its AN.
    pub an: An,
    /// It is the one that protects frames.
    pub enabled: bool,
    /// The PN of the next frame; `None` when all are used.
    pub next_pn: Option<Pn>,
    /// The last PN that is reserved.
    pub reserved: Pn,
    /// Counters of its frames.
    pub counters: TransmitSaCounters,
}

/// A transmit SC with its SAs.
#[derive(Clone, Debug)]
pub struct TransmitScSnapshot {
    /// Its SCI.
    pub sci: Sci,
    /// The sum over its SAs, retired ones included.
    pub counters: TransmitSaCounters,
    /// The SAs that are installed.
    pub sas: ArrayVec<TransmitSaSnapshot, { An::COUNT }>,
}

/// A receive SA.
#[derive(Clone, Debug)]
pub struct ReceiveSaSnapshot {
    /// Its AN.
    pub an: An,
    /// It verifies frames.
    pub in_use: bool,
    /// The lowest PN that is not late.
    pub lowest_pn: u64,
    /// Counters of its frames.
    pub counters: ReceiveSaCounters,
}

/// A receive SC with its SAs.
#[derive(Clone, Debug)]
pub struct ReceiveScSnapshot {
    /// Its SCI.
    pub sci: Sci,
    /// The sum over its SAs, retired ones included.
    pub counters: ReceiveSaCounters,
    /// The SAs that are installed.
    pub sas: ArrayVec<ReceiveSaSnapshot, { An::COUNT }>,
}

/// A link at one moment.
#[derive(Clone, Debug, Default)]
pub struct LinkSnapshot {
    /// The plain port, and those that were closed before it.
    pub plain: PortCounters,
    /// The protected port, and those that were closed before it.
    pub protected: PortCounters,
    /// Counters of frames that went around the SecY.
    pub pipeline: PipelineCounters,
    /// Counters of fragmenting and concatenating.
    pub fragmenter: FragmenterCounters,
    /// The SecY's own counters.
    pub secy: SecYCounters,
    /// Whose frame was discarded last because there is no SA for it.
    pub stranger: Option<UnmatchedFrame>,
    /// The sender of the last MACsec frame that passed to stations.
    pub passed: Option<UnmatchedFrame>,
    /// The transmit SC: the sum over its SAs.
    pub transmit: TransmitSaCounters,
    /// The transmit SAs.
    pub transmit_sas: ArrayVec<TransmitSaSnapshot, { An::COUNT }>,
    /// The express SC, on which programs in the kernel send; the worker has none.
    pub express: Option<TransmitScSnapshot>,
    /// The receive SCs.
    pub receive_scs: ArrayVec<ReceiveScSnapshot, { SecY::RECEIVE_SCS }>,
    /// Chunks of the frame pool that are free; 0 of 0 while the link has no ports.
    pub chunks_free: usize,
    /// All chunks of the frame pool.
    pub chunks: usize,
}

impl LinkSnapshot {
    /// Copies the link's figures. Does not allocate; asks the kernel for the ports' statistics.
    pub fn fill(&mut self, link: &mut Link) {
        [self.plain, self.protected] = link.port_counters();
        (self.chunks_free, self.chunks) = link.pool().map_or((0, 0), |pool| (pool.free(), pool.total()));
        self.pipeline = *link.pipeline().counters();
        self.fragmenter = link.pipeline().fragmenter_counters();
        let secy = &link.pipeline().secy;
        self.secy = *secy.counters();
        self.stranger = secy.last_unmatched();
        self.passed = link.pipeline().last_passed();
        self.transmit = secy.transmit_counters();
        self.transmit_sas = secy.transmit_sas().map(|sa| transmit_sa(secy, sa)).collect();
        self.receive_scs = secy.receive_scs().map(receive_sc).collect();
    }
}

fn transmit_sa(secy: &SecY, sa: &TransmitSa) -> TransmitSaSnapshot {
    TransmitSaSnapshot {
        an: sa.an(),
        enabled: secy.encoding_sa() == Some(sa.an()),
        next_pn: sa.pns().next(),
        reserved: sa.pns().reserved(),
        counters: *sa.counters(),
    }
}

fn receive_sc(sc: &ReceiveSc) -> ReceiveScSnapshot {
    let sa = |sa: &ReceiveSa| ReceiveSaSnapshot {
        an: sa.an(),
        in_use: sa.in_use(),
        lowest_pn: sa.window().lowest(),
        counters: *sa.counters(),
    };
    ReceiveScSnapshot { sci: sc.sci(), counters: sc.counters(), sas: sc.sas().map(sa).collect() }
}
