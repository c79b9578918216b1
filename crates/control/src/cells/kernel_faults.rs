//! Faults of the kernel with relations of a cell: reported once, and shown for as long as they last.

use std::collections::{BTreeMap, BTreeSet};

use xdp::XdpError;

/// Duty of the kernel towards a relation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Duty {
    TakeKeys,
    ShowState,
}

/// Faults of a cell's relations.
#[derive(Debug, Default)]
pub(super) struct KernelFaults {
    there: BTreeMap<(usize, Duty), String>,
    /// By reason, the relations that were not reported yet.
    unreported: BTreeMap<String, BTreeSet<usize>>,
}

impl KernelFaults {
    /// Notes whether the kernel did its duty.
    pub(super) fn note(&mut self, relation: usize, duty: Duty, done: Result<(), XdpError>) {
        let Err(error) = done else {
            self.there.remove(&(relation, duty));
            return;
        };
        let what = match duty {
            Duty::TakeKeys => "does not take the keys",
            Duty::ShowState => "does not show the state",
        };
        let why = format!(
            "the kernel {what} ({error}); restart the gateway, or set io = \"af_xdp\", which protects cyclic frames in user space"
        );
        if self.there.insert((relation, duty), why.clone()).as_ref() != Some(&why) {
            self.unreported.entry(why).or_default().insert(relation);
        }
    }

    /// Faults since this was asked last, by their reasons, with the relations.
    pub(super) fn take_unreported(&mut self) -> BTreeMap<String, BTreeSet<usize>> {
        std::mem::take(&mut self.unreported)
    }

    /// The number of relations with a fault, and the reason of the first one.
    pub(super) fn summary(&self) -> Option<String> {
        let why = self.there.values().next()?;
        let relations: BTreeSet<usize> = self.there.keys().map(|(relation, _)| *relation).collect();
        Some(format!("for {} of them {why}", relations.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_once_for_all_relations_and_shown_until_it_is_over() {
        let mut faults = KernelFaults::default();
        let fails = || Err(XdpError::Malformed);
        for _ in 0..3 {
            [1, 7].into_iter().for_each(|relation| faults.note(relation, Duty::TakeKeys, fails()));
        }
        let told = faults.take_unreported();
        let (why, relations) = told.first_key_value().expect("a fault");
        assert!(told.len() == 1 && relations.iter().eq(&[1, 7]), "{told:?}");
        assert!(why.starts_with("the kernel does not take the keys (") && why.contains("io = \"af_xdp\""));
        faults.note(1, Duty::ShowState, fails());
        assert_eq!(faults.take_unreported().into_values().collect::<Vec<_>>(), [BTreeSet::from([1])]);
        assert_eq!(faults.summary(), Some(format!("for 2 of them {why}")));
        for relation in [1, 7] {
            faults.note(relation, Duty::TakeKeys, Ok(()));
            faults.note(relation, Duty::ShowState, Ok(()));
        }
        assert_eq!((faults.summary(), faults.take_unreported().len()), (None, 0));
    }
}
