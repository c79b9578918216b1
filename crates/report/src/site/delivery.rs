//! Whether packets arrive, from what both ends of a site's peer count and tell each other over the management channel.
//!
//! Frames may go one way alone, and the channel may pass where packets do not. So silence proves nothing, and neither does a channel that
//! stands. There is no clock here: times come in, as since the start.

use std::time::Duration;

/// Time after an arrival in which nothing is missed: the two ends look at their counters at different moments.
const ALONE: Duration = Duration::from_secs(5);
/// Least time between the first and the last of packets that are missed: all of one moment may be lost at once.
const SPAN: Duration = Duration::from_secs(5);
/// Looks in which packets were sent that are missed: a few may be lost by chance.
const LOOKS: u32 = 3;
/// Without a packet sent for so long nobody waits for an arrival any more.
const FORGOTTEN: Duration = Duration::from_secs(300);
/// Time after which a peer that has not answered is one that says nothing: it answers within two seconds.
const MUTE: Duration = Duration::from_secs(30);

/// Octets of packets as both ends count them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BothEnds {
    /// Sent to the peer.
    pub sent: u64,
    /// Of the peer, and valid here.
    pub accepted: u64,
    /// Sent by the peer, as it says.
    pub peer_sent: u64,
    /// Of this site, and valid at the peer, as that says.
    pub peer_accepted: u64,
    /// Number of messages in which the peer has said so.
    pub messages: u64,
}

impl BothEnds {
    const fn octets(self) -> [u64; 4] {
        [self.sent, self.accepted, self.peer_sent, self.peer_accepted]
    }

    /// Whether a figure is lower than it was.
    fn is_below(self, before: Self) -> bool {
        self.octets().into_iter().zip(before.octets()).any(|(is, was)| is < was)
    }

    /// Whether a figure that had fallen is where it was before.
    fn reaches(self, before: Self, fell: Self) -> bool {
        let figures = self.octets().into_iter().zip(before.octets()).zip(fell.octets());
        figures.into_iter().any(|((is, was), high)| was < high && is >= high)
    }
}

/// Packets of both ways, from look to look.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    before: Option<BothEnds>,
    /// The figures before one of them fell. Who comes back to them has not sent all that at once.
    fell: Option<BothEnds>,
    /// The first look at which something was sent since the peer was heard: it is to answer that.
    unanswered: Option<Duration>,
    outward: Way,
    inward: Way,
}

/// Packets of one way.
#[derive(Clone, Debug, Default)]
struct Way {
    arrived: Option<Duration>,
    missed: Option<Missed>,
}

/// Packets that were sent since the last arrival.
#[derive(Clone, Copy, Debug)]
struct Missed {
    first: Duration,
    last: Duration,
    octets: u64,
    looks: u32,
    /// The end that receives has been heard since, and had got nothing.
    confirmed: bool,
}

/// Octets of packets that were sent and did not arrive, of a way on which nothing arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Undelivered {
    /// From here to the peer.
    pub outward: Option<u64>,
    /// From the peer to here.
    pub inward: Option<u64>,
}

impl Way {
    /// `sent`: octets since the last look. `heard`: whether the end that receives was heard since then.
    fn look(&mut self, now: Duration, sent: u64, has_arrived: bool, heard: bool) {
        if has_arrived {
            (self.arrived, self.missed) = (Some(now), None);
        } else if sent > 0 && self.arrived.is_none_or(|arrived| now >= arrived + ALONE) {
            let new = Missed { first: now, last: now, octets: 0, looks: 0, confirmed: false };
            let missed = self.missed.get_or_insert(new);
            (missed.last, missed.octets, missed.looks) =
                (now, missed.octets.saturating_add(sent), missed.looks + 1);
        }
        if let Some(missed) = self.missed.as_mut().filter(|missed| heard && now >= missed.first + SPAN) {
            missed.confirmed = true;
        }
    }

    fn undelivered(&self, now: Duration) -> Option<u64> {
        let missed = self.missed.filter(|missed| {
            missed.confirmed
                && missed.looks >= LOOKS
                && missed.last >= missed.first + SPAN
                && now < missed.last + FORGOTTEN
        })?;
        Some(missed.octets)
    }
}

impl Deliveries {
    /// Takes what is counted by now; none: the peer says nothing, or not yet. What is there at the first look is no news.
    pub fn look(&mut self, now: Duration, is: Option<BothEnds>) {
        let before = std::mem::replace(&mut self.before, is);
        let Some((before, is)) = before.zip(is) else {
            (self.fell, self.unanswered, self.outward, self.inward) = Default::default();
            return;
        };
        let heard = is.messages != before.messages;
        if heard {
            self.unanswered = None;
        }
        // An end that begins anew counts from 0, and one that could not look at its counters for a moment may say 0.
        let falls = is.is_below(before).then(|| self.fell.unwrap_or(before));
        if falls.is_some() || self.fell.is_some_and(|fell| is.reaches(before, fell)) {
            (self.fell, self.outward, self.inward) = (falls, Way::default(), Way::default());
            return;
        }
        let sent = is.sent.saturating_sub(before.sent);
        if sent > 0 && !heard {
            self.unanswered.get_or_insert(now);
        }
        self.outward.look(now, sent, is.peer_accepted != before.peer_accepted, heard);
        let sent = is.peer_sent.saturating_sub(before.peer_sent);
        self.inward.look(now, sent, is.accepted != before.accepted, true);
    }

    /// Returns the octets that were sent and did not arrive, each way.
    pub fn undelivered(&self, now: Duration) -> Undelivered {
        Undelivered { outward: self.outward.undelivered(now), inward: self.inward.undelivered(now) }
    }

    /// Whether the peer says what it has counted. Figures that do not move any more, though it has something to answer, are no good word. An alarm stays:
    /// a peer that gets nothing has nothing new to say.
    pub fn are_told(&self, now: Duration) -> bool {
        let is_mute = self.unanswered.is_some_and(|since| now >= since + MUTE);
        self.before.is_some() && (!is_mute || self.undelivered(now) != Undelivered::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Traffic of one second.
    #[derive(Clone, Copy)]
    struct Second {
        sent: u64,
        arrives: bool,
        told: bool,
    }

    const SENT: Second = Second { sent: 100, arrives: false, told: true };
    const QUIET: Second = Second { sent: 0, arrives: false, told: false };
    const ARRIVES: Second = Second { sent: 100, arrives: true, told: true };

    /// Both ways, one as the other; the way that is looked at here.
    fn after(seconds: &[(Second, usize)]) -> [Option<u64>; 2] {
        [false, true].map(|inward| {
            let (mut deliveries, mut now) = (Deliveries::default(), Duration::ZERO);
            let mut is = BothEnds { sent: 0, accepted: 0, peer_sent: 0, peer_accepted: 0, messages: 0 };
            deliveries.look(now, Some(is));
            for second in seconds.iter().flat_map(|(second, times)| vec![second; *times]) {
                now += Duration::from_secs(1);
                let (sent, arrived) = match inward {
                    true => (&mut is.peer_sent, &mut is.accepted),
                    false => (&mut is.sent, &mut is.peer_accepted),
                };
                *sent += second.sent;
                *arrived += if second.arrives { second.sent } else { 0 };
                is.messages += u64::from(second.told);
                deliveries.look(now, Some(is));
            }
            let Undelivered { outward, inward: of_peer } = deliveries.undelivered(now);
            let [judged, other] = if inward { [of_peer, outward] } else { [outward, of_peer] };
            assert_eq!(other, None, "nothing is sent that way");
            judged
        })
    }

    #[test]
    fn what_is_sent_and_does_not_arrive_is_told_after_some_seconds() {
        assert_eq!(after(&[(SENT, 5)]), [None; 2]);
        assert_eq!(after(&[(SENT, 6)]), [Some(600); 2]);
        assert_eq!(after(&[(ARRIVES, 20), (SENT, 9)]), [None; 2]);
        assert_eq!(
            after(&[(ARRIVES, 20), (SENT, 10)]),
            [Some(600); 2],
            "those of the first seconds count as under way"
        );
        assert_eq!(after(&[(SENT, 20), (ARRIVES, 1)]), [None; 2], "mended");
        assert_eq!(after(&[(SENT, 6), (QUIET, 299)]), [Some(600); 2]);
        assert_eq!(after(&[(SENT, 6), (QUIET, 300)]), [None; 2], "long ago");
    }

    #[test]
    fn one_way_traffic_quiet_peers_and_chance_are_no_alarm() {
        assert_eq!(after(&[(QUIET, 400)]), [None; 2]);
        assert_eq!(after(&[(ARRIVES, 400)]), [None; 2], "nothing comes back, and all arrives");
        assert_eq!(after(&[(SENT, 1), (QUIET, 60)]), [None; 2], "one moment");
        assert_eq!(after(&[(SENT, 1), (QUIET, 60), (SENT, 1), (QUIET, 9)]), [None; 2], "two, by chance");
        // One in twenty is lost.
        assert_eq!(after(&[(ARRIVES, 19), (SENT, 1), (ARRIVES, 19), (SENT, 1)]), [None; 2]);
    }

    /// A peer whose gateway is too busy to speak is not one that gets nothing.
    #[test]
    fn a_peer_that_says_nothing_accuses_nobody() {
        let untold = Second { told: false, ..SENT };
        assert_eq!(after(&[(untold, 30)])[0], None);
        assert_eq!(after(&[(untold, 30), (SENT, 1)])[0], Some(3100));
    }

    /// A peer told its figures once, and its worker stands still since: nothing it said then speaks for it.
    #[test]
    fn a_peer_that_has_fallen_silent_tells_nothing() {
        let mut deliveries = Deliveries::default();
        let mut is = BothEnds { sent: 0, accepted: 5, peer_sent: 5, peer_accepted: 0, messages: 1 };
        // In its first minute nothing is sent, so it has nothing to say. Then it owes an answer.
        for second in 0..150 {
            let now = Duration::from_secs(second);
            is.sent += if second < 60 { 0 } else { 100 };
            if second == 120 {
                (is.messages, is.peer_accepted) = (2, is.sent);
            }
            deliveries.look(now, Some(is));
            let is_told = !(90..120).contains(&second);
            assert_eq!(deliveries.are_told(now), is_told, "second {second}");
        }
        // Without a look it is the same.
        let after = [150, 151].map(|second| deliveries.are_told(Duration::from_secs(second)));
        assert_eq!(after, [true, false]);
    }

    /// It said that it got nothing. It gets nothing since, so its figures do not move, and it says no more.
    #[test]
    fn a_peer_that_falls_silent_behind_an_alarm_takes_none_back() {
        let mut deliveries = Deliveries::default();
        let is = BothEnds { sent: 0, accepted: 5, peer_sent: 5, peer_accepted: 0, messages: 0 };
        for second in 0..100 {
            let now = Duration::from_secs(second);
            deliveries.look(now, Some(BothEnds { sent: 100 * second, messages: second.min(10), ..is }));
            assert!(deliveries.are_told(now), "second {second}");
        }
        assert_eq!(deliveries.undelivered(Duration::from_secs(99)).outward, Some(9900));
    }

    #[test]
    fn whoever_begins_anew_is_judged_anew() {
        let (mut deliveries, mut now) = (Deliveries::default(), Duration::ZERO);
        let is = BothEnds { sent: 900, accepted: 5, peer_sent: 5, peer_accepted: 700, messages: 4 };
        for second in 0..10 {
            now = Duration::from_secs(second);
            deliveries.look(now, Some(BothEnds { sent: 100 * second, messages: second, ..is }));
        }
        assert_eq!(deliveries.undelivered(now).outward, Some(900));
        // The peer's counters begin at 0.
        deliveries.look(now, Some(BothEnds { peer_accepted: 0, ..is }));
        assert_eq!(deliveries.undelivered(now), Undelivered::default());
        deliveries.look(now, None);
        assert!(!deliveries.are_told(now));
    }

    /// A busy worker's figures are missing for a look or two, and an older build says 0 for them.
    #[test]
    fn figures_that_are_missing_for_a_moment_are_neither_sent_nor_arrived() {
        let idle = BothEnds { sent: 900, accepted: 700, peer_sent: 700, peer_accepted: 900, messages: 0 };
        // Zeros of this end, and of the other one.
        let here = BothEnds { sent: 0, accepted: 0, ..idle };
        let there = BothEnds { peer_sent: 0, peer_accepted: 0, ..idle };
        for missing in [here, there] {
            let mut deliveries = Deliveries::default();
            for second in 0..60 {
                let is = if second % 4 == 1 || second % 12 == 2 { missing } else { idle };
                deliveries.look(Duration::from_secs(second), Some(BothEnds { messages: second, ..is }));
                let undelivered = deliveries.undelivered(Duration::from_secs(second));
                assert_eq!(undelivered, Undelivered::default(), "second {second}");
            }
        }
    }

    /// An end that began anew is watched from then on.
    #[test]
    fn an_end_that_began_anew_and_gets_nothing_is_found() {
        let mut deliveries = Deliveries::default();
        let is = BothEnds { sent: 900, accepted: 0, peer_sent: 0, peer_accepted: 900, messages: 0 };
        deliveries.look(Duration::ZERO, Some(is));
        for second in 1..20 {
            let (sent, peer_accepted) = (100 * second, 0);
            let is = BothEnds { sent, peer_accepted, messages: second, ..is };
            deliveries.look(Duration::from_secs(second), Some(is));
        }
        assert_eq!(
            deliveries.undelivered(Duration::from_secs(19)).outward,
            Some(1000),
            "of the seconds 10 to 19"
        );
    }

    /// A peer says what it likes.
    #[test]
    fn no_figure_of_a_peer_overflows() {
        let mut deliveries = Deliveries::default();
        let is = BothEnds { sent: 0, accepted: 0, peer_sent: 0, peer_accepted: 0, messages: 0 };
        for (second, peer_sent) in (0..).zip([0, u64::MAX, 0, 2, u64::MAX, u64::MAX, 1, u64::MAX]) {
            let is = BothEnds { peer_sent, peer_accepted: peer_sent / 2, messages: second, ..is };
            deliveries.look(Duration::from_secs(3 * second), Some(is));
        }
        let mut way = Way::default();
        for second in 0..4 {
            way.look(Duration::from_secs(3 * second), u64::MAX, false, true);
        }
        assert_eq!(way.undelivered(Duration::from_secs(9)), Some(u64::MAX));
    }
}
