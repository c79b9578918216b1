//! Sites that protect their LANs, as with `protect = true`: each has a SecY and, unless keys are static, a KaY. Its MKPDUs go to all other
//! sites beside the frames, over the management channels.

use std::time::Duration;

use suite::CipherSuite;
use testkit::Chance;

use super::super::gateway::{Host, Link};
use super::super::judge::Wrong;
use super::super::time::{Common, instant, micros};
use super::World;
use super::channel::MKPDUS;

/// Octets of a machine's frame that may not show behind its SecY.
const SHOWN: usize = 24;

/// The SecYs of so many sites, by site; none if the LANs have stations with MACsec.
pub(super) fn all(chance: &mut Chance, sites: usize) -> Result<Vec<Host>, Wrong> {
    if chance.happens(500) {
        return Ok(vec![]);
    }
    let link = Link {
        number: 1,
        members: sites as u8,
        suite: chance.pick(&CipherSuite::ALL[..6]),
        is_static: chance.happens(250),
        disk_delay: Duration::from_millis(chance.pick(&[1, 50, 800])),
        delay_protect: chance.happens(300),
        replay_window: chance.pick(&[256, 1024]),
        cak_steps: 0,
    };
    (1..=link.members).map(|number| Host::new(chance, link, number)).collect()
}

impl World {
    pub(super) fn is_secured(&self) -> bool {
        !self.secured.is_empty()
    }

    /// A machine's frame as its site's SecY sends it; nothing if it may not pass.
    pub(super) fn secure(&mut self, at: usize, sdu: &[u8]) -> Result<Option<Vec<u8>>, Wrong> {
        let now = instant(self.common.now);
        let Some((frame, used)) = self.secured[at].gateway.protect(now, sdu) else { return Ok(None) };
        if used.is_some_and(|used| !self.common.nonces.insert(used)) {
            return Err(Wrong::NonceTwice(format!("{}, its SecY", self.name(at))));
        }
        let shown = &sdu[sdu.len() - SHOWN..];
        if frame.windows(SHOWN).any(|part| part == shown) {
            return Err(Wrong::Plaintext(format!("{}: a machine's frame", self.name(at))));
        }
        Ok(Some(frame))
    }

    /// Has a site's KaY and SecY do what is due.
    pub(super) fn secured_timers(&mut self) -> Result<(), Wrong> {
        let now = self.common.now;
        for at in 0..self.secured.len() {
            let due = self.secured[at].gateway.poll_timeout();
            if self.places[at].asleep <= now && due.is_some_and(|due| micros(due) <= now) {
                let handled = self.secured[at].handle_timeout(now);
                handled.map_err(|why| Wrong::Impossible(format!("{}: {why}", self.name(at))))?;
                self.secured_turn(at)?;
            }
        }
        Ok(())
    }

    /// Has a site's SecY do what its KaY says, and the site begin anew if it is killed meanwhile.
    pub(super) fn secured_turn(&mut self, at: usize) -> Result<(), Wrong> {
        let sent = self.secured[at].gateway.turn(instant(self.common.now));
        let sent = sent.map_err(|why| Wrong::Impossible(format!("{}: {why}", self.name(at))))?;
        for frame in sent {
            self.send_mkpdu(at, &frame);
        }
        if self.secured[at].is_refused_wrongly() {
            return Err(Wrong::Refused(self.name(at)));
        }
        if self.secured[at].gateway.is_killed() { self.restart(at, true) } else { Ok(()) }
    }

    fn send_mkpdu(&mut self, at: usize, frame: &[u8]) {
        let most = self.message_time();
        for (low, high, out) in self.pairs().filter(|(low, high, _)| *low == at || *high == at) {
            debug_assert!(low < high);
            let arrives = self.common.now + 1 + self.common.chance.below(most);
            self.channels[out].send(usize::from(at == high), MKPDUS, arrives, frame.to_vec());
        }
    }

    /// Faults of SecYs, KaYs and their disks.
    pub(super) fn secured_fault(&mut self, at: usize) -> Result<(), Wrong> {
        let until = self.common.soon();
        let Common { chance, now, .. } = &mut self.common;
        let host = &mut self.secured[at];
        match chance.below(3) {
            0 => host.gateway.kill_within(1 + chance.below(12)),
            1 => {
                if host.fail_disk(chance, until) {
                    self.restart(at, true)?;
                }
            }
            _ => host.gateway.rekey(instant(*now)),
        }
        self.secured_turn(at)
    }
}
