//! Changes of a cell's keys: made by control, carried out in order by the worker between two turns.
//!
//! With each change come the nonces that the relation's handshake has since: they change with its keys alone.
//!
//! All that takes time is done before, in control. What is taken out goes back with the list, to be wiped and freed there.
//!
//! Work for a list: some hundred octets moved for each of at most [`KeyChanges::MOST`] changes.

use fieldbus::handshake::ExpectedNonces;
use fieldbus::{KeyChange, RetiredKeys};

use dataplane::cell::Cell;

/// Changes in their order, by relation, and what they took out.
#[derive(Debug)]
pub(crate) struct KeyChanges {
    list: Vec<(usize, Option<KeyChange>, ExpectedNonces)>,
    out: Vec<RetiredKeys>,
}

impl KeyChanges {
    /// The most changes of one list.
    pub(crate) const MOST: usize = 16;

    /// A list of these; no more than [`KeyChanges::MOST`] are taken.
    pub(crate) fn new(changes: impl Iterator<Item = (usize, KeyChange, ExpectedNonces)>) -> Self {
        let list: Vec<_> = changes
            .take(Self::MOST)
            .map(|(relation, change, names)| (relation, Some(change), names))
            .collect();
        let out = Vec::with_capacity(list.len());
        Self { list, out }
    }

    /// Carries all of them out.
    pub(crate) fn apply(&mut self, cell: &mut Cell) {
        for (relation, change, names) in &mut self.list {
            if let Some(change) = change.take() {
                self.out.push(cell.change_keys(*relation, change, *names));
            }
        }
    }

    /// The changes that were not made.
    pub(crate) fn left(self) -> impl Iterator<Item = (usize, KeyChange)> {
        self.list.into_iter().filter_map(|(relation, change, _)| Some((relation, change?)))
    }
}
