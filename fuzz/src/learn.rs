//! Whatever is heard, a proposed cell is a configuration that both boxes take, and its report is comments alone.

use std::path::Path;
use std::time::Duration;

use config::KeyFiles;
use diagnosis::learn::proposal::Setting;
use diagnosis::learn::{Learner, MOST_FLOWS};

use crate::config::{cak, identity, master_key};

/// Most frames of a run.
const MOST_FRAMES: usize = 4096;

/// Reads `octets` as frames: interval 2 in units of 31.25 us | how often 1 | length 1 | frame. An odd number of times is at another interface.
///
/// # Panics
/// If the learner does, or proposes what a gateway refuses.
pub fn run(mut octets: &[u8]) {
    let (mut learner, mut time, mut frames) = (Learner::default(), Duration::ZERO, 0);
    while let Some(([high, low, often, length], rest)) = octets.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        octets = rest;
        let mut frame = frame.to_vec();
        let units = u16::from_be_bytes([*high, *low]);
        for _ in 0..*often {
            if frames == MOST_FRAMES {
                break;
            }
            frames += 1;
            time += Duration::from_nanos(31_250) * u32::from(units);
            learner.handle_frame(Some(time), usize::from(often % 2), &frame, true);
            // The CycleCounter goes on.
            if let Some([.., a, b, _, _]) = frame.last_chunk_mut::<4>() {
                [*a, *b] = u16::from_be_bytes([*a, *b]).wrapping_add(units).to_be_bytes();
            }
        }
    }
    assert_eq!(learner.heard().frames, frames as u64);
    let setting =
        Setting { name: "cell".into(), local: Vec::new(), plain: "eth0".into(), protected: "eth1".into() };
    let learned = learner.learned(setting);
    assert!(learned.relations.len() + learned.left_out.len() <= 2 * MOST_FLOWS);
    let report = learned.to_string();
    assert!(report.lines().all(|line| line.starts_with('#')), "{report}");
    if learned.relations.is_empty() {
        return;
    }
    let read_key = |path: &Path, _| unreachable!("no static key is named: {}", path.display());
    for end in 0..2 {
        let files = KeyFiles { key: &read_key, cak: &cak, identity: &identity, master_key: &master_key };
        let text = format!("{report}\n{}", learned.configuration(end));
        let parsed = config::parse(Path::new("cell.toml"), &text, files);
        assert!(parsed.is_ok(), "{parsed:?}\n{text}");
    }
}
