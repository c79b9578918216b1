//! Frames and the summary as lines for people.
//!
//! ```text
//!  frame       time  octets        what
//!      7   0.001234    1518  ok    02:…:0a > 02:…:0b  SC 02:…:0a/1 AN 0 E C PN 12, data 1486: payload 1498 (0x0800)
//! ```

use std::fmt;
use std::time::Duration;

use super::frame_report::{FrameReport, FrameVerdict, SduReport};
use super::trail::{SakSummary, ScSummary, Summary};

/// A frame as a line.
#[derive(Debug)]
pub struct Line<'r> {
    /// The frame.
    pub report: &'r FrameReport,
    /// Since the first frame.
    pub time: Option<Duration>,
    /// With the colours of a terminal.
    pub colour: bool,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { report, time, colour } = self;
        match time {
            Some(time) => {
                write!(f, "{:>6} {:>6}.{:06}", report.frame, time.as_secs(), time.subsec_micros())?;
            }
            None => write!(f, "{:>6} {:>13}", report.frame, "-")?,
        }
        let (begin, end) = match (colour, report.verdict) {
            (false, _) => ("", ""),
            (true, FrameVerdict::Ok) => ("\x1b[32m", "\x1b[0m"),
            (true, FrameVerdict::Bad) => ("\x1b[1;31m", "\x1b[0m"),
            (true, FrameVerdict::Clear) => ("\x1b[33m", "\x1b[0m"),
            (true, FrameVerdict::Copy | FrameVerdict::Read) => ("\x1b[2m", "\x1b[0m"),
        };
        write!(f, "  {:>5}  {begin}{:<5}{end} ", report.length, report.verdict.word())?;
        headers(f, report)?;
        for sdu in &report.sdus {
            write!(f, "; {}", Sdu(sdu))?;
        }
        if let Some(reason) = &report.reason {
            write!(f, ": ")?;
            if let Some(counter) = report.counter {
                write!(f, "{counter}: ")?;
            }
            write!(f, "{reason}")?;
        }
        for note in &report.notes {
            write!(f, "; {note}")?;
        }
        Ok(())
    }
}

fn headers(f: &mut fmt::Formatter<'_>, report: &FrameReport) -> fmt::Result {
    if report.interface > 0 {
        write!(f, "if {} ", report.interface)?;
    }
    if let (Some(source), Some(destination)) = (&report.source, &report.destination) {
        write!(f, "{source} > {destination}")?;
    }
    for vlan in &report.vlans {
        write!(f, " VLAN {} ({})", vlan.vid, vlan.tpid)?;
    }
    if let Some(tag) = &report.sectag {
        match &report.sci {
            Some(sci) => write!(f, " SC {sci} {tag}")?,
            None => write!(f, " SC unknown {tag}")?,
        }
        write!(f, " PN {}", report.pn.unwrap_or(tag.pn.into()))?;
        if let Some(octets) = report.secure_data {
            write!(f, " data {octets}")?;
        }
        if !tag.segments.is_empty() && (tag.ext || tag.mf) {
            let lengths: Vec<_> = tag.segments.iter().map(u16::to_string).collect();
            write!(f, " ({})", lengths.join(" + "))?;
        }
    } else if let Some(mkpdu) = &report.mkpdu {
        write!(f, " {mkpdu}")?;
    } else if let Some(ethertype) = &report.ethertype {
        write!(f, " {ethertype}")?;
    }
    Ok(())
}

struct Sdu<'r>(&'r SduReport);

impl fmt::Display for Sdu<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SduReport { octets, ethertype, frames } = self.0;
        write!(f, "payload {octets}")?;
        if let Some(ethertype) = ethertype {
            write!(f, " {ethertype}")?;
        }
        match frames[..] {
            [] | [_] => Ok(()),
            [first, second] => write!(f, " of frames {first} and {second}"),
            [first, .., last] => write!(f, " of {} frames, {first} to {last}", frames.len()),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clear: u64 = self.clear.values().sum();
        write!(f, "\n{} frames: {} bad", self.frames, self.bad)?;
        for (count, word) in [
            (self.verified, "verified"),
            (self.mkpdus, "MKPDUs verified"),
            (clear, "without SecTAG"),
            (self.copies, "captured twice"),
            (self.cut, "cut by the capture's snaplen"),
            (self.sdus, "payloads delivered"),
        ] {
            if count > 0 {
                write!(f, ", {count} {word}")?;
            }
        }
        writeln!(f)?;
        for (sc, summary) in &self.scs {
            of_sc(f, sc, summary)?;
        }
        if self.other_scs > 0 {
            writeln!(f, "{} frames of further SCs", self.other_scs)?;
        }
        self.saks.iter().try_for_each(|sak| writeln!(f, "{sak}"))?;
        for (what, counts) in [
            (
                "counters",
                self.counters.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>(),
            ),
            ("without SecTAG", self.clear.iter().map(|(name, count)| format!("{name} {count}")).collect()),
        ] {
            if !counts.is_empty() {
                writeln!(f, "{what}: {}", counts.join(", "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for SakSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sak, ckn, an, suite, frame, verified } = self;
        write!(
            f,
            "SAK {sak}: AN {an}, {suite}, under CKN {ckn}, distributed in frame {frame}, {verified} frames verified"
        )
    }
}

fn of_sc(f: &mut fmt::Formatter<'_>, sc: &str, summary: &ScSummary) -> fmt::Result {
    let ScSummary { frames, bad, more_fragments, extended, .. } = summary;
    write!(f, "{sc}: {frames} frames, {bad} bad")?;
    if more_fragments + extended > 0 {
        write!(f, ", {more_fragments} with MF, {extended} with extension headers")?;
    }
    writeln!(f)?;
    for (an, trail) in &summary.ans {
        writeln!(
            f,
            "  AN {an}: {} frames, PN {} to {}, {} missing, {} duplicates, {} out of order",
            trail.frames,
            trail.lowest_pn,
            trail.highest_pn,
            trail.missing,
            trail.duplicates,
            trail.out_of_order
        )?;
    }
    for (frame, an) in &summary.an_changes {
        writeln!(f, "  AN {an} from frame {frame} on")?;
    }
    Ok(())
}
