//! PNs of a link in the kernel, searched: a model by hand of lines of C, and mutants of it. `FRAMEWARD_MODELS=deep` begins in more places.

mod search;

use models::transmit_pns::{Mutant, World};
use search::{is_deep, search};
use stateright::{Checker as _, Model as _};

/// Next PN and last reserved one: in the midst; at the last one reserved; at the suite's last one.
const BEGINNINGS: [(u8, u8); 3] = [(1, 3), (2, 2), (3, 3)];
const MORE: [(u8, u8); 3] = [(1, 1), (1, 2), (2, 3)];

#[test]
fn no_pn_comes_twice_in_any_order_of_frames_and_control() {
    let more: &[_] = if is_deep() { &MORE } else { &[] };
    for &(next, reserved) in BEGINNINGS.iter().chain(more) {
        search(
            &format!("transmit PNs, {next} of {reserved}"),
            World { frames: 2, next, reserved, mutant: None },
            |model| format!("{} frames, one move", model.frames),
            |_, state| format!("{state:?}"),
        );
    }
}

#[test]
fn each_mutant_sends_a_pn_twice() {
    let all =
        [Mutant::NoLook, Mutant::EncodingAlone, Mutant::InstanceAlone, Mutant::InstanceFirst, Mutant::Store];
    for mutant in all {
        let world = World { frames: 2, next: 1, reserved: 3, mutant: Some(mutant) };
        let checker = world.checker().spawn_bfs().join();
        let found = checker.discoveries();
        for (property, path) in &found {
            println!("{mutant:?}: NOT SO: {property}: {:?}", path.clone().into_actions());
        }
        assert!(found.contains_key("no PN is sent twice under a key"), "{mutant:?} is not found");
    }
}
