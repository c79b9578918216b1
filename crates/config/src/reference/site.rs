//! `[[site]]`, `[[site.peer]]`, `[[site.peer.paths]]` and `[site.limits]`.

use std::time::Duration;

use dataplane::site::{Copies, SENDING_WORKERS};
use toml::{Spanned, Value};
use tunnel::standby::{DEFAULT_TAKEOVER, LONGEST_TAKEOVER};
use tunnel::{Limits, Mode, Settings};

use super::key::Absent::{Means, Needed, NeededIf, Number, Switch, Word};
use super::key::{Key, Kind, Section, texts, units};
use super::link::{LINK, MkaKeys, RawMka, RawStatic, StaticKeys, StaticPeerKeys};
use crate::words::{Classical, words};

section! {
    SITE: RawSite, SiteKeys {
        path: &["site"],
        many: true,
        needed: false,
        meaning: "A site gateway: it carries a LAN to other sites, over UDP. With `protect = true` it carries all frames of machines, otherwise the frames of stations that speak MACsec.",
    }
    keys {
        name: String {
            kind: texts::NAME,
            absent: Needed,
            meaning: "The site's name, in status, metrics and log.",
            example: r#"name = "dresden""#,
        }
        lan: String {
            kind: texts::INTERFACE,
            absent: Needed,
            meaning: "The interface towards the LAN. It needs no address.",
            example: r#"lan = "enp3s0""#,
        }
        bind: String {
            kind: texts::ADDRESS,
            absent: Needed,
            meaning: "The UDP port of the site, 1 to 65534. `[::]` receives IPv6 and IPv4. With header encryption the next port is used, too.",
            example: r#"bind = "0.0.0.0:7787""#,
        }
        identity: String {
            kind: texts::FILE,
            absent: NeededIf("unless all peers are `plain`"),
            meaning: "The site's private key, from `frameward keygen site`. It never leaves the box.",
            example: r#"identity = "dresden.key""#,
        }
        protect: bool {
            kind: Kind::Switch,
            absent: Switch(false),
            meaning: "Whether this box protects the LAN's frames with MACsec before they enter the tunnel, so that machines need no MACsec. It needs either `[site.mka]` or `[site.static]`, and the same at the other sites. Frames of stations that speak MACsec themselves pass beside it.",
            example: "mka.cak_file = \"plants.cak\"\nprotect = true",
        }
        suite: String {
            absent: NeededIf("with `[site.static]`; with `[site.mka]` `\"auto\"`"),
            meaning: "The cipher suite, with `protect = true`. The words are those of `suite` in `[[link]]`.",
            example: r#"suite = "gcm-aes-256""#,
            ..LINK.suite
        }
        padding: Vec<Spanned<i64>> {
            absent: Means("packets are as long as what they hold"),
            meaning: "Sizes to which the LAN's frames are padded before they enter the tunnel, with `protect = true`. The list is that of `padding` in `[[link]]`. A packet in identifier mode over IPv4 has 16 octets more than the frame.",
            example: "mka.cak_file = \"plants.cak\"\nprotect = true\npadding = [256, 1484]",
            ..LINK.padding
        }
        mtu: Value {
            kind: texts::MTU,
            absent: Word("interface"),
            meaning: "The MTU of the LAN, in octets. `interface` takes that of the interface.",
            example: "mtu = 1532",
        }
        dscp: Value {
            // Six bits (RFC 2474).
            kind: Kind::Either(&[
                Kind::Number { from: 0, to: 63 },
                Kind::Word("none"),
                Kind::Word("pcp"),
                Kind::Word("copy"),
            ]),
            absent: Word("none"),
            meaning: "The DSCP of packets with frames: one for all of them, eight times the priority of a frame's VLAN tag (`pcp`), or that of its IP header (`copy`, with `protect = true`). Everybody on the path reads it. Packets of the management channel have 0.",
            example: "dscp = 46",
        }
        rate: String {
            kind: Kind::Text { what: "bits a second, `\"64k\"` to `\"100G\"`", pattern: "^[0-9]+[kMG]$" },
            absent: Means("packets are sent as they come"),
            meaning: "What the site's uplink carries, less a few percent. Packets wait here instead of in a modem: express frames first, other flows in turns. It counts UDP, IP and 38 octets of Ethernet around each payload, all peers and paths together, but for paths with a `rate` of their own. Frames then pass through user space.",
            example: r#"rate = "50M""#,
        }
        express_classes: Vec<Spanned<String>> {
            absent: Means("the default of `[[link]]`, and frames of `cells`"),
            meaning: "Which frames are express: they go first where packets wait for a `rate`, and over all paths with `copies = \"express\"`. The list is that of `express_classes` in `[[link]]`. With `protect = true` it is about machines' frames. Without it a site sees what is in front of the SecTAG alone: `pcp:0` to `pcp:7`, `goose` and `sv` by their group addresses, and the EtherType of `cells`.",
            example: "rate = \"50M\"\nexpress_classes = [\"default\", \"pcp:5\"]",
            ..LINK.express_classes
        }
        vlans: Vec<Spanned<Value>> {
            kind: Kind::List {
                of: &Kind::Either(&[
                    // IEEE 802.1Q, table 9-2.
                    Kind::Number { from: 1, to: 4094 },
                    Kind::Word("untagged"),
                    Kind::Text { what: "a range such as `\"20-29\"`", pattern: "^[0-9]{1,4}-[0-9]{1,4}$" },
                ]),
                from: 1,
                to: 4095,
            },
            absent: Means("all cross"),
            meaning: "The VLANs of the LAN that cross, both ways. The outermost tag that names a VLAN counts; priority tags (VID 0) name none. `untagged` stands for frames of no VLAN. All others are dropped and counted. Without `protect`, flows go through the kernel only with `untagged`.",
            example: r#"vlans = [10, "20-29", "untagged"]"#,
        }
        cells: Value {
            kind: Kind::Either(&[
                Kind::Word("none"),
                Kind::Number { from: 0x0600, to: 0xffff },
                Kind::Text { what: "`\"0x\"` and 4 hexadecimal digits", pattern: "^0x[0-9a-fA-F]{4}$" },
            ]),
            absent: Word("none"),
            meaning: "The `ethertype` of cells whose protected frames cross to peers in identifier mode. The same at both ends.",
            example: "cells = 0x88b5",
        }
        relay: bool {
            kind: Kind::Switch,
            absent: Switch(false),
            meaning: "Whether this site relays between its peers in identifier mode, for those that have `via` with its name. It relays packets that it cannot open.",
            example: "relay = true",
        }
        workers: i64 {
            kind: Kind::Number { from: 1, to: SENDING_WORKERS as i64 },
            absent: Number(1),
            meaning: "How many workers send its frames, each on a CPU of its own: with 2, ten sixteenths of the flows to known stations go to the second one. Each flow stays with one as long as its station is known. For peers in identifier mode, without `rate`, `relay`, `paths`, `via` and `[site.standby]`; frames then pass through user space.",
            example: "workers = 2",
        }
        window: i64 {
            kind: Kind::Numbers(&[64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536]),
            absent: Number(Settings::WINDOW as i64),
            meaning: "By how many packets a packet may be late. The same at both ends.",
            example: "window = 1024",
        }
        allow_addresses: bool {
            kind: Kind::Switch,
            absent: Switch(false),
            meaning: "Allow a LAN interface that carries an address or a default route of this box. The box cannot be reached over it while the gateway runs.",
            example: "allow_addresses = true",
        }
    }
    sections {
        #[serde(rename = "static")]
        static_keys: Option<Spanned<RawStatic>>,
        mka: Option<Spanned<RawMka>>,
        standby: Option<Spanned<RawStandby>>,
        limits: Option<Spanned<RawLimits>>,
        #[serde(default)]
        peer: Vec<Spanned<RawSitePeer>>,
    }
}

/// The keys of `[link.mka]`.
pub(crate) const SITE_MKA: Section = Section {
    path: &["site", "mka"],
    meaning: "With `protect = true`: keys that the sites agree on (IEEE 802.1X MKA) under a CAK, which all of them have. MKPDUs go through the tunnel, and the LAN's interface stands for the protected one.",
    ..MkaKeys::SECTION
};

/// The keys of `[link.static]`.
pub(crate) const SITE_STATIC: Section = Section {
    path: &["site", "static"],
    meaning: "With `protect = true`: static keys. This section is the key under which this site sends.",
    ..StaticKeys::SECTION
};

/// The keys of `[[link.static.peer]]`.
pub(crate) const SITE_STATIC_PEER: Section = Section {
    path: &["site", "static", "peer"],
    meaning: "A key under which this site receives: one for each other site, and a second one while keys are changed.",
    ..StaticPeerKeys::SECTION
};

section! {
    STANDBY: RawStandby, StandbyKeys {
        path: &["site", "standby"],
        many: false,
        needed: false,
        meaning: "With `protect = true`: another box is on the same LAN, and one of the two forwards. Each has the other as a peer, and an identity and keys of its own. The other sites have both as peers, the second with `standby_of`.",
    }
    keys {
        peer: String {
            kind: texts::NAME,
            absent: Needed,
            meaning: "The peer of this site that is the other box. No frames go to it through the tunnel, only MKPDUs.",
            example: r#"peer = "dresden-2""#,
        }
        preferred: bool {
            kind: Kind::Switch,
            absent: Switch(false),
            meaning: "Whether this box comes first if both start. It takes nothing from a box that forwards. If both or neither are preferred, the one with the lower public key comes first.",
            example: "peer = \"dresden-2\"\npreferred = true",
        }
        takeover: i64 {
            // Below, a scheduler's delay is taken for a death; above, nobody needs this.
            kind: Kind::Number { from: 20, to: LONGEST_TAKEOVER.as_millis() as i64 },
            absent: Number(DEFAULT_TAKEOVER.as_millis() as i64),
            meaning: "Silence of the other box after which this one takes over, in milliseconds. The same at both; of two the larger one counts. Beats go eight times as often, and a box that stood still for five eighths of it does not go on forwarding.",
            example: "peer = \"dresden-2\"\ntakeover = 100",
        }
        sci: String {
            kind: texts::SCI,
            absent: NeededIf("with `[site.static]`, refused without"),
            meaning: "The other box's SCI, which a `[[site.static.peer]]` has. Of the two boxes the one with the lower public key has the lower SCI (XPN: SSCI too). So no section that was copied from the other box is accepted: two boxes with one key and one SCI would repeat nonces.",
            example: "peer = \"dresden-2\"\nsci = \"02:00:00:00:00:0b/1\"",
        }
    }
    sections {}
}

section! {
    SITE_PEER: RawSitePeer, SitePeerKeys {
        path: &["site", "peer"],
        many: true,
        needed: true,
        meaning: "Another site. A site has 1 to 255 of them.",
    }
    keys {
        name: String {
            kind: texts::NAME,
            absent: Needed,
            meaning: "The peer's name, in status, metrics and log.",
            example: r#"name = "berlin""#,
        }
        public_key: String {
            kind: Kind::Text { what: "64 hexadecimal digits", pattern: "^[0-9a-fA-F]{64}$" },
            absent: NeededIf("unless `mode` is `\"plain\"`, where it is refused"),
            meaning: "The peer's public key, which `frameward keygen site` printed there.",
            example: r#"public_key = "4a3807d064d077181cc070989e76891d20dc5559548dc2c77c1a50273882b38d""#,
        }
        endpoint: String {
            kind: Kind::Text { what: "IP address or host name, and port", pattern: r"^\S+:[0-9]+$" },
            absent: NeededIf("unless `mode` is `\"identifier\"`: then the peer connects"),
            meaning: "Where the peer is.",
            example: r#"endpoint = "berlin.example.net:7787""#,
        }
        via: String {
            kind: texts::NAME,
            absent: Means("the peer is reached directly"),
            meaning: "The peer of this site that relays to this one, unless a direct way is found. Here and at the peer, each for the other, and `relay = true` at the one that relays. `identifier` mode alone, and without `endpoint`.",
            example: "via = \"hub\"",
        }
        mode: String {
            kind: Kind::Choice(words::<Mode>),
            absent: Word("identifier"),
            meaning: "How headers are hidden, the same at both ends. `identifier` replaces them by an identifier, `header-encryption` encrypts them in place, and `plain` is VXLAN without protection.",
            example: "endpoint = \"198.51.100.7:7787\"\nmode = \"header-encryption\"",
        }
        standby_of: String {
            kind: texts::NAME,
            absent: Means("the peer is alone on its LAN"),
            meaning: "The peer that is on the same LAN: both have `[site.standby]`. Frames go to the one of them that forwards. With `protect = true` alone.",
            example: "standby_of = \"dresden\"",
        }
        vni: i64 {
            // 24 bits (RFC 7348, 5).
            kind: Kind::Number { from: 0, to: 0xff_ffff },
            absent: NeededIf("with `mode = \"plain\"`, refused with others"),
            meaning: "The VXLAN network identifier.",
            example: "vni = 42",
        }
        path_mtu: i64 {
            // IPv6 asks for 1280 octets, and QUIC for 1200 of UDP payload; what is larger than a jumbo frame is a mistake.
            kind: Kind::Number { from: 1280, to: 9216 },
            absent: Number(1500),
            meaning: "The largest IP packet that the path may carry, in octets. Up to there the path is probed.",
            example: "path_mtu = 9000",
        }
        classical: String {
            kind: Kind::Choice(words::<Classical>),
            absent: Word("refuse"),
            meaning: "Whether keys may be agreed on by X25519 alone with a peer that does not know X25519MLKEM768. Then a quantum computer may open later what is recorded now. Not with `mode = \"plain\"`.",
            example: r#"classical = "allow""#,
        }
        copies: String {
            kind: Kind::Choice(words::<Copies>),
            absent: Word("all"),
            meaning: "Which frames go over all of `paths` at once; the first copy counts. `express`: those of the site's `express_classes`, by default cells' cyclic frames, GOOSE and sampled values (by their destination), and what has a VLAN tag of priority 6 or 7 in front of the SecTAG; with `protect = true` also those of machines by their EtherType (PROFINET and others). The others go over the better path.",
            example: r#"copies = "express""#,
        }
    }
    sections {
        #[serde(default)]
        paths: Vec<Spanned<RawSitePath>>,
    }
}

section! {
    SITE_PATH: RawSitePath, SitePathKeys {
        path: &["site", "peer", "paths"],
        many: true,
        needed: false,
        meaning: "In place of `endpoint`, with `mode = \"identifier\"`: 1 to 4 paths to the peer, over several providers or IP versions. They are numbered in their order, and the peer has to list them in the same one. As a list: `paths = [{ ... }, { ... }]`.",
    }
    keys {
        endpoint: String {
            kind: Kind::Text { what: "IP address or host name, and port", pattern: r"^\S+:[0-9]+$" },
            absent: Means("the peer is heard on this path"),
            meaning: "Where the peer is on this path.",
            example: r#"endpoint = "198.51.100.7:7787""#,
        }
        local: String {
            kind: Kind::Text { what: "an IP address", pattern: r"^[0-9a-fA-F.:]+$" },
            absent: Means("as this box's routes say"),
            meaning: "Address of this box from which packets leave. `0.0.0.0` or `::` only choose the IP version of a host name.",
            example: r#"local = "192.0.2.7""#,
        }
        interface: String {
            kind: texts::INTERFACE,
            absent: Means("as this box's routes say"),
            meaning: "Interface by which packets leave, by its routes.",
            example: r#"interface = "wan2""#,
        }
        rate: String {
            absent: Means("that of the site, if it has one"),
            meaning: "What the uplink of this path carries, less a few percent: that of its `interface`, or without one that of its `local`. One of them is needed. All paths of the site with the same one share the rate, and each says it. A site has at most 8 such uplinks.",
            example: "interface = \"wan2\"\nrate = \"18M\"",
            ..SITE.rate
        }
    }
    sections {}
}

section! {
    LIMITS: RawLimits, LimitsKeys {
        path: &["site", "limits"],
        many: false,
        needed: false,
        meaning: "Bounds on memory and work, whatever a LAN sends. Each has a counter of refused frames, flows or stations.",
    }
    keys {
        flows: i64 {
            // A flow has a number of 16 bits, which is not given again within an epoch.
            kind: Kind::Number { from: 16, to: 32_768 },
            absent: Number(Limits::DEFAULT.flows as i64),
            meaning: "Flows to a peer.",
            example: "flows = 8192",
        }
        flows_per_sci: i64 {
            kind: Kind::Number { from: 1, to: 32_768 },
            absent: Number(Limits::DEFAULT.flows_per_sci as i64),
            meaning: "Flows to a peer with one SCI. With `protect = true` all machines share one, and the default is that of `flows`.",
            example: "flows_per_sci = 64",
        }
        flows_per_source: i64 {
            kind: Kind::Number { from: 1, to: 32_768 },
            absent: Number(Limits::DEFAULT.flows_per_source as i64),
            meaning: "Flows to a peer with one source address.",
            example: "flows_per_source = 64",
        }
        new_flows_per_second: i64 {
            kind: Kind::Number { from: 1, to: 1_000_000 },
            absent: Number(Limits::DEFAULT.new_flows_per_second as i64),
            meaning: "New flows to a peer in a second.",
            example: "new_flows_per_second = 100",
        }
        flow_age: String {
            kind: AGE,
            absent: Word("300s"),
            meaning: "How long a flow without frames is remembered: at most 30 s if it goes to a station that was not heard at that peer.",
            example: r#"flow_age = "10m""#,
        }
        stations: i64 {
            kind: Kind::Number { from: 16, to: 1_048_576 },
            absent: Number(Limits::DEFAULT.stations as i64),
            meaning: "Stations of all sites that are remembered.",
            example: "stations = 1024",
        }
        station_age: String {
            kind: AGE,
            absent: Word("300s"),
            meaning: "How long a silent station is remembered.",
            example: r#"station_age = "1h""#,
        }
        relayed_per_second: i64 {
            kind: Kind::Number { from: 1, to: 10_000_000 },
            absent: Number(Limits::DEFAULT.relayed_per_second as i64),
            meaning: "Packets of one peer that are relayed to other sites in a second, and packets that are relayed to it, with `relay = true`.",
            example: "relayed_per_second = 20000",
        }
    }
    sections {}
}

/// A station that sends once a minute must not be forgotten in between by mistake, and nothing is remembered for ever. Programs in the kernel tell
/// within 20 seconds which flows and stations are in use.
const AGE: Kind = Kind::Time {
    what: "30 seconds to a day, such as `\"300s\"`, `\"5m\"` or `\"1h\"`",
    units: &[units::SECONDS, units::MINUTES, units::HOURS],
    from: Duration::from_secs(30),
    to: units::DAYS.1,
    off: false,
};
