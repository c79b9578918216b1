//! A capture is read to its end or to where it breaks, and nothing is told that is not in it.

use std::path::Path;
use std::time::Duration;

use config::KeyFiles;
use config::key_file::NamedCak;
use config::sa_file;
use diagnosis::inspect::frame_report::FrameVerdict;
use diagnosis::inspect::keys::{self, KeyedCak, Keyring, Overrides, Replay};
use diagnosis::inspect::{Inspector, Options};
use secy::ClearVlan;
use suite::mka::Cak;
use wire::Ckn;
use wire::mkpdu::{ICV_OCTETS, Mkpdu};

use crate::config::identity;

/// The SA of the captures in the corpus.
const KEYS: &str = "[[sa]]\nsuite = \"gcm-aes-128\"\nsci = \"02:00:00:00:00:0a/1\"\nan = 0\n\
                    key = \"00000000000000000000000000000000\"\n";
/// The CAK of those with MKPDUs, and its name.
const CAK: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const CKN: &[u8] = b"1234";

fn keyring() -> Keyring {
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
    let mut keyring = keys::keyed(file.expect("invariant: a valid file of keys"), Overrides::default());
    keyring.caks.push(KeyedCak {
        from: "line.cak".into(),
        cak: NamedCak::new(ckn(), &CAK).expect("invariant: 16 octets"),
        replay: Replay::Window(0),
        clear_vlan: ClearVlan::Strip,
        reassemble: true,
    });
    keyring
}

fn ckn() -> Ckn {
    Ckn::new(CKN).expect("invariant: a name")
}

/// Inspects `octets` as a capture, without keys and with some; and a capture of MKPDUs made of them, all of them with a right
/// ICV, as who has the CAK can make them.
///
/// # Panics
/// If the inspector does, or contradicts itself.
pub fn run(octets: &[u8]) {
    inspect(octets, None);
    inspect(octets, Some(keyring()));
    inspect(&signed(octets), Some(keyring()));
}

/// A pcap of frames, each as long as the two octets before it say. What is an MKPDU under the CAK gets its ICV.
fn signed(mut octets: &[u8]) -> Vec<u8> {
    let ick = Cak::new(&CAK).expect("invariant: 16 octets").ick(&ckn());
    let mut capture = [
        &0xa1b2_c3d4_u32.to_le_bytes()[..],
        &[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0],
        &1_u32.to_le_bytes(),
    ]
    .concat();
    while let Some((length, rest)) = octets.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (frame, rest) = rest.split_at(length);
        octets = rest;
        let mut frame = frame.to_vec();
        if let Ok(mkpdu) = Mkpdu::parse(&frame)
            && mkpdu.basic.ckn == ckn()
        {
            let (end, icv) = (mkpdu.authenticated().len(), ick.icv(mkpdu.authenticated()));
            frame[end..end + ICV_OCTETS].copy_from_slice(&icv);
        }
        let length = (frame.len() as u32).to_le_bytes();
        capture.extend([&[0; 8][..], &length, &length, &frame].concat());
    }
    capture
}

fn inspect(octets: &[u8], keys: Option<Keyring>) {
    let with_keys = keys.is_some();
    let options = Options { keys, copies: Duration::from_millis(5), fcs: false };
    let (mut frames, mut length) = (0, 0);
    let summary = Inspector::new(options).run(octets, |inspected| {
        frames += 1;
        length += inspected.captured.octets.len();
        assert_eq!(inspected.report.frame, frames);
        assert!(inspected.report.captured <= inspected.report.length);
        assert_eq!(inspected.sdus.len(), inspected.report.sdus.len());
        assert!(inspected.sdus.is_empty() || inspected.report.verdict == FrameVerdict::Ok);
        assert!(with_keys || inspected.report.verdict != FrameVerdict::Ok);
        assert!(inspected.report.mkpdu.as_ref().is_none_or(|mkpdu| !mkpdu.to_string().contains('\n')));
        true
    });
    let Ok(summary) = summary else { return };
    assert_eq!(summary.frames, frames);
    assert!(length <= octets.len() && summary.octets <= octets.len() as u64);
    assert!(!summary.to_string().is_empty());
    assert!(summary.broken.is_none_or(|broken| !broken.contains('\n')));
}
