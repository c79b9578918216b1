//! Another SAK, and another, while machines talk: on request, because PNs run out, because somebody starts anew.

use super::gateway::{Choice, Gateway};
use super::{GUEST_IP, Laboratory, take_up};
use crate::supplicant::{self, Agreement, Version};

/// Number of key changes in a row.
const REKEYS: usize = 10;
/// Answers between two changes: about two seconds, while the key before is still accepted.
const TALK: usize = 150;
/// Octets of the echo requests.
const OCTETS: usize = 300;

/// Machines talk while the key changes in this way, so often.
fn no_ping_is_lost(
    version: Version,
    priority: u8,
    times: usize,
    mut change: impl FnMut(&mut Laboratory, &Gateway, usize),
) {
    let mut laboratory = Laboratory::new(version);
    let gateway = laboratory.agree(&Choice::of_priority(priority), &Agreement::of_priority(version, 16));
    let pinging = laboratory.ping(OCTETS);
    pinging.wait_for(20);
    let mut before = laboratory.same_key(&gateway, None);
    for turn in 0..times {
        change(&mut laboratory, &gateway, turn);
        before = laboratory.same_key(&gateway, Some(&before));
        pinging.wait_for(TALK);
    }
    let answers = pinging.stop();
    println!("{} answered, {} missing", answers.answered, answers.missing.len());
    answers.are_complete();
    laboratory.kernel_is_content();
    gateway.knows_its_group(priority < 16, 1);
    supplicant::stop(&mut laboratory.guest);
    gateway.stop();
}

fn no_ping_is_lost_across_ten_rekeys_of_ours(version: Version) {
    no_ping_is_lost(version, 8, REKEYS, |_, gateway, _| gateway.rekey());
}

/// Its PNs run out: it is a member first, and says so; then it is key server, and acts.
fn no_ping_is_lost_when_the_kernels_pns_run_out(version: Version) {
    no_ping_is_lost(version, 8, 2, |laboratory, _, _| supplicant::exhaust(&mut laboratory.guest));
    no_ping_is_lost(version, 32, 3, |laboratory, gateway, turn| match turn {
        1 => gateway.rekey(),
        _ => supplicant::exhaust(&mut laboratory.guest),
    });
}

/// Either end loses all it knows, and is back.
fn who_starts_anew_gets_another_key(version: Version) {
    for priority in [8, 32] {
        let mut laboratory = Laboratory::new(version);
        let choice = Choice::of_priority(priority);
        let gateway = laboratory.agree(&choice, &Agreement::of_priority(version, 16));
        let first = laboratory.same_key(&gateway, None);

        supplicant::crash(&mut laboratory.guest);
        Agreement::of_priority(version, 16).start(&mut laboratory.guest);
        take_up(&mut laboratory.guest, GUEST_IP);
        let second = laboratory.same_key(&gateway, Some(&first));
        let pinging = laboratory.ping(OCTETS);
        pinging.wait_for(20);
        drop(pinging);

        gateway.stop();
        let gateway = Gateway::start(&laboratory.topology.gateway_a.namespace, "a", &choice);
        laboratory.same_key(&gateway, Some(&second));
        let pinging = laboratory.ping(OCTETS);
        pinging.wait_for(20);
        pinging.stop().are_complete();
        gateway.stop();
    }
}

with_each_version!(
    no_ping_is_lost_across_ten_rekeys_of_ours,
    no_ping_is_lost_when_the_kernels_pns_run_out,
    who_starts_anew_gets_another_key
);
