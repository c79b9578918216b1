//! `frameward plan`: its arguments.

use std::time::Duration;

use clap::{Args, ValueEnum};
use fieldbus::budget::{Budget, Cycle, LinkRate, Load, Path, Payload};
use frameward::plan::{self, MOST_RELATIONS, Question, Whole};
use wire::fieldbus::{CellSuite, Protect};

use super::keygen::Bits;
use crate::{Failure, print, tell, told};

pub(crate) const AFTER_HELP: &str = "\
The equations are those of Skuballa et al., \"Cryptographic Protection of Cyclic Real-Time
Communication in Ethernet-Based Fieldbuses\". They give a frame's octets on the line; N, the number
of relations that the link carries, with one frame each way in a cycle; and t_max, the time limit
of each of these frames. The command measures the time of a frame on this CPU. So run it on the
future gateway, while nothing else runs there.

The figures cover the engine's own work. Ports and drivers take time besides: --port-time adds it,
once for each frame that is received and sent. `frameward-lab bench fieldbus` measures it.

Examples:
  frameward plan --cycle 1ms --link 100M --load 0.5 --payload 44..1444
  frameward plan --cycle 31.25us --link 1G --payload 44 --protect authenticate --relations 20
  frameward plan --cycle 1ms --json > budget.json     (frameward-lab plot draws it)
  frameward plan --cycle 8ms --uplink 20M --path-delay 12ms --path-jitter 6ms --relations 10

Beside each frame, an idle loop of the same length is timed. If something holds up the loop for
longer than t_max, or a frame for longer than the rest of its cycle, this CPU is too busy to judge.

Exit status: 0 every payload fits; 1 some payload does not fit in some mode (too slow, too many
relations, or none at all); 2 usage; 3 this machine is too busy to judge.";

#[derive(Args)]
pub(crate) struct Plan {
    /// The time between two frames of a relation: 31.25us to 512ms
    #[arg(long, value_name = "TIME", value_parser = cycle)]
    cycle: Cycle,
    /// The rate of the link: 10M, 100M, 1G or a number of bits per second
    #[arg(long, value_name = "RATE", default_value = "100M", value_parser = rate)]
    link: LinkRate,
    /// The share of that rate for cyclic frames: above 0, at most 1
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = load)]
    load: Load,
    /// Octets of payload behind the FrameID, 44 to 1444: one length, or a range
    #[arg(long, value_name = "OCTETS", default_value = "44..1444", value_parser = payloads)]
    payload: Payloads,
    /// The protection of frames
    #[arg(long, value_enum, default_value = "both")]
    protect: Mode,
    /// The length of the keys
    #[arg(long, value_enum, default_value = "128")]
    bits: Bits,
    /// The number of relations [default: as many as the link carries]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_RELATIONS))]
    relations: Option<u64>,
    /// The time that ports and drivers take for a frame, such as 2us
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = time)]
    port_time: Duration,
    /// The two gateways stand in two plants: the rate of the slower uplink
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "path_delay")]
    uplink: Option<LinkRate>,
    /// The time from one plant to the other, about half of a round trip, such as 12ms
    #[arg(long, value_name = "TIME", value_parser = time, requires = "uplink")]
    path_delay: Option<Duration>,
    /// The time that slow packets take above that
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = time, requires = "uplink")]
    path_jitter: Duration,
    /// Cycles without a frame after which devices take their peer for gone (data hold factor)
    #[arg(long, value_name = "CYCLES", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    data_hold: u16,
    /// Measure for a short time; the figures spread more
    #[arg(long)]
    quick: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Mode {
    Encrypt,
    Authenticate,
    Both,
}

/// In ascending order.
#[derive(Clone)]
struct Payloads(Vec<Payload>);

/// Lengths between the two ends of a range; sizes that devices have.
const BETWEEN: [u16; 6] = [64, 100, 200, 400, 700, 1000];

impl Plan {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let modes = match self.protect {
            Mode::Encrypt => vec![Protect::Encrypt],
            Mode::Authenticate => vec![Protect::Authenticate],
            Mode::Both => vec![Protect::Encrypt, Protect::Authenticate],
        };
        let question = Question {
            budget: Budget { cycle: self.cycle, link: self.link, load: self.load },
            payloads: self.payload.0,
            modes,
            suite: match self.bits {
                Bits::Bits128 => CellSuite::GcmAes128,
                Bits::Bits256 => CellSuite::GcmAes256,
            },
            relations: self.relations,
            port_time: self.port_time,
            path: self.uplink.zip(self.path_delay).map(|(uplink, delay)| Path {
                delay,
                jitter: self.path_jitter,
                data_hold: self.data_hold,
                uplink,
            }),
            time: if self.quick { Question::QUICK } else { Question::FULL },
        };
        let answer = plan::answer(&question, &mut |line| tell(&format_args!("plan: {line}")));
        if self.json {
            let document =
                serde_json::to_string(&answer).expect("invariant: an answer has only names as keys");
            print(&format_args!("{document}\n"))?;
        } else {
            print(&answer)?;
        }
        match answer.verdict {
            Whole::Fits => Ok(()),
            Whole::DoesNotFit if answer.path.is_some_and(|path| !path.fits) => {
                Err(told(&"plan: the path between the plants does not fit the cycle", Failure::Failed))
            }
            Whole::DoesNotFit => Err(told(&"plan: some payloads do not fit", Failure::Failed)),
            Whole::TooBusy => {
                Err(told(&"plan: this machine is too busy to judge; stop other programs", Failure::Undecided))
            }
        }
    }
}

/// `31.25us`, `2ms` or `1s`.
fn time(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let parts = units.iter().find_map(|(unit, nanoseconds)| Some((text.strip_suffix(unit)?, nanoseconds)));
    let nanoseconds = parts.and_then(|(number, unit)| Some(number.parse::<f64>().ok()? * unit));
    match nanoseconds {
        Some(nanoseconds) if (0.0..1e12).contains(&nanoseconds) => {
            Ok(Duration::from_nanos(nanoseconds.round() as u64))
        }
        _ => Err("a time is a number with us, ms or s, such as 31.25us or 2ms".into()),
    }
}

fn cycle(text: &str) -> Result<Cycle, String> {
    Cycle::new(time(text)?).ok_or_else(|| "a cycle is 31.25us to 512ms".into())
}

/// `100M` or `100000000`.
fn rate(text: &str) -> Result<LinkRate, String> {
    let units = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let (number, unit) =
        units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, *bits))).unwrap_or((text, 1.0));
    let bits =
        number.parse::<f64>().map(|number| number * unit).ok().filter(|bits| (1.0..1e15).contains(bits));
    bits.and_then(|bits| LinkRate::new(bits.round() as u64))
        .ok_or_else(|| "a rate is a number of bits with k, M or G, such as 100M".into())
}

fn load(text: &str) -> Result<Load, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share
        .and_then(|share| Load::from_millionths((share * 1e6).round() as u32))
        .ok_or_else(|| "a share is a number above 0 and up to 1, such as 0.5".into())
}

fn payloads(text: &str) -> Result<Payloads, String> {
    let octets = |text: &str| text.parse().ok().and_then(Payload::new);
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    match (octets(first), octets(last)) {
        (Some(first), Some(last)) if first <= last => {
            let between = BETWEEN.into_iter().filter_map(Payload::new);
            let between = between.filter(|payload| first < *payload && *payload < last);
            let mut all: Vec<_> = [first].into_iter().chain(between).chain([last]).collect();
            all.dedup();
            Ok(Payloads(all))
        }
        _ => Err("payloads are 44 to 1444 octets: one length, or two with .. between them, such as 44..1444"
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_typed_is_what_is_meant() {
        assert_eq!(cycle("31.25us"), Ok(Cycle::SHORTEST));
        assert_eq!((cycle("512ms"), cycle("0.512s")), (Ok(Cycle::LONGEST), Ok(Cycle::LONGEST)));
        for text in ["31.2us", "513ms", "1", "ms", "-1ms", "nanms", "1 ms x", "infms"] {
            assert!(cycle(text).is_err(), "{text}");
        }
        for (text, bits) in [("100M", 100_000_000), ("2.5G", 2_500_000_000), ("64k", 64_000), ("9600", 9600)]
        {
            assert_eq!(rate(text).unwrap().bits_per_second(), bits);
        }
        for text in ["", "M", "0", "-1M", "1T", "1e20", "nan"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert_eq!(
            (load("0.5"), load("1")),
            (Ok(Load::from_millionths(500_000).unwrap()), Ok(Load::from_millionths(1_000_000).unwrap()))
        );
        for text in ["0", "1.1", "50", "-0.5", "nan", ""] {
            assert!(load(text).is_err(), "{text}");
        }
        for (text, expected) in [
            ("44..1444", &[44, 64, 100, 200, 400, 700, 1000, 1444][..]),
            ("100..400", &[100, 200, 400]),
            ("44", &[44]),
            ("50..50", &[50]),
        ] {
            let Ok(Payloads(payloads)) = payloads(text) else { panic!("{text}") };
            assert_eq!(payloads.iter().map(|payload| payload.octets()).collect::<Vec<_>>(), expected);
        }
        for text in ["43", "44..1445", "100..44", "..", "44..", "a", "44..100..200"] {
            assert!(payloads(text).is_err(), "{text}");
        }
    }
}
