//! The state of a box, and what beats and time make of it.

use core::time::Duration;

use wire::time::Instant;

use super::{Beat, Cause, DRAIN, Gate, Heard, Judged, Role, Timing};

/// Own beats whose times are known: those of T, also if the interface takes one of eight, and some that told a role at once.
const REMEMBERED: usize = 80;
/// Sessions of the partner before, whose beats are recorded ones.
const DEAD: usize = 8;
/// Times T for which a box listens at its start.
const LISTEN: u32 = 4;
/// Time in which stations may have moved.
const AWAY: Duration = Duration::from_secs(1);

/// The partner, as it was heard last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Partner {
    session: u64,
    seq: u64,
    at: Instant,
    role: Role,
    preferred: bool,
    takeover: Duration,
    /// Its last beat named one that this box sent within T/2. So the beat was no older, and did not wait while this box stood still.
    is_fresh: bool,
    /// The same, of a beat that this box sent in its present role.
    is_answer: bool,
}

/// The state of a box.
#[derive(Clone, Debug)]
pub struct Election {
    /// Times of its configuration.
    own: Timing,
    preferred: bool,
    /// Comes first if both or neither are preferred.
    is_first: bool,
    session: u64,
    /// Of the last own beat, from 1.
    seq: u64,
    /// Times of the last own beats, by seq.
    sent: [Instant; REMEMBERED],
    /// Time of the last own beat that left: of its lease.
    left: Option<Instant>,
    /// The last own beat did not leave.
    is_unsent: bool,
    role: Role,
    cause: Cause,
    since: Instant,
    /// Number of times that it began to forward.
    takeovers: u64,
    /// The last own beat before this role.
    before_role: u64,
    /// The partner forwarded since this box did.
    follows: bool,
    /// `Listening` lasts for so many T from then on.
    listens: (Instant, u32),
    /// After a start `Listening` does not end before. Pauses move it.
    first_end: Instant,
    /// The last own beat that left while it forwarded.
    forwarded: Instant,
    was_away: bool,
    /// The largest T of a partner that has not shown yet that it is there, since this role began.
    unproved_takeover: Duration,
    /// The time up to which frames under way pass.
    drain: Instant,
    /// The time since which it runs without a pause and its beats leave.
    awake: Instant,
    /// The time up to which it has heard all that had come.
    listened: Instant,
    /// The last turn.
    last: Instant,
    partner: Option<Partner>,
    /// Sessions of the partner before this one, in a ring.
    dead: [u64; DEAD],
    deaths: usize,
    /// A beat of a session that may be the partner's, and when it came.
    candidate: Option<(Heard, Instant)>,
    due: Instant,
    has_link: bool,
    /// For good: see [`Election::refuse`].
    is_refused: bool,
}

impl Election {
    /// A box that starts `now`. `session`: random, another one at each start. `is_first`: whether its public key is the lower one.
    pub fn new(timing: Timing, preferred: bool, is_first: bool, session: u64, now: Instant) -> Self {
        Self {
            own: timing,
            preferred,
            is_first,
            session,
            seq: 0,
            sent: [Instant::START; REMEMBERED],
            left: None,
            is_unsent: false,
            role: Role::Listening,
            cause: Cause::Started,
            since: now,
            takeovers: 0,
            before_role: 0,
            follows: false,
            listens: (now, LISTEN),
            first_end: now + timing.longest / 2,
            forwarded: now,
            was_away: true,
            unproved_takeover: Duration::ZERO,
            drain: Instant::START,
            awake: now,
            listened: now,
            last: now,
            partner: None,
            dead: [0; DEAD],
            deaths: 0,
            candidate: None,
            due: now,
            has_link: true,
            is_refused: false,
        }
    }

    /// Role, its cause, and since when.
    pub const fn role(&self) -> (Role, Cause, Instant) {
        (self.role, self.cause, self.since)
    }

    /// Number of times that it began to forward.
    pub const fn takeovers(&self) -> u64 {
        self.takeovers
    }

    /// Before it began to forward, the partner had done so, or nobody for [`AWAY`]: what this box knows of stations is old.
    pub const fn was_away(&self) -> bool {
        self.was_away
    }

    /// Role of the partner in its last beat, and when that was heard.
    pub fn partner(&self) -> Option<(Role, Instant)> {
        self.partner.map(|partner| (partner.role, partner.at))
    }

    /// T of the partner's configuration, if it is another one than that of this box.
    pub fn other_takeover(&self) -> Option<Duration> {
        self.partner.map(|partner| partner.takeover).filter(|takeover| *takeover != self.own.takeover)
    }

    /// The times of both: those of the box with the larger T.
    fn timing(&self) -> Timing {
        let partner = self.partner.map_or(Duration::ZERO, |partner| partner.takeover);
        Timing { takeover: self.own.takeover.max(partner), ..self.own }
    }

    /// Frames that may pass at `now`. To be asked before frames pass, with a new reading of the clock: whatever happened to this thread,
    /// the lease ends.
    pub fn gate(&self, now: Instant) -> Gate {
        let leased = self.is_leased(now);
        match self.role {
            Role::Active if leased => Gate::Open,
            Role::Leaving if leased => Gate::Draining,
            Role::Standby if leased && now < self.drain => Gate::Draining,
            _ => Gate::Closed,
        }
    }

    /// Begins a turn: ends what a pause has ended. To be called before beats are heard and [`Election::gate`] is asked.
    pub fn begin(&mut self, now: Instant) {
        if now.since(self.last) >= self.timing().lease() {
            // Who stood still has not listened, and beats may have found no room to wait in.
            self.awake = now;
            self.first_end = self.first_end + now.since(self.last);
            self.listens = (now, LISTEN);
        }
        self.last = now;
        if self.left.is_some() && !self.is_leased(now) {
            if matches!(self.role, Role::Active | Role::Leaving) {
                let (times, cause) =
                    if self.is_unsent { (LISTEN, Cause::NoLink) } else { (1, Cause::Stalled) };
                self.listen(now, times, cause);
            }
            self.drain = now;
        }
    }

    /// Beats that had come were heard, and silence of the partner counts from here on. `all`: none waits any more. If that is not said for
    /// 2T, since a flood of frames does not end, it is taken for said. To be called in each turn, before [`Election::poll_beat`].
    pub fn listened(&mut self, now: Instant, all: bool) {
        if all || now.since(self.listened.max(self.awake)) >= self.timing().takeover * 2 {
            self.listened = self.listened.max(now);
            self.decide(now);
        }
    }

    /// The LAN's interface has a link, or has none any more.
    pub fn set_link(&mut self, now: Instant, has_link: bool) {
        if self.has_link != has_link {
            self.has_link = has_link;
            self.drain = now;
            self.listen(now, LISTEN, Cause::NoLink);
        }
    }

    /// The partner has the SCI of this box, so perhaps its key: unless this box forwards, it never will.
    pub fn refuse(&mut self, now: Instant) {
        if !self.is_refused && !matches!(self.role, Role::Active | Role::Leaving) {
            self.is_refused = true;
            self.drain = now;
            self.listen(now, 0, Cause::SameSci);
        }
    }

    /// Hands over to the partner. False if this box does not forward, or the partner is not there to take over.
    pub fn hand_over(&mut self, now: Instant) -> bool {
        let ready = self.heard().is_some_and(|partner| partner.role == Role::Standby);
        if ready && self.role == Role::Active {
            self.become_role(now, Role::Leaving, Cause::HandOver);
            return true;
        }
        false
    }

    /// A beat whose tag is right. `now`: not before it came.
    pub fn hear(&mut self, now: Instant, beat: Beat) -> Judged {
        let within = |time| beat.heard.is_some_and(|own| self.sent_within(now, own, time));
        let (hears_me, is_fresh) = (within(self.timing().takeover), within(self.timing().fresh()));
        let known = self.partner.filter(|partner| partner.session == beat.session);
        let taken = match known {
            Some(partner) => beat.seq > partner.seq,
            None => hears_me && beat.session != self.session,
        };
        if !taken {
            if known.is_none() {
                self.propose(now, &beat);
            }
            return Judged::Unproved;
        }
        if let Some(before) = self.partner.filter(|_| known.is_none()) {
            self.dead[self.deaths % DEAD] = before.session;
            self.deaths += 1;
        }
        let Beat { role, preferred, takeover, session, seq, .. } = beat;
        self.follows |= matches!(role, Role::Active | Role::Leaving);
        let is_answer = is_fresh && beat.heard.is_some_and(|own| own.seq > self.before_role);
        self.partner =
            Some(Partner { session, seq, at: now, role, preferred, takeover, is_fresh, is_answer });
        if role == Role::Active {
            match self.role {
                Role::Active if hears_me && self.comes_first(preferred) => {}
                Role::Active => self.become_role(now, Role::Standby, Cause::Yielded),
                Role::Listening if self.may_decide() => {
                    self.become_role(now, Role::Standby, Cause::PartnerActive);
                }
                Role::Leaving => {
                    self.drain = now + DRAIN;
                    self.become_role(now, Role::Standby, Cause::HandOver);
                }
                Role::Listening | Role::Standby => {}
            }
        }
        self.follow(now);
        Judged::Taken
    }

    /// Has the next beat name this one, of a session that may be the partner's, unless another one has the lower hash with the number of
    /// that beat. So each of n sessions is named as often, whichever sends most.
    fn propose(&mut self, now: Instant, beat: &Beat) {
        if beat.session == self.session || self.dead.contains(&beat.session) {
            return;
        }
        self.unproved_takeover = self.unproved_takeover.max(beat.takeover);
        let takeover = self.timing().takeover;
        let rank = |session| mix(session ^ mix(self.session ^ self.seq));
        let is_next = match self.candidate {
            Some((before, at)) if now.since(at) < takeover => {
                if before.session == beat.session {
                    beat.seq > before.seq
                } else {
                    rank(beat.session) < rank(before.session)
                }
            }
            _ => true,
        };
        if is_next {
            self.candidate = Some((Heard { session: beat.session, seq: beat.seq }, now));
        }
    }

    /// The last own beat did not leave: the next one takes its place.
    pub const fn is_unsent(&self) -> bool {
        self.is_unsent
    }

    /// Whether [`Election::poll_beat`] has a beat.
    pub fn is_beat_due(&self, now: Instant) -> bool {
        self.has_link && now >= self.due
    }

    /// The next beat, if one is due: it is sent now, and [`Election::sent`] is told.
    pub fn poll_beat(&mut self, now: Instant) -> Option<Beat> {
        if !self.is_beat_due(now) {
            return None;
        }
        self.seq += 1;
        self.sent[self.seq as usize % REMEMBERED] = now;
        self.due = now + self.timing().interval();
        let heard = match (self.heard(), self.candidate) {
            (Some(Partner { session, seq, .. }), _) => Some(Heard { session, seq }),
            (None, Some((heard, at))) if now.since(at) < self.timing().takeover => Some(heard),
            _ => None,
        };
        let Self { role, preferred, own: Timing { takeover, .. }, session, seq, .. } = *self;
        Some(Beat { role, preferred, takeover, session, seq, heard })
    }

    /// Whether the beat of [`Election::poll_beat`] left, as far as the interface says. One that did not renews no lease, and perhaps there is
    /// no link: the box decides nothing until one leaves, and if that takes as long as a lease, it listens then.
    pub fn sent(&mut self, now: Instant, has_left: bool) {
        let (was_unsent, was_leased) = (self.is_unsent, self.is_leased(now));
        self.is_unsent = !has_left;
        if self.left.is_none() {
            // Of a partner with the longest T four beats come in that time.
            self.first_end = now + self.own.longest / 2;
        }
        if !has_left {
            if was_leased {
                // A queue that is full, perhaps: it tries again soon.
                self.due = now + self.timing().interval() / 8;
            }
            return;
        }
        self.left = Some(now);
        if !was_unsent {
            return;
        }
        // Who had no link has not listened.
        (self.awake, self.listens) = (now, (now, LISTEN));
        if !was_leased {
            self.drain = now;
            self.listen(now, LISTEN, Cause::NoLink);
            // It was told right now that this box does not forward.
            self.due = now + self.timing().interval();
        }
    }

    /// Moment of the next turn that is due even if nothing comes; none without a link.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.has_link {
            return None;
        }
        let takeover = self.timing().takeover;
        let decision = match self.role {
            Role::Leaving => Some(self.since + takeover),
            // The next beat shows whether it has a link.
            _ if self.is_unsent => None,
            Role::Listening if self.is_refused => None,
            Role::Listening => Some(self.listens_until()),
            Role::Standby => self.partner.map(|partner| partner.at.max(self.awake) + takeover),
            Role::Active => None,
        };
        Some(decision.map_or(self.due, |moment| moment.min(self.due)))
    }

    /// What time makes of this box, and silence.
    fn decide(&mut self, now: Instant) {
        if self.role == Role::Leaving && now.since(self.since) >= self.timing().takeover {
            // The partner may be about to follow. So this box goes on only after it has listened.
            return self.listen(now, 1, Cause::NotTakenOver);
        }
        if !self.may_decide() {
            return;
        }
        match (self.role, self.heard()) {
            (Role::Listening, _) if self.listened < self.listens_until() => {}
            (Role::Listening | Role::Standby, None) => {
                self.become_role(now, Role::Active, Cause::PartnerSilent);
            }
            (Role::Listening, Some(_)) => self.become_role(now, Role::Standby, Cause::Started),
            (Role::Standby, Some(_)) | (Role::Active | Role::Leaving, _) => {}
        }
    }

    /// What the last beat of the partner makes of a box that stands by.
    fn follow(&mut self, now: Instant) {
        let Some(partner) = self.partner.filter(|_| self.role == Role::Standby && self.may_decide()) else {
            return;
        };
        let cause = match partner.role {
            Role::Leaving if partner.is_fresh => Cause::PartnerLeft,
            Role::Listening if partner.is_fresh && self.follows => Cause::PartnerListens,
            Role::Listening | Role::Standby if partner.is_answer && self.comes_first(partner.preferred) => {
                Cause::ComesFirst
            }
            _ => return,
        };
        self.become_role(now, Role::Active, cause);
    }

    /// The partner, unless it was silent for T. Time in which this box heard nothing, since it did not run or has more to hear, is no
    /// silence.
    fn heard(&self) -> Option<Partner> {
        let takeover = self.timing().takeover;
        self.partner.filter(|partner| self.listened.since(partner.at.max(self.awake)) < takeover)
    }

    fn listens_until(&self) -> Instant {
        let (from, times) = self.listens;
        let takeover = self.timing().takeover.max(self.unproved_takeover);
        let until = (from + takeover * times).max(self.first_end);
        // Who has just shown itself is given the time to prove that it is there, once: recorded beats do not end.
        if self.candidate.is_some_and(|(_, at)| at + takeover > until) { until + takeover } else { until }
    }

    fn comes_first(&self, partner_preferred: bool) -> bool {
        if self.preferred == partner_preferred { self.is_first } else { self.preferred }
    }

    /// For so many T.
    fn listen(&mut self, now: Instant, times: u32, cause: Cause) {
        self.listens = (now, times);
        // Whatever else happens, that is why it does not forward.
        let cause = if self.is_refused { Cause::SameSci } else { cause };
        self.become_role(now, Role::Listening, cause);
    }

    /// The partner is told at once.
    fn become_role(&mut self, now: Instant, role: Role, cause: Cause) {
        if matches!(self.role, Role::Active | Role::Leaving) {
            self.forwarded = self.left.unwrap_or(now);
        }
        if role == Role::Active {
            self.takeovers += 1;
            self.was_away = self.follows || now.since(self.forwarded) >= AWAY;
        }
        self.follows &= role != Role::Active;
        self.before_role = self.seq;
        self.unproved_takeover = Duration::ZERO;
        if let Some(partner) = &mut self.partner {
            partner.is_answer = false;
        }
        (self.role, self.cause, self.since, self.due) = (role, cause, now, now);
    }

    /// Whether a beat left that allows to forward still.
    fn is_leased(&self, now: Instant) -> bool {
        self.left.is_some_and(|left| now.since(left) < self.timing().lease())
    }

    /// Whether what it hears, or does not hear, tells it anything, and it may ever forward.
    const fn may_decide(&self) -> bool {
        self.has_link && !self.is_unsent && !self.is_refused
    }

    /// Whether this box sent that beat within `time`.
    fn sent_within(&self, now: Instant, Heard { session, seq }: Heard, time: Duration) -> bool {
        session == self.session
            && (1..=self.seq).contains(&seq)
            && self.seq - seq < REMEMBERED as u64
            && now.since(self.sent[seq as usize % REMEMBERED]) < time
    }
}

/// A permutation of 64 bits, of which each bit depends on all (the finalizer of SplitMix64).
const fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
