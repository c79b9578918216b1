//! Somebody on the line who lets the management channel through and has the data packets: it keeps or loses as many as it
//! likes, and lets one of those that it kept go when it likes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab::plants::PROBE;
use lab::topology::{LEFT, RIGHT, WIRE};
use lab::{Direction, PacketSocket};
use perf::demo::pair::Station;
use perf::demo::sites::site_name;

use super::super::program;
use super::super::sites::all_up;
use super::{DEADLINE, PROTECTED, Wan};

/// Packets that are kept back: more than the 2,048 PNs that a receiver once looked back from the first that came.
const KEPT: usize = 2500;
/// Frames behind the one that was let go: more than any window.
const BEHIND: usize = 2200;
/// Frames that go without a pause: no queue on the way runs over on a busy machine.
const AT_ONCE: usize = 16;

/// Orders to [`Hostile`]; both its threads obey the same ones.
#[derive(Default)]
struct Orders {
    stop: AtomicBool,
    /// Data packets to the second site do not pass ...
    withholds: AtomicBool,
    /// ... and are put here, unless they are lost.
    keeps: AtomicBool,
    kept: Mutex<Vec<Vec<u8>>>,
}

/// Stands in the second site's line, in place of its bridge.
struct Hostile {
    orders: Arc<Orders>,
    ways: Vec<JoinHandle<()>>,
    to_site: PacketSocket,
}

impl Hostile {
    fn start(wan: &Wan) -> Self {
        wan.plants.fill_checksums(wan.plant(1)).unwrap();
        let line = wan.line(1);
        // Down first: what both the bridge and the relay forward would arrive twice.
        line.ip(&["link", "set", WIRE, "down"]).unwrap();
        let orders = Arc::<Orders>::default();
        let open = |ifname| PacketSocket::open(line, ifname).unwrap();
        let mut hostile = Self { orders: Arc::clone(&orders), ways: Vec::new(), to_site: open(LEFT) };
        let port = wan.port;
        for (mut from, to, is_inward) in [(open(RIGHT), open(LEFT), true), (open(LEFT), open(RIGHT), false)] {
            let orders = Arc::clone(&orders);
            hostile.ways.push(std::thread::spawn(move || {
                while !orders.stop.load(Ordering::Acquire) {
                    let Some(frame) = from.receive().unwrap() else { continue };
                    if frame.direction == Direction::Out {
                        continue;
                    }
                    if !(is_inward
                        && super::is_data(port, &frame.octets)
                        && orders.withholds.load(Ordering::Acquire))
                    {
                        to.send(&frame.octets).unwrap();
                    } else if orders.keeps.load(Ordering::Acquire) {
                        orders.kept.lock().unwrap().push(frame.octets);
                    }
                }
            }));
        }
        hostile
    }

    /// From now on data packets are kept.
    fn keep(&self) {
        self.orders.kept.lock().unwrap().clear();
        self.orders.keeps.store(true, Ordering::Release);
        self.orders.withholds.store(true, Ordering::Release);
    }

    /// From now on they are lost.
    fn lose(&self) {
        self.orders.keeps.store(false, Ordering::Release);
    }

    /// From now on they pass; those that were kept do not.
    fn pass(&self) {
        self.orders.withholds.store(false, Ordering::Release);
    }

    fn kept(&self) -> usize {
        self.orders.kept.lock().unwrap().len()
    }

    /// Lets the oldest of those that were kept go; says whether there is one.
    fn let_one_go(&self) -> bool {
        let mut kept = self.orders.kept.lock().unwrap();
        let is_one = !kept.is_empty();
        if is_one {
            self.to_site.send(&kept.remove(0)).unwrap();
        }
        is_one
    }

    fn stop(self, wan: &Wan) {
        self.orders.stop.store(true, Ordering::Release);
        self.ways.into_iter().for_each(|way| way.join().unwrap());
        wan.line(1).ip(&["link", "set", WIRE, "up"]).unwrap();
    }
}

impl Wan {
    /// Sends frames of the first LAN's station, wherever they go, no faster than any queue takes them.
    fn pour(&mut self, octets: usize, count: usize) {
        let sender = PacketSocket::open(self.probe(0).namespace, PROBE).unwrap();
        for burst in self.frames(octets, count).chunks(AT_ONCE) {
            burst.iter().for_each(|frame| sender.send(frame).unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops a site's gateway and starts it again, in the middle of whatever goes on.
    fn start_again(&mut self, index: usize) {
        let gateway = self.sites.sites.remove(index);
        gateway.stop().unwrap();
        let name = site_name(self.plant(index).number);
        let again = Station::start(program(), &self.plant(index).site, &self.sites.scratch, &name).unwrap();
        self.sites.sites.insert(index, again);
        all_up(&self.sites);
    }

    /// The station has begun anew: its first PNs come again until they are of another epoch.
    fn begin_anew(&mut self) {
        let epoch = |wan: &Self| wan.transmit_epoch(0);
        let (before, end) = (epoch(self), Instant::now() + DEADLINE);
        while epoch(self) == before {
            assert!(Instant::now() < end, "{:#?}", self.peer(0));
            self.pn = 1;
            self.frames_into(0, 60, 1);
        }
    }
}

/// More than 2,048 packets of an SA are kept back as it begins, and lost all but one, which comes when others have: every
/// honest frame behind it arrives, in its order. At an SA's first use, at its next AN, when the station begins anew, and
/// when either site's gateway does.
#[test]
fn one_packet_that_was_held_back_silences_no_sa() {
    let mut wan = Wan::new(PROTECTED[1]);
    let hostile = Hostile::start(&wan);
    type Begin = fn(&mut Wan);
    let begins: [(&str, Begin); 5] = [
        ("another AN", |wan| (wan.an, wan.pn) = (1, 1)),
        ("and another, whose PNs are high", |wan| (wan.an, wan.pn) = (2, 0x7fff_f800)),
        ("the station began anew", Wan::begin_anew),
        ("the sending gateway was started again", |wan| wan.start_again(0)),
        ("the receiving gateway was started again", |wan| wan.start_again(1)),
    ];
    for (what, begin) in begins {
        hostile.keep();
        begin(&mut wan);
        let end = Instant::now() + DEADLINE;
        while hostile.kept() < KEPT {
            assert!(Instant::now() < end, "{what}: {} kept, {:#?}", hostile.kept(), wan.peer(0));
            wan.pour(60, KEPT);
        }
        hostile.pass();
        wan.cross(60, 64);
        assert!(hostile.let_one_go());
        wan.cross(60, BEHIND);
    }
    // And when nothing else comes than what was held back.
    let verdict = |wan: &Wan| wan.report(1).sites.remove(0).verdict.state;
    let end = Instant::now() + DEADLINE;
    while verdict(&wan) != "late frames" {
        assert!(hostile.let_one_go() && Instant::now() < end, "not told: {:#?}", wan.report(1).sites);
        std::thread::sleep(Duration::from_millis(50));
    }
    wan.cross(60, 64);
    while verdict(&wan) == "late frames" {
        assert!(Instant::now() < end + DEADLINE, "told for ever");
        wan.cross(60, 64);
    }
    hostile.stop(&wan);
    let log = wan.stop_and_say(1);
    assert!(log.contains("warning: site \"plant-2\": late-without-new: "), "{log}");
}

/// Identifier mode: nothing passes for longer than a lane's anchors reach, but for packets from before that, which come so
/// often that the lane is never silent for long. The site asks all the same, and frames arrive before those run out.
#[test]
fn a_lost_lane_is_found_though_packets_that_were_held_drip_in() {
    const WINDOW: usize = 128;
    let mut wan = Wan::with(PROTECTED[0], "window = 128");
    let hostile = Hostile::start(&wan);
    hostile.keep();
    wan.pour(60, WINDOW - 8);
    let end = Instant::now() + DEADLINE;
    while hostile.kept() < WINDOW - 8 {
        assert!(Instant::now() < end, "{} kept, {:#?}", hostile.kept(), wan.peer(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    hostile.lose();
    // An anchor stands at each half of a window, 1,024 of them.
    let (before, end) = (wan.count(0, "OutPktsTunnelled"), Instant::now() + 3 * DEADLINE);
    while wan.count(0, "OutPktsTunnelled") < before + 1026 * WINDOW as u64 / 2 {
        assert!(Instant::now() < end, "{:#?}", wan.peer(0));
        wan.pour(60, 4096);
    }
    let asked = wan.count(1, "Resyncs");
    let mut lan = PacketSocket::open(wan.probe(1).namespace, PROBE).unwrap();
    let station = PacketSocket::open(wan.probe(0).namespace, PROBE).unwrap();
    let first = wan.pn;
    let arrived = loop {
        assert!(hostile.let_one_go(), "nothing arrives while packets drip in: {:#?}", wan.peer(1));
        hostile.pass();
        for frame in wan.frames(60, 3) {
            std::thread::sleep(Duration::from_millis(10));
            station.send(&frame).unwrap();
        }
        let heard = std::iter::from_fn(|| lan.receive_waiting().unwrap());
        let pns = heard
            .filter(|frame| frame.direction == Direction::In && frame.ethertype() == Some(0x88e5))
            .map(|frame| u32::from_be_bytes(frame.octets[16..20].try_into().unwrap()));
        if let Some(pn) = pns.into_iter().find(|pn| *pn >= first) {
            break pn;
        }
    };
    assert!(wan.count(1, "Resyncs") > asked, "frame {arrived} came of itself");
    wan.cross(60, 256);
    hostile.stop(&wan);
    wan.stop();
}
