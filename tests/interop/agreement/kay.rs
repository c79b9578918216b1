//! The KaY alone against wpa_supplicant, without a gateway and without root: a thread with a clock and the guest's wire.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mka::{Announced, CakEntry, Event, Kay, OnPeerLoss, Reason, Report, Settings, Status, SuiteRule};
use suite::mka::Cak;
use wire::mkpdu::{Capability, Confidentiality};
use wire::{Ckn, MacAddr, Sci};

use super::GUEST_MAC;
use crate::DEADLINE;
use crate::guest::{Guest, Wire};
use crate::kernel::OUR_MAC;
use crate::supplicant::{self, Agreement, CAK_128, CKN, Key};

/// What the thread is asked for.
enum Order {
    Rekey,
    Tell(Sender<Status>),
}

/// A KaY that runs, with a SecY that does at once what it is told.
struct Running {
    orders: Sender<Order>,
    /// What people were told, with the seconds since the start.
    told: Arc<Mutex<Vec<(f64, Reason)>>>,
    thread: Option<JoinHandle<()>>,
}

fn settings(priority: u8) -> Settings {
    Settings {
        sci: Sci::new(OUR_MAC, 1),
        source: OUR_MAC,
        destination: MacAddr([0x01, 0x80, 0xc2, 0, 0, 3]),
        priority,
        capability: Capability::Offsets,
        confidentiality: Confidentiality::Zero,
        suite: SuiteRule::Auto,
        announced: Announced { reassembles: true, splits: true, largest_sdu: 1500, suites: Vec::new() },
        fragment: true,
        concatenate: true,
        delay_protect: false,
        sak_lifetime: None,
        on_peer_loss: OnPeerLoss::Block,
    }
}

impl Running {
    fn start(wire: Wire, priority: u8) -> Running {
        let (orders, received) = channel();
        let told = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&told);
        let thread = std::thread::spawn(move || run(&wire, priority, &received, &own));
        Running { orders, told, thread: Some(thread) }
    }

    fn rekey(&self) {
        self.orders.send(Order::Rekey).unwrap();
    }

    fn status(&self) -> Status {
        let (answer, status) = channel();
        self.orders.send(Order::Tell(answer)).unwrap();
        status.recv_timeout(DEADLINE).unwrap()
    }

    /// Waits until it protects with this key.
    fn wait_for_key(&self, key: &Key) {
        let end = Instant::now() + DEADLINE;
        let ki = key.ki();
        while !self.status().saks.iter().any(|sak| sak.transmits && sak.ki.to_string() == ki) {
            assert!(Instant::now() < end, "{ki}, but not within {DEADLINE:?}: {:#?}", self.status());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it has told, one a line.
    fn story(&self) -> String {
        let told = self.told.lock().unwrap();
        told.iter().map(|(at, reason)| format!("{at:8.3} {reason}\n")).collect()
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
fn run(wire: &Wire, priority: u8, orders: &Receiver<Order>, told: &Mutex<Vec<(f64, Reason)>>) {
    let start = Instant::now();
    let now = || wire::Instant::after_start(start.elapsed());
    let (cak, ckn) = (hex::decode(CAK_128).unwrap(), hex::decode(CKN).unwrap());
    let entry = CakEntry { ckn: Ckn::new(&ckn).unwrap(), cak: Cak::new(&cak).unwrap() };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).unwrap();
    let mut kay = Kay::new(now(), settings(priority), vec![entry], &seed);
    loop {
        match orders.recv_timeout(Duration::from_millis(1)) {
            Ok(Order::Rekey) => kay.rekey(now()),
            Ok(Order::Tell(answer)) => drop(answer.send(kay.status(now()))),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
        }
        while let Some(frame) = wire.waiting() {
            kay.handle_frame(now(), &frame);
        }
        if kay.poll_timeout().is_some_and(|due| due <= now()) {
            kay.handle_timeout(now());
        }
        while let Some(event) = kay.poll_event() {
            match event {
                Event::Install(association) => kay.handle_report(now(), Report::Installed(association.ki)),
                Event::EnableTransmit(ki) => kay.handle_report(now(), Report::Transmitting(ki)),
                Event::Told(reason) => told.lock().unwrap().push((start.elapsed().as_secs_f64(), reason)),
                Event::Admit { .. } | Event::Retire(_) | Event::Expel(_) | Event::RaiseLowest { .. } => {}
            }
        }
        while let Some(frame) = kay.poll_transmit(now()) {
            wire.send(&frame);
        }
    }
}

/// Both ends use the same key, another than `before`.
fn same_key(guest: &mut Guest, kay: &Running, before: Option<&Key>) -> Key {
    let key = supplicant::wait_for_key(guest, before);
    kay.wait_for_key(&key);
    key
}

/// Neither end ever took the other for one that had begun anew, and there is nothing to complain of.
fn is_content(kay: &Running) {
    let status = kay.status();
    assert_eq!(status.trouble, None, "{status:#?}");
    assert_eq!(status.members.iter().filter(|member| member.live).count(), 1, "{status:#?}");
    let told = kay.told.lock().unwrap();
    let restarts = told.iter().filter(|(_, reason)| matches!(reason, Reason::PeerRestarted { .. })).count();
    drop(told);
    assert_eq!(restarts, 0, "{}", kay.story());
}

fn rekeys(priority: u8, times: usize) {
    let (mut guest, wire, _) = Guest::between();
    guest.run(&format!("ip link set vec0 address {GUEST_MAC} up"));
    let kay = Running::start(wire, priority);
    Agreement::of_priority(16).start(&mut guest);
    let mut before = same_key(&mut guest, &kay, None);
    for turn in 0..times {
        // In the middle of the old key's three seconds, at its end, and long after it.
        std::thread::sleep(Duration::from_millis([1000, 3300, 4500][turn % 3]));
        match priority < 16 || turn % 2 == 0 {
            true => kay.rekey(),
            false => supplicant::exhaust(&mut guest),
        }
        before = same_key(&mut guest, &kay, Some(&before));
    }
    std::thread::sleep(Duration::from_secs(7));
    is_content(&kay);
    println!("{}", kay.story());
    supplicant::stop(&mut guest);
}

#[test]
fn the_kay_alone_rolls_keys_as_key_server() {
    rekeys(8, 5);
}

#[test]
fn the_kay_alone_follows_a_key_server() {
    rekeys(32, 3);
}
