//! Cost of a frame in the tunnel itself, in memory: our header transformations beside a full re-encryption.
//!
//! Sending is finding the peer and the flow and making the header; receiving is finding the sender, checking that the
//! packet is new, and making addresses and SecTAG anew. A full re-encryption is what a tunnel does that does not know
//! that its frames are encrypted already: GCM-AES-128 over all octets of the frame.

use std::time::{Duration, Instant};

use ::bench::sites::Sites;
use bench::secys::Ends;
use speed::burst::BURST;
use suite::CipherSuite;
use tunnel::Mode;

use super::BENCH;
use crate::bench::Bench;
use crate::bench::samples::Samples;

/// Octets of the frames, without FCS: the shortest, and the largest that identifier mode carries whole over MTU 1500.
pub(super) const FRAMES: [usize; 2] = [60, 1484];
/// Duration of each case in each round: nothing but the CPU is waited for.
const TIME: Duration = Duration::from_millis(50);

pub(super) fn measure(bench: &mut Bench<'_>) {
    (bench.progress)(&"headers in memory");
    for octets in FRAMES {
        let mut sites = [
            ("identifier", Sites::new(Mode::Identifier, octets)),
            ("header encryption", Sites::new(Mode::HeaderEncryption, octets)),
            ("plain", Sites::new(Mode::Plain { vni: 1 }, octets)),
        ];
        let mut ends = Ends::new(CipherSuite::GcmAes128, octets);
        let names = ["re-encryption, gcm-aes-128"].into_iter().chain(sites.each_ref().map(|(name, _)| *name));
        let mut send: Vec<_> =
            names.map(|name| Samples::new(&format!("send {octets} octets in memory, {name}"))).collect();
        let mut receive: Vec<_> = send
            .iter()
            .map(|samples: &Samples| Samples::new(&samples.case.replacen("send", "receive", 1)))
            .collect();
        for _ in 0..bench.effort.rounds {
            let (sent, received) = each(&mut ends, |_| (), Ends::protect, Ends::verify);
            send[0].push(sent);
            receive[0].push(received);
            for (number, (_, sites)) in sites.iter_mut().enumerate() {
                let (sent, received) = each(sites, Sites::number, Sites::send, Sites::receive);
                send[number + 1].push(sent);
                receive[number + 1].push(received);
            }
        }
        for samples in [&send, &receive] {
            for (number, one) in samples.iter().enumerate() {
                (bench.figure)(one.row(BENCH, "ns/frame", samples.first().filter(|_| number > 0)));
            }
        }
    }
}

/// Nanoseconds a frame to send and to receive it. Bursts are timed as a whole.
fn each<T>(
    ends: &mut T,
    prepare: impl Fn(&mut T),
    send: impl Fn(&mut T),
    receive: impl Fn(&mut T),
) -> (f64, f64) {
    let (start, mut bursts) = (Instant::now(), 0u32);
    let (mut sending, mut receiving) = (Duration::ZERO, Duration::ZERO);
    while start.elapsed() < TIME {
        prepare(ends);
        let begin = Instant::now();
        send(ends);
        let middle = Instant::now();
        receive(ends);
        sending += middle - begin;
        receiving += middle.elapsed();
        bursts += 1;
    }
    let per_frame = |time: Duration| time.as_nanos() as f64 / f64::from(bursts) / BURST as f64;
    (per_frame(sending), per_frame(receiving))
}
