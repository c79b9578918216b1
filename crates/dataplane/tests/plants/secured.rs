//! Plants whose sites have a SecY between LAN and tunnel.

#![allow(dead_code)] // not every test uses all of it

use dataplane::link::{Link, Ports};
use dataplane::pipeline::Pipeline;
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use netdev::queue_port::QueuePort;
use netdev::udp::Offloads;
use secy::{
    ClearVlan, ConfidentialityOffset, Protection, ReceiveSa, SciInclusion, SecY, TransmitSa, ValidateFrames,
};
use suite::{CipherSuite, Key, Sak};
use tunnel::{Mode, Settings};
use wire::{An, MacAddr, Pn, Sci};

use crate::plants::{LAN_FRAMES, Plants, settings};

impl Plants {
    /// Sites with a LAN of machines at each, whose frames a SecY protects. All are of one group, under one key.
    pub(crate) fn secured(sites: usize) -> Self {
        Self::with_secys(sites, true)
    }

    /// The same with static keys: there is no KaY.
    pub(crate) fn secured_without_kay(sites: usize) -> Self {
        Self::with_secys(sites, false)
    }

    fn with_secys(sites: usize, has_kay: bool) -> Self {
        let mode = Mode::Identifier;
        let settings = Settings { lan_frame: 1518 + 40, ..settings(mode, sites - 1) };
        let mut plants = Self::of(sites, mode, Offloads::default(), &settings);
        for own in 0..sites {
            let others: Vec<_> = (0..sites).filter(|other| *other != own).collect();
            let mut pipeline = Pipeline::new(secy_of(own, &others), &[], None);
            let kay = has_kay.then(|| pipeline.connect_kay());
            let (plain, lan) = MemoryPort::pair(LAN_FRAMES);
            let pool = Pool::new(ChunkOctets::Octets2048, 512).unwrap();
            let protected = Box::new(QueuePort::default());
            let plant = &mut plants.plants[own];
            let site = plant.site.as_mut().unwrap();
            drop(site.close());
            site.secure(Box::new(Link::new(pool, Box::new(plain), protected, pipeline)));
            (plant.lan, plant.kay) = (lan, kay);
        }
        plants
    }

    /// As in an upgrade: another link goes on where that of a site was, without a KaY and with other ports.
    pub(crate) fn go_on(&mut self, own: usize) {
        let others: Vec<_> = (0..self.plants.len()).filter(|other| *other != own).collect();
        let plant = &mut self.plants[own];
        let site = plant.site.as_mut().unwrap();
        let mut before = site.take_link().unwrap();
        let words = before.pass_on_without_ports().unwrap();
        let next = before.pipeline().secy.transmit_sas().next().unwrap().pns().next().unwrap();
        drop(before);
        let mut link = Link::closed(Pipeline::new(secy_from(own, &others, next), &[], None));
        link.go_on(&words).unwrap();
        let (plain, lan) = MemoryPort::pair(LAN_FRAMES);
        let pool = Pool::new(ChunkOctets::Octets2048, 512).unwrap();
        let (plain, protected) = (Box::new(plain), Box::new(QueuePort::default()));
        link.open(Box::new(Ports { pool, plain, protected }));
        site.secure(Box::new(link));
        plant.lan = lan;
    }
}

/// The replay window of SecYs: that of the tunnel, as the configuration has it.
const WINDOW: u32 = Settings::WINDOW as u32;

/// The SCI of a site's SecY.
pub(crate) fn sci_of(own: usize) -> Sci {
    Sci::new(MacAddr([2, 0, 0, 0, 0xdd, own as u8]), 1)
}

/// The SecY of a site, with the SAs of a group.
fn secy_of(own: usize, others: &[usize]) -> SecY {
    secy_from(own, others, Pn::FIRST)
}

/// The same, which sends from this PN on.
fn secy_from(own: usize, others: &[usize], first: Pn) -> SecY {
    let settings = secy::Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        reassemble: false,
        mtu: 1500 + 40,
    };
    let protection = Protection::Encrypt(ConfidentialityOffset::Zero);
    let suite = CipherSuite::GcmAes128;
    let key = || Key::prepare(suite, &Sak::new(suite, &[0x5a; 16]).unwrap()).unwrap();
    let (an, mut secy) = (An::ALL[0], SecY::new(sci_of(own), settings));
    let transmit = TransmitSa::new(an, key(), None, protection, first, Pn::LAST_64).unwrap();
    secy.install_transmit(Box::new(transmit)).unwrap();
    secy.enable_transmit(an).unwrap();
    for other in others {
        secy.install_receive_sc(sci_of(*other)).unwrap();
        let receive = ReceiveSa::new(an, key(), None, protection, Pn::FIRST, WINDOW).unwrap();
        secy.install_receive(sci_of(*other), Box::new(receive)).unwrap();
        secy.enable_receive(sci_of(*other), an).unwrap();
    }
    secy
}
