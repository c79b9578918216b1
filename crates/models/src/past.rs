//! Inputs of an object, as a tree: an object's present is a place in it, and many states share their pasts.
//!
//! An object that is needed at a place is taken from the place before, if one is alive there, or made again from its beginning.

use std::collections::HashMap;

use wire::Instant;

/// An object that is deterministic, and cannot be copied.
pub(crate) trait Object: Sized {
    /// Beginning of an object.
    type Begin: Clone + PartialEq;
    /// An input.
    type Told: Clone + PartialEq;
    /// Consequences of an input, and what the object is after it.
    type Did;

    /// Begins.
    fn begin(begin: &Self::Begin, at: Instant) -> (Self, Self::Did);

    /// Is told something.
    fn tell(&mut self, at: Instant, told: &Self::Told) -> Self::Did;
}

/// Number of a place.
pub(crate) type Place = usize;
/// An object's way to a place: its beginning, when, and the inputs with their moments.
pub(crate) type Past<B, T> = (B, Instant, Vec<(Instant, T)>);
/// Objects that are kept alive.
const ALIVE: usize = 4000;

struct Node<O: Object> {
    before: Option<(Place, O::Told)>,
    begin: usize,
    at: Instant,
    did: O::Did,
    next: Vec<Place>,
}

/// All pasts that were met.
pub(crate) struct Pasts<O: Object> {
    /// Beginnings with their first places.
    begins: Vec<(O::Begin, Place)>,
    nodes: Vec<Node<O>>,
    alive: HashMap<Place, O>,
}

impl<O: Object> Default for Pasts<O> {
    fn default() -> Self {
        Self { begins: vec![], nodes: vec![], alive: HashMap::new() }
    }
}

impl<O: Object> Pasts<O> {
    /// Consequences of an object's last input on its way to a place.
    pub(crate) fn at(&self, place: Place) -> &O::Did {
        &self.nodes[place].did
    }

    /// Beginning of the object at a place.
    pub(crate) fn begin_of(&self, place: Place) -> &O::Begin {
        &self.begins[self.nodes[place].begin].0
    }

    /// Number of places.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// An object begins.
    pub(crate) fn begin(&mut self, at: Instant, begin: O::Begin) -> Place {
        let is_known = |(known, place): &&(O::Begin, Place)| *known == begin && self.nodes[*place].at == at;
        if let Some((_, place)) = self.begins.iter().find(is_known) {
            return *place;
        }
        let (object, did) = O::begin(&begin, at);
        self.begins.push((begin, self.nodes.len()));
        self.add(object, Node { before: None, begin: self.begins.len() - 1, at, did, next: vec![] })
    }

    /// An object is told something.
    pub(crate) fn tell(&mut self, before: Place, at: Instant, told: O::Told) -> Place {
        let is_same = |next: &&Place| {
            let node = &self.nodes[**next];
            node.at == at && node.before.as_ref().is_some_and(|(_, known)| *known == told)
        };
        if let Some(next) = self.nodes[before].next.iter().find(is_same) {
            return *next;
        }
        let mut object = self.alive.remove(&before).unwrap_or_else(|| self.again(before));
        let did = object.tell(at, &told);
        let begin = self.nodes[before].begin;
        let next = self.add(object, Node { before: Some((before, told)), begin, at, did, next: vec![] });
        self.nodes[before].next.push(next);
        next
    }

    /// The way to a place.
    pub(crate) fn past(&self, mut place: Place) -> Past<O::Begin, O::Told> {
        let begin = self.begin_of(place).clone();
        let mut past = Vec::new();
        while let Node { before: Some((before, told)), at, .. } = &self.nodes[place] {
            past.push((*at, told.clone()));
            place = *before;
        }
        past.reverse();
        (begin, self.nodes[place].at, past)
    }

    fn again(&self, place: Place) -> O {
        let (begin, at, past) = self.past(place);
        let (mut object, _) = O::begin(&begin, at);
        for (at, told) in &past {
            let _ = object.tell(*at, told);
        }
        object
    }

    fn add(&mut self, object: O, node: Node<O>) -> Place {
        self.nodes.push(node);
        let place = self.nodes.len() - 1;
        if self.alive.len() >= ALIVE {
            self.alive.clear();
        }
        self.alive.insert(place, object);
        place
    }
}
