//! State of the screen, and the effects of keys on it.
//!
//! | key | what it does |
//! |---|---|
//! | arrows, `j`, `k`, page up and down, Home, End | choose a gateway |
//! | Enter | opens what is known of it, or closes that |
//! | `/` | searches: letters, then Enter; Esc forgets the search |
//! | `f` | shows all gateways, or those that need somebody |
//! | `s`, `r` | sorts by the next column; turns the order |
//! | Esc | closes what is open, then forgets search and filter |
//! | `q`, Ctrl-C | ends |

use std::cmp::Reverse;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::cockpit::Seen;
use crate::cockpit::overview::{GatewayView, Overview, Verdict};
use crate::terminal;

/// The longest search, in characters.
const LONGEST_SEARCH: usize = 80;

/// Order of gateways.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Sort {
    /// The worst first.
    #[default]
    Verdict,
    Name,
    Plant,
    /// By the time of the last heartbeat, the longest silence first.
    Heard,
}

impl Sort {
    const fn next(self) -> Self {
        match self {
            Self::Verdict => Self::Name,
            Self::Name => Self::Plant,
            Self::Plant => Self::Heard,
            Self::Heard => Self::Verdict,
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::Name => "name",
            Self::Plant => "plant",
            Self::Heard => "heard",
        }
    }
}

/// The fleet, as known so far, and what of it is shown.
#[derive(Default, Debug)]
pub(super) struct State {
    /// The revision that is known.
    pub(super) revision: Option<u64>,
    pub(super) overview: Option<Overview>,
    pub(super) problems: Vec<String>,
    /// Reason for which there is nothing newer.
    pub(super) away: Option<String>,
    /// Gateways that are shown, by their place in the overview.
    pub(super) rows: Vec<usize>,
    /// The chosen row.
    pub(super) at: usize,
    /// The first row on the screen. Drawing moves it to where the chosen one is seen.
    pub(super) first: usize,
    /// Rows on the screen, as they were drawn last.
    pub(super) page: usize,
    pub(super) search: String,
    /// True while letters go into the search.
    pub(super) is_typing: bool,
    /// True if gateways are left out that need nobody.
    pub(super) is_filtered: bool,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    /// True if what is known of the chosen gateway is open.
    pub(super) is_open: bool,
}

/// True if somebody should look.
pub(super) fn is_troubled(verdict: Verdict) -> bool {
    verdict > Verdict::Idle
}

impl State {
    pub(super) fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Same => {}
            Seen::Waiting(why) => self.away = why,
            Seen::Shown { revision, overview, directory, problems } => {
                let chosen = self.chosen().map(|one| one.name.clone());
                (self.revision, self.overview) = (Some(revision), Some(*overview));
                (self.problems, self.away) = (problems, directory.away);
                self.choose_rows(chosen.as_deref());
            }
        }
    }

    /// The gateway of a row.
    pub(super) fn gateway(&self, row: usize) -> Option<&GatewayView> {
        self.overview.as_ref()?.gateways.get(*self.rows.get(row)?)
    }

    /// The chosen one.
    pub(super) fn chosen(&self) -> Option<&GatewayView> {
        self.gateway(self.at)
    }

    /// Acts on a key; true if it ends the program.
    pub(super) fn press(&mut self, key: KeyEvent) -> bool {
        if terminal::is_interrupt(key) {
            return true;
        }
        if self.is_typing {
            self.type_into_search(key);
            return false;
        }
        let last = self.rows.len().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Up | KeyCode::Char('k') => self.at = self.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.at = (self.at + 1).min(last),
            KeyCode::PageUp => self.at = self.at.saturating_sub(self.page.max(1)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.at = (self.at + self.page.max(1)).min(last),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = last,
            KeyCode::Enter => self.is_open = !self.is_open,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('f') => self.change(|state| state.is_filtered = !state.is_filtered),
            KeyCode::Char('s') => self.change(|state| state.sort = state.sort.next()),
            KeyCode::Char('r') => self.change(|state| state.is_reversed = !state.is_reversed),
            KeyCode::Esc if self.is_open => self.is_open = false,
            KeyCode::Esc => self.change(|state| {
                state.search.clear();
                state.is_filtered = false;
            }),
            _ => {}
        }
        false
    }

    fn type_into_search(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Enter | KeyCode::Down => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.change(|state| state.search.clear());
            }
            KeyCode::Backspace => self.change(|state| {
                state.search.pop();
            }),
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                self.change(|state| state.search.clear());
            }
            KeyCode::Char(letter) if self.search.chars().count() < LONGEST_SEARCH => {
                self.change(|state| state.search.push(letter));
            }
            _ => {}
        }
    }

    /// Changes which rows are shown, and in which order. The first of them is chosen.
    fn change(&mut self, how: impl FnOnce(&mut Self)) {
        how(self);
        self.choose_rows(None);
    }

    /// The rows that are shown now. `chosen` is the gateway that stays chosen, if it is among them.
    fn choose_rows(&mut self, chosen: Option<&str>) {
        let Some(overview) = &self.overview else { return };
        let gateways = &overview.gateways;
        let search = self.search.to_lowercase();
        let words: Vec<_> = search.split_whitespace().collect();
        let is_shown =
            |one: &GatewayView| (!self.is_filtered || is_troubled(one.verdict)) && has_all(one, &words);
        let mut rows: Vec<_> =
            (0..gateways.len()).filter(|row| gateways.get(*row).is_some_and(is_shown)).collect();
        // Gateways come in the order of their names, and the sort is stable.
        match self.sort {
            Sort::Name => {}
            Sort::Verdict => rows.sort_by_key(|row| Reverse(gateways.get(*row).map(|one| one.verdict))),
            Sort::Plant => rows.sort_by_key(|row| gateways.get(*row).map(|one| one.plant.as_deref())),
            Sort::Heard => rows.sort_by_key(|row| gateways.get(*row).map(|one| one.heard)),
        }
        if self.is_reversed {
            rows.reverse();
        }
        let named = |row: &usize| gateways.get(*row).map(|one| one.name.as_str()) == chosen;
        self.at = chosen.and_then(|_| rows.iter().position(named)).unwrap_or_else(|| {
            // A gateway that is gone leaves the choice at its place.
            if chosen.is_some() { self.at.min(rows.len().saturating_sub(1)) } else { 0 }
        });
        self.rows = rows;
    }
}

/// True if each of these words stands in what is known of a gateway. They are in lower case.
fn has_all(one: &GatewayView, words: &[&str]) -> bool {
    let parts = one.parts.iter().flat_map(|part| [part.kind.as_str(), &part.name, &part.words]);
    let own = [one.name.as_str(), one.plant.as_deref().unwrap_or_default(), one.state.word(), &one.cause];
    words.is_empty() || {
        let all: Vec<_> = own.into_iter().chain(parts).map(str::to_lowercase).collect();
        words.iter().all(|word| all.iter().any(|text| text.contains(word)))
    }
}
