//! Epochs towards the peer: this site draws their secrets.

use core::time::Duration;

use suite::tunnel::EpochSecret;
use wire::Instant;

use super::fault::PeerFault;
use super::state::EpochAge;
use crate::message::HelloMode;

/// Minimum time between epochs.
const PAUSE: Duration = Duration::from_secs(1);

/// Transmit epochs. Numbers increase by one from 1 and never repeat in a generation. Each has its own secret,
/// which is forgotten here when the forwarding half has it.
///
/// At most one epoch is offered. Identifier mode offers another one when the newest is old or one is wanted.
/// Header encryption offers the second after the first, and then one for each that comes into use.
#[derive(Debug)]
pub(super) struct TransmitEpochs {
    mode: HelloMode,
    life: Duration,
    /// The newest that the peer was ready for, and since when.
    newest: Option<EpochAge>,
    offered: Option<Offered>,
    wanted: bool,
}

#[derive(Debug)]
struct Offered {
    epoch: u32,
    secret: EpochSecret,
    since: Instant,
    /// True if it was sent on any connection: the peer may be ready.
    told: bool,
    /// True if it was sent on this connection.
    told_now: bool,
}

impl TransmitEpochs {
    pub(super) fn new(mode: HelloMode, life: Duration) -> Self {
        Self { mode, life, newest: None, offered: None, wanted: false }
    }

    fn newest(&self) -> u32 {
        self.newest.map_or(0, |newest| newest.epoch)
    }

    /// Handles a request for an epoch after this one.
    pub(super) fn want(&mut self, newest: u32) {
        self.wanted |= self.offered.is_none() && newest == self.newest();
    }

    /// Next time for [`TransmitEpochs::begin`].
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        // After 2^32 - 1 epochs, one a second, the last one stays.
        if self.offered.is_some() || self.newest() == u32::MAX {
            return None;
        }
        let Some(EpochAge { epoch, since }) = self.newest else { return Some(Instant::START) };
        if self.mode == HelloMode::HEADER_ENCRYPTION {
            // The second one at once: without one in reserve the first change of an AN would lose frames.
            let second = if epoch == 1 { Some(Instant::START) } else { None };
            return second.or(if self.wanted { Some(since + PAUSE) } else { None });
        }
        Some(since + if self.wanted { PAUSE } else { self.life.max(PAUSE) })
    }

    /// Draws a secret if one is due.
    pub(super) fn begin(&mut self, now: Instant, draw: fn() -> EpochSecret) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            self.wanted = false;
            let epoch = self.newest() + 1;
            self.offered = Some(Offered { epoch, secret: draw(), since: now, told: false, told_now: false });
        }
    }

    /// The offer that is to be sent on this connection.
    pub(super) fn poll(&mut self) -> Option<(u32, EpochSecret)> {
        let offered = self.offered.as_mut().filter(|offered| !offered.told_now)?;
        (offered.told, offered.told_now) = (true, true);
        Some((offered.epoch, offered.secret.clone()))
    }

    /// Handles the peer's readiness for an epoch. Returns its secret if it was awaited.
    pub(super) fn acknowledge(&mut self, now: Instant, epoch: u32) -> Result<Option<EpochSecret>, PeerFault> {
        if epoch == 0 || epoch > self.newest_told() {
            return Err(PeerFault::NeverOffered { epoch });
        }
        let offered = self.offered.take_if(|offered| offered.epoch == epoch);
        if offered.is_some() {
            self.newest = Some(EpochAge { epoch, since: now });
        }
        Ok(offered.map(|offered| offered.secret))
    }

    pub(super) fn disconnected(&mut self) {
        if let Some(offered) = &mut self.offered {
            offered.told_now = false;
        }
    }

    /// Highest number that the peer can know.
    pub(super) fn newest_told(&self) -> u32 {
        self.offered.as_ref().filter(|offered| offered.told).map_or(self.newest(), |offered| offered.epoch)
    }

    /// True if packets of this epoch may be in flight.
    pub(super) fn is_in_use(&self, epoch: u32) -> bool {
        epoch > 0 && (self.newest().saturating_sub(1)..=self.newest()).contains(&epoch)
    }

    pub(super) fn age(&self) -> Option<EpochAge> {
        self.newest
    }

    pub(super) fn offered(&self) -> Option<EpochAge> {
        self.offered.as_ref().map(|offered| EpochAge { epoch: offered.epoch, since: offered.since })
    }
}
