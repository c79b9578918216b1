//! A sender in memory that the caller gives.
//!
//! ```text
//!  memory  [ to the alignment | head | key | sender ............... ]
//!                               where it lies, who has it, where the sender is and of what type
//! ```
//!
//! The sender borrows the key beside it, so a context cannot be moved. The head knows its own address: zeros, a copy at
//! another place, and what was wiped are told from a context by it.

#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::ptr::{addr_of, addr_of_mut, NonNull};
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};

use zeroize::Zeroize as _;

use crate::octets::Area;
use crate::results::antedate_result::{self, *};
use crate::sizes::ANTEDATE_ALIGNMENT;

/// Beginning of a context. `S`: operations of C on the sender, whatever its size.
#[repr(C)]
pub(crate) struct Head<S: ?Sized> {
    /// Own address.
    address: usize,
    /// [`Kind::MARK`].
    mark: u32,
    /// Whether a call has the sender.
    busy: AtomicBool,
    /// Octets from here to the end of the context.
    octets: usize,
    sender: NonNull<S>,
}

/// Tag that tells one kind of sender from another, whatever C has cast.
pub(crate) trait Kind {
    /// In its head.
    const MARK: u32;
}

#[repr(C)]
struct Context<D: ?Sized, K, S> {
    head: Head<D>,
    key: K,
    sender: S,
}

/// Octets that [`place`] needs of memory that is aligned to [`ANTEDATE_ALIGNMENT`].
pub(crate) const fn needed<D: ?Sized, K, S>() -> usize {
    size_of::<Context<D, K, S>>() + align_of::<Context<D, K, S>>().saturating_sub(ANTEDATE_ALIGNMENT)
}

/// Puts key and sender into `memory`.
///
/// # Errors
/// If it is too small, or not aligned.
///
/// # Safety
/// `octets` octets from `memory` on can be written, and belong to the sender until it is wiped.
pub(crate) unsafe fn place<D: Kind + ?Sized, K: 'static, S: 'static>(
    memory: *mut u8,
    octets: usize,
    key: K,
    make: impl FnOnce(&'static K) -> S,
    erase: impl FnOnce(NonNull<S>) -> NonNull<D>,
) -> Result<NonNull<Head<D>>, antedate_result> {
    let to_alignment = memory.align_offset(align_of::<Context<D, K, S>>());
    if !(memory as usize).is_multiple_of(ANTEDATE_ALIGNMENT) || octets < needed::<D, K, S>() {
        return Err(ANTEDATE_ERROR_MEMORY);
    }
    // SAFETY: `to_alignment` is less than what `needed` has beyond the context's size, which is within `octets`.
    let context: *mut Context<D, K, S> = unsafe { memory.add(to_alignment) }.cast();
    // SAFETY: aligned and within the caller's memory, which is nobody else's. The key is written before it is borrowed, and
    // never again while the sender lives: `Entered` borrows head and sender alone. So the borrow may last as long as
    // the sender does, which nobody can take out of its place.
    unsafe {
        addr_of_mut!((*context).key).write(key);
        addr_of_mut!((*context).sender).write(make(&*addr_of!((*context).key)));
        let head = Head {
            address: context as usize,
            mark: D::MARK,
            busy: AtomicBool::new(false),
            octets: size_of::<Context<D, K, S>>(),
            sender: erase(NonNull::new_unchecked(addr_of_mut!((*context).sender))),
        };
        addr_of_mut!((*context).head).write(head);
        Ok(NonNull::new_unchecked(context.cast()))
    }
}

/// A sender in the hands of one call.
pub(crate) struct Entered<'a, D: ?Sized> {
    pub(crate) sender: &'a mut D,
    /// All of the context.
    pub(crate) area: Area,
    busy: &'a AtomicBool,
}

impl<D: ?Sized> Drop for Entered<'_, D> {
    fn drop(&mut self) {
        self.busy.store(false, Ordering::Release);
    }
}

/// Takes the sender for one call.
///
/// # Errors
/// If this is none, or another call has it.
///
/// # Safety
/// `head` is NULL, or it points to octets that can be read and written and that are a [`Head`] or hold no address of
/// themselves; nobody else writes to them but functions of this library.
pub(crate) unsafe fn enter<'a, D: Kind + ?Sized>(
    head: *mut Head<D>,
) -> Result<Entered<'a, D>, antedate_result> {
    if head.is_null() {
        return Err(ANTEDATE_ERROR_NULL);
    }
    // SAFETY: not NULL, aligned, and the caller grants that it can be read; each field is read only if those before it
    // are right.
    unsafe {
        if !head.is_aligned()
            || addr_of!((*head).address).read() != head as usize
            || addr_of!((*head).mark).read() != D::MARK
        {
            return Err(ANTEDATE_ERROR_NO_SENDER);
        }
        let busy = &*addr_of!((*head).busy);
        if is_taken(busy) {
            return Err(ANTEDATE_ERROR_BUSY);
        }
        let octets = addr_of!((*head).octets).read();
        let sender = addr_of!((*head).sender).read().as_mut();
        // The context was placed, so its end is no address that overflows.
        let area = Area::new(head, octets)?;
        Ok(Entered { sender, area, busy })
    }
}

/// Whether another call has it; if not, this one has it now.
fn is_taken(busy: &AtomicBool) -> bool {
    // Processors that cannot swap have one core: an interrupt between these two ends before the second.
    #[cfg(not(target_has_atomic = "8"))]
    {
        let taken = busy.load(Ordering::Acquire);
        busy.store(true, Ordering::Release);
        taken
    }
    #[cfg(target_has_atomic = "8")]
    busy.swap(true, Ordering::Acquire)
}

/// Wipes key, keystream and all else.
///
/// # Errors
/// As [`enter`].
///
/// # Safety
/// As [`enter`].
pub(crate) unsafe fn wipe<D: Kind + ?Sized>(head: *mut Head<D>) -> Result<(), antedate_result> {
    // SAFETY: as the caller grants it.
    let entered = unsafe { enter(head) }?;
    let octets = entered.area.octets();
    // It stays taken until its address is gone.
    core::mem::forget(entered);
    // SAFETY: these octets are the context, which was placed by `place` and is in the hands of this call alone. What lies in
    // it owns nothing outside, so nothing has to be dropped.
    unsafe { slice::from_raw_parts_mut(head.cast::<MaybeUninit<u8>>(), octets) }.zeroize();
    Ok(())
}
