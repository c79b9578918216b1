//! A link's cell on the screen.

use ratatui::text::Line;

use super::{Look, Palette};
use crate::status::text::cell::{Cell, Inward, Outward, Relation};
use report::cell::CellReport;

/// The cell, and the state of each relation.
pub(super) fn lines(cell: &CellReport, palette: Palette) -> Vec<Line<'static>> {
    let line =
        |look, indent: usize, text: String| Line::from(palette.span(look, format!("{:indent$}{text}", "")));
    let mut lines = vec![line(Look::Title, 2, Cell(cell).to_string())];
    for relation in &cell.relations {
        let look = match () {
            () if relation.is_shadowed() => Look::Bad,
            () if !relation.has_session() || relation.is_silent() => Look::Warn,
            () => Look::Plain,
        };
        lines.push(line(look, 4, Relation(relation).to_string()));
        lines.push(line(Look::Plain, 6, Outward(relation, &cell.bounds_ns).to_string()));
        lines.push(line(Look::Plain, 6, Inward(relation, &cell.bounds_ns).to_string()));
        let alarms = relation.receive.value("InAlarms");
        if alarms > 0 {
            lines.push(line(Look::Warn, 6, format!("alarms: {alarms}")));
        }
    }
    lines
}
