//! Traffic that is heard, and the proposal for it: real Connects of several makers, cyclic frames, and nonsense.

use std::path::Path;

use config::key_file::{CellKey, NamedCak};
use config::{Config, KeyFiles};
use proptest::prelude::*;
use testkit::fixture::{pcap_frames, vectors};
use wire::Ckn;

use super::flow::Origin;
use super::proposal::{Learned, Setting};
use super::*;

const PLC: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
const DRIVE: MacAddr = MacAddr([2, 0, 0, 0, 2, 1]);
const PRESS: MacAddr = MacAddr([2, 0, 0, 0, 2, 2]);
const TAG: Option<u16> = Some(0xc000);
const MS: Duration = Duration::from_millis(1);

fn setting() -> Setting {
    Setting { name: "cell-4".into(), local: Vec::new(), plain: "eth0".into(), protected: "eth1".into() }
}

/// A frame of PROFINET, with a CycleCounter if there is a cycle.
fn io_data(to: MacAddr, from: MacAddr, tag: Option<u16>, id: u16, counter: u16) -> Vec<u8> {
    let tag = tag.map(|tci| [&[0x81, 0][..], &tci.to_be_bytes()].concat()).unwrap_or_default();
    let status = [counter.to_be_bytes(), [0x35, 0]].concat();
    [&to.0[..], &from.0, &tag, &[0x88, 0x92], &id.to_be_bytes(), &[0; 40], &status].concat()
}

/// Cyclic frames of one direction: to, from, tag, FrameID, cycle, units that the counter advances.
type Sender = (MacAddr, MacAddr, Option<u16>, u16, Duration, u16);

/// Half a second of all of them.
fn hear(learner: &mut Learner, senders: &[Sender]) {
    let mut frames = Vec::new();
    for (number, (to, from, tag, id, cycle, advance)) in senders.iter().enumerate() {
        for at in 0..(500 * MS).as_nanos() / cycle.as_nanos() {
            let time = Duration::from_secs(100) + *cycle * at as u32 + Duration::from_micros(number as u64);
            frames.push((time, io_data(*to, *from, *tag, *id, advance.wrapping_mul(at as u16))));
        }
    }
    frames.sort();
    for (time, frame) in frames {
        learner.handle_frame(Some(time), 0, &frame, true);
    }
}

fn learned(senders: &[Sender]) -> Learned {
    let mut learner = Learner::default();
    hear(&mut learner, senders);
    learner.learned(setting())
}

/// The configuration of an end, as `check` reads it.
fn configured(learned: &Learned, end: usize) -> Config {
    let cak = |_: &Path| {
        let ckn = Ckn::new(&[1; 16]).unwrap();
        Ok(NamedCak::new(ckn, &[1; 16]).unwrap())
    };
    let files = KeyFiles {
        key: &|path, _| unreachable!("no static key is named: {}", path.display()),
        cak: &cak,
        identity: &|path| unreachable!("no identity is named: {}", path.display()),
        master_key: &|_| Ok(CellKey::new(&[3; 32])),
    };
    // The report is a part of what is printed, and a comment there.
    let text = format!("{learned}\n{}", learned.configuration(end));
    match config::parse(Path::new("cell.toml"), &text, files) {
        Ok((config, warnings)) => {
            let of_cell = |warning: &&config::Finding| warning.text.contains("fieldbus");
            let mut others =
                warnings.iter().filter(of_cell).filter(|warning| !warning.text.contains("shadow"));
            assert_eq!(others.next(), None, "{text}");
            config
        }
        Err(errors) => panic!("{errors:?}\n{text}"),
    }
}

/// Both ends take what was proposed, and mean the same relations.
fn is_valid(learned: &Learned) {
    let cells = [0, 1].map(|end| configured(learned, end).links.remove(0).cell.unwrap());
    for cell in &cells {
        assert_eq!(cell.relations.len(), learned.relations.len());
        for (relation, proposed) in cell.relations.iter().zip(&learned.relations) {
            assert_eq!(relation.relation.cycle, proposed.cycle);
        }
    }
    for (a, b) in cells[0].relations.iter().zip(&cells[1].relations) {
        assert_eq!(a.relation.stations(), b.relation.stations());
        assert_eq!((a.relation.own(), a.relation.peer()), (b.relation.peer(), b.relation.own()));
    }
}

fn left_out(learned: &Learned, words: &str) -> usize {
    let line = |left_out: &&proposal::LeftOut| format!("{}: {}", left_out.what, left_out.why).contains(words);
    learned.left_out.iter().filter(line).count()
}

#[test]
fn a_plc_and_its_devices_become_relations_that_both_boxes_take() {
    let learned = learned(&[
        (DRIVE, PLC, TAG, 0x8001, MS, 32),
        (PLC, DRIVE, TAG, 0x8002, MS, 32),
        (PRESS, PLC, TAG, 0xc003, 4 * MS, 0),
        (PLC, PRESS, TAG, 0xc004, 4 * MS, 0),
    ]);
    assert_eq!((learned.relations.len(), learned.left_out.len()), (2, 0), "{learned}");
    let [drive, press] = &learned.relations[..] else { panic!("{learned}") };
    assert_eq!((drive.cycle, drive.origin), (MS, Origin::Counter));
    assert_eq!((press.cycle, press.origin), (4 * MS, Origin::Timing));
    // The PLC has the most relations, so box A is in front of it.
    assert_eq!(learned.stations(0).into_iter().collect::<Vec<_>>(), [PLC]);
    assert_eq!(learned.stations(1).into_iter().collect::<Vec<_>>(), [DRIVE, PRESS]);
    assert_eq!([drive.ends[0].frame_id.0, drive.ends[1].frame_id.0], [0x8001, 0x8002]);
    is_valid(&learned);
    let text = learned.configuration(0);
    assert!(
        text.contains("cycle     = \"1ms\"") && !text.contains("vlan") && !text.contains("watchdog"),
        "{text}"
    );
}

#[test]
fn what_no_relation_can_have_is_left_out_with_its_reason() {
    let group = MacAddr([1, 0x0e, 0xcf, 0, 1, 1]);
    let senders = [
        (DRIVE, PLC, TAG, 0x8001, MS, 32),
        (PLC, DRIVE, TAG, 0x8002, MS, 32),
        (PRESS, PLC, TAG, 0x8003, MS, 32),
        (group, PLC, TAG, 0xf801, MS, 32),
        (PLC, DRIVE, TAG, 0xbc01, MS, 32),
        (DRIVE, PLC, TAG, 0x8009, 40 * MS, 1280),
        (PRESS, DRIVE, Some(0xc007), 0x8010, MS, 32),
        (DRIVE, PRESS, Some(0xc007), 0x8011, MS, 32),
    ];
    let learned = learned(&senders);
    assert_eq!(learned.relations.len(), 1, "{learned}");
    for words in [
        "0x8003 from 02:00:00:00:01:01 to 02:00:00:00:02:02, 500 frames: nothing cyclic comes back",
        "0xf801 from 02:00:00:00:01:01 to 01:0e:cf:00:01:01, 500 frames: goes to a group",
        "0xbc01 from 02:00:00:00:02:01 to 02:00:00:00:01:01, 500 frames: has an address or a FrameID",
        "0x8009 from 02:00:00:00:01:01 to 02:00:00:00:02:01, 12 frames: too few",
        "is in VLAN 7, and most are in VLAN 0",
    ] {
        assert_eq!(left_out(&learned, words), 1, "{words}\n{learned}");
    }
    is_valid(&learned);
}

#[test]
fn tags_and_sides_are_those_of_the_network() {
    let pair = |tag| [(DRIVE, PLC, tag, 0x8001, MS, 32), (PLC, DRIVE, tag, 0x8002, MS, 32)];
    for (tag, line) in
        [(None, "vlan = \"none\"\n"), (Some(0xb007), "vlan = { priority = 5, vid = 7 }\n"), (TAG, "")]
    {
        let learned = learned(&pair(tag));
        is_valid(&learned);
        let text = learned.configuration(1);
        assert!(text.contains(line) && text.contains("vlan") != line.is_empty(), "{text}");
    }
    // No tag has this VID.
    let lost = learned(&pair(Some(0xcfff)));
    assert_eq!((lost.relations.len(), left_out(&lost, "VLAN 4095")), (0, 1), "{lost}");
    let mut learner = Learner::default();
    hear(&mut learner, &pair(TAG));
    let by_local = |local: &[MacAddr]| learner.learned(Setting { local: local.to_vec(), ..setting() });
    assert!(by_local(&[DRIVE]).stations(0).contains(&DRIVE));
    is_valid(&by_local(&[DRIVE]));
    assert_eq!(left_out(&by_local(&[DRIVE, PLC]), "both stations would be behind box A"), 1);
    assert_eq!(left_out(&by_local(&[PRESS]), "both stations would be behind box B"), 1);
}

/// The Connects of a PC with a device, and of PLCs of Siemens, recorded by others.
fn connects() -> Vec<Vec<u8>> {
    pcap_frames(&vectors().join("profinet/connect.pcap"))
}

/// Cyclic frames beside them: times are unsteady, Connect is exact.
#[test]
fn connects_of_real_machines_give_cycle_names_and_frame_ids() {
    let mut learner = Learner::default();
    for frame in connects() {
        learner.handle_frame(Some(Duration::from_secs(100)), 0, &frame, true);
    }
    assert_eq!(learner.heard().malformed, 0);
    let (pc, device) = (MacAddr([0, 0xa0, 0x45, 0x6d, 0xd3, 0x43]), MacAddr([0, 9, 0x91, 0x43, 0xe0, 0x67]));
    let silent = learner.learned(setting());
    assert!(silent.relations.is_empty() && left_out(&silent, "no frame of it was heard") > 0, "{silent}");
    let odd = Duration::from_micros(8410);
    hear(&mut learner, &[(device, pc, None, 0xc000, odd, 0), (pc, device, None, 0xc002, odd, 0)]);
    let learned = learner.learned(setting());
    let [relation] = &learned.relations[..] else { panic!("{learned}") };
    assert_eq!((relation.cycle, relation.origin), (8 * MS, Origin::Connect));
    assert_eq!((relation.ends[0].station, relation.ends[0].frame_id.0), (pc, 0xc000));
    assert_eq!((relation.ends[1].station, relation.ends[1].frame_id.0), (device, 0xc002));
    assert_eq!(relation.ends[0].name.as_deref(), Some("pc-worx-rt-basic-6d-d3-43"));
    assert_eq!(learned.watchdog, Some(24));
    assert!(learned.configuration(0).contains("\nwatchdog = 24\n"));
    is_valid(&learned);
}

/// Wireshark's reading of the same Connects: kinds, FrameIDs, cycles and watchdogs of the IOCRs of each frame.
#[test]
fn wireshark_reads_the_same_in_connects() {
    let file = vectors().join("profinet/connect.pcap");
    let fields = ["iocr_type", "frame_id", "send_clock_factor", "reduction_ratio", "watchdog_factor"];
    let mut tshark = std::process::Command::new("tshark");
    tshark.arg("-r").arg(&file).args(["-T", "fields"]);
    for field in fields {
        tshark.args(["-e", &format!("pn_io.{field}")]);
    }
    let output = tshark
        .output()
        .unwrap_or_else(|error| panic!("tshark: {error}; install it with scripts/setup.sh test"));
    let text = String::from_utf8(output.stdout).unwrap();
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    };
    let list = |text: &str| text.split(',').filter(|text| !text.is_empty()).map(number).collect::<Vec<u16>>();
    let frames = connects();
    assert_eq!(text.lines().count(), frames.len());
    let mut compared = 0;
    for (frame, line) in frames.iter().zip(text.lines()) {
        let columns: Vec<_> = line.split('\t').map(list).collect();
        let [kinds, frame_ids, clocks, ratios, watchdogs] = &columns[..] else { panic!("{line}") };
        let header = Header::parse(frame).unwrap();
        let datagram = udp_payload(&frame[header.octets()..]).unwrap();
        let Ok(connect) = Connect::parse(datagram) else {
            assert!(kinds.is_empty(), "{line}");
            continue;
        };
        for (at, iocr) in connect.iocrs().enumerate() {
            compared += 1;
            assert_eq!(iocr.way as u16 + 1, kinds[at], "{line}");
            assert_eq!(iocr.frame_id.0, frame_ids[at], "{line}");
            let clock = clocks.get(at).map(|clock| u32::from(*clock) * u32::from(ratios[at]));
            assert_eq!(iocr.cycle, clock.map(|clock| Duration::from_nanos(31_250) * clock), "{line}");
            assert_eq!(iocr.watchdog, watchdogs.get(at).copied().unwrap_or(0), "{line}");
        }
        assert_eq!(connect.iocrs().count(), kinds.len(), "{line}");
    }
    assert_eq!(compared, 44, "22 Connects of two IOCRs each");
}

#[test]
fn tables_are_bounded() {
    let mut learner = Learner::default();
    for number in 0..2 * MOST_FLOWS as u32 {
        let [_, _, a, b] = number.to_be_bytes();
        let frame = io_data(PLC, MacAddr([2, 0, 0, 9, a, b]), TAG, 0x8001, 0);
        learner.handle_frame(Some(MS * number), 0, &frame, true);
    }
    assert_eq!((learner.flows.len(), learner.heard().unfollowed), (MOST_FLOWS, MOST_FLOWS as u64));
    // One that is followed goes on being so.
    learner.handle_frame(None, 0, &io_data(PLC, MacAddr([2, 0, 0, 9, 0, 0]), TAG, 0x8001, 0), true);
    assert_eq!(learner.heard().unfollowed, MOST_FLOWS as u64);
    let request = connects().remove(0);
    let uuid = request.windows(16).position(|octets| octets.starts_with(&[0x7c, 0x74, 0x22, 0x4e])).unwrap();
    for number in 0..=connections::MOST as u32 {
        let mut other = request.clone();
        other[uuid..uuid + 4].copy_from_slice(&number.to_be_bytes());
        learner.handle_frame(None, 0, &other, true);
    }
    assert_eq!(learner.connections.latest_first().count(), connections::MOST);
    assert_eq!(learner.heard().forgotten, 1);
}

#[test]
fn other_fieldbuses_and_protected_frames_are_named() {
    let mut learner = Learner::default();
    for at in 0..100 {
        let sampled = [&[1, 0x0c, 0xcd, 4, 0, 1][..], &PLC.0, &[0x88, 0xba, 0x40, 0x01], &[0; 50]].concat();
        let protected = [&PLC.0[..], &DRIVE.0, &[0x88, 0xb5], &[0; 60]].concat();
        let random = [&PLC.0[..], &DRIVE.0, &[0x88, 0xa4], &[0; 60]].concat();
        learner.handle_frame(Some(Duration::from_micros(250) * at), 0, &sampled, true);
        learner.handle_frame(Some(MS * at), 0, &protected, true);
        learner.handle_frame(Some(Duration::from_micros(10) * (at * at)), 0, &random, true);
    }
    learner.handle_frame(None, 0, &[0; 13], true);
    let learned = learner.learned(setting());
    let words = "sampled values 0x4001 from 02:00:00:00:01:01 to 01:0c:cd:04:00:01: one each 250 us; goes to a group, and nothing shows who";
    assert_eq!((learned.left_out.len(), left_out(&learned, words)), (1, 1), "{learned}");
    assert!(learned.to_string().contains("# 100 frames were protected already"), "{learned}");
    assert!(learned.to_string().contains("# 1 frames were cut short"), "{learned}");
}

/// A frame of another fieldbus, from its EtherType on.
fn bus_frame(to: MacAddr, from: MacAddr, tag: Option<u16>, ethertype: u16, begins: &[u8]) -> Vec<u8> {
    let tag = tag.map(|tci| [&[0x81, 0][..], &tci.to_be_bytes()].concat()).unwrap_or_default();
    [&to.0[..], &from.0, &tag, &ethertype.to_be_bytes(), begins, &[0; 40]].concat()
}

/// UDP to port 2222 with a sequenced address.
const ETHERNET_IP: [u8; 38] = [
    0x45, 0xdc, 0, 78, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 8, 0xae, 8, 0xae, 0, 58, 0, 0,
    2, 0, 2, 0x80, 8, 0, 1, 0, 0, 0,
];

#[test]
fn flows_of_other_fieldbuses_that_answer_each_other_become_relations() {
    let (master, passed) = (MacAddr([0, 0x1b, 0x21, 0, 0, 1]), MacAddr([2, 0x1b, 0x21, 0, 0, 1]));
    let (all, nodes) = (MacAddr([0xff; 6]), MacAddr([1, 0x11, 0x1e, 0, 0, 2]));
    let (group, tag) = (MacAddr([1, 0, 0x5e, 0x40, 0, 1]), Some(0x800a));
    let mut learner = Learner::default();
    for at in 0..200 {
        for frame in [
            bus_frame(DRIVE, PLC, None, 0x88ab, &[3, 1, 240]),
            bus_frame(nodes, DRIVE, None, 0x88ab, &[4, 255, 1]),
            bus_frame(all, master, None, 0x88a4, &[0x2c, 0x10]),
            bus_frame(all, passed, None, 0x88a4, &[0x2c, 0x10]),
            bus_frame(PRESS, PLC, tag, 0x0800, &ETHERNET_IP),
            bus_frame(group, PRESS, tag, 0x0800, &ETHERNET_IP),
            // Nobody answers; the same number as that of POWERLINK's relation, though.
            bus_frame(DRIVE, PLC, None, 0x88b8, &[3, 1]),
            bus_frame(PLC, DRIVE, None, 0x88b8, &[4, 255]),
            bus_frame(nodes, PLC, None, 0x88ab, &[1, 255, 240]),
            // TCP, whose times say nothing.
            bus_frame(
                DRIVE,
                PLC,
                None,
                0x0800,
                &[0x45, 0, 0, 60, 0, 1, 0, 0, 64, 6, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0xc0, 0, 1, 0xf6],
            ),
        ] {
            learner.handle_frame(Some(2 * MS * at), 0, &frame, true);
        }
    }
    let learned = learner.learned(setting());
    let of: Vec<_> = learned
        .relations
        .iter()
        .map(|of| {
            (of.protocol, of.cycle, of.ends.each_ref().map(|end| (end.station, end.frame_id.0, end.group)))
        })
        .collect();
    let goose_or_powerlink = |protocol| of.iter().any(|(known, ..)| *known == protocol);
    assert_eq!(of.len(), 3, "{learned}");
    // Of two flows with the same number between the same stations one is left out.
    assert!(goose_or_powerlink(Protocol::Goose) ^ goose_or_powerlink(Protocol::Powerlink), "{learned}");
    assert_eq!(left_out(&learned, "another relation has the same number"), 1, "{learned}");
    assert_eq!(
        left_out(
            &learned,
            "POWERLINK 0x01ff from 02:00:00:00:01:01 to 01:11:1e:00:00:02: one each 2 ms; goes to a group"
        ),
        1,
        "{learned}"
    );
    let has = |protocol, ends: [(MacAddr, u16, Option<MacAddr>); 2]| {
        let [a, b] = ends;
        of.iter().any(|(known, cycle, ends)| {
            *known == protocol && *cycle == 2 * MS && (*ends == [a, b] || *ends == [b, a])
        })
    };
    assert!(has(Protocol::EtherCat, [(master, 0x2c10, Some(all)), (passed, 0x2c10, Some(all))]), "{learned}");
    assert!(has(Protocol::EtherNetIp, [(PLC, 2222, None), (PRESS, 2222, Some(group))]), "{learned}");
    is_valid(&learned);
    let text = learned.configuration(0);
    assert!(
        text.contains("protocol  = \"ethernet-ip\"") && text.contains("vlan = { priority = 4, vid = 10 }"),
        "{text}"
    );
    for end in [0, 1] {
        let cell = configured(&learned, end).links.remove(0).cell.unwrap();
        let targets = cell.relations.iter().map(|of| of.relation.targets());
        assert!(targets.into_iter().all(
            |(own, peer)| own != wire::fieldbus::Target::Nobody && peer != wire::fieldbus::Target::Nobody
        ));
    }
}

#[test]
fn copies_at_several_interfaces_and_cut_frames_change_nothing() {
    let mut learner = Learner::default();
    for at in 0..100 {
        for (to, from, id) in [(DRIVE, PLC, 0x8001), (PLC, DRIVE, 0x8002)] {
            let frame = io_data(to, from, TAG, id, 32 * at as u16);
            learner.handle_frame(Some(MS * at), 0, &frame, true);
            // The copy is late and cut: where its CycleCounter would be there is something else.
            learner.handle_frame(Some(MS * at + MS / 3), 1, &frame[..40], false);
        }
    }
    let learned = learner.learned(setting());
    let [relation] = &learned.relations[..] else { panic!("{learned}") };
    assert_eq!((relation.cycle, relation.origin, relation.ends[0].octets), (MS, Origin::Counter, 64));
}

proptest! {
    /// Whatever is heard: if relations are proposed, both boxes accept them.
    #[test]
    fn a_proposal_is_always_a_valid_configuration(
        frames in prop::collection::vec((0..6_u8, 0..6_u8, 0..4_u16, 0..5_usize, 1..40_u32, 0..3_usize), 1..40),
        local in prop::collection::vec(0..6_u8, 0..3),
        damaged in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        buses in prop::collection::vec((0..6_u8, 0..6_u8, 0..6_usize, 0..2_u8, 0..3_usize, 1..40_u32), 0..20),
    ) {
        let mut learner = Learner::default();
        // Station 0 is nobody, 1 a group.
        let mac = |station: u8| [MacAddr::default(), MacAddr([1, 0, 0, 0, 0, 1]), PLC, DRIVE, PRESS, MacAddr([2; 6])][usize::from(station)];
        for mut frame in connects() {
            for (at, octet) in &damaged {
                let at = at.index(frame.len());
                frame[at] = *octet;
            }
            learner.handle_frame(Some(MS), 0, &frame, true);
        }
        for (to, from, id, tag, cycle, interface) in frames {
            let id = [0x0100, 0x8000, 0xbbff, 0xbc00][usize::from(id)];
            let tag = [None, TAG, Some(0xc007), Some(0xcfff), Some(0)][tag];
            for at in 0..20 {
                let time = Duration::from_secs(1) + MS * cycle * at;
                let frame = io_data(mac(to), mac(from), tag, id, (32 * cycle * at) as u16);
                learner.handle_frame(Some(time), interface, &frame, true);
            }
        }
        for (to, from, bus, id, tag, cycle) in buses {
            let ethertype = [0x88a4, 0x88ab, 0x88b8, 0x88ba, 0x88cd, 0x0800][bus];
            let begins = if bus == 5 { ETHERNET_IP.to_vec() } else { vec![0x80, id] };
            let tag = [None, Some(0x800a), Some(0xcfff)][tag];
            for at in 0..20 {
                let frame = bus_frame(mac(to), mac(from), tag, ethertype, &begins);
                learner.handle_frame(Some(Duration::from_secs(1) + MS * cycle * at), 0, &frame, true);
            }
        }
        let local = local.into_iter().map(mac).collect();
        let learned = learner.learned(Setting { local, ..setting() });
        let report = learned.to_string();
        prop_assert!(report.lines().all(|line| line.starts_with('#')), "{report}");
        if !learned.relations.is_empty() {
            is_valid(&learned);
        }
    }
}
