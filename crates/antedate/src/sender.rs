//! Messages by number: the preparation of each, and the guarantee that no number is used twice.
//!
//! ```text
//!   sent ... 41 │ 42 prepared │ 43 prepared │ 44 ...         fill level 2 of SLOTS
//!               ▲ the next message takes this, whatever it holds
//! ```
//!
//! A number is a nonce. [`Sender::send`] takes numbers through `&mut`, one after the other, and a number's
//! preparation goes with it by value: so a keystream is used once.

use core::{array, fmt};

use cipher::BlockCipherEncrypt;
use cipher::consts::U16;

use crate::ccm::{AAD_OCTETS, CacheHit, Ccm, Expected, Nonce, Prepared, Tag, Unfinished};
use crate::length::LengthPredictor;

/// Numbering of messages: nonce and AAD of a number. Two numbers never share a nonce.
pub trait Numbering {
    /// The last number.
    const LAST: u64;

    /// The nonce of this number.
    fn nonce(&self, number: u64) -> Nonce;

    /// AAD of the message with this number and `length` octets of data, written to the beginning of `aad`.
    /// Returns its length.
    fn aad(&self, number: u64, length: usize, aad: &mut [u8; AAD_OCTETS]) -> usize;
}

/// Nonces of 13 octets: a prefix of 9, unique among senders under this key, and the number in 4. No AAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrefixNumbering {
    prefix: [u8; 9],
}

impl PrefixNumbering {
    /// With this prefix.
    pub const fn new(prefix: [u8; 9]) -> Self {
        Self { prefix }
    }
}

impl Numbering for PrefixNumbering {
    const LAST: u64 = u32::MAX as u64;

    fn nonce(&self, number: u64) -> Nonce {
        let mut octets = [0; Nonce::LONGEST];
        octets[..9].copy_from_slice(&self.prefix);
        octets[9..].copy_from_slice(&(number as u32).to_be_bytes());
        Nonce::new(&octets).expect("invariant: 13 octets are a nonce")
    }

    fn aad(&self, _number: u64, _length: usize, _aad: &mut [u8; AAD_OCTETS]) -> usize {
        0
    }
}

/// Reason for not sending a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// All numbers are used: the key must be changed.
    Exhausted,
    /// The message is longer than the nonce allows.
    TooLong,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exhausted => "all numbers under this key are used; change the key",
            Self::TooLong => "the message is longer than its nonce allows; send it in parts",
        })
    }
}

impl core::error::Error for SendError {}

/// A message that was sealed.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its number.
    pub number: u64,
    /// Its tag.
    pub tag: Tag,
    /// Usable share of the preparation.
    pub hit: CacheHit,
}

/// Outcome of a step of a preparation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A message is prepared. The next step begins another one.
    Prepared,
    /// There is more to do for this message.
    More,
    /// No free slot or number.
    Full,
}

/// Seals messages in sequence under one key, and prepares up to `SLOTS` of them: `N` octets of keystream,
/// templates of up to `T` octets.
pub struct Sender<'k, C, R, const N: usize, const T: usize, const SLOTS: usize> {
    ccm: &'k Ccm<C>,
    numbering: R,
    /// Number of the next message; `None` when all are used.
    next: Option<u64>,
    /// Ring of prepared messages; message n is at n % SLOTS.
    slots: [Prepared<'k, C, N, T>; SLOTS],
    filled: usize,
    /// Rest of the preparation of the message behind the filled slots.
    unfinished: Option<Unfinished>,
    lengths: LengthPredictor,
}

impl<'k, C, R, const N: usize, const T: usize, const SLOTS: usize> Sender<'k, C, R, N, T, SLOTS>
where
    C: BlockCipherEncrypt<BlockSize = U16>,
    R: Numbering,
{
    /// A sender whose first message has the number `first`. No number from there on was used before under
    /// this key.
    pub fn new(ccm: &'k Ccm<C>, numbering: R, first: u64) -> Self {
        let next = Some(first).filter(|&first| first <= R::LAST);
        Self {
            ccm,
            numbering,
            next,
            slots: array::from_fn(|_| Prepared::empty(ccm)),
            filled: 0,
            unfinished: None,
            lengths: LengthPredictor::new(),
        }
    }

    /// The key.
    pub const fn ccm(&self) -> &'k Ccm<C> {
        self.ccm
    }

    /// Numbering of its messages.
    pub const fn numbering(&self) -> &R {
        &self.numbering
    }

    /// Number of prepared messages.
    pub const fn fill_level(&self) -> usize {
        self.filled
    }

    /// Number of the next message; `None` when all are used.
    pub const fn next_number(&self) -> Option<u64> {
        self.next
    }

    /// Number of the first unprepared message, for a template that holds it as a sequence number.
    pub fn next_unprepared(&self) -> Option<u64> {
        self.next?.checked_add(self.filled as u64).filter(|&number| number <= R::LAST)
    }

    /// Prepares one more message, all at once; what steps have begun is done anew. False without a free slot or number.
    pub fn prepare(&mut self, expected: Expected, template: &[u8]) -> bool {
        self.unfinished = None;
        self.step(expected, template, usize::MAX) == Step::Prepared
    }

    /// Prepares one more message in steps, for an idle loop that has to be left soon: at most `blocks` blocks of AES, and at
    /// the first step of a message those of its mask, B_0 and AAD (5 at most). `expected` and `template` are taken at
    /// the first step. A message that is sent meanwhile uses the keystream that is ready.
    pub fn step(&mut self, expected: Expected, template: &[u8], blocks: usize) -> Step {
        let Some(number) = self.next_unprepared().filter(|_| self.filled < SLOTS) else { return Step::Full };
        let Some(slot) = self.slots.get_mut(slot_of::<SLOTS>(number)) else { return Step::Full };
        let unfinished = match &mut self.unfinished {
            Some(unfinished) => unfinished,
            none => {
                let mut aad = [0; AAD_OCTETS];
                let aad_octets = self.numbering.aad(number, expected.length, &mut aad).min(AAD_OCTETS);
                let nonce = self.numbering.nonce(number);
                none.insert(slot.begin(&nonce, &aad[..aad_octets], expected, template))
            }
        };
        if !slot.step(unfinished, blocks) {
            return Step::More;
        }
        self.unfinished = None;
        self.filled += 1;
        Step::Prepared
    }

    /// Prepares one more message with the predicted length. False before the first message too.
    pub fn prepare_as_before(&mut self, template: &[u8]) -> bool {
        match self.lengths.predict_after(self.filled) {
            Some(expected) => self.prepare(expected, template),
            None => false,
        }
    }

    /// Seals the next message in place: with its preparation, or in the ordinary way.
    ///
    /// # Errors
    /// [`SendError`]; then no number is used.
    pub fn send(&mut self, data: &mut [u8]) -> Result<Sent, SendError> {
        let number = self.next.ok_or(SendError::Exhausted)?;
        let nonce = self.numbering.nonce(number);
        if data.len() as u64 > nonce.longest_message() {
            return Err(SendError::TooLong);
        }
        self.next = number.checked_add(1).filter(|&next| next <= R::LAST);
        self.lengths.observe(data.len());
        let mut aad = [0; AAD_OCTETS];
        let aad_octets = self.numbering.aad(number, data.len(), &mut aad).min(AAD_OCTETS);
        let aad = &aad[..aad_octets];
        // A used preparation stays until its slot is needed, and is wiped then, outside of the message's
        // time. Its number has passed, so nobody uses it again.
        let filled = self.filled > 0 || self.unfinished.is_some();
        if self.filled == 0 {
            self.unfinished = None;
        }
        self.filled = self.filled.saturating_sub(1);
        let prepared = self.slots.get_mut(slot_of::<SLOTS>(number));
        let (tag, hit) = match prepared.filter(|prepared| filled && *prepared.nonce() == nonce) {
            Some(prepared) => {
                let sealed = prepared.consume(aad, data);
                (sealed.tag, sealed.hit)
            }
            None => (self.ccm.seal(&nonce, aad, data), CacheHit::Miss),
        };
        Ok(Sent { number, tag, hit })
    }
}

const fn slot_of<const SLOTS: usize>(number: u64) -> usize {
    if SLOTS == 0 { 0 } else { (number % SLOTS as u64) as usize }
}
