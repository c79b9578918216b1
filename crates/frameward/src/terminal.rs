//! The terminal as `status --watch` and `fleet top` use it: the whole screen, given back as it was, also after a panic; looks; and words of
//! others without what a terminal would obey.

use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

const TICK_MILLISECONDS: u16 = 100;
/// Largest number of keys heeded before the screen is drawn again.
const KEYS_A_LOOK: usize = 64;
/// Time for crossterm to look: it does not, where it has none.
const LOOK: Duration = Duration::from_millis(1);
/// Time keys and signals may wait.
pub(crate) const TICK: Duration = Duration::from_millis(TICK_MILLISECONDS as u64);

/// Kind of a piece of text, which decides its look.
#[derive(Clone, Copy)]
pub(crate) enum Look {
    Plain,
    Soft,
    Title,
    Good,
    Warn,
    Bad,
}

#[derive(Clone, Copy)]
pub(crate) struct Palette {
    pub(crate) colour: bool,
    /// Columns of the screen.
    pub(crate) width: usize,
}

impl Palette {
    pub(crate) fn span(self, look: Look, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), self.style(look))
    }

    pub(crate) fn style(self, look: Look) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let coloured = |style: Style, colour| if self.colour { style.fg(colour) } else { style };
        match look {
            Look::Plain => Style::new(),
            Look::Soft => Style::new().add_modifier(Modifier::DIM),
            Look::Title => bold,
            Look::Good => coloured(bold, Color::Green),
            Look::Warn => coloured(bold, Color::Yellow),
            Look::Bad => coloured(bold, Color::Red),
        }
    }
}

/// A sentence on as many lines as it takes: its cure stands at its end.
pub(crate) fn sentence(mark: &str, text: &str, look: Look, palette: Palette) -> Vec<Line<'static>> {
    let mut lines = vec![format!("  {mark}")];
    for word in text.split(' ') {
        let line = lines.last_mut().filter(|line| {
            line.len() <= 4 || line.chars().count() + 1 + word.chars().count() <= palette.width
        });
        match line {
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(format!("    {word}")),
        }
    }
    lines.into_iter().map(|line| Line::from(palette.span(look, line))).collect()
}

/// Words of others, without what a terminal would obey: control characters, and those that turn the direction of writing.
pub(crate) fn plain(text: &str) -> String {
    let is_obeyed = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.replace(is_obeyed, " ")
}

/// Set by the signals that end a program.
///
/// # Errors
/// If they cannot be handled.
pub(crate) fn stop_by_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Takes the whole screen and draws it ten times a second and at each key, until `press` says that the key ends it, or `stop` is set.
/// `draw` also says whether colours are wanted.
///
/// # Errors
/// If the terminal cannot be used.
pub(crate) fn show<V>(
    view: &mut V,
    stop: &AtomicBool,
    mut draw: impl FnMut(&mut V, &mut Frame<'_>, bool),
    press: impl Fn(&mut V, KeyEvent) -> bool,
) -> io::Result<()> {
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut terminal = ratatui::try_init()?;
    let mut until_its_end = || {
        while !stop.load(Ordering::Relaxed) {
            terminal.draw(|frame| draw(view, frame, colour))?;
            // The screen is drawn anew for any event, also for a new size.
            if !wait_for_keys()? {
                break;
            }
            for _ in 0..KEYS_A_LOOK {
                if !event::poll(LOOK)? {
                    break;
                }
                if let Event::Key(key) = event::read()?
                    && key.kind != KeyEventKind::Release
                    && press(view, key)
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    };
    let outcome = until_its_end();
    ratatui::try_restore().and(outcome)
}

/// Waits for keys, for [`TICK`] at most. False if the terminal is gone: crossterm reads the end of one for ever, and heeds neither time nor
/// signals meanwhile.
fn wait_for_keys() -> io::Result<bool> {
    let keys = io::stdin();
    if !keys.is_terminal() {
        // Keys come from the controlling terminal then, and a hang-up by a signal.
        event::poll(TICK)?;
        return Ok(true);
    }
    let mut looks = [PollFd::new(keys.as_fd(), PollFlags::POLLIN)];
    match poll(&mut looks, PollTimeout::from(TICK_MILLISECONDS)) {
        Ok(_) => {
            let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
            Ok(looks[0].revents().is_none_or(|seen| !seen.intersects(gone)))
        }
        // A signal, such as that of a new size.
        Err(Errno::EINTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Ctrl-C and Ctrl-D: with the terminal in raw mode they are keys.
pub(crate) fn is_interrupt(key: KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_not_passed_on() {
        for (text, shown) in [
            ("press", "press"),
            ("\u{1b}[2Jx", " [2Jx"),
            ("a\nb\tc\u{7f}\u{9b}31m", "a b c  31m"),
            ("ok\u{202e}kcab", "ok kcab"),
            ("\u{2066}grün\u{2069}", " grün "),
        ] {
            assert_eq!(plain(text), shown);
        }
    }
}
