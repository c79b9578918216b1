//! Relations of other protocols than PROFINET.

use fieldbus::VlanTag;
use wire::EtherType;
use wire::fieldbus::{Protocol, Target};

use super::*;

/// A relation of each other protocol; line numbers count from `[[fieldbus]]` on line 16.
const BUSES: &str = r#"[[fieldbus.relation]]
stations = ["02:00:00:00:01:01", "02:00:00:00:01:02"]
protocol = "goose"
frame_ids = [0x0003]
destinations = ["01:0c:cd:01:00:01"]
vlan = { priority = 4, vid = 10 }
cycle = "2ms"
[[fieldbus.relation]]
stations = ["02:00:00:00:01:02", "02:00:00:00:01:01"]
protocol = "powerlink"
frame_ids = [0x0301, 0x04ff]
destinations = ["02:00:00:00:01:01", "01:11:1e:00:00:02"]
cycle = "400us"
[[fieldbus.relation]]
stations = ["02:00:00:00:01:01", "02:00:00:00:01:02"]
protocol = "ethernet-ip"
cycle = "10ms"
[[fieldbus.relation]]
stations = ["02:00:00:00:01:01", "02:00:00:00:01:02"]
protocol = "sampled-values"
frame_ids = [0x4000]
destinations = ["01:0c:cd:04:00:01"]
cycle = "250us"
"#;

/// The cell of [`VALID`] with these relations instead of its own.
fn with(relations: &str) -> String {
    let before = VALID.split("[[fieldbus.relation]]").next().unwrap();
    [before, relations].concat()
}

#[test]
fn relations_of_other_fieldbuses_are_understood() {
    let (config, warnings) = validated(&with(BUSES)).unwrap();
    assert_eq!(lines(&warnings), [""; 0]);
    let cell = config.links[0].cell.as_deref().unwrap();
    let group = |octets| Target::Group(MacAddr(octets));
    let of: Vec<_> = cell
        .relations
        .iter()
        .map(|of| (of.relation.protocol(), of.relation.targets(), of.relation.delivered_tag(cell.vlan)))
        .collect();
    let expected = [
        (Protocol::Goose, (group([1, 0x0c, 0xcd, 1, 0, 1]), Target::Nobody), VlanTag::new(4, 10)),
        // The PLC is the second of its stations.
        (Protocol::Powerlink, (group([1, 0x11, 0x1e, 0, 0, 2]), Target::Peer), None),
        (Protocol::EtherNetIp, (Target::Peer, Target::Peer), None),
        (Protocol::SampledValues, (group([1, 0x0c, 0xcd, 4, 0, 1]), Target::Nobody), VlanTag::new(4, 0)),
    ];
    assert_eq!(of, expected);
    assert_eq!(
        (cell.relations[1].relation.own().1, cell.relations[2].relation.own().1),
        (FrameId(0x04ff), FrameId(2222))
    );
    // A cell that names a tag means it for all that have none of their own.
    let tagged =
        with(BUSES).replace("rest = \"press\"", "rest = \"press\"\nvlan = { priority = 5, vid = 7 }");
    let (config, _) = validated(&tagged).unwrap();
    let cell = config.links[0].cell.as_deref().unwrap();
    let tags: Vec<_> = cell.relations.iter().map(|of| of.relation.delivered_tag(cell.vlan)).collect();
    assert_eq!(tags, [VlanTag::new(4, 10), VlanTag::new(5, 7), VlanTag::new(5, 7), VlanTag::new(5, 7)]);
    assert_eq!(cell.ethertype, EtherType(0x88b5));
}

#[test]
fn what_is_wrong_with_them_is_said_with_line_and_cure() {
    let rows: &[(&str, &str, &str)] = &[
        (
            "\"goose\"",
            "\"goosebus\"",
            "23: relation 1: protocol = \"goosebus\" is no choice; use \"profinet\", \"goose\", \"sampled-values\", \"powerlink\", \"ethercat\", \"sercos\", \"ethernet-ip\" or \"modbus-tcp\"",
        ),
        (
            "[0x0003]",
            "[3, 4, 5]",
            "24: relation 1: frame_ids names 3 FrameIDs; a relation has two, one for each station's frames",
        ),
        (
            "frame_ids = [0x0003]\n",
            "\n",
            "21: relation 1: frame_ids is missing; add frame_ids = [NUMBER]: the first station sends it, or two, one for each station's frames",
        ),
        (
            "\"01:0c:cd:01:00:01\"",
            "\"02:0c:cd:01:00:01\"",
            "22: relation 1: destinations: 02:0c:cd:01:00:01 is neither a group address nor the other station; name one of these",
        ),
        (
            "\"01:0c:cd:01:00:01\"",
            "\"01:0c:cd:01:00:01\", \"01:0c:cd:01:00:02\"",
            "25: relation 1: destinations names 2 addresses, and 1 station does send; name one for each that sends, in the order of stations",
        ),
        (
            "protocol = \"ethernet-ip\"",
            "protocol = \"ethernet-ip\"\nframe_ids = [1, 2]",
            "37: relation 3: frame_ids: frames of ethernet-ip have none, they are known by their ports; remove it",
        ),
        (
            "\"powerlink\"\nframe_ids = [0x0301, 0x04ff]",
            "\"sercos\"\nframe_ids = [0x0004, 0x4074]",
            "29: relation 2: frame_ids: no frame of sercos has 0x4074: bits 0x3070 are the cycle count; leave them 0",
        ),
        // Two relations that the same frame would match.
        (
            "\"sampled-values\"\nframe_ids = [0x4000]\ndestinations = [\"01:0c:cd:04:00:01\"]",
            "\"goose\"\nframe_ids = [3]\ndestinations = [\"01:0c:cd:01:00:01\"]",
            "38: relation 4: the relation of line 21 already has goose 0x0003 to 01:0c:cd:01:00:01 from 02:00:00:00:01:01 to 01:0c:cd:01:00:01; give it to one relation",
        ),
        // Another protocol, whose protected frames would look the same; and HELLOs alone.
        (
            "[0x4000]\ndestinations = [\"01:0c:cd:04:00:01\"]",
            "[3]\ndestinations = [\"01:0c:cd:01:00:01\"]",
            "38: relation 4: the relation of line 21 already has sampled-values 0x0003 to 01:0c:cd:01:00:01 from 02:00:00:00:01:01 to 01:0c:cd:01:00:01; give it to one relation",
        ),
        (
            "[0x4000]\n",
            "[3]\n",
            "38: relation 4: the relation of line 21 has 0x0003 between the same stations, so HELLOs of both could not be told apart; make one relation of them, with two frame_ids, or name other stations",
        ),
        (
            "\"ethernet-ip\"",
            "\"profinet\"\nframe_ids = [0x8001]",
            "37: relation 3: frame_ids names 1 FrameIDs; a relation has two, one for each station's frames",
        ),
    ];
    for (from, to, expected) in rows {
        let text = with(BUSES);
        assert!(text.contains(from), "{from}");
        let errors = validated(&text.replacen(from, to, 1)).unwrap_err();
        let expected = expected.replacen(": relation", ": fieldbus \"cell-4\": relation", 1);
        assert_eq!(lines(&errors)[0], format!("gw.toml:{expected}"), "{to}");
    }
    let group = with(BUSES).replacen("\"02:00:00:00:01:02\"]", "\"01:0c:cd:01:00:01\"]", 1);
    assert_eq!(
        lines(&validated(&group).unwrap_err())[0],
        "gw.toml:22: fieldbus \"cell-4\": relation 1: 01:0c:cd:01:00:01 is a group address; name two stations, and the group in destinations"
    );
    for ethertype in ["0x88ab", "0x88cd", "0x88ba"] {
        let text = with(BUSES).replace("rest =", &format!("ethertype = {ethertype}\nrest ="));
        assert!(lines(&validated(&text).unwrap_err())[0].contains("is another protocol's"), "{ethertype}");
    }
}
