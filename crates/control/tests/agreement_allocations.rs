//! Workers allocate nothing while keys are agreed on: MKPDUs and garbage come, SAs are changed, what fragments SDUs too.

#![allow(clippy::unwrap_used)]

mod agreed;
#[path = "../../netdev/tests/counting/mod.rs"]
mod counting;

use agreed::{NAMES, Pair, agreement, garbage, kay, plain_kay};

// One test alone: what other tests' threads allocate would count.
#[test]
fn a_worker_allocates_nothing_while_keys_roll() {
    counting::allow_this_thread();
    let mut pair = Pair::new("allocations", [kay(0), kay(1)]);
    let first = pair.secure();
    counting::begin();

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
    assert_eq!(counting::end(), 0);
}
