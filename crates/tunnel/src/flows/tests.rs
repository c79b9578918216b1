//! Numbers, quotas and ages of flows.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use wire::tunnel::ParsedFrame;

use super::*;

fn flow(sci: u16, source: u16, destination: u16) -> Flow {
    let octets = |number: u16| [2, 0, 0, 0].into_iter().chain(number.to_be_bytes());
    let frame: Vec<u8> = octets(destination)
        .chain(octets(source))
        .chain([0x88, 0xe5, 0x2c, 0, 0, 0, 0, 1])
        .chain(octets(sci))
        .chain([0, 1])
        .collect();
    ParsedFrame::parse(&frame).expect("a frame").flow
}

fn hasher() -> Hasher {
    Hasher::new(&[3; 16])
}

fn at(seconds: u64) -> Instant {
    Instant::after_start(Duration::from_secs(seconds))
}

fn limits() -> Limits {
    Limits { flows: 8, flows_per_sci: 3, flows_per_source: 4, ..Limits::default() }
}

impl Flows {
    fn try_give(&mut self, now: Instant, flow: Flow) -> Result<FlowIndex, FlowRefusal> {
        self.try_give_to(now, flow, Liveness::Untold)
    }

    fn try_give_to(
        &mut self,
        now: Instant,
        flow: Flow,
        liveness: Liveness,
    ) -> Result<FlowIndex, FlowRefusal> {
        self.admits(&hasher(), &flow, liveness)?;
        Ok(self.assign(now, &hasher(), flow, liveness).expect("admitted").index)
    }

    fn forget_all(&mut self, now: Instant) -> Vec<FlowIndex> {
        let mut released = Vec::new();
        self.age(
            now,
            &hasher(),
            usize::MAX,
            |_| true,
            |index| {
                released.push(index);
                true
            },
        );
        released
    }
}

#[test]
fn quotas() {
    let mut flows = Flows::new(&limits(), LaneShare::WHOLE);
    for destination in 0..3 {
        flows.try_give(at(0), flow(1, 1, destination)).expect("room");
    }
    assert_eq!(flows.try_give(at(0), flow(1, 2, 9)), Err(FlowRefusal::Sci));
    flows.try_give(at(0), flow(2, 1, 0)).expect("another SCI");
    assert_eq!(flows.try_give(at(0), flow(2, 1, 1)), Err(FlowRefusal::Source));
    for destination in 0..2 {
        flows.try_give(at(0), flow(3, 2, destination)).expect("another source");
        flows.try_give(at(0), flow(4, 3, destination)).expect("another source");
    }
    assert_eq!(flows.len(), 8);
    assert_eq!(flows.try_give(at(0), flow(5, 5, 5)), Err(FlowRefusal::Table));
    // Old ones free their quotas.
    assert_eq!(flows.forget_all(at(300)).len(), 8);
    for destination in 0..3 {
        flows.try_give(at(300), flow(1, 1, destination)).expect("room");
    }
    assert_eq!(flows.try_give(at(300), flow(1, 2, 9)), Err(FlowRefusal::Sci));
}

/// While stations are known to be live, others have half of the room, and what they had before counts.
#[test]
fn live_stations_have_half_of_the_room_for_themselves() {
    let mut flows = Flows::new(&limits(), LaneShare::WHOLE);
    for number in 0..3 {
        flows.try_give(at(0), flow(number, number, 1)).expect("room");
    }
    let stranger = |flows: &mut Flows, number| {
        flows.try_give_to(at(1), flow(number, number, 1), Liveness::Stranger).err()
    };
    assert_eq!(stranger(&mut flows, 3), None);
    assert_eq!(stranger(&mut flows, 4), Some(FlowRefusal::Table));
    for number in 10..14 {
        flows.try_give_to(at(1), flow(number, number, 1), Liveness::Live).expect("room of its own");
    }
    assert_eq!(
        flows.try_give_to(at(1), flow(14, 14, 1), Liveness::Live),
        Err(FlowRefusal::Table),
        "no more than there are"
    );
    // Three of the first half have aged.
    assert_eq!(flows.forget_all(at(300)).len(), 3);
    for number in 5..8 {
        assert_eq!(stranger(&mut flows, number), None);
    }
    assert_eq!(stranger(&mut flows, 8), Some(FlowRefusal::Table));
}

fn relay(number: usize) -> Flow {
    let mut name = [7; 20];
    name[19] = number as u8;
    name[18] = (number >> 8) as u8;
    Flow::relayed(wire::tunnel::RelayLeg::To, name)
}

#[test]
fn relays_have_room_whatever_a_lan_sends() {
    let mut flows = Flows::new(&limits(), LaneShare::WHOLE);
    for number in 0..8 {
        flows.try_give(at(0), flow(number, number, 1)).expect("room");
    }
    assert_eq!(flows.try_give(at(0), flow(9, 9, 1)), Err(FlowRefusal::Table));
    for number in 0..RELAYS {
        flows.try_give(at(0), relay(number)).expect("room of its own");
    }
    assert_eq!(flows.try_give(at(0), relay(RELAYS)), Err(FlowRefusal::Table));
    assert_eq!(flows.forget_all(at(300)).len(), 8 + RELAYS);
    flows.try_give(at(300), relay(0)).expect("room");
    for number in 0..8 {
        flows.try_give(at(300), flow(number, number, 1)).expect("room");
    }
    assert_eq!(
        flows.try_give(at(300), flow(9, 9, 1)),
        Err(FlowRefusal::Table),
        "relays take nothing of others"
    );
}

#[test]
fn flows_without_sci_are_counted_by_their_source_alone() {
    let without = |destination: u16| {
        let mut octets = flow(0, 1, destination).encode();
        octets[0] = 0x40;
        octets[16..].fill(0);
        Flow::parse(&octets).expect("a flow")
    };
    let mut flows = Flows::new(&limits(), LaneShare::WHOLE);
    for destination in 0..4 {
        flows.try_give(at(0), without(destination)).expect("room");
    }
    assert_eq!(flows.try_give(at(0), without(9)), Err(FlowRefusal::Source));
}

/// All 65,536 numbers are given before the first comes again, and then only in the next epoch, oldest first.
#[test]
fn no_number_is_given_twice_in_an_epoch() {
    let mut flows = Flows::new(&limits(), LaneShare::WHOLE);
    let mut seen = BTreeSet::new();
    let mut order = Vec::new();
    let mut now = 0;
    let mut short = None;
    loop {
        match flows.try_give(at(now), flow(now as u16 % 7, now as u16 % 5, (now / 7) as u16)) {
            Ok(index) => {
                assert!(seen.insert(index), "{index:?} again");
                order.push(index);
            }
            Err(FlowRefusal::Indexes) => break,
            Err(refusal) => panic!("{refusal:?}"),
        }
        if short.is_none() && flows.run_short() {
            short = Some(seen.len());
        }
        now += 300;
        flows.forget_all(at(now));
    }
    assert_eq!(seen.len(), INDEXES - RELAYS);
    assert!(short.is_some_and(|given| given + 8 + RELAYS >= INDEXES - 8 && given < seen.len()), "{short:?}");
    for number in 0..RELAYS {
        let index = flows.try_give(at(now), relay(number)).expect("a number of its own");
        assert!(seen.insert(index), "{index:?} again");
    }
    assert!(flows.run_short());
    flows.begin_epoch();
    assert!(!flows.run_short());
    let again: Vec<_> =
        (0..4).map(|number| flows.try_give(at(now), flow(number, number, 9)).expect("room")).collect();
    assert_eq!(again, order[..4]);
}

#[test]
fn a_flow_is_found_by_itself_and_by_its_number() {
    let (mut flows, hasher) = (Flows::new(&limits(), LaneShare::WHOLE), hasher());
    let known = flow(1, 2, 3);
    let index = flows.try_give(at(0), known).expect("room");
    let found =
        flows.find(hasher.flow(&known), &known).and_then(|slot| flows.used(at(5), slot)).expect("there");
    assert_eq!((found.index, found.used), (index, at(5)));
    flows.by_index(index).expect("there").acknowledged = true;
    let other = flow(1, 2, 4);
    assert!(flows.find(hasher.flow(&other), &other).is_none());
    assert!(flows.forget_all(at(304)).is_empty(), "it was used");
    // Nobody could be told: it stays.
    flows.age(at(305), &hasher, 100, |_| true, |_| false);
    assert!(flows.by_index(index).is_some());
    assert_eq!(flows.forget_all(at(305)), [index]);
    assert!(flows.by_index(index).is_none() && flows.iter().next().is_none());
}

#[test]
fn an_announcement_is_made_again_after_a_second() {
    let mut flows = Flows::new(&limits(), LaneShare::WHOLE);
    let index = flows.try_give(at(0), flow(1, 2, 3)).expect("room");
    let given = flows.by_index(index).expect("there");
    assert!(given.is_due(at(0)) && given.is_due(at(0)), "until it was told");
    given.note_announced(at(0));
    assert!(!given.is_due(at(0)));
    assert!(given.is_due(at(1)));
    given.acknowledged = true;
    assert!(!given.is_due(at(9)));
    given.acknowledged = false;
    assert!(given.is_due(at(9)));
}
