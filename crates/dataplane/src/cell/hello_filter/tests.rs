#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

use fieldbus::handshake::Handshake;
use fieldbus::relation::Relation;
use suite::fieldbus::MasterKey;
use wire::fieldbus::{CellSuite, ETHERTYPE, FrameId, Protect, Protection};
use wire::{Instant, MacAddr};

use super::super::mailbox::{ControlMailbox, pair};
use super::*;

const RELATIONS: usize = 8;

/// One end's filters, and the other end's handshakes.
struct Hall {
    filters: HelloFilters,
    own: Vec<Handshake>,
    peers: Vec<Handshake>,
    counters: CellCounters,
    mailbox: WorkerMailbox,
    control: ControlMailbox,
    now: Moment,
}

fn handshake(number: usize, side: usize) -> Handshake {
    let stations = [
        (MacAddr([2, 0, 0, 0, 0, 1]), FrameId(0x8000)),
        (MacAddr([2, 0, 0, 0, 1, number as u8]), FrameId(0x8001)),
    ];
    let relation =
        Relation::new(stations[side], stations[1 - side], std::time::Duration::from_millis(1)).unwrap();
    let protection = Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 };
    Handshake::new(&relation, &MasterKey::new(&[1; 32]).into(), protection, ETHERTYPE, &[1 + side as u8; 32])
}

impl Hall {
    fn new() -> Self {
        let [own, peers] = [0, 1].map(|side| (0..RELATIONS).map(|n| handshake(n, side)).collect::<Vec<_>>());
        let filters = own.iter().map(|of| HelloFilter::new(of.hello_codec(), of.expected_nonces())).collect();
        let (mailbox, control) = pair(RELATIONS);
        let now = Moment::after_start(Duration::from_secs(1));
        Self {
            filters: HelloFilters::new(filters),
            own,
            peers,
            counters: CellCounters::default(),
            mailbox,
            control,
            now,
        }
    }

    /// A HELLO in which the peer asks.
    fn ask(&mut self, relation: usize) -> Vec<u8> {
        self.peers[relation].handle_timeout(Instant::START);
        self.peers[relation].poll_transmit().unwrap().to_vec()
    }

    /// A HELLO in which the peer answers what this end asks.
    fn answer(&mut self, relation: usize) -> Vec<u8> {
        self.own[relation].handle_timeout(Instant::START);
        let ask = self.own[relation].poll_transmit().unwrap();
        self.peers[relation].handle_frame(Instant::START, &ask).unwrap();
        self.peers[relation].poll_transmit().unwrap().to_vec()
    }

    fn queue(&mut self, relation: usize, frame: &[u8]) {
        self.filters.queue(relation, frame, self.now, &mut self.counters, &self.mailbox);
    }

    fn check_macs(&mut self) {
        self.filters.check_macs(self.now, &mut self.counters, &mut self.mailbox);
    }

    fn check_all_macs(&mut self) {
        while self.filters.is_waiting() {
            self.check_macs();
        }
    }

    fn given(&mut self) -> usize {
        std::iter::from_fn(|| self.control.hellos.receive()).count()
    }
}

fn forged(true_one: &[u8]) -> Vec<u8> {
    let mut forged = true_one.to_vec();
    *forged.last_mut().unwrap() ^= 1;
    forged
}

#[test]
fn a_flood_of_one_relation_leaves_room_for_the_others() {
    let mut hall = Hall::new();
    let asks: Vec<_> = (0..RELATIONS).map(|relation| hall.ask(relation)).collect();
    for _ in 0..1000 {
        hall.queue(0, &forged(&asks[0]));
    }
    for (relation, ask) in asks.iter().enumerate() {
        hall.queue(relation, ask);
    }
    hall.check_macs();
    assert_eq!(hall.control.shared_counters.counters().in_hello_not_valid, MACS as u64, "in one turn");
    hall.check_all_macs();
    assert_eq!(hall.control.shared_counters.counters().in_hello_not_valid, u64::from(OF_ONE));
    assert_eq!(hall.counters.in_hello_flood, 1001 - u64::from(OF_ONE));
    assert_eq!(hall.counters.in_hello_answered, RELATIONS as u64 - 1);
    let mut answered = Vec::new();
    while let Some(answer) = hall.filters.next_answer(&hall.mailbox) {
        // It is what the handshake would have said: the peer enters.
        hall.peers[usize::from(answer.relation)].handle_frame(Instant::START, &answer.octets).unwrap();
        answered.push(usize::from(answer.relation));
    }
    assert_eq!(answered, (1..RELATIONS).collect::<Vec<_>>());
    assert!(!hall.filters.has_answer());
    assert_eq!(hall.given(), 0, "control need not hear of it");
}

#[test]
fn who_does_not_see_my_nonce_cannot_spend_the_share_of_those_who_name_it() {
    let mut hall = Hall::new();
    let (ask, answer) = (hall.ask(0), hall.answer(0));
    for _ in 0..1000 {
        hall.queue(0, &forged(&ask));
    }
    hall.queue(0, &answer);
    hall.check_macs();
    assert_eq!(hall.given(), 1);
}

#[test]
fn a_copy_of_what_control_has_got_costs_no_mac_and_is_given_again_after_a_while() {
    let mut hall = Hall::new();
    let answer = hall.answer(0);
    for (given, copies) in [(1, 49), (0, 50)] {
        let before = hall.counters.in_hello_repeated;
        (0..50).for_each(|_| hall.queue(0, &answer));
        hall.check_all_macs();
        assert_eq!((hall.given(), hall.counters.in_hello_repeated - before), (given, copies));
        hall.now = hall.now.later(Duration::from_millis(1));
    }
    hall.now = hall.now.later(AGAIN);
    hall.queue(0, &answer);
    hall.check_all_macs();
    assert_eq!(hall.given(), 1, "asked again");
    // Once this end has other nonces, the HELLO is late: few of them come to control.
    let others = hall.peers[0].expected_nonces();
    hall.filters.name(0, others);
    (0..50).for_each(|_| hall.queue(0, &answer));
    hall.check_all_macs();
    assert_eq!((hall.given(), hall.counters.in_hello_flood), (4, 46));
}

#[test]
fn a_flood_gets_what_it_would_get_anyway() {
    let at = |milliseconds| Instant::after_start(Duration::from_millis(milliseconds));
    let mut late = LATE;
    let mut allowed = |from: u64, to| -> usize {
        (from..to).map(|now| (0..100).filter(|_| late.take(at(now))).count()).sum()
    };
    let rows: [(u64, u64, usize); 5] =
        [(1000, 1001, 4), (1001, 1010, 0), (1010, 1011, 1), (1011, 2010, 99), (9000, 9001, 4)];
    for (from, to, expected) in rows {
        assert_eq!(allowed(from, to), expected, "{from} to {to}");
    }
    assert_eq!(allowed(5, 6), 0, "a clock that goes back earns nothing");
}
