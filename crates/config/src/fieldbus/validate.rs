//! `[[fieldbus]]`, without its relations.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use wire::MacAddr;
use wire::fieldbus::Protection;

use super::super::bypass::Named;
use super::super::findings::{Findings, list};
use super::super::key_source::KeySource;
use super::super::reference::{FIELDBUS, RawFieldbus, RawLink};
use super::super::unique_names::{UniqueNames, interface_name, label, name};
use super::super::{Link, Origin};
use super::relations::{Relations, station};
use super::{Cell, MOST_RELATIONS, OtherFrames, quantity};
use crate::key_file::CellKey;

/// `rest` of a cell without a link.
const DROP: &str = "drop";

/// Judges all cells, and makes each a part of its link.
pub(in super::super) fn validate_all<'r>(
    raw: &'r [Spanned<RawFieldbus>],
    raw_links: &[Spanned<RawLink>],
    links: &mut Vec<Link>,
    keys: &KeySource,
    names: &mut UniqueNames<'r>,
    findings: &mut Findings,
) {
    let mut own_keys: Vec<(CellKey, usize)> = Vec::new();
    let mut taken: BTreeMap<&'r str, usize> = BTreeMap::new();
    for (at, spanned) in raw.iter().enumerate() {
        let fieldbus = spanned.get_ref();
        let label = label("fieldbus", &fieldbus.name, at);
        names.name(&label, &fieldbus.name, "give each link, site and fieldbus its own", findings);
        let judge = Judge { label, span: spanned.span(), raw: fieldbus };
        let place = judge.place(raw_links, names, &mut taken, findings);
        let cell = judge.cell(keys, findings);
        if let Some(cell) = &cell {
            judge.own_key(cell, &mut own_keys, findings);
        }
        let (Some(cell), Some(place)) = (cell, place) else { continue };
        match place {
            Place::Own { plain, protected } => {
                links.push(Link::of_cell(cell, plain, protected, judge.allow_addresses()))
            }
            Place::Part { of } => {
                // A link that is refused has been told.
                if let Some(link) = links.iter_mut().find(|link| link.name == of) {
                    if let Some(value) = &fieldbus.allow_addresses {
                        let text =
                            format!("{}allow_addresses belongs to its link; set it in [[link]]", judge.label);
                        findings.error(value.span(), text);
                    }
                    judge.beside(link, &cell, findings);
                    if link.padding().cover_rate().is_some() {
                        let text = format!(
                            "{}link {:?} has [link.cover], and cyclic frames would leave between its ticks; remove [link.cover], or give the cell ports of its own",
                            judge.label, link.name
                        );
                        findings.error(judge.span.clone(), text);
                    }
                    link.cell = Some(Box::new(cell));
                }
            }
        }
    }
}

/// Link that a cell is part of.
enum Place {
    /// In this link.
    Part { of: String },
    /// In one of its own, between these interfaces.
    Own { plain: String, protected: String },
}

/// Judges one cell.
struct Judge<'r> {
    /// `fieldbus "name": `, the beginning of every finding.
    label: String,
    /// Place of the cell in the file.
    span: Range<usize>,
    raw: &'r RawFieldbus,
}

impl<'r> Judge<'r> {
    /// Whether its own interfaces may carry addresses of this box.
    fn allow_addresses(&self) -> bool {
        FIELDBUS.allow_addresses.switch(&self.raw.allow_addresses)
    }

    fn cell(&self, keys: &KeySource, findings: &mut Findings) -> Option<Cell> {
        let Self { label, span, raw } = self;
        let name = name(label, span, &raw.name, findings);
        let rest = match &raw.rest {
            Some(rest) if rest.get_ref() == DROP => OtherFrames::Drop,
            _ => OtherFrames::Link,
        };
        let protection = self.protection(findings);
        let master_key = self.master_key(keys, findings);
        let fallback_master_key = self.fallback(master_key.as_ref(), keys, findings);
        let ethertype = quantity::ethertype(
            (label, "ethertype"),
            &raw.ethertype,
            "remove it for 0x88b5, or use 0x88b6, the other EtherType for local experiments",
            findings,
        );
        let vlan = quantity::vlan(label, &raw.vlan, findings);
        let (watchdog, alarm_percent) = quantity::watchdog(label, &raw.watchdog, &raw.alarm, findings);
        let mode = FIELDBUS.mode.choice(label, &raw.mode, findings);
        let local = self.local(findings);
        let tag = raw.vlan.is_some().then_some(vlan);
        let mut judge = Relations { label, local: &local, mode, tag, seen: BTreeMap::new() };
        let relations: Vec<_> = raw
            .relation
            .iter()
            .enumerate()
            .filter_map(|(number, relation)| judge.validate(number, relation, findings))
            .collect();
        self.relations(&relations, &local, findings);
        let cycles = relations.iter().map(|one| one.relation.cycle);
        let epoch_frames = quantity::epoch_frames(label, &raw.epoch_frames, cycles, findings);
        let cell = Cell {
            name: name?,
            line: Origin(findings.line(span)),
            rest,
            protection,
            master_key: master_key?,
            fallback_master_key: match &raw.fallback_master_key_file {
                Some(_) => Some(fallback_master_key?),
                None => None,
            },
            ethertype,
            vlan,
            watchdog,
            alarm_percent,
            epoch_frames,
            relations,
        };
        self.shadow(&cell, findings);
        Some(cell)
    }

    /// Finds the cell's link: a configured one, or one of its own between ports that it names.
    fn place(
        &self,
        raw_links: &[Spanned<RawLink>],
        names: &mut UniqueNames<'r>,
        taken: &mut BTreeMap<&'r str, usize>,
        findings: &mut Findings,
    ) -> Option<Place> {
        let Self { label, span, raw } = self;
        let link_names = || raw_links.iter().filter_map(|link| link.get_ref().name.as_ref());
        let cure =
            ": it says what happens to frames of no relation; name a [[link]] on the same ports, or \"drop\"";
        let rest = FIELDBUS.rest.required(label, span, &raw.rest, cure, findings)?;
        if rest.get_ref() == DROP {
            for (key, interface) in [("plain", &raw.plain), ("protected", &raw.protected)] {
                if let Some(interface) = interface {
                    let cure = "an interface serves one side of one link or fieldbus, or one site; a fieldbus on a link's ports names the link in rest";
                    names.interface(label, key, interface, cure, findings);
                }
            }
            let plain = interface_name(label, span, FIELDBUS.plain, &raw.plain, findings);
            let protected = interface_name(label, span, FIELDBUS.protected, &raw.protected, findings);
            return Some(Place::Own { plain: plain?, protected: protected? });
        }
        let link = raw_links
            .iter()
            .map(Spanned::get_ref)
            .find(|link| link.name.as_ref().is_some_and(|name| name.get_ref() == rest.get_ref()));
        let Some(link) = link else {
            let known: Vec<_> =
                link_names().map(|name| format!("{:?}", name.get_ref())).chain(["\"drop\"".into()]).collect();
            let text = format!("{label}rest = {:?} is no [[link]]; use {}", rest.get_ref(), list(&known));
            findings.error(rest.span(), text);
            return None;
        };
        let line = findings.line(&self.span);
        if let Some(earlier) = taken.insert(rest.get_ref(), line) {
            let text = format!(
                "{label}rest = {:?}: that link already has the fieldbus of line {earlier}; put the relations there",
                rest.get_ref()
            );
            findings.error(rest.span(), text);
        }
        for (key, own, links) in
            [("plain", &raw.plain, &link.plain), ("protected", &raw.protected, &link.protected)]
        {
            if let (Some(own), Some(links)) = (own, links)
                && own.get_ref() != links.get_ref()
            {
                let text = format!(
                    "{label}{key} = {:?} differs from that of link {:?}, {:?}; remove it, or name the link on these ports in rest",
                    own.get_ref(),
                    rest.get_ref(),
                    links.get_ref()
                );
                findings.error(own.span(), text);
            }
        }
        Some(Place::Part { of: rest.get_ref().clone() })
    }

    /// Conflicts with the link that the cell is a part of.
    fn beside(&self, link: &Link, cell: &Cell, findings: &mut Findings) {
        let label = &self.label;
        if link.bypass.contains(&cell.ethertype) {
            let text = format!(
                "{label}bypass of link {:?} names {}, the EtherType of protected frames; remove it there",
                link.name,
                Named(cell.ethertype)
            );
            findings.error(self.span.clone(), text);
        }
    }

    fn protection(&self, findings: &mut Findings) -> Protection {
        let Self { label, raw, .. } = self;
        Protection {
            protect: FIELDBUS.protect.choice(label, &raw.protect, findings),
            suite: FIELDBUS.suite.choice(label, &raw.suite, findings),
        }
    }

    fn master_key(&self, keys: &KeySource, findings: &mut Findings) -> Option<CellKey> {
        let label = &self.label;
        let cure = "; make one with frameward keygen fieldbus --out FILE, copy it to the other gateway, and add master_key_file = \"FILE\"";
        let value = FIELDBUS.master_key_file.required(
            label,
            &self.span,
            &self.raw.master_key_file,
            cure,
            findings,
        )?;
        keys.read(label, value, "fieldbus", keys.files.master_key, CellKey::is_zeros, findings)
    }

    /// The second master key.
    fn fallback(
        &self,
        master_key: Option<&CellKey>,
        keys: &KeySource,
        findings: &mut Findings,
    ) -> Option<CellKey> {
        let label = &self.label;
        let value = self.raw.fallback_master_key_file.as_ref()?;
        let key = keys.read(label, value, "fieldbus", keys.files.master_key, CellKey::is_zeros, findings)?;
        if master_key == Some(&key) {
            let text = format!(
                "{label}fallback_master_key_file holds the key of master_key_file, so it adds nothing; remove it, or make another key with: frameward keygen fieldbus --out FILE"
            );
            findings.error(value.span(), text);
        }
        Some(key)
    }

    /// The key of one cell must not open another one.
    fn own_key(&self, cell: &Cell, own_keys: &mut Vec<(CellKey, usize)>, findings: &mut Findings) {
        let of_cell = [
            ("master_key_file", Some(&cell.master_key), &self.raw.master_key_file),
            (
                "fallback_master_key_file",
                cell.fallback_master_key.as_ref(),
                &self.raw.fallback_master_key_file,
            ),
        ];
        for (name, key, value) in of_cell {
            let (Some(key), Some(value)) = (key, value) else { continue };
            let known = own_keys.iter().find(|(known, line)| known == key && *line != cell.line.0);
            if let Some((_, line)) = known {
                let text = format!(
                    "{}{name} holds the key of the fieldbus of line {line}; give each its own, from: frameward keygen fieldbus --out FILE",
                    self.label
                );
                findings.error(value.span(), text);
            }
            own_keys.push((key.clone(), cell.line.0));
        }
    }

    /// The stations behind this gateway.
    fn local(&self, findings: &mut Findings) -> Vec<MacAddr> {
        let label = &self.label;
        let Some(value) = self.raw.local.as_ref().filter(|value| !value.get_ref().is_empty()) else {
            let text = format!(
                "{label}local is missing: it lists the stations behind this gateway, on the plain side; add local = [\"MAC\"]"
            );
            let span = self.raw.local.as_ref().map_or(self.span.clone(), Spanned::span);
            findings.error(span, text);
            return Vec::new();
        };
        let mut local = Vec::new();
        for value in value.get_ref() {
            let Some(address) = station(label, "local", value, findings) else { continue };
            let wrong = if address.is_group() {
                Some("is a group's address; name a station")
            } else if local.contains(&address) {
                Some("stands there twice; once is enough")
            } else {
                None
            };
            if let Some(wrong) = wrong {
                findings.error(value.span(), format!("{label}local: {address} {wrong}"));
            }
            local.push(address);
        }
        local
    }

    fn relations(&self, judged: &[super::CellRelation], local: &[MacAddr], findings: &mut Findings) {
        let Self { label, raw, span } = self;
        if raw.relation.is_empty() {
            findings.error(span.clone(), format!("{label}has no relation; add [[fieldbus.relation]]"));
        }
        if let Some(beyond) = raw.relation.get(MOST_RELATIONS) {
            let text = format!(
                "{label}has {} relations, and at most {MOST_RELATIONS} fit; use another gateway for the others",
                raw.relation.len()
            );
            findings.error(beyond.span(), text);
        }
        if judged.len() < raw.relation.len() {
            return;
        }
        for (address, value) in local.iter().zip(raw.local.iter().flat_map(|value| value.get_ref())) {
            if !judged.iter().any(|relation| relation.relation.own().0 == *address) {
                let text = format!(
                    "{label}local: {address} is in no relation, so its cyclic frames belong to the rest; add a relation if one is missing"
                );
                findings.warn(value.span(), text);
            }
        }
    }

    /// Unprotected is loud.
    fn shadow(&self, cell: &Cell, findings: &mut Findings) {
        let shadowed = cell.shadowed().count();
        if shadowed > 0 {
            let text = format!(
                "{}mode = \"shadow\": {shadowed} of {} relations pass in CLEAR, both ways, while their twins are measured; set \"protect\" when the figures are good",
                self.label,
                cell.relations.len()
            );
            findings.warn(self.raw.mode.as_ref().map_or(self.span.clone(), Spanned::span), text);
        }
    }
}
