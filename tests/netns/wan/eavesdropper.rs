//! View of an eavesdropper on the line.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lab::Capture;
use lab::macsec::{Load, Prepared};
use lab::topology::LEFT;

use super::{PROTECTED, UDP_PAYLOAD, Wan};

/// Packets of the constant flow; `make test-long` has a million.
const USUAL_PACKETS: u64 = 30_000;
/// No more a second than a capture keeps up with on a busy machine.
const RATE: u32 = 15_000;
/// Time limit for all packets.
const LIMIT: Duration = Duration::from_secs(600);
/// Octets of the protected header: of identifier mode 16, of header encryption 32.
const HEADERS: [usize; 2] = [16, 32];
/// A uniform octet exceeds this chi-square once in a million (Wilson and Hilferty's approximation), with 255 degrees of
/// freedom, and with 127: the first octet of an identifier has one bit that is always clear.
const CHI_SQUARE: [f64; 2] = [377.2, 217.9];

fn packets() -> u64 {
    std::env::var("FRAMEWARD_WAN_PACKETS").ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL_PACKETS)
}

#[test]
fn an_eavesdropper_learns_no_address_no_sci_and_no_flow() {
    for (mode, octets) in PROTECTED.into_iter().zip(HEADERS) {
        let mut wan = Wan::new(mode);
        let (from, to) = (wan.probe(0).mac, wan.probe(1).mac);
        let line = Capture::start(wan.line(0), LEFT).unwrap();
        let count = packets();
        let (probe, mut frames) = (wan.probe(0), Prepared::new(from, to, 60, wan.pn));
        let next = move |frame: &mut Vec<u8>| {
            frames.next_into(frame);
        };
        let load = Load::start_with((probe.namespace, probe.ifname), next, Some(RATE), LIMIT).unwrap();
        // A busy machine loses some on the way to the first site: they were never in the tunnel.
        let end = Instant::now() + LIMIT;
        while wan.count(0, "OutPktsTunnelled") < count {
            assert!(Instant::now() < end, "{:#?}", wan.report(0));
            std::thread::sleep(Duration::from_millis(50));
        }
        let sent = load.stop().unwrap();
        wan.pn += u32::try_from(sent).unwrap() + 32;
        // In two packets each.
        wan.cross(1514, 64);
        let captured = line.stop().unwrap().complete().unwrap();

        for secret in [&from[..], &to, &[&from[..], &[0, 1]].concat()] {
            assert_eq!(captured.find(secret), None, "{secret:02x?} in {mode:?}");
        }
        for frame in &captured.frames {
            assert!(frame.octets.len() <= 14 + 1500, "{} octets exceed the path's MTU", frame.octets.len());
        }
        let data: Vec<_> = captured
            .frames
            .iter()
            .filter(|frame| wan.is_data(&frame.octets))
            .map(|frame| &frame.octets[UDP_PAYLOAD..])
            .collect();
        assert!(data.len() as u64 >= count, "{} data packets of {count}", data.len());
        let heads: HashSet<_> = data.iter().map(|packet| &packet[..8]).collect();
        assert_eq!(
            heads.len(),
            data.len(),
            "an identifier, or a header's beginning, occurs twice in {mode:?}"
        );
        for place in 0..octets {
            let narrow = octets == HEADERS[0] && place == 0;
            let statistic = chi_square(data.iter().map(|packet| packet[place]), narrow);
            assert!(statistic < CHI_SQUARE[usize::from(narrow)], "octet {place} of {mode:?}: {statistic}");
        }
        wan.stop();
    }
}

/// Distance of the octets' frequencies from equal ones; `narrow`: bit 0x40 is always clear.
fn chi_square(octets: impl Iterator<Item = u8>, narrow: bool) -> f64 {
    let mut counts = [0u32; 256];
    let mut total = 0.0;
    for octet in octets {
        counts[usize::from(octet)] += 1;
        total += 1.0;
    }
    let values = (0..=u8::MAX).filter(|value| !narrow || value & 0x40 == 0);
    let expected = total / if narrow { 128.0 } else { 256.0 };
    values.map(|value| (f64::from(counts[usize::from(value)]) - expected).powi(2) / expected).sum()
}

#[test]
fn the_measure_of_uniformity_tells_a_counter_from_noise() {
    let noise = testkit::frames::payload(30_000, 5);
    assert!(chi_square(noise.iter().copied(), false) < CHI_SQUARE[0]);
    let skewed = noise.iter().map(|octet| if *octet < 8 { 0 } else { *octet });
    assert!(chi_square(skewed, false) > CHI_SQUARE[0]);
    assert!(chi_square((0..30_000).map(|number| (number / 256) as u8), false) > CHI_SQUARE[0]);
}
