//! Two sessions on a virtual clock, joined by a channel that can break at any moment, each with a model of its
//! forwarding half; whatever happens, they come together again.

mod sessions {
    pub(crate) mod worker;
    pub(crate) mod world;
}

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tunnel::{ChannelState, Mode, Stream};

use sessions::world::World;

/// Step between two sites.
#[derive(Clone, Debug)]
enum Operation {
    /// This many milliseconds pass.
    Wait(u16),
    /// A connection is made, whether one stands or not.
    Connect,
    /// The connection is lost with all that is under way; who notices before the next one stands.
    Break { noticed: [bool; 2] },
    /// One site, or both, start anew; the connection is gone with them.
    Restart { ends: [bool; 2], noticed: bool },
    /// This many messages of a stream arrive.
    Carry { from: usize, stream: Stream, messages: u8 },
    /// This many commands reach the worker of a site, and this many events its session.
    Turn { end: usize, commands: u8, events: u8 },
    /// A flow begins, or one is gone.
    Flow { end: usize, begins: bool },
    /// An SA's AN changes (header encryption), or numbers run short (identifier).
    UseEpoch { end: usize },
    /// A worker meets a number that it has forgotten.
    Forget { end: usize },
    /// A worker has lost the peer's lane.
    Lose { end: usize },
    /// A worker has no room for so many answers to announcements.
    Mute { end: usize, answers: u8 },
}

fn operation() -> impl Strategy<Value = Operation> {
    let end = || 0..2_usize;
    let stream = prop_oneof![Just(Stream::Control), Just(Stream::Announcements)];
    prop_oneof![
        3 => (0..1500_u16).prop_map(Operation::Wait),
        2 => Just(Operation::Connect),
        1 => any::<[bool; 2]>().prop_map(|noticed| Operation::Break { noticed }),
        1 => any::<([bool; 2], bool)>().prop_map(|(ends, noticed)| Operation::Restart { ends, noticed }),
        12 => (end(), stream, 1..6_u8)
            .prop_map(|(from, stream, messages)| Operation::Carry { from, stream, messages }),
        8 => (end(), 0..6_u8, 0..6_u8).prop_map(|(end, commands, events)| Operation::Turn { end, commands, events }),
        4 => (end(), any::<bool>()).prop_map(|(end, begins)| Operation::Flow { end, begins }),
        2 => end().prop_map(|end| Operation::UseEpoch { end }),
        1 => end().prop_map(|end| Operation::Forget { end }),
        1 => end().prop_map(|end| Operation::Lose { end }),
        1 => (end(), 1..4_u8).prop_map(|(end, answers)| Operation::Mute { end, answers }),
    ]
}

fn carry_out(world: &mut World, operation: &Operation) {
    match *operation {
        Operation::Wait(milliseconds) => world.wait(Duration::from_millis(milliseconds.into())),
        Operation::Connect => world.connect(),
        Operation::Break { noticed } => world.lose_connection(noticed),
        Operation::Restart { ends, noticed } => world.restart(ends, noticed),
        Operation::Carry { from, stream, messages } => world.carry(from, stream, messages.into()),
        Operation::Turn { end, commands, events } => world.turn(end, commands.into(), events.into()),
        Operation::Flow { end, begins } => world.flow(end, begins),
        Operation::UseEpoch { end } => world.use_epoch(end),
        Operation::Forget { end } => world.forget_flow(end),
        Operation::Lose { end } => world.lose_lane(end),
        Operation::Mute { end, answers } => world.mute(end, answers.into()),
    }
}

/// The channel comes up and stays: both directions work after a few round trips, and all is told after seconds.
fn assert_converges(world: &mut World) {
    world.connect();
    for _ in 0..10 {
        world.exchange_everything();
        world.wait(Duration::from_millis(10));
    }
    for end in 0..2 {
        assert_eq!(world.session(end).state().channel, ChannelState::Up);
        world.assert_direction_works(end);
    }
    for _ in 0..60 {
        world.use_flows();
        world.exchange_everything();
        world.wait(Duration::from_millis(500));
    }
    for end in 0..2 {
        world.assert_direction_works(end);
        world.assert_flows_are_told(end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(2000), ..ProptestConfig::default() })]

    #[test]
    fn whatever_breaks_and_restarts_both_ends_come_together_again(
        header_encryption in any::<bool>(), operations in vec(operation(), 0..120),
    ) {
        let mode = if header_encryption { Mode::HeaderEncryption } else { Mode::Identifier };
        let mut world = World::new(mode);
        for operation in &operations {
            carry_out(&mut world, operation);
        }
        assert_converges(&mut world);
    }
}

fn worlds() -> impl Iterator<Item = World> {
    [Mode::Identifier, Mode::HeaderEncryption].into_iter().map(World::new)
}

#[test]
fn two_sites_that_start_have_epochs_in_both_directions_and_know_each_others_flows() {
    for mut world in worlds() {
        for end in [0, 0, 1] {
            world.flow(end, true);
        }
        assert_converges(&mut world);
        assert_eq!(world.session(0).state().generation.0, 1);
    }
}

#[test]
fn a_restart_of_either_or_both_ends_voids_everything_and_both_directions_work_again() {
    for mut world in worlds() {
        for ends in [[true, false], [false, true], [true, true]] {
            assert_converges(&mut world);
            world.flow(0, true);
            let before = [0, 1].map(|end| world.session(end).state().generation);
            world.restart(ends, true);
            assert_converges(&mut world);
            for end in 0..2 {
                let expected = if ends[end] { 1 } else { before[end].0 + 1 };
                assert_eq!(world.session(end).state().generation.0, expected);
            }
        }
    }
}

#[test]
fn a_loss_of_the_channel_voids_nothing() {
    for mut world in worlds() {
        world.flow(0, true);
        assert_converges(&mut world);
        let before = world.session(0).state();
        let commands = world.commands(0);
        world.lose_connection([true, true]);
        world.wait(Duration::from_secs(3000));
        world.exchange_everything();
        assert_eq!(world.commands(0), commands, "nothing is told to the forwarding half");
        let after = world.session(0).state();
        assert_eq!(
            (after.generation, after.transmit, after.receive, after.flows_acknowledged, after.peer_flows),
            (
                before.generation,
                before.transmit,
                before.receive,
                before.flows_acknowledged,
                before.peer_flows
            )
        );
        world.connect();
        world.exchange_everything();
        assert_eq!(world.commands(0), commands, "and nothing again");
    }
}

#[test]
fn what_was_not_acknowledged_is_told_again_on_the_next_connection() {
    for mut world in worlds() {
        world.connect();
        for _ in 0..3 {
            world.carry(0, Stream::Control, 9);
            world.carry(1, Stream::Control, 9);
        }
        // Epoch 1 of end 0 is at the worker of end 1, its acknowledgement is lost with the connection.
        world.turn(1, 9, 9);
        world.lose_connection([true, true]);
        assert_eq!(world.session(0).state().transmit, None);
        assert_converges(&mut world);
        assert_eq!(world.session(0).state().generation.0, 1);
    }
}

/// Unless the epoch's life ends while the channel is down: then it lasts longer.
#[test]
fn an_epoch_of_identifier_mode_ends_after_its_life() {
    let mut world = World::new(Mode::Identifier);
    assert_converges(&mut world);
    let epoch = |world: &World| world.session(0).state().transmit.expect("an epoch").epoch;
    assert_eq!(epoch(&world), 1);
    world.wait(Duration::from_secs(3600));
    world.exchange_everything();
    assert_eq!(epoch(&world), 2);
    world.lose_connection([true, true]);
    world.wait(Duration::from_secs(100_000));
    world.exchange_everything();
    assert_eq!(epoch(&world), 2);
    assert_converges(&mut world);
    assert_eq!(epoch(&world), 3);
}

#[test]
fn header_encryption_has_the_next_epoch_in_readiness_at_all_times() {
    let mut world = World::new(Mode::HeaderEncryption);
    assert_converges(&mut world);
    for used in 2..20 {
        assert_eq!(world.session(0).state().transmit.expect("an epoch").epoch, used);
        world.use_epoch(0);
        world.wait(Duration::from_millis(1000));
        world.exchange_everything();
    }
}

/// Wanting is cheap, epochs are not: one a second.
#[test]
fn wants_that_were_met_and_wants_too_many_cost_no_epochs() {
    let mut world = World::new(Mode::Identifier);
    assert_converges(&mut world);
    let before = world.session(0).state().transmit.expect("an epoch").epoch;
    for _ in 0..1000 {
        world.use_epoch(0);
        world.exchange_everything();
        world.wait(Duration::from_millis(10));
    }
    let epochs = world.session(0).state().transmit.expect("an epoch").epoch - before;
    assert!((9..=10).contains(&epochs), "{epochs}");
}

#[test]
fn a_flood_of_flows_is_announced_by_and_by_and_within_bounds() {
    let mut world = World::new(Mode::Identifier);
    for _ in 0..tunnel::OUTSTANDING + 500 {
        world.flow(0, true);
    }
    assert_converges(&mut world);
    let state = world.session(0).state();
    assert_eq!(state.flows_acknowledged, tunnel::OUTSTANDING + 500);
    assert!(world.most_under_way() <= tunnel::IN_FLIGHT);
}

#[test]
fn a_flow_withdrawn_while_the_channel_is_down_is_withdrawn_when_it_is_up() {
    for mut world in worlds() {
        world.flow(0, true);
        assert_converges(&mut world);
        assert_eq!(world.session(1).state().peer_flows, 1);
        world.lose_connection([true, true]);
        world.flow(0, false);
        world.exchange_everything();
        assert_converges(&mut world);
        assert_eq!(world.session(1).state().peer_flows, 0);
    }
}

/// A forwarding half that has too much to say loses its answers, and keeps no request under way for ever.
#[test]
fn an_announcement_whose_answer_is_lost_is_made_again() {
    let mut world = World::new(Mode::Identifier);
    assert_converges(&mut world);
    world.mute(1, 2 * tunnel::IN_FLIGHT);
    for _ in 0..tunnel::IN_FLIGHT + 100 {
        world.flow(0, true);
    }
    assert_converges(&mut world);
    assert_eq!(world.session(0).state().flows_acknowledged, tunnel::IN_FLIGHT + 100);
}

#[test]
fn a_position_of_a_newer_epoch_than_was_asked_for_is_heeded() {
    let mut world = World::new(Mode::Identifier);
    assert_converges(&mut world);
    world.use_epoch(0);
    world.wait(Duration::from_secs(1));
    world.exchange_everything();
    assert_eq!(world.session(0).state().transmit.expect("an epoch").epoch, 2);
    world.lose_lane(1);
    world.exchange_everything();
    assert_eq!(world.positions(1), 1);
}

#[test]
fn a_withdrawal_that_was_lost_under_way_is_made_again() {
    for mut world in worlds() {
        world.flow(0, true);
        assert_converges(&mut world);
        world.flow(0, false);
        world.turn(0, 9, 9);
        // It is sent, and lost with the connection.
        world.carry(0, Stream::Announcements, 0);
        world.lose_connection([true, true]);
        assert_converges(&mut world);
        assert_eq!(world.session(1).state().peer_flows, 0);
    }
}

/// A want that crosses with the epoch that meets it brings no second one: there is room for one in readiness.
/// The peer's forwarding half is so slow that its session refuses the flow meanwhile, and knows it in the end: withdrawn
/// before it is announced again, it is withdrawn from the peer.
#[test]
fn a_flow_that_was_refused_for_slowness_is_withdrawn_with_the_others() {
    // Before the forwarding half was told of the refusal, and when it was.
    for later in [0, 1000] {
        refused_for_slowness(later);
    }
}

fn refused_for_slowness(later: u16) {
    use Operation::{Carry, Connect, Flow, Turn, Wait};
    let mut world = World::new(Mode::Identifier);
    let (control, announcements) = (Stream::Control, Stream::Announcements);
    for operation in [
        Connect,
        Carry { from: 1, stream: control, messages: 1 },
        Turn { end: 0, commands: 1, events: 0 },
        Turn { end: 0, commands: 1, events: 0 },
        Flow { end: 0, begins: true },
        Turn { end: 0, commands: 0, events: 1 },
        Carry { from: 0, stream: control, messages: 2 },
        Carry { from: 1, stream: control, messages: 1 },
        Carry { from: 0, stream: announcements, messages: 1 },
        Wait(954),
        Wait(1046),
        Carry { from: 1, stream: announcements, messages: 1 },
        Wait(later),
        Flow { end: 0, begins: false },
    ] {
        carry_out(&mut world, &operation);
    }
    assert_converges(&mut world);
}

#[test]
fn a_want_that_was_met_meanwhile_is_not_heeded() {
    let mut world = World::new(Mode::HeaderEncryption);
    assert_converges(&mut world);
    let epoch = |world: &World| world.session(0).state().transmit.expect("an epoch").epoch;
    assert_eq!(epoch(&world), 2);
    // Tells it twice; the second time comes late.
    world.use_epoch(0);
    world.turn(0, 0, 1);
    world.carry(0, Stream::Control, 9);
    for _ in 0..2 {
        world.turn(1, 9, 9);
    }
    world.carry(1, Stream::Control, 9);
    assert_eq!(epoch(&world), 3);
    world.exchange_everything();
    world.wait(Duration::from_secs(5));
    world.exchange_everything();
    assert_eq!(epoch(&world), 3);
}

#[test]
fn a_lost_lane_is_asked_for_and_its_position_told() {
    let mut world = World::new(Mode::Identifier);
    assert_converges(&mut world);
    world.lose_lane(1);
    world.exchange_everything();
    assert_eq!(world.positions(1), 1);
}
