//! Small frames as fast as asked, and how many of them arrive.
//!
//! Arrivals are taken from the counters of the receiving interface, so that nobody has to read the frames: on a
//! machine with few CPUs a reader would cost as much as what is measured. They are counted only between two looks in
//! the middle of the flood, when all queues are in a steady state.

use std::time::{Duration, Instant};

pub use crate::load::Load;
use crate::pace::Pace;
use crate::packet::InterfaceCounters;
use crate::topology::Machine;
use crate::{Error, Namespace, PacketSocket};

/// An EtherType for experiments (IEEE 802): the kernel's stack ignores it.
const EXPERIMENT: u16 = 0x88B5;
/// Time that the flood runs before arrivals are counted.
const WARM_UP: Duration = Duration::from_millis(200);
/// Frames that a sender which was held up makes up for at once.
pub(crate) const MOST_BEHIND: u64 = 1024;
/// Time that a sender goes on at most behind its time: it is stopped before.
const GRACE: Duration = Duration::from_secs(60);

/// Frames sent and frames that arrived in the same time.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// Frames sent.
    pub sent: u64,
    /// Frames that arrived.
    pub delivered: u64,
    /// The time in which both were counted.
    pub elapsed: Duration,
}

impl Flood {
    /// Frames that arrived per second.
    pub fn delivered_per_second(&self) -> f64 {
        self.delivered as f64 / self.elapsed.as_secs_f64()
    }

    /// Frames that were sent per second.
    pub fn sent_per_second(&self) -> f64 {
        self.sent as f64 / self.elapsed.as_secs_f64()
    }
}

/// Sends frames of `payload_octets` from one machine to the other, `per_second` of them or as many as go if there is
/// no such limit, and counts for `time` how many arrive.
///
/// # Errors
/// If the sender fails or does not end, or the counters cannot be read. A lost frame is not an error.
pub fn flood(
    from: &Machine,
    to: &Machine,
    payload_octets: usize,
    per_second: Option<u32>,
    time: Duration,
) -> Result<Flood, Error> {
    let load = Load::start(from, to, payload_octets, per_second, WARM_UP + time + GRACE)?;
    let counted = count([(&load, &to.namespace, to.ifname)], time);
    load.stop()?;
    counted.map(|[flood]| flood)
}

/// The same from both machines at once, `per_second` from each: what arrives of A's, then of B's.
///
/// # Errors
/// As [`flood`].
pub fn both_ways(
    a: &Machine,
    b: &Machine,
    payload_octets: usize,
    per_second: Option<u32>,
    time: Duration,
) -> Result<[Flood; 2], Error> {
    let limit = WARM_UP + time + GRACE;
    let there = Load::start(a, b, payload_octets, per_second, limit)?;
    let back = Load::start(b, a, payload_octets, per_second, limit)?;
    let counted = count([(&there, &b.namespace, b.ifname), (&back, &a.namespace, a.ifname)], time);
    there.stop()?;
    back.stop()?;
    counted
}

impl Load {
    /// Starts to send as [`flood`] does, for at most `limit`.
    ///
    /// # Errors
    /// If the socket or the thread fails.
    pub fn start(
        from: &Machine,
        to: &Machine,
        payload_octets: usize,
        per_second: Option<u32>,
        limit: Duration,
    ) -> Result<Self, Error> {
        let mut frame = [&to.mac[..], &from.mac, &EXPERIMENT.to_be_bytes()].concat();
        frame.resize(14 + payload_octets, 0);
        let mut pace = Pace::new(per_second, MOST_BEHIND);
        let send = move |socket: &PacketSocket, count: usize| socket.send_repeatedly(&frame, count);
        Self::spawn(
            (&from.namespace, from.ifname),
            move |socket| pace.keep(|count| send(socket, count)),
            limit,
        )
    }
}

/// Counts between two looks what was sent, and what an interface has received meanwhile; for each way.
pub(crate) fn count<const WAYS: usize>(
    ways: [(&Load, &Namespace, &str); WAYS],
    time: Duration,
) -> Result<[Flood; WAYS], Error> {
    let look = || {
        let mut looks = [(0, 0, Instant::now()); WAYS];
        for ((load, namespace, ifname), look) in ways.iter().zip(&mut looks) {
            let arrived = InterfaceCounters::read(namespace, ifname)?.rx_frames;
            *look = (arrived, load.sent(), Instant::now());
        }
        Ok::<_, Error>(looks)
    };
    std::thread::sleep(WARM_UP);
    let first = look()?;
    std::thread::sleep(time);
    let last = look()?;
    Ok(std::array::from_fn(|way| Flood {
        sent: last[way].1 - first[way].1,
        delivered: last[way].0 - first[way].0,
        elapsed: last[way].2 - first[way].2,
    }))
}
