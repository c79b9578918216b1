//! A search that says how much was searched, and fails with the trace.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker as _, HasDiscoveries, Model};

/// True if the search is to go far: `FRAMEWARD_MODELS=deep`.
pub(crate) fn is_deep() -> bool {
    std::env::var("FRAMEWARD_MODELS").is_ok_and(|depth| depth == "deep")
}

/// Searches a model. `more`: what else it says of its search; `why`: what is wrong with a state.
pub(crate) fn search<M>(name: &str, model: M, more: fn(&M) -> String, why: fn(&M, &M::State) -> String)
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + PartialEq + Clone + Send + Sync + Debug + 'static,
    M::Action: Clone + PartialEq + Debug,
{
    let began = Instant::now();
    // States behind a broken property may have no end.
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let (more, seconds) = (more(checker.model()), began.elapsed().as_secs_f32());
    println!("{name}: {states} unique states, depth {depth}; {more}; {seconds:.1} s");
    let found = checker.discoveries();
    for (property, path) in &found {
        let why = why(checker.model(), path.last_state());
        println!("{name}: NOT SO: {property}: {why}\n  {:?}", path.clone().into_actions());
    }
    assert!(found.is_empty() && checker.is_done(), "{name}: see above");
}
