//! The table of the module's documentation, row by row; and the reasons for discards.

use std::time::Duration;

use fieldbus::handshake::{
    HELLO_FRAME_OCTETS, HELLO_INTERVAL, HELLO_TRIES, HandshakeEvent, HandshakeState, HelloDiscard,
    MAX_PENDING_HELLOS,
};
use fieldbus::relation::Relation;
use suite::fieldbus::MasterKey;
use wire::fieldbus::{
    CellSuite, ETHERTYPE, FrameId, HELLO_AUTHENTICATED_OCTETS, HandshakeNonce, Hello, HelloState, KeyId,
    Protect, Protection,
};
use wire::{EtherType, Instant, MacAddr};

use crate::world::{DEVICE, ENCRYPT, ETHERNET, End, PLC, hello, master, relation, started};

/// HELLOs of the device's gateway, made by hand.
#[derive(Clone, Copy)]
struct Peer {
    source: MacAddr,
    destination: MacAddr,
    frame_id: FrameId,
    protection: Protection,
    master: [u8; 32],
}

const PEER: Peer = Peer {
    source: DEVICE.0,
    destination: PLC.0,
    frame_id: DEVICE.1,
    protection: ENCRYPT,
    master: *b"thirty-two octets for whole cell",
};
const B: [HandshakeNonce; 2] = [HandshakeNonce([0xb1; 16]), HandshakeNonce([0xb2; 16])];
const STRANGE: HandshakeNonce = HandshakeNonce([0xee; 16]);
const NOW: Instant = Instant::after_start(Duration::from_secs(9));

impl Peer {
    fn says(self, own: HandshakeNonce, peers: Option<HandshakeNonce>, state: HelloState) -> Vec<u8> {
        let said = Hello {
            frame_id: self.frame_id,
            key_id: KeyId(77),
            state,
            protection: self.protection,
            own,
            peers,
            other_key: None,
        };
        let mut buffer = [0; HELLO_AUTHENTICATED_OCTETS];
        let said = said.encode(&mut buffer);
        let key = MasterKey::new(&self.master).hello_key(relation(0).stations());
        let mac = key.mac(self.destination, self.source, said);
        [&self.destination.0[..], &self.source.0, &ETHERTYPE.0.to_be_bytes(), said, &mac].concat()
    }
}

fn plc() -> End {
    started(relation(0), &master(), ENCRYPT, ETHERTYPE, &[3; 32])
}

/// Answer to one HELLO, and the events for the data path: E for Enter, + for Enable.
fn outcome(end: &mut End) -> (Option<Hello>, String) {
    let said = end.handshake.poll_transmit().map(|frame| hello(&frame));
    assert_eq!(end.handshake.poll_transmit(), None, "one at a time");
    let mut events = String::new();
    while let Some(event) = end.handshake.poll_event() {
        events.push(match event {
            HandshakeEvent::Enter(session) => {
                end.sessions.push(*session);
                'E'
            }
            HandshakeEvent::Enable => '+',
            HandshakeEvent::End => '-',
        });
    }
    (said, events)
}

fn heard(end: &mut End, frame: &[u8]) -> (Option<Hello>, String) {
    end.handshake.handle_frame(NOW, frame).expect("it is taken in");
    outcome(end)
}

fn asked(end: &mut End) -> Hello {
    end.handshake.handle_timeout(NOW);
    outcome(end).0.expect("it asks")
}

#[test]
fn it_asks_at_once() {
    let mut end = plc();
    assert!(end.handshake.poll_timeout().is_some_and(|due| due <= NOW));
    let first = asked(&mut end);
    assert_eq!(
        (first.state, first.peers, first.protection, first.frame_id),
        (HelloState::Request, None, ENCRYPT, PLC.1)
    );
    assert_eq!(end.handshake.poll_timeout(), Some(NOW + HELLO_INTERVAL));
    end.handshake.handle_timeout(NOW);
    assert_eq!(outcome(&mut end), (None, String::new()), "not before its time");
}

#[test]
fn a_hello_without_a_nonce_of_mine_is_answered_at_once_and_changes_nothing() {
    let mut end = plc();
    let first = asked(&mut end);
    for own in B {
        let (answer, events) = heard(&mut end, &PEER.says(own, None, HelloState::Request));
        let answer = answer.expect("an answer");
        assert_eq!((answer.state, answer.own, answer.peers), (HelloState::Request, first.own, Some(own)));
        assert_eq!((answer.key_id, events.as_str()), (first.key_id, ""));
        assert_eq!(end.handshake.state(), HandshakeState::Asking);
    }
}

#[test]
fn a_hello_with_my_offer_makes_me_enter_and_use_it_up() {
    for (state, events, confirmed) in [
        (HelloState::Request, "E", HandshakeState::Entered),
        (HelloState::Entered, "E+", HandshakeState::Confirmed),
    ] {
        let mut end = plc();
        let first = asked(&mut end);
        let frame = PEER.says(B[0], Some(first.own), state);
        let (answer, told) = heard(&mut end, &frame);
        let answer = answer.expect("an answer");
        assert_eq!((answer.state, answer.own, answer.peers), (HelloState::Entered, first.own, Some(B[0])));
        assert_eq!((answer.key_id, told.as_str()), (first.key_id, events));
        assert_eq!(end.handshake.state(), confirmed);
        let session = &end.sessions[0];
        assert_eq!(session.transmit.each_ref().map(|key| key.key_id), [first.key_id, first.key_id.next()]);
        assert_eq!(session.receive.each_ref().map(|key| key.key_id), [KeyId(77), KeyId(78)]);
        // The offer is used up: with another nonce of the peer it is stale.
        let again = PEER.says(B[1], Some(first.own), state);
        assert_eq!(end.handshake.handle_frame(NOW, &again), Err(HelloDiscard::Stale));
        assert_eq!(outcome(&mut end), (None, String::new()));
    }
}

#[test]
fn of_my_newest_session_asks_is_answered_and_entered_is_not() {
    let mut end = plc();
    let first = asked(&mut end);
    heard(&mut end, &PEER.says(B[0], Some(first.own), HelloState::Request));
    for _ in 0..3 {
        let (answer, events) = heard(&mut end, &PEER.says(B[0], Some(first.own), HelloState::Request));
        assert_eq!(
            answer.map(|answer| (answer.state, answer.own, answer.peers)),
            Some((HelloState::Entered, first.own, Some(B[0])))
        );
        assert_eq!(events, "");
    }
    let entered = PEER.says(B[0], Some(first.own), HelloState::Entered);
    assert_eq!(heard(&mut end, &entered), (None, "+".into()));
    assert_eq!(heard(&mut end, &entered), (None, String::new()), "enabled once");
    assert_eq!((end.handshake.state(), end.handshake.poll_timeout()), (HandshakeState::Confirmed, None));
}

#[test]
fn in_a_session_that_is_not_confirmed_it_asks_with_its_nonces_and_at_times_anew() {
    let mut end = plc();
    let first = asked(&mut end);
    heard(&mut end, &PEER.says(B[0], Some(first.own), HelloState::Request));
    let mut now = NOW;
    let mut anew = None;
    for try_ in 1..=4 * HELLO_TRIES {
        now = now + HELLO_INTERVAL;
        end.handshake.handle_timeout(now);
        let (said, _) = outcome(&mut end);
        let said = said.expect("it asks");
        assert_eq!(said.state, HelloState::Request);
        if try_ % HELLO_TRIES == 0 {
            assert_eq!(said.peers, None);
            assert_ne!(said.own, first.own, "a nonce that was used");
            assert_eq!(*anew.get_or_insert(said.own), said.own, "an offer stands until it is used");
        } else {
            assert_eq!((said.own, said.peers), (first.own, Some(B[0])));
        }
    }
}

#[test]
fn another_nonce_of_mine_is_stale_in_every_state() {
    let mut end = plc();
    let stale = |end: &mut End, nonce| {
        for state in [HelloState::Request, HelloState::Entered] {
            for own in B {
                let frame = PEER.says(own, Some(nonce), state);
                assert_eq!(end.handshake.handle_frame(NOW, &frame), Err(HelloDiscard::Stale));
                assert_eq!(outcome(end), (None, String::new()));
            }
        }
    };
    let first = asked(&mut end);
    stale(&mut end, STRANGE);
    heard(&mut end, &PEER.says(B[0], Some(first.own), HelloState::Request));
    stale(&mut end, STRANGE);
    heard(&mut end, &PEER.says(B[0], Some(first.own), HelloState::Entered));
    stale(&mut end, STRANGE);
    // One that says that it has entered a session without a nonce of mine is nobody's.
    assert_eq!(
        end.handshake.handle_frame(NOW, &PEER.says(B[1], None, HelloState::Entered)),
        Err(HelloDiscard::Stale)
    );
    // A live peer has no use for what was offered while a session was made.
    assert_eq!(end.handshake.counters().in_hello_stale, 13);
}

#[test]
fn an_offer_is_drawn_again_when_a_session_is_confirmed() {
    let mut end = plc();
    let first = asked(&mut end);
    heard(&mut end, &PEER.says(B[0], Some(first.own), HelloState::Request));
    let offer = heard(&mut end, &PEER.says(B[1], None, HelloState::Request)).0.expect("an answer").own;
    heard(&mut end, &PEER.says(B[0], Some(first.own), HelloState::Entered));
    let held_back = PEER.says(B[1], Some(offer), HelloState::Request);
    assert_eq!(end.handshake.handle_frame(NOW, &held_back), Err(HelloDiscard::Stale));
}

#[test]
fn what_is_not_the_peers_is_discarded_for_its_reason() {
    let asks = |peer: Peer| peer.says(B[0], None, HelloState::Request);
    let altered = |at: usize, mask: u8| {
        let mut frame = asks(PEER);
        frame[at] ^= mask;
        frame
    };
    let authenticate = Protection { protect: Protect::Authenticate, ..ENCRYPT };
    let longer = Protection { suite: CellSuite::GcmAes256, ..ENCRYPT };
    let own = started(relation(0), &master(), ENCRYPT, ETHERTYPE, &[4; 32]).handshake;
    let rows: [(Vec<u8>, HelloDiscard); 16] = [
        (Vec::new(), HelloDiscard::Malformed),
        (asks(PEER)[..HELLO_FRAME_OCTETS - 1].to_vec(), HelloDiscard::Malformed),
        (altered(12, 1), HelloDiscard::Malformed),
        // Seq is not 0, a bit of the State that has no meaning.
        (altered(ETHERNET + 6, 1), HelloDiscard::Malformed),
        (altered(ETHERNET + 7, 0x80), HelloDiscard::Malformed),
        (altered(0, 2), HelloDiscard::OtherRelation),
        (altered(11, 1), HelloDiscard::OtherRelation),
        (altered(ETHERNET + 1, 1), HelloDiscard::OtherRelation),
        (asks(Peer { frame_id: PLC.1, ..PEER }), HelloDiscard::OtherRelation),
        (
            {
                let mut own = own;
                own.handle_timeout(NOW);
                own.poll_transmit().expect("it asks").to_vec()
            },
            HelloDiscard::Reflected,
        ),
        (asks(Peer { master: [9; 32], ..PEER }), HelloDiscard::NotValid),
        (altered(ETHERNET + 2, 1), HelloDiscard::NotValid),
        (altered(ETHERNET + 7, 2), HelloDiscard::NotValid),
        (altered(HELLO_FRAME_OCTETS - 1, 0x80), HelloDiscard::NotValid),
        (asks(Peer { protection: authenticate, ..PEER }), HelloDiscard::OtherMode),
        (asks(Peer { protection: longer, ..PEER }), HelloDiscard::OtherMode),
    ];
    for (number, (frame, reason)) in rows.iter().enumerate() {
        let mut end = plc();
        let before = *end.handshake.counters();
        assert_eq!(end.handshake.handle_frame(NOW, frame), Err(*reason), "row {number}");
        assert_eq!(outcome(&mut end), (None, String::new()), "row {number}");
        assert_eq!(end.handshake.state(), HandshakeState::Asking);
        let (before, after) = (before.values(), end.handshake.counters().values());
        assert_eq!(after.iter().sum::<u64>(), before.iter().sum::<u64>() + 1, "row {number}: one counter");
    }
}

#[test]
fn tags_and_padding_make_no_difference() {
    let mut end = plc();
    let frame = PEER.says(B[0], None, HelloState::Request);
    let tagged = [&frame[..12], &[0x81, 0, 0xc0, 0], &frame[12..], &[0; 9]].concat();
    assert!(heard(&mut end, &tagged).0.is_some());
    let mut other = started(relation(0), &master(), ENCRYPT, EtherType(0x88b6), &[3; 32]);
    assert_eq!(other.handshake.handle_frame(NOW, &frame), Err(HelloDiscard::Malformed), "another EtherType");
}

#[test]
fn no_exchange_of_addresses_makes_an_own_hello_the_peers_even_if_both_send_one_frame_id() {
    let same = |local: MacAddr, remote: MacAddr| {
        Relation::new((local, FrameId(0x8001)), (remote, FrameId(0x8001)), Duration::from_millis(1))
            .expect("two stations")
    };
    let mut end = started(same(PLC.0, DEVICE.0), &master(), ENCRYPT, ETHERTYPE, &[5; 32]);
    end.handshake.handle_timeout(NOW);
    let mut frame = end.handshake.poll_transmit().expect("it asks");
    assert_eq!(end.handshake.handle_frame(NOW, &frame), Err(HelloDiscard::Reflected));
    frame[..12].rotate_left(6);
    assert_eq!(end.handshake.handle_frame(NOW, &frame), Err(HelloDiscard::NotValid));
}

#[test]
fn a_caller_that_takes_nothing_is_an_overrun() {
    let mut end = plc();
    let frame = PEER.says(B[0], None, HelloState::Request);
    for _ in 0..MAX_PENDING_HELLOS {
        assert_eq!(end.handshake.handle_frame(NOW, &frame), Ok(()));
    }
    for _ in 0..1000 {
        assert_eq!(end.handshake.handle_frame(NOW, &frame), Err(HelloDiscard::Overrun));
    }
    end.handshake.handle_timeout(NOW);
    let mut answers = 0;
    while end.handshake.poll_transmit().is_some() {
        answers += 1;
    }
    assert_eq!(answers, MAX_PENDING_HELLOS);
    assert_eq!(end.handshake.handle_frame(NOW, &frame), Ok(()));
}
