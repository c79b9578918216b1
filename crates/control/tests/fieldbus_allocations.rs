//! Workers allocate nothing and free nothing while a cell's keys, relations and reports come and go.

#![allow(clippy::unwrap_used)]

mod cells;
#[path = "../../netdev/tests/counting/mod.rs"]
mod counting;

use cells::{NAMES, Pair, cyclic, settings, short_epochs};
use fieldbus::Mode;

// One test alone: what other tests' threads allocate would count.
#[test]
fn a_worker_allocates_nothing_while_a_cell_lives() {
    counting::allow_this_thread();
    let of = |side, relations: std::ops::Range<usize>| {
        let mut settings = short_epochs(settings(side, relations), 7);
        settings.relations[0].mode = Mode::Shadow;
        settings
    };
    let mut pair = Pair::new("allocations", [0, 1].map(|side| of(side, 0..20)));
    pair.secure();
    counting::begin();

    let mut count = 0;
    for round in 0..4 {
        for _ in 0..20 {
            count += 1;
            // Frames that are not genuine, too: recorded ones, changed ones, HELLOs.
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
    assert_eq!(counting::end(), 0);
}
