//! Protect and verify in memory, with and without fragmentation: nanoseconds per SDU of 1500 octets of payload over MTU 1500.
//!
//! Each sample is the mean of many bursts. Fragmenting means here what it means in the data path: a plan, a copy of every
//! octet, two frames to seal; and the other way two frames to open, and a copy.

use std::time::{Duration, Instant};

use ::bench::fragments::FragmentEnds;
use bench::secys::Ends;
use speed::burst::BURST;
use suite::CipherSuite;

use super::Bench;
use super::samples::Samples;

const BENCH: &str = "fragment";
/// Octets of the SDU, from DA on.
const SDU: usize = 1514;
const MTU: usize = 1500;
/// Duration of each operation in each round: nothing but the CPU is waited for.
const TIME: Duration = Duration::from_millis(100);

pub(super) fn measure(bench: &mut Bench<'_>) {
    (bench.progress)(&"protect and verify in memory");
    let suite = CipherSuite::GcmAes128;
    let mut whole = Ends::new(suite, SDU);
    let mut fragmented = [false, true].map(|concatenate| FragmentEnds::new(suite, SDU, MTU, concatenate));
    let cases = ["", "fragment + ", "fragment + concatenate + "];
    let mut protect = cases.map(|case| Samples::new(&format!("{case}protect 1500 octets in memory")));
    let cases = ["verify", "verify + reassemble", "verify + separate + reassemble"];
    let mut verify = cases.map(|case| Samples::new(&format!("{case} 1500 octets in memory")));
    for _ in 0..bench.effort.rounds {
        let (sealed, opened) = each(BURST, &mut whole, Ends::protect, Ends::verify);
        protect[0].push(sealed);
        verify[0].push(opened);
        for (number, ends) in fragmented.iter_mut().enumerate() {
            let open = |ends: &mut FragmentEnds| {
                ends.verify();
            };
            let (sealed, opened) = each(FragmentEnds::SDUS, ends, FragmentEnds::protect, open);
            protect[number + 1].push(sealed);
            verify[number + 1].push(opened);
        }
    }
    for samples in [&protect, &verify] {
        for (number, one) in samples.iter().enumerate() {
            (bench.figure)(one.row(BENCH, "ns/SDU", samples.first().filter(|_| number > 0)));
        }
    }
}

/// Nanoseconds for each of `sdus` in a burst, to protect and to verify it.
fn each<T>(sdus: usize, ends: &mut T, protect: impl Fn(&mut T), verify: impl Fn(&mut T)) -> (f64, f64) {
    let (start, mut bursts) = (Instant::now(), 0u32);
    let (mut sealing, mut opening) = (Duration::ZERO, Duration::ZERO);
    while start.elapsed() < TIME {
        let begin = Instant::now();
        protect(ends);
        let middle = Instant::now();
        verify(ends);
        sealing += middle - begin;
        opening += middle.elapsed();
        bursts += 1;
    }
    let per_sdu = |time: Duration| time.as_nanos() as f64 / f64::from(bursts) / sdus as f64;
    (per_sdu(sealing), per_sdu(opening))
}
