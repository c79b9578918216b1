//! `[[link]]` and where its keys come from: `[link.mka]` or `[link.static]`.

use std::time::Duration;

use ::mka::OnPeerLoss;
use dataplane::fragmenter::LONGEST_HOLD;
use secy::FrameSizes;
use secy::ReplayWindow;
use secy::{ClearVlan, SciInclusion, ValidateFrames};
use suite::CipherSuite;
use toml::value::Datetime;
use toml::{Spanned, Value};

use super::key::Absent::{Is, Means, Needed, NeededIf, Number, Switch, Word};
use super::key::{Key, Kind, Section, texts, units};
use crate::LinkLoss;
use crate::keys::MOST_PEERS;
use crate::words::{AGREED, Division, ReplayFloor, words};
use secy::ExpressClasses;

/// Priorities, DSCPs, and what lists have room for.
const EXPRESS_CLASSES: usize = 8 + 64 + 3 * ExpressClasses::LIST;

section! {
    LINK: RawLink, LinkKeys {
        path: &["link"],
        many: true,
        needed: false,
        meaning: "A transparent link: two ports of this box, with MACsec on one of them. It needs either `[link.mka]` or `[link.static]`.",
    }
    keys {
        name: String {
            kind: texts::NAME,
            absent: Needed,
            meaning: "The link's name, in status, metrics and log. No two links, sites or fieldbuses share one.",
            example: r#"name = "press""#,
        }
        plain: String {
            kind: texts::INTERFACE,
            absent: Needed,
            meaning: "The interface towards the machine.",
            example: r#"plain = "enp1s0""#,
        }
        protected: String {
            kind: texts::INTERFACE,
            absent: Needed,
            meaning: "The interface towards the insecure network.",
            example: r#"protected = "enp2s0""#,
        }
        suite: String {
            kind: Kind::Choice(|| AGREED.iter().map(|(word, _)| *word).chain(CipherSuite::ALL.map(CipherSuite::name)).collect()),
            absent: NeededIf("with static keys; with MKA `\"auto\"`"),
            meaning: "The cipher suite. With MKA, `auto` lets the key server choose among the standard's suites, and `any` among all: ChaCha20-Poly1305 where the kernel has the frames of all members. The four GCM suites are the standard's; the others are understood by Frameward only.",
            example: r#"suite = "gcm-aes-256""#,
        }
        encrypt: bool {
            kind: Kind::Switch,
            absent: Switch(true),
            meaning: "Whether frames are encrypted. With `false` they are authenticated only, and everybody on the network can read them.",
            example: "encrypt = false",
        }
        confidentiality_offset: i64 {
            kind: Kind::Numbers(&[0, 30, 50]),
            absent: Number(0),
            meaning: "How many octets at the start of the payload stay readable, though authenticated. Not with XPN suites.",
            example: "suite = \"gcm-aes-128\"\nconfidentiality_offset = 30",
        }
        protect_frames: bool {
            kind: Kind::Switch,
            absent: Switch(true),
            meaning: "With `false` frames leave in clear, without any protection. Only to bring a link into service, and only with static keys.",
            example: "protect_frames = false",
        }
        validate_frames: String {
            kind: Kind::Choice(words::<ValidateFrames>),
            absent: Word("strict"),
            meaning: "What happens to received frames that cannot be verified. `strict` discards them. `check` and `disabled` let forged frames through to the machine.",
            example: r#"validate_frames = "check""#,
        }
        sci: String {
            kind: Kind::Choice(words::<SciInclusion>),
            absent: Word("always"),
            meaning: "Whether frames carry their SCI. `never` saves 8 octets between exactly two boxes. `end-station` saves them where the only machine's address is the SCI.",
            example: r#"sci = "never""#,
        }
        replay_protect: bool {
            kind: Kind::Switch,
            absent: Switch(true),
            meaning: "Whether late and duplicate frames are discarded. With `false` recorded frames can be sent again.",
            example: "replay_protect = false",
        }
        replay_window: i64 {
            kind: Kind::Number { from: 0, to: ReplayWindow::WIDEST as i64 },
            absent: Number(0),
            meaning: "By how many packet numbers a frame may be late. Needed where the network changes the order of frames.",
            example: "replay_window = 64",
        }
        mtu: Value {
            kind: texts::MTU,
            absent: Word("interface"),
            meaning: "The MTU of the protected side, in octets. `interface` takes that of the interface.",
            example: "mtu = 1500",
        }
        fragment: String {
            kind: Kind::Choice(words::<Division>),
            absent: Word("auto"),
            meaning: "Whether payloads that do not fit a frame are split. `auto`: with MKA, if all members announce it, and not while frames go through the kernel; with static keys never. With static keys both ends have to say the same.",
            example: r#"fragment = "on""#,
        }
        concatenate: String {
            kind: Kind::Choice(words::<Division>),
            absent: Word("auto"),
            meaning: "Whether several payloads may share a frame. `auto` is as for `fragment`.",
            example: r#"concatenate = "on""#,
        }
        hold: String {
            kind: Kind::Time {
                what: "time, `\"0us\"` to `\"10ms\"`, in `us` or `ms`",
                units: &[units::MICROSECONDS, units::MILLISECONDS],
                from: Duration::ZERO,
                to: LONGEST_HOLD,
                off: false,
            },
            absent: Word("0us"),
            meaning: "How long a payload may wait for others to share its frame. Cyclic process data never waits.",
            example: "concatenate = \"on\"\nhold = \"250us\"",
        }
        padding: Vec<Spanned<i64>> {
            kind: Kind::List {
                of: &Kind::Number { from: FrameSizes::LEAST_OCTETS as i64, to: FrameSizes::MOST_OCTETS as i64 },
                from: 1,
                to: FrameSizes::MOST,
            },
            absent: Means("frames are as long as what they hold"),
            meaning: "Sizes to which frames are padded, ascending: octets of a protected frame from its destination address on, as a capture shows it. Every frame gets the smallest size that holds it; payloads above the largest size are split. With MKA if all members announce that they take such frames; with static keys the other end needs `padding` or `fragment` too. Frames then pass through user space. `check` prints what it costs.",
            example: "padding = [256, 1514]",
        }
        express: bool {
            kind: Kind::Switch,
            absent: Switch(false),
            meaning: "Whether express frames (`express_classes`) go through the kernel under a channel and keys of their own, while all others are split in user space. With ChaCha20-Poly1305 only. With MKA if all members announce it; with static keys both ends have to say the same, and `fragment = \"on\"`.",
            example: "suite = \"chacha20-poly1305\"\nexpress = true",
        }
        express_classes: Vec<Spanned<String>> {
            kind: Kind::List {
                of: &Kind::Text {
                    what: "`\"default\"`, `\"profinet\"`, `\"ethercat\"`, `\"goose\"`, `\"sv\"`, `\"powerlink\"`, `\"sercos\"`, an EtherType such as `\"0x88cc\"`, `\"pcp:0\"` to `\"pcp:7\"`, `\"dscp:0\"` to `\"dscp:63\"`, `\"udp:\"` or `\"tcp:\"` and a port",
                    pattern: "^(default|profinet|ethercat|goose|sv|powerlink|sercos|0x[0-9a-fA-F]{4}|pcp:[0-7]|dscp:[0-9]{1,2}|(udp|tcp):[0-9]{1,5})$",
                },
                from: 0,
                to: EXPRESS_CLASSES,
            },
            absent: Is("[\"profinet\", \"ethercat\", \"goose\", \"sv\", \"powerlink\", \"sercos\", \"pcp:6\", \"pcp:7\"]"),
            meaning: "Which frames are express: they precede all others that wait, are split only if they fit no frame, and go through the kernel with `express = true`. `default` stands for the default list. A port counts as source and as destination. At most 16 EtherTypes, 16 UDP and 16 TCP ports.",
            example: "fragment = \"on\"\nexpress_classes = [\"default\", \"dscp:46\", \"udp:4840\"]",
        }
        clear_vlan: String {
            kind: Kind::Choice(words::<ClearVlan>),
            absent: Word("refuse"),
            meaning: "What happens to a received frame with a VLAN tag in front of its SecTAG, which is not authenticated. `strip` removes the tag and delivers the frame.",
            example: r#"clear_vlan = "strip""#,
        }
        bypass: Vec<Spanned<String>> {
            kind: Kind::List {
                of: &Kind::Text {
                    what: "`\"lldp\"`, `\"ptp\"`, `\"mrp\"` or an EtherType such as `\"0x88cc\"`",
                    pattern: "^(lldp|ptp|mrp|0x[0-9a-fA-F]{4})$",
                },
                from: 0,
                to: 65_536,
            },
            absent: Is("[]"),
            meaning: "EtherTypes that pass in clear, both ways. `check` says for each what a stranger on the network can do with it.",
            example: r#"bypass = ["lldp"]"#,
        }
        link_loss: String {
            kind: Kind::Choice(words::<LinkLoss>),
            absent: Word("forward"),
            meaning: "`forward`: a protected side without carrier takes the plain side down, so that the machine sees that its cable is cut. `both`: the other way round as well.",
            example: r#"link_loss = "both""#,
        }
        allow_addresses: bool {
            kind: Kind::Switch,
            absent: Switch(false),
            meaning: "Allow ports that carry an address or a default route of this box. The box cannot be reached over them while the gateway runs.",
            example: "allow_addresses = true",
        }
    }
    sections {
        #[serde(rename = "static")]
        static_keys: Option<Spanned<RawStatic>>,
        mka: Option<Spanned<RawMka>>,
        cover: Option<Spanned<RawCover>>,
    }
}

section! {
    COVER: RawCover, CoverKeys {
        path: &["link", "cover"],
        many: false,
        needed: false,
        meaning: "Frames leave at a constant rate and all have one size, whatever the machines send; addresses are hidden too. With MKA if all members announce that they take such frames; with static keys the other end needs `[link.cover]`, `padding` or `fragment` too. Frames then pass through user space. `check` prints what it costs.",
    }
    keys {
        rate: i64 {
            kind: Kind::Number { from: 10, to: 10_000 },
            absent: Needed,
            meaning: "Frames a second.",
            example: "rate = 500",
        }
        size: i64 {
            kind: Kind::Number { from: FrameSizes::LEAST_OCTETS as i64, to: FrameSizes::MOST_OCTETS as i64 },
            absent: Needed,
            meaning: "Octets of each frame from its destination address on, as a capture shows it.",
            example: "size = 1514",
        }
    }
    sections {}
}

section! {
    MKA: RawMka, MkaKeys {
        path: &["link", "mka"],
        many: false,
        needed: false,
        meaning: "Keys that the boxes of a link agree on (IEEE 802.1X MKA) under a CAK, a key from a file that all of them have.",
    }
    keys {
        cak_file: String {
            kind: texts::FILE,
            absent: Needed,
            meaning: "The CAK, from `frameward keygen cak`.",
            example: r#"cak_file = "line.cak""#,
        }
        fallback_cak_file: String {
            kind: texts::FILE,
            absent: Means("none"),
            meaning: "A second CAK with another name, for the time while the CAK is changed on all boxes.",
            example: r#"fallback_cak_file = "old.cak""#,
        }
        fallback_until: Datetime {
            kind: Kind::Moment,
            absent: Means("never"),
            meaning: "When the fallback CAK ends. A day counts whole, in UTC.",
            example: "fallback_cak_file = \"old.cak\"\nfallback_until = 2127-03-31",
        }
        peers: Vec<Spanned<String>> {
            kind: Kind::List { of: &texts::SCI, from: 1, to: MOST_PEERS },
            absent: Means("whoever was live under the first CAK"),
            meaning: "The SCIs of all other boxes of the link. Others are reported as strangers, and those that are not there as missing.",
            example: r#"peers = ["02:00:00:00:00:b3/1"]"#,
        }
        priority: i64 {
            kind: Kind::Number { from: 0, to: 255 },
            absent: Number(16),
            meaning: "Priority in the election of the key server: 0 is first, 254 is last, and 255 never becomes key server.",
            example: "priority = 32",
        }
        destination: String {
            kind: texts::MAC,
            absent: Word("01:80:c2:00:00:03"),
            meaning: "Where MKPDUs are sent; the same on all boxes. One of 01:80:c2:00:00:03, :00, :0e, :0b, :1f and ff:ff:ff:ff:ff:ff, or the address of the only peer.",
            example: r#"destination = "01:80:c2:00:00:1f""#,
        }
        on_peer_loss: String {
            kind: Kind::Choice(words::<OnPeerLoss>),
            absent: Word("block"),
            meaning: "What happens when all peers have been silent for six seconds. `block` gives the key up, and nothing passes. `hold` goes on with the last key.",
            example: r#"on_peer_loss = "hold""#,
        }
        rekey: String {
            kind: Kind::Time {
                what: "30 seconds or more, such as `\"10m\"`, `\"8h\"` or `\"7d\"`, or `\"off\"`",
                units: &[units::SECONDS, units::MINUTES, units::HOURS, units::DAYS],
                // Another SAK takes about ten seconds to be the only one.
                from: Duration::from_secs(30),
                to: Duration::MAX,
                off: true,
            },
            // A SAK that is taken out of a box opens the frames sent since it began, at most.
            absent: Word("8h"),
            meaning: "After what time the key server makes a new key.",
            example: r#"rekey = "1h""#,
        }
        delay_protect: bool {
            kind: Kind::Switch,
            absent: Switch(false),
            meaning: "Refuse frames that somebody held back for more than about two seconds. MKPDUs are then sent every half second.",
            example: "delay_protect = true",
        }
        sci: String {
            kind: texts::SCI,
            absent: Means("the protected interface's address, port 1"),
            meaning: "The own SCI. No two boxes of a link share one.",
            example: r#"sci = "02:00:00:00:00:0a/1""#,
        }
        accept_integrity: bool {
            kind: Kind::Switch,
            absent: Switch(false),
            meaning: "Take keys that hide less than `encrypt` asks for, if the key server distributes such keys.",
            example: "accept_integrity = true",
        }
        record: String {
            kind: texts::FILE,
            absent: Means("no record"),
            meaning: "A file that records all inputs of the key agreement, for `frameward inspect --replay`. It ends at 256 MiB.",
            example: r#"record = "/var/lib/frameward/press.kay""#,
        }
    }
    sections {}
}

section! {
    STATIC: RawStatic, StaticKeys {
        path: &["link", "static"],
        many: false,
        needed: false,
        meaning: "Static keys: this section is the key under which this box sends. A reload changes them between two frames.",
    }
    keys {
        an: i64 { ..AN }
        sci: String {
            kind: texts::SCI,
            absent: Needed,
            meaning: "The SCI under which this box sends: any MAC address and port, different at each end.",
            example: r#"sci = "02:00:00:00:00:0a/1""#,
        }
        key_file: String {
            kind: texts::FILE,
            absent: Needed,
            meaning: "The key, from `frameward keygen static`. Each direction has its own.",
            example: r#"key_file = "from-a.key""#,
        }
        ssci: Value { ..SSCI }
        salt: String { ..SALT }
    }
    sections {
        #[serde(default)]
        peer: Vec<Spanned<RawPeer>>,
    }
}

section! {
    STATIC_PEER: RawPeer, StaticPeerKeys {
        path: &["link", "static", "peer"],
        many: true,
        needed: false,
        meaning: "A key under which this box receives. A peer with two keys, while keys are changed, has two such sections with different `an`.",
    }
    keys {
        an: i64 { ..AN }
        sci: String {
            kind: texts::SCI,
            absent: Needed,
            meaning: "The SCI under which the peer sends.",
            example: r#"sci = "02:00:00:00:00:0b/1""#,
        }
        key_file: String {
            kind: texts::FILE,
            absent: Needed,
            meaning: "A copy of the peer's key.",
            example: r#"key_file = "from-b.key""#,
        }
        ssci: Value { ..SSCI }
        salt: String { ..SALT }
        replay_floor: String {
            kind: Kind::Choice(words::<ReplayFloor>),
            absent: Word("on"),
            meaning: "Whether frames recorded before a restart of this box stay refused after it. `off` is for peers that begin again at packet number 1, such as Linux's `ip macsec`.",
            example: r#"replay_floor = "off""#,
        }
    }
    sections {}
}

const AN: Key = Key {
    name: "an",
    kind: Kind::Number { from: 0, to: 3 },
    absent: Needed,
    meaning: "The association number, the same at both ends.",
    example: "an = 1",
};

const SSCI: Key = Key {
    name: "ssci",
    kind: Kind::Either(&[
        Kind::Number { from: 1, to: 4_294_967_295 },
        Kind::Text { what: "`\"0x\"` and 8 hexadecimal digits", pattern: "^0x[0-9a-fA-F]{8}$" },
    ]),
    absent: NeededIf("with XPN suites, refused with others"),
    meaning: "The short SCI, different for each SC under a key.",
    example: "ssci = 7",
};

const SALT: Key = Key {
    name: "salt",
    kind: Kind::Text { what: "24 hexadecimal digits", pattern: "^[0-9a-fA-F]{24}$" },
    absent: NeededIf("with XPN suites, refused with others"),
    meaning: "The salt of the key, the same at all ends; `frameward keygen static --salt` prints one.",
    example: r#"salt = "000102030405060708090a0b""#,
};
