//! Delay of cyclic frames at an uplink that is the bottleneck, beside twice as much bulk as it carries, with `rate` and without.
//!
//! ```text
//!  machine 1 ── SITE 1 ── line of 52 Mbit/s, 100 ms of queue ── router ── SITE 2 ── machine 2
//!  PROFINET each ms, and bulk                                                     delays
//! ```
//!
//! The sites protect their LANs (`protect = true`). A delay is from a frame's sending to its reading, by one clock.

use std::time::{Duration, Instant};

use ::bench::Target;
use frameward::keygen::{self, KeyLength};
use lab::cyclic::{Exchange, Relation};
use lab::flood::Load;
use lab::traffic::{Ip, ping};
use lab::{Machine, Plants, PlantsShape};

use super::{BENCH, PATIENCE};
use crate::bench::samples::Samples;
use crate::bench::{Bench, BenchError};
use crate::demo::pair::{Scratch, Station};
use crate::demo::sites::{SitesChoice, configure, site_name};

/// The beginning of all names.
pub const UPLINK: &str = "a full uplink";
const LINE: u64 = 52_000_000;
const QUEUE: Duration = Duration::from_millis(100);
const CYCLE: Duration = Duration::from_millis(1);
/// Octets behind the Ethernet header of bulk, which goes in one packet.
const BULK: usize = 1400;
/// The time that an express frame may wait longer than on an idle line, besides that of a full packet, in microseconds.
const ADDED: f64 = 2000.0;
const PACKET: f64 = 1538.0 * 8.0 / (LINE as f64 / 1e6);

/// Further lines of the sites.
const SITE: &str = "protect = true\n[site.mka]\ncak_file = \"line.cak\"";
const SHAPED: &str = "protect = true\nrate = \"50M\"\n[site.mka]\ncak_file = \"line.cak\"";

/// Cases: name, lines of the sites, whether bulk goes beside.
const CASES: [(&str, &str, bool); 3] = [
    ("idle", SITE, false),
    ("beside bulk, rate = \"50M\"", SHAPED, true),
    ("beside bulk, without rate", SITE, true),
];

/// Two plants with a box in each, and a machine behind it.
struct Boxes {
    plants: Plants,
    sites: Vec<Station>,
    _scratch: Scratch,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let mut rows = ["p50", "p99"]
        .map(|percentile| CASES.map(|(name, ..)| Samples::new(&format!("{UPLINK}, {name}, {percentile}"))));
    for (number, (name, site, loaded)) in CASES.into_iter().enumerate() {
        let boxes = Boxes::start(bench, site)?;
        for round in 1..=bench.effort.rounds {
            let delays = boxes.delays(loaded, bench.effort.time)?;
            (bench.progress)(&format_args!("round {round}: {UPLINK}, {name}: {delays:.0?} us"));
            for (samples, delay) in rows.iter_mut().zip(delays) {
                samples[number].push(delay);
            }
        }
        boxes.sites.into_iter().try_for_each(|site| site.stop().map(drop))?;
    }
    for samples in &rows {
        let [idle, with, without] = samples;
        (bench.figure)(idle.row(BENCH, "us", None));
        let mut row = with.row(BENCH, "us", Some(without));
        let added = row.value - idle.row(BENCH, "us", None).value;
        let most = ADDED + PACKET;
        row.target =
            Some(Target { wanted: format!("at most {most:.0} us more than idle"), met: added <= most });
        (bench.figure)(row);
        (bench.figure)(without.row(BENCH, "us", Some(idle)));
    }
    Ok(())
}

impl Boxes {
    fn start(bench: &Bench<'_>, site: &'static str) -> Result<Self, BenchError> {
        let shape = PlantsShape { machine_mtu: 1500, lan_mtu: 1500, ..PlantsShape::default() };
        let plants = Plants::build(&shape)?;
        for plant in &plants.plants {
            plant.stations[0].gateway.bridge()?;
            plant.limit_uplink(LINE, QUEUE)?;
        }
        let scratch = Scratch::new()?;
        keygen::cak(KeyLength::Bits128, None, &scratch.path().join("line.cak"))
            .map_err(crate::demo::pair::PairError::from)?;
        configure(&scratch, &plants, &SitesChoice { site, ..SitesChoice::default() })?;
        let start = |plant: &lab::Plant| {
            Station::start(&bench.programs.frameward, &plant.site, &scratch, &site_name(plant.number))
        };
        let sites = plants.plants.iter().map(start).collect::<Result<_, _>>()?;
        let boxes = Self { plants, sites, _scratch: scratch };
        let (end, [a, b]) = (Instant::now() + PATIENCE, boxes.machines());
        while ping(a, b, Ip::V4, 1, 56).is_err() {
            if Instant::now() > end {
                return Err(BenchError::Silent(UPLINK.into()));
            }
        }
        Ok(boxes)
    }

    fn machines(&self) -> [&Machine; 2] {
        [0, 1].map(|plant| &self.plants.plants[plant].stations[0].machine)
    }

    /// p50 and p99, in microseconds.
    fn delays(&self, loaded: bool, time: Duration) -> Result<[f64; 2], BenchError> {
        let [a, b] = self.machines();
        let relation = Relation {
            stations: [a.mac, b.mac],
            frame_ids: [0x8001, 0x8002],
            cycle: CYCLE,
            payload_octets: 60,
        };
        let per_second = 2 * LINE / 8 / BULK as u64;
        let load =
            loaded.then(|| Load::start(a, b, BULK, Some(per_second as u32), time + PATIENCE)).transpose()?;
        std::thread::sleep(2 * QUEUE);
        let exchange = Exchange::start(a, b, &[relation])?;
        // Frames that are in the queue still when it ends are not heard.
        std::thread::sleep(time + 10 * QUEUE);
        let heard = exchange.stop()?;
        load.map(Load::stop).transpose()?;
        // Those at machine 2.
        let [[_, arrivals]] = heard.as_slice() else { return Err(BenchError::Silent(UPLINK.into())) };
        if arrivals.received == 0 {
            return Err(BenchError::Silent(UPLINK.into()));
        }
        Ok([0.5, 0.99].map(|quantile| arrivals.delay.value_at_quantile(quantile) as f64 / 1e3))
    }
}
