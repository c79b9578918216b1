//! Small frames as fast as asked, and how many of them arrive.
//!
//! Arrivals are taken from the counters of the receiving interface, so that nobody has to read the frames: on a
//! machine with few CPUs a reader would cost as much as what is measured. They are counted only between two looks in
//! the middle of the flood, when all queues are in a steady state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::pace::Pace;
use crate::packet::InterfaceCounters;
use crate::topology::Machine;
use crate::{Error, PacketSocket, Task};

/// An EtherType for experiments (IEEE 802): the kernel's stack ignores it.
const EXPERIMENT: u16 = 0x88B5;
/// How long the flood runs before arrivals are counted.
const WARM_UP: Duration = Duration::from_millis(200);
/// Frames that a sender which was held up makes up for at once.
pub(crate) const MOST_BEHIND: u64 = 1024;
/// How long the sender may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// What was sent and what arrived in the same time.
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
    let counted = count(to, &load.sent, time);
    load.stop()?;
    counted
}

/// A flood that goes on until it is stopped, as a background for other measurements.
#[derive(Debug)]
pub struct Load {
    sender: Task<Result<(), Error>>,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
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
        let socket = PacketSocket::open(&from.namespace, from.ifname)?;
        socket.never_wait()?;
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let sender = {
            let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
            from.namespace
                .spawn_thread(move || send_until(&socket, &frame, per_second, &stop, &sent, limit))?
        };
        Ok(Self { sender, stop, sent })
    }

    /// Stops it and returns how many frames were sent.
    ///
    /// # Errors
    /// If the sender failed or does not end.
    pub fn stop(self) -> Result<u64, Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.sender.join(GRACE)??;
        Ok(self.sent.load(Ordering::Relaxed))
    }
}

fn count(to: &Machine, sent: &AtomicU64, time: Duration) -> Result<Flood, Error> {
    let look = || {
        let arrived = InterfaceCounters::read(&to.namespace, to.ifname)?.rx_frames;
        Ok::<_, Error>((arrived, sent.load(Ordering::Relaxed), Instant::now()))
    };
    std::thread::sleep(WARM_UP);
    let first = look()?;
    std::thread::sleep(time);
    let last = look()?;
    Ok(Flood { sent: last.1 - first.1, delivered: last.0 - first.0, elapsed: last.2 - first.2 })
}

fn send_until(
    socket: &PacketSocket,
    frame: &[u8],
    per_second: Option<u32>,
    stop: &AtomicBool,
    sent: &AtomicU64,
    limit: Duration,
) -> Result<(), Error> {
    let start = Instant::now();
    let mut pace = Pace::new(per_second, MOST_BEHIND);
    while !stop.load(Ordering::Relaxed) && start.elapsed() < limit {
        let count = pace.due();
        if count == 0 {
            std::thread::sleep(Duration::from_micros(20));
            continue;
        }
        let taken = socket.send_repeatedly(frame, count)?;
        pace.sent(taken);
        sent.fetch_add(taken as u64, Ordering::Relaxed);
    }
    Ok(())
}
