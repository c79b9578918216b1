//! `[[fieldbus]]` and `[[fieldbus.relation]]`.

use fieldbus::{Mode, Settings, VlanTag};
use toml::{Spanned, Value};
use wire::fieldbus::{CellSuite, Protect, Protocol};

use super::key::Absent::{Is, Means, Needed, NeededIf, Number, Switch, Word};
use super::key::{Key, Kind, Section, texts};
use crate::words::words;

section! {
    FIELDBUS: RawFieldbus, FieldbusKeys {
        path: &["fieldbus"],
        many: true,
        needed: false,
        meaning: "A cell: cyclic frames of PROFINET and other fieldbuses, with keys of their own for each communication relation.",
    }
    keys {
        name: String {
            kind: texts::NAME,
            absent: Needed,
            meaning: "The cell's name, in status, metrics and log.",
            example: r#"name = "cell-4""#,
        }
        rest: String {
            kind: Kind::Text {
                what: "name of a `[[link]]`, or `\"drop\"`",
                pattern: "^[a-z0-9][a-z0-9_-]{0,31}$",
            },
            absent: Needed,
            meaning: "What happens to frames that belong to no relation: the link on the same ports carries them, or they are dropped.",
            example: r#"rest = "cell""#,
        }
        master_key_file: String {
            kind: texts::FILE,
            absent: Needed,
            meaning: "The key from which all others are derived, from `frameward keygen fieldbus`. The same on both gateways of the cell.",
            example: r#"master_key_file = "cell-4.key""#,
        }
        fallback_master_key_file: String {
            kind: texts::FILE,
            absent: Means("none"),
            meaning: "A second master key, for relations whose other gateway does not have the first one: to exchange master keys without losing a frame.",
            example: r#"fallback_master_key_file = "old.key""#,
        }
        local: Vec<Spanned<String>> {
            kind: Kind::List { of: &texts::MAC, from: 1, to: 65_536 },
            absent: Needed,
            meaning: "The stations behind this gateway, on its plain side.",
            example: r#"local = ["02:00:00:00:01:01"]"#,
        }
        plain: String {
            kind: texts::INTERFACE,
            absent: NeededIf("with `rest = \"drop\"`, else the link's"),
            meaning: "The interface towards the machines.",
            example: r#"plain = "enp1s0""#,
        }
        protected: String {
            kind: texts::INTERFACE,
            absent: NeededIf("with `rest = \"drop\"`, else the link's"),
            meaning: "The interface towards the insecure network.",
            example: r#"protected = "enp2s0""#,
        }
        protect: String {
            kind: Kind::Choice(words::<Protect>),
            absent: Word("encrypt"),
            meaning: "Whether cyclic frames are encrypted and authenticated, or authenticated only. The same on both gateways.",
            example: r#"protect = "authenticate""#,
        }
        suite: String {
            kind: Kind::Choice(words::<CellSuite>),
            absent: Word("gcm-aes-128"),
            meaning: "The cipher suite. The same on both gateways.",
            example: r#"suite = "gcm-aes-256""#,
        }
        mode: String {
            kind: Kind::Choice(words::<Mode>),
            absent: Word("protect"),
            meaning: "`shadow` lets frames pass in clear and shows what protection would do, to bring a cell into service. A relation's own `mode` takes precedence.",
            example: r#"mode = "shadow""#,
        }
        watchdog: i64 {
            // PROFINET's data hold factors begin at 1, which leaves nothing for an alarm before it. 3 is its own default.
            kind: Kind::Number { from: 2, to: 255 },
            absent: Number(3),
            meaning: "After how many cycles without a frame the machines give up, as their engineering tool has it.",
            example: "watchdog = 6",
        }
        alarm: Value {
            kind: Kind::Either(&[
                Kind::Share,
                Kind::Text { what: "percentage such as `\"50%\"`", pattern: "^[0-9]+ *%$" },
            ]),
            absent: Means("half of the watchdog, and at least one and a half cycles"),
            meaning: "The part of the watchdog's time at which a gap between frames raises an alarm. More than one cycle.",
            example: "alarm = 0.8",
        }
        epoch_frames: i64 {
            // Few make a second only with long cycles.
            kind: Kind::Number { from: 2, to: Settings::EPOCH_FRAMES as i64 },
            absent: Number(Settings::EPOCH_FRAMES as i64),
            meaning: "After how many frames a direction of a relation changes its key. At least those of a second.",
            example: "epoch_frames = 86400000",
        }
        ethertype: Value {
            kind: Kind::Either(&[
                Kind::Number { from: 0x0600, to: 0xffff },
                Kind::Text { what: "`\"0x\"` and 4 hexadecimal digits", pattern: "^0x[0-9a-fA-F]{4}$" },
            ]),
            absent: Is("0x88b5"),
            meaning: "The EtherType of protected frames; one that no other protocol has.",
            example: "ethertype = 0x88b6",
        }
        vlan: Value {
            kind: Kind::Either(&[Kind::Word("none"), Kind::Table(&VLAN)]),
            absent: Is("{ priority = 6, vid = 0 }"),
            meaning: "The VLAN tag of the frames that are delivered to the machines. A relation's own `vlan` takes precedence.",
            example: r#"vlan = "none""#,
        }
        allow_addresses: bool {
            kind: Kind::Switch,
            absent: Switch(false),
            meaning: "As for a link. Only with `rest = \"drop\"`; else the link has it.",
            example: "allow_addresses = true",
        }
    }
    sections {
        #[serde(default)]
        relation: Vec<Spanned<RawRelation>>,
    }
}

section! {
    RELATION: RawRelation, RelationKeys {
        path: &["fieldbus", "relation"],
        many: true,
        needed: true,
        meaning: "Two stations that exchange cyclic frames: alike on both gateways. A cell has 1 to 1024 of them.",
    }
    keys {
        stations: Vec<Spanned<String>> {
            kind: Kind::List { of: &texts::MAC, from: 2, to: 2 },
            absent: Needed,
            meaning: "The two stations. One of them stands in `local`.",
            example: r#"stations = ["02:00:00:00:01:01", "02:00:00:00:02:01"]"#,
        }
        protocol: String {
            kind: Kind::Choice(words::<Protocol>),
            absent: Word("profinet"),
            meaning: "The fieldbus of its frames. The same on both gateways.",
            example: r#"protocol = "goose""#,
        }
        frame_ids: Vec<Spanned<i64>> {
            kind: Kind::List { of: &Kind::Number { from: 0, to: 0xffff }, from: 1, to: 2 },
            absent: NeededIf("except with `ethernet-ip` and `modbus-tcp`, which have none"),
            meaning: "The identification of the frames that each of the two stations sends, in the same order: the FrameID for PROFINET, the APPID for GOOSE and sampled values, else the two octets behind the EtherType. One number alone, if the first station sends and the second does not; not for PROFINET.",
            example: "frame_ids = [0x8001, 0x8002]",
        }
        destinations: Vec<Spanned<String>> {
            kind: Kind::List { of: &texts::MAC, from: 1, to: 2 },
            absent: Means("each station sends to the other one"),
            meaning: "The address that each of the two stations sends to, in the same order: a group, or the other station.",
            example: r#"destinations = ["01:0c:cd:01:00:01"]"#,
        }
        cycle: String {
            kind: Kind::Text {
                what: "time, `\"31.25us\"` to `\"512ms\"`",
                pattern: r"^[0-9]{1,9}(\.[0-9]{1,9})?(us|ms)$",
            },
            absent: Needed,
            meaning: "How often each station sends.",
            example: r#"cycle = "1ms""#,
        }
        mode: String {
            kind: Kind::Choice(words::<Mode>),
            absent: Means("that of the cell"),
            meaning: "Whether the frames of this relation are protected already: see `mode` of the cell.",
            example: r#"mode = "shadow""#,
        }
        vlan: Value {
            kind: Kind::Either(&[Kind::Word("none"), Kind::Table(&VLAN)]),
            absent: Means("that of the cell, if the cell names one; else priority 6 for PROFINET, 4 for GOOSE and sampled values, and no tag for the others"),
            meaning: "The VLAN tag of the frames of this relation that are delivered to the machines.",
            example: r#"vlan = { priority = 4, vid = 10 }"#,
        }
    }
    sections {}
}

/// Keys of the tag in `vlan`.
pub(crate) const VLAN: [Key; 2] = [
    Key {
        name: "priority",
        kind: Kind::Number { from: 0, to: 7 },
        absent: Number(VlanTag::PROFINET.priority() as i64),
        meaning: "The priority of the tag.",
        example: "priority = 5",
    },
    Key {
        name: "vid",
        kind: Kind::Number { from: 0, to: 4094 },
        absent: Number(VlanTag::PROFINET.vid() as i64),
        meaning: "The VLAN of the tag.",
        example: "vid = 7",
    },
];
