//! Properties of each state.

use stateright::{Model, Property};

use super::{State, Step, World};

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.first()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for number in (0..state.frames.len()).filter(|number| Self::can_go(state, *number)) {
            steps.push(Step::Frame { number, missed: false });
            if Self::looks_for_slot(state, number) {
                steps.push(Step::Frame { number, missed: true });
            }
        }
        steps.extend(Self::control_steps(state).into_iter().map(Step::Control));
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut state = state.clone();
        match step {
            Step::Frame { number, missed } => self.frame_step(&mut state, number, missed),
            Step::Control(which) => Self::control_step(&mut state, which),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no PN is sent twice under a key", |_: &Self, state: &State| {
                state.sent.windows(2).all(|two| two[0] != two[1])
            }),
            Property::always("no PN is sent that is not reserved", |_: &Self, state: &State| {
                state.sent.iter().all(|&(key, pn)| (1..=state.reserved[key]).contains(&pn))
            }),
            Property::always("a frame is its SA's throughout", |_: &Self, state: &State| !state.wrong),
        ]
    }
}
