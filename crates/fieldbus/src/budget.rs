//! Time budget of a frame: equations 1 to 3 of the paper (section IV).
//!
//! ```text
//!  on the line:  preamble 8, DA 6, SA 6, VLAN 4, EtherType 2 | header 7 | payload 44 to 1444 | ICV 16 | FCS 4 | gap 12
//!                └──────────── 26 ───────────────────────────┘
//!  (1)  l = 26 + (7 + payload + 16) + 4 + 12       octets, 109 to 1509
//!  (2)  N = floor(load * rate * cycle / l)         relations of which each sends one frame each way in a cycle
//!  (3)  t_max = cycle / 2N                         for each frame, since N go out and N come in
//! ```
//!
//! Only N is rounded, as in the paper, and times to whole picoseconds, to the safe side.
//!
//! Our frames have the paper's length: the header is FrameID 2, KeyID 1 and Seq 4, the ICV 16
//! (`wire::fieldbus`). A frame without VLAN tag is 4 octets shorter than the equation says. The payload
//! stands behind the FrameID: PROFINET's 40 to 1440 octets of IO data and 4 of status.
//!
//! The paper's cells stand in one plant. Between plants a [`Path`] has its part too:
//!
//! ```text
//!  on an uplink: Ethernet 26, IPv6 40, UDP 8 | identifier 16 | payload 44 to 1444 | ICV 16 | FCS 4 | gap 12
//!  receiver:     (lost in a row + 1) cycle + jitter <= data hold factor * cycle
//! ```

use core::fmt;
use core::time::Duration;

use wire::fieldbus::{HEADER_OCTETS, ICV_OCTETS};

/// Preamble and start delimiter 8, addresses 12, VLAN tag 4, EtherType 2.
const ETHERNET_HEADER: u32 = 26;
/// Frame check sequence 4, gap between two frames 12.
const FCS_AND_GAP: u32 = 4 + 12;
/// IPv6 header, UDP header, and a site's identifier in the place of addresses, EtherType, FrameID, KeyID and Seq. With IPv4 a packet is 20
/// octets shorter.
const TUNNEL: u32 = 40 + 8 + 16;
/// Octets of FrameID, KeyID, Seq and ICV.
const FIELDBUS: u32 = (HEADER_OCTETS + ICV_OCTETS) as u32;

const MILLION: u32 = 1_000_000;
const NANOSECONDS_IN_A_SECOND: u128 = 1_000_000_000;
const PICOSECONDS_IN_A_NANOSECOND: u64 = 1000;

/// Payload of a frame, in octets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Payload(u16);

/// Sending interval of a relation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cycle(Duration);

/// Bits per second of a link, in each direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkRate(u64);

/// Share of a link for cyclic frames, in millionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Load(u32);

/// Octets of a protected frame on the line, with everything that keeps others from sending (equation 1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LineOctets(pub u32);

/// A time in whole picoseconds: `Duration`'s nanoseconds are too coarse for one frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Picoseconds(pub u64);

/// A link with its budget for cyclic frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Sending interval of each relation.
    pub cycle: Cycle,
    /// Rate of the link.
    pub link: LinkRate,
    /// Share for cyclic frames.
    pub load: Load,
}

/// A path between the gateways of a cell: a provider's network, the internet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Time of a frame from one gateway to the other, at the least.
    pub delay: Duration,
    /// Time of a slow frame above that: of the slowest that is to be in time.
    pub jitter: Duration,
    /// Cycles without a frame after which a device takes its peer for gone (PROFINET: data hold factor).
    pub data_hold: u16,
    /// Rate of the slower of the two uplinks.
    pub uplink: LinkRate,
}

/// Error N = 0: the share does not carry a single relation in that cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRelation {
    /// Shortest cycle that carries one, rounded up to a nanosecond. May exceed any [`Cycle`].
    pub shortest: Duration,
}

impl Payload {
    /// Minimum: 40 octets of IO data and 4 of status.
    pub const MIN: Self = Self(44);
    /// Maximum: 1440 and 4.
    pub const MAX: Self = Self(1444);

    /// A payload of `octets`; `None` if PROFINET RT has no such frames.
    pub const fn new(octets: u16) -> Option<Self> {
        if octets < Self::MIN.0 || octets > Self::MAX.0 { None } else { Some(Self(octets)) }
    }

    /// In octets.
    pub const fn octets(self) -> u16 {
        self.0
    }

    /// Octets of its frame on the line (equation 1).
    pub const fn line_octets(self) -> LineOctets {
        LineOctets(ETHERNET_HEADER + FIELDBUS + self.0 as u32 + FCS_AND_GAP)
    }

    /// Octets of its packet on an uplink, between sites in identifier mode.
    pub const fn uplink_octets(self) -> LineOctets {
        LineOctets(ETHERNET_HEADER + TUNNEL + self.0 as u32 + ICV_OCTETS as u32 + FCS_AND_GAP)
    }
}

impl Cycle {
    /// 31.25 us.
    pub const SHORTEST: Self = Self(Duration::from_nanos(31_250));
    /// 512 ms: the shortest, doubled 14 times.
    pub const LONGEST: Self = Self(Duration::from_millis(512));

    /// A cycle; `None` outside of 31.25 us to 512 ms.
    pub const fn new(time: Duration) -> Option<Self> {
        let nanoseconds = time.as_nanos();
        if nanoseconds < Self::SHORTEST.0.as_nanos() || nanoseconds > Self::LONGEST.0.as_nanos() {
            return None;
        }
        Some(Self(time))
    }

    /// As a time.
    pub const fn time(self) -> Duration {
        self.0
    }

    /// 31.25 us, 62.5 us, and so on to 512 ms: each the double of the one before, as PROFINET's reductions are.
    pub fn doubled() -> impl Iterator<Item = Self> {
        core::iter::successors(Some(Self::SHORTEST), |cycle| Self::new(cycle.0 * 2))
    }

    const fn nanoseconds(self) -> u64 {
        // At most 512 ms.
        self.0.as_nanos() as u64
    }
}

impl LinkRate {
    /// A rate; `None` for 0.
    pub const fn new(bits_per_second: u64) -> Option<Self> {
        if bits_per_second == 0 { None } else { Some(Self(bits_per_second)) }
    }

    /// In bits.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl Load {
    /// A share in millionths; `None` for 0 and above 100 %.
    pub const fn from_millionths(millionths: u32) -> Option<Self> {
        if millionths == 0 || millionths > MILLION { None } else { Some(Self(millionths)) }
    }

    /// In parts of a million.
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

impl Picoseconds {
    /// From nanoseconds, saturating.
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self(nanoseconds.saturating_mul(PICOSECONDS_IN_A_NANOSECOND))
    }

    /// In nanoseconds, with the fraction.
    pub fn nanoseconds(self) -> f64 {
        self.0 as f64 / PICOSECONDS_IN_A_NANOSECOND as f64
    }

    /// Ratio to `other`: the headroom of a task that takes `other`.
    pub fn times(self, other: Self) -> f64 {
        self.0 as f64 / other.0 as f64
    }
}

impl Budget {
    /// Number of relations with this payload that the link carries (equation 2); may be 0.
    pub fn relations(&self, payload: Payload) -> u64 {
        self.carried(self.link, payload.line_octets())
    }

    /// Number of relations that an uplink carries between sites, with the same share of its rate.
    pub fn uplink_relations(&self, uplink: LinkRate, payload: Payload) -> u64 {
        self.carried(uplink, payload.uplink_octets())
    }

    fn carried(&self, rate: LinkRate, octets: LineOctets) -> u64 {
        let bits = u128::from(rate.0) * u128::from(self.cycle.nanoseconds()) * u128::from(self.load.0);
        // No link exceeds 64 bits here: 2^64 bits a second are 2^40 frames in half a second.
        u64::try_from(bits / frame_bits(octets)).unwrap_or(u64::MAX)
    }

    /// Maximum time for each of their frames (equation 3).
    ///
    /// # Errors
    /// [`NoRelation`] where there is none.
    pub fn longest(&self, payload: Payload) -> Result<Picoseconds, NoRelation> {
        let frames = 2 * u128::from(self.relations(payload));
        if frames == 0 {
            let each_nanosecond = u128::from(self.link.0) * u128::from(self.load.0);
            let shortest = frame_bits(payload.line_octets()).div_ceil(each_nanosecond);
            return Err(NoRelation {
                shortest: Duration::from_nanos(u64::try_from(shortest).unwrap_or(u64::MAX)),
            });
        }
        let cycle = u128::from(Picoseconds::from_nanoseconds(self.cycle.nanoseconds()).0);
        Ok(Picoseconds((cycle / frames) as u64))
    }

    /// Number of relations that a CPU protects if it takes `each` for a relation's two frames in a cycle, one
    /// out and one in: `floor(cycle / each)`, equation 3 reversed.
    pub fn relations_in_time(&self, each: Picoseconds) -> u64 {
        let cycle = Picoseconds::from_nanoseconds(self.cycle.nanoseconds());
        cycle.0.checked_div(each.0).unwrap_or(u64::MAX)
    }
}

/// Bits of a frame, in the unit of `rate * nanoseconds * millionths`.
const fn frame_bits(octets: LineOctets) -> u128 {
    octets.0 as u128 * 8 * NANOSECONDS_IN_A_SECOND * MILLION as u128
}

impl Path {
    /// Age of the oldest data that is in time.
    pub fn oldest(&self) -> Duration {
        self.delay.saturating_add(self.jitter)
    }

    /// Number of frames in a row that may be lost before a device takes its peer for gone. `None` if jitter alone can be too much.
    pub fn losses_in_a_row(&self, cycle: Cycle) -> Option<u64> {
        let hold = u128::from(self.data_hold) * u128::from(cycle.nanoseconds());
        let left = hold.checked_sub(self.jitter.as_nanos())? / u128::from(cycle.nanoseconds());
        // At most the factor.
        left.checked_sub(1).map(|losses| losses as u64)
    }
}

impl fmt::Display for NoRelation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let microseconds = self.shortest.as_secs_f64() * 1e6;
        write!(f, "not one relation fits; a cycle of {microseconds:.3} us carries one")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use proptest::prelude::*;
    use wire::fieldbus::{FRAME_ID_OCTETS, FrameId, Header, KeyId, Seq};

    use super::*;

    fn budget(cycle: Duration, bits_per_second: u64, load: f64) -> Budget {
        Budget {
            cycle: Cycle::new(cycle).unwrap(),
            link: LinkRate::new(bits_per_second).unwrap(),
            load: Load::from_millionths((load * 1e6) as u32).unwrap(),
        }
    }

    /// The paper's own example: half of 100 Mbit/s, cycles of 1 ms.
    fn paper() -> Budget {
        budget(Duration::from_millis(1), 100_000_000, 0.5)
    }

    /// Every number of the paper's section IV that follows from the equations.
    #[test]
    fn the_paper_s_numbers() {
        // (payload, l, N, t_max in us with the paper's two digits)
        for (payload, line, relations, longest) in [(44, 109, 57, "8.77"), (1444, 1509, 4, "125.00")] {
            let payload = Payload::new(payload).unwrap();
            assert_eq!(payload.line_octets(), LineOctets(line));
            assert_eq!(paper().relations(payload), relations);
            let t_max = paper().longest(payload).unwrap();
            assert_eq!(std::format!("{:.2}", t_max.nanoseconds() / 1e3), longest);
        }
        assert_eq!(paper().longest(Payload::MAX), Ok(Picoseconds(125_000_000)));
        assert_eq!(paper().longest(Payload::MIN), Ok(Picoseconds(8_771_929)), "1 ms / 114, rounded down");
        assert_eq!((Payload::new(43), Payload::new(1445)), (None, None));
    }

    /// The frames that `wire::fieldbus` writes have the lengths of the paper's figure 3.
    #[test]
    fn our_frames_are_as_long_as_the_paper_s() {
        let header = Header { frame_id: FrameId(0x8001), key_id: KeyId(0), seq: Some(Seq::FIRST) };
        assert_eq!(header.encode().len(), 7, "fieldbus header 2, key identifier 1, sequence counter 4");
        assert_eq!((FRAME_ID_OCTETS, ICV_OCTETS), (2, 16));
        for payload in [Payload::MIN, Payload::MAX] {
            // As a port sees it: addresses, VLAN tag, EtherType, header, payload, ICV.
            let ours = 12 + 4 + 2 + header.encode().len() + usize::from(payload.octets()) + ICV_OCTETS;
            // Preamble with its delimiter, FCS and gap are the line's.
            assert_eq!(payload.line_octets().0 as usize, 8 + ours + 4 + 12);
        }
    }

    /// `cyclic_frames_cross_and_their_headers_do_not_show` in crate `tunnel` has packets of this length.
    #[test]
    fn a_packet_has_an_identifier_where_a_frame_has_its_headers() {
        assert_eq!(Payload::MIN.uplink_octets(), LineOctets(26 + 40 + 8 + (16 + 44 + 16) + 4 + 12));
        let uplink = LinkRate::new(10_000_000).unwrap();
        // 5 Mbit/s of 166 octets, 3.76 in a millisecond.
        assert_eq!(paper().uplink_relations(uplink, Payload::MIN), 3);
        assert_eq!(paper().uplink_relations(uplink, Payload::MAX), 0);
    }

    #[test]
    fn a_path_may_lose_what_the_data_hold_time_leaves() {
        let cycle = Cycle::new(Duration::from_millis(4)).unwrap();
        let path = |jitter_us, data_hold| Path {
            delay: Duration::from_millis(20),
            jitter: Duration::from_micros(jitter_us),
            data_hold,
            uplink: LinkRate::new(1).unwrap(),
        };
        for (jitter_us, data_hold, losses) in [
            (0, 3, Some(2)),
            (4000, 3, Some(1)),
            (4001, 3, Some(0)),
            (8000, 3, Some(0)),
            (8001, 3, None),
            (u64::MAX / 1000, 3, None),
            (0, 1, Some(0)),
            (0, 0, None),
            (0, u16::MAX, Some(65_534)),
        ] {
            assert_eq!(path(jitter_us, data_hold).losses_in_a_row(cycle), losses, "{jitter_us} {data_hold}");
        }
        assert_eq!(path(3000, 3).oldest(), Duration::from_millis(23));
    }

    #[test]
    fn where_not_even_one_relation_fits_the_cycle_that_carries_one_is_told() {
        let tight = budget(Cycle::SHORTEST.time(), 100_000_000, 0.5);
        assert_eq!(tight.relations(Payload::MIN), 1);
        assert_eq!(tight.longest(Payload::MIN), Ok(Picoseconds(15_625_000)));
        assert_eq!(tight.relations(Payload::MAX), 0);
        // 1509 octets at 50 Mbit/s.
        let none = tight.longest(Payload::MAX).unwrap_err();
        assert_eq!(none.shortest, Duration::from_nanos(241_440));
        assert_eq!(std::format!("{none}"), "not one relation fits; a cycle of 241.440 us carries one");
        // A link of one bit a second: told too, though no relation has such a cycle.
        let slow = budget(Cycle::LONGEST.time(), 1, 0.000_001);
        assert_eq!(slow.longest(Payload::MIN).unwrap_err().shortest, Duration::from_secs(872_000_000));
    }

    #[test]
    fn cycles_double_from_the_shortest_to_the_longest() {
        let cycles: Vec<_> = Cycle::doubled().collect();
        assert_eq!((cycles.len(), cycles[0], cycles[14]), (15, Cycle::SHORTEST, Cycle::LONGEST));
        assert_eq!(cycles[5].time(), Duration::from_millis(1));
        assert_eq!(Cycle::new(Duration::from_nanos(31_249)), None);
        assert_eq!(Cycle::new(Duration::from_nanos(512_000_001)), None);
        assert_eq!((Load::from_millionths(0), Load::from_millionths(1_000_001)), (None, None));
        assert_eq!(LinkRate::new(0), None);
        // The fastest link that can be said overflows nothing.
        let all = budget(Cycle::LONGEST.time(), u64::MAX, 1.0);
        assert!(all.relations(Payload::MIN) > 1 << 40);
        assert_eq!(all.longest(Payload::MIN), Ok(Picoseconds(0)), "less than a picosecond");
        assert_eq!(all.relations_in_time(Picoseconds(0)), u64::MAX);
    }

    proptest! {
        /// Equation 2 as it stands: N frames fit into the share of the cycle, N + 1 do not; and equation 3: as many as N
        /// fit into the cycle at t_max, and it is the longest such time.
        #[test]
        fn the_equations_hold(
            cycle in 31_250u64..=512_000_000, rate in 1_000_000u64..=100_000_000_000, load in 1u32..=1_000_000,
            octets in 44u16..=1444,
        ) {
            let cycle = Cycle::new(Duration::from_nanos(cycle)).unwrap();
            let budget =
                Budget { cycle, link: LinkRate::new(rate).unwrap(), load: Load::from_millionths(load).unwrap() };
            let payload = Payload::new(octets).unwrap();
            let relations = budget.relations(payload);
            let line = f64::from(26 + 7 + u32::from(octets) + 16 + 4 + 12) * 8.0;
            let share = f64::from(load) / 1e6 * rate as f64 * cycle.time().as_secs_f64();
            prop_assert!(relations as f64 * line <= share * (1.0 + 1e-9));
            prop_assert!((relations + 1) as f64 * line > share * (1.0 - 1e-9));
            let picoseconds = cycle.time().as_nanos() as u64 * 1000;
            match budget.longest(payload) {
                Ok(Picoseconds(longest)) => {
                    prop_assert!(relations > 0);
                    prop_assert!(2 * relations * longest <= picoseconds);
                    prop_assert!(2 * relations * (longest + 1) > picoseconds);
                    // A CPU with the maximum time per frame protects the maximum number of relations.
                    if longest > 0 {
                        prop_assert!(budget.relations_in_time(Picoseconds(2 * longest)) >= relations);
                    }
                }
                Err(NoRelation { shortest }) => {
                    prop_assert_eq!(relations, 0);
                    prop_assert!(shortest > cycle.time());
                    if let Some(cycle) = Cycle::new(shortest) {
                        prop_assert_eq!(Budget { cycle, ..budget }.relations(payload), 1);
                    }
                }
            }
        }
    }
}
