//! The screen: a line about the gateway, its links and sites below each other, a line about the keys.
//!
//! Everything is text first: colours and marks say nothing that no word says, so that it reads without them.

mod cell;
mod mka;
mod site;

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::View;
use super::rates::{Activity, Way};
use crate::status::text::Uptime;
use crate::terminal::{Look, Palette, sentence};
use config::lifetime;
use report::{Concern, Level, LinkReport, PortReport, SaReport, Verdict};

/// Draws what is known. Scrolls no further than the text goes.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View, colour: bool) {
    let palette = Palette { colour, width: usize::from(frame.area().width) };
    let areas = Layout::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)]);
    let [head, body, foot] = areas.areas(frame.area());
    frame.render_widget(Paragraph::new(headline(view, palette)), head);
    let lines = match &view.seen {
        None => Vec::new(),
        Some((_, report, activities)) => {
            let links = report.links.iter().zip(&activities.links);
            let sites = report.sites.iter().zip(&activities.sites);
            let links = links.flat_map(|(link, activity)| link_lines(link, activity, palette));
            links.chain(sites.flat_map(|(site, activity)| site::lines(site, activity, palette))).collect()
        }
    };
    let most = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(body.height);
    view.top = view.top.min(most);
    let more = if view.top < most { "   more below: arrows, page down" } else { "" };
    // Old figures look old.
    let style = if view.away.is_some() { Style::new().add_modifier(Modifier::DIM) } else { Style::new() };
    frame.render_widget(Paragraph::new(lines).style(style).scroll((view.top, 0)), body);
    frame.render_widget(Paragraph::new(palette.span(Look::Soft, format!("q quits{more}"))), foot);
}

fn headline(view: &View, palette: Palette) -> Vec<Line<'static>> {
    let mut spans = vec![palette.span(Look::Title, format!("gateway {}", view.name))];
    if let Some((at, report, _)) = &view.seen {
        let up = format!("  version {}, up {}  ", report.version, Uptime(report.uptime_seconds));
        spans.push(palette.span(Look::Soft, up));
        if view.away.is_some() {
            spans
                .push(palette.span(Look::Bad, format!("NO ANSWER, figures {} s old", seconds(at.elapsed()))));
        } else {
            spans.push(palette.span(Look::Good, "live"));
        }
    } else if view.away.is_some() {
        spans.push(palette.span(Look::Bad, "  NO ANSWER"));
    } else {
        spans.push(palette.span(Look::Soft, "  asking"));
    }
    let reason = view.away.clone().unwrap_or_default();
    vec![Line::from(spans), Line::from(palette.span(Look::Warn, reason))]
}

fn seconds(elapsed: Duration) -> u64 {
    elapsed.as_secs()
}

fn link_lines(link: &LinkReport, activity: &Activity, palette: Palette) -> Vec<Line<'static>> {
    let secy = &link.secy;
    let replay = match secy.replay_protect {
        true => format!("replay window {}", secy.replay_window),
        false => "no replay protection".to_owned(),
    };
    let about = match link.has_secy() {
        true => format!("  {}, validate {}, {replay}", secy.suite, secy.validate_frames),
        false => String::new(),
    };
    let mut lines = title(&format!("link {}", link.name), about, &link.verdict, &link.concerns, palette);
    lines.extend(traffic(["machine", "network"], activity, palette));
    lines.extend(
        [("plain", &link.plain), ("protected", &link.protected)]
            .map(|(word, port)| port_line(word, port, palette)),
    );
    lines.extend(discards(activity, palette));
    lines.extend(link.mka.iter().flat_map(|mka| mka::lines(mka, palette)));
    if link.has_secy() {
        lines.extend(sas(link, palette));
    }
    lines.extend(link.fieldbus.iter().flat_map(|cell| cell::lines(cell, palette)));
    lines.push(Line::default());
    lines
}

/// State of a link or a site, in a word, and its concerns.
fn title(
    name: &str,
    about: String,
    verdict: &Verdict,
    concerns: &[Concern],
    palette: Palette,
) -> Vec<Line<'static>> {
    let look = match verdict.level {
        Level::Alarm => Look::Bad,
        Level::Attention => Look::Warn,
        Level::Idle => Look::Title,
        Level::Good => Look::Good,
    };
    let title = [
        palette.span(Look::Title, format!("{name}  ")),
        palette.span(look, verdict.level.word()),
        palette.span(Look::Soft, about),
    ];
    let mut lines = vec![Line::from(Vec::from(title))];
    let mark = if verdict.level > Level::Idle { "!" } else { " " };
    let look = if verdict.level > Level::Idle { look } else { Look::Plain };
    lines.extend(sentence(mark, &format!("{}: {}", verdict.state, verdict.text), look, palette));
    for concern in concerns.iter().filter(|concern| concern.text != verdict.text) {
        let look = if concern.grave { Look::Bad } else { Look::Warn };
        lines.extend(sentence("!", &concern.text, look, palette));
    }
    lines
}

fn traffic(sides: [&str; 2], activity: &Activity, palette: Palette) -> Vec<Line<'static>> {
    let [near, far] = sides;
    let head = format!("  {:<13}{near:>26}{far:>28}", "");
    let columns = format!("  {:<13}{:>12}{:>14}{:>14}{:>14}", "", "frames/s", "Mbit/s", "frames/s", "Mbit/s");
    let mut lines =
        vec![Line::from(palette.span(Look::Soft, head)), Line::from(palette.span(Look::Soft, columns))];
    for (at, word) in ["to network", "from network"].into_iter().enumerate() {
        let figures = match &activity.ways {
            None => format!("{:>12}", "measuring"),
            Some(ways) => {
                let Way { plain, protected } = ways[at];
                format!(
                    "{:>12.0}{:>14.2}{:>14.0}{:>14.2}",
                    plain.frames_per_second,
                    plain.megabits_per_second,
                    protected.frames_per_second,
                    protected.megabits_per_second
                )
            }
        };
        lines.push(Line::from(palette.span(Look::Plain, format!("  {word:<13}{figures}"))));
    }
    lines
}

fn port_line(word: &str, port: &PortReport, palette: Palette) -> Line<'static> {
    let PortReport { interface, engine, mtu, guard, counters } = port;
    let (received, sent) = (counters.value("RxFrames"), counters.value("TxFrames"));
    let text =
        format!("  {word:<13}{interface}, {engine}, MTU {mtu}, received {received}, sent {sent} frames");
    let look = if guard == "none" { Look::Warn } else { Look::Soft };
    Line::from(Vec::from([palette.span(Look::Plain, text), palette.span(look, port.guard_words())]))
}

fn discards(activity: &Activity, palette: Palette) -> Vec<Line<'static>> {
    if activity.discards.is_empty() {
        return vec![Line::from(palette.span(Look::Soft, "  discards     none"))];
    }
    let mut lines = vec![Line::from(palette.span(Look::Soft, "  discards"))];
    for discard in &activity.discards {
        let (look, mark, pace) = match discard.per_second {
            Some(rate) => (Look::Warn, "^", format!("rising {rate:.1}/s")),
            None => (Look::Plain, " ", String::new()),
        };
        let figures = format!("  {mark} {:<22}{:>12}  {pace:<16}", discard.name, discard.count);
        let about = format!("{} ({})", discard.meaning, discard.place);
        let spans = [palette.span(look, figures), palette.span(Look::Soft, about)];
        lines.push(Line::from(Vec::from(spans)));
    }
    lines
}

fn sas(link: &LinkReport, palette: Palette) -> Vec<Line<'static>> {
    let secy = &link.secy;
    let transmit = secy.transmit_scs().flat_map(|sc| sc.sas.iter().map(|sa| ("transmit", &sc.sci, sa)));
    let receive = secy.receive.iter().flat_map(|sc| sc.sas.iter().map(|sa| ("receive", &sc.sci, sa)));
    let line = |(word, sci, sa): (&str, &String, &SaReport)| {
        let pn = match (sa.next_pn, sa.lowest_pn) {
            (Some(pn), _) => format!("next PN {pn}"),
            (None, Some(pn)) => format!("lowest PN {pn}"),
            (None, None) => "no PN left".to_owned(),
        };
        let used = if sa.in_use { "in use" } else { "NOT IN USE" };
        let left = sa
            .pns_last_seconds
            .map(|seconds| format!(", {} left", lifetime::Span(Duration::from_secs(seconds))));
        let left = left.unwrap_or_default();
        let text =
            format!("  {word:<13}SC {}, SA {}, {used}, {pn}, key {}{left}", link.named(sci), sa.an, sa.key);
        Line::from(palette.span(if sa.in_use { Look::Plain } else { Look::Warn }, text))
    };
    transmit.chain(receive).map(line).collect()
}

#[cfg(test)]
mod tests;
