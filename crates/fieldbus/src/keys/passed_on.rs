//! Keys of a relation on the data path, for the next program of its process: which epochs they are of, and how far their Seqs have come.
//! The keys themselves are derived again by the handshake.

use serde::{Deserialize, Serialize};
use wire::fieldbus::Seq;

use super::live::{AdjacentKeys, LiveSession, Receiver, Sender};
use super::{Keys, OtherSessions};
use crate::handshake::Handshake;
use crate::passed_on::PassedOnError;
use crate::session::SessionNumber;

/// All keys of a relation.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PassedKeys {
    running: Option<PassedSession>,
    entered: Option<PassedSession>,
    /// True if the entered session protects already.
    enabled: bool,
}

/// A session: epochs, the next Seq to be sent (0: all are used), and that of the newest verified frame (0 before the first).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct PassedSession {
    number: u32,
    transmit_epoch: u64,
    next_seq: u32,
    receive_epoch: u64,
    newest: u32,
}

impl PassedSession {
    fn of(LiveSession { transmit, number, receive }: &LiveSession) -> Self {
        Self {
            number: number.0,
            transmit_epoch: transmit.key.epoch,
            next_seq: transmit.next_seq.map_or(0, Seq::number),
            receive_epoch: receive.key.epoch,
            newest: receive.newest,
        }
    }

    /// The session with its keys and those of the next epochs. None if the handshake does not know it.
    fn live(&self, handshake: &mut Handshake) -> Option<LiveSession> {
        let number = SessionNumber(self.number);
        let mut transmit = |epoch| handshake.next_transmit(number, epoch);
        let (key, next) = (transmit(self.transmit_epoch)?, transmit(self.transmit_epoch.checked_add(1)?)?);
        let transmit = Sender { key, next_seq: Seq::new(self.next_seq), adjacent: AdjacentKeys::with(next) };
        let mut receive = |epoch| handshake.next_receive(number, epoch);
        let (key, next) = (receive(self.receive_epoch)?, receive(self.receive_epoch.checked_add(1)?)?);
        let receive = Receiver { key, newest: self.newest, adjacent: AdjacentKeys::with(next) };
        Some(LiveSession { transmit, number, receive })
    }
}

impl Keys {
    pub(crate) fn pass_on(&self) -> PassedKeys {
        PassedKeys {
            running: self.running.as_ref().map(PassedSession::of),
            entered: self.entered().map(PassedSession::of),
            enabled: self.enabled,
        }
    }

    /// The same keys, derived by the handshake that goes on.
    ///
    /// # Errors
    /// If the handshake does not know a session, or one stands there twice: its Seqs would be used again.
    pub(crate) fn go_on(passed: &PassedKeys, handshake: &mut Handshake) -> Result<Self, PassedOnError> {
        let PassedKeys { running, entered, enabled } = passed;
        if running.as_ref().zip(entered.as_ref()).is_some_and(|(one, other)| one.number == other.number) {
            return Err(PassedOnError::Garbled);
        }
        let mut live = |session: &Option<PassedSession>| match session {
            Some(session) => session.live(handshake).map(Some).ok_or(PassedOnError::Session),
            None => Ok(None),
        };
        let (running, entered) = (live(running)?, live(entered)?);
        let is_entered = entered.is_some();
        let others = OtherSessions { entered, ended: None };
        Ok(Self { is_entered, enabled: *enabled && is_entered, others: others.into(), running })
    }
}
