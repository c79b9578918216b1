//! Those who know where a site is, and not its public key: they get nothing, whatever they send.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use suite::knock::KnockKey;

use super::hostile::PROTOCOL;
use super::raw::{self, Shown};
use super::stand::{LIMIT, Relay, Site, identities, peer, socket, until};

/// Versions of QUIC that are not spoken here: 2, a draft, one that asks for a negotiation, and a negotiation itself.
const OTHER_VERSIONS: [u32; 4] = [0x6b33_43cf, 0xff00_001d, 0x0a1a_2a3a, 0];
/// Bits of the first octet.
const LONG: u8 = 0xc0;
const SHORT: u8 = 0x40;

/// Somebody at an address where no peer is.
struct Scanner {
    socket: UdpSocket,
    sent: u64,
}

impl Scanner {
    fn new(far: &Site) -> Self {
        let socket = UdpSocket::bind("127.0.0.2:0").expect("a socket");
        socket.connect(far.address).expect("the loopback");
        socket.set_nonblocking(true).expect("non-blocking");
        Self { socket, sent: 0 }
    }

    fn send(&mut self, packet: &[u8]) {
        let _ = self.socket.send(packet);
        self.sent += 1;
        // The site's ring is short.
        if self.sent.is_multiple_of(8) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Number of datagrams that have come, and of their octets.
    fn answers(&self) -> (usize, usize) {
        let mut answer = [0; 65536];
        let lengths: Vec<usize> = std::iter::from_fn(|| self.socket.recv(&mut answer).ok()).collect();
        (lengths.len(), lengths.iter().sum())
    }
}

/// Scan with the packets that QUIC clients send first, with a connection ID of each length, and with packets like them.
fn scan(scanner: &mut Scanner, initials: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
    for length in 0..=20 {
        let first = initials(&random(length));
        for packet in &first {
            scanner.send(packet);
            // As 0-RTT, Handshake and Retry.
            for kind in [0x10, 0x20, 0x30] {
                let mut other = packet.clone();
                other[0] = other[0] & !0x30 | kind;
                scanner.send(&other);
            }
            for version in OTHER_VERSIONS {
                let mut other = packet.clone();
                other[1..5].copy_from_slice(&version.to_be_bytes());
                scanner.send(&other);
            }
            for end in [1, 5, 6, 7, 16, 26, 40, 600, 1199] {
                scanner.send(&packet[..end.min(packet.len())]);
            }
        }
    }
    for length in [1, 8, 17, 21, 40, 43, 100, 600, 1200, 1452] {
        for first in [SHORT, SHORT | 0x3f, LONG, 0xff] {
            let mut rubbish = random(length);
            rubbish[0] = first;
            scanner.send(&rubbish);
        }
        scanner.send(&random(length));
    }
}

fn random(octets: usize) -> Vec<u8> {
    let mut random = vec![0; octets];
    getrandom::fill(&mut random).expect("random octets");
    random
}

/// Waits until nothing more of a scan is on its way; how many packets of it the site has seen.
fn seen(site: &Site) -> u64 {
    let seen = || {
        let counters = site.status().counters;
        counters.in_datagrams
            + counters.in_other_version
            + counters.in_unknown_connection
            + counters.in_without_proof
            + counters.in_initials_flood
    };
    let mut last = 0;
    loop {
        std::thread::sleep(Duration::from_millis(700));
        let now = seen();
        if now == last {
            return now;
        }
        last = now;
    }
}

#[test]
fn a_scan_gets_not_one_octet() {
    let [low, middle, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let mut scanner = Scanner::new(&far);
    scan(&mut scanner, |id| raw::initials(&middle, id));
    // A client that knows another site's key, and goes on.
    let knock_there = KnockKey::of(middle.public()).knock([1; 8]);
    for packet in raw::initials(&middle, &knock_there) {
        scanner.send(&packet);
    }
    raw::runtime().block_on(async {
        let shown = Shown::Key(middle.public(), &middle);
        let connecting = raw::connect(shown, PROTOCOL, (far.address, middle.public()));
        let connected = tokio::time::timeout(Duration::from_millis(1500), connecting).await;
        assert!(connected.is_err(), "a client goes on trying");
    });
    let all = seen(&far);
    assert!(all > scanner.sent / 2, "{all} of {}", scanner.sent);
    assert_eq!(scanner.answers(), (0, 0), "{:?}", far.status().counters);
    let counters = far.status().counters;
    assert_eq!((counters.in_datagrams, counters.in_initials_flood), (0, 0), "{counters:?}");
    assert!(counters.in_without_proof > 100, "{counters:?}");
    // The same packets to who is known, from the same address: a whole flight.
    for packet in raw::initials(&middle, &KnockKey::of(high.public()).knock([1; 8])) {
        scanner.send(&packet);
    }
    until("an answer", || scanner.answers().1 > 0);
}

/// One is in each packet to a site, for all on its way to read. It is what a site that has restarted recognises its peers
/// by, which have to be told; more than that nobody gets for it.
#[test]
fn a_recorded_connection_id_gets_a_reset_and_no_handshake() {
    let [low, middle, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let tag = high.recognition_key().tag(b"connection ID\x01\x02\x03\x04\x05\x06\x07\x08");
    let id = [&[1, 2, 3, 4, 5, 6, 7, 8][..], &tag[..8]].concat();
    let mut scanner = Scanner::new(&far);
    let first = raw::initials(&middle, &id);
    for packet in &first {
        scanner.send(packet);
        let mut other = packet.clone();
        for kind in [0x10, 0x20, 0x30] {
            other[0] = other[0] & !0x30 | kind;
            scanner.send(&other);
        }
    }
    until("refused", || far.status().counters.in_without_proof > 0);
    assert_eq!((seen(&far) > 0, scanner.answers()), (true, (0, 0)), "{:?}", far.status().counters);
    let packet = [&[SHORT][..], &id, &[0; 50]].concat();
    scanner.send(&packet);
    until("a reset", || {
        let (answers, octets) = scanner.answers();
        assert!(answers <= 1 && octets < packet.len(), "{answers} answers, {octets} octets");
        answers == 1
    });
}

/// After a Retry the connection ID is one of the server's, and the second packet of a hello may be lost or come first.
#[test]
fn a_peer_that_knows_the_key_connects_through_retry_and_loss() {
    let [low, middle, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let relay = Relay::to(far.address);
    relay.fate.lost.store(5, Ordering::Relaxed);
    // Handshakes that are begun and left: with so many under way everybody has to prove its address.
    let mut scanner = Scanner::new(&far);
    let knock = KnockKey::of(high.public());
    let hellos: Vec<_> = (0..12).map(|number| raw::initials(&middle, &knock.knock([number; 8]))).collect();
    let begin = |scanner: &mut Scanner| hellos.iter().flatten().for_each(|packet| scanner.send(packet));
    let start = Instant::now();
    begin(&mut scanner);
    until("it has to", || far.status().counters.in_handshakes_retried > 0);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(relay.address))]);
    let mut again = Instant::now();
    while !(near.is_up(0) && far.is_up(0)) {
        assert!(start.elapsed() < LIMIT, "waited in vain: {:?}", far.status().counters);
        if again.elapsed() > Duration::from_millis(100) {
            again = Instant::now();
            begin(&mut scanner);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let counters = far.status().counters;
    println!("up after {:?} through Retry and loss: {counters:?}", start.elapsed());
    assert!(relay.fate.retries.load(Ordering::Relaxed) > 0, "{counters:?}");
}
