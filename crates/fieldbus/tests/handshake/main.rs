//! Two ends of a handshake and a network between them that loses, delays, copies, exchanges and plays again; the clock is
//! held in the hand, and everything follows from a seed.
//!
//! Checks after every step stand in `world`: no session is entered twice, by whichever start of an end; each is one that
//! the other end entered too, or can still enter; both have the same keys under the same KeyIDs.

mod world;

mod hostile;
mod lossy;
mod restarts;
mod rules;
mod timing;
