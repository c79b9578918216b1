//! Inputs of stations, as a tree: a station's present is a place in it, and many states share their pasts.
//!
//! A KaY that is needed at a place is taken from the place before, if one is alive there, or made again from its beginning.

use std::collections::HashMap;
use std::sync::Arc;

use mka::{CakEntry, Input, Kay, Report, Settings};
use suite::mka::Cak;
use wire::{Ckn, Instant, Mi, Sci};

use super::print::{self, Token};
use super::secy::{Done, SecY};

/// An input of a station.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// An MKPDU.
    Frame(Arc<[u8]>),
    /// A report of its SecY.
    Report(Report),
    /// Time.
    Timeout,
    /// Another SAK is wanted.
    Rekey,
}

/// Beginning of a station.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begin {
    /// Its settings.
    pub settings: Settings,
    /// Its CAKs: each is 16 times the same octet, under the name of this octet.
    pub caks: Vec<u8>,
    /// Seed of its random values.
    pub seed: [u8; 32],
}

/// A station's way to a place: its beginning, when, and the inputs with their moments.
pub type Past = (Begin, Instant, Vec<(Instant, Told)>);

/// Number of a place.
pub(super) type Place = usize;
/// KaYs that are kept alive.
const ALIVE: usize = 4000;

/// A station at one place of its past, and what it did on the way there.
pub(super) struct Present {
    before: Option<Place>,
    begin: usize,
    at: Instant,
    told: Option<Told>,
    pub(super) sent: Vec<Arc<[u8]>>,
    pub(super) timeout: Option<Instant>,
    pub(super) secy: SecY,
    pub(super) done: Done,
    /// A request that the SecY could not carry out, or a state that cannot be.
    pub(super) wrong: Option<String>,
    pub(super) mi: Mi,
    pub(super) key_server: Option<Sci>,
    pub(super) is_key_server: bool,
    pub(super) live: Vec<(Sci, Mi)>,
    /// SAKs that it says it protects with.
    pub(super) transmitted: usize,
    pub(super) tokens: Vec<Token>,
    next: Vec<Place>,
}

/// All pasts that were met.
#[derive(Default)]
pub(super) struct Pasts {
    begins: Vec<Begin>,
    places: Vec<Present>,
    firsts: Vec<Place>,
    alive: HashMap<Place, Kay>,
}

/// The CAK of an octet.
pub fn cak(octet: u8) -> CakEntry {
    let ckn = Ckn::new(&[octet]).expect("invariant: one octet is a name");
    CakEntry { ckn, cak: Cak::new(&[octet; 16]).expect("invariant: 16 octets") }
}

impl Begin {
    /// A KaY that begins so.
    pub fn kay(&self, now: Instant) -> Kay {
        Kay::new(now, self.settings.clone(), self.caks.iter().map(|octet| cak(*octet)).collect(), &self.seed)
    }
}

impl Told {
    /// Tells a KaY.
    pub fn tell(&self, kay: &mut Kay, now: Instant) {
        kay.handle_input(now, self.input());
    }

    /// As an input.
    pub fn input(&self) -> Input<'_> {
        match self {
            Self::Frame(frame) => Input::Frame(frame),
            Self::Report(report) => Input::Report(*report),
            Self::Timeout => Input::Timeout,
            Self::Rekey => Input::Rekey,
        }
    }
}

impl Present {
    /// True if this MI is that of its key server.
    pub(super) fn is_led_by(&self, mi: Mi) -> bool {
        let is_peer = || self.key_server.is_some_and(|server| self.live.contains(&(server, mi)));
        if self.is_key_server { mi == self.mi } else { is_peer() }
    }
}

impl Pasts {
    pub(super) fn at(&self, place: Place) -> &Present {
        &self.places[place]
    }

    pub(super) fn begin_of(&self, place: Place) -> &Begin {
        &self.begins[self.places[place].begin]
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// A station begins.
    pub(super) fn begin(&mut self, now: Instant, begin: Begin) -> Place {
        let known =
            self.firsts.iter().copied().find(|place| {
                self.places[*place].at == now && self.begins[self.places[*place].begin] == begin
            });
        if let Some(place) = known {
            return place;
        }
        let kay = begin.kay(now);
        self.begins.push(begin);
        let number = self.begins.len() - 1;
        let place = self.add(kay, None, number, now, None, SecY::default());
        self.firsts.push(place);
        place
    }

    /// A station is told something.
    pub(super) fn tell(&mut self, before: Place, now: Instant, told: Told) -> Place {
        let same =
            |next: &Place| self.places[*next].at == now && self.places[*next].told.as_ref() == Some(&told);
        if let Some(next) = self.places[before].next.iter().copied().find(same) {
            return next;
        }
        let mut kay = self.alive.remove(&before).unwrap_or_else(|| self.again(before));
        let mut secy = self.places[before].secy.clone();
        if let Told::Report(_) = told {
            secy.report();
        }
        told.tell(&mut kay, now);
        let begin = self.places[before].begin;
        let next = self.add(kay, Some(before), begin, now, Some(told), secy);
        self.places[before].next.push(next);
        next
    }

    /// The way to a place.
    pub(super) fn past(&self, mut place: Place) -> Past {
        let mut all = Vec::new();
        while let Present { before: Some(before), at, told: Some(told), .. } = &self.places[place] {
            all.push((*at, told.clone()));
            place = *before;
        }
        all.reverse();
        (self.begin_of(place).clone(), self.places[place].at, all)
    }

    fn again(&self, place: Place) -> Kay {
        let (begin, at, past) = self.past(place);
        let mut kay = begin.kay(at);
        drain(&mut kay, at);
        for (at, told) in past {
            told.tell(&mut kay, at);
            drain(&mut kay, at);
        }
        kay
    }

    fn add(
        &mut self,
        mut kay: Kay,
        before: Option<Place>,
        begin: usize,
        at: Instant,
        told: Option<Told>,
        mut secy: SecY,
    ) -> Place {
        let sci = self.begins[begin].settings.sci;
        let (mut sent, mut done, mut wrong) = (Vec::new(), Done::default(), None);
        let live_of = |kay: &Kay| -> Vec<(Sci, Mi)> {
            let members = kay.status(at).members.into_iter().filter(|member| member.live);
            members.map(|member| (member.sci, member.mi)).collect()
        };
        loop {
            if let Some(event) = kay.poll_event() {
                if let Err(error) = secy.apply(at, sci, &live_of(&kay), event, &mut done) {
                    wrong.get_or_insert(error);
                }
            } else if let Some(frame) = kay.poll_transmit(at) {
                sent.push(Arc::from(&frame[..]));
            } else {
                break;
            }
        }
        let timeout = kay.poll_timeout();
        if matches!(told, Some(Told::Timeout)) && timeout.is_some_and(|timeout| timeout <= at) {
            wrong.get_or_insert("a time that has come comes again".to_owned());
        }
        let mut tokens = print::tokens(&format!("{kay:?}{secy:?}"));
        tokens.extend(timeout.map(Token::at));
        let status = kay.status(at);
        let present = Present {
            before,
            begin,
            at,
            told,
            sent,
            timeout,
            done,
            wrong,
            mi: status.mi,
            key_server: status.key_server,
            is_key_server: status.is_key_server,
            live: live_of(&kay),
            transmitted: status.saks.iter().filter(|sak| sak.transmits).count(),
            tokens,
            secy,
            next: Vec::new(),
        };
        self.places.push(present);
        let place = self.places.len() - 1;
        if self.alive.len() >= ALIVE {
            self.alive.clear();
        }
        self.alive.insert(place, kay);
        place
    }
}

/// Polls what was polled at this place before.
fn drain(kay: &mut Kay, at: Instant) {
    loop {
        if kay.poll_event().is_none() && kay.poll_transmit(at).is_none() {
            return;
        }
    }
}
