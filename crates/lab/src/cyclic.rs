//! A PLC and its devices: PROFINET-like IO data of many relations, both ways, cycle by cycle, every frame accounted for.
//!
//! ```text
//!  machine A: one station            machine B: as many stations as there are devices, on one interface
//!  DA 6 | SA 6 | VLAN tag 4 (0x8100, priority 6) | 0x8892 2 | FrameID 2 | marker 16 | number 8 | time 8 | zeros
//! ```
//!
//! Each machine has a thread that sends and one that listens. Numbers begin at 0 in each direction of each relation. The time is
//! when the frame was given to the system, in nanoseconds since the exchange began: both machines have one clock.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::histogram::{histogram, nanoseconds};
use crate::packet::Direction;
use crate::topology::{Mac, Machine};
use crate::traffic::MARKER;
use crate::{Error, PacketSocket, Task};

/// Times of which there are none yet: one nanosecond to a minute, to three digits.
pub fn no_times() -> Histogram<u64> {
    histogram()
}

/// The same to two digits.
fn coarse_times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("invariant: these bounds are allowed")
}

/// Beyond so many relations times are kept to two digits.
const MANY: usize = 256;
/// The tag of PROFINET RT: 0x8100, priority 6, no VLAN.
pub const TAG: [u8; 4] = [0x81, 0, 0xc0, 0];
/// EtherType of PROFINET RT.
const PROFINET: [u8; 2] = [0x88, 0x92];
/// Offset of the number in a tagged frame of ours.
const NUMBER: Range<usize> = 36..44;
/// Limit on a machine's wait when it is told to stop: it looks at all frames that have come, on a busy machine for long.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Quiet for so long: nothing is under way any more.
const QUIET: Duration = Duration::from_millis(200);

/// A relation between a station at machine A and one at machine B.
#[derive(Clone, Debug)]
pub struct Relation {
    /// The stations, A's first.
    pub stations: [Mac; 2],
    /// The FrameID that each of them sends.
    pub frame_ids: [u16; 2],
    /// Cycle in which each of them sends.
    pub cycle: Duration,
    /// Octets behind the FrameID, at least 32.
    pub payload_octets: usize,
}

/// Frames of its peer that arrived at a station.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Frames that the peer has sent.
    pub sent: u64,
    /// Frames that arrived, of those with a number that no earlier one had.
    pub received: u64,
    /// Frames that arrived after a later one, or twice.
    pub out_of_order: u64,
    /// Frames that arrived without the tag of PROFINET RT, or with another payload than was sent.
    pub changed: u64,
    /// The number of the first frame that arrived.
    pub first: Option<u64>,
    /// Frames that are missing between the first that arrived and the last.
    pub missing: u64,
    /// The longest time between two arrivals.
    pub longest_gap: Duration,
    /// Deviation of the time between two arrivals from the cycle, in nanoseconds.
    pub jitter: Histogram<u64>,
    /// From the moment that a frame was given to the system to the one at which it was read, in nanoseconds.
    pub delay: Histogram<u64>,
    last: Option<(u64, Instant)>,
}

impl Arrivals {
    /// With so many relations, each of which has histograms of its own: those of many are of two digits, and take 30 kB each.
    fn nothing(relations: usize) -> Self {
        let times = || if relations > MANY { coarse_times() } else { histogram() };
        Self {
            sent: 0,
            received: 0,
            out_of_order: 0,
            changed: 0,
            first: None,
            missing: 0,
            longest_gap: Duration::ZERO,
            jitter: times(),
            delay: times(),
            last: None,
        }
    }

    /// Whether every frame that was sent arrived once, in order, as it was.
    pub const fn is_complete(&self) -> bool {
        self.received == self.sent && self.out_of_order == 0 && self.changed == 0
    }

    fn take(&mut self, number: u64, at: Instant, cycle: Duration, as_sent: bool) {
        self.changed += u64::from(!as_sent);
        let Some((last, before)) = self.last else {
            (self.first, self.received, self.last) = (Some(number), 1, Some((number, at)));
            return;
        };
        if number <= last {
            self.out_of_order += 1;
            return;
        }
        let gap = at.saturating_duration_since(before);
        self.longest_gap = self.longest_gap.max(gap);
        self.jitter.saturating_record(nanoseconds(gap.abs_diff(cycle)));
        self.missing += number - last - 1;
        self.received += 1;
        self.last = Some((number, at));
    }
}

#[derive(Debug)]
struct Shared {
    relations: Vec<Relation>,
    /// Moment of its beginning.
    start: Instant,
    /// Senders stop.
    silent: AtomicBool,
    /// Listeners stop when nothing comes any more.
    deaf: AtomicBool,
    /// Frames that A and B have sent, relation by relation.
    sent: [Vec<AtomicU64>; 2],
    /// Arrivals at A and B, relation by relation.
    heard: [Mutex<Vec<Arrivals>>; 2],
}

/// A PLC and its devices at work. Dropping it stops them.
#[derive(Debug)]
pub struct Exchange {
    shared: Arc<Shared>,
    senders: Vec<Task<Result<(), Error>>>,
    listeners: Vec<Task<Result<u64, Error>>>,
}

impl Exchange {
    /// Starts to exchange, from now on until it is stopped.
    ///
    /// # Errors
    /// If the sockets cannot be had.
    pub fn start(a: &Machine, b: &Machine, relations: &[Relation]) -> Result<Self, Error> {
        let nothing = || Mutex::new(vec![Arrivals::nothing(relations.len()); relations.len()]);
        let counts = || relations.iter().map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(Shared {
            relations: relations.to_vec(),
            start: Instant::now(),
            silent: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            sent: [counts(), counts()],
            heard: [nothing(), nothing()],
        });
        let (mut senders, mut listeners) = (Vec::new(), Vec::new());
        for (side, machine) in [a, b].into_iter().enumerate() {
            let socket = PacketSocket::open(&machine.namespace, machine.ifname)?;
            let own = Arc::clone(&shared);
            listeners.push(machine.namespace.spawn_thread(move || own.listen(side, socket))?);
        }
        for (side, machine) in [a, b].into_iter().enumerate() {
            let socket = PacketSocket::open(&machine.namespace, machine.ifname)?;
            let own = Arc::clone(&shared);
            senders.push(machine.namespace.spawn_thread(move || own.send(side, &socket))?);
        }
        Ok(Self { shared, senders, listeners })
    }

    /// Arrivals so far at each relation's stations: at A first.
    pub fn heard(&self) -> Vec<[Arrivals; 2]> {
        self.shared.all_heard()
    }

    /// Waits until every station has heard so many frames more than now.
    ///
    /// # Errors
    /// If that takes longer than `limit`.
    pub fn wait_for(&self, more: u64, limit: Duration) -> Result<(), Error> {
        let received = || self.shared.received();
        let (begin, end) = (received(), Instant::now() + limit);
        loop {
            let now = received();
            if begin.iter().zip(&now).all(|(begin, now)| now - begin >= more) {
                return Ok(());
            }
            if Instant::now() >= end {
                let least = begin.iter().zip(&now).map(|(begin, now)| now - begin).min().unwrap_or(0);
                let what = format!("{more} cyclic frames of each relation each way (the worst has {least})");
                return Err(Error::Deadline { what, limit });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Stops, takes what is still under way, and says what each relation's stations have heard: A's of B first.
    ///
    /// # Errors
    /// If a socket failed, or a machine was too slow for its own traffic: then the figures prove nothing.
    pub fn stop(mut self) -> Result<Vec<[Arrivals; 2]>, Error> {
        self.shared.silent.store(true, Ordering::Relaxed);
        for sender in self.senders.drain(..) {
            sender.join(STOP_LIMIT)??;
        }
        self.shared.deaf.store(true, Ordering::Relaxed);
        for listener in self.listeners.drain(..) {
            let dropped = listener.join(STOP_LIMIT)??;
            if dropped > 0 {
                return Err(Error::Unexpected(format!("a machine itself lost {dropped} frames: too slow")));
            }
        }
        Ok(self.shared.all_heard())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.shared.silent.store(true, Ordering::Relaxed);
        self.shared.deaf.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    /// Frames that the stations have heard so far: A's, then B's. Copies no histograms, since listeners wait meanwhile.
    fn received(&self) -> Vec<u64> {
        let side = |side: &Mutex<Vec<Arrivals>>| {
            let heard = side.lock().unwrap_or_else(PoisonError::into_inner);
            heard.iter().map(|heard| heard.received).collect::<Vec<_>>()
        };
        self.heard.iter().flat_map(side).collect()
    }

    fn all_heard(&self) -> Vec<[Arrivals; 2]> {
        let side = |side: usize| {
            let mut heard = self.heard[side].lock().unwrap_or_else(PoisonError::into_inner).clone();
            for (heard, sent) in heard.iter_mut().zip(&self.sent[1 - side]) {
                heard.sent = sent.load(Ordering::Relaxed);
            }
            heard
        };
        side(0).into_iter().zip(side(1)).map(|(a, b)| [a, b]).collect()
    }

    /// Sends each relation's frame when it is due; what is late is sent at once, and no frame is left out.
    fn send(&self, side: usize, socket: &PacketSocket) -> Result<(), Error> {
        let start = Instant::now();
        let mut next: Vec<u32> = vec![0; self.relations.len()];
        while !self.silent.load(Ordering::Relaxed) {
            let mut soonest = start + Duration::from_secs(3600);
            for ((relation, next), sent) in self.relations.iter().zip(&mut next).zip(&self.sent[side]) {
                let due = start + relation.cycle * *next;
                if due <= Instant::now() {
                    let time = nanoseconds(self.start.elapsed());
                    socket.send(&frame(relation, side, u64::from(*next), time))?;
                    sent.fetch_add(1, Ordering::Relaxed);
                    *next += 1;
                }
                soonest = soonest.min(start + relation.cycle * *next);
            }
            std::thread::sleep(soonest.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }

    /// Returns how many frames this machine itself has lost.
    fn listen(&self, side: usize, mut socket: PacketSocket) -> Result<u64, Error> {
        let key = |to: Mac, from: Mac, id: u16| (to, from, id);
        let known: HashMap<_, usize> = self
            .relations
            .iter()
            .enumerate()
            .map(|(at, relation)| {
                let Relation { stations, frame_ids, .. } = relation;
                (key(stations[side], stations[1 - side], frame_ids[1 - side]), at)
            })
            .collect();
        let mut last = Instant::now();
        while !self.deaf.load(Ordering::Relaxed) || last.elapsed() < QUIET {
            let Some(received) = socket.receive()? else { continue };
            let Some(Said { to, from, frame_id, number, time, tagged }) = Said::read(&received.octets) else {
                continue;
            };
            if received.direction != Direction::In {
                continue;
            }
            let Some(&at) = known.get(&key(to, from, frame_id)) else { continue };
            last = Instant::now();
            let relation = &self.relations[at];
            let as_sent = tagged && received.octets == frame(relation, 1 - side, number, time);
            let mut heard = self.heard[side].lock().unwrap_or_else(PoisonError::into_inner);
            heard[at].take(number, received.at, relation.cycle, as_sent);
            let arrived = nanoseconds(received.at.saturating_duration_since(self.start));
            heard[at].delay.saturating_record(arrived.saturating_sub(time));
        }
        socket.dropped()
    }
}

/// The frame with this number that a side's station sends at this time.
fn frame(relation: &Relation, side: usize, number: u64, time: u64) -> Vec<u8> {
    let Relation { stations, frame_ids, payload_octets, .. } = relation;
    let id = frame_ids[side].to_be_bytes();
    let mut frame = [&stations[1 - side][..], &stations[side], &TAG, &PROFINET, &id, MARKER].concat();
    frame.extend(number.to_be_bytes());
    frame.extend(time.to_be_bytes());
    frame.resize(20 + (*payload_octets).max(32), 0);
    frame
}

/// Frames of all relations in turn, as fast as they are asked for, whatever the cycle.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    frames: Vec<Vec<u8>>,
    number: u64,
}

impl RoundRobin {
    /// Frames of one side's stations: 0 is A's, 1 is B's.
    pub fn new(relations: &[Relation], side: usize) -> Self {
        Self { frames: relations.iter().map(|relation| frame(relation, side, 0, 0)).collect(), number: 0 }
    }

    /// Octets of a frame, in the mean.
    pub fn mean_octets(&self) -> usize {
        self.frames.iter().map(Vec::len).sum::<usize>() / self.frames.len().max(1)
    }

    /// Writes the next one over `frame`.
    pub fn next_into(&mut self, frame: &mut Vec<u8>) {
        let turn = (self.number % self.frames.len() as u64) as usize;
        frame.clone_from(&self.frames[turn]);
        frame[NUMBER].copy_from_slice(&self.number.to_be_bytes());
        self.number += 1;
    }
}

/// Contents of a frame of ours.
struct Said {
    to: Mac,
    from: Mac,
    frame_id: u16,
    number: u64,
    time: u64,
    tagged: bool,
}

impl Said {
    fn read(frame: &[u8]) -> Option<Self> {
        let (to, behind) = frame.split_first_chunk::<6>()?;
        let (from, behind) = behind.split_first_chunk::<6>()?;
        let untagged = behind.strip_prefix(&TAG[..]);
        let behind = untagged.unwrap_or(behind).strip_prefix(&PROFINET[..])?;
        let (frame_id, behind) = behind.split_first_chunk()?;
        let (number, behind) = behind.strip_prefix(&MARKER[..])?.split_first_chunk()?;
        let time = behind.first_chunk()?;
        Some(Self {
            to: *to,
            from: *from,
            frame_id: u16::from_be_bytes(*frame_id),
            number: u64::from_be_bytes(*number),
            time: u64::from_be_bytes(*time),
            tagged: untagged.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_take_turns_and_each_frame_has_a_number() {
        let relation = |device| Relation {
            stations: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 1, device]],
            frame_ids: [0x8000, 0xbb00],
            cycle: Duration::from_millis(1),
            payload_octets: 44,
        };
        let mut turns = RoundRobin::new(&[relation(1), relation(2)], 0);
        let mut frame = Vec::new();
        for (number, device) in [(0, 1), (1, 2), (2, 1)] {
            turns.next_into(&mut frame);
            let said = Said::read(&frame).unwrap();
            assert_eq!((said.number, said.to[5], said.tagged), (number, device, true));
            assert_eq!(frame.len(), turns.mean_octets());
        }
    }

    #[test]
    fn what_is_missing_doubled_or_changed_is_counted() {
        let start = Instant::now();
        let cycle = Duration::from_millis(1);
        let mut heard = Arrivals::nothing(1);
        for (number, at, as_sent) in
            [(3, 0, true), (4, 1, true), (7, 5, true), (7, 6, true), (5, 7, true), (8, 8, false)]
        {
            heard.take(number, start + cycle * at, cycle, as_sent);
        }
        assert_eq!((heard.first, heard.received, heard.missing), (Some(3), 4, 2));
        assert_eq!((heard.out_of_order, heard.changed), (2, 1));
        assert_eq!(heard.longest_gap, cycle * 4);
        assert_eq!(heard.jitter.len(), 3);
        assert!(!heard.is_complete());
    }

    #[test]
    fn a_frame_says_what_it_is() {
        let relation = Relation {
            stations: [[2; 6], [4; 6]],
            frame_ids: [0x8001, 0x8002],
            cycle: Duration::ZERO,
            payload_octets: 44,
        };
        let sent = frame(&relation, 1, 77, 1_000_001);
        assert_eq!(sent.len(), 64);
        let said = Said::read(&sent).unwrap();
        assert_eq!((said.to, said.from, said.frame_id), ([2; 6], [4; 6], 0x8002));
        assert_eq!((said.number, said.time), (77, 1_000_001));
        assert!(said.tagged);
        let untagged = [&sent[..12], &sent[16..]].concat();
        assert!(!Said::read(&untagged).unwrap().tagged);
        assert!(Said::read(&sent[..51]).is_none());
    }
}
