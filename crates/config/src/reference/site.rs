//! `[[site]]`, `[[site.peer]]` and `[site.limits]`.

use super::Absent::{Is, Needed, NeededIf};
use super::{Key, Kind, Section, texts};

pub(super) const SITE: Section = Section {
    path: &["site"],
    many: true,
    needed: false,
    meaning: "A site gateway: it carries the MACsec frames of a LAN to other sites, over UDP.",
    keys: &[
        Key {
            name: "name",
            kind: texts::NAME,
            absent: Needed,
            meaning: "The site's name, in status, metrics and log.",
            example: r#"name = "dresden""#,
        },
        Key {
            name: "lan",
            kind: texts::INTERFACE,
            absent: Needed,
            meaning: "The interface towards the LAN. It needs no address.",
            example: r#"lan = "enp3s0""#,
        },
        Key {
            name: "bind",
            kind: texts::ADDRESS,
            absent: Needed,
            meaning: "The UDP port of the site, 1 to 65534. `[::]` receives IPv6 and IPv4. With header encryption the next port is used, too.",
            example: r#"bind = "0.0.0.0:7787""#,
        },
        Key {
            name: "identity",
            kind: texts::FILE,
            absent: NeededIf("unless all peers are `plain`"),
            meaning: "The site's private key, from `frameward keygen site`. It never leaves the box.",
            example: r#"identity = "dresden.key""#,
        },
        Key {
            name: "mtu",
            kind: texts::MTU,
            absent: Is(r#""interface""#),
            meaning: "The MTU of the LAN, in octets. `interface` takes that of the interface.",
            example: "mtu = 1532",
        },
        Key {
            name: "dscp",
            kind: Kind::Either(&[Kind::Number { from: 0, to: 63 }, Kind::Choice(&["none"])]),
            absent: Is(r#""none""#),
            meaning: "The DSCP of all packets that the site sends.",
            example: "dscp = 46",
        },
        Key {
            name: "window",
            kind: Kind::Either(&[
                Kind::Number { from: 64, to: 64 },
                Kind::Number { from: 128, to: 128 },
                Kind::Number { from: 256, to: 256 },
                Kind::Number { from: 512, to: 512 },
                Kind::Number { from: 1024, to: 1024 },
                Kind::Number { from: 2048, to: 2048 },
                Kind::Number { from: 4096, to: 4096 },
                Kind::Number { from: 8192, to: 8192 },
                Kind::Number { from: 16_384, to: 16_384 },
                Kind::Number { from: 32_768, to: 32_768 },
                Kind::Number { from: 65_536, to: 65_536 },
            ]),
            absent: Is("4096"),
            meaning: "By how many packets a packet may be late. The same at both ends.",
            example: "window = 1024",
        },
        Key {
            name: "allow_addresses",
            kind: Kind::Switch,
            absent: Is("false"),
            meaning: "Allow a LAN interface that carries an address or a default route of this box. The box cannot be reached over it while the gateway runs.",
            example: "allow_addresses = true",
        },
    ],
};

pub(super) const PEER: Section = Section {
    path: &["site", "peer"],
    many: true,
    needed: true,
    meaning: "Another site. A site has 1 to 255 of them.",
    keys: &[
        Key {
            name: "name",
            kind: texts::NAME,
            absent: Needed,
            meaning: "The peer's name, in status, metrics and log.",
            example: r#"name = "berlin""#,
        },
        Key {
            name: "public_key",
            kind: Kind::Text { what: "64 hexadecimal digits", pattern: "^[0-9a-fA-F]{64}$" },
            absent: NeededIf("unless `mode` is `\"plain\"`, where it is refused"),
            meaning: "The peer's public key, which `frameward keygen site` printed there.",
            example: r#"public_key = "4a3807d064d077181cc070989e76891d20dc5559548dc2c77c1a50273882b38d""#,
        },
        Key {
            name: "endpoint",
            kind: Kind::Text { what: "IP address or host name, and port", pattern: r"^\S+:[0-9]+$" },
            absent: NeededIf("unless `mode` is `\"identifier\"`: then the peer connects"),
            meaning: "Where the peer is.",
            example: r#"endpoint = "berlin.example.net:7787""#,
        },
        Key {
            name: "mode",
            kind: Kind::Choice(&["identifier", "header-encryption", "plain"]),
            absent: Is(r#""identifier""#),
            meaning: "How headers are hidden, the same at both ends. `identifier` replaces them by an identifier, `header-encryption` encrypts them in place, and `plain` is VXLAN without protection.",
            example: "endpoint = \"198.51.100.7:7787\"\nmode = \"header-encryption\"",
        },
        Key {
            name: "vni",
            kind: Kind::Number { from: 0, to: 16_777_215 },
            absent: NeededIf("with `mode = \"plain\"`, refused with others"),
            meaning: "The VXLAN network identifier.",
            example: "vni = 42",
        },
        Key {
            name: "path_mtu",
            kind: Kind::Number { from: 1280, to: 9216 },
            absent: Is("1500"),
            meaning: "The largest IP packet that the path may carry, in octets. Up to there the path is probed.",
            example: "path_mtu = 9000",
        },
        Key {
            name: "classical",
            kind: Kind::Choice(&["refuse", "allow"]),
            absent: Is(r#""refuse""#),
            meaning: "Whether keys may be agreed on by X25519 alone with a peer that does not know X25519MLKEM768. Then a quantum computer may open later what is recorded now. Not with `mode = \"plain\"`.",
            example: r#"classical = "allow""#,
        },
    ],
};

pub(super) const LIMITS: Section = Section {
    path: &["site", "limits"],
    many: false,
    needed: false,
    meaning: "Bounds on memory and work, whatever a LAN sends. Each has a counter of refused frames, flows or stations.",
    keys: &[
        Key {
            name: "flows",
            kind: Kind::Number { from: 16, to: 32_768 },
            absent: Is("4096"),
            meaning: "Flows to a peer.",
            example: "flows = 8192",
        },
        Key {
            name: "flows_per_sci",
            kind: Kind::Number { from: 1, to: 32_768 },
            absent: Is("256"),
            meaning: "Flows to a peer with one SCI.",
            example: "flows_per_sci = 64",
        },
        Key {
            name: "flows_per_source",
            kind: Kind::Number { from: 1, to: 32_768 },
            absent: Is("256"),
            meaning: "Flows to a peer with one source address.",
            example: "flows_per_source = 64",
        },
        Key {
            name: "new_flows_per_second",
            kind: Kind::Number { from: 1, to: 1_000_000 },
            absent: Is("1000"),
            meaning: "New flows to a peer in a second.",
            example: "new_flows_per_second = 100",
        },
        Key {
            name: "flow_age",
            kind: AGE,
            absent: Is(r#""300s""#),
            meaning: "How long a flow without frames is remembered.",
            example: r#"flow_age = "10m""#,
        },
        Key {
            name: "stations",
            kind: Kind::Number { from: 16, to: 1_048_576 },
            absent: Is("8192"),
            meaning: "Stations of all sites that are remembered.",
            example: "stations = 1024",
        },
        Key {
            name: "station_age",
            kind: AGE,
            absent: Is(r#""300s""#),
            meaning: "How long a silent station is remembered.",
            example: r#"station_age = "1h""#,
        },
    ],
};

const AGE: Kind = Kind::Text {
    what: "10 seconds to a day, such as `\"300s\"`, `\"5m\"` or `\"1h\"`",
    pattern: "^[0-9]+[smh]$",
};
