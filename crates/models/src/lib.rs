//! All orders of frames, faults and times up to a bound, through the protocol crates themselves. `stateright` walks them breadth
//! first, and leaves out states that it has met.
//!
//! A protocol object cannot be copied, and need not be: it is deterministic. A state holds for each station the list of what it was
//! told (`past.rs`), and the object is made again from the list. States are compared by a print that leaves out what does not
//! matter: times count from now, random names by their first appearance, message numbers from the newest one.
//!
//! **Faults are counted.** Frames of different senders arrive in every order at no cost. A loss, a copy, a delay, a restart, a cut
//! costs one fault, and a state has a number of them left. With none left the network is fair.
//!
//! **Worlds.** [`simulation`] searches nothing: it runs whole worlds, much longer and with more faults than a search can follow.
//!
//! **C.** [`transmit_pns`] is a model by hand of lines of an XDP program, in every order of frames and control.
//!
//! **A trace** is a list of actions. It runs without the search: [`kay::World::run`].

pub mod handshake;
pub mod kay;
mod names;
mod past;
pub mod session;
pub mod simulation;
pub mod transmit_pns;
