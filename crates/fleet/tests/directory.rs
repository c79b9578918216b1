//! One suite of tests for each directory: in a file, and in an etcd that the test starts.

#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use fleet::directory::{
    Address, Directory, DirectoryError, Entry, Listing, MOST_WRITES, Put, WRITES_OCTETS, Watched, Write,
    heartbeat_key,
};
use fleet::{
    GatewayName, HEARTBEAT_OCTETS, Heart, Heartbeat, HeartbeatRefusal, Known, Member, Outcome, STALE, Said,
    Standing,
};
use suite::identity::{Identity, PublicKey};
use testkit::etcd::{Etcd, Tls};
use testkit::{SilentProxy, TestDirectory};

type Open<'a> = &'a (dyn Fn() -> Box<dyn Directory + Send> + Sync);

/// Longer than any change takes on a loaded machine.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

fn open(address: &str) -> Box<dyn Directory + Send> {
    address.parse::<Address>().expect("an address").open().expect("files that can be used")
}

fn open_file(path: &std::path::Path) -> Box<dyn Directory + Send> {
    Address::File(path.to_owned()).open().expect("a file")
}

/// Runs a test in a file of redb and in an etcd.
fn in_each(name: &str, test: impl Fn(Open<'_>)) {
    let place = TestDirectory::new(name);
    let file = place.path().join("fleet.redb").display().to_string();
    test(&|| open(&file));
    let etcd = Etcd::start(&place.path().join("etcd"), None);
    test(&|| open(&etcd.address()));
}

fn written(directory: &mut dyn Directory, key: &str, value: &[u8], seen: u64) -> u64 {
    match directory.put(key, value, seen).expect("a directory that answers") {
        Put::Done(revision) => revision,
        Put::Changed(entry) => panic!("{entry:?} is there"),
    }
}

fn entry(key: &str, value: &[u8], revision: u64) -> Entry {
    Entry { key: key.to_owned(), value: value.to_vec(), revision }
}

fn changes(watched: Watched) -> Listing {
    match watched {
        Watched::Changes(listing) => listing,
        Watched::Lost => panic!("lost"),
    }
}

#[test]
fn what_is_written_is_read_and_of_two_writers_the_second_sees_the_first() {
    in_each("directory-put", |open| {
        let (mut one, mut other) = (open(), open());
        let first = written(&mut *one, "/a/x", b"1", 0);
        assert_eq!(other.get("/a/x").unwrap(), Some(entry("/a/x", b"1", first)));
        assert_eq!(other.get("/a/y").unwrap(), None);
        // Both saw the first. One writes, and the other one sees what it wrote.
        let second = written(&mut *one, "/a/x", b"2", first);
        assert!(second > first);
        let there = Put::Changed(Some(entry("/a/x", b"2", second)));
        assert_eq!(other.put("/a/x", b"3", first).unwrap(), there);
        assert_eq!(other.put("/a/x", b"3", 0).unwrap(), there);
        assert_eq!(other.put("/a/y", b"3", second).unwrap(), Put::Changed(None));
        assert_eq!(one.get("/a/x").unwrap(), Some(entry("/a/x", b"2", second)));
        // All octets, and none.
        let all: Vec<u8> = (0..=255).cycle().take(300 * 1024).collect();
        let long = written(&mut *one, "/a/long", &all, 0);
        assert_eq!(other.get("/a/long").unwrap(), Some(entry("/a/long", &all, long)));
        let empty = written(&mut *one, "/a/empty", b"", 0);
        assert_eq!(other.get("/a/empty").unwrap(), Some(entry("/a/empty", b"", empty)));
    });
}

#[test]
fn several_entries_are_written_at_once_or_none_of_them() {
    in_each("directory-put-all", |open| {
        let (mut one, mut other) = (open(), open());
        let keys: Vec<String> = (0..MOST_WRITES).map(|number| format!("/b/{number:03}")).collect();
        let long = vec![7; WRITES_OCTETS / MOST_WRITES];
        let writes = |value, seen: u64| -> Vec<Write<'_>> {
            keys.iter().map(|key| Write { key, value, seen }).collect()
        };
        assert!(one.put_all(&writes(&long, 0)).unwrap(), "as many and as long as are allowed");
        let there = other.list("/b/").unwrap().entries;
        assert!(there.len() == MOST_WRITES && there.iter().all(|entry| entry.value == long));
        // Somebody wrote one of them since: none is written.
        let seen: Vec<u64> = there.iter().map(|entry| entry.revision).collect();
        let last = written(&mut *other, &keys[MOST_WRITES - 1], b"other", seen[MOST_WRITES - 1]);
        let mut again = writes(b"2", 0);
        again.iter_mut().zip(&seen).for_each(|(write, seen)| write.seen = *seen);
        assert!(!one.put_all(&again).unwrap());
        assert_eq!(other.get(&keys[0]).unwrap(), Some(entry(&keys[0], &long, seen[0])));
        again[MOST_WRITES - 1].seen = last;
        assert!(one.put_all(&again).unwrap());
        let listing = other.list("/b/").unwrap();
        assert!(listing.entries.iter().all(|entry| entry.value == b"2" && entry.revision > last));
        // A watch of each tells it.
        let told = changes(other.watch(&keys[3], last, LONG).unwrap());
        assert_eq!(told.entries.last(), listing.entries.get(3));
    });
}

#[test]
fn of_many_writers_at_once_each_counts() {
    in_each("directory-race", |open| {
        written(&mut *open(), "/count", &0_u64.to_be_bytes(), 0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut directory = open();
                    let mut to_do = 10;
                    while to_do > 0 {
                        let there = directory.get("/count").unwrap().unwrap();
                        let count = u64::from_be_bytes(there.value.as_slice().try_into().unwrap());
                        let put =
                            directory.put("/count", &(count + 1).to_be_bytes(), there.revision).unwrap();
                        to_do -= u64::from(matches!(put, Put::Done(_)));
                    }
                });
            }
        });
        assert_eq!(open().get("/count").unwrap().unwrap().value, 40_u64.to_be_bytes());
    });
}

#[test]
fn a_list_has_what_begins_alike_at_one_revision() {
    in_each("directory-list", |open| {
        let mut directory = open();
        assert_eq!(directory.list("/a/").unwrap().entries, []);
        let mut expected = Vec::new();
        // More than a page.
        for number in 0..100 {
            let key = format!("/a/{number:03}");
            let revision = written(&mut *directory, &key, key.as_bytes(), 0);
            expected.push(entry(&key, key.as_bytes(), revision));
        }
        for beside in ["/a", "/a0", "/b/1", "/A/1"] {
            written(&mut *directory, beside, b"beside", 0);
        }
        let newest = directory.get("/A/1").unwrap().unwrap().revision;
        let listing = directory.list("/a/").unwrap();
        assert_eq!(listing.revision, newest);
        assert_eq!(listing.entries, expected);
    });
}

#[test]
fn a_list_of_many_short_entries_takes_few_requests_and_long_ones_among_them_stop_it_not() {
    let place = TestDirectory::new("directory-pages");
    let etcd = Etcd::start(place.path(), None);
    let mut directory = open(&etcd.address());
    let write = |directory: &mut dyn Directory, prefix: &str, count: usize, value: &[u8]| {
        let keys: Vec<String> = (0..count).map(|number| format!("{prefix}{number:04}")).collect();
        for keys in keys.chunks((WRITES_OCTETS / value.len()).clamp(1, MOST_WRITES)) {
            let writes: Vec<_> = keys.iter().map(|key| Write { key, value, seen: 0 }).collect();
            assert!(directory.put_all(&writes).unwrap());
        }
    };
    write(&mut *directory, "/p/short-", 1900, &[1; 300]);
    let before = etcd.reads();
    assert_eq!(directory.list("/p/").unwrap().entries.len(), 1900);
    let requests = etcd.reads() - before;
    assert!((2..=6).contains(&requests), "{requests} requests");
    // An answer has no room for this number of them, and nothing before says so.
    write(&mut *directory, "/p/tall-", 24, &vec![2; 400 << 10]);
    write(&mut *directory, "/p/tiny-", 100, &[3]);
    let listing = directory.list("/p/").unwrap();
    assert_eq!(
        listing.entries.iter().map(|entry| entry.value.len()).sum::<usize>(),
        570_000 + 24 * (400 << 10) + 100
    );
    assert!(listing.entries.is_sorted_by(|one, next| one.key < next.key));
}

#[test]
fn a_watch_tells_what_changes_and_goes_on_where_it_was() {
    in_each("directory-watch", |open| {
        let mut writer = open();
        let mut watcher = open();
        let first = written(&mut *writer, "/w/a", b"1", 0);
        // Nothing happens: the time is over, and not more.
        let since = Instant::now();
        assert_eq!(changes(watcher.watch("/w/a", first, SHORT).unwrap()).entries, []);
        assert!(since.elapsed() >= SHORT);
        // While it waits. Keys that begin alike are others.
        let second = thread::scope(|scope| {
            let waiting = scope.spawn(|| changes(watcher.watch("/w/a", first, LONG).unwrap()));
            thread::sleep(SHORT);
            written(&mut *writer, "/w/ab", b"beside", 0);
            let second = written(&mut *writer, "/w/a", b"2", first);
            let seen = waiting.join().unwrap();
            assert_eq!(seen, Listing { revision: second, entries: vec![entry("/w/a", b"2", second)] });
            second
        });
        // While nobody waits; and in another process, which knows the revision alone.
        let third = written(&mut *writer, "/w/a", b"3", second);
        for watcher in [&mut watcher, &mut open()] {
            let listing = changes(watcher.watch("/w/a", second, LONG).unwrap());
            assert_eq!(listing, Listing { revision: third, entries: vec![entry("/w/a", b"3", third)] });
        }
        // From the beginning: the last change is there, and is the last one.
        let (mut last, mut after) = (None, 0);
        while after < third {
            let listing = changes(watcher.watch("/w/a", after, LONG).unwrap());
            (last, after) = (listing.entries.last().cloned(), listing.revision);
        }
        assert_eq!(last, Some(entry("/w/a", b"3", third)));
        // A revision that the directory has not reached: it was restored from a copy.
        assert_eq!(open().watch("/w/a", third + 100, LONG).unwrap(), Watched::Lost);
    });
}

/// The changes that a watch of many tells until it has told this revision.
fn all_changes(watcher: &mut dyn Directory, prefix: &str, mut after: u64, until: u64) -> Vec<Entry> {
    let mut all = Vec::new();
    while after < until {
        let listing = changes(watcher.watch_all(prefix, after, LONG).unwrap());
        all.extend(listing.entries);
        after = listing.revision;
    }
    all
}

#[test]
fn a_watch_of_many_tells_what_changes_below_its_prefix_alone() {
    in_each("directory-watch-all", |open| {
        let (mut writer, mut watcher) = (open(), open());
        let first = written(&mut *writer, "/m/a", b"1", 0);
        assert_eq!(changes(watcher.watch_all("/m/", first, SHORT).unwrap()).entries, []);
        let b = thread::scope(|scope| {
            let waiting = scope.spawn(|| changes(watcher.watch_all("/m/", first, LONG).unwrap()));
            thread::sleep(SHORT);
            written(&mut *writer, "/n/a", b"beside", 0);
            let b = written(&mut *writer, "/m/b", b"2", 0);
            assert_eq!(waiting.join().unwrap().entries, vec![entry("/m/b", b"2", b)]);
            b
        });
        // While nobody waits, several; and in another process, which knows the revision alone.
        let c = written(&mut *writer, "/m/c", b"3", 0);
        let a = written(&mut *writer, "/m/a", b"4", first);
        for watcher in [&mut watcher, &mut open()] {
            let expected = vec![entry("/m/c", b"3", c), entry("/m/a", b"4", a)];
            assert_eq!(all_changes(&mut **watcher, "/m/", b, a), expected);
        }
        // One of a key and one of many, by the same client.
        assert_eq!(changes(watcher.watch("/m/a", a, SHORT).unwrap()).entries, []);
        assert_eq!(changes(watcher.watch_all("/m/", a, SHORT).unwrap()).entries, []);
        assert_eq!(open().watch_all("/m/", a + 100, LONG).unwrap(), Watched::Lost);
    });
}

#[test]
fn a_watch_of_many_is_lost_when_one_of_them_is_removed() {
    let place = TestDirectory::new("directory-watch-removed");
    let etcd = Etcd::start(place.path(), None);
    let mut directory = open(&etcd.address());
    written(&mut *directory, "/m/a", b"1", 0);
    let there = written(&mut *directory, "/m/b", b"1", 0);
    etcd.remove("/m/a");
    assert_eq!(directory.watch_all("/m/", there, LONG).unwrap(), Watched::Lost);
}

#[test]
fn changes_that_are_forgotten_are_told_as_lost() {
    let place = TestDirectory::new("directory-forgotten");
    let etcd = Etcd::start(&place.path().join("etcd"), None);
    let mut directory = open(&etcd.address());
    let mut revision = 0;
    for _ in 0..10 {
        revision = written(&mut *directory, "/w/a", b"x", revision);
    }
    etcd.compact(revision);
    assert_eq!(directory.watch("/w/a", 1, LONG).unwrap(), Watched::Lost);
    let listing = directory.look("/w/a").unwrap();
    assert_eq!(changes(directory.watch("/w/a", listing.revision, SHORT).unwrap()).entries, []);
}

/// Somebody who answers each request in the place of an etcd, as long as the test runs.
fn answering(status: &'static str, body: impl Into<Vec<u8>>) -> String {
    let (listener, body) = (TcpListener::bind("127.0.0.1:0").unwrap(), body.into());
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let (mut read, mut octets) = (Vec::new(), [0; 4096]);
            // All requests here are short objects.
            while !read.ends_with(b"}") {
                match socket.read(&mut octets) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => read.extend_from_slice(&octets[..count]),
                }
            }
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
            // Whoever is sent too much goes away.
            let _ = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(&body));
        }
    });
    address
}

#[test]
fn whoever_speaks_for_etcd_costs_no_memory_and_no_time_and_stops_no_other_member() {
    let page = |pairs: &str| format!(r#"{{"header":{{"revision":"9"}},"kvs":[{pairs}],"more":true}}"#);
    let pair = r#"{"key":"L2E=","mod_revision":"1"}"#;
    let rows = [
        (page(pair), "keys that begin alike, in their order", "the same page without end"),
        (page(r#"{"key":"L2I=","mod_revision":"1"}"#), "keys that begin alike", "another key"),
        (page(&vec!["{}"; 1 << 20].join(",")), "answers no JSON of etcd", "entries of two octets"),
        (page(""), "a page with entries", "no entry, and more"),
        (" ".repeat(32 << 20), "its answer is longer than any can be", "without end"),
    ];
    for (body, told, what) in rows {
        let mut directory = open(&format!("etcd://{}", answering("200 OK", body)));
        let error = directory.list("/a").unwrap_err().to_string();
        assert!(error.contains(told), "{what}: {error}");
    }
    let beside = page(pair).replace(",\"more\":true", "");
    let error = open(&format!("etcd://{}", answering("200 OK", beside))).get("/b").unwrap_err().to_string();
    assert!(error.contains("the entry of that key"), "{error}");
    let lines = "{\"result\":{}}\n".repeat(1 << 16);
    let since = Instant::now();
    let _ = open(&format!("etcd://{}", answering("200 OK", lines))).watch("/a", 1, SHORT);
    assert!(since.elapsed() < LONG);
    // What it tells goes to no terminal as it is.
    let rude = answering("503 Busy", format!("{{\"error\":\"\\u001b[2J\\n{}\"}}", "x".repeat(1 << 20)));
    let error = open(&format!("etcd://{rude}")).get("/a").unwrap_err().to_string();
    assert!(error.contains("\\u{1b}[2J\\n") && error.len() < 400, "{error}");
    // A member that is cut off from the others is passed over.
    let place = TestDirectory::new("directory-members");
    let etcd = Etcd::start(place.path(), None);
    let first = written(&mut *open(&etcd.address()), "/a", b"1", 0);
    for bad in [rude, answering("200 OK", "nonsense")] {
        let both = etcd.address().replace("etcd://", &format!("etcd://{bad},"));
        assert_eq!(open(&both).get("/a").unwrap(), Some(entry("/a", b"1", first)));
    }
}

#[test]
fn a_watch_goes_on_after_etcd_was_killed_and_restarted() {
    let place = TestDirectory::new("directory-restart");
    let mut etcd = Etcd::start(place.path(), None);
    let (mut writer, mut watcher) = (open(&etcd.address()), open(&etcd.address()));
    let mut other = open(&etcd.address());
    let first = written(&mut *writer, "/w/a", b"1", 0);
    assert_eq!(changes(watcher.watch("/w/a", first, SHORT).unwrap()).entries, []);
    assert_eq!(other.get("/w/b").unwrap(), None);
    etcd.kill();
    let away = watcher.watch("/w/a", first, LONG);
    assert!(matches!(away, Err(DirectoryError::Unreachable { .. })), "{away:?}");
    assert!(writer.put("/w/a", b"2", first).is_err());
    assert!(writer.get("/w/a").unwrap_err().to_string().contains("is etcd running there?"));
    etcd.restart();
    assert_eq!(
        writer.get("/w/a").unwrap(),
        Some(entry("/w/a", b"1", first)),
        "what was told as written is there"
    );
    // The connection that it has is dead, and nothing was sent over it.
    written(&mut *other, "/w/b", b"1", 0);
    let second = written(&mut *writer, "/w/a", b"2", first);
    let listing = changes(watcher.watch("/w/a", first, LONG).unwrap());
    assert_eq!(listing.entries, [entry("/w/a", b"2", second)]);
    // A member that is away is passed over.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let both = etcd.address().replace("etcd://", &format!("etcd://127.0.0.1:{free},"));
    assert_eq!(open(&both).get("/w/a").unwrap().unwrap().revision, second);
}

/// With TLS a connection costs more than a request, and 5,000 agents may begin at once.
#[test]
fn requests_share_a_connection_until_a_watch_takes_it_over() {
    let place = TestDirectory::new("directory-connections");
    let etcd = Etcd::start(place.path(), None);
    let way = SilentProxy::new(etcd.port());
    let mut directory = open(&format!("etcd://127.0.0.1:{}", way.port()));
    let mut revision = 0;
    for number in 0..20 {
        revision = written(&mut *directory, "/a", &[number], revision);
        assert_eq!(directory.get("/a").unwrap(), Some(entry("/a", &[number], revision)));
        assert!(matches!(directory.put("/a", b"late", 0).unwrap(), Put::Changed(Some(_))));
    }
    for _ in 0..3 {
        assert_eq!(changes(directory.watch("/a", revision, SHORT).unwrap()).entries, []);
        assert_eq!(way.opened(), 1);
    }
    for _ in 0..3 {
        assert_eq!(changes(directory.watch("/a", revision, SHORT).unwrap()).entries, []);
        directory.get("/a").unwrap();
    }
    assert_eq!(way.opened(), 2);
    // A dead connection, as of a router that has forgotten it, costs a moment: reads may be asked twice.
    way.forget_connections();
    let since = Instant::now();
    assert_eq!(directory.get("/a").unwrap().unwrap().revision, revision);
    assert!(since.elapsed() < Duration::from_secs(9), "{:?}", since.elapsed());
    assert_eq!(way.opened(), 3);
    // So it does where a new watch would take it over.
    way.forget_connections();
    let last = written(&mut *open(&etcd.address()), "/a", b"last", revision);
    let since = Instant::now();
    assert_eq!(
        changes(directory.watch_all("/a", last - 1, LONG).unwrap()).entries,
        [entry("/a", b"last", last)]
    );
    assert!(since.elapsed() < Duration::from_secs(9), "{:?}", since.elapsed());
    assert_eq!(way.opened(), 4);
}

#[test]
fn etcd_is_asked_over_tls_and_has_to_be_the_right_one() {
    let place = TestDirectory::new("directory-tls");
    let path = |name: &str| place.path().join(name);
    let openssl = |arguments: &str| {
        let made =
            Command::new("openssl").args(arguments.split(' ')).current_dir(place.path()).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    for ca in ["ca", "other"] {
        openssl(&format!("req -x509 {curve} -keyout {ca}.key -out {ca}.pem -subj /CN={ca}"));
    }
    openssl(&format!(
        "req -x509 {curve} -CA ca.pem -CAkey ca.key -keyout etcd.key -out etcd.pem -subj /CN=etcd -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
    ));
    let tls = Tls { ca: path("ca.pem"), certificate: path("etcd.pem"), key: path("etcd.key") };
    let etcd = Etcd::start(&path("etcd"), Some(tls));
    let mut directory = open(&etcd.address());
    let since = Instant::now();
    // It listens a moment before it is ready.
    while directory.get("/a").is_err() && since.elapsed() < LONG {
        thread::sleep(Duration::from_millis(50));
    }
    let first = written(&mut *directory, "/a", b"1", 0);
    assert_eq!(directory.get("/a").unwrap(), Some(entry("/a", b"1", first)));
    assert_eq!(changes(directory.watch("/a", first - 1, LONG).unwrap()).entries, [entry("/a", b"1", first)]);
    // The first request on a connection does not wait for the acknowledgement of the handshake, which comes after 40 ms at the earliest.
    let took = (0..20).map(|_| {
        let (mut other, since) = (open(&etcd.address()), Instant::now());
        other.get("/a").unwrap();
        since.elapsed()
    });
    let fastest = took.min().unwrap();
    assert!(fastest < Duration::from_millis(35), "{fastest:?}");
    // Another authority; no certificate of ours; no TLS at all.
    let address = etcd.address();
    let bad = [
        address.replacen("ca.pem", "other.pem", 1),
        address.split_once('&').unwrap().0.to_owned(),
        format!("etcd://127.0.0.1:{}", etcd.port()),
    ];
    for bad in bad {
        assert!(open(&bad).get("/a").is_err(), "{bad}");
    }
    let missing =
        address.replacen("ca.pem", "missing.pem", 1).parse::<Address>().unwrap().open().unwrap_err();
    assert!(missing.to_string().contains("missing.pem"), "{missing}");
}

#[test]
fn a_file_that_is_no_directory_is_told() {
    let place = TestDirectory::new("directory-file");
    let path = place.path().join("fleet.redb");
    let mut directory = open(&path.display().to_string());
    // One that is not there yet is empty, and reading makes none.
    assert_eq!(directory.get("/a").unwrap(), None);
    assert_eq!(directory.watch("/a", 1, SHORT).unwrap(), Watched::Lost);
    assert!(!path.exists());
    std::fs::write(&path, b"# no directory").unwrap();
    assert!(directory.get("/a").is_err());
    assert!(directory.put("/a", b"1", 0).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"# no directory", "it is left as it is");
}

/// A gateway's heartbeats: what an operator believes of them, whatever others write in their place.
#[test]
fn heartbeats_are_counted_and_what_is_withheld_or_put_back_is_noticed() {
    const NOW: u64 = 1_800_000_000;
    in_each("directory-heartbeat", |open| {
        let state = TestDirectory::new("heart-state");
        let operator = PublicKey([9; 32]);
        let name = GatewayName::new("press").unwrap();
        let member = Member { fleet: operator, name: name.clone(), identity: Identity::new(&[7; 32]) };
        let known = Known { fleet: operator, gateway: &name, member: member.identity.public() };
        let (mut box_side, mut operator_side, mut attacker) = (open(), open(), open());
        let said = |version, outcome| Said {
            in_use: Some(version),
            outcome,
            why: String::new(),
            unused: None,
            parts: None,
        };
        let mut seen: Option<Vec<u8>> = None;
        let mut look = |now: u64| {
            let standing = Standing::look(&mut *operator_side, known, seen.as_deref(), None, now).unwrap();
            seen = standing.newer.clone().or(seen.take());
            standing
        };
        assert_eq!(look(NOW).heartbeat, None);
        let mut heart = Heart::open(&member, state.path()).unwrap();
        heart.beat(&mut *box_side, &member, &said(16, Outcome::Refused), NOW).unwrap();
        let first = look(NOW);
        assert_eq!(first.heartbeat.as_ref().map(|it| (it.counter, it.outcome)), Some((1, Outcome::Refused)));
        let old = attacker.get(&heartbeat_key(operator, &name)).unwrap().unwrap();
        heart.beat(&mut *box_side, &member, &said(16, Outcome::Confirmed), NOW + 1).unwrap();
        let second = look(NOW + 1).heartbeat.unwrap();
        assert_eq!((second.counter, second.outcome), (2, Outcome::Confirmed));
        let now = look(NOW + 1);
        assert!(!now.is_confirmed(), "nothing was published");
        // What the directory shows as published counts for nothing where it is known what was.
        assert!(now.confirms(16, NOW + 1 + STALE) && !now.confirms(17, NOW + 1));
        assert!(!now.confirms(16, NOW + 2 + STALE), "it was heard too long ago");
        // Somebody puts an old one back, or something else.
        let mut write = |value: &[u8]| {
            let there = attacker.get(&heartbeat_key(operator, &name)).unwrap().unwrap();
            written(&mut *attacker, &there.key, value, there.revision);
        };
        let other = Identity::new(&[8; 32]);
        let forged = second.sign(&other);
        let stranger = Heartbeat { member: other.public(), counter: 99, ..second.clone() }.sign(&other);
        let rows: [(&[u8], HeartbeatRefusal); 4] = [
            (&old.value, HeartbeatRefusal::Older { counter: 1, seen: 2 }),
            (b"garbage", HeartbeatRefusal::Malformed),
            (&forged, HeartbeatRefusal::NotSigned),
            (&stranger, HeartbeatRefusal::OtherIdentity { member: other.public() }),
        ];
        for (value, refusal) in rows {
            write(value);
            let standing = look(NOW + 2);
            assert_eq!(standing.refusal, Some(refusal));
            assert!(!standing.confirms(16, NOW + 2), "it is not its newest word");
            assert_eq!(standing.heartbeat.as_ref(), Some(&second), "what was verified before stays");
            assert_eq!(
                (standing.stale(NOW + 1 + STALE), standing.stale(NOW + 2 + STALE)),
                (None, Some(STALE + 1))
            );
        }
        // The gateway writes over that, goes on after a restart, and behind what the directory shows if its disk was lost.
        heart.beat(&mut *box_side, &member, &said(17, Outcome::Confirmed), NOW + 3).unwrap();
        let third = look(NOW + 3);
        assert_eq!(third.refusal, None);
        let third = third.heartbeat.unwrap();
        assert!(third.counter > second.counter, "{third:?}");
        let mut heart = Heart::open(&member, state.path()).unwrap();
        heart.beat(&mut *box_side, &member, &said(17, Outcome::Confirmed), NOW + 4).unwrap();
        let restarted = look(NOW + 4).heartbeat.unwrap();
        assert!(restarted.counter > third.counter, "{restarted:?}");
        std::fs::remove_dir_all(state.path()).unwrap();
        let mut heart = Heart::open(&member, state.path()).unwrap();
        for second in 5..40 {
            heart.beat(&mut *box_side, &member, &said(17, Outcome::Confirmed), NOW + second).unwrap();
        }
        assert!(look(NOW + 40).heartbeat.unwrap().counter > restarted.counter);
        // One a gateway, however often it says something.
        let all = open().list(&format!("/frameward/{operator}/")).unwrap().entries;
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].value.len() <= HEARTBEAT_OCTETS);
        // Another directory, which somebody put in the place of this one.
        let place = TestDirectory::new("heart-empty");
        let mut empty = open_file(&place.path().join("empty.redb"));
        let standing = Standing::look(&mut *empty, known, seen.as_deref(), None, NOW + 41).unwrap();
        assert!(standing.is_withheld && standing.heartbeat.is_some(), "{standing:?}");
        let standing = Standing::look(&mut *empty, known, seen.as_deref(), Some(17), NOW + 41).unwrap();
        assert_eq!((standing.hidden, standing.is_confirmed()), (Some(17), false));
    });
}
