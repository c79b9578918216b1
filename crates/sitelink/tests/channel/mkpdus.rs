//! MKPDUs from LAN to LAN.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::stand::{Relay, Site, identities, peer, socket, until};

/// A connection on which nothing is heard lives so long.
const IDLE: Duration = Duration::from_secs(2);

/// An EAPOL frame.
fn mkpdu(sender: u8, number: u16, octets: usize) -> Vec<u8> {
    let mut frame = vec![1, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, sender, 0x88, 0x8e, 3, 5];
    frame.extend(number.to_be_bytes());
    frame.resize(octets.max(18), sender);
    frame
}

#[test]
fn they_reach_all_other_lans_and_never_come_back() {
    let [low, middle, high] = identities();
    let hub = Site::start(&high, socket(), vec![peer(&low, None), peer(&middle, None)]);
    let left = Site::start(&low, socket(), vec![peer(&high, Some(hub.address))]);
    let right = Site::start(&middle, socket(), vec![peer(&high, Some(hub.address))]);
    until("up", || hub.is_up(0) && hub.is_up(1) && left.is_up(0) && right.is_up(0));
    let (long, short) = (mkpdu(1, 1, 1536), mkpdu(2, 1, 18));
    hub.lan_sends(&long);
    for site in [&left, &right] {
        until("from the hub to both", || site.frames() == [long.clone()]);
    }
    left.lan_sends(&short);
    until("to the hub", || hub.frames() == [short.clone()]);
    // Something that comes later: what was to come before is here.
    hub.lan_sends(&mkpdu(3, 9, 60));
    until("later", || right.frames().contains(&mkpdu(3, 9, 60)));
    assert!(!right.frames().contains(&short), "what came from a peer goes to no peer");
    assert_eq!(hub.frames().len(), 1);
}

#[test]
fn only_mkpdus_are_taken() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(far.address))]);
    until("up", || near.is_up(0) && far.is_up(0));
    let mut macsec = mkpdu(1, 1, 80);
    macsec[13] = 0xe5;
    let mut tagged = mkpdu(1, 1, 80);
    tagged[12..14].copy_from_slice(&[0x81, 0]);
    let mut start = mkpdu(1, 1, 80);
    start[15] = 1;
    for frame in [&macsec[..], &tagged, &start, &mkpdu(1, 1, 80)[..14], &mkpdu(1, 2, 80)] {
        near.lan_sends(frame);
    }
    until("the only one", || far.frames() == [mkpdu(1, 2, 80)]);
    assert_eq!(near.status().counters.out_bad_mkpdus, 4);
}

/// A machine that stands still for seconds loses the connection in the jam, and what waits goes with it: then it proves nothing.
#[test]
fn after_a_jam_the_newest_of_each_sender_comes() {
    assert!((0..10).any(|_| newest_come_after_a_jam()), "no connection lived through a jam of half a second");
}

/// False if the connection was lost.
fn newest_come_after_a_jam() -> bool {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let relay = Relay::to(far.address);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(relay.address))]);
    let begin = Instant::now();
    until("up", || near.is_up(0) && far.is_up(0));
    relay.fate.cut.store(true, Ordering::Relaxed);
    for number in 1..=20 {
        for sender in 1..=3 {
            near.lan_sends(&mkpdu(sender, number, 100));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    relay.fate.cut.store(false, Ordering::Relaxed);
    let is_lost = || [&near, &far].iter().any(|site| site.status().counters.connections_lost > 0);
    until("the newest", || {
        let frames = far.frames();
        (1..=3).all(|sender| frames.contains(&mkpdu(sender, 20, 100))) || is_lost()
    });
    if is_lost() {
        assert!(begin.elapsed() >= IDLE, "a connection was lost before its time: {:?}", begin.elapsed());
        return false;
    }
    let replaced = near.status().counters.out_mkpdus_replaced;
    assert!(replaced >= 40, "{replaced} of 60 were replaced while they waited");
    assert!(far.frames().len() <= 20, "{}", far.frames().len());
    true
}

/// An EAPOL frame of a source that nobody has heard before.
fn strangers(number: u64, packet_type: u8) -> Vec<u8> {
    let mut frame = mkpdu(0, 0, 60);
    frame[6..12].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[2..]);
    frame[6] &= 0xfe;
    frame[15] = packet_type;
    frame
}

/// 20,000 a second from sources that come once, MKPDUs and other EAPOL: all that a station says arrives. On a queue with a slot for
/// each source, whose oldest gives way, 14 of 39 were lost here, over a path of two milliseconds.
#[test]
fn a_flood_of_strangers_costs_no_station_an_mkpdu() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let relay = Relay::to(far.address);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(relay.address))]);
    until("up", || near.is_up(0) && far.is_up(0));
    near.lan_sends(&mkpdu(1, 1, 100));
    // From its second MKPDU on a station is known.
    std::thread::sleep(Duration::from_millis(400));
    near.lan_sends(&mkpdu(1, 1, 100));
    until("both arrive", || far.frames() == [mkpdu(1, 1, 100), mkpdu(1, 1, 100)]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..20 {
                    number += 1;
                    near.lan_sends(&strangers(number, if number.is_multiple_of(4) { 1 } else { 5 }));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for number in 2..=40 {
            std::thread::sleep(Duration::from_millis(100));
            near.lan_sends(&mkpdu(1, number, 100));
        }
        let missed = (2..=40).filter(|number| {
            let end = Instant::now() + Duration::from_secs(3);
            while !far.frames().contains(&mkpdu(1, *number, 100)) {
                if Instant::now() > end {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            false
        });
        let missed = missed.count() as u64;
        stop.store(true, Ordering::Relaxed);
        // On a machine that stands still a newer one of the same station may take an older one's place.
        let counters = near.status().counters;
        assert!(missed <= counters.out_mkpdus_replaced, "{missed} of 39: {counters:#?}");
    });
}
