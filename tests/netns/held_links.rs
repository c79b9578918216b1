//! A gateway whose calls that put programs in front of ports, or ask whether they fit, take long, as if somebody held the kernel's lock of
//! all interfaces. The machine of a test is not to stop for that, so the gateway alone is held up.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use lab::Namespace;
use perf::demo::pair::{Scratch, Station};

use super::program;

/// Two calls take longer than frames of a link may wait in its ports, and not as long as a member's life time.
pub(crate) const HELD: Duration = Duration::from_millis(2500);

/// Starts a gateway that can be held up.
pub(crate) fn start(namespace: &Namespace, scratch: &Scratch, name: &str) -> Station {
    let file = file(scratch);
    let by = ["python3", "-c", include_str!("held_links.py"), file.to_str().unwrap()];
    Station::start_by(&by, program(), namespace, scratch, name).unwrap()
}

fn file(scratch: &Scratch) -> PathBuf {
    scratch.path().join("held-links")
}

/// Each exchange of programs takes [`HELD`] while this is done.
pub(crate) fn hold(scratch: &Scratch, work: impl FnOnce()) {
    hold_for(scratch, Duration::ZERO, work);
}

/// The same, and to ask about both ports takes as long as one of those exchanges.
pub(crate) fn hold_questions_too(scratch: &Scratch, work: impl FnOnce()) {
    const SOCKETS: u32 = 4;
    hold_for(scratch, HELD / SOCKETS, work);
}

fn hold_for(scratch: &Scratch, question: Duration, work: impl FnOnce()) {
    let file = file(scratch);
    fs::write(&file, format!("{} {}", HELD.as_secs_f64(), question.as_secs_f64())).unwrap();
    work();
    fs::remove_file(&file).unwrap();
}
