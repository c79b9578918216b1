//! The management channel of a site: QUIC connections to its peers, and the sessions that are held over them.
//!
//! ```text
//!             one thread, one asynchronous runtime
//!  worker ── QUIC datagrams ─▶ RingSocket ─▶ quinn ─▶ Line ── messages ──▶ Session ── commands ─▶ worker
//!         ── events, MKPDUs ─────────────────────────▶ Driver ◀───────────┘
//!  network ◀──────── duplicate of the worker's UDP socket ◀── quinn ◀── Line ◀── messages, MKPDUs
//! ```
//!
//! **Who connects.** The site with the lower public key is the *caller*: it connects as soon as there is no connection,
//! if it has an endpoint for the peer. The other one, if it has an endpoint, waits [`peer::GRACE`] for the caller and
//! then connects as well: so a caller without an endpoint is reached all the same. A connection that comes while there
//! is one replaces it: the peer has restarted. But of two that meet, each opened by one end, the caller's stays: the
//! other's is turned away if it comes less than [`peer::connecting::MEETING`] after the caller's.
//!
//! **Who is answered.** Only who shows in its first packet that it knows this site's public key ([`suite::knock`]), and what
//! goes to a connection ID that this site gave out. A scanner finds nobody ([`socket`]).
//!
//! **A peer that restarts** connects, if it is the one who connects. If not, it answers what this site sends to the
//! connection before with a stateless reset ([`transport`]), at the latest after a keep-alive; then this site connects.
//!
//! **Where data goes.** To the address with which the handshake was made. QUIC follows a peer whose address changes as
//! soon as one authentic packet comes from another address, which anybody can bring about who holds back a packet and
//! sends it from elsewhere. So here a peer that has moved is taken on at its new address after it has answered a Ping that was
//! sent there and nowhere else ([`unproved_move`]). No data packet moves a peer.
//!
//! **A peer behind a relay** ([`dataplane::site::relay_address`]) is connected to like any other, at an address that stands for the relay. Both
//! ends have the other one's public key; the relay learns nothing, and can only lose what it should pass on.
//!
//! Left out on purpose: what is agreed on with a peer ([`tunnel::Session`]), and identity files (the program's).

// The tests of threads have their sites from the directory of tests, where this crate has its name.
#[cfg(test)]
extern crate self as sitelink;

mod address_buckets;
mod answer;
mod connection;
mod counters;
mod dial;
mod direct;
mod driver;
mod error;
mod guard;
mod initials;
mod kernel;
mod live;
mod mkpdus;
mod paths;
mod peer;
mod probes;
mod random;
mod roster;
mod routes;
mod settings;
mod shared;
mod socket;
#[cfg(test)]
#[path = "../tests/channel/stand.rs"]
#[allow(dead_code, reason = "its own tests need all of it")]
mod stand;
mod status;
mod thread;
mod tls;
mod transport;
mod unproved_move;

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use suite::knock::KnockKey;
use tokio::sync::Notify;
use tunnel::{PacketOctets, PeerId};

use counters::SharedCounters;
use dataplane::site::{DatagramConsumer, ManagerMailbox};
use roster::Roster;
use shared::Shared;
use socket::RingSocket;
use thread::Parts;

pub use counters::ChannelCounters;
pub use kernel::{Floods, KernelSite, PlaceState, PlainPeer};
pub use settings::{ManagerPath, ManagerPeer, ManagerSettings};
pub use status::{ConnState, ManagerStatus, Notice, PathStatus, PeerStatus, RoundTrips};
pub use tls::KeyExchange;

/// A running manager. It stops when this is dropped.
#[derive(Debug)]
pub struct Manager {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Manager {
    /// Starts the manager's thread. `socket` is the worker's UDP socket, or a duplicate of it: it is made non-blocking. `kernel` has the programs that
    /// forward known flows beside the worker, if there are some.
    ///
    /// # Errors
    /// If a thread, a socket or a runtime cannot be had, or the key is not taken by the cipher library.
    ///
    /// # Panics
    /// If a peer that is not plain has no public key.
    pub fn start(
        settings: ManagerSettings,
        mailbox: ManagerMailbox,
        datagrams: DatagramConsumer,
        socket: UdpSocket,
        kernel: Option<Arc<KernelSite>>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let bell = mailbox.socket()?;
        let shared_counters = Arc::new(SharedCounters::default());
        let key = settings.identity.recognition_key();
        let ids = transport::ConnectionIds::new(&key);
        let knock = KnockKey::of(settings.identity.public());
        let (counters, stir) = (Arc::clone(&shared_counters), Arc::new(Notify::new()));
        let channel = mailbox.channel.clone();
        let socket = RingSocket::new(socket, datagrams, ids, knock, counters, Arc::clone(&stir), channel);
        let tls = tls::Tls::new(&settings.identity).map_err(io::Error::other)?;
        let roster = Roster::new(&settings.peers, settings.most_payload);
        let shared = Shared::new(roster, Arc::new(socket), shared_counters, kernel, stir);
        let mailbox = Mutex::new(mailbox);
        let thread =
            thread::start(Parts { settings, tls, key, mailbox, bell, local, shared: Arc::clone(&shared) })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Status of the channel, not older than half a second.
    pub fn status(&self) -> ManagerStatus {
        self.shared.board.status(self.shared.now(), &self.shared.shared_counters)
    }

    /// Notices for a person since the last call; the newest 64.
    pub fn notices(&self) -> Vec<Notice> {
        self.shared.board.notices()
    }

    /// Takes what was counted of packets of each peer, for the peer to hear. To be called once a second.
    pub fn tell_octets(&self, octets: BTreeMap<PeerId, PacketOctets>) {
        self.shared.put_octets(octets);
    }

    /// Lets peers leave and others come, with numbers that no peer has had; nothing is done for others. Those who leave
    /// are told, and leave the programs in the kernel at once, whether the channel's thread runs or not. `most_payload` is as in [`ManagerSettings`], for connections from here on.
    pub fn change_peers(&self, leave: &[PeerId], come: Vec<(PeerId, ManagerPeer)>, most_payload: u16) {
        self.shared.with_roster(|roster| roster.change(leave, come, most_payload));
        if let Some(kernel) = &self.shared.kernel {
            kernel.leave(leave);
        }
        self.shared.stir.notify_one();
    }

    /// Lets peers with several paths have other paths, or other frames go over all of them. A path that is as before goes on. Nothing is
    /// done for peers of another kind.
    pub fn change_paths(&self, changes: Vec<(PeerId, ManagerPeer)>) {
        self.shared.with_roster(|roster| roster.change_paths(changes));
        self.shared.stir.notify_one();
    }

    /// Whether the thread lives. It does until [`Self::stop`]: if it fails by a defect it starts anew, and the peers'
    /// data goes on meanwhile.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Tells the peers, and ends the thread, within a second.
    pub fn stop(mut self) {
        self.end();
    }

    /// Begins to stop, and does not wait: who has many managers does so with all of them first.
    pub fn begin_to_stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.stir.notify_one();
    }

    fn end(&mut self) {
        self.begin_to_stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.end();
    }
}
