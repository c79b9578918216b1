//! A relation on the command line and in a bundle, in one line:
//!
//! ```text
//! [PROTOCOL,]MAC,MAC[,ID[,ID]],CYCLE[,to=MAC[,to=MAC]][,vlan=PRIORITY.VID|,vlan=none]
//!
//! 02:00:00:00:01:01,02:00:00:00:02:01,0x8001,0x8002,1ms
//! goose,02:00:00:00:01:01,02:00:00:00:02:01,0x0003,2ms,to=01:0c:cd:01:00:01,vlan=4.10
//! modbus-tcp,02:00:00:00:01:01,02:00:00:00:02:01,100ms
//! ```
//!
//! Without a protocol it is PROFINET's. Of one ID the second station sends nothing. What is left out has the meaning that it has in a
//! configuration.

use std::fmt;

use config::fieldbus::{RelationSection, VlanTag};
use wire::MacAddr;
use wire::fieldbus::{FrameId, Protocol};

use super::InitError;

/// A relation, judged with the configuration that it becomes a part of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Relation(pub(super) RelationSection);

impl Relation {
    pub(super) fn parse(text: &str) -> Result<Self, InitError> {
        parse(text).map(Self).map_err(|why| InitError::Relation { text: text.to_owned(), why })
    }
}

/// The line in a bundle. That of a relation of PROFINET is the one that bundles always had.
impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RelationSection { protocol, stations: [one, other], frame_ids, destinations, vlan, cycle } =
            &self.0;
        if *protocol != Protocol::Profinet {
            write!(f, "{},", protocol.name())?;
        }
        write!(f, "{one},{other},")?;
        frame_ids.iter().try_for_each(|id| write!(f, "{id},"))?;
        f.write_str(cycle)?;
        destinations.iter().try_for_each(|address| write!(f, ",to={address}"))?;
        match vlan {
            None => Ok(()),
            Some(None) => f.write_str(",vlan=none"),
            Some(Some(tag)) => write!(f, ",vlan={}.{}", tag.priority(), tag.vid()),
        }
    }
}

fn parse(text: &str) -> Result<RelationSection, String> {
    let mut parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let named = Protocol::ALL.into_iter().find(|protocol| protocol.name() == parts[0]);
    if named.is_some() {
        parts.remove(0);
    }
    let protocol = named.unwrap_or_default();
    let options = parts.split_off(parts.iter().position(|part| part.contains('=')).unwrap_or(parts.len()));
    let [one, other, ids @ .., cycle] = &parts[..] else {
        return Err("it needs two stations and the cycle".into());
    };
    let (counts, words) = match (protocol, protocol.only_identification()) {
        (Protocol::Profinet, _) => (2..=2, "two IDs"),
        (_, None) => (1..=2, "one ID or two"),
        (_, Some(_)) => (0..=0, "no ID"),
    };
    if !counts.contains(&ids.len()) {
        return Err(format!("{} has {words} between stations and cycle", protocol.name()));
    }
    let (mut destinations, mut vlan) = (Vec::new(), None);
    for option in options {
        match option.split_once('=') {
            Some(("to", address)) => destinations.push(station(address)?),
            Some(("vlan", tag)) if vlan.is_none() => vlan = Some(self::tag(tag)?),
            _ => return Err(format!("{option:?} is neither to=MAC nor the only vlan=PRIORITY.VID")),
        }
    }
    Ok(RelationSection {
        protocol,
        stations: [station(one)?, station(other)?],
        frame_ids: ids.iter().map(|id| frame_id(id)).collect::<Result<_, _>>()?,
        destinations,
        vlan,
        cycle: (*cycle).to_owned(),
    })
}

fn station(text: &str) -> Result<MacAddr, String> {
    text.parse().map_err(|error| format!("{text:?} is {error}"))
}

fn frame_id(text: &str) -> Result<FrameId, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map(FrameId).map_err(|_| format!("{text:?} is no ID from 0x0000 to 0xffff"))
}

/// `4.10`: priority and VID; or `none`.
fn tag(text: &str) -> Result<Option<VlanTag>, String> {
    let wrong = || format!("vlan={text:?} is neither none nor a priority of 0 to 7 and a VID of 0 to 4094");
    if text == "none" {
        return Ok(None);
    }
    let (priority, vid) = text.split_once('.').ok_or_else(wrong)?;
    let tag = priority.parse().ok().zip(vid.parse().ok());
    tag.and_then(|(priority, vid)| VlanTag::new(priority, vid)).map(Some).ok_or_else(wrong)
}
