//! From a cell's status to its report.

use control::{CellPlace, CellStatus};
use dataplane::cell::CellCounters;
use fieldbus::handshake::HelloCounters;
use fieldbus::histogram::Histogram;
use fieldbus::{KeyStatus, ReceiveCounters, RelationState, RelationStatus, TransmitCounters};

use config::Named as _;
use config::fieldbus::{Cell, CellRelation};
use config::key_file::CellKey;
use report::cell::{CellKeyReport, CellReport, HistogramReport, RelationReport, nanoseconds};
use report::{Counters, Verdict};

/// The cell at this moment; without relations if its worker does not answer.
pub(crate) fn cell_report(cell: &Cell, status: Option<&CellStatus>) -> CellReport {
    let hello = status.map(|status| status.hello).unwrap_or_default();
    let lately = status.map(|status| status.hello_lately).unwrap_or_default();
    let counters = status.map(|status| status.counters).unwrap_or_default();
    let relations =
        cell.relations.iter().zip(status.map(|status| status.relations.as_slice()).unwrap_or_default());
    let session_key = |number: usize| Some(status?.session_keys.get(number).copied().flatten()?.to_string());
    CellReport {
        name: cell.name.clone(),
        verdict: Verdict::default(),
        protect: cell.protection.protect.name().into(),
        suite: cell.protection.suite.name().into(),
        path: status.map_or_else(String::new, |status| match &status.place {
            CellPlace::Kernel(0) => "kernel".into(),
            CellPlace::Kernel(others) => format!(
                "kernel; {others} relations in user space, which are in shadow mode or were since the last start, or have a protocol that the programs do not take"
            ),
            CellPlace::UserSpace(why) => format!("user space: {why}"),
            CellPlace::Nowhere(why) => format!("nowhere: {why}"),
        }),
        rest: cell.rest.name().into(),
        master_key: cell.master_key.fingerprint(),
        fallback_master_key: cell.fallback_master_key.as_ref().map(CellKey::fingerprint),
        ethertype: cell.ethertype.to_string(),
        bounds_ns: Histogram::BOUNDS.map(nanoseconds).to_vec(),
        counters: Counters::new(CellCounters::NAMES, counters.values()),
        hello: Counters::new(HelloCounters::NAMES, hello.values()),
        hello_lately: Counters::new(HelloCounters::NAMES, lately.values()),
        relations: relations
            .enumerate()
            .map(|(number, (of, status))| RelationReport {
                master_key: session_key(number),
                ..relation_report(cell, of, status)
            })
            .collect(),
        kernel_faults: status.and_then(|status| status.kernel_faults.clone()),
    }
}

fn relation_report(cell: &Cell, of: &CellRelation, status: &RelationStatus) -> RelationReport {
    let relation = &of.relation;
    RelationReport {
        own: relation.own().0.to_string(),
        sends: relation.sends().to_string(),
        peer: relation.peer().0.to_string(),
        receives: relation.receives().to_string(),
        cycle_ns: nanoseconds(of.relation.cycle),
        watchdog_ns: nanoseconds(cell.watchdog_time(of)),
        alarm_ns: nanoseconds(cell.alarm_time(of)),
        mode: of.mode.name().into(),
        state: match status.state {
            RelationState::NoSession => "no session",
            RelationState::Entered => "entered",
            RelationState::Running => "running",
        }
        .into(),
        master_key: None,
        transmit_key: status.transmit_key.map(key_report),
        receive_key: status.receive_key.map(key_report),
        silent_ns: status.silent.map(nanoseconds),
        worst_gap_ns: nanoseconds(status.worst_gap),
        residence_outward: HistogramReport::new(&status.residence_outward),
        residence_inward: HistogramReport::new(&status.residence_inward),
        jitter: HistogramReport::new(&status.jitter),
        transmit: Counters::new(TransmitCounters::NAMES, status.transmit.values()),
        receive: Counters::new(ReceiveCounters::NAMES, status.receive.values()),
    }
}

fn key_report(key: KeyStatus) -> CellKeyReport {
    let seq = key.seq.map(|seq| seq.number());
    CellKeyReport { session: key.session.0, key_id: key.key_id.0, epoch: key.epoch, seq }
}
