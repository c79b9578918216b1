//! Sources of frames that are heard: an interface, which is left as it is, or a capture.

use std::io::Read;
use std::time::{Duration, Instant};

use dataplane::open::{OpenError, open_observer};
use netdev::port::{Port as _, PortCounters};

use super::Learner;
use crate::inspect::capture::{CaptureError, CaptureReader, Captured, ETHERNET};

/// Longest pause between two looks at the interface. The kernel keeps thousands of frames, each with its time.
const LOOK: Duration = Duration::from_millis(5);

/// Listens at an interface for so long. Its counters say what was lost.
///
/// # Errors
/// If it cannot be listened at: it is down, or part of a bridge, or a gateway has it.
pub fn listen(learner: &mut Learner, interface: &str, time: Duration) -> Result<PortCounters, OpenError> {
    let (_pool, mut port) = open_observer(interface)?;
    let start = Instant::now();
    while start.elapsed() < time {
        let heard = port.listen(&mut |time, frame| learner.handle_frame(Some(time), 0, frame, true));
        if heard == 0 {
            std::thread::sleep(LOOK.min(time.saturating_sub(start.elapsed())));
        }
    }
    Ok(port.counters())
}

/// Reads a capture to its end, or to where it breaks. Frames that are not Ethernet are passed over.
///
/// # Errors
/// [`CaptureError`]; the frames before were taken.
pub fn read(learner: &mut Learner, capture: impl Read) -> Result<(), CaptureError> {
    let mut reader = CaptureReader::new(capture)?;
    while let Some(captured) = reader.next_frame()? {
        let Some(place) = captured.place().filter(|place| place.linktype == ETHERNET) else { continue };
        let Captured { time, interface, octets, original, .. } = captured;
        let is_whole = octets.len() >= original;
        let frame = if is_whole { &octets[..octets.len().saturating_sub(place.fcs)] } else { octets };
        learner.handle_frame(time, interface, frame, is_whole);
    }
    Ok(())
}
