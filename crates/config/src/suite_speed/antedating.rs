//! Whether keystreams are made ahead (`antedate` in `[gateway]`), and what that saves on this CPU.
//!
//! Two times are compared. One is that of the work left when a frame comes: an exclusive-or, and GHASH. The other is that
//! of all the work, as it is done without antedating. Both use the fastest code that this CPU can run, and the same
//! bursts, of three lengths and with both lengths of keys. With `auto` keystreams are made ahead if a frame of each
//! length then takes at most nine tenths of the time, with each key.
//!
//! With AES instructions AES costs little, and it does not pay. It costs no more than idle time, and a frame that comes
//! while a keystream is made waits until that is done, so its making is timed too.

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use speed::antedated::AntedatedBurst;
use speed::burst::BURST;
use speed::burst::{Burst, prepared_antedated};
use suite::CipherSuite;

use super::FEWEST_ROUNDS;
use crate::Antedate;

/// The suites that are measured; those with XPN are the same ciphers.
const SUITES: [CipherSuite; 2] = [CipherSuite::GcmAes128, CipherSuite::GcmAes256];
/// Octets of text of the frames that are measured.
const TEXTS: [usize; 3] = [64, 512, 1468];
/// Duration of the measurement, unless [`FEWEST_ROUNDS`] take longer.
const TIME: Duration = Duration::from_millis(30);

/// Whether keystreams are made ahead, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Antedating {
    /// The value in the configuration.
    pub configured: Antedate,
    /// Whether they are.
    pub on: bool,
    /// The measured times; none if it is configured off.
    pub figures: Vec<AntedatedSpeed>,
}

/// Time that a frame takes with and without its keystream ready: nanoseconds to seal it or to open it, the mean of both.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AntedatedSpeed {
    /// The suite's name.
    pub suite: String,
    /// Octets of text of the frame.
    pub text_octets: usize,
    /// Without.
    pub ordinary_nanoseconds: u64,
    /// With.
    pub antedated_nanoseconds: u64,
    /// Time to make the keystream.
    pub prepare_nanoseconds: u64,
}

impl AntedatedSpeed {
    /// A tenth less at least: the rest is noise.
    const fn pays(&self) -> bool {
        10 * self.antedated_nanoseconds <= 9 * self.ordinary_nanoseconds
    }
}

impl Antedating {
    /// Measures, unless nobody wants it, and decides: takes about 30 ms, on a slow CPU a little more.
    pub fn decide(configured: Antedate) -> Self {
        Self::of(configured, if configured == Antedate::Off { Vec::new() } else { measure() })
    }

    fn of(configured: Antedate, figures: Vec<AntedatedSpeed>) -> Self {
        let on = match configured {
            Antedate::Off => false,
            Antedate::On => true,
            Antedate::Auto => figures.iter().all(AntedatedSpeed::pays),
        };
        Self { configured, on, figures }
    }
}

fn measure() -> Vec<AntedatedSpeed> {
    let keys = SUITES.map(|suite| (suite, prepared_antedated(suite)));
    let mut bursts = TEXTS.map(|octets| (octets, Burst::new(octets), AntedatedBurst::new(octets)));
    let mut shortest = [[[Duration::MAX; 3]; TEXTS.len()]; SUITES.len()];
    let (start, mut rounds) = (Instant::now(), 0);
    while rounds < FEWEST_ROUNDS || start.elapsed() < TIME {
        for ((_, key), shortest) in keys.iter().zip(&mut shortest) {
            let Some(antedater) = key.antedater() else { continue };
            for ((_, ordinary, antedated), shortest) in bursts.iter_mut().zip(shortest) {
                let times = [
                    timed(|| {
                        ordinary.seal(key);
                        ordinary.open(key);
                    }),
                    timed(|| antedated.prepare(antedater)),
                    timed(|| antedated.seal(antedater)),
                    timed(|| antedated.prepare(antedater)),
                    timed(|| antedated.open(antedater)),
                ];
                let times = [times[0], times[2] + times[4], times[1] + times[3]];
                shortest.iter_mut().zip(times).for_each(|(shortest, time)| *shortest = time.min(*shortest));
            }
        }
        rounds += 1;
    }
    // Each time is of two bursts.
    let per_frame = |time: Duration| (time.as_nanos() as f64 / (2 * BURST) as f64).round() as u64;
    let figure = |(suite, text_octets): (CipherSuite, usize),
                  [ordinary, antedated, prepare]: [Duration; 3]| {
        AntedatedSpeed {
            suite: suite.name().into(),
            text_octets,
            ordinary_nanoseconds: per_frame(ordinary),
            antedated_nanoseconds: per_frame(antedated),
            prepare_nanoseconds: per_frame(prepare),
        }
    };
    let cases = SUITES.into_iter().flat_map(|suite| TEXTS.map(|octets| (suite, octets)));
    cases.zip(shortest.into_iter().flatten()).map(|(case, shortest)| figure(case, shortest)).collect()
}

fn timed<T>(what: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(what());
    start.elapsed()
}

/// One line: whether, why, and the figures.
impl fmt::Display for Antedating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { configured, on, figures } = self;
        f.write_str(if *on { "on" } else { "off" })?;
        if figures.is_empty() {
            return Ok(());
        }
        let paying = figures.iter().filter(|figure| figure.pays()).count();
        f.write_str(match (configured, paying) {
            (Antedate::On, 0) => ", though it does not pay on this CPU",
            (_, 0) => ", since it does not pay on this CPU",
            (Antedate::On, all) if all == figures.len() => ", and it pays on this CPU",
            (_, all) if all == figures.len() => ", since it pays on this CPU",
            (Antedate::On, _) => ", though on this CPU it does not pay for each length",
            (_, _) => ", since on this CPU it does not pay for each length",
        })?;
        f.write_str("; ns a frame without and with its keystream ready")?;
        let mut suite = "";
        for figure in figures {
            let AntedatedSpeed { ordinary_nanoseconds: without, antedated_nanoseconds: with, .. } = figure;
            match suite {
                "" => write!(f, ": {}", figure.suite)?,
                same if same == figure.suite => f.write_str(",")?,
                _ => write!(f, "; {}", figure.suite)?,
            }
            suite = &figure.suite;
            write!(f, " {without} and {with} for {} octets", figure.text_octets)?;
        }
        let longest = figures.iter().map(|figure| figure.prepare_nanoseconds).max().unwrap_or(0);
        write!(f, "; a frame waits {longest} ns at most for one in the making")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(octets_and_times: &[(usize, u64, u64)]) -> Vec<AntedatedSpeed> {
        let figure = |&(text_octets, ordinary_nanoseconds, antedated_nanoseconds): &_| AntedatedSpeed {
            suite: "gcm-aes-128".into(),
            text_octets,
            ordinary_nanoseconds,
            antedated_nanoseconds,
            prepare_nanoseconds: 2 * text_octets as u64,
        };
        octets_and_times.iter().map(figure).collect()
    }

    #[test]
    fn auto_makes_them_where_it_pays_for_each_length() {
        let (pays, not) = ((64, 431, 347), (64, 95, 103));
        // Nine tenths are enough.
        let (just, not_just) = ((512, 1000, 900), (512, 1000, 901));
        for (configured, measured, on, words) in [
            (Antedate::Auto, &[pays, just][..], true, "on, since it pays on this CPU; "),
            (
                Antedate::Auto,
                &[pays, not_just],
                false,
                "off, since on this CPU it does not pay for each length; ",
            ),
            (Antedate::Auto, &[not, not_just], false, "off, since it does not pay on this CPU; "),
            (Antedate::On, &[pays, just], true, "on, and it pays on this CPU; "),
            (
                Antedate::On,
                &[pays, not_just],
                true,
                "on, though on this CPU it does not pay for each length; ",
            ),
            (Antedate::On, &[not], true, "on, though it does not pay on this CPU; "),
        ] {
            let antedating = Antedating::of(configured, figures(measured));
            assert_eq!(antedating.on, on);
            assert!(antedating.to_string().starts_with(words), "{antedating}");
        }
        assert_eq!(Antedating::decide(Antedate::Off).to_string(), "off");
    }

    #[test]
    fn every_figure_stands_in_the_line() {
        let mut figures = figures(&[(64, 431, 347), (512, 2177, 1252)]);
        figures.push(AntedatedSpeed { suite: "gcm-aes-256".into(), ..figures[0].clone() });
        let antedating = Antedating::of(Antedate::Auto, figures);
        assert_eq!(
            antedating.to_string(),
            "on, since it pays on this CPU; ns a frame without and with its keystream ready: gcm-aes-128 431 and 347 for 64 octets, 2177 and 1252 for 512 octets; gcm-aes-256 431 and 347 for 64 octets; a frame waits 1024 ns at most for one in the making"
        );
        let json = serde_json::to_string(&antedating).unwrap();
        assert!(
            json.starts_with(r#"{"configured":"auto","on":true,"figures":[{"suite":"gcm-aes-128","#),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Antedating>(&json).unwrap(), antedating);
    }

    /// The measurement itself. How long it takes is not judged: this also runs under emulators.
    #[test]
    fn every_length_is_measured_with_each_key() {
        let figures = Antedating::decide(Antedate::Auto).figures;
        assert_eq!(figures.len(), SUITES.len() * TEXTS.len());
        for figure in figures {
            let times =
                [figure.ordinary_nanoseconds, figure.antedated_nanoseconds, figure.prepare_nanoseconds];
            assert!(times.iter().all(|nanoseconds| *nanoseconds > 1), "{figure:?}");
        }
    }
}
