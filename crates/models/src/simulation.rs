//! Worlds in one process, under virtual time, drawn from a seed. A seed draws gateways and their settings, then 20 s of faults; then
//! network and disks are fair. What a world has is the product's own code, but for what stands below as left out.
//!
//! | world | | faults |
//! |---|---|---|
//! | [`links`] | one to three links that share a network, with MKA or static keys | losses, copies, delays that let frames overtake each other, changed bits, cuts, kills (between any two polls of a KaY, within any operation of a disk), sleeps, wishes for another SAK, restarts in order, full disks, disks that go back, and old frames that are played again to anybody |
//!
//! | judged | when |
//! |---|---|
//! | no key protects two frames with one nonce, anywhere | at each protected frame |
//! | a frame on the network is a protocol's own or protected, and shows no plaintext | at each frame |
//! | a delivered frame was sent there, as it is | at each delivery |
//! | no gateway delivers a frame twice, over its restarts too; links with static keys, but for frames since its floors were written | at each delivery |
//! | state that a crash left is not refused; state of long ago is, so that it repeats no nonce | at each start |
//! | a part can do what another one says | at each event |
//! | a stated time after the last fault, all frames arrive | at the end |
//!
//! Left out: control and its threads (what it does is a model by hand), marks beside key files, fragments of links.

mod cells;
mod chance;
mod judge;
mod links;
mod network;
mod sites;
mod time;

pub use cells::run as cells;
pub use judge::{Told, Wrong};
pub use links::run as links;
pub use sites::run as sites;
