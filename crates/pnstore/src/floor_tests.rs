use proptest::prelude::*;

use super::fake_disk::{FakeDisk, MACHINE, SharedDisk, luck, name, open, open_at};
use super::store::{Opening, Store};
use super::tests::TestDirectory;
use super::*;

fn pn(number: u64) -> Pn {
    Pn::new(number).unwrap()
}

#[test]
fn floors_rise_and_never_fall() {
    let disk = SharedDisk::default();
    let mut store = open(&disk).unwrap();
    for (raise, written, expected) in [
        (&[][..], false, [1, 1]),
        (&[(name(1), pn(1))], false, [1, 1]),
        (&[(name(1), pn(7)), (name(2), pn(u64::MAX))], true, [7, u64::MAX]),
        (&[(name(1), pn(7)), (name(2), pn(5))], false, [7, u64::MAX]),
        (&[(name(1), pn(8))], true, [8, u64::MAX]),
    ] {
        assert_eq!(store.keep_floors(raise, 0).unwrap(), written);
        assert_eq!([1, 2].map(|number| store.floor(name(number)).number()), expected);
        let again = open(&disk).unwrap();
        assert_eq!([1, 2].map(|number| again.floor(name(number)).number()), expected, "as read back");
    }
}

#[test]
fn the_heartbeat_is_written_once_a_minute_and_never_goes_back() {
    let disk = SharedDisk::default();
    let mut store = open_at(&disk, 1000).unwrap();
    let beats = [(1059, false), (1060, true), (1100, false), (500, false), (1119, false), (1120, true)];
    for (now, written) in beats {
        assert_eq!(store.keep_floors(&[], now).unwrap(), written, "at {now}");
    }
    assert_eq!(open_at(&disk, 1120).unwrap().clock_behind(), None);
    assert_eq!(open_at(&disk, 120).unwrap().clock_behind(), Some(Duration::from_secs(1000)));
    assert_eq!(open_at(&disk, 1119).unwrap().clock_behind(), Some(Duration::from_secs(1)));
}

#[test]
fn state_older_than_allowed_is_refused() {
    let disk = SharedDisk::default();
    open_at(&disk, 1000).unwrap();
    let open = |now, max_age| {
        let max_age = Some(Duration::from_secs(max_age));
        let opening = Opening { machine: MACHINE, now, max_age, goes_on: false };
        Store::open(disk.clone(), Path::new("state"), opening).map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = "the state in state is 3 hours old by this clock, and state_max_age allows 2; is the clock right? If it is, the disk may have been restored: change all static keys, then remove leases* and floors* from the state directory";
    assert_eq!(open(1001 + 3 * 3600, 2 * 3600), Err(refused.to_owned()));
    assert_eq!(open(0, 1), Ok(()), "a clock behind the state is a warning");
    assert_eq!(open(4600, 3600), Ok(()));
    assert_eq!(open(8200, 3600), Ok(()), "the last start was a heartbeat");
    assert!(open(11_801, 3600).is_err());
}

#[test]
fn floors_that_could_not_be_written_are_written_with_the_next() {
    let disk = SharedDisk::default();
    let mut store = open(&disk).unwrap();
    disk.borrow_mut().fuel = Some(0);
    assert!(matches!(store.keep_floors(&[(name(1), pn(9))], 0), Err(LeaseError::Write { .. })));
    assert!(matches!(open(&disk), Err(LeaseError::Read { .. })));
    disk.borrow_mut().fuel = None;
    assert_eq!(open(&disk).unwrap().floor(name(1)), pn(1));
    assert!(store.keep_floors(&[], 0).unwrap());
    assert_eq!(open(&disk).unwrap().floor(name(1)), pn(9));
}

#[test]
fn where_nothing_can_be_written_nothing_starts() {
    let disk = SharedDisk::default();
    open(&disk).unwrap();
    // Reading takes no operation, and the heartbeat is the first that does.
    disk.borrow_mut().fuel = Some(1);
    assert!(matches!(open(&disk), Err(LeaseError::Write { .. })));
}

#[test]
fn a_name_is_sent_under_or_received_under_and_never_both() {
    let disk = SharedDisk::default();
    let mut store = open(&disk).unwrap();
    let exchanged =
        "the two boxes' configurations were exchanged; put them back, or make new keys on both".to_owned();
    let received =
        Err(format!("this box has received under this key and SCI before, state/floors says: {exchanged}"));
    let sent =
        Err(format!("this box has sent under this key and SCI before, state/leases says: {exchanged}"));
    let receive = |store: &mut Store<SharedDisk>, names: &[u8]| {
        let names: Vec<_> = names.iter().map(|number| name(*number)).collect();
        store.receive(&names, 0).map_err(|error| error.to_string())
    };
    let send = |store: &mut Store<SharedDisk>, number| {
        let reserved = store.reserve(name(number), Pn::LAST_32, NonZeroU64::MIN);
        reserved.map(|_| true).map_err(|error| error.to_string())
    };
    assert_eq!(receive(&mut store, &[1, 2]), Ok(true));
    assert_eq!(receive(&mut store, &[1, 2]), Ok(false), "written once");
    assert_eq!(send(&mut store, 3), Ok(true));
    // Nothing is written of a list with a name that was sent under.
    assert_eq!(receive(&mut store, &[4, 3]), sent);
    assert_eq!(send(&mut store, 4), Ok(true));
    for life in 0..2 {
        assert_eq!(send(&mut store, 1), received, "life {life}");
        assert_eq!(receive(&mut store, &[3]), sent, "life {life}");
        assert_eq!(receive(&mut store, &[1, 2]), Ok(false));
        assert_eq!(send(&mut store, 3), Ok(true));
        assert_eq!(store.floor(name(1)), pn(1), "no frame was received");
        store = open(&disk).unwrap();
    }
}

/// Event of a life, besides its end.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Frames come in for one of two SAs: the SA's number, the count of frames.
    Receive(usize, u64),
    /// A receive SA is installed.
    Install(u8),
    /// Control brings the floors to disk.
    Keep,
    /// A block is reserved.
    Reserve,
}

/// Lives with their ends: operations until then, and the luck that decides what is left.
type Lives<'l> = &'l [(Option<u32>, u32)];

/// After each start, a floor is at least what was kept last, and at most what was received.
fn live_through(lives: Lives<'_>, steps: &[Step]) -> Result<(), TestCaseError> {
    let disk = SharedDisk::default();
    let (mut kept, mut received, mut handed_out) = ([1_u64; 2], [1_u64; 2], 0);
    let mut installed = std::collections::BTreeSet::new();
    for &(fuel, luck) in lives {
        FakeDisk::reboot(&mut disk.borrow_mut(), fuel, luck);
        let mut store = match open(&disk) {
            Ok(store) => store,
            Err(LeaseError::Write { .. } | LeaseError::Read { .. }) => continue,
            Err(refused) => return Err(TestCaseError::fail(format!("a crash must not end in: {refused}"))),
        };
        for sa in 0..2 {
            let floor = store.floor(name(sa as u8)).number();
            prop_assert!(
                floor >= kept[sa] && floor <= received[sa],
                "{} <= {floor} <= {}",
                kept[sa],
                received[sa]
            );
            kept[sa] = floor;
        }
        for &number in &installed {
            prop_assert!(store.received(name(number)), "{} was installed", number);
        }
        for step in steps {
            match *step {
                Step::Install(number) => {
                    if store.receive(&[name(number)], 0).is_err() {
                        break;
                    }
                    installed.insert(number);
                }
                Step::Receive(sa, frames) => received[sa] += frames,
                Step::Keep => {
                    let floors = [(name(0), pn(received[0])), (name(1), pn(received[1]))];
                    if store.keep_floors(&floors, 0).is_err() {
                        break;
                    }
                    kept = received;
                }
                Step::Reserve => match store.reserve(name(9), Pn::LAST_32, NonZeroU64::MIN) {
                    Ok(Reservation::Block(block)) => {
                        prop_assert!(block.first.number() > handed_out, "{:?} after {}", block, handed_out);
                        handed_out = block.last.number();
                    }
                    Ok(Reservation::Exhausted) => return Err(TestCaseError::fail("not exhausted")),
                    Err(_) => break,
                },
            }
        }
    }
    Ok(())
}

/// Two lives, each ended at each of its operations, in each way; then one that nothing ends.
#[test]
fn a_crash_at_every_boundary_loses_no_floor_that_was_kept() {
    use Step::{Install, Keep, Receive, Reserve};
    let begin = [Install(5), Reserve, Receive(0, 5), Keep, Receive(1, 7), Install(6)];
    let steps = [&begin[..], &[Receive(0, 1), Keep, Reserve, Receive(1, 1), Keep]].concat();
    for number in 0..32 {
        for (first, second) in (1..28).flat_map(|first| (1..28).map(move |second| (first, second))) {
            live_through(&[(Some(first), luck(!number)), (Some(second), luck(number)), (None, 0)], &steps)
                .unwrap();
        }
    }
}

proptest! {
    #[test]
    fn crashes_in_any_order_lose_no_floor_that_was_kept(
        lives in prop::collection::vec((prop::option::of(1_u32..40), any::<u32>()), 1..12),
        steps in prop::collection::vec(
            prop_oneof![
                (0..2_usize, 1..9_u64).prop_map(|(sa, frames)| Step::Receive(sa, frames)),
                Just(Step::Keep),
                (5..8_u8).prop_map(Step::Install),
                Just(Step::Reserve),
            ],
            1..12,
        ),
    ) {
        live_through(&lives, &steps)?;
    }
}

#[test]
fn a_key_that_was_used_is_refused_where_the_state_does_not_know_it() {
    let directory = TestDirectory::new("used");
    let (state, other) = (directory.0.join("state"), directory.0.join("other"));
    let key = directory.0.join("own.key");
    let begin = |state: &Path, number| {
        let begun = LeaseStore::open(state, None).unwrap().begin(name(number), Pn::LAST_32, &key);
        begun.map(|begin| (begin.reservation, begin.unmarked.is_none())).map_err(|error| error.to_string())
    };
    let block = |first: u64| {
        let size = FIRST_BLOCK_PNS.get();
        let block = PnBlock { first: pn(first * size + 1), last: pn((first + 1) * size) };
        Ok((Reservation::Block(block), true))
    };
    assert_eq!(begin(&state, 1), block(0));
    assert_eq!(begin(&state, 1), block(1));
    // Another key in the same file, and the same key with another SCI, have never been used.
    assert_eq!(begin(&state, 2), block(0));
    let refused = |state: &Path| {
        Err(format!(
            "the key in {0} has been used for sending, {2} says, but {1} does not know up to which packet number; change the key at both ends: make a new one; a copy in another file is the same key",
            key.display(),
            state.display(),
            directory.0.join("used/own.key").display()
        ))
    };
    assert_eq!(begin(&other, 1), refused(&other), "another state directory");
    assert_eq!(begin(&other, 2), refused(&other));
    std::fs::remove_dir_all(&state).unwrap();
    assert_eq!(begin(&state, 1), refused(&state), "the state directory is gone as a whole");
    assert_eq!(begin(&state, 3), block(0));
    // A missing mark, which a crash between lease and mark leaves, is made good.
    std::fs::remove_file(directory.0.join("used/own.key")).unwrap();
    assert_eq!(begin(&state, 3), block(1));
    std::fs::remove_dir_all(&state).unwrap();
    assert_eq!(begin(&state, 3), refused(&state));
}

#[test]
fn what_was_received_under_is_not_forgotten_with_the_state() {
    let directory = TestDirectory::new("received");
    let (state, other) = (directory.0.join("state"), directory.0.join("other"));
    let key = directory.0.join("peer.key");
    let open = |state: &Path| LeaseStore::open(state, None).unwrap();
    assert!(open(&state).receive(&[(name(1), &key)]).unwrap().is_none());
    let marks = std::fs::read_to_string(directory.0.join("used/peer.key")).unwrap();
    assert!(open(&state).receive(&[(name(1), &key)]).unwrap().is_none());
    assert_eq!(std::fs::read_to_string(directory.0.join("used/peer.key")).unwrap(), marks, "marked once");
    let refused = |state: &Path, by: &str| {
        let judged = open(state).check_role(Role::Send, name(1), &key).unwrap_err();
        let begun = open(state).begin(name(1), Pn::LAST_32, &key).unwrap_err();
        let glanced = StateView::read(state).unwrap().check_role(Role::Send, name(1), &key).unwrap_err();
        for error in [judged, begun, glanced] {
            assert!(matches!(&error, LeaseError::Received { record } if record.ends_with(by)), "{error}");
        }
    };
    refused(&state, "state/floors");
    std::fs::remove_dir_all(&state).unwrap();
    refused(&state, "used/peer.key");
    // Nor with the state: the other box's configuration names its own directory, which is empty here.
    refused(&other, "used/peer.key");
    // The peer may run beside us, with the same folder of keys, as in a laboratory.
    let beside = open(&state);
    open(&other).begin(name(1), Pn::LAST_32, &key).unwrap();
    drop(beside);
    open(&other).begin(name(1), Pn::LAST_32, &key).unwrap();
    let error = open(&other).receive(&[(name(2), &key), (name(1), &key)]).unwrap_err();
    assert!(matches!(&error, LeaseError::Sent { record } if record.ends_with("other/leases")), "{error}");
    open(&other).begin(name(2), Pn::LAST_32, &key).unwrap();
}

/// Each end has a state directory of its own name, and whole configurations were exchanged.
#[test]
fn what_was_sent_under_is_received_under_by_no_other_state_of_the_box() {
    let directory = TestDirectory::new("sent");
    let (state, other) = (directory.0.join("a"), directory.0.join("b"));
    let key = directory.0.join("own.key");
    let open = |state: &Path| LeaseStore::open(state, None).unwrap();
    let mut running = open(&state);
    running.begin(name(1), Pn::LAST_32, &key).unwrap();
    // The other end runs beside it, as in a laboratory.
    open(&other).check_role(Role::Receive, name(1), &key).unwrap();
    drop(running);
    let glanced = StateView::read(&other).unwrap().check_role(Role::Receive, name(1), &key);
    for judged in [open(&other).check_role(Role::Receive, name(1), &key), glanced] {
        let error = judged.unwrap_err();
        assert!(matches!(&error, LeaseError::Sent { record } if record.ends_with("used/own.key")), "{error}");
    }
    // Marks of earlier releases say nothing of a state.
    let marks = directory.0.join("used/own.key");
    let old = std::fs::read_to_string(&marks).unwrap();
    let old = old.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ") + "\n");
    std::fs::write(&marks, old.collect::<String>()).unwrap();
    assert!(matches!(open(&other).check_role(Role::Receive, name(1), &key), Err(LeaseError::Sent { .. })));
}

/// Marks are of keys, and not of files' names.
#[test]
fn a_copy_of_a_key_in_another_file_is_the_same_key() {
    let directory = TestDirectory::new("copied");
    let state = directory.0.join("state");
    let [own, copy] = ["own.key", "own2.key"].map(|file| directory.0.join(file));
    let open = || LeaseStore::open(&state, None).unwrap();
    open().begin(name(1), Pn::LAST_32, &own).unwrap();
    open().receive(&[(name(2), &copy)]).unwrap();
    std::fs::remove_dir_all(&state).unwrap();
    let error = open().begin(name(1), Pn::LAST_32, &copy).unwrap_err();
    assert!(matches!(&error, LeaseError::KeyUsed { mark, .. } if mark.ends_with("used/own.key")), "{error}");
    let error = open().begin(name(2), Pn::LAST_32, &own).unwrap_err();
    assert!(
        matches!(&error, LeaseError::Received { record } if record.ends_with("used/own2.key")),
        "{error}"
    );
}

#[test]
fn a_glance_at_a_state_directory_needs_none_and_makes_none() {
    let directory = TestDirectory::new("glance");
    let (state, key) = (directory.0.join("state"), directory.0.join("own.key"));
    let judge = |role| StateView::read(&state).unwrap().check_role(role, name(1), &key);
    judge(Role::Send).unwrap();
    assert!(!state.exists());
    // Beside the gateway that holds it.
    let mut store = LeaseStore::open(&state, None).unwrap();
    store.begin(name(1), Pn::LAST_32, &key).unwrap();
    judge(Role::Send).unwrap();
    assert!(matches!(judge(Role::Receive), Err(LeaseError::Sent { .. })));
    std::fs::write(state.join("leases"), "no leases").unwrap();
    assert!(StateView::read(&state).is_none());
}

/// Gateways with a state directory each and one key file, all at once: one begins.
#[test]
fn of_many_that_begin_with_one_key_at_once_one_does() {
    let directory = TestDirectory::new("race");
    let key = directory.0.join("own.key");
    for round in 0..8 {
        let begun = std::thread::scope(|scope| {
            let all: Vec<_> = (0..6)
                .map(|number| {
                    let (state, key) = (directory.0.join(format!("state-{round}-{number}")), &key);
                    scope.spawn(move || {
                        let begun =
                            LeaseStore::open(&state, None).unwrap().begin(name(round), Pn::LAST_32, key);
                        match begun {
                            Ok(begin) => begin.unmarked.is_none(),
                            Err(LeaseError::KeyUsed { .. }) => false,
                            Err(error) => panic!("{error}"),
                        }
                    })
                })
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).filter(|begun| *begun).count()
        });
        assert_eq!(begun, 1, "round {round}");
    }
}

#[test]
fn a_key_on_a_read_only_place_is_used_without_a_mark() {
    let directory = TestDirectory::new("unmarked");
    let mut store = LeaseStore::open(&directory.0.join("state"), None).unwrap();
    // Nobody can write to /proc, not even root.
    let begin = store.begin(name(1), Pn::LAST_32, Path::new("/proc/own.key")).unwrap();
    assert!(matches!(begin.reservation, Reservation::Block(_)));
    assert!(begin.unmarked.is_some());
    let unmarked = store.receive(&[(name(2), Path::new("/proc/peer.key"))]).unwrap();
    assert_eq!(unmarked.unwrap().key_file, Path::new("/proc/peer.key"));
}
