//! State that all tasks of the manager's thread share, and their events for the driver.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use quinn::{Connection, RecvStream};
use suite::identity::PublicKey;
use tokio::sync::Notify;
use tunnel::{PacketOctets, PeerId};

use super::counters::SharedCounters;
use super::error::DisconnectReason;
use super::kernel::KernelSite;
use super::roster::Roster;
use super::socket::RingSocket;
use super::status::SharedStatus;

/// State that all tasks of the manager's thread share, and that others read.
pub(super) struct Shared {
    start: Instant,
    pub(super) shared_counters: Arc<SharedCounters>,
    pub(super) board: SharedStatus,
    /// Wakes the driver.
    pub(super) stir: Arc<Notify>,
    pub(super) stop: AtomicBool,
    roster: Mutex<Roster>,
    /// What was counted of packets of each peer since the driver looked last.
    octets: Mutex<BTreeMap<PeerId, PacketOctets>>,
    pub(super) socket: Arc<RingSocket>,
    /// Programs that forward known flows beside the worker, if there are some.
    pub(super) kernel: Option<Arc<KernelSite>>,
    /// The driver's next turn panics.
    #[cfg(test)]
    pub(super) defect: AtomicBool,
}

/// Event of a task for the driver.
#[derive(Debug)]
pub(super) enum DriverEvent {
    Arrived(Arrival),
    Failed {
        peer: PeerId,
        why: DisconnectReason,
    },
    /// A peer behind a relay could not be reached directly.
    NotDirect {
        peer: PeerId,
        why: String,
    },
    /// Addresses of a peer with a fixed endpoint.
    Found {
        peer: PeerId,
        addresses: Vec<SocketAddr>,
    },
    /// Addresses of the endpoint of one of a peer's paths.
    PathFound {
        peer: PeerId,
        number: u8,
        found: Result<Vec<SocketAddr>, DisconnectReason>,
    },
    /// Somebody calls, knows this site's key, and hears no answer.
    Unheard {
        address: IpAddr,
    },
    /// Somebody with a key that no peer has.
    Stranger {
        address: IpAddr,
        key: PublicKey,
    },
}

/// A connection whose other end has proved to be this peer.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) peer: PeerId,
    pub(super) connection: Connection,
    /// Address with which the handshake was made. QUIC may look elsewhere already.
    pub(super) address: SocketAddr,
    /// A stream of it that was accepted already.
    pub(super) first: Option<RecvStream>,
    /// Whether this site opened it.
    pub(super) ours: bool,
}

impl Shared {
    pub(super) fn new(
        roster: Roster,
        socket: Arc<RingSocket>,
        shared_counters: Arc<SharedCounters>,
        kernel: Option<Arc<KernelSite>>,
        stir: Arc<Notify>,
    ) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            shared_counters,
            board: SharedStatus::new(roster.statuses()),
            stir,
            stop: AtomicBool::new(false),
            roster: Mutex::new(roster),
            octets: Mutex::default(),
            socket,
            kernel,
            #[cfg(test)]
            defect: AtomicBool::new(false),
        })
    }

    /// The time of sessions.
    pub(super) fn now(&self) -> wire::Instant {
        wire::Instant::after_start(self.start.elapsed())
    }

    /// A moment as a time of sessions.
    pub(super) fn moment(&self, at: Instant) -> wire::Instant {
        wire::Instant::after_start(at.saturating_duration_since(self.start))
    }

    pub(super) fn put_octets(&self, octets: BTreeMap<PeerId, PacketOctets>) {
        *self.octets.lock().unwrap_or_else(PoisonError::into_inner) = octets;
    }

    pub(super) fn take_octets(&self) -> BTreeMap<PeerId, PacketOctets> {
        std::mem::take(&mut *self.octets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn with_roster<T>(&self, with: impl FnOnce(&mut Roster) -> T) -> T {
        let mut roster = self.roster.lock().unwrap_or_else(PoisonError::into_inner);
        let done = with(&mut roster);
        if let Some(expected) = roster.expected_anew() {
            self.socket.expect_from(expected);
        }
        done
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
