//! `bench`: what the program costs and what it gains, measured on this machine.
//!
//! Every figure is compared with another one of the same run: all cases of a comparison stand ready side by side,
//! and each round measures each of them in turn, so that what else the machine does hits all alike. A ratio is the
//! median of the rounds' ratios. Absolute figures of a small or busy machine say little.
//!
//! | bench | module | compares |
//! |---|---|---|
//! | `antedate` | [`antedate`] | round trips through gateways that antedate with ordinary ones, with AES instructions and without |
//! | `fragment` | [`full_size`] | full-size frames over MTU 1500, fragmented, with the same over a jumbo path |
//! | | [`small`] | small frames, concatenated, with the same frames unprotected |
//! | | [`memory`] | protect and verify, with and without fragmentation, without any input or output |
//! | `fieldbus` | [`fieldbus`] | cyclic frames under the keys of 1 to 1024 relations with the paper's figures and with t_max |
//! | `fleet` | [`fleet`] | agents of 100 to 5,000 gateways on one etcd: what more of them cost |
//! | `link` | [`link`] | forwarding, round trips and CPU with a bridge, a bare forwarder, our engine, each suite |
//! | `overload` | [`overload`] | what arrives of more frames than there is room for, one way and both ways, and beside a stranger's: links with a bridge and a bare forwarder, sites with kernel VXLAN, cells with the forwarder |
//! | `tunnel` | [`tunnel`] | our site in its three modes with kernel VXLAN, alone and over WireGuard |
//! | `precompute` | [`precompute`] | ordinary ciphers with antedated ones, on a microcontroller and here |
//! | `suites` | [`suites`] | sealing and opening a frame with each cipher suite, with the bare call of the cipher's crate |

mod antedate;
pub mod cable;
pub mod fieldbus;
pub mod fleet;
pub mod forwarder;
pub mod full_size;
pub mod link;
pub mod memory;
pub mod overload;
pub mod precompute;
pub mod rivals;
pub mod samples;
pub mod small;
pub mod suites;
pub mod table;
pub mod test_bed;
pub mod tunnel;

use std::fmt::Display;
use std::time::Duration;

use ::bench::Row;

use crate::demo::pair::PairError;
use crate::programs::Programs;

/// Settings of a bench, and the receiver of its rows.
pub struct Bench<'b> {
    /// The programs to be run.
    pub programs: &'b Programs,
    /// Duration and number of measurements.
    pub effort: Effort,
    /// Texts, one of which a figure of `link` or `tunnel`, or a case of `overload`, must have in its name to be measured; none:
    /// all are.
    pub only: &'b [String],
    /// Told what is being measured.
    pub progress: &'b mut dyn FnMut(&dyn Display),
    /// Told every figure.
    pub figure: &'b mut dyn FnMut(Row),
}

/// Duration and number of measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Rounds of each comparison.
    pub rounds: usize,
    /// Duration of each throughput's measurement in each round.
    pub time: Duration,
    /// Round trips in each round.
    pub round_trips: u64,
}

impl Effort {
    /// Short rounds: about five minutes for `fragment`, ten for `link`.
    pub const QUICK: Self = Self { rounds: 5, time: Duration::from_millis(1500), round_trips: 300 };
    /// Long ones: about twelve minutes for `fragment`, thirty for `link`.
    pub const FULL: Self = Self { rounds: 7, time: Duration::from_secs(4), round_trips: 500 };
}

/// Between two round trips: longer than a gateway looks for frames before it sleeps. Without it some rounds would find
/// all gateways awake and others none, and the figures would be of two kinds.
const PAUSE: Duration = Duration::from_millis(1);

/// Why a bench failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The gateways failed.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// The laboratory failed, or traffic did not arrive.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// A TCP session on a box broke.
    #[error("a TCP session on a box: {0}")]
    Session(#[from] std::io::Error),
    /// Gateways in memory did not do as they should.
    #[error("gateways in memory: {0}")]
    Cells(String),
    /// Programs in the kernel did not do as they should.
    #[error("programs in the kernel: {0}")]
    Kernel(String),
    /// No figure is wanted.
    #[error("no figure has this name; use names of the table, such as `TCP, unprotected, af_xdp`")]
    Unknown,
    /// Nothing arrived, so there is nothing to compare.
    #[error("{0}: nothing arrived")]
    Silent(String),
}

impl Bench<'_> {
    fn wants(&self, figure: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| figure.contains(text.as_str()))
    }

    /// Measures what fragmentation costs and gains.
    ///
    /// # Errors
    /// The first thing that fails. Nothing is left behind.
    pub fn fragment(&mut self) -> Result<(), BenchError> {
        lab::require_root()?;
        memory::measure(self);
        full_size::measure(self)?;
        small::measure(self)
    }

    /// Measures the link as a whole, beside what stands around it.
    ///
    /// # Errors
    /// [`BenchError::Unknown`] if [`Bench::only`] leaves nothing; and the first thing that fails. Nothing is left behind.
    pub fn link(&mut self) -> Result<(), BenchError> {
        lab::require_root()?;
        link::measure(self)
    }

    /// Measures what arrives of more frames than there is room for.
    ///
    /// # Errors
    /// As [`Self::link`].
    pub fn overload(&mut self) -> Result<(), BenchError> {
        lab::require_root()?;
        overload::measure(self)
    }

    /// Measures round trips through gateways that antedate.
    ///
    /// # Errors
    /// As [`Self::fragment`].
    pub fn antedate(&mut self) -> Result<(), BenchError> {
        lab::require_root()?;
        antedate::measure(self)
    }

    /// Measures tunnels between plants.
    ///
    /// # Errors
    /// As [`Self::link`].
    pub fn tunnel(&mut self) -> Result<(), BenchError> {
        lab::require_root()?;
        tunnel::measure(self)
    }
}
