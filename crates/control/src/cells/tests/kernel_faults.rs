//! Duties of the kernel for a relation that it does not do are told. The kernel's part is a real one; this thread gives up the
//! capability to speak to it for a while.

use caps::{CapSet, Capability};
use dataplane::worker::Polling;
use netdev::scheduling::Scheduling;
use pnstore::LeaseStore;

use super::*;

const LINK: &str = "line";

fn kernel_settings() -> CellSettings {
    let mut settings = settings(0, 2);
    settings.settings.protection.suite = CellSuite::ChaCha20Poly1305;
    settings.path = PathWanted::Kernel;
    settings
}

/// A gateway whose cell has two relations in the kernel.
fn gateway(state: &std::path::Path) -> Gateway {
    let _ = std::fs::remove_dir_all(state);
    let leases = LeaseStore::open(state, None).unwrap();
    let programs = KernelPrograms::load([(kernel_settings().settings.protection, 2)]);
    let mut gateway = Gateway::new(leases, Polling::Adaptive, Scheduling::Ordinary).unwrap();
    gateway = gateway.with_kernel_programs(programs);
    let ports = [0, 1].map(|_| Box::new(MemoryPort::pair(WIRE).1));
    let [plain, protected] = ports;
    let pool = Pool::new(ChunkOctets::Octets2048, 512).unwrap();
    gateway.add_without_keys(LINK.into(), Link::new(pool, plain, protected, path(0))).unwrap();
    gateway.add_cell(LINK, kernel_settings()).unwrap();
    assert!(cell(&mut gateway).in_kernel(1));
    gateway
}

/// Runs without the right to use maps and programs.
fn without_bpf<T>(run: impl FnOnce() -> T) -> T {
    let needed = [Capability::CAP_BPF, Capability::CAP_SYS_ADMIN];
    needed.iter().for_each(|of| caps::drop(None, CapSet::Effective, *of).unwrap());
    let done = run();
    needed.iter().for_each(|of| caps::raise(None, CapSet::Effective, *of).unwrap());
    done
}

fn cell(gateway: &mut Gateway) -> &mut CellControl {
    gateway.links[0].cell.as_deref_mut().unwrap()
}

/// What was told of the kernel: relations, and why.
fn told(notices: Vec<Notice>) -> Vec<(Vec<Relation>, String)> {
    let faults = notices.into_iter().filter_map(|notice| match notice {
        Notice::KernelFault { cell, relations, why } => {
            assert_eq!(cell, "cell");
            Some((relations, why))
        }
        _ => None,
    });
    faults.collect()
}

#[test]
fn what_the_kernel_does_not_do_for_a_relation_is_told_once_and_shown() {
    let state = std::env::temp_dir().join(format!("fw-kernel-faults-{}", std::process::id()));
    let mut gateway = gateway(&state);
    let both: Vec<_> = kernel_settings().relations.iter().map(|of| of.relation).collect();
    let collect = [(0, KeyChange::Collect), (1, KeyChange::Collect)];
    cell(&mut gateway).changes.extend(collect);
    let keys = told(without_bpf(|| gateway.turn(Instant::now())));
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert!(keys[0].0 == both && keys[0].1.starts_with("the kernel does not take the keys ("), "{keys:?}");
    let shown = gateway.cell_statuses().remove(0).1.kernel_faults.unwrap();
    assert!(shown.starts_with("for 2 of them the kernel does not take the keys ("), "{shown}");
    without_bpf(|| gateway.cell_statuses());
    let figures = told(gateway.turn(Instant::now()));
    assert_eq!(figures.len(), 1, "{figures:?}");
    assert!(figures[0].0 == both && figures[0].1.starts_with("the kernel does not show the state ("));
    // It goes on, and is told no more.
    cell(&mut gateway).changes.push((1, KeyChange::Collect));
    assert_eq!(told(without_bpf(|| gateway.turn(Instant::now()))), []);
    gateway.stop().unwrap();
    std::fs::remove_dir_all(state).unwrap();
}
