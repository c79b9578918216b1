//! Properties of each state, and of the fair run from it.

use std::sync::Arc;
use std::time::Duration;

use stateright::{Model, Property};
use tunnel::{ChannelState, EPOCH_LIFE};

use super::half::Half;
use super::{MOST_STEPS, SETTLED, Shared, State, Step, WATCHED, World};

/// A broken property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A secret protects two epochs.
    Twice(u32),
    /// A site sends in an epoch that the peer does not accept yet.
    Unready(u32),
    /// A site sends in an epoch that the peer, which has not restarted since, does not accept any more.
    Unread(usize),
    /// A number that the peer has acknowledged means another flow there.
    Misdirected(usize),
    /// An honest peer is at fault.
    Fault(String),
    /// A forwarding half is told what cannot be done.
    Impossible(String),
}

impl World {
    /// Looks for what is wrong between two forwarding halves.
    pub(super) fn judge(&self, state: &mut State) {
        let wrong = (0..2).find_map(|site| {
            let (here, peer) = (&state.sites[site], &state.sites[1 - site]);
            let sent = here.half.transmit.get(&here.half.in_use);
            let is_unread = sent.is_some_and(|secret| {
                state.ledger.ready.get(secret) == Some(&peer.start)
                    && !peer.half.receive.values().any(|known| known == secret)
            });
            let is_misdirected = here.half.own.iter().any(|(index, own)| {
                let at_peer = peer.half.peer_flows.get(index);
                own.acknowledged && at_peer.is_some_and(|flow| *flow != own.flow)
            });
            (is_unread.then_some(Wrong::Unread(site))).or(is_misdirected.then_some(Wrong::Misdirected(site)))
        });
        if let Some(wrong) = wrong {
            state.wrong.get_or_insert(Arc::new(wrong));
        }
    }

    /// True if only the age of an epoch is left to wait for.
    pub(super) fn is_over(&self, shared: &Shared, state: &State) -> bool {
        let next = Self::next_moment(shared, state);
        next.is_none_or(|next| next.since(state.now) > EPOCH_LIFE / 2)
    }

    /// The next step of a world without faults.
    pub(super) fn fair_step(&self, shared: &Shared, state: &State) -> Option<Step> {
        let next = Self::immediate(state).into_iter().next().or_else(|| Self::unmet(state));
        next.or_else(|| (!self.is_over(shared, state)).then_some(Step::Pass))
    }

    /// True if both directions have an epoch that the other end accepts, and each end's flows are known to the other, and none else; and
    /// the sessions say so.
    fn is_settled(shared: &Shared, state: &State) -> bool {
        let works = |from: &Half, to: &Half| {
            let sent = from.transmit.get(&from.in_use);
            let known = from.own.iter().map(|(index, own)| (*index, own.flow));
            sent.is_some_and(|secret| to.receive.values().any(|known| known == secret))
                && from.own.values().all(|own| own.acknowledged)
                && known.eq(to.peer_flows.iter().map(|(index, flow)| (*index, *flow)))
        };
        let [one, other] = [0, 1].map(|site| &state.sites[site].half);
        let says = |site: usize, own: &Half, peer: &Half| {
            let did = Self::did(shared, state, site);
            did.channel == ChannelState::Up && did.flows == [0, own.own.len(), peer.own.len()]
        };
        says(0, one, other) && says(1, other, one) && works(one, other) && works(other, one)
    }

    /// Lets a world without faults run from here. Returns the time until both sites are settled for good, or the property that broke.
    pub fn fair_run(&self, from: &State) -> Result<Option<Duration>, Arc<Wrong>> {
        let shared = &mut self.shared();
        // No fault is to come.
        let mut state = State { faults: 0, ..from.clone() };
        let mut passed = Vec::new();
        let end = loop {
            if let Some(wrong) = &state.wrong {
                break Err(Arc::clone(wrong));
            }
            if let Some(known) = shared.fair.get(&state.print) {
                break known.clone();
            }
            passed.push((state.print, state.now));
            match self.fair_step(shared, &state) {
                None => break Ok(Self::is_settled(shared, &state).then_some(Duration::ZERO)),
                Some(_) if state.now.since(from.now) > WATCHED || passed.len() > MOST_STEPS => {
                    break Ok(None);
                }
                Some(step) => state = self.step(shared, &state, step).unwrap_or(state),
            }
        };
        for (print, now) in passed {
            let from_here = end.clone().map(|time| time.map(|time| time + state.now.since(now)));
            shared.fair.insert(print, from_here);
        }
        let time = end?.map(|time| time + state.now.since(from.now));
        shared.slowest = shared.slowest.max(time.unwrap_or(Duration::MAX));
        Ok(time)
    }

    fn holds(&self, state: &State, is_so: impl Fn(&Wrong) -> bool) -> bool {
        self.fair_run(state).err().is_none_or(|wrong| !is_so(&wrong))
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.first()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        self.possible(state, steps);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        self.step(&mut self.shared(), state, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no secret protects twice", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Twice(_)))
            }),
            Property::always(
                "a site accepts an epoch before the other sends in it",
                |model: &Self, state: &State| model.holds(state, |wrong| matches!(wrong, Wrong::Unready(_))),
            ),
            Property::always(
                "a site accepts the epoch that the other sends in",
                |model: &Self, state: &State| model.holds(state, |wrong| matches!(wrong, Wrong::Unread(_))),
            ),
            Property::always("a number means one flow at both sites", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Misdirected(_)))
            }),
            Property::always("no honest peer is at fault", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Fault(_)))
            }),
            Property::always("a forwarding half can do what it is told", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Impossible(_)))
            }),
            Property::always(
                "a channel that stays leads to epochs and flows in time",
                |model: &Self, state: &State| {
                    let time = model.fair_run(state);
                    time.is_err() || time.is_ok_and(|time| time.is_some_and(|time| time <= SETTLED))
                },
            ),
        ]
    }
}
