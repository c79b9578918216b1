use std::collections::BTreeSet;

use proptest::prelude::*;
use wire::{Sci, Ssci};

use super::fake_disk::{SharedDisk, luck, name, open, refusal};
use super::store::{Opening, Store};
use super::*;

fn pns(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap()
}

fn block(first: u64, last: u64) -> Reservation {
    Reservation::Block(PnBlock { first: Pn::new(first).unwrap(), last: Pn::new(last).unwrap() })
}

#[test]
fn blocks_follow_each_other_and_end_at_the_last_pn() {
    let disk = SharedDisk::default();
    let mut store = open(&disk).unwrap();
    let all_but_ten = u64::from(u32::MAX) - 10;
    for (last, size, expected) in [
        (Pn::LAST_32, 100, block(1, 100)),
        (Pn::LAST_32, 1, block(101, 101)),
        (Pn::LAST_32, all_but_ten - 101, block(102, all_but_ten)),
        (Pn::LAST_32, 100, block(all_but_ten + 1, u64::from(u32::MAX))),
        (Pn::LAST_32, 1, Reservation::Exhausted),
        (Pn::LAST_64, u64::MAX, block(1 << 32, u64::MAX)),
        (Pn::LAST_64, 1, Reservation::Exhausted),
    ] {
        assert_eq!(store.reserve(name(1), last, pns(size)).unwrap(), expected);
    }
    assert_eq!(store.reserve(name(2), Pn::LAST_32, BLOCK_PNS).unwrap(), block(1, 1 << 20));
}

/// A key's PNs last for a day and a half of crashes, one each two seconds; and four blocks later they are as large as the disk needs them.
#[test]
fn blocks_begin_small_and_double() {
    assert!((1_u64 << 32) / FIRST_BLOCK_PNS * 2 >= 36 * 3600);
    let sizes: Vec<_> =
        std::iter::successors(Some(FIRST_BLOCK_PNS), |size| Some(next_block(*size))).take(6).collect();
    assert_eq!(
        sizes.iter().map(|size| size.get()).collect::<Vec<_>>(),
        [16, 17, 18, 19, 20, 20].map(|bits| 1 << bits)
    );
    assert_eq!(next_block(NonZeroU64::MAX), BLOCK_PNS);
}

#[test]
fn names_tell_keys_and_channels_apart_but_not_ans() {
    let sci = Sci::from_octets([0, 0, 0, 0, 0, 0, 0, 1]);
    let names = [
        LeaseName::new(&[1; 16], sci),
        LeaseName::new(&[1; 32], sci),
        LeaseName::new(&[2; 16], sci),
        LeaseName::new(&[1; 16], Sci::from_octets([1; 8])),
        LeaseName::xpn(&[1; 16], Ssci(1)),
        LeaseName::xpn(&[1; 16], Ssci(2)),
    ];
    assert_eq!(BTreeSet::from(names).len(), names.len());
}

#[test]
fn a_failed_write_hands_out_nothing_and_a_later_one_goes_on() {
    let disk = SharedDisk::default();
    let mut store = open(&disk).unwrap();
    assert_eq!(store.reserve(name(1), Pn::LAST_32, pns(5)).unwrap(), block(1, 5));
    disk.borrow_mut().fuel = Some(0);
    assert!(matches!(store.reserve(name(1), Pn::LAST_32, pns(5)), Err(LeaseError::Write { .. })));
    disk.borrow_mut().fuel = None;
    assert_eq!(store.reserve(name(1), Pn::LAST_32, pns(5)).unwrap(), block(6, 10));
}

#[test]
fn state_that_cannot_be_trusted_is_refused_with_the_cure() {
    let fresh = || {
        let disk = SharedDisk::default();
        open(&disk).unwrap();
        disk
    };
    let anew = "change all static keys, then remove leases* and floors* from the state directory";
    for file in ["leases", "floors"] {
        let lost = fresh();
        lost.borrow_mut().live.remove(file);
        assert_eq!(
            refusal(&lost),
            format!("state/{file} is lost, and with it the packet numbers already used; {anew}")
        );
        let damaged = fresh();
        damaged.borrow_mut().live.get_mut(file).unwrap()[20] ^= 1;
        assert_eq!(refusal(&damaged), format!("state/{file} is damaged (wrong checksum); {anew}"));
        let emptied = fresh();
        emptied.borrow_mut().live.insert(file.into(), vec![]);
        assert!(refusal(&emptied).contains("is damaged (wrong length)"));
    }
    // Without the mark too, whatever is there says that there was more.
    for (file, gone) in [("leases", ["leases", "leases.created"]), ("floors", ["floors", "leases.created"])] {
        let disk = fresh();
        open(&disk).unwrap().reserve(name(1), Pn::LAST_32, pns(1)).unwrap();
        for gone in gone {
            disk.borrow_mut().live.remove(gone);
        }
        assert!(refusal(&disk).starts_with(&format!("state/{file} is lost")), "{}", refusal(&disk));
    }
    let opening = Opening { machine: [8; 32], now: 0, max_age: None, goes_on: false };
    let copied = Store::open(fresh(), Path::new("state"), opening);
    assert!(matches!(copied, Err(LeaseError::OtherMachine { .. })));
    let half = fresh();
    let other = SharedDisk::default();
    Store::open(other.clone(), Path::new("state"), opening).unwrap();
    let floors = other.borrow().live["floors"].clone();
    half.borrow_mut().live.insert("floors".into(), floors);
    assert!(refusal(&half).starts_with("state/floors was written on another machine"));
}

#[test]
fn machines_are_told_apart_by_their_id() {
    assert_eq!(machine_digest(None), [0; 32]);
    assert_eq!(machine_digest(Some(b"uninitialized\n")), [0; 32]);
    assert_eq!(machine_digest(Some(b"0123\n")), machine_digest(Some(b"0123")));
    assert_ne!(machine_digest(Some(b"0123")), machine_digest(Some(b"0124")));
    assert_ne!(machine_digest(Some(b"0123")), [0; 32]);
}

/// Two lives, each ended at each of its operations, in each way; then one that nothing ends.
#[test]
fn a_crash_at_every_boundary_repeats_no_pn() {
    // A first start takes 12 operations, another one 3, a reservation 3.
    for number in 0..64 {
        for (first, second) in (1..22).flat_map(|first| (1..22).map(move |second| (first, second))) {
            live_through(&[(Some(first), luck(!number)), (Some(second), luck(number)), (None, 0)], 3)
                .unwrap();
        }
    }
}

proptest! {
    #[test]
    fn crashes_in_any_order_repeat_no_pn(
        lives in prop::collection::vec((prop::option::of(1_u32..30), any::<u32>()), 1..12),
        reservations in 1_u64..6,
    ) {
        live_through(&lives, reservations)?;
    }
}

fn live_through(lives: &[(Option<u32>, u32)], reservations: u64) -> Result<(), TestCaseError> {
    let disk = SharedDisk::default();
    let mut handed_out = [0_u64; 2];
    for &(fuel, luck) in lives {
        disk.borrow_mut().reboot(fuel, luck);
        let mut store = match open(&disk) {
            Ok(store) => store,
            Err(LeaseError::Write { .. } | LeaseError::Read { .. }) => continue,
            Err(refused) => return Err(TestCaseError::fail(format!("a crash must not end in: {refused}"))),
        };
        for round in 0..reservations {
            let sa = usize::try_from(round % 2).unwrap();
            match store.reserve(name(sa as u8), Pn::LAST_32, pns(3)) {
                Ok(Reservation::Block(block)) => {
                    prop_assert!(
                        block.first.number() > handed_out[sa],
                        "{:?} after {}",
                        block,
                        handed_out[sa]
                    );
                    handed_out[sa] = block.last.number();
                    // Every other SA ends in order, having used one PN of its block.
                    let next = Pn::new(block.first.number() + 1).unwrap();
                    let unused = UnusedPns { name: name(sa as u8), next, through: block.last };
                    if (luck >> round) & 1 == 0 {
                        // A crash on the way may have given them back or not.
                        let _ = store.give_back(&[unused]);
                        handed_out[sa] = block.first.number();
                    }
                }
                Ok(Reservation::Exhausted) => return Err(TestCaseError::fail("not exhausted")),
                Err(_) => break,
            }
        }
    }
    Ok(())
}

#[test]
fn what_was_not_used_comes_again_and_nothing_else_does() {
    let disk = SharedDisk::default();
    let mut store = open(&disk).unwrap();
    let unused = |name, next, through| UnusedPns {
        name,
        next: Pn::new(next).unwrap(),
        through: Pn::new(through).unwrap(),
    };
    assert_eq!(store.reserve(name(1), Pn::LAST_32, pns(100)).unwrap(), block(1, 100));
    assert_eq!(store.reserve(name(2), Pn::LAST_32, pns(100)).unwrap(), block(1, 100));
    store.give_back(&[unused(name(1), 8, 100), unused(name(2), 1, 100)]).unwrap();
    // A block behind it is somebody's, a key that nothing was reserved for is no key, and nothing is given back twice.
    for unused in [unused(name(1), 3, 100), unused(name(3), 1, 100), unused(name(1), 200, 7)] {
        store.give_back(&[unused]).unwrap();
    }
    let mut store = open(&disk).unwrap();
    assert_eq!(store.reserve(name(1), Pn::LAST_32, pns(100)).unwrap(), block(8, 107));
    assert_eq!(store.reserve(name(2), Pn::LAST_32, pns(100)).unwrap(), block(2, 101));
    assert!(!store.knows(name(3)));
    // PNs whose return cannot be written are lost, and nothing more.
    disk.borrow_mut().fuel = Some(0);
    assert!(matches!(store.give_back(&[unused(name(1), 9, 107)]), Err(LeaseError::Write { .. })));
    disk.borrow_mut().fuel = None;
    assert_eq!(store.reserve(name(1), Pn::LAST_32, pns(1)).unwrap(), block(108, 108));
}

/// A directory of its own for one test, removed at its end.
pub(super) struct TestDirectory(pub(super) PathBuf);

impl TestDirectory {
    pub(super) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("frameward-lease-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_real_directory_keeps_leases_and_admits_one_gateway() {
    let directory = TestDirectory::new("real");
    let state = directory.0.join("a/b");
    let mut store = LeaseStore::open(&state, None).unwrap();
    assert_eq!(store.reserve(name(1), Pn::LAST_32, pns(10)).unwrap(), block(1, 10));
    assert!(matches!(LeaseStore::open(&state, None), Err(LeaseError::InUse { .. })));
    drop(store);
    let mut store = LeaseStore::open(&state, None).unwrap();
    assert_eq!(store.reserve(name(1), Pn::LAST_32, pns(10)).unwrap(), block(11, 20));
    drop(store);
    std::fs::remove_file(state.join("leases")).unwrap();
    assert!(matches!(LeaseStore::open(&state, None), Err(LeaseError::Lost { .. })));
}

#[test]
fn a_condemned_state_is_refused_until_all_is_removed() {
    let directory = TestDirectory::new("condemned");
    let mut store = LeaseStore::open(&directory.0, None).unwrap();
    store.reserve(name(1), Pn::LAST_32, pns(10)).unwrap();
    condemn(&directory.0).unwrap();
    drop(store);
    for _ in 0..2 {
        let error = LeaseStore::open(&directory.0, None).err().unwrap();
        assert!(
            matches!(&error, LeaseError::Restored { path } if path.ends_with("leases.restored")),
            "{error}"
        );
    }
    for file in ["leases", "leases.created", "leases.restored", "floors"] {
        std::fs::remove_file(directory.0.join(file)).unwrap();
    }
    LeaseStore::open(&directory.0, None).unwrap();
}

#[test]
fn a_directory_that_cannot_be_is_an_error() {
    let directory = TestDirectory::new("file");
    let file = directory.0.join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(LeaseStore::open(&file, None), Err(LeaseError::Directory { .. })));
}
