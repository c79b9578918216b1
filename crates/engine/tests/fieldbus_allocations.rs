//! Workers allocate nothing and free nothing while a cell's keys, relations and reports come and go.

#![allow(unsafe_code, clippy::unwrap_used)]

mod cells;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cells::{NAMES, Pair, cyclic, settings, short_epochs};
use fieldbus::Mode;

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
fn a_worker_allocates_nothing_while_a_cell_lives() {
    CONTROL.set(true);
    let of = |side, relations: std::ops::Range<usize>| {
        let mut settings = short_epochs(settings(side, relations), 7);
        settings.relations[0].mode = Mode::Shadow;
        settings
    };
    let mut pair = Pair::new("allocations", [0, 1].map(|side| of(side, 0..20)));
    pair.secure();
    COUNTING.store(true, Ordering::Relaxed);
    std::thread::spawn(|| drop(std::hint::black_box(vec![0_u8; 10]))).join().unwrap();
    assert!(ALLOCATIONS.swap(0, Ordering::Relaxed) >= 2, "the counter counts");

    let mut count = 0;
    for round in 0..4 {
        for _ in 0..20 {
            count += 1;
            // What is not genuine, too: recorded, changed, HELLOs.
            let seen = pair.seen.split_off(pair.seen.len().saturating_sub(40));
            for (from, mut frame) in seen {
                let last = frame.len() - 1;
                frame[last] ^= (count % 2) as u8;
                pair.sides[1 - from].wire.inject(&frame);
            }
            pair.exchange(20, count);
        }
        for (side, name) in NAMES.into_iter().enumerate() {
            // Another order of them, one less and one more.
            let mut changed = of(side, 0..20 + round);
            changed.relations.rotate_left(round);
            changed.relations.iter_mut().for_each(|relation| relation.mode = Mode::Protect);
            pair.gateway.change_cell(name, changed).unwrap();
        }
        pair.secure();
    }
    pair.gateway.remove_cell(NAMES[0]).unwrap();
    pair.sides[0].machine.inject(&cyclic(0, 0, 1));
    pair.gateway.add_cell(NAMES[0], of(0, 0..20)).unwrap();
    pair.until("the other end follows", |pair| pair.status(0).hello.sessions_confirmed == 20);
    COUNTING.store(false, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0);
}
