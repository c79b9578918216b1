//! An allocator that counts what other threads than the test's own allocate and free while it is asked to.
//!
//! It stands here and not in `testkit`, since it is unsafe code, which this crate alone may have. A test that uses it is alone
//! in its file: what other tests' threads allocate would count.

#![allow(unsafe_code, dead_code, reason = "an allocator; each test uses a part of this")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

thread_local! {
    /// This thread is the test's: control allocates.
    static CONTROL: Cell<bool> = const { Cell::new(false) };
}

/// Allocations of other threads count.
static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn count() {
    // A thread that ends has no locals any more, and turns no link.
    if COUNTING.load(Ordering::Relaxed) && CONTROL.try_with(Cell::get) == Ok(false) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the system's allocator does all of it; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: as the caller says.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, octets: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller says.
        unsafe { System.realloc(pointer, layout, octets) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// From here on this thread is the test's own.
pub(crate) fn allow_this_thread() {
    CONTROL.set(true);
}

/// Begins to count, and sees that it does.
pub(crate) fn begin() {
    COUNTING.store(true, Ordering::Relaxed);
    std::thread::spawn(|| drop(std::hint::black_box(vec![0_u8; 10]))).join().expect("a thread");
    assert!(ALLOCATIONS.swap(0, Ordering::Relaxed) >= 2, "the counter counts");
}

/// Ends to count; how often other threads have allocated or freed.
pub(crate) fn end() -> usize {
    COUNTING.store(false, Ordering::Relaxed);
    ALLOCATIONS.load(Ordering::Relaxed)
}
