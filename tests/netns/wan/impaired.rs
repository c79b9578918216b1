//! A bad internet: what of the frames arrives is what the line let through, once each and in the order of the line.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lab::plants::PROBE;
use lab::topology::LEFT;
use lab::{Capture, Direction, Frame, Impairments, PacketSocket, Relay};

use super::{DEADLINE, PROTECTED, QUIET, Wan, has_arrived, until_captured};

/// Frames for each kind of impairment; `FRAMEWARD_WAN_IMPAIRED` says otherwise.
const USUAL_FRAMES: usize = 2000;
/// Frames that go without a pause, and the pause: no queue on the way runs over on a busy machine.
const AT_ONCE: usize = 16;
const PAUSE: Duration = Duration::from_millis(4);
/// Frames that are lost in a row: more than the window of 4096 and the anchors' distance, fewer than the anchors reach.
const BURST: usize = 6000;
/// Less than the management channel lives without an answer.
const CHANNEL_LIFE: Duration = Duration::from_millis(2500);
/// Packets after which the window stands where the sender is again, wherever that is: the distance of anchors.
const ANCHORS: usize = 2048;

fn count() -> usize {
    std::env::var("FRAMEWARD_WAN_IMPAIRED").ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL_FRAMES)
}

/// Octets of a frame's number, which both modes leave as they are.
const NUMBER: std::ops::Range<usize> = 36..40;

/// Sends frames into the first LAN, through whatever stands on its line; returns those that came out of that line, in
/// their order there, and those that came out of the second LAN.
fn through(wan: &mut Wan, octets: usize, count: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut frames = wan.frames(octets, count);
    for (number, frame) in (0u32..).zip(&mut frames) {
        frame[NUMBER].copy_from_slice(&number.to_be_bytes());
    }
    let lan = Capture::start(wan.probe(1).namespace, PROBE).unwrap();
    let line = Capture::start(wan.line(1), LEFT).unwrap();
    let sender = PacketSocket::open(wan.probe(0).namespace, PROBE).unwrap();
    let before = wan.count(0, "OutPktsTunnelled");
    for burst in frames.chunks(AT_ONCE) {
        burst.iter().for_each(|frame| sender.send(frame).unwrap());
        std::thread::sleep(PAUSE);
    }
    wan.wait_for_count(0, "OutPktsTunnelled", before + count as u64);
    // Packets that the relay holds back go after some milliseconds without traffic.
    let is_out = |frame: &Frame| frame.direction == Direction::Out && wan.is_data(&frame.octets);
    until_captured(&line, usize::MAX, Duration::from_secs(1), is_out);
    let line = line.stop().unwrap().complete().unwrap();
    let out = line.frames.iter().filter(|packet| is_out(packet));
    let mut seen = HashSet::new();
    let passed: Vec<Vec<u8>> = out
        .map(|packet| &packet.octets[packet.octets.len() - (octets - NUMBER.start)..][..NUMBER.len()])
        .map(|number| u32::from_be_bytes(number.try_into().unwrap()) as usize)
        .filter(|number| seen.insert(*number))
        .map(|number| frames[number].clone())
        .collect();
    until_captured(&lan, passed.len(), QUIET, has_arrived);
    // One that comes twice may come behind the last one.
    std::thread::sleep(Duration::from_millis(200));
    let lan = lan.stop().unwrap().complete().unwrap();
    let arrived = lan.frames.iter().filter(|frame| has_arrived(frame));
    (passed, arrived.map(|frame| frame.octets.clone()).collect())
}

#[test]
fn each_frame_that_the_internet_does_not_lose_arrives_once_and_in_the_order_of_the_line() {
    for mode in PROTECTED {
        let mut wan = Wan::new(mode);
        wan.plants.fill_checksums(wan.plant(0)).unwrap();
        for (number, impairments) in (1..).zip([
            Impairments { loss: 0.2, duplicate: 0.1, ..Impairments::default() },
            Impairments { reorder: 0.3, reorder_by: 64, ..Impairments::default() },
            Impairments { loss: 0.05, duplicate: 0.05, reorder: 0.2, reorder_by: 200, seed: 0, corrupt: 0.0 },
        ]) {
            let line = wan.plants.plants[0].line.take().unwrap();
            let relay =
                Relay::across(&line, Impairments { seed: number, ..impairments }, impairments).unwrap();
            let (passed, arrived) = through(&mut wan, 200, count());
            let counters = relay.stop().unwrap().to_right;
            wan.plants.plants[0].line = Some(line);
            assert_eq!(counters.kernel_dropped + counters.send_failed, 0, "{counters:?}");
            let share = 1.0 - passed.len() as f64 / count() as f64;
            assert!((share - impairments.loss).abs() < 0.05, "{share} lost: {impairments:?}");
            assert_eq!(passed.len(), arrived.len(), "{mode:?}: {impairments:?}: {:#?}", wan.peer(1));
            assert!(passed == arrived, "{mode:?}: {impairments:?}: another order, or other frames");
        }
        // All is as before.
        wan.cross(200, 64);
        assert_eq!(wan.peer(1).flows_announced, 0, "{:#?}", wan.peer(1));
        wan.stop();
    }
}

#[test]
fn a_burst_of_losses_longer_than_the_window_heals_at_the_next_anchor() {
    for mode in PROTECTED {
        let mut wan = Wan::new(mode);
        wan.plants.fill_checksums(wan.plant(0)).unwrap();
        let mut tries = 0;
        let lost = loop {
            let begin = Instant::now();
            let relay = Relay::across(
                wan.line(0),
                Impairments { loss: 1.0, ..Impairments::default() },
                Impairments::default(),
            )
            .unwrap();
            let sender = PacketSocket::open(wan.probe(0).namespace, PROBE).unwrap();
            let before = wan.count(0, "OutPktsTunnelled");
            let end = Instant::now() + DEADLINE;
            let mut pn = wan.pn;
            // Without a pause longer than the management channel lives with.
            while wan.count(0, "OutPktsTunnelled") < before + BURST as u64 {
                assert!(Instant::now() < end, "{:#?}", wan.peer(0));
                let mut prepared = lab::macsec::Prepared::new(wan.probe(0).mac, wan.probe(1).mac, 64, pn);
                for _ in 0..20 {
                    for _ in 0..AT_ONCE {
                        sender.send(&prepared.next_frame()).unwrap();
                        pn += 1;
                    }
                    std::thread::sleep(PAUSE / 4);
                }
            }
            let lost = relay.stop().unwrap().to_right.lost;
            wan.pn = pn;
            if begin.elapsed() < CHANNEL_LIFE {
                break lost;
            }
            // A busy machine took so long that the channel may have ended, which is another story.
            tries += 1;
            assert!(tries < 5, "a burst takes {:?}", begin.elapsed());
            wan.meet();
        };
        assert!(lost >= BURST as u64, "{lost}");
        let (passed, arrived) = through(&mut wan, 100, ANCHORS + 500);
        assert_eq!(passed.len(), ANCHORS + 500);
        let healed = arrived.len();
        assert!(healed >= 500, "{healed} of {}: {:#?}", passed.len(), wan.peer(1));
        assert!(passed.ends_with(&arrived), "nothing is lost from the first one on");
        wan.cross(200, 64);
        wan.stop();
    }
}
