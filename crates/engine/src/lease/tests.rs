use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

const MACHINE: [u8; 32] = [9; 32];

/// A disk that forgets at a crash what was not synced.
///
/// `live` is what a reader sees; `durable` is what a crash is sure to leave. A crash in the middle of a write
/// leaves any part of the file; each name that was not synced may or may not survive.
#[derive(Default)]
struct FakeDisk {
    live: BTreeMap<String, Vec<u8>>,
    durable: BTreeMap<String, Vec<u8>>,
    /// Operations until the crash; none: no crash.
    fuel: Option<u32>,
    /// Decides what a crash leaves.
    luck: u32,
}

impl FakeDisk {
    fn burn(&mut self) -> bool {
        match &mut self.fuel {
            None => false,
            Some(0) => true,
            Some(fuel) => {
                *fuel -= 1;
                *fuel == 0
            }
        }
    }

    fn gone() -> io::Error {
        io::Error::other("power lost")
    }

    /// Starts anew: after a `kill -9` with all that was written, after a loss of power with all that was synced
    /// and, name by name, perhaps more.
    fn reboot(&mut self, fuel: Option<u32>, luck: u32) {
        if self.luck & 1 == 0 {
            let names: BTreeSet<String> = self.live.keys().chain(self.durable.keys()).cloned().collect();
            for (at, name) in names.into_iter().enumerate() {
                let kept = if self.luck >> (5 + at) & 1 == 0 { &self.durable } else { &self.live };
                match kept.get(&name).cloned() {
                    Some(content) => self.durable.insert(name, content),
                    None => self.durable.remove(&name),
                };
            }
            self.live = self.durable.clone();
        }
        self.fuel = fuel;
        self.luck = luck;
    }
}

type SharedDisk = Rc<RefCell<FakeDisk>>;

impl Disk for SharedDisk {
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let disk = self.borrow();
        if disk.fuel == Some(0) { Err(FakeDisk::gone()) } else { Ok(disk.live.get(name).cloned()) }
    }

    fn write_synced(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut disk = self.borrow_mut();
        if disk.fuel == Some(0) {
            return Err(FakeDisk::gone());
        }
        let crash = disk.burn();
        let kept = if crash { content.len() * (disk.luck as usize >> 1 & 7) / 7 } else { content.len() };
        let mut content = content[..kept].to_vec();
        if crash && disk.luck & 16 != 0 {
            content.fill(0);
        }
        // The old content of a name that exists durably is overwritten in place.
        if let Some(old) = disk.durable.get_mut(name) {
            old.clone_from(&content);
        }
        disk.live.insert(name.into(), content);
        if crash { Err(FakeDisk::gone()) } else { Ok(()) }
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.borrow_mut();
        if disk.fuel == Some(0) {
            return Err(FakeDisk::gone());
        }
        let content = disk.live.remove(from).ok_or(io::ErrorKind::NotFound)?;
        disk.live.insert(to.into(), content);
        if disk.burn() { Err(FakeDisk::gone()) } else { Ok(()) }
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        let mut disk = self.borrow_mut();
        if disk.burn() {
            return Err(FakeDisk::gone());
        }
        disk.durable = disk.live.clone();
        Ok(())
    }
}

fn name(number: u8) -> LeaseName {
    LeaseName::new(&[number; 16], Sci::from_octets([number; 8]))
}

fn pns(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap()
}

fn open(disk: &SharedDisk) -> Result<Store<SharedDisk>, LeaseError> {
    Store::open(disk.clone(), Path::new("state"), MACHINE)
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
    let refusal = |disk: &SharedDisk| open(disk).err().map(|error| error.to_string()).unwrap_or_default();

    let lost = fresh();
    lost.borrow_mut().live.remove(RECORDS);
    assert_eq!(
        refusal(&lost),
        "state/leases is lost, and with it the packet numbers already used; change all static keys, then remove state/leases*"
    );
    let damaged = fresh();
    damaged.borrow_mut().live.get_mut(RECORDS).unwrap()[20] ^= 1;
    assert_eq!(
        refusal(&damaged),
        "state/leases is damaged (wrong checksum); change all static keys, then remove state/leases*"
    );
    let emptied = fresh();
    emptied.borrow_mut().live.insert(RECORDS.into(), vec![]);
    assert!(refusal(&emptied).contains("is damaged (wrong length)"));
    let copied = Store::open(fresh(), Path::new("state"), [8; 32]);
    assert!(matches!(copied, Err(LeaseError::OtherMachine { .. })));
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
    for luck in 0..128 {
        for (first, second) in (1..12).flat_map(|first| (1..12).map(move |second| (first, second))) {
            live_through(&[(Some(first), !luck), (Some(second), luck), (None, 0)], 3).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn crashes_in_any_order_repeat_no_pn(
        lives in prop::collection::vec((prop::option::of(1_u32..20), any::<u32>()), 1..12),
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
                }
                Ok(Reservation::Exhausted) => return Err(TestCaseError::fail("not exhausted")),
                Err(_) => break,
            }
        }
    }
    Ok(())
}

/// A directory of its own for one test, removed at its end.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(test: &str) -> Self {
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
    let mut store = LeaseStore::open(&state).unwrap();
    assert_eq!(store.reserve(name(1), Pn::LAST_32, pns(10)).unwrap(), block(1, 10));
    assert!(matches!(LeaseStore::open(&state), Err(LeaseError::InUse { .. })));
    drop(store);
    let mut store = LeaseStore::open(&state).unwrap();
    assert_eq!(store.reserve(name(1), Pn::LAST_32, pns(10)).unwrap(), block(11, 20));
    drop(store);
    std::fs::remove_file(state.join(RECORDS)).unwrap();
    assert!(matches!(LeaseStore::open(&state), Err(LeaseError::Lost { .. })));
}

#[test]
fn a_directory_that_cannot_be_is_an_error() {
    let directory = TestDirectory::new("file");
    let file = directory.0.join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(LeaseStore::open(&file), Err(LeaseError::Directory { .. })));
}
