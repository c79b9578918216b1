//! `fleet top`: the fleet on a terminal, again whenever something changes, until `q`.
//!
//! ```text
//!  whoever reads the directory ──▶ News ──▶ State ──▶ the screen
//!                                   keys ──▶
//! ```
//!
//! It shows what the cockpit's page shows: both are made of one [`Overview`]. A directory that does not answer is told in the first line, and
//! what was known looks old. Names and words come from others: no control character of theirs reaches the terminal.

mod screen;
mod state;

use std::io::{self, IsTerminal as _};

use crate::cockpit::overview::Overview;
use crate::terminal;
use state::State;

/// What is known of the fleet now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// All of it, and what cannot be read beside the directory.
    Seen(Overview, Vec<String>),
    /// Nothing newer: why, with the cure.
    Away(String),
}

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// A pipe or a file.
    #[error("fleet top needs a terminal; for a pipe or a file: frameward fleet status")]
    NoTerminal,
    /// It cannot be drawn on.
    #[error("cannot use this terminal: {0}; frameward fleet status needs none")]
    Terminal(#[from] io::Error),
}

/// Whether there is a terminal to draw on.
///
/// # Errors
/// [`TopError::NoTerminal`].
pub fn needs_terminal() -> Result<(), TopError> {
    let has_one = io::stdout().is_terminal() && io::stdin().is_terminal();
    if has_one { Ok(()) } else { Err(TopError::NoTerminal) }
}

/// Shows what `news` has, which is asked ten times a second, until the user or a signal ends it.
///
/// # Errors
/// [`TopError`].
pub fn top(mut news: impl FnMut() -> Option<News>) -> Result<(), TopError> {
    needs_terminal()?;
    let stop = terminal::stop_by_signals()?;
    let shown = terminal::show(
        &mut State::default(),
        &stop,
        |state, frame, colour| {
            if let Some(news) = news() {
                state.take(news);
            }
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            screen::draw(frame, state, now.map_or(0, |since| since.as_secs()), colour);
        },
        State::press,
    );
    Ok(shown?)
}

#[cfg(test)]
mod tests;
