//! AES-GCM: nonces of a prefix and a number, an AAD for each message.

// The comments that C reads list the caller's obligations.
#![allow(unsafe_code, clippy::missing_safety_doc)]

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use antedate::gcm::sender::{Sender, PREFIX_OCTETS};
use antedate::Gcm;

use crate::cipher::Cipher;
use crate::memory::{self, enter, needed, place, Head, Kind};
use crate::octets::{self, Area};
use crate::results::antedate_result::{self, *};
use crate::results::{answer, antedate_sent, prepared};
use crate::sizes::{choose, ANTEDATE_LARGE_OCTETS, ANTEDATE_MEDIUM_OCTETS, ANTEDATE_SMALL_OCTETS};

/// Octets of a GCM tag.
pub const ANTEDATE_GCM_TAG_OCTETS: usize = 16;
/// Octets of a GCM nonce in front of the number.
pub const ANTEDATE_GCM_PREFIX_OCTETS: usize = 4;

const _: () = assert!(ANTEDATE_GCM_PREFIX_OCTETS == PREFIX_OCTETS);

/// Seals GCM messages under one key. It lies in memory that its owner gave, and must not be moved.
pub struct antedate_gcm {
    _private: [u8; 0],
}

// The promise of sizes.rs: a sender fits into its memory, on each machine that this is built for.
const _: () = assert!(
    fits::<64, 2>(ANTEDATE_SMALL_OCTETS)
        && fits::<256, 4>(ANTEDATE_MEDIUM_OCTETS)
        && fits::<1024, 4>(ANTEDATE_LARGE_OCTETS)
);

const fn fits<const N: usize, const SLOTS: usize>(octets: usize) -> bool {
    needed::<dyn Messages, Gcm<Cipher>, Sender<'static, Cipher, N, SLOTS>>() <= octets
}

/// Parameters for sealing GCM messages. The octets that it points at are copied.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct antedate_gcm_config {
    /// The key.
    pub key: *const u8,
    /// 16 (AES-128) or 32 (AES-256).
    pub key_octets: usize,
    /// Beginning of nonces; no other sender has this one under this key. The message's number follows, in 8
    /// octets, most significant first.
    pub prefix: [u8; 4],
    /// The number of the first message. No number from here on was ever used under this key and prefix: keep the next one in
    /// memory that survives a restart, or change the key.
    pub first_number: u64,
}

/// Operations of C on a sender, however much is prepared.
pub(crate) trait Messages {
    fn prepare(&mut self, octets: usize, aad: &[u8]) -> bool;
    fn prepare_as_before(&mut self, aad: &[u8]) -> bool;
    fn fill_level(&self) -> usize;
    fn next_unprepared(&self) -> Option<u64>;
    fn send(
        &mut self,
        aad: &[u8],
        buffer: &mut [u8],
        length: usize,
    ) -> Result<antedate_sent, antedate_result>;
}

impl Kind for dyn Messages {
    const MARK: u32 = u32::from_be_bytes(*b"acGM");
}

impl<const N: usize, const SLOTS: usize> Messages for Sender<'static, Cipher, N, SLOTS> {
    fn prepare(&mut self, octets: usize, aad: &[u8]) -> bool {
        Sender::prepare(self, octets, aad)
    }

    fn prepare_as_before(&mut self, aad: &[u8]) -> bool {
        Sender::prepare_as_before(self, aad)
    }

    fn fill_level(&self) -> usize {
        Sender::fill_level(self)
    }

    fn next_unprepared(&self) -> Option<u64> {
        Sender::next_unprepared(self)
    }

    fn send(
        &mut self,
        aad: &[u8],
        buffer: &mut [u8],
        length: usize,
    ) -> Result<antedate_sent, antedate_result> {
        let (data, rest) = buffer.split_at_mut_checked(length).ok_or(ANTEDATE_ERROR_ROOM)?;
        let tag = rest.get_mut(..ANTEDATE_GCM_TAG_OCTETS).ok_or(ANTEDATE_ERROR_ROOM)?;
        let sent = Sender::send(self, aad, data)?;
        tag.copy_from_slice(&sent.tag);
        Ok(antedate_sent {
            octets: length + ANTEDATE_GCM_TAG_OCTETS,
            number: sent.number,
            met: sent.hit.into(),
        })
    }
}

/// Begins to send GCM messages; as antedate_ccm_init.
#[no_mangle]
pub unsafe extern "C" fn antedate_gcm_init(
    memory: *mut c_void,
    octets: usize,
    config: *const antedate_gcm_config,
    sender: *mut *mut antedate_gcm,
) -> antedate_result {
    let attempt = || {
        Area::new(memory, octets)?.is_apart_from(Area::of(sender)?)?;
        // SAFETY: the caller's pointer, checked here for NULL.
        let config = unsafe { config.as_ref() }.ok_or(ANTEDATE_ERROR_NULL)?;
        let (prefix, first) = (config.prefix, config.first_number);
        // SAFETY: the key can be read, with the length in the configuration, which the caller grants.
        let gcm = Gcm::new(Cipher::new(unsafe { octets::read(config.key, config.key_octets) }?)?);
        macro_rules! with {
            ($keystream:literal, $template:literal, $slots:literal) => {{
                type Made = Sender<'static, Cipher, $keystream, $slots>;
                let make = |gcm| Made::new(gcm, prefix, first);
                // SAFETY: as the caller grants it.
                unsafe {
                    place(memory.cast(), octets, gcm, make, |sender: NonNull<Made>| {
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

/// Prepares for one more message, while there is nothing else to do. `expected`: its octets. `aad`: what its AAD will
/// begin with, as far as that is known; may be NULL. A wrong guess costs time when the message is sent, nothing else.
/// ANTEDATE_FULL: nothing more can be prepared now.
#[no_mangle]
pub unsafe extern "C" fn antedate_gcm_prepare(
    sender: *mut antedate_gcm,
    expected: usize,
    aad: *const c_void,
    aad_octets: usize,
) -> antedate_result {
    // SAFETY: as the caller grants it.
    unsafe { prepare(sender, aad, aad_octets, |sender, aad| sender.prepare(expected, aad)) }
}

/// Prepares for one more message that is no longer than those before it.
#[no_mangle]
pub unsafe extern "C" fn antedate_gcm_prepare_as_before(
    sender: *mut antedate_gcm,
    aad: *const c_void,
    aad_octets: usize,
) -> antedate_result {
    // SAFETY: as the caller grants it.
    unsafe { prepare(sender, aad, aad_octets, |sender, aad| sender.prepare_as_before(aad)) }
}

/// # Safety
/// As `antedate_gcm_prepare`.
unsafe fn prepare(
    sender: *mut antedate_gcm,
    aad: *const c_void,
    aad_octets: usize,
    how: impl FnOnce(&mut dyn Messages, &[u8]) -> bool,
) -> antedate_result {
    let attempt = || {
        // SAFETY: as the caller grants it.
        let entered = unsafe { enter(head(sender)) }?;
        entered.area.is_apart_from(Area::new(aad, aad_octets)?)?;
        // SAFETY: the caller's octets, which are no part of the sender.
        let aad = unsafe { octets::read(aad.cast(), aad_octets) }?;
        prepared(how(entered.sender, aad))
    };
    answer(attempt())
}

/// Seals the next message in place, with what was prepared for it or in the ordinary way. `aad`: what is authenticated
/// beside it and not encrypted; may be NULL. `buffer`: `room` octets: `length` octets of data, then room for the tag of
/// ANTEDATE_GCM_TAG_OCTETS. Sender, AAD, buffer and `sent` do not overlap; `sent` may be NULL.
///
/// If this returns anything but ANTEDATE_OK, nothing was encrypted and nothing is to be sent.
#[no_mangle]
pub unsafe extern "C" fn antedate_gcm_send(
    sender: *mut antedate_gcm,
    aad: *const c_void,
    aad_octets: usize,
    buffer: *mut c_void,
    room: usize,
    length: usize,
    sent: *mut antedate_sent,
) -> antedate_result {
    let attempt = || {
        // SAFETY: as the caller grants it.
        let entered = unsafe { enter(head(sender)) }?;
        let (own, place) = (entered.area, Area::of(sent)?);
        let (beside, area) = (Area::new(aad, aad_octets)?, Area::new(buffer, room)?);
        own.is_apart_from(area).and(own.is_apart_from(place)).and(own.is_apart_from(beside))?;
        area.is_apart_from(place).and(area.is_apart_from(beside)).and(beside.is_apart_from(place))?;
        // SAFETY: the caller's octets, which are no part of the sender nor of the buffer.
        let aad = unsafe { octets::read(aad.cast(), aad_octets) }?;
        // SAFETY: the caller's octets, which are no part of the sender nor of the AAD.
        let outcome = entered.sender.send(aad, unsafe { octets::write(buffer.cast(), room) }?, length)?;
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
pub unsafe extern "C" fn antedate_gcm_fill_level(sender: *mut antedate_gcm) -> usize {
    // SAFETY: as the caller grants it.
    unsafe { enter(head(sender)) }.map_or(0, |entered| entered.sender.fill_level())
}

/// The number of the first message that is not prepared for: its AAD may hold it. ANTEDATE_FULL: there is none.
#[no_mangle]
pub unsafe extern "C" fn antedate_gcm_next_unprepared(
    sender: *mut antedate_gcm,
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
pub unsafe extern "C" fn antedate_gcm_wipe(sender: *mut antedate_gcm) -> antedate_result {
    // SAFETY: as the caller grants it.
    answer(unsafe { memory::wipe(head(sender)) })
}

fn head(sender: *mut antedate_gcm) -> *mut Head<dyn Messages> {
    sender.cast()
}
