//! A master key as one relation uses it.
//!
//! Codecs, handshake and sessions share each key behind a pointer. It is wiped with the last of them: a session goes on
//! for a moment after its master key was removed.

use alloc::sync::Arc;
use core::fmt;

use arrayvec::ArrayVec;
use suite::fieldbus::{HelloKey, MasterKey, MasterKeys};
use wire::fieldbus::MasterKeyId;

use crate::relation::Relation;

/// A master key, bound to the relation; the key of the relation's HELLOs that is derived from it; and the identifier of the configured
/// master key.
pub(super) struct RelationKey {
    pub(super) master: MasterKey,
    pub(super) hello: HelloKey,
    pub(super) id: MasterKeyId,
}

/// Those of an end, in the order of its preference.
pub(super) type RelationKeys = ArrayVec<Arc<RelationKey>, { MasterKeys::MOST }>;

/// The keys of a relation.
pub(super) fn relation_keys(relation: &Relation, masters: &MasterKeys) -> RelationKeys {
    let binding = relation.binding();
    let key = |given: &MasterKey| {
        let master = binding.as_ref().map_or_else(|| given.clone(), |binding| given.bound_to(binding));
        let hello = master.hello_key(relation.stations());
        Arc::new(RelationKey { master, hello, id: given.id() })
    };
    masters.iter().map(key).collect()
}

impl fmt::Debug for RelationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelationKey({})", self.id)
    }
}
