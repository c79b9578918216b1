//! Two boxes on one LAN: which of them forwards. Sans I/O, on the caller's clock.
//!
//! ```text
//!  Listening ──▶ Standby ◀──▶ Active ──▶ Leaving ──▶ Standby
//! ```
//!
//! Both send *beats* ([`Beat`]) on the LAN, whatever they do. Three times follow from one setting, T ([`Timing`]): beats go every T/4; a
//! box that hears none for T takes over; and a box forwards for no longer than 3T/4 after it sent a beat (its *lease*). So a box that
//! stands still has stopped forwarding before the other one begins.
//!
//! | role | hears | becomes |
//! |---|---|---|
//! | `Listening`, for 4T; for T after a stall | an active partner | `Standby` |
//! | | nothing until the end | `Active` |
//! | | a partner that does not forward, until the end | `Standby` |
//! | `Standby` | nothing for T; that the partner leaves; or that it listens, after it forwarded | `Active` |
//! | | a partner that comes second, and knows that this box stands by | `Active` |
//! | `Active` | an active partner that does not hear this box, or comes first | `Standby` |
//! | | (the lease has ended: this box stood still) | `Listening` |
//! | `Leaving` | an active partner | `Standby`, and lets what is under way pass for a second |
//! | | none for T | `Active` |
//!
//! Of two boxes the one that is `preferred` comes first; if both or neither are, the one with the lower public key.
//!
//! **Freshness.** A beat has the session of its sender, 64 random bits of a start, and a seq. It says which beat of the receiver its sender
//! heard last. A beat of a known session needs a higher seq. One of another session also has to name a beat that this box sent within
//! T. So recorded beats are worthless. Nor does a box begin to forward for what a beat says that names none of these: it may have waited
//! while the box stood still.
//!
//! **What is guaranteed.** As long as one beat in three arrives within T/4, never more than one box forwards. If the LAN loses all
//! beats but carries frames, both do. The first beat that arrives ends that: whoever is not heard yields, and among two that hear each other the
//! second.

mod beat;
#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod tests;

use core::time::Duration;

use wire::time::Instant;

pub use beat::{BEAT_ADDRESSES, BEAT_OCTETS, BeatFrame, BeatFrameKind, Heard, address_of, learn_frame};

/// Time for which a box that has handed over lets pass what is under way to it.
pub const DRAIN: Duration = Duration::from_secs(1);
/// Own beats whose times are known.
const REMEMBERED: usize = 16;
/// Times T for which a box listens at its start.
const LISTEN: u32 = 4;

/// Times of an [`Election`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// T: silence of the partner after which a box takes over.
    pub takeover: Duration,
}

impl Timing {
    /// Interval between beats.
    pub fn interval(self) -> Duration {
        self.takeover / 4
    }

    /// Time after its last beat for which a box may forward.
    pub fn lease(self) -> Duration {
        self.takeover * 3 / 4
    }
}

/// Role of a box.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Finds out whether the partner forwards.
    Listening,
    /// Does not forward.
    Standby,
    /// Forwards.
    Active,
    /// Hands over.
    Leaving,
}

/// Cause of the present role.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// The box has started.
    Started,
    /// No beat of the partner was heard for T.
    PartnerSilent,
    /// The partner hands over or stops.
    PartnerLeft,
    /// The partner forwarded, and listens now: it has started anew, or stood still.
    PartnerListens,
    /// The partner does not forward, and comes second.
    ComesFirst,
    /// The partner forwards.
    PartnerActive,
    /// Both forwarded, and this box yields.
    Yielded,
    /// This box stood still for longer than its lease.
    Stalled,
    /// The operator asked for it.
    HandOver,
    /// The partner did not take over.
    NotTakenOver,
    /// The LAN's interface had no link.
    NoLink,
    /// Both boxes have one SCI, and might repeat each other's packet numbers.
    SameSci,
}

/// Frames that may pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// None.
    Closed,
    /// Those to one station each that are still sent this way: the partner forwards all others.
    Draining,
    /// All.
    Open,
}

/// What a beat says, without addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Beat {
    /// Role of the sender.
    pub role: Role,
    /// Whether the sender is configured to come first.
    pub preferred: bool,
    /// Session of the sender.
    pub session: u64,
    /// Number of the beat in its session.
    pub seq: u64,
    /// The receiver's beat that was heard last, if one was within T.
    pub heard: Option<Heard>,
}

/// Result of a beat whose tag was right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judged {
    /// It counts.
    Taken,
    /// Recorded, or of a session that has not shown yet that it is there.
    Unproved,
}

/// The partner, as it was heard last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Partner {
    session: u64,
    seq: u64,
    at: Instant,
    role: Role,
    preferred: bool,
    /// Its last beat named one that this box sent within T. So the beat was no older, and did not wait while this box stood still.
    is_fresh: bool,
    /// The same, of a beat that this box sent in its present role.
    is_answer: bool,
}

/// The state of a box.
#[derive(Clone, Debug)]
pub struct Election {
    timing: Timing,
    preferred: bool,
    /// Comes first if both or neither are preferred.
    is_first: bool,
    session: u64,
    /// Of the last own beat, from 1.
    seq: u64,
    /// Times of the last own beats, by seq.
    sent: [Instant; REMEMBERED],
    role: Role,
    cause: Cause,
    since: Instant,
    /// Number of times that it began to forward.
    takeovers: u64,
    /// The last own beat before this role.
    before_role: u64,
    /// The partner forwarded since this box did.
    follows: bool,
    /// The time up to which `Listening` lasts.
    until: Instant,
    /// The time up to which frames under way pass.
    drain: Instant,
    /// The time since which it hears without a pause.
    awake: Instant,
    /// The last call.
    last: Instant,
    partner: Option<Partner>,
    /// A beat that was not taken, and when it came.
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
            timing,
            preferred,
            is_first,
            session,
            seq: 0,
            sent: [Instant::START; REMEMBERED],
            role: Role::Listening,
            cause: Cause::Started,
            since: now,
            takeovers: 0,
            before_role: 0,
            follows: false,
            until: now + timing.takeover * LISTEN,
            drain: Instant::START,
            awake: now,
            last: now,
            partner: None,
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

    /// Role of the partner in its last beat, and when that was heard.
    pub fn partner(&self) -> Option<(Role, Instant)> {
        self.partner.map(|partner| (partner.role, partner.at))
    }

    /// Frames that may pass at `now`. To be asked before frames pass, with a new reading of the clock: whatever happened to this thread,
    /// the lease ends.
    pub fn gate(&self, now: Instant) -> Gate {
        let leased = self.seq > 0 && now.since(self.last_sent()) < self.timing.lease();
        match self.role {
            Role::Active if leased => Gate::Open,
            Role::Leaving if leased => Gate::Draining,
            Role::Standby if leased && now < self.drain => Gate::Draining,
            _ => Gate::Closed,
        }
    }

    /// Does what is due. To be called before [`Election::gate`] is asked, in each turn.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now.since(self.last) >= self.timing.lease() {
            // Beats may wait to be heard.
            self.awake = now;
            // Who stood still has not listened.
            self.until = now + self.timing.takeover * LISTEN;
        }
        self.last = now;
        let stalled = self.seq > 0 && now.since(self.last_sent()) >= self.timing.lease();
        if stalled && matches!(self.role, Role::Active | Role::Leaving) {
            self.listen(now, self.timing.takeover, Cause::Stalled);
        }
        if stalled {
            self.drain = now;
        }
        self.decide(now);
    }

    /// The LAN's interface has a link, or has none any more.
    pub fn set_link(&mut self, now: Instant, has_link: bool) {
        if self.has_link != has_link {
            self.has_link = has_link;
            self.drain = now;
            self.listen(now, self.timing.takeover * LISTEN, Cause::NoLink);
        }
    }

    /// The partner has the SCI of this box, so perhaps its key: unless this box forwards, it never will.
    pub fn refuse(&mut self, now: Instant) {
        if !self.is_refused && !matches!(self.role, Role::Active | Role::Leaving) {
            self.is_refused = true;
            self.drain = now;
            self.listen(now, Duration::ZERO, Cause::SameSci);
        }
    }

    /// Hands over to the partner. False if this box does not forward, or the partner is not there to take over.
    pub fn hand_over(&mut self, now: Instant) -> bool {
        let ready = self.heard(now).is_some_and(|partner| partner.role == Role::Standby);
        if ready && self.role == Role::Active {
            self.become_role(now, Role::Leaving, Cause::HandOver);
            return true;
        }
        false
    }

    /// A beat whose tag is right.
    pub fn hear(&mut self, now: Instant, beat: Beat) -> Judged {
        let heard = Heard { session: beat.session, seq: beat.seq };
        let hears_me = beat.heard.is_some_and(|own| self.sent_within(now, own));
        let known = self.partner.filter(|partner| partner.session == beat.session);
        let taken = match known {
            Some(partner) => beat.seq > partner.seq,
            None => hears_me && beat.session != self.session,
        };
        if !taken {
            if known.is_none() {
                self.candidate = Some((heard, now));
            }
            return Judged::Unproved;
        }
        let Beat { role, preferred, session, seq, .. } = beat;
        self.follows |= matches!(role, Role::Active | Role::Leaving);
        let is_answer = hears_me && beat.heard.is_some_and(|own| own.seq > self.before_role);
        self.partner =
            Some(Partner { session, seq, at: now, role, preferred, is_fresh: hears_me, is_answer });
        if role == Role::Active {
            match self.role {
                Role::Active if hears_me && self.comes_first(preferred) => {}
                Role::Active => self.become_role(now, Role::Standby, Cause::Yielded),
                Role::Listening if self.has_link && !self.is_refused => {
                    self.become_role(now, Role::Standby, Cause::PartnerActive);
                }
                Role::Leaving => {
                    self.drain = now + DRAIN;
                    self.become_role(now, Role::Standby, Cause::HandOver);
                }
                Role::Listening | Role::Standby => {}
            }
        }
        self.decide(now);
        Judged::Taken
    }

    /// Whether [`Election::poll_beat`] has a beat.
    pub fn is_beat_due(&self, now: Instant) -> bool {
        self.has_link && now >= self.due
    }

    /// The next beat, if one is due: it is sent now.
    pub fn poll_beat(&mut self, now: Instant) -> Option<Beat> {
        if !self.is_beat_due(now) {
            return None;
        }
        self.seq += 1;
        self.sent[self.seq as usize % REMEMBERED] = now;
        self.due = now + self.timing.interval();
        let heard = match (self.heard(now), self.candidate) {
            (Some(Partner { session, seq, .. }), _) => Some(Heard { session, seq }),
            (None, Some((heard, at))) if now.since(at) < self.timing.takeover => Some(heard),
            _ => None,
        };
        let Self { role, preferred, session, seq, .. } = *self;
        Some(Beat { role, preferred, session, seq, heard })
    }

    /// Moment at which [`Election::handle_timeout`] or [`Election::poll_beat`] has something to do.
    pub fn poll_timeout(&self) -> Instant {
        let silent = self.partner.map(|partner| partner.at.max(self.awake) + self.timing.takeover);
        let decision = match self.role {
            Role::Listening if self.is_refused => None,
            Role::Listening => Some(self.until),
            Role::Standby => silent,
            Role::Leaving => Some(self.since + self.timing.takeover),
            Role::Active => None,
        };
        decision.map_or(self.due, |moment| moment.min(self.due))
    }

    /// What time, and the partner as it is known, make of this box.
    fn decide(&mut self, now: Instant) {
        if !self.has_link || self.is_refused {
            return;
        }
        let partner = self.heard(now);
        match (self.role, partner) {
            (Role::Listening, _) if now < self.until => {}
            (Role::Listening | Role::Standby, None) => {
                self.become_role(now, Role::Active, Cause::PartnerSilent);
            }
            // Who leaves and is not followed forwards again.
            (Role::Listening, Some(_)) => self.become_role(now, Role::Standby, Cause::Started),
            (Role::Standby, Some(partner)) => match partner.role {
                Role::Leaving if partner.is_fresh => {
                    self.become_role(now, Role::Active, Cause::PartnerLeft);
                }
                Role::Listening if partner.is_fresh && self.follows => {
                    self.become_role(now, Role::Active, Cause::PartnerListens);
                }
                Role::Listening | Role::Standby
                    if partner.is_answer && self.comes_first(partner.preferred) =>
                {
                    self.become_role(now, Role::Active, Cause::ComesFirst);
                }
                _ => {}
            },
            (Role::Leaving, _) if now.since(self.since) >= self.timing.takeover => {
                self.become_role(now, Role::Active, Cause::NotTakenOver);
            }
            (Role::Active | Role::Leaving, _) => {}
        }
    }

    /// The partner, unless it was silent for T. Time in which this box heard nothing, since it did not run, is no silence.
    fn heard(&self, now: Instant) -> Option<Partner> {
        self.partner.filter(|partner| now.since(partner.at.max(self.awake)) < self.timing.takeover)
    }

    fn comes_first(&self, partner_preferred: bool) -> bool {
        if self.preferred == partner_preferred { self.is_first } else { self.preferred }
    }

    fn listen(&mut self, now: Instant, time: Duration, cause: Cause) {
        self.until = now + time;
        self.become_role(now, Role::Listening, cause);
    }

    /// The partner is told at once.
    fn become_role(&mut self, now: Instant, role: Role, cause: Cause) {
        self.takeovers += u64::from(role == Role::Active);
        self.follows &= role != Role::Active;
        self.before_role = self.seq;
        if let Some(partner) = &mut self.partner {
            partner.is_answer = false;
        }
        (self.role, self.cause, self.since, self.due) = (role, cause, now, now);
    }

    fn last_sent(&self) -> Instant {
        self.sent[self.seq as usize % REMEMBERED]
    }

    /// Whether this box sent that beat within T.
    fn sent_within(&self, now: Instant, Heard { session, seq }: Heard) -> bool {
        session == self.session
            && (1..=self.seq).contains(&seq)
            && self.seq - seq < REMEMBERED as u64
            && now.since(self.sent[seq as usize % REMEMBERED]) < self.timing.takeover
    }
}
