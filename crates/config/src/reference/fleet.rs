//! `[fleet]`.

use super::key::Absent::Needed;
use super::key::{Key, Kind, Section, texts};

section! {
    FLEET: RawFleet, FleetKeys {
        path: &["fleet"],
        many: false,
        needed: false,
        meaning: "The fleet that this gateway belongs to. It gets its links, sites and fieldbuses from there, so the file has `[gateway]` and this section alone. What it gets stands below `state`, in `fleet/NAME/current`. A change of this section needs a restart.",
    }
    keys {
        directory: String {
            kind: Kind::Text { what: "file, `etcd://HOST:PORT,...` or `etcds://HOST:PORT,...?ca=FILE`", pattern: "^.+$" },
            absent: Needed,
            meaning: "Where the fleet's directory is.",
            example: r#"directory = "etcd://10.0.0.1""#,
        }
        operator: String {
            kind: Kind::Text { what: "64 hexadecimal digits", pattern: "^[0-9a-fA-F]{64}$" },
            absent: Needed,
            meaning: "The operator's public key, as `frameward fleet operator` printed it. It names the fleet.",
            example: r#"operator = "3c5d51ff7ea06a4ec25dcb4fcd1cea2cbd2c3d7a20e4ba3b1e0ec6bd43a1f5d8""#,
        }
        identity: String {
            kind: texts::FILE,
            absent: Needed,
            meaning: "The file with this gateway's identity, as `frameward fleet identity` made it.",
            example: r#"identity = "press.key""#,
        }
    }
    sections {}
}
