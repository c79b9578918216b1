//! MKPDUs that wpa_supplicant sent, fed to a KaY with its CAK: it hears the members, verifies each of their MKPDUs, and takes no
//! SAK, since none of them ever heard it.

use std::collections::{BTreeMap, BTreeSet};

use mka::{CakEntry, Event, Kay};
use suite::mka::Cak;
use wire::{Ckn, Instant};

use crate::station::{ms, settings};

#[test]
fn a_recorded_session_is_heard_and_followed_by_nobody() {
    let mut verified = 0;
    for case in testkit::mka::mka_cases() {
        let participants: BTreeSet<(&[u8], &[u8])> =
            case.participants.values().map(|member| (&member.ckn[..], &member.cak[..])).collect();
        for (ckn, cak) in participants {
            let entry = CakEntry { ckn: Ckn::new(ckn).expect("a name"), cak: Cak::new(cak).expect("a CAK") };
            let mut now = Instant::after_start(ms(1000));
            let mut kay = Kay::new(now, settings(0), vec![entry], &[1; 32]);
            let mut last_mn = BTreeMap::new();
            for (frame, said) in case.octets.iter().zip(&case.frames).filter(|(_, said)| said.kind == "mkpdu")
            {
                now = now + ms(100);
                let before = *kay.counters();
                kay.handle_frame(now, frame);
                let after = kay.counters();
                let member = case.participants.values().find(|member| {
                    let ours = said.ckn.as_deref() == Some(&hex(&member.ckn)) && member.ckn == ckn;
                    ours && member.cak == cak
                });
                let (mi, mn) = (said.mi.clone().expect("an MI"), said.mn.expect("an MN"));
                let of_this_cak = member.is_some() && suite_says(frame, ckn, cak);
                let is_fresh = last_mn.get(&mi).is_none_or(|last| mn > *last);
                assert_eq!(
                    after.mkpdus_rx - before.mkpdus_rx,
                    u64::from(of_this_cak && is_fresh),
                    "{} {mi} {mn}",
                    case.name
                );
                if of_this_cak {
                    last_mn.insert(mi, mn);
                    verified += 1;
                }
                while kay.poll_transmit(now).is_some() {}
                while let Some(event) = kay.poll_event() {
                    assert!(matches!(event, Event::Notice(_)), "{}: {event:?}", case.name);
                }
            }
            let status = kay.status(now);
            assert!(status.members.iter().all(|member| !member.live && !member.announced));
            assert_eq!(status.key_server, None);
            assert!(status.fault.is_some());
        }
    }
    assert!(verified > 100, "{verified}");
}

fn suite_says(frame: &[u8], ckn: &[u8], cak: &[u8]) -> bool {
    let mkpdu = wire::mkpdu::Mkpdu::parse(frame).expect("an MKPDU");
    let ick = Cak::new(cak).expect("a CAK").ick(&Ckn::new(ckn).expect("a name"));
    ick.verifies(mkpdu.authenticated(), mkpdu.icv())
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
