//! Sites that restart, and channels that are cut.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dataplane::site::ToWorker;
use sitelink::ConnState;
use tunnel::{Command, Generation};

use super::stand::{Relay, Site, identities, peer, socket, until};

/// Time for which a callee waits for the caller (`peer::GRACE`).
const GRACE: Duration = Duration::from_millis(500);

/// Number of instances of its peer that a site has met.
fn generations(site: &Site) -> u32 {
    site.status().peers[0].session.map_or(0, |state| state.generation.0)
}

#[test]
fn a_caller_that_crashed_is_back_soon() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let relay = Relay::to(far.address);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(relay.address))]);
    until("up", || near.is_up(0) && far.is_up(0));
    near.kill(&relay);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(relay.address))]);
    let took = until("up again", || near.is_up(0) && far.is_up(0) && generations(&far) == 2);
    println!("a caller that crashed: back after {took:?}");
    let voided =
        |word: &ToWorker| matches!(word, ToWorker::Tunnel(Command::Begin { generation: Generation(2), .. }));
    until("the keys of the instance before are void", || far.told(|heard| heard.words.iter().any(voided)));
}

#[test]
fn a_callee_that_crashed_is_back_soon() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let relay = Relay::to(far.address);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(relay.address))]);
    until("up", || near.is_up(0) && far.is_up(0));
    far.kill(&relay);
    // It cannot connect: it answers the old connection's packets with a reset.
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    *relay.fate.far.lock().expect("not poisoned") = Some(far.address);
    let took = until("up again", || near.is_up(0) && far.is_up(0) && generations(&near) == 2);
    println!("a callee that crashed: back after {took:?}");
    let notices = near.manager.as_ref().expect("it runs").notices();
    assert!(notices.iter().any(|notice| notice.text == "lost: the peer has restarted"), "{notices:?}");
}

#[test]
fn both_that_crashed_are_back_soon() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let relay = Relay::to(far.address);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(relay.address))]);
    until("up", || near.is_up(0) && far.is_up(0));
    near.kill(&relay);
    far.kill(&relay);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(relay.address))]);
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    *relay.fate.far.lock().expect("not poisoned") = Some(far.address);
    let took = until("up again", || near.is_up(0) && far.is_up(0));
    println!("both that crashed: back after {took:?}");
    assert_eq!((generations(&near), generations(&far)), (1, 1), "new sites");
}

/// As in an upgrade: the peer does not know that the site was away. One that begins waits for the caller half a second.
#[test]
fn a_callee_that_returns_calls_at_once() {
    let [low, high] = identities();
    let near = Site::start(&low, socket(), vec![peer(&high, None)]);
    let begin = |returns| {
        let far = Site::start_as(&high, socket(), vec![peer(&low, Some(near.address))], returns);
        (until("up", || near.is_up(0) && far.is_up(0)), far)
    };
    let (took, mut far) = begin(false);
    assert!(took >= GRACE, "{took:?}");
    // A machine that is busy takes longer now and then.
    let mut quickest = GRACE;
    for _ in 0..10 {
        drop(far);
        let (took, again) = begin(true);
        (quickest, far) = (quickest.min(took), again);
    }
    println!("a callee that returns: there after {quickest:?}");
    assert!(quickest < GRACE, "{quickest:?}");
}

#[test]
fn a_site_that_stops_says_so() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(far.address))]);
    until("up", || near.is_up(0) && far.is_up(0));
    drop(near);
    let took = until("waiting", || far.status().peers[0].reach == ConnState::Waiting);
    println!("known after {took:?}");
    assert_eq!(far.status().peers[0].reason, "the peer has stopped");
    let near = Site::start(&low, socket(), vec![peer(&high, Some(far.address))]);
    until("up again", || near.is_up(0) && far.is_up(0));
    assert_eq!(far.status().peers[0].reason, "", "it is not said beside a connection");
}

#[test]
fn a_channel_that_was_cut_heals_and_keys_stay() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let relay = Relay::to(far.address);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(relay.address))]);
    until("up", || near.is_up(0) && far.is_up(0));
    relay.fate.cut.store(true, Ordering::Relaxed);
    let took = until("both know", || {
        [&near, &far].iter().all(|site| site.status().peers[0].reach != ConnState::Connected)
    });
    println!("a cut is known after {took:?}");
    assert!(near.endpoint(0).is_some() && far.endpoint(0).is_some(), "data goes on where it went");
    until("it says why", || near.status().peers[0].reason.starts_with("no answer from"));
    relay.fate.cut.store(false, Ordering::Relaxed);
    let took = until("up again", || near.is_up(0) && far.is_up(0));
    println!("healed after {took:?}");
    assert_eq!([&near, &far].map(|site| site.status().peers[0].reason.clone()), ["", ""]);
    assert_eq!((generations(&near), generations(&far)), (1, 1));
    let begins = |word: &&ToWorker| matches!(word, ToWorker::Tunnel(Command::Begin { .. }));
    assert_eq!(near.told(|heard| heard.words.iter().filter(begins).count()), 1, "nothing was voided");
}
