//! The real program and a real wpa_supplicant agree on keys, and roll them while machines talk to each other.
//!
//! ```text
//!  machine A        gateway A              middle             gateway B        machine B
//! +---------+    +-------------+    +------------------+    +-------------+    +---------+
//! |      a0 |----| plain  prot |----| left        right |----| prot  plain |----| b0      |
//! +---------+    +-------------+    |  \___ wire ___/   |    +-------------+    +---------+
//!  10.77.0.1      frameward run     |        |          |     frameward run      10.77.0.2
//!                                   |   tap ─ vec0      |
//!                                   +------------|------+
//!                                    [guest] macsec0: wpa_supplicant, 10.77.0.3
//! ```
//!
//! Gateway B is there in groups of three only. Needs root, for the namespaces.

mod gateway;
mod group;
mod kay;
mod measure;
mod pinging;
mod rekeys;
mod restarts;
mod sites;
mod trouble;

use lab::topology::{LEFT, WIRE};
use lab::{Capture, Shape, Topology};
use wire::{EtherType, SecTag, SecureData};

use self::gateway::{Choice, Gateway};
use self::pinging::Pinging;
use super::guest::Guest;
use super::kernel::{self, MACSEC_MTU, MTU};
use super::supplicant::{self, Agreement, CAK_128, CAK_256, CKN, Key, Version};

/// The guest's addresses.
const GUEST_IP: &str = "10.77.0.3";
const GUEST_MAC: &str = "02:00:00:00:00:d3";

/// The namespaces, and a guest at the wire.
struct Laboratory {
    topology: Topology,
    guest: Guest,
}

impl Laboratory {
    fn new(version: Version) -> Laboratory {
        let topology = topology();
        let guest = station(&topology, version, GUEST_MAC);
        Laboratory { topology, guest }
    }

    /// Starts both ends, and waits until they agree.
    fn agree(&mut self, ours: &Choice, its: &Agreement) -> Gateway {
        let gateway = Gateway::start(&self.topology.gateway_a.namespace, "a", ours);
        its.start(&mut self.guest);
        take_up(&mut self.guest, GUEST_IP);
        self.same_key(&gateway, None);
        gateway
    }

    /// Waits until both ends use the same key both ways, another than `before`.
    fn same_key(&mut self, gateway: &Gateway, before: Option<&Key>) -> Key {
        let key = supplicant::wait_for_key(&mut self.guest, before);
        gateway.wait_for_key(&key.ki());
        key
    }

    /// Echo requests from machine A to the guest.
    fn ping(&self, octets: usize) -> Pinging {
        Pinging::start(&self.topology.machine_a, GUEST_IP, octets)
    }

    /// All frames that the guest's kernel received are in order, but for MKPDUs, which are not protected.
    fn kernel_is_content(&mut self) {
        let received = kernel::received(&mut self.guest);
        let strange =
            received.iter().find(|(name, count)| **count > 0 && !matches!(name.as_str(), "OK" | "NoTag"));
        assert_eq!(strange, None, "{received:?}");
        assert!(received["OK"] > 0);
    }
}

/// All but guests, and machines whose frames fit.
fn topology() -> Topology {
    topology_of(MACSEC_MTU)
}

/// All but guests, and machines with this MTU. Nothing on a guest's wire can be longer than 1500 octets.
fn topology_of(plain_mtu: usize) -> Topology {
    let shape = Shape { plain_mtu: plain_mtu as u32, protected_mtu: MTU as u32, ..Shape::default() };
    Topology::build(&shape).unwrap()
}

/// A guest at the wire, in which this version runs and those before.
fn station(topology: &Topology, version: Version, address: &str) -> Guest {
    let mut guest = match version {
        Version::V2_10 => Guest::at_switch(&topology.middle, WIRE),
        Version::V2_11 => Guest::at_switch_here(&topology.middle, WIRE),
    };
    guest.run(&format!("ip link set vec0 address {address} mtu {MTU} up"));
    guest
}

/// Gives `macsec0`, which is there as long as wpa_supplicant runs, its address.
fn take_up(guest: &mut Guest, ip: &str) {
    supplicant::wait(guest, "macsec0 is there", |guest| {
        guest.run("ip link show macsec0 2>&1; true").contains("macsec0@vec0").then_some(())
    });
    guest.run(&format!("ip link set macsec0 mtu {MACSEC_MTU} up && ip addr replace {ip}/24 dev macsec0"));
}

/// One way to set both ends.
struct Row {
    cak: &'static str,
    encrypt: bool,
    /// The lower one is the key server's.
    priorities: [u8; 2],
    /// The key server makes SAKs of GCM-AES-256.
    long_saks: bool,
}

/// Both ends agree, machines talk, and nothing else is on the wire.
fn talk(version: Version, rows: &[Row]) {
    let mut laboratory = Laboratory::new(version);
    for Row { cak, encrypt, priorities: [ours, its], long_saks } in rows {
        let wire = Capture::start(&laboratory.topology.middle, LEFT).unwrap();
        let link = if *long_saks && ours < its { "suite = \"gcm-aes-256\"" } else { "" };
        let choice = Choice { priority: *ours, cak, ckn: CKN, encrypt: *encrypt, link };
        let agreement = Agreement {
            cak,
            integrity_only: !encrypt,
            long_saks: *long_saks,
            ..Agreement::of_priority(version, *its)
        };
        let gateway = laboratory.agree(&choice, &agreement);
        let suite = if *long_saks { "gcm-aes-256" } else { "gcm-aes-128" };
        assert_eq!(gateway.agreement().sak().map(|sak| sak.suite.to_string()).as_deref(), Some(suite));
        for octets in [84, MACSEC_MTU] {
            let pinging = laboratory.ping(octets);
            pinging.wait_for(50);
            pinging.stop().are_complete();
        }
        gateway.knows_its_group(ours < its, 1);
        laboratory.kernel_is_content();
        // A key server that wants encryption encrypts, whoever it is.
        let expected = if *encrypt { SecureData::Encrypted } else { SecureData::Clear };
        let captured = wire.stop().unwrap().complete().unwrap();
        let mut protected = 0;
        for frame in &captured.frames {
            match frame.ethertype().map(EtherType) {
                Some(EtherType::MACSEC) => {
                    assert_eq!(SecTag::parse(&frame.octets[12..]).unwrap().data, expected);
                    protected += 1;
                }
                Some(EtherType::EAPOL) => {}
                _ => panic!("this is on the network: {:02x?}", frame.octets),
            }
        }
        assert!(protected >= 200, "{protected} protected frames");
        // The SAK in the key server's MKPDU opens every frame of both, whoever that is.
        let inspected = gateway.inspect(&captured);
        assert!(inspected.lines().any(|line| line.starts_with("SAK ")), "{inspected}");
        assert!(inspected.contains(&format!(" 0 bad, {protected} verified")), "{inspected}");
        supplicant::stop(&mut laboratory.guest);
        gateway.stop();
    }
}

/// Settings in which a version agrees with ours; SAKs of GCM-AES-256 are for those that know of them.
fn rows(version: Version, priorities: [u8; 2], encrypt: [bool; 2]) -> Vec<Row> {
    let row = |cak, encrypt, long_saks| Row { cak, encrypt, priorities, long_saks };
    let mut rows = vec![row(CAK_128, encrypt[0], false), row(CAK_256, encrypt[1], false)];
    if version == Version::V2_11 {
        rows.push(row(CAK_256, true, true));
    }
    rows
}

fn ours_is_key_server(version: Version) {
    talk(version, &rows(version, [8, 16], [true, false]));
}

fn the_supplicant_is_key_server(version: Version) {
    talk(version, &rows(version, [32, 16], [false, true]));
}

with_each_version!(ours_is_key_server, the_supplicant_is_key_server);
