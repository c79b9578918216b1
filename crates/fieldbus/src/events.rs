//! Events of the data path for control, relation by relation.
//!
//! Each relation keeps its events until they are taken, and is in the queue at most once. So no event is
//! lost, and nothing grows.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::keys::Epoch;
use crate::session::SessionNumber;

/// Event for control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The first frame was verified in this session: the other end protects in it. The previous session has
    /// ended.
    SessionVerified(SessionNumber),
    /// Frames of this session are protected in this epoch from now on: the next epoch's key is wanted.
    TransmitEpoch(SessionNumber, u64),
    /// The first frame was verified in this epoch of this session: the next epoch's key is wanted.
    ReceiveEpoch(SessionNumber, u64),
    /// No verified frame came for this time, at least the configured one. The worst of several since the last
    /// event.
    Alarm(Duration),
    /// For a second, frames came under unknown keys and none was verified. This end has missed too many
    /// epochs to follow, and has to request another session.
    Lost,
}

/// Pending events of one relation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PendingEvents {
    listed: bool,
    heard: Option<SessionNumber>,
    transmit_epoch: Option<Epoch>,
    receive_epoch: Option<Epoch>,
    alarm: Option<Duration>,
    lost: bool,
}

impl PendingEvents {
    pub(crate) fn take(&mut self) -> Option<Event> {
        let heard = self.heard.take().map(Event::SessionVerified);
        heard
            .or_else(|| {
                self.transmit_epoch.take().map(|(session, epoch)| Event::TransmitEpoch(session, epoch))
            })
            .or_else(|| self.receive_epoch.take().map(|(session, epoch)| Event::ReceiveEpoch(session, epoch)))
            .or_else(|| self.alarm.take().map(Event::Alarm))
            .or_else(|| core::mem::take(&mut self.lost).then_some(Event::Lost))
    }
}

/// Queue of relations with pending events.
#[derive(Debug)]
pub(crate) struct EventQueue(VecDeque<u16>);

impl EventQueue {
    /// Room for `relations` relations.
    pub(crate) fn with_room(relations: usize) -> Self {
        Self(VecDeque::with_capacity(relations))
    }

    pub(crate) fn heard(&mut self, pending: &mut PendingEvents, number: usize, session: SessionNumber) {
        pending.heard = Some(session);
        self.list(pending, number);
    }

    pub(crate) fn transmit_epoch(&mut self, pending: &mut PendingEvents, number: usize, begun: Epoch) {
        pending.transmit_epoch = Some(begun);
        self.list(pending, number);
    }

    pub(crate) fn receive_epoch(&mut self, pending: &mut PendingEvents, number: usize, begun: Epoch) {
        pending.receive_epoch = Some(begun);
        self.list(pending, number);
    }

    pub(crate) fn alarm(&mut self, pending: &mut PendingEvents, number: usize, gap: Duration) {
        pending.alarm = pending.alarm.max(Some(gap));
        self.list(pending, number);
    }

    pub(crate) fn lost(&mut self, pending: &mut PendingEvents, number: usize) {
        pending.lost = true;
        self.list(pending, number);
    }

    /// The first relation in the queue.
    pub(crate) fn front(&self) -> Option<usize> {
        self.0.front().copied().map(usize::from)
    }

    /// Removes a relation without further events.
    pub(crate) fn done(&mut self, pending: &mut PendingEvents) {
        pending.listed = false;
        self.0.pop_front();
    }

    /// Queues a relation that was taken over with pending events.
    pub(crate) fn adopt(&mut self, pending: &mut PendingEvents, number: usize) {
        if core::mem::replace(&mut pending.listed, false) {
            self.list(pending, number);
        }
    }

    fn list(&mut self, pending: &mut PendingEvents, number: usize) {
        if !core::mem::replace(&mut pending.listed, true) {
            self.0.push_back(number as u16);
        }
    }
}
