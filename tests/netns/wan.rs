//! The internet between sites: what it sees of them, and what it can do to them.
//!
//! ```text
//!  probe ── switch ── [site 1: run] ── line 1 ── internet ── line 2 ── [site 2: run] ── switch ── probe
//!  prepared frames                    captures               attacks                              what arrives
//! ```

mod attacks;
mod cyclic;
mod eavesdropper;
mod epochs;
mod flood;
mod held;
mod impaired;
mod impostor;
mod moved;
mod nat;
mod providers;
mod scan;
mod tagged;

use std::time::{Duration, Instant};

use lab::macsec::{Port, Prepared};
use lab::plants::PROBE;
use lab::topology::LEFT;
use lab::{Capture, Direction, Frame, Namespace, PacketSocket, Plant, Plants, PlantsShape};
use perf::demo::sites::{PORT, Sites, SitesChoice};
use report::GatewayReport;
use report::site::SitePeerReport;

use super::{DEADLINE, counter, program};

/// Octets in front of a UDP payload: Ethernet 14, IPv4 20, UDP 8.
const UDP_PAYLOAD: usize = 42;
/// Protected modes, and the port of their data packets.
const PROTECTED: [(&str, u16); 2] = [("identifier", PORT), ("header-encryption", PORT + 1)];
/// Set in the first octet of every QUIC packet, and of no data packet on the same port.
const QUIC_BIT: u8 = 0x40;

/// Two plants without stations, and their sites.
struct Wan {
    plants: Plants,
    sites: Sites,
    port: u16,
    /// The AN of the stations' frames, and the PN of the next one.
    an: u8,
    pn: u32,
}

impl Wan {
    fn new(mode: (&'static str, u16)) -> Self {
        Self::with(mode, "")
    }

    /// The same with further lines of the sites' configurations.
    fn with((mode, port): (&'static str, u16), site: &'static str) -> Self {
        let shape = PlantsShape { stations: 0, lan_mtu: 1500, ..PlantsShape::default() };
        let plants = Plants::build(&shape).unwrap();
        let sites =
            Sites::start(program(), &plants, &SitesChoice { mode, site, ..SitesChoice::default() }).unwrap();
        Self::of(plants, sites, port)
    }

    /// Sites that run, as soon as frames cross.
    fn of(plants: Plants, sites: Sites, port: u16) -> Self {
        let mut wan = Self { plants, sites, port, an: 0, pn: 1 };
        wan.meet();
        wan
    }

    /// Frames both ways until they arrive: the sites know each other, the stations' places and their flows.
    fn meet(&mut self) {
        let end = Instant::now() + DEADLINE;
        loop {
            let trips =
                lab::macsec::round_trips(self.probe(0), self.probe(1), 100, self.pn, 4, Duration::ZERO)
                    .unwrap();
            self.pn += 4;
            if trips.lost() == 0 {
                break;
            }
            assert!(Instant::now() < end, "no frame crosses: {:#?}", self.report(0));
        }
        // Short forms only from here on.
        while self.peer(0).flows_announced + self.peer(1).flows_announced > 0 {
            assert!(Instant::now() < end, "{:#?}", self.peer(0));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn plant(&self, index: usize) -> &Plant {
        &self.plants.plants[index]
    }

    fn line(&self, index: usize) -> &Namespace {
        self.plant(index).line.as_ref().expect("there are lines")
    }

    /// A station that is played at a LAN's free end.
    fn probe(&self, index: usize) -> Port<'_> {
        let plant = self.plant(index);
        Port { namespace: &plant.lan, ifname: PROBE, mac: [2, 0, 0, 0, plant.number, 0x51] }
    }

    fn report(&self, index: usize) -> GatewayReport {
        self.sites.sites[index].report().unwrap()
    }

    fn peer(&self, index: usize) -> SitePeerReport {
        self.report(index).sites.remove(0).peers.remove(0)
    }

    /// The epoch in which a site sends to its peer. A session that is only just made anew has none yet.
    fn transmit_epoch(&self, index: usize) -> u32 {
        let end = Instant::now() + DEADLINE;
        loop {
            let peer = self.peer(index);
            if let Some(epoch) = &peer.transmit_epoch {
                return epoch.epoch;
            }
            assert!(Instant::now() < end, "nothing can be sent: {peer:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A counter of the tunnel at a site, its own or its peer's.
    fn count(&self, index: usize, name: &str) -> u64 {
        let site = self.report(index).sites.remove(0);
        let groups = [&site.tunnel, &site.path, &site.peers[0].counters];
        let found = groups.iter().flat_map(|group| group.iter()).filter(|(known, _)| *known == name);
        found.map(|(_, value)| value).sum()
    }

    fn wait_for_count(&self, index: usize, name: &str, least: u64) -> u64 {
        let end = Instant::now() + DEADLINE;
        loop {
            let value = self.count(index, name);
            if value >= least {
                return value;
            }
            assert!(Instant::now() < end, "{name} is {value} of {least}: {:#?}", self.report(index));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a site has taken in all that stood before its LAN port: what comes next meets no full queue.
    fn wait_until_idle(&self, index: usize) {
        let received = || counter(&self.report(index).sites.remove(0).lan.counters, "RxFrames");
        let (end, mut before) = (Instant::now() + DEADLINE, received());
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let now = received();
            if now == before {
                return;
            }
            assert!(Instant::now() < end, "frames go on coming: {now}");
            before = now;
        }
    }

    /// The next frames of the station at the first LAN, for the one at the second.
    fn frames(&mut self, octets: usize, count: usize) -> Vec<Vec<u8>> {
        self.frames_of(0, octets, count)
    }

    /// The next frames of the station at a LAN, for the one at the other. The same PNs do for both stations.
    fn frames_of(&mut self, index: usize, octets: usize, count: usize) -> Vec<Vec<u8>> {
        let mut prepared = Prepared::new(self.probe(index).mac, self.probe(1 - index).mac, octets, self.pn);
        self.pn += u32::try_from(count).unwrap();
        let frame = |_| {
            let mut frame = prepared.next_frame();
            frame[14] |= self.an;
            frame
        };
        (0..count).map(frame).collect()
    }

    /// The same frames, sent, wherever they go.
    fn frames_into(&mut self, index: usize, octets: usize, count: usize) -> Vec<Vec<u8>> {
        let frames = self.frames_of(index, octets, count);
        let sender = PacketSocket::open(self.probe(index).namespace, PROBE).unwrap();
        frames.iter().for_each(|frame| sender.send(frame).unwrap());
        frames
    }

    /// Sends frames into the first LAN and sees each come out of the second, octet for octet and in order.
    fn cross(&mut self, octets: usize, count: usize) {
        self.cross_from(0, octets, count);
    }

    /// The same the other way round.
    fn cross_back(&mut self, octets: usize, count: usize) {
        self.cross_from(1, octets, count);
    }

    fn cross_from(&mut self, index: usize, octets: usize, count: usize) {
        let frames = self.frames_of(index, octets, count);
        let sender = PacketSocket::open(self.probe(index).namespace, PROBE).unwrap();
        let mut receiver = PacketSocket::open(self.probe(1 - index).namespace, PROBE).unwrap();
        for window in frames.chunks(32) {
            for frame in window {
                sender.send(frame).unwrap();
            }
            for frame in window {
                assert_eq!(next_from(&mut receiver, &frames[0][16..20]).as_ref(), Some(frame));
            }
        }
    }

    /// Whether a captured frame is a data packet.
    fn is_data(&self, frame: &[u8]) -> bool {
        is_data(self.port, frame)
    }

    /// Data packets on their way to the second site, as they were on its line, while `work` went on.
    fn captured(&mut self, work: impl FnOnce(&mut Self)) -> Vec<Vec<u8>> {
        let capture = Capture::start(self.line(1), LEFT).unwrap();
        work(self);
        let captured = capture.stop().unwrap().complete().unwrap();
        let sent = captured.going(Direction::Out).map(|frame| &frame.octets);
        sent.filter(|frame| self.is_data(frame)).cloned().collect()
    }

    fn stop(self) {
        self.sites.stop().unwrap();
    }

    /// Stops the sites; all that one of them has said.
    fn stop_and_say(mut self, index: usize) -> String {
        let said = self.sites.sites.remove(index).stop().unwrap();
        self.stop();
        said
    }
}

/// Whether a captured frame is a data packet, where those go to this port.
pub(super) fn is_data(port: u16, frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 0])
        && frame.get(23) == Some(&17)
        && frame.get(36..38) == Some(&port.to_be_bytes())
        && frame.get(UDP_PAYLOAD).is_some_and(|first| port != PORT || first & QUIC_BIT == 0)
}

/// Whether a captured frame is one of those that a station is sent.
fn has_arrived(frame: &Frame) -> bool {
    frame.direction == Direction::In && frame.ethertype() == Some(0x88e5)
}

/// Time without a frame after which none is under way any more: a site that gets no CPU for seconds may have some still.
const QUIET: Duration = Duration::from_secs(4);

/// Waits until a capture has so many of these frames, or none comes for so long.
fn until_captured(capture: &Capture, count: usize, quiet: Duration, is: impl Fn(&Frame) -> bool) {
    let (mut looked, mut found, mut last) = (0, 0, Instant::now());
    while found < count && last.elapsed() < quiet {
        std::thread::sleep(Duration::from_millis(20));
        let more = capture.since(looked);
        looked += more.len();
        let more = more.iter().filter(|frame| is(frame)).count();
        if more > 0 {
            (found, last) = (found + more, Instant::now());
        }
    }
}

/// The next MACsec frame that comes in and has this PN or a later one: what a flood left behind is not looked at.
fn next_from(receiver: &mut PacketSocket, pn: &[u8]) -> Option<Vec<u8>> {
    loop {
        match next(receiver) {
            Some(frame) if frame[16..20] < *pn => {}
            other => return other,
        }
    }
}

/// The next MACsec frame that comes in.
fn next(receiver: &mut PacketSocket) -> Option<Vec<u8>> {
    let end = Instant::now() + DEADLINE;
    while Instant::now() < end {
        match receiver.receive().unwrap() {
            Some(frame) if frame.direction == Direction::In && frame.octets[12..14] == [0x88, 0xe5] => {
                return Some(frame.octets);
            }
            _ => {}
        }
    }
    None
}
