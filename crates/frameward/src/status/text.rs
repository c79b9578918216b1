//! The report as text for people.

pub(super) mod cell;
pub(super) mod mka;
mod site;

use std::fmt;
use std::time::Duration;

use config::lifetime::Span;
use config::suite_speed::Advice;
use report::table::{self, Group};
use report::{
    Concern, Counters, FleetReport, FleetState, GatewayReport, LinkReport, PortReport, PrivilegeReport,
    ReloadReport, SaReport, UpgradeReport, Verdict,
};
use wire::Counter;

/// Counters that are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// Those that are not 0.
    NonZero,
    /// All.
    All,
}

/// A report that prints as text.
#[derive(Clone, Copy, Debug)]
pub struct StatusText<'r> {
    /// The report.
    pub report: &'r GatewayReport,
    /// Counters that are shown.
    pub detail: Detail,
    /// Whether to say what was measured at the start, too: how fast the suites are, and whether it pays to antedate. And the meaning of each
    /// counter that a verdict names.
    pub verbose: bool,
}

impl fmt::Display for StatusText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GatewayReport {
            name,
            version,
            uptime_seconds,
            privileges,
            suite_speeds,
            antedating,
            cleared_seconds,
            reload,
            reload_waits,
            upgrade,
            fleet,
            links,
            sites,
            ..
        } = self.report;
        writeln!(f, "gateway {name}, version {version}, up {}", Uptime(*uptime_seconds))?;
        for (what, grant) in privileges.iter().flat_map(PrivilegeReport::named) {
            writeln!(f, "  {what:<14} {grant}")?;
        }
        if let Some(speeds) = suite_speeds.as_ref().filter(|_| self.verbose) {
            writeln!(f, "  {:<14} {speeds}", "cipher suites")?;
        }
        if let Some(antedating) = antedating.as_ref().filter(|_| self.verbose) {
            writeln!(f, "  {:<14} {antedating}", "antedate")?;
        }
        if let Some(seconds) = cleared_seconds {
            writeln!(f, "  {:<14} cleared {} ago", "counters", Uptime(*seconds))?;
        }
        if let Some(ReloadReport { count, done, lines }) = reload {
            let outcome = if *done { "done" } else { "FAILED" };
            writeln!(f, "  {:<14} {count}, the last one {outcome}", "reloads")?;
            for line in lines.iter().filter(|_| !done) {
                writeln!(f, "    {line}")?;
            }
        }
        if let Some(why) = reload_waits {
            writeln!(f, "  {:<14} {why}", "reload waits")?;
        }
        if let Some(UpgradeReport { count, done, waited_ms, why }) = upgrade {
            let outcome = if *done { "done" } else { "FAILED" };
            let waited = waited_ms.map(|ms| format!("; frames waited {ms} ms")).unwrap_or_default();
            writeln!(f, "  {:<14} {count}, the last one {outcome}{waited}", "upgrades")?;
            if let Some(why) = why {
                writeln!(f, "    {why}")?;
            }
        }
        if let Some(fleet) = fleet {
            of_fleet(f, fleet)?;
        }
        links.iter().try_for_each(|link| self.link(f, link))?;
        sites.iter().try_for_each(|site| self.site(f, site))
    }
}

/// The version of the fleet, and since when the directory is silent.
fn of_fleet(f: &mut fmt::Formatter<'_>, fleet: &FleetReport) -> fmt::Result {
    let state = fleet.state.word();
    match (fleet.version, fleet.state) {
        (None, _) => write!(f, "  {:<14} no version yet, {state}", "fleet")?,
        (Some(version), FleetState::Confirmed | FleetState::OnTrial) => {
            write!(f, "  {:<14} version {version}, {state}", "fleet")?;
        }
        (Some(version), _) => write!(f, "  {:<14} version {version} in use; the newest: {state}", "fleet")?,
    }
    writeln!(f, "{}", fleet.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())?;
    if let Some(why) = &fleet.directory_away {
        match fleet.directory_answered_seconds {
            Some(seconds) => writeln!(f, "  {:<14} stale since {} ago: {why}", "directory", Uptime(seconds))?,
            None => writeln!(f, "  {:<14} stale since the start: {why}", "directory")?,
        }
    }
    Ok(())
}

/// The verdict, and what is to be said beside it.
fn judged(f: &mut fmt::Formatter<'_>, indent: usize, verdict: &Verdict, concerns: &[Concern]) -> fmt::Result {
    let Verdict { state, level, text, .. } = verdict;
    match level.word() {
        word if word.eq_ignore_ascii_case(state) => writeln!(f, "{:indent$}{word}: {text}", "")?,
        word => writeln!(f, "{:indent$}{word}, {state}: {text}", "")?,
    }
    for Concern { grave, text } in concerns.iter().filter(|concern| concern.text != verdict.text) {
        writeln!(f, "{:indent$}{}: {text}", "", if *grave { "NOT PROTECTING" } else { "attention" })?;
    }
    Ok(())
}

impl StatusText<'_> {
    fn link(&self, f: &mut fmt::Formatter<'_>, link: &LinkReport) -> fmt::Result {
        writeln!(f, "\nlink {}", link.name)?;
        judged(f, 2, &link.verdict, &link.concerns)?;
        let of_cell = link
            .fieldbus
            .iter()
            .flat_map(|_| [Group::Cell, Group::Hello, Group::RelationTransmit, Group::RelationReceive]);
        let table = table::counters().chain(of_cell.flat_map(Group::table));
        self.explained(f, &link.verdict, &link.concerns, table)?;
        self.port(f, "plain", &link.plain)?;
        self.port(f, "protected", &link.protected)?;
        if let Some(cell) = &link.fieldbus {
            self.cell(f, cell)?;
        }
        if !link.has_secy() {
            return Ok(());
        }
        let secy = &link.secy;
        let protect = if secy.protect_frames { "" } else { ", FRAMES LEAVE IN CLEAR" };
        let replay = match secy.replay_protect {
            true => format!("replay window {}", secy.replay_window),
            false => "no replay protection".to_owned(),
        };
        writeln!(f, "  SecY {}, validate {}, {replay}{protect}", secy.suite, secy.validate_frames)?;
        // A gateway of another release may not tell.
        if let Some(path) = &secy.path {
            writeln!(f, "    path, both ways: {path}")?;
        }
        // A suite that this release does not know comes from a gateway of another one.
        if let (true, Some(speeds), Ok(suite)) = (self.verbose, &self.report.suite_speeds, secy.suite.parse())
        {
            writeln!(f, "    {}", Advice::new(speeds, suite))?;
        }
        if let Some(mka) = &link.mka {
            self.mka(f, mka)?;
        }
        self.counters(f, 4, &secy.counters)?;
        for sc in secy.transmit_scs() {
            writeln!(f, "    transmit SC {}", sc.sci)?;
            self.counters(f, 6, &sc.counters)?;
            sc.sas.iter().try_for_each(|sa| self.sa(f, sa))?;
        }
        for sc in &secy.receive {
            writeln!(f, "    receive SC {}", link.named(&sc.sci))?;
            self.counters(f, 6, &sc.counters)?;
            sc.sas.iter().try_for_each(|sa| self.sa(f, sa))?;
        }
        Ok(())
    }

    /// With `--verbose`: the meaning of each counter that the verdict and what stands beside it name.
    fn explained<'c>(
        &self,
        f: &mut fmt::Formatter<'_>,
        verdict: &Verdict,
        concerns: &[Concern],
        table: impl Iterator<Item = &'c Counter>,
    ) -> fmt::Result {
        if !self.verbose {
            return Ok(());
        }
        let texts = concerns.iter().map(|concern| concern.text.as_str()).chain([verdict.text.as_str()]);
        let is_letter = |c: char| c.is_ascii_alphanumeric();
        let named: Vec<_> = texts.flat_map(|text| text.split(|c| !is_letter(c))).collect();
        let mut told = Vec::new();
        for Counter { name, meaning, .. } in table.filter(|row| named.contains(&row.name)) {
            // Some names stand in several tables.
            if !told.contains(name) {
                told.push(*name);
                writeln!(f, "    {name}: {meaning}")?;
            }
        }
        Ok(())
    }

    fn port(&self, f: &mut fmt::Formatter<'_>, side: &str, port: &PortReport) -> fmt::Result {
        let PortReport { interface, engine, mtu, .. } = port;
        writeln!(f, "  {side} {interface}, {engine}, MTU {mtu}{}", port.guard_words())?;
        self.counters(f, 4, &port.counters)
    }

    fn sa(&self, f: &mut fmt::Formatter<'_>, sa: &SaReport) -> fmt::Result {
        write!(f, "      SA {}, key {}", sa.an, sa.key)?;
        if let Some(pn) = sa.next_pn {
            write!(f, ", next PN {pn}")?;
        }
        if let Some(left) = sa.pns_left {
            write!(f, ", {left} left")?;
        }
        if let Some(seconds) = sa.pns_last_seconds {
            write!(f, ": {} at the rate since the start", Span(Duration::from_secs(seconds)))?;
        }
        if let Some(pn) = sa.lowest_pn {
            write!(f, ", lowest PN {pn}")?;
        }
        writeln!(f, "{}", if sa.in_use { "" } else { ", not in use" })?;
        self.counters(f, 8, &sa.counters)
    }

    fn counters(&self, f: &mut fmt::Formatter<'_>, indent: usize, counters: &Counters) -> fmt::Result {
        for (name, value) in counters.iter() {
            if value != 0 || self.detail == Detail::All {
                let width = 36_usize.saturating_sub(indent);
                writeln!(f, "{:indent$}{name:<width$} {value:>20}", "")?;
            }
        }
        Ok(())
    }
}

/// Seconds as `1d 02:03:04`.
pub(super) struct Uptime(pub(super) u64);

impl fmt::Display for Uptime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, hours, minutes, seconds) =
            (self.0 / 86_400, self.0 / 3_600 % 24, self.0 / 60 % 60, self.0 % 60);
        if days > 0 {
            write!(f, "{days}d ")?;
        }
        write!(f, "{hours:02}:{minutes:02}:{seconds:02}")
    }
}
