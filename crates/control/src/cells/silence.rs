//! Silences of a cell's relations, told together: a pulled cable silences a thousand of them at once, and is one thing to
//! know.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Between two notices of one cell.
const PERIOD: Duration = Duration::from_secs(1);
/// Wait of the first relation that falls silent for those that do so with it.
const GATHER: Duration = Duration::from_millis(100);

/// Silent relations of a cell that were not reported yet.
#[derive(Debug, Default)]
pub(super) struct SilentRelations {
    /// By relation, the longest.
    unreported: BTreeMap<usize, Duration>,
    /// Moment at which the first of them was seen.
    since: Option<Instant>,
    reported: Option<Instant>,
}

impl SilentRelations {
    /// No verified frame of this relation came for so long.
    pub(super) fn add(&mut self, relation: usize, gap: Duration) {
        let longest = self.unreported.entry(relation).or_default();
        *longest = gap.max(*longest);
    }

    /// The relations to tell of now, in order, and the longest silence of all.
    pub(super) fn due(&mut self, now: Instant) -> Option<(Vec<usize>, Duration)> {
        let longest = *self.unreported.values().max()?;
        let gathered = *self.since.get_or_insert(now) + GATHER;
        if now < self.reported.map_or(gathered, |reported| gathered.max(reported + PERIOD)) {
            return None;
        }
        (self.reported, self.since) = (Some(now), None);
        Some((std::mem::take(&mut self.unreported).into_keys().collect(), longest))
    }

    /// The same for a cell in which relations have other numbers, or none.
    pub(super) fn renumbered(self, new_numbers: &[Option<usize>]) -> Self {
        let here = |(there, gap): (usize, Duration)| Some((*new_numbers.get(there)?.as_ref()?, gap));
        Self { unreported: self.unreported.into_iter().filter_map(here).collect(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_thousand_relations_that_fall_silent_are_told_at_once() {
        let (mut silences, start) = (SilentRelations::default(), Instant::now());
        let mut reports = Vec::new();
        // A pulled cable: the data path finds a few in each of its looks.
        for now in 0..5000 {
            if now < 32 {
                (0..32).for_each(|of| silences.add((now * 32 + of) as usize, ms(2 + now)));
            }
            reports.extend(silences.due(start + ms(now)).map(|(relations, gap)| (now, relations.len(), gap)));
        }
        assert_eq!(reports, [(100, 1024, ms(33))]);
    }

    #[test]
    fn however_many_alarms_there_are_one_notice_a_second() {
        let (mut silences, start) = (SilentRelations::default(), Instant::now());
        let mut reports = Vec::new();
        // Relation 3 misses a frame every ten milliseconds, 900 once.
        for now in 0..3050 {
            if now % 10 == 0 {
                silences.add(3, ms(2));
            }
            if now == 1200 {
                silences.add(900, ms(7));
            }
            reports.extend(silences.due(start + ms(now)).map(|(relations, gap)| (now, relations, gap)));
        }
        let expected = [(100, vec![3], ms(2)), (1100, vec![3], ms(2)), (2100, vec![3, 900], ms(7))];
        assert_eq!(reports, expected);
    }

    #[test]
    fn relations_keep_their_silence_when_they_get_other_numbers() {
        let mut silences = SilentRelations::default();
        let start = Instant::now();
        [0, 1, 2].into_iter().for_each(|relation| silences.add(relation, ms(5)));
        let mut silences = silences.renumbered(&[Some(7), None, Some(0)]);
        assert_eq!(silences.due(start), None);
        assert_eq!(silences.due(start + GATHER), Some((vec![0, 7], ms(5))));
    }
}
