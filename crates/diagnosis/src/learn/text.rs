//! A proposal as text: comments that tell how it came about, and the configuration of either box. All of it is TOML.

use std::fmt::{self, Write as _};
use std::time::Duration;

use config::check::cell::time;
use config::fieldbus::{RelationSection, vlan_line};
use fieldbus::VlanTag;
use wire::fieldbus::Protocol;

use super::flow::Origin;
use super::proposal::{End, Learned, Proposed};

/// Lines about frames that were left out.
const TOLD: usize = 40;
/// The watchdog of a cell that names none.
const USUAL_WATCHDOG: u16 = 3;

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timing => "by the time between frames",
            Self::Counter => "by the CycleCounter in the frames",
            Self::Connect => "by PROFINET's Connect",
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name} ")?;
        }
        write!(f, "{} {}", self.station, self.frame_id)
    }
}

impl End {
    fn heard(&self) -> String {
        match self.frames {
            0 => "no frame heard".into(),
            frames => {
                format!("{frames} frames of {} octets, within {}", self.octets, time(rounded(self.jitter)))
            }
        }
    }
}

/// A tenth of a microsecond is more than a capture knows.
fn rounded(time: Duration) -> Duration {
    Duration::from_nanos(u64::try_from(time.as_nanos() / 100 * 100).unwrap_or(u64::MAX))
}

/// A cycle as the configuration has it: `1ms`, `31.25us`.
pub fn cycle(cycle: Duration) -> String {
    match cycle.as_nanos() {
        nanoseconds if nanoseconds.is_multiple_of(1_000_000) => format!("{}ms", nanoseconds / 1_000_000),
        nanoseconds => {
            let text = format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
            format!("{}us", text.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

/// Grounds of the proposal, each line a comment of TOML.
impl fmt::Display for Learned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { relations, heard, .. } = self;
        let count =
            if relations.len() == 1 { "1 relation".into() } else { format!("{} relations", relations.len()) };
        writeln!(
            f,
            "# Cell {}: {count}, learned in {:.1} s from {} frames, {} of them cyclic.",
            self.setting.name,
            self.duration.as_secs_f64(),
            heard.frames,
            heard.cyclic
        )?;
        writeln!(
            f,
            "# A PROPOSAL: anybody on the network can send what was heard. Compare it with the engineering tool."
        )?;
        for (number, Proposed { protocol, ends: [a, b], cycle, origin, has_two_cycles, .. }) in
            relations.iter().enumerate()
        {
            let bus = if *protocol == Protocol::Profinet { "" } else { protocol.name() };
            let bus = if bus.is_empty() { String::new() } else { format!(", {bus}") };
            writeln!(f, "#\n# {}. {a} and {b}: {}, {origin}{bus}", number + 1, time(*cycle))?;
            writeln!(f, "#    there {}; back {}", a.heard(), b.heard())?;
            if *has_two_cycles {
                writeln!(f, "#    the two directions have different cycles: this is the longer one")?;
            }
        }
        self.write_left_out(f)?;
        self.write_discards(f)
    }
}

impl Learned {
    fn write_left_out(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.left_out.is_empty() {
            writeln!(f, "#\n# Left out:")?;
        }
        for left_out in self.left_out.iter().take(TOLD) {
            writeln!(f, "#   {}: {}", left_out.what, left_out.why)?;
        }
        match self.left_out.len().saturating_sub(TOLD) {
            0 => Ok(()),
            more => writeln!(f, "#   and {more} more"),
        }
    }

    fn write_discards(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heard = &self.heard;
        if heard.protected > 0 {
            writeln!(
                f,
                "#\n# {} frames were protected already: listen on the machines' side of the gateways for what is inside",
                heard.protected
            )?;
        }
        for (count, what) in [
            (heard.truncated, "frames were cut short"),
            (heard.refused, "Connects were refused by a device"),
            (heard.malformed, "Connects were malformed"),
            (heard.forgotten, "connections and names were forgotten: there are too many"),
            (heard.unfollowed, "cyclic frames were not looked at: there are too many flows"),
        ] {
            if count > 0 {
                writeln!(f, "#\n# {count} {what}")?;
            }
        }
        Ok(())
    }

    /// Name of the gateway, and of its file without its ending: at box A (0) or B (1).
    pub fn gateway(&self, end: usize) -> String {
        format!("{}-{}", self.setting.name, ["a", "b"][end])
    }

    /// The configuration of box A (0) or B (1).
    pub fn configuration(&self, end: usize) -> String {
        let name = &self.setting.name;
        // Writing to a string never fails.
        let mut text = format!("[gateway]\nname = \"{}\"\n\n", self.gateway(end));
        let (plain, protected) = (quoted(&self.setting.plain), quoted(&self.setting.protected));
        let _ = write!(
            text,
            "[[link]]   # carries what belongs to no relation\n\
             name      = \"{name}-rest\"\n\
             plain     = {plain}   # towards the machines\n\
             protected = {protected}   # towards the network\n\
             fragment  = \"auto\"\n\n\
             [link.mka]\n\
             cak_file = \"{name}.cak\"   # frameward keygen cak --out {name}.cak; the same on both boxes\n\n\
             [[fieldbus]]\n\
             name  = \"{name}\"\n\
             rest  = \"{name}-rest\"\n\
             suite = \"chacha20-poly1305\"\n\
             mode  = \"shadow\"   # frames pass in clear; see the book's page on cells\n\
             master_key_file = \"{name}.key\"   # frameward keygen fieldbus --out {name}.key; the same on both boxes\n",
        );
        let stations: Vec<_> = self.stations(end).iter().map(|station| format!("\"{station}\"")).collect();
        let _ = writeln!(text, "local = [{}]   # the stations behind this box", stations.join(", "));
        if let Some(watchdog) = self.watchdog.filter(|watchdog| *watchdog != USUAL_WATCHDOG) {
            let _ = writeln!(text, "watchdog = {watchdog}");
        }
        text.push_str(&vlan(self.tag));
        for relation in &self.relations {
            let _ = write!(text, "\n{}", section(relation));
        }
        text
    }
}

/// The section of a relation.
fn section(relation: &Proposed) -> RelationSection {
    let Proposed { protocol, ends: [a, b], cycle: time, .. } = relation;
    let has_group = a.group.is_some() || b.group.is_some();
    let destinations = [a.group.unwrap_or(b.station), b.group.unwrap_or(a.station)];
    RelationSection {
        protocol: *protocol,
        stations: [a.station, b.station],
        frame_ids: match protocol.only_identification() {
            None => vec![a.frame_id, b.frame_id],
            Some(_) => Vec::new(),
        },
        destinations: if has_group { destinations.to_vec() } else { Vec::new() },
        // Those of PROFINET have the cell's.
        vlan: (*protocol != Protocol::Profinet).then(|| a.tag.and_then(vlan_tag)),
        cycle: cycle(*time),
    }
}

fn vlan_tag(tci: u16) -> Option<VlanTag> {
    VlanTag::new((tci >> 13) as u8, tci & 0xfff)
}

/// The line for the tag of frames that are delivered, if it is not the usual one.
fn vlan(of_cell: Option<u16>) -> String {
    match of_cell.map(vlan_tag) {
        Some(Some(VlanTag::PROFINET)) => String::new(),
        tag => vlan_line(tag.flatten()),
    }
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}
