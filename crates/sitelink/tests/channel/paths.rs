//! Several paths to a peer.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use sitelink::{ManagerPath, ManagerPeer};
use suite::identity::Identity;
use suite::knock::KnockKey;

use super::raw;
use super::stand::{Site, identities, peer, socket, until};

/// A site that answers calls of a peer from this address, too. Its port.
fn called(own: &Identity, caller: &Identity, local: IpAddr) -> (Site, u16) {
    let paths = vec![ManagerPath { local: Some(local), ..ManagerPath::default() }];
    let called = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let port = called.local_addr().expect("an address").port();
    (Site::start(own, called, vec![ManagerPeer { paths, ..peer(caller, None) }]), port)
}

/// A caller takes answers only from the address that it has called. The called site's routes choose another one for the first
/// answer, when it cannot know yet by which path the call has come.
#[test]
fn a_site_that_is_called_answers_from_each_of_its_paths() {
    let [low, high] = identities();
    let local: IpAddr = "127.0.0.2".parse().expect("an address");
    let (far, port) = called(&high, &low, local);
    let endpoint = Some(SocketAddr::new(local, port).to_string());
    let paths = vec![ManagerPath { endpoint, ..ManagerPath::default() }];
    let near = Site::start(&low, socket(), vec![ManagerPeer { paths, ..peer(&high, None) }]);
    until("up", || near.is_up(0) && far.is_up(0));
    until("the path is proved at both ends", || {
        [&near, &far].iter().all(|site| site.status().peers[0].paths[0].reason.is_empty())
    });
}

/// The answers to one that sends a recorded first packet in another's name go to that one. QUIC bounds them at three times what has come
/// (RFC 9000, 8.1), and each way out is one more time.
#[test]
fn where_answers_leave_by_several_ways_a_caller_proves_its_address_first() {
    let [low, high] = identities();
    let (far, port) = called(&high, &low, "127.0.0.2".parse().expect("an address"));
    let [earlier, caller] = ["127.0.0.4:0", "127.0.0.3:0"].map(|at| UdpSocket::bind(at).expect("a socket"));
    let [first, second] =
        [[1; 8], [2; 8]].map(|random| raw::initials(&low, &KnockKey::of(high.public()).knock(random)));
    let retried = || far.status().counters.in_handshakes_retried;
    until("it knows its ways", || {
        let _ = earlier.send_to(&first[0], ("127.0.0.1", port));
        retried() > 0
    });
    let before = retried();
    caller.set_read_timeout(Some(Duration::from_secs(2))).expect("not zero");
    let sent = |packet: &Vec<u8>| caller.send_to(packet, ("127.0.0.1", port)).expect("it is sent");
    let sent: usize = second.iter().map(sent).sum();
    let mut packet = [0; 2048];
    let came: Vec<usize> = std::iter::from_fn(|| caller.recv(&mut packet).ok()).collect();
    assert!(came.len() >= 2, "an answer by each way: {came:?}");
    assert!(came.iter().sum::<usize>() < sent, "{came:?} octets for {sent}");
    assert!(retried() > before);
}

/// One that is asked for a proof and does not hear it is told of, as where handshakes begin without one.
#[test]
fn a_caller_that_does_not_hear_that_it_is_asked_for_a_proof_is_told() {
    let [low, high] = identities();
    let (far, port) = called(&high, &low, "127.0.0.2".parse().expect("an address"));
    let caller = UdpSocket::bind("127.0.0.3:0").expect("a socket");
    let hello = raw::initials(&low, &KnockKey::of(high.public()).knock([1; 8]));
    until("a notice", || {
        for packet in &hello {
            caller.send_to(packet, ("127.0.0.1", port)).expect("it is sent");
        }
        let notices = far.manager.as_ref().expect("it runs").notices();
        notices.iter().any(|notice| notice.text.starts_with("127.0.0.3 calls, knows"))
    });
}
