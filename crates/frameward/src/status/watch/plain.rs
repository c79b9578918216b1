//! Output without a terminal: a line for each link or site and second, for a file or another program.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Activity, GatewayReport, Receiver, RecvTimeoutError, TICK, View};
use report::Verdict;

/// Prints until `stop`, or until nobody reads any more.
pub(super) fn print(
    mut view: View,
    answers: &Receiver<Result<GatewayReport, String>>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut output = io::stdout().lock();
    while !stop.load(Ordering::Relaxed) {
        match answers.recv_timeout(TICK) {
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(answer) => view.take(answer),
        }
        match output.write_all(lines(&view).as_bytes()).and_then(|()| output.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written?,
        }
    }
    Ok(())
}

/// Lines of a report, or why there is none.
pub(super) fn lines(view: &View) -> String {
    if let Some(reason) = &view.away {
        return format!("{} away: {reason}\n", view.name);
    }
    let Some((_, report, activities)) = &view.seen else { return String::new() };
    let links = report.links.iter().map(|link| (&link.name, &link.verdict)).zip(&activities.links);
    let sites = report.sites.iter().map(|site| (&site.name, &site.verdict)).zip(&activities.sites);
    links
        .chain(sites)
        .map(|((name, verdict), activity)| line(&report.name, report.uptime_seconds, name, verdict, activity))
        .collect()
}

fn line(gateway: &str, uptime: u64, link: &str, verdict: &Verdict, activity: &Activity) -> String {
    let mut line = format!("{gateway} {uptime}s {link} {} ({})", verdict.level.word(), verdict.state);
    if let Some([out, back]) = &activity.ways {
        for (word, way) in [("to-network", out), ("from-network", back)] {
            let pace = way.plain;
            line += &format!(
                " {word} {:.0} frames/s {:.3} Mbit/s",
                pace.frames_per_second, pace.megabits_per_second
            );
        }
    }
    for discard in &activity.discards {
        let rising = discard.per_second.map(|rate| format!(" (rising {rate:.1}/s)"));
        line += &format!(" {}={}{}", discard.name, discard.count, rising.unwrap_or_default());
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::samples::sample;

    #[test]
    fn a_line_for_each_link() {
        let mut view = View { name: "line".into(), ..View::default() };
        let mut report = sample("line");
        report.uptime_ms = 1_000;
        report.uptime_seconds = 1;
        view.take(Ok(report.clone()));
        assert_eq!(lines(&view), "line 1s press ATTENTION (no keys) InPktsBadTag=6 InPktsNoTag=5\n");
        report.uptime_ms = 2_000;
        view.take(Ok(report));
        assert_eq!(
            lines(&view),
            "line 1s press ATTENTION (no keys) to-network 0 frames/s 0.000 Mbit/s from-network 0 frames/s 0.000 Mbit/s InPktsBadTag=6 InPktsNoTag=5\n"
        );
        view.take(Err("no gateway".into()));
        assert_eq!(lines(&view), "line away: no gateway\n");
    }
}
