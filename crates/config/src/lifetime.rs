//! Lifetime of the PNs of a static key: 2^32 - 1 frames, and each crash uses up to a block of them.
//!
//! ```text
//! shortest frame, on the wire:  preamble 8 | 60 octets of the machine's frame + overhead | FCS 4 | gap 12
//! ```
//!
//! XPN suites have 2^64: at any rate that a wire carries they outlast the wire.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use pnstore::MOST_UNUSED_PNS;
use wire::Pn;

/// The speed that is assumed of an interface that tells none, in Mbit/s.
pub const ASSUMED_MBITS: u32 = 1000;

/// A usual load in frames a second: one cyclic relation of a millisecond.
pub const USUAL_FRAMES_A_SECOND: u64 = 1000;

/// The shortest Ethernet frame, without its FCS.
const SHORTEST_OCTETS: u64 = 60;
/// Preamble with start delimiter, FCS and gap.
pub(crate) const AROUND_OCTETS: u64 = 8 + 4 + 12;

/// Crashes after which the PNs of a key are used, if each costs as much as one under load can. A stop in order costs none.
pub const CRASHES: u64 = Pn::LAST_32.number() / MOST_UNUSED_PNS;

/// The speed of an interface in Mbit/s, if it tells one.
pub fn interface_mbits(interface: &str) -> Option<u32> {
    let text = std::fs::read_to_string(Path::new("/sys/class/net").join(interface).join("speed")).ok()?;
    // -1 and 2^32 - 1 are how drivers say that they do not know.
    text.trim().parse().ok().filter(|&mbits| mbits > 0 && mbits < u32::MAX)
}

/// Shortest frames a second that a wire carries, each `overhead` octets longer than a machine sends it.
pub const fn line_rate(mbits: u32, overhead: u64) -> u64 {
    mbits as u64 * 1_000_000 / 8 / (SHORTEST_OCTETS + overhead + AROUND_OCTETS)
}

/// Time that all PNs of a 32-bit suite last at this rate.
pub const fn at_rate(frames_a_second: u64) -> Duration {
    Duration::from_secs(Pn::LAST_32.number() / if frames_a_second == 0 { 1 } else { frames_a_second })
}

/// A time in one unit, rounded down.
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(365 * 86_400, "years"), (86_400, "days"), (3600, "hours"), (60, "minutes")];
        let seconds = self.0.as_secs();
        match UNITS.iter().find(|(unit, _)| seconds >= 2 * unit) {
            Some((unit, name)) => write!(f, "{} {name}", seconds / unit),
            None => write!(f, "{seconds} seconds"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabit_of_shortest_frames_lasts_an_hour() {
        // 10^9 bit/s, 8 bits an octet, 60 + 32 + 24 octets a frame.
        assert_eq!(line_rate(1000, 32), 1_077_586);
        assert_eq!(at_rate(line_rate(1000, 32)), Duration::from_secs(3985));
        assert_eq!(line_rate(100, 0), 148_809, "the rate that everybody knows");
        assert_eq!(CRASHES, 2047);
        assert_eq!(at_rate(0), Duration::from_secs(u64::from(u32::MAX)));
    }

    #[test]
    fn a_span_has_one_unit() {
        for (seconds, text) in [
            (0, "0 seconds"),
            (119, "119 seconds"),
            (120, "2 minutes"),
            (3985, "66 minutes"),
            (7200, "2 hours"),
            (172_799, "47 hours"),
            (4_294_967, "49 days"),
            (u64::from(u32::MAX), "136 years"),
        ] {
            assert_eq!(Span(Duration::from_secs(seconds)).to_string(), text);
        }
    }

    #[test]
    fn an_interface_that_is_not_there_tells_no_speed() {
        assert_eq!(interface_mbits("no-such-if"), None);
    }
}
