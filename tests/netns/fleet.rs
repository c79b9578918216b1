//! Fleets: gateways that run from what was rendered for them, and that get it from a directory.

mod away;
mod directory;
mod inventory;
mod joined;
mod keys;
mod upgraded;
