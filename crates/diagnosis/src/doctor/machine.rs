//! The plain port, listened to while the path is examined: what the kernel says of the machine's checksums, and frames that belong on the
//! protected side. Nothing is sent there.

use dataplane::open::open_observer;
use netdev::af_packet::AfPacket;
use netdev::burst::Burst;
use netdev::pool::Pool;
use netdev::port::Port;
use wire::mkpdu::Mkpdu;
use wire::{MacAddr, Sci};

use super::exam::Peers;
use super::frame::Frame;
use config::{Keys, Link};

/// A frame of this link's peers that came to the plain port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Misplaced {
    /// Another doctor's, with a key of this link.
    Doctor(Sci),
    /// An MKPDU under a CKN of this link.
    Mkpdu(MacAddr),
}

/// Recognises frames of this link's peers.
#[derive(Debug)]
pub(super) struct Recogniser<'l> {
    link: &'l Link,
    peers: Peers,
    own: Sci,
    mac: MacAddr,
}

impl<'l> Recogniser<'l> {
    /// For a link of this box, whose SCI is `own` and whose protected port has the address `mac`.
    pub(super) const fn new(link: &'l Link, peers: Peers, own: Sci, mac: MacAddr) -> Self {
        Self { link, peers, own, mac }
    }

    /// What a frame is, if it is a peer's. The own frames come back where both sides are one network.
    pub(super) fn misplaced(&self, octets: &[u8]) -> Option<Misplaced> {
        if octets.get(6..12) == Some(&self.mac.0) {
            return None;
        }
        if let Ok(received) = Frame::parse(octets) {
            let sender = received.frame.sender;
            let keys = self.peers.keys_of(sender).filter(|_| sender != self.own)?;
            return keys.iter().any(|key| received.fits(key)).then_some(Misplaced::Doctor(sender));
        }
        let Keys::Agreed(mka) = &self.link.keys else { return None };
        let mkpdu = Mkpdu::parse(octets).ok()?;
        let is_own = mka.caks().any(|cak| cak.ckn() == mkpdu.basic.ckn) && mkpdu.basic.sci != self.own;
        is_own.then_some(Misplaced::Mkpdu(mkpdu.source))
    }
}

/// The plain port.
pub(super) struct Machine<'l> {
    pool: Pool,
    port: AfPacket,
    burst: Burst,
    recogniser: Recogniser<'l>,
    misplaced: Option<Misplaced>,
}

impl<'l> Machine<'l> {
    /// None if it cannot be opened: what is wrong with it is told among local findings.
    pub(super) fn open(plain: &str, recogniser: Recogniser<'l>) -> Option<Self> {
        let (pool, port) = open_observer(plain).ok()?;
        Some(Self { pool, port, burst: Burst::new(), recogniser, misplaced: None })
    }

    /// Takes what came, and makes room for frames to come.
    pub(super) fn hear(&mut self) {
        self.port.receive(&mut self.pool, &mut self.burst);
        for slot in self.burst.drain() {
            self.misplaced = self.misplaced.or_else(|| self.recogniser.misplaced(self.pool.frame(&slot)));
            self.pool.give(slot);
        }
        self.port.housekeep(&mut self.pool);
    }

    /// Frames of the machine whose checksum the kernel says is left to hardware.
    pub(super) fn unfilled(&mut self) -> u64 {
        self.hear();
        self.port.counters().rx_checksums_completed
    }

    /// The first frame that belongs on the protected side.
    pub(super) const fn misplaced(&self) -> Option<Misplaced> {
        self.misplaced
    }
}

#[cfg(test)]
mod tests;
