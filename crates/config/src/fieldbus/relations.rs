//! `[[fieldbus.relation]]`.

use std::collections::BTreeMap;

use fieldbus::relation::{DeliveredTag, FrameAddress, Relation, RelationError};
use fieldbus::{Direction, VlanTag};
use toml::Spanned;
use wire::MacAddr;
use wire::fieldbus::{FrameId, Protocol, Target};

use super::super::Origin;
use super::super::findings::Findings;
use super::super::reference::{RELATION, RawRelation};
use super::{CellRelation, Mode, quantity};

/// Judges the relations of one cell.
pub(super) struct Relations<'j> {
    /// `fieldbus "name": `, the beginning of every finding.
    pub(super) label: &'j str,
    /// The stations behind this gateway.
    pub(super) local: &'j [MacAddr],
    /// Mode of relations that name none.
    pub(super) mode: Mode,
    /// The cell's tag, if it names one.
    pub(super) tag: Option<Option<VlanTag>>,
    /// Destination, source and FrameID of frames that a relation has already, with its line.
    pub(super) seen: BTreeMap<FrameAddress, usize>,
}

impl Relations<'_> {
    pub(super) fn validate(
        &mut self,
        number: usize,
        spanned: &Spanned<RawRelation>,
        findings: &mut Findings,
    ) -> Option<CellRelation> {
        let (raw, span) = (spanned.get_ref(), spanned.span());
        let label = format!("{}relation {}: ", self.label, number + 1);
        let stations = stations(&label, spanned, findings);
        let protocol = RELATION.protocol.choice(&label, &raw.protocol, findings);
        let frame_ids = frame_ids(&label, protocol, spanned, findings);
        let cycle = RELATION.cycle.required(&label, &span, &raw.cycle, "; add cycle = \"1ms\"", findings);
        let cycle = cycle.and_then(|value| quantity::cycle(&label, value, protocol, findings));
        let mode = RELATION.mode.given_choice(&label, &raw.mode, findings).unwrap_or(self.mode);
        let tag = self.tag(&label, protocol, raw, findings);
        let (stations, (frame_ids, senders)) = (stations?, frame_ids?);
        let targets = targets(&label, stations, senders, raw, findings);
        let ends = [(stations[0], frame_ids[0]), (stations[1], frame_ids[1])];
        let is_local = stations.map(|station| self.local.contains(&station));
        let at = raw.stations.as_ref().map_or(span.clone(), Spanned::span);
        let ([own, peer], is_swapped) = match is_local {
            [true, false] => ([ends[0], ends[1]], false),
            [false, true] => ([ends[1], ends[0]], true),
            both => {
                // An empty list is reported already: `local` is missing or names no station.
                if !self.local.is_empty() && stations[0] != stations[1] {
                    let (what, cure) = match both {
                        [true, true] => {
                            ("both stations are in local", "remove the one that is behind the other gateway")
                        }
                        _ => ("neither station is in local", "add the one that is behind this gateway"),
                    };
                    findings.error(at, format!("{label}{what}; {cure}"));
                } else if stations[0] == stations[1] {
                    findings.error(at, same_station(&label, stations[0]));
                }
                return None;
            }
        };
        let mut targets = targets?;
        if is_swapped {
            targets.swap(0, 1);
        }
        let relation = Relation::new(own, peer, cycle?)
            .and_then(|relation| relation.of(protocol, targets[0], targets[1]))
            .map(|relation| relation.delivered_with(tag));
        let relation = match relation {
            Ok(relation) => relation,
            Err(error) => {
                findings.error(at, format!("{label}{}", describe(error, protocol, own.0)));
                return None;
            }
        };
        let line = findings.line(&span);
        self.once(&label, &relation, line, spanned, findings);
        Some(CellRelation { relation, line: Origin(line), mode })
    }

    /// The tag of delivered frames.
    fn tag(
        &self,
        label: &str,
        protocol: Protocol,
        raw: &RawRelation,
        findings: &mut Findings,
    ) -> DeliveredTag {
        match (&raw.vlan, self.tag) {
            (Some(_), _) => DeliveredTag::Is(quantity::vlan(label, &raw.vlan, findings)),
            (None, Some(_)) => DeliveredTag::OfCell,
            (None, None) => match protocol {
                Protocol::Profinet => DeliveredTag::OfCell,
                _ => DeliveredTag::Is(VlanTag::usual(protocol)),
            },
        }
    }

    /// Refuses frames that another relation has already.
    fn once(
        &mut self,
        label: &str,
        relation: &Relation,
        line: usize,
        spanned: &Spanned<RawRelation>,
        findings: &mut Findings,
    ) {
        let ways = [(relation.sends(), Direction::Outward), (relation.receives(), Direction::Inward)];
        let mut hellos_of = None;
        for (stream, direction) in ways {
            let addresses = relation.addresses(direction);
            if let Some((to, from, id)) = addresses.frames
                && let Some(earlier) = self.seen.insert((to, from, id), line)
            {
                let what = match relation.protocol() {
                    Protocol::Profinet => format!("FrameID {id}"),
                    _ => stream.to_string(),
                };
                let text = format!(
                    "{label}the relation of line {earlier} already has {what} from {from} to {to}; give it to one relation"
                );
                findings.error(spanned.span(), text);
            }
            let earlier = addresses.hellos_alone().and_then(|hellos| self.seen.insert(hellos, line));
            hellos_of = hellos_of.or(earlier.map(|earlier| (earlier, addresses.hellos.2)));
        }
        // Once for both directions.
        if let Some((earlier, id)) = hellos_of {
            let text = format!(
                "{label}the relation of line {earlier} has {id} between the same stations, so HELLOs of both could not be told apart; make one relation of them, with two frame_ids, or name other stations"
            );
            findings.error(spanned.span(), text);
        }
    }
}

/// Why there is no such relation of the local station, and the cure.
fn describe(error: RelationError, protocol: Protocol, own: MacAddr) -> String {
    match error {
        RelationError::SameStation => same_station("", own),
        RelationError::Group(group) => {
            format!("{group} is a group address; name two stations, and the group in destinations")
        }
        RelationError::NoGroup(address) => format!(
            "destinations: {address} is neither a group address nor the other station; name one of these"
        ),
        RelationError::Silent => "no station sends; give frame_ids".into(),
        RelationError::Impossible(id) => format!(
            "frame_ids: no frame of {} has {id}: bits 0x3070 are the cycle count; leave them 0",
            protocol.name()
        ),
    }
}

/// Destinations of the two stations.
fn targets(
    label: &str,
    stations: [MacAddr; 2],
    senders: usize,
    raw: &RawRelation,
    findings: &mut Findings,
) -> Option<[Target; 2]> {
    let mut targets = [Target::Peer, if senders == 2 { Target::Peer } else { Target::Nobody }];
    let Some(value) = &raw.destinations else { return Some(targets) };
    let given = value.get_ref();
    if given.is_empty() || given.len() > senders {
        let text = format!(
            "{label}destinations names {} addresses, and {} send; name one for each that sends, in the order of stations",
            given.len(),
            if senders == 2 { "both stations" } else { "1 station does" }
        );
        findings.error(value.span(), text);
        return None;
    }
    for (number, value) in given.iter().enumerate() {
        let address = station(label, "destinations", value, findings)?;
        if address != stations[1 - number] {
            targets[number] = Target::Group(address);
        }
    }
    Some(targets)
}

fn same_station(label: &str, station: MacAddr) -> String {
    format!("{label}both stations are {station}; name the two that exchange frames")
}

fn stations(label: &str, spanned: &Spanned<RawRelation>, findings: &mut Findings) -> Option<[MacAddr; 2]> {
    let cure = "; add stations = [\"MAC\", \"MAC\"]";
    let given = &spanned.get_ref().stations;
    let value = RELATION.stations.required(label, &spanned.span(), given, cure, findings)?;
    let [one, other] = value.get_ref().as_slice() else {
        let text = format!(
            "{label}stations names {} stations; a relation has two: [\"MAC\", \"MAC\"]",
            value.get_ref().len()
        );
        findings.error(value.span(), text);
        return None;
    };
    let (one, other) =
        (station(label, "stations", one, findings), station(label, "stations", other, findings));
    Some([one?, other?])
}

/// The address of a station.
pub(super) fn station(
    label: &str,
    key: &str,
    value: &Spanned<String>,
    findings: &mut Findings,
) -> Option<MacAddr> {
    match value.get_ref().parse::<MacAddr>() {
        Ok(address) if address != MacAddr::default() => Some(address),
        Ok(_) => {
            let text = format!("{label}{key}: {:?} is nobody's address; name a station", value.get_ref());
            findings.error(value.span(), text);
            None
        }
        Err(error) => {
            findings
                .error(value.span(), format!("{label}{key}: {:?} is {error}; correct it", value.get_ref()));
            None
        }
    }
}

/// FrameIDs of the stations, and number of stations that send.
fn frame_ids(
    label: &str,
    protocol: Protocol,
    spanned: &Spanned<RawRelation>,
    findings: &mut Findings,
) -> Option<([FrameId; 2], usize)> {
    let given = &spanned.get_ref().frame_ids;
    if let Some(only) = protocol.only_identification() {
        if let Some(value) = given {
            let text = format!(
                "{label}frame_ids: frames of {} have none, they are known by their ports; remove it",
                protocol.name()
            );
            findings.error(value.span(), text);
        }
        return Some(([only; 2], 2));
    }
    let cure = match protocol {
        Protocol::Profinet => "; add frame_ids = [0x8001, 0x8002]: the first station sends the first",
        _ => "; add frame_ids = [NUMBER]: the first station sends it, or two, one for each station's frames",
    };
    let value = RELATION.frame_ids.required(label, &spanned.span(), given, cure, findings)?;
    match (value.get_ref().as_slice(), protocol) {
        ([one, other], _) => {
            let ids = [one, other].map(|value| frame_id(label, protocol, value, findings));
            Some(([ids[0]?, ids[1]?], 2))
        }
        ([one], protocol) if protocol != Protocol::Profinet => {
            Some(([frame_id(label, protocol, one, findings)?; 2], 1))
        }
        (others, _) => {
            let text = format!(
                "{label}frame_ids names {} FrameIDs; a relation has two, one for each station's frames",
                others.len()
            );
            findings.error(value.span(), text);
            None
        }
    }
}

fn frame_id(
    label: &str,
    protocol: Protocol,
    value: &Spanned<i64>,
    findings: &mut Findings,
) -> Option<FrameId> {
    let Ok(number) = u16::try_from(*value.get_ref()) else {
        let text = format!("{label}frame_ids: {} is no FrameID; use 0x0000 to 0xffff", value.get_ref());
        findings.error(value.span(), text);
        return None;
    };
    let id = FrameId(number);
    if protocol == Protocol::Profinet && !id.is_cyclic() {
        let text = format!(
            "{label}frame_ids: {id} is not one of PROFINET's for cyclic frames (0x8000 to 0xbbff, 0xc000 to 0xf7ff, 0x0100 to 0x0fff); check it"
        );
        findings.warn(value.span(), text);
    }
    Some(id)
}
