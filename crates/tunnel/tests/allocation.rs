//! The frame path allocates nothing: neither do frames, packets and time, nor what peers say about flows and positions.

mod ends;

use std::time::Duration;

use allocation_counter::measure;
use arrayvec::ArrayVec;
use ends::{LAN_FRAME, Sites, frame, frame_between, settings};
use tunnel::{Command, Event, Forwarding, Mode, PacketSource, PeerId, PeerSettings, Settings};
use wire::Instant;

const P0: PeerId = PeerId(0);

/// Asserts that nothing in `work` allocates or frees.
fn free_of_allocation<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let mut result = None;
    let info = measure(|| result = Some(work()));
    assert_eq!((info.count_total, info.count_current), (0, 0), "{what}");
    result.expect("it ran")
}

type Octets = ArrayVec<u8, 2048>;

/// A frame through both sites, with nothing but what an engine calls.
fn through(ends: &mut [Forwarding; 2], now: Instant, frame: &[u8], arrive: bool) -> usize {
    through_by(PacketSource::Identifier, ends, now, frame, arrive)
}

fn through_by(
    arrival: PacketSource,
    ends: &mut [Forwarding; 2],
    now: Instant,
    frame: &[u8],
    arrive: bool,
) -> usize {
    let [from, to] = ends;
    let Some(route) = from.route(now, frame) else { return 0 };
    let mut frames = 0;
    for packet in from.dispatch(now, &route, P0, frame) {
        let mut octets = Octets::new();
        octets.try_extend_from_slice(&packet.header).expect("room");
        octets.try_extend_from_slice(&frame[packet.body.clone()]).expect("room");
        if arrive {
            frames += usize::from(to.handle_packet(now, arrival, &octets).is_ok());
        }
    }
    from.handle_timeout(now);
    to.handle_timeout(now);
    frames
}

#[test]
fn nothing_on_the_frame_path_allocates() {
    assert_eq!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total, 1, "it counts");
    let settings = Settings { window: 256, ..settings(1) };
    let mut sites = Sites::new(2, &settings);
    let generation = sites.sites[0].generations[0];
    let mut now = sites.now;
    let [a, b] = <[ends::Site; 2]>::try_from(std::mem::take(&mut sites.sites)).ok().expect("two");
    let mut ends = [a.forwarding, b.forwarding];
    let known = frame(1, 2, 1, 100);
    let long = frame(1, 2, 1, LAN_FRAME);
    let mut events: Vec<Event> = Vec::with_capacity(4096);

    assert_eq!(free_of_allocation("a new flow", || through(&mut ends, now, &known, true)), 1);
    assert_eq!(free_of_allocation("halves", || through(&mut ends, now, &long, true)), 2);
    free_of_allocation("events", || events.extend(std::iter::from_fn(|| ends[0].poll_event())));
    let Some(&Event::Announce { index, flow, request, .. }) = events.first() else { panic!("{events:?}") };
    free_of_allocation("an announcement", || {
        ends[1].handle_command(now, Command::AddFlow { peer: P0, generation, index, flow, request });
        ends[0].handle_command(now, Command::Announced { peer: P0, generation, index, request });
    });
    assert_eq!(free_of_allocation("a known flow", || through(&mut ends, now, &known, true)), 1);
    free_of_allocation("an outage, anchors and a lost lane", || {
        for pn in 0..200_000 {
            through(&mut ends, now, &frame_of(&known, pn), pn % 40_000 == 0);
            now = now + Duration::from_micros(10);
        }
        ends[0].handle_command(now, Command::RequestPosition { peer: P0, generation, epoch: 1, lane: 0 });
    });
    free_of_allocation("events", || events.extend(std::iter::from_fn(|| ends[0].poll_event())));
    let Some(&Event::Position { epoch, lane, seq, .. }) = events.last() else { panic!("{events:?}") };
    free_of_allocation("a position", || {
        ends[1].handle_command(now, Command::Position { peer: P0, generation, epoch, lane, seq });
        (0..100).for_each(|_| ends[1].handle_timeout(now));
    });
    assert_eq!(free_of_allocation("after it", || through(&mut ends, now, &known, true)), 1);
    let flood: Vec<_> = (0..6000_u16)
        .map(|number| {
            let [high, low] = number.to_be_bytes();
            frame_between([2, 0, 0, 1, high, low], [2, 0, 0, 2, low, high], 1, 60)
        })
        .collect();
    free_of_allocation("a flood of stations and flows, and more events than there is room for", || {
        for frame in &flood {
            through(&mut ends, now, frame, true);
            now = now + Duration::from_millis(1);
        }
    });
    free_of_allocation("ages", || {
        for _ in 0..5000 {
            now = now + Duration::from_millis(100);
            ends.iter_mut().for_each(|end| end.handle_timeout(now));
            while ends[0].poll_event().is_some() {}
        }
    });
    assert_eq!((ends[0].flows(P0).count(), ends[0].stations().count()), (0, 0));
}

/// The old epoch goes without a word to the allocator.
#[test]
fn an_epoch_ends_without_an_allocation() {
    let mut sites = Sites::new(2, &settings(1));
    sites.next_epoch(0, 1);
    sites.settle();
    let known = frame(1, 2, 1, 100);
    sites.send(0, &known);
    sites.deliver_all(0);
    assert_eq!(sites.sites[1].forwarding.receive_epochs(P0).count(), 2);
    let mut now = sites.now;
    let forwarding = &mut sites.sites[1].forwarding;
    free_of_allocation("the end of an epoch", || {
        for _ in 0..300 {
            now = now + Duration::from_millis(10);
            forwarding.handle_timeout(now);
        }
    });
    assert_eq!(forwarding.receive_epochs(P0).count(), 1);
}

#[test]
fn header_encryption_allocates_nothing_either() {
    let mut settings = settings(1);
    settings.peers[0] = PeerSettings { mode: Mode::HeaderEncryption, path_payload: 1000 };
    let mut sites = Sites::new(2, &settings);
    sites.next_epoch(0, 1);
    sites.settle();
    let generation = sites.sites[0].generations[0];
    let mut now = sites.now + Duration::from_secs(2);
    let [a, b] = <[ends::Site; 2]>::try_from(std::mem::take(&mut sites.sites)).ok().expect("two");
    let mut ends = [a.forwarding, b.forwarding];
    let through = |ends: &mut [Forwarding; 2], now, frame: &[u8]| {
        through_by(PacketSource::From(P0), ends, now, frame, true)
    };
    let known = frame(1, 2, 1, 100);
    let mut events: Vec<Event> = Vec::with_capacity(4096);

    free_of_allocation("frames that wait, and more than there is room for", || {
        (1..100).for_each(|pn| assert_eq!(through(&mut ends, now, &frame_of(&known, pn)), 0));
    });
    free_of_allocation("events", || events.extend(std::iter::from_fn(|| ends[0].poll_event())));
    let Some(&Event::Announce { index, flow, request, .. }) = events.first() else { panic!("{events:?}") };
    let released = free_of_allocation("an announcement, and the frames that it lets go", || {
        ends[1].handle_command(now, Command::AddFlow { peer: P0, generation, index, flow, request });
        ends[0].handle_command(now, Command::Announced { peer: P0, generation, index, request });
        std::iter::from_fn(|| ends[0].poll_released(now).map(|released| released.packets.len())).count()
    });
    assert_eq!(released, 64);
    let came = free_of_allocation("a known flow, other ANs, a restart and copies", || {
        let frames = (100..5000).chain(1..200).chain(150..300);
        frames.map(|pn| through(&mut ends, now, &frame_of(&known, pn))).sum::<usize>()
    });
    assert_eq!((came, ends[0].transmit_epoch(P0)), (4900 + 199 + 100, 2));
    let halves = frame(1, 2, 1, LAN_FRAME);
    let came = free_of_allocation("halves", || {
        (5000..6000).map(|pn| through(&mut ends, now, &frame_of(&halves, pn))).sum::<usize>()
    });
    assert_eq!(came, 2000);
    free_of_allocation("forgeries, and what ends by itself", || {
        for millisecond in 0..300_u64 {
            now = now + Duration::from_millis(10);
            let noise = [millisecond as u8; 100];
            assert!(ends[1].handle_packet(now, PacketSource::From(P0), &noise).is_err());
            ends.iter_mut().for_each(|end| end.handle_timeout(now));
        }
    });
    assert_eq!(ends[1].receive_epochs(P0).count(), 1, "the epoch before is gone");
}

/// The same frame with another PN.
fn frame_of(frame: &[u8], pn: u32) -> Octets {
    let mut frame: Octets = frame.iter().copied().collect();
    frame[16..20].copy_from_slice(&pn.to_be_bytes());
    frame
}
