//! AES-CBC whose beginning is encrypted ahead, for protocols that have it still.

// The comments that C reads list the caller's obligations.
#![allow(unsafe_code, clippy::missing_safety_doc)]

use core::ffi::c_void;
use core::ptr;

use antedate::cbc::{Iv, NotWholeBlocks, Prepared};
use antedate::Cbc;

use crate::cipher::Cipher;
use crate::memory::{self, enter, needed, place, Head, Kind};
use crate::octets::{self, Area};
use crate::results::answer;
use crate::results::antedate_result::{self, *};
use crate::templates::ANTEDATE_TEMPLATE_OCTETS;

/// Octets of an IV of CBC, and of a block.
pub const ANTEDATE_CBC_IV_OCTETS: usize = 16;
/// Octets of memory for CBC.
#[cfg(target_pointer_width = "32")]
pub const ANTEDATE_CBC_OCTETS: usize = 1152;
/// Octets of memory for CBC.
#[cfg(not(target_pointer_width = "32"))]
pub const ANTEDATE_CBC_OCTETS: usize = 1536;

/// Blocks that are encrypted ahead.
const BLOCKS: usize = ANTEDATE_TEMPLATE_OCTETS / ANTEDATE_CBC_IV_OCTETS;

const _: () = assert!(size_of::<Iv>() == ANTEDATE_CBC_IV_OCTETS);
const _: () = assert!(needed::<Keyed, (), Keyed>() <= ANTEDATE_CBC_OCTETS);

/// Encrypts and decrypts CBC under one key. It lies in memory that its owner gave, and must not be moved.
pub struct antedate_cbc {
    _private: [u8; 0],
}

/// A key, with the beginning of the next message.
pub(crate) struct Keyed {
    cbc: Cbc<Cipher>,
    prepared: Option<Prepared<BLOCKS>>,
}

impl Kind for Keyed {
    const MARK: u32 = u32::from_be_bytes(*b"acBC");
}

/// Begins CBC under a key of 16 (AES-128) or 32 octets (AES-256). `memory`: ANTEDATE_CBC_OCTETS, aligned to
/// ANTEDATE_ALIGNMENT, that belong to CBC until it is wiped.
///
/// CBC does not authenticate: put a MAC over IV and ciphertext, and check it before decryption. The protocol defines the
/// padding to whole blocks. A new protocol takes CCM or GCM.
#[no_mangle]
pub unsafe extern "C" fn antedate_cbc_init(
    memory: *mut c_void,
    octets: usize,
    key: *const u8,
    key_octets: usize,
    cbc: *mut *mut antedate_cbc,
) -> antedate_result {
    if memory.is_null() || cbc.is_null() {
        return ANTEDATE_ERROR_NULL;
    }
    let attempt = || {
        Area::new(memory, octets)?.is_apart_from(Area::of(cbc)?)?;
        // SAFETY: the key can be read, with this length, which the caller grants.
        let cipher = Cipher::new(unsafe { octets::read(key, key_octets) }?)?;
        let keyed = Keyed { cbc: Cbc::new(cipher), prepared: None };
        // SAFETY: as the caller grants it.
        unsafe { place(memory.cast(), octets, (), |_| keyed, |keyed| keyed) }
    };
    let begun = attempt();
    // SAFETY: not NULL, and the caller grants that it can be written.
    unsafe {
        cbc.write(begun.map_or(ptr::null_mut(), |head: ptr::NonNull<Head<Keyed>>| head.as_ptr().cast()))
    };
    answer(begun.map(drop))
}

/// Encrypts the beginning of the next message, while there is nothing else to do. `iv`: ANTEDATE_CBC_IV_OCTETS of a random
/// generator, used for one message, that nobody sees before it is sent. `beginning`: what the message will begin with; its whole
/// blocks are of use, up to ANTEDATE_TEMPLATE_OCTETS. Takes the place of what was prepared before.
#[no_mangle]
pub unsafe extern "C" fn antedate_cbc_prepare(
    cbc: *mut antedate_cbc,
    iv: *const u8,
    beginning: *const c_void,
    octets: usize,
) -> antedate_result {
    let attempt = || {
        // SAFETY: as the caller grants it.
        let iv = unsafe { read_iv(iv) }?;
        // SAFETY: as the caller grants it.
        let entered = unsafe { enter(head(cbc)) }?;
        entered.area.is_apart_from(Area::new(beginning, octets)?)?;
        let Keyed { cbc, prepared } = entered.sender;
        // SAFETY: the caller's octets, which are no part of the key.
        let beginning = unsafe { octets::read(beginning.cast(), octets) }?;
        *prepared = Some(Prepared::new(cbc, &iv, beginning));
        Ok(())
    };
    answer(attempt())
}

/// Encrypts a message in place. `data`: whole blocks of 16 octets. `iv`: that of the preparation, or another one; then the
/// message takes the ordinary time, and the preparation stays. `ready` may be NULL: how many octets were encrypted
/// beforehand. CBC, data and `ready` do not overlap.
///
/// If this returns anything but ANTEDATE_OK, nothing was encrypted and nothing is to be sent.
#[no_mangle]
pub unsafe extern "C" fn antedate_cbc_encrypt(
    cbc: *mut antedate_cbc,
    iv: *const u8,
    data: *mut c_void,
    octets: usize,
    ready: *mut usize,
) -> antedate_result {
    let attempt = || {
        // SAFETY: as the caller grants it.
        let iv = unsafe { read_iv(iv) }?;
        // SAFETY: as the caller grants it.
        let entered = unsafe { enter(head(cbc)) }?;
        let (own, area, place) = (entered.area, Area::new(data, octets)?, Area::of(ready)?);
        own.is_apart_from(area).and(own.is_apart_from(place)).and(area.is_apart_from(place))?;
        // SAFETY: the caller's octets, which are no part of the key.
        let data = unsafe { octets::write(data.cast(), octets) }?;
        if !data.len().is_multiple_of(ANTEDATE_CBC_IV_OCTETS) {
            return Err(ANTEDATE_ERROR_LENGTH);
        }
        let Keyed { cbc, prepared } = entered.sender;
        let of_use = match prepared.take_if(|prepared| *prepared.iv() == iv) {
            Some(prepared) => prepared.encrypt(cbc, data)?,
            None => cbc.encrypt(&iv, data).map(|()| 0)?,
        };
        if !ready.is_null() {
            // SAFETY: not NULL, and the caller grants that it can be written.
            unsafe { ready.write(of_use) };
        }
        Ok(())
    };
    answer(attempt())
}

/// Decrypts a message in place; the caller has checked that it is authentic. `data`: whole blocks of 16 octets.
#[no_mangle]
pub unsafe extern "C" fn antedate_cbc_decrypt(
    cbc: *mut antedate_cbc,
    iv: *const u8,
    data: *mut c_void,
    octets: usize,
) -> antedate_result {
    let attempt = || {
        // SAFETY: as the caller grants it.
        let iv = unsafe { read_iv(iv) }?;
        // SAFETY: as the caller grants it.
        let entered = unsafe { enter(head(cbc)) }?;
        entered.area.is_apart_from(Area::new(data, octets)?)?;
        // SAFETY: the caller's octets, which are no part of the key.
        Ok(entered.sender.cbc.decrypt(&iv, unsafe { octets::write(data.cast(), octets) }?)?)
    };
    answer(attempt())
}

/// Ends CBC: wipes key and preparation, and gives the memory back.
#[no_mangle]
pub unsafe extern "C" fn antedate_cbc_wipe(cbc: *mut antedate_cbc) -> antedate_result {
    // SAFETY: as the caller grants it.
    answer(unsafe { memory::wipe(head(cbc)) })
}

fn head(cbc: *mut antedate_cbc) -> *mut Head<Keyed> {
    cbc.cast()
}

/// # Safety
/// `iv` is NULL, or its octets can be read.
unsafe fn read_iv(iv: *const u8) -> Result<Iv, antedate_result> {
    // SAFETY: as the caller grants it.
    Ok(unsafe { octets::copy(iv, ANTEDATE_CBC_IV_OCTETS) }?.0)
}

impl From<NotWholeBlocks> for antedate_result {
    fn from(_: NotWholeBlocks) -> Self {
        ANTEDATE_ERROR_LENGTH
    }
}
