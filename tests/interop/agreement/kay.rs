//! The KaY alone against wpa_supplicant, without a gateway and without root: a thread with a clock and the guest's wire,
//! to which one KaY is connected, or two.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mka::{Announced, CakEntry, Event, Kay, OnPeerLoss, Reason, Report, Settings, Status, SuiteRule};
use suite::mka::Cak;
use wire::mkpdu::{Capability, Confidentiality, SystemName};
use wire::{Ckn, MacAddr, Sci};

use super::GUEST_MAC;
use crate::DEADLINE;
use crate::guest::{Guest, Wire};
use crate::kernel::OUR_MAC;
use crate::supplicant::{self, Agreement, CAK_128, CKN, Key, Version};

/// Request to the thread.
enum Order {
    Rekey,
    /// The first KaY loses all it knows.
    Restart,
    /// The state of this KaY.
    Tell(usize, Sender<Status>),
}

/// Notices for people: seconds since the start, the KaY's number, the reason.
type Input = Mutex<Vec<(f64, usize, Reason)>>;

/// KaYs that run, each with a SecY that does at once what it is told.
struct Running {
    orders: Sender<Order>,
    notices: Arc<Input>,
    thread: Option<JoinHandle<()>>,
}

/// `number`: tells it from others.
fn settings(number: usize, priority: u8) -> Settings {
    let MacAddr([a, b, c, d, e, _]) = OUR_MAC;
    let address = MacAddr([a, b, c, d, e, 0xa1 + number as u8]);
    Settings {
        sci: Sci::new(address, 1),
        source: address,
        destination: MacAddr([0x01, 0x80, 0xc2, 0, 0, 3]),
        priority,
        capability: Capability::Offsets,
        confidentiality: Confidentiality::Zero,
        suite: SuiteRule::Any,
        announced: Announced {
            reassembles: true,
            splits: true,
            carries_whole: false,
            in_kernel: false,
            express: false,
            takes_padded: true,
            largest_sdu: 1500,
            name: SystemName::new(b"press-a").ok(),
            suites: Vec::new(),
        },
        fragment: true,
        concatenate: true,
        pad: false,
        delay_protect: false,
        sak_lifetime: None,
        on_peer_loss: OnPeerLoss::Block,
        peers: Vec::new(),
        accept_integrity: false,
    }
}

impl Running {
    /// KaYs of these priorities.
    fn start(wire: Wire, priorities: &'static [u8]) -> Running {
        let (orders, received) = channel();
        let notices = Arc::new(Input::default());
        let own = Arc::clone(&notices);
        let thread = std::thread::spawn(move || run(&wire, priorities, &received, &own));
        Running { orders, notices, thread: Some(thread) }
    }

    fn give(&self, order: Order) {
        self.orders.send(order).unwrap();
    }

    fn status(&self, of: usize) -> Status {
        let (answer, status) = channel();
        self.give(Order::Tell(of, answer));
        status.recv_timeout(DEADLINE).unwrap()
    }

    /// Waits until a KaY is as it should be.
    fn wait(&self, of: usize, what: &str, is: impl Fn(&Status) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !is(&self.status(of)) {
            assert!(
                Instant::now() < end,
                "{of}: {what}, but not within {DEADLINE:?}: {:#?}",
                self.status(of)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a KaY protects with this key.
    fn wait_for_key(&self, of: usize, key: &Key) {
        let ki = key.ki();
        self.wait(of, &ki, |status| status.saks.iter().any(|sak| sak.transmits && sak.ki.to_string() == ki));
    }

    /// Waits until a KaY protects with a key whose frames may be fragmented or may not, among so many others.
    fn wait_for_fragmentation(&self, of: usize, fragments: bool, live: usize) {
        self.wait(of, "fragmentation", |status| {
            let protects = status.saks.iter().find(|sak| sak.transmits);
            protects.is_some_and(|sak| {
                sak.fragmentation.fragment == fragments && sak.fragmentation.concatenate == fragments
            }) && status.members.iter().filter(|member| member.live).count() == live
        });
    }

    /// Notices of all KaYs, one a line.
    fn story(&self) -> String {
        let notices = self.notices.lock().unwrap();
        notices.iter().map(|(at, by, reason)| format!("{at:8.3} {by} {reason}\n")).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        (self.orders, _) = channel();
        let ended = self.thread.take().map(JoinHandle::join);
        if std::thread::panicking() || matches!(ended, Some(Err(_))) {
            eprintln!("what the KaY told:\n{}", self.story());
        }
    }
}

/// Runs until nobody is left who could give an order.
fn run(wire: &Wire, priorities: &[u8], orders: &Receiver<Order>, notices: &Input) {
    let start = Instant::now();
    let now = || wire::Instant::after_start(start.elapsed());
    let (cak, ckn) = (hex::decode(CAK_128).unwrap(), hex::decode(CKN).unwrap());
    let kay = |(number, priority): (usize, &u8)| {
        let entry = CakEntry { ckn: Ckn::new(&ckn).unwrap(), cak: Cak::new(&cak).unwrap() };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).unwrap();
        Kay::new(now(), settings(number, *priority), vec![entry], &seed)
    };
    let mut kays: Vec<Kay> = priorities.iter().enumerate().map(kay).collect();
    loop {
        match orders.recv_timeout(Duration::from_millis(1)) {
            Ok(Order::Rekey) => kays[0].rekey(now()),
            Ok(Order::Restart) => kays[0] = kay((0, &priorities[0])),
            Ok(Order::Tell(of, answer)) => drop(answer.send(kays[of].status(now()))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Some(frame) = wire.waiting() {
            kays.iter_mut().for_each(|kay| kay.handle_frame(now(), &frame));
        }
        for i in 0..kays.len() {
            if kays[i].poll_timeout().is_some_and(|due| due <= now()) {
                kays[i].handle_timeout(now());
            }
            while let Some(event) = kays[i].poll_event() {
                let report = match event {
                    Event::Install(association) => Report::Installed(association.ki),
                    Event::EnableTransmit(ki) => Report::Transmitting(ki),
                    Event::Notice(reason) => {
                        notices.lock().unwrap().push((start.elapsed().as_secs_f64(), i, reason));
                        continue;
                    }
                    _ => continue,
                };
                kays[i].handle_report(now(), report);
            }
            while let Some(frame) = kays[i].poll_transmit(now()) {
                wire.send(&frame);
                let others = kays.iter_mut().enumerate().filter(|(other, _)| *other != i);
                others.for_each(|(_, kay)| kay.handle_frame(now(), &frame));
            }
        }
    }
}

/// Both ends use the same key, another than `before`.
fn same_key(guest: &mut Guest, kay: &Running, before: Option<&Key>) -> Key {
    let key = supplicant::wait_for_key(guest, before);
    kay.wait_for_key(0, &key);
    key
}

/// Neither end ever took the other for one that had begun anew, and there is nothing to complain of.
fn is_content(kay: &Running) {
    let status = kay.status(0);
    assert_eq!(status.fault, None, "{status:#?}");
    assert_eq!(status.members.iter().filter(|member| member.live).count(), 1, "{status:#?}");
    let notices = kay.notices.lock().unwrap();
    let restarts =
        notices.iter().filter(|(.., reason)| matches!(reason, Reason::PeerRestarted { .. })).count();
    drop(notices);
    assert_eq!(restarts, 0, "{}", kay.story());
}

/// No KaY ever gave up the SAK that it protected with before it had another one.
fn never_silent(kays: &Running) {
    let mut protects = [None; 2];
    for (at, by, reason) in kays.notices.lock().unwrap().iter() {
        match reason {
            Reason::Transmitting { ki } => protects[*by] = Some(*ki),
            Reason::Retired { ki } => assert_ne!(protects[*by], Some(*ki), "{by} at {at}"),
            _ => {}
        }
    }
}

/// A guest, and KaYs of these priorities at its wire.
fn together(priorities: &'static [u8]) -> (Guest, Running) {
    let (mut guest, wire, _) = Guest::between();
    guest.run(&format!("ip link set vec0 address {GUEST_MAC} up"));
    (guest, Running::start(wire, priorities))
}

fn rekeys(priorities: &'static [u8], times: usize) {
    let (mut guest, kay) = together(priorities);
    Agreement::of_priority(Version::V2_10, 16).start(&mut guest);
    let mut before = same_key(&mut guest, &kay, None);
    for turn in 0..times {
        // In the middle of the old key's three seconds, at its end, and long after it.
        std::thread::sleep(Duration::from_millis([1000, 3300, 4500][turn % 3]));
        match priorities[0] < 16 || turn % 2 == 0 {
            true => kay.give(Order::Rekey),
            false => supplicant::exhaust(&mut guest),
        }
        before = same_key(&mut guest, &kay, Some(&before));
    }
    std::thread::sleep(Duration::from_secs(7));
    is_content(&kay);
    never_silent(&kay);
    supplicant::stop(&mut guest);
}

#[test]
fn the_kay_alone_rolls_keys_as_key_server() {
    rekeys(&[8], 5);
}

#[test]
fn the_kay_alone_follows_a_key_server() {
    rekeys(&[32], 3);
}

/// Either end loses all it knows, and comes back at once under the same SCI: the other one has not missed it yet.
#[test]
fn the_kay_alone_gets_over_restarts() {
    for priorities in [&[8], &[32]] {
        let (mut guest, kay) = together(priorities);
        Agreement::of_priority(Version::V2_10, 16).start(&mut guest);
        let mut before = same_key(&mut guest, &kay, None);
        for turn in 0..2 {
            // Soon after the SAK, and when it is the only one.
            std::thread::sleep(Duration::from_millis([200, 4000][turn]));
            if turn == 0 {
                supplicant::crash(&mut guest);
                Agreement::of_priority(Version::V2_10, 16).start(&mut guest);
            } else {
                kay.give(Order::Restart);
            }
            before = same_key(&mut guest, &kay, Some(&before));
        }
        assert_eq!(kay.status(0).fault, None);
    }
}

/// Two KaYs fragment SDUs among themselves; with wpa_supplicant among them they do not, whoever is key server.
#[test]
fn extensions_are_used_while_all_have_announced_them() {
    for priorities in [&[8, 32], &[32, 48]] {
        let (mut guest, kays) = together(priorities);
        for _ in 0..2 {
            (0..2).for_each(|of| kays.wait_for_fragmentation(of, true, 1));
            Agreement::of_priority(Version::V2_10, 16).start(&mut guest);
            supplicant::wait_for_key(&mut guest, None);
            for of in [0, 1] {
                kays.wait_for_fragmentation(of, false, 2);
                assert_eq!(kays.status(of).fault, None);
            }
            supplicant::stop(&mut guest);
        }
        (0..2).for_each(|of| kays.wait_for_fragmentation(of, true, 1));
        never_silent(&kays);
    }
}
