//! AES-CCM: messages with a prefix and a number as their nonce, and records of DTLS 1.2.

// The comments that C reads list the caller's obligations.
#![allow(unsafe_code, clippy::missing_safety_doc)]

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use antedate::ccm::AAD_OCTETS;
use antedate::dtls::{self, RecordError, RecordNumbering};
use antedate::sender::Numbering;
use antedate::{Ccm, Expected, Nonce, Sender, Step, TagLength};

use crate::cipher::Cipher;
use crate::memory::{self, enter, needed, place, Head, Kind};
use crate::octets::{self, Area};
use crate::results::antedate_result::{self, *};
use crate::results::{answer, antedate_sent, prepared};
use crate::sizes::{choose, ANTEDATE_LARGE_OCTETS, ANTEDATE_MEDIUM_OCTETS, ANTEDATE_SMALL_OCTETS};

/// The longest AAD of a message, in octets.
pub const ANTEDATE_CCM_AAD_OCTETS: usize = 32;
/// Octets in front of the data of a DTLS record: its header, and the explicit nonce.
pub const ANTEDATE_DTLS_HEADER_OCTETS: usize = 21;
/// The type of DTLS records that hold what an application sends.
pub const ANTEDATE_DTLS_APPLICATION_DATA: u8 = 23;

const _: () = assert!(
    ANTEDATE_CCM_AAD_OCTETS == AAD_OCTETS
        && ANTEDATE_DTLS_HEADER_OCTETS == dtls::HEADER_OCTETS
        && ANTEDATE_DTLS_APPLICATION_DATA == dtls::APPLICATION_DATA
);

/// Octets of the number in a nonce, behind the prefix.
const NUMBER_OCTETS: usize = 4;

/// Seals CCM messages or DTLS records under one key. It lies in memory that its owner gave, and must not be moved.
pub struct antedate_ccm {
    _private: [u8; 0],
}

// The promise of sizes.rs: a sender fits into its memory, on each machine that this is built for.
const _: () = assert!(
    fits::<64, 32, 2>(ANTEDATE_SMALL_OCTETS)
        && fits::<256, 96, 4>(ANTEDATE_MEDIUM_OCTETS)
        && fits::<1024, 96, 4>(ANTEDATE_LARGE_OCTETS)
);

const fn fits<const N: usize, const T: usize, const SLOTS: usize>(octets: usize) -> bool {
    needed::<dyn Messages, Ccm<Cipher>, Sender<'static, Cipher, Prefixed, N, T, SLOTS>>() <= octets
        && needed::<dyn Messages, Ccm<Cipher>, Sender<'static, Cipher, RecordNumbering, N, T, SLOTS>>()
            <= octets
}

/// Parameters for sealing CCM messages. The octets that it points at are copied.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct antedate_ccm_config {
    /// The key.
    pub key: *const u8,
    /// 16 (AES-128) or 32 (AES-256).
    pub key_octets: usize,
    /// Octets of a tag: 4, 6, 8, 10, 12, 14 or 16.
    pub tag_octets: usize,
    /// Beginning of nonces; no other sender has this one under this key. The message's number follows, in 4
    /// octets, most significant first.
    pub prefix: *const u8,
    /// 3 to 9, for nonces of 7 to 13 octets.
    pub prefix_octets: usize,
    /// Octets that are authenticated with each message and not sent with it; may be NULL.
    pub aad: *const c_void,
    /// Up to ANTEDATE_CCM_AAD_OCTETS.
    pub aad_octets: usize,
    /// The number of the first message. No number from here on was ever used under this key and prefix: keep the next one in
    /// memory that survives a restart, or change the key.
    pub first_number: u32,
}

impl antedate_ccm_config {
    /// Key and numbering.
    ///
    /// # Safety
    /// Memory that the configuration points at can be read, with the lengths in it.
    pub(crate) unsafe fn read(&self) -> Result<(Ccm<Cipher>, Prefixed), antedate_result> {
        // SAFETY: as the caller grants it.
        let (prefix, prefix_octets) = unsafe { octets::copy(self.prefix, self.prefix_octets) }?;
        if prefix_octets < Nonce::SHORTEST - NUMBER_OCTETS {
            return Err(ANTEDATE_ERROR_LENGTH);
        }
        // SAFETY: as the caller grants it.
        let (aad, aad_octets) = unsafe { octets::copy(self.aad.cast(), self.aad_octets) }?;
        // SAFETY: as the caller grants it.
        let key = unsafe { octets::read(self.key, self.key_octets) }?;
        Ok((ccm(key, self.tag_octets)?, Prefixed { prefix, prefix_octets, aad, aad_octets }))
    }
}

/// Parameters for sealing DTLS 1.2 records: AES-CCM (tags of 16 octets) or AES-CCM-8 (RFC 6655), in one epoch
/// and direction. The octets that it points at are copied.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct antedate_dtls_config {
    /// The key: client_write_key or server_write_key.
    pub key: *const u8,
    /// 16 (AES-128) or 32 (AES-256).
    pub key_octets: usize,
    /// 16, or 8 for AES-CCM-8.
    pub tag_octets: usize,
    /// client_write_IV or server_write_IV.
    pub salt: [u8; 4],
    /// The epoch.
    pub epoch: u16,
    /// The type of the records, mostly ANTEDATE_DTLS_APPLICATION_DATA.
    pub content_type: u8,
    /// The sequence number of the first record, below 2^48: behind those that the handshake used in this epoch.
    pub first_number: u64,
}

/// Operations of C on a sender, whatever is prepared and however messages are numbered.
pub(crate) trait Messages {
    fn prepare(&mut self, expected: Expected, template: &[u8]) -> bool;
    fn step(&mut self, expected: Expected, template: &[u8], blocks: usize) -> Step;
    fn prepare_as_before(&mut self, template: &[u8]) -> bool;
    fn fill_level(&self) -> usize;
    fn next_unprepared(&self) -> Option<u64>;
    fn send(&mut self, buffer: &mut [u8], length: usize) -> Result<antedate_sent, antedate_result>;
}

impl Kind for dyn Messages {
    const MARK: u32 = u32::from_be_bytes(*b"acCM");
}

/// Layout of a numbered message in a buffer.
trait Written: Numbering + Sized {
    fn send<const N: usize, const T: usize, const SLOTS: usize>(
        sender: &mut Sender<'static, Cipher, Self, N, T, SLOTS>,
        buffer: &mut [u8],
        length: usize,
    ) -> Result<antedate_sent, antedate_result>;
}

impl<R: Written, const N: usize, const T: usize, const SLOTS: usize> Messages
    for Sender<'static, Cipher, R, N, T, SLOTS>
{
    fn prepare(&mut self, expected: Expected, template: &[u8]) -> bool {
        Sender::prepare(self, expected, template)
    }

    fn step(&mut self, expected: Expected, template: &[u8], blocks: usize) -> Step {
        Sender::step(self, expected, template, blocks)
    }

    fn prepare_as_before(&mut self, template: &[u8]) -> bool {
        Sender::prepare_as_before(self, template)
    }

    fn fill_level(&self) -> usize {
        Sender::fill_level(self)
    }

    fn next_unprepared(&self) -> Option<u64> {
        Sender::next_unprepared(self)
    }

    fn send(&mut self, buffer: &mut [u8], length: usize) -> Result<antedate_sent, antedate_result> {
        R::send(self, buffer, length)
    }
}

/// A prefix and a number; one AAD for all.
pub(crate) struct Prefixed {
    prefix: [u8; Nonce::LONGEST - NUMBER_OCTETS],
    prefix_octets: usize,
    aad: [u8; AAD_OCTETS],
    aad_octets: usize,
}

impl Numbering for Prefixed {
    const LAST: u64 = u32::MAX as u64;

    fn nonce(&self, number: u64) -> Nonce {
        let mut octets = [0; Nonce::LONGEST];
        let (prefix, rest) = octets.split_at_mut(self.prefix_octets);
        prefix.copy_from_slice(&self.prefix[..self.prefix_octets]);
        rest[..NUMBER_OCTETS].copy_from_slice(&(number as u32).to_be_bytes());
        Nonce::new(&octets[..self.prefix_octets + NUMBER_OCTETS])
            .expect("invariant: 3 to 9 octets and 4 are a nonce")
    }

    fn aad(&self, _number: u64, _length: usize, aad: &mut [u8; AAD_OCTETS]) -> usize {
        *aad = self.aad;
        self.aad_octets
    }
}

impl Written for Prefixed {
    fn send<const N: usize, const T: usize, const SLOTS: usize>(
        sender: &mut Sender<'static, Cipher, Self, N, T, SLOTS>,
        buffer: &mut [u8],
        length: usize,
    ) -> Result<antedate_sent, antedate_result> {
        let tag_octets = sender.ccm().tag_length().octets();
        let (data, rest) = buffer.split_at_mut_checked(length).ok_or(ANTEDATE_ERROR_ROOM)?;
        let tag = rest.get_mut(..tag_octets).ok_or(ANTEDATE_ERROR_ROOM)?;
        let sent = sender.send(data)?;
        tag.copy_from_slice(sent.tag.octets());
        Ok(antedate_sent { octets: length + tag_octets, number: sent.number, met: sent.hit.into() })
    }
}

impl Written for RecordNumbering {
    fn send<const N: usize, const T: usize, const SLOTS: usize>(
        sender: &mut Sender<'static, Cipher, Self, N, T, SLOTS>,
        buffer: &mut [u8],
        length: usize,
    ) -> Result<antedate_sent, antedate_result> {
        if length > dtls::LONGEST_DATA {
            return Err(ANTEDATE_ERROR_LENGTH);
        }
        let written = dtls::write(sender, buffer, length).map_err(|error| match error {
            RecordError::Room => ANTEDATE_ERROR_ROOM,
            RecordError::Exhausted => ANTEDATE_ERROR_EXHAUSTED,
        })?;
        Ok(antedate_sent { octets: written.octets, number: written.number, met: written.hit.into() })
    }
}

/// Begins to send CCM messages. `memory`: `octets` octets, aligned to ANTEDATE_ALIGNMENT, that belong to the sender until it
/// is wiped; ANTEDATE_SMALL_OCTETS, ANTEDATE_MEDIUM_OCTETS or ANTEDATE_LARGE_OCTETS of them decide what is prepared.
/// `*sender` is NULL unless this returns ANTEDATE_OK. Needs about as much of the stack as of the memory, for the moment.
#[no_mangle]
pub unsafe extern "C" fn antedate_ccm_init(
    memory: *mut c_void,
    octets: usize,
    config: *const antedate_ccm_config,
    sender: *mut *mut antedate_ccm,
) -> antedate_result {
    let read = || {
        // SAFETY: the caller's pointer, checked here for NULL.
        let config = unsafe { config.as_ref() }.ok_or(ANTEDATE_ERROR_NULL)?;
        // SAFETY: as the caller grants it.
        let (ccm, prefixed) = unsafe { config.read() }?;
        Ok((ccm, prefixed, u64::from(config.first_number)))
    };
    // SAFETY: as the caller grants it.
    unsafe { begin(memory, octets, sender, read) }
}

/// Begins to send DTLS 1.2 records; as antedate_ccm_init. The handshake is somebody else's: key and salt come from it.
#[no_mangle]
pub unsafe extern "C" fn antedate_dtls_init(
    memory: *mut c_void,
    octets: usize,
    config: *const antedate_dtls_config,
    sender: *mut *mut antedate_ccm,
) -> antedate_result {
    let read = || {
        // SAFETY: the caller's pointer, checked here for NULL.
        let config = unsafe { config.as_ref() }.ok_or(ANTEDATE_ERROR_NULL)?;
        if !matches!(config.tag_octets, 8 | 16) || config.first_number > RecordNumbering::LAST {
            return Err(ANTEDATE_ERROR_LENGTH);
        }
        // SAFETY: the key can be read, with the length in the configuration, which the caller grants.
        let key = unsafe { octets::read(config.key, config.key_octets) }?;
        let records = RecordNumbering { salt: config.salt, epoch: config.epoch, kind: config.content_type };
        Ok((ccm(key, config.tag_octets)?, records, config.first_number))
    };
    // SAFETY: as the caller grants it.
    unsafe { begin(memory, octets, sender, read) }
}

pub(crate) fn ccm(key: &[u8], tag_octets: usize) -> Result<Ccm<Cipher>, antedate_result> {
    let tag = TagLength::new(tag_octets).ok_or(ANTEDATE_ERROR_LENGTH)?;
    Ok(Ccm::new(Cipher::new(key)?, tag))
}

/// # Safety
/// As `antedate_ccm_init`.
unsafe fn begin<R: Written + 'static>(
    memory: *mut c_void,
    octets: usize,
    sender: *mut *mut antedate_ccm,
    read: impl FnOnce() -> Result<(Ccm<Cipher>, R, u64), antedate_result>,
) -> antedate_result {
    let attempt = || {
        Area::new(memory, octets)?.is_apart_from(Area::of(sender)?)?;
        let (ccm, numbering, first) = read()?;
        macro_rules! with {
            ($keystream:literal, $template:literal, $slots:literal) => {{
                type Made<R> = Sender<'static, Cipher, R, $keystream, $template, $slots>;
                let make = |ccm| Made::new(ccm, numbering, first);
                // SAFETY: as the caller grants it.
                unsafe {
                    place(memory.cast(), octets, ccm, make, |sender: NonNull<Made<R>>| {
                        sender as NonNull<dyn Messages>
                    })
                }
            }};
        }
        choose!(octets, with)
    };
    if memory.is_null() || sender.is_null() {
        return ANTEDATE_ERROR_NULL;
    }
    let begun = attempt();
    // SAFETY: not NULL, and the caller grants that it can be written.
    unsafe { sender.write(begun.map_or(ptr::null_mut(), |head| head.as_ptr().cast())) };
    answer(begun.map(drop))
}

/// Prepares for one more message, while there is nothing else to do. `expected`: its octets. `template`: what it will
/// begin with, as far as that is known; may be NULL. A wrong guess costs time when the message is sent, nothing else.
/// ANTEDATE_FULL: nothing more can be prepared now.
#[no_mangle]
pub unsafe extern "C" fn antedate_ccm_prepare(
    sender: *mut antedate_ccm,
    expected: usize,
    template: *const c_void,
    template_octets: usize,
) -> antedate_result {
    // SAFETY: as the caller grants it.
    unsafe {
        prepare(sender, template, template_octets, |sender, template| {
            prepared(sender.prepare(Expected::exactly(expected), template))
        })
    }
}

/// Prepares for one more message in steps, for an idle loop that has to be left soon: at most `blocks` blocks of AES, and at the
/// first step of a message 5 more at most. `expected` and `template` are taken at the first step. ANTEDATE_OK: a message is
/// prepared; ANTEDATE_MORE: there is more to do for this one. A message that is sent meanwhile uses what is ready.
#[no_mangle]
pub unsafe extern "C" fn antedate_ccm_step(
    sender: *mut antedate_ccm,
    expected: usize,
    template: *const c_void,
    template_octets: usize,
    blocks: usize,
) -> antedate_result {
    let expected = Expected::exactly(expected);
    // SAFETY: as the caller grants it.
    unsafe {
        prepare(sender, template, template_octets, |sender, template| {
            match sender.step(expected, template, blocks) {
                Step::Prepared => Ok(()),
                Step::More => Err(ANTEDATE_MORE),
                Step::Full => Err(ANTEDATE_FULL),
            }
        })
    }
}

/// Prepares for one more message that is as long as those before it have it.
#[no_mangle]
pub unsafe extern "C" fn antedate_ccm_prepare_as_before(
    sender: *mut antedate_ccm,
    template: *const c_void,
    template_octets: usize,
) -> antedate_result {
    // SAFETY: as the caller grants it.
    unsafe {
        prepare(sender, template, template_octets, |sender, template| {
            prepared(sender.prepare_as_before(template))
        })
    }
}

/// # Safety
/// As `antedate_ccm_prepare`.
unsafe fn prepare(
    sender: *mut antedate_ccm,
    template: *const c_void,
    template_octets: usize,
    how: impl FnOnce(&mut dyn Messages, &[u8]) -> Result<(), antedate_result>,
) -> antedate_result {
    let attempt = || {
        // SAFETY: as the caller grants it.
        let entered = unsafe { enter(head(sender)) }?;
        entered.area.is_apart_from(Area::new(template.cast::<u8>(), template_octets)?)?;
        // SAFETY: the caller's octets, which are no part of the sender.
        let template = unsafe { octets::read(template.cast(), template_octets) }?;
        how(entered.sender, template)
    };
    answer(attempt())
}

/// Seals the next message in place, with what was prepared for it or in the ordinary way. `buffer`: `room` octets, that do
/// not overlap the sender's.
///
/// A CCM message: `length` octets at the beginning of the buffer, then room for the tag. A DTLS record: `length` octets
/// behind ANTEDATE_DTLS_HEADER_OCTETS free ones, then room for the tag; the header is written too.
///
/// `sent` may be NULL. If this returns anything but ANTEDATE_OK, nothing was encrypted and nothing is to be sent.
#[no_mangle]
pub unsafe extern "C" fn antedate_ccm_send(
    sender: *mut antedate_ccm,
    buffer: *mut c_void,
    room: usize,
    length: usize,
    sent: *mut antedate_sent,
) -> antedate_result {
    let attempt = || {
        // SAFETY: as the caller grants it.
        let entered = unsafe { enter(head(sender)) }?;
        let (own, area, place) = (entered.area, Area::new(buffer, room)?, Area::of(sent)?);
        own.is_apart_from(area).and(own.is_apart_from(place)).and(area.is_apart_from(place))?;
        // SAFETY: the caller's octets, which are no part of the sender.
        let outcome = entered.sender.send(unsafe { octets::write(buffer.cast(), room) }?, length)?;
        if !sent.is_null() {
            // SAFETY: not NULL, and the caller grants that it can be written.
            unsafe { sent.write(outcome) };
        }
        Ok(())
    };
    answer(attempt())
}

/// Messages that are prepared for; 0 also if this is no sender.
#[no_mangle]
pub unsafe extern "C" fn antedate_ccm_fill_level(sender: *mut antedate_ccm) -> usize {
    // SAFETY: as the caller grants it.
    unsafe { enter(head(sender)) }.map_or(0, |entered| entered.sender.fill_level())
}

/// The number of the first message that is not prepared for: its template may hold it, as a sequence number.
/// ANTEDATE_FULL: there is none.
#[no_mangle]
pub unsafe extern "C" fn antedate_ccm_next_unprepared(
    sender: *mut antedate_ccm,
    number: *mut u64,
) -> antedate_result {
    let attempt = || {
        // SAFETY: as the caller grants it.
        let entered = unsafe { enter(head(sender)) }?;
        if number.is_null() {
            return Err(ANTEDATE_ERROR_NULL);
        }
        entered.area.is_apart_from(Area::of(number)?)?;
        let next = entered.sender.next_unprepared().ok_or(ANTEDATE_FULL)?;
        // SAFETY: not NULL, and the caller grants that it can be written.
        unsafe { number.write(next) };
        Ok(())
    };
    answer(attempt())
}

/// Ends the sender: wipes key and keystream, and gives the memory back.
#[no_mangle]
pub unsafe extern "C" fn antedate_ccm_wipe(sender: *mut antedate_ccm) -> antedate_result {
    // SAFETY: as the caller grants it.
    answer(unsafe { memory::wipe(head(sender)) })
}

fn head(sender: *mut antedate_ccm) -> *mut Head<dyn Messages> {
    sender.cast()
}
