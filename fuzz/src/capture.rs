//! A capture is read to its end or to where it breaks, and nothing is told that is not in it.

use std::path::Path;
use std::time::Duration;

use config::KeyFiles;
use config::sa_file;
use diagnosis::inspect::frame_report::Verdict;
use diagnosis::inspect::keys::{self, Overrides};
use diagnosis::inspect::{Inspector, Options};

use crate::config::identity;

/// The SA of the captures in the corpus.
const KEYS: &str = "[[sa]]\nsuite = \"gcm-aes-128\"\nsci = \"02:00:00:00:00:0a/1\"\nan = 0\n\
                    key = \"00000000000000000000000000000000\"\n";

/// Inspects `octets` as a capture, without keys and with one.
///
/// # Panics
/// If the inspector does, or contradicts itself.
pub fn run(octets: &[u8]) {
    for with_keys in [false, true] {
        let keys = with_keys.then(|| {
            let read = |path: &Path, _| unreachable!("no key file is named: {}", path.display());
            let file = sa_file::parse(
                Path::new("keys.toml"),
                KEYS,
                KeyFiles {
                    key: &read,
                    cak: &crate::config::cak,
                    identity: &identity,
                    master_key: &crate::config::master_key,
                },
            );
            keys::keyed(file.expect("invariant: a valid file of keys"), Overrides::default())
        });
        let options = Options { keys, copies: Duration::from_millis(5), fcs: false };
        let (mut frames, mut length) = (0, 0);
        let summary = Inspector::new(options).run(octets, |inspected| {
            frames += 1;
            length += inspected.captured.octets.len();
            assert_eq!(inspected.report.frame, frames);
            assert!(inspected.report.captured <= inspected.report.length);
            assert_eq!(inspected.sdus.len(), inspected.report.sdus.len());
            assert!(inspected.sdus.is_empty() || inspected.report.verdict == Verdict::Ok);
            assert!(with_keys || inspected.report.verdict != Verdict::Ok);
            true
        });
        let Ok(summary) = summary else { continue };
        assert_eq!(summary.frames, frames);
        assert!(length <= octets.len() && summary.octets <= octets.len() as u64);
        assert!(!summary.to_string().is_empty());
        assert!(summary.broken.is_none_or(|broken| !broken.contains('\n')));
    }
}
