//! Properties of each state, and of the fair run from it.

use stateright::{Model, Property};
use wire::Ki;

use super::secy::Begun;
use super::station::{Begin, Present, Station};
use super::{State, Step, TRANSMIT_DELAY, World};
use crate::past::Pasts;

/// A broken property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A KaY protects with two SAKs.
    TwoSaks(String),
    /// A station sends under a SAK that a member does not accept.
    Unready(String),
    /// A SAK, a nonce or an SSCI comes again.
    Twice(String),
    /// A KaY takes a SAK of another station than its key server.
    NotElected(String),
    /// A KaY gives the SAK up that it protects with, and members are there.
    Dropped(String),
    /// A KaY told its SecY what cannot be done.
    Impossible(String),
    /// An upgrade has changed a KaY.
    Differs(String),
}

impl World {
    /// A live member that does not accept a SAK with which a station begins to protect.
    pub(super) fn unready(&self, pasts: &Pasts<Station>, state: &State, i: usize, ki: Ki) -> Option<String> {
        let present = pasts.at(state.stations[i].place);
        let sas = present.secy.find(ki)?;
        if self.now_of(state, i).since(sas.since) >= TRANSMIT_DELAY {
            return None;
        }
        let all =
            || state.stations.iter().map(|station| (pasts.begin_of(station.place), pasts.at(station.place)));
        let server = all().find(|(begin, _)| Some(begin.settings.sci) == present.key_server);
        if server.is_some_and(|(_, server)| server.secy.transmits == Some(ki)) {
            return None;
        }
        let own = pasts.begin_of(state.stations[i].place).settings.sci;
        let is_deaf = |(begin, peer): &(&Begin, &Present)| {
            let sci = begin.settings.sci;
            // It is there under the MI that is live here, and was so when the SAK came.
            let is_member = present.live.contains(&(sci, peer.mi)) && sas.live_then.contains(&(sci, peer.mi));
            let accepts = peer.secy.find(ki).is_some_and(|sas| {
                sas.installed && (sas.receive.contains(&own) || sas.expelled.contains(&own))
            });
            is_member && !accepts
        };
        let (deaf, _) = all().find(is_deaf)?;
        Some(format!("station {i} sends under {ki}, which {} does not accept", deaf.settings.sci))
    }

    pub(super) fn holds(&self, state: &State, is_so: impl Fn(&Wrong) -> bool) -> bool {
        self.fair_run(state).err().is_none_or(|wrong| !is_so(&wrong))
    }
}

/// A SAK, a nonce or an SSCI that comes again with this SAK.
pub(super) fn again(earlier: &[Begun], begun: &Begun) -> Option<String> {
    let Begun { sci, ki, key, sscis } = begun;
    for other in earlier {
        if (other.sci, other.key) == (*sci, *key) {
            return Some(format!("{ki} begins twice: its PNs come again"));
        }
        if (other.ki == *ki) != (other.key == *key) {
            return Some(format!("{ki} and {} for two SAKs, or one SAK with two names", other.ki));
        }
        if other.ki == *ki
            && let Some((sci, ssci)) =
                other.sscis.iter().find(|(sci, ssci)| sscis.get(sci).is_some_and(|known| known != *ssci))
        {
            return Some(format!("{sci} has SSCI {} under {ki}, and another one", ssci.0));
        }
    }
    let mut numbers: Vec<u32> = sscis.values().map(|ssci| ssci.0).collect();
    numbers.sort_unstable();
    numbers
        .windows(2)
        .any(|pair| pair[0] == pair[1])
        .then(|| format!("two stations have one SSCI under {ki}"))
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
            Property::always("no KaY protects with two SAKs", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::TwoSaks(_)))
            }),
            Property::always(
                "nobody sends under a SAK that a member does not accept",
                |model: &Self, state: &State| model.holds(state, |wrong| matches!(wrong, Wrong::Unready(_))),
            ),
            Property::always("no SAK, nonce or SSCI comes twice", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Twice(_)))
            }),
            Property::always("a SAK is the elected key server's", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::NotElected(_)))
            }),
            Property::always("no SAK in use goes while members are there", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Dropped(_)))
            }),
            Property::always("a SecY can do what it is told", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Impossible(_)))
            }),
            Property::always("an upgrade changes no KaY", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Differs(_)))
            }),
            Property::always("a fair network leads to one SAK in time", |model: &Self, state: &State| {
                let time = model.fair_run(state);
                time.is_err() || time.is_ok_and(|time| time.is_some_and(|time| time <= model.setup.secured))
            }),
        ]
    }
}
