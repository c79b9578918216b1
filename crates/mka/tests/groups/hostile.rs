//! Senders that must not be believed: recordings, broken members, floods.

use mka::{Event, OnPeerLoss};
use wire::mkpdu::{BasicParameters, Mkpdu, PeerEntry};
use wire::{Ki, Mi};

use crate::scripted::{Alone, Scripted};
use crate::station::{Random, cak, ms, seconds, settings};
use crate::world::World;

fn alone_with_server() -> (Alone, Scripted) {
    let (mut alone, mut server) = (Alone::new(settings(0)), Scripted::new(9));
    alone.meets(&mut server);
    assert_eq!(alone.kay.status(alone.now).key_server, Some(server.basic.sci));
    (alone, server)
}

fn own(alone: &Alone) -> BasicParameters {
    Mkpdu::parse(alone.last_sent()).expect("ours").basic
}

#[test]
fn a_foreign_key_servers_sak_is_installed_once() {
    let (mut alone, mut server) = alone_with_server();
    server.hand_out(1, 2, 5);
    for _ in 0..5 {
        server.hears(alone.last_sent());
        alone.hears(&server.mkpdu());
        alone.pass(ms(500));
    }
    let ki = Ki { server: server.basic.mi, kn: 1 };
    assert_eq!(alone.installed(), [ki]);
    let Some(Event::Install(association)) =
        alone.events.iter().find(|event| matches!(event, Event::Install(_)))
    else {
        panic!("not installed")
    };
    assert_eq!(association.sak.octets(), [5; 16]);
    assert_eq!(association.an.number(), 2);
    assert!(
        !association.fragmentation.fragment && !association.fragmentation.concatenate,
        "it announced nothing"
    );
}

/// A SAK counts only from the elected key server, in an MKPDU that has us live, with an MN of ours that is neither old nor
/// yet to come.
#[test]
fn a_sak_out_of_an_mkpdu_that_does_not_have_us_live_is_not_taken() {
    let (mut alone, mut server) = alone_with_server();
    let me = own(&alone);
    let listings: [(Vec<PeerEntry>, Vec<PeerEntry>); 3] = [
        (vec![], vec![]),
        (vec![], vec![PeerEntry { mi: me.mi, mn: me.mn }]),
        (vec![PeerEntry { mi: Mi([3; 12]), mn: me.mn }], vec![]),
    ];
    for (live, potential) in listings {
        (server.live, server.potential) = (live, potential);
        server.hand_out(1, 0, 5);
        alone.hears(&server.mkpdu());
        alone.pass(ms(20));
        assert_eq!(alone.installed(), []);
    }
    // An MN that was ours long ago.
    server.live = vec![PeerEntry { mi: me.mi, mn: own(&alone).mn }];
    let keep_alive = |alone: &mut Alone, server: &mut Scripted| {
        let sak = server.hands_out.take();
        let listed = std::mem::take(&mut server.live);
        server.hears(alone.last_sent());
        alone.hears(&server.mkpdu());
        (server.hands_out, server.live) = (sak, listed);
        alone.pass(ms(1000));
    };
    (0..9).for_each(|_| keep_alive(&mut alone, &mut server));
    alone.hears(&server.mkpdu());
    alone.pass(ms(20));
    assert_eq!(alone.installed(), []);
    server.hears(alone.last_sent());
    alone.hears(&server.mkpdu());
    assert_eq!(alone.installed().len(), 1);
}

#[test]
fn a_sak_that_was_used_is_never_installed_again() {
    let (mut alone, mut server) = alone_with_server();
    for (kn, an) in [(1, 0), (2, 1), (3, 2), (2, 3), (1, 0), (4, 3)] {
        server.hand_out(kn, an, kn as u8);
        server.hears(alone.last_sent());
        alone.hears(&server.mkpdu());
        server.uses(
            Ki { server: server.basic.mi, kn: kn.max(3) },
            server.hands_out.as_ref().expect("one").an,
            true,
            true,
        );
        for _ in 0..4 {
            alone.pass(seconds(2));
            server.hears(alone.last_sent());
            let sak = server.hands_out.take();
            alone.hears(&server.mkpdu());
            server.hands_out = sak;
        }
    }
    let kns: Vec<u32> = alone.installed().iter().map(|ki| ki.kn).collect();
    assert_eq!(kns, [1, 2, 3, 4]);
    assert!(alone.told("never used again") >= 1);
}

/// A whole session is recorded, and played back to the station after everybody has restarted, and again while it runs.
#[test]
fn recorded_sessions_change_nothing() {
    let mut world = World::group(40, 3);
    world.records = true;
    world.secure(&[0, 1, 2], seconds(6));
    world.with(0, |kay, now| kay.rekey(now));
    world.run(seconds(10));
    let recorded = std::mem::take(&mut world.recorded);
    world.records = false;
    // The running group hears its own past.
    let kis: Vec<Ki> = (0..3).map(|i| world.ki(i)).collect();
    for (from, frame) in &recorded {
        world.broadcast(*from, frame);
        world.run(ms(3));
    }
    world.run(seconds(1));
    assert_eq!(kis, (0..3).map(|i| world.ki(i)).collect::<Vec<_>>());
    // One restarts, so it has forgotten which MNs were heard; the others have not.
    world.switch_on(2, vec![cak(1)]);
    for (from, frame) in &recorded {
        world.broadcast(*from, frame);
        world.run(ms(3));
    }
    world.secure(&[0, 1, 2], seconds(9));
    // All restart.
    for i in 0..3 {
        world.switch_on(i, vec![cak(1)]);
    }
    for (from, frame) in &recorded {
        world.broadcast(*from, frame);
        world.run(ms(3));
    }
    world.secure(&[0, 1, 2], seconds(9));
    world.data_each = Some(ms(5));
    world.run(seconds(1));
    for (from, frame) in &recorded {
        world.broadcast(*from, frame);
        world.run(ms(1));
    }
    assert_eq!(world.lost, 0);
    assert!(!(0..3).any(|i| kis.contains(&world.ki(i))));
}

/// A member restarts, and an attacker plays back what it said just before: its old MI is over.
/// Attack: everything that the members said, in this life and in one before, again and again, eight thousand a second.
#[test]
fn a_flood_of_replayed_mkpdus_changes_nothing_and_is_not_answered() {
    let mut world = World::group(43, 3);
    world.records = true;
    world.secure(&[0, 1, 2], seconds(6));
    world.switch_on(1, vec![cak(1)]);
    world.secure(&[0, 1, 2], seconds(9));
    world.run(seconds(10));
    let recorded = std::mem::take(&mut world.recorded);
    world.records = false;
    world.forgive();
    world.data_each = Some(ms(5));
    let before = world.mkpdus;
    world.run(seconds(20));
    let in_silence = world.mkpdus - before;
    let kis: Vec<Ki> = (0..3).map(|i| world.ki(i)).collect();
    let (before, end) = (world.mkpdus, world.now + seconds(20));
    let mut replayed = recorded.iter().cycle();
    while world.now < end {
        for (from, frame) in replayed.by_ref().take(8) {
            world.broadcast(*from, frame);
        }
        world.run(ms(1));
    }
    assert_eq!(kis, (0..3).map(|i| world.ki(i)).collect::<Vec<_>>());
    assert_eq!(world.lost, 0);
    let beside = world.mkpdus - before;
    assert!(beside <= in_silence + 6, "{beside} MKPDUs beside a flood, {in_silence} without");
    // A key is changed in the middle of it, too.
    world.with(0, |kay, now| kay.rekey(now));
    for (from, frame) in replayed.take(40_000) {
        world.broadcast(*from, frame);
        if *from == 0 {
            world.run(ms(1));
        }
    }
    world.secure(&[0, 1, 2], seconds(9));
    assert_eq!(world.lost, 0);
    assert_ne!(kis[0], world.ki(0));
}

#[test]
fn a_member_that_restarted_is_not_replaced_by_its_past() {
    let mut world = World::group(41, 2);
    world.secure(&[0, 1], seconds(6));
    world.run(seconds(10));
    // The last MKPDU before the restart reaches nobody but the attacker.
    world.records = true;
    world.loss = 100;
    world.run(seconds(2));
    let (from, last) = world.recorded.iter().rfind(|(from, _)| *from == 1).expect("it spoke").clone();
    world.records = false;
    world.loss = 0;
    world.switch_on(1, vec![cak(1)]);
    world.secure(&[0, 1], seconds(6));
    let (ki, mi) = (world.ki(0), world.status(1).mi);
    world.broadcast(from, &last);
    world.run(ms(100));
    assert_eq!(world.ki(0), ki);
    assert!(world.status(0).members.iter().any(|member| member.mi == mi && member.live));
    assert_eq!(world.kay(0).counters().mkpdus_departed, 1);
}

#[test]
fn own_mkpdus_that_come_back_are_not_heard() {
    let mut alone = Alone::new(settings(0));
    alone.pass(seconds(10));
    let sent = alone.sent.clone();
    for frame in &sent {
        alone.hears(frame);
    }
    assert_eq!(alone.kay.counters().mkpdus_reflected, sent.len() as u64);
    let status = alone.kay.status(alone.now);
    assert!(status.members.is_empty() && status.mi == own(&alone).mi);
}

/// Somebody has drawn our MI: we draw another.
#[test]
fn who_has_our_mi_makes_us_draw_another() {
    let mut alone = Alone::new(settings(0));
    let mi = own(&alone).mi;
    let mut double = Scripted::new(9);
    double.basic.mi = mi;
    alone.hears(&double.mkpdu());
    alone.pass(ms(100));
    assert_ne!(own(&alone).mi, mi);
    // And so does somebody who has heard more of us than we said.
    let mi = own(&alone).mi;
    let mut listener = Scripted::new(10);
    listener.live = vec![PeerEntry { mi, mn: 1_000_000 }];
    alone.hears(&listener.mkpdu());
    alone.pass(ms(100));
    assert_ne!(own(&alone).mi, mi);
}

#[test]
fn an_mn_that_does_not_rise_is_old() {
    let (mut alone, mut server) = alone_with_server();
    let heard = alone.kay.counters().mkpdus_rx;
    for _ in 0..10 {
        alone.hears(&server.same_mn());
    }
    server.basic.mn -= 1;
    alone.hears(&server.same_mn());
    assert_eq!(alone.kay.counters().mkpdus_old_mn, 11);
    assert_eq!(alone.kay.counters().mkpdus_rx, heard);
}

/// Whoever has the CAK may speak as as many as he likes: lists stay short, and so does what is said.
#[test]
fn members_without_end_cost_bounded_memory() {
    let mut alone = Alone::new(settings(0));
    let mut members: Vec<Scripted> = (0..200).map(Scripted::new).collect();
    for member in &mut members {
        alone.hears(&member.mkpdu());
        alone.pass(ms(1));
    }
    assert_eq!(alone.kay.status(alone.now).members.len(), 32);
    for member in &mut members {
        member.hears(alone.last_sent());
        alone.hears(&member.mkpdu());
        alone.pass(ms(1));
    }
    let status = alone.kay.status(alone.now);
    assert_eq!(status.members.iter().filter(|member| member.live).count(), 32);
    (200..=255).map(Scripted::new).for_each(|mut member| alone.hears(&member.mkpdu()));
    alone.pass(seconds(2));
    assert_eq!(alone.kay.status(alone.now).members.len(), 64);
    assert_eq!(alone.kay.counters().mkpdus_too_many_peers, 200 - 32);
    assert!(status.fault.expect("there is trouble").to_string().contains("33"));
    assert!(alone.sent.iter().all(|frame| frame.len() <= 1514));
    let longest = alone.sent.iter().map(|frame| frame.len()).max().expect("it spoke");
    assert!(longest > 1000, "{longest}");
}

#[test]
fn garbage_is_counted_and_nothing_else() {
    let mut random = Random(42);
    let (mut alone, mut server) = alone_with_server();
    let genuine = server.mkpdu();
    let before = alone.kay.status(alone.now);
    let sent = alone.sent.len();
    for _ in 0..3000 {
        let mut frame = genuine.clone();
        match random.below(4) {
            0 => frame.truncate(random.below(frame.len() as u64) as usize),
            1 => frame.iter_mut().for_each(|octet| *octet = random.next() as u8),
            // From the EtherType on: the addresses are under the ICV too, but Ethernet's.
            _ => {
                let bit = random.below(frame.len() as u64 * 8) as usize;
                frame[bit / 8] ^= 1 << (bit % 8);
            }
        }
        if frame != genuine {
            alone.hears(&frame);
        }
    }
    let after = alone.kay.status(alone.now);
    assert_eq!(before.members, after.members);
    assert_eq!(before.mi, after.mi);
    assert_eq!(alone.sent.len(), sent);
    assert!(alone.installed().is_empty());
    let counters = alone.kay.counters();
    assert!(
        counters.mkpdus_malformed > 100 && counters.mkpdus_wrong_icv > 100 && counters.mkpdus_not_mka > 0
    );
    // Genuine MKPDUs still count.
    alone.hears(&genuine);
    assert_eq!(alone.kay.status(alone.now).members[0].heard, alone.now);
}

/// A key server that goes silent, and one that forgets: in both cases this station comes as a new member, which is a reason
/// for another SAK.
#[test]
fn a_station_without_a_sak_begins_anew() {
    let (mut alone, mut server) = alone_with_server();
    server.hand_out(1, 0, 5);
    server.hears(alone.last_sent());
    alone.hears(&server.mkpdu());
    let mi = own(&alone).mi;
    alone.pass(seconds(7));
    assert!(alone.events.iter().any(|event| matches!(event, Event::Retire(_))));
    assert_ne!(own(&alone).mi, mi, "the SAK was given up");

    let (mut alone, mut server) = alone_with_server();
    let mi = own(&alone).mi;
    for _ in 0..20 {
        alone.pass(seconds(1));
        server.hears(alone.last_sent());
        alone.hears(&server.mkpdu());
    }
    assert_ne!(own(&alone).mi, mi, "no SAK ever came");
    assert_eq!(alone.told("gives no SAK"), 1);
}

/// A station restarts twice, and what it said in between is held back until the third one is live.
#[test]
fn a_life_in_between_that_is_held_back_ends_nobody() {
    let mut alone = Alone::new(settings(0));
    let (mut first, mut second, mut third) = (Scripted::new(9), Scripted::new(9), Scripted::new(9));
    (second.basic.mi, third.basic.mi) = (Mi([10; 12]), Mi([11; 12]));
    alone.meets(&mut first);
    let live = |alone: &Alone| {
        let members = alone.kay.status(alone.now).members;
        members.iter().filter(|member| member.live).map(|member| member.mi).collect::<Vec<_>>()
    };
    second.hears(alone.last_sent());
    let held_back = [second.mkpdu(), second.mkpdu()];
    alone.meets(&mut third);
    assert_eq!(live(&alone), [third.basic.mi]);
    for frame in &held_back {
        alone.hears(frame);
        assert_eq!(live(&alone), [third.basic.mi]);
    }
    // MKPDUs of the first one are void too.
    alone.hears(&first.mkpdu());
    assert_eq!(alone.kay.counters().mkpdus_departed, 1);
    // But who shows to live does.
    alone.pass(seconds(1));
    second.hears(alone.last_sent());
    alone.pass(seconds(2));
    second.hears(alone.last_sent());
    alone.hears(&second.mkpdu());
    assert_eq!(live(&alone), [second.basic.mi]);
}

/// A peer that was lost and comes back with the MI and the SAK that it had is not let in under that SAK again: what it sent
/// before could be sent again by anybody.
#[test]
fn who_was_expelled_comes_back_under_another_sak_alone() {
    let mut world = World::group(43, 3);
    world.secure(&[0, 1, 2], seconds(6));
    let before = world.ki(0);
    // 2 is cut off for everybody; it holds on to what it has.
    let mut held = world.stations[2].settings.clone();
    held.on_peer_loss = OnPeerLoss::Hold;
    world.change(2, held, vec![cak(1)]);
    world.part(&[2], &[0, 1]);
    world.run(seconds(10));
    let gone = world.stations[2].settings.sci;
    assert!(!world.stations[0].secy.find(before).expect("in use").receive.contains_key(&gone));
    world.cut.clear();
    world.secure(&[0, 1, 2], seconds(9));
    assert_ne!(world.ki(0), before);
}
