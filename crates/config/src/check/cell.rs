//! Costs of a cell on the wire, and its treatment of each kind of frames.
//!
//! ```text
//! machine:    DA 6 | SA 6 | [VLAN 4] | 0x8892    2 | FrameID 2 |                    payload n
//! protected:  DA 6 | SA 6 | [VLAN 4] | EtherType 2 | FrameID 2 | KeyID 1 | Seq 4 | payload n | ICV 16
//! ```
//!
//! Frames of protocols whose identification is derived grow by two octets more.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use fieldbus::Settings;
use fieldbus::budget::Payload;
use wire::ethernet::VLAN_TAG_OCTETS;
use wire::fieldbus::{FRAME_ID_OCTETS, HEADER_OCTETS as CELL_HEADER_OCTETS, ICV_OCTETS, Protect, Protocol};

use super::Mtus;
use crate::fieldbus::{Cell, CellRelation, Mode, OtherFrames};
use crate::{Finding, Link};

/// Octets by which a frame of a relation grows.
const OVERHEAD_OCTETS: usize = CELL_HEADER_OCTETS - FRAME_ID_OCTETS + ICV_OCTETS;
/// Octets behind the FrameID in PROFINET's longest cyclic frame: 1440 of IO data and 4 of status (IEC 61158-6-10).
const LONGEST_PAYLOAD: usize = Payload::MAX.octets() as usize;
/// Payloads whose load is told: PROFINET's shortest cyclic frame (40 octets of IO data), a usual one and the longest.
const PAYLOADS: [u16; 3] = [Payload::MIN.octets(), 254, Payload::MAX.octets()];
/// Bits that 100 Mbit/s carries in a microsecond.
const BITS_A_MICROSECOND: f64 = 100.0;
/// Relations that are told one by one; `status` tells all.
const TOLD: usize = 16;

/// Octets behind the FrameID that fit both sides, behind a VLAN tag.
fn largest_payload(mtus: &Mtus) -> usize {
    let plain = mtus.plain.saturating_sub(FRAME_ID_OCTETS);
    let protected = mtus.protected.saturating_sub(VLAN_TAG_OCTETS + CELL_HEADER_OCTETS + ICV_OCTETS);
    plain.min(protected)
}

/// The share of 100 Mbit/s that the cell's frames take in one direction, if all carry so much (the paper's equation 1).
fn load(cell: &Cell, payload: Payload) -> f64 {
    let bits = 8.0 * f64::from(payload.line_octets().0);
    let microseconds = |relation: &CellRelation| relation.relation.cycle.as_secs_f64() * 1e6;
    // In shadow mode each frame goes in clear, too.
    let frames = |relation: &CellRelation| match relation.mode {
        Mode::Protect => bits,
        Mode::Shadow => 2.0 * bits - 8.0 * OVERHEAD_OCTETS as f64,
    };
    cell.relations
        .iter()
        .map(|relation| frames(relation) / (microseconds(relation) * BITS_A_MICROSECOND))
        .sum()
}

/// Says that PROFINET's longest frames do not fit, if they do not.
pub(super) fn not_carried(file: &Path, link: &Link, mtus: &Mtus) -> Option<Finding> {
    let cell = link.cell.as_ref()?;
    let largest = largest_payload(mtus);
    (largest < LONGEST_PAYLOAD).then(|| Finding {
        file: file.to_owned(),
        line: Some(cell.line.0),
        text: format!(
            "fieldbus {:?}: frames with more than {largest} octets behind the FrameID are dropped (PROFINET has up to {LONGEST_PAYLOAD}); set the MTU of {} to {}",
            cell.name,
            link.protected,
            VLAN_TAG_OCTETS + CELL_HEADER_OCTETS + LONGEST_PAYLOAD + ICV_OCTETS
        ),
    })
}

/// A time in milliseconds from one on, or else in microseconds.
pub fn time(time: Duration) -> String {
    // One division: a second one would show digits that nobody measured.
    let nanoseconds = time.as_nanos() as f64;
    if nanoseconds >= 1e6 { format!("{} ms", nanoseconds / 1e6) } else { format!("{} us", nanoseconds / 1e3) }
}

/// Protection of a cell, in words.
fn protection(cell: &Cell) -> String {
    let what = match cell.protection.protect {
        Protect::Encrypt => "encrypted",
        Protect::Authenticate => "authenticated, NOT encrypted",
    };
    format!("{}, {what}", cell.protection.suite.name())
}

/// Protection of a cell, and the number of its relations, in words.
pub fn summary(cell: &Cell) -> String {
    format!("{}, {}", protection(cell), count(cell))
}

fn count(cell: &Cell) -> String {
    match cell.relations.len() {
        1 => "1 relation".into(),
        many => format!("{many} relations"),
    }
}

pub(super) fn write(
    f: &mut fmt::Formatter<'_>,
    link: &Link,
    cell: &Cell,
    mtus: Option<&Mtus>,
    path: Option<&str>,
) -> fmt::Result {
    match cell.rest {
        OtherFrames::Link => writeln!(f, "\nfieldbus {}, in link {}", cell.name, link.name)?,
        OtherFrames::Drop => {
            writeln!(f, "\nfieldbus {}", cell.name)?;
            let mtu = |octets: Option<usize>| octets.map(|mtu| format!(", MTU {mtu}")).unwrap_or_default();
            writeln!(f, "  plain      {}{}", link.plain, mtu(mtus.map(|mtus| mtus.plain)))?;
            writeln!(f, "  protected  {}{}", link.protected, mtu(mtus.map(|mtus| mtus.protected)))?;
        }
    }
    writeln!(f, "  suite      {}", protection(cell))?;
    if let Some(path) = path {
        writeln!(f, "  frames     {path}")?;
    }
    writeln!(f, "  master key {}", cell.master_key.fingerprint())?;
    if let Some(fallback) = &cell.fallback_master_key {
        writeln!(
            f,
            "  fallback   master key {}, for relations whose other gateway lacks the first",
            fallback.fingerprint()
        )?;
    }
    write!(
        f,
        "  on wire    EtherType {}; {OVERHEAD_OCTETS} octets more a frame: KeyID 1, Seq 4, ICV {ICV_OCTETS}",
        cell.ethertype
    )?;
    match mtus {
        Some(mtus) => writeln!(f, "; up to {} octets behind the FrameID", largest_payload(mtus))?,
        None => writeln!(f)?,
    }
    match cell.vlan {
        Some(tag) => writeln!(
            f,
            "  machines   get frames with a VLAN tag: priority {}, VID {}",
            tag.priority(),
            tag.vid()
        )?,
        None => writeln!(f, "  machines   get frames without a VLAN tag")?,
    }
    match cell.rest {
        OtherFrames::Link => writeln!(
            f,
            "  rest       through the SecY of link {}: DCP, alarms, ARP, IP, and all else that belongs to no relation",
            link.name
        )?,
        OtherFrames::Drop => writeln!(
            f,
            "  rest       dropped, both ways: also DCP, alarms and ARP, so PROFINET cannot connect through this gateway"
        )?,
    }
    writeln!(f, "  watchdog   {} cycles; alarm at {}% of it", cell.watchdog, cell.alarm_percent)?;
    if cell.epoch_frames != Settings::EPOCH_FRAMES {
        writeln!(f, "  keys       change after {} frames of a direction", cell.epoch_frames)?;
    }
    write_load(f, cell)?;
    write_shadow(f, cell)?;
    for relation in cell.relations.iter().take(TOLD) {
        write_relation(f, cell, relation)?;
    }
    match cell.relations.len().saturating_sub(TOLD) {
        0 => Ok(()),
        more => writeln!(f, "             and {more} more"),
    }
}

fn write_load(f: &mut fmt::Formatter<'_>, cell: &Cell) -> fmt::Result {
    let shares = PAYLOADS.map(|payload| {
        let load = Payload::new(payload).map_or(0.0, |payload| load(cell, payload));
        format!("{:.1}% with {payload} octets{}", 100.0 * load, if load > 1.0 { " (TOO MUCH)" } else { "" })
    });
    writeln!(f, "  load       {}; of 100 Mbit/s, each way: {}", count(cell), shares.join(", "))
}

fn write_shadow(f: &mut fmt::Formatter<'_>, cell: &Cell) -> fmt::Result {
    match cell.shadowed().count() {
        0 => Ok(()),
        shadowed => writeln!(
            f,
            "  SHADOW     {shadowed} of {} relations are NOT PROTECTED: their frames pass in clear, both ways; beside each goes a protected twin, which is verified and counted",
            cell.relations.len()
        ),
    }
}

fn write_relation(f: &mut fmt::Formatter<'_>, cell: &Cell, relation: &CellRelation) -> fmt::Result {
    let of = &relation.relation;
    let (own, peer) = (of.own().0, of.peer().0);
    let (sends, receives) = (of.sends(), of.receives());
    writeln!(
        f,
        "  relation   {own} (here) sends {sends}, {peer} sends {receives}, each {}; alarm after {}, watchdog {}{}",
        time(relation.relation.cycle),
        time(cell.alarm_time(relation)),
        time(cell.watchdog_time(relation)),
        if relation.mode == Mode::Shadow { "; SHADOW" } else { "" }
    )?;
    write_protocol(f, cell, relation)
}

/// Lines about a relation of another protocol than PROFINET.
fn write_protocol(f: &mut fmt::Formatter<'_>, cell: &Cell, relation: &CellRelation) -> fmt::Result {
    let of = &relation.relation;
    if of.protocol() == Protocol::Profinet && of.delivered_tag(cell.vlan) == cell.vlan {
        return Ok(());
    }
    let octets = OVERHEAD_OCTETS + FRAME_ID_OCTETS - of.protocol().identification_octets();
    let tag = match of.delivered_tag(cell.vlan) {
        Some(tag) => format!("with a VLAN tag: priority {}, VID {}", tag.priority(), tag.vid()),
        None => "without a VLAN tag".to_owned(),
    };
    writeln!(f, "             {}: {octets} octets more a frame; delivered {tag}", of.protocol().name())
}

#[cfg(test)]
mod tests {
    use super::super::{Plan, tests::parsed};
    use super::*;

    fn configured(more: &str, relations: usize) -> crate::Config {
        let relation = |number| {
            format!(
                "[[fieldbus.relation]]\nstations = [\"02:00:00:00:01:01\", \"02:00:00:00:02:{number:02x}\"]\nframe_ids = [{}, 0xc001]\ncycle = \"1ms\"\n",
                0x8000 + number
            )
        };
        let relations: String = (0..relations).map(relation).collect();
        parsed(&format!(
            "[gateway]\nname = \"line\"\n[[fieldbus]]\nname = \"cell-4\"\nplain = \"eth0\"\nprotected = \"eth1\"\nrest = \"drop\"\nmaster_key_file = \"m.key\"\nlocal = [\"02:00:00:00:01:01\"]\n{more}\n{relations}"
        ))
    }

    #[test]
    fn the_plan_of_a_cell_names_what_counts() {
        let config = configured("", 1);
        let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap();
        assert!(plan.not_carried().is_empty());
        let text = plan.to_string();
        for line in [
            "fieldbus cell-4\n  plain      eth0, MTU 1500\n  protected  eth1, MTU 1500\n",
            "  suite      gcm-aes-128, encrypted\n",
            "  on wire    EtherType 0x88b5; 21 octets more a frame: KeyID 1, Seq 4, ICV 16; up to 1473 octets behind the FrameID\n",
            "  machines   get frames with a VLAN tag: priority 6, VID 0\n",
            "  rest       dropped, both ways:",
            "  watchdog   3 cycles; alarm at 50% of it\n",
            "  relation   02:00:00:00:01:01 (here) sends 0x8000, 02:00:00:00:02:00 sends 0xc001, each 1 ms; alarm after 1.5 ms, watchdog 3 ms\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("SecTAG"), "{text}");
        let offline = Plan::new(&config, None).unwrap().to_string();
        assert!(offline.contains("  plain      eth0\n") && !offline.contains("up to"), "{offline}");
    }

    #[test]
    fn what_is_different_for_another_fieldbus_stands_below_its_relation() {
        let (stations, cycle) = ("[\"02:00:00:00:01:01\", \"02:00:00:00:02:01\"]", "cycle = \"2ms\"");
        let more = format!(
            "[[fieldbus.relation]]\nstations = {stations}\nprotocol = \"goose\"\nframe_ids = [3]\ndestinations = [\"01:0c:cd:01:00:01\"]\n{cycle}\n[[fieldbus.relation]]\nstations = {stations}\nprotocol = \"ethernet-ip\"\n{cycle}\n"
        );
        let text = Plan::new(&configured(&more, 0), None).unwrap().to_string();
        for lines in [
            "sends goose 0x0003 to 01:0c:cd:01:00:01, 02:00:00:00:02:01 sends nothing, each 2 ms; alarm after 3 ms, watchdog 6 ms\n             goose: 21 octets more a frame; delivered with a VLAN tag: priority 4, VID 0\n",
            "sends ethernet-ip, 02:00:00:00:02:01 sends ethernet-ip, each 2 ms; alarm after 3 ms, watchdog 6 ms\n             ethernet-ip: 23 octets more a frame; delivered without a VLAN tag\n",
        ] {
            assert!(text.contains(lines), "{lines}\n{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let config = configured("", 1);
        let lines = |mtu| -> Vec<_> {
            Plan::new(&config, Some(&|_| Ok(mtu)))
                .unwrap()
                .not_carried()
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(lines(1471), [""; 0]);
        assert_eq!(
            lines(1470),
            [
                "gw.toml:3: fieldbus \"cell-4\": frames with more than 1443 octets behind the FrameID are dropped (PROFINET has up to 1444); set the MTU of eth1 to 1471"
            ]
        );
    }

    #[test]
    fn the_load_is_that_of_the_wire() {
        // 14 + 4 + 7 + 1444 + 16 octets, and 24 between: 1509 octets are 120.72 us.
        let load = |cell: &str, relations, payload| {
            load(configured(cell, relations).links[0].cell.as_ref().unwrap(), Payload::new(payload).unwrap())
        };
        assert!((load("", 1, 1444) - 0.12072).abs() < 1e-9);
        assert!((load("", 50, 44) - 50.0 * 0.00872).abs() < 1e-9);
        assert!((load("mode = \"shadow\"", 1, 44) - (0.00872 + 0.00704)).abs() < 1e-9);
        let config = configured("mode = \"shadow\"", 20);
        let text = Plan::new(&config, None).unwrap().to_string();
        for line in [
            "20 relations;",
            "(TOO MUCH)",
            "SHADOW     20 of 20 relations are NOT PROTECTED",
            "and 4 more\n",
            "; SHADOW\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn times_are_told_in_a_readable_unit() {
        for (nanoseconds, told) in
            [(31_250, "31.25 us"), (1_000_000, "1 ms"), (1_500_000, "1.5 ms"), (512_000_000, "512 ms")]
        {
            assert_eq!(time(Duration::from_nanos(nanoseconds)), told);
        }
    }
}
