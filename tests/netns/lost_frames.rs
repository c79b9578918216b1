//! Frames that are lost while machines talk: by the gateways, or in front of them by a machine that has other things to do.
//!
//! A worker or a softirq may have no CPU for longer than a ring reaches: 2048 frames of a port, 256 of a veth. What finds no room there
//! is lost before a gateway has seen it, and the ring counts it.

use lab::cyclic::Arrivals;
use lab::topology::{LEFT, PLAIN, PROTECTED, RIGHT};
use lab::{InterfaceCounters, Topology};
use perf::demo::pair::Station;
use report::GatewayReport;

use super::reload::{Heard, losses};

/// Frames of machines that were lost.
pub(crate) struct Lost {
    /// Their numbers, each way.
    missing: [Vec<u64>; 2],
    /// Frames that rings had no room for.
    overrun: u64,
    /// All counters of the gateways that mean a loss.
    counted: [Vec<String>; 2],
}

impl Lost {
    /// Of what machines have heard through these gateways.
    pub(crate) fn of(heard: &[Heard; 2], topology: &Topology, gateways: [&Station; 2]) -> Self {
        let reports = gateways.map(|gateway| gateway.report().unwrap());
        Self {
            missing: heard.each_ref().map(|heard| heard.missing.clone()),
            overrun: reports.iter().map(overrun).sum::<u64>() + dropped(topology),
            counted: reports.each_ref().map(losses),
        }
    }

    /// Of what stations of cells have heard through these gateways, by the numbers of their relations: at A first.
    pub(crate) fn of_cells(heard: &[[Arrivals; 2]], topology: &Topology, gateways: [&Station; 2]) -> Self {
        let reports = gateways.map(|gateway| gateway.report().unwrap());
        let missing = [0, 1].map(|end| {
            let lost = heard.iter().map(|heard| heard[end].sent - heard[end].received);
            (0..).zip(lost).flat_map(|(relation, lost)| (0..lost).map(move |_| relation)).collect()
        });
        let overrun = reports.iter().map(overrun).sum::<u64>() + dropped(topology);
        Self { missing, overrun, counted: reports.each_ref().map(losses) }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.missing.iter().all(Vec::is_empty)
    }
}

/// Tries something until no frame is lost: up to three times, as long as rings account for what was lost. Each try has gateways of its own.
pub(crate) fn without_loss<T>(attempt: impl Fn() -> (Lost, T)) -> T {
    const TRIES: usize = 3;
    for tried in 1..=TRIES {
        let (Lost { missing, overrun, counted }, outcome) = attempt();
        let lost: usize = missing.iter().map(Vec::len).sum();
        if lost == 0 {
            return outcome;
        }
        println!("{lost} frames are lost, {overrun} by rings that were full: {counted:?}");
        assert!(
            lost as u64 <= overrun && tried < TRIES,
            "{lost} frames are lost, {overrun} by full rings: {counted:?}; {:?}",
            missing.map(|missing| missing.into_iter().take(20).collect::<Vec<_>>())
        );
    }
    unreachable!("the last try returns or fails")
}

/// Frames that no veth had room for.
fn dropped(topology: &Topology) -> u64 {
    let Topology { machine_a, gateway_a, middle, gateway_b, machine_b } = topology;
    let machines = [machine_a, machine_b].map(|machine| (&machine.namespace, machine.ifname));
    let gateways =
        [gateway_a, gateway_b].map(|gateway| [PLAIN, PROTECTED].map(|ifname| (&gateway.namespace, ifname)));
    let all = machines.into_iter().chain(gateways.into_iter().flatten());
    all.chain([LEFT, RIGHT].map(|ifname| (middle, ifname)))
        .map(|(namespace, ifname)| InterfaceCounters::read(namespace, ifname).unwrap().tx_dropped)
        .sum()
}

/// Frames that the rings of a link's ports had no room for.
fn overrun(report: &GatewayReport) -> u64 {
    let link = &report.links[0];
    let of = |name| [&link.plain, &link.protected].iter().map(|port| port.counters.value(name)).sum::<u64>();
    of("RxKernelDropped") + of("RxRingFull")
}
