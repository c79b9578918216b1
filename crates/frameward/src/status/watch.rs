//! `status --watch`: a gateway's figures, again every second, until `q`.
//!
//! ```text
//!  thread "ask" ── the control socket, once a second ──▶ a report, or why there is none
//!                                                          │
//!  main thread   keys, size, signals ──▶ draws  ◀──────────┘
//! ```
//!
//! A gateway that goes away is shown as away, and its last figures as old; when it is back they go on. On a terminal it
//! takes the whole screen and gives it back as it was, also after a panic; elsewhere it prints a line for each link.

mod plain;
mod rates;
mod screen;

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent};

use super::Found;
use crate::terminal::{self, TICK};
use rates::{Activities, Activity, Follower};
use report::GatewayReport;

/// Interval between requests to the gateway.
const PERIOD: Duration = Duration::from_secs(1);

/// A gateway, as known so far.
#[derive(Default)]
struct View {
    name: String,
    /// The last report, when it came, and what links and sites did.
    seen: Option<(Instant, GatewayReport, Activities)>,
    /// Why there is no newer one.
    away: Option<String>,
    follower: Follower,
    /// The first line of the links that is shown.
    top: u16,
}

impl View {
    fn take(&mut self, answer: Result<GatewayReport, String>) {
        match answer {
            Err(reason) => self.away = Some(reason),
            Ok(report) => {
                let activities = self.follower.follow(&report);
                self.seen = Some((Instant::now(), report, activities));
                self.away = None;
            }
        }
    }
}

/// Shows what was found by its socket in `directory`, until the user or a signal ends it.
///
/// # Errors
/// If the terminal, or what stands in its place, cannot be written to.
pub fn watch(directory: &Path, found: &Found) -> io::Result<()> {
    let stop = terminal::stop_by_signals()?;
    let answers = ask(directory, found)?;
    let mut view = View { name: found.gateway.clone(), ..View::default() };
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return plain::print(view, &answers, &stop);
    }
    terminal::show(
        &mut view,
        &stop,
        |view, frame, colour| {
            answers.try_iter().for_each(|answer| view.take(answer));
            screen::draw(frame, view, colour);
        },
        |view, key| is_end(key, view),
    )
}

/// Asks once a second, on a thread that ends with the receiver: a gateway that hangs holds up no key.
fn ask(directory: &Path, found: &Found) -> io::Result<Receiver<Result<GatewayReport, String>>> {
    let (sender, answers) = mpsc::sync_channel(1);
    let (directory, found) = (directory.to_owned(), found.clone());
    let ask = move || {
        loop {
            let begin = Instant::now();
            let document = report::ask(&directory, &found.gateway);
            let mut answer = document.and_then(|document| report::parse(&found.gateway, &document));
            if let Ok(report) = &mut answer {
                found.narrow(report);
            }
            if sender.send(answer.map_err(|error| error.to_string())).is_err() {
                return;
            }
            std::thread::sleep(PERIOD.saturating_sub(begin.elapsed()));
        }
    };
    std::thread::Builder::new().name("ask".to_owned()).spawn(ask)?;
    Ok(answers)
}

/// Acts on a key; true if it ends the program.
fn is_end(key: KeyEvent, view: &mut View) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return true,
        _ if terminal::is_interrupt(key) => return true,
        KeyCode::Up | KeyCode::Char('k') => view.top = view.top.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => view.top = view.top.saturating_add(1),
        KeyCode::PageUp => view.top = view.top.saturating_sub(10),
        KeyCode::PageDown | KeyCode::Char(' ') => view.top = view.top.saturating_add(10),
        KeyCode::Home => view.top = 0,
        KeyCode::End => view.top = u16::MAX,
        _ => {}
    }
    false
}
