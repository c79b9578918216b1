//! Those who are no peers, and peers that break the rules.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quinn::{Connection, Endpoint};
use rustls::crypto::aws_lc_rs::kx_group;
use sitelink::{ChannelCounters, ConnState};
use suite::identity::Identity;
use suite::knock::{KNOCK_OCTETS, KnockKey};
use tunnel::Message;

use super::raw::{self, Shown};
use super::stand::{LIMIT, Site, identities, peer, socket, until};

/// Where no peer is.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
pub(crate) const PROTOCOL: &[u8] = b"frameward-site/1";

fn counters(site: &Site) -> ChannelCounters {
    site.status().counters
}

/// Its key is said to be another one, which it does not have.
#[test]
fn a_peer_with_another_key_than_configured_is_refused() {
    let [low, middle, high] = identities();
    let server = Server::start(|| raw::serve(&[kx_group::X25519MLKEM768], middle.public(), &middle));
    let near = Site::start(&low, socket(), vec![peer(&high, Some(server.address))]);
    until("refused", || near.status().peers[0].reach == ConnState::Refused);
    let reason = near.status().peers[0].reason.clone();
    assert!(reason.contains(&middle.public().to_string()), "the key that it has is named: {reason}");
    assert_eq!((counters(&near).connections, near.endpoint(0)), (0, None));
}

/// A site itself does not answer who takes it for another one: that could be anybody. It tells its own people.
#[test]
fn who_does_not_know_the_key_of_a_peer_has_no_answer_and_the_peer_says_why() {
    let [low, middle, high] = identities();
    let caller = socket();
    let from = caller.local_addr().expect("an address");
    let far = Site::start(&middle, socket(), vec![peer(&low, Some(from))]);
    let near = Site::start(&low, caller, vec![peer(&high, Some(far.address))]);
    until("no answer", || near.status().peers[0].reason.starts_with("no answer from"));
    until("counted", || counters(&far).in_without_proof > 0);
    until("a notice", || {
        let notices = far.manager.as_ref().expect("it runs").notices();
        let own = middle.public().to_string();
        notices.iter().any(|notice| notice.text.starts_with("127.0.0.1") && notice.text.contains(&own))
    });
    assert_eq!(counters(&near).connections + counters(&far).connections, 0);
}

#[test]
fn a_stranger_is_refused_and_named() {
    let [low, middle, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&middle, None)]);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(far.address))]);
    until("refused", || near.status().peers[0].reach == ConnState::Refused);
    assert_eq!(near.status().peers[0].reason, "the peer does not know this site's public key");
    until("counted", || counters(&far).in_strangers > 0);
    assert_eq!(counters(&near).connections + counters(&far).connections, 0, "at neither end");
    until("a notice", || {
        let notices = far.manager.as_ref().expect("it runs").notices();
        notices.iter().any(|notice| notice.peer.is_none() && notice.text.contains(&low.public().to_string()))
    });
}

#[test]
fn a_key_that_is_shown_and_not_had_opens_nothing() {
    let [low, middle, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    raw::runtime().block_on(async {
        for shown in [Shown::Key(low.public(), &middle), Shown::Nothing] {
            let (_endpoint, connection) = raw::connect(shown, PROTOCOL, far.known()).await;
            if let Ok(connection) = connection {
                // The client is done first; then it is closed.
                tokio::time::timeout(LIMIT, connection.closed()).await.expect("closed");
            }
        }
    });
    until("counted", || counters(&far).in_handshakes_failed == 2);
    assert_eq!(counters(&far).connections, 0);
    assert_eq!((far.endpoint(0), counters(&far).in_strangers), (None, 0));

    // And the other way round: a server.
    let server = Server::start(|| raw::serve(&[kx_group::X25519MLKEM768], high.public(), &middle));
    let near = Site::start(&low, socket(), vec![peer(&high, Some(server.address))]);
    until("tried", || !near.status().peers[0].reason.is_empty());
    assert_eq!((counters(&near).connections, near.endpoint(0)), (0, None));
    let (reach, reason) = (near.status().peers[0].reach, near.status().peers[0].reason.clone());
    assert_eq!(reach, ConnState::Refused, "{reason}");
    assert!(reason.contains("the signature is wrong"), "{reason}");
}

/// As one of two sites that call each other at once.
#[test]
fn a_caller_that_ends_its_call_has_not_failed() {
    let [low, _, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let end = Instant::now() + LIMIT;
    while counters(&far).in_handshakes_ended == 0 {
        assert!(Instant::now() < end, "{:?}", counters(&far));
        raw::runtime().block_on(async {
            {
                let mut call = pin!(raw::connect(Shown::Key(low.public(), &low), PROTOCOL, far.known()));
                for _ in 0..10 {
                    if poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                // The site answers. Nothing is read here meanwhile.
                std::thread::sleep(Duration::from_millis(50));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        });
    }
    assert_eq!(counters(&far).in_handshakes_failed, 0);
}

/// Takes connections in a thread of its own.
struct Server {
    address: SocketAddr,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(serve: impl FnOnce() -> Endpoint) -> Self {
        let runtime = raw::runtime();
        let server = {
            let _inside = runtime.enter();
            serve()
        };
        let address = server.local_addr().expect("an address");
        let done = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&done);
        let accept = async move {
            while !until.load(Ordering::Relaxed) {
                if let Ok(Some(incoming)) =
                    tokio::time::timeout(Duration::from_millis(50), server.accept()).await
                {
                    tokio::spawn(async move { incoming.await.map(drop) });
                }
            }
        };
        let thread = Some(std::thread::spawn(move || runtime.block_on(accept)));
        Self { address, done, thread }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

#[test]
fn another_version_of_the_channel_is_refused() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    raw::runtime().block_on(async {
        let shown = Shown::Key(low.public(), &low);
        let (_endpoint, connection) = raw::connect(shown, b"frameward-site/2", far.known()).await;
        assert!(connection.is_err());
    });
    assert_eq!(counters(&far).connections, 0);
}

/// A message as it is on a stream.
fn message(message: &Message) -> Vec<u8> {
    let body = message.encode();
    let mut octets = (body.len() as u16).to_be_bytes().to_vec();
    octets.extend_from_slice(&body);
    octets
}

/// Connects as the peer that it is, sends these streams, and waits so long for it to be closed.
fn speak(as_peer: &Identity, far: &Site, streams: &[&[u8]], patience: Duration) -> Option<String> {
    let before = counters(far).connections;
    raw::runtime().block_on(async {
        let shown = Shown::Key(as_peer.public(), as_peer);
        let (_endpoint, connection) = raw::connect(shown, PROTOCOL, far.known()).await;
        let connection = connection.expect("a connection");
        let begin = Instant::now();
        while counters(far).connections == before {
            assert!(begin.elapsed() < LIMIT, "never connected");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for octets in streams {
            send(&connection, octets).await;
        }
        let closed = tokio::time::timeout(patience, connection.closed()).await;
        closed.ok().map(|error| error.to_string())
    })
}

async fn send(connection: &Connection, octets: &[u8]) {
    if let Ok(mut stream) = connection.open_uni().await {
        let _ = stream.write_all(octets).await;
        let _ = stream.finish();
        // The stream may be of no interest there.
        let _ = tokio::time::timeout(Duration::from_millis(200), stream.stopped()).await;
    }
}

#[test]
fn a_peer_that_speaks_rubbish_is_closed_and_may_come_again() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let ping = message(&Message::Ping { token: 1 });
    let faults: [(&str, Vec<u8>); 5] = [
        ("no CBOR", vec![0, 0, 3, 0xff, 0xff, 0xff]),
        ("an empty message", vec![0, 0, 0]),
        ("a message too long", [&[0, 0xff, 0xff][..], &[0; 4096]].concat()),
        ("no hello", [&[0][..], &ping].concat()),
        ("no hello, and flows", [&[1][..], &ping].concat()),
    ];
    for (number, (what, octets)) in (1..).zip(&faults) {
        let closed = speak(&low, &far, &[octets], LIMIT);
        assert!(closed.is_some(), "{what}: not closed");
        until(what, || counters(&far).in_faults == number);
    }
    // Counted, and no reason to close: a later version may have them.
    let oversized = [&[2][..], &[0xaa; 4000]].concat();
    let macsec = [&[2, 1, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, 1, 0x88, 0xe5][..], &[0; 60]].concat();
    let streams: [&[u8]; 6] = [&[9, 1, 2, 3], &[], &oversized, &macsec, &[0], &[0]];
    let closed = speak(&low, &far, &streams, Duration::from_millis(700));
    assert_eq!(closed, None);
    until("counted", || {
        let counters = counters(&far);
        counters.in_bad_mkpdus == 2 && counters.in_unknown_streams >= 1
    });
    assert!(far.frames().is_empty(), "nothing of it reached the LAN");
    // The peer itself is heard after all of this.
    let near = Site::start(&low, socket(), vec![peer(&high, Some(far.address))]);
    until("up", || near.is_up(0) && far.is_up(0));
}

/// An end that says much and reads nothing is held back by flow control: what it has not been heard with stays with it.
#[test]
fn a_peer_that_floods_is_held_back() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    raw::runtime().block_on(async {
        let shown = Shown::Key(low.public(), &low);
        let (_endpoint, connection) = raw::connect(shown, PROTOCOL, far.known()).await;
        let connection = connection.expect("a connection");
        // Streams that end never: as many as there may be.
        let mut streams = Vec::new();
        while let Ok(Ok(mut stream)) =
            tokio::time::timeout(Duration::from_millis(300), connection.open_uni()).await
        {
            let _ = stream.write_all(&[2]).await;
            streams.push(stream);
        }
        assert_eq!(streams.len(), 35);
        // Octets that make no frame: not more than the window of all streams.
        let mut taken = 0;
        for stream in &mut streams {
            let chunk = [0; 1024];
            while let Ok(Ok(octets)) =
                tokio::time::timeout(Duration::from_millis(50), stream.write(&chunk)).await
            {
                taken += octets;
                assert!(taken < 4 << 20, "no end of it");
            }
        }
        println!("a flooding peer could send {taken} octets");
    });
}

fn random_octets(state: &mut u64, octets: &mut [u8]) {
    for octet in octets {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *octet = (*state >> 56) as u8;
    }
}

/// Sends 16 packets a millisecond, in a thread of its own, until it is told to stop.
pub(crate) fn flood(
    far: &Site,
    from: IpAddr,
    make: impl Fn(&mut u64, &mut [u8]) + Send + 'static,
) -> impl FnOnce() -> (u64, UdpSocket) {
    let done = Arc::new(AtomicBool::new(false));
    let to = far.address;
    let flooding = {
        let done = Arc::clone(&done);
        std::thread::spawn(move || {
            let socket = UdpSocket::bind((from, 0)).expect("a socket");
            let (mut state, mut sent) = (1, 0);
            let mut packet = [0; 1200];
            let begin = Instant::now();
            while !done.load(Ordering::Relaxed) {
                // A few at a time, also where a turn came late.
                for _ in 0..32 {
                    if u128::from(sent) >= begin.elapsed().as_millis() * 16 {
                        std::thread::sleep(Duration::from_millis(1));
                        break;
                    }
                    make(&mut state, &mut packet);
                    let _ = socket.send_to(&packet, to);
                    sent += 1;
                }
            }
            (sent, socket)
        })
    };
    move || {
        done.store(true, Ordering::Relaxed);
        flooding.join().expect("no panic")
    }
}

#[test]
fn random_packets_are_dropped_unanswered_and_change_nothing() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let stop = flood(&far, ELSEWHERE, |state, packet| {
        random_octets(state, packet);
        packet[0] |= 0x40;
    });
    let near = Site::start(&low, socket(), vec![peer(&high, Some(far.address))]);
    let took = until("up", || near.is_up(0) && far.is_up(0));
    println!("up after {took:?} under random packets");
    until("many of them", || {
        let counters = counters(&far);
        counters.in_other_version > 1000 && counters.in_unknown_connection > 0
    });
    let (sent, socket) = stop();
    socket.set_nonblocking(true).expect("non-blocking");
    let mut answer = [0; 2048];
    let answers = std::iter::from_fn(|| socket.recv_from(&mut answer).ok()).count();
    assert_eq!(answers, 0, "answers to {sent} packets");
    assert!(near.is_up(0) && far.is_up(0));
    assert_eq!(counters(&far).connections_lost, 0);
}

/// Headers of Initials, to this connection ID: version 1, 8 octets of its own ID, no token, the rest of the datagram.
pub(crate) fn initials(id: impl Fn(&mut u64) -> [u8; KNOCK_OCTETS]) -> impl Fn(&mut u64, &mut [u8]) {
    move |state, packet| {
        random_octets(state, packet);
        packet[0] = 0xc0 | (packet[0] & 0x0f);
        packet[1..6].copy_from_slice(&[0, 0, 0, 1, KNOCK_OCTETS as u8]);
        packet[6..26].copy_from_slice(&id(state));
        (packet[26], packet[35]) = (8, 0);
        packet[36..38].copy_from_slice(&(0x4000_u16 | (1200 - 38)).to_be_bytes());
    }
}

/// One that somebody has recorded.
pub(crate) fn knock_at(site: &Identity) -> impl Fn(&mut u64) -> [u8; KNOCK_OCTETS] + use<> {
    let knock = KnockKey::of(site.public()).knock([7; 8]);
    move |_| knock
}

/// Of whoever knows nothing.
pub(crate) fn no_knock(state: &mut u64) -> [u8; KNOCK_OCTETS] {
    let mut id = [0; KNOCK_OCTETS];
    random_octets(state, &mut id);
    id
}

#[test]
fn a_flood_of_initials_keeps_no_peer_out() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let stop = flood(&far, ELSEWHERE, initials(knock_at(&high)));
    until("it arrives", || counters(&far).in_initials_flood > 1000);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(far.address))]);
    let took = until("up", || near.is_up(0) && far.is_up(0));
    println!("up after {took:?} under Initials: {:?}", counters(&far));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        assert!(near.is_up(0) && far.is_up(0), "the channel stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (sent, _socket) = stop();
    println!("{sent} Initials: {:?}", counters(&far));
    assert_eq!(counters(&far).connections, 1);
}

/// Real handshakes of those who have no key of a peer: beyond a few at a time they have to prove their address first.
#[test]
fn a_crowd_of_strangers_has_to_prove_its_addresses_and_keeps_no_peer_out() {
    let [low, middle, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let (to, done) = (far.known(), Arc::new(AtomicBool::new(false)));
    let crowd = {
        let done = Arc::clone(&done);
        std::thread::spawn(move || {
            raw::runtime().block_on(async {
                let mut all = Vec::new();
                for _ in 0..64 {
                    let (done, middle) = (Arc::clone(&done), middle.clone());
                    all.push(tokio::spawn(async move {
                        while !done.load(Ordering::Relaxed) {
                            let shown = Shown::Key(middle.public(), &middle);
                            let connecting = raw::connect(shown, PROTOCOL, to);
                            let _ = tokio::time::timeout(Duration::from_secs(1), connecting).await;
                        }
                    }));
                }
                for one in all {
                    let _ = one.await;
                }
            });
        })
    };
    until("they have to", || counters(&far).in_handshakes_retried > 20);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(far.address))]);
    let took = until("up", || near.is_up(0) && far.is_up(0));
    println!("up after {took:?} in a crowd: {:?}", counters(&far));
    until("some prove it, and are refused all the same", || counters(&far).in_strangers > 0);
    done.store(true, Ordering::Relaxed);
    crowd.join().expect("no panic");
    assert_eq!(counters(&far).connections, 1);
}
