//! Election of the key server (IEEE 802.1X-2020 clause 9.5).
//!
//! Each participant elects the live member with the best (lowest) priority, and the lowest SCI among equals.
//! The member must *claim* to be key server: its MKPDUs have the Key Server bit. A candidate that hears fewer
//! members than another does not stand ([`crate::reachability`]).
//!
//! A member that has elected another one clears its bit. So after the key server has vanished, the best
//! remaining member does not claim yet for those who noticed first. They wait for it; otherwise everybody
//! would become key server for a moment. If the best member follows a key server that is not heard here, and
//! all protect with that one's SAK, the SAK stays in use: another key server would split the group.

use serde::{Deserialize, Serialize};
use wire::{Instant, Mi, Sci};

use crate::peer::Peer;
use crate::settings::NEVER_KEY_SERVER;
use crate::timers::CLAIM_GRACE;

/// Elected key server of a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum ElectedServer {
    /// None yet.
    #[default]
    None,
    /// This station.
    Me,
    /// This peer.
    Peer(Mi),
}

/// The participant's own candidacy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) priority: u8,
    pub(crate) sci: Sci,
    /// True if it can do MACsec.
    pub(crate) macsec: bool,
    /// True if it hears fewer members than another candidate.
    pub(crate) yields: bool,
}

/// The election of one participant.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Election {
    server: ElectedServer,
    /// The best member, which does not claim, and since when.
    silent: Option<(Mi, Instant)>,
    /// End of the wait for it.
    waits_until: Option<Instant>,
}

impl Candidate {
    /// True if it may be key server by its own settings.
    pub(crate) const fn stands(&self) -> bool {
        self.priority != NEVER_KEY_SERVER && self.macsec
    }

    const fn is_available(&self) -> bool {
        self.stands() && !self.yields
    }
}

impl Election {
    pub(crate) const fn server(&self) -> ElectedServer {
        self.server
    }

    /// True if MKPDUs have the Key Server bit.
    pub(crate) const fn claims(&self, me: &Candidate) -> bool {
        match self.server {
            ElectedServer::Me => true,
            ElectedServer::None => me.is_available(),
            ElectedServer::Peer(_) => false,
        }
    }

    /// Next time at which [`Self::elect`] can change its result without an input.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.waits_until
    }

    /// Elects among the live peers. True if the result changed. `is_led_away`: the peer protects with a SAK
    /// of a key server that is live for the peer but not here, and another key server would gain nothing.
    pub(crate) fn elect(
        &mut self,
        now: Instant,
        me: &Candidate,
        live: &[&Peer],
        is_led_away: impl Fn(&Peer) -> bool,
    ) -> bool {
        let before = self.server;
        if live.is_empty() {
            *self = Self::default();
            return before != self.server;
        }
        let standing = || live.iter().filter(|peer| peer.stands() && !peer.yields());
        let best = standing().min_by_key(|peer| (peer.priority, peer.sci));
        let best_claiming =
            standing().filter(|peer| peer.claims).min_by_key(|peer| (peer.priority, peer.sci));
        let beats = |peer: &Peer| me.is_available() && (me.priority, me.sci) < (peer.priority, peer.sci);
        let of_those_who_claim = match best_claiming {
            Some(peer) if !beats(peer) => ElectedServer::Peer(peer.mi),
            _ if me.is_available() => ElectedServer::Me,
            _ => ElectedServer::None,
        };
        self.waits_until = None;
        self.server = match best {
            Some(best) if !best.claims && !beats(best) => {
                let since = match self.silent {
                    Some((mi, since)) if mi == best.mi => since,
                    _ => now,
                };
                self.silent = Some((best.mi, since));
                if is_led_away(best) {
                    self.kept(live)
                } else if now < since + CLAIM_GRACE {
                    self.waits_until = Some(since + CLAIM_GRACE);
                    self.kept(live)
                } else {
                    of_those_who_claim
                }
            }
            _ => {
                self.silent = None;
                of_those_who_claim
            }
        };
        before != self.server
    }

    /// The previous key server, if it is still live.
    fn kept(&self, live: &[&Peer]) -> ElectedServer {
        match self.server {
            ElectedServer::Peer(mi) if !live.iter().any(|peer| peer.mi == mi) => ElectedServer::None,
            server => server,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::time::Duration;

    use wire::MacAddr;

    use super::*;

    fn sci(number: u8) -> Sci {
        Sci::new(MacAddr([2, 0, 0, 0, 0, number]), 1)
    }

    fn peer(number: u8, priority: u8, claims: bool) -> Peer {
        Peer::for_election(Mi([number; 12]), sci(number), priority, claims)
    }

    fn at(milliseconds: u64) -> Instant {
        Instant::after_start(Duration::from_millis(milliseconds))
    }

    fn elect(me: (u8, u8), peers: &[(u8, u8, bool)]) -> ElectedServer {
        let peers: Vec<Peer> =
            peers.iter().map(|(number, priority, claims)| peer(*number, *priority, *claims)).collect();
        let me = Candidate { sci: sci(me.0), priority: me.1, macsec: true, yields: false };
        let mut election = Election::default();
        election.elect(at(0), &me, &peers.iter().collect::<Vec<_>>(), |_| false);
        election.server()
    }

    #[test]
    fn the_lowest_priority_then_the_lowest_sci_wins() {
        let theirs = |number| ElectedServer::Peer(Mi([number; 12]));
        // (own number, own priority), peers (number, priority, claims), who wins
        type Row = ((u8, u8), &'static [(u8, u8, bool)], ElectedServer);
        let rows: [Row; 9] = [
            ((5, 16), &[], ElectedServer::None),
            ((5, 16), &[(6, 16, true)], ElectedServer::Me),
            ((5, 16), &[(4, 16, true)], theirs(4)),
            ((5, 16), &[(4, 17, true)], ElectedServer::Me),
            ((5, 16), &[(9, 15, true), (4, 16, true)], theirs(9)),
            ((5, 255), &[(9, 254, true)], theirs(9)),
            ((5, 255), &[(4, 255, true)], ElectedServer::None),
            ((5, 16), &[(4, 255, true)], ElectedServer::Me),
            // The best has not made up its mind.
            ((5, 16), &[(4, 16, false), (3, 17, true)], ElectedServer::None),
        ];
        for (i, (me, peers, winner)) in rows.into_iter().enumerate() {
            assert_eq!(elect(me, peers), winner, "row {i}");
        }
    }

    #[test]
    fn who_does_not_claim_is_waited_for_and_not_for_ever() {
        let me = Candidate { sci: sci(5), priority: 16, macsec: true, yields: false };
        let mut election = Election::default();
        let silent = peer(4, 16, false);
        election.elect(at(0), &me, &[&silent], |_| false);
        assert_eq!((election.server(), election.deadline()), (ElectedServer::None, Some(at(3000))));
        assert!(!election.elect(at(2999), &me, &[&silent], |_| false));
        assert!(election.elect(at(3000), &me, &[&silent], |_| false));
        assert_eq!((election.server(), election.deadline()), (ElectedServer::Me, None));
        assert!(!election.elect(at(9000), &me, &[&silent], |_| false));
        // Now it does.
        assert!(election.elect(at(9001), &me, &[&peer(4, 16, true)], |_| false));
        assert_eq!(election.server(), ElectedServer::Peer(Mi([4; 12])));
        // A better one that is silent does not cost the one there is.
        assert!(!election.elect(at(9002), &me, &[&peer(4, 16, true), &peer(3, 16, false)], |_| false));
        assert!(election.elect(at(9003), &me, &[], |_| false));
        assert_eq!((election.server(), election.deadline()), (ElectedServer::None, None));
    }
}
