//! `[[fieldbus.relation]]`.

use std::collections::BTreeMap;

use fieldbus::relation::{Relation, RelationError};
use toml::Spanned;
use wire::MacAddr;
use wire::fieldbus::FrameId;

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
    /// Where a relation does not say it.
    pub(super) mode: Mode,
    /// Destination, source and FrameID of frames that a relation has already, with its line.
    pub(super) seen: BTreeMap<(MacAddr, MacAddr, FrameId), usize>,
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
        let frame_ids = frame_ids(&label, spanned, findings);
        let cycle = RELATION.cycle.required(&label, &span, &raw.cycle, "; add cycle = \"1ms\"", findings);
        let cycle = cycle.and_then(|value| quantity::cycle(&label, value, findings));
        let mode = RELATION.mode.given_choice(&label, &raw.mode, findings).unwrap_or(self.mode);
        let (stations, frame_ids) = (stations?, frame_ids?);
        let ends = [(stations[0], frame_ids[0]), (stations[1], frame_ids[1])];
        let is_local = stations.map(|station| self.local.contains(&station));
        let at = raw.stations.as_ref().map_or(span.clone(), Spanned::span);
        let (own, peer) = match is_local {
            [true, false] => (ends[0], ends[1]),
            [false, true] => (ends[1], ends[0]),
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
        let relation = match Relation::new(own, peer, cycle?) {
            Ok(relation) => relation,
            Err(error) => {
                let text = match error {
                    RelationError::SameStation => same_station(&label, own.0),
                    RelationError::Group(group) => format!(
                        "{label}{group} is a group address; name two stations: frames to groups belong to the rest"
                    ),
                };
                findings.error(at, text);
                return None;
            }
        };
        let line = findings.line(&span);
        self.once(&label, &relation, line, spanned, findings);
        Some(CellRelation { relation, line: Origin(line), mode })
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
        let [one, other] = *relation.stations();
        for (from, to) in [(one, other), (other, one)] {
            if let Some(earlier) = self.seen.insert((to.0, from.0, from.1), line) {
                let text = format!(
                    "{label}the relation of line {earlier} already has FrameID {} from {} to {}; give it to one relation",
                    from.1, from.0, to.0
                );
                findings.error(spanned.span(), text);
            }
        }
    }
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

fn frame_ids(label: &str, spanned: &Spanned<RawRelation>, findings: &mut Findings) -> Option<[FrameId; 2]> {
    let cure = "; add frame_ids = [0x8001, 0x8002]: the first station sends the first";
    let given = &spanned.get_ref().frame_ids;
    let value = RELATION.frame_ids.required(label, &spanned.span(), given, cure, findings)?;
    let [one, other] = value.get_ref().as_slice() else {
        let text = format!(
            "{label}frame_ids names {} FrameIDs; a relation has two, one for each station's frames",
            value.get_ref().len()
        );
        findings.error(value.span(), text);
        return None;
    };
    let (one, other) = (frame_id(label, one, findings), frame_id(label, other, findings));
    Some([one?, other?])
}

fn frame_id(label: &str, value: &Spanned<i64>, findings: &mut Findings) -> Option<FrameId> {
    let Ok(number) = u16::try_from(*value.get_ref()) else {
        let text = format!("{label}frame_ids: {} is no FrameID; use 0x0000 to 0xffff", value.get_ref());
        findings.error(value.span(), text);
        return None;
    };
    let id = FrameId(number);
    if !id.is_cyclic() {
        let text = format!(
            "{label}frame_ids: {id} is not one of PROFINET's for cyclic frames (0x8000 to 0xbbff, 0xc000 to 0xf7ff, 0x0100 to 0x0fff); check it"
        );
        findings.warn(value.span(), text);
    }
    Some(id)
}
