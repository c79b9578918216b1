//! Templates: octets that the next message will begin with, out of those before it.

// The comments that C reads list the caller's obligations.
#![allow(unsafe_code, clippy::missing_safety_doc)]

use core::ffi::c_void;

use antedate::template::resort::{self, ResortError};
use antedate::template::{common_beginning, goose, ppmp};

use crate::octets::{self, Area};
use crate::results::answer;
use crate::results::antedate_result::{self, *};

/// The longest template that a sender uses, in octets. Longer ones may be given: it takes their beginning.
pub const ANTEDATE_TEMPLATE_OCTETS: usize = 96;

/// Beginning that all messages so far have in common. Zeros are none yet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct antedate_learned {
    /// The template.
    pub octets: [u8; ANTEDATE_TEMPLATE_OCTETS],
    /// Octets of it. After the first message all of that one, as far as there is room.
    pub length: usize,
    /// Messages that it was learned from.
    pub messages: u32,
}

/// Learns from one more message. The template is at `learned->octets`, and has `learned->length` octets.
#[no_mangle]
pub unsafe extern "C" fn antedate_learn(
    learned: *mut antedate_learned,
    message: *const c_void,
    octets: usize,
) -> antedate_result {
    let attempt = || {
        Area::of(learned)?.is_apart_from(Area::new(message, octets)?)?;
        // SAFETY: the caller's octets, which are no part of what is written to.
        let message = unsafe { octets::read(message.cast(), octets) }?;
        // SAFETY: the caller's pointer, checked here for NULL.
        let learned = unsafe { learned.as_mut() }.ok_or(ANTEDATE_ERROR_NULL)?;
        if learned.messages == 0 {
            learned.length = octets.min(ANTEDATE_TEMPLATE_OCTETS);
            learned.octets[..learned.length].copy_from_slice(&message[..learned.length]);
        } else {
            let template = learned.octets.get(..learned.length).ok_or(ANTEDATE_ERROR_LENGTH)?;
            learned.length = common_beginning(template, message);
        }
        learned.messages = learned.messages.saturating_add(1);
        Ok(())
    };
    answer(attempt())
}

/// GOOSE (IEC 61850-8-1): how much is known of the next message that announces a change. `message`: one before it, from
/// behind the EtherType. `*foreseen`: octets up to the time of the change; those of `message` are the template.
/// ANTEDATE_ERROR_MESSAGE: this is no GOOSE message.
#[no_mangle]
pub unsafe extern "C" fn antedate_goose_change(
    message: *const c_void,
    octets: usize,
    foreseen: *mut usize,
) -> antedate_result {
    // SAFETY: as the caller grants it.
    answer(unsafe { foresee(message, octets, foreseen, goose::predictable_prefix_of_change) })
}

/// GOOSE: writes to `next` the repetition that follows `message`, which differs in `sqNum` alone and is as long. It is the
/// template, and also what is to be sent unless something changes. `room`: at least `octets`.
///
/// ANTEDATE_ERROR_MESSAGE: this is no GOOSE message, or the next `sqNum` needs an octet more than this one has.
#[no_mangle]
pub unsafe extern "C" fn antedate_goose_repetition(
    message: *const c_void,
    octets: usize,
    next: *mut c_void,
    room: usize,
) -> antedate_result {
    // SAFETY: as the caller grants it.
    let attempt = unsafe {
        rewrite(message, octets, next, room, |message, next| {
            goose::repetition(message, next).ok_or(ANTEDATE_ERROR_MESSAGE)
        })
    };
    answer(attempt.map(drop))
}

/// PPMP (Eclipse Unide): how much is known of the next message that is formed like `message`. `*foreseen`: octets up to its
/// first time. ANTEDATE_ERROR_MESSAGE: a string in it does not end.
#[no_mangle]
pub unsafe extern "C" fn antedate_ppmp(
    message: *const c_void,
    octets: usize,
    foreseen: *mut usize,
) -> antedate_result {
    // SAFETY: as the caller grants it.
    answer(unsafe { foresee(message, octets, foreseen, ppmp::predictable_prefix) })
}

/// Puts types and lengths of fields (ISO/IEC 8825-1, types of one octet) in front of their values, so that the template is
/// longer: types and lengths seldom change. `sorted` is what is sealed and sent; it has as many octets as `message`. The
/// receiver puts them back with antedate_restore(). `*heads`: octets of types and lengths, which are a template for the next
/// message of this form.
///
/// ANTEDATE_ERROR_MESSAGE: these are no fields.
#[no_mangle]
pub unsafe extern "C" fn antedate_sort(
    message: *const c_void,
    octets: usize,
    sorted: *mut c_void,
    room: usize,
    heads: *mut usize,
) -> antedate_result {
    let attempt = || {
        let place = Area::of(heads)?;
        place.is_apart_from(Area::new(message, octets)?)?;
        place.is_apart_from(Area::new(sorted, room)?)?;
        // SAFETY: as the caller grants it.
        let found = unsafe {
            rewrite(message, octets, sorted, room, |message, sorted| {
                Ok(resort::heads_first(message, sorted)?)
            })
        }?;
        if heads.is_null() {
            return Err(ANTEDATE_ERROR_NULL);
        }
        // SAFETY: not NULL, and the caller grants that it can be written.
        unsafe { heads.write(found) };
        Ok(())
    };
    answer(attempt())
}

/// Undoes antedate_sort(). `sorted`: what was received, after it was opened. `message`: room for as many octets.
/// ANTEDATE_ERROR_MESSAGE: these are no sorted fields.
#[no_mangle]
pub unsafe extern "C" fn antedate_restore(
    sorted: *const c_void,
    octets: usize,
    message: *mut c_void,
    room: usize,
) -> antedate_result {
    // SAFETY: as the caller grants it.
    let attempt = unsafe {
        rewrite(sorted, octets, message, room, |sorted, message| Ok(resort::restore(sorted, message)?))
    };
    answer(attempt)
}

impl From<ResortError> for antedate_result {
    fn from(error: ResortError) -> Self {
        match error {
            ResortError::Malformed => ANTEDATE_ERROR_MESSAGE,
            ResortError::Room => ANTEDATE_ERROR_ROOM,
        }
    }
}

/// # Safety
/// As `antedate_goose_change`.
unsafe fn foresee(
    message: *const c_void,
    octets: usize,
    foreseen: *mut usize,
    prefix: impl FnOnce(&[u8]) -> Option<usize>,
) -> Result<(), antedate_result> {
    if foreseen.is_null() {
        return Err(ANTEDATE_ERROR_NULL);
    }
    Area::of(foreseen)?.is_apart_from(Area::new(message, octets)?)?;
    // SAFETY: the caller's octets, which are no part of what is written to.
    let found = prefix(unsafe { octets::read(message.cast(), octets) }?).ok_or(ANTEDATE_ERROR_MESSAGE)?;
    // SAFETY: not NULL, and the caller grants that it can be written.
    unsafe { foreseen.write(found) };
    Ok(())
}

/// # Safety
/// `from` can be read and `to` be written, and both hold values.
unsafe fn rewrite<T>(
    from: *const c_void,
    octets: usize,
    to: *mut c_void,
    room: usize,
    write: impl FnOnce(&[u8], &mut [u8]) -> Result<T, antedate_result>,
) -> Result<T, antedate_result> {
    Area::new(from, octets)?.is_apart_from(Area::new(to, room)?)?;
    // SAFETY: the caller's octets, which are apart.
    let (from, to) = unsafe { (octets::read(from.cast(), octets)?, octets::write(to.cast(), room)?) };
    write(from, to.get_mut(..octets).ok_or(ANTEDATE_ERROR_ROOM)?)
}
