//! Frames of machines on both LANs, each millisecond one, and a line that is long.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab::topology::{LEFT, Mac, RIGHT, WIRE};
use lab::{Direction, Machine, PacketSocket, Plants};

use super::{CYCLE, GROUP};
use crate::EXPERIMENT;
use crate::onebox::OneBox;

/// Frames of one machine to another, or to a group, and what came of them.
pub(super) struct Flow {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<usize>,
    receiver: JoinHandle<Vec<(u32, Instant)>>,
}

/// Figures of a flow that has ended.
#[derive(Debug)]
pub(super) struct Counted {
    sent: usize,
    /// Numbers that came more than once.
    twice: Vec<u32>,
    pub(super) lost: usize,
    /// The longest time without a frame.
    pub(super) gap: Duration,
}

impl Flow {
    fn start(from: &Machine, to: &Machine, destination: Mac, tag: u8) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let head = [&destination[..], &from.mac, &EXPERIMENT.0.to_be_bytes(), &[tag]].concat();
        let out = PacketSocket::open(&from.namespace, from.ifname).unwrap();
        let mut hears = PacketSocket::open(&to.namespace, to.ifname).unwrap();
        let (stop_sending, expected) = (Arc::clone(&stop), head.clone());
        let sender = std::thread::spawn(move || {
            let mut next = Instant::now();
            let mut number = 0_u32;
            while !stop_sending.load(Ordering::Relaxed) {
                out.send(&[&head[..], &number.to_be_bytes(), &[0; 60]].concat()).unwrap();
                number += 1;
                next = (next + CYCLE).max(Instant::now());
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            number as usize
        });
        let stop_hearing = Arc::clone(&stop);
        let receiver = std::thread::spawn(move || {
            let mut heard = Vec::new();
            let mut quiet = None;
            loop {
                match hears.receive().unwrap() {
                    Some(frame)
                        if frame.direction == Direction::In && frame.octets.starts_with(&expected) =>
                    {
                        let number = frame.octets[expected.len()..].first_chunk().unwrap();
                        heard.push((u32::from_be_bytes(*number), Instant::now()));
                    }
                    Some(_) => {}
                    None => std::thread::sleep(Duration::from_micros(100)),
                }
                if stop_hearing.load(Ordering::Relaxed) {
                    // Frames under way come still.
                    let since = *quiet.get_or_insert_with(Instant::now);
                    if since.elapsed() > Duration::from_secs(1) {
                        return heard;
                    }
                }
            }
        });
        Self { stop, sender, receiver }
    }

    /// Frames between the two machines of the one LAN, which pass switches and no box.
    pub(super) fn beside(boxes: &OneBox) -> Self {
        let (a, b) = (boxes.machine(0), boxes.machine(1));
        Self::start(a, b, b.mac, 4)
    }

    /// Figures of one that is none of [`Flows`].
    pub(super) fn end_alone(self) -> Counted {
        self.stop.store(true, Ordering::Relaxed);
        self.end()
    }

    fn end(self) -> Counted {
        let sent = self.sender.join().unwrap();
        let heard = self.receiver.join().unwrap();
        let mut times = vec![0_u32; sent];
        heard.iter().for_each(|(number, _)| times[*number as usize] += 1);
        let of = |which: fn(u32) -> bool| (0..).zip(&times).filter(move |(_, times)| which(**times));
        let gap = heard.windows(2).map(|pair| pair[1].1 - pair[0].1).max().unwrap_or(Duration::MAX);
        Counted {
            sent,
            twice: of(|times| times > 1).map(|(number, _)| number).collect(),
            lost: of(|times| times == 0).count(),
            gap,
        }
    }
}

/// Both directions at once, and a group.
pub(super) struct Flows([Flow; 3]);

impl Flows {
    pub(super) fn start(boxes: &OneBox) -> Self {
        let (a, b) = (boxes.machine(0), boxes.machine(2));
        Self([Flow::start(a, b, b.mac, 1), Flow::start(b, a, a.mac, 2), Flow::start(a, b, GROUP, 3)])
    }

    pub(super) fn end(self, what: &str) -> [Counted; 3] {
        // All at once: none is out of sight while another one ends.
        self.0.iter().for_each(|flow| flow.stop.store(true, Ordering::Relaxed));
        let counted = self.0.map(Flow::end);
        println!("{what}: {counted:?}");
        for flow in &counted {
            assert!(flow.twice.is_empty(), "{what}: {counted:#?}");
            assert!(flow.sent > 100, "{what}: {counted:#?}");
        }
        counted
    }
}

/// The line of a plant as a long one: each frame comes so much later. Until it is dropped.
pub(crate) struct LongLine {
    stop: Arc<AtomicBool>,
    ways: Vec<JoinHandle<()>>,
}

impl LongLine {
    pub(crate) fn start(plants: &Plants, plant: usize, far: Duration) -> Self {
        let plant = &plants.plants[plant];
        plants.fill_checksums(plant).unwrap();
        let line = plant.line.as_ref().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let ways = [(LEFT, RIGHT), (RIGHT, LEFT)].map(|(from, to)| {
            let [mut from, to] = [from, to].map(|ifname| PacketSocket::open(line, ifname).unwrap());
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut under_way = VecDeque::new();
                while !stop.load(Ordering::Relaxed) {
                    let mut is_idle = true;
                    while let Some(frame) = from.receive_waiting().unwrap() {
                        is_idle = false;
                        if frame.direction == Direction::In {
                            under_way.push_back((Instant::now() + far, frame.octets));
                        }
                    }
                    while let Some((_, octets)) = under_way.pop_front_if(|(due, _)| *due <= Instant::now()) {
                        is_idle = false;
                        to.send(&octets).unwrap();
                    }
                    if is_idle {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                }
            })
        });
        // Frames that both the bridge and this forward would arrive twice.
        line.ip(&["link", "set", WIRE, "down"]).unwrap();
        Self { stop, ways: ways.into() }
    }
}

impl Drop for LongLine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.ways.drain(..).for_each(|way| drop(way.join()));
    }
}
