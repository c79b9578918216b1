//! Workers allocate nothing while keys are agreed on: MKPDUs and garbage come, SAs are changed, what divides SDUs too.

#![allow(unsafe_code, clippy::unwrap_used)]

mod agreed;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agreed::{NAMES, Pair, agreement, garbage, kay, plain_kay};

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

// One test alone: what other tests' threads allocate would count.
#[test]
fn a_worker_allocates_nothing_while_keys_roll() {
    CONTROL.set(true);
    let mut pair = Pair::new("allocations", [kay(0), kay(1)]);
    let first = pair.secure();
    COUNTING.store(true, Ordering::Relaxed);
    std::thread::spawn(|| drop(std::hint::black_box(vec![0_u8; 10]))).join().unwrap();
    assert!(ALLOCATIONS.swap(0, Ordering::Relaxed) >= 2, "the counter counts");

    let mut number = 0;
    for settings in [kay(1), plain_kay(1), kay(1)] {
        pair.gateway.change_key_agreement(NAMES[1], agreement(settings)).unwrap();
        for side in [0, 1] {
            pair.gateway.rekey(NAMES[side]);
            for _ in 0..20 {
                for _ in 0..40 {
                    number += 1;
                    assert!(pair.sides[side].wire.inject(&garbage(number)));
                }
                pair.exchange(16, 1400);
            }
            pair.secure();
        }
    }
    // The SecY's other end of the wire vanishes: SCs and SAs go.
    pair.sides[0].cut = true;
    pair.until("it is noticed", |pair| pair.status(1).status.saks.is_empty());
    pair.sides[0].cut = false;
    assert_ne!(pair.secure(), first);
    COUNTING.store(false, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0);
}
