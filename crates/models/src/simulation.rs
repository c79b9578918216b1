//! A world of links with key agreement, in one process, under virtual time, drawn from a seed: KaYs, SecYs and ciphers are the product's.
//! All links share one network, so each gateway hears the frames of all.
//!
//! A seed draws the links, their suites and settings, then 20 s of faults: losses, copies, delays that let frames overtake each other, changed
//! bits, cuts, kills (between any two polls of a KaY), sleeps, wishes for another SAK, and old frames that are played again to anybody. Then the
//! network is fair.
//!
//! | judged | when |
//! |---|---|
//! | no key protects two frames with one nonce, anywhere | at each protected frame |
//! | a frame on the network is MKA's or protected, and shows no plaintext | at each frame |
//! | a delivered frame was sent by another gateway of the same link, as it is | at each delivery |
//! | no gateway delivers a frame twice, over its restarts too | at each delivery |
//! | a SecY can do what its KaY says | at each event |
//! | [`HEALED`] after the last fault, all frames arrive | at the end |
//!
//! Left out: control, its threads and its disk (leases, floors), static keys, fragments, sites and cells.

mod chance;
mod gateway;
mod world;

pub use world::{HEALED, Told, Wrong, run};
