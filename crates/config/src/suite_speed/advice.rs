//! Advice about the suite of a link, out of figures alone.
//!
//! A suite is advised instead of the configured one if it
//!
//! - is sound: the standard's, ChaCha20-Poly1305 or AEGIS; MORUS never is, since its keystream is biased;
//! - has a key at least as long, and a PN as wide: who chose 256 bits or XPN had a reason;
//! - takes at most nine tenths of the time: less than that is noise. From an experimental suite any sound one leads
//!   away, however fast.
//!
//! The standard's own suites and the others are told apart, since a kernel or a switch at the other end has the
//! standard's alone.

use std::fmt;

use suite::CipherSuite;

use super::{SuiteSpeeds, TEXT_OCTETS};

/// A suite and the nanoseconds that a frame takes with it.
type Timed = (CipherSuite, u64);

/// The configured suite of a link, and what is faster. Prints as one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advice {
    configured: CipherSuite,
    /// None if it was not measured here.
    nanoseconds: Option<u64>,
    /// The fastest of the standard's suites, if it is faster than what is configured.
    standard: Option<Timed>,
    /// The fastest of ours, if it is faster than what is configured and the standard's.
    ours: Option<Timed>,
}

impl Advice {
    /// Advice about a link with suite `configured`.
    pub fn new(speeds: &SuiteSpeeds, configured: CipherSuite) -> Self {
        let nanoseconds = speeds.nanoseconds(configured);
        let fastest = |standard: bool| {
            let suites = CipherSuite::ALL.into_iter().filter(|suite| {
                suite.is_standard() == standard
                    && !suite.is_experimental()
                    && *suite != configured
                    && suite.key_octets() >= configured.key_octets()
                    && suite.is_xpn() == configured.is_xpn()
            });
            suites.filter_map(|suite| Some((suite, speeds.nanoseconds(suite)?))).min_by_key(|(_, ns)| *ns)
        };
        let leads_away = |(_, ns): &Timed| configured.is_experimental() || is_faster(*ns, nanoseconds);
        let standard = fastest(true).filter(leads_away);
        let ours = fastest(false)
            .filter(leads_away)
            .filter(|(_, ns)| standard.is_none_or(|(_, other)| is_faster(*ns, Some(other))));
        Self { configured, nanoseconds, standard, ours }
    }

    /// Whether there is another suite to consider.
    pub const fn is_to_change(&self) -> bool {
        self.standard.is_some() || self.ours.is_some()
    }
}

/// By a tenth at least. What was not measured here is no reason to leave it.
fn is_faster(nanoseconds: u64, than: Option<u64>) -> bool {
    than.is_some_and(|other| 10 * nanoseconds <= 9 * other)
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { configured, nanoseconds, standard, ours } = self;
        match nanoseconds {
            Some(ns) => write!(f, "{configured} takes {ns} ns for {TEXT_OCTETS} octets on this CPU")?,
            None => write!(f, "{configured} was not measured")?,
        }
        if !self.is_to_change() {
            return if nanoseconds.is_some() {
                f.write_str(": no secure suite of its kind is faster")
            } else {
                Ok(())
            };
        }
        f.write_str("; consider ")?;
        if let Some(timed) = standard {
            self.write_timed(f, *timed)?;
            f.write_str(", which other MACsec stations may have too")?;
        }
        if let Some(timed) = ours {
            f.write_str(if standard.is_some() { ", or " } else { "" })?;
            self.write_timed(f, *timed)?;
            f.write_str(", if Frameward stands at both ends")?;
        }
        Ok(())
    }
}

impl Advice {
    fn write_timed(&self, f: &mut fmt::Formatter<'_>, (suite, ns): Timed) -> fmt::Result {
        write!(f, "{suite} ({ns} ns")?;
        if suite.key_octets() != self.configured.key_octets() {
            write!(f, ", with a key of {} bits", 8 * suite.key_octets())?;
        }
        f.write_str(")")
    }
}
