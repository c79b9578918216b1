//! Static keys of a gateway, with leases and floors on its disk: what control does of them.

use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use pnstore::{LeaseError, LeaseName, Opening, PnBlock, Reservation, Store, UnusedPns};
use secy::TransmitPns;
use suite::{Sak, Salt};
use wire::{Instant, MacAddr, Pn, Sci, Ssci};

use super::Link;
use super::disk::{Disk, Files};

/// PNs of a block: few, so that a gateway comes by many ends of blocks.
const BLOCK: NonZeroU64 = NonZeroU64::new(64).expect("not 0");
/// Interval between two writes of floors, as in control.
const FLOORS: Duration = Duration::from_millis(750);
/// Age of state that is refused.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// Real time at the beginning of a world, and that of the image that a disk may go back to: older than [`MAX_AGE`].
const BEGIN: u64 = 10_000;
const LONG_AGO: u64 = 1_000;

/// A gateway's leases and floors.
pub(super) struct StaticKeys {
    store: Store<Disk>,
    own: LeaseName,
    pub(super) peers: Vec<(Sci, Ssci, LeaseName)>,
    pub(super) block: PnBlock,
    /// Time at which a block that was asked for is there.
    block_due: Option<Instant>,
    floors_due: Instant,
}

/// The SCI of a gateway.
pub(super) fn sci(link: u8, number: u8) -> Sci {
    Sci::new(MacAddr([2, 0, 0, 0, link, number]), 1)
}

/// The key of a link, and its salt.
pub(super) fn key(link: &Link) -> Result<(Sak, Option<Salt>), String> {
    let octets = vec![0x40 + link.number; link.suite.key_octets()];
    let sak = Sak::new(link.suite, &octets).map_err(|error| format!("{error:?}"))?;
    Ok((sak, link.suite.is_xpn().then_some(Salt([link.number; 12]))))
}

fn name(link: &Link, number: u8) -> LeaseName {
    let octets = vec![0x40 + link.number; link.suite.key_octets()];
    match link.suite.is_xpn() {
        true => LeaseName::xpn(&octets, Ssci(number.into())),
        false => LeaseName::new(&octets, sci(link.number, number)),
    }
}

fn peers(link: &Link, number: u8) -> Vec<(Sci, Ssci, LeaseName)> {
    let peers = (1..=link.members).filter(|peer| *peer != number);
    peers.map(|peer| (sci(link.number, peer), Ssci(peer.into()), name(link, peer))).collect()
}

/// Whether what is left of an SA's PNs is less than a block: control asks for one then, if the SA goes on in the next program.
pub(super) fn is_less_than_a_block(pns: &TransmitPns) -> bool {
    let left = pns.next().map_or(0, |next| pns.reserved().number().saturating_sub(next.number()) + 1);
    left < BLOCK.get()
}

/// Real time, in seconds since 1970.
fn seconds(now: Instant) -> u64 {
    BEGIN + now.since(super::instant(0)).as_secs()
}

/// Runs a gateway long ago, and returns what its disk had then. The disk has seen a start since.
///
/// # Errors
/// If a disk without faults is refused.
pub(super) fn long_ago(disk: &Disk, link: &Link, number: u8) -> Result<Files, LeaseError> {
    let begin = |now, max_age| {
        let mut store = StaticKeys::open(disk, number, now, max_age, false)?;
        StaticKeys::begin(&mut store, link, number, now)
    };
    begin(LONG_AGO, MAX_AGE)?;
    let image = disk.image();
    begin(BEGIN - 60, Duration::MAX)?;
    Ok(image)
}

impl StaticKeys {
    /// Starts, `now` after the world began.
    pub(super) fn start(disk: &Disk, link: &Link, number: u8, now: Instant) -> Result<Self, LeaseError> {
        let seconds = seconds(now);
        let mut store = Self::open(disk, number, seconds, MAX_AGE, false)?;
        let block = Self::begin(&mut store, link, number, seconds)?;
        Ok(Self::with(store, block, link, number, now))
    }

    /// Goes on in the program after. Its SA has the PNs that the one before has left.
    pub(super) fn go_on(
        &self,
        disk: &Disk,
        link: &Link,
        number: u8,
        now: Instant,
    ) -> Result<Self, LeaseError> {
        let store = Self::open(disk, number, seconds(now), MAX_AGE, true)?;
        Ok(Self::with(store, self.block, link, number, now))
    }

    fn with(store: Store<Disk>, block: PnBlock, link: &Link, number: u8, now: Instant) -> Self {
        let (own, peers) = (name(link, number), peers(link, number));
        Self { store, own, peers, block, block_due: None, floors_due: now + FLOORS }
    }

    fn open(
        disk: &Disk,
        number: u8,
        now: u64,
        max_age: Duration,
        goes_on: bool,
    ) -> Result<Store<Disk>, LeaseError> {
        let opening = Opening { machine: [number; 32], now, max_age: Some(max_age), goes_on };
        Store::open(disk.clone(), Path::new("state"), opening)
    }

    /// Writes down under which names frames may come, and reserves the first block.
    fn begin(store: &mut Store<Disk>, link: &Link, number: u8, now: u64) -> Result<PnBlock, LeaseError> {
        store.receive(&peers(link, number).iter().map(|(_, _, name)| *name).collect::<Vec<_>>(), now)?;
        match store.reserve(name(link, number), link.suite.last_pn(), BLOCK)? {
            Reservation::Block(block) => Ok(block),
            Reservation::Exhausted => unreachable!("a world sends few frames"),
        }
    }

    pub(super) fn floor(&self, name: LeaseName) -> Pn {
        self.store.floor(name)
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.block_due.map_or(self.floors_due, |due| due.min(self.floors_due))
    }

    /// Asks for the next block, if none is under way. A slow disk takes its time.
    pub(super) fn ask(&mut self, now: Instant, link: &Link) {
        self.block_due.get_or_insert(now + link.disk_delay);
    }

    /// Whether a block is under way.
    pub(super) const fn is_reserving(&self) -> bool {
        self.block_due.is_some()
    }

    /// The last PN of a block that is there now. A disk that failed is asked again.
    pub(super) fn take_block(&mut self, now: Instant, link: &Link) -> Option<Pn> {
        self.block_due.take_if(|due| *due <= now)?;
        match self.store.reserve(self.own, link.suite.last_pn(), BLOCK) {
            Ok(Reservation::Block(block)) => Some(block.last),
            Ok(Reservation::Exhausted) => None,
            Err(_) => {
                self.block_due = Some(now + FLOORS);
                None
            }
        }
    }

    /// Whether floors are to be read and written now.
    pub(super) fn wants_floors(&mut self, now: Instant) -> bool {
        let is_due = self.floors_due <= now;
        if is_due {
            self.floors_due = now + FLOORS;
        }
        is_due
    }

    /// True if these floors are on disk.
    pub(super) fn keep_floors(&mut self, floors: &[(LeaseName, Pn)], now: Instant) -> bool {
        self.store.keep_floors(floors, seconds(now)).is_ok()
    }

    /// Gives back what an SA has not used. If it fails, that is lost.
    pub(super) fn give_back(&mut self, next: Pn, through: Pn) {
        let _ = self.store.give_back(&[UnusedPns { name: self.own, next, through }]);
    }
}
