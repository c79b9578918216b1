//! Opens messages of CCM and GCM, and records of DTLS 1.2: each number once.

// The comments that C reads list the caller's obligations.
#![allow(unsafe_code, clippy::missing_safety_doc)]

use core::ffi::c_void;
use core::ptr;

use antedate::ccm::AAD_OCTETS;
use antedate::dtls::{ReadError, Reader};
use antedate::gcm::sender::nonce_of;
use antedate::sender::Numbering as _;
use antedate::window::Window;
use antedate::{Ccm, Gcm, NotAuthentic};

use crate::ccm::{antedate_ccm_config, antedate_dtls_config, ccm, Prefixed};
use crate::cipher::Cipher;
use crate::gcm::{antedate_gcm_config, ANTEDATE_GCM_TAG_OCTETS};
use crate::memory::{self, enter, needed, place, Head, Kind};
use crate::octets::{self, Area};
use crate::results::answer;
use crate::results::antedate_result::{self, *};

/// Octets of a receiver.
#[cfg(target_pointer_width = "32")]
pub const ANTEDATE_RECEIVER_OCTETS: usize = 896;
/// Octets of a receiver.
#[cfg(not(target_pointer_width = "32"))]
pub const ANTEDATE_RECEIVER_OCTETS: usize = 1280;

const _: () = assert!(needed::<Receiver, (), Receiver>() <= ANTEDATE_RECEIVER_OCTETS);

/// Opens what one sender sealed under one key. It lies in memory that its owner gave, and must not be moved.
pub struct antedate_receiver {
    _private: [u8; 0],
}

/// A message that was opened.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct antedate_opened {
    /// Octets of the data. It begins where the message began; in a DTLS record ANTEDATE_DTLS_HEADER_OCTETS behind.
    pub octets: usize,
    /// The number.
    pub number: u64,
    /// The type of a DTLS record; otherwise 0.
    pub content_type: u8,
}

/// A key, with the numbers that were taken under it.
pub(crate) enum Receiver {
    Ccm(Ccm<Cipher>, Prefixed, Window),
    Dtls(Ccm<Cipher>, Reader),
    Gcm(Gcm<Cipher>, [u8; 4], Window),
}

impl Kind for Receiver {
    const MARK: u32 = u32::from_be_bytes(*b"acRX");
}

/// Begins to open CCM messages. `config`: that of their sender, but for `first_number`: the lowest number that is taken. After a
/// restart it is behind the highest one that was, unless the key is new: else old messages are taken again. `memory`:
/// ANTEDATE_RECEIVER_OCTETS, aligned to ANTEDATE_ALIGNMENT, that belong to the receiver until it is wiped.
#[no_mangle]
pub unsafe extern "C" fn antedate_ccm_receiver_init(
    memory: *mut c_void,
    octets: usize,
    config: *const antedate_ccm_config,
    receiver: *mut *mut antedate_receiver,
) -> antedate_result {
    let read = || {
        // SAFETY: the caller's pointer, checked here for NULL.
        let config = unsafe { config.as_ref() }.ok_or(ANTEDATE_ERROR_NULL)?;
        // SAFETY: as the caller grants it.
        let (ccm, prefixed) = unsafe { config.read() }?;
        Ok(Receiver::Ccm(ccm, prefixed, Window::from(config.first_number.into())))
    };
    // SAFETY: as the caller grants it.
    unsafe { begin(memory, octets, receiver, read) }
}

/// Begins to read DTLS 1.2 records; as antedate_ccm_receiver_init. `config`: the other end's; `content_type` is
/// not looked at.
#[no_mangle]
pub unsafe extern "C" fn antedate_dtls_receiver_init(
    memory: *mut c_void,
    octets: usize,
    config: *const antedate_dtls_config,
    receiver: *mut *mut antedate_receiver,
) -> antedate_result {
    let read = || {
        // SAFETY: the caller's pointer, checked here for NULL.
        let config = unsafe { config.as_ref() }.ok_or(ANTEDATE_ERROR_NULL)?;
        if !matches!(config.tag_octets, 8 | 16) {
            return Err(ANTEDATE_ERROR_LENGTH);
        }
        // SAFETY: the key can be read, with the length in the configuration, which the caller grants.
        let key = unsafe { octets::read(config.key, config.key_octets) }?;
        Ok(Receiver::Dtls(
            ccm(key, config.tag_octets)?,
            Reader::new(config.salt, config.epoch, config.first_number),
        ))
    };
    // SAFETY: as the caller grants it.
    unsafe { begin(memory, octets, receiver, read) }
}

/// Begins to open GCM messages; as antedate_ccm_receiver_init.
#[no_mangle]
pub unsafe extern "C" fn antedate_gcm_receiver_init(
    memory: *mut c_void,
    octets: usize,
    config: *const antedate_gcm_config,
    receiver: *mut *mut antedate_receiver,
) -> antedate_result {
    let read = || {
        // SAFETY: the caller's pointer, checked here for NULL.
        let config = unsafe { config.as_ref() }.ok_or(ANTEDATE_ERROR_NULL)?;
        // SAFETY: the key can be read, with the length in the configuration, which the caller grants.
        let key = unsafe { octets::read(config.key, config.key_octets) }?;
        Ok(Receiver::Gcm(Gcm::new(Cipher::new(key)?), config.prefix, Window::from(config.first_number)))
    };
    // SAFETY: as the caller grants it.
    unsafe { begin(memory, octets, receiver, read) }
}

/// # Safety
/// As `antedate_ccm_receiver_init`.
unsafe fn begin(
    memory: *mut c_void,
    octets: usize,
    receiver: *mut *mut antedate_receiver,
    read: impl FnOnce() -> Result<Receiver, antedate_result>,
) -> antedate_result {
    if memory.is_null() || receiver.is_null() {
        return ANTEDATE_ERROR_NULL;
    }
    let attempt = || {
        Area::new(memory, octets)?.is_apart_from(Area::of(receiver)?)?;
        let made = read()?;
        // SAFETY: as the caller grants it.
        unsafe { place(memory.cast(), octets, (), |_| made, |receiver| receiver) }
    };
    let begun = attempt();
    // SAFETY: not NULL, and the caller grants that it can be written.
    unsafe { receiver.write(begun.map_or(ptr::null_mut(), |head| head.as_ptr().cast())) };
    answer(begun.map(drop))
}

/// Opens the CCM message with this number in place. `message`: `octets` octets, the tag among them. `opened` may be NULL.
///
/// ANTEDATE_ERROR_REPLAYED: this number was taken, or is older than the last 64; ANTEDATE_ERROR_NOT_AUTHENTIC: forged, or of
/// another key or number, and the data is wiped. Whatever is refused moves nothing.
#[no_mangle]
pub unsafe extern "C" fn antedate_ccm_open(
    receiver: *mut antedate_receiver,
    number: u64,
    message: *mut c_void,
    octets: usize,
    opened: *mut antedate_opened,
) -> antedate_result {
    // SAFETY: as the caller grants it.
    let result = unsafe {
        open(receiver, message, octets, opened, |receiver, message| {
            let Receiver::Ccm(ccm, prefixed, window) = receiver else { return Err(ANTEDATE_ERROR_NO_SENDER) };
            let of_data = message.len().checked_sub(ccm.tag_length().octets());
            let length = of_data.filter(|_| number <= Prefixed::LAST).ok_or(ANTEDATE_ERROR_MESSAGE)?;
            once(window, number, || {
                let mut aad = [0; AAD_OCTETS];
                let aad_octets = prefixed.aad(number, length, &mut aad);
                let (data, tag) = message.split_at_mut(length);
                Ok(ccm.open(&prefixed.nonce(number), &aad[..aad_octets], data, tag)?)
            })?;
            Ok(antedate_opened { octets: length, number, content_type: 0 })
        })
    };
    answer(result)
}

/// Opens one DTLS record in place; as antedate_ccm_open. A datagram may hold several: each is 13 octets longer than the number
/// in its octets 11 and 12. ANTEDATE_ERROR_EPOCH: the record belongs to other keys.
#[no_mangle]
pub unsafe extern "C" fn antedate_dtls_open(
    receiver: *mut antedate_receiver,
    record: *mut c_void,
    octets: usize,
    opened: *mut antedate_opened,
) -> antedate_result {
    // SAFETY: as the caller grants it.
    let result = unsafe {
        open(receiver, record, octets, opened, |receiver, record| {
            let Receiver::Dtls(ccm, reader) = receiver else { return Err(ANTEDATE_ERROR_NO_SENDER) };
            let read = reader.read(ccm, record)?;
            Ok(antedate_opened { octets: read.data.len(), number: read.number, content_type: read.kind })
        })
    };
    answer(result)
}

/// Opens the GCM message with this number in place; as antedate_ccm_open. `aad`: `aad_octets` octets that were authenticated
/// with it; may be NULL if there are none.
#[no_mangle]
pub unsafe extern "C" fn antedate_gcm_open(
    receiver: *mut antedate_receiver,
    number: u64,
    aad: *const c_void,
    aad_octets: usize,
    message: *mut c_void,
    octets: usize,
    opened: *mut antedate_opened,
) -> antedate_result {
    let apart = Area::new(aad, aad_octets).and_then(|aad| aad.is_apart_from(Area::new(message, octets)?));
    // SAFETY: as the caller grants it; the AAD is no part of what is written to.
    let result = apart.and_then(|()| unsafe {
        let aad = octets::read(aad.cast(), aad_octets)?;
        open(receiver, message, octets, opened, |receiver, message| {
            let Receiver::Gcm(gcm, prefix, window) = receiver else { return Err(ANTEDATE_ERROR_NO_SENDER) };
            let (data, tag) =
                message.split_last_chunk_mut::<ANTEDATE_GCM_TAG_OCTETS>().ok_or(ANTEDATE_ERROR_MESSAGE)?;
            once(window, number, || Ok(gcm.open(&nonce_of(*prefix, number), aad, data, tag)?))?;
            Ok(antedate_opened { octets: data.len(), number, content_type: 0 })
        })
    });
    answer(result)
}

/// Ends the receiver: wipes the key, and gives the memory back.
#[no_mangle]
pub unsafe extern "C" fn antedate_receiver_wipe(receiver: *mut antedate_receiver) -> antedate_result {
    // SAFETY: as the caller grants it.
    answer(unsafe { memory::wipe(receiver.cast::<Head<Receiver>>()) })
}

fn once(
    window: &mut Window,
    number: u64,
    open: impl FnOnce() -> Result<(), antedate_result>,
) -> Result<(), antedate_result> {
    if !window.is_new(number) {
        return Err(ANTEDATE_ERROR_REPLAYED);
    }
    open()?;
    window.take(number);
    Ok(())
}

/// # Safety
/// As `antedate_ccm_open`.
unsafe fn open(
    receiver: *mut antedate_receiver,
    message: *mut c_void,
    octets: usize,
    opened: *mut antedate_opened,
    how: impl FnOnce(&mut Receiver, &mut [u8]) -> Result<antedate_opened, antedate_result>,
) -> Result<(), antedate_result> {
    // SAFETY: as the caller grants it.
    let entered = unsafe { enter(receiver.cast::<Head<Receiver>>()) }?;
    let (own, area, place) = (entered.area, Area::new(message, octets)?, Area::of(opened)?);
    own.is_apart_from(area).and(own.is_apart_from(place)).and(area.is_apart_from(place))?;
    // SAFETY: the caller's octets, which are no part of the receiver.
    let outcome = how(entered.sender, unsafe { octets::write(message.cast(), octets) }?)?;
    if !opened.is_null() {
        // SAFETY: not NULL, and the caller grants that it can be written.
        unsafe { opened.write(outcome) };
    }
    Ok(())
}

impl From<NotAuthentic> for antedate_result {
    fn from(_: NotAuthentic) -> Self {
        ANTEDATE_ERROR_NOT_AUTHENTIC
    }
}

impl From<ReadError> for antedate_result {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Malformed => ANTEDATE_ERROR_MESSAGE,
            ReadError::Epoch => ANTEDATE_ERROR_EPOCH,
            ReadError::Replayed => ANTEDATE_ERROR_REPLAYED,
            ReadError::NotAuthentic => ANTEDATE_ERROR_NOT_AUTHENTIC,
        }
    }
}
