//! Captures that other implementations made: each wire capture decrypts to its clear capture.

use diagnosis::inspect::frame_report::FrameVerdict;
use pcap_file::Endianness;
use testkit::fixture::{MacsecCase, macsec_cases, pcap_frames, vectors};

use super::{inspect, pcapng, sas, timed};

/// The SAs of a case, as a file of keys.
pub(super) fn keys(case: &MacsecCase) -> String {
    let sa = |sa: &testkit::fixture::FixtureSa| {
        let xpn = sa.xpn.map_or(String::new(), |(ssci, salt)| {
            format!("ssci = {ssci}\nsalt = \"{}\"\n", hex::encode(salt))
        });
        format!(
            "[[sa]]\nsuite = {:?}\nsci = \"{}\"\nan = {}\nkey = {:?}\nconfidentiality_offset = {}\n{xpn}",
            case.suite,
            sa.sci,
            sa.an,
            hex::encode(&sa.key),
            case.confidentiality_offset
        )
    };
    case.sas.iter().map(sa).collect()
}

/// Runs all cases of a folder, and returns (frames verified, frames refused).
fn run(folder: &str) -> (usize, usize) {
    let (mut verified, mut refused) = (0, 0);
    for case in macsec_cases(folder) {
        let at = |ending: &str| vectors().join(folder).join(format!("{}.{ending}.pcap", case.name));
        let (wire, clear) = (std::fs::read(at("wire")).unwrap(), pcap_frames(&at("clear")));
        let frames = timed(&pcap_frames(&at("wire")));
        let captures =
            [wire, pcapng(&frames, Endianness::Little, |_| 1), pcapng(&frames, Endianness::Big, |_| 0)];
        for (form, capture) in captures.iter().enumerate() {
            let told = inspect(capture, Some(sas(&keys(&case))));
            assert_eq!(told.summary.broken, None);
            assert_eq!(told.frames.len(), clear.len(), "{} {form}", case.name);
            for (index, ((report, sdus), clear)) in told.frames.iter().zip(&clear).enumerate() {
                let name = format!("{} {form} {index}", case.name);
                match report.verdict {
                    FrameVerdict::Ok => assert_eq!(*sdus, std::slice::from_ref(clear), "{name}"),
                    verdict => {
                        assert_eq!(
                            (verdict, report.counter),
                            (FrameVerdict::Bad, Some("InPktsNoSAError")),
                            "{name}"
                        );
                        let delivered = case.frames.iter().any(|f| f.delivered && f.clear == *clear);
                        assert!(!delivered, "{name}");
                    }
                }
                verified += usize::from(form == 0 && report.verdict == FrameVerdict::Ok);
                refused += usize::from(form == 0 && report.verdict != FrameVerdict::Ok);
            }
        }
    }
    (verified, refused)
}

#[test]
fn the_linux_kernels_captures() {
    // Both directions in one capture, also without SCI; XPN from the middle, and over 2^32. The refused ones are
    // bridged frames sent with ES, which the kernel's receiver refused too.
    assert_eq!(run("macsec-kernel"), (692, 4));
}

#[test]
fn scapys_captures_with_confidentiality_offsets() {
    assert_eq!(run("macsec-offset"), (144, 0));
}
