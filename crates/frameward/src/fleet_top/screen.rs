//! The screen: the fleet's verdict, the table of gateways, what is known of one of them, a line about the keys.
//!
//! Everything is text first: colours and marks say nothing that no word says, so that it reads without them.

use fleet::Span;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::state::{State, is_troubled};
use crate::cockpit::overview::{self, GatewayView, Overview, Verdict};
use crate::terminal::{Look, Palette, plain, sentence};

/// Columns from which on versions and plants are shown.
const WIDE: u16 = 130;
const MIDDLING: u16 = 64;

/// Draws what is known at `now`, in seconds since 1970.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, now: u64, colour: bool) {
    let palette = Palette { colour, width: usize::from(frame.area().width) };
    let head = headlines(state, palette);
    let detail = if state.is_open { details(state, now, palette) } else { Vec::new() };
    let lines = |lines: &[Line<'_>]| u16::try_from(lines.len()).unwrap_or(u16::MAX);
    // The table keeps some lines, whatever there is to say.
    let room = frame.area().height.saturating_sub(lines(&head) + 1);
    let below = lines(&detail).min(room.saturating_sub(6));
    let areas = [
        Constraint::Length(lines(&head)),
        Constraint::Min(0),
        Constraint::Length(below),
        Constraint::Length(1),
    ];
    let [top, middle, bottom, foot] = Layout::vertical(areas).areas(frame.area());
    frame.render_widget(Paragraph::new(head), top);
    table(frame, middle, state, now, palette);
    frame.render_widget(Paragraph::new(detail).style(age(state)), bottom);
    frame.render_widget(Paragraph::new(footline(state, palette)), foot);
}

/// Style that makes old figures look old.
fn age(state: &State) -> Style {
    if state.away.is_some() { Style::new().add_modifier(Modifier::DIM) } else { Style::new() }
}

fn headlines(state: &State, palette: Palette) -> Vec<Line<'static>> {
    let mut spans = vec![palette.span(Look::Title, "fleet  ")];
    let (look, word) = match (&state.away, &state.overview) {
        (Some(_), _) => (Look::Bad, "NO ANSWER"),
        (None, None) => (Look::Soft, "asking"),
        (None, Some(_)) => (Look::Good, "live"),
    };
    spans.push(palette.span(look, word));
    if let Some(overview) = &state.overview {
        let about = format!("  {} plants, operator {}", overview.plants.len(), plain(&overview.fleet));
        spans.push(palette.span(Look::Soft, about));
    }
    let mut lines = vec![Line::from(spans)];
    lines.extend(state.away.iter().flat_map(|why| sentence("!", &plain(why), Look::Bad, palette)));
    lines
        .extend(state.problems.iter().take(3).flat_map(|why| sentence("!", &plain(why), Look::Bad, palette)));
    if let Some(overview) = &state.overview {
        lines.extend(sentence(
            mark(overview.verdict),
            &headline(overview),
            look_of(overview.verdict),
            palette,
        ));
        let worst = overview.gateways.iter().filter(|one| is_troubled(one.verdict));
        if let Some(worst) = worst.reduce(|worst, one| if one.verdict > worst.verdict { one } else { worst })
        {
            let text = format!("{}: {}", plain(&worst.name), trouble(worst));
            lines.extend(sentence(" ", &text, Look::Plain, palette));
        }
    }
    lines
}

/// Cause and cure.
fn trouble(one: &GatewayView) -> String {
    let joint = if one.cure.is_empty() { "" } else { "; " };
    plain(&format!("{}{joint}{}", one.cause, one.cure))
}

/// Number of gateways that are fine, and states of the others.
fn headline(overview: &Overview) -> String {
    let all = overview.gateways.len();
    let count =
        |is_so: &dyn Fn(&GatewayView) -> bool| overview.gateways.iter().filter(|one| is_so(one)).count();
    let fine = count(&|one| one.verdict == Verdict::Good);
    let troubled = count(&|one| is_troubled(one.verdict));
    let quiet = all - fine - troubled;
    let mut text = format!("{fine} of {all} gateways fine");
    if quiet > 0 {
        text += &format!("; {quiet} idle or waiting");
    }
    if troubled > 0 {
        // A version that is confirmed says nothing of links.
        let is_confirmed = |one: &GatewayView| one.state == overview::State::Confirmed;
        let is_untold = |one: &GatewayView| is_confirmed(one) && one.verdict == Verdict::Unknown;
        let of_parts = [
            (count(&is_untold), "without verdicts"),
            (
                count(&|one| is_troubled(one.verdict) && is_confirmed(one) && !is_untold(one)),
                "with a part that is not well",
            ),
        ];
        let others = overview::State::ALL.into_iter().filter(|state| *state != overview::State::Confirmed);
        let of_state =
            others.map(|state| (count(&|one| is_troubled(one.verdict) && one.state == state), state.word()));
        let all = of_parts.into_iter().chain(of_state).filter(|(count, _)| *count > 0);
        let words: Vec<_> = all.map(|(count, words)| format!("{count} {words}")).collect();
        text += &format!("; {troubled} need somebody: {}", words.join(", "));
    }
    text
}

const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "+",
        Verdict::Idle => "-",
        Verdict::Unknown => "?",
        Verdict::Attention | Verdict::Alarm => "!",
    }
}

const fn look_of(verdict: Verdict) -> Look {
    match verdict {
        Verdict::Good => Look::Good,
        Verdict::Idle | Verdict::Unknown => Look::Title,
        Verdict::Attention => Look::Warn,
        Verdict::Alarm => Look::Bad,
    }
}

/// A verdict in a word, as `status` has it.
const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "fine",
        Verdict::Idle => "idle",
        Verdict::Unknown => "unknown",
        Verdict::Attention => "ATTENTION",
        Verdict::Alarm => "ALARM",
    }
}

fn heard(one: &GatewayView, now: u64) -> String {
    one.heard.map_or_else(|| "never".to_owned(), |heard| format!("{} ago", Span(now.saturating_sub(heard))))
}

fn version(one: &GatewayView) -> String {
    let words =
        |version: Option<u64>| version.map_or_else(|| "none".to_owned(), |version| version.to_string());
    if one.in_use == one.published {
        return words(one.in_use);
    }
    format!("{} > {}", words(one.in_use), words(one.published))
}

fn table(frame: &mut Frame<'_>, area: Rect, state: &mut State, now: u64, palette: Palette) {
    state.page = usize::from(area.height.saturating_sub(1));
    state.first = state.first.clamp(state.at.saturating_sub(state.page.saturating_sub(1)), state.at);
    let columns: [(&str, Constraint, u16); 6] = [
        ("VERDICT", Constraint::Length(11), 0),
        ("GATEWAY", Constraint::Fill(2), 0),
        ("PLANT", Constraint::Fill(1), MIDDLING),
        ("STATE", Constraint::Length(11), 0),
        ("HEARD", Constraint::Length(16), MIDDLING),
        ("VERSION", Constraint::Length(23), WIDE),
    ];
    let shown = columns.iter().filter(|(_, _, width)| area.width >= *width);
    let widths: Vec<_> = shown.clone().map(|(_, width, _)| *width).chain([Constraint::Fill(3)]).collect();
    let titles = shown.map(|(title, _, _)| *title).chain(["WHAT IS WRONG"]);
    let titles = Row::new(titles.map(Cell::from)).style(palette.style(Look::Soft));
    let last = state.rows.len().min(state.first + state.page);
    let rows = (state.first..last).filter_map(|row| {
        let one = state.gateway(row)?;
        let is_chosen = row == state.at;
        let verdict = format!("{} {}", mark(one.verdict), word(one.verdict));
        let all = [
            Cell::from(palette.span(look_of(one.verdict), verdict)),
            Cell::from(palette.span(Look::Title, plain(&one.name))),
            Cell::from(plain(one.plant.as_deref().unwrap_or("-"))),
            Cell::from(one.state.word()),
            Cell::from(heard(one, now)),
            Cell::from(version(one)),
        ];
        let cells = all.into_iter().zip(&columns).filter(|(_, (_, _, width))| area.width >= *width);
        let cells = cells.map(|(cell, _)| cell).chain([Cell::from(plain(&one.cause))]);
        let style = Style::new().add_modifier(if is_chosen { Modifier::REVERSED } else { Modifier::empty() });
        Some(Row::new(cells).style(style))
    });
    let rows: Vec<_> = rows.collect();
    frame.render_widget(Table::new(rows, widths).header(titles).style(age(state)), area);
}

/// All that is known of the chosen gateway.
fn details(state: &State, now: u64, palette: Palette) -> Vec<Line<'static>> {
    let (Some(one), Some(overview)) = (state.chosen(), &state.overview) else { return Vec::new() };
    let title = [
        palette.span(Look::Title, format!("{}  ", plain(&one.name))),
        palette.span(look_of(one.verdict), word(one.verdict)),
        palette.span(
            Look::Soft,
            format!(
                "  {}, plant {}, version {}, heard {}",
                one.state.word(),
                plain(one.plant.as_deref().unwrap_or("-")),
                version(one),
                heard(one, now)
            ),
        ),
    ];
    let rule = palette.span(Look::Soft, "-".repeat(palette.width));
    let mut lines = vec![Line::from(rule), Line::from(Vec::from(title))];
    if !one.cause.is_empty() {
        lines.extend(sentence(mark(one.verdict), &trouble(one), look_of(one.verdict), palette));
    }
    let row = |what: String, verdict: Verdict, words: &str| {
        let words = if words.is_empty() { word(verdict) } else { words };
        let text = format!("  {} {:<30} {}", mark(verdict), plain(&what), plain(words));
        let look = if is_troubled(verdict) { look_of(verdict) } else { Look::Plain };
        Line::from(palette.span(look, text))
    };
    lines.extend(
        one.parts.iter().map(|part| row(format!("{} {}", part.kind, part.name), part.verdict, &part.words)),
    );
    if one.parts_left_out > 0 {
        let more = format!("    and {} more parts, none of them worse", one.parts_left_out);
        lines.push(Line::from(palette.span(Look::Soft, more)));
    }
    let connections = overview.connections.iter().filter(|of| of.gateways.contains(&one.name));
    lines.extend(connections.map(|of| {
        let others: Vec<_> =
            of.gateways.iter().filter(|name| **name != one.name).map(String::as_str).collect();
        let others = match others.as_slice() {
            [a, b, c, _, ..] => format!("{a}, {b}, {c} and {} more", others.len() - 3),
            few => few.join(", "),
        };
        let words = if of.words.is_empty() { word(of.verdict) } else { &of.words };
        row(format!("{} {}", of.kind, of.name), of.verdict, &format!("with {others}: {words}"))
    }));
    lines
}

fn footline(state: &State, palette: Palette) -> Line<'static> {
    let shown = state.rows.len();
    let order = if state.is_reversed { ", turned" } else { "" };
    let about = format!("{shown} shown, by {}{order}", state.sort.word());
    let search = plain(&state.search);
    match (state.is_typing, search.is_empty()) {
        (true, _) => {
            Line::from(palette.span(Look::Title, format!("/{search}_   {about}   Enter done, Esc forgets")))
        }
        (false, false) => {
            Line::from(palette.span(Look::Title, format!("/{search}   {about}   Esc forgets, q quits")))
        }
        (false, true) => {
            let filter = if state.is_filtered { "all" } else { "needs somebody" };
            let keys = format!("{about}   q quits, / searches, f {filter}, s sorts, r turns, Enter opens");
            Line::from(palette.span(Look::Soft, keys))
        }
    }
}
