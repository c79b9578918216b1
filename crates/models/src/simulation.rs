//! A world of links, in one process, under virtual time, drawn from a seed: KaYs, SecYs, ciphers, leases and floors are the product's.
//! All links share one network, so each gateway hears the frames of all. Few worlds have a link of up to 18 gateways. A third of
//! the links has static keys, with leases and floors on disks that may be slow, be full, lose their power, and go back to an image.
//!
//! A seed draws the links, their suites and settings, then 20 s of faults: losses, copies, delays that let frames overtake each other, changed
//! bits, cuts, kills (between any two polls of a KaY, within any operation of a disk), sleeps, wishes for another SAK, restarts in order,
//! full disks, disks that go back, and old frames that are played again to anybody. Then network and disks are fair.
//!
//! | judged | when |
//! |---|---|
//! | no key protects two frames with one nonce, anywhere | at each protected frame |
//! | a frame on the network is MKA's or protected, and shows no plaintext | at each frame |
//! | a delivered frame was sent by another gateway of the same link, as it is | at each delivery |
//! | no gateway delivers a frame twice, over its restarts too; with static keys, but for frames since its floors were written | at each delivery |
//! | state that a crash left is not refused; state of long ago is, so that it repeats no nonce | at each start |
//! | a SecY can do what its KaY says | at each event |
//! | [`HEALED`] after the last fault, all frames arrive | at the end |
//!
//! Left out: control and its threads (what it does is a model by hand), marks beside key files, fragments, sites and cells.

mod chance;
mod disk;
mod gateway;
mod static_keys;
mod world;

pub use world::{HEALED, Told, Wrong, run};
