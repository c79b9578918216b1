//! Watches that have nothing to tell, with a silence that a test waits for.

use testkit::{SilentProxy, TestDirectory, etcd};

use super::*;
use crate::directory::Address;

/// Longer than any change takes on a loaded machine.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);
/// A silence, in the place of [`SILENCE`]: longer than an interval of notifications with its jitter.
const QUIET: Duration = Duration::from_secs(4);
/// Interval of notifications, for etcd.
const NOTIFIES: &str = "1s";

fn open(port: u16) -> Etcd {
    let address: Address = format!("etcd://127.0.0.1:{port}").parse().unwrap();
    let Address::Etcd(address) = address else { panic!("{address} is none of etcd") };
    let mut directory = Etcd::new(&address).unwrap();
    directory.silence = QUIET;
    directory
}

fn written(directory: &mut Etcd, value: &[u8], seen: u64) -> Entry {
    let Put::Done(revision) = directory.put("/w/a", value, seen).unwrap() else { panic!("another wrote") };
    Entry { key: "/w/a".to_owned(), value: value.to_vec(), revision }
}

fn changes(watched: Watched) -> Vec<Entry> {
    let Watched::Changes(listing) = watched else { panic!("lost") };
    listing.entries
}

/// Watches until the directory is away, or something changes. A watch that tells of neither for so long does not notice.
fn away(watcher: &mut Etcd, after: u64) -> DirectoryError {
    let since = Instant::now();
    while since.elapsed() < LONG {
        match watcher.watch("/w/a", after, SHORT) {
            Ok(watched) => assert_eq!(changes(watched), [], "nothing passes"),
            Err(away) => return away,
        }
    }
    panic!("nobody noticed that the directory is silent");
}

/// A network that drops packets, a firewall, a member without power: connections stay, and nothing comes.
fn falls_silent_and_comes_back(name: &str, notifies: Option<&'static str>) {
    let place = TestDirectory::new(name);
    let etcd = etcd::Etcd::start_notifying(place.path(), None, notifies);
    let way = SilentProxy::new(etcd.port());
    let (mut writer, mut watcher) = (open(etcd.port()), open(way.port()));
    let first = written(&mut writer, b"1", 0).revision;
    // One that has nothing to tell is not away, for however long.
    let since = Instant::now();
    while since.elapsed() < 2 * QUIET {
        assert_eq!(changes(watcher.watch("/w/a", first, SHORT).unwrap()), []);
    }
    way.fall_silent();
    let second = written(&mut writer, b"2", first);
    let why = away(&mut watcher, first).to_string();
    assert!(why.contains("does not answer within"), "{why}");
    way.be_whole();
    assert_eq!(changes(watcher.watch("/w/a", first, LONG).unwrap()), std::slice::from_ref(&second));
    // The watch alone is dead: a router has forgotten its connection.
    assert_eq!(changes(watcher.watch("/w/a", second.revision, SHORT).unwrap()), []);
    way.forget_connections();
    let third = written(&mut writer, b"3", second.revision);
    assert_eq!(changes(watcher.watch("/w/a", second.revision, LONG).unwrap()), std::slice::from_ref(&third));
    // Changes come at once again.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| changes(watcher.watch("/w/a", third.revision, LONG).unwrap()));
        std::thread::sleep(SHORT);
        let fourth = written(&mut writer, b"4", third.revision);
        assert_eq!(waiting.join().unwrap(), [fourth]);
    });
}

#[test]
fn an_etcd_that_falls_silent_is_away_and_what_was_missed_is_told_when_it_is_back() {
    falls_silent_and_comes_back("etcd-silent", None);
}

#[test]
fn so_it_is_where_notifications_stop() {
    falls_silent_and_comes_back("etcd-silent-notifying", Some(NOTIFIES));
}

/// Requests that a watch of nothing costs in three silences, and the connections.
fn at_rest(name: &str, notifies: Option<&'static str>) -> (u64, u64) {
    let place = TestDirectory::new(name);
    let etcd = etcd::Etcd::start_notifying(place.path(), None, notifies);
    let way = SilentProxy::new(etcd.port());
    let mut directory = open(way.port());
    let there = written(&mut directory, b"1", 0).revision;
    let (before, since) = (etcd.reads(), Instant::now());
    while since.elapsed() < 3 * QUIET {
        assert_eq!(changes(directory.watch("/w/a", there, SHORT).unwrap()), []);
    }
    (etcd.reads() - before, way.opened())
}

/// 5,000 agents that read every few seconds leave an etcd time for little else.
#[test]
fn a_watch_that_etcd_notifies_costs_no_request_and_no_second_connection() {
    assert_eq!(at_rest("etcd-notifies", Some(NOTIFIES)), (0, 1));
    let (reads, connections) = at_rest("etcd-mute", None);
    assert!((2..=3).contains(&reads), "{reads}");
    assert_eq!(connections, 2);
}

#[test]
fn agents_that_begin_to_watch_at_once_do_not_look_at_once() {
    let mut quarters = [0; 4];
    for _ in 0..200 {
        let now = Instant::now();
        let first = heard_at_first(SILENCE) + SILENCE - now;
        assert!(SILENCE / 2 <= first && first <= 2 * SILENCE, "{first:?}");
        let place = (first - SILENCE / 2).as_secs_f64() / SILENCE.as_secs_f64();
        quarters[((place * 4.0) as usize).min(3)] += 1;
    }
    assert!(quarters.iter().all(|count| *count > 20), "{quarters:?}");
}
