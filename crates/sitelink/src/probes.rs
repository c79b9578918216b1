//! Probes of paths on the data port: recognised by their ids, answered at once, and told to the peer's paths.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use netdev::udp::Source;
use suite::path_probe::{PROBE_ID_OCTETS, Probe, ProbeKey, probe_id};
use tunnel::PeerId;

/// Words about a path that can wait: those of some seconds.
const WORDS: usize = 64;

/// Both keys of a path, and how answers leave.
#[derive(Clone, Debug)]
pub(super) struct ProbedPath {
    pub(super) number: u8,
    /// Of what comes, and of what goes.
    pub(super) inward: ProbeKey,
    pub(super) outward: ProbeKey,
    pub(super) source: Source,
    /// Whether this site has proved that the peer is there.
    pub(super) proved: bool,
}

/// A valid probe of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HeardProbe {
    pub(super) number: u8,
    pub(super) from: SocketAddr,
    pub(super) at: std::time::Instant,
    pub(super) probe: Probe,
}

/// Outcome of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ProbeOutcome {
    /// It is no probe.
    Other,
    /// It has a probe's id, and is forged, changed or recorded.
    Invalid,
    /// An answer, which is taken.
    Taken,
    /// A request. The answer is in its place, to be sent back from here.
    Answer(Source),
}

#[derive(Debug)]
struct Entry {
    peer: PeerId,
    path: ProbedPath,
    taken: TakenRequests,
}

/// Requests that were taken on a path: each is, once. Of those that were overtaken, the 64 before the newest.
#[derive(Clone, Copy, Default, Debug)]
struct TakenRequests {
    newest: u64,
    /// The lowest bit is the number before the newest.
    before: u64,
}

/// A request's place among those that were taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RequestOrder {
    Newest,
    Overtaken,
    /// Taken before, or too old to tell.
    Repeated,
}

impl TakenRequests {
    fn take(&mut self, seq: u64) -> RequestOrder {
        if let Some(ahead) = seq.checked_sub(self.newest).and_then(|ahead| ahead.checked_sub(1)) {
            let moved = u32::try_from(ahead).unwrap_or(u32::MAX);
            let the_newest = 1_u64.checked_shl(moved).unwrap_or(0);
            let before = self.before.checked_shl(moved.saturating_add(1)).unwrap_or(0);
            *self = Self { newest: seq, before: before | the_newest };
            return RequestOrder::Newest;
        }
        let behind = self.newest - seq;
        let bit = u32::try_from(behind).ok().and_then(|behind| 1_u64.checked_shl(behind.checked_sub(1)?));
        match bit {
            Some(bit) if self.before & bit == 0 => {
                self.before |= bit;
                RequestOrder::Overtaken
            }
            _ => RequestOrder::Repeated,
        }
    }
}

/// The probes of all peers.
#[derive(Debug, Default)]
pub(super) struct Probes {
    by_id: BTreeMap<[u8; PROBE_ID_OCTETS], Entry>,
    /// Requests on paths that were taken away, while their keys may come back.
    spent: BTreeMap<PeerId, BTreeMap<[u8; PROBE_ID_OCTETS], TakenRequests>>,
    heard: BTreeMap<PeerId, VecDeque<HeardProbe>>,
}

impl Probes {
    /// Sets the paths of a peer; those with the same keys as before go on. None: it has no probes any more.
    pub(super) fn set(&mut self, peer: PeerId, paths: impl Iterator<Item = ProbedPath>) {
        let mut before = self.spent.remove(&peer).unwrap_or_default();
        self.by_id.retain(|id, entry| {
            let stays = entry.peer != peer;
            if !stays {
                before.insert(*id, entry.taken);
            }
            stays
        });
        let mut there = false;
        for path in paths {
            let id = path.inward.id();
            let taken = before.remove(&id).unwrap_or_default();
            self.by_id.insert(id, Entry { peer, path, taken });
            there = true;
        }
        if there {
            self.spent.insert(peer, before);
        } else {
            self.heard.remove(&peer);
        }
    }

    /// Takes a packet. The answer to a request is written over it.
    pub(super) fn take(
        &mut self,
        at: std::time::Instant,
        from: SocketAddr,
        packet: &mut [u8],
        random: u8,
    ) -> ProbeOutcome {
        let entry = probe_id(packet).and_then(|id| self.by_id.get_mut(&id));
        let Some(Entry { peer, path, taken }) = entry else { return ProbeOutcome::Other };
        let Some(probe) = path.inward.open(packet) else { return ProbeOutcome::Invalid };
        let order = if probe.answer { RequestOrder::Newest } else { taken.take(probe.seq) };
        if order == RequestOrder::Repeated {
            return ProbeOutcome::Invalid;
        }
        // An overtaken one may have been held back: it says nothing of where the peer is now.
        if order == RequestOrder::Newest {
            let heard = self.heard.entry(*peer).or_default();
            if heard.len() == WORDS {
                heard.pop_front();
            }
            heard.push_back(HeardProbe { number: path.number, from, at, probe });
        }
        if probe.answer {
            return ProbeOutcome::Taken;
        }
        path.outward.seal(Probe { answer: true, proved: path.proved, ..probe }, random, packet);
        ProbeOutcome::Answer(path.source)
    }

    /// What was heard of a peer since the last call.
    pub(super) fn heard(&mut self, peer: PeerId) -> VecDeque<HeardProbe> {
        self.heard.get_mut(&peer).map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(fill: u8) -> ProbeKey {
        ProbeKey::new(&[fill; 40])
    }

    fn path() -> ProbedPath {
        ProbedPath {
            number: 2,
            inward: key(1),
            outward: key(2),
            source: Source { address: None, interface: 7 },
            proved: true,
        }
    }

    fn request(seq: u64, octets: usize) -> Vec<u8> {
        let mut packet = vec![0; octets];
        key(1).seal(Probe { answer: false, proved: false, seq }, 0, &mut packet);
        packet
    }

    /// An overtaken request is no lost one. But it moves nothing: it may have been held back.
    #[test]
    fn an_overtaken_request_is_answered_once_and_tells_nothing() {
        let (mut probes, at) = (Probes::default(), std::time::Instant::now());
        let from = SocketAddr::from(([192, 0, 2, 1], 7));
        probes.set(PeerId(3), [path()].into_iter());
        let answer = ProbeOutcome::Answer(path().source);
        let mut take = |seq| probes.take(at, from, &mut request(seq, 26), 0);
        for seq in [1, 100, 99, 36, 101] {
            assert_eq!(take(seq), answer, "{seq}");
        }
        for seq in [99, 100, 101, 36, 1, 0, 37 - 1] {
            assert_eq!(take(seq), ProbeOutcome::Invalid, "{seq}");
        }
        // The oldest that can still come, and the one before.
        assert_eq!((take(101 - 64), take(101 - 65)), (answer.clone(), ProbeOutcome::Invalid));
        // A jump forgets all that was before it.
        assert_eq!((take(1000), take(1000 - 64), take(102)), (answer.clone(), answer, ProbeOutcome::Invalid));
        let heard: Vec<_> = probes.heard(PeerId(3)).iter().map(|heard| heard.probe.seq).collect();
        assert_eq!(heard, [1, 100, 101, 1000]);
    }

    /// A peer draws its numbers as it likes.
    #[test]
    fn the_highest_number_of_all_is_the_last_one() {
        let (mut probes, at) = (Probes::default(), std::time::Instant::now());
        let from = SocketAddr::from(([192, 0, 2, 1], 7));
        probes.set(PeerId(3), [path()].into_iter());
        let mut take = |seq| probes.take(at, from, &mut request(seq, 26), 0);
        assert_eq!(take(u64::MAX), ProbeOutcome::Answer(path().source));
        for seq in [u64::MAX, 0, 1] {
            assert_eq!(take(seq), ProbeOutcome::Invalid, "{seq}");
        }
        assert_eq!(take(u64::MAX - 1), ProbeOutcome::Answer(path().source));
    }

    #[test]
    fn a_request_is_answered_once_and_nobody_elses() {
        let path = path();
        let (mut probes, at) = (Probes::default(), std::time::Instant::now());
        let from = SocketAddr::from(([192, 0, 2, 1], 7));
        let mut packet = request(1, 100);
        assert_eq!(probes.take(at, from, &mut packet, 0), ProbeOutcome::Other, "of nobody");
        probes.set(PeerId(3), [path.clone()].into_iter());
        let answer = ProbeOutcome::Answer(path.source);
        assert_eq!(probes.take(at, from, &mut packet, 0), answer);
        assert_eq!(packet.len(), 100, "no longer than the request");
        assert_eq!(key(2).open(&packet), Some(Probe { answer: true, proved: true, seq: 1 }));
        // Recorded, also after the paths were set anew.
        assert_eq!(probes.take(at, from, &mut request(1, 100), 0), ProbeOutcome::Invalid);
        assert_eq!(probes.take(at, from, &mut request(5, 26), 0), answer);
        probes.set(PeerId(3), [path.clone()].into_iter());
        assert_eq!(probes.take(at, from, &mut request(5, 26), 0), ProbeOutcome::Invalid);
        // Nor after the path was away for a while, with the same connection.
        let other = ProbedPath { number: 0, inward: key(3), outward: key(4), ..path.clone() };
        probes.set(PeerId(3), [other].into_iter());
        assert_eq!(probes.take(at, from, &mut request(6, 26), 0), ProbeOutcome::Other);
        probes.set(PeerId(3), [path].into_iter());
        assert_eq!(probes.take(at, from, &mut request(5, 26), 0), ProbeOutcome::Invalid);
        let mut forged = request(6, 26);
        forged[9] ^= 2;
        assert_eq!(probes.take(at, from, &mut forged, 0), ProbeOutcome::Invalid);
        let heard: Vec<_> =
            probes.heard(PeerId(3)).iter().map(|heard| (heard.number, heard.probe.seq)).collect();
        assert_eq!(heard, [(2, 1), (2, 5)]);
        for seq in 10..200 {
            assert_eq!(probes.take(at, from, &mut request(seq, 26), 0), answer);
        }
        assert_eq!(probes.heard(PeerId(3)).len(), WORDS, "bounded");
        probes.set(PeerId(3), [].into_iter());
        assert_eq!(probes.take(at, from, &mut request(900, 26), 0), ProbeOutcome::Other);
    }
}
