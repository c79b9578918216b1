//! Costs of a cell on the wire, and its treatment of each kind of frames.
//!
//! ```text
//! machine:    DA 6 | SA 6 | [VLAN 4] | 0x8892    2 | FrameID 2 |                    payload n
//! protected:  DA 6 | SA 6 | [VLAN 4] | EtherType 2 | FrameID 2 | KeyID 1 | Seq 4 | payload n | ICV 16
//! ```
//!
//! Frames of protocols whose identification is derived grow by two octets more. [`overhead`] and [`FrameOctets`] are all that the plan says
//! of sizes.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use fieldbus::Settings;
use fieldbus::budget::Payload;
use wire::ethernet::VLAN_TAG_OCTETS;
use wire::fieldbus::{FRAME_ID_OCTETS, HEADER_OCTETS as CELL_HEADER_OCTETS, ICV_OCTETS, Protect, Protocol};

use super::{ETHERNET_MTU, Mtus};
use crate::fieldbus::{Cell, CellRelation, Mode, OtherFrames};
use crate::{Finding, Link};

/// Octets behind the EtherType of PROFINET's longest cyclic frame: FrameID, 1440 of IO data and 4 of status (IEC 61158-6-10).
const LONGEST_PROFINET: usize = FRAME_ID_OCTETS + Payload::MAX.octets() as usize;
/// Payloads whose load is told: PROFINET's shortest cyclic frame (40 octets of IO data), a usual one and the longest.
const PAYLOADS: [u16; 3] = [Payload::MIN.octets(), 254, Payload::MAX.octets()];
/// Bits that 100 Mbit/s carries in a microsecond.
const BITS_A_MICROSECOND: f64 = 100.0;
/// Relations that are told one by one; `status` tells all.
const TOLD: usize = 16;

/// Octets by which a frame of a protocol grows: KeyID, Seq and ICV, and the identification where it is derived.
const fn overhead(protocol: Protocol) -> usize {
    CELL_HEADER_OCTETS - protocol.identification_octets() + ICV_OCTETS
}

/// Octets behind the EtherType of a machine's frames.
struct FrameOctets {
    /// Of the longest frame that both sides carry, behind a VLAN tag.
    carried: usize,
    /// Of the longest frame that machines send.
    longest: usize,
}

impl FrameOctets {
    fn of(protocol: Protocol, mtus: &Mtus) -> Self {
        let protected = mtus.protected.saturating_sub(VLAN_TAG_OCTETS + overhead(protocol));
        let longest = match protocol {
            Protocol::Profinet => LONGEST_PROFINET,
            // Stations cut packets to the MTU that they share with the plain side.
            Protocol::EtherNetIp | Protocol::ModbusTcp => mtus.plain,
            Protocol::Goose
            | Protocol::SampledValues
            | Protocol::Powerlink
            | Protocol::EtherCat
            | Protocol::Sercos => ETHERNET_MTU,
        };
        Self { carried: mtus.plain.min(protected), longest }
    }
}

/// The share of 100 Mbit/s that the cell's frames take in one direction, if all carry so much (the paper's equation 1).
fn load(cell: &Cell, payload: Payload) -> f64 {
    let bits = 8.0 * f64::from(payload.line_octets().0);
    let microseconds = |relation: &CellRelation| relation.relation.cycle.as_secs_f64() * 1e6;
    // In shadow mode each frame goes in clear, too.
    let frames = |relation: &CellRelation| match relation.mode {
        Mode::Protect => bits,
        Mode::Shadow => 2.0 * bits - 8.0 * overhead(relation.relation.protocol()) as f64,
    };
    cell.relations
        .iter()
        .map(|relation| frames(relation) / (microseconds(relation) * BITS_A_MICROSECOND))
        .sum()
}

/// Says of which protocols of a cell the longest frames do not fit, with the MTUs to set.
pub(super) fn not_carried(file: &Path, link: &Link, mtus: &Mtus) -> Vec<Finding> {
    let Some(cell) = &link.cell else { return Vec::new() };
    let too_long = |protocol: &Protocol| {
        let FrameOctets { carried, longest } = FrameOctets::of(*protocol, mtus);
        let of: Vec<_> = cell.of_protocol(*protocol).collect();
        let (_, first) = of.first().filter(|_| carried < longest)?;
        let cure = enough(*protocol, link, mtus, carried, longest);
        let (line, text) = match protocol {
            Protocol::Profinet => (
                cell.line.0,
                format!(
                    "frames with more than {} octets behind the FrameID are dropped (PROFINET has up to {}); {cure}",
                    carried.saturating_sub(FRAME_ID_OCTETS),
                    longest - FRAME_ID_OCTETS
                ),
            ),
            _ => (
                first.line.0,
                format!(
                    "{} {}: frames with more than {carried} octets behind the EtherType are dropped ({} has up to {longest}); {cure}",
                    if of.len() == 1 { "relation" } else { "relations" },
                    numbers(of.iter().map(|(number, _)| *number)),
                    protocol.name()
                ),
            ),
        };
        let text = format!("fieldbus {:?}: {text}", cell.name);
        Some(Finding { file: file.to_owned(), line: Some(line), text })
    };
    Protocol::ALL.iter().filter_map(too_long).collect()
}

/// MTUs with which all frames of a protocol fit.
fn enough(protocol: Protocol, link: &Link, mtus: &Mtus, carried: usize, longest: usize) -> String {
    let protected = VLAN_TAG_OCTETS + overhead(protocol) + longest;
    let mut sides = Vec::new();
    for (side, has, needs) in
        [(&link.plain, mtus.plain, longest), (&link.protected, mtus.protected, protected)]
    {
        if has < needs {
            sides.push(format!("the MTU of {side} to {needs}"));
        }
    }
    let stations = match protocol {
        Protocol::EtherNetIp | Protocol::ModbusTcp => format!(", or that of the stations to {carried}"),
        _ => String::new(),
    };
    format!("set {}{stations}", sides.join(" and "))
}

/// Numbers of relations, the first ones one by one.
fn numbers(all: impl ExactSizeIterator<Item = usize>) -> String {
    let more = all.len().saturating_sub(TOLD);
    let told: Vec<_> = all.take(TOLD).map(|number| (number + 1).to_string()).collect();
    match more {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
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
    write_on_wire(f, cell, mtus)?;
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
        write_relation(f, cell, relation, mtus)?;
    }
    match cell.relations.len().saturating_sub(TOLD) {
        0 => Ok(()),
        more => writeln!(f, "             and {more} more"),
    }
}

/// The line about all frames, with the sizes of those of PROFINET; others have theirs beside their relations.
fn write_on_wire(f: &mut fmt::Formatter<'_>, cell: &Cell, mtus: Option<&Mtus>) -> fmt::Result {
    let profinet = Protocol::Profinet;
    write!(f, "  on wire    EtherType {}", cell.ethertype)?;
    if cell.of_protocol(profinet).next().is_none() {
        return writeln!(f, "; more in each frame: KeyID 1, Seq 4, ICV {ICV_OCTETS}");
    }
    write!(f, "; {} octets more a frame: KeyID 1, Seq 4, ICV {ICV_OCTETS}", overhead(profinet))?;
    match mtus {
        Some(mtus) => {
            let carried = FrameOctets::of(profinet, mtus).carried.saturating_sub(FRAME_ID_OCTETS);
            writeln!(f, "; up to {carried} octets behind the FrameID")
        }
        None => writeln!(f),
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

fn write_relation(
    f: &mut fmt::Formatter<'_>,
    cell: &Cell,
    relation: &CellRelation,
    mtus: Option<&Mtus>,
) -> fmt::Result {
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
    write_protocol(f, cell, relation, mtus)
}

/// Lines about a relation of another protocol than PROFINET.
fn write_protocol(
    f: &mut fmt::Formatter<'_>,
    cell: &Cell,
    relation: &CellRelation,
    mtus: Option<&Mtus>,
) -> fmt::Result {
    let of = &relation.relation;
    let protocol = of.protocol();
    if protocol == Protocol::Profinet && of.delivered_tag(cell.vlan) == cell.vlan {
        return Ok(());
    }
    let carried = match mtus {
        Some(mtus) if protocol != Protocol::Profinet => {
            format!(", up to {} behind the EtherType", FrameOctets::of(protocol, mtus).carried)
        }
        _ => String::new(),
    };
    let tag = match of.delivered_tag(cell.vlan) {
        Some(tag) => format!("with a VLAN tag: priority {}, VID {}", tag.priority(), tag.vid()),
        None => "without a VLAN tag".to_owned(),
    };
    writeln!(
        f,
        "             {}: {} octets more a frame{carried}; delivered {tag}",
        protocol.name(),
        overhead(protocol)
    )
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

    /// A full frame of these is longer than one of PROFINET: it would be dropped, and TCP would repeat it for ever.
    #[test]
    fn frames_of_other_fieldbuses_that_do_not_fit_are_said_with_the_mtu_to_set() {
        let relation = |protocol: &str, station: u8, more: &str| {
            format!(
                "[[fieldbus.relation]]\nstations = [\"02:00:00:00:01:01\", \"02:00:00:00:02:{station:02x}\"]\nprotocol = \"{protocol}\"\ncycle = \"2ms\"\n{more}\n"
            )
        };
        let relations = [
            relation("modbus-tcp", 1, ""),
            relation("goose", 2, "frame_ids = [3]\ndestinations = [\"01:0c:cd:01:00:01\"]"),
            relation("modbus-tcp", 3, ""),
            relation("sercos", 4, "frame_ids = [0x8104, 0xc104]"),
        ];
        let config = configured(&relations.concat(), 0);
        let lines = |plain: usize, protected: usize| -> Vec<_> {
            let mtu = |interface: &str| Ok(if interface == "eth0" { plain } else { protected });
            let plan = Plan::new(&config, Some(&mtu)).unwrap();
            plan.not_carried().iter().map(ToString::to_string).collect()
        };
        let goose = "gw.toml:15: fieldbus \"cell-4\": relation 2: frames with more than 1475 octets behind the EtherType are dropped (goose has up to 1500); set the MTU of eth1 to 1525";
        let sercos = "gw.toml:26: fieldbus \"cell-4\": relation 4: frames with more than 1473 octets behind the EtherType are dropped (sercos has up to 1500); set the MTU of eth1 to 1527";
        let modbus = "gw.toml:10: fieldbus \"cell-4\": relations 1, 3: frames with more than 1473 octets behind the EtherType are dropped (modbus-tcp has up to 1500); set the MTU of eth1 to 1527, or that of the stations to 1473";
        assert_eq!(lines(1500, 1500), [goose, sercos, modbus]);
        assert_eq!(lines(1500, 1526).len(), 2, "GOOSE fits");
        assert_eq!(lines(1500, 1527), [""; 0]);
        // Stations with a smaller MTU send shorter packets; GOOSE knows none.
        assert_eq!(lines(1473, 1500).len(), 2);
        assert!(lines(1473, 1500)[0].ends_with("set the MTU of eth0 to 1500 and the MTU of eth1 to 1525"));
        assert!(lines(9000, 1527)[0].ends_with(
            "(modbus-tcp has up to 9000); set the MTU of eth1 to 9027, or that of the stations to 1500"
        ));

        let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap().to_string();
        for line in [
            "  on wire    EtherType 0x88b5; more in each frame: KeyID 1, Seq 4, ICV 16\n",
            "goose: 21 octets more a frame, up to 1475 behind the EtherType; delivered with",
            "modbus-tcp: 23 octets more a frame, up to 1473 behind the EtherType; delivered without a VLAN tag\n",
        ] {
            assert!(plan.contains(line), "{line}\n{plan}");
        }
        assert!(!plan.contains("behind the FrameID"), "{plan}");
    }

    /// The twin of a frame in clear is longer by what its protocol adds.
    #[test]
    fn the_load_in_shadow_mode_is_that_of_each_protocol() {
        let stations = "stations = [\"02:00:00:00:01:01\", \"02:00:00:00:02:01\"]\ncycle = \"1ms\"";
        let more = |protocol: &str| {
            format!("mode = \"shadow\"\n[[fieldbus.relation]]\n{stations}\nprotocol = {protocol}\n")
        };
        let of = |protocol: &str| {
            load(configured(&more(protocol), 0).links[0].cell.as_ref().unwrap(), Payload::new(44).unwrap())
        };
        let (frame_id, derived) = (of("\"goose\"\nframe_ids = [3, 3]"), of("\"modbus-tcp\""));
        assert!(
            (frame_id - (0.00872 + 0.00704)).abs() < 1e-9 && (derived - (0.00872 + 0.00688)).abs() < 1e-9
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
