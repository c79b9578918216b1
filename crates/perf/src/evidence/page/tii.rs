//! Section: Lackorzynski et al., *Enabling and Optimizing MACsec for Industrial Environments*, IEEE TII 17(11), 2021.

use suite::CipherSuite;

use super::bars::{Bar, Bars, Group, Scale};
use super::figure::{Body, Figure, Kind, Table, number};
use super::lines::{Across, Lines, Series};
use super::query::{Query, command, group};
use crate::evidence::document::Document;

pub(super) const PAPER: &str =
    "Lackorzynski et al., Enabling and Optimizing MACsec for Industrial Environments, IEEE TII 17(11), 2021";
/// Octets of the texts that `frameward-lab bench suites` measures.
const TEXTS: [usize; 6] = [64, 128, 256, 512, 1024, 1468];
/// Octets of a frame, its weight (table IV), and the text that was measured here in its place.
const WEIGHTS: [(usize, f64, usize); 6] = [
    (128, 0.5, 128),
    (256, 0.2, 256),
    (512, 0.1, 512),
    (1024, 0.1, 1024),
    (1400, 0.05, 1468),
    (1518, 0.05, 1468),
];
/// Payload, and the scenario's name (table I).
pub(super) const SCENARIOS: [(u32, &str); 3] = [
    (1468, "no fragmentation, 1468"),
    (1500, "small and big fragment, 1500"),
    (2936, "two big fragments, 2936"),
];

fn source(what: &str) -> String {
    format!("{PAPER}: {what}")
}

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    vec![
        scenarios(),
        round_trips(document),
        throughput(document),
        ciphers(),
        platforms(document),
        weighted(document),
        relative_latency(document),
        relative_throughput(document),
        by_size(document),
    ]
}

fn scenarios() -> Figure {
    let rows = SCENARIOS.map(|(payload, name)| {
        let frames = if payload == 1468 { "1" } else { "2" };
        [
            name.to_owned(),
            format!("{payload}"),
            "1468".into(),
            format!("{payload}"),
            "1468".into(),
            frames.into(),
        ]
    });
    Figure {
        id: "tii-table-1".into(),
        title: "Table I: sizes of the scenarios".into(),
        caption: "What is divided, and how: the paper's and ours are the same. 1468 octets are what MACsec leaves of 1500.".into(),
        units: "octets; frames".into(),
        source: source("table I"),
        command: "target/release/frameward-lab evidence run --only fragment".into(),
        body: Body::Table(Table::new(
            ["scenario", "payload, paper", "room, paper", "payload, ours", "room, ours", "frames each"],
            rows.into(),
        )),
        gaps: Vec::new(),
    }
}

/// The largest datagram of a payload: without IPv4 and UDP headers.
pub(super) fn trip(payload: u32, way: &str) -> String {
    format!("round trip of {}, {payload} {way}, and the wire's time", payload - 28)
}

fn round_trips(document: &Document) -> Figure {
    let mut query = Query::new(document, "fragment");
    let base = query.value(&trip(1468, "fragment"));
    // Text: 7 % more in the second scenario than in the first, 3 % more in the third than in the second.
    let paper = [100.0, 107.0, 110.0];
    let mut groups = Vec::new();
    for ((payload, name), paper) in SCENARIOS.into_iter().zip(paper) {
        let mut ours = |kind, way| {
            let value = query.value(&trip(payload, way))?;
            Some(Bar::new(kind, 100.0 * value / base?))
        };
        let bars = [
            Some(Bar::new(Kind::Paper, paper)),
            ours(Kind::Ours, "fragment"),
            ours(Kind::Ours2, "concatenate"),
        ];
        groups.extend(group(name, bars));
    }
    Figure {
        id: "tii-figure-4a".into(),
        title: "Figure 4(a): round trip of full payloads".into(),
        caption: "The figure is a drawing; of its numbers the text gives the increases (7 % and 3 %), and these are drawn. Each side in per cent of its own first scenario; less is better. Ours are UDP echoes with the time that a wire of 100 Mbit/s takes for the frames; the paper's are pings over Gigabit Ethernet.".into(),
        units: "per cent of the round trip of 1468 octets".into(),
        source: source("figure 4(a), section IV-C"),
        command: command(document, "fragment"),
        body: Body::Bars(Bars {
            legend: vec![
                (Kind::Paper, "the paper".into()),
                (Kind::Ours, "this run, fragments".into()),
                (Kind::Ours2, "this run, fragments that share frames".into()),
            ],
            axis: "per cent".into(),
            scale: Scale::Linear,
            groups,
            mark: None,
        }),
        gaps: query.gaps(),
    }
}

fn throughput(document: &Document) -> Figure {
    let mut query = Query::new(document, "fragment");
    let mut share = |payload: u32, way: &str| query.value(&format!("TCP {payload} {way}"));
    // Per cent of the wire: the paper's is Gigabit Ethernet, ours 100 Mbit/s.
    let paper = [-5.0, 6.0];
    let mut groups = Vec::new();
    for (step, name, paper) in
        [(0, "from 1468 to 1500 octets", paper[0]), (1, "from 1500 to 2936 octets", paper[1])]
    {
        let (from, to) = (SCENARIOS[step].0, SCENARIOS[step + 1].0);
        let mut ours = |kind, way| Some(Bar::new(kind, share(to, way)? - share(from, way)?));
        let bars = [
            Some(Bar::new(Kind::Paper, paper)),
            ours(Kind::Ours, "fragment"),
            ours(Kind::Ours2, "concatenate"),
        ];
        groups.extend(group(name, bars));
    }
    Figure {
        id: "tii-figure-4b".into(),
        title: "Figure 4(b): what fragmentation costs in throughput".into(),
        caption: "The text gives the differences between scenarios: 50 Mbit/s less, then 60 Mbit/s more, of 1000. Drawn is by how many per cent of the wire TCP gets slower or faster. Absolute figures of the same design stand in the thesis: table 7.2 below.".into(),
        units: "per cent of the wire's rate (the paper: 1000 Mbit/s; this run: 100 Mbit/s)".into(),
        source: source("figure 4(b), section IV-C"),
        command: command(document, "fragment"),
        body: Body::Bars(Bars {
            legend: vec![
                (Kind::Paper, "the paper".into()),
                (Kind::Ours, "this run, fragments".into()),
                (Kind::Ours2, "this run, fragments that share frames".into()),
            ],
            axis: "per cent of the wire".into(),
            scale: Scale::Linear,
            groups,
            mark: None,
        }),
        gaps: query.gaps(),
    }
}

fn ciphers() -> Figure {
    let paper = |suite: CipherSuite| match suite {
        CipherSuite::GcmAes128 => ["1: AES-GCM (default)", "128 bit", "AES-NI"],
        CipherSuite::Aegis128L => ["2: AEGIS", "128 bit", "AES-NI"],
        CipherSuite::ChaCha20Poly1305 => ["4: ChaCha20-Poly1305", "256 bit", "\u{2013}"],
        CipherSuite::Morus640 | CipherSuite::Morus1280 => ["3: MORUS", "128 bit", "\u{2013}"],
        _ => ["\u{2013}"; 3],
    };
    let rows = CipherSuite::ALL.map(|suite| {
        let standing = match (suite.is_standard(), suite.is_experimental()) {
            (true, _) => "IEEE 802.1AE",
            (false, false) => "beyond the standard",
            (false, true) => "experimental",
        };
        let [cipher, key, optimized] = paper(suite).map(String::from);
        let own = format!("{} bit", suite.key_octets() * 8);
        [cipher, key, optimized, suite.name().to_owned(), own, standing.to_owned()]
    });
    Figure {
        id: "tii-table-2".into(),
        title: "Table II: the ciphers".into(),
        caption: "What the paper investigated, with its key and the instructions that speed it up, and what a link can be given here. The paper does not say which MORUS it took.".into(),
        units: "bits of the key".into(),
        source: source("table II"),
        command: "target/release/frameward-lab evidence run --only suites".into(),
        body: Body::Table(Table::new(["the paper's cipher", "its key", "optimized for", "suite here", "its key", "standing"], rows.into())),
        gaps: Vec::new(),
    }
}

fn platforms(document: &Document) -> Figure {
    let text = |texts: [&str; 6]| texts.map(String::from);
    let machine = &document.machine;
    let mut rows = vec![
        text([
            "1: HP ProDesk",
            "Intel Core i5-4590, 4 cores, 3.3 GHz",
            "16 GB",
            "Gigabit Ethernet",
            "Linux 4.16.0, Debian Buster",
            "desktop, AES-NI",
        ]),
        text([
            "2: HP ProLiant MicroServer Gen7",
            "AMD Athlon II Neo N36L, 2 cores, 1.3 GHz",
            "1 GB",
            "Gigabit Ethernet",
            "Linux 4.16.0, Debian Buster",
            "embedded",
        ]),
        text([
            "3: Raspberry Pi 3",
            "ARM Cortex-A53, 4 cores, 1.4 GHz",
            "1 GB",
            "Gigabit Ethernet (adapter)",
            "Linux 4.14.32, Raspbian Stretch",
            "embedded",
        ]),
        text([
            "4: Raspberry Pi 4",
            "ARM Cortex-A72, 4 cores, 1.5 GHz",
            "4 GB",
            "Gigabit Ethernet",
            "Linux 5.0.21, Raspbian Buster",
            "embedded",
        ]),
    ];
    rows.push([
        "this run".into(),
        format!("{}, {} CPUs", machine.cpu, machine.cpus),
        format!("{} GB", number((machine.memory_mib as f64 / 1024.0).round())),
        "veth between namespaces".into(),
        format!("Linux {}, {}", machine.kernel, machine.system),
        "\u{2013}".into(),
    ]);
    Figure {
        id: "tii-table-3".into(),
        title: "Table III: the platforms".into(),
        caption: "What the paper measured on, and what this run did. Only the first platform of the paper has AES instructions.".into(),
        units: "none".into(),
        source: source("table III"),
        command: "target/release/frameward-lab evidence run".into(),
        body: Body::Table(Table::new(["platform", "processor", "memory", "network", "system", "class"], rows)),
        gaps: Vec::new(),
    }
}

/// Nanoseconds to seal and to open a frame, weighed by table IV.
fn weighted_cost(query: &mut Query<'_>, suite: CipherSuite) -> Option<f64> {
    let mut sum = Some(0.0);
    for (_, weight, text) in WEIGHTS {
        for operation in ["seal", "open"] {
            let cost = query.value(&format!("{operation} {text} octets, {suite}"));
            sum = sum.zip(cost).map(|(sum, cost)| sum + weight * cost);
        }
    }
    sum
}

/// Figure 5(a), of which the text gives one number.
fn relative_latency(document: &Document) -> Figure {
    let (mut trips, mut costs) = (Query::new(document, "link"), Query::new(document, "suites"));
    let mut trip = |suite| trips.value(&format!("round trip p50, {suite}, af_xdp"));
    let (base, base_cost) = (trip(CipherSuite::GcmAes128), weighted_cost(&mut costs, CipherSuite::GcmAes128));
    let paper = Bar::new(Kind::Paper, 60.0);
    let mut groups: Vec<Group> = group("ChaCha20-Poly1305, platform 4", [Some(paper)]).into_iter().collect();
    for suite in CipherSuite::ALL {
        let per_cent = |ours: Option<f64>, base: Option<f64>, kind| {
            ours.zip(base).map(|(ours, base)| Bar::new(kind, 100.0 * ours / base))
        };
        let bars = [
            per_cent(trip(suite), base, Kind::Ours),
            per_cent(weighted_cost(&mut costs, suite), base_cost, Kind::Ours2),
        ];
        groups.extend(group(suite.name(), bars));
    }
    Figure {
        id: "tii-figure-5a".into(),
        title: "Figure 5(a): latency beside the default cipher".into(),
        caption: "In per cent of that with AES-GCM; less is better. The figure is a drawing, and the text gives one number of it: ChaCha20-Poly1305 takes 40 % less on platform 4, whose CPU has no AES instructions, whatever the frame's size. This machine has them: a round trip of 64 octets through two gateways hardly knows the cipher, and what the cipher alone takes goes the other way.".into(),
        units: "per cent of GCM-AES-128".into(),
        source: source("figure 5(a), section V-C"),
        command: format!("{}; {}", command(document, "link"), command(document, "suites")),
        body: Body::Bars(Bars {
            legend: vec![
                (Kind::Paper, "the paper, round trip".into()),
                (Kind::Ours, "this run, round trip of 64 octets".into()),
                (Kind::Ours2, "this run, sealing and opening alone, weighed by table IV".into()),
            ],
            axis: "per cent".into(),
            scale: Scale::Linear,
            groups,
            mark: None,
        }),
        gaps: [trips.gaps(), costs.gaps()].concat(),
    }
}

fn weighted(document: &Document) -> Figure {
    let mut query = Query::new(document, "suites");
    let mut groups: Vec<Group> = Vec::new();
    for suite in CipherSuite::ALL {
        let kind = if suite.is_standard() { Kind::Ours } else { Kind::Ours2 };
        groups.extend(group(suite.name(), [weighted_cost(&mut query, suite).map(|sum| Bar::new(kind, sum))]));
    }
    let weights = WEIGHTS.map(|(octets, weight, _)| format!("{octets}: {weight}")).join(", ");
    Figure {
        id: "tii-table-4".into(),
        title: "Table IV: weighted cost of a frame by cipher".into(),
        caption: format!(
            "The paper weighs round trips by frame size ({weights}), since industrial frames are short. Drawn is what sealing and opening a frame takes here, with these weights (1468 in place of 1400 and 1518); less is better. A round trip through two gateways has it four times."
        ),
        units: "nanoseconds to seal and open a frame".into(),
        source: source("table IV"),
        command: command(document, "suites"),
        body: Body::Bars(Bars {
            legend: vec![
                (Kind::Ours, "standard suites".into()),
                (Kind::Ours2, "suites beyond the standard".into()),
            ],
            axis: "ns".into(),
            scale: Scale::Linear,
            groups,
            mark: None,
        }),
        gaps: query.gaps(),
    }
}

fn relative_throughput(document: &Document) -> Figure {
    let mut query = Query::new(document, "link");
    let base = query.value("TCP, gcm-aes-128, af_xdp");
    let mut groups: Vec<Group> = [
        ("AEGIS, platform 2", 184.0),
        ("ChaCha20-Poly1305, platform 2", 173.0),
        ("ChaCha20-Poly1305, platform 3", 255.0),
        ("ChaCha20-Poly1305, platform 4", 326.0),
        ("the three others, platform 1 (AES-NI)", 97.5),
    ]
    .into_iter()
    .filter_map(|(name, value)| group(name, [Some(Bar::new(Kind::Paper, value))]))
    .collect();
    for suite in CipherSuite::ALL {
        let ours = query.value(&format!("TCP, {suite}, af_xdp"));
        let bar = ours.zip(base).map(|(ours, base)| Bar::new(Kind::Ours, 100.0 * ours / base));
        groups.extend(group(suite.name(), [bar]));
    }
    Figure {
        id: "tii-figure-5b".into(),
        title: "Figure 5(b): throughput beside the default cipher".into(),
        caption: "Throughput of TCP in per cent of that with AES-GCM; more is better. Drawn are all numbers that the text gives. This machine has AES instructions, so it is to be compared with platform 1, where nothing was gained.".into(),
        units: "per cent of the throughput with GCM-AES-128".into(),
        source: source("figure 5(b), section V-C"),
        command: command(document, "link"),
        body: Body::Bars(Bars {
            legend: vec![(Kind::Paper, "the paper".into()), (Kind::Ours, "this run, a link on AF_XDP".into())],
            axis: "per cent".into(),
            scale: Scale::Linear,
            groups,
            mark: None,
        }),
        gaps: query.gaps(),
    }
}

fn by_size(document: &Document) -> Figure {
    let mut query = Query::new(document, "suites");
    let shown = [
        (CipherSuite::GcmAes128, Kind::Ours),
        (CipherSuite::Aegis128L, Kind::Ours2),
        (CipherSuite::Morus1280, Kind::OursFour),
        (CipherSuite::ChaCha20Poly1305, Kind::Ours3),
    ];
    let series = shown
        .map(|(suite, kind)| {
            let cases = TEXTS.map(|text| (text as f64, format!("seal {text} octets, {suite}")));
            Series::new(kind, suite.name(), query.points(cases))
        })
        .into();
    Figure {
        id: "tii-figure-6".into(),
        title: "Figure 6: by frame size".into(),
        caption: "The figure shows round trips by frame size on four platforms as a drawing, and the text gives no numbers of it but one: figure 5(a). Drawn is what sealing a frame takes here with the paper's four ciphers; less is better. The other suites are below, every figure.".into(),
        units: "nanoseconds over octets of text".into(),
        source: source("figure 6"),
        command: command(document, "suites"),
        body: Body::Lines(Lines { x: "octets".into(), y: "ns".into(), x_axis: Across::Linear, logarithmic: false, series }),
        gaps: query.gaps(),
    }
}
