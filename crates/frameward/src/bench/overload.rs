//! More frames than there is room for: what of the good ones still arrives.
//!
//! ```text
//!  machine A ── [box] ── the insecure network ── [box] ── machine B
//!   good frames              ^ garbage, replayed and clear frames, towards the second box
//! ```
//!
//! First the highest rate of small frames that is not lost is searched for ([`lab::trial`]); then its multiples are offered. Sender,
//! both boxes and the receiver share this machine's CPUs, and a sender of many frames takes those of the boxes: so no
//! figure says more than what it is beside the forwarder's that has nothing between its ports, under the same load in the same
//! round. What the sender could not reach is said: `offered` is what it sent.
//!
//! | figure | how |
//! |---|---|
//! | lossless | the highest rate at which next to nothing is lost |
//! | good frames, N times | frames that arrive each second while N times that is sent |
//! | offered, N times | frames that were sent each second meanwhile |
//! | a quarter beside ..., N times | what arrives of a quarter of the lossless rate, beside N times that rate of others, which a stranger sends |
//! | status | how long the second box's answer takes meanwhile, at the worst |

use std::time::{Duration, Instant};

use ::bench::Target;
use engine::open::Io;
use lab::flood;
use lab::macsec::Load;
use lab::topology::RIGHT;
use lab::trial::{SHORTEST, Search, Stream};
use lab::{Direction, Machine, PacketSocket, Shape, Topology};

use super::samples::Samples;
use super::stand::Stand;
use super::{Bench, BenchError, Effort};
use crate::demo::pair::{Choice, LinkKeys};

/// The name of this bench in rows.
pub const BENCH: &str = "overload";
/// Multiples of the lossless rate that are offered.
pub const TIMES: [f64; 6] = [0.5, 1.0, 2.0, 4.0, 7.0, 10.0];
/// The same of strangers' frames.
const STRANGERS: [f64; 3] = [1.0, 4.0, 10.0];
/// The share that has to arrive of what there is room for.
const LEAST: f64 = 0.95;
/// What is sent beside strangers' frames, of the lossless rate.
const QUARTER: f64 = 0.25;
/// Octets of payload of the shortest frame.
const PAYLOAD: usize = 46;
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);
/// How long a load may last that nobody stops, and a protected frame may take to show.
const LIMIT: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(10);

/// What a figure of good frames is called.
pub fn good(times: f64, case: &str) -> String {
    format!("good frames, {times} times, {case}")
}

/// What the figure is called of what was sent.
pub fn offered(times: f64, case: &str) -> String {
    format!("offered, {times} times, {case}")
}

/// What the figure of the rate is called that loses nothing.
pub fn lossless(case: &str) -> String {
    format!("lossless, {case}")
}

/// Frames of a stranger on the insecure network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strange {
    /// With the right header, a packet number that is next, and an ICV that is wrong: the dearest to refuse.
    Garbage,
    /// A good one, again and again.
    Replayed,
    /// Without a SecTAG.
    Clear,
}

impl Strange {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Garbage, Self::Replayed, Self::Clear];

    /// What it is called in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Garbage => "garbage",
            Self::Replayed => "replayed frames",
            Self::Clear => "clear frames",
        }
    }

    /// Frame after frame, made of a good one.
    fn frames(self, good: &[u8]) -> impl FnMut(&mut Vec<u8>) + Send + 'static {
        let good = good.to_vec();
        let mut number = 0_u32;
        move |frame| {
            frame.clone_from(&good);
            number = number.wrapping_add(1);
            match self {
                Self::Garbage => {
                    frame[16..20].copy_from_slice(&(0x4000_0000 | number).to_be_bytes());
                    let icv = frame.len() - 4;
                    frame[icv..].copy_from_slice(&number.to_le_bytes());
                }
                Self::Replayed => {}
                Self::Clear => frame[12..14].copy_from_slice(&[0x88, 0xb5]),
            }
        }
    }
}

/// Good frames from one machine to another, whatever stands between them: the lossless rate once, then a sample of each multiple each
/// round.
#[derive(Debug)]
pub struct Curve {
    rate: f64,
    alone: Samples,
    arrived: Vec<Samples>,
    sent: Vec<Samples>,
}

impl Curve {
    /// Searches for the lossless rate.
    ///
    /// # Errors
    /// If sockets or threads fail, or nothing arrives.
    pub fn search(case: &str, a: &Machine, b: &Machine, effort: &Effort) -> Result<Self, BenchError> {
        let search = Search { time: effort.time, loss: 1e-3, precision: 0.05 };
        let found = search.run(a, b, &Stream::new(a, b, &SHORTEST))?;
        // Whoever loses some at any rate still carries some.
        let first =
            found.trials.first().map_or(0.0, |trial| trial.received as f64 / trial.elapsed.as_secs_f64());
        let rate = if found.rate > 0.0 { found.rate } else { first / 2.0 };
        if rate < 1.0 {
            return Err(BenchError::Silent(case.to_owned()));
        }
        let all = |name: fn(f64, &str) -> String| TIMES.map(|times| Samples::new(&name(times, case))).into();
        let alone = Samples::new(&lossless(case));
        Ok(Self { rate, alone, arrived: all(good), sent: all(offered) })
    }

    /// Frames each second that were not lost.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Takes a sample of each multiple.
    ///
    /// # Errors
    /// If the sender fails.
    pub fn round(&mut self, a: &Machine, b: &Machine, time: Duration) -> Result<(), BenchError> {
        self.alone.push(self.rate);
        for ((times, arrived), sent) in TIMES.iter().zip(&mut self.arrived).zip(&mut self.sent) {
            let flood = flood::flood(a, b, PAYLOAD, Some((self.rate * times) as u32), time)?;
            arrived.push(flood.delivered_per_second());
            sent.push(flood.sent_per_second());
        }
        Ok(())
    }

    /// Tells the figures; those with a target are ours.
    pub fn tell(&self, judged: bool, figure: &mut dyn FnMut(::bench::Row)) {
        figure(self.alone.row(BENCH, "frames/s", None));
        for ((times, arrived), sent) in TIMES.iter().zip(&self.arrived).zip(&self.sent) {
            let mut row = arrived.row(BENCH, "frames/s", Some(&self.alone));
            let wanted = LEAST * times.min(1.0);
            let met = row.ratio.as_ref().is_some_and(|ratio| ratio.value >= wanted);
            row.target = judged.then(|| Target { wanted: format!("ratio at least {wanted}"), met });
            figure(row);
            figure(sent.row(BENCH, "frames/s", None));
        }
    }
}

struct Case {
    stand: Stand,
    curve: Curve,
    /// A protected frame, if there are such.
    protected: Option<Vec<u8>>,
    quarter: Samples,
    beside: Vec<(Strange, f64, Samples)>,
    status: Samples,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let effort = bench.effort;
    let shape = Shape { static_neighbours: true, ..Shape::default() };
    let mut cases = Vec::new();
    for name in ["Linux bridge", "bare forwarder", "static keys", "key agreement"] {
        let gateways =
            |keys| Stand::new(bench.frameward, name, &shape, &Choice { keys, ..Choice::default() });
        let (stand, ours) = match name {
            "Linux bridge" => (Stand::bridged(name, &shape)?, false),
            "bare forwarder" => (Stand::forwarded(bench.frameward, name, &shape, Io::AfXdp)?, false),
            "static keys" => (gateways(LinkKeys::Static)?, true),
            _ => (gateways(LinkKeys::Agreed)?, true),
        };
        cases.push(Case::new(stand, ours, &effort)?);
        if let Some(case) = cases.last() {
            (bench.progress)(&format_args!("{name}: {:.0} frames/s without loss", case.curve.rate()));
        }
    }
    for round in 1..=effort.rounds {
        for case in &mut cases {
            case.round(effort.time / 3)?;
            (bench.progress)(&format_args!("round {round}: {}", case.stand.case));
        }
    }
    for case in &cases {
        case.tell(bench.figure);
    }
    cases.into_iter().try_for_each(|case| case.stand.stop())
}

impl Case {
    fn new(stand: Stand, ours: bool, effort: &Effort) -> Result<Self, BenchError> {
        let Topology { machine_a: a, machine_b: b, .. } = &stand.topology;
        let curve = Curve::search(&stand.case, a, b, effort)?;
        let protected = if ours { Some(protected_frame(&stand.topology)?) } else { None };
        let name = &stand.case;
        let beside = Strange::ALL.into_iter().flat_map(|strange| STRANGERS.map(|times| (strange, times)));
        let beside = beside.map(|(strange, times)| {
            let what = format!("a quarter beside {}, {times} times, {name}", strange.name());
            (strange, times, Samples::new(&what))
        });
        let (quarter, status) =
            (Samples::new(&format!("a quarter alone, {name}")), Samples::new(&format!("status, {name}")));
        Ok(Self { curve, protected, quarter, beside: beside.collect(), status, stand })
    }

    fn round(&mut self, time: Duration) -> Result<(), BenchError> {
        let Topology { machine_a: a, machine_b: b, middle, .. } = &self.stand.topology;
        self.curve.round(a, b, time)?;
        let Some(protected) = &self.protected else { return Ok(()) };
        let rate = self.curve.rate();
        let quarter = Some((rate * QUARTER) as u32);
        self.quarter.push(flood::flood(a, b, PAYLOAD, quarter, time)?.delivered_per_second());
        let mut worst = Duration::ZERO;
        for (strange, times, samples) in &mut self.beside {
            let load = Load::start_with(
                (middle, RIGHT),
                strange.frames(protected),
                Some((rate * *times) as u32),
                LIMIT,
            )?;
            samples.push(flood::flood(a, b, PAYLOAD, quarter, time)?.delivered_per_second());
            let asked = Instant::now();
            self.stand.far_report()?;
            worst = worst.max(asked.elapsed());
            load.stop()?;
        }
        self.status.push(worst.as_secs_f64() * 1e3);
        Ok(())
    }

    fn tell(&self, figure: &mut dyn FnMut(::bench::Row)) {
        self.curve.tell(self.protected.is_some(), figure);
        if self.protected.is_none() {
            return;
        }
        figure(self.quarter.row(BENCH, "frames/s", None));
        for (_, _, samples) in &self.beside {
            let mut row = samples.row(BENCH, "frames/s", Some(&self.quarter));
            let met = row.ratio.as_ref().is_some_and(|ratio| ratio.value >= LEAST);
            row.target = Some(Target { wanted: format!("ratio at least {LEAST}"), met });
            figure(row);
        }
        let mut row = self.status.row(BENCH, "ms", None);
        let met = row.spread.as_ref().is_some_and(|spread| spread.highest <= ANSWER.as_secs_f64() * 1e3);
        row.target = Some(Target { wanted: "never more than 1000".into(), met });
        figure(row);
    }
}

/// One that the first box has protected, as a stranger can take it from the network.
fn protected_frame(topology: &Topology) -> Result<Vec<u8>, BenchError> {
    let Topology { machine_a: a, machine_b: b, middle, .. } = topology;
    let mut network = PacketSocket::open(middle, RIGHT)?;
    let sender = PacketSocket::open(&a.namespace, a.ifname)?;
    let mut frame = [&b.mac[..], &a.mac, &[0x88, 0xb5]].concat();
    frame.resize(14 + PAYLOAD, 0);
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        sender.send(&frame)?;
        let Some(seen) = network.receive()? else { continue };
        if seen.direction == Direction::Out
            && seen.octets.starts_with(&b.mac)
            && seen.octets[12..14] == [0x88, 0xe5]
        {
            return Ok(seen.octets);
        }
    }
    Err(BenchError::Silent("a protected frame".into()))
}
