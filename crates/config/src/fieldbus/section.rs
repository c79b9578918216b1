//! `[[fieldbus.relation]]` as text, which [`super::relations`] reads: `init` and `cell learn` write it.

use std::fmt;

use fieldbus::VlanTag;
use wire::MacAddr;
use wire::fieldbus::{FrameId, Protocol};

/// The section of a relation. Whether it can be is judged where it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelationSection {
    /// Protocol of its frames.
    pub protocol: Protocol,
    /// Its stations.
    pub stations: [MacAddr; 2],
    /// Identifications of their frames, in the order of the stations; of one alone the second station sends nothing. Empty where all frames
    /// of the protocol have the same one.
    pub frame_ids: Vec<FrameId>,
    /// Destinations of their frames, in that order; empty: each sends to the other station.
    pub destinations: Vec<MacAddr>,
    /// Tag of delivered frames; none: that of the cell, or the usual one of the protocol.
    pub vlan: Option<Option<VlanTag>>,
    /// Cycle, such as `1ms`.
    pub cycle: String,
}

impl fmt::Display for RelationSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = self.stations;
        writeln!(f, "[[fieldbus.relation]]\nstations  = [\"{one}\", \"{other}\"]")?;
        if self.protocol != Protocol::Profinet {
            writeln!(f, "protocol  = \"{}\"", self.protocol.name())?;
        }
        if !self.destinations.is_empty() {
            writeln!(f, "destinations = {}", list(&self.destinations, |address| format!("\"{address}\"")))?;
        }
        if let Some(tag) = self.vlan {
            f.write_str(&vlan_line(tag))?;
        }
        if !self.frame_ids.is_empty() {
            writeln!(f, "frame_ids = {}", list(&self.frame_ids, FrameId::to_string))?;
        }
        writeln!(f, "cycle     = {}", toml::Value::String(self.cycle.clone()))
    }
}

/// The line for the tag of delivered frames, of a cell or a relation.
pub fn vlan_line(tag: Option<VlanTag>) -> String {
    match tag {
        None => "vlan = \"none\"\n".into(),
        Some(tag) => format!("vlan = {{ priority = {}, vid = {} }}\n", tag.priority(), tag.vid()),
    }
}

fn list<T>(values: &[T], one: impl Fn(&T) -> String) -> String {
    format!("[{}]", values.iter().map(one).collect::<Vec<_>>().join(", "))
}
