//! A group of three with two stations of the standard, of which one starts anew, at once or after a while. If it is back before the
//! others have missed it, they have its MI before still live, and have made a SAK a moment ago when that one is gone at last. If it
//! stays away longer, the other two go on.
//!
//! `FRAMEWARD_RESTARTS` is the number of random restarts in a test, `FRAMEWARD_SEED` repeats those of a run that failed.

use std::time::{Duration, Instant};

use lab::Topology;
use testkit::Chance;

use self::Station::{First, Ours, Second};
use super::gateway::{Choice, Gateway};
use super::pinging::Pinging;
use super::{GUEST_IP, GUEST_MAC, station, take_up, topology};
use crate::guest::Guest;
use crate::supplicant::{self, Agreement, Key, Version};

/// The second guest's addresses.
const SECOND_IP: &str = "10.77.0.4";
const SECOND_MAC: &str = "02:00:00:00:00:d4";
/// Octets of the echo requests.
const OCTETS: usize = 300;
/// Random restarts of a usual run.
const USUAL_RESTARTS: u64 = 2;

/// As long as three stations may take to find together: those of the standard count seconds, and take up to four hellos and
/// two life times.
const FOUND: Duration = Duration::from_secs(60);
/// A station that is away for longer has been missed: a life time, and a hello time that the others take to say so.
const MISSED: Duration = Duration::from_secs(8);
/// Pauses in milliseconds: within a hello time of 2 s, between two of them, around the 3 s of an old key, and around the 6 s of a life
/// time.
const PAUSES: [u64; 14] = [0, 100, 300, 700, 1000, 1500, 2000, 2500, 3200, 4500, 5500, 6500, 8000, 10_000];

/// One of the three.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Station {
    /// Ours.
    Ours,
    /// The guest whose priority is 16.
    First,
    /// The guest whose priority is 24.
    Second,
}

/// A restart.
#[derive(Clone, Copy, Debug)]
struct Restart {
    who: Station,
    /// Age of the group's key.
    after: u64,
    /// Absence of the station. Both in milliseconds.
    away: u64,
}

const fn restart(who: Station, after: u64, away: u64) -> Restart {
    Restart { who, after, away }
}

/// Three stations on a switch.
struct Group {
    topology: Topology,
    guests: [Guest; 2],
    gateway: Option<Gateway>,
    choice: Choice,
    key: Option<Key>,
}

impl Group {
    /// Ours has this priority, the others 16 and 24; they have found together. `newest`: no newer version comes.
    fn found(priority: u8, versions: [Version; 2], newest: Version) -> Group {
        let topology = topology();
        let guests = [GUEST_MAC, SECOND_MAC].map(|mac| station(&topology, newest, mac));
        let choice = Choice::of_priority(priority);
        let mut group = Group { topology, guests, gateway: None, choice, key: None };
        for (who, version) in [(Ours, versions[0]), (First, versions[0]), (Second, versions[1])] {
            group.start(who, version);
        }
        group.has_one_key(None);
        group
    }

    fn start(&mut self, who: Station, version: Version) {
        let (number, priority, ip) = match who {
            Ours => {
                let namespace = &self.topology.gateway_a.namespace;
                self.gateway = Some(Gateway::start(namespace, "a", &self.choice));
                return;
            }
            First => (0, 16, GUEST_IP),
            Second => (1, 24, SECOND_IP),
        };
        Agreement::of_priority(version, priority).start(&mut self.guests[number]);
        take_up(&mut self.guests[number], ip);
    }

    /// Ends it without giving it the time to say so.
    fn crash(&mut self, who: Station) {
        match who {
            Ours => drop(self.gateway.take()),
            First => supplicant::crash(&mut self.guests[0]),
            Second => supplicant::crash(&mut self.guests[1]),
        }
    }

    /// Waits until all but one that is away use one key, another than the one before.
    fn has_one_key(&mut self, away: Option<Station>) {
        let end = Instant::now() + FOUND;
        let there = if away.is_some() { 2 } else { 3 };
        loop {
            let mut keys: Vec<Option<Key>> = Vec::new();
            for (who, guest) in [First, Second].into_iter().zip(&mut self.guests) {
                keys.extend((away != Some(who)).then(|| supplicant::key(guest)));
            }
            let agreement = self.gateway.as_ref().map(Gateway::agreement);
            let fits = |key: &Key| {
                agreement.as_ref().is_none_or(|agreement| {
                    agreement.sak().is_some_and(|sak| sak.ki == key.ki())
                        && agreement.live_peers() == there - 1
                })
            };
            if let Some(key) = keys.first().cloned().flatten()
                && keys.iter().all(|other| other.as_ref() == Some(&key))
                && Some(&key) != self.key.as_ref()
                && fits(&key)
            {
                self.key = Some(key);
                return;
            }
            if Instant::now() > end {
                let logs = self.guests.each_mut().map(supplicant::log);
                panic!(
                    "one key, but not within {FOUND:?}; away: {away:?}; {keys:?}\n{agreement:#?}\n{}\n{}",
                    logs[0], logs[1]
                );
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Machines behind our gateway reach those of the two stations; all stations but this one are there.
    fn talks(&self, away: Option<Station>) {
        for (who, ip) in [(First, GUEST_IP), (Second, SECOND_IP)] {
            if away.is_some_and(|away| away == Ours || away == who) {
                continue;
            }
            Pinging::start(&self.topology.machine_a, ip, OCTETS).wait_for(20);
        }
    }

    /// One of them starts anew, as this version if it is one of the two, and all three are together again.
    fn restart(&mut self, Restart { who, after, away }: Restart, version: Version) {
        std::thread::sleep(Duration::from_millis(after));
        self.crash(who);
        let gone = Instant::now();
        let away = Duration::from_millis(away);
        if away >= MISSED {
            self.has_one_key(Some(who));
            println!("{who:?} is away: one key of the others after {:?}", gone.elapsed());
            self.talks(Some(who));
        }
        std::thread::sleep(away.saturating_sub(gone.elapsed()));
        self.start(who, version);
        let back = Instant::now();
        self.has_one_key(None);
        println!("{who:?} restarted after {after} ms, away for {away:?}: one key after {:?}", back.elapsed());
        self.talks(None);
    }

    fn end(mut self) {
        self.guests.iter_mut().for_each(supplicant::stop);
        self.gateway.take().expect("a gateway").stop();
    }
}

fn each_restarts(version: Version, priority: u8) {
    let mut group = Group::found(priority, [version; 2], version);
    for row in [
        restart(Ours, 0, 0),
        restart(Ours, 2500, 1000),
        restart(First, 0, 0),
        restart(Second, 1000, 3200),
        restart(First, 0, 10_000),
    ] {
        group.restart(row, version);
    }
    group.end();
}

fn each_of_three_restarts_and_ours_is_key_server(version: Version) {
    each_restarts(version, 8);
}

fn each_of_three_restarts_and_a_supplicant_is_key_server(version: Version) {
    each_restarts(version, 32);
}

with_each_version!(
    each_of_three_restarts_and_ours_is_key_server,
    each_of_three_restarts_and_a_supplicant_is_key_server
);

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is {text}")))
}

/// Restarts of any of the three, at any time. A station of the standard may come back as an older version. Every fourth restart comes
/// before the group has got over the one before.
fn any_restarts(newest: Version, priority: u8) {
    let restarts = number_from("FRAMEWARD_RESTARTS").unwrap_or(USUAL_RESTARTS);
    let seed = number_from("FRAMEWARD_SEED").unwrap_or_else(|| {
        let mut octets = [0; 4];
        getrandom::fill(&mut octets).unwrap();
        u32::from_le_bytes(octets).into()
    });
    println!("FRAMEWARD_RESTARTS={restarts} FRAMEWARD_SEED={seed}");
    let mut chance = Chance::new(seed);
    let version = |chance: &mut Chance| chance.pick(&[Version::V2_10, newest]);
    let mut group = Group::found(priority, [version(&mut chance), version(&mut chance)], newest);
    for number in 1..=restarts {
        let any = |chance: &mut Chance| chance.pick(&[Ours, First, Second]);
        let row = restart(any(&mut chance), chance.pick(&PAUSES), chance.pick(&PAUSES));
        let (first, hasty) = (any(&mut chance), chance.happens(250));
        let version = version(&mut chance);
        println!(
            "{number}: {row:?} {version:?}{}",
            if hasty { format!(", {first:?} first") } else { String::new() }
        );
        if hasty {
            group.crash(first);
            group.start(first, version);
        }
        group.restart(row, version);
    }
    group.end();
}

fn any_of_three_restarts_and_ours_is_key_server(newest: Version) {
    any_restarts(newest, 8);
}

fn any_of_three_restarts_and_ours_is_between_the_supplicants(newest: Version) {
    any_restarts(newest, 20);
}

fn any_of_three_restarts_and_a_supplicant_is_key_server(newest: Version) {
    any_restarts(newest, 32);
}

with_each_version!(
    any_of_three_restarts_and_ours_is_key_server,
    any_of_three_restarts_and_ours_is_between_the_supplicants,
    any_of_three_restarts_and_a_supplicant_is_key_server
);
