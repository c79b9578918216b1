//! What a site's worker and its manager share: four wait-free rings and a socket pair to wake each other.
//!
//! ```text
//!  worker ── ToManager, datagrams (QUIC), LanFrame (EAPOL) ▶ manager
//!  worker ◀─ ToWorker, LanFrame (EAPOL) ─────────────────── manager
//! ```
//!
//! All are bounded. Who finds a ring full keeps what it has to say (the halves of the tunnel do), or drops and counts
//! it (packets: QUIC and MKA send again).

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, RingBuffer};
use tunnel::{Command, Event, PeerId};
use wire::Instant;

use super::datagrams::{self, DatagramConsumer, DatagramProducer};
use super::senders::Senders;

/// Octets of the longest EAPOL frame that a ring takes.
pub const PACKET_OCTETS: usize = 1536;
/// Commands or events that can wait.
const WORDS: usize = 1024;
/// Packets that can wait.
const PACKETS: usize = 256;

/// What the manager tells the worker.
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
}

/// What the worker tells the manager.
#[derive(Debug)]
pub enum ToManager {
    /// From the forwarding half.
    Tunnel(Event),
}

/// An EAPOL frame of the LAN, from its destination address on, without FCS.
pub type LanFrame = ArrayVec<u8, PACKET_OCTETS>;

/// The worker's end.
#[derive(Debug)]
pub struct SiteEnd {
    /// What the manager says.
    pub commands: Consumer<ToWorker>,
    /// EAPOL frames for the LAN.
    pub to_lan: Consumer<LanFrame>,
    /// For the manager.
    pub events: Producer<ToManager>,
    /// QUIC packets for the manager.
    pub datagrams: DatagramProducer,
    /// MKPDUs of the LAN, for the manager.
    from_lan: Producer<LanFrame>,
    senders: Senders,
    bell: Bell,
}

/// What became of an MKPDU of the LAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The manager gets it.
    Given,
    /// Its sender was not heard before and too many such speak, or it says too much.
    Flood,
    /// Too many wait for the manager, or it is too long.
    NoRoom,
}

/// The manager's end.
#[derive(Debug)]
pub struct ManagerEnd {
    /// For the worker.
    pub commands: Producer<ToWorker>,
    /// EAPOL frames for the LAN.
    pub to_lan: Producer<LanFrame>,
    /// What the worker says.
    pub events: Consumer<ToManager>,
    /// QUIC packets.
    pub datagrams: DatagramConsumer,
    /// EAPOL frames of the LAN.
    pub from_lan: Consumer<LanFrame>,
    bell: Bell,
}

/// The manager's end without the QUIC packets, which have a reader of their own.
#[derive(Debug)]
pub struct ManagerRings {
    /// For the worker.
    pub commands: Producer<ToWorker>,
    /// EAPOL frames for the LAN.
    pub to_lan: Producer<LanFrame>,
    /// What the worker says.
    pub events: Consumer<ToManager>,
    /// EAPOL frames of the LAN.
    pub from_lan: Consumer<LanFrame>,
    bell: Bell,
}

/// One end of the socket pair.
#[derive(Debug)]
struct Bell(UnixStream);

/// Both ends.
///
/// # Errors
/// If no socket pair can be had.
pub fn ends() -> io::Result<(SiteEnd, ManagerEnd)> {
    let (workers, managers) = UnixStream::pair()?;
    workers.set_nonblocking(true)?;
    managers.set_nonblocking(true)?;
    let (commands, commands_out) = RingBuffer::new(WORDS);
    let (events, events_out) = RingBuffer::new(WORDS);
    let (datagrams, datagrams_out) = datagrams::ring();
    let (from_lan, from_lan_out) = RingBuffer::new(PACKETS);
    let (to_lan, to_lan_out) = RingBuffer::new(PACKETS);
    let site = SiteEnd {
        commands: commands_out,
        to_lan: to_lan_out,
        events,
        datagrams,
        from_lan,
        senders: Senders::new(),
        bell: Bell(workers),
    };
    let manager = ManagerEnd {
        commands,
        to_lan,
        events: events_out,
        datagrams: datagrams_out,
        from_lan: from_lan_out,
        bell: Bell(managers),
    };
    Ok((site, manager))
}

impl Bell {
    fn ring(&self) {
        // A full socket buffer means that it rings already; a closed one, that nobody listens.
        let _ = (&self.0).write(&[1]);
    }

    fn silence(&self) {
        let mut rung = [0; 64];
        while (&self.0).read(&mut rung).is_ok_and(|octets| octets == rung.len()) {}
    }
}

impl SiteEnd {
    /// Gives an MKPDU of the LAN to the manager, unless its sender is a part of a flood.
    pub fn take(&mut self, now: Instant, frame: &[u8]) -> Taken {
        let Some(sender) = frame.get(6..).and_then(<[u8]>::first_chunk) else { return Taken::NoRoom };
        if frame.len() > PACKET_OCTETS {
            return Taken::NoRoom;
        }
        if !self.senders.admit(now, *sender) {
            return Taken::Flood;
        }
        let taken = LanFrame::try_from(frame).is_ok_and(|frame| self.from_lan.push(frame).is_ok());
        if taken { Taken::Given } else { Taken::NoRoom }
    }

    /// Wakes the manager.
    pub fn wake_manager(&self) {
        self.bell.ring();
    }

    /// To be called when the descriptor was readable, before the rings are looked at.
    pub fn woken(&self) {
        self.bell.silence();
    }

    /// Readable when the manager has woken this end.
    pub fn descriptor(&self) -> RawFd {
        self.bell.0.as_raw_fd()
    }
}

impl ManagerRings {
    /// Wakes the worker.
    pub fn wake_worker(&self) {
        self.bell.ring();
    }
}

impl ManagerEnd {
    /// The QUIC packets apart from the rest.
    pub fn split(self) -> (ManagerRings, DatagramConsumer) {
        let Self { commands, to_lan, events, datagrams, from_lan, bell } = self;
        (ManagerRings { commands, to_lan, events, from_lan, bell }, datagrams)
    }

    /// Wakes the worker.
    pub fn wake_worker(&self) {
        self.bell.ring();
    }

    /// To be called when the socket was readable, before the rings are looked at.
    pub fn woken(&self) {
        self.bell.silence();
    }

    /// A socket that is readable when the worker has woken this end.
    ///
    /// # Errors
    /// If the descriptor cannot be duplicated.
    pub fn socket(&self) -> io::Result<UnixStream> {
        self.bell.0.try_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_wakes_the_other_end_and_is_heard_once() {
        let (mut site, mut manager) = ends().expect("a socket pair");
        manager.commands.push(ToWorker::Endpoint { peer: PeerId(3), address: None }).expect("room");
        manager.wake_worker();
        let rung = |site: &SiteEnd| (&site.bell.0).read(&mut [0]).is_ok_and(|octets| octets == 1);
        assert!(rung(&site));
        manager.wake_worker();
        site.woken();
        assert!(!rung(&site), "silenced");
        assert!(matches!(site.commands.pop(), Ok(ToWorker::Endpoint { peer: PeerId(3), address: None })));
        assert!(site.commands.pop().is_err());
    }
}
