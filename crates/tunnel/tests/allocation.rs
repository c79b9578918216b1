//! The frame path allocates nothing: neither do frames, packets and time, nor what peers say about flows and positions.

mod ends;

use std::time::Duration;

use allocation_counter::measure;
use arrayvec::ArrayVec;
use ends::{LAN_FRAME, Sites, frame, frame_between, settings};
use tunnel::{Arrival, Command, Event, Forwarding, PeerId, Settings};
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
    let [from, to] = ends;
    let Some(route) = from.route(now, frame) else { return 0 };
    let mut frames = 0;
    for packet in from.dispatch(now, &route, P0, frame) {
        let mut octets = Octets::new();
        octets.try_extend_from_slice(&packet.header).expect("room");
        octets.try_extend_from_slice(&frame[packet.body.clone()]).expect("room");
        if arrive {
            frames += usize::from(to.inward(now, Arrival::Identifier, &octets).is_ok());
        }
    }
    from.tend(now);
    to.tend(now);
    frames
}

#[test]
fn nothing_on_the_frame_path_allocates() {
    assert_eq!(measure(|| drop(Box::new(1))).count_total, 1, "it counts");
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
    let Some(&Event::Announce { index, flow, .. }) = events.first() else { panic!("{events:?}") };
    free_of_allocation("an announcement", || {
        ends[1].command(now, Command::AddFlow { peer: P0, generation, index, flow });
        ends[0].command(now, Command::Announced { peer: P0, generation, index });
    });
    assert_eq!(free_of_allocation("a known flow", || through(&mut ends, now, &known, true)), 1);
    free_of_allocation("an outage, anchors and a lost lane", || {
        for pn in 0..200_000 {
            through(&mut ends, now, &frame_of(&known, pn), pn % 40_000 == 0);
            now = now + Duration::from_micros(10);
        }
        ends[0].command(now, Command::TellPosition { peer: P0, generation, epoch: 1, lane: 0 });
    });
    free_of_allocation("events", || events.extend(std::iter::from_fn(|| ends[0].poll_event())));
    let Some(&Event::Position { epoch, lane, seq, .. }) = events.last() else { panic!("{events:?}") };
    free_of_allocation("a position", || {
        ends[1].command(now, Command::Position { peer: P0, generation, epoch, lane, seq });
        (0..100).for_each(|_| ends[1].tend(now));
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
            ends.iter_mut().for_each(|end| end.tend(now));
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
            forwarding.tend(now);
        }
    });
    assert_eq!(forwarding.receive_epochs(P0).count(), 1);
}

/// The same frame with another PN.
fn frame_of(frame: &[u8], pn: u32) -> Octets {
    let mut frame: Octets = frame.iter().copied().collect();
    frame[16..20].copy_from_slice(&pn.to_be_bytes());
    frame
}
