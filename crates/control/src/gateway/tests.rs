//! A worker that does not answer: what control does without it, and what it finds when the worker is back. In memory; one test has
//! programs, and wants root.
#![allow(clippy::unwrap_used)]

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use dataplane::job::{Datapaths, Job};
use dataplane::pipeline::Pipeline;
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use pnstore::{LeaseName, PnBlock, Reservation, UnusedPns};
use secy::{
    CarryOver, ClearVlan, ConfidentialityOffset, Frame, Outgoing, Protection, ReceiveSa, SciInclusion, SecY,
    Settings, TransmitSa, ValidateFrames,
};
use suite::{CipherSuite, Key, Sak};
use wire::{An, MacAddr, Pn, Sci};

use super::*;
use crate::floors::{PERIOD, ReceiveFloor};
use crate::kernel_link::{LinkPlace, LinkPlaceSettings};
use crate::kernel_ports::PlaceWanted;
use crate::static_keys::{ExpressChange, StaticKeys, StaticSak, StaticSaks, TransmitLease};

const SUITE: CipherSuite = CipherSuite::ChaCha20Poly1305;
const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
const DEADLINE: Duration = Duration::from_secs(60);
/// Number of the SCI, and of the key, of the peer.
const PEER: u8 = 9;

/// Holds a worker up until the sender goes.
pub(super) struct Held(pub(super) Receiver<()>);

impl Job for Held {
    fn run(&mut self, _: &mut Datapaths) -> Progress {
        let _ = self.0.recv();
        Progress::Done
    }
}

fn hold(gateway: &mut Gateway) -> Sender<()> {
    let (go, held) = channel();
    assert!(gateway.workers.submit(0, Box::new(Held(held))).is_ok());
    go
}

const fn sci(number: u8) -> Sci {
    Sci::new(MacAddr([2, 0, 0, 0, 0, number]), 1)
}

fn sak(number: u8) -> Sak {
    Sak::new(SUITE, &[number; 32]).unwrap()
}

fn key(number: u8) -> Key {
    Key::prepare(SUITE, &sak(number)).unwrap()
}

/// Name of frames under a key.
fn name(number: u8, sci: Sci) -> LeaseName {
    LeaseName::new(sak(number).octets(), sci)
}

const fn settings() -> Settings {
    Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        reassemble: false,
        mtu: 1500,
    }
}

/// A SecY that transmits under this AN, and the key of this number.
fn transmitter(own: Sci, an: An, number: u8, block: PnBlock) -> SecY {
    let mut secy = SecY::new(own, settings());
    let sa = TransmitSa::new(an, key(number), None, PROTECTION, block.first, block.last).unwrap();
    secy.install_transmit(Box::new(sa)).unwrap();
    secy.enable_transmit(an).unwrap();
    secy
}

/// The same, which receives from the peer from the first PN on.
fn pipeline(own: Sci, an: An, number: u8, block: PnBlock) -> Pipeline {
    let mut secy = transmitter(own, an, number, block);
    let sa = ReceiveSa::new(An::ALL[0], key(PEER), None, PROTECTION, Pn::FIRST, 64).unwrap();
    secy.install_receive_sc(sci(PEER)).unwrap();
    secy.install_receive(sci(PEER), Box::new(sa)).unwrap();
    secy.enable_receive(sci(PEER), An::ALL[0]).unwrap();
    Pipeline::new(secy, &[], None)
}

fn floors() -> Vec<ReceiveFloor> {
    vec![ReceiveFloor { name: name(PEER, sci(PEER)), sci: sci(PEER), an: An::ALL[0] }]
}

/// A block of 100 PNs for a transmit SA.
fn begin(gateway: &mut Gateway, an: An, name: LeaseName) -> (TransmitLease, PnBlock) {
    let pns = NonZeroU64::new(100).unwrap();
    let reserved = gateway.on_disk_at_start(move |leases| leases.reserve(name, Pn::LAST_32, pns)).unwrap();
    let Ok(Reservation::Block(block)) = reserved else { panic!("{reserved:?}") };
    (TransmitLease { name, an, last: Pn::LAST_32, through: block.last }, block)
}

/// A gateway and its state, which goes with it.
struct Scratch {
    gateway: Gateway,
    state: PathBuf,
}

impl Scratch {
    fn new(test: &str) -> Self {
        let state = std::env::temp_dir().join(format!("frameward-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&state);
        let leases = LeaseStore::open(&state, None).unwrap();
        Self { gateway: Gateway::new(leases, Polling::Busy, Scheduling::Ordinary).unwrap(), state }
    }

    fn end(self) {
        self.gateway.stop().unwrap();
        std::fs::remove_dir_all(&self.state).unwrap();
    }

    /// Adds a link whose transmit SA has AN 0 and the key of this number. Its ports are those, if there are some.
    fn add(&mut self, number: u8, ports: Option<[MemoryPort; 2]>) {
        let an = An::ALL[0];
        let (transmit, block) = begin(&mut self.gateway, an, name(number, sci(number)));
        let pipeline = pipeline(sci(number), an, number, block);
        let link = match ports {
            None => Link::closed(pipeline),
            Some([plain, protected]) => {
                let pool = Pool::new(ChunkOctets::Octets2048, 256).unwrap();
                Link::new(pool, Box::new(plain), Box::new(protected), pipeline)
            }
        };
        let keys = StaticKeys { transmit, express: None, receive: floors() };
        self.gateway.add(number.to_string(), link, keys).unwrap();
    }

    /// Gives link 1 the key of number 3 under AN 1; what it receives goes on.
    fn change(&mut self) -> Result<(), NotChanged> {
        self.change_to(3).1
    }

    /// Gives link 1 the key of this number under AN 1, with the PNs of this block.
    fn change_to(&mut self, number: u8) -> (PnBlock, Result<(), NotChanged>) {
        let an = An::ALL[1];
        let (transmit, block) = begin(&mut self.gateway, an, name(number, sci(1)));
        let carry_over = CarryOver { receive: vec![(sci(PEER), An::ALL[0])], ..CarryOver::default() };
        let pipeline = Box::new(pipeline(sci(1), an, number, block));
        let keys = (Some(transmit), ExpressChange::None);
        (block, self.gateway.change("1", pipeline, carry_over, keys, floors()))
    }

    /// Waits until the worker answers.
    fn until_answered(&mut self) {
        let end = Instant::now() + DEADLINE;
        while self.gateway.run_on_link(0, (), |_, ()| Progress::Done).is_err() {
            assert!(Instant::now() < end);
        }
    }

    fn is_in_kernel(&mut self) -> bool {
        self.gateway.links[0].static_keys_mut().unwrap().is_in_kernel()
    }
}

/// The peer of link 1, and the machine behind that link.
struct Around {
    machine: MemoryPort,
    wire: MemoryPort,
    peer: SecY,
    sent: u8,
}

impl Around {
    /// The peer's next frame; its payload is its number.
    fn peer_frame(&mut self) -> Vec<u8> {
        self.sent += 1;
        let sdu = [&[2; 12][..], &[0x88, 0x92], &[self.sent; 46]].concat();
        let mut chunk = vec![0; 256];
        chunk[32..32 + sdu.len()].copy_from_slice(&sdu);
        let mut outgoing = [Outgoing::new(Frame::new(&mut chunk, 32, sdu.len()).unwrap())];
        self.peer.protect(&mut outgoing);
        outgoing[0].frame().octets().to_vec()
    }

    /// Number of these frames that the machine gets.
    fn delivered(&mut self, frames: &[&Vec<u8>]) -> usize {
        let last = self.peer_frame();
        frames.iter().copied().chain([&last]).for_each(|frame| assert!(self.wire.inject(frame)));
        let (end, mut delivered) = (Instant::now() + DEADLINE, 0);
        loop {
            match self.machine.collect() {
                Some(frame) if frame[14] == self.sent => return delivered,
                Some(_) => delivered += 1,
                None => assert!(Instant::now() < end, "a new frame is not delivered"),
            }
        }
    }

    /// The AN under which each of so many frames of the machine leaves, and its PN.
    fn sent(&mut self, frames: usize) -> Vec<(u8, u32)> {
        let frame = [&[2; 12][..], &[0x88, 0x92], &[7; 46]].concat();
        (0..frames).for_each(|_| assert!(self.machine.inject(&frame)));
        let (end, mut sent) = (Instant::now() + DEADLINE, Vec::new());
        while sent.len() < frames {
            match self.wire.collect() {
                Some(frame) => {
                    sent.push((frame[14] & 3, u32::from_be_bytes(frame[16..20].try_into().unwrap())));
                }
                None => assert!(Instant::now() < end, "{sent:?}"),
            }
        }
        sent
    }
}

fn with_ports(test: &str) -> (Scratch, Around) {
    let mut scratch = Scratch::new(test);
    let ((machine, plain), (wire, protected)) = (MemoryPort::pair(256), MemoryPort::pair(256));
    scratch.add(1, Some([plain, protected]));
    let all = PnBlock { first: Pn::FIRST, last: Pn::LAST_32 };
    let peer = transmitter(sci(PEER), An::ALL[0], PEER, all);
    (scratch, Around { machine, wire, peer, sent: 0 })
}

/// A change that failed is none later, either: keys, PNs and windows are those of before, and it can be repeated.
#[test]
fn a_change_that_a_worker_does_not_answer_changes_nothing() {
    let (mut scratch, mut around) = with_ports("change-held");
    let go = hold(&mut scratch.gateway);
    assert!(matches!(scratch.change(), Err(NotChanged::Worker(_))));
    drop(go);
    scratch.until_answered();
    assert_eq!(around.sent(60).last(), Some(&(0, 60)));
    // More than half of its block is used.
    let end = Instant::now() + DEADLINE;
    let through = |scratch: &mut Scratch| {
        scratch.gateway.links[0].static_keys_mut().unwrap().transmit_lease().through.number()
    };
    while through(&mut scratch) == 100 {
        assert!(Instant::now() < end, "no block is reserved");
        scratch.gateway.turn(Instant::now());
        thread::sleep(Duration::from_millis(1));
    }
    scratch.until_answered();
    assert_eq!(around.sent(60).last(), Some(&(0, 120)));
    let received = around.peer_frame();
    assert_eq!(around.delivered(&[&received]), 1);
    scratch.change().unwrap();
    assert_eq!(around.delivered(&[&received]), 0, "a frame came twice");
    // The block of the change that failed was never used.
    assert_eq!(around.sent(1), [(1, 101)]);
    scratch.end();
}

/// A need that was told before a change that fails is met.
#[test]
fn a_need_that_waits_while_a_change_fails_is_met() {
    let (mut scratch, mut around) = with_ports("change-need");
    assert_eq!(around.sent(60).last(), Some(&(0, 60)));
    // The worker has told it before it runs a job.
    let go = hold(&mut scratch.gateway);
    assert!(matches!(scratch.change(), Err(NotChanged::Worker(_))));
    scratch.gateway.turn(Instant::now());
    assert!(scratch.gateway.links[0].static_keys_mut().unwrap().is_reserving());
    drop(go);
    scratch.until_answered();
    scratch.end();
}

/// A change to the same key under another AN fails, and gives its PNs back. The next ones of the SA of before are these, and not those
/// behind them.
#[test]
fn a_change_that_fails_leaves_no_gap_in_the_pns_of_its_key() {
    let (mut scratch, mut around) = with_ports("change-gap");
    assert_eq!(around.sent(60).last(), Some(&(0, 60)));
    let go = hold(&mut scratch.gateway);
    let (block, changed) = scratch.change_to(1);
    assert!(matches!(changed, Err(NotChanged::Worker(_))));
    let unused = UnusedPns { name: name(1, sci(1)), next: block.first, through: block.last };
    drop(scratch.gateway.begin_on_disk(move |leases| leases.give_back(&[unused])));
    drop(go);
    let (end, mut notices) = (Instant::now() + DEADLINE, Vec::new());
    let through = |scratch: &mut Scratch| {
        scratch.gateway.links[0].static_keys_mut().unwrap().transmit_lease().through.number()
    };
    while through(&mut scratch) == 100 {
        assert!(Instant::now() < end, "no block is reserved: {notices:?}");
        notices.extend(scratch.gateway.turn(Instant::now()));
        thread::sleep(Duration::from_millis(1));
    }
    // The worker was held for longer than floors may stay.
    assert!(notices.iter().all(|notice| matches!(notice, Notice::FloorsLate { .. })), "{notices:?}");
    scratch.until_answered();
    assert_eq!(around.sent(60).last(), Some(&(0, 120)));
    scratch.end();
}

/// A job that has begun when its time is over is waited for.
#[test]
fn a_job_that_has_begun_is_no_more_given_up() {
    let mut scratch = Scratch::new("job-begun");
    scratch.add(1, None);
    let at = scratch.gateway.links[0].at();
    let slow = |_: &mut Link, data: &mut u8| {
        thread::sleep(Duration::from_millis(1300));
        *data += 1;
        Progress::Done
    };
    assert_eq!(scratch.gateway.workers.run_on_link_in_time(at, 1, slow), Ok(Some(2)));
    let go = hold(&mut scratch.gateway);
    let late = |_: &mut Link, go: &mut Sender<()>| {
        let _ = go.send(());
        Progress::Done
    };
    let (ran, has_run) = channel();
    assert!(scratch.gateway.workers.run_on_link_in_time(at, ran, late).is_err());
    drop(go);
    scratch.until_answered();
    assert!(has_run.try_recv().is_err(), "it has begun after it was given up");
    scratch.end();
}

/// KaYs of other workers' links have a life time of six seconds.
#[test]
fn a_turn_waits_for_a_worker_once_however_many_links_it_has() {
    let mut scratch = Scratch::new("floors-held");
    scratch.gateway = scratch.gateway.on_cpus(vec![0]);
    (1..=8).for_each(|number| scratch.add(number, None));
    assert_eq!(scratch.gateway.workers.count(), 1);
    let go = hold(&mut scratch.gateway);
    let began = Instant::now();
    scratch.gateway.turn(began + PERIOD);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    drop(go);
    scratch.until_answered();
    assert!(scratch.gateway.ask_floors() == (vec![(floors()[0].name, Pn::FIRST); 8], true));
    scratch.end();
}

fn in_kernel(test: &str) -> Scratch {
    let mut scratch = Scratch::new(test);
    let programs = KernelPrograms::default().with_links([64]);
    scratch.gateway = scratch.gateway.with_kernel_programs(programs);
    scratch.add(1, None);
    let of = |number| StaticSak { sci: sci(number), an: An::ALL[0], sak: sak(number), xpn: None };
    let saks = StaticSaks {
        name: name(1, sci(1)),
        suite: SUITE,
        protection: PROTECTION,
        transmit: of(1),
        receive: vec![of(PEER)],
    };
    let settings = LinkPlaceSettings {
        wanted: PlaceWanted::Auto,
        suite: SUITE,
        sci: sci(1),
        refused: None,
        secy: settings(),
        express: None,
        bypass: vec![],
        replay_window: 64,
        saks: Some(saks),
    };
    scratch.gateway.set_link_place("1", &settings).unwrap();
    assert!(scratch.is_in_kernel());
    scratch
}

/// SAs that a worker could not take would be lost: they stay in the kernel, and the change comes later.
#[test]
fn sas_stay_in_the_kernel_while_a_worker_does_not_answer() {
    let mut scratch = in_kernel("change-kernel");
    let go = hold(&mut scratch.gateway);
    assert!(matches!(scratch.change(), Err(NotChanged::Worker(_))));
    assert!(scratch.is_in_kernel());
    drop(go);
    scratch.until_answered();
    scratch.change().unwrap();
    assert!(!scratch.is_in_kernel());
    scratch.end();
}

/// Frames pass in the kernel whatever the worker does, and go on to do so: its SAs come when it answers.
#[test]
fn sas_leave_the_kernel_as_soon_as_their_worker_answers() {
    let mut scratch = in_kernel("leave-kernel");
    let go = hold(&mut scratch.gateway);
    assert!(scratch.gateway.leave_kernel_for_next_program().is_err());
    scratch.gateway.leave_kernel(0, "for a test".into());
    let take_redirected = |_| Some(true);
    scratch.gateway.check_kernel_ports("1", take_redirected);
    assert!(scratch.gateway.links[0].static_keys_mut().unwrap().is_in_kernel());
    drop(go);
    scratch.until_answered();
    scratch.gateway.check_kernel_ports("1", take_redirected);
    assert!(!scratch.gateway.links[0].static_keys_mut().unwrap().is_in_kernel());
    assert_eq!(scratch.gateway.link_place("1"), Some(LinkPlace::UserSpace("for a test".into())));
    let transmits = scratch.gateway.run_on_link(0, false, |link, transmits| {
        *transmits = link.pipeline().secy.encoding_sa().is_some();
        Progress::Done
    });
    assert_eq!(transmits, Ok(true));
    scratch.end();
}

/// PNs that the programs have used are nobody's to give back, whatever the worker's SA has left.
#[test]
fn a_link_whose_sas_are_nowhere_gives_no_pns_back() {
    let mut scratch = in_kernel("nowhere-unused");
    scratch.gateway.lose_static(0, "for a test");
    let keys = scratch.gateway.links[0].static_keys_mut().unwrap();
    let secy = transmitter(
        sci(1),
        An::ALL[0],
        1,
        PnBlock { first: Pn::new(60).unwrap(), last: Pn::new(70).unwrap() },
    );
    assert_eq!(keys.unused(&secy), None);
    scratch.end();
}

/// A pipeline that goes on without the SAs would begin at floors from disk: frames of the last second could come again.
#[test]
fn a_link_whose_sas_are_nowhere_is_not_changed() {
    let mut scratch = in_kernel("change-nowhere");
    let go = hold(&mut scratch.gateway);
    scratch.gateway.lose_static(0, "for a test");
    drop(go);
    scratch.until_answered();
    let nowhere = scratch.gateway.link_place("1").unwrap();
    let LinkPlace::Nowhere(why) = &nowhere else { panic!("{nowhere:?}") };
    assert!(why.contains("could not be moved"), "{why}");
    for _ in 0..2 {
        assert!(matches!(scratch.change(), Err(NotChanged::Nowhere(told)) if told == *why));
        assert_eq!(scratch.gateway.link_place("1").as_ref(), Some(&nowhere));
    }
    let sas = scratch.gateway.run_on_link(0, (0, 0), |link, (transmit, receive)| {
        let secy = &link.pipeline().secy;
        *transmit = secy.transmit_sas().count();
        *receive = secy.receive_scs().flat_map(|sc| sc.sas()).count();
        Progress::Done
    });
    assert_eq!(sas, Ok((0, 0)), "the worker has taken SAs late");
    scratch.end();
}
