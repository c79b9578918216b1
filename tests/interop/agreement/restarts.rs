//! A group of three with two stations of the standard, of which one starts anew at once: the others have its MI before
//! still live, and have made a SAK a moment ago when that one is gone at last.

use std::time::{Duration, Instant};

use super::gateway::{Choice, Gateway};
use super::pinging::Pinging;
use super::{GUEST_IP, GUEST_MAC, station, take_up, topology};
use crate::guest::Guest;
use crate::supplicant::{self, Agreement, Key};

/// The second guest's addresses.
const SECOND_IP: &str = "10.77.0.4";
const SECOND_MAC: &str = "02:00:00:00:00:d4";
/// Octets of the echo requests.
const OCTETS: usize = 300;

/// As long as three stations may take to find together: those of the standard count seconds, and take up to four hellos and
/// two life times.
const FOUND: Duration = Duration::from_secs(60);

/// All three use one key, another than the one before.
fn same_key(gateway: &Gateway, guests: &mut [Guest; 2], before: Option<&Key>) -> Key {
    let end = Instant::now() + FOUND;
    loop {
        let [one, two] = guests.each_mut().map(supplicant::key);
        let agreement = gateway.agreement();
        if let Some(key) = one.filter(|key| two.as_ref() == Some(key) && Some(key) != before)
            && agreement.sak().is_some_and(|sak| sak.ki == key.ki())
            && agreement.live_peers() == 2
        {
            return key;
        }
        if Instant::now() > end {
            let logs = guests.each_mut().map(supplicant::log);
            panic!("one key, but not within {FOUND:?}: {agreement:#?}\n{}\n{}", logs[0], logs[1]);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn start(guest: &mut Guest, priority: u8, ip: &str) {
    Agreement::of_priority(priority).start(guest);
    take_up(guest, ip);
}

/// Ours has this priority, the others 16 and 24; each of the three starts anew at once.
fn each_restarts(priority: u8) {
    let topology = topology();
    let mut guests = [GUEST_MAC, SECOND_MAC].map(|mac| station(&topology, mac));
    let choice = Choice::of_priority(priority);
    let mut gateway = Gateway::start(&topology.gateway_a.namespace, "a", &choice);
    start(&mut guests[0], 16, GUEST_IP);
    start(&mut guests[1], 24, SECOND_IP);
    let mut before = same_key(&gateway, &mut guests, None);
    for who in [2, 2, 0, 1] {
        let began = Instant::now();
        if who == 2 {
            gateway.stop();
            gateway = Gateway::start(&topology.gateway_a.namespace, "a", &choice);
        } else {
            supplicant::crash(&mut guests[who]);
            start(&mut guests[who], [16, 24][who], [GUEST_IP, SECOND_IP][who]);
        }
        before = same_key(&gateway, &mut guests, Some(&before));
        println!("{who} of three restarted: one key after {:?}", began.elapsed());
        let pinging = Pinging::start(&topology.machine_a, [GUEST_IP, SECOND_IP][who % 2], OCTETS);
        pinging.wait_for(20);
    }
    guests.iter_mut().for_each(supplicant::stop);
    gateway.stop();
}

#[test]
fn each_of_three_restarts_and_ours_is_key_server() {
    each_restarts(8);
}

#[test]
fn each_of_three_restarts_and_a_supplicant_is_key_server() {
    each_restarts(32);
}
