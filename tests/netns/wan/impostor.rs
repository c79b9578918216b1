//! Somebody in a LAN who sends frames in the name of a station, with PNs of his own choice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lab::PacketSocket;
use lab::plants::PROBE;

use super::{DEADLINE, PROTECTED, Wan};

/// Frames of the station: at a thousand a second.
const FRAMES: u32 = 4000;

/// An encrypted MACsec frame of the probe behind site 0 to the one behind site 1.
fn macsec(from: [u8; 6], to: [u8; 6], pn: u32) -> Vec<u8> {
    let tag = [&[0x88, 0xe5, 0x2c, 0][..], &pn.to_be_bytes(), &from, &[0, 1]].concat();
    let body = (0..80).map(|at: u32| (pn.wrapping_mul(0x9e37_79b9).rotate_left(at % 32) >> 5) as u8);
    [&to[..], &from, &tag].concat().into_iter().chain(body).collect()
}

#[test]
fn frames_in_the_name_of_a_station_cost_it_no_more_than_themselves() {
    let mut wan = Wan::new(PROTECTED[1]);
    wan.cross(20, 64);
    let (from, to) = (wan.probe(0), wan.probe(1));
    let mut listener = PacketSocket::open(to.namespace, PROBE).unwrap();
    let station = PacketSocket::open(from.namespace, PROBE).unwrap();
    let impostor = PacketSocket::open(from.namespace, PROBE).unwrap();
    let frame = |pn: u32| macsec(from.mac, to.mac, pn);
    // The flow is made known before.
    station.send(&frame(999)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let (mut heard, mut forged) = (BTreeSet::new(), 0);
    let ways: [fn(u32) -> u32; 5] = [
        |pn| pn + 0x1000_0000,
        |pn| pn + 2047 * (pn / 10),
        |pn| pn + 5,
        |pn| pn.wrapping_add(1 << 31),
        |pn| pn.wrapping_sub(100_000),
    ];
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut forged = 0;
            for sent in 0..FRAMES {
                let pn = 1000 + sent;
                // A hundred a second.
                if sent % 10 == 5 {
                    let mut octets = frame(ways[sent as usize / 10 % ways.len()](pn));
                    octets[60] ^= 1;
                    impostor.send(&octets).unwrap();
                    forged += 1;
                }
                station.send(&frame(pn)).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            forged
        });
        let end = Instant::now() + DEADLINE;
        let is_last = |heard: &BTreeSet<u32>| heard.contains(&(1000 + FRAMES - 1));
        while !is_last(&heard) && Instant::now() < end {
            let octets = listener.receive().unwrap().map(|frame| frame.octets);
            if let Some(octets) = octets.filter(|octets| {
                octets.len() > 28 && octets[6..12] == from.mac && octets[12..14] == [0x88, 0xe5]
            }) {
                let pn = u32::from_be_bytes(octets[16..20].try_into().unwrap());
                if octets[..] == frame(pn)[..] && (1000..1000 + FRAMES).contains(&pn) {
                    heard.insert(pn);
                }
            }
        }
        forged = sender.join().unwrap();
    });
    assert!(heard.len() + forged >= FRAMES as usize, "{} of {FRAMES} beside {forged}", heard.len());
    wan.stop();
}
