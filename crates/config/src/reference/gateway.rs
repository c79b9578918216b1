//! `[gateway]`.

use std::time::Duration;

use super::key::Absent::{Means, Needed, Switch, Word};
use super::key::{Key, Kind, Section, texts, units};
use crate::words::words;
use crate::{Antedate, DEFAULT_STATE, Io, LogFormat, Polling, Realtime};

section! {
    GATEWAY: RawGateway, GatewayKeys {
        path: &["gateway"],
        many: false,
        needed: true,
        meaning: "Settings of the gateway as a whole. Each process of `frameward run` is one gateway. Of this section a reload changes `announce_name`, `io`, `http`, `log` and `unguarded`; all else needs a restart.",
    }
    keys {
        name: String {
            kind: texts::NAME,
            absent: Needed,
            meaning: "The gateway's name. `frameward status NAME` and `frameward reload NAME` find it by this.",
            example: r#"name = "press-a""#,
        }
        announce_name: String {
            kind: Kind::Text {
                what: "name of 1 to 63 characters of printable ASCII without quotation mark, apostrophe and backslash, no space at an end, or `\"off\"`",
                pattern: r"^[!#-&(-\[\]-~]([ !#-&(-\[\]-~]{0,61}[!#-&(-\[\]-~])?$",
            },
            absent: Means("the host name of the box up to its first dot"),
            meaning: "What the gateway calls itself in its MKPDUs. The other members show it beside its SCI. MKPDUs are authenticated but not encrypted: everybody on the network can read the name. `off` announces none.",
            example: r#"announce_name = "press-b""#,
        }
        state: String {
            kind: Kind::Text { what: "absolute path of a directory", pattern: "^/" },
            absent: Word(DEFAULT_STATE),
            meaning: "Where the packet numbers of static keys are kept. Each gateway on a box needs its own directory.",
            example: r#"state = "/var/lib/frameward/press-a""#,
        }
        state_max_age: String {
            kind: Kind::Time {
                what: "hours or days such as `\"12h\"` or `\"7d\"`, or `\"off\"`",
                units: &[units::HOURS, units::DAYS],
                from: units::HOURS.1,
                to: Duration::MAX,
                off: true,
            },
            absent: Word("off"),
            meaning: "The oldest state that is accepted. Older state may come from a restored disk image, so the gateway refuses to start with it.",
            example: r#"state_max_age = "7d""#,
        }
        io: String {
            kind: Kind::Choice(words::<Io>),
            absent: Word("auto"),
            meaning: "How frames are received and sent. `auto` takes AF_XDP, and AF_PACKET where AF_XDP does not work; links and cells with `suite = \"chacha20-poly1305\"`, and known flows of sites, go through the kernel where it takes them. `kernel` takes AF_XDP, and demands that. `af_xdp` and `af_packet` keep all of them in user space.",
            example: r#"io = "af_packet""#,
        }
        polling: String {
            kind: Kind::Choice(words::<Polling>),
            absent: Word("adaptive"),
            meaning: "How a worker waits for frames. `adaptive` spins for 100 µs after traffic, then sleeps. `busy` always spins and takes a whole CPU. `interrupt` sleeps at once.",
            example: r#"polling = "busy""#,
        }
        realtime: String {
            kind: Kind::Choice(words::<Realtime>),
            absent: Word("auto"),
            meaning: "Whether workers run before all ordinary threads. `auto`: where each worker has a CPU to itself. `on`: always, or the gateway does not start.",
            example: r#"realtime = "off""#,
        }
        cpus: String {
            kind: Kind::Text {
                what: "list of CPU numbers such as `\"2-3,6\"`",
                pattern: "^[0-9, -]*[0-9][0-9, -]*$",
            },
            absent: Means("the CPUs that the kernel keeps free, if there are any"),
            meaning: "CPUs that are kept for workers, one for each worker.",
            example: r#"cpus = "2-3""#,
        }
        antedate: String {
            kind: Kind::Choice(words::<Antedate>),
            absent: Word("auto"),
            meaning: "Whether keystreams of GCM suites are computed before their frames arrive. `auto`: where it saves time on this CPU, as measured at the start.",
            example: r#"antedate = "on""#,
        }
        http: String {
            kind: texts::ADDRESS,
            absent: Means("no HTTP"),
            meaning: "Address of the status page, of `/metrics` and of `/status`. There is no password: use a loopback address unless all that reach the address may read the status.",
            example: r#"http = "127.0.0.1:9464""#,
        }
        log: String {
            kind: Kind::Choice(words::<LogFormat>),
            absent: Word("text"),
            meaning: "What the lines on standard error look like. `text`: words for people. `json`: an object a line with `time`, `level`, `event`, the names it is about, and `message`. Under systemd each line has its level in front, which the journal takes off.",
            example: r#"log = "json""#,
        }
        unguarded: bool {
            kind: Kind::Switch,
            absent: Switch(false),
            meaning: "Run even where the kernel offers no way to keep the box's own network stack off the ports. Only for a box on which nothing else runs.",
            example: "unguarded = true",
        }
        allow_experimental: bool {
            kind: Kind::Switch,
            absent: Switch(false),
            meaning: "Allow the suites that are for research: `morus-640-128` and `morus-1280-128`.",
            example: "allow_experimental = true",
        }
    }
    sections {}
}
