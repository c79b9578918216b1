//! The programs do what crate `fieldbus` does: every length, every way to cut and to spoil a frame, and lists of whatever can happen.
//! Root, as all that loads programs.
#![allow(clippy::unwrap_used)]

mod world;

use fieldbus::relation::DeliveredTag;
use fieldbus::{KeyChange, ReceiveDiscard, RelationSettings, TransmitDiscard, VlanTag};
use proptest::prelude::*;
use wire::MacAddr;
use wire::fieldbus::{FrameId, Protocol, Seq, Target};
use world::{AUTHENTICATE, ENCRYPT, MTU, Outcome, TAG, World, machine, relation};

const MODES: [wire::fieldbus::Protection; 2] = [ENCRYPT, AUTHENTICATE];

fn sent<D: std::fmt::Debug>(outcome: Outcome<D>) -> Vec<u8> {
    match outcome {
        Outcome::Sent(octets) => octets,
        other => panic!("{other:?}"),
    }
}

fn payload(octets: usize) -> Vec<u8> {
    (0..octets).map(|octet| (octet * 7 + octets) as u8).collect()
}

#[test]
fn payloads_of_every_length_are_sealed_and_opened_as_in_user_space() {
    for protection in MODES {
        let mut world = World::new(protection, 1);
        world.secure(0, 1);
        for octets in 0..=1472 {
            let frame = machine(0, 0, &TAG, &payload(octets));
            let protected = sent(world.protect(0, &frame));
            let delivered = sent(world.verify(1, &protected));
            assert_eq!(delivered[..frame.len()], frame, "{octets}");
            assert!(delivered[frame.len()..].iter().all(|octet| *octet == 0), "{octets}");
        }
    }
}

#[test]
fn the_longest_frame_is_what_the_mtu_allows() {
    for protection in MODES {
        let mut world = World::new(protection, 1);
        world.secure(0, 1);
        let longest = MTU - 7 - 16;
        sent(world.protect(0, &machine(0, 0, &TAG, &payload(longest))));
        for octets in [longest + 1, longest + 100, 2000, 2100, 3000] {
            let frame = machine(0, 0, &TAG, &payload(octets));
            assert_eq!(world.protect(0, &frame), Outcome::Discarded(TransmitDiscard::TooLong), "{octets}");
        }
    }
}

#[test]
fn tags_are_kept_on_the_way_and_put_on_as_configured() {
    let service = [0x88, 0xa8, 0, 5];
    for vlan in [None, Some(VlanTag::PROFINET), VlanTag::new(7, 9)] {
        let mut world = World::with(ENCRYPT, 1, |settings| settings.vlan = vlan);
        world.secure(0, 1);
        for tags in [&[][..], &TAG, &service, &[service, TAG].concat(), &[TAG, TAG, TAG].concat()] {
            match world.protect(0, &machine(0, 0, tags, &payload(40))) {
                Outcome::Sent(protected) => drop(world.verify(1, &protected)),
                other => assert_eq!((other, tags.len()), (Outcome::ForUserSpace, 12)),
            }
        }
    }
}

/// A GOOSE publication to a group, which nothing comes back for, and EtherCAT in its place between two stations.
#[test]
fn other_fieldbuses_are_sealed_and_opened_as_in_user_space() {
    let groups = [MacAddr([1, 0x0c, 0xcd, 1, 0, 1]), MacAddr([0xff; 6])];
    let of = |end: usize| {
        let [goose, ethercat] = [0, 1].map(|number| relation(end, number));
        let (there, back) = (Target::Group(groups[0]), Target::Nobody);
        let (own, peer) = if end == 0 { (there, back) } else { (back, there) };
        let both = Target::Group(groups[1]);
        let goose_relation = goose.relation.of(Protocol::Goose, own, peer).unwrap();
        let ethercat_relation = ethercat.relation.of(Protocol::EtherCat, both, both).unwrap();
        [
            RelationSettings {
                relation: goose_relation.delivered_with(DeliveredTag::Is(VlanTag::new(4, 10))),
                ..goose
            },
            RelationSettings {
                relation: ethercat_relation.delivered_with(DeliveredTag::Is(None)),
                ..ethercat
            },
        ]
    };
    for protection in MODES {
        let mut world = World::new(protection, 2);
        world.exchange([&of(0), &of(1)], &[]);
        (0..2).for_each(|number| world.secure(number, 1));
        for (from, number, ethertype) in [(0, 0, 0x88b8_u16), (0, 1, 0x88a4), (1, 1, 0x88a4)] {
            for tags in [&[][..], &TAG] {
                let as_profinet = machine(from, number, tags, &payload(60));
                let mut frame = as_profinet.clone();
                frame[..6].copy_from_slice(&groups[number].0);
                let at = 12 + tags.len();
                frame[at..at + 2].copy_from_slice(&ethertype.to_be_bytes());
                let protected = sent(world.protect(from, &frame));
                let delivered = sent(world.verify(1 - from, &protected));
                let tag: &[u8] = if number == 0 { &[0x81, 0, 0x80, 10] } else { &[] };
                assert_eq!(delivered, [&frame[..12], tag, &frame[at..]].concat());
                // Another EtherType, the station instead of the group, and what comes in clear.
                let mut other = frame.clone();
                other[at..at + 2].copy_from_slice(&[0x88, 0xba]);
                assert_eq!(world.protect(from, &other), Outcome::ForUserSpace);
                assert_eq!(world.protect(from, &as_profinet), Outcome::ForUserSpace);
                assert_eq!(world.verify(1 - from, &frame), Outcome::ForUserSpace);
                // A HELLO goes between the stations, and is no frame of the group's.
                let mut hello = protected.clone();
                hello[..6].copy_from_slice(&as_profinet[..6]);
                assert_eq!(world.verify(1 - from, &hello), Outcome::ForUserSpace);
            }
        }
        // Nothing comes from the subscriber.
        let mut silent = machine(1, 0, &TAG, &payload(60));
        silent[16..18].copy_from_slice(&[0x88, 0xb8]);
        assert_eq!(world.protect(1, &silent), Outcome::ForUserSpace);
    }
}

/// Frames whose identification is derived are none for the programs.
#[test]
fn relations_that_the_programs_do_not_know_stay_in_user_space() {
    let ethernet_ip = {
        let ends = world::stations(1).map(|(station, _)| (station, FrameId(2222)));
        let relation =
            fieldbus::relation::Relation::new(ends[0], ends[1], std::time::Duration::from_millis(1));
        let relation = relation.unwrap().of(Protocol::EtherNetIp, Target::Peer, Target::Peer).unwrap();
        RelationSettings { relation, ..self::relation(0, 0) }
    };
    let cell = world::load(&fieldbus::Settings::new(ENCRYPT, MTU), &[relation(0, 0), ethernet_ip]);
    assert!(cell.has(0) && !cell.has(1));
}

/// Frames of other stations and other EtherTypes, HELLOs, and whatever is cut.
#[test]
fn what_is_not_a_relations_is_left_to_user_space() {
    let mut world = World::new(ENCRYPT, 3);
    (0..3).for_each(|number| world.secure(number, 1));
    let whole = machine(0, 1, &TAG, &payload(40));
    for cut in 14..whole.len() {
        world.protect(0, &whole[..cut]);
    }
    let protected = sent(world.protect(0, &whole));
    for cut in 14..protected.len() {
        world.verify(1, &protected[..cut]);
    }
    for octet in 0..18 + 7 {
        for bit in 0..8 {
            let (mut outward, mut inward) = (whole.clone(), protected.clone());
            outward[octet] ^= 1 << bit;
            inward[octet] ^= 1 << bit;
            world.protect(0, &outward);
            world.verify(1, &inward);
        }
    }
    // Bits of the tag are nobody's: one of those frames was delivered.
    let protected = sent(world.protect(0, &whole));
    let mut hello = protected.clone();
    hello[18 + 3..18 + 7].fill(0);
    assert_eq!(world.verify(1, &hello), Outcome::ForUserSpace);
    assert_eq!(world.verify(1, &whole), Outcome::ForUserSpace, "in clear");
    assert_eq!(world.verify(0, &protected), Outcome::ForUserSpace, "reflected");
    sent(world.verify(1, &protected));
    assert_eq!(world.verify(1, &protected), Outcome::Discarded(ReceiveDiscard::Late));
}

#[test]
fn no_spoilt_bit_is_delivered() {
    for protection in MODES {
        let mut world = World::new(protection, 1);
        world.secure(0, 1);
        let protected = sent(world.protect(0, &machine(0, 0, &[], &payload(33))));
        for bit in 8 * (14 + 2)..8 * protected.len() {
            let mut spoilt = protected.clone();
            spoilt[bit / 8] ^= 1 << (bit % 8);
            let outcome = world.verify(1, &spoilt);
            assert!(!matches!(outcome, Outcome::Sent(_)), "bit {bit}");
        }
        sent(world.verify(1, &protected));
    }
}

#[test]
fn an_epoch_ends_without_a_gap_and_seqs_without_a_second_use() {
    let mut world = World::with(ENCRYPT, 1, |settings| settings.epoch_end = Seq::new(3).unwrap());
    world.secure(0, 1);
    for epoch in 0..5_u64 {
        for _ in 0..3 {
            let protected = sent(world.protect(0, &machine(0, 0, &TAG, &payload(40))));
            sent(world.verify(1, &protected));
        }
        if epoch > 0 {
            let number = fieldbus::session::SessionNumber(1);
            world.change(0, 0, |world| KeyChange::NextTransmit(number, world.key(0, 1, 0, epoch + 1)));
            world.change(1, 0, |world| KeyChange::NextReceive(number, world.key(0, 1, 0, epoch + 1)));
        }
    }
    assert_eq!(world.gateways[0].kernel.counters(0).unwrap().0.out_epochs, 4);
}

/// A reload: relations go, come and have other numbers, and those that stay go on under their keys, Seqs and counters.
#[test]
fn relations_that_stay_go_on_in_another_cell() {
    let mut world = World::new(ENCRYPT, 3);
    (0..3).for_each(|number| world.secure(number, 1));
    let frame = |number| machine(0, number, &TAG, &payload(40));
    let (old, gone) = (sent(world.protect(0, &frame(2))), sent(world.protect(0, &frame(1))));
    sent(world.verify(1, &old));
    let of = |end| [2, 0, 3].map(|number| relation(end, number));
    world.exchange([&of(0), &of(1)], &[(0, 2), (1, 0)]);
    assert_eq!(world.verify(1, &old), Outcome::Discarded(ReceiveDiscard::Late), "its Seq is known");
    for number in [2, 0] {
        let protected = sent(world.protect(0, &frame(number)));
        sent(world.verify(1, &protected));
    }
    assert_eq!(world.protect(0, &frame(1)), Outcome::ForUserSpace);
    assert_eq!(world.verify(1, &gone), Outcome::ForUserSpace);
    // Relation 3 has the place of one that has gone, and nothing of it.
    assert_eq!(world.protect(0, &frame(3)), Outcome::Discarded(TransmitDiscard::NoSession));
    // Last, and in the programs alone: they have a clock of their own, and what is compared may take longer than this.
    let alarm = std::time::Duration::from_millis(20);
    let of = of(1).map(|of| fieldbus::RelationSettings { alarm, ..of });
    let settings = fieldbus::Settings::new(ENCRYPT, MTU);
    let cell = &mut world.gateways[1].kernel;
    cell.configure(&settings, &of, xdp::Unclaimed::Pass, &[(0, 0), (1, 1), (2, 2)]).unwrap();
    std::thread::sleep(2 * alarm);
    let told = world.gateways[1].kernel.look(0).unwrap().events;
    assert!(matches!(told[..], [fieldbus::Event::Alarm(_)]), "the watch has its new time: {told:?}");
    world.gateways.iter_mut().for_each(|gateway| gateway.kernel.clear().unwrap());
    assert_eq!(world.gateways[0].kernel.run_outward(&frame(2), 1).unwrap().verdict, xdp::Verdict::Pass);
}

/// While the programs stand aside every frame is the sockets', as it came; then relations go on where they stood.
#[test]
fn programs_that_stand_aside_leave_every_frame_as_it_came() {
    let mut world = World::new(ENCRYPT, 1);
    world.secure(0, 1);
    let frame = machine(0, 0, &TAG, &payload(40));
    let protected: Vec<_> = (0..2).map(|_| sent(world.protect(0, &frame))).collect();
    sent(world.verify(1, &protected[0]));
    let counters = world.gateways.each_ref().map(|gateway| gateway.kernel.counters(0).unwrap());
    world.gateways.iter_mut().for_each(|gateway| gateway.kernel.stand_aside(true).unwrap());
    // Another cell in its place changes nothing about it.
    let of = [0, 1].map(|end| [relation(end, 0)]);
    world.exchange(of.each_ref().map(|of| &of[..]), &[(0, 0)]);
    for gateway in &world.gateways {
        for frame in [&frame, &protected[0], &protected[1]] {
            for ran in [gateway.kernel.run_outward(frame, 1), gateway.kernel.run_inward(frame, 1)] {
                let ran = ran.unwrap();
                assert_eq!((ran.verdict, &ran.frame), (xdp::Verdict::Pass, frame));
            }
        }
    }
    assert_eq!(world.gateways.each_ref().map(|gateway| gateway.kernel.counters(0).unwrap()), counters);
    world.gateways.iter_mut().for_each(|gateway| gateway.kernel.stand_aside(false).unwrap());
    sent(world.verify(1, &protected[1]));
    let next = sent(world.protect(0, &frame));
    assert_eq!(next[21..25], [0, 0, 0, 3], "no Seq was taken");
    sent(world.verify(1, &next));
}

/// Their frames pass in clear with a twin beside, and XDP sends no frame twice.
#[test]
fn relations_in_shadow_mode_are_user_spaces() {
    let mut world = World::new(ENCRYPT, 2);
    (0..2).for_each(|number| world.secure(number, 1));
    let protected = sent(world.protect(0, &machine(0, 0, &TAG, &payload(40))));
    let mut of = [0, 1].map(|number| relation(0, number));
    of[0].mode = fieldbus::Mode::Shadow;
    let cell = &mut world.gateways[0].kernel;
    cell.configure(&fieldbus::Settings::new(ENCRYPT, MTU), &of, xdp::Unclaimed::Pass, &[(0, 0), (1, 1)])
        .unwrap();
    let verdict = |cell: &xdp::Cell, number| {
        cell.run_outward(&machine(0, number, &TAG, &payload(40)), 1).unwrap().verdict
    };
    assert_eq!([0, 1].map(|number| cell.has(number)), [false, true]);
    assert_eq!([0, 1].map(|number| verdict(cell, number)), [xdp::Verdict::Pass, xdp::Verdict::Redirect]);
    assert_eq!(cell.run_inward(&protected, 1).unwrap().verdict, xdp::Verdict::Pass);
    assert!(cell.counters(0).is_err(), "it has no place");
}

/// Something that happens in a world of two gateways and [`RELATIONS`] relations.
#[derive(Clone, Debug)]
enum Step {
    Protect {
        from: usize,
        number: usize,
        octets: usize,
        tags: usize,
    },
    /// The frame that was protected so many frames ago comes, unharmed.
    Deliver {
        ago: usize,
    },
    /// The same, and something was done to it.
    Harm {
        ago: usize,
        harm: Harm,
    },
    Enter {
        end: usize,
        number: usize,
        session: u32,
    },
    Enable {
        end: usize,
        number: usize,
        back: u32,
    },
    Next {
        end: usize,
        number: usize,
        back: u32,
        session: u32,
        transmit: bool,
        epoch: u64,
    },
    TakeOut {
        end: usize,
        number: usize,
    },
    /// Keystream is made ahead.
    Fill {
        end: usize,
    },
}

#[derive(Clone, Debug)]
enum Harm {
    Flip {
        bit: usize,
    },
    Cut {
        octets: usize,
    },
    Lengthen {
        octets: usize,
    },
    KeyId {
        key_id: u8,
    },
    Seq {
        seq: u32,
    },
    Tag,
    /// It comes to the gateway that sent it.
    Reflect,
}

const RELATIONS: usize = 2;

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        3 => (0usize..1 << 14).prop_map(|bit| Harm::Flip { bit }),
        2 => (1usize..80).prop_map(|octets| Harm::Cut { octets }),
        1 => (1usize..2200).prop_map(|octets| Harm::Lengthen { octets }),
        2 => any::<u8>().prop_map(|key_id| Harm::KeyId { key_id: key_id % 16 }),
        2 => prop_oneof![0u32..12, any::<u32>()].prop_map(|seq| Harm::Seq { seq }),
        1 => Just(Harm::Tag),
        1 => Just(Harm::Reflect),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let place = (0usize..2, 0..RELATIONS);
    let length = prop_oneof![4 => 0usize..64, 1 => 64usize..1600];
    prop_oneof![
        8 => (place.clone(), length, prop_oneof![Just(0usize), Just(1), Just(2)])
            .prop_map(|((from, number), octets, tags)| Step::Protect { from, number, octets, tags }),
        8 => prop_oneof![4 => Just(0usize), 1 => 0usize..6].prop_map(|ago| Step::Deliver { ago }),
        3 => (0usize..3, harm()).prop_map(|(ago, harm)| Step::Harm { ago, harm }),
        2 => (place.clone(), 1u32..4)
            .prop_map(|((end, number), session)| Step::Enter { end, number, session }),
        3 => (place.clone(), prop_oneof![4 => Just(0u32), 1 => Just(1)])
            .prop_map(|((end, number), back)| Step::Enable { end, number, back }),
        3 => (place.clone(), 0u32..3, 1u32..4, any::<bool>(), 0u64..5).prop_map(
            |((end, number), back, session, transmit, epoch)| Step::Next {
                end, number, back, session, transmit, epoch
            }
        ),
        1 => place.prop_map(|(end, number)| Step::TakeOut { end, number }),
        2 => (0usize..2).prop_map(|end| Step::Fill { end }),
    ]
}

fn harmed(frame: &[u8], harm: &Harm) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let behind = 12 + 4 * usize::from(frame[12] == 0x81) + 2;
    match harm {
        Harm::Flip { bit } => {
            let bit = bit % (8 * frame.len());
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        Harm::Cut { octets } => frame.truncate(frame.len().saturating_sub(*octets).max(14)),
        // The kernel runs programs with up to 3,520 octets.
        Harm::Lengthen { octets } => frame.resize((frame.len() + octets).min(3500), 0x5a),
        Harm::KeyId { key_id } => frame[behind + 2] = *key_id,
        Harm::Seq { seq } => frame[behind + 3..behind + 7].copy_from_slice(&seq.to_be_bytes()),
        Harm::Tag => drop(frame.splice(12..12, [0x81, 0, 0x20, 7])),
        Harm::Reflect => {}
    }
    frame
}

fn carry_out(world: &mut World, wire: &mut Vec<(usize, Vec<u8>)>, step: &Step) {
    match *step {
        Step::Protect { from, number, octets, tags } => {
            let tags = TAG.repeat(tags);
            if let Outcome::Sent(frame) = world.protect(from, &machine(from, number, &tags, &payload(octets)))
            {
                wire.push((from, frame));
            }
        }
        Step::Deliver { ago } => {
            let Some((from, frame)) = wire.len().checked_sub(ago + 1).map(|at| wire[at].clone()) else {
                return;
            };
            world.verify(1 - from, &frame);
        }
        Step::Harm { ago, ref harm } => {
            let Some((from, frame)) = wire.len().checked_sub(ago + 1).map(|at| wire[at].clone()) else {
                return;
            };
            let to = if matches!(harm, Harm::Reflect) { from } else { 1 - from };
            world.verify(to, &harmed(&frame, harm));
        }
        Step::Enter { end, number, session } => world.enter(end, number, session),
        Step::Enable { end, number, back } => world.enable(end, number, back),
        Step::Next { end, number, back, session, transmit, epoch } => {
            world.change(end, number, |world| {
                let from = if transmit { end } else { 1 - end };
                let key = world.key(number, session, from, epoch);
                let of = world.number(end, number, back);
                if transmit { KeyChange::NextTransmit(of, key) } else { KeyChange::NextReceive(of, key) }
            });
        }
        Step::Fill { end } => drop(world.gateways[end].kernel.fill().unwrap()),
        Step::TakeOut { end, number } => world.change(end, number, |_| KeyChange::Collect),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_both_do_the_same(
        mode in 0usize..2, epoch_end in 1u32..6, secured: bool, steps in prop::collection::vec(step(), 100..600),
    ) {
        let mut world = World::with(MODES[mode], RELATIONS, |settings| settings.epoch_end = Seq::new(epoch_end).unwrap());
        if secured {
            (0..RELATIONS).for_each(|number| world.secure(number, 1));
        }
        let mut wire = Vec::new();
        for step in &steps {
            carry_out(&mut world, &mut wire, step);
        }
    }
}
