//! `fleet top`: the fleet on a terminal, again whenever something changes, until `q`.
//!
//! ```text
//!  Following ──▶ Surface ──▶ State ──▶ the screen
//!                    keys ──▶
//! ```
//!
//! It shows what the cockpit's page shows: both are made of one [`Overview`](crate::cockpit::overview::Overview). A directory that does not answer is told in the first line, and
//! what was known looks old. Names and words come from others: no control character of theirs reaches the terminal.

mod screen;
mod state;

use std::io::{self, IsTerminal as _};
use std::time::SystemTime;

use crate::cockpit::Surface;
use crate::terminal;
use state::State;

/// Reason for which there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// A pipe or a file.
    #[error("fleet top needs a terminal; for a pipe or a file: frameward fleet status")]
    NoTerminal,
    /// It cannot be drawn on.
    #[error("cannot use this terminal: {0}; frameward fleet status needs none")]
    Terminal(#[from] io::Error),
}

/// Checks that there is a terminal to draw on.
///
/// # Errors
/// [`TopError::NoTerminal`].
pub fn needs_terminal() -> Result<(), TopError> {
    let has_one = io::stdout().is_terminal() && io::stdin().is_terminal();
    if has_one { Ok(()) } else { Err(TopError::NoTerminal) }
}

/// Shows what `surface` shows until the user or a signal ends it.
///
/// # Errors
/// [`TopError`].
pub fn top(surface: &Surface) -> Result<(), TopError> {
    needs_terminal()?;
    let stop = terminal::stop_by_signals()?;
    let shown = terminal::show(
        &mut State::default(),
        &stop,
        |state, frame, colour| {
            state.take(surface.seen(state.revision));
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            screen::draw(frame, state, now.map_or(0, |since| since.as_secs()), colour);
        },
        State::press,
    );
    Ok(shown?)
}

#[cfg(test)]
mod tests;
