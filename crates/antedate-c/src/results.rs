//! Results of functions.

use antedate::CacheHit;

/// Result of a function. Negative: nothing was done, and no number was used.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum antedate_result {
    /// Done.
    ANTEDATE_OK = 0,
    /// Nothing more can be prepared now: as many messages are prepared for as there is room for, no number is left, or
    /// no message was sent yet that tells how long the next one is.
    ANTEDATE_FULL = 1,
    /// A step is done; the message takes more of them.
    ANTEDATE_MORE = 2,
    /// A pointer is NULL that must not be.
    ANTEDATE_ERROR_NULL = -1,
    /// The memory is smaller than ANTEDATE_SMALL_OCTETS, or not aligned to ANTEDATE_ALIGNMENT.
    ANTEDATE_ERROR_MEMORY = -2,
    /// A key, tag, prefix or AAD has a length that there is not, a first number is too large, or a message is longer
    /// than its nonce allows; data of CBC is no multiple of 16 octets.
    ANTEDATE_ERROR_LENGTH = -3,
    /// The buffer is too short for the message and what is written around it.
    ANTEDATE_ERROR_ROOM = -4,
    /// Two areas overlap that must not.
    ANTEDATE_ERROR_OVERLAP = -5,
    /// This is no sender, or no receiver, of this kind: never begun, wiped, or moved to another address since. A copy of a
    /// sender would use its nonces a second time.
    ANTEDATE_ERROR_NO_SENDER = -6,
    /// Another call has this sender, which an interrupt or a thread interrupted.
    ANTEDATE_ERROR_BUSY = -7,
    /// All numbers under this key are used: change the key.
    ANTEDATE_ERROR_EXHAUSTED = -8,
    /// This is no message of the protocol that was named.
    ANTEDATE_ERROR_MESSAGE = -9,
    /// This number was taken before, or is too old to tell.
    ANTEDATE_ERROR_REPLAYED = -10,
    /// The message is forged, or of another key or number. Its data is wiped.
    ANTEDATE_ERROR_NOT_AUTHENTIC = -11,
    /// The record is of another epoch: it belongs to other keys.
    ANTEDATE_ERROR_EPOCH = -12,
}

/// Usable share of the preparation.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum antedate_met {
    /// Nothing was prepared: the message took the ordinary time.
    ANTEDATE_MET_NOTHING = 0,
    /// The keystream; length, AAD or template were others than expected.
    ANTEDATE_MET_KEYSTREAM = 1,
    /// All of it.
    ANTEDATE_MET_ALL = 2,
}

impl From<CacheHit> for antedate_met {
    fn from(met: CacheHit) -> Self {
        match met {
            CacheHit::Miss => Self::ANTEDATE_MET_NOTHING,
            CacheHit::KeystreamOnly => Self::ANTEDATE_MET_KEYSTREAM,
            CacheHit::Full => Self::ANTEDATE_MET_ALL,
        }
    }
}

/// A message that was sealed.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct antedate_sent {
    /// Octets that are to be sent, from the beginning of the buffer.
    pub octets: usize,
    /// The message's number. Unless the receiver counts along, it is to be sent too.
    pub number: u64,
    /// Usable share of the preparation.
    pub met: antedate_met,
}

/// The answer to C.
pub(crate) fn answer(outcome: Result<(), antedate_result>) -> antedate_result {
    match outcome {
        Ok(()) => antedate_result::ANTEDATE_OK,
        Err(result) => result,
    }
}

/// State of the preparation.
pub(crate) fn prepared(done: bool) -> Result<(), antedate_result> {
    if done {
        Ok(())
    } else {
        Err(antedate_result::ANTEDATE_FULL)
    }
}
