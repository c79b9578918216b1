mod buses;

use std::fmt::Write as _;
use std::time::Duration;

use wire::MacAddr;
use wire::fieldbus::{CellSuite, FrameId, Protect};

use super::super::tests::{lines, validated};
use super::*;

/// A valid configuration; line numbers stand beside it.
const VALID: &str = r#"[gateway]
name = "line"
[[link]]
name = "press"
plain = "eth0"
protected = "eth1"
suite = "gcm-aes-128"
[link.static]
an = 0
sci = "02:00:00:00:00:01/1"
key_file = "a.key"
[[link.static.peer]]
an = 0
sci = "02:00:00:00:00:02/1"
key_file = "b.key"
[[fieldbus]]
name = "cell-4"
rest = "press"
master_key_file = "m.key"
local = ["02:00:00:00:01:01"]
[[fieldbus.relation]]
stations = ["02:00:00:00:01:01", "02:00:00:00:01:02"]
frame_ids = [0x8001, 0x8002]
cycle = "1ms"
[[fieldbus.relation]]
stations = ["02:00:00:00:01:03", "02:00:00:00:01:01"]
frame_ids = [0xc003, 0xc001]
cycle = "250us"
mode = "protect"
"#;

const PLC: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);

#[test]
fn a_cell_is_a_part_of_its_link() {
    let (config, warnings) = validated(VALID).unwrap();
    assert_eq!(lines(&warnings), [""; 0]);
    let [link] = config.links.as_slice() else { panic!("one link") };
    let cell = link.cell.as_deref().unwrap();
    assert!(link.has_secy());
    assert_eq!((cell.name.as_str(), cell.line.0, cell.rest), ("cell-4", 16, OtherFrames::Link));
    assert_eq!((cell.protection.protect, cell.protection.suite), (Protect::Encrypt, CellSuite::GcmAes128));
    assert_eq!((cell.ethertype, cell.vlan), (EtherType(0x88b5), Some(VlanTag::PROFINET)));
    assert_eq!((cell.watchdog, cell.alarm_percent, cell.epoch_frames), (3, 50, 4_227_858_431));
    assert_eq!(cell.master_key, CellKey::new(&[b'm'; 32]));
    let [one, other] = cell.relations.as_slice() else { panic!("two relations") };
    assert_eq!((one.line.0, one.mode, one.relation.cycle), (21, Mode::Protect, Duration::from_millis(1)));
    assert_eq!(one.relation.own(), (PLC, FrameId(0x8001)));
    assert_eq!(one.relation.peer(), (MacAddr([2, 0, 0, 0, 1, 2]), FrameId(0x8002)));
    assert_eq!(other.relation.own(), (PLC, FrameId(0xc001)));
    assert_eq!(other.relation.peer(), (MacAddr([2, 0, 0, 0, 1, 3]), FrameId(0xc003)));
    assert_eq!(cell.watchdog_time(other), Duration::from_micros(750));
    assert_eq!(cell.alarm_time(other), Duration::from_micros(375));
}

#[test]
fn a_cell_that_drops_the_rest_has_a_link_of_its_own() {
    let cell = VALID.replace("rest = \"press\"", "rest = \"drop\"\nplain = \"eth2\"\nprotected = \"eth3\"");
    let (config, _) = validated(&cell).unwrap();
    let [press, own] = config.links.as_slice() else { panic!("two links") };
    assert!(press.cell.is_none());
    assert_eq!((own.name.as_str(), own.plain.as_str(), own.protected.as_str()), ("cell-4", "eth2", "eth3"));
    assert!(!own.has_secy() && own.static_sas().is_none() && own.mka().is_none() && own.suite().is_none());
    assert_eq!(own.cell.as_ref().unwrap().rest, OtherFrames::Drop);
    // Without any link.
    let start = cell.find("[[link]]").unwrap();
    let alone = [&cell[..start], &cell[cell.find("[[fieldbus]]").unwrap()..]].concat();
    assert_eq!(validated(&alone).unwrap().0.links.len(), 1);
}

#[test]
fn every_key_of_a_cell_is_understood() {
    let text = VALID
        .replace(
            "rest = \"press\"\n",
            r#"rest = "press"
plain = "eth0"
protected = "eth1"
protect = "authenticate"
suite = "gcm-aes-256"
ethertype = 0x88b6
vlan = { priority = 5, vid = 12 }
mode = "shadow"
watchdog = 4
alarm = "75%"
epoch_frames = 3600000
"#,
        )
        .replacen("cycle = \"1ms\"", "cycle = \"31.25us\"", 1);
    let (config, warnings) = validated(&text).unwrap();
    let cell = config.links[0].cell.as_deref().unwrap();
    assert_eq!(
        (cell.protection.protect, cell.protection.suite),
        (Protect::Authenticate, CellSuite::GcmAes256)
    );
    assert_eq!((cell.ethertype, cell.vlan), (EtherType(0x88b6), VlanTag::new(5, 12)));
    assert_eq!((cell.watchdog, cell.alarm_percent, cell.epoch_frames), (4, 75, 3_600_000));
    assert_eq!(cell.relations[0].relation.cycle, Duration::from_nanos(31_250));
    assert_eq!(
        cell.relations.iter().map(|relation| relation.mode).collect::<Vec<_>>(),
        [Mode::Shadow, Mode::Protect]
    );
    let [warning] = lines(&warnings).try_into().unwrap();
    assert!(
        warning.starts_with(
            "gw.toml:25: fieldbus \"cell-4\": mode = \"shadow\": 1 of 2 relations pass in CLEAR"
        ),
        "{warning}"
    );
    for (alarm, percent) in [("0.5", 50), ("1", 100), ("\"100%\"", 100), ("0.38", 38)] {
        let text = VALID.replace("rest =", &format!("alarm = {alarm}\nrest ="));
        assert_eq!(validated(&text).unwrap().0.links[0].cell.as_ref().unwrap().alarm_percent, percent);
    }
    let untagged = VALID.replace("rest =", "vlan = \"none\"\nethertype = \"0x9999\"\nwatchdog = 2\nrest =");
    let config = validated(&untagged).unwrap().0;
    let cell = config.links[0].cell.as_ref().unwrap();
    assert_eq!((cell.vlan, cell.ethertype), (None, EtherType(0x9999)));
    // Half of two cycles is one: every frame would raise the alarm.
    assert_eq!((cell.watchdog, cell.alarm_percent), (2, 75));
}

/// Relations may stand on one line of TOML: they are two all the same.
#[test]
fn relations_that_cannot_be_told_apart_are_refused_on_one_line_too() {
    let goose = |destination: &str| {
        format!(
            "{{ protocol = \"goose\", stations = [\"02:00:00:00:01:01\", \"02:00:00:00:01:02\"], frame_ids = [3], destinations = [\"{destination}\"], cycle = \"1ms\" }}"
        )
    };
    let start = VALID.find("[[fieldbus.relation]]").unwrap();
    let (one, other) = (goose("01:0c:cd:01:00:01"), goose("01:0c:cd:01:00:02"));
    let findings = validated(&format!("{}relation = [{one}, {other}]\n", &VALID[..start])).unwrap_err();
    let text = "21: fieldbus \"cell-4\": relation 2: the relation of line 21 has 0x0003 between the same stations, so HELLOs of both could not be told apart; make one relation of them, with two frame_ids, or name other stations";
    assert_eq!(lines(&findings), [format!("gw.toml:{text}")]);
}

#[test]
fn what_is_wrong_is_said_with_line_and_cure() {
    let cell = |text: &str| format!("fieldbus \"cell-4\": {text}");
    let rows: &[(&str, &str, String)] = &[
        ("name = \"cell-4\"\n", "name = \"Cell 4\"\n", "17: fieldbus \"Cell 4\": name = \"Cell 4\" is not a valid name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first".into()),
        ("name = \"cell-4\"\n", "\n", "16: fieldbus 1: name is missing; add name = \"NAME\"".into()),
        ("name = \"cell-4\"\n", "name = \"press\"\n", "17: fieldbus \"press\": name = \"press\" is already used on line 4; give each link, site and fieldbus its own".into()),
        ("name = \"cell-4\"\n", "name = \"cell-4\"\ncolour = 1\n", "18: unknown key \"colour\"; remove it or use one of name, rest, master_key_file, fallback_master_key_file, local, plain, protected, protect, suite, mode, watchdog, alarm, epoch_frames, ethertype, vlan, allow_addresses, relation".into()),
        ("rest = \"press\"\n", "\n", format!("16: {}", cell("rest is missing: it says what happens to frames of no relation; name a [[link]] on the same ports, or \"drop\""))),
        ("rest = \"press\"\n", "rest = \"pres\"\n", format!("18: {}", cell("rest = \"pres\" is no [[link]]; use \"press\" or \"drop\""))),
        ("rest = \"press\"\n", "rest = \"press\"\nplain = \"eth7\"\n", format!("19: {}", cell("plain = \"eth7\" differs from that of link \"press\", \"eth0\"; remove it, or name the link on these ports in rest"))),
        ("rest = \"press\"\n", "rest = \"drop\"\n", format!("16: {0}\n16: {1}", cell("plain is missing; add plain = \"INTERFACE\""), cell("protected is missing; add protected = \"INTERFACE\""))),
        ("rest = \"press\"\n", "rest = \"drop\"\nplain = \"eth0\"\nprotected = \"eth2\"\n", format!("19: {}", cell("plain = \"eth0\" is already used on line 5; an interface serves one side of one link or fieldbus, or one site; a fieldbus on a link's ports names the link in rest"))),
        ("master_key_file = \"m.key\"\n", "\n", format!("16: {}", cell("master_key_file is missing; make one with frameward keygen fieldbus --out FILE, copy it to the other gateway, and add master_key_file = \"FILE\""))),
        ("\"m.key\"", "\"Zeros.key\"", format!("19: {}", cell("Zeros.key holds only zeros, which are no secret; make a key with: frameward keygen fieldbus --out FILE"))),
        ("rest = \"press\"\n", "rest = \"press\"\nprotect = \"sign\"\n", format!("19: {}", cell("protect = \"sign\" is no choice; use \"encrypt\" or \"authenticate\""))),
        ("rest = \"press\"\n", "rest = \"press\"\nsuite = \"aegis-256\"\n", format!("19: {}", cell("suite = \"aegis-256\" is no choice; use \"gcm-aes-128\", \"gcm-aes-256\" or \"chacha20-poly1305\""))),
        ("rest = \"press\"\n", "rest = \"press\"\nmode = \"off\"\n", format!("19: {}", cell("mode = \"off\" is no choice; use \"protect\" or \"shadow\""))),
        ("rest = \"press\"\n", "rest = \"press\"\nwatchdog = 1\n", format!("19: {}", cell("watchdog = 1 is out of range; use 2 to 255 cycles, as the machines' engineering tool has it"))),
        ("rest = \"press\"\n", "rest = \"press\"\nepoch_frames = 1\n", format!("19: {}", cell("epoch_frames = 1 is out of range; use 2 to 4227858431 frames of a direction, or remove it for the maximum"))),
        ("rest = \"press\"\n", "rest = \"press\"\nepoch_frames = 999\n", format!("19: {}", cell("epoch_frames = 999 at a cycle of 250µs is less than a second; use 4000 or more"))),
        ("rest = \"press\"\n", "rest = \"press\"\nalarm = 2\n", format!("19: {}", cell("alarm is not a share of the watchdog; use more than 0 and up to 1, such as 0.5 or \"50%\""))),
        ("rest = \"press\"\n", "rest = \"press\"\nalarm = \"33%\"\n", format!("19: {}", cell("alarm = 33% of 3 cycles is not above one cycle, so every frame would raise the alarm; use more than 33%"))),
        ("rest = \"press\"\n", "rest = \"press\"\nethertype = 0x8892\n", format!("19: {}", cell("ethertype = 0x8892 is another protocol's; remove it for 0x88b5, or use 0x88b6, the other EtherType for local experiments"))),
        ("rest = \"press\"\n", "rest = \"press\"\nethertype = 100\n", format!("19: {}", cell("ethertype is a length, not an EtherType; remove it for 0x88b5, or use 0x88b6, the other EtherType for local experiments"))),
        ("rest = \"press\"\n", "rest = \"press\"\nethertype = \"ptp\"\n", format!("19: {}", cell("ethertype is no EtherType; remove it for 0x88b5, or use 0x88b6, the other EtherType for local experiments"))),
        ("rest = \"press\"\n", "rest = \"press\"\nvlan = { priority = 8 }\n", format!("19: {}", cell("vlan is neither \"none\" nor a tag; use { priority = 6, vid = 0 } with priority 0 to 7 and vid 0 to 4094"))),
        ("suite = \"gcm-aes-128\"\n[link", "suite = \"gcm-aes-128\"\nbypass = [\"0x88b5\"]\n[link", format!("17: {}", cell("bypass of link \"press\" names 0x88b5, the EtherType of protected frames; remove it there"))),
        ("local = [\"02:00:00:00:01:01\"]\n", "\n", format!("16: {}", cell("local is missing: it lists the stations behind this gateway, on the plain side; add local = [\"MAC\"]"))),
        ("local = [\"02:00:00:00:01:01\"]", "local = [\"plc\"]", format!("20: {}", cell("local: \"plc\" is not a MAC address such as 02:00:00:00:00:01; correct it"))),
        ("local = [\"02:00:00:00:01:01\"]", "local = [\"02:00:00:00:01:01\", \"02:00:00:00:01:01\"]", format!("20: {}", cell("local: 02:00:00:00:01:01 stands there twice; once is enough"))),
        ("local = [\"02:00:00:00:01:01\"]", "local = [\"02:00:00:00:01:01\", \"02:00:00:00:01:02\"]", format!("22: {}", cell("relation 1: both stations are in local; remove the one that is behind the other gateway"))),
        ("local = [\"02:00:00:00:01:01\"]", "local = [\"02:00:00:00:01:03\"]", format!("22: {}", cell("relation 1: neither station is in local; add the one that is behind this gateway"))),
        ("[\"02:00:00:00:01:01\", \"02:00:00:00:01:02\"]", "[\"02:00:00:00:01:01\"]", format!("22: {}", cell("relation 1: stations names 1 stations; a relation has two: [\"MAC\", \"MAC\"]"))),
        ("[\"02:00:00:00:01:01\", \"02:00:00:00:01:02\"]", "[\"02:00:00:00:01:01\", \"02:00:00:00:01:01\"]", format!("22: {}", cell("relation 1: both stations are 02:00:00:00:01:01; name the two that exchange frames"))),
        ("[\"02:00:00:00:01:01\", \"02:00:00:00:01:02\"]", "[\"02:00:00:00:01:01\", \"01:0e:cf:00:00:01\"]", format!("22: {}", cell("relation 1: 01:0e:cf:00:00:01 is a group address; name two stations, and the group in destinations"))),
        ("frame_ids = [0x8001, 0x8002]", "frame_ids = [0x8001]", format!("23: {}", cell("relation 1: frame_ids names 1 FrameIDs; a relation has two, one for each station's frames"))),
        ("frame_ids = [0x8001, 0x8002]", "frame_ids = [0x8001, 0x18002]", format!("23: {}", cell("relation 1: frame_ids: 98306 is no FrameID; use 0x0000 to 0xffff"))),
        ("frame_ids = [0x8001, 0x8002]\n", "\n", format!("21: {}", cell("relation 1: frame_ids is missing; add frame_ids = [0x8001, 0x8002]: the first station sends the first"))),
        ("cycle = \"1ms\"", "", format!("21: {}", cell("relation 1: cycle is missing; add cycle = \"1ms\""))),
        ("cycle = \"1ms\"", "cycle = \"1s\"", format!("24: {}", cell("relation 1: cycle = \"1s\" is no cycle; use 31.25us to 512ms, such as \"1ms\" or \"250us\""))),
        ("cycle = \"1ms\"", "cycle = \"31.249us\"", format!("24: {}", cell("relation 1: cycle = \"31.249us\" is no cycle; use 31.25us to 512ms, such as \"1ms\" or \"250us\""))),
        ("[\"02:00:00:00:01:03\", \"02:00:00:00:01:01\"]\nframe_ids = [0xc003, 0xc001]", "[\"02:00:00:00:01:01\", \"02:00:00:00:01:02\"]\nframe_ids = [0x8003, 0x8002]", format!("25: {}", cell("relation 2: the relation of line 21 already has FrameID 0x8002 from 02:00:00:00:01:02 to 02:00:00:00:01:01; give it to one relation"))),
    ];
    for (from, to, expected) in rows {
        assert!(VALID.contains(from), "{from}");
        let errors = validated(&VALID.replacen(from, to, 1)).map(|_| ()).unwrap_err();
        let expected: Vec<_> = expected.lines().map(|line| format!("gw.toml:{line}")).collect();
        assert_eq!(lines(&errors), expected, "{to}");
    }
    let no_relation = &VALID[..VALID.find("[[fieldbus.relation]]").unwrap()];
    assert_eq!(
        lines(&validated(no_relation).map(|_| ()).unwrap_err()),
        ["gw.toml:16: fieldbus \"cell-4\": has no relation; add [[fieldbus.relation]]"]
    );
}

#[test]
fn two_cells_share_neither_a_link_nor_a_key() {
    let second = VALID[VALID.find("[[fieldbus]]").unwrap()..].replace("cell-4", "cell-5");
    let errors = validated(&format!("{VALID}{second}")).map(|_| ()).unwrap_err();
    assert_eq!(
        lines(&errors),
        [
            "gw.toml:32: fieldbus \"cell-5\": rest = \"press\": that link already has the fieldbus of line 16; put the relations there",
            "gw.toml:33: fieldbus \"cell-5\": master_key_file holds the key of the fieldbus of line 16; give each its own, from: frameward keygen fieldbus --out FILE",
        ]
    );
}

#[test]
fn a_second_master_key_is_another_one() {
    let with = |lines: &str| {
        VALID.replace("master_key_file = \"m.key\"\n", &format!("master_key_file = \"m.key\"\n{lines}"))
    };
    let (config, warnings) = validated(&with("fallback_master_key_file = \"o.key\"\n")).unwrap();
    assert_eq!(lines(&warnings), [""; 0]);
    let cell = config.links[0].cell.as_deref().unwrap();
    let [new, old] = [b'm', b'o'].map(|octet| CellKey::new(&[octet; 32]));
    assert_eq!((&cell.master_key, cell.fallback_master_key.as_ref()), (&new, Some(&old)));
    assert_eq!(cell.master_keys().iter().count(), 2);
    let second = VALID[VALID.find("[[fieldbus]]").unwrap()..].replace("cell-4", "cell-5");
    let second =
        second.replace("rest = \"press\"", "rest = \"drop\"\nplain = \"eth2\"\nprotected = \"eth3\"");
    for (lines_of, expected) in [
        (
            "fallback_master_key_file = \"m2.key\"\n",
            "gw.toml:20: fieldbus \"cell-4\": fallback_master_key_file holds the key of master_key_file, so it adds nothing; remove it, or make another key with: frameward keygen fieldbus --out FILE",
        ),
        ("fallback_master_key_file = [\"o.key\", \"p.key\"]\n", "gw.toml:"),
        ("fallback_master_key_file = \"o.key\"\nfallback_master_key_file = \"p.key\"\n", "gw.toml:"),
        (
            "fallback_master_key_file = \"Zeros\"\n",
            "gw.toml:20: fieldbus \"cell-4\": Zeros holds only zeros, which are no secret; make a key with: frameward keygen fieldbus --out FILE",
        ),
    ] {
        let errors = lines(&validated(&with(lines_of)).map(|_| ()).unwrap_err());
        let [error] = &errors[..] else { panic!("{errors:?}") };
        assert!(error.starts_with(expected), "{error}");
    }
    // Nor may a cell have the fallback of another one.
    let second = second.replace("m.key", "o.key");
    let text = format!("{}{second}", with("fallback_master_key_file = \"o.key\"\n"));
    let errors = lines(&validated(&text).map(|_| ()).unwrap_err());
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert!(error.contains("master_key_file holds the key of the fieldbus of line 16"), "{error}");
}

#[test]
fn what_is_odd_is_warned_of() {
    for (from, to, expected) in [
        (
            "frame_ids = [0x8001,",
            "frame_ids = [0xfefe,",
            "gw.toml:23: fieldbus \"cell-4\": relation 1: frame_ids: 0xfefe is not one of PROFINET's for cyclic frames (0x8000 to 0xbbff, 0xc000 to 0xf7ff, 0x0100 to 0x0fff); check it",
        ),
        (
            "cycle = \"1ms\"",
            "cycle = \"1.01ms\"",
            "gw.toml:24: fieldbus \"cell-4\": relation 1: cycle = \"1.01ms\" is not a multiple of 31.25 us, as all cycles of PROFINET are; check it",
        ),
        (
            "local = [",
            "local = [\"02:00:00:00:01:09\", ",
            "gw.toml:20: fieldbus \"cell-4\": local: 02:00:00:00:01:09 is in no relation, so its cyclic frames belong to the rest; add a relation if one is missing",
        ),
    ] {
        let (_, warnings) = validated(&VALID.replacen(from, to, 1)).unwrap();
        assert_eq!(lines(&warnings), [expected]);
    }
}

#[test]
fn a_cell_has_a_bounded_number_of_relations() {
    let mut text = VALID[..VALID.find("[[fieldbus.relation]]").unwrap()].to_owned();
    for number in 0..=MOST_RELATIONS {
        let _ = write!(
            text,
            "[[fieldbus.relation]]\nstations = [\"02:00:00:00:01:01\", \"02:00:00:01:{:02x}:{:02x}\"]\nframe_ids = [0x8001, 0x8002]\ncycle = \"1ms\"\n",
            number / 256,
            number % 256
        );
    }
    let [error] = lines(&validated(&text).map(|_| ()).unwrap_err()).try_into().unwrap();
    assert!(error.contains("has 1025 relations, and at most 1024 fit; use another gateway"), "{error}");
    let last = text.rfind("[[fieldbus.relation]]").unwrap();
    assert_eq!(
        validated(&text[..last]).unwrap().0.links[0].cell.as_ref().unwrap().relations.len(),
        MOST_RELATIONS
    );
}

#[test]
fn a_cell_is_like_itself_wherever_it_stands() {
    let of = |text: &str| validated(text).unwrap().0.links.remove(0);
    let link = of(VALID);
    assert_eq!(link, of(&format!("# a line more\n{VALID}")));
    assert_eq!(link, of(&VALID.replace("m.key", "moved.key")), "the same key in another file");
    for (from, to) in [
        ("cycle = \"1ms\"", "cycle = \"2ms\""),
        ("m.key", "n.key"),
        ("rest =", "watchdog = 4\nrest ="),
        ("mode = \"protect\"", "mode = \"shadow\""),
    ] {
        let other = of(&VALID.replacen(from, to, 1));
        assert!(link != other && link.is_like_but_for_keys(&other), "{to}");
    }
}
