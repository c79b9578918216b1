//! A link's key agreement on the screen.

use ratatui::text::Line;

use super::{Look, Palette};
use crate::status::text::mka::{Ago, KeyServer, Member, Sak};
use report::mka::{ChangeReport, MkaReport};

/// The agreement, the members, and the last changes.
pub(super) fn lines(mka: &MkaReport, palette: Palette) -> Vec<Line<'static>> {
    let (look, state) = if mka.secured { (Look::Plain, "secured") } else { (Look::Warn, "NOT SECURED") };
    let line = |look, word: &str, text: String| Line::from(palette.span(look, format!("  {word:<13}{text}")));
    let mut lines = vec![line(look, "key agreement", format!(" {state}, {}", KeyServer(mka)))];
    for member in &mka.members {
        let look = if member.live { Look::Plain } else { Look::Warn };
        lines.push(line(look, "", Member(member).to_string()));
    }
    lines.extend(mka.saks.iter().map(|sak| line(Look::Plain, "", Sak(sak).to_string())));
    if let Some(ChangeReport { ms_ago, text }) = mka.changes.last() {
        lines.push(line(Look::Soft, "", format!("{} ago: {text}", Ago(*ms_ago))));
    }
    lines
}
