//! The fate of a frame: decided by seed, direction and number alone, without a clock or a socket.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::DirectionCounters;
use crate::Error;

/// Impairments of the wire. Each share is a probability from 0 to 1, drawn for each frame by itself. The default is a
/// perfect wire.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairments {
    /// The same seed and the same traffic meet the same fate.
    pub seed: u64,
    /// Share of frames lost.
    pub loss: f64,
    /// Share of frames sent twice.
    pub duplicate: f64,
    /// Share of frames in which one bit, anywhere, is flipped.
    pub corrupt: f64,
    /// Share of frames held back.
    pub reorder: f64,
    /// Behind how many following frames at most a frame is held back; at least 1 if any are.
    pub reorder_by: u32,
}

impl Impairments {
    fn check(&self) -> Result<(), Error> {
        let shares = [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
            ("reorder", self.reorder),
        ];
        for (name, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return Err(Error::Unexpected(format!("{name} = {share} is no share: give 0 to 1")));
            }
        }
        if self.reorder > 0.0 && self.reorder_by == 0 {
            return Err(Error::Unexpected("reorder_by = 0 reorders nothing: give 1 or more".into()));
        }
        Ok(())
    }
}

/// The draw for a frame.
#[derive(Clone, Copy)]
enum Draw {
    Loss,
    Duplicate,
    Corrupt,
    Bit,
    Reorder,
    Distance,
}

/// Draws for one frame; one more than the last [`Draw`].
const DRAWS: u64 = Draw::Distance as u64 + 1;

/// One direction's fate.
#[derive(Debug)]
pub(super) struct Impairer {
    impairments: Impairments,
    seed: u64,
    /// Number of the next frame, from 0.
    next: u64,
    /// Frames held back, by the number of the frame behind which they leave, then by their own.
    held: BTreeMap<(u64, u64), Vec<u8>>,
}

impl Impairer {
    pub(super) fn new(impairments: Impairments, direction: u64) -> Result<Impairer, Error> {
        impairments.check()?;
        let seed = split_mix(impairments.seed, direction);
        Ok(Impairer { impairments, seed, next: 0, held: BTreeMap::new() })
    }

    /// Appends to `leaving` what leaves now that `frame` has arrived: itself, its copy, and those held back that it
    /// was the last to overtake. Bound: 2 + `reorder_by` frames.
    pub(super) fn pass<'f>(
        &mut self,
        frame: &'f mut [u8],
        leaving: &mut Vec<Cow<'f, [u8]>>,
        counters: &mut DirectionCounters,
    ) {
        let number = self.next;
        self.next += 1;
        counters.received += 1;
        if self.happens(number, Draw::Loss, self.impairments.loss) {
            counters.lost += 1;
        } else {
            let copy =
                self.happens(number, Draw::Duplicate, self.impairments.duplicate).then(|| frame.to_vec());
            counters.duplicated += u64::from(copy.is_some());
            if self.happens(number, Draw::Corrupt, self.impairments.corrupt) && !frame.is_empty() {
                let bit = self.below(number, Draw::Bit, frame.len() as u64 * 8) as usize;
                frame[bit / 8] ^= 1 << (bit % 8);
                counters.corrupted += 1;
            }
            if self.happens(number, Draw::Reorder, self.impairments.reorder) {
                let behind = 1 + self.below(number, Draw::Distance, u64::from(self.impairments.reorder_by));
                self.held.insert((number + behind, number), frame.to_vec());
                counters.reordered += 1;
            } else {
                leaving.push(Cow::Borrowed(frame));
            }
            leaving.extend(copy.map(Cow::Owned));
        }
        while let Some(held) = self.held.first_entry().filter(|held| held.key().0 <= number) {
            leaving.push(Cow::Owned(held.remove()));
        }
    }

    /// Appends all that is held back, in the order in which it was due.
    pub(super) fn release_due(&mut self, leaving: &mut Vec<Cow<'_, [u8]>>) {
        leaving.extend(std::mem::take(&mut self.held).into_values().map(Cow::Owned));
    }

    fn draw(&self, number: u64, draw: Draw) -> u64 {
        split_mix(self.seed, number * DRAWS + draw as u64)
    }

    fn happens(&self, number: u64, draw: Draw, share: f64) -> bool {
        // 53 bits are what an f64 holds exactly; 1.0 is never reached, so a share of 1 is always.
        ((self.draw(number, draw) >> 11) as f64) < share * (1u64 << 53) as f64
    }

    /// A number from 0 to `bound` - 1.
    fn below(&self, number: u64, draw: Draw, bound: u64) -> u64 {
        ((u128::from(self.draw(number, draw)) * u128::from(bound)) >> 64) as u64
    }
}

/// The output of SplitMix64 (Steele, Lea, Flood 2014) at `position`: any of them without those before it.
fn split_mix(seed: u64, position: u64) -> u64 {
    let mut z = seed.wrapping_add(position.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: u64 = 20_000;

    /// Sends numbered frames through and lets all go at the end.
    fn through(impairments: Impairments, direction: u64) -> (Vec<Vec<u8>>, DirectionCounters) {
        let mut impairer = Impairer::new(impairments, direction).unwrap();
        let (mut out, mut counters) = (Vec::new(), DirectionCounters::default());
        for number in 0..FRAMES {
            let mut frame = number.to_be_bytes();
            let mut leaving = Vec::new();
            impairer.pass(&mut frame, &mut leaving, &mut counters);
            assert!(leaving.len() <= 2 + impairments.reorder_by as usize);
            out.extend(leaving.into_iter().map(Cow::into_owned));
        }
        let mut leaving = Vec::new();
        impairer.release_due(&mut leaving);
        out.extend(leaving.into_iter().map(Cow::into_owned));
        (out, counters)
    }

    fn numbers(frames: &[Vec<u8>]) -> Vec<u64> {
        frames.iter().map(|frame| u64::from_be_bytes(frame[..].try_into().unwrap())).collect()
    }

    /// Within five standard deviations of a binomial distribution.
    fn about(count: u64, share: f64) -> bool {
        let all = FRAMES as f64;
        (count as f64 - all * share).abs() < 5.0 * (all * share * (1.0 - share)).sqrt() + 0.5
    }

    #[test]
    fn the_generator_is_split_mix() {
        // The reference's first outputs for seed 1234567.
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([0, 1, 2].map(|position| split_mix(1_234_567, position)), expected);
    }

    #[test]
    fn senseless_impairments_are_refused() {
        let good =
            Impairments { loss: 1.0, duplicate: 0.0, reorder: 0.1, reorder_by: 1, ..Default::default() };
        assert!(Impairer::new(good, 0).is_ok());
        for bad in [
            Impairments { loss: -0.1, ..good },
            Impairments { duplicate: 1.1, ..good },
            Impairments { corrupt: f64::NAN, ..good },
            Impairments { reorder: f64::INFINITY, ..good },
            Impairments { reorder_by: 0, ..good },
        ] {
            assert!(Impairer::new(bad, 0).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn shares_of_none_and_of_all() {
        let (out, counters) = through(Impairments::default(), 0);
        assert_eq!(numbers(&out), (0..FRAMES).collect::<Vec<_>>());
        assert_eq!(counters, DirectionCounters { received: FRAMES, ..Default::default() });
        let (out, counters) = through(Impairments { loss: 1.0, duplicate: 1.0, ..Default::default() }, 0);
        assert_eq!((out.len(), counters.lost, counters.duplicated), (0, FRAMES, 0));
        let (out, counters) = through(Impairments { duplicate: 1.0, ..Default::default() }, 0);
        assert_eq!(numbers(&out), (0..FRAMES).flat_map(|number| [number; 2]).collect::<Vec<_>>());
        assert_eq!(counters.duplicated, FRAMES);
    }

    #[test]
    fn each_share_is_kept_by_itself_and_together() {
        let impairments =
            Impairments { seed: 7, loss: 0.1, duplicate: 0.05, corrupt: 0.2, reorder: 0.3, reorder_by: 8 };
        let (out, counters) = through(impairments, 0);
        assert!(about(counters.lost, 0.1), "{counters:?}");
        // Only what is not lost meets the rest.
        for (count, share) in
            [(counters.duplicated, 0.05), (counters.corrupted, 0.2), (counters.reordered, 0.3)]
        {
            assert!(about(count, share * 0.9), "{counters:?}");
        }
        assert_eq!(out.len() as u64, counters.received - counters.lost + counters.duplicated);
    }

    #[test]
    fn a_corrupted_frame_has_one_bit_flipped_and_any_bit_can_be() {
        let (out, counters) = through(Impairments { seed: 1, corrupt: 1.0, ..Default::default() }, 0);
        let mut flipped = [0u32; 64];
        for (sent, seen) in (0..FRAMES).zip(numbers(&out)) {
            assert_eq!((sent ^ seen).count_ones(), 1);
            flipped[(sent ^ seen).trailing_zeros() as usize] += 1;
        }
        assert_eq!(counters.corrupted, FRAMES);
        assert!(flipped.iter().all(|count| (200..450).contains(count)), "{flipped:?}");
    }

    #[test]
    fn a_copy_is_clean_and_is_not_held_back() {
        let all =
            Impairments { duplicate: 1.0, corrupt: 1.0, reorder: 1.0, reorder_by: 1, ..Default::default() };
        let (out, _) = through(all, 0);
        let seen = numbers(&out);
        // Each frame leaves behind the copy of the next one, the last one at the end.
        for number in 0..FRAMES {
            let at = if number == 0 { 0 } else { 2 * number as usize - 1 };
            assert_eq!(seen[at], number);
            assert_eq!(
                (seen[2 * number as usize + if number + 1 == FRAMES { 1 } else { 2 }] ^ number).count_ones(),
                1
            );
        }
    }

    #[test]
    fn held_back_frames_leave_behind_one_to_so_many_others() {
        for reorder_by in [1, 2, 5, 64] {
            let impairments = Impairments { seed: 3, reorder: 0.01, reorder_by, ..Default::default() };
            let (out, counters) = through(impairments, 1);
            let seen = numbers(&out);
            let mut sorted = seen.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..FRAMES).collect::<Vec<_>>(), "a permutation");
            let (mut last, mut late, mut furthest) = (0, 0, 0);
            for number in seen {
                late += u64::from(number < last);
                furthest = furthest.max(last.saturating_sub(number));
                last = last.max(number);
            }
            assert!(late <= counters.reordered && late * 10 > counters.reordered * 9, "{late} {counters:?}");
            assert_eq!(furthest, u64::from(reorder_by), "the bound is kept and reached");
        }
    }

    #[test]
    fn the_fate_follows_from_seed_direction_and_number() {
        let impairments =
            Impairments { seed: 42, loss: 0.1, duplicate: 0.1, corrupt: 0.1, reorder: 0.1, reorder_by: 4 };
        assert_eq!(through(impairments, 0), through(impairments, 0));
        assert_ne!(through(impairments, 0).0, through(impairments, 1).0);
        assert_ne!(through(impairments, 0).0, through(Impairments { seed: 43, ..impairments }, 0).0);
    }
}
