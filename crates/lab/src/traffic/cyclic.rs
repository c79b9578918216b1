//! Process data that is sent every cycle.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{GRACE, MARKER, PATIENCE};
use crate::histogram::{histogram, nanoseconds};
use crate::packet::Direction;
use crate::topology::{Mac, Machine};
use crate::{Error, PacketSocket};

/// EtherType of PROFINET RT.
const PROFINET: u16 = 0x8892;
/// A FrameID of cyclic data (RT class 1).
const FRAME_ID: u16 = 0x8001;

/// Process data that was sent every cycle.
#[derive(Debug)]
pub struct Cyclic {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Frames that arrived after a later one, or twice.
    pub out_of_order: u64,
    /// Deviation of the time between two arrivals from the cycle, in nanoseconds.
    pub jitter: Histogram<u64>,
}

/// Sends PROFINET-like frames of `payload_octets` (at least 30) every `cycle`, `count` times, and watches them
/// arrive.
///
/// # Errors
/// If the sockets fail. A lost frame is not an error.
pub fn cyclic(
    from: &Machine,
    to: &Machine,
    cycle: Duration,
    count: u64,
    payload_octets: usize,
) -> Result<Cyclic, Error> {
    let mut receiver = PacketSocket::open(&to.namespace, to.ifname)?;
    let sender = PacketSocket::open(&from.namespace, from.ifname)?;
    let (to_mac, from_mac) = (to.mac, from.mac);
    let sending = from.namespace.spawn_thread(move || {
        let start = Instant::now();
        for number in 0..count {
            let due = start + cycle * u32::try_from(number).unwrap_or(u32::MAX);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            sender.send(&cyclic_frame(to_mac, from_mac, payload_octets, number))?;
        }
        Ok::<_, Error>(())
    })?;
    let mut seen = Cyclic { sent: count, received: 0, out_of_order: 0, jitter: histogram() };
    let (mut last_at, mut next) = (None, 0);
    let end = Instant::now() + cycle * u32::try_from(count).unwrap_or(u32::MAX) + PATIENCE;
    while seen.received < count && Instant::now() < end {
        let Some(frame) = receiver.receive()? else { continue };
        let Some(number) = cyclic_number(&frame.octets) else { continue };
        if frame.direction != Direction::In {
            continue;
        }
        seen.received += 1;
        if number < next {
            seen.out_of_order += 1;
        } else {
            next = number + 1;
        }
        if let Some(last) = last_at.replace(frame.at) {
            let between: Duration = frame.at.saturating_duration_since(last);
            seen.jitter.saturating_record(nanoseconds(between.abs_diff(cycle)));
        }
    }
    sending.join(GRACE + cycle * u32::try_from(count).unwrap_or(u32::MAX))??;
    Ok(seen)
}

fn cyclic_frame(to: Mac, from: Mac, payload_octets: usize, number: u64) -> Vec<u8> {
    let mut frame = [&to[..], &from, &PROFINET.to_be_bytes(), &FRAME_ID.to_be_bytes(), MARKER].concat();
    frame.extend(number.to_be_bytes());
    frame.resize(14 + payload_octets.max(30), 0);
    frame
}

fn cyclic_number(frame: &[u8]) -> Option<u64> {
    let ours = frame.get(12..14)? == PROFINET.to_be_bytes() && frame.get(16..32)? == MARKER;
    if ours { Some(u64::from_be_bytes(frame.get(32..40)?.try_into().ok()?)) } else { None }
}
