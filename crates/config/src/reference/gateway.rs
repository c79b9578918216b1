//! `[gateway]`.

use super::Absent::{Is, Means, Needed};
use super::{Key, Kind, Section, texts};

pub(super) const GATEWAY: Section = Section {
    path: &["gateway"],
    many: false,
    needed: true,
    meaning: "Settings of the gateway as a whole. Each process of `frameward run` is one gateway. Of this section a reload changes `io`, `http`, `log` and `unguarded`; all else needs a restart.",
    keys: &[
        Key {
            name: "name",
            kind: texts::NAME,
            absent: Needed,
            meaning: "The gateway's name. `frameward status NAME` and `frameward reload NAME` find it by this.",
            example: r#"name = "press-a""#,
        },
        Key {
            name: "state",
            kind: Kind::Text { what: "absolute path of a directory", pattern: "^/" },
            absent: Is(r#""/var/lib/frameward""#),
            meaning: "Where the packet numbers of static keys are kept. Each gateway on a box needs its own directory.",
            example: r#"state = "/var/lib/frameward/press-a""#,
        },
        Key {
            name: "state_max_age",
            kind: Kind::Text {
                what: "hours or days such as `\"12h\"` or `\"7d\"`, or `\"off\"`",
                pattern: "^(off|[0-9]+[hd])$",
            },
            absent: Is(r#""off""#),
            meaning: "The oldest state that is accepted. Older state may come from a restored disk image, so the gateway refuses to start with it.",
            example: r#"state_max_age = "7d""#,
        },
        Key {
            name: "io",
            kind: Kind::Choice(&["auto", "kernel", "af_xdp", "af_packet"]),
            absent: Is(r#""auto""#),
            meaning: "How frames are received and sent. `auto` takes AF_XDP, and AF_PACKET where AF_XDP does not work; cells with `suite = \"chacha20-poly1305\"` go through the kernel where it takes them. `kernel` takes AF_XDP, and demands that for all cells. `af_xdp` and `af_packet` keep cells in user space.",
            example: r#"io = "af_packet""#,
        },
        Key {
            name: "polling",
            kind: Kind::Choice(&["adaptive", "busy", "interrupt"]),
            absent: Is(r#""adaptive""#),
            meaning: "How a worker waits for frames. `adaptive` spins for 100 µs after traffic, then sleeps. `busy` always spins and takes a whole CPU. `interrupt` sleeps at once.",
            example: r#"polling = "busy""#,
        },
        Key {
            name: "realtime",
            kind: texts::AUTO_ON_OFF,
            absent: Is(r#""auto""#),
            meaning: "Whether workers run before all ordinary threads. `auto`: where each worker has a CPU to itself. `on`: always, or the gateway does not start.",
            example: r#"realtime = "off""#,
        },
        Key {
            name: "cpus",
            kind: Kind::Text {
                what: "list of CPU numbers such as `\"2-3,6\"`",
                pattern: "^[0-9, -]*[0-9][0-9, -]*$",
            },
            absent: Means("the CPUs that the kernel keeps free, if there are any"),
            meaning: "CPUs that are kept for workers, one for each worker.",
            example: r#"cpus = "2-3""#,
        },
        Key {
            name: "antedate",
            kind: texts::AUTO_ON_OFF,
            absent: Is(r#""auto""#),
            meaning: "Whether keystreams of GCM suites are computed before their frames arrive. `auto`: where it saves time on this CPU, as measured at the start.",
            example: r#"antedate = "on""#,
        },
        Key {
            name: "http",
            kind: texts::ADDRESS,
            absent: Means("no HTTP"),
            meaning: "Address of the status page, of `/metrics` and of `/status`. There is no password: use a loopback address unless all that reach the address may read the status.",
            example: r#"http = "127.0.0.1:9464""#,
        },
        Key {
            name: "log",
            kind: Kind::Choice(&["text", "json"]),
            absent: Is(r#""text""#),
            meaning: "What the lines on standard error look like. `text`: words for people. `json`: an object a line with `time`, `level`, `event`, the names it is about, and `message`. Under systemd each line has its level in front, which the journal takes off.",
            example: r#"log = "json""#,
        },
        Key {
            name: "unguarded",
            kind: Kind::Switch,
            absent: Is("false"),
            meaning: "Run even where the kernel offers no way to keep the box's own network stack off the ports. Only for a box on which nothing else runs.",
            example: "unguarded = true",
        },
        Key {
            name: "allow_experimental",
            kind: Kind::Switch,
            absent: Is("false"),
            meaning: "Allow the suites that are for research: `morus-640-128` and `morus-1280-128`.",
            example: "allow_experimental = true",
        },
    ],
};
