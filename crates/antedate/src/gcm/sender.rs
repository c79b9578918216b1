//! GCM messages by number, as [`sender`](crate::sender) for CCM.
//!
//! ```text
//!  nonce:  prefix 4 | number 8        as in TLS and ESP: the prefix is fixed by the handshake, the number is sent
//! ```

use core::array;

use cipher::BlockCipherEncrypt;
use cipher::consts::U16;

use super::{Gcm, NONCE_OCTETS, Prepared};
use crate::ccm::CacheHit;
use crate::keystream::BLOCK_OCTETS;
use crate::length::LengthPredictor;
use crate::sender::SendError;

/// Octets of a nonce in front of the number, unique among senders under this key.
pub const PREFIX_OCTETS: usize = 4;

/// The longest message: 2^32 - 2 blocks (NIST SP 800-38D, section 5.2.1.1).
const LONGEST: u64 = ((1 << 32) - 2) * BLOCK_OCTETS as u64;

/// A message that was sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Its number.
    pub number: u64,
    /// Its tag.
    pub tag: [u8; BLOCK_OCTETS],
    /// Usable share of the preparation.
    pub hit: CacheHit,
}

/// Seals messages in sequence under one key, and prepares `N` octets of keystream for up to `SLOTS` of them.
pub struct Sender<'k, C, const N: usize, const SLOTS: usize> {
    gcm: &'k Gcm<C>,
    prefix: [u8; PREFIX_OCTETS],
    /// Number of the next message; `None` when all are used.
    next: Option<u64>,
    /// Ring of prepared messages; message n is at n % SLOTS.
    slots: [Option<Prepared<'k, C, N>>; SLOTS],
    filled: usize,
    lengths: LengthPredictor,
}

impl<'k, C, const N: usize, const SLOTS: usize> Sender<'k, C, N, SLOTS>
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    /// A sender whose first message has the number `first`. No number from there on was used before under
    /// this key with this prefix.
    pub fn new(gcm: &'k Gcm<C>, prefix: [u8; PREFIX_OCTETS], first: u64) -> Self {
        let slots = array::from_fn(|_| None);
        Self { gcm, prefix, next: Some(first), slots, filled: 0, lengths: LengthPredictor::new() }
    }

    /// Number of prepared messages.
    pub const fn fill_level(&self) -> usize {
        self.filled
    }

    /// Number of the next message; `None` when all are used.
    pub const fn next_number(&self) -> Option<u64> {
        self.next
    }

    /// Number of the first unprepared message, for an AAD that holds it.
    pub fn next_unprepared(&self) -> Option<u64> {
        self.next?.checked_add(self.filled as u64)
    }

    /// Prepares one more message of about `octets` octets, whose AAD begins with `aad`. False without a free
    /// slot or number.
    pub fn prepare(&mut self, octets: usize, aad: &[u8]) -> bool {
        let Some(number) = self.next_unprepared().filter(|_| self.filled < SLOTS) else { return false };
        // Wipes the slot's earlier content here, outside of a message's time.
        self.slots[slot_of::<SLOTS>(number)] = Some(self.gcm.prepare(&self.nonce(number), aad, octets));
        self.filled += 1;
        true
    }

    /// Prepares one more message, predicted to be no longer than those before it. False before the first
    /// message too.
    pub fn prepare_as_before(&mut self, aad: &[u8]) -> bool {
        match self.lengths.predict_after(self.filled) {
            Some(expected) => self.prepare(expected.at_most, aad),
            None => false,
        }
    }

    /// Seals the next message in place: with its preparation, or in the ordinary way.
    ///
    /// # Errors
    /// [`SendError`]; then no number is used.
    pub fn send(&mut self, aad: &[u8], data: &mut [u8]) -> Result<Sent, SendError> {
        let number = self.next.ok_or(SendError::Exhausted)?;
        if data.len() as u64 > LONGEST {
            return Err(SendError::TooLong);
        }
        let nonce = self.nonce(number);
        self.next = number.checked_add(1);
        self.lengths.observe(data.len());
        let filled = self.filled > 0;
        self.filled = self.filled.saturating_sub(1);
        // A used preparation stays until its slot is needed. Its number has passed, so nobody uses it again.
        let prepared = self.slots.get_mut(slot_of::<SLOTS>(number)).and_then(Option::as_mut);
        let (tag, hit) = match prepared.filter(|prepared| filled && *prepared.nonce() == nonce) {
            Some(prepared) => prepared.consume(aad, data),
            None => (self.gcm.seal(&nonce, aad, data), CacheHit::Miss),
        };
        Ok(Sent { number, tag, hit })
    }

    fn nonce(&self, number: u64) -> [u8; NONCE_OCTETS] {
        nonce_of(self.prefix, number)
    }
}

/// The nonce of the message with this number.
pub fn nonce_of(prefix: [u8; PREFIX_OCTETS], number: u64) -> [u8; NONCE_OCTETS] {
    let mut nonce = [0; NONCE_OCTETS];
    nonce[..PREFIX_OCTETS].copy_from_slice(&prefix);
    nonce[PREFIX_OCTETS..].copy_from_slice(&number.to_be_bytes());
    nonce
}

const fn slot_of<const SLOTS: usize>(number: u64) -> usize {
    if SLOTS == 0 { 0 } else { (number % SLOTS as u64) as usize }
}

#[cfg(test)]
mod tests {
    use aes::Aes128;
    use aes::cipher::KeyInit as _;

    use super::*;

    #[test]
    fn each_message_is_the_ordinary_one_under_a_nonce_of_its_own() {
        let gcm = Gcm::new(Aes128::new(&[9; 16].into()));
        let mut sender = Sender::<_, 32, 2>::new(&gcm, *b"salt", u64::MAX - 6);
        // Before each: how often prepare is called, the AAD that it expects, and what is met.
        let table: [(usize, &[u8], CacheHit); 7] = [
            (0, b"", CacheHit::Miss),
            (1, b"header of the message, 28 oct", CacheHit::Full),
            (3, b"header of the message, 28 oct", CacheHit::Full),
            (0, b"", CacheHit::Full),
            (0, b"", CacheHit::Miss),
            (1, b"another header, which is wrong", CacheHit::KeystreamOnly),
            (1, b"", CacheHit::Full),
        ];
        for (row, (prepared, expected, hit)) in table.into_iter().enumerate() {
            for _ in 0..prepared {
                sender.prepare(20 + row, expected);
            }
            assert!(sender.fill_level() <= 2, "{row}");
            let number = sender.next_number().expect("a number");
            let aad = b"header of the message, 28 oct and more";
            let mut data = [row as u8; 40];
            let sent = sender.send(aad, &mut data).expect("a number");
            assert_eq!((sent.number, sent.hit), (number, hit), "{row}");
            let mut nonce = *b"salt        ";
            nonce[4..].copy_from_slice(&number.to_be_bytes());
            let mut ordinary = [row as u8; 40];
            assert_eq!(gcm.seal(&nonce, aad, &mut ordinary), sent.tag, "{row}");
            assert_eq!(data, ordinary, "{row}");
        }
        assert_eq!(sender.send(b"", &mut []), Err(SendError::Exhausted));
        assert!(!sender.prepare(1, b"") && sender.next_unprepared().is_none());
    }

    #[test]
    fn what_is_prepared_as_before_is_as_long_as_the_longest() {
        let gcm = Gcm::new(Aes128::new(&[9; 16].into()));
        let mut sender = Sender::<_, 64, 0>::new(&gcm, [0; 4], 0);
        assert!(!sender.prepare_as_before(b""), "no message yet");
        sender.send(b"", &mut [0; 20]).expect("a number");
        assert!(!sender.prepare_as_before(b""), "no slot");
        let mut sender = Sender::<_, 64, 1>::new(&gcm, [0; 4], 1);
        sender.send(b"", &mut [0; 20]).expect("a number");
        assert!(sender.prepare_as_before(b""));
        assert_eq!(sender.send(b"", &mut [0; 20]).expect("a number").hit, CacheHit::Full);
    }
}
