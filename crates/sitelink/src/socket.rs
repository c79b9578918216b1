//! The socket that QUIC sees: it receives from the worker's ring and sends on a duplicate of the worker's UDP socket.
//!
//! Packets that cannot be for this site are dropped here, before QUIC allocates for them: other versions (so nothing is negotiated
//! with a stranger), connection IDs that this site never gave out, and more Initials than can be answered. Nothing that
//! is dropped here is answered.
//!
//! A packet to an address that stands for a relay ([`dataplane::site::relay_address`]) goes to the worker, which has the way to the relay.
//!
//! The one connection ID that this site has not given out is in a client's first Initial, where the client draws it. It is
//! a [`suite::knock`] here, so that who does not know the site's public key finds nobody at its address. After a Retry it
//! is one that this site gave out, and so it is in all other packets.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use suite::knock::KnockKey;
use tokio::sync::Notify;
use tunnel::PeerId;

use super::counters::SharedCounters;
use super::guard;
use super::initials::Initials;
use super::probes::{ProbeOutcome, Probes};
use super::random;
use super::routes::Routes;
use super::status::canonical;
use super::transport::{ConnectionIds, FLOOR};
use dataplane::site::{
    ChannelOctets, DatagramConsumer, Place, RelayedDatagram, WayOut, WaysOut, relayed_peer,
};
use netdev::udp::{Source, send_one};

/// Packets that can wait for the worker.
const RELAYED: usize = 256;

/// The socket.
pub(super) struct RingSocket {
    socket: UdpSocket,
    /// Of both families: QUIC knows IPv4 addresses as mapped ones then, the worker does not.
    dual: bool,
    receiving: Mutex<Receiving>,
    probes: Mutex<Probes>,
    routes: Mutex<Routes>,
    /// Addresses for which somebody wants to know how much is sent there, as long as he does.
    watched: Mutex<Vec<(SocketAddr, Weak<AtomicU64>)>>,
    /// Packets that wait for the worker to send them to a relay.
    relayed: Mutex<VecDeque<RelayedDatagram>>,
    /// Wakes the driver, which hands them over.
    stir: Arc<Notify>,
    ids: ConnectionIds,
    /// Of this site.
    knock: KnockKey,
    shared_counters: Arc<SharedCounters>,
    /// What is sent here goes past the worker, which shapes the uplinks.
    channel: ChannelOctets,
    ways_out: Mutex<WaysOut>,
    /// The next look for datagrams panics.
    #[cfg(test)]
    pub(super) defect: std::sync::atomic::AtomicBool,
}

struct Receiving {
    datagrams: DatagramConsumer,
    waiting: Option<Waker>,
    initials: Initials,
    /// The clock of their shares.
    start: std::time::Instant,
    /// Address of a peer from which an Initial without a knock has come.
    unknocked: Option<IpAddr>,
}

impl Receiving {
    fn now(&self) -> wire::Instant {
        wire::Instant::after_start(self.start.elapsed())
    }
}

/// Class of a packet: dropped unread, or for QUIC.
enum PacketClass {
    Take,
    /// Begins a connection, with a knock.
    Call,
    Version,
    Nobodys,
    Unknowing,
    Flood,
}

impl RingSocket {
    /// `socket` is one that does not block.
    pub(super) fn new(
        socket: UdpSocket,
        datagrams: DatagramConsumer,
        ids: ConnectionIds,
        knock: KnockKey,
        shared_counters: Arc<SharedCounters>,
        stir: Arc<Notify>,
        channel: ChannelOctets,
    ) -> Self {
        let dual = socket.local_addr().is_ok_and(|local| local.is_ipv6());
        let receiving = Receiving {
            datagrams,
            waiting: None,
            initials: Initials::new(),
            start: std::time::Instant::now(),
            unknocked: None,
        };
        Self {
            socket,
            dual,
            receiving: Mutex::new(receiving),
            probes: Mutex::default(),
            routes: Mutex::default(),
            watched: Mutex::default(),
            relayed: Mutex::default(),
            stir,
            ids,
            knock,
            shared_counters,
            channel,
            ways_out: Mutex::default(),
            #[cfg(test)]
            defect: std::sync::atomic::AtomicBool::new(false),
        }
    }

    fn receiving(&self) -> MutexGuard<'_, Receiving> {
        self.receiving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker has rung.
    pub(super) fn wake(&self) {
        if let Some(waker) = self.receiving().waiting.take() {
            waker.wake();
        }
    }

    /// Counts what is sent to this address from now on.
    pub(super) fn watch(&self, address: SocketAddr) -> Arc<AtomicU64> {
        let sent = Arc::default();
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|(_, sent)| sent.strong_count() > 0);
        watched.push((address, Arc::downgrade(&sent)));
        sent
    }

    /// Probes of the peers' paths.
    pub(super) fn probes(&self) -> MutexGuard<'_, Probes> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ways to peers with several paths.
    pub(super) fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packets that leave so are of this uplink from here on.
    pub(super) fn set_way_out(&self, uplink: u8, way: WayOut) {
        self.ways_out.lock().unwrap_or_else(PoisonError::into_inner).set(uplink, way);
    }

    fn uplink_of(&self, source: &Source) -> u8 {
        self.ways_out.lock().unwrap_or_else(PoisonError::into_inner).of(source)
    }

    /// Sends one packet, and counts its octets for the uplink. False if the kernel did not take it.
    fn send_one(&self, Place { to, source }: Place, packet: &[u8]) -> bool {
        let sent = send_one(&self.socket, to, source, packet);
        if sent {
            self.channel.add(self.uplink_of(&source), packet.len(), canonical(to).is_ipv6());
        }
        sent
    }

    /// Sends a probe. What the kernel does not take is lost, as on a network.
    pub(super) fn send_probe(&self, place: Place, packet: &[u8]) {
        let sent = self.send_one(place, packet);
        self.shared_counters.count(|counters| match sent {
            true => counters.out_probes += 1,
            false => counters.out_datagrams_refused += 1,
        });
    }

    /// Takes a probe of a path, and answers it. False if the packet is none.
    fn take_probe(&self, from: SocketAddr, packet: &mut [u8]) -> bool {
        let random = random::number() as u8;
        let outcome = self.probes().take(std::time::Instant::now(), canonical(from), packet, random);
        match outcome {
            ProbeOutcome::Other => return false,
            ProbeOutcome::Invalid => self.shared_counters.count(|counters| counters.in_probes_not_valid += 1),
            ProbeOutcome::Taken => self.shared_counters.count(|counters| counters.in_probes += 1),
            ProbeOutcome::Answer(source) => {
                self.shared_counters.count(|counters| counters.in_probes += 1);
                self.send_probe(Place { to: from, source }, packet);
            }
        }
        true
    }

    /// Sets the known addresses of the peers, each with the one whose share it has.
    pub(super) fn expect_from(&self, peers: BTreeMap<IpAddr, IpAddr>) {
        self.receiving().initials.peers = peers;
    }

    /// Address of a peer from which an Initial without a knock has come since the last call.
    pub(super) fn unknocked(&self) -> Option<IpAddr> {
        self.receiving().unknocked.take()
    }

    /// The next packet for a relay.
    pub(super) fn poll_relayed(&self) -> Option<RelayedDatagram> {
        self.relayed.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn relay(&self, peer: PeerId, contents: &[u8]) -> bool {
        let Ok(octets) = contents.try_into() else { return false };
        let mut relayed = self.relayed.lock().unwrap_or_else(PoisonError::into_inner);
        let room = relayed.len() < RELAYED;
        if room {
            relayed.push_back(RelayedDatagram { peer, octets });
            self.stir.notify_one();
        }
        room
    }

    fn classify(&self, receiving: &mut Receiving, from: IpAddr, octets: &[u8]) -> PacketClass {
        const LONG: u8 = 0x80;
        match octets {
            [first, v0, v1, v2, v3, ..] if first & LONG != 0 && [*v0, *v1, *v2, *v3] != [0, 0, 0, 1] => {
                PacketClass::Version
            }
            [first, _, _, _, _, length, rest @ ..] if first & LONG != 0 => {
                let id = rest.get(..usize::from(*length)).unwrap_or_default();
                self.classify_long(receiving, from, octets, id)
            }
            // A peer that has restarted answers with a stateless reset, which looks as if it had any connection ID.
            [first, id @ ..]
                if first & LONG == 0
                    && (receiving.initials.peers.contains_key(&from) || self.ids.begin(id)) =>
            {
                PacketClass::Take
            }
            _ => PacketClass::Nobodys,
        }
    }

    /// Of a connection that is being made. `id`: where it goes to.
    fn classify_long(
        &self,
        receiving: &mut Receiving,
        from: IpAddr,
        octets: &[u8],
        id: &[u8],
    ) -> PacketClass {
        const TYPE: u8 = 0x30;
        let (initial, ours) = (octets[0] & TYPE == 0, self.ids.are_ours(id));
        match (initial, ours || (initial && self.knock.recognises(id))) {
            (true, false) => {
                if receiving.initials.peers.contains_key(&from) {
                    receiving.unknocked = Some(from);
                }
                PacketClass::Unknowing
            }
            (false, false) => PacketClass::Nobodys,
            (true, true) if !receiving.initials.take(receiving.now(), from, octets) => PacketClass::Flood,
            (true, true) if !ours => PacketClass::Call,
            (_, true) => PacketClass::Take,
        }
    }
}

impl fmt::Debug for RingSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingSocket").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl AsyncUdpSocket for RingSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    /// Never fails: what the kernel does not take is lost, as on a network, and QUIC sends it again. An error here
    /// would end the connection, and a packet that is too long for an interface is what a search for the path MTU is
    /// made of.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        // The next driver needs the locks of this socket.
        let _ = guard::catch_panic(|| self.send(transmit));
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = guard::catch_panic(|| self.receive(cx, bufs, meta));
        received.unwrap_or_else(|| Poll::Ready(Err(io::Error::other("a defect"))))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl RingSocket {
    fn send(&self, transmit: &Transmit<'_>) {
        for (address, sent) in self.watched.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if *address == transmit.destination
                && let Some(sent) = sent.upgrade()
            {
                sent.fetch_add(1, Ordering::Relaxed);
            }
        }
        let routes = self.routes();
        let sent = match (relayed_peer(transmit.destination), routes.of(transmit.destination)) {
            (Some(peer), _) => self.relay(peer, transmit.contents),
            (None, Some(places)) => {
                let all = if transmit.contents.len() <= usize::from(FLOOR) { places.len() } else { 1 };
                let send = |place: &Place| self.send_one(*place, transmit.contents);
                places.iter().take(all).filter(|place| send(place)).count() > 0
            }
            (None, None) => {
                for place in routes.answers(transmit.destination, transmit.contents) {
                    // What an uplink that is down does not take is lost there.
                    self.send_one(place, transmit.contents);
                }
                let sent = self.socket.send_to(transmit.contents, transmit.destination).is_ok();
                if sent {
                    let ipv6 = canonical(transmit.destination).is_ipv6();
                    self.channel.add(0, transmit.contents.len(), ipv6);
                }
                sent
            }
        };
        drop(routes);
        if !sent {
            self.shared_counters.count(|counters| counters.out_datagrams_refused += 1);
        }
    }

    /// Up to a batch of datagrams. What is dropped on the way is bounded by what the ring holds.
    fn receive(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let receiving = &mut *self.receiving();
        #[cfg(test)]
        assert!(!self.defect.swap(false, Ordering::Relaxed), "as a defect would");
        let mut taken = 0;
        while let (Some(buffer), Some(meta)) = (bufs.get_mut(taken), meta.get_mut(taken)) {
            let Some((from, octets)) = receiving.datagrams.pop(buffer) else { break };
            let from = match from {
                SocketAddr::V4(four) if self.dual => {
                    SocketAddr::new(four.ip().to_ipv6_mapped().into(), four.port())
                }
                other => other,
            };
            if self.take_probe(from, &mut buffer[..octets]) {
                continue;
            }
            let from = self.routes().seen(from);
            let class = self.classify(receiving, from.ip(), &buffer[..octets]);
            if matches!(class, PacketClass::Call) {
                self.routes().note_caller(from);
            }
            match class {
                PacketClass::Take | PacketClass::Call => {
                    *meta = RecvMeta { addr: from, len: octets, stride: octets, ecn: None, dst_ip: None };
                    taken += 1;
                }
                PacketClass::Version => self.shared_counters.count(|counters| counters.in_other_version += 1),
                PacketClass::Nobodys => {
                    self.shared_counters.count(|counters| counters.in_unknown_connection += 1)
                }
                PacketClass::Unknowing => {
                    self.shared_counters.count(|counters| counters.in_without_proof += 1)
                }
                PacketClass::Flood => self.shared_counters.count(|counters| counters.in_initials_flood += 1),
            }
        }
        if taken > 0 {
            self.shared_counters.count(|counters| counters.in_datagrams += taken as u64);
            return Poll::Ready(Ok(taken));
        }
        receiving.waiting = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// A datagram that the kernel does not take at once is dropped: there is nothing to wait for.
#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
