//! A cell goes to the kernel while it runs. The worker's ports are in memory here, so what programs would take comes to the worker: it
//! must not know the keys of before.

use dataplane::cell::CellSnapshot;
use fieldbus::KeyStatus;
use wire::fieldbus::Header;

use super::*;

/// A gateway of two relations that user space has until the kernel takes them.
fn side(side: usize, now: Duration) -> Side {
    let mut settings = settings(side, 2);
    settings.settings.protection.suite = CellSuite::ChaCha20Poly1305;
    settings.place = PlaceWanted::Auto;
    Side::start_as(side, settings, now)
}

fn worker_status(side: &mut Side) -> CellSnapshot {
    let mut snapshot = CellSnapshot::with_room(2);
    assert!(side.datapaths.link(0).unwrap().pipeline_mut().cell_mut().unwrap().report(&mut snapshot));
    snapshot
}

/// A frame of machine 1 that somebody keeps on its way.
fn withheld(plant: &mut Plant) -> Vec<u8> {
    assert!(plant.sides[1].machine.inject(&cyclic(1, 0)));
    for _ in 0..100 {
        plant.pass(TURN);
        let is_data =
            |frame: &[u8]| frame[12..14] == [0x81, 0] && Header::parse(&frame[18..]).unwrap().seq.is_some();
        if let Some(at) = plant.under_way.iter().position(|(_, to, frame)| *to == 0 && is_data(frame)) {
            return plant.under_way.remove(at).unwrap().2;
        }
    }
    panic!("no frame leaves")
}

#[test]
fn what_the_kernel_takes_leaves_no_keys_in_user_space() {
    let now = Duration::from_secs(1);
    let sides = [0, 1].map(|number| side(number, now));
    let mut plant = Plant { sides, start: Instant::now(), now, under_way: VecDeque::new(), attacker: None };
    plant.pass(LIMIT);
    assert_eq!(plant.exchange(), [2; 2]);
    let withheld = withheld(&mut plant);
    plant.sides[0].control.kernel = Some(KernelCell::that_waits(xdp::Cell::load(2).unwrap()));
    plant.sides[0].control.take_in_kernel(true);
    plant.pass(LIMIT);
    assert!(plant.sides[0].wire.inject(&withheld));
    plant.pass(PASSAGE);
    assert_eq!(plant.sides[0].machine.collect(), None, "a frame of a session that is over");
    let mut status = worker_status(&mut plant.sides[0]).relations.remove(0);
    assert_eq!((status.transmit_key, status.receive_key), (None, None));
    plant.sides[0].control.kernel.as_ref().unwrap().complete(0, &mut status).unwrap();
    assert!(status.transmit_key.is_some(), "there is a new session, and the kernel has it");
}

/// The key that the kernel protects frames of the first relation with.
fn kernels_key(side: &mut Side) -> Option<KeyStatus> {
    let mut status = worker_status(side).relations.remove(0);
    side.control.kernel.as_ref().unwrap().complete(0, &mut status).unwrap();
    status.transmit_key
}

/// A worker stands still for a while. It hears later that it has no keys, and the kernel keeps those that it has.
#[test]
fn a_worker_without_room_costs_the_kernel_no_session() {
    let now = Duration::from_secs(1);
    let sides = [0, 1].map(|number| side(number, now));
    let mut plant = Plant { sides, start: Instant::now(), now, under_way: VecDeque::new(), attacker: None };
    plant.pass(LIMIT);
    plant.sides[0].control.kernel = Some(KernelCell::that_waits(xdp::Cell::load(2).unwrap()));
    plant.sides[0].control.take_in_kernel(true);
    plant.pass(LIMIT);
    let (start, now, side) = (plant.start, plant.now, &mut plant.sides[0]);
    let key = kernels_key(side);
    assert!(key.is_some());
    while side.handle.submit(LinkJob::new(0, (), |_, _| Progress::DoneForThisTurn)).is_ok() {}
    for _ in 0..2 {
        side.control.changes.push((0, KeyChange::Collect));
        side.control_at = now;
        side.turn_control(start, now);
        assert!(side.control.changes.is_empty() && side.control.for_worker.contains(&0));
    }
    while side.held.job().is_some() {}
    side.control_at = now;
    side.turn_control(start, now);
    assert!(side.control.for_worker.is_empty());
    assert!(side.held.job().is_some(), "the worker hears of it");
    assert_eq!(kernels_key(side), key);
}
