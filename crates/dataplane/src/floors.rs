//! How far the replay windows of a SecY have come, as it is brought to disk.

use pnstore::LeaseName;
use secy::SecY;
use wire::{An, Pn, Sci};

/// A receive SA whose floor is kept.
#[derive(Clone, Copy)]
pub struct ReceiveFloor {
    /// The record on disk.
    pub name: LeaseName,
    /// The SC.
    pub sci: Sci,
    /// The SA.
    pub an: An,
}

/// A floor as it was read.
pub type Floor = (LeaseName, Pn);

/// Reads the floors of a SecY: for each SA the PN above the highest that it received. SAs that are not there have none.
/// Work: at most one search among [`SecY::RECEIVE_SCS`] SCs for each floor; `into` is long enough, so nothing is
/// allocated.
pub fn read(secy: &SecY, floors: &[ReceiveFloor], into: &mut Vec<Floor>) {
    for floor in floors.iter().take(into.capacity() - into.len()) {
        let sc = secy.receive_scs().find(|sc| sc.sci() == floor.sci);
        let Some(sa) = sc.and_then(|sc| sc.sas().find(|sa| sa.an() == floor.an)) else { continue };
        // After 2^64 - 1 there is none; nobody gets that far.
        let above = Pn::new(sa.window().highest().saturating_add(1)).unwrap_or(Pn::LAST_64);
        into.push((floor.name, above));
    }
}
