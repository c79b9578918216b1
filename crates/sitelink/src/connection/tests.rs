use std::collections::BTreeSet;
use std::net::SocketAddr;

use dataplane::site::{datagrams, mailboxes};
use quinn::Endpoint;
use suite::identity::Identity;
use suite::knock::KnockKey;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use super::super::counters::SharedCounters;
use super::super::roster::Roster;
use super::super::socket::RingSocket;
use super::super::stand::{LIMIT, identities, socket};
use super::super::tls::Tls;
use super::super::transport::{self, code};
use super::*;

/// State of a manager without peers.
fn shared(identity: &Identity) -> Arc<Shared> {
    let (_, manager) = mailboxes().expect("a socket pair");
    let (_, consumer) = datagrams();
    let ids = transport::ConnectionIds::new(&identity.recognition_key());
    let (counters, stir) = (Arc::<SharedCounters>::default(), Arc::new(Notify::new()));
    let ring = RingSocket::new(
        socket(),
        consumer,
        ids,
        KnockKey::of(identity.public()),
        Arc::clone(&counters),
        Arc::clone(&stir),
        manager.channel.clone(),
    );
    Shared::new(Roster::new(&[], 1500), Arc::new(ring), counters, None, stir)
}

/// Both ends of a connection over the loopback, on endpoints that live as long.
async fn connected(low: &Identity, high: &Identity) -> ([Endpoint; 2], [Connection; 2]) {
    let tls = [low, high].map(|identity| Tls::new(identity).expect("a key"));
    let local: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let (crypto, _) = tls[1].server(BTreeSet::from([low.public()]), false);
    let server = transport::server(crypto, transport::transport(1500));
    let far = Endpoint::server(server, local).expect("a socket");
    let near = Endpoint::client(local).expect("a socket");
    let (crypto, _) = tls[0].client(high.public(), false);
    let client = transport::client(crypto, transport::transport(1500), high.public());
    let to = far.local_addr().expect("an address");
    let calls = tokio::spawn(near.connect_with(client, to, "site").expect("a connection"));
    let answers = far.accept().await.expect("a call").await.expect("a handshake");
    let calls = calls.await.expect("no panic").expect("a handshake");
    ([near, far], [calls, answers])
}

/// Each task has a handle of the connection, and with it some ten kilobytes.
#[test]
fn a_connection_that_has_ended_leaves_no_task() {
    let [low, high] = identities();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let (_endpoints, [near, far]) = connected(&low, &high).await;
        let shared = shared(&low);
        let peer = PeerConnection::start(near, true, None, &shared);
        assert!(tasks() > 4, "two endpoints, two connections, and those that read and write");
        far.close(code::STOPPED, b"");
        drop(far);
        let begin = Instant::now();
        while peer.ended().is_none() {
            assert!(begin.elapsed() < LIMIT, "the end is not heard of");
            sleep(Duration::from_millis(5)).await;
        }
        drop(peer);
        while tasks() > 2 {
            assert!(begin.elapsed() < LIMIT, "{} tasks, of which two are the endpoints'", tasks());
            sleep(Duration::from_millis(20)).await;
        }
    });
}
