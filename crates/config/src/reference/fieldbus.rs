//! `[[fieldbus]]` and `[[fieldbus.relation]]`.

use super::Absent::{Is, Means, Needed, NeededIf};
use super::{Key, Kind, Section, texts};

pub(super) const FIELDBUS: Section = Section {
    path: &["fieldbus"],
    many: true,
    needed: false,
    meaning: "A cell: cyclic PROFINET frames with keys of their own for each communication relation.",
    keys: &[
        Key {
            name: "name",
            kind: texts::NAME,
            absent: Needed,
            meaning: "The cell's name, in status, metrics and log.",
            example: r#"name = "cell-4""#,
        },
        Key {
            name: "rest",
            kind: Kind::Text {
                what: "name of a `[[link]]`, or `\"drop\"`",
                pattern: "^[a-z0-9][a-z0-9_-]{0,31}$",
            },
            absent: Needed,
            meaning: "What happens to frames that belong to no relation: the link on the same ports carries them, or they are dropped.",
            example: r#"rest = "cell""#,
        },
        Key {
            name: "master_key_file",
            kind: texts::FILE,
            absent: Needed,
            meaning: "The key from which all others are derived, from `frameward keygen fieldbus`. The same on both gateways of the cell.",
            example: r#"master_key_file = "cell-4.key""#,
        },
        Key {
            name: "local",
            kind: Kind::List { of: &texts::MAC, from: 1, to: 65_536 },
            absent: Needed,
            meaning: "The stations behind this gateway, on its plain side.",
            example: r#"local = ["02:00:00:00:01:01"]"#,
        },
        Key {
            name: "plain",
            kind: texts::INTERFACE,
            absent: NeededIf("with `rest = \"drop\"`, else the link's"),
            meaning: "The interface towards the machines.",
            example: r#"plain = "enp1s0""#,
        },
        Key {
            name: "protected",
            kind: texts::INTERFACE,
            absent: NeededIf("with `rest = \"drop\"`, else the link's"),
            meaning: "The interface towards the insecure network.",
            example: r#"protected = "enp2s0""#,
        },
        Key {
            name: "protect",
            kind: Kind::Choice(&["encrypt", "authenticate"]),
            absent: Is(r#""encrypt""#),
            meaning: "Whether cyclic frames are encrypted and authenticated, or authenticated only. The same on both gateways.",
            example: r#"protect = "authenticate""#,
        },
        Key {
            name: "suite",
            kind: Kind::Choice(&["gcm-aes-128", "gcm-aes-256", "chacha20-poly1305"]),
            absent: Is(r#""gcm-aes-128""#),
            meaning: "The cipher suite. The same on both gateways.",
            example: r#"suite = "gcm-aes-256""#,
        },
        Key {
            name: "mode",
            kind: Kind::Choice(&["protect", "shadow"]),
            absent: Is(r#""protect""#),
            meaning: "`shadow` lets frames pass in clear and shows what protection would do, to bring a cell into service. A relation's own `mode` takes precedence.",
            example: r#"mode = "shadow""#,
        },
        Key {
            name: "watchdog",
            kind: Kind::Number { from: 2, to: 255 },
            absent: Is("3"),
            meaning: "After how many cycles without a frame the machines give up, as their engineering tool has it.",
            example: "watchdog = 6",
        },
        Key {
            name: "alarm",
            kind: Kind::Either(&[
                Kind::Share,
                Kind::Text { what: "percentage such as `\"50%\"`", pattern: "^[0-9]+ *%$" },
            ]),
            absent: Means("half of the watchdog, and at least one and a half cycles"),
            meaning: "The part of the watchdog's time at which a gap between frames raises an alarm. More than one cycle.",
            example: "alarm = 0.8",
        },
        Key {
            name: "epoch_frames",
            kind: Kind::Number { from: 2, to: 4_227_858_431 },
            absent: Is("4227858431"),
            meaning: "After how many frames a direction of a relation changes its key. At least those of a second.",
            example: "epoch_frames = 86400000",
        },
        Key {
            name: "ethertype",
            kind: Kind::Either(&[
                Kind::Number { from: 0x0600, to: 0xffff },
                Kind::Text { what: "`\"0x\"` and 4 hexadecimal digits", pattern: "^0x[0-9a-fA-F]{4}$" },
            ]),
            absent: Is("0x88b5"),
            meaning: "The EtherType of protected frames; one that no other protocol has.",
            example: "ethertype = 0x88b6",
        },
        Key {
            name: "vlan",
            kind: Kind::Either(&[
                Kind::Choice(&["none"]),
                Kind::Table(&[
                    Key {
                        name: "priority",
                        kind: Kind::Number { from: 0, to: 7 },
                        absent: Is("6"),
                        meaning: "The priority of the tag.",
                        example: "priority = 5",
                    },
                    Key {
                        name: "vid",
                        kind: Kind::Number { from: 0, to: 4094 },
                        absent: Is("0"),
                        meaning: "The VLAN of the tag.",
                        example: "vid = 7",
                    },
                ]),
            ]),
            absent: Is("{ priority = 6, vid = 0 }"),
            meaning: "The VLAN tag of the frames that are delivered to the machines.",
            example: r#"vlan = "none""#,
        },
        Key {
            name: "allow_addresses",
            kind: Kind::Switch,
            absent: Is("false"),
            meaning: "As for a link. Only with `rest = \"drop\"`; else the link has it.",
            example: "allow_addresses = true",
        },
    ],
};

pub(super) const RELATION: Section = Section {
    path: &["fieldbus", "relation"],
    many: true,
    needed: true,
    meaning: "Two stations that exchange cyclic frames: alike on both gateways. A cell has 1 to 1024 of them.",
    keys: &[
        Key {
            name: "stations",
            kind: Kind::List { of: &texts::MAC, from: 2, to: 2 },
            absent: Needed,
            meaning: "The two stations. One of them stands in `local`.",
            example: r#"stations = ["02:00:00:00:01:01", "02:00:00:00:02:01"]"#,
        },
        Key {
            name: "frame_ids",
            kind: Kind::List { of: &Kind::Number { from: 0, to: 0xffff }, from: 2, to: 2 },
            absent: Needed,
            meaning: "The FrameID that each of the two stations sends, in the same order.",
            example: "frame_ids = [0x8001, 0x8002]",
        },
        Key {
            name: "cycle",
            kind: Kind::Text {
                what: "time, `\"31.25us\"` to `\"512ms\"`",
                pattern: r"^[0-9]{1,9}(\.[0-9]{1,9})?(us|ms)$",
            },
            absent: Needed,
            meaning: "How often each station sends.",
            example: r#"cycle = "1ms""#,
        },
        Key {
            name: "mode",
            kind: Kind::Choice(&["protect", "shadow"]),
            absent: Means("that of the cell"),
            meaning: "Whether the frames of this relation are protected already: see `mode` of the cell.",
            example: r#"mode = "shadow""#,
        },
    ],
};
