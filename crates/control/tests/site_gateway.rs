//! Sites in the workers of a gateway, with LAN ports on virtual wires: needs root.
//!
//! ```text
//!  machine 0 ── lan0 [site 0] ══ 127.0.0.1 ══ [site 1] lan1 ── machine 1
//! ```

#![allow(clippy::unwrap_used)]

#[path = "../../netdev/tests/netns/mod.rs"]
mod netns;
#[path = "../../dataplane/tests/plants/mod.rs"]
mod plants;

use std::io::Read;
use std::time::{Duration, Instant};

use control::Gateway;
use dataplane::open::{Io, open_lan};
use dataplane::site::{SiteSnapshot, ToWorker};
use dataplane::worker::Polling;
use netdev::interface::{Interface, Prepared};
use netdev::scheduling::Scheduling;
use netdev::udp::Offloads;
use netns::{Machine, StateDirectory, in_namespace, run, wire};
use plants::{PATIENCE, Plants, macsec, peer, station};
use pnstore::LeaseStore;
use tunnel::{Command, Event, Generation, Mode};

/// Time to wait for a frame before the manager has its turn again.
const GLANCE: Duration = Duration::from_millis(2);

/// Sleep of a worker that nobody wakes: if something takes so long, the end of the sleep brought it.
const SLEEP: Duration = Duration::from_millis(100);

/// Two sites in a gateway, whose workers sleep whenever nothing comes.
struct Stand {
    gateway: Gateway,
    plants: Plants,
    machines: [Machine; 2],
    prepared: [Prepared; 2],
    _state: StateDirectory,
}

impl Stand {
    fn new(io: Io, label: &str) -> Self {
        run("ip link set lo up");
        let state = StateDirectory::new(label);
        let leases = LeaseStore::open(&state.0.join("leases"), None).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        let mut plants = Plants::new(2, Mode::Identifier, Offloads::default());
        let prepared = [0, 1].map(|number| {
            wire(&format!("machine{number}"), &format!("lan{number}"), 1, 1500);
            run(&format!("ethtool -K machine{number} tx off"));
            Prepared::apply(Interface::open(&format!("lan{number}")).unwrap(), &state.0).unwrap()
        });
        for (number, prepared) in prepared.iter().enumerate() {
            let name = format!("site{number}");
            let mut site = plants.plants[number].site.take().unwrap();
            drop(site.close());
            gateway.add_site(name.clone(), Box::new(site)).unwrap();
            gateway.open_site(&name, Box::new(open_lan(prepared, io).unwrap().lan)).unwrap();
        }
        let machines = [0, 1].map(|number| Machine::on(&format!("machine{number}")));
        Self { gateway, plants, machines, prepared, _state: state }
    }

    /// Sends a frame from one machine and waits until it is at the other.
    fn pass(&mut self, from: usize, frame: &[u8]) {
        self.machines[from].send(frame);
        self.expect(1 - from, frame);
    }

    /// Waits for a frame at a machine: nothing else of MACsec comes before.
    fn expect(&mut self, to: usize, frame: &[u8]) {
        let give_up = Instant::now() + PATIENCE;
        while Instant::now() < give_up {
            self.manage();
            while let Some(came) = self.machines[to].receive(GLANCE) {
                if came[12..14] == [0x88, 0xe5] {
                    assert!(came == frame);
                    return;
                }
            }
        }
        panic!("a frame was lost: {:?}", self.gateway.site_snapshots());
    }

    fn manage(&mut self) {
        if self.plants.manage() > 0 {
            self.plants.plants.iter().for_each(|plant| plant.manager.wake());
        }
    }

    fn snapshot(&mut self, number: usize) -> SiteSnapshot {
        let mut snapshots = self.gateway.site_snapshots();
        assert_eq!(snapshots[number].0, format!("site{number}"));
        snapshots.swap_remove(number).1
    }
}

#[test]
fn frames_cross_workers_that_sleep_between_them() {
    for (io, engine) in [(Io::AfPacket, "site-packet"), (Io::AfXdp, "site-xdp")] {
        in_namespace(move || {
            let mut stand = Stand::new(io, engine);
            let mut asleep = 0;
            for pn in 1..=250 {
                for from in [0_u8, 1] {
                    let octets = if pn % 2 == 0 { 1514 } else { 60 };
                    let start = Instant::now();
                    stand.pass(from.into(), &macsec(station(1 - from), station(from), pn, octets));
                    asleep += usize::from(start.elapsed() >= SLEEP);
                }
            }
            assert!(asleep < 250, "woken by nobody {asleep} times of 500");
            for number in 0..2 {
                let snapshot = stand.snapshot(number);
                let counters = snapshot.peers[0].counters;
                assert_eq!((counters.out_pkts_tunnelled, counters.in_pkts_tunnelled), (250, 250));
                assert_eq!((counters.out_pkts_split, counters.in_pkts_joined), (125, 125));
                assert_eq!((snapshot.stations.len(), snapshot.flows.len()), (2, 1));
                assert_eq!(snapshot.peers[0].transmit_epoch, 1);
            }
        });
    }
}

#[test]
fn a_word_wakes_the_worker_and_an_event_the_manager() {
    in_namespace(|| {
        let mut stand = Stand::new(Io::AfPacket, "site-words");
        stand.pass(0, &macsec(station(1), station(0), 1, 60));
        let manager = &mut stand.plants.plants[0].manager;
        let mut bell = manager.socket().unwrap();
        bell.set_nonblocking(false).unwrap();
        bell.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut answered, mut asleep) = (0, 0);
        while answered < 250 {
            let start = Instant::now();
            let (peer, generation) = (peer(0, 1), Generation(1));
            let word = Command::RequestPosition { peer, generation, epoch: 1, lane: 0 };
            assert!(manager.messages.send(ToWorker::Tunnel(word)));
            manager.wake();
            assert!(bell.read(&mut [0; 64]).unwrap() > 0);
            while let Some(event) = manager.messages.receive() {
                answered += usize::from(matches!(event, Event::Position { epoch: 1, lane: 0, .. }));
            }
            asleep += usize::from(start.elapsed() >= SLEEP);
        }
        assert!(asleep < 125, "woken by nobody {asleep} times of {answered}");
    });
}

#[test]
fn lan_ports_come_and_go_and_sites_too() {
    in_namespace(|| {
        let mut stand = Stand::new(Io::Auto, "site-ports");
        stand.pass(0, &macsec(station(1), station(0), 1, 60));
        stand.pass(1, &macsec(station(0), station(1), 1, 60));
        stand.gateway.close_site("site1").unwrap();
        for pn in 2..12 {
            stand.machines[0].send(&macsec(station(1), station(0), pn, 60));
        }
        let give_up = Instant::now() + PATIENCE;
        while stand.snapshot(1).path.in_pkts_no_lan < 10 {
            assert!(Instant::now() < give_up, "{:?}", stand.snapshot(1));
        }
        let lan = open_lan(&stand.prepared[1], Io::Auto).unwrap().lan;
        stand.gateway.open_site("site1", Box::new(lan)).unwrap();
        stand.pass(0, &macsec(station(1), station(0), 12, 60));
        assert_eq!(stand.snapshot(1).lan.tx_frames, 2, "those of the port before are counted too");

        let site = stand.gateway.remove_site("site1").unwrap();
        assert_eq!(stand.gateway.site_snapshots().len(), 1);
        assert!(stand.gateway.remove_site("site1").is_err());
        let waits = macsec(station(1), station(0), 13, 60);
        stand.machines[0].send(&waits);
        // A frame that waited in its socket meanwhile is delivered when the site is back.
        stand.gateway.add_site("site1".into(), site).unwrap();
        stand.expect(1, &waits);
        stand.pass(0, &macsec(station(1), station(0), 14, 60));
    });
}
