//! Every cyclic frame accounted for, and the counters that name the lost ones.

use ::bench::{Row, Target};
use lab::topology::{LEFT, PLAIN, PROTECTED, RIGHT};
use lab::{InterfaceCounters, Topology};
use report::GatewayReport;

use super::{BENCH, BenchError, KERNEL, Setup};

/// Fate of the frames of all rounds.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Frames {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Delays above a cycle.
    pub(super) late: u64,
    /// After a later one, or twice.
    pub(super) out_of_order: u64,
    pub(super) changed: u64,
}

impl Setup {
    /// Fate of all frames, and in the kernel what is wanted of it, beside that of a bridge's.
    pub(super) fn accounts(&self, bridged: Frames) -> Result<Vec<Row>, BenchError> {
        let Frames { sent, received, late, out_of_order, changed } = self.frames;
        let lost = sent.saturating_sub(received);
        let unnamed = lost.saturating_sub(self.named()?);
        let seconds = self.time.as_secs_f64();
        let rows = [
            ("sent", sent),
            ("received", received),
            ("lost", lost),
            ("lost that no counter names", unnamed),
            ("later than a cycle", late),
            ("out of order or twice", out_of_order),
            ("changed", changed),
        ];
        let row = |(what, frames): (&str, u64)| {
            let case = format!("frames {what}, {}, {}", self.case, self.traffic.name);
            let mut row = Row::new(BENCH, &case, frames as f64, &format!("frames in {seconds} s"), 1);
            let (wanted, most) = match what {
                "lost" => ("none", 0),
                "later than a cycle" => ("no more than through Linux bridges", bridged.late),
                _ => return row,
            };
            row.target =
                (self.case == KERNEL.case).then(|| Target { wanted: wanted.into(), met: frames <= most });
            row
        };
        Ok(rows.map(row).into())
    }

    /// Frames that a counter between the machines says were discarded or dropped, since the network was built.
    fn named(&self) -> Result<u64, BenchError> {
        let Topology { machine_a, machine_b, gateway_a, gateway_b, middle, .. } = &self.topology;
        let interfaces = [
            (&machine_a.namespace, machine_a.ifname),
            (&gateway_a.namespace, PLAIN),
            (&gateway_a.namespace, PROTECTED),
            (middle, LEFT),
            (middle, RIGHT),
            (&gateway_b.namespace, PROTECTED),
            (&gateway_b.namespace, PLAIN),
            (&machine_b.namespace, machine_b.ifname),
        ];
        let mut named = 0;
        for (namespace, ifname) in interfaces {
            named += InterfaceCounters::read(namespace, ifname)?.tx_dropped;
        }
        for station in self.gateways.iter().flat_map(|pair| [&pair.a, &pair.b]) {
            named += discarded(&station.report()?);
        }
        Ok(named)
    }
}

/// Frames that a gateway discarded, or knows to be dropped before it.
fn discarded(report: &GatewayReport) -> u64 {
    let mut sum = 0;
    for link in &report.links {
        let relations = link.fieldbus.iter().flat_map(|cell| &cell.relations);
        for relation in relations {
            let out = ["OutPktsNoSession", "OutPktsSeqExhausted", "OutPktsTooLong"];
            let come =
                ["InPktsLate", "InPktsUnknownKey", "InPktsNotValid", "InPktsNoSession", "InPktsTooShort"];
            sum += out.map(|name| relation.transmit.value(name)).iter().sum::<u64>();
            sum += come.map(|name| relation.receive.value(name)).iter().sum::<u64>();
        }
        let of_ports =
            ["RxNoChunk", "RxTooLong", "RxKernelDropped", "RxRingFull", "TxDropped", "TxKernelDropped"];
        for port in [&link.plain, &link.protected] {
            sum += of_ports.map(|name| port.counters.value(name)).iter().sum::<u64>();
        }
    }
    sum
}
