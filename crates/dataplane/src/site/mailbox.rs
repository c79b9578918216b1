//! Mailboxes that a site's worker and its manager share, and a socket pair to wake each other. QUIC packets have a ring
//! of their own (`datagrams.rs`).
//!
//! ```text
//!  worker ── Event,    LanFrame (EAPOL) ▶ manager
//!  worker ◀─ ToWorker, LanFrame (EAPOL), RelayedDatagram ─ manager
//! ```
//!
//! An end without room keeps what it has to say (the halves of the tunnel do), or drops and counts it (packets: QUIC and MKA
//! send again).

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use arrayvec::ArrayVec;
use tunnel::{Command, Event, PeerId, SiteName};

use super::copies::Copies;
use super::endpoints::Place;
use super::relay::RelayedDatagram;
use super::uplink::ChannelOctets;
use super::uplinks::WayOut;
use crate::mailbox::{self, Mailbox};

/// Octets of the longest EAPOL frame that a mailbox takes, and of the longest packet of the management channel that is relayed.
pub const PACKET_OCTETS: usize = 1536;
/// Commands or events that can wait.
const MESSAGES: usize = 1024;
/// EAPOL frames that can wait.
const PACKETS: usize = 256;

/// Message of the manager to the worker.
#[derive(Debug)]
pub enum ToWorker {
    /// For the forwarding half.
    Tunnel(Command),
    /// Where data for this peer goes from here on; nowhere without an address.
    Endpoint {
        /// Who.
        peer: PeerId,
        /// Where data goes and, but for identifier mode, comes from: the address that the management channel validated
        /// last; header encryption's, the port above the endpoint's; a plain peer's, its endpoint.
        address: Option<SocketAddr>,
    },
    /// One of several paths to a peer in identifier mode is there, or is not to be used any more.
    Path {
        /// Who.
        peer: PeerId,
        /// Number of the path, below [`super::PATHS`].
        number: u8,
        /// Where its packets go.
        place: Option<Place>,
    },
    /// Frames that go over one path go over this one from here on.
    Prefer {
        /// Who.
        peer: PeerId,
        /// Number of the path.
        number: u8,
    },
    /// These frames go over all paths from here on.
    Copies {
        /// Who.
        peer: PeerId,
        /// Which frames.
        copies: Copies,
    },
    /// Packets that leave so are of this uplink from here on.
    WayOut {
        /// Its number, from 1 on.
        uplink: u8,
        /// How they leave.
        way: WayOut,
    },
    /// How relayed packets name a peer, and which peer relays to it.
    Relay {
        /// Who.
        peer: PeerId,
        /// The beginning of its public key.
        name: SiteName,
        /// The peer that relays to it while its address is not known.
        hub: Option<PeerId>,
    },
}

/// An EAPOL frame of the LAN, from its destination address on, without FCS.
pub type LanFrame = ArrayVec<u8, PACKET_OCTETS>;

/// One end.
#[derive(Debug)]
pub struct SiteMailbox<Out, In> {
    /// Commands for the forwarding half, and its events.
    pub messages: Mailbox<Out, In>,
    /// EAPOL frames of the LAN, and for it.
    pub eapol: Mailbox<LanFrame, LanFrame>,
    /// Packets of the management channel that are to be relayed: from the manager alone.
    pub relayed: Mailbox<RelayedDatagram, RelayedDatagram>,
    /// Octets that the manager has sent by itself.
    pub channel: ChannelOctets,
    bell: UnixStream,
}

/// The worker's end.
pub type WorkerMailbox = SiteMailbox<Event, ToWorker>;
/// The manager's end.
pub type ManagerMailbox = SiteMailbox<ToWorker, Event>;

/// Both ends.
///
/// # Errors
/// If no socket pair can be had.
pub fn pair() -> io::Result<(WorkerMailbox, ManagerMailbox)> {
    let (workers_bell, managers_bell) = UnixStream::pair()?;
    workers_bell.set_nonblocking(true)?;
    managers_bell.set_nonblocking(true)?;
    let (messages, managers_messages) = mailbox::pair(MESSAGES, MESSAGES);
    let (eapol, managers_eapol) = mailbox::pair(PACKETS, PACKETS);
    let (relayed, managers_relayed) = mailbox::pair(0, PACKETS);
    let channel = ChannelOctets::default();
    Ok((
        SiteMailbox { messages, eapol, relayed, channel: channel.clone(), bell: workers_bell },
        SiteMailbox {
            messages: managers_messages,
            eapol: managers_eapol,
            relayed: managers_relayed,
            channel,
            bell: managers_bell,
        },
    ))
}

impl<Out, In> SiteMailbox<Out, In> {
    /// Whether the other end is to be woken for what was sent since this was asked last.
    pub const fn take_wake_flag(&mut self) -> bool {
        self.messages.take_wake_flag() | self.eapol.take_wake_flag() | self.relayed.take_wake_flag()
    }

    /// Wakes the other end.
    pub fn wake(&self) {
        // A full socket buffer means that it is woken already; a closed one, that nobody listens.
        let _ = (&self.bell).write(&[1]);
    }

    /// To be called when the descriptor was readable, before the mailboxes are looked at.
    pub fn woken(&self) {
        let mut rung = [0; 64];
        while (&self.bell).read(&mut rung).is_ok_and(|octets| octets == rung.len()) {}
    }

    /// Readable when the other end has woken this one.
    pub fn descriptor(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// A socket that is readable when the other end has woken this one.
    ///
    /// # Errors
    /// If the descriptor cannot be duplicated.
    pub fn socket(&self) -> io::Result<UnixStream> {
        self.bell.try_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_wakes_the_other_end_and_is_heard_once() {
        let (mut worker, mut manager) = pair().expect("a socket pair");
        assert!(manager.messages.send(ToWorker::Endpoint { peer: PeerId(3), address: None }));
        assert!(manager.take_wake_flag() && !manager.take_wake_flag());
        manager.wake();
        let rung = |worker: &WorkerMailbox| (&worker.bell).read(&mut [0]).is_ok_and(|octets| octets == 1);
        assert!(rung(&worker));
        manager.wake();
        worker.woken();
        assert!(!rung(&worker), "silenced");
        let heard = worker.messages.receive();
        assert!(matches!(heard, Some(ToWorker::Endpoint { peer: PeerId(3), address: None })));
        assert!(worker.messages.receive().is_none());
    }
}
