//! Keys that the kernel does not take are told. The kernel's part is a real one; the keys are of a suite that it does not have.

use crate::{Gateway, KernelPrograms};
use dataplane::worker::Polling;
use fieldbus::session::{EpochKey, SessionNumber};
use netdev::scheduling::Scheduling;
use pnstore::LeaseStore;
use suite::fieldbus::KeyContext;
use wire::fieldbus::{HandshakeNonce, KeyId};

use super::*;

const LINK: &str = "line";

fn kernel_settings() -> CellSettings {
    let mut settings = settings(0, 2);
    settings.settings.protection.suite = CellSuite::ChaCha20Poly1305;
    settings.place = PlaceWanted::Kernel;
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
    gateway.add_without_keys(LINK.into(), Link::new(pool, plain, protected, pipeline(0))).unwrap();
    gateway.add_cell(LINK, kernel_settings()).unwrap();
    assert!(cell(&mut gateway).in_kernel(1));
    gateway
}

/// Keys of a suite that the kernel does not have.
fn foreign_keys(number: usize) -> KeyChange {
    let direction = KeyContext {
        stations: *kernel_settings().relations[number].relation.stations(),
        from_higher: false,
        nonces: [1, 2].map(|octet| HandshakeNonce([octet; 16])),
        protection: settings(0, 2).settings.protection,
        epoch: 1,
    };
    let key = MasterKey::new(&[5; 32]).direction_key(&direction);
    KeyChange::NextTransmit(SessionNumber(0), EpochKey { key_id: KeyId(1), epoch: 1, key })
}

fn cell(gateway: &mut Gateway) -> &mut CellControl {
    gateway.cell_mut(LINK).unwrap()
}

/// Faults of the kernel that were told: relations, and why.
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
    cell(&mut gateway).changes.extend([0, 1].map(|number| (number, foreign_keys(number))));
    let faults = told(gateway.turn(Instant::now()));
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(
        faults[0].0 == both && faults[0].1.starts_with("the kernel does not take the keys ("),
        "{faults:?}"
    );
    let shown = gateway.cell_statuses().remove(0).1.kernel_faults.unwrap();
    assert!(shown.starts_with("for 2 of them the kernel does not take the keys ("), "{shown}");
    // It goes on, and is told no more.
    cell(&mut gateway).changes.push((1, foreign_keys(1)));
    assert_eq!(told(gateway.turn(Instant::now())), []);
    assert!(gateway.cell_statuses().remove(0).1.kernel_faults.is_some());
    gateway.stop().unwrap();
    std::fs::remove_dir_all(state).unwrap();
}

/// A queue may be without a socket for a moment. What is user space's is dropped there, and does not reach the host's stack.
#[test]
fn what_no_socket_takes_reaches_nobody() {
    let state = std::env::temp_dir().join(format!("fw-kernel-unclaimed-{}", std::process::id()));
    let mut gateway = gateway(&state);
    let cell = cell(&mut gateway).kernel.as_ref().unwrap().programs();
    let mut stranger = cyclic(0, 0);
    stranger[11] ^= 0x40;
    assert_eq!(cell.run_outward(&stranger, 1).unwrap().verdict, xdp::Verdict::Drop);
    assert_eq!(cell.run_inward(&cyclic(1, 0), 1).unwrap().verdict, xdp::Verdict::Drop, "in clear");
    gateway.stop().unwrap();
    std::fs::remove_dir_all(state).unwrap();
}

/// Programs stay with a cell that may want them again, and go to another one if its suite has none.
#[test]
fn programs_that_a_cell_cannot_use_are_for_another_one() {
    const OTHER: &str = "other";
    let state = std::env::temp_dir().join(format!("fw-kernel-others-{}", std::process::id()));
    let mut gateway = gateway(&state);
    let ports = [0, 1].map(|_| Box::new(MemoryPort::pair(WIRE).1));
    let [plain, protected] = ports;
    let pool = Pool::new(ChunkOctets::Octets2048, 512).unwrap();
    gateway.add_without_keys(OTHER.into(), Link::new(pool, plain, protected, pipeline(1))).unwrap();
    gateway.add_cell(OTHER, settings(0, 2)).unwrap();
    gateway.change_cell(LINK, CellSettings { place: PlaceWanted::UserSpace, ..kernel_settings() }).unwrap();
    gateway.change_cell(OTHER, kernel_settings()).expect_err("the first cell may want them again");
    gateway.change_cell(LINK, settings(0, 2)).unwrap();
    gateway.change_cell(OTHER, kernel_settings()).unwrap();
    assert!(gateway.cell_mut(OTHER).unwrap().in_kernel(1));
    gateway.stop().unwrap();
    std::fs::remove_dir_all(state).unwrap();
}
