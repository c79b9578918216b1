//! Initials in the name of a peer, at sixteen a millisecond: what they cost the other peers.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use suite::identity::Identity;

use super::hostile::{PROTOCOL, flood, initials, knock_at, no_knock};
use super::raw::{self, Shown};
use super::stand::{LIMIT, Site, identities, peer, socket, until};

/// Where a peer is, in whose name the flood comes.
const NAMED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));
/// Connections of another peer, at different times of the second that a budget is for.
const ROUNDS: usize = 7;
const PAUSE: Duration = Duration::from_millis(190);

/// The median of how long a peer at 127.0.0.2 waits for a connection and for what the site says first in it.
fn median(far: &Site, low: &Identity) -> Duration {
    let connect = |_| {
        std::thread::sleep(PAUSE);
        let begin = Instant::now();
        raw::runtime().block_on(async {
            // As sites do: a try that nobody answers gives way to another one.
            loop {
                let trying = async {
                    let shown = Shown::Key(low.public(), low);
                    let (_endpoint, connection) = raw::connect(shown, PROTOCOL, far.known()).await;
                    connection.ok()?.accept_uni().await.ok()
                };
                if let Ok(Some(_)) = tokio::time::timeout(Duration::from_millis(1400), trying).await {
                    return begin.elapsed();
                }
                assert!(begin.elapsed() < LIMIT, "never: {:?}", far.status().counters);
            }
        })
    };
    let mut times: Vec<Duration> = (0..ROUNDS).map(connect).collect();
    times.sort_unstable();
    println!("{times:?}");
    times[ROUNDS / 2]
}

#[test]
fn a_flood_in_the_name_of_a_peer_delays_no_other() {
    let [low, middle, high] = identities();
    let at = |address: &str| Some(address.parse().expect("an address"));
    // Nobody is there; what counts is that peers may be.
    let peers = vec![peer(&low, at("127.0.0.2:9")), peer(&middle, at("127.0.0.3:9"))];
    let far = Site::start(&high, socket(), peers);
    let counters = || far.status().counters;
    until("it knows where its peers may be", || {
        far.status().peers.iter().all(|peer| peer.reason.starts_with("no answer"))
    });
    let idle = median(&far, &low);

    let stop = flood(&far, NAMED, initials(no_knock));
    let arrives = Instant::now();
    until("it arrives", || counters().in_without_proof > 1000);
    let unknowing = median(&far, &low);
    let took = arrives.elapsed();
    let (sent, _socket) = stop();
    let limited = counters().in_initials_flood;
    println!("{sent} Initials in {took:?} of one who does not know the key: {:?}", counters());

    let stop = flood(&far, NAMED, initials(knock_at(&high)));
    until("it arrives", || counters().in_initials_flood > limited + 1000);
    let recorded = median(&far, &low);
    let (sent, _socket) = stop();
    println!("{sent} Initials with a recorded proof: {:?}", counters());
    println!("another peer connects in {idle:?} idle, {unknowing:?} and {recorded:?} beside the floods");
    assert_eq!(limited, 0, "who does not know the key takes nothing from anybody's share");
    // Of a shared budget the other one had next to nothing: its tries failed, of 1.4 s each.
    for flooded in [unknowing, recorded] {
        assert!(flooded < 3 * idle + Duration::from_millis(900), "{flooded:?} instead of {idle:?}");
    }
}
