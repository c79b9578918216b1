//! Floods, from the internet and from inside a LAN: memory stays what it was, known flows go on, and so does key agreement.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use lab::PacketSocket;
use lab::cpu::resident;
use lab::plants::PROBE;
use testkit::frames::payload;

use super::{DEADLINE, PROTECTED, Wan, counter};

#[test]
fn random_macsec_frames_from_inside_open_no_more_flows_than_the_quota() {
    for mode in PROTECTED {
        let mut wan = Wan::new(mode);
        let process = wan.sites.sites[0].program().id();
        let before = resident(process).unwrap();
        let attacker = PacketSocket::open(wan.probe(0).namespace, PROBE).unwrap();
        for seed in 0..40_000 {
            let mut frame = payload(80, seed);
            // Stations' addresses, an encrypted frame with SCI.
            frame[0] &= 0xfe;
            frame[6] &= 0xfe;
            frame[12..16].copy_from_slice(&[0x88, 0xe5, 0x2c, 36]);
            attacker.send(&frame).unwrap();
        }
        let refused = wan.wait_for_count(0, "OutPktsFlowRate", 1);
        let flows = wan.peer(0).flows_announced + wan.peer(0).flows_acknowledged;
        assert!(flows <= 4096, "{flows} flows, {refused} refused");
        wan.wait_until_idle(0);
        let grown = resident(process).unwrap().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} octets more after the flood");
        // A known flow loses nothing, though it was silent during the flood.
        wan.cross(200, 64);
        wan.stop();
    }
}

/// An EAPOL frame to the group that KaYs speak to.
fn eapol(from: [u8; 6], packet_type: u8, number: u16) -> Vec<u8> {
    let mut frame = [&[1, 0x80, 0xc2, 0, 0, 3][..], &from, &[0x88, 0x8e, 3, packet_type]].concat();
    frame.extend(number.to_be_bytes());
    frame.resize(120, 0);
    frame
}

/// MKPDUs of a station while somebody on its LAN says 20,000 frames a second from addresses that come once: all arrive.
#[test]
fn eapol_of_strangers_starves_no_stations_key_agreement() {
    const MKPDUS: u64 = 24;
    let wan = Wan::new(PROTECTED[0]);
    let station = wan.probe(0);
    let mut listener = PacketSocket::open(wan.probe(1).namespace, PROBE).unwrap();
    let speaker = PacketSocket::open(station.namespace, PROBE).unwrap();
    let flooder = PacketSocket::open(station.namespace, PROBE).unwrap();
    speaker.send(&eapol(station.mac, 5, 0)).unwrap();
    let (stop, sent) = (AtomicBool::new(false), AtomicU16::new(0));
    let mut heard = BTreeSet::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..20 {
                    number += 1;
                    let [_, _, mut from @ ..] = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                    from[0] &= 0xfe;
                    let _ = flooder.send(&eapol(from, if number.is_multiple_of(4) { 1 } else { 5 }, 0));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(250));
                let number = sent.fetch_add(1, Ordering::Relaxed) + 1;
                let _ = speaker.send(&eapol(station.mac, 5, number));
            }
        });
        let end = Instant::now() + DEADLINE;
        while (heard.len() as u64) < MKPDUS && Instant::now() < end {
            let frame = listener.receive().unwrap().map(|frame| frame.octets);
            if let Some(frame) = frame.filter(|frame| frame[6..16] == eapol(station.mac, 5, 0)[6..16]) {
                let number = u16::from_be_bytes([frame[16], frame[17]]);
                heard.extend((number > 0).then_some(number));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let site = wan.report(0).sites.remove(0);
    let channel = site.channel.expect("a management channel");
    let (newest, heard) = (heard.last().copied().unwrap_or_default(), heard.len() as u64);
    assert!(heard >= MKPDUS, "{heard} of {sent:?} {:#?} {channel:#?}", site.path);
    // On a machine that stands still a newer one may take an older one's place, and the channel may end: it takes with it what is
    // under way.
    let replaced = counter(&channel, "OutMkpdusReplaced");
    let ended = counter(&channel, "ConnectionsLost") > 0;
    assert!(
        heard + replaced >= u64::from(newest) || ended,
        "{heard} of {newest} {:#?} {channel:#?}",
        site.path
    );
    assert!(wan.count(0, "OutMkpdusFlood") > 1000 && wan.count(0, "OutEapolOther") > 1000);
    wan.stop();
}
