//! Speed of this CPU with each cipher suite, measured at a start, and the fastest suite that is sound.
//!
//! ```text
//!  measure, about 40 ms ──▶ SuiteSpeeds: ns a frame, by suite ──▶ Advice for a link: configured, and what is faster
//! ```
//!
//! It is the measurement of `frameward-lab bench suites`, short and at one length: bursts of 64 frames with 512 octets of
//! text, sealed and opened ([`Burst`]); the suites take turns, and the shortest time of each counts, since what else
//! the machine does only ever adds to it. A figure is the mean of sealing and opening one frame.
//!
//! Left out on purpose: choosing. A static key is for the suite that both ends are configured for, so a person decides.

mod advice;
mod aes;
mod antedating;

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use speed::burst::BURST;
use speed::burst::{Burst, prepared};
use suite::CipherSuite;

pub use advice::Advice;
pub use aes::AesInstructions;
pub use antedating::{AntedatedSpeed, Antedating};

/// Octets of text of the frames that are measured.
pub const TEXT_OCTETS: usize = 512;
/// Duration of the measurement, unless [`FEWEST_ROUNDS`] take longer: then that long. A CPU that seals a frame in 10 us
/// takes 5 ms for a round.
const TIME: Duration = Duration::from_millis(40);
const FEWEST_ROUNDS: usize = 3;

/// Time that a frame of 512 octets takes on this CPU, for each suite that can be judged here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SuiteSpeeds {
    /// Whether the CPU has AES instructions, and the ciphers may use them.
    pub aes_instructions: AesInstructions,
    /// Octets of text of the frames.
    pub text_octets: usize,
    /// The suites, the fastest first. AEGIS is left out if AES instructions are masked: its library uses them all the
    /// same, so its figure would be that of another CPU.
    pub suites: Vec<SuiteSpeed>,
}

/// Time that a frame takes with a suite.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SuiteSpeed {
    /// The suite's name.
    pub suite: String,
    /// Nanoseconds to seal it or to open it, the mean of both, rounded.
    pub nanoseconds: u64,
}

/// Measures all suites: takes about 40 ms, on a slow CPU a little more.
pub fn measure() -> SuiteSpeeds {
    let aes_instructions = AesInstructions::of_this_cpu();
    let heeded = |suite: &CipherSuite| {
        aes_instructions != AesInstructions::Masked
            || !matches!(suite, CipherSuite::Aegis128L | CipherSuite::Aegis256)
    };
    // The XPN suites are the same ciphers with other nonces.
    let measured = CipherSuite::ALL.into_iter().filter(|suite| !suite.is_xpn()).filter(heeded);
    let mut ciphers: Vec<_> = measured.map(|suite| (suite, prepared(suite), [Duration::MAX; 2])).collect();
    let mut burst = Burst::new(TEXT_OCTETS);
    let (start, mut rounds) = (Instant::now(), 0);
    while rounds < FEWEST_ROUNDS || start.elapsed() < TIME {
        for (_, key, shortest) in &mut ciphers {
            let begin = Instant::now();
            burst.seal(key);
            let middle = Instant::now();
            burst.open(key);
            let times = [middle - begin, middle.elapsed()];
            *shortest = [shortest[0].min(times[0]), shortest[1].min(times[1])];
        }
        rounds += 1;
    }
    let per_frame = |[seal, open]: [Duration; 2]| (seal + open).as_nanos() as f64 / (2 * BURST) as f64;
    SuiteSpeeds::new(
        aes_instructions,
        ciphers.into_iter().map(|(suite, _, shortest)| (suite, per_frame(shortest).round() as u64)),
    )
}

impl SuiteSpeeds {
    /// Speeds out of figures: nanoseconds by suite, of those without XPN, which have their figures from the others.
    pub fn new(
        aes_instructions: AesInstructions,
        figures: impl IntoIterator<Item = (CipherSuite, u64)>,
    ) -> Self {
        let mut suites: Vec<_> = figures
            .into_iter()
            .map(|(suite, nanoseconds)| SuiteSpeed { suite: suite.name().into(), nanoseconds })
            .collect();
        suites.sort_by_key(|speed| speed.nanoseconds);
        Self { aes_instructions, text_octets: TEXT_OCTETS, suites }
    }

    /// Nanoseconds a frame takes with `suite`; none if that was not measured here.
    pub fn nanoseconds(&self, suite: CipherSuite) -> Option<u64> {
        let same_cipher = match suite {
            CipherSuite::GcmAesXpn128 => CipherSuite::GcmAes128,
            CipherSuite::GcmAesXpn256 => CipherSuite::GcmAes256,
            CipherSuite::ChaCha20Poly1305Xpn => CipherSuite::ChaCha20Poly1305,
            other => other,
        };
        self.suites.iter().find(|speed| speed.suite == same_cipher.name()).map(|speed| speed.nanoseconds)
    }
}

/// One line: the figures of the sound suites, the fastest first, and what this CPU lacks.
impl fmt::Display for SuiteSpeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ns for {} octets on this CPU", self.text_octets)?;
        match self.aes_instructions {
            AesInstructions::Present => {}
            AesInstructions::Absent => write!(f, ", which has no AES instructions")?,
            AesInstructions::Masked => {
                write!(f, ", with its AES instructions masked (without AEGIS, which ignores the mask)")?
            }
        }
        let sound = |speed: &&SuiteSpeed| {
            speed.suite.parse().is_ok_and(|suite: CipherSuite| !suite.is_experimental())
        };
        for (number, SuiteSpeed { suite, nanoseconds }) in self.suites.iter().filter(sound).enumerate() {
            write!(f, "{} {suite} {nanoseconds}", if number == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
