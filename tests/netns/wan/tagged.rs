//! MACsec frames behind VLAN tags, between known flows without: the latter may be in the kernel, the former never are.

use std::time::Instant;

use lab::plants::PROBE;
use lab::{Direction, PacketSocket};

use super::{DEADLINE, PROTECTED, Wan};

const TAGS: [&[u8]; 4] = [
    &[],
    &[0x81, 0x00, 0xc0, 0x0a],
    &[0x81, 0x00, 0x40, 0x0a],
    &[0x88, 0xa8, 0x20, 0x05, 0x81, 0x00, 0x00, 0x0b],
];

/// The next frame that has these addresses.
fn next(receiver: &mut PacketSocket, addresses: &[u8]) -> Option<Vec<u8>> {
    let end = Instant::now() + DEADLINE;
    while Instant::now() < end {
        match receiver.receive().unwrap() {
            Some(frame) if frame.direction == Direction::In && frame.octets[..12] == *addresses => {
                return Some(frame.octets);
            }
            _ => {}
        }
    }
    None
}

#[test]
fn frames_behind_vlan_tags_cross_whole_and_none_shows() {
    const COUNT: usize = 2000;
    for mode in PROTECTED {
        let mut wan = Wan::new(mode);
        let sent = wan.captured(|wan| {
            // The last are as long as the LAN's MTU of 1500 allows, with a tag 1518 octets. A veth carries no longer ones.
            for (index, octets) in [(0, 200), (1, 200), (0, 1300), (0, 1514)] {
                let frames = wan.frames_of(index, octets, COUNT);
                let tags = if octets == 1514 { &TAGS[..3] } else { &TAGS };
                let frames: Vec<_> = (0..)
                    .zip(frames)
                    .map(|(number, frame)| [&frame[..12], tags[number % tags.len()], &frame[12..]].concat())
                    .collect();
                let sender = PacketSocket::open(wan.probe(index).namespace, PROBE).unwrap();
                let mut receiver = PacketSocket::open(wan.probe(1 - index).namespace, PROBE).unwrap();
                for window in frames.chunks(32) {
                    window.iter().for_each(|frame| sender.send(frame).unwrap());
                    // Frames of one flow stay in order; those of others may overtake them.
                    let mut came: Vec<_> =
                        window.iter().map_while(|_| next(&mut receiver, &frames[0][..12])).collect();
                    came.sort();
                    let mut expected = window.to_vec();
                    expected.sort();
                    assert!(came == expected, "{mode:?}: {} of {}", came.len(), window.len());
                }
            }
        });
        assert!(sent.len() >= 2 * COUNT, "{mode:?}: {}", sent.len());
        for tags in &TAGS[1..] {
            // Of encrypted octets four are these by chance, but not in a tenth of all packets.
            let shown = sent.iter().filter(|packet| packet.windows(tags.len()).any(|octets| octets == *tags));
            assert!(shown.count() < COUNT / 10, "{mode:?}: {tags:02x?} show");
        }
        for index in [0, 1] {
            assert_eq!(
                wan.count(index, "OutPktsNotMacsec") + wan.count(index, "OutPktsTagged"),
                0,
                "{mode:?}"
            );
        }
        wan.stop();
    }
}
