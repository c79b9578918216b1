//! What the kernel does not do for a relation is told. The kernel's part is a real one that was loaded for one relation, of a cell
//! that has two: of the second one it knows nothing.

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

/// A gateway whose cell has two relations, and the kernel knows the first one.
fn gateway(state: &std::path::Path) -> Gateway {
    let _ = std::fs::remove_dir_all(state);
    let leases = LeaseStore::open(state, None).unwrap();
    let mut gateway = Gateway::new(leases, Polling::Adaptive, Scheduling::Ordinary).unwrap();
    let ports = [0, 1].map(|_| Box::new(MemoryPort::pair(WIRE).1));
    let [plain, protected] = ports;
    let pool = Pool::new(ChunkOctets::Octets2048, 512).unwrap();
    gateway.add_without_keys(LINK.into(), Link::new(pool, plain, protected, path(0))).unwrap();
    gateway.add_cell(LINK, kernel_settings()).unwrap();
    let CellSettings { settings, relations, .. } = kernel_settings();
    let (kernel, _) = KernelCell::load(PathWanted::Kernel, &settings, &relations[..1]).unwrap();
    let cell = cell(&mut gateway);
    cell.kernel = kernel;
    gateway
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
    let second = kernel_settings().relations[1].relation;
    cell(&mut gateway).changes.extend([(0, KeyChange::Collect), (1, KeyChange::Collect)]);
    let keys = told(gateway.turn(Instant::now()));
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert!(
        keys[0].0 == [second] && keys[0].1.starts_with("the kernel does not take the keys ("),
        "{keys:?}"
    );
    let shown = gateway.cell_statuses().remove(0).1.kernel_faults.unwrap();
    assert!(shown.starts_with("for 1 of them the kernel does not take the keys ("), "{shown}");
    let figures = told(gateway.turn(Instant::now()));
    assert_eq!(figures.len(), 1, "{figures:?}");
    assert!(figures[0].0 == [second] && figures[0].1.starts_with("the kernel does not show the state ("));
    // It goes on, and is told no more.
    cell(&mut gateway).changes.push((1, KeyChange::Collect));
    gateway.cell_statuses();
    assert_eq!(told(gateway.turn(Instant::now())), []);
    gateway.stop().unwrap();
    std::fs::remove_dir_all(state).unwrap();
}
